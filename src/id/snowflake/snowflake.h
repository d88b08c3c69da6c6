/*
 * snowflake.h - ids of time, worker id and sequence (snowflake_layout.h): the generator that all
 * HTTP loops share without a lock.
 *
 * The happy path of a claim: read the wall clock; one compare-and-swap on the slot's word
 * {milliseconds, next sequence} takes the next sequences of this millisecond. A new millisecond
 * starts at a random sequence, for users that shard by the low digits: one that leaves room for
 * four times the ids of the one before, or of this claim. It starts at 0 when the one before was
 * used up, so that a full load gets all 2^sequence_bits ids of each millisecond. (Leaf's 0..99
 * gives 100 of 128 shards ids.)
 *
 * Invariants:
 *  - A slot stamps only times in (from_ms, limit_ms]. limit_ms is never above the end of the window
 *    that the log granted to this worker id and epoch, nor above the mark that is durable on this
 *    node's disk: so neither a later holder nor a later incarnation of this node can stamp the same
 *    time.
 *  - {time, sequence} of a slot's word never falls; each pair is returned once.
 *  - When snowflake_kill() has returned, no claim of that slot succeeds any more, not even one that
 *    had begun: the time that a release reports as last used stays the last one.
 *  - A slot's worker id never changes: another worker id gets another slot.
 * Uniqueness needs no correct clock: a wrong clock can only make a claim fail or wait.
 *
 * Ids under named layouts (named_layout.h) come from the same worker ids, windows and marks, with
 * the layout's current unit of time in place of the millisecond. Each slot has a word of its own
 * for each layout: 4 KiB a layout, and at most LIMIT_LAYOUTS of them. A slot stamps a unit only if
 * the unit's first millisecond is in (from_ms, limit_ms]. These ranges of different holders, epochs
 * and incarnations are disjoint, so their units are too; and within one incarnation a slot's word
 * for a layout never falls. snowflake_kill() ends claims under all layouts. Published data is not
 * freed or moved before the process ends.
 *
 * Failure modes: see snowflake_claim().
 *
 * Threads: snowflake_claim, _last_used_ms, _named_find and _named_is_deleted from any; the rest
 * from the owner (the raft loop). All shared fields are atomics.
 */
#ifndef LEAFD_ID_SNOWFLAKE_SNOWFLAKE_H
#define LEAFD_ID_SNOWFLAKE_SNOWFLAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/clock.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/id/codec/snowflake_layout.h"
#include "src/id/codec/tag.h"

/* How long to wait for a clock that has not reached from_ms yet: a restart begins at a mark that
 * was kept about a second ahead. */
#define SNOWFLAKE_FROM_WAIT_MS 2000

/* Longer units of a named layout begin in the first quarter of the sequence: a claim that does not
 * fit into the rest of a unit waits for the next one. */
#define SNOWFLAKE_SPREAD_UNIT_MS 10

/* --- the position of each worker id of this process under each named layout --- */

#define LAYOUT_WORD_CLOSED (1ULL << 63)
#define LAYOUT_WORD_NEXT_BITS 17 /* 0..2^16: one value more than the widest sequence has */

/* closed << 63 | unit of time << 17 | next sequence of it, after the last id; next sequence 0: no
 * id yet. */
struct layout_word {
    _Atomic uint64_t word;
    _Atomic uint32_t start; /* as in a slot */
    char padding[52];       /* words of two slots never share a cache line */
};

/* The position in a word. */
struct layout_position {
    uint64_t unit;
    uint32_t next;
};

static inline struct layout_position layout_position_of(uint64_t word)
{
    return (struct layout_position){(word & ~LAYOUT_WORD_CLOSED) >> LAYOUT_WORD_NEXT_BITS,
                                    (uint32_t)(word & ((1ULL << LAYOUT_WORD_NEXT_BITS) - 1))};
}

struct layout_words {
    struct layout_word words[LIMIT_SNOWFLAKE_SLOTS];
    struct layout_row row; /* fixed before it is published, except `deleted`, which is here: */
    _Atomic bool deleted;
};

/* The words of all named layouts, in the order in which they were learnt. */
struct layout_words_all {
    _Atomic uint32_t count; /* published ones */
    struct layout_words *items[LIMIT_LAYOUTS];
};

struct snowflake;

/* One worker id's generator. */
struct snowflake_slot {
    /* closed << 63 | (unix_ms - epoch_ms) << 17 | next sequence, of the last id; next sequence 0:
     * no id yet. Closed by snowflake_kill(). */
    _Atomic uint64_t word;
    _Atomic uint64_t from_ms;  /* stamp only above it */
    _Atomic uint64_t limit_ms; /* stamp at most this; 0: not usable (any more) */
    _Atomic uint64_t until_ms; /* end of the granted window: "expired" or "mark lapsed" */
    _Atomic uint32_t start;    /* first sequence of its last millisecond; relaxed, only a hint */
    uint32_t worker;           /* fixed before the slot is published */
    bool dead;                 /* owner: fenced off; never used again */
    struct snowflake *all;     /* its owner; fixed before the slot is published */
    char padding[8];           /* the words of two slots never share a cache line */
};

struct snowflake {
    struct snowflake_layout layout; /* fixed before `ready` is set */
    const struct clock *clock;
    _Atomic bool ready;          /* layout known, slots may be read */
    _Atomic int refusal;         /* 0, or the ERR_* every claim gets now (set by the owner) */
    _Atomic uint32_t slot_count; /* published slots */
    /* A claim found the mark lapsed: the owner must extend it, and clears this flag first. */
    _Atomic bool wanted;
    struct snowflake_slot slots[LIMIT_SNOWFLAKE_SLOTS];
    struct layout_words_all named; /* layouts by name */
};

void snowflake_init(struct snowflake *snowflake, const struct clock *clock);

/* No thread may claim any more. */
void snowflake_release(struct snowflake *snowflake);

/* Owner: fix the layout; once. Its bits must pass snowflake_layout_check() (ASSERT). */
void snowflake_set_layout(struct snowflake *snowflake, const struct snowflake_layout *layout);

/* Owner: publish a slot for a worker id that may stamp (from_ms, limit_ms] for now; until_ms is the
 * end of the granted window, not below limit_ms. The layout must be known. An earlier slot of the
 * same worker id must have been killed, and from_ms must not be below the last time it used
 * (ASSERT). NULL when all slots are used. */
struct snowflake_slot *snowflake_add(struct snowflake *snowflake, uint32_t worker, uint64_t from_ms,
                                     uint64_t limit_ms, uint64_t until_ms);

/* Owner: move the limit (never down, except to 0: no new claims for now) and the window's end. A
 * killed slot stays unchanged, so that a write that ends late does no harm. */
void snowflake_extend(struct snowflake_slot *slot, uint64_t limit_ms, uint64_t until_ms);

/* Owner: another holder has this worker id now; the slot claims no more ids, under any layout. May
 * be repeated. */
void snowflake_kill(struct snowflake_slot *slot);

/* The highest time any id of the slot carries (unix ms), 0 if none. Under a named layout that is
 * the first ms of its unit. */
uint64_t snowflake_last_used_ms(const struct snowflake *snowflake,
                                const struct snowflake_slot *slot);

/*
 * Claim 1..count ids of one unit of time of one slot, as a range: under the cluster's own layout
 * (named: NULL), whose unit is a millisecond, or under a named one, in plain form
 * (snowflake_layout.h). `hint` spreads the callers over several worker ids (an HTTP loop's index);
 * `random` is any random number.
 *
 * 0 with *ret_range, from any slot that can serve. Else the error that will end soonest:
 *  - ERR_EMPTY, try again in a millisecond: this unit is used up; or the mark must be extended
 *    first (`wanted` is set, and *ret_notify for the claim that set it: notify the owner); or the
 *    clock went back by no more than LIMIT_CLOCK_BACK_WAIT_MS, and the last unit, in which claims
 *    meanwhile continue, is used up; or the clock has not reached from_ms and will within
 *    SNOWFLAKE_FROM_WAIT_MS.
 *  - ERR_CLOCK_BACKWARDS: the clock is further back than these bounds.
 *  - ERR_WINDOW_EXPIRED, ERR_EPOCH_EXHAUSTED, ERR_NO_WORKER_ID (no layout, or no live slot, yet).
 *  - ERR_CONFLICT: this process has worker ids, and none of them fits the named layout's bits.
 * The owner's refusal comes before all of them, and ERR_NOT_FOUND (the named layout is deleted)
 * before that. *ret_notify is always set.
 */
int snowflake_claim(struct snowflake *snowflake, struct layout_words *named, unsigned hint,
                    uint32_t count, uint64_t random, struct segment_range *ret_range,
                    bool *ret_notify) MUST_CHECK;

/* --- named layouts --- */

/* Owner: a row as the state machine shows it. A row of a known name can only have been deleted, or
 * revived. If it has other fields, it counts as deleted: no id is stamped under an uncertain
 * layout. */
void snowflake_learn(struct snowflake *snowflake, const struct layout_row *row);

/* The layout of a name, deleted or not; NULL: there is none. It lives as long as the generator. */
struct layout_words *snowflake_named_find(const struct snowflake *snowflake, const char *name,
                                          size_t len);

static inline bool snowflake_named_is_deleted(const struct layout_words *named)
{
    return atomic_load_explicit(&named->deleted, memory_order_relaxed);
}

/* The end of a layout's time. */
struct snowflake_end {
    const char *name; /* "": the cluster's own; lives as long as the generator */
    uint16_t name_len;
    uint64_t last_ms; /* Unix ms, the last that it can hold */
};

/* The ends of all layouts in use: the cluster's own, then the named ones that are not deleted.
 * Returns how many; 0 until the cluster's own is known. */
uint32_t snowflake_ends(const struct snowflake *snowflake,
                        struct snowflake_end ret_ends[1 + LIMIT_LAYOUTS]);

#endif
