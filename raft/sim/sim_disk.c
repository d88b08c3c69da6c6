/*
 * sim_disk.c - see sim_disk.h. Thread: one.
 */
#include "raft/sim/sim_disk.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
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

static void enqueue(struct sim_disk *disk, struct store_op *op, struct disk_read *read)
{
    struct sim_disk_item *item = calloc(1, sizeof *item);

    ASSERT(item != NULL);
    item->op = op;
    item->read = read;
    STAILQ_INSERT_TAIL(&disk->queue, item, link);
    disk->queued++;
    if (disk->node->up) {
        kick(disk);
    }
}

static void disk_submit(struct disk *base, struct store_op *op)
{
    enqueue(CONTAINER(base, struct sim_disk, base), op, NULL);
}

static void disk_read(struct disk *base, struct disk_read *read)
{
    enqueue(CONTAINER(base, struct sim_disk, base), NULL, read);
}

static bool disk_low(struct disk *base)
{
    return CONTAINER(base, struct sim_disk, base)->low;
}

static const struct disk_ops sim_disk_ops = {
    .submit = disk_submit, .read = disk_read, .low = disk_low};

void sim_disk_init(struct sim_disk *disk, struct sim_node *node)
{
    *disk = (struct sim_disk){.base = {.ops = &sim_disk_ops}, .node = node};
    STAILQ_INIT(&disk->queue);
}

/* From now on the disk must have these. */
static void note_hard_states(struct sim_node *node, const struct store_op_list *list)
{
    const struct store_op *op;

    STAILQ_FOREACH (op, list, link) {
        if (op->kind == STORE_HARD_STATE) {
            node->voted_late = op->term == node->disk_term && op->vote != node->disk_vote;
            node->disk_term = op->term;
            node->disk_vote = op->vote;
        }
    }
}

/* Commit the first count operations of the queue in one transaction. */
static void commit(struct sim_disk *disk, size_t count)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct sim_disk_item *item;
    struct store_error error = {{0}};
    int rv;

    STAILQ_FOREACH (item, &disk->queue, link) {
        if (count-- == 0) {
            break;
        }
        if (item->op != NULL) {
            STAILQ_INSERT_TAIL(&list, item->op, link);
        }
    }
    if (STAILQ_EMPTY(&list)) {
        return;
    }
    disk->node->world->stats.commits++;
    rv = disk->node->store->ops->commit(disk->node->store, &list, &error);
    if (rv != 0) {
        sim_fail(disk->node->world, "node %u: commit failed: %s", disk->node->id, error.text);
    }
    note_hard_states(disk->node, &list);
}

static void complete_first(struct sim_disk *disk)
{
    struct sim_disk_item *item = STAILQ_FIRST(&disk->queue);

    STAILQ_REMOVE_HEAD(&disk->queue, link);
    disk->queued--;
    if (item->op != NULL) {
        item->op->done(item->op);
    } else {
        /* Small chunks, so that transfers take several. */
        size_t max_bytes = item->read->max_bytes < 300 ? item->read->max_bytes : 300;

        disk_read_run(item->read, disk->node->store, max_bytes);
        item->read->done(item->read);
    }
    free(item);
}

/* Commit the first count items, and tell that it is done. */
static void carry_out(struct sim_disk *disk, size_t count)
{
    commit(disk, count);
    while (count-- > 0) {
        complete_first(disk);
    }
    disk->group = 0;
}

void sim_disk_event(struct sim_disk *disk)
{
    carry_out(disk, disk->group);
    kick(disk);
}

void sim_disk_flush(struct sim_disk *disk)
{
    while (disk->queued > 0) {
        carry_out(disk, disk->queued);
    }
    disk->group = 0;
}

void sim_disk_crash(struct sim_disk *disk)
{
    if (disk->group > 0 && sim_percent(disk->node->world, 50)) {
        commit(disk, disk->group);
    }
    disk->group = 0;
    while (disk->queued > 0) { /* the driver has failed: this only frees memory */
        complete_first(disk);
    }
}
