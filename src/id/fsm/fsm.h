/*
 * fsm.h - the ids' half of the replicated state, a machine (machine.h): the table of tags, the
 * registry of worker ids, the layouts, and what strict tags need: idempotency keys, and which nodes
 * may hold a segment yet.
 *
 * The happy path: state.h gives every command of these types (command.h), in log order, to the
 * machine, which changes the rows, and appends the result for the proposer.
 *
 * Invariants:
 *  - Grants of a tag are disjoint and rising: a grant takes [max_id, max_id + size) and moves
 *    max_id up. Only the topmost range comes back, from its owner.
 *  - Ids of a strict tag are allocated in the order of the log, and not before no node can hold a
 *    segment of the tag.
 *  - All that state.h says of both halves: a command is carried out once, apply is deterministic.
 *
 * Thread: one owner (the raft loop). Sources: docs of the project; Leaf's leaf_alloc for
 * max_id/step.
 */
#ifndef LEAFD_ID_FSM_FSM_H
#define LEAFD_ID_FSM_FSM_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_settings.h"
#include "src/state/state.h"

struct fsm;

/* The kind of this machine, to make a state with (state_new()). Of a command it appends
 * grant_results, put_result, worker_result, strict_results, statuses or status_result by its type.
 */
extern const struct machine_ops fsm_machine;

/* The machine of such a state; and the state that it is a half of. */
struct fsm *fsm_of(const struct state *state);
struct state *fsm_state(const struct fsm *fsm);

/* At most one; NULL takes it off. */
void fsm_listen(struct fsm *fsm, struct fsm_listener *listener);

/* Answer a query from the present state; appends the result. 0 or ERR_UNKNOWN_TAG or
 * ERR_BAD_MESSAGE. */
int fsm_query(const struct fsm *fsm, const void *query, size_t len, struct buf *result) MUST_CHECK;

/* The live or deleted row of a name, or NULL. Borrowed until the next apply. */
const struct tag_row *fsm_tag(const struct fsm *fsm, const char *name, size_t name_len);

/* Append the marks (command.h) of a command that has just been applied: the generations that the
 * tags it names have now. */
void fsm_tag_marks(const struct fsm *fsm, const void *command, size_t len, struct buf *marks);

/* The row of a worker id that was ever held, or NULL. Borrowed until the next apply. */
const struct worker_row *fsm_worker(const struct fsm *fsm, uint16_t worker_id);

/* Row number `at` of those, in the order of the worker ids; NULL: there are no more. */
const struct worker_row *fsm_worker_at(const struct fsm *fsm, size_t at);

/* How many of them are held; and names under which several are whose windows are not over. */
void fsm_worker_counts(const struct fsm *fsm, uint64_t *ret_held, uint64_t *ret_shared);

/* The layout that the log fixed; false while there is none. */
bool fsm_layout(const struct fsm *fsm, struct snowflake_layout *ret_layout);

/* The named layouts, deleted ones too, in no order. Borrowed until the next apply. */
const struct layout_row *fsm_layouts(const struct fsm *fsm, uint32_t *ret_count);

/* The log's time, as the state gave it last; 0 while there is none. */
uint64_t fsm_log_ms(const struct fsm *fsm);

/* Rows in the table of tags, tombstones included. */
size_t fsm_tag_count(const struct fsm *fsm);

/* Has any tag, deleted or not, a date in its shape? */
bool fsm_has_dates(const struct fsm *fsm);

/* What there is, and what memory it takes. */
struct fsm_usage {
    uint64_t bytes; /* tags as if all were in use, tombstones, and keys */
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

#endif
