/*
 * file.c - see file.h. Thread: one.
 */
#include "src/ctl/import/file.h"

#include <string.h>
#include <strings.h>

#include "src/base/assert.h"
#include "src/ctl/import/separated.h"
#include "src/ctl/import/sql.h"

#define HEAD_BYTES 2000 /* where a dump says what made it, and that it is whole */

static const char *const NAMES[FORMS] = {"unknown", "sql",         "tsv",          "outfile",
                                         "csv",     "csv-doubled", "csv-backslash"};

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

static bool is_blank(char c)
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

        if (len > word && strncasecmp(data, words[i], word) == 0 && is_blank(data[word])) {
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

    while (len > 0 && is_blank(line[len - 1])) {
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

    while (len > 0 && is_blank(*data) && *data != '\t') {
        data++;
        len--;
    }
    if (begins_sql(data, len)) {
        return FORM_SQL;
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
        if (!is_blank(data[i])) {
            return false;
        }
    }
    return true;
}

static int refuse(struct buf *why, const char *text)
{
    buf_printf(why, "%s", text);
    return ERR_INVALID;
}

int file_read(const struct source *source, const char *table, const char *data, size_t len,
              enum form *form, struct rows *rows, struct buf *why)
{
    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) {
        data += 3;
        len -= 3;
    }
    if (len >= 2 && (memcmp(data, "\xff\xfe", 2) == 0 || memcmp(data, "\xfe\xff", 2) == 0)) {
        return refuse(why, "the file is in UTF-16; it must be in UTF-8");
    }
    if (is_empty(data, len)) {
        return refuse(why, "the file is empty");
    }
    *form = *form == FORM_UNKNOWN ? detect(source, data, len) : *form;
    switch (*form) {
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
    case FORM_UNKNOWN:
    case FORMS:
        break;
    }
    return refuse(why,
                  "this is neither a dump, nor columns separated by tabs or commas; see --help");
}

bool file_may_be_cut_off(const char *data, size_t len)
{
    size_t head = len < HEAD_BYTES ? len : HEAD_BYTES;
    static const char last[] = "-- Dump completed";
    bool begun = memmem(data, head, "-- MySQL dump ", 14) != NULL ||
                 memmem(data, head, "-- MariaDB dump ", 16) != NULL;

    return begun && memmem(data + len - head, head, last, sizeof last - 1) == NULL;
}
