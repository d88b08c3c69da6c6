/*
 * tokens.h - who asks, and what it may do: identities, the tokens file that defines them, and its
 * reload while requests are served.
 *
 * An identity is a line of the tokens file, or the one shared by all clients without a token. It
 * defines its bearer's roles, tags and quotas of a node.
 *
 * A line is empty, a comment (its first byte is '#'), or a token, in fields between blanks:
 *
 *   NAME sha256:HEX roles=ids,read [prefix=order/,user/] [requests-per-s=N] [ids-per-s=N]
 *       [connections=N] [bodies=N] [keys=N] [workers=N] [tags=N]
 *   NAME cert:SUBJECT roles=...
 *
 * NAME: 1 to LIMIT_TOKEN_NAME_BYTES of A-Z a-z 0-9 . _ -, no address, as shown in the audit: whose
 * worker ids, keys and tags they are. Up to LIMIT_TOKEN_PROOFS lines may have one name, and the
 * same but for the proof, so that a client keeps what it holds while its token is exchanged.
 * sha256: of the token's text. It needs no salt and no slow hash: a token is 32 random bytes
 * (token_new()) that cannot be guessed, so the hash alone is useless. cert: the name in a client's
 * certificate. prefix: the beginning of the names of tags that it may use; percent encoding
 * replaces bytes that a line cannot hold. The numbers are quotas.
 *
 * The happy path: each loop takes the table in force with auth_take() and looks up the client in
 * it, once for each head that does not repeat the one before it. auth_prepare() reads a new tokens
 * file completely, and auth_commit() puts its table into force. A loop sees by auth.generation, one
 * load of an atomic, that there is another table; it takes that and gives the old one back. So a
 * token removed from the file is refused in each request that a loop begins after auth_commit() has
 * returned. Requests that wait for an answer then still get it.
 *
 * Failure modes: if a line breaks a rule, the whole file is refused, with the line's number, the
 * value and the rule; no table is made, and nothing changes.
 *
 * Ownership: a table has references; its readers hold one. Identities belong to their table and are
 * constant. A connection's identity (conn->identity) is valid while its loop keeps that table: a
 * reload sets it to NULL, and the next lookup finds the new one. So keep no pointer to an identity
 * beyond a turn of the loop; keep the name.
 *
 * Threads: auth_new(), auth_prepare(), auth_commit(), auth_drop() and auth_free() on the main
 * thread; the rest on any. A table is read-only, its references are atomic; only taking a new table
 * takes a lock.
 */
#ifndef LEAFD_HTTP_AUTH_TOKENS_H
#define LEAFD_HTTP_AUTH_TOKENS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/auth/audit.h"
#include "http/auth/web.h"
#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"

/* --- who asks --- */

/* The role that a route requires; each route requires one. No role implies another. */
enum role {
    ROLE_NONE = 0,         /* for all clients, also without a token: shows nothing of this node */
    ROLE_IDS = 1 << 0,     /* take ids, and take snowflake ids apart */
    ROLE_READ = 1 << 1,    /* see tags, worker ids, the cluster */
    ROLE_TAGS = 1 << 2,    /* make, change and delete tags */
    ROLE_WORKERS = 1 << 3, /* acquire, renew and release worker ids */
    ROLE_ADMIN = 1 << 4,   /* members, leadership, level, backups, the audit */
    ROLE_METRICS = 1 << 5,
    ROLE_HEALTH = 1 << 6 /* /livez, /readyz, /version, /openapi.json */
};

#define ROLE_COUNT 7
#define ROLES_ALL ((1U << ROLE_COUNT) - 1)

/* How much its bearer may take of one node. 0: not given in the line. */
struct identity_quotas {
    uint32_t requests_per_s;
    uint32_t ids_per_s;
    uint32_t connections; /* open at a time */
    uint32_t bodies;      /* being received at a time */
    uint32_t keys;        /* idempotency keys that are remembered */
    uint32_t workers;     /* worker ids held */
    uint32_t tags_mib;    /* memory of the tags that it makes */
};

struct identity_prefix {
    const char *text; /* not ended by a NUL */
    size_t len;       /* 1..LIMIT_TAG_NAME_BYTES */
};

enum identity_kind { IDENTITY_ANONYMOUS, IDENTITY_TOKEN, IDENTITY_CERTIFICATE };

struct identity {
    char name[LIMIT_TOKEN_NAME_BYTES + 1]; /* of one or two lines; "anonymous" without a token */
    enum identity_kind kind;
    unsigned roles; /* bits of enum role */
    uint32_t index; /* in its table: 0 is the anonymous one, then the lines in their order */
    struct identity_quotas quotas;
    const struct identity_prefix *prefixes; /* of tags that it may use */
    size_t prefix_count;                    /* 0: all tags */
};

/* The name of one role: "tags". */
const char *role_name(enum role role);

/* The role of that name, or all roles for "all"; 0: none. */
unsigned role_named(const char *name, size_t len);

#define ROLES_TEXT_BYTES 64

/* "ids, read"; "none". Returns out. */
const char *roles_text(unsigned roles, char out[ROLES_TEXT_BYTES]);

/* May the identity use the tag of that name, or all tags with that prefix? */
bool identity_may_use(const struct identity *identity, const char *name, size_t len);

/* --- the tokens file --- */

#define TOKENS_WHY_BYTES 320
#define TOKEN_HASH_BYTES 32

struct token_hash {
    uint64_t words[TOKEN_HASH_BYTES / sizeof(uint64_t)];
};

struct token_table;

/* Make a table of the text's lines, with one reference. text NULL: only the anonymous identity.
 * anonymous_roles: its roles. 0, or ERR_INVALID with *why. */
int tokens_parse(const char *text, size_t len, unsigned anonymous_roles,
                 struct token_table **ret_table, char why[TOKENS_WHY_BYTES]) MUST_CHECK;

void tokens_unref(struct token_table *table); /* NULL-safe */

/* Was it made from a file? */
bool tokens_are_used(const struct token_table *table);

/* Lines with a token or a certificate. */
size_t tokens_count(const struct token_table *table);

/* Append the names of the lines that are new, changed or gone, and their differences: "shop
 * ids-per-s=50 (was 1000), proof; till is new". Beyond TOKENS_TOLD lines only their number.
 * Nothing: the tables are the same. */
#define TOKENS_TOLD 10
void tokens_compare(const struct token_table *before, const struct token_table *after,
                    struct buf *ret_words);

/* Can a line have this name? */
bool tokens_name_check(const char *name, size_t len);

/* 0: the identity of a client that shows no token; the lines, from 1 on; NULL: there are no
 * more. */
const struct identity *tokens_at(const struct token_table *table, size_t index);

/* NULL: none has that hash. The time taken does not depend on whether, or which, identity has
 * it. */
const struct identity *tokens_find(const struct token_table *table, const struct token_hash *hash);

/* The identity whose token the text is; NULL: none. *ret_hash: of a found token, for
 * tokens_find(). */
const struct identity *tokens_find_text(const struct token_table *table, const char *text,
                                        size_t len, struct token_hash *ret_hash);

/* NULL: there is no line for a certificate of that name. */
const struct identity *tokens_find_certificate(const struct token_table *table, const char *name);

/* The SHA-256 of a token. False: the library failed. */
bool token_hash(const char *token, size_t len, struct token_hash *ret_hash);

#define TOKEN_TEXT_BYTES 44 /* 43 of base64 for URLs, and a NUL */
#define TOKEN_LINE_BYTES 128

/* Make a random token, and its line for the file, with a name made of its hash, and the role ids.
 * ERR_IO: the system gave no random bytes. */
int token_new(char ret_token[TOKEN_TEXT_BYTES], char ret_line[TOKEN_LINE_BYTES]) MUST_CHECK;

/* --- the table in force --- */

/* What an operator sets (docs/configuration.md). */
struct auth_settings {
    struct web_rules web;
    unsigned anonymous_roles; /* roles that need no token */
};

struct auth {
    struct auth_settings settings;
    struct audit audit;
    _Atomic uint64_t generation; /* of the table; rises */
    pthread_mutex_t lock;        /* of the table */
    struct token_table *table;
    struct token_table *prepared; /* NULL: none is */
};

/* text: of the tokens file; NULL: no file. 0, or ERR_INVALID with *why. */
int auth_new(const struct auth_settings *settings, const char *text, size_t len,
             struct auth **ret_auth, char why[TOKENS_WHY_BYTES]) MUST_CHECK;

/* It must be unused, and all tables given back. NULL-safe. */
void auth_free(struct auth *auth);

/* The table in force, with a reference for the caller, and its generation. */
struct token_table *auth_take(struct auth *auth, uint64_t *ret_generation);

/* --- reload: prepare, then commit or drop --- */

int auth_prepare(struct auth *auth, const char *text, size_t len,
                 char why[TOKENS_WHY_BYTES]) MUST_CHECK;

/* ret_before, ret_after: the number of tokens before and after. ret_words: the differences are
 * appended, as by tokens_compare(). */
void auth_commit(struct auth *auth, size_t *ret_before, size_t *ret_after, struct buf *ret_words);

/* Drop the prepared table, if there is one. */
void auth_drop(struct auth *auth);

#endif
