/*
 * context.h - shared by all parts of the id service: the replica's context, and the machine of
 * ids.
 *
 * Failure modes: none. Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_CONTEXT_H
#define LEAFD_SERVICE_CONTEXT_H

#include "raft/cluster/context.h"
#include "src/id/codec/request.h"
#include "src/id/fsm/fsm.h"

/* The parts that run when woken (context.h), beside WAKE_SEEN. */
enum {
    WAKE_BACKUPS = 1u << WAKE_SERVICE_FIRST,
    WAKE_RECALLS = WAKE_BACKUPS << 1,
    WAKE_LAYOUT = WAKE_BACKUPS << 2,
    WAKE_LEASE = WAKE_BACKUPS << 3,
    WAKE_PREFETCH = WAKE_BACKUPS << 4,
    WAKE_STRICT = WAKE_BACKUPS << 5 /* and the needs of strict requests: dates, numbers of keys */
};
_Static_assert(WAKE_STRICT == 1u << WAKE_LAST, "each part has a bit");

struct id_context {
    const struct raft_context *on;
    struct fsm *fsm;             /* the machine of on->state */
    struct id_proposer proposer; /* takes any request of this node */
};

/* Tags age, and grow, by the log's time; in a cluster without log time, by each node's own clock.
 */
static inline uint64_t id_tags_ms(const struct id_context *context)
{
    uint64_t log_ms = context->on->state->facts.log_ms;

    return log_ms > 0 ? log_ms : clock_wall_ms(context->on->clock);
}

#endif
