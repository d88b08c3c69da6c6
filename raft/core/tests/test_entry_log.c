/*
 * test_entry_log.c - the tail of the log in memory: append, truncate, drop, references, and which
 * entries a finished write made durable.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/entry_log.h"
#include "raft/tests/raft_child.h"
#include "src/base/prng.h"

static void append(struct entry_log *log, uint64_t term, uint64_t tag, const char *text)
{
    entry_log_append(log, term, 1, tag, entry_block_new(text, strlen(text)));
}

static void append_many(struct entry_log *log, unsigned n, uint64_t term, uint64_t tag)
{
    for (unsigned i = 0; i < n; i++) {
        append(log, term, tag, "xy");
    }
}

static void test_empty_log(void **state)
{
    struct entry_log log;

    (void)state;
    log = (struct entry_log){.first = 7};
    assert_int_equal(entry_log_last(&log), 6);
    assert_null(entry_log_get(&log, 6));
    assert_null(entry_log_get(&log, 7));
    assert_int_equal(entry_log_persisted(&log, 7, 1, 0), 0);
    entry_log_truncate(&log, 1);
    entry_log_drop_prefix(&log, 100);
    assert_int_equal(entry_log_last(&log), 6);
    entry_log_free(&log);
}

static void test_entries_are_found_by_index(void **state)
{
    struct entry_log log;

    (void)state;
    log = (struct entry_log){.first = 5};
    append(&log, 1, 0, "five");
    append(&log, 1, 0, "");
    append(&log, 3, 9, "seven");
    assert_int_equal(entry_log_last(&log), 7);
    assert_null(entry_log_get(&log, 4));
    assert_null(entry_log_get(&log, 8));
    assert_int_equal(entry_log_get(&log, 6)->block->len, 0);
    assert_int_equal(entry_log_get(&log, 7)->term, 3);
    assert_int_equal(entry_log_get(&log, 7)->write, 9);
    assert_memory_equal(entry_log_get(&log, 7)->block->data, "seven", 5);
    assert_int_equal(log.bytes, 9);
    entry_log_free(&log);
}

static void test_truncate_then_append(void **state)
{
    struct entry_log log;

    (void)state;
    log = (struct entry_log){.first = 1};
    append_many(&log, 10, 2, 1);
    entry_log_truncate(&log, 11); /* beyond the end: nothing */
    assert_int_equal(entry_log_last(&log), 10);
    entry_log_truncate(&log, 6);
    assert_int_equal(entry_log_last(&log), 5);
    assert_int_equal(log.bytes, 10);
    append(&log, 4, 2, "new");
    assert_int_equal(entry_log_last(&log), 6);
    assert_int_equal(entry_log_get(&log, 6)->term, 4);
    entry_log_truncate(&log, 1);
    assert_int_equal(entry_log_last(&log), 0);
    assert_int_equal(log.bytes, 0);
    entry_log_free(&log);
}

static void test_drop_prefix_keeps_indexes(void **state)
{
    struct entry_log log;

    (void)state;
    log = (struct entry_log){.first = 1};
    append_many(&log, 10, 2, 1);
    entry_log_drop_prefix(&log, 4);
    assert_int_equal(log.first, 5);
    assert_null(entry_log_get(&log, 4));
    assert_non_null(entry_log_get(&log, 5));
    entry_log_drop_prefix(&log, 4); /* again: nothing */
    assert_int_equal(log.first, 5);
    entry_log_drop_prefix(&log, 10);
    assert_int_equal(log.first, 11);
    assert_int_equal(entry_log_last(&log), 10);
    append(&log, 3, 1, "z");
    assert_int_equal(entry_log_last(&log), 11);
    entry_log_free(&log);
}

static void test_clear_begins_anew(void **state)
{
    struct entry_log log;

    (void)state;
    log = (struct entry_log){.first = 1};
    append_many(&log, 3, 9, 1);
    entry_log_clear(&log, 50);
    assert_int_equal(entry_log_last(&log), 49);
    assert_int_equal(log.bytes, 0);
    append(&log, 2, 1, "a"); /* terms begin anew as well */
    assert_int_equal(entry_log_last(&log), 50);
    entry_log_free(&log);
}

static void test_a_block_outlives_the_log(void **state)
{
    struct entry_log log;
    struct entry_block *block = entry_block_new("kept", 4);

    (void)state;
    log = (struct entry_log){.first = 1};
    entry_log_append(&log, 1, 1, 1, entry_block_ref(block));
    entry_log_free(&log);
    assert_int_equal(block->refs, 1);
    assert_memory_equal(block->data, "kept", 4);
    entry_block_unref(block);
}

static void test_persisted_is_the_whole_write(void **state)
{
    struct entry_log log;

    (void)state;
    log = (struct entry_log){.first = 1};
    append_many(&log, 4, 1, 1);
    append_many(&log, 4, 1, 2);
    assert_int_equal(entry_log_persisted(&log, 1, 4, 1), 4);
    assert_int_equal(entry_log_persisted(&log, 5, 4, 2), 8);
    assert_int_equal(entry_log_persisted(&log, 5, 4, 1), 0); /* not that write's */
    entry_log_free(&log);
}

/* The same index with the same term, but another write's: the older write says nothing about it. */
static void test_persisted_does_not_count_what_was_appended_again(void **state)
{
    struct entry_log log;

    (void)state;
    log = (struct entry_log){.first = 1};
    append_many(&log, 6, 3, 1);
    entry_log_truncate(&log, 4);
    append_many(&log, 3, 3, 2);
    assert_int_equal(entry_log_persisted(&log, 1, 6, 1), 3);
    assert_int_equal(entry_log_persisted(&log, 4, 3, 2), 6);
    entry_log_truncate(&log, 1);
    append_many(&log, 6, 3, 3);
    assert_int_equal(entry_log_persisted(&log, 1, 6, 1), 0);
    entry_log_free(&log);
}

static void test_persisted_counts_what_was_dropped_in_front(void **state)
{
    struct entry_log log;

    (void)state;
    log = (struct entry_log){.first = 1};
    append_many(&log, 6, 3, 1);
    entry_log_drop_prefix(&log, 4);
    assert_int_equal(entry_log_persisted(&log, 1, 6, 1), 6);
    entry_log_drop_prefix(&log, 6);
    assert_int_equal(entry_log_persisted(&log, 1, 6, 1), 6);
    entry_log_free(&log);
}

/* A ring's worth of moves against plain arithmetic. */
static void test_random_walk_keeps_indexes_and_bytes(void **state)
{
    struct entry_log log;
    struct prng prng;
    uint64_t first = 1;
    uint64_t last = 0;

    (void)state;
    prng_seed(&prng, 5);
    log = (struct entry_log){.first = 1};
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t n = prng_below(&prng, 20);

        switch (prng_below(&prng, 4)) {
        case 0:
        case 1:
            append_many(&log, (unsigned)n, 1, i);
            last += n;
            break;
        case 2:
            n = first + n < last ? first + n : last;
            entry_log_drop_prefix(&log, n);
            first = n + 1 > first ? n + 1 : first;
            break;
        default:
            n = last >= first + n / 4 ? last - n / 4 : first;
            entry_log_truncate(&log, n);
            last = last >= n ? n - 1 : last;
            break;
        }
        assert_int_equal(log.first, first);
        assert_int_equal(entry_log_last(&log), last);
        assert_int_equal(log.bytes, 2 * (last + 1 - first));
    }
    entry_log_free(&log);
}

static int append_older_term(void *data)
{
    append(data, 2, 0, "x");
    return 0;
}

static void test_terms_never_fall(void **state)
{
    struct entry_log log;

    (void)state;
    log = (struct entry_log){.first = 1};
    append(&log, 3, 0, "x");
    assert_true(child_asserts(append_older_term, &log));
    entry_log_free(&log);
}

/* A turn frees one; those that a write still needs are freed with it. */
static void test_large_blocks_are_freed_one_by_one(void **state)
{
    struct entry_log log = {.first = 1};
    uint8_t *data = calloc(1, LIMIT_ENTRY_BYTES);
    struct entry_block *held;

    (void)state;
    assert_non_null(data);
    for (unsigned i = 0; i < 4; i++) {
        entry_log_append(&log, 1, 1, 1, entry_block_new(data, LIMIT_ENTRY_BYTES));
    }
    entry_log_append(&log, 1, 1, 1, entry_block_new(data, 8));
    held = entry_block_ref(entry_log_get(&log, 2)->block);
    entry_log_drop_prefix(&log, 5);
    assert_int_equal(log.bytes, 0);
    assert_int_equal(held->refs, 1);
    assert_non_null(log.unused);
    for (unsigned i = 0; i < 3; i++) { /* the fourth is held */
        assert_non_null(log.unused);
        entry_log_tidy(&log);
    }
    assert_null(log.unused);
    entry_log_tidy(&log);
    entry_block_unref(held);
    entry_log_append(&log, 1, 1, 1, entry_block_new(data, LIMIT_ENTRY_BYTES));
    entry_log_free(&log); /* with all that is left */
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_log),
        cmocka_unit_test(test_entries_are_found_by_index),
        cmocka_unit_test(test_truncate_then_append),
        cmocka_unit_test(test_drop_prefix_keeps_indexes),
        cmocka_unit_test(test_clear_begins_anew),
        cmocka_unit_test(test_a_block_outlives_the_log),
        cmocka_unit_test(test_persisted_is_the_whole_write),
        cmocka_unit_test(test_persisted_does_not_count_what_was_appended_again),
        cmocka_unit_test(test_persisted_counts_what_was_dropped_in_front),
        cmocka_unit_test(test_random_walk_keeps_indexes_and_bytes),
        cmocka_unit_test(test_terms_never_fall),
        cmocka_unit_test(test_large_blocks_are_freed_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
