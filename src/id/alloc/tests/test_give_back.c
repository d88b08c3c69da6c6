/*
 * test_give_back.c - what a node that stops gives back, and what it burns; and a tag that becomes
 * strict while a node holds a segment of it.
 *
 * The invariant: nothing that was ever claimed, or is held by another node, can be granted again.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/codec/command.h"
#include "src/id/tests/id_world.h"

static const struct tag_row *row_of(void *data, const char *name, size_t len)
{
    return fsm_tag(data, name, len);
}

/* This node's state machine has applied all that the cluster's has. */
static void give_back(struct id_world *w)
{
    w->giving_back = true;
    allocator_give_back(w->allocator, w->now_ms + 500, row_of, w->cluster);
}

/* Another node is granted a segment. */
static void grant_elsewhere(struct id_world *w, const char *name, uint32_t size)
{
    struct grant_item item = {name, (uint16_t)strlen(name), size};
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_GRANT, &(struct command_list){.wall_ms = 1});
    command_item_put(&command, COMMAND_GRANT, &item);
    command_items_end(&command);
    id_stamp(&w->stamps, 2, &command);
    id_world_command(w, &command);
}

static void test_the_unused_rest_of_the_top_is_given_back(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    assert_int_equal(id_world_claim(tag), 1);
    assert_int_equal(id_world_claim(tag), 2);
    give_back(w);
    assert_int_equal(segment_left(&tag->buffer), 0); /* nobody can claim it any more */
    assert_false(allocator_given_back(w->allocator));
    assert_int_equal(w->request_count, 1);
    id_world_answer(w, 0);
    assert_true(allocator_given_back(w->allocator));
    assert_int_equal(allocator_counts(w->allocator)->returned, 8);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_STOP], 0);
    assert_int_equal(id_world_row(w, "order")->max_id, 3);
}

static void test_both_slots_are_given_back_in_one_piece(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    assert_int_equal(id_world_claim(tag), 1);
    id_world_load(w, tag);
    give_back(w);
    id_world_answer(w, 0);
    assert_int_equal(allocator_counts(w->allocator)->returned, 19);
    assert_int_equal(id_world_row(w, "order")->max_id, 2);
}

static void test_below_the_top_is_burnt(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    grant_elsewhere(w, "order", 10);
    give_back(w);
    assert_int_equal(w->request_count, 0);
    assert_true(allocator_given_back(w->allocator));
    assert_int_equal(allocator_counts(w->allocator)->returned, 0);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_STOP], 10);
    assert_int_equal(id_world_row(w, "order")->max_id, 21);
}

static void test_only_the_newer_slot_is_the_top(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag); /* [1, 11) */
    assert_int_equal(id_world_claim(tag), 1);
    grant_elsewhere(w, "order", 10);
    id_world_load(w, tag); /* [21, 31) */
    give_back(w);
    id_world_answer(w, 0);
    assert_int_equal(allocator_counts(w->allocator)->returned, 10);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_STOP], 9);
    assert_int_equal(id_world_row(w, "order")->max_id, 21);
}

/* Somebody was granted more between the look at the row and the command. */
static void test_the_state_machine_decides(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    give_back(w);
    grant_elsewhere(w, "order", 10); /* [11, 21) */
    id_world_answer(w, 0);
    assert_int_equal(allocator_counts(w->allocator)->returned, 0);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_STOP], 10);
    assert_int_equal(id_world_row(w, "order")->max_id, 21);
}

/* The command commits twice, and the range was granted to another node in between: the second copy
 * must do nothing, though max_id looks as it did. Its answer is the first one's. */
static void test_a_late_copy_gives_nothing_back(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct buf reply = BUF_INIT;

    id_world_load(w, tag); /* [1, 11) */
    give_back(w);
    id_world_apply(w, 0, &reply);
    buf_free(&reply);
    assert_int_equal(id_world_row(w, "order")->max_id, 1);
    grant_elsewhere(w, "order", 10); /* [1, 11) is another's now */
    id_world_answer(w, 0);
    assert_int_equal(id_world_row(w, "order")->max_id, 11);
    assert_int_equal(allocator_counts(w->allocator)->returned, 10);
}

static void test_refused_is_burnt(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    give_back(w);
    id_world_fail(w, 0, ERR_NO_LEADER);
    assert_true(allocator_given_back(w->allocator));
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_STOP], 10);
}

static void test_a_segment_that_comes_after_it_is_burnt(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_park(w, tag, 1);
    id_world_turn(w);
    give_back(w);
    assert_int_equal(w->request_count, 1); /* the grant; there was nothing to give back */
    id_world_answer(w, 0);
    assert_int_equal(segment_left(&tag->buffer), 0);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_STOP], 10);
    (void)id_world_want(w, tag);
    id_world_turn(w);
    assert_int_equal(w->request_count, 0); /* none is asked for any more */
}

static void test_many_tags_go_into_few_commands(void **state)
{
    struct id_world *w = *state;
    char name[16];

    for (unsigned i = 0; i <= LIMIT_GRANTS_PER_ENTRY; i++) {
        (void)snprintf(name, sizeof name, "t%u", i);
        id_world_load(w, id_world_tag(w, name, 10));
    }
    give_back(w);
    assert_int_equal(w->request_count, 2);
    id_world_answer(w, 0);
    id_world_answer(w, 0);
    assert_int_equal(allocator_counts(w->allocator)->returned, (LIMIT_GRANTS_PER_ENTRY + 1) * 10);
    assert_int_equal(id_world_row(w, "t512")->max_id, 1);
}

static void test_a_tag_that_becomes_strict_burns_what_is_held(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    assert_int_equal(id_world_claim(tag), 1);
    id_world_mode(w, "order", TAG_MODE_STRICT);
    allocator_tag_changed(w->allocator, id_world_row(w, "order"));
    assert_int_equal(tag->state, ID_TAG_STRICT);
    assert_int_equal(segment_left(&tag->buffer), 0);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_GENERATION], 9);
    (void)id_world_want(w, tag);
    id_world_turn(w);
    assert_int_equal(w->request_count, 0); /* nothing is asked for */
    assert_false(tag->refill_wanted);
    id_world_mode(w, "order", TAG_MODE_TREND);
    allocator_tag_changed(w->allocator, id_world_row(w, "order"));
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    id_world_load(w, tag);
    assert_int_equal(id_world_claim(tag), 11);
}

/* This node hears of the mode from the answer to its request for a segment. */
static void test_a_strict_tag_is_learnt_from_a_refusal(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    assert_int_equal(id_world_claim(tag), 1);
    id_world_mode(w, "order", TAG_MODE_STRICT);
    id_world_park(w, tag, 100);
    id_world_turn(w);
    id_world_answer(w, 0);
    assert_int_equal(tag->state, ID_TAG_STRICT);
    assert_int_equal(segment_left(&tag->buffer), 0);
    assert_int_equal(w->wakes, 1); /* who waits goes to the log instead */
    assert_false(tag->refill_wanted);
    give_back(w);
    assert_int_equal(w->request_count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_world_setup, id_world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_unused_rest_of_the_top_is_given_back),
        TEST(test_both_slots_are_given_back_in_one_piece),
        TEST(test_below_the_top_is_burnt),
        TEST(test_only_the_newer_slot_is_the_top),
        TEST(test_the_state_machine_decides),
        TEST(test_a_late_copy_gives_nothing_back),
        TEST(test_refused_is_burnt),
        TEST(test_a_segment_that_comes_after_it_is_burnt),
        TEST(test_many_tags_go_into_few_commands),
        TEST(test_a_tag_that_becomes_strict_burns_what_is_held),
        TEST(test_a_strict_tag_is_learnt_from_a_refusal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
