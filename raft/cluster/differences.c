/*
 * differences.c - see differences.h. Thread: the raft loop.
 */
#include "raft/cluster/differences.h"

#include <string.h>

#include "src/base/log.h"

void differences_init(struct differences *differences, const struct raft_context *on,
                      const struct differences_settings *settings)
{
    *differences = (struct differences){.on = on, .settings = *settings};
}

/* Are the members of the settings those of the log, at the same addresses? One that was removed may
 * stay in the list, which a birth alone looks at: its id never comes back. */
static bool members_agree(const struct differences *differences, const struct configuration *conf)
{
    const struct differences_settings *settings = &differences->settings;

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

static unsigned differences_compare(const struct differences *differences,
                                    const struct configuration *conf)
{
    const struct differences_settings *settings = &differences->settings;
    const struct conf_member *own = configuration_find(conf, differences->on->node_id);
    unsigned differs = 0;

    if (settings->member_count > 0 && !members_agree(differences, conf)) {
        differs |= DIFFERS_MEMBERS;
    }
    if (own != NULL && settings->address[0] != '\0' &&
        strcmp(settings->address, context_address(differences->on, own)) != 0) {
        differs |= DIFFERS_ADDRESS;
    }
    return differs;
}

/* --- what an operator reads --- */

static void put_member(struct buf *text, uint64_t id, const char *address)
{
    buf_printf(text, "%s%llu=%s", text->len > 0 ? "," : "", ull(id), address);
}

static void tell_members(const struct differences *differences, const struct configuration *conf)
{
    BUF_LOCAL(setting);
    BUF_LOCAL(known);

    for (size_t i = 0; i < differences->settings.member_count; i++) {
        const struct net_peer *peer = &differences->settings.members[i];

        put_member(&setting, peer->id, peer->address);
    }
    MEMBER_FOREACH (member, conf) {
        put_member(&known, member->id, context_address(differences->on, member));
    }
    log_warn(
        "raft", "cluster.members is not what the log knows, and the log's members hold",
        "setting=%.*s log=%.*s hint=\"members change by /api/cluster/members, not by settings: "
        "correct the setting\"",
        (int)setting.len, (const char *)setting.data, (int)known.len, (const char *)known.data);
}

static void tell_address(const struct differences *differences, const struct configuration *conf)
{
    const struct conf_member *own = configuration_find(conf, differences->on->node_id);

    log_warn("raft", "this node is not where the log says, and the others dial it there",
             "setting=%s log=%s hint=\"it tells them by itself once it reaches one of them; PUT "
             "/api/cluster/members/%llu on another node does it, too\"",
             differences->settings.address, context_address(differences->on, own),
             ull(differences->on->node_id));
}

static void differences_tell(const struct differences *differences,
                             const struct configuration *conf, unsigned before)
{
    unsigned begun = differences->now & ~before;

    if ((begun & DIFFERS_MEMBERS) != 0) {
        tell_members(differences, conf);
    }
    if ((begun & DIFFERS_ADDRESS) != 0) {
        tell_address(differences, conf);
    }
    if (differences->now == 0 && before != 0) {
        log_info("raft", "the settings are what the log knows again", NULL);
    }
}

void differences_turn(struct differences *differences)
{
    const struct raft_context *on = differences->on;
    uint64_t index = driver_applied(on->driver)->conf_index;
    uint64_t moves = state_member_moves(on->state);
    struct configuration conf;
    unsigned before = differences->now;

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
    differences->now = differences_compare(differences, &conf);
    differences_tell(differences, &conf, before);
}
