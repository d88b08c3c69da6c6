/*
 * net_out.c - see net_out.h. Thread: the raft loop.
 */
#include "raft/transport/net_out.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

#define BATCH_PIECES 128        /* of one write */
#define SEAL_BYTES (256 << 10)  /* and with TLS so many bytes, or a single frame */
#define SEALED_KEPT (128 << 10) /* a larger buffer goes back to the system */

/* Bytes to write: a frame, or (without a header) frames of the handshake. */
struct net_piece {
    STAILQ_ENTRY(net_piece) link;
    uint8_t header[FRAME_HEADER_BYTES];
    size_t header_len;
    struct buf payload;
};

void net_out_init(struct net_out *out, uv_stream_t *stream,
                  void (*failed)(struct net_out *out, const char *reason))
{
    *out = (struct net_out){.stream = stream, .failed = failed};
    STAILQ_INIT(&out->queue);
    STAILQ_INIT(&out->sending);
    out->progress_ms = uv_now(stream->loop);
}

static size_t piece_bytes(const struct net_piece *piece)
{
    return piece->header_len + piece->payload.len;
}

/* A piece with this payload, at the end of the queue; its header is the caller's to fill. */
static uint8_t *queue_piece(struct net_out *out, size_t header_len, struct buf *payload)
{
    struct net_piece *piece = MUST_HAVE(calloc(1, sizeof *piece));

    piece->header_len = header_len;
    buf_move(&piece->payload, payload);
    STAILQ_INSERT_TAIL(&out->queue, piece, link);
    out->queue_bytes += piece_bytes(piece);
    return piece->header;
}

void net_out_frame(struct net_out *out, enum frame_type type, struct buf *payload)
{
    uint8_t header[FRAME_HEADER_BYTES];

    frame_header(header, type, payload->data, payload->len);
    memcpy(queue_piece(out, sizeof header, payload), header, sizeof header);
}

void net_out_bytes(struct net_out *out, struct buf *bytes)
{
    if (bytes->len > 0) {
        (void)queue_piece(out, 0, bytes);
    }
}

static void list_free(struct net_out *out, struct net_piece_list *list)
{
    while (!STAILQ_EMPTY(list)) {
        struct net_piece *piece = STAILQ_FIRST(list);

        STAILQ_REMOVE_HEAD(list, link);
        ASSERT(out->queue_bytes >= piece_bytes(piece));
        out->queue_bytes -= piece_bytes(piece);
        buf_free(&piece->payload);
        free(piece);
    }
}

/* Move a batch of pieces from the queue to `sending`; ret_bufs get all their bytes. */
static unsigned batch_begin(struct net_out *out, uv_buf_t ret_bufs[2 * BATCH_PIECES])
{
    unsigned count = 0;

    ASSERT(STAILQ_EMPTY(&out->sending));
    while (!STAILQ_EMPTY(&out->queue) && count + 2 <= 2 * BATCH_PIECES) {
        struct net_piece *piece = STAILQ_FIRST(&out->queue);

        STAILQ_REMOVE_HEAD(&out->queue, link);
        STAILQ_INSERT_TAIL(&out->sending, piece, link);
        if (piece->header_len > 0) {
            ret_bufs[count++] = uv_buf_init((char *)piece->header, (unsigned)piece->header_len);
        }
        if (piece->payload.len > 0) {
            ret_bufs[count++] =
                uv_buf_init((char *)piece->payload.data, (unsigned)piece->payload.len);
        }
    }
    ASSERT(count > 0);
    return count;
}

/* Leave out the first `bytes` of the pieces; how many are left of them. */
static unsigned bufs_skip(uv_buf_t *bufs, unsigned count, size_t bytes)
{
    unsigned gone = 0;

    while (gone < count && bytes >= bufs[gone].len) {
        bytes -= bufs[gone++].len;
    }
    memmove(bufs, bufs + gone, (count - gone) * sizeof *bufs);
    if (gone < count) {
        bufs[0].base += bytes;
        bufs[0].len -= bytes;
    }
    return count - gone;
}

/* What TLS has to say, and a batch of frames, as one piece: `sealed`. */
static unsigned seal_batch(struct net_out *out, uv_buf_t *ret_buf)
{
    struct buf *from = tls_channel_out(out->tls);
    struct buf spare = out->sealed;
    size_t bytes = 0;

    while (!STAILQ_EMPTY(&out->queue) && bytes < SEAL_BYTES && tls_channel_is_open(out->tls)) {
        struct net_piece *piece = STAILQ_FIRST(&out->queue);

        STAILQ_REMOVE_HEAD(&out->queue, link);
        STAILQ_INSERT_TAIL(&out->sending, piece, link);
        tls_channel_write(out->tls, piece->header, piece->header_len);
        tls_channel_write(out->tls, piece->payload.data, piece->payload.len);
        bytes += piece_bytes(piece);
    }
    if (tls_channel_is_open(out->tls)) {
        tls_channel_seal(out->tls);
    }
    out->sealed = *from;
    *from = spare;
    from->len = 0;
    if (from->capacity > SEALED_KEPT) {
        buf_free(from);
    }
    *ret_buf = uv_buf_init((char *)out->sealed.data, (unsigned)out->sealed.len);
    return out->sealed.len > 0 ? 1 : 0;
}

static void write_cb(uv_write_t *write, int status)
{
    struct net_out *out = write->data;

    ASSERT(out->writing);
    out->writing = false;
    list_free(out, &out->sending);
    if (status < 0) {
        out->stopped = true;
        out->failed(out, uv_strerror(status));
        return;
    }
    net_out_flush(out);
}

/* Write one batch. What the socket does not take is `writing` then. */
static void write_batch(struct net_out *out)
{
    uv_buf_t bufs[2 * BATCH_PIECES];
    unsigned count = out->tls != NULL ? seal_batch(out, bufs) : batch_begin(out, bufs);
    int rv = count > 0 ? uv_try_write(out->stream, bufs, count) : 0;

    out->write_ms = uv_now(out->stream->loop);
    count = bufs_skip(bufs, count, rv > 0 ? (size_t)rv : 0);
    if (count == 0) {
        list_free(out, &out->sending);
        return;
    }
    if (rv >= 0 || rv == UV_EAGAIN) {
        out->writing = true;
        out->write.data = out;
        rv = uv_write(&out->write, out->stream, bufs, count, write_cb);
    }
    if (rv != 0) {
        out->writing = false;
        out->stopped = true;
        out->failed(out, uv_strerror(rv));
    }
}

static bool has_output(const struct net_out *out)
{
    if (out->tls == NULL) {
        return !STAILQ_EMPTY(&out->queue);
    }
    return tls_channel_out(out->tls)->len > 0 ||
           (!STAILQ_EMPTY(&out->queue) && tls_channel_is_open(out->tls));
}

void net_out_flush(struct net_out *out)
{
    while (!out->writing && !out->stopped && has_output(out)) {
        write_batch(out);
    }
}

uint64_t net_out_stalled_ms(struct net_out *out)
{
    const size_t unsent_bytes = uv_stream_get_write_queue_size(out->stream);
    const uint64_t now_ms = uv_now(out->stream->loop);

    if (unsent_bytes == 0 || unsent_bytes != out->unsent_bytes) {
        out->unsent_bytes = unsent_bytes;
        out->progress_ms = now_ms;
    }
    return now_ms - out->progress_ms;
}

void net_out_stop(struct net_out *out)
{
    out->stopped = true;
}

void net_out_free(struct net_out *out)
{
    ASSERT(!out->writing);
    list_free(out, &out->queue);
    list_free(out, &out->sending);
    buf_free(&out->sealed);
    ASSERT(out->queue_bytes == 0);
}
