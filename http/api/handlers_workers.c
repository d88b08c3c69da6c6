/*
 * handlers_workers.c - the registry of worker ids, for generators outside of leafd: GET and POST
 * /api/workers, PUT and DELETE /api/workers/{id}.
 *
 * The happy path: the request is checked and encoded as a command or query, the backend has it
 * committed or answered, and the row is shown.
 *
 * Commands are repeated by the backend when an election hides their outcome, so the second one may
 * meet what the first one did. An acquire is known by its request id, a release changes nothing the
 * second time, and a renewal that compares and finds its own bound has done what was asked.
 *
 * Failure modes: bad input 400 before anything is proposed; all ids held, another holder (a node's
 * own row among them), another epoch 409; an id that nobody ever had 404; clocks apart, and what
 * the cluster cannot do now, 503.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/request.h"
#include "http/api/worker_json.h"
#include "src/base/assert.h"

/* --- what the state machine refused --- */

static void fail_conflict(struct conn *conn, const struct worker_renew *asked,
                          const struct worker_row *row)
{
    char shown[SHOWN_BYTES];

    if (row->kind == WORKER_NODE) {
        reply_error(
            conn, 409, "conflict",
            "worker id %u is the own one of node %s until %llu: a node alone changes its row",
            row->id, text_show(row->name, row->name_len, shown, sizeof shown),
            (unsigned long long)row->granted_until_ms);
    } else if (asked->expected_until_ms != 0) {
        reply_error(
            conn, 409, "conflict",
            "expected_until_ms=%llu is not the present bound of worker id %u, which is %llu",
            (unsigned long long)asked->expected_until_ms, row->id,
            (unsigned long long)row->granted_until_ms);
    } else {
        reply_error(conn, 409, "conflict", "worker id %u is held by %s until %llu", row->id,
                    text_show(row->name, row->name_len, shown, sizeof shown),
                    (unsigned long long)row->granted_until_ms);
    }
}

static void fail_fenced(struct conn *conn, const struct worker_row *row)
{
    char shown[SHOWN_BYTES];

    reply_error(conn, 409, "fenced", "worker id %u is at epoch %llu and %s by %s", row->id,
                (unsigned long long)row->epoch, row->state == WORKER_HELD ? "held" : "was released",
                text_show(row->name, row->name_len, shown, sizeof shown));
}

/* The layout's bits for an acquire, the granted window for a renewal: the rest was checked here. */
static void fail_invalid(struct conn *conn, const struct worker_renew *asked,
                         const struct worker_result *result)
{
    if (result->has_row) {
        reply_error(
            conn, 400, "bad_request",
            "last_timestamp_ms=%llu is above the window of worker id %u, granted until %llu",
            (unsigned long long)asked->last_timestamp_ms, result->row.id,
            (unsigned long long)result->row.granted_until_ms);
    } else {
        reply_error(conn, 400, "bad_request", "worker_id=%u is beyond this cluster's layout",
                    asked->worker_id);
    }
}

static void fail_result(struct conn *conn, const struct worker_renew *asked,
                        const struct worker_result *result)
{
    switch (result->status) {
    case ERR_NO_WORKER_ID:
        reply_error(
            conn, 409, "no_worker_id",
            "all worker ids are held; one is free when it is released or its window is over");
        return;
    case ERR_CONFLICT:
        fail_conflict(conn, asked, &result->row);
        return;
    case ERR_FENCED:
        fail_fenced(conn, &result->row);
        return;
    case ERR_CLOCK_SKEW:
        reply_error(conn, 503, "clock_skew",
                    "too far ahead of the cluster's time: this node's clock shows %llu, at most %d "
                    "ms are allowed; for from_ms and the window's end, %d ms more",
                    (unsigned long long)asked->wall_ms, LIMIT_WORKER_AHEAD_MS, LIMIT_WINDOW_MAX_MS);
        return;
    case ERR_INVALID:
        fail_invalid(conn, asked, result);
        return;
    case ERR_NOT_FOUND:
        reply_error(conn, 404, "unknown_worker", "nobody ever held worker id %u", asked->worker_id);
        return;
    case ERR_EMPTY:
        reply_error(conn, 503, "no_leader",
                    "the cluster has no time or no layout yet, as right after its first start; try "
                    "again");
        return;
    default:
        reply_err(conn, result->status);
        return;
    }
}

/* The command's result. False if there is none; answered. */
static bool read_result(struct conn *conn, const struct call *call,
                        struct worker_result *ret_result)
{
    const struct buf *reply = &call->request.reply;

    if (worker_result_decode(reply->data, reply->len, ret_result) != 0) {
        reply_err(conn, ERR_BAD_MESSAGE);
        return false;
    }
    return true;
}

static void answer_grant(struct conn *conn, int status, const struct worker_row *row)
{
    struct buf *scratch = &conn->conns->scratch;

    scratch->len = 0;
    worker_json_put_grant(row, scratch);
    reply_json(conn, status, scratch);
}

/* --- acquire --- */

static void acquire_cb(struct conn *conn, struct call *call)
{
    struct worker_result result;

    if (!read_result(conn, call, &result)) {
        return;
    }
    if (result.status == 0 && result.has_row) {
        answer_grant(conn, 201, &result.row);
    } else {
        fail_result(conn, &call->worker, &result);
    }
}

void handle_worker_acquire(struct conn *conn)
{
    struct worker_acquire acquire = {.kind = WORKER_CLIENT,
                                     .wall_ms = clock_wall_ms(api_loop(conn)->backend->clock)};
    struct body_fault fault;
    struct call *call;

    if (!request_no_options(conn)) {
        return;
    }
    call = call_new(ID_REQUEST_COMMAND, acquire_cb);
    if (worker_json_read_acquire(conn->body.data, conn->body.len, &acquire, &call->request.payload,
                                 &fault) != 0) {
        call_free(call);
        reply_error(conn, 400, fault.code, "%s", fault.message);
        return;
    }
    call->worker.worker_id = acquire.worker_id;
    call->worker.wall_ms = acquire.wall_ms;
    call_submit(conn, call);
}

/* --- renew --- */

/* The bound is not the expected one any more, but the one that was asked for: an earlier try of the
 * same command was applied. */
static bool renewed_already(const struct worker_renew *asked, const struct worker_result *result)
{
    const struct worker_row *row = &result->row;

    return result->status == ERR_CONFLICT && row->state == WORKER_HELD &&
           row->kind == asked->kind && row->epoch == asked->epoch &&
           row->granted_until_ms == asked->wall_ms + asked->window_ms &&
           row->last_timestamp_ms >= asked->last_timestamp_ms;
}

static void renew_cb(struct conn *conn, struct call *call)
{
    struct worker_result result;

    if (!read_result(conn, call, &result)) {
        return;
    }
    if (result.has_row && (result.status == 0 || renewed_already(&call->worker, &result))) {
        answer_grant(conn, 200, &result.row);
    } else {
        fail_result(conn, &call->worker, &result);
    }
}

void handle_worker_renew(struct conn *conn)
{
    struct body_fault fault;
    struct call *call;
    uint64_t id;

    if (!request_path_number(conn, "worker id", 0, LIMIT_WORKER_IDS - 1, &id) ||
        !request_no_options(conn)) {
        return;
    }
    call = call_new(ID_REQUEST_COMMAND, renew_cb);
    call->worker.kind = WORKER_CLIENT;
    call->worker.worker_id = (uint16_t)id;
    call->worker.wall_ms = clock_wall_ms(api_loop(conn)->backend->clock);
    if (worker_json_read_renew(conn->body.data, conn->body.len, &call->worker, &fault) != 0) {
        call_free(call);
        reply_error(conn, 400, fault.code, "%s", fault.message);
        return;
    }
    command_put(&call->request.payload, COMMAND_WORKER_RENEW, &call->worker);
    call_submit(conn, call);
}

/* --- release --- */

static void release_cb(struct conn *conn, struct call *call)
{
    struct worker_result result;

    if (!read_result(conn, call, &result)) {
        return;
    }
    if (result.status == 0) {
        reply_nothing(conn);
    } else {
        fail_result(conn, &call->worker, &result);
    }
}

/* Epoch and last time from the query, the body, or each from one of them. False if answered. */
static bool read_release(struct conn *conn, struct worker_release *release)
{
    struct option options[] = {{.name = "epoch"}, {.name = "last_timestamp_ms"}};
    char space[LIMIT_HTTP_TARGET_BYTES];
    struct body_fault fault;

    if (!request_options(conn, options, 2, space) ||
        !request_number(conn, &options[0], "bad_request", 1, WORKER_EPOCH_MAX, 0,
                        &release->epoch) ||
        !request_number(conn, &options[1], "bad_request", 0, WORKER_TIME_MAX_MS, 0,
                        &release->last_timestamp_ms)) {
        return false;
    }
    if (worker_json_read_release(conn->body.data, conn->body.len, release, &fault) != 0) {
        reply_error(conn, 400, fault.code, "%s", fault.message);
        return false;
    }
    if (release->epoch == 0) {
        reply_error(conn, 400, "bad_request", "epoch is missing, in the query or in the body");
        return false;
    }
    return true;
}

void handle_worker_release(struct conn *conn)
{
    struct worker_release release = {.kind = WORKER_CLIENT};
    struct call *call;
    uint64_t id;

    if (!request_path_number(conn, "worker id", 0, LIMIT_WORKER_IDS - 1, &id) ||
        !read_release(conn, &release)) {
        return;
    }
    release.worker_id = (uint16_t)id;
    call = call_new(ID_REQUEST_COMMAND, release_cb);
    call->worker.worker_id = release.worker_id;
    command_put(&call->request.payload, COMMAND_WORKER_RELEASE, &release);
    call_submit(conn, call);
}

/* --- list --- */

static void put_list(const struct worker_rows *rows, size_t limit, struct buf *buf)
{
    /* One more than wanted was asked for, to know whether there is more. */
    bool more = rows->count > limit;
    size_t count = more ? limit : rows->count;

    buf_printf(buf, "{\"workers\":[");
    for (size_t i = 0; i < count; i++) {
        buf_printf(buf, "%s", i > 0 ? "," : "");
        worker_json_put_row(&rows->rows[i], buf);
    }
    buf_printf(buf, "],\"log_time_ms\":%llu,\"next\":", (unsigned long long)rows->log_ms);
    if (more) {
        buf_printf(buf, "%u}", rows->rows[count - 1].id);
    } else {
        buf_printf(buf, "null}");
    }
}

static void list_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    struct buf *scratch = &conn->conns->scratch;
    struct worker_rows rows;

    if (worker_rows_decode(reply->data, reply->len, &rows) != 0) {
        reply_err(conn, ERR_BAD_MESSAGE);
        return;
    }
    scratch->len = 0;
    put_list(&rows, call->list_limit, scratch);
    reply_json(conn, 200, scratch);
    worker_rows_release(&rows);
}

void handle_workers_list(struct conn *conn)
{
    struct option options[] = {{.name = "after"}, {.name = "limit"}, {.name = "consistency"}};
    char space[LIMIT_HTTP_TARGET_BYTES];
    struct call *call;
    uint64_t after;
    uint64_t limit;
    bool local;

    if (!request_options(conn, options, 3, space)) {
        return;
    }
    options[0].present = options[0].len > 0; /* after= means from the start, as for tags */
    if (!request_number(conn, &options[0], "bad_request", 0, LIMIT_WORKER_IDS - 1, UINT64_MAX,
                        &after) ||
        !request_number(conn, &options[1], "bad_request", 1, LIMIT_WORKER_IDS, PAGE_LIMIT_DEFAULT,
                        &limit) ||
        !request_consistency(conn, &options[2], &local)) {
        return;
    }
    call = call_new(ID_REQUEST_QUERY, list_cb);
    call->request.local = local;
    call->list_limit = (uint32_t)limit;
    query_workers_encode(&call->request.payload, (uint16_t)(after + 1),
                         (uint16_t)(limit < LIMIT_WORKER_IDS ? limit + 1 : limit));
    call_submit(conn, call);
}
