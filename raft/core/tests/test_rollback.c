/*
 * test_rollback.c - what is remembered of peers, and which starts it refuses; a node's own starts;
 * the records.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/core/rollback.h"

/* An incarnation by the count of its start and its random bits. */
static uint64_t incarnation(uint64_t count, uint64_t random)
{
    return count << PEER_INCARNATION_RANDOM_BITS | random;
}

static int meet(struct rollback *memory, uint64_t peer, uint64_t its_incarnation, uint64_t term,
                uint64_t index)
{
    const struct wire_statement statement = {.start = {its_incarnation, term, index, 0, term}};
    struct rollback_evidence evidence;

    return rollback_check_peer(memory, peer, &statement, &evidence);
}

/* A start after which nothing is known yet but what the test tells. */
static struct rollback met(uint64_t peer)
{
    struct rollback memory = {.count = 0};

    assert_int_equal(meet(&memory, peer, incarnation(1, 7), 1, 1), 0);
    memory.met = false;
    return memory;
}

/* The next start of peer 2 contradicts what is remembered, by this; NULL: it does not. */
static void expect(struct rollback *memory, struct wire_durable start, const char *what)
{
    struct rollback_evidence evidence = {NULL, 0, 0};
    struct rollback before;
    int rv;

    start.incarnation = incarnation(2, 7);
    memcpy(&before, memory, sizeof before);
    rv = rollback_check_peer(memory, 2, &(struct wire_statement){.start = start}, &evidence);
    assert_int_equal(rv, what == NULL ? 0 : ERR_STALE);
    if (what != NULL) {
        assert_string_equal(evidence.what, what);
        assert_memory_equal(memory, &before, sizeof before);
    }
    memcpy(memory, &before, sizeof before);
}

static void test_the_first_start_is_taken_as_it_is(void **state)
{
    struct rollback memory = {.count = 0};

    (void)state;
    assert_null(rollback_find(&memory, 2));
    assert_int_equal(meet(&memory, 2, incarnation(1, 7), 0, 0), 0);
    assert_true(memory.met);
    assert_int_equal(rollback_find(&memory, 2)->incarnation, incarnation(1, 7));
}

static void test_an_incarnation_may_come_again(void **state)
{
    struct rollback memory = {.count = 0};

    (void)state;
    assert_int_equal(meet(&memory, 2, incarnation(3, 7), 4, 10), 0);
    memory.met = false;
    /* Its term and log went on since; what it says of its start stays the same. */
    rollback_note(&memory, &(struct peer_seen){.id = 2, .term = 9});
    rollback_note(&memory, &(struct peer_seen){.id = 2, .committed = 100});
    assert_int_equal(meet(&memory, 2, incarnation(3, 7), 4, 10), 0);
    assert_false(memory.met);
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

static void test_a_later_incarnation_knows_its_term(void **state)
{
    struct rollback memory = met(2);

    (void)state;
    rollback_note(&memory, &(struct peer_seen){.id = 2, .term = 6});
    rollback_note(&memory, &(struct peer_seen){.id = 2, .term = 5});
    expect(&memory, (struct wire_durable){.term = 5}, "term");
    expect(&memory, (struct wire_durable){.term = 6}, NULL);
}

/* Whatever the term: nobody takes back what is committed. */
static void test_a_later_incarnation_has_what_is_committed(void **state)
{
    struct rollback memory = met(2);

    (void)state;
    rollback_note(&memory, &(struct peer_seen){.id = 2, .term = 6});
    rollback_note(&memory, &(struct peer_seen){.id = 2, .committed = 20});
    rollback_note(&memory, &(struct peer_seen){.id = 2, .committed = 19});
    expect(&memory, (struct wire_durable){.term = 6, .index = 19}, "committed");
    expect(&memory, (struct wire_durable){.term = 9, .index = 19}, "committed");
    expect(&memory, (struct wire_durable){.term = 6, .index = 20}, NULL);
}

/* What it had under one leader another may have cut, but not in that term. */
static void test_a_later_incarnation_has_its_tail_in_that_term(void **state)
{
    struct rollback memory = met(2);

    (void)state;
    rollback_note(&memory, &(struct peer_seen){.id = 2, .tail = {6, 20, 5}});
    rollback_note(&memory, &(struct peer_seen){.id = 2, .tail = {6, 19, 5}});
    rollback_note(&memory, &(struct peer_seen){.id = 2, .tail = {5, 99, 5}});
    expect(&memory, (struct wire_durable){.term = 6, .index = 19}, "acknowledged");
    expect(&memory, (struct wire_durable){.term = 6, .index = 20}, NULL);
    expect(&memory, (struct wire_durable){.term = 7, .index = 3}, NULL);
    rollback_note(&memory,
                  &(struct peer_seen){.id = 2, .tail = {7, 3, 7}}); /* a newer leader cut it */
    expect(&memory, (struct wire_durable){.term = 7, .index = 2}, "acknowledged");
    expect(&memory, (struct wire_durable){.term = 7, .index = 3}, NULL);
}

static void test_a_later_incarnation_knows_its_vote(void **state)
{
    struct rollback memory = met(2);

    (void)state;
    rollback_note(&memory, &(struct peer_seen){.id = 2, .vote_term = 6, .vote = 3});
    rollback_note(
        &memory, &(struct peer_seen){.id = 2, .vote_term = 6, .vote = 1}); /* there is one a term */
    rollback_note(&memory, &(struct peer_seen){.id = 2, .vote_term = 5, .vote = 1});
    rollback_note(&memory, &(struct peer_seen){.id = 2, .vote_term = 8, .vote = 0}); /* none */
    expect(&memory, (struct wire_durable){.term = 6, .vote = 0}, "vote");
    expect(&memory, (struct wire_durable){.term = 6, .vote = 1}, "vote");
    expect(&memory, (struct wire_durable){.term = 6, .vote = 3}, NULL);
    expect(&memory, (struct wire_durable){.term = 7, .vote = 0}, NULL);
}

/* The random half of each start that is known tells a copy, however often it was started. */
static void test_a_copy_that_was_started_as_often(void **state)
{
    struct incarnations own = {0};
    struct incarnations copy = {0};
    struct rollback memory = {.count = 0};
    struct rollback_evidence evidence;

    (void)state;
    for (uint32_t count = 1; count <= 3; count++) {
        incarnations_add(&own, count, 100 + count);
        incarnations_add(&copy, count, 100 + count);
    }
    incarnations_add(&own, 4, 104);
    assert_int_equal(meet(&memory, 2, incarnations_newest(&own), 2, 1), 0);
    for (uint32_t count = 4; count <= 50; count++) {
        struct wire_statement statement = {.start = {.term = 2, .index = 1}};
        struct buf earlier = BUF_INIT;

        incarnations_add(&copy, count, 500 + count);
        incarnations_earlier(&copy, &earlier);
        statement.start.incarnation = incarnations_newest(&copy);
        statement.earlier = earlier.data;
        statement.earlier_len = earlier.len;
        assert_int_equal(rollback_check_peer(&memory, 2, &statement, &evidence), ERR_STALE);
        assert_string_equal(evidence.what, "incarnation");
        buf_free(&earlier);
    }
    for (uint32_t count = 5; count <= 5000; count++) { /* and not the original */
        struct wire_statement statement = {.start = {.term = 2, .index = 1}};
        struct buf earlier = BUF_INIT;

        incarnations_add(&own, count, 100 + count);
        if (count % 7 == 0 || count > 4990) {
            incarnations_earlier(&own, &earlier);
            statement.start.incarnation = incarnations_newest(&own);
            statement.earlier = earlier.data;
            statement.earlier_len = earlier.len;
            assert_int_equal(rollback_check_peer(&memory, 2, &statement, &evidence), 0);
        }
        buf_free(&earlier);
    }
    assert_int_equal(own.known, LIMIT_INCARNATIONS);
}

/* A wrong id or list was typed, and the directory thrown away: nobody is an older copy. */
static void test_who_promised_nothing_may_come_with_another_directory(void **state)
{
    struct rollback memory = {.count = 0};

    (void)state;
    assert_int_equal(meet(&memory, 2, incarnation(3, 7), 1, 1), 0);
    assert_int_equal(meet(&memory, 2, incarnation(1, 8), 1, 1), 0);
    assert_int_equal(rollback_find(&memory, 2)->incarnation, incarnation(1, 8));
    rollback_note(&memory, &(struct peer_seen){.id = 2, .term = 2});
    assert_int_equal(meet(&memory, 2, incarnation(1, 9), 2, 1), ERR_STALE);
    memory = (struct rollback){.count = 0};
    assert_int_equal(meet(&memory, 2, incarnation(1, 8), 2, 1), 0); /* a later term at its start */
    assert_int_equal(meet(&memory, 2, incarnation(1, 9), 2, 1), ERR_STALE);
    memory = (struct rollback){.count = 0};
    assert_int_equal(meet(&memory, 2, incarnation(1, 8), 1, 1), 0);
    rollback_note(&memory, &(struct peer_seen){.id = 2, .vote_term = 1, .vote = 3});
    assert_int_equal(meet(&memory, 2, incarnation(1, 9), 1, 1), ERR_STALE);
    memory = (struct rollback){.count = 0};
    assert_int_equal(meet(&memory, 2, incarnation(1, 8), 1, 1), 0);
    rollback_note(&memory, &(struct peer_seen){.id = 2, .tail = {1, 2, 1}});
    assert_int_equal(meet(&memory, 2, incarnation(1, 9), 1, 2), ERR_STALE);
    memory = (struct rollback){.count = 0};
    assert_int_equal(meet(&memory, 2, incarnation(1, 8), 1, 1), 0);
    rollback_note(&memory, &(struct peer_seen){.id = 2, .committed = 2});
    assert_int_equal(meet(&memory, 2, incarnation(1, 9), 1, 2), ERR_STALE);
}

static void test_which_starts_are_its_own(void **state)
{
    struct incarnations own = {0};

    (void)state;
    incarnations_add(&own, 7, 107);
    incarnations_add(&own, 8, 108);
    assert_true(incarnations_include(&own, incarnation(8, 108)));
    assert_true(incarnations_include(&own, incarnation(7, 107)));
    assert_true(incarnations_include(&own, incarnation(6, 1))); /* forgotten: by its count */
    assert_false(incarnations_include(&own, incarnation(8, 107)));
    assert_false(incarnations_include(&own, incarnation(7, 108)));
    assert_false(incarnations_include(&own, incarnation(9, 108)));
}

static void test_the_record_of_own_starts(void **state)
{
    struct incarnations own = {0};
    struct incarnations again;
    struct buf record = BUF_INIT;

    (void)state;
    assert_int_equal(incarnations_load(&again, NULL, 0), 0);
    assert_int_equal(again.known, 0);
    incarnations_add(&own, 7, 0x01020304);
    incarnations_add(&own, 8, 0x0a0b0c0d);
    incarnations_save(&own, &record);
    assert_int_equal(record.len, 17);
    assert_memory_equal(record.data, "\1\10\0\0\0\0\0\0\0\15\14\13\12\4\3\2\1", 17);
    assert_int_equal(incarnations_load(&again, record.data, record.len), 0);
    assert_memory_equal(&again, &own, sizeof own);
    for (size_t len = 1; len < record.len; len++) {
        assert_int_equal(incarnations_load(&again, record.data, len), len == 13 ? 0 : ERR_CORRUPT);
    }
    record.data[1] = 1; /* more than there can have been */
    assert_int_equal(incarnations_load(&again, record.data, record.len), ERR_CORRUPT);
    record.data[0] = 2;
    assert_int_equal(incarnations_load(&again, record.data, record.len), ERR_BAD_VERSION);
    record.len = 0;
    incarnations_add(&own, 10, 5); /* one is missing: only the count tells of those before */
    assert_int_equal(own.known, 1);
    for (uint64_t count = 11; count <= 3000; count++) {
        incarnations_add(&own, count, (uint32_t)count);
    }
    incarnations_save(&own, &record);
    assert_int_equal(incarnations_load(&again, record.data, record.len), 0);
    assert_memory_equal(&again, &own, sizeof own);
    buf_put_u32(&record, 1); /* one too many */
    assert_int_equal(incarnations_load(&again, record.data, record.len), ERR_CORRUPT);
    buf_free(&record);
}

static void test_peers_are_apart_and_may_be_forgotten(void **state)
{
    struct rollback memory = {.count = 0};

    (void)state;
    for (uint64_t peer = 1; peer <= 5; peer++) {
        assert_int_equal(meet(&memory, peer, incarnation(peer, 1), 2, 1), 0);
    }
    memory.changed = false;
    rollback_forget(&memory, 9);
    assert_false(memory.changed);
    rollback_forget(&memory, 2);
    assert_true(memory.changed);
    assert_null(rollback_find(&memory, 2));
    for (uint64_t peer = 1; peer <= 5; peer++) {
        assert_int_equal(meet(&memory, peer, incarnation(1, 2), 2, 1), peer == 2 ? 0 : ERR_STALE);
    }
}

/* More than there is room for: they are let in and not remembered. */
static void test_peers_at_and_beyond_the_limit(void **state)
{
    struct rollback memory = {.count = 0};
    const uint64_t last = ROLLBACK_MAX;

    (void)state;
    for (uint64_t peer = 1; peer <= last + 1; peer++) {
        assert_int_equal(meet(&memory, peer, incarnation(5, 1), 2, 1), 0);
    }
    rollback_note(&memory, &(struct peer_seen){.id = last + 1, .term = 7});
    rollback_note(&memory, &(struct peer_seen){.id = last + 1, .committed = 7});
    rollback_note(&memory, &(struct peer_seen){.id = last + 1, .vote_term = 7, .vote = 1});
    rollback_note(&memory, &(struct peer_seen){.id = last + 1, .tail = {7, 7, 7}});
    assert_int_equal(memory.count, last);
    assert_int_equal(meet(&memory, last, incarnation(4, 1), 2, 1), ERR_STALE);
    assert_int_equal(meet(&memory, last + 1, incarnation(4, 1), 2, 1), 0);
}

/* All of it outlives a restart of the one who remembers. */
static void test_the_record_has_all_of_it(void **state)
{
    struct rollback memory = {.count = 0};
    struct rollback again;
    struct buf record = BUF_INIT;

    (void)state;
    assert_int_equal(meet(&memory, 1, incarnation(3, 7), 4, 10), 0);
    assert_int_equal(meet(&memory, LIMIT_NODE_ID, incarnation(1, 9), 4, 10), 0);
    rollback_note(&memory, &(struct peer_seen){.id = 1, .term = 8});
    rollback_note(&memory, &(struct peer_seen){.id = 1, .committed = 80});
    rollback_note(&memory, &(struct peer_seen){.id = 1, .tail = {7, 81, 6}});
    rollback_note(&memory, &(struct peer_seen){.id = 1, .vote_term = 5, .vote = 2});
    memory.met = false;
    memory.changed = false;
    rollback_save(&memory, &record);
    assert_int_equal(record.len, 2 + 2 * 72);
    assert_memory_equal(record.data,
                        "\2\0"
                        "\1\0\0\0\0\0\0\0\7\0\0\0\3\0\0\0"
                        "\10\0\0\0\0\0\0\0\120\0\0\0\0\0\0\0"
                        "\7\0\0\0\0\0\0\0\121\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
                        "\5\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
                        "\377\377\0\0\0\0\0\0\11\0\0\0\1\0\0\0",
                        2 + 72 + 16);
    assert_int_equal(rollback_load(&again, record.data, record.len), 0);
    assert_memory_equal(&again, &memory, sizeof memory);
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
        assert_int_equal(meet(&memory, peer, incarnation(5, 1), 2, 1), 0);
    }
    rollback_save(&memory, &record);
    assert_int_equal(rollback_load(&again, record.data, record.len), 0);
    assert_int_equal(again.count, ROLLBACK_MAX);
    for (size_t len = 1; len < record.len; len++) {
        assert_int_equal(rollback_load(&again, record.data, len),
                         len >= 2 && (len - 2) % 72 == 0 ? 0 : ERR_CORRUPT);
    }
    buf_put(&record, record.data + 2, 72); /* one too many, and one twice */
    assert_int_equal(rollback_load(&again, record.data, record.len), ERR_CORRUPT);
    record.len = 2 + 2 * 72;
    record.data[74] = 1;
    assert_int_equal(rollback_load(&again, record.data, record.len), ERR_CORRUPT);
    record.data[74] = 0; /* no id */
    assert_int_equal(rollback_load(&again, record.data, record.len), ERR_CORRUPT);
    record.data[74] = 2;
    record.data[1] = 2; /* no mark */
    assert_int_equal(rollback_load(&again, record.data, record.len), ERR_CORRUPT);
    record.data[1] = 1;
    assert_int_equal(rollback_load(&again, record.data, record.len), 0);
    assert_true(again.older);
    record.data[0] = 1;
    assert_int_equal(rollback_load(&again, record.data, record.len), ERR_BAD_VERSION);
    buf_free(&record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_start_is_taken_as_it_is),
        cmocka_unit_test(test_an_incarnation_may_come_again),
        cmocka_unit_test(test_a_later_incarnation_has_a_higher_count),
        cmocka_unit_test(test_a_later_incarnation_knows_its_term),
        cmocka_unit_test(test_a_later_incarnation_has_what_is_committed),
        cmocka_unit_test(test_a_later_incarnation_has_its_tail_in_that_term),
        cmocka_unit_test(test_a_later_incarnation_knows_its_vote),
        cmocka_unit_test(test_a_copy_that_was_started_as_often),
        cmocka_unit_test(test_who_promised_nothing_may_come_with_another_directory),
        cmocka_unit_test(test_which_starts_are_its_own),
        cmocka_unit_test(test_the_record_of_own_starts),
        cmocka_unit_test(test_peers_are_apart_and_may_be_forgotten),
        cmocka_unit_test(test_peers_at_and_beyond_the_limit),
        cmocka_unit_test(test_the_record_has_all_of_it),
        cmocka_unit_test(test_bad_records_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
