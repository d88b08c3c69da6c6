/*
 * strict.h - the batcher of requests for strict and monotonic ids: the requests waiting on this
 * node, of all tags, go into one command a turn, or into one request to the leader
 * (docs/monotonic.md).
 *
 * The happy path: strict_submit() queues a request. A timer that is due at once packs the waiting
 * requests, up to LIMIT_STRICT_ITEMS, into one COMMAND_STRICT and proposes it (a batch that is
 * small beside those under way waits a moment for more; batch.h). The leader appends the batches of
 * all nodes in one step. The results answer the requests.
 *
 * Invariants:
 *  - A request's item is in at most one batch that may still be applied with an answer. An item is
 *    put into a second batch only if the first answer is that it got no ids
 *    (ERR_CHANGING, ERR_EMPTY, ERR_STALE, or ERR_WRONG_MODE with a mode that has no segments).
 *  - A batch is closed when it is sent: its ids are for the requests in it, or burnt (R8).
 *  - Strict and monotonic items share no batch.
 *  - At most LIMIT_STRICT_BATCHES of a kind are under way. A batch is over when its answer came or
 *    its deadline passed; requests.h repeats it in between. A command is applied once (session.h);
 *    each copy of a monotonic batch takes ids of its own.
 *  - A request that got ids for which this node, whose log is late, has no texts yet waits and
 *    keeps the ids; it is not sent again.
 *  - A request is answered once: by its result, or at its own deadline with ERR_TIMEOUT or
 *    ERR_NO_LEADER. Ids that its batch brings later are then burnt (counted).
 *
 * Failure modes: as id_backend.h lists for ID_REQUEST_STRICT. More than LIMIT_STRICT_WAITING:
 * ERR_OVERLOADED. A batch that fails for good (ERR_TOO_LARGE, ERR_DISK_FULL, ...) answers its
 * requests with its status.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_ALLOC_STRICT_H
#define LEAFD_ID_ALLOC_STRICT_H

#include "src/base/clock.h"
#include "src/base/stats.h"
#include "src/id/codec/command.h"
#include "src/id/codec/request.h"

#define STRICT_RETRY_MS 20 /* pause after ERR_CHANGING or ERR_EMPTY */
#define STRICT_LATE_MS 100 /* beyond its deadline a request waits for the answer when asked again */

struct allocator;
struct strict;

/* Limits of the batches from now on; strict_new()'s key_limit sets both at first. key_share: keys
 * for a client whose request names no number. */
void strict_limit_keys(struct strict *strict, uint32_t key_limit, uint32_t key_share);

/* The present period of a tag with a date in its shape (shape.h); 0: the tag has no date, or is not
 * known here. Called for each request that goes into a batch. NULL, as at first: none has. */
typedef uint32_t (*strict_period_fn)(void *data, const char *name, size_t name_len);
void strict_dates(struct strict *strict, strict_period_fn period, void *data);

/* key_limit: 1..LIMIT_KEYS. answers: where requests go that are over, with reply and status.
 * allocator: it knows the keys of texts, and notes which tags are in use. */
struct strict *strict_new(uint32_t key_limit, const struct clock *clock, struct timers *timers,
                          struct id_proposer *proposer, struct answers *answers,
                          struct allocator *allocator);

/* All requests must have been answered (after strict_stop() and the proposer's end). Accepts
 * NULL. */
void strict_free(struct strict *strict);

/* A request of kind ID_REQUEST_STRICT. */
void strict_submit(struct strict *strict, struct cluster_request *request);

/* While no leader is known, nothing is sent (waiting requests go in few large batches to the next
 * leader), and late requests get ERR_NO_LEADER instead of ERR_TIMEOUT. Each turn of the loop may
 * call this. */
void strict_turn(struct strict *strict, bool leader_known);

/* Answer all waiting and all later requests with ERR_SHUTTING_DOWN. Batches under way are still
 * answered. */
void strict_stop(struct strict *strict);

struct strict_counts {
    uint64_t burnt; /* ids allocated for requests that had already been answered with an error; but
                       not those under a key, which a retry still gets */
    struct histogram took; /* from submit to the answer, whatever it is */
};
const struct strict_counts *strict_counts(const struct strict *strict);

#endif
