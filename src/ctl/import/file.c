/*
 * file.c - a file of rows, in any form, detected or named. See import.h.
 *
 * The happy path: detect() checks the first bytes; then the reader of the form parses the file:
 * sql_read(), separated_read() for columns between tabs or commas, json_read().
 *
 * CSV has two dialects: a quote in a field is doubled and a backslash is itself, or a backslash
 * comes before both. csv_read() detects the dialect, or refuses the file if it cannot.
 *
 * JSON rows are objects with the names of the columns as keys: in an array, one after the other
 * (lines), or wrapped as by these tools:
 *
 *   phpMyAdmin    [{"type":"header",...},{"type":"table","name":"leaf_alloc","data":[{...}]}]
 *   DBeaver       {"leaf_alloc":[{...}]}, also by the text of a query
 *   mysqlsh       {"rows":[{...}],...}
 *   Navicat       {"RECORDS":[{...}]}
 *   HeidiSQL      {"table":"leaf_alloc","rows":[{...}]}
 *
 * Its numbers are exact up to 2^63 - 1; larger ones are invalid here. Thread: one.
 */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/ctl/import/import.h"

#define HEAD_BYTES 2000 /* where a dump names its tool, and says that it is whole */

/* --- columns between tabs or commas --- */

static const struct dialect {
    char separator;
    bool quotes;    /* fields may be in double quotes */
    bool escapes;   /* a backslash makes the next byte literal; \N is NULL */
    bool null_word; /* NULL without quotes is no value */
    bool must_name; /* the first line must name the columns */
} DIALECTS[FORMS] = {
    [FORM_TSV] = {.separator = '\t', .escapes = true, .null_word = true, .must_name = true},
    [FORM_OUTFILE] = {.separator = '\t', .escapes = true},
    [FORM_CSV_DOUBLED] = {.separator = ',', .quotes = true, .null_word = true},
    [FORM_CSV_BACKSLASH] = {.separator = ',', .quotes = true, .escapes = true, .null_word = true},
};

struct field {
    struct row_value value;
    bool plain; /* without quotes, and not \N */
};

struct record {
    struct field fields[TABLE_COLUMNS_MAX];
    size_t count; /* includes those without room */
    uint32_t line;
};

/* Does a field end here? Then *ret_next is the start of the next one. */
static bool field_ends(const struct file_reading *in, size_t at, size_t *ret_next)
{
    const char *data = in->data;

    *ret_next = at;
    if (at == in->len) {
        return true;
    }
    at += data[at] == '\r' && data[at + 1] == '\n';
    *ret_next = at + 1;
    return data[at] == in->dialect->separator || data[at] == '\n';
}

/* The next field, and whether its line has more. False: a syntax error. */
static bool field_read(struct file_reading *in, struct field *ret, bool *ret_more)
{
    const char *data = in->data;
    bool escapes = in->dialect->escapes;
    size_t at = in->at;
    size_t end = at;
    size_t next;

    *ret = (struct field){.value = {.at = in->rows->text.len, .is_there = true}};
    if (escapes && data[at] == '\\' && data[at + 1] == 'N' && field_ends(in, at + 2, &next)) {
        ret->value.is_there = false;
        end = at + 2;
    } else if (in->dialect->quotes && data[at] == '"') {
        end = sql_quoted_end(data, in->len, at, '"', escapes);
        if (end == 0 || !field_ends(in, end, &next)) {
            return false;
        }
        sql_unquote(&in->rows->text, data + at + 1, end - at - 2, '"',
                    escapes ? ESCAPES_ALL : ESCAPES_NONE);
    } else {
        for (; !field_ends(in, end, &next); end++) {
            if (escapes && data[end] == '\\' && ++end == in->len) {
                return false; /* a backslash at the end */
            }
        }
        ret->plain = true;
        sql_unquote(&in->rows->text, data + at, end - at, '\0',
                    escapes ? ESCAPES_ALL : ESCAPES_NONE);
    }
    ret->value.len = in->rows->text.len - ret->value.at;
    buf_put(&in->rows->text, "", 1);
    reading_advance(in, next);
    *ret_more = data[end] == in->dialect->separator;
    return true;
}

/* The fields up to a line's end. False: a syntax error. */
static bool record_read(struct file_reading *in, struct record *record)
{
    bool more = true;

    record->line = in->line;
    for (record->count = 0; more; record->count++) {
        struct field field;

        if (!field_read(in, &field, &more)) {
            return false;
        }
        if (record->count < TABLE_COLUMNS_MAX) {
            record->fields[record->count] = field;
        }
    }
    return true;
}

static const char *field_bytes(const struct file_reading *in, const struct field *field)
{
    return field->value.len > 0 ? (const char *)in->rows->text.data + field->value.at : "";
}

/* The columns that the first line names. False: it lacks a required one. */
static bool record_take_names(struct file_reading *in, const struct record *record)
{
    in->columns = (struct columns){.count = 0};
    for (size_t i = 0; i < record->count && i < TABLE_COLUMNS_MAX; i++) {
        const char *name = field_bytes(in, &record->fields[i]);
        size_t len = record->fields[i].value.len;

        len -= len > 0 && name[len - 1] == '\r';
        name = text_trim(name, &len);
        columns_add(&in->columns, source_column(in->source, name, len));
    }
    in->least = in->columns.count;
    return columns_lack(in->source, &in->columns) == NULL;
}

static void record_add_row(struct file_reading *in, const struct record *record)
{
    bool live = in->rows->is_live; /* the first line has the names */
    struct row row = {.line = live ? 0 : record->line, .number = live ? record->line - 1 : 0};

    if (record->count < in->least || record->count > in->columns.count) {
        messages_add(&in->rows->errors, "line %u: %zu values for %zu columns",
                     (unsigned)record->line, record->count, in->columns.count);
        return;
    }
    for (size_t i = 0; i < record->count; i++) {
        const struct field *field = &record->fields[i];
        int meaning = in->columns.meaning[i];
        bool null_word = in->dialect->null_word && field->plain && field->value.len == 4 &&
                         memcmp(field_bytes(in, field), "NULL", 4) == 0;

        if (meaning != NO_COLUMN) {
            row.values[meaning] = field->value;
            /* A name is never NULL, so this is the text "NULL". */
            row.values[meaning].is_there &= !null_word || meaning == COLUMN_NAME;
        }
    }
    rows_keep(in->rows, &row);
}

/* The first line, which names no columns: they are the table's, in its order. */
static int record_begin(struct file_reading *in, const struct record *record)
{
    const struct source *source = in->source;
    BUF_LOCAL(names);

    columns_in_order(&in->columns, source);
    in->rows->guessed = true;
    for (size_t i = 0; i < in->columns.count; i++) {
        int meaning = in->columns.meaning[i];

        if (meaning != NO_COLUMN && (source->needed & COLUMN_BIT(meaning)) != 0) {
            in->least = i + 1;
        }
    }
    if (!in->dialect->must_name && !in->rows->is_live) {
        record_add_row(in, record);
        return 0;
    }
    for (int column = 0; column < COLUMNS; column++) {
        if ((source->needed & COLUMN_BIT(column)) != 0) {
            buf_printf(&names, " %s", source->columns[column]);
        }
    }
    return reading_fail(in, record->line, "a line with the names of the columns was expected:%s",
                        buf_text(&names));
}

static int separated_read(struct file_reading *in, enum form form)
{
    struct record record;
    int err = 0;

    in->dialect = &DIALECTS[form];
    while (err == 0 && in->at < in->len) {
        if (!record_read(in, &record)) {
            return reading_fail(in, in->line,
                                "a quote is not closed, or text follows a closing quote");
        }
        if (record.count == 1 && record.fields[0].plain && record.fields[0].value.len == 0) {
            continue; /* a blank line */
        }
        if (in->columns.count > 0) {
            record_add_row(in, &record);
        } else if (!record_take_names(in, &record)) {
            err = record_begin(in, &record);
        }
    }
    return err;
}

/* --- which CSV --- */

static bool rows_same(const struct rows *a, const struct rows *b)
{
    if (a->count != b->count || a->errors.count != b->errors.count ||
        a->errors.texts.len != b->errors.texts.len) {
        return false;
    }
    for (size_t i = 0; i < a->count * COLUMNS; i++) {
        const struct row_value *one = &a->list[i / COLUMNS].values[i % COLUMNS];
        const struct row_value *two = &b->list[i / COLUMNS].values[i % COLUMNS];

        if (one->is_there != two->is_there || one->len != two->len ||
            (one->len > 0 &&
             memcmp(a->text.data + one->at, b->text.data + two->at, one->len) != 0)) {
            return false;
        }
    }
    return true;
}

/* CSV of either dialect: it is parsed as both. */
static int csv_read(struct file_reading *file)
{
    const char *data = file->data;
    size_t len = file->len;
    struct rows other = {.count = 0};
    struct rows *rows = file->rows;
    BUF_LOCAL(other_why);
    struct file_reading again = *file;
    int err = separated_read(file, FORM_CSV_DOUBLED);
    int other_err;
    bool take_other = false;

    again.rows = &other;
    again.why = &other_why;
    other_err = separated_read(&again, FORM_CSV_BACKSLASH);
    if (other_err == 0 && other.errors.count == 0 && (err != 0 || !rows_same(rows, &other))) {
        bool backslash = false; /* \" or \\, or \N as a whole field */
        bool doubled = false;   /* "" within a field */

        /* Both are valid, with different texts. Syntax that only one dialect writes decides. */
        for (size_t i = 0; i + 1 < len; i++) {
            bool begins = i == 0 || data[i - 1] == ',' || data[i - 1] == '\n';
            size_t after = i + 2 + (i + 2 < len && data[i + 2] == '\r');

            backslash |=
                data[i] == '\\' && (data[i + 1] == '"' || data[i + 1] == '\\' ||
                                    (data[i + 1] == 'N' && begins &&
                                     (after >= len || data[after] == ',' || data[after] == '\n')));
            doubled |= i > 0 && i + 2 < len && data[i] == '"' && data[i + 1] == '"' &&
                       strchr(",\n\"", data[i - 1]) == NULL && strchr(",\r\n", data[i + 2]) == NULL;
        }
        take_other = err != 0 || rows->errors.count > 0 || (backslash && !doubled);
        if (!take_other && !(doubled && !backslash)) {
            buf_printf(file->why,
                       "a backslash in this CSV may be an escape or itself; say --format "
                       "csv-doubled (itself) or --format csv-backslash (an escape)");
            err = ERR_INVALID;
        }
    }
    if (take_other) {
        struct rows unused = *rows;

        *rows = other;
        other = unused;
        file->why->len = 0;
        err = 0;
    }
    rows_free(&other);
    return err;
}

/* --- JSON: one row --- */

/* Skip blanks. False: the end of the file. */
static bool json_skip_blanks(struct file_reading *file)
{
    reading_advance(file, file->at + strspn(file->data + file->at, " \t\r\n"));
    return file->at < file->len;
}

static bool json_skip_char(struct file_reading *file, char c)
{
    bool there = json_skip_blanks(file) && file->data[file->at] == c;

    file->at += there;
    return there;
}

/* Put a value into the row. False: invalid for this column; the reason is in why. */
static bool json_take_value(struct file_reading *file, const json_t *value, int column,
                            struct row *row, struct buf *why)
{
    struct row_value *to = &row->values[column];
    struct buf *text = &file->rows->text;
    bool is_number = column != COLUMN_NAME && column != COLUMN_DESCRIPTION;

    if (json_is_null(value) || (column == COLUMN_TIME && !json_is_string(value))) {
        return true;
    }
    to->at = text->len;
    if (json_is_string(value)) {
        buf_put(text, json_string_value(value), json_string_length(value));
    } else if (json_is_integer(value) && is_number) {
        buf_printf(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else {
        buf_printf(why, "%s is %s", file->source->columns[column],
                   json_is_integer(value)   ? "a number, not a string"
                   : json_is_real(value)    ? "a number with a fraction or an exponent"
                   : json_is_boolean(value) ? "true or false"
                                            : "an object or an array");
        return false;
    }
    to->is_there = true;
    to->len = text->len - to->at;
    buf_put(text, "", 1);
    return true;
}

/* An object that has a column of the table, alone or in a list of such. */
static void json_take_row(struct file_reading *file, json_t *object, uint32_t number)
{
    struct row row = {.line = file->line, .number = number};
    struct columns there = {.count = 0};
    BUF_LOCAL(why);
    const char *missing;
    const char *key;
    json_t *value;

    if (!json_is_object(object)) {
        buf_printf(&why, "a row that is not an object");
    }
    json_object_foreach(object, key, value)
    {
        int column = source_column(file->source, key, strlen(key));

        if (column == NO_COLUMN || why.len > 0) {
            continue;
        }
        if ((there.have & COLUMN_BIT(column)) != 0) {
            buf_printf(&why, "the column %s twice", file->source->columns[column]);
        } else if (json_take_value(file, value, column, &row, &why)) {
            columns_add(&there, column);
        }
    }
    missing = columns_lack(file->source, &there);
    if (why.len == 0 && missing != NULL) {
        buf_printf(&why, "without the column %s", missing);
    }
    if (why.len == 0) {
        rows_keep(file->rows, &row);
    } else {
        messages_add(&file->rows->errors, "%s: %s", ROW_PLACE(&row), buf_text(&why));
    }
}

/* --- JSON: what is around rows --- */

/* Has the object a column of the table? If not, *ret_list is the name of its only array member;
 * NULL: there is none, or more than one. */
static bool json_has_column(const struct source *source, json_t *object, const char **ret_list)
{
    size_t arrays = 0;
    const char *key;
    json_t *value;

    *ret_list = NULL;
    json_object_foreach(object, key, value)
    {
        if (json_is_array(value)) {
            *ret_list = arrays++ == 0 ? key : NULL;
        } else if (source_column(source, key, strlen(key)) != NO_COLUMN) {
            return true;
        }
    }
    return false;
}

static bool json_is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '-';
}

/* Is a text the table's name, or a query that has it? leaf_alloc_old is another table. */
static bool json_names_table(const char *text, const char *table)
{
    size_t len = strlen(table);

    ASSERT(len > 0);
    for (const char *at = text; (at = strcasestr(at, table)) != NULL; at++) {
        if ((at == text || !json_is_of_name(at[-1])) && !json_is_of_name(at[len])) {
            return true;
        }
    }
    return false;
}

/* A row, or an object around rows. phpMyAdmin's parts have a type: "table" has rows, of this table
 * or another one. */
static int json_take_object(struct file_reading *file, json_t *object)
{
    static const char *const plain[] = {"rows", "data", "RECORDS"}; /* mysqlsh, ..., Navicat */
    const char *type = json_string_value(json_object_get(object, "type"));
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *list;
    const char *of = NULL; /* the table or query of the rows; NULL: not given */
    json_t *rows;

    if (json_has_column(file->source, object, &list)) {
        json_take_row(file, object, 0);
        return 0;
    }
    if (type != NULL) {
        bool is_table = strcmp(type, "table") == 0;

        if (strcmp(type, "header") == 0 || strcmp(type, "database") == 0 ||
            (is_table && name != NULL && strcmp(name, file->table) != 0)) {
            return 0;
        }
        list = "data";
        if (!is_table || name == NULL || !json_is_array(json_object_get(object, list))) {
            return reading_fail(file, file->line,
                                "an object with a type, but no table with a name and data");
        }
        if (file->tables++ > 0) {
            return reading_fail(
                file, file->line,
                "the table of a second database: give each database a file of its own");
        }
    } else {
        list = json_is_array(json_object_get(object, "rows")) ? "rows" : list;
        of = list;
        for (size_t i = 0; list != NULL && i < COUNT_OF(plain); i++) {
            if (strcmp(list, plain[i]) == 0) {
                of = json_string_value(json_object_get(object, "table")); /* HeidiSQL */
            }
        }
    }
    if (of != NULL && !json_names_table(of, file->table)) {
        return reading_fail(file, file->line, "rows of %s, not of %s: --table says another name",
                            TEXT_SHOWN(of, strlen(of), IMPORT_SHOWN_BYTES), file->table);
    }
    rows = list != NULL ? json_object_get(object, list) : NULL;
    if (rows == NULL) {
        json_take_row(file, object, 0); /* reports its missing columns */
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_take_row(file, json_array_get(rows, i), (uint32_t)(i + 1));
    }
    return 0;
}

/* Objects, alone or in arrays. */
static int json_read(struct file_reading *file)
{
    const size_t flags = JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    bool is_open = false; /* in an array */
    int err = 0;

    while (err == 0 && (json_skip_blanks(file) || is_open)) {
        const char *from = file->data + file->at;
        json_error_t error;
        json_t *value;

        if (!is_open && json_skip_char(file, '[')) {
            is_open = !json_skip_char(file, ']');
            continue;
        }
        if (file->at == file->len) {
            return reading_fail(file, file->line, "the array is cut off");
        }
        if (*from != '{') {
            return reading_fail(file, file->line, "neither an object nor an array of objects");
        }
        value = json_loadb(from, file->len - file->at, flags, &error);
        if (value == NULL) {
            return reading_fail(file, file->line + (error.line > 0 ? (uint32_t)error.line - 1 : 0),
                                "%s",
                                TEXT_SHOWN(error.text, strlen(error.text), IMPORT_SHOWN_BYTES));
        }
        err = json_take_object(file, value);
        reading_advance(file, file->at + (size_t)error.position);
        json_decref(value);
        if (err == 0 && is_open && !json_skip_char(file, ',')) {
            is_open = false;
            if (!json_skip_char(file, ']')) {
                err = reading_fail(file, file->line,
                                   file->at < file->len ? "a comma or ] was expected"
                                                        : "the array is cut off");
            }
        }
    }
    if (err == 0 && file->rows->count == 0 && file->rows->errors.count == 0) {
        buf_printf(file->why, "no rows of a table %s", file->table);
        err = ERR_INVALID;
    }
    return err;
}

/* --- which form --- */

const char *const FORM_NAMES[FORMS] = {"unknown", "sql",         "tsv",           "outfile",
                                       "csv",     "csv-doubled", "csv-backslash", "json"};

static bool begins_sql(const char *data)
{
    static const char words[] =
        "INSERT REPLACE CREATE DROP SET USE LOCK START BEGIN DELETE TRUNCATE";
    size_t len = strcspn(data, " \t\n\v\f\r");

    return *data == '#' || strncmp(data, "--", 2) == 0 || strncmp(data, "/*", 2) == 0 ||
           (data[len] != '\0' && word_is_one_of(data, len, words));
}

static enum form detect(const struct file_reading *file)
{
    struct file_reading probe = *file;
    struct record record;
    const char *data = file->data + strspn(file->data, " \n\v\f\r");
    size_t line = strcspn(data, "\n");

    if (begins_sql(data)) {
        return FORM_SQL;
    }
    if (*data == '[' || *data == '{') {
        return FORM_JSON;
    }
    if (memchr(data, '\t', line) == NULL) {
        return memchr(data, ',', line) != NULL ? FORM_CSV : FORM_UNKNOWN;
    }
    probe.at = (size_t)(data - file->data);
    probe.dialect = &DIALECTS[FORM_TSV];
    return record_read(&probe, &record) && record_take_names(&probe, &record) ? FORM_TSV
                                                                              : FORM_OUTFILE;
}

/* Files of other programs, by their first bytes, and the form to use instead. */
static const char *other_file(const char *data, size_t len)
{
    static const struct {
        const char *begins;
        size_t len;
        const char *text;
    } others[] = {
        {"\x1f\x8b", 2, "the file is compressed by gzip: zcat FILE | leafctl import ... -"},
        {"PK\x03\x04", 4, "the file is a zip archive, or a spreadsheet: give it as CSV"},
        {"\x28\xb5\x2f\xfd", 4, "the file is compressed by zstd: zstdcat FILE | leafctl ... -"},
        {"\xfd"
         "7zXZ",
         5, "the file is compressed by xz: xzcat FILE | leafctl import ... -"},
        {"BZh", 3, "the file is compressed by bzip2: bzcat FILE | leafctl import ... -"},
        {"sep=", 4, "the file has a sep= line: give it without, separated by commas"},
    };
    size_t head = len < HEAD_BYTES ? len : HEAD_BYTES;
    size_t line = strcspn(data, "\n");

    for (size_t i = 0; i < COUNT_OF(others); i++) {
        if (len >= others[i].len && memcmp(data, others[i].begins, others[i].len) == 0) {
            return others[i].text;
        }
    }
    if (memmem(data, head, "Export to JSON plugin", 21) != NULL && *data == '/') {
        return "JSON with comments, as old phpMyAdmins write it: take away what is above the [ of "
               "the table, and what is below its ]";
    }
    if (memmem(data, head, "PostgreSQL database dump", 24) != NULL) {
        return "a dump of PostgreSQL, whose quotes and backslashes are others: give the table as "
               "CSV, by psql -c '\\copy leaf_alloc to FILE csv header'";
    }
    return memchr(data, ';', line) != NULL && memchr(data, ',', line) == NULL &&
                   memchr(data, '\t', line) == NULL && !begins_sql(data)
               ? "the columns are separated by semicolons: give them separated by commas"
               : NULL;
}

int file_read(const struct source *source, const char *table, const char *data, size_t len,
              enum form *form, struct rows *rows, struct buf *why)
{
    struct file_reading file = {
        .source = source, .table = table, .line = 1, .rows = rows, .why = why};
    const char *refused = NULL;
    size_t blanks = 0;
    bool certain;
    int err = ERR_INVALID;

    ASSERT(data[len] == '\0');
    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) {
        data += 3;
        len -= 3;
    }
    while (blanks < len && isspace((unsigned char)data[blanks])) {
        blanks++;
    }
    file.data = data;
    file.len = len;
    if (len >= 2 && (memcmp(data, "\xff\xfe", 2) == 0 || memcmp(data, "\xfe\xff", 2) == 0)) {
        refused = "the file is in UTF-16; it must be in UTF-8";
    } else if (blanks == len) {
        refused = "the file is empty";
    } else if (*form == FORM_UNKNOWN && (refused = other_file(data, len)) == NULL) {
        *form = detect(&file);
        refused = *form == FORM_UNKNOWN ? "this is neither a dump, nor JSON, nor columns separated "
                                          "by tabs or commas; see --help"
                                        : NULL;
    }
    if (refused == NULL) {
        err = *form == FORM_SQL    ? sql_read(&file)
              : *form == FORM_JSON ? json_read(&file)
              : *form == FORM_CSV  ? csv_read(&file)
                                   : separated_read(&file, *form);
    }
    /* Step and max_id are certainly not swapped if every max_id is larger than any step. */
    certain = rows->count > 0;
    for (size_t i = 0; i < rows->count && certain; i++) {
        const struct row_value *max_id = &rows->list[i].values[COLUMN_MAX_ID];

        certain = max_id->len > sizeof "1000000000" - 1 && rows->text.data[max_id->at] != '0';
    }
    if (err == 0 && !certain && rows->guessed && !source->has_order && rows->errors.count == 0) {
        buf_printf(why,
                   "nothing in the file names the columns, and a step that is taken for "
                   "max_id repeats ids: say their order, as in --columns %s",
                   source->order != NULL ? source->order : "");
        err = ERR_INVALID;
    }
    buf_printf(why, "%s", refused != NULL ? refused : "");
    return refused != NULL ? ERR_INVALID : err;
}

/* "2026-11-20 10:00:00" as Unix time, in any zone; -1: not a time. */
static int64_t time_read(const char *text)
{
    struct tm tm = {.tm_year = 0};
    bool good = sscanf(text, "%4d-%2d-%2d%*1[ T]%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                       &tm.tm_hour, &tm.tm_min, &tm.tm_sec) == 6;

    tm.tm_year -= 1900;
    tm.tm_mon--;
    return good ? (int64_t)timegm(&tm) : -1;
}

/* After "Dump completed" of mysqldump's last line; NULL: there is no such line. */
static const char *file_last_line(const char *data, size_t len)
{
    static const char last[] = "-- Dump completed";
    size_t tail = len < HEAD_BYTES ? len : HEAD_BYTES;
    const char *found = memmem(data + len - tail, tail, last, sizeof last - 1);

    return found != NULL ? found + sizeof last - 1 : NULL;
}

int64_t file_quiet_s(const struct rows *rows, const char *data, size_t len, int64_t made_s)
{
    const int64_t zones_s = 15 * 3600;
    const char *end = file_last_line(data, len);
    int64_t dumped_s = end != NULL && strncmp(end, " on ", 4) == 0 ? time_read(end + 4) : -1;
    int64_t newest_s = -1;
    int64_t apart_s;

    for (size_t i = 0; i < rows->count; i++) {
        const struct row_value *value = &rows->list[i].values[COLUMN_TIME];
        char text[24];

        if (value->is_there) {
            (void)snprintf(text, sizeof text, "%.*s", (int)value->len,
                           (const char *)rows->text.data + value->at);
            newest_s = time_read(text) > newest_s ? time_read(text) : newest_s;
        }
    }
    apart_s = (dumped_s >= 0 ? dumped_s : made_s) - newest_s;
    return newest_s < 0 || apart_s > zones_s || apart_s < -zones_s ? -1 : (apart_s + zones_s) % 900;
}

bool file_may_be_cut_off(const char *data, size_t len)
{
    size_t head = len < HEAD_BYTES ? len : HEAD_BYTES;
    bool begun = memmem(data, head, "-- MySQL dump ", 14) != NULL ||
                 memmem(data, head, "-- MariaDB dump ", 16) != NULL;

    return begun && file_last_line(data, len) == NULL;
}
