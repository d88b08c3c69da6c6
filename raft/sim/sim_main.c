/*
 * sim_main.c - the simulator's command line: many seeds side by side, or one seed told in full.
 *
 *   sim --seeds 1000 [--first 1] [--jobs 2]
 *   sim --seed 17
 *
 * Each seed runs in a child of its own, so that a failed assertion costs one seed and not the run.
 * Ends with "N passed, N failed"; exit 0 only if none failed.
 *
 * Thread: one a process.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raft/sim/sim.h"
#include "src/base/assert.h"

#define JOBS_MAX 64

struct options {
    uint64_t first;
    uint64_t count;
    uint64_t jobs;
    bool one;
};

static uint64_t number(const char *text, const char *what)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') {
        fprintf(stderr, "sim: %s takes a whole number, not \"%s\"\n", what, text);
        exit(64);
    }
    return value;
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.first = 1, .count = 100, .jobs = 2};

    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) {
            fprintf(stderr, "sim: %s needs a value\n", argv[i]);
            exit(64);
        }
        if (strcmp(argv[i], "--seeds") == 0) {
            options.count = number(argv[i + 1], "--seeds");
        } else if (strcmp(argv[i], "--first") == 0) {
            options.first = number(argv[i + 1], "--first");
        } else if (strcmp(argv[i], "--jobs") == 0) {
            options.jobs = number(argv[i + 1], "--jobs");
        } else if (strcmp(argv[i], "--seed") == 0) {
            options.first = number(argv[i + 1], "--seed");
            options.one = true;
        } else {
            fprintf(stderr, "usage: sim --seeds N [--first S] [--jobs J] | --seed S\n");
            exit(64);
        }
    }
    if (options.jobs < 1 || options.jobs > JOBS_MAX) {
        fprintf(stderr, "sim: --jobs must be 1 to %d\n", JOBS_MAX);
        exit(64);
    }
    return options;
}

static void add(struct sim_stats *total, const struct sim_stats *stats)
{
    uint64_t *to = (uint64_t *)total;
    const uint64_t *from = (const uint64_t *)stats;

    for (size_t i = 0; i < sizeof *total / sizeof *to; i++) {
        to[i] += from[i];
    }
}

static void print_stats(const struct sim_stats *s)
{
    printf(
        "ids %llu, snowflake ids %llu (refused %llu times), changes %llu, deletes %llu, queries "
        "%llu (failed requests %llu), crashes %llu, "
        "cuts %llu, candidacies %llu, snapshots installed %llu, frames %llu (lost %llu), commits "
        "%llu, events %llu\n",
        (unsigned long long)s->ids, (unsigned long long)s->flakes,
        (unsigned long long)s->flakes_refused, (unsigned long long)s->puts,
        (unsigned long long)s->deletes, (unsigned long long)s->queries,
        (unsigned long long)s->failed_requests, (unsigned long long)s->crashes,
        (unsigned long long)s->cuts, (unsigned long long)s->elections,
        (unsigned long long)s->installs, (unsigned long long)s->frames,
        (unsigned long long)s->frames_lost, (unsigned long long)s->commits,
        (unsigned long long)s->events);
}

/* --- one worker: its share of the seeds, each in a child --- */

static bool run_in_child(uint64_t seed, struct sim_stats *total)
{
    struct sim_stats stats = {0};
    int pipe_fds[2];
    bool passed = false;
    int status;
    pid_t pid;

    ASSERT(pipe(pipe_fds) == 0);
    pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        sim_run(seed, false, &stats);
        if (write(pipe_fds[1], &stats, sizeof stats) != (ssize_t)sizeof stats) {
            _Exit(3);
        }
        exit(0); /* not _Exit: the leak checker runs at exit */
    }
    close(pipe_fds[1]);
    if (read(pipe_fds[0], &stats, sizeof stats) == (ssize_t)sizeof stats) {
        add(total, &stats);
        passed = true;
    }
    close(pipe_fds[0]);
    ASSERT(waitpid(pid, &status, 0) == pid);
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "seed %llu ended by signal %d\n  replay it: make sim SEED=%llu\n",
                (unsigned long long)seed, WTERMSIG(status), (unsigned long long)seed);
    }
    return passed && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct share {
    uint64_t passed;
    uint64_t failed;
    struct sim_stats stats;
};

static void work(const struct options *options, uint64_t job, int out)
{
    struct share share = {0};

    for (uint64_t i = job; i < options->count; i += options->jobs) {
        if (run_in_child(options->first + i, &share.stats)) {
            share.passed++;
        } else {
            share.failed++;
        }
        if (job == 0 && i > 0 && i % 200 < options->jobs) {
            printf("  %llu of %llu seeds\n", (unsigned long long)i,
                   (unsigned long long)options->count);
            fflush(stdout);
        }
    }
    if (write(out, &share, sizeof share) != (ssize_t)sizeof share) {
        _Exit(3);
    }
}

static struct share run_all(const struct options *options)
{
    struct share total = {0};
    int fds[JOBS_MAX];

    for (uint64_t job = 0; job < options->jobs; job++) {
        int pipe_fds[2];
        pid_t pid;

        ASSERT(pipe(pipe_fds) == 0);
        fflush(NULL);
        pid = fork();
        ASSERT(pid >= 0);
        if (pid == 0) {
            close(pipe_fds[0]);
            work(options, job, pipe_fds[1]);
            exit(0);
        }
        close(pipe_fds[1]);
        fds[job] = pipe_fds[0];
    }
    for (uint64_t job = 0; job < options->jobs; job++) {
        struct share share;

        ASSERT(read(fds[job], &share, sizeof share) == (ssize_t)sizeof share);
        total.passed += share.passed;
        total.failed += share.failed;
        add(&total.stats, &share.stats);
        close(fds[job]);
    }
    while (wait(NULL) > 0) {
        continue;
    }
    return total;
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    struct share total;

    if (options.one) {
        struct sim_stats stats;

        sim_run(options.first, true, &stats);
        print_stats(&stats);
        printf("1 passed, 0 failed\n");
        return 0;
    }
    printf("simulating %llu seeds from %llu\n", (unsigned long long)options.count,
           (unsigned long long)options.first);
    fflush(stdout);
    total = run_all(&options);
    print_stats(&total.stats);
    printf("%llu passed, %llu failed\n", (unsigned long long)total.passed,
           (unsigned long long)total.failed);
    return total.failed == 0 ? 0 : 1;
}
