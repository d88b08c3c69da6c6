/*
 * test_strict.c - the gatherer of strict requests: what goes into a batch, who is answered what,
 * bounds, incarnations, the end. test_strict_late.c has deadlines and failures.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/tests/unit/death.h"
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

/* --- the happy path --- */

static void test_what_waits_goes_into_one_batch_a_turn(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *a = ask(w, "order", 3);
    struct strict_ask *b = ask(w, "order", 1);
    struct command_list command;
    struct strict_item item;

    assert_int_equal(w->proposed, 0); /* only at the end of the turn */
    assert_true(strict_world_next_ms(w) == w->now_ms);
    strict_world_turn(w);
    assert_int_equal(w->proposed, 1);
    assert_true(strict_world_next_ms(w) == w->now_ms + PATIENCE_MS);
    command = strict_world_command(w, 0);
    assert_true(command.wall_ms == w->now_ms);
    assert_int_equal(command.key_limit, STRICT_WORLD_KEYS);
    assert_int_equal(command.count, 2);
    assert_true(command_next(&command, &item));
    assert_memory_equal(item.name, "order", item.name_len);
    assert_int_equal(item.count, 3);
    assert_int_equal(item.key_len, 0);
    strict_world_give(w, 0);
    assert_answered(a, 0);
    assert_answered(b, 0);
    assert_int_equal(strict_world_result(a).first, 1);
    assert_int_equal(strict_world_result(b).first, 4);
    assert_true(strict_world_next_ms(w) == UINT64_MAX);
    assert_int_equal(strict_counts(w->strict)->burnt, 0);
}

static void test_the_key_goes_along(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *a = strict_world_ask(w, "order", 1, "key-1", PATIENCE_MS);
    struct strict_result result = {.replayed = true, .generation = 4, .first = 77};
    struct command_list command;
    struct strict_item item;

    strict_world_turn(w);
    command = strict_world_command(w, 0);
    assert_true(command_next(&command, &item));
    assert_int_equal(item.key_len, 5);
    assert_memory_equal(item.key, "key-1", 5);
    strict_world_results(w, 0, &result, 1);
    assert_answered(a, 0);
    result = strict_world_result(a);
    assert_true(result.replayed);
    assert_int_equal(result.first, 77);
    assert_int_equal(result.generation, 4);
}

static uint32_t period_of(void *data, const char *name, size_t name_len)
{
    return name_len == 5 && memcmp(name, "dated", 5) == 0 ? *(uint32_t *)data : 0;
}

/* As it is when the batch leaves; and a batch without one takes the form that it had before. */
static void test_the_period_goes_along(void **state)
{
    struct strict_world *w = *state;
    uint32_t period = 2026;
    struct command_list command;
    struct strict_item item;

    strict_dates(w->strict, period_of, &period);
    (void)ask(w, "order", 1);
    strict_world_turn(w);
    assert_int_equal(command_type(w->batches[0]->payload.data, w->batches[0]->payload.len),
                     COMMAND_STRICT);
    strict_world_give(w, 0);
    (void)ask(w, "dated", 1);
    (void)ask(w, "order", 1);
    period = 2027;
    strict_world_turn(w);
    assert_int_equal(command_type(w->batches[0]->payload.data, w->batches[0]->payload.len),
                     COMMAND_STRICT);
    command = strict_world_command(w, 0);
    assert_true(command_next(&command, &item));
    assert_int_equal(item.period, 2027);
    assert_true(command_next(&command, &item));
    assert_int_equal(item.period, 0);
    strict_world_give(w, 0);
}

/* By tag, and within a tag in order of arrival. */
static void test_requests_of_a_tag_stand_together(void **state)
{
    static const char *const tags[] = {"b", "a", "bb", "b", "a", "c", "a"};
    static const uint32_t sorted[] = {2, 5, 7, 1, 4, 3, 6};
    struct strict_world *w = *state;
    struct command_list command;
    struct strict_item item;
    size_t seen = 0;

    for (uint32_t i = 0; i < 7; i++) {
        (void)ask(w, tags[i], i + 1);
    }
    strict_world_turn(w);
    command = strict_world_command(w, 0);
    while (command_next(&command, &item)) {
        assert_int_equal(item.count, sorted[seen++]);
        assert_memory_equal(item.name, tags[item.count - 1], item.name_len);
    }
    assert_int_equal(seen, 7);
    strict_world_give(w, 0);
}

/* Each request gets the result of its own place, though the places were sorted. */
static void test_results_go_to_who_asked(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *z = ask(w, "z", 1);
    struct strict_ask *a = ask(w, "a", 1);
    struct strict_ask *m = ask(w, "m", 1);
    struct strict_result results[3] = {
        {.first = 10}, {.status = ERR_UNKNOWN_TAG}, {.status = ERR_EXHAUSTED, .detail = 5}};

    strict_world_turn(w);
    strict_world_results(w, 0, results, 3);
    assert_answered(a, 0);
    assert_int_equal(strict_world_result(a).first, 10);
    assert_answered(m, ERR_UNKNOWN_TAG);
    assert_answered(z, ERR_EXHAUSTED);
    assert_int_equal(strict_world_result(z).detail, 5);
}

static void test_statuses_come_with_their_details(void **state)
{
    static const int said[] = {ERR_WRONG_MODE, ERR_KEY_CONFLICT, ERR_KEYS_FULL, ERR_UNKNOWN_TAG,
                               ERR_OVERLOADED};
    struct strict_world *w = *state;

    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        struct strict_ask *a = ask(w, "order", 1);

        strict_world_turn(w);
        strict_world_say(w, 0, said[i], 40 + i);
        assert_answered(a, said[i]);
        assert_int_equal(strict_world_result(a).detail, 40 + i);
    }
}

static void test_a_batch_may_be_answered_at_once(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *a = ask(w, "order", 2);

    w->answer_at_once = 1;
    strict_world_turn(w);
    assert_answered(a, 0);
    assert_int_equal(w->batch_count, 0);
}

/* --- bounds --- */

static void test_items_at_and_beyond_the_limit(void **state)
{
    struct strict_world *w = *state;

    for (unsigned i = 0; i < LIMIT_STRICT_ITEMS; i++) {
        (void)ask(w, "order", 1);
    }
    strict_world_turn(w);
    assert_int_equal(w->batch_count, 1);
    assert_int_equal(strict_world_command(w, 0).count, LIMIT_STRICT_ITEMS);
    for (unsigned i = 0; i < LIMIT_STRICT_ITEMS + 1; i++) {
        (void)ask(w, "order", 1);
    }
    strict_world_turn(w);
    assert_int_equal(w->batch_count, 2);
    strict_world_pass_ms(w, STRICT_WORLD_HOLD_MS);
    assert_int_equal(w->batch_count, 3); /* the rest goes into the next */
    assert_int_equal(strict_world_command(w, 1).count, LIMIT_STRICT_ITEMS);
    assert_int_equal(strict_world_command(w, 2).count, 1);
    for (unsigned i = 0; i < 3; i++) {
        strict_world_give(w, 0);
    }
    assert_true(w->next_id == 2 * LIMIT_STRICT_ITEMS + 2);
}

/* The longest names and keys still make an entry that fits. */
static void test_the_largest_batch_fits_into_an_entry(void **state)
{
    struct strict_world *w = *state;
    char name[LIMIT_TAG_NAME_BYTES + 1];
    char key[LIMIT_KEY_BYTES + 1];

    memset(name, 'n', sizeof name - 1);
    memset(key, 'k', sizeof key - 1);
    name[sizeof name - 1] = '\0';
    key[sizeof key - 1] = '\0';
    for (unsigned i = 0; i < LIMIT_STRICT_ITEMS; i++) {
        name[i % LIMIT_TAG_NAME_BYTES]++;
        (void)strict_world_ask(w, name, LIMIT_COUNT, key, PATIENCE_MS);
    }
    strict_world_turn(w);
    assert_int_equal(strict_world_command(w, 0).count, LIMIT_STRICT_ITEMS);
    assert_true(w->batches[0]->payload.len <= LIMIT_ENTRY_BYTES / 4);
    strict_world_give(w, 0);
}

/* A batch that is small against what is under way waits a moment for others to join it. */
static void test_a_small_batch_is_held_back(void **state)
{
    struct strict_world *w = *state;

    for (unsigned i = 0; i < 8; i++) {
        (void)ask(w, "order", 1);
    }
    strict_world_turn(w); /* nothing is under way: at once */
    assert_int_equal(w->proposed, 1);
    for (unsigned i = 0; i < 3; i++) {
        (void)ask(w, "order", 1);
    }
    strict_world_turn(w);
    assert_int_equal(w->proposed, 1);
    assert_true(strict_world_next_ms(w) == w->now_ms + STRICT_WORLD_HOLD_MS);
    (void)ask(w, "order", 1); /* half as many as are under way */
    assert_true(strict_world_next_ms(w) == w->now_ms);
    strict_world_turn(w);
    assert_int_equal(w->proposed, 2);
    (void)ask(w, "order", 1);
    strict_world_pass_ms(w, STRICT_WORLD_HOLD_MS - 1);
    assert_int_equal(w->proposed, 2);
    strict_world_pass_ms(w, 1); /* long enough */
    assert_int_equal(w->proposed, 3);
    (void)ask(w, "order", 1);
    strict_world_turn(w);
    assert_int_equal(w->proposed, 3);
    strict_world_give(w, 0);
    strict_world_give(w, 0);
    strict_world_turn(w); /* what was under way came back */
    assert_int_equal(w->proposed, 4);
    while (w->batch_count > 0) {
        strict_world_give(w, 0);
    }
}

/* One more is not sent before one of those is over, whichever. */
static void test_batches_at_and_beyond_the_limit(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *late;

    for (unsigned i = 0; i < LIMIT_STRICT_BATCHES; i++) {
        (void)ask(w, "order", 1);
        strict_world_pass_ms(w, STRICT_WORLD_HOLD_MS);
    }
    assert_int_equal(w->batch_count, LIMIT_STRICT_BATCHES);
    late = ask(w, "order", 1);
    strict_world_pass_ms(w, STRICT_WORLD_HOLD_MS);
    assert_int_equal(w->batch_count, LIMIT_STRICT_BATCHES);
    assert_true(strict_world_next_ms(w) > w->now_ms); /* nothing to do before an answer */
    assert_int_equal(w->proposed, LIMIT_STRICT_BATCHES);
    strict_world_give(w, 1); /* the second one */
    assert_true(strict_world_next_ms(w) == w->now_ms);
    strict_world_turn(w);
    assert_int_equal(w->batch_count, LIMIT_STRICT_BATCHES);
    assert_int_equal(w->proposed, LIMIT_STRICT_BATCHES + 1);
    assert_int_equal(late->answers, 0);
    (void)ask(w, "order", 1);
    strict_world_pass_ms(w, STRICT_WORLD_HOLD_MS);
    assert_int_equal(w->proposed, LIMIT_STRICT_BATCHES + 1); /* there is no room again */
    strict_world_give(w, LIMIT_STRICT_BATCHES - 1);
    assert_answered(late, 0);
    strict_world_turn(w);
    assert_int_equal(w->proposed, LIMIT_STRICT_BATCHES + 2);
}

static void test_waiting_at_and_beyond_the_limit(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *last = NULL;
    struct strict_ask *beyond;

    w->leader_known = false;
    for (unsigned i = 0; i < LIMIT_STRICT_WAITING; i++) {
        last = ask(w, "order", 1);
    }
    beyond = ask(w, "order", 1);
    assert_int_equal(last->answers, 0);
    assert_answered(beyond, ERR_OVERLOADED);
    assert_int_equal(beyond->base.reply.len, 0);
    w->leader_known = true;
    strict_world_turn(w);
    assert_int_equal(w->batch_count, LIMIT_STRICT_BATCHES);
    strict_world_give(w, 0); /* what is in a batch counted as well */
    beyond = ask(w, "order", 1);
    strict_world_turn(w);
    assert_int_equal(beyond->answers, 0);
}

static void test_bad_requests_are_refused(void **state)
{
    struct strict_world *w = *state;
    char name[LIMIT_TAG_NAME_BYTES + 2];
    struct strict_ask *longer;
    struct strict_ask *nameless;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    longer = ask(w, name, 1);
    nameless = ask(w, "", 1);
    strict_world_turn(w);
    assert_answered(longer, ERR_INVALID);
    assert_answered(nameless, ERR_INVALID);
    assert_int_equal(w->proposed, 0);
    assert_true(strict_world_next_ms(w) == UINT64_MAX);
}

static void test_bytes_that_are_no_request_are_refused(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *a = ask(w, "order", 1);

    strict_world_turn(w);
    strict_world_give(w, 0);
    a->answers = 0; /* once more, with a byte too few */
    a->base.payload.len--;
    strict_submit(w->strict, &a->base);
    strict_world_turn(w);
    assert_answered(a, ERR_BAD_MESSAGE);
    assert_int_equal(a->base.reply.len, 0);
    assert_int_equal(w->proposed, 1);
}

/* --- refused by the session: an unknown outcome --- */

static void test_a_batch_of_unknown_outcome_is_not_asked_again(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *a = ask(w, "order", 1);
    struct strict_ask *b;

    strict_world_turn(w);
    strict_world_fail(w, 0, ERR_TIMEOUT);
    assert_answered(a, ERR_TIMEOUT); /* and never again: an earlier copy may have been applied */
    assert_int_equal(a->base.reply.len, 0);
    strict_world_turn(w);
    assert_int_equal(w->batch_count, 0);
    b = ask(w, "order", 1);
    strict_world_turn(w);
    strict_world_give(w, 0);
    assert_answered(b, 0);
}

/* Nor does it hold up others that are under way, or follow. */
static void test_a_batch_of_unknown_outcome_stands_for_itself(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *asks[5];

    for (unsigned i = 0; i < 3; i++) {
        asks[i] = ask(w, "order", 1);
        strict_world_turn(w);
    }
    assert_int_equal(w->batch_count, 3);
    strict_world_fail(w, 0, ERR_TIMEOUT);
    asks[3] = ask(w, "order", 1);
    strict_world_turn(w);
    strict_world_give(w, 2);
    strict_world_fail(w, 0, ERR_TIMEOUT);
    strict_world_fail(w, 0, ERR_TIMEOUT);
    asks[4] = ask(w, "order", 1);
    strict_world_turn(w);
    assert_int_equal(w->batch_count, 1);
    strict_world_give(w, 0);
    for (unsigned i = 0; i < 5; i++) {
        assert_answered(asks[i], i == 3 || i == 4 ? 0 : ERR_TIMEOUT);
    }
}

/* --- the end --- */

static void test_stop_answers_what_waits(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *sent = ask(w, "order", 1);
    struct strict_ask *changing;
    struct strict_ask *again;
    struct strict_ask *waiting;
    struct strict_ask *after;

    strict_world_turn(w);
    again = ask(w, "other", 1);
    changing = ask(w, "other", 1);
    strict_world_turn(w);
    strict_world_say(w, 1, ERR_CHANGING, 2);
    assert_int_equal(again->answers, 0);
    waiting = ask(w, "order", 1);
    strict_world_stop(w);
    assert_answered(again, ERR_SHUTTING_DOWN);
    assert_answered(changing, ERR_SHUTTING_DOWN);
    assert_int_equal(again->base.reply.len, 0);
    assert_answered(waiting, ERR_SHUTTING_DOWN);
    after = ask(w, "order", 1);
    assert_answered(after, ERR_SHUTTING_DOWN);
    assert_int_equal(sent->answers, 0);
    assert_int_equal(w->batch_count, 1);
    strict_world_give(w, 0); /* what is under way is still answered */
    assert_answered(sent, 0);
}

static void test_stopped_means_not_asked_again(void **state)
{
    struct strict_world *w = *state;
    struct strict_ask *a = ask(w, "order", 1);

    strict_world_turn(w);
    strict_world_stop(w);
    strict_world_say(w, 0, ERR_CHANGING, 2);
    assert_answered(a, ERR_CHANGING);
}

static void free_while_asked(void *data)
{
    struct strict_world *w = data;

    (void)ask(w, "order", 1);
    strict_free(w->strict);
}

static void test_freed_only_when_all_is_answered(void **state)
{
    assert_true(death_by_assert(free_while_asked, *state));
    strict_free(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, strict_world_setup, strict_world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_waits_goes_into_one_batch_a_turn),
        TEST(test_the_key_goes_along),
        TEST(test_the_period_goes_along),
        TEST(test_requests_of_a_tag_stand_together),
        TEST(test_results_go_to_who_asked),
        TEST(test_statuses_come_with_their_details),
        TEST(test_a_batch_may_be_answered_at_once),
        TEST(test_items_at_and_beyond_the_limit),
        TEST(test_the_largest_batch_fits_into_an_entry),
        TEST(test_a_small_batch_is_held_back),
        TEST(test_batches_at_and_beyond_the_limit),
        TEST(test_waiting_at_and_beyond_the_limit),
        TEST(test_bad_requests_are_refused),
        TEST(test_bytes_that_are_no_request_are_refused),
        TEST(test_a_batch_of_unknown_outcome_is_not_asked_again),
        TEST(test_a_batch_of_unknown_outcome_stands_for_itself),
        TEST(test_stop_answers_what_waits),
        TEST(test_stopped_means_not_asked_again),
        TEST(test_freed_only_when_all_is_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
