/*
 * test_meter.c - clients, their quotas, and what a connection may take.
 *
 * Records of clients: who is one, quotas at the bound and one beyond, the bound of the table, and
 * many threads.
 *
 * Room for bodies and replies: each bound, and one byte beyond.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/server/meter.h"
#include "src/tests/unit/collide.h"

/* --- client --- */

static const struct client_quotas none = {0};

static struct http_client *of(struct clients *clients, const char *address)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1) {
        return clients_of_address(clients, (struct sockaddr *)&v4);
    }
    assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return clients_of_address(clients, (struct sockaddr *)&v6);
}

static uint64_t id_of(const char *v4_address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};

    assert_int_equal(inet_pton(AF_INET, v4_address, &v4.sin_addr), 1);
    return client_id_of_address((struct sockaddr *)&v4);
}

static struct http_client *named(struct clients *clients, const char *name,
                                 const struct client_quotas *quotas)
{
    return clients_of_name(clients, name, strlen(name), quotas);
}

static void expect(struct clients *clients, const char *address, const char *name, bool is_local)
{
    struct http_client *client = of(clients, address);

    assert_string_equal(client->name, name);
    assert_int_equal(client->is_local, is_local);
    assert_false(client->is_named);
    clients_release(clients, client);
}

static void test_who_is_a_client(void **state)
{
    static const struct sockaddr unix_socket = {.sa_family = AF_UNIX};
    struct clients *clients = clients_new(&none, 100);
    struct http_client *token = named(clients, "10.0.0.1", &none);
    struct http_client *address = of(clients, "10.0.0.1");
    struct http_client *local = clients_of_address(clients, &unix_socket);

    (void)state;
    expect(clients, "10.0.0.1", "10.0.0.1", false);
    expect(clients, "127.0.0.1", "127.0.0.1", true);
    expect(clients, "127.255.0.9", "127.255.0.9", true);
    expect(clients, "128.0.0.1", "128.0.0.1", false);
    expect(clients, "::ffff:10.0.0.1", "10.0.0.1", false);
    expect(clients, "::ffff:127.0.0.1", "127.0.0.1", true);
    expect(clients, "::1", "::1", true);
    expect(clients, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", false);
    assert_ptr_not_equal(token, address);
    assert_true(token->is_named);
    assert_int_not_equal(token->id, address->id);
    assert_string_equal(local->name, "local");
    assert_true(local->is_local);
    clients_release(clients, token);
    clients_release(clients, address);
    clients_release(clients, local);
    clients_free(clients);
}

static void test_one_record_for_each(void **state)
{
    struct clients *clients = clients_new(&none, 100);
    struct http_client *a = of(clients, "2001:db8:1:2::1");
    struct http_client *b = of(clients, "2001:db8:1:2:ffff::");
    struct http_client *c = of(clients, "2001:db8:1:3::1");

    (void)state;
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    assert_int_equal(clients_count(clients), 2);
    clients_release(clients, a);
    clients_release(clients, c);
    /* It is kept, with what it owes, while nobody refers to it. */
    clients_release(clients, b);
    assert_ptr_equal(of(clients, "2001:db8:1:2::1"), a);
    clients_release(clients, a);
    clients_free(clients);
}

static void test_names_are_cut(void **state)
{
    struct clients *clients = clients_new(&none, 100);
    char name[LIMIT_CLIENT_NAME_BYTES + 2];
    struct http_client *bound;
    struct http_client *beyond;

    (void)state;
    memset(name, 'n', sizeof name);
    bound = clients_of_name(clients, name, LIMIT_CLIENT_NAME_BYTES, &none);
    beyond = clients_of_name(clients, name, LIMIT_CLIENT_NAME_BYTES + 1, &none);
    assert_int_equal(strlen(bound->name), LIMIT_CLIENT_NAME_BYTES);
    assert_ptr_equal(bound, beyond);
    clients_release(clients, bound);
    clients_release(clients, beyond);
    clients_free(clients);
}

static void test_the_table_is_bounded(void **state)
{
    enum { MAX = 3 };
    struct clients *clients = clients_new(&none, MAX);
    struct http_client *held[MAX];
    struct http_client *others;
    char name[32];

    (void)state;
    for (int i = 0; i < MAX; i++) {
        (void)snprintf(name, sizeof name, "10.0.0.%d", i);
        held[i] = of(clients, name);
    }
    /* One beyond shares a record, and so does the next. */
    others = of(clients, "10.0.0.9");
    assert_string_equal(others->name, "others");
    assert_ptr_equal(of(clients, "10.0.0.10"), others);
    /* What one of them owns is not the other's. */
    assert_int_not_equal(id_of("10.0.0.9"), id_of("10.0.0.10"));
    assert_int_not_equal(id_of("10.0.0.9"), others->id);
    assert_int_equal(id_of("10.0.0.0"), held[0]->id);
    assert_int_not_equal(client_id_of_certificate("10.0.0.0"), held[0]->id);
    assert_int_equal(clients_count(clients), MAX);
    clients_release(clients, others);
    clients_release(clients, others);
    /* The one that was idle for longest goes, and no other. */
    clients_release(clients, held[1]);
    clients_release(clients, held[0]);
    held[1] = of(clients, "10.0.0.11");
    assert_string_equal(held[1]->name, "10.0.0.11");
    assert_ptr_equal(of(clients, "10.0.0.0"), held[0]);
    assert_ptr_equal(of(clients, "10.0.0.1"), others);
    assert_int_equal(clients_count(clients), MAX);
    clients_release(clients, others);
    for (int i = 0; i < MAX; i++) {
        clients_release(clients, held[i]);
    }
    clients_free(clients);
}

/* --- quotas --- */

static void test_no_quota(void **state)
{
    struct clients *clients = clients_new(&none, 1);
    struct http_client *client = of(clients, "10.0.0.1");

    (void)state;
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(client_charge(&client->requests, 1, 1), 0);
        assert_int_equal(client_charge(&client->ids, LIMIT_COUNT, 1), 0);
    }
    clients_release(clients, client);
    clients_free(clients);
}

static void test_a_second_at_once_and_no_more(void **state)
{
    const struct client_quotas quotas = {.requests_per_s = 10, .ids_per_s = 1000};
    struct clients *clients = clients_new(&quotas, 1);
    struct http_client *client = of(clients, "10.0.0.1");
    uint64_t now_ms = 5000;

    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(client_charge(&client->requests, 1, now_ms), 0);
    }
    assert_int_equal(client_charge(&client->requests, 1, now_ms), 1);
    now_ms += 1; /* some of it is free again; what is more is owed */
    assert_int_equal(client_charge(&client->requests, 1, now_ms), 0);
    assert_int_equal(client_charge(&client->requests, 1, now_ms), 1);
    now_ms += 99;
    /* Over a long time exactly so many: 10 a second. */
    for (int i = 0; i < 1000; i++) {
        now_ms += 100;
        assert_int_equal(client_charge(&client->requests, 1, now_ms), 0);
        assert_int_equal(client_charge(&client->requests, 1, now_ms), 1);
    }
    /* Ids beyond what is left are owed, and paid for before the next one. */
    assert_int_equal(client_charge(&client->ids, 999, now_ms), 0);
    assert_int_equal(client_charge(&client->ids, 100000, now_ms), 0);
    assert_int_equal(client_charge(&client->ids, 1, now_ms), 100);
    assert_int_equal(client_charge(&client->ids, 1, now_ms + 99998), 1);
    assert_int_equal(client_charge(&client->ids, 1, now_ms + 100000), 0);
    clients_release(clients, client);
    clients_free(clients);
}

/* A reload with another quota ends what is owed under the old one; the same quota does not. */
static void test_another_quota_owes_nothing(void **state)
{
    const struct client_quotas small = {.requests_per_s = 1, .ids_per_s = 1};
    const struct client_quotas large = {.requests_per_s = 1, .ids_per_s = 1000000};
    struct clients *clients = clients_new(&none, 2);
    struct http_client *client = clients_of_name(clients, "shop", 4, &small);
    uint64_t now_ms = 5000;

    (void)state;
    assert_int_equal(client_charge(&client->ids, LIMIT_COUNT, now_ms), 0);
    assert_int_equal(client_charge(&client->requests, 1, now_ms), 0);
    clients_release(clients, client);
    client = clients_of_name(clients, "shop", 4, &small);
    assert_int_equal(client_charge(&client->ids, 1, now_ms), LIMIT_COUNT);
    clients_release(clients, client);
    client = clients_of_name(clients, "shop", 4, &large);
    assert_int_equal(client_charge(&client->ids, LIMIT_COUNT, now_ms), 0);
    assert_int_equal(client_charge(&client->requests, 1, now_ms), 1); /* that one is the same */
    clients_release(clients, client);
    clients_free(clients);
}

static void test_the_largest_quota_and_time(void **state)
{
    const struct client_quotas quotas = {.ids_per_s = UINT32_MAX, .requests_per_s = 1};
    struct clients *clients = clients_new(&quotas, 1);
    struct http_client *client = of(clients, "10.0.0.1");
    const uint64_t now_ms = UINT64_C(1) << 43; /* 278 years */
    uint64_t ids = 0;

    (void)state;
    while (client_charge(&client->ids, LIMIT_COUNT, now_ms) == 0) {
        ids += LIMIT_COUNT;
    }
    assert_in_range(ids, UINT32_MAX, UINT64_C(2) * UINT32_MAX);
    assert_int_equal(client_charge(&client->requests, LIMIT_COUNT, now_ms), 0);
    assert_int_equal(client_charge(&client->requests, 1, now_ms), LIMIT_COUNT);
    clients_release(clients, client);
    clients_free(clients);
}

static void test_quotas_of_a_name_can_change(void **state)
{
    const struct client_quotas addresses = {.requests_per_s = 7};
    const struct client_quotas more = {.requests_per_s = 20, .connections = 3, .bodies = 4};
    struct clients *clients = clients_new(&addresses, 10);
    struct http_client *client = named(clients, "billing", &none);

    (void)state;
    assert_int_equal(client->requests.per_s, 0);
    assert_ptr_equal(named(clients, "billing", &more), client);
    assert_int_equal(client->requests.per_s, 20);
    assert_int_equal(client->connections_max, 3);
    assert_int_equal(client->bodies_max, 4);
    clients_release(clients, client);
    clients_release(clients, client);
    client = of(clients, "10.0.0.1");
    assert_int_equal(client->requests.per_s, 7);
    clients_release(clients, client);
    clients_free(clients);
}

/* --- threads --- */

enum { THREADS = 4, ROUNDS = 20000, RATE = 5000 };

struct thread {
    pthread_t id;
    struct clients *clients;
    unsigned number;
    uint64_t admitted;
};

static void *work(void *data)
{
    struct thread *thread = data;
    char name[32];

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct http_client *shared = of(thread->clients, "10.9.9.9");
        struct http_client *own;

        (void)snprintf(name, sizeof name, "10.1.%u.%u", thread->number, i % 100);
        own = of(thread->clients, name);
        thread->admitted += client_charge(&shared->requests, 1, 1000) == 0;
        clients_release(thread->clients, own);
        clients_release(thread->clients, shared);
    }
    return NULL;
}

/* Threads come and go, also by eviction; together they get what one client may have. */
static void test_threads_share_a_quota(void **state)
{
    const struct client_quotas quotas = {.requests_per_s = RATE};
    struct clients *clients = clients_new(&quotas, 50);
    struct thread threads[THREADS] = {0};
    struct http_client *held = of(clients, "10.9.9.9"); /* else it may be evicted in between */
    uint64_t admitted = 0;

    (void)state;
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i].clients = clients;
        threads[i].number = i;
        assert_int_equal(pthread_create(&threads[i].id, NULL, work, &threads[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i].id, NULL), 0);
        admitted += threads[i].admitted;
    }
    assert_int_equal(admitted, RATE);
    assert_int_equal(clients_count(clients), 50);
    clients_release(clients, held);
    clients_free(clients);
}

/* Of each client a line a minute, of all of them so many a second. */
static void test_clients_over_their_quotas_are_told_of_now_and_then(void **state)
{
    struct clients *clients = clients_new(&none, 100);
    struct client_lines lines = {0};
    struct http_client *held[LIMIT_QUOTA_LINES_PER_S + 2];
    uint64_t more = 99;
    char name[32];

    (void)state;
    for (int i = 0; i < LIMIT_QUOTA_LINES_PER_S + 2; i++) {
        (void)snprintf(name, sizeof name, "10.0.0.%d", i);
        held[i] = of(clients, name);
    }
    for (int i = 0; i < LIMIT_QUOTA_LINES_PER_S; i++) {
        assert_true(client_may_log(held[i], &lines, 5000, &more));
        assert_int_equal(more, 0);
        assert_false(client_may_log(held[i], &lines, 5000, &more));
    }
    for (int i = 0; i < 2; i++) { /* beyond */
        assert_false(client_may_log(held[LIMIT_QUOTA_LINES_PER_S + i], &lines, 5999, &more));
    }
    assert_true(client_may_log(held[LIMIT_QUOTA_LINES_PER_S], &lines, 6000, &more));
    assert_int_equal(more, 2);
    assert_false(client_may_log(held[0], &lines, 5000 + CLIENT_LOG_MS - 1, &more));
    assert_true(client_may_log(held[0], &lines, 5000 + CLIENT_LOG_MS, &more));
    assert_int_equal(more, 0);
    for (int i = 0; i < LIMIT_QUOTA_LINES_PER_S + 2; i++) {
        clients_release(clients, held[i]);
    }
    clients_free(clients);
}

static void find_clients(collide_name *names, size_t count, void *data)
{
    for (size_t i = 0; i < count; i++) {
        clients_release(data, named(data, names[i], &none));
    }
}

/* Names, or addresses, that somebody chose to be in one place cost no more than others. */
/* Shows attack-hash. */
static void test_names_that_are_to_collide(void **state)
{
    enum { COUNT = 2048, KIND_NAME = 2 };
    struct clients *clients = clients_new(&none, LIMIT_CLIENTS);
    collide_name *names = calloc(2 * COUNT, sizeof *names);
    uint64_t chosen_ns;
    uint64_t others_ns;

    (void)state;
    assert_non_null(names);
    collide_make(KIND_NAME, 2 * COUNT - 1, COUNT, names);
    collide_make_others(COUNT, names + COUNT);
    find_clients(names, 2 * COUNT, clients);
    chosen_ns = collide_cost_ns(find_clients, names, COUNT, clients);
    others_ns = collide_cost_ns(find_clients, names + COUNT, COUNT, clients);
    print_message("%u clients that are to collide: %" PRIu64 " us, others: %" PRIu64 " us\n", COUNT,
                  chosen_ns / 1000, others_ns / 1000);
    assert_true(chosen_ns < 4 * others_ns);
    clients_free(clients);
    free(names);
}

/* --- meter --- */

#define MIB (UINT64_C(1) << 20)
#define SMALL ((uint64_t)LIMIT_HTTP_SMALL_BODY_BYTES)
#define LARGE ((uint64_t)LIMIT_HTTP_BODY_BYTES)

static const struct http_settings settings = {.loops = 1,
                                              .bodies_bytes = 64 * MIB,
                                              .client_bodies_bytes = 16 * MIB,
                                              .output_bytes = 64 * MIB};

static void test_parts_of_loops(void **state)
{
    struct http_settings of_node = settings;
    struct conn_meter meter;

    (void)state;
    meter_init(&meter, &of_node);
    assert_int_equal(meter.bodies_max, 64 * MIB);
    assert_int_equal(meter.large_max, 48 * MIB);
    assert_int_equal(meter.client_max, 16 * MIB);
    assert_int_equal(meter.output_max, 64 * MIB);
    of_node.loops = 4;
    meter_init(&meter, &of_node);
    assert_int_equal(meter.bodies_max, 16 * MIB);
    assert_int_equal(meter.client_max, 16 * MIB); /* of all loops */
    assert_int_equal(meter.output_max, 16 * MIB);
    /* Whatever is set, one bulk body and some replies fit. */
    of_node = (struct http_settings){.loops = LIMIT_HTTP_LOOPS};
    meter_init(&meter, &of_node);
    assert_true(meter.large_max >= LARGE);
    assert_int_equal(meter.client_max, LARGE);
    assert_int_equal(meter.output_max, LIMIT_HTTP_OUTPUT_MIN_BYTES);
}

/* So much is kept of its request. True: it is too much. */
static bool keeps(struct conn_meter *meter, struct metered *metered, uint32_t kept, bool waits)
{
    const struct wire wire = {.size = kept};

    return meter_input(meter, metered, &wire, waits);
}

/* What is kept of requests: the bound, and one byte beyond. */
static void test_input(void **state)
{
    struct http_settings of_node = settings;
    struct conn_meter meter;
    struct metered one = {0};
    struct metered other = {0};
    struct http_client client = {0};

    (void)state;
    of_node.input_bytes = 32 * MIB;
    of_node.loops = 4;
    meter_init(&meter, &of_node);
    assert_int_equal(meter.input_max, 8 * MIB);
    of_node.loops = LIMIT_HTTP_LOOPS;
    meter_init(&meter, &of_node);
    assert_int_equal(meter.input_max, LIMIT_HTTP_INPUT_MIN_BYTES);
    assert_false(keeps(&meter, &one, LIMIT_HTTP_INPUT_MIN_BYTES - 512, false));
    assert_false(keeps(&meter, &other, 512, false));
    assert_ptr_equal(TAILQ_FIRST(&meter.inputs), &one);
    meter_input_step(&meter, &one);
    assert_ptr_equal(TAILQ_FIRST(&meter.inputs), &other);
    (void)meter_body(&meter, &other, &client, LIMIT_HTTP_BODY_STEP_BYTES, 0); /* a step, too */
    assert_ptr_equal(TAILQ_FIRST(&meter.inputs), &one);
    meter_body_free(&meter, &other, &client);
    assert_true(keeps(&meter, &other, 513, false));
    assert_false(keeps(&meter, &other, 513, false)); /* one that does not grow is spared */
    assert_true(meter_input_is_over(&meter));
    assert_false(keeps(&meter, &one, 0, false));
    assert_false(meter_input_is_over(&meter));
    assert_int_equal(meter.input_bytes, 513);
    meter_end(&meter, &other);
    assert_int_equal(meter.input_bytes, 0);
    /* One that waits has as much, beyond a step of its own. */
    assert_false(keeps(&meter, &one, WIRE_STEP_BYTES + LIMIT_HTTP_INPUT_MIN_BYTES, true));
    assert_int_equal(meter.waiting_bytes, LIMIT_HTTP_INPUT_MIN_BYTES);
    assert_true(keeps(&meter, &one, WIRE_STEP_BYTES + LIMIT_HTTP_INPUT_MIN_BYTES + 1, true));
    assert_int_equal(meter.input_bytes, 0);
    meter_end(&meter, &one);
    assert_true(meter_is_clear(&meter));
}

/* A body of its own that grows to so many bytes. */
static enum meter_body grow(struct conn_meter *meter, struct metered *body,
                            struct http_client *client, uint64_t to)
{
    return meter_body(meter, body, client, to - body->body_bytes, 0);
}

/* A client's large bodies have a share, on all loops together; the small ones do not count. */
static void test_the_share_of_a_client(void **state)
{
    struct http_client client = {0};
    struct http_client other = {0};
    struct conn_meter loops[2];
    struct metered large[2] = {0};
    struct metered small = {0};
    struct metered others = {0};

    (void)state;
    meter_init(&loops[0], &settings);
    meter_init(&loops[1], &settings);
    assert_int_equal(grow(&loops[0], &large[0], &client, LARGE), METER_BODY_OK);
    assert_int_equal(grow(&loops[1], &large[1], &client, LARGE), METER_BODY_OK);
    assert_int_equal(grow(&loops[0], &small, &client, SMALL + 1), METER_BODY_SHARE);
    assert_int_equal(grow(&loops[0], &small, &client, SMALL), METER_BODY_OK);
    assert_int_equal(grow(&loops[0], &small, &client, SMALL + 1), METER_BODY_SHARE);
    assert_int_equal(grow(&loops[0], &others, &other, LARGE), METER_BODY_OK);
    /* Nothing was taken by what was refused. */
    assert_int_equal(loops[0].body_bytes, 2 * LARGE + SMALL);
    assert_int_equal(client.body_bytes, 2 * LARGE);
    assert_int_equal(client.bodies, 3);
    meter_body_free(&loops[1], &large[1], &client);
    assert_int_equal(grow(&loops[0], &small, &client, SMALL + 1), METER_BODY_OK);
    assert_int_equal(client.body_bytes, LARGE + SMALL + 1);
    meter_body_free(&loops[0], &small, &client);
    meter_body_free(&loops[0], &large[0], &client);
    meter_body_free(&loops[0], &others, &other);
    assert_int_equal(client.body_bytes, 0);
    assert_int_equal(client.bodies, 0);
    assert_int_equal(other.body_bytes, 0);
    assert_int_equal(loops[0].large_bytes, 0);
    assert_true(meter_is_clear(&loops[0]) && meter_is_clear(&loops[1]));
}

/* Large bodies leave a quarter to small ones. */
static void test_large_bodies_leave_room(void **state)
{
    enum { SMALL_COUNT = 16 * MIB / SMALL };
    struct http_client *clients = calloc(6, sizeof *clients);
    struct metered *bodies = calloc(6 + SMALL_COUNT + 2, sizeof *bodies);
    struct metered *body = bodies;
    struct http_client quiet = {0};
    struct conn_meter meter;

    (void)state;
    assert_non_null(clients);
    assert_non_null(bodies);
    meter_init(&meter, &settings);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(grow(&meter, body++, &clients[i], LARGE), METER_BODY_OK);
    }
    assert_int_equal(grow(&meter, body++, &quiet, SMALL + 1), METER_BODY_LARGE);
    for (uint64_t i = 0; i < SMALL_COUNT; i++) {
        assert_int_equal(grow(&meter, body++, &quiet, SMALL), METER_BODY_OK);
    }
    assert_int_equal(meter.body_bytes, 64 * MIB);
    assert_int_equal(grow(&meter, body++, &quiet, 1), METER_BODY_ALL);
    assert_int_equal(quiet.body_bytes, 0);
    free(bodies);
    free(clients);
}

/* The quota of open bodies, and which one is the first that came slowly. */
static void test_bodies_of_a_client(void **state)
{
    struct http_client client = {.bodies_max = 2};
    struct conn_meter meter;
    struct metered bodies[3] = {0};

    (void)state;
    meter_init(&meter, &settings);
    assert_int_equal(meter_body(&meter, &bodies[0], &client, 1, 1000), METER_BODY_OK);
    assert_int_equal(meter_body(&meter, &bodies[1], &client, 1, 1001), METER_BODY_OK);
    assert_int_equal(meter_body(&meter, &bodies[2], &client, 1, 1002), METER_BODY_QUOTA);
    assert_null(meter_slow_body(&meter, NULL, 1000 + LIMIT_HTTP_BODY_SLOW_MS - 1));
    assert_ptr_equal(meter_slow_body(&meter, NULL, 1000 + LIMIT_HTTP_BODY_SLOW_MS), &bodies[0]);
    assert_null(meter_slow_body(&meter, &bodies[0], 1000 + LIMIT_HTTP_BODY_SLOW_MS));
    /* It gets on by a step, but not by a byte less. */
    assert_int_equal(meter_body(&meter, &bodies[0], &client, LIMIT_HTTP_BODY_STEP_BYTES - 2, 1003),
                     METER_BODY_OK);
    assert_ptr_equal(meter_slow_body(&meter, NULL, 1000 + LIMIT_HTTP_BODY_SLOW_MS), &bodies[0]);
    assert_int_equal(meter_body(&meter, &bodies[0], &client, 1, 1003), METER_BODY_OK);
    assert_ptr_equal(meter_slow_body(&meter, NULL, 1001 + LIMIT_HTTP_BODY_SLOW_MS), &bodies[1]);
    meter_body_free(&meter, &bodies[0], &client);
    assert_int_equal(meter_body(&meter, &bodies[2], &client, 1, 1004), METER_BODY_OK);
    meter_body_free(&meter, &bodies[1], &client);
    meter_body_free(&meter, &bodies[2], &client);
    meter_body_free(&meter, &bodies[2], &client);
    assert_int_equal(client.bodies, 0);
    assert_true(meter_is_clear(&meter));
}

/* So many bytes are held for its replies. */
static void holds(struct conn_meter *meter, struct metered *metered, size_t held)
{
    const struct wire wire = {.out.capacity = held / 2, .sending.capacity = held - held / 2};

    meter_output(meter, metered, &wire);
}

/* Is there room for the reply of a client that has not taken so many bytes? */
static bool has_room(const struct conn_meter *meter, size_t unsent, size_t sending)
{
    const struct wire wire = {.out.len = unsent, .sending.len = sending};

    return meter_has_room(meter, &wire);
}

static void test_output(void **state)
{
    struct metered one = {0};
    struct metered other = {0};
    struct conn_meter meter;

    (void)state;
    meter_init(&meter, &settings);
    holds(&meter, &one, 48 * MIB - 1);
    assert_false(meter_output_is_short(&meter));
    holds(&meter, &other, 1);
    assert_true(meter_output_is_short(&meter));
    holds(&meter, &other, 16 * MIB);
    assert_true(!meter_output_is_full(&meter) &&
                has_room(&meter, LIMIT_HTTP_SMALL_REPLY_BYTES + 1, 0));
    holds(&meter, &one, 48 * MIB);
    assert_true(meter_output_is_full(&meter) &&
                !has_room(&meter, LIMIT_HTTP_SMALL_REPLY_BYTES + 1, 0));
    holds(&meter, &one, 80 * MIB - 1);
    assert_true(has_room(&meter, LIMIT_HTTP_SMALL_REPLY_BYTES, 0));
    assert_false(has_room(&meter, LIMIT_HTTP_SMALL_REPLY_BYTES + 1, 0));
    assert_false(has_room(&meter, 0, 1));
    holds(&meter, &one, 80 * MIB);
    assert_false(has_room(&meter, LIMIT_HTTP_SMALL_REPLY_BYTES, 0));
    meter_end(&meter, &one);
    meter_end(&meter, &other);
    assert_true(meter_is_clear(&meter));
}

static void test_turns(void **state)
{
    struct metered one = {0};
    struct metered other = {0};
    struct conn_meter meter;

    (void)state;
    meter_init(&meter, &settings);
    meter_put_off(&one, &meter.later);
    meter_put_off(&other, &meter.later);
    meter_put_off(&one, &meter.no_room); /* it is put off already */
    assert_ptr_equal(TAILQ_FIRST(&meter.later), &one);
    assert_true(TAILQ_EMPTY(&meter.no_room));
    meter_put_on(&one);
    meter_put_off(&one, &meter.later);
    assert_ptr_equal(TAILQ_FIRST(&meter.later), &other);
    meter_end(&meter, &other);
    meter_end(&meter, &one);
    assert_true(meter_is_clear(&meter));
}

/* --- what a client takes of its replies --- */

#include "src/base/limits.h"

#define MIN_PER_S 1024

static const struct http_settings rule = {.write_ms = 10000, .min_rate_bytes = MIN_PER_S};

/* A client that takes so much a second, for so long; what is said in the end. */
static enum rate_verdict read_at(uint64_t per_s, unsigned seconds, uint64_t held, bool is_short)
{
    enum rate_verdict verdict = RATE_OK;
    struct rate rate;
    uint64_t taken = 5;
    uint64_t now_ms = 7;

    rate_begin(&rate, taken, now_ms);
    for (unsigned i = 0; i < seconds && verdict == RATE_OK; i++) {
        now_ms += 1000;
        taken += per_s;
        verdict = rate_check(&rate, &rule, taken, now_ms, true, held, is_short);
    }
    return verdict;
}

static void test_who_takes_nothing_has_gone(void **state)
{
    struct rate rate;

    (void)state;
    assert_int_equal(read_at(0, 9, 1, false), RATE_OK);
    assert_int_equal(read_at(0, 10, 1, false), RATE_STALLED);
    /* The time begins with the last byte. */
    rate_begin(&rate, 0, 0);
    assert_int_equal(rate_check(&rate, &rule, 0, 9999, true, 1, false), RATE_OK);
    assert_int_equal(rate_check(&rate, &rule, 1 << 20, 9999, true, 1, false), RATE_OK);
    assert_int_equal(rate_check(&rate, &rule, 1 << 20, 19998, true, 1, false), RATE_OK);
    assert_int_equal(rate_check(&rate, &rule, 1 << 20, 19999, true, 1, false), RATE_STALLED);
}

static void test_slow_links_are_no_offence(void **state)
{
    (void)state;
    assert_int_equal(read_at(MIN_PER_S, 1000, 1 << 20, false), RATE_OK);
    assert_int_equal(read_at(MIN_PER_S - 1, 9, 1 << 20, false), RATE_OK);
    assert_int_equal(read_at(MIN_PER_S - 1, 10, 1 << 20, false), RATE_SLOW);
}

static void test_while_output_is_short(void **state)
{
    const uint64_t wanted = (uint64_t)MIN_PER_S * LIMIT_HTTP_SHORT_RATE;
    struct rate rate;

    (void)state;
    assert_int_equal(read_at(wanted, 1000, 1 << 20, true), RATE_OK);
    assert_int_equal(read_at(wanted - 1, 1, LIMIT_HTTP_HELD_BYTES, true), RATE_SLOW_WHILE_SHORT);
    rate_begin(&rate, 0, 0); /* sooner it cannot be said */
    assert_int_equal(rate_check(&rate, &rule, 0, 999, true, 1 << 20, true), RATE_OK);
    /* Who holds little may be slow all the same. */
    assert_int_equal(read_at(MIN_PER_S, 1000, LIMIT_HTTP_HELD_BYTES - 1, true), RATE_OK);
    assert_int_equal(read_at(190 << 10, 1, 1 << 20, true), RATE_SLOW_WHILE_SHORT);
    assert_int_equal(read_at(190 << 10, 1000, 1 << 20, false), RATE_OK);
}

/* When it is we who are slow, the client is not to blame, also not for the time before. */
static void test_nothing_to_take(void **state)
{
    struct rate rate;

    (void)state;
    rate_begin(&rate, 0, 0);
    for (uint64_t now_ms = 1000; now_ms < 100000; now_ms += 1000) {
        bool waits = now_ms % 9000 != 0;

        assert_int_equal(rate_check(&rate, &rule, 0, now_ms, waits, 1 << 20, false), RATE_OK);
    }
}

static void test_no_rate(void **state)
{
    const struct http_settings no_rate = {.write_ms = 60};
    struct rate rate;

    (void)state;
    assert_int_equal(rate_check_ms(&no_rate), 60);
    assert_int_equal(rate_check_ms(&rule), 1000);
    rate_begin(&rate, 0, 0);
    for (uint64_t i = 1; i < 1000; i++) {
        assert_int_equal(rate_check(&rate, &no_rate, i, i * 60, true, 1 << 20, true), RATE_OK);
    }
    assert_int_equal(rate_check(&rate, &no_rate, 999, 1000 * 60, true, 1, true), RATE_STALLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients_over_their_quotas_are_told_of_now_and_then),
        cmocka_unit_test(test_who_is_a_client),
        cmocka_unit_test(test_one_record_for_each),
        cmocka_unit_test(test_names_are_cut),
        cmocka_unit_test(test_the_table_is_bounded),
        cmocka_unit_test(test_names_that_are_to_collide),
        cmocka_unit_test(test_no_quota),
        cmocka_unit_test(test_a_second_at_once_and_no_more),
        cmocka_unit_test(test_another_quota_owes_nothing),
        cmocka_unit_test(test_the_largest_quota_and_time),
        cmocka_unit_test(test_quotas_of_a_name_can_change),
        cmocka_unit_test(test_threads_share_a_quota),
        cmocka_unit_test(test_parts_of_loops),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_the_share_of_a_client),
        cmocka_unit_test(test_large_bodies_leave_room),
        cmocka_unit_test(test_bodies_of_a_client),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_who_takes_nothing_has_gone),
        cmocka_unit_test(test_slow_links_are_no_offence),
        cmocka_unit_test(test_while_output_is_short),
        cmocka_unit_test(test_nothing_to_take),
        cmocka_unit_test(test_no_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
