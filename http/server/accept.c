/*
 * accept.c - see accept.h. Thread: listener_open from the main thread, the rest is the loop's.
 */
#include "http/server/accept.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
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
