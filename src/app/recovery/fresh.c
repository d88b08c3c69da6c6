/*
 * fresh.c - see fresh.h. Thread: main.
 */
#include "src/app/recovery/fresh.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "raft/core/prepare.h"
#include "raft/wire/configuration.h"
#include "src/base/assert.h"
#include "src/base/prng.h"
#include "storage/lmdb/dir.h"
#include "storage/lmdb/store.h"

#define MAP_MIN_BYTES (64ULL << 20)
#define MAP_FACTOR 4 /* rows in pages, and the copy that a transaction makes */

int fresh_check(const char *dir, struct store_error *ret_error)
{
    DIR *open = opendir(dir);
    struct dirent *entry;
    int err = 0;

    if (open == NULL) {
        return errno == ENOENT ? 0
                               : store_error_set(ret_error, ERR_IO, "cannot look into %.150s: %s",
                                                 dir, strerror(errno));
    }
    while (err == 0 && (entry = readdir(open)) != NULL) {
        if (!lmdb_dir_is_left(entry->d_name)) {
            err = store_error_set(ret_error, ERR_EXISTS,
                                  "%.120s is not empty: there is %.60s in it. Name a directory "
                                  "that is empty, or not there yet",
                                  dir, entry->d_name);
        }
    }
    (void)closedir(open);
    return err;
}

/* A page size is a power of two up to 64 KiB. */
static uint64_t map_bytes(const struct fresh *fresh)
{
    uint64_t bytes = MAP_MIN_BYTES + MAP_FACTOR * (uint64_t)fresh->rows_len;

    return bytes & ~UINT64_C(0xffff);
}

int fresh_write(const struct fresh *fresh, uint64_t *ret_store_id, struct store_error *ret_error)
{
    struct configuration configuration = {0};
    BUF_LOCAL(conf);
    BUF_LOCAL(starts);
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op term = {.kind = STORE_HARD_STATE, .term = fresh->term};
    struct store_op install = {
        .kind = STORE_INSTALL, .rows_stream = fresh->rows, .rows_stream_len = fresh->rows_len};
    struct store_op incarnation = {.kind = STORE_LOCAL, .local_key = LOCAL_INCARNATION};
    struct store_lmdb_config config = {
        .use = STORE_LMDB_FRESH,
        .dir = fresh->dir,
        .map_bytes = map_bytes(fresh),
        .identity = {.node_id = fresh->node_id, .store_id = prng_entropy()},
        .loose_mode = true, /* the node that starts on it looks at that */
        .first = &list};
    struct store *store;
    bool made;
    int err;

    configuration_add(&configuration, fresh->node_id, fresh->address, ROLE_VOTER);
    configuration_encode(&configuration, &conf);
    prepare_member_record(1, &starts);
    install.position = (struct store_position){.index = fresh->index,
                                               .term = fresh->term,
                                               .conf_index = fresh->index,
                                               .conf = conf.data,
                                               .conf_len = (uint32_t)conf.len,
                                               .digest = fresh->digest};
    incarnation.local = starts.data;
    incarnation.local_len = (uint32_t)starts.len;
    STAILQ_INSERT_TAIL(&list, &term, link);
    STAILQ_INSERT_TAIL(&list, &install, link);
    STAILQ_INSERT_TAIL(&list, &incarnation, link);
    (void)snprintf(config.identity.cluster_id, sizeof config.identity.cluster_id, "%s",
                   fresh->cluster_id);
    err = store_lmdb_open(&config, &store, &made, ret_error);
    if (err == 0) {
        ASSERT(made);
        store->ops->close(store);
    }
    *ret_store_id = config.identity.store_id;
    return err;
}
