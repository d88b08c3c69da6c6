/*
 * ids.c - see ids.h. Thread: the loop's.
 */
#include "http/api/ids.h"

#include <stdlib.h>
#include <string.h>

#include "http/api/audited.h"
#include "http/api/json.h"
#include "http/api/request.h"
#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/id/codec/command.h"
#include "src/id/snowflake/snowflake.h"

/* Asking the cluster may take this long, even for a request that does not wait for ids. Otherwise
 * such a request could never learn whether a tag exists, nor get an id of a strict tag, which needs
 * a majority. */
#define CLUSTER_WAIT_MIN_MS 500

#define REPLAYED_HEADER "Idempotency-Replayed: true\r\n"

enum claim_result {
    CLAIM_DONE,
    CLAIM_EMPTY,
    CLAIM_UNKNOWN,
    CLAIM_EXHAUSTED,
    CLAIM_NOT_CONTIGUOUS,
    CLAIM_SCATTERED, /* more ranges than a reply may have */
    CLAIM_PAUSED,
    CLAIM_STEPPED, /* an increment, which the client does not expect */
    CLAIM_STRICT   /* the tag has no segments: its ids come from the log */
};

static int ids_open(struct conn *conn, const struct id_claim *claim);

/* --- a claim: its ranges --- */

static bool range_continues(const struct segment_range *range, const struct segment_range *next)
{
    return range_next(range) == next->first && range->increment == next->increment;
}

HOT bool id_claim_add(struct id_claim *claim, const struct segment_range *range)
{
    struct segment_range *last =
        claim->range_count > 0 ? &claim->ranges[claim->range_count - 1] : NULL;

    ASSERT(range->count > 0 && range->count <= claim->left);
    if (last != NULL && range_continues(last, range)) {
        last->count += range->count;
    } else if (claim->range_count < LIMIT_RANGES_PER_REPLY) {
        claim->ranges[claim->range_count++] = *range;
    } else {
        return false;
    }
    claim->left -= range->count;
    return true;
}

static void remove_range(struct id_claim *claim, uint32_t at)
{
    ASSERT(at < claim->range_count);
    claim->range_count--;
    memmove(&claim->ranges[at], &claim->ranges[at + 1],
            (claim->range_count - at) * sizeof claim->ranges[0]);
}

HOT void id_claim_make_room(struct id_claim *claim)
{
    uint32_t shortest = 0;

    if (claim->range_count < LIMIT_RANGES_PER_REPLY) {
        return;
    }
    for (uint32_t i = 1; i < claim->range_count; i++) {
        if (claim->ranges[i].count < claim->ranges[shortest].count) {
            shortest = i;
        }
    }
    claim->left += claim->ranges[shortest].count;
    remove_range(claim, shortest);
}

/* Join a range to the one before, if it continues that. */
static void join_range(struct id_claim *claim, uint32_t at)
{
    struct segment_range *ranges = claim->ranges;

    if (at > 0 && at < claim->range_count && range_continues(&ranges[at - 1], &ranges[at])) {
        ranges[at - 1].count += ranges[at].count;
        remove_range(claim, at);
    }
}

HOT void id_claim_insert(struct id_claim *claim, const struct segment_range *range)
{
    struct segment_range *ranges = claim->ranges;
    uint32_t at = claim->range_count;

    ASSERT(at < LIMIT_RANGES_PER_REPLY);
    ASSERT(range->count > 0 && range->count <= claim->left);
    for (; at > 0 && ranges[at - 1].first > range->first; at--) {
        ranges[at] = ranges[at - 1];
    }
    ASSERT(at == 0 || ranges[at - 1].first + ranges[at - 1].count <= range->first);
    ranges[at] = *range;
    claim->range_count++;
    claim->left -= range->count;
    join_range(claim, at + 1);
    join_range(claim, at);
}

/* --- claims that wait --- */

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int tag_compare(const struct waiter *a, const struct waiter *b)
{
    int by_tag = compare_u64((uint64_t)(uintptr_t)a->tag, (uint64_t)(uintptr_t)b->tag);
    int by_clock = compare_u64((uint64_t)(uintptr_t)a->clock, (uint64_t)(uintptr_t)b->clock);

    return by_tag != 0 ? by_tag : by_clock != 0 ? by_clock : compare_u64(a->seq, b->seq);
}

RB_PROTOTYPE(waiter_tree, waiter, link, tag_compare)
RB_GENERATE(waiter_tree, waiter, link, tag_compare)

int waiters_add(struct waiters *waiters, struct waiter *waiter, struct id_tag *tag, uint64_t demand)
{
    ASSERT(!waiter->parked);
    if (waiters->count >= LIMIT_WAITERS_PER_LOOP) {
        return ERR_OVERLOADED;
    }
    waiter->tag = tag;
    waiter->seq = waiters->next_seq++;
    waiter->demand = demand;
    waiter->parked = true;
    ASSERT(RB_INSERT(waiter_tree, &waiters->tree, waiter) == NULL);
    waiters->count++;
    if (tag != NULL) {
        atomic_fetch_add(&tag->demand, demand);
    }
    return 0;
}

void waiters_remove(struct waiters *waiters, struct waiter *waiter)
{
    ASSERT(waiter->parked);
    ASSERT(waiters->count > 0);
    RB_REMOVE(waiter_tree, &waiters->tree, waiter);
    waiters->count--;
    waiters_set_demand(waiter, 0);
    waiter->parked = false;
}

void waiters_set_demand(struct waiter *waiter, uint64_t demand)
{
    uint64_t less = waiter->demand - demand;

    ASSERT(waiter->parked);
    ASSERT(demand <= waiter->demand);
    if (waiter->tag != NULL) {
        ASSERT(atomic_fetch_sub(&waiter->tag->demand, less) >= less);
    }
    waiter->demand = demand;
}

struct waiter *waiters_find(struct waiters *waiters, const struct id_tag *tag, const void *clock,
                            uint64_t seq)
{
    struct waiter key; /* what else it has is not compared */
    struct waiter *found;

    key.tag = (struct id_tag *)(uintptr_t)tag;
    key.clock = clock;
    key.seq = seq;
    found = RB_NFIND(waiter_tree, &waiters->tree, &key);
    return found != NULL && found->tag == tag ? found : NULL;
}

/* --- the request --- */

struct layout_words *layout_named(struct conn *conn, const char *name, size_t len)
{
    struct layout_words *named =
        snowflake_named_find(api_loop(conn)->backend->snowflake, name, len);

    if (named == NULL && !request_looks_again(conn)) {
        (void)reply_error(conn, 404, "unknown_layout",
                          "this node knows of no layout %s: GET /api/layouts lists them",
                          TEXT_SHOWN(name, len, SHOWN_BYTES));
    }
    return named;
}

bool layout_of(struct conn *conn, const struct param *named, const struct layout_words **ret_layout)
{
    *ret_layout = named->present ? layout_named(conn, named->text, named->len) : NULL;
    return !named->present || *ret_layout != NULL;
}

bool id_claim_layout(struct conn *conn, struct id_claim *claim, const char *name, size_t len)
{
    struct layout_words *named = layout_named(conn, name, len);

    if (named == NULL) {
        return false;
    }
    if (claim->text.kind == ID_TEXT_LONG) {
        /* Two layouts may give the same time, worker id and sequence. */
        return reply_error(conn, 400, "bad_request",
                           "UUIDs and ULIDs are of the cluster's own layout: leave out layout");
    }
    claim->layout = named;
    if (named->row.layout.order == LAYOUT_SEQUENCE_LAST) {
        return true;
    }
    if ((claim->format != ID_FORMAT_TEXT && claim->format != ID_FORMAT_OTHER) ||
        (claim->contiguous && claim->count > 1)) {
        return reply_error(conn, 400, "bad_request",
                           "ids of layout %s do not follow each other, for its worker id is last: "
                           "they come one a line, without contiguous or another format",
                           named->row.name);
    }
    claim->text = (struct id_text){.kind = ID_TEXT_LAYOUT, .layout = &named->row.layout};
    return true;
}

/* Read the query into the claim. A separate function, since most requests need not pay for its
 * stack. */
static __attribute__((noinline)) bool read_query(struct conn *conn, struct id_claim *claim,
                                                 bool snowflake)
{
    static const char *const forms[] = {
        [ID_FORM_NUMBER] = "number", [ID_FORM_UUID] = "uuid", [ID_FORM_ULID] = "ulid", NULL};
    static const char *const numbers[] = {"number", NULL};
    static const char *const formats[] = {
        [ID_FORMAT_TEXT] = "text", [ID_FORMAT_RANGE] = "range", [ID_FORMAT_JSON] = "json", NULL};
    struct param options[] = {
        {.name = "count", .min = 1, .max = LIMIT_COUNT, .number = 1, .code = "bad_count"},
        {.name = "format",
         .kind = PARAM_WORD,
         .words = formats,
         .rule = "is not text, range or json"},
        OPTION_FLAG("contiguous"),
        OPTION_TIMEOUT(conn),
        {.name = "as",
         .kind = PARAM_WORD,
         .words = snowflake ? forms : numbers,
         .rule = snowflake ? "is not number, uuid or ulid" : "is not number"},
        {.name = "layout", .kind = PARAM_TEXT}, /* of snowflake ids alone */
    };
    enum id_form form;

    if (!snowflake) {
        options[5] = (struct param)OPTION_FLAG("stepped");
    }
    if (!request_options(conn, options, COUNT_OF(options))) {
        return false;
    }
    form = (enum id_form)options[4].number;
    claim->number = options[4].present;
    if (form != ID_FORM_NUMBER) {
        claim->text = (struct id_text){.kind = ID_TEXT_LONG, .form = form};
    }
    if (form != ID_FORM_NUMBER && options[1].number != ID_FORMAT_TEXT) {
        return reply_error(conn, 400, "bad_request",
                           "format=%s is for numbers; as=%s has text alone",
                           formats[options[1].number], forms[form]);
    }
    claim->counted = options[0].present;
    claim->format = (enum id_format)options[1].number;
    claim->contiguous = options[2].number == 1;
    claim->count = (uint32_t)options[0].number;
    claim->left = claim->count;
    claim->timeout_ms = (uint32_t)options[3].number;
    claim->deadline_ms = uv_now(conn->conns->uv) + claim->timeout_ms;
    if (!snowflake) {
        claim->stepped = options[5].number == 1;
        claim->consecutive = claim->format != ID_FORMAT_TEXT && !claim->stepped;
        return true;
    }
    return !options[5].present || id_claim_layout(conn, claim, options[5].text, options[5].len);
}

HOT void id_claim_init(struct conn *conn, struct id_claim *claim, uint32_t count)
{
    const struct api_loop *loop = conn->conns->data;

    memset(claim, 0, offsetof(struct id_claim, name)); /* members after it are read only if set */
    claim->count = count;
    claim->left = count;
    claim->timeout_ms = loop->api->settings->default_timeout_ms;
    claim->deadline_ms = uv_now(conn->conns->uv) + claim->timeout_ms;
    claim->generation = UINT32_MAX;
}

/* --- parking --- */

/* The request fails, or begins anew: burn the ids claimed so far. */
static void claim_burn(struct api_loop *loop, struct id_claim *claim)
{
    ASSERT(claim->left <= claim->count);
    if (claim->left < claim->count) {
        counter_add(&loop->counts.burnt_unanswered, claim->count - claim->left);
    }
    claim->left = claim->count;
    claim->range_count = 0;
    claim->generation = UINT32_MAX;
}

/* A failed request was before others of its tag, for which there may be enough ids. They are woken
 * as by the raft loop, in a separate turn, since connections may be closing in this one. */
static void waiter_end(struct waiter *waiter)
{
    struct api_loop *loop = waiter->loop;
    struct id_waker *waker = &loop->api->waker;
    struct id_tag *tag = waiter->tag;

    if (tag != NULL && waiters_find(&loop->waiters, tag, NULL, 0) != NULL &&
        segment_left(&tag->buffer) > 0) {
        waker->wake(waker, tag, UINT64_C(1) << loop->index);
    }
    free(waiter);
}

/* The connection goes away; ids that the clock brought are not counted as burnt. */
static void waiter_cancel(struct http_wait *wait)
{
    struct waiter *waiter = CONTAINER(wait, struct waiter, wait);

    waiters_remove(&waiter->loop->waiters, waiter);
    if (waiter->tag != NULL) {
        claim_burn(waiter->loop, &waiter->claim);
    }
    waiter_end(waiter);
}

/* The deadline has come. */
static void waiter_expire(struct http_wait *wait)
{
    struct waiter *waiter = CONTAINER(wait, struct waiter, wait);

    waiter->late(parked_resume(waiter), &waiter->claim, waiter->tag);
    waiter_end(waiter);
}

bool parked_begin(struct conn *conn, struct id_claim *claim, struct id_tag *tag, claim_late *late)
{
    struct api_loop *loop = api_loop(conn);
    struct waiter *waiter;

    ASSERT(claim->left > 0);
    /* A client that has closed its side may be gone and never read the ids, so none are claimed for
     * it. */
    if (conn->wire.ended || claim->deadline_ms <= uv_now(loop->conns->uv)) {
        late(conn, claim, tag);
        return false;
    }
    waiter = MUST_HAVE(calloc(1, sizeof *waiter));
    waiter->clock = claim->layout;
    if (waiters_add(&loop->waiters, waiter, tag, claim->left) != 0) {
        free(waiter);
        reply_error(conn, 503, "overloaded", "%d requests wait for ids on this loop already",
                    LIMIT_WAITERS_PER_LOOP);
        return false;
    }
    waiter->loop = loop;
    waiter->claim = *claim;
    waiter->late = late;
    waiter->wait.cancel = waiter_cancel;
    waiter->wait.expire = waiter_expire;
    waiter->wait.needs_client = true;
    conn_wait(conn, &waiter->wait, claim->deadline_ms);
    return true;
}

struct conn *parked_resume(struct waiter *waiter)
{
    waiters_remove(&waiter->loop->waiters, waiter);
    return conn_resume(&waiter->wait);
}

/* Ids of a tag with a shape are texts, unless the request asks for numbers. False: answered, since
 * the request needs numbers where ids are texts, or the number that a secret shape hides. */
static bool take_shape(struct conn *conn, struct id_claim *claim, const struct shape *shape)
{
    if (claim->number) {
        return !shape->secret || gate_may(conn, ROLE_READ) ||
               reply_error(conn, 403, "forbidden",
                           "tag %s has a secret shape: the numbers behind its texts need the role "
                           "read; ask for texts, without as=number and INCRBY",
                           TEXT_SHOWN(claim->name, claim->name_len, SHOWN_BYTES));
    }
    claim->text = (struct id_text){.kind = ID_TEXT_SHAPE, .shape = shape};
    return claim->format == ID_FORMAT_TEXT || claim->format == ID_FORMAT_OTHER ||
           reply_error(conn, 400, "bad_request",
                       "tag %s has a shape, so its ids are texts: format=%s needs as=number",
                       TEXT_SHOWN(claim->name, claim->name_len, SHOWN_BYTES),
                       claim->format == ID_FORMAT_RANGE ? "range" : "json");
}

/* The ids are not consecutive, but the client expects that. */
static int refuse_stepped(struct conn *conn, const struct id_claim *claim, uint32_t increment)
{
    return reply_error(conn, 400, "stepped",
                       "tag %s %s increment %u, %s do not follow each other: %s",
                       TEXT_SHOWN(claim->name, claim->name_len, SHOWN_BYTES),
                       claim->keyed ? "gave this Idempotency-Key ids with" : "has", increment,
                       claim->keyed ? "which" : "so its ids",
                       claim->format == ID_FORMAT_OTHER
                           ? "one is the answer to INCR, and many to LEAFD.NEXT with COUNT"
                           : "add stepped=1 and read each range as first, last and increment");
}

/* tag: NULL: it is not in the table. */
static int refuse_paused(struct conn *conn, const struct id_claim *claim, const struct id_tag *tag)
{
    char reason[LIMIT_TAG_REASON_BYTES + 1] = "";

    if (tag != NULL) {
        id_tag_reason(tag, reason);
    }
    return reply_error(conn, 423, err_code(ERR_PAUSED), "tag %s is paused%s%s",
                       TEXT_SHOWN(claim->name, claim->name_len, SHOWN_BYTES),
                       reason[0] != '\0' ? ": " : "", reason);
}

/* --- the answer --- */

HOT int ids_answer(struct conn *conn, const struct id_claim *claim, const char *extra)
{
    struct api_loop *loop = conn->conns->data;
    char digits[TEXT_DECIMAL_BYTES];

    counter_add(&loop->counts.ids[claim->source], claim->count);
    if (claim->format == ID_FORMAT_OTHER) {
        return claim->answer(conn, claim);
    }
    if (claim->counted || claim->format != ID_FORMAT_TEXT || claim->text.kind != ID_TEXT_NUMBER) {
        return id_text_answer(conn, claim, extra);
    }
    ASSERT(claim->range_count == 1 && claim->ranges[0].count == 1);
    conn_answer(conn, 200, conn->request.wants_json ? ANSWER_JSON : ANSWER_TEXT, extra, digits,
                text_decimal(claim->ranges[0].first, digits));
    return ANSWERED;
}

/* --- from the log --- */

/* The tag has segments: ask the cluster about it, and start again. */
static int answer_trend(struct conn *conn, struct call *call, const char *shown)
{
    struct id_claim *claim = &call->claim;

    if (claim->keyed) {
        return reply_error(
            conn, 400, "bad_key",
            "an Idempotency-Key needs a tag in strict or monotonic mode; tag %s is in trend "
            "mode",
            shown);
    }
    if (!claim->reopened) {
        ASSERT(claim->source == ID_SOURCE_LOG);
        claim->source = ID_SOURCE_SEGMENT;
        claim->reopened = true;
        return ids_open(conn, claim);
    }
    return reply_error(conn, 503, "mode_changing", "the mode of tag %s is being changed; ask again",
                       shown);
}

static int answer_exhausted(struct conn *conn, const struct id_claim *claim, uint64_t left,
                            const char *shown)
{
    struct api_loop *loop = api_loop(conn);
    struct id_tag *tag = id_table_find(loop->backend->table, claim->name, claim->name_len);
    const struct shape *shape =
        tag != NULL ? atomic_load_explicit(&tag->shape, memory_order_acquire) : NULL;
    uint64_t room = tag != NULL ? atomic_load_explicit(&tag->room, memory_order_acquire) : 0;
    uint64_t bound = tag != NULL ? atomic_load_explicit(&tag->bound, memory_order_relaxed) : 0;
    struct tag_period period;

    /* max_id, since a dated tag has no increment. The two may be of two rows: it is a message. */
    if (shape != NULL && tag_period_now(shape, room < bound ? bound - room : 0, bound, loop->zones,
                                        gate_now_ms(loop), &period)) {
        return reply_error(conn, 409, "exhausted",
                           "tag %s has %llu numbers of %u left, which is less than count=%u; it "
                           "counts from 1 again %s",
                           shown, ull(left), period.number, claim->count, period.next);
    }
    return reply_error(
        conn, 409, "exhausted",
        "tag %s has %llu ids left below its max, or 2^63, which is less than count=%u", shown,
        ull(left), claim->count);
}

/* Answer a refusal with details from the state machine. */
static int answer_result(struct conn *conn, struct call *call, const struct strict_result *result)
{
    const struct id_claim *claim = &call->claim;
    unsigned long long detail = result->detail;
    const char *shown = TEXT_SHOWN(claim->name, claim->name_len, SHOWN_BYTES);
    const struct parser_field *field = &conn->parser.head.key;
    const char *key = TEXT_SHOWN(conn_at(conn, field->at), field->len, SHOWN_BYTES);

    switch (result->status) {
    case ERR_UNKNOWN_TAG:
        return reply_error(conn, 404, "unknown_tag",
                           "there is no tag %s: PUT /api/tags/{tag} makes one", shown);
    case ERR_WRONG_MODE:
        return answer_trend(conn, call, shown);
    case ERR_EXHAUSTED:
        return answer_exhausted(conn, claim, result->detail, shown);
    case ERR_PAUSED:
        return refuse_paused(
            conn, claim,
            id_table_find(api_loop(conn)->backend->table, claim->name, claim->name_len));
    case ERR_KEY_CONFLICT:
        if (detail == 0) {
            return reply_error(
                conn, 409, err_code(ERR_KEY_CONFLICT),
                "Idempotency-Key %s of tag %s belongs to another client: it was sent with another "
                "token or certificate; use keys that no other client makes, as UUIDs are",
                key, shown);
        }
        return reply_error(
            conn, 409, err_code(ERR_KEY_CONFLICT),
            "Idempotency-Key %s was used for tag %s with count=%llu; this request says count=%u",
            key, shown, detail, claim->count);
    case ERR_KEYS_FULL:
        return reply_error(
            conn, 503, err_code(ERR_KEYS_FULL),
            "%llu idempotency keys are remembered, as many as data.memory-bytes has room for; each "
            "is forgotten a day after its first use",
            detail);
    case ERR_SHARE:
        return share_refuse(conn, SHARE_KEYS, detail >> 32, (uint32_t)detail, "");
    case ERR_CHANGING:
        return reply_error(
            conn, 503, err_code(ERR_CHANGING),
            "tag %s has left trend mode, and node %llu has not said yet that it holds no segment "
            "of it: start that node, remove it from the cluster, or repeat the PUT with "
            "?force=1 if it will never return",
            shown, detail);
    case ERR_EMPTY:
        return reply_error(conn, 503, "timeout",
                           "the cluster has no common time yet, which an Idempotency-Key and a tag "
                           "with a date need; or this node does not know the date's time zone, "
                           "as its log says: install tzdata, and restart it");
    default:
        return reply_err(conn, result->status);
    }
}

static int strict_cb(struct conn *conn, struct call *call)
{
    const struct cluster_request *request = &call->request;
    struct id_claim *claim = &call->claim;
    struct strict_result result = {.status = request->status};
    size_t count = 0;

    if (request->reply.len > 0 && (results_decode(RESULT_STRICT, request->reply.data,
                                                  request->reply.len, &result, 1, &count) != 0 ||
                                   count != 1)) {
        return ERR_BAD_MESSAGE;
    }
    if (result.status == ERR_TIMEOUT) {
        return reply_error(
            conn, 503, "timeout", "no answer from the cluster within %u ms: %s", claim->timeout_ms,
            claim->keyed ? "repeat the request with the same Idempotency-Key"
                         : "the ids of this request are skipped if they were allocated");
    }
    if (result.status != 0) {
        return answer_result(conn, call, &result);
    }
    ASSERT(count == 1); /* a success has its range */
    claim->ranges[0] = (struct segment_range){result.first, claim->count, result.increment};
    claim->range_count = 1;
    claim->left = 0;
    claim->generation = result.generation;
    if (claim->consecutive && result.increment > 1) { /* the increment is new */
        return refuse_stepped(conn, claim, result.increment);
    }
    claim->source = request->mode == TAG_MODE_MONOTONIC ? ID_SOURCE_LEADER : ID_SOURCE_LOG;
    return ids_answer(conn, claim, result.replayed ? REPLAYED_HEADER : NULL);
}

/* Take the ids of a claim from the log, or the leader's window. tag: of its name. Not inlined
 * because of its stack. */
static __attribute__((noinline)) int strict_start(struct conn *conn, const struct id_claim *claim,
                                                  const struct id_tag *tag)
{
    const struct parser_field *key = &conn->parser.head.key;
    struct strict_item item = {.name = claim->name,
                               .name_len = claim->name_len,
                               .key = conn_at(conn, key->at),
                               .key_len = (uint16_t)key->len,
                               .count = claim->count};
    uint64_t now_ms = uv_now(conn->conns->uv);
    uint32_t wait_ms = CLUSTER_WAIT_MIN_MS;
    struct share share;
    struct call *call;

    ASSERT(claim->left == claim->count && claim->range_count == 0);
    if (key->count > 1) {
        return reply_error(conn, 400, "bad_key",
                           "%u Idempotency-Key headers; one request has one key", key->count);
    }
    if (key->count > 0 && (key->len < 1 || key->len > LIMIT_KEY_BYTES)) {
        return reply_error(conn, 400, "bad_key",
                           "an Idempotency-Key of %u bytes; it must have 1 to %d", key->len,
                           LIMIT_KEY_BYTES);
    }
    for (size_t i = 0; i < key->len && key->count > 0; i++) {
        if (item.key[i] < 0x20 || item.key[i] > 0x7e) {
            return reply_error(conn, 400, "bad_key",
                               "Idempotency-Key %s: byte %zu is not a printable ASCII character",
                               TEXT_SHOWN(item.key, key->len, SHOWN_BYTES), i + 1);
        }
    }
    if (claim->timeout_ms > 0) {
        wait_ms = claim->deadline_ms > now_ms ? (uint32_t)(claim->deadline_ms - now_ms) : 0;
    }
    if (item.key_len > 0) {
        share = share_of(conn);
        item.client = share.client;
        item.most = share.keys;
    }
    conn->traffic = TRAFFIC_STRICT;
    call = call_new_strict(api_loop(conn), strict_cb);
    call->sees_errors = true;
    call->claim = *claim;
    call->claim.source = ID_SOURCE_LOG;
    strict_item_encode(&item, &call->request.payload);
    call->request.mode =
        atomic_load(&tag->state) == ID_TAG_MONOTONIC ? TAG_MODE_MONOTONIC : TAG_MODE_STRICT;
    return call_submit_for(conn, call, wait_ms);
}

/* --- from segments --- */

/* Ask for a refill, unless one was asked for or no ids are left. */
static void tag_want(struct id_backend *backend, struct id_tag *tag)
{
    if (atomic_load_explicit(&tag->state, memory_order_relaxed) == ID_TAG_ACTIVE &&
        !atomic_load_explicit(&tag->refill_wanted, memory_order_relaxed) &&
        !atomic_exchange(&tag->refill_wanted, true)) {
        YIELD("set refill_wanted");
        backend->ops->want(backend, tag);
    }
}

/* Why the buffer does not have all ids wanted. */
static enum claim_result claim_short(struct id_backend *backend, struct id_tag *tag,
                                     const struct id_claim *claim)
{
    uint32_t state;

    YIELD("found too few ids");
    state = atomic_load(&tag->state);
    if (state == ID_TAG_UNKNOWN) {
        return CLAIM_UNKNOWN;
    }
    if (state == ID_TAG_STRICT || state == ID_TAG_MONOTONIC) {
        return CLAIM_STRICT;
    }
    if (state == ID_TAG_PAUSED) {
        return CLAIM_PAUSED;
    }
    if (state != ID_TAG_EXHAUSTED) {
        YIELD("saw the tag's state");
        tag_want(backend, tag);
        return CLAIM_EMPTY;
    }
    return claim->contiguous && segment_left(&tag->buffer) > 0 ? CLAIM_NOT_CONTIGUOUS
                                                               : CLAIM_EXHAUSTED;
}

/* This close to a tag's end its claims are judged before they take ids, since a part of a claim is
 * burnt when the rest does not come. */
#define ROOM_JUDGED LIMIT_COUNT

/* May the claim begin to take ids? CLAIM_DONE: yes. CLAIM_EMPTY: wait for a segment that is under
 * way. CLAIM_EXHAUSTED: no, if the leader confirms it (claim_end()).
 *
 * The order of the loads: a range that `room` no longer counts was under way, or is published. If
 * nothing is under way after that load, the range is in the buffer. */
static __attribute__((noinline)) enum claim_result
claim_judge(struct id_tag *tag, const struct id_claim *claim, bool is_last)
{
    uint64_t room = is_last ? 0 : atomic_load_explicit(&tag->room, memory_order_acquire);
    bool wanted = !is_last && atomic_load_explicit(&tag->refill_wanted, memory_order_acquire);
    struct segment_slot_view slots[2];
    uint64_t left[2];

    segment_inspect(&tag->buffer, slots);
    for (unsigned i = 0; i < 2; i++) {
        left[i] = segment_slot_left(&slots[i]);
    }
    if (claim->contiguous ? left[0] >= claim->left || left[1] >= claim->left
                          : left[0] + left[1] >= claim->left) {
        return CLAIM_DONE;
    }
    if (wanted) {
        return CLAIM_EMPTY;
    }
    if (claim->judged && (claim->contiguous ? room : left[0] + left[1] + room) >= claim->left) {
        return CLAIM_DONE;
    }
    return claim->contiguous && left[0] + left[1] + room > 0 ? CLAIM_NOT_CONTIGUOUS
                                                             : CLAIM_EXHAUSTED;
}

/* Claim the ids still wanted, as many as the tag has. */
HOT static enum claim_result claim_segments(struct api_loop *loop, struct id_tag *tag,
                                            struct id_claim *claim)
{
    struct id_backend *backend = loop->backend;
    uint32_t state = atomic_load_explicit(&tag->state, memory_order_acquire);
    struct segment_range range;
    struct segment_view view;
    enum claim_result result;

    ASSERT(claim->left > 0);
    if (state != ID_TAG_ACTIVE && state != ID_TAG_EXHAUSTED) {
        return claim_short(backend, tag, claim);
    }
    if (claim->contiguous) {
        uint32_t max_step = atomic_load_explicit(&tag->refill.max_step, memory_order_relaxed);

        if (max_step != 0 && claim->count > max_step) {
            return CLAIM_NOT_CONTIGUOUS;
        }
    }
    /* No more ids will come, or there is room for them beside the present ones: a part taken now
     * would be burnt if the rest did not come. */
    if (claim->left > 1 && segment_left(&tag->buffer) < claim->left &&
        (state == ID_TAG_EXHAUSTED || claim->timeout_ms == 0 || segment_make_room(&tag->buffer))) {
        return claim_short(backend, tag, claim);
    }
    if (claim->left > 1 && claim->left == claim->count &&
        atomic_load_explicit(&tag->room, memory_order_relaxed) <= ROOM_JUDGED) {
        result = claim_judge(tag, claim, state == ID_TAG_EXHAUSTED);
        if (result != CLAIM_DONE) {
            return result;
        }
    }
    while (claim->left > 0) {
        int rv = segment_claim(&tag->buffer, claim->contiguous ? claim->left : 1, claim->left,
                               &range, &view);

        if (view.skipped > 0) {
            counter_add(&loop->counts.burnt_skipped, view.skipped);
        }
        if (rv == ERR_EMPTY) {
            return claim_short(backend, tag, claim);
        }
        ASSERT(rv == 0);
        ASSERT_IMPLIES(claim->contiguous, range.count == claim->left);
        if (!view.next_ready && refill_due(view.used, view.size, backend->refill_percent)) {
            tag_want(backend, tag);
        }
        if (view.of < claim->generation) {
            claim->generation = view.of;
        }
        if (claim->consecutive && range.increment > 1) { /* the increment is new */
            counter_add(&loop->counts.burnt_unanswered, range.count);
            return CLAIM_STEPPED;
        }
        if (!id_claim_add(claim, &range)) {
            counter_add(&loop->counts.burnt_unanswered, range.count);
            return CLAIM_SCATTERED;
        }
    }
    return CLAIM_DONE;
}

/* Answer a request that does not wait. Its claimed ids are burnt unless it gets all. */
static int answer_claim(struct conn *conn, struct id_claim *claim, struct id_tag *tag,
                        enum claim_result result)
{
    struct api_loop *loop = api_loop(conn);
    const char *shown = TEXT_SHOWN(claim->name, claim->name_len, SHOWN_BYTES);
    uint32_t left = claim->left;
    uint32_t increment;

    if (result == CLAIM_DONE) {
        return ids_answer(conn, claim, NULL);
    }
    claim_burn(loop, claim);
    switch (result) {
    case CLAIM_STRICT:
        return strict_start(conn, claim, tag);
    case CLAIM_EMPTY:
        if (!atomic_load(&loop->backend->health->leader_known)) {
            return reply_error(conn, 503, "no_leader",
                               "no ids in memory and no leader to grant more; waited %u ms",
                               claim->timeout_ms);
        }
        return atomic_load_explicit(&tag->disk_full, memory_order_relaxed)
                   ? reply_err(conn, ERR_DISK_FULL)
                   : reply_error(conn, 503, "timeout", "%u of %u ids were not granted within %u ms",
                                 left, claim->count, claim->timeout_ms);
    case CLAIM_UNKNOWN:
        return reply_error(conn, 404, "unknown_tag",
                           "there is no tag %s: PUT /api/tags/{tag} makes one", shown);
    case CLAIM_EXHAUSTED:
        return reply_error(conn, 409, "exhausted",
                           "tag %s has less than count=%u ids left below its max, or 2^63", shown,
                           claim->count);
    case CLAIM_NOT_CONTIGUOUS:
        return reply_error(conn, 409, "not_contiguous",
                           "count=%u does not fit one segment of tag %s: its max_step is %u, and "
                           "near its max, or 2^63, a segment has what is left",
                           claim->count, shown, atomic_load(&tag->refill.max_step));
    case CLAIM_SCATTERED:
        return reply_error(conn, 503, "overloaded",
                           "count=%u would take more than %d ranges of tag %s", claim->count,
                           LIMIT_RANGES_PER_REPLY, shown);
    case CLAIM_PAUSED:
        return refuse_paused(conn, claim, tag);
    case CLAIM_STEPPED:
        increment = atomic_load(&tag->increment);
        /* Or what the node holds is of an increment that is over. */
        return refuse_stepped(
            conn, claim, increment > 1 ? increment : (uint32_t)atomic_load(&tag->buffer.terms));
    case CLAIM_DONE:
        break;
    }
    UNREACHABLE("a result of a claim that fails");
}

static int answer_late(struct conn *conn, struct id_claim *claim, struct id_tag *tag)
{
    return answer_claim(conn, claim, tag, CLAIM_EMPTY);
}

/* Answer, unless only this node says that the tag is deleted or paused, that its ids do not follow
 * each other, or that too few are left: a moment ago it may have been made again, resumed, its
 * increment changed, its max raised, or set back by force. */
static int claim_end(struct conn *conn, struct id_claim *claim, struct id_tag *tag,
                     enum claim_result result)
{
    bool is_uncertain =
        result == CLAIM_UNKNOWN || result == CLAIM_EXHAUSTED || result == CLAIM_PAUSED ||
        result == CLAIM_STEPPED ||
        (result == CLAIM_NOT_CONTIGUOUS && claim->count <= atomic_load(&tag->refill.max_step));

    if (is_uncertain && !claim->judged) {
        claim->judged = true;
        if (result == CLAIM_UNKNOWN) { /* what it has is of a tag that was deleted */
            claim_burn(api_loop(conn), claim);
        }
        return ids_open(conn, claim);
    }
    return answer_claim(conn, claim, tag, result);
}

void segment_wake(struct api_loop *loop, struct id_tag *tag)
{
    struct waiter *waiter = waiters_find(&loop->waiters, tag, NULL, 0);
    uint64_t next;

    if (waiter == NULL) {
        return;
    }
    atomic_fetch_or(&tag->waiting_loops, UINT64_C(1) << loop->index);
    YIELD("set the waiting bit");
    for (; waiter != NULL; waiter = waiters_find(&loop->waiters, tag, NULL, next)) {
        struct id_claim *claim = &waiter->claim;
        enum claim_result result = claim_segments(loop, tag, claim);

        ASSERT(waiter->loop == loop && waiter->tag == tag);
        ASSERT_IMPLIES(result == CLAIM_EMPTY, claim->left > 0);
        next = waiter->seq + 1;
        if (result != CLAIM_EMPTY) {
            /* The cluster has confirmed the exhaustion, which woke this claim. */
            claim->judged |= atomic_load(&tag->state) == ID_TAG_EXHAUSTED;
            claim_end(parked_resume(waiter), claim, tag, result);
            free(waiter);
            continue;
        }
        waiters_set_demand(waiter, claim->left);
        if (!claim->contiguous) {
            /* The remaining ids are for this claim. A contiguous request may leave some to later
             * ones. */
            break;
        }
    }
}

/* The cluster has said whether the tag exists. */
static int opened_cb(struct conn *conn, struct call *call)
{
    const struct id_claim *claim = &call->claim;
    struct id_tag *tag =
        id_table_find(api_loop(conn)->backend->table, claim->name, claim->name_len);
    int status = call->request.status;
    uint32_t state = tag != NULL ? atomic_load(&tag->state) : ID_TAG_UNKNOWN;

    if (status == ERR_UNKNOWN_TAG) {
        return answer_claim(conn, &call->claim, NULL, CLAIM_UNKNOWN);
    }
    if (status == 0) {
        call->claim.opened = true;
        return segment_begin(conn, &call->claim, tag);
    }
    /* No node has a newer answer. */
    if (state == ID_TAG_EXHAUSTED || state == ID_TAG_PAUSED) {
        return answer_claim(conn, &call->claim, tag,
                            state == ID_TAG_PAUSED ? CLAIM_PAUSED : CLAIM_EXHAUSTED);
    }
    return status;
}

/* Ask the cluster: this node does not know the tag, or knows it as deleted or nearly used up, but
 * the tag may have been made or changed a moment ago. */
static int ids_open(struct conn *conn, const struct id_claim *claim)
{
    uint32_t wait_ms =
        claim->timeout_ms > CLUSTER_WAIT_MIN_MS ? claim->timeout_ms : CLUSTER_WAIT_MIN_MS;
    struct call *call = call_new(ID_REQUEST_OPEN, opened_cb);

    call->sees_errors = true;
    call->claim = *claim;
    call->request.fresh = claim->judged;
    buf_put(&call->request.payload, claim->name, claim->name_len);
    return call_submit_for(conn, call, wait_ms);
}

/* tag: of the claim's name; NULL: not in the table. */
HOT int segment_begin(struct conn *conn, struct id_claim *claim, struct id_tag *tag)
{
    struct api_loop *loop = conn->conns->data;
    const struct shape *shape;
    enum claim_result result;

    if (!claim->opened && (tag == NULL || atomic_load_explicit(&tag->state, memory_order_acquire) ==
                                              ID_TAG_UNKNOWN)) {
        return ids_open(conn, claim);
    }
    if (tag == NULL) {
        /* It exists, but the table has no room for it. */
        return ERR_OVERLOADED;
    }
    shape = atomic_load_explicit(&tag->shape, memory_order_acquire);
    if (shape != NULL && !take_shape(conn, claim, shape)) {
        return ANSWERED;
    }
    if (claim->consecutive && atomic_load_explicit(&tag->increment, memory_order_relaxed) > 1 &&
        atomic_load_explicit(&tag->state, memory_order_acquire) != ID_TAG_UNKNOWN) {
        return claim_end(conn, claim, tag, CLAIM_STEPPED);
    }
    if (claim->by_step) {
        claim->by_step = false;
        claim->count = atomic_load_explicit(&tag->refill.step, memory_order_relaxed);
        claim->count = claim->count < LIMIT_COUNT ? claim->count : LIMIT_COUNT;
        claim->count = claim->count > 0 ? claim->count : 1;
        claim->left = claim->count;
        if (!conn_charge(conn, &conn->client->ids, claim->count)) {
            return ANSWERED;
        }
    }
    if (claim->keyed) {
        /* The log has newer data of the tag than this node. */
        return strict_start(conn, claim, tag);
    }
    /* Parked claims come first. */
    result = loop->waiters.count > 0 && waiters_find(&loop->waiters, tag, NULL, 0) != NULL
                 ? CLAIM_EMPTY
                 : claim_segments(loop, tag, claim);
    if (result == CLAIM_DONE) {
        return ids_answer(conn, claim, NULL);
    }
    if (result != CLAIM_EMPTY) {
        return claim_end(conn, claim, tag, result);
    }
    if (parked_begin(conn, claim, tag, answer_late)) {
        YIELD("added to the demand");
        segment_wake(loop, tag);
    } else {
        claim_burn(loop, claim);
    }
    return ANSWERED;
}

HOT bool ids_read(struct conn *conn, struct id_claim *claim, bool snowflake)
{
    const struct request *request = &conn->request;
    size_t name_len = request->name_len;

    id_claim_init(conn, claim, 1);
    if (request->known != NULL) { /* the head repeats one with an unencoded name */
        ASSERT(name_len <= sizeof claim->name);
        memcpy(claim->name, conn_at(conn, request->name_at), name_len);
    } else if (!request_tag_name(conn, claim->name, &name_len)) {
        return false;
    }
    if (request->query_len > 0 && !read_query(conn, claim, snowflake)) {
        return false;
    }
    claim->source = snowflake ? ID_SOURCE_CLOCK : ID_SOURCE_SEGMENT;
    claim->name_len = (uint16_t)name_len;
    claim->keyed = conn->parser.head.key.count > 0;
    return conn_charge(conn, &conn->client->ids, claim->count);
}

HOT int handle_segment_get(struct conn *conn)
{
    struct api_loop *loop = conn->conns->data;
    struct request *request = &conn->request;
    struct id_claim claim;
    struct id_tag *tag;

    if (!ids_read(conn, &claim, false)) {
        return ANSWERED;
    }
    tag = request->known;
    if (tag == NULL) {
        tag = id_table_find(loop->backend->table, claim.name, claim.name_len);
        /* An entry of the table never moves: it is valid for a repetition of this head. */
        request->known = claim.name_len == request->name_len ? tag : NULL;
    }
    return segment_begin(conn, &claim, tag);
}
