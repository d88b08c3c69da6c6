/*
 * sim_store.c - see sim_store.h. Thread: one.
 */
#include "raft/sim/sim_store.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "storage/lmdb/store.h"

#define MAP_BYTES (64 << 20)

static struct store_identity identity_of(const struct sim_node *node)
{
    struct store_identity identity = {.cluster_id = "sim"};

    identity.node_id = node->id;
    identity.store_id = 999 + node->id;
    return identity;
}

void sim_store_init(struct sim_node *node)
{
    struct store_identity identity = identity_of(node);

    node->store = node->world->store_dir == NULL ? store_mem_new(&identity) : NULL;
}

void sim_store_open(struct sim_node *node)
{
    char dir[SIM_STORE_DIR_BYTES + 16];
    struct store_error error = {{0}};
    struct store_lmdb_config config = {.dir = dir, .map_bytes = MAP_BYTES};
    bool made;

    if (node->world->store_dir == NULL) {
        return;
    }
    ASSERT(node->store == NULL);
    (void)snprintf(dir, sizeof dir, "%s/%u", node->world->store_dir, node->id);
    config.identity = identity_of(node);
    if (store_lmdb_open(&config, &node->store, &made, &error) != 0) {
        sim_fail(node->world, "node %u: its store does not open: %s", node->id, error.text);
    }
    if (made != (node->disk_incarnation == 0)) {
        sim_fail(node->world, "node %u: its store was %s", node->id,
                 made ? "made anew" : "there before");
    }
}

void sim_store_close(struct sim_node *node)
{
    node->store->ops->close(node->store);
    if (node->world->store_dir == NULL) {
        store_mem_reopen(node->store);
    } else {
        node->store = NULL;
    }
}

void sim_store_free(struct sim_node *node)
{
    if (node->world->store_dir == NULL) {
        store_mem_free(node->store);
    }
    ASSERT_IMPLIES(node->world->store_dir != NULL, node->store == NULL);
}

/* --- where they lie --- */

void sim_store_dir_make(char dir[SIM_STORE_DIR_BYTES])
{
    bool shm = access("/dev/shm", W_OK | X_OK) == 0;

    (void)snprintf(dir, SIM_STORE_DIR_BYTES, "%s/leafd-sim-XXXXXX", shm ? "/dev/shm" : "/tmp");
    ASSERT(mkdtemp(dir) != NULL);
}

static int remove_cb(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void sim_store_dir_remove(const char *dir)
{
    ASSERT(nftw(dir, remove_cb, 8, FTW_DEPTH | FTW_PHYS) == 0);
}
