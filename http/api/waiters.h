/*
 * waiters.h - requests that wait for ids: by tag, in order of arrival.
 *
 * The happy path: waiters_add(); when the tag is woken, waiters_first() and waiters_after() walk
 * its requests oldest first; one that is served is taken out by waiters_remove(). The ids they want
 * are counted in tag->demand as long as they are parked, so that segments are sized for them.
 *
 * Those that wait for snowflake ids, which time alone brings, have no tag: NULL in its place. They
 * wait for clocks of different steps, one for each layout, and those of one never for another's.
 *
 * Failure modes: more than LIMIT_WAITERS_PER_LOOP: ERR_OVERLOADED. Nothing allocates: the struct is
 * part of what the api keeps for the request.
 *
 * Thread: the owner's (one HTTP loop); tag->demand and count are atomics.
 */
#ifndef LEAFD_HTTP_API_WAITERS_H
#define LEAFD_HTTP_API_WAITERS_H

#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/err.h"
#include "src/id/alloc/id_table.h"

struct waiter {
    RB_ENTRY(waiter) link;
    struct id_tag *tag; /* NULL: it waits for the clock alone */
    const void *clock;  /* of those without a tag: which; set before it is parked, NULL as a rule */
    uint64_t seq;       /* order of arrival on this loop */
    uint64_t demand;    /* what this one adds to tag->demand */
    bool parked;
};

RB_HEAD(waiter_tree, waiter);

struct waiters {
    struct waiter_tree tree;
    _Atomic size_t count; /* read by any thread */
    uint64_t next_seq;
};

void waiters_init(struct waiters *waiters);

/* Park. 0 or ERR_OVERLOADED. */
int waiters_add(struct waiters *waiters, struct waiter *waiter, struct id_tag *tag,
                uint64_t demand) MUST_CHECK;

/* Take a parked one out, and its demand back. */
void waiters_remove(struct waiters *waiters, struct waiter *waiter);

/* A parked one wants fewer ids now. */
void waiters_set_demand(struct waiter *waiter, uint64_t demand);

/* The oldest parked one of a tag, NULL if there is none. */
struct waiter *waiters_first(struct waiters *waiters, const struct id_tag *tag);

/* The oldest parked one of a clock, and of the first clock behind it; NULL if there is none. */
struct waiter *waiters_first_of_clock(struct waiters *waiters, const void *clock);
struct waiter *waiters_next_clock(struct waiters *waiters, const void *clock);

/* The next one of the same tag. */
struct waiter *waiters_after(struct waiter *waiter);

#endif
