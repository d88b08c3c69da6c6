/*
 * writes.c - see writes.h. Thread: the raft loop.
 */
#include "raft/core/writes.h"

#include <stdlib.h>

#include "src/base/assert.h"

void writes_init(struct writes *writes, struct disk *disk)
{
    *writes = (struct writes){.disk = disk};
    STAILQ_INIT(&writes->back);
}

static void writes_done_cb(struct store_op *op)
{
    struct write *write = op->data;

    STAILQ_INSERT_TAIL(&write->writes->back, write, link);
}

struct write *writes_new(struct writes *writes, enum store_op_kind kind)
{
    struct write *write = MUST_HAVE(calloc(1, sizeof *write));

    write->op.kind = kind;
    write->op.done = writes_done_cb;
    write->op.data = write;
    write->writes = writes;
    write->number = ++writes->last_number;
    write->epoch = writes->epoch;
    writes->count++;
    return write;
}

void write_submit(struct write *write)
{
    ASSERT(write->epoch == write->writes->epoch);
    write->writes->disk->ops->submit(write->writes->disk, &write->op);
}

void write_submit_local(struct write *write, uint32_t key, void (*done)(void *data), void *data)
{
    write->on_local = done;
    write->local_data = data;
    write->op.local_key = key;
    write->op.local = write->bytes.data;
    write->op.local_len = (uint32_t)write->bytes.len;
    write_submit(write);
}

struct write *writes_take(struct writes *writes)
{
    struct write *write = STAILQ_FIRST(&writes->back);

    if (write != NULL) {
        STAILQ_REMOVE_HEAD(&writes->back, link);
        ASSERT(write->number > writes->last_taken);
        writes->last_taken = write->number;
    }
    return write;
}

bool write_is_current(const struct write *write)
{
    ASSERT(write->epoch <= write->writes->epoch);
    return write->epoch == write->writes->epoch;
}

void write_free(struct write *write)
{
    ASSERT(write->writes->count > 0);
    write->writes->count--;
    for (uint32_t i = 0; i < write->op.entry_count; i++) {
        entry_block_unref(write->blocks[i]);
    }
    free(write->entries);
    free(write->blocks);
    free(write->rows);
    row_changes_release(&write->changes);
    store_position_release(&write->op.position);
    buf_free(&write->bytes);
    free(write);
}
