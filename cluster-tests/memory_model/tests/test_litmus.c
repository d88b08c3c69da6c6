/*
 * test_litmus.c - the explorer of memory orders finds exactly what C11 allows: the litmus tests of
 * the literature, each with all of its outcomes.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "cluster-tests/memory_model/tests/litmus.h"

static void explore(int line, struct model_scenario scenario, unsigned registers,
                    const char *outcomes)
{
    struct model_result result;

    scenario.setup = litmus_setup;
    scenario.accept = litmus_accept;
    scenario.late_max = 4;
    for (unsigned all = 0; all < 2; all++) {
        scenario.all_changes = all == 1;
        litmus_begin(registers);
        model_explore(&scenario, &result);
        if (result.found) {
            print_message("%s\n%s", result.what, result.story);
        }
        assert_false(result.found || result.stopped || result.cut > 0);
        _assert_string_equal(litmus_outcomes(), outcomes, __FILE__, line);
    }
}

#define PROGRAM(name, ...)                                                                         \
    static void name(void)                                                                         \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
#define EXPLORE(registers, outcomes, ...)                                                          \
    explore(__LINE__, (struct model_scenario){.threads = {__VA_ARGS__}}, registers, outcomes)
#define EXPLORE_LAST(registers, outcomes, last, ...)                                               \
    explore(__LINE__, (struct model_scenario){.threads = {__VA_ARGS__}, .finish = (last)},         \
            registers, outcomes)

/* --- message passing --- */

PROGRAM(mp_put_rlx, PUT(x, 1, RLX); PUT(y, 1, RLX))
PROGRAM(mp_put_rel, PUT(x, 1, RLX); PUT(y, 1, REL))
PROGRAM(mp_get_rlx, r[0] = GET(y, RLX); r[1] = GET(x, RLX))
PROGRAM(mp_get_acq, r[0] = GET(y, ACQ); r[1] = GET(x, RLX))
PROGRAM(mp_put_fence, PUT(x, 1, RLX); atomic_thread_fence(REL); PUT(y, 1, RLX))
PROGRAM(mp_get_fence, r[0] = GET(y, RLX); atomic_thread_fence(ACQ); r[1] = GET(x, RLX))

static void test_message_passing(void **state)
{
    (void)state;
    EXPLORE(2, "00 01 10 11", mp_put_rlx, mp_get_rlx);
    EXPLORE(2, "00 01 10 11", mp_put_rel, mp_get_rlx);
    EXPLORE(2, "00 01 10 11", mp_put_rlx, mp_get_acq);
    EXPLORE(2, "00 01 11", mp_put_rel, mp_get_acq);
    EXPLORE(2, "00 01 11", mp_get_acq, mp_put_rel);
    EXPLORE(2, "00 01 11", mp_put_fence, mp_get_acq);
    EXPLORE(2, "00 01 11", mp_put_rel, mp_get_fence);
    EXPLORE(2, "00 01 11", mp_put_fence, mp_get_fence);
    EXPLORE(2, "00 01 10 11", mp_put_fence, mp_get_rlx);
}

/* A read-modify-write of any order goes on with a release sequence, a plain store ends it. */
PROGRAM(rs_modify, (void)ADD(y, 1, RLX))
PROGRAM(rs_get, r[0] = GET(y, ACQ); r[1] = GET(x, RLX))
PROGRAM(rs_put_twice, PUT(x, 1, RLX); PUT(y, 1, REL); PUT(y, 2, RLX))

static void test_release_sequences(void **state)
{
    (void)state;
    /* y == 1 may be the release or the other's addition to 0; 2 is always behind the release. */
    EXPLORE(2, "00 01 10 11 21", mp_put_rel, rs_modify, rs_get);
    EXPLORE(2, "00 01 11 20 21", rs_put_twice, rs_get);
}

/* --- store buffering, load buffering --- */

PROGRAM(sb_a_rlx, PUT(x, 1, RLX); r[0] = GET(y, RLX))
PROGRAM(sb_b_rlx, PUT(y, 1, RLX); r[1] = GET(x, RLX))
PROGRAM(sb_a_ra, PUT(x, 1, REL); r[0] = GET(y, ACQ))
PROGRAM(sb_b_ra, PUT(y, 1, REL); r[1] = GET(x, ACQ))
PROGRAM(sb_a_sc, PUT(x, 1, SC); r[0] = GET(y, SC))
PROGRAM(sb_b_sc, PUT(y, 1, SC); r[1] = GET(x, SC))
PROGRAM(sb_a_fence, PUT(x, 1, RLX); atomic_thread_fence(SC); r[0] = GET(y, RLX))
PROGRAM(sb_b_fence, PUT(y, 1, RLX); atomic_thread_fence(SC); r[1] = GET(x, RLX))
PROGRAM(sb_a_rmw, (void)atomic_exchange_explicit(&x, 1, AR); r[0] = GET(y, RLX))
PROGRAM(sb_b_rmw, (void)atomic_exchange_explicit(&y, 1, AR); r[1] = GET(x, RLX))

static void test_store_buffering(void **state)
{
    (void)state;
    EXPLORE(2, "00 01 10 11", sb_a_rlx, sb_b_rlx);
    EXPLORE(2, "00 01 10 11", sb_a_ra, sb_b_ra);
    EXPLORE(2, "01 10 11", sb_a_sc, sb_b_sc);
    EXPLORE(2, "00 01 10 11", sb_a_sc, sb_b_ra);
    EXPLORE(2, "01 10 11", sb_a_fence, sb_b_fence);
    EXPLORE(2, "00 01 10 11", sb_a_fence, sb_b_rlx);
    EXPLORE(2, "00 01 10 11", sb_a_rmw, sb_b_rmw);
}

PROGRAM(lb_a_rlx, r[0] = GET(x, RLX); PUT(y, 1, RLX))
PROGRAM(lb_b_rlx, r[1] = GET(y, RLX); PUT(x, 1, RLX))
PROGRAM(lb_a_acq, r[0] = GET(x, ACQ); PUT(y, 1, RLX))
PROGRAM(lb_b_rel, r[1] = GET(y, RLX); PUT(x, 1, REL))
PROGRAM(lb_a_rel, r[0] = GET(x, RLX); PUT(y, 1, REL))
PROGRAM(lb_b_acq, r[1] = GET(y, ACQ); PUT(x, 1, RLX))
PROGRAM(lb_a_data, PUT(y, r[0] = GET(x, RLX), RLX))
PROGRAM(lb_b_data, PUT(x, r[1] = GET(y, RLX), RLX))
PROGRAM(
    lb_b_if, r[1] = GET(y, RLX); if (r[1] == 1) { PUT(x, 1, RLX); })
PROGRAM(
    lb_a_if, r[0] = GET(x, RLX); if (r[0] == 1) { PUT(y, 1, RLX); })
PROGRAM(
    lb_a_same, r[0] = GET(x, RLX); if (r[0] == 1) { PUT(y, 1, RLX); } else { PUT(y, 1, RLX); })
PROGRAM(lb_a_rmw, r[0] = ADD(x, 5, RLX); PUT(y, 1, RLX))

static void test_load_buffering(void **state)
{
    (void)state;
    EXPLORE(2, "00 01 10 11", lb_a_rlx, lb_b_rlx);
    EXPLORE(2, "00 01 10 11", lb_b_rlx, lb_a_rlx);
    /* One half of a release and an acquire orders nothing; both sides of one thread do. */
    EXPLORE(2, "00 01 10 11", lb_a_acq, lb_b_rlx);
    EXPLORE(2, "00 01 10", lb_a_acq, lb_b_rel);
    EXPLORE(2, "00 01 10", lb_a_rel, lb_b_acq);
    EXPLORE(2, "00 01 10 11", lb_a_rmw, lb_b_rlx);
    EXPLORE(2, "00 01 11", lb_a_same, lb_b_if);
}

static _Atomic uint32_t w;

PROGRAM(lb_c_rlx, r[2] = GET(z, RLX); PUT(w, 1, RLX))
PROGRAM(lb_d_rlx, r[3] = GET(w, RLX); PUT(z, 1, RLX))

static void test_load_buffering_twice_at_once(void **state)
{
    (void)state;
    EXPLORE(4, "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1010 1011 1100 1101 1110 1111",
            lb_a_rlx, lb_b_rlx, lb_c_rlx, lb_d_rlx);
}

PROGRAM(lb_mid_rlx, r[1] = GET(y, RLX); PUT(z, 1, RLX))
PROGRAM(lb_end_rel, r[2] = GET(z, RLX); PUT(x, 1, REL))
PROGRAM(lb_put_twice, r[0] = GET(x, RLX); PUT(x, 2, RLX); PUT(y, 1, RLX))
PROGRAM(lb_last, r[2] = GET(x, RLX))

static void test_load_buffering_round_three_threads(void **state)
{
    (void)state;
    /* One release and acquire in a circle of three orders nothing. */
    EXPLORE(3, "000 001 010 011 100 101 110 111", lb_a_acq, lb_mid_rlx, lb_end_rel);
    /* The store that is read late stands before one that was there. */
    EXPLORE_LAST(3, "001 002 011 012 102 112", lb_last, lb_put_twice, lb_b_rlx);
}

static void test_nothing_out_of_thin_air(void **state)
{
    (void)state;
    EXPLORE(2, "00", lb_a_data, lb_b_data);
    EXPLORE(2, "00", lb_a_if, lb_b_if);
    EXPLORE(2, "00 01 11", lb_a_rlx, lb_b_data);
}

/* --- coherence --- */

PROGRAM(co_put, PUT(x, 1, RLX); PUT(x, 2, RLX))
PROGRAM(co_get, r[0] = GET(x, RLX); r[1] = GET(x, RLX))
PROGRAM(co_get_more, r[2] = GET(x, RLX); r[3] = GET(x, RLX))
PROGRAM(co_put_1, PUT(x, 1, RLX))
PROGRAM(co_put_2, PUT(x, 2, RLX))
PROGRAM(co_read_put, r[0] = GET(x, RLX); PUT(x, 1, RLX))
PROGRAM(co_put_read, PUT(x, 1, RLX); r[0] = GET(x, RLX))
PROGRAM(co_last, r[1] = GET(x, RLX))
PROGRAM(co_put_x_y, PUT(x, 1, RLX); PUT(y, 2, RLX))
PROGRAM(co_put_y_x, PUT(y, 1, RLX); PUT(x, 2, RLX))
PROGRAM(co_last_x_y, r[0] = GET(x, RLX); r[1] = GET(y, RLX))

static void test_coherence(void **state)
{
    (void)state;
    EXPLORE(2, "00 01 02 11 12 22", co_put, co_get);
    /* All but going back to 0, and the two orders of 1 and 2 at once. */
    EXPLORE(4,
            "0000 0001 0002 0011 0012 0021 0022 0100 0101 0102 0111 0112 0121 0122 0200 0201 "
            "0202 0211 0212 0221 0222 1100 1101 1102 1111 1112 1121 1122 1200 1201 1202 1211 "
            "1212 1222 2100 2101 2102 2111 2121 2122 2200 2201 2202 2211 2212 2221 2222",
            co_put_1, co_put_2, co_get, co_get_more);
    EXPLORE_LAST(2, "01 02 21", co_last, co_read_put, co_put_2);
    EXPLORE_LAST(2, "11 12 22", co_last, co_put_read, co_put_2);
    /* 2+2W: the two orders of stores need not fit to any interleaving. */
    EXPLORE_LAST(2, "11 12 21 22", co_last_x_y, co_put_x_y, co_put_y_x);
}

/* --- more threads --- */

PROGRAM(iriw_x_rlx, PUT(x, 1, RLX))
PROGRAM(iriw_y_rlx, PUT(y, 1, RLX))
PROGRAM(iriw_x_rel, PUT(x, 1, REL))
PROGRAM(iriw_y_rel, PUT(y, 1, REL))
PROGRAM(iriw_x_sc, PUT(x, 1, SC))
PROGRAM(iriw_y_sc, PUT(y, 1, SC))
PROGRAM(iriw_a_acq, r[0] = GET(x, ACQ); r[1] = GET(y, ACQ))
PROGRAM(iriw_b_acq, r[2] = GET(y, ACQ); r[3] = GET(x, ACQ))
PROGRAM(iriw_a_sc, r[0] = GET(x, SC); r[1] = GET(y, SC))
PROGRAM(iriw_b_sc, r[2] = GET(y, SC); r[3] = GET(x, SC))

static void test_independent_reads_of_independent_writes(void **state)
{
    static const char all[] = "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1010 1011 1100 "
                              "1101 1110 1111";
    static const char sc[] = "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1011 1100 1101 "
                             "1110 1111";

    (void)state;
    EXPLORE(4, all, iriw_x_rlx, iriw_y_rlx, iriw_a_acq, iriw_b_acq);
    EXPLORE(4, all, iriw_x_rel, iriw_y_rel, iriw_a_acq, iriw_b_acq);
    EXPLORE(4, sc, iriw_x_sc, iriw_y_sc, iriw_a_sc, iriw_b_sc);
}

PROGRAM(wrc_b_rlx, r[0] = GET(x, RLX); PUT(y, 1, RLX))
PROGRAM(wrc_b_rel, r[0] = GET(x, RLX); PUT(y, 1, REL))
PROGRAM(wrc_b_ra, r[0] = GET(x, ACQ); PUT(y, 1, REL))
PROGRAM(wrc_c_acq, r[1] = GET(y, ACQ); r[2] = GET(x, RLX))

static void test_write_to_read_causality(void **state)
{
    (void)state;
    EXPLORE(3, "000 001 010 011 100 101 110 111", iriw_x_rel, wrc_b_rlx, wrc_c_acq);
    EXPLORE(3, "000 001 010 011 100 101 111", iriw_x_rel, wrc_b_ra, wrc_c_acq);
    /* What the middle one read happens not before it, but coherence does not let it be undone. */
    EXPLORE(3, "000 001 010 011 100 101 111", iriw_x_rlx, wrc_b_rel, wrc_c_acq);
}

/* --- read-modify-writes --- */

PROGRAM(rmw_a, r[0] = ADD(x, 1, RLX))
PROGRAM(rmw_b, r[1] = ADD(x, 1, RLX))
PROGRAM(rmw_c, r[2] = ADD(x, 1, RLX))
PROGRAM(rmw_last, r[3] = GET(x, RLX))

static uint32_t swap(uint32_t from, uint32_t to)
{
    uint32_t found = from;

    return atomic_compare_exchange_strong_explicit(&x, &found, to, RLX, RLX) ? 9 : found;
}

PROGRAM(cas_a, r[0] = swap(0, 1))
PROGRAM(cas_b, r[1] = swap(0, 2))
PROGRAM(cas_after, r[1] = swap(1, 2))
PROGRAM(cas_last, r[2] = GET(x, RLX))

static void test_read_modify_writes_are_atomic(void **state)
{
    (void)state;
    EXPLORE_LAST(4, "0123 0213 1023 1203 2013 2103", rmw_last, rmw_a, rmw_b, rmw_c);
    EXPLORE_LAST(3, "292 911", cas_last, cas_a, cas_b);
    EXPLORE_LAST(3, "901 992", cas_last, cas_a, cas_after);
}

/* --- what else is looked for --- */

static int data;

static void plain_put(bool late)
{
    if (!late) {
        model_plain(&data, sizeof data, true);
    }
    PUT(y, 1, REL);
    if (late) {
        model_plain(&data, sizeof data, true);
    }
}

PROGRAM(race_put, plain_put(false))
PROGRAM(race_put_late, plain_put(true))
PROGRAM(
    race_get_rlx, r[0] = GET(y, RLX); if (r[0] == 1) { model_plain(&data, 4, false); })
PROGRAM(
    race_get_acq, r[0] = GET(y, ACQ); if (r[0] == 1) { model_plain(&data, 4, false); })
PROGRAM(
    race_get_part, r[0] = GET(y, RLX);
    if (r[0] == 1) { model_plain((const char *)&data + 3, 1, false); })
PROGRAM(
    race_get_beside, r[0] = GET(y, RLX); if (r[0] == 1) { model_plain(&data + 1, 4, false); })

/* Explore; what was found, or "". */
static const char *find(struct model_scenario scenario)
{
    static struct model_result result;

    scenario.setup = litmus_setup;
    model_explore(&scenario, &result);
    return result.found ? result.what : "";
}

#define FIND(...) find((struct model_scenario){.threads = {__VA_ARGS__}})

static void test_races_of_plain_accesses_are_found(void **state)
{
    (void)state;
    assert_string_equal(FIND(race_put, race_get_acq), "");
    assert_non_null(strstr(FIND(race_put, race_get_rlx), "race"));
    assert_non_null(strstr(FIND(race_get_rlx, race_put), "race"));
    assert_non_null(strstr(FIND(race_put, race_get_part), "race"));
    assert_non_null(strstr(FIND(race_put_late, race_get_acq), "race"));
    assert_string_equal(FIND(race_put, race_get_beside), "");
}

PROGRAM(wait_y, r[0] = MODEL_AWAIT(&y))
PROGRAM(wait_x_or_stay, r[0] = MODEL_AWAIT_OR_STAY(&x))
PROGRAM(wait_put, PUT(y, 1, RLX))
PROGRAM(
    wait_put_unless, r[1] = GET(x, RLX); if (r[1] == 0) { PUT(y, 1, RLX); })
PROGRAM(wait_put_0, PUT(y, 0, RLX))

static void test_waiting_for_ever_is_found(void **state)
{
    (void)state;
    assert_string_equal(FIND(wait_y, wait_put), "");
    assert_string_equal(FIND(wait_put, wait_y), "");
    assert_non_null(strstr(FIND(wait_y, wait_put_0), "for ever"));
    assert_non_null(strstr(FIND(wait_y, wait_put, wait_put_0), "for ever"));
    assert_non_null(strstr(FIND(iriw_x_rlx, wait_y, wait_put_unless), "for ever"));
    assert_string_equal(FIND(wait_x_or_stay, wait_put), "");
}

PROGRAM(weak_a, {
    uint32_t found = 0;

    r[0] = atomic_compare_exchange_weak_explicit(&x, &found, 1, RLX, RLX);
    r[1] = found;
})

static void test_weak_swaps_may_fail_for_nothing(void **state)
{
    (void)state;
    for (unsigned most = 0; most < 2; most++) {
        explore(__LINE__,
                (struct model_scenario){.threads = {weak_a, co_put_2}, .spurious_max = most}, 2,
                most == 0 ? "02 10" : "00 02 10");
    }
}

static void check_fails(void)
{
    MODEL_CHECK(GET(y, RLX) == 0);
}

static void test_checks_that_do_not_hold_are_found(void **state)
{
    (void)state;
    assert_non_null(strstr(FIND(check_fails, wait_put), "GET(y, RLX) == 0"));
    assert_non_null(strstr(FIND(wait_put, check_fails), "GET(y, RLX) == 0"));
    assert_string_equal(FIND(check_fails, wait_put_0), "");
}

static void spin(void)
{
    while (GET(y, RLX) == 0) {
        r[0]++;
    }
}

static void test_endless_threads_are_cut_and_counted(void **state)
{
    const struct model_scenario scenario = {
        .setup = litmus_setup, .threads = {spin, wait_put}, .events_max = 10};
    struct model_result result;

    (void)state;
    model_explore(&scenario, &result);
    assert_false(result.found);
    assert_int_equal(result.cut, 1);
    assert_int_equal(result.executions, 10); /* the store is seen by any of ten loads */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_passing),
        cmocka_unit_test(test_release_sequences),
        cmocka_unit_test(test_store_buffering),
        cmocka_unit_test(test_load_buffering),
        cmocka_unit_test(test_load_buffering_twice_at_once),
        cmocka_unit_test(test_load_buffering_round_three_threads),
        cmocka_unit_test(test_nothing_out_of_thin_air),
        cmocka_unit_test(test_coherence),
        cmocka_unit_test(test_independent_reads_of_independent_writes),
        cmocka_unit_test(test_write_to_read_causality),
        cmocka_unit_test(test_read_modify_writes_are_atomic),
        cmocka_unit_test(test_races_of_plain_accesses_are_found),
        cmocka_unit_test(test_waiting_for_ever_is_found),
        cmocka_unit_test(test_weak_swaps_may_fail_for_nothing),
        cmocka_unit_test(test_endless_threads_are_cut_and_counted),
        cmocka_unit_test(test_checks_that_do_not_hold_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
