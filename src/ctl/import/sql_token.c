/*
 * sql_token.c - see sql_token.h. Thread: one.
 */
#include "src/ctl/import/sql_token.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool sql_token_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool begins_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

static char sql_token_at(const struct sql_text *text, size_t place)
{
    return place < text->len ? text->data[place] : '\0';
}

/* --- what is passed over --- */

static size_t line_end(const struct sql_text *text, size_t place)
{
    const char *end = memchr(text->data + place, '\n', text->len - place);

    return end != NULL ? (size_t)(end - text->data) : text->len;
}

/* The end of the comment that begins here; the same place: none does. One that never ends has none
 * either. */
static size_t comment_end(const struct sql_text *text, size_t place)
{
    char c = sql_token_at(text, place);

    if (c == '#') {
        return line_end(text, place);
    }
    if (c == '-' && sql_token_at(text, place + 1) == '-' &&
        (place + 2 >= text->len || sql_token_is_blank(sql_token_at(text, place + 2)))) {
        return line_end(text, place);
    }
    if (c == '/' && sql_token_at(text, place + 1) == '*') {
        const char *end = memmem(text->data + place + 2, text->len - place - 2, "*/", 2);

        return end != NULL ? (size_t)(end - text->data) + 2 : place;
    }
    return place;
}

static void advance(struct sql_text *text, size_t to)
{
    for (const char *c = text->data + text->at; c < text->data + to; c++) {
        text->line += *c == '\n';
    }
    text->at = to;
}

static void sql_token_skip_blanks(struct sql_text *text)
{
    for (;;) {
        size_t place = text->at;

        while (place < text->len && sql_token_is_blank(text->data[place])) {
            place++;
        }
        place = place < text->len ? comment_end(text, place) : place;
        if (place == text->at) {
            return;
        }
        advance(text, place);
    }
}

/* --- tokens --- */

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

static size_t digits_end(const struct sql_text *text, size_t place)
{
    while (is_digit(sql_token_at(text, place))) {
        place++;
    }
    return place;
}

/* Behind the number that begins here; the same place: none does. */
static size_t number_end(const struct sql_text *text, size_t place)
{
    size_t first = place + (sql_token_at(text, place) == '+' || sql_token_at(text, place) == '-');
    size_t end = place;

    if (sql_token_at(text, place) == '0' && (sql_token_at(text, place + 1) | 0x20) == 'x' &&
        isxdigit((unsigned char)sql_token_at(text, place + 2))) {
        for (end = place + 2; isxdigit((unsigned char)sql_token_at(text, end));) {
            end++;
        }
        return end;
    }
    if (!is_digit(sql_token_at(text, first))) {
        return place;
    }
    end = digits_end(text, first);
    end = sql_token_at(text, end) == '.' ? digits_end(text, end + 1) : end;
    if ((sql_token_at(text, end) | 0x20) == 'e') {
        size_t exponent =
            end + 1 + (sql_token_at(text, end + 1) == '+' || sql_token_at(text, end + 1) == '-');

        end = is_digit(sql_token_at(text, exponent)) ? digits_end(text, exponent) : end;
    }
    return end;
}

static size_t sql_token_word_end(const struct sql_text *text, size_t place)
{
    while (place < text->len && (begins_word(text->data[place]) || is_digit(text->data[place]) ||
                                 text->data[place] == '$')) {
        place++;
    }
    return place;
}

static enum token_kind sql_token_measure(const struct sql_text *text, size_t *ret_end)
{
    size_t place = text->at;
    char c = text->data[place];

    if (c == '\'' || c == '"' || c == '`') {
        *ret_end = sql_quoted_end(text->data, text->len, place, c, c != '`');
        return *ret_end == 0 ? TOKEN_BROKEN : c == '`' ? TOKEN_NAME : TOKEN_STRING;
    }
    *ret_end = number_end(text, place);
    if (*ret_end > place) {
        return TOKEN_NUMBER;
    }
    if (begins_word(c)) {
        *ret_end = sql_token_word_end(text, place);
        return TOKEN_WORD;
    }
    *ret_end = place + 1;
    return c == '/' && sql_token_at(text, place + 1) == '*' ? TOKEN_BROKEN : TOKEN_CHAR;
}

struct token sql_next(struct sql_text *text)
{
    struct token token = {.kind = TOKEN_END};
    size_t end;

    sql_token_skip_blanks(text);
    token.line = text->line;
    token.text = text->data + text->at;
    if (text->at == text->len) {
        return token;
    }
    token.kind = sql_token_measure(text, &end);
    if (token.kind == TOKEN_BROKEN) {
        end = text->at + (text->data[text->at] == '/' ? 2 : 1);
    }
    token.len = end - text->at;
    advance(text, end);
    return token;
}

/* Is this line "DELIMITER ;"? */
static bool sets_back(const char *line, size_t len)
{
    static const char word[] = "DELIMITER";
    size_t i = 0;

    while (i < len && (line[i] == ' ' || line[i] == '\t')) {
        i++;
    }
    if (len - i < sizeof word || strncasecmp(line + i, word, sizeof word - 1) != 0) {
        return false;
    }
    i += sizeof word - 1;
    if (line[i] != ' ' && line[i] != '\t') {
        return false;
    }
    while (i < len && (line[i] == ' ' || line[i] == '\t')) {
        i++;
    }
    if (i == len || line[i] != ';') {
        return false;
    }
    for (i++; i < len; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') {
            return false;
        }
    }
    return true;
}

void sql_skip_delimited(struct sql_text *text)
{
    advance(text, line_end(text, text->at));
    while (text->at < text->len) {
        size_t first = text->at + 1;
        size_t end = first < text->len ? line_end(text, first) : text->len;
        bool last = first < text->len && sets_back(text->data + first, end - first);

        advance(text, end);
        if (last) {
            return;
        }
    }
}

bool token_is_word(const struct token *token, const char *word)
{
    return token->kind == TOKEN_WORD && token->len == strlen(word) &&
           strncasecmp(token->text, word, token->len) == 0;
}

bool token_is_char(const struct token *token, char c)
{
    return token->kind == TOKEN_CHAR && *token->text == c;
}

void token_name(const struct token *token, struct buf *out)
{
    bool quoted = token->kind == TOKEN_NAME;
    size_t end = token->len - quoted;

    for (size_t i = quoted; i < end; i++) {
        buf_put(out, token->text + i, 1);
        i += quoted && token->text[i] == '`';
    }
}

bool sql_escape(char letter, char *ret_meaning)
{
    static const char letters[] = "0bnrtZ";
    static const char meanings[] = "\0\b\n\r\t\x1a";
    const char *found = letter != '\0' ? strchr(letters, letter) : NULL;

    *ret_meaning = found != NULL ? meanings[found - letters] : letter;
    return found != NULL;
}

void token_string(const struct token *token, struct buf *out)
{
    char quote = token->text[0];

    for (size_t i = 1; i + 1 < token->len; i++) {
        char c = token->text[i];

        if (c == quote) {
            i++;
        } else if (c == '\\' && !sql_escape(token->text[++i], &c) && (c == '%' || c == '_')) {
            buf_put(out, "\\", 1); /* which these keep, as in MySQL */
        }
        buf_put(out, &c, 1);
    }
}
