/*
 * accept.c - see accept.h. Thread: listener_open from the main thread, the rest is the loop's.
 */
#include "http/server/accept.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

/* In a TCP header. */
#define TCP_FLAGS_AT 13
#define TCP_SYN 0x02
#define TCP_ACK 0x10

/* While so small a part of the connections is left, no client may have more than as large a one. */
#define SHARE_PART 4

/* A header is shorter, as a rule. */
#define PROXY_PEEK_BYTES 512

/* %s: the address. */
#define PROXY_MISSING                                                                              \
    "proxy.from names %s, so each connection from there begins with a header of the PROXY "        \
    "protocol, and this one does not: let the proxy send it (send-proxy)"

/* --- making the sockets --- */

/* SO_REUSEPORT would let a second leafd take the same port unnoticed and half of the requests with
 * it. So first see whether an unshared socket could have it. */
static int probe(struct sockaddr_storage *addr)
{
    int fd;
    int rv = address_listen(addr, LIMIT_HTTP_BACKLOG, false, &fd);

    if (rv == 0) {
        close(fd);
    }
    return rv;
}

int listener_open(const char *address, unsigned count, int *ret_fds, uint16_t *ret_port)
{
    struct sockaddr_storage addr;
    int rv;

    ASSERT(count >= 1 && count <= LIMIT_HTTP_LOOPS);
    rv = address_resolve(address, &addr);
    if (rv == 0 && count > 1 && address_port(&addr) != 0) {
        rv = probe(&addr);
    }
    /* The port that 0 becomes for the first is the others' too. */
    for (unsigned i = 0; rv == 0 && i < count; i++) {
        rv = address_listen(&addr, LIMIT_HTTP_BACKLOG, count > 1, &ret_fds[i]);
        while (rv != 0 && i > 0) {
            close(ret_fds[--i]);
        }
    }
    if (rv == 0) {
        *ret_port = address_port(&addr);
    }
    return rv;
}

/* --- new connections --- */

/* Is a connection of this client one too many? METER_REFUSALS: no. While few are left no client
 * takes more than its share. This machine's own address does, since it may stand for many clients.
 * */
static enum meter_refusal too_many(const struct conns *conns, const struct http_client *client)
{
    uint32_t max = atomic_load_explicit(&client->connections_max, memory_order_relaxed);
    uint32_t most = conns->settings->connections;

    if (max > 0 && client->connections > max) {
        return REFUSED_CONNECTIONS;
    }
    return !client->is_local && conns->counts.conns >= most - most / SHARE_PART &&
                   client->connections > most * conns->settings->loops / SHARE_PART
               ? REFUSED_SHARE
               : METER_REFUSALS;
}

/* There are too many connections, of its client or of all. */
COLD static void turn_away(struct conn *conn, enum meter_refusal refusal)
{
    conn_refuse(conn, refusal, refusal == REFUSED_CONNECTIONS ? conn->client->connections_max : 0);
    conn_rest(conn);
}

/* --- for whom a proxy has made a connection --- */

/* The connection counts for the client that the header names, or else for the proxy. */
static void proxy_count(struct conn *conn)
{
    const struct sockaddr *address = &conn->proxied->client.any;
    struct clients *clients = conn->conns->clients;

    ASSERT(conn->client == conn->peer && conn->is_uncounted);
    if (address->sa_family != AF_UNSPEC) {
        clients_release(clients, conn->peer);
        conn->peer = clients_of_address(clients, address);
        conn->client = conn->peer;
    }
    atomic_fetch_add_explicit(&conn->peer->connections, 1, memory_order_relaxed);
    conn->is_uncounted = false;
}

/* The header is there: all is as if its client had connected. */
static void proxy_done(struct conn *conn)
{
    struct conns *conns = conn->conns;
    enum meter_refusal refusal;

    proxy_count(conn);
    refusal = too_many(conns, conn->peer);
    if (refusal == METER_REFUSALS) {
        conn_rest(conn);
    } else if (conns->refused_count >= LIMIT_HTTP_REFUSED || conn->wire.tls != NULL) {
        conn_count_refusal(conn, refusal);
        conn_close(conn, "the client has too many connections");
    } else {
        conn->refused = true;
        conns->refused_count++;
        turn_away(conn, refusal);
    }
}

/* There is none: whoever it is gets a word about it, without TLS, as that has not begun. */
COLD static void proxy_fail(struct conn *conn)
{
    char why[sizeof PROXY_MISSING + LIMIT_CLIENT_NAME_BYTES];
    const struct parser_reject reject = {400, "bad_request", why, 0};

    (void)snprintf(why, sizeof why, PROXY_MISSING, conn->peer->name);
    if (conn->wire.tls != NULL) {
        wire_end_tls(&conn->wire);
    }
    conn_reject(conn, &reject);
    conn_rest(conn);
}

/* Take of the socket what belongs to the header, and no more. */
static void proxy_cb(uv_poll_t *poll, int status, int events)
{
    struct conn *conn = poll->data;
    int fd = conn->wire.fd;
    uint8_t bytes[PROXY_PEEK_BYTES];
    ssize_t count = status < 0 ? 0 : recv(fd, bytes, sizeof bytes, MSG_PEEK);
    enum proxy_step step;
    size_t used;

    (void)events;
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        conn_close(conn, "the proxy has gone before its header was there");
        return;
    }
    if (count < 0) {
        return;
    }
    step = proxy_take(conn->proxied, bytes, (size_t)count, &used);
    if (recv(fd, bytes, used, 0) != (ssize_t)used) {
        conn_close(conn, "read failed");
        return;
    }
    if (step == PROXY_MORE) {
        return;
    }
    conn->events = -1; /* of this callback; conn_rest() sets the usual one */
    timer_cancel(&conn->conns->timers, &conn->read_timer);
    conn_move(conn, CONN_IDLE);
    if (step == PROXY_DONE) {
        proxy_done(conn);
    } else {
        proxy_fail(conn);
    }
}

static void proxy_begin(struct conn *conn)
{
    conn->proxied = MUST_HAVE(calloc(1, sizeof *conn->proxied));
    conn_move(conn, CONN_PROXY);
    conn_set_deadline(conn);
    conn->events = UV_READABLE;
    if (uv_poll_start(&conn->poll, conn->events, proxy_cb) != 0) {
        conn_close(conn, "cannot poll");
    }
}

void conns_take(struct conns *conns, const struct listener *listener, int fd,
                const struct sockaddr *peer)
{
    struct http_client *client = clients_of_address(conns->clients, peer);
    const char *proxies = conns->settings->proxies;
    bool is_proxy = proxies != NULL && proxy_is_named(proxies, peer);
    enum meter_refusal refusal = METER_REFUSALS;
    struct conn *conn = NULL;

    atomic_fetch_add_explicit(&client->connections, !is_proxy, memory_order_relaxed);
    if (conns->counts.conns - conns->refused_count >= conns->settings->connections) {
        refusal = REFUSED_FULL;
    } else if (!is_proxy) {
        refusal = too_many(conns, client);
    }
    /* To say so over TLS would need the handshake first. */
    if (refusal != METER_REFUSALS &&
        (conns->refused_count >= LIMIT_HTTP_REFUSED || listener->tls)) {
        conns_count(&conns->counts.refused[refusal], 1);
        close(fd);
    } else {
        conn = conn_new(conns, listener, fd, client, refusal != METER_REFUSALS);
    }
    if (conn == NULL) {
        atomic_fetch_sub_explicit(&client->connections, !is_proxy, memory_order_relaxed);
        clients_release(conns->clients, client);
        return;
    }
    conn->is_uncounted = is_proxy;
    if (refusal != METER_REFUSALS) {
        turn_away(conn, refusal);
    } else if (is_proxy) {
        proxy_begin(conn);
    } else {
        conn_rest(conn);
    }
}

/* --- accepting --- */

static void reserve_open(struct acceptor *acceptor)
{
    if (acceptor->reserve_fd < 0) {
        acceptor->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
}

static void fd_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static int accept_one(const struct acceptor *acceptor, struct sockaddr_storage *ret_peer)
{
    socklen_t len = sizeof *ret_peer;

    ret_peer->ss_family = AF_UNSPEC;
    return accept4(acceptor->listen_fd, (struct sockaddr *)ret_peer, &len,
                   SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void accept_pause(struct acceptor *acceptor)
{
    struct conns *conns = acceptor->conns;

    uv_poll_stop(&acceptor->poll);
    timer_arm(&conns->timers, &acceptor->again, conns_now_ms(conns) + LIMIT_HTTP_ACCEPT_PAUSE_MS);
}

/* Out of descriptors: with the reserve's, tell one who waits, then pause. */
static void accept_starved(struct acceptor *acceptor, int err)
{
    const struct listener *listener = &acceptor->listener;
    const char *reply = listener->talker->starved;
    struct sockaddr_storage peer;
    int fd;

    if (!acceptor->warned) {
        log_warn("http", "cannot accept connections; pausing", "loop=%u error=\"%s\"",
                 acceptor->index, strerrordesc_np(err));
        acceptor->warned = true;
    }
    fd_close(&acceptor->reserve_fd);
    fd = accept_one(acceptor, &peer);
    if (fd >= 0) {
        if (!listener->tls) {
            (void)send(fd, reply, strlen(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        (void)shutdown(fd, SHUT_WR);
        close(fd);
    }
    reserve_open(acceptor);
    accept_pause(acceptor);
}

static void take_socket(struct acceptor *acceptor, int fd, const struct sockaddr_storage *peer)
{
    if (acceptor->warned) {
        acceptor->warned = false;
        log_info("http", "accepting connections again", "loop=%u", acceptor->index);
    }
    conns_take(acceptor->conns, &acceptor->listener, fd, (const struct sockaddr *)peer);
}

static void accept_cb(uv_poll_t *poll, int status, int events)
{
    struct acceptor *acceptor = poll->data;
    struct sockaddr_storage peer;

    (void)events;
    if (status != 0) {
        /* libuv has stopped watching. */
        log_warn("http", "the listener reports an error; pausing", "loop=%u error=\"%s\"",
                 acceptor->index, uv_strerror(status));
        accept_pause(acceptor);
        return;
    }
    for (int i = 0; i < LIMIT_HTTP_ACCEPTS_PER_TURN; i++) {
        int fd = accept_one(acceptor, &peer);

        if (fd >= 0) {
            take_socket(acceptor, fd, &peer);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            accept_starved(acceptor, errno);
            break;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            break;
        }
    }
}

static void again_fire(struct timer *timer, uint64_t now_ms)
{
    struct acceptor *acceptor = CONTAINER(timer, struct acceptor, again);

    (void)now_ms;
    ASSERT(uv_poll_start(&acceptor->poll, UV_READABLE, accept_cb) == 0);
}

int acceptor_init(struct acceptor *acceptor, struct conns *conns, const struct listener *listener,
                  unsigned index, int listen_fd)
{
    *acceptor = (struct acceptor){.conns = conns,
                                  .listener = *listener,
                                  .index = index,
                                  .listen_fd = listen_fd,
                                  .reserve_fd = -1};
    timer_init(&acceptor->again, again_fire);
    if (uv_poll_init(conns->uv, &acceptor->poll, listen_fd) != 0) {
        fd_close(&acceptor->listen_fd);
        return ERR_IO;
    }
    acceptor->poll.data = acceptor;
    reserve_open(acceptor);
    ASSERT(uv_poll_start(&acceptor->poll, UV_READABLE, accept_cb) == 0);
    return 0;
}

void acceptor_fade(struct acceptor *acceptor)
{
    /* Of a segment that comes to the listener: those that begin a connection are dropped. */
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TCP_SYN | TCP_ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TCP_SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog filter = {sizeof code / sizeof code[0], code};

    if (acceptor->conns == NULL) {
        return; /* there is no such listener */
    }
    /* Without it those who come at the last moment are reset. */
    (void)setsockopt(acceptor->listen_fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

/* Those whom the kernel has let in. */
static void take_all(struct acceptor *acceptor)
{
    struct sockaddr_storage peer;
    int fd;

    for (int i = 0; i < LIMIT_HTTP_BACKLOG && (fd = accept_one(acceptor, &peer)) >= 0; i++) {
        take_socket(acceptor, fd, &peer);
    }
}

static void listener_closed_cb(uv_handle_t *handle)
{
    struct acceptor *acceptor = handle->data;

    fd_close(&acceptor->reserve_fd);
    fd_close(&acceptor->listen_fd);
}

void acceptor_close(struct acceptor *acceptor)
{
    if (acceptor->conns == NULL) {
        return; /* there is no such listener */
    }
    timer_cancel(&acceptor->conns->timers, &acceptor->again);
    if (!uv_is_closing((uv_handle_t *)&acceptor->poll)) {
        take_all(acceptor);
        uv_close((uv_handle_t *)&acceptor->poll, listener_closed_cb);
    }
}
