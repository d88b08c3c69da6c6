/*
 * test_fsm_sessions.c - commands are carried out once (session.h, sessions.c): repeats, late
 * copies, incarnations, bounds, and the rows of all that. Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"
#include "src/id/tests/id_random.h"

#define OTHERS 6000 /* more than any count that once made the state machine forget */

static struct id_apply *start(void **state)
{
    static struct id_apply apply;

    (void)state;
    id_apply_init(&apply);
    return &apply;
}

/* A put of the step of one tag, not stamped yet. */
static void put_step(struct buf *command, const char *name, uint32_t step)
{
    const struct tag_put put = {
        .name = name, .name_len = (uint16_t)strlen(name), .fields = TAG_FIELD_STEP, .step = step};

    command_put(command, COMMAND_TAGS_PUT, &(struct command_list){.force = false, .wall_ms = 1000});
    command_item_put(command, COMMAND_TAGS_PUT, &put);
    command_items_end(command);
}

static void apply_stamped(struct id_apply *a, struct buf *command, uint64_t node_id,
                          uint64_t incarnation, uint64_t seq, uint64_t lowest)
{
    id_stamp_as(command, node_id, incarnation, seq, lowest);
    assert_int_equal(id_apply_bytes(a, command), 0);
}

/* The last command was refused by its session. */
static void refused(const struct id_apply *a, int status, uint64_t incarnation)
{
    struct session_refusal refusal;

    assert_true(session_refusal_decode(a->result.data, a->result.len, &refusal));
    assert_int_equal(refusal.status, status);
    assert_int_equal(refusal.incarnation, incarnation);
}

/* An increment of tag "a" by node 2, under this stamp; 0: refused. */
static uint64_t grant_stamped(struct id_apply *a, uint64_t incarnation, uint64_t seq,
                              uint64_t lowest)
{
    const struct grant_item item = {"a", 1, 10};
    struct grant_result result = {0};
    struct buf command = BUF_INIT;
    size_t count = 0;

    command_put(&command, COMMAND_GRANT, &(struct command_list){.wall_ms = 1000});
    command_item_put(&command, COMMAND_GRANT, &item);
    command_items_end(&command);
    apply_stamped(a, &command, 2, incarnation, seq, lowest);
    buf_free(&command);
    if (results_decode(RESULT_GRANTS, a->result.data, a->result.len, &result, 1, &count) != 0) {
        return 0;
    }
    assert_int_equal(result.status, 0);
    return result.first;
}

static size_t answer_rows(const struct id_apply *a)
{
    size_t count = 0;

    for (size_t i = 0; i < a->row_count; i++) {
        count += a->rows[i].key.data[0] == STATE_TABLE_ANSWERS;
    }
    return count;
}

static void make(struct id_apply *a, const char *name)
{
    const struct put_result made = id_apply_put(a, (struct tag_put){.name = name}, false);

    assert_int_equal(made.status, 0);
}

/* --- repeats --- */

static void test_a_repeat_gets_the_same_answer_and_does_nothing(void **state)
{
    struct id_apply *a = start(state);
    struct buf first = BUF_INIT;
    uint64_t digest;

    make(a, "a");
    assert_int_equal(grant_stamped(a, 1, 1, 1), 1);
    buf_put(&first, a->result.data, a->result.len);
    digest = state_digest(fsm_state(a->fsm));
    assert_int_equal(grant_stamped(a, 1, 1, 1), 1); /* the same range */
    assert_int_equal(a->result.len, first.len);
    assert_memory_equal(a->result.data, first.data, first.len);
    assert_int_equal(a->changed, 0);
    assert_int_equal(id_apply_row(a, "a")->max_id, 11);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    buf_free(&first);
    id_apply_free(a);
}

/* Shows P5-again. */
static void test_a_late_change_does_not_undo_a_later_one(void **state)
{
    struct id_apply *a = start(state);
    struct buf late = BUF_INIT;
    char name[8];

    make(a, "a");
    put_step(&late, "a", 111);
    apply_stamped(a, &late, 2, 1, 1, 1);
    assert_int_equal(id_apply_row(a, "a")->step, 111);
    assert_int_equal(
        id_apply_put(a, (struct tag_put){.name = "a", .fields = TAG_FIELD_STEP, .step = 222}, false)
            .status,
        0);
    for (unsigned i = 0; i < OTHERS; i++) {
        struct buf other = BUF_INIT;

        (void)snprintf(name, sizeof name, "t%u", i % 50);
        put_step(&other, name, 1 + i);
        assert_int_equal(id_apply_as(a, 1 + 2 * (i % 2), &other), 0); /* of nodes 1 and 3 */
        buf_free(&other);
    }
    assert_int_equal(id_apply_bytes(a, &late), 0);
    assert_int_equal(id_apply_row(a, "a")->step, 222);
    buf_free(&late);
    id_apply_free(a);
}

static void test_what_is_not_awaited_is_dropped(void **state)
{
    struct id_apply *a = start(state);

    make(a, "a");
    assert_int_equal(grant_stamped(a, 1, 1, 1), 1);
    assert_int_equal(grant_stamped(a, 1, 3, 3), 11); /* 1 has its answer, and 2 was given up */
    assert_int_equal(grant_stamped(a, 1, 2, 1), 0);  /* that comes now */
    refused(a, ERR_STALE, 1);
    assert_int_equal(grant_stamped(a, 1, 1, 1), 0);
    refused(a, ERR_STALE, 1);
    assert_int_equal(id_apply_row(a, "a")->max_id, 21);
    assert_int_equal(grant_stamped(a, 1, 3, 3), 11);
    id_apply_free(a);
}

static void test_commands_may_overtake_each_other(void **state)
{
    struct id_apply *a = start(state);

    make(a, "a");
    assert_int_equal(grant_stamped(a, 1, 4, 1), 1);
    assert_int_equal(grant_stamped(a, 1, 2, 1), 11);
    assert_int_equal(grant_stamped(a, 1, 5, 2), 21);
    assert_int_equal(grant_stamped(a, 1, 3, 1), 31); /* an older stamp, but it is awaited */
    assert_int_equal(grant_stamped(a, 1, 2, 1), 11);
    assert_int_equal(grant_stamped(a, 1, 4, 1), 1);
    id_apply_free(a);
}

/* --- incarnations --- */

static void test_the_first_command_of_an_incarnation_ends_the_earlier_ones(void **state)
{
    struct id_apply *a = start(state);
    struct buf fence = BUF_INIT;

    make(a, "a");
    assert_int_equal(grant_stamped(a, 7, 1, 1), 1);
    assert_int_equal(grant_stamped(a, 7, 2, 1), 11); /* one on its way may come yet */
    cluster_command_put(&fence, COMMAND_NOOP, NULL);
    apply_stamped(a, &fence, 2, 9, 1, 1);
    assert_int_equal(grant_stamped(a, 7, 3, 1), 0);
    refused(a, ERR_STALE, 9);
    assert_int_equal(grant_stamped(a, 8, 1, 1), 0); /* of a start that never got so far */
    refused(a, ERR_STALE, 9);
    assert_int_equal(grant_stamped(a, 9, 2, 1), 21);
    assert_int_equal(id_apply_row(a, "a")->max_id, 31);
    buf_free(&fence);
    id_apply_free(a);
}

static void test_a_number_begins_again_in_a_new_incarnation(void **state)
{
    struct id_apply *a = start(state);

    make(a, "a");
    assert_int_equal(grant_stamped(a, 1, 600, 600), 1);
    assert_int_equal(grant_stamped(a, 2, 1, 1), 11);
    assert_int_equal(grant_stamped(a, 2, 1, 1), 11);
    assert_int_equal(answer_rows(a), 2); /* one of node 1, one of node 2 */
    id_apply_free(a);
}

static void test_a_node_that_was_removed_gets_nothing(void **state)
{
    const struct configuration both = {2, {{1, ROLE_VOTER, ""}, {2, ROLE_VOTER, ""}}};
    const struct configuration one = {1, {{1, ROLE_VOTER, ""}}};
    struct id_apply *a = start(state);
    struct row_changes changes = {0};

    make(a, "a");
    assert_int_equal(grant_stamped(a, 1, 1, 1), 1);
    state_configured(fsm_state(a->fsm), ++a->index, &both, &one, &changes);
    id_apply_keep(a, &changes);
    assert_int_equal(answer_rows(a), 1); /* node 1's */
    assert_int_equal(grant_stamped(a, 1, 1, 1), 0);
    refused(a, ERR_REMOVED, 0);
    assert_int_equal(grant_stamped(a, 2, 1, 1), 0);
    refused(a, ERR_REMOVED, 0);
    assert_int_equal(id_apply_row(a, "a")->max_id, 11);
    id_apply_free(a);
}

static void test_requests_that_nobody_waits_for(void **state)
{
    struct id_apply *a = start(state);

    make(a, "a");
    assert_false(state_session_is_over(fsm_state(a->fsm),
                                       &(struct session_stamp){2, 5, 1, 1})); /* unknown */
    (void)grant_stamped(a, 5, 4, 3);
    assert_true(state_session_is_over(fsm_state(a->fsm), &(struct session_stamp){2, 5, 2, 1}));
    assert_false(state_session_is_over(fsm_state(a->fsm), &(struct session_stamp){2, 5, 3, 1}));
    assert_true(state_session_is_over(fsm_state(a->fsm), &(struct session_stamp){2, 4, 9, 1}));
    assert_false(state_session_is_over(fsm_state(a->fsm), &(struct session_stamp){2, 6, 1, 1}));
    id_apply_free(a);
}

/* --- form --- */

static void test_only_the_first_entry_of_a_term_is_nobodys(void **state)
{
    struct id_apply *a = start(state);
    struct buf command = BUF_INIT;
    struct buf result = BUF_INIT;
    struct row_changes changes = {0};
    int32_t told = 0;

    cluster_command_put(&command, COMMAND_NOOP, NULL);
    assert_int_equal(
        state_apply(fsm_state(a->fsm), 1, 1, command.data, command.len, &result, &changes), 0);
    command.len = 0;
    put_step(&command, "a", 1);
    result.len = 0;
    assert_int_equal(
        state_apply(fsm_state(a->fsm), 2, 1, command.data, command.len, &result, &changes),
        ERR_BAD_MESSAGE);
    assert_int_equal(status_result_decode(result.data, result.len, &told), 0);
    assert_int_equal(told, ERR_BAD_MESSAGE);
    assert_int_equal(changes.count, 0);
    assert_null(fsm_tag(a->fsm, "a", 1));
    buf_free(&command);
    buf_free(&result);
    id_apply_free(a);
}

static void test_bytes_that_are_no_command_use_up_no_number(void **state)
{
    struct id_apply *a = start(state);
    struct buf command = BUF_INIT;

    make(a, "a");
    cluster_command_put(&command, COMMAND_NOOP, NULL);
    buf_put_u8(&command, 7); /* too long */
    id_stamp_as(&command, 2, 1, 1, 1);
    assert_int_equal(id_apply_bytes(a, &command), ERR_BAD_MESSAGE);
    assert_int_equal(answer_rows(a), 1);
    assert_int_equal(grant_stamped(a, 1, 1, 1), 1);
    buf_free(&command);
    id_apply_free(a);
}

static void test_a_node_tells_of_itself_alone(void **state)
{
    const struct node_info info = {
        .node_id = 3, .store_id = 9, .http_address = "elsewhere:1", .levels = {1, 1}};
    struct id_apply *a = start(state);
    struct buf command = BUF_INIT;

    cluster_command_put(&command, COMMAND_NODE_INFO, &info);
    id_stamp_as(&command, 2, 1, 1, 1);
    assert_int_equal(id_apply_bytes(a, &command), ERR_BAD_MESSAGE);
    assert_null(state_node(fsm_state(a->fsm), 3));
    id_stamp_as(&command, 3, 1, 1, 1);
    assert_int_equal(id_apply_bytes(a, &command), 0);
    assert_non_null(state_node(fsm_state(a->fsm), 3));
    buf_free(&command);
    id_apply_free(a);
}

/* --- bounds --- */

static void test_as_many_answers_as_a_node_may_wait_for(void **state)
{
    struct id_apply *a = start(state);

    make(a, "a");
    for (uint64_t seq = 1; seq <= LIMIT_SESSION_COMMANDS; seq++) {
        assert_int_equal(grant_stamped(a, 1, seq, 1), 10 * seq - 9);
    }
    assert_int_equal(answer_rows(a), LIMIT_SESSION_COMMANDS + 1);
    assert_int_equal(grant_stamped(a, 1, 1, 1), 1);
    assert_int_equal(grant_stamped(a, 1, 700, 1), 6991);
    /* One more lets go of the first, and so on; then of all at once. */
    assert_int_equal(grant_stamped(a, 1, LIMIT_SESSION_COMMANDS + 1, 2), 10241);
    assert_int_equal(answer_rows(a), LIMIT_SESSION_COMMANDS + 1);
    assert_int_equal(grant_stamped(a, 1, 1, 1), 0);
    assert_int_equal(grant_stamped(a, 1, 2, 1), 11);
    assert_int_equal(grant_stamped(a, 1, 5000, 5000), 10251);
    assert_int_equal(answer_rows(a), 2);
    id_apply_free(a);
}

static void test_sessions_of_as_many_nodes_as_there_may_be(void **state)
{
    struct id_apply *a = start(state);
    struct row_changes changes = {0};
    struct buf command = BUF_INIT;

    for (uint64_t node = LIMIT_SESSIONS; node > 0; node--) {
        command.len = 0;
        cluster_command_put(&command, COMMAND_NOOP, NULL);
        apply_stamped(a, &command, node, 1, 1, 1);
    }
    command.len = 0;
    cluster_command_put(&command, COMMAND_NOOP, NULL);
    apply_stamped(a, &command, LIMIT_SESSIONS + 1, 1, 1, 1);
    refused(a, ERR_OVERLOADED, 0);
    fsm_state(a->fsm)->journal.changes = &changes;
    sessions_removed(fsm_state(a->fsm), 5);
    fsm_state(a->fsm)->journal.changes = NULL;
    id_apply_keep(a, &changes);
    apply_stamped(a, &command, LIMIT_SESSIONS + 1, 1, 1, 1);
    assert_int_equal(fsm_state(a->fsm)->sessions.count, LIMIT_SESSIONS);
    assert_int_equal(answer_rows(a), LIMIT_SESSIONS);
    buf_free(&command);
    id_apply_free(a);
}

/* A strict batch whose answer is as large as can be. */
static void big_batch(struct id_apply *a, uint64_t seq, uint64_t lowest)
{
    const struct command_list head = {.key_limit = 1};
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_STRICT, &head);
    for (unsigned i = 0; i < LIMIT_STRICT_ITEMS; i++) {
        command_item_put(&command, COMMAND_STRICT,
                         &(struct strict_item){.name = "none", .name_len = 4, .count = 1});
    }
    command_items_end(&command);
    apply_stamped(a, &command, 2, 1, seq, lowest);
    buf_free(&command);
}

static void test_bytes_of_answers_have_a_bound(void **state)
{
    struct id_apply *a = start(state);
    const struct node_session *session;
    uint64_t seq = 0;

    make(a, "a");
    big_batch(a, ++seq, 1);
    session = fsm_state(a->fsm)->sessions.items[1];
    while (session->bytes < LIMIT_SESSION_BYTES) {
        big_batch(a, ++seq, 1);
        assert_true(session->bytes < LIMIT_SESSION_BYTES + 32768);
    }
    assert_int_equal(grant_stamped(a, 1, ++seq, 1), 0);
    refused(a, ERR_OVERLOADED, 1);
    assert_int_equal(grant_stamped(a, 1, seq, 1), 0); /* and that is its answer */
    refused(a, ERR_OVERLOADED, 1);
    assert_int_equal(id_apply_row(a, "a")->max_id, 1);
    assert_int_equal(grant_stamped(a, 1, seq + 1, 2), 1); /* 1 is not awaited any more */
    id_apply_free(a);
}

/* --- rows --- */

static const struct node_session *session_of(const struct fsm *fsm, uint64_t node_id)
{
    size_t i = 0;

    while (i < fsm_state(fsm)->sessions.count &&
           fsm_state(fsm)->sessions.items[i]->node_id != node_id) {
        i++;
    }
    assert_true(i < fsm_state(fsm)->sessions.count);
    return fsm_state(fsm)->sessions.items[i];
}

static void same_as_loaded(const struct id_apply *a)
{
    struct fsm *loaded = fsm_of(state_new(&fsm_machine));

    id_apply_load(a, loaded);
    assert_true(state_digest(fsm_state(loaded)) == state_digest(fsm_state(a->fsm)));
    assert_int_equal(fsm_state(loaded)->sessions.count, fsm_state(a->fsm)->sessions.count);
    for (size_t i = 0; i < fsm_state(loaded)->sessions.count; i++) {
        const struct node_session *left = fsm_state(a->fsm)->sessions.items[i];
        const struct node_session *right = session_of(loaded, left->node_id);

        assert_int_equal(left->incarnation, right->incarnation);
        assert_int_equal(left->lowest, right->lowest);
        assert_int_equal(left->bytes, right->bytes);
    }
    state_free(fsm_state(loaded));
}

static void test_sessions_survive_a_restart(void **state)
{
    struct id_apply *a = start(state);

    make(a, "a");
    assert_int_equal(grant_stamped(a, 3, 1, 1), 1);
    assert_int_equal(grant_stamped(a, 3, 2, 1), 11);
    assert_int_equal(grant_stamped(a, 3, 3, 2), 21);
    same_as_loaded(a);
    id_apply_load(a, a->fsm);
    assert_int_equal(grant_stamped(a, 3, 1, 1), 0);
    refused(a, ERR_STALE, 3);
    assert_int_equal(grant_stamped(a, 3, 2, 1), 11);
    assert_int_equal(grant_stamped(a, 2, 9, 9), 0);
    assert_int_equal(grant_stamped(a, 3, 4, 4), 31);
    same_as_loaded(a);
    id_apply_free(a);
}

/* Two state machines, one of which is loaded from its rows again and again, go the same way. */
static void test_sessions_after_any_commands_are_as_loaded(void **state)
{
    struct id_apply *a = start(state);
    struct prng prng;

    prng_seed(&prng, 1122);
    for (uint64_t step = 0; step < 12000; step++) {
        struct buf command = BUF_INIT;

        id_random_command(&prng, step, &command);
        (void)id_apply_bytes(a, &command);
        buf_free(&command);
        if (step % 500 == 499) {
            same_as_loaded(a);
        }
    }
    id_apply_free(a);
}

static void test_rows_that_no_apply_can_have_made(void **state)
{
    /* table, node, slot; version, incarnation, number, lowest, answer */
    static const struct {
        const char *key;
        const char *value;
        int err;
    } rows[] = {
        {"61 0000000000000002 0000",
         "01 0300000000000000 0500000000000000 0500000000000000 06000000 0183 00000000", 0},
        {"61 0000000000000002 0000",
         "01 0300000000000000 0600000000000000 0500000000000000 06000000 0183 00000000",
         ERR_EXISTS},
        {"61 0000000000000002 0001",
         "01 0300000000000000 0500000000000000 0500000000000000 06000000 0183 00000000",
         ERR_CORRUPT},
        {"61 0000000000000002 0001",
         "01 0400000000000000 0600000000000000 0500000000000000 06000000 0183 00000000",
         ERR_CORRUPT},
        {"61 0000000000000002 0400",
         "01 0300000000000000 0600000000000000 0500000000000000 06000000 0183 00000000",
         ERR_CORRUPT},
        {"61 0000000000000002 01",
         "01 0300000000000000 0600000000000000 0500000000000000 06000000 0183 00000000",
         ERR_CORRUPT},
        {"61 0000000000000000 0001",
         "01 0300000000000000 0600000000000000 0500000000000000 06000000 0183 00000000",
         ERR_CORRUPT},
        {"61 0000000000000003 0001",
         "01 0000000000000000 0600000000000000 0500000000000000 06000000 0183 00000000",
         ERR_CORRUPT},
        {"61 0000000000000003 0001",
         "01 0300000000000000 0600000000000000 0000000000000000 06000000 0183 00000000",
         ERR_CORRUPT},
        {"61 0000000000000003 0001",
         "01 0300000000000000 0600000000000000 0700000000000000 06000000 0183 00000000",
         ERR_CORRUPT},
        {"61 0000000000000003 0001", "01 0300000000000000 0600000000000000 0500000000000000",
         ERR_TRUNCATED},
        {"61 0000000000000003 0001",
         "02 0300000000000000 0600000000000000 0500000000000000 06000000 0183 00000000",
         ERR_BAD_VERSION},
    };
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));

    (void)state;
    state_load_begin(fsm_state(fsm));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(id_load_hex(fsm, rows[i].key, rows[i].value), rows[i].err);
    }
    assert_int_equal(state_load_end(fsm_state(fsm), 9), 0);
    state_load_begin(fsm_state(fsm)); /* an answer that the newest one let go of */
    assert_int_equal(
        id_load_hex(fsm, "61 0000000000000002 0000",
                    "01 0300000000000000 0500000000000000 0500000000000000 06000000 0183 00000000"),
        0);
    assert_int_equal(
        id_load_hex(fsm, "61 0000000000000002 0001",
                    "01 0300000000000000 0900000000000000 0600000000000000 06000000 0183 00000000"),
        0);
    assert_int_equal(state_load_end(fsm_state(fsm), 9), ERR_CORRUPT);
    state_free(fsm_state(fsm));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_repeat_gets_the_same_answer_and_does_nothing),
        cmocka_unit_test(test_a_late_change_does_not_undo_a_later_one),
        cmocka_unit_test(test_what_is_not_awaited_is_dropped),
        cmocka_unit_test(test_commands_may_overtake_each_other),
        cmocka_unit_test(test_the_first_command_of_an_incarnation_ends_the_earlier_ones),
        cmocka_unit_test(test_a_number_begins_again_in_a_new_incarnation),
        cmocka_unit_test(test_a_node_that_was_removed_gets_nothing),
        cmocka_unit_test(test_requests_that_nobody_waits_for),
        cmocka_unit_test(test_only_the_first_entry_of_a_term_is_nobodys),
        cmocka_unit_test(test_bytes_that_are_no_command_use_up_no_number),
        cmocka_unit_test(test_a_node_tells_of_itself_alone),
        cmocka_unit_test(test_as_many_answers_as_a_node_may_wait_for),
        cmocka_unit_test(test_sessions_of_as_many_nodes_as_there_may_be),
        cmocka_unit_test(test_bytes_of_answers_have_a_bound),
        cmocka_unit_test(test_sessions_survive_a_restart),
        cmocka_unit_test(test_sessions_after_any_commands_are_as_loaded),
        cmocka_unit_test(test_rows_that_no_apply_can_have_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
