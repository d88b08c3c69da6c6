/*
 * handlers_snowflake.c - GET and POST /api/snowflake/get/{key}.
 *
 * The happy path: one compare-and-swap claims the ids, the reply is appended to the connection's
 * output. No lock, no allocation, no system call (the clock is read through the vDSO).
 *
 * When a millisecond has too few ids, what there is is taken and kept, and the request parks with a
 * deadline. There is nobody who could wake it: time alone brings new ids, or the raft loop extends
 * the mark. So the loop's timer lets the parked ones try again each millisecond, oldest first, for
 * each layout by itself. When a reply has no
 * place for one more range, the shortest is given up for it: so the most that the layout allows can
 * be had, though others claim from the same milliseconds.
 *
 * Failure modes: what the rules forbid 400 and 409; a clock or window that is no good 503 at once;
 * the deadline 503; the layout's end 507. Ids claimed for a request that then fails are burnt.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/api/context.h"
#include "http/api/ids.h"
#include "http/api/refusal.h"
#include "http/api/request.h"
#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/id/snowflake/snowflake_named.h"

/* Before parked requests try again. */
#define RETRY_MS 1

/* A node that has just started, or was fenced off, has no worker id for a moment. So long a request
 * waits before it hears that there is none. */
#define WORKER_ID_WAIT_MS 500

HOT static unsigned sequence_bits(const struct snowflake *snowflake, const struct id_claim *claim)
{
    return claim->layout != NULL ? claim->layout->row.layout.bits.sequence_bits
                                 : snowflake->layout.sequence_bits;
}

/* All that a reply could ever hold: full units of time of one worker id. */
HOT static uint64_t count_max(const struct snowflake *snowflake, const struct id_claim *claim)
{
    return (uint64_t)LIMIT_RANGES_PER_REPLY << sequence_bits(snowflake, claim);
}

/* What the layout allows: 0, ERR_TOO_LARGE or ERR_NOT_CONTIGUOUS. As long as the cluster's own is
 * not known, 0. */
HOT static int claim_check(const struct snowflake *snowflake, const struct id_claim *claim)
{
    if (!atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        return 0;
    }
    if (claim->count > count_max(snowflake, claim)) {
        return ERR_TOO_LARGE;
    }
    if (claim->contiguous && claim->count > 1u << sequence_bits(snowflake, claim)) {
        return ERR_NOT_CONTIGUOUS;
    }
    return 0;
}

static __attribute__((noinline)) int claim_named(struct api_loop *loop, struct id_claim *claim,
                                                 struct segment_range *ret_range, bool *ret_notify)
{
    return snowflake_named_claim(loop->backend->snowflake, claim->layout, loop->index, claim->left,
                                 prng_next(&loop->prng), ret_range, ret_notify);
}

HOT static int claim_some(struct api_loop *loop, struct id_claim *claim,
                          struct segment_range *ret_range, bool *ret_notify)
{
    if (claim->layout != NULL) {
        return claim_named(loop, claim, ret_range, ret_notify);
    }
    return snowflake_claim(loop->backend->snowflake, loop->index, claim->left,
                           prng_next(&loop->prng), ret_range, ret_notify);
}

/* This node has no worker id. Is there none for it, or is it only still getting one? */
static bool no_worker_id(const struct id_health *health)
{
    return atomic_load(&health->snowflake_refusal) == ERR_NO_WORKER_ID &&
           atomic_load(&health->leader_known) && atomic_load(&health->applied_once);
}

static bool waited_for_worker_id(const struct api_loop *loop, const struct id_claim *claim)
{
    uint64_t begun_ms = claim->deadline_ms - claim->timeout_ms;

    return conns_now_ms(loop->conns) >= begun_ms + WORKER_ID_WAIT_MS;
}

/* Claim what is still wanted, as far as there is time for it. 0; ERR_EMPTY: try again in a
 * millisecond; or what refuses it. */
HOT static int claim_take(struct api_loop *loop, struct id_claim *claim)
{
    struct id_backend *backend = loop->backend;
    int rv = claim_check(backend->snowflake, claim);
    struct segment_range range;
    bool notify;

    ASSERT(claim->left > 0);
    while (rv == 0 && claim->left > 0) {
        id_claim_make_room(claim);
        rv = claim_some(loop, claim, &range, &notify);
        if (notify) {
            backend->ops->notify(backend);
        }
        /* The rest of a millisecond that is too short for a contiguous request is burnt. */
        if (rv == 0 && (!claim->contiguous || range.count == claim->left)) {
            id_claim_insert(claim, &range);
        }
    }
    if (rv == ERR_NO_WORKER_ID &&
        !(no_worker_id(backend->health) && waited_for_worker_id(loop, claim))) {
        return ERR_EMPTY;
    }
    return rv;
}

/* "layout sonyflake", or "this cluster's layout". */
static const char *layout_text(const struct id_claim *claim, char *text, size_t size)
{
    if (claim->layout == NULL) {
        return "this cluster's layout";
    }
    (void)snprintf(text, size, "layout %s", claim->layout->row.name);
    return text;
}

/* What only a named layout is refused with, or in other words. False: it is not. */
static bool snowflake_answer_named(struct conn *conn, const struct id_claim *claim, int rv)
{
    const struct layout_row *row = claim->layout != NULL ? &claim->layout->row : NULL;
    char time[TEXT_TIME_BYTES];

    if (row != NULL && rv == ERR_NOT_FOUND) {
        (void)reply_error(conn, 404, "unknown_layout", "layout %s was deleted", row->name);
    } else if (row != NULL && rv == ERR_CONFLICT) {
        (void)reply_error(conn, 409, "no_worker_id",
                          "none of this node's worker ids fits the %u worker bits of layout %s, "
                          "which end at %u; GET /api/workers tells who holds which",
                          row->layout.bits.worker_bits, row->name,
                          (1u << row->layout.bits.worker_bits) - 1);
    } else if (row != NULL && rv == ERR_EPOCH_EXHAUSTED) {
        (void)reply_error(conn, 507, err_code(rv),
                          "the time of layout %s is over: its last millisecond was %llu (%s)",
                          row->name, ull(named_layout_last_ms(&row->layout)),
                          text_time_rfc3339(named_layout_last_ms(&row->layout), time));
    } else {
        return false;
    }
    return true;
}

/* Answer a claim that is complete or refused. */
HOT static int snowflake_answer(struct conn *conn, const struct id_claim *claim, int rv)
{
    const struct id_backend *backend = api_loop(conn)->backend;
    char text[REFUSAL_TEXT_BYTES];
    char layout[LIMIT_LAYOUT_NAME_BYTES + sizeof "layout "];

    if (rv == 0) {
        return ids_answer(conn, claim, NULL);
    }
    if (snowflake_answer_named(conn, claim, rv)) {
        return ANSWERED;
    }
    switch (rv) {
    case ERR_TOO_LARGE:
        return reply_error(
            conn, 400, "bad_count",
            "count=%u is more than the %llu ids of %d %s, which is the most that one reply holds "
            "in %s",
            claim->count, ull(count_max(backend->snowflake, claim)), LIMIT_RANGES_PER_REPLY,
            claim->layout != NULL ? "units of time" : "milliseconds",
            layout_text(claim, layout, sizeof layout));
    case ERR_NOT_CONTIGUOUS:
        return reply_error(conn, 409, "not_contiguous",
                           "count=%u does not fit one %s, which has %u ids in %s", claim->count,
                           claim->layout != NULL ? "unit of time" : "millisecond",
                           1u << sequence_bits(backend->snowflake, claim),
                           layout_text(claim, layout, sizeof layout));
    case ERR_CLOCK_BACKWARDS:
    case ERR_CLOCK_SKEW:
    case ERR_WINDOW_EXPIRED:
    case ERR_EPOCH_EXHAUSTED:
    case ERR_NO_WORKER_ID:
        return reply_error(conn,
                           rv == ERR_EPOCH_EXHAUSTED ? 507
                           : rv == ERR_NO_WORKER_ID  ? 409
                                                     : 503,
                           err_code(rv), "%s", refusal_text(backend, rv, text, sizeof text));
    case ERR_DISABLED:
        return reply_error(conn, 503, "disabled", "snowflake ids are switched off on this node");
    default:
        return reply_err(conn, rv);
    }
}

static int snowflake_answer_timeout(struct conn *conn, const struct id_claim *claim)
{
    const struct id_backend *backend = api_loop(conn)->backend;
    bool has_none = atomic_load(&backend->snowflake->slot_count) == 0;

    if (no_worker_id(backend->health)) {
        return snowflake_answer(conn, claim, ERR_NO_WORKER_ID);
    }
    if (has_none && !atomic_load(&backend->health->leader_known)) {
        return reply_error(
            conn, 503, "no_leader",
            "this node has no worker id yet, and no leader is known to grant one; waited %u ms",
            claim->timeout_ms);
    }
    return reply_error(conn, 503, "timeout", "%u of %u ids were not there within %u ms",
                       claim->left, claim->count, claim->timeout_ms);
}

/* The connection goes away; ids that the clock brings are not counted as burnt. */
static void snowflake_cancel(struct http_wait *wait)
{
    struct parked *parked = CONTAINER(wait, struct parked, wait);

    waiters_remove(&parked->loop->waiters, &parked->waiter);
    free(parked);
}

static void snowflake_expire(struct http_wait *wait)
{
    struct parked *parked = CONTAINER(wait, struct parked, wait);

    snowflake_answer_timeout(parked_resume(parked), &parked->claim);
    free(parked);
}

/* The parked ones try again in a millisecond. */
static void snowflake_retry_arm(struct api_loop *loop)
{
    timer_arm_by(&loop->conns->timers, &loop->snowflake_retry,
                 conns_now_ms(loop->conns) + RETRY_MS);
}

static int snowflake_park(struct conn *conn, const struct id_claim *claim)
{
    struct api_loop *loop = api_loop(conn);

    /* As for segments: a client that closed its side may have gone. */
    if (conn->wire.ended || claim->deadline_ms <= conns_now_ms(loop->conns)) {
        return snowflake_answer_timeout(conn, claim);
    }
    if (parked_begin(conn, claim, NULL, snowflake_cancel, snowflake_expire)) {
        snowflake_retry_arm(loop);
    }
    return ANSWERED;
}

void snowflake_retry_fire(struct timer *timer, uint64_t now_ms)
{
    struct api_loop *loop = CONTAINER(timer, struct api_loop, snowflake_retry);
    struct parked *parked = parked_for_clock(&loop->waiters, NULL);

    (void)now_ms;
    if (parked == NULL) {
        parked = parked_for_next_clock(&loop->waiters, NULL);
    }
    while (parked != NULL) {
        const struct layout_words *layout = parked->claim.layout;
        int rv = claim_take(loop, &parked->claim);

        if (rv == ERR_EMPTY) {
            snowflake_retry_arm(
                loop); /* those of another layout do not wait for this one's clock */
            parked = parked_for_next_clock(&loop->waiters, layout);
            continue;
        }
        snowflake_answer(parked_resume(parked), &parked->claim, rv);
        free(parked);
        parked = parked_for_clock(&loop->waiters, layout);
        if (parked == NULL) {
            parked = parked_for_next_clock(&loop->waiters, layout);
        }
    }
}

HOT int snowflake_begin(struct conn *conn, struct id_claim *claim)
{
    struct api_loop *loop = api_loop(conn);
    int rv;

    if (loop->backend->snowflake == NULL) {
        return snowflake_answer(conn, claim, ERR_DISABLED);
    }
    /* Those that wait already come first. */
    if (parked_for_clock(&loop->waiters, claim->layout) != NULL) {
        rv = claim_check(loop->backend->snowflake, claim);
        rv = rv == 0 ? ERR_EMPTY : rv;
    } else {
        rv = claim_take(loop, claim);
    }
    return rv == ERR_EMPTY ? snowflake_park(conn, claim) : snowflake_answer(conn, claim, rv);
}

HOT int handle_snowflake_get(struct conn *conn)
{
    struct id_claim claim;

    if (!ids_read(conn, &claim, true)) {
        return ANSWERED;
    }
    conn->request.known = claim.plain ? conn : NULL; /* the key is a name, should the head repeat */
    if (claim.keyed) {
        return reply_error(
            conn, 400, "bad_key",
            "an Idempotency-Key needs a tag in strict mode; snowflake ids have no tag");
    }
    return snowflake_begin(conn, &claim);
}
