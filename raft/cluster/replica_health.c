/*
 * replica_health.c - what others may see of a replica: the health that any thread reads, and the
 * status of the cluster as this node knows it.
 *
 * Thread: the raft loop; the health's fields are atomic.
 */
#include <string.h>

#include "raft/cluster/replica_internal.h"

#define HELD_LOOK_MS 200
#define HELD_LOOK_MAX 1000 /* tags */

/* --- health --- */

/* Does this node hold ids of any tag? Asked only while there is no leader to grant more. A node
 * with more tags than are looked at, all of the first ones used up, may be called not ready too
 * early. */
static bool holds_ids(struct replica *replica)
{
    struct id_tag *tag = id_table_next(replica->table, "", 0, "", 0);

    for (unsigned i = 0; tag != NULL && i < HELD_LOOK_MAX; i++) {
        if (segment_left(&tag->buffer) > 0) {
            return true;
        }
        tag = id_table_next(replica->table, "", 0, tag->name, tag->name_len);
    }
    return false;
}

static void update_held(struct replica *replica)
{
    uint64_t now_ms = clock_now_ms(replica->clock);
    uint64_t held = allocator_held(replica->allocator);

    if (!requests_leader_known(&replica->requests) && held > 0) {
        if (now_ms < replica->held_look_ms) {
            return;
        }
        replica->held_look_ms = now_ms + HELD_LOOK_MS;
        held = holds_ids(replica) ? held : 0;
    }
    atomic_store_explicit(&replica->health.segments_held, held, memory_order_relaxed);
}

static void update_burnt(struct replica *replica)
{
    static const enum id_burn_cause causes[] = {ID_BURN_GENERATION, ID_BURN_LATE, ID_BURN_STOP};
    struct id_health *health = &replica->health;

    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        atomic_store_explicit(&health->burnt[causes[i]],
                              allocator_burnt(replica->allocator, causes[i]), memory_order_relaxed);
    }
    atomic_store_explicit(&health->burnt[ID_BURN_STRICT], strict_burnt(replica->strict),
                          memory_order_relaxed);
    atomic_store_explicit(&health->given_back, allocator_returned(replica->allocator),
                          memory_order_relaxed);
}

static void update_members(struct replica *replica)
{
    const struct configuration *configuration = driver_configuration(&replica->driver);
    const struct member_change *change = fsm_member_change(replica->fsm);
    uint32_t voters = 0;

    for (unsigned i = 0; i < configuration->count; i++) {
        voters += configuration->members[i].role == ROLE_VOTER;
    }
    atomic_store_explicit(&replica->health.members, configuration->count, memory_order_relaxed);
    atomic_store_explicit(&replica->health.voters, voters, memory_order_relaxed);
    atomic_store_explicit(&replica->health.member_change, change != NULL && !change->given_up,
                          memory_order_relaxed);
}

static void update_leader(struct replica *replica)
{
    const struct way *way = &replica->requests.way;
    uint64_t seen = atomic_load_explicit(&replica->health.leader_through, memory_order_relaxed);

    atomic_store_explicit(&replica->health.leader_known, requests_leader_known(&replica->requests),
                          memory_order_relaxed);
    if (way->relay != seen && way->state != WAY_SOUGHT) {
        atomic_store_explicit(&replica->health.leader_through, way->relay, memory_order_relaxed);
        if (replica->owner->way_changed != NULL) {
            replica->owner->way_changed(replica->owner, way->relay);
        }
    }
}

void replica_health_update(struct replica *replica)
{
    struct lease_status lease;

    update_leader(replica);
    lease_status(replica->lease, &lease);
    atomic_store_explicit(&replica->health.snowflake_refusal, lease.refusal, memory_order_relaxed);
    atomic_store_explicit(&replica->health.clock_off_ms, lease.clock_off_ms, memory_order_relaxed);
    atomic_store_explicit(&replica->health.clock_wait_until_ms, lease.wait_until_ms,
                          memory_order_relaxed);
    atomic_store_explicit(&replica->health.implausible, replica->driver.trust.alarm.count,
                          memory_order_relaxed);
    update_members(replica);
    update_held(replica);
    update_burnt(replica);
    atomic_store_explicit(&replica->health.disk_low, replica->disk->ops->low(replica->disk),
                          memory_order_relaxed);
    if (driver_applied(&replica->driver)->index >= replica->start_last) {
        atomic_store_explicit(&replica->health.applied_once, true, memory_order_relaxed);
    }
}

/* --- status --- */

static enum id_node_state state_of(struct replica *replica)
{
    if (replica->stopping) {
        return ID_NODE_STOPPING;
    }
    switch (driver_state(&replica->driver)) {
    case DRIVER_LEADER:
        return ID_NODE_LEADER;
    case DRIVER_CANDIDATE:
        return ID_NODE_CANDIDATE;
    case DRIVER_FOLLOWER:
        return ID_NODE_FOLLOWER;
    case DRIVER_STARTING:
    default:
        return ID_NODE_STARTING;
    }
}

static void fill_member(struct replica *replica, const struct conf_member *server,
                        struct id_member *member)
{
    struct node_info info;
    uint64_t match;
    bool self = server->id == replica->config.driver.node_id;

    memset(member, 0, sizeof *member);
    member->id = server->id;
    memcpy(member->peer_address, server->address, sizeof server->address);
    strncpy(member->role, server->role == ROLE_VOTER ? "voter" : "standby",
            sizeof member->role - 1);
    if (fsm_node(replica->fsm, server->id, &info)) {
        memcpy(member->http_address, info.http_address, sizeof member->http_address);
        memcpy(member->version, info.version, sizeof member->version);
    }
    member->reachable = self || replica->net->ops->connected(replica->net, server->id);
    if (driver_match(&replica->driver, server->id, &match)) {
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
    const struct configuration *configuration = driver_configuration(&replica->driver);

    memset(ret_status, 0, sizeof *ret_status);
    strncpy(ret_status->cluster_id, replica->config.cluster_id, LIMIT_CLUSTER_ID_BYTES);
    ret_status->node_id = replica->config.driver.node_id;
    ret_status->state = state_of(replica);
    ret_status->leader_id = driver_leader(&replica->driver);
    ret_status->term = driver_term(&replica->driver);
    ret_status->commit_index = replica->driver.commit;
    ret_status->applied_index = driver_applied(&replica->driver)->index;
    if (fsm_member_change(replica->fsm) != NULL) {
        fill_change(fsm_member_change(replica->fsm), &ret_status->change);
    }
    for (unsigned i = 0; i < configuration->count; i++) {
        fill_member(replica, &configuration->members[i], &ret_status->members[i]);
        ret_status->member_count++;
    }
}
