/*
 * selftest.c - see selftest.h. Thread: one.
 */
#include "src/history/selftest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "src/base/assert.h"
#include "src/history/history.h"
#include "src/history/random.h"

struct selftest {
    struct history *history;
    struct random_history *random;
    struct history_op answered[RANDOM_TAGS]; /* the last one of each tag */
    uint64_t found[HISTORY_KINDS];           /* expected so far */
    uint64_t begin_ms;
};

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Seconds since the last step. */
static double lap(struct selftest *test)
{
    uint64_t now = now_ms();
    double seconds = (double)(now - test->begin_ms) / 1000;

    test->begin_ms = now;
    return seconds;
}

static void add(struct selftest *test, const struct history_op *op)
{
    int err = history_add(test->history, op);

    ASSERT(err == 0);
    if (op->received != HISTORY_UNKNOWN) {
        test->answered[op->tag] = *op;
    }
}

/* An operation that begins after all others have ended. */
static struct history_op later(struct selftest *test, uint32_t tag, uint64_t first, uint32_t count)
{
    struct history_op op = {.tag = tag, .first = first, .count = count};

    op.sent = ++test->random->now;
    op.received = ++test->random->now;
    return op;
}

static struct history_op planted(struct selftest *test, enum history_kind kind)
{
    struct history_op op = {0};

    switch (kind) {
    case HISTORY_NOT_ONCE:
        return later(test, 3, test->answered[3].first, 1);
    case HISTORY_OTHER_IDS:
        op = later(test, 2, test->random->next[2], test->answered[2].count);
        op.key = test->answered[2].key;
        test->random->next[2] += op.count;
        return op;
    case HISTORY_NOT_STRICT:
        /* Ids of a lost reply, handed out after all; nobody else has them. */
        ASSERT(test->random->burnt.count > 0);
        return later(test, 0, test->random->burnt.first, test->random->burnt.count);
    case HISTORY_BELOW_START:
        op = later(test, 1, RANDOM_START - 1, 1);
        op.sent = 0;
        return op;
    case HISTORY_GAP:
        op = later(test, 1, test->random->next[1] + 1, 1);
        return op;
    case HISTORY_KINDS:
        break;
    }
    UNREACHABLE("kind of a violation");
}

/* Check, and compare what is found with what is expected. */
static bool check(struct selftest *test, const char *what)
{
    struct history_report report;
    bool clean = history_check(test->history, 1, &report);
    uint64_t expected = 0;
    bool good;

    for (unsigned kind = 0; kind < HISTORY_KINDS; kind++) {
        expected += test->found[kind];
    }
    good = clean == (expected == 0) && report.violations == expected &&
           memcmp(report.found, test->found, sizeof test->found) == 0;
    printf("check-history: %-11s %s in %.1f s\n", what, good ? "found" : "NOT FOUND", lap(test));
    if (!good) {
        printf("check-history: %" PRIu64 " violations, expected were %" PRIu64 ": %.*s\n",
               report.violations, expected, (int)report.text.len, (const char *)report.text.data);
    }
    buf_free(&report.text);
    return good;
}

static bool run(struct selftest *test)
{
    struct history_op op;
    bool good;

    while (random_history_next(test->random, &op)) {
        add(test, &op);
    }
    printf("check-history: %" PRIu64 " operations made in %.1f s\n", test->random->ended,
           lap(test));
    good = check(test, "nothing");
    for (unsigned kind = 0; kind < HISTORY_KINDS; kind++) {
        op = planted(test, kind);
        add(test, &op);
        test->found[kind]++;
        good = check(test, history_kind_name(kind)) && good;
    }
    return good;
}

bool selftest_run(uint64_t operations, uint64_t seed)
{
    struct selftest test = {.history = history_new(), .begin_ms = now_ms()};
    struct rusage usage;
    bool good;

    ASSERT(operations >= SELFTEST_MIN);
    test.random = calloc(1, sizeof *test.random);
    ASSERT(test.random != NULL);
    random_history_init(test.random, seed, operations);
    random_history_declare(test.history);
    good = run(&test);
    free(test.random);
    history_free(test.history);
    getrusage(RUSAGE_SELF, &usage);
    printf("check-history: self-test %s, %ld MiB at most\n", good ? "passed" : "FAILED",
           usage.ru_maxrss / 1024);
    return good;
}
