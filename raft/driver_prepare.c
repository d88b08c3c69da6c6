/*
 * driver_prepare.c - a store made ready for a start: the first configuration, or the mark of a node
 * that joins, and a term of its own for a sole voter.
 *
 * The happy path: a new store gets term 1 and entry 1, which holds the configuration, in two
 * commits. Failure modes: a crash between the two is noticed at the next start; any error of the
 * store ends this one.
 *
 * Thread: the one that starts the driver, before the writer runs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "raft/driver_internal.h"
#include "raft/guard.h"
#include "raft/wire.h"
#include "src/base/assert.h"

/* What a node that joins has on its disk before it hears of the log: a vote for itself in the term
 * of the first configuration, which nobody ever stands for. So it can never be taken for a node that
 * is to make a first configuration of its own. */
#define JOINER_TERM 1

static int commit_one(struct store *store, struct store_op *op, struct store_error *ret_error)
{
    struct store_op_list list = STAILQ_HEAD_INITIALIZER(list);

    STAILQ_INSERT_TAIL(&list, op, link);
    return store->ops->commit(store, &list, ret_error);
}

static int write_term(struct store *store, struct store_loaded *loaded, uint64_t term,
                      uint64_t vote, struct store_error *ret_error)
{
    struct store_op op = {.kind = STORE_HARD_STATE, .term = term, .vote = vote};
    int rv = commit_one(store, &op, ret_error);

    if (rv == 0) {
        loaded->term = term;
        loaded->vote = vote;
    }
    return rv;
}

static int bootstrap(struct store *store, struct store_loaded *loaded,
                     const struct net_peer *members, size_t member_count,
                     struct store_error *ret_error)
{
    struct raft_configuration configuration;
    struct buf conf = BUF_INIT;
    struct store_entry entry;
    struct store_op op = {.kind = STORE_APPEND, .index = 1, .entry_count = 1, .entries = &entry};
    int rv = write_term(store, loaded, 1, 0, ret_error);

    if (rv != 0) {
        return rv;
    }
    raft_configuration_init(&configuration);
    for (size_t i = 0; i < member_count; i++) {
        ASSERT(raft_configuration_add(&configuration, members[i].id, members[i].address,
                                      RAFT_VOTER) == 0);
    }
    driver_encode_configuration(&configuration, &conf);
    raft_configuration_close(&configuration);
    entry = (struct store_entry){1, RAFT_CHANGE, (uint32_t)conf.len, conf.data};
    rv = commit_one(store, &op, ret_error);
    if (rv != 0) {
        buf_free(&conf);
        return rv;
    }
    loaded->first_index = 1;
    free(loaded->entries);
    loaded->entries = calloc(1, sizeof *loaded->entries);
    ASSERT(loaded->entries != NULL);
    loaded->entries[0] = entry; /* conf's memory moves to loaded */
    loaded->entry_count = 1;
    return 0;
}

/* The configuration a start would run with: the last CHANGE of the log, or the position's. */
static int start_configuration(const struct store_loaded *loaded,
                               struct raft_configuration *ret_configuration)
{
    const void *conf = loaded->position.conf;
    size_t len = loaded->position.conf_len;

    for (size_t i = loaded->entry_count; i > 0; i--) {
        if (loaded->entries[i - 1].type == RAFT_CHANGE) {
            conf = loaded->entries[i - 1].data;
            len = loaded->entries[i - 1].len;
            break;
        }
    }
    return driver_decode_configuration(conf, len, ret_configuration);
}

bool driver_is_empty(const struct store_loaded *loaded)
{
    return loaded->entry_count == 0 && loaded->position.index == 0;
}

/* A crash between the two writes of a bootstrap leaves term 1 without a vote and an empty log; the
 * first election of any cluster is for a later term. */
bool driver_is_joiner(const struct store_loaded *loaded, uint64_t node_id)
{
    return driver_is_empty(loaded) &&
           (loaded->term > JOINER_TERM || (loaded->term == JOINER_TERM && loaded->vote == node_id));
}

int driver_prepare(struct store *store, struct store_loaded *loaded, uint64_t node_id,
                   const struct net_peer *members, size_t member_count,
                   struct store_error *ret_error)
{
    struct raft_configuration configuration;
    int rv = 0;

    if (driver_is_empty(loaded)) {
        if (driver_is_joiner(loaded, node_id)) {
            return 0;
        }
        if (member_count == 0) {
            return write_term(store, loaded, JOINER_TERM, node_id, ret_error);
        }
        rv = bootstrap(store, loaded, members, member_count, ret_error);
    }
    if (rv != 0) {
        return rv;
    }
    rv = start_configuration(loaded, &configuration);
    if (rv != 0) {
        snprintf(ret_error->text, sizeof ret_error->text, "the log's configuration is damaged");
        return rv;
    }
    if (guard_sole_voter(&configuration, node_id)) { /* G11 */
        rv = write_term(store, loaded, loaded->term + 1, node_id, ret_error);
    }
    raft_configuration_close(&configuration);
    return rv;
}

static int load_row(void *data, const struct store_row *row)
{
    return fsm_load_row(data, row->key, row->key_len, row->value, row->value_len);
}

int driver_load(struct store *store, struct fsm *fsm, uint64_t node_id,
                const struct net_peer *members, size_t member_count,
                struct store_loaded *ret_loaded, struct store_error *ret_error)
{
    int rv;

    fsm_load_begin(fsm);
    rv = store->ops->load(store, ret_loaded, load_row, fsm, ret_error);
    if (rv != 0) {
        return rv;
    }
    fsm_load_end(fsm, ret_loaded->position.index);
    rv = driver_prepare(store, ret_loaded, node_id, members, member_count, ret_error);
    if (rv != 0) {
        store_loaded_release(ret_loaded);
    }
    return rv;
}
