/*
 * test_handlers_shape.c - tags with a shape over HTTP: made, shown without their key, their ids as
 * texts in one piece and part by part, numbers on demand, and texts taken apart.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/tests/fixture.h"
#include "src/id/codec/shape.h"

#define GET "/api/segment/get/"
#define DECODE "/api/segment/decode/"
#define MANY 1000

/* Make a tag; what is shown of it has this. */
static void make(struct fixture *f, const char *tag, const char *body, const char *shown)
{
    char target[64];
    struct reply reply;

    snprintf(target, sizeof target, "/api/tags/%s", tag);
    client_call(f->client, "PUT", target, body, &reply);
    if (reply.status != 201 || strstr(reply.body, shown) == NULL) {
        fail_msg("%s: %d %s", body, reply.status, reply.body);
    }
    reply_release(&reply);
}

static void test_ids_are_texts(void **state)
{
    struct fixture *f = *state;

    make(f, "inv", "{\"shape\":\"INV-{id:6}{luhn}\"}", "\"shape\":\"INV-{id:6}{luhn}\"");
    (void)fake_open(&f->fake, "inv", 41, 1000);
    client_expect(f->client, "GET", GET "inv", 200, "INV-0000414");
    client_expect(f->client, "POST", GET "inv?count=2", 200, "INV-0000422\nINV-0000430\n");
    client_expect(f->client, "GET", GET "inv?as=number", 200, "44");
    client_expect(f->client, "GET", GET "inv?as=number&count=2&format=range", 200, "45 46\n");
    client_expect_message(f->client, "GET", GET "inv?count=2&format=range", NULL, 400,
                          "bad_request",
                          "tag \\\"inv\\\" has a shape, so its ids are texts: format=range needs "
                          "as=number");
    client_expect_message(f->client, "GET", GET "inv?format=json", NULL, 400, "bad_request",
                          "format=json");
    client_expect_error(f->client, "GET", GET "inv?as=text", NULL, 400, "bad_request");
    client_expect(f->client, "GET", GET "inv", 200, "INV-0000471"); /* none of them took ids */
}

/* From the log, with a key too, on a node that has not used the tag before. */
static void test_strict_ids_are_texts(void **state)
{
    struct fixture *f = *state;
    struct reply reply;

    fake_log_time(&f->fake, 1700000000000);
    make(f, "s", "{\"mode\":\"strict\",\"shape\":\"{id36:4}\"}", "{id36:4}");
    client_printf(f->client,
                  "GET " GET "s?count=2 HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n\r\n");
    client_read(f->client, false, &reply);
    assert_string_equal(reply.body, "0001\n0002\n");
    reply_release(&reply);
    client_expect(f->client, "GET", GET "s", 200, "0003");
    client_expect(f->client, "GET", GET "s?as=number", 200, "4");
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* More lines than are made at once, of which each is another one; and the ids behind them. */
static void test_many_secret_ids(void **state)
{
    struct fixture *f = *state;
    char *lines[MANY];
    char target[64];
    char wanted[96];
    struct reply reply;
    char *rest;

    make(f, "c", "{\"shape\":\"{secret36:8}\"}", "\"max\":\"2821109907456\"");
    (void)fake_open(&f->fake, "c", 1, 10 * MANY);
    client_call(f->client, "GET", GET "c?count=1000", NULL, &reply);
    assert_int_equal(strlen(reply.body), MANY * 9);
    lines[0] = strtok_r(reply.body, "\n", &rest);
    for (unsigned i = 1; i < MANY; i++) {
        lines[i] = strtok_r(NULL, "\n", &rest);
        assert_non_null(lines[i]);
    }
    for (unsigned i = 0; i < MANY; i += 333) {
        snprintf(target, sizeof target, DECODE "c?text=%s", lines[i]);
        snprintf(wanted, sizeof wanted, "{\"tag\":\"c\",\"id\":\"%u\",\"granted\":false}", i + 1);
        client_expect(f->client, "GET", target, 200, wanted); /* the log granted none of them */
    }
    qsort(lines, MANY, sizeof lines[0], compare);
    for (unsigned i = 1; i < MANY; i++) {
        assert_string_not_equal(lines[i - 1], lines[i]);
    }
    reply_release(&reply);
}

static void test_the_key_is_not_shown(void **state)
{
    struct fixture *f = *state;
    static const char *const targets[] = {"/api/tags/c", "/api/tags", "/api/node/segments"};
    struct reply reply;

    make(f, "c", "{\"shape\":\"{secret36:8}\"}", "\"shape\":\"{secret36:8}\",\"description\"");
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        client_call(f->client, "GET", targets[i], NULL, &reply);
        assert_int_equal(reply.status, 200);
        assert_int_equal(strlen(reply.body), reply.len);
        assert_null(strstr(reply.body, "\\u0000"));
        reply_release(&reply);
    }
}

static void test_what_is_refused(void **state)
{
    struct fixture *f = *state;

    client_expect_message(f->client, "PUT", "/api/tags/x", "{\"shape\":\"{id\"}", 400,
                          "bad_request", "shape=\\\"{id\\\": ");
    client_expect_message(f->client, "PUT", "/api/tags/x", "{\"shape\":7}", 400, "bad_request",
                          "the shape of a tag is not a string");
    client_expect_message(f->client, "PUT", "/api/tags/x", "{\"shape\":\"\"}", 400, "bad_request",
                          "1 to 128");
    make(f, "n", "{}", "\"tag\":\"n\"");
    client_expect_message(f->client, "PUT", "/api/tags/n", "{\"shape\":\"{id}\"}", 400,
                          "bad_request", "a name keeps the shape");
    client_expect_error(f->client, "GET", DECODE "n?text=1", NULL, 409, "no_shape");
    client_expect_error(f->client, "GET", DECODE "nobody?text=1", NULL, 404, "unknown_tag");
    make(f, "i", "{\"shape\":\"I{id}\"}", "I{id}");
    client_expect(f->client, "GET", DECODE "i?text=I1&consistency=local", 200,
                  "{\"tag\":\"i\",\"id\":\"1\",\"granted\":false}");
    client_expect_message(f->client, "GET", DECODE "i?text=i1", NULL, 400, "bad_id",
                          "\\\"i1\\\" is no id of the shape \\\"I{id}\\\"");
    client_expect_error(f->client, "GET", DECODE "i", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", DECODE "i?text=", NULL, 400, "bad_request");
    client_expect_error(f->client, "GET", DECODE "i?id=1", NULL, 400, "bad_request");
}

/* In a list too, whose other items need no new form; and a dump is taken by another cluster. */
static void test_shapes_in_a_list(void **state)
{
    struct fixture *f = *state;
    struct reply dump;
    struct reply reply;

    client_call(
        f->client, "POST", "/api/tags",
        "[{\"tag\":\"a\"},{\"tag\":\"b\",\"max\":9},{\"tag\":\"c\",\"shape\":\"{secret:6}\"},"
        "{\"tag\":\"d\",\"shape\":\"D{id}\"}]",
        &reply);
    assert_string_equal(reply.body, "{\"made\":4,\"changed\":0}");
    reply_release(&reply);
    client_call(f->client, "GET", "/api/tags", NULL, &dump);
    assert_non_null(strstr(dump.body, "\"shape\":\"{secret:6}\""));
    assert_non_null(strstr(dump.body, "\"shape\":\"D{id}\""));
    client_call(f->client, "POST", "/api/tags", dump.body, &reply);
    assert_string_equal(reply.body, "{\"made\":0,\"changed\":4}");
    reply_release(&reply);
    reply_release(&dump);
}

/* Whose key has been changed: in the cluster itself, and in another one. */
static void test_a_dump_with_a_later_key(void **state)
{
    struct fixture *f = *state;
    struct reply dump;
    struct reply reply;
    char *name;

    make(f, "s", "{\"shape\":\"A{key}{secret:6}\"}", "\"key\":0");
    client_call(f->client, "PUT", "/api/tags/s", "{\"key\":1}", &reply);
    assert_int_equal(reply.status, 200);
    reply_release(&reply);
    client_call(f->client, "GET", "/api/tags", NULL, &dump);
    assert_non_null(strstr(dump.body, "\"key\":1"));
    client_call(f->client, "POST", "/api/tags", dump.body, &reply);
    assert_string_equal(reply.body, "{\"made\":0,\"changed\":1}");
    reply_release(&reply);
    name = strstr(dump.body, "\"tag\":\"s\"");
    assert_non_null(name);
    name[7] = 't'; /* a name that is not there, as in another cluster */
    client_call(f->client, "POST", "/api/tags", dump.body, &reply);
    assert_string_equal(reply.body, "{\"made\":1,\"changed\":0}");
    reply_release(&reply);
    client_call(f->client, "GET", "/api/tags/t", NULL, &reply);
    assert_non_null(strstr(reply.body, "\"max_id\":\"1000000\""));
    assert_non_null(strstr(reply.body, "\"max\":\"2000000\""));
    assert_non_null(strstr(reply.body, "\"key\":1"));
    reply_release(&reply);
    reply_release(&dump);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_ids_are_texts),           TEST(test_strict_ids_are_texts),
        TEST(test_many_secret_ids),         TEST(test_the_key_is_not_shown),
        TEST(test_what_is_refused),         TEST(test_shapes_in_a_list),
        TEST(test_a_dump_with_a_later_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
