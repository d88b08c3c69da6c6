/*
 * named_layout.h - layouts of snowflake ids that have a name: any unit of time, any epoch, and the
 * worker id before or behind the sequence. And the row of one.
 *
 * The time of an id is the number of whole units since the epoch. Which times a node may stamp is
 * counted in Unix ms for all layouts (docs/snowflake.md): a unit belongs to whoever may stamp its
 * first millisecond, named_layout_begin_ms().
 *
 * An id is handed around with the sequence last, so that ids of one unit follow each other; that is
 * its plain form. named_layout_id() makes of it what users see.
 *
 * The happy path: an operator's fields, or a preset, pass named_layout_check(); the log fixes them
 * under the name; from then on ids are composed and taken apart by them.
 *
 * Failure modes: ERR_INVALID with the rule that is broken. A row that keeps them not is
 * ERR_CORRUPT.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_ID_CODEC_NAMED_LAYOUT_H
#define LEAFD_ID_CODEC_NAMED_LAYOUT_H

#include <stddef.h>

#include "src/base/fields.h"
#include "src/base/limits.h"
#include "src/id/codec/snowflake_layout.h"

/* What stands in the lowest bits. */
enum layout_order { LAYOUT_SEQUENCE_LAST = 0, LAYOUT_WORKER_LAST = 1 };

struct named_layout {
    struct snowflake_layout bits;
    uint16_t unit_ms; /* 1, 10 or 1000 */
    uint8_t order;    /* enum layout_order */
};

/* 0, or ERR_INVALID with the rule in *ret_why (NULL on success): 24..45 time bits, 1..22 worker
 * bits, 1..16 sequence bits, at most 63 together; a known unit and order; epoch not after now_ms,
 * nor so late that no time can be shown; now_ms within the time bits. */
int named_layout_check(const struct named_layout *layout, uint64_t now_ms,
                       const char **ret_why) MUST_CHECK;

bool named_layout_equal(const struct named_layout *a, const struct named_layout *b);

/* A layout that others made known, by its name. False: there is none of the name. */
bool named_layout_preset(const char *name, size_t len, struct named_layout *ret_layout);

/* The first Unix ms of a unit; at most LIMIT_TIME_MAX_MS and the longest span, so that it cannot
 * wrap. */
static inline uint64_t named_layout_begin_ms(const struct named_layout *layout, uint64_t unit)
{
    return layout->bits.epoch_ms + unit * layout->unit_ms;
}

/* The unit that a Unix ms lies in, which is not before the epoch. */
static inline uint64_t named_layout_unit(const struct named_layout *layout, uint64_t unix_ms)
{
    return (unix_ms - layout->bits.epoch_ms) / layout->unit_ms;
}

/* The last unit that the layout can hold. */
static inline uint64_t named_layout_last_unit(const struct named_layout *layout)
{
    return snowflake_span_ms(&layout->bits);
}

/* The last Unix ms that it can hold. */
static inline uint64_t named_layout_last_ms(const struct named_layout *layout)
{
    return named_layout_begin_ms(layout, named_layout_last_unit(layout)) + layout->unit_ms - 1;
}

/* The plain form. Parts must fit (ASSERT). */
static inline uint64_t named_layout_compose(const struct named_layout *layout, uint64_t unit,
                                            uint32_t worker, uint32_t sequence)
{
    const struct snowflake_layout *bits = &layout->bits;

    ASSERT(unit <= named_layout_last_unit(layout));
    ASSERT(worker >> bits->worker_bits == 0);
    ASSERT(sequence < snowflake_sequences(bits));
    return unit << (bits->worker_bits + bits->sequence_bits) |
           (uint64_t)worker << bits->sequence_bits | sequence;
}

/* The id of a plain form. */
uint64_t named_layout_id(const struct named_layout *layout, uint64_t plain);

/* Any 64-bit number decodes, but for times that cannot be shown: then false. unix_ms is the unit's
 * first. */
bool named_layout_decode(const struct named_layout *layout, uint64_t id,
                         struct snowflake_parts *ret_parts) MUST_CHECK;

/* --- the row --- */

/* A name once made stays: with deleted it hands out nothing, and keeps its meaning. */
struct layout_row {
    uint16_t name_len;
    bool deleted;
    char name[LIMIT_LAYOUT_NAME_BYTES + 1];
    struct named_layout layout;
    uint64_t created_ms; /* the proposer's, for people */
};

/* Its name stands in the key. */
extern const struct row_format layout_row_format;

/* 1..LIMIT_LAYOUT_NAME_BYTES of a-z, 0-9, '-', '_' and '.', the first a letter or digit. */
bool layout_name_fits(const char *name, size_t len);

/* --- commands --- */

/* Make a layout; a layout_row, of which it says the name, the layout and created_ms. To delete one
 * takes a delete_command (command.h). */
extern const struct field layout_put_fields[];
#define LAYOUT_PUT_FIELDS 8

#endif
