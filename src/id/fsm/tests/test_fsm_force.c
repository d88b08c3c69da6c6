/*
 * test_fsm_force.c - how far a max_id is raised without force: each bound, and one beyond.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm.h"
#include "src/id/tests/id_apply.h"

#define LAST_FREE (TAG_MAX_ID_END - LIMIT_MAX_ID_LEFT) /* leaves just enough */

/* A put of max_id, and of max unless it is 0. The strings of the result are gone. */
static struct put_result put(struct id_apply *a, const char *name, uint64_t max_id, uint64_t max,
                             bool force)
{
    struct buf command = BUF_INIT;
    struct put_result result;

    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = 1, .force = force});
    command_item_put(&command, COMMAND_TAGS_PUT,
                     &(struct tag_put){.name = name,
                                       .name_len = (uint16_t)strlen(name),
                                       .fields = TAG_FIELD_MAX_ID | (max > 0 ? TAG_FIELD_MAX : 0),
                                       .max_id = max_id,
                                       .max = max});
    command_items_end(&command);
    assert_int_equal(id_apply_bytes(a, &command), 0);
    assert_int_equal(put_result_decode(a->result.data, a->result.len, &result), 0);
    buf_free(&command);
    return result;
}

static void refused(struct id_apply *a, const char *name, uint64_t max_id, uint64_t max,
                    uint64_t now, const char *why)
{
    uint64_t digest = id_apply_digest(a);
    struct put_result result = put(a, name, max_id, max, false);

    assert_int_equal(result.status, ERR_NEEDS_FORCE);
    assert_true(result.asked == max_id && result.max_id == now);
    assert_string_equal(result.why, why);
    assert_true(id_apply_digest(a) == digest);
}

static void taken(struct id_apply *a, const char *name, uint64_t max_id, uint64_t max, bool force)
{
    assert_int_equal(put(a, name, max_id, max, force).status, 0);
    assert_true(id_apply_row(a, name)->max_id == max_id);
}

static void test_a_jump(void **state)
{
    struct id_apply *a = *state;
    const char *why = "is a jump of more than 281474976710656 (2^48)";

    refused(a, "new", 2 + LIMIT_MAX_ID_JUMP, 0, 1, why);
    taken(a, "new", 1 + LIMIT_MAX_ID_JUMP, 0, false);
    refused(a, "new", 2 + 2 * LIMIT_MAX_ID_JUMP, 0, 1 + LIMIT_MAX_ID_JUMP, why);
    taken(a, "new", 1 + 2 * LIMIT_MAX_ID_JUMP, 0, false);
    taken(a, "new", LAST_FREE, 0, true);
    /* A deleted tag goes on from what it had. */
    assert_int_equal(id_apply_delete(a, "new"), 0);
    taken(a, "new", LAST_FREE, 0, false);
    taken(a, "old", 77, 0, false);
    assert_int_equal(id_apply_delete(a, "old"), 0);
    refused(a, "old", 78 + LIMIT_MAX_ID_JUMP, 0, 77, why);
    taken(a, "old", 77 + LIMIT_MAX_ID_JUMP, 0, false);
}

/* A tombstone is judged as a living tag is. */
static void test_a_deleted_tag_would_repeat(void **state)
{
    struct id_apply *a = *state;
    struct put_result result;

    taken(a, "t", 1301, 0, false);
    assert_int_equal(id_apply_delete(a, "t"), 0);
    result = put(a, "t", 1300, 0, false);
    assert_int_equal(result.status, ERR_WOULD_REPEAT);
    assert_true(result.max_id == 1301 && result.asked == 1300);
    assert_int_equal(id_apply_delete(a, "t"), ERR_UNKNOWN_TAG);
    taken(a, "t", 1301, 0, false);
    assert_int_equal(id_apply_delete(a, "t"), 0);
    taken(a, "t", 7, 0, true);
}

static void test_few_are_left(void **state)
{
    struct id_apply *a = *state;

    taken(a, "t", LAST_FREE - 1, 0, true);
    taken(a, "t", LAST_FREE, 0, false);
    refused(a, "t", LAST_FREE + 1, 0, LAST_FREE,
            "leaves 999999 ids below 9223372036854775807, less than 1000000");
    refused(a, "t", TAG_MAX_ID_END, 0, LAST_FREE,
            "leaves 0 ids below 9223372036854775807, less than 1000000");
    taken(a, "t", TAG_MAX_ID_END, 0, true);
    taken(a, "t", TAG_MAX_ID_END, 0, false); /* it rises no more */
    /* Below a max of its own. */
    taken(a, "m", 2000000, 3000000, false);
    refused(a, "m", 2000001, 0, 2000000, "leaves 999999 ids below 3000000, less than 1000000");
    taken(a, "m", 2000001, 4000000, false); /* the put brings the room */
    refused(a, "m", 2000002, 3000000, 2000001,
            "leaves 999998 ids below 3000000, less than 1000000");
    assert_int_equal(put(a, "m", 4000001, 0, false).status, ERR_INVALID); /* above its max */
    assert_int_equal(put(a, "m", 5, 0, false).status, ERR_WOULD_REPEAT);
    /* A tag may be small from the start. */
    taken(a, "small", 1, 10, false);
    taken(a, "none", 0, 10, false);
    refused(a, "small", 2, 0, 1, "leaves 8 ids below 10, less than 1000000");
}

/* Of several items one is refused: none is made. */
static void test_all_or_nothing(void **state)
{
    struct id_apply *a = *state;
    const struct tag_put puts[] = {
        {.name = "a", .fields = TAG_FIELD_MAX_ID, .max_id = 5},
        {.name = "b", .fields = TAG_FIELD_MAX_ID, .max_id = TAG_MAX_ID_END},
    };
    struct put_result result;

    result = id_apply_puts(a, puts, 2, false);
    assert_int_equal(result.status, ERR_NEEDS_FORCE);
    assert_int_equal(result.failed_at, 1);
    assert_null(fsm_tag(a->fsm, "a", 1));
    assert_int_equal(id_apply_puts(a, puts, 2, true).status, 0);
}

/* What GET /api/tags showed, of a new name: no hand wrote it. One that is there needs force. */
static void test_a_dump(void **state)
{
    struct id_apply *a = *state;
    const struct command_list list = {.wall_ms = 1, .is_dump = true};
    const struct tag_put put = {.name = "t",
                                .name_len = 1,
                                .fields = TAG_FIELD_MAX_ID | TAG_FIELD_MAX,
                                .max_id = 3000000 - 5,
                                .max = 3000000};
    const struct tag_put higher = {
        .name = "t", .name_len = 1, .fields = TAG_FIELD_MAX_ID, .max_id = 3000000 - 4};
    const int wanted[] = {0, 0, ERR_NEEDS_FORCE};

    for (int i = 0; i < 3; i++) {
        struct buf command = BUF_INIT;
        struct put_result result;

        command_put(&command, COMMAND_TAGS_PUT, &list);
        command_item_put(&command, COMMAND_TAGS_PUT, i < 2 ? &put : &higher);
        command_items_end(&command);
        assert_int_equal(id_apply_bytes(a, &command), 0);
        assert_int_equal(put_result_decode(a->result.data, a->result.len, &result), 0);
        assert_int_equal(result.status, wanted[i]);
        assert_true(id_apply_row(a, "t")->max_id == 3000000 - 5);
        buf_free(&command);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_apply_begin, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_a_jump),       TEST(test_a_deleted_tag_would_repeat),
        TEST(test_few_are_left), TEST(test_all_or_nothing),
        TEST(test_a_dump),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
