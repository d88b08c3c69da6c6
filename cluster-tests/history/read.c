/*
 * read.c - see read.h.
 *
 * The happy path: each line is split into fields where it lies.
 *
 * Failure modes: the first line that is malformed ends it with its number and the reason.
 * Thread: one owner each.
 */
#include "cluster-tests/history/read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/hash.h"

#define FIELDS_MAX 8

struct field {
    const char *text;
    size_t len;
};

struct reading {
    struct history *history;
    const char *name;
    uint64_t line; /* from 1 */
    struct buf *why;
};

static int refuse(struct reading *reading, const char *why)
{
    buf_printf(reading->why, "%s:%llu: %s", reading->name, (unsigned long long)reading->line, why);
    buf_put_u8(reading->why, '\0');
    return ERR_INVALID;
}

static bool is(const struct field *field, const char *word)
{
    return field->len == strlen(word) && memcmp(field->text, word, field->len) == 0;
}

static bool is_name(const struct field *field)
{
    return field->len > 0 && field->len <= HISTORY_NAME_BYTES;
}

/* A whole number up to max, of digits alone. */
static bool number(const struct field *field, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (field->len == 0) {
        return false;
    }
    for (size_t i = 0; i < field->len; i++) {
        unsigned digit = (unsigned)(unsigned char)field->text[i] - '0';

        if (digit > 9 || value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret_value = value;
    return true;
}

/* Split at the tabs; returns how many fields there are, 0 if a control character is among them, and
 * FIELDS_MAX + 1 if they are more. */
static size_t split(const char *line, size_t len, struct field fields[FIELDS_MAX])
{
    size_t count = 0;
    size_t begin = 0;

    for (size_t i = 0; i <= len; i++) {
        unsigned char byte = i < len ? (unsigned char)line[i] : '\t';

        if (byte != '\t' && byte >= 0x20 && byte != 0x7f) {
            continue;
        }
        if (byte != '\t') {
            return 0;
        }
        if (count == FIELDS_MAX) {
            return FIELDS_MAX + 1;
        }
        fields[count++] = (struct field){line + begin, i - begin};
        begin = i + 1;
    }
    return count;
}

static bool read_mode(const struct field *field, enum history_mode *ret_mode)
{
    static const char *const names[] = {
        [HISTORY_TREND] = "trend", [HISTORY_MONOTONIC] = "monotonic", [HISTORY_STRICT] = "strict"};

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (is(field, names[i])) {
            *ret_mode = (enum history_mode)i;
            return true;
        }
    }
    return false;
}

static int read_tag(struct reading *reading, const struct field *fields, size_t count)
{
    uint64_t start = HISTORY_NO_START;
    enum history_mode mode;
    uint32_t tag;
    int err;

    if (count < 3 || count > 4) {
        return refuse(reading, "a tag line has a name, a mode, and maybe a start");
    }
    if (!is_name(&fields[1])) {
        return refuse(reading, "the tag's name is empty or too long");
    }
    if (!read_mode(&fields[2], &mode)) {
        return refuse(reading, "the mode is none of strict, monotonic and trend");
    }
    if (count == 4 && !history_rises(mode)) {
        return refuse(reading, "only a strict or monotonic tag has a start");
    }
    if (count == 4 && !number(&fields[3], HISTORY_LAST_ID, &start)) {
        return refuse(reading, "the start is no id");
    }
    tag = history_tag(reading->history, fields[1].text, fields[1].len);
    err = history_declare(reading->history, tag, mode, start);
    ASSERT(err == 0 || err == ERR_CONFLICT);
    return err == 0 ? 0 : refuse(reading, "another line said otherwise of this tag");
}

/* What was received, of an operation: "-" both times if there was no answer. */
static const char *read_answer(const struct field *received, const struct field *first,
                               struct history_op *op)
{
    if (is(received, "-") != is(first, "-")) {
        return "either the time of the reply or its first id is missing";
    }
    if (is(received, "-")) {
        op->received = HISTORY_UNKNOWN;
        return NULL;
    }
    if (!number(received, UINT64_MAX - 1, &op->received)) {
        return "the time of the reply is no number";
    }
    if (!number(first, UINT64_MAX, &op->first)) {
        return "the first id is no number";
    }
    return op->received < op->sent ? "the reply came before the request" : NULL;
}

/* An idempotency key as 64 bits, none of them the 0 that means "none". */
static uint64_t key_of(const struct field *field)
{
    uint64_t hash = hash_bytes(field->text, field->len, 0);

    return hash != 0 ? hash : 1;
}

static int read_op(struct reading *reading, const struct field *fields, size_t count)
{
    struct history_op op = {0};
    uint64_t ids;
    const char *why;
    int err;

    if (count < 7 || count > 8) {
        return refuse(reading, "an operation has tag, client, times sent and received, first id, "
                               "count, and maybe a key");
    }
    if (!is_name(&fields[1]) || !is_name(&fields[2]) || (count == 8 && !is_name(&fields[7]))) {
        return refuse(reading, "the tag, client or key is empty or too long");
    }
    if (!number(&fields[3], UINT64_MAX - 1, &op.sent)) {
        return refuse(reading, "the time of the request is no number");
    }
    why = read_answer(&fields[4], &fields[5], &op);
    if (why != NULL) {
        return refuse(reading, why);
    }
    if (!number(&fields[6], UINT32_MAX, &ids) || ids == 0) {
        return refuse(reading, "the count is no whole number from 1 to 4294967295");
    }
    op.count = (uint32_t)ids;
    op.key = count == 8 ? key_of(&fields[7]) : 0;
    op.tag = history_tag(reading->history, fields[1].text, fields[1].len);
    op.client = history_client(reading->history, fields[2].text, fields[2].len);
    err = history_add(reading->history, &op);
    if (err != 0) {
        return refuse(reading, err == ERR_TOO_LARGE ? "too many operations"
                                                    : "the ids go beyond the last id, 2^63 - 2");
    }
    return 0;
}

/* The line with its newline. */
static int read_line(struct reading *reading, const char *line, size_t len)
{
    struct field fields[FIELDS_MAX];
    size_t count;

    if (len > HISTORY_LINE_BYTES) {
        return refuse(reading, "the line is too long");
    }
    if (line[--len] != '\n') {
        return refuse(reading, "the last line has no end");
    }
    if (len == 0 || line[0] == '#') {
        return 0;
    }
    count = split(line, len, fields);
    if (count == 0) {
        return refuse(reading, "a control character");
    }
    if (is(&fields[0], "op")) {
        return read_op(reading, fields, count);
    }
    if (is(&fields[0], "tag")) {
        return read_tag(reading, fields, count);
    }
    return refuse(reading, "a line begins with op, tag or #");
}

int history_read(struct history *history, FILE *file, const char *name, struct buf *ret_why)
{
    struct reading reading = {.history = history, .name = name, .why = ret_why};
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    int err = 0;

    ASSERT(ret_why->len == 0);
    while (err == 0 && (len = getline(&line, &room, file)) > 0) {
        reading.line++;
        err = read_line(&reading, line, (size_t)len);
    }
    free(line);
    if (err == 0 && ferror(file)) {
        buf_printf(ret_why, "%s: %s", name, strerror(errno));
        buf_put_u8(ret_why, '\0');
        err = ERR_IO;
    }
    return err;
}
