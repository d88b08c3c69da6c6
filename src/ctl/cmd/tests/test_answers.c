/*
 * test_answers.c - fields of answers, forms, and JSON.
 */
#include "src/ctl/cmd/command.h"

#include "src/tests/unit/test.h"

static json_t *load(const char *text)
{
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(json);
    return json;
}

static void test_fields(void **state)
{
    json_t *json =
        load("{\"a\":1,\"b\":\"2\",\"c\":\"x\",\"d\":null,\"e\":-3,\"f\":1e30,\"g\":[]}");

    (void)state;
    assert_int_equal(field_number(json, "a", 9), 1);
    assert_int_equal(field_number(json, "b", 9), 2);
    assert_int_equal(field_number(json, "c", 9), 9);
    assert_int_equal(field_number(json, "d", 9), 9);
    assert_int_equal(field_number(json, "e", 9), -3);
    assert_int_equal(field_number(json, "f", 9), 9);
    assert_int_equal(field_number(json, "g", 9), 9);
    assert_int_equal(field_number(NULL, "a", 9), 9);
    assert_null(field_text(json, "a"));
    assert_int_equal(field_count(json, "a"), 0);
    json_decref(json);
}

static void test_forms(void **state)
{
    static const struct {
        const char *form;
        const char *text;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"{a} {b} {c.d} {no} {n}", "x y\\x0a z - -"},
        {"{n:n} {no:n} {s:n} {a:n}", "7 0 8 0"},
        {"{n:int} {no:int} {a:int}", "7 - -"},
        {"{a:3}|{b:1}|", "x  |y\\x0a|"},
        {"{n:signed} {big:age} {big:bytes} {big:ms} {big:time} {zero:time} {no:bytes}",
         "+7 ms 2 min 117.7 KiB 120.5 ms 1970-01-01T00:02:00.500Z - -"},
        {"{zero:date} {no:date}", "1970-01-01T00:00:00.000Z -"},
        {"{yes:!word}{no:!word}{n:!word}", "word"},
    };
    json_t *json = load("{\"a\":\"x\",\"b\":\"y\\n\",\"c\":{\"d\":\"z\"},\"n\":7,\"s\":\"8\","
                        "\"big\":120500,\"zero\":0,\"yes\":true}");

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buf out = BUF_INIT;

        ctl_put_form(&out, cases[i].form, json);
        assert_string_equal(buf_text(&out), cases[i].text);
        out.len = 0;
        ctl_put_form(&out, cases[i].form, NULL);
        buf_free(&out);
    }
    json_decref(json);
}

/* Nothing that an answer has, or lacks, ends leafctl; and DEL does not reach a terminal. */
static void test_json_of_any_answer(void **state)
{
    struct ctl ctl = {.json = true};
    json_t *json = load("{\"a\":\"\\u007f\\u009b\"}");

    (void)state;
    ctl_put_json(&ctl, json);
    ctl_put_json(&ctl, json_object_get(json, "members"));
    assert_string_equal(buf_text(&ctl.out), "{\"a\":\"\\u007f\\u009B\"}\nnull\n");
    buf_free(&ctl.out);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_json_of_any_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
