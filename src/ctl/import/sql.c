/*
 * sql.c - see sql.h. Thread: one.
 */
#include "src/ctl/import/sql.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "http/proto/text.h"
#include "src/ctl/import/sql_token.h"

#define TABLES_TOLD_BYTES 200

struct reading {
    const struct source *source;
    const char *table;
    struct sql_text text;
    struct columns columns; /* of INSERTs that name none */
    bool has_created;       /* by its CREATE TABLE */
    struct buf database;    /* of the last USE */
    struct buf rows_of;     /* the one whose rows were read */
    struct rows *rows;
    struct buf *why;   /* not empty: the file makes no sense */
    struct buf tables; /* with rows, but not the one that is wanted */
};

/* A value, while it is read. */
struct value {
    struct row_value bytes;
    const char *wrong; /* why it is none; NULL: it is one */
    char shown[48];    /* what the reason is about, or empty */
};

static void sql_give_up(struct reading *reading, uint32_t line, const char *text)
{
    if (reading->why->len == 0) {
        buf_printf(reading->why, "line %u: %s", (unsigned)line, text);
    }
}

static struct token next(struct reading *reading)
{
    struct token token = sql_next(&reading->text);

    if (token.kind == TOKEN_BROKEN) {
        if (reading->why->len == 0) {
            buf_printf(reading->why,
                       "line %u: what %.*s opens is never closed; is the file cut off?",
                       (unsigned)token.line, (int)token.len, token.text);
        }
        reading->text.at = reading->text.len;
        token.kind = TOKEN_END;
    }
    return token;
}

/* words end with NULL. */
static bool is_one_of(const struct token *token, const char *const *words)
{
    while (*words != NULL && !token_is_word(token, *words)) {
        words++;
    }
    return *words != NULL;
}

static void skip_statement(struct reading *reading, struct token token)
{
    while (token.kind != TOKEN_END && !token_is_char(&token, ';')) {
        token = next(reading);
    }
}

/* --- columns --- */

static int sql_meaning_of(const struct reading *reading, const struct token *token)
{
    BUF_LOCAL(name);

    token_name(token, &name);
    return source_column(reading->source, name.len > 0 ? (char *)name.data : "", name.len);
}

/* [database.]table: the token behind it. */
static struct token read_table(struct reading *reading, struct token token, struct buf *name)
{
    token_name(&token, name);
    token = next(reading);
    while (token_is_char(&token, '.')) {
        token = next(reading);
        reading->database.len = 0;
        buf_put(&reading->database, name->data, name->len);
        name->len = 0;
        if (token.kind != TOKEN_END) {
            token_name(&token, name);
        }
        token = next(reading);
    }
    return token;
}

static bool sql_is_wanted(const struct reading *reading, const struct buf *name)
{
    return name->len == strlen(reading->table) && name->len > 0 &&
           strncasecmp((char *)name->data, reading->table, name->len) == 0;
}

/* --- CREATE TABLE: the order of the columns --- */

/* Between the parentheses of CREATE TABLE. */
static struct token read_definitions(struct reading *reading, struct columns *columns)
{
    static const char *const keys[] = {"primary",    "key",      "unique",  "index",
                                       "constraint", "fulltext", "spatial", "check",
                                       "foreign",    "period",   NULL};
    struct token token = next(reading);
    bool first = true; /* of a column, or a key */

    for (int depth = 1; token.kind != TOKEN_END; token = next(reading)) {
        if (first && depth == 1 &&
            (token.kind == TOKEN_NAME || (token.kind == TOKEN_WORD && !is_one_of(&token, keys)))) {
            columns_add(columns, sql_meaning_of(reading, &token));
        }
        depth += token_is_char(&token, '(') - token_is_char(&token, ')');
        first = depth == 1 && token_is_char(&token, ',');
        if (depth == 0) {
            break;
        }
    }
    return token;
}

static void read_create(struct reading *reading)
{
    static const char *const words[] = {"IF", "NOT", "EXISTS", NULL};
    struct token token = next(reading);
    BUF_LOCAL(name);

    if (!token_is_word(&token, "TABLE")) {
        skip_statement(reading, token);
        return;
    }
    do {
        token = next(reading);
    } while (is_one_of(&token, words));
    if (token.kind != TOKEN_END) {
        token = read_table(reading, token, &name);
    }
    if (sql_is_wanted(reading, &name) && token_is_char(&token, '(')) {
        struct columns columns = {.count = 0};
        const char *missing;

        token = read_definitions(reading, &columns);
        missing = columns_lack(reading->source, &columns);
        if (missing != NULL || columns.too_many) {
            sql_give_up(reading, token.line,
                        columns.too_many ? "the table has more than 64 columns"
                                         : "the table lacks a column that is needed");
            if (missing != NULL) {
                buf_printf(reading->why, ": no column %s", missing);
            }
        }
        reading->columns = columns;
        reading->has_created = true;
    }
    skip_statement(reading, token);
}

/* --- values --- */

static void put_latin1(struct buf *out, const uint8_t *bytes, size_t len)
{
    /* What Windows-1252, which MySQL calls latin1, has at 0x80 to 0x9f; 0: nothing. */
    static const uint16_t high[32] = {
        0x20ac, 0,      0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
        0x2039, 0x0152, 0,      0x017d, 0,      0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
        0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0,      0x017e, 0x0178};

    for (size_t i = 0; i < len; i++) {
        uint32_t code = bytes[i];

        if (code >= 0x80 && code < 0xa0) {
            code = high[code - 0x80] != 0 ? high[code - 0x80] : 0xfffd;
        }
        if (code < 0x80) {
            buf_put_u8(out, (uint8_t)code);
        } else if (code < 0x800) {
            buf_put_u8(out, (uint8_t)(0xc0 | code >> 6));
            buf_put_u8(out, (uint8_t)(0x80 | (code & 0x3f)));
        } else {
            buf_put_u8(out, (uint8_t)(0xe0 | code >> 12));
            buf_put_u8(out, (uint8_t)(0x80 | (code >> 6 & 0x3f)));
            buf_put_u8(out, (uint8_t)(0x80 | (code & 0x3f)));
        }
    }
}

/* False: not hexadecimal. */
static bool sql_put_hex(struct buf *out, const char *text, size_t len)
{
    if (len % 2 != 0) {
        return false;
    }
    for (size_t i = 0; i < len; i += 2) {
        int high = text_hex_digit(text[i]);
        int low = text_hex_digit(text[i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        buf_put_u8(out, (uint8_t)(high << 4 | low));
    }
    return true;
}

enum charset { CHARSET_UTF8, CHARSET_LATIN1, CHARSET_OTHER };

static enum charset charset_of(const char *name, size_t len)
{
    static const char *const utf8[] = {"binary", "utf8", "utf8mb3", "utf8mb4", "ascii"};

    for (size_t i = 0; i < sizeof utf8 / sizeof utf8[0]; i++) {
        if (strlen(utf8[i]) == len && strncasecmp(utf8[i], name, len) == 0) {
            return CHARSET_UTF8;
        }
    }
    return len == 6 && strncasecmp("latin1", name, len) == 0 ? CHARSET_LATIN1 : CHARSET_OTHER;
}

static void set_wrong(struct value *value, const char *why, const char *text, size_t len)
{
    value->wrong = why;
    if (len > 0) {
        (void)text_show(text, len, value->shown, sizeof value->shown);
    }
}

/* The bytes of a literal, behind what may stand before it: _utf8mb4, n, x. */
static void put_literal(struct reading *reading, const struct token *token,
                        const struct token *before, struct value *value)
{
    struct buf *out = &reading->rows->text;
    bool hex = before != NULL && token_is_word(before, "x");
    bool named = before != NULL && before->text[0] == '_';
    enum charset charset = named ? charset_of(before->text + 1, before->len - 1) : CHARSET_UTF8;
    BUF_LOCAL(bytes);

    value->bytes = (struct row_value){.at = out->len};
    if (charset == CHARSET_OTHER) {
        set_wrong(value, "in this character set, not utf8mb4, latin1 or binary:", before->text,
                  before->len);
    } else if (token->kind == TOKEN_STRING) {
        token_string(token, &bytes);
    } else if (token->kind == TOKEN_NUMBER) {
        buf_put(&bytes, token->text, token->len);
        hex |= token->len > 2 && (token->text[1] | 0x20) == 'x';
    } else if (before == NULL && token_is_word(token, "NULL")) {
        value->bytes.is_null = true;
    } else {
        set_wrong(value, "no literal value:", token->text, token->len);
    }
    if (value->wrong == NULL && hex) {
        size_t prefix = token->kind == TOKEN_NUMBER ? 2 : 0;
        const char *digits = bytes.len > 0 ? (const char *)bytes.data : ""; /* of x'' */

        if (bytes.len < prefix || !sql_put_hex(out, digits + prefix, bytes.len - prefix)) {
            set_wrong(value, "not hexadecimal:", token->text, token->len);
        }
    } else if (value->wrong == NULL && charset == CHARSET_LATIN1) {
        put_latin1(out, bytes.data, bytes.len);
    } else if (value->wrong == NULL) {
        buf_put(out, bytes.data, bytes.len);
    }
    value->bytes.len = out->len - value->bytes.at;
}

static bool is_introducer(const struct token *token)
{
    return token->kind == TOKEN_WORD &&
           (token->text[0] == '_' || token_is_word(token, "n") || token_is_word(token, "x"));
}

/* One value: the token behind it. What follows up to the comma belongs to an expression, as in
 * current_timestamp(). */
static struct token read_value(struct reading *reading, struct value *value)
{
    struct token token = next(reading);
    struct token before = token;
    bool introduced = is_introducer(&token);
    int depth;

    *value = (struct value){.wrong = NULL};
    token = introduced ? next(reading) : token;
    if (token.kind == TOKEN_END) {
        return token;
    }
    if (token_is_char(&token, ',') || token_is_char(&token, ')')) {
        value->bytes.is_null = true;
        set_wrong(value, "a value is missing", "", 0);
        return token;
    }
    put_literal(reading, &token, introduced ? &before : NULL, value);
    depth = token_is_char(&token, '(');
    for (token = next(reading); token.kind != TOKEN_END; token = next(reading)) {
        if (depth == 0 && (token_is_char(&token, ',') || token_is_char(&token, ')'))) {
            break;
        }
        depth += token_is_char(&token, '(') - token_is_char(&token, ')');
        if (value->wrong == NULL) {
            set_wrong(value, "an expression, not a literal value, from here on:", token.text,
                      token.len);
        }
    }
    return token;
}

/* --- INSERT --- */

/* One (value, ...) behind its opening parenthesis. False: the file is cut off. */
static bool read_row(struct reading *reading, const struct columns *columns, struct row *row)
{
    struct messages *errors = &reading->rows->errors;
    size_t before = errors->count;
    size_t count = 0;
    struct token token;
    char place[ROW_PLACE_BYTES];

    do {
        struct value value;
        int meaning = count < columns->count ? columns->meaning[count] : NO_COLUMN;

        token = read_value(reading, &value);
        if (token.kind == TOKEN_END) {
            sql_give_up(reading, row->line, "this row does not end: the file is cut off");
            return false;
        }
        count++;
        if (meaning != NO_COLUMN && value.wrong != NULL && errors->count == before) {
            messages_add(errors, "%s: %s: %s%s%s", row_place(row, place),
                         reading->source->columns[meaning], value.wrong,
                         value.shown[0] != '\0' ? " " : "", value.shown);
        }
        if (meaning != NO_COLUMN) {
            row->values[meaning] = value.bytes;
        }
    } while (!token_is_char(&token, ')'));
    if (errors->count == before && count != columns->count) {
        messages_add(errors, "%s: %zu values for %zu columns", row_place(row, place), count,
                     columns->count);
    }
    if (errors->count == before) {
        rows_keep(reading->rows, row);
    }
    return true;
}

/* (column, ...) behind its opening parenthesis. */
static void read_names(struct reading *reading, struct columns *columns)
{
    struct token token = next(reading);

    for (; token.kind != TOKEN_END && !token_is_char(&token, ')'); token = next(reading)) {
        if (token.kind == TOKEN_WORD || token.kind == TOKEN_NAME) {
            columns_add(columns, sql_meaning_of(reading, &token));
        }
    }
}

static void read_rows(struct reading *reading, const struct columns *columns)
{
    struct token token = next(reading);
    uint32_t number = 0;

    while (token_is_char(&token, '(')) {
        struct row row = rows_begin(token.line, ++number);

        if (!read_row(reading, columns, &row)) {
            return;
        }
        token = next(reading);
        if (token_is_char(&token, ',')) {
            token = next(reading);
        }
    }
    if (token.kind == TOKEN_END) {
        sql_give_up(reading, token.line,
                    "the last INSERT has no ';' at its end: the file is cut off");
    }
    skip_statement(reading, token);
}

static void read_wanted(struct reading *reading, struct token token)
{
    struct columns columns = reading->columns;
    const char *missing;

    if (token_is_char(&token, '(')) {
        columns = (struct columns){.count = 0};
        read_names(reading, &columns);
        token = next(reading);
    } else if (!reading->has_created) {
        reading->rows->guessed = true;
    }
    missing = columns_lack(reading->source, &columns);
    if (missing != NULL || columns.too_many ||
        !(token_is_word(&token, "VALUES") || token_is_word(&token, "VALUE"))) {
        messages_add(&reading->rows->errors, "line %u: an INSERT %s%s", (unsigned)token.line,
                     missing != NULL    ? "without the column "
                     : columns.too_many ? "of more than 64 columns"
                                        : "without VALUES",
                     missing != NULL ? missing : "");
        skip_statement(reading, token);
        return;
    }
    read_rows(reading, &columns);
}

/* Were rows read of another database than the one in use? Their tags would be taken for one. */
static bool is_other_database(struct reading *reading)
{
    const struct buf *now = &reading->database;
    struct buf *before = &reading->rows_of;

    if (reading->rows->count == 0) {
        before->len = 0;
        buf_put(before, now->data, now->len);
    }
    return before->len != now->len ||
           (now->len > 0 && memcmp(before->data, now->data, now->len) != 0);
}

static void read_use(struct reading *reading)
{
    struct token token = next(reading);

    reading->database.len = 0;
    if (token.kind != TOKEN_END) {
        token_name(&token, &reading->database);
    }
    skip_statement(reading, token);
}

static void read_insert(struct reading *reading)
{
    static const char *const words[] = {"INTO",          "IGNORE",  "LOW_PRIORITY",
                                        "HIGH_PRIORITY", "DELAYED", NULL};
    struct token token = next(reading);
    BUF_LOCAL(name);

    while (is_one_of(&token, words)) {
        token = next(reading);
    }
    if (token.kind == TOKEN_STRING) {
        sql_give_up(
            reading, token.line,
            "a name in double quotes: dump it without ANSI_QUOTES (mysqldump --skip-ansi), or "
            "give the table as CSV with a line of names");
        return;
    }
    if (token.kind != TOKEN_END) {
        token = read_table(reading, token, &name);
    }
    if (sql_is_wanted(reading, &name) && is_other_database(reading)) {
        sql_give_up(reading, token.line,
                    "the table of a second database: give each database a file of its own");
    } else if (sql_is_wanted(reading, &name)) {
        read_wanted(reading, token);
    } else {
        if (name.len > 0 && reading->tables.len < TABLES_TOLD_BYTES &&
            (reading->tables.len == 0 ||
             memmem(reading->tables.data, reading->tables.len, name.data, name.len) == NULL)) {
            buf_printf(&reading->tables, "%s%.*s", reading->tables.len > 0 ? ", " : "",
                       (int)(name.len < 64 ? name.len : 64), (char *)name.data);
        }
        skip_statement(reading, token);
    }
}

/* --- the file --- */

static bool is_ascii(const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((data[i] & 0x80) != 0) {
            return false;
        }
    }
    return true;
}

/* The character set that a line sets, or NULL: "SET NAMES utf8mb4", also in a comment. */
static const char *charset_line(const char *line, size_t len, size_t *ret_len)
{
    static const char words[] = "SET NAMES ";
    size_t i = 0;
    size_t end;

    if (len > 3 && memcmp(line, "/*!", 3) == 0) {
        for (i = 3; i < len && line[i] >= '0' && line[i] <= '9';) {
            i++;
        }
        i += i < len && line[i] == ' ';
    }
    if (len - i < sizeof words || memcmp(line + i, words, sizeof words - 1) != 0) {
        return NULL;
    }
    i += sizeof words - 1;
    i += i < len && line[i] == '\'';
    for (end = i; end < len && (isalnum((unsigned char)line[end]) || line[end] == '_');) {
        end++;
    }
    *ret_len = end - i;
    return end > i ? line + i : NULL;
}

/* mysqldump writes utf8mb4 unless told otherwise, and says so in its head. */
static bool check_charset(const char *data, size_t len, struct buf *why)
{
    for (size_t i = 0; i < len;) {
        const char *end = memchr(data + i, '\n', len - i);
        size_t line_len = end != NULL ? (size_t)(end - data) - i : len - i;
        size_t name_len = 0;
        const char *name = charset_line(data + i, line_len, &name_len);

        if (name != NULL) {
            if (charset_of(name, name_len) == CHARSET_UTF8 || is_ascii(data, len)) {
                return true;
            }
            buf_printf(why,
                       "the dump is in %.*s; make it with mysqldump "
                       "--default-character-set=utf8mb4",
                       (int)(name_len < 32 ? name_len : 32), name);
            return false;
        }
        i += line_len + 1;
    }
    return true;
}

int sql_read(const struct source *source, const char *table, const char *data, size_t len,
             struct rows *rows, struct buf *why)
{
    struct reading reading = {.source = source,
                              .table = table,
                              .text = {.data = data, .len = len, .line = 1},
                              .rows = rows,
                              .why = why};
    struct token token;

    columns_in_order(&reading.columns, source);
    if (!check_charset(data, len, why)) {
        return ERR_INVALID;
    }
    while (why->len == 0 && (token = next(&reading)).kind != TOKEN_END) {
        if (token_is_word(&token, "INSERT") || token_is_word(&token, "REPLACE")) {
            read_insert(&reading);
        } else if (token_is_word(&token, "CREATE")) {
            read_create(&reading);
        } else if (token_is_word(&token, "USE")) {
            read_use(&reading);
        } else if (token_is_word(&token, "DELIMITER")) {
            sql_skip_delimited(&reading.text);
        } else {
            skip_statement(&reading, token);
        }
    }
    if (why->len == 0 && rows->count == 0 && rows->errors.count == 0) {
        buf_printf(why, "no rows of a table %s (tables with rows: %.*s)", table,
                   reading.tables.len > 0 ? (int)reading.tables.len : 4,
                   reading.tables.len > 0 ? (char *)reading.tables.data : "none");
    }
    buf_free(&reading.tables);
    buf_free(&reading.database);
    buf_free(&reading.rows_of);
    return why->len > 0 ? ERR_INVALID : 0;
}
