/*
 * test_fsm_repeats.c - a change of tags that stands in the log twice happens once, whatever came in
 * between: the second answer is the first, also after a reload, and up to the bound.
 *
 * Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/tests/id_apply.h"

static int setup(void **state)
{
    struct id_apply *a = calloc(1, sizeof *a);

    assert_non_null(a);
    id_apply_init(a);
    *state = a;
    return 0;
}

/* Every test ends with the rows that were listed giving the same state when they are loaded. */
static int teardown(void **state)
{
    struct id_apply *a = *state;
    struct fsm *other = fsm_new();

    id_apply_load(a, other);
    assert_true(fsm_digest(other) == fsm_digest(a->fsm));
    fsm_free(other);
    id_apply_free(a);
    free(a);
    return 0;
}

static struct put_result put(struct id_apply *a, uint32_t step, uint64_t request_id)
{
    return id_apply_put(a,
                        (struct tag_put){.name = "order", .fields = TAG_FIELD_STEP, .step = step},
                        false, request_id);
}

static void test_a_later_change_is_not_undone(void **state)
{
    struct id_apply *a = *state;
    struct put_result result;

    assert_int_equal(put(a, 10, 1).made, 1);
    assert_int_equal(put(a, 20, 2).changed, 1);
    result = put(a, 10, 1); /* late, from a slow link */
    assert_int_equal(result.status, 0);
    assert_int_equal(result.made, 1);
    assert_int_equal(id_apply_row(a, "order")->step, 20);
    assert_int_equal(a->changed, 0);
}

static void test_a_tag_made_again_is_not_deleted(void **state)
{
    struct id_apply *a = *state;

    (void)put(a, 10, 1);
    assert_int_equal(id_apply_delete(a, "order", 2), 0);
    (void)put(a, 30, 3);
    assert_int_equal(id_apply_delete(a, "order", 2), 0);
    assert_int_equal(id_apply_row(a, "order")->step, 30);
    assert_false(id_apply_row(a, "order")->deleted);
    assert_int_equal(a->changed, 0);
}

static void test_a_tag_that_was_deleted_is_not_made(void **state)
{
    struct id_apply *a = *state;

    (void)put(a, 10, 1);
    assert_int_equal(id_apply_delete(a, "order", 2), 0);
    assert_int_equal(put(a, 10, 1).made, 1);
    assert_true(id_apply_row(a, "order")->deleted);
}

/* Who was told "no" must find that nothing was done. */
static void test_a_refusal_stays_one(void **state)
{
    struct id_apply *a = *state;
    struct tag_put lower = {.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 50};
    struct put_result result;

    assert_int_equal(id_apply_delete(a, "order", 1), ERR_UNKNOWN_TAG);
    (void)put(a, 10, 2);
    assert_int_equal(id_apply_delete(a, "order", 1), ERR_UNKNOWN_TAG);
    assert_false(id_apply_row(a, "order")->deleted);
    (void)id_apply_grant(a, "order", 100);
    assert_int_equal(id_apply_put(a, lower, false, 3).status, ERR_WOULD_REPEAT);
    assert_int_equal(
        id_apply_put(a, (struct tag_put){.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 1},
                     true, 4)
            .status,
        0);
    result = id_apply_put(a, lower, false, 3);
    assert_int_equal(result.status, ERR_WOULD_REPEAT);
    assert_int_equal(result.asked, 50);
    assert_int_equal(id_apply_row(a, "order")->max_id, 1);
}

static void test_numbers_of_puts_and_of_deletes_are_apart(void **state)
{
    struct id_apply *a = *state;

    (void)put(a, 10, 9);
    assert_int_equal(id_apply_delete(a, "order", 9), 0);
    assert_true(id_apply_row(a, "order")->deleted);
}

static void test_without_a_number_nothing_is_remembered(void **state)
{
    struct id_apply *a = *state;

    (void)put(a, 10, 0);
    assert_int_equal(a->changed, 1);
    (void)put(a, 20, 0);
    assert_int_equal(put(a, 10, 0).changed, 1);
    assert_int_equal(id_apply_row(a, "order")->step, 10);
}

static void test_it_outlives_a_reload(void **state)
{
    struct id_apply *a = *state;
    struct fsm *other = fsm_new();
    struct fsm *before = a->fsm;

    (void)put(a, 10, 1);
    (void)put(a, 20, 2);
    id_apply_load(a, other);
    a->fsm = other;
    (void)put(a, 10, 1);
    assert_int_equal(id_apply_row(a, "order")->step, 20);
    (void)put(a, 30, 3);
    (void)put(a, 20, 2);
    assert_int_equal(id_apply_row(a, "order")->step, 30);
    fsm_free(before);
}

/* --- the bound --- */

static void apply_step(struct fsm *fsm, uint64_t index, uint32_t step, uint64_t request_id)
{
    const struct tag_put put = {.name = "a", .name_len = 1, .fields = TAG_FIELD_STEP, .step = step};
    struct fsm_changes changes = {0};
    struct buf command = BUF_INIT;
    struct buf result = BUF_INIT;

    command_put_begin(&command, false, 1, request_id);
    command_put_add(&command, &put);
    command_put_end(&command);
    assert_int_equal(fsm_apply(fsm, index, command.data, command.len, &result, &changes), 0);
    fsm_changes_release(&changes);
    buf_free(&command);
    buf_free(&result);
}

static void test_so_many_are_known(void **state)
{
    struct fsm *fsm = fsm_new();
    uint64_t index = 1;

    (void)state;
    apply_step(fsm, index++, 1, 1);
    for (uint64_t i = 1; i < LIMIT_REPEATS; i++) {
        apply_step(fsm, index++, 2, 1 + i * LIMIT_REPEATS); /* all in one bucket */
    }
    apply_step(fsm, index++, 1, 1);
    assert_int_equal(fsm_tag(fsm, "a", 1)->step, 2);
    apply_step(fsm, index++, 3, 2); /* one more: the first is forgotten */
    apply_step(fsm, index++, 1, 1);
    assert_int_equal(fsm_tag(fsm, "a", 1)->step, 1);
    apply_step(fsm, index++, 4, 1 + (LIMIT_REPEATS - 1) * (uint64_t)LIMIT_REPEATS);
    assert_int_equal(fsm_tag(fsm, "a", 1)->step, 1); /* that one is known */
    fsm_free(fsm);
}

/* --- damage --- */

#define SEQ "0500000000000000"
#define REQUEST "0900000000000000"
#define ANSWER "01 83 00000000"

static void test_load_refuses_damage(void **state)
{
    struct fsm *fsm = fsm_new();

    (void)state;
    fsm_load_begin(fsm);
    assert_int_equal(id_load_hex(fsm, "63 0005", ""), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "63 0005", "01 04" SEQ REQUEST), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "63 0005", "02 04" SEQ REQUEST ANSWER), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, "63 0004", "01 04" SEQ REQUEST ANSWER), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "63 05", "01 04" SEQ REQUEST ANSWER), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "63 0005", "01 05" SEQ REQUEST ANSWER), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "63 0005", "01 04" SEQ "0000000000000000" ANSWER),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "63 0000", "01 04 0000000000000000" REQUEST ANSWER),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "63 0005", "01 04" SEQ REQUEST ANSWER), 0);
    assert_int_equal(id_load_hex(fsm, "63 0005", "01 04" SEQ REQUEST ANSWER), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "63 0006", "01 04 0600000000000000" REQUEST ANSWER),
                     ERR_CORRUPT); /* one number, two changes */
    assert_int_equal(fsm_load_end(fsm, 1), 0);
    fsm_load_begin(fsm);
    assert_int_equal(id_load_hex(fsm, "63 0005", "01 04" SEQ REQUEST ANSWER), 0);
    assert_int_equal(id_load_hex(fsm, "63 0006", "01 04 0610000000000000 0a00000000000000" ANSWER),
                     0);
    assert_int_equal(fsm_load_end(fsm, 1), ERR_CORRUPT); /* too far apart */
    fsm_load_begin(fsm);
    fsm_free(fsm);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_later_change_is_not_undone),
        TEST(test_a_tag_made_again_is_not_deleted),
        TEST(test_a_tag_that_was_deleted_is_not_made),
        TEST(test_a_refusal_stays_one),
        TEST(test_numbers_of_puts_and_of_deletes_are_apart),
        TEST(test_without_a_number_nothing_is_remembered),
        TEST(test_it_outlives_a_reload),
        cmocka_unit_test(test_so_many_are_known),
        cmocka_unit_test(test_load_refuses_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
