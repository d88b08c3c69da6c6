/*
 * state.h - the replicated state: the cluster's half of it, the sessions of the nodes (session.h),
 * and the machine that is the other half (machine.h).
 *
 * The happy path: the raft driver gives every committed command, in log order, to state_apply(),
 * which sees that it was not carried out before, has the half that it belongs to change its rows,
 * appends the result for the proposer, and lists the changed rows so that storage writes them with
 * the applied index in one transaction.
 *
 * Invariants:
 *  - A command is carried out once, however often it stands in the log, and none that its node no
 *    longer waits for (session.h). Neither half sees one that comes again.
 *  - apply is deterministic: the same commands from the same state give the same rows, results and
 *    digest on every node. Bytes of a known kind that do not decode change nothing and give
 *    ERR_BAD_MESSAGE as result. What this leafd does not know is never skipped: state_can_apply()
 *    says so before it is applied, and the node stops there.
 *  - What an entry means depends on the level in force (level.h), never on what this leafd could
 *    do.
 *  - The digest is the sum modulo 2^64 of a hash of every row (key and value bytes), kept
 *    incrementally; equal index means equal digest on all nodes.
 *
 * Failure modes: those of state_apply() and state_load_row().
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_STATE_STATE_H
#define LEAFD_STATE_STATE_H

#include "src/state/facts.h"
#include "src/state/machine.h"
#include "src/state/sessions.h"

/* Entries whose digest is remembered, for COMMAND_DIGEST: that names the applied index of its
 * proposer, and all that was appended and not applied there stands between the two. */
#define STATE_DIGEST_MARKS 8192
_Static_assert(STATE_DIGEST_MARKS >= 2 * LIMIT_UNCOMMITTED_ENTRIES, "also where apply is late");

/* And of those commands' own entries so many are remembered for longer. */
#define STATE_DIGEST_CHECKS 64

struct state_digest_mark {
    uint64_t index; /* 0: none */
    uint64_t digest;
};

/* Others than the machine and tests use the functions. */
struct state {
    struct machine *machine;
    struct journal journal;
    struct facts facts;
    struct sessions sessions;
    struct members members;
    struct cuts cuts;
    struct state_digest_mark marks[STATE_DIGEST_MARKS]; /* at index % STATE_DIGEST_MARKS */
    struct state_digest_mark checks[STATE_DIGEST_CHECKS];
    unsigned check_count; /* the next one takes the place of this one, modulo their number */
};

/* With an empty machine of this kind. */
struct state *state_new(const struct machine_ops *ops);
void state_free(struct state *state); /* accepts NULL */

/* Let it speak other levels than level_own, before anything is loaded: for the simulation, and for
 * a state that tries a snapshot. */
void state_speaks(struct state *state, struct level_range range);
struct level_range state_levels(const struct state *state);

/* 0: it is a command that is well formed; ERR_BAD_MESSAGE; or ERR_NEWER: it is of a version or a
 * type that this leafd does not know. Changes nothing. */
int state_check(const struct state *state, const void *data, size_t len) MUST_CHECK;

/* The level that brought a type of commands, of either half; 0: there is no such type. */
uint16_t state_since(const struct state *state, int type);

/* Is it a command that is well formed, and of the level in force or one before? Nothing else may be
 * appended. */
bool state_may_append(const struct state *state, const void *data, size_t len);

/* False: the command is of a version, of a type, or raises the level to one, that this leafd does
 * not know. It must not be applied; a newer leafd continues here. */
bool state_can_apply(const struct state *state, const void *data, size_t len);

/*
 * Apply the command of the entry at index, of this term. Appends the encoded result to *result (a
 * status_result, or what the machine's commands have; or the session's refusal of any of them) and
 * the changed rows to *changes. Returns 0; ERR_BAD_MESSAGE for bytes that are no command (result: a
 * status_result saying so), and then nothing changed; ERR_NEWER when it cannot be applied here, and
 * then there is no result either and nothing changed; ERR_DIVERGED when a COMMAND_DIGEST says that
 * its proposer's digest at that index was another than this node's (the entry is applied; result:
 * success, as on all nodes).
 */
int state_apply(struct state *state, uint64_t index, uint64_t term, const void *data, size_t len,
                struct buf *result, struct row_changes *changes) MUST_CHECK;

/* Do a part of what can be done for the entry that comes next before it is applied, without any
 * change of the state: half of the work of a large command. True: there is more, and _more() does a
 * further part of it. What the entry says is the same with and without. data stays where it is
 * until then. */
bool state_foresee(struct state *state, uint64_t index, const void *data, size_t len);
bool state_foresee_more(struct state *state, uint64_t index);

/* A node's registered info; false if none. */
bool state_node(const struct state *state, uint64_t node_id, struct node_info *ret_info);

/* Where a node is, and its share of the work: with the defaults where nothing was set. */
struct placement state_placement(const struct state *state, uint64_t node_id);

/* Clients that are cut, also those whose time is over. Borrowed until the next command. */
const struct cuts *state_cuts(const struct state *state);

/* The birth of the cluster; false while none is applied. */
bool state_birth(const struct state *state, struct birth *ret_birth);

/* The level in force; and its row, whose index is 0 if there is none. */
uint16_t state_level(const struct state *state);
void state_level_row(const struct state *state, struct level_row *ret_row);

/* The log's time (highest COMMAND_CLOCK), 0 while there is none. */
uint64_t state_log_ms(const struct state *state);

/* Is a request with this stamp one that is awaited no more, so that nothing may come of it?
 */
bool state_session_is_over(const struct state *state, const struct session_stamp *stamp);

/* The newest start (incarnation, session.h) of a node that the state knows, by what it has
 * registered or asked for; 0: none. */
uint64_t state_node_start(const struct state *state, uint64_t node_id);

uint64_t state_digest(const struct state *state);

/* The digest once the entry at index was applied. False: it is not yet, or was too long ago (8,192
 * entries; of a COMMAND_DIGEST the last 64 such), or before the rows were loaded. */
bool state_digest_at(const struct state *state, uint64_t index, uint64_t *ret_digest);

/* The memory that it takes: the machine's rows, and the answers of sessions. */
uint64_t state_memory(const struct state *state);

/* --- membership (cluster_command.h) --- */

/* The change under way, or the last one if it was given up; NULL: none. Borrowed until the next
 * apply. */
const struct member_change *state_member_change(const struct state *state);

/* Was this id a member's that was removed? */
bool state_member_removed(const struct state *state, uint64_t node_id);

/* Where a member is reached that has moved; NULL: where the configuration says. Borrowed until the
 * next apply. */
const char *state_member_address(const struct state *state, uint64_t node_id);
/* How often one of these addresses changed, since the start. */
uint64_t state_member_moves(const struct state *state);

/* The entry at index, a configuration, is applied: before and after it. Remembers the ids that went
 * and ends a change that this completes. Deterministic, as state_apply() is. */
void state_configured(struct state *state, uint64_t index, const struct member *before,
                      size_t before_count, const struct member *after, size_t after_count,
                      struct row_changes *changes);

/* --- loading --- */

/*
 * Replace the whole state by rows from storage or from a snapshot: begin forgets everything (also
 * the memory of digests), then one call a row, in any order, then end. state_load_row returns 0 or
 * ERR_CORRUPT, ERR_BAD_VERSION, ERR_TRUNCATED, ERR_EXISTS (a key twice), or ERR_NEWER (a table, a
 * setting or a level that this leafd does not know). index is the applied index of the rows.
 * state_load_end returns 0, ERR_CORRUPT if rows contradict each other, or ERR_BAD_VERSION if the
 * level in force is one that this leafd speaks no more: then the state is good for nothing but
 * another state_load_begin() or state_free().
 */
void state_load_begin(struct state *state);
int state_load_row(struct state *state, const void *key, size_t key_len, const void *value,
                   size_t value_len) MUST_CHECK;
int state_load_end(struct state *state, uint64_t index) MUST_CHECK;

/* Become another state, whose load has ended; its machine stays where it is, and takes the other's
 * rows. from has the old state then, and is the caller's to free. */
void state_take(struct state *state, struct state *from);

#endif
