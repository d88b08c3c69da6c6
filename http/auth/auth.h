/*
 * auth.h - who may ask what: the tokens in force, and their change while requests are served.
 *
 * The happy path: auth_new() with the settings and the first table. Each loop takes the table with
 * auth_take() and finds who asks in it, once for each head; a head that repeats the one before it
 * is not looked at again. auth_prepare() reads a new tokens file completely, auth_commit() puts its
 * table into force; a loop sees by auth_is_newer(), one load of an atomic, that there is another
 * table, takes it, and gives the old one back, which ends with the last that has it.
 *
 * So a token that was taken out of the file is refused from the first request on that a loop begins
 * with after auth_commit() has returned. Requests that wait for an answer then still get it.
 *
 * Failure modes: a file that is refused changes nothing.
 *
 * Threads: auth_new(), auth_prepare(), auth_commit(), auth_drop() and auth_free() on the main
 * thread; the rest on any. Only taking a new table takes a lock.
 */
#ifndef LEAFD_HTTP_AUTH_AUTH_H
#define LEAFD_HTTP_AUTH_AUTH_H

#include <pthread.h>
#include <stdatomic.h>

#include "http/auth/audit.h"
#include "http/auth/tokens.h"
#include "http/auth/web.h"

/* What an operator sets (docs/configuration.md). */
struct auth_settings {
    struct web_rules web;
    unsigned anonymous_roles; /* what needs no token */
};

struct auth {
    struct auth_settings settings;
    struct audit audit;
    _Atomic uint64_t generation; /* of the table; rises */
    pthread_mutex_t lock;        /* of the table */
    struct token_table *table;
    struct token_table *prepared; /* NULL: none is */
};

/* text: of the tokens file; NULL: there is none. 0, or ERR_INVALID with *why. */
int auth_new(const struct auth_settings *settings, const char *text, size_t len,
             struct auth **ret_auth, char why[TOKENS_WHY_BYTES]) MUST_CHECK;

/* Nobody uses it any more, and all tables were given back. NULL-safe. */
void auth_free(struct auth *auth);

/* The table in force, with a reference for the caller, and its generation. */
struct token_table *auth_take(struct auth *auth, uint64_t *ret_generation);

static inline bool auth_is_newer(const struct auth *auth, uint64_t generation)
{
    return atomic_load_explicit(&auth->generation, memory_order_acquire) != generation;
}

/* --- reload: prepare, then commit or drop --- */

int auth_prepare(struct auth *auth, const char *text, size_t len,
                 char why[TOKENS_WHY_BYTES]) MUST_CHECK;

/* ret_before, ret_after: how many tokens there were, and are. ret_words: what differs is appended,
 * as tokens_compare() says it. */
void auth_commit(struct auth *auth, size_t *ret_before, size_t *ret_after, struct buf *ret_words);

/* Forget what was prepared, if anything was. */
void auth_drop(struct auth *auth);

#endif
