/*
 * snowflake.h - ids of time, worker id and sequence: the layout, and the generator that all HTTP
 * loops share without a lock.
 *
 * An id is  time since the epoch << (worker bits + sequence bits) | worker << sequence bits |
 * sequence, with the top bit 0. Leaf's layout is 41 + 10 + 12 bits and epoch 1288834974657.
 *
 * The happy path of a claim: read the wall clock; one compare-and-swap on the slot's word
 * {milliseconds, next sequence} takes the next sequences of this millisecond. A new millisecond
 * starts at a random 0..99 (for those that shard by the low digits), or at 0 when the one before
 * was used up, so that a full load gets all 2^sequence_bits ids of each millisecond.
 *
 * Invariants:
 *  - A slot stamps only times in (from_ms, limit_ms]. limit_ms is never above the end of the window
 *    that the log granted to this worker id and epoch, nor above the mark that is durable on this
 *    node's disk: so neither a later holder nor a later life of this node can stamp the same time.
 *  - {time, sequence} of a slot's word never falls; each pair is returned once.
 *  - A slot's worker id never changes: another worker id gets another slot.
 * Uniqueness needs no clock to be right: a wrong clock can only make the claim refuse or wait.
 *
 * Failure modes: see snowflake_claim().
 *
 * Threads: snowflake_claim, _decode from any; the rest from the owner (the raft loop). All shared
 * fields are atomics.
 */
#ifndef LEAFD_ID_SNOWFLAKE_H
#define LEAFD_ID_SNOWFLAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/clock.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/id/segment.h"

struct snowflake_layout {
    uint64_t epoch_ms; /* Unix time of time 0 */
    uint8_t time_bits;
    uint8_t worker_bits;
    uint8_t sequence_bits;
};

#define SNOWFLAKE_EPOCH_MS 1288834974657ULL /* Leaf's and Twitter's */
#define SNOWFLAKE_LEAF_LAYOUT                                                                      \
    {                                                                                              \
        SNOWFLAKE_EPOCH_MS, 41, 10, 12                                                             \
    }
/* Fits the 53 bits that a JavaScript number holds exactly: 41 + 6 + 6. */
#define SNOWFLAKE_JS53_LAYOUT                                                                      \
    {                                                                                              \
        SNOWFLAKE_EPOCH_MS, 41, 6, 6                                                               \
    }

/* 0, or ERR_INVALID with the rule: 39..45 time bits, 1..10 worker bits, 4..16 sequence bits, at
 * most 63 together; epoch not after now_ms; now_ms within the layout's time. */
int snowflake_layout_check(const struct snowflake_layout *layout, uint64_t now_ms,
                           const char **ret_why) MUST_CHECK;

/* The last Unix millisecond that the layout can hold. */
uint64_t snowflake_last_ms(const struct snowflake_layout *layout);

/* Parts must fit (ASSERT). */
uint64_t snowflake_compose(const struct snowflake_layout *layout, uint64_t unix_ms, uint32_t worker,
                           uint32_t sequence);

struct snowflake_parts {
    uint64_t unix_ms;
    uint32_t worker;
    uint32_t sequence;
};

/* Any 64-bit number decodes. */
struct snowflake_parts snowflake_decode(const struct snowflake_layout *layout, uint64_t id);

/* One worker id's generator. */
struct snowflake_slot {
    _Atomic uint64_t word;     /* (unix_ms - epoch_ms) << 17 | next sequence; time of the last id */
    _Atomic uint64_t from_ms;  /* stamp only above it */
    _Atomic uint64_t limit_ms; /* stamp at most this; 0: not usable (any more) */
    _Atomic uint64_t until_ms; /* end of the granted window, to tell "expired" from "mark lapsed" */
    uint32_t worker;           /* fixed before the slot is published */
    bool dead;                 /* owner: fenced off; never used again */
};

struct snowflake {
    struct snowflake_layout layout; /* fixed before `ready` is set */
    const struct clock *clock;
    _Atomic bool ready;             /* layout known, slots may be looked at */
    _Atomic int refusal;            /* 0, or the ERR_* every claim gets now (set by the owner) */
    _Atomic uint32_t slot_count;    /* published slots */
    _Atomic bool wanted;            /* a claim found the mark lapsed: the owner is to extend it */
    _Atomic uint64_t claimed_total; /* ids claimed; relaxed; for "used since" and metrics */
    struct snowflake_slot slots[LIMIT_SNOWFLAKE_SLOTS];
};

void snowflake_init(struct snowflake *snowflake, const struct clock *clock);

/* Owner: fix the layout; once. */
void snowflake_set_layout(struct snowflake *snowflake, const struct snowflake_layout *layout);

/* Owner: publish a slot for a worker id that may stamp (from_ms, limit_ms] for now; until_ms is the
 * end of the granted window. NULL when all slots are used. */
struct snowflake_slot *snowflake_add(struct snowflake *snowflake, uint32_t worker, uint64_t from_ms,
                                     uint64_t limit_ms, uint64_t until_ms);

/* Owner: move the limit (never below what it was, but to 0) and the window's end. */
void snowflake_extend(struct snowflake_slot *slot, uint64_t limit_ms, uint64_t until_ms);

/* Owner: this worker id is another's now; the slot claims nothing from here on. */
void snowflake_kill(struct snowflake_slot *slot);

/* The highest time any id of the slot carries (unix ms), 0 if none. */
uint64_t snowflake_last_used_ms(const struct snowflake *snowflake,
                                const struct snowflake_slot *slot);

/*
 * Claim 1..count ids of one millisecond of one slot (a range of consecutive ids). `hint` spreads
 * the callers over several worker ids (an HTTP loop's index); `random` is any random number.
 *
 * 0 with *ret_range. ERR_EMPTY: this millisecond is used up on all slots, or the mark has to be
 * extended first (*ret_poke: tell the owner), or the clock is back by no more than
 * LIMIT_CLOCK_BACK_WAIT_MS, or has not reached from_ms and will within 2 s: try again in a
 * millisecond. ERR_CLOCK_BACKWARDS, ERR_WINDOW_EXPIRED, ERR_EPOCH_EXHAUSTED, ERR_NO_WORKER_ID (no
 * slot yet), or the owner's refusal.
 */
int snowflake_claim(struct snowflake *snowflake, unsigned hint, uint32_t count, uint64_t random,
                    struct segment_range *ret_range, bool *ret_poke) MUST_CHECK;

#endif
