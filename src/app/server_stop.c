/*
 * server_stop.c - the way down, a phase after the other. See server.h.
 *
 * All of it has one grace period: a phase gets what the ones before it left. None can hang: the
 * hand-over has its own bound, HTTP and the node keep theirs.
 *
 * Thread: main; drained_cb is an HTTP thread's.
 */
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "src/app/server_internal.h"
#include "src/app/signals.h"
#include "src/base/assert.h"
#include "src/base/log.h"

#define HANDOVER_LOOK_MS 5 /* how often it is looked whether leadership has gone */

static void signal_cb(uv_signal_t *handle, int signal_number);
static void told_cb(uv_poll_t *poll, int status, int events);
static void drained_async_cb(uv_async_t *async);
static void handover_begin(struct server *server);
static void handover_tick_cb(uv_timer_t *timer);
static void drain_begin(struct server *server);
static void close_handles(struct server *server);

void server_move(struct server *server, enum server_phase phase)
{
    static const unsigned allowed[] = {
        [SERVER_STARTING] = 1U << SERVER_SERVING | 1U << SERVER_STOPPING | 1U << SERVER_STOPPED,
        [SERVER_SERVING] = 1U << SERVER_HANDOVER,
        [SERVER_HANDOVER] = 1U << SERVER_DRAINING,
        [SERVER_DRAINING] = 1U << SERVER_STOPPING,
        [SERVER_STOPPING] = 1U << SERVER_STOPPED,
        [SERVER_STOPPED] = 0,
    };

    ASSERT((allowed[server->phase] & 1U << phase) != 0);
    server->phase = phase;
    server->phase_ms = server_now_ms();
    if (phase == SERVER_STOPPED) {
        close_handles(server);
    }
}

void server_stop_init(struct server *server)
{
    ASSERT(uv_signal_init(&server->loop, &server->sigterm) == 0);
    ASSERT(uv_signal_init(&server->loop, &server->sigint) == 0);
    ASSERT(uv_async_init(&server->loop, &server->drained, drained_async_cb) == 0);
    ASSERT(uv_timer_init(&server->loop, &server->timer) == 0);
    server->told_fd = signals_open();
    ASSERT(uv_poll_init(&server->loop, &server->told, server->told_fd) == 0);
    server->sigterm.data = server;
    server->sigint.data = server;
    server->drained.data = server;
    server->timer.data = server;
    server->told.data = server;
    ASSERT(uv_signal_start(&server->sigterm, signal_cb, SIGTERM) == 0);
    ASSERT(uv_signal_start(&server->sigint, signal_cb, SIGINT) == 0);
    ASSERT(uv_poll_start(&server->told, UV_READABLE, told_cb) == 0);
}

static void told_closed_cb(uv_handle_t *handle)
{
    struct server *server = handle->data;

    ASSERT(close(server->told_fd) == 0);
}

static void close_handles(struct server *server)
{
    uv_close((uv_handle_t *)&server->sigterm, NULL);
    uv_close((uv_handle_t *)&server->sigint, NULL);
    uv_close((uv_handle_t *)&server->drained, NULL);
    uv_close((uv_handle_t *)&server->timer, NULL);
    uv_close((uv_handle_t *)&server->told, told_closed_cb);
}

static void told_cb(uv_poll_t *poll, int status, int events)
{
    struct server *server = poll->data;

    (void)status;
    (void)events;
    signals_tell(server->told_fd);
}

static void signal_cb(uv_signal_t *handle, int signal_number)
{
    struct server *server = handle->data;

    /* Not while a node that could not start is being closed: it ends anyway. */
    if (server->phase == SERVER_SERVING) {
        server_stop_begin(server, signal_number);
    }
}

/* Only what a signal handler may do. */
static void second_signal(int signal_number)
{
    static const char line[] = "level=warn at=app msg=\"second signal: ending at once\"\n";

    (void)signal_number;
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _exit(EXIT_CODE_SECOND_SIGNAL);
}

/* From now on a signal ends the process, even while the loop is kept from running. */
static void expect_second_signal(struct server *server)
{
    struct sigaction action = {.sa_handler = second_signal};

    ASSERT(uv_signal_stop(&server->sigterm) == 0);
    ASSERT(uv_signal_stop(&server->sigint) == 0);
    ASSERT(sigemptyset(&action.sa_mask) == 0);
    ASSERT(sigaction(SIGTERM, &action, NULL) == 0);
    ASSERT(sigaction(SIGINT, &action, NULL) == 0);
}

/* What is left of the grace period. */
static uint32_t grace_left_ms(const struct server *server)
{
    uint64_t now_ms = server_now_ms();

    return server->grace_until_ms > now_ms ? (uint32_t)(server->grace_until_ms - now_ms) : 0;
}

static void stop_begin(struct server *server, const char *why)
{
    const struct config *config = server->config;

    ASSERT(server->phase == SERVER_SERVING);
    expect_second_signal(server);
    server->began_ms = server_now_ms();
    server->grace_until_ms =
        server->began_ms + config->shutdown_delay_ms + config->shutdown_grace_ms;
    log_info("app", "stopping", "%s delay_ms=%" PRIu64 " grace_ms=%" PRIu64, why,
             config->shutdown_delay_ms, config->shutdown_grace_ms);
    handover_begin(server);
}

void server_stop_begin(struct server *server, int signal_number)
{
    stop_begin(server, signal_number == SIGINT ? "signal=SIGINT" : "signal=SIGTERM");
}

void server_stop_removed(struct server *server)
{
    server->removed = true;
    stop_begin(server, "removed=true");
}

/* --- handover --- */

/* A node that could take over does so in a round trip or two; two elections later none will. */
static uint64_t handover_until_ms(const struct server *server)
{
    uint64_t ready_ms = server->began_ms + server->config->shutdown_delay_ms;
    uint64_t bound_ms = 2 * server->config->raft_election_ms;

    return ready_ms + (bound_ms < server->config->shutdown_grace_ms
                           ? bound_ms
                           : server->config->shutdown_grace_ms);
}

static void handover_tick_cb(uv_timer_t *timer)
{
    struct server *server = timer->data;
    uint64_t now_ms = server_now_ms();
    bool gone = node_drained(server->node);

    ASSERT(server->phase == SERVER_HANDOVER);
    if (now_ms < server->began_ms + server->config->shutdown_delay_ms ||
        (!gone && now_ms < handover_until_ms(server))) {
        return;
    }
    ASSERT(uv_timer_stop(&server->timer) == 0);
    log_info("app", gone ? "no leadership is left to hand over" : "nobody took the leadership over",
             "took_ms=%" PRIu64, now_ms - server->phase_ms);
    drain_begin(server);
}

static void handover_begin(struct server *server)
{
    server_move(server, SERVER_HANDOVER);
    node_drain(server->node);
    ASSERT(uv_timer_start(&server->timer, handover_tick_cb, 0, HANDOVER_LOOK_MS) == 0);
}

/* --- draining --- */

/* On an HTTP thread. */
static void drained_cb(void *data)
{
    struct server *server = data;

    ASSERT(uv_async_send(&server->drained) == 0);
}

static void drain_begin(struct server *server)
{
    server_move(server, SERVER_DRAINING);
    http_server_drain(server->http, grace_left_ms(server), drained_cb, server);
}

static void drained_async_cb(uv_async_t *async)
{
    struct server *server = async->data;

    ASSERT(server->phase == SERVER_DRAINING);
    log_info("http", "drained", "took_ms=%" PRIu64, server_now_ms() - server->phase_ms);
    node_set_waker(server->node, NULL);
    server_stop_node(server);
}

/* --- stopping --- */

/* The node has answered everything; HTTP threads may still ask it until they are joined. */
static void node_stopped_cb(void *data)
{
    struct server *server = data;

    log_info("app", "node stopped", "took_ms=%" PRIu64, server_now_ms() - server->phase_ms);
    if (server->http != NULL) {
        http_server_stop(server->http);
        server->http = NULL;
    }
    node_free(server->node);
    server->node = NULL;
    server_move(server, SERVER_STOPPED);
}

void server_stop_node(struct server *server)
{
    server_move(server, SERVER_STOPPING);
    node_stop(server->node, grace_left_ms(server), node_stopped_cb, server);
}
