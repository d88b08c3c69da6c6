/*
 * handlers_ids.c - the data plane: GET and POST /api/segment/get/{tag}.
 *
 * The happy path: the tag is found in the id table, one compare-and-swap claims the ids, the reply
 * is appended to the connection's output. No lock, no allocation, no system call.
 *
 * When the ids there are too few, what is there is taken and kept, the request parks with a
 * deadline and is woken, oldest first, when the raft loop has published more. No wake-up is lost:
 * the own bit in tag->waiting_loops is set before the claim is tried again, and the raft loop
 * publishes before it takes the bits; both change the same word, so one of the two sees the other.
 *
 * A tag in strict mode goes to handlers_strict.c, also one that became strict while its request was
 * parked.
 *
 * Failure modes: unknown tag 404 (only the cluster may say so), exhausted 409, not contiguous 409,
 * the deadline 503, too many parked or too many ranges 503. Ids claimed for a request that then
 * fails are burnt: an id may be skipped, never repeated.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include <string.h>

#include "http/server/conn.h"
#include "src/base/assert.h"
#include "src/base/hot.h"
#include "src/base/yield.h"

/* Asking the cluster whether a tag exists may take so long, even for a request that will not wait
 * for ids: without it a tag could never become known to clients that ask with timeout_ms=0. */
#define OPEN_WAIT_MIN_MS 500

enum claim_result {
    CLAIM_DONE,
    CLAIM_EMPTY,
    CLAIM_UNKNOWN,
    CLAIM_EXHAUSTED,
    CLAIM_NOT_CONTIGUOUS,
    CLAIM_SCATTERED, /* more ranges than a reply may have */
    CLAIM_STRICT     /* the tag has no segments: its ids come from the log */
};

static void ids_start(struct conn *conn);
static void ids_open(struct conn *conn);

struct conn *ids_conn(struct waiter *waiter)
{
    /* The waiter is the claim's first member. */
    return (struct conn *)((char *)waiter - offsetof(struct conn, claim));
}

/* Ask for a refill, unless somebody has or there is nothing to be had. */
static void tag_want(struct id_backend *backend, struct id_tag *tag)
{
    if (atomic_load_explicit(&tag->state, memory_order_relaxed) == ID_TAG_ACTIVE &&
        !atomic_load_explicit(&tag->refill_wanted, memory_order_relaxed) &&
        !atomic_exchange(&tag->refill_wanted, true)) {
        YIELD("set refill_wanted");
        backend->ops->want(backend, tag);
    }
}

/* One claim of the buffer into the claim's ranges. 0, ERR_EMPTY, or ERR_OVERLOADED (too many
 * ranges). */
HOT static int claim_step(struct http_loop *loop, struct id_tag *tag, struct id_claim *claim)
{
    struct id_backend *backend = loop->backend;
    struct segment_range range;
    struct segment_view view;
    int rv = claim->contiguous ? segment_claim_whole(&tag->buffer, claim->left, &range, &view)
                               : segment_claim(&tag->buffer, claim->left, &range, &view);

    if (view.skipped > 0) {
        loop_count(&loop->counts.burnt_skipped, view.skipped);
    }
    if (rv == ERR_EMPTY) {
        return rv;
    }
    ASSERT(rv == 0);
    ASSERT_IMPLIES(claim->contiguous, range.count == claim->left);
    if (!view.next_ready && refill_due(view.used, view.size, backend->refill_percent)) {
        tag_want(backend, tag);
    }
    if (!id_claim_add(claim, &range)) {
        loop_count(&loop->counts.burnt_unanswered, range.count);
        return ERR_OVERLOADED;
    }
    return 0;
}

/* What it means that the buffer could not give all. */
static enum claim_result claim_short(struct id_backend *backend, struct id_tag *tag,
                                     const struct id_claim *claim)
{
    uint32_t state;

    YIELD("found too few ids");
    state = atomic_load(&tag->state);
    if (state == ID_TAG_UNKNOWN) {
        return CLAIM_UNKNOWN;
    }
    if (state == ID_TAG_STRICT) {
        return CLAIM_STRICT;
    }
    if (state != ID_TAG_EXHAUSTED) {
        YIELD("saw the tag's state");
        tag_want(backend, tag);
        return CLAIM_EMPTY;
    }
    return claim->contiguous && segment_left(&tag->buffer) > 0 ? CLAIM_NOT_CONTIGUOUS
                                                               : CLAIM_EXHAUSTED;
}

/* Claim what is still wanted, as far as the tag has it. */
HOT static enum claim_result claim_take(struct http_loop *loop, struct id_tag *tag,
                                        struct id_claim *claim)
{
    struct id_backend *backend = loop->backend;
    uint32_t state = atomic_load_explicit(&tag->state, memory_order_acquire);
    uint32_t max_step = atomic_load_explicit(&tag->max_step, memory_order_relaxed);
    int rv = 0;

    ASSERT(claim->left > 0);
    if (state == ID_TAG_UNKNOWN) {
        return CLAIM_UNKNOWN;
    }
    if (state == ID_TAG_STRICT) {
        return CLAIM_STRICT;
    }
    if (claim->contiguous && max_step != 0 && claim->count > max_step) {
        return CLAIM_NOT_CONTIGUOUS;
    }
    /* Nothing more will come: taking a part would only burn it. */
    if ((state == ID_TAG_EXHAUSTED || claim->timeout_ms == 0) &&
        segment_left(&tag->buffer) < claim->left) {
        return claim_short(backend, tag, claim);
    }
    while (rv == 0 && claim->left > 0) {
        rv = claim_step(loop, tag, claim);
    }
    if (rv == ERR_OVERLOADED) {
        return CLAIM_SCATTERED;
    }
    return rv == 0 ? CLAIM_DONE : claim_short(backend, tag, claim);
}

HOT void ids_answer(struct conn *conn, const char *extra)
{
    const struct id_claim *claim = &conn->claim;
    struct loop_counts *counts = &conn->loop->counts;
    struct buf *scratch = &conn->loop->scratch;
    char digits[TEXT_DECIMAL_BYTES];

    loop_count(claim->snowflake ? &counts->snowflake_ids
               : claim->strict  ? &counts->strict_ids
                                : &counts->segment_ids,
               claim->count);
    if (!claim->counted && claim->format == ID_FORMAT_TEXT) {
        ASSERT(claim->range_count == 1 && claim->ranges[0].count == 1);
        conn_reply(conn, 200, RESPONSE_TEXT, extra, digits,
                   text_decimal(claim->ranges[0].first, digits));
        return;
    }
    scratch->len = 0;
    id_claim_put(claim, scratch);
    conn_reply(conn, 200, claim->format == ID_FORMAT_JSON ? RESPONSE_JSON : RESPONSE_TEXT, extra,
               scratch->data, scratch->len);
}

/* The request fails, or begins anew: what it had claimed so far is burnt. */
static void claim_burn(struct conn *conn)
{
    struct id_claim *claim = &conn->claim;

    ASSERT(!claim->snowflake);
    if (claim->left < claim->count) {
        loop_count(&conn->loop->counts.burnt_unanswered, claim->count - claim->left);
    }
    claim->left = claim->count;
    claim->range_count = 0;
}

static void answer_timeout(struct conn *conn)
{
    const struct id_claim *claim = &conn->claim;
    const struct id_health *health = conn->loop->backend->health;

    if (!atomic_load(&health->leader_known)) {
        conn_fail(conn, 503, "no_leader",
                  "no ids in memory and no leader to grant more; waited %u ms", claim->timeout_ms);
    } else {
        conn_fail(conn, 503, "timeout", "%u of %u ids were not granted within %u ms", claim->left,
                  claim->count, claim->timeout_ms);
    }
    claim_burn(conn);
}

COLD static void fail_claim(struct conn *conn, struct id_tag *tag, enum claim_result result)
{
    const struct id_claim *claim = &conn->claim;
    char shown[160];

    text_show(claim->name, claim->name_len, shown, sizeof(shown));
    switch (result) {
    case CLAIM_UNKNOWN:
        conn_fail(conn, 404, "unknown_tag", "there is no tag %s", shown);
        return;
    case CLAIM_EXHAUSTED:
        conn_fail(conn, 409, "exhausted", "tag %s has no %u ids left below 2^63", shown,
                  claim->count);
        return;
    case CLAIM_NOT_CONTIGUOUS:
        conn_fail(conn, 409, "not_contiguous",
                  "count=%u does not fit one segment of tag %s, whose max_step is %u", claim->count,
                  shown, atomic_load(&tag->max_step));
        return;
    case CLAIM_SCATTERED:
        conn_fail(conn, 503, "overloaded", "count=%u would take more than %d ranges of tag %s",
                  claim->count, LIMIT_RANGES_PER_REPLY, shown);
        return;
    case CLAIM_DONE:
    case CLAIM_EMPTY:
    case CLAIM_STRICT:
        break;
    }
    UNREACHABLE("a result of a claim that fails");
}

HOT static void answer_claim(struct conn *conn, struct id_tag *tag, enum claim_result result)
{
    switch (result) {
    case CLAIM_DONE:
        ids_answer(conn, NULL);
        return;
    case CLAIM_EMPTY:
        answer_timeout(conn);
        return;
    case CLAIM_STRICT:
        claim_burn(conn);
        strict_start(conn);
        return;
    case CLAIM_UNKNOWN:
    case CLAIM_EXHAUSTED:
    case CLAIM_NOT_CONTIGUOUS:
    case CLAIM_SCATTERED:
        claim_burn(conn);
        fail_claim(conn, tag, result);
        return;
    }
    UNREACHABLE("a result of a claim");
}

/* Wait for more ids. */
static void ids_park(struct conn *conn, struct id_tag *tag)
{
    struct http_loop *loop = conn->loop;
    struct id_claim *claim = &conn->claim;

    /* A client that has closed its side cannot be told from one that has gone; nobody may ever read
     * the ids, so none are claimed for it. */
    if (conn->ended || claim->deadline_ms <= loop_now_ms(loop)) {
        answer_timeout(conn);
        return;
    }
    if (waiters_add(&loop->waiters, &claim->waiter, tag, claim->deadline_ms, claim->left) != 0) {
        conn_fail(conn, 503, "overloaded", "%d requests wait for ids on this loop already",
                  LIMIT_WAITERS_PER_LOOP);
        claim_burn(conn);
        return;
    }
    conn_wait(conn);
    loop_arm(loop, claim->deadline_ms);
    YIELD("added to the demand");
    ids_wake(loop, tag);
}

void ids_wake(struct http_loop *loop, struct id_tag *tag)
{
    struct waiter *waiter = waiters_first(&loop->waiters, tag);
    struct waiter *next;

    if (waiter == NULL) {
        return;
    }
    atomic_fetch_or(&tag->waiting_loops, UINT64_C(1) << loop->index);
    YIELD("set the waiting bit");
    for (; waiter != NULL; waiter = next) {
        struct conn *conn = ids_conn(waiter);
        enum claim_result result = claim_take(loop, tag, &conn->claim);

        next = waiters_after(waiter);
        if (result != CLAIM_EMPTY) {
            waiters_remove(&loop->waiters, waiter);
            answer_claim(conn, tag, result);
            continue;
        }
        waiters_set_demand(waiter, conn->claim.left);
        if (!conn->claim.contiguous) {
            /* Not one id is left. A contiguous request may leave some to those behind it. */
            break;
        }
    }
}

void ids_expire(struct http_loop *loop, uint64_t now_ms)
{
    struct waiter *waiter;

    while ((waiter = waiters_due(&loop->waiters, now_ms)) != NULL) {
        struct conn *conn = ids_conn(waiter);

        waiters_remove(&loop->waiters, waiter);
        if (conn->claim.snowflake) {
            snowflake_timeout(conn);
        } else {
            answer_timeout(conn);
        }
    }
}

void ids_forget(struct conn *conn)
{
    if (!conn->claim.snowflake) {
        claim_burn(conn);
    }
    waiters_remove(&conn->loop->waiters, &conn->claim.waiter);
}

static bool tag_is_exhausted(const struct conn *conn)
{
    const struct id_claim *claim = &conn->claim;
    struct id_tag *tag = id_table_find(conn->loop->backend->table, claim->name, claim->name_len);

    return tag != NULL && atomic_load(&tag->state) == ID_TAG_EXHAUSTED;
}

/* The cluster has said whether the tag exists. */
static void opened_cb(struct conn *conn, struct control *control)
{
    int status = control->request.status;

    if (status == ERR_UNKNOWN_TAG) {
        answer_claim(conn, NULL, CLAIM_UNKNOWN);
    } else if (status != 0 && tag_is_exhausted(conn)) {
        answer_claim(conn, NULL, CLAIM_EXHAUSTED); /* nobody could say anything newer */
    } else if (status != 0) {
        conn_fail_err(conn, status);
    } else {
        conn->claim.opened = true;
        ids_start(conn);
    }
}

/* This node does not know the tag, or knows it as deleted: it may have been made a moment ago. */
static void ids_open(struct conn *conn)
{
    const struct id_claim *claim = &conn->claim;
    uint32_t wait_ms = claim->timeout_ms > OPEN_WAIT_MIN_MS ? claim->timeout_ms : OPEN_WAIT_MIN_MS;
    struct control *control = control_new(conn, ID_REQUEST_OPEN, opened_cb);

    buf_put(&control->request.payload, claim->name, claim->name_len);
    control_submit(control, wait_ms);
}

/* The tag of the claim, or NULL. An entry of the table stays where it is, so a memo may point to
 * it. */
HOT static struct id_tag *ids_tag(struct conn *conn)
{
    const struct id_claim *claim = &conn->claim;
    struct id_tag *tag;

    if (conn->memo != NULL && conn->memo->tag != NULL) {
        return conn->memo->tag;
    }
    tag = id_table_find(conn->loop->backend->table, claim->name, claim->name_len);
    if (conn->memo != NULL) {
        conn->memo->tag = tag;
    }
    return tag;
}

HOT static void ids_start(struct conn *conn)
{
    struct http_loop *loop = conn->loop;
    struct id_claim *claim = &conn->claim;
    struct id_tag *tag = ids_tag(conn);
    bool unknown =
        tag == NULL || atomic_load_explicit(&tag->state, memory_order_acquire) == ID_TAG_UNKNOWN;
    enum claim_result result;

    if (unknown && !claim->opened) {
        ids_open(conn);
        return;
    }
    if (tag == NULL) {
        /* It exists, but the table has no room for it. */
        conn_fail_err(conn, ERR_OVERLOADED);
        return;
    }
    /* Those that wait already come first. */
    if (loop->waiters.count > 0 && waiters_first(&loop->waiters, tag) != NULL) {
        result = CLAIM_EMPTY;
    } else {
        result = claim_take(loop, tag, claim);
    }
    if (result == CLAIM_EMPTY) {
        ids_park(conn, tag);
    } else if (result == CLAIM_EXHAUSTED && !claim->opened) {
        ids_open(conn); /* it may have been set back by force, or made again, a moment ago */
    } else {
        answer_claim(conn, tag, result);
    }
}

void ids_reopen(struct conn *conn)
{
    conn->claim.strict = false;
    conn->claim.reopened = true;
    ids_open(conn);
}

static bool option_format(struct conn *conn, const struct option *option, enum id_format *ret)
{
    static const char *const names[] = {
        [ID_FORMAT_TEXT] = "text", [ID_FORMAT_RANGE] = "range", [ID_FORMAT_JSON] = "json"};
    char shown[80];

    *ret = ID_FORMAT_TEXT;
    if (!option->present) {
        return true;
    }
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i]) == option->len && memcmp(names[i], option->value, option->len) == 0) {
            *ret = (enum id_format)i;
            return true;
        }
    }
    conn_fail(conn, 400, "bad_request", "format=%s is not text, range or json",
              text_show(option->value, option->len, shown, sizeof(shown)));
    return false;
}

/* Read the query into the claim. A function of its own because of the room it takes on the stack,
 * which most requests do without. */
static __attribute__((noinline)) bool read_query(struct conn *conn)
{
    struct option options[] = {
        {.name = "count"}, {.name = "format"}, {.name = "contiguous"}, {.name = "timeout_ms"}};
    struct id_claim *claim = &conn->claim;
    char space[LIMIT_HTTP_TARGET_BYTES];
    uint64_t count;
    uint64_t timeout_ms;

    if (!conn_options(conn, options, sizeof(options) / sizeof(options[0]), space) ||
        !conn_option_number(conn, &options[0], "bad_count", 1, LIMIT_COUNT, 1, &count) ||
        !option_format(conn, &options[1], &claim->format) ||
        !conn_option_flag(conn, &options[2], &claim->contiguous) ||
        !conn_option_number(conn, &options[3], "bad_request", 0, LIMIT_TIMEOUT_MS,
                            claim->timeout_ms, &timeout_ms)) {
        return false;
    }
    claim->counted = options[0].present;
    claim->count = (uint32_t)count;
    claim->timeout_ms = (uint32_t)timeout_ms;
    return true;
}

HOT bool ids_read(struct conn *conn, bool snowflake)
{
    struct id_claim *claim = &conn->claim;
    size_t name_len;

    ASSERT(!claim->waiter.parked);
    claim->counted = false;
    claim->contiguous = false;
    claim->format = ID_FORMAT_TEXT;
    claim->count = 1;
    claim->timeout_ms = conn->loop->settings->default_timeout_ms;
    if (!conn_tag_name(conn, claim->name, &name_len) ||
        (conn->request.query_len > 0 && !read_query(conn))) {
        return false;
    }
    claim->snowflake = snowflake;
    claim->name_len = (uint16_t)name_len;
    claim->left = claim->count;
    claim->range_count = 0;
    claim->opened = false;
    claim->strict = false;
    claim->reopened = false;
    claim->keyed = conn->head.key_count > 0;
    claim->deadline_ms = loop_now_ms(conn->loop) + claim->timeout_ms;
    return true;
}

HOT void handle_segment_get(struct conn *conn)
{
    if (!ids_read(conn, false)) {
        return;
    }
    if (conn->claim.keyed) {
        strict_start(conn); /* whatever this node knows of the tag, the log knows it better */
    } else {
        ids_start(conn);
    }
}
