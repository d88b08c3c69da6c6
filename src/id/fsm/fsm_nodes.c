/*
 * fsm_nodes.c - see fsm_nodes.h.
 */
#include "src/id/fsm/fsm_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/array.h"
#include "src/base/assert.h"
#include "src/id/codec/command.h"

void fsm_nodes_init(struct fsm_nodes *nodes, struct fsm_journal *journal)
{
    *nodes = (struct fsm_nodes){.journal = journal};
}

void fsm_nodes_clear(struct fsm_nodes *nodes)
{
    free(nodes->items);
    fsm_nodes_init(nodes, nodes->journal);
}

static struct node_info *find(const struct fsm_nodes *nodes, uint64_t node_id)
{
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->items[i].node_id == node_id) {
            return &nodes->items[i];
        }
    }
    return NULL;
}

const struct node_info *fsm_nodes_find(const struct fsm_nodes *nodes, uint64_t node_id)
{
    return find(nodes, node_id);
}

/* The row's key and value into the journal. */
static void journal_put(struct fsm_nodes *nodes, const struct node_info *info)
{
    fsm_journal_node_key(nodes->journal, FSM_TABLE_NODES, info->node_id);
    fsm_journal_value(nodes->journal);
    node_info_row_encode(info, &nodes->journal->row);
}

/* A new last row. */
static struct node_info *add(struct fsm_nodes *nodes)
{
    ASSERT(nodes->count <= nodes->capacity && nodes->count < LIMIT_NODE_ID);
    nodes->items = array_room(nodes->items, nodes->count, &nodes->capacity, sizeof *nodes->items);
    return &nodes->items[nodes->count++];
}

void fsm_nodes_put(struct fsm_nodes *nodes, const struct node_info *info)
{
    struct node_info *row = find(nodes, info->node_id);

    ASSERT(info->node_id >= 1 && info->node_id <= LIMIT_NODE_ID);
    if (row == NULL) {
        row = add(nodes);
    } else if (row->store_id == info->store_id && strcmp(row->version, info->version) == 0 &&
               strcmp(row->http_address, info->http_address) == 0) {
        return;
    } else {
        journal_put(nodes, row);
        fsm_journal_leave(nodes->journal);
    }
    *row = *info;
    journal_put(nodes, row);
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
