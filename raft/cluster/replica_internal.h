/*
 * replica_internal.h - what the replica's files share: replica.c (start, frames, turns, end),
 * replica_requests.c (requests of all kinds), replica_own.c (the replica's own commands),
 * replica_health.c (what others may see of it), replica_prefetch.c (tags in use, over a restart),
 * replica_stop.c (what is given back).
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_REPLICA_INTERNAL_H
#define LEAFD_RAFT_CLUSTER_REPLICA_INTERNAL_H

#include "raft/cluster/replica.h"

/* replica_own.c: propose what this node itself has to tell the cluster, as far as it is due. */
void replica_own_turn(struct replica *replica);
/* When it is due next; UINT64_MAX: not by time. */
uint64_t replica_own_next_ms(const struct replica *replica);
/* A tag's row changed: it may wait for this node to say that it holds no segment of it. */
void replica_own_tag_changed(struct replica *replica, const struct tag_row *row);

/* replica_prefetch.c: read what an earlier incarnation wrote; look, fetch and write when it is
 * due; write now. */
void replica_prefetch_start(struct replica *replica, const struct store_loaded *loaded);
void replica_prefetch_turn(struct replica *replica);
void replica_prefetch_save(struct replica *replica);

/* replica_health.c */
void replica_health_update(struct replica *replica);

#endif
