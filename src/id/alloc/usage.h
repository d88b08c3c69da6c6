/*
 * usage.h - how many ids of each tag this node hands out a second: one rate, of tags of every mode.
 *
 * The happy path: usage_add() hears of ids that came, be they a segment or the answer of a strict
 * or monotonic request. What of them is not in the tag's slots any more was handed out.
 * usage_look() turns that into a rate (meter.h), once a second and whenever people ask. So a claim
 * does nothing for it.
 *
 * The rate halves in each USAGE_HALF_MS in which nobody asks. The USAGE_BUSIEST fastest tags are
 * known.
 *
 * A look also judges a tag with a cover_s: it is short if what this node holds lasts less than that
 * at this rate, and did so all the time since REFILL_GRACE_LOADS refills, or for USAGE_GRACE_S in
 * which none came that was wanted, or none can come.
 *
 * Bounds: USAGE_LOOKS tags a second. Where more are in use, a tag is looked at in its turn and when
 * ids of it come; its rate is then the average since the last time. The busiest are looked at each
 * second all the same.
 *
 * Failure modes: none. Ids that were claimed and then burnt count as handed out.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_ALLOC_USAGE_H
#define LEAFD_ID_ALLOC_USAGE_H

#include "src/base/clock.h"
#include "src/base/timers.h"
#include "src/id/alloc/id_table.h"

#define USAGE_HALF_MS 4000
#define USAGE_LOOK_MS 1000
#define USAGE_LOOKS 1000
#define USAGE_BUSIEST 20
#define USAGE_GRACE_S 10
#define USAGE_RATE_MIN_PER_S (1.0 / 3600) /* slower tags are not used */

struct usage {
    struct id_table *table;
    const struct clock *clock;
    struct timers *timers;
    struct timer next;         /* look; not armed while no tag is in use */
    const struct id_tag *last; /* that was looked at in its turn; NULL: begin with the first */
    size_t count;
    size_t short_count; /* tags that last less than their cover_s */
    /* Not sorted: a tag keeps its place until a faster one takes it. */
    struct id_tag *busiest[USAGE_BUSIEST];
};

void usage_init(struct usage *usage, struct id_table *table, const struct clock *clock,
                struct timers *timers);
void usage_free(struct usage *usage);

/* Ids of the tag came to this node, and are in its slots from now on or handed out. */
void usage_add(struct usage *usage, struct id_tag *tag, uint32_t count);

/* Ids were taken out of the slots, and nobody gets them. */
void usage_burnt(struct id_tag *tag, uint64_t count);

/* tag->refill.rate and is_short are as of now. */
void usage_look(struct usage *usage, struct id_tag *tag);

/* For so many s what this node holds of the tag lasts at its rate as of the last look; UINT64_MAX:
 * it is not used, or has no segments. */
uint64_t usage_lasts_s(const struct id_tag *tag);

#endif
