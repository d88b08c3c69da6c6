/*
 * fsm_grants.h - ids that leave a tag (grants), and the idempotency keys that stand for some of
 * them (keys).
 *
 * Failure modes: of an item, into its result, and then nothing was granted for it; the others are
 * independent of it. A row that no apply can have made is ERR_CORRUPT. Thread: one owner.
 * Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_GRANTS_H
#define LEAFD_ID_FSM_FSM_GRANTS_H

#include <sys/queue.h>

#include "src/base/hash.h"
#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_puts.h"
#include "src/id/fsm/fsm_tags.h"

/*
 * --- fsm_keys: the table of idempotency keys: which ids a key of a tag stands for.
 *
 * The happy path: a strict allocation with a new key is remembered by fsm_key_add(); the same key
 * finds it for LIMIT_KEY_LIFE_MS of the log's time; later commands and the log's clock delete it,
 * the oldest first.
 *
 * A key may count for a client (command.h). How many each has is counted in memory, from the rows:
 * so it is the same on all nodes, and after a snapshot.
 *
 * Memory: 79 bytes and the key in one piece of malloc (8 bytes more, in steps of 16), and 8 bytes
 * of the buckets: 136 bytes for a key of 36, the name of the tag being its row's. The hash is
 * seeded with the address of the row and the table's seed, which no client can know; nothing that
 * is replicated depends on it.
 * A full table is the caller's to refuse.
 */

/* What a key stands for, as its row has it. */
struct fsm_key_ids {
    uint64_t first;  /* first + i * increment, i < count */
    uint64_t at_ms;  /* the log's time when they were allocated */
    uint64_t index;  /* of the entry that did it */
    uint64_t client; /* its owner, for which it counts; 0: none */
    uint32_t count;
    uint32_t increment; /* 0: 1 */
    uint16_t position;  /* of the item in the entry */
};

/* An idempotency key: in the table, and in the order of age. */
struct fsm_key {
    struct hash_link link;
    TAILQ_ENTRY(fsm_key) age;
    struct fsm_row *row;     /* the tag's */
    struct fsm_owner *owner; /* for which it counts; NULL: none */
    uint64_t first;          /* of the ids that it stands for: count of them, by the increment */
    uint64_t at_ms;          /* the log's time when they were allocated */
    uint64_t index;          /* of the entry that did it */
    uint32_t count;
    uint32_t increment;
    uint32_t hash;
    uint16_t position; /* of the item in the entry */
    uint8_t len;       /* 1..LIMIT_KEY_BYTES */
    char key[];
};

TAILQ_HEAD(fsm_key_ages, fsm_key);

struct fsm_keys {
    struct journal *journal;
    struct fsm_tags *tags;
    struct fsm_key_ages ages; /* oldest first: by (index, position) */
    struct hash_table table;
    struct fsm_owners owners; /* how many each client has, in force or not */
    uint64_t bytes;           /* memory of all keys, with their buckets */
};

void fsm_keys_init(struct fsm_keys *keys, struct fsm_tags *tags);
void fsm_keys_clear(struct fsm_keys *keys);

/* The table was copied from another place, and so were the tags. */
void fsm_keys_moved(struct fsm_keys *keys, struct fsm_tags *tags);

/* The key of the tag, in force or not; NULL if it is not there. */
struct fsm_key *fsm_key_find(const struct fsm_keys *keys, const struct fsm_row *row,
                             const char *key, size_t len);
static inline bool fsm_key_in_force(const struct fsm_key *key, uint64_t log_ms)
{
    return log_ms < key->at_ms + LIMIT_KEY_LIFE_MS;
}

/* What a key in force says to an item that names it: its ids once more, or ERR_KEY_CONFLICT if they
 * are not as many, or if it is another client's. Addresses are one client here, since a client that
 * repeats a request to another node may have another address there. */
void fsm_key_answer(const struct fsm_key *key, const struct strict_item *item,
                    struct strict_result *result);

/* A new one of these ids, of the tag. It must not be there. */
void fsm_key_add(struct fsm_keys *keys, struct fsm_row *row, const struct strict_item *item,
                 const struct fsm_key_ids *ids);
/* Delete it; frees key. */
void fsm_key_forget(struct fsm_keys *keys, struct fsm_key *key);
/* Delete up to max keys that are not in force any more, the oldest first. */
void fsm_keys_expire(struct fsm_keys *keys, uint64_t log_ms, unsigned max);

/* A row as state_load_row() gets it. */
int fsm_keys_load(struct fsm_keys *keys, const struct row_loaded *loaded) MUST_CHECK;
/* All rows are there, as of the entry at index and the log's time: bring the keys into the order of
 * their age. ERR_CORRUPT if there is none. */
int fsm_keys_order(struct fsm_keys *keys, uint64_t index, uint64_t log_ms) MUST_CHECK;

/*
 * --- fsm_grants: ids that leave a tag: segments that are granted to nodes (and given back), and
 * strict allocations in batches. That each is applied once is the session's business
 * (sessions.h).
 *
 * The happy path of a grant: item by item, each takes n ids from max_id on and moves max_id up. Of
 * a range given back: it must be the topmost, of this generation, and then max_id is its first id
 * again.
 *
 * The happy path of a batch: items in order, and of each: the tag must be there, in strict mode; a
 * key that is known gives the ids that it gave before; the tag's segments must not be on recall;
 * then the ids are count ids from max_id on. A run of items of one tag takes its row out of the
 * digest once.
 *
 * The happy path of ids under keys that the leader took from its window: each key that is not known
 * stands for them from now on; no tag changes.
 */

/* The tables that a batch needs, and what the log says. */
struct fsm_strict {
    struct fsm_tags *tags;
    struct fsm_keys *keys;
    const struct fsm_recalls *recalls;
    uint64_t log_ms;
    uint64_t index; /* of the batch's entry, and its term */
    uint64_t term;
};

/* Of tags of this mode: segments to the node, which becomes a segment holder; or COMMAND_WINDOW:
 * the leader that appended it holds the ranges; it needs no recall, since it hands nothing out once
 * it does not lead any more (docs/monotonic.md). */
void fsm_ids_grant(struct fsm_recalls *recalls, enum tag_mode mode, uint64_t node_id,
                   struct command_list *command, struct buf *result);
void fsm_segments_give_back(struct fsm_tags *tags, struct command_list *command,
                            struct buf *result);
void fsm_strict_apply(const struct fsm_strict *strict, struct command_list *command,
                      struct buf *result);
void fsm_keyed_apply(const struct fsm_strict *strict, struct command_list *command,
                     struct buf *result);

#endif
