/*
 * auth.c - see auth.h. Thread: see there.
 */
#include "http/auth/auth.h"

#include <stdlib.h>

#include "src/base/assert.h"

int auth_new(const struct auth_settings *settings, const char *text, size_t len,
             struct auth **ret_auth, char why[TOKENS_WHY_BYTES])
{
    struct token_table *table;
    struct auth *auth;

    if (tokens_parse(text, len, settings->anonymous_roles, &table, why) != 0) {
        return ERR_INVALID;
    }
    auth = MUST_HAVE(calloc(1, sizeof *auth));
    auth->settings = *settings;
    auth->table = table;
    auth->generation = 1;
    ASSERT(pthread_mutex_init(&auth->lock, NULL) == 0);
    audit_init(&auth->audit);
    *ret_auth = auth;
    return 0;
}

void auth_free(struct auth *auth)
{
    if (auth == NULL) {
        return;
    }
    auth_drop(auth);
    tokens_unref(auth->table);
    audit_free(&auth->audit);
    ASSERT(pthread_mutex_destroy(&auth->lock) == 0);
    free(auth);
}

struct token_table *auth_take(struct auth *auth, uint64_t *ret_generation)
{
    struct token_table *table;

    ASSERT(pthread_mutex_lock(&auth->lock) == 0);
    table = auth->table;
    tokens_ref(table);
    *ret_generation = auth->generation;
    ASSERT(pthread_mutex_unlock(&auth->lock) == 0);
    return table;
}

int auth_prepare(struct auth *auth, const char *text, size_t len, char why[TOKENS_WHY_BYTES])
{
    auth_drop(auth);
    return tokens_parse(text, len, auth->settings.anonymous_roles, &auth->prepared, why);
}

void auth_commit(struct auth *auth, size_t *ret_before, size_t *ret_after, struct buf *ret_words)
{
    struct token_table *old;

    ASSERT(auth->prepared != NULL);
    tokens_compare(auth->table, auth->prepared, ret_words); /* only this thread changes it */
    *ret_after = tokens_count(auth->prepared);
    ASSERT(pthread_mutex_lock(&auth->lock) == 0);
    old = auth->table;
    auth->table = auth->prepared;
    auth->prepared = NULL;
    auth->generation++;
    ASSERT(pthread_mutex_unlock(&auth->lock) == 0);
    *ret_before = tokens_count(old);
    tokens_unref(old);
}

void auth_drop(struct auth *auth)
{
    tokens_unref(auth->prepared);
    auth->prepared = NULL;
}
