/*
 * test_fsm_keys_table.c - the table of idempotency keys: its rows and what damage they are refused
 * for, its bounds, and its memory.
 *
 * Thread: one.
 */
#include <malloc.h>
#include <stdio.h>

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/fsm/tests/keys_scene.h"
#include "src/tests/unit/hex.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* --- rows --- */

static void test_key_rows_are_golden(void **state)
{
    struct id_apply *a = *state;

    (void)id_apply_take(a, "a", 9);
    gives(id_apply_take_by(a, "a", "k1", 300), 10);
    assert_int_equal(a->index, 4);
    assert_null(id_apply_kept(a, 3));
    assert_true(hex_equal(&id_apply_kept(a, 2)->key, "69 01 61 6b31"));
    assert_true(hex_equal(&id_apply_kept(a, 2)->value,
                          "01 0a00000000000000 2c010000 0068e5cf8b010000 "
                          "0400000000000000 0000"));
}

#define TAG_A                                                                                      \
    "03 00 00 01 01000000 0a000000 64000000 0500000000000000 0000000000000000 "                    \
    "0000000000000000 0000"
#define FIRST "0a00000000000000 "
#define COUNT "2c010000 "
#define AT "0068e5cf8b010000 "
#define INDEX "0400000000000000 "

static void test_load_refuses_damage(void **state)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    const char *good = "01" FIRST COUNT AT INDEX "0000";

    (void)state;
    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "69 01 61 6b", good), 0);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6b", good), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "69 01 61", good), ERR_CORRUPT); /* no key */
    assert_int_equal(id_load_hex(fsm, "69 01", good), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "69", good), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "69 00 61", good), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "69 01 0a 6b", good), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6c", ""), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6c", "04"), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6c", "01" FIRST COUNT AT INDEX "00"),
                     ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6c", "01" FIRST COUNT AT INDEX "000000"),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6c", "01" FIRST "00000000" AT INDEX "0000"),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6c", "01" FIRST "a1860100" AT INDEX "0000"),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6c", "01 d4feffffffffff7f" COUNT AT INDEX "0000"),
                     ERR_CORRUPT); /* ends beyond the last id */
    assert_int_equal(
        id_load_hex(fsm, "69 01 61 6c", "01" FIRST COUNT "0000000000000000" INDEX "0000"),
        ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6c", "01" FIRST COUNT AT INDEX "0004"),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6c", "01 d3feffffffffff7f" COUNT AT INDEX "ff03"),
                     0);
    assert_int_equal(id_load_hex(fsm, "74 61", TAG_A), 0);
    assert_int_equal(id_load_hex(fsm, "73 74696d65", "01" AT), 0);
    assert_int_equal(state_load_end(fsm_state(fsm), 4), 0);
    assert_int_equal(fsm->keys.table.count, 2);
    state_free(fsm_state(fsm));
}

/* Two keys of a tag, loaded as of the entry at index. */
static int load_two(uint64_t index, const char *first, const char *second, bool tag)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    int err;

    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "69 01 61 6b", first), 0);
    assert_int_equal(id_load_hex(fsm, "69 01 61 6c", second), 0);
    assert_int_equal(id_load_hex(fsm, "73 74696d65", "01" AT), 0);
    if (tag) {
        assert_int_equal(id_load_hex(fsm, "74 61", TAG_A), 0);
    }
    err = state_load_end(fsm_state(fsm), index);
    state_free(fsm_state(fsm));
    return err;
}

static void test_load_refuses_contradictions(void **state)
{
    const char *at_4 = "01" FIRST COUNT AT INDEX "0000";
    const char *at_4_next = "01" FIRST COUNT AT INDEX "0100";
    const char *at_5 = "01" FIRST COUNT AT "0500000000000000 0000";
    const char *earlier = "01" FIRST COUNT "ff67e5cf8b010000 0300000000000000 0000";
    const char *earlier_ms = "01" FIRST COUNT "ff67e5cf8b010000 0500000000000000 0000";
    const char *later_ms = "01" FIRST COUNT "0168e5cf8b010000 0500000000000000 0000";

    (void)state;
    assert_int_equal(load_two(5, at_4, at_5, true), 0);
    assert_int_equal(load_two(5, at_5, at_4, true), 0);
    assert_int_equal(load_two(5, at_4_next, at_4, true), 0);
    assert_int_equal(load_two(5, at_4, earlier, true), 0);
    assert_int_equal(load_two(5, at_4, at_5, false), ERR_CORRUPT); /* no tag */
    assert_int_equal(load_two(4, at_4, at_5, true), ERR_CORRUPT);  /* of a later entry */
    assert_int_equal(load_two(5, at_4, at_4, true), ERR_CORRUPT);  /* of one item */
    assert_int_equal(load_two(5, at_4, earlier_ms, true), ERR_CORRUPT);
    assert_int_equal(load_two(5, at_4, later_ms, true), ERR_CORRUPT); /* later than the log */
}

/* --- many --- */

/* Apply a batch of count keys of the tag "a", numbered from `from`, without a store. */
static void add_keys(struct fsm *fsm, uint64_t index, unsigned from, unsigned count,
                     struct strict_result *ret_results)
{
    struct buf command = BUF_INIT;
    struct buf answer = BUF_INIT;
    char key[40];
    size_t got = 0;

    command_put(&command, COMMAND_STRICT, &(struct command_list){.key_limit = LIMIT_KEYS});
    for (unsigned i = from; i < from + count; i++) {
        int len = snprintf(key, sizeof key, "%08x-0000-4000-8000-%012x", i * 2654435761U, i);

        command_item_put(&command, COMMAND_STRICT,
                         &(struct strict_item){"a", 1, key, (uint16_t)len, 1, 0, 0, 0});
    }
    command_items_end(&command);
    id_stamp_as(&command, 1, 1, index, index);
    assert_int_equal(
        state_apply(fsm_state(fsm), index, 1, command.data, command.len, &answer, NULL), 0);
    assert_int_equal(
        results_decode(RESULT_STRICT, answer.data, answer.len, ret_results, count, &got), 0);
    assert_int_equal(got, count);
    buf_free(&command);
    buf_free(&answer);
}

static void test_a_command_forgets_so_many_and_no_more(void **state)
{
    struct id_apply *a = *state;
    struct strict_result results[LIMIT_STRICT_ITEMS];
    struct buf clock = BUF_INIT;
    struct buf answer = BUF_INIT;

    for (unsigned i = 0; i < 3; i++) {
        add_keys(a->fsm, 100 + i, i * LIMIT_STRICT_ITEMS, LIMIT_STRICT_ITEMS, results);
    }
    cluster_command_put(&clock, COMMAND_CLOCK,
                        &(struct clock_command){.cluster_ms = NOW_MS + LIMIT_KEY_LIFE_MS});
    id_stamp_as(&clock, 1, 1, 200, 200);
    assert_int_equal(state_apply(fsm_state(a->fsm), 200, 1, clock.data, clock.len, &answer, NULL),
                     0);
    assert_int_equal(a->fsm->keys.table.count, 3 * LIMIT_STRICT_ITEMS - LIMIT_KEYS_FORGOTTEN);
    /* Any time will do, also one that does not move the log's. */
    id_stamp_as(&clock, 1, 1, 201, 201);
    assert_int_equal(state_apply(fsm_state(a->fsm), 201, 1, clock.data, clock.len, &answer, NULL),
                     0);
    assert_int_equal(a->fsm->keys.table.count, 0);
    buf_free(&clock);
    buf_free(&answer);
    id_apply_free(a); /* its rows were not kept */
    id_apply_init(a);
}

static void test_the_table_at_its_hard_limit(void **state)
{
    struct id_apply *a = *state;

    a->key_limit = UINT32_MAX;
    a->fsm->keys.table.count = LIMIT_KEYS - 1; /* as if */
    gives(id_apply_take_by(a, "a", "k", 1), 1);
    refuses(id_apply_take_by(a, "a", "l", 1), ERR_KEYS_FULL, LIMIT_KEYS);
    replays(id_apply_take_by(a, "a", "k", 1), 1);
    a->fsm->keys.table.count = 1;
}

/* A hundred thousand keys: each is found, at 136 bytes a key with a text of 36 at most. */
static void test_many_keys_and_their_memory(void **state)
{
    enum { COUNT_EACH = 1000, ROUNDS = 131, WARM = 10 };
    struct id_apply *a = *state;
    struct strict_result results[COUNT_EACH];
    size_t before = 0;
    size_t after;

    for (unsigned i = 0; i < ROUNDS; i++) {
        before = i == WARM ? mallinfo2().uordblks : before; /* the answers are full */
        add_keys(a->fsm, 100 + i, i * COUNT_EACH, COUNT_EACH, results);
        gives(results[COUNT_EACH - 1], (i + 1) * COUNT_EACH);
    }
    assert_int_equal(a->fsm->keys.table.count, ROUNDS * COUNT_EACH);
    after = mallinfo2().uordblks;
    for (unsigned i = 0; i < ROUNDS; i++) {
        add_keys(a->fsm, 1000 + i, i * COUNT_EACH, COUNT_EACH, results);
        for (unsigned k = 0; k < COUNT_EACH; k++) {
            replays(results[k], i * COUNT_EACH + k + 1);
        }
    }
    if (!SANITIZED) {
        size_t each = (after - before) / ((ROUNDS - WARM) * COUNT_EACH);

        print_message("a key of 36 bytes costs %zu bytes\n", each);
        assert_in_range(each, 80, 136);
    }
    id_apply_free(a); /* its rows were not kept */
    id_apply_init(a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, keys_setup, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_key_rows_are_golden),         TEST(test_load_refuses_damage),
        TEST(test_load_refuses_contradictions), TEST(test_a_command_forgets_so_many_and_no_more),
        TEST(test_the_table_at_its_hard_limit), TEST(test_many_keys_and_their_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
