/*
 * sim.c - the world's clock: events in order of virtual time, and one run from seed to
 * verdict.
 *
 * Thread: one.
 */
#include "cluster-tests/sim/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-tests/sim/sim_check.h"
#include "cluster-tests/sim/sim_client.h"
#include "cluster-tests/sim/sim_counter.h"
#include "cluster-tests/sim/sim_disk.h"
#include "cluster-tests/sim/sim_fault.h"
#include "cluster-tests/sim/sim_level.h"
#include "cluster-tests/sim/sim_lost_vote.h"
#include "cluster-tests/sim/sim_member.h"
#include "cluster-tests/sim/sim_mono.h"
#include "cluster-tests/sim/sim_net.h"
#include "cluster-tests/sim/sim_node.h"
#include "cluster-tests/sim/sim_planted.h"
#include "cluster-tests/sim/sim_put_back.h"
#include "cluster-tests/sim/sim_strict.h"
#include "cluster-tests/sim/sim_upgrade.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"

#define FAULTS_MS 14000 /* how long things go wrong */
#define UNHEARD_MS 4000 /* the first leader may be chosen before a clock but its own is known */
#define LATE_PERCENT 10 /* of the nodes start later than the others, at most so much: */
#define LATE_MS 6000
#define CALM_SLOWER 4          /* what comes again and again comes so many times less often then */
#define PROGRESS_MS 15000      /* how soon after healing everything must be well */
#define PUT_BACK_KNOWN_MS 2500 /* all have told by then what they had before, and it is written */
#define PLANTED_ENDS_MS 5000   /* all have compared their states, and the leader was asked */
#define PUT_BACK_ENDS_MS 2000  /* how soon older copies are refused */

/* --- turns --- */

/* What a node has done, and how it stands. */
struct sim_work {
    uint64_t sent;
    uint64_t submitted;
    uint64_t requests;
    uint64_t numbers;
    uint64_t last_index;
    uint64_t peers;
    uint64_t flags; /* the driver is held, requests wait, the disk has no room */
    uint64_t seen;  /* what others see, as a hash; but for what time alone changes */
};

static uint64_t seen_of(const struct id_health *seen)
{
    const uint64_t values[] = {seen->leader_known, seen->leader_through, seen->members,
                               seen->voters,       seen->member_change,  seen->level,
                               seen->state_bytes,  seen->state_tags,     seen->state_keys,
                               seen->disk_low,     seen->implausible,    seen->segments_held,
                               seen->given_back,   seen->applied_once,   seen->uid_low};

    return hash_bytes(values, sizeof values, 0);
}

static struct sim_work work_of(const struct sim_node *node)
{
    const struct replica *replica = &node->replica;

    return (struct sim_work){.sent = node->sent,
                             .submitted = node->submitted,
                             .requests = replica->requests.count,
                             .numbers = replica->requests.numbers.last,
                             .last_index = driver_last_index(&replica->driver),
                             .peers = replica->peers.count,
                             .flags = replica->driver.held |
                                      (uint64_t)replica->requests.serving.holding << 1 |
                                      (uint64_t)replica->requests.serving.no_room << 2,
                             .seen = seen_of(&node->ids.health.seen)};
}

/* The parts of a node that nothing but their wakes lets look. */
static uint32_t sleepers_of(const struct sim_node *node)
{
    const struct replica *replica = &node->replica;
    uint32_t parts = WAKE_ALL;

    if (timers_next_ms(&replica->timers) <= clock_now_ms(&node->clock)) {
        return 0; /* it will look by itself */
    }
    if (timer_is_armed(&replica->membership.next_turn)) {
        parts &= ~(uint32_t)WAKE_MEMBERS; /* in the next ms: it waits for the log of another */
    }
    if (timer_is_armed(&replica->compare.asker.hand_over)) {
        parts &= ~(uint32_t)WAKE_COMPARE; /* each look tries to hand over the lead */
    }
    return parts;
}

/* All parts look, though nothing has woken them, and must find nothing to do: else some event has
 * forgotten to wake one. In half of the runs; in the others nobody makes up for that. In a run that
 * is replayed they look one after the other, which names the part. */
static void check_nobody_sleeps(struct sim_node *node)
{
    uint32_t left = node->world->seed % 2 != 0 ? WAKE_ALL : 0;
    uint32_t parts;

    while ((parts = left & sleepers_of(node)) != 0) {
        struct sim_work before = work_of(node);
        struct sim_work after;

        parts = node->world->verbose ? parts & -parts : parts;
        left &= ~parts;
        context_wake(&node->replica.context, parts);
        while (replica_turn(&node->replica)) {
            continue;
        }
        after = work_of(node);
        if (memcmp(&before, &after, sizeof before) != 0) {
            sim_fail(node->world,
                     "node %u: parts %x, one was not woken: frames %" PRIu64 ", operations %" PRIu64
                     ", requests %" PRIu64 ", numbers %" PRIu64 ", entries %" PRIu64
                     ", peers %" PRIu64 ", flags %" PRIx64 ", seen %" PRIx64,
                     node->id, parts, after.sent - before.sent, after.submitted - before.submitted,
                     after.requests - before.requests, after.numbers - before.numbers,
                     after.last_index - before.last_index, after.peers - before.peers,
                     after.flags ^ before.flags, after.seen ^ before.seen);
        }
    }
}

static void turn(struct sim_node *node)
{
    struct sim_world *world = node->world;
    uint64_t next;

    if (node->handing_over && replica_transfer(&node->replica)) {
        sim_fault_handed_over(node);
    }
    while (replica_turn(&node->replica)) {
        continue;
    }
    check_nobody_sleeps(node);
    sim_fault_given_back(node);
    sim_check_node(node);
    sim_level_check(node);
    sim_member_check(node);
    if (!world->counts) {
        sim_mono_turned(node);
    }
    next = replica_next_ms(&node->replica);
    if (next == UINT64_MAX) {
        return;
    }
    next = sim_node_world_ms(node, next);
    next = next > world->now_ms ? next : world->now_ms + 1;
    if (node->wake_at_ms <= world->now_ms || next < node->wake_at_ms) {
        node->wake_at_ms = next;
        sim_happens(node, SIM_WAKE, next - world->now_ms);
    }
}

/* --- the run --- */

/* What comes again and again, and how often. */
static const struct {
    void (*happens)(struct sim_world *world);
    uint64_t mean_ms;
} periodic[SIM_KINDS] = {
    [SIM_CLIENT] = {sim_client_event, 12},  [SIM_ADMIN] = {sim_admin_event, 60},
    [SIM_FAULT] = {sim_fault_event, 450},   [SIM_MEMBER] = {sim_member_event, 500},
    [SIM_LEVEL] = {sim_upgrade_event, 400}, [SIM_MONO] = {sim_mono_event, 15},
    [SIM_STALE] = {sim_mono_stale, 500},    [SIM_COUNTER] = {sim_counter_event, 12},
};

/* What happens to a node from outside, paused or not. */
static void (*const handlers[SIM_KINDS])(struct sim_node *node) = {
    [SIM_RESTART] = sim_node_start,      [SIM_END] = sim_fault_end_node,
    [SIM_ALONE] = sim_fault_alone,       [SIM_JOIN] = sim_member_join,
    [SIM_TOLD] = sim_member_told,        [SIM_OLD] = sim_upgrade_end_node,
    [SIM_OLDER] = sim_lost_vote_refused,
};

/* In the calm nothing new comes of many requests: most events of a run would be theirs. At the very
 * end, when clients are gone, each node is still to serve somebody. */
static void every(struct sim_world *world, enum sim_event_kind kind)
{
    bool is_calm = !world->faults && world->clients && kind != SIM_MEMBER && kind != SIM_LEVEL;
    uint64_t mean_ms = periodic[kind].mean_ms * (is_calm ? CALM_SLOWER : 1);

    sim_schedule(world, 1 + sim_below(world, 2 * mean_ms), (struct sim_event){.kind = kind});
}

/* Is the node still as the event needs it? */
static bool concerns(const struct sim_event *event, const struct sim_node *node)
{
    bool current = node->incarnation == event->incarnation;

    switch (event->kind) {
    case SIM_ALONE:
    case SIM_DIAL:
        return true;
    case SIM_JOIN:
        return current;
    case SIM_RESTART:
        return current && !node->up;
    default:
        return current && node->up;
    }
}

/* What a node does itself, while it runs. */
static void work(struct sim_node *node, struct sim_event *event)
{
    if (event->kind == SIM_FRAME) {
        sim_net_event(node, event->frame);
    } else if (event->kind == SIM_DISK) {
        sim_disk_event(&node->disk);
    } else if (event->kind == SIM_REFUSED) {
        driver_peer_refused(&node->replica.driver, event->peer + 1);
    } else if (event->kind == SIM_LATE) {
        sim_node_late(node);
    } else if (node->world->now_ms < node->wake_at_ms) {
        return; /* the timer was moved */
    }
    turn(node);
}

/* False: it is put off. */
static bool node_event(struct sim_world *world, struct sim_event *event)
{
    struct sim_node *node = &world->nodes[event->node];

    if (!concerns(event, node)) {
        return true;
    }
    if (event->kind == SIM_DIAL) {
        sim_net_dial(node, &world->nodes[event->peer]);
    } else if (handlers[event->kind] != NULL) {
        handlers[event->kind](node);
    } else if (sim_node_runs(node)) {
        work(node, event);
    } else { /* all of it comes when the process goes on */
        timer_arm(&world->events, &event->timer, node->paused_until_ms);
        return false;
    }
    return true;
}

static void fire(struct timer *timer, uint64_t now_ms)
{
    struct sim_event *event = CONTAINER(timer, struct sim_event, timer);
    struct sim_world *world = event->world;

    if (!world->over) {
        ASSERT(now_ms == world->now_ms);
        world->stats.events++;
        sim_note(world, now_ms << 8 | event->kind);
        sim_note(world, event->incarnation << 8 | event->node);
    }
    if (!world->over && periodic[event->kind].happens != NULL) {
        periodic[event->kind].happens(world);
        every(world, event->kind);
    } else if (!world->over && !node_event(world, event)) {
        return;
    }
    sim_net_free_frame(event->frame);
    free(event);
}

static void run_until(struct sim_world *world, uint64_t end_ms)
{
    while (timers_next_ms(&world->events) <= end_ms) {
        ASSERT(timers_next_ms(&world->events) >= world->now_ms);
        world->now_ms = timers_next_ms(&world->events);
        (void)timers_run(&world->events, world->now_ms);
    }
    world->now_ms = end_ms;
}

static bool settled(const struct sim_world *world)
{
    const struct sim_node *first = NULL;

    if ((!world->counts && !sim_client_final_done(world)) || world->requests_open > 0 ||
        !sim_member_settled(world) || !sim_upgrade_settled(world)) {
        return false;
    }
    SIM_LIVING_FOREACH (node, world) {
        first = first != NULL ? first : node;
        if (!world->counts && !world->clock_faults && !world->flake_served[node->id - 1]) {
            return false;
        }
        if (driver_applied(&node->replica.driver)->index !=
            driver_applied(&first->replica.driver)->index) {
            return false;
        }
    }
    return true;
}

static void heal_all(struct sim_world *world)
{
    sim_fault_end(world);
    sim_upgrade_begin_final(world);
    SIM_NODE_FOREACH (node, world) {
        if (!node->up && !node->gone && (!node->joins || node->learned.conf.count > 0)) {
            sim_node_start(node);
        }
    }
    sim_trace(world, "healed");
}

static void free_world(struct sim_world *world)
{
    SIM_NODE_FOREACH (node, world) {
        if (node->up) {
            sim_node_crash(node);
        }
        sim_node_free(node);
    }
    world->over = true;
    (void)timers_run(&world->events, UINT64_MAX - 1);
    sim_net_free(world);
    sim_check_free(world);
    sim_strict_free(world);
}

/* Where everybody stands, for whoever replays it. */
static void trace_all(struct sim_world *world)
{
    SIM_NODE_FOREACH (node, world) {
        struct driver *driver = &node->replica.driver;
        const struct member_change *change;

        if (!node->up) {
            sim_trace(world, "node %u is %s", node->id, node->gone ? "gone" : "down");
            continue;
        }
        change = state_member_change(node->replica.state);
        sim_trace(world,
                  "node %u: %s, term %" PRIu64 ", leader %" PRIu64 ", last %" PRIu64
                  ", persisted %" PRIu64 ", commit %" PRIu64 ", "
                  "applied %" PRIu64 ", configuration %" PRIu64 ", pending %" PRIu64
                  ", links %x, change %u of node %u%s",
                  node->id, id_node_state_name((enum id_node_state)driver_state(driver)),
                  driver_term(driver), driver_leader(driver), entry_log_last(&driver->log),
                  driver->persisted, driver->commit, driver_applied(driver)->index,
                  driver_applied(driver)->conf_index, driver_pending_change(driver), node->peers,
                  change != NULL ? change->kind : 0, change != NULL ? (unsigned)change->node_id : 0,
                  change != NULL && change->given_up ? ", given up" : "");
    }
}

static void until(struct sim_world *world, bool (*is_so)(const struct sim_world *world),
                  uint64_t end_ms)
{
    while (!is_so(world)) {
        if (world->now_ms >= end_ms) {
            trace_all(world);
            sim_fail(world, "no progress within %d ms after the faults ended", PROGRESS_MS);
        }
        run_until(world, world->now_ms + 20);
    }
}

/* Whatever was acknowledged is there, and the histories are right. */
static void check_end(struct sim_world *world)
{
    SIM_LIVING_FOREACH (node, world) {
        sim_member_check(node);
    }
    sim_check_end(world);
    sim_member_end(world);
    sim_strict_check_end(world);
}

/* Copies of disks, taken while everything went wrong, are put back in the calm. False: there are
 * none in this run, or their nodes have promised nothing since. */
static bool put_back(struct sim_world *world)
{
    sim_put_back_note(world);
    run_until(world, world->now_ms + PUT_BACK_KNOWN_MS);
    if (!sim_put_back_strike(world)) {
        return false;
    }
    run_until(world, world->now_ms + PUT_BACK_ENDS_MS);
    sim_put_back_check(world);
    return true;
}

/* The state of one node is made another. False: not in this run. */
static bool planted(struct sim_world *world)
{
    if (!sim_planted_strike(world)) {
        return false;
    }
    run_until(world, world->now_ms + PLANTED_ENDS_MS);
    sim_planted_check(world);
    return true;
}

/* All that comes again and again in this run. */
static void begin_all(struct sim_world *world)
{
    if (world->counts) {
        every(world, SIM_COUNTER);
        every(world, SIM_FAULT);
        return;
    }
    every(world, SIM_CLIENT);
    every(world, SIM_ADMIN);
    every(world, SIM_FAULT);
    if (world->member_faults) {
        every(world, SIM_MEMBER);
    }
    if (world->exchanges) {
        every(world, SIM_LEVEL);
    }
    if (world->mono) {
        every(world, SIM_MONO);
        every(world, SIM_STALE);
    }
}

static const struct sim_hooks hooks = {.fire = fire, .turn = turn, .sent = sim_fault_sent};

/* A world whose nodes have started. */
static struct sim_world *make_world(uint64_t seed, bool verbose, const char *store_dir, bool counts)
{
    struct sim_world *world = MUST_HAVE(calloc(1, sizeof *world));

    world->hooks = &hooks;
    world->seed = seed;
    world->store_dir = store_dir;
    world->verbose = verbose;
    world->now_ms = 1000;
    world->faults = true;
    world->clients = true;
    world->clock_faults = seed % 2 == 0;
    prng_seed(&world->prng, seed);
    world->node_count = sim_percent(world, 75) ? 3 : (sim_percent(world, 75) ? 5 : 1);
    world->first_count = world->node_count;
    world->member_faults = seed % 4 != 3;
    world->counts = counts;
    sim_level_init(world);
    if (counts) {
        world->member_faults = false;
        world->exchanges = false;
        world->newest = LEVEL_FIRST;
        sim_counter_init(world);
    }
    sim_check_init(world);
    sim_strict_init(world);
    for (unsigned i = 0; i < world->node_count; i++) {
        sim_node_init(world, i);
    }
    if (world->clock_faults) {
        sim_fault_clock(&world->nodes[sim_below(world, world->node_count)]);
        world->unheard_until_ms = world->now_ms + sim_below(world, UNHEARD_MS);
    }
    SIM_NODE_FOREACH (node, world) { /* the cluster is born when the last one has come */
        if (sim_percent(world, LATE_PERCENT)) {
            sim_happens(node, SIM_RESTART, sim_below(world, LATE_MS));
        } else {
            sim_node_start(node);
        }
    }
    return world;
}

static void end_world(struct sim_world *world, struct sim_stats *ret_stats)
{
    if (ret_stats != NULL) {
        *ret_stats = world->stats;
    }
    free_world(world);
    free(world);
}

void sim_run(uint64_t seed, bool verbose, const char *store_dir, struct sim_stats *ret_stats)
{
    struct sim_world *world = make_world(seed, verbose, store_dir, false);
    uint64_t end_ms;

    begin_all(world);
    run_until(world, world->now_ms + FAULTS_MS / 2);
    sim_put_back_keep(world);
    run_until(world, world->now_ms + FAULTS_MS / 2);
    heal_all(world);
    end_ms = world->now_ms + PROGRESS_MS;
    run_until(world, world->now_ms + PROGRESS_MS / 2);
    until(world, sim_member_settled, end_ms);
    if (put_back(world) || planted(world)) {
        end_ms = world->now_ms + PROGRESS_MS;
        run_until(world, world->now_ms + PROGRESS_MS / 3);
        until(world, sim_member_settled, end_ms);
    }
    world->clients = false;
    sim_client_begin_final(world);
    until(world, settled, end_ms);
    check_end(world);
    end_world(world, ret_stats);
}

void sim_run_counter(uint64_t seed, bool verbose, const char *store_dir,
                     struct sim_stats *ret_stats)
{
    struct sim_world *world = make_world(seed, verbose, store_dir, true);
    uint64_t end_ms;

    begin_all(world);
    run_until(world, world->now_ms + FAULTS_MS);
    heal_all(world);
    end_ms = world->now_ms + PROGRESS_MS;
    run_until(world, world->now_ms + PROGRESS_MS / 2);
    world->clients = false;
    until(world, settled, end_ms);
    sim_counter_check_end(world);
    end_world(world, ret_stats);
}
