/*
 * sim_planted.c - see sim_planted.h. Thread: one.
 */
#include "cluster-tests/sim/sim_planted.h"

#include "raft/core/prepare.h"
#include "cluster-tests/sim/sim_level.h"
#include "cluster-tests/sim/sim_node.h"
#include "cluster-tests/sim/sim_store.h"
#include "src/base/assert.h"
#include "src/base/log.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"

#define VOTERS_MIN 3

static bool in_this_run(const struct sim_world *world)
{
    return world->seed % 3 == 1 && world->member_faults;
}

/* A voter, where all members are up: those that are left are a majority of one state. */
static struct sim_node *choose(struct sim_world *world)
{
    const struct sim_conf conf = sim_configuration_of(sim_newest(world));
    struct sim_node *chosen = NULL;
    unsigned count = 0;

    SIM_NODE_FOREACH (node, world) {
        const bool is_voter = (conf.voters & BIT(node->id)) != 0;

        if ((conf.members & BIT(node->id)) == 0) {
            continue;
        }
        if (!node->up || node->gone || node->stopping) {
            return NULL;
        }
        if (is_voter && sim_below(world, ++count) == 0) {
            chosen = node;
        }
    }
    return count >= VOTERS_MIN ? chosen : NULL;
}

static void commit(struct sim_node *node, const struct store_loaded *loaded, struct state *state,
                   const struct row_changes *changes)
{
    struct store_op op = {
        .kind = STORE_APPLY, .position = loaded->position, .rows = changes->items, .row_count = 1};

    ASSERT(changes->count == 1);
    op.position.digest = state_digest(state);
    sim_store_write(node, &op);
}

/* True if there was a row to be changed. */
static bool plant(struct sim_node *node)
{
    struct state *state = state_new(&fsm_machine);
    struct fsm *fsm = fsm_of(state);
    struct row_changes changes = {0};
    struct store_loaded loaded;
    struct store_error error = {{0}};
    struct fsm_row *row;
    bool planted;

    sim_store_open(node);
    state_speaks(state, sim_level_of(node));
    state_load_begin(state);
    if (node->store->ops->load(node->store, &loaded, state_load_row, state, &error) != 0 ||
        state_load_end(state, loaded.position.index) != 0) {
        sim_fail(node->world, "node %u: its disk cannot be read: %s", node->id, error.text);
    }
    sim_store_close(node);
    row = fsm_tags_seek(&fsm->tags, "", 0);
    planted = row != NULL && row->created_ms > 0;
    if (planted) {
        state->journal.changes = &changes;
        fsm_tags_change_begin(fsm, row);
        row->created_ms--;
        fsm_tags_change_end(fsm, row);
        state->journal.changes = NULL;
        commit(node, &loaded, state, &changes);
    }
    row_changes_release(&changes);
    store_loaded_release(&loaded);
    state_free(state);
    return planted;
}

bool sim_planted_strike(struct sim_world *world)
{
    struct sim_node *node = in_this_run(world) ? choose(world) : NULL;

    if (node == NULL) {
        return false;
    }
    log_setup((enum log_level)(LOG_LEVEL_ERROR + 1), 0); /* of the difference there is an alarm */
    sim_node_end(node);
    if (plant(node)) {
        sim_trace(world, "the state of node %u is another on its disk", node->id);
        world->stats.planted++;
        node->planted = true;
    }
    sim_node_start(node);
    return node->planted;
}

/* The tag was made anew since, so that nothing is left of it. */
static bool is_healed(const struct sim_node *node)
{
    SIM_NODE_FOREACH (other, node->world) {
        if (other != node && other->up &&
            driver_applied(&other->replica.driver)->index ==
                driver_applied(&node->replica.driver)->index &&
            state_digest(other->replica.state) == state_digest(node->replica.state)) {
            return true;
        }
    }
    return false;
}

void sim_planted_check(struct sim_world *world)
{
    SIM_NODE_FOREACH (node, world) {
        if (node->planted && !node->gone && node->up && is_healed(node)) {
            node->planted = false;
        }
        if (node->planted && (node->up || !node->gone)) {
            sim_fail(world, "node %u has another state, and goes on", node->id);
        }
    }
    log_setup(LOG_LEVEL_ERROR, 0);
}
