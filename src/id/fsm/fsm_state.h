/*
 * fsm_state.h - the state machine's insides, shared by fsm.c and fsm_*.c only.
 *
 * Rows of tags live in an arena until the whole state is replaced, so that other tables may point
 * to them; the tree orders them by name. A row counts in the digest exactly while it stands in the
 * tables; every change goes through fsm_row_change_begin() and fsm_row_change_end(), which keep
 * digest, changes and listener in step.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_FSM_FSM_STATE_H
#define LEAFD_ID_FSM_FSM_STATE_H

#include <bsd/sys/tree.h>
#include <sys/queue.h>

#include "src/base/arena.h"
#include "src/id/codec/command_read.h"
#include "src/id/fsm/fsm.h"
#include "src/id/codec/member.h"
#include "src/id/codec/session.h"
#include "src/id/codec/strict_command.h"

/* The first byte of a row's key: its table. */
#define FSM_TABLE_ANSWERS 'a'
#define FSM_TABLE_RECALLS 'd'
#define FSM_TABLE_HOLDERS 'g'
#define FSM_TABLE_KEYS 'i'
#define FSM_TABLE_NODES 'n'
#define FSM_TABLE_SETTINGS 's'
#define FSM_TABLE_MEMBERS 'm' /* one row: the change of membership under way */
#define FSM_TABLE_REMOVED 'r' /* a row a node id that was removed */
#define FSM_TABLE_TAGS 't'
#define FSM_TABLE_WORKERS 'w'

/* Entries whose digest is remembered, for COMMAND_DIGEST. */
#define FSM_DIGEST_MARKS 1024

struct fsm_row {
    RB_ENTRY(fsm_row) link;
    struct tag_row tag; /* tag.name is name below; an empty description is the NUL behind it */
    char name[];
};

RB_HEAD(fsm_tree, fsm_row);

struct fsm_digest_mark {
    uint64_t index; /* 0: none */
    uint64_t digest;
};

/* What fsm_members.c keeps. */
struct fsm_members {
    struct member_change change; /* kind 0: none */
    uint64_t *removed;           /* node ids, sorted */
    size_t removed_count;
};

/* A tag that became strict while nodes may hold segments of it: there is one exactly for each live
 * tag that is recalling. */
struct fsm_recall {
    RB_ENTRY(fsm_recall) link; /* by name */
    struct fsm_row *row;
    uint16_t count;   /* > 0 */
    uint16_t nodes[]; /* that have not said yet that they hold nothing; rising */
};

RB_HEAD(fsm_recalls, fsm_recall);

/* An idempotency key: in a chain of its bucket, and in the order of age. */
struct fsm_key {
    struct fsm_key *next; /* in the bucket */
    TAILQ_ENTRY(fsm_key) age;
    struct fsm_row *row; /* the tag's */
    uint64_t first;      /* the ids that it stands for: [first, first + count) */
    uint64_t at_ms;      /* the log's time when they were allocated */
    uint64_t index;      /* of the entry that did it */
    uint32_t count;
    uint32_t hash;
    uint16_t position; /* of the item in the entry */
    uint8_t len;       /* 1..LIMIT_KEY_BYTES */
    char key[];
};

TAILQ_HEAD(fsm_key_ages, fsm_key);

/* A chunk of the keys' buckets. */
#define FSM_KEY_CHUNK 4096U
#define FSM_KEY_CHUNKS (LIMIT_KEYS / FSM_KEY_CHUNK + 1)

/* A hash table that grows by a bucket at a time, so that no command waits for all keys to move. */
struct fsm_keys {
    struct fsm_key_ages ages; /* oldest first: by (index, position) */
    uint32_t count;
    uint32_t bucket_count;
    struct fsm_key **chunks[FSM_KEY_CHUNKS]; /* FSM_KEY_CHUNK buckets each */
};

/* What one command was told. */
struct fsm_answer {
    uint64_t seq;    /* 0: none, the slot is free */
    uint64_t lowest; /* the session's, as of then */
    struct buf bytes;
};

/* The commands of a node (session.h). */
struct fsm_session {
    uint64_t node_id;
    uint64_t incarnation;
    uint64_t lowest;          /* numbers below it are awaited no more */
    struct fsm_answer *slots; /* of numbers from lowest on */
    size_t slot_count;
    size_t free_from; /* slots below it are taken */
    size_t bytes;     /* of all answers; < LIMIT_SESSION_BYTES and one answer */
    uint16_t slot_of[LIMIT_SESSION_COMMANDS]; /* by seq % LIMIT_SESSION_COMMANDS: slot + 1; 0: no
                                                 answer */
};

struct fsm {
    struct fsm_tree tags;
    struct arena arena;
    size_t tag_count;
    struct node_info *nodes; /* sorted by id */
    size_t node_count;
    size_t node_capacity;
    struct worker_row *workers; /* LIMIT_WORKER_IDS by id, state 0: never used; NULL: none was */
    bool has_layout;
    struct snowflake_layout layout;
    uint64_t log_ms;                         /* the log's time, 0: none yet */
    uint16_t holders[LIMIT_SEGMENT_HOLDERS]; /* nodes that were ever granted a segment; rising */
    size_t holder_count;
    struct fsm_recalls recalls;
    size_t recall_count;
    struct fsm_session *sessions[LIMIT_SESSIONS]; /* sorted by node */
    size_t session_count;
    struct fsm_keys keys;
    struct fsm_members members;
    uint64_t digest;
    struct fsm_listener *listener;
    struct buf scratch;                             /* for the bytes of one row */
    bool loading;                                   /* between fsm_load_begin and _end */
    size_t hollow_count;                            /* while loading: fsm_row_expect() */
    size_t recalling_count;                         /* while loading: live tags that recall */
    struct fsm_digest_mark marks[FSM_DIGEST_MARKS]; /* at index % FSM_DIGEST_MARKS */
};

/* --- fsm_rows.c: the tables --- */

struct fsm_row *fsm_row_find(const struct fsm *fsm, const char *name, size_t len);
/* The first row whose name is >= name. */
struct fsm_row *fsm_row_seek(const struct fsm *fsm, const char *name, size_t len);
struct fsm_row *fsm_row_first(const struct fsm *fsm);
struct fsm_row *fsm_row_next(struct fsm_row *row);

/* A new row with its name and zeros, not in the digest yet: fsm_row_change_end() must follow. The
 * name must not be there. NULL: the table is full. */
struct fsm_row *fsm_row_make(struct fsm *fsm, const char *name, size_t len);
/* While loading: the row of a name that another table's row tells of. If the tag's own row was not
 * loaded yet, it is made hollow, and load_tag() must fill it before the load ends. NULL: full. */
struct fsm_row *fsm_row_expect(struct fsm *fsm, const char *name, size_t len);
/* Take an existing row out of the digest, to change it. */
void fsm_row_change_begin(struct fsm *fsm, struct fsm_row *row);
/* Put it back, list the change (changes may be NULL) and tell the listener. */
void fsm_row_change_end(struct fsm *fsm, struct fsm_row *row, struct fsm_changes *changes);
void fsm_row_describe(struct fsm_row *row, const char *text, size_t len);
/* The tag's row, loaded. As fsm_load_row(). */
int fsm_load_tag(struct fsm *fsm, const char *name, size_t name_len, const void *value,
                 size_t value_len) MUST_CHECK;

/* The node's info, or NULL. */
struct node_info *fsm_node_find(const struct fsm *fsm, uint64_t node_id);
/* Insert or replace; lists the change only if something differs (changes may be NULL). */
void fsm_node_put(struct fsm *fsm, const struct node_info *info, struct fsm_changes *changes);

/* The row whose key and value stand in the scratch buffer leaves the digest, or comes into it and
 * is listed as a change (changes may be NULL). */
void fsm_scratch_leave(struct fsm *fsm, size_t key_len);
void fsm_scratch_enter(struct fsm *fsm, size_t key_len, struct fsm_changes *changes);
/* The same row leaves the digest for good: its deletion is listed (changes may be NULL). The row
 * must have been in the digest, with this very value: storage refuses the deletion of a row that it
 * does not have. */
void fsm_scratch_delete(struct fsm *fsm, size_t key_len, struct fsm_changes *changes);

/* Begin a row in the scratch buffer by a key of FSM_NODE_KEY_BYTES: the table, and a node's id,
 * big-endian, so that storage keeps the order of ids. */
#define FSM_NODE_KEY_BYTES 9
void fsm_scratch_node(struct fsm *fsm, char table, uint64_t node_id);
/* The id in such a key, which may be longer. */
uint64_t fsm_key_node(const uint8_t *key);

/* Forget all rows. */
void fsm_rows_clear(struct fsm *fsm);

/* --- fsm_tags.c: what commands do to tags --- */

void fsm_apply_grant(struct fsm *fsm, uint64_t node_id, struct grant_command *command,
                     struct buf *result, struct fsm_changes *changes);
void fsm_apply_put(struct fsm *fsm, struct put_command *command, struct buf *result,
                   struct fsm_changes *changes);
void fsm_apply_delete(struct fsm *fsm, const struct delete_command *command, struct buf *result,
                      struct fsm_changes *changes);
void fsm_apply_give_back(struct fsm *fsm, struct give_back_command *command, struct buf *result,
                         struct fsm_changes *changes);

/* --- fsm_sessions.c: commands that come again (session.h) --- */

/* True: the command must not be carried out, and its result is appended: the one that it had
 * before, or a refusal. Changes nothing. */
bool fsm_session_lookup(const struct fsm *fsm, const struct session_stamp *stamp,
                        struct buf *result);
/* True: too many bytes of answers are kept for the node. The refusal is appended; it is the answer
 * that the command then has. */
bool fsm_session_is_full(const struct fsm *fsm, const struct session_stamp *stamp,
                         struct buf *result);
/* A command that fsm_session_lookup() let pass was carried out, and is told this. Everything of
 * earlier incarnations, and what its node waits for no more, is forgotten. */
void fsm_session_answer(struct fsm *fsm, const struct session_stamp *stamp, const void *data,
                        size_t len, struct fsm_changes *changes);
/* The node was removed from the cluster for good: its session goes, its commands are refused. */
void fsm_session_removed(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes);
int fsm_load_answer(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                    size_t value_len) MUST_CHECK;
/* All rows are there: ERR_CORRUPT if some cannot have been there together. */
int fsm_sessions_check(const struct fsm *fsm) MUST_CHECK;
void fsm_sessions_clear(struct fsm *fsm);

/* --- fsm_recall.c: nodes that hold segments, and tags on their way to strict mode --- */

/* The node is granted a segment. False: the table of such nodes is full. */
bool fsm_holder_add(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes) MUST_CHECK;
/* The node was removed from the cluster for good, and its commands are refused from now on: nobody
 * waits for it any more. May change tags. */
void fsm_holder_removed(struct fsm *fsm, uint64_t node_id, struct fsm_changes *changes);

/* Must the tag, which becomes or stays strict, recall? old: as it was before, NULL: never there;
 * ended: the operator says that nobody holds a segment of it. */
bool fsm_recall_is_due(const struct fsm *fsm, const struct tag_row *old, bool ended);
struct fsm_recall *fsm_recall_find(const struct fsm *fsm, const char *name, size_t len);
/* The tag was changed: make or drop its recall, as it says. */
void fsm_recall_follow(struct fsm *fsm, struct fsm_row *row, struct fsm_changes *changes);
void fsm_apply_recalled(struct fsm *fsm, uint64_t node_id, struct recalled_command *command,
                        struct buf *result, struct fsm_changes *changes);
int fsm_load_holder(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                    size_t value_len) MUST_CHECK;
int fsm_load_recall(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                    size_t value_len) MUST_CHECK;
/* All rows are there: ERR_CORRUPT if they contradict each other. */
int fsm_recalls_check(const struct fsm *fsm) MUST_CHECK;
void fsm_recalls_clear(struct fsm *fsm);

/* --- fsm_strict.c: allocations of strict tags --- */

/* The command of the entry at index. */
void fsm_apply_strict(struct fsm *fsm, uint64_t index, struct strict_command *command,
                      struct buf *result, struct fsm_changes *changes);

/* --- fsm_keys.c: idempotency keys --- */

/* The key of the tag, in force or not; NULL if it is not there. */
struct fsm_key *fsm_key_find(const struct fsm *fsm, const struct fsm_row *row, const char *key,
                             size_t len);
bool fsm_key_in_force(const struct fsm *fsm, const struct fsm_key *key);
/* A new one for the item: its ids begin at first. It must not be there. */
void fsm_key_add(struct fsm *fsm, struct fsm_row *row, const struct strict_item *item,
                 uint64_t first, uint64_t index, uint16_t position, struct fsm_changes *changes);
/* Delete it; frees key. */
void fsm_key_forget(struct fsm *fsm, struct fsm_key *key, struct fsm_changes *changes);
/* Delete up to max keys that are not in force any more, the oldest first. */
void fsm_keys_expire(struct fsm *fsm, unsigned max, struct fsm_changes *changes);
int fsm_load_key(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                 size_t value_len) MUST_CHECK;
/* All rows are there, as of the entry at index: bring the keys into the order of their age.
 * ERR_CORRUPT if there is none. */
int fsm_keys_order(struct fsm *fsm, uint64_t index) MUST_CHECK;
void fsm_keys_clear(struct fsm *fsm);

/* --- fsm_workers.c: the table of worker ids, and what commands do to it --- */

/* type is acquire, renew or release. 0, or ERR_BAD_MESSAGE, and then nothing was changed or
 * appended. */
int fsm_apply_worker(struct fsm *fsm, int type, const void *command, size_t len, struct buf *result,
                     struct fsm_changes *changes) MUST_CHECK;
void fsm_query_workers(const struct fsm *fsm, const struct query *query, struct buf *result);
int fsm_load_worker(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                    size_t value_len) MUST_CHECK;
/* Tell the listener of every row. */
void fsm_tell_workers(struct fsm *fsm);
void fsm_workers_clear(struct fsm *fsm);

/* --- fsm_settings.c: the layout and the log's time --- */

/* 0 (also for the layout in force), ERR_EXISTS (another one is in force) or ERR_INVALID. */
int fsm_apply_layout(struct fsm *fsm, const struct snowflake_layout *layout,
                     struct fsm_changes *changes) MUST_CHECK;
void fsm_apply_clock(struct fsm *fsm, uint64_t cluster_ms, struct fsm_changes *changes);
int fsm_load_setting(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                     size_t value_len) MUST_CHECK;
/* Tell the listener of the layout, if there is one. */
void fsm_tell_layout(struct fsm *fsm);
void fsm_settings_clear(struct fsm *fsm);

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

/* --- fsm_members.c: changes of the membership --- */

/* type is begin or end. 0, or ERR_BAD_MESSAGE, and then nothing was changed or appended. */
int fsm_apply_member(struct fsm *fsm, int type, uint64_t index, const void *command, size_t len,
                     struct buf *result, struct fsm_changes *changes) MUST_CHECK;
int fsm_load_member_change(struct fsm *fsm, size_t key_len, const void *value,
                           size_t value_len) MUST_CHECK;
int fsm_load_member_removed(struct fsm *fsm, const uint8_t *key, size_t key_len, const void *value,
                            size_t value_len) MUST_CHECK;
void fsm_members_clear(struct fsm *fsm);

/* --- fsm.c --- */

/* The digest after the entry at index, for COMMAND_DIGEST. */
void fsm_digest_remember(struct fsm *fsm, uint64_t index);

#endif
