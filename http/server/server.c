/*
 * server.c - see server.h: the threads, and start, drain and stop.
 *
 * The happy path: http_server_make() makes the sockets and all handles on the caller's thread, so
 * every failure is known before a thread runs; then http_server_start() starts the threads.
 * http_server_stop() posts to each loop, joins, and frees.
 *
 * Failure modes: anything that fails during the start undoes all of it.
 *
 * Thread: the main thread; loop_drained on the loops.
 */
#include "http/server/server.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "http/server/accept.h"
#include "http/server/loop.h"
#include "src/base/assert.h"

struct http_server {
    const struct http_settings *settings;
    const struct http_service *service;
    uint16_t port;
    uint16_t resp_port; /* 0: there is no such listener */
    unsigned loop_count;
    unsigned running;        /* the first so many loops have a thread */
    struct http_loop *loops; /* loop_count */
    struct clients *clients; /* of all loops */
    bool retire_begun;
    bool drain_begun;
    _Atomic unsigned drain_left; /* loops that still have connections */
    void (*drain_cb)(void *data);
    void *drain_data;
};

static void server_free(struct http_server *server)
{
    clients_free(server->clients);
    free(server->loops);
    free(server);
}

/* The sockets of all loops: of HTTP, and of the RESP listener, -1 each where there is none. */
struct listeners {
    int http[LIMIT_HTTP_LOOPS];
    int resp[LIMIT_HTTP_LOOPS];
};

static int listeners_open(struct http_server *server, struct listeners *listeners)
{
    const struct http_settings *settings = server->settings;
    const char *resp = settings->resp_address;
    unsigned count = settings->loops;
    int rv = listener_open(settings->listen_address, count, listeners->http, &server->port);

    for (unsigned i = 0; i < count; i++) {
        listeners->resp[i] = -1;
    }
    if (rv != 0 || resp == NULL || resp[0] == '\0') {
        return rv;
    }
    rv = listener_open(resp, count, listeners->resp, &server->resp_port);
    for (unsigned i = 0; rv != 0 && i < count; i++) {
        close(listeners->http[i]);
    }
    return rv;
}

/* Make the loops for the sockets. On failure all sockets are closed and no loop is left. */
static int loops_init(struct http_server *server, const struct listeners *listeners)
{
    unsigned count = server->loop_count;
    int rv = 0;

    for (unsigned i = 0; i < count; i++) {
        const struct loop_listeners own = {listeners->http[i], listeners->resp[i]};

        if (rv != 0) {
            loop_listeners_close(&own);
            continue;
        }
        rv = loop_init(&server->loops[i], i, server->settings, server->service, server->clients,
                       &own);
        if (rv != 0) {
            server->loop_count = i;
        }
    }
    for (unsigned i = 0; rv != 0 && i < server->loop_count; i++) {
        loop_release(&server->loops[i]);
    }
    return rv;
}

/* Stop and free the loops. */
static void loops_end(struct http_server *server)
{
    for (unsigned i = 0; i < server->running; i++) {
        loop_post_stop(&server->loops[i]);
    }
    for (unsigned i = 0; i < server->loop_count; i++) {
        if (i < server->running) {
            ASSERT(pthread_join(server->loops[i].thread, NULL) == 0);
        }
        loop_release(&server->loops[i]);
    }
}

/* Start the threads with all signals blocked: those are the main thread's. */
static int loops_run(struct http_server *server)
{
    struct http_loop *loop = server->loops;
    sigset_t before;
    sigset_t all;

    sigfillset(&all);
    ASSERT(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    while (server->running < server->loop_count &&
           pthread_create(&loop->thread, NULL, loop_run, loop) == 0) {
        server->running++;
        loop++;
    }
    ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    return server->running < server->loop_count ? ERR_NOMEM : 0;
}

int http_server_make(const struct http_settings *settings, const struct http_service *service,
                     struct http_server **ret_server)
{
    struct http_server *server;
    struct listeners listeners;
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
    rv = listeners_open(server, &listeners);
    if (rv == 0) {
        rv = loops_init(server, &listeners);
    }
    if (rv != 0) {
        server_free(server);
        return rv;
    }
    *ret_server = server;
    return 0;
}

int http_server_start(const struct http_settings *settings, const struct http_service *service,
                      struct http_server **ret_server)
{
    struct http_server *server;
    int rv = http_server_make(settings, service, &server);

    if (rv != 0) {
        return rv;
    }
    rv = loops_run(server);
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

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

uint16_t http_server_resp_port(const struct http_server *server)
{
    return server->resp_port;
}

/* A loop has no connection left. Each says so once, on its thread. */
static void loop_drained(void *data)
{
    struct http_server *server = data;
    unsigned before = atomic_fetch_sub(&server->drain_left, 1);

    ASSERT(before > 0);
    if (before == 1) {
        server->drain_cb(server->drain_data);
    }
}

bool http_server_takes_turns(struct http_server *server)
{
    bool all = true;

    for (unsigned i = 0; i < server->loop_count; i++) {
        all = loop_takes_turns(&server->loops[i]) && all;
    }
    return all;
}

void http_server_retire(struct http_server *server, uint32_t over_ms)
{
    ASSERT(!server->retire_begun);
    server->retire_begun = true;
    for (unsigned i = 0; i < server->loop_count; i++) {
        loop_post_retire(&server->loops[i], over_ms);
    }
}

void http_server_drain(struct http_server *server, uint32_t grace_ms, void (*cb)(void *data),
                       void *data)
{
    ASSERT(server->retire_begun && !server->drain_begun);
    server->drain_begun = true;
    server->drain_cb = cb;
    server->drain_data = data;
    atomic_store(&server->drain_left, server->loop_count);
    for (unsigned i = 0; i < server->loop_count; i++) {
        loop_post_drain(&server->loops[i], grace_ms, loop_drained, server);
    }
}

void http_server_stop(struct http_server *server)
{
    loops_end(server);
    server_free(server);
}
