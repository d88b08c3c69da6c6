/*
 * test_peer_memory.c - what is remembered of peers, and which starts it refuses; the record.
 *
 * Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raft/core/rollback.h"

/* An incarnation by the count of its start and its random bits. */
static uint64_t incarnation(uint64_t count, uint64_t random)
{
    return count << PEER_INCARNATION_RANDOM_BITS | random;
}

static int meet(struct rollback *memory, uint64_t peer, uint64_t its_incarnation, uint64_t term,
                uint64_t index)
{
    return rollback_meet(memory, peer, &(struct peer_start){its_incarnation, term, index});
}

static void test_the_first_start_is_taken_as_it_is(void **state)
{
    struct rollback memory = {.count = 0};

    (void)state;
    assert_null(rollback_find(&memory, 2));
    assert_int_equal(meet(&memory, 2, incarnation(1, 7), 0, 0), 0);
    assert_true(memory.changed);
    assert_int_equal(rollback_find(&memory, 2)->incarnation, incarnation(1, 7));
}

static void test_an_incarnation_may_come_again(void **state)
{
    struct rollback memory = {.count = 0};

    (void)state;
    assert_int_equal(meet(&memory, 2, incarnation(3, 7), 4, 10), 0);
    memory.changed = false;
    /* Its term and log went on since; what it says of its start stays the same. */
    rollback_term(&memory, 2, 9);
    rollback_index(&memory, 2, 100);
    assert_int_equal(meet(&memory, 2, incarnation(3, 7), 4, 10), 0);
    assert_false(memory.changed);
}

static void test_a_later_incarnation_has_a_higher_count(void **state)
{
    struct rollback memory = {.count = 0};

    (void)state;
    assert_int_equal(meet(&memory, 2, incarnation(3, 7), 4, 10), 0);
    assert_int_equal(meet(&memory, 2, incarnation(3, 6), 4, 10), ERR_STALE);
    assert_int_equal(meet(&memory, 2, incarnation(3, 8), 4, 10), ERR_STALE);
    assert_int_equal(meet(&memory, 2, incarnation(2, 7), 4, 10), ERR_STALE);
    assert_int_equal(meet(&memory, 2, incarnation(4, 1), 4, 10), 0);
    assert_int_equal(meet(&memory, 2, incarnation(3, 7), 4, 10), ERR_STALE);
    assert_int_equal(meet(&memory, 2, incarnation(9, 0), 4, 10), 0); /* some starts nobody saw */
}

static void test_a_later_incarnation_knows_its_term_and_its_log(void **state)
{
    struct rollback memory = {.count = 0};

    (void)state;
    assert_int_equal(meet(&memory, 2, incarnation(1, 7), 4, 10), 0);
    rollback_term(&memory, 2, 6);
    rollback_term(&memory, 2, 5);
    rollback_index(&memory, 2, 20);
    rollback_index(&memory, 2, 19);
    memory.changed = false;
    assert_int_equal(meet(&memory, 2, incarnation(2, 7), 5, 20), ERR_STALE);
    assert_int_equal(meet(&memory, 2, incarnation(2, 7), 6, 19), ERR_STALE);
    assert_int_equal(meet(&memory, 2, incarnation(2, 7), 7, 19), ERR_STALE);
    assert_false(memory.changed);
    assert_int_equal(rollback_find(&memory, 2)->incarnation, incarnation(1, 7));
    assert_int_equal(meet(&memory, 2, incarnation(2, 7), 6, 20), 0);
}

static void test_peers_are_apart_and_may_be_forgotten(void **state)
{
    struct rollback memory = {.count = 0};

    (void)state;
    for (uint64_t peer = 1; peer <= 5; peer++) {
        assert_int_equal(meet(&memory, peer, incarnation(peer, 1), 1, 1), 0);
    }
    memory.changed = false;
    rollback_forget(&memory, 9);
    assert_false(memory.changed);
    rollback_forget(&memory, 2);
    assert_true(memory.changed);
    assert_null(rollback_find(&memory, 2));
    for (uint64_t peer = 1; peer <= 5; peer++) {
        assert_int_equal(meet(&memory, peer, incarnation(1, 2), 1, 1), peer == 2 ? 0 : ERR_STALE);
    }
}

/* More than there is room for: they are let in and not remembered. */
static void test_peers_at_and_beyond_the_limit(void **state)
{
    struct rollback memory = {.count = 0};
    const uint64_t last = ROLLBACK_MAX;

    (void)state;
    for (uint64_t peer = 1; peer <= last + 1; peer++) {
        assert_int_equal(meet(&memory, peer, incarnation(5, 1), 1, 1), 0);
    }
    rollback_term(&memory, last + 1, 7);
    rollback_index(&memory, last + 1, 7);
    assert_int_equal(memory.count, last);
    assert_int_equal(meet(&memory, last, incarnation(4, 1), 1, 1), ERR_STALE);
    assert_int_equal(meet(&memory, last + 1, incarnation(4, 1), 1, 1), 0);
}

/* Incarnations outlive a restart of the one who remembers; terms and indexes do not. */
static void test_the_record_has_the_incarnations(void **state)
{
    struct rollback memory = {.count = 0};
    struct rollback again;
    struct buf record = BUF_INIT;

    (void)state;
    assert_int_equal(meet(&memory, 1, incarnation(3, 7), 4, 10), 0);
    assert_int_equal(meet(&memory, LIMIT_NODE_ID, incarnation(1, 9), 4, 10), 0);
    rollback_term(&memory, 1, 8);
    rollback_index(&memory, 1, 80);
    rollback_save(&memory, &record);
    assert_int_equal(record.len, 34);
    assert_memory_equal(record.data,
                        "\1\0"
                        "\1\0\0\0\0\0\0\0\7\0\0\0\3\0\0\0"
                        "\377\377\0\0\0\0\0\0\11\0\0\0\1\0\0\0",
                        34);
    assert_int_equal(rollback_load(&again, record.data, record.len), 0);
    assert_int_equal(again.count, 2);
    assert_false(again.older);
    assert_false(again.changed);
    assert_int_equal(meet(&again, 1, incarnation(3, 8), 99, 99), ERR_STALE);
    assert_int_equal(meet(&again, 1, incarnation(3, 7), 4, 10), 0);
    assert_int_equal(meet(&again, 1, incarnation(4, 8), 1, 1), 0);
    buf_free(&record);
}

static void test_bad_records_are_refused(void **state)
{
    struct rollback memory = {.count = 0};
    struct rollback again;
    struct buf record = BUF_INIT;

    (void)state;
    assert_int_equal(rollback_load(&again, NULL, 0), 0);
    assert_int_equal(again.count, 0);
    for (uint64_t peer = 1; peer <= ROLLBACK_MAX; peer++) {
        assert_int_equal(meet(&memory, peer, incarnation(5, 1), 1, 1), 0);
    }
    rollback_save(&memory, &record);
    assert_int_equal(rollback_load(&again, record.data, record.len), 0);
    assert_int_equal(again.count, ROLLBACK_MAX);
    for (size_t len = 1; len < record.len; len++) {
        assert_int_equal(rollback_load(&again, record.data, len),
                         len >= 2 && (len - 2) % 16 == 0 ? 0 : ERR_CORRUPT);
    }
    buf_put(&record, record.data + 2, 16); /* one too many, and one twice */
    assert_int_equal(rollback_load(&again, record.data, record.len), ERR_CORRUPT);
    record.len = 34;
    record.data[18] = 1;
    assert_int_equal(rollback_load(&again, record.data, record.len), ERR_CORRUPT);
    record.data[18] = 0; /* no id */
    assert_int_equal(rollback_load(&again, record.data, record.len), ERR_CORRUPT);
    record.data[18] = 2;
    record.data[1] = 2; /* no mark */
    assert_int_equal(rollback_load(&again, record.data, record.len), ERR_CORRUPT);
    record.data[1] = 1;
    assert_int_equal(rollback_load(&again, record.data, record.len), 0);
    assert_true(again.older);
    record.data[0] = 2;
    assert_int_equal(rollback_load(&again, record.data, record.len), ERR_BAD_VERSION);
    buf_free(&record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_start_is_taken_as_it_is),
        cmocka_unit_test(test_an_incarnation_may_come_again),
        cmocka_unit_test(test_a_later_incarnation_has_a_higher_count),
        cmocka_unit_test(test_a_later_incarnation_knows_its_term_and_its_log),
        cmocka_unit_test(test_peers_are_apart_and_may_be_forgotten),
        cmocka_unit_test(test_peers_at_and_beyond_the_limit),
        cmocka_unit_test(test_the_record_has_the_incarnations),
        cmocka_unit_test(test_bad_records_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
