/*
 * fsm_owners.c - see fsm_owners.h.
 */
#include "src/id/fsm/fsm_owners.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"

struct owner {
    struct hash_link link;
    uint64_t client; /* > 0 */
    uint64_t held;   /* > 0 */
    uint32_t hash;
};

/* Its piece of malloc, and its bucket. */
#define OWNER_BYTES ((sizeof(struct owner) + 8 + 15) / 16 * 16 + sizeof(void *))

static uint32_t hash_of(const struct hash_link *link)
{
    return CONTAINER(link, const struct owner, link)->hash;
}

void fsm_owners_init(struct fsm_owners *owners)
{
    hash_table_init(&owners->table, hash_of);
    owners->bytes = 0;
}

/* Clients are hashes already, but of a seed that is the same on all nodes. */
static uint32_t client_hash(const struct fsm_owners *owners, uint64_t client)
{
    return (uint32_t)hash_bytes(&client, sizeof client, owners->table.seed);
}

static struct owner *find(const struct fsm_owners *owners, uint64_t client)
{
    struct hash_link *link = hash_table_chain(&owners->table, client_hash(owners, client));

    for (; link != NULL; link = link->next) {
        struct owner *owner = CONTAINER(link, struct owner, link);

        if (owner->client == client) {
            return owner;
        }
    }
    return NULL;
}

static void drop(struct fsm_owners *owners, struct owner *owner)
{
    hash_table_remove(&owners->table, &owner->link);
    owners->bytes -= OWNER_BYTES;
    free(owner);
}

void fsm_owners_clear(struct fsm_owners *owners)
{
    ASSERT(owners->table.count == 0 && owners->bytes == 0);
    hash_table_free(&owners->table);
}

void fsm_owners_enter(struct fsm_owners *owners, const struct tag_row *row)
{
    struct owner *owner = row->client != 0 ? find(owners, row->client) : NULL;

    if (row->client == 0) {
        return;
    }
    if (owner == NULL) {
        owner = MUST_HAVE(calloc(1, sizeof *owner));
        owner->client = row->client;
        owner->hash = client_hash(owners, row->client);
        hash_table_add(&owners->table, &owner->link);
        owners->bytes += OWNER_BYTES;
    }
    owner->held += tag_share_bytes(row);
}

void fsm_owners_leave(struct fsm_owners *owners, const struct tag_row *row)
{
    struct owner *owner = row->client != 0 ? find(owners, row->client) : NULL;

    if (row->client == 0) {
        return;
    }
    ASSERT(owner != NULL && owner->held >= tag_share_bytes(row));
    owner->held -= tag_share_bytes(row);
    if (owner->held == 0) {
        drop(owners, owner);
    }
}

uint64_t fsm_owners_held(const struct fsm_owners *owners, uint64_t client)
{
    const struct owner *owner = client != 0 ? find(owners, client) : NULL;

    return owner != NULL ? owner->held : 0;
}
