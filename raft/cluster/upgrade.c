/*
 * upgrade.c - see upgrade.h. Thread: the raft loop.
 */
#include "raft/cluster/upgrade.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"

#define LOOK_MS 200

void upgrade_init(struct upgrade *upgrade, const struct raft_context *on,
                  const struct upgrade_config *config)
{
    *upgrade = (struct upgrade){
        .on = on, .config = config, .command.wakes = WAKE_UPGRADE, .look.wakes = WAKE_UPGRADE};
}

/* --- who is in the way --- */

enum obstacle { NONE, UNKNOWN, STARTED_ANEW, TOO_OLD, NOT_REACHED };

/* The start of a member that this node last heard of; 0: of none. */
static uint64_t start_of(const struct raft_context *on, uint64_t node_id)
{
    const struct peer_seen *seen;

    if (node_id == on->node_id) {
        return on->driver->start.incarnation;
    }
    seen = rollback_find(&on->driver->peers.seen, node_id);
    return seen != NULL ? seen->incarnation : 0;
}

static enum obstacle obstacle_of(const struct raft_context *on, uint64_t node_id, uint16_t to,
                                 struct node_info *ret_info)
{
    if (!state_node(on->state, node_id, ret_info)) {
        return UNKNOWN;
    }
    if (ret_info->levels.max < to || ret_info->levels.min > to) {
        return TOO_OLD;
    }
    if (ret_info->incarnation != start_of(on, node_id)) {
        return STARTED_ANEW;
    }
    return context_reaches(on, node_id) ? NONE : NOT_REACHED;
}

static bool is_adding(const struct raft_context *on)
{
    const struct member_change *change = state_member_change(on->state);

    return change != NULL && !change->given_up && change->kind == MEMBER_ADD;
}

/* Does every member stand for the level? *ret_reached: and can all of them be asked. */
static bool all_stand(const struct raft_context *on, uint16_t to, bool *ret_reached)
{
    struct node_info info;

    *ret_reached = true;
    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        enum obstacle obstacle = obstacle_of(on, member->id, to, &info);

        if (obstacle != NONE && obstacle != NOT_REACHED) {
            return false;
        }
        *ret_reached = *ret_reached && obstacle == NONE;
    }
    return !is_adding(on);
}

/* --- raising --- */

static void raise_to(struct upgrade *upgrade, uint16_t to)
{
    const struct raft_context *on = upgrade->on;
    const struct level_command command = {.to = to, .wall_ms = clock_wall_ms(on->clock)};
    struct buf payload = BUF_INIT;

    if (!upgrade->command.in_flight) {
        upgrade->raising = to;
        cluster_command_put(&payload, COMMAND_LEVEL, &command);
        node_command_send(&upgrade->command, on, &payload, false);
    }
}

bool upgrade_is_void(const struct upgrade *upgrade)
{
    bool reached;

    return upgrade->command.in_flight && (!driver_leads(upgrade->on->driver) ||
                                          !all_stand(upgrade->on, upgrade->raising, &reached));
}

/* Does every member run on its data directory for the first time? Then nobody ever ran an older
 * leafd here that there would be to go back to. */
static bool is_new(const struct raft_context *on)
{
    struct node_info info;

    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        if (!state_node(on->state, member->id, &info) ||
            info.incarnation >> PEER_INCARNATION_RANDOM_BITS != 1) {
            return false;
        }
    }
    return true;
}

void upgrade_turn(struct upgrade *upgrade)
{
    const struct raft_context *on = upgrade->on;
    uint16_t next = (uint16_t)(state_level(on->state) + 1);
    uint64_t now_ms = context_now_ms(on);
    bool reached;

    if (next > state_levels(on->state).max || !driver_leads(on->driver)) {
        upgrade->ready_ms = 0;
        return;
    }
    if (timer_is_armed(&upgrade->look)) {
        return;
    }
    timer_arm(on->timers, &upgrade->look, now_ms + LOOK_MS);
    if (!all_stand(on, next, &reached)) {
        upgrade->ready_ms = 0;
        return;
    }
    if (upgrade->ready_ms == 0 || upgrade->ready != next) {
        upgrade->ready_ms = now_ms;
        upgrade->ready = next;
    }
    if (upgrade->config->automatic && reached &&
        (is_new(on) || now_ms - upgrade->ready_ms >= upgrade->config->hold_ms)) {
        raise_to(upgrade, next);
    }
}

/* --- answers --- */

static void append(struct member_answer *answer, const char *text)
{
    size_t len = strlen(answer->why);

    (void)snprintf(answer->why + len, sizeof answer->why - len, "%s%s", len > 0 ? "; " : "", text);
}

static void say_obstacle(const struct conf_member *member, enum obstacle obstacle,
                         const struct node_info *info, struct member_answer *answer)
{
    unsigned long long id = (unsigned long long)member->id;
    const char *role = member->role == ROLE_VOTER ? "node" : "standby node";
    char text[160];

    switch (obstacle) {
    case UNKNOWN:
        (void)snprintf(text, sizeof text, "%s %llu has not said yet what it speaks", role, id);
        break;
    case STARTED_ANEW:
        (void)snprintf(text, sizeof text,
                       "%s %llu was started anew and has not said yet what it speaks", role, id);
        break;
    case TOO_OLD:
        (void)snprintf(text, sizeof text, "%s %llu (leafd %s) speaks levels %u to %u", role, id,
                       info->version, info->levels.min, info->levels.max);
        break;
    default:
        (void)snprintf(text, sizeof text, "%s %llu cannot be reached", role, id);
        break;
    }
    append(answer, text);
}

/* Have all members said what they speak, and does none of them speak more than is in force? */
static bool is_newest(const struct raft_context *on, uint16_t now)
{
    struct node_info info;

    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        if (!state_node(on->state, member->id, &info) || info.levels.max != now ||
            info.incarnation != start_of(on, member->id)) {
            return false;
        }
    }
    return true;
}

/* Name all that are in the way; false: nobody is. */
static bool say_obstacles(const struct raft_context *on, uint16_t to, struct member_answer *answer)
{
    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        struct node_info info = {0};
        enum obstacle obstacle = obstacle_of(on, member->id, to, &info);

        if (obstacle != NONE) {
            say_obstacle(member, obstacle, &info, answer);
        }
    }
    if (is_adding(on)) {
        append(answer, "a node is being added");
    }
    return answer->why[0] != '\0';
}

void upgrade_answer(struct upgrade *upgrade, const struct member_ask *ask,
                    struct member_answer *ret_answer)
{
    const struct raft_context *on = upgrade->on;
    bool only_see = ask->kind == MEMBER_ASK_LEVEL_SEE;
    uint16_t now = state_level(on->state);
    uint16_t to = only_see ? (uint16_t)(now + 1) : ask->level;

    ASSERT(only_see || ask->kind == MEMBER_ASK_LEVEL);
    *ret_answer = (struct member_answer){.outcome = MEMBER_DONE};
    if (to == now) {
        (void)snprintf(ret_answer->why, sizeof ret_answer->why, "the level is %u", now);
    } else if (to != now + 1) {
        ret_answer->outcome = MEMBER_NOT_NEXT;
        (void)snprintf(ret_answer->why, sizeof ret_answer->why,
                       "the level is %u and rises one by one: the next is %u", now, now + 1);
    } else if (only_see && is_newest(on, now)) {
        ret_answer->outcome = MEMBER_NOT_NEXT; /* there is none */
        (void)snprintf(ret_answer->why, sizeof ret_answer->why,
                       "the level is %u, and no member speaks a newer one", now);
    } else if (say_obstacles(on, to, ret_answer)) {
        ret_answer->outcome = MEMBER_IN_THE_WAY;
    } else if (only_see) {
        (void)snprintf(ret_answer->why, sizeof ret_answer->why,
                       "the level is %u, and every member speaks %u", now, to);
    } else {
        ret_answer->outcome = MEMBER_PENDING;
        (void)snprintf(ret_answer->why, sizeof ret_answer->why, "the level is being raised to %u",
                       to);
        raise_to(upgrade, to);
    }
}
