/*
 * driver_apply.c - what is committed takes effect: apply, rows to the disk, compaction, install.
 *
 * The happy path: driver_settle() applies entries up to the commit index (at most APPLY_PER_TURN a
 * turn, so that heartbeats are not delayed), leaves the changed rows to driver_rows.c, and compacts
 * the log when enough of it is durable in the state.
 *
 * Thread: the raft loop.
 */
#include "raft/core/driver_internal.h"

#include <stdlib.h>
#include <string.h>

#include "raft/core/guard.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/base/hash.h"

#define APPLY_PER_TURN 2048

void driver_position_set(struct driver_position *position, uint64_t index, uint64_t term,
                         uint64_t conf_index, const void *conf, size_t conf_len)
{
    struct buf copy = BUF_INIT;

    buf_put(&copy, conf, conf_len);
    buf_free(&position->conf);
    *position = (struct driver_position){index, term, conf_index, copy};
}

void driver_position_copy(struct driver_position *to, const struct driver_position *from)
{
    driver_position_set(to, from->index, from->term, from->conf_index, from->conf.data,
                        from->conf.len);
}

int driver_metadata(const struct driver_position *position,
                    struct raft_snapshot_metadata *ret_metadata)
{
    memset(ret_metadata, 0, sizeof *ret_metadata);
    ret_metadata->index = position->index;
    ret_metadata->term = position->term;
    ret_metadata->configuration_index = position->conf_index;
    return driver_decode_configuration(position->conf.data, position->conf.len,
                                       &ret_metadata->configuration);
}

void driver_op_position(struct store_op *op, const struct driver_position *position,
                        uint64_t digest)
{
    op->position = (struct store_position){position->index,
                                           position->term,
                                           position->conf_index,
                                           position->conf.data,
                                           (uint32_t)position->conf.len,
                                           digest};
}

/* --- compaction --- */

static void compact_done(struct store_op *op)
{
    driver_write_free(op->data);
}

/* Enough entries, or, where they are large, enough bytes: the log is held in memory. */
static bool compaction_is_due(const struct driver *driver, uint64_t upto)
{
    return !driver->installing && upto > driver->compacted &&
           entry_log_get(&driver->log, upto) != NULL &&
           (upto - driver->compacted >= driver->config.snapshot_entries ||
            driver->log.bytes >= LIMIT_LOG_BYTES);
}

/* How many entries up to `upto` stay for followers that are a little late. */
static uint32_t trailing_entries(const struct driver *driver, uint64_t upto)
{
    uint32_t count = 0;
    uint64_t bytes = 0;

    while (count < driver->config.trailing_entries) {
        const struct log_entry *entry = entry_log_get(&driver->log, upto - count);

        if (entry == NULL || bytes + entry->block->len > LIMIT_LOG_TRAILING_BYTES) {
            break;
        }
        bytes += entry->block->len;
        count++;
    }
    return count;
}

/* As many as are there of those that peers with a snapshot need, unless the log is too large. */
static uint32_t held_entries(const struct driver *driver, uint64_t upto)
{
    uint64_t held = snapshot_held_index(driver);
    uint64_t first = driver->log.first > held ? driver->log.first : held + 1;

    return held < upto && driver->log.bytes < LIMIT_LOG_BYTES ? (uint32_t)(upto + 1 - first) : 0;
}

/* The state on disk stands for all entries up to durable.index: let the log forget them, but for a
 * tail that saves slow followers a whole snapshot. */
void driver_maybe_compact(struct driver *driver)
{
    uint64_t upto = driver->durable.index;
    uint32_t trailing;
    uint32_t held;
    struct driver_write *write;
    struct raft_event event;

    if (!compaction_is_due(driver, upto)) {
        return;
    }
    trailing = trailing_entries(driver, upto);
    held = held_entries(driver, upto);
    trailing = held > trailing ? held : trailing;
    memset(&event, 0, sizeof event);
    event.type = RAFT_SNAPSHOT;
    event.snapshot.trailing = trailing;
    if (driver_metadata(&driver->durable, &event.snapshot.metadata) != 0) {
        driver_fail(driver, ERR_CORRUPT, "the applied configuration does not decode");
        return;
    }
    driver->compacted = upto;
    if (driver_step(driver, &event) != 0 || upto <= trailing) {
        return;
    }
    entry_log_drop_prefix(&driver->log, upto - trailing);
    write = driver_write_new(driver, STORE_COMPACT, compact_done);
    write->op.index = driver->log.first;
    driver->disk->ops->submit(driver->disk, &write->op);
}

/* --- apply --- */

static void apply_change(struct driver *driver, uint64_t index, const struct entry_block *block,
                         struct fsm_changes *changes)
{
    struct raft_event event;

    memset(&event, 0, sizeof event);
    event.type = RAFT_CONFIGURATION;
    event.configuration.index = index;
    if (driver_decode_configuration(block->data, block->len, &event.configuration.conf) != 0) {
        driver_fail(driver, ERR_CORRUPT, "a committed configuration does not decode");
        return;
    }
    driver_configured(driver, index, &event.configuration.conf, changes);
    driver->applied.conf_index = index;
    buf_free(&driver->applied.conf);
    buf_put(&driver->applied.conf, block->data, block->len);
    (void)driver_step(driver, &event);
    driver->observer->configuration_changed(driver->observer);
}

static void apply_command(struct driver *driver, uint64_t index, uint64_t term,
                          const struct entry_block *block, struct fsm_changes *changes)
{
    struct buf result = BUF_INIT;
    int rv = fsm_apply(driver->fsm, index, block->data, block->len, &result, changes);

    if (rv == ERR_DIVERGED) {
        driver_fail(driver, rv, "the state differs from the leader's at an equal index");
    } else {
        driver->observer->applied(driver->observer, index, term, result.data, result.len);
    }
    buf_free(&result);
}

/* Returns how many entries were applied. */
static unsigned apply_committed(struct driver *driver, struct fsm_changes *changes)
{
    unsigned count = 0;

    while (!driver->installing && !driver->failed && driver->applied.index < driver->commit &&
           count < APPLY_PER_TURN) {
        uint64_t index = driver->applied.index + 1;
        const struct log_entry *entry = entry_log_get(&driver->log, index);
        struct entry_block *block;
        uint64_t term;
        uint8_t type;

        if (entry == NULL) { /* the commit index can be ahead of the log for a moment */
            ASSERT(index >= driver->log.first);
            break;
        }
        /* A step below may move the log's memory. */
        block = entry_block_ref(entry->block);
        term = entry->term;
        type = entry->type;
        driver->applied.index = index;
        driver->applied.term = term;
        if (type == RAFT_CHANGE) {
            apply_change(driver, index, block, changes);
        } else if (type == RAFT_COMMAND) {
            apply_command(driver, index, term, block, changes);
        }
        entry_block_unref(block);
        count++;
    }
    return count;
}

/* G10: a leader's own first entry, since the core adds none on a clean election. */
static void submit_noop(struct driver *driver)
{
    uint64_t term = raft_current_term(&driver->raft);
    struct buf noop = BUF_INIT;
    struct driver_command command;
    uint64_t index;

    if (raft_state(&driver->raft) != RAFT_LEADER || driver->noop_term == term ||
        driver->installing) {
        return;
    }
    command_noop_encode(&noop);
    command = (struct driver_command){noop.data, noop.len};
    if (driver_submit(driver, &command, 1, &index, &term) == 0) {
        driver->noop_term = term;
    }
    buf_free(&noop);
}

bool driver_settle(struct driver *driver)
{
    if (driver->failed) {
        return false;
    }
    submit_noop(driver);
    if (apply_committed(driver, &driver->held_rows) > 0 && !driver->failed) {
        driver_rows_hold(driver);
    }
    return !driver->installing && !driver->failed && driver->applied.index < driver->commit &&
           entry_log_get(&driver->log, driver->applied.index + 1) != NULL;
}

/* --- local records --- */

static void local_done(struct store_op *op)
{
    struct driver_write *write = op->data;

    write->local_done(write->local_data);
    driver_write_free(write);
}

void driver_write_local(struct driver *driver, uint32_t key, const void *data, size_t len,
                        void (*done)(void *data), void *done_data)
{
    struct driver_write *write = driver_write_new(driver, STORE_LOCAL, local_done);

    ASSERT(len >= 1 && len <= LIMIT_LOCAL_RECORD_BYTES);
    write->local_done = done;
    write->local_data = done_data;
    buf_put(&write->stream, data, len);
    write->op.local_key = key;
    write->op.local = write->stream.data;
    write->op.local_len = (uint32_t)len;
    driver->disk->ops->submit(driver->disk, &write->op);
}

/* --- install --- */

static int load_stream(struct fsm *fsm, const struct buf *stream)
{
    struct reader reader;
    struct store_row row;
    int rv = 0;

    fsm_load_begin(fsm);
    reader_init(&reader, stream->data, stream->len);
    while (rv == 0 && store_rows_next(&reader, &row)) {
        rv = fsm_load_row(fsm, row.key, row.key_len, row.value, row.value_len);
    }
    return rv == 0 && !reader_done(&reader) ? ERR_CORRUPT : rv;
}

bool driver_rows_load(const struct buf *stream, uint64_t index)
{
    struct buf rows = {.data = stream->data + sizeof(uint64_t),
                       .len = stream->len - sizeof(uint64_t)};
    struct fsm *fsm = fsm_new();
    bool loads;

    ASSERT(stream->len >= sizeof(uint64_t));
    loads = load_stream(fsm, &rows) == 0 && fsm_load_end(fsm, index) == 0;
    fsm_free(fsm);
    return loads;
}

static void install_done(struct store_op *op)
{
    struct driver_write *write = op->data;
    struct driver *driver = write->driver;
    struct raft_event event;
    uint64_t index = write->position.index;

    if (driver->failed) {
        driver_write_free(write);
        return;
    }
    ASSERT(driver->installing && write->generation == driver->generation);
    if (load_stream(driver->fsm, &write->stream) != 0 ||
        fsm_digest(driver->fsm) != op->position.digest) {
        driver_fail(driver, ERR_CORRUPT, "the rows of an installed snapshot do not load");
        driver_write_free(write);
        return;
    }
    driver->installing = false;
    driver_position_copy(&driver->applied, &write->position);
    driver_position_copy(&driver->durable, &write->position);
    driver->compacted = index;
    driver->persisted = index;
    driver->commit = index > driver->commit ? index : driver->commit;
    if (fsm_load_end(driver->fsm, index) != 0) {
        driver_fail(driver, ERR_CORRUPT, "the rows of an installed snapshot contradict each other");
        driver_write_free(write);
        return;
    }
    memset(&event, 0, sizeof event);
    event.type = RAFT_PERSISTED_SNAPSHOT;
    event.persisted_snapshot.last = true;
    if (driver_metadata(&write->position, &event.persisted_snapshot.metadata) == 0) {
        (void)driver_step(driver, &event);
    } else {
        driver_fail(driver, ERR_CORRUPT, "the configuration of a snapshot does not decode");
    }
    driver_write_free(write);
    driver->observer->configuration_changed(driver->observer);
    driver->observer->installed(driver->observer, index);
}

void driver_install(struct driver *driver, struct raft_update *update)
{
    struct raft_snapshot_metadata *metadata = &update->snapshot.metadata;
    struct driver_write *write;
    struct reader reader;
    uint64_t digest;

    ASSERT(!driver->installing && metadata->index > driver->applied.index);
    driver->installing = true;
    driver->generation++;
    driver_rows_drop(driver); /* the snapshot's rows take their place */
    entry_log_clear(&driver->log, metadata->index + 1);
    write = driver_write_new(driver, STORE_INSTALL, install_done);
    write->position = (struct driver_position){metadata->index, metadata->term,
                                               metadata->configuration_index, BUF_INIT};
    driver_encode_configuration(&metadata->configuration, &write->position.conf);
    raft_configuration_close(&metadata->configuration);
    raft_free(update->snapshot.chunk.base);
    /* The stream was put aside by driver_deliver_snapshot(): digest first, then the rows. */
    reader_init(&reader, driver->transfers.in.stream.data, driver->transfers.in.stream.len);
    digest = reader_u64(&reader);
    ASSERT(!reader.bad);
    buf_put(&write->stream, reader.data + reader.at, reader_left(&reader));
    driver_op_position(&write->op, &write->position, digest);
    write->op.rows_stream = write->stream.data;
    write->op.rows_stream_len = write->stream.len;
    driver->disk->ops->submit(driver->disk, &write->op);
}
