/*
 * segment.h - the double buffer of a tag: two slots of granted ids, claimed without a lock; and how
 * large the next segment is, and when to ask for it.
 *
 * The happy path: a claim of n ids is one compare-and-swap on `word` = generation:32 | used:32. The
 * current slot is generation & 1. The raft loop fills the other slot and publishes it by
 * setting `ready` to generation + 1; a claim that finds the current slot used up moves the word to
 * the next generation.
 *
 * Invariants:
 *  - An id of a published range is returned by at most one claim: only the CAS that moves `used`
 * over it returns it, and the generation in the word makes a stale view of a refilled slot fail.
 *  - A slot is written only while generation == ready, and only the slot not in use.
 *  - Claims of one thread rise, and a claim that starts after another ended returns larger ids, as
 *    long as each published range is above the one before.
 *
 * Failure modes: none that lose ids; a process that dies burns the ids left.
 *
 * Threads: segment_claim, segment_left, segment_make_room from any; publish, can_publish, burn
 * from the owner (the raft loop) alone. All fields but the owner's are atomics, so the sanitizer
 * can check the order of accesses.
 */
#ifndef LEAFD_ID_ALLOC_SEGMENT_H
#define LEAFD_ID_ALLOC_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/base/stats.h"
#include "src/id/codec/tag.h"

/* All zeros: nothing to claim, ready for the first publish. */
struct segment_buffer {
    _Atomic uint64_t word;     /* generation:32 | used:32 of the current slot */
    _Atomic uint64_t first[2]; /* of each slot: first id of the range */
    _Atomic uint32_t size[2];  /* ids in the range */
    _Atomic uint32_t ready;    /* newest generation that was published */
    uint32_t unseen;           /* the owner's: ids left at its last look, and come since */
    /* Of both slots: the tag's generation that they were granted under:32 | from one id to the
     * next:32, > 0 once one was filled. */
    _Atomic uint64_t terms;
};

/* What a claim returns beside its ids, for the refill decision. */
struct segment_view {
    uint32_t used;    /* of the current slot, after the claim */
    uint32_t size;    /* of the current slot */
    bool next_ready;  /* the other slot is filled */
    uint32_t skipped; /* ids that this claim burnt: of slots that were too short */
    uint32_t of;      /* the tag's generation that the ids were granted under */
};

/* Claim ids from one slot, in one range: as many as it has, at least `least` and at most `count`; 1
 * <= least <= count. Slots that are too short are skipped while there is a next one. 0 with
 * *ret_range, or ERR_EMPTY when no slot has the range now: the last slot is unchanged, and a slot
 * of at least `least` ids must be published. ret_view is always set. */
int segment_claim(struct segment_buffer *buffer, uint32_t least, uint32_t count,
                  struct segment_range *ret_range, struct segment_view *ret_view) MUST_CHECK;

/* Is there a free slot for another segment? If the current slot is used up and the next one is
 * filled, the next becomes the current one; no id is claimed or skipped. A moment's view. */
bool segment_make_room(struct segment_buffer *buffer);

/* True if the slot not in use is free to be filled. */
bool segment_can_publish(const struct segment_buffer *buffer);

/* Fill the slot not in use with size ids from first on, granted under this generation of the tag,
 * and make it claimable. size > 0; increment 0: 1. segment_can_publish() must hold, and no id of
 * another generation or increment may be left. */
void segment_publish(struct segment_buffer *buffer, uint64_t first, uint32_t size,
                     uint32_t increment, uint32_t of);

/* Burn all ids left; returns how many. Afterwards can_publish() holds. */
uint64_t segment_burn(struct segment_buffer *buffer);

/* Ids left in both slots (a moment's view). */
uint64_t segment_left(const struct segment_buffer *buffer);

/* A moment's view of both slots for people: slot 0 is the current one. A slot that holds nothing
 * has size 0. next_id is the next id it would hand out, end the exclusive end: the last one and 1.
 */
struct segment_slot_view {
    uint64_t next_id;
    uint64_t end;
    uint32_t size;
    uint32_t increment; /* 0: 1 */
};
/* The ids that it has left. */
static inline uint64_t segment_slot_left(const struct segment_slot_view *slot)
{
    return slot->end > slot->next_id
               ? (slot->end - slot->next_id - 1) / increment_of(slot->increment) + 1
               : 0;
}

void segment_inspect(const struct segment_buffer *buffer, struct segment_slot_view ret_slots[2]);

/*
 * --- refill: how large the next segment is and when to ask for it: pure decisions.
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
 * Failure modes: none; all sums saturate. Thread: one owner (the raft loop), but refill_due().
 */

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
