/*
 * tags.c - the table of tags: PUT, GET, DELETE /api/tags/{tag}, GET and POST /api/tags.
 *
 * The happy path: the request is checked and encoded as a command or query, the backend has it
 * committed or answered, and the result is shown.
 *
 * A change with ?wait=all is made as any other. Then the backend is asked to report when all
 * members have applied its entry (CLUSTER_REQUEST_BARRIER), and only then is the result shown.
 *
 * Failure modes: bad input 400 before anything is proposed; would_repeat, needs_force, a cover_s
 * for which too few ids are left: 409; a client whose tags use its whole share 429; unknown tag
 * 404; not possible for the cluster now 503. Not all members have the change in time: 503
 * not_everywhere, which says that the change is made and names the missing members. It is an error
 * although the change is made: a client that asks for all must not mistake less for all.
 *
 * Thread: the loop's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api/audited.h"
#include "http/api/json.h"
#include "http/api/request.h"
#include "src/base/assert.h"
#include "src/base/container.h"

static void show_tag(struct conn *conn, const struct tag_row *row, bool is_new, struct buf *json)
{
    const struct api_loop *loop = api_loop(conn);

    tag_json_put(row, is_new, loop->zones, gate_now_ms(loop), json);
}

/* --- get --- */

static int tag_get_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    TAG_ROWS_LOCAL(rows);

    if (tag_rows_decode(reply->data, reply->len, &rows) != 0 || rows.count != 1) {
        return ERR_BAD_MESSAGE;
    }
    show_tag(conn, &rows.rows[0], false, reply_begin(conn));
    return 200;
}

int handle_tag_get(struct conn *conn)
{
    struct param options[] = {OPTION_CONSISTENCY};
    char name[LIMIT_TAG_NAME_BYTES];
    struct call *call;
    size_t name_len;

    if (!request_tag_name(conn, name, &name_len) || !request_options(conn, options, 1)) {
        return ANSWERED;
    }
    call = call_new(CLUSTER_REQUEST_QUERY, tag_get_cb);
    call->request.local = options[0].number == 1;
    query_get_encode(&call->request.payload, name, name_len);
    return call_submit(conn, call);
}

/* --- changes, and waiting for all --- */

/* A change needs a majority, whose answer a request without a wait could never get: a shorter
 * timeout_ms bounds only the wait for all. */
#define CHANGE_WAIT_MIN_MS 500
#define NAMES_BYTES 320

static const char *const wait_words[] = {"all", NULL};

#define OPTION_WAIT                                                                                \
    {                                                                                              \
        .name = "wait", .kind = PARAM_WORD, .words = wait_words,                                   \
        .rule = "is not all, its only value"                                                       \
    }

/* Of the options wait and timeout_ms, which are adjacent. */
static struct change_wait wait_of(const struct param *options, bool bulk)
{
    return (struct change_wait){
        .all = options[0].present, .bulk = bulk, .timeout_ms = (uint32_t)options[1].number};
}

/* Pass a change to the backend. */
static int submit_change(struct conn *conn, struct call *call, struct change_wait wait)
{
    uint32_t timeout_ms = wait.timeout_ms;

    call->sees_errors = true;
    call->change.wait = wait;
    call->change.wait.until_ms = uv_now(conn->conns->uv) + timeout_ms;
    return audited_submit(conn, call,
                          timeout_ms > CHANGE_WAIT_MIN_MS ? timeout_ms : CHANGE_WAIT_MIN_MS);
}

static void wait_drain(struct http_wait *wait);

/* Ask for the wait of a change, or repeat that; the change's answer moves along. */
static void wait_ask(struct conn *conn, struct call *from, uint32_t wait_ms)
{
    struct call *waited = call_new(CLUSTER_REQUEST_BARRIER, from->finish);

    waited->sees_errors = true;
    waited->change.wait = from->change.wait;
    waited->request.index = from->request.index;
    buf_move(&waited->request.reply, &from->request.reply);
    waited->wait.expire = wait_drain;
    waited->wait.expires_on_drain = true;
    call_submit_for(conn, waited, wait_ms);
}

/* The loop drains: answer the request with the present knowledge. */
static void wait_drain(struct http_wait *wait)
{
    wait_ask(conn_resume(wait), CONTAINER(wait, struct call, wait), 0);
}

/* The change was answered. True: wait for all first; then change->finish is called with another
 * call, whose request has this reply and whose status is that of the wait. */
static bool wait_for_all(struct conn *conn, struct call *change)
{
    uint64_t now_ms = uv_now(conn->conns->uv);
    uint64_t until_ms = conn->conns->draining ? now_ms : change->change.wait.until_ms;

    if (!change->change.wait.all || change->request.kind == CLUSTER_REQUEST_BARRIER) {
        return false;
    }
    wait_ask(conn, change, until_ms > now_ms ? (uint32_t)(until_ms - now_ms) : 0);
    return true;
}

/* True: the change failed, or was made and not all had it in time; answered. what: the effect that
 * holds nevertheless, for the message. */
static bool change_failed(struct conn *conn, const struct call *waited, const char *what)
{
    char names[NAMES_BYTES] = "some node"; /* "node 2 and node 3 (cut off)" */
    char json[NAMES_BYTES] = "";           /* {"id":2,"reachable":true},... */
    char when[32] = "yet, as far as this node knows";
    char why[96] = "";
    char more[NAMES_BYTES + 32];
    char message[2 * NAMES_BYTES];
    const struct missing_members *missing = &waited->change.missing;
    size_t at = 0;
    size_t json_at = 0;

    if (waited->request.status == 0) {
        return false;
    }
    if (waited->request.kind != CLUSTER_REQUEST_BARRIER) {
        reply_err(conn, waited->request.status);
        return true;
    }
    for (size_t i = 0; i < missing->count; i++) {
        bool reachable = missing->nodes[i].reachable;
        const char *before = i == 0 ? "" : i + 1 == missing->count ? " and " : ", ";
        unsigned long long id = missing->nodes[i].id;

        at += (size_t)snprintf(names + at, NAMES_BYTES - at, "%snode %llu%s", before, id,
                               reachable ? "" : " (cut off)");
        json_at += (size_t)snprintf(json + json_at, NAMES_BYTES - json_at,
                                    "%s{\"id\":%llu,\"reachable\":%s}", i == 0 ? "" : ",", id,
                                    reachable ? "true" : "false");
        ASSERT(at < NAMES_BYTES && json_at < NAMES_BYTES);
    }
    (void)snprintf(more, sizeof more, ",\"missing\":[%s]", json);
    if (conn->conns->draining) {
        (void)snprintf(why, sizeof why, ": %s", err_text(ERR_SHUTTING_DOWN));
    } else if (waited->request.status == ERR_TIMEOUT) {
        (void)snprintf(when, sizeof when, "within %u ms", waited->change.wait.timeout_ms);
    } else if (waited->request.status == ERR_OVERLOADED) {
        (void)snprintf(why, sizeof why, ": %d requests wait for all already", LIMIT_BARRIER_WAITS);
    } else {
        (void)snprintf(why, sizeof why, ": %s", err_text(waited->request.status));
    }
    (void)snprintf(message, sizeof message,
                   "%s, but %s %s not followed %s, and may hand out older ids%s", what, names,
                   missing->count > 1 ? "have" : "has", when, why);
    conn_fail(conn, 503, "not_everywhere", NULL, more, message);
    return true;
}

/* --- put --- */

/* A put that the state machine refused. bulk: its command; the message names the item. NULL: it has
 * one tag. */
static int fail_tag_put(struct conn *conn, const struct put_result *result, const struct buf *bulk)
{
    const bool is_resp = conn->caller != NULL; /* which has neither max_id nor options */
    const char *force = is_resp ? "PUT /api/tags/{tag}?force=1 over HTTP" : "force=1";
    char item[SHOWN_BYTES + 32] = "";
    struct command command;
    struct tag_put put = {0};

    if (bulk != NULL && command_read(bulk->data, bulk->len, &command) == 0) {
        for (uint32_t i = 0; i <= result->failed_at && command_next(&command.list, &put); i++) {
        }
        (void)snprintf(item, sizeof item, "item %u, tag %s: ", result->failed_at,
                       TEXT_SHOWN(put.name, put.name_len, SHOWN_BYTES));
    }
    switch (result->status) {
    case ERR_WOULD_REPEAT:
        return reply_error(
            conn, 409, "would_repeat",
            "%smax_id is %llu; lowering it to %llu would hand out ids again: %s%llu, or %s, leaves "
            "it as it is (%s lowers it)",
            item, ull(result->max_id), ull(result->asked),
            is_resp ? "the number " : "max_id=", ull(result->max_id - (is_resp ? 1 : 0)),
            is_resp ? "0" : "none", force);
    case ERR_NEEDS_FORCE:
        return reply_error(conn, 409, "needs_force", "%smax_id is %llu; %llu %s (%s does it)", item,
                           ull(result->max_id), ull(result->asked), result->why, force);
    case ERR_INVALID:
        return reply_error(conn, 400, "bad_request", "%s%s", item, result->why);
    case ERR_OVERLOADED:
        return reply_error(conn, 503, "overloaded", "%s%s", item, result->why);
    case ERR_SHARE:
        return share_refuse(conn, SHARE_TAGS, result->max_id, result->asked, item);
    case ERR_CONFLICT:
        return reply_error(conn, 409, "conflict",
                           "%s%s: a change of the key names that, or the next one", item,
                           result->why);
    default:
        return reply_err(conn, result->status);
    }
}

static int tag_put_cb(struct conn *conn, struct call *call)
{
    bool bulk = call->change.wait.bulk;
    const struct buf *reply = &call->request.reply;
    struct put_result result;

    if (change_failed(conn, call, "the change is made")) {
        return ANSWERED;
    }
    if (put_result_decode(reply->data, reply->len, &result) != 0) {
        return ERR_BAD_MESSAGE;
    }
    if (result.status != 0) {
        return fail_tag_put(conn, &result, bulk ? &call->request.payload : NULL);
    }
    if (wait_for_all(conn, call)) {
        return ANSWERED;
    }
    if (bulk) {
        buf_printf(reply_begin(conn), "{\"made\":%u,\"changed\":%u}", result.made, result.changed);
        return 200;
    }
    show_tag(conn, &result.first, result.made > 0, reply_begin(conn));
    return result.made > 0 ? 201 : 200;
}

/* Does each tag of the command have ids left for its cover_s, at this node's rate, if both are
 * known here? Else answered. Not checked where max or max_id changes as well. */
static bool covers_fit(struct conn *conn, const struct buf *payload)
{
    const struct id_backend *backend = api_loop(conn)->backend;
    struct id_figures *now = NULL; /* copied once for all tags, if one needs it */
    bool fits = true;
    struct command command;
    struct tag_put put;

    if (backend->figures == NULL || command_read(payload->data, payload->len, &command) != 0) {
        return true; /* a put that cannot be read is refused when applied */
    }
    while (fits && command_next(&command.list, &put)) {
        bool asked = (put.step_fields & TAG_FIELD_COVER) != 0 && put.cover_s > 0 &&
                     (put.fields & (TAG_FIELD_MAX | TAG_FIELD_MAX_ID)) == 0;
        const struct id_tag *tag =
            asked ? id_table_find(backend->table, put.name, put.name_len) : NULL;
        double per_s = 0; /* if the tag is one of the busiest */
        double needed;
        double left;

        if (tag == NULL) {
            continue;
        }
        if (now == NULL) {
            now = MUST_HAVE(malloc(sizeof *now));
            id_figures_copy(backend->figures, now);
        }
        for (size_t i = 0; i < now->busiest_count; i++) {
            const struct id_tag_figures *busy = &now->busiest[i];

            if (tag_name_compare(busy->name, busy->name_len, tag->name, tag->name_len) == 0) {
                per_s = busy->per_s;
            }
        }
        needed = per_s * put.cover_s;
        left = (double)atomic_load(&tag->room) + (double)segment_left(&tag->buffer);
        if (needed > left) {
            fits = reply_error(conn, 409, "exhausted",
                               "tag %s hands out %.0f ids a second here: for cover_s=%u it needs "
                               "%.0f ids, and has %.0f left below its max, or 2^63",
                               TEXT_SHOWN(put.name, put.name_len, SHOWN_BYTES), per_s, put.cover_s,
                               needed, left);
        }
    }
    free(now);
    return fits;
}

/* The command is whole: propose it. */
static int propose_put(struct conn *conn, struct call *call, struct change_wait wait)
{
    if (!may_put(conn, &call->request.payload) || !covers_fit(conn, &call->request.payload)) {
        call_free(call);
        return ANSWERED;
    }
    return submit_change(conn, call, wait);
}

/* The client that the tags count for, if the level knows that. */
static struct command_list put_list_head(struct conn *conn, const struct param *force)
{
    const struct id_backend *backend = api_loop(conn)->backend;
    struct command_list head = {.force = force->number == 1,
                                .wall_ms = clock_wall_ms(backend->clock)};
    struct share share;

    if (atomic_load(&backend->health->level) >= command_since(COMMAND_TAGS_PUT_BY)) {
        share = share_of(conn);
        head.client = share.client;
        head.most = share.tags;
    }
    head.stepped = atomic_load(&backend->health->level) >= command_since(COMMAND_TAGS_PUT_STEPPED);
    return head;
}

/* Answer a body's fault. Before the cluster's birth its level is not known. */
static int reply_put_fault(struct conn *conn, const struct body_fault *fault)
{
    struct uid uid;

    bool is_newer = strcmp(fault->code, "newer") == 0;

    if (is_newer && !id_health_uid(api_loop(conn)->backend->health, &uid)) {
        return reply_error(conn, 503, "no_leader", "the cluster is not born yet: /readyz says why");
    }
    return is_newer && request_looks_again(conn) ? ANSWERED : reply_fault(conn, fault);
}

#define PUT_OPTIONS(conn)                                                                          \
    {                                                                                              \
        OPTION_FLAG("force"), OPTION_WAIT, OPTION_TIMEOUT(conn)                                    \
    }

int handle_tag_put(struct conn *conn)
{
    struct param options[] = PUT_OPTIONS(conn);
    char name[LIMIT_TAG_NAME_BYTES];
    struct command_list head;
    struct body_fault fault;
    struct call *call;
    size_t name_len;

    if (!request_tag_name(conn, name, &name_len) ||
        !request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    call = call_new(CLUSTER_REQUEST_COMMAND, tag_put_cb);
    head = put_list_head(conn, &options[0]);
    if (tag_json_read_one(name, name_len, conn->body.data, conn->body.len, &head,
                          &call->request.payload, &fault) != 0) {
        call_free(call);
        return reply_put_fault(conn, &fault);
    }
    return propose_put(conn, call, wait_of(&options[1], false));
}

/* --- a tag that a program makes by another request --- */

int tag_make(struct conn *conn, const char *name, size_t len, uint64_t max_id,
             int (*finish)(struct conn *conn, struct call *call))
{
    const struct param not_forced = {.number = 0};
    struct command_list head = put_list_head(conn, &not_forced);
    struct call *call = call_new(CLUSTER_REQUEST_COMMAND, finish);
    char body[48] = "";
    struct body_fault fault;

    if (max_id != TAG_DEFAULT_MAX_ID) {
        (void)snprintf(body, sizeof body, "{\"max_id\":\"%llu\"}", ull(max_id));
    }
    if (tag_json_read_one(name, len, body, strlen(body), &head, &call->request.payload, &fault) !=
        0) {
        call_free(call);
        return reply_put_fault(conn, &fault);
    }
    if (!may_put(conn, &call->request.payload)) {
        call_free(call);
        return ANSWERED;
    }
    audited_begin(conn);
    return call_submit(conn, call);
}

bool tag_made(struct conn *conn, const struct call *call, bool *ret_made, int *ret_status)
{
    struct put_result result;

    if (put_result_decode(call->request.reply.data, call->request.reply.len, &result) != 0) {
        *ret_status = ERR_BAD_MESSAGE;
        return false;
    }
    if (result.status != 0) {
        *ret_status = fail_tag_put(conn, &result, false);
        return false;
    }
    *ret_made = result.made > 0;
    return true;
}

/* --- a bulk: read in slices, between which others have their turn --- */

static void read_slice(struct conn *conn, struct call *call);

/* The next turn of the loop. */
static void read_slice_cb(struct mailbox_item *item)
{
    struct call *call = CONTAINER(item, struct call, item);

    if (call->wait.conn != NULL) {
        read_slice(conn_resume(&call->wait), call);
    } else {
        call_free(call); /* the client and its body are gone */
    }
}

/* Read a slice of the body; the last one proposes. */
static void read_slice(struct conn *conn, struct call *call)
{
    struct body_fault fault;
    bool done = false;

    if (tag_bulk_step(&call->reading.bulk, LIMIT_JSON_SLICE_BYTES, &done, &fault) != 0) {
        call_free(call);
        reply_put_fault(conn, &fault);
    } else if (done) {
        propose_put(conn, call, call->reading.wait);
    } else {
        call->item.run = read_slice_cb;
        conn_wait(conn, &call->wait, TIMER_NEVER);
        if (mailbox_post(&api_loop(conn)->port->mailbox, &call->item, SIZE_MAX) != 0) {
            conn_resume(&call->wait);
            call_free(call);
            reply_err(conn, ERR_SHUTTING_DOWN);
        }
    }
}

int handle_tags_put(struct conn *conn)
{
    struct param options[] = PUT_OPTIONS(conn);
    struct call *call;

    if (!request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    call = call_new(CLUSTER_REQUEST_COMMAND, tag_put_cb);
    call->reading.wait = wait_of(&options[1], true);
    call->reading.bulk = (struct tag_bulk){.text = (const char *)conn->body.data,
                                           .len = conn->body.len,
                                           .head = put_list_head(conn, &options[0]),
                                           .command = &call->request.payload};
    read_slice(conn, call);
    return ANSWERED;
}

/* --- delete --- */

static int tag_delete_cb(struct conn *conn, struct call *call)
{
    int status;

    if (change_failed(conn, call, "there is no such tag any more")) {
        return ANSWERED;
    }
    status = call_status(call);
    if ((status == 0 || status == ERR_UNKNOWN_TAG) && wait_for_all(conn, call)) {
        return ANSWERED; /* this client may have deleted it before */
    }
    return status != 0 ? status : 204;
}

int handle_tag_delete(struct conn *conn)
{
    struct param options[] = {OPTION_WAIT, OPTION_TIMEOUT(conn)};
    char name[LIMIT_TAG_NAME_BYTES];
    struct call *call;
    size_t name_len;

    if (!request_tag_name(conn, name, &name_len) || !request_options(conn, options, 2)) {
        return ANSWERED;
    }
    call = call_new(CLUSTER_REQUEST_COMMAND, tag_delete_cb);
    command_put(&call->request.payload, COMMAND_TAG_DELETE,
                &(struct delete_command){.name = name,
                                         .name_len = (uint16_t)name_len,
                                         .wall_ms = clock_wall_ms(api_loop(conn)->backend->clock)});
    return submit_change(conn, call, wait_of(&options[0], false));
}

/* --- list --- */

static int tags_list_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    struct buf *json = reply_begin(conn);
    TAG_ROWS_LOCAL(rows);

    if (tag_rows_decode(reply->data, reply->len, &rows) != 0) {
        return ERR_BAD_MESSAGE;
    }
    buf_printf(json, "{\"tags\":[");
    for (size_t i = 0; i < rows.count; i++) {
        buf_printf(json, "%s", i > 0 ? "," : "");
        show_tag(conn, &rows.rows[i], false, json);
    }
    text_put_field_of(json, "],\"next\":", rows.next_len > 0 ? rows.next : NULL, rows.next_len);
    buf_printf(json, "}");
    return 200;
}

int handle_tags_list(struct conn *conn)
{
    return list_ask(conn, CLUSTER_REQUEST_QUERY, LIMIT_TAGS_PER_PAGE,
                    api_loop(conn)->api->settings->default_timeout_ms, tags_list_cb);
}
