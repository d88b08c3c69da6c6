/*
 * output.h - the replies of one connection that the socket has not taken.
 *
 * Replies are appended to `out`; output_send() gives them to the socket, all that there are in one
 * call. What the socket does not take at once moves to `sending`, and replies that come meanwhile
 * go behind it. Memory comes from a pool of the loop and goes back there once all is sent.
 *
 * Over TLS `out` is plain and `sending` sealed: output_seal() seals as much as the socket takes.
 *
 * Failure modes: the socket is broken: OUTPUT_FAILED.
 *
 * Thread: one owner each (a loop).
 */
#ifndef LEAFD_HTTP_SERVER_OUTPUT_H
#define LEAFD_HTTP_SERVER_OUTPUT_H

#include <stdbool.h>

#include "http/tls/session.h"
#include "src/base/buf.h"
#include "src/base/limits.h"

/* So many connections at most have replies before all are sent. */
#define OUTPUT_BATCH 64

/* Memory that is lent to no connection. */
struct output_pool {
    struct buf spare[OUTPUT_BATCH];
    uint32_t count;
};

struct output {
    struct buf out;       /* replies not given to the socket yet */
    struct buf sending;   /* what the socket did not take at once */
    size_t sent_bytes;    /* of it */
    size_t sealed_bytes;  /* of `out`: TLS has taken them */
    uint32_t reply_count; /* replies in both */
    uint64_t taken_bytes; /* by the socket, ever */
    uint64_t counted;     /* of memory, in the loop's budget */
};

enum output_result {
    OUTPUT_DONE,  /* the socket took all */
    OUTPUT_WAITS, /* it will take more when it is writable */
    OUTPUT_FAILED
};

/* Where replies are appended. */
struct buf *output_buf(struct output *output, struct output_pool *pool);

/* The socket is still to take what it did not take at once. */
static inline bool output_is_waiting(const struct output *output)
{
    return output->sending.len > 0;
}

/* The socket has taken all, but for a head at most. */
static inline bool output_is_empty(const struct output *output)
{
    return output->out.len <= LIMIT_HTTP_SMALL_REPLY_BYTES && output->sending.len == 0;
}

/* Memory that is held for replies. */
static inline uint64_t output_held_bytes(const struct output *output)
{
    return output->out.capacity + output->sending.capacity;
}

/* So much is unsent that no further request is to be served. */
static inline bool output_is_full(const struct output *output)
{
    return output->reply_count >= LIMIT_HTTP_PIPELINE ||
           output->out.len + output->sending.len >= LIMIT_HTTP_OUTPUT_BYTES;
}

/* Give the socket what it did not take, or else what was appended. */
enum output_result output_send(struct output *output, struct output_pool *pool, int fd);

/* The same over TLS. is_last: no reply comes after those that there are, so the session is closed
 * behind them. */
enum output_result output_seal(struct output *output, struct output_pool *pool, int fd,
                               struct tls_session *tls, bool is_last);

void output_free(struct output *output);
void output_pool_free(struct output_pool *pool);

#endif
