/*
 * separated.c - see separated.h. Thread: one.
 */
#include "src/ctl/import/separated.h"

#include <string.h>

#include "src/ctl/import/sql_token.h"

const struct dialect DIALECT_TSV = {
    .separator = '\t', .escapes = true, .null_word = true, .must_name = true};
const struct dialect DIALECT_OUTFILE = {.separator = '\t', .escapes = true};
const struct dialect DIALECT_CSV_DOUBLED = {.separator = ',', .quotes = true, .null_word = true};
const struct dialect DIALECT_CSV_BACKSLASH = {
    .separator = ',', .quotes = true, .escapes = true, .null_word = true};

struct reading {
    const struct source *source;
    const struct dialect *dialect;
    const char *data;
    size_t len;
    size_t at;
    uint32_t line;
    struct rows *rows;
    struct columns columns; /* none: the first line was not read yet */
    size_t least;           /* of values in a line */
};

struct field {
    struct row_value value;
    bool plain; /* without quotes, and not \N */
};

struct record {
    struct field fields[TABLE_COLUMNS_MAX];
    size_t count;
    bool too_many;
    uint32_t line;
};

/* --- one field --- */

/* Does a field end here? Behind what ends it, and whether that is the separator. */
static bool separated_is_end(const struct reading *reading, size_t at, size_t *ret_next,
                             bool *ret_separated)
{
    *ret_separated = false;
    *ret_next = at;
    if (at == reading->len) {
        return true;
    }
    if (reading->data[at] == reading->dialect->separator) {
        *ret_separated = true;
        *ret_next = at + 1;
        return true;
    }
    if (reading->data[at] == '\r' && at + 1 < reading->len && reading->data[at + 1] == '\n') {
        at++;
    }
    *ret_next = at + 1;
    return reading->data[at] == '\n';
}

static size_t plain_end(const struct reading *reading, size_t at)
{
    size_t next;
    bool separated;

    while (at < reading->len && !separated_is_end(reading, at, &next, &separated)) {
        if (reading->dialect->escapes && reading->data[at] == '\\') {
            if (at + 1 == reading->len) {
                return at; /* which nothing follows: no end */
            }
            at++;
        }
        at++;
    }
    return at;
}

static void separated_put_field(struct reading *reading, size_t from, size_t to, bool quoted)
{
    struct buf *out = &reading->rows->text;

    for (; from < to; from++) {
        char c = reading->data[from];

        if (reading->dialect->escapes && c == '\\' && from + 1 < to) {
            (void)sql_escape(reading->data[++from], &c);
        } else if (quoted && c == '"') {
            from++; /* it is doubled */
        }
        buf_put(out, &c, 1);
    }
}

/* The next field. False: it cannot be taken apart. */
static bool next_field(struct reading *reading, struct field *ret, bool *ret_separated)
{
    const struct dialect *dialect = reading->dialect;
    const char *data = reading->data;
    size_t at = reading->at;
    size_t end;
    size_t next;

    *ret = (struct field){.value = {.at = reading->rows->text.len}};
    if (dialect->escapes && at + 1 < reading->len && data[at] == '\\' && data[at + 1] == 'N' &&
        separated_is_end(reading, at + 2, &next, ret_separated)) {
        ret->value.is_null = true;
    } else if (dialect->quotes && at < reading->len && data[at] == '"') {
        end = sql_quoted_end(data, reading->len, at, '"', dialect->escapes);
        if (end == 0 || !separated_is_end(reading, end, &next, ret_separated)) {
            return false;
        }
        separated_put_field(reading, at + 1, end - 1, true);
    } else {
        end = plain_end(reading, at);
        if (!separated_is_end(reading, end, &next, ret_separated)) {
            return false;
        }
        ret->plain = true;
        separated_put_field(reading, at, end, false);
    }
    ret->value.len = reading->rows->text.len - ret->value.at;
    for (; reading->at < next; reading->at++) {
        reading->line += data[reading->at] == '\n';
    }
    return true;
}

/* --- a record --- */

/* The fields up to a line's end. False: they cannot be taken apart. */
static bool next_record(struct reading *reading, struct record *record)
{
    bool separated = true;

    record->count = 0;
    record->too_many = false;
    record->line = reading->line;
    while (separated) {
        struct field field;

        if (!next_field(reading, &field, &separated)) {
            return false;
        }
        if (record->count == TABLE_COLUMNS_MAX) {
            record->too_many = true;
        } else {
            record->fields[record->count++] = field;
        }
    }
    return true;
}

static const char *separated_text_of(const struct reading *reading, const struct field *field)
{
    return field->value.len > 0 ? (const char *)reading->rows->text.data + field->value.at : "";
}

static bool is_blank_line(const struct record *record)
{
    return record->count == 1 && record->fields[0].plain && record->fields[0].value.len == 0;
}

/* The columns that the first line names. False: it names not all that are needed. */
static bool take_names(struct reading *reading, const struct record *record)
{
    struct columns *columns = &reading->columns;

    columns->count = 0;
    for (size_t i = 0; i < record->count; i++) {
        const char *name = separated_text_of(reading, &record->fields[i]);
        size_t len = record->fields[i].value.len;

        while (len > 0 &&
               (name[len - 1] == ' ' || name[len - 1] == '\t' || name[len - 1] == '\r')) {
            len--;
        }
        while (len > 0 && (*name == ' ' || *name == '\t')) {
            name++;
            len--;
        }
        columns_add(columns, source_column(reading->source, name, len));
    }
    reading->least = columns->count;
    return columns_lack(reading->source, columns) == NULL;
}

/* Those of the table, in its order. */
static void take_order(struct reading *reading)
{
    const struct columns *columns = &reading->columns;

    columns_in_order(&reading->columns, reading->source);
    reading->rows->guessed = true;
    for (size_t i = 0; i < columns->count; i++) {
        if (columns->meaning[i] != NO_COLUMN && reading->source->needed[columns->meaning[i]]) {
            reading->least = i + 1;
        }
    }
}

static void separated_add_row(struct reading *reading, const struct record *record)
{
    struct row row = rows_begin(record->line, 0);

    if (record->too_many || record->count < reading->least ||
        record->count > reading->columns.count) {
        messages_add(&reading->rows->errors, "line %u: %s%zu values for %zu columns",
                     (unsigned)record->line, record->too_many ? "more than " : "", record->count,
                     reading->columns.count);
        return;
    }
    for (size_t i = 0; i < record->count; i++) {
        const struct field *field = &record->fields[i];
        int meaning = reading->columns.meaning[i];
        bool null_word = reading->dialect->null_word && field->plain && field->value.len == 4 &&
                         memcmp(separated_text_of(reading, field), "NULL", 4) == 0;

        if (meaning != NO_COLUMN) {
            row.values[meaning] = field->value;
            /* A name is never NULL, so this is one. */
            row.values[meaning].is_null |= null_word && meaning != COLUMN_NAME;
        }
    }
    rows_keep(reading->rows, &row);
}

static int name_is_missing(const struct source *source, uint32_t line, struct buf *why)
{
    buf_printf(why, "line %u: a line with the names of the columns was expected:", (unsigned)line);
    for (int column = 0; column < COLUMNS; column++) {
        if (source->needed[column]) {
            buf_printf(why, " %s", source->columns[column]);
        }
    }
    return ERR_INVALID;
}

int separated_read(const struct source *source, const struct dialect *dialect, const char *data,
                   size_t len, struct rows *rows, struct buf *why)
{
    struct reading reading = {
        .source = source, .dialect = dialect, .data = data, .len = len, .line = 1, .rows = rows};
    struct record record;

    while (reading.at < len) {
        uint32_t line = reading.line;

        if (!next_record(&reading, &record)) {
            buf_printf(why, "line %u: a quote is not closed, or text follows a closing quote",
                       (unsigned)reading.line);
            return ERR_INVALID;
        }
        if (is_blank_line(&record)) {
            continue;
        }
        if (reading.columns.count > 0) {
            separated_add_row(&reading, &record);
        } else if (!take_names(&reading, &record)) {
            if (dialect->must_name) {
                return name_is_missing(source, line, why);
            }
            take_order(&reading);
            separated_add_row(&reading, &record);
        }
    }
    return 0;
}

/* --- which CSV --- */

static bool separated_same_value(const struct rows *a, const struct row_value *of_a,
                                 const struct rows *b, const struct row_value *of_b)
{
    return of_a->is_null == of_b->is_null && of_a->len == of_b->len &&
           (of_a->len == 0 ||
            memcmp(a->text.data + of_a->at, b->text.data + of_b->at, of_a->len) == 0);
}

static bool same_rows(const struct rows *a, const struct rows *b)
{
    if (a->count != b->count || a->errors.count != b->errors.count ||
        a->errors.texts.len != b->errors.texts.len) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        for (int column = 0; column < COLUMNS; column++) {
            if (!separated_same_value(a, &a->list[i].values[column], b,
                                      &b->list[i].values[column])) {
                return false;
            }
        }
    }
    return true;
}

/* Is there a \" or a \\, or \N as a whole field? Only the one dialect writes that. */
static bool writes_backslash(const char *data, size_t len)
{
    for (size_t i = 0; i + 1 < len; i++) {
        bool begins = i == 0 || data[i - 1] == ',' || data[i - 1] == '\n';
        size_t behind = i + 2 + (i + 2 < len && data[i + 2] == '\r');

        if (data[i] != '\\') {
            continue;
        }
        if (data[i + 1] == '"' || data[i + 1] == '\\' ||
            (data[i + 1] == 'N' && begins &&
             (behind >= len || data[behind] == ',' || data[behind] == '\n'))) {
            return true;
        }
    }
    return false;
}

/* Is there a "" within a field? Only the other one writes that. */
static bool writes_doubled(const char *data, size_t len)
{
    for (size_t i = 1; i + 2 < len; i++) {
        if (data[i] == '"' && data[i + 1] == '"' && strchr(",\n\"", data[i - 1]) == NULL &&
            strchr(",\r\n", data[i + 2]) == NULL) {
            return true;
        }
    }
    return false;
}

int csv_read(const struct source *source, const char *data, size_t len, struct rows *rows,
             struct buf *why)
{
    struct rows other = {.count = 0};
    BUF_LOCAL(other_why);
    int err = separated_read(source, &DIALECT_CSV_DOUBLED, data, len, rows, why);
    int other_err = separated_read(source, &DIALECT_CSV_BACKSLASH, data, len, &other, &other_why);
    bool bad = err != 0 || rows->errors.count > 0;
    bool other_bad = other_err != 0 || other.errors.count > 0;
    bool take_other = false;

    if (!other_bad && (err != 0 || !same_rows(rows, &other))) {
        bool backslash = writes_backslash(data, len);
        bool doubled = writes_doubled(data, len);

        /* Both make sense, with different texts. What only one of them writes tells. */
        take_other = bad || (backslash && !doubled);
        if (!take_other && !(doubled && !backslash)) {
            buf_printf(why, "a backslash in this CSV may be an escape or itself; say --format "
                            "csv-doubled (itself) or --format csv-backslash (an escape)");
            err = ERR_INVALID;
        }
    }
    if (take_other) {
        struct rows unused = *rows;

        *rows = other;
        other = unused;
        why->len = 0;
        err = 0;
    }
    rows_free(&other);
    return err;
}
