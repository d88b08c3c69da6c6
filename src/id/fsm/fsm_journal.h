/*
 * fsm_journal.h - what all tables of the state machine write into: the digest of all rows, and the
 * list of those that changed.
 *
 * The happy path: a table says what a row was and what it becomes, by fsm_journal_change(). Or it
 * puts the row that it is about to change into the journal, by fsm_journal_key() (or _node_key),
 * fsm_journal_value() and the value's bytes, and lets it leave; changes it; and puts it in again,
 * to enter. Then the digest is the sum of all rows again, and storage gets the new one.
 *
 * Invariant: a row counts in the digest exactly while it stands in its table. The digest is the sum
 * modulo 2^64 of hash_row() over all rows, the very sum that storage keeps and verifies.
 *
 * Failure modes: none. Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_FSM_FSM_JOURNAL_H
#define LEAFD_ID_FSM_FSM_JOURNAL_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/id/codec/fields.h"
#include "src/id/fsm/fsm_changes.h"

/* The first byte of a row's key: its table; and what follows. */
enum fsm_table {
    FSM_TABLE_ANSWERS = 'a',   /* answer to a command: the id of its node, and a slot (2) */
    FSM_TABLE_RECALLS = 'd',   /* tag whose segments are recalled: its name */
    FSM_TABLE_HOLDERS = 'g',   /* node that was ever granted a segment: its id */
    FSM_TABLE_KEYS = 'i',      /* idempotency key: the length of the tag's name (1), the name, the
                                 key */
    FSM_TABLE_ADDRESSES = 'l', /* member that moved: its id */
    FSM_TABLE_MEMBERS = 'm',   /* the change of the membership under way: nothing */
    FSM_TABLE_NODES = 'n',     /* what a node reported of itself: its id */
    FSM_TABLE_REMOVED = 'r',   /* node that was removed: its id */
    FSM_TABLE_SETTINGS = 's',  /* setting: its name */
    FSM_TABLE_TAGS = 't',      /* tag: its name */
    /* named layout: its name. Behind the settings: so an older leafd reads first which level it
     * needs */
    FSM_TABLE_LAYOUTS = 'v',
    FSM_TABLE_WORKERS = 'w' /* worker id: the id (2) */
};

/* The key of a row of a node: the table, and its id (8 bytes). Numbers in keys are big-endian, so
 * that storage keeps their order. */
#define FSM_NODE_KEY_BYTES 9

/* Of the values whose bytes are written in this folder. */
#define FSM_ROW_VERSION 1

struct fsm_journal {
    uint64_t digest;
    struct fsm_changes *changes;   /* of the command that is applied; NULL: nobody wants them */
    struct fsm_listener *listener; /* NULL: none */
    bool loading;                  /* between fsm_load_begin() and _end() */
    struct buf row;                /* a key and its value, one behind the other */
    size_t key_len;
};

/* Begin a row by its table; its key's other bytes are appended to journal->row. */
void fsm_journal_key(struct fsm_journal *journal, enum fsm_table table);
void fsm_journal_node_key(struct fsm_journal *journal, enum fsm_table table, uint64_t node_id);
/* The key is whole; the value's bytes are appended to journal->row. */
void fsm_journal_value(struct fsm_journal *journal);
/* The key is whole; and this is the value. */
void fsm_journal_record(struct fsm_journal *journal, const struct row_format *format,
                        const void *record);

/* The row leaves the digest, since it is about to change. */
void fsm_journal_leave(struct fsm_journal *journal);
/* The row comes into the digest, and is listed as a change. */
void fsm_journal_enter(struct fsm_journal *journal);
/* The row leaves for good: its deletion is listed. It must have been in the digest, with this very
 * value: storage refuses the deletion of a row that it does not have. */
void fsm_journal_delete(struct fsm_journal *journal);

/* All of that: the row of this key, the table and so many bytes, was before, and is after. NULL: it
 * is new, or deleted. */
void fsm_journal_change(struct fsm_journal *journal, enum fsm_table table, const void *key,
                        size_t len, const struct row_format *format, const void *before,
                        const void *after);
/* The same of a row of a node. */
void fsm_journal_node(struct fsm_journal *journal, enum fsm_table table, uint64_t node_id,
                      const struct row_format *format, const void *before, const void *after);

/* --- rows that are loaded --- */

/* A row as fsm_load_row() gets it; its key has one byte at least. */
struct fsm_loaded {
    const uint8_t *key;
    size_t key_len;
    const void *value;
    size_t value_len;
};

/* Is it the setting of this name? */
bool fsm_loaded_is(const struct fsm_loaded *row, const char *name);

/* The id in the key of a row of a node, which may be longer. */
uint64_t fsm_key_node(const uint8_t *key);

/* --- times --- */

static inline uint64_t fsm_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A proposer's clock may say anything; the row keeps only what can be shown. */
static inline uint64_t fsm_shown_ms(uint64_t wall_ms)
{
    return wall_ms < TAG_TIME_MAX_MS ? wall_ms : TAG_TIME_MAX_MS;
}

#endif
