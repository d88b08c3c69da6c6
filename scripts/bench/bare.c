/*
 * bare.c - the least that an HTTP server on epoll can do: the yardstick of the benchmarks.
 *
 *     bare PORT
 *
 * One thread. Each read takes what is there; each end of a head in it is a request, and all of them
 * are answered with the same bytes, as long as leafd's answer to one id, in one write. No request
 * is looked at and no timeout is kept: a server that does its work cannot cost less.
 *
 * Failure modes: bodies are not understood; a client that does not take its replies is cut off.
 */
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/address.h"
#include "src/base/assert.h"

#define EVENTS_MAX 256
#define INPUT_BYTES (64U << 10)
#define BACKLOG 1024

static const char reply[] = "HTTP/1.1 200 OK\r\n"
                            "Content-Type: text/plain;charset=UTF-8\r\n"
                            "Cache-Control: no-store\r\n"
                            "Content-Length: 8\r\n"
                            "\r\n"
                            "12345678";
#define REPLY_BYTES (sizeof reply - 1)

/* A request is at least "GET / HTTP/1.1\r\n\r\n", so that many replies belong to one read. */
#define REPLIES_MAX (INPUT_BYTES / 18 + 1)

struct client {
    int fd;
    unsigned matched; /* bytes of "\r\n\r\n" at the end of what was read */
};

static char input[INPUT_BYTES];
static char output[REPLIES_MAX * REPLY_BYTES];

/* The number of heads that end in the bytes. */
static size_t count_heads(struct client *client, const char *data, size_t len)
{
    static const char end[] = "\r\n\r\n";
    size_t count = 0;

    for (size_t i = 0; i < len; i++) {
        if (data[i] == end[client->matched]) {
            client->matched++;
        } else {
            client->matched = data[i] == '\r' ? 1 : 0;
        }
        if (client->matched == 4) {
            client->matched = 0;
            count++;
        }
    }
    return count;
}

/* False: the client is gone. */
static bool client_serve(struct client *client)
{
    ssize_t len = recv(client->fd, input, sizeof input, 0);
    size_t bytes;

    if (len <= 0) {
        return len < 0 && (errno == EAGAIN || errno == EINTR);
    }
    bytes = count_heads(client, input, (size_t)len) * REPLY_BYTES;
    return bytes == 0 || send(client->fd, output, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static void accept_all(int epoll, int listener)
{
    struct epoll_event event = {.events = EPOLLIN};
    int on = 1;
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct client *client = MUST_HAVE(calloc(1, sizeof *client));

        client->fd = fd;
        event.data.ptr = client;
        ASSERT(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
        ASSERT(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
    }
}

static int listen_on(const char *port)
{
    struct sockaddr_storage at;
    char address[32];
    int listener;

    snprintf(address, sizeof address, "127.0.0.1:%s", port);
    if (address_resolve(address, &at) != 0 || address_listen(&at, BACKLOG, false, &listener) != 0) {
        errx(1, "port %s cannot be listened on", port);
    }
    return listener;
}

static void client_event(int epoll, struct client *client)
{
    if (!client_serve(client)) {
        ASSERT(epoll_ctl(epoll, EPOLL_CTL_DEL, client->fd, NULL) == 0);
        close(client->fd);
        free(client);
    }
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS_MAX];
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    struct rlimit limit;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int listener;

    if (argc != 2) {
        errx(2, "usage: bare PORT");
    }
    ASSERT(epoll >= 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    listener = listen_on(argv[1]);
    for (size_t i = 0; i < REPLIES_MAX; i++) {
        memcpy(output + i * REPLY_BYTES, reply, REPLY_BYTES);
    }
    ASSERT(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) == 0);
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS_MAX, -1);

        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == NULL) {
                accept_all(epoll, listener);
            } else {
                client_event(epoll, events[i].data.ptr);
            }
        }
    }
}
