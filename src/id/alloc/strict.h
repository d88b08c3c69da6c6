/*
 * strict.h - the batcher of requests for strict and monotonic ids: what waits on this node, of all
 * tags, goes into one command a turn, or into one request to the leader (docs/monotonic.md).
 *
 * The happy path: strict_submit() queues a request; a timer that is due at once packs what waits,
 * up to LIMIT_STRICT_ITEMS, into one COMMAND_STRICT and proposes it (little beside much that is
 * under way waits a moment for more; batch.h); the leader appends what came from all nodes in one
 * step; the results answer the requests.
 *
 * Invariants:
 *  - A request's item is in at most one batch that may still be applied with an answer. An item is
 *    put into a second batch only if the first one's answer said that it got nothing
 *    (ERR_CHANGING, ERR_EMPTY, ERR_STALE, or ERR_WRONG_MODE with a mode that has no segments).
 *  - A batch is closed when it leaves: what it brings is for the requests in it, or burnt (R8).
 *  - Strict and monotonic items share no batch.
 *  - At most LIMIT_STRICT_BATCHES of a kind are under way. A batch is over when its answer came or
 *    its deadline passed; requests.h repeats it in between. A command is applied once (session.h),
 *    of a monotonic batch each copy takes ids of its own.
 *  - A request that got ids which this node has no texts for yet, since its log is behind, waits
 *    with them; nothing else asks for it again.
 *  - A request is answered once: by its result, or at its own deadline with ERR_TIMEOUT or
 *    ERR_NO_LEADER, and then what its batch brings later is burnt (counted).
 *
 * Failure modes: as id_backend.h says for ID_REQUEST_STRICT. More than LIMIT_STRICT_WAITING:
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

/* Called, on the owner's thread, when a request is over, also from inside strict_submit(); it
 * sets request->status and reply before. */
typedef void (*strict_answer_fn)(void *data, struct id_request *request, int status);

struct strict;

/* Of the batches from now on; until then what strict_new() was given, of both. key_share: of the
 * keys, a client whose request does not say may have. */
void strict_limit_keys(struct strict *strict, uint32_t key_limit, uint32_t key_share);

/* Of a tag with a date in its shape, the period that it is now (shape.h); 0: it has none, or
 * it is not known here. Called for each request that goes into a batch. NULL, as at first: no tag
 * has one. */
typedef uint32_t (*strict_period_fn)(void *data, const char *name, size_t name_len);
void strict_dates(struct strict *strict, strict_period_fn period, void *data);

/* Has this node the keys that the texts of the request's ids, from `first` on, need
 * (src/id/codec/shape.h)? Called for each request that got ids; while it is false, the request
 * keeps them and waits. NULL, as at first: it has. */
typedef bool (*strict_keys_fn)(void *data, const struct id_request *request, uint64_t first);
void strict_keys(struct strict *strict, strict_keys_fn has_keys, void *data);

/* key_limit: strict.keys. */
struct strict *strict_new(uint32_t key_limit, const struct clock *clock, struct timers *timers,
                          struct id_proposer *proposer, strict_answer_fn answer, void *data);

/* All requests must have been answered (after strict_stop() and the proposer's end). Accepts
 * NULL. */
void strict_free(struct strict *strict);

/* A request of kind ID_REQUEST_STRICT. */
void strict_submit(struct strict *strict, struct id_request *request);

/* While no leader is known, nothing is sent (what waits goes in few large batches to the next one),
 * and what becomes late gets ERR_NO_LEADER instead of ERR_TIMEOUT. Each turn of the loop may call
 * it. */
void strict_turn(struct strict *strict, bool leader_known);

/* Answer all that waits with ERR_SHUTTING_DOWN, and what comes from now on. Batches under way are
 * still answered. */
void strict_stop(struct strict *strict);

/* Ids that were allocated for requests which had been answered with an error by then; but not those
 * under a key, which a retry still gets. */
uint64_t strict_burnt(const struct strict *strict);

/* How long requests took, from submit to their answer, whatever it is. */
const struct histogram *strict_took(const struct strict *strict);

#endif
