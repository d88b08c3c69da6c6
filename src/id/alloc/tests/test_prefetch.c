/*
 * test_prefetch.c - the tags a node served lately: what is kept, in which order, for how long, and
 * what is fetched after a restart and how fast.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/limits.h"
#include "src/id/alloc/prefetch.h"

#define HOUR_MS 3600000
#define TIME_MS 1700000000000

/* A node's surroundings: its disk outlives the node. */
struct node {
    struct clock clock;
    uint64_t now_ms;
    uint64_t time_ms;
    struct buf disk[LIMIT_LOCAL_LISTS];
    unsigned writes;
    char fetched[64][LIMIT_TAG_NAME_BYTES + 1];
    unsigned fetched_count;
    struct timers timers;
    struct id_table *table;
    struct prefetch_config config;
    struct prefetch *prefetch;
};

static uint64_t now_ms(const struct clock *clock)
{
    return ((const struct node *)clock->data)->now_ms;
}

static void on_write(void *data, unsigned number, const void *bytes, size_t len)
{
    struct node *node = data;

    assert_true(number < LIMIT_LOCAL_LISTS && len >= 1 && len <= LIMIT_LOCAL_RECORD_BYTES);
    node->disk[number].len = 0;
    buf_put(&node->disk[number], bytes, len);
    node->writes++;
}

static void on_fetch(void *data, const char *name, size_t len)
{
    struct node *node = data;

    if (node->fetched_count < 64) {
        memcpy(node->fetched[node->fetched_count], name, len);
        node->fetched[node->fetched_count][len] = '\0';
    }
    node->fetched_count++;
}

static void start(struct node *node)
{
    struct prefetch_ops ops = {.write = on_write, .fetch = on_fetch, .data = node};

    node->timers = (struct timers){.sequence = 0};
    node->table = id_table_new(0);
    node->prefetch = prefetch_new(&node->config, &ops, &node->clock, &node->timers);
    node->fetched_count = 0;
    for (unsigned i = 0; i < LIMIT_LOCAL_LISTS; i++) {
        if (node->disk[i].len > 0) {
            assert_int_equal(
                prefetch_resume(node->prefetch, i, node->disk[i].data, node->disk[i].len), 0);
        }
    }
}

static void stop(struct node *node)
{
    prefetch_free(node->prefetch);
    assert_true(timers_next_ms(&node->timers) == TIMER_NEVER);
    id_table_free(node->table);
}

static void turn(struct node *node, bool ready)
{
    timers_run(&node->timers, node->now_ms);
    prefetch_turn(node->prefetch, node->time_ms, ready);
}

static int setup(void **state)
{
    struct node *node = calloc(1, sizeof *node);

    ASSERT(node != NULL);
    node->clock = (struct clock){.now_ms = now_ms, .wall_ms = now_ms, .data = node};
    node->now_ms = 5000;
    node->time_ms = TIME_MS;
    node->config = (struct prefetch_config){100, 1000};
    start(node);
    *state = node;
    return 0;
}

static int teardown(void **state)
{
    struct node *node = *state;

    stop(node);
    for (unsigned i = 0; i < LIMIT_LOCAL_LISTS; i++) {
        buf_free(&node->disk[i]);
    }
    free(node);
    return 0;
}

/* The tag gets a segment of so many ids, of which some are claimed. */
static struct id_tag *serve(struct node *node, const char *name, uint32_t size, uint32_t used)
{
    struct id_tag *tag = id_table_insert(node->table, name, strlen(name));
    struct segment_range range;
    struct segment_view view;

    refill_loaded(&tag->refill, node->now_ms, size, segment_left(&tag->buffer));
    segment_publish(&tag->buffer, tag->refill.end + 1, size, 0, 0);
    tag->refill.end += size;
    prefetch_served(node->prefetch, tag);
    if (used > 0) {
        assert_int_equal(segment_claim(&tag->buffer, 1, used, &range, &view), 0);
    }
    return tag;
}

static void claim(struct id_tag *tag, uint32_t count)
{
    struct segment_range range;
    struct segment_view view;

    assert_int_equal(segment_claim(&tag->buffer, 1, count, &range, &view), 0);
    assert_int_equal(range.count, count);
}

/* Time passes in both clocks. */
static void pass(struct node *node, uint64_t ms)
{
    node->now_ms += ms;
    node->time_ms += ms;
}

/* The process ends without a word, and another begins. */
static void crash(struct node *node)
{
    stop(node);
    start(node);
}

/* Let it fetch all there is. */
static void fetch_all(struct node *node)
{
    for (unsigned i = 0; i < 100000 && prefetch_waiting(node->prefetch) > 0; i++) {
        turn(node, true);
        pass(node, 1);
    }
    turn(node, true);
    assert_int_equal(prefetch_waiting(node->prefetch), 0);
}

static void restart_and_fetch(struct node *node)
{
    crash(node);
    turn(node, true);
    fetch_all(node);
}

static void test_busiest_first(void **state)
{
    struct node *node = *state;

    (void)serve(node, "idle", 100, 0);
    (void)serve(node, "a", 100, 10);
    (void)serve(node, "b", 100, 90);
    (void)serve(node, "c", 100, 50);
    prefetch_save(node->prefetch, node->time_ms);
    restart_and_fetch(node);
    assert_int_equal(node->fetched_count, 3); /* nobody took an id of "idle" */
    assert_string_equal(node->fetched[0], "b");
    assert_string_equal(node->fetched[1], "c");
    assert_string_equal(node->fetched[2], "a");
}

/* What was used from one look to the next adds up, and not to more than it was. */
static void test_uses_add_up(void **state)
{
    struct node *node = *state;
    struct id_tag *often = serve(node, "often", 100, 30);

    (void)serve(node, "once", 100, 50);
    prefetch_save(node->prefetch, node->time_ms);
    claim(often, 10);
    prefetch_save(node->prefetch, node->time_ms);
    restart_and_fetch(node);
    assert_int_equal(node->fetched_count, 2);
    assert_string_equal(node->fetched[0], "once"); /* 50 against 40 */
}

static void test_recent_use_counts_more(void **state)
{
    struct node *node = *state;

    (void)serve(node, "yesterday", 100000, 60000);
    prefetch_save(node->prefetch, node->time_ms);
    pass(node, 12 * HOUR_MS);
    (void)serve(node, "today", 100, 50);
    prefetch_save(node->prefetch, node->time_ms);
    restart_and_fetch(node);
    assert_int_equal(node->fetched_count, 2);
    assert_string_equal(node->fetched[0], "today");
}

static void test_a_day_without_use_is_forgotten(void **state)
{
    struct node *node = *state;
    struct id_tag *slow = serve(node, "slow", 1000, 1);

    (void)serve(node, "gone", 1000, 1);
    prefetch_save(node->prefetch, node->time_ms);
    pass(node, PREFETCH_KEEP_MS - 1000);
    claim(slow, 1); /* no segment came for it: it is looked at all the same */
    prefetch_save(node->prefetch, node->time_ms);
    restart_and_fetch(node);
    assert_int_equal(node->fetched_count, 2); /* not quite a day */
    pass(node, PREFETCH_KEEP_MS - HOUR_MS);
    restart_and_fetch(node);
    assert_int_equal(node->fetched_count, 1);
    assert_string_equal(node->fetched[0], "slow");
    pass(node, 2 * HOUR_MS);
    restart_and_fetch(node);
    assert_int_equal(node->fetched_count, 0);
    prefetch_save(node->prefetch, node->time_ms);
    assert_int_equal(prefetch_count(node->prefetch), 0);
}

/* A segment that was fetched ahead and not touched does not make its tag younger. */
static void test_fetching_is_no_use(void **state)
{
    struct node *node = *state;

    (void)serve(node, "t", 1000, 1);
    prefetch_save(node->prefetch, node->time_ms);
    for (unsigned i = 0; i < 5; i++) {
        pass(node, 6 * HOUR_MS);
        restart_and_fetch(node);
        if (node->fetched_count > 0) {
            (void)serve(node, "t", 1000, 0);
        }
        prefetch_save(node->prefetch, node->time_ms);
        assert_int_equal(node->fetched_count, i < 4 ? 1 : 0);
    }
}

static void test_rate(void **state)
{
    struct node *node = *state;
    char name[16];

    for (unsigned i = 0; i < 60; i++) {
        (void)snprintf(name, sizeof name, "t%u", i);
        (void)serve(node, name, 1000, i + 1);
    }
    prefetch_save(node->prefetch, node->time_ms);
    node->config.rate_per_s = 10;
    crash(node);
    turn(node, false);
    assert_int_equal(node->fetched_count, 0); /* not ready */
    turn(node, true);
    assert_int_equal(node->fetched_count, 1);
    assert_int_equal(prefetch_waiting(node->prefetch), 59);
    assert_true(timers_next_ms(&node->timers) == node->now_ms + 100);
    pass(node, 99);
    turn(node, true);
    assert_int_equal(node->fetched_count, 1);
    pass(node, 1);
    turn(node, true);
    assert_int_equal(node->fetched_count, 2);
    assert_string_equal(node->fetched[0], "t59");
    assert_string_equal(node->fetched[1], "t58");
    pass(node, 1000);
    turn(node, false);
    assert_int_equal(node->fetched_count, 2);                  /* no leader for a while */
    assert_true(timers_next_ms(&node->timers) > node->now_ms); /* which is no reason to be busy */
    turn(node, true);
    assert_int_equal(node->fetched_count, 12);
}

static void test_what_is_in_use_by_now_is_not_fetched(void **state)
{
    struct node *node = *state;

    (void)serve(node, "a", 1000, 1);
    (void)serve(node, "b", 1000, 2);
    prefetch_save(node->prefetch, node->time_ms);
    crash(node);
    (void)serve(node, "b", 1000, 1);
    turn(node, true);
    fetch_all(node);
    assert_int_equal(node->fetched_count, 1);
    assert_string_equal(node->fetched[0], "a");
}

static void test_bounds(void **state)
{
    struct node *node = *state;
    char name[16];

    node->config.tags = 10;
    crash(node);
    for (unsigned i = 0; i < 30; i++) { /* more than twice as many as are kept */
        (void)snprintf(name, sizeof name, "t%02u", i);
        (void)serve(node, name, 1000, i + 1);
    }
    assert_int_equal(prefetch_count(node->prefetch), 20);
    prefetch_save(node->prefetch, node->time_ms);
    assert_int_equal(prefetch_count(node->prefetch), 10);
    (void)serve(node, "late", 1000, 999); /* there is room again */
    prefetch_save(node->prefetch, node->time_ms);
    assert_int_equal(prefetch_count(node->prefetch), 10);
    restart_and_fetch(node);
    assert_int_equal(node->fetched_count, 10);
    assert_string_equal(node->fetched[0], "late");
    assert_string_equal(node->fetched[1], "t19");
}

/* As many names as may be kept, as long as may be: they fit the records, and come back. */
static void test_the_largest_list(void **state)
{
    struct node *node = *state;
    char name[LIMIT_TAG_NAME_BYTES + 1];
    size_t bytes = 0;

    node->config.tags = LIMIT_PREFETCH_TAGS;
    crash(node);
    for (unsigned i = 0; i < LIMIT_PREFETCH_TAGS; i++) {
        (void)snprintf(name, sizeof name, "%0*u", LIMIT_TAG_NAME_BYTES, i);
        (void)serve(node, name, 1000, 1);
    }
    prefetch_save(node->prefetch, node->time_ms);
    for (unsigned i = 0; i < LIMIT_LOCAL_LISTS; i++) {
        bytes += node->disk[i].len;
    }
    assert_true(bytes > (size_t)LIMIT_PREFETCH_TAGS * (LIMIT_TAG_NAME_BYTES + 16));
    node->config.rate_per_s = 100000;
    restart_and_fetch(node);
    assert_int_equal(node->fetched_count, LIMIT_PREFETCH_TAGS);
    /* The list shrinks: the records behind its end are emptied. */
    pass(node, 2 * (uint64_t)PREFETCH_KEEP_MS);
    (void)serve(node, "one", 10, 1);
    prefetch_save(node->prefetch, node->time_ms);
    for (unsigned i = 1; i < LIMIT_LOCAL_LISTS; i++) {
        assert_true(node->disk[i].len <= 1); /* the version */
    }
    restart_and_fetch(node);
    assert_int_equal(node->fetched_count, 1);
}

static void test_only_what_changed_is_written(void **state)
{
    struct node *node = *state;
    struct id_tag *tag = serve(node, "a", 1000, 1);

    turn(node, true);
    assert_int_equal(node->writes, 0);
    pass(node, PREFETCH_SAVE_MS);
    turn(node, true);
    assert_int_equal(node->writes, 1);
    pass(node, PREFETCH_SAVE_MS);
    turn(node, true);
    assert_int_equal(node->writes, 1);
    claim(tag, 5);
    pass(node, PREFETCH_SAVE_MS);
    turn(node, true);
    assert_int_equal(node->writes, 2);
    crash(node);
    pass(node, PREFETCH_SAVE_MS);
    turn(node, true);
    prefetch_save(node->prefetch, node->time_ms);
    assert_int_equal(node->writes, 2); /* what was read back is known to be there */
}

static void test_switched_off(void **state)
{
    struct node *node = *state;

    (void)serve(node, "a", 1000, 1);
    prefetch_save(node->prefetch, node->time_ms);
    node->config.tags = 0;
    crash(node);
    (void)serve(node, "b", 1000, 1);
    turn(node, true);
    prefetch_save(node->prefetch, node->time_ms);
    assert_int_equal(node->fetched_count, 0);
    assert_int_equal(node->writes, 1);
    assert_int_equal(prefetch_count(node->prefetch), 0);
    assert_true(timers_next_ms(&node->timers) == UINT64_MAX);
}

static void test_burnt_ids_are_no_use(void **state)
{
    struct node *node = *state;
    struct id_tag *tag = serve(node, "a", 1000, 10);

    prefetch_save(node->prefetch, node->time_ms);
    (void)segment_burn(&tag->buffer); /* as for a tag that was forced down */
    refill_reset(&tag->refill, 7);
    pass(node, PREFETCH_KEEP_MS + 1);
    prefetch_save(node->prefetch, node->time_ms);
    restart_and_fetch(node);
    assert_int_equal(node->fetched_count, 0);
}

static void test_records_that_do_not_read(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        int err;
    } cases[] = {
        {"\x02", 1, ERR_BAD_VERSION},
        {"\x01", 1, 0},
        {"\x01\x01", 2, ERR_CORRUPT},
        {"\x01\x01\0a", 4, ERR_CORRUPT},
        {"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 19, ERR_CORRUPT},        /* no name */
        {"\x01\x01\0\n\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, ERR_CORRUPT},    /* no such name */
        {"\x01\x01\0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01", 21, ERR_CORRUPT}, /* cut */
        {"\x01\x01\0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, 0},
    };
    struct node *node = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(prefetch_resume(node->prefetch, 0, cases[i].bytes, cases[i].len),
                         cases[i].err);
        assert_int_equal(prefetch_count(node->prefetch), i == sizeof cases / sizeof cases[0] - 1);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_busiest_first),
        TEST(test_uses_add_up),
        TEST(test_recent_use_counts_more),
        TEST(test_a_day_without_use_is_forgotten),
        TEST(test_fetching_is_no_use),
        TEST(test_rate),
        TEST(test_what_is_in_use_by_now_is_not_fetched),
        TEST(test_bounds),
        TEST(test_the_largest_list),
        TEST(test_only_what_changed_is_written),
        TEST(test_switched_off),
        TEST(test_burnt_ids_are_no_use),
        TEST(test_records_that_do_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
