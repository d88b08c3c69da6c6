/*
 * test_allocator.c - asking, publishing, waking, retrying; deleted, renewed and exhausted tags; and
 * answers that come late, twice or wrong.
 *
 * Thread: one; test_allocator_threads.c has the races.
 */
#include <stdio.h>
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/id/codec/command.h"
#include "src/id/tests/id_world.h"
#include "src/tests/unit/hex.h"

/* The size asked for, and how many items the request has. */
static uint32_t asked(struct id_world *w, size_t at, uint32_t *ret_count)
{
    struct command read;
    struct command_list command;
    struct grant_item item;
    const struct buf *payload;

    assert_true(at < w->request_count);
    payload = &w->requests[at]->payload;
    assert_int_equal(command_read(payload->data, payload->len, &read), 0);
    command = read.list;
    assert_true(command.wall_ms == w->now_ms);
    if (ret_count != NULL) {
        *ret_count = command.count;
    }
    assert_true(command_next(&command, &item));
    return item.size;
}

static void grant_reply(struct buf *buf, struct grant_result result)
{
    results_encode(RESULT_GRANTS, &result, 1, buf);
}

/* --- the happy path --- */

static void test_first_segment_is_published_and_wakes(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    assert_int_equal(tag->refill.max_step, TAG_DEFAULT_MAX_STEP);
    assert_true(id_world_next_ms(w) == UINT64_MAX);
    id_world_park(w, tag, 3);
    assert_int_equal(w->request_count, 0); /* only at the end of the turn */
    assert_true(id_world_next_ms(w) == w->now_ms);
    id_world_turn(w);
    assert_int_equal(w->request_count, 1);
    assert_int_equal(asked(w, 0, NULL), 10);
    assert_true(tag->refill_wanted);
    assert_int_equal(segment_left(&tag->buffer), 0); /* commit before serve */
    id_world_answer(w, 0);
    assert_int_equal(segment_left(&tag->buffer), 10);
    assert_false(tag->refill_wanted);
    assert_int_equal(w->wakes, 1);
    assert_ptr_equal(w->woken, tag);
    assert_int_equal(w->woken_loops, 1);
    assert_int_equal(tag->waiting_loops, 0);
    assert_true(id_world_claim(tag) == 1);
    assert_true(id_world_next_ms(w) == w->now_ms + USAGE_LOOK_MS);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_LATE], 0);
    assert_int_equal(allocator_counts(w->allocator)->held, 1);
}

static void test_two_segments_then_no_more_room(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    (void)id_world_claim(tag);
    id_world_load(w, tag);
    assert_int_equal(segment_left(&tag->buffer), 19);
    assert_true(id_world_want(w, tag)); /* a claimer that saw an old view */
    atomic_store(&tag->waiting_loops, 4);
    id_world_turn(w);
    assert_int_equal(w->request_count, 0); /* both slots are full */
    assert_false(tag->refill_wanted);
    assert_int_equal(w->woken_loops, 4); /* there are ids for them */
    assert_int_equal(id_world_row(w, "order")->max_id, 21);
}

/* Shows lesson-refill. */
static void test_one_request_in_flight_a_tag(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    assert_true(id_world_want(w, tag));
    assert_false(id_world_want(w, tag));
    allocator_want(w->allocator, tag); /* idempotent while queued */
    id_world_turn(w);
    allocator_want(w->allocator, tag); /* and while in flight */
    id_world_turn(w);
    assert_int_equal(w->request_count, 1);
    id_world_answer(w, 0);
    id_world_turn(w);
    assert_int_equal(w->request_count, 0);
    assert_int_equal(tag->refill.loads, 1);
}

static void test_demand_sizes_the_segment(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct segment_range range;
    struct segment_view view;

    id_world_park(w, tag, 300);
    id_world_park(w, tag, 200);
    id_world_turn(w);
    assert_int_equal(asked(w, 0, NULL), 500);
    id_world_answer(w, 0);
    assert_int_equal(segment_claim(&tag->buffer, 500, 500, &range, &view), 0);
    id_world_park(w, tag, 5000000);
    id_world_turn(w);
    assert_int_equal(asked(w, 0, NULL), TAG_DEFAULT_MAX_STEP);
}

static void test_rate_sizes_the_second_segment(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    for (unsigned i = 0; i < 10; i++) {
        (void)id_world_claim(tag);
    }
    w->now_ms += 100;
    id_world_load(w, tag); /* the second is measured when it arrives: 100 a second */
    (void)id_world_claim(tag);
    assert_true(id_world_want(w, tag));
    id_world_turn(w);
    assert_int_equal(asked(w, 0, NULL), 500); /* five seconds */
}

/* Open n tags and want them all. */
static void want_many(struct id_world *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "tag%05u", i);
        assert_true(id_world_want(w, id_world_tag(w, name, 10)));
    }
}

/* Shows lesson-refill. */
static void test_many_tags_in_one_command(void **state)
{
    struct id_world *w = *state;
    uint32_t count = 0;

    want_many(w, LIMIT_GRANTS_PER_ENTRY + 1);
    id_world_turn(w);
    assert_int_equal(w->request_count, 2);
    (void)asked(w, 0, &count);
    assert_int_equal(count, LIMIT_GRANTS_PER_ENTRY);
    (void)asked(w, 1, &count);
    assert_int_equal(count, 1);
    id_world_answer(w, 1); /* in any order */
    id_world_answer(w, 0);
    assert_int_equal(allocator_counts(w->allocator)->held, LIMIT_GRANTS_PER_ENTRY + 1);
}

static void test_entries_in_flight_are_limited(void **state)
{
    struct id_world *w = *state;

    want_many(w, LIMIT_GRANTS_PER_ENTRY * LIMIT_GRANT_ENTRIES_IN_FLIGHT + 1);
    id_world_turn(w);
    assert_int_equal(w->request_count, LIMIT_GRANT_ENTRIES_IN_FLIGHT);
    id_world_turn(w);
    assert_int_equal(w->request_count, LIMIT_GRANT_ENTRIES_IN_FLIGHT);
    assert_true(id_world_next_ms(w) > w->now_ms); /* nothing to do before an answer */
    id_world_answer(w, 3);
    assert_true(id_world_next_ms(w) == w->now_ms);
    id_world_turn(w);
    assert_int_equal(w->request_count, LIMIT_GRANT_ENTRIES_IN_FLIGHT);
}

static void test_answer_from_inside_propose(void **state)
{
    struct id_world *w = *state;

    w->answer_at_once = 2;
    want_many(w, LIMIT_GRANTS_PER_ENTRY + 5);
    id_world_turn(w);
    assert_int_equal(w->request_count, 0);
    assert_int_equal(allocator_counts(w->allocator)->held, LIMIT_GRANTS_PER_ENTRY + 5);
}

/* --- failures --- */

static void test_failure_is_retried_while_somebody_waits(void **state)
{
    const int errors[] = {ERR_NO_LEADER, ERR_TIMEOUT, ERR_OVERLOADED, ERR_DISK_FULL};
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_park(w, tag, 1);
    id_world_turn(w);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        assert_int_equal(asked(w, 0, NULL), 10); /* not doubled by failures */
        id_world_fail(w, 0, errors[i]);
        assert_int_equal(tag->disk_full, errors[i] == ERR_DISK_FULL);
        assert_true(tag->refill_wanted); /* claimers need not ask again */
        assert_int_equal(w->wakes, 0);
        assert_true(id_world_next_ms(w) == w->now_ms + ID_WORLD_RETRY_MS);
        id_world_turn(w);
        w->now_ms += ID_WORLD_RETRY_MS - 1;
        id_world_turn(w);
        assert_int_equal(w->request_count, 0);
        w->now_ms++;
        id_world_turn(w);
        assert_int_equal(w->request_count, 1);
    }
    id_world_answer(w, 0);
    assert_false(tag->disk_full);
    assert_int_equal(w->wakes, 1);
    assert_true(id_world_claim(tag) == 1);
}

static void test_failure_is_kept_for_demand_or_waiters(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    assert_true(id_world_want(w, tag));
    for (unsigned i = 0; i < 2; i++) {
        id_world_turn(w);
        atomic_store(&tag->demand, i == 0 ? 1 : 0);
        atomic_store(&tag->waiting_loops, i == 0 ? 0 : 2);
        id_world_fail(w, 0, ERR_NO_LEADER);
        assert_true(tag->refill_wanted);
        w->now_ms += ID_WORLD_RETRY_MS;
    }
    id_world_turn(w);
    assert_int_equal(w->request_count, 1);
}

static void test_failure_with_nobody_waiting_is_left_to_claimers(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    assert_true(id_world_want(w, tag));
    id_world_turn(w);
    id_world_fail(w, 0, ERR_OVERLOADED);
    assert_false(tag->refill_wanted);
    assert_true(id_world_next_ms(w) == UINT64_MAX);
    assert_true(id_world_want(w, tag)); /* the next one; but not at once */
    id_world_turn(w);
    assert_int_equal(w->request_count, 0);
    assert_true(id_world_next_ms(w) == w->now_ms + ID_WORLD_RETRY_MS);
    w->now_ms += ID_WORLD_RETRY_MS;
    id_world_turn(w);
    assert_int_equal(w->request_count, 1);
}

static void test_silence_is_asked_anew_and_the_late_answer_burnt(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct buf late = BUF_INIT;
    uint64_t abandon_ms;

    id_world_park(w, tag, 1);
    id_world_turn(w);
    id_world_apply(w, 0, &late); /* granted [1, 11), but the answer does not come */
    abandon_ms = id_world_next_ms(w);
    assert_true(abandon_ms >= w->now_ms + ID_WORLD_REQUEST_MS);
    w->now_ms = abandon_ms - 1;
    id_world_turn(w);
    assert_int_equal(w->request_count, 1);
    assert_int_equal(allocator_counts(w->allocator)->in_flight, 1);
    w->now_ms++;
    id_world_turn(w);
    assert_int_equal(allocator_counts(w->allocator)->in_flight, 0);
    w->now_ms += ID_WORLD_RETRY_MS;
    id_world_turn(w);
    assert_int_equal(w->request_count, 2);
    assert_int_equal(allocator_counts(w->allocator)->in_flight, 1); /* not the abandoned one */
    id_world_reply(w, 0, &late);                                    /* now it comes */
    assert_int_equal(segment_left(&tag->buffer), 0);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_LATE], 10);
    assert_int_equal(w->wakes, 0);
    id_world_answer(w, 0);
    assert_true(id_world_claim(tag) == 11);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_LATE], 10);
    buf_free(&late);
}

/* Shows lesson-epoch. */
static void test_late_answer_after_the_new_one(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_park(w, tag, 1);
    id_world_turn(w);
    w->now_ms = id_world_next_ms(w); /* given up */
    id_world_turn(w);
    w->now_ms += ID_WORLD_RETRY_MS;
    id_world_turn(w);
    id_world_answer(w, 1);
    assert_true(id_world_claim(tag) == 1);
    assert_true(id_world_want(w, tag));
    id_world_turn(w); /* a third one is under way when the first comes */
    id_world_answer(w, 0);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_LATE], 10);
    assert_int_equal(tag->item.where, BATCH_SENT);
    id_world_fail(w, 0, ERR_TIMEOUT);
    assert_int_equal(segment_left(&tag->buffer), 9);
}

static void test_broken_answers_are_retried(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct buf reply = BUF_INIT;
    const struct grant_result two[2] = {{0, 5, 100, 1, 10, 100, 0}, {0, 5, 200, 1, 10, 100, 0}};
    const struct grant_result wrong[] = {
        {ERR_NO_LEADER, 0, 0, 1, 10, 100, 0},                 /* not one a grant can have */
        {0, 5, TAG_MAX_ID_END, 1, 10, 100, 0},                /* beyond the end */
        {0, 5, (uint64_t)TAG_MAX_ID_END - 4, 1, 10, 100, 0},  /* over it */
        {0, 5, UINT64_MAX - 2, 1, 10, 100, 0},                /* wraps */
        {0, LIMIT_TAG_STEP + 1, 1, 1, 10, LIMIT_TAG_STEP, 0}, /* longer than any segment */
        {0, 5, 1, 1, 0, 100, 0},                              /* no step */
        {0, 5, 1, 1, 101, 100, 0},                            /* step above max_step */
    };

    id_world_park(w, tag, 1);
    for (size_t i = 0; i < 3 + sizeof wrong / sizeof wrong[0]; i++) {
        id_world_turn(w);
        reply.len = 0;
        if (i == 0) {
            hex_put(&reply, "01 81 ff");
        } else if (i == 1) {
            status_result_encode(ERR_BAD_MESSAGE, &reply);
        } else if (i == 2) {
            results_encode(RESULT_GRANTS, two, 2, &reply); /* one was asked for */
        } else {
            grant_reply(&reply, wrong[i - 3]);
        }
        id_world_reply(w, 0, &reply);
        assert_int_equal(segment_left(&tag->buffer), 0);
        assert_int_equal(tag->state, ID_TAG_ACTIVE);
        assert_true(tag->refill_wanted);
        w->now_ms += ID_WORLD_RETRY_MS;
    }
    buf_free(&reply);
}

/* Shows lesson-above, lesson-order. */
static void test_range_below_the_last_one_is_burnt(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct buf reply = BUF_INIT;

    id_world_load(w, tag); /* [1, 11) */
    assert_true(id_world_claim(tag) == 1);
    id_world_park(w, tag, 1);
    id_world_turn(w);
    grant_reply(&reply, (struct grant_result){0, 10, 10, 1, 10, 100, 0});
    id_world_reply(w, 0, &reply);
    assert_int_equal(segment_left(&tag->buffer), 9);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_LATE], 10);
    w->now_ms += ID_WORLD_RETRY_MS;
    id_world_turn(w);
    id_world_answer(w, 0); /* the honest one */
    assert_int_equal(segment_left(&tag->buffer), 19);
    buf_free(&reply);
}

/* --- what people may ask to see --- */

static void test_segments_page(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "b", 10);
    struct id_segments_page page;

    (void)id_world_tag(w, "a", 10);
    (void)id_world_tag(w, "c", 10);
    (void)id_world_tag(w, "b/x", 10);
    id_world_load(w, tag);
    (void)id_world_claim(tag);
    w->now_ms += 70;
    assert_true(id_world_want(w, tag));
    id_world_turn(w);
    allocator_segments(w->allocator, "", 0, "", 0, 3, &page);
    assert_int_equal(page.count, 3);
    assert_true(page.more);
    assert_string_equal(page.items[0].name, "a");
    assert_true(page.items[0].last_refill_ago_ms == UINT64_MAX);
    assert_int_equal(page.items[0].step, 0);
    assert_string_equal(page.items[1].name, "b");
    assert_int_equal(page.items[1].name_len, 1);
    assert_true(page.items[1].refill_in_flight);
    assert_int_equal(page.items[1].last_refill_ago_ms, 70);
    assert_int_equal(page.items[1].step, 10);
    assert_int_equal(page.items[1].slots[0].next_id, 2);
    assert_int_equal(page.items[1].slots[0].end, 11);
    assert_string_equal(page.items[2].name, "b/x");
    free(page.items);
    allocator_segments(w->allocator, "", 0, "b/x", 3, 3, &page);
    assert_int_equal(page.count, 1);
    assert_false(page.more);
    free(page.items);
    allocator_segments(w->allocator, "b", 1, "", 0, 2, &page);
    assert_int_equal(page.count, 2);
    assert_false(page.more);
    free(page.items);
}

static void test_waker_may_come_later(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    allocator_set_waker(w->allocator, NULL);
    id_world_park(w, tag, 1);
    id_world_turn(w);
    id_world_answer(w, 0);
    assert_int_equal(w->wakes, 0);
    assert_int_equal(tag->waiting_loops, 1); /* not lost */
    allocator_set_waker(w->allocator, &w->waker);
    (void)id_world_claim(tag);
    id_world_load(w, tag);
    assert_int_equal(w->wakes, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_world_setup, id_world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_first_segment_is_published_and_wakes),
        TEST(test_two_segments_then_no_more_room),
        TEST(test_one_request_in_flight_a_tag),
        TEST(test_demand_sizes_the_segment),
        TEST(test_rate_sizes_the_second_segment),
        TEST(test_many_tags_in_one_command),
        TEST(test_entries_in_flight_are_limited),
        TEST(test_answer_from_inside_propose),
        TEST(test_failure_is_retried_while_somebody_waits),
        TEST(test_failure_is_kept_for_demand_or_waiters),
        TEST(test_failure_with_nobody_waiting_is_left_to_claimers),
        TEST(test_silence_is_asked_anew_and_the_late_answer_burnt),
        TEST(test_late_answer_after_the_new_one),
        TEST(test_broken_answers_are_retried),
        TEST(test_range_below_the_last_one_is_burnt),
        TEST(test_segments_page),
        TEST(test_waker_may_come_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
