/*
 * id_range.h - consecutive ids, as a claim returns them: of a segment or of a millisecond.
 *
 * Thread: a plain struct.
 */
#ifndef LEAFD_ID_CODEC_ID_RANGE_H
#define LEAFD_ID_CODEC_ID_RANGE_H

#include <stdint.h>

struct segment_range {
    uint64_t first;
    uint32_t count; /* > 0 */
};

#endif
