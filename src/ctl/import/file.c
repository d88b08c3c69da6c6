/*
 * file.c - see file.h. Thread: one.
 */
#include "src/ctl/import/file.h"

#include <string.h>
#include <strings.h>

#include "src/base/assert.h"
#include "src/ctl/import/json.h"
#include "src/ctl/import/separated.h"
#include "src/ctl/import/sql.h"

#define HEAD_BYTES 2000 /* where a dump says what made it, and that it is whole */

static const char *const NAMES[FORMS] = {"unknown", "sql",         "tsv",           "outfile",
                                         "csv",     "csv-doubled", "csv-backslash", "json"};

const char *form_name(enum form form)
{
    ASSERT(form < FORMS);
    return NAMES[form];
}

enum form form_of_name(const char *name)
{
    unsigned form = FORM_SQL;

    while (form < FORMS && strcmp(NAMES[form], name) != 0) {
        form++;
    }
    return (enum form)form;
}

static bool import_file_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool begins_sql(const char *data, size_t len)
{
    static const char *const words[] = {"INSERT", "REPLACE", "CREATE", "DROP",   "SET",     "USE",
                                        "LOCK",   "START",   "BEGIN",  "DELETE", "TRUNCATE"};

    if (len > 0 &&
        (*data == '#' || (len > 1 && (memcmp(data, "--", 2) == 0 || memcmp(data, "/*", 2) == 0)))) {
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t word = strlen(words[i]);

        if (len > word && strncasecmp(data, words[i], word) == 0 &&
            import_file_is_blank(data[word])) {
            return true;
        }
    }
    return false;
}

/* Does a line of names between tabs have all that are needed? */
static bool names_columns(const struct source *source, const char *line, size_t len)
{
    bool there[COLUMNS] = {false};
    bool all = true;

    while (len > 0 && import_file_is_blank(line[len - 1])) {
        len--;
    }
    for (size_t at = 0; at <= len;) {
        const char *end = memchr(line + at, '\t', len - at);
        size_t part = end != NULL ? (size_t)(end - line) - at : len - at;
        int column = source_column(source, line + at, part);

        if (column != NO_COLUMN) {
            there[column] = true;
        }
        at += part + 1;
    }
    for (int column = 0; column < COLUMNS; column++) {
        all &= there[column] || !source->needed[column];
    }
    return all;
}

static enum form detect(const struct source *source, const char *data, size_t len)
{
    const char *end;
    size_t line;

    while (len > 0 && import_file_is_blank(*data) && *data != '\t') {
        data++;
        len--;
    }
    if (begins_sql(data, len)) {
        return FORM_SQL;
    }
    if (len > 0 && (*data == '[' || *data == '{')) {
        return FORM_JSON;
    }
    end = memchr(data, '\n', len);
    line = end != NULL ? (size_t)(end - data) : len;
    if (memchr(data, '\t', line) != NULL) {
        return names_columns(source, data, line) ? FORM_TSV : FORM_OUTFILE;
    }
    return memchr(data, ',', line) != NULL ? FORM_CSV : FORM_UNKNOWN;
}

static bool is_empty(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!import_file_is_blank(data[i])) {
            return false;
        }
    }
    return true;
}

static int import_file_refuse(struct buf *why, const char *text)
{
    buf_printf(why, "%s", text);
    return ERR_INVALID;
}

/* Other programs' files, by what they begin with, and what to give instead. */
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
    const char *end = memchr(data, '\n', len);
    size_t line = end != NULL ? (size_t)(end - data) : len;

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (len >= others[i].len && memcmp(data, others[i].begins, others[i].len) == 0) {
            return others[i].text;
        }
    }
    if (memmem(data, head, "Export to JSON plugin", 21) != NULL && *data == '/') {
        return "JSON with comments, as old phpMyAdmins write it: take away what is above the [ of "
               "the table, and what is behind its ]";
    }
    if (memmem(data, head, "PostgreSQL database dump", 24) != NULL) {
        return "a dump of PostgreSQL, whose quotes and backslashes are others: give the table as "
               "CSV, by psql -c '\\copy leaf_alloc to FILE csv header'";
    }
    return memchr(data, ';', line) != NULL && memchr(data, ',', line) == NULL &&
                   memchr(data, '\t', line) == NULL && !begins_sql(data, len)
               ? "the columns are separated by semicolons: give them separated by commas"
               : NULL;
}

/* May the step have been taken for the max_id? Not where every max_id is larger than any step. */
static bool order_is_certain(const struct source *source, const struct rows *rows)
{
    bool certain = rows->count > 0;

    for (size_t i = 0; i < rows->count; i++) {
        const struct row_value *max_id = &rows->list[i].values[COLUMN_MAX_ID];

        certain &= max_id->len > sizeof "1000000000" - 1 && rows->text.data[max_id->at] != '0';
    }
    return certain || !rows->guessed || source->has_order || rows->errors.count > 0;
}

static int import_file_read_form(const struct source *source, const char *table, const char *data,
                                 size_t len, enum form form, struct rows *rows, struct buf *why)
{
    switch (form) {
    case FORM_SQL:
        return sql_read(source, table, data, len, rows, why);
    case FORM_TSV:
        return separated_read(source, &DIALECT_TSV, data, len, rows, why);
    case FORM_OUTFILE:
        return separated_read(source, &DIALECT_OUTFILE, data, len, rows, why);
    case FORM_CSV:
        return csv_read(source, data, len, rows, why);
    case FORM_CSV_DOUBLED:
        return separated_read(source, &DIALECT_CSV_DOUBLED, data, len, rows, why);
    case FORM_CSV_BACKSLASH:
        return separated_read(source, &DIALECT_CSV_BACKSLASH, data, len, rows, why);
    case FORM_JSON:
        return json_read(source, table, data, len, rows, why);
    case FORM_UNKNOWN:
    case FORMS:
        break;
    }
    return import_file_refuse(
        why,
        "this is neither a dump, nor JSON, nor columns separated by tabs or commas; see --help");
}

int file_read(const struct source *source, const char *table, const char *data, size_t len,
              enum form *form, struct rows *rows, struct buf *why)
{
    const char *other;
    int err;

    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) {
        data += 3;
        len -= 3;
    }
    if (len >= 2 && (memcmp(data, "\xff\xfe", 2) == 0 || memcmp(data, "\xfe\xff", 2) == 0)) {
        return import_file_refuse(why, "the file is in UTF-16; it must be in UTF-8");
    }
    if (is_empty(data, len)) {
        return import_file_refuse(why, "the file is empty");
    }
    other = *form == FORM_UNKNOWN ? other_file(data, len) : NULL;
    if (other != NULL) {
        return import_file_refuse(why, other);
    }
    *form = *form == FORM_UNKNOWN ? detect(source, data, len) : *form;
    err = import_file_read_form(source, table, data, len, *form, rows, why);
    if (err == 0 && !order_is_certain(source, rows)) {
        return import_file_refuse(
            why, "nothing in the file names the columns, and a step that is taken for "
                 "max_id repeats ids: say their order, as in --columns "
                 "biz_tag,max_id,step,description,update_time");
    }
    return err;
}

bool file_may_be_cut_off(const char *data, size_t len)
{
    size_t head = len < HEAD_BYTES ? len : HEAD_BYTES;
    static const char last[] = "-- Dump completed";
    bool begun = memmem(data, head, "-- MySQL dump ", 14) != NULL ||
                 memmem(data, head, "-- MariaDB dump ", 16) != NULL;

    return begun && memmem(data + len - head, head, last, sizeof last - 1) == NULL;
}
