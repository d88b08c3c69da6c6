/*
 * test_pack.c - the search that lays operations into gaps: it says what a search without
 * any cleverness says, up to the size that is promised, and gives up in time beyond it.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "cluster-tests/history/pack.h"

#define OPS PACK_DECIDED
#define GAPS 8
#define SMALL_ROUNDS 30000
#define LARGE_ROUNDS 60
#define MANY 100000

struct puzzle {
    unsigned op_count;
    struct history_entry ops[OPS];
    unsigned gap_count;
    uint64_t lengths[GAPS];
    unsigned released[GAPS]; /* so many operations were sent by its deadline */
};

static struct history_entry lost(uint32_t count, uint64_t key)
{
    return (struct history_entry){.received = HISTORY_UNKNOWN, .count = count, .key = key};
}

/* --- all ways: which sets of operations can stand one after the other from the first gap on --- */

/* The gap that the id at this distance from the first one is in; gap_count: behind all. */
static unsigned gap_at(const struct puzzle *puzzle, uint64_t at, uint64_t *ret_end)
{
    unsigned gap = 0;

    for (*ret_end = 0; gap < puzzle->gap_count; gap++) {
        *ret_end += puzzle->lengths[gap];
        if (at < *ret_end) {
            break;
        }
    }
    return gap;
}

static bool may_follow(const struct puzzle *puzzle, unsigned set, unsigned op)
{
    for (unsigned i = 0; i < puzzle->op_count; i++) {
        bool same =
            i == op || (puzzle->ops[i].key != 0 && puzzle->ops[i].key == puzzle->ops[op].key);

        if (same && (set >> i & 1) != 0) {
            return false;
        }
    }
    return true;
}

static bool can_be(const struct puzzle *puzzle)
{
    static uint8_t reached[1 << OPS];

    memset(reached, 0, sizeof reached);
    reached[0] = 1;
    for (unsigned set = 0; set < 1u << puzzle->op_count; set++) {
        uint64_t at = 0;
        uint64_t end;
        unsigned gap;

        for (unsigned i = 0; i < puzzle->op_count && reached[set]; i++) {
            at += (set >> i & 1) != 0 ? puzzle->ops[i].count : 0;
        }
        gap = gap_at(puzzle, at, &end);
        if (reached[set] && gap == puzzle->gap_count) {
            return true;
        }
        for (unsigned i = 0; reached[set] && i < puzzle->released[gap]; i++) {
            if (may_follow(puzzle, set, i) && at + puzzle->ops[i].count <= end) {
                reached[set | 1u << i] = 1;
            }
        }
    }
    return false;
}

/* --- random puzzles --- */

static uint64_t upto(struct prng *prng, uint64_t most)
{
    return prng_below(prng, most + 1);
}

/* Gaps that were made by operations, each of which is then spoilt or not. */
static void make(struct prng *prng, struct puzzle *puzzle, unsigned ops, uint32_t longest)
{
    unsigned next = 0;

    memset(puzzle, 0, sizeof *puzzle);
    puzzle->op_count = ops;
    for (unsigned i = 0; i < ops; i++) {
        puzzle->ops[i] =
            lost(1 + (uint32_t)upto(prng, longest - 1), upto(prng, 3) == 0 ? 1 + upto(prng, 2) : 0);
    }
    puzzle->gap_count = 1 + (unsigned)upto(prng, GAPS - 1);
    for (unsigned i = 0; i < puzzle->gap_count; i++) {
        unsigned before = i > 0 ? puzzle->released[i - 1] : 1;

        puzzle->released[i] = before + (unsigned)upto(prng, ops - before);
        for (uint64_t k = upto(prng, 3); next < puzzle->released[i] && k > 0; k--) {
            puzzle->lengths[i] += puzzle->ops[upto(prng, puzzle->released[i] - 1)].count;
            next++;
        }
        if (puzzle->lengths[i] == 0 || upto(prng, 5) == 0) {
            puzzle->lengths[i] += 1 + upto(prng, longest);
        }
    }
}

/* The search says of each gap what all ways say of it and those before it that can be, if it has
 * the steps. */
static void compare(const struct puzzle *puzzle, uint64_t steps, unsigned seen[PACK_UNDECIDED + 1])
{
    struct pack *pack = pack_new(puzzle->ops, puzzle->op_count, steps);
    struct puzzle kept = *puzzle;
    unsigned released = 0;

    kept.gap_count = 0;
    for (unsigned i = 0; i < puzzle->gap_count; i++) {
        enum pack_result result;
        bool expected;

        for (; released < puzzle->released[i]; released++) {
            pack_release(pack);
        }
        kept.lengths[kept.gap_count] = puzzle->lengths[i];
        kept.released[kept.gap_count++] = puzzle->released[i];
        result = pack_gap(pack, puzzle->lengths[i]);
        expected = result != PACK_UNDECIDED && can_be(&kept);
        kept.gap_count -= !expected;
        assert_int_equal(result == PACK_FITS, expected);
        seen[result]++;
    }
    pack_free(pack);
}

static void test_the_search_says_what_all_ways_say(void **state)
{
    unsigned seen[PACK_UNDECIDED + 1] = {0};
    struct prng prng;

    (void)state;
    prng_seed(&prng, 11);
    for (unsigned round = 0; round < SMALL_ROUNDS; round++) {
        struct puzzle puzzle;

        make(&prng, &puzzle, 1 + (unsigned)upto(&prng, 9), round % 2 == 0 ? 8 : 60);
        compare(&puzzle, HISTORY_STEPS, seen);
    }
    for (unsigned round = 0; round < LARGE_ROUNDS; round++) {
        struct puzzle puzzle;

        make(&prng, &puzzle, OPS, round % 2 == 0 ? 12 : 1000);
        compare(&puzzle, HISTORY_STEPS, seen);
    }
    assert_int_equal(seen[PACK_UNDECIDED], 0);
    assert_true(seen[PACK_FITS] > SMALL_ROUNDS / 2);
    assert_true(seen[PACK_NO_SUM] > SMALL_ROUNDS / 10);
    assert_true(seen[PACK_NO_WAY] > SMALL_ROUNDS / 50);
}

/* --- what is promised to be decided --- */

static enum pack_result lay(struct pack *pack, unsigned release, uint64_t length)
{
    for (unsigned i = 0; i < release; i++) {
        pack_release(pack);
    }
    return pack_gap(pack, length);
}

/* Lengths of which no two choices have the same sum, or very many do, and gaps of several of them
 * each, which take more than there is in the end: nothing cuts the search short. */
static void test_hard_puzzles_of_the_promised_size_are_decided(void **state)
{
    unsigned seen[PACK_UNDECIDED + 1] = {0};
    unsigned fewer[PACK_UNDECIDED + 1] = {0};
    struct prng prng;

    (void)state;
    prng_seed(&prng, 12);
    for (unsigned round = 0; round < LARGE_ROUNDS; round++) {
        struct puzzle puzzle = {.op_count = OPS, .gap_count = 1 + (unsigned)upto(&prng, 6)};

        for (unsigned i = 0; i < OPS; i++) {
            uint32_t unlike = (UINT32_C(1) << 20) + (UINT32_C(1) << i);

            puzzle.ops[i] = lost(round % 2 == 0 ? unlike : 100 + i, 0);
        }
        for (unsigned i = 0; i < puzzle.gap_count; i++) {
            puzzle.released[i] = OPS;
            for (uint64_t k = 2 + upto(&prng, 3); k > 0; k--) {
                puzzle.lengths[i] += puzzle.ops[upto(&prng, OPS - 1)].count;
            }
        }
        compare(&puzzle, HISTORY_STEPS, seen);
        /* With less to remember by. */
        compare(&puzzle, HISTORY_STEPS / 100, fewer);
    }
    assert_int_equal(seen[PACK_UNDECIDED], 0);
    assert_true(fewer[PACK_UNDECIDED] > 0 && fewer[PACK_NO_WAY] > 0);
    assert_true(seen[PACK_FITS] > LARGE_ROUNDS && seen[PACK_NO_WAY] > LARGE_ROUNDS / 2);
}

/* The first choice of each gap but the last is wrong, and shows only at the last. */
static void test_a_gap_may_fill_those_before_it_in_another_way(void **state)
{
    const struct history_entry ops[] = {lost(4, 0), lost(3, 0), lost(3, 0), lost(2, 0), lost(9, 0)};
    struct pack *pack = pack_new(ops, 5, HISTORY_STEPS);

    (void)state;
    assert_int_equal(lay(pack, 4, 6), PACK_FITS); /* 4 and 2, and then 3 and 3 */
    assert_int_equal(lay(pack, 0, 4), PACK_FITS);
    assert_int_equal(lay(pack, 0, 1), PACK_NO_SUM);
    assert_int_equal(lay(pack, 0, 3), PACK_NO_WAY);
    assert_int_equal(lay(pack, 1, 9), PACK_FITS);
    assert_int_equal(lay(pack, 0, 2), PACK_FITS);
    assert_int_equal(lay(pack, 0, 2), PACK_NO_WAY);
    pack_free(pack);
}

/* What is too much for the search may still be refused by its sum. */
static void test_a_sum_uses_each_operation_once(void **state)
{
    const struct history_entry ops[] = {lost(4, 0), lost(3, 0), lost(3, 0), lost(5, 0)};
    struct pack *pack = pack_new(ops, 4, HISTORY_STEPS);

    (void)state;
    assert_int_equal(lay(pack, 3, 8), PACK_NO_SUM);
    assert_int_equal(lay(pack, 0, 9), PACK_NO_SUM);
    assert_int_equal(lay(pack, 0, 10), PACK_FITS);
    assert_int_equal(lay(pack, 0, 10), PACK_NO_WAY);
    assert_int_equal(lay(pack, 1, 9), PACK_NO_WAY);
    pack_free(pack);
}

static void test_one_operation_of_a_key_is_used(void **state)
{
    const struct history_entry ops[] = {lost(4, 7), lost(6, 7), lost(6, 8), lost(6, 0)};
    struct pack *pack = pack_new(ops, 4, HISTORY_STEPS);

    (void)state;
    assert_int_equal(lay(pack, 2, 10), PACK_NO_WAY); /* sums do not know keys */
    assert_int_equal(lay(pack, 0, 6), PACK_FITS);
    assert_int_equal(lay(pack, 1, 4), PACK_NO_WAY); /* the other 6 is too late for the first gap */
    pack_free(pack);
    pack = pack_new(ops, 4, HISTORY_STEPS);
    assert_int_equal(lay(pack, 3, 6), PACK_FITS);
    assert_int_equal(lay(pack, 0, 4), PACK_FITS);
    assert_int_equal(lay(pack, 0, 6), PACK_NO_WAY);
    assert_int_equal(lay(pack, 1, 6), PACK_FITS);
    pack_free(pack);
}

/* --- beyond it --- */

/* Many lengths, of which hardly any choice has the sum that is missing, and the last gap takes
 * what is not there: the steps are used up, what was filled stays filled, and later gaps are
 * decided all the same. */
static void test_the_search_gives_up(void **state)
{
    enum { MORE = 60 };
    struct history_entry ops[MORE + 1];
    uint64_t all = 0;
    struct pack *pack;

    (void)state;
    for (unsigned i = 0; i < MORE; i++) {
        ops[i] = lost(1000000 + 7919 * i * i, 0);
        all += ops[i].count;
    }
    ops[MORE] = lost(5, 0);
    pack = pack_new(ops, MORE + 1, HISTORY_STEPS);
    assert_int_equal(lay(pack, MORE, ops[3].count), PACK_FITS);
    assert_int_equal(lay(pack, 0, all / 2 + 1), PACK_UNDECIDED);
    assert_int_equal(lay(pack, 0, (uint64_t)ops[5].count + ops[9].count), PACK_FITS);
    assert_int_equal(lay(pack, 0, ops[3].count), PACK_NO_WAY);
    assert_int_equal(lay(pack, 1, 5), PACK_FITS);
    assert_int_equal(lay(pack, 0, 4), PACK_NO_SUM);
    pack_free(pack);
    /* Without steps nothing is laid, and nothing refused. */
    pack = pack_new(ops, MORE + 1, 0);
    assert_int_equal(lay(pack, MORE, ops[3].count), PACK_UNDECIDED);
    pack_free(pack);
}

/* All steps together are bounded, and then what needs no search is still decided. (If they were
 * not, this would take hours.) */
static void test_many_gaps_that_cannot_be_take_bounded_time(void **state)
{
    struct history_entry *ops = calloc(MANY, sizeof *ops);
    struct pack *pack;

    (void)state;
    assert_non_null(ops);
    for (uint32_t i = 0; i < MANY; i++) {
        ops[i] = lost(1000 + i % 700 * 2, 0);
    }
    pack = pack_new(ops, MANY, HISTORY_STEPS);
    assert_int_equal(lay(pack, MANY, 1000), PACK_FITS);
    for (uint32_t i = 1; i < MANY; i++) {
        assert_int_equal(lay(pack, 0, 20001), PACK_UNDECIDED); /* none is odd */
        assert_int_equal(lay(pack, 0, ops[i].count), PACK_FITS);
    }
    pack_free(pack);
    free(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_search_says_what_all_ways_say),
        cmocka_unit_test(test_hard_puzzles_of_the_promised_size_are_decided),
        cmocka_unit_test(test_a_gap_may_fill_those_before_it_in_another_way),
        cmocka_unit_test(test_a_sum_uses_each_operation_once),
        cmocka_unit_test(test_one_operation_of_a_key_is_used),
        cmocka_unit_test(test_the_search_gives_up),
        cmocka_unit_test(test_many_gaps_that_cannot_be_take_bounded_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
