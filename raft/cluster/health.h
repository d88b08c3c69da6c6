/*
 * health.h - what others may see of a replica: the health that any thread reads (id_health), and
 * the status of the cluster as this node knows it.
 *
 * Failure modes: none. Thread: the raft loop; id_health's fields are atomic.
 */
#ifndef LEAFD_RAFT_CLUSTER_HEALTH_H
#define LEAFD_RAFT_CLUSTER_HEALTH_H

#include "raft/cluster/birth_watch.h"
#include "raft/cluster/clock_sync.h"
#include "raft/cluster/differences.h"
#include "raft/cluster/way.h"
#include "src/service/window.h"
#include "src/id/alloc/strict.h"
#include "src/id/snowflake/lease.h"

/* What is looked at; filled in by the replica. */
struct health_sources {
    const struct ground *on;
    const struct way *way;
    const struct allocator *allocator;
    const struct strict *strict;
    const struct windows *windows;
    const struct lease *lease;
    struct id_table *table;
    const struct differences *differences;
    const struct birth_watch *births;
    const struct clock_sync *clocks; /* of the peers */
    const char *cluster_id;
};

struct health {
    struct id_health seen;    /* by everybody */
    struct health_sources of; /* the rest begins as zero */
    uint64_t birth_changes;   /* as of the last look */
    uint64_t start_last;      /* last index of the log at the start: applied once it is reached */
    struct timer held_look;   /* armed: whether ids are held was looked at a moment ago */
};

/* Look at everything; at the end of each turn. True: the leader is reached another way since the
 * last look (seen.leader_through). */
bool health_update(struct health *health);

/* For GET /api/cluster. */
void health_status(const struct health *health, struct id_cluster_status *ret_status);

#endif
