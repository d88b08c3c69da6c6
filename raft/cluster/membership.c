/*
 * membership.c - the steps of a change and the hand-over of leadership (membership.h). The answers
 * are in membership_ask.c.
 *
 * Thread: the raft loop.
 */
#include "raft/cluster/membership.h"

#include <string.h>

#include "raft/cluster/membership_internal.h"
#include "src/base/assert.h"

#define LOOK_MS 20           /* between two looks at a catch-up or a hand-over */
#define COMMAND_MS 5000      /* patience of an own command */
#define PATIENCES 10         /* of the change as a whole, however it goes on */
#define TRANSFERS_FAILED 3   /* then a leader that is to be removed just steps down */
#define TRANSFER_ELECTIONS 2 /* how long a hand-over may take, in election timeouts */
#define GIVE_WAY_MS 30000    /* a leader without room tries again: the others may have none, too */

void membership_init(struct membership *membership, struct driver *driver, struct net *net,
                     const struct clock *clock, struct fsm *fsm, struct id_proposer *proposer,
                     uint32_t patience_ms)
{
    memset(membership, 0, sizeof *membership);
    membership->driver = driver;
    membership->net = net;
    membership->clock = clock;
    membership->fsm = fsm;
    membership->proposer = proposer;
    membership->patience_ms = patience_ms;
}

/* --- commands of its own --- */

static void command_done(struct id_request *request)
{
    struct membership *membership = request->data;

    membership->in_flight = false;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

/* Propose the command in `payload`, which is taken over. stamped: by who asked for it. */
static void propose(struct membership *membership, struct buf *payload, bool stamped)
{
    struct id_request *request = &membership->request;

    ASSERT(!membership->in_flight);
    memset(request, 0, sizeof *request);
    buf_move(&request->payload, payload);
    request->kind = ID_REQUEST_COMMAND;
    request->stamped = stamped;
    request->deadline_ms = clock_now_ms(membership->clock) + COMMAND_MS;
    request->done = command_done;
    request->data = membership;
    membership->in_flight = true;
    membership->proposer->propose(membership->proposer, request);
}

void membership_begin(struct membership *membership, const struct member_change *change,
                      const struct session_stamp *stamp)
{
    struct buf payload = BUF_INIT;

    if (!membership->in_flight) {
        command_member_begin_encode(&payload, change);
        session_stamp_put(&payload, stamp);
        propose(membership, &payload, true);
    }
}

static void end_change(struct membership *membership, const struct member_change *change,
                       bool given_up)
{
    struct buf payload = BUF_INIT;

    if (!membership->in_flight) {
        command_member_end_encode(&payload, change->index, given_up);
        propose(membership, &payload, false);
    }
}

/* --- who can be reached --- */

bool membership_reaches(const struct membership *membership, uint64_t node_id)
{
    return node_id == membership->driver->config.node_id ||
           membership->net->ops->connected(membership->net, node_id);
}

bool membership_keeps_quorum(const struct membership *membership, uint64_t with, uint64_t without,
                             struct voter_count *ret_count)
{
    const struct configuration *configuration = driver_configuration(membership->driver);
    struct voter_count count = {0};

    for (unsigned i = 0; i < configuration->count; i++) {
        const struct conf_member *server = &configuration->members[i];

        if (server->id != with && server->id != without && server->role == ROLE_VOTER) {
            count.voters++;
            count.reached += membership_reaches(membership, server->id);
        }
    }
    if (with != 0) { /* it has to be reached before it becomes a voter */
        count.voters++;
        count.reached++;
    }
    *ret_count = count;
    return count.reached >= count.voters / 2 + 1;
}

/* --- steps --- */

/* What cannot be done now is tried again at the next look. */
static bool step(struct membership *membership, uint64_t node_id, const char *address,
                 enum conf_role role)
{
    return driver_change(membership->driver, node_id, address, role) == 0;
}

/* The node's data directory is known to the cluster: from then on another one with its id, which
 * might vote a second time, is refused. */
static bool is_registered(const struct membership *membership, uint64_t node_id)
{
    struct node_info info;

    return fsm_node(membership->fsm, node_id, &info);
}

/* The core remembers how the last catch-up ended, perhaps of an earlier change that was given up:
 * what counts is one that was begun for this change. */
static void watch_catch_up(struct membership *membership, uint64_t node_id)
{
    enum driver_catch_up status = driver_caught_up(membership->driver, node_id);

    if (status == DRIVER_CATCH_UP_RUNNING) {
        return;
    }
    if (status == DRIVER_CATCH_UP_FINISHED && membership->catching_up) {
        membership->caught_up = node_id;
        return;
    }
    membership->catching_up =
        membership_reaches(membership, node_id) && driver_catch_up(membership->driver, node_id);
}

static void drive_add(struct membership *membership, const struct member_change *change)
{
    const struct conf_member *server = driver_member(membership->driver, change->node_id);
    struct voter_count count;

    if (server == NULL) {
        (void)step(membership, change->node_id, change->address, ROLE_STANDBY);
        return;
    }
    if (server->role == ROLE_VOTER) { /* it was one already when the change began */
        end_change(membership, change, false);
        return;
    }
    if (membership->caught_up != change->node_id) {
        watch_catch_up(membership, change->node_id);
    }
    if (membership->caught_up == change->node_id && is_registered(membership, change->node_id) &&
        membership_reaches(membership, change->node_id) &&
        (change->force || membership_keeps_quorum(membership, change->node_id, 0, &count))) {
        (void)step(membership, change->node_id, NULL, ROLE_VOTER);
    }
}

/*
 * Take a voter's vote away. All that is in the log has to be committed first: what the node has
 * acknowledged as a voter its vote protects for good, and it will not campaign with it any more
 * (G12). So requests wait for the moment that takes; a log that is not committed for longer than an
 * election goes on, and it is tried again later.
 */
static void demote(struct membership *membership, uint64_t node_id)
{
    uint64_t now = clock_now_ms(membership->clock);
    uint64_t election_ms = membership->driver->config.election_ms;

    if (driver_all_committed(membership->driver)) {
        (void)step(membership, node_id, NULL, ROLE_STANDBY);
        membership->hold_until_ms = 0;
        membership->hold_again_ms = 0;
        return;
    }
    if (now >= membership->hold_again_ms) {
        membership->hold_until_ms = now + election_ms;
        membership->hold_again_ms = now + 2 * election_ms;
    }
    if (now < membership->hold_until_ms) {
        membership->look_ms = now;
    }
}

static void drive_remove(struct membership *membership, const struct member_change *change)
{
    const struct conf_member *server = driver_member(membership->driver, change->node_id);
    bool own = change->node_id == membership->driver->config.node_id;
    struct voter_count count;

    if (server == NULL) {
        end_change(membership, change, false);
        return;
    }
    if (server->role != ROLE_VOTER) {
        (void)step(membership, change->node_id, NULL, ROLE_GONE);
        return;
    }
    if (!change->force && !membership_keeps_quorum(membership, 0, change->node_id, &count)) {
        return;
    }
    if (own && membership->transfers_failed < TRANSFERS_FAILED) {
        membership_transfer(membership, 0);
        return;
    }
    /* Of the leader itself: it steps down once this is applied, and the next one goes on. */
    demote(membership, change->node_id);
}

/* What the node has of the log, or of the snapshot that is being sent to it. */
static uint64_t progress_of(struct membership *membership, uint64_t node_id)
{
    const struct snapshot_transfers *transfers = &membership->driver->transfers;
    uint64_t match = 0;

    (void)driver_match(membership->driver, node_id, &match);
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        if (transfers->out[i].active && transfers->out[i].peer == node_id) {
            return match + transfers->out[i].acked;
        }
    }
    return match;
}

/* Note what has changed since the last look; a step forward gives the change its whole patience
 * again. Entries that arrive count only while the node is behind: they never end. */
static void note_progress(struct membership *membership, const struct member_change *change)
{
    uint64_t now = clock_now_ms(membership->clock);
    uint64_t term = driver_term(membership->driver);
    uint64_t conf = driver_applied(membership->driver)->conf_index;
    uint64_t progress = progress_of(membership, change->node_id);

    if (membership->change_index != change->index || membership->change_term != term) {
        membership->change_index = change->index;
        membership->change_term = term;
        membership->catching_up = false;
        membership->caught_up = 0;
        membership->begun_ms = now;
        membership->forward_ms = now;
        membership->look_ms = now;
    }
    if (membership->seen_conf != conf) {
        membership->forward_ms = now;
        membership->look_ms = now;
    }
    if (change->kind == MEMBER_ADD && membership->caught_up == 0 &&
        progress != membership->seen_progress) {
        membership->forward_ms = now;
    }
    membership->seen_conf = conf;
    membership->seen_progress = progress;
}

static bool patience_is_over(const struct membership *membership)
{
    uint64_t now = clock_now_ms(membership->clock);

    return now - membership->forward_ms >= membership->patience_ms ||
           now - membership->begun_ms >= PATIENCES * (uint64_t)membership->patience_ms;
}

static void drive(struct membership *membership, const struct member_change *change)
{
    uint64_t now = clock_now_ms(membership->clock);

    note_progress(membership, change);
    if (now < membership->look_ms) {
        return;
    }
    membership->look_ms = now + LOOK_MS;
    if (driver_pending_change(membership->driver) != 0) {
        return;
    }
    if (patience_is_over(membership)) {
        end_change(membership, change, true);
    } else if (change->kind == MEMBER_ADD) {
        drive_add(membership, change);
    } else {
        drive_remove(membership, change);
    }
}

/* --- hand-over --- */

void membership_transfer(struct membership *membership, uint64_t to)
{
    uint64_t now = clock_now_ms(membership->clock);

    if (membership->transferring || now < membership->transfer_again_ms) {
        return;
    }
    membership->transferring = true;
    membership->transfer_to = to;
    membership->transfer_until_ms =
        now + TRANSFER_ELECTIONS * (uint64_t)membership->driver->config.election_ms;
}

static void transfer_turn(struct membership *membership)
{
    uint64_t now = clock_now_ms(membership->clock);
    bool over;

    if (!membership->transferring) {
        return;
    }
    over = driver_transfer(membership->driver, membership->transfer_to);
    if (over || now >= membership->transfer_until_ms) {
        membership->transferring = false;
        membership->transfer_again_ms = now + membership->driver->config.election_ms;
        membership->transfers_failed++;
    }
}

/* A leader whose disk is low refuses the changes of all nodes: let one lead that may have room. If
 * no node has any, each does so once in a while, and leadership does not go round. */
static void give_way_if_low(struct membership *membership)
{
    uint64_t now = clock_now_ms(membership->clock);

    if (!driver_disk_is_low(membership->driver)) {
        membership->give_way_again_ms = 0;
    } else if (driver_leads(membership->driver) && now >= membership->give_way_again_ms) {
        membership->give_way_again_ms = now + GIVE_WAY_MS;
        membership_transfer(membership, 0);
    }
}

static bool is_holding(const struct membership *membership)
{
    return membership->change_index != 0 &&
           clock_now_ms(membership->clock) < membership->hold_until_ms;
}

void membership_turn(struct membership *membership, bool *ret_holding)
{
    const struct member_change *change = fsm_member_change(membership->fsm);

    give_way_if_low(membership);
    if (!driver_is_leader(membership->driver) || membership->driver->failed) {
        membership->transferring = false;
        membership->transfer_again_ms = 0;
        membership->transfers_failed = 0;
        membership->change_index = 0;
        membership->hold_until_ms = 0;
        membership->hold_again_ms = 0;
        *ret_holding = false;
        return;
    }
    if (driver_leads(membership->driver)) {
        if (change != NULL && !change->given_up) {
            drive(membership, change);
        } else {
            membership->change_index = 0;
        }
        transfer_turn(membership);
    }
    *ret_holding = membership->transferring || is_holding(membership);
}

uint64_t membership_next_ms(const struct membership *membership)
{
    uint64_t soon = clock_now_ms(membership->clock) + 1;

    if (membership->transferring || is_holding(membership)) {
        return soon;
    }
    if (membership->change_index == 0) {
        return UINT64_MAX;
    }
    return membership->look_ms > soon ? membership->look_ms : soon;
}
