/*
 * test_log.c - what a log line looks like, that no value can forge one, and that lines of several
 * threads do not mix.
 *
 * stderr is a file or pipe while a test runs. Threads: main, and writers of their own in one test.
 */
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/log.h"

#define WRITERS 4
#define LINES 500

struct capture {
    int saved; /* the real stderr */
    int file;
    char text[1 << 20];
};

static struct capture capture;

static void capture_start(void)
{
    char path[] = "/tmp/leafd-log-XXXXXX";

    capture.file = mkstemp(path);
    assert_true(capture.file >= 0);
    assert_int_equal(unlink(path), 0);
    /* As a log file or a pipe: each write goes to the end. */
    assert_int_equal(fcntl(capture.file, F_SETFL, O_APPEND), 0);
    capture.saved = dup(STDERR_FILENO);
    assert_true(capture.saved >= 0);
    assert_true(dup2(capture.file, STDERR_FILENO) >= 0);
}

/* Back to the real stderr; gives what was logged. */
static const char *capture_end(void)
{
    ssize_t len;

    assert_true(dup2(capture.saved, STDERR_FILENO) >= 0);
    close(capture.saved);
    len = pread(capture.file, capture.text, sizeof capture.text - 1, 0);
    close(capture.file);
    assert_true(len >= 0);
    capture.text[len] = '\0';
    return capture.text;
}

static void assert_matches(const char *text, const char *pattern)
{
    regex_t regex;

    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&regex, text, 0, NULL, 0) != 0) {
        fail_msg("%s does not match %s", text, pattern);
    }
    regfree(&regex);
}

static int teardown(void **state)
{
    (void)state;
    log_setup(LOG_LEVEL_INFO, 0);
    return 0;
}

static void test_line(void **state)
{
    const char *text;

    (void)state;
    log_setup(LOG_LEVEL_INFO, 3);
    capture_start();
    log_info("raft", "became leader", "term=%d leader=%d", 4, 3);
    log_warn("app", "no fields", NULL);
    text = capture_end();
    assert_matches(text, "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "
                         "level=info node=3 at=raft msg=\"became leader\" term=4 leader=3\n"
                         "[0-9TZ:.-]+ level=warn node=3 at=app msg=\"no fields\"\n$");
}

static void test_levels(void **state)
{
    (void)state;
    for (enum log_level lowest = LOG_LEVEL_DEBUG; lowest <= LOG_LEVEL_ERROR; lowest++) {
        const char *text;

        log_setup(lowest, 1);
        capture_start();
        log_debug("t", "at debug", NULL);
        log_info("t", "at info", NULL);
        log_warn("t", "at warn", NULL);
        log_error("t", "at error", NULL);
        text = capture_end();
        assert_true((strstr(text, "level=debug") != NULL) == (lowest <= LOG_LEVEL_DEBUG));
        assert_true((strstr(text, "level=info") != NULL) == (lowest <= LOG_LEVEL_INFO));
        assert_true((strstr(text, "level=warn") != NULL) == (lowest <= LOG_LEVEL_WARN));
        assert_non_null(strstr(text, "level=error"));
    }
}

/* Around the longest line: whole up to it, and cut with "..." beyond; always one line. */
static void test_long_lines(void **state)
{
    char value[2100];
    bool seen_whole = false;
    bool seen_cut = false;

    (void)state;
    log_setup(LOG_LEVEL_INFO, 1);
    for (size_t len = 1900; len < 2100; len++) {
        const char *text;
        size_t line;

        memset(value, 'v', len);
        value[len] = '\0';
        capture_start();
        log_info("t", "long", "value=%s", value);
        text = capture_end();
        line = strlen(text);
        assert_true(line <= 2048 + 4);
        assert_ptr_equal(strchr(text, '\n'), text + line - 1);
        if (strcmp(text + line - 4, "...\n") == 0) {
            seen_cut = true;
        } else {
            assert_false(seen_cut);
            assert_non_null(strstr(text, value));
            seen_whole = true;
        }
    }
    assert_true(seen_whole);
    assert_true(seen_cut);
}

static void test_quote(void **state)
{
    static const struct {
        const char *text;
        const char *quoted;
    } cases[] = {
        {"", "\"\""},
        {"order", "\"order\""},
        {"two words", "\"two words\""},
        {"a\"b", "\"a\\\"b\""},
        {"a\\b", "\"a\\\\b\""},
        {"a\nlevel=error", "\"a\\x0alevel=error\""},
        {"\x1b[2J\r\t\x7f", "\"\\x1b[2J\\x0d\\x09\\x7f\""},
        {"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""},
        /* What a terminal would obey, or would show in another order. */
        {"\xc2\x9b"
         "2J",
         "\"\\u009b2J\""},
        {"\xe2\x80\xaegnp.exe\xe2\x81\xa9", "\"\\u202egnp.exe\\u2069\""},
        {"\xe2\x80\xa8\xe2\x80\x8b", "\"\\u2028\\u200b\""},
        {"\xe2\x80\x93 \xe2\x82\xac \xe2\x80", "\"\xe2\x80\x93 \xe2\x82\xac \xe2\x80\""},
    };
    char out[64];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ptr_equal(log_quote(cases[i].text, strlen(cases[i].text), out, sizeof out), out);
        assert_string_equal(out, cases[i].quoted);
    }
    /* A NUL is a byte like others. */
    log_quote("a\0b", 3, out, sizeof out);
    assert_string_equal(out, "\"a\\x00b\"");
}

/* In memory of exactly the size given, of every size: cut, closed by a quote, never beyond it. */
static void test_quote_sizes(void **state)
{
    static const char *const texts[] = {
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n",
        "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"",
        "a\"\nb\"\nc\"\nd\"\ne\"\nf\"\ng\"\nh\"\ni\"\nj\"\nk\"\n"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t size = 8; size < 64; size++) {
            char *out = malloc(size);
            size_t len;

            assert_non_null(out);
            log_quote(texts[i], strlen(texts[i]), out, size);
            len = strlen(out);
            assert_true(len >= 2 && len < size);
            assert_int_equal(out[0], '"');
            assert_int_equal(out[len - 1], '"');
            assert_null(strchr(out, '\n'));
            free(out);
        }
    }
}

static void *write_lines(void *data)
{
    char value[600];

    memset(value, 'a' + *(int *)data, sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (int i = 0; i < LINES; i++) {
        log_info("thread", "line", "value=%s", value);
    }
    return NULL;
}

/* Every line is whole: its value is of one letter and of the full length. */
static void test_threads(void **state)
{
    static struct capture all;
    pthread_t threads[WRITERS];
    int numbers[WRITERS];
    size_t lines = 0;
    ssize_t len;
    off_t at = 0;

    (void)state;
    log_setup(LOG_LEVEL_INFO, 1);
    capture_start();
    all.file = dup(capture.file);
    for (int i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &numbers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    (void)capture_end();
    while ((len = pread(all.file, all.text, sizeof all.text - 1, at)) > 0) {
        char *line = all.text;
        char *end;

        all.text[len] = '\0';
        while ((end = strchr(line, '\n')) != NULL) {
            char *value = strstr(line, "value=");

            *end = '\0';
            assert_non_null(value);
            assert_int_equal(strlen(value + 6), 599);
            assert_int_equal(strspn(value + 6, (char[]){value[6], '\0'}), 599);
            at += end + 1 - line;
            line = end + 1;
            lines++;
        }
    }
    close(all.file);
    assert_int_equal(lines, WRITERS * LINES);
}

/* A pipe whose reader stands still: no line waits for it. Then it reads on, and a line has how many
 * were lost. */
static void test_a_reader_that_stands_still(void **state)
{
    int saved = dup(STDERR_FILENO);
    unsigned long read_lines = 0;
    unsigned long lost = 0;
    int blocks;
    int fds[2];
    ssize_t len;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    log_unblock();
    blocks = fcntl(fds[1], F_GETFL); /* of the process that made it */
    memset(capture.text, 'v', 1000);
    capture.text[1000] = '\0';
    for (unsigned i = 0; i < LINES; i++) {
        log_info("t", "line", "value=%s", capture.text);
    }
    len = read(fds[0], capture.text, sizeof capture.text - 1);
    log_info("t", "line", "last=1");
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(fds[1]);
    assert_int_equal(blocks & O_NONBLOCK, 0);
    assert_true(len > 0);
    while ((size_t)len < sizeof capture.text - 1) {
        ssize_t more = read(fds[0], capture.text + len, sizeof capture.text - 1 - (size_t)len);

        if (more <= 0) {
            break;
        }
        len += more;
    }
    close(fds[0]);
    capture.text[len] = '\0';
    for (const char *at = capture.text; (at = strstr(at, "msg=\"line\"")) != NULL; at++) {
        read_lines++;
    }
    assert_matches(capture.text, "msg=\"line\" lines_lost_before_this=[0-9]+ last=1\n$");
    lost = strtoul(strstr(capture.text, "this=") + strlen("this="), NULL, 10);
    assert_int_equal(read_lines + lost, LINES + 1);
    assert_true(lost > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_line, teardown),
        cmocka_unit_test_teardown(test_levels, teardown),
        cmocka_unit_test_teardown(test_long_lines, teardown),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_quote_sizes),
        cmocka_unit_test_teardown(test_threads, teardown),
        cmocka_unit_test_teardown(test_a_reader_that_stands_still, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
