/*
 * main.c - check-history: the checker of histories as a program.
 *
 *     check-history [--violations N] [--steps N] [FILE...]
 *                                              check what is in the files together; - is stdin
 *     check-history --selftest N [--seed S]    see selftest.h
 *     check-history --generate N [--seed S]    print a history in which nothing is wrong
 *
 * The format of the files is in read.h. The last line of a check is
 *
 *     check-history: N operations, M ids, nothing found (U of unknown outcome, T tags)
 *
 * and the exit code 0; or violations, a line each (20, or as many as --violations says), then
 *
 *     check-history: N operations, M ids, V violations: A not_once, B gap (U of ...)
 *
 * and the exit code 1. Gaps for which it was not found out whether they can be (within --steps of a
 * search, see history.h) are printed and counted as well, G gaps "not decided" before the
 * parenthesis; if that is all, the exit code is 2. Exit code 64: the command line or a file is
 * malformed (stderr says file:line: why), or there is no operation at all, which proves nothing.
 * 66: a file cannot be read. 74: the output cannot be written.
 *
 * Thread: one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/history/history.h"
#include "src/history/random.h"
#include "src/history/read.h"
#include "src/history/selftest.h"

#define EXIT_FOUND 1
#define EXIT_UNDECIDED 2
#define EXIT_MALFORMED 64
#define EXIT_NO_FILE 66
#define EXIT_NO_OUTPUT 74
#define TEXTS 20

struct options {
    uint64_t violations;
    uint64_t steps;
    uint64_t selftest;
    uint64_t generate;
    uint64_t seed;
    int files; /* place of the first one in argv */
};

static _Noreturn void usage(void)
{
    fprintf(stderr,
            "usage: check-history [--violations N] [--steps N] [FILE...]\n"
            "       check-history --selftest N [--seed S]   (N is %u at least)\n"
            "       check-history --generate N [--seed S]\n",
            SELFTEST_MIN);
    exit(EXIT_MALFORMED);
}

static uint64_t number(const char *text, uint64_t least)
{
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < least) {
        usage();
    }
    return value;
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.violations = TEXTS, .steps = HISTORY_STEPS, .seed = 1};
    int i = 1;

    for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i += 2) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (i + 1 == argc) {
            usage();
        }
        if (strcmp(argv[i], "--violations") == 0) {
            options.violations = number(argv[i + 1], 0);
        } else if (strcmp(argv[i], "--steps") == 0) {
            options.steps = number(argv[i + 1], 0);
        } else if (strcmp(argv[i], "--selftest") == 0) {
            options.selftest = number(argv[i + 1], SELFTEST_MIN);
        } else if (strcmp(argv[i], "--generate") == 0) {
            options.generate = number(argv[i + 1], 1);
        } else if (strcmp(argv[i], "--seed") == 0) {
            options.seed = number(argv[i + 1], 0);
        } else {
            usage();
        }
    }
    options.files = i;
    if ((options.selftest > 0 || options.generate > 0) && i < argc) {
        usage();
    }
    if (options.violations > UINT32_MAX || (options.selftest > 0 && options.generate > 0)) {
        usage();
    }
    return options;
}

/* --- --generate --- */

static void print_op(const struct history_op *op)
{
    printf("op\t%s\tc%u\t%" PRIu64, random_tag_name(op->tag), op->client, op->sent);
    if (op->received == HISTORY_UNKNOWN) {
        printf("\t-\t-\t%u", op->count);
    } else {
        printf("\t%" PRIu64 "\t%" PRIu64 "\t%u", op->received, op->first, op->count);
    }
    if (op->key != 0) {
        printf("\tkey-%" PRIu64, op->key);
    }
    putchar('\n');
}

static void generate(uint64_t operations, uint64_t seed)
{
    struct random_history *random = calloc(1, sizeof *random);
    struct history_op op;

    ASSERT(random != NULL);
    random_history_init(random, seed, operations);
    for (uint32_t i = 0; i < RANDOM_TAGS; i++) {
        printf("tag\t%s\t%s", random_tag_name(i),
               random_tag_mode(i) == HISTORY_STRICT ? "strict" : "trend");
        if (random_tag_start(i) != HISTORY_NO_START) {
            printf("\t%" PRIu64, random_tag_start(i));
        }
        putchar('\n');
    }
    while (random_history_next(random, &op) && !ferror(stdout)) {
        print_op(&op);
    }
    free(random);
}

/* --- check --- */

static void read_file(struct history *history, const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct buf why = BUF_INIT;
    int err;

    if (fd < 0) {
        fprintf(stderr, "check-history: %s: %s\n", path, strerror(errno));
        exit(EXIT_NO_FILE);
    }
    err = history_read(history, fd, is_stdin ? "stdin" : path, &why);
    if (err != 0) {
        fprintf(stderr, "check-history: %s\n", (const char *)why.data);
        exit(err == ERR_IO ? EXIT_NO_FILE : EXIT_MALFORMED);
    }
    if (!is_stdin) {
        close(fd);
    }
}

static void print_summary(const struct history_report *report)
{
    const char *between = ": ";

    printf("check-history: %" PRIu64 " operations, %" PRIu64 " ids, ", report->operations,
           report->ids);
    if (report->violations == 0) {
        printf("nothing found");
    } else {
        printf("%" PRIu64 " violations", report->violations);
    }
    for (unsigned kind = 0; kind < HISTORY_KINDS; kind++) {
        if (report->found[kind] > 0) {
            printf("%s%" PRIu64 " %s", between, report->found[kind], history_kind_name(kind));
            between = ", ";
        }
    }
    if (report->undecided > 0) {
        printf(", %" PRIu64 " gaps not decided", report->undecided);
    }
    printf(" (%" PRIu64 " of unknown outcome, %" PRIu64 " tags)\n", report->unknown, report->tags);
}

static int check(struct history *history, unsigned texts_max)
{
    struct history_report report;
    size_t len;
    const char *undeclared = history_undeclared(history, &len);
    bool good;

    if (undeclared != NULL) {
        fprintf(stderr, "check-history: no tag line says what tag \"%.*s\" is\n", (int)len,
                undeclared);
        return EXIT_MALFORMED;
    }
    good = history_check(history, texts_max, &report);
    if (report.text.len > 0) {
        fwrite(report.text.data, 1, report.text.len, stdout);
    }
    buf_free(&report.text);
    if (report.operations == 0) {
        fprintf(stderr, "check-history: there are no operations\n");
        return EXIT_MALFORMED;
    }
    print_summary(&report);
    if (!good) {
        return EXIT_FOUND;
    }
    return report.undecided > 0 ? EXIT_UNDECIDED : 0;
}

static int check_files(char **paths, int count, const struct options *options)
{
    struct history *history = history_new();
    int code;

    history_steps(history, options->steps);
    if (count == 0) {
        read_file(history, "-");
    }
    for (int i = 0; i < count; i++) {
        read_file(history, paths[i]);
    }
    code = check(history, (unsigned)options->violations);
    history_free(history);
    return code;
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    int code = 0;

    if (options.selftest > 0) {
        code = selftest_run(options.selftest, options.seed) ? 0 : EXIT_FOUND;
    } else if (options.generate > 0) {
        generate(options.generate, options.seed);
    } else {
        code = check_files(argv + options.files, argc - options.files, &options);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "check-history: the output cannot be written\n");
        return EXIT_NO_OUTPUT;
    }
    return code;
}
