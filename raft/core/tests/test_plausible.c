/*
 * test_plausible.c - which terms and indexes of peers are believed: the bounds, how they grow with
 * time, and what a liar can do to two nodes by going to them.
 *
 * Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "raft/core/trust.h"
#include "src/base/limits.h"

#define JUMP LIMIT_PLAUSIBLE_JUMP
#define WAIT LIMIT_PLAUSIBLE_WAIT_MS

/* A node as far as this goes. */
struct party {
    struct plausible plausible;
    uint64_t term;
};

static struct party party(uint64_t term, uint64_t now_ms)
{
    struct party party = {.term = term};

    plausible_init(&party.plausible, now_ms);
    return party;
}

/* It is told a term; true if it took it. */
static bool tell(struct party *party, uint64_t term, uint64_t now_ms)
{
    if (term > plausible_term(&party->plausible, party->term, true, now_ms)) {
        plausible_refused(&party->plausible, now_ms);
        return false;
    }
    if (term > party->term) {
        plausible_rose(&party->plausible, term - party->term);
        party->term = term;
    }
    return true;
}

static void test_an_index_at_the_bound_and_beyond(void **state)
{
    (void)state;
    assert_int_equal(plausible_index(1), 1 + JUMP);
    assert_int_equal(plausible_index(LIMIT_PLAUSIBLE - JUMP - 2), LIMIT_PLAUSIBLE - 2);
    assert_int_equal(plausible_index(LIMIT_PLAUSIBLE - JUMP - 1), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_index(LIMIT_PLAUSIBLE - JUMP), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_index(LIMIT_PLAUSIBLE - 1), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_index(UINT64_MAX), LIMIT_PLAUSIBLE - 1);
}

/* It has nothing to compare with: it may join a cluster of any age. */
static void test_a_node_without_a_log_takes_any_but_the_end(void **state)
{
    struct party node = party(0, 1000);

    (void)state;
    assert_int_equal(plausible_index(0), LIMIT_PLAUSIBLE - 1);
    assert_int_equal(plausible_term(&node.plausible, 0, false, 1000), LIMIT_PLAUSIBLE - 1);
}

static void test_a_term_at_the_bound_and_beyond(void **state)
{
    struct party node = party(7, 1000);

    (void)state;
    assert_false(tell(&node, 7 + JUMP + 1, 1000));
    assert_false(tell(&node, UINT64_MAX, 1000));
    assert_int_equal(node.term, 7);
    assert_true(tell(&node, 7 + JUMP, 1000));
    assert_true(tell(&node, 3, 1000)); /* lower ones are the core's to judge */
    node = party(LIMIT_PLAUSIBLE - 3, 1000);
    assert_false(tell(&node, LIMIT_PLAUSIBLE, 1000));
    assert_true(tell(&node, LIMIT_PLAUSIBLE - 1, 1000));
}

/* However many steps, together they are one jump, and a little with time. */
static void test_small_jumps_do_not_add_up(void **state)
{
    struct party node = party(7, 1000);
    uint64_t now_ms = 1000;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        assert_true(tell(&node, node.term + JUMP / 4, now_ms));
    }
    assert_false(tell(&node, node.term + 1, now_ms));
    assert_true(tell(&node, node.term + 1, now_ms + 1));
    now_ms += 3600 * 1000;
    for (unsigned i = 0; i < 100000; i++) {
        (void)tell(&node, node.term + JUMP, now_ms);
        (void)tell(&node, node.term + 100, now_ms);
    }
    assert_true(node.term <= 7 + JUMP + (now_ms - 1000) * LIMIT_PLAUSIBLE_RISE_PER_MS);
}

/* A calm year does not make the next jump longer. */
static void test_calm_gives_back_one_jump_and_no_more(void **state)
{
    struct party node = party(7, 1000);
    const uint64_t year_ms = 365ULL * 86400 * 1000;

    (void)state;
    assert_true(tell(&node, 7 + JUMP, 1000));
    assert_int_equal(plausible_term(&node.plausible, node.term, true, 1000 + year_ms),
                     7 + 2 * JUMP);
    assert_false(tell(&node, 7 + 2 * JUMP + 1, 1000 + year_ms));
    assert_false(tell(&node, 7 + 2 * JUMP + 1, 1000 + year_ms + WAIT - 1));
}

/* One was moved by all that a liar can, and elections moved it on: to the other that is too much.
 * The peer goes on telling it, and after a minute is believed. */
static void test_two_that_were_parted_by_a_lie_meet_again(void **state)
{
    struct party moved = party(7, 1000);
    struct party other = party(7, 1000);
    uint64_t now_ms = 1000;

    (void)state;
    assert_true(tell(&moved, 7 + JUMP, now_ms));
    moved.term += 100; /* its own candidacies */
    while (!tell(&other, moved.term, now_ms)) {
        now_ms += 500; /* a link that is dialled again */
        assert_true(now_ms <= 1000 + WAIT + 1000);
    }
    assert_true(now_ms >= 1000 + WAIT);
}

/* Nor does a liar gain by being refused: beside the others it moves on by time alone. */
static void test_refusals_gain_a_liar_nothing(void **state)
{
    struct party node = party(7, 0);
    uint64_t now_ms = 0;

    (void)state;
    for (; now_ms < 10 * WAIT; now_ms += 50) {
        (void)tell(&node, 1ULL << 60, now_ms);
        for (uint64_t by = JUMP; by > 0; by /= 2) {
            (void)tell(&node, node.term + by, now_ms);
        }
    }
    assert_true(node.term <= 7 + JUMP + now_ms * LIMIT_PLAUSIBLE_RISE_PER_MS);
}

/* A series of refusals ends: an hour later the next one waits its minute anew. */
static void test_what_grew_is_gone_when_the_refusals_end(void **state)
{
    struct party node = party(7, 0);
    uint64_t now_ms;

    (void)state;
    for (now_ms = 0; now_ms < 2 * WAIT; now_ms += 1000) {
        assert_false(tell(&node, 1ULL << 60, now_ms));
    }
    assert_true(plausible_term(&node.plausible, 7, true, now_ms) > 7 + JUMP);
    now_ms += 2 * WAIT;
    assert_int_equal(plausible_term(&node.plausible, 7, true, now_ms), 7 + JUMP);
    assert_false(tell(&node, 8 + JUMP, now_ms));
    assert_false(tell(&node, 8 + JUMP, now_ms + WAIT / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_index_at_the_bound_and_beyond),
        cmocka_unit_test(test_a_node_without_a_log_takes_any_but_the_end),
        cmocka_unit_test(test_a_term_at_the_bound_and_beyond),
        cmocka_unit_test(test_small_jumps_do_not_add_up),
        cmocka_unit_test(test_calm_gives_back_one_jump_and_no_more),
        cmocka_unit_test(test_two_that_were_parted_by_a_lie_meet_again),
        cmocka_unit_test(test_refusals_gain_a_liar_nothing),
        cmocka_unit_test(test_what_grew_is_gone_when_the_refusals_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
