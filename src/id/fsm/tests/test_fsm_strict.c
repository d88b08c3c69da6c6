/*
 * test_fsm_strict.c - strict batches: what each item is told, and that each batch is applied once.
 * Idempotency keys are in test_fsm_keys.c, changes of mode in test_fsm_recall.c, random
 * interleavings in test_fsm_strict_model.c.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"
#include "src/tests/unit/hex.h"

#define OTHER 200 /* the node that changes tags */
#define AWAITS 8  /* commands that a node awaits, with the last one */

static int setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    a->node_id = OTHER;
    id_apply_mode(a, "a", TAG_MODE_STRICT);
    id_apply_mode(a, "b", TAG_MODE_STRICT);
    return 0;
}

/* The next batch is the node's command seq in the incarnation, and it awaits so many. */
static struct command_list batch(struct id_apply *a, uint64_t node_id, uint64_t incarnation,
                                 uint64_t seq)
{
    a->next =
        (struct session_stamp){node_id, incarnation, seq, seq > AWAITS ? seq - AWAITS + 1 : 1};
    return (struct command_list){.key_limit = 10};
}

/* The batch takes one id of "a": its result. */
static struct strict_result take(struct id_apply *a, uint64_t node_id, uint64_t incarnation,
                                 uint64_t seq)
{
    const struct strict_item item = {.name = "a", .count = 1};
    struct strict_result result;

    id_apply_strict(a, batch(a, node_id, incarnation, seq), &item, 1, &result);
    return result;
}

static void gives(struct strict_result result, uint64_t first)
{
    assert_int_equal(result.status, 0);
    assert_true(result.first == first && !result.replayed);
}

static void max_id_is(struct id_apply *a, const char *name, uint64_t max_id)
{
    assert_true(id_apply_row(a, name)->max_id == max_id);
}

/* --- items --- */

static void test_items_are_allocated_in_order(void **state)
{
    struct id_apply *a = *state;
    const struct strict_item items[6] = {
        {.name = "a", .count = 1},    {.name = "a", .count = LIMIT_COUNT},
        {.name = "none", .count = 1}, {.name = "b", .count = 5},
        {.name = "a", .count = 2},    {.name = "a", .count = 1},
    };
    struct strict_result results[6];

    a->wall_ms = 5000;
    id_apply_strict(a, batch(a, 1, 1, 1), items, 6, results);
    gives(results[0], 1);
    gives(results[1], 2);
    assert_int_equal(results[2].status, ERR_UNKNOWN_TAG);
    gives(results[3], 1);
    gives(results[4], LIMIT_COUNT + 2);
    gives(results[5], LIMIT_COUNT + 4);
    max_id_is(a, "a", LIMIT_COUNT + 5);
    max_id_is(a, "b", 6);
    assert_int_equal(results[0].generation, 1);
    assert_int_equal(id_apply_row(a, "a")->updated_ms, 5000);
    assert_int_equal(a->changed, 3); /* a in two runs, and b */
    a->wall_ms = 4000;
    (void)take(a, 1, 1, 2);
    assert_int_equal(id_apply_row(a, "a")->updated_ms, 5000); /* a clock that is behind */
    assert_int_equal(a->changed, 1);
}

static void test_items_of_other_tags_are_told_so(void **state)
{
    struct id_apply *a = *state;
    const struct strict_item items[4] = {{.name = "trend", .count = 1},
                                         {.name = "gone", .count = 1},
                                         {.name = "none", .count = 1},
                                         {.name = "", .count = 1}};
    struct strict_result results[4];

    id_apply_mode(a, "trend", TAG_MODE_TREND);
    id_apply_mode(a, "gone", TAG_MODE_STRICT);
    assert_int_equal(id_apply_delete(a, "gone"), 0);
    id_apply_strict(a, batch(a, 1, 1, 1), items, 4, results);
    assert_int_equal(results[0].status, ERR_WRONG_MODE);
    assert_int_equal(results[0].generation, 1);
    assert_int_equal(results[1].status, ERR_UNKNOWN_TAG);
    assert_int_equal(results[1].generation, 2); /* of the tombstone */
    assert_int_equal(results[2].status, ERR_UNKNOWN_TAG);
    assert_int_equal(results[2].generation, 0);
    assert_int_equal(results[3].status, ERR_UNKNOWN_TAG);
    assert_int_equal(a->changed, 0);
}

static void test_the_end_of_the_axis_is_never_cut(void **state)
{
    struct id_apply *a = *state;
    const struct strict_item items[3] = {
        {.name = "a", .count = 11}, {.name = "a", .count = 10}, {.name = "a", .count = 1}};
    struct strict_result results[3];

    assert_int_equal(id_apply_put(a,
                                  (struct tag_put){.name = "a",
                                                   .fields = TAG_FIELD_MAX_ID,
                                                   .max_id = TAG_MAX_ID_END - 10},
                                  true)
                         .status,
                     0);
    id_apply_strict(a, batch(a, 1, 1, 1), items, 3, results);
    assert_int_equal(results[0].status, ERR_EXHAUSTED);
    assert_int_equal(results[0].detail, 10);
    gives(results[1], TAG_MAX_ID_END - 10); /* what is left, if just so much is asked for */
    assert_int_equal(results[2].status, ERR_EXHAUSTED);
    assert_int_equal(results[2].detail, 0);
    max_id_is(a, "a", TAG_MAX_ID_END);
}

/* --- once --- */

static void test_a_repetition_is_answered_byte_for_byte(void **state)
{
    struct id_apply *a = *state;
    const struct strict_item items[3] = {
        {.name = "a", .count = 3}, {.name = "none", .count = 1}, {.name = "b", .count = 1}};
    struct strict_result results[3];
    struct buf first = BUF_INIT;
    uint64_t digest;

    id_apply_strict(a, batch(a, 2, 7, 1), items, 3, results);
    buf_put(&first, a->result.data, a->result.len);
    (void)take(a, 1, 1, 1);
    assert_int_equal(id_apply_delete(a, "b"), 0);
    digest = state_digest(fsm_state(a->fsm));
    a->wall_ms = 9999;
    id_apply_strict(a, batch(a, 2, 7, 1), items, 3, results);
    assert_int_equal(a->changed, 0);
    assert_true(state_digest(fsm_state(a->fsm)) == digest);
    assert_int_equal(a->result.len, first.len);
    assert_memory_equal(a->result.data, first.data, first.len);
    buf_free(&first);
}

/* Also an answer that allocated nothing: asked again, it must be the same. */
static void test_a_batch_of_errors_is_remembered(void **state)
{
    struct id_apply *a = *state;
    const struct strict_item item = {.name = "new", .count = 1};
    struct strict_result result;

    id_apply_strict(a, batch(a, 1, 1, 1), &item, 1, &result);
    assert_int_equal(result.status, ERR_UNKNOWN_TAG);
    id_apply_mode(a, "new", TAG_MODE_STRICT);
    id_apply_strict(a, batch(a, 1, 1, 1), &item, 1, &result);
    assert_int_equal(result.status, ERR_UNKNOWN_TAG);
    max_id_is(a, "new", 1);
    id_apply_strict(a, batch(a, 1, 1, 2), &item, 1, &result);
    gives(result, 1);
}

static void test_numbers_may_come_in_any_order(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, 1, 1, 8), 1);
    gives(take(a, 1, 1, 3), 2);
    gives(take(a, 1, 1, 10), 3);
    gives(take(a, 1, 1, 8), 1);
    gives(take(a, 1, 1, 3), 2);
    assert_int_equal(take(a, 1, 1, 2).status, ERR_STALE); /* 10 - AWAITS */
    assert_int_equal(a->changed, 0);
    gives(take(a, 1, 1, 4), 4);
    gives(take(a, 1, 1, 11), 5); /* says that 3 is over */
    assert_int_equal(take(a, 1, 1, 3).status, ERR_STALE);
    gives(take(a, 1, 1, 4), 4);
    max_id_is(a, "a", 6);
}

static void test_the_awaited_answers_are_kept(void **state)
{
    struct id_apply *a = *state;

    for (uint64_t seq = 1; seq <= 20; seq++) {
        gives(take(a, 1, 1, seq), seq);
    }
    for (uint64_t seq = 1; seq <= 20; seq++) {
        struct strict_result result = take(a, 1, 1, seq);

        assert_int_equal(a->changed, 0);
        assert_int_equal(result.status, seq <= 20 - AWAITS ? ERR_STALE : 0);
        assert_true(result.status != 0 || result.first == seq);
    }
    max_id_is(a, "a", 21);
    gives(take(a, 1, 1, 1000), 21); /* a gap */
    assert_int_equal(take(a, 1, 1, 20).status, ERR_STALE);
    gives(take(a, 1, 1, 1000), 21);
}

static void test_every_item_of_a_stale_batch_is_stale(void **state)
{
    struct id_apply *a = *state;
    const struct strict_item items[3] = {
        {.name = "a", .count = 1}, {.name = "none", .count = 1}, {.name = "b", .count = 1}};
    struct strict_result results[3];

    (void)take(a, 1, 5, 1);
    id_apply_strict(a, batch(a, 1, 4, 1), items, 3, results);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(results[i].status, ERR_STALE);
        assert_int_equal(results[i].generation, 0);
        assert_int_equal(results[i].detail, 5); /* the incarnation that is known */
    }
    assert_int_equal(a->changed, 0);
    (void)take(a, 1, 5, 20);
    assert_int_equal(take(a, 1, 5, 1).status, ERR_STALE); /* of this incarnation, but too late */
    assert_int_equal(take(a, 1, 5, 1).detail, 5);
}

static void test_a_later_incarnation_begins_anew(void **state)
{
    struct id_apply *a = *state;
    size_t rows;

    for (uint64_t seq = 1; seq <= 5; seq++) {
        gives(take(a, 1, 3, seq), seq);
    }
    gives(take(a, 2, 3, 1), 6);
    rows = a->row_count;
    gives(take(a, 1, 4, 2), 7);
    assert_int_equal(a->changed, 1);
    assert_int_equal(a->row_count, rows - 5 + 1);         /* the answers before are gone */
    assert_int_equal(take(a, 1, 3, 6).status, ERR_STALE); /* late, of the earlier incarnation */
    assert_int_equal(take(a, 1, 3, 5).status, ERR_STALE);
    gives(take(a, 1, 4, 1), 8); /* its numbers are its own */
    gives(take(a, 1, 4, 2), 7);
    gives(take(a, 2, 3, 1), 6); /* the other node's answers stay */
    max_id_is(a, "a", 9);
}

static void test_nodes_do_not_share_numbers(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, 1, 1, 1), 1);
    gives(take(a, 2, 1, 1), 2);
    gives(take(a, LIMIT_NODE_ID, 1, 1), 3);
    gives(take(a, 1, 1, 1), 1);
    gives(take(a, LIMIT_NODE_ID, 1, 1), 3);
}

static void test_senders_at_their_limit(void **state)
{
    enum { LAST = LIMIT_SESSIONS - 1 }; /* with OTHER */
    struct id_apply *a = *state;
    struct row_changes changes = {0};

    for (uint64_t node = LAST; node > 0; node--) {
        assert_int_equal(take(a, node, 1, 1).status, 0);
    }
    assert_int_equal(take(a, 1000, 1, 1).status, ERR_OVERLOADED);
    assert_int_equal(take(a, 1000, 1, 1).detail, 0);
    assert_int_equal(a->changed, 0);
    max_id_is(a, "a", LAST + 1);
    assert_int_equal(take(a, LAST, 1, 2).status, 0);
    fsm_state(a->fsm)->journal.changes = &changes;
    sessions_removed(fsm_state(a->fsm), 1000);
    fsm_state(a->fsm)->journal.changes = NULL;
    assert_int_equal(changes.count, 0);
    fsm_state(a->fsm)->journal.changes = &changes;
    sessions_removed(fsm_state(a->fsm), LAST);
    fsm_state(a->fsm)->journal.changes = NULL;
    assert_int_equal(changes.count, 2);
    id_apply_keep(a, &changes);
    assert_int_equal(take(a, 1000, 1, 1).status, 0);
    gives(take(a, 1, 1, 1), LAST); /* the others' answers are where they were */
}

/* The answers come back with the rows. */
static void test_a_reloaded_state_knows_its_answers(void **state)
{
    struct id_apply *a = *state;
    struct fsm *other = fsm_of(state_new(&fsm_machine));
    struct fsm *before = a->fsm;

    for (uint64_t seq = 1; seq <= 12; seq++) {
        (void)take(a, 3, 2, seq);
    }
    id_apply_load(a, other);
    a->fsm = other;
    gives(take(a, 3, 2, 12), 12);
    gives(take(a, 3, 2, 5), 5);
    assert_int_equal(take(a, 3, 2, 4).status, ERR_STALE);
    assert_int_equal(take(a, 3, 1, 13).status, ERR_STALE);
    gives(take(a, 3, 2, 13), 13);
    state_free(fsm_state(before));
}

static void test_a_full_batch_fits_a_row(void **state)
{
    struct id_apply *a = *state;
    struct strict_item *items = calloc(LIMIT_STRICT_ITEMS, sizeof *items);
    struct strict_result *results = calloc(LIMIT_STRICT_ITEMS, sizeof *results);

    assert_non_null(items);
    assert_non_null(results);
    for (size_t i = 0; i < LIMIT_STRICT_ITEMS; i++) {
        items[i] = (struct strict_item){.name = "a", .count = LIMIT_COUNT};
    }
    id_apply_strict(a, batch(a, 1, 1, 1), items, LIMIT_STRICT_ITEMS, results);
    for (size_t i = 0; i < LIMIT_STRICT_ITEMS; i++) {
        gives(results[i], 1 + i * LIMIT_COUNT);
    }
    assert_int_equal(a->changed, 1);
    assert_in_range(a->rows[a->row_count - 1].value.len, 1000, LIMIT_ROW_VALUE_BYTES);
    free(items);
    free(results);
}

/* --- rows --- */

static void test_answer_rows_are_golden(void **state)
{
    struct id_apply *a = *state;

    gives(take(a, 0x0102, 3, 13), 1);
    assert_int_equal(a->row_count, 4); /* two tags, and the answer to who made them */
    assert_true(hex_equal(&a->rows[3].key, "61 0000000000000102 0000"));
    assert_true(hex_equal(&a->rows[3].value,
                          "01 0300000000000000 0d00000000000000 0600000000000000 "
                          "17000000 01 87 01000000 00000000 00 01000000 0100000000000000"));
}

#define INCARNATION "0300000000000000 "
#define SEQ "0d00000000000000 "
#define LOWEST "0600000000000000 "
#define HEAD "01" INCARNATION SEQ LOWEST
#define RESULTS "17000000 01 87 01000000 00000000 00 01000000 0100000000000000"

static void test_load_refuses_damage(void **state)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    char key[32];

    (void)state;
    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102 0000", HEAD RESULTS), 0);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102 0000",
                                 "01" INCARNATION "0e00000000000000" LOWEST RESULTS),
                     ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102 0001", HEAD RESULTS),
                     ERR_CORRUPT); /* one command in two slots */
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102 00", HEAD RESULTS), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102", HEAD RESULTS), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000000 0000", HEAD RESULTS), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "61 0000000000010000 0000", HEAD RESULTS), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000002 0400", HEAD RESULTS),
                     ERR_CORRUPT); /* slot 1024 */
    assert_int_equal(
        id_load_hex(fsm, "61 0000000000000002 0000", "02" INCARNATION SEQ LOWEST RESULTS),
        ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000002 0000", ""), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000002 0000", "01" INCARNATION SEQ),
                     ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000002 0000", HEAD), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000002 0000", HEAD "00000000"), ERR_CORRUPT);
    assert_int_equal(
        id_load_hex(fsm, "61 0000000000000002 0000", "01 0000000000000000" SEQ LOWEST RESULTS),
        ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000002 0000",
                                 "01" INCARNATION "0000000000000000" LOWEST RESULTS),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000002 0000",
                                 "01" INCARNATION SEQ "0000000000000000" RESULTS),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000002 0000",
                                 "01" INCARNATION SEQ "0e00000000000000" RESULTS),
                     ERR_CORRUPT); /* awaits a later one */
    /* Another incarnation of the same node. */
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102 0006",
                                 "01 0400000000000000 0e00000000000000" LOWEST RESULTS),
                     ERR_CORRUPT);
    for (unsigned node = 1; node < LIMIT_SESSIONS; node++) {
        (void)snprintf(key, sizeof key, "61 00000000000000%02x 0000", node);
        assert_int_equal(id_load_hex(fsm, key, HEAD RESULTS), 0);
    }
    assert_int_equal(id_load_hex(fsm, "61 00000000000000f0 0000", HEAD RESULTS), ERR_CORRUPT);
    assert_int_equal(state_load_end(fsm_state(fsm), 1), 0);
    state_free(fsm_state(fsm));
}

/* Answers that no node can have awaited at once. */
static void test_load_refuses_contradictions(void **state)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));

    (void)state;
    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102 0000", HEAD RESULTS), 0);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102 0001", /* awaits 13 no more */
                                 "01" INCARNATION "0e00000000000000 0e00000000000000" RESULTS),
                     0);
    assert_int_equal(state_load_end(fsm_state(fsm), 1), ERR_CORRUPT);
    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102 0000", HEAD RESULTS), 0);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102 0001", /* 1024 above the lowest */
                                 "01" INCARNATION "0604000000000000 0600000000000000" RESULTS),
                     ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "61 0000000000000102 0001",
                                 "01" INCARNATION "0504000000000000 0600000000000000" RESULTS),
                     0);
    assert_int_equal(state_load_end(fsm_state(fsm), 1), 0);
    state_free(fsm_state(fsm));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_items_are_allocated_in_order),
        TEST(test_items_of_other_tags_are_told_so),
        TEST(test_the_end_of_the_axis_is_never_cut),
        TEST(test_a_repetition_is_answered_byte_for_byte),
        TEST(test_a_batch_of_errors_is_remembered),
        TEST(test_numbers_may_come_in_any_order),
        TEST(test_the_awaited_answers_are_kept),
        TEST(test_every_item_of_a_stale_batch_is_stale),
        TEST(test_a_later_incarnation_begins_anew),
        TEST(test_nodes_do_not_share_numbers),
        TEST(test_senders_at_their_limit),
        TEST(test_a_reloaded_state_knows_its_answers),
        TEST(test_a_full_batch_fits_a_row),
        TEST(test_answer_rows_are_golden),
        TEST(test_load_refuses_damage),
        TEST(test_load_refuses_contradictions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
