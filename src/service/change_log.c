/*
 * change_log.c - see change_log.h. Thread: the raft loop.
 */
#include "src/service/change_log.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/log.h"

#define ADDRESS_TEXT_BYTES (LIMIT_ADDRESS_BYTES + 64) /* quoted; it is of plain characters */

/* --- members --- */

static const char *role_name(enum conf_role role)
{
    return role == ROLE_VOTER ? "voter" : "standby";
}

static const char *quoted(const char *address, char out[ADDRESS_TEXT_BYTES])
{
    return log_quote(address, strlen(address), out, ADDRESS_TEXT_BYTES);
}

static void tell_member(const struct change_log *log, const struct conf_member *now)
{
    const struct conf_member *before = configuration_find(&log->conf, now->id);
    char address[ADDRESS_TEXT_BYTES];

    if (before == NULL) {
        log_info("raft", "a member was added", "member=%llu role=%s address=%s index=%llu",
                 ull(now->id), role_name(now->role), quoted(now->address, address),
                 ull(log->conf_index));
    } else if (before->role != now->role) {
        log_info("raft", "a member has another role", "member=%llu role=%s was=%s index=%llu",
                 ull(now->id), role_name(now->role), role_name(before->role), ull(log->conf_index));
    }
}

static void look_at_members(struct change_log *log, const struct replica *replica, bool tell)
{
    uint64_t index = driver_applied(&replica->driver)->conf_index;
    struct configuration conf;

    if (index == log->conf_index) {
        return;
    }
    applier_configured(&replica->driver.applier, &conf);
    tell = tell && log->conf.count > 0; /* the first one has the members at birth */
    log->conf_index = index;
    if (tell) {
        MEMBER_FOREACH (member, &conf) {
            tell_member(log, member);
        }
        MEMBER_FOREACH (member, &log->conf) {
            if (configuration_find(&conf, member->id) == NULL) {
                log_info("raft", "a member was removed", "member=%llu role=%s index=%llu",
                         ull(member->id), role_name(member->role), ull(index));
            }
        }
    }
    log->conf = conf;
}

/* Log the new addresses of members that have moved. */
static void look_at_addresses(struct change_log *log, const struct replica *replica, bool tell)
{
    struct net_peer now[LIMIT_NODES];
    size_t count = 0;

    if (state_member_moves(replica->state) == log->moves) {
        return;
    }
    log->moves = state_member_moves(replica->state);
    MEMBER_FOREACH (member, &log->conf) {
        const char *address = state_member_address(replica->state, member->id);
        const struct net_peer *before = net_peer_find(log->reached, log->reached_count, member->id);
        char text[ADDRESS_TEXT_BYTES];

        if (address == NULL) {
            continue;
        }
        if (tell && (before == NULL || strcmp(before->address, address) != 0)) {
            log_info("raft", "a member is reached elsewhere", "member=%llu address=%s",
                     ull(member->id), quoted(address, text));
        }
        now[count] = (struct net_peer){.id = member->id};
        strncpy(now[count].address, address, sizeof now[count].address - 1);
        count++;
    }
    memcpy(log->reached, now, count * sizeof now[0]);
    log->reached_count = count;
}

/* Log a change that begins, or is given up. */
static void look_at_change(struct change_log *log, const struct replica *replica, bool tell)
{
    const struct member_change *change = state_member_change(replica->state);
    const char *kind;

    if (change == NULL) {
        return; /* the change is done, as the members show; its index is never reused */
    }
    kind = change->kind == MEMBER_ADD ? "add" : "remove";
    if (change->index != log->change_index && tell) {
        log_info("raft", "a change of the members begins",
                 "kind=%s member=%llu force=%s index=%llu", kind, ull(change->node_id),
                 change->force ? "true" : "false", ull(change->index));
    }
    if (change->given_up && (change->index != log->change_index || !log->given_up) && tell) {
        log_warn("raft", "a change of the members was given up", "kind=%s member=%llu index=%llu",
                 kind, ull(change->node_id), ull(change->index));
    }
    log->change_index = change->index;
    log->given_up = change->given_up;
}

/* --- worker ids of this node --- */

static void look_at_workers(struct change_log *log)
{
    const struct snowflake *snowflake = log->snowflake;
    uint32_t count = atomic_load_explicit(&snowflake->slot_count, memory_order_relaxed);

    ASSERT(count <= LIMIT_SNOWFLAKE_SLOTS);
    for (; log->slots < count; log->slots++) {
        uint32_t worker = snowflake->slots[log->slots].worker;
        struct lease_record held = {0};

        if (lease_find(log->lease, worker, &held)) { /* else it was lost at once, which is logged */
            log_info("snowflake", "a worker id is held",
                     "worker=%u epoch=%llu from_ms=%llu until_ms=%llu", worker, ull(held.epoch),
                     ull(held.from_ms), ull(held.until_ms));
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (snowflake->slots[i].dead && !log->lost[i]) {
            log->lost[i] = true;
            log_warn("snowflake", "a worker id is lost: it was released, or another holds it",
                     "worker=%u", snowflake->slots[i].worker);
        }
    }
}

/* --- tags --- */

void change_log_opened(struct change_log *log, const struct tag_row *row)
{
    if (log->opened++ == 0) {
        memcpy(log->opened_tag, row->name, row->name_len);
        log->opened_len = row->name_len;
    }
}

/* --- all of it --- */

static void look(struct change_log *log, bool tell)
{
    uint16_t level = state_level(log->replica->state);

    look_at_members(log, log->replica, tell);
    look_at_addresses(log, log->replica, tell);
    look_at_change(log, log->replica, tell);
    if (level != log->level && tell) {
        log_info("raft", "the level of the cluster has risen", "level=%u was=%u", level,
                 log->level);
    }
    log->level = level;
}

void change_log_begin(struct change_log *log, const struct replica *replica,
                      const struct lease *lease, const struct snowflake *snowflake)
{
    *log = (struct change_log){.replica = replica, .lease = lease, .snowflake = snowflake};
    look(log, false);
}

void change_log_turn(struct change_log *log)
{
    char name[LIMIT_TAG_NAME_BYTES * 4 + 3]; /* each byte may be an escape */

    look(log, true);
    look_at_workers(log);
    if (log->opened > 0) {
        log_info("raft", "tags have left trend mode: no node holds a segment of them",
                 "tags=%u first=%s", log->opened,
                 log_quote(log->opened_tag, log->opened_len, name, sizeof name));
        log->opened = 0;
    }
}
