/*
 * test_fsm_tags.c - what grant, put and delete do to the rows of the state machine.
 *
 * Thread: one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_apply.h"
#include "src/tests/unit/collide.h"

#define PUT(...) ((struct tag_put){__VA_ARGS__})

static void make(struct id_apply *a, const char *name, uint32_t step, uint64_t max_id)
{
    struct put_result result =
        id_apply_put(a,
                     PUT(.name = name, .fields = TAG_FIELD_STEP | TAG_FIELD_MAX_ID, .step = step,
                         .max_id = max_id),
                     true);

    assert_int_equal(result.status, 0);
}

static void grant_is(struct grant_result result, uint64_t first, uint32_t size)
{
    assert_int_equal(result.status, 0);
    assert_true(result.first == first);
    assert_int_equal(result.size, size);
}

/* --- grant --- */

/* Shows lesson-above. */
static void test_grants_are_disjoint_and_rise(void **state)
{
    struct id_apply *a = *state;

    make(a, "order", 2000, 1);
    grant_is(id_apply_grant(a, "order", 0), 1, 2000);
    assert_int_equal(a->changed, 2); /* the tag, and the node that was never granted one before */
    grant_is(id_apply_grant(a, "order", 0), 2001, 2000);
    assert_int_equal(a->changed, 1);
    grant_is(id_apply_grant(a, "order", 5), 4001, 5);
    grant_is(id_apply_grant(a, "order", 1000000), 4006, 1000000);
    grant_is(id_apply_grant(a, "order", 1000001), 1004006, 1000000); /* max_step */
    grant_is(id_apply_grant(a, "order", UINT32_MAX), 2004006, 1000000);
    assert_int_equal(id_apply_row(a, "order")->max_id, 3004006);
}

static void test_grant_tells_step_and_generation(void **state)
{
    struct id_apply *a = *state;
    struct grant_result result;

    make(a, "order", 10, 1);
    result = id_apply_grant(a, "order", 3);
    assert_int_equal(result.generation, 1);
    assert_int_equal(result.step, 10);
    assert_int_equal(result.max_step, TAG_DEFAULT_MAX_STEP);
}

static void test_grant_from_zero(void **state)
{
    make(*state, "order", 10, 0);
    grant_is(id_apply_grant(*state, "order", 0), 0, 10);
}

static void test_grant_of_unknown_tags(void **state)
{
    struct id_apply *a = *state;
    struct grant_result result = id_apply_grant(a, "order", 1);

    assert_int_equal(result.status, ERR_UNKNOWN_TAG);
    assert_int_equal(result.generation, 0);
    assert_int_equal(a->changed, 0);
    assert_int_equal(fsm_tag_count(a->fsm), 0);
    make(a, "order", 10, 1);
    assert_int_equal(id_apply_delete(a, "order"), 0);
    result = id_apply_grant(a, "order", 1);
    assert_int_equal(result.status, ERR_UNKNOWN_TAG);
    assert_int_equal(result.generation, 2); /* of the tombstone */
    assert_int_equal(a->changed, 0);
    assert_int_equal(id_apply_grant(a, "", 1).status, ERR_UNKNOWN_TAG);
}

/* Shows lesson-end-of-int64. */
static void test_grant_at_the_end_of_the_axis(void **state)
{
    struct id_apply *a = *state;
    struct grant_result result;

    make(a, "order", 1000, TAG_MAX_ID_END - 1500);
    grant_is(id_apply_grant(a, "order", 0), TAG_MAX_ID_END - 1500, 1000);
    grant_is(id_apply_grant(a, "order", 0), TAG_MAX_ID_END - 500, 500); /* what is left */
    assert_true(id_apply_row(a, "order")->max_id == TAG_MAX_ID_END);
    result = id_apply_grant(a, "order", 1);
    assert_int_equal(result.status, ERR_EXHAUSTED);
    assert_int_equal(result.generation, 1);
    assert_int_equal(result.size, 0);
    assert_int_equal(a->changed, 0);
    make(a, "order", 1, TAG_MAX_ID_END - 1);
    grant_is(id_apply_grant(a, "order", UINT32_MAX), TAG_MAX_ID_END - 1, 1);
}

static void test_grant_of_many_tags_in_one_command(void **state)
{
    struct id_apply *a = *state;
    struct buf command = BUF_INIT;
    struct grant_result results[4];
    size_t count = 0;

    make(a, "a", 10, 1);
    make(a, "b", 20, 5);
    command_put(&command, COMMAND_GRANT, &(struct command_list){.wall_ms = a->wall_ms});
    command_item_put(&command, COMMAND_GRANT, &(struct grant_item){"b", 1, 0});
    command_item_put(&command, COMMAND_GRANT, &(struct grant_item){"none", 4, 0});
    command_item_put(&command, COMMAND_GRANT, &(struct grant_item){"a", 1, 3});
    command_item_put(&command, COMMAND_GRANT, &(struct grant_item){"b", 1, 7}); /* a second time */
    command_items_end(&command);
    assert_int_equal(id_apply_bytes(a, &command), 0);
    assert_int_equal(
        results_decode(RESULT_GRANTS, a->result.data, a->result.len, results, 4, &count), 0);
    assert_int_equal(count, 4);
    grant_is(results[0], 5, 20);
    assert_int_equal(results[1].status, ERR_UNKNOWN_TAG);
    grant_is(results[2], 1, 3);
    grant_is(results[3], 25, 7);
    assert_int_equal(a->changed, 4); /* with the node's row */
    buf_free(&command);
}

/* --- put --- */

static void test_put_makes_a_tag_with_defaults(void **state)
{
    struct id_apply *a = *state;
    struct put_result result = id_apply_put(a, PUT(.name = "order"), false);
    const struct tag_row *row = id_apply_row(a, "order");

    assert_int_equal(result.status, 0);
    assert_int_equal(result.made, 1);
    assert_int_equal(result.changed, 0);
    assert_int_equal(row->step, 1000);
    assert_int_equal(row->max_step, 1000000);
    assert_int_equal(row->max_id, 1);
    assert_int_equal(row->mode, TAG_MODE_TREND);
    assert_string_equal(row->description, "");
    assert_int_equal(row->generation, 1);
    assert_int_equal(row->created_ms, 1000);
    assert_int_equal(row->updated_ms, 1000);
    assert_false(row->deleted);
    assert_int_equal(a->changed, 1);
}

static void test_put_answers_the_first_row(void **state)
{
    const struct tag_put puts[2] = {
        {.name = "b", .fields = TAG_FIELD_DESCRIPTION, .description = "Best"},
        {.name = "a"},
    };
    struct put_result result = id_apply_puts(*state, puts, 2, false);

    assert_int_equal(result.made, 2);
    assert_memory_equal(result.first.name, "b", result.first.name_len);
    assert_int_equal(result.first.description_len, 4);
    assert_memory_equal(result.first.description, "Best", 4);
    assert_int_equal(result.first.generation, 1);
}

static void test_put_changes_only_what_is_given(void **state)
{
    struct id_apply *a = *state;
    const struct tag_row *row;
    struct put_result result;

    id_apply_put(a,
                 PUT(.name = "order", .fields = 0x1f, .step = 5, .max_step = 50, .max_id = 7,
                     .description = "first"),
                 false);
    a->wall_ms = 2000;
    result = id_apply_put(a, PUT(.name = "order", .fields = TAG_FIELD_STEP, .step = 6), false);
    assert_int_equal(result.changed, 1);
    assert_int_equal(result.made, 0);
    row = id_apply_row(a, "order");
    assert_int_equal(row->step, 6);
    assert_int_equal(row->max_step, 50);
    assert_int_equal(row->max_id, 7);
    assert_string_equal(row->description, "first");
    assert_int_equal(row->generation, 1);
    assert_int_equal(row->created_ms, 1000);
    assert_int_equal(row->updated_ms, 2000);
    id_apply_put(a, PUT(.name = "order", .fields = TAG_FIELD_DESCRIPTION, .description = ""),
                 false);
    assert_string_equal(id_apply_row(a, "order")->description, "");
    a->wall_ms = 500; /* a proposer whose clock is behind */
    id_apply_put(a, PUT(.name = "order"), false);
    assert_int_equal(id_apply_row(a, "order")->updated_ms, 2000);
    a->wall_ms = UINT64_MAX;
    id_apply_put(a, PUT(.name = "order"), false);
    assert_true(id_apply_row(a, "order")->updated_ms == LIMIT_TIME_MAX_MS);
}

static void test_put_step_raises_max_step_unless_given(void **state)
{
    struct id_apply *a = *state;
    struct put_result result;

    result = id_apply_put(a, PUT(.name = "big", .fields = TAG_FIELD_STEP, .step = 2000000), false);
    assert_int_equal(result.status, 0);
    assert_int_equal(id_apply_row(a, "big")->max_step, 2000000);
    id_apply_put(a, PUT(.name = "big", .fields = TAG_FIELD_STEP, .step = 3000000), false);
    assert_int_equal(id_apply_row(a, "big")->max_step, 3000000);
    id_apply_put(a, PUT(.name = "big", .fields = TAG_FIELD_STEP, .step = 1), false);
    assert_int_equal(id_apply_row(a, "big")->max_step, 3000000); /* stays */
    result = id_apply_put(
        a,
        PUT(.name = "big", .fields = TAG_FIELD_STEP | TAG_FIELD_MAX_STEP, .step = 5, .max_step = 4),
        false);
    assert_int_equal(result.status, ERR_INVALID);
    assert_string_equal(result.why, "max_step is smaller than step");
    result =
        id_apply_put(a, PUT(.name = "new", .fields = TAG_FIELD_MAX_STEP, .max_step = 999), false);
    assert_int_equal(result.status, ERR_INVALID); /* the default step is 1000 */
}

static void test_put_refuses_broken_rules(void **state)
{
    struct id_apply *a = *state;
    char name[LIMIT_TAG_NAME_BYTES + 1];
    const struct {
        struct tag_put put;
        const char *why;
    } cases[] = {
        {{.name = "x\n"}, "control character"},
        {{.name = "\xff"}, "UTF-8"},
        {{.name = name, .name_len = sizeof name}, "longer than 128"},
        {{.name = "x", .fields = TAG_FIELD_STEP, .step = 0}, "step is not"},
        {{.name = "x", .fields = TAG_FIELD_STEP, .step = LIMIT_TAG_STEP + 1}, "step is not"},
        {{.name = "x", .fields = TAG_FIELD_MAX_STEP, .max_step = LIMIT_TAG_STEP + 1}, "max_step"},
        {{.name = "x", .fields = TAG_FIELD_MAX_ID, .max_id = 1ULL << 63}, "max_id is larger"},
        {{.name = "x", .fields = TAG_FIELD_MODE, .mode = 3}, "mode is not known"},
        {{.name = "x", .fields = TAG_FIELD_DESCRIPTION, .description = "\xc3"}, "description"},
    };

    memset(name, 'n', sizeof name);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct put_result result = id_apply_put(a, cases[i].put, true);

        assert_int_equal(result.status, ERR_INVALID);
        assert_non_null(strstr(result.why, cases[i].why));
        assert_int_equal(a->changed, 0);
    }
    assert_int_equal(fsm_tag_count(a->fsm), 0);
}

static void test_put_lowers_max_id_only_by_force(void **state)
{
    struct id_apply *a = *state;
    struct tag_put put = {.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 499};
    struct put_result result;

    make(a, "order", 10, 500);
    result = id_apply_put(a, put, false);
    assert_int_equal(result.status, ERR_WOULD_REPEAT);
    assert_int_equal(result.max_id, 500);
    assert_int_equal(result.asked, 499);
    assert_int_equal(id_apply_row(a, "order")->max_id, 500);
    result = id_apply_put(a, put, true);
    assert_int_equal(result.status, 0);
    assert_int_equal(id_apply_row(a, "order")->max_id, 499);
    assert_int_equal(id_apply_row(a, "order")->generation, 2);
    put.max_id = 499; /* equal: no repetition */
    assert_int_equal(id_apply_put(a, put, false).status, 0);
    assert_int_equal(id_apply_put(a, put, true).status, 0);
    assert_int_equal(id_apply_row(a, "order")->generation, 4);
    put.max_id = TAG_MAX_ID_END;
    assert_int_equal(id_apply_put(a, put, true).status, 0);
    assert_int_equal(id_apply_row(a, "order")->generation, 5);
    assert_int_equal(id_apply_grant(a, "order", 1).status, ERR_EXHAUSTED);
}

static void test_put_is_all_or_nothing(void **state)
{
    struct id_apply *a = *state;
    struct tag_put puts[3] = {
        {.name = "new"},
        {.name = "order", .fields = TAG_FIELD_STEP, .step = 77},
        {.name = "order2", .fields = TAG_FIELD_MAX_ID, .max_id = 1},
    };
    uint64_t digest;
    struct put_result result;

    make(a, "order", 10, 1);
    make(a, "order2", 10, 500);
    digest = id_apply_digest(a);
    result = id_apply_puts(a, puts, 3, false);
    assert_int_equal(result.status, ERR_WOULD_REPEAT);
    assert_int_equal(result.failed_at, 2);
    assert_int_equal(a->changed, 0);
    assert_true(id_apply_digest(a) == digest);
    puts[2].max_id = 500;
    result = id_apply_puts(a, puts, 3, false);
    assert_int_equal(result.status, 0);
    assert_int_equal(result.made, 1);
    assert_int_equal(result.changed, 2);
    assert_int_equal(a->changed, 3);
}

static void test_put_refuses_a_name_twice(void **state)
{
    const struct tag_put puts[5] = {
        {.name = "c"}, {.name = "a"}, {.name = "b"}, {.name = "a"}, {.name = "c"}};
    struct put_result result = id_apply_puts(*state, puts, 5, true);

    assert_int_equal(result.status, ERR_INVALID);
    assert_int_equal(result.failed_at, 3); /* the first that stood before */
    assert_non_null(strstr(result.why, "twice"));
    assert_int_equal(fsm_tag_count(((struct id_apply *)*state)->fsm), 0);
    result = id_apply_puts(*state, puts, 3, true);
    assert_int_equal(result.status, 0);
}

/* Whatever else is wrong with an item before it: what apply says must never change. */
static void test_put_tells_of_a_name_twice_first(void **state)
{
    struct tag_put puts[4] = {{.name = "a", .fields = TAG_FIELD_MAX_ID, .max_id = 1},
                              {.name = "b"},
                              {.name = "c"},
                              {.name = "b"}};
    struct put_result result;

    make(*state, "a", 10, 500);
    result = id_apply_puts(*state, puts, 4, false);
    assert_int_equal(result.status, ERR_INVALID);
    assert_int_equal(result.failed_at, 3);
    assert_true(result.max_id == 0 && result.asked == 0);
    assert_non_null(strstr(result.why, "twice"));
    result = id_apply_puts(*state, puts, 3, false);
    assert_int_equal(result.status, ERR_WOULD_REPEAT);
    assert_int_equal(result.failed_at, 0);
}

static void test_put_bulk_at_its_limit(void **state)
{
    struct id_apply *a = *state;
    struct tag_put *puts = calloc(LIMIT_TAGS_PER_BULK + 1, sizeof *puts);
    char(*names)[8] = calloc(LIMIT_TAGS_PER_BULK + 1, sizeof *names);
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct put_result result;
    struct buf command = BUF_INIT;
    struct row_changes changes = {0};

    assert_non_null(puts);
    assert_non_null(names);
    for (unsigned i = 0; i <= LIMIT_TAGS_PER_BULK; i++) {
        (void)snprintf(names[i], sizeof names[i], "t%u", i);
        puts[i].name = names[i];
    }
    result = id_apply_puts(a, puts, LIMIT_TAGS_PER_BULK + 1, false);
    assert_int_equal(result.status, ERR_INVALID);
    assert_non_null(strstr(result.why, "10000"));
    assert_int_equal(fsm_tag_count(a->fsm), 0);
    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.force = false, .wall_ms = 1});
    for (unsigned i = 0; i < LIMIT_TAGS_PER_BULK; i++) {
        puts[i].name_len = (uint16_t)strlen(names[i]);
        command_item_put(&command, COMMAND_TAGS_PUT, &puts[i]);
    }
    command_items_end(&command);
    id_stamp_as(&command, 1, 1, 1, 1);
    for (unsigned round = 0; round < 2; round++) { /* the second is a repetition */
        struct buf answer = BUF_INIT;

        assert_int_equal(
            state_apply(fsm_state(fsm), 1 + round, 1, command.data, command.len, &answer, &changes),
            0);
        assert_int_equal(put_result_decode(answer.data, answer.len, &result), 0);
        assert_int_equal(result.made, LIMIT_TAGS_PER_BULK);
        assert_int_equal(fsm_tag_count(fsm), LIMIT_TAGS_PER_BULK);
        assert_int_equal(changes.count, LIMIT_TAGS_PER_BULK + 1); /* and what it was told */
        buf_free(&answer);
    }
    state_free(fsm_state(fsm));
    row_changes_release(&changes);
    result = id_apply_puts(a, puts, 0, false);
    assert_int_equal(result.status, ERR_INVALID);
    assert_non_null(strstr(result.why, "empty"));
    buf_free(&command);
    free(puts);
    free(names);
}

/* As many tags as a bulk may have; the last name stands twice if so is said. */
static void put_largest(struct buf *command, bool twice)
{
    command_put(command, COMMAND_TAGS_PUT, &(struct command_list){.force = false, .wall_ms = 1});
    for (unsigned i = 0; i < LIMIT_TAGS_PER_BULK; i++) {
        char name[8];
        int len = snprintf(name, sizeof name, "t%u", twice && i == 9999 ? 1 : i);

        command_item_put(command, COMMAND_TAGS_PUT, &PUT(.name = name, .name_len = (uint16_t)len));
    }
    command_items_end(command);
    id_stamp_as(command, 1, 1, 1, 1);
}

/* The parts in which a bulk is judged, until it is applied after so many of them; digest and answer
 * are the same after any number. Between them other commands are read. */
static unsigned apply_after_parts(const struct buf *command, unsigned parts, struct buf *answer,
                                  uint64_t *ret_digest)
{
    struct state *state = fsm_state(fsm_of(state_new(&fsm_machine)));
    struct row_changes changes = {0};
    struct buf other = BUF_INIT;
    bool more = parts > 0;
    unsigned done = 0;

    command_put(&other, COMMAND_TAG_DELETE,
                &(struct delete_command){.name = "t1", .name_len = 2, .wall_ms = 1});
    for (; more && done < parts; done++) {
        more = done == 0 ? state_foresee(state, 1, command->data, command->len)
                         : state_foresee_more(state, 1);
        assert_int_equal(state_check(state, other.data, other.len), 0);
    }
    assert_int_equal(state_apply(state, 1, 1, command->data, command->len, answer, &changes), 0);
    assert_false(state_foresee_more(state, 1));
    *ret_digest = state_digest(state);
    row_changes_release(&changes);
    buf_free(&other);
    state_free(state);
    return done;
}

static void test_put_bulk_is_judged_in_parts(void **state)
{
    (void)state;
    for (unsigned twice = 0; twice < 2; twice++) {
        struct buf command = BUF_INIT;
        struct buf answer = BUF_INIT;
        uint64_t digest;
        unsigned parts = 0;

        put_largest(&command, twice == 1);
        assert_int_equal(apply_after_parts(&command, 0, &answer, &digest), 0);
        for (unsigned most = 1; most == 1 || parts == most - 1; most++) {
            struct buf again = BUF_INIT;
            uint64_t same;

            parts = apply_after_parts(&command, most, &again, &same);
            assert_true(same == digest && again.len == answer.len);
            assert_memory_equal(again.data, answer.data, answer.len);
            buf_free(&again);
        }
        assert_in_range(parts, 10, 40); /* each of them short */
        buf_free(&command);
        buf_free(&answer);
    }
}

#define ORDERS 300
#define ORDER_PUTS 64

/* Puts of names at random: some are there, some are tombstones, many are new and lie next to each
 * other, in any order; with texts that stay, change, come and go. No name comes twice. */
static size_t random_puts(struct prng *prng, char names[][8], struct tag_put *puts)
{
    size_t count = 1 + prng_below(prng, ORDER_PUTS);
    unsigned first = (unsigned)prng_below(prng, 500);

    for (size_t i = 0; i < count; i++) {
        size_t at = prng_below(prng, i + 1);

        puts[i] =
            (struct tag_put){.fields = TAG_FIELD_STEP, .step = 1 + (uint32_t)prng_below(prng, 9)};
        if (prng_below(prng, 3) == 0) {
            puts[i].fields |= TAG_FIELD_DESCRIPTION;
            puts[i].description = prng_below(prng, 2) == 0 ? "one that says more" : "";
        }
        (void)snprintf(names[i], sizeof names[i], "n%u", first + (unsigned)i);
        puts[i].name = puts[at].name; /* shuffled as they come */
        puts[at].name = names[i];
    }
    return count;
}

/* A bulk does what its puts would do one by one: rows, digest, what is counted; and rows stay in
 * the order of their names. */
static void test_put_bulk_is_as_one_by_one(void **state)
{
    struct id_apply *a = *state;
    struct id_apply one;
    struct prng prng;

    id_apply_init(&one);
    prng_seed(&prng, 31);
    for (unsigned i = 0; i < ORDERS; i++) {
        char names[ORDER_PUTS][8];
        struct tag_put puts[ORDER_PUTS];
        size_t count = random_puts(&prng, names, puts);
        struct fsm_usage usage;
        struct fsm_usage other;
        struct fsm_row *row = fsm_tags_seek(&a->fsm->tags, "", 0);

        a->wall_ms = one.wall_ms = 1000 + i;
        assert_int_equal(id_apply_puts(a, puts, count, false).status, 0);
        for (size_t j = 0; j < count; j++) {
            assert_int_equal(id_apply_put(&one, puts[j], false).status, 0);
        }
        if (prng_below(&prng, 2) == 0) {
            assert_int_equal(id_apply_delete(a, puts[0].name), 0);
            assert_int_equal(id_apply_delete(&one, puts[0].name), 0);
        }
        fsm_usage(a->fsm, &usage);
        fsm_usage(one.fsm, &other);
        assert_memory_equal(&usage, &other, sizeof usage);
        for (struct fsm_row *next; row != NULL && (next = fsm_tags_next(row)) != NULL; row = next) {
            assert_true(strcmp(row->name, next->name) < 0);
        }
    }
    for (struct fsm_row *row = fsm_tags_seek(&a->fsm->tags, "", 0); row != NULL;
         row = fsm_tags_next(row)) {
        const struct tag_row *tag = fsm_tag(one.fsm, row->name, row->name_len);

        assert_non_null(tag);
        assert_int_equal(tag->step, row->step);
        assert_int_equal(tag->generation, row->generation);
        assert_int_equal(tag->created_ms, row->created_ms);
        assert_int_equal(tag->updated_ms, row->updated_ms);
        assert_string_equal(tag->description, fsm_row_tag(row).description);
    }
    id_apply_free(&one);
}

/* What was judged in part counts for nothing once another entry was applied. */
static void test_put_bulk_is_judged_for_one_state(void **state)
{
    struct id_apply *a = *state;
    struct state *in = fsm_state(a->fsm);
    struct buf command = BUF_INIT;

    put_largest(&command, false);
    assert_true(state_foresee(in, a->index + 1, command.data, command.len));
    assert_false(state_foresee_more(in, a->index + 2));
    assert_true(state_foresee_more(in, a->index + 1));
    make(a, "a", 10, 500);
    assert_false(state_foresee_more(in, a->index));
    assert_false(state_foresee_more(in, a->index + 1));
    buf_free(&command);
}

/* A bulk of these names, which only their being there makes refused. */
static void apply_bulk(collide_name *names, size_t count, void *data)
{
    struct tag_put *puts = data;
    struct fsm *fsm = fsm_of(state_new(&fsm_machine));
    struct buf command = BUF_INIT;
    struct buf answer = BUF_INIT;
    struct row_changes changes = {0};
    struct put_result result;

    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.force = false, .wall_ms = 1});
    for (size_t i = 0; i < count; i++) {
        puts[i] = PUT(.name = names[i], .name_len = COLLIDE_NAME_BYTES - 1);
        command_item_put(&command, COMMAND_TAGS_PUT, &puts[i]);
    }
    command_items_end(&command);
    id_stamp_as(&command, 1, 1, 1, 1);
    assert_int_equal(
        state_apply(fsm_state(fsm), 1, 1, command.data, command.len, &answer, &changes), 0);
    assert_int_equal(put_result_decode(answer.data, answer.len, &result), 0);
    assert_int_equal(result.made, count);
    buf_free(&answer);
    buf_free(&command);
    row_changes_release(&changes);
    state_free(fsm_state(fsm));
}

/* Names that a client chose to be in one place when a bulk is looked through for a name that stands
 * there twice, as every node does when it applies it. */
static void test_put_bulk_of_names_that_are_to_collide(void **state)
{
    enum { COUNT = 4096 }; /* half of 8192 places */
    collide_name *names = calloc(2 * COUNT, sizeof *names);
    struct tag_put *puts = calloc(COUNT, sizeof *puts);
    uint64_t chosen_ns;
    uint64_t others_ns;

    (void)state;
    assert_non_null(names);
    assert_non_null(puts);
    collide_make(0, 2 * COUNT - 1, COUNT, names);
    collide_make_others(COUNT, names + COUNT);
    chosen_ns = collide_cost_ns(apply_bulk, names, COUNT, puts);
    others_ns = collide_cost_ns(apply_bulk, names + COUNT, COUNT, puts);
    print_message("a bulk of %u names that are to collide: %" PRIu64 " us, of others: %" PRIu64
                  " us\n",
                  COUNT, chosen_ns / 1000, others_ns / 1000);
    assert_true(chosen_ns < 3 * others_ns);
    free(names);
    free(puts);
}

/* The count alone is moved up: rows for the limit would take a gigabyte. */
static void test_put_at_the_limit_of_tags(void **state)
{
    struct id_apply *a = *state;
    const struct tag_put puts[2] = {{.name = "a"}, {.name = "b"}};
    const struct tag_put again[2] = {{.name = "a"}, {.name = "a2"}};
    struct put_result result;

    a->fsm->tags.count = LIMIT_TAGS - 1;
    result = id_apply_puts(a, puts, 2, false);
    assert_int_equal(result.status, ERR_OVERLOADED);
    assert_int_equal(result.failed_at, 1);
    assert_int_equal(a->changed, 0);
    result = id_apply_puts(a, puts, 1, false);
    assert_int_equal(result.status, 0);
    assert_int_equal(a->fsm->tags.count, LIMIT_TAGS);
    result = id_apply_puts(a, again, 2, false);
    assert_int_equal(result.status, ERR_OVERLOADED);
    result = id_apply_puts(a, again, 1, false); /* a tag that is there can still be changed */
    assert_int_equal(result.status, 0);
    a->fsm->tags.count = 1;
}

/* --- delete, and making again --- */

static void test_delete_keeps_the_mark(void **state)
{
    struct id_apply *a = *state;
    const struct tag_row *row;

    make(a, "order", 10, 500);
    a->wall_ms = 3000;
    assert_int_equal(id_apply_delete(a, "order"), 0);
    row = id_apply_row(a, "order");
    assert_true(row->deleted);
    assert_int_equal(row->max_id, 500);
    assert_int_equal(row->generation, 2);
    assert_int_equal(row->updated_ms, 3000);
    assert_int_equal(id_apply_delete(a, "order"), ERR_UNKNOWN_TAG);
    assert_int_equal(id_apply_delete(a, "none"), ERR_UNKNOWN_TAG);
    assert_int_equal(a->changed, 0);
    assert_int_equal(fsm_tag_count(a->fsm), 1);
}

/* Shows lesson-recreate. */
static void test_made_again_goes_on_above(void **state)
{
    struct id_apply *a = *state;
    const struct tag_row *row;
    struct put_result result;

    id_apply_put(a,
                 PUT(.name = "order", .fields = TAG_FIELD_STEP | TAG_FIELD_DESCRIPTION, .step = 5,
                     .description = "old"),
                 false);
    (void)id_apply_grant(a, "order", 99);
    (void)id_apply_delete(a, "order");
    a->wall_ms = 5000;
    result = id_apply_put(a, PUT(.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 1), false);
    assert_int_equal(result.status, ERR_WOULD_REPEAT);
    result = id_apply_put(a, PUT(.name = "order"), false);
    assert_int_equal(result.made, 1);
    row = id_apply_row(a, "order");
    assert_int_equal(row->max_id, 100);
    assert_int_equal(row->generation, 3);
    assert_int_equal(row->created_ms, 5000);
    assert_int_equal(row->step, 1000); /* a new tag: defaults */
    assert_string_equal(row->description, "");
    (void)id_apply_delete(a, "order");
    id_apply_put(a, PUT(.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 200), false);
    assert_int_equal(id_apply_row(a, "order")->max_id, 200);
    (void)id_apply_delete(a, "order");
    id_apply_put(a, PUT(.name = "order"), true); /* force, but nothing asked */
    assert_int_equal(id_apply_row(a, "order")->max_id, 200);
    (void)id_apply_delete(a, "order");
    id_apply_put(a, PUT(.name = "order", .fields = TAG_FIELD_MAX_ID, .max_id = 3), true);
    assert_int_equal(id_apply_row(a, "order")->max_id, 3);
    assert_int_equal(id_apply_row(a, "order")->generation, 9);
}

/* --- ids stay below a max --- */

static struct put_result put_as(struct id_apply *a, struct tag_put put)
{
    struct put_result result;
    struct buf command = BUF_INIT;

    put.name_len = (uint16_t)strlen(put.name);
    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = 1});
    command_item_put(&command, COMMAND_TAGS_PUT, &put);
    command_items_end(&command);
    assert_int_equal(id_apply_as(a, 1, &command), 0);
    assert_int_equal(put_result_decode(a->result.data, a->result.len, &result), 0);
    buf_free(&command);
    return result;
}

static struct put_result put_max(struct id_apply *a, const char *name, uint64_t max)
{
    return put_as(a, (struct tag_put){.name = name, .fields = TAG_FIELD_MAX, .max = max});
}

static void test_ids_stay_below_the_max(void **state)
{
    struct id_apply *a = *state;
    struct grant_result got;

    assert_int_equal(put_max(a, "a", 1500).status, 0); /* from 1 on, a step of 1000 */
    got = id_apply_grant(a, "a", 1000);
    assert_int_equal(got.status, 0);
    assert_int_equal(got.first, 1);
    got = id_apply_grant(a, "a", 1000); /* what is left */
    assert_int_equal(got.status, 0);
    assert_int_equal(got.first, 1001);
    assert_int_equal(got.size, 499);
    assert_int_equal(id_apply_grant(a, "a", 1).status, ERR_EXHAUSTED);
    assert_int_equal(put_max(a, "a", 1499).status, ERR_INVALID); /* granted already */
    assert_int_equal(put_max(a, "a", 1501).status, 0);
    got = id_apply_grant(a, "a", 1000);
    assert_int_equal(got.first, 1500);
    assert_int_equal(got.size, 1);
    assert_int_equal(put_max(a, "a", 0).status, 0); /* taken away */
    assert_int_equal(id_apply_grant(a, "a", 1000).size, 1000);
    assert_int_equal(put_max(a, "a", 5000).status, 0);
    assert_int_equal(id_apply_delete(a, "a"), 0);
    assert_int_equal(id_apply_put(a, (struct tag_put){.name = "a", .name_len = 1}, false).status,
                     0);
    assert_int_equal(id_apply_row(a, "a")->max, 0); /* made again, without one */
}

/* --- a name has one shape --- */

#define SECRET(key) "{secret:6}\0" key key key key
#define KEY_A "aaaaaaaa"
#define KEY_B "bbbbbbbb"

static struct put_result put_shape(struct id_apply *a, const char *name, const char *shape,
                                   size_t shape_len)
{
    return put_as(a, (struct tag_put){.name = name,
                                      .fields = shape != NULL ? TAG_FIELD_SHAPE : 0,
                                      .shape = shape,
                                      .shape_len = (uint16_t)shape_len});
}

static void shape_is(struct id_apply *a, const char *name, const char *shape, size_t len)
{
    const struct tag_row *row = id_apply_row(a, name);

    assert_int_equal(row->shape_len, len);
    assert_memory_equal(row->shape, shape, len);
}

/* Deleted or not, and with the key that it was made with. */
static void test_a_name_keeps_its_shape(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(put_shape(a, "a", "A{id:4}", 7).status, 0);
    shape_is(a, "a", "A{id:4}", 7);
    assert_int_equal(put_shape(a, "a", "A{id:4}", 7).status, 0);
    assert_int_equal(put_shape(a, "a", NULL, 0).status, 0);
    assert_int_equal(put_shape(a, "a", "B{id:4}", 7).status, ERR_INVALID);
    assert_int_equal(put_shape(a, "a", "A{id:4}-", 8).status, ERR_INVALID);
    assert_int_equal(put_shape(a, "a", "", 0).status, ERR_INVALID);
    shape_is(a, "a", "A{id:4}", 7);
    assert_int_equal(id_apply_delete(a, "a"), 0);
    shape_is(a, "a", "A{id:4}", 7);
    assert_int_equal(put_shape(a, "a", "B{id:4}", 7).status, ERR_INVALID);
    assert_int_equal(put_shape(a, "a", NULL, 0).status, 0);
    shape_is(a, "a", "A{id:4}", 7);
    /* A name that had numbers gives numbers. */
    assert_int_equal(put_shape(a, "n", NULL, 0).status, 0);
    assert_int_equal(put_shape(a, "n", "{id36}", 6).status, ERR_INVALID);
    assert_int_equal(put_shape(a, "n", "", 0).status, 0);
    shape_is(a, "n", "", 0);
    /* Who repeats a put has drawn another key. */
    assert_int_equal(put_shape(a, "s", SECRET(KEY_A), 43).status, 0);
    assert_int_equal(put_shape(a, "s", SECRET(KEY_B), 43).status, 0);
    shape_is(a, "s", SECRET(KEY_A), 43);
}

static void test_a_secret_shape_bounds_its_tag(void **state)
{
    struct id_apply *a = *state;

    assert_int_equal(put_shape(a, "s", SECRET(KEY_A), 43).status, 0);
    assert_int_equal(id_apply_row(a, "s")->max, 1000000);
    assert_int_equal(put_max(a, "s", 1000001).status, ERR_INVALID);
    assert_int_equal(put_max(a, "s", 1500).status, 0);
    assert_int_equal(put_max(a, "s", 0).status, 0);
    assert_int_equal(id_apply_row(a, "s")->max, 1000000);
    assert_int_equal(id_apply_delete(a, "s"), 0);
    assert_int_equal(put_shape(a, "s", NULL, 0).status, 0); /* made again */
    assert_int_equal(id_apply_row(a, "s")->max, 1000000);
    assert_int_equal(put_shape(a, "k", "{secret:6}", 10).status, ERR_INVALID); /* no key */
    assert_null(fsm_tag(a->fsm, "k", 1));
}

/* --- keys of shapes --- */

#define REKEYABLE(keys) "A{key}{secret:6}\0" keys
#define REKEYABLE_LEN 17
#define LARGE "A{key}{secret:8}\0" /* of that length too */
#define LONG_KEY(c) c c c c

static struct put_result put_key(struct id_apply *a, const char *name, uint8_t number,
                                 const char *key, struct tag_put more)
{
    more.name = name;
    more.fields |= TAG_FIELD_KEY;
    more.key_number = number;
    more.key = key;
    more.key_len = SHAPE_KEY_BYTES;
    return put_as(a, more);
}

/* Ids go on with the first of the new key; what nodes hold of the old one ends; and a repeat, which
 * has drawn another key, changes nothing. */
static void test_a_new_key(void **state)
{
    static const char two[] = REKEYABLE(LONG_KEY(KEY_A) LONG_KEY(KEY_B));
    struct id_apply *a = *state;
    uint32_t generation;

    assert_int_equal(
        put_shape(a, "s", REKEYABLE(LONG_KEY(KEY_A)), REKEYABLE_LEN + SHAPE_KEY_BYTES).status, 0);
    assert_int_equal(id_apply_row(a, "s")->max, 1000000);
    generation = id_apply_row(a, "s")->generation;
    assert_int_equal(put_key(a, "s", 0, LONG_KEY(KEY_B), (struct tag_put){0}).status, 0);
    assert_int_equal(id_apply_row(a, "s")->max_id, 1);
    for (int repeats = 0; repeats < 2; repeats++) {
        const char *key = repeats == 0 ? LONG_KEY(KEY_B) : LONG_KEY("cccccccc");
        struct put_result result = put_key(a, "s", 1, key, (struct tag_put){0});

        assert_int_equal(result.status, 0);
        assert_int_equal(tag_key_number(&result.first), 1);
        shape_is(a, "s", two, REKEYABLE_LEN + 2 * SHAPE_KEY_BYTES);
        assert_int_equal(id_apply_row(a, "s")->max_id, 1000000);
        assert_int_equal(id_apply_row(a, "s")->max, 2000000);
        assert_int_equal(id_apply_row(a, "s")->generation, generation + 1);
    }
    /* Nor may one that comes late, or jumps ahead. */
    assert_int_equal(put_key(a, "s", 0, LONG_KEY(KEY_B), (struct tag_put){0}).status, ERR_CONFLICT);
    assert_int_equal(put_key(a, "s", 3, LONG_KEY(KEY_B), (struct tag_put){0}).status, ERR_CONFLICT);
    /* A name keeps them all, deleted or not, and its max stays where they are. */
    assert_int_equal(put_max(a, "s", 2000001).status, ERR_INVALID);
    assert_int_equal(id_apply_delete(a, "s"), 0);
    assert_int_equal(put_shape(a, "s", NULL, 0).status, 0);
    shape_is(a, "s", two, REKEYABLE_LEN + 2 * SHAPE_KEY_BYTES);
    assert_int_equal(id_apply_row(a, "s")->max_id, 1000000);
    assert_int_equal(put_key(a, "s", 2, LONG_KEY(KEY_A), (struct tag_put){0}).status, 0);
    assert_int_equal(id_apply_row(a, "s")->max_id, 2000000);
}

/* The key that the tag has comes with max_id and max, as a dump has them; and a new name begins
 * with the key that the dump says. The ids of those before are nobody's. */
static void test_the_key_of_a_dump(void **state)
{
    static const char three[] = LARGE LONG_KEY(KEY_A) LONG_KEY(KEY_B) LONG_KEY(KEY_B);
    struct tag_put dump = {.fields = TAG_FIELD_SHAPE | TAG_FIELD_MAX_ID | TAG_FIELD_MAX,
                           .shape = LARGE LONG_KEY(KEY_A),
                           .shape_len = REKEYABLE_LEN + SHAPE_KEY_BYTES,
                           .max_id = 200000500,
                           .max = 260000000};
    struct id_apply *a = *state;

    for (int repeats = 0; repeats < 2; repeats++) {
        assert_int_equal(put_key(a, "s", 2, LONG_KEY(KEY_B), dump).status, 0);
        shape_is(a, "s", three, REKEYABLE_LEN + 3 * SHAPE_KEY_BYTES);
        assert_int_equal(id_apply_row(a, "s")->max_id, 200000500);
        assert_int_equal(id_apply_row(a, "s")->max, 260000000);
    }
    dump.fields = TAG_FIELD_SHAPE;
    assert_int_equal(put_key(a, "bare", 2, LONG_KEY(KEY_B), dump).status, 0);
    assert_int_equal(id_apply_row(a, "bare")->max_id, 200000000);
    assert_int_equal(id_apply_row(a, "bare")->max, 300000000);
    /* Not beyond the ids by that key. */
    dump.fields = TAG_FIELD_SHAPE | TAG_FIELD_MAX;
    dump.max = 30000000001;
    assert_int_equal(put_key(a, "high", 2, LONG_KEY(KEY_B), dump).status, ERR_INVALID);
    assert_null(fsm_tag(a->fsm, "high", 4));
}

static void test_what_a_new_key_is_refused_for(void **state)
{
    const struct tag_put max_id = {.fields = TAG_FIELD_MAX_ID, .max_id = 5};
    const struct tag_put max = {.fields = TAG_FIELD_MAX, .max = 5};
    struct id_apply *a = *state;
    struct tag_row row;

    assert_int_equal(put_shape(a, "s", REKEYABLE(LONG_KEY(KEY_A)), 49).status, 0);
    assert_int_equal(put_shape(a, "one", SECRET(KEY_A), 43).status, 0);
    assert_int_equal(put_shape(a, "wide", "{key}{secret:15}\0" LONG_KEY(KEY_A), 49).status, 0);
    assert_int_equal(put_key(a, "one", 1, LONG_KEY(KEY_B), (struct tag_put){0}).status,
                     ERR_INVALID);
    assert_int_equal(put_key(a, "new", 0, LONG_KEY(KEY_B), (struct tag_put){0}).status,
                     ERR_INVALID);
    assert_int_equal(put_key(a, "wide", 1, LONG_KEY(KEY_B), max_id).status, ERR_INVALID);
    assert_int_equal(put_key(a, "s", 1, LONG_KEY(KEY_B), max).status, ERR_INVALID);
    assert_int_equal(id_apply_row(a, "s")->max, 1000000);
    for (uint8_t number = 1; number < SHAPE_KEYS_MAX; number++) {
        assert_int_equal(put_key(a, "s", number, LONG_KEY(KEY_B), (struct tag_put){0}).status, 0);
    }
    assert_int_equal(id_apply_row(a, "s")->max, 10000000);
    row = *id_apply_row(a, "s");
    row.max_id += 100000; /* of a million by this key */
    assert_false(tag_is_nearly_exhausted(&row));
    row.max_id = row.max - 99999;
    assert_true(tag_is_nearly_exhausted(&row));
    assert_int_equal(tag_key_number(id_apply_row(a, "s")), SHAPE_KEYS_MAX - 1);
}

static void test_strict_ids_stay_below_the_max(void **state)
{
    struct id_apply *a = *state;
    struct strict_result got;

    assert_int_equal(put_max(a, "s", 11).status, 0);
    id_apply_mode(a, "s", TAG_MODE_STRICT);
    assert_int_equal(id_apply_row(a, "s")->max, 11); /* not given: it stays */
    got = id_apply_take(a, "s", 7);
    assert_int_equal(got.status, 0);
    assert_int_equal(got.first, 1);
    got = id_apply_take(a, "s", 4);
    assert_int_equal(got.status, ERR_EXHAUSTED);
    assert_int_equal(got.detail, 3);
    assert_int_equal(id_apply_take(a, "s", 3).first, 8);
    assert_int_equal(id_apply_take(a, "s", 1).status, ERR_EXHAUSTED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, id_apply_begin, id_apply_end)
    const struct CMUnitTest tests[] = {
        TEST(test_grants_are_disjoint_and_rise),
        TEST(test_grant_tells_step_and_generation),
        TEST(test_grant_from_zero),
        TEST(test_grant_of_unknown_tags),
        TEST(test_grant_at_the_end_of_the_axis),
        TEST(test_grant_of_many_tags_in_one_command),
        TEST(test_put_makes_a_tag_with_defaults),
        TEST(test_put_answers_the_first_row),
        TEST(test_put_changes_only_what_is_given),
        TEST(test_put_step_raises_max_step_unless_given),
        TEST(test_put_refuses_broken_rules),
        TEST(test_put_lowers_max_id_only_by_force),
        TEST(test_put_is_all_or_nothing),
        TEST(test_put_refuses_a_name_twice),
        TEST(test_put_tells_of_a_name_twice_first),
        TEST(test_put_bulk_at_its_limit),
        TEST(test_put_bulk_is_judged_in_parts),
        TEST(test_put_bulk_is_judged_for_one_state),
        TEST(test_put_bulk_is_as_one_by_one),
        cmocka_unit_test(test_put_bulk_of_names_that_are_to_collide),
        TEST(test_put_at_the_limit_of_tags),
        TEST(test_delete_keeps_the_mark),
        TEST(test_made_again_goes_on_above),
        TEST(test_ids_stay_below_the_max),
        TEST(test_strict_ids_stay_below_the_max),
        TEST(test_a_name_keeps_its_shape),
        TEST(test_a_secret_shape_bounds_its_tag),
        TEST(test_a_new_key),
        TEST(test_the_key_of_a_dump),
        TEST(test_what_a_new_key_is_refused_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
