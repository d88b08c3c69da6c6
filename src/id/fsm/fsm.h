/*
 * fsm.h - the ids' half of the replicated state, a machine (machine.h): the table of tags, the
 * registry of worker ids, the layouts, and two tables for strict tags: idempotency keys, and the
 * nodes that may still hold a segment.
 *
 * The happy path: state.h passes every command of these types (command.h), in log order, to the
 * machine, which changes the rows and appends the result for the proposer.
 *
 * Invariants:
 *  - Grants of a tag are disjoint and rising: a grant takes [max_id, max_id + size) and moves
 *    max_id up. Only the topmost range can be given back, by its owner.
 *  - Ids of a strict tag are allocated in the order of the log, and only once no node can hold a
 *    segment of the tag.
 *  - Those in state.h of both halves.
 *
 * Thread: one owner (the raft loop). Sources: docs of the project; Leaf's leaf_alloc for
 * max_id/step.
 */
#ifndef LEAFD_ID_FSM_FSM_H
#define LEAFD_ID_FSM_FSM_H

#include "src/id/codec/command.h"
#include "src/state/state.h"

struct fsm;

/* The first byte of a row's key: its table, besides those of the cluster (journal.h); and the rest
 * of the key. */
enum fsm_table {
    FSM_TABLE_RECALLS = 'd', /* tag whose segments are recalled: its name */
    FSM_TABLE_HOLDERS = 'g', /* node that was ever granted a segment: its id */
    FSM_TABLE_KEYS = 'i',    /* idempotency key: the length of the tag's name (1), the name, the
                                key */
    FSM_TABLE_TAGS = 't',    /* tag: its name */
    /* named layout: its name. After the settings, so that an older leafd first reads the level
     * needed */
    FSM_TABLE_LAYOUTS = 'v',
    FSM_TABLE_WORKERS = 'w' /* worker id: worker_key_put() */
};

/* A tag's row before the change. All zero: it is new, or was loaded. */
struct fsm_tag_before {
    bool known;
    bool recalling;
    uint64_t max_id;
};

/* Called with each row after a command changed it, on the owner's thread, during state_apply().
 * Also called with each row after state_load_end(): the layout, then the named ones, worker ids,
 * tags. Rows are borrowed for the call. A function may be NULL. */
struct fsm_listener {
    void (*tag_changed)(struct fsm_listener *listener, const struct tag_row *row,
                        const struct fsm_tag_before *before);
    void (*worker_changed)(struct fsm_listener *listener, const struct worker_row *row);
    void (*layout_changed)(struct fsm_listener *listener, const struct snowflake_layout *layout);
    void (*named_layout_changed)(struct fsm_listener *listener, const struct layout_row *row);
} BY_NAME;

/* The names of the settings, after the table in their keys. */
#define FSM_SETTING_LAYOUT "layout"
#define FSM_SETTING_WORKERS "workers" /* worker_rules, since level 3 */

/* The kind of this machine, for state_new(). As a command's result it appends grant_results,
 * put_result, worker_result, strict_results, statuses or status_result, by its type. */
extern const struct machine_ops fsm_machine;

/* The machine of such a state; and the state of a machine. */
struct fsm *fsm_of(const struct state *state);
struct state *fsm_state(const struct fsm *fsm);

/* At most one; NULL removes it. */
void fsm_listen(struct fsm *fsm, struct fsm_listener *listener);

/* Answer a query from the present state; appends the result. 0 or ERR_UNKNOWN_TAG or
 * ERR_BAD_MESSAGE. */
int fsm_query(const struct fsm *fsm, const void *query, size_t len, struct buf *result) MUST_CHECK;

/* The live or deleted row of a name, or NULL. Borrowed until the next apply, or call of this or of
 * fsm_recall_next(). */
const struct tag_row *fsm_tag(const struct fsm *fsm, const char *name, size_t name_len);

/* Append the marks (command.h) of a command that has just been applied: the generations that the
 * tags it names have now. */
void fsm_tag_marks(const struct fsm *fsm, const void *command, size_t len, struct buf *marks);

/* The row of a worker id, or NULL. Borrowed until the next apply. */
const struct worker_row *fsm_worker(const struct fsm *fsm, uint32_t worker_id);

/* Row number `at` of these, in the order of the worker ids; NULL: no more. */
const struct worker_row *fsm_worker_at(const struct fsm *fsm, size_t at);

/* How many of them are held; and how many names have several whose windows are not over. */
void fsm_worker_counts(const struct fsm *fsm, uint64_t *ret_held, uint64_t *ret_shared);

/* The layout that the log fixed; false while there is none. */
bool fsm_layout(const struct fsm *fsm, struct snowflake_layout *ret_layout);

/* The named layouts, deleted ones too, in no order. Borrowed until the next apply. */
const struct layout_row *fsm_layouts(const struct fsm *fsm, uint32_t *ret_count);

/* Rows in the table of tags, tombstones included. */
size_t fsm_tag_count(const struct fsm *fsm);

/* Does any tag, deleted or not, have a date in its shape? */
bool fsm_has_dates(const struct fsm *fsm);

/* Counts, and the memory taken. */
struct fsm_usage {
    uint64_t bytes; /* of tags as if all were in use, tombstones, and keys */
    uint64_t tags;  /* live ones */
    uint64_t dead;  /* tombstones */
    uint64_t keys;
};
void fsm_usage(const struct fsm *fsm, struct fsm_usage *ret_usage);

/* The most additional memory for the state once these puts of tags, as read by command_read(), are
 * applied: for new names and longer descriptions. */
uint64_t fsm_adds(const struct fsm *fsm, struct command_list puts);

/* --- strict tags under recall: they wait for the nodes that may still hold a segment --- */

/* The first tag, in the order of names, that waits for the node; NULL: none. Only names greater
 * than `after`; empty: from the start. Borrowed as by fsm_tag(). The node must drop its ids of the
 * tag, and report that by a COMMAND_RECALLED with the row's generation. */
const struct tag_row *fsm_recall_next(const struct fsm *fsm, uint64_t node_id, const char *after,
                                      size_t after_len);

/* A node that the tag waits for before it hands out ids; 0: none. */
uint64_t fsm_recall_waits_for(const struct fsm *fsm, const char *name, size_t name_len);

/* --- idempotency keys --- */

/* True if the key of an item, whose tag exists, decides: the key is known and in force (the result
 * has its ids, or a status), or cannot be looked up yet (ERR_EMPTY). Changes nothing. */
bool fsm_key_known(const struct fsm *fsm, const struct strict_item *item,
                   struct strict_result *result);

#endif
