/*
 * entry_log.c - see entry_log.h. Thread: the raft loop.
 */
#include "raft/core/entry_log.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"

struct entry_block *entry_block_new(const void *data, size_t len)
{
    struct entry_block *block = MUST_HAVE(malloc(sizeof *block + len));

    ASSERT(len <= UINT32_MAX);
    block->refs = 1;
    block->len = (uint32_t)len;
    if (len > 0) {
        memcpy(block->data, data, len);
    }
    return block;
}

struct entry_block *entry_block_ref(struct entry_block *block)
{
    ASSERT(block->refs > 0);
    block->refs++;
    return block;
}

void entry_block_unref(struct entry_block *block)
{
    ASSERT(block->refs > 0);
    if (--block->refs == 0) {
        free(block);
    }
}

void entry_log_init(struct entry_log *log, uint64_t first)
{
    ASSERT(first >= 1);
    *log = (struct entry_log){.first = first};
}

void entry_log_free(struct entry_log *log)
{
    entry_log_clear(log, 1);
    free(log->items);
    log->items = NULL;
    log->capacity = 0;
}

static void release(struct entry_log *log, struct log_entry *entry)
{
    ASSERT(log->bytes >= entry->block->len);
    log->bytes -= entry->block->len;
    entry_block_unref(entry->block);
}

void entry_log_clear(struct entry_log *log, uint64_t first)
{
    ASSERT(first >= 1);
    for (size_t i = 0; i < log->count; i++) {
        release(log, &log->items[log->head + i]);
    }
    log->head = 0;
    log->count = 0;
    log->first = first;
}

void entry_log_append(struct entry_log *log, uint64_t term, uint8_t type, uint64_t write,
                      struct entry_block *block)
{
    ASSERT(term > 0);
    ASSERT_IMPLIES(log->count > 0, term >= log->items[log->head + log->count - 1].term);
    if (log->head + log->count == log->capacity && log->head > log->capacity / 2) {
        /* Half is dropped prefix: move down instead of growing. */
        memmove(log->items, log->items + log->head, log->count * sizeof *log->items);
        log->head = 0;
    } else if (log->head + log->count == log->capacity) {
        log->capacity = log->capacity ? log->capacity * 2 : 64;
        log->items = MUST_HAVE(realloc(log->items, log->capacity * sizeof *log->items));
    }
    log->items[log->head + log->count] = (struct log_entry){term, write, type, block};
    log->count++;
    log->bytes += block->len;
}

void entry_log_truncate(struct entry_log *log, uint64_t from)
{
    while (log->count > 0 && entry_log_last(log) >= from) {
        release(log, &log->items[log->head + log->count - 1]);
        log->count--;
    }
}

void entry_log_drop_prefix(struct entry_log *log, uint64_t upto)
{
    while (log->count > 0 && log->first <= upto) {
        release(log, &log->items[log->head]);
        log->head++;
        log->count--;
        log->first++;
    }
}

uint64_t entry_log_last(const struct entry_log *log)
{
    return log->first + log->count - 1;
}

const struct log_entry *entry_log_get(const struct entry_log *log, uint64_t index)
{
    if (index < log->first || index - log->first >= log->count) {
        return NULL;
    }
    return &log->items[log->head + (size_t)(index - log->first)];
}

uint64_t entry_log_persisted(const struct entry_log *log, uint64_t index, uint32_t count,
                             uint64_t write)
{
    uint64_t highest = 0;

    for (uint64_t i = index; i < index + count; i++) {
        const struct log_entry *entry = entry_log_get(log, i);
        bool dropped = entry == NULL && i < log->first;

        if (!dropped && (entry == NULL || entry->write != write)) {
            break;
        }
        highest = i;
    }
    return highest;
}

/* --- writes --- */

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
    STAILQ_INIT(&write->held);
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
    struct held_frame *frame;

    ASSERT(write->writes->count > 0);
    write->writes->count--;
    for (uint32_t i = 0; i < write->op.entry_count; i++) {
        entry_block_unref(CONTAINER(write->entries[i].data, struct entry_block, data));
    }
    while ((frame = STAILQ_FIRST(&write->held)) != NULL) {
        STAILQ_REMOVE_HEAD(&write->held, link);
        buf_free(&frame->payload);
        free(frame);
    }
    free(write->entries);
    free(write->rows);
    row_changes_release(&write->changes);
    store_position_release(&write->op.position);
    buf_free(&write->bytes);
    free(write);
}
