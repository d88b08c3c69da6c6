/*
 * strict.c - see strict.h. Thread: the loop's.
 */
#include "http/api/strict.h"

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/request.h"
#include "src/base/assert.h"
#include "src/id/codec/command.h"

/* An id of a strict tag needs a majority, which no request that waits for nothing could ever hear:
 * timeout_ms=0 waits so long. */
#define STRICT_WAIT_MIN_MS 500

#define REPLAYED_HEADER "Idempotency-Replayed: true\r\n"

static const char *key_of(const struct conn *conn)
{
    return conn_at(conn, conn_head(conn)->key_at);
}

/* The key of the request is fit to be kept, or there is none; else answered. */
static bool key_ok(struct conn *conn)
{
    const struct parser_head *head = conn_head(conn);
    const char *key = key_of(conn);
    char shown[SHOWN_BYTES];

    if (head->key_count == 0) {
        return true;
    }
    if (head->key_count > 1) {
        return reply_error(conn, 400, "bad_key",
                           "%u Idempotency-Key headers; one request has one key", head->key_count);
    }
    if (head->key_len < 1 || head->key_len > LIMIT_KEY_BYTES) {
        return reply_error(conn, 400, "bad_key",
                           "an Idempotency-Key of %u bytes; it must have 1 to %d", head->key_len,
                           LIMIT_KEY_BYTES);
    }
    for (size_t i = 0; i < head->key_len; i++) {
        if (key[i] < 0x20 || key[i] > 0x7e) {
            return reply_error(conn, 400, "bad_key",
                               "Idempotency-Key %s: byte %zu is not a printable ASCII character",
                               text_show(key, head->key_len, shown, sizeof shown), i + 1);
        }
    }
    return true;
}

/* The tag has segments. */
static int answer_trend(struct conn *conn, struct call *call, const char *shown)
{
    struct id_claim *claim = &call->claim;

    if (claim->keyed) {
        return reply_error(conn, 400, "bad_key",
                           "an Idempotency-Key needs a tag in strict mode; tag %s is in trend mode",
                           shown);
    }
    if (!claim->reopened) {
        return call->on_trend(conn, claim);
    }
    return reply_error(conn, 503, "mode_changing", "the mode of tag %s is being changed; ask again",
                       shown);
}

static int answer_key_conflict(struct conn *conn, const struct id_claim *claim,
                               const struct strict_result *result, const char *shown)
{
    char key[SHOWN_BYTES];

    return reply_error(
        conn, 409, err_code(ERR_KEY_CONFLICT),
        "Idempotency-Key %s was used for tag %s with count=%llu; this request says count=%u",
        text_show(key_of(conn), conn_head(conn)->key_len, key, sizeof key), shown,
        (unsigned long long)result->detail, claim->count);
}

/* A refusal of which the state machine told the details. */
static int answer_result(struct conn *conn, struct call *call, const struct strict_result *result)
{
    const struct id_claim *claim = &call->claim;
    unsigned long long detail = result->detail;
    char shown[SHOWN_BYTES];

    text_show(claim->name, claim->name_len, shown, sizeof shown);
    switch (result->status) {
    case ERR_UNKNOWN_TAG:
        return reply_error(conn, 404, "unknown_tag", "there is no tag %s", shown);
    case ERR_WRONG_MODE:
        return answer_trend(conn, call, shown);
    case ERR_EXHAUSTED:
        return reply_error(conn, 409, "exhausted",
                           "tag %s has %llu ids left below 2^63, which is less than count=%u",
                           shown, detail, claim->count);
    case ERR_KEY_CONFLICT:
        return answer_key_conflict(conn, claim, result, shown);
    case ERR_KEYS_FULL:
        return reply_error(
            conn, 503, err_code(ERR_KEYS_FULL),
            "%llu idempotency keys are remembered, which is the limit (strict.keys); each is "
            "forgotten a day after its first use",
            detail);
    case ERR_CHANGING:
        return reply_error(
            conn, 503, err_code(ERR_CHANGING),
            "tag %s became strict, and node %llu has not said yet that it holds no segment "
            "of it: start that node, remove it from the cluster, or repeat the PUT with "
            "?force=1 if it never comes back",
            shown, detail);
    case ERR_EMPTY:
        return reply_error(conn, 503, "timeout",
                           "the cluster has no common time yet, which an Idempotency-Key needs");
    default:
        return reply_err(conn, result->status);
    }
}

static int answer_late(struct conn *conn, const struct id_claim *claim)
{
    return reply_error(conn, 503, "timeout", "no answer from the cluster within %u ms: %s",
                       claim->timeout_ms,
                       claim->keyed ? "repeat the request with the same Idempotency-Key"
                                    : "the ids of this request are skipped if they were allocated");
}

static int strict_cb(struct conn *conn, struct call *call)
{
    const struct id_request *request = &call->request;
    struct id_claim *claim = &call->claim;
    struct strict_result result = {.status = request->status};
    size_t count = 0;

    if (request->reply.len > 0 && (results_decode(RESULT_STRICT, request->reply.data,
                                                  request->reply.len, &result, 1, &count) != 0 ||
                                   count != 1)) {
        return ERR_BAD_MESSAGE;
    }
    if (result.status == ERR_TIMEOUT) {
        return answer_late(conn, claim);
    }
    if (result.status != 0) {
        return answer_result(conn, call, &result);
    }
    ASSERT(count == 1); /* a success has its range */
    claim->ranges[0] = (struct segment_range){result.first, claim->count};
    claim->range_count = 1;
    claim->left = 0;
    return ids_answer(conn, claim, result.replayed ? REPLAYED_HEADER : NULL);
}

int strict_start(struct conn *conn, const struct id_claim *claim,
                 int (*on_trend)(struct conn *conn, struct id_claim *claim))
{
    struct strict_item item = {claim->name, claim->name_len, key_of(conn),
                               (uint16_t)conn_head(conn)->key_len, claim->count};
    uint64_t now_ms = conns_now_ms(conn->conns);
    uint32_t wait_ms = STRICT_WAIT_MIN_MS;
    struct call *call;

    ASSERT(claim->left == claim->count && claim->range_count == 0);
    if (!key_ok(conn)) {
        return ANSWERED;
    }
    if (claim->timeout_ms > 0) {
        wait_ms = claim->deadline_ms > now_ms ? (uint32_t)(claim->deadline_ms - now_ms) : 0;
    }
    call = call_new(ID_REQUEST_STRICT, strict_cb);
    call->sees_errors = true;
    call->claim = *claim;
    call->claim.strict = true;
    call->on_trend = on_trend;
    strict_item_encode(&item, &call->request.payload);
    return call_submit_for(conn, call, wait_ms);
}
