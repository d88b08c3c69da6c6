/*
 * test_unit.c - what src/tests/unit does for all tests: one that hangs is ended and named, and what
 * a failed assertion says can be read. Each planted test runs in a child, as a group of its own.
 *
 * Thread: one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/err.h"
#include "src/tests/unit/guard.h"

#define SAID_BYTES (64 << 10)
/* For a child that hangs: its own limit, then addr2line and gdb, on a machine as busy as it may be.
 * Meanwhile this process uses no processor. */
#define CHILD_LIMIT_S 800

/* What a child said on stdout and stderr, and how it ended. */
struct child {
    char said[SAID_BYTES];
    int exit_code; /* 1000 + the signal that ended it */
};

/* --- the planted tests --- */

static void fine(void **state)
{
    (void)state;
}

static __attribute__((noinline)) void stand_still_here(void)
{
    for (;;) {
        (void)pause();
    }
}

/* Blocked in a call that TSan does not know as one that blocks. */
static void reading(void **state)
{
    int ends[2];
    char byte;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    (void)TEMP_FAILURE_RETRY(read(ends[0], &byte, 1));
}

static void spinning(void **state)
{
    struct timespec now = {0};

    (void)state;
    while (now.tv_nsec >= 0) {
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    }
}

static void hanging(void **state)
{
    (void)state;
    stand_still_here();
}

static int hanging_setup(void **state)
{
    hanging(state);
    return 0;
}

static int fine_setup(void **state)
{
    *state = "from the setup";
    return 0;
}

static void finds_its_state(void **state)
{
    assert_string_equal(*state, "from the setup");
}

static void wrong_error(void **state)
{
    (void)state;
    assert_int_equal(strlen("a statement that goes on in the next line") == 0 ? ERR_EMPTY : ERR_IO,
                     0);
}

static void wrong_numbers(void **state)
{
    (void)state;
    assert_int_equal(1700000000000, 1700000000001);
}

static void wrong_sign(void **state)
{
    (void)state;
    assert_int_equal(UINT64_MAX - 998, 5);
}

static void wrong_same(void **state)
{
    (void)state;
    assert_int_not_equal(ERR_EMPTY, ERR_EMPTY);
}

static void wrong_range(void **state)
{
    (void)state;
    assert_in_range(70000, 3, 9);
}

static void wrong_string(void **state)
{
    (void)state;
    assert_string_equal("HTTP/1.1 200 OK\r\n\"a\"", "HTTP/1.1 200 OK\r\n\"b\"");
}

static void wrong_long_string(void **state)
{
    char a[600];
    char b[600];

    (void)state;
    memset(a, 'x', sizeof(a));
    a[599] = '\0';
    memcpy(b, a, sizeof(b));
    b[300] = '!';
    assert_string_equal(a, b);
}

static void wrong_bytes(void **state)
{
    (void)state;
    assert_memory_equal("ab\0\377d", "ab\0\376e", 5);
}

/* --- running them --- */

static void run_child(const struct CMUnitTest *tests, size_t count, int to)
{
    /* As a binary that was started by itself, in a group of its own. */
    (void)setpgid(0, 0);
    (void)dup2(to, STDOUT_FILENO);
    (void)dup2(to, STDERR_FILENO);
    (void)setenv("LEAFD_TEST_LIMIT_S", "1", 1);
    _exit(_cmocka_run_group_tests("planted", tests, count, NULL, NULL));
}

static void run(const struct CMUnitTest *tests, size_t count, struct child *ret_child)
{
    int ends[2];
    size_t at = 0;
    ssize_t got = 1;
    int status;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    if (alarm(0) > 0) { /* unless there is no limit */
        (void)alarm(CHILD_LIMIT_S);
    }
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        run_child(tests, count, ends[1]);
    }
    close(ends[1]);
    while (got > 0 && at < sizeof(ret_child->said) - 1) {
        got = TEMP_FAILURE_RETRY(
            read(ends[0], ret_child->said + at, sizeof(ret_child->said) - 1 - at));
        at += got > 0 ? (size_t)got : 0;
    }
    ret_child->said[at] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    ret_child->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#define RUN(tests, child) run(tests, sizeof(tests) / sizeof((tests)[0]), child)

static void expect_said(const struct child *child, const char *text)
{
    if (strstr(child->said, text) == NULL) {
        print_error("\"%s\" is not in what was said:\n%s\n", text, child->said);
        fail();
    }
}

/* Run one that fails, and expect each of the texts. */
static void expect_failure(CMUnitTestFunction function, const char *source, const char *first,
                           const char *second)
{
    const struct CMUnitTest tests[] = {{"planted", function, NULL, NULL, NULL}};
    struct child child;

    RUN(tests, &child);
    assert_int_equal(child.exit_code, 1);
    expect_said(&child, "[  FAILED  ] planted");
    expect_said(&child, source);
    expect_said(&child, first);
    expect_said(&child, second);
}

/* --- the tests --- */

static void test_a_test_that_hangs_is_ended_and_named(void **state)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fine), cmocka_unit_test(hanging),
                                       cmocka_unit_test(fine)};
    struct child child;

    (void)state;
    RUN(tests, &child);
    assert_int_equal(child.exit_code, GUARD_EXIT);
    expect_said(&child, "[       OK ] fine");
    expect_said(&child, ": hanging hangs: it is not over after 1 s\n");
    /* Where it stands, too. */
    expect_said(&child, "stand_still_here");
}

static void test_a_test_that_hangs_in_a_call_is_ended_and_named(void **state)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reading)};
    struct child child;

    (void)state;
    RUN(tests, &child);
    assert_int_equal(child.exit_code, GUARD_EXIT);
    expect_said(&child, ": reading hangs");
}

/* It has more time where tests may be slow. */
static void test_a_test_that_spins_is_ended_and_named(void **state)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(spinning)};
    struct child child;

    (void)state;
    RUN(tests, &child);
    assert_int_equal(child.exit_code, GUARD_EXIT);
    expect_said(&child, ": spinning hangs: it is not over after ");
}

/* Where there is no gdb. */
static void test_where_a_test_hangs_is_known_by_addr2line(void **state)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hanging)};
    char folder[] = "/tmp/test_unit_XXXXXX";
    char *path = strdup(getenv("PATH"));
    char program[64];
    struct child child;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(program, sizeof(program), "%s/addr2line", folder);
    assert_int_equal(symlink("/usr/bin/addr2line", program), 0);
    assert_int_equal(setenv("PATH", folder, 1), 0);
    RUN(tests, &child);
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_int_equal(unlink(program), 0);
    assert_int_equal(rmdir(folder), 0);
    free(path);
    assert_int_equal(child.exit_code, GUARD_EXIT);
    expect_said(&child, ": stand_still_here at ");
}

static void test_a_setup_that_hangs_is_ended_and_named(void **state)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fine),
        {"waits for its setup", fine, hanging_setup, NULL, NULL},
    };
    struct child child;

    (void)state;
    RUN(tests, &child);
    assert_int_equal(child.exit_code, GUARD_EXIT);
    expect_said(&child, ": waits for its setup hangs");
}

static void test_tests_are_run_as_without_a_guard(void **state)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fine),
        cmocka_unit_test_setup(finds_its_state, fine_setup),
        cmocka_unit_test_prestate(finds_its_state, "from the setup"),
    };
    struct child child;

    (void)state;
    RUN(tests, &child);
    assert_int_equal(child.exit_code, 0);
    expect_said(&child, "[  PASSED  ] 3 test(s).");
}

static void test_numbers_are_shown_as_numbers_and_errors_by_name(void **state)
{
    (void)state;
    expect_failure(wrong_error, " ? ERR_EMPTY : ERR_IO,\n                     0);\n",
                   "-14 (ERR_IO) != 0\n", "test_unit.c");
    expect_failure(wrong_numbers, "assert_int_equal(1700000000000, 1700000000001);\n",
                   "1700000000000 (0x18bcfe56800) != ", "1700000000001 (0x18bcfe56801)\n");
    expect_failure(wrong_sign, "assert_int_equal(", "-999 (18446744073709550617, ", " != 5\n");
    expect_failure(wrong_same, "assert_int_not_equal(", "both are -7 (ERR_EMPTY)\n", "");
    expect_failure(wrong_range, "assert_in_range(", "70000 (0x11170) is not from 3 to 9\n", "");
}

static void test_strings_and_bytes_are_shown_where_they_differ(void **state)
{
    (void)state;
    expect_failure(wrong_string, "assert_string_equal(",
                   "strings of 20 and 20 bytes differ at 18:\n"
                   "  \"HTTP/1.1 200 OK\\r\\n\\\"a\\\"\"\n",
                   "  \"HTTP/1.1 200 OK\\r\\n\\\"b\\\"\"\n");
    expect_failure(wrong_long_string, "assert_string_equal(a, b);",
                   "strings of 599 and 599 bytes differ at 300:\n  ... \"xxx", "x!x");
    expect_failure(wrong_bytes, "assert_memory_equal(",
                   "2 of 5 bytes differ, the first is at 3:\n  \"ab\\x00\\xffd\"\n",
                   "from there on:\n  ff 64\n  fe 65\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_test_that_hangs_is_ended_and_named),
        cmocka_unit_test(test_a_test_that_hangs_in_a_call_is_ended_and_named),
        cmocka_unit_test(test_a_test_that_spins_is_ended_and_named),
        cmocka_unit_test(test_where_a_test_hangs_is_known_by_addr2line),
        cmocka_unit_test(test_a_setup_that_hangs_is_ended_and_named),
        cmocka_unit_test(test_tests_are_run_as_without_a_guard),
        cmocka_unit_test(test_numbers_are_shown_as_numbers_and_errors_by_name),
        cmocka_unit_test(test_strings_and_bytes_are_shown_where_they_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
