/*
 * exchange.h - one request and its answer, by libcurl.
 *
 * The happy path: exchange_new() once, exchange_do() for each request; connections are kept.
 *
 * Failure modes: EXCHANGE_NOT_SENT, the server cannot have seen the request; EXCHANGE_UNKNOWN, it
 * may have, and may have carried it out; each with a text. No redirect is followed and no proxy is
 * asked. An answer beyond EXCHANGE_BODY_BYTES is an error, unless a sink takes it.
 *
 * Thread: one.
 */
#ifndef LEAFD_CTL_NET_EXCHANGE_H
#define LEAFD_CTL_NET_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/ctl/net/settings.h"

#define EXCHANGE_BODY_BYTES (64 << 20)
#define EXCHANGE_CONNECT_MS 3000 /* at most, of a request's time */

/* Takes a body of status 200 piece by piece; false ends the exchange. */
struct exchange_sink {
    bool (*take)(void *data, const void *bytes, size_t len);
    void *data;
} BY_NAME;

struct exchange_request {
    const char *method;
    const char *url;
    const char *body; /* NULL: none */
    size_t body_len;
    const char *key;                  /* Idempotency-Key; NULL: none */
    uint32_t timeout_ms;              /* of all of it; with a sink: without a byte for so long */
    const struct exchange_sink *sink; /* NULL: into the answer */
    /* It must not be sent twice. libcurl sends a request again where a connection that was kept
     * turns out to be closed; on one of its own it does not. */
    bool once;
};

struct exchange_answer {
    long status;
    uint32_t retry_after_ms; /* 0: nothing said */
    struct buf body;         /* with a NUL behind it */
};

enum exchange_outcome { EXCHANGE_DONE, EXCHANGE_NOT_SENT, EXCHANGE_UNKNOWN };

struct exchange;

/* settings: borrowed as long as the exchange. */
struct exchange *exchange_new(const struct settings *settings);
void exchange_free(struct exchange *exchange);

/* why: a text is appended unless it is EXCHANGE_DONE. The answer is the caller's to free. */
enum exchange_outcome exchange_do(struct exchange *exchange, const struct exchange_request *request,
                                  struct exchange_answer *ret_answer, struct buf *why);

/* Percent encoding of a part of a path, or of a value of an option. */
void exchange_encode(struct buf *out, const char *text);

#endif
