/*
 * plant_row.c - make a node's state another one, as a bug of apply or bad memory would: for the
 * tests of real processes, and for them alone.
 *
 *     plant-row DATA-DIR TAG BY
 *
 * moves the max_id of a tag by BY, in a data directory whose node is stopped. All checksums and the
 * digest are right afterwards, so the node starts, and differs. Exits with 0, or 1 and a reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/applier.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "storage/lmdb/store.h"

static int commit(struct store *store, const struct store_loaded *loaded, struct state *state,
                  const struct row_changes *changes, struct store_error *error)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);
    struct store_op op = {.kind = STORE_APPLY, .position = loaded->position};
    int rv;

    op.position.digest = state_digest(state);
    op.rows = changes->items;
    op.row_count = (uint32_t)changes->count;
    STAILQ_INSERT_TAIL(&list, &op, link);
    rv = store->ops->commit(store, &list, error);
    return rv;
}

static int plant(struct store *store, const char *name, long by, struct store_error *error)
{
    struct state *state = state_new(&fsm_machine);
    struct fsm *fsm = fsm_of(state);
    struct row_changes changes = {0};
    struct store_loaded loaded;
    struct fsm_row *row = NULL;
    int rv;

    state_load_begin(state);
    rv = store->ops->load(store, &loaded, state_load_row, state, error);
    if (rv == 0) {
        rv = state_load_end(state, loaded.position.index);
        row = fsm_tags_find(&fsm->tags, name, strlen(name));
    }
    if (rv == 0 && row == NULL) {
        rv = store_error_set(error, ERR_UNKNOWN_TAG, "there is no tag %s", name);
    }
    if (rv == 0) {
        state->journal.changes = &changes;
        fsm_tags_change_begin(fsm, row);
        row->max_id += (uint64_t)by;
        fsm_tags_change_end(fsm, row);
        state->journal.changes = NULL;
        rv = commit(store, &loaded, state, &changes, error);
    }
    row_changes_release(&changes);
    state_free(state);
    store_loaded_release(&loaded);
    return rv;
}

int main(int argc, char **argv)
{
    struct store_lmdb_config config = {.use = STORE_LMDB_LOOK, .map_bytes = 1ULL << 30};
    struct store_error error = {""};
    struct store *store;
    bool made;
    int rv;

    if (argc != 4) {
        fprintf(stderr, "usage: plant-row DATA-DIR TAG BY\n");
        return 1;
    }
    config.dir = argv[1];
    rv = store_lmdb_open(&config, &store, &made, &error);
    if (rv == 0) {
        rv = plant(store, argv[2], strtol(argv[3], NULL, 10), &error);
        store->ops->close(store);
    }
    if (rv != 0) {
        fprintf(stderr, "plant-row: %s: %s\n", err_code(rv), error.text);
    }
    return rv == 0 ? 0 : 1;
}
