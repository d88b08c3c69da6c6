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

#include "raft/cluster/replica.h"
#include "src/id/alloc/allocator.h"
#include "src/id/alloc/strict.h"
#include "src/id/backend/id_backend.h"
#include "src/id/snowflake/lease.h"
#include "src/id/snowflake/snowflake.h"
#include "src/service/backups.h"
#include "src/service/context.h"
#include "src/service/dates.h"
#include "src/service/window.h"

#define FIGURES_MS 1000
#define FIGURES_GROWTH_HALF_MS 60000 /* of the growth of a tag (meter.h): the last minutes count */

/* The sources; filled in by the service. */
struct health_sources {
    const struct replica *replica;
    const struct raft_context *on; /* the replica's */
    const struct id_context *context;
    const struct allocator *allocator;
    const struct strict *strict;
    const struct windows *windows;
    const struct lease *lease;
    struct id_table *table;
    const bool *layout_differs;
    const struct backups *backups;
    struct dates *dates;
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
    bool disk_stands;         /* as of the last measurement */
    struct timer held_look;   /* armed: the last check for held ids is recent */
    struct figures_growth growths[USAGE_BUSIEST]; /* by the places of usage.busiest */
    struct id_figures_box figures;
};

/* Update all fields. Woken (WAKE_SEEN) by an answer, a turn of the lease, an alarm, news of the
 * birth, a disk that becomes low or recovers, its timer, and events that wake all parts. */
void health_update(struct health *health);

/* Gather the figures into their box. */
void health_measure(struct health *health);

/* For GET /api/cluster. */
void health_status(const struct health *health, struct id_cluster_status *ret_status);

/*
 * --- change_log: changes in the cluster, as lines of the log, on each node: members, a change of
 * them that begins or is given up, the level, tags that have become strict, and this node's worker
 * ids.
 *
 * The client that asked for a change is logged where it asked (http/api/audited.h). These lines are
 * on the result, also of changes without a request: a node that joins, one that now votes, a level
 * that rises automatically.
 *
 * The happy path: change_log_begin() with the replica as it is loaded; change_log_turn() each turn,
 * which costs a few comparisons if nothing has changed.
 *
 * Failure modes: none. Entries applied again after a crash are logged again. Of changes within one
 * turn, or in a snapshot, only the result is logged.
 */

struct change_log {
    const struct replica *replica;
    const struct lease *lease;
    const struct snowflake *snowflake;
    uint64_t conf_index; /* of the applied configuration */
    struct configuration conf;
    uint64_t moves; /* of members; their addresses: */
    struct net_peer reached[LIMIT_NODES];
    size_t reached_count;
    uint64_t change_index; /* of the last change of the members; 0: there was none */
    bool given_up;
    uint16_t level;
    uint32_t slots; /* worker ids of this process, the lost ones too */
    bool lost[LIMIT_SNOWFLAKE_SLOTS];
    uint32_t opened; /* tags that became strict in this turn; the first of them: */
    char opened_tag[LIMIT_TAG_NAME_BYTES];
    uint16_t opened_len;
};

/* All of these are borrowed. */
void change_log_begin(struct change_log *log, const struct replica *replica,
                      const struct lease *lease, const struct snowflake *snowflake);

/* A tag is strict: no node can still hold a segment of it. All tags of a turn are one line. */
void change_log_opened(struct change_log *log, const struct tag_row *row);

void change_log_turn(struct change_log *log);

#endif
