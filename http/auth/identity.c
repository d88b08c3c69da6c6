/*
 * identity.c - see identity.h. Thread: pure functions, any.
 */
#include "http/auth/identity.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"

static const char *const role_names[ROLE_COUNT] = {"ids",   "read",    "tags",  "workers",
                                                   "admin", "metrics", "health"};

const char *role_name(enum role role)
{
    for (unsigned i = 0; i < ROLE_COUNT; i++) {
        if ((unsigned)role == 1U << i) {
            return role_names[i];
        }
    }
    UNREACHABLE("a role");
}

unsigned role_named(const char *name, size_t len)
{
    for (unsigned i = 0; i < ROLE_COUNT; i++) {
        if (strlen(role_names[i]) == len && memcmp(role_names[i], name, len) == 0) {
            return 1U << i;
        }
    }
    return len == 3 && memcmp(name, "all", 3) == 0 ? ROLES_ALL : 0;
}

const char *roles_text(unsigned roles, char out[ROLES_TEXT_BYTES])
{
    size_t at = 0;

    (void)snprintf(out, ROLES_TEXT_BYTES, "none");
    for (unsigned i = 0; i < ROLE_COUNT; i++) {
        if ((roles & 1U << i) != 0) {
            at += (size_t)snprintf(out + at, ROLES_TEXT_BYTES - at, "%s%s", at > 0 ? ", " : "",
                                   role_names[i]);
        }
    }
    ASSERT(at < ROLES_TEXT_BYTES);
    return out;
}

bool identity_may_use(const struct identity *identity, const char *name, size_t len)
{
    for (size_t i = 0; i < identity->prefix_count; i++) {
        const struct identity_prefix *prefix = &identity->prefixes[i];

        if (prefix->len <= len && memcmp(prefix->text, name, prefix->len) == 0) {
            return true;
        }
    }
    return identity->prefix_count == 0;
}
