/*
 * sim_world.c - see sim_world.h. Thread: one.
 */
#include "cluster-tests/sim/sim_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/base/assert.h"

void sim_trace(const struct sim_world *world, const char *format, ...)
{
    va_list args;

    if (!world->verbose) {
        return;
    }
    printf("%8" PRIu64 "  ", world->now_ms);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void sim_fail(const struct sim_world *world, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "seed %" PRIu64 " at %" PRIu64 " ms: ", world->seed, world->now_ms);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n  replay it: make sim SEED=%" PRIu64 "%s\n", world->seed,
            world->store_dir != NULL ? " STORE=lmdb" : "");
    fflush(stderr);
    _Exit(1);
}

void sim_note(struct sim_world *world, uint64_t what)
{
    world->stats.trace = (world->stats.trace ^ what) * 0x9e3779b97f4a7c15ULL;
    world->stats.trace ^= world->stats.trace >> 29;
}

uint64_t sim_below(struct sim_world *world, uint64_t bound)
{
    return prng_below(&world->prng, bound);
}

bool sim_percent(struct sim_world *world, unsigned percent)
{
    return sim_below(world, 100) < percent;
}

/* --- events --- */

void sim_schedule(struct sim_world *world, uint64_t in_ms, struct sim_event event)
{
    struct sim_event *kept = MUST_HAVE(malloc(sizeof *kept));

    *kept = event;
    kept->world = world;
    timer_init(&kept->timer, world->hooks->fire);
    timer_arm(&world->events, &kept->timer, world->now_ms + in_ms);
}

void sim_happens(struct sim_node *node, enum sim_event_kind kind, uint64_t in_ms)
{
    sim_schedule(
        node->world, in_ms,
        (struct sim_event){.kind = kind, .node = node->id - 1, .incarnation = node->incarnation});
}

/* --- nodes --- */

struct sim_node *sim_any_node(struct sim_world *world)
{
    return &world->nodes[sim_below(world, world->node_count)];
}

struct sim_node *sim_any_running(struct sim_world *world)
{
    struct sim_node *node = sim_any_node(world);

    return sim_node_runs(node) ? node : NULL;
}

void sim_turn(struct sim_node *node)
{
    node->world->hooks->turn(node);
}

bool sim_is_quiet(const struct sim_world *world)
{
    return world->now_ms < world->quiet_until_ms;
}

bool sim_node_runs(const struct sim_node *node)
{
    return node->up && node->world->now_ms >= node->paused_until_ms;
}

bool sim_reaches(const struct sim_node *from, const struct sim_node *to)
{
    return to->up && !from->world->cut[from->id - 1][to->id - 1] &&
           !from->world->cut[to->id - 1][from->id - 1];
}

bool sim_is_led_later(const struct sim_world *world, uint64_t term)
{
    SIM_NODE_FOREACH (node, world) {
        if (node->up && driver_is_leader(&node->replica.driver) &&
            driver_term(&node->replica.driver) > term) {
            return true;
        }
    }
    return false;
}

/* --- who is a member --- */

const struct sim_node *sim_newest(const struct sim_world *world)
{
    const struct sim_node *best = NULL;

    SIM_NODE_FOREACH (node, world) {
        if (node->up && (best == NULL || driver_applied(&node->replica.driver)->conf_index >
                                             driver_applied(&best->replica.driver)->conf_index)) {
            best = node;
        }
    }
    return best;
}

struct sim_conf sim_configuration_of(const struct sim_node *node)
{
    struct sim_conf conf = {.index = driver_applied(&node->replica.driver)->conf_index};
    struct configuration configuration;

    applier_configured(&node->replica.driver.applier, &configuration);
    MEMBER_FOREACH (member, &configuration) {
        conf.members |= BIT(member->id);
        conf.voters |= member->role == ROLE_VOTER ? BIT(member->id) : 0;
    }
    return conf;
}

bool sim_member_lives(const struct sim_node *node)
{
    const struct sim_node *first = sim_newest(node->world);

    return !node->gone && first != NULL &&
           (sim_configuration_of(first).members & BIT(node->id)) != 0;
}
