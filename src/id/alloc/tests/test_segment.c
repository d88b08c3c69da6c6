/*
 * test_segment.c - the double buffer: exact ends, moving on, whole ranges, burning, and many
 * threads at once with segments so small that the slots are refilled all the time.
 *
 * Threads: the threaded tests run a publisher and claimers of their own.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/prng.h"
#include "src/id/alloc/segment.h"
#include "src/tests/unit/death.h"

static void claim_is(struct segment_buffer *buffer, uint32_t count, uint64_t first, uint32_t got,
                     struct segment_view wanted)
{
    struct segment_range range = {0};
    struct segment_view view = {0};

    assert_int_equal(segment_claim(buffer, 1, count, &range, &view), 0);
    assert_true(range.first == first);
    assert_int_equal(range.count, got);
    assert_int_equal(view.used, wanted.used);
    assert_int_equal(view.size, wanted.size);
    assert_int_equal(view.next_ready, wanted.next_ready);
    assert_int_equal(view.skipped, wanted.skipped);
}

static void claim_is_empty(struct segment_buffer *buffer)
{
    struct segment_range range = {77, 77, 0};
    struct segment_view view = {9, 8, true, 7, 0};

    assert_int_equal(segment_claim(buffer, 1, 1, &range, &view), ERR_EMPTY);
    assert_int_equal(view.used, view.size);
    assert_false(view.next_ready);
    assert_int_equal(range.first, 77); /* untouched */
}

static void test_new_buffer_is_empty(void **state)
{
    struct segment_buffer buffer;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    claim_is_empty(&buffer);
    assert_true(segment_can_publish(&buffer));
    assert_int_equal(segment_left(&buffer), 0);
    assert_int_equal(segment_burn(&buffer), 0);
}

static void test_claim_at_exact_end(void **state)
{
    struct segment_buffer buffer;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    segment_publish(&buffer, 100, 10, 0, 0);
    claim_is(&buffer, 4, 100, 4, (struct segment_view){4, 10, false, 0, 0});
    claim_is(&buffer, 6, 104, 6, (struct segment_view){10, 10, false, 0, 0});
    claim_is_empty(&buffer);
}

static void test_claim_takes_what_is_there_and_goes_on(void **state)
{
    struct segment_buffer buffer;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    segment_publish(&buffer, 100, 10, 0, 0);
    claim_is(&buffer, 1, 100, 1, (struct segment_view){1, 10, false, 0, 0});
    assert_true(segment_can_publish(&buffer));
    segment_publish(&buffer, 500, 3, 0, 0);
    assert_false(segment_can_publish(&buffer));
    claim_is(&buffer, 20, 101, 9, (struct segment_view){10, 10, true, 0, 0});
    claim_is(&buffer, 20, 500, 3, (struct segment_view){3, 3, false, 0, 0});
    claim_is_empty(&buffer);
}

/* Shows lesson-order. */
static void test_publish_before_first_claim_fills_one_slot(void **state)
{
    struct segment_buffer buffer;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    segment_publish(&buffer, 1, 1, 0, 0);
    /* The empty slot 0 is still the current one: nothing more fits until a claim moves on. */
    assert_false(segment_can_publish(&buffer));
    claim_is(&buffer, 1, 1, 1, (struct segment_view){1, 1, false, 0, 0});
    assert_true(segment_can_publish(&buffer));
}

/* Shows lesson-end-of-int64. */
static void test_largest_segment_and_ids(void **state)
{
    struct segment_buffer buffer;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    segment_publish(&buffer, UINT64_MAX - UINT32_MAX, UINT32_MAX, 0, 0);
    claim_is(&buffer, UINT32_MAX - 1, UINT64_MAX - UINT32_MAX, UINT32_MAX - 1,
             (struct segment_view){UINT32_MAX - 1, UINT32_MAX, false, 0, 0});
    claim_is(&buffer, UINT32_MAX, UINT64_MAX - 1, 1,
             (struct segment_view){UINT32_MAX, UINT32_MAX, false, 0, 0});
    claim_is_empty(&buffer);
}

static void test_ids_with_an_increment(void **state)
{
    struct segment_buffer buffer;
    struct segment_slot_view slots[2];
    struct segment_range range;
    struct segment_view view;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    segment_publish(&buffer, 100, 5, 3, 7); /* 100, 103, 106, 109, 112 */
    assert_int_equal(segment_claim(&buffer, 1, 2, &range, &view), 0);
    segment_publish(&buffer, 115, 2, 3, 7);
    assert_true(range.first == 100 && range.count == 2 && range.increment == 3 && view.of == 7);
    assert_true(range_next(&range) == 106);
    segment_inspect(&buffer, slots);
    assert_true(slots[0].next_id == 106 && slots[0].end == 113 && slots[0].increment == 3);
    assert_true(segment_slot_left(&slots[0]) == 3 && segment_slot_left(&slots[1]) == 2);
    assert_int_equal(segment_left(&buffer), 5);
    assert_int_equal(segment_claim(&buffer, 2, 2, &range, &view), 0);
    assert_true(range.first == 106 && range.count == 2 && range.increment == 3 && view.of == 7);
    assert_int_equal(segment_burn(&buffer), 3);
    segment_publish(&buffer, 118, 4, 0, 8);
    assert_int_equal(segment_claim(&buffer, 1, 9, &range, &view), 0);
    assert_true(range.first == 118 && range.count == 4 && range.increment == 1 && view.of == 8);
}

static void test_generation_comes_round(void **state)
{
    struct segment_buffer buffer;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    atomic_store(&buffer.word, (uint64_t)UINT32_MAX << 32);
    atomic_store(&buffer.ready, UINT32_MAX);
    segment_publish(&buffer, 40, 2, 0, 0);
    claim_is(&buffer, 2, 40, 2, (struct segment_view){2, 2, false, 0, 0});
    segment_publish(&buffer, 50, 2, 0, 0);
    claim_is(&buffer, 2, 50, 2, (struct segment_view){2, 2, false, 0, 0});
    claim_is_empty(&buffer);
}

/* Shows lesson-contiguous. */
static void test_whole_skips_what_is_too_short(void **state)
{
    struct segment_buffer buffer;
    struct segment_range range;
    struct segment_view view;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    segment_publish(&buffer, 100, 10, 0, 0);
    claim_is(&buffer, 5, 100, 5, (struct segment_view){5, 10, false, 0, 0});
    assert_int_equal(segment_claim(&buffer, 5, 5, &range, &view), 0); /* fits exactly */
    assert_true(range.first == 105 && range.count == 5);
    segment_publish(&buffer, 200, 10, 0, 0);
    claim_is(&buffer, 8, 200, 8, (struct segment_view){8, 10, false, 0, 0});
    segment_publish(&buffer, 300, 10, 0, 0);
    assert_int_equal(segment_claim(&buffer, 3, 3, &range, &view), 0);
    assert_true(range.first == 300 && range.count == 3); /* 208 and 209 are gone */
    assert_int_equal(view.skipped, 2);
    assert_int_equal(view.used, 3);
    assert_int_equal(view.size, 10);
    assert_false(view.next_ready);
}

static void test_whole_leaves_the_last_slot_alone(void **state)
{
    struct segment_buffer buffer;
    struct segment_range range;
    struct segment_view view;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    segment_publish(&buffer, 100, 10, 0, 0);
    claim_is(&buffer, 1, 100, 1, (struct segment_view){1, 10, false, 0, 0});
    segment_publish(&buffer, 200, 10, 0, 0);
    assert_int_equal(segment_claim(&buffer, 11, 11, &range, &view), ERR_EMPTY);
    assert_int_equal(view.skipped, 9);
    assert_int_equal(view.used, 0);
    assert_int_equal(view.size, 10);
    assert_true(segment_can_publish(&buffer)); /* room for a long one */
    assert_int_equal(segment_left(&buffer), 10);
    segment_publish(&buffer, 300, 11, 0, 0);
    assert_int_equal(segment_claim(&buffer, 11, 11, &range, &view), 0);
    assert_true(range.first == 300 && range.count == 11);
}

static void test_burn_takes_both_slots(void **state)
{
    struct segment_buffer buffer;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    segment_publish(&buffer, 100, 10, 0, 0);
    claim_is(&buffer, 3, 100, 3, (struct segment_view){3, 10, false, 0, 0});
    segment_publish(&buffer, 200, 20, 0, 0);
    assert_int_equal(segment_left(&buffer), 27);
    assert_int_equal(segment_burn(&buffer), 27);
    assert_int_equal(segment_left(&buffer), 0);
    claim_is_empty(&buffer);
    assert_true(segment_can_publish(&buffer));
    segment_publish(&buffer, 300, 1, 0, 0);
    claim_is(&buffer, 1, 300, 1, (struct segment_view){1, 1, false, 0, 0});
}

static void test_inspect_shows_both_slots(void **state)
{
    struct segment_buffer buffer;
    struct segment_slot_view slots[2];

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    segment_inspect(&buffer, slots);
    assert_int_equal(slots[0].size + slots[1].size, 0);
    segment_publish(&buffer, 100, 10, 0, 0);
    claim_is(&buffer, 3, 100, 3, (struct segment_view){3, 10, false, 0, 0});
    segment_publish(&buffer, 200, 20, 0, 0);
    segment_inspect(&buffer, slots);
    assert_true(slots[0].next_id == 103 && slots[0].end == 110 && slots[0].size == 10);
    assert_true(slots[1].next_id == 200 && slots[1].end == 220 && slots[1].size == 20);
    claim_is(&buffer, 7, 103, 7, (struct segment_view){10, 10, true, 0, 0});
    segment_inspect(&buffer, slots);
    assert_int_equal(slots[0].size, 0); /* used up */
    assert_int_equal(slots[1].size, 20);
}

static void publish_twice(void *data)
{
    struct segment_buffer *buffer = data;

    segment_publish(buffer, 1, 1, 0, 0);
    segment_publish(buffer, 2, 1, 0, 0);
}

static void publish_nothing(void *data)
{
    segment_publish(data, 1, 0, 0, 0);
}

static void test_publish_asserts(void **state)
{
    struct segment_buffer buffer;

    (void)state;
    memset(&buffer, 0, sizeof buffer);
    assert_true(death_by_assert(publish_twice, &buffer));
    assert_true(death_by_assert(publish_nothing, &buffer));
}

/* --- threads --- */

#define CLAIMERS 3
#define IDS 150000U
#define SLOT_IDS 48

enum manner { CLAIM_PART, CLAIM_WHOLE, CLAIM_MIXED };

struct race {
    struct segment_buffer buffer;
    enum manner manner;
    bool burns;
    _Atomic bool done;     /* nothing more will be published */
    _Atomic uint8_t *seen; /* an entry an id */
    _Atomic uint64_t claimed;
    uint64_t published;
    uint64_t burnt;
    uint64_t seed;
};

struct claimer {
    struct race *race;
    pthread_t thread;
    struct prng prng;
    uint64_t last; /* largest id so far, ids start at 1 */
};

static void *publish_all(void *data)
{
    struct race *race = data;
    struct prng prng;
    uint64_t next = 1;

    prng_seed(&prng, race->seed);
    while (next < IDS) {
        uint32_t size = (uint32_t)prng_below(&prng, SLOT_IDS) + 1;

        if (!segment_can_publish(&race->buffer)) {
            (void)sched_yield();
            continue;
        }
        next += prng_below(&prng, 3) == 0 ? 7 : 0; /* as if others had been granted some */
        segment_publish(&race->buffer, next, size, 0, 0);
        next += size;
        race->published += size;
        ASSERT(segment_left(&race->buffer) <= (uint64_t)2 * SLOT_IDS);
        if (race->burns && prng_below(&prng, 50) == 0) {
            race->burnt += segment_burn(&race->buffer);
        }
    }
    atomic_store(&race->done, true);
    return NULL;
}

static int claim_some(struct claimer *claimer, struct segment_range *ret_range)
{
    struct race *race = claimer->race;
    struct segment_view view;
    uint32_t count = (uint32_t)prng_below(&claimer->prng, 20) + 1;
    bool whole = race->manner == CLAIM_WHOLE ||
                 (race->manner == CLAIM_MIXED && prng_below(&claimer->prng, 4) == 0);

    return segment_claim(&race->buffer, whole ? count : 1, count, ret_range, &view);
}

static void *claim_all(void *data)
{
    struct claimer *claimer = data;
    struct race *race = claimer->race;

    for (;;) {
        bool done = atomic_load(&race->done);
        struct segment_range range;

        if (claim_some(claimer, &range) != 0) {
            if (done) {
                return NULL;
            }
            (void)sched_yield();
            continue;
        }
        ASSERT(range.first > claimer->last);
        claimer->last = range.first + range.count - 1;
        ASSERT(claimer->last < IDS + 2 * SLOT_IDS);
        for (uint64_t id = range.first; id <= claimer->last; id++) {
            ASSERT(atomic_fetch_add_explicit(&race->seen[id], 1, memory_order_relaxed) == 0);
        }
        atomic_fetch_add(&race->claimed, range.count);
    }
}

static void run_race(enum manner manner, bool burns, uint64_t seed)
{
    struct race *race = calloc(1, sizeof *race);
    struct claimer claimers[CLAIMERS] = {0};
    pthread_t publisher;

    assert_non_null(race);
    race->seen = calloc(IDS + 2 * SLOT_IDS, 1);
    assert_non_null(race->seen);
    race->manner = manner;
    race->burns = burns;
    race->seed = seed;
    memset(&race->buffer, 0, sizeof race->buffer);
    for (size_t i = 0; i < CLAIMERS; i++) {
        claimers[i].race = race;
        prng_seed(&claimers[i].prng, seed + i + 1);
        assert_int_equal(pthread_create(&claimers[i].thread, NULL, claim_all, &claimers[i]), 0);
    }
    assert_int_equal(pthread_create(&publisher, NULL, publish_all, race), 0);
    assert_int_equal(pthread_join(publisher, NULL), 0);
    for (size_t i = 0; i < CLAIMERS; i++) {
        assert_int_equal(pthread_join(claimers[i].thread, NULL), 0);
    }
    if (manner == CLAIM_PART) { /* parts lose nothing; whole ranges skip */
        assert_true(race->claimed + race->burnt == race->published);
        assert_int_equal(segment_left(&race->buffer), 0);
    }
    assert_true(race->claimed + race->burnt <= race->published);
    assert_true(race->claimed > race->published / 4);
    assert_true((race->burnt > 0) == burns);
    free((void *)race->seen);
    free(race);
}

static void test_threads_claim_parts(void **state)
{
    (void)state;
    run_race(CLAIM_PART, false, 1);
}

static void test_threads_claim_whole(void **state)
{
    (void)state;
    run_race(CLAIM_WHOLE, false, 2);
}

static void test_threads_mixed_with_burns(void **state)
{
    (void)state;
    run_race(CLAIM_MIXED, true, 3);
}

/* What is left stays, the next range becomes the current one when nothing is, and there is room for
 * another one but where both have some. */
static void test_room_is_made_without_claiming(void **state)
{
    struct segment_buffer buffer = {0};
    struct segment_range range;
    struct segment_view view;

    (void)state;
    assert_true(segment_make_room(&buffer)); /* none was there */
    segment_publish(&buffer, 10, 3, 0, 0);
    assert_false(segment_can_publish(&buffer));
    assert_true(segment_make_room(&buffer));
    assert_int_equal(segment_left(&buffer), 3);
    segment_publish(&buffer, 20, 2, 0, 0);
    assert_false(segment_make_room(&buffer)); /* both have some */
    assert_int_equal(segment_left(&buffer), 5);
    assert_int_equal(segment_claim(&buffer, 1, 9, &range, &view), 0);
    assert_int_equal(range.first, 10);
    assert_int_equal(range.count, 3);
    assert_true(segment_make_room(&buffer));
    assert_true(segment_make_room(&buffer));
    assert_int_equal(segment_left(&buffer), 2);
    assert_int_equal(segment_claim(&buffer, 1, 9, &range, &view), 0);
    assert_int_equal(range.first, 20);
    assert_int_equal(range.count, 2);
    assert_true(segment_make_room(&buffer));
    assert_int_equal(segment_claim(&buffer, 1, 1, &range, &view), ERR_EMPTY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room_is_made_without_claiming),
        cmocka_unit_test(test_new_buffer_is_empty),
        cmocka_unit_test(test_claim_at_exact_end),
        cmocka_unit_test(test_claim_takes_what_is_there_and_goes_on),
        cmocka_unit_test(test_publish_before_first_claim_fills_one_slot),
        cmocka_unit_test(test_largest_segment_and_ids),
        cmocka_unit_test(test_ids_with_an_increment),
        cmocka_unit_test(test_generation_comes_round),
        cmocka_unit_test(test_whole_skips_what_is_too_short),
        cmocka_unit_test(test_whole_leaves_the_last_slot_alone),
        cmocka_unit_test(test_burn_takes_both_slots),
        cmocka_unit_test(test_inspect_shows_both_slots),
        cmocka_unit_test(test_publish_asserts),
        cmocka_unit_test(test_threads_claim_parts),
        cmocka_unit_test(test_threads_claim_whole),
        cmocka_unit_test(test_threads_mixed_with_burns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
