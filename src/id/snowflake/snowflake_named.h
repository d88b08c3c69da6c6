/*
 * snowflake_named.h - ids under named layouts (snowflake_layout.h), from the same worker ids,
 * windows and marks as the generator's own.
 *
 * The happy path of a claim: as snowflake_claim(), with the unit of time that the wall clock is in
 * for the millisecond: one compare-and-swap on the slot's word of this layout.
 *
 * Invariant: a slot stamps a unit only if the unit's first millisecond lies in (from_ms, limit_ms].
 * These ranges of different holders, epochs and incarnations do not meet, so neither do their
 * units; and within one incarnation a slot has one word for each layout, which never falls.
 * snowflake_kill() ends claims under all of them.
 *
 * No lock, no allocation and no system call in a claim.
 *
 * Failure modes: see snowflake_named_claim().
 *
 * Threads: _find, _claim, _is_deleted and snowflake_ends() from any; _learn from the owner (the
 * raft loop).
 */
#ifndef LEAFD_ID_SNOWFLAKE_SNOWFLAKE_NAMED_H
#define LEAFD_ID_SNOWFLAKE_SNOWFLAKE_NAMED_H

#include "src/id/snowflake/snowflake.h"

/* Owner: a row as the state machine shows it. One of a name that is known can only have been
 * deleted, or be back; should it have other fields, it counts as deleted: nothing is stamped under
 * a layout that is in doubt. */
void snowflake_learn(struct snowflake *snowflake, const struct layout_row *row);

/* The layout of a name, deleted or not; NULL: there is none. It stays as long as the generator. */
struct layout_words *snowflake_named_find(const struct snowflake *snowflake, const char *name,
                                          size_t len);

static inline bool snowflake_named_is_deleted(const struct layout_words *named)
{
    return atomic_load_explicit(&named->deleted, memory_order_relaxed);
}

/* When the time of a layout is over. */
struct snowflake_end {
    const char *name; /* "": the cluster's own; stays as long as the generator */
    uint16_t name_len;
    uint64_t last_ms; /* Unix ms, the last that it can hold */
};

/* Of all layouts that ids are handed out under: the cluster's own, then those that have a name and
 * are not deleted. Returns how many; 0 until the cluster's own is known. */
uint32_t snowflake_ends(const struct snowflake *snowflake,
                        struct snowflake_end ret_ends[1 + LIMIT_LAYOUTS]);

/*
 * Claim 1..count ids of one unit of one slot, as snowflake_claim() does: *ret_range has their plain
 * forms (snowflake_layout.h). Errors as there, for units instead of milliseconds, and
 *  - ERR_NOT_FOUND: the layout is deleted.
 *  - ERR_CONFLICT: this process has worker ids, and none of them fits the layout's bits.
 */
int snowflake_named_claim(struct snowflake *snowflake, struct layout_words *named, unsigned hint,
                          uint32_t count, uint64_t random, struct segment_range *ret_range,
                          bool *ret_notify) MUST_CHECK;

#endif
