/* Nodes that a client finds by asking one, and tags that are paused: what takes threads, forks and
 * sanitizers. The rules are tested in clients/conformance, for all languages. */
#include "group.h"

#include "../leafd.h"
#include "server.h"

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NODES = 3, THREADS = 4, CALLS = 200 };

static struct server nodes[NODES]; /* the first one is in zone a, the others in b */
static atomic_bool paused;
static atomic_int cluster; /* whose nodes they are */

static void answer(struct server *server, const struct served *request, char into[TEXT_MAX])
{
    if (strcmp(request->target, "/api/nodes") == 0) {
        char body[1024];
        int used = snprintf(body, sizeof body, "{\"self\":%d,\"uid\":\"cluster-%d\",\"nodes\":[",
                            (int)(server - nodes) + 1, atomic_load(&cluster));
        for (int i = 0; i < NODES; i++) {
            used += snprintf(body + used, sizeof body - (size_t)used,
                             "%s{\"id\":%d,\"http_address\":\"%s\",\"zone\":\"%s\",\"weight\":100,"
                             "\"state\":\"ready\",\"snowflake\":true}",
                             i > 0 ? "," : "", i + 1, nodes[i].url + strlen("http://"),
                             i > 0 ? "b" : "a");
        }
        (void)snprintf(body + used, sizeof body - (size_t)used, "]}");
        server_say(into, 200, "", body);
    } else if (atomic_load(&paused)) {
        server_say(into, 423, "Retry-After: 1\r\n",
                   "{\"code\":\"paused\",\"message\":\"for the audit\"}");
    } else {
        server_ids(server, request, into);
    }
}

static int start_nodes(void **state)
{
    (void)state;
    atomic_store(&paused, false);
    atomic_store(&cluster, 1);
    for (int i = 0; i < NODES; i++) {
        server_start(&nodes[i], answer);
        nodes[i].next_id = 1 + i * 1000000;
    }
    return 0;
}

static int stop_nodes(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++) {
        server_stop(&nodes[i]);
    }
    return 0;
}

static struct leafd *open_in(const char *zone)
{
    char endpoints[128];
    (void)snprintf(endpoints, sizeof endpoints, "endpoints=%s", nodes[0].url);
    const char *settings[] = {endpoints, zone, "deadline_ms=60000", "attempt_ms=60000", NULL};
    struct leafd_error error;
    struct leafd *leafd = leafd_open(settings, &error);
    assert_non_null(leafd);
    return leafd;
}

static void *take_ids(void *context)
{
    struct leafd *leafd = context;
    struct leafd_segment *orders = leafd_segment(leafd, "orders", NULL);
    struct leafd_strict *numbers = leafd_strict(leafd, "numbers", NULL);
    for (int i = 0; i < CALLS; i++) {
        if (leafd_segment_next(orders, NULL) < 1000000 ||
            (i % 10 == 0 && leafd_strict_next(numbers, NULL) < 1000000)) {
            return leafd;
        }
    }
    return NULL;
}

/* All ids are of zone b. */
static void test_threads(void **state)
{
    (void)state;
    struct leafd *leafd = open_in("zone=b");
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_ids, leafd), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    struct leafd_snowflake *stamps = leafd_snowflake(leafd, NULL, NULL);
    assert_true(leafd_snowflake_next(stamps, NULL) > 0);
    leafd_free(leafd);
}

/* Its child asks for nodes of its own accord. */
static void test_fork(void **state)
{
    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* as of test_client.c */
#endif
    struct leafd *leafd = open_in("zone=b");
    assert_null(take_ids(leafd));
    pid_t child = fork();
    if (child == 0) {
        _exit(take_ids(leafd) != NULL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    leafd_free(leafd);
}

/* Is it seen, within a minute, that the nodes are of another cluster? */
static bool sees_another(struct leafd *leafd)
{
    struct leafd_error error = {.code = ""};
    struct leafd_strict *numbers = leafd_strict(leafd, "numbers", NULL);
    time_t end = time(NULL) + 60;
    while (time(NULL) < end && strcmp(error.code, "other_cluster") != 0) {
        (void)leafd_strict_next(numbers, &error);
    }
    return strcmp(error.code, "other_cluster") == 0;
}

/* All addresses lead to another cluster: a child that is forked then does not take it for its own,
 * and neither does a child of that one. */
static void test_fork_beside_another_cluster(void **state)
{
    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* as of test_client.c */
#endif
    struct leafd *leafd = open_in("zone=b");
    assert_null(take_ids(leafd)); /* of listed nodes, so that the cluster is known */
    atomic_store(&cluster, 2);
    pid_t child = fork();
    if (child == 0) {
        bool good = sees_another(leafd);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            _exit(!sees_another(leafd));
        }
        int status;
        good &= waitpid(grandchild, &status, 0) == grandchild && status == 0;
        _exit(!good);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    leafd_free(leafd);
}

/* A node that takes the connection and says nothing: whoever closes does not wait for it. */
static void test_close_while_nodes_are_asked(void **state)
{
    (void)state;
    int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    assert_int_equal(bind(silent, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(silent, 16), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&address, &bytes), 0);
    char endpoints[64];
    (void)snprintf(endpoints, sizeof endpoints, "endpoints=http://127.0.0.1:%d",
                   ntohs(address.sin_port));
    const char *settings[] = {endpoints, "discover=true", "deadline_ms=60000", NULL};
    struct leafd *leafd = leafd_open(settings, NULL);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_ids, leafd), 0);
    int taken = accept(silent, NULL, NULL); /* it asks */
    leafd_close(leafd);
    void *failed;
    pthread_join(thread, &failed);
    assert_non_null(failed);
    leafd_free(leafd);
    close(taken);
    close(silent);
}

static void test_a_paused_tag(void **state)
{
    (void)state;
    struct leafd *leafd = open_in("zone=b");
    struct leafd_error error;
    struct leafd_segment *orders = leafd_segment(leafd, "orders", &error);
    assert_true(leafd_segment_next(orders, &error) > 0);
    atomic_store(&paused, true);
    struct leafd_range range;
    assert_int_equal(leafd_segment_range(orders, 5, &range, 0, NULL), -1);
    assert_int_equal(leafd_segment_next(orders, &error), -1);
    assert_string_equal(error.code, "paused");
    assert_int_equal(error.status, 423);
    assert_true(error.retryable);
    assert_string_equal(error.message, "for the audit");
    struct leafd_stats stats;
    leafd_stats(leafd, &stats, sizeof stats);
    assert_int_equal(stats.ids_segment + stats.burnt, 100);
    leafd_free(leafd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_threads, start_nodes, stop_nodes),
        cmocka_unit_test_setup_teardown(test_fork, start_nodes, stop_nodes),
        cmocka_unit_test_setup_teardown(test_fork_beside_another_cluster, start_nodes, stop_nodes),
        cmocka_unit_test(test_close_while_nodes_are_asked),
        cmocka_unit_test_setup_teardown(test_a_paused_tag, start_nodes, stop_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
