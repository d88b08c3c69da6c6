/*
 * plain.c - plain accesses of memory by the code under test, and its heap.
 *
 * The happy path: the compiler's instrumentation (-fsanitize=thread) calls __tsan_*() before each
 * access; they are written down with how far their thread was, and when all threads have ended each
 * two that conflict have to be in order. Memory of the heap is the same at the begin of each run:
 * zeroed, and given out at the same addresses, from a region of each thread.
 *
 * The stack is left out: no thread shares it with another.
 *
 * Failure modes: more than the bounds here: ASSERT. Thread: one.
 */
#include "cluster-tests/memory_model/plain.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "cluster-tests/memory_model/ops.h"
#include "cluster-tests/memory_model/run.h"

#define ACCESSES 16384        /* of a thread */
#define HEAP_BYTES (1U << 20) /* of a thread */
#define PAGE_BYTES 4096U
#define STACK_BYTES (8U << 20)

enum access_kind { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC };

struct access {
    uintptr_t begin;
    uintptr_t end;
    uint8_t kind;
    uint8_t at;    /* events of its thread before it */
    uint8_t knows; /* of these, with an atomic access's own */
};

/* What a thread accessed. */
struct touched {
    size_t count;
    struct access accesses[ACCESSES];
};

static struct {
    struct touched by[GRAPH_THREADS];
    uintptr_t stack; /* a place above the frames of the code under test */
    size_t used[GRAPH_THREADS];
    char race[128];
} plain;

static _Alignas(PAGE_BYTES) uint8_t heap[GRAPH_THREADS][HEAP_BYTES];

void plain_begin(void)
{
    plain.stack = (uintptr_t)__builtin_frame_address(0) + PAGE_BYTES;
    for (unsigned i = 0; i < GRAPH_THREADS; i++) {
        plain.by[i].count = 0;
        memset(heap[i], 0, plain.used[i]);
        plain.used[i] = 0;
    }
}

/* The set-up comes before all others, and what is after the join after them: no races there. */
static void add(enum access_kind kind, uintptr_t at, size_t bytes, unsigned index, unsigned knows)
{
    struct access access = {at, at + bytes, (uint8_t)kind, (uint8_t)index, (uint8_t)knows};
    struct touched *touched = &plain.by[run.thread];

    if (run.thread == 0 || run.thread == GRAPH_LAST || bytes == 0) {
        return;
    }
    ASSERT(touched->count < ACCESSES);
    touched->accesses[touched->count++] = access;
}

void model_plain(const void *address, size_t bytes, bool writes)
{
    uintptr_t at = (uintptr_t)address;
    unsigned index = run.next[run.thread];

    if (at < plain.stack && at > plain.stack - STACK_BYTES) {
        return;
    }
    add(writes ? ACCESS_WRITE : ACCESS_READ, at, bytes, index, index);
}

void plain_atomic(uintptr_t at, size_t bytes, unsigned index, bool init)
{
    add(init ? ACCESS_WRITE : ACCESS_ATOMIC, at, bytes, index, index + 1);
}

/* --- races --- */

/* Does an access happen before one of another thread? */
static bool before(unsigned a_thread, const struct access *a, unsigned b_thread,
                   const struct access *b)
{
    const struct graph *graph = &run.graph;
    struct clock_vector known;

    ASSERT(b->knows <= graph->thread_count[b_thread]);
    if (b->knows == 0) {
        return false;
    }
    known = graph->events[graph->of[b_thread][b->knows - 1]].before;
    return known.of[a_thread] > a->at;
}

/* Two accesses of two threads, the lower of which was run earlier. */
static bool races(unsigned a_thread, const struct access *a, unsigned b_thread,
                  const struct access *b)
{
    bool conflict = a->begin < b->end && b->begin < a->end &&
                    (a->kind == ACCESS_WRITE || b->kind == ACCESS_WRITE);

    if (!conflict || before(a_thread, a, b_thread, b)) {
        return false;
    }
    if (before(b_thread, b, a_thread, a)) {
        /* A plain value that was read, in time, before it was written: see model.h. */
        ASSERT(a->kind == ACCESS_ATOMIC || b->kind == ACCESS_ATOMIC);
        return false;
    }
    snprintf(plain.race, sizeof plain.race,
             "a race of plain accesses: by thread %u before its event %u, by thread %u before %u",
             a_thread, a->at, b_thread, b->at);
    return true;
}

static bool threads_race(unsigned lower, unsigned higher)
{
    const struct touched *a = &plain.by[lower];
    const struct touched *b = &plain.by[higher];

    for (size_t i = 0; i < a->count; i++) {
        for (size_t j = 0; j < b->count; j++) {
            if (races(lower, &a->accesses[i], higher, &b->accesses[j])) {
                return true;
            }
        }
    }
    return false;
}

const char *plain_race(void)
{
    for (unsigned lower = 1; lower <= run.thread_count; lower++) {
        for (unsigned higher = lower + 1; higher <= run.thread_count; higher++) {
            if (threads_race(lower, higher)) {
                return plain.race;
            }
        }
    }
    return NULL;
}

/* --- the heap, and calls that move memory --- */

/* What stands before memory that is given out. */
struct block {
    size_t bytes;
    size_t unused; /* keeps what follows aligned */
};

void *model_calloc(size_t count, size_t bytes)
{
    size_t all = sizeof(struct block) + (count * bytes + 15) / 16 * 16;
    uint8_t *memory = heap[run.thread] + plain.used[run.thread];

    ASSERT(run.thread < GRAPH_THREADS && (count == 0 || bytes <= HEAP_BYTES / count));
    ASSERT(plain.used[run.thread] + all <= HEAP_BYTES);
    plain.used[run.thread] += all;
    add(ACCESS_WRITE, (uintptr_t)memory, all, run.next[run.thread], run.next[run.thread]);
    *(struct block *)memory = (struct block){count * bytes, 0};
    return memory + sizeof(struct block);
}

void *model_realloc(void *memory, size_t bytes)
{
    void *copy = model_calloc(1, bytes);

    if (memory != NULL) {
        size_t old = ((struct block *)memory - 1)->bytes;

        ASSERT(old <= HEAP_BYTES);
        (void)model_copy(copy, memory, old < bytes ? old : bytes);
        model_free(memory);
    }
    return copy;
}

void model_free(void *memory)
{
    if (memory != NULL) {
        model_plain(memory, 1, true); /* it is not used again within this run */
    }
}

void *model_copy(void *to, const void *from, size_t bytes)
{
    model_plain(from, bytes, false);
    model_plain(to, bytes, true);
    return memmove(to, from, bytes);
}

void *model_set(void *to, int byte, size_t bytes)
{
    model_plain(to, bytes, true);
    return memset(to, byte, bytes);
}

int model_differ(const void *a, const void *b, size_t bytes)
{
    model_plain(a, bytes, false);
    model_plain(b, bytes, false);
    return memcmp(a, b, bytes);
}

/* --- what the compiler calls; an access that is not here (unaligned) does not link --- */

#define TSAN_ACCESS(name, bytes, writes)                                                           \
    void __tsan_##name(void *at);                                                                  \
    void __tsan_##name(void *at)                                                                   \
    {                                                                                              \
        model_plain(at, bytes, writes);                                                            \
    }

TSAN_ACCESS(read1, 1, false)
TSAN_ACCESS(read2, 2, false)
TSAN_ACCESS(read4, 4, false)
TSAN_ACCESS(read8, 8, false)
TSAN_ACCESS(read16, 16, false)
TSAN_ACCESS(write1, 1, true)
TSAN_ACCESS(write2, 2, true)
TSAN_ACCESS(write4, 4, true)
TSAN_ACCESS(write8, 8, true)
TSAN_ACCESS(write16, 16, true)

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *call);
void __tsan_func_entry(void *call)
{
    (void)call;
}

void __tsan_func_exit(void *call);
void __tsan_func_exit(void *call)
{
    (void)call;
}

void __tsan_read_range(void *at, long bytes);
void __tsan_read_range(void *at, long bytes)
{
    model_plain(at, (size_t)bytes, false);
}

void __tsan_write_range(void *at, long bytes);
void __tsan_write_range(void *at, long bytes)
{
    model_plain(at, (size_t)bytes, true);
}
