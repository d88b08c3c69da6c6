/*
 * test_window.c - the windows of a leader: what is taken from them and when not, how they are
 * opened, extended, replaced, closed and forgotten. The letters are the rules of docs/monotonic.md.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/service/window.h"
#include "src/base/container.h"
#include "src/id/tests/id_apply.h"

#define TERM 7
#define LOG_MS 1700000000000
#define STEP 10
#define MAX_STEP 40

/* A leader: its windows, its state machine, and what it has proposed. */
struct leader {
    struct id_apply apply;
    struct clock clock;
    uint64_t now_ms;
    struct timers timers;
    struct windows *windows;
    uint64_t round_term; /* in which the next batch was confirmed */
    struct buf batch;
    struct command_list list;
    struct window_taken taken;
    struct id_proposer proposer;
    struct cluster_request *returned;   /* the give-back that was proposed; NULL: none */
    struct cluster_request_list wanted; /* the COMMAND_WINDOWs that were, oldest first */
};

static uint64_t now_of(const struct clock *clock)
{
    return CONTAINER(clock, struct leader, clock)->now_ms;
}

static void on_propose(struct id_proposer *proposer, struct cluster_request *request)
{
    struct leader *leader = CONTAINER(proposer, struct leader, proposer);

    bool is_window = command_type(request->payload.data, request->payload.len) == COMMAND_WINDOW;

    assert_true(request->once == is_window);
    if (is_window) {
        TAILQ_INSERT_TAIL(&leader->wanted, request, link);
        return;
    }
    assert_null(leader->returned);
    leader->returned = request;
}

static void make(struct leader *l, const char *name, uint32_t step, uint32_t max_step)
{
    const struct tag_put put = {.name = name,
                                .fields = TAG_FIELD_MODE | TAG_FIELD_STEP | TAG_FIELD_MAX_STEP,
                                .step = step,
                                .max_step = max_step,
                                .mode = TAG_MODE_MONOTONIC};

    assert_int_equal(id_apply_put(&l->apply, put, false).status, 0);
}

static int setup(void **state)
{
    struct leader *l = calloc(1, sizeof *l);

    assert_non_null(l);
    id_apply_init(&l->apply);
    l->apply.term = TERM;
    assert_int_equal(id_apply_clock(&l->apply, LOG_MS), 0);
    l->clock = (struct clock){.now_ms = now_of, .wall_ms = now_of};
    l->now_ms = 1000000;
    l->round_term = TERM;
    l->proposer.propose = on_propose;
    TAILQ_INIT(&l->wanted);
    l->windows = windows_new(l->apply.fsm, &l->clock, &l->timers, &l->proposer);
    make(l, "m", STEP, MAX_STEP);
    make(l, "n", STEP, MAX_STEP);
    *state = l;
    return 0;
}

static int teardown(void **state)
{
    struct leader *l = *state;

    windows_free(l->windows);
    buf_free(&l->batch);
    id_apply_free(&l->apply);
    free(l);
    return 0;
}

static void batch_of(struct leader *l, const struct strict_item *items, size_t count)
{
    l->batch.len = 0;
    command_put(&l->batch, COMMAND_STRICT,
                &(struct command_list){.key_limit = 100, .key_share = 100});
    for (size_t i = 0; i < count; i++) {
        struct strict_item item = items[i];

        item.name_len = (uint16_t)strlen(item.name);
        item.key_len = item.key != NULL ? (uint16_t)strlen(item.key) : 0;
        command_item_put(&l->batch, COMMAND_STRICT, &item);
    }
    command_items_end(&l->batch);
    assert_int_equal(windows_read(l->batch.data, l->batch.len, &l->list), 0);
}

static int take_items(struct leader *l, const struct strict_item *items, size_t count)
{
    const struct window_terms terms = {.round = l->round_term, .now = l->apply.term};

    batch_of(l, items, count);
    return windows_take(l->windows, terms, l->list, &l->taken);
}

static int take(struct leader *l, const char *name, uint32_t count)
{
    const struct strict_item item = {.name = name, .count = count};

    return take_items(l, &item, 1);
}

/* What is wanted is proposed. False: nothing new is. */
static bool propose(struct leader *l)
{
    const struct cluster_request *last = TAILQ_LAST(&l->wanted, cluster_request_list);

    timers_run(&l->timers, l->now_ms);
    return TAILQ_LAST(&l->wanted, cluster_request_list) != last;
}

/* The oldest proposal is answered: with what apply said, or with an error. */
static void answer(struct leader *l, int status, const struct buf *result)
{
    struct cluster_request *request = TAILQ_FIRST(&l->wanted);

    TAILQ_REMOVE(&l->wanted, request, link);
    request->status = status;
    if (status == 0) {
        buf_put(&request->reply, result->data, result->len);
    }
    request->done(request);
}

static void apply_wanted(struct leader *l)
{
    assert_int_equal(id_apply_bytes(&l->apply, &TAILQ_FIRST(&l->wanted)->payload), 0);
}

/* What is wanted is appended, and applied here. False: nothing is. */
static bool renew(struct leader *l)
{
    if (!propose(l)) {
        return false;
    }
    apply_wanted(l);
    answer(l, 0, &l->apply.result);
    return true;
}

/* The ids begin there. */
static void given(struct leader *l, uint64_t first)
{
    assert_int_equal(l->taken.results[0].status, 0);
    assert_true(l->taken.results[0].first == first);
}

static void take_from(struct leader *l, uint32_t count, uint64_t first)
{
    assert_int_equal(take(l, "m", count), 0);
    given(l, first);
}

static void open_window(struct leader *l)
{
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, 1, 1);
}

static uint64_t max_id(struct leader *l, const char *name)
{
    return id_apply_row(&l->apply, name)->max_id;
}

/* --- taking --- */

static void test_the_first_batch_waits_for_a_window(void **state)
{
    struct leader *l = *state;

    assert_int_equal(take(l, "m", 3), ERR_EMPTY);
    assert_int_equal(take(l, "m", 3), ERR_EMPTY); /* nothing was taken, and it is asked for once */
    assert_true(renew(l));
    assert_false(renew(l));
    take_from(l, 3, 1);
    take_from(l, 1, 4);
    assert_true(max_id(l, "m") == STEP + 1);
    assert_int_equal(windows_counts(l->windows)->left, STEP - 4);
    assert_int_equal(windows_counts(l->windows)->taken, 4);
}

static void test_a_window_is_renewed_when_less_than_half_is_left(void **state)
{
    struct leader *l = *state;

    open_window(l);
    take_from(l, 4, 2);
    assert_false(renew(l)); /* five of ten are left */
    take_from(l, 1, 6);
    assert_true(renew(l));
    take_from(l, 14, 7); /* of both, in one piece */
    assert_int_equal(windows_counts(l->windows)->burnt_window, 0);
}

static void test_a_request_larger_than_any_window_gets_one_piece(void **state)
{
    struct leader *l = *state;
    uint64_t before;

    open_window(l);
    assert_int_equal(take(l, "m", MAX_STEP + 100), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, MAX_STEP + 100, 2);
    before = max_id(l, "m"); /* the next one is of a usual size again */
    while (!renew(l)) {
        assert_int_equal(take(l, "m", 1), 0);
    }
    assert_in_range(max_id(l, "m") - before, 1, MAX_STEP);
}

static void test_what_waits_is_bounded_by_max_step(void **state)
{
    struct leader *l = *state;

    open_window(l);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(take(l, "m", 20), ERR_EMPTY);
    }
    assert_true(renew(l));
    assert_true(max_id(l, "m") == 1 + STEP + MAX_STEP);
}

static void test_a_large_batch_gets_its_ids_though_small_ones_wait_too(void **state)
{
    struct leader *l = *state;

    open_window(l);
    assert_int_equal(take(l, "m", MAX_STEP + 100), ERR_EMPTY);
    assert_int_equal(take(l, "m", STEP), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, MAX_STEP + 100, 2);
}

static void test_a_busy_tag_has_larger_windows(void **state)
{
    struct leader *l = *state;
    uint64_t before = max_id(l, "m");

    open_window(l);
    for (unsigned i = 0; i < 40; i++) {
        l->now_ms += 100;
        assert_int_equal(take(l, "m", 3), 0); /* 30 a second */
        before = max_id(l, "m");
        if (renew(l) && i > 20) {
            assert_in_range(max_id(l, "m") - before, 25, MAX_STEP);
        }
    }
    for (unsigned i = 0; i < 2; i++) { /* an idle one has smaller ones again, half by half */
        l->now_ms += 60000;
        do {
            assert_int_equal(take(l, "m", 1), 0);
            before = max_id(l, "m");
        } while (!renew(l));
        assert_int_equal(max_id(l, "m") - before, i == 0 ? 15 : STEP);
    }
}

static void test_all_items_of_a_batch_or_none(void **state)
{
    struct leader *l = *state;
    const struct strict_item items[] = {
        {.name = "m", .count = 2}, {.name = "n", .count = 1}, {.name = "m", .count = 3}};

    open_window(l);
    assert_int_equal(take_items(l, items, 3), ERR_EMPTY); /* n has no window */
    take_from(l, 1, 2);                                   /* nothing of m was taken */
    assert_true(renew(l));
    assert_int_equal(take_items(l, items, 3), 0);
    assert_true(l->taken.results[0].first == 3);
    assert_true(l->taken.results[1].first == 1);
    assert_true(l->taken.results[2].first == 5);
    take_from(l, 1, 8);
}

static void test_items_that_get_nothing_do_not_hold_others_up(void **state)
{
    struct leader *l = *state;
    const struct strict_item items[] = {{.name = "m", .count = 1},
                                        {.name = "none", .count = 1},
                                        {.name = "s", .count = 1},
                                        {.name = "t", .count = 1},
                                        {.name = "gone", .count = 1}};

    id_apply_mode(&l->apply, "s", TAG_MODE_STRICT);
    id_apply_mode(&l->apply, "t", TAG_MODE_TREND);
    make(l, "gone", STEP, MAX_STEP);
    assert_int_equal(id_apply_delete(&l->apply, "gone"), 0);
    open_window(l);
    assert_int_equal(take_items(l, items, 5), 0);
    given(l, 2);
    assert_int_equal(l->taken.results[1].status, ERR_UNKNOWN_TAG);
    assert_int_equal(l->taken.results[2].status, ERR_WRONG_MODE);
    assert_int_equal(l->taken.results[2].detail, TAG_MODE_STRICT);
    assert_int_equal(l->taken.results[3].status, ERR_WRONG_MODE);
    assert_int_equal(l->taken.results[3].detail, TAG_MODE_TREND);
    assert_int_equal(l->taken.results[4].status, ERR_UNKNOWN_TAG);
}

static void test_a_tag_that_waits_for_a_segment_holder_says_for_whom(void **state)
{
    struct leader *l = *state;

    id_apply_mode(&l->apply, "t", TAG_MODE_TREND);
    assert_int_equal(id_apply_grant_to(&l->apply, 3, "t", 10).status, 0);
    id_apply_mode(&l->apply, "t", TAG_MODE_MONOTONIC);
    assert_int_equal(take(l, "t", 1), 0);
    assert_int_equal(l->taken.results[0].status, ERR_CHANGING);
    assert_int_equal(l->taken.results[0].detail, 3);
    assert_false(renew(l));
}

static void test_the_end_of_a_tag_is_never_cut(void **state)
{
    struct leader *l = *state;
    const struct strict_item items[] = {
        {.name = "m", .count = 3}, {.name = "m", .count = 4}, {.name = "m", .count = 2}};

    assert_int_equal(
        id_apply_put(
            &l->apply,
            (struct tag_put){.name = "m", .fields = TAG_FIELD_MAX_ID, .max_id = TAG_MAX_ID_END - 6},
            true)
            .status,
        0);
    assert_int_equal(take_items(l, items, 3), ERR_EMPTY);
    assert_true(renew(l));
    assert_int_equal(take_items(l, items, 3), 0);
    given(l, TAG_MAX_ID_END - 6);
    assert_int_equal(l->taken.results[1].status, ERR_EXHAUSTED);
    assert_int_equal(l->taken.results[1].detail, 3);
    assert_true(l->taken.results[2].first == TAG_MAX_ID_END - 3);
    take_from(l, 1, TAG_MAX_ID_END - 1);
    assert_int_equal(take(l, "m", 1), 0);
    assert_int_equal(l->taken.results[0].status, ERR_EXHAUSTED);
    assert_int_equal(l->taken.results[0].detail, 0);
}

/* --- R3, R6, R7: whose windows, and when --- */

static void test_a_batch_of_another_term_takes_nothing(void **state)
{
    struct leader *l = *state;

    open_window(l);
    l->round_term = TERM - 1;
    assert_int_equal(take(l, "m", 1), ERR_STALE);
    l->round_term = TERM;
    l->apply.term = TERM + 1;
    assert_int_equal(take(l, "m", 1), ERR_STALE);
}

static void test_a_window_of_another_term_is_not_used(void **state)
{
    struct leader *l = *state;

    open_window(l);
    l->apply.term = TERM + 2; /* it leads again, and nobody told the windows */
    l->round_term = TERM + 2;
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, 1, STEP + 1);
    assert_int_equal(windows_counts(l->windows)->burnt_window, STEP - 1);
}

static void test_an_extension_of_another_term_takes_its_place(void **state)
{
    struct leader *l = *state;

    open_window(l);
    take_from(l, 6, 2);
    l->apply.term = TERM + 2;
    l->round_term = TERM + 2;
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(renew(l)); /* contiguous, but of another term */
    take_from(l, 1, STEP + 1);
}

/* R3: even if nothing was forgotten between. */
static void test_a_proposal_of_an_earlier_term_opens_nothing_in_this_one(void **state)
{
    struct leader *l = *state;

    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(propose(l));
    l->apply.term = TERM + 2;
    l->round_term = TERM + 2;
    apply_wanted(l);
    answer(l, 0, &l->apply.result);
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, 1, STEP + 1);
}

static void test_windows_are_forgotten_with_the_leadership(void **state)
{
    struct leader *l = *state;

    open_window(l);
    windows_forget(l->windows);
    assert_int_equal(windows_counts(l->windows)->burnt_window, STEP - 1);
    assert_int_equal(windows_counts(l->windows)->open, 0);
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, 1, STEP + 1);
}

/* Another leader's window lies between: ours does not go on where it ended. */
static void test_a_window_that_does_not_go_on_takes_the_place(void **state)
{
    struct leader *l = *state;

    open_window(l);
    assert_int_equal(id_apply_window(&l->apply, "m", 5).status, 0);
    assert_int_equal(take(l, "m", STEP), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, STEP, STEP + 6);
    assert_int_equal(windows_counts(l->windows)->burnt_window, STEP - 1);
}

static void test_a_proposal_that_was_lost_is_made_again(void **state)
{
    struct leader *l = *state;

    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(propose(l));
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_false(propose(l)); /* it is under way */
    answer(l, ERR_DISK_FULL, NULL);
    assert_false(propose(l));
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_false(propose(l)); /* after a pause, whether a request comes or not */
    l->now_ms += 100;
    assert_true(renew(l));
    take_from(l, 1, 1);
}

static void test_what_completes_after_all_was_forgotten_is_nobodys(void **state)
{
    struct leader *l = *state;

    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(propose(l));
    windows_forget(l->windows);
    apply_wanted(l);
    answer(l, 0, &l->apply.result);
    assert_int_equal(windows_counts(l->windows)->open, 0);
    assert_int_equal(windows_counts(l->windows)->burnt_window, STEP);
}

/* --- generations (R6, R11) --- */

static void put_max_id(struct leader *l, uint64_t wanted)
{
    assert_int_equal(
        id_apply_put(&l->apply,
                     (struct tag_put){.name = "m", .fields = TAG_FIELD_MAX_ID, .max_id = wanted},
                     false)
            .status,
        0);
}

static void test_max_id_set_by_hand_ends_the_window(void **state)
{
    struct leader *l = *state;

    open_window(l);
    put_max_id(l, 1000);
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, 1, 1000);
    assert_int_equal(windows_counts(l->windows)->burnt_generation, STEP - 1);
    put_max_id(l, max_id(l, "m")); /* also if it is what it was */
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
}

static void test_deletion_and_modes_end_the_window(void **state)
{
    struct leader *l = *state;
    uint64_t end;

    open_window(l);
    assert_int_equal(id_apply_delete(&l->apply, "m"), 0);
    assert_int_equal(take(l, "m", 1), 0);
    assert_int_equal(l->taken.results[0].status, ERR_UNKNOWN_TAG);
    make(l, "m", STEP, MAX_STEP);
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, 1, STEP + 1);
    end = max_id(l, "m");
    id_apply_mode(&l->apply, "m", TAG_MODE_STRICT);
    assert_true(id_apply_take(&l->apply, "m", 1).first == end);
    id_apply_mode(&l->apply, "m", TAG_MODE_MONOTONIC);
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, 1, end + 1);
}

static void test_nothing_is_proposed_for_a_tag_that_is_monotonic_no_more(void **state)
{
    struct leader *l = *state;

    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    id_apply_mode(&l->apply, "m", TAG_MODE_TREND);
    assert_false(renew(l));
    assert_true(max_id(l, "m") == 1);
}

/* --- keys (R9) --- */

static struct strict_result keyed(struct leader *l, const char *key, uint32_t count)
{
    const struct strict_item item = {.name = "m", .key = key, .count = count};
    struct buf command = BUF_INIT;
    struct strict_result result;
    size_t said = 0;

    assert_int_equal(take_items(l, &item, 1), 0);
    result = l->taken.results[0];
    if (l->taken.keyed > 0) {
        windows_keyed(&l->list, &l->taken, TERM, &command);
        assert_int_equal(id_apply_bytes(&l->apply, &command), 0);
        assert_int_equal(results_decode(RESULT_STRICT, l->apply.result.data, l->apply.result.len,
                                        &result, 1, &said),
                         0);
        buf_free(&command);
    }
    return result;
}

static void test_a_known_key_takes_no_ids(void **state)
{
    struct leader *l = *state;
    struct strict_result result;

    open_window(l);
    result = keyed(l, "k", 2);
    assert_true(result.status == 0 && result.first == 2 && !result.replayed);
    result = keyed(l, "k", 2);
    assert_true(result.status == 0 && result.first == 2 && result.replayed);
    assert_int_equal(l->taken.keyed, 0);
    result = keyed(l, "k", 1);
    assert_int_equal(result.status, ERR_KEY_CONFLICT);
    take_from(l, 1, 4);
}

static void test_a_key_twice_in_a_batch_stands_for_the_first_ids(void **state)
{
    struct leader *l = *state;
    const struct strict_item items[] = {{.name = "m", .key = "k", .count = 1},
                                        {.name = "m", .count = 1},
                                        {.name = "m", .key = "k", .count = 1}};
    struct buf command = BUF_INIT;
    struct strict_result said[2];
    size_t count = 0;

    open_window(l);
    assert_int_equal(take_items(l, items, 3), 0);
    assert_int_equal(l->taken.keyed, 2);
    windows_keyed(&l->list, &l->taken, TERM, &command);
    assert_int_equal(id_apply_bytes(&l->apply, &command), 0);
    assert_int_equal(
        results_decode(RESULT_STRICT, l->apply.result.data, l->apply.result.len, said, 2, &count),
        0);
    assert_int_equal(count, 2);
    assert_true(said[0].first == 2 && !said[0].replayed);
    assert_true(said[1].first == 2 && said[1].replayed);
    buf_free(&command);
}

static void test_keyed_ids_of_a_deposed_leader_are_not_bound(void **state)
{
    struct leader *l = *state;
    const struct strict_item item = {.name = "m", .key = "k", .count = 1};
    struct buf command = BUF_INIT;
    struct strict_result said;
    size_t count = 0;

    open_window(l);
    assert_int_equal(take_items(l, &item, 1), 0);
    windows_keyed(&l->list, &l->taken, TERM, &command);
    l->apply.term = TERM + 1; /* the next leader appends it, which it must not */
    assert_int_equal(id_apply_bytes(&l->apply, &command), 0);
    assert_int_equal(
        results_decode(RESULT_STRICT, l->apply.result.data, l->apply.result.len, &said, 1, &count),
        0);
    assert_int_equal(said.status, ERR_STALE);
    buf_free(&command);
}

/* --- giving back (R10) --- */

static void finish_return(struct leader *l, int status)
{
    struct cluster_request *request = l->returned;

    assert_non_null(request);
    l->returned = NULL;
    request->status = status;
    if (status == 0) {
        assert_int_equal(id_apply_bytes(&l->apply, &request->payload), 0);
        buf_put(&request->reply, l->apply.result.data, l->apply.result.len);
    }
    request->done(request);
}

static void test_a_clean_stop_gives_back_what_is_left(void **state)
{
    struct leader *l = *state;

    open_window(l);
    windows_close(l->windows, l->now_ms + 1000);
    assert_false(windows_given_back(l->windows));
    assert_int_equal(take(l, "m", 1), ERR_EMPTY); /* closed before anybody hears of it */
    assert_false(renew(l));
    finish_return(l, 0);
    assert_true(windows_given_back(l->windows));
    assert_true(max_id(l, "m") == 2);
    assert_int_equal(windows_counts(l->windows)->returned, STEP - 1);
    windows_forget(l->windows);
    assert_int_equal(windows_counts(l->windows)->burnt_window, 0);
}

static void test_a_closed_window_is_never_used_again(void **state)
{
    struct leader *l = *state;

    open_window(l);
    windows_close(l->windows, l->now_ms + 1000);
    finish_return(l, ERR_TIMEOUT); /* whether it was, or will be, carried out is not known */
    assert_int_equal(windows_counts(l->windows)->burnt_stop, STEP - 1);
    windows_open(l->windows);
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, 1, STEP + 1);
}

/* Proposed before it was closed, and applied behind it: another window. */
static void test_an_extension_of_a_closed_window_takes_its_place(void **state)
{
    struct leader *l = *state;

    open_window(l);
    take_from(l, 6, 2);
    assert_true(propose(l));
    windows_close(l->windows, l->now_ms + 1000);
    apply_wanted(l);
    answer(l, 0, &l->apply.result);
    finish_return(l, 0);
    assert_int_equal(windows_counts(l->windows)->returned, 0); /* it is not the top any more */
    windows_open(l->windows);
    take_from(l, 1, STEP + 1);
}

/* It lost the leadership while it handed it over, and leads again. */
static void test_windows_that_were_closed_open_with_the_next_leadership(void **state)
{
    struct leader *l = *state;

    open_window(l);
    windows_close(l->windows, l->now_ms + 1000);
    windows_forget(l->windows);
    finish_return(l, ERR_TIMEOUT);
    assert_false(windows_are_closed(l->windows));
    assert_int_equal(take(l, "m", 1), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, 1, STEP + 1);
}

static void test_without_windows_nothing_is_given_back(void **state)
{
    struct leader *l = *state;

    windows_close(l->windows, l->now_ms + 1000);
    assert_null(l->returned);
    assert_true(windows_given_back(l->windows));
}

/* A window that is open gives nothing of a tag that is paused, and goes on after. */
static void test_a_tag_that_is_paused(void **state)
{
    struct leader *l = *state;
    struct tag_put put = {.name = "m", .step_fields = TAG_FIELD_PAUSED, .paused = true};

    id_apply_raise(&l->apply, 3);
    open_window(l);
    assert_int_equal(id_apply_put(&l->apply, put, false).status, 0);
    assert_int_equal(take(l, "m", 1), 0);
    assert_int_equal(l->taken.results[0].status, ERR_PAUSED);
    put.paused = false;
    assert_int_equal(id_apply_put(&l->apply, put, false).status, 0);
    take_from(l, 1, 2);
    assert_int_equal(windows_counts(l->windows)->burnt_generation, 0);
}

/* --- increments --- */

static void test_ids_with_an_increment(void **state)
{
    struct leader *l = *state;
    const struct tag_put put = {.name = "m",
                                .step_fields = TAG_FIELD_INCREMENT | TAG_FIELD_OFFSET,
                                .increment = 5,
                                .offset = 2};

    id_apply_raise(&l->apply, 3);
    open_window(l); /* of every number: it is burnt with its generation */
    assert_int_equal(id_apply_put(&l->apply, put, false).status, 0);
    assert_int_equal(take(l, "m", 3), ERR_EMPTY);
    assert_true(renew(l));
    take_from(l, 3, 12); /* above 10, the last of the window before */
    assert_int_equal(l->taken.results[0].increment, 5);
    take_from(l, 3, 27);
    assert_int_equal(windows_counts(l->windows)->left, 2 * STEP - 6);
    take_from(l, 10, 42);
    assert_true(renew(l));
    take_from(l, 8, 92); /* of both, in one piece */
    assert_int_equal(windows_counts(l->windows)->burnt_window, 0);
    assert_int_equal(windows_counts(l->windows)->burnt_generation, STEP - 1);
    windows_close(l->windows, l->now_ms + 1000);
    finish_return(l, 0);
    assert_true(max_id(l, "m") == 132); /* as if none above had been granted */
    assert_true(windows_counts(l->windows)->returned > 0);
    assert_int_equal(windows_counts(l->windows)->burnt_stop, 0);
}

/* --- bounds --- */

static void make_many(struct leader *l, uint32_t from, uint32_t count)
{
    struct buf command = BUF_INIT;
    struct buf result = BUF_INIT;
    struct row_changes changes = {0};
    char name[16];

    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = 1});
    for (uint32_t i = from; i < from + count; i++) {
        command_item_put(
            &command, COMMAND_TAGS_PUT,
            &(struct tag_put){.name = name,
                              .name_len = (uint16_t)snprintf(name, sizeof name, "%u", i),
                              .fields = TAG_FIELD_MODE,
                              .mode = TAG_MODE_MONOTONIC});
    }
    command_items_end(&command);
    id_stamp(&l->apply.stamps, 1, &command);
    assert_int_equal(state_apply(fsm_state(l->apply.fsm), ++l->apply.index, TERM, command.data,
                                 command.len, &result, &changes),
                     0);
    row_changes_release(&changes);
    buf_free(&command);
    buf_free(&result);
}

/* As renew(), for more rows than are kept here, of all entries. */
static unsigned renew_many(struct leader *l)
{
    unsigned entries = 0;

    for (assert_true(propose(l)); !TAILQ_EMPTY(&l->wanted); entries++) {
        const struct buf *command = &TAILQ_FIRST(&l->wanted)->payload;
        struct buf result = BUF_INIT;
        struct row_changes changes = {0};

        assert_int_equal(state_apply(fsm_state(l->apply.fsm), ++l->apply.index, TERM, command->data,
                                     command->len, &result, &changes),
                         0);
        answer(l, 0, &result);
        row_changes_release(&changes);
        buf_free(&result);
    }
    return entries;
}

static void test_the_tag_used_longest_ago_gives_way(void **state)
{
    struct leader *l = *state;
    char name[16];

    for (uint32_t i = 0; i < LIMIT_WINDOWS + 1; i += LIMIT_TAGS_PER_BULK) {
        make_many(l, i, LIMIT_TAGS_PER_BULK);
    }
    for (uint32_t i = 0; i < LIMIT_WINDOWS; i++) {
        (void)snprintf(name, sizeof name, "%u", i);
        assert_int_equal(take(l, name, 1), ERR_EMPTY);
    }
    (void)snprintf(name, sizeof name, "%u", LIMIT_WINDOWS);
    assert_int_equal(take(l, name, 1), 0); /* all of them are busy */
    assert_int_equal(l->taken.results[0].status, ERR_OVERLOADED);
    assert_int_equal(renew_many(l), LIMIT_WINDOWS / LIMIT_GRANTS_PER_ENTRY);
    assert_int_equal(windows_counts(l->windows)->open, LIMIT_WINDOWS);
    assert_int_equal(take(l, "0", 1), 0);
    assert_int_equal(take(l, name, 1), ERR_EMPTY); /* "1" has given way */
    assert_int_equal(windows_counts(l->windows)->open, LIMIT_WINDOWS - 1);
    assert_int_equal(windows_counts(l->windows)->burnt_window, TAG_DEFAULT_STEP);
    assert_int_equal(take(l, "0", 1), 0);
    given(l, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_batch_waits_for_a_window),
        TEST(test_a_window_is_renewed_when_less_than_half_is_left),
        TEST(test_a_request_larger_than_any_window_gets_one_piece),
        TEST(test_what_waits_is_bounded_by_max_step),
        TEST(test_a_large_batch_gets_its_ids_though_small_ones_wait_too),
        TEST(test_a_busy_tag_has_larger_windows),
        TEST(test_all_items_of_a_batch_or_none),
        TEST(test_items_that_get_nothing_do_not_hold_others_up),
        TEST(test_a_tag_that_waits_for_a_segment_holder_says_for_whom),
        TEST(test_the_end_of_a_tag_is_never_cut),
        TEST(test_a_batch_of_another_term_takes_nothing),
        TEST(test_a_window_of_another_term_is_not_used),
        TEST(test_an_extension_of_another_term_takes_its_place),
        TEST(test_a_proposal_of_an_earlier_term_opens_nothing_in_this_one),
        TEST(test_windows_are_forgotten_with_the_leadership),
        TEST(test_a_window_that_does_not_go_on_takes_the_place),
        TEST(test_a_proposal_that_was_lost_is_made_again),
        TEST(test_what_completes_after_all_was_forgotten_is_nobodys),
        TEST(test_max_id_set_by_hand_ends_the_window),
        TEST(test_deletion_and_modes_end_the_window),
        TEST(test_nothing_is_proposed_for_a_tag_that_is_monotonic_no_more),
        TEST(test_a_known_key_takes_no_ids),
        TEST(test_a_key_twice_in_a_batch_stands_for_the_first_ids),
        TEST(test_keyed_ids_of_a_deposed_leader_are_not_bound),
        TEST(test_a_clean_stop_gives_back_what_is_left),
        TEST(test_a_closed_window_is_never_used_again),
        TEST(test_an_extension_of_a_closed_window_takes_its_place),
        TEST(test_without_windows_nothing_is_given_back),
        TEST(test_windows_that_were_closed_open_with_the_next_leadership),
        TEST(test_a_tag_that_is_paused),
        TEST(test_ids_with_an_increment),
        TEST(test_the_tag_used_longest_ago_gives_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
