/*
 * sim_disk.c - see sim_disk.h. Thread: one.
 */
#include "cluster-tests/sim/sim_disk.h"

#include "src/base/container.h"

static void kick(struct sim_disk *disk)
{
    struct sim_world *world = disk->node->world;
    uint64_t takes_ms = 1 + sim_below(world, 5);

    if (disk->group > 0 || disk->queued == 0) {
        return;
    }
    if (world->faults && sim_percent(world, 2)) {
        takes_ms += sim_below(world, 400); /* a disk that hangs for a moment */
    }
    if (world->now_ms < disk->slow_until_ms) {
        takes_ms += sim_below(world, 200);
    }
    disk->group = disk->queued;
    sim_happens(disk->node, SIM_DISK, takes_ms);
}

static void disk_submit(struct disk *base, struct store_op *op)
{
    struct sim_disk *disk = CONTAINER(base, struct sim_disk, base);

    STAILQ_INSERT_TAIL(&disk->queue, op, link);
    disk->queued++;
    disk->node->submitted++;
    if (disk->node->up) {
        kick(disk);
    }
}

static bool disk_low(struct disk *base)
{
    return CONTAINER(base, struct sim_disk, base)->low;
}

static const struct disk_ops sim_disk_ops = {.submit = disk_submit, .low = disk_low};

void sim_disk_init(struct sim_disk *disk, struct sim_node *node)
{
    *disk = (struct sim_disk){.base = {.ops = &sim_disk_ops}, .node = node};
    STAILQ_INIT(&disk->queue);
}

static struct store_op *take(struct sim_disk *disk)
{
    struct store_op *op = STAILQ_FIRST(&disk->queue);

    STAILQ_REMOVE_HEAD(&disk->queue, link);
    disk->queued--;
    return op;
}

/* From now on the disk must have these. */
static void note_hard_states(struct sim_node *node, const struct store_op_list *list)
{
    const struct store_op *op;

    STAILQ_FOREACH (op, list, link) {
        if (op->kind == STORE_HARD_STATE) {
            if (op->term > node->disk_term) {
                node->before_term = node->disk_term;
                node->before_vote = node->disk_vote;
            }
            node->voted_late = op->term == node->disk_term && op->vote != node->disk_vote;
            node->disk_term = op->term;
            node->disk_vote = op->vote;
        }
    }
}

/* Commit what comes first, up to the next read and at most count operations, in one transaction,
 * and tell that it is done. Returns how many they were. */
static size_t commit_first(struct sim_disk *disk, size_t count, bool is_lost)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op *op;
    struct store_error error = {{0}};
    size_t taken = 0;

    while (taken < count && STAILQ_FIRST(&disk->queue)->kind != STORE_READ) {
        op = take(disk);
        STAILQ_INSERT_TAIL(&list, op, link);
        taken++;
    }
    if (!is_lost) {
        disk->node->world->stats.commits++;
        if (disk->node->store->ops->commit(disk->node->store, &list, &error) != 0) {
            sim_fail(disk->node->world, "node %u: commit failed: %s", disk->node->id, error.text);
        }
        note_hard_states(disk->node, &list);
        disk->node->loses_vote = false;
    }
    while ((op = STAILQ_FIRST(&list)) != NULL) {
        STAILQ_REMOVE_HEAD(&list, link);
        op->done(op);
    }
    return taken;
}

static void read_first(struct sim_disk *disk)
{
    struct store_op *op = take(disk);
    size_t most = disk_read_of(op)->max_bytes;
    /* Small chunks, so that transfers take several, also of what bulks leave. */
    size_t chunk = disk->node->world->stats.bulks > 0 ? 16 << 10 : 300;
    struct store_error error = {{0}};

    if (disk_read_of(op)->snapshot == NULL && store_settle(disk->node->store, &error) != 0) {
        sim_fail(disk->node->world, "node %u: commit failed: %s", disk->node->id, error.text);
    }
    disk_read_run(disk_read_of(op), disk->node->store, most < chunk ? most : chunk);
    op->done(op);
}

/* Carry out what comes first, count in all; commits may be lost. */
static void run_queued(struct sim_disk *disk, size_t count, bool is_lost)
{
    while (count > 0) {
        if (STAILQ_FIRST(&disk->queue)->kind == STORE_READ) {
            read_first(disk);
            count--;
        } else {
            count -= commit_first(disk, count, is_lost);
        }
    }
    disk->group = 0;
}

void sim_disk_event(struct sim_disk *disk)
{
    run_queued(disk, disk->group, false);
    kick(disk);
}

void sim_disk_flush(struct sim_disk *disk)
{
    while (disk->queued > 0) {
        run_queued(disk, disk->queued, false);
    }
}

void sim_disk_crash(struct sim_disk *disk)
{
    if (disk->group > 0 && sim_percent(disk->node->world, 50)) {
        run_queued(disk, disk->group, false);
    }
    while (disk->queued > 0) { /* the driver has failed: this only frees memory */
        run_queued(disk, disk->queued, true);
    }
}
