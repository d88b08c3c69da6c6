/*
 * segment.h - the double buffer of a tag: two slots of granted ids, claimed without a lock.
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
 * from the owner (the raft loop) alone. All fields are atomics, so the sanitizer can check the
 * order of accesses.
 */
#ifndef LEAFD_ID_ALLOC_SEGMENT_H
#define LEAFD_ID_ALLOC_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/id/codec/tag.h"

/* All zeros: nothing to claim, ready for the first publish. */
struct segment_buffer {
    _Atomic uint64_t word;     /* generation:32 | used:32 of the current slot */
    _Atomic uint64_t first[2]; /* of each slot: first id of the range */
    _Atomic uint32_t size[2];  /* ids in the range */
    _Atomic uint32_t ready;    /* newest generation that was published */
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

#endif
