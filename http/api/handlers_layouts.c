/*
 * handlers_layouts.c - the named layouts of snowflake ids: GET /api/layouts, and GET, PUT and
 * DELETE /api/layouts/{name}.
 *
 * The happy path: a PUT names a preset, or says all fields; it is checked here, proposed, and
 * answered once it is in the log. Reading shows what this node has applied, and asks nobody.
 *
 * Failure modes: bad input 400 before anything is proposed; a name with other fields, and a cluster
 * whose level is too low, 409; no such layout 404; one name too many, and what the cluster cannot
 * do now, 503.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include <string.h>

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/layout_use.h"
#include "http/api/request.h"
#include "http/proto/text.h"
#include "src/id/codec/tag.h"
#include "src/id/snowflake/snowflake_named.h"

/* --- reading --- */

/* The name in the path, whose letters are never encoded. NULL: answered. */
static const char *layout_path_name(struct conn *conn, size_t *ret_len)
{
    const char *name = conn_at(conn, conn->request.name_at);
    char shown[SHOWN_BYTES];

    *ret_len = conn->request.name_len;
    if (!layout_name_fits(name, *ret_len)) {
        (void)reply_error(conn, 400, "bad_request",
                          "layout %s: a name is 1 to %d of a-z, 0-9, '-', '_' and '.', and begins "
                          "with a letter or digit",
                          text_show(name, *ret_len, shown, sizeof shown), LIMIT_LAYOUT_NAME_BYTES);
        return NULL;
    }
    return name;
}

int handle_layout_get(struct conn *conn)
{
    size_t len;
    const char *name = layout_path_name(conn, &len);
    const struct layout_words *named = name != NULL ? layout_named(conn, name, len) : NULL;

    if (named == NULL) {
        return ANSWERED;
    }
    layout_row_json_put(&named->row, snowflake_named_is_deleted(named), reply_begin(conn));
    return 200;
}

/* The layout behind this one in the order of names; NULL: the first, or none. */
static const struct layout_words *layout_after(const struct layout_words_all *all, uint32_t count,
                                               const struct layout_words *before)
{
    const struct layout_words *next = NULL;

    for (uint32_t i = 0; i < count; i++) {
        const struct layout_words *named = all->items[i];

        if ((before == NULL || strcmp(named->row.name, before->row.name) > 0) &&
            (next == NULL || strcmp(named->row.name, next->row.name) < 0)) {
            next = named;
        }
    }
    return next;
}

int handle_layouts_list(struct conn *conn)
{
    static const struct layout_words_all none;
    const struct snowflake *snowflake = api_loop(conn)->backend->snowflake;
    const struct layout_words_all *all = snowflake != NULL ? &snowflake->named : &none;
    uint32_t count = atomic_load_explicit(&all->count, memory_order_acquire);
    const struct layout_words *named = NULL;
    struct buf *json = reply_begin(conn);

    buf_printf(json, "{\"layouts\":[");
    for (uint32_t i = 0; i < count; i++) {
        named = layout_after(all, count, named);
        buf_printf(json, "%s", i > 0 ? "," : "");
        layout_row_json_put(&named->row, snowflake_named_is_deleted(named), json);
    }
    buf_printf(json, "]}");
    return 200;
}

/* --- changes --- */

static int fail_layout_put(struct conn *conn, const struct layout_row *row, int status)
{
    switch (status) {
    case ERR_CONFLICT:
        return reply_error(conn, 409, "conflict",
                           "layout %s has other fields already, and what a name means never "
                           "changes, not even when it was deleted: GET /api/layouts/%s shows them",
                           row->name, row->name);
    case ERR_OVERLOADED:
        return reply_error(conn, 503, "overloaded",
                           "there are %d names of layouts already, deleted ones among them",
                           LIMIT_LAYOUTS);
    case ERR_INVALID:
        return reply_error(conn, 400, "bad_request",
                           "by the cluster's time epoch_ms lies ahead, or the layout's time is "
                           "over");
    default:
        return reply_err(conn, status);
    }
}

static int layout_put_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    int32_t status;

    if (status_result_decode(reply->data, reply->len, &status) != 0) {
        return ERR_BAD_MESSAGE;
    }
    if (status != 0) {
        return fail_layout_put(conn, &call->layout, status);
    }
    layout_row_json_put(&call->layout, false, reply_begin(conn));
    return 200;
}

enum put_field { PRESET, UNIT, EPOCH, TIME_BITS, WORKER_BITS, SEQUENCE_BITS, ORDER, FIELD_COUNT };

/* The fields given, over the preset's. False: answered. */
static bool read_layout(struct conn *conn, const struct param fields[FIELD_COUNT],
                        struct named_layout *layout)
{
    char shown[BODY_SHOWN_BYTES];
    const char *why;

    *layout = (struct named_layout){.unit_ms = 1};
    if (fields[PRESET].present &&
        !named_layout_preset(fields[PRESET].text, fields[PRESET].len, layout)) {
        return reply_error(conn, 400, "bad_request",
                           "preset=%s is not leaf, js53, twitter, discord, sonyflake or baidu",
                           text_show(fields[PRESET].text, fields[PRESET].len, shown, sizeof shown));
    }
    for (unsigned i = EPOCH; i <= SEQUENCE_BITS && !fields[PRESET].present; i++) {
        if (!fields[i].present) {
            return reply_error(conn, 400, "bad_request", "%s is missing, and so is a preset",
                               fields[i].name);
        }
    }
#define GIVEN(field, member) (fields[field].present ? fields[field].number : (member))
    layout->unit_ms = (uint16_t)GIVEN(UNIT, layout->unit_ms);
    layout->bits.epoch_ms = GIVEN(EPOCH, layout->bits.epoch_ms);
    layout->bits.time_bits = (uint8_t)GIVEN(TIME_BITS, layout->bits.time_bits);
    layout->bits.worker_bits = (uint8_t)GIVEN(WORKER_BITS, layout->bits.worker_bits);
    layout->bits.sequence_bits = (uint8_t)GIVEN(SEQUENCE_BITS, layout->bits.sequence_bits);
    layout->order = (uint8_t)GIVEN(ORDER, layout->order);
#undef GIVEN
    if (named_layout_check(layout, clock_wall_ms(api_loop(conn)->backend->clock), &why) != 0) {
        return reply_error(conn, 400, "bad_request", "%s", why);
    }
    return true;
}

int handle_layout_put(struct conn *conn)
{
    struct param fields[FIELD_COUNT] = {
        [PRESET] = {.name = "preset", .kind = PARAM_TEXT},
        [UNIT] = {.name = "unit_ms", .max = UINT16_MAX},
        [EPOCH] = {.name = "epoch_ms", .max = LIMIT_TIME_MAX_MS},
        [TIME_BITS] = {.name = "time_bits", .max = UINT8_MAX},
        [WORKER_BITS] = {.name = "worker_bits", .max = UINT8_MAX},
        [SEQUENCE_BITS] = {.name = "sequence_bits", .max = UINT8_MAX},
        [ORDER] = {.name = "order",
                   .kind = PARAM_WORD,
                   .words = layout_orders,
                   .rule = "is not time-worker-sequence or time-sequence-worker"},
    };
    struct layout_row row = {.created_ms = clock_wall_ms(api_loop(conn)->backend->clock)};
    struct call *call;
    json_t *body;
    size_t len;
    const char *name = layout_path_name(conn, &len);

    if (name == NULL || !request_options(conn, NULL, 0)) {
        return ANSWERED;
    }
    memcpy(row.name, name, len);
    row.name_len = (uint16_t)len;
    body = request_body(conn, "a layout's fields", "{}", fields, COUNT_OF(fields));
    if (body == NULL) {
        return ANSWERED;
    }
    if (read_layout(conn, fields, &row.layout)) {
        call = call_new(ID_REQUEST_COMMAND, layout_put_cb);
        call->layout = row;
        command_put(&call->request.payload, COMMAND_LAYOUT_PUT, &row);
        (void)call_submit(conn, call);
    }
    json_decref(body);
    return ANSWERED;
}

static int layout_delete_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    int32_t status;

    if (status_result_decode(reply->data, reply->len, &status) != 0) {
        return ERR_BAD_MESSAGE;
    }
    if (status == ERR_NOT_FOUND) {
        return reply_error(conn, 404, "unknown_layout", "there is no layout %s, or no more",
                           call->layout.name);
    }
    return status != 0 ? status : 204;
}

int handle_layout_delete(struct conn *conn)
{
    struct call *call;
    size_t len;
    const char *name = layout_path_name(conn, &len);

    if (name == NULL || !request_options(conn, NULL, 0)) {
        return ANSWERED;
    }
    call = call_new(ID_REQUEST_COMMAND, layout_delete_cb);
    call->layout = (struct layout_row){.name_len = (uint16_t)len};
    memcpy(call->layout.name, name, len);
    command_put(&call->request.payload, COMMAND_LAYOUT_DELETE,
                &(struct delete_command){.name = call->layout.name,
                                         .name_len = call->layout.name_len,
                                         .wall_ms = clock_wall_ms(api_loop(conn)->backend->clock)});
    return call_submit(conn, call);
}
