/*
 * test_snowflake.c - snowflake ids: taking them, waiting for the clock, named layouts, taking ids
 * apart.
 *
 * /api/snowflake/get/{key} over real sockets, by a clock that the test sets: formats, options, what
 * the layout allows, and each refusal.
 *
 * Snowflake requests that wait for the clock: in order, up to their deadline, given up; and several
 * loops that share the generator.
 *
 * Layouts by name: made, shown, deleted and refused; ids of them, one a line where the worker id is
 * last; and requests of one layout that wait while others are served.
 *
 * Snowflake ids taken apart, by the cluster's layout and as Leaf does.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/tests/unit/test.h"
#include "http/api/tests/snowflake_fixture.h"
#include "src/id/codec/snowflake_layout.h"
#include "src/id/snowflake/snowflake.h"

/* Was the last id of the worker id's slot of this time, and which sequence is the next? */
static bool is_at(struct fixture *f, unsigned ms, uint32_t next)
{
    struct layout_position at = layout_position_of(atomic_load(&snowflake_slot_of(f)->word));

    return at.unit == T0 + ms - f->fake.snowflake.layout.epoch_ms && at.next == next;
}

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
    assert_int_equal(first.sequence, 0);
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
    assert_null(id_table_after(f->fake.backend.table, NULL));
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
    uint64_t before = atomic_load(&snowflake_slot_of(f)->word);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        client_expect_error(f->client, "GET", cases[i].target, NULL, 400, cases[i].code);
    }
    client_expect(f->client, "HEAD", GET "k", 405, NULL);
    client_expect_error(f->client, "PUT", GET "k", "", 405, "method_not_allowed");
    client_expect_error(f->client, "GET", GET, NULL, 404, "no_route");
    client_expect_error(f->client, "GET", GET "a/b", NULL, 404, "no_route");
    assert_true(atomic_load(&snowflake_slot_of(f)->word) == before);
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
    assert_true(atomic_load(&snowflake_slot_of(f)->word) == 0);
    /* At the bound it is only a matter of time. */
    client_expect_error(f->client, "GET", GET "k?count=4096&timeout_ms=0", NULL, 503, "timeout");
}

/* The most that a reply holds: the first millisecond begins at a random sequence, so that its range
 * is too short and another one has to take its place. */
static void test_all_ids_of_64_milliseconds(void **state)
{
    struct fixture *f = *state;
    struct segment_range range;
    struct reply reply;
    unsigned lines = 0;
    bool notify;

    assert_int_equal(snowflake_claim(&f->fake.snowflake, NULL, 0, 2, 0, &range, &notify), 0);
    client_request(f->client, "GET", GET "k?count=4096&format=range&timeout_ms=10000", NULL);
    for (unsigned ms = 0; ms <= LIMIT_RANGES_PER_REPLY; ms++) {
        snowflake_at(f, ms);
        while (!is_at(f, ms, 64)) {
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
    assert_true(is_at(f, LIMIT_RANGES_PER_REPLY, 64));
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
    assert_true(atomic_load(&snowflake_slot_of(f)->word) == 0);
    /* The rest of this millisecond is too short: it is burnt, and the next one has it. */
    assert_int_equal(snowflake_claim(&f->fake.snowflake, NULL, 0, 1, 0, &range, &notify), 0);
    client_request(f->client, "GET", GET "k?count=64&contiguous=1", NULL);
    fixture_await_waiting(f, 1);
    assert_true(is_at(f, 0, 64));
    snowflake_at(f, 1);
    client_read(f->client, false, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, 64), 64);
    reply_release(&reply);
    assert_int_equal(ids[63], ids[0] + 63);
    assert_int_equal(snowflake_decode(&f->fake.snowflake.layout, ids[0]).unix_ms, T0 + 1);
    /* What fits into the rest is taken from it. */
    snowflake_at(f, 2);
    assert_int_equal(snowflake_claim(&f->fake.snowflake, NULL, 0, 1, 0, &range, &notify), 0);
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
    expect_refusal(
        f, 503, "clock_backwards",
        "ids continue when it shows 1700000000000 (2023-11-14T22:13:20.000Z), which is in "
        "6 ms");
    atomic_store(&f->fake.health.clock_off_ms, -7000);
    atomic_store(&f->fake.health.clock_wait_until_ms, T0 + 1000);
    expect_refusal(f, 503, "clock_backwards",
                   "off by -7000 ms, and ids continue when it shows 1700000001000 ");
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
    expect_refusal(f, 503, "clock_skew", "off by 123456 ms, and ids continue when it has been set");
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

#define LEAF_TAKE(name) cmocka_unit_test_setup_teardown(name, snowflake_setup, fixture_teardown)

#define SMALL_TAKE(name)                                                                           \
    cmocka_unit_test_setup_teardown(name, snowflake_setup_small, fixture_teardown)

#define BARE_TAKE(name)                                                                            \
    cmocka_unit_test_setup_teardown(name, snowflake_setup_bare, fixture_teardown)

/* --- waiting --- */

static void test_parked_are_served_in_order(void **state)
{
    struct fixture *f = *state;
    struct client *clients[3];
    uint32_t sequence = 0;
    uint64_t ids[8];
    struct reply reply;
    char target[64];

    snowflake_use_up(f);
    for (unsigned i = 0; i < 3; i++) {
        clients[i] = fixture_connect(f);
        snprintf(target, sizeof(target), GET "k?count=%u", i + 2);
        client_request(clients[i], "GET", target, NULL);
        fixture_await_waiting(f, i + 1);
    }
    snowflake_at(f, 1);
    for (unsigned i = 0; i < 3; i++) {
        client_read(clients[i], false, &reply);
        assert_int_equal(snowflake_lines(&reply, ids, 8), i + 2);
        reply_release(&reply);
        assert_int_equal(snowflake_decode(&f->fake.snowflake.layout, ids[0]).unix_ms, T0 + 1);
        assert_int_equal(snowflake_decode(&f->fake.snowflake.layout, ids[0]).sequence, sequence);
        sequence += i + 2;
        client_close(clients[i]);
    }
    fixture_await_waiting(f, 0);
}

/* Those that wait come first, even if there is enough for one that has just come. */
static void test_nobody_overtakes(void **state)
{
    struct fixture *f = *state;
    struct client *other = fixture_connect(f);
    struct reply reply;

    snowflake_use_up(f);
    client_request(f->client, "GET", GET "k?count=130&format=range", NULL);
    fixture_await_waiting(f, 1);
    client_request(other, "GET", GET "k", NULL);
    fixture_await_waiting(f, 2);
    for (unsigned ms = 1; ms <= 3; ms++) {
        snowflake_at(f, ms);
        while (ms < 3 && !is_at(f, ms, 64)) {
        }
    }
    client_read(f->client, false, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
    client_read(other, false, &reply);
    assert_int_equal(snowflake_one(f, &reply).sequence, 2);
    client_close(other);
}

static void test_deadline(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    snowflake_use_up(f);
    client_expect_error(f->client, "GET", GET "k?timeout_ms=0", NULL, 503, "timeout");
    client_call(f->client, "GET", GET "k?count=2&timeout_ms=30", NULL, &reply);
    assert_int_equal(reply.status, 503);
    assert_non_null(strstr(reply.body, "2 of 2 ids were not there within 30 ms"));
    reply_release(&reply);
    /* There is a worker id: it is not for want of a leader. */
    atomic_store(&f->fake.health.leader_known, false);
    client_expect_error(f->client, "GET", GET "k?timeout_ms=5", NULL, 503, "timeout");
    fixture_await_waiting(f, 0);
}

static void test_client_gone_while_parked(void **state)
{
    struct fixture *f = *state;
    struct client *other = fixture_connect(f);
    struct reply reply;

    snowflake_use_up(f);
    client_request(other, "GET", GET "k?count=9", NULL);
    fixture_await_waiting(f, 1);
    client_close(other);
    fixture_await_waiting(f, 0);
    snowflake_at(f, 1);
    client_call(f->client, "GET", GET "k", NULL, &reply);
    assert_int_equal(snowflake_one(f, &reply).sequence, 0);
    assert_true(is_at(f, 1, 1));
}

static void test_server_stops_while_parked(void **state)
{
    struct fixture *f = *state;

    snowflake_use_up(f);
    client_request(f->client, "GET", GET "k?timeout_ms=10000", NULL);
    fixture_await_waiting(f, 1);
    fake_set_waker(&f->fake, NULL);
    http_server_stop(f->server);
    f->server = NULL;
    client_expect_end(f->client);
}

static void test_lapsed_mark_notifies_the_owner(void **state)
{
    struct fixture *f = *state;
    struct snowflake_slot *slot = snowflake_slot_of(f);
    uint64_t mark_ms = T0 + 3600000;
    struct reply reply;

    snowflake_extend(slot, mark_ms, mark_ms + 1000);
    fake_set_wall(&f->fake, mark_ms + 10);
    client_request(f->client, "GET", GET "k", NULL);
    fixture_await_waiting(f, 1);
    assert_int_equal(fake_notified(&f->fake), 1);
    assert_true(atomic_load(&f->fake.snowflake.wanted));
    /* The owner looked, and the disk is slow: it is told again. */
    atomic_store(&f->fake.snowflake.wanted, false);
    while (fake_notified(&f->fake) < 2) {
    }
    snowflake_extend(slot, mark_ms + 500, mark_ms + 1000);
    client_read(f->client, false, &reply);
    assert_int_equal(snowflake_one(f, &reply).unix_ms, mark_ms + 10);
    assert_int_equal(fake_notified(&f->fake), 2);
}

/* --- several loops --- */

#define THREADS 4
#define ROUNDS 25
#define BATCH 64

struct hammer {
    pthread_t thread;
    uint16_t port;
    uint64_t ids[2 * ROUNDS * BATCH];
    bool good;
};

/* In a thread, where an assertion cannot be reported: only notes whether all was well. */
static bool hammer_call(struct client *client, uint64_t *ids)
{
    struct reply reply;
    bool good;
    char *at;

    client_call(client, "GET", GET "k?count=64&timeout_ms=10000", NULL, &reply);
    good = reply.status == 200;
    at = reply.body;
    for (unsigned i = 0; good && i < BATCH; i++) {
        ids[i] = strtoull(at, &at, 10);
        good = *at++ == '\n';
    }
    reply_release(&reply);
    return good;
}

static void *hammer_run(void *data)
{
    struct hammer *hammer = data;
    struct client *clients[2] = {client_open(hammer->port), client_open(hammer->port)};

    hammer->good = true;
    for (unsigned round = 0; hammer->good && round < 2 * ROUNDS; round++) {
        hammer->good = hammer_call(clients[round % 2], hammer->ids + (size_t)round * BATCH);
    }
    client_close(clients[0]);
    client_close(clients[1]);
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

static void prepare_hammer(struct fixture *f)
{
    static const struct snowflake_layout layout = SNOWFLAKE_JS53_LAYOUT;
    uint64_t until_ms = clock_wall_ms(clock_system()) + 3600000;

    fake_snowflake(&f->fake);
    snowflake_set_layout(&f->fake.snowflake, &layout);
    assert_non_null(snowflake_add(&f->fake.snowflake, 1, 0, until_ms, until_ms));
}

/* Few ids a millisecond, so that the loops get into each other's way and requests park. */
static void test_loops_share_the_generator(void **state)
{
    enum { EACH = 2 * ROUNDS * BATCH, ALL = THREADS * EACH };
    struct http_settings config = {.loops = 2};
    struct hammer *hammers = calloc(THREADS, sizeof *hammers);
    uint64_t *all = calloc(ALL, sizeof *all);
    struct fixture f;
    struct reply reply;

    (void)state;
    assert_non_null(hammers);
    assert_non_null(all);
    fixture_start_with(&f, &config, prepare_hammer);
    for (unsigned i = 0; i < THREADS; i++) {
        hammers[i].port = fixture_port(f.server, ACCEPT_HTTP);
        assert_int_equal(pthread_create(&hammers[i].thread, NULL, hammer_run, &hammers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(hammers[i].thread, NULL), 0);
        assert_true(hammers[i].good);
        memcpy(all + (size_t)i * EACH, hammers[i].ids, EACH * sizeof *all);
        for (unsigned k = 1; k < EACH; k++) {
            assert_true(hammers[i].ids[k] > hammers[i].ids[k - 1]);
        }
    }
    qsort(all, ALL, sizeof *all, compare_ids);
    for (unsigned k = 1; k < ALL; k++) {
        assert_true(all[k] > all[k - 1]);
    }
    client_call(f.client, "GET", "/metrics", NULL, &reply);
    assert_non_null(strstr(reply.body, "\nleafd_ids_total{kind=\"snowflake\"} 12800\n"));
    reply_release(&reply);
    fixture_stop(&f);
    free(hammers);
    free(all);
}

#define LEAF_WAIT(name) cmocka_unit_test_setup_teardown(name, snowflake_setup, fixture_teardown)

#define SMALL_WAIT(name)                                                                           \
    cmocka_unit_test_setup_teardown(name, snowflake_setup_small, fixture_teardown)

/* --- layouts --- */

#define SONY_ROW                                                                                   \
    "{\"name\":\"s10\",\"unit_ms\":10,\"epoch_ms\":1409529600000,\"time_bits\":39,"                \
    "\"worker_bits\":16,\"sequence_bits\":8,\"order\":\"time-sequence-worker\","                   \
    "\"last_ms\":6907087738879,\"deleted\":false}"
#define WIDE "{\"preset\":\"sonyflake\",\"time_bits\":37,\"worker_bits\":10,\"sequence_bits\":16}"
/* Two ids a second. */
#define SLOW                                                                                       \
    "{\"unit_ms\":1000,\"epoch_ms\":1600000000000,\"time_bits\":32,\"worker_bits\":4,"             \
    "\"sequence_bits\":1}"
#define SONY(ms, sequence, worker)                                                                 \
    ((((T0 + (ms)-1409529600000ULL) / 10) << 24) | (sequence) << 16 | (worker))

static void put(struct fixture *f, const char *name, const char *body)
{
    struct reply reply;
    char target[64];

    (void)snprintf(target, sizeof target, "/api/layouts/%s", name);
    client_call(f->client, "PUT", target, body, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
}

static void test_made_shown_and_deleted(void **state)
{
    struct fixture *f = *state;

    client_expect(f->client, "GET", "/api/layouts", 200, "{\"layouts\":[]}");
    client_expect_error(f->client, "GET", "/api/layouts/s10", NULL, 404, "unknown_layout");
    put(f, "s10", "{\"preset\":\"sonyflake\"}");
    put(f, "s10", "{\"preset\":\"sonyflake\",\"unit_ms\":10}"); /* the same */
    client_expect_message(f->client, "PUT", "/api/layouts/s10", "{\"preset\":\"leaf\"}", 409,
                          "conflict", "layout s10 has other fields already");
    client_expect(f->client, "GET", "/api/layouts/s10", 200, SONY_ROW);
    client_expect(f->client, "GET", "/api/layouts", 200, "{\"layouts\":[" SONY_ROW "]}");
    client_expect(f->client, "DELETE", "/api/layouts/s10", 204, "");
    client_expect_error(f->client, "DELETE", "/api/layouts/s10", NULL, 404, "unknown_layout");
    client_expect_message(f->client, "GET", GET "k?layout=s10", NULL, 404, "unknown_layout",
                          "layout s10 was deleted");
    client_expect_error(f->client, "PUT", "/api/layouts/s10", "{\"preset\":\"leaf\"}", 409,
                        "conflict");
    put(f, "s10", "{\"preset\":\"sonyflake\"}");
    client_expect(f->client, "GET", "/api/layouts/s10", 200, SONY_ROW);
}

/* --- a layout that this node learns a moment later than others --- */

struct late {
    struct fixture *f;
    struct layout_row row;
    unsigned asked;  /* the leader, up to where it is to wait */
    unsigned waited; /* until it has applied that */
};

static void learn_late(void *data, const struct cluster_request *request)
{
    struct late *late = data;

    late->asked += request->kind == CLUSTER_REQUEST_QUERY && !request->local;
    if (request->kind == CLUSTER_REQUEST_BARRIER && request->local) {
        late->waited++;
        snowflake_learn(late->f->fake.backend.snowflake, &late->row);
    }
}

/* A name that this node does not know, or knows as deleted, may have been made elsewhere a moment
 * ago: it catches up, and serves. Refused only once that is done; not without a leader. */
static void test_a_layout_that_is_known_elsewhere(void **state)
{
    static const char *const asks[] = {
        GET "k?layout=", "/api/layouts/", "/api/snowflake/decode/1?layout=",
        "/api/snowflake/at?time=1700000000000&layout=", GET "k?layout="};
    struct fixture *f = *state;
    struct late late = {.f = f, .row = {.created_ms = T0}};

    ASSERT(named_layout_preset("sonyflake", 9, &late.row.layout));
    f->fake.watch_data = &late;
    for (size_t i = 0; i < COUNT_OF(asks); i++) {
        struct reply reply;
        char target[96];

        late.asked = late.waited = 0;
        late.row.name_len = (uint16_t)snprintf(late.row.name, sizeof late.row.name, "late%zu", i);
        if (i + 1 == COUNT_OF(asks)) { /* was deleted, and is made again */
            late.row.deleted = true;
            snowflake_learn(f->fake.backend.snowflake, &late.row);
            late.row.deleted = false;
        }
        (void)snprintf(target, sizeof target, "%s%s", asks[i], late.row.name);
        f->fake.watch = learn_late;
        client_call(f->client, "GET", target, NULL, &reply);
        f->fake.watch = NULL;
        assert_int_equal(reply.status, 200);
        assert_int_equal(late.asked, 1);
        assert_int_equal(late.waited, 1);
        reply_release(&reply);
    }
    f->fake.fail_with = ERR_NO_LEADER;
    client_expect_error(f->client, "GET", GET "k?layout=other", NULL, 503, "no_leader");
    f->fake.fail_with = 0;
    client_expect_error(f->client, "GET", GET "k?layout=other", NULL, 404, "unknown_layout");
}

static void test_refused_before_anything_is_proposed(void **state)
{
    static const char *const bodies[][2] = {
        {"", "epoch_ms is missing, and so is a preset"},
        {"{\"preset\":\"x\"}", "is not leaf, js53, twitter"},
        {"{\"preset\":\"leaf\",\"more\":1}", "more"},
        {"{\"preset\":\"leaf\",\"time_bits\":46}", "time_bits must be 24 to 45"},
        {"{\"preset\":\"leaf\",\"time_bits\":256}", "time_bits"},
        {"{\"preset\":\"leaf\",\"unit_ms\":65537}", "unit_ms"},
        {"{\"preset\":\"leaf\",\"order\":\"sequence\"}", "is not time-worker-sequence"},
        {"{\"preset\":\"leaf\",\"epoch_ms\":1700000000001}", "epoch_ms must not be after"},
        {"{\"preset\":\"leaf\",\"time_bits\":38}", "its time is over"},
    };
    struct fixture *f = *state;
    uint64_t before = fake_submitted(&f->fake);

    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        client_expect_message(f->client, "PUT", "/api/layouts/a", bodies[i][0], 400, "bad_request",
                              bodies[i][1]);
    }
    client_expect_error(f->client, "PUT", "/api/layouts/A", "{\"preset\":\"leaf\"}", 400,
                        "bad_request");
    client_expect_error(f->client, "PUT", "/api/layouts/a", "{", 400, "bad_json");
    assert_int_equal(fake_submitted(&f->fake), before);
    put(f, "slow", SLOW); /* of 16 worker ids */
    before = fake_submitted(&f->fake);
    client_expect_message(f->client, "PUT", "/api/workers/16", "{\"epoch\":1,\"layout\":\"slow\"}",
                          400, "bad_request", "worker id 16 is beyond layout slow");
    assert_int_equal(fake_submitted(&f->fake), before);
    client_expect_error(f->client, "PUT", "/api/workers/15", "{\"epoch\":1,\"layout\":\"slow\"}",
                        404, "unknown_worker");
}

static void test_ids_whose_worker_is_last(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    uint64_t ids[3];
    char body[512];

    put(f, "s10", "{\"preset\":\"sonyflake\"}");
    client_call(f->client, "GET", GET "k?count=3&layout=s10", NULL, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, 3), 3);
    reply_release(&reply);
    for (size_t i = 0; i < 3; i++) {
        assert_true(ids[i] == SONY(0, (ids[0] >> 16 & 0xff) + i, 7));
    }
    (void)snprintf(body, sizeof body,
                   "{\"id\":\"%llu\",\"layout\":\"s10\",\"timestamp_ms\":1700000000000,"
                   "\"time\":\"2023-11-14T22:13:20.000Z\",\"worker_id\":7,\"sequence\":9}",
                   SONY(0, 9, 7));
    {
        char target[96];

        (void)snprintf(target, sizeof target, "/api/snowflake/decode/%llu?layout=s10",
                       SONY(0, 9, 7));
        client_expect(f->client, "GET", target, 200, body);
    }
    client_expect_error(f->client, "GET", "/api/snowflake/decode/x?layout=s10", NULL, 400,
                        "bad_request");
    client_expect_error(f->client, "GET", GET "k?layout=s10&format=range", NULL, 400,
                        "bad_request");
    client_expect_error(f->client, "GET", GET "k?layout=s10&as=ulid", NULL, 400, "bad_request");
}

/* More than are made at once. */
static void test_many_ids_whose_worker_is_last(void **state)
{
    enum { MANY = 40000 };
    struct fixture *f = *state;
    uint64_t *ids = calloc(MANY, sizeof *ids);
    struct reply reply;

    assert_non_null(ids);
    put(f, "wide", WIDE);
    client_call(f->client, "GET", GET "k?count=40000&layout=wide", NULL, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, MANY), MANY);
    reply_release(&reply);
    for (size_t i = 1; i < MANY; i++) {
        assert_true(ids[i] == ids[i - 1] + (1 << 10));
    }
    free(ids);
}

static void test_worker_ids_that_do_not_fit_and_the_end(void **state)
{
    struct fixture *f = *state;

    put(f, "narrow", "{\"preset\":\"leaf\",\"worker_bits\":2}");
    client_expect_message(f->client, "GET", GET "k?layout=narrow", NULL, 409, "no_worker_id",
                          "none of this node's worker ids fits the 2 worker bits of layout narrow, "
                          "which end at 3");
    put(f, "short", "{\"preset\":\"leaf\",\"epoch_ms\":1699983222785,\"time_bits\":24}");
    client_expect_message(f->client, "GET", GET "k?layout=short&count=4097&contiguous=1", NULL, 409,
                          "not_contiguous", "one unit of time, which has 4096 ids in layout short");
    snowflake_at(f, 1);
    client_expect_message(f->client, "GET", GET "k?layout=short", NULL, 507, "epoch_exhausted",
                          "the time of layout short is over: its last millisecond was "
                          "1700000000000 (2023-11-14T22:13:20.000Z)");
}

static void test_a_layout_waits_for_its_own_clock(void **state)
{
    struct fixture *f = *state;
    struct client *slow = fixture_connect(f);
    struct client *other = fixture_connect(f);
    struct reply reply;
    uint64_t ids[3];

    put(f, "slow", SLOW);
    client_expect_error(f->client, "GET", GET "k?layout=slow&count=129", NULL, 400, "bad_count");
    client_request(slow, "GET", GET "k?layout=slow&count=3&timeout_ms=10000", NULL);
    fixture_await_waiting(f, 1);
    client_expect_error(f->client, "GET", GET "k?layout=slow&timeout_ms=0", NULL, 503, "timeout");
    /* The cluster's own layout has ids, and then one that waits for the next millisecond. */
    client_call(f->client, "GET", GET "k", NULL, &reply);
    assert_int_equal(snowflake_one(f, &reply).unix_ms, T0);
    snowflake_use_up(f);
    client_request(other, "GET", GET "k?timeout_ms=10000", NULL);
    fixture_await_waiting(f, 2);
    snowflake_at(f, 1);
    client_read(other, false, &reply);
    assert_int_equal(snowflake_one(f, &reply).unix_ms, T0 + 1);
    fixture_await_waiting(f, 1);
    snowflake_at(f, 1000);
    client_read(slow, false, &reply);
    assert_int_equal(snowflake_lines(&reply, ids, 3), 3);
    reply_release(&reply);
    assert_int_equal(ids[0] >> 5, (T0 - 1600000000000) / 1000);
    assert_int_equal(ids[2] >> 5, (T0 - 1600000000000) / 1000 + 1);
    client_close(slow);
    client_close(other);
}

#define TEST_LAYOUTS(name) cmocka_unit_test_setup_teardown(name, snowflake_setup, fixture_teardown)

/* --- decode --- */

#define DECODE "/api/snowflake/decode/"
#define LEAF "/decodeSnowflakeId"

static void test_decode_by_the_layout(void **state)
{
    static const struct {
        const char *id;
        const char *body;
    } cases[] = {
        {"1256557484213448722",
         "{\"id\":\"1256557484213448722\",\"timestamp_ms\":1588421624602,"
         "\"time\":\"2020-05-02T12:13:44.602Z\",\"worker_id\":619,\"sequence\":18}"},
        {"0", "{\"id\":\"0\",\"timestamp_ms\":1288834974657,\"time\":\"2010-11-04T01:42:54.657Z\","
              "\"worker_id\":0,\"sequence\":0}"},
        {"0000000000004095",
         "{\"id\":\"4095\",\"timestamp_ms\":1288834974657,"
         "\"time\":\"2010-11-04T01:42:54.657Z\",\"worker_id\":0,\"sequence\":4095}"},
        {"4096", "{\"id\":\"4096\",\"timestamp_ms\":1288834974657,"
                 "\"time\":\"2010-11-04T01:42:54.657Z\",\"worker_id\":1,\"sequence\":0}"},
        {"%34194304", "{\"id\":\"4194304\",\"timestamp_ms\":1288834974658,"
                      "\"time\":\"2010-11-04T01:42:54.658Z\",\"worker_id\":0,\"sequence\":0}"},
        {"9223372036854775807",
         "{\"id\":\"9223372036854775807\",\"timestamp_ms\":3487858230208,"
         "\"time\":\"2080-07-10T17:30:30.208Z\",\"worker_id\":1023,\"sequence\":4095}"},
    };
    struct fixture *f = *state;
    char target[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(target, sizeof(target), DECODE "%s", cases[i].id);
        client_expect(f->client, i % 2 == 0 ? "GET" : "POST", target, 200, cases[i].body);
    }
}

static void test_decode_by_another_layout(void **state)
{
    struct fixture *f = *state;

    /* 1 ms, worker 5, sequence 63. */
    client_expect(f->client, "GET", DECODE "4479", 200,
                  "{\"id\":\"4479\",\"timestamp_ms\":1288834974658,"
                  "\"time\":\"2010-11-04T01:42:54.658Z\",\"worker_id\":5,\"sequence\":63}");
    /* Leaf's way knows Leaf's layout alone. */
    client_expect(f->client, "GET", LEAF "?snowflakeId=4479", 200,
                  "{\"workerId\":\"1\",\"sequenceId\":\"383\","
                  "\"timestamp\":\"1288834974657(2010-11-04 09:42:54.657)\"}");
}

#define AT "/api/snowflake/at?time="

static void test_the_smallest_id_of_a_time(void **state)
{
    struct fixture *f = *state;

    client_expect(f->client, "GET", AT "1588421624602", 200, "1256557484210913280");
    client_expect(f->client, "GET", AT "2020-05-02T13:13:44.602%2B01:00", 200,
                  "1256557484210913280");
    client_expect(f->client, "GET", AT "2020-05-02T13:13:44.602+01:00&format=json", 200,
                  "{\"id\":\"1256557484210913280\"}");
    client_expect(f->client, "GET", AT "1288834974657", 200, "0");
    client_expect(f->client, "GET", AT "3487858230208", 200, "9223372036850581504");
    client_expect_message(f->client, "GET", AT "1288834974656", NULL, 400, "bad_request",
                          "times are 1288834974657 (2010-11-04T01:42:54.657Z) to 3487858230208 "
                          "(2080-07-10T17:30:30.208Z)");
    client_expect_message(f->client, "GET", AT "3487858230209", NULL, 400, "bad_request",
                          "is outside the layout");
    client_expect_message(f->client, "GET", AT "yesterday", NULL, 400, "bad_request", "RFC 3339");
    client_expect_message(f->client, "GET", "/api/snowflake/at", NULL, 400, "bad_request",
                          "time is missing");
    client_expect_error(f->client, "GET", AT "0&layout=none", NULL, 404, "unknown_layout");
    client_expect_error(f->client, "GET", AT "0&format=range", NULL, 400, "bad_request");
}

/* The same id in three forms; a UUID of somebody else is none of this cluster. */
static void test_decode_of_128_bits(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 3; i++) {
        static const char *const forms[] = {"1256557484213448722",
                                            "0171d54e-831a-79ac-8012-0123456789ab",
                                            "01E7AMX0RTKB009FZZZZZZZZZZ"};
        char target[64];

        snprintf(target, sizeof(target), DECODE "%s", forms[i]);
        client_expect(f->client, "GET", target, 200,
                      "{\"id\":\"1256557484213448722\",\"timestamp_ms\":1588421624602,"
                      "\"time\":\"2020-05-02T12:13:44.602Z\",\"worker_id\":619,\"sequence\":18}");
    }
    client_expect_message(f->client, "GET", DECODE "0000d537-41da-79ac-8012-0123456789ab", NULL,
                          400, "bad_request", "is not of this cluster");
    client_expect_message(f->client, "GET", DECODE "0171d537-41da-4000-8000-000000000000", NULL,
                          400, "bad_request", "is not a whole number");
}

static void test_bad_ids(void **state)
{
    static const char *const ids[] = {"-1",
                                      "+1",
                                      "1.0",
                                      "0x10",
                                      "abc",
                                      "%201",
                                      "1%00",
                                      "9223372036854775808",
                                      "18446744073709551616",
                                      "%zz",
                                      "%"};
    struct fixture *f = *state;
    struct reply reply;
    char target[512] = DECODE;

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        snprintf(target, sizeof(target), DECODE "%s", ids[i]);
        client_expect_error(f->client, "GET", target, NULL, 400, "bad_request");
    }
    client_call(f->client, "GET", DECODE "12x", NULL, &reply);
    assert_non_null(
        strstr(reply.body, "id \\\"12x\\\" is not a whole number from 0 to 9223372036854775807"));
    reply_release(&reply);
    memset(target + strlen(DECODE), '1', 300);
    target[strlen(DECODE) + 300] = '\0';
    client_expect_error(f->client, "GET", target, NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", DECODE "1?x=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", DECODE, NULL, 404, "no_route");
    client_expect_error(f->client, "GET", DECODE "1/2", NULL, 404, "no_route");
    client_expect_error(f->client, "DELETE", DECODE "1", NULL, 405, "method_not_allowed");
}

static void test_no_layout_yet(void **state)
{
    struct fixture *f = *state;

    client_expect_error(f->client, "GET", DECODE "1", NULL, 503, "no_leader");
    client_expect_error(f->client, "GET", DECODE "x", NULL, 400, "bad_request");
    client_expect(f->client, "GET", LEAF "?snowflakeId=0", 200, NULL);
}

static void test_leaf(void **state)
{
    static const struct {
        const char *id;
        const char *body; /* NULL: no number */
    } cases[] = {
        {"1256557484213448722", "{\"workerId\":\"619\",\"sequenceId\":\"18\","
                                "\"timestamp\":\"1588421624602(2020-05-02 20:13:44.602)\"}"},
        {"%2b1", "{\"workerId\":\"0\",\"sequenceId\":\"1\","
                 "\"timestamp\":\"1288834974657(2010-11-04 09:42:54.657)\"}"},
        {"000000000000000000000000000000000000001",
         "{\"workerId\":\"0\",\"sequenceId\":\"1\","
         "\"timestamp\":\"1288834974657(2010-11-04 09:42:54.657)\"}"},
        {"9223372036854775807", "{\"workerId\":\"1023\",\"sequenceId\":\"4095\","
                                "\"timestamp\":\"3487858230208(2080-07-11 01:30:30.208)\"}"},
        {"-1", "{\"workerId\":\"1023\",\"sequenceId\":\"4095\","
               "\"timestamp\":\"1288834974656(2010-11-04 09:42:54.656)\"}"},
        {"-9223372036854775808", "{\"workerId\":\"0\",\"sequenceId\":\"0\","
                                 "\"timestamp\":\"-910188280895(1941-02-27 17:55:19.105)\"}"},
        {"9223372036854775808", NULL},
        {"-9223372036854775809", NULL},
        {"18446744073709551617", NULL},
        {"", NULL},
        {"-", NULL},
        {"%2b", NULL},
        {"+1", NULL}, /* a space and 1 */
        {"1%20", NULL},
        {"1x", NULL},
        {"--1", NULL},
        {"1%2e0", NULL},
    };
    struct fixture *f = *state;
    char target[128];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(target, sizeof(target), LEAF "?snowflakeId=%s", cases[i].id);
        client_expect(f->client, i % 2 == 0 ? "GET" : "POST", target, 200,
                      cases[i].body != NULL ? cases[i].body
                                            : "{\"errorMsg\":\"snowflake Id反解析发生异常!\"}");
    }
    client_expect_error(f->client, "GET", LEAF, NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", LEAF "?id=1", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", LEAF "?snowflakeId=1&snowflakeId=2", NULL, 400,
                        "bad_request");
    client_expect_error(f->client, "GET", LEAF "/1", NULL, 404, "no_route");
}

/* What is handed out is read back. */
static void test_there_and_back(void **state)
{
    struct fixture *f = *state;
    struct reply reply;
    char target[64];

    client_call(f->client, "GET", GET "k", NULL, &reply);
    snprintf(target, sizeof(target), DECODE "%s", reply.body);
    reply_release(&reply);
    client_call(f->client, "GET", target, NULL, &reply);
    assert_string_equal(reply_header(&reply, "Content-Type"), "application/json;charset=UTF-8");
    assert_non_null(strstr(reply.body, ",\"timestamp_ms\":1700000000000,"
                                       "\"time\":\"2023-11-14T22:13:20.000Z\",\"worker_id\":7,"));
    reply_release(&reply);
}

#define TEST_DECODE(name, setup) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest take_tests[] = {
        LEAF_TAKE(test_one_id),
        LEAF_TAKE(test_formats),
        LEAF_TAKE(test_uuids_and_ulids),
        LEAF_TAKE(test_bad_requests_claim_nothing),
        LEAF_TAKE(test_hundred_thousand),
        LEAF_TAKE(test_ids_of_two_workers_rise),
        SMALL_TAKE(test_count_beyond_the_layout),
        SMALL_TAKE(test_all_ids_of_64_milliseconds),
        SMALL_TAKE(test_contiguous),
        LEAF_TAKE(test_clock_backwards),
        LEAF_TAKE(test_parked_request_is_refused),
        LEAF_TAKE(test_clock_skew_and_disabled),
        LEAF_TAKE(test_window_expired),
        LEAF_TAKE(test_epoch_exhausted),
        BARE_TAKE(test_no_worker_id),
        BARE_TAKE(test_waits_for_layout_and_worker_id),
    };
    const struct CMUnitTest wait_tests[] = {
        LEAF_WAIT(test_parked_are_served_in_order),
        SMALL_WAIT(test_nobody_overtakes),
        LEAF_WAIT(test_deadline),
        LEAF_WAIT(test_client_gone_while_parked),
        LEAF_WAIT(test_server_stops_while_parked),
        LEAF_WAIT(test_lapsed_mark_notifies_the_owner),
        cmocka_unit_test(test_loops_share_the_generator),
    };
    const struct CMUnitTest layouts_tests[] = {
        TEST_LAYOUTS(test_made_shown_and_deleted),
        TEST_LAYOUTS(test_a_layout_that_is_known_elsewhere),
        TEST_LAYOUTS(test_refused_before_anything_is_proposed),
        TEST_LAYOUTS(test_ids_whose_worker_is_last),
        TEST_LAYOUTS(test_many_ids_whose_worker_is_last),
        TEST_LAYOUTS(test_worker_ids_that_do_not_fit_and_the_end),
        TEST_LAYOUTS(test_a_layout_waits_for_its_own_clock),
    };
    const struct CMUnitTest decode_tests[] = {
        TEST_DECODE(test_decode_by_the_layout, snowflake_setup),
        TEST_DECODE(test_the_smallest_id_of_a_time, snowflake_setup),
        TEST_DECODE(test_decode_by_another_layout, snowflake_setup_small),
        TEST_DECODE(test_decode_of_128_bits, snowflake_setup),
        TEST_DECODE(test_bad_ids, snowflake_setup),
        TEST_DECODE(test_no_layout_yet, snowflake_setup_bare),
        TEST_DECODE(test_leaf, snowflake_setup),
        TEST_DECODE(test_there_and_back, snowflake_setup),
    };
    int failed = 0;

    failed += cmocka_run_group_tests(take_tests, NULL, NULL);
    failed += cmocka_run_group_tests(wait_tests, NULL, NULL);
    failed += cmocka_run_group_tests(layouts_tests, NULL, NULL);
    /* Eight hours ahead of UTC, without a database of zones. */
    assert_int_equal(setenv("TZ", "TEST-8", 1), 0);
    tzset();
    failed += cmocka_run_group_tests(decode_tests, NULL, NULL);
    return failed;
}
