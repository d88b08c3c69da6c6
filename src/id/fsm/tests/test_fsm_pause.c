/*
 * test_fsm_pause.c - tags that are paused, and tags with a cover_s: nothing leaves a paused tag in
 * any mode, nothing that was granted is lost, and which max_step a cover_s has.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"

static int setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    id_apply_raise(a, 3);
    assert_int_equal(id_apply_clock(a, 1000), 0);
    return 0;
}

static int put_paused(struct id_apply *a, const char *name, bool paused, const char *reason)
{
    struct tag_put put = {
        .name = name, .step_fields = TAG_FIELD_PAUSED, .paused = paused, .reason = reason};

    if (reason != NULL) {
        put.step_fields |= TAG_FIELD_REASON;
        put.reason_len = (uint16_t)strlen(reason);
    }
    return id_apply_put(a, put, false).status;
}

/* The row has no texts: it takes no more memory than what is counted for it. */
static void expect_no_texts(struct id_apply *a, const char *name)
{
    const struct tag_row *row = id_apply_row(a, name);

    assert_int_equal(row->reason_len + row->description_len + row->shape_len, 0);
    assert_ptr_equal(row->description, row->name + row->name_len);
    assert_ptr_equal(row->reason, row->description);
}

static void expect_reason(struct id_apply *a, const char *name, const char *reason)
{
    const struct tag_row *row = id_apply_row(a, name);

    assert_true(row->paused);
    assert_int_equal(row->reason_len, strlen(reason));
    assert_memory_equal(row->reason, reason, row->reason_len);
}

static void test_segments(void **state)
{
    struct id_apply *a = *state;
    uint32_t generation;

    id_apply_mode(a, "t", TAG_MODE_TREND);
    assert_int_equal(id_apply_grant(a, "t", 10).first, 1);
    generation = id_apply_row(a, "t")->generation;
    assert_int_equal(put_paused(a, "t", true, "audit"), 0);
    expect_reason(a, "t", "audit");
    assert_int_equal(id_apply_grant(a, "t", 10).status, ERR_PAUSED);
    assert_int_equal(id_apply_row(a, "t")->max_id, 11);
    /* Nodes burn nothing, and may give back. */
    assert_int_equal(id_apply_row(a, "t")->generation, generation);
    assert_int_equal(id_apply_give_back(a, (struct give_back_item){.name = "t",
                                                                   .name_len = 1,
                                                                   .generation = generation,
                                                                   .first = 6,
                                                                   .end = 11}),
                     0);
    assert_int_equal(put_paused(a, "t", false, NULL), 0);
    assert_false(id_apply_row(a, "t")->paused);
    expect_no_texts(a, "t");
    assert_int_equal(id_apply_grant(a, "t", 10).first, 6);
}

/* Also under a key that is known, since its ids would be handed out. */
static void test_strict(void **state)
{
    struct id_apply *a = *state;

    id_apply_mode(a, "s", TAG_MODE_STRICT);
    assert_int_equal(id_apply_take_by(a, "s", "key", 2).first, 1);
    assert_int_equal(put_paused(a, "s", true, NULL), 0);
    expect_reason(a, "s", "");
    assert_int_equal(id_apply_take(a, "s", 1).status, ERR_PAUSED);
    assert_int_equal(id_apply_take_by(a, "s", "key", 2).status, ERR_PAUSED);
    assert_int_equal(put_paused(a, "s", false, NULL), 0);
    assert_int_equal(id_apply_take_by(a, "s", "key", 2).first, 1);
    assert_int_equal(id_apply_take(a, "s", 1).first, 3);
}

/* A name that is deleted keeps nothing of it, also if it counts for no client. */
static void test_deleted_with_a_cover(void **state)
{
    struct id_apply *a = *state;
    const struct tag_put put = {.name = "t", .step_fields = TAG_FIELD_COVER, .cover_s = 600};

    id_apply_mode(a, "t", TAG_MODE_TREND);
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_int_equal(id_apply_row(a, "t")->cover_s, 600);
    assert_int_equal(id_apply_delete(a, "t"), 0);
    assert_int_equal(id_apply_row(a, "t")->cover_s, 0);
    expect_no_texts(a, "t");
}

static void test_monotonic(void **state)
{
    struct id_apply *a = *state;
    struct grant_result window;
    struct keyed_item keyed = {
        .item = {.name = "m", .name_len = 1, .key = "key", .key_len = 3, .count = 1}};

    id_apply_mode(a, "m", TAG_MODE_MONOTONIC);
    window = id_apply_window(a, "m", 10);
    assert_int_equal(window.status, 0);
    keyed.first = window.first;
    keyed.generation = window.generation;
    assert_int_equal(put_paused(a, "m", true, "audit"), 0);
    assert_int_equal(id_apply_window(a, "m", 10).status, ERR_PAUSED);
    assert_int_equal(id_apply_keyed(a, a->term, keyed).status, ERR_PAUSED);
    assert_int_equal(put_paused(a, "m", false, NULL), 0);
    assert_int_equal(id_apply_keyed(a, a->term, keyed).status, 0);
}

static void test_other_changes_keep_the_pause(void **state)
{
    struct id_apply *a = *state;
    struct tag_put step = {.name = "t", .fields = TAG_FIELD_STEP, .step = 7};
    struct tag_put text = {.name = "t",
                           .fields = TAG_FIELD_DESCRIPTION,
                           .description = "a text that takes the place of none",
                           .description_len = 35};

    assert_int_equal(put_paused(a, "t", true, "audit"), 0); /* and makes it */
    assert_int_equal(id_apply_put(a, step, false).status, 0);
    assert_int_equal(id_apply_put(a, text, false).status, 0);
    expect_reason(a, "t", "audit");
    assert_int_equal(put_paused(a, "t", true, NULL), 0);
    expect_reason(a, "t", "audit");
    assert_int_equal(put_paused(a, "t", true, "move"), 0);
    expect_reason(a, "t", "move");
    step.step_fields = TAG_FIELD_REASON;
    step.reason = "";
    assert_int_equal(id_apply_put(a, step, false).status, 0);
    expect_reason(a, "t", "");
    assert_int_equal(put_paused(a, "t", false, "why"), ERR_INVALID); /* a reason for nothing */
    assert_int_equal(id_apply_delete(a, "t"), 0);
    assert_false(id_apply_row(a, "t")->paused);
    assert_int_equal(id_apply_put(a, text, false).status, 0);
    assert_int_equal(id_apply_grant(a, "t", 1).status, 0); /* made again, it is not paused */
}

static struct tag_put covered(uint32_t cover_s)
{
    return (struct tag_put){.name = "t", .step_fields = TAG_FIELD_COVER, .cover_s = cover_s};
}

/* A max_step that nobody chose is none of a tag with a cover_s; one that was chosen stays. */
static void test_cover_and_max_step(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = covered(600);

    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_int_equal(id_apply_row(a, "t")->cover_s, 600);
    assert_int_equal(id_apply_row(a, "t")->max_step, LIMIT_TAG_STEP);
    assert_int_equal(id_apply_grant(a, "t", 42000000).size, 42000000);
    assert_int_equal(id_apply_put(a, covered(0), false).status, 0);
    assert_int_equal(id_apply_row(a, "t")->max_step, TAG_DEFAULT_MAX_STEP);
    put.fields = TAG_FIELD_MAX_STEP;
    put.max_step = 5000;
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_int_equal(id_apply_put(a, covered(900), false).status, 0);
    assert_int_equal(id_apply_row(a, "t")->max_step, 5000);
    assert_int_equal(id_apply_grant(a, "t", 42000000).size, 5000);
    assert_int_equal(id_apply_put(a, covered(LIMIT_TAG_COVER_S + 1), false).status, ERR_INVALID);
    put = covered(1);
    put.fields = TAG_FIELD_MODE;
    put.mode = TAG_MODE_STRICT;
    assert_int_equal(id_apply_put(a, put, false).status, ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, id_apply_end)
        TEST(test_deleted_with_a_cover),
        TEST(test_segments),
        TEST(test_strict),
        TEST(test_monotonic),
        TEST(test_other_changes_keep_the_pause),
        TEST(test_cover_and_max_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
