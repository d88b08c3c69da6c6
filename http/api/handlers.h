/*
 * handlers.h - what serves each route. A handler is called when its request is complete; it answers
 * with conn_reply() or conn_fail(), or hands the connection to waiters or to a control request,
 * which answers later.
 *
 * Thread: the connection's loop.
 */
#ifndef LEAFD_HTTP_API_HANDLERS_H
#define LEAFD_HTTP_API_HANDLERS_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct http_loop;
struct id_tag;
struct waiter;

/* handlers_ids.c */
void handle_segment_get(struct conn *conn);

/* Read name and options into conn->claim, with nothing claimed yet. On failure the error is
 * answered and false returned. */
bool ids_read(struct conn *conn, bool snowflake);

/* Answer with the ids of conn->claim, which is complete. extra: more header lines with CRLF, or
 * NULL. */
void ids_answer(struct conn *conn, const char *extra);

/* The tag turned out to be in trend mode: start again, having asked the cluster about it. */
void ids_reopen(struct conn *conn);

/* handlers_strict.c: take the ids of conn->claim from the log. */
void strict_start(struct conn *conn);

/* The connection whose request is parked. */
struct conn *ids_conn(struct waiter *waiter);

/* Let parked requests of a tag try again, oldest first. */
void ids_wake(struct http_loop *loop, struct id_tag *tag);

/* Answer parked requests whose deadline has come. */
void ids_expire(struct http_loop *loop, uint64_t now_ms);

/* The connection goes away: give up its parked request, if any. */
void ids_forget(struct conn *conn);

/* handlers_snowflake.c */
void handle_snowflake_get(struct conn *conn);

/* Let parked snowflake requests try again, oldest first, when loop->snowflake_again_ms has come. */
void snowflake_retry(struct http_loop *loop);

/* Answer a parked one whose deadline has come. */
void snowflake_timeout(struct conn *conn);

/* handlers_decode.c */
void handle_snowflake_decode(struct conn *conn);
void handle_leaf_decode(struct conn *conn);

/* handlers_workers.c */
void handle_worker(struct conn *conn);
void handle_workers(struct conn *conn);

/* handlers_tags.c */
void handle_tag(struct conn *conn);
void handle_tags(struct conn *conn);

/* handlers_cluster.c */
void handle_cluster(struct conn *conn);
void handle_node_segments(struct conn *conn);

/* handlers_members.c */
void handle_members(struct conn *conn);
void handle_member(struct conn *conn);
void handle_leader(struct conn *conn);

/* handlers_health.c */
void handle_livez(struct conn *conn);
void handle_readyz(struct conn *conn);
void handle_version(struct conn *conn);

/* handlers_metrics.c */
void handle_metrics(struct conn *conn);

#endif
