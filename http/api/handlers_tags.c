/*
 * handlers_tags.c - the table of tags: PUT, GET, DELETE /api/tags/{tag}, GET and POST /api/tags.
 *
 * The happy path: the request is checked and encoded as a command or query, the backend has it
 * committed or answered, and the result is shown; of a change with ?wait=all, once it holds on all
 * nodes (wait_all.h).
 *
 * Failure modes: bad input 400 before anything is proposed; would_repeat 409; unknown tag 404; what
 * the cluster cannot do now 503.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include <stdio.h>
#include <string.h>

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/wait_all.h"
#include "http/api/request.h"
#include "http/api/tag_json.h"
#include "src/base/assert.h"

/* --- get --- */

static void get_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    struct buf *scratch = &conn->conns->scratch;
    struct tag_rows rows;

    if (tag_rows_decode(reply->data, reply->len, &rows) != 0) {
        reply_err(conn, ERR_BAD_MESSAGE);
        return;
    }
    if (rows.count != 1) {
        reply_err(conn, ERR_BAD_MESSAGE);
    } else {
        scratch->len = 0;
        tag_json_put(&rows.rows[0], scratch);
        reply_json(conn, 200, scratch);
    }
    tag_rows_release(&rows);
}

void handle_tag_get(struct conn *conn)
{
    char name[LIMIT_TAG_NAME_BYTES];
    struct option options[] = {{.name = "consistency"}};
    char space[LIMIT_HTTP_TARGET_BYTES];
    struct call *call;
    size_t name_len;
    bool local;

    if (!request_tag_name(conn, name, &name_len) || !request_options(conn, options, 1, space) ||
        !request_consistency(conn, &options[0], &local)) {
        return;
    }
    call = call_new(ID_REQUEST_QUERY, get_cb);
    call->request.local = local;
    query_get_encode(&call->request.payload, name, name_len);
    call_submit(conn, call);
}

/* --- put --- */

/* A put that the state machine refused; bulk: the message names the item. */
static void fail_put(struct conn *conn, const struct put_result *result, bool bulk)
{
    char item[32] = "";

    if (bulk) {
        (void)snprintf(item, sizeof item, "item %u: ", result->failed_at);
    }
    switch (result->status) {
    case ERR_WOULD_REPEAT:
        reply_error(conn, 409, "would_repeat",
                    "%smax_id is %llu; lowering it to %llu would hand out ids again (force=1 does)",
                    item, (unsigned long long)result->max_id, (unsigned long long)result->asked);
        return;
    case ERR_INVALID:
        reply_error(conn, 400, "bad_request", "%s%s", item, result->why);
        return;
    case ERR_OVERLOADED:
        reply_error(conn, 503, "overloaded", "%s%s", item, result->why);
        return;
    default:
        reply_err(conn, result->status);
        return;
    }
}

/* A put that was carried out. bulk: counts instead of the tag. */
static void show_put(struct conn *conn, const struct put_result *result, bool bulk)
{
    struct buf *scratch = &conn->conns->scratch;

    scratch->len = 0;
    if (bulk) {
        buf_printf(scratch, "{\"made\":%u,\"changed\":%u}", result->made, result->changed);
        reply_json(conn, 200, scratch);
        return;
    }
    tag_json_put(&result->first, scratch);
    reply_json(conn, result->made > 0 ? 201 : 200, scratch);
}

static void answer_put(struct conn *conn, struct call *call, bool bulk)
{
    const struct buf *reply = &call->request.reply;
    struct put_result result;

    if (wait_all_failed(conn, call, "the change is made")) {
        return;
    }
    if (put_result_decode(reply->data, reply->len, &result) != 0) {
        reply_err(conn, ERR_BAD_MESSAGE);
        return;
    }
    if (result.status != 0) {
        fail_put(conn, &result, bulk);
    } else if (!wait_all_begin(conn, call)) {
        show_put(conn, &result, bulk);
    }
}

static void put_cb(struct conn *conn, struct call *call)
{
    answer_put(conn, call, false);
}

static void bulk_cb(struct conn *conn, struct call *call)
{
    answer_put(conn, call, true);
}

/* Propose the tags of the body: one of that name, or a bulk when name is NULL. */
static void put(struct conn *conn, const char *name, size_t name_len)
{
    struct option options[] = {{.name = "force"}, {.name = "wait"}, {.name = "timeout_ms"}};
    struct change_wait wait;
    struct body_fault fault;
    char space[LIMIT_HTTP_TARGET_BYTES];
    struct call *call;
    struct buf *command;
    bool force;
    int rv;

    if (!request_options(conn, options, 3, space) || !request_flag(conn, &options[0], &force) ||
        !wait_all_read(conn, &options[1], &options[2], &wait)) {
        return;
    }
    call = call_new(ID_REQUEST_COMMAND, name != NULL ? put_cb : bulk_cb);
    command = &call->request.payload;
    command_put(command, COMMAND_TAGS_PUT,
                &(struct command_list){.force = force,
                                       .wall_ms = clock_wall_ms(api_loop(conn)->backend->clock)});
    rv = name != NULL
             ? tag_json_read_one(name, name_len, conn->body.data, conn->body.len, command, &fault)
             : tag_json_read_bulk(conn->body.data, conn->body.len, command, &fault);
    if (rv != 0) {
        call_free(call);
        reply_error(conn, 400, fault.code, "%s", fault.message);
        return;
    }
    command_items_end(command);
    /* The largest bulk of the longest tags fits one entry of the log. */
    ASSERT(command->len <= LIMIT_ENTRY_BYTES);
    wait_all_submit(conn, call, &wait);
}

void handle_tag_put(struct conn *conn)
{
    char name[LIMIT_TAG_NAME_BYTES];
    size_t name_len;

    if (request_tag_name(conn, name, &name_len)) {
        put(conn, name, name_len);
    }
}

void handle_tags_put(struct conn *conn)
{
    put(conn, NULL, 0);
}

/* --- delete --- */

static void delete_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    int32_t status;

    if (wait_all_failed(conn, call, "there is no such tag any more")) {
        return;
    }
    if (status_result_decode(reply->data, reply->len, &status) != 0) {
        reply_err(conn, ERR_BAD_MESSAGE);
    } else if ((status == 0 || status == ERR_UNKNOWN_TAG) && wait_all_begin(conn, call)) {
        return; /* that it is gone already may be what this client did before */
    } else if (status != 0) {
        reply_err(conn, status);
    } else {
        reply_nothing(conn);
    }
}

void handle_tag_delete(struct conn *conn)
{
    char name[LIMIT_TAG_NAME_BYTES];
    struct option options[] = {{.name = "wait"}, {.name = "timeout_ms"}};
    char space[LIMIT_HTTP_TARGET_BYTES];
    struct change_wait wait;
    struct call *call;
    size_t name_len;

    if (!request_tag_name(conn, name, &name_len) || !request_options(conn, options, 2, space) ||
        !wait_all_read(conn, &options[0], &options[1], &wait)) {
        return;
    }
    call = call_new(ID_REQUEST_COMMAND, delete_cb);
    command_put(&call->request.payload, COMMAND_TAG_DELETE,
                &(struct delete_command){.name = name,
                                         .name_len = (uint16_t)name_len,
                                         .wall_ms = clock_wall_ms(api_loop(conn)->backend->clock)});
    wait_all_submit(conn, call, &wait);
}

/* --- list --- */

static void put_list(const struct tag_rows *rows, struct buf *buf)
{
    buf_printf(buf, "{\"tags\":[");
    for (size_t i = 0; i < rows->count; i++) {
        buf_printf(buf, "%s", i > 0 ? "," : "");
        tag_json_put(&rows->rows[i], buf);
    }
    buf_printf(buf, "],\"next\":");
    if (rows->next_len > 0) {
        text_put_json(buf, rows->next, rows->next_len);
    } else {
        buf_printf(buf, "null");
    }
    buf_printf(buf, "}");
}

static void list_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    struct buf *scratch = &conn->conns->scratch;
    struct tag_rows rows;

    if (tag_rows_decode(reply->data, reply->len, &rows) != 0) {
        reply_err(conn, ERR_BAD_MESSAGE);
        return;
    }
    scratch->len = 0;
    put_list(&rows, scratch);
    reply_json(conn, 200, scratch);
    tag_rows_release(&rows);
}

void handle_tags_list(struct conn *conn)
{
    struct option options[] = {PAGE_OPTION_NAMES, {.name = "consistency"}};
    char space[LIMIT_HTTP_TARGET_BYTES];
    struct call *call;
    struct page page;
    bool local;

    if (!request_page(conn, options, PAGE_OPTIONS + 1, space, &page) ||
        !request_consistency(conn, &options[PAGE_OPTIONS], &local)) {
        return;
    }
    call = call_new(ID_REQUEST_QUERY, list_cb);
    call->request.local = local;
    query_list_encode(&call->request.payload, page.prefix, page.prefix_len, page.after,
                      page.after_len, page.limit);
    call_submit(conn, call);
}
