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
                        "\"max_step\":6,\"mode\":\"trend\",\"description\":\"\","
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

        tag_json_put(&row, false, zones, 1795172638123 + 43200000 * (i == 5 || i == 6), &buf);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_bodies),       cmocka_unit_test(test_bad_bodies),
        cmocka_unit_test(test_description_bound), cmocka_unit_test(test_put_row),
        cmocka_unit_test(test_a_dated_tag_warns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
