/*
 * test_liar.c - a member that lies in every field (raft_liar.h), for some hundred fixed seeds. The
 * fuzzer plays the same with bytes that it learns (raft/fuzz/fuzz_liar.c).
 *
 * Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/base/prng.h"
#include "raft/core/tests/raft_liar.h"
#include "src/base/log.h"

#define SEEDS 150
#define STEPS 300

static void play(uint64_t first_seed, bool tame, struct liar_result *ret_sum)
{
    *ret_sum = (struct liar_result){0};
    log_setup((enum log_level)(LOG_LEVEL_ERROR + 1), 0); /* thousands of alarms */
    for (uint64_t seed = first_seed; seed < first_seed + SEEDS; seed++) {
        struct liar_result result;
        struct liar_source source = {0};
        struct prng prng;

        prng_seed(&prng, seed);
        source.prng = &prng;
        liar_play(&source, STEPS, tame, &result);
        ret_sum->frames += result.frames;
        ret_sum->refused += result.refused;
        ret_sum->ended += result.ended;
        ret_sum->alarms += result.alarms;
        ret_sum->loaded += result.loaded;
        ret_sum->served |= result.served;
    }
    log_setup(LOG_LEVEL_INFO, 0);
    print_message("frames %u, refused %u, alarms %llu, ended %u\n", ret_sum->frames,
                  ret_sum->refused, (unsigned long long)ret_sum->alarms, ret_sum->ended);
}

static void test_a_member_that_lies_fires_nothing(void **state)
{
    struct liar_result sum;

    (void)state;
    play(1, false, &sum);
    assert_true(sum.frames > SEEDS * STEPS / 4);
    assert_true(sum.refused > 0 && sum.refused < sum.frames / 2);
    assert_true(sum.alarms > 0);
    assert_int_equal(sum.loaded, 2 * SEEDS);
    assert_true(sum.ended > 0); /* it does get far enough to be believed */
}

static void test_others_serve_after_a_member_lied(void **state)
{
    struct liar_result sum;

    (void)state;
    play(100001, true, &sum);
    assert_true(sum.alarms > 0);
    assert_int_equal(sum.ended, 0);
    assert_true(sum.served);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_member_that_lies_fires_nothing),
        cmocka_unit_test(test_others_serve_after_a_member_lied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
