/*
 * replica_stop.c - a replica gives back what it holds before it stops (replica.h).
 *
 * Thread: the raft loop.
 */
#include "raft/cluster/replica_internal.h"
#include "src/base/assert.h"

static const struct tag_row *row_of(void *data, const char *name, size_t len)
{
    return fsm_tag(data, name, len);
}

void replica_give_back(struct replica *replica, uint64_t deadline_ms)
{
    ASSERT(!replica->stopping);
    replica_prefetch_save(replica); /* while it shows which ids were used, and which are left */
    allocator_give_back(replica->allocator, deadline_ms, row_of, replica->fsm);
}

bool replica_given_back(const struct replica *replica)
{
    return allocator_given_back(replica->allocator);
}
