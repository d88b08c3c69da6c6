/*
 * stats.c - see stats.h.
 */
#include "src/base/stats.h"

#include <math.h>
#include <time.h>

#include "src/base/assert.h"
#include "src/base/log.h"

struct bound {
    uint64_t us;
    const char *seconds;
};

static const struct bound bounds[HISTOGRAM_BOUNDS] = {
    {10, "0.00001"},  {20, "0.00002"},  {50, "0.00005"},  {100, "0.0001"},   {200, "0.0002"},
    {500, "0.0005"},  {1000, "0.001"},  {2000, "0.002"},  {5000, "0.005"},   {10000, "0.01"},
    {20000, "0.02"},  {50000, "0.05"},  {100000, "0.1"},  {200000, "0.2"},   {500000, "0.5"},
    {1000000, "1.0"}, {2000000, "2.0"}, {5000000, "5.0"}, {10000000, "10.0"}};

const char *histogram_bound_text(unsigned i)
{
    ASSERT(i < HISTOGRAM_BOUNDS);
    return bounds[i].seconds;
}

unsigned histogram_bucket(uint64_t took_us)
{
    unsigned i = 0;

    while (i < HISTOGRAM_BOUNDS && took_us > bounds[i].us) {
        i++;
    }
    return i;
}

void histogram_note(struct histogram *histogram, uint64_t took_us, uint64_t times)
{
    counter_add(&histogram->counts[histogram_bucket(took_us)], times);
    counter_add(&histogram->sum_us, took_us * times);
}

void histogram_add(struct histogram_view *view, const struct histogram *histogram)
{
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        view->counts[i] += atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
    }
    view->sum_us += atomic_load_explicit(&histogram->sum_us, memory_order_relaxed);
}

uint64_t histogram_count(const struct histogram_view *view)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        sum += view->counts[i];
    }
    return sum;
}

/* --- meter --- */

bool meter_note(struct meter *meter, uint64_t count, uint32_t half_ms, uint64_t now_ms)
{
    uint32_t passed_ms = (uint32_t)now_ms - meter->at_ms;
    bool has_begun = meter->at_ms != 0;
    double keeps;

    ASSERT(half_ms > 0);
    if (has_begun && passed_ms > 0) {
        keeps = exp2(-(double)passed_ms / half_ms);
        meter->per_s =
            (float)(meter->per_s * keeps + (double)count * 1000 / passed_ms * (1 - keeps));
    }
    meter->at_ms = (uint32_t)now_ms;
    return has_begun && passed_ms > 0;
}

/* --- stall --- */

/* The seconds are a ring; a slot that was not written for a minute has an older second, and does
 * not count. */

/* A turn ends, or the first one begins: returns the processor time since the previous one ended. */
static uint64_t busy_us(struct stall *stall, uint64_t now_ms)
{
    const uint64_t before_us = stall->cpu_ms != 0 ? stall->cpu_us : UINT64_MAX;
    struct timespec now;

    ASSERT(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    stall->cpu_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    stall->cpu_ms = now_ms;
    return stall->cpu_us > before_us ? stall->cpu_us - before_us : 0;
}

void stall_begin(struct stall *stall, uint64_t now_ms, const char *doing)
{
    if (stall->cpu_ms == 0) {
        (void)busy_us(stall, now_ms);
    }
    stall->began_ms = now_ms;
    stall->step_ms = now_ms;
    stall->worst_ms = 0;
    stall->doing = doing;
    stall->worst = doing;
}

void stall_step(struct stall *stall, uint64_t now_ms, const char *doing)
{
    uint64_t took_ms = now_ms > stall->step_ms ? now_ms - stall->step_ms : 0;

    if (took_ms > stall->worst_ms) {
        stall->worst_ms = took_ms;
        stall->worst = stall->doing;
    }
    stall->step_ms = now_ms;
    stall->doing = doing;
}

void stall_end(struct stall *stall, uint64_t now_ms, const char *loop)
{
    uint64_t took_ms = now_ms > stall->began_ms ? now_ms - stall->began_ms : 0;
    uint64_t lasted_us = (took_ms + 1) * 1000; /* at most */
    uint64_t second = now_ms / 1000 & UINT32_MAX;
    uint64_t capped = took_ms < UINT32_MAX ? took_ms : UINT32_MAX;
    _Atomic uint64_t *slot = &stall->seconds[second % STALL_SECONDS];
    uint64_t cpu_us = 0;
    uint64_t there;

    if (took_ms > 0 || now_ms >= stall->cpu_ms + STALL_CPU_MS) {
        cpu_us = busy_us(stall, now_ms);
    }
    if (took_ms == 0) {
        return;
    }
    cpu_us = cpu_us < lasted_us ? cpu_us : lasted_us;
    stall_step(stall, now_ms, stall->doing);
    there = atomic_load_explicit(slot, memory_order_relaxed);
    if (there >> 32 != second || (there & UINT32_MAX) < capped) {
        atomic_store_explicit(slot, second << 32 | capped, memory_order_relaxed);
    }
    if (took_ms > atomic_load_explicit(&stall->longest_ms, memory_order_relaxed)) {
        atomic_store_explicit(&stall->longest_ms, took_ms, memory_order_relaxed);
    }
    if (cpu_us > atomic_load_explicit(&stall->busiest_us, memory_order_relaxed)) {
        atomic_store_explicit(&stall->busiest_us, cpu_us, memory_order_relaxed);
    }
    if (took_ms >= STALL_WARN_MS &&
        (stall->warned_ms == 0 || now_ms - stall->warned_ms >= STALL_WARN_AGAIN_MS)) {
        stall->warned_ms = now_ms;
        log_warn("loop", "a turn took long: everything else waited for it",
                 "loop=%s took_ms=%llu cpu_ms=%llu doing=\"%s\" doing_ms=%llu", loop, ull(took_ms),
                 ull(cpu_us / 1000), stall->worst, ull(stall->worst_ms));
    }
    stall->began_ms = now_ms;
    stall->step_ms = now_ms;
}

uint64_t stall_minute_ms(const struct stall *stall, uint64_t now_ms)
{
    uint64_t now = now_ms / 1000 & UINT32_MAX;
    uint64_t longest = 0;

    for (unsigned i = 0; i < STALL_SECONDS; i++) {
        uint64_t there = atomic_load_explicit(&stall->seconds[i], memory_order_relaxed);
        uint64_t took_ms = there & UINT32_MAX;

        if (now - (there >> 32) < STALL_SECONDS && took_ms > longest) {
            longest = took_ms;
        }
    }
    return longest;
}
