/*
 * level.h - the feature levels of the cluster that this leafd speaks.
 *
 * A level is a number for the way entries are applied, and bytes are written and sent. The cluster
 * has one at a time, in a row (state_tables.h), and an entry raises it by one when every member
 * speaks the next one. Code that changes the meaning of an entry, a row, or the bytes of either
 * goes by the level in force, never by this leafd's abilities: see docs/versions.md.
 *
 * Thread: constants, any.
 */
#ifndef LEAFD_STATE_CODEC_LEVEL_H
#define LEAFD_STATE_CODEC_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/fields.h"

/* From the oldest level that this leafd still speaks to the newest that it knows. The tests link a
 * leafd that speaks one more, which does nothing (make next-level): so use level_own. */
#define LEVEL_OLDEST 1
#define LEVEL_NEWEST 3

/* The level of a cluster without a row of it. */
#define LEVEL_FIRST 1

struct level_range {
    uint16_t min; /* 1..max */
    uint16_t max;
};

/* The levels of this leafd. */
extern const struct level_range level_own;

static inline bool level_is_sound(struct level_range range)
{
    return range.min >= 1 && range.min <= range.max;
}

static inline bool level_meets(struct level_range a, struct level_range b)
{
    return a.min <= b.max && b.min <= a.max;
}

/* COMMAND_LEVEL: raise the level to this one, the present one plus 1. */
struct level_command {
    uint16_t to;
    uint64_t wall_ms; /* the proposer's, for people */
};

/* The row of the level in force. Keys and fields never change: each leafd, however old, reads it
 * and reports the level needed. */
struct level_row {
    uint16_t level;
    uint64_t index; /* of the entry that raised it */
    uint64_t wall_ms;
};
extern const struct row_format level_row_format;

#endif
