/*
 * layout_use.c - see layout_use.h. Thread: the loop's.
 */
#include "http/api/layout_use.h"

#include "http/api/context.h"
#include "http/api/request.h"
#include "http/proto/text.h"
#include "src/id/snowflake/snowflake_named.h"

const char *const layout_orders[] = {[LAYOUT_SEQUENCE_LAST] = "time-worker-sequence",
                                     [LAYOUT_WORKER_LAST] = "time-sequence-worker",
                                     NULL};

void layout_row_json_put(const struct layout_row *row, bool deleted, struct buf *json)
{
    const struct named_layout *layout = &row->layout;

    buf_printf(json,
               "{\"name\":\"%s\",\"unit_ms\":%u,\"epoch_ms\":%llu,\"time_bits\":%u,"
               "\"worker_bits\":%u,\"sequence_bits\":%u,\"order\":\"%s\",\"last_ms\":%llu,"
               "\"deleted\":%s}",
               row->name, layout->unit_ms, ull(layout->bits.epoch_ms), layout->bits.time_bits,
               layout->bits.worker_bits, layout->bits.sequence_bits, layout_orders[layout->order],
               ull(named_layout_last_ms(layout)), deleted ? "true" : "false");
}

struct layout_words *layout_named(struct conn *conn, const char *name, size_t len)
{
    const struct snowflake *snowflake = api_loop(conn)->backend->snowflake;
    struct layout_words *named = NULL;
    char shown[SHOWN_BYTES];

    if (snowflake != NULL) {
        named = snowflake_named_find(snowflake, name, len);
    }
    if (named == NULL) {
        (void)reply_error(conn, 404, "unknown_layout",
                          "this node knows of no layout %s: GET /api/layouts lists them",
                          text_show(name, len, shown, sizeof shown));
    }
    return named;
}

int layout_decode(struct conn *conn, const struct layout_words *named, uint64_t id)
{
    char time[TEXT_TIME_BYTES];
    struct snowflake_parts parts;

    if (!named_layout_decode(&named->row.layout, id, &parts)) {
        return reply_error(conn, 400, "bad_request",
                           "id %llu is of no time that can be shown in layout %s", ull(id),
                           named->row.name);
    }
    buf_printf(reply_begin(conn),
               "{\"id\":\"%llu\",\"layout\":\"%s\",\"timestamp_ms\":%llu,\"time\":\"%s\","
               "\"worker_id\":%u,\"sequence\":%u}",
               ull(id), named->row.name, ull(parts.unix_ms), text_time_rfc3339(parts.unix_ms, time),
               parts.worker, parts.sequence);
    return 200;
}
