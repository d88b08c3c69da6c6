/*
 * fsm_journal.c - see fsm_journal.h.
 */
#include "src/id/fsm/fsm_journal.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/assert.h"
#include "src/base/hash.h"

void fsm_journal_key(struct fsm_journal *journal, enum fsm_table table)
{
    journal->row.len = 0;
    journal->key_len = 0;
    buf_put_u8(&journal->row, (uint8_t)table);
}

void fsm_journal_node_key(struct fsm_journal *journal, enum fsm_table table, uint64_t node_id)
{
    fsm_journal_key(journal, table);
    for (int shift = 56; shift >= 0; shift -= 8) {
        buf_put_u8(&journal->row, (uint8_t)(node_id >> shift));
    }
    ASSERT(journal->row.len == FSM_NODE_KEY_BYTES);
}

void fsm_journal_value(struct fsm_journal *journal)
{
    ASSERT(journal->key_len == 0 && journal->row.len >= 1);
    ASSERT(journal->row.len <= LIMIT_ROW_KEY_BYTES);
    journal->key_len = journal->row.len;
}

void fsm_journal_record(struct fsm_journal *journal, const struct row_format *format,
                        const void *record)
{
    fsm_journal_value(journal);
    row_put(&journal->row, format, record);
}

static uint64_t hash_of(const struct fsm_journal *journal)
{
    ASSERT(journal->key_len > 0 && journal->row.len > journal->key_len); /* else: a deletion */
    return hash_row(journal->row.data, journal->key_len, journal->row.data + journal->key_len,
                    journal->row.len - journal->key_len);
}

void fsm_journal_leave(struct fsm_journal *journal)
{
    journal->digest -= hash_of(journal);
}

/* List the change of the row to the value's first bytes: none of them if it is deleted. */
static void list_change(struct fsm_journal *journal, size_t value_len)
{
    struct fsm_changes *changes = journal->changes;
    struct fsm_change *change;

    if (changes == NULL) {
        return;
    }
    changes->items =
        array_room(changes->items, changes->count, &changes->capacity, sizeof *changes->items);
    change = &changes->items[changes->count++];
    *change = (struct fsm_change){BUF_INIT, BUF_INIT};
    buf_put(&change->key, journal->row.data, journal->key_len);
    buf_put(&change->value, journal->row.data + journal->key_len, value_len);
}

void fsm_journal_enter(struct fsm_journal *journal)
{
    journal->digest += hash_of(journal);
    list_change(journal, journal->row.len - journal->key_len);
}

void fsm_journal_delete(struct fsm_journal *journal)
{
    fsm_journal_leave(journal);
    list_change(journal, 0);
}

static void put_record(struct fsm_journal *journal, enum fsm_table table, const void *key,
                       size_t len, const struct row_format *format, const void *record)
{
    fsm_journal_key(journal, table);
    buf_put(&journal->row, key, len);
    fsm_journal_record(journal, format, record);
}

void fsm_journal_change(struct fsm_journal *journal, enum fsm_table table, const void *key,
                        size_t len, const struct row_format *format, const void *before,
                        const void *after)
{
    if (before != NULL) {
        put_record(journal, table, key, len, format, before);
        (after != NULL ? fsm_journal_leave : fsm_journal_delete)(journal);
    }
    if (after != NULL) {
        put_record(journal, table, key, len, format, after);
        fsm_journal_enter(journal);
    }
}

void fsm_journal_node(struct fsm_journal *journal, enum fsm_table table, uint64_t node_id,
                      const struct row_format *format, const void *before, const void *after)
{
    const uint64_t key = htobe64(node_id);

    fsm_journal_change(journal, table, &key, sizeof key, format, before, after);
}

void fsm_changes_release(struct fsm_changes *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        buf_free(&changes->items[i].key);
        buf_free(&changes->items[i].value);
    }
    free(changes->items);
    *changes = (struct fsm_changes){0};
}

bool fsm_loaded_is(const struct fsm_loaded *row, const char *name)
{
    return row->key_len == 1 + strlen(name) && memcmp(row->key + 1, name, row->key_len - 1) == 0;
}

uint64_t fsm_key_node(const uint8_t *key)
{
    uint64_t node_id = 0;

    for (size_t i = 1; i < FSM_NODE_KEY_BYTES; i++) {
        node_id = node_id << 8 | key[i];
    }
    return node_id;
}
