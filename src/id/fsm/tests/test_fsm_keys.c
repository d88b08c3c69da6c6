/*
 * test_fsm_keys.c - idempotency keys: the same ids for the same key, a day long; bounded, and
 * forgotten the oldest first. Their rows and their memory are in test_fsm_keys_table.c.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/fsm/tests/keys_scene.h"

static void test_the_same_key_gives_the_same_ids(void **state)
{
    struct id_apply *a = *state;

    gives(id_apply_take_by(a, "a", "k", 5), 1);
    assert_int_equal(a->changed, 2); /* the tag, the key */
    gives(id_apply_take_by(a, "a", "l", 5), 6);
    gives(id_apply_take(a, "a", 1), 11);
    replays(id_apply_take_by(a, "a", "k", 5), 1);
    assert_int_equal(a->changed, 0);
    replays(id_apply_take_by(a, "a", "l", 5), 6);
    assert_true(id_apply_row(a, "a")->max_id == 12);
    assert_int_equal(a->fsm->keys.table.count, 2);
}

/* Shows lesson-unknown. */
static void test_another_count_is_a_conflict(void **state)
{
    struct id_apply *a = *state;

    gives(id_apply_take_by(a, "a", "k", 5), 1);
    refuses(id_apply_take_by(a, "a", "k", 4), ERR_KEY_CONFLICT, 5);
    refuses(id_apply_take_by(a, "a", "k", 6), ERR_KEY_CONFLICT, 5);
    replays(id_apply_take_by(a, "a", "k", 5), 1);
    assert_true(id_apply_row(a, "a")->max_id == 6);
}

static void test_keys_are_of_their_tag(void **state)
{
    struct id_apply *a = *state;

    id_apply_mode(a, "ab", TAG_MODE_STRICT);
    gives(id_apply_take_by(a, "a", "bk", 5), 1);
    gives(id_apply_take_by(a, "ab", "k", 7), 1); /* not one string that was cut elsewhere */
    gives(id_apply_take_by(a, "ab", "bk", 9), 8);
    replays(id_apply_take_by(a, "a", "bk", 5), 1);
    replays(id_apply_take_by(a, "ab", "k", 7), 1);
}

static void test_keys_at_their_limits_of_length(void **state)
{
    struct id_apply *a = *state;
    char name[LIMIT_TAG_NAME_BYTES + 1] = "";
    char key[LIMIT_KEY_BYTES + 1] = "";

    memset(name, 'n', LIMIT_TAG_NAME_BYTES);
    memset(key, 'k', LIMIT_KEY_BYTES);
    id_apply_mode(a, name, TAG_MODE_STRICT);
    gives(id_apply_take_by(a, name, key, 1), 1);
    key[LIMIT_KEY_BYTES - 1] = '\0';
    gives(id_apply_take_by(a, name, key, 1), 2);
    key[LIMIT_KEY_BYTES - 1] = 'k';
    replays(id_apply_take_by(a, name, key, 1), 1);
}

static void test_twice_in_one_batch(void **state)
{
    struct id_apply *a = *state;
    const struct command_list batch = {.key_limit = 10};
    const struct strict_item items[4] = {{.name = "a", .key = "k", .count = 2},
                                         {.name = "a", .count = 1},
                                         {.name = "a", .key = "k", .count = 2},
                                         {.name = "a", .key = "k", .count = 1}};
    struct strict_result results[4];
    struct buf copy;
    size_t count = 0;

    id_apply_strict(a, batch, items, 4, results);
    gives(results[0], 1);
    gives(results[1], 3);
    replays(results[2], 1);
    refuses(results[3], ERR_KEY_CONFLICT, 2);
    copy = id_apply_copy(a);
    id_apply_again(a, &copy); /* the batch again: nothing is new */
    assert_int_equal(
        results_decode(RESULT_STRICT, a->result.data, a->result.len, results, 4, &count), 0);
    gives(results[0], 1);
    replays(results[2], 1);
    assert_int_equal(a->fsm->keys.table.count, 1);
    buf_free(&copy);
}

static void test_what_happened_to_the_tag_since(void **state)
{
    struct id_apply *a = *state;
    const struct tag_put down = {.name = "a", .fields = TAG_FIELD_MAX_ID, .max_id = 1};

    id_apply_mode(a, "other", TAG_MODE_TREND);
    (void)id_apply_grant(a, "other", 1);
    gives(id_apply_take_by(a, "a", "k", 5), 1);
    assert_int_equal(id_apply_put(a, down, true).status, 0);
    replays(id_apply_take_by(a, "a", "k", 5), 1);
    assert_int_equal(id_apply_delete(a, "a"), 0);
    refuses(id_apply_take_by(a, "a", "k", 5), ERR_UNKNOWN_TAG, 0);
    id_apply_mode(a, "a", TAG_MODE_TREND);
    refuses(id_apply_take_by(a, "a", "k", 5), ERR_WRONG_MODE, 0);
    id_apply_mode(a, "a", TAG_MODE_STRICT); /* recalls: node 1 may hold a segment */
    replays(id_apply_take_by(a, "a", "k", 5), 1);
    refuses(id_apply_take_by(a, "a", "k", 6), ERR_KEY_CONFLICT, 5);
    refuses(id_apply_take_by(a, "a", "new", 5), ERR_CHANGING, 1);
    assert_int_equal(a->fsm->keys.table.count, 1);
}

static void test_a_failed_allocation_remembers_no_key(void **state)
{
    struct id_apply *a = *state;
    const struct tag_put up = {
        .name = "a", .fields = TAG_FIELD_MAX_ID, .max_id = TAG_MAX_ID_END - 3};

    assert_int_equal(id_apply_put(a, up, true).status, 0);
    refuses(id_apply_take_by(a, "a", "k", 4), ERR_EXHAUSTED, 3);
    assert_int_equal(a->fsm->keys.table.count, 0);
    gives(id_apply_take_by(a, "a", "k", 3), TAG_MAX_ID_END - 3);
    replays(id_apply_take_by(a, "a", "k", 3), TAG_MAX_ID_END - 3);
}

static void test_without_a_time_of_the_log(void **state)
{
    struct id_apply *a = *state;

    id_apply_free(a);
    id_apply_init(a);
    id_apply_mode(a, "a", TAG_MODE_STRICT);
    refuses(id_apply_take_by(a, "a", "k", 1), ERR_EMPTY, 0);
    gives(id_apply_take(a, "a", 1), 1);
    assert_int_equal(id_apply_clock(a, NOW_MS), 0);
    gives(id_apply_take_by(a, "a", "k", 1), 2);
}

/* --- age --- */

/* Shows lesson-unknown. */
static void test_a_key_is_kept_for_a_day_of_the_logs_time(void **state)
{
    struct id_apply *a = *state;

    gives(id_apply_take_by(a, "a", "k", 1), 1);
    assert_int_equal(id_apply_clock(a, NOW_MS + LIMIT_KEY_LIFE_MS - 1), 0);
    replays(id_apply_take_by(a, "a", "k", 1), 1);
    assert_int_equal(a->fsm->keys.table.count, 1);
    assert_int_equal(id_apply_clock(a, NOW_MS + LIMIT_KEY_LIFE_MS), 0);
    assert_int_equal(a->fsm->keys.table.count, 0);
    gives(id_apply_take_by(a, "a", "k", 7), 2); /* a new key, whatever its count was */
    assert_int_equal(id_apply_clock(a, NOW_MS + 2 * LIMIT_KEY_LIFE_MS - 1), 0);
    replays(id_apply_take_by(a, "a", "k", 7), 2);
}

/* Set the log's time so that no COMMAND_CLOCK forgets what is expired. */
static void clock_without_expiry(struct id_apply *a, uint64_t ms)
{
    struct row_changes changes = {0};

    fsm_state(a->fsm)->journal.changes = &changes;
    facts_clock(fsm_state(a->fsm), ms);
    a->fsm->settings.log_ms = ms;
    fsm_state(a->fsm)->journal.changes = NULL;
    assert_int_equal(changes.count, 1);
    id_apply_keep(a, &changes);
}

static void test_an_expired_key_that_is_there_yet_counts_as_new(void **state)
{
    struct id_apply *a = *state;

    gives(id_apply_take_by(a, "a", "k", 1), 1);
    clock_without_expiry(a, NOW_MS + LIMIT_KEY_LIFE_MS);
    assert_int_equal(a->fsm->keys.table.count, 1);
    gives(id_apply_take_by(a, "a", "k", 2), 2);
    assert_int_equal(a->fsm->keys.table.count, 1);
    replays(id_apply_take_by(a, "a", "k", 2), 2);
    assert_int_equal(id_apply_clock(a, NOW_MS + LIMIT_KEY_LIFE_MS + 1), 0);
    replays(id_apply_take_by(a, "a", "k", 2), 2); /* its age began anew */
}

static void test_the_oldest_are_forgotten_first(void **state)
{
    struct id_apply *a = *state;
    char key[8];

    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(key, sizeof key, "%u", (i * 7) % 10);
        assert_int_equal(id_apply_clock(a, NOW_MS + i + 1), 0);
        gives(id_apply_take_by(a, "a", key, 1), i + 1);
    }
    assert_int_equal(id_apply_clock(a, NOW_MS + LIMIT_KEY_LIFE_MS + 4), 0);
    assert_int_equal(a->fsm->keys.table.count, 6);
    for (unsigned i = 4; i < 10; i++) {
        (void)snprintf(key, sizeof key, "%u", (i * 7) % 10);
        replays(id_apply_take_by(a, "a", key, 1), i + 1);
    }
}

/* --- bounds --- */

/* Shows lesson-unknown. */
static void test_a_full_table_refuses_new_keys(void **state)
{
    struct id_apply *a = *state;
    char key[8];

    a->key_limit = 3;
    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(key, sizeof key, "%u", i);
        gives(id_apply_take_by(a, "a", key, 1), i + 1);
    }
    refuses(id_apply_take_by(a, "a", "3", 1), ERR_KEYS_FULL, 3);
    assert_true(id_apply_row(a, "a")->max_id == 4);
    replays(id_apply_take_by(a, "a", "1", 1), 2); /* what is known is answered */
    gives(id_apply_take(a, "a", 1), 4);           /* and what has no key */
    a->key_limit = 2;                             /* of a node that is configured otherwise */
    refuses(id_apply_take_by(a, "a", "3", 1), ERR_KEYS_FULL, 2);
    a->key_limit = 0;
    refuses(id_apply_take_by(a, "a", "3", 1), ERR_KEYS_FULL, 0);
    a->key_limit = UINT32_MAX;
    gives(id_apply_take_by(a, "a", "3", 1), 5);
}

static void test_a_table_full_of_expired_keys_takes_a_whole_batch(void **state)
{
    struct id_apply *a = *state;
    struct strict_item *items = calloc(LIMIT_STRICT_ITEMS, sizeof *items);
    struct strict_result *results = calloc(LIMIT_STRICT_ITEMS, sizeof *results);
    char(*keys)[8] = calloc(LIMIT_STRICT_ITEMS, sizeof *keys);
    const struct command_list batch = {.key_limit = LIMIT_STRICT_ITEMS};

    assert_true(items != NULL && results != NULL && keys != NULL);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < LIMIT_STRICT_ITEMS; i++) {
            (void)snprintf(keys[i], sizeof keys[i], "%u.%u", round, i);
            items[i] = (struct strict_item){.name = "a", .key = keys[i], .count = 1};
        }
        id_apply_strict(a, batch, items, LIMIT_STRICT_ITEMS, results);
        for (unsigned i = 0; i < LIMIT_STRICT_ITEMS; i++) {
            gives(results[i], 1 + round * LIMIT_STRICT_ITEMS + i);
        }
        assert_int_equal(a->fsm->keys.table.count, LIMIT_STRICT_ITEMS);
        clock_without_expiry(a, NOW_MS + (round + 1) * (uint64_t)LIMIT_KEY_LIFE_MS);
    }
    free(items);
    free(results);
    free(keys);
}

/* --- against a model --- */

#define MODEL_KEYS 24
#define MODEL_LIFE_PART (LIMIT_KEY_LIFE_MS / 20)

struct model_key {
    uint64_t first;
    uint64_t at_ms; /* 0: never used */
    uint32_t count;
};

static bool model_in_force(const struct id_apply *a, const struct model_key *key)
{
    return key->at_ms != 0 && key->at_ms + LIMIT_KEY_LIFE_MS > a->fsm->settings.log_ms;
}

static void model_take(struct id_apply *a, struct model_key *key, unsigned number, uint32_t count,
                       uint64_t *next)
{
    char text[8];
    struct strict_result result;

    (void)snprintf(text, sizeof text, "%u", number);
    result = id_apply_take_by(a, "a", text, count);
    if (!model_in_force(a, key)) {
        gives(result, *next);
        *key = (struct model_key){*next, a->fsm->settings.log_ms, count};
        *next += count;
    } else if (key->count == count) {
        replays(result, key->first);
    } else {
        refuses(result, ERR_KEY_CONFLICT, key->count);
    }
}

static void reload(struct id_apply *a)
{
    struct fsm *other = fsm_of(state_new(&fsm_machine));

    id_apply_load(a, other);
    assert_true(state_digest(fsm_state(other)) == state_digest(fsm_state(a->fsm)));
    state_free(fsm_state(a->fsm));
    a->fsm = other;
}

static void test_random_keys_against_a_model(void **state)
{
    struct id_apply *a = *state;
    struct model_key keys[MODEL_KEYS] = {{0}};
    struct prng prng;
    uint64_t next = 1;
    unsigned in_force = 0;

    prng_seed(&prng, 4);
    for (unsigned i = 0; i < 20000; i++) {
        unsigned number = (unsigned)prng_below(&prng, MODEL_KEYS);
        uint64_t ms = a->fsm->settings.log_ms + prng_below(&prng, 3) * MODEL_LIFE_PART;

        switch (prng_below(&prng, 16)) {
        case 0:
            assert_int_equal(id_apply_clock(a, ms), 0);
            break;
        case 1:
            reload(a);
            break;
        default:
            model_take(a, &keys[number], number, 1 + (uint32_t)prng_below(&prng, 2), &next);
        }
        in_force = 0;
        for (unsigned k = 0; k < MODEL_KEYS; k++) {
            in_force += model_in_force(a, &keys[k]);
        }
        assert_in_range(a->fsm->keys.table.count, in_force, MODEL_KEYS);
    }
    assert_true(next > 1500);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, keys_setup, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_the_same_key_gives_the_same_ids),
        TEST(test_another_count_is_a_conflict),
        TEST(test_keys_are_of_their_tag),
        TEST(test_keys_at_their_limits_of_length),
        TEST(test_twice_in_one_batch),
        TEST(test_what_happened_to_the_tag_since),
        TEST(test_a_failed_allocation_remembers_no_key),
        TEST(test_without_a_time_of_the_log),
        TEST(test_a_key_is_kept_for_a_day_of_the_logs_time),
        TEST(test_an_expired_key_that_is_there_yet_counts_as_new),
        TEST(test_the_oldest_are_forgotten_first),
        TEST(test_a_full_table_refuses_new_keys),
        TEST(test_a_table_full_of_expired_keys_takes_a_whole_batch),
        TEST(test_random_keys_against_a_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
