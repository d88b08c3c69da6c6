/*
 * test_fsm_usage.c - the memory that the state is said to take: after each change that of the rows,
 * the same when they are loaded, and no less than what the allocator gave.
 *
 * Thread: one.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"

/* Loaded, it takes the same. */
static struct fsm_usage usage_of(const struct id_apply *a)
{
    struct fsm_usage usage;

    fsm_usage(a->fsm, &usage);
    return usage;
}

static uint64_t tags_bytes(const struct id_apply *a)
{
    return a->fsm->tags.counts.bytes;
}

/* Of a tag with lengths as these. */
static uint64_t tag_bytes(uint16_t name_len, uint16_t description_len, bool deleted)
{
    return fsm_tag_bytes(&(struct tag_row){
        .name_len = name_len, .description_len = description_len, .deleted = deleted});
}

static void put(struct id_apply *a, const char *name, const char *description)
{
    struct tag_put put = {
        .name = name, .description = description, .fields = TAG_FIELD_DESCRIPTION};

    assert_int_equal(id_apply_put(a, put, false).status, 0);
}

static void test_tags(void **state)
{
    struct id_apply *a = *state;

    assert_true(tags_bytes(a) == 0);
    put(a, "abc", "");
    assert_true(tags_bytes(a) == tag_bytes(3, 0, false));
    put(a, "abc", "0123456789");
    assert_true(tags_bytes(a) == tag_bytes(3, 10, false));
    assert_true(tag_bytes(3, 10, false) > tag_bytes(3, 0, false));
    put(a, "d", "");
    assert_int_equal(id_apply_delete(a, "abc"), 0);
    assert_true(tags_bytes(a) == tag_bytes(3, 10, true) + tag_bytes(1, 0, false));
    assert_int_equal(usage_of(a).tags, 1);
    assert_int_equal(usage_of(a).dead, 1);
    put(a, "abc", "");
    assert_int_equal(id_apply_grant(a, "abc", 5).status, 0);
    assert_true(tags_bytes(a) == tag_bytes(3, 0, false) + tag_bytes(1, 0, false));
    assert_int_equal(usage_of(a).tags, 2);
    assert_int_equal(usage_of(a).dead, 0);
}

static void test_keys(void **state)
{
    struct id_apply *a = *state;
    uint64_t before;

    assert_int_equal(id_apply_clock(a, 1000), 0);
    id_apply_mode(a, "s", TAG_MODE_STRICT);
    before = a->fsm->keys.bytes;
    assert_true(before == 0);
    assert_int_equal(id_apply_take_by(a, "s", "key", 1).status, 0);
    assert_int_equal(id_apply_take_by(a, "s", "another", 1).status, 0);
    assert_int_equal(usage_of(a).keys, 2);
    assert_true(a->fsm->keys.bytes > 2 * 67);
    assert_int_equal(id_apply_clock(a, 1000 + LIMIT_KEY_LIFE_MS), 0);
    assert_int_equal(usage_of(a).keys, 0);
    assert_true(a->fsm->keys.bytes == 0);
}

/* What a put will add is what it adds. */
static void test_what_a_put_adds(void **state)
{
    struct id_apply *a = *state;
    struct tag_put items[] = {
        {.name = "new",
         .name_len = 3,
         .description = "x",
         .description_len = 1,
         .fields = TAG_FIELD_DESCRIPTION},
        {.name = "old", .name_len = 3, .description = "", .fields = TAG_FIELD_STEP, .step = 5},
        {.name = "dead", .name_len = 4, .description = ""},
    };
    struct buf command = BUF_INIT;
    struct command read;
    uint64_t before;
    uint64_t adds;

    put(a, "old", "d");
    put(a, "dead", "d");
    assert_int_equal(id_apply_delete(a, "dead"), 0);
    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = 1});
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        command_item_put(&command, COMMAND_TAGS_PUT, &items[i]);
    }
    command_items_end(&command);
    assert_int_equal(command_read(command.data, command.len, &read), 0);
    adds = fsm_adds(a->fsm, read.list);
    before = tags_bytes(a);
    assert_int_equal(id_apply_bytes(a, &command), 0);
    assert_true(tags_bytes(a) == before + adds);
    assert_true(adds == tag_bytes(3, 1, false) + tag_bytes(4, 0, false) - tag_bytes(4, 1, true));
    /* Once more it adds nothing. */
    assert_int_equal(command_read(command.data, command.len, &read), 0);
    assert_true(fsm_adds(a->fsm, read.list) == 0);
    buf_free(&command);
}

/* So it is of the reason of a pause. Another key adds nothing: a full state takes it. */
static void test_what_reasons_and_keys_add(void **state)
{
    static const char SHAPE[] = "A{key}-{secret:7}\0"
                                "0123456789abcdefghijklmnopqrstuv";
    static const char REASON[LIMIT_TAG_REASON_BYTES] = {[0 ... LIMIT_TAG_REASON_BYTES - 1] = 'r'};
    const struct command_list head = {.wall_ms = 1, .stepped = true};
    struct tag_put steps[] = {
        {.step_fields = TAG_FIELD_PAUSED | TAG_FIELD_REASON, .paused = true, .reason_len = 200},
        {.fields = TAG_FIELD_DESCRIPTION, .description_len = 200},
        {.step_fields = TAG_FIELD_REASON, .reason_len = 17},
        {.step_fields = TAG_FIELD_REASON, .reason_len = 100},
        {.step_fields = TAG_FIELD_PAUSED},
        {.fields = TAG_FIELD_KEY, .key_number = 1},
        {.fields = TAG_FIELD_KEY, .key_number = 1},
    };
    struct tag_put first = {.name = "t",
                            .shape = SHAPE,
                            .shape_len = sizeof SHAPE - 1,
                            .max = 10000000,
                            .fields = TAG_FIELD_SHAPE | TAG_FIELD_MAX};
    struct id_apply *a = *state;

    id_apply_raise(a, 3);
    assert_int_equal(id_apply_put(a, first, false).status, 0);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct buf command = BUF_INIT;
        struct command read;
        uint64_t before = tags_bytes(a);
        uint64_t adds;

        steps[i].name = "t";
        steps[i].name_len = 1;
        steps[i].reason = REASON;
        steps[i].description = REASON;
        steps[i].shape = "";
        steps[i].key = SHAPE + sizeof SHAPE - 1 - SHAPE_KEY_BYTES;
        steps[i].key_len = (steps[i].fields & TAG_FIELD_KEY) != 0 ? SHAPE_KEY_BYTES : 0;
        command_put(&command, COMMAND_TAGS_PUT_STEPPED, &head);
        command_item_put(&command, COMMAND_TAGS_PUT_STEPPED, &steps[i]);
        command_items_end(&command);
        assert_int_equal(command_read(command.data, command.len, &read), 0);
        adds = fsm_adds(a->fsm, read.list);
        assert_int_equal(id_apply_bytes(a, &command), 0);
        assert_true(tags_bytes(a) > before ? tags_bytes(a) == before + adds : adds == 0);
        assert_true((adds > 0) == (i == 0 || i == 1 || i == 3));
        buf_free(&command);
    }
}

/* Rows of all lengths in a state machine of their own: what the allocator gave is not more. */
static void test_it_is_no_less_than_what_is_taken(void **state)
{
    enum { TAGS = 20000 };
    const struct tag_row like = {.step = 1, .max_step = 1, .created_ms = 1, .updated_ms = 1};
    char description[LIMIT_TAG_DESCRIPTION_BYTES + 1];
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct buf value = BUF_INIT;
    struct fsm_usage usage;
    size_t before = mallinfo2().uordblks;

    (void)state;
    memset(description, 'd', sizeof description);
    state_load_begin(fsm_state(fsm));
    for (unsigned i = 0; i < TAGS; i++) {
        struct tag_row row = like;
        char key[LIMIT_TAG_NAME_BYTES + 2];

        snprintf(key, sizeof key, "t%0*u", (int)(5 + i % 124), i);
        row.name = key + 1;
        row.name_len = (uint16_t)strlen(key + 1);
        row.description = description;
        row.description_len = (uint16_t)(i % 257);
        value.len = 0;
        row_put(&value, tag_row_format(&row), &row);
        assert_int_equal(state_load_row(fsm_state(fsm),
                                        &(struct state_row){(const uint8_t *)key, 1U + row.name_len,
                                                            value.data, (uint32_t)value.len}),
                         0);
    }
    assert_int_equal(state_load_end(fsm_state(fsm), 1), 0);
    fsm_usage(fsm, &usage);
    assert_int_equal(usage.tags, TAGS);
    assert_true(mallinfo2().uordblks - before <= usage.bytes);
    assert_true(usage.bytes / TAGS < 1000);
    buf_free(&value);
    state_free(fsm_state(fsm));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_apply_begin, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_tags),
        TEST(test_keys),
        TEST(test_what_a_put_adds),
        TEST(test_what_reasons_and_keys_add),
        TEST(test_it_is_no_less_than_what_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
