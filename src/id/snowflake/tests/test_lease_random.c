/*
 * test_lease_random.c - three nodes, one log, and everything that can go wrong at random: crashes
 * that lose what was not durable (or keep it), commands of dead incarnations that are applied late,
 * late copies of commands that were applied before, wiped disks, one clock that steps by anything
 * up to fifty years and the others by seconds, lost quorums and answers, disks that stand still,
 * and operators who take worker ids away.
 *
 * Whatever happens, no id is handed out twice; and once it is over, every node serves again.
 *
 * LEAFD_LEASE_SEED=n runs that seed alone, LEAFD_LEASE_SEEDS=n so many.
 *
 * Thread: one. Time is the world's.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/prng.h"
#include "src/id/snowflake/tests/lease_world.h"

#define SEEDS 300
#define STEPS 400
#define IDS_PER_STEP 50
#define HOUR_MS 3600000
#define FIFTY_YEARS_MS (50 * 365 * 24 * (int64_t)HOUR_MS)
#define SMALL_STEP_MS 1500 /* clocks but the bad one are at most so far off */
#define RECOVERY_MS (4 * HOUR_MS)

struct chaos {
    struct lease_world *world;
    struct prng prng;
    struct lease_node *bad; /* its clock may be anything: a minority's */
    uint64_t claimed;       /* ids */
};

static char running[64];

/* An assertion failed: say with which seed. */
static void aborted(int signal)
{
    ssize_t written = write(STDERR_FILENO, running, strlen(running));

    (void)signal;
    (void)written;
}

static uint64_t below(struct chaos *chaos, uint64_t bound)
{
    return prng_below(&chaos->prng, bound);
}

static bool chance(struct chaos *chaos, uint64_t percent)
{
    return below(chaos, 100) < percent;
}

static struct lease_node *any_node(struct chaos *chaos)
{
    return &chaos->world->nodes[below(chaos, chaos->world->node_count)];
}

static void claim(struct chaos *chaos, struct lease_node *node)
{
    uint64_t left = 1 + below(chaos, IDS_PER_STEP);
    struct snowflake_parts id;

    if (!node->up) {
        lease_world_start(node);
    }
    chaos->claimed += lease_world_wait_id(node, below(chaos, 20), &id) == 0;
    while (left > 0) {
        struct segment_range range;
        uint64_t count = 1 + below(chaos, left);

        if (lease_world_claim(node, (uint32_t)count, &range) != 0) {
            return;
        }
        left -= range.count;
        chaos->claimed += range.count;
    }
}

static void step_clock(struct chaos *chaos)
{
    static const int64_t steps[] = {-3,        -20,      300,     -900,           -2000,
                                    30 * 1000, -HOUR_MS, HOUR_MS, FIFTY_YEARS_MS, -FIFTY_YEARS_MS};
    struct lease_node *node = chance(chaos, 60) ? chaos->bad : any_node(chaos);
    int64_t step = steps[below(chaos, sizeof steps / sizeof steps[0])];
    int64_t off_ms = node->off_ms + step;

    if (chance(chaos, 50)) {
        lease_world_step_clock(node, -node->off_ms); /* set right */
    } else if (node == chaos->bad ? off_ms > -2 * FIFTY_YEARS_MS / 3
                                  : off_ms >= -SMALL_STEP_MS && off_ms <= SMALL_STEP_MS) {
        lease_world_step_clock(node, step);
    }
}

static void incarnation(struct chaos *chaos)
{
    struct lease_node *node = any_node(chaos);

    if (node->up) {
        bool writes_survive = chance(chaos, 50);
        bool commands_survive = chance(chaos, 50);

        lease_world_crash(node, writes_survive, commands_survive);
        if (chance(chaos, 20)) {
            lease_world_wipe(node);
        }
    }
    if (chance(chaos, 70)) {
        lease_world_start(node);
    }
}

static void heal(struct lease_node *node)
{
    node->cut = false;
    node->deaf = false;
    node->lagging = false;
    node->disk_stuck = false;
    node->answers_held = false;
}

static void toggle(struct chaos *chaos)
{
    struct lease_node *node = any_node(chaos);

    switch (below(chaos, 14)) {
    case 0:
        chaos->world->log_down = true;
        break;
    case 1:
        node->cut = true;
        break;
    case 2:
        node->deaf = true;
        break;
    case 3:
        node->lagging = true;
        break;
    case 4:
        node->disk_stuck = true;
        break;
    case 5:
        node->answers_held = true;
        break;
    case 6:
        lease_world_ghosts(chaos->world);
        break;
    case 7:
    case 8:
        chaos->world->log_down = false;
        break;
    default:
        heal(node);
        break;
    }
}

/* Somebody takes a worker id that is free, or a name, or has one released. */
static void operate(struct chaos *chaos)
{
    uint32_t id = (uint16_t)below(chaos, 8);
    const struct worker_row *row = fsm_worker(chaos->world->log, id);
    char name[LIMIT_WORKER_NAME_BYTES + 1] = "client";

    if (row == NULL) {
        return;
    }
    switch (below(chaos, 4)) {
    case 0:
        (void)snprintf(name, sizeof name, "%s", row->name);
        (void)lease_world_steal(chaos->world, WORKER_NODE, name, WORKER_ID_ANY);
        break;
    case 1:
        lease_world_release(chaos->world, id, 0);
        break;
    default:
        (void)lease_world_steal(chaos->world, WORKER_CLIENT, name, id);
        break;
    }
}

static void step(struct chaos *chaos)
{
    uint64_t what = below(chaos, 100);

    if (what < 70) {
        claim(chaos, any_node(chaos));
    } else if (what < 80) {
        toggle(chaos);
    } else if (what < 90) {
        step_clock(chaos);
    } else if (what < 98) {
        incarnation(chaos);
    } else {
        operate(chaos);
    }
    if (chance(chaos, 3)) {
        lease_world_run(chaos->world, below(chaos, 2 * LEASE_WORLD_WINDOW_MS));
    } else if (chance(chaos, 20)) {
        lease_world_run(chaos->world, below(chaos, 5000));
    } else {
        lease_world_run(chaos->world, below(chaos, 30));
    }
}

/* All faults end: every node serves again, and soon, but for time that is used up already. */
static void recover(struct chaos *chaos)
{
    struct lease_world *world = chaos->world;
    uint64_t end_ms = world->true_ms + RECOVERY_MS;

    world->log_down = false;
    for (size_t i = 0; i < world->node_count; i++) {
        struct lease_node *node = &world->nodes[i];

        heal(node);
        lease_world_step_clock(node, -node->off_ms);
        if (node->up && atomic_load(&node->snowflake.slot_count) == LIMIT_SNOWFLAKE_SLOTS) {
            lease_world_crash(node, true, false);
        }
        if (!node->up) {
            lease_world_start(node);
        }
    }
    for (size_t i = 0; i < world->node_count; i++) {
        struct snowflake_parts id;

        while (lease_world_wait_id(&world->nodes[i], 10, &id) != 0) {
            ASSERT(world->true_ms < end_ms);
            lease_world_run(world, 1000);
        }
        ASSERT(lease_world_status(&world->nodes[i]).refusal == 0);
    }
}

/* Returns the ids claimed. */
static uint64_t run_seed(uint64_t seed)
{
    struct chaos chaos = {0};

    (void)snprintf(running, sizeof running, "LEAFD_LEASE_SEED=%llu\n", (unsigned long long)seed);
    prng_seed(&chaos.prng, seed);
    chaos.world = lease_world_new(3, (uint32_t)(1 + below(&chaos, 3)));
    chaos.world->random = seed;
    chaos.world->copies = below(&chaos, 2) == 0;
    chaos.bad = any_node(&chaos);
    lease_world_run(chaos.world, below(&chaos, 20));
    for (unsigned i = 0; i < STEPS; i++) {
        step(&chaos);
    }
    recover(&chaos);
    lease_world_check(chaos.world);
    lease_world_free(chaos.world);
    return chaos.claimed;
}

static uint64_t environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void test_every_id_once(void **state)
{
    uint64_t only = environment("LEAFD_LEASE_SEED", 0);
    uint64_t seeds = environment("LEAFD_LEASE_SEEDS", SEEDS);
    uint64_t claimed = 0;

    (void)state;
    (void)signal(SIGABRT, aborted);
    if (only > 0) {
        assert_true(run_seed(only) > 0);
        return;
    }
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        claimed += run_seed(seed);
    }
    print_message("%llu ids in %llu runs\n", (unsigned long long)claimed,
                  (unsigned long long)seeds);
    /* Nodes are up and well often enough for this to mean something. */
    assert_true(claimed >= seeds * STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_id_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
