/*
 * run.c - see run.h: the stop, its last phase first, then the start.
 *
 * Thread: main, but for failed_cb and drained_cb.
 */
#include "src/node/run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/base/log.h"
#include "src/base/prng.h"
#include "src/base/process.h"
#include "src/node/listeners.h"
#include "src/node/privileges.h"
#include "src/node/reload.h"
#include "src/node/replace_lost.h"
#include "src/node/report.h"
#include "src/node/signals.h"
#include "src/service/node_backend.h"
#include "storage/lmdb/store.h"

#define HANDOVER_LOOK_MS 5 /* interval for checking whether leadership has moved */
#define DATA_LOOK_MS 400   /* and whether the data directory still exists */
#define QUOTED_BYTES (LIMIT_PATH_BYTES + 77) /* of a path, or a reason, in the log */

enum phase { STARTING, SERVING, HANDOVER, DRAINING, STOPPING, STOPPED };

struct server {
    const struct config *config;
    enum phase phase;
    uv_loop_t loop;
    struct signals signals;
    struct supervisor supervisor;
    uv_async_t drained; /* sent by an HTTP thread */
    uv_timer_t look;    /* checks whether leadership has moved */
    uv_timer_t watch;   /* checks whether the data directory exists */
    struct store *store;
    struct id_service ids;
    struct node *node; /* that serves the ids; NULL before the start and after the stop */
    struct node_backend backend;
    struct replica_listener listener;
    struct files_split files; /* connections that are for clients */
    struct listeners listeners;
    uv_work_t pool;          /* begins libuv's threads */
    struct waiting *waiting; /* the listeners before these; NULL: none */
    struct http_build build;
    struct certificate certificate;
    struct buf libraries; /* of build */
    bool has_calls;       /* the first stage of the sandbox of calls is in force */
    struct reload reload;
    struct reload_keys keys;     /* a part of it */
    struct http_reloads reloads; /* its counts */
    uint64_t began_ms;           /* of the start, then of the stop; monotonic */
    uint64_t phase_ms;           /* when the phase began */
    uint64_t grace_until_ms;     /* of the stop */
    bool removed;                /* the node stops because the cluster has removed it */
    bool reloads_later;          /* a reload was asked for before the node serves */
};

static uint64_t now_ms(void)
{
    return clock_now_ms(clock_system());
}

/* The one place that changes the phase. */
static void server_move(struct server *server, enum phase phase)
{
    static const unsigned allowed[] = {
        [STARTING] = 1U << SERVING | 1U << STOPPING | 1U << STOPPED,
        [SERVING] = 1U << HANDOVER,
        [HANDOVER] = 1U << DRAINING,
        [DRAINING] = 1U << STOPPING,
        [STOPPING] = 1U << STOPPED,
        [STOPPED] = 0,
    };

    ASSERT((allowed[server->phase] & 1U << phase) != 0);
    server->phase = phase;
    server->phase_ms = now_ms();
}

static uint64_t in_phase_ms(const struct server *server)
{
    return now_ms() - server->phase_ms;
}

/* The stop, its last step first: each step begins the next when it is done. */

/* --- the stop: stopping --- */

/* The loop ends, and with it run_node(). */
static void close_handles(struct server *server)
{
    server_move(server, STOPPED);
    signals_close(&server->signals);
    supervisor_close(&server->supervisor);
    uv_close((uv_handle_t *)&server->drained, NULL);
    uv_close((uv_handle_t *)&server->look, NULL);
    uv_close((uv_handle_t *)&server->watch, NULL);
}

/* The node has answered everything; HTTP threads may still ask it until they are joined. */
static void node_stopped_cb(void *data)
{
    struct server *server = data;

    log_info("app", "node stopped", "took_ms=%" PRIu64, in_phase_ms(server));
    listeners_close(&server->listeners);
    node_free(server->node);
    server->node = NULL;
    close_handles(server);
}

/* The rest of the grace period. */
static uint32_t grace_left_ms(const struct server *server)
{
    uint64_t now = now_ms();

    return server->grace_until_ms > now ? (uint32_t)(server->grace_until_ms - now) : 0;
}

/* HTTP has no connection left, or did not start. */
static void stop_node(struct server *server)
{
    if (server->listeners.count > 0) {
        log_info("http", "drained", "took_ms=%" PRIu64, in_phase_ms(server));
        node_backend_set_waker(&server->backend, NULL);
    }
    server_move(server, STOPPING);
    node_stop(server->node, grace_left_ms(server), node_stopped_cb, server);
}

/* --- the stop: draining --- */

/* On an HTTP thread. */
static void drained_cb(void *data)
{
    struct server *server = data;

    ASSERT(uv_async_send(&server->drained) == 0);
}

/* --- the stop: handover --- */

static void handover_look_cb(uv_timer_t *timer)
{
    struct server *server = timer->data;
    uint64_t ready_ms = server->began_ms + server->config->shutdown.delay_ms;
    /* A node that can take over does so within one or two round trips; after two election timeouts
     * none will. */
    uint32_t bound_ms = 2 * server->config->node.replica.driver.election_ms;
    bool gone = node_drained(server->node);
    uint64_t now = now_ms();

    ASSERT(server->phase == HANDOVER);
    if (bound_ms > server->config->shutdown.grace_ms) {
        bound_ms = server->config->shutdown.grace_ms;
    }
    if (now < ready_ms || (!gone && now < ready_ms + bound_ms)) {
        return;
    }
    ASSERT(uv_timer_stop(timer) == 0);
    log_info("app",
             gone ? "no leadership is left to hand over" : "no node took over the leadership",
             "took_ms=%" PRIu64, in_phase_ms(server));
    server_move(server, DRAINING);
    listeners_drain(&server->listeners, grace_left_ms(server), drained_cb, server);
}

static void server_down(struct server *server, const char *why)
{
    const struct config *config = server->config;
    /* Idle connections are closed over this time, so that a client that uses one occasionally gets
     * a last reply before. */
    uint32_t retire_ms = config->shutdown.grace_ms / 2;

    retire_ms = retire_ms < LIMIT_HTTP_RETIRE_MS ? retire_ms : LIMIT_HTTP_RETIRE_MS;
    retire_ms = retire_ms > config->shutdown.delay_ms ? retire_ms : config->shutdown.delay_ms;
    signals_stop_now(&server->signals);
    supervisor_stopping(&server->supervisor);
    server->began_ms = now_ms();
    server->grace_until_ms =
        server->began_ms + config->shutdown.delay_ms + config->shutdown.grace_ms;
    log_info("app", "stopping", "%s delay_ms=%" PRIu32 " grace_ms=%" PRIu32, why,
             config->shutdown.delay_ms, config->shutdown.grace_ms);
    server_move(server, HANDOVER);
    listeners_retire(&server->listeners, retire_ms);
    node_drain(server->node);
    ASSERT(uv_timer_start(&server->look, handover_look_cb, 0, HANDOVER_LOOK_MS) == 0);
}

/* --- the start --- */

/* Data written to deleted files is lost when the process ends. */
static void watch_cb(uv_timer_t *timer)
{
    struct server *server = timer->data;
    const char *dir = server->config->data.dir;
    struct store_error error;

    if (server->store->ops->lost(server->store, &error)) {
        log_error("app", "the data directory is gone",
                  "dir=%s reason=%s exit_code=%d hint=\"put the newest data back, or replace the "
                  "node by a new member with a new node.id\"",
                  LOG_QUOTED(dir, QUOTED_BYTES), LOG_QUOTED(error.text, QUOTED_BYTES),
                  EXIT_CODE_DATA);
        _exit(EXIT_CODE_DATA);
    }
}

static enum exit_code open_store(struct server *server)
{
    const struct config *config = server->config;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    struct store_lmdb_config store = {
        .dir = config->data.dir,
        .map_bytes = (config->data.map_bytes + page_bytes - 1) / page_bytes * page_bytes,
        .map_by_disk = config->data.map_by_disk,
        .identity = {.node_id = config->node.node_id, .store_id = prng_entropy()},
        .loose_mode = config->data.loose_mode,
    };
    uint64_t began_ms = now_ms();
    struct store_error error = {""};
    char path[LIMIT_PATH_BYTES + sizeof "/made"]; /* the mark of a whole store */
    char db_path[LIMIT_PATH_BYTES + sizeof "/db"];
    struct store_space space;
    bool made = false;
    int err;

    (void)snprintf(path, sizeof path, "%s/made", config->data.dir);
    (void)snprintf(db_path, sizeof db_path, "%s/db", config->data.dir);
    if (config->bootstrap == CONFIG_BOOTSTRAP_NEVER && access(path, F_OK) != 0 &&
        access(db_path, F_OK) != 0) {
        log_error("app", "there is no store in the data directory, and cluster.bootstrap is never",
                  "dir=%s hint=\"is its disk mounted?\"", LOG_QUOTED(store.dir, QUOTED_BYTES));
        return EXIT_CODE_DATA;
    }
    (void)snprintf(store.identity.cluster_id, sizeof store.identity.cluster_id, "%s",
                   config->node.cluster_id);
    err = store_lmdb_open(&store, &server->store, &made, &error);
    if (err != 0) {
        report_data_refused(config, err, error.text);
        return exit_code_of_open(err);
    }
    if (server->store->ops->lost != NULL) {
        ASSERT(uv_timer_start(&server->watch, watch_cb, DATA_LOOK_MS, DATA_LOOK_MS) == 0);
    }
    server->store->ops->space(server->store, &space);
    log_info("store", made ? "made" : "opened",
             "dir=%s used_bytes=%" PRIu64 " map_bytes=%" PRIu64 " disk_free_bytes=%" PRIu64
             " took_ms=%" PRIu64,
             LOG_QUOTED(store.dir, QUOTED_BYTES), space.used_bytes, space.map_bytes,
             space.disk_free_bytes, now_ms() - began_ms);
    return EXIT_CODE_STOPPED;
}

/* The cluster says that this node's data is lost. Does the node come back under another id? */
static bool returns_under_new_id(const struct server *server)
{
    struct config_error error;
    uint64_t id;

    if (!server->config->node.replica.replace_lost) {
        return false;
    }
    if (lost_note(server->config, &id, &error) != 0) {
        log_error("app", "the data of this node is lost, and it cannot come back as another node",
                  "reason=%s", LOG_QUOTED(error.text, QUOTED_BYTES));
        return false;
    }
    log_warn("app", "the data of this node is lost: started again, it asks to be let in anew",
             "node=%" PRIu64 " next_node=%" PRIu64 " exit_code=%d", server->config->node.node_id,
             id, EXIT_CODE_AGAIN);
    return true;
}

static enum exit_code start_node(struct server *server)
{
    const struct config *config = server->config;
    uint64_t began_ms = now_ms();
    struct store_error error = {""};
    int err;

    supervisor_set_status(&server->supervisor, "reading its data");
    id_service_init(&server->ids, &config->ids);
    err = node_start(&server->loop, &config->node, &server->listener, server->store,
                     &server->ids.base, &server->node, &error);

    waiting_end(server->waiting);
    server->waiting = NULL;
    /* ERR_NEWER: the data, or the cluster to join, is newer than this leafd. */
    if (exit_code_of(err) == EXIT_CODE_DATA && err != ERR_NEWER) {
        report_data_refused(config, err, error.text);
        return exit_code_of_open(err);
    }
    if (err == ERR_SHUTTING_DOWN) { /* a signal to stop came while the node waited to be let in */
        return EXIT_CODE_STOPPED;
    }
    if ((err == ERR_WRONG_NODE || err == ERR_REMOVED) && returns_under_new_id(server)) {
        return EXIT_CODE_AGAIN;
    }
    if (err != 0) {
        report_node_failed(config, err, error.text);
        return exit_code_of(err);
    }
    atomic_store(&server->reloads.peer_until_s, (uint64_t)node_keys_until_s(server->node));
    log_info("app", "node loaded", "peer_listen=%s took_ms=%" PRIu64, config->node.listen_address,
             now_ms() - began_ms);
    return EXIT_CODE_STOPPED;
}

static enum exit_code start_http(struct server *server)
{
    int err;

    node_backend_open(&server->backend, &server->ids, server->node);
    err = listeners_open(&server->listeners, server->config, server->certificate.tls,
                         &server->build, &server->backend.base, &server->files);
    if (err != 0) {
        return exit_code_of(err);
    }
    /* The loop has not run since node_start(), so no wake-up was missed. */
    node_backend_set_waker(&server->backend, &server->listeners.api->waker);
    reload_add(&server->reload, &listeners_reload_part, &server->listeners);
    return EXIT_CODE_STOPPED;
}

/* --- all of it --- */

static void joining_cb(struct replica_listener *listener)
{
    struct server *server = CONTAINER(listener, struct server, listener);

    supervisor_set_status(&server->supervisor, "asking members of the cluster to let it in");
    server->waiting =
        waiting_begin(server->config, server->certificate.tls, &server->build, &server->files);
}

static void lost_cb(struct replica_listener *listener)
{
    if (returns_under_new_id(CONTAINER(listener, struct server, listener))) {
        _exit(EXIT_CODE_AGAIN);
    }
}

/* It would be unsafe to continue. Any thread; the data is as safe as after a kill. */
static void failed_cb(struct replica_listener *listener, int err, const char *text)
{
    enum exit_code code = exit_code_of(err);

    (void)listener;
    log_error("app", "the node cannot go on", "err=%s reason=%s exit_code=%d", err_code(err),
              LOG_QUOTED(text, 500), (int)code);
    _exit((int)code);
}

static void removed_cb(struct replica_listener *listener)
{
    struct server *server = CONTAINER(listener, struct server, listener);

    if (server->phase == SERVING) {
        log_error("app", "this node was removed from the cluster: stopping",
                  "node=%" PRIu64
                  " exit_code=%d hint=\"its id cannot be used again; for a new member, "
                  "give it an empty data directory and a new node.id, and join\"",
                  server->config->node.node_id, EXIT_CODE_REMOVED);
        server->removed = true;
        server_down(server, "removed=true");
    }
}

static void stop_signal_cb(struct signals *signals, int number)
{
    struct server *server = CONTAINER(signals, struct server, signals);

    /* Not while a node that failed to start is being closed: it ends anyway. */
    if (server->phase == SERVING) {
        server_down(server, number == SIGINT ? "signal=SIGINT" : "signal=SIGTERM");
    }
}

static void reload_signal_cb(struct signals *signals)
{
    struct server *server = CONTAINER(signals, struct server, signals);

    if (server->phase == SERVING) {
        supervisor_reload(&server->supervisor, true);
        (void)reload_run(&server->reload);
        supervisor_reload(&server->supervisor, false);
    } else if (server->phase == STARTING) {
        log_info("app", "the settings are read again once the node serves",
                 "hint=\"while it waits to be let in, a restart reads them at once\"");
        server->reloads_later = true;
    } else {
        log_info("app", "the settings were not read again: the node stops", NULL);
    }
}

static void drained_async_cb(uv_async_t *async)
{
    stop_node(async->data);
}

static void server_init(struct server *server, const struct config *config)
{
    *server = (struct server){
        .config = config,
        .phase = STARTING,
        .listener = {.failed = failed_cb,
                     .removed = removed_cb,
                     .joining = joining_cb,
                     .lost = lost_cb},
        .build = {.version = LEAFD_VERSION, .commit = commit_built},
        .began_ms = now_ms(),
    };
    libraries_json(&server->libraries);
    server->build.libraries = buf_text(&server->libraries);
    ASSERT(uv_loop_init(&server->loop) == 0);
    server->build.reloads = &server->reloads;
    server->reload = (struct reload){.started = config, .counts = &server->reloads};
    server->keys.node = &server->node;
    server->keys.counts = &server->reloads;
    reload_add(&server->reload, &reload_keys_part, &server->keys);
    signals_init(&server->signals, &server->loop, stop_signal_cb, reload_signal_cb);
    supervisor_open(&server->supervisor, &server->loop, &server->listeners);
    ASSERT(uv_async_init(&server->loop, &server->drained, drained_async_cb) == 0);
    ASSERT(uv_timer_init(&server->loop, &server->look) == 0);
    ASSERT(uv_timer_init(&server->loop, &server->watch) == 0);
    server->drained.data = server;
    server->look.data = server;
    server->watch.data = server;
}

static enum exit_code server_up(struct server *server)
{
    const struct config *config = server->config;
    enum exit_code code =
        certificate_start(&server->certificate, config) == 0 ? EXIT_CODE_STOPPED : EXIT_CODE_CONFIG;

    if (code == EXIT_CODE_STOPPED) {
        reload_add(&server->reload, &certificate_reload_part, &server->certificate);
        code = open_store(server);
    }
    if (code == EXIT_CODE_STOPPED && sandbox_begin(config, &server->has_calls) != 0) {
        code = EXIT_CODE_CONFIG;
    }
    /* Not earlier: the check of the store is a fork, of a process with one thread; and the sandbox
     * of paths holds for the threads that begin in it. */
    if (code == EXIT_CODE_STOPPED && !threads_bound(config, &server->loop, &server->pool)) {
        code = EXIT_CODE_INTERNAL;
    }
    if (code == EXIT_CODE_STOPPED) {
        code = start_node(server);
    }
    if (code == EXIT_CODE_STOPPED && server->node != NULL) {
        code = start_http(server);
    }
    /* All is open: files and listeners. The files that a reload reads are where reading is
     * allowed. */
    if (code == EXIT_CODE_STOPPED && server->node != NULL && server->has_calls &&
        sandbox_complete(config) != 0) {
        code = EXIT_CODE_CONFIG;
    }
    if (server->listeners.count > 0 && code == EXIT_CODE_STOPPED) {
        server_move(server, SERVING);
        log_info("app", "started", "took_ms=%" PRIu64, server->phase_ms - server->began_ms);
        supervisor_ready(&server->supervisor, &server->backend.base);
        if (server->reloads_later) {
            reload_signal_cb(&server->signals);
        }
    } else if (server->node != NULL) {
        stop_node(server);
    } else {
        close_handles(server);
    }
    return code;
}

enum exit_code run_node(const struct config *config)
{
    struct files_split files;
    struct server server;
    enum exit_code code;

    log_setup(config->log_level, config->node.node_id);
    log_set_format(config->log_format);
    (void)umask(077);
    report_settings(config);
    privileges_report(config);
    if (!files_bound(config, &files)) {
        return EXIT_CODE_INTERNAL;
    }
    server_init(&server, config);
    server.files = files;
    code = server_up(&server);
    (void)uv_run(&server.loop, UV_RUN_DEFAULT);
    ASSERT(server.phase == STOPPED);
    ASSERT(uv_loop_close(&server.loop) == 0);
    if (server.store != NULL) {
        server.store->ops->close(server.store);
    }
    reload_release(&server.reload);
    certificate_end(&server.certificate);
    buf_free(&server.libraries);
    code = code == EXIT_CODE_STOPPED && server.removed ? EXIT_CODE_REMOVED : code;
    log_info("app", "stopped", "took_ms=%" PRIu64 " exit_code=%d", now_ms() - server.began_ms,
             (int)code);
    return code;
}
