/*
 * state.h - the replicated state: the cluster's half of it, the sessions of the nodes (session.h),
 * and the machine that is the other half (machine.h).
 *
 * The happy path: the raft driver passes every committed command, in log order, to state_apply().
 * That checks that the command was not carried out before, lets the command's half change its rows,
 * and appends the result for the proposer. It lists the changed rows, so that storage writes them
 * with the applied index in one transaction.
 *
 * Invariants:
 *  - A command is carried out once, however often it is in the log, and not at all if its node no
 *    longer waits for it (session.h). Neither half sees a repeated command.
 *  - apply is deterministic: the same commands from the same state give the same rows, results and
 *    digest on every node. Bytes of a known kind that do not decode change nothing and give
 *    ERR_BAD_MESSAGE as result. Commands unknown to this leafd are never skipped: state_can_apply()
 *    reports them before they are applied, and the node stops there.
 *  - The meaning of an entry depends on the level in force (level.h), never on this leafd's
 *    abilities.
 *  - The digest is the sum modulo 2^64 of a hash of every row (key and value bytes), kept
 *    incrementally; equal index means equal digest on all nodes.
 *
 * Failure modes: those of state_apply() and state_load_row().
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_STATE_STATE_H
#define LEAFD_STATE_STATE_H

#include "src/state/state_tables.h"

/* With an empty machine of this kind. */
struct state *state_new(const struct machine_ops *ops);
void state_free(struct state *state); /* accepts NULL */

/* Set other levels than level_own, before any row is loaded: for the simulation, and for a state
 * that tries a snapshot. */
void state_speaks(struct state *state, struct level_range range);

/* 0: a well-formed command; ERR_BAD_MESSAGE; or ERR_NEWER: a version or a type that this leafd does
 * not know. Changes nothing. Only a well-formed command of the level in force or an earlier one may
 * be appended. */
int state_check(const struct state *state, const void *data, size_t len) MUST_CHECK;

/* The level that introduced a type of commands, of either half; 0: there is no such type. */
uint16_t state_since(const struct state *state, int type);

/* False: this leafd does not know the command's version or type, or the level that it raises to. It
 * must not be applied; a newer leafd continues here. */
bool state_can_apply(const struct state *state, const void *data, size_t len);

/*
 * Apply the command of the entry at index, of this term. Appends the encoded result to *result (a
 * status_result, or that of a machine's command; or the session's refusal of either) and the
 * changed rows to *changes. Returns 0; ERR_BAD_MESSAGE for bytes that are no command (result: a
 * status_result with it; nothing changed); ERR_NEWER when it cannot be applied here (no result;
 * nothing changed); ERR_DIVERGED when the proposer's digest in a COMMAND_DIGEST differs from this
 * node's at that index (the entry is applied; result: success, as on all nodes).
 */
int state_apply(struct state *state, uint64_t index, uint64_t term, const void *data, size_t len,
                struct buf *result, struct row_changes *changes) MUST_CHECK;

/* Do a part of the work for the next entry before it is applied, without changing the state: half
 * of the work of a large command. True: there is more, and _more() does a further part. The entry's
 * effect is the same with and without. data stays in place until the entry is applied. */
bool state_foresee(struct state *state, uint64_t index, const void *data, size_t len);
bool state_foresee_more(struct state *state, uint64_t index);

/* A node's registered info; NULL: none. Borrowed until the next apply. */
const struct node_info *state_node(const struct state *state, uint64_t node_id);

/* The birth of the cluster; NULL while none is applied. */
const struct birth *state_birth(const struct state *state);

/* Is a request with this stamp no longer awaited, so that it must have no effect? */
bool state_session_is_over(const struct state *state, const struct session_stamp *stamp);

/* A node's newest start (incarnation, session.h) known to the state, from its registration or
 * commands; 0: none. */
uint64_t state_node_start(const struct state *state, uint64_t node_id);

uint64_t state_digest(const struct state *state);

/* The digest after the entry at index was applied. False: it is not applied yet, or was too long
 * ago (8,192 entries; for a COMMAND_DIGEST the last 64), or before the rows were loaded. */
bool state_digest_at(const struct state *state, uint64_t index, uint64_t *ret_digest);

/* The memory of the machine's rows, which the node bounds. The answers of sessions have a bound of
 * their own (LIMIT_SESSION_BYTES). */
uint64_t state_memory(const struct state *state);

/* --- membership (cluster_command.h) --- */

/* The change under way, or the last one if it was given up; NULL: none. Borrowed until the next
 * apply. */
const struct member_change *state_member_change(const struct state *state);

/* Was this the id of a removed member? */
bool state_member_removed(const struct state *state, uint64_t node_id);

/* A moved member's address; NULL: the configuration's. Borrowed until the next apply. */
const char *state_member_address(const struct state *state, uint64_t node_id);

/* The entry at index, the configuration after, is applied; before: the one until then. Records the
 * ids that left, and ends a change that this completes. Deterministic, as state_apply() is. */
void state_configured(struct state *state, uint64_t index, const struct configuration *before,
                      const struct configuration *after, struct row_changes *changes);

/* --- loading --- */

/*
 * Replace the whole state by rows from storage or from a snapshot: begin forgets all (also the
 * remembered digests), then one call per row, in any order, then end. state_load_row (which is a
 * store_row_fn: state is a struct state) returns 0 or
 * ERR_CORRUPT, ERR_BAD_VERSION, ERR_TRUNCATED, ERR_EXISTS (a key twice), or ERR_NEWER (a table, a
 * setting or a level that this leafd does not know). index is the applied index of the rows.
 * state_load_end returns 0, ERR_CORRUPT if rows contradict each other, or ERR_BAD_VERSION if this
 * leafd no longer speaks the level in force: then only another state_load_begin() or state_free()
 * is allowed.
 */
void state_load_begin(struct state *state);
int state_load_row(void *state, const struct state_row *row) MUST_CHECK;
int state_load_end(struct state *state, uint64_t index) MUST_CHECK;

/* Take over another state, whose load has ended; the machine stays in place, and takes the other's
 * rows. from then has the old state, which the caller frees. */
void state_take(struct state *state, struct state *from);

#endif
