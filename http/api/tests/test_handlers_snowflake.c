/*
 * test_handlers_snowflake.c - /api/snowflake/get/{key} over real sockets, by a clock that the test
 * sets: formats, options, what the layout allows, and each refusal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/tests/snowflake_fixture.h"
#include "src/id/codec/snowflake_layout.h"

/* --- the answer --- */

static void test_one_id(void **state)
{
    struct fixture *f = *state;
    struct snowflake_parts first;
    struct snowflake_parts next;
    struct reply reply;

    client_call(f->client, "GET", GET "any%20key", NULL, &reply);
    assert_string_equal(reply_header(&reply, "Content-Type"), "text/plain;charset=UTF-8");
    assert_string_equal(reply_header(&reply, "Content-Length"), "19");
    assert_string_equal(reply_header(&reply, "Cache-Control"), "no-store");
    first = snowflake_one(f, &reply);
    assert_int_equal(first.unix_ms, T0);
    assert_int_equal(first.worker, 7);
    assert_true(first.sequence < SNOWFLAKE_RANDOM_START);
    /* The key is not looked at; all share one sequence. */
    for (uint32_t i = 1; i <= 3; i++) {
        client_call(f->client, i == 1 ? "POST" : "GET", i == 2 ? GET "b/" : GET "c", NULL, &reply);
        next = snowflake_one(f, &reply);
        assert_int_equal(next.unix_ms, T0);
        assert_int_equal(next.sequence, first.sequence + i);
    }
    snowflake_at(f, 3);
    client_request(f->client, "POST", GET "c", "a body is read and dropped");
    client_read(f->client, false, &reply);
    next = snowflake_one(f, &reply);
    assert_int_equal(next.unix_ms, T0 + 3);
    assert_int_equal(fake_submitted(&f->fake), 0);
    assert_int_equal(fake_notified(&f->fake), 0);
    assert_int_equal(id_table_count(f->fake.backend.table), 0);
}

static void test_formats(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    unsigned long long id;
    char wanted[160];

    client_call(f->client, "GET", GET "k", NULL, &reply);
    id = strtoull(reply.body, NULL, 10);
    reply_release(&reply);
    snprintf(wanted, sizeof(wanted), "%llu\n", id + 1);
    client_expect(f->client, "GET", GET "k?count=1", 200, wanted);
    snprintf(wanted, sizeof(wanted), "%llu\n%llu\n", id + 2, id + 3);
    client_expect(f->client, "GET", GET "k?count=2&format=text", 200, wanted);
    snprintf(wanted, sizeof(wanted), "%llu %llu\n", id + 4, id + 13);
    client_expect(f->client, "GET", GET "k?count=10&format=range", 200, wanted);
    snprintf(wanted, sizeof(wanted),
             "{\"key\":\"k/1\",\"count\":3,\"ranges\":[{\"first\":\"%llu\",\"last\":\"%llu\"}]}",
             id + 14, id + 16);
    client_call(f->client, "GET", GET "k%2F1?count=3&format=json&contiguous=1", NULL, &reply);
    assert_string_equal(reply.body, wanted);
    assert_string_equal(reply_header(&reply, "Content-Type"), "application/json;charset=UTF-8");
    reply_release(&reply);
}

/* Read the lines of a body; each is of the form, above the one before, and of the fixture's worker.
 * Their count. */
static unsigned long_lines(struct fixture *f, const char *target, enum id_form form,
                           struct snowflake_parts *ret_last)
{
    const size_t len = long_id_bytes(form);
    struct reply reply;
    unsigned count = 0;

    client_call(f->client, "GET", target, NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply_header(&reply, "Content-Type"), "text/plain;charset=UTF-8");
    for (const char *at = reply.body; *at != '\0'; at += len + 1, count++) {
        enum id_form got;

        assert_true(long_id_read(at, len, &got, ret_last));
        assert_int_equal(got, form);
        assert_int_equal(ret_last->worker, 7);
        assert_int_equal(at[len], '\n');
        assert_true(count == 0 || memcmp(at - len - 1, at, len) < 0);
    }
    reply_release(&reply);
    return count;
}

static void test_uuids_and_ulids(void **state)
{
    static const enum id_form forms[] = {ID_FORM_UUID, ID_FORM_ULID};
    static const char *const names[] = {"uuid", "ulid"};
    struct fixture *f = *state;
    struct snowflake_parts number;
    struct snowflake_parts last;
    struct reply reply;
    enum id_form form;
    char target[64];

    client_call(f->client, "GET", GET "k?as=number", NULL, &reply);
    number = snowflake_one(f, &reply);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(target, sizeof(target), GET "k?as=%s", names[i]);
        client_call(f->client, "GET", target, NULL, &reply);
        assert_int_equal(strlen(reply.body), long_id_bytes(forms[i]));
        assert_true(long_id_read(reply.body, strlen(reply.body), &form, &last));
        assert_int_equal(form, forms[i]);
        assert_int_equal(last.unix_ms, T0);
        assert_int_equal(last.sequence, number.sequence + 1 + i);
        reply_release(&reply);
    }
    number = last;
    /* In one piece, and part by part. */
    for (unsigned i = 0; i < 2; i++) {
        snprintf(target, sizeof(target), GET "k?count=10&as=%s", names[i]);
        assert_int_equal(long_lines(f, target, forms[i], &last), 10);
        assert_int_equal(last.sequence, number.sequence + 10);
        snprintf(target, sizeof(target), GET "k?count=1500&as=%s", names[i]);
        assert_int_equal(long_lines(f, target, forms[i], &number), 1500);
        assert_int_equal(number.sequence, last.sequence + 1500);
    }
}

static void test_bad_requests_claim_nothing(void **state)
{
    static const struct {
        const char *target;
        const char *code;
    } cases[] = {
        {GET "%01", "bad_tag"},
        {GET "%ff", "bad_tag"},
        {GET "k?count=0", "bad_count"},
        {GET "k?count=100001", "bad_count"},
        {GET "k?count=-1", "bad_count"},
        {GET "k?count=1.0", "bad_count"},
        {GET "k?count=", "bad_count"},
        {GET "k?count=1&count=1", "bad_request"},
        {GET "k?format=xml", "bad_request"},
        {GET "k?contiguous=2", "bad_request"},
        {GET "k?timeout_ms=10001", "bad_request"},
        {GET "k?as=guid", "bad_request"},
        {GET "k?as=uuid&format=json", "bad_request"},
        {GET "k?as=ulid&format=range&count=2", "bad_request"},
        {"/api/segment/get/k?as=uuid", "bad_request"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        client_expect_error(f->client, "GET", cases[i].target, NULL, 400, cases[i].code);
    }
    client_expect(f->client, "HEAD", GET "k", 405, NULL);
    client_expect_error(f->client, "PUT", GET "k", "", 405, "method_not_allowed");
    client_expect_error(f->client, "GET", GET, NULL, 404, "no_route");
    client_expect_error(f->client, "GET", GET "a/b", NULL, 404, "no_route");
    assert_int_equal(atomic_load(&f->fake.snowflake.claimed_total), 0);
}

/* By the system's clock: about 25 milliseconds full of ids. */
static void test_hundred_thousand(void **state)
{
    enum { COUNT = 100000 };
    struct fixture *f = *state;
    uint64_t *ids = malloc(COUNT * sizeof *ids);
    uint64_t now_ms = clock_wall_ms(clock_system());
    struct reply reply;

    assert_non_null(ids);
    fake_set_wall(&f->fake, 0);
    snowflake_extend(snowflake_slot_of(f), now_ms + 100000, now_ms + 100000);
    client_call(f->client, "GET", GET "k?count=100000", NULL, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, COUNT), COUNT);
    reply_release(&reply);
    client_call(f->client, "GET", GET "k?count=100000&format=range&timeout_ms=10000", NULL, &reply);
    assert_int_equal(reply.status, 200);
    assert_true(strtoull(reply.body, NULL, 10) > ids[COUNT - 1]);
    reply_release(&reply);
    free(ids);
}

/* Two worker ids: the claim begins with one, and goes on with the other, whose ids are smaller. */
static void test_ids_of_two_workers_rise(void **state)
{
    struct fixture *f = *state;
    uint64_t ids[5000];
    struct reply reply;

    assert_non_null(snowflake_add(&f->fake.snowflake, 3, 0, T0 + 1000, T0 + 1000));
    client_call(f->client, "GET", GET "k?count=5000", NULL, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, 5000), 5000);
    reply_release(&reply);
    assert_int_equal(snowflake_decode(&f->fake.snowflake.layout, ids[0]).worker, 3);
    assert_int_equal(snowflake_decode(&f->fake.snowflake.layout, ids[4999]).worker, 7);
    assert_int_equal(snowflake_decode(&f->fake.snowflake.layout, ids[0]).unix_ms, T0);
    assert_int_equal(snowflake_decode(&f->fake.snowflake.layout, ids[4999]).unix_ms, T0);
}

/* --- what the layout allows --- */

static void test_count_beyond_the_layout(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    client_call(f->client, "GET", GET "k?count=4097", NULL, &reply);
    assert_int_equal(reply.status, 400);
    assert_non_null(strstr(reply.body, "\"code\":\"bad_count\""));
    assert_non_null(strstr(reply.body, "count=4097 is more than the 4096 ids of 64 milliseconds"));
    reply_release(&reply);
    assert_int_equal(atomic_load(&f->fake.snowflake.claimed_total), 0);
    /* At the bound it is only a matter of time. */
    client_expect_error(f->client, "GET", GET "k?count=4096&timeout_ms=0", NULL, 503, "timeout");
}

/* The most that a reply holds: the first millisecond begins at a random sequence, so that its range
 * is too short and another one has to take its place. */
static void test_all_ids_of_64_milliseconds(void **state)
{
    struct fixture *f = *state;
    uint64_t claimed = 2;
    struct segment_range range;
    struct reply reply;
    unsigned lines = 0;
    bool notify;

    assert_int_equal(snowflake_claim(&f->fake.snowflake, 0, 2, 0, &range, &notify), 0);
    client_request(f->client, "GET", GET "k?count=4096&format=range&timeout_ms=10000", NULL);
    for (int ms = 0; ms <= LIMIT_RANGES_PER_REPLY; ms++) {
        snowflake_at(f, ms);
        claimed = 64 * (uint64_t)(ms + 1);
        while (atomic_load(&f->fake.snowflake.claimed_total) < claimed) {
        }
    }
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 200);
    for (const char *at = reply.body; *at != '\0'; at = strchr(at, '\n') + 1) {
        uint64_t first = strtoull(at, NULL, 10);
        struct snowflake_parts parts = snowflake_decode(&f->fake.snowflake.layout, first);

        lines++;
        assert_int_equal(parts.unix_ms, T0 + lines);
        assert_int_equal(parts.sequence, 0);
        assert_int_equal(strtoull(strchr(at, ' '), NULL, 10), first + 63);
    }
    assert_int_equal(lines, LIMIT_RANGES_PER_REPLY);
    reply_release(&reply);
    assert_int_equal(atomic_load(&f->fake.snowflake.claimed_total), 65 * 64);
}

static void test_contiguous(void **state)
{
    struct fixture *f = *state;
    struct segment_range range;
    uint64_t ids[64];
    struct reply reply;
    bool notify;

    client_expect_error(f->client, "GET", GET "k?count=65&contiguous=1", NULL, 409,
                        "not_contiguous");
    assert_int_equal(atomic_load(&f->fake.snowflake.claimed_total), 0);
    /* The rest of this millisecond is too short: it is burnt, and the next one has it. */
    assert_int_equal(snowflake_claim(&f->fake.snowflake, 0, 1, 0, &range, &notify), 0);
    client_request(f->client, "GET", GET "k?count=64&contiguous=1", NULL);
    fixture_await_waiting(f, 1);
    assert_int_equal(atomic_load(&f->fake.snowflake.claimed_total), 64);
    snowflake_at(f, 1);
    client_read(f->client, false, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, 64), 64);
    reply_release(&reply);
    assert_int_equal(ids[63], ids[0] + 63);
    assert_int_equal(snowflake_decode(&f->fake.snowflake.layout, ids[0]).unix_ms, T0 + 1);
    /* What fits into the rest is taken from it. */
    snowflake_at(f, 2);
    assert_int_equal(snowflake_claim(&f->fake.snowflake, 0, 1, 0, &range, &notify), 0);
    client_call(f->client, "GET", GET "k?count=10&contiguous=1", NULL, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, 64), 10);
    reply_release(&reply);
    assert_int_equal(ids[0], range.first + 1);
}

/* --- refusals --- */

static void expect_refusal(struct fixture *f, int status, const char *code, const char *text)
{
    client_expect_message(f->client, "GET", GET "k", NULL, status, code, text);
}

static void test_clock_backwards(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    client_expect(f->client, "GET", GET "k", 200, NULL);
    snowflake_at(f, -LIMIT_CLOCK_BACK_WAIT_MS);
    client_call(f->client, "GET", GET "k", NULL, &reply);
    assert_int_equal(snowflake_one(f, &reply).unix_ms, T0);
    snowflake_at(f, -LIMIT_CLOCK_BACK_WAIT_MS - 1);
    expect_refusal(f, 503, "clock_backwards",
                   "ids go on when it shows 1700000000000 (2023-11-14T22:13:20.000Z), which is in "
                   "6 ms");
    atomic_store(&f->fake.health.clock_off_ms, -7000);
    atomic_store(&f->fake.health.clock_wait_until_ms, T0 + 1000);
    expect_refusal(f, 503, "clock_backwards",
                   "off by -7000 ms, and ids go on when it shows 1700000001000 ");
    snowflake_at(f, 0);
    client_expect(f->client, "GET", GET "k", 200, NULL);
}

static void test_parked_request_is_refused(void **state)
{
    struct fixture *f = *state;
    struct client *other = fixture_connect(f);
    struct reply reply;

    snowflake_use_up(f);
    client_request(f->client, "GET", GET "k", NULL);
    fixture_await_waiting(f, 1);
    client_request(other, "GET", GET "k", NULL);
    fixture_await_waiting(f, 2);
    snowflake_at(f, -1000);
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 503);
    assert_non_null(strstr(reply.body, "clock_backwards"));
    reply_release(&reply);
    client_read(other, false, &reply);
    assert_int_equal(reply.status, 503);
    reply_release(&reply);
    fixture_await_waiting(f, 0);
    client_close(other);
}

static void test_clock_skew_and_disabled(void **state)
{
    struct fixture *f = *state;

    atomic_store(&f->fake.health.clock_off_ms, 123456);
    atomic_store(&f->fake.snowflake.refusal, ERR_CLOCK_SKEW);
    expect_refusal(f, 503, "clock_skew", "off by 123456 ms, and ids go on when it has been set");
    atomic_store(&f->fake.snowflake.refusal, ERR_DISABLED);
    expect_refusal(f, 503, "disabled", "switched off on this node");
    atomic_store(&f->fake.snowflake.refusal, 0);
    client_expect(f->client, "GET", GET "k", 200, NULL);
}

static void test_window_expired(void **state)
{
    struct fixture *f = *state;

    snowflake_at(f, 3600000);
    client_expect(f->client, "GET", GET "k", 200, NULL);
    snowflake_at(f, 3600001);
    expect_refusal(f, 503, "window_expired",
                   "ended at 1700003600000 (2023-11-14T23:13:20.000Z), 1 ms ago");
}

/* Shows P8-layout. */
static void test_epoch_exhausted(void **state)
{
    struct fixture *f = *state;
    uint64_t last_ms = snowflake_last_ms(&f->fake.snowflake.layout);
    struct reply reply;

    snowflake_extend(snowflake_slot_of(f), last_ms + 10, last_ms + 10);
    fake_set_wall(&f->fake, last_ms);
    client_call(f->client, "GET", GET "k", NULL, &reply);
    assert_int_equal(snowflake_one(f, &reply).unix_ms, last_ms);
    fake_set_wall(&f->fake, last_ms + 1);
    expect_refusal(f, 507, "epoch_exhausted", "its last millisecond was 3487858230208 (2080-07-10");
    client_call(f->client, "GET", GET "k", NULL, &reply);
    assert_non_null(strstr(reply.head, "HTTP/1.1 507 Insufficient Storage\r\n"));
    assert_non_null(strstr(reply.body, "\"error\":\"Insufficient Storage\""));
    reply_release(&reply);
}

static void test_no_worker_id(void **state)
{
    struct fixture *f = *state;
    uint64_t begun_ms = clock_now_ms(clock_system());

    atomic_store(&f->fake.health.snowflake_refusal, ERR_NO_WORKER_ID);
    client_expect_error(f->client, "GET", GET "k?timeout_ms=0", NULL, 409, "no_worker_id");
    client_expect_error(f->client, "GET", GET "k?timeout_ms=5", NULL, 409, "no_worker_id");
    /* The node may have started a moment ago: it is given that moment, and no more. */
    begun_ms = clock_now_ms(clock_system());
    client_expect_error(f->client, "GET", GET "k?timeout_ms=10000", NULL, 409, "no_worker_id");
    assert_in_range(clock_now_ms(clock_system()) - begun_ms, 490, 9000);
    atomic_store(&f->fake.health.leader_known, false);
    client_expect_error(f->client, "GET", GET "k?timeout_ms=5", NULL, 503, "no_leader");
    atomic_store(&f->fake.health.snowflake_refusal, 0);
    client_expect_error(f->client, "GET", GET "k?timeout_ms=0", NULL, 503, "no_leader");
    atomic_store(&f->fake.health.leader_known, true);
    client_expect_error(f->client, "GET", GET "k?timeout_ms=5", NULL, 503, "timeout");
}

static void test_waits_for_layout_and_worker_id(void **state)
{
    static const struct snowflake_layout layout = SNOWFLAKE_JS53_LAYOUT;
    struct fixture *f = *state;
    struct client *large = fixture_connect(f);
    struct reply reply;

    /* What cannot be is only known with the layout. */
    client_request(large, "GET", GET "k?count=5000", NULL);
    fixture_await_waiting(f, 1);
    client_request(f->client, "GET", GET "k", NULL);
    fixture_await_waiting(f, 2);
    snowflake_set_layout(&f->fake.snowflake, &layout);
    client_read(large, false, &reply);
    assert_int_equal(reply.status, 400);
    reply_release(&reply);
    assert_non_null(snowflake_add(&f->fake.snowflake, 9, 0, T0, T0));
    client_read(f->client, false, &reply);
    assert_int_equal(snowflake_one(f, &reply).worker, 9);
    client_close(large);
}

int main(void)
{
#define LEAF(name) cmocka_unit_test_setup_teardown(name, snowflake_setup, fixture_teardown)
#define SMALL(name) cmocka_unit_test_setup_teardown(name, snowflake_setup_small, fixture_teardown)
#define BARE(name) cmocka_unit_test_setup_teardown(name, snowflake_setup_bare, fixture_teardown)
    const struct CMUnitTest tests[] = {
        LEAF(test_one_id),
        LEAF(test_formats),
        LEAF(test_uuids_and_ulids),
        LEAF(test_bad_requests_claim_nothing),
        LEAF(test_hundred_thousand),
        LEAF(test_ids_of_two_workers_rise),
        SMALL(test_count_beyond_the_layout),
        SMALL(test_all_ids_of_64_milliseconds),
        SMALL(test_contiguous),
        LEAF(test_clock_backwards),
        LEAF(test_parked_request_is_refused),
        LEAF(test_clock_skew_and_disabled),
        LEAF(test_window_expired),
        LEAF(test_epoch_exhausted),
        BARE(test_no_worker_id),
        BARE(test_waits_for_layout_and_worker_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
