/*
 * sim_store.c - see sim_store.h. Thread: one.
 */
#include "cluster-tests/sim/sim_store.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "storage/lmdb/dir.h"
#include "storage/lmdb/store.h"

#define MAP_BYTES (64 << 20)
#define SLICE_ROWS 2 /* so that rows are owed, though few change at once */

static struct store_identity identity_of(const struct sim_node *node)
{
    return (struct store_identity){
        .cluster_id = "sim", .node_id = node->id, .store_id = 999 + node->id};
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
    struct store_lmdb_config config = {
        .dir = dir, .map_bytes = MAP_BYTES, .slice_rows = SLICE_ROWS};
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

void sim_store_write(struct sim_node *node, struct store_op *op)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_error error = {{0}};

    STAILQ_INSERT_TAIL(&list, op, link);
    sim_store_open(node);
    if (node->store->ops->commit(node->store, &list, &error) != 0) {
        sim_fail(node->world, "node %u: its disk cannot be changed: %s", node->id, error.text);
    }
    sim_store_close(node);
}

void sim_store_free(struct sim_node *node)
{
    if (node->world->store_dir == NULL) {
        store_mem_free(node->store);
    }
    for (unsigned i = 0; i < SIM_COPIES; i++) {
        if (node->kept[i].store != NULL) {
            store_mem_free(node->kept[i].store);
        }
    }
    ASSERT_IMPLIES(node->world->store_dir != NULL, node->store == NULL);
}

/* --- copies --- */

#define PATH_BYTES (SIM_STORE_DIR_BYTES + 64)

static const char *file_of(const struct sim_node *node, const char *name, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/%u%s", node->world->store_dir, node->id, name);
    return path;
}

static void copy_file(const struct sim_node *node, const char *from, const char *to)
{
    static char bytes[1 << 16];
    char path[PATH_BYTES];
    FILE *in = fopen(file_of(node, from, path), "rb");
    FILE *out = fopen(file_of(node, to, path), "wb");
    size_t len;

    ASSERT(in != NULL && out != NULL);
    while ((len = fread(bytes, 1, sizeof bytes, in)) > 0) {
        ASSERT(fwrite(bytes, 1, len, out) == len);
    }
    ASSERT(ferror(in) == 0 && fclose(out) == 0);
    (void)fclose(in);
}

static const char DATA_FILE[] = "/" LMDB_DB "/" LMDB_DATA_FILE;
static const char *const COPY_FILES[SIM_COPIES] = {".older", ".newest"};

void sim_store_keep(struct sim_node *node, enum sim_copy copy)
{
    struct sim_kept *kept = &node->kept[copy];

    kept->term = node->disk_term;
    kept->vote = node->disk_vote;
    kept->incarnation = node->disk_incarnation;
    if (node->world->store_dir != NULL) {
        copy_file(node, DATA_FILE, COPY_FILES[copy]); /* between two commits it is whole */
        return;
    }
    if (kept->store != NULL) {
        store_mem_free(kept->store);
    }
    kept->store = store_mem_copy(node->store);
}

void sim_store_put_back(struct sim_node *node, enum sim_copy copy)
{
    const struct sim_kept *kept = &node->kept[copy];

    ASSERT(!node->up && kept->incarnation > 0);
    node->disk_term = kept->term;
    node->disk_vote = kept->vote;
    node->disk_incarnation = kept->incarnation;
    if (node->world->store_dir != NULL) {
        copy_file(node, COPY_FILES[copy], DATA_FILE);
        return;
    }
    store_mem_free(node->store);
    node->store = store_mem_copy(kept->store);
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
