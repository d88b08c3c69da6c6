/*
 * handlers.h - what serves each method (methods.h). A handler is called when its request is
 * complete and may be made; it answers by itself, or lets the request wait, or returns an error, as
 * one over HTTP does (http/api/request.h).
 *
 * Thread: the connection's loop.
 */
#ifndef LEAFD_HTTP_RESP_API_HANDLERS_H
#define LEAFD_HTTP_RESP_API_HANDLERS_H

struct conn;

/* handlers_ids.c */
int handle_incr(struct conn *conn);
int handle_incrby(struct conn *conn);
int handle_next(struct conn *conn);
int handle_snowflake(struct conn *conn);

/* handlers_look.c */
int handle_get(struct conn *conn);
int handle_decode(struct conn *conn);
int handle_info(struct conn *conn);

/* handlers_talk.c */
int handle_ping(struct conn *conn);
int handle_echo(struct conn *conn);
int handle_select(struct conn *conn);
int handle_quit(struct conn *conn);
int handle_client(struct conn *conn);
int handle_command(struct conn *conn);
int handle_config(struct conn *conn);

/* handlers_auth.c */
int handle_auth(struct conn *conn);
int handle_hello(struct conn *conn);

#endif
