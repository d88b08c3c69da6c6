/*
 * id_range.h - ids that follow each other, as a claim returns them: of a segment or of a
 * millisecond.
 *
 * Thread: a plain struct.
 */
#ifndef LEAFD_ID_CODEC_ID_RANGE_H
#define LEAFD_ID_CODEC_ID_RANGE_H

#include <stdint.h>

struct segment_range {
    uint64_t first;
    uint32_t count;     /* > 0 */
    uint32_t increment; /* from one to the next; 0: 1 */
};

/* The id after the last one of a range. */
static inline uint64_t range_next(const struct segment_range *range)
{
    return range->first + (uint64_t)range->count * (range->increment + (range->increment == 0));
}

#endif
