/*
 * fsm_state.h - the state machine's insides, shared by fsm.c and fsm_*.c only.
 *
 * Rows live in an arena until the whole state is replaced; the tree orders them by name. A row
 * counts in the digest exactly while it stands in the tables; every change goes through
 * fsm_row_change_begin() and fsm_row_change_end(), which keep digest, changes and listener in step.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_FSM_STATE_H
#define LEAFD_ID_FSM_STATE_H

#include <bsd/sys/tree.h>

#include "src/id/arena.h"
#include "src/id/command_read.h"
#include "src/id/fsm.h"
#include "src/id/member.h"

/* The first byte of a row's key: its table. */
#define FSM_TABLE_TAGS 't'
#define FSM_TABLE_NODES 'n'
#define FSM_TABLE_WORKERS 'w'
#define FSM_TABLE_SETTINGS 's'
#define FSM_TABLE_MEMBERS 'm' /* one row: the change of membership under way */
#define FSM_TABLE_REMOVED 'r' /* a row a node id that was removed */

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
    uint64_t log_ms; /* the log's time, 0: none yet */
    struct fsm_members members;
    uint64_t digest;
    struct fsm_listener *listener;
    struct buf scratch;                             /* for the bytes of one row */
    bool loading;                                   /* between fsm_load_begin and _end */
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
/* Take an existing row out of the digest, to change it. */
void fsm_row_change_begin(struct fsm *fsm, struct fsm_row *row);
/* Put it back, list the change (changes may be NULL) and tell the listener. */
void fsm_row_change_end(struct fsm *fsm, struct fsm_row *row, struct fsm_changes *changes);
void fsm_row_describe(struct fsm_row *row, const char *text, size_t len);

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

/* Forget all rows. */
void fsm_rows_clear(struct fsm *fsm);

/* --- fsm_tags.c: what commands do to tags --- */

void fsm_apply_grant(struct fsm *fsm, struct grant_command *command, struct buf *result,
                     struct fsm_changes *changes);
void fsm_apply_put(struct fsm *fsm, struct put_command *command, struct buf *result,
                   struct fsm_changes *changes);
void fsm_apply_delete(struct fsm *fsm, const struct delete_command *command, struct buf *result,
                      struct fsm_changes *changes);

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
