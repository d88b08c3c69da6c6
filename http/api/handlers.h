/*
 * handlers.h - what serves each route. A handler is called when its request is complete; it
 * answers, by its result or by itself (request.h), or lets the request wait: parked for ids, or for
 * an answer of the cluster (call.h).
 *
 * Thread: the connection's loop.
 */
#ifndef LEAFD_HTTP_API_HANDLERS_H
#define LEAFD_HTTP_API_HANDLERS_H

#include <stddef.h>
#include <stdint.h>

struct api_loop;
struct conn;
struct id_tag;
struct timer;

/* handlers_segment.c */
int handle_segment_get(struct conn *conn);

/* Let parked requests of a tag try again, oldest first. */
void segment_wake(struct api_loop *loop, struct id_tag *tag);

/* handlers_snowflake.c */
int handle_snowflake_get(struct conn *conn);

/* Let parked snowflake requests try again, oldest first: when loop->snowflake_retry fires. */
void snowflake_retry_fire(struct timer *timer, uint64_t now_ms);

/* handlers_decode.c */
int handle_segment_decode(struct conn *conn);
int handle_snowflake_decode(struct conn *conn);
int handle_leaf_decode(struct conn *conn);

/* handlers_workers.c */
int handle_worker_acquire(struct conn *conn);
int handle_worker_renew(struct conn *conn);
int handle_worker_release(struct conn *conn);
int handle_workers_list(struct conn *conn);

/* handlers_layouts.c */
int handle_layout_get(struct conn *conn);
int handle_layout_put(struct conn *conn);
int handle_layout_delete(struct conn *conn);
int handle_layouts_list(struct conn *conn);

/* handlers_tags.c */
int handle_tag_get(struct conn *conn);
int handle_tag_put(struct conn *conn);
int handle_tag_delete(struct conn *conn);
int handle_tags_put(struct conn *conn);
int handle_tags_list(struct conn *conn);

/* handlers_backup.c */
int handle_backup(struct conn *conn);

/* handlers_cluster.c */
int handle_cluster(struct conn *conn);
int handle_node_segments(struct conn *conn);
int handle_cluster_segments(struct conn *conn);

/* handlers_members.c */
int handle_member_add(struct conn *conn);
int handle_member_remove(struct conn *conn);
int handle_member_move(struct conn *conn);
int handle_leader(struct conn *conn);
int handle_level_see(struct conn *conn);
int handle_level_raise(struct conn *conn);

/* watch.c */
int handle_status(struct conn *conn);
int handle_events(struct conn *conn);

/* handlers_page.c */
int handle_page(struct conn *conn);
int handle_openapi(struct conn *conn);

/* The description of all routes for machines, an OpenAPI 3.1 document: openapi.json beside this
 * file, which is put into the binary as it is, without a NUL at its end. tests/test_openapi.c holds
 * it against the table of routes, cluster-tests/test_openapi.py its options, bounds and schemas
 * against what a node answers. */
const char *openapi_text(size_t *ret_len);

/* live.c */
int handle_live(struct conn *conn);

/* audited.c */
int handle_audit(struct conn *conn);

/* handlers_health.c */
int handle_livez(struct conn *conn);
int handle_readyz(struct conn *conn);
int handle_version(struct conn *conn);

/* handlers_metrics.c */
int handle_metrics(struct conn *conn);

#endif
