/*
 * server_internal.h - what starting (server.c) and stopping (server_stop.c) share. Thread: main.
 */
#ifndef LEAFD_APP_SERVER_INTERNAL_H
#define LEAFD_APP_SERVER_INTERNAL_H

#include <uv.h>

#include "http/server/server.h"
#include "raft/node/node.h"
#include "src/app/server.h"
#include "storage/store_lmdb.h"

/*
 *   STARTING --> SERVING --> HANDOVER --> DRAINING --> STOPPING --> STOPPED
 *       |                                                 ^
 *       +-------------------------------------------------+  (HTTP did not start)
 */
enum server_phase {
    SERVER_STARTING,
    SERVER_SERVING,
    SERVER_HANDOVER,
    SERVER_DRAINING,
    SERVER_STOPPING,
    SERVER_STOPPED
};

struct server {
    const struct config *config;
    enum server_phase phase;
    uv_loop_t loop;
    uv_signal_t sigterm;
    uv_signal_t sigint;
    uv_async_t drained; /* sent by an HTTP thread */
    uv_timer_t timer;   /* looks whether leadership has gone */
    uv_poll_t told;     /* signals that are told in the log, and do nothing */
    int told_fd;
    struct store *store;
    struct node *node;        /* NULL before the start and after the stop */
    struct http_server *http; /* likewise */
    struct buf libraries;     /* for GET /version; lives as long as http */
    uint64_t began_ms;        /* of the start, then of the stop; on the loop's clock */
    uint64_t phase_ms;        /* when the phase began */
    uint64_t grace_until_ms;  /* of the stop */
    bool removed;             /* it stops because the cluster has removed it */
};

/* The one place that changes the phase. */
void server_move(struct server *server, enum server_phase phase);

/* Milliseconds of the monotonic clock. */
uint64_t server_now_ms(void);

/* Make the handles that stopping needs. They do not keep the loop alive. */
void server_stop_init(struct server *server);

/* Begin to stop; uv_run() returns when all is closed but the store. */
void server_stop_begin(struct server *server, int signal_number);

/* The same, because the cluster has removed this node. */
void server_stop_removed(struct server *server);

/* HTTP did not start: stop the node at once. uv_run() returns when that is done. */
void server_stop_node(struct server *server);

#endif
