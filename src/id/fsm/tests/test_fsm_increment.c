/*
 * test_fsm_increment.c - tags with an increment and an offset: which ids they have, that a change
 * repeats none, and the increment of ids under a key.
 *
 * The model writes down every id that leaves a tag in any mode, whatever its increment was and is:
 * an id comes at most once, unless it was given back, is of the increment in force, and below
 * max_id.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"

static int setup(void **state)
{
    struct id_apply *a = id_apply_new(state);

    id_apply_raise(a, 3);
    assert_int_equal(id_apply_clock(a, 1000), 0);
    return 0;
}

static struct tag_put stepped(const char *name, enum tag_mode mode, uint32_t increment,
                              uint32_t offset)
{
    return (struct tag_put){.name = name,
                            .fields = TAG_FIELD_MODE,
                            .mode = (uint8_t)mode,
                            .step_fields = TAG_FIELD_INCREMENT | TAG_FIELD_OFFSET,
                            .increment = increment,
                            .offset = offset};
}

static struct put_result make(struct id_apply *a, const char *name, enum tag_mode mode,
                              uint32_t increment, uint32_t offset)
{
    return id_apply_put(a, stepped(name, mode, increment, offset), false);
}

static void test_segments(void **state)
{
    struct id_apply *a = *state;
    struct grant_result got;

    assert_int_equal(make(a, "t", TAG_MODE_TREND, 4, 3).status, 0);
    got = id_apply_grant(a, "t", 5);
    assert_true(got.status == 0 && got.first == 3 && got.size == 5 && got.increment == 4);
    assert_true(id_apply_row(a, "t")->max_id == 20); /* 3, 7, 11, 15, 19 */
    got = id_apply_grant(a, "t", 1);
    assert_true(got.first == 23 && got.increment == 4);
    assert_int_equal(
        id_apply_give_back(
            a, (struct give_back_item){.name = "t", .generation = 1, .first = 23, .end = 24}),
        0);
    assert_true(id_apply_grant(a, "t", 1).first == 23);
}

static void test_up_to_the_max(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = stepped("t", TAG_MODE_TREND, 5, 2);
    struct grant_result got;
    struct strict_result said;

    put.fields |= TAG_FIELD_MAX;
    put.max = 13;
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    got = id_apply_grant(a, "t", 100);
    assert_true(got.first == 2 && got.size == 3); /* 2, 7, 12 */
    assert_int_equal(id_apply_grant(a, "t", 1).status, ERR_EXHAUSTED);
    put.name = "s";
    put.mode = TAG_MODE_STRICT;
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    said = id_apply_take(a, "s", 4);
    assert_true(said.status == ERR_EXHAUSTED && said.detail == 3);
    said = id_apply_take(a, "s", 3);
    assert_true(said.status == 0 && said.first == 2 && said.increment == 5);
    said = id_apply_take(a, "s", 1);
    assert_true(said.status == ERR_EXHAUSTED && said.detail == 0);
}

/* The last number of all is an id, and none is beyond it. */
static void test_at_the_end_of_numbers(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = stepped("t", TAG_MODE_TREND, 1000000, 0);
    uint64_t last = (uint64_t)TAG_MAX_ID_END - 1;
    struct grant_result got;

    put.offset = (uint32_t)(last % 1000000);
    put.fields |= TAG_FIELD_MAX_ID;
    put.max_id = last - 1000000;
    assert_int_equal(id_apply_put(a, put, true).status, 0);
    got = id_apply_grant(a, "t", 100);
    assert_true(got.first == last - 1000000 && got.size == 2);
    assert_true(id_apply_row(a, "t")->max_id == TAG_MAX_ID_END);
    assert_int_equal(id_apply_grant(a, "t", 1).status, ERR_EXHAUSTED);
}

static void test_a_change_is_a_new_generation(void **state)
{
    struct id_apply *a = *state;
    static const enum tag_mode MODES[] = {TAG_MODE_TREND, TAG_MODE_STRICT, TAG_MODE_MONOTONIC};

    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(make(a, "t", MODES[i], 2, 0).status, 0);
        uint32_t before = id_apply_row(a, "t")->generation;

        assert_int_equal(make(a, "t", MODES[i], 2, 0).status, 0);
        assert_int_equal(id_apply_row(a, "t")->generation, before);
        assert_int_equal(make(a, "t", MODES[i], 2, 1).status, 0);
        assert_int_equal(id_apply_row(a, "t")->generation, before + 1);
        assert_int_equal(make(a, "t", MODES[i], 3, 1).status, 0);
        assert_int_equal(id_apply_row(a, "t")->generation, before + 2);
        assert_int_equal(make(a, "t", MODES[i], 1, 0).status, 0);
        assert_int_equal(id_apply_row(a, "t")->generation, before + 3);
        assert_int_equal(id_apply_row(a, "t")->increment, 0);
        assert_int_equal(make(a, "t", MODES[i], 0, 0).status, 0);
        assert_int_equal(id_apply_row(a, "t")->generation, before + 3);
    }
}

static void test_fields_that_are_not_given(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = {.name = "t"};
    struct put_result result;

    assert_int_equal(make(a, "t", TAG_MODE_TREND, 4, 3).status, 0);
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_true(id_apply_row(a, "t")->increment == 4 && id_apply_row(a, "t")->offset == 3);
    put.step_fields = TAG_FIELD_OFFSET;
    put.offset = 2;
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_true(id_apply_row(a, "t")->increment == 4 && id_apply_row(a, "t")->offset == 2);
    put.step_fields = TAG_FIELD_INCREMENT;
    put.increment = 2;
    result = id_apply_put(a, put, false);
    assert_int_equal(result.status, ERR_INVALID);
    assert_string_equal(result.why, "offset is not in 0 to increment - 1");
    put.increment = 1;
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_true(id_apply_row(a, "t")->increment == 0 && id_apply_row(a, "t")->offset == 0);
    put = (struct tag_put){.name = "u", .step_fields = TAG_FIELD_OFFSET, .offset = 1};
    assert_int_equal(id_apply_put(a, put, false).status, ERR_INVALID);
    /* Made again, it has every number. */
    assert_int_equal(make(a, "d", TAG_MODE_TREND, 4, 3).status, 0);
    assert_int_equal(id_apply_delete(a, "d"), 0);
    assert_int_equal(id_apply_put(a, (struct tag_put){.name = "d"}, false).status, 0);
    assert_int_equal(id_apply_row(a, "d")->increment, 0);
}

static void test_shapes(void **state)
{
    struct id_apply *a = *state;
    static const struct {
        const char *shape;
        uint16_t len;
        enum tag_mode mode;
        int status;
    } CASES[] = {
        {"A-{id:6}", 8, TAG_MODE_TREND, 0},
        {"{id}{luhn}", 10, TAG_MODE_STRICT, 0},
        {"{year}-{id:6}", 13, TAG_MODE_STRICT, ERR_INVALID},
        {"{secret36:8}\0"
         "0123456789abcdefghijklmnopqrstuv",
         45, TAG_MODE_TREND, ERR_INVALID},
    };
    char name[2] = "a";

    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++, name[0]++) {
        struct tag_put put = stepped(name, CASES[i].mode, 2, 1);
        struct put_result result;

        put.fields |= TAG_FIELD_SHAPE;
        put.shape = CASES[i].shape;
        put.shape_len = CASES[i].len;
        result = id_apply_put(a, put, false);
        assert_int_equal(result.status, CASES[i].status);
        if (result.status != 0) {
            assert_non_null(strstr(result.why, "has no increment"));
        }
    }
}

/* A key stands for the same ids, whatever the tag became. */
static void test_a_key_keeps_its_increment(void **state)
{
    struct id_apply *a = *state;
    struct strict_result first;
    struct strict_result again;

    assert_int_equal(make(a, "s", TAG_MODE_STRICT, 3, 1).status, 0);
    first = id_apply_take_by(a, "s", "k", 4);
    assert_true(first.status == 0 && first.first == 1 && first.increment == 3);
    assert_int_equal(make(a, "s", TAG_MODE_STRICT, 1, 0).status, 0);
    for (unsigned i = 0; i < 2; i++) {
        struct fsm *loaded = fsm_of(state_new(&fsm_machine));

        again = id_apply_take_by(a, "s", "k", 4);
        assert_true(again.replayed && again.first == 1 && again.increment == 3);
        id_apply_load(a, loaded); /* and so it stands in its row */
        state_free(fsm_state(a->fsm));
        a->fsm = loaded;
    }
    first = id_apply_take_by(a, "s", "l", 4);
    assert_true(first.first == 11 && first.increment == 0);
    assert_int_equal(make(a, "s", TAG_MODE_STRICT, 2, 0).status, 0);
    again = id_apply_take_by(a, "s", "l", 4);
    assert_true(again.replayed && again.first == 11 && again.increment == 0);
}

/* Before the level no tag has an increment. */
static void test_level_2_has_no_increments(void **state)
{
    struct id_apply two;
    const struct command_list head = {.wall_ms = 1, .stepped = true};
    struct buf command = BUF_INIT;

    (void)state;
    id_apply_init(&two);
    id_apply_raise(&two, 2);
    command_put(&command, COMMAND_TAGS_PUT_STEPPED, &head);
    command_item_put(&command, COMMAND_TAGS_PUT_STEPPED,
                     &(struct tag_put){.name = "a", .name_len = 1});
    command_items_end(&command);
    assert_int_equal(id_apply_bytes(&two, &command), ERR_BAD_MESSAGE);
    assert_int_equal(two.fsm->tags.count, 0);
    buf_free(&command);
    id_apply_free(&two);
}

/* --- the model --- */

#define IDS 400000U
#define STEPS 3000U
#define HELD 8U

struct range {
    uint64_t first;
    uint32_t count;
    uint32_t increment;
    uint32_t generation;
};

struct world {
    struct id_apply *a;
    struct prng prng;
    uint8_t seen[IDS];
    struct range held[HELD]; /* of nodes, or a window's: may be given back */
    unsigned changes;
    unsigned returned;
};

/* These ids leave the tag. */
static void leaves(struct world *world, uint64_t first, uint32_t count, uint32_t increment)
{
    const struct tag_row *row = id_apply_row(world->a, "t");

    assert_int_equal(increment, row->increment);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t id = first + (uint64_t)i * increment_of(increment);

        assert_true(id < IDS && id < row->max_id);
        assert_int_equal(id % increment_of(row->increment), row->offset);
        assert_int_equal(world->seen[id], 0);
        world->seen[id] = 1;
    }
}

static void hold(struct world *world, const struct grant_result *got)
{
    if (got->status == 0) {
        leaves(world, got->first, got->size, got->increment);
        world->held[prng_below(&world->prng, HELD)] =
            (struct range){got->first, got->size, got->increment, got->generation};
    }
}

/* All of a range but its first ids, which were used. */
static void give_back(struct world *world)
{
    struct range *range = &world->held[prng_below(&world->prng, HELD)];
    uint32_t used;
    struct give_back_item item = {.name = "t", .generation = range->generation};

    if (range->count == 0) {
        return;
    }
    used = (uint32_t)prng_below(&world->prng, range->count);
    item.first = range->first + (uint64_t)used * increment_of(range->increment);
    item.end = ids_end(range->first, range->count, range->increment);
    if (id_apply_give_back(world->a, item) == 0) {
        for (uint32_t i = used; i < range->count; i++) {
            world->seen[range->first + (uint64_t)i * increment_of(range->increment)] = 0;
        }
        world->returned++;
    }
    range->count = 0;
}

static void take(struct world *world)
{
    struct id_apply *a = world->a;
    char key[8];
    uint32_t count = 1 + (uint32_t)prng_below(&world->prng, 9);
    struct strict_result got;

    (void)snprintf(key, sizeof key, "k%u", (unsigned)prng_below(&world->prng, 500));
    got = prng_below(&world->prng, 2) == 0 ? id_apply_take(a, "t", count)
                                           : id_apply_take_by(a, "t", key, count);
    if (got.status == 0 && !got.replayed) {
        leaves(world, got.first, count, got.increment);
    }
}

static void change(struct world *world)
{
    struct prng *prng = &world->prng;
    uint32_t increment = (uint32_t)prng_below(prng, 7);
    struct tag_put put = stepped("t", (enum tag_mode)prng_below(prng, 3), increment,
                                 increment > 0 ? (uint32_t)prng_below(prng, increment) : 0);

    put.step_fields = (uint8_t)prng_below(prng, 4);
    if (prng_below(prng, 4) == 0) {
        put.fields |= TAG_FIELD_MAX_ID;
        put.max_id = id_apply_row(world->a, "t")->max_id + prng_below(prng, 9);
    }
    if (prng_below(prng, 10) == 0) {
        assert_int_equal(id_apply_delete(world->a, "t"), 0);
        put.step_fields = 0;
    }
    world->changes += id_apply_put(world->a, put, false).status == 0;
    if (fsm_tag(world->a->fsm, "t", 1)->deleted) {
        assert_int_equal(id_apply_put(world->a, (struct tag_put){.name = "t"}, false).status, 0);
    }
    id_apply_recalled(world->a, world->a->node_id, "t", UINT32_MAX);
}

static void test_no_id_twice(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    struct grant_result got;

    assert_non_null(world);
    world->a = *state;
    prng_seed(&world->prng, 20261130);
    assert_int_equal(make(world->a, "t", TAG_MODE_TREND, 2, 1).status, 0);
    for (unsigned step = 0; step < STEPS; step++) {
        switch (prng_below(&world->prng, 6)) {
        case 0:
            change(world);
            break;
        case 1:
            give_back(world);
            break;
        case 2:
            take(world);
            break;
        case 3:
            got = id_apply_window(world->a, "t", 1 + (uint32_t)prng_below(&world->prng, 20));
            hold(world, &got);
            break;
        default:
            got = id_apply_grant(world->a, "t", 1 + (uint32_t)prng_below(&world->prng, 20));
            hold(world, &got);
        }
    }
    assert_true(world->changes > 100 && world->returned > 10);
    free(world);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, id_apply_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_segments),
        TEST(test_up_to_the_max),
        TEST(test_at_the_end_of_numbers),
        TEST(test_a_change_is_a_new_generation),
        TEST(test_fields_that_are_not_given),
        TEST(test_shapes),
        TEST(test_a_key_keeps_its_increment),
        TEST(test_level_2_has_no_increments),
        TEST(test_no_id_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
