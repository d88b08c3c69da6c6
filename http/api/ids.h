/*
 * ids.h - taking ids: what a request for ids says, what it has claimed so far, how it waits for
 * more and is answered, and the data plane of tags, GET and POST /api/segment/get/{tag}.
 *
 * The happy path: the tag is found in the id table, one compare-and-swap claims the ids, the reply
 * is appended to the connection's output. No lock, no allocation, no system call.
 *
 * When the ids there are too few, the request parks with a deadline and is woken, oldest first,
 * when the raft loop has published more. What is there it leaves where it is, so that a request
 * that fails has used up nothing, as long as there is room for another segment; it takes and keeps
 * a part only where nothing more could come else. No wake-up is lost:
 * this loop's bit in tag->waiting_loops is set before the claim is tried again, and the raft loop
 * publishes before it takes the bits; both change the same word, so one of the two sees the other.
 *
 * The ids that parked requests want are counted in tag->demand, so that segments are sized for
 * them.
 *
 * The ids of a tag in strict or monotonic mode, also of one that became so while its request was
 * parked, come from the log, or the leader, by a request (ID_REQUEST_STRICT) for each, so that an
 * id is greater than every id of its tag whose reply arrived anywhere before the request was sent:
 * tag, count and Idempotency-Key go to the backend, and the answer is one range. When the tag is in
 * trend mode after all (this node lags), a request without a key begins anew with a segment;
 * one with a key is refused, because a segment cannot keep its promise.
 *
 * Failure modes: unknown tag 404 (only the cluster may say so), exhausted 409, not contiguous 409,
 * the deadline 503, too many parked or too many ranges 503; a bad key 400, one that was used with
 * another count 409. The parts that a request of more than two segments had taken when it fails are
 * burnt: an id may be skipped, never repeated, and what is above them may have been handed out. Nor
 * does a claim take anything while it is known that too few are left. After a 503
 * `timeout` of a strict tag the ids may have been used up; with a key the same request can be
 * repeated without losing any.
 *
 * Thread: the loop's; tag->demand and the count of waiters are atomics.
 */
#ifndef LEAFD_HTTP_API_IDS_H
#define LEAFD_HTTP_API_IDS_H

#include "http/api/context.h"
#include "http/server/conn.h"
#include "src/base/err.h"

/* --- the ranges of a claim --- */

/* Add a range, joined to the last one where it goes on. False if it does not fit. */
bool id_claim_add(struct id_claim *claim, const struct segment_range *range);

/* See that there is a place for one more range: when all are taken, the shortest range is given up,
 * and its ids are wanted again. */
void id_claim_make_room(struct id_claim *claim);

/* Add a range where it belongs by its ids, joined to its neighbours where they go on. There is room
 * (ASSERT). */
void id_claim_insert(struct id_claim *claim, const struct segment_range *range);

/* --- claims that wait --- */

/* Park. 0, or ERR_OVERLOADED: there are LIMIT_WAITERS_PER_LOOP. */
int waiters_add(struct waiters *waiters, struct waiter *waiter, struct id_tag *tag,
                uint64_t demand) MUST_CHECK;

/* Take a parked one out, and its demand back. */
void waiters_remove(struct waiters *waiters, struct waiter *waiter);

/* A parked one wants fewer ids now. */
void waiters_set_demand(struct waiter *waiter, uint64_t demand);

/* The oldest parked one of a tag, NULL if there is none. */
struct waiter *waiters_first(struct waiters *waiters, const struct id_tag *tag);

/* The oldest parked one of a clock, or of the first clock after it; NULL if there is none. */
struct waiter *waiters_of_clock(struct waiters *waiters, const void *clock, bool after);

/* The next one of the same tag. */
struct waiter *waiters_after(struct waiter *waiter);

/* --- taking them --- */

/* A claim of so many ids of a tag, with nothing claimed yet and the waiting time of the settings.
 * The caller sets the name, and answer where the format is ID_FORMAT_OTHER. */
void id_claim_init(struct conn *conn, struct id_claim *claim, uint32_t count);

/* Ids of a claim, whose other options were read, are to be of this layout. False: it cannot give
 * them, or there is none; answered. */
bool id_claim_layout(struct conn *conn, struct id_claim *claim, const char *name, size_t len);

/* Read name and options of a request, with nothing claimed yet. False if they are wrong;
 * answered. */
bool ids_read(struct conn *conn, struct id_claim *claim, bool snowflake);

/* Answer with the ids of a claim that is complete. extra: more header lines with CRLF, or NULL.
 * Returns ANSWERED. */
int ids_answer(struct conn *conn, const struct id_claim *claim, const char *extra);

/* Take the ids of a claim that was read, and answer. tag: the table's entry of its name, NULL: it
 * has none. Return as a handler does. */
int segment_begin(struct conn *conn, struct id_claim *claim, struct id_tag *tag);

/* Made when a claim parks; freed when it is answered or its connection closes. */
struct parked {
    struct http_wait wait;
    struct api_loop *loop;
    struct waiter waiter;
    struct id_claim claim;
};

/* Park a copy of the claim until its deadline. False if too many wait; answered. */
bool parked_begin(struct conn *conn, const struct id_claim *claim, struct id_tag *tag,
                  void (*cancel)(struct http_wait *wait), void (*expire)(struct http_wait *wait));

/* The oldest that waits for the clock, for ids of the layout; or, after it, of the first layout
 * that follows in their order. NULL: none does. */
struct parked *parked_for_clock(struct waiters *waiters, const struct layout_words *layout,
                                bool after);

/* It waits no more: to be answered and freed. Returns its connection. */
struct conn *parked_resume(struct parked *parked);

/* The layout of the name, deleted or not; NULL: there is none, answered. */
struct layout_words *layout_named(struct conn *conn, const char *name, size_t len);

#endif
