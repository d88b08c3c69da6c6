/*
 * test_fsm_workers_repeats.c - commands on worker ids that come again: what is awaited is told the
 * same, what is over is refused, and neither changes anything.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/id/tests/four_ids.h"

/* The command comes once more: what it is told. */
static struct worker_result again(struct id_apply *a, struct buf *copy)
{
    struct worker_result result;

    id_apply_again(a, copy);
    assert_int_equal(worker_result_decode(a->result.data, a->result.len, &result), 0);
    return result;
}

static void test_repeated_acquire_changes_nothing(void **state)
{
    struct id_apply *a = *state;
    struct worker_acquire ask = four_ids_asking("a");
    struct buf first;
    struct buf fourth;
    uint64_t digest;

    four_ids_granted(id_apply_acquire(a, ask), 0, 1, 0, T + WINDOW);
    first = id_apply_copy(a);
    a->stamps.awaited[1] = a->stamps.seqs[1];
    (void)id_apply_renew(a, four_ids_renewal(0, 1, T + 1));
    digest = state_digest(fsm_state(a->fsm));
    four_ids_granted(again(a, &first), 0, 1, 0,
                     T + WINDOW); /* what it was told, and not what is now */
    assert_int_equal(a->changed, 0);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    /* Another one. */
    four_ids_granted(id_apply_acquire(a, ask), 0, 2, T + 1 + WINDOW, T + 1 + 2 * WINDOW);
    ask.name = "b"; /* another node's command of the same number */
    a->next = (struct session_stamp){2, 1, a->stamps.seqs[1], 1};
    four_ids_granted(id_apply_acquire(a, ask), 1, 1, 0, T + WINDOW);
    four_ids_granted(id_apply_acquire(a, ask), 1, 2, T + WINDOW, T + 2 * WINDOW);
    four_ids_granted(id_apply_acquire(a, ask), 1, 3, T + 2 * WINDOW, T + 3 * WINDOW);
    /* Released since: the epoch is over, whoever still waits for it. */
    four_ids_granted(id_apply_acquire(a, ask), 1, 4, T + 3 * WINDOW, T + 4 * WINDOW);
    fourth = id_apply_copy(a);
    (void)id_apply_release(a, (struct worker_release){1, 4, T + 3 * WINDOW, WORKER_NODE, 0, false});
    digest = state_digest(fsm_state(a->fsm));
    four_ids_granted(again(a, &fourth), 1, 4, T + 3 * WINDOW, T + 4 * WINDOW);
    assert_int_equal(a->changed, 0);
    four_ids_granted(again(a, &first), 0, 1, 0, T + WINDOW);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    assert_int_equal(fsm_worker(a->fsm, 1)->state, WORKER_RELEASED);
    assert_true(fsm_worker(a->fsm, 1)->epoch == 4);
    four_ids_refused(a, id_apply_renew(a, four_ids_renewal(1, 4, T)),
                     ERR_FENCED); /* which tells so */
    buf_free(&first);
    buf_free(&fourth);
}

/* An acquire that its node gave up, or of a start before, must not make an epoch that nobody knows
 * of; a release must not end a later one. */
static void test_late_copies_of_what_is_over_do_nothing(void **state)
{
    struct id_apply *a = *state;
    struct buf acquired;
    struct buf released;
    struct buf unseen = BUF_INIT;
    uint64_t digest;

    four_ids_granted(four_ids_acquire(a, "a"), 0, 1, 0, T + WINDOW);
    acquired = id_apply_copy(a);
    assert_int_equal(
        id_apply_release(a, (struct worker_release){0, 1, T, WORKER_NODE, 0, false}).status, 0);
    released = id_apply_copy(a);
    four_ids_granted(four_ids_acquire(a, "a"), 0, 2, T, T + WINDOW);
    digest = state_digest(fsm_state(a->fsm));
    id_apply_again(a, &acquired);
    assert_int_equal(id_apply_refused(a), ERR_STALE);
    id_apply_again(a, &released);
    assert_int_equal(id_apply_refused(a), ERR_STALE);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    /* One that never came before, of the node's start before this one. */
    a->next = (struct session_stamp){1, 2, 1, 1};
    assert_int_equal(id_apply_clock(a, T + 1), 0);
    digest = state_digest(fsm_state(a->fsm));
    buf_put(&unseen, acquired.data, acquired.len);
    id_stamp_as(&unseen, 1, 1, 100, 100);
    id_apply_again(a, &unseen);
    assert_int_equal(id_apply_refused(a), ERR_STALE);
    assert_int_equal(a->changed, 0);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    assert_true(fsm_worker(a->fsm, 0)->epoch == 2);
    assert_int_equal(fsm_worker(a->fsm, 0)->state, WORKER_HELD);
    buf_free(&acquired);
    buf_free(&released);
    buf_free(&unseen);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, four_ids_setup, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_repeated_acquire_changes_nothing),
        TEST(test_late_copies_of_what_is_over_do_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
