/*
 * test_json.c - JSON: how far a value goes, tags read and written, many tags in one body.
 *
 * Where values end; each bound, and one beyond; and that nothing large is ever made of a body,
 * whatever it is.
 *
 * Bodies of tags read strictly: every field, every fault with its name and place.
 *
 * Bodies of many tags: each form, every fault with its place, the bounds; in slices the same as
 * whole.
 *
 * Shows P8-memory, attack-json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/api/json.h"

/* --- scan --- */

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

    bulk = (struct tag_bulk){.text = (const char *)body->data,
                             .len = body->len,
                             .head = {.wall_ms = 1},
                             .command = &command};
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

/* --- tag --- */

static int read_one(const char *body, struct body_fault *fault)
{
    struct buf command = BUF_INIT;
    size_t len = strlen(body);
    char *exact = malloc(len > 0 ? len : 1);
    int rv;

    assert_non_null(exact);
    memcpy(exact, body, len);
    memset(fault, 0, sizeof *fault);
    rv = tag_json_read_one("t", 1, exact, len, &(struct command_list){.wall_ms = 1}, &command,
                           fault);
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
        {"{\"step\":1.0}", "bad_request", "step has a fraction or an exponent: write \"step\":1"},
        {"{\"step\":1e3}", "bad_request", "write \"step\":1000"},
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
        {"{\"max_id\":9007199254740993.0}", "bad_request", "is not exact from 2^53 on"},
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
        {"{\"mode\":\"Strict\"}", "bad_request",
         "mode=\"Strict\" is none of \"trend\", \"strict\""},
        {"{\"mode\":1}", "bad_request",
         "mode=1 is none of \"trend\", \"strict\" and \"monotonic\""},
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
    tag_json_put(&row, false, NULL, 0, &buf);
    buf_put_u8(&buf, 0);
    assert_string_equal((char *)buf.data,
                        "{\"tag\":\"a\\\"b\",\"max_id\":\"9223372036854775807\",\"step\":5,"
                        "\"max_step\":6,\"mode\":\"trend\","
                        "\"warning\":\"less than 10 % of the ids below 2^63 are left\","
                        "\"description\":\"\","
                        "\"created\":\"2026-11-20T11:03:58.123Z\","
                        "\"updated\":\"2026-11-20T11:03:58.124Z\",\"generation\":2}");
    buf_free(&buf);
}

/* By the period that it is, whatever period the tag was last used in. */
static void test_a_dated_tag_warns(void **state)
{
    static const struct {
        const char *shape;
        uint64_t max_id;
        const char *warning; /* NULL: none */
    } cases[] = {
        /* it is 2026-11-20T11:03:58Z */
        {"{year}{id:3}", 2026900, NULL},
        {"{year}{id:3}", 2026901,
         "numbers of 2026 are left; the tag counts from 1 again on "
         "2027-01-01 (UTC)"},
        {"{year}{id:3}", 2027000, "numbers of 2026 are left"},
        {"{year}{id:3}", 2028950,
         "numbers of 2028 are left; the tag counts from 1 again after 2028 (UTC)"},
        {"{year}{month}{id:3}", 202699950, "counts from 1 again after 202699 (UTC)"},
        {"{year}{id:3}", 2025999, NULL},
        {"{year}{month}{id:3}", 202611950,
         "numbers of 202611 are left; the tag counts from 1 "
         "again on 2026-12-01 (UTC)"},
        {"{year@Pacific/Auckland}{month}{day}{id:2}", 2026112099, NULL},
        {"{year@Pacific/Auckland}{month}{day}{id:2}", 2026112199,
         "numbers of 20261121 are left; the tag counts from 1 again on 2026-11-22 "
         "(Pacific/Auckland)"},
        {"{year@No/Zone}{id:3}", 2026999, NULL},
        {"{id:3}", 999, NULL},
    };
    struct zones *zones = zones_new();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tag_row row = {.name = "a",
                                    .name_len = 1,
                                    .step = 5,
                                    .max_step = 6,
                                    .mode = TAG_MODE_STRICT,
                                    .shape = cases[i].shape,
                                    .shape_len = (uint16_t)strlen(cases[i].shape),
                                    .max_id = cases[i].max_id};
        struct buf buf = BUF_INIT;
        const char *warning;

        tag_json_put(&row, false, zones, 1795172638123 + 43200000 * (i == 7 || i == 8), &buf);
        buf_put_u8(&buf, 0);
        warning = strstr((char *)buf.data, "warning");
        if ((warning != NULL) != (cases[i].warning != NULL) ||
            (warning != NULL && strstr(warning, cases[i].warning) == NULL)) {
            fail_msg("case %zu: %s", i, (char *)buf.data);
        }
        buf_free(&buf);
    }
    zones_free(zones);
}

/* --- bulk --- */

/* Read in slices into the command. */
static int read_into(struct buf *command, const char *body, size_t len, size_t slice,
                     struct body_fault *fault)
{
    struct tag_bulk bulk;
    bool done = false;
    int rv = 0;

    bulk = (struct tag_bulk){.text = body, .len = len, .head = {.wall_ms = 1}, .command = command};
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
        cmocka_unit_test(test_ends),       cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_memory),     cmocka_unit_test(test_good_bodies),
        cmocka_unit_test(test_bad_bodies), cmocka_unit_test(test_description_bound),
        cmocka_unit_test(test_put_row),    cmocka_unit_test(test_a_dated_tag_warns),
        cmocka_unit_test(test_bulk),       cmocka_unit_test(test_bulk_bound),
        cmocka_unit_test(test_pages),      cmocka_unit_test(test_what_is_shown_is_read_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
