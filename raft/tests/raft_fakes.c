/*
 * raft_fakes.c - see raft_fakes.h. Thread: the test's.
 */
#include "raft/tests/raft_fakes.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

static uint64_t fake_now_ms(const struct clock *clock)
{
    return ((const struct fake_clock *)clock)->now_ms;
}

static uint64_t fake_wall_ms(const struct clock *clock)
{
    return FAKE_WALL_MS + ((const struct fake_clock *)clock)->now_ms;
}

void fake_clock_init(struct fake_clock *clock, uint64_t now_ms)
{
    clock->base = (struct clock){.now_ms = fake_now_ms, .wall_ms = fake_wall_ms, .data = NULL};
    clock->now_ms = now_ms;
}

/* --- links --- */

static int fake_send(struct net *base, uint64_t to, enum frame_type type, struct buf *payload,
                     struct entry_block *tail)
{
    struct fake_net *net = (struct fake_net *)base;
    struct fake_frame *frame;

    ASSERT(to >= 1);
    if (to >= FAKE_NODES || net->down[to]) {
        buf_free(payload);
        return to >= FAKE_NODES ? ERR_NOT_FOUND : ERR_IO;
    }
    frame = calloc(1, sizeof *frame);
    ASSERT(frame != NULL);
    frame->to = to;
    frame->type = type;
    buf_move(&frame->payload, payload);
    if (tail != NULL) {
        buf_put(&frame->payload, tail->data, tail->len);
    }
    STAILQ_INSERT_TAIL(&net->frames, frame, link);
    net->frame_count++;
    return 0;
}

static bool fake_connected(struct net *base, uint64_t peer)
{
    return peer < FAKE_NODES && !((struct fake_net *)base)->down[peer];
}

static bool fake_has_room(struct net *base, uint64_t peer)
{
    return !((struct fake_net *)base)->full[peer];
}

static void fake_set_peers(struct net *base, const struct net_peer *peers, size_t count)
{
    struct fake_net *net = (struct fake_net *)base;

    ASSERT(count <= LIMIT_PEERS);
    memcpy(net->peers, peers, count * sizeof *peers);
    net->peer_count = count;
}

static struct net_presence fake_presence(struct net *base, uint64_t peer, uint64_t store_id,
                                         uint64_t within_ms)
{
    (void)base;
    (void)peer;
    (void)within_ms;
    return (struct net_presence){.dials = store_id};
}

static const struct net_ops fake_net_ops = {.send = fake_send,
                                            .has_room = fake_has_room,
                                            .connected = fake_connected,
                                            .set_peers = fake_set_peers,
                                            .presence = fake_presence};

void fake_net_init(struct fake_net *net)
{
    memset(net, 0, sizeof *net);
    net->base.ops = &fake_net_ops;
    STAILQ_INIT(&net->frames);
}

struct fake_frame *fake_net_take(struct fake_net *net)
{
    struct fake_frame *frame = STAILQ_FIRST(&net->frames);

    if (frame != NULL) {
        STAILQ_REMOVE_HEAD(&net->frames, link);
        net->frame_count--;
    }
    return frame;
}

void fake_frame_free(struct fake_frame *frame)
{
    buf_free(&frame->payload);
    free(frame);
}

size_t fake_net_count(const struct fake_net *net, uint64_t to, enum frame_type type)
{
    const struct fake_frame *frame;
    size_t count = 0;

    STAILQ_FOREACH (frame, &net->frames, link) {
        count += frame->type == type && (to == 0 || frame->to == to);
    }
    return count;
}

void fake_net_clear(struct fake_net *net)
{
    struct fake_frame *frame;

    while ((frame = fake_net_take(net)) != NULL) {
        fake_frame_free(frame);
    }
}

void fake_net_free(struct fake_net *net)
{
    fake_net_clear(net);
}

/* --- the disk --- */

static void fake_submit(struct disk *base, struct store_op *op)
{
    struct fake_disk *disk = (struct fake_disk *)base;

    STAILQ_INSERT_TAIL(&disk->queue, op, link);
    disk->queued++;
}

static bool fake_low(struct disk *base)
{
    return ((struct fake_disk *)base)->low;
}

static bool fake_owes(struct disk *base)
{
    return ((struct fake_disk *)base)->owes;
}

static const struct disk_ops fake_disk_ops = {
    .submit = fake_submit, .low = fake_low, .owes = fake_owes};

void fake_disk_init(struct fake_disk *disk, struct store *store)
{
    memset(disk, 0, sizeof *disk);
    disk->base.ops = &fake_disk_ops;
    disk->store = store;
    STAILQ_INIT(&disk->queue);
}

static void open_view(struct fake_disk *disk, struct disk_read *read)
{
    struct store_position position;

    if (read->snapshot != NULL || read->status != 0) {
        return;
    }
    read->status = disk->store->ops->snapshot_open(disk->store, &read->snapshot, &position);
    if (read->status == 0) {
        store_position_copy(&read->position, &position);
    }
}

static void carry_out_read(struct fake_disk *disk, struct disk_read *read)
{
    size_t max = read->max_bytes;

    read->status = disk->read_status;
    open_view(disk, read);
    if (disk->chunk_bytes > 0 && max > disk->chunk_bytes) {
        max = disk->chunk_bytes;
    }
    if (read->status == 0 && max > 0) {
        read->status = disk->store->ops->snapshot_read(disk->store, read->snapshot, max,
                                                       &read->chunk, &read->end);
    }
    if (read->snapshot != NULL && read->close) {
        disk->store->ops->snapshot_close(disk->store, read->snapshot);
    }
}

static void carry_out_op(struct fake_disk *disk, struct store_op *op)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error = {{0}};

    STAILQ_INSERT_TAIL(&list, op, link);
    ASSERT(disk->store->ops->commit(disk->store, &list, &error) == 0);
}

static struct store_op *next_op(struct fake_disk *disk)
{
    struct store_op *op = STAILQ_FIRST(&disk->queue);

    if (op != NULL) {
        STAILQ_REMOVE_HEAD(&disk->queue, link);
        disk->queued--;
    }
    return op;
}

bool fake_disk_step(struct fake_disk *disk)
{
    struct store_op *op = next_op(disk);

    if (op == NULL) {
        return false;
    }
    if (op->kind == STORE_READ) {
        carry_out_read(disk, disk_read_of(op));
    } else {
        carry_out_op(disk, op);
    }
    op->done(op);
    return true;
}

void fake_disk_run(struct fake_disk *disk)
{
    while (fake_disk_step(disk)) {
        continue;
    }
}

void fake_disk_lose(struct fake_disk *disk)
{
    struct store_op *op;

    while ((op = next_op(disk)) != NULL) {
        if (op->kind == STORE_READ) {
            carry_out_read(disk, disk_read_of(op)); /* its view has to be closed */
        }
        op->done(op);
    }
}

size_t fake_disk_count(const struct fake_disk *disk, enum store_op_kind kind)
{
    const struct store_op *op;
    size_t count = 0;

    STAILQ_FOREACH (op, &disk->queue, link) {
        count += op->kind == kind;
    }
    return count;
}

/* --- the observer --- */

static void on_applied(struct driver_observer *base, uint64_t index, uint64_t term,
                       const void *result, size_t len)
{
    struct fake_observer *observer = (struct fake_observer *)base;

    (void)result;
    (void)len;
    ASSERT(index > observer->applied_index);
    observer->applied_count++;
    observer->applied_index = index;
    observer->applied_term = term;
}

static void on_role_changed(struct driver_observer *base)
{
    ((struct fake_observer *)base)->role_count++;
}

static void on_configured(struct driver_observer *base)
{
    ((struct fake_observer *)base)->configured_count++;
}

static void on_installed(struct driver_observer *base, uint64_t index)
{
    struct fake_observer *observer = (struct fake_observer *)base;

    observer->installed_count++;
    observer->installed_index = index;
}

static void on_diverged(struct driver_observer *base, uint64_t node_id, const char *text)
{
    ASSERT(node_id != 0 && text[0] != '\0');
    ((struct fake_observer *)base)->diverged_count++;
}

static void on_failed(struct driver_observer *base, int err, const char *text)
{
    struct fake_observer *observer = (struct fake_observer *)base;

    ASSERT(text != NULL && text[0] != '\0');
    observer->failed_count++;
    observer->failed_err = err;
}

void fake_observer_init(struct fake_observer *observer)
{
    memset(observer, 0, sizeof *observer);
    observer->base = (struct driver_observer){.applied = on_applied,
                                              .role_changed = on_role_changed,
                                              .configured = on_configured,
                                              .installed = on_installed,
                                              .diverged = on_diverged,
                                              .failed = on_failed};
}
