/*
 * sim_upgrade.c - see sim_upgrade.h. Thread: one.
 */
#include "cluster-tests/sim/sim_upgrade.h"

#include <stdlib.h>

#include "cluster-tests/sim/sim_node.h"
#include "src/base/assert.h"

#define DOWN_MS 300 /* how long an exchange takes at most */
#define PATIENCE_MS 2000

static void exchange(struct sim_node *node, uint16_t able)
{
    sim_trace(node->world, "node %u ends, to run a leafd that speaks up to %u", node->id, able);
    sim_node_crash(node);
    node->able = able;
    sim_happens(node, SIM_RESTART, 1 + sim_below(node->world, DOWN_MS));
}

void sim_upgrade_end_node(struct sim_node *node)
{
    if (node->needed > node->able) {
        node->world->stats.too_old++;
        exchange(node, node->needed);
    }
}

/* --- what operators do --- */

static void on_asked(struct cluster_request *request)
{
    struct sim_world *world = request->data;
    struct member_answer answer = {0};

    if (request->status == 0 &&
        member_answer_decode(request->reply.data, request->reply.len, &answer) != 0) {
        sim_fail(world, "the answer about the level does not decode");
    }
    sim_trace(world, "about the level: status %d, outcome %u %s", request->status, answer.outcome,
              answer.why);
    world->requests_open--;
    buf_free(&request->payload);
    buf_free(&request->reply);
    free(request);
}

/* To raise it, or only to see. */
static void ask(struct sim_node *via)
{
    struct sim_world *world = via->world;
    struct member_ask ask = {.kind = MEMBER_ASK_LEVEL};
    struct cluster_request *request = MUST_HAVE(calloc(1, sizeof *request));

    ask.level = (uint16_t)(state_level(via->replica.state) + 1);
    if (world->faults && sim_percent(world, 20)) {
        ask = (struct member_ask){.kind = MEMBER_ASK_LEVEL_SEE};
    }
    *request = (struct cluster_request){.kind = CLUSTER_REQUEST_MEMBER,
                                        .deadline_ms = clock_now_ms(&via->clock) + PATIENCE_MS,
                                        .done = on_asked,
                                        .data = world};
    member_ask_encode(&ask, &request->payload);
    world->requests_open++;
    id_service_submit(&via->ids, request);
    sim_turn(via);
}

bool sim_upgrade_settled(const struct sim_world *world)
{
    SIM_NODE_FOREACH (node, world) {
        if (sim_member_lives(node) && state_level(node->replica.state) != world->newest) {
            return false;
        }
    }
    return true;
}

void sim_upgrade_event(struct sim_world *world)
{
    struct sim_node *node = sim_any_node(world);
    uint16_t able;

    if (!world->faults || sim_percent(world, 30)) {
        node = sim_any_running(world);
        if (node != NULL && (world->clients || !sim_upgrade_settled(world))) {
            ask(node);
        }
        return;
    }
    if (node->gone || sim_is_quiet(world)) {
        return;
    }
    able = sim_percent(world, 75) ? world->newest
                                  : (uint16_t)(LEVEL_FIRST + sim_below(world, world->newest));
    if (able == node->able || node->id == world->old_one) {
        return;
    }
    world->stats.exchanges++;
    if (node->up) {
        exchange(node, able);
    } else {
        node->able = able;
    }
}

/* --- the end --- */

void sim_upgrade_begin_final(struct sim_world *world)
{
    SIM_NODE_FOREACH (node, world) {
        if (node->able < world->newest && node->up) {
            sim_node_crash(node); /* it comes back at once, as all that are down */
        }
        node->able = world->newest;
    }
}
