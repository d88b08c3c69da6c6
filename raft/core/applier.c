/*
 * applier.c - see applier.h. Thread: the raft loop.
 */
#include "raft/core/applier.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/state/codec/cluster_command.h"

#define MANY_ROWS 2048      /* as of a bulk */
#define HOLD_ROWS_MAX 32768 /* more: they are written in the next turn */

static void replace(struct store_position *position, const struct store_position *by)
{
    ASSERT(by->index > 0 && by->index >= position->index && by->conf_index <= by->index);
    store_position_release(position);
    store_position_copy(position, by);
}

/* --- entries --- */

void applier_skip(struct applier *applier, uint64_t index, uint64_t term)
{
    ASSERT(!applier->installing);
    ASSERT(index == applier->applied.index + 1 && term >= applier->applied.term);
    applier->applied.index = index;
    applier->applied.term = term;
}

void applier_configured(const struct applier *applier, struct configuration *ret_configuration)
{
    const struct store_position *applied = &applier->applied;

    if (applied->conf_len == 0 ||
        configuration_decode(applied->conf, applied->conf_len, ret_configuration) != 0) {
        ret_configuration->count = 0;
    }
}

int applier_configuration(struct applier *applier, uint64_t index, uint64_t term,
                          const struct entry_block *block)
{
    struct configuration before;
    struct configuration after;
    const struct store_position position = {.index = index,
                                            .term = term,
                                            .conf_index = index,
                                            .conf = block->data,
                                            .conf_len = block->len};

    if (configuration_decode(block->data, block->len, &after) != 0) {
        return ERR_CORRUPT;
    }
    applier_configured(applier, &before);
    ASSERT((before.count > 0) == (applier->applied.conf_len > 0));
    applier_skip(applier, index, term);
    state_configured(applier->state, index, &before, &after, &applier->rows);
    ASSERT(index > applier->applied.conf_index);
    replace(&applier->applied, &position);
    return 0;
}

/* --- rows --- */

void rows_coalesce(struct row_changes *changes)
{
    size_t size = 16;
    uint32_t *index; /* by keys, at most half full. 0: free, else 1 + the number of the latest kept
                        change of a key */
    size_t kept = 0;

    ASSERT(changes->count < UINT32_MAX / 2);
    while (size < 2 * changes->count) {
        size *= 2;
    }
    index = MUST_HAVE(calloc(size, sizeof *index));
    for (size_t i = changes->count; i-- > 0;) {
        const struct state_row *row = &changes->items[i];
        size_t at = hash_bytes(row->key, row->key_len, 0) & (size - 1);
        uint32_t *latest = &index[at];
        bool wanted;

        while (*latest != 0 && (changes->items[*latest - 1].key_len != row->key_len ||
                                memcmp(changes->items[*latest - 1].key, row->key, row->key_len))) {
            at = (at + 1) & (size - 1);
            latest = &index[at];
        }
        wanted = *latest == 0;
        /* The store deletes only existing rows: a row that was made and deleted meanwhile is made
         * and deleted there as well. */
        if (!wanted && changes->items[*latest - 1].value_len == 0 && row->value_len > 0) {
            wanted = true;
        }
        if (wanted) {
            *latest = (uint32_t)i + 1;
        } else {
            changes->items[i].key_len = 0;
        }
    }
    free(index);
    for (size_t i = 0; i < changes->count; i++) {
        if (changes->items[i].key_len > 0) {
            changes->items[kept++] = changes->items[i];
        }
    }
    changes->count = kept;
}

void applier_hold(struct applier *applier)
{
    if (applier->rows_since_ms == UINT64_MAX) {
        applier->rows_since_ms = clock_now_ms(applier->clock);
        timer_arm(applier->timers, &applier->rows_due,
                  applier->rows_since_ms + applier->config.rows_hold_ms);
    }
    if (applier->config.rows_hold_ms == 0) {
        applier_write(applier, false);
    } else if (applier->rows.count >= HOLD_ROWS_MAX) {
        timer_arm(applier->timers, &applier->rows_due, 0); /* this turn was long enough */
    } else if (applier->rows.count >= MANY_ROWS && !applier->rows_many) {
        applier->rows_many = true;
        timer_arm(applier->timers, &applier->rows_due,
                  clock_now_ms(applier->clock) + applier->config.rows_many_ms);
    }
}

void applier_write(struct applier *applier, bool more)
{
    struct write *write;

    if (applier->rows_since_ms == UINT64_MAX) {
        return;
    }
    ASSERT(!applier->installing);
    applier->rows_since_ms = UINT64_MAX;
    applier->rows_many = false;
    timer_cancel(applier->timers, &applier->rows_due);
    rows_coalesce(&applier->rows);
    write = writes_new(applier->writes, STORE_APPLY);
    write->changes = applier->rows;
    applier->rows = (struct row_changes){0};
    store_position_copy(&write->op.position, &applier->applied);
    write->op.position.digest = state_digest(applier->state);
    write->op.rows = write->changes.items;
    write->op.row_count = (uint32_t)write->changes.count;
    write->op.more = more;
    write_submit(write);
}

void applier_written(struct applier *applier, const struct write *write)
{
    const struct store_position *position = &write->op.position;

    if (!write_is_current(write)) {
        ASSERT(write->op.kind == STORE_APPLY);
        return; /* a snapshot has replaced it */
    }
    if (write->op.kind == STORE_INSTALL) {
        ASSERT(applier->installing && applier->next != NULL);
        applier->installing = false;
        replace(&applier->applied, position);
        applier->compacted = position->index;
        state_take(applier->state, applier->next);
        state_free(applier->next);
        applier->next = NULL;
    }
    ASSERT(position->index <= applier->applied.index);
    replace(&applier->durable, position);
}

/* --- compaction --- */

#define FIRST_LIST_INDEX 1

/* Compact after enough entries or, if they are large, enough bytes: the log is held in memory. The
 * first list of members stays while there is nothing else: it shows a node that it is unborn, and
 * must not stand for election alone (raft/cluster/peers.h). */
uint64_t applier_compaction(struct applier *applier, const struct entry_log *log, uint64_t needed,
                            bool is_disk_low, uint32_t *ret_trailing)
{
    uint64_t upto = applier->durable.index;
    uint32_t trailing = 0; /* for followers that lag a little */
    uint64_t bytes = 0;    /* of these */
    uint32_t more = 0;

    if (applier->installing || upto <= FIRST_LIST_INDEX || upto <= applier->compacted ||
        entry_log_get(log, upto) == NULL ||
        (upto - applier->compacted < applier->config.snapshot_entries &&
         log->bytes < LIMIT_LOG_BYTES && !is_disk_low)) {
        return 0;
    }
    ASSERT(upto <= applier->applied.index);
    applier->compacted = upto;
    while (trailing < applier->config.trailing_entries) {
        const struct log_entry *entry = entry_log_get(log, upto - trailing);

        if (entry == NULL || bytes + entry->block->len > LIMIT_LOG_TRAILING_BYTES) {
            break;
        }
        bytes += entry->block->len;
        trailing++;
    }
    /* Keep the entries that peers with a snapshot need, unless the log is too large. Keep the one
     * before, too: the core compares its term, and sends another snapshot if it is gone. */
    if (!is_disk_low && needed < upto && log->bytes < LIMIT_LOG_BYTES) {
        more = (uint32_t)(upto + 1 - (log->first > needed ? log->first : needed));
    }
    *ret_trailing = more > trailing ? more : trailing;
    return upto;
}

/* --- snapshots --- */

void applier_install(struct applier *applier, struct store_position *position, struct buf *stream,
                     size_t at, struct state *state)
{
    struct write *write;

    ASSERT(!applier->installing && position->index > applier->applied.index);
    ASSERT(state_digest(state) == position->digest);
    applier->installing = true;
    applier->next = state;
    row_changes_release(&applier->rows); /* the snapshot's rows replace them */
    applier->rows = (struct row_changes){0};
    applier->rows_since_ms = UINT64_MAX;
    applier->rows_many = false;
    timer_cancel(applier->timers, &applier->rows_due);
    applier->writes->epoch++;
    write = writes_new(applier->writes, STORE_INSTALL);
    write->op.position = *position;
    *position = (struct store_position){0};
    buf_move(&write->bytes, stream);
    write->op.rows_stream = write->bytes.data + at;
    write->op.rows_stream_len = write->bytes.len - at;
    write_submit(write);
}
