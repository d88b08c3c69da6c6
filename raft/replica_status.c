/*
 * replica_status.c - what a replica tells of itself and of the cluster, for GET /api/cluster.
 *
 * Thread: the raft loop.
 */
#include <string.h>

#include "raft/replica.h"

static enum id_node_state state_of(struct replica *replica)
{
    if (replica->stopping) {
        return ID_NODE_STOPPING;
    }
    switch (raft_state(&replica->driver.raft)) {
    case RAFT_LEADER:
        return ID_NODE_LEADER;
    case RAFT_CANDIDATE:
        return ID_NODE_CANDIDATE;
    case RAFT_FOLLOWER:
        return ID_NODE_FOLLOWER;
    case RAFT_UNAVAILABLE:
    default:
        return ID_NODE_STARTING;
    }
}

static void fill_member(struct replica *replica, const struct raft_server *server,
                        struct id_member *member)
{
    struct raft *raft = &replica->driver.raft;
    struct node_info info;
    raft_index match = 0;
    bool self = server->id == replica->config.driver.node_id;

    memset(member, 0, sizeof *member);
    member->id = server->id;
    strncpy(member->peer_address, server->address, LIMIT_ADDRESS_BYTES);
    strncpy(member->role, server->role == RAFT_VOTER ? "voter" : "standby",
            sizeof member->role - 1);
    if (fsm_node(replica->fsm, server->id, &info)) {
        memcpy(member->http_address, info.http_address, sizeof member->http_address);
        memcpy(member->version, info.version, sizeof member->version);
    }
    member->reachable = self || replica->net->ops->connected(replica->net, server->id);
    if (raft_state(raft) == RAFT_LEADER && raft_match_index(raft, server->id, &match) == 0) {
        member->match_index = match;
    }
}

static void fill_change(const struct member_change *change, struct id_member_change *ret_change)
{
    ret_change->kind = change->kind == MEMBER_ADD ? "add" : "remove";
    ret_change->state = change->given_up ? "given_up" : "under_way";
    ret_change->node_id = change->node_id;
    memcpy(ret_change->peer_address, change->address, sizeof ret_change->peer_address);
}

void replica_status(struct replica *replica, struct id_cluster_status *ret_status)
{
    struct raft *raft = &replica->driver.raft;

    memset(ret_status, 0, sizeof *ret_status);
    strncpy(ret_status->cluster_id, replica->config.cluster_id, LIMIT_CLUSTER_ID_BYTES);
    ret_status->node_id = replica->config.driver.node_id;
    ret_status->state = state_of(replica);
    ret_status->leader_id = driver_leader(&replica->driver);
    ret_status->term = raft_current_term(raft);
    ret_status->commit_index = replica->driver.commit;
    ret_status->applied_index = replica->driver.applied.index;
    if (fsm_member_change(replica->fsm) != NULL) {
        fill_change(fsm_member_change(replica->fsm), &ret_status->change);
    }
    for (unsigned i = 0; i < raft->configuration.n && i < LIMIT_NODES; i++) {
        fill_member(replica, &raft->configuration.servers[i], &ret_status->members[i]);
        ret_status->member_count++;
    }
}
