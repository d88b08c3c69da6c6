/*
 * guard.c - see guard.h. Thread: the test's; on_alarm() as said there.
 */
#include "src/tests/unit/guard.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "src/tests/unit/test.h"

#define FRAMES_MAX 48
#define ADDRESS_BYTES 19
#define PAUSE_NS 50000000  /* so often is looked whether a program has ended, */
#define STACKS_PAUSES 2400 /* and so many times: gdb takes a minute on a busy machine */
#define SECOND_ALARM_S 5

int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown);

/* The linker's: where the program's code begins and ends. */
extern const char __executable_start[];
extern const char etext[];

/* The group that runs. */
static const struct CMUnitTest *tests_given;
static size_t tests_begun;
static unsigned limit_s;
static volatile unsigned times_over; /* how often limit_s has passed since the test began */
static volatile uint64_t began_us;   /* processor time used when the test began, */
static volatile uint64_t used_us;    /* and at the last alarm */
static const char *volatile running; /* the test's name */

/* --- what an alarm does: only what a signal's handler may --- */

static void say(const char *text)
{
    size_t len = strlen(text);

    while (len > 0) {
        ssize_t done = write(STDERR_FILENO, text, len);

        if (done <= 0) {
            return;
        }
        text += done;
        len -= (size_t)done;
    }
}

static void say_who(void)
{
    char digits[] = "0000000000";
    size_t at = sizeof(digits) - 1;

    for (unsigned rest = limit_s * times_over; rest > 0; rest /= 10) {
        digits[--at] = (char)('0' + rest % 10);
    }
    say(program_invocation_name);
    say(": ");
    say(running);
    say(" hangs: it is not over after ");
    say(digits + at);
    say(" s\n");
}

static void write_hex(uint64_t value, char *to, size_t digits)
{
    for (size_t i = digits; i > 0; i--) {
        to[i - 1] = "0123456789abcdef"[value & 15];
        value >>= 4;
    }
}

/* Wait for a child, but not for ever: it may stop this process to look at it, so another waits. */
static void wait_or_kill(pid_t child)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};

    for (unsigned i = 0; i < STACKS_PAUSES; i++) {
        if (waitpid(child, NULL, WNOHANG) != 0) {
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
    (void)kill(child, SIGKILL);
}

/* Run a program that writes to stderr, if there is one of that name. It has no terminal, which
 * might stop it. */
static void run(const char *const *arguments)
{
    pid_t watcher = _Fork();
    sigset_t none;
    pid_t child;

    if (watcher == 0) {
        (void)setsid();
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL); /* gdb needs those that are blocked here */
        child = _Fork();
        if (child == 0) {
            (void)dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
            (void)dup2(STDERR_FILENO, STDOUT_FILENO);
            (void)execvp(arguments[0], (char *const *)(uintptr_t)arguments);
            _exit(127);
        }
        wait_or_kill(child);
        _exit(0);
    }
    if (watcher > 0) {
        (void)TEMP_FAILURE_RETRY(waitpid(watcher, NULL, 0));
    }
}

static void show_all_stacks(void)
{
    char pid[] = "0000000000";
    size_t at = sizeof(pid) - 1;
    const char *arguments[] = {"gdb",    "-q",
                               "-batch", "-nx",
                               "-iex",   "set debuginfod enabled off",
                               "-ex",    "set print thread-events off",
                               "-ex",    "thread apply all backtrace 30",
                               "-p",     pid,
                               NULL};

    for (uint64_t rest = (uint64_t)getpid(); rest > 0; rest /= 10) {
        pid[--at] = (char)('0' + rest % 10);
    }
    arguments[11] = pid + at;
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    run(arguments);
}

/* By the places of the code in the file, whichever addresses it has now. */
static void show_own_stack(void)
{
    static char places[FRAMES_MAX][ADDRESS_BYTES];
    const char *arguments[FRAMES_MAX + 5] = {"addr2line", "-apfe", "/proc/self/exe"};
    static char link[4096];
    void *frames[FRAMES_MAX];
    int count = backtrace(frames, FRAMES_MAX);
    ssize_t len = readlink("/proc/self/exe", link, sizeof(link) - 1);
    size_t used = 3;

    backtrace_symbols_fd(frames, count, STDERR_FILENO);
    if (len <= 0) {
        return;
    }
    link[len] = '\0';
    arguments[2] = link;
    for (int i = 0; i < count; i++) {
        const char *frame = frames[i];

        if (frame >= __executable_start && frame < etext) {
            memcpy(places[i], "0x", 2);
            write_hex((uint64_t)(frame - __executable_start), places[i] + 2, ADDRESS_BYTES - 3);
            arguments[used++] = places[i];
        }
    }
    run(arguments);
}

/* Of this process and of its children that have ended. */
static uint64_t processor_us(void)
{
    struct rusage own = {0};
    struct rusage children = {0};

    (void)getrusage(RUSAGE_SELF, &own);
    (void)getrusage(RUSAGE_CHILDREN, &children);
    return (uint64_t)(own.ru_utime.tv_sec + own.ru_stime.tv_sec + children.ru_utime.tv_sec +
                      children.ru_stime.tv_sec) *
               1000000 +
           (uint64_t)(own.ru_utime.tv_usec + own.ru_stime.tv_usec + children.ru_utime.tv_usec +
                      children.ru_stime.tv_usec);
}

static bool may_go_on(void)
{
    uint64_t before_us = used_us;
    uint64_t limit_us = (uint64_t)limit_s * 1000000;

    used_us = processor_us();
    times_over++;
    return used_us - began_us < limit_us * GUARD_BUSY_TIMES &&
           used_us - before_us > limit_us / 100 * GUARD_BUSY_PERCENT;
}

static void on_alarm(int number)
{
    static volatile sig_atomic_t sent_on;

    if (syscall(SYS_gettid) != getpid() && !sent_on) {
        /* It is the main thread that hangs, as a rule. */
        sent_on = 1;
        (void)alarm(SECOND_ALARM_S);
        (void)syscall(SYS_tgkill, getpid(), getpid(), number);
        return;
    }
    (void)alarm(limit_s);
    if (may_go_on()) {
        return;
    }
    (void)alarm(0);
    say_who();
    show_own_stack();
    show_all_stacks();
    say_who(); /* what comes last is read first */
    if (getpgrp() == getpid()) {
        (void)signal(SIGTERM, SIG_IGN);
        (void)kill(0, SIGTERM);
    }
    _exit(GUARD_EXIT);
}

/* --- between cmocka and the tests --- */

static const struct CMUnitTest *present(void)
{
    return &tests_given[tests_begun - 1];
}

/* Of every test: cmocka calls it before the test, or there would be no present one. */
static int guarded_setup(void **state)
{
    tests_begun++;
    running = present()->name;
    times_over = 0;
    began_us = processor_us();
    used_us = began_us;
    (void)alarm(limit_s);
    return present()->setup_func != NULL ? present()->setup_func(state) : 0;
}

static void guarded_test(void **state)
{
    present()->test_func(state);
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown)
{
    struct CMUnitTest *guarded = calloc(count, sizeof *guarded);
    const char *limit = getenv("LEAFD_TEST_LIMIT_S");
    struct sigaction action = {.sa_handler = on_alarm};
    void *frame;
    int rv;

    if (guarded == NULL) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        guarded[i] = tests[i];
        guarded[i].setup_func = guarded_setup;
        guarded[i].test_func = guarded_test;
    }
    tests_given = tests;
    tests_begun = 0;
    limit_s = limit != NULL ? (unsigned)strtoul(limit, NULL, 10) : GUARD_LIMIT_S;
    running = "the setup of all tests";
    (void)backtrace(&frame, 1); /* what it loads at its first call it has then */
    /* No SA_RESTART: TSan runs the handler only when the call that was interrupted is over. */
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGALRM, &action, NULL);
    /* What was said is not lost if the process ends. */
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)alarm(limit_s);
    rv = __real__cmocka_run_group_tests(name, guarded, count, setup, teardown);
    (void)alarm(0);
    free(guarded);
    return rv;
}
