/*
 * output.c - see output.h. Thread: one owner each.
 */
#include "http/server/output.h"

#include <errno.h>
#include <sys/socket.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

#define KEPT_BYTES LIMIT_HTTP_OUTPUT_BYTES /* memory grown beyond this is freed once it is empty */
#define SEAL_BYTES (64 << 10)              /* sealed and sent at once: four full records */

HOT struct buf *output_buf(struct output *output, struct output_pool *pool)
{
    ASSERT_IMPLIES(output->out.capacity == 0, output->out.len == 0);
    if (output->out.capacity == 0 && pool->count > 0) {
        output->out = pool->spare[--pool->count];
    }
    return &output->out;
}

/* All of a buffer is sent: its memory is for whoever answers next. */
HOT static void give_back(struct output_pool *pool, struct buf *buf)
{
    ASSERT(pool->count <= OUTPUT_BATCH);
    buf->len = 0;
    if (pool->count < OUTPUT_BATCH && buf->capacity <= KEPT_BYTES) {
        pool->spare[pool->count++] = *buf;
        *buf = (struct buf)BUF_INIT;
    } else {
        buf_free(buf);
    }
}

HOT enum output_result output_send(struct output *output, struct output_pool *pool, int fd)
{
    struct buf *buf = output_is_waiting(output) ? &output->sending : &output->out;
    size_t left = buf->len - output->sent_bytes;
    ssize_t sent;

    ASSERT(output->sent_bytes <= buf->len);
    if (left == 0) {
        return OUTPUT_DONE;
    }
    sent = send(fd, buf->data + output->sent_bytes, left, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
        return OUTPUT_FAILED;
    }
    output->taken_bytes += sent > 0 ? (size_t)sent : 0;
    if (sent != (ssize_t)left) {
        output->sent_bytes += sent > 0 ? (size_t)sent : 0;
        if (buf == &output->out) {
            buf_move(&output->sending, &output->out);
        }
        return OUTPUT_WAITS;
    }
    output->sent_bytes = 0;
    give_back(pool, buf);
    if (output->out.len == 0) {
        output->reply_count = 0;
    }
    return OUTPUT_DONE;
}

/* Send what was sealed just now; what the socket does not take is kept. */
HOT static enum output_result send_sealed(struct output *output, struct buf *sealed, int fd)
{
    size_t len = sealed->len;
    ssize_t sent = len > 0 ? send(fd, sealed->data, len, MSG_NOSIGNAL) : 0;

    sealed->len = 0;
    output->taken_bytes += sent > 0 ? (size_t)sent : 0;
    if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
        return OUTPUT_FAILED;
    }
    if (sent == (ssize_t)len) {
        return OUTPUT_DONE;
    }
    sent = sent > 0 ? sent : 0;
    buf_put(&output->sending, sealed->data + sent, len - (size_t)sent);
    output->sent_bytes = 0;
    return OUTPUT_WAITS;
}

HOT enum output_result output_seal(struct output *output, struct output_pool *pool, int fd,
                                   struct tls_session *tls, bool is_last)
{
    enum output_result result = OUTPUT_DONE;
    struct buf *sealed;

    if (output_is_waiting(output)) {
        return output_send(output, pool, fd);
    }
    do {
        size_t left = output->out.len - output->sealed_bytes;
        size_t len = left < SEAL_BYTES ? left : SEAL_BYTES;

        sealed = session_write(tls, output->out.data + output->sealed_bytes, len,
                               is_last && len == left);
        if (sealed == NULL) {
            return OUTPUT_FAILED;
        }
        output->sealed_bytes += len;
        if (output->sealed_bytes == output->out.len && output->out.capacity > 0) {
            output->sealed_bytes = 0;
            give_back(pool, &output->out);
        }
        result = send_sealed(output, sealed, fd);
    } while (result == OUTPUT_DONE && output->out.len > 0);
    if (result == OUTPUT_DONE) {
        output->reply_count = 0;
    }
    return result;
}

void output_free(struct output *output)
{
    buf_free(&output->out);
    buf_free(&output->sending);
}

void output_pool_free(struct output_pool *pool)
{
    while (pool->count > 0) {
        buf_free(&pool->spare[--pool->count]);
    }
}
