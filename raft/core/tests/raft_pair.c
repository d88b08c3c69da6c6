/*
 * raft_pair.c - see raft_pair.h. Thread: the test's.
 */
#include "raft/core/tests/raft_pair.h"

#include <string.h>

#include "src/tests/unit/test.h"

/* The leader's state stands for 40 entries that its log does not hold any more. */
const struct boot PAIR_LEADER = {.id = 1,
                                 .term = 3,
                                 .last = 40,
                                 .last_term = 3,
                                 .applied = 40,
                                 .first = 41,
                                 .servers = 3,
                                 .roles = THREE_VOTERS};
/* The follower has three of them. */
const struct boot PAIR_FOLLOWER = {
    .id = 2, .term = 3, .last = 3, .last_term = 3, .servers = 3, .roles = THREE_VOTERS};

/* Server 2 says that it has nothing beyond 3: the core asks for a snapshot. */
static void fall_behind(struct bench *leader)
{
    struct raft_message behind = append_result_of(2, bench_term(leader), 40, 3);

    bench_receive(leader, &behind);
}

void pair_lead(struct bench *leader, unsigned rows, size_t chunk_bytes)
{
    leader->rows = rows;
    bench_start(leader, &PAIR_LEADER);
    bench_elect(leader);
    leader->disk.chunk_bytes = chunk_bytes;
    fall_behind(leader);
    fake_net_clear(&leader->net);
}

const struct snapshot_out *transfer_out(const struct bench *leader)
{
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        if (leader->driver.transfers.out[i].active) {
            return &leader->driver.transfers.out[i];
        }
    }
    return NULL;
}

static bool is_part_of_snapshot(const struct fake_frame *frame)
{
    return frame->type == FRAME_SNAPSHOT_CHUNK || frame->type == FRAME_SNAPSHOT_ACK ||
           (frame->type == FRAME_RAFT && frame->payload.data[0] == RAFT_INSTALL_SNAPSHOT);
}

/* Deliver what `from` has sent to `to`; frames that do not belong to a snapshot only if others. */
static void pair_deliver(struct bench *from, struct bench *to, bool others)
{
    struct fake_frame *frame;

    while ((frame = fake_net_take(&from->net)) != NULL) {
        if (frame->to == to->id && (others || is_part_of_snapshot(frame))) {
            assert_true(
                bench_frame(to, from->id, frame->type, frame->payload.data, frame->payload.len));
        }
        fake_frame_free(frame);
    }
}

/* The next frame of a type, thrown away what comes before; the caller frees it. */
static struct fake_frame *next_frame(struct bench *bench, enum frame_type type)
{
    struct fake_frame *frame;

    while ((frame = fake_net_take(&bench->net)) != NULL) {
        if (frame->type == type) {
            return frame;
        }
        fake_frame_free(frame);
    }
    fail_msg("no frame of type %d was sent", type);
    return NULL;
}

struct wire_chunk_ack pair_next_ack(struct bench *bench)
{
    struct fake_frame *frame = next_frame(bench, FRAME_SNAPSHOT_ACK);
    struct wire_chunk_ack ack;

    assert_int_equal(wire_chunk_ack_decode(frame->payload.data, frame->payload.len, &ack), 0);
    fake_frame_free(frame);
    return ack;
}

void pair_send_ack(struct bench *leader, uint64_t from, uint64_t transfer, uint64_t offset,
                   bool abort)
{
    const struct wire_chunk_ack ack = {transfer, offset, abort};
    struct buf payload = BUF_INIT;

    wire_chunk_ack_encode(&ack, &payload);
    assert_true(bench_frame(leader, from, FRAME_SNAPSHOT_ACK, payload.data, payload.len));
    buf_free(&payload);
}

/* All of the store's views are closed. */
static void expect_no_view(struct bench *bench)
{
    struct store_snapshot *views[LIMIT_STORE_SNAPSHOTS];
    struct store_position position;

    bench_disk_run(bench);
    assert_int_equal(snapshot_reads(&bench->driver.transfers), 0);
    for (unsigned i = 0; i < LIMIT_STORE_SNAPSHOTS; i++) {
        assert_int_equal(bench->store->ops->snapshot_open(bench->store, &views[i], &position), 0);
    }
    for (unsigned i = 0; i < LIMIT_STORE_SNAPSHOTS; i++) {
        bench->store->ops->snapshot_close(bench->store, views[i]);
    }
}

void expect_dropped(struct bench *leader)
{
    driver_take_events(&leader->driver);
    assert_null(transfer_out(leader));
    expect_no_view(leader);
}

void pair_exchange(struct bench *leader, struct bench *follower)
{
    do {
        bench_disk_run(leader);
        pair_deliver(leader, follower, true);
        bench_run(follower);
        pair_deliver(follower, leader, true);
    } while (leader->disk.queued > 0 || leader->net.frame_count > 0);
}

/* A transfer of several chunks, all of them sent and waiting in leader.net; none delivered. */
void pair_start(struct pair *pair)
{
    memset(pair, 0, sizeof *pair);
    pair_lead(&pair->leader, PAIR_ROWS, PAIR_CHUNK_BYTES);
    bench_disk_run(&pair->leader);
    bench_start(&pair->follower, &PAIR_FOLLOWER);
}

void pair_close(struct pair *pair)
{
    bench_close(&pair->follower);
    bench_close(&pair->leader);
}

/* Deliver the oldest frame of a transfer, or lose it. */
void pair_pass(struct pair *pair, bool lose)
{
    struct fake_frame *frame = fake_net_take(&pair->leader.net);

    assert_non_null(frame);
    if (!lose) {
        assert_true(
            bench_frame(&pair->follower, 1, frame->type, frame->payload.data, frame->payload.len));
    }
    fake_frame_free(frame);
}
