/*
 * growth.h - how far each tag grew in the last hour, as this node applied it: what a backup says of
 * it, so that a restore knows how far a tag may have grown since.
 *
 * The happy path: growth_note() gets each tag whose max_id changes; the first time in a period it
 * is written down with the one before. growth_tag() finds max_id of a tag as it was when the oldest
 * period began, GROWTH_PERIODS periods of GROWTH_PERIOD_MS at most before.
 *
 * Memory is bounded: a tag that changes takes 16 bytes a period, in a table that is at most half
 * full, and of more than LIMIT_GROWTH_TAGS in one period the rest is not known. A tag that does not
 * grow takes nothing. Tags are distinguished by a hash of 64 bits of their names.
 *
 * The time is the log's, so that a node that catches up does not see a day's growth in a minute; of
 * a cluster without it, the node's clock. Failure modes: a node knows nothing of the time before
 * its start, or before a snapshot replaced its state (growth_reset()): growth_since_ms() says so.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_GROWTH_H
#define LEAFD_SERVICE_GROWTH_H

#include "src/id/codec/tag.h"

#define GROWTH_PERIODS 4
#define GROWTH_PERIOD_MS 1200000 /* the last hour, and up to 20 minutes more */

struct growth_slot {
    uint64_t hash; /* of the name; 0: free */
    uint64_t max_id;
};

struct growth_period {
    uint64_t began_ms;
    struct growth_slot *slots; /* capacity, a power of 2; NULL: none */
    size_t capacity;
    size_t count;
    bool full; /* some tags of it are not there */
};

struct growth {
    uint64_t seed;
    struct growth_period periods[GROWTH_PERIODS];
    unsigned newest;
    unsigned count; /* periods that are in use, 1.. */
};

void growth_init(struct growth *growth, uint64_t seed, uint64_t now_ms);
void growth_free(struct growth *growth);

/* Nothing is known of the time before now. */
void growth_reset(struct growth *growth, uint64_t now_ms);

/* The tag's max_id changes; row: as it was before. */
void growth_note(struct growth *growth, const struct tag_row *row, uint64_t now_ms);

/* So late is it: forget what is too old. Before what follows. */
void growth_turn_over(struct growth *growth, uint64_t now_ms);

/* From when on all changes were noted. */
uint64_t growth_since_ms(const struct growth *growth);
/* False: of tags that growth_tag() does not find it is not known whether they changed. */
bool growth_is_whole(const struct growth *growth);
/* max_id that the tag had at growth_since_ms(); false: it did not change. */
bool growth_tag(const struct growth *growth, const char *name, size_t len, uint64_t *ret_max_id);

#endif
