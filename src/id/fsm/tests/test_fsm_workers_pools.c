/*
 * test_fsm_workers_pools.c - worker ids beyond the cluster's own layout, and the pools of zones:
 * which ids an acquire may take, and that no pool moves what is held.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"

#define T 1700000000000ULL
#define WINDOW 10000ULL

static const struct snowflake_layout LEAF = SNOWFLAKE_LEAF_LAYOUT;

static int setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    id_apply_raise(a, 3);
    assert_int_equal(id_apply_layout(a, &LEAF), 0);
    assert_int_equal(id_apply_clock(a, T), 0);
    return 0;
}

static struct worker_result take(struct id_apply *a, const char *name, uint8_t bits,
                                 const char *zone, uint32_t id)
{
    return id_apply_acquire(a, (struct worker_acquire){.kind = WORKER_CLIENT,
                                                       .worker_id = id,
                                                       .window_ms = WINDOW,
                                                       .wall_ms = a->fsm->settings.log_ms,
                                                       .name = name,
                                                       .bits = bits,
                                                       .zone = zone});
}

static uint32_t taken(struct id_apply *a, const char *name, uint8_t bits, const char *zone)
{
    struct worker_result result = take(a, name, bits, zone, WORKER_ID_ANY);

    assert_int_equal(result.status, 0);
    return result.row.id;
}

/* --- worker ids of wider layouts --- */

static void test_a_wide_layout_leaves_the_nodes_theirs(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(taken(a, "wide", 16, NULL), 1024);
    assert_int_equal(taken(a, "wide", 16, NULL), 1025);
    assert_int_equal(taken(a, "own", 0, NULL), 0);
    assert_int_equal(taken(a, "narrow", 2, NULL), 1);
    assert_int_equal(taken(a, "narrow", 2, NULL), 2);
    assert_int_equal(taken(a, "narrow", 2, NULL), 3);
    assert_int_equal(take(a, "narrow", 2, NULL, WORKER_ID_ANY).status, ERR_NO_WORKER_ID);
    assert_int_equal(take(a, "w", 22, NULL, LIMIT_WORKER_IDS - 1).status, 0);
    assert_int_equal(take(a, "w", 22, NULL, LIMIT_WORKER_IDS - 1).status, 0); /* its own, again */
    assert_int_equal(take(a, "w", 21, NULL, LIMIT_WORKER_IDS - 1).status, ERR_INVALID);
    assert_int_equal(take(a, "w", 16, NULL, 65535).status, 0);
    assert_int_equal(take(a, "w", 16, NULL, 65536).status, ERR_INVALID);
    assert_int_equal(take(a, "w", 0, NULL, 1024).status, ERR_INVALID);
}

/* One bit more than the own layout, so that all can be taken quickly: the low ones come last. */
static void test_when_the_wide_ones_are_held_the_low_ones_are_taken(void **state)
{
    struct id_apply *a = *state;

    for (unsigned i = 0; i < 1024; i++) {
        assert_int_equal(taken(a, "all", 11, NULL), 1024 + i);
    }
    assert_int_equal(taken(a, "all", 11, NULL), 0);
    (void)id_apply_clock(a, T + WINDOW + 1);
    assert_int_equal(taken(a, "other", 11, NULL), 1024);
}

/* In any order of their ids the list is that of the rows, also once it was loaded. */
static void test_rows_of_any_ids_are_found(void **state)
{
    struct id_apply *a = *state;
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));
    const struct worker_row *row;
    struct prng prng;
    size_t count = 0;
    uint32_t before = 0;

    prng_seed(&prng, 34);
    for (unsigned i = 0; i < 500; i++) {
        uint32_t id = (uint32_t)prng_below(&prng, i < 250 ? 70000 : LIMIT_WORKER_IDS);

        assert_int_equal(take(a, "n", 22, NULL, id).status, 0);
        assert_int_equal(fsm_worker(a->fsm, id)->id, id);
    }
    id_apply_load(a, loaded);
    assert_true(state_digest(fsm_state(loaded)) == state_digest(fsm_state(a->fsm)));
    for (; (row = fsm_worker_at(a->fsm, count)) != NULL; count++) {
        assert_true(count == 0 || row->id > before);
        assert_ptr_equal(fsm_worker(a->fsm, row->id), row);
        assert_true(id_apply_same_worker(fsm_worker_at(loaded, count), row));
        before = row->id;
    }
    assert_true(count > 400);
    assert_null(fsm_worker_at(loaded, count));
    state_free(fsm_state(loaded));
}

/* --- pools --- */

static void test_a_zone_takes_from_its_pool_alone(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(id_apply_pools(a, "a=0-1,b=2-3"), 0);
    assert_int_equal(taken(a, "x", 0, "a"), 0);
    assert_int_equal(taken(a, "x", 0, "b"), 2);
    assert_int_equal(taken(a, "x", 0, NULL), 4);
    assert_int_equal(taken(a, "x", 0, "no-pool"), 5);
    assert_int_equal(taken(a, "x", 0, "a"), 1);
    assert_int_equal(take(a, "x", 0, "a", WORKER_ID_ANY).status, ERR_NO_WORKER_ID);
    assert_int_equal(taken(a, "x", 0, NULL), 6);
    assert_int_equal(take(a, "x", 0, "b", 7).status, ERR_CONFLICT);
    assert_false(take(a, "x", 0, NULL, 3).has_row);
    assert_int_equal(take(a, "x", 0, NULL, 3).status, ERR_CONFLICT);
    assert_int_equal(take(a, "x", 0, "b", 3).status, 0);
    assert_int_equal(take(a, "y", 0, "b", 3).status, ERR_CONFLICT); /* held: by x */
    assert_true(take(a, "y", 0, "b", 3).has_row);
}

/* A held id stays its holder's: renewed as ever, and free for the pool once its window is over. */
static void test_a_pool_moves_nothing_that_is_held(void **state)
{
    struct id_apply *a = *state;
    struct worker_result held = take(a, "x", 0, NULL, WORKER_ID_ANY);
    struct worker_renew renew = {
        .worker_id = held.row.id, .epoch = held.row.epoch, .window_ms = 2 * WINDOW, .wall_ms = T};

    assert_int_equal(held.row.id, 0);
    assert_int_equal(id_apply_pools(a, "a=0-0"), 0);
    assert_int_equal(id_apply_renew(a, renew).status, 0);
    assert_int_equal(take(a, "y", 0, "a", WORKER_ID_ANY).status, ERR_NO_WORKER_ID);
    assert_int_equal(taken(a, "z", 0, NULL), 1);
    (void)id_apply_clock(a, T + 2 * WINDOW + 1);
    held = take(a, "y", 0, "a", WORKER_ID_ANY);
    assert_int_equal(held.status, 0);
    assert_int_equal(held.row.id, 0);
    assert_true(held.row.granted_from_ms >= T + 2 * WINDOW);
    assert_true(id_apply_renew(a, renew).status != 0); /* the earlier epoch is fenced off */
    assert_int_equal(id_apply_pools(a, ""), 0);
    assert_int_equal(taken(a, "w", 0, NULL), 1);
}

static void test_what_pools_are(void **state)
{
    static const struct {
        const char *text;
        int status;
        const char *why;
    } cases[] = {
        {"", 0, ""},
        {"a=0-0", 0, ""},
        {"zone-1=0-31,zone-2=32-4194303", 0, ""},
        {"a=0-4194304", ERR_INVALID, "pool 1 is not"},
        {"a=5-4", ERR_INVALID, "pool 1 is not"},
        {"a=1", ERR_INVALID, "pool 1 is not"},
        {"a=1-2 ", ERR_INVALID, "pool 1 is not"},
        {"=1-2", ERR_INVALID, "pool 1 is not"},
        {"a=1-2,", ERR_INVALID, "missing"},
        {"a=1-2,,b=3-4", ERR_INVALID, "pool 2 is not"},
        {"a=0-31,b=31-40", ERR_CONFLICT, "a=0-31 and b=31-40 overlap"},
        {"a=0-31,a=40-41", ERR_CONFLICT, "a=0-31 and a=40-41 are of one zone"},
    };
    struct id_apply *a = *state;
    struct worker_pools pools;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char why[WORKER_POOLS_WHY_BYTES] = "";
        const char *text = cases[i].text;

        assert_int_equal(worker_pools_read(text, strlen(text), &pools, why), cases[i].status);
        assert_non_null(strstr(why, cases[i].why));
        assert_int_equal(id_apply_pools(a, text), cases[i].status != 0 ? ERR_INVALID : 0);
    }
}

static void test_pools_at_their_limit(void **state)
{
    char text[LIMIT_POOLS * 16];
    char why[WORKER_POOLS_WHY_BYTES];
    struct worker_pools pools;
    int len = 0;

    (void)state;
    for (unsigned i = 0; i <= LIMIT_POOLS; i++) {
        len += snprintf(text + len, sizeof text - (size_t)len, "%sz%u=%u-%u", i > 0 ? "," : "", i,
                        i, i);
        assert_int_equal(worker_pools_read(text, (size_t)len, &pools, why),
                         i < LIMIT_POOLS ? 0 : ERR_INVALID);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, id_apply_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_wide_layout_leaves_the_nodes_theirs),
        TEST(test_when_the_wide_ones_are_held_the_low_ones_are_taken),
        TEST(test_rows_of_any_ids_are_found),
        TEST(test_a_zone_takes_from_its_pool_alone),
        TEST(test_a_pool_moves_nothing_that_is_held),
        TEST(test_what_pools_are),
        TEST(test_pools_at_their_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
