/*
 * fsm_tables.h - the machine and its tables, for the files that change them, and tests: tags
 * (fsm_tags.c), recalls and puts (fsm_puts.c), keys and grants (fsm_grants.c), worker ids
 * (fsm_workers.c), settings and layouts (fsm_settings.c), all together (fsm_machine.c).
 *
 * Failure modes: a refusal is in the result, and changes nothing; items of a list of grants are
 * independent of each other. A row that no apply can have made is ERR_CORRUPT.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_FSM_FSM_TABLES_H
#define LEAFD_ID_FSM_FSM_TABLES_H

#include <bsd/sys/tree.h>
#include <sys/queue.h>

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/id/fsm/fsm.h"

/*
 * --- fsm_owners: each client's total of one resource: keys, or the bytes of its tags.
 *
 * Totals are counted from the rows, so they are the same on all nodes, and after a snapshot.
 */

/* A client with a total. */
struct fsm_owner {
    struct hash_link link;
    uint64_t client; /* > 0 */
    uint64_t held;   /* > 0 */
    uint32_t hash;
};

struct fsm_owners {
    struct hash_table table;
    uint64_t bytes; /* memory of all, with their buckets */
};

/* All totals are 0: free the table's memory. Also makes owners of zeros. */
void fsm_owners_clear(struct fsm_owners *owners);

/* Add amount, > 0, to the client's total, or subtract it. client 0: no client, and nothing is
 * done. */
void fsm_owners_enter(struct fsm_owners *owners, uint64_t client, uint64_t amount);
void fsm_owners_leave(struct fsm_owners *owners, uint64_t client, uint64_t amount);
uint64_t fsm_owners_held(const struct fsm_owners *owners, uint64_t client);

/*
 * --- fsm_tags: the state machine's table of tags: rows in the order of their names.
 *
 * The happy path: find or make a row; fsm_tags_move() changes the field that changes most, max_id.
 * For others, fsm_tags_change_begin() takes the row out of the digest, the caller changes it, and
 * fsm_tags_change_end() puts it back and calls the listener.
 *
 * Rows live in an arena until the whole state is replaced, so that other tables may point to them.
 */

/* The fields that few tags have, and the texts, in one piece of memory. */
struct fsm_rest {
    uint64_t max;
    uint32_t increment;
    uint32_t offset;
    uint32_t cover_s;
    uint16_t description_len;
    uint16_t shape_len;
    uint16_t reason_len;
    char texts[]; /* the description with a NUL, the shape, the reason */
};

/* A tag_row, in 52 bytes and its name: fsm_row_tag() gives it as tag.h describes it. */
struct fsm_row {
    RB_ENTRY(fsm_row) link;
    struct fsm_rest *rest; /* owned; NULL: all its fields are 0, and its texts are empty */
    uint64_t max_id;
    uint64_t client;
    uint64_t created_ms : 48;
    uint64_t mode : 8;
    uint64_t deleted : 1;
    uint64_t recalling : 1;
    uint64_t paused : 1;
    uint64_t updated_ms : 48;
    uint64_t name_len : 16;
    uint32_t generation;
    uint32_t step;
    uint32_t max_step;
    char name[]; /* and a NUL */
};
_Static_assert(LIMIT_TIME_MAX_MS < 1LL << 48, "times of a row");
_Static_assert(offsetof(struct fsm_row, name) == 84, "there is one for each of a million tags");

RB_HEAD(fsm_row_tree, fsm_row);

/* Of some rows. */
struct fsm_counts {
    uint64_t bytes; /* memory, by fsm_tag_bytes() */
    uint64_t dead;  /* tombstones */
    uint64_t dated; /* those with a date in their shape */
};

/* Its owners: a tag counts for its client from when it is made, deleted or not: the client that
 * made it, or made it larger. A deleted tag counts with less: its row must stay, since no id of its
 * name may come again. So a client that makes and deletes tags for ever uses up its own share, not
 * the memory of others. A name that is made again takes no new room. */
struct fsm_tags {
    struct fsm_row_tree rows;
    struct fsm_row *newest; /* made last; NULL: none */
    struct arena arena;
    uint64_t seed; /* of hashes of names; nothing replicated depends on it */
    size_t count;
    struct fsm_counts counts;     /* of these */
    size_t hollow_count;          /* while loading: fsm_tags_expect(); 0 in the end */
    size_t recalling_count;       /* while loading: live tags that are recalled */
    struct fsm_owners owners;     /* bytes of each client's tags, by tag_share_bytes() */
    struct fsm_tag_before before; /* of the row that is being changed, for the listener */
};

/* Forget all rows; also makes the table of a new machine, of zeros. */
void fsm_tags_clear(struct fsm *fsm);

static inline bool fsm_row_is(const struct fsm_row *row, const char *name, size_t len)
{
    return row->name_len == len && memcmp(row->name, name, len) == 0;
}

struct fsm_row *fsm_tags_find(const struct fsm_tags *tags, const char *name, size_t len);
/* Finds the names of a list one after the other: zeros at first, not valid after fsm_tags_clear().
 * Most lists have their names in the order of the rows: then the next name is, or would be, right
 * after the last, which takes a third of the time. */
struct fsm_tags_walk {
    struct fsm_row *last;  /* with a name no greater; NULL: none */
    struct fsm_row *after; /* of a name that was not found: the next one; NULL: none */
    uint32_t count;        /* of names so far */
    uint32_t hits;         /* how often the name was right after the last, */
    uint32_t misses;       /* and how often not: then only one of 16 names is tried there */
};
struct fsm_row *fsm_tags_walk(const struct fsm_tags *tags, struct fsm_tags_walk *walk,
                              const char *name, size_t len);
/* The first row whose name is >= name. */
struct fsm_row *fsm_tags_seek(const struct fsm_tags *tags, const char *name, size_t len);
struct fsm_row *fsm_tags_next(struct fsm_row *row);

/* The row as all others know it. Its texts are borrowed until the row changes. */
struct tag_row fsm_row_tag(const struct fsm_row *row);

/* Memory that a tag takes: its row, with what few tags have, and, unless it is deleted, the entry
 * of a tag in use on each node, with all keys that its shape may get. Its name, description and
 * reason are not read. */
uint64_t fsm_tag_bytes(const struct tag_row *row);

/* A new row with its name and zeros, not in the digest yet: fsm_tags_change_end() must follow. The
 * name must not exist. before and after: the rows that it is between, NULL where there is none;
 * others may have been made there since. NULL: the table is full. */
struct fsm_row *fsm_tags_make(struct fsm_tags *tags, const char *name, size_t len,
                              struct fsm_row *before, struct fsm_row *after);
/* Take an existing row out of the digest, to change it. */
void fsm_tags_change_begin(struct fsm *fsm, struct fsm_row *row);
/* Put it back, list the change and call the listener. */
void fsm_tags_change_end(struct fsm *fsm, struct fsm_row *row);
/* The row becomes this; it keeps its name, and takes copies of the other texts. */
void fsm_row_set(struct fsm_row *row, const struct tag_row *tag);
/* All in one: its ids end at max_id now, and wall_ms, if later, is when it was changed. */
void fsm_tags_move(struct fsm *fsm, struct fsm_row *row, uint64_t max_id, uint64_t wall_ms);

/* A change of a put. Its slow part is done before, in pieces, without visible effect: texts, the
 * row's bytes, hashes, its place (fsm_tags_ready()). Carrying it out only sets pointers. It is
 * valid as long as no change of another put comes between. */
struct fsm_change {
    struct fsm_row *row;    /* of the name; NULL: there is none yet, */
    struct fsm_row *before; /* and then these are beside its place; NULL: none */
    struct fsm_row *after;
    struct tag_row tag;    /* the new row; its strings are borrowed */
    struct fsm_rest *rest; /* of the new row, owned */
    bool keeps_share;      /* it counts for the same client, with the same bytes */
};

/* The effects of a list's changes besides their rows. */
struct fsm_changes_sum {
    struct row_changes rows;
    uint64_t digest; /* added, as are all below, even where the value falls */
    struct fsm_counts counts;
};

/* Make a change ready whose row, before, after and tag are set. */
void fsm_tags_ready(struct fsm *fsm, struct fsm_change *change, struct fsm_changes_sum *sum);
/* Change the row, which is returned, and call the listener. The sum is applied before. */
struct fsm_row *fsm_tags_change(struct fsm *fsm, struct fsm_change *change);

/* Answer a QUERY_TAG_LIST. */
void fsm_tags_list(const struct fsm_tags *tags, const struct query *query, struct buf *result);

/* --- loading --- */

/* A row as state_load_row() gets it. */
int fsm_tags_load(struct fsm *fsm, const struct state_row *loaded) MUST_CHECK;
/* The tag that another table's row names. If the tag's own row is not loaded yet, a hollow one is
 * made, and fsm_tags_load() must fill it before the load ends. NULL: full. */
struct fsm_row *fsm_tags_expect(struct fsm *fsm, const char *name, size_t len);

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
 * it starts again with all holders, since nodes confirm a generation: a confirmation of an older
 * one changes nothing.
 *
 * Invariant: there is a recall exactly for each live tag with tag_row.recalling, and every node of
 * it is a segment holder.
 */

struct fsm_recall {
    RB_ENTRY(fsm_recall) link; /* by name */
    struct fsm_row *row;
    struct node_set nodes; /* that have not confirmed yet; never empty */
};

RB_HEAD(fsm_recall_tree, fsm_recall);

struct fsm_recalls {
    struct node_set holders; /* nodes that were ever granted a segment */
    struct fsm_recall_tree tree;
    size_t count;
};

void fsm_recalls_clear(struct fsm *fsm);

/* The node was removed from the cluster for good, and its commands are refused from now on: no tag
 * waits for it any more. May change tags. */
void fsm_holder_removed(struct machine *machine, uint64_t node_id);

/* The recall of the tag, whose row may be NULL. NULL: no node is waited for. */
struct fsm_recall *fsm_recalls_find(const struct fsm *fsm, struct fsm_row *row);
/* COMMAND_RECALLED of a node. */
void fsm_recalls_confirm(struct fsm *fsm, uint64_t node_id, struct command_list *list);

/* Rows of the tables HOLDERS and RECALLS. */
int fsm_recalls_load(struct fsm *fsm, const struct state_row *row) MUST_CHECK;
/* All rows are loaded: ERR_CORRUPT if they contradict each other. */
int fsm_recalls_check(const struct fsm *fsm) MUST_CHECK;

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
struct puts_judged *fsm_puts_judge_begin(const struct fsm *fsm, const struct command_list *command);
bool fsm_puts_judge(struct fsm *fsm, struct puts_judged *judged, uint32_t items);
/* NULL-safe. */
void fsm_puts_drop(struct puts_judged *judged);

/* Judge the rest, and carry the put out. */
void fsm_puts_apply(struct fsm *fsm, struct puts_judged *judged, struct buf *result);
/* 0 or ERR_UNKNOWN_TAG. */
int fsm_puts_delete(struct fsm *fsm, const struct delete_command *command) MUST_CHECK;

/*
 * --- fsm_keys: the table of idempotency keys: the ids of each key of a tag.
 *
 * The happy path: a strict allocation with a new key records it. The same key finds it for
 * LIMIT_KEY_LIFE_MS of the log's time. Later commands and the log's clock delete keys, the oldest
 * first.
 *
 * A key may count for a client (command.h).
 *
 * Memory: 79 bytes and the key in one piece of malloc (8 bytes more, in steps of 16), and 8 bytes
 * of the buckets: 136 bytes for a key of 36. The tag's name is in its row. The hash is seeded with
 * the address of the row and the table's seed, which no client can know; nothing replicated depends
 * on it. The caller must refuse when the table is full.
 */

/* An idempotency key, in the table and in the order of age; and its row. */
struct fsm_key {
    struct hash_link link;
    TAILQ_ENTRY(fsm_key) age;
    struct fsm_row *row; /* the tag's */
    uint64_t first;      /* of its ids: first + i * increment, i < count */
    uint64_t at_ms;      /* the log's time when they were allocated */
    uint64_t index;      /* of the entry that allocated */
    uint64_t client;     /* its owner, for which it counts; 0: none */
    uint32_t count;
    uint32_t increment; /* 0: 1 */
    uint32_t hash;
    uint16_t position; /* of the item in the entry */
    uint8_t len;       /* 1..LIMIT_KEY_BYTES */
    char key[];
};

TAILQ_HEAD(fsm_key_ages, fsm_key);

struct fsm_keys {
    struct fsm_key_ages ages; /* oldest first: by (index, position) */
    struct hash_table table;
    struct fsm_owners owners; /* how many each client has, in force or not */
    uint64_t bytes;           /* memory of all keys, with their buckets */
};

/* Forget all keys; also makes the table of a new machine, of zeros. */
void fsm_keys_clear(struct fsm *fsm);

/* Delete up to max keys that are no longer in force, the oldest first. */
void fsm_keys_expire(struct fsm *fsm, unsigned max);

/* A row as state_load_row() gets it. */
int fsm_keys_load(struct fsm *fsm, const struct state_row *loaded) MUST_CHECK;
/* All rows are loaded, as of the entry at index and the log's time: sort the keys by age.
 * ERR_CORRUPT if they have no such order. */
int fsm_keys_order(struct fsm *fsm, uint64_t index, uint64_t log_ms) MUST_CHECK;

/*
 * --- fsm_grants: ids that are taken from a tag: segments granted to nodes (and given back), and
 * strict allocations in batches.
 *
 * The happy path of a grant: item by item, each takes n ids from max_id on and moves max_id up. Of
 * a batch: a known key gives its ids again; else the ids are count ids from max_id on. A run of
 * items of one tag takes its row out of the digest once. Of ids under keys, from the leader's
 * window: each unknown key is recorded with its ids; no tag changes.
 */

/* For tags of this mode: grant segments to the node, which becomes a segment holder. Or
 * COMMAND_WINDOW: the leader that appended it holds the ranges, and needs no recall, since it hands
 * out no ids once it no longer leads (docs/monotonic.md). */
void fsm_ids_grant(struct fsm *fsm, enum tag_mode mode, uint64_t node_id,
                   struct command_list *command, struct buf *result);
/* A range given back must be the topmost, of this generation; then max_id becomes its first id. */
void fsm_segments_give_back(struct fsm *fsm, struct command_list *command, struct buf *result);
/* COMMAND_STRICT, or COMMAND_KEYED if `keyed`. */
void fsm_batch_apply(struct fsm *fsm, const struct machine_entry *entry,
                     struct command_list *command, bool keyed, struct buf *result);

/*
 * --- fsm_workers: the table of worker ids, and acquire, renew and release on it (the rules are in
 * worker.h).
 *
 * The happy path of an acquire: check the request, find the row that the name had, choose the
 * worker id, and grant the window above all earlier windows of this id. Of a renewal: the epoch and
 * the previous bound must be the row's; then the bound moves up. Of a release: the row becomes
 * free, and the part that its holder reports as unused is given back.
 *
 * An expired row that the node leaves becomes released, so that its old epoch is fenced. Released
 * rows keep their names; of several the one changed last counts.
 *
 * A list points to the rows in the order of their ids, and has beside each the fields that a search
 * reads: an acquire among 65,536 takes about 1 ms (docs/snowflake.md).
 */

/* A row, and those of its fields that a search through all rows reads. */
struct fsm_worker {
    struct worker_row *row; /* owned, with its texts */
    uint64_t until_ms : 63;
    uint64_t held : 1;
    uint64_t client;
    uint64_t name; /* its hash */
};

struct fsm_workers {
    uint64_t seed; /* of hashes of names, so that clients cannot choose names that collide */
    struct fsm_worker *list; /* by id, of each ever held and not forgotten */
    size_t count;
    size_t room; /* of the list */
};

/* Forget all rows; also makes the table of a new machine, of zeros. */
void fsm_workers_clear(struct fsm_workers *workers);

/* The command is an acquire, renew or release. */
void fsm_workers_apply(struct fsm *fsm, const struct command *command, struct buf *result);
/* Answer a QUERY_WORKERS. */
void fsm_workers_list(const struct fsm *fsm, const struct query *query, struct buf *result);

/* A row as state_load_row() gets it. */
int fsm_workers_load(struct fsm *fsm, const struct state_row *loaded) MUST_CHECK;

/*
 * --- fsm_settings: the snowflake layout that the log fixes, and the log's time for the ids' half.
 *
 * The happy path: the first COMMAND_LAYOUT sets the layout for good, in a row of the table of
 * settings. A row of a setting of another name is ERR_NEWER.
 */

struct fsm_settings {
    bool has_layout;
    struct snowflake_layout layout;
    bool has_rules; /* they have a row; else all are 0 */
    struct worker_rules rules;
    struct worker_pools pools; /* of the rules */
    uint64_t log_ms;           /* the log's time as last passed by the state, 0: none yet */
};

/* 0 (also for the layout in force), ERR_EXISTS (another one is in force) or ERR_INVALID. */
int fsm_settings_layout(struct fsm *fsm, const struct snowflake_layout *layout) MUST_CHECK;

/* 0 or ERR_INVALID. */
int fsm_settings_pools(struct fsm *fsm, const struct worker_pools_put *put) MUST_CHECK;

/* A worker id that has no row begins at or above this epoch and time. */
void fsm_settings_raise(struct fsm *fsm, uint64_t epoch, uint64_t until_ms);

/* A row as state_load_row() gets it. */
int fsm_settings_load(struct fsm *fsm, const struct state_row *row) MUST_CHECK;

/*
 * --- fsm_layouts: the table of named layouts of snowflake ids.
 *
 * The happy path: a COMMAND_LAYOUT_PUT makes a row. It never changes: the same fields again are
 * accepted, others are refused. When deleted it becomes a tombstone with the same fields, which
 * only the same fields revive: two layouts under one name could give an id twice. A name beyond the
 * limit is refused.
 */

struct fsm_layouts {
    uint32_t count;
    struct layout_row rows[LIMIT_LAYOUTS]; /* in the order in which they were made or loaded */
};

/* 0 (also for the one in force), ERR_CONFLICT (the name has other fields), ERR_OVERLOADED
 * (LIMIT_LAYOUTS) or ERR_INVALID. */
int fsm_layouts_put(struct fsm *fsm, const struct layout_row *row) MUST_CHECK;
/* 0 or ERR_NOT_FOUND, also for a deleted one. */
int fsm_layouts_delete(struct fsm *fsm, const struct delete_command *deletion) MUST_CHECK;

/* A row as state_load_row() gets it. */
int fsm_layouts_load(struct fsm *fsm, const struct state_row *row) MUST_CHECK;

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
    struct tag_row *shown; /* returned by fsm_tag() and fsm_recall_next() */
    struct fsm_tags tags;
    struct fsm_recalls recalls;
    struct fsm_keys keys;
    struct fsm_settings settings;
    struct fsm_layouts layouts;
    struct fsm_workers workers;
};

static inline struct journal *fsm_journal(const struct fsm *fsm)
{
    return &fsm->machine.state->journal;
}

#endif
