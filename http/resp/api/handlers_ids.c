/*
 * handlers_ids.c - ids over RESP: INCR, INCRBY, LEAFD.NEXT, LEAFD.SNOWFLAKE.
 *
 * The happy path: the request's bytes are those of the one before it, so its words and its tag are
 * known; the claim is begun here and taken as one over HTTP (http/api/ids.h), and its answer is
 * written here, also when it comes later. No lock, no allocation, no system call.
 *
 * INCRBY's ids follow each other, and the last one is the answer: a program that takes ids from
 * Redis so has reserved those below it. Ids of a tag with a shape are texts, but for INCRBY's.
 *
 * Failure modes: as over HTTP. A count below 1 is refused: ids never go back.
 *
 * Thread: the loop's.
 */
#include "http/resp/api/resp.h"

#include <stdlib.h>
#include <string.h>

#include "http/api/context.h"
#include "http/api/ids.h"
#include "http/api/request.h"
#include "http/resp/proto/reply.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/id/codec/tag.h"

#define IDS_PER_PART (LIMIT_HTTP_PART_BYTES / REPLY_ID_BYTES_MAX)
#define HEAD_BYTES 32

/* --- answers --- */

/* So many ids in a row, of a tag with a shape as texts. */
static void put_resp_ids(struct conn *conn, const struct id_text *text, uint64_t first,
                         uint32_t count, struct buf *out)
{
    char id[ID_TEXT_BYTES_MAX];

    if (id_text_is_number(text)) {
        reply_ids(out, first, count);
        return;
    }
    for (uint32_t i = 0; i < count && text->layout != NULL; i++) {
        reply_integer(out, named_layout_id(text->layout, first + i));
    }
    for (uint32_t i = 0; i < count && text->layout == NULL; i++) {
        reply_bulk(out, id, id_text_put(api_loop(conn), text, first + i, id));
    }
}

/* So many are made at once. */
static uint32_t ids_per_part(const struct id_text *text)
{
    return id_text_is_number(text) || text->layout != NULL ? IDS_PER_PART : id_text_lines(text);
}

static int answer_made(struct conn *conn, const struct buf *out)
{
    conn_answer(conn, 200, NULL, NULL, out->data, out->len);
    return ANSWERED;
}

/* One id, or the last of some. */
HOT static int answer_last(struct conn *conn, const struct id_claim *claim)
{
    const struct segment_range *last = &claim->ranges[claim->range_count - 1];
    uint64_t id = last->first + last->count - 1;
    struct buf *out = reply_begin(conn);

    ASSERT(claim->range_count == 1);
    if (id_text_is_number(&claim->text)) {
        reply_integer(out, id);
    } else {
        put_resp_ids(conn, &claim->text, id, 1, out);
    }
    return answer_made(conn, out);
}

/* An array that is made part by part. */
struct array {
    struct answer_parts parts;
    struct id_text text;
    uint32_t count; /* 0: it was said */
    uint32_t range_count;
    uint32_t at; /* the range that goes on */
    struct segment_range ranges[];
};

static void array_free(struct answer_parts *parts)
{
    free(CONTAINER(parts, struct array, parts));
}

static bool array_put(struct conn *conn, struct answer_parts *parts, struct buf *out)
{
    struct array *array = CONTAINER(parts, struct array, parts);
    uint32_t room = ids_per_part(&array->text);

    if (array->count > 0) {
        reply_array(out, array->count);
        array->count = 0;
    }
    while (room > 0 && array->at < array->range_count) {
        struct segment_range *range = &array->ranges[array->at];
        uint32_t count = range->count < room ? range->count : room;

        put_resp_ids(conn, &array->text, range->first, count, out);
        room -= count;
        range->first += count;
        range->count -= count;
        array->at += range->count == 0;
    }
    return array->at == array->range_count;
}

static int answer_long_array(struct conn *conn, const struct id_claim *claim)
{
    size_t ranges_bytes = claim->range_count * sizeof claim->ranges[0];
    struct array *array = MUST_HAVE(malloc(sizeof *array + ranges_bytes));

    *array = (struct array){.parts = {.put = array_put, .free = array_free},
                            .text = claim->text,
                            .count = claim->count,
                            .range_count = claim->range_count};
    memcpy(array->ranges, claim->ranges, ranges_bytes);
    conn_answer_parts(conn, NULL, NULL, claim->count, &array->parts);
    return ANSWERED;
}

static int answer_array(struct conn *conn, const struct id_claim *claim)
{
    struct buf *out;

    if (claim->count > ids_per_part(&claim->text)) {
        return answer_long_array(conn, claim);
    }
    out = reply_begin(conn);
    reply_array(out, claim->count);
    for (uint32_t i = 0; i < claim->range_count; i++) {
        put_resp_ids(conn, &claim->text, claim->ranges[i].first, claim->ranges[i].count, out);
    }
    return answer_made(conn, out);
}

/* --- claims --- */

/* Nothing is claimed yet; the client is charged. False: it has used up its quota; answered. */
HOT static bool claim_begin(struct conn *conn, struct id_claim *claim, uint32_t count)
{
    id_claim_init(conn, claim, count);
    claim->counted = true;
    claim->format = ID_FORMAT_OTHER;
    return conn_charge(conn, &conn->client->ids, count);
}

/* Take ids of the tag that the second word names. */
HOT static int take_of_tag(struct conn *conn, struct id_claim *claim)
{
    const struct request *request = &conn->request;
    const char *name = conn_at(conn, request->name_at);
    struct id_tag *tag = request->known;
    const char *why = "";

    if (tag == NULL && tag_name_check(name, request->name_len, &why) != 0) {
        return reply_bad_tag(conn, name, request->name_len, why);
    }
    claim->name_len = (uint16_t)request->name_len;
    memcpy(claim->name, name, request->name_len);
    if (tag == NULL) {
        tag = segment_find(api_loop(conn), claim);
        /* An entry of the table stays where it is: good for the same bytes, should they repeat. */
        conn->request.known = tag;
    }
    return segment_begin(conn, claim, tag);
}

/* A word that says how many. */
HOT static bool read_count(struct conn *conn, uint32_t index, uint32_t *ret_count)
{
    char shown[SHOWN_BYTES];
    size_t len;
    const char *text = caller_word(conn, index, &len);
    uint64_t count;

    if (text_parse_decimal(text, len, 1, LIMIT_COUNT, &count) != 0) {
        return reply_error(conn, 400, "bad_count",
                           "the count %s is not a whole number from 1 to %d",
                           text_show(text, len, shown, sizeof shown), LIMIT_COUNT);
    }
    *ret_count = (uint32_t)count;
    return true;
}

/* --- methods --- */

HOT int handle_incr(struct conn *conn)
{
    struct id_claim claim;

    if (!claim_begin(conn, &claim, 1)) {
        return ANSWERED;
    }
    claim.answer = answer_last;
    return take_of_tag(conn, &claim);
}

HOT int handle_incrby(struct conn *conn)
{
    struct id_claim claim;
    uint32_t count = 0;

    if (!read_count(conn, 2, &count) || !claim_begin(conn, &claim, count)) {
        return ANSWERED;
    }
    claim.answer = answer_last;
    claim.contiguous = count > 1;
    claim.number = count > 1; /* those below the last one cannot be told from a text */
    return take_of_tag(conn, &claim);
}

/* What stands behind the words that must be there: COUNT, and KEY or LAYOUT, each once at most. */
struct options {
    bool has_count;
    uint32_t count;
    uint32_t other; /* index of the word behind KEY or LAYOUT; 0: none */
};

static bool read_next_options(struct conn *conn, uint32_t from, const char *other,
                              struct options *options)
{
    uint32_t count = resp_caller(conn)->words.count;

    *options = (struct options){.count = 1};
    for (uint32_t i = from; i < count; i += 2) {
        if (i + 1 < count && caller_word_is(conn, i, "COUNT") && !options->has_count) {
            options->has_count = true;
            if (!read_count(conn, i + 1, &options->count)) {
                return false;
            }
        } else if (i + 1 < count && caller_word_is(conn, i, other) && options->other == 0) {
            options->other = i + 1;
        } else {
            return caller_wrong_words(conn);
        }
    }
    return true;
}

int handle_next(struct conn *conn)
{
    struct parser_head *head = &conn->parser.head;
    const struct words *words = &resp_caller(conn)->words;
    struct id_claim claim;
    struct options options;

    if (!read_next_options(conn, 2, "KEY", &options) || !claim_begin(conn, &claim, options.count)) {
        return ANSWERED;
    }
    if (options.other != 0) {
        claim.keyed = true;
        head->key_count = 1;
        head->key_at = words->word[options.other].at;
        head->key_len = words->word[options.other].len;
    }
    claim.answer = options.has_count ? answer_array : answer_last;
    return take_of_tag(conn, &claim);
}

int handle_snowflake(struct conn *conn)
{
    struct id_claim claim;
    struct options options;
    const char *layout;
    size_t len;

    if (!read_next_options(conn, 1, "LAYOUT", &options) ||
        !claim_begin(conn, &claim, options.count)) {
        return ANSWERED;
    }
    claim.snowflake = true;
    claim.answer = options.has_count ? answer_array : answer_last;
    if (options.other != 0) {
        layout = caller_word(conn, options.other, &len);
        if (!id_claim_layout(conn, &claim, layout, len)) {
            return ANSWERED;
        }
    }
    return snowflake_begin(conn, &claim);
}
