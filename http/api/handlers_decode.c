/*
 * handlers_decode.c - taking ids apart. Snowflake ids: GET and POST /api/snowflake/decode/{id} by
 * the cluster's layout, also as UUIDs and ULIDs, and /decodeSnowflakeId as Leaf has it, by Leaf's.
 * Texts of a tag with a shape: GET /api/segment/decode/{tag}, by the row that the cluster has.
 *
 * Failure modes: what is no id, or none of this layout, 400 (Leaf's route: 200 with errorMsg); the
 * cluster's layout not known yet 503.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/layout_use.h"
#include "http/api/request.h"
#include "src/base/assert.h"
#include "src/id/codec/snowflake_layout.h"

int handle_snowflake_decode(struct conn *conn)
{
    struct param options[] = {{.name = "layout", .kind = PARAM_TEXT}};
    const struct snowflake *snowflake = api_loop(conn)->backend->snowflake;
    const char *text = conn_at(conn, conn->request.name_at);
    size_t len = conn->request.name_len;
    char shown[SHOWN_BYTES];
    char time[TEXT_TIME_BYTES];
    struct snowflake_parts parts;
    enum id_form form;
    bool is_long = long_id_read(text, len, &form, &parts);
    const struct layout_words *named;
    uint64_t id = 0;

    if (!request_options(conn, options, 1)) {
        return ANSWERED;
    }
    if (options[0].present) {
        named = layout_named(conn, options[0].text, options[0].len);
        return named != NULL && request_path_number(conn, "id", 0, INT64_MAX, &id)
                   ? layout_decode(conn, named, id)
                   : ANSWERED;
    }
    if (!is_long && !request_path_number(conn, "id", 0, INT64_MAX, &id)) {
        return ANSWERED;
    }
    if (snowflake == NULL) {
        return reply_error(conn, 503, "disabled", "snowflake ids are switched off on this node");
    }
    if (!atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        return reply_error(conn, 503, "no_leader",
                           "the cluster's layout is not known on this node yet");
    }
    if (is_long && !snowflake_parts_fit(&snowflake->layout, &parts)) {
        return reply_error(conn, 400, "bad_request",
                           "%s is not of this cluster: its time, worker id or sequence is beyond "
                           "the layout",
                           text_show(text, len, shown, sizeof shown));
    }
    if (is_long) {
        id = snowflake_compose(&snowflake->layout, parts.unix_ms, parts.worker, parts.sequence);
    }
    parts = snowflake_decode(&snowflake->layout, id);
    buf_printf(reply_begin(conn),
               "{\"id\":\"%llu\",\"timestamp_ms\":%llu,\"time\":\"%s\",\"worker_id\":%u,"
               "\"sequence\":%u}",
               ull(id), ull(parts.unix_ms), text_time_rfc3339(parts.unix_ms, time), parts.worker,
               parts.sequence);
    return 200;
}

/* --- texts of tags with a shape --- */

/* The id of the text by the row's shape; the status of the reply. */
static int decode_by(struct conn *conn, const struct tag_row *row, const char *text, size_t len)
{
    char shown[SHOWN_BYTES];
    char shown_shape[SHOWN_BYTES];
    struct buf *json;
    struct shape shape;
    uint64_t id = 0;

    if (row->shape_len == 0) {
        return reply_error(conn, 409, "no_shape", "tag %s has no shape: its ids are numbers",
                           text_show(row->name, row->name_len, shown, sizeof shown));
    }
    ASSERT(tag_shape(row->shape, row->shape_len, &shape, NULL) == 0); /* decoding saw to it */
    if (!shape_read(&shape, api_loop(conn)->ff1, text, len, &id)) {
        return reply_error(conn, 400, "bad_id", "%s is no id of the shape %s%s",
                           text_show(text, len, shown, sizeof shown),
                           text_show(row->shape, tag_shape_text_len(row->shape, row->shape_len),
                                     shown_shape, sizeof shown_shape),
                           shape.check != SHAPE_CHECK_NONE ? ", or its check is wrong" : "");
    }
    json = reply_begin(conn);
    text_put_field_of(json, "{\"tag\":", row->name, row->name_len);
    buf_printf(json, ",\"id\":\"%llu\",\"granted\":%s}", ull(id),
               id < row->max_id ? "true" : "false");
    return 200;
}

static int decode_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    TAG_ROWS_LOCAL(rows);

    if (tag_rows_decode(reply->data, reply->len, &rows) != 0 || rows.count != 1) {
        return ERR_BAD_MESSAGE;
    }
    return decode_by(conn, &rows.rows[0], call->decode.text, call->decode.len);
}

int handle_segment_decode(struct conn *conn)
{
    struct param options[] = {{.name = "text", .kind = PARAM_TEXT}, OPTION_CONSISTENCY};
    char name[LIMIT_TAG_NAME_BYTES];
    struct call *call;
    size_t name_len;

    if (!request_tag_name(conn, name, &name_len) || !request_options(conn, options, 2)) {
        return ANSWERED;
    }
    if (!options[0].present || options[0].len == 0 || options[0].len > SHAPE_ID_BYTES_MAX) {
        return reply_error(conn, 400, "bad_request", "the option text is 1 to %d bytes: an id",
                           SHAPE_ID_BYTES_MAX);
    }
    call = call_new(ID_REQUEST_QUERY, decode_cb);
    call->request.local = options[1].number == 1;
    call->decode.len = (uint16_t)options[0].len;
    memcpy(call->decode.text, options[0].text, options[0].len);
    query_get_encode(&call->request.payload, name, name_len);
    return call_submit(conn, call);
}

/* --- snowflake ids, as Leaf does --- */

/* As Java's Long.parseLong: an optional sign and digits, in range. */
static bool parse_signed(const char *text, size_t len, int64_t *ret_value)
{
    bool negative = len > 0 && text[0] == '-';
    size_t at = len > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    uint64_t max = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t value;

    while (at + 1 < len && text[at] == '0') {
        at++;
    }
    if (text_parse_decimal(text + at, len - at, 0, max, &value) != 0) {
        return false;
    }
    *ret_value = (int64_t)(negative ? 0 - value : value);
    return true;
}

/* "<ms>(<local time>)". Negative ids give times before the epoch, back to 1941. */
static void put_leaf_time(int64_t ms, struct buf *buf)
{
    int64_t fraction_ms = (ms % 1000 + 1000) % 1000;
    time_t seconds = (ms - fraction_ms) / 1000;
    char local[TEXT_TIME_BYTES];
    struct tm tm;

    ASSERT(localtime_r(&seconds, &tm) != NULL);
    ASSERT(strftime(local, sizeof local, "%Y-%m-%d %H:%M:%S", &tm) > 0);
    buf_printf(buf, "%lld(%s.%03d)", (long long)ms, local, (int)fraction_ms);
}

/* The option as a field of a form, unless the query has it. A body that is no form has none. */
static void read_form(struct conn *conn, struct param *option)
{
    static const char form[] = "application/x-www-form-urlencoded";
    const struct parser_field *type = &conn_head(conn)->content_type;
    char *space = api_loop(conn)->options;
    struct option found = {.name = option->name};
    char why[OPTION_WHY_BYTES];

    if (!option->present && type->count == 1 && type->len >= strlen(form) &&
        strncasecmp(conn_at(conn, type->at), form, strlen(form)) == 0 &&
        conn->body.len <= sizeof api_loop(conn)->options &&
        options_parse((const char *)conn->body.data, conn->body.len, OPTIONS_OTHERS_IGNORED, &found,
                      1, space, why) == 0) {
        option->present = found.present;
        option->text = found.value;
        option->len = found.len;
    }
}

int handle_leaf_decode(struct conn *conn)
{
    static const struct snowflake_layout leaf = SNOWFLAKE_LEAF_LAYOUT;
    struct param options[] = {{.name = "snowflakeId", .kind = PARAM_TEXT}};
    struct buf *json = reply_begin(conn);
    struct snowflake_parts parts;
    int64_t id;

    if (!request_options(conn, options, 1)) {
        return ANSWERED;
    }
    read_form(conn, &options[0]);
    if (!options[0].present) {
        return reply_error(conn, 400, "bad_request", "the option snowflakeId is missing");
    }
    if (!parse_signed(options[0].text, options[0].len, &id)) {
        buf_printf(json, "{\"errorMsg\":\"snowflake Id反解析发生异常!\"}");
        return 200;
    }
    parts = snowflake_decode(&leaf, (uint64_t)id);
    buf_printf(json, "{\"workerId\":\"%u\",\"sequenceId\":\"%u\",\"timestamp\":\"", parts.worker,
               parts.sequence);
    /* The sign goes with the time: the shift is an arithmetic one, as Java's. */
    put_leaf_time((id >> (leaf.worker_bits + leaf.sequence_bits)) + (int64_t)leaf.epoch_ms, json);
    buf_printf(json, "\"}");
    return 200;
}
