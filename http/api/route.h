/*
 * route.h - a route: what may be said to it, by whom, at which listener, and what serves it. The
 * table of routes is api.c's.
 *
 * A handler is called when its request is complete; it answers, by its result or by itself
 * (request.h), or lets the request wait: parked for ids, or for an answer of the cluster.
 *
 * Threads: routes are constant; handlers are the connection's loop's.
 */
#ifndef LEAFD_HTTP_API_ROUTE_H
#define LEAFD_HTTP_API_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/auth/tokens.h"
#include "src/base/limits.h"

struct call;
struct conn;

/* What an audited route may change, as the audit tells what was there before (audited.h). */
enum route_changes {
    CHANGES_OTHER,
    CHANGES_WORKER,
    CHANGES_CLUSTER,
    CHANGES_LEVEL,
    CHANGES_LAYOUT
};

/* A change of the cluster, or of its level a look (cluster.c). */
enum cluster_ask {
    ASK_ADD,
    ASK_REMOVE,
    ASK_MOVE,
    ASK_LEAD,
    ASK_LEVEL_SEE,
    ASK_LEVEL,
    ASK_DRAIN,
    ASK_RESUME,
    ASK_WEIGHT
};

struct route {
    const char *path;   /* whole path, or its beginning when takes_name */
    unsigned methods;   /* bits of enum method */
    const char *tail;   /* what follows the name, for which the path has a '*'; NULL: nothing */
    bool takes_name;    /* one more, non-empty path segment follows: the name, still encoded */
    bool takes_options; /* the handler reads the query, as all audited do; else there is none */
    bool names_tag;     /* the name is that of a tag */
    bool is_leaf;       /* Leaf has it, too, and takes what Leaf takes: slashes too many, unknown
                            options, bodies of any type */
    bool is_tinyid;     /* TinyID's, and so are its errors; its token is read by the handler */
    bool audited;       /* it changes something, or shows everything */
    enum route_changes changes; /* of an audited one that does not name a tag */
    bool takes;                 /* a GET of it takes ids, a place, or room: no page may cause it */
    unsigned listeners;         /* bits of enum api_listener: where it is served */
    enum role role;             /* who may ask it, */
    unsigned also;              /* and who else: bits of enum role */
    uint8_t traffic;            /* enum traffic: as what its requests count */
    bool takes_body;            /* bodies are kept for the handler; else read and dropped */
    bool is_long;               /* its reply is long in the making: one a turn of the loop */
    bool is_bulk;          /* bodies of up to LIMIT_HTTP_BODY_BYTES; else the small limit holds */
    enum cluster_ask asks; /* of handle_cluster_ask() */
    int (*handle)(struct conn *conn);
};

/* --- what serves each route --- */

struct api_loop;
struct buf;
struct id_tag;
struct timer;

/* ids.c */
int handle_segment_get(struct conn *conn);

/* tinyid.c */
int handle_tinyid(struct conn *conn);

/* Let parked requests of a tag try again, oldest first. */
void segment_wake(struct api_loop *loop, struct id_tag *tag);

/* snowflake.c */
int handle_snowflake_get(struct conn *conn);

/* Let parked snowflake requests try again, oldest first: when loop->snowflake_retry fires. */
void snowflake_retry_fire(struct timer *timer, uint64_t now_ms);

int handle_segment_decode(struct conn *conn);
int handle_snowflake_decode(struct conn *conn);
int handle_snowflake_at(struct conn *conn);
int handle_leaf_decode(struct conn *conn);
int handle_layout_get(struct conn *conn);
int handle_layout_put(struct conn *conn);
int handle_layout_delete(struct conn *conn);
int handle_layouts_list(struct conn *conn);

/* workers.c */
int handle_worker_acquire(struct conn *conn);
int handle_worker_renew(struct conn *conn);
int handle_worker_release(struct conn *conn);
int handle_workers_list(struct conn *conn);
int handle_pools_get(struct conn *conn);
int handle_pools_put(struct conn *conn);

/* tags.c */
int handle_tag_get(struct conn *conn);
int handle_tag_put(struct conn *conn);
int handle_tag_delete(struct conn *conn);
int handle_tags_put(struct conn *conn);
int handle_tags_list(struct conn *conn);

/* Make a tag whose next id is max_id, for a request that is no PUT; the audit has it. Of a tag that
 * is there TAG_DEFAULT_MAX_ID changes nothing, and a max_id is that of a PUT: it may skip ids. The
 * client has to have the role. finish calls tag_made(). As a handler. */
int tag_make(struct conn *conn, const char *name, size_t len, uint64_t max_id,
             int (*finish)(struct conn *conn, struct call *call));

/* True: it was made, or was there. False: *ret_status is for the handler to return. */
bool tag_made(struct conn *conn, const struct call *call, bool *ret_made, int *ret_status);

/* cluster.c */
int handle_cuts_list(struct conn *conn);
int handle_cut_put(struct conn *conn);
int handle_cut_end(struct conn *conn);
int handle_backup(struct conn *conn);
int handle_node_segments(struct conn *conn);
int handle_cluster_segments(struct conn *conn);
int handle_cluster_ask(struct conn *conn);

/* status.c */
struct api;
struct id_backend;
struct watch;

struct watch *watch_new(const struct id_backend *backend);
void watch_free(struct watch *watch);

/* Look from now on; the servers were started. Main thread. */
void watch_begin(struct api *api);

/* The loop ends: no look any more. Its thread has ended. */
void watch_loop_ends(struct api_loop *loop);

/* How many watch. */
unsigned live_viewers(const struct api *api);

/* Give all of them these bytes, whole events. Takes them over. */
void live_show(struct api *api, struct buf *bytes);

int handle_cluster(struct conn *conn);
int handle_status(struct conn *conn);
int handle_events(struct conn *conn);
int handle_live(struct conn *conn);
int handle_livez(struct conn *conn);
int handle_nodes(struct conn *conn);
int handle_readyz(struct conn *conn);
int handle_version(struct conn *conn);

/* api.c */
int handle_page(struct conn *conn);
int handle_openapi(struct conn *conn);

/* The description of all routes for machines, an OpenAPI 3.1 document: openapi.json beside this
 * file, which is put into the binary as it is, without a NUL at its end. tests/test_api.c holds
 * it against the table of routes, cluster-tests/test_openapi.py its options, bounds and schemas
 * against what a node answers. */
const char *openapi_text(size_t *ret_len);

/* audited.c */
int handle_audit(struct conn *conn);

/* metrics.c */
int handle_metrics(struct conn *conn);

#endif
