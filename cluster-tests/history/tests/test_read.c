/*
 * test_read.c - histories as text: what is read is what was written; what is malformed is
 * refused with its line.
 *
 * Thread: one.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "cluster-tests/history/check.h"
#include "cluster-tests/history/history.h"
#include "cluster-tests/history/read.h"

#define OP "op\tt\tc\t"

/* Read a text as the file "f"; the error's text goes to why. */
static int read_text(struct history *history, const char *text, size_t len, char why[256])
{
    int fd = memfd_create("history", MFD_CLOEXEC);
    FILE *file = fdopen(fd, "r");
    struct buf said = BUF_INIT;
    int err;

    assert_non_null(file);
    assert_int_equal(write(fd, text, len), len);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    err = history_read(history, file, "f", &said);
    assert_int_equal(err == 0, said.len == 0);
    snprintf(why, 256, "%s", said.len > 0 ? (const char *)said.data : "");
    buf_free(&said);
    (void)fclose(file);
    return err;
}

static void expect_read(struct history *history, const char *text)
{
    char why[256];
    int err = read_text(history, text, strlen(text), why);

    assert_string_equal(why, "");
    assert_int_equal(err, 0);
}

static void test_operations_are_read(void **state)
{
    struct history *history = history_new();
    const struct history_entry *entries;

    (void)state;
    expect_read(history, "# comment\n"
                         "op\tb \xc3\xa4/\xe2\x82\xac\tc one\t5\t18446744073709551614\t7\t3\n"
                         "\n"
                         "tag\ta\tstrict\t0\n"
                         "op\ta\tc2\t0\t-\t-\t4294967295\tkey\n"
                         "tag\tb \xc3\xa4/\xe2\x82\xac\ttrend\n"
                         "tag\tm\tmonotonic\t7\n"
                         "op\ta\tc one\t1\t1\t9223372036854775806\t1\tkey\n");
    assert_int_equal(history_tag(history, "b \xc3\xa4/\xe2\x82\xac", 8), 0);
    assert_int_equal(history_tag(history, "a", 1), 1);
    assert_int_equal(history_client(history, "c one", 5), 0);
    assert_int_equal(history_client(history, "c2", 2), 1);
    assert_int_equal(history_axis(history, 0)->count, 1);
    assert_int_equal(history_axis(history, 1)->count, 2);
    assert_int_equal(history_axis(history, 0)->mode, HISTORY_TREND);
    assert_int_equal(history_axis(history, 1)->mode, HISTORY_STRICT);
    assert_int_equal(history_axis(history, 1)->start, 0);
    assert_int_equal(history_axis(history, 2)->mode, HISTORY_MONOTONIC);
    assert_int_equal(history_axis(history, 2)->start, 7);
    entries = history_axis(history, 0)->entries;
    assert_int_equal(entries[0].sent, 5);
    assert_true(entries[0].received == UINT64_MAX - 1);
    assert_int_equal(entries[0].first, 7);
    assert_int_equal(entries[0].count, 3);
    assert_int_equal(entries[0].key, 0);
    entries = history_axis(history, 1)->entries;
    assert_false(history_answered(&entries[0]));
    assert_int_equal(entries[0].count, UINT32_MAX);
    assert_int_equal(entries[0].client, 1);
    assert_true(entries[0].key != 0 && entries[0].key == entries[1].key);
    assert_true(entries[1].first == HISTORY_LAST_ID);
    history_free(history);
}

static void test_files_add_up(void **state)
{
    struct history *history = history_new();
    struct history_report report;

    (void)state;
    expect_read(history, "");
    expect_read(history, "tag\tt\tstrict\n" OP "1\t2\t2\t1\n");
    expect_read(history, "tag\tt\tstrict\n" OP "3\t4\t1\t1\n");
    assert_false(history_check(history, 1, &report));
    assert_int_equal(report.found[HISTORY_NOT_STRICT], 1);
    assert_int_equal(report.operations, 2);
    buf_free(&report.text);
    history_free(history);
}

static void test_malformed_lines_are_refused(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"x\n", "f:1: a line begins"},
        {"\n\nOP\n", "f:3: a line begins"},
        {"op \tt\tc\t1\t2\t3\t4\n", "f:1: a line begins"},
        {OP "1\t2\t3\t1\n" OP "1\t2\t3\n", "f:2: an operation has"},
        {"op\n", "f:1: an operation has"},
        {OP "1\t2\t3\t1\tkey\tmore\n", "f:1: an operation has"},
        {OP "1\t2\t3\t1\tkey\tmore\tand more\n", "f:1: an operation has"},
        {OP "1\t2\t3\t1\t\n", "f:1: the tag, client or key is empty"},
        {"op\t\tc\t1\t2\t3\t1\n", "f:1: the tag, client or key is empty"},
        {"op\tt\t\t1\t2\t3\t1\n", "f:1: the tag, client or key is empty"},
        {OP "-1\t2\t3\t1\n", "f:1: the time of the request"},
        {OP "-\t2\t3\t1\n", "f:1: the time of the request"},
        {OP "+1\t2\t3\t1\n", "f:1: the time of the request"},
        {OP "1.5\t2\t3\t1\n", "f:1: the time of the request"},
        {OP " 1\t2\t3\t1\n", "f:1: the time of the request"},
        {OP "18446744073709551615\t-\t-\t1\n", "f:1: the time of the request"},
        {OP "1\t18446744073709551615\t3\t1\n", "f:1: the time of the reply is"},
        {OP "1\t18446744073709551616\t3\t1\n", "f:1: the time of the reply is"},
        {OP "1\t99999999999999999999\t3\t1\n", "f:1: the time of the reply is"},
        {OP "2\t1\t3\t1\n", "f:1: the reply came before"},
        {OP "1\t-\t3\t1\n", "f:1: either the time"},
        {OP "1\t2\t-\t1\n", "f:1: either the time"},
        {OP "1\t2\tx\t1\n", "f:1: the first id"},
        {OP "1\t2\t3\t0\n", "f:1: the count"},
        {OP "1\t2\t3\t-\n", "f:1: the count"},
        {OP "1\t2\t3\t4294967296\n", "f:1: the count"},
        {OP "1\t2\t9223372036854775807\t1\n", "f:1: the ids go beyond"},
        {OP "1\t2\t9223372036854775806\t2\n", "f:1: the ids go beyond"},
        {OP "1\t2\t18446744073709551615\t2\n", "f:1: the ids go beyond"},
        {OP "1\t2\t3\t1", "f:1: the last line has no end"},
        {OP "1\t2\t3\t1\n# cut", "f:2: the last line has no end"},
        {OP "1\t2\t3\t1\r\n", "f:1: a control character"},
        {"op\tt\x7f\tc\t1\t2\t3\t1\n", "f:1: a control character"},
        {"tag\tt\n", "f:1: a tag line"},
        {"tag\tt\tstrict\t1\t2\n", "f:1: a tag line"},
        {"tag\t\tstrict\n", "f:1: the tag's name"},
        {"tag\tt\tSTRICT\n", "f:1: the mode"},
        {"tag\tt\tstrictly\n", "f:1: the mode"},
        {"tag\tt\tmonotone\n", "f:1: the mode"},
        {"tag\tt\ttrend\t1\n", "f:1: only a strict or monotonic tag"},
        {"tag\tt\tmonotonic\tx\n", "f:1: the start"},
        {"tag\tt\tmonotonic\ntag\tt\tstrict\n", "f:2: another line said"},
        {"tag\tt\tstrict\tx\n", "f:1: the start"},
        {"tag\tt\tstrict\t\n", "f:1: the start"},
        {"tag\tt\tstrict\t9223372036854775807\n", "f:1: the start"},
        {"tag\tt\tstrict\ntag\tt\ttrend\n", "f:2: another line said"},
        {"tag\tt\tstrict\ntag\tt\tstrict\t1\n", "f:2: another line said"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct history *history = history_new();
        char why[256];

        assert_int_equal(read_text(history, cases[i].text, strlen(cases[i].text), why),
                         ERR_INVALID);
        why[strlen(cases[i].why)] = '\0';
        assert_string_equal(why, cases[i].why);
        history_free(history);
    }
}

static void test_a_zero_byte_is_refused(void **state)
{
    const char text[] = OP "1\t2\t3\t1\0\n";
    struct history *history = history_new();
    char why[256];

    (void)state;
    assert_int_equal(read_text(history, text, sizeof text - 1, why), ERR_INVALID);
    assert_string_equal(why, "f:1: a control character");
    history_free(history);
}

static void expect_names(size_t len, bool good)
{
    static char text[2 * HISTORY_LINE_BYTES];
    struct history *history = history_new();
    size_t tag_len = 0;
    char why[256];
    int used;

    memset(text, 'n', sizeof text);
    memcpy(text, "op\t", 3);
    used = snprintf(text + 3 + len, sizeof text - 3 - len, "\tc\t1\t2\t3\t1\n");
    assert_int_equal(read_text(history, text, 3 + len + (size_t)used, why), good ? 0 : ERR_INVALID);
    assert_int_equal(history_undeclared(history, &tag_len) != NULL, good);
    assert_int_equal(tag_len, good ? len : 0);
    history_free(history);
}

static void test_lengths_are_bounded(void **state)
{
    static char text[3 * HISTORY_LINE_BYTES];
    struct history *history = history_new();
    char why[256];

    (void)state;
    expect_names(HISTORY_NAME_BYTES, true);
    expect_names(HISTORY_NAME_BYTES + 1, false);
    memset(text, '#', sizeof text);
    text[HISTORY_LINE_BYTES - 1] = '\n';
    assert_int_equal(read_text(history, text, HISTORY_LINE_BYTES, why), 0);
    text[HISTORY_LINE_BYTES - 1] = '#';
    text[HISTORY_LINE_BYTES] = '\n';
    assert_int_equal(read_text(history, text, HISTORY_LINE_BYTES + 1, why), ERR_INVALID);
    assert_string_equal(why, "f:1: the line is too long");
    text[HISTORY_LINE_BYTES] = '#';
    text[0] = '\n';
    assert_int_equal(read_text(history, text, sizeof text, why), ERR_INVALID);
    assert_string_equal(why, "f:2: the line is too long");
    history_free(history);
}

/* Many times what the reader takes at once. */
static void test_a_long_file_is_read(void **state)
{
    struct history *history = history_new();
    struct history_report report;
    struct buf why = BUF_INIT;
    FILE *writer;
    int fd = memfd_create("history", MFD_CLOEXEC);
    FILE *file = fdopen(fd, "r");

    (void)state;
    assert_non_null(file);
    writer = fdopen(dup(fd), "w");
    assert_non_null(writer);
    fprintf(writer, "tag\tt\tstrict\t1\n");
    for (unsigned i = 1; i <= 100000; i++) {
        fprintf(writer, "op\tt\tclient-%u\t%u\t%u\t%u\t1\n", i % 7, i * 3, i * 3 + 2, i);
    }
    assert_int_equal(fclose(writer), 0);
    assert_true(lseek(fd, 0, SEEK_CUR) > 2 << 20);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(history_read(history, file, "f", &why), 0);
    assert_true(history_check(history, 1, &report));
    assert_int_equal(report.operations, 100000);
    assert_int_equal(report.ids, 100000);
    buf_free(&report.text);
    (void)fclose(file);
    history_free(history);
}

static void test_what_cannot_be_read_is_told(void **state)
{
    struct history *history = history_new();
    struct buf why = BUF_INIT;
    FILE *file = fopen("/", "re");

    (void)state;
    assert_non_null(file);
    assert_int_equal(history_read(history, file, "f", &why), ERR_IO);
    assert_string_equal((const char *)why.data, "f: Is a directory");
    (void)fclose(file);
    buf_free(&why);
    history_free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations_are_read),
        cmocka_unit_test(test_files_add_up),
        cmocka_unit_test(test_malformed_lines_are_refused),
        cmocka_unit_test(test_a_zero_byte_is_refused),
        cmocka_unit_test(test_lengths_are_bounded),
        cmocka_unit_test(test_a_long_file_is_read),
        cmocka_unit_test(test_what_cannot_be_read_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
