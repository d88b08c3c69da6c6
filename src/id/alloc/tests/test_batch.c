/*
 * test_batch.c - what test_allocator.c and test_strict.c do not show of the batcher by themselves:
 * its places, its bounds, and batches that are given up.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/alloc/batch.h"
#include "src/tests/unit/death.h"

#define ITEMS 3
#define BATCHES 2
#define DEADLINE_MS 100
#define ABANDON_MS 10
#define ASKED 40

/* Something that is asked for. */
struct asked {
    struct batch_item item;
    bool unneeded; /* by the time that it would be sent */
    unsigned results;
    int err;
    uint64_t first; /* of the last result */
};

struct batch_world {
    struct clock clock;
    uint64_t now_ms;
    struct timers timers;
    struct id_proposer proposer;
    struct cluster_request *sent[16]; /* not answered yet, oldest first */
    size_t sent_count;
    struct histogram took;
    struct batcher batcher;
    uint64_t lost; /* the notes of empty places that got something */
    struct asked asked[ASKED];
};

static uint64_t now_ms(const struct clock *clock)
{
    return ((const struct batch_world *)clock->data)->now_ms;
}

static void propose(struct id_proposer *proposer, struct cluster_request *request)
{
    struct batch_world *w = CONTAINER(proposer, struct batch_world, proposer);

    assert_true(w->sent_count < sizeof w->sent / sizeof w->sent[0]);
    w->sent[w->sent_count++] = request;
}

static void pack(struct batcher *batcher, struct batch *batch, struct batch_item *const *items,
                 uint32_t count, uint64_t time_ms)
{
    const struct batch_world *w = CONTAINER(batcher, struct batch_world, batcher);

    assert_in_range(count, 1, ITEMS);
    assert_true(time_ms == w->now_ms);
    batch->request.deadline_ms = time_ms + DEADLINE_MS;
    command_put(&batch->request.payload, COMMAND_GRANT, &(struct command_list){.wall_ms = 1});
    for (uint32_t i = 0; i < count; i++) {
        const struct asked *asked = CONTAINER(items[i], struct asked, item);

        if (!asked->unneeded) {
            batch_put(batch, items[i], 100 + (uint64_t)(asked - w->asked),
                      &(struct grant_item){"tag", 3, (uint32_t)(asked - w->asked)});
        }
    }
}

static void result_cb(struct batcher *batcher, struct batch_item *item, uint64_t note, int err,
                      const void *result, uint64_t time_ms)
{
    struct batch_world *w = CONTAINER(batcher, struct batch_world, batcher);
    struct asked *asked = item != NULL ? CONTAINER(item, struct asked, item) : NULL;

    assert_true(time_ms == w->now_ms);
    assert_true((err == 0) == (result != NULL));
    if (asked == NULL) {
        w->lost += err == 0 ? note : 0;
        return;
    }
    assert_int_equal(note, 100 + (asked - w->asked));
    assert_int_equal(item->where, BATCH_IDLE);
    asked->results++;
    asked->err = err;
    asked->first = err == 0 ? ((const struct grant_result *)result)->first : 0;
}

static int setup(void **state)
{
    static const struct batcher_ops ops = {.pack = pack, .result = result_cb};
    static const struct batcher_config config = {.kind = CLUSTER_REQUEST_COMMAND,
                                                 .command = COMMAND_GRANT,
                                                 .result = RESULT_GRANTS,
                                                 .items = ITEMS,
                                                 .batches = BATCHES,
                                                 .abandon_ms = ABANDON_MS};
    struct batch_world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->now_ms = 1000;
    w->clock = (struct clock){.now_ms = now_ms, .wall_ms = now_ms, .data = w};
    w->proposer.propose = propose;
    batcher_init(&w->batcher, &config, &ops, &w->clock, &w->timers, &w->proposer);
    w->batcher.took = &w->took;
    *state = w;
    return 0;
}

/* Answer batch number at with so many results, whose first ids are 10, 20, ... */
static void answer(struct batch_world *w, size_t at, size_t count)
{
    struct cluster_request *request = w->sent[at];
    struct grant_result results[ITEMS + 1] = {{0}};

    for (size_t i = 0; i < count; i++) {
        results[i] = (struct grant_result){0, 5, 10 * (i + 1), 1, 10, 100, 0};
    }
    w->sent_count--;
    memmove(&w->sent[at], &w->sent[at + 1], (w->sent_count - at) * sizeof w->sent[0]);
    results_encode(RESULT_GRANTS, results, count, &request->reply);
    request->status = 0;
    request->done(request);
}

static int teardown(void **state)
{
    struct batch_world *w = *state;

    while (w->sent_count > 0) {
        answer(w, 0, 0);
    }
    while (batcher_take(&w->batcher) != NULL) {
        continue;
    }
    batcher_release(&w->batcher);
    assert_true(timers_next_ms(&w->timers) == TIMER_NEVER);
    free(w);
    return 0;
}

static void turn(struct batch_world *w)
{
    do {
        timers_run(&w->timers, w->now_ms);
    } while (timers_next_ms(&w->timers) <= w->now_ms);
}

/* Add items [from, to), to be sent at once. */
static void add(struct batch_world *w, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        batcher_add(&w->batcher, &w->asked[i].item, 0);
    }
}

static uint32_t first_size(const struct cluster_request *request, uint32_t *ret_count)
{
    struct command command;
    struct grant_item item;

    assert_int_equal(command_read(request->payload.data, request->payload.len, &command), 0);
    *ret_count = command.list.count;
    assert_true(command_next(&command.list, &item));
    return item.size;
}

static void test_each_place_gets_its_result(void **state)
{
    struct batch_world *w = *state;
    struct histogram_view took = {0};
    uint32_t count;

    w->asked[1].unneeded = true;
    add(w, 0, 4);
    assert_int_equal(w->sent_count, 0); /* not from inside batcher_add() */
    turn(w);
    assert_int_equal(w->sent_count, 2);
    assert_int_equal(first_size(w->sent[0], &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(w->asked[1].item.where, BATCH_IDLE); /* it was not put in */
    assert_int_equal(first_size(w->sent[1], &count), 3);
    answer(w, 0, 2);
    assert_int_equal(w->asked[0].first, 10);
    assert_int_equal(w->asked[2].first, 20);
    assert_int_equal(w->asked[1].results, 0);
    assert_int_equal(w->asked[3].results, 0);
    answer(w, 0, 1);
    assert_int_equal(w->asked[3].first, 10);
    histogram_add(&took, &w->took);
    assert_int_equal(histogram_count(&took), 3);
}

static void test_nothing_is_sent_when_nothing_is_needed(void **state)
{
    struct batch_world *w = *state;

    w->asked[0].unneeded = true;
    add(w, 0, 1);
    turn(w);
    assert_int_equal(w->sent_count, 0);
    assert_int_equal(w->batcher.batch_count, 0);
    assert_true(timers_next_ms(&w->timers) == TIMER_NEVER);
}

/* The others keep their places. */
static void test_what_is_removed_leaves_an_empty_place(void **state)
{
    struct batch_world *w = *state;

    add(w, 0, 3);
    turn(w);
    batcher_remove(&w->batcher, &w->asked[1].item);
    add(w, 1, 2); /* into another batch */
    turn(w);
    assert_int_equal(w->sent_count, 2);
    answer(w, 0, 3);
    assert_int_equal(w->asked[0].first, 10);
    assert_int_equal(w->asked[2].first, 30);
    assert_int_equal(w->asked[1].results, 0);
    assert_int_equal(w->lost, 101);
    answer(w, 0, 1);
    assert_int_equal(w->asked[1].first, 10);
    assert_int_equal(w->asked[1].results, 1);
}

static void remove_idle(void *data)
{
    struct batch_world *w = data;

    batcher_remove(&w->batcher, &w->asked[0].item);
}

static void test_what_waits_is_removed(void **state)
{
    struct batch_world *w = *state;
    uint32_t count;

    add(w, 0, 3);
    batcher_remove(&w->batcher, &w->asked[0].item);
    batcher_add(&w->batcher, &w->asked[3].item, w->now_ms + 5);
    batcher_remove(&w->batcher, &w->asked[3].item);
    turn(w);
    assert_int_equal(w->sent_count, 1);
    assert_int_equal(first_size(w->sent[0], &count), 1);
    assert_int_equal(count, 2);
    assert_true(death_by_assert(remove_idle, w));
}

static void test_batches_at_and_above_the_bound(void **state)
{
    struct batch_world *w = *state;

    add(w, 0, (BATCHES + 1) * ITEMS);
    turn(w);
    assert_int_equal(w->sent_count, BATCHES);
    assert_true(timers_next_ms(&w->timers) > w->now_ms); /* nothing to do before an answer */
    answer(w, 0, ITEMS);
    assert_int_equal(w->sent_count, BATCHES - 1); /* not from inside the answer */
    turn(w);
    assert_int_equal(w->sent_count, BATCHES);
}

static void test_nothing_is_sent_while_it_is_closed(void **state)
{
    struct batch_world *w = *state;

    batcher_open(&w->batcher, false);
    add(w, 0, 2);
    batcher_add(&w->batcher, &w->asked[2].item, w->now_ms + 5);
    assert_true(timers_next_ms(&w->timers) == w->now_ms + 5);
    w->now_ms += 5;
    turn(w);
    assert_int_equal(w->sent_count, 0);
    assert_true(timers_next_ms(&w->timers) == TIMER_NEVER);
    batcher_open(&w->batcher, true);
    turn(w);
    assert_int_equal(w->sent_count, 1);
    answer(w, 0, 3);
    assert_int_equal(w->asked[2].first, 30);
}

/* Another number of results than of places, or bytes that are none: an error to all of them. */
static void test_an_answer_of_another_length_is_an_error(void **state)
{
    struct batch_world *w = *state;

    add(w, 0, 2 * ITEMS);
    turn(w);
    answer(w, 0, ITEMS - 1);
    answer(w, 0, ITEMS + 1);
    for (unsigned i = 0; i < 2 * ITEMS; i++) {
        assert_int_equal(w->asked[i].results, 1);
        assert_int_equal(w->asked[i].err, ERR_BAD_MESSAGE);
    }
}

/* Its items may go into other batches, and what it brings late meets empty places. */
static void test_a_batch_without_an_answer_is_abandoned(void **state)
{
    struct batch_world *w = *state;

    add(w, 0, 2);
    turn(w);
    w->now_ms += DEADLINE_MS + ABANDON_MS - 1;
    turn(w);
    assert_int_equal(w->asked[0].results, 0);
    w->now_ms++;
    turn(w);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(w->asked[i].results, 1);
        assert_int_equal(w->asked[i].err, ERR_TIMEOUT);
    }
    add(w, 0, 1);
    turn(w);
    assert_int_equal(w->sent_count, 2);
    answer(w, 0, 2);
    assert_int_equal(w->lost, 100 + 101);
    assert_int_equal(w->asked[0].results, 1);
    answer(w, 0, 1);
    assert_int_equal(w->asked[0].results, 2);
    assert_int_equal(w->asked[0].first, 10);
}

/* A small batch is held back while larger ones are under way. One that was abandoned is not, also
 * once its answer has come. */
static void test_an_abandoned_batch_holds_none_back(void **state)
{
    struct batch_world *w = *state;

    w->batcher.config.hold_ms = 5;
    add(w, 0, ITEMS);
    turn(w);
    add(w, ITEMS, ITEMS + 1);
    turn(w);
    assert_int_equal(w->sent_count, 1);
    w->now_ms += 5;
    turn(w);
    assert_int_equal(w->sent_count, 2);
    w->now_ms += DEADLINE_MS + ABANDON_MS;
    turn(w);
    add(w, 0, 1);
    turn(w);
    assert_int_equal(w->sent_count, 3);
    answer(w, 2, 1);
    answer(w, 0, ITEMS);
    answer(w, 0, 1);
    add(w, 0, 1);
    turn(w);
    assert_int_equal(w->sent_count, 1);
}

/* A cluster that never answers cannot make a node hold ever more of them. */
static void test_abandoned_batches_are_bounded(void **state)
{
    struct batch_world *w = *state;

    for (unsigned i = 0; i < 6; i++) {
        for (unsigned k = 0; k < ITEMS * BATCHES; k++) {
            if (w->asked[k].item.where == BATCH_IDLE) {
                add(w, k, k + 1);
            }
        }
        turn(w);
        w->now_ms += DEADLINE_MS + ABANDON_MS;
        turn(w);
    }
    assert_int_equal(w->sent_count, 4 * BATCHES);
    assert_int_equal(w->batcher.abandoned_count, 4 * BATCHES);
    answer(w, 0, ITEMS);
    turn(w);
    assert_int_equal(w->sent_count, 4 * BATCHES); /* there is room for one more */
}

/* A batch of the owner's own, of things that never waited. */
static void test_a_batch_that_the_owner_fills(void **state)
{
    struct batch_world *w = *state;
    struct batch *batch = batch_begin(&w->batcher);

    batcher_open(&w->batcher, false);
    batch->request.deadline_ms = w->now_ms + 1;
    command_put(&batch->request.payload, COMMAND_GRANT, &(struct command_list){.wall_ms = 1});
    batch_put(batch, NULL, 7, &(struct grant_item){"tag", 3, 1});
    batch_put(batch, NULL, 8, &(struct grant_item){"tag", 3, 1});
    batch_send(batch);
    assert_int_equal(w->sent_count, 1);
    assert_int_equal(w->batcher.batch_count, 1);
    answer(w, 0, 2);
    assert_int_equal(w->lost, 7 + 8);
    assert_int_equal(w->batcher.batch_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_place_gets_its_result, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_sent_when_nothing_is_needed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_is_removed_leaves_an_empty_place, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_waits_is_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_batches_at_and_above_the_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_sent_while_it_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_answer_of_another_length_is_an_error, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_batch_without_an_answer_is_abandoned, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_an_abandoned_batch_holds_none_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_abandoned_batches_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_batch_that_the_owner_fills, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
