/*
 * fsm_nodes.c - see fsm_nodes.h.
 */
#include "src/id/fsm/fsm_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"

#define FIRST_CAPACITY 8

void fsm_nodes_init(struct fsm_nodes *nodes, struct fsm_journal *journal)
{
    *nodes = (struct fsm_nodes){.journal = journal};
}

void fsm_nodes_clear(struct fsm_nodes *nodes)
{
    free(nodes->items);
    fsm_nodes_init(nodes, nodes->journal);
}

/* Where the node stands, or would. */
static size_t place(const struct fsm_nodes *nodes, uint64_t node_id)
{
    size_t low = 0;
    size_t high = nodes->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (nodes->items[middle].node_id < node_id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct node_info *fsm_nodes_find(const struct fsm_nodes *nodes, uint64_t node_id)
{
    size_t at = place(nodes, node_id);

    return at < nodes->count && nodes->items[at].node_id == node_id ? &nodes->items[at] : NULL;
}

/* The row's key and value into the journal. */
static void journal_put(struct fsm_nodes *nodes, const struct node_info *info)
{
    fsm_journal_node_key(nodes->journal, FSM_TABLE_NODES, info->node_id);
    fsm_journal_value(nodes->journal);
    node_info_row_encode(info, &nodes->journal->row);
}

/* Room for one more at a place. */
static void make_room(struct fsm_nodes *nodes, size_t at)
{
    if (nodes->count == nodes->capacity) {
        nodes->capacity = nodes->capacity > 0 ? nodes->capacity * 2 : FIRST_CAPACITY;
        nodes->items = realloc(nodes->items, nodes->capacity * sizeof *nodes->items);
        ASSERT(nodes->items != NULL);
    }
    memmove(&nodes->items[at + 1], &nodes->items[at], (nodes->count - at) * sizeof *nodes->items);
    nodes->count++;
}

void fsm_nodes_put(struct fsm_nodes *nodes, const struct node_info *info)
{
    const struct node_info *old = fsm_nodes_find(nodes, info->node_id);
    size_t at = place(nodes, info->node_id);

    if (old == NULL) {
        make_room(nodes, at);
    } else if (old->store_id == info->store_id && strcmp(old->version, info->version) == 0 &&
               strcmp(old->http_address, info->http_address) == 0) {
        return;
    } else {
        journal_put(nodes, old);
        fsm_journal_leave(nodes->journal);
    }
    nodes->items[at] = *info;
    ASSERT(at == 0 || nodes->items[at - 1].node_id < info->node_id);
    journal_put(nodes, info);
    fsm_journal_enter(nodes->journal);
}

int fsm_nodes_load(struct fsm_nodes *nodes, const uint8_t *key, size_t key_len, const void *value,
                   size_t value_len)
{
    struct node_info info;
    int err;

    if (key_len != FSM_NODE_KEY_BYTES) {
        return ERR_CORRUPT;
    }
    err = node_info_row_decode(fsm_key_node(key), value, value_len, &info);
    if (err != 0) {
        return err;
    }
    if (fsm_nodes_find(nodes, info.node_id) != NULL) {
        return ERR_EXISTS;
    }
    fsm_nodes_put(nodes, &info);
    return 0;
}
