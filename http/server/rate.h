/*
 * rate.h - whether a client takes its replies fast enough.
 *
 * A slow link is no offence: a client that takes something now and then gets its reply whole. What
 * cannot be is that replies are asked for, made, and left lying in memory. So there are three
 * rules, and the rate that they ask for depends on how much memory is left:
 *
 *   - whoever takes nothing for write_ms has gone;
 *   - over write_ms a client takes at least min_rate bytes a second;
 *   - while output is short, one that holds LIMIT_HTTP_HELD_BYTES or more takes at least
 *     LIMIT_HTTP_SHORT_RATE times as much, over a second.
 *
 * A reply that fits into the buffers of the kernel is never looked at: they have it at once.
 *
 * The happy path: rate_begin() when a client did not take all at once; rate_look() every
 * rate_look_ms() until it has nothing left to take.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_SERVER_RATE_H
#define LEAFD_HTTP_SERVER_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct rate_rule {
    uint32_t write_ms;
    uint32_t min_per_s; /* 0: none */
};

/* What is known of one client's reading. `taken`: bytes that it took of all its replies. */
struct rate {
    uint64_t progress_ms; /* when it was last seen to have taken anything */
    uint64_t begin_ms;    /* of the time over which the rate is looked at */
    uint64_t begin_taken;
    uint64_t look_ms; /* of the last look */
    uint64_t look_taken;
};

enum rate_verdict { RATE_OK, RATE_STALLED, RATE_SLOW, RATE_SLOW_WHILE_SHORT };

void rate_begin(struct rate *rate, uint64_t taken, uint64_t now_ms);

/* The time from one look to the next. */
uint32_t rate_look_ms(const struct rate_rule *rule);

/* waits: the client is to take something (else it is we who are slow); held: bytes in memory for
 * it; is_short: of output. */
enum rate_verdict rate_look(struct rate *rate, const struct rate_rule *rule, uint64_t taken,
                            uint64_t now_ms, bool waits, uint64_t held, bool is_short);

#endif
