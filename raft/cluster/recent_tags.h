/*
 * recent_tags.h - a node keeps the names of the tags it served lately on its disk, and fetches
 * their segments after a restart: prefetch.h on a replica's disk, state machine and allocator.
 *
 * Failure modes: a list that does not read is left out, which costs a few first requests a round
 * trip.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_RECENT_TAGS_H
#define LEAFD_RAFT_CLUSTER_RECENT_TAGS_H

#include "raft/cluster/ground.h"
#include "src/id/alloc/prefetch.h"

struct recent_tags {
    const struct ground *on;
    struct allocator *allocator;
    struct prefetch *prefetch;
};

/* Read what an earlier incarnation wrote. */
void recent_tags_start(struct recent_tags *recent, const struct ground *on,
                       struct allocator *allocator, const struct prefetch_config *config,
                       const struct store_loaded *loaded);
void recent_tags_free(struct recent_tags *recent);

/* Look, fetch and write, as far as it is due. leader_known: segments can be granted. */
void recent_tags_turn(struct recent_tags *recent, bool leader_known);

/* Write now. */
void recent_tags_save(struct recent_tags *recent);

#endif
