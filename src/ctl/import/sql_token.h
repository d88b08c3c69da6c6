/*
 * sql_token.h - SQL, as mysqldump writes it, in tokens: strings, names, numbers, words, single
 * characters; blanks and comments are passed over.
 *
 * Failure modes: what opens and never closes is TOKEN_BROKEN: the file is cut off.
 * Ownership: a token's text lies in the data. Thread: one.
 */
#ifndef LEAFD_CTL_IMPORT_SQL_TOKEN_H
#define LEAFD_CTL_IMPORT_SQL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"

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
    const char *text;
    size_t len;
    uint32_t line; /* where it begins */
};

struct sql_text {
    const char *data; /* borrowed */
    size_t len;
    size_t at;
    uint32_t line;
};

/* Behind the quote that closes the one at `at`; 0: there is none. A doubled quote is one quote;
 * with escapes a backslash takes away the meaning of what follows. */
size_t sql_quoted_end(const char *data, size_t len, size_t at, char quote, bool escapes);

/* What the letter behind a backslash stands for; false: for itself. */
bool sql_escape(char letter, char *ret_meaning);

struct token sql_next(struct sql_text *text);

/* Behind DELIMITER: to the end of the line that sets it back to ';'. */
void sql_skip_delimited(struct sql_text *text);

/* Is it this word, in any case; this character? */
bool token_is_word(const struct token *token, const char *word);
bool token_is_char(const struct token *token, char c);

/* The text of a name or word, without backquotes; the bytes of a string, without quotes and
 * escapes. */
void token_name(const struct token *token, struct buf *out);
void token_string(const struct token *token, struct buf *out);

#endif
