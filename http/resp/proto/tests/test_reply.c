/*
 * test_reply.c - the bytes of replies, in both versions. Thread: one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "http/resp/proto/bytes.h"

/* What was appended, and from then on nothing. */
static void expect(struct buf *out, const char *wanted)
{
    buf_put_u8(out, 0);
    assert_string_equal((const char *)out->data, wanted);
    buf_free(out);
}

static void test_same_in_both(void **state)
{
    struct buf out = BUF_INIT;

    (void)state;
    reply_integer(&out, 0);
    reply_integer(&out, INT64_MAX);
    expect(&out, ":0\r\n:9223372036854775807\r\n");
    reply_simple(&out, "OK");
    expect(&out, "+OK\r\n");
    reply_bulk(&out, "a\r\nb", 4);
    reply_bulk(&out, NULL, 0);
    reply_text(&out, "text");
    expect(&out, "$4\r\na\r\nb\r\n$0\r\n\r\n$4\r\ntext\r\n");
    reply_array(&out, 2);
    reply_ids(&out, 9, 2);
    expect(&out, "*2\r\n:9\r\n:10\r\n");
}

static void test_what_differs(void **state)
{
    struct buf out = BUF_INIT;

    (void)state;
    reply_nil(&out, 2);
    reply_map(&out, 2, 3);
    reply_lines(&out, 2, "a\n", 2);
    expect(&out, "$-1\r\n*6\r\n$2\r\na\n\r\n");
    reply_nil(&out, 3);
    reply_map(&out, 3, 3);
    reply_lines(&out, 3, "a\n", 2);
    expect(&out, "_\r\n%3\r\n=6\r\ntxt:a\n\r\n");
}

/* An error is one line, whatever is in it. */
static void test_errors(void **state)
{
    struct buf out = BUF_INIT;

    (void)state;
    reply_failure(&out, "ERR", "bad_tag", "one\r\n+OK\r\ntwo");
    expect(&out, "-ERR bad_tag: one  +OK  two\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_in_both),
        cmocka_unit_test(test_what_differs),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
