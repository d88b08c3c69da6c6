/*
 * fsm_owners.c - see fsm_owners.h.
 */
#include "src/id/fsm/fsm_owners.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"

/* Its piece of malloc, and its bucket. */
#define OWNER_BYTES ((sizeof(struct fsm_owner) + 8 + 15) / 16 * 16 + sizeof(void *))

static uint32_t owner_hash_of(const struct hash_link *link)
{
    return CONTAINER(link, const struct fsm_owner, link)->hash;
}

void fsm_owners_init(struct fsm_owners *owners)
{
    hash_table_init(&owners->table, owner_hash_of);
    owners->bytes = 0;
}

void fsm_owners_clear(struct fsm_owners *owners)
{
    ASSERT(owners->table.count == 0 && owners->bytes == 0);
    hash_table_free(&owners->table);
}

/* Clients are hashes already, but of a seed that is the same on all nodes. */
static uint32_t client_hash(const struct fsm_owners *owners, uint64_t client)
{
    return (uint32_t)hash_bytes(&client, sizeof client, owners->table.seed);
}

struct fsm_owner *fsm_owners_find(const struct fsm_owners *owners, uint64_t client)
{
    struct hash_link *link =
        client != 0 ? hash_table_chain(&owners->table, client_hash(owners, client)) : NULL;

    for (; link != NULL; link = link->next) {
        struct fsm_owner *owner = CONTAINER(link, struct fsm_owner, link);

        if (owner->client == client) {
            return owner;
        }
    }
    return NULL;
}

struct fsm_owner *fsm_owners_enter(struct fsm_owners *owners, uint64_t client, uint64_t amount)
{
    struct fsm_owner *owner = fsm_owners_find(owners, client);

    ASSERT(amount > 0);
    if (owner == NULL && client != 0) {
        owner = MUST_HAVE(calloc(1, sizeof *owner));
        owner->client = client;
        owner->hash = client_hash(owners, client);
        hash_table_add(&owners->table, &owner->link);
        owners->bytes += OWNER_BYTES;
    }
    if (owner != NULL) {
        owner->held += amount;
    }
    return owner;
}

void fsm_owners_leave(struct fsm_owners *owners, struct fsm_owner *owner, uint64_t amount)
{
    if (owner == NULL) {
        return;
    }
    ASSERT(owner->held >= amount);
    owner->held -= amount;
    if (owner->held == 0) {
        hash_table_remove(&owners->table, &owner->link);
        owners->bytes -= OWNER_BYTES;
        free(owner);
    }
}

uint64_t fsm_owners_held(const struct fsm_owners *owners, uint64_t client)
{
    const struct fsm_owner *owner = fsm_owners_find(owners, client);

    return owner != NULL ? owner->held : 0;
}
