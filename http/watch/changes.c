/*
 * changes.c - see changes.h. Thread: one owner.
 */
#include "http/watch/changes.h"

#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/err.h"

/* Where events of a look go. */
struct look {
    struct events *events;
    uint64_t wall_ms;
};

#define NOTE(look, kind, ...) events_put((look)->events, (look)->wall_ms, (kind), __VA_ARGS__)

/* --- who leads --- */

static void event_leader(const struct look *look, const struct id_cluster_status *before,
                         const struct id_cluster_status *now)
{
    if (now->leader_id == 0) {
        if (before->leader_id != 0) {
            NOTE(look, EVENT_LEADERLESS, "no leader is known any more; node %llu led in term %llu",
                 ull(before->leader_id), ull(before->term));
        }
    } else if (now->leader_id != before->leader_id) {
        NOTE(look, EVENT_ELECTION, "node %llu leads in term %llu%s", ull(now->leader_id),
             ull(now->term), now->leader_id == now->node_id ? ": this node" : "");
    } else if (now->term != before->term) {
        NOTE(look, EVENT_ELECTION, "node %llu leads again, in term %llu after term %llu",
             ull(now->leader_id), ull(now->term), ull(before->term));
    }
}

/* --- members --- */

static const struct id_member *find_member(const struct id_cluster_status *status, uint64_t id)
{
    for (size_t i = 0; i < status->member_count; i++) {
        if (status->members[i].id == id) {
            return &status->members[i];
        }
    }
    return NULL;
}

static void event_member(const struct look *look, const struct id_member *before,
                         const struct id_member *now)
{
    if (before == NULL) {
        NOTE(look, EVENT_MEMBER, "node %llu is a member, as a %s", ull(now->id), now->role);
        return;
    }
    if (strcmp(before->role, now->role) != 0) {
        NOTE(look, EVENT_MEMBER, "node %llu is a %s now", ull(now->id), now->role);
    }
    if (strcmp(before->version, now->version) != 0 && before->version[0] != '\0') {
        NOTE(look, EVENT_MEMBER, "node %llu runs leafd %s", ull(now->id), now->version);
    }
    if (strcmp(before->peer_address, now->peer_address) != 0) {
        NOTE(look, EVENT_MEMBER, "node %llu is reached at %s", ull(now->id), now->peer_address);
    }
    if (before->reachable != now->reachable) {
        NOTE(look, EVENT_LINK,
             now->reachable ? "node %llu is reached" : "node %llu cannot be reached", ull(now->id));
    }
}

static void event_members(const struct look *look, const struct id_cluster_status *before,
                          const struct id_cluster_status *now)
{
    for (size_t i = 0; i < now->member_count; i++) {
        event_member(look, find_member(before, now->members[i].id), &now->members[i]);
    }
    for (size_t i = 0; i < before->member_count; i++) {
        if (find_member(now, before->members[i].id) == NULL) {
            NOTE(look, EVENT_MEMBER, "node %llu is no member any more", ull(before->members[i].id));
        }
    }
    if (now->change.kind != NULL &&
        (before->change.kind == NULL || before->change.node_id != now->change.node_id ||
         strcmp(before->change.state, now->change.state) != 0)) {
        NOTE(look, EVENT_MEMBER,
             strcmp(now->change.state, "given_up") == 0
                 ? "the change \"%s node %llu\" was given up"
                 : "the change \"%s node %llu\" is under way",
             now->change.kind, ull(now->change.node_id));
    }
}

/* --- the rest --- */

static void event_counts(const struct look *look, const struct changes_counts *before,
                         const struct changes_counts *now)
{
    if (now->reloads_done != before->reloads_done) {
        NOTE(look, EVENT_RELOAD, "the settings were read again");
    }
    if (now->reloads_refused != before->reloads_refused) {
        NOTE(look, EVENT_RELOAD, "new settings were refused; the log says why");
    }
    if (now->implausible != before->implausible) {
        NOTE(look, EVENT_REFUSAL, "a peer said what cannot be, and was not believed (%llu times)",
             ull(now->implausible - before->implausible));
    }
    if (now->snapshots != before->snapshots) {
        NOTE(look, EVENT_SNAPSHOT, "a snapshot of the leader was installed");
    }
    if (now->refusal == before->refusal) {
        return;
    }
    if (now->refusal == 0) {
        NOTE(look, EVENT_REFUSAL, "snowflake ids are served");
    } else {
        NOTE(look, EVENT_REFUSAL, "snowflake ids are refused: %s", err_code(now->refusal));
    }
}

static void event_start(const struct look *look, const struct id_cluster_status *now)
{
    if (now->leader_id != 0) {
        NOTE(look, EVENT_START, "node %llu is up; node %llu leads in term %llu", ull(now->node_id),
             ull(now->leader_id), ull(now->term));
    } else {
        NOTE(look, EVENT_START, "node %llu is up; no leader is known yet", ull(now->node_id));
    }
}

void changes_look(struct changes *changes, const struct id_cluster_status *status,
                  const struct changes_counts *counts, uint64_t wall_ms, struct events *events)
{
    const struct look look = {.events = events, .wall_ms = wall_ms};
    const struct id_cluster_status *before = &changes->status;

    ASSERT(status->member_count <= LIMIT_NODES);
    if (!changes->seen) {
        event_start(&look, status);
    } else {
        event_leader(&look, before, status);
        event_members(&look, before, status);
        if (status->level.level != before->level.level) {
            NOTE(&look, EVENT_LEVEL, "the level of the cluster is %u", status->level.level);
        }
        event_counts(&look, &changes->counts, counts);
    }
    changes->seen = true;
    changes->status = *status;
    changes->counts = *counts;
}
