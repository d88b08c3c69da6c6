/*
 * fsm.h - the replicated state machine: the table of tags, the registries of nodes and of worker
 * ids, the sessions of the nodes (session.h), and what strict tags need: idempotency keys, and who
 * may hold a segment yet.
 *
 * The happy path: the raft driver gives every committed command, in log order, to fsm_apply(),
 * which sees that it was not carried out before, changes the rows, appends the result for the
 * proposer, and lists the changed rows so that storage writes them with the applied index in one
 * transaction.
 *
 * Invariants:
 *  - Grants of a tag are disjoint and rising: a grant takes [max_id, max_id + size) and moves
 *    max_id up. Only the topmost range comes back, from its owner.
 *  - A command is carried out once, however often it stands in the log, and none that its node no
 *    longer waits for (session.h).
 *  - Ids of a strict tag are allocated in the order of the log, and not before nobody can hold a
 *    segment of the tag.
 *  - apply is deterministic: the same commands from the same state give the same rows, results and
 *    digest on every node. Bytes of a known kind that do not decode change nothing and give
 *    ERR_BAD_MESSAGE as result. What this leafd does not know is never skipped: fsm_can_apply()
 *    says so before it is applied, and the node stops there.
 *  - What an entry means depends on the level in force (level.h), never on what this leafd could
 *    do.
 *  - The digest is the sum modulo 2^64 of a hash of every row (key and value bytes), kept
 *    incrementally; equal index means equal digest on all nodes.
 *
 * Thread: one owner (the raft loop). Sources: docs of the project; Leaf's leaf_alloc for
 * max_id/step.
 */
#ifndef LEAFD_ID_FSM_FSM_H
#define LEAFD_ID_FSM_FSM_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_changes.h"

struct fsm;

struct fsm *fsm_new(void);
void fsm_free(struct fsm *fsm); /* accepts NULL */

/* Let it speak other levels than level_own, before anything is loaded: for the simulation, and for
 * a state machine that tries a snapshot. */
void fsm_speaks(struct fsm *fsm, struct level_range range);
struct level_range fsm_levels(const struct fsm *fsm);

/* At most one; NULL takes it off. */
void fsm_listen(struct fsm *fsm, struct fsm_listener *listener);

/* False: the command is of a version, of a type, or raises the level to one, that this leafd does
 * not know. It must not be applied; a newer leafd goes on here. */
bool fsm_can_apply(const struct fsm *fsm, const void *data, size_t len);

/*
 * Apply the command of the entry at index, of this term. Appends the encoded result to *result
 * (grant_results, put_result, worker_result, strict_results, statuses or status_result by the
 * command's type; or the session's refusal of any of them) and the changed rows to *changes.
 * Returns 0; ERR_BAD_MESSAGE for bytes that are no command (result: a status_result saying so), and
 * then nothing changed; ERR_NEWER when it cannot be applied here, and then there is no result
 * either and nothing changed; ERR_DIVERGED when a COMMAND_DIGEST says that its proposer's digest at
 * that index was another than this node's (the entry is applied; result: success, as on all nodes).
 */
int fsm_apply(struct fsm *fsm, uint64_t index, uint64_t term, const void *data, size_t len,
              struct buf *result, struct fsm_changes *changes) MUST_CHECK;

/* Do what can be done for the entry that comes next before it is applied, without any change of the
 * state: half of the work of a large put. What it says is the same with and without. data stays
 * where it is until then. */
void fsm_foresee(struct fsm *fsm, uint64_t index, const void *data, size_t len);

/* Answer a query from the present state; appends the result. 0 or ERR_UNKNOWN_TAG or
 * ERR_BAD_MESSAGE. */
int fsm_query(const struct fsm *fsm, const void *query, size_t len, struct buf *result) MUST_CHECK;

/* The live or deleted row of a name, or NULL. Borrowed until the next apply. */
const struct tag_row *fsm_tag(const struct fsm *fsm, const char *name, size_t name_len);

/* Append the marks (tag_marks.h) of a command that has just been applied: the generations that the
 * tags it names have now. */
void fsm_tag_marks(const struct fsm *fsm, const void *command, size_t len, struct buf *marks);

/* A node's registered info; false if none. */
bool fsm_node(const struct fsm *fsm, uint64_t node_id, struct node_info *ret_info);

/* The row of a worker id that was ever held, or NULL. Borrowed until the next apply. */
const struct worker_row *fsm_worker(const struct fsm *fsm, uint16_t worker_id);

/* The layout that the log fixed; false while there is none. */
bool fsm_layout(const struct fsm *fsm, struct snowflake_layout *ret_layout);

/* The named layouts, deleted ones too, in no order. Borrowed until the next apply. */
const struct layout_row *fsm_layouts(const struct fsm *fsm, uint32_t *ret_count);

/* The birth of the cluster; false while none is applied. */
bool fsm_birth(const struct fsm *fsm, struct birth *ret_birth);

/* The level in force; and its row, whose index is 0 if there is none. */
uint16_t fsm_level(const struct fsm *fsm);
void fsm_level_row(const struct fsm *fsm, struct level_row *ret_row);

/* The log's time (highest COMMAND_CLOCK), 0 while there is none. */
uint64_t fsm_log_ms(const struct fsm *fsm);

/* Is a request with this stamp one that nobody waits for any more, so that nothing may come of it?
 */
bool fsm_session_is_over(const struct fsm *fsm, const struct session_stamp *stamp);

/* The newest start (incarnation, session.h) of a node that the state knows, by what it has
 * registered or asked for; 0: none. */
uint64_t fsm_node_start(const struct fsm *fsm, uint64_t node_id);

uint64_t fsm_digest(const struct fsm *fsm);

/* The digest once the entry at index was applied. False: it is not yet, or was too long ago (8,192
 * entries; of a COMMAND_DIGEST the last 64 such), or before the rows were loaded. */
bool fsm_digest_at(const struct fsm *fsm, uint64_t index, uint64_t *ret_digest);

/* Rows in the table of tags, tombstones included. */
size_t fsm_tag_count(const struct fsm *fsm);

/* Has any tag, deleted or not, a date in its shape? */
bool fsm_has_dates(const struct fsm *fsm);

/* What there is, and what memory it takes. */
struct fsm_usage {
    uint64_t bytes; /* tags as if all were in use, tombstones, keys, and answers of sessions */
    uint64_t tags;  /* live ones */
    uint64_t dead;  /* tombstones */
    uint64_t keys;
};
void fsm_usage(const struct fsm *fsm, struct fsm_usage *ret_usage);

/* The most memory that the state may take more once these puts of tags, as command_read() has them,
 * are applied: for new names and longer descriptions. */
uint64_t fsm_adds(const struct fsm *fsm, struct command_list puts);

/* --- strict tags that recall: nodes that may hold a segment yet are waited for --- */

/* The first tag, in the order of names, after which the node is waited for; NULL: none. Only names
 * greater than after; empty: from the start. Borrowed until the next apply. The node must drop what
 * it holds of the tag, and say so by a COMMAND_RECALLED with the row's generation. */
const struct tag_row *fsm_recall_next(const struct fsm *fsm, uint64_t node_id, const char *after,
                                      size_t after_len);

/* A node that is waited for before the tag hands out ids; 0: none. */
uint64_t fsm_recall_waits_for(const struct fsm *fsm, const char *name, size_t name_len);

/* --- idempotency keys --- */

/* True if the key of an item, of a tag that is there, decides: it is known and in force (the
 * result has its ids, or a status), or cannot be looked up yet (ERR_EMPTY). Changes nothing. */
bool fsm_key_known(const struct fsm *fsm, const struct strict_item *item,
                   struct strict_result *result);

/* --- membership (member.h) --- */

/* The change under way, or the last one if it was given up; NULL: none. Borrowed until the next
 * apply. */
const struct member_change *fsm_member_change(const struct fsm *fsm);

/* Was this id a member's that was removed? */
bool fsm_member_removed(const struct fsm *fsm, uint64_t node_id);

/* Where a member is reached that has moved; NULL: where the configuration says. Borrowed until the
 * next apply. */
const char *fsm_member_address(const struct fsm *fsm, uint64_t node_id);
/* How often one of these addresses changed, since the start. */
uint64_t fsm_member_moves(const struct fsm *fsm);

/* The entry at index, a configuration, is applied: before and after it. Remembers the ids that went
 * and ends a change that this completes. Deterministic, as fsm_apply() is. */
void fsm_configured(struct fsm *fsm, uint64_t index, const struct member *before,
                    size_t before_count, const struct member *after, size_t after_count,
                    struct fsm_changes *changes);

/* --- loading --- */

/*
 * Replace the whole state by rows from storage or from a snapshot: begin forgets everything (also
 * the memory of digests), then one call a row, in any order, then end. fsm_load_row returns 0 or
 * ERR_CORRUPT, ERR_BAD_VERSION, ERR_TRUNCATED, ERR_EXISTS (a key twice), or ERR_NEWER (a table, a
 * setting or a level that this leafd does not know). index is the applied index
 * of the rows. fsm_load_end returns 0, ERR_CORRUPT if rows contradict each other, or
 * ERR_BAD_VERSION if the level in force is one that this leafd speaks no more: then the state
 * is good for nothing but another fsm_load_begin() or fsm_free().
 */
void fsm_load_begin(struct fsm *fsm);
int fsm_load_row(struct fsm *fsm, const void *key, size_t key_len, const void *value,
                 size_t value_len) MUST_CHECK;
int fsm_load_end(struct fsm *fsm, uint64_t index) MUST_CHECK;

/* Become another state machine, whose load has ended, and tell the listener of its rows, as the end
 * of a load does; from has the old state then, and is the caller's to free. */
void fsm_take(struct fsm *fsm, struct fsm *from);

#endif
