/*
 * opening.h - a tag that is asked for on this node for the first time gets its place in the id
 * table: known here, or the leader is asked.
 *
 * The happy path: opening_submit() takes an ID_REQUEST_OPEN and answers it by what the state
 * machine knows, or after a query of the cluster.
 *
 * Failure modes: as of a query; no such tag: ERR_UNKNOWN_TAG; the table is full: ERR_OVERLOADED.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_OPENING_H
#define LEAFD_RAFT_CLUSTER_OPENING_H

#include "raft/cluster/requests.h"

struct opening {
    const struct ground *on;
    struct requests *requests;
    struct allocator *allocator;
    const struct id_table *table;
};

void opening_submit(struct opening *opening, struct id_request *request);

#endif
