/*
 * stall.c - see stall.h. The seconds are a ring; one that was not written for a minute is of an
 * older second, and does not count.
 *
 * Thread: as in stall.h.
 */
#include "src/base/stall.h"

#include "src/base/log.h"

void stall_begin(struct stall *stall, uint64_t now_ms, const char *doing)
{
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

static void note(struct stall *stall, uint64_t now_ms, uint64_t took_ms)
{
    uint64_t second = now_ms / 1000 & UINT32_MAX;
    uint64_t capped = took_ms < UINT32_MAX ? took_ms : UINT32_MAX;
    _Atomic uint64_t *slot = &stall->seconds[second % STALL_SECONDS];
    uint64_t there = atomic_load_explicit(slot, memory_order_relaxed);

    if (there >> 32 != second || (there & UINT32_MAX) < capped) {
        atomic_store_explicit(slot, second << 32 | capped, memory_order_relaxed);
    }
    if (took_ms > atomic_load_explicit(&stall->longest_ms, memory_order_relaxed)) {
        atomic_store_explicit(&stall->longest_ms, took_ms, memory_order_relaxed);
    }
}

void stall_end(struct stall *stall, uint64_t now_ms, const char *loop)
{
    uint64_t took_ms = now_ms > stall->began_ms ? now_ms - stall->began_ms : 0;

    if (took_ms == 0) {
        return;
    }
    stall_step(stall, now_ms, stall->doing);
    note(stall, now_ms, took_ms);
    if (took_ms >= STALL_WARN_MS &&
        (stall->warned_ms == 0 || now_ms - stall->warned_ms >= STALL_WARN_AGAIN_MS)) {
        stall->warned_ms = now_ms;
        log_warn("loop", "a turn took long: everything else waited for it",
                 "loop=%s took_ms=%llu doing=\"%s\" doing_ms=%llu", loop,
                 (unsigned long long)took_ms, stall->worst, (unsigned long long)stall->worst_ms);
    }
    stall->began_ms = now_ms;
    stall->step_ms = now_ms;
}

uint64_t stall_longest_ms(const struct stall *stall)
{
    return atomic_load_explicit(&stall->longest_ms, memory_order_relaxed);
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
