/*
 * snapshot.c - see snapshot.h.
 *
 * Out: idle -> reading (disk) -> sending chunk by chunk, reading the next while fewer than the
 * window are unacknowledged -> ended -> all acknowledged -> closed. In: head -> chunks in order
 * -> delivered.
 */
#include "raft/core/snapshot.h"

#include <stdatomic.h>
#include <string.h>

#include "raft/core/message.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"

#define WINDOW_BYTES ((uint64_t)LIMIT_SNAPSHOT_WINDOW * LIMIT_SNAPSHOT_CHUNK_BYTES)

unsigned snapshot_reads(const struct snapshot_transfers *transfers)
{
    unsigned count = 0;

    SNAPSHOT_OUT_FOREACH (out, transfers) {
        count += out->view.reading;
    }
    return count;
}

/* --- out --- */

const struct snapshot_out *snapshot_to(const struct snapshot_transfers *transfers, uint64_t peer)
{
    SNAPSHOT_OUT_FOREACH (out, transfers) {
        if (out->active && out->peer == peer) {
            return out;
        }
    }
    return NULL;
}

uint64_t snapshot_needed_index(const struct snapshot_transfers *transfers)
{
    uint64_t now = clock_now_ms(transfers->clock);
    uint64_t needed = UINT64_MAX;

    SNAPSHOT_OUT_FOREACH (out, transfers) {
        if (out->active && out->from_index < needed) {
            needed = out->from_index;
        }
        if (now < out->given_until_ms && out->given_index < needed) {
            needed = out->given_index;
        }
    }
    return needed;
}

void snapshot_reached(struct snapshot_transfers *transfers, uint64_t peer, uint64_t index,
                      bool is_near)
{
    SNAPSHOT_OUT_FOREACH (out, transfers) {
        if (out->peer == peer && index >= out->given_index) { /* else the peer is still installing
                                                                 it */
            out->given_index = index;
            out->given_until_ms = is_near ? 0 : out->given_until_ms;
        }
    }
}

static void end_transfer(struct snapshot_out *out)
{
    out->active = false;
    disk_view_drop(&out->view);
}

static void pump(struct snapshot_out *out)
{
    uint64_t now = clock_now_ms(out->transfers->clock);

    if (!out->active || out->view.reading) {
        return;
    }
    if (out->ended) {
        if (out->acked >= out->sent) { /* the peer has all of it */
            out->transfers->sent++;
            /* After two snapshots in a row the peer may be installing either. */
            if (now >= out->given_until_ms) {
                out->given_index = out->from_index;
            }
            out->given_until_ms = now + LIMIT_SNAPSHOT_MS;
            end_transfer(out);
        }
        return;
    }
    if (out->sent - out->acked < WINDOW_BYTES) {
        disk_view_read(&out->view, LIMIT_SNAPSHOT_CHUNK_BYTES);
    }
}

/* A read has come back: send its rows; before the first ones the head, which identifies the
 * snapshot. It is sent like the core's messages, after term and vote. */
static void snapshot_go_on(struct snapshot_out *out, uint64_t led_term)
{
    const struct disk_read *result = &out->view.read;
    const struct store_position *at = &result->position;
    struct net *net = out->transfers->net;
    struct buf head = BUF_INIT;
    struct raft_message message;
    struct wire_chunk chunk;
    BUF_LOCAL(payload);
    BUF_LOCAL(data);

    ASSERT(out->active);
    memset(&message, 0, sizeof message);
    if (result->status != 0 || led_term == 0 ||
        (out->view.first &&
         (at->index < out->at_least ||
          message_conf_decode(at->conf, at->conf_len, &message.install_snapshot.conf) != 0))) {
        end_transfer(out);
        return;
    }
    if (out->view.first) {
        message.type = RAFT_INSTALL_SNAPSHOT;
        message.install_snapshot.term = led_term;
        message.install_snapshot.last_index = at->index;
        message.install_snapshot.last_term = at->term;
        message.install_snapshot.conf_index = at->conf_index;
        message_encode(&message, out->transfer, &head);
        raft_configuration_close(&message.install_snapshot.conf);
        outbox_send(out->transfers->outbox, out->peer, &head, NULL);
        buf_put_u64(&data, at->digest);
    }
    out->ended = result->end;
    buf_put(&data, result->chunk.data, result->chunk.len);
    chunk = (struct wire_chunk){out->transfer, out->sent, out->ended, data.data, data.len};
    wire_chunk_encode(&chunk, &payload);
    out->sent += data.len;
    if (net->ops->send(net, out->peer, FRAME_SNAPSHOT_CHUNK, &payload, NULL) != 0) {
        end_transfer(out);
    }
    pump(out);
}

void snapshot_send(struct snapshot_transfers *transfers, uint64_t peer, uint64_t last_index,
                   uint64_t durable)
{
    uint64_t now = clock_now_ms(transfers->clock);
    struct snapshot_out *place = NULL;

    SNAPSHOT_OUT_FOREACH (out, transfers) {
        if (out->active && out->peer == peer) {
            if (now - out->progress_ms < 2 * (uint64_t)transfers->election_ms) {
                return; /* one transfer per peer, and this one makes progress */
            }
            end_transfer(out);
        }
    }
    /* The peer's own free place, which says what the peer was given; else one without such data
     * that still matters, if there is any. */
    SNAPSHOT_OUT_FOREACH (out, transfers) {
        bool is_free = !out->active && !out->view.reading;

        if (is_free && (place == NULL ||
                        (place->peer != peer &&
                         (out->peer == peer || out->given_until_ms < place->given_until_ms)))) {
            place = out;
        }
    }
    if (place == NULL) {
        return; /* all are in use; the core asks again */
    }
    *place =
        (struct snapshot_out){.active = true,
                              .transfers = transfers,
                              .peer = peer,
                              .transfer = ++transfers->next_transfer,
                              .at_least = last_index,
                              .progress_ms = now,
                              .from_index = durable,
                              .given_index = place->given_index,
                              .given_until_ms = place->peer == peer ? place->given_until_ms : 0,
                              .view.disk = transfers->disk};
    transfers->busy = true;
    disk_view_read(&place->view, LIMIT_SNAPSHOT_CHUNK_BYTES);
}

bool snapshot_receive_ack(struct snapshot_transfers *transfers, uint64_t from,
                          const uint8_t *payload, size_t len)
{
    struct wire_chunk_ack ack;

    if (wire_chunk_ack_decode(payload, len, &ack) != 0) {
        return false;
    }
    SNAPSHOT_OUT_FOREACH (out, transfers) {
        if (!out->active || out->peer != from || out->transfer != ack.transfer) {
            continue;
        }
        if (ack.abort || ack.offset > out->sent) {
            end_transfer(out);
        } else if (ack.offset > out->acked) {
            out->acked = ack.offset;
            out->progress_ms = clock_now_ms(transfers->clock);
            pump(out);
        }
    }
    return true;
}

/* --- in --- */

static void send_ack(struct snapshot_transfers *transfers, uint64_t to,
                     const struct wire_chunk_ack *ack)
{
    BUF_LOCAL(payload);

    wire_chunk_ack_encode(ack, &payload);
    (void)transfers->net->ops->send(transfers->net, to, FRAME_SNAPSHOT_ACK, &payload, NULL);
}

void snapshot_drop_in(struct snapshot_transfers *transfers, bool refused)
{
    struct snapshot_in *in = &transfers->in;
    const struct wire_chunk_ack abort = {.transfer = in->transfer, .abort = true};

    if (refused) {
        send_ack(transfers, in->from, &abort);
    }
    if (in->active) {
        message_release(&in->message);
    }
    buf_free(&in->stream);
    in->whole = false;
    in->active = false;
}

bool snapshot_receive_chunk(struct snapshot_transfers *transfers, uint64_t from,
                            const uint8_t *payload, size_t len)
{
    struct snapshot_in *in = &transfers->in;
    struct wire_chunk chunk;
    struct wire_chunk_ack ack;
    struct reader reader;

    if (wire_chunk_decode(payload, len, &chunk) != 0) {
        return false;
    }
    ack = (struct wire_chunk_ack){.transfer = chunk.transfer};
    if (!in->active || in->whole || in->from != from || in->transfer != chunk.transfer ||
        chunk.offset != in->stream.len || in->stream.len + chunk.len > transfers->in_bytes_max ||
        (chunk.offset == 0 && chunk.len < SNAPSHOT_ROWS_AT)) {
        ack.abort = true;
    } else {
        if (chunk.offset == 0) {
            reader_init(&reader, chunk.data, chunk.len);
            in->digest = reader_u64(&reader);
        }
        buf_put(&in->stream, chunk.data, chunk.len);
        in->progress_ms = clock_now_ms(transfers->clock);
        in->whole = chunk.last;
        ack.offset = in->stream.len;
    }
    send_ack(transfers, from, &ack);
    return true;
}

/* --- ends --- */

void snapshot_end_transfer(struct snapshot_transfers *transfers, uint64_t peer)
{
    SNAPSHOT_OUT_FOREACH (out, transfers) {
        if (peer == 0 || (out->active && out->peer == peer)) {
            end_transfer(out);
        }
    }
}

void snapshot_turn(struct snapshot_transfers *transfers, uint64_t led_term)
{
    uint64_t now = clock_now_ms(transfers->clock);
    bool busy = false;

    SNAPSHOT_OUT_FOREACH (out, transfers) {
        /* The store needs the view's space, and not all was read. */
        bool lost_view = out->active && out->view.snapshot != NULL && !out->ended &&
                         atomic_load(&out->view.snapshot->ended);

        if (out->active && (lost_view || now - out->progress_ms > LIMIT_SNAPSHOT_MS)) {
            end_transfer(out);
        }
        if (disk_view_take(&out->view)) {
            snapshot_go_on(out, led_term);
        }
        busy = busy || out->active || out->view.reading;
    }
    if (transfers->in.active && now - transfers->in.progress_ms > LIMIT_SNAPSHOT_MS) {
        snapshot_drop_in(transfers, false);
    }
    transfers->busy = busy || transfers->in.active;
}

/* --- the rows of a snapshot --- */

#define TRIAL_ROWS 64 /* rows between looks at the clock */

void trial_drop(struct trial *trial)
{
    state_free(trial->state);
    *trial = (struct trial){0};
}

void trial_begin(struct trial *trial, const struct machine_ops *ops, struct level_range speaks,
                 uint64_t state_bytes)
{
    trial_drop(trial);
    trial->state_bytes = state_bytes;
    trial->state = state_new(ops);
    state_speaks(trial->state, speaks);
    state_load_begin(trial->state);
}

bool trial_step(struct trial *trial, const uint8_t *rows, size_t len, bool whole,
                const struct clock *clock)
{
    uint64_t until_ms = clock_now_ms(clock) + TRIAL_MS;
    struct reader reader;
    struct state_row row;

    ASSERT(trial->state != NULL && trial->at <= len);
    reader_init(&reader, rows + trial->at, len - trial->at);
    for (unsigned i = 1; !trial->bad; i++) {
        size_t before = reader.at;

        if (!store_rows_next(&reader, &row)) {
            /* The rest of a row may still come. */
            trial->bad = len - trial->at - before > (whole ? 0 : LIMIT_ROW_BYTES);
            reader.at = before;
            break;
        }
        if (store_rows_checker_add(&trial->rows, &row) != 0) {
            trial->bad = true;
        } else if (trial->err == 0) {
            trial->err = state_load_row(trial->state, &row);
            if (trial->err == 0 && trial->rows.count % TRIAL_ROWS == 0 && trial->state_bytes > 0 &&
                state_memory(trial->state) > trial->state_bytes) {
                trial->err = ERR_STATE_FULL;
            }
        }
        if (i % TRIAL_ROWS == 0) {
            clock_look(clock);
            if (clock_now_ms(clock) >= until_ms) {
                trial->at += reader.at;
                return false;
            }
        }
    }
    trial->at += reader.at;
    return true;
}

int trial_end(struct trial *trial, uint64_t digest, uint64_t index, bool *ret_fits)
{
    *ret_fits = !trial->bad && trial->rows.sum == digest;
    if (!*ret_fits) {
        return ERR_CORRUPT;
    }
    if (trial->err == 0) {
        trial->err = state_load_end(trial->state, index);
    }
    /* Rows with the same meaning but other bytes were not written by an apply. */
    if (trial->err == 0 && state_digest(trial->state) != digest) {
        trial->err = ERR_CORRUPT;
    }
    return trial->err;
}
