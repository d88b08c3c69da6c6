/*
 * witness.h - does a leader's log agree with what is committed here?
 *
 * A leader has every entry that was ever committed (Leader Completeness), unless a majority lost
 * its data: older copies that were put back, say. So of one that has another entry where this node
 * knows one to be committed nothing may be used (guard_normalise() would mix both logs), and this
 * node ends, since it is the witness that acknowledged changes were lost. Where its own entries are
 * compacted away it can only say that terms would have to fall.
 *
 * Thread: pure functions, one owner.
 */
#ifndef LEAFD_RAFT_CORE_WITNESS_H
#define LEAFD_RAFT_CORE_WITNESS_H

#include "raft/core/entry_log.h"
#include "raft/core/writes.h"

struct raft_message;

/* What this node knows. */
struct witness {
    const struct entry_log *log;
    const struct store_position *applied;
    const uint64_t *commit; /* index */
};

/* Where a leader's log and what is committed here part. */
struct contradiction {
    uint64_t index;
    uint64_t term;       /* there */
    uint64_t known_term; /* here; of an entry that is compacted away: what it is at most */
};

/* Term of the entry at index, 0 if not known any more. */
uint64_t witness_term_at(const struct witness *witness, uint64_t index);

/* Entries, or the head of a snapshot, of a leader of this node's term or a later one. */
bool witness_agrees(const struct witness *witness, const struct raft_message *message,
                    struct contradiction *ret_contradiction);

#endif
