/*
 * wire.c - see wire.h. Thread: one owner each.
 */
#include "http/server/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"

#define KEPT_BYTES LIMIT_HTTP_OUTPUT_BYTES /* memory grown beyond this is freed once it is empty */
#define SEAL_BYTES (64 << 10)              /* sealed and sent at once: four full records */

_Static_assert(WIRE_INPUT_BYTES % WIRE_STEP_BYTES == 0, "the largest is whole steps");

/* Is the socket intact, with just nothing to take or give at the moment? */
static bool is_of_moment(int err)
{
    return err == EAGAIN || err == EINTR || err == ENOBUFS;
}

/* --- in --- */

/* The present request has moved to the front. */
static void moved_to_front(struct wire *wire)
{
    wire->end -= wire->start;
    wire->next -= wire->next > 0 ? wire->start : 0;
    wire->start = 0;
}

HOT void wire_borrow(struct wire *wire, char *lent)
{
    if (wire->bytes == NULL) {
        ASSERT(wire->start == 0 && wire->end == 0);
        wire->bytes = lent;
    } else if (wire->bytes != lent) {
        memcpy(lent, wire->bytes + wire->start, wire_len(wire));
        free(wire->bytes);
        wire->size = 0;
        wire->bytes = lent;
        moved_to_front(wire);
    } else if (wire->end == WIRE_INPUT_BYTES) {
        memmove(wire->bytes, wire->bytes + wire->start, wire_len(wire));
        moved_to_front(wire);
    }
    ASSERT(wire->end < WIRE_INPUT_BYTES);
}

HOT enum wire_read wire_read(struct wire *wire, char *lent)
{
    size_t room;
    ssize_t count;

    if (wire->tls == NULL) {
        wire_borrow(wire, lent);
        count = recv(wire->fd, wire->bytes + wire->end, WIRE_INPUT_BYTES - wire->end, 0);
        wire->end += count > 0 ? (uint32_t)count : 0;
    } else {
        uint8_t *at = session_room(wire->tls, &room);

        count = recv(wire->fd, at, room, 0);
        wire->tls->bytes.in_len += count > 0 ? (size_t)count : 0;
    }
    if (count > 0) {
        return WIRE_READ;
    }
    wire->ended = wire->ended || count == 0;
    return count == 0 ? WIRE_ENDED : is_of_moment(errno) ? WIRE_AGAIN : WIRE_FAILED;
}

HOT void wire_used(struct wire *wire)
{
    ASSERT(wire->next <= wire->end);
    wire->start = wire->next;
    wire->next = 0;
    if (wire->start == wire->end) {
        wire->start = 0;
        wire->end = 0;
    }
}

void wire_drop(struct wire *wire)
{
    wire->start = 0;
    wire->next = 0;
    wire->end = 0;
}

HOT void wire_keep(struct wire *wire, const char *lent, bool is_wanted, uint64_t now_ms)
{
    uint32_t len = wire->end - wire->start;
    char *own;

    ASSERT(wire->start <= wire->end && wire->end <= WIRE_INPUT_BYTES);
    if (len == 0) {
        if (wire->bytes != lent) {
            free(wire->bytes);
            wire->size = 0;
        }
        wire->bytes = NULL;
    } else if (wire->bytes == lent) {
        wire->size = (len + WIRE_STEP_BYTES - 1) / WIRE_STEP_BYTES * WIRE_STEP_BYTES;
        own = MUST_HAVE(malloc(wire->size));
        memcpy(own, wire->bytes + wire->start, len);
        wire->bytes = own;
        moved_to_front(wire);
    }
    if (wire->tls != NULL) {
        if (!is_wanted) {
            session_drop(wire->tls);
        }
        session_keep(wire->tls, now_ms);
    }
}

COLD void wire_end_tls(struct wire *wire)
{
    session_stop(wire->tls);
    session_free(wire->tls);
    wire->tls = NULL;
}

void wire_free(struct wire *wire, const char *lent)
{
    if (wire->bytes != lent) {
        free(wire->bytes);
    }
    wire->bytes = NULL;
    wire->size = 0;
    buf_free(&wire->out);
    buf_free(&wire->sending);
    if (wire->tls != NULL) {
        wire_end_tls(wire);
    }
}

/* --- out --- */

HOT struct buf *wire_out(struct wire *wire, struct wire_pool *pool)
{
    ASSERT_IMPLIES(wire->out.capacity == 0, wire->out.len == 0);
    if (wire->out.capacity == 0 && pool->count > 0) {
        wire->out = pool->spare[--pool->count];
    }
    return &wire->out;
}

/* All of a buffer is sent: give its memory to the next connection that answers. */
HOT static void spare_buf(struct wire_pool *pool, struct buf *buf)
{
    ASSERT(pool->count <= WIRE_BATCH);
    buf->len = 0;
    if (pool->count < WIRE_BATCH && buf->capacity <= KEPT_BYTES) {
        pool->spare[pool->count++] = *buf;
        *buf = (struct buf)BUF_INIT;
    } else {
        buf_free(buf);
    }
}

/* Seal and send, until all is sent or the socket takes no more. */
HOT static enum wire_sent send_sealing(struct wire *wire, struct wire_pool *pool, bool is_last)
{
    ssize_t sent;

    do {
        size_t left = wire->out.len - wire->sealed_bytes;
        size_t len = left < SEAL_BYTES ? left : SEAL_BYTES;
        struct buf *sealed = session_write(wire->tls, wire->out.data + wire->sealed_bytes, len,
                                           is_last && len == left);

        if (sealed == NULL) {
            return WIRE_SEND_FAILED;
        }
        wire->sealed_bytes += len;
        if (wire->sealed_bytes == wire->out.len && wire->out.capacity > 0) {
            wire->sealed_bytes = 0;
            spare_buf(pool, &wire->out);
        }
        len = sealed->len;
        sealed->len = 0;
        sent = len > 0 ? send(wire->fd, sealed->data, len, MSG_NOSIGNAL) : 0;
        if (sent < 0 && !is_of_moment(errno)) {
            return WIRE_SEND_FAILED;
        }
        sent = sent > 0 ? sent : 0;
        wire->taken_bytes += (size_t)sent;
        if (sent != (ssize_t)len) { /* keep what the socket does not take */
            buf_put(&wire->sending, sealed->data + sent, len - (size_t)sent);
            wire->sent_bytes = 0;
            return WIRE_WAITS;
        }
    } while (wire->out.len > 0);
    wire->reply_count = 0;
    return WIRE_SENT;
}

HOT enum wire_sent wire_send(struct wire *wire, struct wire_pool *pool, bool is_last)
{
    struct buf *buf = wire->sending.len > 0 ? &wire->sending : &wire->out;
    size_t left = buf->len - wire->sent_bytes;
    ssize_t sent;

    if (wire->tls != NULL && buf == &wire->out) {
        return send_sealing(wire, pool, is_last);
    }
    ASSERT(wire->sent_bytes <= buf->len);
    if (left == 0) {
        return WIRE_SENT;
    }
    sent = send(wire->fd, buf->data + wire->sent_bytes, left, MSG_NOSIGNAL);
    if (sent < 0 && !is_of_moment(errno)) {
        return WIRE_SEND_FAILED;
    }
    wire->taken_bytes += sent > 0 ? (size_t)sent : 0;
    if (sent != (ssize_t)left) {
        wire->sent_bytes += sent > 0 ? (size_t)sent : 0;
        if (buf == &wire->out) {
            buf_move(&wire->sending, &wire->out);
        }
        return WIRE_WAITS;
    }
    wire->sent_bytes = 0;
    spare_buf(pool, buf);
    if (wire->out.len == 0) {
        wire->reply_count = 0;
    }
    return WIRE_SENT;
}
