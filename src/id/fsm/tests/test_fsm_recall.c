/*
 * test_fsm_recall.c - changes of a tag's mode: a tag that becomes strict hands out nothing until
 * all nodes that may hold a segment of it have confirmed that they do not.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"
#include "src/tests/unit/hex.h"

static bool fsm_recall_has(const struct fsm *fsm, const char *name, size_t name_len,
                           uint64_t node_id)
{
    const struct fsm_recall *recall =
        fsm_recalls_find(fsm, fsm_tags_find(&fsm->tags, name, name_len));

    return recall != NULL && node_set_has(&recall->nodes, node_id);
}

static uint64_t fsm_recall_node(const struct fsm *fsm, const char *name, size_t name_len)
{
    const struct fsm_recall *recall =
        fsm_recalls_find(fsm, fsm_tags_find(&fsm->tags, name, name_len));

    return recall != NULL ? recall->nodes.ids[0] : 0;
}

/* Nodes 3, 1 and 2 are granted a segment of some tag. */
static void three_holders(struct id_apply *a)
{
    id_apply_mode(a, "order", TAG_MODE_TREND);
    for (uint64_t node = 3; node > 0; node--) {
        assert_int_equal(id_apply_grant_to(a, 1 + node % 3, "order", 10).status, 0);
    }
}

static void generation_is(struct id_apply *a, const char *name, uint32_t generation)
{
    assert_int_equal(id_apply_row(a, name)->generation, generation);
}

/* The nodes that the tag waits for, as digits. */
static void waits_for(struct id_apply *a, const char *name, const char *nodes)
{
    char got[10] = "";
    size_t len = 0;

    for (uint64_t node = 1; node < 9; node++) {
        if (fsm_recall_has(a->fsm, name, strlen(name), node)) {
            got[len++] = (char)('0' + node);
        }
    }
    assert_string_equal(got, nodes);
    assert_int_equal(id_apply_row(a, name)->recalling, len > 0);
    assert_int_equal(fsm_recall_node(a->fsm, name, strlen(name)), len > 0 ? nodes[0] - '0' : 0);
}

static void changing(struct id_apply *a, const char *name, uint64_t node)
{
    struct strict_result result = id_apply_take(a, name, 1);

    assert_int_equal(result.status, ERR_CHANGING);
    assert_true(result.detail == node);
    assert_int_equal(result.generation, id_apply_row(a, name)->generation);
}

static void open(struct id_apply *a, const char *name, uint64_t first)
{
    struct strict_result result = id_apply_take(a, name, 1);

    assert_int_equal(result.status, 0);
    assert_true(result.first == first);
}

static void put_forced(struct id_apply *a, const char *name)
{
    assert_int_equal(id_apply_put(a, (struct tag_put){.name = name}, true).status, 0);
}

static void test_made_strict_is_open_at_once(void **state)
{
    struct id_apply *a = *state;

    three_holders(a);
    id_apply_mode(a, "new", TAG_MODE_STRICT);
    assert_int_equal(a->changed, 1);
    generation_is(a, "new", 1);
    open(a, "new", 1);
}

static void test_without_grants_a_change_is_open_at_once(void **state)
{
    struct id_apply *a = *state;

    id_apply_mode(a, "order", TAG_MODE_TREND);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    generation_is(a, "order", 2);
    waits_for(a, "order", "");
    open(a, "order", 1);
}

static void test_a_change_waits_for_every_holder(void **state)
{
    struct id_apply *a = *state;

    three_holders(a);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    assert_int_equal(a->changed, 2); /* the tag, and what it waits for */
    generation_is(a, "order", 2);
    waits_for(a, "order", "123");
    changing(a, "order", 1);
    id_apply_recalled(a, 1, "order", 2);
    assert_int_equal(a->changed, 1);
    waits_for(a, "order", "23");
    changing(a, "order", 2);
    id_apply_recalled(a, 3, "order", 2);
    waits_for(a, "order", "2");
    id_apply_recalled(a, 2, "order", 2);
    assert_int_equal(a->changed, 2);
    waits_for(a, "order", "");
    generation_is(a, "order", 2);
    open(a, "order", 31); /* above all that was granted */
    id_apply_recalled(a, 2, "order", 2);
    assert_int_equal(a->changed, 0);
}

/* Another tag's grant counts too: the table says nothing of tags. A node without a grant does not.
 */
static void test_holders_are_of_all_tags(void **state)
{
    struct id_apply *a = *state;

    id_apply_mode(a, "other", TAG_MODE_TREND);
    id_apply_mode(a, "order", TAG_MODE_TREND);
    assert_int_equal(id_apply_grant_to(a, 5, "none", 1).status, ERR_UNKNOWN_TAG);
    assert_int_equal(id_apply_grant_to(a, 4, "other", 1).status, 0);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    waits_for(a, "order", "4");
    assert_int_equal(id_apply_grant_to(a, 6, "other", 1).status, 0);
    waits_for(a, "order", "4"); /* who comes later can hold nothing of it */
}

static void test_confirmations_that_do_not_count(void **state)
{
    struct id_apply *a = *state;

    three_holders(a);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    id_apply_recalled(a, 1, "order", 1); /* of the generation before */
    assert_int_equal(a->changed, 0);
    id_apply_recalled(a, 4, "order", 2); /* nobody waits for it */
    assert_int_equal(a->changed, 0);
    id_apply_recalled(a, 1, "none", 2);
    assert_int_equal(a->changed, 0);
    waits_for(a, "order", "123");
    id_apply_recalled(a, 1, "order", UINT32_MAX); /* a later one would */
    waits_for(a, "order", "23");
}

static void test_a_grant_of_a_strict_tag_has_the_wrong_mode(void **state)
{
    struct id_apply *a = *state;
    struct grant_result result;

    id_apply_mode(a, "order", TAG_MODE_STRICT);
    for (uint32_t size = 0; size < 3; size++) {
        result = id_apply_grant(a, "order", size);
        assert_int_equal(result.status, ERR_WRONG_MODE);
        assert_true(result.generation == 1 && result.size == 0);
        assert_int_equal(a->changed, 0); /* and makes nobody a holder */
    }
    assert_int_equal(a->fsm->recalls.holders.count, 0);
}

static void test_back_to_trend_ends_the_recalling(void **state)
{
    struct id_apply *a = *state;

    three_holders(a);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    id_apply_recalled(a, 1, "order", 2);
    id_apply_mode(a, "order", TAG_MODE_TREND);
    generation_is(a, "order", 3);
    waits_for(a, "order", "");
    assert_int_equal(a->fsm->recalls.count, 0);
    assert_int_equal(id_apply_take(a, "order", 1).status, ERR_WRONG_MODE);
    assert_int_equal(id_apply_grant(a, "order", 10).status, 0);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    generation_is(a, "order", 4);
    waits_for(a, "order", "123");        /* all of them again */
    id_apply_recalled(a, 2, "order", 2); /* late, for the first time */
    waits_for(a, "order", "123");
}

static void test_a_put_that_keeps_the_mode_changes_nothing_of_it(void **state)
{
    struct id_apply *a = *state;

    three_holders(a);
    id_apply_mode(a, "order", TAG_MODE_TREND);
    generation_is(a, "order", 1);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    id_apply_recalled(a, 1, "order", 2);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    generation_is(a, "order", 2);
    waits_for(a, "order", "23");
}

static void test_force_ends_the_recalling(void **state)
{
    struct id_apply *a = *state;

    three_holders(a);
    assert_int_equal(
        id_apply_put(
            a, (struct tag_put){.name = "order", .fields = TAG_FIELD_MODE, .mode = TAG_MODE_STRICT},
            true)
            .status,
        0);
    waits_for(a, "order", "123"); /* it was not recalling: force says nothing of its nodes yet */
    put_forced(a, "order");
    waits_for(a, "order", "");
    generation_is(a, "order", 2);
    open(a, "order", 31);
    put_forced(a, "order");
    open(a, "order", 32);
}

static void test_a_tombstone_of_a_trend_tag_drains_when_made_strict(void **state)
{
    struct id_apply *a = *state;

    three_holders(a);
    assert_int_equal(id_apply_delete(a, "order"), 0);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    generation_is(a, "order", 3);
    waits_for(a, "order", "123");
    changing(a, "order", 1);
}

static void test_deleted_while_recalling_drains_again(void **state)
{
    struct id_apply *a = *state;

    three_holders(a);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    id_apply_recalled(a, 1, "order", 2);
    assert_int_equal(id_apply_delete(a, "order"), 0);
    assert_int_equal(a->fsm->recalls.count, 0);
    assert_true(id_apply_row(a, "order")->recalling);
    assert_int_equal(id_apply_take(a, "order", 1).status, ERR_UNKNOWN_TAG);
    id_apply_recalled(a, 2, "order", 3); /* a tombstone hears nothing */
    assert_int_equal(a->changed, 0);
    put_forced(a, "order"); /* made again in trend mode */
    waits_for(a, "order", "");
    assert_int_equal(id_apply_row(a, "order")->mode, TAG_MODE_TREND);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    assert_int_equal(id_apply_delete(a, "order"), 0);
    id_apply_put(
        a, (struct tag_put){.name = "order", .fields = TAG_FIELD_MODE, .mode = TAG_MODE_STRICT},
        true); /* made again as strict, even by force */
    waits_for(a, "order", "123");
    generation_is(a, "order", 7);
}

static void test_a_tombstone_of_a_strict_tag_does_not_recall(void **state)
{
    struct id_apply *a = *state;

    three_holders(a);
    id_apply_mode(a, "new", TAG_MODE_STRICT);
    open(a, "new", 1);
    assert_int_equal(id_apply_delete(a, "new"), 0);
    id_apply_mode(a, "new", TAG_MODE_STRICT);
    generation_is(a, "new", 3);
    open(a, "new", 2);
}

static void test_the_tags_of_a_node_in_order(void **state)
{
    struct id_apply *a = *state;
    const struct tag_row *row;

    id_apply_mode(a, "order", TAG_MODE_TREND);
    assert_null(fsm_recall_next(a->fsm, 1, "", 0));
    id_apply_mode(a, "c", TAG_MODE_TREND);
    id_apply_mode(a, "a", TAG_MODE_TREND);
    id_apply_mode(a, "b", TAG_MODE_TREND);
    (void)id_apply_grant_to(a, 1, "order", 1);
    (void)id_apply_grant_to(a, 2, "order", 1);
    id_apply_mode(a, "c", TAG_MODE_STRICT);
    id_apply_mode(a, "a", TAG_MODE_STRICT);
    id_apply_mode(a, "b", TAG_MODE_STRICT);
    id_apply_recalled(a, 1, "b", 2);
    row = fsm_recall_next(a->fsm, 1, "", 0);
    assert_string_equal(row->name, "a");
    assert_int_equal(row->generation, 2);
    assert_string_equal(fsm_recall_next(a->fsm, 1, "a", 1)->name, "c");
    assert_string_equal(fsm_recall_next(a->fsm, 2, "a", 1)->name, "b");
    assert_string_equal(fsm_recall_next(a->fsm, 2, "aa", 2)->name, "b");
    assert_null(fsm_recall_next(a->fsm, 1, "c", 1));
    assert_null(fsm_recall_next(a->fsm, 3, "", 0));
}

static void test_a_removed_node_is_waited_for_no_more(void **state)
{
    struct id_apply *a = *state;
    struct row_changes changes = {0};

    three_holders(a);
    id_apply_mode(a, "a", TAG_MODE_TREND);
    id_apply_mode(a, "b", TAG_MODE_TREND);
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    id_apply_mode(a, "a", TAG_MODE_STRICT);
    id_apply_recalled(a, 1, "a", 2);
    id_apply_recalled(a, 3, "a", 2);
    fsm_state(a->fsm)->journal.changes = &changes;
    fsm_holder_removed(&a->fsm->machine, 4);
    fsm_state(a->fsm)->journal.changes = NULL;
    assert_int_equal(changes.count, 0);
    fsm_state(a->fsm)->journal.changes = &changes;
    fsm_holder_removed(&a->fsm->machine, 2);
    fsm_state(a->fsm)->journal.changes = NULL;
    assert_int_equal(changes.count,
                     4); /* its row; a recall and a tag that ended; a shorter recall */
    waits_for(a, "a", "");
    waits_for(a, "order", "13");
    id_apply_keep(a, &changes);
    id_apply_mode(a, "b", TAG_MODE_STRICT);
    waits_for(a, "b", "13");
    fsm_state(a->fsm)->journal.changes = &changes;
    fsm_holder_removed(&a->fsm->machine, 1);
    fsm_state(a->fsm)->journal.changes = NULL;
    fsm_state(a->fsm)->journal.changes = &changes;
    fsm_holder_removed(&a->fsm->machine, 3);
    fsm_state(a->fsm)->journal.changes = NULL;
    id_apply_keep(a, &changes);
    waits_for(a, "b", "");
    open(a, "order", 31);
}

/* --- limits --- */

static void test_holders_at_their_limit(void **state)
{
    struct id_apply *a = *state;
    struct row_changes changes = {0};
    struct grant_result result;

    id_apply_mode(a, "order", TAG_MODE_TREND);
    for (uint64_t node = 1; node <= LIMIT_SEGMENT_HOLDERS; node++) {
        assert_int_equal(id_apply_grant_to(a, node, "order", 1).status, 0);
    }
    fsm_state(a->fsm)->journal.changes = &changes; /* else there is no room for another node's */
    sessions_removed(fsm_state(a->fsm), 1);
    fsm_state(a->fsm)->journal.changes = NULL;
    id_apply_keep(a, &changes);
    result = id_apply_grant_to(a, LIMIT_SEGMENT_HOLDERS + 1, "order", 1);
    assert_int_equal(result.status, ERR_OVERLOADED);
    assert_int_equal(result.generation, 1);
    assert_int_equal(a->changed, 0);
    assert_int_equal(id_apply_grant_to(a, LIMIT_SEGMENT_HOLDERS, "order", 1).status, 0);
    assert_true(id_apply_row(a, "order")->max_id == LIMIT_SEGMENT_HOLDERS + 2);
    a->node_id = LIMIT_SEGMENT_HOLDERS;
    id_apply_mode(a, "order", TAG_MODE_STRICT);
    assert_true(fsm_recall_has(a->fsm, "order", 5, LIMIT_SEGMENT_HOLDERS));
}

/* A bulk of count tags t<from>, in the mode. */
static int put_many(struct fsm *fsm, uint64_t index, unsigned from, unsigned count,
                    enum tag_mode mode)
{
    struct buf command = BUF_INIT;
    struct buf answer = BUF_INIT;
    struct put_result result;
    int status;

    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.force = false, .wall_ms = 1});
    for (unsigned i = from; i < from + count; i++) {
        char name[12];
        int len = snprintf(name, sizeof name, "t%u", i);

        command_item_put(&command, COMMAND_TAGS_PUT,
                         &(struct tag_put){.name = name,
                                           .name_len = (uint16_t)len,
                                           .fields = TAG_FIELD_MODE,
                                           .mode = (uint8_t)mode});
    }
    command_items_end(&command);
    id_stamp_as(&command, 1, 1, index, index);
    assert_int_equal(
        state_apply(fsm_state(fsm), index, 1, command.data, command.len, &answer, NULL), 0);
    assert_int_equal(put_result_decode(answer.data, answer.len, &result), 0);
    status = result.status;
    assert_true(status == 0 || strstr(result.why, "10000 tags") != NULL);
    buf_free(&command);
    buf_free(&answer);
    return status;
}

static void test_drains_at_their_limit(void **state)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct id_apply b = {.fsm = fsm, .wall_ms = 1, .node_id = 2};

    (void)state;
    assert_int_equal(put_many(fsm, 1, 0, LIMIT_RECALLS, TAG_MODE_TREND), 0);
    assert_int_equal(put_many(fsm, 2, LIMIT_RECALLS, 2, TAG_MODE_TREND), 0);
    b.index = 2;
    assert_int_equal(id_apply_grant(&b, "t0", 1).status, 0);
    assert_int_equal(put_many(fsm, 4, 0, LIMIT_RECALLS - 1, TAG_MODE_STRICT), 0);
    assert_int_equal(put_many(fsm, 5, LIMIT_RECALLS - 1, 2, TAG_MODE_STRICT), ERR_OVERLOADED);
    assert_int_equal(fsm->recalls.count, LIMIT_RECALLS - 1); /* not one of the two */
    assert_int_equal(fsm_tag(fsm, "t9999", 5)->mode, TAG_MODE_TREND);
    assert_int_equal(fsm_tag(fsm, "t10000", 6)->mode, TAG_MODE_TREND);
    assert_int_equal(put_many(fsm, 6, LIMIT_RECALLS - 1, 1, TAG_MODE_STRICT), 0);
    assert_int_equal(fsm->recalls.count, LIMIT_RECALLS);
    assert_int_equal(put_many(fsm, 7, LIMIT_RECALLS, 1, TAG_MODE_STRICT), ERR_OVERLOADED);
    /* Those that recall already, or need not, are none more. */
    assert_int_equal(put_many(fsm, 8, 0, LIMIT_RECALLS, TAG_MODE_STRICT), 0);
    assert_int_equal(put_many(fsm, 9, LIMIT_RECALLS + 2, 1, TAG_MODE_STRICT), 0);
    assert_int_equal(put_many(fsm, 10, 0, 1, TAG_MODE_TREND), 0);
    assert_int_equal(put_many(fsm, 11, LIMIT_RECALLS, 1, TAG_MODE_STRICT), 0);
    id_apply_free(&b);
}

/* --- rows --- */

static void test_rows_are_golden(void **state)
{
    struct id_apply *a = *state;

    id_apply_mode(a, "ab", TAG_MODE_TREND);
    a->next = (struct session_stamp){0x0102, 1, 1, 1};
    (void)id_apply_grant(a, "ab", 1);
    (void)id_apply_grant_to(a, 3, "ab", 1);
    id_apply_mode(a, "ab", TAG_MODE_STRICT);
    assert_null(id_apply_kept(a, 4));
    assert_true(hex_equal(&id_apply_kept(a, 1)->key, "67 0000000000000102"));
    assert_true(hex_equal(&id_apply_kept(a, 1)->value, "01"));
    assert_true(hex_equal(&id_apply_kept(a, 2)->key, "67 0000000000000003"));
    assert_true(hex_equal(&id_apply_kept(a, 3)->key, "64 6162"));
    assert_true(hex_equal(&id_apply_kept(a, 3)->value, "01 0300 0201"));
}

static void test_load_refuses_damage(void **state)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));

    (void)state;
    state_load_begin(fsm_state(fsm));
    assert_int_equal(id_load_hex(fsm, "67 0000000000000003", "01"), 0);
    assert_int_equal(id_load_hex(fsm, "67 0000000000000003", "01"), ERR_EXISTS);
    assert_int_equal(id_load_hex(fsm, "67 0000000000000004", ""), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "67 0000000000000004", "02"), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, "67 0000000000000004", "01 00"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "67 0000000000000000", "01"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "67 0000000000010000", "01"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "67 00000000000004", "01"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "64 61", ""), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "64 61", "01"), ERR_TRUNCATED); /* waits for nobody */
    assert_int_equal(id_load_hex(fsm, "64 61", "01 03"), ERR_TRUNCATED);
    assert_int_equal(id_load_hex(fsm, "64 61", "02 0300"), ERR_BAD_VERSION);
    assert_int_equal(id_load_hex(fsm, "64 61", "01 0000"), ERR_CORRUPT);
    assert_int_equal(id_load_hex(fsm, "64 61", "01 0300 0300"), ERR_CORRUPT); /* twice */
    assert_int_equal(id_load_hex(fsm, "64 61", "01 0400 0300"), ERR_CORRUPT); /* not rising */
    assert_int_equal(id_load_hex(fsm, "64", "01 0300"), ERR_CORRUPT);         /* no name */
    assert_int_equal(id_load_hex(fsm, "64 0a", "01 0300"), ERR_CORRUPT);
    assert_int_equal(state_load_end(fsm_state(fsm), 1), 0);
    state_free(fsm_state(fsm));
}

#define TAG_FIELDS " 0a000000 64000000 0500000000000000 0000000000000000 0000000000000000 0000"
#define RECALLING "03 00 01 01 02000000" TAG_FIELDS
#define RECALLING_GONE "03 01 01 01 02000000" TAG_FIELDS
#define STRICT "03 00 00 01 02000000" TAG_FIELDS

/* What three rows give; a value NULL is no row. */
static int load_three(const char *tag, const char *recall, const char *holder)
{
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    int err;

    state_load_begin(fsm_state(fsm));
    if (recall != NULL) { /* in the order of keys */
        assert_int_equal(id_load_hex(fsm, "64 61", recall), 0);
        assert_int_equal(id_load_hex(fsm, "64 61", recall), ERR_EXISTS);
    }
    if (holder != NULL) {
        assert_int_equal(id_load_hex(fsm, "67 0000000000000003", holder), 0);
    }
    if (tag != NULL) {
        assert_int_equal(id_load_hex(fsm, "74 61", tag), 0);
        assert_int_equal(id_load_hex(fsm, "74 61", tag), ERR_EXISTS);
    }
    err = state_load_end(fsm_state(fsm), 9);
    state_free(fsm_state(fsm));
    return err;
}

static void test_load_refuses_contradictions(void **state)
{
    (void)state;
    assert_int_equal(load_three(RECALLING, "01 0300", "01"), 0);
    assert_int_equal(load_three(RECALLING_GONE, NULL, "01"), 0);
    assert_int_equal(load_three(STRICT, NULL, "01"), 0);
    assert_int_equal(load_three(NULL, "01 0300", "01"), ERR_CORRUPT); /* no tag */
    assert_int_equal(load_three(RECALLING, "01 0300", NULL), ERR_CORRUPT);
    assert_int_equal(load_three(RECALLING, "01 0200", "01"), ERR_CORRUPT); /* no holder */
    assert_int_equal(load_three(RECALLING, NULL, "01"), ERR_CORRUPT);
    assert_int_equal(load_three(STRICT, "01 0300", "01"), ERR_CORRUPT);
    assert_int_equal(load_three(RECALLING_GONE, "01 0300", "01"), ERR_CORRUPT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_apply_begin, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_made_strict_is_open_at_once),
        TEST(test_without_grants_a_change_is_open_at_once),
        TEST(test_a_change_waits_for_every_holder),
        TEST(test_holders_are_of_all_tags),
        TEST(test_confirmations_that_do_not_count),
        TEST(test_a_grant_of_a_strict_tag_has_the_wrong_mode),
        TEST(test_back_to_trend_ends_the_recalling),
        TEST(test_a_put_that_keeps_the_mode_changes_nothing_of_it),
        TEST(test_force_ends_the_recalling),
        TEST(test_a_tombstone_of_a_trend_tag_drains_when_made_strict),
        TEST(test_deleted_while_recalling_drains_again),
        TEST(test_a_tombstone_of_a_strict_tag_does_not_recall),
        TEST(test_the_tags_of_a_node_in_order),
        TEST(test_a_removed_node_is_waited_for_no_more),
        TEST(test_holders_at_their_limit),
        TEST(test_drains_at_their_limit),
        TEST(test_rows_are_golden),
        TEST(test_load_refuses_damage),
        TEST(test_load_refuses_contradictions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
