/*
 * health.h - the visible state of a node: the health that any thread reads (id_health), its
 * measurements (struct id_figures), and the status of the cluster as this node knows it.
 *
 * The happy path: health_update() in each turn that WAKE_SEEN woke, and health_measure() every
 * FIGURES_MS.
 *
 * Failure modes: none. Thread: the raft loop; any for id_health, whose fields are atomic, and the
 * box of figures, which has a lock.
 */
#ifndef LEAFD_SERVICE_HEALTH_H
#define LEAFD_SERVICE_HEALTH_H

#include "raft/cluster/peers.h"
#include "raft/cluster/clock_sync.h"
#include "raft/cluster/announce.h"
#include "raft/cluster/leader_route.h"
#include "raft/cluster/requests.h"
#include "src/id/alloc/allocator.h"
#include "src/id/alloc/strict.h"
#include "src/id/backend/id_backend.h"
#include "src/id/snowflake/lease.h"
#include "src/service/backups.h"
#include "src/service/context.h"
#include "src/service/dates.h"
#include "src/service/window.h"

#define FIGURES_MS 1000
#define FIGURES_GROWTH_HALF_MS 60000 /* of the growth of a tag (meter.h): the last minutes count */

/* The sources; filled in by the service. */
struct health_sources {
    const struct id_context *context;
    const struct raft_context *on;
    const struct requests *requests;
    const struct allocator *allocator;
    const struct strict *strict;
    const struct windows *windows;
    const struct lease *lease;
    struct id_table *table;
    const struct differences *differences;
    const bool *layout_differs;
    const struct birth_watch *births;
    const struct clock_sync *clocks; /* of the peers */
    const struct backups *backups;
    struct dates *dates;
    const char *cluster_id;
    const char *prefer_zone; /* NULL or "": none */
};

/* How fast max_id of one of the busiest tags rises: the use of all nodes together. */
struct figures_growth {
    const struct id_tag *tag; /* its tag; NULL: none */
    uint32_t generation;      /* as of the last look */
    uint64_t max_id;
    struct meter ids;
};

struct health {
    struct id_health seen;    /* by any thread */
    struct health_sources of; /* the rest begins as zero */
    uint64_t birth_changes;   /* as of the last look */
    uint64_t start_last;      /* last index of the log at the start: applied once it is reached */
    struct timer held_look;   /* armed: the last check for held ids is recent */
    struct figures_growth growths[USAGE_BUSIEST]; /* by the places of usage.busiest */
    struct id_figures_box figures;
};

/* start_last: the last index of the log at the start. */
void health_init(struct health *health, const struct health_sources *of, uint64_t start_last);
void health_free(struct health *health);

/* Update all fields. Woken (WAKE_SEEN) by an answer, a turn of the lease, an alarm, news of the
 * birth, a disk that becomes low or recovers, its timer, and events that wake all parts. */
void health_update(struct health *health);

/* Gather the figures into their box. */
void health_measure(struct health *health);

/* For GET /api/cluster. */
void health_status(const struct health *health, struct id_cluster_status *ret_status);

#endif
