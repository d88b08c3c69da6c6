/*
 * test_log_json.c - every line becomes one JSON object, whatever is in it and wherever it is cut.
 *
 * Thread: one.
 */
#include <stdbool.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/log.h"
#include "src/base/prng.h"

#define ROOM 4096

static void expect(const char *fields, const char *wanted)
{
    char out[ROOM + 1];
    size_t len = log_json(fields, strlen(fields), out, ROOM);

    out[len] = '\0';
    assert_string_equal(out, wanted);
}

static void test_values(void **state)
{
    (void)state;
    expect("", "{}");
    expect("a=b", "{\"a\":\"b\"}");
    expect("time=2026-11-20T11:03:58.123Z level=info node=1 at=raft msg=\"this node leads\" term=4",
           "{\"time\":\"2026-11-20T11:03:58.123Z\",\"level\":\"info\",\"node\":1,\"at\":\"raft\","
           "\"msg\":\"this node leads\",\"term\":4}");
    expect("a=-5 b=0 c=007 d=1.5 e=999999999999999 f=9999999999999999 g=- h=1x",
           "{\"a\":-5,\"b\":0,\"c\":\"007\",\"d\":\"1.5\",\"e\":999999999999999,"
           "\"f\":\"9999999999999999\",\"g\":\"-\",\"h\":\"1x\"}");
    expect("a=\"1\" b=\"\" c= d_2=x", "{\"a\":\"1\",\"b\":\"\",\"c\":\"\",\"d_2\":\"x\"}");
    expect("a=\"bare \"quotes\" within\" b=1", "{\"a\":\"bare \\\"quotes\\\" within\",\"b\":1}");
    expect("a=\"cut", "{\"a\":\"cut\"}");
    expect("no key at all \"x\"", "{\"rest\":\"no key at all \\\"x\\\"\"}");
    expect("a=1 ...", "{\"a\":1,\"rest\":\"...\"}");
}

static void test_what_log_quote_escaped_is_meant(void **state)
{
    static const char text[] = "x\" b=1\nlevel=error \\ \x7f caf\xc3\xa9 \xe2\x80\xae end";
    char line[256] = "a=";

    (void)state;
    (void)log_quote(text, sizeof text - 1, line + 2, sizeof line - 2);
    expect(line, "{\"a\":\"x\\\" b=1\\u000alevel=error \\\\ \\u007f caf\xc3\xa9 \\u202e end\"}");
    expect("a=\"\\q \\x1 \\\"", "{\"a\":\"\\\\q \\\\x1 \\\"\"}");
    expect("a=\xff\xc3", "{\"a\":\"\\ufffd\\ufffd\"}");
}

/* Read an object as strictly as need be: strings and numbers, nothing behind it. */
static bool is_object(const char *at, const char *end)
{
    bool in_string = false;

    if (at == end || *at++ != '{' || end[-1] != '}') {
        return false;
    }
    for (; at < end - 1; at++) {
        if (in_string && *at == '\\') {
            at++;
            if (at >= end - 1 || strchr("\"\\u", *at) == NULL) {
                return false;
            }
        } else if (*at == '"') {
            in_string = !in_string;
        } else if ((unsigned char)*at < 0x20 ||
                   (!in_string && strchr(":,-0123456789", *at) == NULL)) {
            return false;
        }
    }
    return !in_string && at == end - 1 && end[-2] != ':' && end[-2] != ',';
}

static void test_any_bytes_in_any_room(void **state)
{
    static const char often[] = "ab=\"\\ x1u,{}:\n\xc3\xa9\xff";
    char fields[300];
    char out[ROOM];
    struct prng prng;

    (void)state;
    prng_seed(&prng, 3);
    for (unsigned round = 0; round < 20000; round++) {
        size_t len = prng_below(&prng, sizeof fields);
        size_t room = LOG_JSON_BYTES_MIN + prng_below(&prng, 300);
        size_t got;

        for (size_t i = 0; i < len; i++) {
            fields[i] = often[prng_below(&prng, sizeof often)];
        }
        memset(out, 'x', sizeof out);
        got = log_json(fields, len, out, room);
        assert_true(got <= room && out[room] == 'x');
        if (!is_object(out, out + got)) {
            fail_msg("round %u: %.*s", round, (int)got, out);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_what_log_quote_escaped_is_meant),
        cmocka_unit_test(test_any_bytes_in_any_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
