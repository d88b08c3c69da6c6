/*
 * journal.h - the journal that all tables of the replicated state write into, the cluster's and the
 * machine's (journal); and sets and tables of nodes, with a row for each (node_set, node_rows).
 *
 * Failure modes: none. Thread: one owner (the raft loop).
 */
#ifndef LEAFD_STATE_JOURNAL_H
#define LEAFD_STATE_JOURNAL_H

#include "src/base/buf.h"
#include "src/base/clock.h"
#include "src/base/err.h"
#include "src/base/fields.h"
#include "src/base/limits.h"

/*
 * --- journal: written by all tables of the replicated state, the cluster's and the machine's: the
 * digest of all rows, and the list of changed rows.
 *
 * The happy path: a table passes a row's old and new value to journal_change(). Or it puts the row
 * that it is about to change into the journal, by journal_key(), journal_value() and
 * the value's bytes, and calls journal_leave(); changes it; puts it in again, and calls
 * journal_enter(). Then the digest is the sum of all rows again, and storage gets the new row.
 *
 * Invariant: a row counts in the digest exactly while it is in its table. The digest is the sum
 * modulo 2^64 of hash_row() over all rows, the very sum that storage keeps and verifies.
 *
 */

/* The first byte of a row's key: its table; and the rest of the key. These are the cluster's
 * tables, all others are the machine's. Both have settings, each by its name. */
enum state_table {
    STATE_TABLE_ANSWERS = 'a',   /* answer to a command: the id of its node, and a slot (2) */
    STATE_TABLE_ADDRESSES = 'l', /* member that moved: its id */
    STATE_TABLE_MEMBERS = 'm',   /* the change of the membership under way: nothing */
    STATE_TABLE_NODES = 'n',     /* a node's report of itself: its id */
    STATE_TABLE_REMOVED = 'r',   /* node that was removed: its id */
    STATE_TABLE_SETTINGS = 's',  /* setting: its name */
    /* After the settings, so that an older leafd first reads the level needed. */
    STATE_TABLE_PLACEMENTS = 'x', /* where a node is, and its share of the work: its id */
    STATE_TABLE_CUTS = 'y'        /* client that is cut: its name or address */
};

/* The key of a row of a node: the table, and its id (8 bytes). Numbers in keys are big-endian, so
 * that storage keeps their order. */
#define ROW_NODE_KEY_BYTES 9

/* For values whose format has no version of its own. */
#define ROW_VERSION 1

struct row_piece; /* of memory for the bytes of many rows: a bulk lists 10,000 */

/* In the order of apply: a key may be there several times, put and deleted; the last one counts.
 * The rows are in the list's memory, and stay in place until it is released. */
struct row_changes {
    struct state_row *items;
    size_t count;
    size_t capacity;
    struct row_piece *pieces; /* the newest first */
};

/* List the change of a row, key_len bytes and the value_len after them, which are copied. Without a
 * value it is deleted. */
void row_changes_add(struct row_changes *changes, const void *row, size_t key_len,
                     size_t value_len);
void row_changes_release(struct row_changes *changes);

struct journal {
    uint64_t digest;
    struct row_changes *changes; /* of the command being applied; NULL: not wanted */
    bool loading;                /* between state_load_begin() and _end() */
    struct buf row;              /* a key and its value, one after the other */
    size_t key_len;
};

/* Begin a row by its table; its key's other bytes are appended to journal->row. */
void journal_key(struct journal *journal, uint8_t table);
/* The key is complete; the value's bytes are appended to journal->row. */
void journal_value(struct journal *journal);
/* The key is complete, and this is the value. */
void journal_record(struct journal *journal, const struct row_format *format, const void *record);

/* The row's part of the digest, which is the sum of all rows' hashes. */
uint64_t journal_hash(const struct journal *journal);

/* The row leaves the digest, since it is about to change. */
void journal_leave(struct journal *journal);
/* The row comes into the digest, and is listed as a change. */
void journal_enter(struct journal *journal);
/* The row is deleted, and its deletion is listed. It must have been in the digest with this very
 * value: storage refuses to delete a row that it does not have. */
void journal_delete(struct journal *journal);

/* Add changes that were listed in advance, and their part of the digest. The list is left empty. */
void journal_move(struct journal *journal, struct row_changes *from, uint64_t digest);

/* All of that in one: the row with this key (the table and len bytes) was `before`, and becomes
 * `after`. NULL: it is new, or deleted. */
void journal_change(struct journal *journal, uint8_t table, const void *key, size_t len,
                    const struct row_format *format, const void *before, const void *after);
/* The same for a row of a node. */
void journal_node(struct journal *journal, uint8_t table, uint64_t node_id,
                  const struct row_format *format, const void *before, const void *after);

/* --- rows that are loaded --- */

/* Is it the setting of this name? */
bool row_is_setting(const struct state_row *row, const char *name);

/* The id in the key of a row of a node, which may be longer. */
uint64_t row_key_node(const uint8_t *key);

/* --- times --- */

/* A proposer's clock may have any value; the row keeps only a time that can be displayed. */
static inline uint64_t displayable_ms(uint64_t wall_ms)
{
    return wall_ms < LIMIT_TIME_MAX_MS ? wall_ms : LIMIT_TIME_MAX_MS;
}

/*
 * --- node_set: a set of node ids, in rising order; and such a set with a row for each id.
 *
 * An id beyond LIMIT_NODE_ID is the caller's mistake (ASSERT), except when asking whether it is in
 * the set.
 */

struct node_set {
    uint16_t *ids; /* rising */
    size_t count;
    size_t capacity;
};

bool node_set_has(const struct node_set *set, uint64_t node_id);
/* False: it was in the set already. */
bool node_set_add(struct node_set *set, uint64_t node_id);
/* False: it was not in the set. */
bool node_set_remove(struct node_set *set, uint64_t node_id);

/* Add the node or remove it, together with its row of the table. False: nothing was to do. */
bool node_set_change_row(struct node_set *set, struct journal *journal, uint8_t table,
                         uint64_t node_id, bool in);
/* 0, ERR_TRUNCATED, ERR_BAD_VERSION, ERR_CORRUPT or ERR_EXISTS. */
int node_set_load_row(struct node_set *set, struct journal *journal,
                      const struct state_row *row) MUST_CHECK;

/* Leaves the set empty and usable. */
void node_set_free(struct node_set *set);

/*
 * --- node_rows: a table with a record for each of some nodes, and its row. A record begins with
 * its node's id, a uint64_t, which is in the row's key.
 */

struct node_table {
    uint8_t table;
    const struct row_format *format;
    size_t size; /* of a record */
};

struct node_rows {
    const struct node_table *of;
    void *items; /* in no order */
    size_t count;
    size_t capacity;
};

/* NULL: none. Borrowed until the next change. */
void *node_rows_find(const struct node_rows *rows, uint64_t node_id);
/* Set the node's record to a copy of this. False: its row is like that already, and stays. */
bool node_rows_put(struct node_rows *rows, struct journal *journal, const void *record);
/* False: there was none. */
bool node_rows_drop(struct node_rows *rows, struct journal *journal, uint64_t node_id);
/* A row into a record of zeros, which is not put yet. 0, ERR_EXISTS, or as row_read(). */
int node_rows_read(const struct node_rows *rows, const struct state_row *row,
                   void *ret_record) MUST_CHECK;

#endif
