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
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/model/model_atomic.h"
#include "src/model/run.h"

#undef malloc
#undef calloc
#undef free
#undef memcpy
#undef memmove
#undef memset
#undef memcmp
#undef assert_failed

#define ACCESSES 65536
#define HEAP_BYTES (1U << 20) /* of a thread */
#define PAGE_BYTES 4096U
#define PAGES (GRAPH_THREADS * (HEAP_BYTES / PAGE_BYTES))
#define STACK_BYTES (8U << 20)

enum access_kind { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC };

struct access {
    uintptr_t begin;
    uintptr_t end;
    uint8_t kind;
    uint8_t thread;
    uint8_t at;    /* events of its thread before it */
    uint8_t knows; /* of these, with an atomic access's own */
};

static struct {
    struct access accesses[ACCESSES];
    size_t count;
    uint32_t writes[ACCESSES]; /* which of them write */
    size_t write_count;
    uintptr_t stack; /* a place above the frames of the code under test */
    size_t used[GRAPH_THREADS];
    bool dirty[PAGES]; /* of the heap */
    uint32_t dirty_pages[PAGES];
    size_t dirty_count;
    char race[128];
} plain;

static _Alignas(PAGE_BYTES) uint8_t heap[GRAPH_THREADS][HEAP_BYTES];

void plain_begin(void)
{
    plain.stack = (uintptr_t)__builtin_frame_address(0) + PAGE_BYTES;
    plain.count = plain.write_count = 0;
    for (size_t i = 0; i < plain.dirty_count; i++) {
        memset((uint8_t *)heap + plain.dirty_pages[i] * PAGE_BYTES, 0, PAGE_BYTES);
        plain.dirty[plain.dirty_pages[i]] = false;
    }
    plain.dirty_count = 0;
    memset(plain.used, 0, sizeof plain.used);
}

static void add(enum access_kind kind, uintptr_t at, size_t bytes, unsigned index, unsigned knows)
{
    struct access access = {
        at, at + bytes, (uint8_t)kind, (uint8_t)run.thread, (uint8_t)index, (uint8_t)knows};

    if (plain.count > 0 && memcmp(&plain.accesses[plain.count - 1], &access, sizeof access) == 0) {
        return;
    }
    ASSERT(plain.count < ACCESSES);
    if (kind == ACCESS_WRITE) {
        plain.writes[plain.write_count++] = (uint32_t)plain.count;
    }
    plain.accesses[plain.count++] = access;
}

/* A write makes the pages of the heap it is in dirty. */
static void soil(uintptr_t at, size_t bytes)
{
    uintptr_t begin = (uintptr_t)&heap[0][0];

    if (at < begin || at >= begin + sizeof heap || bytes == 0) {
        return;
    }
    for (size_t page = (at - begin) / PAGE_BYTES; page <= (at + bytes - 1 - begin) / PAGE_BYTES;
         page++) {
        if (!plain.dirty[page]) {
            plain.dirty[page] = true;
            plain.dirty_pages[plain.dirty_count++] = (uint32_t)page;
        }
    }
}

static void note(const void *address, size_t bytes, bool writes)
{
    uintptr_t at = (uintptr_t)address;
    unsigned index = run.next[run.thread];

    if (at < plain.stack && at > plain.stack - STACK_BYTES) {
        return;
    }
    if (writes) {
        soil(at, bytes);
    }
    add(writes ? ACCESS_WRITE : ACCESS_READ, at, bytes, index, index);
}

void model_plain(const void *at, size_t bytes, bool writes)
{
    note(at, bytes, writes);
}

void plain_atomic(uintptr_t at, size_t bytes, unsigned index, bool init)
{
    add(init ? ACCESS_WRITE : ACCESS_ATOMIC, at, bytes, index, index + 1);
}

/* --- races --- */

/* Does a happen before b? */
static bool before(const struct access *a, const struct access *b)
{
    struct clock_vector known;
    const struct graph *graph = &run.graph;

    if (a->thread == 0 || b->thread == GRAPH_LAST) {
        return true;
    }
    if (b->thread == 0 || a->thread == GRAPH_LAST) {
        return false;
    }
    ASSERT(b->knows <= graph->thread_count[b->thread]);
    if (b->knows == 0) {
        return false;
    }
    known = graph->events[graph->of[b->thread][b->knows - 1]].before;
    return known.of[a->thread] > a->at;
}

static bool conflict(const struct access *a, const struct access *b)
{
    return a->thread != b->thread && a->begin < b->end && b->begin < a->end &&
           (a->kind == ACCESS_WRITE || b->kind == ACCESS_WRITE);
}

/* Two accesses in conflict, the first one was run earlier. */
static bool races(const struct access *a, const struct access *b)
{
    if (before(a, b)) {
        return false;
    }
    /* A plain value that was written, in time, only after it was read: see model.h. */
    ASSERT(!before(b, a) || a->kind == ACCESS_ATOMIC || b->kind == ACCESS_ATOMIC);
    if (before(b, a)) {
        return false;
    }
    snprintf(plain.race, sizeof plain.race,
             "a race of plain accesses: by thread %u before its event %u, by thread %u before %u",
             a->thread, a->at, b->thread, b->at);
    return true;
}

/* A write, and any other access. */
static bool write_races(size_t number)
{
    const struct access *write = &plain.accesses[number];

    for (size_t i = 0; i < plain.count; i++) {
        const struct access *other = &plain.accesses[i];

        if (conflict(write, other) && (i < number ? races(other, write) : races(write, other))) {
            return true;
        }
    }
    return false;
}

const char *plain_race(void)
{
    for (size_t i = 0; i < plain.write_count; i++) {
        if (plain.accesses[plain.writes[i]].thread != 0 && write_races(plain.writes[i])) {
            return plain.race;
        }
    }
    return NULL;
}

/* --- the heap, and calls that move memory --- */

void *model_calloc(size_t count, size_t bytes)
{
    size_t all = (count * bytes + 15) / 16 * 16;
    uint8_t *memory = heap[run.thread] + plain.used[run.thread];

    ASSERT(plain.used[run.thread] + all <= HEAP_BYTES);
    plain.used[run.thread] += all;
    add(ACCESS_WRITE, (uintptr_t)memory, all, run.next[run.thread], run.next[run.thread]);
    return memory;
}

void model_free(void *memory)
{
    if (memory != NULL) {
        note(memory, 1, true); /* it is not used again within this run */
    }
}

void *model_copy(void *to, const void *from, size_t bytes)
{
    note(from, bytes, false);
    note(to, bytes, true);
    return memmove(to, from, bytes);
}

void *model_set(void *to, int byte, size_t bytes)
{
    note(to, bytes, true);
    return memset(to, byte, bytes);
}

int model_differ(const void *a, const void *b, size_t bytes)
{
    note(a, bytes, false);
    note(b, bytes, false);
    return memcmp(a, b, bytes);
}

/* --- what the compiler calls --- */

#define TSAN_ACCESS(name, bytes, writes)                                                           \
    void __tsan_##name(void *at);                                                                  \
    void __tsan_##name(void *at)                                                                   \
    {                                                                                              \
        note(at, bytes, writes);                                                                   \
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
TSAN_ACCESS(unaligned_read2, 2, false)
TSAN_ACCESS(unaligned_read4, 4, false)
TSAN_ACCESS(unaligned_read8, 8, false)
TSAN_ACCESS(unaligned_write2, 2, true)
TSAN_ACCESS(unaligned_write4, 4, true)
TSAN_ACCESS(unaligned_write8, 8, true)

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
    note(at, (size_t)bytes, false);
}

void __tsan_write_range(void *at, long bytes);
void __tsan_write_range(void *at, long bytes)
{
    note(at, (size_t)bytes, true);
}
