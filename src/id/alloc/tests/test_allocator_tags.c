/*
 * test_allocator_tags.c - tags that are unknown, deleted, made again, forced down or exhausted, and
 * a random life of many tags that must hand out no id twice and leave nobody waiting.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/tests/id_world.h"

static bool is_empty(struct id_tag *tag)
{
    return segment_left(&tag->buffer) == 0;
}

/* This node applies the cluster's present row. */
static void hear(struct id_world *w, const char *name)
{
    allocator_tag_changed(w->allocator, id_world_row(w, name));
}

static void test_unknown_tag_wakes_who_waits(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    (void)id_world_claim(tag);
    id_world_delete(w, "order"); /* this node has not heard of it */
    id_world_park(w, tag, 1);
    id_world_turn(w);
    id_world_answer(w, 0);
    assert_int_equal(tag->state, ID_TAG_UNKNOWN);
    assert_int_equal(w->wakes, 1);
    assert_false(tag->refill_wanted);
    assert_true(is_empty(tag)); /* what was left is burnt */
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_GENERATION], 9);
    assert_int_equal(allocator_counts(w->allocator)->held, 0);
    id_world_park(w, tag, 1); /* nobody is left hanging, and nothing is asked */
    id_world_turn(w);
    assert_int_equal(w->request_count, 0);
    assert_int_equal(w->wakes, 2);
    assert_false(tag->refill_wanted);
    hear(w, "order"); /* the same, once more */
    assert_int_equal(w->wakes, 2);
}

static void test_deleted_tag_burns_and_wakes(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    atomic_store(&tag->waiting_loops, 6);
    id_world_delete(w, "order");
    hear(w, "order");
    assert_int_equal(tag->state, ID_TAG_UNKNOWN);
    assert_true(is_empty(tag));
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_GENERATION], 10);
    assert_int_equal(w->woken_loops, 6);
}

static void test_tag_made_again_is_active_and_goes_on_above(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    id_world_delete(w, "order");
    hear(w, "order");
    atomic_store(&tag->waiting_loops, 1);
    id_world_put(w, "order", 20, 11);
    hear(w, "order");
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    assert_int_equal(w->wakes, 1);
    id_world_load(w, tag);
    assert_true(id_world_claim(tag) == 11);
    assert_int_equal(tag->refill.step, 20);
    assert_int_equal(tag->refill.size, 20); /* a new life: its own step again */
}

static void test_open_finds_a_tag_made_again(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_delete(w, "order");
    hear(w, "order");
    id_world_put(w, "order", 20, 1);
    assert_ptr_equal(allocator_open(w->allocator, id_world_row(w, "order")), tag);
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    id_world_load(w, tag);
    assert_false(is_empty(tag));
}

static void test_deleted_while_in_flight(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct buf reply = BUF_INIT;

    id_world_park(w, tag, 1);
    id_world_turn(w);
    id_world_apply(w, 0, &reply); /* granted [1, 11) of the old tag */
    id_world_delete(w, "order");
    hear(w, "order");
    id_world_reply(w, 0, &reply);
    assert_true(is_empty(tag));
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_LATE], 10);
    assert_int_equal(tag->state, ID_TAG_UNKNOWN);
    w->now_ms += ID_WORLD_RETRY_MS;
    id_world_turn(w);
    assert_int_equal(w->request_count, 0);
    assert_false(tag->refill_wanted);
    buf_free(&reply);
}

/* Shows lesson-epoch. */
static void test_answer_about_an_older_life_is_not_believed(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct buf reply = BUF_INIT;

    id_world_delete(w, "order");
    id_world_park(w, tag, 1);
    id_world_turn(w);
    id_world_apply(w, 0, &reply); /* "unknown" */
    id_world_put(w, "order", 10, 1);
    hear(w, "order"); /* made again, and applied here, before the answer comes */
    w->wakes = 0;
    id_world_reply(w, 0, &reply);
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    w->now_ms += ID_WORLD_RETRY_MS;
    id_world_turn(w);
    assert_int_equal(w->request_count, 1); /* the demand is still there */
    id_world_answer(w, 0);
    assert_true(id_world_claim(tag) == 1);
    buf_free(&reply);
}

/* What it holds stays for the time after the pause, and nothing is asked for meanwhile. */
static void test_a_pause_keeps_what_is_held(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct tag_row row = *id_world_row(w, "order");
    char reason[LIMIT_TAG_REASON_BYTES + 1];

    id_world_load(w, tag);
    assert_true(id_world_claim(tag) == 1);
    row = *id_world_row(w, "order");
    row.paused = true;
    row.reason = "audit";
    row.reason_len = 5;
    id_world_park(w, tag, 1);
    allocator_tag_changed(w->allocator, &row);
    assert_int_equal(tag->state, ID_TAG_PAUSED);
    assert_int_equal(w->wakes, 1); /* those that wait are told */
    id_tag_reason(tag, reason);
    assert_string_equal(reason, "audit");
    assert_int_equal(segment_left(&tag->buffer), 9);
    id_world_turn(w);
    assert_int_equal(w->request_count, 0);
    row.reason_len = 0;
    allocator_tag_changed(w->allocator, &row);
    id_tag_reason(tag, reason);
    assert_string_equal(reason, "");
    row.paused = false;
    allocator_tag_changed(w->allocator, &row);
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    assert_true(id_world_claim(tag) == 2);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_GENERATION], 0);
}

/* Grants that were under way when the pause was applied end none: neither a range, nor that there
 * are no ids left. One that the cluster refused is asked for anew. */
static void test_answers_during_a_pause(void **state)
{
    static const int statuses[] = {0, ERR_EXHAUSTED, ERR_PAUSED};

    for (unsigned i = 0; i < 3; i++) {
        struct id_world *w = id_world_new();
        struct id_tag *tag = id_world_tag(w, "order", 10);
        struct tag_row row = *id_world_row(w, "order");
        struct grant_result result = {.status = statuses[i],
                                      .size = statuses[i] == 0 ? 10 : 0,
                                      .first = 1,
                                      .generation = row.generation,
                                      .step = 10,
                                      .max_step = 1000};
        struct buf reply = BUF_INIT;

        id_world_park(w, tag, 1);
        id_world_turn(w);
        assert_int_equal(w->request_count, 1);
        row.paused = i < 2;
        allocator_tag_changed(w->allocator, &row);
        results_encode(RESULT_GRANTS, &result, 1, &reply);
        id_world_reply(w, 0, &reply);
        assert_int_equal(tag->state, i < 2 ? ID_TAG_PAUSED : ID_TAG_ACTIVE);
        assert_int_equal(segment_left(&tag->buffer), i == 0 ? 10 : 0);
        w->now_ms += ID_WORLD_RETRY_MS;
        id_world_turn(w);
        assert_int_equal(w->request_count, i == 2); /* by this node's log it is not paused */
        buf_free(&reply);
        id_world_free(w);
    }
    (void)state;
}

static void test_forced_down_burns_the_old_generation(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_load(w, tag);
    (void)id_world_claim(tag);
    id_world_load(w, tag);
    id_world_put(w, "order", 10, 5);
    hear(w, "order");
    assert_true(is_empty(tag));
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_GENERATION], 19);
    assert_int_equal(allocator_counts(w->allocator)->held, 0);
    id_world_load(w, tag);
    assert_true(id_world_claim(tag) == 5);
    assert_int_equal(allocator_counts(w->allocator)->held, 1);
}

static void test_leader_may_be_ahead_of_this_node(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct tag_row old = {0};

    id_world_load(w, tag);
    (void)id_world_claim(tag);
    old = *id_world_row(w, "order");
    id_world_put(w, "order", 30, 5); /* forced down; not heard here */
    id_world_load(w, tag);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_GENERATION],
                     9); /* the older generation */
    assert_int_equal(segment_left(&tag->buffer), 10);
    assert_int_equal(tag->refill.step, 30);
    allocator_tag_changed(w->allocator, &old); /* this node goes through its log */
    assert_int_equal(segment_left(&tag->buffer), 10);
    assert_int_equal(tag->refill.step, 30);
    old.deleted = true;
    allocator_tag_changed(w->allocator, &old);
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    hear(w, "order"); /* caught up: nothing new */
    assert_int_equal(segment_left(&tag->buffer), 10);
    assert_true(id_world_claim(tag) == 5);
}

static void test_exhausted_serves_what_it_has(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag;

    id_world_put(w, "order", 10, TAG_MAX_ID_END - 4);
    tag = allocator_open(w->allocator, id_world_row(w, "order"));
    id_world_load(w, tag);
    assert_true(id_world_claim(tag) == TAG_MAX_ID_END - 4);
    id_world_park(w, tag, 10);
    id_world_turn(w);
    id_world_answer(w, 0);
    assert_int_equal(tag->state, ID_TAG_EXHAUSTED);
    assert_int_equal(w->wakes, 1);
    assert_false(tag->refill_wanted);
    assert_true(id_world_claim(tag) == TAG_MAX_ID_END - 3);
    assert_int_equal(segment_left(&tag->buffer), 2);
    hear(w, "order"); /* its row says nothing new */
    assert_int_equal(tag->state, ID_TAG_EXHAUSTED);
    id_world_put(w, "order", 10, 100); /* an operator forces it down */
    hear(w, "order");
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    id_world_load(w, tag);
    assert_true(id_world_claim(tag) == 100);
}

static void test_steps_are_adopted(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);

    id_world_put(w, "order", 2000000, 1);
    hear(w, "order");
    assert_int_equal(tag->refill.step, 2000000);
    assert_int_equal(tag->refill.max_step, 2000000);
    id_world_load(w, tag);
    assert_int_equal(segment_left(&tag->buffer), 2000000);
}

static void test_changes_of_other_tags_are_ignored(void **state)
{
    struct id_world *w = *state;

    id_world_put(w, "order", 10, 1);
    hear(w, "order");
    assert_null(id_table_after(w->table, NULL));
}

/* --- a random life --- */

#define TAGS 6

struct life {
    struct id_tag *tag;
    char name[8];
    uint64_t parked;     /* ids that the one parked request wants; 0: none */
    uint32_t generation; /* of the ids below */
    uint64_t last;       /* largest id claimed of this generation */
};

/* Claim for the parked request, as far as it goes. */
static void claim_parked(struct life *life)
{
    while (life->parked > 0) {
        struct segment_range range;
        struct segment_view view;

        if (segment_claim(&life->tag->buffer, 1, (uint32_t)life->parked, &range, &view) != 0) {
            return;
        }
        if (life->generation != life->tag->refill.generation) {
            life->generation = life->tag->refill.generation;
            life->last = 0;
        }
        assert_true(range.first > life->last); /* rising, so never twice */
        life->last = range.first + range.count - 1;
        life->parked -= range.count;
        atomic_fetch_sub(&life->tag->demand, range.count);
    }
}

/* What an HTTP loop does for a parked request: claim, else park by the protocol. */
static void serve(struct id_world *w, struct life *life)
{
    claim_parked(life);
    if (life->parked == 0) {
        return;
    }
    atomic_fetch_or(&life->tag->waiting_loops, 1);
    (void)id_world_want(w, life->tag);
    claim_parked(life);
}

static void random_step(struct id_world *w, struct prng *prng, struct life *life)
{
    struct life *one = &life[prng_below(prng, TAGS)];
    size_t at = prng_below(prng, w->request_count + 1);

    switch (prng_below(prng, 12)) {
    case 0:
        id_world_delete(w, one->name);
        break;
    case 1:
        id_world_put(w, one->name, 1 + (uint32_t)prng_below(prng, 50), 1 + prng_below(prng, 500));
        break;
    case 2:
    case 3:
        hear(w, one->name);
        break;
    case 4:
    case 5:
        w->now_ms += prng_below(prng, 200);
        id_world_turn(w);
        break;
    case 6:
        if (at < w->request_count) {
            id_world_fail(w, at, ERR_NO_LEADER);
        }
        break;
    case 7:
    case 8:
        if (at < w->request_count) {
            id_world_answer(w, at);
        }
        break;
    default:
        if (one->parked == 0) {
            one->parked = 1 + prng_below(prng, 100);
            atomic_fetch_add(&one->tag->demand, one->parked);
            serve(w, one);
        }
        break;
    }
    /* Who was woken looks again. */
    for (size_t i = 0; i < TAGS; i++) {
        if (life[i].parked > 0 && atomic_load(&life[i].tag->waiting_loops) == 0) {
            serve(w, &life[i]);
        }
    }
}

static void heal_and_drain(struct id_world *w, struct life *life)
{
    for (size_t i = 0; i < TAGS; i++) {
        id_world_put(w, life[i].name, 10, 1000000);
        hear(w, life[i].name);
    }
    for (unsigned round = 0; round < 100; round++) {
        for (size_t i = 0; i < TAGS; i++) {
            if (life[i].parked > 0 && atomic_load(&life[i].tag->waiting_loops) == 0) {
                serve(w, &life[i]);
            }
        }
        w->now_ms += ID_WORLD_RETRY_MS;
        id_world_turn(w);
        while (w->request_count > 0) {
            id_world_answer(w, 0);
        }
    }
    for (size_t i = 0; i < TAGS; i++) {
        assert_int_equal(life[i].parked, 0); /* nobody is left waiting */
        assert_int_equal(life[i].tag->demand, 0);
        assert_false(life[i].tag->refill_wanted);
    }
    assert_int_equal(allocator_counts(w->allocator)->in_flight, 0);
}

/* The ids of a generation rise from claim to claim, through deletions, lost answers and retries;
 * once the faults stop, everybody who waits gets ids. */
/* Shows lesson-order. */
static void test_random_life(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct id_world *w = id_world_new();
        struct life life[TAGS] = {0};
        struct prng prng;

        prng_seed(&prng, seed);
        for (size_t i = 0; i < TAGS; i++) {
            (void)snprintf(life[i].name, sizeof life[i].name, "t%zu", i);
            life[i].tag = id_world_tag(w, life[i].name, 10);
        }
        for (unsigned i = 0; i < 1000; i++) {
            random_step(w, &prng, life);
        }
        heal_and_drain(w, life);
        id_world_free(w);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_world_setup, id_world_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_unknown_tag_wakes_who_waits),
        TEST(test_deleted_tag_burns_and_wakes),
        TEST(test_tag_made_again_is_active_and_goes_on_above),
        TEST(test_open_finds_a_tag_made_again),
        TEST(test_deleted_while_in_flight),
        TEST(test_answer_about_an_older_life_is_not_believed),
        TEST(test_a_pause_keeps_what_is_held),
        TEST(test_answers_during_a_pause),
        TEST(test_forced_down_burns_the_old_generation),
        TEST(test_leader_may_be_ahead_of_this_node),
        TEST(test_exhausted_serves_what_it_has),
        TEST(test_steps_are_adopted),
        TEST(test_changes_of_other_tags_are_ignored),
        cmocka_unit_test(test_random_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
