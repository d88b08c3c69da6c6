/*
 * sim_calm.c - see sim_calm.h. Thread: one.
 */
#include "cluster-tests/sim/sim_calm.h"

#include <inttypes.h>

#define CALM_MS 1500 /* of the patience of 3 s; more than an election takes, and a retry after it */
/* Six election timeouts: one to step down, and candidacies that a slow write of a vote thwarts. */
#define DEAF_MS 2400
#define LAG_MAX 64    /* entries */
#define REACH_MS 2000 /* likewise, and a way is found, with frames that are overtaken */

static bool works(const struct sim_node *node)
{
    return node->up && node->frozen_until_ms <= node->world->now_ms && !node->stopping &&
           !node->disk.low && node->disk.slow_until_ms <= node->world->now_ms &&
           node->drift.until_ms <= node->world->now_ms;
}

static bool leads(struct sim_node *node)
{
    return works(node) && driver_leads(&node->replica.driver) &&
           !node->replica.requests.serving.holding;
}

static struct sim_node *leader_of(struct sim_world *world)
{
    struct sim_node *leader = NULL;

    SIM_NODE_FOREACH (node, world) {
        if (leads(node) && (leader == NULL || driver_term(&node->replica.driver) >
                                                  driver_term(&leader->replica.driver))) {
            leader = node;
        }
    }
    return leader;
}

/* Nearly everything that is committed is known to be there. (The core looks for where a log that
 * lies far behind agrees with its own index by index.) A voter that is so far behind that it is
 * sent a snapshot acknowledges nothing meanwhile. */
static bool keeps_up(struct sim_node *leader, uint64_t id)
{
    struct driver *driver = &leader->replica.driver;
    uint64_t match;

    return snapshot_to(&driver->transfers, id) == NULL && driver_match(driver, id, &match) &&
           match + LAG_MAX >= driver->commit;
}

/* The leader and the voters that can work with it, a bit an id; 0: they are no majority. */
static unsigned majority_of(struct sim_node *leader)
{
    const struct configuration *conf = driver_configuration(&leader->replica.driver);
    unsigned who = 0;

    MEMBER_FOREACH (server, conf) {
        const struct sim_node *node = &leader->world->nodes[server->id - 1];

        if (server->role == ROLE_VOTER &&
            (node == leader ||
             (works(node) && sim_reaches(leader, node) && keeps_up(leader, server->id)))) {
            who |= BIT(server->id);
        }
    }
    return BIT_COUNT(who) > configuration_voters(conf) / 2 ? who : 0;
}

/* Changes with each start of one of them. */
static uint64_t incarnations_of(const struct sim_world *world, unsigned who)
{
    uint64_t incarnations = 0;

    SIM_NODE_FOREACH (node, world) {
        incarnations += who & BIT(node->id) ? node->incarnation : 0;
    }
    return incarnations;
}

static struct sim_voters voters_of(const struct sim_node *leader, unsigned who)
{
    return (struct sim_voters){.who = who,
                               .leader = leader->id,
                               .term = driver_term(&leader->replica.driver),
                               .incarnations = incarnations_of(leader->world, who),
                               .since_ms = leader->world->now_ms};
}

/* --- who reaches the leader --- */

/* Both ways, and each keeps links with the other. */
static bool are_linked(const struct sim_node *one, const struct sim_node *other)
{
    return sim_reaches(one, other) && (one->peers & BIT(other->id)) &&
           (other->peers & BIT(one->id));
}

static bool reaches_leader(struct sim_node *node)
{
    struct sim_world *world = node->world;
    struct sim_node *leader = &world->nodes[world->calm.leader - 1];

    if (!works(node) || driver_member(&leader->replica.driver, node->id) == NULL) {
        return false;
    }
    if (node == leader || are_linked(node, leader)) {
        return true;
    }
    SIM_NODE_FOREACH (between, world) {
        if ((world->calm.who & BIT(between->id)) && between != node && are_linked(node, between) &&
            driver_leader(&between->replica.driver) == leader->id) {
            return true;
        }
    }
    return false;
}

static void look_at_reach(struct sim_world *world, bool same)
{
    SIM_NODE_FOREACH (node, world) {
        struct sim_reach *reach = &world->reach[node->id - 1];
        bool reaches = world->calm.who != 0 && reaches_leader(node);

        if (!same || !reaches || !reach->reaches || reach->incarnation != node->incarnation) {
            *reach = (struct sim_reach){reaches, node->incarnation, world->now_ms};
        }
    }
}

/* --- a leader that hears nobody --- */

/* A leader and those that hear it and each other, a majority of the voters without it; none of them
 * is heard by it, and none of them goes by a later configuration, in which they may be no majority.
 * A bit an id; 0: it is not so. */
static unsigned deaf_majority(struct sim_node *leader)
{
    struct sim_world *world = leader->world;
    const struct configuration *conf = driver_configuration(&leader->replica.driver);
    unsigned who = 0;

    if (!sim_is_quiet(world) || driver_pending_change(&leader->replica.driver) != 0) {
        return 0;
    }
    MEMBER_FOREACH (server, conf) {
        struct sim_node *node = &world->nodes[server->id - 1];
        bool hears = works(node) && !world->cut[leader->id - 1][node->id - 1];

        if (node == leader || server->role != ROLE_VOTER || !hears) {
            continue;
        }
        if (!world->cut[node->id - 1][leader->id - 1] ||
            driver_pending_change(&node->replica.driver) != 0 ||
            driver_applied_change(&node->replica.driver) >
                driver_applied_change(&leader->replica.driver)) {
            return 0;
        }
        SIM_NODE_FOREACH (other, world) {
            if ((who & BIT(other->id)) && !are_linked(node, other)) {
                return 0;
            }
        }
        who |= BIT(node->id);
    }
    return BIT_COUNT(who) > configuration_voters(conf) / 2 ? who | BIT(leader->id) : 0;
}

static void look_at_deaf(struct sim_world *world, struct sim_node *leader)
{
    struct sim_voters *deaf = &world->deaf;

    if (leader != NULL && (deaf->who == 0 || deaf->term != driver_term(&leader->replica.driver))) {
        *deaf = voters_of(leader, deaf_majority(leader));
        world->stats.deaf += deaf->who != 0;
    }
    if (deaf->who == 0) {
        return;
    }
    leader = &world->nodes[deaf->leader - 1];
    if (!works(leader) || deaf_majority(leader) != deaf->who ||
        sim_is_led_later(world, deaf->term) ||
        incarnations_of(world, deaf->who) != deaf->incarnations) {
        deaf->who = 0;
    } else if (world->now_ms - deaf->since_ms > DEAF_MS) {
        sim_fail(world, "node %u hears nobody, and %" PRIu64 " ms later nobody leads a newer term",
                 leader->id, (world->now_ms - deaf->since_ms));
    }
}

void sim_calm_look(struct sim_world *world)
{
    struct sim_node *leader = world->drop_percent == 0 ? leader_of(world) : NULL;
    struct sim_voters calm = {.since_ms = world->now_ms};
    bool same;

    if (leader != NULL) {
        calm = voters_of(leader, majority_of(leader));
    }
    same = calm.who != 0 && calm.who == world->calm.who && calm.leader == world->calm.leader &&
           calm.term == world->calm.term && calm.incarnations == world->calm.incarnations;
    if (!same) {
        world->calm = calm;
    }
    look_at_reach(world, same);
    look_at_deaf(world, leader);
}

static void fail(const struct sim_node *node, const char *what, uint64_t since_ms)
{
    struct sim_world *world = node->world;

    sim_fail(world, "%s timed out at node %u, which %s a majority for %" PRIu64 " ms", what,
             node->id, world->calm.leader == node->id ? "has led" : "has reached the leader of",
             (world->now_ms - since_ms));
}

void sim_calm_timed_out(struct sim_node *node, int status, const char *what)
{
    struct sim_world *world = node->world;
    const struct sim_reach *reach = &world->reach[node->id - 1];

    if (status != ERR_TIMEOUT && status != ERR_NO_LEADER) {
        return;
    }
    sim_calm_look(world);
    if (world->calm.who != 0 && world->calm.leader == node->id &&
        world->now_ms - world->calm.since_ms >= CALM_MS) {
        fail(node, what, world->calm.since_ms);
    }
    if (reach->reaches && world->now_ms - reach->since_ms >= REACH_MS) {
        fail(node, what, reach->since_ms);
    }
}
