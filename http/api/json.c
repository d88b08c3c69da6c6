/*
 * json.c - see json.h. Thread: pure functions, any.
 */
#include "http/api/json.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/hot.h"
#include "src/base/limits.h"
#include "src/base/prng.h"
#include "src/base/utf8.h"
#include "src/id/snowflake/snowflake.h"

#define FIELD_NAME_BYTES 24 /* the longest is "expected_until_ms" */
#define KNOWN_BYTES 160     /* the names of a table, for a message */

/* Fill in a fault; returns ERR_INVALID. */
__attribute__((format(printf, 3, 4))) static int
body_fail(struct body_fault *ret_fault, const char *code, const char *format, ...)
{
    va_list args;

    ret_fault->code = code;
    va_start(args, format);
    (void)vsnprintf(ret_fault->message, sizeof ret_fault->message, format, args);
    va_end(args);
    return ERR_INVALID;
}

/* A value for a message. Returns out or static text. */
static const char *body_show(const json_t *value, char out[BODY_SHOWN_BYTES])
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return text_show(json_string_value(value), json_string_length(value), out,
                         BODY_SHOWN_BYTES);
    case JSON_INTEGER:
        (void)snprintf(out, BODY_SHOWN_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return out;
    case JSON_REAL:
        (void)snprintf(out, BODY_SHOWN_BYTES, "%.17g", json_real_value(value));
        return out;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    case JSON_ARRAY:
        return "an array";
    default:
        return "an object";
    }
}

#define BODY_SHOWN(value) body_show((value), (char[BODY_SHOWN_BYTES]){0})

static int bad_value(const struct param *field, const char *shown, struct body_fault *ret_fault)
{
    const char *code = field->code != NULL ? field->code : "bad_request";

    switch (field->kind) {
    case PARAM_WORD:
        return body_fail(ret_fault, code, "%s=%s %s", field->name, shown, field->rule);
    case PARAM_TEXT:
        return body_fail(ret_fault, code, "%s=%s is not a string", field->name, shown);
    case PARAM_NUMBER:
        return body_fail(ret_fault, code, "%s=%s is not a whole number from %llu to %llu",
                         field->name, shown, ull(field->min), ull(field->max));
    }
    UNREACHABLE("a kind of field");
}

HOT int param_take(struct param *field, const char *text, size_t len, struct body_fault *ret_fault)
{
    char room[2 * BODY_SHOWN_BYTES];
    const char *shown;
    bool good = true;

    field->present = len > 0 || !field->may_be_empty;
    field->text = text;
    field->len = len;
    if (field->present && field->kind == PARAM_NUMBER) {
        good = text_parse_decimal(text, len, field->min, field->max, &field->number) == 0;
    } else if (field->kind == PARAM_WORD) {
        good = false;
        for (uint64_t i = 0; field->words[i] != NULL && !good; i++) {
            good = strlen(field->words[i]) == len && memcmp(field->words[i], text, len) == 0;
            field->number = good ? i : field->number;
        }
    } else if (field->kind == PARAM_TEXT && field->max > 0) {
        good = len <= field->max && text_is_utf8(text, len);
    }
    if (good) {
        return 0;
    }
    shown = text_show(text, len, room, sizeof room);
    return field->kind != PARAM_TEXT
               ? bad_value(field, shown, ret_fault)
               : body_fail(ret_fault, "bad_request", "%s=%s is not UTF-8 of at most %llu bytes",
                           field->name, shown, ull(field->max));
}

/* Find the field whose value ends at `end` of the body, for numbers that the JSON library cannot
 * hold: back over the number, the colon and the quoted key. False: not found. */
static bool find_number(const char *body, size_t end, char ret_field[FIELD_NAME_BYTES],
                        const char **ret_number, size_t *ret_len)
{
    size_t at = end;
    size_t key_end;

    while (at > 0 && memchr("0123456789+-.eE", body[at - 1], 15) != NULL) {
        at--;
    }
    *ret_number = body + at;
    *ret_len = end - at;
    while (at > 0 && (isspace((unsigned char)body[at - 1]) || body[at - 1] == ':')) {
        at--;
    }
    if (*ret_len == 0 || at == 0 || body[at - 1] != '"') {
        return false;
    }
    key_end = --at;
    while (at > 0 && key_end - at < FIELD_NAME_BYTES && body[at - 1] != '"') {
        at--;
    }
    if (at == 0 || body[at - 1] != '"' || key_end - at >= FIELD_NAME_BYTES) {
        return false;
    }
    memcpy(ret_field, body + at, key_end - at);
    ret_field[key_end - at] = '\0';
    return true;
}

/* The line of a place in a text. */
static size_t body_line(const char *text, size_t at)
{
    size_t line = 1;

    for (size_t i = 0; i < at; i++) {
        line += text[i] == '\n';
    }
    return line;
}

/* Line and column, each from 1 on, of a place of the text; a column is a character of UTF-8. */
static size_t place_of_error(const char *text, size_t at, size_t *ret_column)
{
    const char *newline = at > 0 ? memrchr(text, '\n', at) : NULL;
    size_t column = 1;

    for (const char *c = newline != NULL ? newline + 1 : text; c < text + at; c++) {
        column += ((unsigned char)*c & 0xc0) != 0x80;
    }
    *ret_column = column;
    return body_line(text, at);
}

/* Set bad_json at that place of the text. Returns ERR_INVALID. */
static int body_fail_at(const char *text, size_t at, const char *why, struct body_fault *ret_fault)
{
    size_t column;
    size_t line = place_of_error(text, at, &column);

    return body_fail(ret_fault, "bad_json", "line %zu, column %zu: %s", line, column, why);
}

json_t *body_parse(const char *text, size_t from, size_t to, struct body_fault *ret_fault)
{
    size_t at = json_skip_space(text, to, from);
    char message[BODY_SHOWN_BYTES];
    char field[FIELD_NAME_BYTES];
    const char *number;
    size_t number_len;
    const char *why = NULL;
    json_error_t error;
    json_t *value;
    size_t end;
    size_t column;
    size_t line;

    if (at < to) {
        end = json_end(text, to, at, &why);
        if (end == 0) {
            (void)snprintf(message, sizeof message, "this value %s", why);
            (void)body_fail_at(text, at, message, ret_fault);
            return NULL;
        }
        end = json_skip_space(text, to, end);
        to = to - end > BODY_SHOWN_BYTES ? end + BODY_SHOWN_BYTES : to; /* enough to show it */
    }
    value = json_loadb(text + at, to - at, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (value != NULL) {
        return value;
    }
    end = error.position > 0 ? (size_t)error.position : 0;
    if (json_error_code(&error) == json_error_numeric_overflow && end <= to - at &&
        find_number(text + at, end, field, &number, &number_len)) {
        (void)body_fail(ret_fault, "bad_request", "%s=%s is out of range for every field",
                        TEXT_SHOWN(field, strlen(field), BODY_SHOWN_BYTES),
                        TEXT_SHOWN(number, number_len, BODY_SHOWN_BYTES));
        return NULL;
    }
    line = place_of_error(text, at, &column);
    (void)body_fail(ret_fault, "bad_json", "line %zu, column %zu: %s",
                    line + (size_t)error.line - 1,
                    (size_t)error.column + (error.line == 1 ? column - 1 : 0), error.text);
    return NULL;
}

static int read_field(const json_t *value, struct param *field, struct body_fault *ret_fault)
{
    bool is_number = field->kind == PARAM_NUMBER;
    const char *why = field->rule;
    double real = is_number && json_is_real(value) ? json_real_value(value) : -1;
    /* Beyond this the double need not be what was written. */
    bool is_exact = real < (double)(UINT64_C(1) << 53);
    const char *code = field->code != NULL ? field->code : "bad_request";

    field->present = true;
    if (field->read != NULL) {
        return field->read(value, field, ret_fault);
    }
    if (field->check != NULL) {
        field->text = json_string_value(value);
        field->len = json_string_length(value);
        return field->text != NULL && field->check(field->text, field->len, &why) == 0
                   ? 0
                   : body_fail(ret_fault, "bad_request", "%s=%s: %s", field->name,
                               BODY_SHOWN(value), why);
    }
    if (json_is_string(value) && (!is_number || field->takes_digits)) {
        return param_take(field, json_string_value(value), json_string_length(value), ret_fault);
    }
    if (json_is_null(value) && field->takes_null) {
        field->number = 0;
        return 0;
    }
    if (is_number && json_is_integer(value) && json_integer_value(value) >= 0) {
        field->number = (uint64_t)json_integer_value(value);
        if (field->number >= field->min && field->number <= field->max) {
            return 0;
        }
    }
    /* A fraction or an exponent, as some programs write every number. */
    if (real >= (double)field->min && real <= (double)field->max && !is_exact) {
        return body_fail(ret_fault, code,
                         "%s has a fraction or an exponent, and is not exact from 2^53 on: write "
                         "its digits alone",
                         field->name);
    }
    if (real >= (double)field->min && real <= (double)field->max &&
        (double)(uint64_t)real == real) {
        return body_fail(ret_fault, code, "%s has a fraction or an exponent: write \"%s\":%llu",
                         field->name, field->name, ull((uint64_t)real));
    }
    return bad_value(field, BODY_SHOWN(value), ret_fault);
}

int body_fields(json_t *object, const char *what, struct param *fields, size_t count,
                struct body_fault *ret_fault)
{
    char known[KNOWN_BYTES] = "";
    const char *key;
    json_t *value;
    size_t at = 0;

    if (!json_is_object(object)) {
        return body_fail(ret_fault, "bad_request", "%s is not an object of %s", BODY_SHOWN(object),
                         what);
    }
    json_object_foreach(object, key, value)
    {
        size_t i = 0;

        while (i < count && strcmp(fields[i].name, key) != 0) {
            i++;
        }
        if (i < count && read_field(value, &fields[i], ret_fault) != 0) {
            return ERR_INVALID;
        }
        if (i < count) {
            continue;
        }
        for (i = 0; i < count; i++) {
            int len =
                snprintf(known + at, sizeof known - at, "%s%s", i > 0 ? ", " : "", fields[i].name);

            ASSERT(len > 0 && (size_t)len < sizeof known - at);
            at += (size_t)len;
        }
        return body_fail(ret_fault, "bad_request", "unknown field %s; known are %s",
                         TEXT_SHOWN(key, strlen(key), BODY_SHOWN_BYTES), known);
    }
    for (size_t i = 0; i < count; i++) {
        if (fields[i].needed && !fields[i].present) {
            return body_fail(ret_fault, "bad_request", "the field \"%s\" is missing",
                             fields[i].name);
        }
    }
    return 0;
}

/* --- where a JSON value ends --- */

#define TEXT(number) TEXT_(number)
#define TEXT_(number) #number

#define JSON_SPACE " \t\n\r"

size_t json_skip_space(const char *text, size_t len, size_t at)
{
    while (at < len && text[at] != '\0' && strchr(JSON_SPACE, text[at]) != NULL) {
        at++;
    }
    return at;
}

/* After the string whose first quote is at `at`; len if it has no second one. */
static size_t string_end(const char *text, size_t len, size_t at)
{
    for (at++; at < len && text[at] != '"'; at++) {
        if (text[at] == '\\') {
            at++;
        }
    }
    return at < len ? at + 1 : len;
}

size_t json_end(const char *text, size_t len, size_t at, const char **ret_why)
{
    size_t bound = len - at > LIMIT_JSON_BYTES ? at + LIMIT_JSON_BYTES + 1 : len;
    unsigned values = 0;
    unsigned depth = 0;
    size_t end = at;

    ASSERT(at < len && json_skip_space(text, len, at) == at);
    do {
        char c = text[end];

        if (c == '"') {
            end = string_end(text, bound, end);
            continue;
        }
        end++;
        values += c == '[' || c == '{' || c == ',';
        depth += c == '[' || c == '{';
        depth -= depth > 0 && (c == ']' || c == '}');
        if (depth > LIMIT_JSON_DEPTH) {
            *ret_why = "is nested in more than " TEXT(LIMIT_JSON_DEPTH) " levels";
            return 0;
        }
        if (values > LIMIT_JSON_VALUES) {
            *ret_why = "has more than " TEXT(LIMIT_JSON_VALUES) " values";
            return 0;
        }
    } while (depth > 0 && end < bound);
    if (text[at] != '[' && text[at] != '{' && text[at] != '"') {
        /* a number, a word, or one invalid byte; a NUL ends it, too */
        while (end < bound && strchr(JSON_SPACE ",:]}[{\"", text[end]) == NULL) {
            end++;
        }
    }
    if (end > at + LIMIT_JSON_BYTES) {
        *ret_why = "is longer than " TEXT(LIMIT_JSON_BYTES) " bytes";
        return 0;
    }
    return end;
}

/* --- tags --- */

static int read_name(const json_t *value, struct param *field, struct body_fault *ret_fault)
{
    char place[LOOKS_WHY_BYTES];
    const char *why = "the name of a tag is not a string";

    field->text = json_string_value(value);
    field->len = json_string_length(value);
    if (field->text == NULL || tag_name_check(field->text, field->len, &why) != 0) {
        return body_fail(ret_fault, "bad_tag", "bad tag %s: %s", BODY_SHOWN(value),
                         looks_hidden(field->text, field->len, place) ? place : why);
    }
    return 0;
}

static int read_shape(const json_t *value, struct param *field, struct body_fault *ret_fault)
{
    const char *why = "the shape of a tag is not a string";
    const char *zone;
    struct shape shape;

    field->text = json_string_value(value);
    field->len = json_string_length(value);
    if (field->text == NULL || shape_parse(field->text, field->len, &shape, &why) != 0) {
        return body_fail(ret_fault, "bad_request", "shape=%s: %s", BODY_SHOWN(value), why);
    }
    zone = shape.date.zone;
    /* Files that are no zones of the database: this machine's own, and clocks that count leap
     * seconds, by which a date would begin half a minute late. The leader decides whether a zone
     * exists (src/service/dates.h). */
    if (strncmp(zone, "right/", strlen("right/")) == 0 ||
        strncmp(zone, "posix/", strlen("posix/")) == 0 || strcmp(zone, "localtime") == 0 ||
        strcmp(zone, "posixrules") == 0 || strcmp(zone, "Factory") == 0) {
        return body_fail(ret_fault, "bad_request",
                         "shape=%s: %s is not a zone that is the same on all machines",
                         BODY_SHOWN(value), zone);
    }
    field->number = shape.secret;
    return 0;
}

static int read_paused(const json_t *value, struct param *field, struct body_fault *ret_fault)
{
    field->number = json_is_true(value);
    return json_is_boolean(value)
               ? 0
               : body_fail(ret_fault, "bad_request", "paused=%s is neither true nor false",
                           BODY_SHOWN(value));
}

static const char *const tag_modes[] = {[TAG_MODE_TREND] = "trend",
                                        [TAG_MODE_STRICT] = "strict",
                                        [TAG_MODE_MONOTONIC] = "monotonic",
                                        NULL};

/* The bits of the fields in order (the name has none), then those of level 3. */
static const uint8_t put_bits[] = {0,
                                   TAG_FIELD_STEP,
                                   TAG_FIELD_MAX_ID,
                                   TAG_FIELD_MAX_STEP,
                                   TAG_FIELD_MODE,
                                   TAG_FIELD_DESCRIPTION,
                                   TAG_FIELD_MAX,
                                   TAG_FIELD_SHAPE,
                                   TAG_FIELD_KEY};
static const uint8_t stepped_bits[] = {TAG_FIELD_INCREMENT, TAG_FIELD_OFFSET, TAG_FIELD_COVER,
                                       TAG_FIELD_PAUSED, TAG_FIELD_REASON};

/* Read the fields of an object into put, whose name is set unless the object has it. Strings stay
 * the object's. *ret_secret: its shape needs a key. */
static int read_object(json_t *object, struct tag_put *put, bool *ret_secret,
                       struct body_fault *ret_fault)
{
    struct param fields[] = {
        {.name = "tag", .needed = true, .read = read_name},
        {.name = "step", .min = 1, .max = LIMIT_TAG_STEP},
        {.name = "max_id", .max = TAG_MAX_ID_END, .takes_digits = true},
        {.name = "max_step", .min = 1, .max = LIMIT_TAG_STEP},
        {.name = "mode",
         .kind = PARAM_WORD,
         .words = tag_modes,
         .rule = "is none of \"trend\", \"strict\" and \"monotonic\""},
        {.name = "description",
         .check = tag_description_check,
         .rule = "description is not a string"},
        {.name = "max", .min = 1, .max = TAG_MAX_ID_END, .takes_digits = true},
        {.name = "shape", .read = read_shape},
        {.name = "key", .max = SHAPE_KEYS_MAX - 1},
        {.name = "increment", .min = 1, .max = LIMIT_TAG_INCREMENT},
        {.name = "offset", .max = LIMIT_TAG_INCREMENT - 1},
        {.name = "cover_s", .max = LIMIT_TAG_COVER_S, .takes_null = true},
        {.name = "paused", .read = read_paused},
        {.name = "reason",
         .check = tag_reason_check,
         .rule = "the reason of a pause is not a string"},
    };
    size_t skip = put->name != NULL ? 1 : 0; /* then the name is no field */
    int rv =
        body_fields(object, "a tag's fields", fields + skip, COUNT_OF(fields) - skip, ret_fault);

    if (rv != 0) {
        return rv;
    }
    if (skip == 0) {
        put->name = fields[0].text;
        put->name_len = (uint16_t)fields[0].len;
    }
    for (size_t i = 1; i < COUNT_OF(put_bits); i++) {
        put->fields |= fields[i].present ? put_bits[i] : 0;
    }
    for (size_t i = 0; i < COUNT_OF(stepped_bits); i++) {
        put->step_fields |= fields[COUNT_OF(put_bits) + i].present ? stepped_bits[i] : 0;
    }
    put->step = (uint32_t)fields[1].number;
    put->max_id = fields[2].number;
    put->max_step = (uint32_t)fields[3].number;
    put->mode = (uint8_t)fields[4].number;
    put->description = fields[5].text;
    put->description_len = (uint16_t)fields[5].len;
    put->max = fields[6].number == TAG_MAX_ID_END ? 0 : fields[6].number;
    put->shape = fields[7].text;
    put->shape_len = (uint16_t)fields[7].len;
    put->key_number = (uint8_t)fields[8].number;
    put->increment = (uint32_t)fields[9].number;
    put->offset = (uint32_t)fields[10].number;
    put->cover_s = (uint32_t)fields[11].number;
    put->paused = fields[12].number != 0;
    put->reason = fields[13].text;
    put->reason_len = (uint16_t)fields[13].len;
    *ret_secret = fields[7].number != 0;
    return 0;
}

/* Append the put of an object. name: NULL: it is one of the object's fields. 0, or ERR_INVALID with
 * *ret_fault. */
static int tag_json_add(json_t *object, const char *name, size_t name_len, struct buf *command,
                        struct body_fault *ret_fault)
{
    struct tag_put put = {.name = name, .name_len = (uint16_t)name_len};
    char shape[TAG_SHAPE_BYTES_MAX];
    char key[SHAPE_KEY_BYTES];
    bool secret = false;
    int rv = read_object(object, &put, &secret, ret_fault);

    if (rv != 0) {
        return rv;
    }
    if (put.step_fields != 0 &&
        command_type(command->data, command->len) != COMMAND_TAGS_PUT_STEPPED) {
        return body_fail(ret_fault, "newer", NEEDS_LEVEL,
                         "increment, offset, cover_s and paused need",
                         command_since(COMMAND_TAGS_PUT_STEPPED));
    }
    if (secret) { /* a key is drawn, after the shape */
        memcpy(shape, put.shape, put.shape_len);
        shape[put.shape_len] = '\0';
        entropy_bytes(shape + put.shape_len + 1, SHAPE_KEY_BYTES);
        put.shape = shape;
        put.shape_len = (uint16_t)(put.shape_len + 1 + SHAPE_KEY_BYTES);
    }
    if ((put.fields & TAG_FIELD_KEY) != 0) {
        if (secret) { /* the keys before it are skipped: a new name has the same (shape.h) */
            memcpy(key, shape + put.shape_len - SHAPE_KEY_BYTES, sizeof key);
        } else {
            entropy_bytes(key, sizeof key);
        }
        put.key = key;
        put.key_len = sizeof key;
    }
    command_item_put(command, (enum command_type)command_type(command->data, command->len), &put);
    return 0;
}

int tag_json_read_one(const char *name, size_t name_len, const void *body, size_t len,
                      const struct command_list *head, struct buf *command,
                      struct body_fault *ret_fault)
{
    json_t *object = body_parse(len > 0 ? body : "{}", 0, len > 0 ? len : 2, ret_fault);
    int rv = ERR_INVALID;

    ASSERT(name_len > 0 && name_len <= LIMIT_TAG_NAME_BYTES);
    if (object != NULL) {
        command_put(command, command_type_for(COMMAND_TAGS_PUT, head), head);
        rv = tag_json_add(object, name, name_len, command, ret_fault);
    }
    json_decref(object);
    if (rv == 0) {
        command_items_end(command);
    }
    return rv;
}

bool tag_period_now(const struct shape *shape, uint64_t max_id, uint64_t bound, struct zones *zones,
                    uint64_t wall_ms, struct tag_period *ret_period)
{
    enum date_part unit = (enum date_part)shape->date.unit;
    uint64_t local_ms;
    uint64_t elapsed_ms;
    uint64_t length_ms;
    const char *zone = shape->date.zone[0] != '\0' ? shape->date.zone : "UTC";
    uint32_t now;
    uint64_t first;
    uint64_t end;

    if (shape->date.unit == DATE_NONE ||
        !zones_local_ms(zones, shape->date.zone, wall_ms, &local_ms)) {
        return false;
    }
    now = shape_period(unit, local_ms);
    shape_period_ids(shape, max_id, now, &first, &end);
    if (end + 1 >= bound) {
        return false;
    }
    ret_period->number = (uint32_t)(end / shape->numbers - 1);
    ret_period->left = first < end ? end - first : 0;
    if (ret_period->number > now) { /* by force; it may be no date of any calendar */
        (void)snprintf(ret_period->next, sizeof ret_period->next, "after %u (%s)",
                       ret_period->number, zone);
        return true;
    }
    shape_period_times(unit, local_ms, &elapsed_ms, &length_ms);
    (void)snprintf(ret_period->next, sizeof ret_period->next, "on %.10s (%s)",
                   TEXT_TIME(local_ms - elapsed_ms + length_ms), zone);
    return true;
}

/* A warning if less than a tenth is left of the ids below the max, or 2^63, or of this period's
 * ids; for a new tag also if its name looks like another one. */
static void put_warning(const struct tag_row *row, bool is_new, struct zones *zones,
                        uint64_t wall_ms, struct buf *buf)
{
    struct tag_period period;
    struct shape shape;
    char looks[LOOKS_WHY_BYTES];
    BUF_LOCAL(warning);

    if (tag_is_nearly_exhausted(row)) {
        buf_printf(&warning, "less than 10 %% of the ids below %s are left",
                   row->max > 0 ? "max" : "2^63");
    } else if (tag_is_dated(row) && tag_shape(row->shape, row->shape_len, &shape, NULL) == 0 &&
               tag_period_now(&shape, row->max_id, tag_bound(row), zones, wall_ms, &period) &&
               period.left < (shape.numbers + 9) / 10) {
        buf_printf(&warning,
                   "less than 10 %% of the numbers of %u are left; the tag counts from 1 again %s",
                   period.number, period.next);
    }
    if (is_new && looks_like_another(row->name, row->name_len, looks)) {
        buf_printf(&warning, "%sthe name looks like another one: %s", warning.len > 0 ? "; " : "",
                   looks);
    }
    if (warning.len > 0) {
        text_put_field_of(buf, ",\"warning\":", (const char *)warning.data, warning.len);
    }
}

void tag_json_put(const struct tag_row *row, bool is_new, struct zones *zones, uint64_t wall_ms,
                  struct buf *buf)
{
    text_put_field_of(buf, "{\"tag\":", row->name, row->name_len);
    buf_printf(buf, ",\"max_id\":\"%llu\",\"step\":%u,\"max_step\":%u,\"mode\":\"%s\"",
               ull(row->max_id), row->step, row->max_step, tag_mode_name(row->mode));
    if (row->max > 0) {
        buf_printf(buf, ",\"max\":\"%llu\"", ull(row->max));
    }
    if (row->increment > 0) {
        buf_printf(buf, ",\"increment\":%u,\"offset\":%u", row->increment, row->offset);
    }
    if (row->cover_s > 0) {
        buf_printf(buf, ",\"cover_s\":%u", row->cover_s);
    }
    if (row->paused) {
        text_put_field_of(buf,
                          ",\"paused\":true,\"reason\":", row->reason_len > 0 ? row->reason : "",
                          row->reason_len);
    }
    if (row->shape_len > 0) {
        text_put_field_of(buf, ",\"shape\":", row->shape,
                          tag_shape_text_len(row->shape, row->shape_len));
    }
    if (tag_is_rekeyable(row)) {
        buf_printf(buf, ",\"key\":%u", tag_key_number(row));
    }
    put_warning(row, is_new, zones, wall_ms, buf);
    if (row->mode != TAG_MODE_TREND) {
        buf_printf(buf, ",\"changing\":%s", row->recalling ? "true" : "false");
    }
    text_put_field_of(buf, ",\"description\":", row->description != NULL ? row->description : "",
                      row->description_len);
    text_put_field(buf, ",\"created\":", TEXT_TIME(row->created_ms));
    text_put_field(buf, ",\"updated\":", TEXT_TIME(row->updated_ms));
    buf_printf(buf, ",\"generation\":%u}", row->generation);
}

/* --- many tags --- */

#define STEP_DONE 1

/* Put "item N: ", "line N: " or "page N: " before a fault's message. */
static int fault_at(struct body_fault *ret_fault, const char *what, size_t number)
{
    char message[sizeof ret_fault->message];

    memcpy(message, ret_fault->message, sizeof message);
    return body_fail(ret_fault, ret_fault->code, "%s %zu: %.360s", what, number, message);
}

/* The text is no JSON; in a dump, name the page. */
static int bad_json(const struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    return bulk->pages > 0 ? fault_at(ret_fault, "page", bulk->pages) : ERR_INVALID;
}

/* Something else had to follow. */
static int expected(const struct tag_bulk *bulk, const char *what, struct body_fault *ret_fault)
{
    char why[2 * BODY_SHOWN_BYTES];
    size_t left = bulk->len - bulk->at;

    (void)snprintf(
        why, sizeof why, "%s expected near %s", what,
        left == 0 ? "end of file"
                  : TEXT_SHOWN(bulk->text + bulk->at, left < 16 ? left : 16, BODY_SHOWN_BYTES));
    (void)body_fail_at(bulk->text, bulk->at, why, ret_fault);
    return bad_json(bulk, ret_fault);
}

/* The byte after white space. '\0' at the end. */
static char peek(struct tag_bulk *bulk)
{
    bulk->at = json_skip_space(bulk->text, bulk->len, bulk->at);
    return bulk->at < bulk->len ? bulk->text[bulk->at] : '\0';
}

/* The value that begins at `at`. NULL with *ret_fault. */
static json_t *take_value(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    const char *why;
    size_t end = json_end(bulk->text, bulk->len, bulk->at, &why);
    json_t *value = body_parse(bulk->text, bulk->at, end > 0 ? end : bulk->len, ret_fault);

    if (value == NULL) {
        (void)bad_json(bulk, ret_fault);
        return NULL;
    }
    bulk->at = end;
    return value;
}

/* Count one tag more, before it is read. */
static int count_tag(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    if (++bulk->count <= LIMIT_TAGS_PER_BULK) {
        return 0;
    }
    return body_fail(ret_fault, "bad_request", "%zu tags or more in one call; the limit is %d",
                     bulk->count, LIMIT_TAGS_PER_BULK);
}

/* The tag of an object, whose reference is given up; NULL: it does not parse. */
static int bulk_add_tag(struct tag_bulk *bulk, json_t *object, struct body_fault *ret_fault)
{
    static const char *const shown[] = {"changing", "created", "updated", "generation", "warning"};
    int rv = ERR_INVALID;

    for (size_t i = 0; bulk->pages > 0 && i < COUNT_OF(shown); i++) {
        (void)json_object_del(object, shown[i]);
    }
    if (object != NULL) {
        rv = tag_json_add(object, NULL, 0, bulk->command, ret_fault);
    }
    json_decref(object);
    return rv;
}

/* An item of an array, the body's or a page's, and the comma or bracket after it. */
static int step_item(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    char next = peek(bulk);

    if (next != ']' || bulk->state != TAG_BULK_FIRST_ITEM) {
        json_t *object;

        if (bulk->at == bulk->len) {
            return expected(bulk, "']'", ret_fault);
        }
        if (count_tag(bulk, ret_fault) != 0) {
            return ERR_INVALID;
        }
        object = take_value(bulk, ret_fault);
        if (object == NULL) {
            return ERR_INVALID;
        }
        if (bulk_add_tag(bulk, object, ret_fault) != 0) {
            return fault_at(ret_fault, "item", bulk->count - 1);
        }
        next = peek(bulk);
        if (next != ',' && next != ']') {
            return expected(bulk, "']'", ret_fault);
        }
    }
    bulk->at++;
    bulk->state = next == ',' ? TAG_BULK_ITEM : TAG_BULK_BEHIND_VALUE;
    if (next == ',' || bulk->pages > 0) {
        return 0;
    }
    if (bulk->count == 0) {
        return body_fail(ret_fault, "bad_request", "the array holds no tags");
    }
    return peek(bulk) == '\0' && bulk->at == bulk->len ? STEP_DONE
                                                       : expected(bulk, "end of file", ret_fault);
}

/* --- pages of GET /api/tags --- */

enum page_member { PAGE_FAULT, PAGE_TAGS, PAGE_NEXT, PAGE_OTHER };

/* The name of a page's member, and the colon. PAGE_FAULT with *ret_fault. */
static enum page_member take_member(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    enum page_member member = PAGE_OTHER;
    const char *text;
    json_t *name;

    if (peek(bulk) != '"') {
        (void)expected(bulk, "string or '}'", ret_fault);
        return PAGE_FAULT;
    }
    name = take_value(bulk, ret_fault);
    if (name == NULL) {
        return PAGE_FAULT;
    }
    text = json_string_value(name);
    if (peek(bulk) != ':') {
        (void)expected(bulk, "':'", ret_fault);
        member = PAGE_FAULT;
    } else if (strcmp(text, "tags") == 0) {
        member = PAGE_TAGS;
    } else if (strcmp(text, "next") == 0) {
        member = PAGE_NEXT;
    }
    json_decref(name);
    if (member != PAGE_FAULT) {
        bulk->at++;
        (void)peek(bulk);
    }
    return member;
}

/* Does a page begin at `at`: an object with "tags", first or after "next"? Reads a copy of the
 * bulk. */
static bool is_at_page(struct tag_bulk bulk)
{
    struct body_fault fault;
    json_t *next;

    if (peek(&bulk) != '{') {
        return false;
    }
    bulk.at++;
    switch (take_member(&bulk, &fault)) {
    case PAGE_TAGS:
        return true;
    case PAGE_NEXT:
        break;
    case PAGE_FAULT:
    case PAGE_OTHER:
        return false;
    }
    next = bulk.at < bulk.len ? take_value(&bulk, &fault) : NULL;
    json_decref(next);
    if (next == NULL || peek(&bulk) != ',') {
        return false;
    }
    bulk.at++;
    return take_member(&bulk, &fault) == PAGE_TAGS;
}

static int step_member(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    enum page_member member = take_member(bulk, ret_fault);
    json_t *value;

    if (member == PAGE_FAULT) {
        return ERR_INVALID;
    }
    if ((member == PAGE_TAGS && bulk->has_tags) || (member == PAGE_NEXT && bulk->has_next)) {
        (void)body_fail_at(bulk->text, bulk->at, "duplicate object key", ret_fault);
        return bad_json(bulk, ret_fault);
    }
    if (member == PAGE_TAGS) {
        if (peek(bulk) != '[') {
            return body_fail(ret_fault, "bad_request", "\"tags\" is not an array");
        }
        bulk->at++;
        bulk->has_tags = true;
        bulk->state = TAG_BULK_FIRST_ITEM;
        return 0;
    }
    if (member == PAGE_NEXT) {
        if (bulk->at == bulk->len) {
            return expected(bulk, "a name or null", ret_fault);
        }
        value = take_value(bulk, ret_fault);
        if (value == NULL) {
            return ERR_INVALID;
        }
        bulk->has_next = json_is_string(value) || json_is_null(value);
        bulk->state = TAG_BULK_BEHIND_VALUE;
        json_decref(value);
        if (bulk->has_next) {
            return 0;
        }
    }
    return body_fail(ret_fault, "bad_request",
                     "an object with \"tags\" is a page of GET /api/tags, which has \"tags\" "
                     "and \"next\" (a name or null) and nothing else");
}

/* --- lines --- */

static int step_line(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    const char *newline = memchr(bulk->text + bulk->at, '\n', bulk->len - bulk->at);
    size_t end = newline != NULL ? (size_t)(newline - bulk->text) : bulk->len;

    if (json_skip_space(bulk->text, end, bulk->at) < end) { /* no blank line */
        json_t *object;
        bool parsed;

        if (count_tag(bulk, ret_fault) != 0) {
            return ERR_INVALID;
        }
        object = body_parse(bulk->text, bulk->at, end, ret_fault);
        parsed = object != NULL;
        if (bulk_add_tag(bulk, object, ret_fault) != 0) {
            /* bad_json names its line already. */
            return parsed || strcmp(ret_fault->code, "bad_json") != 0
                       ? fault_at(ret_fault, "line", body_line(bulk->text, bulk->at))
                       : ERR_INVALID;
        }
    }
    bulk->at = end + (newline != NULL);
    ASSERT(bulk->at < bulk->len || bulk->count > 0);
    return bulk->at < bulk->len ? 0 : STEP_DONE;
}

/* --- all of it --- */

static int bulk_step(struct tag_bulk *bulk, struct body_fault *ret_fault)
{
    char next = bulk->state != TAG_BULK_LINE ? peek(bulk) : '\0';
    bool is_at_end = bulk->at == bulk->len;

    switch (bulk->state) {
    case TAG_BULK_BEGIN:
        if (is_at_end) {
            return body_fail(ret_fault, "bad_json", "the body is empty; it holds no tags");
        }
        bulk->head.is_dump = next != '[' && is_at_page(*bulk);
        command_put(bulk->command, command_type_for(COMMAND_TAGS_PUT, &bulk->head), &bulk->head);
        bulk->at += next == '[';
        bulk->state = next == '['          ? TAG_BULK_FIRST_ITEM
                      : bulk->head.is_dump ? TAG_BULK_PAGE
                                           : TAG_BULK_LINE;
        return 0;
    case TAG_BULK_LINE:
        return step_line(bulk, ret_fault);
    case TAG_BULK_FIRST_ITEM:
    case TAG_BULK_ITEM:
        return step_item(bulk, ret_fault);
    case TAG_BULK_PAGE: /* or the end */
        if (is_at_end) {
            return bulk->count > 0 ? STEP_DONE
                                   : body_fail(ret_fault, "bad_request", "the pages hold no tags");
        }
        bulk->pages++;
        if (!is_at_page(*bulk)) {
            return body_fail(ret_fault, "bad_request", "page %zu is not what GET /api/tags gives",
                             bulk->pages);
        }
        bulk->at++;
        bulk->has_tags = false;
        bulk->has_next = false;
        bulk->state = TAG_BULK_MEMBER;
        return 0;
    case TAG_BULK_MEMBER:
        return step_member(bulk, ret_fault);
    case TAG_BULK_BEHIND_VALUE:
        if (next != ',' && next != '}') {
            return expected(bulk, "'}'", ret_fault);
        }
        ASSERT(next == ',' || bulk->has_tags); /* is_at_page() has seen it */
        bulk->at++;
        bulk->state = next == ',' ? TAG_BULK_MEMBER : TAG_BULK_PAGE;
        return 0;
    }
    UNREACHABLE("a state of a bulk");
}

int tag_bulk_step(struct tag_bulk *bulk, size_t bytes, bool *ret_done, struct body_fault *ret_fault)
{
    size_t from = bulk->at;
    int rv = 0;

    while (rv == 0 && bulk->at - from < bytes) {
        rv = bulk_step(bulk, ret_fault);
    }
    *ret_done = rv == STEP_DONE;
    if (*ret_done) {
        command_items_end(bulk->command);
    }
    return rv == STEP_DONE ? 0 : rv;
}

/* --- layouts of snowflake ids --- */

const char *const layout_orders[] = {[LAYOUT_SEQUENCE_LAST] = "time-worker-sequence",
                                     [LAYOUT_WORKER_LAST] = "time-sequence-worker",
                                     NULL};

void layout_row_json_put(const struct layout_row *row, bool deleted, struct buf *json)
{
    const struct named_layout *layout = &row->layout;

    buf_printf(json,
               "{\"name\":\"%s\",\"unit_ms\":%u,\"epoch_ms\":%llu,\"time_bits\":%u,"
               "\"worker_bits\":%u,\"sequence_bits\":%u,\"order\":\"%s\",\"last_ms\":%llu,"
               "\"deleted\":%s}",
               row->name, layout->unit_ms, ull(layout->bits.epoch_ms), layout->bits.time_bits,
               layout->bits.worker_bits, layout->bits.sequence_bits, layout_orders[layout->order],
               ull(named_layout_last_ms(layout)), deleted ? "true" : "false");
}

void layout_json_put(const struct snowflake *snowflake, const char *before, struct buf *json)
{
    if (snowflake == NULL || !atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        buf_printf(json, "%snull", before);
        return;
    }
    buf_printf(json,
               "%s{\"epoch_ms\":%llu,\"time_bits\":%u,\"worker_bits\":%u,\"sequence_bits\":%u}",
               before, ull(snowflake->layout.epoch_ms), snowflake->layout.time_bits,
               snowflake->layout.worker_bits, snowflake->layout.sequence_bits);
}
