/*
 * snapshot.c - see snapshot.h.
 *
 * Out: idle -> reading (disk) -> sending chunk by chunk, reading the next while fewer than the
 * window are unacknowledged -> ended -> all acknowledged -> closed. In: head -> chunks in order ->
 * delivered.
 *
 * Thread: the raft loop.
 */
#include "raft/core/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "raft/core/driver_internal.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"

#define WINDOW_BYTES ((uint64_t)LIMIT_SNAPSHOT_WINDOW * LIMIT_SNAPSHOT_CHUNK_BYTES)

static void pump(struct snapshot_out *out);

void snapshot_init(struct driver *driver)
{
    memset(&driver->transfers, 0, sizeof driver->transfers);
    /* Random, so that a transfer of an earlier incarnation is not taken for this one's. */
    driver->transfers.next_transfer = prng_next(&driver->prng) >> 1;
}

static void drop_in(struct driver *driver)
{
    struct snapshot_in *in = &driver->transfers.in;

    if (in->active) {
        wire_raft_release(&in->message);
    }
    buf_free(&in->stream);
    in->active = false;
}

void snapshot_close(struct driver *driver)
{
    drop_in(driver);
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        ASSERT(!driver->transfers.out[i].reading);
    }
}

unsigned snapshot_reads(const struct driver *driver)
{
    unsigned count = 0;

    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        count += driver->transfers.out[i].reading;
    }
    return count;
}

/* --- out --- */

static void read_done(struct disk_read *read);

static void start_read(struct snapshot_out *out, size_t max_bytes, bool close)
{
    ASSERT(!out->reading);
    out->reading = true;
    memset(&out->read, 0, sizeof out->read);
    out->read.snapshot = out->view;
    out->read.max_bytes = max_bytes;
    out->read.close = close;
    out->read.done = read_done;
    out->read.data = out;
    out->driver->disk->ops->read(out->driver->disk, &out->read);
}

/* The peer has a while to ask for what comes behind the snapshot. */
static void hold_end(const struct snapshot_out *out)
{
    struct driver *driver = out->driver;
    struct snapshot_hold *hold = &driver->transfers.holds[out - driver->transfers.out];

    if (hold->until_ms == UINT64_MAX) {
        hold->until_ms = clock_now_ms(driver->clock) + 2 * (uint64_t)driver->config.election_ms;
    }
}

uint64_t snapshot_held_index(const struct driver *driver)
{
    uint64_t now = clock_now_ms(driver->clock);
    uint64_t held = UINT64_MAX;

    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        const struct snapshot_hold *hold = &driver->transfers.holds[i];

        if (now < hold->until_ms && hold->index < held) {
            held = hold->index;
        }
    }
    return held;
}

/* End a transfer: the view is closed by the disk, now or when the read under way comes back. */
static void drop_out(struct snapshot_out *out)
{
    if (!out->active) {
        return;
    }
    out->active = false;
    hold_end(out);
    if (out->reading) {
        out->dropped = true;
    } else if (out->view != NULL) {
        start_read(out, 0, true);
        out->dropped = true;
    }
}

static void send_chunk(struct snapshot_out *out, const struct buf *rows, const uint64_t *digest)
{
    struct buf data = BUF_INIT;
    struct buf payload = BUF_INIT;
    struct wire_chunk chunk;

    if (digest != NULL) {
        buf_put_u64(&data, *digest);
    }
    buf_put(&data, rows->data, rows->len);
    chunk = (struct wire_chunk){out->transfer, out->sent, out->ended, data.data, data.len};
    wire_chunk_encode(&chunk, &payload);
    out->sent += data.len;
    buf_free(&data);
    if (out->driver->net->ops->send(out->driver->net, out->peer, FRAME_SNAPSHOT_CHUNK, &payload)) {
        drop_out(out);
    }
    buf_free(&payload);
}

/* The head: which snapshot this is. It goes the way of the core's messages, behind term and vote.
 */
static int send_head(struct snapshot_out *out, const struct store_position *at)
{
    struct driver *driver = out->driver;
    struct raft_message message;
    struct buf payload = BUF_INIT;

    memset(&message, 0, sizeof message);
    if (driver_decode_configuration(at->conf, at->conf_len, &message.install_snapshot.conf) != 0) {
        return ERR_CORRUPT;
    }
    message.type = RAFT_INSTALL_SNAPSHOT;
    message.server_id = out->peer;
    message.install_snapshot.term = raft_current_term(&driver->raft);
    message.install_snapshot.last_index = at->index;
    message.install_snapshot.last_term = at->term;
    message.install_snapshot.conf_index = at->conf_index;
    wire_raft_encode(&message, out->transfer, &payload);
    raft_configuration_close(&message.install_snapshot.conf);
    driver_send(driver, out->peer, &payload);
    return 0;
}

static void read_done(struct disk_read *read)
{
    struct snapshot_out *out = read->data;
    struct disk_read result = *read; /* the next read may begin below and reuses the struct */
    bool first = out->view == NULL;

    out->reading = false;
    out->view = result.close ? NULL : result.snapshot;
    if (out->dropped) {
        out->dropped = false;
        out->active = true; /* for drop_out() to close the view */
        drop_out(out);
    } else if (result.status != 0 || raft_state(&out->driver->raft) != RAFT_LEADER ||
               (first && result.position.index < out->at_least) ||
               (first && send_head(out, &result.position) != 0)) {
        drop_out(out);
    } else {
        out->ended = result.end;
        send_chunk(out, &result.chunk, first ? &result.position.digest : NULL);
        pump(out);
    }
    free((void *)(uintptr_t)result.position.conf);
    buf_free(&result.chunk);
}

static void pump(struct snapshot_out *out)
{
    if (!out->active || out->reading) {
        return;
    }
    if (out->ended) {
        if (out->acked >= out->sent) {
            drop_out(out); /* all is there: close the view */
        }
        return;
    }
    if (out->sent - out->acked < WINDOW_BYTES) {
        start_read(out, LIMIT_SNAPSHOT_CHUNK_BYTES, false);
    }
}

void snapshot_send(struct driver *driver, uint64_t peer, uint64_t last_index)
{
    struct snapshot_transfers *transfers = &driver->transfers;
    uint64_t now = clock_now_ms(driver->clock);
    struct snapshot_out *free_slot = NULL;

    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        struct snapshot_out *out = &transfers->out[i];

        if (out->active && out->peer == peer) {
            if (now - out->progress_ms < 2 * driver->config.election_ms) {
                return; /* one transfer a peer, and this one is moving */
            }
            drop_out(out);
        }
        if (!out->active && !out->reading && free_slot == NULL) {
            free_slot = out;
        }
    }
    if (free_slot == NULL) {
        return; /* the core asks again */
    }
    memset(free_slot, 0, sizeof *free_slot);
    free_slot->active = true;
    free_slot->driver = driver;
    free_slot->peer = peer;
    free_slot->transfer = ++transfers->next_transfer;
    free_slot->at_least = last_index;
    free_slot->progress_ms = now;
    transfers->holds[free_slot - transfers->out] =
        (struct snapshot_hold){driver->durable.index, UINT64_MAX};
    start_read(free_slot, LIMIT_SNAPSHOT_CHUNK_BYTES, false);
}

bool snapshot_receive_ack(struct driver *driver, uint64_t from, const uint8_t *payload, size_t len)
{
    struct wire_chunk_ack ack;

    if (wire_chunk_ack_decode(payload, len, &ack) != 0) {
        return false;
    }
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        struct snapshot_out *out = &driver->transfers.out[i];

        if (!out->active || out->peer != from || out->transfer != ack.transfer) {
            continue;
        }
        if (ack.abort || ack.offset > out->sent) {
            drop_out(out);
        } else if (ack.offset > out->acked) {
            out->acked = ack.offset;
            out->progress_ms = clock_now_ms(driver->clock);
            pump(out);
        }
    }
    return true;
}

/* --- in --- */

void snapshot_receive_head(struct driver *driver, uint64_t from, uint64_t transfer,
                           struct raft_message *message)
{
    struct snapshot_in *in = &driver->transfers.in;

    if (in->active && message->install_snapshot.term < in->message.install_snapshot.term) {
        wire_raft_release(message); /* an older leader's */
        return;
    }
    if (!driver_agrees(driver, from, message)) {
        wire_raft_release(message);
        return;
    }
    drop_in(driver);
    in->active = true;
    in->from = from;
    in->transfer = transfer;
    in->started_ms = clock_now_ms(driver->clock);
    in->message = *message;
}

static void send_ack(struct driver *driver, uint64_t to, const struct wire_chunk_ack *ack)
{
    struct buf payload = BUF_INIT;

    wire_chunk_ack_encode(ack, &payload);
    (void)driver->net->ops->send(driver->net, to, FRAME_SNAPSHOT_ACK, &payload);
    buf_free(&payload);
}

/* The last chunk is in. What does not fit its digest is dropped, and the leader sends it anew: once
 * the core begins to install, there is no way back. What fits it and makes no state is a lie: the
 * disk must not have it. (That is tried with a state machine of its own, which for the moment takes
 * as much memory as the state, beside the stream.) False: it is not believed. */
static bool deliver(struct driver *driver, uint64_t from)
{
    struct snapshot_in *in = &driver->transfers.in;
    struct raft_message message = in->message;
    struct store_error error;
    struct reader reader;
    uint64_t digest;
    bool believed = true;

    reader_init(&reader, in->stream.data, in->stream.len);
    digest = reader_u64(&reader);
    if (store_rows_check(reader.data + reader.at, reader_left(&reader), digest, &error) == 0) {
        believed = driver_rows_load(&in->stream, message.install_snapshot.last_index);
        if (believed) {
            in->active = false; /* the message's configuration goes to the core */
            believed = driver_deliver_snapshot(driver, from, &message, &in->stream);
        } else {
            driver_disbelieve(driver, from, "snapshot_rows", message.install_snapshot.last_index,
                              0);
        }
    }
    drop_in(driver);
    return believed;
}

bool snapshot_receive_chunk(struct driver *driver, uint64_t from, const uint8_t *payload,
                            size_t len)
{
    struct snapshot_in *in = &driver->transfers.in;
    struct wire_chunk chunk;
    struct wire_chunk_ack ack = {0};

    if (wire_chunk_decode(payload, len, &chunk) != 0) {
        return false;
    }
    ack.transfer = chunk.transfer;
    if (!in->active || in->from != from || in->transfer != chunk.transfer ||
        chunk.offset != in->stream.len || in->stream.len + chunk.len > LIMIT_SNAPSHOT_BYTES ||
        (chunk.offset == 0 && chunk.len < sizeof(uint64_t))) {
        ack.abort = true;
        send_ack(driver, from, &ack);
        return true;
    }
    buf_put(&in->stream, chunk.data, chunk.len);
    in->started_ms = clock_now_ms(driver->clock);
    ack.offset = in->stream.len;
    send_ack(driver, from, &ack);
    return !chunk.last || deliver(driver, from);
}

/* --- ends --- */

void snapshot_link_down(struct driver *driver, uint64_t peer)
{
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        if (driver->transfers.out[i].active && driver->transfers.out[i].peer == peer) {
            drop_out(&driver->transfers.out[i]);
        }
    }
}

void snapshot_tick(struct driver *driver)
{
    uint64_t now = clock_now_ms(driver->clock);

    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        struct snapshot_out *out = &driver->transfers.out[i];

        if (out->active && now - out->progress_ms > LIMIT_SNAPSHOT_MS) {
            drop_out(out);
        }
    }
    if (driver->transfers.in.active && now - driver->transfers.in.started_ms > LIMIT_SNAPSHOT_MS) {
        drop_in(driver);
    }
}
