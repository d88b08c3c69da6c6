/*
 * test_fsm_rows.c - what the tables of the state machine do with a row: it comes into the digest
 * and is listed, leaves it, and is deleted, in that order as often as apply does it.
 *
 * Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/base/hash.h"
#include "src/id/fsm/fsm_state.h"
#include "src/tests/unit/death.h"

static size_t scratch(struct fsm *fsm, const char *key, const char *value)
{
    fsm->scratch.len = 0;
    buf_put(&fsm->scratch, key, strlen(key));
    buf_put(&fsm->scratch, value, strlen(value));
    return strlen(key);
}

static uint64_t hash_of(const char *key, const char *value)
{
    return hash_row(key, strlen(key), value, strlen(value));
}

static void expect(const struct fsm_change *change, const char *key, const char *value)
{
    assert_int_equal(change->key.len, strlen(key));
    assert_memory_equal(change->key.data, key, strlen(key));
    assert_int_equal(change->value.len, strlen(value));
    assert_memory_equal(change->value.len > 0 ? (const void *)change->value.data : "", value,
                        strlen(value));
}

static void test_fsm_rows_are_listed_in_order(void **state)
{
    struct fsm *fsm = fsm_new();
    struct fsm_changes changes = {0};

    (void)state;
    fsm_scratch_enter(fsm, scratch(fsm, "xa", "1"), &changes);
    fsm_scratch_enter(fsm, scratch(fsm, "xb", "2"), &changes);
    assert_true(fsm_digest(fsm) == hash_of("xa", "1") + hash_of("xb", "2"));
    fsm_scratch_delete(fsm, scratch(fsm, "xa", "1"), &changes);
    assert_true(fsm_digest(fsm) == hash_of("xb", "2"));
    fsm_scratch_enter(fsm, scratch(fsm, "xa", "3"), &changes);
    fsm_scratch_delete(fsm, scratch(fsm, "xa", "3"), &changes);
    fsm_scratch_leave(fsm, scratch(fsm, "xb", "2")); /* a change: leaves and comes, listed once */
    fsm_scratch_enter(fsm, scratch(fsm, "xb", "4"), &changes);
    assert_true(fsm_digest(fsm) == hash_of("xb", "4"));
    assert_int_equal(changes.count, 6);
    expect(&changes.items[0], "xa", "1");
    expect(&changes.items[1], "xb", "2");
    expect(&changes.items[2], "xa", "");
    expect(&changes.items[3], "xa", "3");
    expect(&changes.items[4], "xa", "");
    expect(&changes.items[5], "xb", "4");
    fsm_changes_release(&changes);
    fsm_free(fsm);
}

static void test_fsm_rows_are_deleted_without_a_list(void **state)
{
    struct fsm *fsm = fsm_new();

    (void)state;
    fsm_scratch_enter(fsm, scratch(fsm, "xa", "1"), NULL);
    fsm_scratch_delete(fsm, scratch(fsm, "xa", "1"), NULL);
    assert_true(fsm_digest(fsm) == 0);
    fsm_free(fsm);
}

static void enter_empty(void *data)
{
    struct fsm *fsm = data;

    fsm_scratch_enter(fsm, scratch(fsm, "xa", ""), NULL);
}

/* Storage would take it for a deletion. */
static void test_fsm_rows_are_never_empty(void **state)
{
    struct fsm *fsm = fsm_new();

    (void)state;
    assert_true(death_by_assert(enter_empty, fsm));
    fsm_free(fsm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fsm_rows_are_listed_in_order),
        cmocka_unit_test(test_fsm_rows_are_deleted_without_a_list),
        cmocka_unit_test(test_fsm_rows_are_never_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
