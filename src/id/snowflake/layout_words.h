/*
 * layout_words.h - how far each worker id of this process has got under each named layout.
 *
 * The happy path: the owner publishes a layout's words, one for each slot of the generator
 * (snowflake.h); claims move them up by compare-and-swap (snowflake_named.h); when a slot is
 * killed its words of all layouts are closed.
 *
 * Memory: 4 KiB a layout, of which there are LIMIT_LAYOUTS at most. Nothing that is published is
 * freed or moved before the process ends.
 *
 * Failure modes: none.
 *
 * Threads: layout_words_last_used_ms from any; the rest from the owner (the raft loop).
 */
#ifndef LEAFD_ID_SNOWFLAKE_LAYOUT_WORDS_H
#define LEAFD_ID_SNOWFLAKE_LAYOUT_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/limits.h"
#include "src/id/codec/snowflake_layout.h"

#define LAYOUT_WORD_CLOSED (1ULL << 63)
#define LAYOUT_WORD_NEXT_BITS 17 /* 0..2^16: one value more than the widest sequence has */

/* closed << 63 | unit of time << 17 | next sequence of it, after the last id; next sequence 0: no
 * id yet. */
struct layout_word {
    _Atomic uint64_t word;
    char padding[56]; /* those of two slots never share a cache line */
};

/* What a word says. */
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
    struct layout_row row; /* fixed before it is published, but for `deleted`, which is here: */
    _Atomic bool deleted;
};

/* Of all named layouts, in the order in which they were learnt. */
struct layout_words_all {
    _Atomic uint32_t count; /* published ones */
    struct layout_words *items[LIMIT_LAYOUTS];
};

/* Publish a layout whose name is not there yet; there is room (ASSERT). Slots below slot_count that
 * are dead have to be closed before: dead(data, k) says which are. */
void layout_words_add(struct layout_words_all *all, const struct layout_row *row,
                      uint32_t slot_count, bool (*dead)(const void *data, uint32_t k),
                      const void *data);

/* Slot k claims nothing under any layout from here on. */
void layout_words_close(struct layout_words_all *all, uint32_t k);

/* The first ms of the latest unit that an id of slot k carries under any layout; 0 if none. */
uint64_t layout_words_last_used_ms(const struct layout_words_all *all, uint32_t k);

/* Nobody claims any more. */
void layout_words_release(struct layout_words_all *all);

#endif
