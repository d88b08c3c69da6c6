/*
 * rate.c - see rate.h. Thread: pure functions, any.
 */
#include "http/server/rate.h"

#include "src/base/assert.h"
#include "src/base/limits.h"

#define LOOK_MS 1000

void rate_begin(struct rate *rate, uint64_t taken, uint64_t now_ms)
{
    *rate = (struct rate){.progress_ms = now_ms,
                          .begin_ms = now_ms,
                          .begin_taken = taken,
                          .look_ms = now_ms,
                          .look_taken = taken};
}

uint32_t rate_look_ms(const struct rate_rule *rule)
{
    return rule->write_ms < LOOK_MS ? rule->write_ms : LOOK_MS;
}

/* Fewer bytes than per_s would be? */
static bool is_below(uint64_t bytes, uint64_t ms, uint64_t per_s)
{
    return bytes * 1000 < per_s * ms;
}

enum rate_verdict rate_look(struct rate *rate, const struct rate_rule *rule, uint64_t taken,
                            uint64_t now_ms, bool waits, uint64_t held, bool is_short)
{
    uint64_t since_look_ms = now_ms - rate->look_ms;
    uint64_t since_look = taken - rate->look_taken;

    ASSERT(now_ms >= rate->look_ms && taken >= rate->look_taken);
    if (!waits) {
        rate_begin(rate, taken, now_ms);
        return RATE_OK;
    }
    if (since_look > 0) {
        rate->progress_ms = now_ms;
    }
    rate->look_ms = now_ms;
    rate->look_taken = taken;
    if (now_ms - rate->progress_ms >= rule->write_ms) {
        return RATE_STALLED;
    }
    if (is_short && held >= LIMIT_HTTP_HELD_BYTES && since_look_ms >= rate_look_ms(rule) &&
        is_below(since_look, since_look_ms, (uint64_t)rule->min_per_s * LIMIT_HTTP_SHORT_RATE)) {
        return RATE_SLOW_WHILE_SHORT;
    }
    if (now_ms - rate->begin_ms < rule->write_ms) {
        return RATE_OK;
    }
    if (is_below(taken - rate->begin_taken, now_ms - rate->begin_ms, rule->min_per_s)) {
        return RATE_SLOW;
    }
    rate->begin_ms = now_ms;
    rate->begin_taken = taken;
    return RATE_OK;
}
