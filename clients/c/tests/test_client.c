/* The library by its header alone, against a server that answers as the test likes. What takes real
 * nodes is in clients/conformance. */
#include "group.h"

#include "../leafd.h"
#include "server.h"

#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct leafd *open_with(const struct server *server, const char *more)
{
    char endpoints[128];
    struct leafd_error error;
    (void)snprintf(endpoints, sizeof endpoints, "endpoints=%s", server->url);
    /* So long that no test on a slow machine meets them: what is tried twice is counted twice. */
    const char *settings[] = {endpoints, "deadline_ms=60000", "attempt_ms=60000", more, NULL};
    struct leafd *leafd = leafd_open(settings, &error);
    assert_non_null(leafd);
    return leafd;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct leafd_stats stats_of(struct leafd *leafd)
{
    struct leafd_stats stats;
    leafd_stats(leafd, &stats, sizeof stats);
    return stats;
}

/* --- settings --- */

static void test_settings(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"attempt_ms=0", "attempt_ms=0"},
        {"attempt_ms=600001", "1 to 600000"},
        {"deadline_ms=x", "deadline_ms=x"},
        {"cover_ms=", "cover_ms"},
        {"min_count=100001", "100000"},
        {"max_count=99", "min_count=100"},
        {"window_ms=999", "1000 to 86400000"},
        {"endpoints=", "endpoints"},
        {"endpoints=ftp://a", "ftp://a"},
        {"endpoints=http://a/b", "http://a/b"},
        {"endpoints=http://a,,http://b", "endpoints"},
        {"endpoints=http://user@a", "user@a"},
        {"endpoints=http://a b", "http://a b"},
        {"admin_endpoints=https://", "admin_endpoints"},
        {"ca_file=/nowhere", "/nowhere"},
        {"colour=red", "colour"},
        {"discover=yes", "true or false"},
        {"zone=a\nb", "1 to 128 bytes"},
        {"attempt_ms", "attempt_ms"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct leafd_error error;
        const char *settings[] = {"endpoints=http://127.0.0.1:9", bad[i][0], NULL};
        assert_null(leafd_open(settings, &error));
        assert_string_equal(error.code, "bad_setting");
        assert_int_equal(error.status, 0);
        assert_false(error.retryable);
        assert_non_null(strstr(error.message, bad[i][1]));
        assert_null(leafd_open(settings, NULL));
    }
    const char *none[] = {NULL};
    assert_null(leafd_open(none, NULL));
}

static void test_a_token_is_not_shown(void **state)
{
    (void)state;
    struct leafd_error error;
    const char *settings[] = {"endpoints=http://127.0.0.1:9", "token=mine\r\nX: y", NULL};
    assert_null(leafd_open(settings, &error));
    assert_null(strstr(error.message, "mine"));
}

/* 16 addresses, and one more. */
static void test_endpoints(void **state)
{
    (void)state;
    struct leafd_error error;
    char text[1024] = "endpoints=http://a";
    const char *settings[] = {text, NULL};
    for (int i = 1; i < 16; i++) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), ",https://b%d:80/", i);
    }
    struct leafd *leafd = leafd_open(settings, &error);
    assert_non_null(leafd);
    leafd_free(leafd);
    strncat(text, ",http://c", sizeof text - strlen(text) - 1);
    assert_null(leafd_open(settings, &error));
    leafd_free(NULL);
}

static void test_names_of_sources(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    server_start(&server, server_ids);
    struct leafd *leafd = open_with(&server, NULL);
    assert_null(leafd_segment(leafd, "", &error));
    assert_string_equal(error.code, "bad_setting");
    assert_null(leafd_strict(leafd, "a\nb", &error));
    assert_null(leafd_snowflake(leafd, "", &error));
    assert_ptr_equal(leafd_segment(leafd, "a", NULL), leafd_segment(leafd, "a", NULL));
    assert_ptr_not_equal(leafd_segment(leafd, "a", NULL), leafd_segment(leafd, "b", NULL));
    char name[16];
    for (int i = 0; i < 4094; i++) {
        (void)snprintf(name, sizeof name, "s%d", i);
        assert_non_null(leafd_strict(leafd, name, &error));
    }
    assert_null(leafd_strict(leafd, "more", &error));
    assert_string_equal(error.code, "bad_setting");
    assert_non_null(leafd_strict(leafd, "s7", &error));
    leafd_free(leafd);
    assert_int_equal(server_requests(&server), 0);
    server_stop(&server);
}

/* --- ids --- */

static void test_segment(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    server_start(&server, server_ids);
    struct leafd *leafd = open_with(&server, "token=abc");
    struct leafd_segment *orders = leafd_segment(leafd, "or/ders", &error);
    for (int64_t expected = 1; expected <= 5000; expected++) {
        assert_int_equal(leafd_segment_next(orders, &error), expected);
    }
    int64_t *ids = calloc(250000, sizeof *ids);
    assert_int_equal(leafd_segment_take(orders, 250000, ids, 0, &error), 0);
    for (int64_t i = 0; i < 250000; i++) {
        assert_int_equal(ids[i], 5001 + i);
    }
    free(ids);
    struct leafd_range range;
    assert_int_equal(leafd_segment_range(orders, 70, &range, 0, &error), 0);
    assert_int_equal(range.last - range.first, 69);
    pthread_mutex_lock(&server.lock);
    assert_non_null(strstr(server.last.head, "Authorization: Bearer abc\r\n"));
    assert_null(strstr(server.last.head, "Idempotency-Key"));
    assert_true(server.connections <= 3);
    pthread_mutex_unlock(&server.lock);
    struct leafd_stats stats = stats_of(leafd);
    assert_int_equal(stats.ids_segment, 255070);
    assert_int_equal(stats.errors + stats.retries + stats.burnt, 0);
    leafd_close(leafd);
    assert_int_equal(leafd_segment_next(orders, &error), -1);
    assert_string_equal(error.code, "closed");
    leafd_free(leafd);
    server_stop(&server);
}

/* All that was granted was handed out or is burnt. Exactly so only if no request is under way at
 * the close: the ids of an answer that is not read are known to nobody. The 101st id is the first
 * of the second grant, and a third is asked for when half of it is gone. */
static void test_what_is_left_is_burnt(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    server_start(&server, server_ids);
    struct leafd *leafd = open_with(&server, "min_count=100");
    struct leafd_segment *orders = leafd_segment(leafd, "orders", &error);
    for (int64_t expected = 1; expected <= 101; expected++) {
        assert_int_equal(leafd_segment_next(orders, &error), expected);
    }
    leafd_close(leafd);
    assert_int_equal(server_requests(&server), 2);
    struct leafd_stats stats = stats_of(leafd);
    assert_int_equal(stats.ids_segment, 101);
    leafd_free(leafd);
    server_stop(&server);
    assert_int_equal(stats.ids_segment + stats.burnt, (uint64_t)server.next_id - 1);
    assert_true(stats.burnt > 0);
}

static void test_counts(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    struct leafd_range range;
    server_start(&server, server_ids);
    struct leafd *leafd = open_with(&server, NULL);
    struct leafd_segment *orders = leafd_segment(leafd, "orders", &error);
    struct leafd_strict *numbers = leafd_strict(leafd, "numbers", &error);
    assert_int_equal(leafd_segment_take(orders, 0, NULL, 0, &error), 0);
    assert_int_equal(leafd_segment_range(orders, 0, &range, 0, &error), -1);
    assert_string_equal(error.code, "bad_setting");
    assert_int_equal(leafd_segment_range(orders, 100001, &range, 0, &error), -1);
    assert_int_equal(leafd_strict_take(numbers, 0, NULL, &range, NULL, 0, NULL), -1);
    assert_int_equal(leafd_strict_take(numbers, 100001, NULL, &range, NULL, 0, NULL), -1);
    assert_int_equal(leafd_strict_take(numbers, 1, "", &range, NULL, 0, &error), -1);
    assert_int_equal(leafd_strict_take(numbers, 1, "a b", &range, NULL, 0, &error), -1);
    assert_string_equal(error.code, "bad_setting");
    assert_int_equal(server_requests(&server), 0);
    assert_int_equal(leafd_strict_take(numbers, 100000, NULL, &range, NULL, 0, NULL), 0);
    assert_int_equal(leafd_strict_next(numbers, NULL), 100001);
    leafd_free(leafd);
    server_stop(&server);
}

/* --- a failure tells the key to come again with --- */

static void say_too_many(struct server *server, const struct served *request, char into[TEXT_MAX])
{
    (void)server;
    (void)request;
    server_say(into, 400, "", "{\"code\":\"bad_count\",\"message\":\"too many\"}");
}

static void test_keys_of_failures(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    struct leafd_range range;
    char texts[1][LEAFD_TEXT_BYTES];
    char header[160];
    server_start(&server, say_too_many);
    struct leafd *leafd = open_with(&server, NULL);
    struct leafd_strict *numbers = leafd_strict(leafd, "numbers", &error);
    assert_int_equal(leafd_strict_take(numbers, 1, NULL, &range, NULL, 0, &error), -1);
    assert_string_equal(error.code, "bad_count");
    assert_int_equal(strlen(error.key), 26);
    snprintf(header, sizeof header, "Idempotency-Key: %s\r\n", error.key);
    assert_non_null(strstr(server.last.head, header));
    assert_int_equal(leafd_strict_take(numbers, 1, "mine", &range, NULL, 0, &error), -1);
    assert_string_equal(error.key, "mine");
    assert_int_equal(leafd_strict_take(numbers, 0, "mine", &range, NULL, 0, &error), -1);
    assert_string_equal(error.key, ""); /* nothing was asked */
    struct leafd_texts *invoices = leafd_texts(leafd, "invoices", &error);
    assert_int_equal(leafd_texts_take(invoices, 1, NULL, texts, NULL, 0, &error), -1);
    assert_int_equal(strlen(error.key), 26);
    assert_int_equal(leafd_texts_take(invoices, 1, "mine", texts, NULL, 0, &error), -1);
    assert_string_equal(error.key, "mine");
    leafd_free(leafd);
    server_stop(&server);
}

/* --- texts --- */

static bool has_key(const struct served *request)
{
    return strstr(request->head, "Idempotency-Key: ") != NULL;
}

/* Texts of any tag, and their numbers; "trend" takes no key, "wrong" gives what is none. */
static void say_texts(struct server *server, const struct served *request, char into[TEXT_MAX])
{
    char body[1024] = "A1\nA 2\n";
    size_t used = 0;
    uint64_t count = option(request->target, "count=");
    if (strstr(request->target, "/decode/") != NULL) {
        bool good = strstr(request->target, "text=A%26%2B7") != NULL;
        server_say(into, good ? 200 : 400, "",
                   good ? "{\"tag\":\"t\",\"id\":\"7\",\"granted\":true}"
                        : "{\"code\":\"bad_id\",\"message\":\"none\"}");
        return;
    }
    if (strstr(request->target, "format=range") != NULL) {
        server_say(
            into, 400, "",
            "{\"code\":\"bad_request\",\"message\":\"tag t has a shape, so its ids are texts\"}");
        return;
    }
    if (strstr(request->target, "/trend") != NULL && has_key(request)) {
        server_say(into, 400, "", "{\"code\":\"bad_key\",\"message\":\"of mode trend\"}");
        return;
    }
    for (uint64_t i = 0; strstr(request->target, "/wrong") == NULL && i < count; i++) {
        used += (size_t)snprintf(body + used, sizeof body - used, "INV-%lld\n",
                                 (long long)server->next_id++);
    }
    server_say(into, 200,
               strstr(request->head, "Key: mine") ? "Idempotency-Replayed: true\r\n" : "", body);
}

static void test_texts(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    char into[2][LEAFD_TEXT_BYTES];
    bool replayed = true;
    server_start(&server, say_texts);
    struct leafd *leafd = open_with(&server, NULL);
    struct leafd_texts *texts = leafd_texts(leafd, "t", &error);
    assert_int_equal(leafd_texts_next(texts, into[0], &error), 0);
    assert_string_equal(into[0], "INV-1");
    assert_true(has_key(&server.last));
    assert_int_equal(leafd_texts_take(texts, 2, NULL, into, &replayed, 0, NULL), 0);
    assert_string_equal(into[1], "INV-3");
    assert_false(replayed);
    assert_int_equal(leafd_texts_take(texts, 1, "mine", into, &replayed, 0, NULL), 0);
    assert_true(replayed);
    struct leafd_texts *trend = leafd_texts(leafd, "trend", &error);
    assert_int_equal(leafd_texts_next(trend, into[0], NULL), 0);
    assert_int_equal(leafd_texts_next(trend, into[0], NULL), 0);
    assert_false(has_key(&server.last));
    assert_int_equal(server_requests(&server), 6);
    struct leafd_stats stats = stats_of(leafd);
    assert_int_equal(stats.ids_strict, 6);
    assert_int_equal(stats.waits, 5);
    assert_int_equal(stats.errors, 0);
    assert_int_equal(leafd_texts_take(trend, 1, "mine", into, NULL, 0, &error), -1);
    assert_string_equal(error.code, "bad_key");
    assert_int_equal(
        leafd_texts_take(leafd_texts(leafd, "wrong", NULL), 2, NULL, into, NULL, 0, &error), -1);
    assert_string_equal(error.code, "bad_answer");
    assert_int_equal(leafd_strict_next(leafd_strict(leafd, "t", NULL), &error), -1);
    assert_string_equal(error.code, "bad_request");
    assert_non_null(strstr(error.message, "; use texts() of the client"));
    leafd_free(leafd);
    server_stop(&server);
}

static void test_the_number_of_a_text(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    char into[1][LEAFD_TEXT_BYTES], longer[160];
    server_start(&server, say_texts);
    struct leafd *leafd = open_with(&server, NULL);
    struct leafd_texts *texts = leafd_texts(leafd, "t", &error);
    assert_int_equal(leafd_texts_decode(texts, "A&+7", 0, &error), 7);
    assert_int_equal(leafd_texts_decode(texts, "B", 0, &error), -1);
    assert_string_equal(error.code, "bad_id");
    assert_int_equal(error.status, 400);
    server.answer = server_ids;
    assert_int_equal(leafd_texts_decode(texts, "A&+7", 0, &error), -1);
    assert_string_equal(error.code, "bad_answer");
    unsigned asked = server_requests(&server);
    (void)snprintf(longer, sizeof longer, "%0131d", 7);
    const char *const bad[] = {"", "a b", "\xc3\xa4", longer};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(leafd_texts_decode(texts, bad[i], 0, &error), -1);
        assert_string_equal(error.code, "bad_setting");
    }
    assert_int_equal(leafd_texts_take(texts, 0, NULL, into, NULL, 0, &error), -1);
    assert_string_equal(error.code, "bad_setting");
    assert_int_equal(leafd_texts_take(texts, 1001, NULL, into, NULL, 0, &error), -1);
    assert_string_equal(error.code, "bad_setting");
    assert_int_equal(leafd_texts_take(texts, 1, "a b", into, NULL, 0, &error), -1);
    assert_null(leafd_texts(leafd, "", &error));
    assert_string_equal(error.code, "bad_setting");
    assert_int_equal(server_requests(&server), asked);
    leafd_close(leafd);
    assert_int_equal(leafd_texts_next(texts, into[0], &error), -1);
    assert_string_equal(error.code, "closed");
    assert_int_equal(leafd_texts_decode(texts, "A", 0, &error), -1);
    assert_string_equal(error.code, "closed");
    leafd_free(leafd);
    server_stop(&server);
}

struct taking {
    struct leafd_segment *segment;
    int64_t ids[5000];
    bool failed;
};

static void *take(void *context)
{
    struct taking *taking = context;
    for (int i = 0; i < 5000; i++) {
        taking->ids[i] = leafd_segment_next(taking->segment, NULL);
        taking->failed =
            taking->failed || taking->ids[i] < 0 || (i > 0 && taking->ids[i] <= taking->ids[i - 1]);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    enum { THREADS = 6 };
    struct server server;
    pthread_t threads[THREADS];
    struct taking *taking = calloc(THREADS, sizeof *taking);
    bool *seen = calloc(100000, 1);
    server_start(&server, server_ids);
    struct leafd *leafd = open_with(&server, "max_count=200");
    for (int i = 0; i < THREADS; i++) {
        taking[i].segment = leafd_segment(leafd, "orders", NULL);
        pthread_create(&threads[i], NULL, take, &taking[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(taking[i].failed);
        for (int j = 0; j < 5000; j++) {
            assert_true(taking[i].ids[j] < 100000);
            assert_false(seen[taking[i].ids[j]]);
            seen[taking[i].ids[j]] = true;
        }
    }
    assert_int_equal(stats_of(leafd).ids_segment >= THREADS * 5000, 1);
    leafd_free(leafd);
    server_stop(&server);
    free(taking);
    free(seen);
}

/* --- fork --- */

/* In the child: ids of all kinds, which the parent reads. */
static void in_child(struct leafd *leafd, int out)
{
    int64_t ids[3];
    ids[0] = leafd_segment_next(leafd_segment(leafd, "orders", NULL), NULL);
    ids[1] = leafd_strict_next(leafd_strict(leafd, "numbers", NULL), NULL);
    ids[2] = leafd_snowflake_next(leafd_snowflake(leafd, NULL, NULL), NULL);
    bool wrote = write(out, ids, sizeof ids) == (ssize_t)sizeof ids;
    leafd_close(leafd);
    _exit(wrote ? 0 : 1);
}

/* While other threads of the parent hold whatever locks: the child must not hang, nor take an id
 * that the parent holds. */
static void test_fork(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it gives up on threads in the child of a process with threads */
#endif
#ifdef __SANITIZE_ADDRESS__
    skip(); /* GCC 12's allocator stays locked in a child forked while another thread was in it */
#endif
    struct server server;
    server_start(&server, server_ids);
    struct leafd *leafd = open_with(&server, "max_count=100");
    struct taking *taking = calloc(1, sizeof *taking);
    taking->segment = leafd_segment(leafd, "orders", NULL);
    int64_t mine = leafd_snowflake_next(leafd_snowflake(leafd, NULL, NULL), NULL);
    int64_t before = leafd_segment_next(taking->segment, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, take, taking);
    for (int i = 0; i < 20; i++) {
        int ends[2];
        int64_t ids[3];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) {
            in_child(leafd, ends[1]);
        }
        close(ends[1]);
        assert_int_equal(read(ends[0], ids, sizeof ids), sizeof ids);
        close(ends[0]);
        int status;
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
        assert_true(ids[0] > before && ids[1] > 0 && ids[2] > 0);
        assert_int_not_equal(ids[2] >> 12 & 1023, mine >> 12 & 1023);
        before = ids[0];
    }
    pthread_join(thread, NULL);
    assert_false(taking->failed);
    leafd_free(leafd);
    server_stop(&server);
    free(taking);
}

/* --- the end --- */

static void *close_it(void *context)
{
    leafd_close(context);
    return NULL;
}

static void say_nothing(struct server *server, const struct served *request, char into[TEXT_MAX])
{
    (void)server;
    (void)request;
    server_say(into, 503, "Retry-After: 1\r\n", "{\"code\":\"no_leader\",\"message\":\"none\"}");
}

struct waiting {
    struct leafd *leafd;
    struct leafd_error error;
    int64_t id;
};

static void *wait_for_id(void *context)
{
    struct waiting *waiting = context;
    waiting->id = leafd_strict_next(leafd_strict(waiting->leafd, "a", NULL), &waiting->error);
    return NULL;
}

static void *wait_for_segment(void *context)
{
    struct waiting *waiting = context;
    waiting->id = leafd_segment_next(leafd_segment(waiting->leafd, "a", NULL), &waiting->error);
    return NULL;
}

/* Calls that wait end with the client, and closing it does not wait for their deadlines. */
static void test_close_while_calls_wait(void **state)
{
    (void)state;
    struct server server;
    struct waiting waiting[2] = {{0}};
    pthread_t threads[4];
    server_start(&server, say_nothing);
    struct leafd *leafd = open_with(&server, NULL);
    waiting[0].leafd = waiting[1].leafd = leafd;
    pthread_create(&threads[0], NULL, wait_for_id, &waiting[0]);
    pthread_create(&threads[1], NULL, wait_for_segment, &waiting[1]);
    while (server_requests(&server) < 2) {
        usleep(1000);
    }
    int64_t began_ms = now_ms();
    pthread_create(&threads[2], NULL, close_it, leafd);
    pthread_create(&threads[3], NULL, close_it, leafd);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_true(now_ms() - began_ms < 30000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waiting[i].id, -1);
        assert_string_equal(waiting[i].error.code, "closed");
    }
    leafd_free(leafd);
    server_stop(&server);
}

static void refuse(struct server *server, const struct served *request, char into[TEXT_MAX])
{
    (void)server;
    (void)request;
    server_say(into, 404, "", "{\"code\":\"unknown_tag\",\"message\":\"there is no tag\"}");
}

/* An error is the answer of a second, without a request each; then the server is asked again. */
static void test_an_error_is_forgotten(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    server_start(&server, refuse);
    struct leafd *leafd = open_with(&server, NULL);
    struct leafd_segment *orders = leafd_segment(leafd, "orders", &error);
    int64_t began_ms = now_ms();
    for (int i = 0; i < 100; i++) {
        assert_int_equal(leafd_segment_next(orders, &error), -1);
        assert_string_equal(error.code, "unknown_tag");
        assert_int_equal(error.status, 404);
    }
    assert_true(server_requests(&server) <= 1 + (now_ms() - began_ms) / 1000);
    pthread_mutex_lock(&server.lock);
    server.answer = server_ids;
    pthread_mutex_unlock(&server.lock);
    while (leafd_segment_next(orders, &error) < 0) {
        assert_string_equal(error.code, "unknown_tag");
        usleep(10000);
    }
    leafd_free(leafd);
    server_stop(&server);
}

static void test_renewal_and_release(void **state)
{
    (void)state;
    struct server server;
    server_start(&server, server_ids);
    struct leafd *leafd = open_with(&server, "window_ms=1000");
    struct leafd_snowflake *snowflake = leafd_snowflake(leafd, "ours", NULL);
    int64_t id = leafd_snowflake_next(snowflake, NULL);
    assert_true(id > 0);
    while (stats_of(leafd).renewals < 2) {
        usleep(5000);
    }
    struct leafd_parts parts;
    assert_int_equal(leafd_snowflake_decode(snowflake, id, &parts, NULL), 0);
    assert_int_equal(leafd_snowflake_decode(snowflake, -1, &parts, NULL), -1);
    struct leafd_parts least;
    int64_t at = leafd_snowflake_at(snowflake, parts.time_ms, NULL);
    assert_true(at <= id && leafd_snowflake_at(snowflake, parts.time_ms + 1, NULL) > id);
    assert_int_equal(leafd_snowflake_decode(snowflake, at, &least, NULL), 0);
    assert_true(least.time_ms == parts.time_ms && least.worker_id == 0 && least.sequence == 0);
    pthread_mutex_lock(&server.lock);
    assert_string_equal(server.last.method, "PUT");
    assert_int_equal(option(server.last.body, "\"last_timestamp_ms\":"), parts.time_ms);
    pthread_mutex_unlock(&server.lock);
    leafd_close(leafd);
    assert_string_equal(server.last.method, "DELETE");
    assert_int_equal(option(server.last.target, "last_timestamp_ms="), parts.time_ms);
    struct leafd_error error;
    assert_int_equal(leafd_snowflake_next(snowflake, &error), -1);
    assert_string_equal(error.code, "closed");
    leafd_free(leafd);
    server_stop(&server);
}

static void test_stats_text(void **state)
{
    (void)state;
    struct server server;
    char text[4096], little[10];
    server_start(&server, server_ids);
    struct leafd *leafd = open_with(&server, NULL);
    assert_int_equal(leafd_strict_next(leafd_strict(leafd, "a", NULL), NULL), 1);
    size_t length = leafd_stats_text(leafd, text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_non_null(strstr(text, "\nleafd_client_ids_strict_total 1\n"));
    assert_non_null(strstr(text, "# TYPE leafd_client_renewals_total counter\n"));
    assert_int_equal(leafd_stats_text(leafd, little, sizeof little), length);
    assert_int_equal(strlen(little), 9);
    assert_int_equal(leafd_stats_text(leafd, NULL, 0), length);
    struct {
        struct leafd_stats stats;
        uint64_t later;
    } larger;
    memset(&larger, 0xff, sizeof larger);
    leafd_stats(leafd, &larger.stats, sizeof larger);
    assert_int_equal(larger.stats.ids_strict, 1);
    assert_int_equal(larger.later, 0);
    leafd_free(leafd);
    server_stop(&server);
}

/* --- one source --- */

static void test_a_source_that_is_opened_again(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    server_start(&server, server_ids);
    struct leafd *leafd = open_with(&server, NULL);
    struct leafd_segment *orders = leafd_segment(leafd, "orders", &error);
    assert_int_equal(leafd_segment_next(orders, &error), 1);
    leafd_segment_close(orders);
    leafd_segment_close(orders);
    assert_int_equal(leafd_segment_next(orders, &error), -1);
    assert_string_equal(error.code, "closed");
    assert_int_equal(stats_of(leafd).burnt, 99);
    assert_ptr_equal(leafd_segment(leafd, "orders", &error), orders);
    assert_int_equal(leafd_segment_next(orders, &error), 101);
    struct leafd_snowflake *stamps = leafd_snowflake(leafd, NULL, &error);
    assert_true(leafd_snowflake_next(stamps, &error) > 0);
    leafd_snowflake_close(stamps);
    pthread_mutex_lock(&server.lock);
    assert_string_equal(server.last.method, "DELETE");
    pthread_mutex_unlock(&server.lock);
    assert_int_equal(leafd_snowflake_next(stamps, &error), -1);
    assert_string_equal(error.code, "closed");
    assert_ptr_equal(leafd_snowflake(leafd, NULL, &error), stamps);
    assert_true(leafd_snowflake_next(stamps, &error) > 0);
    struct leafd_strict *numbers = leafd_strict(leafd, "numbers", &error);
    leafd_strict_close(numbers);
    assert_int_equal(leafd_strict_next(numbers, &error), -1);
    assert_string_equal(error.code, "closed");
    leafd_free(leafd);
    server_stop(&server);
}

/* Ids with an increment of 5, and none without stepped=1. */
static void say_steps(struct server *server, const struct served *request, char into[TEXT_MAX])
{
    char body[64];
    int64_t count = (int64_t)option(request->target, "count=");
    if (option(request->target, "stepped=") != 1) {
        server_say(into, 400, "", "{\"code\":\"stepped\",\"message\":\"ask with stepped=1\"}");
        return;
    }
    (void)snprintf(body, sizeof body, "%lld %lld 5\n", (long long)server->next_id,
                   (long long)(server->next_id + 5 * (count - 1)));
    server->next_id += 5 * count;
    server_say(into, 200, "", body);
}

/* Who takes first and last for all ids between them must not get such. */
static void test_steps_are_not_taken_for_ranges(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    struct leafd_range range;
    struct leafd_series series;
    int64_t ids[3];
    server_start(&server, say_steps);
    struct leafd *leafd = open_with(&server, NULL);
    struct leafd_segment *orders = leafd_segment(leafd, "orders", &error);
    assert_int_equal(leafd_segment_take(orders, 3, ids, 0, &error), 0);
    assert_int_equal(ids[2] - ids[0], 10);
    assert_int_equal(leafd_segment_range(orders, 3, &range, 0, &error), -1);
    assert_string_equal(error.code, "stepped");
    assert_int_equal(leafd_segment_series(orders, 3, &series, 0, &error), 0);
    assert_int_equal(series.last - series.first, 10);
    assert_int_equal(series.increment, 5);
    struct leafd_strict *numbers = leafd_strict(leafd, "numbers", &error);
    assert_int_equal(leafd_strict_take(numbers, 3, NULL, &range, NULL, 0, &error), -1);
    assert_string_equal(error.code, "stepped");
    assert_true(leafd_strict_next(numbers, &error) > 0);
    assert_int_equal(leafd_strict_series(numbers, 3, NULL, &series, NULL, 0, &error), 0);
    assert_int_equal(series.increment, 5);
    leafd_free(leafd);
    server_stop(&server);
}

/* --- events --- */

struct seen {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char kind[32], name[32];
    uint64_t ids;
};

static void see(void *user, const struct leafd_event *event)
{
    struct seen *seen = user;
    pthread_mutex_lock(&seen->lock);
    (void)snprintf(seen->kind, sizeof seen->kind, "%s", event->kind);
    (void)snprintf(seen->name, sizeof seen->name, "%s", event->name);
    assert_string_equal(event->code, "");
    assert_string_equal(event->from, "");
    seen->ids = event->ids;
    pthread_cond_broadcast(&seen->changed);
    pthread_mutex_unlock(&seen->lock);
}

static void test_events(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error;
    struct seen seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    server_start(&server, server_ids);
    struct leafd *leafd = open_with(&server, "max_age_ms=1");
    leafd_on_event(leafd, see, &seen);
    struct leafd_segment *orders = leafd_segment(leafd, "orders", &error);
    assert_true(leafd_segment_next(orders, &error) > 0);
    pthread_mutex_lock(&seen.lock);
    while (seen.kind[0] == 0) {
        pthread_cond_wait(&seen.changed, &seen.lock);
    }
    assert_string_equal(seen.kind, "aged");
    assert_string_equal(seen.name, "orders");
    assert_true(seen.ids > 0 && seen.ids <= 100);
    pthread_mutex_unlock(&seen.lock);
    leafd_free(leafd);
    server_stop(&server);
}

/* A hook that closes the client once the tag's requests fail. */
struct closer {
    struct leafd *leafd;
    struct leafd_segment *orders;
    bool second; /* once another thread closes it already */
    atomic_bool begun, done;
};

static void close_in_hook(void *user, const struct leafd_event *event)
{
    struct closer *closer = user;
    struct leafd_error error = {.code = ""};
    if (strcmp(event->kind, "refill_failed") != 0 || atomic_exchange(&closer->begun, true)) {
        return;
    }
    while (closer->second && strcmp(error.code, "closed") != 0) {
        assert_int_equal(leafd_segment_next(closer->orders, &error), -1);
    }
    leafd_close(closer->leafd);
    assert_int_equal(leafd_segment_next(closer->orders, &error), -1);
    assert_string_equal(error.code, "closed");
    atomic_store(&closer->done, true);
}

static void answer_no_ids(struct server *server, const struct served *request, char into[TEXT_MAX])
{
    if (strstr(request->target, "/api/segment/") == NULL) {
        server_ids(server, request, into);
    }
}

static void *next_until_closed(void *context)
{
    const struct closer *closer = context;
    struct leafd_error error = {.code = ""};
    while (strcmp(error.code, "closed") != 0) {
        assert_int_equal(leafd_segment_next(closer->orders, &error), -1);
    }
    return NULL;
}

/* The thread that closes the client waits for the hook's thread, which closes it as well. */
static void test_close_in_the_hook(void **state)
{
    (void)state;
    for (int second = 0; second < 2; second++) {
        struct server server;
        server_start(&server, answer_no_ids);
        struct closer closer = {.leafd = open_with(&server, NULL), .second = second};
        leafd_on_event(closer.leafd, close_in_hook, &closer);
        closer.orders = leafd_segment(closer.leafd, "orders", NULL);
        assert_true(leafd_snowflake_next(leafd_snowflake(closer.leafd, "ours", NULL), NULL) > 0);
        pthread_t thread;
        alarm(120);
        assert_int_equal(pthread_create(&thread, NULL, next_until_closed, &closer), 0);
        while (!atomic_load(second ? &closer.begun : &closer.done)) {
            usleep(1000);
        }
        leafd_close(closer.leafd);
        assert_true(atomic_load(&closer.done));
        assert_string_equal(server.last.method, "DELETE"); /* of the worker id */
        pthread_join(thread, NULL);
        leafd_free(closer.leafd);
        alarm(0);
        server_stop(&server);
    }
}

static void close_sources_in_hook(void *user, const struct leafd_event *event)
{
    struct leafd *leafd = user;
    if (strcmp(event->kind, "fenced") == 0) {
        struct leafd_error error;
        struct leafd_snowflake *ours = leafd_snowflake(leafd, "ours", &error);
        leafd_snowflake_close(ours);
        assert_null(leafd_snowflake(leafd, "ours", &error));
        assert_string_equal(error.code, "closed");
    }
}

static void answer_fenced(struct server *server, const struct served *request, char into[TEXT_MAX])
{
    if (strcmp(request->method, "PUT") == 0) {
        server_say(into, 409, "", "{\"code\":\"fenced\",\"message\":\"by a test\"}");
        return;
    }
    server_ids(server, request, into);
}

/* The hook's thread is the source's own. */
static void test_a_source_that_its_hook_closes(void **state)
{
    (void)state;
    struct server server;
    struct leafd_error error = {.code = ""};
    server_start(&server, answer_fenced);
    struct leafd *leafd = open_with(&server, "window_ms=1000");
    leafd_on_event(leafd, close_sources_in_hook, leafd);
    struct leafd_snowflake *ours = leafd_snowflake(leafd, "ours", NULL);
    alarm(120);
    assert_true(leafd_snowflake_next(ours, NULL) > 0);
    while (strcmp(error.code, "closed") != 0) {
        (void)leafd_snowflake_next(ours, &error);
        usleep(1000);
    }
    assert_ptr_equal(leafd_snowflake(leafd, "ours", NULL), ours); /* it waits for the thread */
    /* The first call may get "fenced", if none has. */
    assert_true(leafd_snowflake_next(ours, NULL) > 0 || leafd_snowflake_next(ours, NULL) > 0);
    leafd_free(leafd);
    alarm(0);
    server_stop(&server);
}

/* --- names --- */

static atomic_bool name_is_slow;

/* In place of that of the C library: the resolver does not answer for slow.test. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (node != NULL && strcmp(node, "slow.test") == 0) {
        while (atomic_load(&name_is_slow)) {
            usleep(1000);
        }
        return EAI_AGAIN;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    return real(node, service, hints, found);
}

/* The deadline ends the wait for a name, too. */
static void test_a_deadline_below_connect_ms(void **state)
{
    (void)state;
    struct leafd_error error;
    struct leafd_range range;
    const char *settings[] = {"endpoints=http://slow.test:1", "connect_ms=60000",
                              "attempt_ms=60000", "deadline_ms=60000", NULL};
    atomic_store(&name_is_slow, true);
    struct leafd *leafd = leafd_open(settings, &error);
    assert_non_null(leafd);
    struct leafd_strict *numbers = leafd_strict(leafd, "numbers", NULL);
    int64_t begin = now_ms();
    assert_int_equal(leafd_strict_take(numbers, 1, NULL, &range, NULL, 100, &error), -1);
    assert_string_equal(error.code, "unreachable");
    assert_true(now_ms() - begin < 30000);
    atomic_store(&name_is_slow, false);
    leafd_free(leafd);
}

/* --- a cluster in memory --- */

static void test_fake(void **state)
{
    (void)state;
    struct leafd_error error;
    const char *settings[] = {"deadline_ms=2000", NULL};
    struct leafd *leafd = leafd_fake_new(settings, &error);
    assert_non_null(leafd);
    struct leafd_segment *orders = leafd_segment(leafd, "a/b", &error);
    struct leafd_strict *numbers = leafd_strict(leafd, "numbers", &error);
    struct leafd_texts *texts = leafd_texts(leafd, "texts", &error);
    struct leafd_snowflake *stamps = leafd_snowflake(leafd, NULL, &error);
    for (int64_t i = 1; i <= 1000; i++) {
        assert_int_equal(leafd_segment_next(orders, &error), i);
    }
    struct leafd_range range;
    bool replayed;
    assert_int_equal(leafd_strict_take(numbers, 3, "mine", &range, NULL, 0, &error), 0);
    assert_int_equal(leafd_strict_take(numbers, 3, "mine", &range, &replayed, 0, &error), 0);
    assert_true(replayed && range.first == 1 && range.last == 3);
    char text[LEAFD_TEXT_BYTES];
    assert_int_equal(leafd_texts_next(texts, text, &error), 0);
    assert_string_equal(text, "1");
    assert_int_equal(leafd_texts_decode(texts, "77", 0, &error), 77);
    int64_t stamp = leafd_snowflake_next(stamps, &error);
    assert_true(stamp > 0 && leafd_snowflake_next(stamps, &error) > stamp);
    leafd_fake_set_next(leafd, "a/b", 50);
    assert_int_equal(leafd_segment_next(orders, &error), 50);
    leafd_fake_set_next(leafd, "numbers", 7);
    assert_int_equal(leafd_strict_next(numbers, &error), 7);
    leafd_fake_fail(leafd, 1, 404, "unknown_tag");
    assert_int_equal(leafd_strict_next(numbers, &error), -1);
    assert_string_equal(error.code, "unknown_tag");
    leafd_fake_fail(leafd, 2, 503, "no_leader");
    assert_int_equal(leafd_strict_next(numbers, &error), 8);
    leafd_fake_fail(leafd, 1000, 0, "");
    assert_int_equal(leafd_strict_take(numbers, 1, NULL, &range, NULL, 100, &error), -1);
    assert_string_equal(error.code, "unreachable");
    leafd_fake_fail(leafd, 0, 0, "");
    leafd_free(leafd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_a_token_is_not_shown),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_names_of_sources),
        cmocka_unit_test(test_segment),
        cmocka_unit_test(test_what_is_left_is_burnt),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_keys_of_failures),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_the_number_of_a_text),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_close_while_calls_wait),
        cmocka_unit_test(test_an_error_is_forgotten),
        cmocka_unit_test(test_renewal_and_release),
        cmocka_unit_test(test_stats_text),
        cmocka_unit_test(test_a_source_that_is_opened_again),
        cmocka_unit_test(test_steps_are_not_taken_for_ranges),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_close_in_the_hook),
        cmocka_unit_test(test_a_source_that_its_hook_closes),
        cmocka_unit_test(test_a_deadline_below_connect_ms),
        cmocka_unit_test(test_fake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
