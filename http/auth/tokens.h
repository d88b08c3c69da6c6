/*
 * tokens.h - the tokens file: who may do what, and how much of it.
 *
 * A line is empty, a comment (its first byte is '#'), or a token, in fields between blanks:
 *
 *   NAME sha256:HEX roles=ids,read [prefix=order/,user/] [requests-per-s=N] [ids-per-s=N]
 *       [connections=N] [bodies=N] [keys=N] [workers=N] [tags=N]
 *   NAME cert:SUBJECT roles=...
 *
 * NAME: 1 to LIMIT_TOKEN_NAME_BYTES of A-Z a-z 0-9 . _ -, as it stands in the audit. sha256: of the
 * token's text. It needs no salt and no slow hash: a token is 32 random bytes (token_new()), which
 * nobody can guess, so nothing is won by having the hash. cert: the name in a client's certificate.
 * prefix: what the names of tags begin with that it may use; percent encoding stands for what a
 * line cannot hold. The numbers are quotas (identity.h).
 *
 * The happy path: tokens_parse() makes a table of all lines; token_find() finds a token by its
 * hash.
 *
 * Failure modes: a line that breaks a rule makes the whole file refused, with the line's number,
 * the value and the rule; no table is made.
 *
 * Ownership: a table has references; who looks into it holds one.
 * Thread: a table is read-only, any thread; its references are atomic.
 */
#ifndef LEAFD_HTTP_AUTH_TOKENS_H
#define LEAFD_HTTP_AUTH_TOKENS_H

#include "http/auth/identity.h"
#include "src/base/buf.h"
#include "src/base/err.h"

#define TOKENS_WHY_BYTES 320
#define TOKEN_HASH_BYTES 32

struct token_hash {
    uint64_t words[TOKEN_HASH_BYTES / sizeof(uint64_t)];
};

struct token_table;

/* A table of the text's lines, with one reference. text NULL: nobody but the anonymous one, whose
 * roles these are. 0, or ERR_INVALID with *why. */
int tokens_parse(const char *text, size_t len, unsigned anonymous_roles,
                 struct token_table **ret_table, char why[TOKENS_WHY_BYTES]) MUST_CHECK;

void tokens_ref(struct token_table *table);
void tokens_unref(struct token_table *table); /* NULL-safe */

/* Is it made of a file? */
bool tokens_are_used(const struct token_table *table);

/* Lines with a token or a certificate. */
size_t tokens_count(const struct token_table *table);

/* Append which lines are new, changed or gone, by their names, and what of them: "shop ids-per-s=50
 * (was 1000), proof; till is new". Beyond TOKENS_TOLD of them only how many more there are.
 * Nothing: they are the same. */
#define TOKENS_TOLD 10
void tokens_compare(const struct token_table *before, const struct token_table *after,
                    struct buf *ret_words);

/* Index 0: who shows nothing. */
const struct identity *tokens_anonymous(const struct token_table *table);

/* NULL: none has that hash. The time it takes does not depend on which one, or whether one, has
 * it. */
const struct identity *tokens_find(const struct token_table *table, const struct token_hash *hash);

/* NULL: there is no line for a certificate of that name. */
const struct identity *tokens_find_certificate(const struct token_table *table, const char *name);

/* The SHA-256 of a token. False: the library failed. */
bool token_hash(const char *token, size_t len, struct token_hash *ret_hash);

#define TOKEN_TEXT_BYTES 44 /* 43 of base64 for URLs, and a NUL */
#define TOKEN_LINE_BYTES 128

/* A new random token, and its line for the file, with a name made of its hash and the role ids.
 * ERR_IO: the system gave no random bytes. */
int token_new(char ret_token[TOKEN_TEXT_BYTES], char ret_line[TOKEN_LINE_BYTES]) MUST_CHECK;

#endif
