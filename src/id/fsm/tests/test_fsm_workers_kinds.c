/*
 * test_fsm_workers_kinds.c - rows of nodes and rows of clients: neither kind renews, releases or
 * takes what the other holds, whatever epoch, bound or name its command carries.
 *
 * A node that is cut off from the others goes on stamping within its window. So what a client says
 * of a node's worker id must not move that window, and nobody gets the worker id before its end.
 *
 * Thread: one.
 */
#include <stdio.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/tests/id_apply.h"

#define T 1700000000000ULL
#define WINDOW 60000ULL
#define NODES 3
#define STEPS 20000

/* Three worker bits: ids 0..7. */
static const struct snowflake_layout SMALL = {SNOWFLAKE_EPOCH_MS, 41, 3, 12};

static int setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    assert_int_equal(id_apply_layout(a, &SMALL), 0);
    assert_int_equal(id_apply_clock(a, T), 0);
    return 0;
}

static struct worker_result acquire(struct id_apply *a, enum worker_kind kind, const char *name,
                                    uint32_t id)
{
    return id_apply_acquire(a, (struct worker_acquire){.kind = (uint8_t)kind,
                                                       .worker_id = id,
                                                       .window_ms = WINDOW,
                                                       .wall_ms = T,
                                                       .name = name});
}

static struct worker_result renew(struct id_apply *a, enum worker_kind kind, uint32_t id,
                                  uint64_t epoch)
{
    return id_apply_renew(a, (struct worker_renew){.worker_id = id,
                                                   .epoch = epoch,
                                                   .window_ms = 2 * WINDOW,
                                                   .wall_ms = T,
                                                   .kind = (uint8_t)kind});
}

static struct worker_result release(struct id_apply *a, enum worker_kind kind, uint32_t id,
                                    uint64_t epoch)
{
    return id_apply_release(a, (struct worker_release){id, epoch, T + 1, (uint8_t)kind, 0, false});
}

/* Refused with the holder's row, and nothing changed. */
static void in_the_way(struct id_apply *a, struct worker_result result, const char *holder)
{
    assert_int_equal(result.status, ERR_CONFLICT);
    assert_int_equal(a->changed, 0);
    assert_true(result.has_row);
    assert_true(id_apply_is_named(&result.row, holder));
    assert_int_equal(result.row.state, WORKER_HELD);
}

static void test_client_changes_no_row_of_a_node(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(acquire(a, WORKER_NODE, "node-1", WORKER_ID_ANY).status, 0);
    in_the_way(a, renew(a, WORKER_CLIENT, 0, 1), "node-1");
    in_the_way(a, release(a, WORKER_CLIENT, 0, 1), "node-1");
    in_the_way(a, acquire(a, WORKER_CLIENT, "thief", 0), "node-1");
    in_the_way(a, acquire(a, WORKER_CLIENT, "node-1", WORKER_ID_ANY), "node-1");
    in_the_way(a, acquire(a, WORKER_CLIENT, "node-1", 0), "node-1");
    /* Nor one that says it is of no kind at all. */
    in_the_way(a, renew(a, 3, 0, 1), "node-1");
    in_the_way(a, release(a, 3, 0, 1), "node-1");
    /* The node itself may. */
    assert_int_equal(renew(a, WORKER_NODE, 0, 1).status, 0);
    assert_true(fsm_worker(a->fsm, 0)->granted_until_ms == T + 2 * WINDOW);
    assert_int_equal(release(a, WORKER_NODE, 0, 1).status, 0);
    assert_int_equal(fsm_worker(a->fsm, 0)->state, WORKER_RELEASED);
    /* Released already: a client's release is no repeat of the node's. */
    assert_int_equal(release(a, WORKER_CLIENT, 0, 1).status, ERR_CONFLICT);
}

static void test_node_changes_no_row_of_a_client(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(acquire(a, WORKER_CLIENT, "billing", WORKER_ID_ANY).status, 0);
    in_the_way(a, renew(a, WORKER_NODE, 0, 1), "billing");
    in_the_way(a, release(a, WORKER_NODE, 0, 1), "billing");
    assert_int_equal(renew(a, WORKER_CLIENT, 0, 1).status, 0);
    assert_int_equal(release(a, WORKER_CLIENT, 0, 1).status, 0);
}

/* Whoever lost its worker id to a holder of the other kind must learn that its epoch is over, and
 * not only that somebody is in the way. */
static void test_fenced_by_the_other_kind(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(acquire(a, WORKER_NODE, "node-1", 0).status, 0);
    assert_int_equal(acquire(a, WORKER_CLIENT, "billing", 1).status, 0);
    (void)id_apply_clock(a, T + WINDOW + 1);
    assert_int_equal(acquire(a, WORKER_CLIENT, "other", 0).status, 0);
    assert_true(fsm_worker(a->fsm, 0)->granted_from_ms == T + WINDOW);
    assert_int_equal(acquire(a, WORKER_NODE, "node-2", 1).status, 0);
    assert_int_equal(renew(a, WORKER_NODE, 0, 1).status, ERR_FENCED);
    assert_int_equal(release(a, WORKER_NODE, 0, 1).status, ERR_FENCED);
    assert_int_equal(renew(a, WORKER_CLIENT, 1, 1).status, ERR_FENCED);
    assert_int_equal(release(a, WORKER_CLIENT, 1, 1).status, ERR_FENCED);
}

/* --- whatever clients send --- */

struct world {
    struct id_apply *apply;
    struct prng prng;
    uint64_t log_ms;
    unsigned incarnations[NODES];
};

static void node_name(const struct world *world, unsigned node, char *name, size_t size)
{
    (void)snprintf(name, size, "node-%u/%u", node, world->incarnations[node]);
}

/* A node asks for its own, or for another. One whose name a client got hold of, which may be when
 * nobody has it any more, comes with a new disk and so with a new name. */
static void node_step(struct world *world)
{
    unsigned node = (unsigned)prng_below(&world->prng, NODES);
    char name[32];
    int status;

    node_name(world, node, name, sizeof name);
    status = id_apply_acquire(world->apply, (struct worker_acquire){.kind = WORKER_NODE,
                                                                    .worker_id = WORKER_ID_ANY,
                                                                    .window_ms = WINDOW,
                                                                    .wall_ms = world->log_ms,
                                                                    .name = name})
                 .status;
    if (status == ERR_CONFLICT) {
        world->incarnations[node]++;
    }
}

/* A command of a client, often with the numbers that the rows have. */
static void client_step(struct world *world)
{
    struct id_apply *a = world->apply;
    struct prng *prng = &world->prng;
    uint64_t log_ms = world->log_ms;
    char name[32] = "client-x";
    uint32_t id = (uint32_t)prng_below(prng, 8);
    const struct worker_row *row = fsm_worker(a->fsm, id);
    uint64_t epoch = row != NULL ? row->epoch - prng_below(prng, 2) : 1;
    uint64_t until_ms = row != NULL ? row->granted_until_ms : 0;
    uint64_t used_ms = prng_below(prng, 3) * (log_ms - WINDOW + prng_below(prng, 2 * WINDOW)) / 2;

    name[7] = (char)('a' + prng_below(prng, 8));
    if (prng_below(prng, 4) == 0) {
        node_name(world, (unsigned)prng_below(prng, NODES), name, sizeof name);
    }
    switch (prng_below(prng, 3)) {
    case 0:
        (void)id_apply_acquire(
            a, (struct worker_acquire){.kind = WORKER_CLIENT,
                                       .worker_id = prng_below(prng, 2) == 0 ? WORKER_ID_ANY : id,
                                       .window_ms = 1000 + prng_below(prng, WINDOW),
                                       .floor_ms = prng_below(prng, 2) * log_ms,
                                       .wall_ms = log_ms,
                                       .name = name});
        break;
    case 1:
        (void)id_apply_renew(
            a, (struct worker_renew){.worker_id = id,
                                     .epoch = epoch,
                                     .expected_until_ms = prng_below(prng, 2) * until_ms,
                                     .window_ms = 1000 + prng_below(prng, WINDOW),
                                     .last_timestamp_ms = used_ms,
                                     .wall_ms = log_ms,
                                     .kind = WORKER_CLIENT});
        break;
    default:
        (void)id_apply_release(
            a, (struct worker_release){id, epoch, used_ms, WORKER_CLIENT, 0, false});
        break;
    }
}

/* Rows of nodes before a client's command, and after it: the same, or over and granted above. */
static void check_step(const struct worker_row *before, const struct worker_row *after,
                       uint64_t log_ms, unsigned *lost)
{
    if (before->state == 0 || before->kind != WORKER_NODE) {
        return;
    }
    if (id_apply_same_worker(before, after)) {
        return;
    }
    assert_true(before->granted_until_ms < log_ms);
    assert_true(after->epoch == before->epoch + 1);
    assert_true(after->granted_from_ms >= before->granted_until_ms);
    (*lost)++;
}

/* Shows P1-worker. */
static void test_no_clients_command_moves_a_window_of_a_node(void **state)
{
    struct world world = {.apply = *state, .log_ms = T};
    const struct fsm *fsm = world.apply->fsm;
    struct worker_row before[8];
    char names[8][LIMIT_WORKER_NAME_BYTES + 1]; /* of these, which have no address */
    unsigned lost = 0;

    prng_seed(&world.prng, 12);
    for (unsigned step = 0; step < STEPS; step++) {
        if (prng_below(&world.prng, 16) == 0) {
            world.log_ms += prng_below(&world.prng, WINDOW);
            (void)id_apply_clock(world.apply, world.log_ms);
        }
        if (prng_below(&world.prng, 32) == 0) {
            node_step(&world);
        }
        for (uint32_t id = 0; id < 8; id++) {
            const struct worker_row *row = fsm_worker(fsm, id);

            before[id] = row != NULL ? *row : (struct worker_row){.id = id, .name = ""};
            assert_int_equal(before[id].address_len, 0);
            memcpy(names[id], before[id].name, before[id].name_len);
            before[id].name = names[id];
            before[id].address = "";
        }
        client_step(&world);
        for (uint32_t id = 0; id < 8; id++) {
            check_step(&before[id], fsm_worker(fsm, id), world.log_ms, &lost);
        }
    }
    assert_true(lost > 100); /* expired ones did go to clients */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_client_changes_no_row_of_a_node),
        TEST(test_node_changes_no_row_of_a_client),
        TEST(test_fenced_by_the_other_kind),
        TEST(test_no_clients_command_moves_a_window_of_a_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
