/*
 * handlers_strict.c - ids of strict tags: one request to the log for each, so that an id is greater
 * than every id of its tag whose reply arrived anywhere before the request was sent.
 *
 * The happy path: the tag, the count and the Idempotency-Key go to the backend (ID_REQUEST_STRICT);
 * the answer is one range. Every node takes the request; the cluster gathers what waits on all of
 * them.
 *
 * When the tag is in trend mode after all (this node is behind), a request without a key begins
 * anew with a segment, once the cluster was asked; one with a key is refused, because a segment
 * cannot keep its promise.
 *
 * Failure modes: unknown tag 404; exhausted and a key that was used with another count 409; a bad
 * key 400; all that may be tried again 503, each with its own code. After a 503 `timeout` the ids
 * may have been used up; with a key the same request can be repeated without losing any.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include <stdio.h>

#include "http/server/conn.h"
#include "src/base/assert.h"
#include "src/id/codec/strict_command.h"

/* An id of a strict tag needs a majority, which no request that waits for nothing could ever hear:
 * timeout_ms=0 waits so long. */
#define STRICT_WAIT_MIN_MS 500

#define REPLAYED_HEADER "Idempotency-Replayed: true\r\n"

static const char *key_of(const struct conn *conn)
{
    return conn_at(conn, conn->head.key_at);
}

/* The key of the request is fit to be kept, or there is none; else answered. */
static bool key_ok(struct conn *conn)
{
    const struct parser_head *head = &conn->head;
    const char *key = key_of(conn);
    char shown[160];

    if (head->key_count == 0) {
        return true;
    }
    if (head->key_count > 1) {
        conn_fail(conn, 400, "bad_key", "%u Idempotency-Key headers; one request has one key",
                  head->key_count);
        return false;
    }
    if (head->key_len < 1 || head->key_len > LIMIT_KEY_BYTES) {
        conn_fail(conn, 400, "bad_key", "an Idempotency-Key of %u bytes; it must have 1 to %d",
                  head->key_len, LIMIT_KEY_BYTES);
        return false;
    }
    for (size_t i = 0; i < head->key_len; i++) {
        if (key[i] < 0x20 || key[i] > 0x7e) {
            conn_fail(conn, 400, "bad_key",
                      "Idempotency-Key %s: byte %zu is not a printable ASCII character",
                      text_show(key, head->key_len, shown, sizeof(shown)), i + 1);
            return false;
        }
    }
    return true;
}

/* The tag has segments. */
static void answer_trend(struct conn *conn, const char *shown)
{
    struct id_claim *claim = &conn->claim;

    if (claim->keyed) {
        conn_fail(conn, 400, "bad_key",
                  "an Idempotency-Key needs a tag in strict mode; tag %s is in trend mode", shown);
    } else if (!claim->reopened) {
        ids_reopen(conn);
    } else {
        conn_fail(conn, 503, "mode_changing", "the mode of tag %s is being changed; ask again",
                  shown);
    }
}

static void answer_key_conflict(struct conn *conn, const struct strict_result *result,
                                const char *shown)
{
    char key[160];

    conn_fail(conn, 409, err_code(ERR_KEY_CONFLICT),
              "Idempotency-Key %s was used for tag %s with count=%llu; this request says count=%u",
              text_show(key_of(conn), conn->head.key_len, key, sizeof(key)), shown,
              (unsigned long long)result->detail, conn->claim.count);
}

/* A refusal of which the state machine told the details. */
static void answer_result(struct conn *conn, const struct strict_result *result)
{
    const struct id_claim *claim = &conn->claim;
    unsigned long long detail = result->detail;
    char shown[160];

    text_show(claim->name, claim->name_len, shown, sizeof(shown));
    switch (result->status) {
    case ERR_UNKNOWN_TAG:
        conn_fail(conn, 404, "unknown_tag", "there is no tag %s", shown);
        return;
    case ERR_WRONG_MODE:
        answer_trend(conn, shown);
        return;
    case ERR_EXHAUSTED:
        conn_fail(conn, 409, "exhausted",
                  "tag %s has %llu ids left below 2^63, which is less than count=%u", shown, detail,
                  claim->count);
        return;
    case ERR_KEY_CONFLICT:
        answer_key_conflict(conn, result, shown);
        return;
    case ERR_KEYS_FULL:
        conn_fail(conn, 503, err_code(ERR_KEYS_FULL),
                  "%llu idempotency keys are remembered, which is the limit (strict.keys); each is "
                  "forgotten a day after its first use",
                  detail);
        return;
    case ERR_CHANGING:
        conn_fail(conn, 503, err_code(ERR_CHANGING),
                  "tag %s became strict, and node %llu has not said yet that it holds no segment "
                  "of it: start that node, remove it from the cluster, or repeat the PUT with "
                  "?force=1 if it never comes back",
                  shown, detail);
        return;
    case ERR_EMPTY:
        conn_fail(conn, 503, "timeout",
                  "the cluster has no common time yet, which an Idempotency-Key needs");
        return;
    default:
        conn_fail_err(conn, result->status);
        return;
    }
}

static void answer_late(struct conn *conn)
{
    const struct id_claim *claim = &conn->claim;

    conn_fail(conn, 503, "timeout", "no answer from the cluster within %u ms: %s",
              claim->timeout_ms,
              claim->keyed ? "repeat the request with the same Idempotency-Key"
                           : "the ids of this request are skipped if they were allocated");
}

static void strict_cb(struct conn *conn, struct control *control)
{
    const struct id_request *request = &control->request;
    struct id_claim *claim = &conn->claim;
    struct strict_result result = {.status = request->status};
    size_t count = 0;

    if (request->reply.len > 0 &&
        (strict_results_decode(request->reply.data, request->reply.len, &result, 1, &count) != 0 ||
         count != 1)) {
        conn_fail_err(conn, ERR_BAD_MESSAGE);
        return;
    }
    if (result.status == ERR_TIMEOUT) {
        answer_late(conn);
        return;
    }
    if (result.status != 0) {
        answer_result(conn, &result);
        return;
    }
    ASSERT(count == 1); /* a success has its range */
    claim->ranges[0] = (struct segment_range){result.first, claim->count};
    claim->range_count = 1;
    claim->left = 0;
    ids_answer(conn, result.replayed ? REPLAYED_HEADER : NULL);
}

void strict_start(struct conn *conn)
{
    struct id_claim *claim = &conn->claim;
    struct strict_item item = {claim->name, claim->name_len, key_of(conn),
                               (uint16_t)conn->head.key_len, claim->count};
    uint64_t now_ms = loop_now_ms(conn->loop);
    uint32_t wait_ms = STRICT_WAIT_MIN_MS;
    struct control *control;

    ASSERT(claim->left == claim->count && claim->range_count == 0);
    if (!key_ok(conn)) {
        return;
    }
    if (claim->timeout_ms > 0) {
        wait_ms = claim->deadline_ms > now_ms ? (uint32_t)(claim->deadline_ms - now_ms) : 0;
    }
    claim->strict = true;
    control = control_new(conn, ID_REQUEST_STRICT, strict_cb);
    strict_item_encode(&item, &control->request.payload);
    control_submit(control, wait_ms);
}
