/*
 * test_counter.c - three nodes that replicate a counter in place of ids (toy_counter.h), while
 * frames are lost, come twice, and nodes crash: the core knows nothing of what it replicates, and
 * each command counts once, however often it was sent.
 *
 * A client sends its command again and again, and older ones with it, until some node has applied
 * it; then the next. Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/tests/raft_bench.h"
#include "src/base/prng.h"
#include "src/state/tests/toy_counter.h"

#define SERVERS 3
#define COMMANDS 60 /* of each client; a client a server */
#define ROUND_MS 20
#define ROUNDS_MAX 200000

struct world {
    struct bench benches[SERVERS];
    bool is_up[SERVERS];
    struct prng prng;
    uint64_t seqs[SERVERS]; /* the command that the client waits for */
    unsigned crashes;
    unsigned installs;
    bool is_calm; /* nothing goes wrong any more */
};

static bool chance(struct world *world, unsigned of_100)
{
    return !world->is_calm && prng_below(&world->prng, 100) < of_100;
}

/* What the client's command with this number adds. */
static uint32_t add_of(uint64_t client, uint64_t seq)
{
    return (uint32_t)(1 + (client * 31 + seq * 17) % 97);
}

static void world_start(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof *world);
    prng_seed(&world->prng, seed);
    for (unsigned i = 0; i < SERVERS; i++) {
        const struct boot boot = {.id = i + 1,
                                  .term = 1,
                                  .last = 1,
                                  .last_term = 1,
                                  .applied = 1,
                                  .servers = SERVERS,
                                  .roles = THREE_VOTERS};

        world->benches[i].machine = &toy_machine;
        world->benches[i].snapshot_entries = 8;
        world->benches[i].trailing_entries = 4;
        bench_start(&world->benches[i], &boot);
        world->is_up[i] = true;
        world->seqs[i] = 1;
    }
}

static void world_close(struct world *world)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        bench_close(&world->benches[i]);
    }
}

/* --- a round --- */

static void deliver(struct world *world, struct bench *from)
{
    struct fake_frame *frame;

    for (size_t left = from->net.frame_count; left > 0; left--) {
        frame = fake_net_take(&from->net);
        if (world->is_up[frame->to - 1] && !chance(world, 10)) {
            for (unsigned times = chance(world, 5) ? 2 : 1; times > 0; times--) {
                assert_true(bench_frame(&world->benches[frame->to - 1], from->id, frame->type,
                                        frame->payload.data, frame->payload.len));
            }
        }
        fake_frame_free(frame);
    }
}

static void crash_or_start(struct world *world, unsigned i)
{
    if (!world->is_up[i]) {
        if (world->is_calm || chance(world, 5)) {
            bench_restart(&world->benches[i]);
            world->is_up[i] = true;
        }
    } else if (prng_below(&world->prng, 10) == 0 && chance(world, 5)) {
        world->installs += world->benches[i].observer.installed_count;
        bench_crash(&world->benches[i]);
        world->is_up[i] = false;
        world->crashes++;
    }
}

/* To the leader, if there is one that knows that it is: the command with this number. */
static void send(struct world *world, uint64_t client, uint64_t seq)
{
    const struct session_stamp stamp = {client, 1, seq, seq};
    uint64_t index;
    uint64_t term;
    BUF_LOCAL(bytes);

    toy_command_put(&bytes, add_of(client, seq));
    session_stamp_put(&bytes, &stamp);
    for (unsigned i = 0; i < SERVERS; i++) {
        if (world->is_up[i] && driver_leads(&world->benches[i].driver)) {
            int err = driver_submit(&world->benches[i].driver, &bytes, 1, &index, &term);

            assert_true(err == 0 || err == ERR_NOT_LEADER || err == ERR_OVERLOADED);
        }
    }
}

/* A command counts once it is applied anywhere, and no later one was sent before. */
static void look(struct world *world, const struct bench *bench)
{
    for (uint64_t client = 1; client <= SERVERS; client++) {
        const struct toy_count count = toy_count_of(bench->state, client);
        uint64_t sum = 0;

        assert_in_range(count.commands, 0, world->seqs[client - 1]);
        for (uint64_t seq = 1; seq <= count.commands; seq++) {
            sum += add_of(client, seq);
        }
        assert_int_equal(count.sum, sum);
        if (count.commands == world->seqs[client - 1] && world->seqs[client - 1] < COMMANDS) {
            world->seqs[client - 1]++;
        }
    }
}

static void play_round(struct world *world)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        struct bench *bench = &world->benches[i];

        bench->clock.now_ms += ROUND_MS;
        crash_or_start(world, i);
        if (!world->is_up[i]) {
            continue;
        }
        bench_tick(bench);
        if (!chance(world, 30)) {
            bench_disk_run(bench);
        }
        (void)driver_turn(&bench->driver);
        deliver(world, bench);
        assert_int_equal(bench->observer.failed_count, 0);
        assert_int_equal(bench->observer.diverged_count, 0);
        look(world, bench);
    }
    for (uint64_t client = 1; client <= SERVERS; client++) {
        uint64_t seq = world->seqs[client - 1];

        if (prng_below(&world->prng, 2) == 0) {
            send(world, client, seq);
        }
        if (chance(world, 10)) { /* a late copy */
            send(world, client, 1 + prng_below(&world->prng, seq));
        }
    }
}

/* All nodes have all commands. */
static bool is_over(const struct world *world)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        for (uint64_t client = 1; client <= SERVERS; client++) {
            if (!world->is_up[i] ||
                toy_count_of(world->benches[i].state, client).commands < COMMANDS) {
                return false;
            }
        }
    }
    return true;
}

static bool is_all_sent(const struct world *world)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        if (world->seqs[i] < COMMANDS) {
            return false;
        }
    }
    return true;
}

static void test_each_command_counts_once(void **state)
{
    static struct world world;
    unsigned crashes = 0;
    unsigned installs = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        unsigned round = 0;

        world_start(&world, seed);
        while (!is_over(&world)) {
            world.is_calm = is_all_sent(&world);
            play_round(&world);
            if (++round > ROUNDS_MAX) {
                fail_msg("seed %llu: not all commands are applied", (unsigned long long)seed);
            }
        }
        for (unsigned i = 0; i < SERVERS; i++) {
            installs += world.benches[i].observer.installed_count;
        }
        crashes += world.crashes;
        installs += world.installs;
        world_close(&world);
    }
    assert_in_range(crashes, 20, UINT32_MAX); /* else it shows little */
    assert_in_range(installs, 10, UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_command_counts_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
