/*
 * claims.c - what it costs to claim an id when threads claim of the same tag.
 *
 *     claims THREADS TAGS CLAIMS
 *
 * Each thread claims so many ids, one at a time, of the tag whose number is its own modulo TAGS,
 * with nothing in between: the worst that loops could do to a tag's word. Prints the processor time
 * of a claim, the mean of the threads, in ns. Time that a thread waits for a processor is not in
 * it, time that it waits for the word is.
 *
 * Failure modes: arguments out of range are told, exit code 1. An id that comes twice, or out of
 * order in a thread, is an assertion.
 */
#include <err.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "scripts/bench/nanoseconds.h"
#include "src/base/assert.h"
#include "src/id/alloc/segment.h"

#define THREADS_MAX 64
#define CLAIMS_MAX 50000000 /* of all threads together fewer than a segment has ids */
#define LINE_BYTES 64

/* A tag alone in its cache lines. */
struct tag {
    _Alignas(LINE_BYTES) struct segment_buffer buffer;
};

struct claimer {
    _Alignas(LINE_BYTES) pthread_t thread;
    struct tag *tag;
    uint64_t cpu_ns;
};

static struct tag tags[THREADS_MAX];
static struct claimer claimers[THREADS_MAX];
static pthread_barrier_t start;
static uint64_t claims;

static void *claim_all(void *data)
{
    struct claimer *claimer = data;
    struct segment_range range;
    struct segment_view view;
    uint64_t last = 0;
    uint64_t began_ns;

    (void)pthread_barrier_wait(&start);
    began_ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t i = 0; i < claims; i++) {
        ASSERT(segment_claim(&claimer->tag->buffer, 1, 1, &range, &view) == 0);
        ASSERT(range.first > last);
        last = range.first;
    }
    claimer->cpu_ns = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - began_ns;
    return NULL;
}

static uint64_t number(const char *text, uint64_t max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end != '\0' || value < 1 || value > max) {
        errx(1, "'%s' is not a number from 1 to %lu", text, (unsigned long)max);
    }
    return value;
}

int main(int argc, char **argv)
{
    uint64_t spent_ns = 0;
    unsigned threads;
    unsigned tag_count;

    if (argc != 4) {
        errx(1, "usage: claims THREADS TAGS CLAIMS");
    }
    threads = (unsigned)number(argv[1], THREADS_MAX);
    tag_count = (unsigned)number(argv[2], threads);
    claims = number(argv[3], CLAIMS_MAX);
    ASSERT(pthread_barrier_init(&start, NULL, threads) == 0);
    for (unsigned i = 0; i < tag_count; i++) {
        segment_publish(&tags[i].buffer, 1, UINT32_MAX, 0, 0);
    }
    for (unsigned i = 0; i < threads; i++) {
        claimers[i].tag = &tags[i % tag_count];
        ASSERT(pthread_create(&claimers[i].thread, NULL, claim_all, &claimers[i]) == 0);
    }
    for (unsigned i = 0; i < threads; i++) {
        ASSERT(pthread_join(claimers[i].thread, NULL) == 0);
        spent_ns += claimers[i].cpu_ns;
    }
    for (unsigned i = 0; i < tag_count; i++) { /* each id went to one thread: none is left over */
        uint64_t users = threads / tag_count + (i < threads % tag_count);

        ASSERT(segment_left(&tags[i].buffer) == UINT32_MAX - users * claims);
    }
    printf("%.2f\n", (double)spent_ns / (double)threads / (double)claims);
    return 0;
}
