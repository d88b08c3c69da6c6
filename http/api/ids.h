/*
 * ids.h - taking ids: reading a request for ids, claiming, waiting for more, answering; and the
 * data plane of tags, GET and POST /api/segment/get/{tag}.
 *
 * The happy path: the tag is found in the id table, one compare-and-swap claims the ids, the reply
 * is appended to the connection's output. No lock, no allocation, no system call.
 *
 * When too few ids are available, the request parks with a deadline. It is woken, oldest first,
 * when the raft loop has published more. While there is room for another segment, a parked request
 * leaves the available ids in place, so that a request that fails uses up nothing. It takes and
 * keeps a part only when nothing more could arrive otherwise. No wake-up is lost: this loop's bit
 * in tag->waiting_loops is set before the claim is tried again, and the raft loop publishes before
 * it takes the bits. Both change the same word, so one of the two sees the other. Segments are
 * sized for what parked requests want (tag->demand).
 *
 * The ids of a tag in strict or monotonic mode come from the log, or the leader, by one request
 * (ID_REQUEST_STRICT) each, also if the tag changed to such a mode while its request was parked. An
 * id is thus greater than every id of its tag whose reply arrived anywhere before the request was
 * sent. If the tag turns out to be in trend mode (this node lags), a request without an
 * Idempotency-Key begins anew with a segment; one with a key is refused, because a segment cannot
 * keep its promise.
 *
 * Failure modes: unknown tag 404 (only the cluster may say so), exhausted 409, not contiguous 409,
 * the deadline 503, too many parked or too many ranges 503; a bad key 400, a key used with another
 * count 409. When a request of more than two segments fails, the parts that it had taken are burnt,
 * since ids above them may have been handed out: an id may be skipped, never repeated. A claim
 * takes nothing while too few ids are known to be left. After a 503 `timeout` of a strict tag the
 * ids may have been used up; with a key the same request can be repeated without losing any.
 *
 * Thread: the loop's; tag->demand and the count of waiters are atomics.
 */
#ifndef LEAFD_HTTP_API_IDS_H
#define LEAFD_HTTP_API_IDS_H

#include "http/api/request.h"
#include "http/server/conn.h"
#include "src/base/err.h"

/* --- the ranges of a claim --- */

/* Add a range, joined to the last one if it continues that. False if it does not fit. */
bool id_claim_add(struct id_claim *claim, const struct segment_range *range);

/* Make room for one more range: when all places are taken, the shortest range is given up, and its
 * ids are wanted again. */
void id_claim_make_room(struct id_claim *claim);

/* Add a range in the order of ids, joined to adjacent neighbours. There is room (ASSERT). */
void id_claim_insert(struct id_claim *claim, const struct segment_range *range);

/* --- claims that wait --- */

/* Park. 0, or ERR_OVERLOADED: LIMIT_WAITERS_PER_LOOP are parked. */
int waiters_add(struct waiters *waiters, struct waiter *waiter, struct id_tag *tag,
                uint64_t demand) MUST_CHECK;

/* Remove a parked waiter, and take back its demand. */
void waiters_remove(struct waiters *waiters, struct waiter *waiter);

/* A parked waiter wants fewer ids now. */
void waiters_set_demand(struct waiter *waiter, uint64_t demand);

/* The oldest parked waiter of a tag (clock NULL) that came as number `seq` or later. tag NULL: of
 * the clock, which is a layout's, or if that has none, of the next clock in order. NULL: none. */
struct waiter *waiters_find(struct waiters *waiters, const struct id_tag *tag, const void *clock,
                            uint64_t seq);

/* --- taking them --- */

/* Make a claim of `count` ids of a tag, with nothing claimed yet and the waiting time of the
 * settings. The caller sets the name, and `answer` if the format is ID_FORMAT_OTHER. */
void id_claim_init(struct conn *conn, struct id_claim *claim, uint32_t count);

/* Set the layout of a claim whose other options were read. False: the layout cannot give these ids,
 * or does not exist; answered. */
bool id_claim_layout(struct conn *conn, struct id_claim *claim, const char *name, size_t len);

/* Read name and options of a request, with nothing claimed yet, and charge for it. False:
 * answered. */
bool ids_read(struct conn *conn, struct id_claim *claim, bool snowflake);

/* Answer with the ids of a claim that is complete. extra: more header lines with CRLF, or NULL.
 * Returns ANSWERED. */
int ids_answer(struct conn *conn, const struct id_claim *claim, const char *extra);

/* Take the ids of a claim that was read, and answer. tag: the table's entry of its name, NULL:
 * none. Returns as a handler does. */
int segment_begin(struct conn *conn, struct id_claim *claim, struct id_tag *tag);

/* Park a copy of the claim until its deadline. False: that has come, the client has closed its
 * side, or too many wait; answered. */
bool parked_begin(struct conn *conn, struct id_claim *claim, struct id_tag *tag, claim_late *late);

/* End its wait; the caller answers and frees it. Returns its connection. */
struct conn *parked_resume(struct waiter *waiter);

/* The layout of that name, deleted or not; NULL: there is none; answered. */
struct layout_words *layout_named(struct conn *conn, const char *name, size_t len);

/* The layout that an option or a field names; NULL if that is absent. False: there is none of that
 * name; answered. */
bool layout_of(struct conn *conn, const struct param *named,
               const struct layout_words **ret_layout);

/* --- snowflake ids (snowflake.c): why they are refused; taking them, and taking them apart --- */

/* Every error with which snowflake ids may be refused, apart from "disabled". */
#define REFUSAL_CODES                                                                              \
    {                                                                                              \
        ERR_CLOCK_BACKWARDS, ERR_CLOCK_SKEW, ERR_WINDOW_EXPIRED, ERR_EPOCH_EXHAUSTED,              \
            ERR_NO_WORKER_ID, ERR_DISK_FULL                                                        \
    }

/* The backend's present state: 0, or one of REFUSAL_CODES. 0 also if snowflake ids are switched
 * off. */
int refusal_now(const struct id_backend *backend);

/* True if snowflake ids are served on this node, now or at another time. */
bool refusal_enabled(const struct id_backend *backend);

/* The wall time from which ids continue, if known; 0: time alone does not help. */
uint64_t refusal_wait_until_ms(const struct id_backend *backend, int err);

/* A sentence on an error of REFUSAL_CODES into out, cut to size. Returns out. */
const char *refusal_text(const struct id_backend *backend, int err, char *out, size_t size);

#define REFUSAL_TEXT_BYTES 320

/* Take an id apart, by the named layout or (NULL) the cluster's own. False: answered. */
bool snowflake_take_apart(struct conn *conn, const struct layout_words *named, uint64_t id,
                          struct snowflake_parts *ret_parts);

/* The smallest id of a time, by the named layout or the cluster's own; the texts are as the client
 * sent them. False: answered. */
bool snowflake_id_at(struct conn *conn, const struct param *time, const struct param *named,
                     uint64_t *ret_id);

/* Take the ids of a claim that was read, and answer. Returns as a handler does. */
int snowflake_begin(struct conn *conn, struct id_claim *claim);

#endif
