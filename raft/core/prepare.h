/*
 * prepare.h - a store made ready for a start: the number of this start, the first configuration or
 * the mark of a node that joins, and a term of its own for a sole voter.
 *
 * The happy path: one commit. It increments the node's incarnation and adds its random half to the
 * list of the node's incarnations (rollback.h); a new store also gets term 1 and entry 1, which
 * holds the configuration; a sole voter also gets the next term and its own vote (G11). The store
 * of a joining node gets a mark instead, with the count. The mark goes once the node has received
 * the log of the others.
 *
 * Failure modes: any error of the store ends the start, with `loaded` as it was. With a lost
 * incarnation, requests of an earlier one could be taken for those of this one. So a record that
 * does not decode is refused; the count never restarts at 1. A store that was started before, has
 * no log and lacks that mark has lost its log: a node that began anew or joined with it would have
 * forgotten what it acknowledged. An implausible term or index (trust.h) is refused here, before an
 * assertion of a later step fails on it. Data of a later level, and entries of one after the state,
 * are refused before anything is written.
 *
 * Thread: the one that starts the driver, before the writer runs.
 */
#ifndef LEAFD_RAFT_CORE_PREPARE_H
#define LEAFD_RAFT_CORE_PREPARE_H

#include "raft/transport/net.h"
#include "raft/wire/wire.h"
#include "src/state/state.h"
#include "storage/store.h"

/* True if the store never had a log. */
bool prepare_is_empty(const struct store_loaded *loaded);

/* The first configuration, if the log still begins with it. False: it does not, or there is
 * none. */
bool prepare_first_list(const struct store_loaded *loaded, struct configuration *ret_configuration);

/* An empty store with the mark of a joining node: the node waits for the log of the others, and
 * must never begin one. */
bool prepare_is_joiner(const struct store_loaded *loaded);

/* Refuse an entry after the state that this leafd does not know (ERR_NEWER): a node would stop
 * before it. */
int prepare_check_entries(const struct state *state, const struct store_loaded *loaded,
                          struct store_error *ret_error) MUST_CHECK;

/*
 * See above. random: of this start. members: those of a new store's configuration, all voters, the
 * same on every node; none: the node joins. loaded is changed to match. 0 or the store's error,
 * ERR_CORRUPT (also of a store that has lost its log), ERR_BAD_VERSION or ERR_IMPLAUSIBLE (trust.h)
 * for what it holds, ERR_STALE if the store was found to be an older copy (rollback.h); then loaded
 * is unchanged.
 */
int prepare_store(struct store *store, struct store_loaded *loaded, uint64_t node_id,
                  uint32_t random, const struct net_peer *members, size_t member_count,
                  struct store_error *ret_error) MUST_CHECK;

/* What comes before prepare_store(), and writes nothing: the rows into the new state, what the core
 * needs into loaded (the caller's to release). 0, or an error of the store; then nothing is left
 * but the state. */
int prepare_load(struct store *store, struct state *state, struct store_loaded *ret_loaded,
                 struct store_error *ret_error) MUST_CHECK;

/* The record of a node that has the log of the others: it no longer joins. */
void prepare_member_record(uint64_t incarnation, struct buf *record);

#endif
