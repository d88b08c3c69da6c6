/*
 * handlers.h - what serves each route. A handler is called when its request is complete; it answers
 * with conn_reply() or conn_fail(), or hands the connection to waiters or to a control request,
 * which answers later.
 *
 * Thread: the connection's loop.
 */
#ifndef LEAFD_HTTP_HANDLERS_H
#define LEAFD_HTTP_HANDLERS_H

#include <stdint.h>

struct conn;
struct http_loop;
struct id_tag;

/* handlers_ids.c */
void handle_segment_get(struct conn *conn);
void handle_snowflake(struct conn *conn);

/* Let parked requests of a tag try again, oldest first. */
void ids_wake(struct http_loop *loop, struct id_tag *tag);

/* Answer parked requests whose deadline has come. */
void ids_expire(struct http_loop *loop, uint64_t now_ms);

/* The connection goes away: give up its parked request, if any. */
void ids_forget(struct conn *conn);

/* handlers_tags.c */
void handle_tag(struct conn *conn);
void handle_tags(struct conn *conn);

/* handlers_cluster.c */
void handle_cluster(struct conn *conn);
void handle_node_segments(struct conn *conn);

/* handlers_health.c */
void handle_livez(struct conn *conn);
void handle_readyz(struct conn *conn);
void handle_version(struct conn *conn);

#endif
