/*
 * test_strict_late.c - the gatherer of strict requests when things take long or fail: deadlines,
 * batches that fail or bring nonsense, requests that are asked for again.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/alloc/tests/strict_world.h"

#define PATIENCE_MS 1000

static struct strict_ask *ask(struct strict_world *w, const char *tag, uint32_t count)
{
    return strict_world_ask(w, tag, count, NULL, PATIENCE_MS);
}

static void assert_answered(const struct strict_ask *asked, int status)
{
    assert_int_equal(asked->answers, 1);
    assert_int_equal(asked->base.status, status);
}

/* --- texts whose key is not here yet --- */

#define SHAPE "A{key}{secret:6}\0"
#define KEY_NUMBERS 1000000 /* ids of each key */

/* The tag's row with this many keys, as this node has applied it. */
static void hear_keys(struct strict_world *w, uint16_t keys)
{
    char shape[sizeof SHAPE - 1 + 2 * SHAPE_KEY_BYTES] = SHAPE;
    struct tag_row row = {.name = "order",
                          .name_len = 5,
                          .generation = keys,
                          .mode = TAG_MODE_STRICT,
                          .shape = shape,
                          .shape_len = (uint16_t)(sizeof SHAPE - 1 + keys * SHAPE_KEY_BYTES)};

    assert_true(keys <= 2);
    memset(shape + sizeof SHAPE - 1, 'k', 2 * SHAPE_KEY_BYTES);
    assert_non_null(allocator_open(w->allocator, &row));
}

/* It is answered with the ids that it got once the key is here, and is not asked for again. */
static void test_ids_wait_for_their_key(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *asked;

    hear_keys(w, 1);
    asked = ask(w, "order", 3);
    w->next_id = KEY_NUMBERS - 2; /* the last is of the second key */
    strict_world_turn(w);
    strict_world_give(w, 0);
    strict_world_pass_ms(w, 10 * STRICT_RETRY_MS);
    assert_int_equal(asked->answers, 0);
    hear_keys(w, 2);
    strict_world_pass_ms(w, STRICT_RETRY_MS);
    assert_answered(asked, 0);
    assert_int_equal(strict_world_result(asked).first, KEY_NUMBERS - 2);
    assert_int_equal(w->proposed, 1);
    assert_int_equal(strict_counts(w->strict)->burnt, 0);
}

/* Or at its deadline, or the end of the node, with an error: what it got is burnt, but for what its
 * key keeps. */
static void test_the_key_of_ids_never_comes(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *asked[3];

    hear_keys(w, 1);
    asked[0] = strict_world_ask(w, "order", 3, NULL, 4 * STRICT_RETRY_MS + 5);
    asked[1] = strict_world_ask(w, "order", 4, "kept for its retry", 4 * STRICT_RETRY_MS);
    asked[2] = strict_world_ask(w, "order", 5, NULL, PATIENCE_MS);
    w->next_id = KEY_NUMBERS;
    strict_world_turn(w);
    strict_world_give(w, 0);
    for (unsigned turn = 0; turn < 5; turn++) {
        strict_world_pass_ms(w, STRICT_RETRY_MS);
    }
    assert_answered(asked[0], ERR_TIMEOUT);
    assert_answered(asked[1], ERR_TIMEOUT);
    assert_int_equal(asked[0]->base.reply.len, 0);
    assert_int_equal(strict_counts(w->strict)->burnt, 3);
    assert_int_equal(asked[2]->answers, 0);
    strict_world_stop(w);
    assert_answered(asked[2], ERR_SHUTTING_DOWN);
    assert_int_equal(strict_counts(w->strict)->burnt, 8);
    assert_int_equal(w->proposed, 1);
}

/* --- deadlines --- */

static void test_a_deadline_in_a_batch(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *hasty = strict_world_ask(w, "order", 5, NULL, 50);
    struct strict_ask *patient = strict_world_ask(w, "order", 2, NULL, 500);

    strict_world_turn(w);
    assert_true(w->batches[0]->deadline_ms == w->now_ms + 500); /* the latest */
    assert_true(strict_world_next_ms(w) == w->now_ms + 50);
    strict_world_pass_ms(w, 49);
    assert_int_equal(hasty->answers, 0);
    strict_world_pass_ms(w, 1);
    assert_answered(hasty, ERR_TIMEOUT);
    assert_int_equal(hasty->base.reply.len, 0);
    assert_int_equal(patient->answers, 0);
    strict_world_give(w, 0);
    assert_answered(patient, 0);
    assert_int_equal(strict_world_result(patient).first, 6);
    assert_int_equal(strict_counts(w->strict)->burnt, 5);
}

/* Nothing was given to it: nothing is burnt. */
static void test_what_a_late_request_did_not_get_is_not_burnt(void **state)
{
    struct strict_world *w = *state;
    struct strict_result results[3] = {
        {.status = ERR_UNKNOWN_TAG}, {.first = 40, .replayed = true}, {.first = 60}};

    (void)strict_world_ask(w, "a", 100, NULL, 50);
    (void)strict_world_ask(w, "b", 100, "key", 50);
    (void)strict_world_ask(w, "c", 100, "kept for its retry", 50);
    strict_world_turn(w);
    strict_world_pass_ms(w, 50);
    strict_world_results(w, 0, results, 3);
    assert_int_equal(strict_counts(w->strict)->burnt, 0);
}

static void test_a_late_request_is_not_sent(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *a = strict_world_ask(w, "order", 1, NULL, 0);
    struct strict_ask *b;

    strict_world_turn(w);
    assert_answered(a, ERR_TIMEOUT);
    b = strict_world_ask(w, "order", 1, NULL, 1);
    w->now_ms++;
    strict_world_turn(w);
    assert_answered(b, ERR_TIMEOUT);
    assert_int_equal(w->proposed, 0);
}

static void test_without_a_leader_nothing_is_sent(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *hasty = strict_world_ask(w, "order", 1, NULL, 50);
    struct strict_ask *patient = strict_world_ask(w, "order", 1, NULL, 500);

    w->leader_known = false;
    strict_world_turn(w);
    assert_int_equal(w->proposed, 0);
    assert_true(strict_world_next_ms(w) == w->now_ms + 50);
    strict_world_pass_ms(w, 50);
    assert_answered(hasty, ERR_NO_LEADER);
    w->leader_known = true;
    strict_world_turn(w);
    w->leader_known = false; /* lost again, with the batch under way */
    strict_world_turn(w);
    strict_world_pass_ms(w, 450);
    assert_answered(patient, ERR_NO_LEADER);
    strict_world_fail(w, 0, ERR_NO_LEADER);
}

static void test_a_deadline_far_away_is_bounded(void **state)
{
    struct strict_world *w = *state;

    (void)strict_world_ask(w, "order", 1, NULL, LIMIT_TIMEOUT_MS);
    strict_world_turn(w);
    assert_true(w->batches[0]->deadline_ms == w->now_ms + LIMIT_TIMEOUT_MS);
    (void)strict_world_ask(w, "order", 1, NULL, LIMIT_TIMEOUT_MS + 1);
    strict_world_turn(w);
    assert_true(w->batches[1]->deadline_ms == w->now_ms + LIMIT_TIMEOUT_MS);
}

/* Each is answered when it is due, wherever it is by then, and nobody wakes in between. */
static void test_each_deadline_by_itself(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *asks[40];
    unsigned looks = 0;

    for (unsigned i = 0; i < 40; i++) {
        asks[i] = strict_world_ask(w, "order", 1, NULL, 20 + i);
        if (i == 20) {
            strict_world_turn(w); /* these are in a batch */
            w->leader_known = false;
        }
    }
    strict_world_turn(w);
    while (strict_world_next_ms(w) != UINT64_MAX) {
        w->now_ms = strict_world_next_ms(w);
        strict_world_turn(w);
        looks++;
    }
    assert_int_equal(looks, 41); /* at last the batch is given up */
    for (unsigned i = 0; i < 40; i++) {
        assert_answered(asks[i], ERR_NO_LEADER);
        assert_true(asks[i]->answered_ms == asks[i]->base.deadline_ms);
    }
}

/* --- batches that fail --- */

/* Its outcome is unknown: it is never asked for in another batch. */
static void test_a_failed_batch_fails_its_requests(void **state)
{
    static const int statuses[] = {ERR_TIMEOUT,   ERR_NO_LEADER, ERR_OVERLOADED,
                                   ERR_DISK_FULL, ERR_TOO_LARGE, ERR_SHUTTING_DOWN};
    struct strict_world *w = *state;

    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        struct strict_ask *a = ask(w, "a", 1);
        struct strict_ask *b = ask(w, "b", 1);

        strict_world_turn(w);
        strict_world_fail(w, 0, statuses[i]);
        assert_answered(a, statuses[i]);
        assert_answered(b, statuses[i]);
        assert_int_equal(a->base.reply.len, 0);
        strict_world_turn(w);
        assert_int_equal(w->batch_count, 0);
        assert_int_equal(w->proposed, i + 1);
    }
    assert_int_equal(strict_counts(w->strict)->burnt, 0);
}

static void test_results_that_cannot_be_are_refused(void **state)
{
    struct strict_world *w = *state;
    struct strict_result results[2] = {{.first = 1}, {.first = 2}};
    struct strict_ask *a = ask(w, "a", 1);
    struct strict_ask *beyond;
    struct strict_ask *last;

    strict_world_turn(w);
    strict_world_results(w, 0, results, 2); /* one too many */
    assert_answered(a, ERR_BAD_MESSAGE);
    beyond = ask(w, "a", 3);
    last = ask(w, "a", 3);
    strict_world_turn(w);
    results[0].first = TAG_MAX_ID_END - 2;
    results[1].first = TAG_MAX_ID_END - 3;
    strict_world_results(w, 0, results, 2);
    assert_answered(beyond, ERR_BAD_MESSAGE);
    assert_int_equal(beyond->base.reply.len, 0);
    assert_answered(last, 0);
    a = ask(w, "a", 1);
    strict_world_turn(w);
    status_result_encode(ERR_BAD_MESSAGE, &w->batches[0]->reply);
    strict_world_fail(w, 0, 0); /* no results of strict requests at all */
    assert_answered(a, ERR_BAD_MESSAGE);
}

/* --- ask again --- */

static void test_asked_again_after_a_pause(void **state)
{
    static const int statuses[] = {ERR_CHANGING, ERR_EMPTY};
    struct strict_world *w = *state;

    for (size_t i = 0; i < 2; i++) {
        struct strict_ask *a = ask(w, "order", 1);

        strict_world_turn(w);
        strict_world_say(w, 0, statuses[i], 2);
        assert_int_equal(a->answers, 0);
        assert_true(strict_world_next_ms(w) == w->now_ms + STRICT_RETRY_MS);
        strict_world_pass_ms(w, STRICT_RETRY_MS - 1);
        assert_int_equal(w->batch_count, 0);
        strict_world_pass_ms(w, 1);
        assert_int_equal(w->batch_count, 1);
        assert_int_equal(w->proposed, 2 * i + 2); /* a new batch */
        strict_world_give(w, 0);
        assert_answered(a, 0);
        assert_int_equal(strict_world_result(a).first, i + 1);
    }
}

static void test_asked_again_until_the_deadline(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *a = strict_world_ask(w, "order", 1, NULL, 2 * STRICT_RETRY_MS);

    strict_world_turn(w);
    strict_world_say(w, 0, ERR_CHANGING, 2);
    strict_world_pass_ms(w, STRICT_RETRY_MS);
    assert_int_equal(w->batch_count, 1);
    strict_world_say(w, 0, ERR_CHANGING,
                     3); /* the next pause would end at the deadline: no use waiting */
    assert_answered(a, ERR_CHANGING);
    assert_int_equal(strict_world_result(a).detail, 3);
}

/* It was not sent a second time, so what it was told first is still true. */
static void test_told_why_when_it_could_not_be_asked_again(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *a = strict_world_ask(w, "order", 1, NULL, 100);

    strict_world_turn(w);
    strict_world_say(w, 0, ERR_CHANGING, 2);
    w->leader_known = false;
    strict_world_pass_ms(w, STRICT_RETRY_MS);
    assert_int_equal(w->batch_count, 0);
    strict_world_pass_ms(w, 100);
    assert_answered(a, ERR_CHANGING);
    assert_int_equal(strict_world_result(a).detail, 2);
}

/* The deadline meets the second batch: its answer says more than a timeout, if it comes soon. */
static void test_told_why_when_asked_again_late(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *asks[3];

    for (size_t i = 0; i < 3; i++) {
        asks[i] = strict_world_ask(w, "order", 4, NULL, 100);
        strict_world_turn(w);
        strict_world_say(w, 0, ERR_CHANGING, 2);
        strict_world_pass_ms(w, STRICT_RETRY_MS);
        assert_int_equal(w->batch_count, 1);
        assert_int_equal(w->batches[0]->deadline_ms, asks[i]->base.deadline_ms + STRICT_LATE_MS);
        strict_world_pass_ms(w, 100 + STRICT_LATE_MS - STRICT_RETRY_MS - 1);
        assert_int_equal(asks[i]->answers, 0);
        if (i == 0) {
            strict_world_say(w, 0, ERR_CHANGING, 3);
        } else if (i == 1) {
            strict_world_give(w, 0);
        }
    }
    assert_answered(asks[0], ERR_CHANGING);
    assert_int_equal(strict_world_result(asks[0]).detail, 3);
    assert_answered(asks[1], 0);
    strict_world_pass_ms(w, 1);
    assert_answered(asks[2], ERR_TIMEOUT);
    assert_int_equal(asks[2]->base.reply.len, 0);
    strict_world_give(w, 0);
    assert_int_equal(strict_counts(w->strict)->burnt, 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, strict_world_setup, strict_world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_ids_wait_for_their_key),
        TEST(test_the_key_of_ids_never_comes),
        TEST(test_a_deadline_in_a_batch),
        TEST(test_what_a_late_request_did_not_get_is_not_burnt),
        TEST(test_a_late_request_is_not_sent),
        TEST(test_without_a_leader_nothing_is_sent),
        TEST(test_a_deadline_far_away_is_bounded),
        TEST(test_each_deadline_by_itself),
        TEST(test_a_failed_batch_fails_its_requests),
        TEST(test_results_that_cannot_be_are_refused),
        TEST(test_asked_again_after_a_pause),
        TEST(test_asked_again_until_the_deadline),
        TEST(test_told_why_when_it_could_not_be_asked_again),
        TEST(test_told_why_when_asked_again_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
