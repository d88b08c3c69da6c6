/*
 * workers.c - the registry of worker ids, for generators outside leafd: GET and POST /api/workers,
 * PUT and DELETE /api/workers/{id}; and the zones' pools, /api/workers/pools.
 *
 * The happy path: the request is checked and encoded as a command or query, the backend has it
 * committed or answered, and the row is shown.
 *
 * The backend repeats a command when an election hides its outcome, so the second may find the
 * effect of the first. An acquire is recognised by its request id, a second release changes
 * nothing, and a renewal that compares and finds its own bound has succeeded.
 *
 * An id counts for the client that acquired it (audited.h) and owns it: another client can neither
 * renew, release nor take it over. The role admin can release it or take it over, by force=1.
 *
 * Failure modes: bad input 400 before anything is proposed; force without the role 403; all ids
 * held, another holder or owner (a node's own row among them), another epoch 409; a client that
 * holds its share 429; an id without a row 404; clocks apart, or not possible for the cluster now,
 * 503.
 *
 * Thread: the loop's.
 */
#include "http/api/audited.h"
#include "http/api/ids.h"
#include "http/api/request.h"
#include "src/base/utf8.h"
#include "src/id/codec/tag.h"

#define WHAT "a worker id's fields" /* for messages */
#define WINDOW_DEFAULT_MS 60000
#define EPOCH_MAX INT64_MAX
#define TIME_MAX_MS LIMIT_TIME_MAX_MS /* times in requests; the end of the year 9999 */

#define WINDOW_MS                                                                                  \
    {                                                                                              \
        .name = "window_ms", .min = LIMIT_WINDOW_MIN_MS, .max = LIMIT_WINDOW_MAX_MS,               \
        .number = WINDOW_DEFAULT_MS                                                                \
    }

/* The first number that is no worker id, at the cluster's level. */
static uint32_t worker_id_end(struct conn *conn)
{
    return atomic_load(&api_loop(conn)->backend->health->level) >=
                   command_since(COMMAND_WORKER_ACQUIRE_OF)
               ? LIMIT_WORKER_IDS
               : WORKER_IDS_NARROW;
}

/* --- refusals of the state machine --- */

static int fail_conflict(struct conn *conn, const struct worker_renew *asked,
                         const struct worker_result *result)
{
    const struct worker_row *row = &result->row;

    if (!result->has_row) {
        return reply_error(conn, 409, "conflict",
                           "worker_id=%u is not among those that this request may take, which are "
                           "those of its zone's pool, or those of no pool: GET /api/workers/pools "
                           "shows the pools",
                           asked->worker_id);
    }

    if (row->kind == WORKER_NODE) {
        return reply_error(
            conn, 409, "conflict",
            "worker id %u is the own one of node %s until %llu: a node alone changes its row",
            row->id, TEXT_SHOWN(row->name, row->name_len, SHOWN_BYTES), ull(row->granted_until_ms));
    }
    if (asked->expected_until_ms != 0) {
        return reply_error(
            conn, 409, "conflict",
            "expected_until_ms=%llu is not the present bound of worker id %u, which is %llu",
            ull(asked->expected_until_ms), row->id, ull(row->granted_until_ms));
    }
    return reply_error(
        conn, 409, "conflict",
        "worker id %u %s by %s until %llu: ask for none by its number, or again then", row->id,
        row->state == WORKER_HELD ? "is held" : "was released, and used up",
        TEXT_SHOWN(row->name, row->name_len, SHOWN_BYTES), ull(row->granted_until_ms));
}

static int fail_result(struct conn *conn, const struct worker_renew *asked,
                       const struct worker_result *result)
{
    const struct worker_row *row = &result->row;
    bool renews = asked->window_ms != 0;

    switch (result->status) {
    case ERR_SHARE:
        return share_refuse(conn, SHARE_WORKERS, result->held, result->most, "");
    case ERR_NO_WORKER_ID:
        return reply_error(
            conn, 409, "no_worker_id",
            "none of the worker ids that this request may take is free: those of its zone's pool, "
            "or those of no pool, of its layout, %d at a time; one is free when its window is "
            "over",
            LIMIT_WORKER_ROWS);
    case ERR_NOT_OWNER: /* to a renewal the same as another epoch: stop, acquire anew */
        return reply_error(
            conn, 409, err_code(renews ? ERR_FENCED : ERR_CONFLICT),
            "worker id %u belongs to another client, by the name %s, until %llu: the "
            "token, certificate or address that acquired it alone renews or releases "
            "it%s",
            row->id, TEXT_SHOWN(row->name, row->name_len, SHOWN_BYTES), ull(row->granted_until_ms),
            renews ? "" : "; the role admin may with force=1");
    case ERR_CONFLICT:
        return fail_conflict(conn, asked, result);
    case ERR_FENCED:
        return reply_error(conn, 409, "fenced", "worker id %u is at epoch %llu and %s by %s",
                           row->id, ull(row->epoch),
                           row->state == WORKER_HELD ? "held" : "was released",
                           TEXT_SHOWN(row->name, row->name_len, SHOWN_BYTES));
    case ERR_CLOCK_SKEW:
        return reply_error(
            conn, 503, "clock_skew",
            "too far ahead of the cluster's time: this node's clock shows %llu, at most %d "
            "ms are allowed; for from_ms and the window's end, %d ms more",
            ull(asked->wall_ms), LIMIT_WORKER_AHEAD_MS, LIMIT_WINDOW_MAX_MS);
    case ERR_INVALID:
        /* An acquire: the layout's bits; a renewal: the granted window. The rest was checked
         * here. */
        return result->has_row
                   ? reply_error(conn, 400, "bad_request",
                                 "last_timestamp_ms=%llu is above the window of worker id %u, "
                                 "granted until %llu",
                                 ull(asked->last_timestamp_ms), row->id, ull(row->granted_until_ms))
                   : reply_error(conn, 400, "bad_request",
                                 "worker_id=%u is beyond this cluster's layout, or the one named",
                                 asked->worker_id);
    case ERR_NOT_FOUND:
        return reply_error(conn, 404, "unknown_worker",
                           "worker id %u is not registered: acquire one", asked->worker_id);
    case ERR_EMPTY:
        return reply_error(
            conn, 503, "no_leader",
            "the cluster has no time or no layout yet, as right after its first start; try "
            "again");
    default:
        return reply_err(conn, result->status);
    }
}

/* Answer acquire, renew and release. */
static int worker_change_cb(struct conn *conn, struct call *call)
{
    int status = call->done;
    const struct worker_renew *asked = &call->worker;
    const struct buf *payload = &call->request.payload;
    const struct buf *reply = &call->request.reply;
    struct worker_result result;
    const struct worker_row *row = &result.row;
    const struct snowflake *own = api_loop(conn)->backend->snowflake;
    char place[LOOKS_WHY_BYTES];
    struct command command;
    struct buf *json;
    bool is_ready;
    bool done;

    if (worker_result_decode(reply->data, reply->len, &result) != 0) {
        return ERR_BAD_MESSAGE;
    }
    if (result.status == ERR_INVALID && command_read(payload->data, payload->len, &command) == 0 &&
        command_acquires((int)command.type) &&
        looks_hidden(command.acquire.name, command.acquire.name_len, place)) {
        /* The leader refused a new name with invisible characters. */
        return reply_error(
            conn, 400, "bad_request", "name=%s: %s",
            TEXT_SHOWN(command.acquire.name, command.acquire.name_len, BODY_SHOWN_BYTES), place);
    }
    /* A renewal whose bound is no longer the expected one but the requested one: an earlier try of
     * the same command was applied. */
    done = result.status == 0 ||
           (status == 200 && result.status == ERR_CONFLICT && result.has_row &&
            row->state == WORKER_HELD && row->kind == asked->kind && row->epoch == asked->epoch &&
            row->granted_until_ms == asked->wall_ms + asked->window_ms &&
            row->last_timestamp_ms >= asked->last_timestamp_ms);
    if (!done || (!result.has_row && status != 204)) {
        return fail_result(conn, asked, &result);
    }
    if (status == 204) {
        return status;
    }
    json = reply_begin(conn);
    buf_printf(json, "{\"worker_id\":%u,\"epoch\":%llu,\"from_ms\":%llu,\"until_ms\":%llu", row->id,
               ull(row->epoch), ull(row->granted_from_ms), ull(row->granted_until_ms));
    buf_printf(json, ",\"layout\":");
    if (call->named != NULL) {
        layout_row_json_put(&call->named->row, false, json);
    } else { /* the cluster's own; null if the id is beyond it: no row says which one it is for */
        is_ready = atomic_load_explicit(&own->ready, memory_order_acquire);
        layout_json_put(is_ready && row->id >> own->layout.worker_bits == 0 ? own : NULL, "", json);
    }
    buf_printf(json, "}");
    return status;
}

/* --- acquire --- */

/* Is the cluster at the level of these commands? Else answered. */
static bool level_ok(struct conn *conn, enum command_type type, const char *what)
{
    unsigned level = command_since((int)type);

    return atomic_load(&api_loop(conn)->backend->health->level) >= level ||
           (!request_looks_again(conn) &&
            reply_error(conn, 400, "newer", NEEDS_LEVEL, what, level));
}

/* Read the texts of an acquire, and the layout that it names. False: answered. */
static bool read_texts(struct conn *conn, const struct param *name, const struct param *address,
                       const struct param *layout, const struct param *zone,
                       struct worker_acquire *acquire, const struct layout_words **ret_named)
{
    char place[LOOKS_WHY_BYTES] = "";

    if (name->len < 1 || name->len > LIMIT_WORKER_NAME_BYTES ||
        tag_name_check(name->text, name->len, NULL) != 0) {
        bool hidden = looks_hidden(name->text, name->len, place);

        return reply_error(conn, 400, "bad_request",
                           "name=%s is not 1 to %d bytes of UTF-8 without control characters%s%s",
                           TEXT_SHOWN(name->text, name->len, BODY_SHOWN_BYTES),
                           LIMIT_WORKER_NAME_BYTES, hidden ? ": " : "", place);
    }
    if (address->len > LIMIT_ADDRESS_BYTES ||
        utf8_text_check(address->text, address->len, false) != 0) {
        return reply_error(conn, 400, "bad_request",
                           "address=%s is not at most %d bytes of UTF-8 without control characters",
                           TEXT_SHOWN(address->text, address->len, BODY_SHOWN_BYTES),
                           LIMIT_ADDRESS_BYTES);
    }
    if (!layout_of(conn, layout, ret_named)) {
        return false;
    }
    if (*ret_named != NULL && snowflake_named_is_deleted(*ret_named)) {
        return !request_looks_again(conn) &&
               reply_error(conn, 404, "unknown_layout", "layout %s was deleted",
                           (*ret_named)->row.name);
    }
    if (zone->len > LIMIT_ZONE_BYTES || (zone->present && zone->len == 0) ||
        utf8_text_check(zone->text, zone->len, false) != 0) {
        return reply_error(conn, 400, "bad_request",
                           "zone=%s is not 1 to %d bytes of UTF-8 without control characters",
                           TEXT_SHOWN(zone->text, zone->len, BODY_SHOWN_BYTES), LIMIT_ZONE_BYTES);
    }
    acquire->name = name->text;
    acquire->name_len = (uint16_t)name->len;
    acquire->address = address->text;
    acquire->address_len = (uint16_t)address->len;
    acquire->bits = *ret_named != NULL ? (*ret_named)->row.layout.bits.worker_bits : 0;
    acquire->zone = zone->text;
    acquire->zone_len = (uint16_t)zone->len;
    return command_type_for(COMMAND_WORKER_ACQUIRE, acquire) == COMMAND_WORKER_ACQUIRE ||
           level_ok(conn, COMMAND_WORKER_ACQUIRE_OF, "layout and zone need");
}

/* True: the request has no force=1, or may have it. Else answered. */
static bool force_ok(struct conn *conn, const struct param *force)
{
    if (force->number == 1 && !gate_may(conn, ROLE_ADMIN)) {
        audited_refuse_as(conn, 403, "force=1 needs the role admin");
        return reply_error(conn, 403, "forbidden",
                           "force=1 changes what another client holds: it needs the role admin");
    }
    return true;
}

int handle_worker_acquire(struct conn *conn)
{
    struct param force = OPTION_FLAG("force");
    struct param fields[] = {
        {.name = "name", .needed = true, .kind = PARAM_TEXT},
        {.name = "address", .kind = PARAM_TEXT, .text = ""},
        WINDOW_MS,
        {.name = "worker_id", .max = worker_id_end(conn) - 1, .number = WORKER_ID_ANY},
        {.name = "from_ms", .max = TIME_MAX_MS},
        {.name = "layout", .kind = PARAM_TEXT},
        {.name = "zone", .kind = PARAM_TEXT, .text = ""},
    };
    const struct layout_words *named;
    const struct api_loop *loop = api_loop(conn);
    struct share share = share_of(conn);
    struct worker_acquire acquire;
    struct call *call;

    if (!request_options(conn, &force, 1) || !force_ok(conn, &force) ||
        !request_body(conn, WHAT, "{}", fields, COUNT_OF(fields))) {
        return ANSWERED;
    }
    if (force.number == 1 && !fields[3].present) {
        return reply_error(conn, 400, "bad_request", "force=1 needs the worker_id to take over");
    }
    acquire = (struct worker_acquire){
        .kind = WORKER_CLIENT,
        .worker_id = (uint32_t)fields[3].number,
        .floor_ms = fields[4].number,
        .window_ms = fields[2].number,
        .wall_ms = clock_wall_ms(loop->backend->clock),
        .client = share.client,
        .most = (uint16_t)(share.workers < UINT16_MAX ? share.workers : UINT16_MAX),
        .percent = (uint8_t)loop->api->settings->worker_percent,
        .force = force.number == 1,
    };
    if (!read_texts(conn, &fields[0], &fields[1], &fields[5], &fields[6], &acquire, &named)) {
        return ANSWERED;
    }
    call = call_new(CLUSTER_REQUEST_COMMAND, worker_change_cb);
    call->done = 201;
    call->worker.worker_id = acquire.worker_id;
    call->worker.wall_ms = acquire.wall_ms;
    call->named = named;
    command_put(&call->request.payload, command_type_for(COMMAND_WORKER_ACQUIRE, &acquire),
                &acquire);
    return audited_submit(conn, call, loop->api->settings->default_timeout_ms);
}

/* --- renew --- */

int handle_worker_renew(struct conn *conn)
{
    struct param fields[] = {
        {.name = "epoch", .needed = true, .min = 1, .max = EPOCH_MAX},
        WINDOW_MS,
        {.name = "last_timestamp_ms", .max = TIME_MAX_MS},
        {.name = "expected_until_ms", .max = TIME_MAX_MS},
        {.name = "layout", .kind = PARAM_TEXT},
    };
    const struct layout_words *named;
    struct call *call;
    uint64_t id;

    if (!request_path_number(conn, "worker id", 0, worker_id_end(conn) - 1, &id) ||
        !request_options(conn, NULL, 0) ||
        !request_body(conn, WHAT, "{}", fields, COUNT_OF(fields)) ||
        !layout_of(conn, &fields[4], &named)) {
        return ANSWERED;
    }
    if (named != NULL && id >> named->row.layout.bits.worker_bits != 0) {
        return reply_error(conn, 400, "bad_request", "worker id %llu is beyond layout %s", ull(id),
                           named->row.name);
    }
    call = call_new(CLUSTER_REQUEST_COMMAND, worker_change_cb);
    call->done = 200;
    call->named = named;
    call->worker = (struct worker_renew){
        .worker_id = (uint32_t)id,
        .epoch = fields[0].number,
        .expected_until_ms = fields[3].number,
        .window_ms = fields[1].number,
        .last_timestamp_ms = fields[2].number,
        .wall_ms = clock_wall_ms(api_loop(conn)->backend->clock),
        .kind = WORKER_CLIENT,
        .client = share_of(conn).client,
    };
    command_put(&call->request.payload, command_type_for(COMMAND_WORKER_RENEW, &call->worker),
                &call->worker);
    return call_submit(conn, call);
}

/* --- release --- */

#define RELEASE_FIELDS                                                                             \
    {.name = "epoch", .min = 1, .max = EPOCH_MAX},                                                 \
    {                                                                                              \
        .name = "last_timestamp_ms", .max = TIME_MAX_MS                                            \
    }

int handle_worker_release(struct conn *conn)
{
    struct param options[] = {RELEASE_FIELDS, OPTION_FLAG("force")};
    struct param fields[] = {RELEASE_FIELDS};
    struct worker_release release;
    struct call *call;
    uint64_t id;

    if (!request_path_number(conn, "worker id", 0, worker_id_end(conn) - 1, &id) ||
        !request_options(conn, options, 3) || !force_ok(conn, &options[2]) ||
        !request_body(conn, WHAT, "{}", fields, 2)) {
        return ANSWERED;
    }
    for (int i = 0; i < 2; i++) { /* each from the query or from the body */
        if (fields[i].present && options[i].number != 0) {
            return reply_error(conn, 400, "bad_request", "%s is given in the query and in the body",
                               fields[i].name);
        }
        options[i].number += fields[i].number;
    }
    if (options[0].number == 0) {
        return reply_error(conn, 400, "bad_request",
                           "epoch is missing, in the query or in the body");
    }
    release = (struct worker_release){
        .kind = WORKER_CLIENT,
        .client = share_of(conn).client,
        .worker_id = (uint32_t)id,
        .epoch = options[0].number,
        .last_timestamp_ms = options[1].number,
        .force = options[2].number == 1,
    };
    call = call_new(CLUSTER_REQUEST_COMMAND, worker_change_cb);
    call->done = 204;
    call->worker.worker_id = release.worker_id;
    command_put(&call->request.payload, command_type_for(COMMAND_WORKER_RELEASE, &release),
                &release);
    return audited_submit(conn, call, api_loop(conn)->api->settings->default_timeout_ms);
}

/* --- list --- */

static int workers_list_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    struct buf *json = reply_begin(conn);
    struct worker_rows rows;
    size_t count;

    if (worker_rows_decode(reply->data, reply->len, &rows) != 0) {
        return ERR_BAD_MESSAGE;
    }
    /* One more than wanted was requested, to know whether there are more. */
    count = rows.count > call->list_limit ? call->list_limit : rows.count;
    buf_printf(json, "{\"workers\":[");
    for (size_t i = 0; i < count; i++) {
        const struct worker_row *row = &rows.rows[i];

        buf_printf(json, "%s{\"worker_id\":%u,\"state\":\"%s\",\"kind\":\"%s\"", i > 0 ? "," : "",
                   row->id, row->state == WORKER_HELD ? "held" : "released",
                   row->kind == WORKER_NODE ? "node" : "client");
        text_put_field_of(json, ",\"name\":", row->name, row->name_len);
        text_put_field_of(json, ",\"address\":", row->address, row->address_len);
        buf_printf(json,
                   ",\"epoch\":%llu,\"from_ms\":%llu,\"until_ms\":%llu,\"last_timestamp_ms\":%llu,"
                   "\"updated_ms\":%llu}",
                   ull(row->epoch), ull(row->granted_from_ms), ull(row->granted_until_ms),
                   ull(row->last_timestamp_ms), ull(row->updated_ms));
    }
    text_put_number(json, "],\"log_time_ms\":", rows.log_ms);
    text_put_number(json,
                    ",\"next\":", count < rows.count ? rows.rows[count - 1].id : TEXT_UNKNOWN);
    buf_printf(json, "}");
    worker_rows_release(&rows);
    return 200;
}

int handle_workers_list(struct conn *conn)
{
    struct param options[] = {
        {.name = "after",
         .max = worker_id_end(conn) - 1,
         .may_be_empty = true, /* from the start, as for tags */
         .number = UINT64_MAX},
        {.name = "limit", .min = 1, .max = LIMIT_WORKERS_PER_PAGE, .number = PAGE_LIMIT_DEFAULT},
        OPTION_CONSISTENCY,
    };
    struct call *call;
    uint64_t limit;
    bool has_more;

    if (!request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    limit = options[1].number;
    has_more = atomic_load(&api_loop(conn)->backend->health->level) >=
               command_since(COMMAND_WORKER_ACQUIRE_OF); /* than a page, see WORKER_ROWS_MAX */
    call = call_new(CLUSTER_REQUEST_QUERY, workers_list_cb);
    call->request.local = options[2].number == 1;
    call->list_limit = (uint32_t)limit;
    query_workers_encode(
        &call->request.payload, (uint32_t)(options[0].number + 1),
        (uint16_t)(limit < LIMIT_WORKERS_PER_PAGE || has_more ? limit + 1 : limit));
    return call_submit(conn, call);
}

/* --- pools --- */

static int pools_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    struct buf *json = reply_begin(conn);

    text_put_field_of(json, "{\"pools\":", reply->len > 0 ? (const char *)reply->data : "",
                      reply->len);
    buf_printf(json, "}");
    return 200;
}

int handle_pools_get(struct conn *conn)
{
    struct call *call = call_new(CLUSTER_REQUEST_QUERY, pools_cb);

    query_pools_encode(&call->request.payload);
    return call_submit(conn, call);
}

static int pools_put_cb(struct conn *conn, struct call *call)
{
    int status = call_status(call);

    return status != 0 ? status : handle_pools_get(conn);
}

/* No layout has room for worker ids from this one on; UINT32_MAX where this node does not know the
 * cluster's own. */
static uint32_t worker_ids_end(const struct snowflake *own)
{
    uint32_t count = atomic_load_explicit(&own->named.count, memory_order_acquire);
    unsigned bits = own->layout.worker_bits;

    if (!atomic_load_explicit(&own->ready, memory_order_acquire)) {
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < count; i++) {
        unsigned named = own->named.items[i]->row.layout.bits.worker_bits;

        bits = named > bits ? named : bits;
    }
    return UINT32_C(1) << bits;
}

int handle_pools_put(struct conn *conn)
{
    uint32_t end = worker_ids_end(api_loop(conn)->backend->snowflake);
    struct param fields[] = {{.name = "pools", .needed = true, .kind = PARAM_TEXT}};
    char why[WORKER_POOLS_WHY_BYTES];
    struct worker_pools pools;
    struct call *call;
    int err;

    if (!level_ok(conn, COMMAND_WORKER_POOLS, "pools need") ||
        !request_body(conn, "pools", "{}", fields, COUNT_OF(fields))) {
        return ANSWERED;
    }
    err = worker_pools_read(fields[0].text, fields[0].len, &pools, why);
    if (err != 0) {
        return reply_error(conn, err == ERR_CONFLICT ? 409 : 400,
                           err == ERR_CONFLICT ? "conflict" : "bad_request", "pools: %s", why);
    }
    if (fields[0].len > LIMIT_POOLS_BYTES) {
        return reply_error(conn, 400, "bad_request", "pools has %zu bytes, and %d are the most",
                           fields[0].len, LIMIT_POOLS_BYTES);
    }
    for (uint32_t i = 0; i < pools.count; i++) {
        const struct worker_pool *pool = &pools.items[i];

        if (pool->last >= end) {
            return request_looks_again(conn)
                       ? ANSWERED
                       : reply_error(conn, 409, "conflict",
                                     "pools: %s=%u-%u is beyond all layouts, whose worker ids end "
                                     "at %u: make the layout first, or choose lower ones",
                                     pool->zone, pool->first, pool->last, end - 1);
        }
    }
    call = call_new(CLUSTER_REQUEST_COMMAND, pools_put_cb);
    command_put(&call->request.payload, COMMAND_WORKER_POOLS,
                &(struct worker_pools_put){fields[0].text, (uint16_t)fields[0].len});
    return call_submit(conn, call);
}
