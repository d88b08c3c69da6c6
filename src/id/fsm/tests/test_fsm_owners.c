/*
 * test_fsm_owners.c - rows belong to the client that made them. Worker ids: who may renew,
 * release and take over, that no window begins below what was promised, and which id is granted.
 * Keys: whom they answer.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/tests/keys_scene.h"
#include "src/id/tests/four_ids.h"

/* Clients with a name are odd. */
#define ALICE 11
#define BOB 13
#define ADDRESS 20
#define OTHER_ADDRESS 22

/* The rows make the same state again. */
static struct worker_acquire asking(const char *name, uint64_t client)
{
    struct worker_acquire ask = four_ids_asking(name);

    ask.kind = WORKER_CLIENT;
    ask.client = client;
    ask.percent = 100;
    return ask;
}

static struct worker_result acquire(struct id_apply *a, const char *name, uint64_t client)
{
    return id_apply_acquire(a, asking(name, client));
}

/* This very worker id. */
static struct worker_result acquire_id(struct id_apply *a, const char *name, uint64_t client,
                                       uint32_t id, bool force)
{
    struct worker_acquire ask = asking(name, client);

    ask.worker_id = id;
    ask.force = force;
    return id_apply_acquire(a, ask);
}

static struct worker_result renew(struct id_apply *a, uint64_t client, uint32_t id, uint64_t epoch)
{
    struct worker_renew ask = four_ids_renewal(id, epoch, T);

    ask.client = client;
    return id_apply_renew(a, ask);
}

static struct worker_result release(struct id_apply *a, uint64_t client, uint32_t id,
                                    uint64_t epoch, uint64_t used_ms, bool force)
{
    return id_apply_release(a, (struct worker_release){.worker_id = id,
                                                       .epoch = epoch,
                                                       .last_timestamp_ms = used_ms,
                                                       .kind = WORKER_CLIENT,
                                                       .client = client,
                                                       .force = force});
}

/* --- who may --- */

static void test_another_client_can_do_nothing(void **state)
{
    struct id_apply *a = *state;
    const uint64_t others[] = {BOB, ADDRESS};

    four_ids_granted(acquire(a, "a", ALICE), 0, 1, 0, T + WINDOW);
    for (size_t i = 0; i < 2; i++) {
        four_ids_refused(a, renew(a, others[i], 0, 1), ERR_NOT_OWNER);
        four_ids_refused(a, release(a, others[i], 0, 1, 1, false), ERR_NOT_OWNER);
        four_ids_refused(a, acquire_id(a, "a", others[i], 0, false), ERR_CONFLICT);
        four_ids_refused(a, acquire_id(a, "b", others[i], 0, false), ERR_CONFLICT);
    }
    assert_int_equal(renew(a, ALICE, 0, 1).status, 0);
    assert_int_equal(release(a, ALICE, 0, 1, 0, false).status, 0);
}

static void test_an_address_is_its_owner(void **state)
{
    struct id_apply *a = *state;

    four_ids_granted(acquire(a, "a", ADDRESS), 0, 1, 0, T + WINDOW);
    four_ids_refused(a, renew(a, OTHER_ADDRESS, 0, 1), ERR_NOT_OWNER);
    four_ids_refused(a, release(a, OTHER_ADDRESS, 0, 1, 1, false), ERR_NOT_OWNER);
    assert_int_equal(renew(a, ADDRESS, 0, 1).status, 0);
}

static void test_force_releases_and_takes_over(void **state)
{
    struct id_apply *a = *state;

    four_ids_granted(acquire(a, "a", ALICE), 0, 1, 0, T + WINDOW);
    four_ids_granted(acquire_id(a, "b", BOB, 0, true), 0, 2, T + WINDOW, T + 2 * WINDOW);
    four_ids_refused(a, renew(a, ALICE, 0, 1), ERR_FENCED);
    assert_int_equal(release(a, ALICE, 0, 2, 1, true).status, 0);
    assert_true(fsm_worker(a->fsm, 0)->granted_until_ms == T + 2 * WINDOW);
}

static void test_force_moves_no_node(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire node = four_ids_asking("node");

    node.kind = WORKER_NODE;
    four_ids_granted(id_apply_acquire(a, node), 0, 1, 0, T + WINDOW);
    four_ids_refused(a, acquire_id(a, "b", BOB, 0, true), ERR_CONFLICT);
    four_ids_refused(a, release(a, BOB, 0, 1, 1, true), ERR_CONFLICT);
    four_ids_refused(a, acquire(a, "node", BOB), ERR_CONFLICT); /* nor has a client its name */
}

/* A client that has the name of a node to come keeps nothing from it. */
static void test_a_node_finds_its_name_among_nodes(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire node = four_ids_asking("node");

    node.kind = WORKER_NODE;
    four_ids_granted(acquire(a, "node", BOB), 0, 1, 0, T + WINDOW);
    four_ids_granted(id_apply_acquire(a, node), 1, 1, 0, T + WINDOW);
    four_ids_granted(id_apply_acquire(a, node), 1, 2, T + WINDOW, T + 2 * WINDOW);
}

/* --- which, and from when on --- */

static void test_no_release_pulls_the_window_back(void **state)
{
    struct id_apply *a = *state;

    four_ids_granted(acquire(a, "a", ALICE), 0, 1, 0, T + WINDOW);
    assert_int_equal(release(a, ALICE, 0, 1, 1, false).status, 0);
    assert_true(fsm_worker(a->fsm, 0)->granted_until_ms == T + WINDOW);
    assert_true(fsm_worker(a->fsm, 0)->last_timestamp_ms == 1); /* shown */
    /* Nor is it free before: another one is. */
    four_ids_granted(acquire(a, "a", ALICE), 1, 1, 0, T + WINDOW);
    assert_int_equal(id_apply_clock(a, T + WINDOW + 1), 0);
    four_ids_granted(acquire(a, "b", BOB), 0, 2, T + WINDOW, T + 2 * WINDOW);
}

/* Else one that acquires and releases in a loop, with long windows, would leave none to others. */
static void test_a_released_one_counts_until_it_is_over(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = asking("a", ALICE);
    struct worker_result result;

    ask.most = 2;
    for (uint32_t id = 0; id < 2; id++) {
        four_ids_granted(id_apply_acquire(a, ask), id, 1, 0, T + WINDOW);
        assert_int_equal(release(a, ALICE, id, 1, 1, false).status, 0);
    }
    result = id_apply_acquire(a, ask);
    four_ids_refused(a, result, ERR_SHARE);
    assert_true(result.held == 2 && result.most == 2);
    four_ids_granted(acquire(a, "b", BOB), 2, 1, 0, T + WINDOW);
    assert_int_equal(id_apply_clock(a, T + WINDOW + 1), 0);
    assert_int_equal(id_apply_acquire(a, ask).status, 0);
    assert_int_equal(id_apply_acquire(a, ask).status, 0);
    assert_int_equal(id_apply_acquire(a, ask).status, ERR_SHARE);
}

/* Each process has a worker id of its own under the name, and loses it to none of the others. */
static void test_one_name_in_many_processes(void **state)
{
    struct id_apply *a = *state;

    for (uint32_t id = 0; id < 4; id++) {
        four_ids_granted(acquire(a, "billing", ALICE), id, 1, 0, T + WINDOW);
    }
    four_ids_refused(a, acquire(a, "billing", ALICE), ERR_NO_WORKER_ID);
    for (uint32_t id = 0; id < 4; id++) {
        assert_int_equal(renew(a, ALICE, id, 1).status, 0);
    }
    /* One that is over comes back by its name, and not the lowest one. */
    assert_int_equal(release(a, ALICE, 1, 1, 0, false).status, 0);
    assert_int_equal(release(a, ALICE, 2, 1, 0, false).status, 0);
    assert_int_equal(id_apply_clock(a, T + WINDOW + 1), 0);
    four_ids_granted(acquire(a, "else", BOB), 0, 2, T + WINDOW, T + 2 * WINDOW);
    assert_int_equal(acquire(a, "billing", ALICE).row.epoch, 2);
}

/* A name takes its own id over only once its window has begun, so none is ever further ahead. */
static void test_windows_do_not_pile_up(void **state)
{
    struct id_apply *a = *state;

    four_ids_granted(acquire(a, "a", ALICE), 0, 1, 0, T + WINDOW);
    four_ids_granted(acquire_id(a, "a", ALICE, 0, false), 0, 2, T + WINDOW, T + 2 * WINDOW);
    for (int i = 0; i < 3; i++) {
        four_ids_refused(a, acquire_id(a, "a", ALICE, 0, false), ERR_CONFLICT);
        four_ids_refused(a, acquire_id(a, "a", BOB, 0, true), ERR_CONFLICT);
    }
    assert_int_equal(release(a, ALICE, 0, 2, 0, false).status, 0);
    four_ids_refused(a, acquire_id(a, "a", ALICE, 0, false), ERR_CONFLICT);
    assert_int_equal(id_apply_clock(a, T + WINDOW), 0);
    four_ids_granted(acquire_id(a, "a", ALICE, 0, false), 0, 3, T + 2 * WINDOW, T + 3 * WINDOW);
}

/* With the longest windows, too, no clock is blamed. */
static void test_no_clock_is_wrong(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = asking("a", ALICE);
    struct worker_result result;

    ask.window_ms = LIMIT_WINDOW_MAX_MS;
    ask.wall_ms = T + LIMIT_WORKER_AHEAD_MS;
    ask.worker_id = 0;
    assert_int_equal(id_apply_acquire(a, ask).status, 0);
    result = id_apply_acquire(a, ask);
    four_ids_refused(a, result, ERR_CONFLICT);
    assert_true(result.row.granted_until_ms == ask.wall_ms + LIMIT_WINDOW_MAX_MS);
}

/* One that is free goes before one that nobody ever had. */
static void test_the_lowest_free_one(void **state)
{
    struct id_apply *a = *state;

    four_ids_granted(acquire(a, "a", ALICE), 0, 1, 0, T + WINDOW);
    four_ids_granted(acquire(a, "b", ALICE), 1, 1, 0, T + WINDOW);
    four_ids_granted(acquire(a, "c", ALICE), 2, 1, 0, T + WINDOW);
    assert_int_equal(id_apply_clock(a, T + 1), 0);
    assert_int_equal(id_apply_renew(a, four_ids_renewal(0, 1, T + WINDOW)).status, 0);
    assert_int_equal(id_apply_clock(a, T + WINDOW + 1), 0);
    four_ids_granted(acquire(a, "new", BOB), 1, 2, T + WINDOW, T + 2 * WINDOW);
}

/* Where all are used up, a released one serves yet, above its window, as all do in a cluster that
 * was restored. */
static void test_released_ones_serve_before_none(void **state)
{
    struct id_apply *a = *state;

    for (uint32_t id = 0; id < 4; id++) {
        four_ids_granted(acquire(a, "a", ALICE), id, 1, 0, T + WINDOW);
    }
    assert_int_equal(release(a, ALICE, 2, 1, 1, false).status, 0);
    four_ids_granted(acquire(a, "b", BOB), 2, 2, T + WINDOW, T + 2 * WINDOW);
    assert_int_equal(release(a, BOB, 2, 2, 1, false).status, 0);
    four_ids_refused(a, acquire(a, "b", BOB), ERR_NO_WORKER_ID); /* it has not begun */
}

/* Whatever clients say, in any order: windows of an id never overlap, and rise. */
static void test_random_clients_never_get_a_time_twice(void **state)
{
    struct id_apply *a = *state;
    uint64_t until[4] = {0};
    uint64_t now_ms = T;
    struct prng prng;

    prng_seed(&prng, 20261128);
    for (int step = 0; step < 20000; step++) {
        uint32_t id = (uint16_t)prng_below(&prng, 4);
        uint64_t client = 11 + prng_below(&prng, 4);
        const struct worker_row *row = fsm_worker(a->fsm, id);
        uint64_t epoch = row != NULL && prng_below(&prng, 4) > 0 ? row->epoch : 1;
        uint64_t used_ms = prng_below(&prng, 2) * (1 + prng_below(&prng, now_ms));
        bool force = prng_below(&prng, 8) == 0;
        struct worker_result result;

        switch (prng_below(&prng, 5)) {
        case 0:
            now_ms += prng_below(&prng, WINDOW);
            (void)id_apply_clock(a, now_ms);
            break;
        case 1:
            (void)release(a, client, id, epoch, used_ms, force);
            break;
        case 2:
            result = renew(a, client, id, epoch);
            until[id] = result.status == 0 ? result.row.granted_until_ms : until[id];
            break;
        default:
            result = prng_below(&prng, 2) == 0 ? acquire(a, "a", client)
                                               : acquire_id(a, "a", client, id, force);
            if (result.status == 0) {
                id = result.row.id;
                assert_true(result.row.granted_from_ms >= until[id]);
                assert_true(result.row.granted_until_ms <= now_ms + 2 * (uint64_t)WINDOW);
                until[id] = result.row.granted_until_ms;
            }
        }
        row = fsm_worker(a->fsm, id);
        assert_true(row == NULL || row->granted_until_ms >= until[id]);
    }
}

/* --- keys --- */

static struct strict_result take(struct id_apply *a, const char *key, uint64_t client,
                                 uint32_t count)
{
    const struct strict_item item = {.name = "a", .key = key, .count = count, .client = client};
    const struct command_list batch = {.key_limit = a->key_limit, .key_share = 100};
    struct strict_result result;

    id_apply_strict(a, batch, &item, 1, &result);
    return result;
}

static void test_a_key_answers_its_owner_alone(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, "k", ALICE, 2), 1);
    refuses(take(a, "k", BOB, 2), ERR_KEY_CONFLICT, 0);
    refuses(take(a, "k", BOB, 3), ERR_KEY_CONFLICT, 0); /* nor tells it how many */
    refuses(take(a, "k", ADDRESS, 2), ERR_KEY_CONFLICT, 0);
    refuses(take(a, "k", ALICE, 3), ERR_KEY_CONFLICT, 2);
    replays(take(a, "k", ALICE, 2), 1);
    assert_true(id_apply_row(a, "a")->max_id == 3); /* no id went */
}

/* A client repeats to another node, where it may have another address. */
static void test_addresses_are_one_owner_of_keys(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, "k", ADDRESS, 1), 1);
    replays(take(a, "k", OTHER_ADDRESS, 1), 1);
    refuses(take(a, "k", ALICE, 1), ERR_KEY_CONFLICT, 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, four_ids_setup, id_apply_end)
#define TEST_KEYS(test) cmocka_unit_test_setup_teardown(test, keys_setup, id_apply_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_another_client_can_do_nothing),
        TEST(test_an_address_is_its_owner),
        TEST(test_force_releases_and_takes_over),
        TEST(test_force_moves_no_node),
        TEST(test_a_node_finds_its_name_among_nodes),
        TEST(test_no_release_pulls_the_window_back),
        TEST(test_a_released_one_counts_until_it_is_over),
        TEST(test_one_name_in_many_processes),
        TEST(test_windows_do_not_pile_up),
        TEST(test_no_clock_is_wrong),
        TEST(test_the_lowest_free_one),
        TEST(test_released_ones_serve_before_none),
        TEST(test_random_clients_never_get_a_time_twice),
        TEST_KEYS(test_a_key_answers_its_owner_alone),
        TEST_KEYS(test_addresses_are_one_owner_of_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
