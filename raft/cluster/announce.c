/*
 * announce.c - see announce.h. Thread: the raft loop.
 */
#include "raft/cluster/announce.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

#define REGISTER_AGAIN_MS 1000
#define DIGEST_QUIET 12 /* without changes, digests are compared once in this many times */

/* --- its registration --- */

static void on_registered(struct node_command *command, int status)
{
    struct announce *announce = CONTAINER(command, struct announce, registration);

    (void)status; /* the row shows it */
    node_command_pause(&announce->registration, announce->on, REGISTER_AGAIN_MS);
}

bool announce_is_registered(const struct announce *announce)
{
    const struct node_info *info = &announce->on->config->info;
    const struct node_info *known = state_node(announce->on->state, info->node_id);

    return info->node_id == 0 || (known != NULL && row_same(&node_info_format, known, info));
}

/* If other nodes share a zone, and none has this node's, its name may be misspelt. Checked once,
 * when the zone is in its row. */
static void warn_of_zone(struct announce *announce)
{
    const struct raft_context *on = announce->on;
    const struct configuration *conf = driver_configuration(on->driver);
    struct placement places[LIMIT_NODES];
    const char *shared = NULL;
    size_t count = 0;

    if (announce->zone_told || announce->zone.zone[0] == '\0') {
        return;
    }
    announce->zone_told = true;
    MEMBER_FOREACH (member, conf) {
        struct placement *place = &places[count];

        *place = state_placement(on->state, member->id);
        if (member->id == on->node_id || place->zone[0] == '\0') {
            continue;
        }
        if (strcmp(place->zone, announce->zone.zone) == 0) {
            return;
        }
        for (size_t i = 0; i < count; i++) {
            shared = strcmp(places[i].zone, place->zone) == 0 ? place->zone : shared;
        }
        count++;
    }
    if (shared != NULL) {
        log_warn("raft", "no other node is in the zone of this one, while others share one",
                 "zone=%s shared=%s hint=\"is `zone` spelt as on the other nodes?\"",
                 announce->zone.zone, shared);
    }
}

static void register_node(struct announce *announce)
{
    const struct node_info *info = &announce->on->config->info;
    struct buf payload = BUF_INIT;

    if (!node_command_may(&announce->registration) || !leader_route_is_known(announce->route) ||
        info->node_id == 0) {
        return;
    }
    if (!announce_is_registered(announce)) {
        cluster_command_put(&payload, COMMAND_NODE_INFO, info);
    } else if (strcmp(state_placement(announce->on->state, info->node_id).zone,
                      announce->zone.zone) == 0) {
        warn_of_zone(announce);
        return;
    } else if (state_level(announce->on->state) < PLACEMENT_LEVEL) {
        node_command_pause(&announce->registration, announce->on, REGISTER_AGAIN_MS);
        return;
    } else {
        cluster_command_put(&payload, COMMAND_PLACEMENT, &announce->zone);
    }
    node_command_send(&announce->registration, announce->on, &payload, false);
}

/* --- settings that differ from the log --- */

/* Are the members of the settings those of the log, at the same addresses? A removed member may
 * stay in the list, which only a birth uses: its id never comes back. */
static bool members_agree(const struct announce *announce, const struct configuration *conf)
{
    const struct replica_config *settings = announce->on->config;

    MEMBER_FOREACH (member, conf) {
        const struct net_peer *peer =
            net_peer_find(settings->members, settings->member_count, member->id);

        if (peer == NULL || strcmp(peer->address, context_address(announce->on, member)) != 0) {
            return false;
        }
    }
    for (size_t i = 0; i < settings->member_count; i++) {
        if (configuration_find(conf, settings->members[i].id) == NULL &&
            !state_member_removed(announce->on->state, settings->members[i].id)) {
            return false;
        }
    }
    return true;
}

static void compare_settings(struct announce *announce)
{
    const struct raft_context *on = announce->on;
    const struct replica_config *settings = on->config;
    const char *address = settings->info.peer_address;
    uint64_t index = driver_applied(on->driver)->conf_index;
    uint64_t moves = on->state->members.move_changes;
    struct configuration conf;
    const struct conf_member *own;
    unsigned now = 0;
    unsigned begun;
    BUF_LOCAL(setting);
    BUF_LOCAL(known);

    if (announce->compared && index == announce->conf_index && moves == announce->moves) {
        return;
    }
    applier_configured(&on->driver->applier, &conf);
    if (conf.count == 0) {
        return;
    }
    announce->compared = true;
    announce->conf_index = index;
    announce->moves = moves;
    own = configuration_find(&conf, on->node_id);
    if (settings->member_count > 0 && !members_agree(announce, &conf)) {
        now |= DIFFERS_MEMBERS;
    }
    if (own != NULL && address[0] != '\0' && strcmp(address, context_address(on, own)) != 0) {
        now |= DIFFERS_ADDRESS;
    }
    begun = now & ~announce->differs;
    if ((begun & DIFFERS_MEMBERS) != 0) {
        for (size_t i = 0; i < settings->member_count; i++) {
            buf_printf(&setting, "%s%llu=%s", i > 0 ? "," : "", ull(settings->members[i].id),
                       settings->members[i].address);
        }
        MEMBER_FOREACH (member, &conf) {
            buf_printf(&known, "%s%llu=%s", known.len > 0 ? "," : "", ull(member->id),
                       context_address(on, member));
        }
        log_warn(
            "raft", "cluster.members is not what the log knows, and the log's members hold",
            "setting=%.*s log=%.*s hint=\"members change by /api/cluster/members, not by settings: "
            "correct the setting\"",
            (int)setting.len, (const char *)setting.data, (int)known.len, (const char *)known.data);
    }
    if ((begun & DIFFERS_ADDRESS) != 0) {
        log_warn("raft", "this node is not where the log says, and the others dial it there",
                 "setting=%s log=%s hint=\"it informs them automatically once it reaches one of "
                 "them; PUT "
                 "/api/cluster/members/%llu on another node does it, too\"",
                 address, context_address(on, own), ull(on->node_id));
    }
    if (now == 0 && announce->differs != 0) {
        log_info("raft", "the settings are what the log knows again", NULL);
    }
    announce->differs = now;
}

void announce_turn(struct announce *announce)
{
    struct driver *driver = announce->on->driver;
    uint64_t applied = driver_applied(driver)->index;
    struct buf payload = BUF_INIT;

    register_node(announce);
    compare_settings(announce);
    /* The leader has every node compare its state at an equal index. */
    if (!driver_leads(driver)) {
        announce->digest_index = 0;
        return;
    }
    if (announce->on->config->digest_ms == 0 || !node_command_may(&announce->digest)) {
        return;
    }
    node_command_pause(&announce->digest, announce->on, announce->on->config->digest_ms);
    /* Only the comparison itself was applied since: a quiet cluster writes little for it. */
    if (announce->digest_index != 0 && applied <= announce->digest_index + 1 &&
        ++announce->digest_skipped < DIGEST_QUIET) {
        return;
    }
    announce->digest_index = applied;
    announce->digest_skipped = 0;
    cluster_command_put(
        &payload, COMMAND_DIGEST,
        &(struct digest_command){.index = applied, .digest = state_digest(announce->on->state)});
    node_command_send(&announce->digest, announce->on, &payload, false);
}

void announce_init(struct announce *announce, const struct raft_context *on,
                   const struct leader_route *route)
{
    const struct replica_config *config = on->config;

    *announce = (struct announce){.on = on,
                                  .route = route,
                                  .zone = {.node_id = config->info.node_id, .set = PLACE_ZONE},
                                  .registration.on_done = on_registered,
                                  .registration.wakes = WAKE_ANNOUNCE,
                                  .digest.wakes = WAKE_ANNOUNCE};
    if (config->zone != NULL) {
        strncpy(announce->zone.zone, config->zone, LIMIT_ZONE_BYTES);
    }
    node_command_pause(&announce->digest, on, config->digest_ms);
}

/* --- the time --- */

#define ASK_MS 1000
#define ASK_SOON_MS 200 /* until a majority of the clocks is known */
#define THRESHOLD_DEFAULT_MS 1000

const struct clock_link *clock_sync_link(const struct clock_sync *sync, uint64_t peer)
{
    const struct peer_row *row = context_peer(sync->on, peer);

    return row != NULL && row->clock.answered_ms > 0 &&
                   clock_now_ms(sync->on->real_clock) - row->clock.answered_ms <=
                       CLOCK_SAMPLE_FRESH_MS
               ? &row->clock
               : NULL;
}

uint8_t clock_sync_serves(const struct clock_sync *sync, uint64_t node_id)
{
    const struct service *service = sync->on->service;
    const struct clock_link *link = clock_sync_link(sync, node_id);
    uint8_t serves = node_id == sync->on->node_id ? service->ops->serves(service)
                     : link != NULL               ? link->serves
                                                  : 0;

    return serves != 0 ? serves : WIRE_SERVES_READY | WIRE_SERVES_SNOWFLAKE;
}

bool clock_sync_receive(struct clock_sync *sync, uint64_t from, const uint8_t *payload, size_t len)
{
    uint64_t wall_ms = clock_wall_ms(sync->on->real_clock);
    struct wire_clock message;
    struct peer_row *row;

    if (wire_clock_decode(payload, len, &message) != 0) {
        return false;
    }
    if (!message.answer) {
        message.answer = true;
        message.wall_ms = wall_ms;
        message.serves = state_level(sync->on->state) >= PLACEMENT_LEVEL
                             ? sync->on->service->ops->serves(sync->on->service)
                             : 0;
        (void)context_send_clock(sync->on, from, FRAME_CLOCK, &message);
        return true;
    }
    row = context_peer(sync->on, from);
    /* Only an answer to the last question gives its round trip. */
    if (row != NULL && message.sent_ms != 0 && row->clock.sent_ms == message.sent_ms) {
        row->clock.answered_ms = clock_now_ms(sync->on->real_clock);
        row->clock.rtt_us = clock_now_us(sync->on->real_clock) - row->clock.sent_us;
        row->clock.serves = message.serves;
        row->clock.sent_ms = 0; /* a second answer has no information */
    }
    clock_check_sample(&sync->check, from, message.sent_ms, clock_now_ms(sync->on->real_clock),
                       message.wall_ms, wall_ms);
    context_wake(sync->on, WAKE_CLOCK_SYNC);
    return true;
}

static void on_ask(struct timer *timer, uint64_t now_ms)
{
    struct clock_sync *sync = CONTAINER(timer, struct clock_sync, ask);
    const struct wire_clock question = {.sent_ms = now_ms};

    MEMBER_FOREACH (member, driver_configuration(sync->on->driver)) {
        if (member->id != sync->on->node_id) {
            struct clock_link *link = &context_peer(sync->on, member->id)->clock;

            link->sent_ms = now_ms;
            link->sent_us = clock_now_us(sync->on->real_clock);
            (void)context_send_clock(sync->on, member->id, FRAME_CLOCK, &question);
        }
    }
    timer_arm(sync->on->timers, timer,
              now_ms + (clock_check_asked(&sync->check, now_ms) ? ASK_MS : ASK_SOON_MS));
}

void clock_sync_turn(struct clock_sync *sync)
{
    uint64_t now_ms = clock_now_ms(sync->on->real_clock);
    uint64_t wall_ms = clock_wall_ms(sync->on->real_clock);
    struct buf payload = BUF_INIT;
    size_t samples;

    /* Propose the time only once a majority of the clocks is known. The log takes the first time
     * unchecked: later ones cannot turn it back, and move it on by a day at most. So two clocks of
     * three that differ wait for the third. */
    if (sync->on->config->clock.threshold_ms == 0 || !node_command_may(&sync->command) ||
        !driver_leads(sync->on->driver) || !clock_check_asked(&sync->check, now_ms) ||
        (sync->on->state->facts.log_ms == 0 &&
         !clock_check_agreed(&sync->check, now_ms, wall_ms))) {
        return;
    }
    cluster_command_put(&payload, COMMAND_CLOCK,
                        &(struct clock_command){.cluster_ms = clock_check_cluster_ms(
                                                    &sync->check, now_ms, wall_ms, &samples)});
    node_command_pause(&sync->command, sync->on, sync->on->config->clock.renew_ms);
    node_command_send(&sync->command, sync->on, &payload, false);
}

void clock_sync_init(struct clock_sync *sync, const struct raft_context *on)
{
    const struct clock_sync_config *config = &on->config->clock;
    uint32_t threshold_ms = config->threshold_ms > 0 ? config->threshold_ms : THRESHOLD_DEFAULT_MS;

    ASSERT_IMPLIES(config->threshold_ms > 0, config->renew_ms > 0);
    *sync = (struct clock_sync){.on = on};
    clock_check_init(&sync->check, threshold_ms);
    timer_init(&sync->ask, on_ask);
    sync->ask.wakes = WAKE_CLOCK_SYNC;
    sync->command.wakes = WAKE_CLOCK_SYNC;
    if (config->threshold_ms > 0) {
        timer_arm(on->timers, &sync->ask, context_now_ms(on));
    }
}
