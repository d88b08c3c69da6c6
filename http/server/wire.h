/*
 * wire.h - the bytes of one connection, in and out, plain or over TLS.
 *
 * In. The memory for reading is lent: all requests pass through the same memory, which stays in the
 * processor's caches however many connections there are. A connection gets memory of its own only
 * for bytes that it must keep from one turn to the next, and no more than these take. So an idle
 * connection costs little, and so does one with the beginning of a request.
 *
 * Out. Replies are appended to `out`; wire_send() gives all of them to the socket in one call.
 * Bytes that the socket does not take at once move to `sending`; later replies are sent after them.
 * Memory comes from a pool of the loop and goes back there once all is sent.
 *
 * Over TLS received bytes are decrypted only when all earlier plain bytes are used up, so never
 * beyond the request that is being served. `out` is plain and `sending` sealed: wire_send() seals
 * as much as the socket takes.
 *
 * Invariants: start <= end, and next is 0 or between them. Without memory (bytes is NULL) start and
 * end are 0. Places are offsets, since kept bytes move.
 *
 * Failure modes: the socket is broken: WIRE_FAILED, WIRE_SEND_FAILED.
 *
 * Thread: one owner each (a loop).
 */
#ifndef LEAFD_HTTP_SERVER_WIRE_H
#define LEAFD_HTTP_SERVER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/tls/tls.h"
#include "src/base/buf.h"
#include "src/base/limits.h"

/* Holds a head of the largest size and leaves as much again for bodies and pipelined requests. */
#define WIRE_INPUT_BYTES (2 * LIMIT_HTTP_HEADERS_BYTES)

/* The step of a connection's own memory for input. */
#define WIRE_STEP_BYTES 512

/* At most this many connections collect replies before all are sent. */
#define WIRE_BATCH 64

/* Memory for replies that is lent to no connection. */
struct wire_pool {
    struct buf spare[WIRE_BATCH];
    uint32_t count;
};

/* bytes[start, end) holds the present request and what follows; its body is used up to next. */
struct wire {
    struct tls_session *tls; /* NULL: plain */
    int fd;
    bool ended;     /* the client's end was read */
    char *bytes;    /* WIRE_INPUT_BYTES lent, or own memory; NULL: empty */
    uint32_t size;  /* of own memory; 0: it has none */
    uint32_t start; /* of the present request */
    uint32_t next;  /* 0: the head is not complete */
    uint32_t end;
    uint32_t reply_count; /* replies in `out` and `sending` */
    struct buf out;       /* replies not given to the socket yet */
    struct buf sending;   /* bytes that the socket did not take at once */
    size_t sent_bytes;    /* of it */
    size_t sealed_bytes;  /* of `out`, taken by TLS */
    uint64_t taken_bytes; /* by the socket, ever */
};

/* --- in --- */

static inline uint32_t wire_len(const struct wire *wire)
{
    return wire->end - wire->start;
}

/* Before a read: use the lent memory, with the kept bytes at its front. There is room after
 * them. */
void wire_borrow(struct wire *wire, char *lent);

enum wire_read {
    WIRE_READ,  /* bytes came */
    WIRE_AGAIN, /* nothing came: the socket reports when there is more */
    WIRE_ENDED, /* the client's end, for the first time; wire->ended is set */
    WIRE_FAILED
};

/* Read from the socket: over TLS into the session, else into the lent memory. */
enum wire_read wire_read(struct wire *wire, char *lent);

/* The present request is done: continue after it. */
void wire_used(struct wire *wire);

/* Drop all input. */
void wire_drop(struct wire *wire);

/* The connection rests: copy the remaining bytes out of the lent memory, and free unused memory.
 * is_wanted: false: bytes that TLS received and did not decrypt are dropped. */
void wire_keep(struct wire *wire, const char *lent, bool is_wanted, uint64_t now_ms);

/* From here on send without TLS. */
void wire_end_tls(struct wire *wire);

/* Free all memory. */
void wire_free(struct wire *wire, const char *lent);

/* --- out --- */

enum wire_sent {
    WIRE_SENT,  /* the socket took all */
    WIRE_WAITS, /* it will take more when it is writable */
    WIRE_SEND_FAILED
};

/* Where replies are appended. */
struct buf *wire_out(struct wire *wire, struct wire_pool *pool);

/* The socket has not yet taken all of `sending`. */
static inline bool wire_is_waiting(const struct wire *wire)
{
    return wire->sending.len > 0;
}

/* Too much is unsent to serve another request. */
static inline bool wire_is_full(const struct wire *wire)
{
    return wire->reply_count >= LIMIT_HTTP_PIPELINE ||
           wire->out.len + wire->sending.len >= LIMIT_HTTP_OUTPUT_BYTES;
}

/* Give the socket `sending`, or else the appended replies. is_last: no more replies follow, so over
 * TLS the session is closed after them. */
enum wire_sent wire_send(struct wire *wire, struct wire_pool *pool, bool is_last);

#endif
