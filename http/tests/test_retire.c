/*
 * test_retire.c - a node that is about to stop: each reply is its connection's last, idle ones end
 * one by one, and no request that has arrived is lost. On a clock that the test moves.
 *
 * Shows P8-stop. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "http/server/conn.h"
#include "http/tests/conn_world.h"
#include "src/base/assert.h"

#define OVER_MS 900
#define ASK "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"

static int setup(void **state)
{
    struct conn_world *world = malloc(sizeof *world);

    ASSERT(world != NULL);
    conn_world_start(world);
    conn_world_reset(world);
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct conn_world *world = *state;

    if (world->fd >= 0) {
        conn_world_disconnect(world);
    }
    conn_world_stop(world);
    free(world);
    return 0;
}

static void retire(struct conn_world *world)
{
    conns_retire(&world->loop->conns, OVER_MS);
    conn_world_pass(world, 0);
}

static unsigned count(const struct conn_world *world, const char *text)
{
    const uint8_t *at = world->replies.data;
    size_t left = world->replies.len;
    unsigned found = 0;

    while ((at = memmem(at, left, text, strlen(text))) != NULL) {
        at += strlen(text);
        left = world->replies.len - (size_t)(at - world->replies.data);
        found++;
    }
    return found;
}

/* So many replies, of which the last one alone says that it is. */
static void expect_last(const struct conn_world *world, unsigned replies)
{
    assert_int_equal(count(world, "HTTP/1.1 200"), replies);
    assert_int_equal(count(world, "Connection: close\r\n"), 1);
    assert_true(world->ended);
}

static void test_a_reply_is_the_last(void **state)
{
    struct conn_world *world = *state;

    conn_world_connect(world);
    conn_world_send_text(world, ASK);
    assert_int_equal(count(world, "Connection: close"), 0);
    retire(world);
    assert_false(world->ended);
    conn_world_send_text(world, ASK);
    expect_last(world, 2);
}

/* What the client has sent after it is answered, too. */
static void test_a_pipeline_is_answered(void **state)
{
    struct conn_world *world = *state;

    conn_world_connect(world);
    retire(world);
    conn_world_send_text(world, ASK ASK ASK);
    expect_last(world, 3);
}

/* But only as long as there is time: a client that always has more cannot keep its connection. */
static void test_a_pipeline_ends_in_time(void **state)
{
    struct conn_world *world = *state;

    conn_world_connect(world);
    retire(world);
    conn_world_send_text(world, ASK "GET /livez HTTP/1.1\r\n");
    assert_int_equal(count(world, "Connection: close"), 0);
    conn_world_pass(world, OVER_MS);
    conn_world_send_text(world, "Host: a\r\n\r\n" ASK);
    expect_last(world, 2);
}

/* The connection that was idle longest is the first, and between two of them is time. */
static void test_idle_ones_end_one_by_one(void **state)
{
    static const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    struct conn_world *world = *state;
    int fds[3][2];
    char byte;

    for (unsigned i = 0; i < 3; i++) {
        ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds[i]) == 0);
        conns_take(&world->loop->conns, &world->loop->acceptors[ACCEPT_HTTP].listener, fds[i][0],
                   &nobody);
        conn_world_pass(world, 1);
    }
    /* The first of them is used again, and so the last to end. */
    assert_int_equal(send(fds[0][1], ASK, strlen(ASK), MSG_NOSIGNAL), strlen(ASK));
    conn_world_pass(world, 1);
    while (recv(fds[0][1], &byte, 1, 0) == 1) {
        continue;
    }
    conn_world_pass(world, LIMIT_HTTP_RETIRE_MS / 2);
    retire(world);
    for (unsigned i = 1; i <= 3; i++) {
        int ends = fds[i % 3][1];

        conn_world_pass(world, OVER_MS / 3 - 1);
        assert_int_equal(recv(ends, &byte, 1, 0), -1);
        conn_world_pass(world, 1);
        assert_int_equal(recv(ends, &byte, 1, 0), 0);
        /* What crosses its end is not answered, nor the connection reset. */
        assert_int_equal(send(ends, ASK, strlen(ASK), MSG_NOSIGNAL), strlen(ASK));
        conn_world_pass(world, 0);
        assert_int_equal(recv(ends, &byte, 1, 0), 0);
        assert_int_equal(world->loop->conns.counts.conns, 4 - i);
        conn_world_pass(world, 0);
        close(ends);
        conn_world_rest(world);
        assert_int_equal(world->loop->conns.counts.conns, 3 - i);
    }
}

/* Its client may have sent the next request, and not been heard yet. */
static void test_one_used_just_now_is_left_alone(void **state)
{
    static const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    struct conn_world *world = *state;
    int fds[50][2];

    conn_world_connect(world);
    for (unsigned i = 0; i < 50; i++) {
        ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds[i]) == 0);
        conns_take(&world->loop->conns, &world->loop->acceptors[ACCEPT_HTTP].listener, fds[i][0],
                   &nobody);
    }
    conn_world_send_text(world, ASK);
    retire(world);
    conn_world_pass(world, LIMIT_HTTP_RETIRE_MS / 2 - 1);
    assert_int_equal(world->loop->conns.counts.conns, 51);
    assert_false(world->ended);
    conn_world_send_text(world, ASK);
    expect_last(world, 2);
    for (unsigned i = 0; i < 50; i++) {
        close(fds[i][1]);
    }
    conn_world_rest(world);
}

/* A client that does not look is not waited for. */
static void test_a_client_that_stays_is_left(void **state)
{
    struct conn_world *world = *state;

    conn_world_connect(world);
    retire(world);
    conn_world_pass(world, OVER_MS);
    assert_true(world->ended);
    conn_world_pass(world, LIMIT_HTTP_GOODBYE_MS - 1);
    assert_int_equal(world->loop->conns.counts.conns, 1);
    conn_world_pass(world, 1);
    assert_int_equal(world->loop->conns.counts.conns, 0);
}

/* It came in the turn in which the connection was to end. */
static void test_what_has_arrived_is_answered(void **state)
{
    struct conn_world *world = *state;

    conn_world_connect(world);
    retire(world);
    assert_int_equal(send(world->fd, ASK, strlen(ASK), MSG_NOSIGNAL), strlen(ASK));
    conn_world_pass(world, OVER_MS);
    expect_last(world, 1);
}

/* Part of a request is no idle connection, and has its own deadline. */
static void test_half_a_request_is_waited_for(void **state)
{
    struct conn_world *world = *state;

    conn_world_connect(world);
    conn_world_send_text(world, "GET /livez HTTP/1.1\r\n");
    retire(world);
    conn_world_pass(world, OVER_MS);
    conn_world_pass(world, LIMIT_HTTP_HEAD_MS - OVER_MS - 1);
    assert_false(world->ended);
    conn_world_send_text(world, "Host: a\r\n\r\n");
    expect_last(world, 1);
}

static void test_a_request_that_waits_is_answered(void **state)
{
    struct conn_world *world = *state;

    conn_world_connect(world);
    world->late = true;
    conn_world_send_text(world, "GET /api/tags/plain HTTP/1.1\r\nHost: a\r\n\r\n");
    retire(world);
    conn_world_pass(world, OVER_MS);
    conns_drain(&world->loop->conns);
    assert_int_equal(world->replies.len, 0);
    world->late = false;
    conn_world_rest(world);
    expect_last(world, 1);
    world->loop->conns.draining = false;
}

/* Who comes now is served once, and has a moment to ask, however late it is. */
static void test_new_ones_are_served(void **state)
{
    struct conn_world *world = *state;

    retire(world);
    conn_world_pass(world, OVER_MS - 1);
    conn_world_connect(world);
    conn_world_pass(world, LIMIT_HTTP_RETIRE_MS - 1);
    assert_false(world->ended);
    conn_world_send_text(world, ASK);
    expect_last(world, 1);
    conn_world_disconnect(world);
    world->replies.len = 0;
    conn_world_connect(world);
    conn_world_pass(world, LIMIT_HTTP_RETIRE_MS - 1);
    assert_false(world->ended);
    conn_world_pass(world, 1);
    assert_true(world->ended);
    assert_int_equal(world->replies.len, 0);
}

static void test_keep_alive_of_http_1_0_ends(void **state)
{
    struct conn_world *world = *state;

    conn_world_connect(world);
    retire(world);
    conn_world_send_text(world, "GET /livez HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    assert_int_equal(count(world, "keep-alive"), 0);
    assert_true(world->ended);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_reply_is_the_last),
        TEST(test_a_pipeline_is_answered),
        TEST(test_a_pipeline_ends_in_time),
        TEST(test_idle_ones_end_one_by_one),
        TEST(test_a_client_that_stays_is_left),
        TEST(test_what_has_arrived_is_answered),
        TEST(test_half_a_request_is_waited_for),
        TEST(test_a_request_that_waits_is_answered),
        TEST(test_one_used_just_now_is_left_alone),
        TEST(test_new_ones_are_served),
        TEST(test_keep_alive_of_http_1_0_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
