/*
 * test_dates.c - the present period of a tag with a date, what is left of a tag, and which time
 * zones a leader refuses. The leader of a ring of one node tells the log the time.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/tests/raft_ring.h"
#include "src/id/tests/id_apply.h"

#define BEGIN_MS 1000
#define MIDNIGHT_MS 6400000 /* from the ring's begin, 2023-11-14T22:13:20Z */
#define DAYS "{year}{month}{day}-{id:3}"
#define NOWHERE "{year@No/Where}-{id:3}"

static void put_shaped(struct buf *command, const char *name, const char *shape)
{
    const struct tag_put put = {.name = name,
                                .name_len = (uint16_t)strlen(name),
                                .fields = TAG_FIELD_MODE | TAG_FIELD_SHAPE,
                                .mode = TAG_MODE_STRICT,
                                .shape = shape,
                                .shape_len = (uint16_t)strlen(shape)};

    command->len = 0;
    command_put(command, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = FAKE_WALL_MS});
    command_item_put(command, COMMAND_TAGS_PUT, &put);
    command_items_end(command);
}

/* The log's time comes many times a second; in between the node's clock counts, and only then. */
static void test_the_day_is_the_logs(void **state)
{
    RING ring = {.keeps_time = true};
    struct dates *dates;
    struct asked put;

    (void)state;
    ring_start(&ring, 1);
    (void)ring_elect(&ring);
    ring_run_ms(&ring, BEGIN_MS);
    dates = &ring_node(&ring, 1)->ids.dates;
    ring_make(&ring, 1, "plain", 10);
    asked_put(&put, "d", 10);
    put_shaped(&put.base.payload, "d", DAYS);
    ask(&ring, 1, &put, 1000);
    ring_run_ms(&ring, 100);
    assert_int_equal(put.base.status, 0);
    asked_free(&put);
    assert_int_equal(dates_period(dates, "d", 1), 20231114);
    assert_int_equal(dates_period(dates, "plain", 5), 0);
    assert_int_equal(dates_period(dates, "none", 4), 0);
    ring_run_ms(&ring, MIDNIGHT_MS - 3 * BEGIN_MS);
    assert_int_equal(dates_period(dates, "d", 1), 20231114);
    ring_node(&ring, 1)->disk_held = true; /* so the log gets no time */
    ring_run_ms(&ring, 3 * BEGIN_MS);
    assert_int_equal(dates_period(dates, "d", 1), 20231115);
}

/* After a start the log's time may be of yesterday: no period is known until it has followed. */
static void test_a_stop_over_midnight(void **state)
{
    RING ring = {.keeps_time = true};
    uint32_t period = 0;
    struct asked put;

    (void)state;
    ring_start(&ring, 1);
    (void)ring_elect(&ring);
    ring_run_ms(&ring, BEGIN_MS);
    asked_put(&put, "d", 10);
    put_shaped(&put.base.payload, "d", DAYS);
    ask(&ring, 1, &put, 1000);
    ring_run_ms(&ring, 100);
    assert_int_equal(put.base.status, 0);
    asked_free(&put);
    assert_int_equal(dates_period(&ring_node(&ring, 1)->ids.dates, "d", 1), 20231114);
    ring_crash(&ring, 1);
    ring_run_ms(&ring, MIDNIGHT_MS);
    ring_restart(&ring, 1);
    while (period == 0) {
        period = dates_period(&ring_node(&ring, 1)->ids.dates, "d", 1);
        ring_run_ms(&ring, 1);
    }
    assert_int_equal(period, 20231115);
}

/* The clocks were an hour ahead, and are right again: the log's time stands for an hour, and no
 * period begins in it. */
static void test_clocks_that_were_ahead(void **state)
{
    RING ring = {.keeps_time = true};
    struct dates *dates;
    struct asked put;

    (void)state;
    ring_start(&ring, 1);
    (void)ring_elect(&ring);
    ring_run_ms(&ring, BEGIN_MS);
    asked_put(&put, "d", 10);
    put_shaped(&put.base.payload, "d", DAYS);
    ask(&ring, 1, &put, 1000);
    ring_run_ms(&ring, 100);
    assert_int_equal(put.base.status, 0);
    asked_free(&put);
    dates = &ring_node(&ring, 1)->ids.dates;
    ring_node(&ring, 1)->wall_ahead_ms = 3600000;
    ring_run_ms(&ring, 2 * BEGIN_MS);
    ring_node(&ring, 1)->wall_ahead_ms = 0;
    ring_run_ms(&ring, MIDNIGHT_MS - 3600000 + 60000);
    assert_int_equal(dates_period(dates, "d", 1), 20231114);
    ring_run_ms(&ring, 3600000);
    assert_int_equal(dates_period(dates, "d", 1), 20231115);
}

/* Ids, not numbers: an increment skips the others. */
static void test_what_is_left_of_a_tag(void **state)
{
    RING ring = {.keeps_time = true};
    struct dates *dates = &ring.nodes[0].ids.dates;
    const struct tag_row rows[] = {{.max_id = 901, .max = 1001},
                                   {.max_id = 901, .max = 1001, .increment = 10},
                                   {.max_id = 901, .max = 1001, .increment = 10, .offset = 9}};
    const uint64_t left[] = {100, 10, 10};
    struct tag_row dated = {
        .max_id = 20231114u * UINT64_C(1000) + 1, .shape = DAYS, .shape_len = sizeof DAYS - 1};

    (void)state;
    ring_start(&ring, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t first;

        assert_int_equal(dates_left(dates, &rows[i], 1), left[i]);
        assert_int_equal(tag_ids_left(&rows[i], &first), left[i]);
    }
    /* Of a period: what it has left, or the tag, whichever is less. */
    (void)ring_elect(&ring);
    ring_run_ms(&ring, BEGIN_MS);
    assert_int_equal(dates_left(dates, &dated, 1), 999);
    dated.max = dated.max_id + 50;
    assert_int_equal(dates_left(dates, &dated, 1), 50);
    dated.max = dated.max_id;
    assert_int_equal(dates_left(dates, &dated, 1), 0);
}

/* A zone is refused where a name gets its first shape. A tag that is there keeps its own, which a
 * dump repeats, also on a system that does not know the zone. */
static void test_zones_that_are_not_known(void **state)
{
    char known[SHAPE_ZONE_BYTES_MAX + 1] = "";
    struct buf command = BUF_INIT;
    struct id_apply apply;
    char why[128] = "";
    struct tag_put put = {.name = "there",
                          .name_len = 5,
                          .fields = TAG_FIELD_SHAPE,
                          .shape = NOWHERE,
                          .shape_len = sizeof NOWHERE - 1};

    (void)state;
    id_apply_init(&apply);
    put_shaped(&command, "there", NOWHERE);
    assert_int_equal(id_apply_bytes(&apply, &command), 0);
    assert_non_null(id_apply_row(&apply, "there"));
    assert_false(dates_refuse(apply.fsm, &put, known, why, sizeof why));
    put.name = "other";
    assert_true(dates_refuse(apply.fsm, &put, known, why, sizeof why));
    assert_non_null(strstr(why, "No/Where"));
    put.fields = TAG_FIELD_STEP; /* it has no shape */
    assert_false(dates_refuse(apply.fsm, &put, known, why, sizeof why));
    buf_free(&command);
    id_apply_free(&apply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_day_is_the_logs),
        cmocka_unit_test(test_a_stop_over_midnight),
        cmocka_unit_test(test_clocks_that_were_ahead),
        cmocka_unit_test(test_what_is_left_of_a_tag),
        cmocka_unit_test(test_zones_that_are_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
