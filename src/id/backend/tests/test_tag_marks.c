/*
 * test_tag_marks.c - a node hears from the cluster what a change has made of its tags before its
 * own log tells it: what it holds of them is gone, and stays gone.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/codec/command.h"
#include "src/id/tests/id_world.h"

/* A change as this node sent it, and what comes back. */
struct change {
    struct buf command;
    struct buf marks;
};

static void begin(struct change *change)
{
    *change = (struct change){BUF_INIT, BUF_INIT};
    command_put(&change->command, COMMAND_TAGS_PUT,
                &(struct command_list){.force = true, .wall_ms = 1});
}

static void add(struct change *change, struct tag_put put)
{
    put.name_len = (uint16_t)strlen(put.name);
    command_item_put(&change->command, COMMAND_TAGS_PUT, &put);
}

/* The cluster carries it out. */
static void carry_out(struct id_world *w, struct change *change)
{
    struct buf copy = BUF_INIT;

    buf_put(&copy, change->command.data, change->command.len);
    id_world_command(w, &copy);
    fsm_tag_marks(w->cluster, change->command.data, change->command.len, &change->marks);
}

static void hear(struct id_world *w, struct change *change)
{
    assert_int_equal(allocator_take_marks(w->allocator, change->command.data, change->command.len,
                                          change->marks.data, change->marks.len),
                     0);
}

static void end(struct change *change)
{
    buf_free(&change->command);
    buf_free(&change->marks);
}

static void raise_max_id(struct id_world *w, struct change *change, const char *name, uint64_t to)
{
    begin(change);
    add(change, (struct tag_put){.name = name, .fields = TAG_FIELD_MAX_ID, .max_id = to});
    command_items_end(&change->command);
    carry_out(w, change);
}

static void delete_tag(struct id_world *w, struct change *change, const char *name)
{
    *change = (struct change){BUF_INIT, BUF_INIT};
    command_put(
        &change->command, COMMAND_TAG_DELETE,
        &(struct delete_command){.name = name, .name_len = (uint16_t)(strlen(name)), .wall_ms = 1});
    carry_out(w, change);
}

static uint64_t left(const struct id_tag *tag)
{
    return segment_left(&tag->buffer);
}

static void test_a_raise_burns_what_is_held(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct change change;

    id_world_load(w, tag);
    (void)id_world_claim(tag);
    id_world_load(w, tag); /* both slots */
    raise_max_id(w, &change, "order", 1000);
    assert_int_equal(left(tag), 19);
    atomic_store(&tag->waiting_loops, 4);
    hear(w, &change);
    assert_int_equal(left(tag), 0);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_GENERATION], 19);
    assert_int_equal(allocator_counts(w->allocator)->held, 0);
    assert_int_equal(w->woken_loops, 4); /* who waits asks for new ones */
    id_world_load(w, tag);
    assert_true(id_world_claim(tag) == 1000);
    end(&change);
}

/* The grant stood in the log before the change, and its answer comes after the change's. */
static void test_a_grant_from_before_is_burnt_when_it_comes_late(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct buf late = BUF_INIT;
    struct change change;

    id_world_park(w, tag, 1);
    id_world_turn(w);
    id_world_apply(w, 0, &late); /* [1, 11) */
    raise_max_id(w, &change, "order", 1000);
    hear(w, &change);
    id_world_reply(w, 0, &late);
    assert_int_equal(left(tag), 0);
    assert_int_equal(allocator_counts(w->allocator)->burnt[ID_BURN_LATE], 10);
    w->now_ms += ID_WORLD_RETRY_MS;
    id_world_turn(w);
    id_world_answer(w, 0);
    assert_true(id_world_claim(tag) == 1000);
    buf_free(&late);
    end(&change);
}

static void test_the_log_that_follows_takes_nothing_back(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct tag_row old = {0};
    struct change change;

    id_world_load(w, tag);
    old = *id_world_row(w, "order");
    raise_max_id(w, &change, "order", 1000);
    hear(w, &change);
    id_world_load(w, tag);
    allocator_tag_changed(w->allocator, &old); /* this node goes through its log */
    assert_int_equal(left(tag), 10);
    allocator_tag_changed(w->allocator, id_world_row(w, "order")); /* and has caught up */
    assert_int_equal(left(tag), 10);
    hear(w, &change); /* told twice */
    assert_int_equal(left(tag), 10);
    assert_true(id_world_claim(tag) == 1000);
    end(&change);
}

static void test_a_change_that_ends_nothing_burns_nothing(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct change change;

    id_world_load(w, tag);
    begin(&change);
    add(&change, (struct tag_put){.name = "order", .fields = TAG_FIELD_STEP, .step = 20});
    command_items_end(&change.command);
    carry_out(w, &change);
    hear(w, &change);
    assert_int_equal(left(tag), 10);
    end(&change);
}

static void test_a_deletion_leaves_nothing_to_hand_out(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct change change;

    id_world_load(w, tag);
    delete_tag(w, &change, "order");
    hear(w, &change);
    assert_int_equal(left(tag), 0);
    id_world_park(w, tag, 1);
    id_world_turn(w);
    id_world_answer(w, 0);
    assert_int_equal(tag->state, ID_TAG_UNKNOWN);
    end(&change);
}

/* States that the change may have ended do not stand against who asks: the grant tells. */
static void test_a_tag_made_again_can_be_asked_for(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct change change;

    id_world_delete(w, "order");
    allocator_tag_changed(w->allocator, id_world_row(w, "order"));
    assert_int_equal(tag->state, ID_TAG_UNKNOWN);
    raise_max_id(w, &change, "order", 1000);
    hear(w, &change);
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    allocator_tag_changed(w->allocator, id_world_row(w, "order"));
    assert_int_equal(tag->state, ID_TAG_ACTIVE);
    id_world_load(w, tag);
    assert_true(id_world_claim(tag) == 1000);
    end(&change);
}

static void test_a_tag_that_became_strict_is_found_out(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct change change;

    id_world_load(w, tag);
    begin(&change);
    add(&change,
        (struct tag_put){.name = "order", .fields = TAG_FIELD_MODE, .mode = TAG_MODE_STRICT});
    command_items_end(&change.command);
    carry_out(w, &change);
    hear(w, &change);
    assert_int_equal(left(tag), 0);
    id_world_park(w, tag, 1);
    id_world_turn(w);
    id_world_answer(w, 0);
    assert_int_equal(tag->state, ID_TAG_STRICT);
    end(&change);
}

static void test_each_tag_of_a_bulk_has_its_own_mark(void **state)
{
    struct id_world *w = *state;
    struct id_tag *a = id_world_tag(w, "a", 10);
    struct id_tag *b = id_world_tag(w, "b", 10);
    struct id_tag *c = id_world_tag(w, "c", 10);
    struct change change;

    id_world_load(w, a);
    id_world_load(w, b);
    id_world_load(w, c);
    begin(&change);
    add(&change, (struct tag_put){.name = "a", .fields = TAG_FIELD_MAX_ID, .max_id = 1000});
    add(&change, (struct tag_put){.name = "new"});
    add(&change, (struct tag_put){.name = "b", .fields = TAG_FIELD_STEP, .step = 20});
    add(&change, (struct tag_put){.name = "c", .fields = TAG_FIELD_MAX_ID, .max_id = 5});
    command_items_end(&change.command);
    carry_out(w, &change);
    hear(w, &change);
    assert_int_equal(left(a), 0);
    assert_int_equal(left(b), 10);
    assert_int_equal(left(c), 0);
    id_world_load(w, c);
    assert_true(id_world_claim(c) == 5); /* forced down */
    end(&change);
}

static void test_marks_that_do_not_fit_are_refused(void **state)
{
    struct id_world *w = *state;
    struct id_tag *tag = id_world_tag(w, "order", 10);
    struct change change;

    id_world_load(w, tag);
    raise_max_id(w, &change, "order", 1000);
    assert_int_equal(change.marks.len, TAG_MARK_BYTES);
    for (size_t len = 0; len <= 2 * TAG_MARK_BYTES; len++) {
        const uint8_t marks[2 * TAG_MARK_BYTES] = {200, 0, 0, 0, 200};

        if (len != TAG_MARK_BYTES) {
            assert_int_equal(allocator_take_marks(w->allocator, change.command.data,
                                                  change.command.len, marks, len),
                             ERR_BAD_MESSAGE);
        }
    }
    assert_int_equal(left(tag), 10);
    end(&change);
}

static void expect_marks(struct id_world *w, const struct buf *command, size_t expected)
{
    struct buf marks = BUF_INIT;

    fsm_tag_marks(w->cluster, command->data, command->len, &marks);
    assert_int_equal(marks.len, expected);
    assert_int_equal(
        allocator_take_marks(w->allocator, command->data, command->len, marks.data, marks.len), 0);
    buf_free(&marks);
}

static void test_commands_that_name_no_tags_have_none(void **state)
{
    const struct grant_item item = {"order", 5, 1};
    struct id_world *w = *state;
    struct buf command = BUF_INIT;

    (void)id_world_tag(w, "order", 10);
    expect_marks(w, &command, 0); /* no command at all */
    cluster_command_put(&command, COMMAND_NOOP, NULL);
    expect_marks(w, &command, 0);
    command.len = 0;
    command_put(&command, COMMAND_GRANT, &(struct command_list){.wall_ms = 1});
    command_item_put(&command, COMMAND_GRANT, &item);
    command_items_end(&command);
    expect_marks(w, &command, 0);
    buf_free(&command);
}

/* A bulk of one more is refused by the state machine: it changes nothing. */
static void test_the_largest_bulk_and_one_more(void **state)
{
    struct id_world *w = *state;
    struct change change;

    for (unsigned count = LIMIT_TAGS_PER_BULK; count <= LIMIT_TAGS_PER_BULK + 1; count++) {
        begin(&change);
        for (unsigned i = 0; i < count; i++) {
            char name[16];

            snprintf(name, sizeof name, "t%u", i);
            add(&change, (struct tag_put){.name = name});
        }
        command_items_end(&change.command);
        expect_marks(w, &change.command, count == LIMIT_TAGS_PER_BULK ? TAG_MARKS_BYTES_MAX : 0);
        end(&change);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, id_world_setup, id_world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_raise_burns_what_is_held),
        TEST(test_a_grant_from_before_is_burnt_when_it_comes_late),
        TEST(test_the_log_that_follows_takes_nothing_back),
        TEST(test_a_change_that_ends_nothing_burns_nothing),
        TEST(test_a_deletion_leaves_nothing_to_hand_out),
        TEST(test_a_tag_made_again_can_be_asked_for),
        TEST(test_a_tag_that_became_strict_is_found_out),
        TEST(test_each_tag_of_a_bulk_has_its_own_mark),
        TEST(test_marks_that_do_not_fit_are_refused),
        TEST(test_commands_that_name_no_tags_have_none),
        TEST(test_the_largest_bulk_and_one_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
