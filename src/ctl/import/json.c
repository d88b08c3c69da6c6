/*
 * json.c - see json.h. Thread: one.
 */
#include "src/ctl/import/json.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"

#define SHOWN_BYTES 160

struct json_reading {
    const struct source *source;
    const char *table;
    const char *data;
    size_t len;
    size_t at;
    uint32_t line;
    struct rows *rows;
    struct buf *why;
    unsigned tables; /* of this name, in phpMyAdmin's wrapper */
};

static int give_up_json(struct json_reading *reading, const char *what)
{
    buf_printf(reading->why, "line %u: %s", (unsigned)reading->line, what);
    return ERR_INVALID;
}

/* Over blanks. False: the file is over. */
static bool json_skip_blanks(struct json_reading *reading)
{
    for (; reading->at < reading->len; reading->at++) {
        char c = reading->data[reading->at];

        if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
            return true;
        }
        reading->line += c == '\n';
    }
    return false;
}

static bool skip_char(struct json_reading *reading, char c)
{
    bool there = json_skip_blanks(reading) && reading->data[reading->at] == c;

    reading->at += there;
    return there;
}

/* --- one row --- */

/* A value into the row. False: it is none for this column; why says so. */
static bool json_take_value(struct json_reading *reading, const json_t *value, int column,
                            struct row *row, char why[SHOWN_BYTES])
{
    struct row_value *to = &row->values[column];
    struct buf *text = &reading->rows->text;
    bool is_number = column != COLUMN_NAME && column != COLUMN_DESCRIPTION;

    if (json_is_null(value)) {
        return true;
    }
    to->at = text->len;
    if (json_is_string(value)) {
        buf_put(text, json_string_value(value), json_string_length(value));
    } else if (json_is_integer(value) && is_number) {
        buf_printf(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else {
        (void)snprintf(why, SHOWN_BYTES, "%s is %s", reading->source->columns[column],
                       json_is_integer(value)   ? "a number, not a string"
                       : json_is_real(value)    ? "a number with a fraction or an exponent"
                       : json_is_boolean(value) ? "true or false"
                                                : "an object or an array");
        return false;
    }
    to->is_null = false;
    to->len = text->len - to->at;
    return true;
}

/* An object with a column of the table, or one of a list of such. */
static void take_row(struct json_reading *reading, json_t *object, uint32_t number)
{
    struct row row = rows_begin(reading->line, number);
    bool there[COLUMNS] = {false};
    char why[SHOWN_BYTES] = "";
    char place[ROW_PLACE_BYTES];
    bool good = json_is_object(object);
    const char *key;
    json_t *value;

    if (!good) {
        (void)snprintf(why, sizeof why, "a row that is no object");
    }
    json_object_foreach(object, key, value)
    {
        int column = source_column(reading->source, key, strlen(key));

        if (column == NO_COLUMN || !good) {
            continue;
        }
        if (there[column]) {
            (void)snprintf(why, sizeof why, "the column %s twice",
                           reading->source->columns[column]);
        }
        good = !there[column] && json_take_value(reading, value, column, &row, why);
        there[column] = true;
    }
    for (int column = 0; column < COLUMNS && good; column++) {
        if (reading->source->needed[column] && !there[column]) {
            (void)snprintf(why, sizeof why, "without the column %s",
                           reading->source->columns[column]);
            good = false;
        }
    }
    if (good) {
        rows_keep(reading->rows, &row);
    } else {
        messages_add(&reading->rows->errors, "%s: %s", row_place(&row, place), why);
    }
}

static void take_list(struct json_reading *reading, json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        take_row(reading, json_array_get(list, i), (uint32_t)(i + 1));
    }
}

/* --- what is around rows --- */

static bool has_column(const struct source *source, json_t *object)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        if (source_column(source, key, strlen(key)) != NO_COLUMN && !json_is_array(value)) {
            return true;
        }
    }
    return false;
}

/* The name of the only member that is an array; NULL: there is none, or another one. */
static const char *only_array(json_t *object)
{
    const char *found = NULL;
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        if (json_is_array(value) && found != NULL) {
            return NULL;
        }
        found = json_is_array(value) ? key : found;
    }
    return found;
}

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '-';
}

/* Is a text the table's name, or a query that has it? leaf_alloc_old is another table. */
static bool names_table(const char *text, const char *table)
{
    size_t len = strlen(table);

    ASSERT(len > 0);
    for (const char *at = text; (at = strcasestr(at, table)) != NULL; at++) {
        if ((at == text || !is_of_name(at[-1])) && !is_of_name(at[len])) {
            return true;
        }
    }
    return false;
}

/* phpMyAdmin's parts: {"type":"table"} has rows, of this table or another one. */
static int json_take_part(struct json_reading *reading, json_t *object, const char *type)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    json_t *data = json_object_get(object, "data");

    if (strcmp(type, "header") == 0 || strcmp(type, "database") == 0 ||
        (strcmp(type, "table") == 0 && name != NULL && strcmp(name, reading->table) != 0)) {
        return 0;
    }
    if (strcmp(type, "table") != 0 || name == NULL || !json_is_array(data)) {
        return give_up_json(reading, "an object with a type, but no table with a name and data");
    }
    if (reading->tables++ > 0) {
        return give_up_json(reading, "the table of a second database: give each database a file "
                                     "of its own");
    }
    take_list(reading, data);
    return 0;
}

/* The table or query that rows are of, as far as it is said; NULL: it is not. */
static const char *rows_of(json_t *object, const char *list)
{
    static const char *const plain[] = {"rows", "data", "RECORDS"}; /* mysqlsh, ..., Navicat */

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strcmp(list, plain[i]) == 0) {
            return json_string_value(json_object_get(object, "table")); /* HeidiSQL */
        }
    }
    return list;
}

static int take_object(struct json_reading *reading, json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    const char *list = json_is_array(json_object_get(object, "rows")) ? "rows" : only_array(object);
    const char *of = list != NULL ? rows_of(object, list) : NULL;
    char shown[SHOWN_BYTES];

    if (has_column(reading->source, object)) {
        take_row(reading, object, 0);
        return 0;
    }
    if (type != NULL) {
        return json_take_part(reading, object, type);
    }
    if (of != NULL && !names_table(of, reading->table)) {
        buf_printf(reading->why, "line %u: rows of %s, not of %s: --table says another name",
                   (unsigned)reading->line, text_show(of, strlen(of), shown, sizeof shown),
                   reading->table);
        return ERR_INVALID;
    }
    if (list != NULL) {
        take_list(reading, json_object_get(object, list));
    } else {
        take_row(reading, object, 0); /* which lacks what is needed */
    }
    return 0;
}

/* The next value: an object. */
static int next_object(struct json_reading *reading)
{
    const size_t flags = JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    const char *from = reading->data + reading->at;
    json_error_t error;
    char shown[SHOWN_BYTES];
    json_t *value;
    int rv;

    if (*from != '{') {
        return give_up_json(reading, "neither an object nor an array of objects");
    }
    value = json_loadb(from, reading->len - reading->at, flags, &error);
    if (value == NULL) {
        reading->line += error.line > 0 ? (uint32_t)error.line - 1 : 0;
        return give_up_json(reading,
                            text_show(error.text, strlen(error.text), shown, sizeof shown));
    }
    rv = take_object(reading, value);
    for (size_t i = 0; i < (size_t)error.position; i++) {
        reading->line += from[i] == '\n';
    }
    reading->at += (size_t)error.position;
    json_decref(value);
    return rv;
}

static int next_array(struct json_reading *reading)
{
    bool more = !skip_char(reading, ']');

    while (more) {
        int rv = json_skip_blanks(reading) ? next_object(reading)
                                           : give_up_json(reading, "the array is cut off");

        if (rv != 0) {
            return rv;
        }
        more = skip_char(reading, ',');
        if (!more && !skip_char(reading, ']')) {
            return give_up_json(reading, reading->at < reading->len ? "a comma or ] was expected"
                                                                    : "the array is cut off");
        }
    }
    return 0;
}

int json_read(const struct source *source, const char *table, const char *data, size_t len,
              struct rows *rows, struct buf *why)
{
    struct json_reading reading = {.source = source,
                                   .table = table,
                                   .data = data,
                                   .len = len,
                                   .line = 1,
                                   .rows = rows,
                                   .why = why};
    int rv = 0;

    while (rv == 0 && json_skip_blanks(&reading)) {
        rv = skip_char(&reading, '[') ? next_array(&reading) : next_object(&reading);
    }
    if (rv == 0 && rows->count == 0 && rows->errors.count == 0) {
        buf_printf(why, "no rows of a table %s", table);
        rv = ERR_INVALID;
    }
    return rv;
}
