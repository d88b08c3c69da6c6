/*
 * lease_ask.h - the commands of a lease's slot: acquire and renew, and what becomes of their
 * results.
 *
 * The happy path: a slot without a worker id acquires one under its name; the row that comes back
 * is taken. A slot that serves renews every renew_ms, with its epoch and the bound it knows, and
 * the row that comes back has a later end.
 *
 * An acquire is not given up: it is repeated until it is answered, and carried out once
 * (session.h). Another one would get a window that begins where the first one's ends, far in the
 * future. Its result is the only way in which its row is taken. One that comes late may be of a
 * worker id that was released since: then a renewal must confirm it before it is recorded.
 *
 * Failure modes: no answer, no leader: a renewal is made again at the next time due. ERR_EMPTY: the
 * log has no time yet, again soon. ERR_CLOCK_SKEW: the log's time is behind ours by more than it
 * allows; that is also so for a moment after a cluster stood still, so it counts only once it lasts
 * (lease.c). ERR_FENCED, ERR_NOT_FOUND: the worker id is lost. ERR_NO_WORKER_ID: again after
 * renew_ms.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_SNOWFLAKE_LEASE_ASK_H
#define LEAFD_ID_SNOWFLAKE_LEASE_ASK_H

#include "src/id/snowflake/lease_slot.h"

/* Propose what is due, if anything. */
void lease_slot_ask(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms);

/* Monotonic ms of the next command; UINT64_MAX if something else has to happen first. */
uint64_t lease_slot_next_ms(const struct lease_slot *slot);

#endif
