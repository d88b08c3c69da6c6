/*
 * sql.c - the rows of one table in a dump of MySQL or MariaDB: see import.h.
 *
 * The happy path: sql_next() splits the dump into tokens (strings, names, numbers, words, single
 * characters; blanks and comments are skipped). CREATE TABLE gives the order of the columns, and
 * each INSERT has rows. Of other statements only USE and DELIMITER matter.
 *
 * Failure modes: a string or comment that never closes is TOKEN_BROKEN: the file is cut off. A
 * value that is no literal is an error of its row. Thread: one.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "http/proto/text.h"
#include "src/base/container.h"
#include "src/ctl/import/import.h"

#define TABLES_TOLD_BYTES 200
/* Character sets whose texts are UTF-8, or bytes as they are. */
#define CHARSETS "binary utf8 utf8mb3 utf8mb4 ascii"

enum token_kind {
    TOKEN_END,
    TOKEN_STRING, /* with its quotes, ' or " */
    TOKEN_NAME,   /* with its backquotes */
    TOKEN_NUMBER,
    TOKEN_WORD,
    TOKEN_CHAR,
    TOKEN_BROKEN
};

struct token {
    enum token_kind kind;
    const char *text; /* in the file */
    size_t len;
    uint32_t line; /* where it begins */
};

/* A dump being read. Each function below begins at its first token, and ends at the one after. */
struct sql {
    struct file_reading *in;
    struct token token;
    bool has_created;    /* in->columns are those of its CREATE TABLE; else the usual order */
    struct buf database; /* of the last USE */
    struct buf rows_of;  /* the database whose rows were read */
    struct buf others;   /* other tables with rows */
};

/* A value being read. */
struct value {
    struct row_value bytes;
    const char *wrong; /* why it is not a literal; NULL: it is one */
    char shown[48];    /* the text that the reason is about, or empty */
};

/* --- tokens --- */

static size_t sql_line_end(const struct file_reading *file, size_t at)
{
    const char *end = memchr(file->data + at, '\n', file->len - at);

    return end != NULL ? (size_t)(end - file->data) : file->len;
}

size_t sql_quoted_end(const char *data, size_t len, size_t at, char quote, bool escapes)
{
    for (size_t i = at + 1; i < len; i++) {
        if (escapes && data[i] == '\\') {
            i++;
        } else if (data[i] == quote) {
            if (i + 1 == len || data[i + 1] != quote) {
                return i + 1;
            }
            i++;
        }
    }
    return 0;
}

void sql_unquote(struct buf *out, const char *text, size_t len, char quote, enum escapes escapes)
{
    const char *letters = escapes == ESCAPES_REDIS ? "abnrt" : "0bnrtZ";
    const char *meanings = escapes == ESCAPES_REDIS ? "\a\b\n\r\t" : "\0\b\n\r\t\x1a";

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (escapes != ESCAPES_NONE && c == '\\' && i + 1 < len) {
            const char *found = text[++i] != '\0' ? strchr(letters, text[i]) : NULL;
            uint8_t code;

            if (escapes == ESCAPES_SQL && (text[i] == '%' || text[i] == '_')) {
                buf_put(out, "\\", 1);
            }
            c = found != NULL ? meanings[found - letters] : text[i];
            if (escapes == ESCAPES_REDIS && c == 'x' && i + 2 < len &&
                text_hex(text + i + 1, 1, &code)) {
                c = (char)code;
                i += 2;
            }
        } else if (quote != '\0' && c == quote) {
            i++; /* it is doubled */
        }
        buf_put(out, &c, 1);
    }
}

/* The length of the number that begins here; 0: no number. */
static size_t sql_number_len(const char *data)
{
    static const char digits[] = "0123456789";
    size_t sign = *data == '+' || *data == '-';
    size_t len = strspn(data + sign, digits);

    if (data[0] == '0' && (data[1] | 0x20) == 'x' && isxdigit((unsigned char)data[2])) {
        return 2 + strspn(data + 2, "0123456789abcdefABCDEF");
    }
    if (len == 0) {
        return 0;
    }
    len += sign;
    if (data[len] == '.') {
        len += 1 + strspn(data + len + 1, digits);
    }
    if ((data[len] | 0x20) == 'e') {
        size_t exponent = len + 1 + (data[len + 1] == '+' || data[len + 1] == '-');

        len = isdigit((unsigned char)data[exponent]) ? exponent + strspn(data + exponent, digits)
                                                     : len;
    }
    return len;
}

static bool sql_begins_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

static enum token_kind sql_measure(const struct file_reading *file, size_t *ret_len)
{
    const char *data = file->data + file->at;
    char c = *data;

    if (c == '\'' || c == '"' || c == '`') {
        *ret_len = sql_quoted_end(data, file->len - file->at, 0, c, c != '`');
        return *ret_len == 0 ? TOKEN_BROKEN : c == '`' ? TOKEN_NAME : TOKEN_STRING;
    }
    *ret_len = sql_number_len(data);
    if (*ret_len > 0) {
        return TOKEN_NUMBER;
    }
    if (sql_begins_word(c)) {
        while (sql_begins_word(data[*ret_len]) || isdigit((unsigned char)data[*ret_len]) ||
               data[*ret_len] == '$') {
            ++*ret_len;
        }
        return TOKEN_WORD;
    }
    *ret_len = 1;
    return c == '/' && data[1] == '*' ? TOKEN_BROKEN : TOKEN_CHAR;
}

/* Read the next token; a broken one ends the file, and *why reports it. */
static void sql_next(struct sql *sql)
{
    static const char blanks[] = " \t\n\v\f\r";
    struct file_reading *in = sql->in;
    struct token *token = &sql->token;
    size_t end = in->at;

    do { /* blanks and comments */
        const char *data = in->data + end;

        reading_advance(in, end);
        end += strspn(data, blanks);
        if (*data == '#' || (strncmp(data, "--", 2) == 0 &&
                             (in->at + 2 == in->len || strspn(data + 2, blanks) > 0))) {
            end = sql_line_end(in, in->at);
        } else if (strncmp(data, "/*", 2) == 0) {
            const char *close = memmem(data + 2, in->len - in->at - 2, "*/", 2);

            end = close != NULL ? (size_t)(close - in->data) + 2 : in->at; /* never closed */
        }
    } while (end > in->at);
    *token = (struct token){.kind = TOKEN_END, .text = in->data + in->at, .line = in->line};
    if (in->at == in->len) {
        return;
    }
    token->kind = sql_measure(in, &token->len);
    if (token->kind == TOKEN_BROKEN) {
        (void)reading_fail(in, token->line, "what %.*s opens is never closed; is the file cut off?",
                           *token->text == '/' ? 2 : 1, token->text);
        token->kind = TOKEN_END;
        token->len = in->len - in->at;
    }
    reading_advance(in, in->at + token->len);
}

/* One of these words, which blanks separate? */
static bool token_is_word(const struct token *token, const char *words)
{
    return token->kind == TOKEN_WORD && word_is_one_of(token->text, token->len, words);
}

static bool token_is_char(const struct token *token, char c)
{
    return token->kind == TOKEN_CHAR && *token->text == c;
}

/* The text of a name or word, without backquotes. */
static void token_name(const struct token *token, struct buf *out)
{
    bool quoted = token->kind == TOKEN_NAME;

    sql_unquote(out, token->text + quoted, token->len - 2 * quoted, quoted ? '`' : '\0',
                ESCAPES_NONE);
}

/* --- statements without rows --- */

/* Skip DELIMITER: to the end of the line that resets it to ';'. */
static void sql_skip_delimited(struct file_reading *file)
{
    static const char word[] = "DELIMITER";
    bool last = false;

    reading_advance(file, sql_line_end(file, file->at));
    while (file->at < file->len && !last) {
        const char *line = file->data + file->at + 1;

        line += strspn(line, " \t");
        if (strncasecmp(line, word, sizeof word - 1) == 0) {
            size_t blanks = strspn(line + sizeof word - 1, " \t");

            line += sizeof word - 1 + blanks;
            if (blanks > 0 && *line == ';') {
                line += 1 + strspn(line + 1, " \t\r");
                last = *line == '\n' || *line == '\0';
            }
        }
        reading_advance(file, sql_line_end(file, file->at + 1));
    }
}

/* The column that the token names. */
static void sql_add_column(const struct sql *sql, struct columns *columns)
{
    BUF_LOCAL(name);

    token_name(&sql->token, &name);
    columns_add(columns, source_column(sql->in->source, buf_text(&name), name.len));
}

/* [database.]table: is it the wanted one? */
static bool sql_read_table(struct sql *sql, struct buf *name)
{
    const struct token *token = &sql->token;

    for (bool more = true; more && token->kind != TOKEN_END; sql_next(sql)) {
        name->len = 0;
        token_name(token, name);
        sql_next(sql);
        more = token_is_char(token, '.');
        if (!more) {
            break;
        }
        sql->database.len = 0;
        buf_put(&sql->database, name->data, name->len);
    }
    return text_is(buf_text(name), name->len, sql->in->table);
}

/* CREATE TABLE gives the order of the columns. */
static void sql_read_create(struct sql *sql)
{
    static const char keys[] =
        "primary key unique index constraint fulltext spatial check foreign period";
    struct file_reading *in = sql->in;
    const struct token *token = &sql->token;
    bool first = true; /* of a column, or a key */
    const char *missing;
    BUF_LOCAL(name);

    sql_next(sql);
    if (!token_is_word(token, "TABLE")) {
        return;
    }
    do {
        sql_next(sql);
    } while (token_is_word(token, "IF NOT EXISTS"));
    if (!sql_read_table(sql, &name) || !token_is_char(token, '(')) {
        return;
    }
    in->columns = (struct columns){.count = 0};
    sql_next(sql);
    for (int depth = 1; token->kind != TOKEN_END; sql_next(sql)) {
        if (first && depth == 1 &&
            (token->kind == TOKEN_NAME ||
             (token->kind == TOKEN_WORD && !token_is_word(token, keys)))) {
            sql_add_column(sql, &in->columns);
        }
        depth += token_is_char(token, '(') - token_is_char(token, ')');
        first = depth == 1 && token_is_char(token, ',');
        if (depth == 0) {
            break;
        }
    }
    missing = columns_lack(in->source, &in->columns);
    if (in->columns.too_many) {
        (void)reading_fail(in, token->line, "the table has more than 64 columns");
    } else if (missing != NULL) {
        (void)reading_fail(in, token->line, "the table lacks a column that is needed: no column %s",
                           missing);
    }
    sql->has_created = true;
}

/* --- INSERT --- */

static void value_is_wrong(struct value *value, const char *why, const struct token *about)
{
    value->wrong = why;
    (void)text_show(about->text, about->len, value->shown, sizeof value->shown);
}

/* The bytes of a literal, after its prefix: _utf8mb4, n, x. */
static void sql_put_literal(struct buf *out, const struct token *token, const struct token *before,
                            struct value *value)
{
    bool hex = before != NULL && token_is_word(before, "x");
    bool named = before != NULL && before->text[0] == '_';
    BUF_LOCAL(bytes);

    value->bytes = (struct row_value){.at = out->len, .is_there = true};
    if (named && !word_is_one_of(before->text + 1, before->len - 1, CHARSETS)) {
        value_is_wrong(value, "in this character set, not utf8mb4 or binary:", before);
    } else if (token->kind == TOKEN_STRING) {
        sql_unquote(&bytes, token->text + 1, token->len - 2, *token->text, ESCAPES_SQL);
    } else if (token->kind == TOKEN_NUMBER && !hex) {
        hex = token->len > 2 && (token->text[1] | 0x20) == 'x';
        buf_put(&bytes, token->text + (hex ? 2 : 0), token->len - (hex ? 2 : 0));
    } else if (before == NULL && token_is_word(token, "NULL")) {
        value->bytes.is_there = false;
    } else {
        value_is_wrong(value, "no literal value:", token);
    }
    if (value->wrong == NULL && hex) {
        buf_reserve(out, bytes.len / 2 + 1);
        if (bytes.len % 2 != 0 ||
            !text_hex(buf_text(&bytes), bytes.len / 2, out->data + out->len)) {
            value_is_wrong(value, "not hexadecimal:", token);
        } else {
            out->len += bytes.len / 2;
        }
    } else if (value->wrong == NULL) {
        buf_put(out, bytes.data, bytes.len);
    }
    value->bytes.len = out->len - value->bytes.at;
    buf_put(out, "", 1);
}

/* One value. Tokens up to the comma belong to an expression, as in current_timestamp(). */
static void sql_read_value(struct sql *sql, struct value *value)
{
    const struct token *token = &sql->token;
    const struct token before = *token;
    bool introduced =
        token->kind == TOKEN_WORD && (token->text[0] == '_' || token_is_word(token, "n x"));
    int depth = 0;

    *value = (struct value){.wrong = NULL};
    if (introduced) {
        sql_next(sql);
    }
    if (token_is_char(token, ',') || token_is_char(token, ')')) {
        value->wrong = "a value is missing";
        return;
    }
    if (token->kind != TOKEN_END) {
        sql_put_literal(&sql->in->rows->text, token, introduced ? &before : NULL, value);
        depth = token_is_char(token, '(');
        sql_next(sql);
    }
    while (token->kind != TOKEN_END &&
           (depth > 0 || !(token_is_char(token, ',') || token_is_char(token, ')')))) {
        depth += token_is_char(token, '(') - token_is_char(token, ')');
        if (value->wrong == NULL) {
            value_is_wrong(value, "an expression, not a literal value, from here on:", token);
        }
        sql_next(sql);
    }
}

/* One (value, ...). False: the file is cut off. */
static bool insert_read_row(struct sql *sql, const struct columns *columns, struct row *row)
{
    struct file_reading *in = sql->in;
    struct messages *errors = &in->rows->errors;
    size_t before = errors->count;
    size_t count = 0;

    do {
        struct value value;
        int meaning = count < columns->count ? columns->meaning[count] : NO_COLUMN;

        sql_next(sql);
        sql_read_value(sql, &value);
        if (sql->token.kind == TOKEN_END) {
            (void)reading_fail(in, row->line, "this row does not end: the file is cut off");
            return false;
        }
        count++;
        if (meaning == COLUMN_TIME && value.wrong != NULL) {
            value.bytes.is_there = false; /* now() */
        } else if (meaning != NO_COLUMN && value.wrong != NULL && errors->count == before) {
            messages_add(errors, "%s: %s: %s%s%s", ROW_PLACE(row), in->source->columns[meaning],
                         value.wrong, value.shown[0] != '\0' ? " " : "", value.shown);
        }
        if (meaning != NO_COLUMN) {
            row->values[meaning] = value.bytes;
        }
    } while (!token_is_char(&sql->token, ')'));
    sql_next(sql);
    if (errors->count == before && count != columns->count) {
        messages_add(errors, "%s: %zu values for %zu columns", ROW_PLACE(row), count,
                     columns->count);
    }
    if (errors->count == before) {
        rows_keep(in->rows, row);
    }
    return true;
}

/* [(column, ...)] VALUES (value, ...), ... of the wanted table. */
static void insert_read_rows(struct sql *sql)
{
    struct file_reading *in = sql->in;
    const struct token *token = &sql->token;
    struct columns columns = in->columns;
    const char *missing;

    if (token_is_char(token, '(')) {
        columns = (struct columns){.count = 0};
        for (; token->kind != TOKEN_END && !token_is_char(token, ')'); sql_next(sql)) {
            if (token->kind == TOKEN_WORD || token->kind == TOKEN_NAME) {
                sql_add_column(sql, &columns);
            }
        }
        sql_next(sql);
    } else if (!sql->has_created) {
        in->rows->guessed = true;
    }
    missing = columns_lack(in->source, &columns);
    if (missing != NULL || columns.too_many || !token_is_word(token, "VALUES VALUE")) {
        messages_add(&in->rows->errors, "line %u: an INSERT %s%s", (unsigned)token->line,
                     missing != NULL    ? "without the column "
                     : columns.too_many ? "of more than 64 columns"
                                        : "without VALUES",
                     missing != NULL ? missing : "");
        return;
    }
    sql_next(sql);
    for (uint32_t number = 1; token_is_char(token, '('); number++) {
        struct row row = {.line = token->line, .number = number};

        if (!insert_read_row(sql, &columns, &row)) {
            return;
        }
        if (token_is_char(token, ',')) {
            sql_next(sql);
        }
    }
    if (token->kind == TOKEN_END) {
        (void)reading_fail(in, token->line,
                           "the last INSERT has no ';' at its end: the file is cut off");
    }
}

static void sql_read_insert(struct sql *sql)
{
    struct file_reading *in = sql->in;
    const struct token *token = &sql->token;
    const struct buf *now = &sql->database;
    struct buf *before = &sql->rows_of;
    struct buf *others = &sql->others;
    BUF_LOCAL(name);

    do {
        sql_next(sql);
    } while (token_is_word(token, "INTO IGNORE LOW_PRIORITY HIGH_PRIORITY DELAYED"));
    if (token->kind == TOKEN_STRING) {
        (void)reading_fail(
            in, token->line,
            "a name in double quotes: dump it without ANSI_QUOTES (mysqldump --skip-ansi), or "
            "give the table as CSV with a line of names");
        return;
    }
    if (!sql_read_table(sql, &name)) {
        if (name.len > 0 && others->len < TABLES_TOLD_BYTES &&
            (others->len == 0 || memmem(others->data, others->len, name.data, name.len) == NULL)) {
            buf_printf(others, "%s%.*s", others->len > 0 ? ", " : "",
                       (int)(name.len < 64 ? name.len : 64), (char *)name.data);
        }
        return;
    }
    if (in->rows->count == 0) {
        before->len = 0;
        buf_put(before, now->data, now->len);
    }
    if (before->len != now->len ||
        (now->len > 0 && memcmp(before->data, now->data, now->len) != 0)) {
        (void)reading_fail(in, token->line, /* whose tags would be mixed up with the first's */
                           "the table of a second database: give each database a file of its own");
    } else {
        insert_read_rows(sql);
    }
}

/* --- the file --- */

/* mysqldump writes utf8mb4 unless an option changes it. The dump's head names the character set:
 * "SET NAMES utf8mb4", also in a comment. */
static bool charset_check(struct file_reading *file)
{
    static const char words[] = "SET NAMES ";
    size_t len = 0;
    const char *name = NULL;
    bool ascii = true;

    for (size_t at = 0; len == 0 && at < file->len; at = sql_line_end(file, at) + 1) {
        const char *line = file->data + at;

        if (strncmp(line, "/*!", 3) == 0) {
            line += 3 + strspn(line + 3, "0123456789");
            line += *line == ' ';
        }
        if (strncmp(line, words, sizeof words - 1) == 0) {
            name = line + sizeof words - 1;
            name += *name == '\'';
            while (isalnum((unsigned char)name[len]) || name[len] == '_') {
                len++;
            }
        }
    }
    for (size_t at = 0; at < file->len; at++) {
        ascii &= (file->data[at] & 0x80) == 0;
    }
    if (len == 0 || ascii || word_is_one_of(name, len, CHARSETS)) {
        return true;
    }
    buf_printf(file->why,
               "the dump is in %.*s; make it with mysqldump --default-character-set=utf8mb4",
               (int)(len < 32 ? len : 32), name);
    return false;
}

int sql_read(struct file_reading *in)
{
    struct sql sql = {.in = in};
    const struct token *token = &sql.token;

    columns_in_order(&in->columns, in->source);
    if (!charset_check(in)) {
        return ERR_INVALID;
    }
    while (in->why->len == 0) {
        sql_next(&sql);
        if (token->kind == TOKEN_END) {
            break;
        }
        if (token_is_word(token, "INSERT REPLACE")) {
            sql_read_insert(&sql);
        } else if (token_is_word(token, "CREATE")) {
            sql_read_create(&sql);
        } else if (token_is_word(token, "DELIMITER")) {
            sql_skip_delimited(in);
            continue;
        } else if (token_is_word(token, "USE")) {
            sql_next(&sql);
            sql.database.len = 0;
            token_name(token, &sql.database);
        }
        while (token->kind != TOKEN_END && !token_is_char(token, ';')) {
            sql_next(&sql);
        }
    }
    if (in->why->len == 0 && in->rows->count == 0 && in->rows->errors.count == 0) {
        buf_printf(in->why, "no rows of a table %s (tables with rows: %s)", in->table,
                   sql.others.len > 0 ? buf_text(&sql.others) : "none");
    }
    buf_free(&sql.others);
    buf_free(&sql.database);
    buf_free(&sql.rows_of);
    return in->why->len > 0 ? ERR_INVALID : 0;
}
