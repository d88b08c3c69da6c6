/*
 * test_fsm_list.c - lists of tags: pages, prefixes, and the bound on what a list looks at.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/fsm/fsm.h"
#include "src/id/fsm/fsm_tables.h"
#include "src/id/tests/id_stamp.h"

struct table {
    struct fsm *fsm;
    uint64_t index; /* of the last entry */
};

static int setup(void **state)
{
    static struct table table;

    table = (struct table){.fsm = fsm_of(state_new(&fsm_machine))};
    *state = &table;
    return 0;
}

static int teardown(void **state)
{
    struct table *table = *state;

    state_free(fsm_state(table->fsm));
    return 0;
}

/* Apply the command and free it. */
static void apply(struct table *table, struct buf *command)
{
    struct row_changes changes = {0};
    struct buf result = BUF_INIT;

    table->index++;
    id_stamp_as(command, 1, 1, table->index, table->index);
    assert_int_equal(state_apply(fsm_state(table->fsm), table->index, 1, command->data,
                                 command->len, &result, &changes),
                     0);
    assert_int_equal(changes.count, 2); /* the tag, and the answer */
    row_changes_release(&changes);
    buf_free(&result);
    buf_free(command);
}

static void make(struct table *table, const char *name)
{
    const struct tag_put put = {.name = name, .name_len = (uint16_t)strlen(name)};
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.force = false, .wall_ms = 1});
    command_item_put(&command, COMMAND_TAGS_PUT, &put);
    command_items_end(&command);
    apply(table, &command);
}

static void drop(struct table *table, const char *name)
{
    struct buf command = BUF_INIT;

    command_put(
        &command, COMMAND_TAG_DELETE,
        &(struct delete_command){.name = name, .name_len = (uint16_t)(strlen(name)), .wall_ms = 1});
    apply(table, &command);
}

/* The names of a list, joined by blanks; if that is not all, "+" and the name to go on after. */
static const char *list(struct table *table, const char *prefix, const char *after, uint32_t limit)
{
    static char names[256];
    struct buf query = BUF_INIT;
    struct buf answer = BUF_INIT;
    struct tag_rows rows;
    int len = 0;

    query_list_encode(&query, prefix, strlen(prefix), after, strlen(after), limit);
    assert_int_equal(fsm_query(table->fsm, query.data, query.len, &answer), 0);
    assert_int_equal(tag_rows_decode(answer.data, answer.len, &rows), 0);
    names[0] = '\0';
    for (size_t i = 0; i < rows.count; i++) {
        len += snprintf(names + len, sizeof names - (size_t)len, "%s%.*s", i > 0 ? " " : "",
                        (int)rows.rows[i].name_len, rows.rows[i].name);
    }
    if (rows.next_len > 0) {
        (void)snprintf(names + len, sizeof names - (size_t)len, "+%.*s", (int)rows.next_len,
                       rows.next);
    }
    tag_rows_release(&rows);
    buf_free(&query);
    buf_free(&answer);
    return names;
}

static void test_pages(void **state)
{
    struct table *t = *state;

    assert_string_equal(list(t, "", "", 10), "");
    make(t, "b");
    make(t, "a/2");
    make(t, "a");
    make(t, "a/1");
    make(t, "a/3");
    make(t, "a0");
    assert_string_equal(list(t, "", "", 10), "a a/1 a/2 a/3 a0 b");
    assert_string_equal(list(t, "", "", 6), "a a/1 a/2 a/3 a0 b");
    assert_string_equal(list(t, "", "", 5), "a a/1 a/2 a/3 a0+a0");
    assert_string_equal(list(t, "", "a0", 5), "b");
    assert_string_equal(list(t, "", "b", 5), "");
    assert_string_equal(list(t, "a/", "", 2), "a/1 a/2+a/2");
    assert_string_equal(list(t, "a/", "a/2", 2), "a/3");
    assert_string_equal(list(t, "a/", "a", 9), "a/1 a/2 a/3");
    assert_string_equal(list(t, "a/", "a/25", 9), "a/3"); /* after need not exist */
    assert_string_equal(list(t, "a/", "b", 9), "");
    assert_string_equal(list(t, "zz", "", 9), "");
    drop(t, "a/2");
    assert_string_equal(list(t, "a/", "", 2), "a/1 a/3"); /* tombstones do not count */
    assert_string_equal(list(t, "a/", "", 1), "a/1+a/1");
    assert_string_equal(list(t, "a/", "a/2", 2), "a/3");
}

/* A list that meets many deleted tags ends early and says where to go on: the raft loop has others
 * to serve. */
static void test_no_list_looks_at_more_than_its_bound(void **state)
{
    struct table *t = *state;
    char name[32];

    for (unsigned i = 0; i + 1 < LIMIT_ROWS_PER_LOOK; i++) {
        (void)snprintf(name, sizeof name, "gone/%05u", i);
        make(t, name);
        drop(t, name);
    }
    make(t, "last");
    assert_string_equal(list(t, "", "", 10), "last"); /* so many at once, and that is all */
    make(t, "more");
    assert_string_equal(list(t, "", "", 10), "last+last");
    assert_string_equal(list(t, "", "last", 10), "more");
    make(t, "gone/x"); /* and one more before it */
    assert_string_equal(list(t, "gone/", "", 10), "gone/x");
    drop(t, "last");
    drop(t, "gone/x");
    assert_string_equal(list(t, "", "", 10), "+gone/x"); /* nothing, but that is not all */
    assert_string_equal(list(t, "", "gone/x", 10), "more");
}

#define WALKED 1000

/* Walk over these numbers' names: each is what a search alone finds. */
static struct fsm_tags_walk walk_over(const struct fsm_tags *tags, const unsigned *numbers)
{
    struct fsm_tags_walk walk = {0};
    char name[16];

    for (unsigned i = 0; i < WALKED; i++) {
        size_t len = (size_t)snprintf(name, sizeof name, "w%04u", numbers[i]);

        assert_ptr_equal(fsm_tags_walk(tags, &walk, name, len), fsm_tags_find(tags, name, len));
        assert_ptr_equal(walk.after, fsm_tags_seek(tags, name, len));
    }
    assert_int_equal(walk.count, WALKED);
    return walk;
}

/* Names one after the other are found behind each other; of other orders few are tried that way,
 * and the walk comes back to it. */
static void test_a_list_of_names_is_walked_along(void **state)
{
    struct table *table = *state;
    const struct fsm_tags *tags = &table->fsm->tags;
    unsigned numbers[WALKED];
    struct fsm_tags_walk walk;
    char name[16];

    for (unsigned i = 0; i < WALKED; i++) {
        (void)snprintf(name, sizeof name, "w%04u", i);
        if (i % 100 != 50) { /* some are not there */
            make(table, name);
        }
        numbers[i] = i;
    }
    walk = walk_over(tags, numbers);
    assert_in_range(walk.hits, WALKED - 30, WALKED - 1);
    for (unsigned i = 0; i < WALKED; i++) {
        numbers[i] = WALKED - 1 - i;
    }
    walk = walk_over(tags, numbers);
    assert_int_equal(walk.hits, 0);
    assert_in_range(walk.misses, 1, WALKED / 16 + 1);
    for (unsigned i = 0; i < WALKED / 2; i++) {
        numbers[WALKED / 2 + i] = i;
    }
    walk = walk_over(tags, numbers);
    assert_in_range(walk.hits, WALKED / 2 - 70, WALKED / 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_pages),
        TEST(test_no_list_looks_at_more_than_its_bound),
        TEST(test_a_list_of_names_is_walked_along),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
