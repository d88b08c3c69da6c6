/*
 * refill.h - how large the next segment is and when to ask for it: pure decisions.
 *
 * Size of the next segment, per tag and node:
 *  1. Leaf's rule (SegmentIDGenImpl): the first two are the tag's step; from the third on, the time
 * d since the previous load decides: d < 15 min doubles unless that passes max_step, 15 <= d < 30
 *     min keeps, d >= 30 min halves unless that falls below step.
 *  2. At least pace * cover_ms, where pace is how fast the last segment was used up (ids a second),
 *     so that a buffer outlasts a failover at once and not after many doublings. It is not the rate
 *     shown to people (allocator.h): it rises at once, and stays constant between two segments.
 *  3. At least the demand of parked requests.
 *  4. At most max_step, at least step.
 *
 * A tag with a cover_s is sized by time in place of 1 and 2: REFILL_COVER_PERCENT of the ids that
 * its pace, or its present pace if higher, uses up in cover_s. A node holds the least, nine tenths
 * of a segment, just before a refill lands; the rest is for a varying rate.
 *
 * Thread: one owner (the raft loop), or tests.
 */
#ifndef LEAFD_ID_ALLOC_REFILL_H
#define LEAFD_ID_ALLOC_REFILL_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/stats.h"

#define REFILL_SEGMENT_DURATION_MS (15 * 60 * 1000) /* Leaf's SEGMENT_DURATION */
#define REFILL_PACE_WINDOW_MS 100                   /* a pace is measured over at least this */
#define REFILL_DEFAULT_PERCENT 10    /* Leaf asks when 10 % of the current segment is used */
#define REFILL_DEFAULT_COVER_MS 5000 /* longer than an election with default timeouts */
#define REFILL_COVER_PERCENT 140
#define REFILL_GRACE_LOADS 2 /* refills after which a tag lasts for its cover_s */

struct refill {
    /* The tag's, as last seen; 0: unknown. Any thread reads them. */
    _Atomic uint32_t step;
    _Atomic uint32_t max_step;
    uint32_t size;       /* size of the last segment received; 0: none yet */
    uint32_t generation; /* the tag's generation the slots belong to */
    uint32_t unused;     /* ids unused just after it arrived, its own included */
    struct meter rate;   /* of ids that this node hands out; the allocator's */
    uint8_t loads;       /* segments received, up to UINT8_MAX */
    bool is_short; /* it lasts less than cover_s; this and the next two are the allocator's: */
    uint8_t short_since_s; /* low bits of the second since which it is short */
    uint8_t short_loads;   /* 0: it lasts; else 1 and the segments since then, up to UINT8_MAX */
    uint64_t last_load_ms; /* monotonic; when the last segment arrived */
    uint64_t end;          /* exclusive end of the newest range published of this generation */
    float pace_per_s;      /* how fast segments were used up, for sizes alone; 0: unknown */
    uint32_t cover_s;      /* of the tag's row; 0: none */
};

/* The size to ask for now. demand: ids that parked requests want. Result in 1..max_step (or 0 =
 * "the tag's step" while step is unknown and demand is 0). Changes nothing: a failed request is
 * repeated with the same size, apart from the effect of the time passed. */
uint32_t refill_size(const struct refill *refill, uint64_t now_ms, uint32_t cover_ms,
                     uint64_t demand);

/* A refill of a tag with a cover_s is about to be requested, with `left` ids unused: the pace is
 * raised to at least the pace since the last segment. */
void refill_hurry(struct refill *refill, uint64_t now_ms, uint64_t left);

/* Note a segment of `size` ids arrived at now_ms; `left` ids of older segments were still unused.
 * Measures the pace: up at once, down by halves unless the tag was idle for SEGMENT_DURATION. */
void refill_loaded(struct refill *refill, uint64_t now_ms, uint32_t size, uint64_t left);

/* The slots now belong to another generation and are empty: forget all that was learnt of the older
 * one. */
void refill_reset(struct refill *refill, uint32_t generation);

/* True if, with `used` of `size` ids of the current segment used and no next one, it is time to
 * ask: used * 100 > size * percent (Leaf: idle < 0.9 * step), or the slot is used up. */
bool refill_due(uint32_t used, uint32_t size, uint32_t percent);

#endif
