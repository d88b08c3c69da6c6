/*
 * distance.c - puts a distance between processes of one machine: a relay for TCP that passes each
 * byte on so many microseconds after it came.
 *
 *     distance MICROSECONDS FROM=TO [FROM=TO ...]
 *
 * Whoever connects to FROM (host:port) is connected to TO. Both ways are delayed alike, and no byte
 * waits for another one: as many may be on the way as are sent, as on a network. The end of one way
 * is delayed, too.
 *
 * The happy path: what is read stands in one queue with the time when it is due; since all wait for
 * equally long it is due in the order in which it came.
 *
 * Failure modes: nobody listens at TO: the connection is closed. Who does not take what is sent
 * lets all others wait, so this is no relay but for benchmarks.
 *
 * One thread.
 */
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "scripts/bench/nanoseconds.h"
#include "src/base/address.h"
#include "src/base/assert.h"

#define EVENTS_MAX 64
#define CHUNK_BYTES (16U << 10)
#define BACKLOG 128
#define DELAY_MAX_US 1000000
#define SECOND_NS 1000000000ULL

struct route {
    int listener;
    struct sockaddr_storage to;
};

struct link;

/* What comes at one end of a link. */
struct way {
    struct link *link;
    struct route *route; /* of one that listens; then there is no link */
    int from;
    int to;
};

struct link {
    struct way ways[2];
    unsigned holds; /* ways that have not ended, and chunks */
};

struct chunk {
    STAILQ_ENTRY(chunk) next;
    struct way *way;
    uint64_t due_ns;
    size_t len; /* 0: the way ends */
    char data[];
};

static STAILQ_HEAD(, chunk) chunks = STAILQ_HEAD_INITIALIZER(chunks);
static uint64_t delay_ns;
static int epoll;

static void watch(int fd, struct way *way)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = way};

    ASSERT(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void let_go(struct link *link)
{
    link->holds--;
    if (link->holds == 0) {
        close(link->ways[0].from);
        close(link->ways[1].from);
        free(link);
    }
}

static void accept_one(const struct route *route)
{
    int ends[2] = {accept4(route->listener, NULL, NULL, SOCK_CLOEXEC), -1};
    struct link *link;
    int on = 1;

    if (ends[0] < 0) {
        return;
    }
    ends[1] = socket(route->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT(ends[1] >= 0);
    if (connect(ends[1], (const struct sockaddr *)&route->to, sizeof route->to) != 0) {
        close(ends[0]);
        close(ends[1]);
        return;
    }
    link = MUST_HAVE(calloc(1, sizeof *link));
    link->holds = 2;
    for (unsigned i = 0; i < 2; i++) {
        ASSERT(setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
        link->ways[i] = (struct way){.link = link, .from = ends[i], .to = ends[1 - i]};
        watch(ends[i], &link->ways[i]);
    }
}

static void take(struct way *way)
{
    struct chunk *chunk = MUST_HAVE(malloc(sizeof *chunk + CHUNK_BYTES));
    ssize_t len;

    len = recv(way->from, chunk->data, CHUNK_BYTES, 0);
    chunk->way = way;
    chunk->len = len > 0 ? (size_t)len : 0;
    chunk->due_ns = nanoseconds(CLOCK_MONOTONIC) + delay_ns;
    STAILQ_INSERT_TAIL(&chunks, chunk, next);
    if (chunk->len > 0) {
        way->link->holds++;
    } else { /* the way's own hold is the chunk's now */
        ASSERT(epoll_ctl(epoll, EPOLL_CTL_DEL, way->from, NULL) == 0);
    }
}

static void pass_on(const struct chunk *chunk)
{
    const struct way *way = chunk->way;
    size_t sent = 0;

    if (chunk->len == 0) {
        (void)shutdown(way->to, SHUT_WR);
    }
    while (sent < chunk->len) {
        ssize_t len = send(way->to, chunk->data + sent, chunk->len - sent, MSG_NOSIGNAL);

        if (len <= 0) { /* nobody is there any more: both ways end */
            (void)shutdown(way->from, SHUT_RDWR);
            (void)shutdown(way->to, SHUT_RDWR);
            break;
        }
        sent += (size_t)len;
    }
    let_go(way->link);
}

/* All that is due; for how long the next one is not, in *ret_wait. False: there is none. */
static bool pass_on_due(struct timespec *ret_wait)
{
    struct chunk *chunk;

    while ((chunk = STAILQ_FIRST(&chunks)) != NULL) {
        uint64_t now = nanoseconds(CLOCK_MONOTONIC);

        if (chunk->due_ns > now) {
            ret_wait->tv_sec = (time_t)((chunk->due_ns - now) / SECOND_NS);
            ret_wait->tv_nsec = (long)((chunk->due_ns - now) % SECOND_NS);
            return true;
        }
        STAILQ_REMOVE_HEAD(&chunks, next);
        pass_on(chunk);
        free(chunk);
    }
    return false;
}

static void listen_on(char *text)
{
    struct sockaddr_storage from;
    struct route *route = MUST_HAVE(calloc(1, sizeof *route));
    struct way *way = MUST_HAVE(calloc(1, sizeof *way));
    char *to = strchr(text, '=');

    if (to == NULL) {
        errx(2, "not FROM=TO: %s", text);
    }
    *to++ = '\0';
    if (address_resolve(text, &from) != 0 || address_resolve(to, &route->to) != 0) {
        errx(2, "not host:port=host:port: %s=%s", text, to);
    }
    if (address_listen(&from, BACKLOG, false, &route->listener) != 0) {
        errx(1, "%s cannot be listened on", text);
    }
    way->route = route;
    watch(route->listener, way);
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS_MAX];
    struct timespec wait;
    char *end = "";
    long us = argc > 2 ? strtol(argv[1], &end, 10) : -1;

    if (us < 0 || us > DELAY_MAX_US || *end != '\0' || end == argv[1]) {
        errx(2, "usage: distance MICROSECONDS FROM=TO [FROM=TO ...]");
    }
    delay_ns = (uint64_t)us * 1000;
    epoll = epoll_create1(EPOLL_CLOEXEC);
    ASSERT(epoll >= 0 && prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0);
    for (int i = 2; i < argc; i++) {
        listen_on(argv[i]);
    }
    for (;;) {
        bool more = pass_on_due(&wait);
        int count = epoll_pwait2(epoll, events, EVENTS_MAX, more ? &wait : NULL, NULL);

        for (int i = 0; i < count; i++) {
            struct way *way = events[i].data.ptr;

            if (way->route != NULL) {
                accept_one(way->route);
            } else {
                take(way);
            }
        }
    }
}
