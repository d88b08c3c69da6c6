/*
 * test_json_scan.c - where values end; each bound, and one beyond; and that nothing large is ever
 * made of a body, whatever it is.
 *
 * Shows P8-memory, attack-json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/body.h"
#include "http/api/tag_bulk.h"

#define BODY_BYTES LIMIT_HTTP_BODY_BYTES

static void test_ends(void **state)
{
    static const struct {
        const char *text;
        size_t end;
    } cases[] = {
        {"{}", 2},          {"{} {}", 2},    {"[]]", 2},        {"[[],{}],", 7}, {"\"a\"b", 3},
        {"\"a\\\"b\"c", 6}, {"\"\\\\\"", 4}, {"{\"}\":1}x", 7}, {"12,3", 2},     {"true]", 4},
        {"nul", 3},         {"]", 1},        {",,", 1},         {"{\"a\"", 4},   {"[", 1},
        {"\"abc", 4},       {"\"a\\", 3},    {"1 2", 1},        {"x\"y\"", 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t len = strlen(cases[i].text);
        char *exact = malloc(len);
        const char *why = NULL;

        assert_non_null(exact);
        memcpy(exact, cases[i].text, len);
        assert_int_equal(json_end(exact, len, 0, &why), cases[i].end);
        assert_null(why);
        free(exact);
    }
    assert_int_equal(json_skip_space(" \t\r\n1", 5, 0), 4);
    assert_int_equal(json_skip_space("  ", 2, 1), 2);
    assert_int_equal(json_skip_space("\v1", 2, 0), 0);
}

/* A body of `count` times a piece between two others. */
static void repeat(struct buf *buf, const char *before, const char *piece, size_t count,
                   const char *after)
{
    buf->len = 0;
    buf_put(buf, before, strlen(before));
    for (size_t i = 0; i < count; i++) {
        buf_put(buf, piece, strlen(piece));
    }
    buf_put(buf, after, strlen(after));
}

static void expect(const struct buf *text, const char *wanted)
{
    const char *why = NULL;
    size_t end = json_end((const char *)text->data, text->len, 0, &why);

    if (wanted == NULL) {
        assert_int_equal(end, text->len);
        return;
    }
    assert_int_equal(end, 0);
    assert_string_equal(why, wanted);
}

static void test_bounds(void **state)
{
    struct buf text = BUF_INIT;

    (void)state;
    repeat(&text, "[", "1,", LIMIT_JSON_VALUES - 1, "1]");
    expect(&text, NULL);
    repeat(&text, "[", "1,", LIMIT_JSON_VALUES, "1]");
    expect(&text, "has more than 64 values");
    repeat(&text, "", "[", LIMIT_JSON_DEPTH, "]]]]]]]]");
    expect(&text, NULL);
    repeat(&text, "", "{", LIMIT_JSON_DEPTH + 1, "");
    expect(&text, "is nested in more than 8 levels");
    for (size_t more = 0; more <= 1; more++) {
        const char *wanted = more > 0 ? "is longer than 65536 bytes" : NULL;

        repeat(&text, "\"", "a", LIMIT_JSON_BYTES - 2 + more, "\"");
        expect(&text, wanted);
        repeat(&text, "[", " ", LIMIT_JSON_BYTES - 2 + more, "]");
        expect(&text, wanted);
        repeat(&text, "", "1", LIMIT_JSON_BYTES + more, "");
        expect(&text, wanted);
        repeat(&text, "\"", "a", LIMIT_JSON_BYTES - 1 + more, ""); /* no end */
        expect(&text, wanted);
    }
    buf_free(&text);
}

/* --- what the JSON library takes at most --- */

static size_t taken; /* now, */
static size_t peak;  /* and at most */

static void *counting_malloc(size_t size)
{
    size_t *block = malloc(sizeof *block * 2 + size);

    assert_non_null(block);
    *block = size;
    taken += size;
    peak = taken > peak ? taken : peak;
    return block + 2;
}

static void counting_free(void *pointer)
{
    size_t *block = pointer;

    if (block != NULL) {
        taken -= block[-2];
        free(block - 2);
    }
}

static int read_whole(const struct buf *body, struct body_fault *fault)
{
    struct buf command = BUF_INIT;
    struct tag_bulk bulk;
    bool done = false;
    int rv = 0;

    tag_bulk_begin(&bulk, body->data, body->len, &(struct command_list){.wall_ms = 1}, &command);
    while (rv == 0 && !done) {
        rv = tag_bulk_step(&bulk, LIMIT_JSON_SLICE_BYTES, &done, fault);
    }
    buf_free(&command);
    return rv;
}

/* As a body of one object and as one of many. */
static void check_hostile(const char *before, const char *piece, const char *after)
{
    size_t count = (BODY_BYTES - strlen(before) - strlen(after)) / strlen(piece);
    struct buf body = BUF_INIT;
    struct buf command = BUF_INIT;
    struct body_fault fault;

    repeat(&body, before, piece, count, after);
    assert_int_equal(tag_json_read_one("t", 1, body.data, body.len,
                                       &(struct command_list){.wall_ms = 1}, &command, &fault),
                     ERR_INVALID);
    assert_string_equal(fault.code, "bad_json");
    assert_int_equal(read_whole(&body, &fault), ERR_INVALID);
    assert_int_equal(taken, 0);
    if (peak > 8 * LIMIT_JSON_BYTES) {
        print_error("%s%s%s: %zu bytes\n", before, piece, after, peak);
        fail();
    }
    buf_free(&command);
    buf_free(&body);
}

static void test_memory(void **state)
{
    (void)state;
    json_set_alloc_funcs(counting_malloc, counting_free);
    check_hostile("[", "{},", "{}]");
    check_hostile("[{},", "[],", "1]");
    check_hostile("", "[", "");
    check_hostile("", "{\"a\":", "");
    check_hostile("{\"tags\":[", "{},", "{}]}");
    check_hostile("{\"tags\":", "[", "");
    check_hostile("{\"next\":", "{\"a\":", "");
    check_hostile("{\"next\":null,\"tags\":[{\"tag\":\"a\"},", "[[[[1]]]],", "{}]}");
    check_hostile("{\"description\":\"", "\\u00e9", "\"}");
    check_hostile("[{\"tag\":\"", "a", "\"}]");
    check_hostile("{\"tag\":\"a\"} \"", "a", "\"");
    check_hostile("{\"step\":", "1", "}");
    check_hostile("{\"step\":1} [", "1,", "1]");
    check_hostile("[{\"tag\":\"a\"}", ",{\"step\":[[[[[[1]]]]]]}", "]");
    check_hostile("\"", "\\\"", "");
    assert_true(peak > 0);
    json_set_alloc_funcs(malloc, free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
