/*
 * conn.h - a client's connection: bytes in, one request at a time, replies out in order.
 *
 *   READING --request complete--> (handler) --reply--> READING
 *      |                              `--conn_wait()--> WAITING --reply--> READING
 *      |  reply with "Connection: close", or the client's end
 *      `----> FINISHING --all written--> LINGERING --the client's end or a deadline--> CLOSED
 *                                 `------------------------------------------------> CLOSED
 *
 * The happy path: bytes are read into a buffer of fixed size; every complete request in it is
 * served at once, its reply appended to `out`; what a batch of requests caused is written by one
 * write. While a request waits (for a refill, or for the cluster) the connection reads no further
 * than its buffer, so that replies stay in order; its end shows at once that the client has gone.
 *
 * Both buffers are lent by the loop as long as a connection is served. It has memory of its own
 * only for what it must keep: a request that is not complete or that waits, and replies that the
 * socket does not take. So an idle connection costs little memory, and all requests pass through
 * the same memory, which the processor has at hand, however many connections there are.
 *
 * Failure modes: each closes with a reason, logged at debug level. A request that breaks the
 * protocol gets its error, then the connection closes; it lingers, reading and dropping for a
 * moment, because closing with unread input would reset the connection and destroy the reply on its
 * way.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_SERVER_CONN_H
#define LEAFD_HTTP_SERVER_CONN_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "http/api/ids.h"
#include "http/server/loop.h"
#include "http/server/memo.h"
#include "http/proto/parser.h"
#include "http/proto/response.h"
#include "http/api/router.h"
#include "http/proto/target.h"
#include "src/base/hot.h"

enum conn_state { CONN_READING, CONN_WAITING, CONN_FINISHING, CONN_LINGERING, CONN_CLOSED };

/* What each request touches comes first. */
struct conn {
    uv_poll_t poll;
    struct http_loop *loop;
    int fd;
    int events; /* of the socket that are waited for: UV_READABLE, UV_WRITABLE */
    enum conn_state state;
    enum loop_phase phase;
    uint64_t phase_due_ms;
    bool processing; /* conn_process() is on the stack */
    bool served;     /* a request was, since the phase was set: a new wait begins */
    bool ready;      /* in loop->ready */
    bool unflushed;  /* in loop->unflushed */
    bool writing;    /* there is something in `sending` */
    bool refused;    /* over the limit of connections */
    bool closing;    /* the next reply is the last */
    bool linger;     /* unread input is likely: see above */
    bool reset;      /* close without delivering what is unsent */
    bool ended;      /* the client's end was read */
    bool in_head;    /* `parser` is in the present request's head */
    bool in_body;
    TAILQ_ENTRY(conn) flush_link;
    /* input[start, end) holds the present request and what follows; the body is consumed up to
     * next */
    char *input; /* LOOP_INPUT_BYTES: the loop's, or own memory; NULL: there is nothing in it */
    uint32_t start;
    uint32_t next;
    uint32_t end;
    uint32_t reply_count;    /* replies in out and sending */
    struct buf out;          /* replies not given to the socket yet */
    struct control *control; /* the request to the cluster that is waited for, or NULL */
    struct memo *memo;       /* of the present head, as long as it is being served; or NULL */
    struct parser_head head; /* of the present request; zeros until it is complete */
    struct request request;
    enum router_result routed;
    struct buf body;       /* of the present request, where the route takes one */
    struct id_claim claim; /* of an id request */
    struct buf sending;    /* what the socket did not take at once */
    size_t sent_bytes;     /* of it */
    size_t sent_before;    /* at the last look: progress moves the deadline */
    uint64_t write_due_ms;
    TAILQ_ENTRY(conn) all_link;
    TAILQ_ENTRY(conn) ready_link;
    TAILQ_ENTRY(conn) phase_link;
    TAILQ_ENTRY(conn) write_link;
    struct parser parser;
};

/* --- for the loop (conn_io.c, conn.c) --- */

/* Take over an accepted socket. refused: it only gets a 503. Closes fd on failure. */
void conn_open(struct http_loop *loop, int fd, bool refused);

/* Serve what is in the buffer; the replies are written by loop_flush(). From loop_settle() and the
 * callbacks of the socket. */
void conn_process(struct conn *conn);

/* Close without another word; memory goes when libuv is through. Idempotent. */
COLD void conn_close(struct conn *conn, const char *reason);

/* A deadline of the read side (conn->phase) or of the write side came. */
void conn_phase_expired(struct conn *conn);
void conn_write_expired(struct conn *conn);

/* The loop drains: close if nothing is under way. */
void conn_drain(struct conn *conn);

/* Write what waits in `out`; at the end of a FINISHING connection begin to close it. From
 * loop_flush(). */
void conn_flush(struct conn *conn);

/* After a turn: which deadline holds, and whether to read on. */
void conn_rest(struct conn *conn);

/* True when so much is unsent that no further request is served. */
bool conn_output_full(const struct conn *conn);

/* Where replies are appended. */
struct buf *conn_output(struct conn *conn);

/* --- for handlers (conn_reply.c) --- */

/* A place in the present request. There is one (input is not NULL). */
static inline const char *conn_at(const struct conn *conn, size_t at)
{
    return conn->input + conn->start + at;
}

/* The handler answers later. */
void conn_wait(struct conn *conn);

/* Answer the present request. extra: more header lines with CRLF, or NULL. */
void conn_reply(struct conn *conn, int status, const char *type, const char *extra,
                const void *body, size_t len);
void conn_reply_json(struct conn *conn, int status, const struct buf *body);

/* Answer with an error. The message is printf-like; values shown by text_show(). */
COLD void conn_fail(struct conn *conn, int status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same; more: further members of the error's JSON, each with a comma before it. */
COLD void conn_fail_with(struct conn *conn, int status, const char *code, const char *more,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Answer 405 with the Allow header. */
COLD void conn_fail_method(struct conn *conn, const char *allow);

/* Answer with an error and close: the input cannot be trusted to be in step. */
COLD void conn_reject(struct conn *conn, const struct parser_reject *reject);

/* The answer for an error of the backend that is not particular to a route. */
COLD void conn_fail_err(struct conn *conn, int err);

/* Parse the request's query into options (space: LIMIT_HTTP_TARGET_BYTES). On failure the error is
 * answered and false returned. */
bool conn_options(struct conn *conn, struct option *options, size_t count, char *space);

/* The decoded, checked tag name of the path into name (LIMIT_TAG_NAME_BYTES). On failure the error
 * is answered and false returned. */
bool conn_tag_name(struct conn *conn, char *name, size_t *ret_len);

/* An option's whole number, or fallback when absent; answers 400 and returns false if it is
 * none. */
bool conn_option_number(struct conn *conn, const struct option *option, const char *code,
                        uint64_t min, uint64_t max, uint64_t fallback, uint64_t *ret_value);

/* An option of 1 or 0, false when absent. */
bool conn_option_flag(struct conn *conn, const struct option *option, bool *ret_value);

#endif
