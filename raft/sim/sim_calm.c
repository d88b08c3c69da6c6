/*
 * sim_calm.c - a majority is enough: while one leader and a majority of the voters can work, no
 * request at that leader is left without an answer, whatever is broken elsewhere.
 *
 * The happy path: sim_calm_look() is called again and again, and notes since when the same leader
 * leads with the same voters, all of them and their links in order. A request that waited at the
 * leader through such a time and still timed out is a failure. It needs no healing to show, so it
 * finds what the quiet end hides, where all nodes come back and set going again what was stuck.
 *
 * Thread: one.
 */
#include "raft/sim/sim.h"

#define CALM_MS 1500 /* of the patience of 3 s; more than an election takes, and a retry after it */

static bool works(const struct sim_node *node)
{
    return node->up && node->frozen_until_ms <= node->world->now_ms && !node->stopping &&
           !node->disk.low && node->disk.slow_until_ms <= node->world->now_ms;
}

static bool leads(struct sim_node *node)
{
    return works(node) && driver_leads(&node->replica.driver) &&
           !node->replica.requests.transferring;
}

static struct sim_node *leader_of(struct sim_world *world)
{
    struct sim_node *leader = NULL;

    for (unsigned i = 0; i < world->node_count; i++) {
        struct sim_node *node = &world->nodes[i];

        if (leads(node) &&
            (leader == NULL || raft_current_term(&node->replica.driver.raft) >
                                   raft_current_term(&leader->replica.driver.raft))) {
            leader = node;
        }
    }
    return leader;
}

/* The leader and the voters that can work with it, a bit an id; 0: they are no majority. */
static unsigned majority_of(struct sim_node *leader)
{
    const struct raft_configuration *configuration = &leader->replica.driver.raft.configuration;
    struct sim_world *world = leader->world;
    unsigned voters = 0;
    unsigned working = 0;
    unsigned who = 0;

    for (unsigned i = 0; i < configuration->n; i++) {
        const struct raft_server *server = &configuration->servers[i];
        const struct sim_node *node = &world->nodes[server->id - 1];

        if (server->role != RAFT_VOTER) {
            continue;
        }
        voters++;
        if (node == leader || (works(node) && sim_net_reaches(leader, node))) {
            working++;
            who |= 1u << (server->id - 1);
        }
    }
    return working >= voters / 2 + 1 ? who : 0;
}

/* Changes with each start of one of them. */
static uint64_t lives_of(const struct sim_world *world, unsigned who)
{
    uint64_t lives = 0;

    for (unsigned i = 0; i < world->node_count; i++) {
        lives += who & (1u << i) ? world->nodes[i].life : 0;
    }
    return lives;
}

void sim_calm_look(struct sim_world *world)
{
    struct sim_node *leader = world->drop_percent == 0 ? leader_of(world) : NULL;
    struct sim_calm calm = {.since_ms = world->now_ms};

    if (leader != NULL) {
        calm.who = majority_of(leader);
        calm.leader = leader->id;
        calm.term = raft_current_term(&leader->replica.driver.raft);
        calm.lives = lives_of(world, calm.who);
    }
    if (calm.who == 0 || calm.who != world->calm.who || calm.leader != world->calm.leader ||
        calm.term != world->calm.term || calm.lives != world->calm.lives) {
        world->calm = calm;
    }
}

void sim_calm_timed_out(struct sim_node *node, const char *what)
{
    struct sim_world *world = node->world;

    sim_calm_look(world);
    if (world->calm.who != 0 && world->calm.leader == node->id &&
        world->now_ms - world->calm.since_ms >= CALM_MS) {
        sim_fail(world, "%s timed out at node %llu, which has led a majority for %llu ms", what,
                 (unsigned long long)node->id,
                 (unsigned long long)(world->now_ms - world->calm.since_ms));
    }
}
