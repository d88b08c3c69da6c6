/*
 * test_change_log.c - what cannot be brought about at will in a cluster: a worker id that is lost,
 * many tags of one turn, a member that goes. cluster-tests/test_log_changes.py has the rest.
 *
 * stderr is a file while something is told. Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/service/health.h"
#include "raft/tests/raft_ring.h"

static struct ring ring;
static uint64_t leader;
static struct replica *replica;
static struct id_service *ids;
static struct change_log told;

/* What is told by a turn. */
static const char *turn(void)
{
    static char text[1 << 16];
    char path[] = "/tmp/leafd-change-log-XXXXXX";
    int file = mkstemp(path);
    int saved = dup(STDERR_FILENO);
    ssize_t len;

    assert_true(file >= 0 && saved >= 0);
    assert_int_equal(unlink(path), 0);
    assert_true(dup2(file, STDERR_FILENO) >= 0);
    change_log_turn(&told);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    len = pread(file, text, sizeof text - 1, 0);
    assert_true(len >= 0);
    text[len] = '\0';
    close(saved);
    close(file);
    return text;
}

static size_t lines(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++) {
        count += *text == '\n';
    }
    return count;
}

static void expect(const char *words)
{
    const char *said = turn();

    if (lines(said) != 1 || strstr(said, words) == NULL) {
        fail_msg("\"%s\" is not the one line: %s", words, said);
    }
    assert_string_equal(turn(), ""); /* once */
}

static int start(void **state)
{
    (void)state;
    ring = (struct ring){0};
    ring_start(&ring, 3);
    leader = ring_elect(&ring);
    ring_run_ms(&ring, 2000);
    replica = &ring_node(&ring, leader)->replica;
    ids = &ring_node(&ring, leader)->ids;
    change_log_begin(&told, replica, ids->lease, &ids->snowflake);
    return 0;
}

static int end(void **state)
{
    (void)state;
    ring_close(&ring);
    return 0;
}

static void test_what_is_there_is_not_told(void **state)
{
    (void)state;
    assert_string_equal(turn(), "");
    ring_make(&ring, leader, "t", 10);
    assert_string_equal(turn(), ""); /* whoever asked for it has its line */
}

static void test_a_member_goes(void **state)
{
    uint64_t who = ring_follower(&ring);
    struct asked asked;
    char words[100];

    (void)state;
    asked_member(&asked, MEMBER_ASK_REMOVE, who, "");
    ask(&ring, leader, &asked, 5000);
    ring_member_done(&ring, &asked);
    snprintf(words, sizeof words, "msg=\"a member was removed\" member=%u role=", (unsigned)who);
    assert_non_null(strstr(turn(), words));
    assert_string_equal(turn(), "");
}

static void test_tags_of_a_turn_are_one_line(void **state)
{
    const struct tag_row first = {.name = "a b\n", .name_len = 4};
    const struct tag_row other = {.name = "c", .name_len = 1};

    (void)state;
    change_log_opened(&told, &first);
    for (int i = 0; i < 9999; i++) {
        change_log_opened(&told, &other);
    }
    expect("tags=10000 first=\"a b\\x0a\"\n");
    change_log_opened(&told, &other);
    expect("tags=1 first=\"c\"\n");
}

static void test_a_worker_id_is_lost(void **state)
{
    struct snowflake *snowflake = &ids->snowflake;
    const struct snowflake_layout layout = {
        .epoch_ms = 0, .time_bits = 41, .worker_bits = 10, .sequence_bits = 12};
    struct snowflake_slot *slot;

    (void)state;
    snowflake_set_layout(snowflake, &layout);
    slot = snowflake_add(snowflake, 7, 1, 1000, 1000);
    assert_non_null(slot);
    assert_string_equal(turn(), ""); /* the lease has none such: it is lost at once */
    snowflake_kill(slot);
    expect("level=warn node=0 at=snowflake msg=\"a worker id is lost: it was released, or another "
           "holds it\" worker=7\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_there_is_not_told, start, end),
        cmocka_unit_test_setup_teardown(test_a_member_goes, start, end),
        cmocka_unit_test_setup_teardown(test_tags_of_a_turn_are_one_line, start, end),
        cmocka_unit_test_setup_teardown(test_a_worker_id_is_lost, start, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
