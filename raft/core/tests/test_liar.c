/*
 * test_liar.c - a member that lies in every field (raft_liar.h), for some hundred fixed seeds. The
 * fuzzer plays the same with bytes that it learns (raft/fuzz/fuzz_liar.c).
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "raft/core/tests/raft_liar.h"
#include "src/base/log.h"

#define SEEDS 40
#define STEPS 300

/* Shows P7-member. */
static void test_any_bytes_of_a_member_fire_nothing(void **state)
{
    struct liar_result sum = {0};

    (void)state;
    log_setup((enum log_level)(LOG_LEVEL_ERROR + 1), 0); /* thousands of alarms */
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct liar_result result;
        struct liar_source source = {0};
        struct prng prng;

        prng_seed(&prng, seed);
        source.prng = &prng;
        liar_play(&source, STEPS, &result);
        sum.frames += result.frames;
        sum.refused += result.refused;
        sum.ended += result.ended;
        sum.alarms += result.alarms;
        sum.loaded += result.loaded;
    }
    log_setup(LOG_LEVEL_INFO, 0);
    print_message("frames %u, refused %u, alarms %llu, ended %u\n", sum.frames, sum.refused,
                  (unsigned long long)sum.alarms, sum.ended);
    assert_true(sum.frames > SEEDS * STEPS / 4);
    assert_true(sum.refused > 0 && sum.refused < sum.frames / 2);
    assert_true(sum.alarms > 0);
    assert_int_equal(sum.loaded, 2 * SEEDS);
    assert_true(sum.ended > 0); /* it does get far enough to be believed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_bytes_of_a_member_fire_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
