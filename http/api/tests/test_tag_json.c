/*
 * test_tag_json.c - bodies of tags read strictly: every field, every fault with its name and place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/api/tag_json.h"

static int read_one(const char *body, struct body_fault *fault)
{
    struct buf command = BUF_INIT;
    size_t len = strlen(body);
    bool bounded = false;
    char *exact = malloc(len > 0 ? len : 1);
    int rv;

    assert_non_null(exact);
    memcpy(exact, body, len);
    memset(fault, 0, sizeof *fault);
    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.force = false, .wall_ms = 1});
    rv = tag_json_read_one("t", 1, exact, len, &command, &bounded, fault);
    buf_free(&command);
    free(exact);
    return rv;
}

static int read_bulk(const char *body, size_t len, struct body_fault *fault)
{
    struct buf command = BUF_INIT;
    char *exact = malloc(len > 0 ? len : 1);
    bool bounded = false;
    int rv;

    assert_non_null(exact);
    memcpy(exact, body, len);
    memset(fault, 0, sizeof *fault);
    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.force = false, .wall_ms = 1});
    rv = tag_json_read_bulk(exact, len, &command, &bounded, fault);
    buf_free(&command);
    free(exact);
    return rv;
}

static void test_good_bodies(void **state)
{
    static const char *const bodies[] = {
        "",
        "{}",
        " { } \n",
        "{\"step\":1}",
        "{\"step\":1000000000,\"max_step\":1000000000}",
        "{\"max_id\":0}",
        "{\"max_id\":9223372036854775807}",
        "{\"max_id\":\"9223372036854775807\"}",
        "{\"max_id\":\"0\"}",
        "{\"mode\":\"trend\"}",
        "{\"mode\":\"strict\"}",
        "{\"description\":\"\"}",
        "{\"description\":\"d\\u00e9j\\u00e0 \\\"vu\\\"\"}",
        "{\"step\":2,\"max_id\":1,\"max_step\":3,\"mode\":\"trend\",\"description\":\"x\"}",
    };
    struct body_fault fault;

    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        if (read_one(bodies[i], &fault) != 0) {
            print_error("%s: %s\n", bodies[i], fault.message);
            fail();
        }
    }
}

static void test_bad_bodies(void **state)
{
    static const struct {
        const char *body;
        const char *code;
        const char *why;
    } cases[] = {
        {"[]", "bad_request", "an array is not an object"},
        {"1", "bad_request", "1 is not an object"},
        {"null", "bad_request", "null is not an object"},
        {"{", "bad_json", "line 1, column 1"},
        {"{\n \"step\": }", "bad_json", "line 2, column 10"},
        {"{\"step\":1} x", "bad_json", "end of file expected"},
        {"{\"step\":1,\"step\":1}", "bad_json", "duplicate"},
        {"{\"step\":01}", "bad_json", "line 1"},
        {"{\"description\":\"\xff\"}", "bad_json", "line 1"},
        {"{\"description\":\"a\\u0000b\"}", "bad_json", "line 1"},
        {"{\"stpe\":1}", "bad_request", "unknown field \"stpe\""},
        {"{\"tag\":\"t\"}", "bad_request", "unknown field \"tag\""},
        {"{\"Step\":1}", "bad_request", "unknown field \"Step\""},
        {"{\"step\":0}", "bad_request", "step=0 is not a whole number from 1 to 1000000000"},
        {"{\"step\":-1}", "bad_request", "step=-1 is not a whole number"},
        {"{\"step\":1.5}", "bad_request", "step=1.5 is not a whole number"},
        {"{\"step\":1.0}", "bad_request", "step=1 is not a whole number"},
        {"{\"step\":1e3}", "bad_request", "step=1000 is not a whole number"},
        {"{\"step\":\"5\"}", "bad_request", "step=\"5\" is not a whole number"},
        {"{\"step\":true}", "bad_request", "step=true is not a whole number"},
        {"{\"step\":null}", "bad_request", "step=null is not a whole number"},
        {"{\"step\":[1]}", "bad_request", "step=an array is not a whole number"},
        {"{\"step\":1000000001}", "bad_request", "step=1000000001 is not"},
        {"{\"max_step\":0}", "bad_request", "max_step=0 is not a whole number"},
        {"{\"max_step\":1000000001}", "bad_request", "max_step=1000000001 is not"},
        {"{\"max_id\":-1}", "bad_request",
         "max_id=-1 is not a whole number from 0 to "
         "9223372036854775807"},
        {"{\"max_id\":1.5}", "bad_request", "max_id=1.5 is not"},
        {"{\"max_id\":\"\"}", "bad_request", "max_id=\"\" is not"},
        {"{\"max_id\":\"+1\"}", "bad_request", "max_id=\"+1\" is not"},
        {"{\"max_id\":\"-1\"}", "bad_request", "max_id=\"-1\" is not"},
        {"{\"max_id\":\"0x1\"}", "bad_request", "max_id=\"0x1\" is not"},
        {"{\"max_id\":\"9223372036854775808\"}", "bad_request",
         "max_id=\"9223372036854775808\" is not"},
        {"{\"max_id\":9223372036854775808}", "bad_request",
         "\"max_id\"=\"9223372036854775808\" is out of range"},
        {"{\"step\" :\n 99999999999999999999999 , \"max_id\":1}", "bad_request",
         "\"step\"=\"99999999999999999999999\" is out of range"},
        {"{\"max_id\":-9223372036854775809}", "bad_request",
         "\"max_id\"=\"-9223372036854775809\" is out of range"},
        {"{\"max_id\":1e999}", "bad_request", "\"max_id\"=\"1e999\" is out of range"},
        {"[99999999999999999999999]", "bad_json", "too big integer"},
        {"{\"a very long name of a field\":99999999999999999999999}", "bad_json",
         "too big integer"},
        {"{\"mode\":\"Strict\"}", "bad_request", "mode=\"Strict\" is neither \"trend\" nor"},
        {"{\"mode\":1}", "bad_request", "mode=1 is neither \"trend\" nor \"strict\""},
        {"{\"description\":5}", "bad_request", "description=5: description is not a string"},
    };
    struct body_fault fault;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_one(cases[i].body, &fault), ERR_INVALID);
        if (strcmp(fault.code, cases[i].code) != 0 || strstr(fault.message, cases[i].why) == NULL) {
            print_error("%s: %s %s\n", cases[i].body, fault.code, fault.message);
            fail();
        }
    }
}

static void test_description_bound(void **state)
{
    (void)state;
    for (size_t len = LIMIT_TAG_DESCRIPTION_BYTES; len <= LIMIT_TAG_DESCRIPTION_BYTES + 1; len++) {
        struct body_fault fault;
        char body[LIMIT_TAG_DESCRIPTION_BYTES + 32];
        char text[LIMIT_TAG_DESCRIPTION_BYTES + 2] = {0};

        memset(text, 'd', len);
        snprintf(body, sizeof(body), "{\"description\":\"%s\"}", text);
        assert_int_equal(read_one(body, &fault),
                         len > LIMIT_TAG_DESCRIPTION_BYTES ? ERR_INVALID : 0);
    }
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
    bool bounded = false;
    struct buf command = BUF_INIT;
    struct buf page = BUF_INIT;

    (void)state;
    buf_printf(&page, "{\"tags\":[");
    tag_json_put(&row, &page);
    buf_printf(&page, "],\"next\":null}");
    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.wall_ms = 1});
    assert_int_equal(tag_json_read_bulk(page.data, page.len, &command, &bounded, &fault), 0);
    command_items_end(&command);
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

static void test_put_row(void **state)
{
    struct tag_row row = {.name = "a\"b",
                          .name_len = 3,
                          .step = 5,
                          .max_step = 6,
                          .max_id = INT64_MAX,
                          .created_ms = 1795172638123,
                          .updated_ms = 1795172638124,
                          .generation = 2};
    struct buf buf = BUF_INIT;

    (void)state;
    tag_json_put(&row, &buf);
    buf_put_u8(&buf, 0);
    assert_string_equal((char *)buf.data,
                        "{\"tag\":\"a\\\"b\",\"max_id\":\"9223372036854775807\",\"step\":5,"
                        "\"max_step\":6,\"mode\":\"trend\",\"description\":\"\","
                        "\"created\":\"2026-11-20T11:03:58.123Z\","
                        "\"updated\":\"2026-11-20T11:03:58.124Z\",\"generation\":2}");
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_bodies),
        cmocka_unit_test(test_bad_bodies),
        cmocka_unit_test(test_description_bound),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_bulk_bound),
        cmocka_unit_test(test_put_row),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_what_is_shown_is_read_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
