/*
 * prepare.h - a store made ready for a start: the number of this start, the first configuration or
 * the mark of a node that joins, and a term of its own for a sole voter.
 *
 * The happy path: one commit. It counts the node's incarnation up, and puts the random half of it
 * on the list of those that the node had (rollback.h); a new store also gets term 1 and
 * entry 1, which holds the configuration; a sole voter also gets the next term and its own vote
 * (G11). The store of a node that joins gets the mark of one instead, with the count, and loses it
 * once the log of the others has reached it.
 *
 * Failure modes: any error of the store ends the start, with `loaded` as it was. An incarnation
 * that is lost would let requests of an earlier incarnation be taken for those of this one, so a
 * record that does not decode is refused, never counted from 1 again. A store that was started
 * before and has no log, without that mark, has lost it: a node that began anew, or joined, with it
 * would have forgotten what it acknowledged. A term or an index that cannot be (trust.h) is
 * refused: no assertion of a later step may be where it shows. Data of a later level, and entries
 * of one after the state, are refused before anything is written.
 *
 * Thread: the one that starts the driver, before the writer runs.
 */
#ifndef LEAFD_RAFT_CORE_PREPARE_H
#define LEAFD_RAFT_CORE_PREPARE_H

#include "raft/transport/net.h"
#include "raft/wire/wire.h"
#include "src/state/state.h"
#include "storage/store.h"

/* Nothing of a log was ever in the store. */
bool prepare_is_empty(const struct store_loaded *loaded);

/* The same of a store that is not loaded yet, before anything else. 0 or the store's error. */
int prepare_look(struct store *store, bool *ret_is_empty, struct store_error *ret_error) MUST_CHECK;

/* The first configuration, if the log still begins with it. False: it does not; there is none. */
bool prepare_first_list(const struct store_loaded *loaded, struct configuration *ret_configuration);

/* Such a store, with the mark of a node that joins a cluster: it waits for the log of the others,
 * and must never begin one. */
bool prepare_is_joiner(const struct store_loaded *loaded);

/* A store_row_fn: into the state machine that is data. */
int prepare_load_row(void *data, const struct store_row *row);

/*
 * See above. random: of this start. members: those of a new store's configuration, all voters, the
 * same on every node; or none: it joins. loaded is changed to match. 0 or the store's error,
 * ERR_CORRUPT (also of a store that has lost its log), ERR_BAD_VERSION or ERR_IMPLAUSIBLE (trust.h)
 * for what it holds, ERR_STALE if it was found to be an older copy (rollback.h); then loaded is as
 * it was.
 */
int prepare_store(struct store *store, struct store_loaded *loaded, uint64_t node_id,
                  uint32_t random, const struct net_peer *members, size_t member_count,
                  struct store_error *ret_error) MUST_CHECK;

/* All that comes before driver_start(): the rows into the new state, what the core needs into
 * loaded (the caller's to release), and prepare_store(). 0, or an error of the store; then nothing
 * is left but the state. */
int prepare_load(struct store *store, struct state *state, uint64_t node_id, uint32_t random,
                 const struct net_peer *members, size_t member_count,
                 struct store_loaded *ret_loaded, struct store_error *ret_error) MUST_CHECK;

/* The record of a node that has the log of the others: it joins no more. */
void prepare_member_record(uint64_t incarnation, struct buf *record);

#endif
