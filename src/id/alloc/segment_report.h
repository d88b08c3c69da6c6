/*
 * segment_report.h - what a node reports of its segments: each tag's, and what became of ids that
 * nobody got.
 *
 * Thread: plain structs; filled by the allocator on the raft loop.
 */
#ifndef LEAFD_ID_ALLOC_SEGMENT_REPORT_H
#define LEAFD_ID_ALLOC_SEGMENT_REPORT_H

#include "src/base/limits.h"
#include "src/id/alloc/id_table.h"

struct id_segment_info {
    char name[LIMIT_TAG_NAME_BYTES + 1];
    uint16_t name_len;
    uint32_t state;                    /* enum id_tag_state */
    struct segment_slot_view slots[2]; /* 0: current */
    uint32_t step;                     /* last segment's size; 0 when none came yet */
    bool refill_in_flight;
    uint64_t last_refill_ago_ms; /* UINT64_MAX: never */
    uint64_t rate_per_s;
};

struct id_segments_page {
    struct id_segment_info *items; /* malloc'ed by the backend, freed by the caller */
    size_t count;
    bool more;
};

/* Why ids were burnt: granted to this node and handed to nobody. A crash burns what was in memory;
 * nobody is left to count that. */
enum id_burn_cause {
    ID_BURN_GENERATION, /* the tag was deleted, forced down, or became strict */
    ID_BURN_LATE,       /* a grant came after it had been given up, or did not fit */
    ID_BURN_STOP,       /* left in memory at a clean stop, and not to be given back */
    ID_BURN_STRICT,     /* allocated for strict requests that had been answered with an error */
    ID_BURN_SKIPPED,    /* too few in one piece for contiguous=1 */
    ID_BURN_UNANSWERED, /* claimed for a request that failed afterwards */
    ID_BURN_CAUSES
};

#endif
