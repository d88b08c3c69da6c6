/*
 * vote_floor.h - terms in which a node may have voted, and forgotten it.
 *
 * A node whose disk lost its last write (a copy that was put back, a disk that said "synced" and
 * lied) may have given its vote in the term after the one that the disk has, and nobody but the
 * candidate knows. So in each start but the first on a data directory it gives none in that term;
 * pre-votes, which bind nobody, it gives. Whoever stands for election knows from the handshakes at
 * which terms its peers started, and takes the term after, so that it costs no election.
 *
 * Votes in later terms than that are told to everybody within a second (standing.h), and missed by
 * them (rollback.h). What neither covers is in docs/failure-model.md.
 *
 * The happy path: vote_floor_own() at the start, vote_floor_met() at each handshake;
 * vote_floor_drops() for each request of a vote; vote_floor_covers() for the term of a campaign.
 *
 * Failure modes: none. A peer that lies about its start costs each campaign here one more term.
 *
 * Thread: pure functions, one owner.
 */
#ifndef LEAFD_RAFT_CORE_VOTE_FLOOR_H
#define LEAFD_RAFT_CORE_VOTE_FLOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/wire/wire.h"

struct raft_message;

struct vote_floor {
    uint64_t own;   /* no vote of this node up to this term; 0: any */
    uint64_t known; /* the highest of its own and its peers' */
};

/* What this node, or a peer that was let in, says of its start. */
void vote_floor_own(struct vote_floor *floor, const struct peer_standing *start);
void vote_floor_met(struct vote_floor *floor, const struct peer_standing *start);

/* Is this a request for a vote that must not be given? */
bool vote_floor_drops(const struct vote_floor *floor, const struct raft_message *message);

/* Would somebody, for all that is known, give no vote in this term? */
bool vote_floor_covers(const struct vote_floor *floor, uint64_t term);

#endif
