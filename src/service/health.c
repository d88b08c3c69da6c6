/*
 * health.c - see health.h. Thread: the raft loop.
 */
#include "src/service/health.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/log.h"
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

static enum id_node_state health_state(const struct raft_context *on)
{
    return on->stopping ? ID_NODE_STOPPING : (enum id_node_state)driver_state(on->driver);
}

/* Only the raft loop writes; readers need no order between the fields. */
#define SEE(health, field, value)                                                                  \
    atomic_store_explicit(&(health)->seen.field, (value), memory_order_relaxed)

/* Does this node hold ids of any tag? Checked only while there is no leader to grant more. A node
 * with more tags than are checked, with the first ones all used up, may count as not ready too
 * early. */
static void update_held(struct health *health)
{
    uint64_t held = allocator_counts(health->of.allocator)->held;

    if (!leader_route_is_known(&health->of.replica->requests.route) && held > 0) {
        struct id_tag *tag = id_table_after(health->of.table, NULL);

        if (timer_is_armed(&health->held_look)) {
            return;
        }
        context_arm_in(health->of.on, &health->held_look, HELD_LOOK_MS);
        for (unsigned i = 1; tag != NULL && segment_left(&tag->buffer) == 0; i++) {
            tag = i < HELD_LOOK_MAX ? id_table_after(health->of.table, tag) : NULL;
        }
        held = tag != NULL ? held : 0;
    }
    SEE(health, segments_held, held);
}

/* The birth, and until then the nodes that it waits for; checked only when there is news. */
static void update_birth(struct health *health)
{
    struct birth_seen waits[LIMIT_NODES];
    const struct birth *birth = state_birth(health->of.on->state);
    size_t count;

    if (health->birth_changes == health->of.replica->peers.births.changes &&
        health->birth_changes != 0) {
        return;
    }
    health->birth_changes = health->of.replica->peers.births.changes;
    count = birth_watch_waits(&health->of.replica->peers.births, waits);
    for (size_t i = 0; i < LIMIT_NODES; i++) {
        SEE(health, birth_waits[i],
            i < count ? (uint32_t)(waits[i].id << 8) | (uint32_t)waits[i].wait : 0);
    }
    if (birth != NULL) {
        SEE(health, uid_low, birth->uid.low);
        SEE(health, uid_high, birth->uid.high);
    }
}

/* The lease judges the clock only for a node that has worker ids. Two clocks of three that differ
 * do not tell which is wrong. */
static void update_clock(struct health *health)
{
    const struct clock_check *check = &health->of.replica->clock_sync.check;
    const struct clock *clock = health->of.on->real_clock;
    uint64_t now_ms = clock_now_ms(clock);
    uint64_t wall_ms = clock_wall_ms(clock);
    bool is_known = check->members > 0 && clock_check_agreed(check, now_ms, wall_ms);
    int64_t off_ms;
    size_t samples;

    if (clock_check_verdict(check, now_ms, wall_ms, &off_ms) != 0 || is_known) {
        SEE(health, clock_off_ms, off_ms);
    }
    if (is_known) {
        uint64_t cluster_ms = clock_check_cluster_ms(check, now_ms, wall_ms, &samples);

        SEE(health, clock_line_ms, (int64_t)(cluster_ms - now_ms));
    }
}

void health_update(struct health *health)
{
    const struct raft_context *on = health->of.on;
    const struct member_change *change = state_member_change(on->state);
    const struct configuration *conf = driver_configuration(on->driver);
    const struct leader_route *route = &health->of.replica->requests.route;
    const struct allocator_counts *segments = allocator_counts(health->of.allocator);
    const struct window_counts *windows = windows_counts(health->of.windows);
    struct lease_status lease;
    struct fsm_usage usage;

    lease_status(health->of.lease, &lease);
    /* Marks do not reach a disk that stands still; that of another refusal comes first. */
    SEE(health, snowflake_refusal,
        lease.refusal == 0 && health->disk_stands ? ERR_DISK_FULL : lease.refusal);
    SEE(health, clock_wait_until_ms, lease.wait_until_ms);
    SEE(health, implausible, on->driver->trust.alarm.count);
    SEE(health, disk_low, driver_disk_is_low(on->driver));
    if (driver_applied(on->driver)->index >= health->start_last) {
        SEE(health, applied_once, true);
    }
    fsm_usage(health->of.context->fsm, &usage);
    SEE(health, state_bytes, state_memory(on->state));
    SEE(health, state_max_bytes, on->config->memory_bytes);
    SEE(health, state_tags, usage.tags);
    SEE(health, state_dead, usage.dead);
    SEE(health, state_keys, usage.keys);
    update_clock(health);
    update_birth(health);
    SEE(health, members, conf->count);
    SEE(health, voters, configuration_voters(conf));
    SEE(health, differs,
        health->of.replica->announce.differs |
            (*health->of.layout_differs ? ID_DIFFERS_LAYOUT : 0));
    SEE(health, drained, state_placement(on->state, on->node_id).drained);
    SEE(health, member_change, change != NULL && !change->given_up);
    SEE(health, level, state_level(on->state));
    SEE(health, level_able, on->state->facts.speaks.max);
    update_held(health);
    SEE(health, burnt[ID_BURN_GENERATION],
        segments->burnt[ID_BURN_GENERATION] + windows->burnt_generation);
    SEE(health, burnt[ID_BURN_LATE], segments->burnt[ID_BURN_LATE]);
    SEE(health, burnt[ID_BURN_STOP], segments->burnt[ID_BURN_STOP] + windows->burnt_stop);
    SEE(health, burnt[ID_BURN_STRICT], strict_counts(health->of.strict)->burnt);
    SEE(health, burnt[ID_BURN_WINDOW], windows->burnt_window);
    SEE(health, given_back, segments->returned + windows->returned);
    SEE(health, leader_known, leader_route_is_known(route));
    if (route->state != ROUTE_SOUGHT) { /* as before while one is sought */
        SEE(health, leader_through, route->forwarder);
    }
}

/* --- members --- */

static const char *role_name(enum conf_role role)
{
    return role == ROLE_VOTER ? "voter" : "standby";
}

/* How many committed entries are not on the member's disk, as last reported to this node; for this
 * node itself: not applied. */
static uint64_t lag_of(const struct raft_context *on, uint64_t id)
{
    uint64_t commit = on->driver->commit;
    const struct peer_seen *seen = rollback_find(&on->driver->peers.seen, id);
    uint64_t index = 0;
    bool is_known = driver_match(on->driver, id, &index) && index > 0;

    if (id == on->node_id) {
        index = driver_applied(on->driver)->index;
    } else if (id == driver_leader(on->driver)) {
        return 0;              /* committed entries are in its log */
    } else if (seen != NULL) { /* a leader may now know less than was known before */
        index = seen->tail.index > index ? seen->tail.index : index;
        index = seen->committed > index ? seen->committed : index;
    } else if (!is_known) {
        return ID_UNKNOWN;
    }
    return index < commit ? commit - index : 0;
}

static void look_member(const struct health_sources *of, const struct conf_member *from,
                        struct id_member *member)
{
    const struct raft_context *on = of->on;
    const struct clock_link *link = clock_sync_link(&of->replica->clock_sync, from->id);
    uint8_t serves = clock_sync_serves(&of->replica->clock_sync, from->id);
    const char *address = context_address(on, from);
    const struct node_info *info = state_node(on->state, from->id);

    member->id = from->id;
    memcpy(member->peer_address, address, strlen(address));
    strncpy(member->role, role_name(from->role), sizeof member->role - 1);
    if (info != NULL) {
        memcpy(member->http_address, info->http_address, sizeof member->http_address);
        memcpy(member->version, info->version, sizeof member->version);
        member->levels = info->levels;
    }
    member->placement = state_placement(on->state, from->id);
    member->reachable = context_reaches(on, from->id);
    member->has_match = driver_match(on->driver, from->id, &member->match_index);
    member->lag = lag_of(on, from->id);
    member->round_trip_us = link != NULL ? link->rtt_us : ID_UNKNOWN;
    member->has_snowflake = member->reachable && (serves & WIRE_SERVES_SNOWFLAKE) != 0;
    member->serving = !member->reachable                  ? ID_SERVING_UNREACHABLE
                      : member->placement.drained         ? ID_SERVING_DRAINED
                      : (serves & WIRE_SERVES_READY) == 0 ? ID_SERVING_NOT_READY
                                                          : ID_SERVING_READY;
    /* From its last answers about the time; this node has none from itself. */
    member->has_clock_offset = clock_check_peer(
        &of->replica->clock_sync.check, from->id, clock_now_ms(on->real_clock),
        clock_wall_ms(on->real_clock), &member->last_heard_ms, &member->clock_offset_ms);
    member->last_heard_ms = from->id == on->node_id ? 0 : member->last_heard_ms;
}

/* --- figures --- */

/* Ids that an operator sets are no growth (except of a strict tag, which keeps its generation), nor
 * are ids skipped by a new period or key. */
static void look_growth(struct figures_growth *growth, const struct id_tag *tag,
                        const struct tag_row *row, uint64_t now_ms)
{
    bool is_same = growth->tag == tag && growth->generation == row->generation;
    uint64_t grown = is_same && row->max_id > growth->max_id ? row->max_id - growth->max_id : 0;
    struct shape shape;

    if (growth->tag != tag) {
        *growth = (struct figures_growth){.tag = tag};
    }
    if (grown > 0 && row->shape_len > 0 &&
        tag_shape(row->shape, row->shape_len, &shape, NULL) == 0) {
        grown = shape_grown(&shape, growth->max_id, row->max_id);
    }
    grown /= increment_of(row->increment);
    if (meter_note(&growth->ids, grown, FIGURES_GROWTH_HALF_MS, now_ms) || !is_same) {
        growth->generation = row->generation;
        growth->max_id = row->max_id;
    }
}

static int faster_first(const void *a, const void *b)
{
    double left = ((const struct id_tag_figures *)a)->per_s;
    double right = ((const struct id_tag_figures *)b)->per_s;

    return (left < right) - (left > right);
}

static void look_busiest(struct health *health, struct id_figures *now)
{
    const struct raft_context *on = health->of.on;
    const struct usage *usage = allocator_usage(health->of.allocator);

    _Static_assert(USAGE_BUSIEST == ID_BUSIEST_TAGS, "all of them are told");
    for (size_t i = 0; i < usage->count; i++) {
        const struct id_tag *tag = usage->busiest[i];
        const struct tag_row *row = fsm_tag(health->of.context->fsm, tag->name, tag->name_len);
        struct id_tag_figures *to = &now->busiest[now->busiest_count];
        double per_s = (double)tag->refill.rate.per_s;
        double by_all;

        if (row == NULL || row->deleted || per_s < USAGE_RATE_MIN_PER_S) {
            continue;
        }
        look_growth(&health->growths[i], tag, row, context_now_ms(on));
        by_all = (double)health->growths[i].ids.per_s;
        by_all = by_all > per_s ? by_all : per_s;
        memcpy(to->name, tag->name, tag->name_len);
        to->name_len = tag->name_len;
        to->per_s = per_s;
        to->ends_s = (double)dates_left(health->of.dates, row, by_all) / by_all;
        to->lasts_s = usage_lasts_s(tag);
        to->cover_s = tag->refill.cover_s;
        to->is_short = tag->refill.is_short;
        now->busiest_count++;
    }
    qsort(now->busiest, now->busiest_count, sizeof now->busiest[0], faster_first);
}

void health_measure(struct health *health)
{
    const struct raft_context *on = health->of.on;
    const struct driver *driver = on->driver;
    const struct configuration *conf = driver_configuration(driver);
    const struct allocator_counts *segments = allocator_counts(health->of.allocator);
    const struct window_counts *windows = windows_counts(health->of.windows);
    const struct rounds *rounds = &health->of.replica->requests.serving.round;
    struct disk_figures disk;
    struct id_figures now;

    memset(&now, 0, sizeof now);
    now.role = health_state(on);
    now.leader_id = driver_leader(driver);
    now.term = driver_term(driver);
    now.commit_index = driver->commit;
    now.applied_index = driver_applied(driver)->index;
    now.last_index = driver_last_index(driver);
    now.log_entries = driver->log.count;
    now.log_bytes = driver->log.bytes;
    now.elections = driver->counts.elections;
    now.leaderships = driver->counts.leaderships;
    now.snapshots_sent = driver->transfers.sent;
    now.snapshots_received = driver->counts.installs;
    now.compactions = driver->counts.compactions;
    now.requests_pending = health->of.replica->requests.count;
    now.refills_in_flight = segments->in_flight;
    now.ids_granted = segments->granted;
    now.covers_short = allocator_usage(health->of.allocator)->short_count;
    now.windows = windows->open;
    now.window_ids = windows->left;
    now.window_entries = windows->entries;
    now.window_waits = windows->waits;
    now.rounds_confirmed = rounds->confirmed_count;
    now.rounds_abandoned = rounds->abandoned_count;
    histogram_add(&now.refill, &segments->took);
    histogram_add(&now.strict, &strict_counts(health->of.strict)->took);
    fsm_worker_counts(health->of.context->fsm, &now.workers, &now.worker_names_shared);
    if (on->disk->ops->figures != NULL) {
        on->disk->ops->figures(on->disk, &disk);
        if (health->disk_stands != (disk.stood_s >= DISK_STANDS_S)) {
            health->disk_stands = !health->disk_stands;
            context_wake(on, WAKE_SEEN);
        }
        now.disk = (struct id_disk_figures){.map_bytes = disk.space.map_bytes,
                                            .used_bytes = disk.space.used_bytes,
                                            .disk_bytes = disk.space.disk_bytes,
                                            .disk_free_bytes = disk.space.disk_free_bytes,
                                            .bound = disk.space.bound,
                                            .views_ended = disk.space.views_ended,
                                            .stood_s = disk.stood_s,
                                            .commit = disk.commit,
                                            .flush = disk.flush};
    }
    now.backups = health->of.backups->figures;
    ASSERT(conf->count <= LIMIT_NODES);
    MEMBER_FOREACH (member, conf) {
        look_member(&health->of, member, &now.members[now.member_count++]);
    }
    look_busiest(health, &now);
    id_figures_put(&health->figures, &now);
}

/* --- status --- */

void health_status(const struct health *health, struct id_cluster_status *ret_status)
{
    const struct raft_context *on = health->of.on;
    const struct configuration *conf = driver_configuration(on->driver);
    const struct member_change *change = state_member_change(on->state);
    const struct birth *birth = state_birth(on->state);

    memset(ret_status, 0, sizeof *ret_status);
    strncpy(ret_status->cluster_id, health->of.replica->config.cluster_id, LIMIT_CLUSTER_ID_BYTES);
    if (health->of.replica->config.prefer_zone != NULL) {
        strncpy(ret_status->prefer_zone, health->of.replica->config.prefer_zone, LIMIT_ZONE_BYTES);
    }
    if (birth != NULL) {
        ret_status->uid = birth->uid;
    }
    ret_status->node_id = on->node_id;
    ret_status->state = health_state(on);
    ret_status->leader_id = driver_leader(on->driver);
    ret_status->term = driver_term(on->driver);
    ret_status->commit_index = on->driver->commit;
    ret_status->applied_index = driver_applied(on->driver)->index;
    ret_status->level = on->state->facts.level;
    ret_status->level.level = state_level(on->state);
    if (change != NULL) {
        ret_status->change.kind = change->kind == MEMBER_ADD ? "add" : "remove";
        ret_status->change.state = change->given_up ? "given_up" : "under_way";
        ret_status->change.node_id = change->node_id;
        memcpy(ret_status->change.peer_address, change->address,
               sizeof ret_status->change.peer_address);
    }
    ASSERT(conf->count <= LIMIT_NODES);
    ret_status->member_count = conf->count;
    for (unsigned i = 0; i < conf->count; i++) {
        look_member(&health->of, &conf->members[i], &ret_status->members[i]);
    }
}

/* --- changes, as lines of the log --- */

#define ADDRESS_TEXT_BYTES (LIMIT_ADDRESS_BYTES + 64) /* quoted; it is of plain characters */

static const char *quoted(const char *address, char out[ADDRESS_TEXT_BYTES])
{
    return log_quote(address, strlen(address), out, ADDRESS_TEXT_BYTES);
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
        MEMBER_FOREACH (now, &conf) {
            const struct conf_member *before = configuration_find(&log->conf, now->id);
            char address[ADDRESS_TEXT_BYTES];

            if (before == NULL) {
                log_info("raft", "a member was added", "member=%llu role=%s address=%s index=%llu",
                         ull(now->id), role_name(now->role), quoted(now->address, address),
                         ull(index));
            } else if (before->role != now->role) {
                log_info("raft", "a member has another role",
                         "member=%llu role=%s was=%s index=%llu", ull(now->id),
                         role_name(now->role), role_name(before->role), ull(index));
            }
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

    if (replica->state->members.move_changes == log->moves) {
        return;
    }
    log->moves = replica->state->members.move_changes;
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

static void change_log_update(struct change_log *log, bool tell)
{
    const struct member_change *change = state_member_change(log->replica->state);
    uint16_t level = state_level(log->replica->state);

    look_at_members(log, log->replica, tell);
    look_at_addresses(log, log->replica, tell);
    if (change != NULL) { /* else it is done, as the members show; its index is never reused */
        const char *kind = change->kind == MEMBER_ADD ? "add" : "remove";
        bool is_new = change->index != log->change_index;

        if (is_new && tell) {
            log_info("raft", "a change of the members begins",
                     "kind=%s member=%llu force=%s index=%llu", kind, ull(change->node_id),
                     change->force ? "true" : "false", ull(change->index));
        }
        if (change->given_up && (is_new || !log->given_up) && tell) {
            log_warn("raft", "a change of the members was given up",
                     "kind=%s member=%llu index=%llu", kind, ull(change->node_id),
                     ull(change->index));
        }
        log->change_index = change->index;
        log->given_up = change->given_up;
    }
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
    change_log_update(log, false);
}

void change_log_turn(struct change_log *log)
{
    const struct snowflake *snowflake = log->snowflake;
    uint32_t count = atomic_load_explicit(&snowflake->slot_count, memory_order_relaxed);
    char name[LIMIT_TAG_NAME_BYTES * 4 + 3]; /* each byte may be an escape */

    change_log_update(log, true);
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
    if (log->opened > 0) {
        log_info("raft", "tags have left trend mode: no node holds a segment of them",
                 "tags=%u first=%s", log->opened,
                 log_quote(log->opened_tag, log->opened_len, name, sizeof name));
        log->opened = 0;
    }
}

void change_log_opened(struct change_log *log, const struct tag_row *row)
{
    if (log->opened++ == 0) {
        memcpy(log->opened_tag, row->name, row->name_len);
        log->opened_len = row->name_len;
    }
}
