/*
 * health.c - see health.h. Thread: the raft loop.
 */
#include "src/service/health.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/state/codec/cluster_command.h"

#define HELD_LOOK_MS 200
#define HELD_LOOK_MAX 1000 /* tags */

/* --- health --- */

_Static_assert((int)DRIVER_STARTING == ID_NODE_STARTING &&
                   (int)DRIVER_FOLLOWER == ID_NODE_FOLLOWER &&
                   (int)DRIVER_CANDIDATE == ID_NODE_CANDIDATE &&
                   (int)DRIVER_LEADER == ID_NODE_LEADER,
               "a state is the same number for who looks from outside");
_Static_assert((int)DIFFERS_MEMBERS == ID_DIFFERS_MEMBERS &&
                   (int)DIFFERS_ADDRESS == ID_DIFFERS_ADDRESS,
               "so is a difference");

enum id_node_state health_state(const struct raft_context *on)
{
    return on->stopping ? ID_NODE_STOPPING : (enum id_node_state)driver_state(on->driver);
}

/* Only the raft loop writes: whoever reads needs no order between the fields. */
#define SEE(health, field, value)                                                                  \
    atomic_store_explicit(&(health)->seen.field, (value), memory_order_relaxed)

/* Does this node hold ids of any tag? Asked only while there is no leader to grant more. A node
 * with more tags than are looked at, all of the first ones used up, may be called not ready too
 * early. */
static bool holds_ids(struct id_table *table)
{
    struct id_tag *tag = id_table_next(table, "", 0, "", 0);

    for (unsigned i = 0; tag != NULL && i < HELD_LOOK_MAX; i++) {
        if (segment_left(&tag->buffer) > 0) {
            return true;
        }
        tag = id_table_next(table, "", 0, tag->name, tag->name_len);
    }
    return false;
}

static void update_held(struct health *health)
{
    const struct raft_context *on = health->of.on;
    uint64_t held = allocator_counts(health->of.allocator)->held;

    if (!leader_route_is_known(health->of.route) && held > 0) {
        if (timer_is_armed(&health->held_look)) {
            return;
        }
        context_arm_in(on, &health->held_look, HELD_LOOK_MS);
        held = holds_ids(health->of.table) ? held : 0;
    }
    SEE(health, segments_held, held);
}

static void update_burnt(struct health *health)
{
    static const enum id_burn_cause causes[] = {ID_BURN_GENERATION, ID_BURN_LATE, ID_BURN_STOP};
    const struct allocator_counts *held = allocator_counts(health->of.allocator);
    const struct window_counts *windows = windows_counts(health->of.windows);

    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        uint64_t more = causes[i] == ID_BURN_GENERATION ? windows->burnt_generation
                        : causes[i] == ID_BURN_STOP     ? windows->burnt_stop
                                                        : 0;

        SEE(health, burnt[causes[i]], held->burnt[causes[i]] + more);
    }
    SEE(health, burnt[ID_BURN_STRICT], strict_burnt(health->of.strict));
    SEE(health, burnt[ID_BURN_WINDOW], windows->burnt_window);
    SEE(health, given_back, held->returned + windows->returned);
}

static void update_state(struct health *health)
{
    struct fsm_usage usage;

    fsm_usage(health->of.context->fsm, &usage);
    SEE(health, state_bytes, state_memory(health->of.on->state));
    SEE(health, state_max_bytes, health->of.on->memory_bytes);
    SEE(health, state_tags, usage.tags);
    SEE(health, state_dead, usage.dead);
    SEE(health, state_keys, usage.keys);
}

static void update_members(struct health *health)
{
    const struct raft_context *on = health->of.on;
    const struct member_change *change = state_member_change(on->state);
    const struct configuration *conf = driver_configuration(on->driver);

    SEE(health, members, conf->count);
    SEE(health, voters, configuration_voters(conf));
    SEE(health, differs,
        health->of.differences->now | (health->of.layout->differs ? ID_DIFFERS_LAYOUT : 0));
    SEE(health, drained, state_placement(on->state, on->node_id).drained);
    SEE(health, member_change, change != NULL && !change->given_up);
    SEE(health, level, state_level(on->state));
    SEE(health, level_able, state_levels(on->state).max);
}

static void update_leader(struct health *health)
{
    uint64_t through;

    SEE(health, leader_known, leader_route_is_known(health->of.route));
    if (leader_route_through(health->of.route, &through)) {
        SEE(health, leader_through, through);
    }
}

/* The birth, and until then whom it waits for; one that is looked for only when there is news. */
static void update_birth(struct health *health)
{
    struct birth_seen waits[LIMIT_NODES];
    struct birth birth;
    size_t count;

    if (health->birth_changes == health->of.births->changes && health->birth_changes != 0) {
        return;
    }
    health->birth_changes = health->of.births->changes;
    count = birth_watch_waits(health->of.births, waits);
    for (size_t i = 0; i < LIMIT_NODES; i++) {
        SEE(health, birth_waits[i],
            i < count ? (uint32_t)(waits[i].id << 8) | (uint32_t)waits[i].wait : 0);
    }
    if (state_birth(health->of.on->state, &birth)) {
        SEE(health, uid_low, birth.uid.low);
        SEE(health, uid_high, birth.uid.high);
    }
}

void health_update(struct health *health)
{
    const struct raft_context *on = health->of.on;
    struct lease_status lease;

    lease_status(health->of.lease, &lease);
    SEE(health, snowflake_refusal, lease.refusal);
    SEE(health, clock_off_ms, lease.clock_off_ms);
    SEE(health, clock_wait_until_ms, lease.wait_until_ms);
    SEE(health, implausible, on->driver->trust.alarm.count);
    SEE(health, disk_low, driver_disk_is_low(on->driver));
    if (driver_applied(on->driver)->index >= health->start_last) {
        SEE(health, applied_once, true);
    }
    update_state(health);
    update_birth(health);
    update_members(health);
    update_held(health);
    update_burnt(health);
    update_leader(health);
}

/* --- status --- */

/* How many committed entries are not on its disk, as far as it has told this node; of this node
 * itself: not applied. */
static uint64_t lag_of(const struct raft_context *on, uint64_t id)
{
    uint64_t commit = on->driver->commit;
    const struct peer_seen *seen = rollback_find(&on->driver->peers.seen, id);
    uint64_t index = 0;
    bool is_known = driver_match(on->driver, id, &index) && index > 0;

    if (id == on->node_id) {
        index = driver_applied(on->driver)->index;
    } else if (id == driver_leader(on->driver)) {
        return 0; /* what is committed is in its log */
    } else if (seen !=
               NULL) { /* what a leader hears of now may be less than what was heard before */
        index = seen->tail.index > index ? seen->tail.index : index;
        index = seen->committed > index ? seen->committed : index;
    } else if (!is_known) {
        return ID_UNKNOWN;
    }
    return index < commit ? commit - index : 0;
}

/* What its last answers about the time say. */
static void fill_clock(const struct health_sources *of, struct id_member *member)
{
    const struct clock_check *check = &of->clocks->check;
    uint64_t now_ms = context_now_ms(of->on);

    for (size_t i = 0; i < check->count; i++) {
        const struct clock_sample *sample = &check->samples[i];

        if (sample->peer == member->id) {
            member->last_heard_ms = now_ms > sample->taken_ms ? now_ms - sample->taken_ms : 0;
            member->has_clock_offset = member->last_heard_ms <= CLOCK_SAMPLE_FRESH_MS;
            member->clock_offset_ms = sample->offset_ms;
        }
    }
}

static void fill_serving(const struct clock_sync *clocks, struct id_member *member)
{
    uint8_t serves = clock_sync_serves(clocks, member->id);

    member->has_snowflake = member->reachable && (serves & WIRE_SERVES_SNOWFLAKE) != 0;
    member->serving = !member->reachable                  ? ID_SERVING_UNREACHABLE
                      : member->placement.drained         ? ID_SERVING_DRAINED
                      : (serves & WIRE_SERVES_READY) == 0 ? ID_SERVING_NOT_READY
                                                          : ID_SERVING_READY;
}

static void fill_link(const struct health_sources *of, struct id_member *member)
{
    const struct clock_link *link = clock_sync_link(of->clocks, member->id);

    member->lag = lag_of(of->on, member->id);
    member->round_trip_us = link != NULL ? link->rtt_us : ID_UNKNOWN;
    fill_serving(of->clocks, member);
    member->last_heard_ms = ID_UNKNOWN;
    if (member->id == of->on->node_id) {
        member->last_heard_ms = 0;
    } else {
        fill_clock(of, member);
    }
}

static void fill_member(const struct raft_context *on, const struct conf_member *from,
                        struct id_member *member)
{
    const char *address = context_address(on, from);
    struct node_info info;
    uint64_t match;

    member->id = from->id;
    memcpy(member->peer_address, address, strlen(address));
    strncpy(member->role, from->role == ROLE_VOTER ? "voter" : "standby", sizeof member->role - 1);
    if (state_node(on->state, from->id, &info)) {
        memcpy(member->http_address, info.http_address, sizeof member->http_address);
        memcpy(member->version, info.version, sizeof member->version);
        member->levels = info.levels;
    }
    member->placement = state_placement(on->state, from->id);
    member->reachable = context_reaches(on, from->id);
    if (driver_match(on->driver, from->id, &match)) {
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

void health_status(const struct health *health, struct id_cluster_status *ret_status)
{
    const struct raft_context *on = health->of.on;
    const struct configuration *conf = driver_configuration(on->driver);
    const struct member_change *change = state_member_change(on->state);
    struct birth birth;

    memset(ret_status, 0, sizeof *ret_status);
    strncpy(ret_status->cluster_id, health->of.cluster_id, LIMIT_CLUSTER_ID_BYTES);
    if (state_birth(on->state, &birth)) {
        ret_status->uid = birth.uid;
    }
    ret_status->node_id = on->node_id;
    ret_status->state = health_state(on);
    ret_status->leader_id = driver_leader(on->driver);
    ret_status->term = driver_term(on->driver);
    ret_status->commit_index = on->driver->commit;
    ret_status->applied_index = driver_applied(on->driver)->index;
    state_level_row(on->state, &ret_status->level);
    if (change != NULL) {
        fill_change(change, &ret_status->change);
    }
    ASSERT(conf->count <= LIMIT_NODES);
    ret_status->member_count = conf->count;
    for (unsigned i = 0; i < conf->count; i++) {
        fill_member(on, &conf->members[i], &ret_status->members[i]);
        fill_link(&health->of, &ret_status->members[i]);
    }
}
