/*
 * fsm_addresses.c - see fsm_addresses.h. Thread: one owner.
 */
#include "src/id/fsm/fsm_addresses.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/assert.h"

void fsm_addresses_init(struct fsm_addresses *addresses, struct fsm_journal *journal)
{
    *addresses = (struct fsm_addresses){.journal = journal};
}

void fsm_addresses_clear(struct fsm_addresses *addresses)
{
    uint64_t changes = addresses->changes + 1;

    free(addresses->items);
    fsm_addresses_init(addresses, addresses->journal);
    addresses->changes = changes;
}

static struct member_move *find(const struct fsm_addresses *addresses, uint64_t node_id)
{
    for (size_t i = 0; i < addresses->count; i++) {
        if (addresses->items[i].node_id == node_id) {
            return &addresses->items[i];
        }
    }
    return NULL;
}

void fsm_addresses_set(struct fsm_addresses *addresses, const struct member_move *move)
{
    struct member_move *row = find(addresses, move->node_id);

    ASSERT(member_move_is_sound(move));
    if (row != NULL && strcmp(row->address, move->address) == 0) {
        return;
    }
    fsm_journal_node(addresses->journal, FSM_TABLE_ADDRESSES, move->node_id, &member_move_format,
                     row, move);
    if (row == NULL) {
        ASSERT(addresses->count < LIMIT_NODE_ID);
        addresses->items = array_room(addresses->items, addresses->count, &addresses->capacity,
                                      sizeof *addresses->items);
        row = &addresses->items[addresses->count++];
    }
    *row = *move;
    addresses->changes++;
}

void fsm_addresses_forget(struct fsm_addresses *addresses, uint64_t node_id)
{
    struct member_move *row = find(addresses, node_id);

    if (row == NULL) {
        return;
    }
    fsm_journal_node(addresses->journal, FSM_TABLE_ADDRESSES, node_id, &member_move_format, row,
                     NULL);
    *row = addresses->items[--addresses->count];
    addresses->changes++;
}

const char *fsm_addresses_find(const struct fsm_addresses *addresses, uint64_t node_id)
{
    const struct member_move *row = find(addresses, node_id);

    return row != NULL ? row->address : NULL;
}

int fsm_addresses_load(struct fsm_addresses *addresses, const struct fsm_loaded *row)
{
    struct member_move move = {0};
    int err;

    if (row->key_len != FSM_NODE_KEY_BYTES) {
        return ERR_CORRUPT;
    }
    move.node_id = fsm_key_node(row->key);
    err = row_read(row->value, row->value_len, &member_move_format, &move);
    if (err == 0 && find(addresses, move.node_id) != NULL) {
        err = ERR_EXISTS;
    }
    if (err == 0) {
        fsm_addresses_set(addresses, &move);
    }
    return err;
}
