/*
 * talk.h - answering the requests of a connection, whatever protocol it speaks.
 *
 * There are three ways:
 *   - whole: conn_answer(), of which conn_fail() is the one for errors;
 *   - in parts: conn_answer_parts(), of a known length, made part by part when it is this
 *     connection's turn, so that long answers keep nobody waiting;
 *   - as a stream: conn_stream(), of no known length, as its pieces come about.
 *
 * The talker (service.h) frames what is said. The happy path: conn_serve() gives a complete request
 * to the service, which answers it at once, or later after conn_wait(). An answer is appended to
 * the connection's output, and sent at the end of the turn (conns.h).
 *
 * Failure modes: a request that breaks the protocol, comes too slowly or is too much gets its error
 * by conn_reject() or conn_refuse(), and the connection ends. It lingers, reading and dropping for
 * a moment, because closing with unread input would reset the connection and destroy the reply on
 * its way.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_SERVER_TALK_H
#define LEAFD_HTTP_SERVER_TALK_H

#include <stdbool.h>
#include <stddef.h>

#include "http/server/conn.h"

/* --- whole --- */

#define ANSWER_TEXT "text/plain;charset=UTF-8"
#define ANSWER_JSON "application/json;charset=UTF-8"

/* Answer the present request. type: NULL: there is no body; extra: more header lines with CRLF, or
 * NULL. A protocol without headers has neither, and the body is the answer. */
void conn_answer(struct conn *conn, int status, const char *type, const char *extra,
                 const void *body, size_t len);

/* Answer with an error. extra: as above; more: further members of the error's JSON, each with a
 * comma before it, or "". */
COLD void conn_fail(struct conn *conn, int status, const char *code, const char *extra,
                    const char *more, const char *message);

/* --- in parts --- */

/* Embedded in what the service keeps for the answer. */
struct answer_parts {
    /* Append the next part, of up to LIMIT_HTTP_PART_BYTES. True: it is the last one. */
    bool (*put)(struct conn *conn, struct answer_parts *parts, struct buf *out);
    /* The answer is complete, or the client has gone. */
    void (*free)(struct answer_parts *parts);
    struct http_wait wait; /* the connection's own */
} BY_NAME;

/* Answer with a 200 of `len` bytes in all, len > 0, or as many as the protocol makes of them. */
void conn_answer_parts(struct conn *conn, const char *type, const char *extra, size_t len,
                       struct answer_parts *parts);

/* --- as a stream --- */

/* Answer with a 200 whose body comes in pieces: conn_stream(), then pieces, between which the
 * request waits (http_wait.sent), then the end. */
COLD void conn_stream(struct conn *conn, const char *type);
COLD void conn_stream_put(struct conn *conn, const void *data, size_t len);

/* cut: NULL: all is said; else why there is no right end, and the connection is reset. */
COLD void conn_stream_end(struct conn *conn, const char *cut);

/* --- for talkers, and for conns.c --- */

/* The request is complete: let it be answered. */
HOT void conn_serve(struct conn *conn);

/* Answer with an error and close: the input cannot be trusted to be in step. */
COLD void conn_reject(struct conn *conn, const struct parser_reject *reject);

/* The same, for want of room, or for a quota. limit: 0: none is named. */
COLD void conn_refuse(struct conn *conn, enum meter_refusal refusal, uint64_t limit);

/* Answer the present request, which is the header of a proxy that no setting names: the connection
 * ends. */
COLD void conn_is_proxied(struct conn *conn);

/* --- quotas --- */

/* conn_charge(), where there is a quota. */
bool conn_charge_bound(struct conn *conn, struct client_rate *rate, uint64_t amount);

/* Charge the client's quota, conn->client->requests or ids. True: go on; else answered with 429. */
static inline bool conn_charge(struct conn *conn, struct client_rate *rate, uint64_t amount)
{
    return (!conn->over_quota && !client_has_quota(rate)) || conn_charge_bound(conn, rate, amount);
}

#endif
