/*
 * fsm_tables.h - the machine's tables together, for fsm.c, the files that change them, and tests:
 * recalls and puts (fsm_puts.c), keys and grants (fsm_grants.c), worker ids (fsm_workers.c). Tags
 * and settings have headers of their own.
 *
 * Failure modes: a refusal is in the result, and changes nothing; items of a list of grants are
 * independent of each other. A row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner (the raft loop). Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_TABLES_H
#define LEAFD_ID_FSM_FSM_TABLES_H

#include <sys/queue.h>

#include "src/base/hash.h"
#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_settings.h"
#include "src/id/fsm/fsm_tags.h"
#include "src/state/machine.h"

/*
 * --- fsm_recalls: the segment holders, and the tags whose segments are recalled from them.
 *
 * A segment in a node's memory is below max_id. If its ids were handed out after the tag became
 * strict, they would be smaller than ids acknowledged before. So the tag's segments are recalled
 * first: it hands out no ids until each node that may hold a segment has reported that it holds
 * none.
 *
 * The happy path: every node that is granted a segment, of any tag, becomes a segment holder for
 * good (a node's row names no tags: that would cost a row per tag and node). A tag that becomes
 * strict gets a row with all holders; each COMMAND_RECALLED removes one. With the last the row is
 * deleted and the tag is open.
 *
 * A tag that is deleted while it is recalled keeps the mark without the row. Made again as strict,
 * it starts again with all holders, since nodes confirm a generation.
 *
 * Invariant: there is a recall exactly for each live tag with tag_row.recalling, and every node of
 * it is a segment holder.
 *
 * A confirmation of an older generation, or of a node that is not waited for, changes nothing. The
 * callers must refuse when a table is full.
 */

struct fsm_recall {
    RB_ENTRY(fsm_recall) link; /* by name */
    struct fsm_row *row;
    struct node_set nodes; /* that have not confirmed yet; never empty */
};

RB_HEAD(fsm_recall_tree, fsm_recall);

struct fsm_recalls {
    struct journal *journal;
    struct fsm_tags *tags;
    struct node_set holders; /* nodes that were ever granted a segment */
    struct fsm_recall_tree tree;
    size_t count;
};

void fsm_recalls_init(struct fsm_recalls *recalls, struct fsm_tags *tags);
void fsm_recalls_clear(struct fsm_recalls *recalls);

/* The node is granted a segment. False: the table of holders is full. */
bool fsm_holder_add(struct fsm_recalls *recalls, uint64_t node_id) MUST_CHECK;
/* The node was removed from the cluster for good, and its commands are refused from now on: no tag
 * waits for it any more. May change tags. */
void fsm_holder_removed(struct fsm_recalls *recalls, uint64_t node_id);

/* Must the segments of a tag that leaves trend mode, or has left it, be recalled? old: its row
 * before, NULL: none; ended: the operator states that no node holds a segment of it. */
bool fsm_recall_is_due(const struct fsm_recalls *recalls, const struct tag_row *old, bool ended);
/* The recall of the tag, whose row may be NULL. NULL: no node is waited for. */
struct fsm_recall *fsm_recalls_find(const struct fsm_recalls *recalls, struct fsm_row *row);
/* The first recall, in the order of names, that waits for the node; NULL: none. Only names greater
 * than `after`. */
struct fsm_recall *fsm_recalls_next(const struct fsm_recalls *recalls, uint64_t node_id,
                                    const char *after, size_t after_len);
/* The tag was changed: make or drop its recall, as the row requires. */
void fsm_recall_follow(struct fsm_recalls *recalls, struct fsm_row *row);
/* COMMAND_RECALLED of a node. */
void fsm_recalls_confirm(struct fsm_recalls *recalls, uint64_t node_id, struct command_list *list);

/* Rows of the tables HOLDERS and RECALLS. */
int fsm_recalls_load(struct fsm_recalls *recalls, const struct row_loaded *row) MUST_CHECK;
/* All rows are loaded: ERR_CORRUPT if they contradict each other. */
int fsm_recalls_check(const struct fsm_recalls *recalls) MUST_CHECK;

/*
 * --- fsm_puts: tags that are made, changed and deleted.
 *
 * The happy path of a put: it is judged, that is, no name may occur twice, and every item is
 * merged, checked against its row, and made ready (fsm_tags_ready()). Only then are the rows
 * changed, all at once. Of a delete: the row becomes a tombstone.
 */

struct puts_judged;

/* Begin to judge a put; and judge up to `items` more of its items; true: there are more. Both
 * change nothing. The judgement is valid as long as no row changes and the command stays in place.
 * Raising a max_id by more than LIMIT_MAX_ID_JUMP, or so that fewer than LIMIT_MAX_ID_LEFT ids are
 * left, needs force (ERR_NEEDS_FORCE), except for a dump's new name. Tags that a client makes, or
 * makes larger, count for it, up to command.most (ERR_SHARE). */
struct puts_judged *fsm_puts_judge_begin(const struct fsm_recalls *recalls,
                                         const struct command_list *command);
bool fsm_puts_judge(struct fsm_recalls *recalls, struct puts_judged *judged, uint32_t items);
/* NULL-safe. */
void fsm_puts_drop(struct puts_judged *judged);

/* Judge the rest, and carry the put out. */
void fsm_puts_apply(struct fsm_recalls *recalls, struct puts_judged *judged, struct buf *result);
/* 0 or ERR_UNKNOWN_TAG. */
int fsm_puts_delete(struct fsm_recalls *recalls, const struct delete_command *command) MUST_CHECK;

/*
 * --- fsm_keys: the table of idempotency keys: the ids of each key of a tag.
 *
 * The happy path: fsm_key_add() records a strict allocation with a new key. The same key finds it
 * for LIMIT_KEY_LIFE_MS of the log's time. Later commands and the log's clock delete keys, the
 * oldest first.
 *
 * A key may count for a client (command.h). The number that each client has is counted in memory,
 * from the rows, so it is the same on all nodes, and after a snapshot.
 *
 * Memory: 79 bytes and the key in one piece of malloc (8 bytes more, in steps of 16), and 8 bytes
 * of the buckets: 136 bytes for a key of 36. The tag's name is in its row. The hash is seeded with
 * the address of the row and the table's seed, which no client can know; nothing replicated depends
 * on it. The caller must refuse when the table is full.
 */

/* The ids of a key, as in its row. */
struct fsm_key_ids {
    uint64_t first;  /* first + i * increment, i < count */
    uint64_t at_ms;  /* the log's time when they were allocated */
    uint64_t index;  /* of the entry that allocated */
    uint64_t client; /* its owner, for which it counts; 0: none */
    uint32_t count;
    uint32_t increment; /* 0: 1 */
    uint16_t position;  /* of the item in the entry */
};

/* An idempotency key, in the table and in the order of age. */
struct fsm_key {
    struct hash_link link;
    TAILQ_ENTRY(fsm_key) age;
    struct fsm_row *row;     /* the tag's */
    struct fsm_owner *owner; /* that it counts for; NULL: none */
    uint64_t first;          /* of its ids: count of them, by the increment */
    uint64_t at_ms;          /* the log's time when they were allocated */
    uint64_t index;          /* of the entry that allocated */
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

/* The table and the tags were moved here from another address. */
void fsm_keys_moved(struct fsm_keys *keys, struct fsm_tags *tags);

/* The key of the tag, in force or not; NULL if there is none. */
struct fsm_key *fsm_key_find(const struct fsm_keys *keys, const struct fsm_row *row,
                             const char *key, size_t len);
static inline bool fsm_key_in_force(const struct fsm_key *key, uint64_t log_ms)
{
    return log_ms < key->at_ms + LIMIT_KEY_LIFE_MS;
}

/* The answer of a key in force to an item that names it: its ids again, or ERR_KEY_CONFLICT if the
 * count differs, or if the key is another client's. All addresses are one client here, since a
 * client that repeats a request to another node may have another address there. */
void fsm_key_answer(const struct fsm_key *key, const struct strict_item *item,
                    struct strict_result *result);

/* Add a key of the tag, with these ids. It must not exist. */
void fsm_key_add(struct fsm_keys *keys, struct fsm_row *row, const struct strict_item *item,
                 const struct fsm_key_ids *ids);
/* Delete it; frees key. */
void fsm_key_forget(struct fsm_keys *keys, struct fsm_key *key);
/* Delete up to max keys that are no longer in force, the oldest first. */
void fsm_keys_expire(struct fsm_keys *keys, uint64_t log_ms, unsigned max);

/* A row as state_load_row() gets it. */
int fsm_keys_load(struct fsm_keys *keys, const struct row_loaded *loaded) MUST_CHECK;
/* All rows are loaded, as of the entry at index and the log's time: sort the keys by age.
 * ERR_CORRUPT if they have no such order. */
int fsm_keys_order(struct fsm_keys *keys, uint64_t index, uint64_t log_ms) MUST_CHECK;

/*
 * --- fsm_grants: ids that are taken from a tag: segments granted to nodes (and given back), and
 * strict allocations in batches. Sessions make sure that each is applied once (sessions.h).
 *
 * The happy path of a grant: item by item, each takes n ids from max_id on and moves max_id up. Of
 * a range given back: it must be the topmost, of this generation; then max_id becomes its first id
 * again.
 *
 * The happy path of a batch: for each item, in order: the tag must exist, in strict mode; a known
 * key gives its ids again; the tag must not be under recall; then the ids are count ids from max_id
 * on. A run of items of one tag takes its row out of the digest once.
 *
 * The happy path of ids under keys, from the leader's window: each unknown key is recorded with its
 * ids; no tag changes.
 */

struct fsm;

/* For tags of this mode: grant segments to the node, which becomes a segment holder. Or
 * COMMAND_WINDOW: the leader that appended it holds the ranges, and needs no recall, since it hands
 * out no ids once it no longer leads (docs/monotonic.md). */
void fsm_ids_grant(struct fsm_recalls *recalls, enum tag_mode mode, uint64_t node_id,
                   struct command_list *command, struct buf *result);
void fsm_segments_give_back(struct fsm_tags *tags, struct command_list *command,
                            struct buf *result);
void fsm_strict_apply(struct fsm *fsm, const struct machine_entry *entry,
                      struct command_list *command, struct buf *result);
void fsm_keyed_apply(struct fsm *fsm, const struct machine_entry *entry,
                     struct command_list *command, struct buf *result);

/*
 * --- fsm_workers: the table of worker ids, and acquire, renew and release on it (the rules are in
 * worker.h).
 *
 * The happy path of an acquire: check the request, find the row that the name had, choose the
 * worker id, and grant the window above all earlier windows of this id. Of a renewal: the epoch and
 * the previous bound must be the row's; then the bound moves up. Of a release: the row becomes
 * free, and the part that its holder reports as unused is given back. None touches a row of the
 * other kind: no command of a client changes a node's row.
 *
 * A node's name holds at most one row: an acquire of another worker id than the held one is
 * refused. An expired row that the node leaves becomes released, so that its old epoch is fenced.
 * Released rows keep their names; of several the one changed last counts. A client's rows are its
 * own (worker.h).
 *
 * Of an acquire for a client: its ids are counted first. If they reach its share, an expired id of
 * its own is released before the acquire is refused (worker.h). The rows themselves are counted, so
 * the count is the same on all nodes and after a snapshot.
 *
 * Failure modes are in the result, and then nothing was changed.
 *
 * A list points to the rows in the order of their ids, and has beside each the fields that a search
 * reads: an acquire among 65,536 takes about 1 ms (docs/snowflake.md).
 */

/* A worker_row without room for the longest texts: fsm_worker_row_show() gives it as worker.h
 * describes it. */
struct fsm_worker_row {
    uint64_t epoch;
    uint64_t granted_from_ms;
    uint64_t granted_until_ms;
    uint64_t last_timestamp_ms;
    uint64_t updated_ms;
    uint64_t client;
    uint32_t id;
    uint8_t state;
    uint8_t kind;
    uint16_t name_len;
    uint16_t address_len;
    char texts[]; /* the name, the address */
};

/* A row, and those of its fields that a search through all rows reads. */
struct fsm_worker {
    struct fsm_worker_row *row;
    uint64_t until_ms : 63;
    uint64_t held : 1;
    uint64_t client;
    uint64_t name; /* its hash */
};

struct fsm_workers {
    struct journal *journal;
    struct fsm_listener *const *listener; /* the machine's */
    struct fsm_settings *settings;
    uint64_t seed; /* of hashes of names, so that clients cannot choose names that collide */
    struct fsm_worker *list; /* by id, of each ever held and not forgotten */
    size_t count;
    size_t room; /* of the list */
};

void fsm_workers_init(struct fsm_workers *workers, struct fsm_settings *settings,
                      struct journal *journal, struct fsm_listener *const *listener);
void fsm_workers_clear(struct fsm_workers *workers);

/* The row of a worker id, or NULL. Borrowed until the next apply. */
const struct fsm_worker_row *fsm_workers_find(const struct fsm_workers *workers, uint32_t id);

/* Row number `at` in the order of ids; NULL: no more. Borrowed until the next apply. */
const struct fsm_worker_row *fsm_workers_at(const struct fsm_workers *workers, size_t at);

/* Set *ret_row to the row. */
void fsm_worker_row_show(const struct fsm_worker_row *row, struct worker_row *ret_row);

/* How many are held; and how many names have several whose windows are not over. Takes a
 * millisecond for 65,536. */
void fsm_workers_count(const struct fsm_workers *workers, uint64_t *ret_held, uint64_t *ret_shared);

/* The command is an acquire, renew or release. */
void fsm_workers_apply(struct fsm_workers *workers, const struct command *command,
                       struct buf *result);
/* Answer a QUERY_WORKERS. */
void fsm_workers_list(const struct fsm_workers *workers, const struct query *query,
                      struct buf *result);

/* A row as state_load_row() gets it. */
int fsm_workers_load(struct fsm_workers *workers, const struct row_loaded *loaded) MUST_CHECK;
/* Call the listener for every row. */
void fsm_workers_notify(const struct fsm_workers *workers);

/* --- all of them --- */

/* A large put that was judged before its turn to be applied. */
struct fsm_foreseen {
    struct puts_judged *judged; /* NULL: none */
    uint64_t index;
    const void *data;
    size_t len;
    uint64_t digest; /* of the state that it was judged in */
};

struct fsm {
    struct machine machine;
    struct fsm_listener *listener; /* NULL: none */
    struct command command;        /* read last; its bytes, borrowed: */
    const void *data;
    size_t len;
    struct fsm_foreseen foreseen;
    struct tag_row *shown;           /* returned by fsm_tag() and fsm_recall_next() */
    struct worker_row *shown_worker; /* by fsm_worker() and fsm_worker_at() */
    struct fsm_tags tags;
    struct fsm_recalls recalls;
    struct fsm_keys keys;
    struct fsm_settings settings;
    struct fsm_layouts layouts;
    struct fsm_workers workers;
};

#endif
