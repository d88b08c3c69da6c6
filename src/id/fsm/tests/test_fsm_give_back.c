/*
 * test_fsm_give_back.c - ranges that are given back: by compare-and-set, each once.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/id/tests/id_apply.h"

static int setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    id_apply_mode(a, "order", TAG_MODE_TREND);
    return 0;
}

static void grant_is(struct grant_result result, uint64_t first, uint32_t size)
{
    assert_int_equal(result.status, 0);
    assert_true(result.first == first);
    assert_int_equal(result.size, size);
}

static void max_id_is(struct id_apply *a, uint64_t max_id)
{
    assert_true(id_apply_row(a, "order")->max_id == max_id);
}

/* Refused, and then nothing has changed. */
static void refused(struct id_apply *a, struct give_back_item item)
{
    uint64_t digest = id_apply_digest(a);

    assert_int_equal(id_apply_give_back(a, item), ERR_CONFLICT);
    assert_int_equal(a->changed, 0);
    assert_true(id_apply_digest(a) == digest);
}

static void test_the_top_is_given_back_and_granted_again(void **state)
{
    struct id_apply *a = *state;

    grant_is(id_apply_grant(a, "order", 1000), 1, 1000);
    a->wall_ms = 2000;
    assert_int_equal(id_apply_give_back(a, (struct give_back_item){"order", 0, 1, 401, 1001}), 0);
    assert_int_equal(a->changed, 1);
    max_id_is(a, 401);
    assert_int_equal(id_apply_row(a, "order")->generation, 1);
    assert_int_equal(id_apply_row(a, "order")->updated_ms, 2000);
    grant_is(id_apply_grant_to(a, 2, "order", 100), 401, 100);
}

/* Shows lesson-no-write-back, lesson-fence. */
static void test_only_by_compare_and_set(void **state)
{
    struct id_apply *a = *state;
    const struct give_back_item good = {"order", 0, 1, 401, 1001};
    struct give_back_item item = good;

    (void)id_apply_grant(a, "order", 1000);
    item.end = 1000; /* not the top */
    refused(a, item);
    item.end = 1002; /* never granted */
    refused(a, item);
    item = good;
    item.generation = 0;
    refused(a, item);
    item.generation = 2;
    refused(a, item);
    item = good;
    item.name = "orde";
    refused(a, item);
    (void)id_apply_grant_to(a, 2, "order", 1); /* another range lies above it now */
    refused(a, good);
    max_id_is(a, 1002);
}

/* A copy of a command of node 1 comes, and does nothing: it is answered as it was before, or
 * refused if the node awaits it no more. */
static void copy_does_nothing(struct id_apply *a, struct buf *copy, bool awaited)
{
    uint64_t digest = state_digest(fsm_state(a->fsm));
    int32_t status = 1;
    size_t count = 0;

    id_apply_again(a, copy);
    assert_int_equal(a->changed, 0);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    assert_int_equal(id_apply_refused(a), awaited ? 0 : ERR_STALE);
    if (awaited) {
        assert_int_equal(
            results_decode(RESULT_STATUSES, a->result.data, a->result.len, &status, 1, &count), 0);
        assert_true(count == 1 && status == 0);
    }
}

/* The ABA of ranges: given back, granted again with the very same end, and then a copy of the old
 * command comes. Carried out, it would hand out node 2's ids to a third node. */
/* Shows P1-back, lesson-no-write-back. */
static void test_a_late_copy_after_the_range_was_granted_again_does_nothing(void **state)
{
    struct id_apply *a = *state;
    const struct give_back_item item = {"order", 0, 1, 401, 1001};
    struct buf copy;

    for (unsigned awaited = 0; awaited < 2; awaited++) {
        id_apply_free(a);
        id_apply_init(a);
        id_apply_mode(a, "order", TAG_MODE_TREND);
        grant_is(id_apply_grant_to(a, 1, "order", 1000), 1, 1000);
        assert_int_equal(id_apply_give_back(a, item), 0);
        copy = id_apply_copy(a);
        a->stamps.awaited[1] = awaited ? a->stamps.seqs[1] : 0;
        copy_does_nothing(a, &copy, true); /* at once */
        (void)id_apply_grant_to(a, 1, "none", 1);
        max_id_is(a, 401);
        copy_does_nothing(a, &copy, awaited);
        grant_is(id_apply_grant_to(a, 2, "order", 600), 401, 600);
        max_id_is(a, 1001);
        copy_does_nothing(a, &copy, awaited);
        max_id_is(a, 1001);
        grant_is(id_apply_grant_to(a, 3, "order", 10), 1001, 10);
        assert_int_equal(id_apply_give_back(a, (struct give_back_item){"order", 0, 1, 1001, 1011}),
                         0);
        copy_does_nothing(a, &copy, awaited);
        max_id_is(a, 1001);
        assert_int_equal(id_apply_give_back(a, (struct give_back_item){"order", 0, 1, 500, 1001}),
                         0);
        max_id_is(a, 500);
        buf_free(&copy);
    }
}

/* The first copy to come is late: its node gave it up, or is another incarnation by now. Ids that
 * it would give back may have been granted again by another command of the same range. */
static void test_what_was_given_up_is_not_carried_out(void **state)
{
    struct id_apply *a = *state;
    const struct give_back_item item = {"order", 5, 1, 401, 1001};
    struct buf command = BUF_INIT;
    uint64_t digest;

    grant_is(id_apply_grant(a, "order", 1000), 1, 1000);
    command_put(&command, COMMAND_GIVE_BACK, &(struct command_list){.wall_ms = a->wall_ms});
    command_item_put(&command, COMMAND_GIVE_BACK, &item);
    command_items_end(&command);
    id_stamp(&a->stamps, 1, &command);
    (void)id_apply_grant(a, "none", 1); /* says that the one before is over */
    digest = state_digest(fsm_state(a->fsm));
    id_apply_again(a, &command);
    assert_int_equal(id_apply_refused(a), ERR_STALE);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    a->next = (struct session_stamp){1, 2, 1, 1};
    (void)id_apply_grant(a, "none", 1);
    digest = state_digest(fsm_state(a->fsm));
    id_stamp_as(&command, 1, 1, 99, 99); /* of the incarnation before */
    id_apply_again(a, &command);
    assert_int_equal(id_apply_refused(a), ERR_STALE);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    max_id_is(a, 1001);
    buf_free(&command);
}

/* A copy that comes behind a new incarnation of the name. */
static void test_copies_behind_delete_force_and_mode(void **state)
{
    struct id_apply *a = *state;
    const struct tag_put down = {.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 1};
    struct buf copy;

    (void)id_apply_grant(a, "order", 1000);
    assert_int_equal(id_apply_give_back(a, (struct give_back_item){"order", 0, 1, 5, 1001}), 0);
    copy = id_apply_copy(a);
    a->stamps.awaited[1] = a->stamps.seqs[1];
    assert_int_equal(id_apply_delete(a, "order"), 0);
    refused(a, (struct give_back_item){"order", 0, 2, 1, 5}); /* a tombstone */
    copy_does_nothing(a, &copy, true);
    id_apply_mode(a, "order", TAG_MODE_TREND);
    assert_int_equal(id_apply_row(a, "order")->generation, 3);
    max_id_is(a, 5);
    (void)id_apply_grant(a, "order", 1000);
    refused(a, (struct give_back_item){"order", 0, 1, 5, 1005}); /* of an earlier generation */
    copy_does_nothing(a, &copy, true);
    assert_int_equal(id_apply_give_back(a, (struct give_back_item){"order", 0, 3, 5, 1005}), 0);
    max_id_is(a, 5);
    assert_int_equal(id_apply_put(a, down, true).status, 0);
    max_id_is(a, 1);
    (void)id_apply_grant(a, "order", 1000);
    copy_does_nothing(a, &copy, true);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    copy_does_nothing(a, &copy, true);
    max_id_is(a, 1001);
    buf_free(&copy);
}

/* Nothing of a strict tag is ever given back. */
static void test_not_in_strict_mode(void **state)
{
    struct id_apply *a = *state;
    uint32_t generation;

    (void)id_apply_grant(a, "order", 1000);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    generation = id_apply_row(a, "order")->generation;
    assert_int_equal(generation, 2);
    refused(a, (struct give_back_item){"order", 0, 1, 401, 1001});
    refused(a, (struct give_back_item){"order", 0, generation, 401, 1001});
}

/* max_id may fall: a put is held against what is not granted any more. */
static void test_max_id_may_be_put_where_it_was_given_back(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = {.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 600};

    (void)id_apply_grant(a, "order", 1000);
    assert_int_equal(id_apply_put(a, put, false).status, ERR_WOULD_REPEAT);
    assert_int_equal(id_apply_give_back(a, (struct give_back_item){"order", 0, 1, 401, 1001}), 0);
    put.max_id = 400;
    assert_int_equal(id_apply_put(a, put, false).status, ERR_WOULD_REPEAT);
    put.max_id = 600;
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_int_equal(id_apply_row(a, "order")->generation, 2); /* it was 401 */
    grant_is(id_apply_grant(a, "order", 10), 600, 10);
}

/* Ids below a raised max_id are in use elsewhere: nodes must not go on with those they hold. */
static void test_put_raises_max_id_in_a_new_generation(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = {.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 501};
    uint32_t generation = id_apply_row(a, "order")->generation;

    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_int_equal(id_apply_row(a, "order")->generation, generation + 1);
    put.fields = TAG_FIELD_STEP; /* says nothing of the ids */
    put.step = 7;
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_int_equal(id_apply_row(a, "order")->generation, generation + 1);
    put.fields = TAG_FIELD_MAX_ID;
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    put.max_id = 502; /* nobody holds any of a strict tag */
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_int_equal(id_apply_row(a, "order")->generation, generation + 2);
    assert_int_equal(id_apply_row(a, "order")->max_id, 502);
}

/* max_id is put where it is, because others used the ids below: those that a node holds there must
 * neither be handed out nor come back. */
static void test_put_of_the_same_max_id_is_a_new_generation(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = {.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 1001};

    grant_is(id_apply_grant(a, "order", 1000), 1, 1000);
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_int_equal(id_apply_row(a, "order")->generation, 2);
    assert_int_equal(id_apply_give_back(a, (struct give_back_item){"order", 0, 1, 401, 1001}),
                     ERR_CONFLICT);
    assert_int_equal(id_apply_row(a, "order")->max_id, 1001);
    grant_is(id_apply_grant(a, "order", 10), 1001, 10);
}

static void test_many_in_one_command_stand_each_for_itself(void **state)
{
    struct id_apply *a = *state;
    struct buf command = BUF_INIT;
    int32_t statuses[4];
    size_t count = 0;

    id_apply_mode(a, "b", TAG_MODE_TREND);
    (void)id_apply_grant(a, "order", 1000);
    (void)id_apply_grant(a, "b", 50);
    command_put(&command, COMMAND_GIVE_BACK, &(struct command_list){.wall_ms = a->wall_ms});
    command_item_put(&command, COMMAND_GIVE_BACK,
                     &(struct give_back_item){"order", 5, 1, 901, 1001});
    command_item_put(&command, COMMAND_GIVE_BACK, &(struct give_back_item){"b", 1, 2, 11, 51});
    command_item_put(&command, COMMAND_GIVE_BACK, &(struct give_back_item){"b", 1, 1, 11, 51});
    command_item_put(&command, COMMAND_GIVE_BACK,
                     &(struct give_back_item){"order", 5, 1, 801, 901});
    command_items_end(&command);
    assert_int_equal(id_apply_bytes(a, &command), 0);
    assert_int_equal(
        results_decode(RESULT_STATUSES, a->result.data, a->result.len, statuses, 4, &count), 0);
    assert_int_equal(count, 4);
    assert_true(statuses[0] == 0 && statuses[1] == ERR_CONFLICT);
    assert_true(statuses[2] == 0 && statuses[3] == 0);
    max_id_is(a, 801);
    assert_true(id_apply_row(a, "b")->max_id == 11);
    buf_free(&command);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_the_top_is_given_back_and_granted_again),
        TEST(test_only_by_compare_and_set),
        TEST(test_a_late_copy_after_the_range_was_granted_again_does_nothing),
        TEST(test_what_was_given_up_is_not_carried_out),
        TEST(test_copies_behind_delete_force_and_mode),
        TEST(test_not_in_strict_mode),
        TEST(test_max_id_may_be_put_where_it_was_given_back),
        TEST(test_put_raises_max_id_in_a_new_generation),
        TEST(test_put_of_the_same_max_id_is_a_new_generation),
        TEST(test_many_in_one_command_stand_each_for_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
