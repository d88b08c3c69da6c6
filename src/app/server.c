/*
 * server.c - starting, and what holds while the node runs. See server.h.
 */
#include "src/app/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/app/libraries.h"
#include "src/app/server_internal.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/prng.h"

#define QUOTED_BYTES 1100 /* a path in a log line */
#define FILES_BESIDE_CLIENTS 256

static void log_config(const struct config *config);
static void log_warnings(const struct config *config, rlim_t files);
static rlim_t raise_file_limit(void);
static enum exit_code start_store(struct server *server);
static enum exit_code start_node(struct server *server);
static enum exit_code start_http(struct server *server);
static unsigned http_loops(const struct config *config);

enum exit_code server_run(const struct config *config)
{
    struct server server = {.config = config, .phase = SERVER_STARTING};
    enum exit_code code;

    ASSERT(uv_loop_init(&server.loop) == 0);
    server.began_ms = server_now_ms();
    log_setup(config->log_level, config->node_id);
    (void)umask(077);
    log_config(config);
    log_warnings(config, raise_file_limit());
    server_stop_init(&server);
    code = start_store(&server);
    if (code == EXIT_CODE_STOPPED) {
        code = start_node(&server);
    }
    if (code == EXIT_CODE_STOPPED && server.node != NULL) {
        code = start_http(&server);
    }
    if (code == EXIT_CODE_STOPPED && server.node != NULL) {
        server_move(&server, SERVER_SERVING);
        log_info("app", "started", "took_ms=%" PRIu64, server.phase_ms - server.began_ms);
    } else if (server.node != NULL) {
        server_stop_node(&server);
    } else {
        server_move(&server, SERVER_STOPPED);
    }
    (void)uv_run(&server.loop, UV_RUN_DEFAULT);
    ASSERT(server.phase == SERVER_STOPPED);
    ASSERT(uv_loop_close(&server.loop) == 0);
    if (server.store != NULL) {
        server.store->ops->close(server.store);
    }
    buf_free(&server.libraries);
    if (code == EXIT_CODE_STOPPED) {
        code = server.removed ? EXIT_CODE_REMOVED : EXIT_CODE_STOPPED;
        log_info("app", "stopped", "took_ms=%" PRIu64, server_now_ms() - server.began_ms);
    }
    return code;
}

uint64_t server_now_ms(void)
{
    return clock_now_ms(clock_system());
}

static const char *quote(const char *text, char out[QUOTED_BYTES])
{
    return log_quote(text, strlen(text), out, QUOTED_BYTES);
}

static void log_config(const struct config *config)
{
    char quoted[QUOTED_BYTES];
    struct buf members = BUF_INIT;

    log_info("app", "starting", "version=%s commit=%s pid=%d config=%s", LEAFD_VERSION,
             LEAFD_COMMIT[0] != '\0' ? LEAFD_COMMIT : "unknown", (int)getpid(),
             quote(config->file, quoted));
    for (size_t i = 0; i < config->member_count; i++) {
        buf_printf(&members, "%s%" PRIu64 "=%s", i > 0 ? "," : "", config->members[i].id,
                   config->members[i].address);
    }
    for (size_t i = 0; i < config->join_count; i++) {
        buf_printf(&members, "%sjoin=%s", members.len > 0 ? "," : "", config->join[i].address);
    }
    buf_put_u8(&members, '\0');
    log_info("app", "cluster", "cluster=%s members=%s peer_listen=%s secret=%s", config->cluster_id,
             (const char *)members.data, config->peer_listen,
             config->secret_len > 0 ? "yes" : "no");
    log_info("app", "timing",
             "heartbeat_ms=%" PRIu64 " election_ms=%" PRIu64 " cover_ms=%" PRIu64
             " refill_percent=%" PRIu64 " timeout_ms=%" PRIu64,
             config->raft_heartbeat_ms, config->raft_election_ms, config->segment_cover_ms,
             config->segment_refill_percent, config->http_timeout_ms);
    buf_free(&members);
}

/* What is allowed, and may yet be a mistake. */
static void log_warnings(const struct config *config, rlim_t files)
{
    uint64_t wanted = http_loops(config) * config->http_connections + FILES_BESIDE_CLIENTS;

    if (config->member_count > 0 && config->member_count % 2 == 0) {
        log_warn("app", "an even number of members survives no more failures than one fewer",
                 "members=%zu", config->member_count);
    }
    if (!config_is_loopback(config->http_listen)) {
        log_warn("app", "HTTP has no authentication and can be reached from other machines",
                 "http_listen=%s", config->http_listen);
    }
    if (files < wanted) {
        log_warn("app", "fewer open files are allowed than http.connections may need",
                 "limit=%" PRIu64 " needed=%" PRIu64, (uint64_t)files, wanted);
    }
}

/* As many open files as the system allows; returns how many. */
static rlim_t raise_file_limit(void)
{
    struct rlimit limit;

    ASSERT(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {limit.rlim_max, limit.rlim_max};

        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
            limit = raised;
        }
    }
    return limit.rlim_cur;
}

/* What an operator can do about data that was refused. */
static const char *hint(int err)
{
    switch (err) {
    case ERR_LOCKED:
        return "stop that process first; two must never share a data directory";
    case ERR_CORRUPT:
    case ERR_TRUNCATED:
        return "nothing was changed; keep the directory for analysis, and replace the node by a "
               "new "
               "member with a new node.id";
    case ERR_WRONG_NODE:
        return "check data.dir, node.id and cluster.id; nothing was changed";
    case ERR_BAD_VERSION:
        return "this data was written by another version of leafd; nothing was changed";
    case ERR_IMPLAUSIBLE:
        return "nothing was changed; replace the node by a new member with a new node.id, or, if "
               "most nodes say so, stop them all and start these with raft.reset-term = true: see "
               "docs/failure-model.md";
    case ERR_DISK_FULL:
        return "make room, or raise data.map-bytes";
    default:
        return "check data.dir, its disk and its permissions";
    }
}

static void log_refused_data(const struct server *server, int err, const char *text)
{
    char dir[QUOTED_BYTES];
    char reason[400];

    log_error("app", "cannot use the data directory", "dir=%s err=%s reason=%s hint=\"%s\"",
              quote(server->config->data_dir, dir), err_code(err),
              log_quote(text, strlen(text), reason, sizeof reason), hint(err));
}

/* With data.create = false: is there a store? */
static bool store_exists(const struct config *config)
{
    char path[LIMIT_PATH_BYTES + 8];

    (void)snprintf(path, sizeof path, "%s/db", config->data_dir);
    return access(path, F_OK) == 0;
}

static enum exit_code start_store(struct server *server)
{
    const struct config *config = server->config;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    struct store_lmdb_config store = {
        .dir = config->data_dir,
        .map_bytes = (config->data_map_bytes + page_bytes - 1) / page_bytes * page_bytes,
        .identity = {.node_id = config->node_id, .store_id = prng_entropy()},
    };
    uint64_t began_ms = server_now_ms();
    struct store_error error = {""};
    struct store_space space;
    char quoted[QUOTED_BYTES];
    bool made = false;
    int err;

    if (!config->data_create && !store_exists(config)) {
        log_error("app", "there is no store in the data directory, and data.create is false",
                  "dir=%s hint=\"is its disk mounted?\"", quote(config->data_dir, quoted));
        return EXIT_CODE_DATA;
    }
    memcpy(store.identity.cluster_id, config->cluster_id, strlen(config->cluster_id) + 1);
    err = store_lmdb_open(&store, &server->store, &made, &error);
    if (err != 0) {
        log_refused_data(server, err, error.text);
        return exit_code_of_open(err);
    }
    server->store->ops->space(server->store, &space);
    log_info("store", made ? "made" : "opened",
             "dir=%s used_bytes=%" PRIu64 " map_bytes=%" PRIu64 " disk_free_bytes=%" PRIu64
             " took_ms=%" PRIu64,
             quote(config->data_dir, quoted), space.used_bytes, space.map_bytes,
             space.disk_free_bytes, server_now_ms() - began_ms);
    return EXIT_CODE_STOPPED;
}

/* Going on would be unsafe. Any thread; the data is as safe as after a kill. */
static void node_failed_cb(void *data, int err, const char *text)
{
    enum exit_code code = exit_code_of(err);
    char quoted[400];

    (void)data;
    log_error("app", "the node cannot go on", "err=%s reason=%s exit_code=%d", err_code(err),
              log_quote(text, strlen(text), quoted, sizeof quoted), (int)code);
    _exit((int)code);
}

/* On the loop. */
static void node_removed_cb(void *data)
{
    struct server *server = data;

    if (server->phase != SERVER_SERVING) {
        return;
    }
    log_error("app", "this node was removed from the cluster: stopping",
              "node=%" PRIu64
              " exit_code=%d hint=\"its id never comes back; for a new member, give "
              "it an empty data directory and a new node.id, and join\"",
              server->config->node_id, (int)EXIT_CODE_REMOVED);
    server_stop_removed(server);
}

/* Why a node was not let in, or could not start. */
static const char *start_hint(int err)
{
    switch (err) {
    case ERR_EXISTS:
        return "another process listens there; is this node running already?";
    case ERR_REMOVED:
    case ERR_WRONG_NODE:
        return "give it an empty data directory and a node.id that was never used";
    case ERR_STALE:
        return "restore the newest copy, or give it an empty one and a node.id that was never used";
    case ERR_REFUSED:
        return "check node.id and peer.advertise against GET /api/cluster of a member";
    case ERR_INVALID:
        return "check peer.listen, cluster.members and join";
    default:
        return "check peer.listen and cluster.members";
    }
}

static enum exit_code start_node(struct server *server)
{
    const struct config *config = server->config;
    struct node_config node = {
        .node_id = config->node_id,
        .cluster_id = config->cluster_id,
        .secret = config->secret,
        .secret_len = config->secret_len,
        .listen_address = config->peer_listen,
        .http_address = config->http_advertise,
        .version = LEAFD_VERSION,
        .member_count = config->member_count,
        .heartbeat_ms = (uint32_t)config->raft_heartbeat_ms,
        .election_ms = (uint32_t)config->raft_election_ms,
        .snapshot_entries = (uint32_t)config->raft_snapshot_entries,
        .trailing_entries = (uint32_t)config->raft_trailing_entries,
        .join_count = config->join_count,
        .peer_address = config->peer_advertise,
        .catch_up_ms = (uint32_t)config->raft_catch_up_ms,
        .reset_term = config->raft_reset_term,
        .cover_ms = (uint32_t)config->segment_cover_ms,
        .refill_percent = (uint32_t)config->segment_refill_percent,
        .strict_keys = (uint32_t)config->strict_keys,
        .prefetch = {(uint32_t)config->prefetch_tags, (uint32_t)config->prefetch_rate},
        .lease = {.workers = (uint32_t)config->snowflake_workers,
                  .window_ms = (uint32_t)config->snowflake_window_ms,
                  .renew_ms = (uint32_t)config->snowflake_renew_ms,
                  .mark_lead_ms = (uint32_t)config->snowflake_mark_lead_ms,
                  .threshold_ms = (uint32_t)config->snowflake_clock_threshold_ms,
                  .layout = config->snowflake_layout},
        .failed = node_failed_cb,
        .removed = node_removed_cb,
        .data = server,
    };
    uint64_t began_ms = server_now_ms();
    struct store_error error = {""};
    char reason[400];
    int err;

    _Static_assert(sizeof node.members == sizeof config->members, "the same members");
    memcpy(node.members, config->members, sizeof node.members);
    memcpy(node.join, config->join, sizeof node.join);
    err = node_start(&server->loop, &node, server->store, &server->node, &error);
    if (exit_code_of(err) == EXIT_CODE_DATA) {
        log_refused_data(server, err, error.text);
        return exit_code_of_open(err);
    }
    if (err == ERR_SHUTTING_DOWN) { /* told to stop while it waited to be let in */
        return EXIT_CODE_STOPPED;
    }
    if (err != 0) {
        log_error("app", "cannot start the node", "err=%s peer_listen=%s reason=%s hint=\"%s\"",
                  err_code(err), config->peer_listen,
                  log_quote(error.text, strlen(error.text), reason, sizeof reason),
                  start_hint(err));
        return exit_code_of(err);
    }
    log_info("app", "node loaded", "peer_listen=%s took_ms=%" PRIu64, config->peer_listen,
             server_now_ms() - began_ms);
    return EXIT_CODE_STOPPED;
}

static unsigned http_loops(const struct config *config)
{
    unsigned cores = uv_available_parallelism();

    if (config->http_loops > 0) {
        return (unsigned)config->http_loops;
    }
    if (cores <= 2) {
        return 1;
    }
    return cores - 1 < LIMIT_HTTP_LOOPS ? cores - 1 : LIMIT_HTTP_LOOPS;
}

static enum exit_code start_http(struct server *server)
{
    const struct config *config = server->config;
    struct http_config http = {
        .listen_address = config->http_listen,
        .loops = http_loops(config),
        .default_timeout_ms = (uint32_t)config->http_timeout_ms,
        .head_ms = (uint32_t)config->http_head_ms,
        .body_ms = (uint32_t)config->http_body_ms,
        .idle_ms = (uint32_t)config->http_idle_ms,
        .write_ms = (uint32_t)config->http_write_ms,
        .connections = (uint32_t)config->http_connections,
        .node_id = config->node_id,
        .version = LEAFD_VERSION,
        .commit = LEAFD_COMMIT,
    };
    int err;

    libraries_json(&server->libraries);
    buf_put_u8(&server->libraries, '\0');
    http.libraries = (const char *)server->libraries.data;
    err = http_server_start(&http, node_backend(server->node), &server->http);
    if (err != 0) {
        log_error("app", "cannot start HTTP", "err=%s http_listen=%s hint=\"%s\"", err_code(err),
                  config->http_listen,
                  err == ERR_EXISTS ? "another process listens there; choose another http.listen"
                                    : "check http.listen");
        return exit_code_of(err);
    }
    /* The loop has not run since node_start(), so no wake-up was missed. */
    node_set_waker(server->node, http_server_waker(server->http));
    log_info("http", "listening", "address=%s loops=%u", config->http_listen, http.loops);
    return EXIT_CODE_STOPPED;
}
