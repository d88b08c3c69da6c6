/*
 * test_fsm_shares_keys.c - how many idempotency keys one client may have: the bound and one beyond,
 * what counts and what does not, and that the count is right after whatever happens to a key.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/fsm/tests/keys_scene.h"

/* Addresses: a key of one answers the other, too. */
#define GREEDY 20
#define MODEST 22
#define SHARE 2

static uint64_t held_by(const struct id_apply *a, uint64_t client)
{
    return fsm_owners_held(&a->fsm->keys.owners, client);
}

/* One id under a key for a client, which may have `most`; 0: SHARE. */
static struct strict_result take(struct id_apply *a, const char *key, uint64_t client,
                                 uint32_t most)
{
    const struct strict_item item = {
        .name = "a", .key = key, .count = 1, .client = client, .most = most};
    const struct command_list batch = {.key_limit = a->key_limit, .key_share = SHARE};
    struct strict_result result;

    id_apply_strict(a, batch, &item, 1, &result);
    return result;
}

static void test_the_share_and_one_more(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, "1", GREEDY, 0), 1);
    gives(take(a, "2", GREEDY, 0), 2);
    refuses(take(a, "3", GREEDY, 0), ERR_SHARE, share_detail(2, 2));
    assert_true(id_apply_row(a, "a")->max_id == 3); /* no id went */
    assert_int_equal(held_by(a, GREEDY), 2);
    replays(take(a, "1", GREEDY, 0), 1); /* what is known is answered, */
    gives(id_apply_take(a, "a", 1), 3);  /* and what has no key, */
    gives(take(a, "3", MODEST, 0), 4);   /* and others. */
    replays(take(a, "3", GREEDY, 0), 4); /* A key is the tag's. */
    assert_int_equal(held_by(a, GREEDY), 2);
    assert_int_equal(held_by(a, MODEST), 1);
}

static void test_an_allowance_goes_before_the_share(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, "1", GREEDY, 3), 1);
    gives(take(a, "2", GREEDY, 3), 2);
    gives(take(a, "3", GREEDY, 3), 3);
    refuses(take(a, "4", GREEDY, 3), ERR_SHARE, share_detail(3, 3));
    refuses(take(a, "4", GREEDY, 0), ERR_SHARE, share_detail(3, 2));
    gives(take(a, "4", GREEDY, 4), 4);
    gives(take(a, "5", MODEST, 0), 5);
}

static void test_nobodys_keys_are_not_counted(void **state)
{
    struct id_apply *a = *state;

    gives(id_apply_take_by(a, "a", "1", 1), 1);
    gives(take(a, "2", 0, 1), 2);
    gives(take(a, "3", 0, 1), 3);
    assert_int_equal(a->fsm->keys.owners.table.count, 0);
}

static void test_a_full_table_is_said_first(void **state)
{
    struct id_apply *a = *state;

    a->key_limit = 2;
    gives(take(a, "1", GREEDY, 0), 1);
    gives(take(a, "2", GREEDY, 0), 2);
    refuses(take(a, "3", GREEDY, 0), ERR_KEYS_FULL, 2);
    refuses(take(a, "3", MODEST, 0), ERR_KEYS_FULL, 2);
}

static void test_within_one_batch(void **state)
{
    struct id_apply *a = *state;
    const struct command_list batch = {.key_limit = 10, .key_share = SHARE};
    const struct strict_item items[5] = {
        {.name = "a", .key = "1", .count = 1, .client = GREEDY},
        {.name = "a", .key = "2", .count = 1, .client = GREEDY},
        {.name = "a", .key = "3", .count = 1, .client = GREEDY},
        {.name = "a", .key = "1", .count = 1, .client = GREEDY},
        {.name = "a", .key = "4", .count = 1, .client = MODEST},
    };
    struct strict_result results[5];
    struct buf copy;

    id_apply_strict(a, batch, items, 5, results);
    gives(results[0], 1);
    gives(results[1], 2);
    refuses(results[2], ERR_SHARE, share_detail(2, 2));
    replays(results[3], 1);
    gives(results[4], 3);
    copy = id_apply_copy(a); /* it comes again, and counts once */
    id_apply_again(a, &copy);
    assert_int_equal(a->changed, 0);
    assert_int_equal(held_by(a, GREEDY), 2);
    assert_int_equal(held_by(a, MODEST), 1);
    buf_free(&copy);
}

static void test_a_forgotten_key_makes_room(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, "1", GREEDY, 0), 1);
    (void)id_apply_clock(a, NOW_MS + 1000);
    gives(take(a, "2", GREEDY, 0), 2);
    (void)id_apply_clock(a, NOW_MS + LIMIT_KEY_LIFE_MS - 1);
    refuses(take(a, "3", GREEDY, 0), ERR_SHARE, share_detail(2, 2));
    (void)id_apply_clock(a, NOW_MS + LIMIT_KEY_LIFE_MS);
    assert_int_equal(held_by(a, GREEDY), 1);
    gives(take(a, "3", GREEDY, 0), 3);
    refuses(take(a, "4", GREEDY, 0), ERR_SHARE, share_detail(2, 2));
    (void)id_apply_clock(a, NOW_MS + 2 * (uint64_t)LIMIT_KEY_LIFE_MS);
    assert_int_equal(held_by(a, GREEDY), 0);
    assert_int_equal(a->fsm->keys.owners.table.count, 0);
    assert_true(a->fsm->keys.bytes == 0);
}

/* A key that is not in force any more is another's as soon as that one uses it. */
static void test_a_key_that_changes_hands(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, "1", GREEDY, 0), 1);
    a->fsm->settings.log_ms = NOW_MS + LIMIT_KEY_LIFE_MS; /* no clock that would expire it */
    gives(take(a, "1", MODEST, 0), 2);
    assert_int_equal(held_by(a, GREEDY), 0);
    assert_int_equal(held_by(a, MODEST), 1);
    a->fsm->settings.log_ms = NOW_MS;
    assert_int_equal(id_apply_clock(a, NOW_MS + LIMIT_KEY_LIFE_MS), 0);
}

static void test_it_holds_behind_a_restart(void **state)
{
    struct id_apply *a = *state;
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));

    gives(take(a, "1", GREEDY, 0), 1);
    gives(take(a, "2", GREEDY, 0), 2);
    gives(take(a, "3", MODEST, 0), 3);
    id_apply_load(a, loaded);
    assert_true(loaded->keys.bytes == a->fsm->keys.bytes);
    state_free(fsm_state(a->fsm));
    a->fsm = loaded;
    assert_int_equal(held_by(a, GREEDY), 2);
    assert_int_equal(held_by(a, MODEST), 1);
    refuses(take(a, "4", GREEDY, 0), ERR_SHARE, share_detail(2, 2));
    gives(take(a, "4", MODEST, 0), 4);
}

static void test_rows_that_no_apply_made(void **state)
{
    static const char *const values[] = {
        "01 0100000000000000 01000000 0100000000000000 0100000000000000 0000",
        "02 0100000000000000 01000000 0100000000000000 0100000000000000 0000 0500000000000000",
        "02 0100000000000000 01000000 0100000000000000 0100000000000000 0000 0000000000000000",
        "02 0100000000000000 01000000 0100000000000000 0100000000000000 0000",
        "04 0100000000000000 01000000 0100000000000000 0100000000000000 0000 0500000000000000",
        "03 0100000000000000 01000000 0100000000000000 0100000000000000 0000 0000000000000000 "
        "02000000",
        "03 0100000000000000 01000000 0100000000000000 0100000000000000 0000 0000000000000000 "
        "00000000",
        "03 0100000000000000 01000000 0100000000000000 0100000000000000 0000 0000000000000000 "
        "01000000",
    };
    static const int wanted[] = {0, 0,           ERR_CORRUPT, ERR_TRUNCATED, ERR_BAD_VERSION,
                                 0, ERR_CORRUPT, ERR_CORRUPT};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct fsm *fsm = fsm_of(state_new(&fsm_machine));

        state_load_begin(fsm_state(fsm));
        assert_int_equal(id_load_hex(fsm, "69 01 61 6b", values[i]), wanted[i]);
        assert_int_equal(fsm_owners_held(&fsm->keys.owners, 5), i == 1);
        state_free(fsm_state(fsm));
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, keys_setup, id_apply_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_share_and_one_more),
        TEST(test_an_allowance_goes_before_the_share),
        TEST(test_nobodys_keys_are_not_counted),
        TEST(test_a_full_table_is_said_first),
        TEST(test_within_one_batch),
        TEST(test_a_forgotten_key_makes_room),
        TEST(test_a_key_that_changes_hands),
        TEST(test_it_holds_behind_a_restart),
        TEST(test_rows_that_no_apply_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
