/*
 * loop.c - see loop.h. Threads: as said there; loop_drained() on the loops.
 */
#include "http/server/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/server/conn.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/base/limits.h"
#include "src/base/log.h"

struct http_server {
    const struct http_settings *settings;
    const struct http_service *service;
    unsigned loop_count;
    unsigned made;           /* loops with handles, from the first on */
    unsigned running;        /* of these, with a thread */
    struct http_loop *loops; /* loop_count */
    struct clients *clients; /* of all loops */
    uint32_t retire_ms;
    bool retire_begun;
    bool drain_begun;
    uint32_t grace_ms;
    _Atomic unsigned drain_left; /* loops that still have connections */
    void (*drain_cb)(void *data);
    void *drain_data;
};

/* In a TCP header. */
#define TCP_FLAGS_AT 13
#define TCP_SYN 0x02
#define TCP_ACK 0x10

/* While only this part of the connections is left, no client may have more than this part. */
#define SHARE_PART 4

/* A header is usually shorter. */
#define PROXY_PEEK_BYTES 512

/* --- new connections --- */

/* Is a connection of this client one too many? METER_REFUSALS: no. While few are left, no client
 * takes more than its share. This machine's own address may, since it can be many clients.
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

/* --- the header of a proxy --- */

/* The header is complete: continue as if its client had connected. The connection counts for the
 * client that the header names, else for the proxy. */
static void proxy_done(struct conn *conn)
{
    const struct sockaddr *address = &conn->proxied->client.any;
    struct conns *conns = conn->conns;
    enum meter_refusal refusal;

    ASSERT(conn->client == conn->peer && conn->is_uncounted);
    if (address->sa_family != AF_UNSPEC) {
        clients_release(conns->clients, conn->peer);
        conn->peer = clients_of_address(conns->clients, address);
        conn->client = conn->peer;
    }
    atomic_fetch_add_explicit(&conn->peer->connections, 1, memory_order_relaxed);
    conn->is_uncounted = false;
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

/* Take only the bytes of the header from the socket. */
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
    conn->events = -1; /* forget this callback's; conn_rest() sets the usual ones */
    timer_cancel(&conn->conns->timers, &conn->read_timer);
    conn_move(conn, CONN_IDLE);
    if (step == PROXY_DONE) {
        proxy_done(conn);
        return;
    }
    if (conn->wire.tls != NULL) { /* the error is without TLS, which has not begun */
        wire_end_tls(&conn->wire);
    }
    conn_reject_proxy(conn, true);
    conn_rest(conn);
}

void conns_take(struct conns *conns, const struct listener *listener, int fd,
                const struct sockaddr *peer)
{
    struct http_client *client = clients_of_address(conns->clients, peer);
    bool is_proxy = proxy_is_named(conns->settings->proxies, peer);
    enum meter_refusal refusal = METER_REFUSALS;
    struct conn *conn = NULL;

    atomic_fetch_add_explicit(&client->connections, !is_proxy, memory_order_relaxed);
    if (conns->counts.conns - conns->refused_count >= conns->settings->connections) {
        refusal = REFUSED_FULL;
    } else if (!is_proxy) {
        refusal = too_many(conns, client);
    }
    /* An error over TLS would need the handshake first. */
    if (refusal != METER_REFUSALS &&
        (conns->refused_count >= LIMIT_HTTP_REFUSED || listener->tls)) {
        counter_add(&conns->counts.refused[refusal], 1);
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
        conn->proxied = MUST_HAVE(calloc(1, sizeof *conn->proxied));
        conn_move(conn, CONN_PROXY);
        timer_arm(&conns->timers, &conn->read_timer, conn->since_ms + conns->settings->head_ms);
        conn->events = UV_READABLE;
        if (uv_poll_start(&conn->poll, conn->events, proxy_cb) != 0) {
            conn_close(conn, "cannot poll");
        }
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
    timer_arm(&conns->timers, &acceptor->again, uv_now(conns->uv) + LIMIT_HTTP_ACCEPT_PAUSE_MS);
}

/* Out of descriptors: with the reserve's, answer one waiting client, then pause. */
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

static void listener_closed_cb(uv_handle_t *handle)
{
    struct acceptor *acceptor = handle->data;

    fd_close(&acceptor->reserve_fd);
    fd_close(&acceptor->listen_fd);
}

/* Stop for good: take the connections already made, close handles and descriptors. Idempotent. */
static void close_listeners(struct http_loop *loop)
{
    struct sockaddr_storage peer;
    int fd;

    for (unsigned i = 0; i < ACCEPTORS; i++) {
        struct acceptor *acceptor = &loop->acceptors[i];

        if (acceptor->listen_fd < 0 || uv_is_closing((uv_handle_t *)&acceptor->poll)) {
            continue;
        }
        timer_cancel(&loop->conns.timers, &acceptor->again);
        for (int k = 0; k < LIMIT_HTTP_BACKLOG && (fd = accept_one(acceptor, &peer)) >= 0; k++) {
            take_socket(acceptor, fd, &peer);
        }
        uv_close((uv_handle_t *)&acceptor->poll, listener_closed_cb);
    }
}

/* --- the port --- */

void http_port_ref(struct http_port *port)
{
    ASSERT(atomic_fetch_add(&port->refs, 1) > 0);
}

void http_port_unref(struct http_port *port)
{
    uint32_t before = atomic_fetch_sub(&port->refs, 1);

    ASSERT(before > 0);
    if (before == 1) {
        mailbox_free(&port->mailbox);
        free(port);
    }
}

/* --- turns --- */

static void loop_timer_cb(uv_timer_t *timer);

/* Empty: while the handle is active, the loop does not sleep. */
static void no_rest_cb(uv_idle_t *idle)
{
    (void)idle;
}

/* A loop that drains has no connection left. Reported once. */
static void loop_drained(struct http_loop *loop)
{
    struct http_server *server = loop->server;
    unsigned before;

    if (loop->drained) {
        return;
    }
    loop->drained = true;
    before = atomic_fetch_sub(&server->drain_left, 1);
    ASSERT(before > 0);
    if (before == 1) {
        server->drain_cb(server->drain_data);
    }
}

/* Every turn ends here: output is sent, the timer is set to the earliest deadline, and the turn's
 * time is noted. libuv reads the clock when its wait is over: the turn is the time since then. */
HOT static void turn_end_cb(uv_check_t *check)
{
    struct http_loop *loop = check->data;
    struct conns *conns = &loop->conns;
    bool more = conns_turn_end(conns);
    uint64_t now_ms = uv_now(&loop->uv);
    uint64_t due_ms;
    uint64_t end_us;

    if (more && !loop->stopping) { /* let the next turn come at once */
        (void)uv_idle_start(&loop->no_rest, no_rest_cb);
    } else {
        (void)uv_idle_stop(&loop->no_rest);
    }
    mailbox_flush(); /* the raft loop is woken once for all requests of the turn */
    if (conns->draining && !timer_is_armed(&loop->last) && conns->counts.conns == 0) {
        timer_cancel(&conns->timers, &loop->grace);
        loop_drained(loop);
    }
    due_ms = timers_next_ms(&conns->timers);
    if (due_ms < loop->timer_due_ms && !loop->stopping) {
        loop->timer_due_ms = due_ms;
        ASSERT(uv_timer_start(&loop->timer, loop_timer_cb, due_ms > now_ms ? due_ms - now_ms : 0,
                              0) == 0);
    }
    end_us = uv_hrtime() / 1000;
    latency_turn_end(&conns->latency, end_us);
    stall_begin(&conns->stall, now_ms, "requests");
    stall_end(&conns->stall, end_us / 1000, loop->name);
}

static void loop_timer_cb(uv_timer_t *timer)
{
    struct http_loop *loop = timer->data;

    loop->timer_due_ms = TIMER_NEVER;
    timers_run(&loop->conns.timers, uv_now(&loop->uv));
    turn_end_cb(&loop->turn_end);
}

static void turn_taken_cb(struct mailbox_item *item)
{
    atomic_store(&CONTAINER(item, struct http_loop, turn_item)->turn_asked, false);
}

/* --- the steps of shutdown --- */

static void last_fire(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    close_listeners(CONTAINER(timer, struct http_loop, last));
}

static void grace_fire(struct timer *timer, uint64_t now_ms)
{
    struct http_loop *loop = CONTAINER(timer, struct http_loop, grace);

    (void)now_ms;
    timer_cancel(&loop->conns.timers, &loop->last);
    close_listeners(loop);
    conns_close(&loop->conns, "drained");
}

static void loop_retire_cb(struct mailbox_item *item)
{
    struct http_loop *loop = CONTAINER(item, struct http_loop, retire_item);

    if (!loop->stopping) {
        conns_retire(&loop->conns, loop->server->retire_ms);
    }
}

static void loop_drain_cb(struct mailbox_item *item)
{
    /* Of the segments for a listener, drop those that begin a connection. */
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS_AT),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TCP_SYN | TCP_ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TCP_SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    static const struct sock_fprog filter = {COUNT_OF(code), code};
    struct http_loop *loop = CONTAINER(item, struct http_loop, drain_item);
    uint64_t now_ms = uv_now(&loop->uv);

    if (loop->stopping) {
        return;
    }
    /* From now on the kernel lets no client begin a connection; one that has begun is still
     * accepted. Without the filter, a connection between the last accept and the close would be
     * reset. */
    for (unsigned i = 0; i < ACCEPTORS; i++) {
        (void)setsockopt(loop->acceptors[i].listen_fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter,
                         sizeof filter);
    }
    timer_arm(&loop->conns.timers, &loop->last, now_ms + LIMIT_HTTP_LAST_MS);
    conns_drain(&loop->conns);
    timer_arm(&loop->conns.timers, &loop->grace, now_ms + loop->server->grace_ms);
}

/* Close everything; then the thread's uv_run() returns. */
static void loop_stop_cb(struct mailbox_item *item)
{
    struct http_loop *loop = CONTAINER(item, struct http_loop, stop_item);

    ASSERT(!loop->stopping);
    loop->stopping = true;
    timer_cancel(&loop->conns.timers, &loop->last);
    close_listeners(loop);
    conns_flush(&loop->conns);
    conns_close(&loop->conns, "stopping");
    if (loop->conns.draining) {
        loop_drained(loop);
    }
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->turn_end, NULL);
    uv_close((uv_handle_t *)&loop->no_rest, NULL);
    mailbox_close(&loop->port->mailbox, NULL);
    mailbox_release(); /* this turn has no end */
}

/* --- making the loops --- */

/* Make the listeners' sockets, one for each loop; port 0 picks one. 0; ERR_INVALID (address);
 * ERR_EXISTS (in use); ERR_IO. */
static int listeners_open(struct http_server *server)
{
    const struct http_settings *settings = server->settings;
    const char *const addresses[] = {settings->listen_address, settings->resp_address};
    const struct listener listeners[] = {
        [ACCEPT_HTTP] = {.talker = &http_talker,
                         .idle_ms = settings->idle_ms,
                         .tls = settings->tls != NULL},
        [ACCEPT_RESP] = {.talker = server->service->resp,
                         .idle_ms = settings->resp_idle_ms,
                         .tls = settings->resp_tls},
    };
    const unsigned count = server->loop_count;
    int rv = 0;

    for (unsigned kind = 0; rv == 0 && kind < ACCEPTORS; kind++) {
        struct sockaddr_storage addr;
        int fd = -1;

        if (kind == ACCEPT_RESP && addresses[kind][0] == '\0') {
            break;
        }
        ASSERT(listeners[kind].talker != NULL && (settings->tls != NULL || !listeners[kind].tls));
        rv = address_resolve(addresses[kind], &addr);
        /* SO_REUSEPORT would let a second leafd take the same port, and half of the requests,
         * unnoticed. So first check whether an unshared socket can have the port. */
        if (rv == 0 && count > 1 && address_port(&addr) != 0) {
            rv = address_listen(&addr, LIMIT_HTTP_BACKLOG, false, &fd);
            fd_close(&fd);
        }
        /* If port is 0, the others share the port of the first. */
        for (unsigned i = 0; rv == 0 && i < count; i++) {
            struct acceptor *acceptor = &server->loops[i].acceptors[kind];

            acceptor->listener = listeners[kind];
            rv = address_listen(&addr, LIMIT_HTTP_BACKLOG, count > 1, &acceptor->listen_fd);
        }
    }
    return rv;
}

/* Make the handles of a loop, and begin to accept. 0 or ERR_IO: at most its sockets are left. */
static int loop_init(struct http_loop *loop)
{
    struct http_server *server = loop->server;
    int rv = 0;

    (void)snprintf(loop->name, sizeof loop->name, "http-%u", loop->index % 1000);
    if (uv_loop_init(&loop->uv) != 0) {
        return ERR_IO;
    }
    conns_init(&loop->conns, &loop->uv, server->settings, server->service, server->clients);
    timer_init(&loop->last, last_fire);
    timer_init(&loop->grace, grace_fire);
    loop->port = MUST_HAVE(calloc(1, sizeof *loop->port));
    atomic_init(&loop->port->refs, 1);
    if (mailbox_init(&loop->port->mailbox, &loop->uv, NULL) != 0) {
        free(loop->port);
        ASSERT(uv_loop_close(&loop->uv) == 0);
        return ERR_IO;
    }
    for (unsigned i = 0; i < ACCEPTORS; i++) {
        struct acceptor *acceptor = &loop->acceptors[i];

        if (acceptor->listen_fd < 0) {
            continue;
        }
        timer_init(&acceptor->again, again_fire);
        if (uv_poll_init(&loop->uv, &acceptor->poll, acceptor->listen_fd) != 0) {
            fd_close(&acceptor->listen_fd);
            rv = ERR_IO;
            continue;
        }
        acceptor->poll.data = acceptor;
        reserve_open(acceptor);
        ASSERT(uv_poll_start(&acceptor->poll, UV_READABLE, accept_cb) == 0);
    }
    if (rv != 0) {
        close_listeners(loop);
        mailbox_close(&loop->port->mailbox, NULL);
        ASSERT(uv_run(&loop->uv, UV_RUN_DEFAULT) == 0);
        ASSERT(uv_loop_close(&loop->uv) == 0);
        http_port_unref(loop->port);
        return rv;
    }
    loop->timer_due_ms = TIMER_NEVER;
    loop->turn_item.run = turn_taken_cb;
    loop->retire_item.run = loop_retire_cb;
    loop->drain_item.run = loop_drain_cb;
    loop->stop_item.run = loop_stop_cb;
    ASSERT(uv_timer_init(&loop->uv, &loop->timer) == 0);
    loop->timer.data = loop;
    ASSERT(uv_check_init(&loop->uv, &loop->turn_end) == 0);
    ASSERT(uv_check_start(&loop->turn_end, turn_end_cb) == 0);
    loop->turn_end.data = loop;
    ASSERT(uv_idle_init(&loop->uv, &loop->no_rest) == 0);
    loop->conns.data =
        server->service->loop_begin(server->service->data, loop->index, &loop->conns, loop->port);
    return 0;
}

/* Free what loop_init() made. The thread has ended or was never started. */
static void loop_release(struct http_loop *loop)
{
    if (!loop->stopping) { /* the thread was never started */
        loop_stop_cb(&loop->stop_item);
    }
    ASSERT(uv_run(&loop->uv, UV_RUN_DEFAULT) == 0);
    ASSERT(uv_loop_close(&loop->uv) == 0);
    loop->server->service->loop_end(loop->conns.data);
    conns_free(&loop->conns);
    http_port_unref(loop->port);
}

/* --- the server --- */

int http_server_make(const struct http_settings *settings, const struct http_service *service,
                     struct http_server **ret_server)
{
    struct http_server *server;
    int rv;

    if (settings->loops < 1 || settings->loops > LIMIT_HTTP_LOOPS ||
        settings->listen_address == NULL || settings->default_timeout_ms > LIMIT_TIMEOUT_MS) {
        return ERR_INVALID;
    }
    server = MUST_HAVE(calloc(1, sizeof *server));
    server->settings = settings;
    server->service = service;
    server->loop_count = settings->loops;
    server->loops = MUST_HAVE(calloc(settings->loops, sizeof *server->loops));
    server->clients = clients_new(&settings->quotas, LIMIT_CLIENTS);
    for (unsigned i = 0; i < settings->loops; i++) {
        struct http_loop *loop = &server->loops[i];

        loop->server = server;
        loop->index = i;
        for (unsigned k = 0; k < ACCEPTORS; k++) {
            loop->acceptors[k] = (struct acceptor){
                .conns = &loop->conns, .index = i, .listen_fd = -1, .reserve_fd = -1};
        }
    }
    rv = listeners_open(server);
    while (rv == 0 && server->made < settings->loops) {
        rv = loop_init(&server->loops[server->made]);
        server->made += rv == 0;
    }
    if (rv != 0) {
        http_server_stop(server);
        return rv;
    }
    *ret_server = server;
    return 0;
}

/* The thread's body. data: struct http_loop. */
static void *loop_run(void *data)
{
    struct http_loop *loop = data;

    (void)pthread_setname_np(pthread_self(), loop->name);
    mailbox_hold(); /* until loop_stop_cb() */
    ASSERT(uv_run(&loop->uv, UV_RUN_DEFAULT) == 0);
    return NULL;
}

int http_server_start(const struct http_settings *settings, const struct http_service *service,
                      struct http_server **ret_server)
{
    struct http_server *server;
    sigset_t before;
    sigset_t all;
    int rv = http_server_make(settings, service, &server);

    if (rv != 0) {
        return rv;
    }
    /* With all signals blocked: those are the main thread's. */
    sigfillset(&all);
    ASSERT(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    while (server->running < server->loop_count) {
        struct http_loop *loop = &server->loops[server->running];

        errno = pthread_create(&loop->thread, NULL, loop_run, loop);
        if (errno != 0) {
            rv = ERR_NOMEM;
            break;
        }
        server->running++;
    }
    ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (rv != 0) {
        http_server_stop(server);
        return rv;
    }
    *ret_server = server;
    return 0;
}

struct http_loop *http_server_loop(struct http_server *server, unsigned index)
{
    ASSERT(index < server->loop_count);
    return &server->loops[index];
}

static void loop_post(struct http_loop *loop, struct mailbox_item *item)
{
    ASSERT(mailbox_post(&loop->port->mailbox, item, SIZE_MAX) == 0);
}

bool http_server_takes_turns(struct http_server *server)
{
    bool all = true;

    for (unsigned i = 0; i < server->loop_count; i++) {
        struct http_loop *loop = &server->loops[i];

        if (atomic_exchange(&loop->turn_asked, true)) {
            all = false;
        } else {
            loop_post(loop, &loop->turn_item);
        }
    }
    return all;
}

void http_server_retire(struct http_server *server, uint32_t over_ms)
{
    ASSERT(!server->retire_begun);
    server->retire_begun = true;
    server->retire_ms = over_ms;
    for (unsigned i = 0; i < server->loop_count; i++) {
        loop_post(&server->loops[i], &server->loops[i].retire_item);
    }
}

void http_server_drain(struct http_server *server, uint32_t grace_ms, void (*cb)(void *data),
                       void *data)
{
    ASSERT(server->retire_begun && !server->drain_begun);
    server->drain_begun = true;
    server->grace_ms = grace_ms;
    server->drain_cb = cb;
    server->drain_data = data;
    atomic_store(&server->drain_left, server->loop_count);
    for (unsigned i = 0; i < server->loop_count; i++) {
        loop_post(&server->loops[i], &server->loops[i].drain_item);
    }
}

void http_server_stop(struct http_server *server)
{
    for (unsigned i = 0; i < server->running; i++) {
        loop_post(&server->loops[i], &server->loops[i].stop_item);
    }
    for (unsigned i = 0; i < server->loop_count; i++) {
        struct http_loop *loop = &server->loops[i];

        if (i < server->running) {
            ASSERT(pthread_join(loop->thread, NULL) == 0);
        }
        if (i < server->made) {
            loop_release(loop);
        }
        for (unsigned k = 0; k < ACCEPTORS; k++) { /* of a loop that was not made */
            fd_close(&loop->acceptors[k].listen_fd);
        }
    }
    clients_free(server->clients);
    free(server->loops);
    free(server);
}
