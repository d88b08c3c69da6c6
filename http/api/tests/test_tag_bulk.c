/*
 * test_tag_bulk.c - bodies of many tags: each form, every fault with its place, the bounds; in
 * slices the same as whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/tag_bulk.h"

/* Read in slices into the command. */
static int read_into(struct buf *command, const char *body, size_t len, size_t slice,
                     struct body_fault *fault)
{
    struct tag_bulk bulk;
    bool done = false;
    int rv = 0;

    tag_bulk_begin(&bulk, body, len, &(struct command_list){.wall_ms = 1}, command);
    while (rv == 0 && !done) {
        rv = tag_bulk_step(&bulk, slice, &done, fault);
    }
    return rv;
}

static int read_sliced(const char *body, size_t len, size_t slice, struct body_fault *fault)
{
    struct buf command = BUF_INIT;
    char *exact = malloc(len > 0 ? len : 1);
    int rv;

    assert_non_null(exact);
    memcpy(exact, body, len);
    memset(fault, 0, sizeof *fault);
    rv = read_into(&command, exact, len, slice, fault);
    buf_free(&command);
    free(exact);
    return rv;
}

/* Whole and in the smallest slices: the same. */
static int read_bulk(const char *body, size_t len, struct body_fault *fault)
{
    struct body_fault again;
    int rv = read_sliced(body, len, SIZE_MAX, fault);

    assert_int_equal(read_sliced(body, len, 1, &again), rv);
    if (rv != 0) {
        assert_string_equal(again.code, fault->code);
        assert_string_equal(again.message, fault->message);
    }
    return rv;
}

static void test_bulk(void **state)
{
    static const struct {
        const char *body;
        int rv;
        const char *code;
        const char *why;
    } cases[] = {
        {"[{\"tag\":\"a\"}]", 0, NULL, NULL},
        {" \n[{\"tag\":\"a\",\"step\":5},{\"tag\":\"b\"}]\n", 0, NULL, NULL},
        {"{\"tag\":\"a\"}", 0, NULL, NULL},
        {"{\"tag\":\"a\"}\n{\"tag\":\"b\",\"max_id\":7}\n", 0, NULL, NULL},
        {"\n\r\n{\"tag\":\"a\"}\r\n \t\n{\"tag\":\"b\"}", 0, NULL, NULL},
        {"", ERR_INVALID, "bad_json", "empty"},
        {" \n ", ERR_INVALID, "bad_json", "empty"},
        {"[]", ERR_INVALID, "bad_request", "no tags"},
        {"[1]", ERR_INVALID, "bad_request", "item 0: 1 is not an object"},
        {"[{}]", ERR_INVALID, "bad_request", "item 0: the field \"tag\" is missing"},
        {"[{\"tag\":\"a\"},{\"tag\":\"\"}]", ERR_INVALID, "bad_tag", "item 1: bad tag"},
        {"[{\"tag\":5}]", ERR_INVALID, "bad_tag", "item 0: bad tag 5"},
        {"[{\"tag\":\"a\\n\"}]", ERR_INVALID, "bad_tag", "control character"},
        {"[{\"tag\":\"a\",\"step\":0}]", ERR_INVALID, "bad_request", "item 0: step=0"},
        {"[{\"tag\":\"a\"},{\"tag\":\"b\",\"x\":0}]", ERR_INVALID, "bad_request",
         "item 1: unknown field \"x\""},
        {"[{\"tag\":\"a\"},\n{\"tag\"]", ERR_INVALID, "bad_json", "line 2, column"},
        {"[{\"tag\":\"a\"}] x", ERR_INVALID, "bad_json", "line 1"},
        {"{\"tag\":\"a\"}\n{\"tag\":}", ERR_INVALID, "bad_json", "line 2, column"},
        {"{\"tag\":\"a\"}\n\n{\"step\":1}", ERR_INVALID, "bad_request", "line 3: the field"},
        {"{\"tag\":\"a\"}\n{\"tag\":\"b\",\"max_id\":99999999999999999999}", ERR_INVALID,
         "bad_request", "line 2: \"max_id\"="},
        {"{\"tag\":\"a\"} {\"tag\":\"b\"}", ERR_INVALID, "bad_json", "line 1"},
        {"hello", ERR_INVALID, "bad_json", "line 1"},
    };
    struct body_fault fault;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int rv = read_bulk(cases[i].body, strlen(cases[i].body), &fault);

        if (rv != cases[i].rv || (rv != 0 && (strcmp(fault.code, cases[i].code) != 0 ||
                                              strstr(fault.message, cases[i].why) == NULL))) {
            print_error("%s: %d %s %s\n", cases[i].body, rv, rv != 0 ? fault.code : "",
                        rv != 0 ? fault.message : "");
            fail();
        }
    }
}

/* As an array and as lines: the bound, and one more. */
static void test_bulk_bound(void **state)
{
    struct body_fault fault;

    (void)state;
    for (size_t count = LIMIT_TAGS_PER_BULK; count <= LIMIT_TAGS_PER_BULK + 1; count++) {
        struct buf array = BUF_INIT;
        struct buf lines = BUF_INIT;
        int wanted = count > LIMIT_TAGS_PER_BULK ? ERR_INVALID : 0;

        for (size_t i = 0; i < count; i++) {
            buf_printf(&array, "%c{\"tag\":\"t%zu\"}", i > 0 ? ',' : '[', i);
            buf_printf(&lines, "{\"tag\":\"t%zu\"}\n", i);
        }
        buf_put_u8(&array, ']');
        assert_int_equal(read_bulk((char *)array.data, array.len, &fault), wanted);
        assert_int_equal(read_bulk((char *)lines.data, lines.len, &fault), wanted);
        buf_free(&array);
        buf_free(&lines);
    }
    assert_string_equal(fault.code, "bad_request");
    assert_non_null(strstr(fault.message, "the limit is 10000"));
}

/* --- what GET /api/tags has shown --- */

#define SHOWN(name)                                                                                \
    "{\"tag\":\"" name "\",\"max_id\":\"5\",\"step\":5,\"max_step\":6,\"mode\":\"strict\","        \
    "\"changing\":true,\"description\":\"\",\"created\":\"x\",\"updated\":7,\"generation\":2}"

static void test_pages(void **state)
{
    static const struct {
        const char *body;
        const char *text; /* of the fault; NULL: it is good */
    } pages[] = {
        {"{\"tags\":[" SHOWN("a") "],\"next\":null}", NULL},
        {"{\"tags\":[" SHOWN("a") "]}", NULL},
        {" \n{\"tags\":[" SHOWN("a") "],\"next\":\"a\"}{\"tags\":[" SHOWN("b") "," SHOWN(
             "c") "],\"next\":null}\n",
         NULL},
        {"{\"tags\":[],\"next\":\"x\"}\n\n{\"next\":null,\"tags\":[{\"tag\":\"a\"}]}", NULL},
        {"{\"tags\":[],\"next\":null}", "the pages hold no tags"},
        {"{\"tags\":{},\"next\":null}", "\"tags\" is not an array"},
        {"{\"tags\":[],\"next\":3}", "nothing else"},
        {"{\"tags\":[],\"more\":3}", "nothing else"},
        {"{\"tags\":[" SHOWN("a") "]}[]", "page 2 is not what GET /api/tags gives"},
        {"{\"tags\":[" SHOWN("a") "]}{\"tag\":\"b\"}", "page 2 is not"},
        {"{\"tags\":[" SHOWN("a") "]}{\"tags\":[", "page 2: line 1"},
        {"{\"tags\":[" SHOWN("a") "]}{\"tags\":[" SHOWN("b") ",{\"tag\":\"c\",\"step\":0}]}",
         "item 2: step=0"},
        {"{\"tags\":[{\"tag\":\"a\",\"changed\":1}]}", "item 0: unknown field \"changed\""},
        {"{\"tags\":[3]}", "item 0: 3 is not an object"},
        {"{\"tag\":\"a\",\"generation\":2}",
         "unknown field \"generation\""}, /* in this form alone */
        {"[" SHOWN("a") "]", "unknown field"},
    };
    struct body_fault fault;

    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        int rv = read_bulk(pages[i].body, strlen(pages[i].body), &fault);

        if ((rv == 0) != (pages[i].text == NULL) ||
            (rv != 0 && strstr(fault.message, pages[i].text) == NULL)) {
            print_error("%s: %d %s\n", pages[i].body, rv, fault.message);
            fail();
        }
    }
}

/* What is shown is read again as the same fields, whatever the row is. */
static void test_what_is_shown_is_read_again(void **state)
{
    struct tag_row row = {.name = "a\"\\\xc3\xa9",
                          .name_len = 5,
                          .description = "d\n\"",
                          .description_len = 3,
                          .step = 5,
                          .max_step = 6,
                          .mode = TAG_MODE_STRICT,
                          .recalling = true,
                          .max_id = INT64_MAX,
                          .created_ms = 1,
                          .updated_ms = 2,
                          .generation = UINT32_MAX};
    struct body_fault fault;
    struct command read;
    struct tag_put put;
    struct buf command = BUF_INIT;
    struct buf page = BUF_INIT;

    (void)state;
    buf_printf(&page, "{\"tags\":[");
    tag_json_put(&row, false, NULL, 0, &page);
    buf_printf(&page, "],\"next\":null}");
    assert_int_equal(read_into(&command, (char *)page.data, page.len, SIZE_MAX, &fault), 0);
    assert_int_equal(command_read(command.data, command.len, &read), 0);
    assert_true(command_next(&read.list, &put));
    assert_int_equal(put.name_len, row.name_len);
    assert_memory_equal(put.name, row.name, row.name_len);
    assert_memory_equal(put.description, row.description, row.description_len);
    assert_int_equal(put.fields, TAG_FIELD_MAX_ID | TAG_FIELD_STEP | TAG_FIELD_MAX_STEP |
                                     TAG_FIELD_MODE | TAG_FIELD_DESCRIPTION);
    assert_true(put.max_id == row.max_id && put.step == 5 && put.max_step == 6 &&
                put.mode == TAG_MODE_STRICT);
    assert_false(command_next(&read.list, &put));
    buf_free(&command);
    buf_free(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_bulk_bound),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_what_is_shown_is_read_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
