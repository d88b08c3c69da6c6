/*
 * test_large.c - the checker finds what it is there to find in a history of ten million operations,
 * in the memory that history.h promises; and reads a million lines.
 *
 * A history in which nothing is wrong is made (random.h); then one violation of each kind is
 * planted, one after the other: each must be found, once, and nothing else. Thread: one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "cluster-tests/history/history.h"
#include "cluster-tests/history/read.h"
#include "cluster-tests/history/tests/random.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OPERATIONS 200000
#define LINES 20000
#define MIB_MAX 4096
#else
#define OPERATIONS 10000000
#define LINES 1000000
#define MIB_MAX 600
#endif

struct large {
    struct history *history;
    struct random_history *random;
    struct history_op answered[RANDOM_TAGS]; /* the last one of each tag */
    uint64_t found[HISTORY_KINDS];           /* expected so far */
};

static void add(struct large *large, const struct history_op *op)
{
    assert_int_equal(history_add(large->history, op), 0);
    if (op->received != HISTORY_UNKNOWN) {
        large->answered[op->tag] = *op;
    }
}

/* An operation that begins after all others have ended. */
static struct history_op later(struct large *large, uint32_t tag, uint64_t first, uint32_t count)
{
    struct history_op op = {.tag = tag, .first = first, .count = count};

    op.sent = ++large->random->now;
    op.received = ++large->random->now;
    return op;
}

static struct history_op planted(struct large *large, enum history_kind kind)
{
    struct random_history *random = large->random;
    struct history_op op = {0};

    switch (kind) {
    case HISTORY_NOT_ONCE:
        return later(large, 3, large->answered[3].first, 1);
    case HISTORY_OTHER_IDS:
        op = later(large, 2, random->next[2], large->answered[2].count);
        op.key = large->answered[2].key;
        random->next[2] += op.count;
        return op;
    case HISTORY_NOT_STRICT:
        /* Ids of a lost reply, handed out after all; nobody else has them. */
        ASSERT(random->burnt.count > 0);
        return later(large, 0, random->burnt.first, random->burnt.count);
    case HISTORY_BELOW_START:
        op = later(large, 1, RANDOM_START - 1, 1);
        op.sent = 0;
        return op;
    case HISTORY_GAP:
        return later(large, 1, random->next[1] + 1, 1);
    case HISTORY_KINDS:
        break;
    }
    UNREACHABLE("kind of a violation");
}

/* Check, and compare what is found with what is expected. */
static void check(struct large *large)
{
    struct history_report report;
    bool clean = history_check(large->history, 1, &report);
    uint64_t expected = 0;

    for (unsigned kind = 0; kind < HISTORY_KINDS; kind++) {
        expected += large->found[kind];
        assert_int_equal(report.found[kind], large->found[kind]);
    }
    assert_int_equal(clean, expected == 0);
    assert_int_equal(report.violations, expected);
    assert_int_equal(report.undecided, 0);
    assert_int_equal(report.operations, OPERATIONS + expected);
    buf_free(&report.text);
}

static void test_ten_million_operations(void **state)
{
    struct large large = {.history = history_new(), .random = calloc(1, sizeof *large.random)};
    struct history_op op;
    struct rusage usage;

    (void)state;
    ASSERT(large.random != NULL);
    random_history_init(large.random, 7, OPERATIONS);
    random_history_declare(large.history);
    while (random_history_next(large.random, &op)) {
        add(&large, &op);
    }
    check(&large);
    for (unsigned kind = 0; kind < HISTORY_KINDS; kind++) {
        op = planted(&large, kind);
        add(&large, &op);
        large.found[kind]++;
        if (kind == HISTORY_NOT_STRICT) { /* a leader goes on with a window that was given up */
            ASSERT(large.random->skipped.count > 0);
            op = later(&large, 4, large.random->skipped.first, 1);
            add(&large, &op);
            large.found[kind]++;
        }
        check(&large);
    }
    free(large.random);
    history_free(large.history);
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    print_message("%d operations in %ld MiB\n", OPERATIONS, usage.ru_maxrss / 1024);
    assert_true(usage.ru_maxrss / 1024 <= MIB_MAX);
}

static void print_op(FILE *file, const struct history_op *op)
{
    fprintf(file, "op\t%s\tc%u\t%" PRIu64, random_tag_name(op->tag), op->client, op->sent);
    if (op->received == HISTORY_UNKNOWN) {
        fprintf(file, "\t-\t-\t%u", op->count);
    } else {
        fprintf(file, "\t%" PRIu64 "\t%" PRIu64 "\t%u", op->received, op->first, op->count);
    }
    if (op->key != 0) {
        fprintf(file, "\tkey-%" PRIu64, op->key);
    }
    putc('\n', file);
}

/* A file of as many operations, to be read from its beginning. */
static int write_file(void)
{
    static const char *const modes[] = {
        [HISTORY_TREND] = "trend", [HISTORY_MONOTONIC] = "monotonic", [HISTORY_STRICT] = "strict"};
    struct random_history *random = calloc(1, sizeof *random);
    int fd = memfd_create("history", MFD_CLOEXEC);
    FILE *file = fdopen(dup(fd), "w");
    struct history_op op;

    ASSERT(random != NULL && fd >= 0 && file != NULL);
    random_history_init(random, 3, LINES);
    for (uint32_t i = 0; i < RANDOM_TAGS; i++) {
        fprintf(file, "tag\t%s\t%s", random_tag_name(i), modes[random_tag_mode(i)]);
        if (random_tag_start(i) != HISTORY_NO_START) {
            fprintf(file, "\t%" PRIu64, random_tag_start(i));
        }
        putc('\n', file);
    }
    while (random_history_next(random, &op)) {
        print_op(file, &op);
    }
    free(random);
    ASSERT(fclose(file) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void test_a_million_lines_are_read(void **state)
{
    struct history *history = history_new();
    struct history_report report;
    struct buf why = BUF_INIT;
    FILE *file = fdopen(write_file(), "r");

    (void)state;
    assert_non_null(file);
    if (history_read(history, file, "f", &why) != 0) {
        fail_msg("%s", (const char *)why.data);
    }
    assert_true(history_check(history, 1, &report));
    assert_int_equal(report.operations, LINES);
    assert_int_equal(report.tags, RANDOM_TAGS);
    buf_free(&report.text);
    history_free(history);
    (void)fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_million_operations),
        cmocka_unit_test(test_a_million_lines_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
