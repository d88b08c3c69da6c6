/*
 * tags.c - see tags.h. Thread: one.
 */
#include "src/ctl/import/tags.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/limits.h"
#include "src/base/utf8.h"
#include "src/id/codec/tag.h"

#define WHY_BYTES 400
#define SHOWN_BYTES 160

struct checking {
    const struct source *source;
    const struct rows *rows;
    struct import_tags *tags;
    bool every_number;
};

static const char *imported_bytes_of(const struct checking *checking, const struct row *row,
                                     enum column column, size_t *ret_len)
{
    const struct row_value *value = &row->values[column];

    *ret_len = value->is_null ? 0 : value->len;
    return *ret_len > 0 ? (const char *)checking->rows->text.data + value->at : "";
}

/* Another reason why a row is no tag. */
static void add_why(char why[WHY_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_why(char why[WHY_BYTES], const char *format, ...)
{
    size_t len = strlen(why);
    va_list args;

    len += (size_t)snprintf(why + len, WHY_BYTES - len, "%s", len > 0 ? "; " : "");
    if (len < WHY_BYTES) {
        va_start(args, format);
        (void)vsnprintf(why + len, WHY_BYTES - len, format, args);
        va_end(args);
    }
}

static void imported_check_name(const struct checking *checking, const struct row *row,
                                char why[WHY_BYTES])
{
    const char *column = checking->source->columns[COLUMN_NAME];
    size_t len;
    const char *name = imported_bytes_of(checking, row, COLUMN_NAME, &len);
    char shown[SHOWN_BYTES];
    char place[LOOKS_WHY_BYTES];

    (void)text_show(name, len, shown, sizeof shown);
    if (!text_is_utf8(name, len)) {
        add_why(why, "%s %s is not UTF-8", column, shown);
        return;
    }
    if (len < 1 || len > LIMIT_TAG_NAME_BYTES) {
        add_why(why, "%s %s has %zu bytes, not 1 to %d", column, shown, len, LIMIT_TAG_NAME_BYTES);
        return;
    }
    if (memmem(name, len, "??", 2) != NULL) {
        /* What mysqldump writes for letters that its character set does not have. */
        add_why(why,
                "%s %s has lost its letters: dump it with --default-character-set=utf8mb4, or, if "
                "that is its name, make the tag by hand",
                column, shown);
    }
    if (looks_hidden(name, len, place)) {
        add_why(why, "%s %s: %s; no new tag can have it: give it another name in the file", column,
                shown, place);
    }
}

/* A number in [low, high], with blanks around it and a sign, as MySQL may show it. */
static uint64_t imported_check_number(const struct checking *checking, const struct row *row,
                                      enum column column, uint64_t low, uint64_t high,
                                      char why[WHY_BYTES])
{
    size_t len;
    const char *bytes = imported_bytes_of(checking, row, column, &len);
    const char *digits;
    size_t count;
    uint64_t number = 0;
    char shown[SHOWN_BYTES];

    for (digits = bytes, count = len; count > 0 && (*digits == ' ' || *digits == '\t'); digits++) {
        count--;
    }
    while (count > 0 && (digits[count - 1] == ' ' || digits[count - 1] == '\r')) {
        count--;
    }
    if (count > 1 && *digits == '+') {
        digits++;
        count--;
    }
    if (row->values[column].is_null || text_parse_decimal(digits, count, low, high, &number) != 0) {
        add_why(why, "%s is %s, not a number from %" PRIu64 " to %" PRIu64,
                checking->source->columns[column],
                row->values[column].is_null ? "NULL" : text_show(bytes, len, shown, sizeof shown),
                low, high);
    }
    return number;
}

/* Which of TinyID's numbers are its ids. */
static void check_delta(const struct checking *checking, const struct row *row, char why[WHY_BYTES])
{
    uint64_t delta = imported_check_number(checking, row, COLUMN_DELTA, 1, INT32_MAX, why);
    uint64_t remainder = 0;

    if (delta <= 1 || checking->every_number) {
        return;
    }
    remainder = imported_check_number(checking, row, COLUMN_REMAINDER, 0, INT32_MAX, why);
    add_why(why,
            "delta is %" PRIu64 " and remainder %" PRIu64 ": its ids are the numbers that "
            "leave %" PRIu64 " when divided by %" PRIu64 ", and leafd hands out every number. "
            "Where other databases hand out the rest, ids would repeat; with the rows of all "
            "of them in one file, --every-number goes on above the largest max_id",
            delta, remainder, remainder, delta);
}

/* The description as leafd can keep it: UTF-8, without NUL, of so many bytes. */
static void take_description(struct checking *checking, const struct row *row,
                             struct import_tag *tag)
{
    size_t len;
    const char *bytes = imported_bytes_of(checking, row, COLUMN_DESCRIPTION, &len);
    struct buf *texts = &checking->tags->texts;
    size_t before = texts->len;
    char place[ROW_PLACE_BYTES];

    tag->has_description = !row->values[COLUMN_DESCRIPTION].is_null;
    tag->description = bytes;
    tag->description_len = len;
    if (len <= LIMIT_TAG_DESCRIPTION_BYTES && text_is_utf8(bytes, len) &&
        memchr(bytes, '\0', len) == NULL) {
        return;
    }
    while (len > 0) {
        uint32_t code = 0;
        size_t step = utf8_step(bytes, len, &code);
        const char *kept = step == 0 ? "\xef\xbf\xbd" : bytes;
        size_t kept_len = step == 0 ? 3 : step;

        if (texts->len - before + kept_len > LIMIT_TAG_DESCRIPTION_BYTES) {
            break;
        }
        if (step == 0 || code != 0) {
            buf_put(texts, kept, kept_len);
        }
        bytes += step == 0 ? 1 : step;
        len -= step == 0 ? 1 : step;
    }
    tag->description = NULL; /* its place in the texts, which may move yet, is the length before */
    tag->description_len = texts->len - before;
    messages_add(&checking->tags->warnings,
                 "%s: tag '%.*s': the description was cut to %d bytes of UTF-8 without NUL",
                 row_place(row, place), (int)tag->name_len, tag->name, LIMIT_TAG_DESCRIPTION_BYTES);
}

static void warn(struct checking *checking, const struct row *row, const struct import_tag *tag,
                 const char *text)
{
    char place[ROW_PLACE_BYTES];

    messages_add(&checking->tags->warnings, "%s: tag '%.*s' %s", row_place(row, place),
                 (int)tag->name_len, tag->name, text);
}

static void check_row(struct checking *checking, const struct row *row)
{
    bool tinyid = checking->source->columns[COLUMN_DELTA] != NULL;
    struct import_tag *tag = &checking->tags->list[checking->tags->count];
    char why[WHY_BYTES] = "";
    char place[ROW_PLACE_BYTES];
    char looks[LOOKS_WHY_BYTES];

    *tag = (struct import_tag){.row = row};
    imported_check_name(checking, row, why);
    tag->name = imported_bytes_of(checking, row, COLUMN_NAME, &tag->name_len);
    tag->max_id = imported_check_number(checking, row, COLUMN_MAX_ID, 0, TAG_MAX_ID, why);
    tag->step = imported_check_number(checking, row, COLUMN_STEP, 1, LIMIT_TAG_STEP, why);
    if (tinyid) {
        check_delta(checking, row, why);
    }
    if (why[0] != '\0') {
        messages_add(&checking->tags->errors, "%s: %s", row_place(row, place), why);
        return;
    }
    tag->max_id += tinyid && tag->max_id < TAG_MAX_ID ? 1 : 0;
    if (checking->source->columns[COLUMN_DESCRIPTION] != NULL) {
        take_description(checking, row, tag);
    } else {
        tag->description = "";
    }
    if (tag->max_id == 0) {
        warn(checking, row, tag, "has max_id 0: its first id will be 0");
    } else if (tag->max_id == TAG_MAX_ID) {
        warn(checking, row, tag, "is exhausted: it has no id left");
    }
    if (looks_like_another(tag->name, tag->name_len, looks)) {
        messages_add(&checking->tags->warnings, "%s: tag '%.*s' looks like another one: %s",
                     row_place(row, place), (int)tag->name_len, tag->name, looks);
    }
    checking->tags->count++;
}

/* --- by name --- */

/* Equal ones stay in the order of the file. */
static int by_name(const void *a, const void *b)
{
    const struct import_tag *one = a;
    const struct import_tag *two = b;
    int order = tag_name_compare(one->name, one->name_len, two->name, two->name_len);

    return order != 0 ? order : (one->row > two->row) - (one->row < two->row);
}

/* Rows of one name: an error, or, of several databases, the largest max_id counts. */
static void merge_equal(struct checking *checking)
{
    struct import_tags *tags = checking->tags;
    size_t kept = 0;

    for (size_t i = 0; i < tags->count; i++) {
        struct import_tag *tag = &tags->list[i];
        struct import_tag *last = kept > 0 ? &tags->list[kept - 1] : NULL;
        char places[2][ROW_PLACE_BYTES];

        if (last == NULL ||
            tag_name_compare(last->name, last->name_len, tag->name, tag->name_len) != 0) {
            tags->list[kept++] = *tag;
        } else if (checking->every_number) {
            last->max_id = tag->max_id > last->max_id ? tag->max_id : last->max_id;
            last->step = tag->step > last->step ? tag->step : last->step;
        } else {
            messages_add(&tags->errors, "%s: tag '%.*s' is already in %s",
                         row_place(tag->row, places[0]), (int)tag->name_len, tag->name,
                         row_place(last->row, places[1]));
        }
    }
    tags->count = kept;
}

/* Names as MySQL may compare them: without case of ASCII, and blanks at the end. */
static int by_fold(const void *a, const void *b)
{
    const struct import_tag *one = *(struct import_tag *const *)a;
    const struct import_tag *two = *(struct import_tag *const *)b;
    size_t lens[2] = {one->name_len, two->name_len};

    while (lens[0] > 0 && one->name[lens[0] - 1] == ' ') {
        lens[0]--;
    }
    while (lens[1] > 0 && two->name[lens[1] - 1] == ' ') {
        lens[1]--;
    }
    for (size_t i = 0; i < lens[0] && i < lens[1]; i++) {
        int letters[2] = {(unsigned char)one->name[i], (unsigned char)two->name[i]};

        for (int j = 0; j < 2; j++) {
            letters[j] += letters[j] >= 'A' && letters[j] <= 'Z' ? 'a' - 'A' : 0;
        }
        if (letters[0] != letters[1]) {
            return letters[0] - letters[1];
        }
    }
    return (lens[0] > lens[1]) - (lens[0] < lens[1]);
}

static void warn_of_alike(struct checking *checking)
{
    struct import_tags *tags = checking->tags;
    struct import_tag **list = MUST_HAVE(calloc(tags->count + 1, sizeof *list));
    char place[ROW_PLACE_BYTES];

    for (size_t i = 0; i < tags->count; i++) {
        list[i] = &tags->list[i];
    }
    qsort(list, tags->count, sizeof *list, by_fold);
    for (size_t i = 1; i < tags->count; i++) {
        if (by_fold(&list[i - 1], &list[i]) == 0) {
            messages_add(&tags->warnings,
                         "%s: tags '%.*s' and '%.*s' differ only in case or spaces at the end: for "
                         "MySQL they may be one, for leafd they are two",
                         row_place(list[i]->row, place), (int)list[i - 1]->name_len,
                         list[i - 1]->name, (int)list[i]->name_len, list[i]->name);
        }
    }
    free(list);
}

/* The texts do not move any more: those that were changed get their places, in the order in which
 * they were made. */
static void place_descriptions(struct import_tags *tags)
{
    size_t at = 0;

    for (size_t i = 0; i < tags->count; i++) {
        struct import_tag *tag = &tags->list[i];

        if (tag->description == NULL) {
            tag->description = tag->description_len > 0 ? (const char *)tags->texts.data + at : "";
            at += tag->description_len;
        }
    }
}

void tags_check(const struct source *source, const struct rows *rows, bool every_number,
                struct import_tags *ret_tags)
{
    struct checking checking = {
        .source = source, .rows = rows, .tags = ret_tags, .every_number = every_number};

    *ret_tags =
        (struct import_tags){.list = MUST_HAVE(calloc(rows->count + 1, sizeof *ret_tags->list))};
    for (size_t i = 0; i < rows->count; i++) {
        check_row(&checking, &rows->list[i]);
    }
    place_descriptions(ret_tags);
    qsort(ret_tags->list, ret_tags->count, sizeof *ret_tags->list, by_name);
    merge_equal(&checking);
    warn_of_alike(&checking);
}

void tags_free(struct import_tags *tags)
{
    free(tags->list);
    buf_free(&tags->texts);
    buf_free(&tags->errors.texts);
    buf_free(&tags->warnings.texts);
    *tags = (struct import_tags){0};
}

struct import_tag *tags_find(const struct import_tags *tags, const char *name, size_t len)
{
    size_t low = 0;
    size_t high = tags->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct import_tag *tag = &tags->list[middle];
        int order = tag_name_compare(tag->name, tag->name_len, name, len);

        if (order == 0) {
            return tag;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}
