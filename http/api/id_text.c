/*
 * id_text.c - ids as text, and the answer to a claim of several ids, or of one that is no number.
 *
 * The happy path: id_text_answer() writes lines, ranges or JSON. Many lines are made part by part,
 * in their connection's turns. Ids of a tag with a shape, UUIDs, ULIDs, and those of a layout whose
 * worker id is last come one a line.
 *
 * Failure modes: none. Thread: the loop's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api/request.h"
#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/id/codec/tag.h"
#include "src/id/snowflake/snowflake.h"

#define LINE_BYTES_MAX (TEXT_DECIMAL_BYTES + 1)
#define LINE_COPY_BYTES 24 /* a line, rounded up to a multiple of eight */
#define LINES_PER_PART ((LIMIT_HTTP_PART_BYTES - LINE_COPY_BYTES) / LINE_BYTES_MAX)
_Static_assert(LINE_COPY_BYTES >= LINE_BYTES_MAX, "a line fits");

/* --- ids as text --- */

size_t id_text_put(struct api_loop *loop, const struct id_text *text, uint64_t id, bool rekey,
                   char *at)
{
    struct snowflake_parts parts;

    switch (text->kind) {
    case ID_TEXT_NUMBER:
        return text_decimal(id, at);
    case ID_TEXT_SHAPE:
        if (rekey) {
            shape_prepare(text->shape, id, loop->ff1);
        }
        return shape_put(text->shape, loop->ff1, id, at);
    case ID_TEXT_LAYOUT:
        return text_decimal(named_layout_id(text->layout, id), at);
    case ID_TEXT_LONG:
        break;
    }
    parts = snowflake_decode(&loop->backend->snowflake->layout, id);
    long_id_put(text->form, &parts, entropy_take(&loop->entropy, LONG_ID_RANDOM_BYTES), at);
    return long_id_bytes(text->form);
}

uint32_t id_text_lines(const struct id_text *text)
{
    size_t len = text->kind == ID_TEXT_LONG    ? long_id_bytes(text->form)
                 : text->kind == ID_TEXT_SHAPE ? ID_TEXT_BYTES_MAX
                                               : TEXT_DECIMAL_BYTES;

    return text->kind == ID_TEXT_NUMBER ? LINES_PER_PART
                                        : (uint32_t)(LIMIT_HTTP_PART_BYTES / (len + 1));
}

/* The bytes that the lines of a range take: `alike` ids from this one on have as many. */
static uint64_t id_text_lines_bytes(const struct id_text *text, const struct segment_range *range)
{
    uint32_t by = increment_of(range->increment);
    char digits[TEXT_DECIMAL_BYTES];
    uint64_t bytes = 0;

    for (uint64_t done = 0, alike; done < range->count; done += alike) {
        uint64_t id = range->first + done * by;
        uint64_t power = 1; /* becomes the first number with one digit more */
        size_t len = 0;

        alike = range->count;
        switch (text->kind) {
        case ID_TEXT_NUMBER:
            len = text_decimal(id, digits);
            for (size_t i = 0; i < len; i++) {
                power *= 10;
            }
            alike = len == TEXT_DECIMAL_BYTES ? alike : (power - id - 1) / by + 1;
            break;
        case ID_TEXT_SHAPE:
            alike = (shape_alike(text->shape, id) - 1) / by + 1;
            len = shape_bytes(text->shape, id);
            break;
        case ID_TEXT_LAYOUT:
            alike = 1;
            len = text_decimal(named_layout_id(text->layout, id), digits);
            break;
        case ID_TEXT_LONG:
            len = long_id_bytes(text->form);
            break;
        }
        alike = alike < range->count - done ? alike : range->count - done;
        bytes += alike * (len + 1);
    }
    return bytes;
}

/* --- numbers --- */

/* Increment decimal digits in place; a carry out of the front makes one digit more. */
static size_t increment(char *digits, size_t len)
{
    for (size_t i = len; i > 0; i--) {
        if (digits[i - 1] != '9') {
            digits[i - 1]++;
            return len;
        }
        digits[i - 1] = '0';
    }
    ASSERT(len < TEXT_DECIMAL_BYTES);
    memmove(digits + 1, digits, len);
    digits[0] = '1';
    return len + 1;
}

/* One id a line. Ten consecutive ids differ only in the last digit: a line is copied and its last
 * digit set. The copy has a length known to the compiler, which takes a move or two; the next line
 * overwrites the bytes beyond the line. */
static void put_number_lines(const struct segment_range *range, struct buf *buf)
{
    char line[LINE_COPY_BYTES] = {0};
    size_t len = text_decimal(range->first, line);
    char last = line[len - 1];
    uint64_t id = range->first;
    uint32_t left = range->count;
    char *at;

    buf_reserve(buf, (size_t)range->count * LINE_BYTES_MAX + LINE_COPY_BYTES);
    at = (char *)buf->data + buf->len;
    if (range->increment > 1) {
        for (; left > 0; left--) {
            at += text_decimal(id, at);
            *at++ = '\n';
            id += range->increment;
        }
    }
    line[len] = '\n';
    for (; left > 0; left--) {
        memcpy(at, line, LINE_COPY_BYTES);
        at[len - 1] = last;
        at += len + 1;
        if (last < '9') {
            last++;
            continue;
        }
        last = '0';
        len = increment(line, len - 1) + 1;
        line[len] = '\n';
    }
    buf->len = (size_t)(at - (char *)buf->data);
    ASSERT(buf->len <= buf->capacity);
}

void id_claim_put(const struct id_claim *claim, struct buf *buf)
{
    bool is_json = claim->format == ID_FORMAT_JSON;
    char *at;

    ASSERT(claim->left == 0);
    ASSERT(claim->range_count > 0);
    if (is_json) {
        text_put_field_of(buf,
                          claim->source == ID_SOURCE_CLOCK ? "{\"key\":" : "{\"tag\":", claim->name,
                          claim->name_len);
        buf_printf(buf, ",\"count\":%u,\"ranges\":[", claim->count);
    }
    for (uint32_t i = 0; i < claim->range_count; i++) {
        const struct segment_range *range = &claim->ranges[i];
        uint32_t by = increment_of(range->increment);
        uint64_t last = range->first + (uint64_t)(range->count - 1) * by;

        if (claim->format == ID_FORMAT_TEXT) {
            put_number_lines(range, buf);
            continue;
        }
        if (!is_json) {
            buf_reserve(buf, 3 * LINE_BYTES_MAX);
            at = (char *)buf->data + buf->len;
            at += text_decimal(range->first, at);
            *at++ = ' ';
            at += text_decimal(last, at);
            if (claim->stepped) {
                *at++ = ' ';
                at += text_decimal(by, at);
            }
            *at++ = '\n';
            buf->len = (size_t)(at - (char *)buf->data);
            continue;
        }
        buf_printf(buf, "%s{\"first\":\"%llu\",\"last\":\"%llu\"", i > 0 ? "," : "",
                   ull(range->first), ull(last));
        if (claim->stepped) {
            buf_printf(buf, ",\"increment\":%u", by);
        }
        buf_put_u8(buf, '}');
    }
    if (is_json) {
        buf_put(buf, "]}", 2);
    }
}

/* --- many ids, part by part --- */

/* An answer with more ids than are made at once. */
struct id_parts {
    struct answer_parts parts;
    struct id_text text;
    id_parts_put *put;
    uint32_t per_part;
    uint64_t left; /* of the announced length */
    uint32_t range_count;
    uint32_t at; /* the range to continue with */
    struct segment_range ranges[];
};

static bool put_part_of_ids(struct conn *conn, struct answer_parts *parts, struct buf *out)
{
    struct id_parts *ids = CONTAINER(parts, struct id_parts, parts);
    uint32_t room = ids->per_part;

    while (room > 0 && ids->at < ids->range_count) {
        struct segment_range *range = &ids->ranges[ids->at];
        struct segment_range part = {range->first, range->count < room ? range->count : room,
                                     range->increment};
        uint64_t made = ids->put(conn, &ids->text, &part, out);

        ASSERT(made <= ids->left);
        ids->left -= made;
        room -= part.count;
        range->first = range_next(&part);
        range->count -= part.count;
        ids->at += range->count == 0;
    }
    ASSERT_IMPLIES(ids->at == ids->range_count, ids->left == 0);
    return ids->at == ids->range_count;
}

int id_text_answer_parts(struct conn *conn, const struct id_claim *claim, const char *type,
                         const char *extra, uint64_t len, uint32_t per_part, id_parts_put *put)
{
    size_t ranges_bytes = claim->range_count * sizeof claim->ranges[0];
    struct id_parts *ids = MUST_HAVE(malloc(sizeof *ids + ranges_bytes));

    *ids = (struct id_parts){.parts.put = put_part_of_ids,
                             .text = claim->text,
                             .put = put,
                             .per_part = per_part,
                             .left = len,
                             .range_count = claim->range_count};
    memcpy(ids->ranges, claim->ranges, ranges_bytes);
    conn_answer_parts(conn, type, extra, len, &ids->parts);
    return ANSWERED;
}

/* --- lines --- */

/* Returns their bytes. */
static uint64_t put_lines(struct conn *conn, const struct id_text *text,
                          const struct segment_range *range, struct buf *out)
{
    const struct shape *keyed =
        text->kind == ID_TEXT_SHAPE && text->shape->has_key ? text->shape : NULL;
    struct api_loop *loop = api_loop(conn);
    char line[ID_TEXT_BYTES_MAX + 1];
    size_t before = out->len;

    if (text->kind == ID_TEXT_NUMBER) {
        put_number_lines(range, out);
        return out->len - before;
    }
    for (uint32_t i = 0; i < range->count; i++) {
        uint64_t id = range->first + (uint64_t)i * increment_of(range->increment);
        /* Another reply may have rekeyed the loop's permutation since the part before. */
        bool rekey = i == 0 || (keyed != NULL && id > 0 &&
                                shape_key_of(keyed, id) != shape_key_of(keyed, id - 1));
        size_t len = id_text_put(loop, text, id, rekey, line);

        line[len] = '\n';
        buf_put(out, line, len + 1);
    }
    return out->len - before;
}

int id_text_answer(struct conn *conn, const struct id_claim *claim, const char *extra)
{
    bool is_number = claim->text.kind == ID_TEXT_NUMBER;
    struct buf *body;
    char headers[80];
    char text[ID_TEXT_BYTES_MAX];
    uint64_t bytes = 0;

    ASSERT(is_number || claim->format == ID_FORMAT_TEXT);
    if ((claim->counted || claim->format != ID_FORMAT_TEXT) && claim->source != ID_SOURCE_CLOCK) {
        (void)snprintf(headers, sizeof headers, "Leafd-Generation: %u\r\n%s", claim->generation,
                       extra != NULL ? extra : "");
        extra = headers;
    }
    if (!is_number && !claim->counted) {
        conn_answer(conn, 200, ANSWER_TEXT, extra, text,
                    id_text_put(api_loop(conn), &claim->text, claim->ranges[0].first, true, text));
        return ANSWERED;
    }
    if (claim->format == ID_FORMAT_TEXT && claim->count > id_text_lines(&claim->text)) {
        for (uint32_t i = 0; i < claim->range_count; i++) {
            bytes += id_text_lines_bytes(&claim->text, &claim->ranges[i]);
        }
        return id_text_answer_parts(conn, claim, ANSWER_TEXT, extra, bytes,
                                    id_text_lines(&claim->text), put_lines);
    }
    body = reply_begin(conn);
    for (uint32_t i = 0; i < claim->range_count && !is_number; i++) {
        (void)put_lines(conn, &claim->text, &claim->ranges[i], body);
    }
    if (is_number) {
        id_claim_put(claim, body);
    }
    return reply_made(conn, claim->format == ID_FORMAT_JSON ? ANSWER_JSON : ANSWER_TEXT, extra);
}
