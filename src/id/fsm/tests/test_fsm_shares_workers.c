/*
 * test_fsm_shares_workers.c - how many worker ids one client may hold: the bound and one beyond,
 * what counts and what does not, and that no order of commands gets around it.
 *
 * Thread: one.
 *
 * Shows attack-greedy.
 */
#include "src/tests/unit/test.h"
#include "src/id/tests/four_ids.h"

#define GREEDY 11
#define MODEST 12

static struct worker_acquire asking(const char *name, uint64_t client, unsigned most)
{
    struct worker_acquire ask = four_ids_asking(name);

    ask.kind = WORKER_CLIENT;
    ask.client = client;
    ask.most = (uint16_t)most;
    ask.percent = 50; /* two */
    return ask;
}

/* Of a client that may hold two. */
static struct worker_result acquire(struct id_apply *a, const char *name, uint64_t client)
{
    return id_apply_acquire(a, asking(name, client, 0));
}

static void obtains(struct worker_result result, uint32_t id)
{
    assert_int_equal(result.status, 0);
    assert_int_equal(result.row.id, id);
    assert_true(result.row.client == 0); /* which is nobody's business */
}

static void has_its_share(struct id_apply *a, struct worker_result result, unsigned held,
                          unsigned most)
{
    four_ids_refused(a, result, ERR_SHARE);
    assert_int_equal(result.held, held);
    assert_int_equal(result.most, most);
}

/* How many count for it. */
static unsigned held_by(const struct id_apply *a, uint64_t client)
{
    unsigned count = 0;

    for (uint32_t id = 0; id < 4; id++) {
        const struct worker_row *row = fsm_worker(a->fsm, id);

        count += row != NULL && row->client == client;
    }
    return count;
}

static void test_the_share_and_one_more(void **state)
{
    struct id_apply *a = *state;

    obtains(acquire(a, "a", GREEDY), 0);
    obtains(acquire(a, "b", GREEDY), 1);
    assert_int_equal(held_by(a, GREEDY), 2);
    has_its_share(a, acquire(a, "c", GREEDY), 2, 2);
    obtains(acquire(a, "c", MODEST), 2);
    has_its_share(a, acquire(a, "d", GREEDY), 2, 2);
    obtains(acquire(a, "d", MODEST), 3);
}

static void test_a_share_is_one_at_least(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = asking("a", GREEDY, 0);

    ask.percent = 1;
    obtains(id_apply_acquire(a, ask), 0);
    ask.name = "b";
    has_its_share(a, id_apply_acquire(a, ask), 1, 1);
}

static void test_an_allowance_goes_before_the_share(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask;

    obtains(id_apply_acquire(a, asking("a", GREEDY, 3)), 0);
    obtains(id_apply_acquire(a, asking("b", GREEDY, 3)), 1);
    obtains(id_apply_acquire(a, asking("c", GREEDY, 3)), 2);
    has_its_share(a, id_apply_acquire(a, asking("d", GREEDY, 3)), 3, 3);
    /* It is less from now on: what it has stays, and may be had anew. */
    has_its_share(a, id_apply_acquire(a, asking("d", GREEDY, 1)), 3, 1);
    ask = asking("b", GREEDY, 1);
    ask.worker_id = 1;
    obtains(id_apply_acquire(a, ask), 1);
    assert_int_equal(held_by(a, GREEDY), 3);
}

/* By the name of a wider layout, of which it may hold eight. */
static void test_a_wider_layout_is_no_way_round(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = asking("a", GREEDY, 0);

    id_apply_raise(a, 3);
    ask.bits = 4;
    for (ask.worker_id = 0; ask.worker_id < 2; ask.worker_id++) {
        obtains(id_apply_acquire(a, ask), ask.worker_id);
    }
    has_its_share(a, id_apply_acquire(a, ask), 2, 2);
    has_its_share(a, acquire(a, "b", GREEDY), 2, 2);
    for (ask.worker_id = 4; ask.worker_id < 10; ask.worker_id++) {
        obtains(id_apply_acquire(a, ask), ask.worker_id);
    }
    has_its_share(a, id_apply_acquire(a, ask), 8, 8);
    assert_int_equal(held_by(a, GREEDY), 2);
    obtains(acquire(a, "c", MODEST), 2);
}

static void test_what_it_has_already_is_no_more(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = asking("b", GREEDY, 0);

    obtains(acquire(a, "a", GREEDY), 0);
    obtains(acquire(a, "b", GREEDY), 1);
    ask.worker_id = 1;
    obtains(id_apply_acquire(a, ask), 1);
    assert_int_equal(held_by(a, GREEDY), 2);
}

static void test_nodes_are_not_counted(void **state)
{
    struct id_apply *a = *state;

    obtains(four_ids_acquire(a, "node-1"), 0);
    obtains(four_ids_acquire(a, "node-2"), 1);
    obtains(acquire(a, "a", GREEDY), 2);
    obtains(acquire(a, "b", GREEDY), 3);
    assert_int_equal(held_by(a, GREEDY), 2);
}

/* Else short windows would get it all: its epochs could renew them later. */
static void test_what_it_let_pass_goes_first(void **state)
{
    struct id_apply *a = *state;

    obtains(acquire(a, "a", GREEDY), 0);
    (void)id_apply_clock(a, T + 1000);
    obtains(acquire(a, "b", GREEDY), 1);
    assert_int_equal(id_apply_renew(a, four_ids_renewal(1, 1, T + 1000)).status, 0);
    (void)id_apply_clock(a, T + WINDOW);
    has_its_share(a, acquire(a, "c", GREEDY), 2, 2); /* not over yet */
    (void)id_apply_clock(a, T + WINDOW + 1);
    obtains(acquire(a, "c", GREEDY), 0);
    assert_int_equal(held_by(a, GREEDY), 2);
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(0, 1, T)), ERR_FENCED);
    assert_int_equal(id_apply_renew(a, four_ids_renewal(1, 1, T + WINDOW)).status, 0);
}

static void test_the_one_that_ended_first_goes(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = asking("a", GREEDY, 0);

    obtains(acquire(a, "m", MODEST), 0);
    ask.window_ms = 2 * WINDOW;
    obtains(id_apply_acquire(a, ask), 1);
    obtains(acquire(a, "b", GREEDY), 2);
    (void)id_apply_clock(a, T + 2 * WINDOW + 1);
    obtains(acquire(a, "c", GREEDY), 0);
    assert_int_equal(fsm_worker(a->fsm, 2)->state, WORKER_RELEASED);
    assert_int_equal(fsm_worker(a->fsm, 1)->state, WORKER_HELD);
}

/* The id that a name leaves for one of another zone does not count beside that. */
static void test_what_a_name_leaves_makes_room(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = asking("a", GREEDY, 0);

    id_apply_raise(a, 3);
    obtains(acquire(a, "b", GREEDY), 0);
    ask.window_ms = 2 * WINDOW;
    obtains(id_apply_acquire(a, ask), 1);
    (void)id_apply_clock(a, T + 2 * WINDOW + 1);
    assert_int_equal(id_apply_pools(a, "here=0-1,there=2-3"), 0);
    ask.zone = "there";
    obtains(id_apply_acquire(a, ask), 2);
    assert_int_equal(fsm_worker(a->fsm, 0)->state, WORKER_HELD);
    assert_int_equal(fsm_worker(a->fsm, 1)->state, WORKER_RELEASED);
}

static void test_a_renewal_in_time_keeps_it(void **state)
{
    struct id_apply *a = *state;

    obtains(acquire(a, "a", GREEDY), 0);
    obtains(acquire(a, "b", GREEDY), 1);
    (void)id_apply_clock(a, T + WINDOW + 1);
    assert_int_equal(id_apply_renew(a, four_ids_renewal(0, 1, T + WINDOW)).status, 0);
    assert_int_equal(id_apply_renew(a, four_ids_renewal(1, 1, T + WINDOW)).status, 0);
    has_its_share(a, acquire(a, "c", GREEDY), 2, 2);
}

static void test_more_than_one_may_have_to_go(void **state)
{
    struct id_apply *a = *state;

    obtains(acquire(a, "m", MODEST), 0);
    for (uint32_t id = 1; id < 4; id++) {
        obtains(id_apply_acquire(a, asking("a", GREEDY, 3)), id);
    }
    (void)id_apply_clock(a, T + WINDOW + 1);
    obtains(id_apply_acquire(a, asking("d", GREEDY, 1)), 0);
    assert_int_equal(held_by(a, GREEDY), 1);
}

static void test_whoever_takes_it_over_has_it(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = asking("a", MODEST, 0);

    obtains(acquire(a, "a", GREEDY), 0);
    obtains(acquire(a, "b", MODEST), 1);
    ask.worker_id = 0;
    ask.force = true;
    obtains(id_apply_acquire(a, ask), 0);
    assert_int_equal(held_by(a, GREEDY), 0);
    assert_int_equal(held_by(a, MODEST), 2);
    obtains(acquire(a, "c", GREEDY), 2);
    has_its_share(a, acquire(a, "c", MODEST), 2, 2);
}

static void test_a_late_repeat_counts_once(void **state)
{
    struct id_apply *a = *state;
    struct worker_result result;
    struct buf copy;

    obtains(acquire(a, "a", GREEDY), 0);
    copy = id_apply_copy(a);
    a->stamps.awaited[1] = a->stamps.seqs[1];
    obtains(acquire(a, "b", GREEDY), 1);
    id_apply_again(a, &copy);
    assert_int_equal(worker_result_decode(a->result.data, a->result.len, &result), 0);
    obtains(result, 0); /* as it was told, and no more */
    assert_int_equal(a->changed, 0);
    assert_int_equal(held_by(a, GREEDY), 2);
    a->stamps.awaited[1] = 0; /* and once nobody waits for it any more */
    has_its_share(a, acquire(a, "c", GREEDY), 2, 2);
    id_apply_again(a, &copy);
    assert_int_equal(id_apply_refused(a), ERR_STALE);
    assert_int_equal(held_by(a, GREEDY), 2);
    has_its_share(a, acquire(a, "d", GREEDY), 2, 2);
    buf_free(&copy);
}

static void test_it_holds_behind_a_restart(void **state)
{
    struct id_apply *a = *state;
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));

    obtains(acquire(a, "a", GREEDY), 0);
    obtains(acquire(a, "b", GREEDY), 1);
    id_apply_load(a, loaded);
    state_free(fsm_state(a->fsm));
    a->fsm = loaded;
    has_its_share(a, acquire(a, "c", GREEDY), 2, 2);
    obtains(acquire(a, "c", MODEST), 2);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, four_ids_setup, id_apply_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_share_and_one_more),
        TEST(test_a_share_is_one_at_least),
        TEST(test_an_allowance_goes_before_the_share),
        TEST(test_a_wider_layout_is_no_way_round),
        TEST(test_what_it_has_already_is_no_more),
        TEST(test_nodes_are_not_counted),
        TEST(test_what_it_let_pass_goes_first),
        TEST(test_the_one_that_ended_first_goes),
        TEST(test_what_a_name_leaves_makes_room),
        TEST(test_a_renewal_in_time_keeps_it),
        TEST(test_more_than_one_may_have_to_go),
        TEST(test_whoever_takes_it_over_has_it),
        TEST(test_a_late_repeat_counts_once),
        TEST(test_it_holds_behind_a_restart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
