/*
 * reply.h - replies out of the bytes of a connection: HTTP/1.1, or Redis's RESP.
 *
 * reply_feed() takes bytes as they come and calls back for each complete reply. What is no reply
 * ends it: a malformed head, an HTTP reply without a length, a body above REPLY_BODY_MAX.
 * Thread: the load's.
 */
#ifndef LEAFD_SCRIPTS_BENCH_REPLY_H
#define LEAFD_SCRIPTS_BENCH_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <http_parser.h>

#include "src/base/buf.h"

#define REPLY_BODY_MAX (64U << 20)

enum reply_protocol { REPLY_HTTP, REPLY_RESP };

struct reply {
    int status;       /* RESP: 200, or 0 for an error reply */
    bool keep_alive;  /* false: the server closes after this one */
    const char *body; /* RESP: the value without its type and line ends */
    size_t len;
};

/* A reply is complete; it is borrowed. False: no more are wanted (nobody asked for this one). */
typedef bool reply_cb(void *data, const struct reply *reply);

struct reply_reader {
    enum reply_protocol protocol;
    reply_cb *cb;
    void *data;
    struct buf body; /* of the reply under way; RESP: its bytes so far */
    struct http_parser parser;
    bool refused; /* cb said false */
};

void reply_init(struct reply_reader *reader, enum reply_protocol protocol, reply_cb *cb,
                void *data);
void reply_free(struct reply_reader *reader);

/* NULL, or what is wrong with the bytes; nothing may be fed after that. */
const char *reply_feed(struct reply_reader *reader, const char *data, size_t len);

/* RESP, by itself: as reply_feed. */
const char *reply_feed_resp(struct reply_reader *reader, const char *data, size_t len);

/* Append a RESP command of the words in text, which blanks part. */
void reply_put_resp(struct buf *out, const char *text);

#endif
