/*
 * test_orders_segment.c - the double buffer of a tag under the whole of C11's memory model: all
 * interleavings of an owner and two claimers, all values that their loads may return.
 *
 * What holds in each execution: no id is claimed twice, each lies in a published range, claims of a
 * thread rise, nothing is lost (claimed, skipped, burnt and left are together what was published),
 * "empty" is said of a slot that is used up, after a burn nothing older is claimed by who knows of
 * it, and whoever inspects sees slots as they were published.
 *
 * Threads: none of the system; see model.h.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/alloc/segment.h"
#include "cluster-tests/memory_model/model_atomic.h"
#include "cluster-tests/memory_model/tests/orders.h"

#define CLAIMERS 2
#define CLAIMS 4
#define RANGES 6
#define RANGE_APART 100 /* range n begins at n times it */
#define RANGE_IDS 8

struct bound {
    unsigned publishes; /* that the owner tries */
    uint32_t sizes[RANGES];
    unsigned claims[CLAIMERS]; /* of each claimer */
    uint32_t counts[CLAIMERS]; /* ids that each of them asks for */
    bool whole[CLAIMERS];      /* it asks for whole ranges */
    bool room[CLAIMERS];       /* it makes room for another range before it asks */
    unsigned burn_after;       /* publishes; 0: no burn */
    unsigned looks;            /* of who inspects */
};

struct claim {
    struct segment_range range;
    struct segment_view view;
    unsigned burnt; /* ranges that it knew to be burnt */
    int err;
};

static struct {
    struct segment_buffer buffer;
    _Atomic uint32_t burnt_ranges; /* told to who wants to know */
    /* what happened, by thread */
    unsigned published;
    uint64_t published_ids;
    uint64_t burnt;
    struct claim claims[CLAIMERS][CLAIMS];
    unsigned looked;
    struct segment_slot_view looks[2][2];
} at;

static const struct bound *bound(void)
{
    return orders_bound;
}

static void set_up(void)
{
    memset((void *)&at, 0, sizeof at);
    memset(&at.buffer, 0, sizeof at.buffer);
    atomic_init(&at.burnt_ranges, 0);
}

static void publish(void)
{
    uint32_t size = bound()->sizes[at.published];

    at.published++;
    at.published_ids += size;
    segment_publish(&at.buffer, at.published * RANGE_APART, size, 0, 0);
}

static void own(void)
{
    for (unsigned i = 0; i < bound()->publishes; i++) {
        if (segment_can_publish(&at.buffer)) {
            publish();
        }
        if (i + 1 == bound()->burn_after) {
            at.burnt += segment_burn(&at.buffer);
            atomic_store_explicit(&at.burnt_ranges, at.published, memory_order_release);
        }
    }
}

static void claim(unsigned claimer)
{
    for (unsigned i = 0; i < bound()->claims[claimer]; i++) {
        struct claim claim = {.err = 0};
        uint32_t count = bound()->counts[claimer];

        if (bound()->burn_after > 0) {
            claim.burnt = atomic_load_explicit(&at.burnt_ranges, memory_order_acquire);
        }
        if (bound()->room[claimer]) {
            (void)segment_make_room(&at.buffer);
        }
        claim.err = segment_claim(&at.buffer, bound()->whole[claimer] ? count : 1, count,
                                  &claim.range, &claim.view);
        at.claims[claimer][i] = claim;
    }
}

static void claim_0(void)
{
    claim(0);
}

static void claim_1(void)
{
    claim(1);
}

static void look(void)
{
    for (; at.looked < bound()->looks; at.looked++) {
        segment_inspect(&at.buffer, at.looks[at.looked]);
    }
}

/* --- what must hold --- */

/* The number of the range that an id belongs to. */
static unsigned range_of(uint64_t id)
{
    uint64_t range = id / RANGE_APART;

    MODEL_CHECK(range >= 1 && range <= at.published);
    MODEL_CHECK(id % RANGE_APART < bound()->sizes[range - 1]);
    return (unsigned)range;
}

static void check_empty(const struct claim *claim, unsigned claimer)
{
    const struct segment_view *view = &claim->view;

    MODEL_CHECK(view->used <= view->size);
    MODEL_CHECK(bound()->whole[claimer] ? view->size - view->used < bound()->counts[claimer]
                                        : view->used == view->size);
}

static void check_claim(const struct claim *claim, unsigned claimer)
{
    uint64_t last = claim->range.first + claim->range.count - 1;
    unsigned range = range_of(claim->range.first);

    MODEL_CHECK(claim->range.count >= 1 && claim->range.count <= bound()->counts[claimer]);
    MODEL_CHECK(!bound()->whole[claimer] || claim->range.count == bound()->counts[claimer]);
    MODEL_CHECK(range_of(last) == range);
    MODEL_CHECK(range > claim->burnt);
    MODEL_CHECK(claim->view.size == bound()->sizes[range - 1]);
    MODEL_CHECK(claim->view.used == last % RANGE_APART + 1);
    MODEL_CHECK(!claim->view.next_ready || range < at.published);
}

/* All claims; returns how many ids were claimed or skipped. */
static uint64_t check_claims(void)
{
    bool seen[RANGES + 1][RANGE_IDS] = {{false}};
    uint64_t ids = 0;

    for (unsigned claimer = 0; claimer < CLAIMERS; claimer++) {
        uint64_t last = 0;

        for (unsigned i = 0; i < bound()->claims[claimer]; i++) {
            const struct claim *claim = &at.claims[claimer][i];
            uint64_t end = claim->range.first + claim->range.count;

            ids += claim->view.skipped;
            if (claim->err != 0) {
                check_empty(claim, claimer);
                continue;
            }
            check_claim(claim, claimer);
            MODEL_CHECK(claim->range.first > last);
            last = end - 1;
            for (uint64_t id = claim->range.first; id < end; id++) {
                MODEL_CHECK(!seen[id / RANGE_APART][id % RANGE_APART]);
                seen[id / RANGE_APART][id % RANGE_APART] = true;
                ids++;
            }
        }
    }
    return ids;
}

/* Was this the next id of its range at any time? */
static bool was_used(uint64_t next_id)
{
    for (unsigned claimer = 0; claimer < CLAIMERS; claimer++) {
        for (unsigned i = 0; i < bound()->claims[claimer]; i++) {
            const struct claim *claim = &at.claims[claimer][i];

            if (claim->err == 0 && claim->range.first + claim->range.count == next_id) {
                return true;
            }
        }
    }
    return false;
}

static void check_look(const struct segment_slot_view slots[2])
{
    unsigned ranges[2] = {0};

    for (unsigned i = 0; i < 2; i++) {
        if (slots[i].size > 0) {
            ranges[i] = range_of(slots[i].next_id);
            MODEL_CHECK(range_of(slots[i].end - 1) == ranges[i]);
            MODEL_CHECK(slots[i].size == bound()->sizes[ranges[i] - 1]);
            MODEL_CHECK(slots[i].end == ranges[i] * RANGE_APART + slots[i].size);
        }
    }
    MODEL_CHECK(ranges[0] == 0 || ranges[1] == 0 || ranges[1] == ranges[0] + 1);
    MODEL_CHECK(ranges[1] == 0 || slots[1].next_id == ranges[1] * RANGE_APART);
    MODEL_CHECK(ranges[0] == 0 || was_used(slots[0].next_id));
}

static void check(void)
{
    MODEL_CHECK(check_claims() + at.burnt + segment_left(&at.buffer) == at.published_ids);
    for (unsigned i = 0; i < at.looked; i++) {
        check_look(at.looks[i]);
    }
}

/* --- the scenarios --- */

#define CASE(is_it_long, late, spurious, title, other, ...)                                        \
    {                                                                                              \
        .scenario = {.name = (title),                                                              \
                     .setup = set_up,                                                              \
                     .threads = {own, claim_0, (other)},                                           \
                     .finish = check,                                                              \
                     .late_max = (late),                                                           \
                     .spurious_max = (spurious)},                                                  \
        .bound = &(const struct bound){__VA_ARGS__}, .is_long = (is_it_long),                      \
    }

static const struct orders_case cases[] = {
    CASE(false, 1, 0, "a burn between two ranges", claim_1, .publishes = 3, .sizes = {2, 2, 1},
         .claims = {1, 1}, .counts = {1, 1}, .burn_after = 2),
    CASE(false, 1, 1, "a swap that fails for nothing", claim_1, .publishes = 3, .sizes = {2, 1, 1},
         .claims = {2, 1}, .counts = {1, 1}),
    CASE(false, 1, 0, "a look at slots that are refilled", look, .publishes = 3, .sizes = {4, 1, 2},
         .claims = {4}, .counts = {3}, .looks = 1),
    CASE(false, 1, 0, "whole ranges and parts", claim_1, .publishes = 3, .sizes = {3, 1, 2},
         .claims = {2, 1}, .counts = {2, 1}, .whole = {true, false}),
    CASE(false, 1, 0, "whole ranges that skip", claim_1, .publishes = 3, .sizes = {3, 1, 2},
         .claims = {2, 1}, .counts = {2, 2}, .whole = {true, true}),
    CASE(false, 1, 0, "parts over three refills", claim_1, .publishes = 4, .sizes = {3, 2, 1, 2},
         .claims = {2, 2}, .counts = {2, 2}),
    CASE(false, 1, 0, "room that is made between refills", claim_1, .publishes = 4,
         .sizes = {1, 1, 2, 1}, .claims = {1, 3}, .counts = {1, 1}, .room = {true, false}),
    CASE(true, 1, 0, "long: single ids over three refills", claim_1, .publishes = 4,
         .sizes = {2, 1, 1, 1}, .claims = {3, 3}, .counts = {1, 1}),
    CASE(true, 1, 0, "long: parts over four refills", claim_1, .publishes = 5,
         .sizes = {3, 2, 1, 2, 3}, .claims = {3, 2}, .counts = {2, 2}),
    CASE(true, 1, 0, "long: whole ranges over three refills", claim_1, .publishes = 4,
         .sizes = {3, 1, 2, 2}, .claims = {2, 1}, .counts = {2, 2}, .whole = {true, true}),
    CASE(true, 1, 0, "long: a burn, and claims before and after it", claim_1, .publishes = 3,
         .sizes = {2, 2, 1}, .claims = {2, 2}, .counts = {1, 1}, .burn_after = 2),
    CASE(true, 1, 0, "long: two looks", look, .publishes = 4, .sizes = {4, 1, 2, 1}, .claims = {4},
         .counts = {3}, .looks = 2),
    CASE(true, 1, 2, "long: swaps that fail for nothing", claim_1, .publishes = 3,
         .sizes = {2, 1, 1}, .claims = {2, 2}, .counts = {1, 1}),
};

#define COUNT (sizeof cases / sizeof cases[0])

static void test_the_double_buffer_under_all_orders_of_memory(void **state)
{
    (void)state;
    orders_hold(cases, COUNT);
}

static void test_a_relaxed_store_of_ready_is_found(void **state)
{
    (void)state;
    assert_true(orders_find(cases, COUNT, "segment_publish", "store", "&buffer->ready",
                            memory_order_relaxed));
}

static void test_each_order_of_the_double_buffer_is_needed(void **state)
{
    static const struct orders_needless needless[] = {
        {"move_word: compare_exchange &buffer->word (1) acq_rel to release",
         "the same word was loaded with acquire before, and no word comes twice"},
    };

    (void)state;
    orders_weaken(cases, COUNT, "segment.c", needless, sizeof needless / sizeof needless[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_double_buffer_under_all_orders_of_memory),
        cmocka_unit_test(test_a_relaxed_store_of_ready_is_found),
        cmocka_unit_test(test_each_order_of_the_double_buffer_is_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
