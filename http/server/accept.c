/*
 * accept.c - see accept.h. Thread: listener_open from the main thread, the rest is the loop's.
 */
#include "http/server/accept.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/server/conn.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

/* --- making the sockets --- */

/* "host:port" or "[host]:port" to a socket address. */
static int address_parse(const char *address, struct sockaddr_storage *ret_addr, socklen_t *ret_len)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    const char *colon = strrchr(address, ':');
    char host[LIMIT_ADDRESS_BYTES + 1];
    struct addrinfo *found;
    uint64_t port;
    size_t len;

    /* getaddrinfo() would take a port beyond 65535 modulo 65536. */
    if (colon == NULL || colon == address || strlen(address) > LIMIT_ADDRESS_BYTES ||
        text_parse_decimal(colon + 1, strlen(colon + 1), 0, UINT16_MAX, &port) != 0) {
        return ERR_INVALID;
    }
    len = (size_t)(colon - address);
    if (address[0] == '[' && address[len - 1] == ']' && len > 2) {
        address++;
        len -= 2;
    }
    memcpy(host, address, len);
    host[len] = '\0';
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0) {
        return ERR_INVALID;
    }
    ASSERT(found->ai_addrlen <= sizeof *ret_addr);
    memcpy(ret_addr, found->ai_addr, found->ai_addrlen);
    *ret_len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

static uint16_t port_get(const struct sockaddr_storage *addr)
{
    return ntohs(addr->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)addr)->sin6_port
                                             : ((const struct sockaddr_in *)addr)->sin_port);
}

static int bind_error(int err)
{
    switch (err) {
    case EADDRINUSE:
        return ERR_EXISTS;
    case EADDRNOTAVAIL:
    case EACCES:
        return ERR_INVALID;
    default:
        return ERR_IO;
    }
}

/* A bound, listening socket; with share, others of this process may have the same port. */
static int socket_listen(const struct sockaddr_storage *addr, socklen_t len, bool share,
                         int *ret_fd)
{
    int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    int rv;

    if (fd < 0) {
        return ERR_IO;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (share && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0)) {
        close(fd);
        return ERR_IO;
    }
    if (bind(fd, (const struct sockaddr *)addr, len) != 0 || listen(fd, LIMIT_HTTP_BACKLOG) != 0) {
        rv = bind_error(errno);
        close(fd);
        return rv;
    }
    *ret_fd = fd;
    return 0;
}

/* SO_REUSEPORT would let a second leafd take the same port unnoticed and half of the requests with
 * it. So first see whether an unshared socket could have it. */
static int probe(const struct sockaddr_storage *addr, socklen_t len)
{
    int fd;
    int rv = port_get(addr) != 0 ? socket_listen(addr, len, false, &fd) : ERR_EMPTY;

    if (rv == 0) {
        close(fd);
    }
    return rv == ERR_EMPTY ? 0 : rv;
}

int listener_open(const char *address, unsigned count, int *ret_fds, uint16_t *ret_port)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    int rv;

    ASSERT(count >= 1 && count <= LIMIT_HTTP_LOOPS);
    rv = address_parse(address, &addr, &len);
    if (rv == 0 && count > 1) {
        rv = probe(&addr, len);
    }
    for (unsigned i = 0; rv == 0 && i < count; i++) {
        rv = socket_listen(&addr, len, count > 1, &ret_fds[i]);
        if (rv == 0 && i == 0) {
            /* The port that 0 became, for the others too. */
            len = sizeof addr;
            ASSERT(getsockname(ret_fds[0], (struct sockaddr *)&addr, &len) == 0);
        }
        if (rv != 0) {
            while (i > 0) {
                close(ret_fds[--i]);
            }
        }
    }
    if (rv == 0) {
        *ret_port = port_get(&addr);
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

static int accept_one(const struct acceptor *acceptor)
{
    return accept4(acceptor->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void accept_pause(struct acceptor *acceptor)
{
    struct conns *conns = acceptor->conns;

    uv_poll_stop(&acceptor->listener);
    timer_arm(&conns->timers, &acceptor->again, conns_now_ms(conns) + LIMIT_HTTP_ACCEPT_PAUSE_MS);
}

/* Out of descriptors: with the reserve's, tell one who waits, then pause. */
static void accept_starved(struct acceptor *acceptor, int err)
{
    static const char reply[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                                "Connection: close\r\nContent-Length: 0\r\n\r\n";
    int fd;

    if (!acceptor->warned) {
        log_warn("http", "cannot accept connections; pausing", "loop=%u error=\"%s\"",
                 acceptor->index, strerrordesc_np(err));
        acceptor->warned = true;
    }
    fd_close(&acceptor->reserve_fd);
    fd = accept_one(acceptor);
    if (fd >= 0) {
        (void)send(fd, reply, sizeof reply - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)shutdown(fd, SHUT_WR);
        close(fd);
    }
    reserve_open(acceptor);
    accept_pause(acceptor);
}

static void take(struct acceptor *acceptor, int fd)
{
    if (acceptor->warned) {
        acceptor->warned = false;
        log_info("http", "accepting connections again", "loop=%u", acceptor->index);
    }
    conns_take(acceptor->conns, fd);
}

static void accept_cb(uv_poll_t *listener, int status, int events)
{
    struct acceptor *acceptor = listener->data;

    (void)events;
    if (status != 0) {
        /* libuv has stopped watching. */
        log_warn("http", "the listener reports an error; pausing", "loop=%u error=\"%s\"",
                 acceptor->index, uv_strerror(status));
        accept_pause(acceptor);
        return;
    }
    for (int i = 0; i < LIMIT_HTTP_ACCEPTS_PER_TURN; i++) {
        int fd = accept_one(acceptor);

        if (fd >= 0) {
            take(acceptor, fd);
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
    ASSERT(uv_poll_start(&acceptor->listener, UV_READABLE, accept_cb) == 0);
}

int acceptor_init(struct acceptor *acceptor, struct conns *conns, unsigned index, int listen_fd)
{
    *acceptor =
        (struct acceptor){.conns = conns, .index = index, .listen_fd = listen_fd, .reserve_fd = -1};
    timer_init(&acceptor->again, again_fire);
    if (uv_poll_init(conns->uv, &acceptor->listener, listen_fd) != 0) {
        fd_close(&acceptor->listen_fd);
        return ERR_IO;
    }
    acceptor->listener.data = acceptor;
    reserve_open(acceptor);
    ASSERT(uv_poll_start(&acceptor->listener, UV_READABLE, accept_cb) == 0);
    return 0;
}

static void listener_closed_cb(uv_handle_t *handle)
{
    struct acceptor *acceptor = handle->data;

    fd_close(&acceptor->reserve_fd);
    fd_close(&acceptor->listen_fd);
}

void acceptor_close(struct acceptor *acceptor)
{
    timer_cancel(&acceptor->conns->timers, &acceptor->again);
    if (!uv_is_closing((uv_handle_t *)&acceptor->listener)) {
        uv_close((uv_handle_t *)&acceptor->listener, listener_closed_cb);
    }
}
