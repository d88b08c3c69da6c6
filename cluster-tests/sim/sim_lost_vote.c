/*
 * sim_lost_vote.c - see sim_lost_vote.h. Thread: one.
 */
#include "cluster-tests/sim/sim_lost_vote.h"

#include <inttypes.h>

#include "cluster-tests/sim/sim_node.h"
#include "cluster-tests/sim/sim_store.h"
#include "src/base/log.h"

#define VOTERS_MIN 3

/* Nothing but that vote is on the disk, or on its way there, of what came after the term before. */
static bool is_alone(const struct sim_node *node)
{
    const struct driver *driver = &node->replica.driver;

    return node->disk.queued == 0 && node->disk_vote != 0 && node->disk_vote != node->id &&
           node->before_term > 1 && node->disk_term == node->before_term + 1 &&
           witness_term_at(&driver->witness, entry_log_last(&driver->log)) <= node->before_term;
}

/* Does anybody know of a change of the members, or was any voter to go? With the next configuration
 * the others may be no majority without this node, and it may not have heard of it yet. */
static bool members_change(const struct sim_world *world, unsigned voters)
{
    if (world->unwanted & voters) {
        return true;
    }
    SIM_NODE_FOREACH (node, world) {
        if (node->up && (driver_pending_change(&node->replica.driver) != 0 ||
                         state_member_change(node->replica.state) != NULL)) {
            return true;
        }
    }
    return false;
}

/* Does anybody still lead an earlier term than the vote's? With a voter that forgot the vote it
 * would be a majority, and commit what the new leader does not have; no node can prevent that
 * (docs/failure-model.md, older copies). */
static bool earlier_term_lives(const struct sim_node *voter)
{
    SIM_NODE_FOREACH (node, voter->world) {
        if (node->up && driver_is_leader(&node->replica.driver) &&
            driver_term(&node->replica.driver) < voter->disk_term) {
            return true;
        }
    }
    return false;
}

/* Would the cluster go on without it, whatever comes of it? */
static bool can_be_spared(const struct sim_node *node)
{
    const struct sim_conf conf = sim_configuration_of(node);
    unsigned alive = 0;

    if (state_birth(node->replica.state) == NULL) {
        return false; /* for a birth all have to meet */
    }

    SIM_NODE_FOREACH (other, node->world) {
        if (other->lost_vote || other->loses_vote ||
            (other->gone && (conf.members & BIT(other->id)))) {
            return false;
        }
        alive += (conf.voters & BIT(other->id)) != 0;
    }
    return alive >= VOTERS_MIN && (conf.voters & BIT(node->id)) != 0 &&
           !members_change(node->world, conf.voters) && !earlier_term_lives(node);
}

bool sim_lost_vote_wanted(struct sim_node *node)
{
    const struct sim_world *world = node->world;

    /* Of the other third copies are put back. Who is refused has to be removed. */
    if (world->seed % 3 == 0 || !world->member_faults || node->stopping || !is_alone(node) ||
        !can_be_spared(node)) {
        return false;
    }
    node->loses_vote = true;
    return true;
}

void sim_lost_vote_ended(struct sim_node *node)
{
    struct store_op op = {.kind = STORE_HARD_STATE,
                          .term = node->before_term,
                          .vote = node->before_vote,
                          .lower = true};

    if (!node->loses_vote) {
        return;
    }
    node->loses_vote = false;
    sim_trace(node->world, "the disk of node %u loses its vote for %" PRIu64 " in term %" PRIu64,
              node->id, node->disk_vote, node->disk_term);
    sim_store_write(node, &op);
    node->disk_term = node->before_term;
    node->disk_vote = node->before_vote;
    log_setup(LOG_LEVEL_ERROR, 0); /* of each refused frame there is a warning */
    node->set_back = true;
    node->lost_vote = true;
    node->world->stats.lost_votes++;
}

void sim_lost_vote_refused(struct sim_node *node)
{
    sim_node_crash(node);
    if (node->lost_vote) {
        node->gone = true;
    }
}
