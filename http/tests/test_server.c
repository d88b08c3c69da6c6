/*
 * test_server.c - start, several loops, drain and stop; requests that are out when the server goes.
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "http/server/loop.h"
#include "http/tests/fixture.h"

#define GET "/api/segment/get/"

static struct fixture *start(const struct http_settings *limits)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    fixture_start(f, limits);
    return f;
}

static void stop(struct fixture *f)
{
    fixture_stop(f);
    free(f);
}

static int try_start(const char *address, unsigned loops)
{
    static const struct http_build build = {
        .version = "", .commit = "", .libraries = "{}", .reloads = &fake_reloads};
    struct http_settings settings = {0};
    struct http_server *server;
    struct fake fake;
    struct api *api;
    int rv;

    fake_start(&fake);
    fake_settings(&settings);
    settings.listen_address = address;
    settings.loops = loops;
    api = api_new(&settings, &build, &fake.backend, fake_auth(), NULL, NULL);
    rv = http_server_start(&settings, &api->ids.service, &server);
    if (rv == 0) {
        http_server_stop(server);
    }
    api_free(api);
    fake_stop(&fake);
    return rv;
}

static void test_start_errors(void **state)
{
    static const char *const bad[] = {"",
                                      "127.0.0.1",
                                      ":8080",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:http",
                                      NULL};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(try_start(bad[i], 1), ERR_INVALID);
    }
    /* a documentation address (RFC 5737), and a name, that are not there yet */
    assert_int_equal(try_start("192.0.2.1:0", 1), ERR_NOT_FOUND);
    assert_int_equal(try_start("300.0.0.1:0", 1), ERR_NOT_FOUND);
    assert_int_equal(try_start("127.0.0.1:0", 0), ERR_INVALID);
    assert_int_equal(try_start("127.0.0.1:0", LIMIT_HTTP_LOOPS + 1), ERR_INVALID);
    assert_int_equal(try_start("127.0.0.1:0", 1), 0);
    assert_int_equal(try_start("127.0.0.1:0", 4), 0);
    assert_int_equal(try_start("localhost:0", 1), 0);
}

/* Also where both would share the port, which SO_REUSEPORT allows. */
static void test_port_in_use(void **state)
{
    (void)state;
    for (unsigned loops = 1; loops <= 2; loops++) {
        const struct http_settings limits = {.loops = loops};
        struct fixture *f = start(&limits);
        char address[32];

        snprintf(address, sizeof(address), "127.0.0.1:%u", fixture_port(f->server, ACCEPT_HTTP));
        assert_int_equal(try_start(address, 1), ERR_EXISTS);
        assert_int_equal(try_start(address, 2), ERR_EXISTS);
        client_expect(f->client, "GET", "/livez", 200, NULL);
        stop(f);
        /* Free again at once, whatever the connections' state. */
        assert_int_equal(try_start(address, 3 - loops), 0);
    }
}

/* --- several loops --- */

struct worker {
    struct fixture *f;
    pthread_t thread;
    unsigned rounds;
    uint64_t ids[2000];
};

static void *work(void *data)
{
    struct worker *worker = data;
    struct client *client = fixture_connect(worker->f);
    struct reply reply;

    for (unsigned i = 0; i < worker->rounds; i++) {
        client_call(client, "GET", GET "shared", NULL, &reply);
        worker->ids[i] = reply.status == 200 ? strtoull(reply.body, NULL, 10) : 0;
        reply_release(&reply);
    }
    client_close(client);
    return NULL;
}

/* Clients on all loops, segments so small that requests park all the time: every id once, and
 * rising for each client. */
static void test_loops_share_a_tag(void **state)
{
    enum { WORKERS = 6, ROUNDS = 1000 };
    const struct http_settings limits = {.loops = 2};
    struct fixture *f = start(&limits);
    struct worker *workers = calloc(WORKERS, sizeof *workers);
    char *seen = calloc(1, WORKERS * ROUNDS * 100);

    (void)state;
    assert_non_null(workers);
    assert_non_null(seen);
    fake_make_tag(&f->fake, "shared", 1, 3, 7);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.f = f, .rounds = ROUNDS};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        uint64_t last = 0;

        pthread_join(workers[i].thread, NULL);
        for (unsigned n = 0; n < ROUNDS; n++) {
            assert_true(workers[i].ids[n] > last);
            last = workers[i].ids[n];
            assert_true(last < WORKERS * ROUNDS * 100);
            assert_int_equal(seen[last], 0);
            seen[last] = 1;
        }
    }
    free(seen);
    free(workers);
    stop(f);
}

/* Parked on every loop: one refill wakes them all. */
static void test_wake_reaches_all_loops(void **state)
{
    enum { COUNT = 16 };
    const struct http_settings limits = {.loops = 4};
    struct fixture *f = start(&limits);
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct client *clients[COUNT];
    uint64_t sum = 0;
    struct reply reply;

    (void)state;
    fake_hold(&f->fake, false, true);
    for (int i = 0; i < COUNT; i++) {
        clients[i] = fixture_connect(f);
        client_request(clients[i], "GET", GET "t", NULL);
    }
    fake_await_demand(tag, COUNT);
    fake_publish(&f->fake, tag, 1, COUNT);
    for (int i = 0; i < COUNT; i++) {
        client_read(clients[i], false, &reply);
        assert_int_equal(reply.status, 200);
        sum += strtoull(reply.body, NULL, 10);
        reply_release(&reply);
        client_close(clients[i]);
    }
    assert_int_equal(sum, COUNT * (COUNT + 1) / 2);
    stop(f);
}

/* --- taking turns --- */

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
        assert_int_equal(errno, EINTR);
    }
}

struct stuck {
    struct mailbox_item item;
    sem_t entered;
    sem_t leave;
};

static void stick(struct mailbox_item *item)
{
    struct stuck *stuck = CONTAINER(item, struct stuck, item);

    sem_post(&stuck->entered);
    await(&stuck->leave);
}

/* A loop that does not come back is told from those that do, and from one that is only late. */
static void test_a_stuck_loop_is_noticed(void **state)
{
    const struct http_settings limits = {.loops = 2};
    struct fixture *f = start(&limits);
    struct stuck stuck = {.item = {.run = stick}};

    (void)state;
    sem_init(&stuck.entered, 0, 0);
    sem_init(&stuck.leave, 0, 0);
    assert_true(http_server_takes_turns(f->server));
    while (!http_server_takes_turns(f->server)) {
        continue;
    }
    assert_int_equal(
        mailbox_post(&http_server_loop(f->server, 1)->port->mailbox, &stuck.item, SIZE_MAX), 0);
    await(&stuck.entered);
    (void)http_server_takes_turns(f->server); /* asks it, if the last one was answered */
    for (int i = 0; i < 1000; i++) {
        assert_false(http_server_takes_turns(f->server));
    }
    sem_post(&stuck.leave);
    while (!http_server_takes_turns(f->server)) {
        continue;
    }
    stop(f);
    sem_destroy(&stuck.entered);
    sem_destroy(&stuck.leave);
}

/* --- drain and stop --- */

static void drained_cb(void *data)
{
    sem_post(data);
}

static bool can_connect(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected;

    assert_true(fd >= 0);
    connected = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return connected;
}

static void test_drain(void **state)
{
    const struct http_settings limits = {.loops = 2};
    struct fixture *f = start(&limits);
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct client *parked = fixture_connect(f);
    struct client *asking = fixture_connect(f);
    struct client *half = fixture_connect(f);
    struct reply reply;
    uint16_t port;
    sem_t drained;

    (void)state;
    sem_init(&drained, 0, 0);
    fake_make_tag(&f->fake, "x", 1, 10, 100);
    client_expect(f->client, "GET", "/livez", 200, NULL);
    client_expect(half, "GET", "/livez", 200, NULL);
    fake_hold(&f->fake, true, true);
    client_request(parked, "GET", GET "t?timeout_ms=10000", NULL);
    fake_await_demand(tag, 1);
    client_request(asking, "GET", "/api/tags/x", NULL);
    fake_await_submitted(&f->fake, 1);
    client_printf(half, "GET /livez HTTP/1.1\r\n");
    port = fixture_port(f->server, ACCEPT_HTTP);
    http_server_retire(f->server, 0);
    http_server_drain(f->server, 60000, drained_cb, &drained);
    /* Idle ones are closed at once, and nobody is let in. */
    client_expect_end(f->client);
    while (can_connect(port)) {
        /* The loops close their listeners one after the other. */
    }
    assert_int_not_equal(sem_trywait(&drained), 0);
    /* What is under way is answered. */
    client_printf(half, "Host: a\r\n\r\n");
    client_read(half, false, &reply);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply_header(&reply, "Connection"), "close");
    reply_release(&reply);
    fake_publish(&f->fake, tag, 5, 10);
    client_read(parked, false, &reply);
    assert_string_equal(reply.body, "5");
    assert_string_equal(reply_header(&reply, "Connection"), "close");
    reply_release(&reply);
    fake_hold(&f->fake, false, true);
    client_read(asking, false, &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
    client_expect_end(parked);
    client_expect_end(asking);
    client_expect_end(half);
    await(&drained);
    client_close(parked);
    client_close(asking);
    client_close(half);
    stop(f);
    sem_destroy(&drained);
}

static void test_drain_ends_with_its_grace(void **state)
{
    struct fixture *f = start(NULL);
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    sem_t drained;

    (void)state;
    sem_init(&drained, 0, 0);
    fake_hold(&f->fake, false, true);
    client_request(f->client, "GET", GET "t?timeout_ms=10000", NULL);
    fake_await_demand(tag, 1);
    http_server_retire(f->server, 0);
    http_server_drain(f->server, 50, drained_cb, &drained);
    await(&drained);
    assert_int_equal(atomic_load(&tag->demand), 0);
    client_expect_end(f->client);
    stop(f);
    sem_destroy(&drained);
}

static void test_drain_of_nothing(void **state)
{
    const struct http_settings limits = {.loops = 3};
    struct fixture *f = start(&limits);
    sem_t drained;

    (void)state;
    sem_init(&drained, 0, 0);
    client_close(f->client);
    f->client = NULL;
    http_server_retire(f->server, 0);
    http_server_drain(f->server, 60000, drained_cb, &drained);
    await(&drained);
    stop(f);
    sem_destroy(&drained);
}

/* Stopped with requests parked, with the backend, and half read; the backend answers afterwards. */
static void test_stop_with_requests_out(void **state)
{
    const struct http_settings limits = {.loops = 2};
    struct fixture *f = start(&limits);
    struct id_tag *tag = fake_open(&f->fake, "t", 0, 0);
    struct client *clients[12];

    (void)state;
    fake_hold(&f->fake, true, true);
    for (int i = 0; i < 12; i++) {
        static const char *const targets[] = {GET "t?timeout_ms=10000", "/api/tags/x",
                                              GET "unknown", "/api/node/segments"};

        clients[i] = fixture_connect(f);
        client_request(clients[i], "GET", targets[i % 4], NULL);
    }
    fake_await_submitted(&f->fake, 9);
    fake_await_demand(tag, 3);
    fake_set_waker(&f->fake, NULL);
    http_server_stop(f->server);
    f->server = NULL;
    assert_int_equal(atomic_load(&tag->demand), 0);
    for (int i = 0; i < 12; i++) {
        client_expect_end(clients[i]);
        client_close(clients[i]);
    }
    fake_release(&f->fake);
    stop(f);
}

/* The backend answers while the server stops: whichever comes first. */
static void test_stop_races_with_answers(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        const struct http_settings limits = {.loops = 2};
        struct fixture *f = start(&limits);
        struct client *clients[8];

        fake_make_tag(&f->fake, "t", 1, 1, 2);
        fake_hold(&f->fake, true, false);
        for (int i = 0; i < 8; i++) {
            clients[i] = fixture_connect(f);
            client_request(clients[i], "GET", i % 2 == 0 ? "/api/tags/t" : GET "t?count=5", NULL);
        }
        fake_await_submitted(&f->fake, 8);
        fake_set_waker(&f->fake, NULL);
        fake_release(&f->fake);
        http_server_stop(f->server);
        f->server = NULL;
        for (int i = 0; i < 8; i++) {
            client_close(clients[i]);
        }
        stop(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_errors),
        cmocka_unit_test(test_port_in_use),
        cmocka_unit_test(test_loops_share_a_tag),
        cmocka_unit_test(test_wake_reaches_all_loops),
        cmocka_unit_test(test_a_stuck_loop_is_noticed),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_ends_with_its_grace),
        cmocka_unit_test(test_drain_of_nothing),
        cmocka_unit_test(test_stop_with_requests_out),
        cmocka_unit_test(test_stop_races_with_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
