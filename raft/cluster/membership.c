/*
 * membership.c - see membership.h: the leader's answers to requests that add or remove a member or
 * ask for another leader, and the steps of a change. Thread: the raft loop.
 */
#include "raft/cluster/membership.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/log.h"

/* --- the level --- */

#define UPGRADE_LOOK_MS 200

/* --- obstacles --- */

enum obstacle { NONE, UNKNOWN, STARTED_ANEW, TOO_OLD, NOT_REACHED };

/* The last start of a member that this node heard of; 0: none. */
static uint64_t start_of(const struct raft_context *on, uint64_t node_id)
{
    const struct peer_seen *seen;

    if (node_id == on->node_id) {
        return on->driver->start.incarnation;
    }
    seen = rollback_find(&on->driver->peers.seen, node_id);
    return seen != NULL ? seen->incarnation : 0;
}

static enum obstacle obstacle_of(const struct raft_context *on, uint64_t node_id, uint16_t to)
{
    const struct node_info *info = state_node(on->state, node_id);

    if (info == NULL) {
        return UNKNOWN;
    }
    if (info->levels.max < to || info->levels.min > to) {
        return TOO_OLD;
    }
    if (info->incarnation != start_of(on, node_id)) {
        return STARTED_ANEW;
    }
    return context_reaches(on, node_id) ? NONE : NOT_REACHED;
}

static bool is_adding(const struct raft_context *on)
{
    const struct member_change *change = state_member_change(on->state);

    return change != NULL && !change->given_up && change->kind == MEMBER_ADD;
}

/* Does every member support the level? *ret_reached: can all of them be reached? */
static bool all_support(const struct raft_context *on, uint16_t to, bool *ret_reached)
{
    *ret_reached = true;
    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        enum obstacle obstacle = obstacle_of(on, member->id, to);

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

bool upgrade_turn(struct upgrade *upgrade)
{
    const struct raft_context *on = upgrade->on;
    uint16_t next = (uint16_t)(state_level(on->state) + 1);
    uint64_t now_ms = context_now_ms(on);
    bool is_new = true;
    bool reached;

    if (next > on->state->facts.speaks.max || !driver_leads(on->driver)) {
        upgrade->ready_ms = 0;
    } else if (!timer_is_armed(&upgrade->look)) {
        timer_arm(on->timers, &upgrade->look, now_ms + UPGRADE_LOOK_MS);
        if (!all_support(on, next, &reached)) {
            upgrade->ready_ms = 0;
        } else if (upgrade->ready_ms == 0 || upgrade->ready != next) {
            upgrade->ready_ms = now_ms;
            upgrade->ready = next;
        }
        /* Does every member run on its data directory for the first time? Then no older leafd ever
         * ran here, to which an operator could go back. */
        MEMBER_FOREACH (member, driver_configuration(on->driver)) {
            const struct node_info *info = state_node(on->state, member->id);

            is_new =
                is_new && info != NULL && info->incarnation >> PEER_INCARNATION_RANDOM_BITS == 1;
        }
        if (upgrade->ready_ms != 0 && on->config->upgrade.automatic && reached &&
            (is_new || now_ms - upgrade->ready_ms >= on->config->upgrade.hold_ms)) {
            raise_to(upgrade, next);
        }
    }
    return upgrade->command.in_flight &&
           (!driver_leads(on->driver) || !all_support(on, upgrade->raising, &reached));
}

/* --- answers about the level --- */

static __attribute__((format(printf, 2, 3))) struct member_answer say(enum member_outcome outcome,
                                                                      const char *format, ...)
{
    struct member_answer answer = {.outcome = (uint8_t)outcome};
    va_list args;

    va_start(args, format);
    (void)vsnprintf(answer.why, sizeof answer.why, format, args);
    va_end(args);
    return answer;
}

static void append(struct member_answer *answer, const char *text)
{
    size_t len = strlen(answer->why);

    (void)snprintf(answer->why + len, sizeof answer->why - len, "%s%s", len > 0 ? "; " : "", text);
}

/* Have all members reported their levels, and does none of them speak more than is in force? */
static bool is_newest(const struct raft_context *on, uint16_t now)
{
    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        const struct node_info *info = state_node(on->state, member->id);

        if (info == NULL || info->levels.max != now ||
            info->incarnation != start_of(on, member->id)) {
            return false;
        }
    }
    return true;
}

/* Name all members that are in the way; false: none is. */
static bool list_obstacles(const struct raft_context *on, uint16_t to, struct member_answer *answer)
{
    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        const char *role = member->role == ROLE_VOTER ? "node" : "standby node";
        const struct node_info *info = state_node(on->state, member->id);
        char text[160];

        switch (obstacle_of(on, member->id, to)) {
        case NONE:
            continue;
        case UNKNOWN:
            (void)snprintf(text, sizeof text, "%s %llu has not said yet what it speaks", role,
                           ull(member->id));
            break;
        case STARTED_ANEW:
            (void)snprintf(text, sizeof text,
                           "%s %llu was started anew and has not said yet what it speaks", role,
                           ull(member->id));
            break;
        case TOO_OLD:
            (void)snprintf(text, sizeof text, "%s %llu (leafd %s) speaks levels %u to %u", role,
                           ull(member->id), info->version, info->levels.min, info->levels.max);
            break;
        case NOT_REACHED:
            (void)snprintf(text, sizeof text, "%s %llu cannot be reached", role, ull(member->id));
            break;
        }
        append(answer, text);
    }
    if (is_adding(on)) {
        append(answer, "a node is being added");
    }
    return answer->why[0] != '\0';
}

/* On the leader, with everything applied: raise the level to ask->level (MEMBER_ASK_LEVEL), or only
 * say whether it could be raised (MEMBER_ASK_LEVEL_SEE): MEMBER_DONE, it could; MEMBER_NOT_NEXT, it
 * is the newest that any member speaks. */
static struct member_answer ask_level(struct upgrade *upgrade, const struct member_ask *ask)
{
    const struct raft_context *on = upgrade->on;
    bool only_see = ask->kind == MEMBER_ASK_LEVEL_SEE;
    uint16_t now = state_level(on->state);
    uint16_t to = only_see ? (uint16_t)(now + 1) : ask->level;
    struct member_answer obstacles = {.outcome = MEMBER_IN_THE_WAY};

    if (to == now) {
        return say(MEMBER_DONE, "the level is %u", now);
    }
    if (to != now + 1) {
        return say(MEMBER_NOT_NEXT, "the level is %u and rises one by one: the next is %u", now,
                   now + 1);
    }
    if (only_see && is_newest(on, now)) { /* there is no next level */
        return say(MEMBER_NOT_NEXT, "the level is %u, and no member speaks a newer one", now);
    }
    if (list_obstacles(on, to, &obstacles)) {
        return obstacles;
    }
    if (only_see) {
        return say(MEMBER_DONE, "the level is %u, and every member speaks %u", now, to);
    }
    raise_to(upgrade, to);
    return say(MEMBER_PENDING, "the level is being raised to %u", to);
}

#define LOOK_MS 20             /* between two looks at a catch-up */
#define PATIENCES 10           /* of the change as a whole, despite progress */
#define HANDOVERS_FAILED 3     /* then a leader that must be removed just steps down */
#define LIMIT_ELECTIONS 2      /* how long a handover may take, in election timeouts */
#define NO_ROOM_AGAIN_MS 30000 /* a leader without room tries again: the others may have none */
#define LAG_ENTRIES 1000       /* more: a voter lags too much to lead soon */
#define DRAINED_AGAIN_MS 2000  /* a drained leader tries again: no other could */
#define ZONE_AGAIN_MS 60000    /* a leader of another zone hands over at most this often */

void membership_init(struct membership *membership, const struct raft_context *on,
                     const struct clock_sync *clocks)
{
    struct handover *handover = &membership->handover;

    *membership = (struct membership){
        .on = on,
        .clocks = clocks,
        .zone = on->config->prefer_zone != NULL ? on->config->prefer_zone : "",
        .upgrade = {.on = on, .command.wakes = WAKE_UPGRADE, .look.wakes = WAKE_UPGRADE}};
    membership->command.wakes = WAKE_MEMBERS;
    handover->limit.wakes = WAKE_MEMBERS;
    handover->pause.wakes = WAKE_MEMBERS;
    handover->no_room_pause.wakes = WAKE_MEMBERS;
    handover->place_pause.wakes = WAKE_MEMBERS;
    membership->patience.wakes = WAKE_MEMBERS;
    membership->whole_patience.wakes = WAKE_MEMBERS;
    membership->look.wakes = WAKE_MEMBERS;
    membership->hold.wakes = WAKE_MEMBERS;
    membership->hold_pause.wakes = WAKE_MEMBERS;
    membership->next_turn.wakes = WAKE_MEMBERS;
}

/* --- leadership is handed over --- */

/* Begin, unless a handover is under way or has just failed. to: 0: the voter with the longest
 * log. */
static void handover_begin(struct membership *membership, uint64_t to)
{
    struct handover *handover = &membership->handover;
    const struct raft_context *on = membership->on;

    ASSERT(to != on->node_id);
    if (handover->active || timer_is_armed(&handover->pause)) {
        return;
    }
    handover->active = true;
    handover->to = to;
    context_arm_in(on, &handover->limit,
                   LIMIT_ELECTIONS * (uint64_t)on->driver->config.election_ms);
    timer_arm(on->timers, &membership->next_turn, context_now_ms(on));
}

static void handover_end(struct membership *membership)
{
    membership->handover.active = false;
    timer_cancel(membership->on->timers, &membership->handover.limit);
    timer_cancel(membership->on->timers, &membership->next_turn);
}

static bool is_ready(const struct membership *membership, uint64_t node_id)
{
    return (clock_sync_serves(membership->clocks, node_id) & WIRE_SERVES_READY) != 0;
}

/* Is it of the preferred zone? Without one, none is. */
static bool is_preferred(const struct membership *membership, uint64_t node_id)
{
    return membership->zone[0] != '\0' &&
           strcmp(state_placement(membership->on->state, node_id).zone, membership->zone) == 0;
}

uint64_t membership_successor(const struct membership *membership)
{
    const struct raft_context *on = membership->on;
    uint64_t best = 0;
    uint64_t best_match = 0;
    bool best_preferred = false;

    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        bool preferred = is_preferred(membership, member->id);
        uint64_t match = 0;
        /* Weight is for the work of clients, and does not matter here. */
        bool may_lead = member->id != on->node_id && member->role == ROLE_VOTER &&
                        !state_placement(on->state, member->id).drained &&
                        context_reaches(on, member->id) && is_ready(membership, member->id) &&
                        driver_match(on->driver, member->id, &match) &&
                        match + LAG_ENTRIES >= driver_last_index(on->driver);

        if (!may_lead || (best_preferred && !preferred)) {
            continue;
        }
        if (best == 0 || (preferred && !best_preferred) || match > best_match) {
            best = member->id;
            best_match = match;
            best_preferred = preferred;
        }
    }
    return best;
}

/* Begin if the disk is low; or if this node is drained or not in the preferred zone, and another
 * node may lead. */
static void handover_if_due(struct membership *membership)
{
    struct handover *handover = &membership->handover;
    const struct raft_context *on = membership->on;
    bool drained = state_placement(on->state, on->node_id).drained;
    uint64_t to;

    if (!driver_disk_is_low(on->driver)) {
        timer_cancel(on->timers, &handover->no_room_pause);
    } else if (driver_leads(on->driver) && !timer_is_armed(&handover->no_room_pause)) {
        context_arm_in(on, &handover->no_room_pause, NO_ROOM_AGAIN_MS);
        handover_begin(membership, membership_successor(membership));
    }
    if (!driver_leads(on->driver) || timer_is_armed(&handover->place_pause) ||
        (!drained && (is_preferred(membership, on->node_id) || membership->zone[0] == '\0'))) {
        return;
    }
    context_arm_in(on, &handover->place_pause, DRAINED_AGAIN_MS);
    to = membership_successor(membership);
    if (to != 0 && (drained || is_preferred(membership, to))) {
        if (!drained) {
            context_arm_in(on, &handover->place_pause, ZONE_AGAIN_MS);
        }
        log_info("raft", "leadership is handed over",
                 drained ? "to=%llu reason=\"this node is drained\""
                         : "to=%llu reason=\"it is of the preferred zone\"",
                 ull(to));
        handover_begin(membership, to);
    }
}

/* --- which nodes can be reached --- */

struct voter_count {
    unsigned voters;
    unsigned reached; /* of these, this node counted */
};

/* Would the voters that can be reached be a majority, with one more voter and without another (0:
 * none)? */
static bool keeps_quorum(const struct membership *membership, uint64_t with, uint64_t without,
                         struct voter_count *ret_count)
{
    struct voter_count count = {0};

    MEMBER_FOREACH (member, driver_configuration(membership->on->driver)) {
        if (member->id != with && member->id != without && member->role == ROLE_VOTER) {
            count.voters++;
            count.reached += context_reaches(membership->on, member->id);
        }
    }
    if (with != 0) { /* it must be reached before it becomes a voter */
        count.voters++;
        count.reached++;
    }
    ASSERT(count.reached <= count.voters);
    *ret_count = count;
    return count.reached >= count.voters / 2 + 1;
}

/* The change under way, NULL if there is none. */
static const struct member_change *current_change(const struct membership *membership)
{
    const struct member_change *change = state_member_change(membership->on->state);

    return change != NULL && !change->given_up ? change : NULL;
}

/* --- answers --- */

static struct member_answer answer_in_progress(const struct member_change *change)
{
    return say(MEMBER_IN_PROGRESS, "node %llu is being %s: one change at a time",
               ull(change->node_id), change->kind == MEMBER_ADD ? "added" : "removed");
}

static struct member_answer answer_no_quorum(const struct voter_count *count)
{
    return say(MEMBER_NO_QUORUM,
               "only %u of the %u voters of afterwards can be reached now, and %u are needed; "
               "force=1 does it nevertheless",
               count->reached, count->voters, count->voters / 2 + 1);
}

/* Was this same change given up, and is this not a new request for it? One that was proposed anew
 * may not be applied yet. */
static bool was_given_up(const struct membership *membership, const struct member_ask *ask,
                         uint8_t kind)
{
    const struct member_change *change = state_member_change(membership->on->state);

    return ask->again && !membership->command.in_flight && change != NULL && change->given_up &&
           change->kind == kind && change->node_id == ask->node_id;
}

/* Propose a command, unless one is on its way; under the stamp of the node that asked, if one did.
 */
static void membership_propose(struct membership *membership, enum cluster_command_type type,
                               const void *record, const struct session_stamp *stamp)
{
    struct buf payload = BUF_INIT;

    if (membership->command.in_flight) {
        return;
    }
    cluster_command_put(&payload, type, record);
    if (stamp != NULL) {
        session_stamp_put(&payload, stamp);
    }
    node_command_send(&membership->command, membership->on, &payload, stamp != NULL);
}

static struct member_answer membership_begin(struct membership *membership,
                                             const struct member_ask *ask, uint8_t kind)
{
    struct member_change change = {.kind = kind, .force = ask->force, .node_id = ask->node_id};

    ASSERT(current_change(membership) == NULL || kind == MEMBER_REMOVE);
    if (kind == MEMBER_ADD) {
        memcpy(change.address, ask->address, sizeof change.address);
    }
    membership_propose(membership, COMMAND_MEMBER_BEGIN, &change, &ask->stamp);
    return say(MEMBER_PENDING, "node %llu is being %s", ull(ask->node_id),
               kind == MEMBER_ADD ? "added" : "removed");
}

/* The member at this address; 0: none. */
static uint64_t member_at(const struct membership *membership, const char *address)
{
    MEMBER_FOREACH (member, driver_configuration(membership->on->driver)) {
        if (strcmp(context_address(membership->on, member), address) == 0) {
            return member->id;
        }
    }
    return 0;
}

static struct member_answer ask_add(struct membership *membership, const struct member_ask *ask)
{
    const struct member_change *change = current_change(membership);
    uint64_t other = member_at(membership, ask->address);
    const struct conf_member *member = driver_member(membership->on->driver, ask->node_id);
    struct voter_count count;

    if (member != NULL && strcmp(context_address(membership->on, member), ask->address) != 0) {
        return say(MEMBER_EXISTS, "node %llu is a member already, at %.100s", ull(ask->node_id),
                   context_address(membership->on, member));
    }
    if (other != 0 && other != ask->node_id) {
        return say(MEMBER_ADDRESS_IN_USE, "%.100s is the address of node %llu", ask->address,
                   ull(other));
    }
    if (change != NULL && change->node_id == ask->node_id && change->kind == MEMBER_ADD &&
        strcmp(change->address, ask->address) == 0) {
        return say(MEMBER_PENDING, "node %llu is being added", ull(ask->node_id));
    }
    if (change != NULL && change->node_id == ask->node_id && change->kind == MEMBER_ADD) {
        return say(MEMBER_EXISTS, "node %llu is being added already, at %.100s", ull(ask->node_id),
                   change->address);
    }
    if (member != NULL && member->role == ROLE_VOTER && change == NULL) {
        return say(MEMBER_DONE, "node %llu is a member", ull(ask->node_id));
    }
    if (was_given_up(membership, ask, MEMBER_ADD)) {
        return say(MEMBER_GIVEN_UP,
                   "node %llu did not catch up with the log in time; it stays a standby: is it "
                   "running, can it be reached at %.80s? Ask again, or remove it",
                   ull(ask->node_id), ask->address);
    }
    if (change != NULL) {
        return answer_in_progress(change);
    }
    if (member == NULL && driver_configuration(membership->on->driver)->count >= LIMIT_NODES) {
        return say(MEMBER_TOO_MANY, "the cluster has %d members already, the most there can be",
                   LIMIT_NODES);
    }
    if (!ask->force && !keeps_quorum(membership, ask->node_id, 0, &count)) {
        return answer_no_quorum(&count);
    }
    return membership_begin(membership, ask, MEMBER_ADD);
}

static struct member_answer ask_remove(struct membership *membership, const struct member_ask *ask)
{
    const struct member_change *change = current_change(membership);
    const struct conf_member *member = driver_member(membership->on->driver, ask->node_id);
    struct voter_count count;

    if (state_member_removed(membership->on->state, ask->node_id)) {
        return say(MEMBER_DONE, "node %llu is no longer a member", ull(ask->node_id));
    }
    if (change != NULL && change->node_id == ask->node_id && change->kind == MEMBER_REMOVE) {
        return say(MEMBER_PENDING, "node %llu is being removed", ull(ask->node_id));
    }
    if (change != NULL && change->node_id != ask->node_id) {
        return answer_in_progress(change);
    }
    if (member == NULL && change == NULL) {
        return say(MEMBER_UNKNOWN, "no member has the id %llu", ull(ask->node_id));
    }
    if (was_given_up(membership, ask, MEMBER_REMOVE)) {
        return say(MEMBER_GIVEN_UP,
                   "node %llu could not be removed in time: are too few of the other voters "
                   "reachable? See GET /api/cluster",
                   ull(ask->node_id));
    }
    if (member != NULL && member->role == ROLE_VOTER &&
        configuration_voters(driver_configuration(membership->on->driver)) == 1) {
        return say(MEMBER_LAST_VOTER, "node %llu is the last voter", ull(ask->node_id));
    }
    if (member != NULL && member->role == ROLE_VOTER && !ask->force &&
        !keeps_quorum(membership, 0, ask->node_id, &count)) {
        return answer_no_quorum(&count);
    }
    return membership_begin(membership, ask, MEMBER_REMOVE);
}

static struct member_answer ask_lead(struct membership *membership, const struct member_ask *ask)
{
    const struct member_change *change = current_change(membership);
    struct driver *driver = membership->on->driver;
    uint64_t last = driver_last_index(driver);
    const struct conf_member *member = driver_member(driver, ask->node_id);
    uint64_t match = 0;

    if (member->role != ROLE_VOTER) {
        return say(MEMBER_NOT_VOTER, "node %llu is a standby and cannot lead", ull(ask->node_id));
    }
    if (change != NULL && change->node_id == ask->node_id && change->kind == MEMBER_REMOVE) {
        return answer_in_progress(change);
    }
    if (ask->node_id == membership->on->node_id) {
        return say(MEMBER_DONE, "node %llu leads", ull(ask->node_id));
    }
    if (!context_reaches(membership->on, ask->node_id)) {
        return say(MEMBER_UNREACHABLE, "node %llu cannot be reached", ull(ask->node_id));
    }
    if (!driver_match(driver, ask->node_id, &match) || match + LAG_ENTRIES < last) {
        return say(MEMBER_NOT_CAUGHT_UP,
                   "node %llu has the log up to entry %llu only, and the last is %llu",
                   ull(ask->node_id), ull(match), ull(last));
    }
    if (state_placement(membership->on->state, ask->node_id).drained &&
        !state_placement(membership->on->state, membership->on->node_id).drained) {
        return say(MEMBER_IN_THE_WAY,
                   "node %llu is drained, and would hand leadership over at once: resume it first",
                   ull(ask->node_id));
    }
    handover_begin(membership, ask->node_id);
    return say(MEMBER_PENDING, "leadership is being handed to node %llu", ull(ask->node_id));
}

static struct member_answer ask_move(struct membership *membership, const struct member_ask *ask)
{
    const struct conf_member *member = driver_member(membership->on->driver, ask->node_id);
    uint64_t other = member_at(membership, ask->address);
    struct member_move move = {.node_id = ask->node_id};
    struct voter_count count;

    if (other == ask->node_id) {
        return say(MEMBER_DONE, "node %llu is reached at %.100s", ull(ask->node_id), ask->address);
    }
    if (other != 0) {
        return say(MEMBER_ADDRESS_IN_USE, "%.100s is the address of node %llu", ask->address,
                   ull(other));
    }
    /* A wrong address cuts the member off: the others must still have a majority. */
    (void)keeps_quorum(membership, 0, ask->node_id, &count);
    count.voters = configuration_voters(driver_configuration(membership->on->driver));
    if (!ask->force && count.voters > 1 && member->role == ROLE_VOTER &&
        count.reached < count.voters / 2 + 1) {
        return say(
            MEMBER_NO_QUORUM,
            "only %u of %u voters can be reached without node %llu, and %u are needed should "
            "the address be wrong; force=1 does it nevertheless",
            count.reached, count.voters, ull(ask->node_id), count.voters / 2 + 1);
    }
    memcpy(move.address, ask->address, sizeof move.address);
    membership_propose(membership, COMMAND_MEMBER_MOVE, &move, &ask->stamp);
    return say(MEMBER_PENDING, "node %llu is moving to %.100s", ull(ask->node_id), ask->address);
}

/* --- drained, resumed, another weight --- */

static struct member_answer ask_place(struct membership *membership, const struct member_ask *ask)
{
    const struct raft_context *on = membership->on;
    struct placement now = state_placement(on->state, ask->node_id);
    struct placement place = {
        .node_id = ask->node_id, .set = ask->place, .weight = ask->weight, .drained = ask->drained};
    bool weighs = ask->place == PLACE_WEIGHT;
    bool is_so = weighs ? now.weight == ask->weight : now.drained == ask->drained;
    bool gives_up = weighs ? ask->weight == 0 : ask->drained;
    bool takes_over = false; /* would another node take over the work? */
    BUF_LOCAL(left);         /* else: why none would */

    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        struct placement other = state_placement(on->state, member->id);
        const char *why = !context_reaches(on, member->id)    ? "cannot be reached"
                          : other.drained                     ? "is drained"
                          : other.weight == 0                 ? "has weight 0"
                          : !is_ready(membership, member->id) ? "is not ready"
                                                              : NULL;

        if (member->id != ask->node_id && why != NULL) {
            buf_printf(&left, "%snode %llu %s", left.len > 0 ? ", " : "", ull(member->id), why);
        }
        takes_over = takes_over || (member->id != ask->node_id && why == NULL);
    }
    if (left.len == 0) {
        buf_printf(&left, "there is no other node");
    }
    if (!is_so && gives_up && !ask->force && !takes_over) {
        return say(MEMBER_LAST_READY,
                   "without node %llu no node would take work: %.*s; force=1 does it nevertheless",
                   ull(ask->node_id), (int)left.len, (const char *)left.data);
    }
    if (!is_so) {
        membership_propose(membership, COMMAND_PLACEMENT, &place, &ask->stamp);
    }
    if (weighs) {
        return say(is_so ? MEMBER_DONE : MEMBER_PENDING, "node %llu has weight %u",
                   ull(ask->node_id), ask->weight);
    }
    return say(is_so ? MEMBER_DONE : MEMBER_PENDING,
               ask->drained ? "node %llu is drained" : "node %llu takes work", ull(ask->node_id));
}

int membership_answer(struct membership *membership, const void *data, size_t len,
                      struct buf *reply)
{
    const struct raft_context *on = membership->on;
    struct member_answer answer;
    struct member_ask ask;
    int rv = member_ask_decode(data, len, &ask);

    if (rv != 0) {
        return rv;
    }
    if (ask.stamp.node_id == 0) {
        return ERR_BAD_MESSAGE;
    }
    if (state_session_is_over(on->state, &ask.stamp)) {
        return ERR_STALE; /* a late copy: the asker has another answer, or has given up */
    }
    if (ask.kind == MEMBER_ASK_LEVEL || ask.kind == MEMBER_ASK_LEVEL_SEE) {
        answer = ask_level(&membership->upgrade, &ask);
    } else if (ask.kind == MEMBER_ASK_REMOVE) {
        answer = ask_remove(membership, &ask);
    } else if (ask.kind != MEMBER_ASK_LEAD && state_member_removed(on->state, ask.node_id)) {
        answer = say(MEMBER_WAS_REMOVED,
                     "node %llu was removed from the cluster, and its id cannot be used again: "
                     "give the node an empty data directory and a new id",
                     ull(ask.node_id));
    } else if (ask.kind == MEMBER_ASK_ADD) {
        answer = ask_add(membership, &ask);
    } else if (driver_member(on->driver, ask.node_id) == NULL) {
        answer = say(MEMBER_UNKNOWN, "no member has the id %llu", ull(ask.node_id));
    } else if (ask.kind == MEMBER_ASK_LEAD) {
        answer = ask_lead(membership, &ask);
    } else if (ask.kind == MEMBER_ASK_MOVE) {
        answer = ask_move(membership, &ask);
    } else {
        ASSERT(ask.kind == MEMBER_ASK_PLACE);
        answer = ask_place(membership, &ask);
    }
    if (answer.outcome == MEMBER_PENDING && ask.kind != MEMBER_ASK_LEAD &&
        (membership->command.in_flight || membership->upgrade.command.in_flight) &&
        driver_disk_is_low(on->driver)) {
        return ERR_DISK_FULL; /* what was proposed just now is refused for that */
    }
    member_answer_encode(&answer, reply);
    return 0;
}

/* --- steps; a step that is not possible now is tried again at the next look --- */

static void membership_step(struct driver *driver, uint64_t node_id, const char *address,
                            enum conf_role role)
{
    int rv = driver_change(driver, node_id, address, role);

    (void)rv;
}

static void end_change(struct membership *membership, const struct member_change *change,
                       bool given_up)
{
    const struct member_change end = {.index = change->index, .given_up = given_up};

    membership_propose(membership, COMMAND_MEMBER_END, &end, NULL);
}

static void drive_add(struct membership *membership, const struct member_change *change)
{
    struct driver *driver = membership->on->driver;
    const struct conf_member *member = driver_member(driver, change->node_id);
    enum driver_catch_up status;
    struct voter_count count;

    ASSERT(change->kind == MEMBER_ADD && change->node_id != 0);
    if (member == NULL) {
        membership_step(driver, change->node_id, change->address, ROLE_STANDBY);
        return;
    }
    if (member->role == ROLE_VOTER) { /* it was one already when the change began */
        end_change(membership, change, false);
        return;
    }
    /* The core remembers the result of the last catch-up, perhaps of an earlier change that was
     * given up: only one that was begun for this change counts. */
    if (membership->caught_up != change->node_id) {
        ASSERT(change->node_id != membership->on->node_id);
        status = driver_caught_up(driver, change->node_id);
        if (membership->catching_up && status == DRIVER_CATCH_UP_FINISHED) {
            membership->caught_up = change->node_id;
        } else if (status != DRIVER_CATCH_UP_RUNNING) {
            membership->catching_up = context_reaches(membership->on, change->node_id) &&
                                      driver_catch_up(driver, change->node_id);
        }
    }
    /* Once its data directory is known to the cluster, another one with its id, which might vote a
     * second time, is refused. */
    if (membership->caught_up == change->node_id &&
        state_node(membership->on->state, change->node_id) != NULL &&
        context_reaches(membership->on, change->node_id) &&
        (change->force || keeps_quorum(membership, change->node_id, 0, &count))) {
        membership_step(driver, change->node_id, NULL, ROLE_VOTER);
    }
}

static void drive_remove(struct membership *membership, const struct member_change *change)
{
    const struct raft_context *on = membership->on;
    struct driver *driver = on->driver;
    uint64_t election_ms = driver->config.election_ms;
    const struct conf_member *member = driver_member(driver, change->node_id);
    struct voter_count count;

    ASSERT(change->kind == MEMBER_REMOVE && change->node_id != 0);
    if (member == NULL) {
        end_change(membership, change, false);
        return;
    }
    if (member->role != ROLE_VOTER) {
        membership_step(driver, change->node_id, NULL, ROLE_GONE);
        return;
    }
    if (!change->force && !keeps_quorum(membership, 0, change->node_id, &count)) {
        return;
    }
    if (change->node_id == on->node_id && membership->handover.failed < HANDOVERS_FAILED) {
        handover_begin(membership, 0);
        return;
    }
    /* Take its vote away. (The leader itself steps down once this is applied, and the next leader
     * continues.) All of the log must be committed first: the node's vote protects forever what it
     * acknowledged as a voter, and it no longer campaigns with it (G12). So requests wait for a
     * moment. If the log is not committed within an election timeout, requests continue, and this
     * is tried again later. */
    ASSERT(driver_leads(driver));
    if (driver_all_committed(driver)) {
        membership_step(driver, change->node_id, NULL, ROLE_STANDBY);
        timer_cancel(on->timers, &membership->hold);
        timer_cancel(on->timers, &membership->hold_pause);
        return;
    }
    if (!timer_is_armed(&membership->hold_pause)) {
        context_arm_in(on, &membership->hold, election_ms);
        context_arm_in(on, &membership->hold_pause, 2 * election_ms);
    }
    if (timer_is_armed(&membership->hold)) {
        timer_cancel(on->timers, &membership->look);
    }
}

/* Note what has changed since the last look, and do the next step. */
static void drive(struct membership *membership, const struct member_change *change)
{
    const struct raft_context *on = membership->on;
    uint64_t term = driver_term(on->driver);
    uint64_t conf = driver_applied(on->driver)->conf_index;
    const struct snapshot_out *out = snapshot_to(&on->driver->transfers, change->node_id);
    uint64_t progress = 0; /* its part of the log, or of the snapshot sent to it */
    bool moved = membership->seen_conf != conf;

    ASSERT(change->index != 0 && !change->given_up);
    (void)driver_match(on->driver, change->node_id, &progress);
    progress += out != NULL ? out->acked : 0;
    if (membership->change_index != change->index || membership->change_term != term) {
        membership->change_index = change->index;
        membership->change_term = term;
        membership->catching_up = false;
        membership->caught_up = 0;
        context_arm_in(on, &membership->whole_patience,
                       PATIENCES * (uint64_t)on->config->catch_up_ms);
        moved = true;
    }
    /* New entries count only while the node lags, since they never end. */
    if (moved || (change->kind == MEMBER_ADD && membership->caught_up == 0 &&
                  progress != membership->seen_progress)) {
        context_arm_in(on, &membership->patience, on->config->catch_up_ms);
    }
    membership->seen_conf = conf;
    membership->seen_progress = progress;
    if (timer_is_armed(&membership->look) && !moved) {
        return;
    }
    context_arm_in(on, &membership->look, LOOK_MS);
    if (driver_pending_change(on->driver) != 0) {
        return;
    }
    if (!timer_is_armed(&membership->patience) || !timer_is_armed(&membership->whole_patience)) {
        end_change(membership, change, true);
    } else if (change->kind == MEMBER_ADD) {
        drive_add(membership, change);
    } else {
        drive_remove(membership, change);
    }
}

static void forget_change(struct membership *membership)
{
    struct timers *timers = membership->on->timers;

    membership->change_index = 0;
    timer_cancel(timers, &membership->look);
    timer_cancel(timers, &membership->patience);
    timer_cancel(timers, &membership->whole_patience);
}

bool membership_turn(struct membership *membership)
{
    struct handover *handover = &membership->handover;
    const struct raft_context *on = membership->on;
    const struct member_change *change = state_member_change(on->state);

    handover_if_due(membership);
    if (!driver_is_leader(on->driver) || on->driver->failed) {
        handover_end(membership);
        timer_cancel(on->timers, &handover->pause);
        handover->failed = 0;
        forget_change(membership);
        timer_cancel(on->timers, &membership->hold);
        timer_cancel(on->timers, &membership->hold_pause);
        return false;
    }
    if (driver_leads(on->driver)) {
        if (change != NULL && !change->given_up) {
            drive(membership, change);
        } else {
            forget_change(membership);
        }
    }
    /* One step of a handover, on a leader that serves. While the core tries, it serves nobody:
     * after the limit its last try ends, and no other begins. */
    if (driver_leads(on->driver) && handover->active &&
        (timer_is_armed(&handover->limit) ? driver_transfer(on->driver, handover->to)
                                          : !driver_is_transferring(on->driver))) {
        handover_end(membership);
        context_arm_in(on, &handover->pause, on->driver->config.election_ms);
        handover->failed++;
    }
    ASSERT_IMPLIES(membership->change_index == 0, !timer_is_armed(&membership->look));
    if (!handover->active &&
        (membership->change_index == 0 || !timer_is_armed(&membership->hold))) {
        return false;
    }
    context_arm_in(on, &membership->next_turn, 1);
    return true;
}
