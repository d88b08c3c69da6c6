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
    context_arm_in(announce->on, &announce->registration_pause, REGISTER_AGAIN_MS);
}

bool announce_is_registered(const struct announce *announce)
{
    const struct node_info *info = &announce->on->config->info;
    struct node_info known;

    return info->node_id == 0 ||
           (state_node(announce->on->state, info->node_id, &known) &&
            known.store_id == info->store_id && known.incarnation == info->incarnation &&
            known.levels.min == info->levels.min && known.levels.max == info->levels.max &&
            strcmp(known.http_address, info->http_address) == 0 &&
            strcmp(known.version, info->version) == 0 &&
            strcmp(known.peer_address, info->peer_address) == 0);
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

    if (announce->registration.in_flight || timer_is_armed(&announce->registration_pause) ||
        !leader_route_is_known(announce->route) || info->node_id == 0) {
        return;
    }
    if (!announce_is_registered(announce)) {
        cluster_command_put(&payload, COMMAND_NODE_INFO, info);
    } else if (strcmp(state_placement(announce->on->state, info->node_id).zone,
                      announce->zone.zone) == 0) {
        warn_of_zone(announce);
        return;
    } else if (state_level(announce->on->state) < PLACEMENT_LEVEL) {
        context_arm_in(announce->on, &announce->registration_pause, REGISTER_AGAIN_MS);
        return;
    } else {
        cluster_command_put(&payload, COMMAND_PLACEMENT, &announce->zone);
    }
    node_command_send(&announce->registration, announce->on, &payload, false);
}

/* --- digests --- */

/* The leader has every node compare its state at an equal index. */
static void compare_digests(struct announce *announce)
{
    struct driver *driver = announce->on->driver;
    uint64_t applied = driver_applied(driver)->index;
    struct buf payload = BUF_INIT;

    if (!driver_leads(driver)) {
        announce->digest_index = 0;
        return;
    }
    if (announce->on->config->digest_ms == 0 || announce->digest.in_flight ||
        timer_is_armed(&announce->digest_pause)) {
        return;
    }
    context_arm_in(announce->on, &announce->digest_pause, announce->on->config->digest_ms);
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

void announce_turn(struct announce *announce)
{
    register_node(announce);
    compare_digests(announce);
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
                                  .registration_pause.wakes = WAKE_ANNOUNCE,
                                  .digest.wakes = WAKE_ANNOUNCE,
                                  .digest_pause.wakes = WAKE_ANNOUNCE};
    if (config->zone != NULL) {
        strncpy(announce->zone.zone, config->zone, LIMIT_ZONE_BYTES);
    }
    context_arm_in(on, &announce->digest_pause, config->digest_ms);
}

/* --- settings that differ from the log --- */

/* Are the members of the settings those of the log, at the same addresses? A removed member may
 * stay in the list, which only a birth uses: its id never comes back. */
static bool members_agree(const struct differences *differences, const struct configuration *conf)
{
    const struct replica_config *settings = differences->on->config;

    MEMBER_FOREACH (member, conf) {
        const struct net_peer *peer =
            net_peer_find(settings->members, settings->member_count, member->id);

        if (peer == NULL || strcmp(peer->address, context_address(differences->on, member)) != 0) {
            return false;
        }
    }
    for (size_t i = 0; i < settings->member_count; i++) {
        if (configuration_find(conf, settings->members[i].id) == NULL &&
            !state_member_removed(differences->on->state, settings->members[i].id)) {
            return false;
        }
    }
    return true;
}

static void tell_members(const struct differences *differences, const struct configuration *conf)
{
    BUF_LOCAL(setting);
    BUF_LOCAL(known);

    for (size_t i = 0; i < differences->on->config->member_count; i++) {
        const struct net_peer *peer = &differences->on->config->members[i];

        buf_printf(&setting, "%s%llu=%s", i > 0 ? "," : "", ull(peer->id), peer->address);
    }
    MEMBER_FOREACH (member, conf) {
        buf_printf(&known, "%s%llu=%s", known.len > 0 ? "," : "", ull(member->id),
                   context_address(differences->on, member));
    }
    log_warn(
        "raft", "cluster.members is not what the log knows, and the log's members hold",
        "setting=%.*s log=%.*s hint=\"members change by /api/cluster/members, not by settings: "
        "correct the setting\"",
        (int)setting.len, (const char *)setting.data, (int)known.len, (const char *)known.data);
}

void differences_turn(struct differences *differences)
{
    const struct raft_context *on = differences->on;
    const struct replica_config *settings = on->config;
    const char *address = settings->info.peer_address;
    uint64_t index = driver_applied(on->driver)->conf_index;
    uint64_t moves = state_member_moves(on->state);
    struct configuration conf;
    const struct conf_member *own;
    unsigned now = 0;
    unsigned begun;

    if (differences->looked && index == differences->index && moves == differences->moves) {
        return;
    }
    applier_configured(&on->driver->applier, &conf);
    if (conf.count == 0) {
        return;
    }
    differences->looked = true;
    differences->index = index;
    differences->moves = moves;
    own = configuration_find(&conf, on->node_id);
    if (settings->member_count > 0 && !members_agree(differences, &conf)) {
        now |= DIFFERS_MEMBERS;
    }
    if (own != NULL && address[0] != '\0' && strcmp(address, context_address(on, own)) != 0) {
        now |= DIFFERS_ADDRESS;
    }
    begun = now & ~differences->now;
    if ((begun & DIFFERS_MEMBERS) != 0) {
        tell_members(differences, &conf);
    }
    if ((begun & DIFFERS_ADDRESS) != 0) {
        log_warn(
            "raft", "this node is not where the log says, and the others dial it there",
            "setting=%s log=%s hint=\"it tells them by itself once it reaches one of them; PUT "
            "/api/cluster/members/%llu on another node does it, too\"",
            address, context_address(on, own), ull(on->node_id));
    }
    if (now == 0 && differences->now != 0) {
        log_info("raft", "the settings are what the log knows again", NULL);
    }
    differences->now = now;
}
