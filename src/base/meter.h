/*
 * meter.h - how often something happens a second, of late: an average that fades.
 *
 * What is `half_ms` ago counts half as much as what is now. So the rate halves in each half_ms in
 * which nothing happens, and falls to 0.
 *
 * The happy path: meter_note() hears now and then how many there were since the time before; they
 * are taken as spread evenly over that time. A count of 0 lets the rate fade.
 *
 * Failure modes: none. Times are kept in 32 bits: more than 49 days between two notes are taken for
 * less. Thread: one owner.
 */
#ifndef LEAFD_BASE_METER_H
#define LEAFD_BASE_METER_H

#include <stdbool.h>
#include <stdint.h>

/* All zeros: nothing happened, and the first note begins to count. */
struct meter {
    float per_s;    /* as of: */
    uint32_t at_ms; /* monotonic, its low bits; 0: not begun */
};

/* False: it has just begun, or no time has passed, and the count is to come again with the next. */
bool meter_note(struct meter *meter, uint64_t count, uint32_t half_ms, uint64_t now_ms);

#endif
