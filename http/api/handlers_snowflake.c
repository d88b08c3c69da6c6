/*
 * handlers_snowflake.c - GET and POST /api/snowflake/get/{key}.
 *
 * The happy path: one compare-and-swap claims the ids, the reply is appended to the connection's
 * output. No lock, no allocation, no system call (the clock is read through the vDSO).
 *
 * When a millisecond has too few ids, what there is is taken and kept, and the request parks with a
 * deadline. There is nobody who could wake it: time alone brings new ids, or the raft loop extends
 * the mark. So the loop's timer lets the parked ones try again each millisecond, oldest first.
 * They are kept in loop->waiters under a tag that is none, the loop's own. When a reply has no
 * place for one more range, the shortest is given up for it: so the most that the layout allows can
 * be had, though others claim from the same milliseconds.
 *
 * Failure modes: what the rules forbid 400 and 409; a clock or window that is no good 503 at once;
 * the deadline 503; the layout's end 507. Ids claimed for a request that then fails are burnt.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include "http/server/conn.h"
#include "http/api/refusal.h"
#include "src/base/assert.h"
#include "src/base/hot.h"

/* Before parked requests try again. */
#define RETRY_MS 1

/* A node that has just started, or was fenced off, has no worker id for a moment. So long a request
 * waits before it is told that there is none. */
#define WORKER_ID_WAIT_MS 500

/* All that a reply could ever hold: full milliseconds of one worker id. */
static uint64_t count_max(const struct snowflake *snowflake)
{
    return (uint64_t)LIMIT_RANGES_PER_REPLY << snowflake->layout.sequence_bits;
}

/* What the layout allows: 0, ERR_TOO_LARGE or ERR_NOT_CONTIGUOUS. As long as it is not known, 0. */
HOT static int claim_check(const struct snowflake *snowflake, const struct id_claim *claim)
{
    if (!atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        return 0;
    }
    if (claim->count > count_max(snowflake)) {
        return ERR_TOO_LARGE;
    }
    if (claim->contiguous && claim->count > 1u << snowflake->layout.sequence_bits) {
        return ERR_NOT_CONTIGUOUS;
    }
    return 0;
}

/* This node has no worker id. Is there none for it, or is it only still getting one? */
static bool no_worker_id(const struct id_health *health)
{
    return atomic_load(&health->snowflake_refusal) == ERR_NO_WORKER_ID &&
           atomic_load(&health->leader_known) && atomic_load(&health->applied_once);
}

static bool waited_for_worker_id(const struct http_loop *loop, const struct id_claim *claim)
{
    uint64_t begun_ms = claim->deadline_ms - claim->timeout_ms;

    return loop_now_ms(loop) >= begun_ms + WORKER_ID_WAIT_MS;
}

/* Claim what is still wanted, as far as there is time for it. 0; ERR_EMPTY: try again in a
 * millisecond; or what refuses it. */
HOT static int claim_take(struct http_loop *loop, struct id_claim *claim)
{
    struct id_backend *backend = loop->backend;
    int rv = claim_check(backend->snowflake, claim);
    struct segment_range range;
    bool notify;

    ASSERT(claim->left > 0);
    while (rv == 0 && claim->left > 0) {
        id_claim_make_room(claim);
        rv = snowflake_claim(backend->snowflake, loop->index, claim->left, prng_next(&loop->prng),
                             &range, &notify);
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

/* Answer a claim that is complete or refused. */
HOT static void answer(struct conn *conn, int rv)
{
    const struct id_backend *backend = conn->loop->backend;
    const struct id_claim *claim = &conn->claim;
    char text[REFUSAL_TEXT_BYTES];

    switch (rv) {
    case 0:
        ids_answer(conn, NULL);
        return;
    case ERR_TOO_LARGE:
        conn_fail(conn, 400, "bad_count",
                  "count=%u is more than the %llu ids of %d milliseconds, which is the most that "
                  "one reply holds in this cluster's layout",
                  claim->count, (unsigned long long)count_max(backend->snowflake),
                  LIMIT_RANGES_PER_REPLY);
        return;
    case ERR_NOT_CONTIGUOUS:
        conn_fail(conn, 409, "not_contiguous",
                  "count=%u does not fit one millisecond, which has %u ids in this cluster's "
                  "layout",
                  claim->count, 1u << backend->snowflake->layout.sequence_bits);
        return;
    case ERR_CLOCK_BACKWARDS:
    case ERR_CLOCK_SKEW:
    case ERR_WINDOW_EXPIRED:
        conn_fail(conn, 503, err_code(rv), "%s", refusal_text(backend, rv, text, sizeof(text)));
        return;
    case ERR_EPOCH_EXHAUSTED:
        conn_fail(conn, 507, err_code(rv), "%s", refusal_text(backend, rv, text, sizeof(text)));
        return;
    case ERR_NO_WORKER_ID:
        conn_fail(conn, 409, err_code(rv), "%s", refusal_text(backend, rv, text, sizeof(text)));
        return;
    case ERR_DISABLED:
        conn_fail(conn, 503, "disabled", "snowflake ids are switched off on this node");
        return;
    default:
        conn_fail_err(conn, rv);
        return;
    }
}

void snowflake_timeout(struct conn *conn)
{
    const struct id_claim *claim = &conn->claim;
    const struct id_backend *backend = conn->loop->backend;
    bool has_none = atomic_load(&backend->snowflake->slot_count) == 0;

    if (no_worker_id(backend->health)) {
        answer(conn, ERR_NO_WORKER_ID);
    } else if (has_none && !atomic_load(&backend->health->leader_known)) {
        conn_fail(conn, 503, "no_leader",
                  "this node has no worker id yet, and no leader is known to grant one; waited %u "
                  "ms",
                  claim->timeout_ms);
    } else {
        conn_fail(conn, 503, "timeout", "%u of %u ids were not there within %u ms", claim->left,
                  claim->count, claim->timeout_ms);
    }
}

/* The parked ones try again in a millisecond. */
static void retry_arm(struct http_loop *loop)
{
    loop->snowflake_again_ms = loop_now_ms(loop) + RETRY_MS;
    loop_arm(loop, loop->snowflake_again_ms);
}

static void park(struct conn *conn)
{
    struct http_loop *loop = conn->loop;
    struct id_claim *claim = &conn->claim;

    /* As for segments: a client that closed its side may have gone. */
    if (conn->ended || claim->deadline_ms <= loop_now_ms(loop)) {
        snowflake_timeout(conn);
        return;
    }
    if (waiters_add(&loop->waiters, &claim->waiter, loop->snowflake_queue, claim->deadline_ms,
                    claim->left) != 0) {
        conn_fail(conn, 503, "overloaded", "%d requests wait for ids on this loop already",
                  LIMIT_WAITERS_PER_LOOP);
        return;
    }
    conn_wait(conn);
    if (loop->snowflake_again_ms == UINT64_MAX) {
        retry_arm(loop);
    }
}

void snowflake_retry(struct http_loop *loop)
{
    struct waiter *waiter;

    loop->snowflake_again_ms = UINT64_MAX;
    while ((waiter = waiters_first(&loop->waiters, loop->snowflake_queue)) != NULL) {
        struct conn *conn = ids_conn(waiter);
        int rv = claim_take(loop, &conn->claim);

        if (rv == ERR_EMPTY) {
            retry_arm(loop);
            return;
        }
        waiters_remove(&loop->waiters, waiter);
        answer(conn, rv);
    }
}

HOT void handle_snowflake_get(struct conn *conn)
{
    struct http_loop *loop = conn->loop;
    int rv;

    if (!ids_read(conn, true)) {
        return;
    }
    if (conn->claim.keyed) {
        conn_fail(conn, 400, "bad_key",
                  "an Idempotency-Key needs a tag in strict mode; snowflake ids have no tag");
        return;
    }
    if (loop->backend->snowflake == NULL) {
        answer(conn, ERR_DISABLED);
        return;
    }
    /* Those that wait already come first. */
    if (loop->waiters.count > 0 && waiters_first(&loop->waiters, loop->snowflake_queue) != NULL) {
        rv = claim_check(loop->backend->snowflake, &conn->claim);
        rv = rv == 0 ? ERR_EMPTY : rv;
    } else {
        rv = claim_take(loop, &conn->claim);
    }
    if (rv == ERR_EMPTY) {
        park(conn);
    } else {
        answer(conn, rv);
    }
}
