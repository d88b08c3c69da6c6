/*
 * driver_rows.c - rows that apply changed, on their way to the disk.
 *
 * They are written behind the log, and what they stand for is in the log: so there is no hurry, and
 * a commit of their own would cost as much as one that carries new entries. The happy path: apply
 * leaves the changes here; once they are rows_join_ms old they go right before the next entries
 * that go to the disk, in the same group commit; if none do until they are rows_hold_ms old, they
 * go alone. Of a key that changed several times meanwhile only the last change is written: on a
 * busy node most commits carry entries alone, and so fewer pages.
 *
 * Failure modes: the process dies: what was held is applied again from the log. A snapshot is
 * installed: what was held is worth nothing any more.
 *
 * Thread: the raft loop.
 */
#include <stdlib.h>
#include <string.h>

#include "raft/core/driver_internal.h"
#include "src/base/assert.h"
#include "src/base/hash.h"

#define HOLD_ROWS_MAX 2048 /* then they go at once */

/* --- the last change of each key --- */

static bool same_key(const struct fsm_change *a, const struct fsm_change *b)
{
    return a->key.len == b->key.len && memcmp(a->key.data, b->key.data, a->key.len) == 0;
}

/* The place of the change's key in an index that is at most half full; 0 stands for a free one,
 * else 1 + the number of the latest change of the key that is kept. */
static uint32_t *index_find(uint32_t *index, size_t size, const struct fsm_changes *changes,
                            size_t number)
{
    const struct fsm_change *change = &changes->items[number];
    size_t at = hash_bytes(change->key.data, change->key.len, 0) & (size - 1);

    while (index[at] != 0 && !same_key(&changes->items[index[at] - 1], change)) {
        at = (at + 1) & (size - 1);
    }
    return &index[at];
}

void driver_rows_coalesce(struct fsm_changes *changes)
{
    size_t size = 16;
    uint32_t *index;
    size_t kept = 0;

    ASSERT(changes->count < UINT32_MAX / 2);
    while (size < 2 * changes->count) {
        size *= 2;
    }
    index = calloc(size, sizeof *index);
    ASSERT(index != NULL);
    for (size_t i = changes->count; i-- > 0;) {
        uint32_t *latest = index_find(index, size, changes, i);
        bool wanted = *latest == 0;

        /* The store deletes only what is there: a row that was made and deleted meanwhile is made
         * and deleted there as well. */
        if (!wanted && changes->items[*latest - 1].value.len == 0 &&
            changes->items[i].value.len > 0) {
            wanted = true;
        }
        if (wanted) {
            *latest = (uint32_t)i + 1;
        } else {
            buf_free(&changes->items[i].value);
            buf_free(&changes->items[i].key);
        }
    }
    free(index);
    for (size_t i = 0; i < changes->count; i++) {
        if (changes->items[i].key.len > 0) {
            changes->items[kept++] = changes->items[i];
        }
    }
    changes->count = kept;
}

struct store_row *driver_rows(const struct fsm_changes *changes)
{
    struct store_row *rows;

    if (changes->count == 0) {
        return NULL;
    }
    rows = calloc(changes->count, sizeof *rows);
    ASSERT(rows != NULL);
    for (size_t i = 0; i < changes->count; i++) {
        const struct fsm_change *change = &changes->items[i];
        bool gone = change->value.len == 0;

        rows[i] = (struct store_row){change->key.data, (uint32_t)change->key.len,
                                     gone ? NULL : change->value.data, (uint32_t)change->value.len};
    }
    return rows;
}

/* --- held and written --- */

static void apply_done(struct store_op *op)
{
    struct driver_write *write = op->data;
    struct driver *driver = write->driver;

    if (write->generation == driver->generation && !driver->failed) {
        ASSERT(write->position.index >= driver->durable.index);
        driver_position_copy(&driver->durable, &write->position);
    }
    driver_write_free(write);
    if (!driver->failed) {
        driver_maybe_compact(driver);
    }
}

void driver_rows_hold(struct driver *driver)
{
    if (driver->held_since_ms == UINT64_MAX) {
        driver->held_since_ms = clock_now_ms(driver->clock);
    }
    if (driver->config.rows_hold_ms == 0 || driver->held_rows.count >= HOLD_ROWS_MAX) {
        driver_rows_write(driver, false);
    }
}

uint64_t driver_rows_due_ms(const struct driver *driver)
{
    return driver->held_since_ms == UINT64_MAX
               ? UINT64_MAX
               : driver->held_since_ms + driver->config.rows_hold_ms;
}

void driver_rows_join(struct driver *driver)
{
    if (driver->held_since_ms != UINT64_MAX &&
        clock_now_ms(driver->clock) >= driver->held_since_ms + driver->config.rows_join_ms) {
        driver_rows_write(driver, true);
    }
}

void driver_rows_write(struct driver *driver, bool more)
{
    struct driver_write *write;

    if (driver->held_since_ms == UINT64_MAX) {
        return;
    }
    driver->held_since_ms = UINT64_MAX;
    driver_rows_coalesce(&driver->held_rows);
    write = driver_write_new(driver, STORE_APPLY, apply_done);
    write->changes = driver->held_rows;
    driver->held_rows = (struct fsm_changes){0};
    driver_position_copy(&write->position, &driver->applied);
    driver_op_position(&write->op, &write->position, fsm_digest(driver->fsm));
    write->rows = driver_rows(&write->changes);
    write->op.rows = write->rows;
    write->op.row_count = (uint32_t)write->changes.count;
    write->op.more = more;
    driver->disk->ops->submit(driver->disk, &write->op);
}

void driver_rows_drop(struct driver *driver)
{
    fsm_changes_release(&driver->held_rows);
    driver->held_rows = (struct fsm_changes){0};
    driver->held_since_ms = UINT64_MAX;
}
