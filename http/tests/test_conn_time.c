/*
 * test_conn_time.c - the deadlines of a connection begin anew with each request: those of its head
 * and its body to arrive, of its ids, and of idling. What a client that says no more gets. On a
 * clock that the test moves.
 */
#include <stdlib.h>
#include <sys/socket.h>

#include "src/tests/unit/test.h"
#include "http/tests/conn_world.h"
#include "src/base/assert.h"

static int setup(void **state)
{
    struct conn_world *world = malloc(sizeof *world);

    ASSERT(world != NULL);
    conn_world_start(world);
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    conn_world_stop(*state);
    free(*state);
    return 0;
}

#define HEAD "GET /livez HTTP/1.1\r\nHost: a\r\n"
#define BODY                                                                                       \
    "PUT /api/tags/plain HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"                \
    "Content-Length: 2\r\n\r\n{"

/* Each head and each body has all of its time, however much the one before took. */
static void test_each_request_has_its_own_time_to_arrive(void **state)
{
    struct conn_world *world = *state;
    static const struct {
        const char *begin;
        const char *end;
        uint64_t limit_ms;
    } parts[] = {{HEAD, "\r\n", LIMIT_HTTP_HEAD_MS}, {BODY, "}", LIMIT_HTTP_BODY_MS}};

    for (unsigned first = 0; first < 2; first++) {
        for (unsigned second = 0; second < 2; second++) {
            conn_world_reset(world);
            conn_world_connect(world);
            conn_world_send_text(world, parts[first].begin);
            conn_world_pass(world, parts[first].limit_ms - 1);
            conn_world_send_text(world, parts[first].end);
            conn_world_expect_status(world, "200");
            conn_world_send_text(world, parts[second].begin);
            conn_world_pass(world, parts[second].limit_ms - 1);
            assert_int_equal(world->replies.len, 0);
            conn_world_send_text(world, parts[second].end);
            conn_world_expect_status(world, "200");
            conn_world_send_text(world, parts[second].begin);
            conn_world_pass(world, parts[second].limit_ms);
            conn_world_expect_status(world, "408");
            conn_world_disconnect(world);
        }
    }
}

/* An idle connection is closed, but not one that is in use now and then. */
static void test_each_request_begins_the_idle_time_anew(void **state)
{
    struct conn_world *world = *state;

    conn_world_reset(world);
    conn_world_connect(world);
    for (unsigned i = 0; i < 5; i++) {
        conn_world_pass(world, LIMIT_HTTP_IDLE_MS - 1);
        conn_world_send_text(world, HEAD "\r\n");
        conn_world_expect_status(world, "200");
    }
    conn_world_pass(world, LIMIT_HTTP_IDLE_MS - 1);
    assert_false(world->ended);
    conn_world_pass(world, LIMIT_HTTP_IDLE_MS / 16); /* it may be a little late */
    assert_true(world->ended);
    conn_world_disconnect(world);
}

#define WAITS(name, timeout)                                                                       \
    "GET /api/segment/get/" name "?timeout_ms=" timeout " HTTP/1.1\r\nHost: a\r\n\r\n"

static void send_and_expect(struct conn_world *world, const char *text, const char *status)
{
    conn_world_send_text(world, text);
    conn_world_expect_status(world, status);
}

/* Use up the ids of "small" that are in memory; no more come. */
static void drain_small(struct conn_world *world)
{
    struct id_tag *tag = id_table_find(world->fake.backend.table, "small", 5);

    assert_non_null(tag);
    while (segment_left(&tag->buffer) > 0) {
        send_and_expect(world, WAITS("small", "0"), "200");
    }
}

/* A request waits as long as it says, not as long as the one before said. */
static void test_each_request_has_its_own_time_to_wait(void **state)
{
    static const char *const seconds[] = {WAITS("small", "600"), WAITS("small", "9000"),
                                          "GET /api/segment/get/small HTTP/1.1\r\nHost: a\r\n\r\n"};
    static const uint64_t waits_ms[] = {600, 9000, HTTP_DEFAULT_TIMEOUT_MS};
    struct conn_world *world = *state;

    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        conn_world_reset(world);
        conn_world_connect(world);
        send_and_expect(world, WAITS("small", "4000"), "200");
        world->late = true;
        drain_small(world);
        conn_world_send_text(world, WAITS("small", "4000"));
        conn_world_pass(world, 3999);
        assert_int_equal(world->replies.len, 0);
        assert_true(fake_turn(&world->fake));
        conn_world_rest(world);
        conn_world_expect_status(world, "200");
        drain_small(world);
        conn_world_send_text(world, seconds[i]);
        conn_world_pass(world, waits_ms[i] - 1);
        assert_int_equal(world->replies.len, 0);
        conn_world_pass(world, 1);
        conn_world_expect_status(world, "503");
        conn_world_disconnect(world);
    }
}

/* Half a client is no client to a request for ids, but one to a change. */
static void test_ids_are_for_clients_that_are_there(void **state)
{
    struct conn_world *world = *state;
    struct id_tag *tag;

    conn_world_reset(world);
    conn_world_connect(world);
    send_and_expect(world, WAITS("small", "4000"), "200");
    tag = id_table_find(world->fake.backend.table, "small", 5);
    world->late = true;
    drain_small(world);
    conn_world_send_text(world, WAITS("small", "4000"));
    assert_int_equal(atomic_load(&tag->demand), 1);
    assert_int_equal(shutdown(world->fd, SHUT_WR), 0);
    conn_world_rest(world);
    assert_true(world->ended);
    assert_int_equal(world->replies.len, 0);
    assert_int_equal(atomic_load(&tag->demand), 0);
    conn_world_disconnect(world);

    conn_world_connect(world);
    world->late = true;
    conn_world_send_text(world, BODY "}");
    assert_int_equal(shutdown(world->fd, SHUT_WR), 0);
    conn_world_rest(world);
    assert_false(world->ended);
    world->late = false;
    conn_world_rest(world);
    conn_world_expect_status(world, "200");
    assert_true(world->ended);
    conn_world_disconnect(world);
}

/* While its replies are on their way a connection is not idle, and then it has all of the time. */
static void test_idle_time_begins_when_all_is_sent(void **state)
{
    enum { COUNT = 22, READ_BYTES = 256 << 10 };
    struct conn_world *world = *state;
    char *buffer = malloc(READ_BYTES);

    assert_non_null(buffer);
    conn_world_reset(world);
    fake_make_tag(&world->fake, "big", UINT64_C(1000000000000000), 1000, 1000000);
    (void)fake_open(&world->fake, "big", UINT64_C(1000000000000000), 100000 * COUNT);
    conn_world_connect(world);
    world->deaf = true;
    world->late = true; /* what takes long is to read the replies, not to make them */
    for (int i = 0; i < COUNT; i++) {
        conn_world_send_text(world,
                             "GET /api/segment/get/big?count=100000 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for (int ms = 0; ms < LIMIT_HTTP_IDLE_MS; ms += LIMIT_HTTP_WRITE_MS / 2) {
        conn_world_pass(world, LIMIT_HTTP_WRITE_MS / 2);
        for (size_t got = 0; got < READ_BYTES;) {
            ssize_t count = recv(world->fd, buffer, READ_BYTES - got, 0);

            assert_true(count > 0 || got > 0);
            got = count > 0 ? got + (size_t)count : READ_BYTES;
        }
        conn_world_rest(world);
    }
    world->deaf = false;
    world->late = false;
    conn_world_rest(world);
    assert_true(world->replies.len > 100000 * 17);
    conn_world_pass(world, LIMIT_HTTP_IDLE_MS - 1);
    assert_false(world->ended);
    conn_world_pass(world, LIMIT_HTTP_IDLE_MS / 16);
    assert_true(world->ended);
    conn_world_disconnect(world);
    free(buffer);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_each_request_has_its_own_time_to_arrive),
        TEST(test_each_request_begins_the_idle_time_anew),
        TEST(test_each_request_has_its_own_time_to_wait),
        TEST(test_ids_are_for_clients_that_are_there),
        TEST(test_idle_time_begins_when_all_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
