/*
 * health.h - what others may see of a node: the health that any thread reads (id_health), and
 * the status of the cluster as this node knows it.
 *
 * Failure modes: none. Thread: the raft loop; id_health's fields are atomic.
 */
#ifndef LEAFD_SERVICE_HEALTH_H
#define LEAFD_SERVICE_HEALTH_H

#include "raft/cluster/peers.h"
#include "raft/cluster/clock_sync.h"
#include "raft/cluster/announce.h"
#include "raft/cluster/leader_route.h"
#include "src/service/window.h"
#include "src/id/alloc/allocator.h"
#include "src/id/alloc/strict.h"
#include "src/id/backend/id_backend.h"
#include "src/id/snowflake/lease.h"
#include "src/service/context.h"
#include "src/service/layout.h"

/* What is looked at; filled in by the service. */
struct health_sources {
    const struct id_context *context;
    const struct raft_context *on;
    const struct leader_route *route;
    const struct allocator *allocator;
    const struct strict *strict;
    const struct windows *windows;
    const struct lease *lease;
    struct id_table *table;
    const struct differences *differences;
    const struct layout *layout;
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

/* Look at everything. Woken (WAKE_SEEN) by an answer, a turn of the lease, an alarm, news of the
 * birth, a disk that is low or is no more, its timer, and what wakes all. */
void health_update(struct health *health);

enum id_node_state health_state(const struct raft_context *on);

/* For GET /api/cluster. */
void health_status(const struct health *health, struct id_cluster_status *ret_status);

#endif
