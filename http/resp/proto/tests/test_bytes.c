/*
 * test_bytes.c - the bytes of RESP: requests and replies.
 *
 * Requests of RESP as bytes: what they are read as, however they are cut, and what is refused
 * where.
 *
 * The bytes of replies, in both versions. Thread: one.
 *
 * Thread: one.
 *
 * Shows attack-resp.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/resp/proto/bytes.h"
#include "src/base/assert.h"
#include "src/base/buf.h"

/* --- words --- */

/* Of a copy without a byte to spare, so that a look beyond the end is seen. */
static enum words_result read_copy(const char *data, size_t len, struct words *words,
                                   struct parser_reject *reject)
{
    char *copy = malloc(len + (len == 0));
    enum words_result result;

    ASSERT(copy != NULL);
    memcpy(copy, data, len);
    memset(words, 0xa5, sizeof *words);
    result = words_read(copy, len, words, reject);
    free(copy);
    return result;
}

/* All of the bytes are a request of these words ("a|b"); the beginnings of it are not whole. */
static void expect_words(const char *data, size_t len, const char *wanted)
{
    struct parser_reject reject;
    struct words words;
    struct buf found = BUF_INIT;

    for (size_t cut = 0; cut < len; cut++) {
        assert_int_equal(read_copy(data, cut, &words, &reject), WORDS_MORE);
    }
    assert_int_equal(read_copy(data, len, &words, &reject), WORDS_DONE);
    assert_int_equal(words.len, len);
    for (uint32_t i = 0; i < words.count; i++) {
        buf_put(&found, "|", i > 0);
        buf_put(&found, data + words.word[i].at, words.word[i].len);
    }
    assert_int_equal(found.len, strlen(wanted));
    assert_memory_equal(found.data, wanted, found.len);
    buf_free(&found);
}

/* Refused for this reason, from the byte at `from` on and not before. */
static void expect_refused(const char *data, size_t len, size_t from, const char *why)
{
    struct parser_reject reject = {0};
    struct words words;

    for (size_t cut = 0; cut < from; cut++) {
        assert_int_equal(read_copy(data, cut, &words, &reject), WORDS_MORE);
    }
    for (size_t cut = from; cut <= len; cut++) {
        assert_int_equal(read_copy(data, cut, &words, &reject), WORDS_REJECT);
        assert_string_equal(reject.code, "bad_request");
        assert_non_null(strstr(reject.why, why));
    }
}

#define WORDS(text, wanted) expect_words(text, sizeof(text) - 1, wanted)
#define REFUSED(text, from, why) expect_refused(text, sizeof(text) - 1, from, why)

static void test_arrays(void **state)
{
    (void)state;
    WORDS("*1\r\n$4\r\nPING\r\n", "PING");
    WORDS("*2\r\n$4\r\nINCR\r\n$5\r\norder\r\n", "INCR|order");
    WORDS("*3\r\n$6\r\nINCRBY\r\n$1\r\na\r\n$2\r\n10\r\n", "INCRBY|a|10");
    WORDS("*2\r\n$0\r\n\r\n$0\r\n\r\n", "|");
    WORDS("*1\r\n$4\r\n\r\n\r\n\r\n", "\r\n\r\n");
    WORDS("*02\r\n$0004\r\nECHO\r\n$1\r\n*\r\n", "ECHO|*");
}

static void test_lines(void **state)
{
    (void)state;
    WORDS("PING\r\n", "PING");
    WORDS("PING\n", "PING");
    WORDS("  INCR \t order  \r\n", "INCR|order");
    WORDS("INCRBY order 10\n", "INCRBY|order|10");
    WORDS("GET http/1.1\r\n", "GET|http/1.1");
}

static void test_what_is_behind_is_left(void **state)
{
    static const char two[] = "*1\r\n$4\r\nPING\r\nPING\r\n";
    struct parser_reject reject;
    struct words words;

    (void)state;
    assert_int_equal(read_copy(two, sizeof two - 1, &words, &reject), WORDS_DONE);
    assert_int_equal(words.len, 14);
    assert_int_equal(read_copy(two + 14, sizeof two - 15, &words, &reject), WORDS_DONE);
    assert_int_equal(words.len, 6);
}

static void test_nothing(void **state)
{
    static const char *const texts[] = {"\r\n", "\n", "  \r\n", "*0\r\n", "\t\n"};
    struct parser_reject reject;
    struct words words;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t len = strlen(texts[i]);

        for (size_t cut = 0; cut < len; cut++) {
            assert_int_equal(read_copy(texts[i], cut, &words, &reject), WORDS_MORE);
        }
        assert_int_equal(read_copy(texts[i], len, &words, &reject), WORDS_NOTHING);
        assert_int_equal(words.len, len);
    }
}

static void test_hostile_lengths(void **state)
{
    (void)state;
    REFUSED("*-1\r\n", 2, "not a whole number");
    REFUSED("*1000000000\r\n", 4, "too many words");
    REFUSED("*9223372036854775808\r\n", 3, "too many words");
    REFUSED("*18446744073709551617\r\n", 4, "too many words");
    REFUSED("*00000000001\r\n", 12, "too many words");
    REFUSED("*x\r\n", 2, "not a whole number");
    REFUSED("*\r\n", 2, "not a whole number");
    REFUSED("*1\n$4\r\n", 3, "not a whole number");
    REFUSED("*1\r$4\r\n", 4, "not a whole number");
    REFUSED("*1\r\n$-1\r\n", 6, "not a whole number");
    REFUSED("*1\r\n$9223372036854775808\r\n", 9, "too long");
    REFUSED("*1\r\n$1000000000\r\n", 10, "too long");
    REFUSED("*1\r\n$+4\r\nPING\r\n", 6, "not a whole number");
    REFUSED("*1\r\n$ 4\r\nPING\r\n", 6, "not a whole number");
}

static void test_other_shapes(void **state)
{
    (void)state;
    REFUSED("*1\r\n*1\r\n$4\r\nPING\r\n", 5, "$ is missing");
    REFUSED("*2\r\n$4\r\nINCR\r\n:1\r\n", 15, "$ is missing");
    REFUSED("*1\r\n+PING\r\n", 5, "$ is missing");
    REFUSED("*1\r\n$4\r\nPINGX\r\n", 13, "does not end in CR LF");
    REFUSED("*1\r\n$4\r\nPING\rX", 14, "does not end in CR LF");
    REFUSED("SET \"a b\" 1\r\n", 13, "a quote or a control character");
    REFUSED("SET 'a' 1\r\n", 11, "a quote or a control character");
    REFUSED("PI\0NG\r\n", 7, "a quote or a control character");
    REFUSED("PING\r\r\n", 7, "a quote or a control character");
}

/* What a browser sends before the words that a web page has chosen. */
static void test_http(void **state)
{
    (void)state;
    REFUSED("POST / HTTP/1.1\r\nHost: a\r\n\r\nINCR a\r\n", 17, "HTTP is served at http.listen");
    REFUSED("GET / HTTP/1.0\n", 15, "HTTP is served at http.listen");
}

/* count words of one byte each, the last of them so much longer; or as a line. */
static void put_words(struct buf *out, unsigned count, bool line)
{
    out->len = 0;
    if (!line) {
        buf_printf(out, "*%u\r\n", count);
    }
    for (unsigned i = 0; i < count; i++) {
        buf_printf(out, line ? "a " : "$1\r\na\r\n");
    }
    if (line) {
        buf_printf(out, "\r\n");
    }
}

static void test_bound_of_words(void **state)
{
    struct parser_reject reject = {0};
    struct words words;
    struct buf out = BUF_INIT;

    (void)state;
    for (unsigned line = 0; line < 2; line++) {
        put_words(&out, LIMIT_RESP_WORDS, line == 1);
        assert_int_equal(read_copy((char *)out.data, out.len, &words, &reject), WORDS_DONE);
        assert_int_equal(words.count, LIMIT_RESP_WORDS);
        put_words(&out, LIMIT_RESP_WORDS + 1, line == 1);
        assert_int_equal(read_copy((char *)out.data, out.len, &words, &reject), WORDS_REJECT);
        assert_int_equal(reject.limit, LIMIT_RESP_WORDS);
    }
    buf_free(&out);
}

static void test_bound_of_bytes(void **state)
{
    struct parser_reject reject = {0};
    struct words words;
    struct buf out = BUF_INIT;
    size_t head;

    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        out.len = 0;
        buf_printf(&out, "*1\r\n$%zu\r\n", (size_t)LIMIT_RESP_BYTES - 13 + more);
        head = out.len;
        assert_int_equal(head, 11);
        while (out.len < LIMIT_RESP_BYTES - 2 + more) {
            buf_put_u8(&out, 'x');
        }
        buf_printf(&out, "\r\n");
        assert_int_equal(out.len, LIMIT_RESP_BYTES + more);
        /* One that is too long is refused as soon as it says so. */
        assert_int_equal(read_copy((char *)out.data, head, &words, &reject),
                         more == 0 ? WORDS_MORE : WORDS_REJECT);
        assert_int_equal(read_copy((char *)out.data, out.len, &words, &reject),
                         more == 0 ? WORDS_DONE : WORDS_REJECT);
    }
    out.len = 0;
    while (out.len < LIMIT_RESP_BYTES - 1) {
        buf_put_u8(&out, 'x');
    }
    assert_int_equal(read_copy((char *)out.data, out.len, &words, &reject), WORDS_MORE);
    buf_put_u8(&out, '\n');
    assert_int_equal(read_copy((char *)out.data, out.len, &words, &reject), WORDS_DONE);
    out.data[out.len - 1] = 'x';
    assert_int_equal(read_copy((char *)out.data, out.len, &words, &reject), WORDS_REJECT);
    assert_int_equal(reject.limit, LIMIT_RESP_BYTES);
    buf_free(&out);
}

/* --- reply --- */

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
    reply_bulk(&out, "text", 4);
    expect(&out, "$4\r\na\r\nb\r\n$0\r\n\r\n$4\r\ntext\r\n");
    reply_array(&out, 2);
    reply_integer(&out, 9);
    reply_integer(&out, 10);
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
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_what_is_behind_is_left),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_hostile_lengths),
        cmocka_unit_test(test_other_shapes),
        cmocka_unit_test(test_http),
        cmocka_unit_test(test_bound_of_words),
        cmocka_unit_test(test_bound_of_bytes),
        cmocka_unit_test(test_same_in_both),
        cmocka_unit_test(test_what_differs),
        cmocka_unit_test(test_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
