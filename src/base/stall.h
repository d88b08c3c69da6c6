/*
 * stall.h - how long the turns of a loop take: what comes while one lasts has to wait for its end.
 *
 * The happy path: the loop says when a turn begins, what it does from then on, and when the turn
 * ends; any thread reads the longest turn since the start, and of the last minute. And the most
 * processor time that a turn has taken, which a busy machine does not make longer.
 *
 * Failure modes: a turn of STALL_WARN_MS or more is a line of level warn, at most one a minute,
 * with what took most of it. Times are of the monotonic clock, in whole ms: a turn is shown as up
 * to 1 ms shorter or longer than it was. The processor time is a system call, so it is asked for
 * after a turn of a whole ms, and else each STALL_CPU_MS: a turn is shown with that of the short
 * ones before it, but never with more than it lasted.
 *
 * Thread: the loop's, but for stall_longest_ms(), stall_minute_ms() and stall_busiest_us().
 */
#ifndef LEAFD_BASE_STALL_H
#define LEAFD_BASE_STALL_H

#include <stdatomic.h>
#include <stdint.h>

#define STALL_WARN_MS 100
#define STALL_WARN_AGAIN_MS 60000
#define STALL_SECONDS 60
#define STALL_CPU_MS 5

struct stall {
    _Atomic uint64_t longest_ms;             /* since the start */
    _Atomic uint64_t seconds[STALL_SECONDS]; /* the second << 32 | the longest that ended in it */
    _Atomic uint64_t busiest_us;             /* the most processor time of a turn */
    uint64_t cpu_us;                         /* of this thread, at cpu_ms */
    uint64_t cpu_ms;                         /* 0: never */
    uint64_t began_ms;                       /* of the turn */
    uint64_t step_ms;                        /* of what it does now: since then */
    uint64_t worst_ms;                       /* the longest of its steps */
    uint64_t warned_ms;                      /* 0: never */
    const char *doing;
    const char *worst;
};

void stall_begin(struct stall *stall, uint64_t now_ms, const char *doing);
/* From now on the turn does this; a text that stays. */
void stall_step(struct stall *stall, uint64_t now_ms, const char *doing);
/* loop: its name, for the log. */
void stall_end(struct stall *stall, uint64_t now_ms, const char *loop);

uint64_t stall_longest_ms(const struct stall *stall);
uint64_t stall_busiest_us(const struct stall *stall);
/* Of the turns that ended in the last STALL_SECONDS. */
uint64_t stall_minute_ms(const struct stall *stall, uint64_t now_ms);

#endif
