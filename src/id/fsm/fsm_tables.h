/*
 * fsm_tables.h - the machine's tables together, for the files that change them, fsm.c, which
 * composes them, and its tests: recalls and puts (fsm_puts.c), keys and grants (fsm_grants.c),
 * worker ids (fsm_workers.c). Tags and settings have headers of their own.
 *
 * Failure modes: what is refused says so in its result, and changed nothing; items of a list of
 * grants are independent of each other. A row that no apply can have made is ERR_CORRUPT.
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
 * A segment in a node's memory is below max_id. Were its ids handed out after the tag became
 * strict, they would be smaller than ids acknowledged before. So the tag's segments are recalled
 * first: it hands out nothing until each node that may hold one has said that it does not.
 *
 * The happy path: every node that is granted a segment, of whatever tag, becomes a segment holder
 * for good (a node's row says nothing of tags: that would cost a row a tag and node). A tag that
 * becomes strict gets a row with all holders; each COMMAND_RECALLED takes one off; with the last
 * the row goes and the tag is open.
 *
 * A tag that is deleted while it is recalled keeps the mark without the row: made again as strict,
 * it begins with all holders anew, since nodes confirm a generation.
 *
 * Invariant: there is a recall exactly for each live tag with tag_row.recalling, and every node of
 * it is a segment holder.
 *
 * A confirmation of an older generation, or of a node that is not waited for, changes nothing. Full
 * tables are the callers' to refuse.
 */

struct fsm_recall {
    RB_ENTRY(fsm_recall) link; /* by name */
    struct fsm_row *row;
    struct node_set nodes; /* that have not said yet that they hold nothing; never empty */
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
/* The node was removed from the cluster for good, and its commands are refused from now on: it
 * is not waited for any more. May change tags. */
void fsm_holder_removed(struct fsm_recalls *recalls, uint64_t node_id);

/* Must the segments of a tag that leaves trend mode, or has left it, be recalled? old: as it was
 * before, NULL: never there; ended: the operator says that no node holds a segment of it. */
bool fsm_recall_is_due(const struct fsm_recalls *recalls, const struct tag_row *old, bool ended);
/* NULL: no node is waited for. */
struct fsm_recall *fsm_recalls_find(const struct fsm_recalls *recalls, const char *name,
                                    size_t len);
/* The first recall, in the order of names, after which the node is waited for; NULL: none. Only
 * names greater than after. */
struct fsm_recall *fsm_recalls_next(const struct fsm_recalls *recalls, uint64_t node_id,
                                    const char *after, size_t after_len);
/* The tag was changed: make or drop its recall, as it says. */
void fsm_recall_follow(struct fsm_recalls *recalls, struct fsm_row *row);
/* COMMAND_RECALLED of a node. */
void fsm_recalls_confirm(struct fsm_recalls *recalls, uint64_t node_id, struct command_list *list);

/* Rows of the tables HOLDERS and RECALLS. */
int fsm_recalls_load(struct fsm_recalls *recalls, const struct row_loaded *row) MUST_CHECK;
/* All rows are there: ERR_CORRUPT if they contradict each other. */
int fsm_recalls_check(const struct fsm_recalls *recalls) MUST_CHECK;

/*
 * --- fsm_puts: tags that are made, changed and deleted.
 *
 * The happy path of a put: it is judged, that is, no name stands twice, and every item is merged,
 * checked against its row, and made ready (fsm_tags_ready()); only then are the rows changed, at
 * once, by what is ready. Of a delete: the row becomes a tombstone.
 */

struct puts_judged;

/* Begin to judge what a put will do, and judge so many items more of it; true: there are further
 * ones. Both change nothing. What was judged is good as long as no row changes, and the command
 * stays where it is. Only force raises a max_id by more than LIMIT_MAX_ID_JUMP, or so that fewer
 * than LIMIT_MAX_ID_LEFT ids are left (ERR_NEEDS_FORCE), but a dump's of a name that never was.
 * What a client makes, or makes larger, counts for it, and not above command.most (ERR_SHARE). */
struct puts_judged *fsm_puts_judge_begin(const struct fsm_recalls *recalls,
                                         const struct command_list *command);
bool fsm_puts_judge(struct fsm_recalls *recalls, struct puts_judged *judged, uint32_t items);
/* NULL-safe. */
void fsm_puts_drop(struct puts_judged *judged);

/* Judge the rest, and do it. */
void fsm_puts_apply(struct fsm_recalls *recalls, struct puts_judged *judged, struct buf *result);
/* 0 or ERR_UNKNOWN_TAG. */
int fsm_puts_delete(struct fsm_recalls *recalls, const struct delete_command *command) MUST_CHECK;

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

struct fsm;

/* Of tags of this mode: segments to the node, which becomes a segment holder; or COMMAND_WINDOW:
 * the leader that appended it holds the ranges; it needs no recall, since it hands nothing out once
 * it does not lead any more (docs/monotonic.md). */
void fsm_ids_grant(struct fsm_recalls *recalls, enum tag_mode mode, uint64_t node_id,
                   struct command_list *command, struct buf *result);
void fsm_segments_give_back(struct fsm_tags *tags, struct command_list *command,
                            struct buf *result);
void fsm_strict_apply(struct fsm *fsm, const struct machine_entry *entry,
                      struct command_list *command, struct buf *result);
void fsm_keyed_apply(struct fsm *fsm, const struct machine_entry *entry,
                     struct command_list *command, struct buf *result);

/*
 * --- fsm_workers: the table of worker ids, and what acquire, renew and release do to it (the rules
 * are in worker.h).
 *
 * The happy path of an acquire: check what was asked, find the row that the name had, choose the
 * worker id, and grant the window above all windows that this id ever had. Of a renewal: the epoch
 * and the previous bound must be the row's, then the bound moves up. Of a release: the row becomes
 * free, and what its holder says it did not use is given back. Neither touches a row of the other
 * kind: a client's command, whatever it says, does nothing to a node's row.
 *
 * A node's name has one row that is held at most: one that asks for another worker id than the one
 * it holds is refused, and an expired one that it leaves becomes released, so that its old
 * epoch is fenced. Released rows keep their names; of several the one changed last counts. A
 * client's rows are its own (worker.h).
 *
 * Of an acquire for a client: what it holds is counted first, and where that is its share, what it
 * let pass is released before anything is refused (worker.h). The count is of the rows themselves,
 * so that it is the same on all nodes and after a snapshot.
 *
 * Failure modes go into the result, and then nothing was changed.
 *
 * The rows are pointed to by a list in the order of their ids, which has beside each what a search
 * reads: an acquire beside 65,535 takes about 1 ms (docs/snowflake.md).
 */

/* A row, and what of it is read when all are gone through. */
struct fsm_worker {
    struct worker_row *row;
    uint64_t until_ms : 63;
    uint64_t held : 1;
    uint64_t client;
    uint64_t name; /* its hash */
};

struct fsm_workers {
    struct journal *journal;
    struct fsm_listener *const *listener; /* the machine's */
    const struct fsm_settings *settings;
    uint64_t seed; /* of hashes of names: clients choose them, and nobody knows which collide */
    struct fsm_worker *list; /* by id: of each that was ever held */
    size_t count;
    size_t room; /* of the list */
};

void fsm_workers_init(struct fsm_workers *workers, const struct fsm_settings *settings,
                      struct journal *journal, struct fsm_listener *const *listener);
void fsm_workers_clear(struct fsm_workers *workers);

/* The row of a worker id that was ever held, or NULL. Borrowed until the next apply. */
const struct worker_row *fsm_workers_find(const struct fsm_workers *workers, uint16_t id);

/* Row number `at` in the order of ids, or NULL: no more. Borrowed until the next apply. */
const struct worker_row *fsm_workers_at(const struct fsm_workers *workers, size_t at);

/* How many are held; and names under which several are whose windows are not over. A millisecond
 * for 65,535. */
void fsm_workers_count(const struct fsm_workers *workers, uint64_t *ret_held, uint64_t *ret_shared);

/* It is an acquire, renew or release. */
void fsm_workers_apply(struct fsm_workers *workers, const struct command *command,
                       struct buf *result);
/* Answer a QUERY_WORKERS. */
void fsm_workers_list(const struct fsm_workers *workers, const struct query *query,
                      struct buf *result);

/* A row as state_load_row() gets it. */
int fsm_workers_load(struct fsm_workers *workers, const struct row_loaded *loaded) MUST_CHECK;
/* Tell the listener of every row. */
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
    struct command command;        /* that was read last; its bytes, borrowed: */
    const void *data;
    size_t len;
    struct fsm_foreseen foreseen;
    struct fsm_tags tags;
    struct fsm_recalls recalls;
    struct fsm_keys keys;
    struct fsm_settings settings;
    struct fsm_layouts layouts;
    struct fsm_workers workers;
};

#endif
