/*
 * test_fsm_repeats.c - a change of tags that stands in the log several times happens once, whatever
 * came in between: while its node waits for it, every copy is told the same; afterwards a copy is
 * refused. test_src/state/sessions.c has the sessions themselves.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/id/tests/id_apply.h"

#define OTHERS 6000 /* changes by another node, between two copies */

static struct put_result put(struct id_apply *a, uint32_t step)
{
    return id_apply_put(
        a, (struct tag_put){.name = "order", .fields = TAG_FIELD_STEP, .step = step}, false);
}

/* The last command, which its node awaits from now on. */
static struct buf awaited(struct id_apply *a)
{
    a->stamps.awaited[a->node_id] = a->stamps.seqs[a->node_id];
    return id_apply_copy(a);
}

/* The node awaits nothing any more, and has said so. */
static void answered(struct id_apply *a)
{
    struct buf noop = BUF_INIT;

    a->stamps.awaited[a->node_id] = 0;
    cluster_command_put(&noop, COMMAND_NOOP, NULL);
    id_apply_again(a, &noop);
    buf_free(&noop);
}

/* Another node changes another tag again and again. */
static void others(struct id_apply *a)
{
    for (uint32_t i = 0; i < OTHERS; i++) {
        const struct tag_put other = {.name = "other", .fields = TAG_FIELD_STEP, .step = 1 + i % 2};

        a->node_id = 2;
        assert_int_equal(id_apply_put(a, other, false).status, 0);
    }
    a->node_id = 1;
}

/* A copy comes and changes nothing. */
static void comes_again(struct id_apply *a, struct buf *copy)
{
    uint64_t digest = state_digest(fsm_state(a->fsm));

    id_apply_again(a, copy);
    assert_int_equal(a->changed, 0);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
}

static struct put_result put_again(struct id_apply *a, struct buf *copy)
{
    struct put_result result;

    comes_again(a, copy);
    assert_int_equal(put_result_decode(a->result.data, a->result.len, &result), 0);
    return result;
}

static int32_t delete_again(struct id_apply *a, struct buf *copy)
{
    int32_t status = 1;

    comes_again(a, copy);
    assert_int_equal(status_result_decode(a->result.data, a->result.len, &status), 0);
    return status;
}

static void refused_again(struct id_apply *a, struct buf *copy)
{
    comes_again(a, copy);
    assert_int_equal(id_apply_refused(a), ERR_STALE);
}

/* --- copies, late --- */

static void test_a_later_change_is_not_undone(void **state)
{
    struct id_apply *a = *state;
    struct put_result result;
    struct buf copy;

    assert_int_equal(put(a, 10).made, 1);
    copy = awaited(a);
    assert_int_equal(put(a, 20).changed, 1);
    others(a);
    result = put_again(a, &copy); /* late, from a slow link */
    assert_int_equal(result.status, 0);
    assert_int_equal(result.made, 1);
    assert_int_equal(id_apply_row(a, "order")->step, 20);
    answered(a);
    others(a);
    refused_again(a, &copy);
    assert_int_equal(id_apply_row(a, "order")->step, 20);
    buf_free(&copy);
}

static void test_a_tag_made_again_is_not_deleted(void **state)
{
    struct id_apply *a = *state;
    struct buf copy;

    (void)put(a, 10);
    assert_int_equal(id_apply_delete(a, "order"), 0);
    copy = awaited(a);
    (void)put(a, 30);
    others(a);
    assert_int_equal(delete_again(a, &copy), 0);
    assert_int_equal(id_apply_row(a, "order")->step, 30);
    assert_false(id_apply_row(a, "order")->deleted);
    answered(a);
    others(a);
    refused_again(a, &copy);
    assert_false(id_apply_row(a, "order")->deleted);
    buf_free(&copy);
}

static void test_a_tag_that_was_deleted_is_not_made(void **state)
{
    struct id_apply *a = *state;
    struct buf copy;

    (void)put(a, 10);
    copy = awaited(a);
    assert_int_equal(id_apply_delete(a, "order"), 0);
    assert_int_equal(put_again(a, &copy).made, 1);
    assert_true(id_apply_row(a, "order")->deleted);
    answered(a);
    refused_again(a, &copy);
    assert_true(id_apply_row(a, "order")->deleted);
    buf_free(&copy);
}

/* Who was told "no" must find that nothing was done. */
static void test_a_refusal_stays_one(void **state)
{
    struct id_apply *a = *state;
    struct tag_put lower = {.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 50};
    struct put_result result;
    struct buf deleted;
    struct buf lowered;

    assert_int_equal(id_apply_delete(a, "order"), ERR_UNKNOWN_TAG);
    deleted = awaited(a);
    (void)put(a, 10);
    assert_int_equal(delete_again(a, &deleted), ERR_UNKNOWN_TAG);
    assert_false(id_apply_row(a, "order")->deleted);
    (void)id_apply_grant(a, "order", 100);
    assert_int_equal(id_apply_put(a, lower, false).status, ERR_WOULD_REPEAT);
    lowered = awaited(a);
    assert_int_equal(
        id_apply_put(a, (struct tag_put){.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 1},
                     true)
            .status,
        0);
    result = put_again(a, &lowered);
    assert_int_equal(result.status, ERR_WOULD_REPEAT);
    assert_int_equal(result.asked, 50);
    assert_int_equal(id_apply_row(a, "order")->max_id, 1);
    buf_free(&deleted);
    buf_free(&lowered);
}

/* A late copy of an earlier start of the node: also if it never came before. */
static void test_a_start_ends_what_was_under_way_before(void **state)
{
    struct id_apply *a = *state;
    struct buf known;
    struct buf unknown = BUF_INIT;

    (void)put(a, 10);
    known = awaited(a);
    buf_put(&unknown, known.data, known.len);
    id_stamp_as(&unknown, 1, 1, 100, 1);
    a->next = (struct session_stamp){1, 2, 1, 1};
    assert_int_equal(put(a, 20).changed, 1);
    refused_again(a, &known);
    refused_again(a, &unknown);
    assert_int_equal(id_apply_row(a, "order")->step, 20);
    buf_free(&known);
    buf_free(&unknown);
}

static void test_numbers_of_nodes_are_apart(void **state)
{
    struct id_apply *a = *state;

    a->next = (struct session_stamp){1, 1, 9, 1};
    (void)put(a, 10);
    a->next = (struct session_stamp){2, 1, 9, 1};
    assert_int_equal(id_apply_delete(a, "order"), 0);
    assert_true(id_apply_row(a, "order")->deleted);
}

/* A number is one command's, whatever it does: the same number again is the same command. */
static void test_a_number_is_not_used_for_another_command(void **state)
{
    struct id_apply *a = *state;
    struct buf deletion = BUF_INIT;

    a->next = (struct session_stamp){1, 1, 9, 1};
    assert_int_equal(put(a, 10).made, 1);
    command_put(&deletion, COMMAND_TAG_DELETE,
                &(struct delete_command){.name = "order", .name_len = 5, .wall_ms = a->wall_ms});
    id_stamp_as(&deletion, 1, 1, 9, 1);
    assert_int_equal(put_again(a, &deletion).made, 1);
    assert_false(id_apply_row(a, "order")->deleted);
    buf_free(&deletion);
}

static void test_without_a_stamp_nothing_is_done(void **state)
{
    struct id_apply *a = *state;
    struct row_changes changes = {0};
    struct buf command = BUF_INIT;
    struct buf result = BUF_INIT;
    uint64_t digest;

    (void)put(a, 10);
    digest = state_digest(fsm_state(a->fsm));
    command_put(&command, COMMAND_TAG_DELETE,
                &(struct delete_command){.name = "order", .name_len = 5, .wall_ms = a->wall_ms});
    assert_int_equal(
        state_apply(fsm_state(a->fsm), ++a->index, 1, command.data, command.len, &result, &changes),
        ERR_BAD_MESSAGE);
    assert_int_equal(changes.count, 0);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    buf_free(&command);
    buf_free(&result);
}

static void test_it_outlives_a_reload(void **state)
{
    struct id_apply *a = *state;
    struct fsm *other = fsm_of(state_new(&fsm_machine));
    struct fsm *before = a->fsm;
    struct buf given_up;
    struct buf first;
    struct buf second;

    (void)put(a, 5);
    given_up = id_apply_copy(a);
    (void)put(a, 10);
    first = awaited(a);
    (void)put(a, 20);
    second = id_apply_copy(a);
    id_apply_load(a, other);
    a->fsm = other;
    assert_int_equal(put_again(a, &first).changed, 1);
    assert_int_equal(id_apply_row(a, "order")->step, 20);
    (void)put(a, 30);
    assert_int_equal(put_again(a, &second).changed, 1);
    refused_again(a, &given_up);
    assert_int_equal(id_apply_row(a, "order")->step, 30);
    state_free(fsm_state(before));
    buf_free(&given_up);
    buf_free(&first);
    buf_free(&second);
}

/* --- what copies are told --- */

static void test_repeated_put_is_told_the_same(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = {.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 10};
    struct put_result result = id_apply_put(a, put, false);
    struct buf made = awaited(a);
    struct buf changed;

    assert_int_equal(result.made, 1);
    assert_int_equal(put_again(a, &made).made, 1); /* still 201, and not 200 */
    (void)id_apply_grant(a, "order", 90);
    result = put_again(a, &made); /* would lower max_id by now */
    assert_int_equal(result.status, 0);
    assert_int_equal(result.made, 1);
    assert_int_equal(id_apply_row(a, "order")->max_id, 100);
    assert_int_equal(id_apply_put(a, put, false).status, ERR_WOULD_REPEAT);
    put.max_id = 200;
    assert_int_equal(id_apply_put(a, put, false).changed, 1);
    changed = id_apply_copy(a);
    assert_int_equal(put_again(a, &changed).changed, 1);
    assert_int_equal(id_apply_put(a, put, false).changed, 1); /* another one */
    assert_int_equal(a->changed, 1);
    buf_free(&made);
    buf_free(&changed);
}

static void test_repeated_force_lowers_once(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = {.name = "order", .fields = TAG_FIELD_MAX_ID | TAG_FIELD_STEP, .step = 5};
    struct grant_result result;
    struct buf copy;

    put.max_id = 100;
    assert_int_equal(id_apply_put(a, put, true).status, 0);
    put.max_id = 10;
    assert_int_equal(id_apply_put(a, put, true).status, 0);
    copy = awaited(a);
    result = id_apply_grant(a, "order", 0);
    assert_true(result.status == 0 && result.first == 10 && result.size == 5);
    assert_int_equal(put_again(a, &copy).status, 0);
    result = id_apply_grant(a, "order", 0);
    assert_true(result.status == 0 && result.first == 15 && result.size == 5);
    answered(a);
    refused_again(a, &copy);
    result = id_apply_grant(a, "order", 0);
    assert_true(result.status == 0 && result.first == 20 && result.size == 5);
    buf_free(&copy);
}

static void test_repeated_bulk_counts_again(void **state)
{
    struct id_apply *a = *state;
    const struct tag_put puts[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    struct put_result result;
    struct buf copy;

    assert_int_equal(id_apply_put(a, puts[1], false).made, 1);
    result = id_apply_puts(a, puts, 3, false);
    copy = awaited(a);
    assert_int_equal(a->changed, 3);
    for (unsigned round = 0; round < 2; round++) {
        assert_int_equal(result.made, 2);
        assert_int_equal(result.changed, 1);
        assert_memory_equal(result.first.name, "a", result.first.name_len);
        comes_again(a, &copy);
        assert_int_equal(put_result_decode(a->result.data, a->result.len, &result), 0);
    }
    buf_free(&copy);
}

static void test_repeated_delete_is_told_the_same(void **state)
{
    struct id_apply *a = *state;
    struct buf copy;

    (void)put(a, 10);
    assert_int_equal(id_apply_delete(a, "order"), 0);
    copy = awaited(a);
    assert_int_equal(delete_again(a, &copy), 0);
    assert_int_equal(id_apply_delete(a, "order"), ERR_UNKNOWN_TAG);
    (void)put(a, 10);
    assert_int_equal(id_apply_delete(a, "order"), 0); /* another one */
    assert_int_equal(a->changed, 1);
    buf_free(&copy);
}

/* Ids that were granted are granted once; the copy's segment is the first one's. */
static void test_repeated_grant_is_told_the_same(void **state)
{
    struct id_apply *a = *state;
    struct grant_result first;
    struct grant_result result;
    struct buf copy;
    size_t count = 0;

    (void)put(a, 10);
    first = id_apply_grant(a, "order", 10);
    copy = awaited(a);
    (void)id_apply_grant_to(a, 2, "order", 10);
    others(a);
    comes_again(a, &copy);
    assert_int_equal(
        results_decode(RESULT_GRANTS, a->result.data, a->result.len, &result, 1, &count), 0);
    assert_true(count == 1 && result.status == 0);
    assert_true(result.first == first.first && result.size == first.size);
    answered(a);
    refused_again(a, &copy);
    assert_true(id_apply_row(a, "order")->max_id == 21);
    buf_free(&copy);
}

/* --- the bound --- */

/* So many commands of a node are known at once, and a command that awaits one more is none. */
static void test_so_many_are_known(void **state)
{
    struct id_apply *a = *state;
    struct buf copies[LIMIT_SESSION_COMMANDS];
    struct buf noop = BUF_INIT;

    a->stamps.awaited[1] = 1;
    for (uint32_t i = 0; i < LIMIT_SESSION_COMMANDS; i++) {
        assert_int_equal(put(a, 1 + i).status, 0);
        copies[i] = id_apply_copy(a);
    }
    for (uint32_t i = 0; i < LIMIT_SESSION_COMMANDS; i++) {
        struct put_result result = put_again(a, &copies[i]);

        assert_int_equal(result.made, i == 0);
        assert_int_equal(result.changed, i > 0);
    }
    assert_int_equal(id_apply_row(a, "order")->step, LIMIT_SESSION_COMMANDS);
    cluster_command_put(&noop, COMMAND_NOOP, NULL);
    id_stamp_as(&noop, 1, 1, LIMIT_SESSION_COMMANDS + 1, 1);
    assert_int_equal(id_apply_bytes(a, &noop), ERR_BAD_MESSAGE);
    id_stamp_as(&noop, 1, 1, LIMIT_SESSION_COMMANDS + 1, 2); /* the first is over */
    assert_int_equal(id_apply_bytes(a, &noop), 0);
    refused_again(a, &copies[0]);
    for (uint32_t i = 1; i < LIMIT_SESSION_COMMANDS; i++) {
        assert_int_equal(put_again(a, &copies[i]).changed, 1);
    }
    for (uint32_t i = 0; i < LIMIT_SESSION_COMMANDS; i++) {
        buf_free(&copies[i]);
    }
    buf_free(&noop);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_apply_begin, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_a_later_change_is_not_undone),
        TEST(test_a_tag_made_again_is_not_deleted),
        TEST(test_a_tag_that_was_deleted_is_not_made),
        TEST(test_a_refusal_stays_one),
        TEST(test_a_start_ends_what_was_under_way_before),
        TEST(test_numbers_of_nodes_are_apart),
        TEST(test_a_number_is_not_used_for_another_command),
        TEST(test_without_a_stamp_nothing_is_done),
        TEST(test_it_outlives_a_reload),
        TEST(test_repeated_put_is_told_the_same),
        TEST(test_repeated_force_lowers_once),
        TEST(test_repeated_bulk_counts_again),
        TEST(test_repeated_delete_is_told_the_same),
        TEST(test_repeated_grant_is_told_the_same),
        TEST(test_so_many_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
