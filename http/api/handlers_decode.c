/*
 * handlers_decode.c - taking snowflake ids apart: GET and POST /api/snowflake/decode/{id} by the
 * cluster's layout, and /decodeSnowflakeId as Leaf has it, by Leaf's layout.
 *
 * Failure modes: what is no id 400 (Leaf's route: 200 with errorMsg); the cluster's layout not
 * known yet 503.
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include <stdio.h>
#include <time.h>

#include "http/api/context.h"
#include "http/api/request.h"
#include "src/base/assert.h"

int handle_snowflake_decode(struct conn *conn)
{
    const struct snowflake *snowflake = api_loop(conn)->backend->snowflake;
    char time[TEXT_TIME_BYTES];
    struct snowflake_parts parts;
    uint64_t id;

    if (!request_path_number(conn, "id", 0, INT64_MAX, &id)) {
        return ANSWERED;
    }
    if (snowflake == NULL) {
        return reply_error(conn, 503, "disabled", "snowflake ids are switched off on this node");
    }
    if (!atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        return reply_error(conn, 503, "no_leader",
                           "the cluster's layout is not known on this node yet");
    }
    parts = snowflake_decode(&snowflake->layout, id);
    buf_printf(reply_begin(conn),
               "{\"id\":\"%llu\",\"timestamp_ms\":%llu,\"time\":\"%s\",\"worker_id\":%u,"
               "\"sequence\":%u}",
               (unsigned long long)id, (unsigned long long)parts.unix_ms,
               text_time_rfc3339(parts.unix_ms, time), parts.worker, parts.sequence);
    return 200;
}

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
