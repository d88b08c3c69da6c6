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

struct conn;

/* What an audited route may change, as the audit tells what was there before (audited.h). */
enum route_changes {
    CHANGES_OTHER,
    CHANGES_WORKER,
    CHANGES_CLUSTER,
    CHANGES_LEVEL,
    CHANGES_LAYOUT
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
    bool takes_body;            /* bodies are kept for the handler; else read and dropped */
    bool is_long;               /* its reply is long in the making: one a turn of the loop */
    bool is_bulk; /* bodies of up to LIMIT_HTTP_BODY_BYTES; else the small limit holds */
    int (*handle)(struct conn *conn); /* see route.h */
};

/* The largest body that it takes; NULL: no route. */
static inline uint32_t route_body_max(const struct route *route)
{
    return route != NULL && route->is_bulk ? LIMIT_HTTP_BODY_BYTES : LIMIT_HTTP_SMALL_BODY_BYTES;
}

/* --- what serves each route --- */

struct api_loop;
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

/* cluster.c */
int handle_cuts_list(struct conn *conn);
int handle_cut_put(struct conn *conn);
int handle_cut_end(struct conn *conn);
int handle_backup(struct conn *conn);
int handle_cluster(struct conn *conn);
int handle_node_segments(struct conn *conn);
int handle_cluster_segments(struct conn *conn);
int handle_member_add(struct conn *conn);
int handle_member_remove(struct conn *conn);
int handle_member_move(struct conn *conn);
int handle_node_drain(struct conn *conn);
int handle_node_resume(struct conn *conn);
int handle_node_put(struct conn *conn);
int handle_leader(struct conn *conn);
int handle_level_see(struct conn *conn);
int handle_level_raise(struct conn *conn);

/* status.c */
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
