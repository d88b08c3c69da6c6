/* How snowflake ids are stamped within a worker id's window: the part that asks nobody.
 *
 * The happy path: stamp() with the present time gives an id, by one compare-and-swap. Failure
 * modes: STAMP_WAIT, nothing is left before a later time; STAMP_OVER, that is beyond the window.
 * What counts is the time in the id, never when it is made. Any thread. */
#ifndef LEAFD_CLIENTS_C_STAMP_H
#define LEAFD_CLIENTS_C_STAMP_H

#include "leafd.h"

#include <stdatomic.h>

/* docs/snowflake.md: how the bits of an id are used. */
struct layout {
    int64_t epoch_ms;
    unsigned time_bits, worker_bits, sequence_bits;
};

/* Could leafd have such a layout? */
bool layout_is_right(const struct layout *layout);

/* The last time that it can hold. */
int64_t layout_last_ms(const struct layout *layout);

/* The smallest id of a time, which the layout can hold. */
int64_t layout_at(const struct layout *layout, int64_t time_ms);

struct leafd_parts layout_decode(const struct layout *layout, int64_t id);

/* A worker id with its window. Times count from the layout's epoch. */
struct lease {
    struct layout layout;
    uint32_t worker_id;
    int64_t epoch; /* of the worker id */
    int64_t from_ms;
    _Atomic int64_t until_ms;
    uint64_t seed;
    _Alignas(64) _Atomic uint64_t word; /* last time << 17 | next sequence */
};

enum stamp { STAMPED, STAMP_WAIT, STAMP_OVER };

/* Nothing is stamped yet, and nothing will be up to from_ms. Times since 1970. */
void lease_init(struct lease *lease, const struct layout *layout, int64_t from_ms, int64_t until_ms,
                uint64_t seed);

/* An id at this time since 1970, or, where the clock is behind the last one used, at that. */
enum stamp lease_stamp(struct lease *lease, int64_t now_ms, int64_t *id);

/* The last time used, since 1970; 0: none was. */
int64_t lease_last_ms(const struct lease *lease);

/* Nothing is stamped from now on; the last time used, as above. */
int64_t lease_end(struct lease *lease);

enum {
    STAMP_BACK_MS = 5 /* a clock that is back so far is waited for */
};
#endif
