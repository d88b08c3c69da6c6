/*
 * ids.c - see ids.h. Thread: the loop's.
 */
#include "http/api/ids.h"

#include <stdlib.h>
#include <string.h>

#include "http/api/context.h"
#include "http/api/layout_use.h"
#include "http/api/request.h"
#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/id/snowflake/snowflake_named.h"

#define LINE_BYTES_MAX (TEXT_DECIMAL_BYTES + 1)
#define LINE_COPY_BYTES 24 /* a line, and up to a multiple of eight */
#define LINES_PER_PART ((LIMIT_HTTP_PART_BYTES - LINE_COPY_BYTES) / LINE_BYTES_MAX)
_Static_assert(LINE_COPY_BYTES >= LINE_BYTES_MAX, "a line fits");

/* --- ids as text --- */

static size_t put_id(struct api_loop *loop, const struct id_text *text, uint64_t id, char *at)
{
    struct snowflake_parts parts;

    if (text->shape != NULL) {
        return shape_put(text->shape, loop->ff1, id, at);
    }
    if (text->layout != NULL) {
        return text_decimal(named_layout_id(text->layout, id), at);
    }
    ASSERT(text->form != ID_FORM_NUMBER);
    parts = snowflake_decode(&loop->backend->snowflake->layout, id);
    long_id_put(text->form, &parts, entropy_take(&loop->entropy, LONG_ID_RANDOM_BYTES), at);
    return long_id_bytes(text->form);
}

/* Another reply may have used the loop's permutation since. */
static void prepare_shape(struct api_loop *loop, const struct id_text *text, uint64_t id)
{
    if (text->shape != NULL) {
        shape_prepare(text->shape, id, loop->ff1);
    }
}

/* Is the id the first by its key? */
static bool begins_key(const struct id_text *text, uint64_t id)
{
    return text->shape != NULL && text->shape->has_key && id > 0 &&
           shape_key_of(text->shape, id) != shape_key_of(text->shape, id - 1);
}

size_t id_text_put(struct api_loop *loop, const struct id_text *text, uint64_t id, char *at)
{
    prepare_shape(loop, text, id);
    return put_id(loop, text, id, at);
}

uint32_t id_text_lines(const struct id_text *text)
{
    size_t len = text->shape != NULL    ? ID_TEXT_BYTES_MAX
                 : text->layout != NULL ? TEXT_DECIMAL_BYTES
                                        : long_id_bytes(text->form);

    return (uint32_t)(LIMIT_HTTP_PART_BYTES / (len + 1));
}

uint64_t id_text_lines_bytes(const struct id_text *text, const struct segment_range *range)
{
    uint64_t bytes = 0;

    if (text->layout != NULL) {
        char digits[TEXT_DECIMAL_BYTES];

        for (uint32_t i = 0; i < range->count; i++) {
            bytes += text_decimal(named_layout_id(text->layout, range->first + i), digits) + 1;
        }
        return bytes;
    }
    if (text->shape == NULL) {
        return range->count * (long_id_bytes(text->form) + 1);
    }
    for (uint64_t done = 0; done < range->count;) {
        uint64_t id = range->first + done;
        uint64_t alike = shape_alike(text->shape, id);

        alike = alike < range->count - done ? alike : range->count - done;
        bytes += alike * (shape_bytes(text->shape, id) + 1);
        done += alike;
    }
    return bytes;
}

void id_text_put_lines(struct api_loop *loop, const struct id_text *text,
                       const struct segment_range *range, struct buf *buf)
{
    char line[ID_TEXT_BYTES_MAX + 1];

    for (uint32_t i = 0; i < range->count; i++) {
        uint64_t id = range->first + i;
        size_t len;

        if (i == 0 || begins_key(text, id)) {
            prepare_shape(loop, text, id);
        }
        len = put_id(loop, text, id, line);
        line[len] = '\n';
        buf_put(buf, line, len + 1);
    }
}

/* --- claims --- */

HOT bool id_claim_add(struct id_claim *claim, const struct segment_range *range)
{
    struct segment_range *last =
        claim->range_count > 0 ? &claim->ranges[claim->range_count - 1] : NULL;

    ASSERT(range->count > 0 && range->count <= claim->left);
    if (last != NULL && last->first + last->count == range->first) {
        last->count += range->count;
    } else if (claim->range_count < LIMIT_RANGES_PER_REPLY) {
        claim->ranges[claim->range_count++] = *range;
    } else {
        return false;
    }
    claim->left -= range->count;
    return true;
}

static bool range_goes_on(const struct segment_range *range, const struct segment_range *next)
{
    return range->first + range->count == next->first;
}

static void remove_range(struct id_claim *claim, uint32_t at)
{
    ASSERT(at < claim->range_count);
    claim->range_count--;
    memmove(&claim->ranges[at], &claim->ranges[at + 1],
            (claim->range_count - at) * sizeof claim->ranges[0]);
}

/* Join a range to those before and behind the place where it belongs. False if it fits neither. */
static bool join_range(struct id_claim *claim, uint32_t at, const struct segment_range *range)
{
    struct segment_range *before = at > 0 ? &claim->ranges[at - 1] : NULL;
    struct segment_range *behind = at < claim->range_count ? &claim->ranges[at] : NULL;

    if (before != NULL && range_goes_on(before, range)) {
        before->count += range->count;
        if (behind != NULL && range_goes_on(before, behind)) {
            before->count += behind->count;
            remove_range(claim, at);
        }
        return true;
    }
    if (behind != NULL && range_goes_on(range, behind)) {
        behind->first = range->first;
        behind->count += range->count;
        return true;
    }
    return false;
}

HOT void id_claim_make_room(struct id_claim *claim)
{
    uint32_t shortest = 0;

    if (claim->range_count < LIMIT_RANGES_PER_REPLY) {
        return;
    }
    for (uint32_t i = 1; i < claim->range_count; i++) {
        if (claim->ranges[i].count < claim->ranges[shortest].count) {
            shortest = i;
        }
    }
    claim->left += claim->ranges[shortest].count;
    remove_range(claim, shortest);
}

HOT void id_claim_insert(struct id_claim *claim, const struct segment_range *range)
{
    uint32_t at = claim->range_count;

    ASSERT(at < LIMIT_RANGES_PER_REPLY);
    ASSERT(range->count > 0 && range->count <= claim->left);
    while (at > 0 && claim->ranges[at - 1].first > range->first) {
        at--;
    }
    ASSERT(at == 0 || claim->ranges[at - 1].first + claim->ranges[at - 1].count <= range->first);
    claim->left -= range->count;
    if (join_range(claim, at, range)) {
        return;
    }
    memmove(&claim->ranges[at + 1], &claim->ranges[at],
            (claim->range_count - at) * sizeof claim->ranges[0]);
    claim->ranges[at] = *range;
    claim->range_count++;
}

/* The decimal digits of the next number, in place; a carry out of the front makes one digit
 * more. */
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

/* The bytes of a range's lines. */
static uint64_t lines_bytes(const struct segment_range *range)
{
    char digits[TEXT_DECIMAL_BYTES];
    uint64_t first = range->first;
    uint64_t left = range->count;
    uint64_t bytes = 0;

    while (left > 0) {
        size_t len = text_decimal(first, digits);
        uint64_t power = 10; /* the first number that has a digit more */
        uint64_t count;

        for (size_t i = 1; i < len; i++) {
            power *= 10;
        }
        count = len == TEXT_DECIMAL_BYTES || power - first > left ? left : power - first;
        bytes += count * (len + 1);
        first += count;
        left -= count;
    }
    return bytes;
}

/* One id a line. Of ten ids that follow each other only the last digit differs: a line is copied
 * and its last digit set. It is copied with what lies behind it, which the next line overwrites,
 * since to copy a length that the compiler knows takes a move or two. */
static void put_number_lines(const struct segment_range *range, struct buf *buf)
{
    char line[LINE_COPY_BYTES] = {0};
    size_t len = text_decimal(range->first, line);
    char last = line[len - 1];
    char *at;

    buf_reserve(buf, (size_t)range->count * LINE_BYTES_MAX + LINE_COPY_BYTES);
    at = (char *)buf->data + buf->len;
    line[len] = '\n';
    for (uint32_t left = range->count; left > 0; left--) {
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

static void put_number_range(const struct segment_range *range, struct buf *buf)
{
    char *at;

    buf_reserve(buf, 2 * LINE_BYTES_MAX);
    at = (char *)buf->data + buf->len;
    at += text_decimal(range->first, at);
    *at++ = ' ';
    at += text_decimal(range->first + range->count - 1, at);
    *at++ = '\n';
    buf->len = (size_t)(at - (char *)buf->data);
}

static void put_ranges_json(const struct id_claim *claim, struct buf *buf)
{
    buf_printf(buf, "{\"%s\":", claim->snowflake ? "key" : "tag");
    text_put_json(buf, claim->name, claim->name_len);
    buf_printf(buf, ",\"count\":%u,\"ranges\":[", claim->count);
    for (uint32_t i = 0; i < claim->range_count; i++) {
        const struct segment_range *range = &claim->ranges[i];

        buf_printf(buf, "%s{\"first\":\"%llu\",\"last\":\"%llu\"}", i > 0 ? "," : "",
                   ull(range->first), ull(range->first + range->count - 1));
    }
    buf_put(buf, "]}", 2);
}

void id_claim_put(const struct id_claim *claim, struct buf *buf)
{
    ASSERT(claim->left == 0);
    ASSERT(claim->range_count > 0);
    if (claim->format == ID_FORMAT_JSON) {
        put_ranges_json(claim, buf);
        return;
    }
    for (uint32_t i = 0; i < claim->range_count; i++) {
        const struct segment_range *range = &claim->ranges[i];

        if (claim->format == ID_FORMAT_TEXT) {
            put_number_lines(range, buf);
        } else {
            put_number_range(range, buf);
        }
    }
}

/* --- many lines, part by part --- */

/* An answer of more lines than are made at once. */
struct lines {
    struct answer_parts parts;
    struct id_text text;
    uint64_t left_bytes;
    uint32_t range_count;
    uint32_t at; /* the range that goes on */
    struct segment_range ranges[];
};

static void lines_free(struct answer_parts *parts)
{
    free(CONTAINER(parts, struct lines, parts));
}

/* So many lines are made at once. */
static uint32_t lines_per_part(const struct id_text *text)
{
    return id_text_is_number(text) ? LINES_PER_PART : id_text_lines(text);
}

static bool lines_put(struct conn *conn, struct answer_parts *parts, struct buf *out)
{
    struct lines *lines = CONTAINER(parts, struct lines, parts);
    uint32_t room = lines_per_part(&lines->text);
    size_t before = out->len;

    while (room > 0 && lines->at < lines->range_count) {
        struct segment_range *range = &lines->ranges[lines->at];
        struct segment_range part = {range->first, range->count < room ? range->count : room};

        if (id_text_is_number(&lines->text)) {
            put_number_lines(&part, out);
        } else {
            id_text_put_lines(api_loop(conn), &lines->text, &part, out);
        }
        room -= part.count;
        range->first += part.count;
        range->count -= part.count;
        lines->at += range->count == 0;
    }
    ASSERT(lines->left_bytes >= out->len - before);
    lines->left_bytes -= out->len - before;
    ASSERT_IMPLIES(lines->at == lines->range_count, lines->left_bytes == 0);
    return lines->at == lines->range_count;
}

static int answer_lines(struct conn *conn, const struct id_claim *claim, const char *extra)
{
    size_t ranges_bytes = claim->range_count * sizeof claim->ranges[0];
    struct lines *lines = MUST_HAVE(malloc(sizeof *lines + ranges_bytes));

    *lines = (struct lines){.parts = {.put = lines_put, .free = lines_free},
                            .text = claim->text,
                            .range_count = claim->range_count};
    memcpy(lines->ranges, claim->ranges, ranges_bytes);
    for (uint32_t i = 0; i < claim->range_count; i++) {
        lines->left_bytes += id_text_is_number(&claim->text)
                                 ? lines_bytes(&claim->ranges[i])
                                 : id_text_lines_bytes(&claim->text, &claim->ranges[i]);
    }
    conn_answer_parts(conn, ANSWER_TEXT, extra, lines->left_bytes, &lines->parts);
    return ANSWERED;
}

/* Answer with ids that are no numbers. */
static int answer_texts(struct conn *conn, const struct id_claim *claim, const char *extra)
{
    struct api_loop *loop = api_loop(conn);
    struct buf *body;
    char text[ID_TEXT_BYTES_MAX];

    ASSERT(claim->format == ID_FORMAT_TEXT);
    if (!claim->counted) {
        conn_answer(conn, 200, ANSWER_TEXT, extra, text,
                    id_text_put(loop, &claim->text, claim->ranges[0].first, text));
        return ANSWERED;
    }
    if (claim->count > lines_per_part(&claim->text)) {
        return answer_lines(conn, claim, extra);
    }
    body = reply_begin(conn);
    for (uint32_t i = 0; i < claim->range_count; i++) {
        id_text_put_lines(loop, &claim->text, &claim->ranges[i], body);
    }
    conn_answer(conn, 200, ANSWER_TEXT, extra, body->data, body->len);
    return ANSWERED;
}

HOT int ids_answer(struct conn *conn, const struct id_claim *claim, const char *extra)
{
    struct api_counts *counts = &api_loop(conn)->counts;
    struct buf *body;
    char digits[TEXT_DECIMAL_BYTES];

    conns_count(claim->snowflake                    ? &counts->snowflake_ids
                : claim->strict && claim->monotonic ? &counts->monotonic_ids
                : claim->strict                     ? &counts->strict_ids
                                                    : &counts->segment_ids,
                claim->count);
    if (claim->format == ID_FORMAT_OTHER) {
        return claim->answer(conn, claim);
    }
    if (!id_text_is_number(&claim->text)) {
        return answer_texts(conn, claim, extra);
    }
    if (!claim->counted && claim->format == ID_FORMAT_TEXT) {
        ASSERT(claim->range_count == 1 && claim->ranges[0].count == 1);
        conn_answer(conn, 200, conn->request.wants_json ? ANSWER_JSON : ANSWER_TEXT, extra, digits,
                    text_decimal(claim->ranges[0].first, digits));
        return ANSWERED;
    }
    if (claim->format == ID_FORMAT_TEXT && claim->count > LINES_PER_PART) {
        return answer_lines(conn, claim, extra);
    }
    body = reply_begin(conn);
    id_claim_put(claim, body);
    conn_answer(conn, 200, claim->format == ID_FORMAT_JSON ? ANSWER_JSON : ANSWER_TEXT, extra,
                body->data, body->len);
    return ANSWERED;
}

bool id_claim_layout(struct conn *conn, struct id_claim *claim, const char *name, size_t len)
{
    struct layout_words *named = layout_named(conn, name, len);

    if (named == NULL) {
        return false;
    }
    if (claim->text.form != ID_FORM_NUMBER) {
        /* Two layouts may stamp the same time, worker id and sequence. */
        return reply_error(conn, 400, "bad_request",
                           "UUIDs and ULIDs are of the cluster's own layout: leave out layout");
    }
    claim->layout = named;
    if (named->row.layout.order == LAYOUT_SEQUENCE_LAST) {
        return true;
    }
    if ((claim->format != ID_FORMAT_TEXT && claim->format != ID_FORMAT_OTHER) ||
        (claim->contiguous && claim->count > 1)) {
        return reply_error(conn, 400, "bad_request",
                           "ids of layout %s do not follow each other, for its worker id is last: "
                           "they come one a line, without contiguous or another format",
                           named->row.name);
    }
    claim->text.layout = &named->row.layout;
    return true;
}

/* Read the query into the claim. A function of its own because of the room it takes on the stack,
 * which most requests do without. */
static __attribute__((noinline)) bool read_query(struct conn *conn, struct id_claim *claim,
                                                 bool snowflake)
{
    static const char *const forms[] = {
        [ID_FORM_NUMBER] = "number", [ID_FORM_UUID] = "uuid", [ID_FORM_ULID] = "ulid", NULL};
    static const char *const numbers[] = {"number", NULL};
    static const char *const formats[] = {
        [ID_FORMAT_TEXT] = "text", [ID_FORMAT_RANGE] = "range", [ID_FORMAT_JSON] = "json", NULL};
    struct param options[] = {
        {.name = "count", .min = 1, .max = LIMIT_COUNT, .number = 1, .code = "bad_count"},
        {.name = "format",
         .kind = PARAM_WORD,
         .words = formats,
         .rule = "is not text, range or json"},
        OPTION_FLAG("contiguous"),
        OPTION_TIMEOUT(conn),
        {.name = "as",
         .kind = PARAM_WORD,
         .words = snowflake ? forms : numbers,
         .rule = snowflake ? "is not number, uuid or ulid" : "is not number"},
        {.name = "layout", .kind = PARAM_TEXT}, /* of snowflake ids alone */
    };
    size_t count = COUNT_OF(options) - (snowflake ? 0 : 1);
    enum id_form form;

    if (!request_options(conn, options, count)) {
        return false;
    }
    form = (enum id_form)options[4].number;
    claim->number = options[4].present;
    claim->text.form = form;
    if (form != ID_FORM_NUMBER && options[1].number != ID_FORMAT_TEXT) {
        return reply_error(conn, 400, "bad_request",
                           "format=%s is for numbers; as=%s has text alone",
                           formats[options[1].number], forms[form]);
    }
    claim->counted = options[0].present;
    claim->format = (enum id_format)options[1].number;
    claim->contiguous = options[2].number == 1;
    claim->count = (uint32_t)options[0].number;
    claim->left = claim->count;
    claim->timeout_ms = (uint32_t)options[3].number;
    claim->deadline_ms = conns_now_ms(conn->conns) + claim->timeout_ms;
    return !options[5].present || id_claim_layout(conn, claim, options[5].text, options[5].len);
}

HOT void id_claim_init(struct conn *conn, struct id_claim *claim, uint32_t count)
{
    claim->count = count;
    claim->left = count;
    claim->counted = false;
    claim->contiguous = false;
    claim->snowflake = false;
    claim->plain = true;
    claim->opened = false;
    claim->judged = false;
    claim->strict = false;
    claim->monotonic = false;
    claim->reopened = false;
    claim->keyed = false;
    claim->format = ID_FORMAT_TEXT;
    claim->text = (struct id_text){0};
    claim->number = false;
    claim->layout = NULL;
    claim->timeout_ms = api_loop(conn)->api->settings->default_timeout_ms;
    claim->deadline_ms = conns_now_ms(conn->conns) + claim->timeout_ms;
    claim->name_len = 0;
    claim->range_count = 0;
}

HOT bool ids_read(struct conn *conn, struct id_claim *claim, bool snowflake)
{
    size_t name_len;

    id_claim_init(conn, claim, 1);
    if (conn->request.known != NULL) {
        /* The head repeats one whose name was found to be plain. */
        name_len = conn->request.name_len;
        ASSERT(name_len <= sizeof claim->name);
        memcpy(claim->name, conn_at(conn, conn->request.name_at), name_len);
    } else if (!request_tag_name(conn, claim->name, &name_len)) {
        return false;
    }
    if (conn->request.query_len > 0 && !read_query(conn, claim, snowflake)) {
        return false;
    }
    if (!conn_charge(conn, &conn->client->ids, claim->count)) {
        return false;
    }
    claim->snowflake = snowflake;
    claim->name_len = (uint16_t)name_len;
    claim->plain = name_len == conn->request.name_len;
    claim->keyed = conn_head(conn)->key_count > 0;
    return true;
}

bool parked_begin(struct conn *conn, const struct id_claim *claim, struct id_tag *tag,
                  void (*cancel)(struct http_wait *wait), void (*expire)(struct http_wait *wait))
{
    struct api_loop *loop = api_loop(conn);
    struct parked *parked = MUST_HAVE(calloc(1, sizeof *parked));

    ASSERT(claim->left > 0);
    parked->waiter.clock = claim->layout;
    if (waiters_add(&loop->waiters, &parked->waiter, tag, claim->left) != 0) {
        free(parked);
        reply_error(conn, 503, "overloaded", "%d requests wait for ids on this loop already",
                    LIMIT_WAITERS_PER_LOOP);
        return false;
    }
    parked->loop = loop;
    parked->claim = *claim;
    parked->wait.cancel = cancel;
    parked->wait.expire = expire;
    parked->wait.needs_client = true;
    conn_wait(conn, &parked->wait, claim->deadline_ms);
    return true;
}

struct parked *parked_for_clock(struct waiters *waiters, const struct layout_words *layout)
{
    struct waiter *waiter = waiters->count > 0 ? waiters_first_of_clock(waiters, layout) : NULL;

    return waiter != NULL ? CONTAINER(waiter, struct parked, waiter) : NULL;
}

struct parked *parked_for_next_clock(struct waiters *waiters, const struct layout_words *layout)
{
    struct waiter *waiter = waiters_next_clock(waiters, layout);

    return waiter != NULL ? CONTAINER(waiter, struct parked, waiter) : NULL;
}

struct conn *parked_resume(struct parked *parked)
{
    waiters_remove(&parked->loop->waiters, &parked->waiter);
    return conn_resume(&parked->wait);
}
