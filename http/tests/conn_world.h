/*
 * conn_world.h - one HTTP loop without a thread, a backend that works when it is told to, and
 * clocks that stand still: what connections answer, and what they ask, is a function of the bytes
 * they are given and of where these were cut.
 *
 * The loop, its connections and the handlers are the real ones. A client is the other end of a
 * socketpair. Nothing happens but in the calls below; each returns when all is at rest. Where a
 * request waits for something that only time brings, the clocks are moved on until it is answered.
 *
 * The happy path: conn_world_start(); then, again and again, conn_world_reset(),
 * conn_world_connect(), conn_world_send() piece by piece, conn_world_disconnect(), and a look at
 * `replies` and `asked`.
 *
 * Failure modes: an ASSERT, also for what must hold after each connection: no request waits, no
 * body is counted, no connection is left.
 *
 * Thread: one, and one world at a time in it.
 */
#ifndef LEAFD_HTTP_TESTS_CONN_WORLD_H
#define LEAFD_HTTP_TESTS_CONN_WORLD_H

#include "http/api/request.h"
#include "http/server/loop.h"
#include "http/tests/fake_backend.h"

struct conn_world {
    struct fake fake;
    struct http_settings settings;
    struct api *api;
    struct http_server *server;
    struct http_loop *loop;
    struct conn *conn;           /* that is open; NULL: none, or the server has closed it */
    int fd;                      /* the client's end, -1: not connected */
    bool ended;                  /* the server has closed its end */
    bool deaf;                   /* the client reads nothing */
    bool resp;                   /* connections are those of the RESP listener */
    const struct sockaddr *peer; /* whose they are; NULL: nobody's */
    bool late;                   /* the backend is not told to work, and no time passes by itself */
    struct buf replies;          /* all that was sent to clients since the reset */
    struct buf asked; /* what the backend was asked since the reset, a line each, without what
                           differs from one repetition to the next */
    struct buf names; /* the names of tags in it, by buf_put_str16() */
};

void conn_world_start(struct conn_world *world);

/* The same over TLS; tls: borrowed, with a certificate in force. auth: borrowed; NULL: all may do
 * everything. */
void conn_world_start_tls(struct conn_world *world, struct tls *tls, struct auth *auth);
void conn_world_stop(struct conn_world *world);

/* Everything as at the start: cluster, table of tags, clocks, what was recorded.
 * Tags are there: "plain", "a/b" and one of 128 bytes 'n' with large segments, "small" with
 * segments of 1 to 8 ids, "full" without any ids left, "strict"; "behind1" and "behind2", which
 * this node takes for strict ones. Snowflake ids have one worker id. */
void conn_world_reset(struct conn_world *world);

void conn_world_connect(struct conn_world *world);

/* Send bytes, unless the server has ended the connection. */
void conn_world_send(struct conn_world *world, const void *data, size_t len);

void conn_world_send_text(struct conn_world *world, const char *text);

/* The replies begin with this status, "200"; all of them are taken away. */
void conn_world_expect_status(struct conn_world *world, const char *status);

/* Until nothing more happens and, unless `late`, no request waits for it to get later. The other
 * calls do so at their ends. */
void conn_world_rest(struct conn_world *world);

/* The client has no more to say, reads to the end, and closes. Nothing is late any
 * more. */
void conn_world_disconnect(struct conn_world *world);

/* Let time pass: deadlines that come due are served. */
void conn_world_pass(struct conn_world *world, uint64_t ms);

#endif
