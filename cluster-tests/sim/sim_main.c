/*
 * sim_main.c - the simulator's command line: many seeds side by side, or one seed told in full.
 *
 *   sim --seeds 1000 [--first 1] [--jobs 2] [--limit 120]
 *   sim --seed 17
 *       and: [--store mem|lmdb] [--machine ids|counter]
 *
 * Each seed runs in a child of its own, so that a failed assertion costs one seed and not the run;
 * every 25th runs a second time, with the other kind of store, to see that it tells the same story.
 * Ends with "N passed, N failed"; exit 0 only if none failed.
 *
 * Thread: one a process.
 */
#include <inttypes.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster-tests/sim/sim.h"
#include "cluster-tests/sim/sim_store.h"
#include "src/base/assert.h"
#include "src/base/log.h"

#define JOBS_MAX 64
#define TWICE_EVERY 25 /* seeds */
#define HEAP_BYTES (32 << 20)
#define HEAP_STEP_BYTES (1 << 20)
#define WAIT_FACTOR 10 /* what a seed may wait, in its limits */

struct options {
    uint64_t first;
    uint64_t count;
    uint64_t jobs;
    uint64_t limit_s; /* of processor time a seed: more is an endless loop */
    bool one;
    bool lmdb;
    bool counter; /* the machine of sim_counter.h, not that of ids */
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

/* Is it the second of two words? It must be one of them. */
static bool is_second(const char *text, const char *option, const char *first, const char *second)
{
    if (strcmp(text, first) != 0 && strcmp(text, second) != 0) {
        fprintf(stderr, "sim: %s takes %s or %s, not \"%s\"\n", option, first, second, text);
        exit(64);
    }
    return strcmp(text, second) == 0;
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.first = 1, .count = 100, .jobs = 2, .limit_s = 120};

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
        } else if (strcmp(argv[i], "--limit") == 0) {
            options.limit_s = number(argv[i + 1], "--limit");
        } else if (strcmp(argv[i], "--seed") == 0) {
            options.first = number(argv[i + 1], "--seed");
            options.one = true;
            options.count = 1;
            options.jobs = 1;
        } else if (strcmp(argv[i], "--store") == 0) {
            options.lmdb = is_second(argv[i + 1], "--store", "mem", "lmdb");
        } else if (strcmp(argv[i], "--machine") == 0) {
            options.counter = is_second(argv[i + 1], "--machine", "ids", "counter");
        } else {
            fprintf(stderr, "usage: sim --seeds N [--first S] [--jobs J] [--limit S] | --seed S, "
                            "[--store mem|lmdb] [--machine ids|counter]\n");
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
    const struct {
        const char *name;
        uint64_t count;
    } lines[] = {
        {"ids", s->ids},
        {"strict ids", s->strict_ids},
        {"strict answers again", s->strict_again},
        {"strict refusals", s->strict_refused},
        {"strict outcomes unknown", s->strict_lost},
        {"strict gaps not decided", s->strict_undecided},
        {"monotonic ids", s->mono_ids},
        {"leaders kept in the dark", s->stale},
        {"ids asked of them", s->mono_stale},
        {"ids given back", s->given_back},
        {"commands that came again late", s->repeats},
        {"changes that all have applied", s->barrier},
        {"snowflake ids", s->flakes},
        {"refusals of snowflake ids", s->flakes_refused},
        {"changes", s->puts},
        {"bulks", s->bulks},
        {"deletes", s->deletes},
        {"max_id forced down", s->forced},
        {"queries", s->queries},
        {"failed requests", s->failed_requests},
        {"crashes", s->crashes},
        {"orderly stops", s->stops},
        {"pauses", s->pauses},
        {"cuts", s->cuts},
        {"strikes", s->strikes},
        {"candidacies", s->elections},
        {"snapshots installed", s->installs},
        {"nodes added", s->changes[MEMBER_ASK_ADD]},
        {"nodes removed", s->changes[MEMBER_ASK_REMOVE]},
        {"leaders chosen", s->changes[MEMBER_ASK_LEAD]},
        {"nodes told that they were removed", s->told},
        {"nodes dead for good", s->dead},
        {"frames", s->frames},
        {"frames lost", s->frames_lost},
        {"requests sent round", s->forwarded},
        {"deaf leaders", s->deaf},
        {"leafds exchanged", s->exchanges},
        {"levels raised", s->raises},
        {"clusters born at a later level", s->births_at},
        {"leafds too old", s->too_old},
        {"disks set back", s->set_back},
        {"times that only the state knew it", s->by_state},
        {"disks that lost a vote", s->lost_votes},
        {"states made another", s->planted},
        {"commits", s->commits},
        {"events", s->events},
    };

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        printf("%s%s %" PRIu64, i > 0 ? ", " : "", lines[i].name, lines[i].count);
    }
    printf("\nstory %016" PRIx64 "\n", s->trace);
}

/* --- one worker: its share of the seeds, each in a child --- */

/* A signal ends a seed that goes on for ever: by the processor's time, since a busy machine makes
 * none endless; one that waits for ever takes none, and is ended by the clock. */
static void limit_time(uint64_t limit_s)
{
    const struct itimerval limit = {.it_value = {.tv_sec = (time_t)limit_s}};

    ASSERT(setitimer(ITIMER_PROF, &limit, NULL) == 0);
    (void)alarm((unsigned)limit_s * WAIT_FACTOR);
}

/* In the child: run the seed, on a heap that is laid out otherwise if asked to. */
_Noreturn static void run_and_exit(const struct options *options, uint64_t seed, size_t shift,
                                   const char *store_dir, struct sim_stats *ret_stats)
{
    volatile char *before = MUST_HAVE(malloc(1 + shift));

    before[shift] = 1;
    if (!options->one) {
        limit_time(options->limit_s);
    }
    (options->counter ? sim_run_counter : sim_run)(seed, options->one, store_dir, ret_stats);
    free((void *)(uintptr_t)before);
    exit(0); /* not _Exit: the leak checker runs at exit */
}

/* Ctrl-C and the like reach the child alone, so that its directory can be removed after it. */
static void hold_signals(int how)
{
    sigset_t set;

    ASSERT(sigemptyset(&set) == 0 && sigaddset(&set, SIGINT) == 0);
    ASSERT(sigaddset(&set, SIGTERM) == 0 && sigaddset(&set, SIGHUP) == 0);
    ASSERT(sigprocmask(how, &set, NULL) == 0);
}

/* Run a seed in a child, to which *ret_stats is shared; true if it passed. */
static bool run_in_child(const struct options *options, uint64_t seed, size_t shift, bool lmdb,
                         struct sim_stats *ret_stats)
{
    char store_dir[SIM_STORE_DIR_BYTES];
    int status;
    pid_t pid;

    if (lmdb) {
        hold_signals(SIG_BLOCK);
        sim_store_dir_make(store_dir);
    }
    pid = fork();
    ASSERT(pid >= 0);
    if (pid == 0) {
        hold_signals(SIG_UNBLOCK);
        run_and_exit(options, seed, shift, lmdb ? store_dir : NULL, ret_stats);
    }
    ASSERT(waitpid(pid, &status, 0) == pid);
    if (lmdb) {
        sim_store_dir_remove(store_dir);
        hold_signals(SIG_UNBLOCK);
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr,
                "seed %" PRIu64 " ended by signal %d\n  replay it: make sim SEED=%" PRIu64 "%s\n",
                seed, WTERMSIG(status), seed, lmdb ? " STORE=lmdb" : "");
    }
    return status == 0;
}

/* What a worker has done; all can see it. */
struct share {
    uint64_t passed;
    uint64_t failed;
    struct sim_stats stats; /* of all its seeds */
    struct sim_stats run;   /* of the last one alone */
};

/* Some seeds run twice: the second run must tell the same story, or no failure could be replayed.
 * It has the other kind of store: what LMDB gives back after a crash is what was committed. */
static bool run_seed(const struct options *options, uint64_t seed, struct share *share)
{
    uint64_t trace;

    if (!run_in_child(options, seed, 0, options->lmdb, &share->run)) {
        return false;
    }
    add(&share->stats, &share->run);
    trace = share->run.trace;
    if (options->one || seed % TWICE_EVERY != 0) {
        return true;
    }
    if (!run_in_child(options, seed, 4096 + seed % 9000, !options->lmdb, &share->run)) {
        return false;
    }
    if (share->run.trace != trace) {
        fprintf(stderr, "seed %" PRIu64 " tells another story when it runs again, %s\n", seed,
                options->lmdb ? "in memory" : "on LMDB");
    }
    return share->run.trace == trace;
}

static void work(const struct options *options, uint64_t job, struct share *share)
{
    for (uint64_t i = job; i < options->count; i += options->jobs) {
        if (run_seed(options, options->first + i, share)) {
            share->passed++;
        } else {
            share->failed++;
        }
        if (job == 0 && i > 0 && i % 200 < options->jobs) {
            printf("  %" PRIu64 " of %" PRIu64 " seeds\n", i, options->count);
            fflush(stdout);
        }
    }
}

static struct share run_all(const struct options *options)
{
    struct share total = {0};
    struct share *shares = mmap(NULL, options->jobs * sizeof *shares, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;

    ASSERT(shares != MAP_FAILED);
    for (uint64_t job = 0; job < options->jobs; job++) {
        pid_t pid;

        fflush(NULL);
        pid = fork();
        ASSERT(pid >= 0);
        if (pid == 0) {
            work(options, job, &shares[job]);
            exit(0);
        }
    }
    while (wait(&status) > 0) {
        ASSERT(status == 0); /* a worker reports what fails, and ends well */
    }
    for (uint64_t job = 0; job < options->jobs; job++) {
        total.passed += shares[job].passed;
        total.failed += shares[job].failed;
        add(&total.stats, &shares[job].stats);
    }
    return total;
}

/* A node's tables are freed when it ends, and wanted again when it starts: the system is not asked
 * for their pages each time. */
static void keep_memory(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, HEAP_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, HEAP_BYTES);
    (void)mallopt(M_TOP_PAD, HEAP_STEP_BYTES);
#endif
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    struct share total;

    keep_memory();
    log_setup(LOG_LEVEL_ERROR, 0); /* the story is told by sim_trace() */
    if (!options.one) {
        printf("simulating %" PRIu64 " seeds from %" PRIu64 "\n", options.count, options.first);
    }
    total = run_all(&options);
    if (!options.one || total.passed > 0) {
        print_stats(&total.stats);
    }
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", total.passed, total.failed);
    return total.failed == 0 ? 0 : 1;
}
