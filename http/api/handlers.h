/*
 * handlers.h - what serves each route. A handler is called when its request is complete; it answers
 * with conn_reply() or reply_error(), or lets the request wait: parked for ids, or for an answer of
 * the cluster (call.h).
 *
 * Thread: the connection's loop.
 */
#ifndef LEAFD_HTTP_API_HANDLERS_H
#define LEAFD_HTTP_API_HANDLERS_H

#include <stdint.h>

struct api_loop;
struct conn;
struct id_tag;
struct timer;

/* handlers_segment.c */
void handle_segment_get(struct conn *conn);

/* Let parked requests of a tag try again, oldest first. */
void segment_wake(struct api_loop *loop, struct id_tag *tag);

/* handlers_snowflake.c */
void handle_snowflake_get(struct conn *conn);

/* Let parked snowflake requests try again, oldest first: when loop->snowflake_retry fires. */
void snowflake_retry_fire(struct timer *timer, uint64_t now_ms);

/* handlers_decode.c */
void handle_snowflake_decode(struct conn *conn);
void handle_leaf_decode(struct conn *conn);

/* handlers_workers.c */
void handle_worker_acquire(struct conn *conn);
void handle_worker_renew(struct conn *conn);
void handle_worker_release(struct conn *conn);
void handle_workers_list(struct conn *conn);

/* handlers_tags.c */
void handle_tag_get(struct conn *conn);
void handle_tag_put(struct conn *conn);
void handle_tag_delete(struct conn *conn);
void handle_tags_put(struct conn *conn);
void handle_tags_list(struct conn *conn);

/* handlers_cluster.c */
void handle_cluster(struct conn *conn);
void handle_node_segments(struct conn *conn);

/* handlers_members.c */
void handle_member_add(struct conn *conn);
void handle_member_remove(struct conn *conn);
void handle_leader(struct conn *conn);

/* handlers_health.c */
void handle_livez(struct conn *conn);
void handle_readyz(struct conn *conn);
void handle_version(struct conn *conn);

/* handlers_metrics.c */
void handle_metrics(struct conn *conn);

#endif
