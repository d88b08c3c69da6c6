/*
 * reload_keys.c - see reload_keys.h. Thread: main.
 */
#include "src/app/reload_keys.h"

#include "src/base/assert.h"

static int prepare(void *data, const struct config *next, struct config_error *ret_error)
{
    struct reload_keys *keys = data;
    char why[NET_KEYS_WHY_BYTES];

    ASSERT(keys->made == NULL);
    if (node_keys_prepare(&next->node.keys, &keys->made, why) != 0) {
        return config_fail(ret_error, "%s", why);
    }
    return 0;
}

static void commit(void *data, struct buf *ret_changes)
{
    struct reload_keys *keys = data;
    unsigned renewed = 0;
    bool changed = false;

    if (*keys->node != NULL) {
        changed = node_keys_commit(*keys->node, keys->made, &renewed);
    } else {
        net_keys_unref(keys->made);
    }
    keys->made = NULL;
    if (changed) {
        buf_printf(ret_changes, "other keys between nodes, %u links to renew", renewed);
    }
}

static void drop(void *data)
{
    struct reload_keys *keys = data;

    net_keys_unref(keys->made);
    keys->made = NULL;
}

struct reload_part reload_keys_part(struct reload_keys *keys)
{
    return (struct reload_part){.name = "keys between nodes",
                                .prepare = prepare,
                                .commit = commit,
                                .drop = drop,
                                .data = keys};
}
