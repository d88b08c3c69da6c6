/*
 * rows.c - the known tables, their rows, and the tags made of rows: see import.h.
 *
 * The happy path of tags_check(): each row's columns are checked by the rules, the tags are sorted
 * by name, and rows of one name become one tag, or an error. Thread: one.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/limits.h"
#include "src/base/utf8.h"
#include "src/ctl/import/import.h"

/* Columns that a file or a database may have for any table. */
#define ANY_COLUMNS                                                                                \
    [COLUMN_AGE] = AGE_NAME, [COLUMN_MARK] = MARK_NAME, [COLUMN_OBJECT] = OBJECT_NAME

const struct source SOURCE_LEAF = {
    .what = "Leaf",
    .table = "leaf_alloc",
    .columns = {[COLUMN_NAME] = "biz_tag",
                [COLUMN_MAX_ID] = "max_id",
                [COLUMN_STEP] = "step",
                [COLUMN_DESCRIPTION] = "description",
                [COLUMN_TIME] = "update_time",
                ANY_COLUMNS},
    .needed = COLUMN_BIT(COLUMN_NAME) | COLUMN_BIT(COLUMN_MAX_ID) | COLUMN_BIT(COLUMN_STEP),
    .age = "TIMESTAMPDIFF(SECOND, t.update_time, NOW())",
    .order = "biz_tag,max_id,step,description,update_time",
};

const struct source SOURCE_TINYID = {
    .what = "TinyID",
    .table = "tiny_id_info",
    .columns = {[COLUMN_NAME] = "biz_type",
                [COLUMN_MAX_ID] = "max_id",
                [COLUMN_STEP] = "step",
                [COLUMN_DELTA] = "delta",
                [COLUMN_REMAINDER] = "remainder",
                [COLUMN_TIME] = "update_time",
                ANY_COLUMNS},
    .needed = COLUMN_BIT(COLUMN_NAME) | COLUMN_BIT(COLUMN_MAX_ID) | COLUMN_BIT(COLUMN_STEP) |
              COLUMN_BIT(COLUMN_DELTA) | COLUMN_BIT(COLUMN_REMAINDER),
    .is_handed_out = true,
    .age = "TIMESTAMPDIFF(SECOND, t.update_time, NOW())",
    .order = "id,biz_type,begin_id,max_id,step,delta,remainder,create_time,update_time,version",
};

const struct source SOURCE_COSID = {
    .what = "CosId",
    .table = "cosid",
    .columns = {[COLUMN_NAME] = "name", [COLUMN_MAX_ID] = "last_max_id", ANY_COLUMNS},
    .needed = COLUMN_BIT(COLUMN_NAME) | COLUMN_BIT(COLUMN_MAX_ID),
    .is_handed_out = true,
    .age = "UNIX_TIMESTAMP() - CAST(t.last_fetch_time AS SIGNED)",
    .order = "name,last_max_id,last_fetch_time",
};

const struct source SOURCE_TAGS = {
    .what = "the old system",
    .table = "",
    .columns = {[COLUMN_NAME] = "tag",
                [COLUMN_MAX_ID] = "max_id",
                [COLUMN_STEP] = "step",
                [COLUMN_DESCRIPTION] = "description",
                [COLUMN_DELTA] = "delta",
                [COLUMN_REMAINDER] = "remainder",
                ANY_COLUMNS},
    .needed = COLUMN_BIT(COLUMN_NAME) | COLUMN_BIT(COLUMN_MAX_ID),
    .order = "tag,max_id,step,description",
};

const struct source SOURCE_REDIS = {
    .what = "Redis",
    .table = "",
    .columns = {[COLUMN_NAME] = "tag", [COLUMN_MAX_ID] = "value", ANY_COLUMNS},
    .needed = COLUMN_BIT(COLUMN_NAME) | COLUMN_BIT(COLUMN_MAX_ID),
    .is_handed_out = true,
};

bool word_is_one_of(const char *text, size_t len, const char *words)
{
    bool is = false;

    for (size_t word; *words != '\0' && !is; words += word) {
        words += *words == ' ';
        word = strcspn(words, " ");
        is = word == len && strncasecmp(words, text, len) == 0;
    }
    return is;
}

int source_column(const struct source *source, const char *name, size_t len)
{
    for (int column = 0; column < COLUMNS; column++) {
        if (source->columns[column] != NULL && text_is(name, len, source->columns[column])) {
            return column;
        }
    }
    return NO_COLUMN;
}

void columns_add(struct columns *columns, int meaning)
{
    if (columns->count == TABLE_COLUMNS_MAX) {
        columns->too_many = true;
        return;
    }
    columns->meaning[columns->count++] = meaning;
    columns->have |= meaning != NO_COLUMN ? COLUMN_BIT(meaning) : 0;
}

void columns_in_order(struct columns *columns, const struct source *source)
{
    const char *name = source->order;

    *columns = (struct columns){.count = 0};
    for (size_t len; name != NULL; name = name[len] != '\0' ? name + len + 1 : NULL) {
        len = strcspn(name, ",");
        columns_add(columns, source_column(source, name, len));
    }
}

const char *columns_lack(const struct source *source, const struct columns *columns)
{
    unsigned missing = source->needed & ~columns->have;

    return missing != 0 ? source->columns[__builtin_ctz(missing)] : NULL;
}

/* --- rows --- */

void messages_add(struct messages *messages, const char *format, ...)
{
    va_list args;

    messages->count++;
    if (messages->kept == MESSAGES_KEPT) {
        return;
    }
    va_start(args, format);
    buf_vprintf(&messages->texts, format, args);
    va_end(args);
    buf_put(&messages->texts, "", 1);
    messages->kept++;
}

void rows_free(struct rows *rows)
{
    buf_free(&rows->text);
    buf_free(&rows->errors.texts);
    free(rows->list);
    *rows = (struct rows){0};
}

void rows_keep(struct rows *rows, const struct row *row)
{
    rows->list = array_room(rows->list, rows->count, &rows->capacity, sizeof *rows->list);
    rows->list[rows->count++] = *row;
}

const char *row_place(const struct row *row, char out[ROW_PLACE_BYTES])
{
    if (row->line == 0) {
        (void)snprintf(out, ROW_PLACE_BYTES, "row %u", (unsigned)row->number);
    } else if (row->number > 0) {
        (void)snprintf(out, ROW_PLACE_BYTES, "line %u, row %u", (unsigned)row->line,
                       (unsigned)row->number);
    } else {
        (void)snprintf(out, ROW_PLACE_BYTES, "line %u", (unsigned)row->line);
    }
    return out;
}

/* --- a file, while it is read --- */

int reading_fail(struct file_reading *reading, uint32_t line, const char *format, ...)
{
    va_list args;

    if (reading->why->len == 0) {
        buf_printf(reading->why, "line %u: ", (unsigned)line);
        va_start(args, format);
        buf_vprintf(reading->why, format, args);
        va_end(args);
    }
    return ERR_INVALID;
}

void reading_advance(struct file_reading *reading, size_t to)
{
    for (; reading->at < to; reading->at++) {
        reading->line += reading->data[reading->at] == '\n';
    }
}

/* --- one row becomes a tag --- */

struct tag_checking {
    const struct source *source;
    const struct rows *rows;
    struct import_tags *tags;
    const struct import_rules *rules;
    const struct row *row; /* that is checked */
    struct buf why;        /* reasons why it is not a tag */
};

/* Add a reason why the row is not a tag. */
#define ADD_WHY(checking, ...)                                                                     \
    do {                                                                                           \
        buf_printf(&(checking)->why, "%s", (checking)->why.len > 0 ? "; " : "");                   \
        buf_printf(&(checking)->why, __VA_ARGS__);                                                 \
    } while (0)

static const char *row_bytes(const struct tag_checking *checking, enum column column,
                             size_t *ret_len)
{
    const struct row_value *value = &checking->row->values[column];

    *ret_len = value->is_there ? value->len : 0;
    return *ret_len > 0 ? (const char *)checking->rows->text.data + value->at : "";
}

static void row_check_name(struct tag_checking *checking)
{
    const char *column = checking->source->columns[COLUMN_NAME];
    size_t len;
    const char *name = row_bytes(checking, COLUMN_NAME, &len);
    char shown[IMPORT_SHOWN_BYTES];
    char place[LOOKS_WHY_BYTES];

    (void)text_show(name, len, shown, sizeof shown);
    if (!text_is_utf8(name, len)) {
        ADD_WHY(checking, "%s %s is not UTF-8", column, shown);
        return;
    }
    if (len < 1 || len > LIMIT_TAG_NAME_BYTES) {
        ADD_WHY(checking, "%s %s has %zu bytes, not 1 to %d", column, shown, len,
                LIMIT_TAG_NAME_BYTES);
        return;
    }
    if (memmem(name, len, "??", 2) != NULL) {
        /* mysqldump writes these for letters that its character set lacks. */
        ADD_WHY(checking,
                "%s %s has lost its letters: dump it with --default-character-set=utf8mb4, or, if "
                "that is its name, make the tag by hand",
                column, shown);
    }
    if (looks_hidden(name, len, place)) {
        ADD_WHY(checking, "%s %s: %s; no new tag can have it: give it another name in the file",
                column, shown, place);
    }
}

/* A number in [low, high], with blanks around it and a sign, as MySQL may show it. */
static uint64_t row_check_number(struct tag_checking *checking, enum column column, uint64_t low,
                                 uint64_t high)
{
    bool is_there = checking->row->values[column].is_there;
    size_t len;
    const char *bytes = row_bytes(checking, column, &len);
    const char *digits = bytes; /* without a NUL at its end */
    const char *end = bytes + len;
    uint64_t number = 0;

    while (digits < end && (*digits == ' ' || *digits == '\t')) {
        digits++;
    }
    while (digits < end && (end[-1] == ' ' || end[-1] == '\r')) {
        end--;
    }
    digits += end - digits > 1 && *digits == '+';
    if (!is_there || text_parse_decimal(digits, (size_t)(end - digits), low, high, &number) != 0) {
        ADD_WHY(checking, "%s is %s, not a number from %" PRIu64 " to %" PRIu64,
                checking->source->columns[column],
                is_there ? TEXT_SHOWN(bytes, len, IMPORT_SHOWN_BYTES) : "NULL", low, high);
    }
    return number;
}

/* Which numbers TinyID hands out as ids. */
static void row_check_delta(struct tag_checking *checking, struct import_tag *tag)
{
    uint64_t delta = row_check_number(checking, COLUMN_DELTA, 1, INT32_MAX);
    uint64_t remainder = 0;

    if (delta <= 1 || checking->rules->every_number) {
        return;
    }
    remainder = row_check_number(checking, COLUMN_REMAINDER, 0, delta - 1);
    if (checking->rules->increment) {
        tag->increment = delta;
        tag->offset = remainder;
        return;
    }
    ADD_WHY(
        checking,
        "delta is %" PRIu64 " and remainder %" PRIu64 ": its ids are the numbers that "
        "leave %" PRIu64 " when divided by %" PRIu64 ", and leafd hands out every number. "
        "Where other databases hand out the rest, ids would repeat: --keep-increment lets the "
        "tag have these numbers alone; with the rows of all databases in one file, --every-number "
        "continues above the largest max_id",
        delta, remainder, remainder, delta);
}

/* A warning about a tag that is accepted. */
#define TAG_WARN(checking, tag, ...)                                                               \
    do {                                                                                           \
        BUF_LOCAL(text_);                                                                          \
                                                                                                   \
        buf_printf(&text_, __VA_ARGS__);                                                           \
        messages_add(&(checking)->tags->warnings, "%s: tag '%s'%s", ROW_PLACE((tag)->row),         \
                     (tag)->name, buf_text(&text_));                                               \
    } while (0)

/* The description as leafd can keep it: UTF-8, without NUL, of bounded length. */
static void tag_take_description(struct tag_checking *checking, struct import_tag *tag)
{
    char text[LIMIT_TAG_DESCRIPTION_BYTES];
    size_t len;
    const char *bytes = row_bytes(checking, COLUMN_DESCRIPTION, &len);
    size_t kept = 0;

    if (!checking->row->values[COLUMN_DESCRIPTION].is_there) {
        return;
    }
    if (len > LIMIT_TAG_DESCRIPTION_BYTES || !text_is_utf8(bytes, len) ||
        memchr(bytes, '\0', len) != NULL) {
        TAG_WARN(checking, tag, ": the description was cut to %d bytes of UTF-8 without NUL",
                 LIMIT_TAG_DESCRIPTION_BYTES);
    }
    while (len > 0) {
        uint32_t code = 0;
        size_t step = utf8_step(bytes, len, &code);
        size_t more = step == 0 ? 3 : code == 0 ? 0 : step;

        if (kept + more > sizeof text) {
            break;
        }
        memcpy(text + kept, step == 0 ? "\xef\xbf\xbd" : bytes, more);
        kept += more;
        bytes += step == 0 ? 1 : step;
        len -= step == 0 ? 1 : step;
    }
    tag->description = MUST_HAVE(json_stringn(text, kept));
}

#define AHEAD_IDS 10000000 /* by default, and at least AHEAD_STEPS segments */
#define AHEAD_STEPS 100

/* Where leafd begins. With a mark: where an earlier run put it, whatever has happened since. */
static void row_take_first(struct tag_checking *checking, struct import_tag *tag)
{
    const struct import_rules *rules = checking->rules;
    uint64_t steps = AHEAD_STEPS * tag->step;
    uint64_t more = rules->ahead_ids != 0 ? rules->ahead_ids
                    : steps > AHEAD_IDS   ? steps
                                          : AHEAD_IDS;
    uint64_t mark = checking->row->values[COLUMN_MARK].is_there
                        ? row_check_number(checking, COLUMN_MARK, 0, TAG_MAX_ID - 1)
                        : 0;
    const char *max_id = checking->source->columns[COLUMN_MAX_ID];

    tag->mark = mark;
    tag->max_id = tag->at;
    if (!rules->is_ahead) {
        return;
    }
    if (mark == 0 && more > TAG_MAX_ID - tag->at) {
        ADD_WHY(checking, "%s is %" PRIu64 ", and there is no room for %" PRIu64 " ids ahead of it",
                max_id, tag->at, more);
    } else if (mark != 0 && tag->at > mark + 1) {
        ADD_WHY(checking,
                "%s is %" PRIu64 ", above its mark %" PRIu64
                ": ids may repeat if leafd has the tag "
                "already; if it has not, remove the guard and run this again",
                max_id, tag->at, mark);
    } else {
        tag->max_id = mark != 0 ? mark + 1 : tag->at + more;
    }
}

static void row_check(struct tag_checking *checking, const struct row *row)
{
    const struct source *source = checking->source;
    struct import_tag *tag = &checking->tags->list[checking->tags->count];
    char looks[LOOKS_WHY_BYTES];
    const char *shown;
    size_t len;

    checking->row = row;
    checking->why.len = 0;
    *tag = (struct import_tag){.row = row, .age_s = -1};
    row_check_name(checking);
    tag->name = row_bytes(checking, COLUMN_NAME, &len);
    shown = row->line > 0 ? "" : TEXT_SHOWN(tag->name, len, IMPORT_SHOWN_BYTES);
    tag->object = row_bytes(checking, COLUMN_OBJECT, &len);
    tag->at = row_check_number(checking, COLUMN_MAX_ID, 0, TAG_MAX_ID);
    if ((source->needed & COLUMN_BIT(COLUMN_STEP)) != 0 || row->values[COLUMN_STEP].is_there) {
        tag->step = row_check_number(checking, COLUMN_STEP, 1, LIMIT_TAG_STEP);
    }
    if ((source->needed & COLUMN_BIT(COLUMN_DELTA)) != 0 || row->values[COLUMN_DELTA].is_there) {
        row_check_delta(checking, tag);
    }
    tag->at += source->is_handed_out && tag->at < TAG_MAX_ID ? 1 : 0;
    row_take_first(checking, tag);
    if (checking->why.len > 0) {
        /* A row of a database has no line: its name is shown. */
        messages_add(&checking->tags->errors, "%s%s%s: %s", ROW_PLACE(row),
                     row->line > 0 ? "" : ", ", shown, buf_text(&checking->why));
        return;
    }
    if (row->values[COLUMN_AGE].is_there) {
        uint64_t age_s = 0;
        const char *text = row_bytes(checking, COLUMN_AGE, &len);
        bool later = text_parse_decimal(text, len, 0, INT64_MAX, &age_s) != 0; /* than now */

        tag->age_s = later ? 0 : (int64_t)age_s;
    }
    if (source->columns[COLUMN_DESCRIPTION] != NULL) {
        tag_take_description(checking, tag);
    }
    if (tag->max_id == 0) {
        TAG_WARN(checking, tag, " has max_id 0: its first id will be 0");
    } else if (tag->max_id == TAG_MAX_ID) {
        TAG_WARN(checking, tag, " is exhausted: it has no id left");
    }
    if (looks_like_another(tag->name, strlen(tag->name), looks)) {
        TAG_WARN(checking, tag, " looks like another one: %s", looks);
    }
    checking->tags->count++;
}

/* --- tags by name --- */

static int tag_by_name(const void *a, const void *b)
{
    const struct import_tag *one = a;
    const struct import_tag *two = b;

    return strcmp(one->name, two->name);
}

/* Equal ones stay in the order of the file. */
static int tag_by_row(const void *a, const void *b)
{
    const struct import_tag *one = a;
    const struct import_tag *two = b;
    int order = tag_by_name(a, b);

    return order != 0 ? order : (one->row > two->row) - (one->row < two->row);
}

/* Rows of one name are an error; of several databases, the largest max_id counts. */
static void tags_merge_equal(struct tag_checking *checking)
{
    struct import_tags *tags = checking->tags;
    size_t kept = 0;

    for (size_t i = 0; i < tags->count; i++) {
        struct import_tag *tag = &tags->list[i];
        struct import_tag *last = kept > 0 ? &tags->list[kept - 1] : NULL;

        if (last == NULL || tag_by_name(last, tag) != 0) {
            tags->list[kept++] = *tag;
            continue;
        }
        if (checking->rules->every_number) {
            last->at = tag->at > last->at ? tag->at : last->at;
            last->max_id = tag->max_id > last->max_id ? tag->max_id : last->max_id;
            last->age_s = tag->age_s < last->age_s ? tag->age_s : last->age_s;
            last->step = tag->step > last->step ? tag->step : last->step;
        } else {
            messages_add(&tags->errors, "%s: tag '%s' is already in %s", ROW_PLACE(tag->row),
                         tag->name, ROW_PLACE(last->row));
        }
        json_decref(tag->description);
    }
    tags->count = kept;
}

/* Names as MySQL may compare them: without case of ASCII, and blanks at the end. */
static int tag_by_fold(const void *a, const void *b)
{
    const char *names[2] = {(*(struct import_tag *const *)a)->name,
                            (*(struct import_tag *const *)b)->name};
    size_t lens[2];
    int order;

    for (int i = 0; i < 2; i++) {
        for (lens[i] = strlen(names[i]); lens[i] > 0 && names[i][lens[i] - 1] == ' ';) {
            lens[i]--;
        }
    }
    order = strncasecmp(names[0], names[1], lens[0] < lens[1] ? lens[0] : lens[1]);
    return order != 0 ? order : (lens[0] > lens[1]) - (lens[0] < lens[1]);
}

void tags_check(const struct source *source, const struct rows *rows,
                const struct import_rules *rules, struct import_tags *ret_tags)
{
    struct tag_checking checking = {
        .source = source, .rows = rows, .tags = ret_tags, .rules = rules};
    struct import_tag **list = MUST_HAVE(calloc(rows->count + 1, sizeof *list));

    *ret_tags =
        (struct import_tags){.list = MUST_HAVE(calloc(rows->count + 1, sizeof *ret_tags->list))};
    for (size_t i = 0; i < rows->count; i++) {
        row_check(&checking, &rows->list[i]);
    }
    buf_free(&checking.why);
    qsort(ret_tags->list, ret_tags->count, sizeof *ret_tags->list, tag_by_row);
    tags_merge_equal(&checking);
    for (size_t i = 0; i < ret_tags->count; i++) {
        list[i] = &ret_tags->list[i];
    }
    qsort(list, ret_tags->count, sizeof *list, tag_by_fold);
    for (size_t i = 1; i < ret_tags->count; i++) {
        if (tag_by_fold(&list[i - 1], &list[i]) == 0) {
            messages_add(&ret_tags->warnings,
                         "%s: tags '%s' and '%s' differ only in case or spaces at the end: for "
                         "MySQL they may be one, for leafd they are two",
                         ROW_PLACE(list[i]->row), list[i - 1]->name, list[i]->name);
        }
    }
    free(list);
}

void tags_free(struct import_tags *tags)
{
    for (size_t i = 0; i < tags->count; i++) {
        json_decref(tags->list[i].description);
    }
    free(tags->list);
    buf_free(&tags->errors.texts);
    buf_free(&tags->warnings.texts);
    *tags = (struct import_tags){0};
}

struct import_tag *tags_find(const struct import_tags *tags, const char *name)
{
    const struct import_tag key = {.name = name};

    return bsearch(&key, tags->list, tags->count, sizeof key, tag_by_name);
}
