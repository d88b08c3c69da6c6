/*
 * tinyid.c - the id routes of TinyID's server, for its unchanged clients: /tinyid/id/nextId,
 * nextIdSimple, nextSegmentId and nextSegmentIdSimple.
 *
 * The happy path: bizType names the tag, token is one of our tokens, and the ids are claimed as for
 * /api/segment/get. A segment is one range of as many ids as the tag's step. TinyID's client starts
 * with the first number above currentId with number mod delta = remainder, and continues by delta
 * up to maxId. So currentId is the first id less 1, and maxId the last one.
 *
 * Failure modes: as TinyID's: 200 with code 5 (the token) or 6 (all else), or an empty text
 * (request.c). Errors before the handler runs are answered as for all routes.
 *
 * Thread: the loop's.
 */
#include <string.h>

#include "http/api/ids.h"
#include "http/api/request.h"
#include "src/id/codec/tag.h"

#define LOADING_PERCENT 20 /* a client requests the next segment when this much is used */

static int answer_ids(struct conn *conn, const struct id_claim *claim)
{
    bool simple = request_is_simple(conn);
    struct buf *out = reply_begin(conn);

    buf_printf(out, "%s", simple ? "" : "{\"data\":[");
    for (uint32_t k = 0; k < claim->range_count; k++) {
        const struct segment_range *range = &claim->ranges[k];

        for (uint32_t i = 0; i < range->count; i++) {
            buf_printf(out, "%s%llu", k + i > 0 ? "," : "",
                       ull(range->first + (uint64_t)i * increment_of(range->increment)));
        }
    }
    buf_printf(out, "%s", simple ? "" : "],\"code\":200,\"message\":\"\"}");
    return reply_made(conn, simple ? ANSWER_TEXT : ANSWER_JSON, NULL);
}

static int answer_segment(struct conn *conn, const struct id_claim *claim)
{
    bool simple = request_is_simple(conn);
    const struct segment_range *range = &claim->ranges[0];
    uint32_t delta = increment_of(range->increment);
    long long current = (long long)range->first - 1; /* of id 0: -1 */
    long long max = (long long)ids_end(range->first, range->count, delta) - 1;
    uint64_t all = (uint64_t)(max - current);
    long long loading =
        current + (long long)(all / 100 * LOADING_PERCENT + all % 100 * LOADING_PERCENT / 100);
    unsigned remainder = (unsigned)(range->first % delta);

    ASSERT(claim->range_count == 1);
    buf_printf(reply_begin(conn),
               simple ? "%lld,%lld,%lld,%u,%u"
                      : "{\"data\":{\"currentId\":%lld,\"loadingId\":%lld,\"maxId\":%lld,"
                        "\"delta\":%u,\"remainder\":%u},\"code\":200,\"message\":\"\"}",
               current, loading, max, delta, remainder);
    return reply_made(conn, simple ? ANSWER_TEXT : ANSWER_JSON, NULL);
}

static const struct {
    const char *name;
    bool is_segment;
} calls[] = {
    {"nextId", false},
    {"nextIdSimple", false},
    {"nextSegmentId", true},
    {"nextSegmentIdSimple", true},
};

int handle_tinyid(struct conn *conn)
{
    struct param options[] = {
        {.name = "bizType", .kind = PARAM_TEXT},
        {.name = "token", .kind = PARAM_TEXT},
        {.name = "batchSize", .min = 1, .max = INT32_MAX, .number = 1},
    };
    const struct param *tag = &options[0];
    const char *name = conn_at(conn, conn->request.name_at);
    size_t len = conn->request.name_len;
    struct id_claim claim;
    const char *why = "";
    uint64_t count;
    size_t at = 0;

    while (at < COUNT_OF(calls) &&
           (strlen(calls[at].name) != len || memcmp(calls[at].name, name, len) != 0)) {
        at++;
    }
    if (at == COUNT_OF(calls)) {
        return reply_error(conn, 404, "not_found",
                           "of TinyID's paths there are nextId, nextIdSimple, nextSegmentId and "
                           "nextSegmentIdSimple");
    }
    if (!request_options(conn, options, COUNT_OF(options)) ||
        !request_form(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    if (!options[0].present) {
        return reply_error(conn, 400, "bad_request", "the option bizType is missing");
    }
    if (!gate_may_take(conn, options[1].present ? options[1].text : NULL, options[1].len,
                       options[0].text, options[0].len)) {
        return reply_error(conn, 403, "forbidden", "token is error");
    }
    if (tag_name_check(tag->text, tag->len, &why) != 0) {
        return reply_bad_tag(conn, tag->text, tag->len, why);
    }
    count = calls[at].is_segment ? 1 : options[2].number; /* of a segment: the tag's step */
    /* As TinyID's server does with its batch.size.max. */
    count = count < LIMIT_TINYID_BATCH ? count : LIMIT_TINYID_BATCH;
    id_claim_init(conn, &claim, (uint32_t)count);
    if (!calls[at].is_segment && !conn_charge(conn, &conn->client->ids, claim.count)) {
        return ANSWERED;
    }
    claim.counted = true;
    claim.format = ID_FORMAT_OTHER;
    claim.number = true;
    claim.by_step = calls[at].is_segment;
    claim.contiguous = calls[at].is_segment;
    claim.answer = calls[at].is_segment ? answer_segment : answer_ids;
    claim.name_len = (uint16_t)tag->len;
    memcpy(claim.name, tag->text, tag->len);
    return segment_begin(conn, &claim,
                         id_table_find(api_loop(conn)->backend->table, claim.name, claim.name_len));
}
