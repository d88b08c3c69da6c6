/*
 * main.c - check-history: the checker of histories as a program.
 *
 *     check-history [--violations N] [--steps N] [FILE...]
 *
 * It checks what is in the files together; - is stdin. Their format is in read.h. The last line of
 * a check is
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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster-tests/history/history.h"
#include "cluster-tests/history/read.h"

#define EXIT_FOUND 1
#define EXIT_UNDECIDED 2
#define EXIT_MALFORMED 64
#define EXIT_NO_FILE 66
#define EXIT_NO_OUTPUT 74
#define TEXTS 20

struct options {
    uint64_t violations;
    uint64_t steps;
    int files; /* place of the first one in argv */
};

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: check-history [--violations N] [--steps N] [FILE...]\n");
    exit(EXIT_MALFORMED);
}

static uint64_t number(const char *text)
{
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0') {
        usage();
    }
    return value;
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.violations = TEXTS, .steps = HISTORY_STEPS};
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
            options.violations = number(argv[i + 1]);
        } else if (strcmp(argv[i], "--steps") == 0) {
            options.steps = number(argv[i + 1]);
        } else {
            usage();
        }
    }
    options.files = i;
    if (options.violations > UINT32_MAX) {
        usage();
    }
    return options;
}

static void read_file(struct history *history, const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    struct buf why = BUF_INIT;
    int err;

    if (file == NULL) {
        fprintf(stderr, "check-history: %s: %s\n", path, strerror(errno));
        exit(EXIT_NO_FILE);
    }
    err = history_read(history, file, is_stdin ? "stdin" : path, &why);
    if (err != 0) {
        fprintf(stderr, "check-history: %s\n", (const char *)why.data);
        exit(err == ERR_IO ? EXIT_NO_FILE : EXIT_MALFORMED);
    }
    if (!is_stdin) {
        (void)fclose(file);
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

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    struct history *history = history_new();
    int code;

    history_steps(history, options.steps);
    if (options.files == argc) {
        read_file(history, "-");
    }
    for (int i = options.files; i < argc; i++) {
        read_file(history, argv[i]);
    }
    code = check(history, (unsigned)options.violations);
    history_free(history);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "check-history: the output cannot be written\n");
        return EXIT_NO_OUTPUT;
    }
    return code;
}
