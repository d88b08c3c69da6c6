/*
 * identity.h - who asks: what a token, a client certificate, or neither stands for.
 *
 * An identity is a line of the tokens file (tokens.h), or the one that all share who show nothing.
 * It says which roles its bearer has, which tags it may use, and how much of a node.
 *
 * Ownership: identities belong to the table that they were read into, and do not change. A
 * connection's is good while its loop keeps that table (conn->identity; see auth.h): a reload sets
 * it to NULL, and the next look finds the new one. So nobody keeps a pointer to one beyond a turn
 * of the loop; what has to last is the name.
 *
 * Thread: read-only, any.
 */
#ifndef LEAFD_HTTP_AUTH_IDENTITY_H
#define LEAFD_HTTP_AUTH_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/limits.h"

/* What a route asks for; each route asks for one. None of them stands for another. */
enum role {
    ROLE_NONE = 0,         /* for all, also without a token: it shows nothing of this node */
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

/* How much its bearer may take of one node. 0: the line does not say. */
struct identity_quotas {
    uint32_t requests_per_s;
    uint32_t ids_per_s;
    uint32_t connections; /* open at a time */
    uint32_t bodies;      /* being received at a time */
    uint32_t keys;        /* idempotency keys that are remembered */
    uint32_t workers;     /* worker ids held */
    uint32_t tags_mib;    /* what the tags that it makes take of memory */
};

struct identity_prefix {
    const char *text; /* not ended by a NUL */
    size_t len;       /* 1..LIMIT_TAG_NAME_BYTES */
};

enum identity_kind { IDENTITY_ANONYMOUS, IDENTITY_TOKEN, IDENTITY_CERTIFICATE };

struct identity {
    char name[LIMIT_TOKEN_NAME_BYTES + 1]; /* unique in its table; "anonymous" of nobody's */
    enum identity_kind kind;
    unsigned roles; /* bits of enum role */
    uint32_t index; /* in its table: 0 is the anonymous one, then the lines in their order */
    struct identity_quotas quotas;
    const struct identity_prefix *prefixes; /* of tags that it may use */
    size_t prefix_count;                    /* 0: all tags */
};

/* "tags", of one role. */
const char *role_name(enum role role);

/* The role of that name, or all roles for "all"; 0: there is none. */
unsigned role_named(const char *name, size_t len);

#define ROLES_TEXT_BYTES 64

/* "ids, read"; "none". Returns out. */
const char *roles_text(unsigned roles, char out[ROLES_TEXT_BYTES]);

/* May it use the tag of that name, or all tags of that prefix? */
bool identity_may_use(const struct identity *identity, const char *name, size_t len);

#endif
