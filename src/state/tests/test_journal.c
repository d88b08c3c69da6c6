/*
 * test_journal.c - what becomes of a row in the journal: it comes into the digest
 * and is listed, leaves it, and is deleted, in that order as often as apply does it.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/state/journal.h"
#include "src/tests/unit/death.h"

static struct journal *row(struct journal *journal, const char *key, const char *value)
{
    ASSERT(strlen(key) > 1);
    journal_key(journal, (uint8_t)key[0]);
    buf_put(&journal->row, key + 1, strlen(key) - 1);
    journal_value(journal);
    buf_put(&journal->row, value, strlen(value));
    return journal;
}

/* The same of a record: a version and a byte. */
struct record {
    uint8_t byte;
};
static const struct field FIELDS_OF[] = {FIELD_NUMBER(struct record, byte)};
static const struct row_format FORMAT = {.version = '1', .fields = FIELDS(FIELDS_OF)};

static void change(struct journal *journal, const struct record *before, const struct record *after)
{
    journal_change(journal, (uint8_t)'x', "a", 1, &FORMAT, before, after);
}

static uint64_t hash_of(const char *key, const char *value)
{
    return hash_row(key, strlen(key), value, strlen(value));
}

static void expect(const struct state_row *change, const char *key, const char *value)
{
    assert_int_equal(change->key_len, strlen(key));
    assert_memory_equal(change->key, key, strlen(key));
    assert_int_equal(change->value_len, strlen(value));
    assert_memory_equal(change->value_len > 0 ? change->value : "", value, strlen(value));
}

static void test_a_change_says_before_and_after(void **state)
{
    const struct record one = {'1'};
    const struct record two = {'2'};
    struct row_changes changes = {0};
    struct journal journal = {.changes = &changes};

    (void)state;
    change(&journal, NULL, &one);
    assert_true(journal.digest == hash_of("xa", "11"));
    change(&journal, &one, &two);
    assert_true(journal.digest == hash_of("xa", "12"));
    change(&journal, &two, NULL);
    assert_true(journal.digest == 0);
    assert_int_equal(changes.count, 3);
    expect(&changes.items[0], "xa", "11");
    expect(&changes.items[1], "xa", "12");
    expect(&changes.items[2], "xa", "");
    row_changes_release(&changes);
    buf_free(&journal.row);
}

/* The key is the table and eight bytes, the highest first. */
static void test_rows_of_nodes(void **state)
{
    static const uint8_t key[ROW_NODE_KEY_BYTES] = {'x', 0, 0, 0, 0, 0, 0, 1, 2};
    const struct record one = {'1'};
    struct row_changes changes = {0};
    struct journal journal = {.changes = &changes};

    (void)state;
    journal_node(&journal, (uint8_t)'x', 258, &FORMAT, NULL, &one);
    assert_int_equal(changes.count, 1);
    assert_int_equal(changes.items[0].key_len, sizeof key);
    assert_memory_equal(changes.items[0].key, key, sizeof key);
    assert_true(row_key_node(key) == 258);
    row_changes_release(&changes);
    buf_free(&journal.row);
}

static void test_rows_are_listed_in_order(void **state)
{
    struct row_changes changes = {0};
    struct journal here = {.changes = &changes};
    struct journal *journal = &here;

    (void)state;
    journal_enter(row(journal, "xa", "1"));
    journal_enter(row(journal, "xb", "2"));
    assert_true(journal->digest == hash_of("xa", "1") + hash_of("xb", "2"));
    journal_delete(row(journal, "xa", "1"));
    assert_true(journal->digest == hash_of("xb", "2"));
    journal_enter(row(journal, "xa", "3"));
    journal_delete(row(journal, "xa", "3"));
    journal_leave(row(journal, "xb", "2")); /* a change: leaves and comes, listed once */
    journal_enter(row(journal, "xb", "4"));
    assert_true(journal->digest == hash_of("xb", "4"));
    assert_int_equal(changes.count, 6);
    expect(&changes.items[0], "xa", "1");
    expect(&changes.items[1], "xb", "2");
    expect(&changes.items[2], "xa", "");
    expect(&changes.items[3], "xa", "3");
    expect(&changes.items[4], "xa", "");
    expect(&changes.items[5], "xb", "4");
    row_changes_release(&changes);
    buf_free(&here.row);
}

/* Rows of all sizes, more than one piece of memory takes: each stays as it was, and where. */
static void test_listed_rows_stay_where_they_are(void **state)
{
    static uint8_t bytes[2 + LIMIT_ROW_VALUE_BYTES];
    struct row_changes changes = {0};
    const void *first;

    (void)state;
    row_changes_add(&changes, "k", 1, 0);
    first = changes.items[0].key;
    for (size_t len = 1; len <= LIMIT_ROW_VALUE_BYTES; len += 1 + len / 16) {
        memset(bytes, (int)(len % 251), sizeof bytes);
        row_changes_add(&changes, bytes, 2, len);
    }
    assert_ptr_equal(changes.items[0].key, first);
    assert_memory_equal(first, "k", 1);
    assert_in_range(changes.count, 100, 1000);
    for (size_t i = 1, len = 1; i < changes.count; i++, len += 1 + len / 16) {
        memset(bytes, (int)(len % 251), sizeof bytes);
        assert_int_equal(changes.items[i].key_len, 2);
        assert_int_equal(changes.items[i].value_len, len);
        assert_memory_equal(changes.items[i].key, bytes, 2);
        assert_memory_equal(changes.items[i].value, bytes, len);
    }
    row_changes_release(&changes);
    assert_int_equal(changes.count, 0);
}

static void test_rows_are_deleted_without_a_list(void **state)
{
    struct journal here = {0};
    struct journal *journal = &here;

    (void)state;
    journal_enter(row(journal, "xa", "1"));
    journal_delete(row(journal, "xa", "1"));
    assert_true(journal->digest == 0);
    buf_free(&here.row);
}

static void enter_empty(void *data)
{
    struct journal *journal = data;

    journal_enter(row(journal, "xa", ""));
}

/* Storage would take it for a deletion. */
static void test_rows_are_never_empty(void **state)
{
    struct journal here = {0};
    struct journal *journal = &here;

    (void)state;
    assert_true(death_by_assert(enter_empty, journal));
    buf_free(&here.row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_listed_in_order),
        cmocka_unit_test(test_listed_rows_stay_where_they_are),
        cmocka_unit_test(test_a_change_says_before_and_after),
        cmocka_unit_test(test_rows_of_nodes),
        cmocka_unit_test(test_rows_are_deleted_without_a_list),
        cmocka_unit_test(test_rows_are_never_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
