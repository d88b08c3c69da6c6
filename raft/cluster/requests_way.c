/*
 * requests_way.c - the way of this node's requests to the leader: directly, or through a member
 * that reaches it where the link between the two is cut, one way or both.
 *
 *            answers come            nobody answered
 *            .------.              .---------------.
 *            v      | too long     v               |
 *          DIRECT --+---------> SOUGHT ------------+-----> RELAYED
 *            ^    without one     | |   a member's yes    |    |
 *            |                    | '---------------------'    |
 *            '--------------------'        no answer, or no    |
 *            '-------------------------------------------------'
 *              the leader answers, or a new one is heard
 *
 * The happy path: requests go to the leader that the core knows, and nothing of this file is looked
 * at but the age of the oldest. If it has no answer after two heartbeats, and nothing else was
 * answered since, the leader is asked whether it is there (FRAME_PROBE). A heartbeat later, or if
 * there is no link or no leader, all members are asked to ask the leader, and requests wait. The
 * first yes decides.
 *
 * Failure modes: no way is found: requests wait until their deadline, as they do without a leader.
 * Nothing rests on a probe but where frames are sent: a yes of a leader that is none any more is
 * found out by the answers to the requests, or by their absence.
 *
 * Thread: the raft loop.
 */
#include <string.h>

#include "raft/cluster/requests_internal.h"
#include "src/base/assert.h"

#define PATIENCE_HEARTBEATS 2 /* without an answer, before a way is doubted or given up */
#define IDLE_HEARTBEATS 5     /* between probes when nothing waits for them */
#define PAUSE_MS 10           /* between two searches at least */

static uint64_t heartbeats_ms(const struct requests *requests, unsigned count)
{
    return count * (uint64_t)requests->driver->config.heartbeat_ms;
}

/* This node finds its leader in itself, or looks for none any more. */
static bool needs_none(const struct requests *requests)
{
    return requests->stopping || requests->way.leader == requests->driver->config.node_id;
}

/* --- probes --- */

static int send_probe(struct requests *requests, uint64_t to, uint8_t kind, uint64_t origin,
                      uint64_t round)
{
    struct wire_probe probe = {kind, origin, round};
    struct buf payload = BUF_INIT;
    int rv;

    wire_probe_encode(&probe, &payload);
    rv = requests->net->ops->send(requests->net, to, FRAME_PROBE, &payload);
    buf_free(&payload);
    return rv;
}

/* Is the leader there; or is the way through this member? */
static void ask(struct requests *requests, uint64_t peer)
{
    struct way *way = &requests->way;

    (void)send_probe(requests, peer, peer == way->leader ? WIRE_PROBE_ASK : WIRE_PROBE_ASK_ON, 0,
                     ++way->round);
}

static void ask_everybody(struct requests *requests)
{
    for (size_t i = 0; i < requests->way.peer_count; i++) {
        ask(requests, requests->way.peers[i]);
    }
}

void requests_set_peers(struct requests *requests, const uint64_t *peers, size_t count)
{
    ASSERT(count <= LIMIT_PEERS);
    memcpy(requests->way.peers, peers, count * sizeof *peers);
    requests->way.peer_count = count;
}

/* --- changes of the way --- */

static void go_direct(struct requests *requests)
{
    struct way *way = &requests->way;

    way->state = WAY_DIRECT;
    way->relay = 0;
    way->word_ms = clock_now_ms(requests->clock);
    way->asked_ms = 0;
}

static void go_through(struct requests *requests, uint64_t relay)
{
    struct way *way = &requests->way;

    ASSERT(way->state == WAY_SOUGHT && relay != way->leader);
    way->state = WAY_RELAYED;
    way->relay = relay;
    way->word_ms = clock_now_ms(requests->clock);
    way->asked_ms = 0;
    way->direct_ms = way->word_ms;
    requests_recall(requests);
}

static void seek(struct requests *requests)
{
    struct way *way = &requests->way;

    way->state = WAY_SOUGHT;
    way->relay = 0;
    way->asked_ms = 0;
    way->first_round = way->round + 1;
    way->sought_ms = clock_now_ms(requests->clock);
    requests_recall(requests);
}

/* --- turns --- */

/* The oldest request that went this way waits for too long, and nothing else was answered. */
static bool is_overdue(const struct requests *requests, uint64_t peer, uint64_t now)
{
    const struct id_request *oldest = TAILQ_FIRST(&requests->sent);
    uint64_t patience_ms = heartbeats_ms(requests, PATIENCE_HEARTBEATS);

    return oldest != NULL && oldest->sent_to == peer && now - oldest->sent_ms >= patience_ms &&
           now - requests->way.word_ms >= patience_ms;
}

static void turn_direct(struct requests *requests, uint64_t now)
{
    struct way *way = &requests->way;

    if (way->leader == 0) {
        seek(requests);
    } else if (is_overdue(requests, way->leader, now)) {
        if (way->asked_ms == 0) {
            way->asked_ms = now;
            ask(requests, way->leader);
        } else if (now - way->asked_ms >= heartbeats_ms(requests, 1)) {
            seek(requests);
        }
    } else if (!TAILQ_EMPTY(&requests->waiting) &&
               !requests->net->ops->connected(requests->net, way->leader)) {
        seek(requests);
    } else {
        way->asked_ms = 0;
    }
}

/* When everybody is asked next: soon, if something waits for it. */
static uint64_t search_due_ms(const struct requests *requests)
{
    const struct way *way = &requests->way;
    bool wanted = !TAILQ_EMPTY(&requests->waiting) || !TAILQ_EMPTY(&requests->sent);
    uint64_t next_ms = way->searched_ms + heartbeats_ms(requests, wanted ? 1 : IDLE_HEARTBEATS);

    if (way->searched_ms < way->sought_ms) { /* the first time of this search */
        next_ms = way->searched_ms + PAUSE_MS;
    }
    return next_ms > way->sought_ms ? next_ms : way->sought_ms;
}

static uint64_t relay_due_ms(const struct requests *requests, uint64_t now)
{
    const struct way *way = &requests->way;

    return way->word_ms + heartbeats_ms(requests, is_overdue(requests, way->relay, now)
                                                      ? PATIENCE_HEARTBEATS
                                                      : IDLE_HEARTBEATS);
}

static void turn_relayed(struct requests *requests, uint64_t now)
{
    struct way *way = &requests->way;

    if (!requests->net->ops->connected(requests->net, way->relay) ||
        (way->asked_ms != 0 &&
         now - way->asked_ms >= heartbeats_ms(requests, PATIENCE_HEARTBEATS))) {
        seek(requests);
        return;
    }
    if (way->asked_ms == 0 && now >= relay_due_ms(requests, now)) {
        way->asked_ms = now;
        ask(requests, way->relay);
    }
    if (way->leader != 0 && now - way->direct_ms >= heartbeats_ms(requests, IDLE_HEARTBEATS)) {
        way->direct_ms = now;
        ask(requests, way->leader);
    }
}

void requests_way_turn(struct requests *requests)
{
    struct way *way = &requests->way;
    uint64_t now = clock_now_ms(requests->clock);

    if (needs_none(requests)) {
        return;
    }
    if (way->state == WAY_DIRECT) {
        turn_direct(requests, now);
    }
    if (way->state == WAY_RELAYED) {
        turn_relayed(requests, now);
    }
    if (way->state == WAY_SOUGHT && now >= search_due_ms(requests)) {
        way->searched_ms = now;
        ask_everybody(requests);
    }
}

uint64_t requests_way_next_ms(const struct requests *requests)
{
    const struct way *way = &requests->way;
    uint64_t patience_ms = heartbeats_ms(requests, PATIENCE_HEARTBEATS);
    uint64_t relay_ms;
    uint64_t direct_ms;

    if (needs_none(requests) || way->state == WAY_DIRECT) {
        return UINT64_MAX; /* DIRECT: whatever waits is looked at with the deadlines */
    }
    if (way->state == WAY_SOUGHT) {
        return search_due_ms(requests);
    }
    relay_ms = way->asked_ms != 0 ? way->asked_ms + patience_ms
                                  : way->word_ms + heartbeats_ms(requests, IDLE_HEARTBEATS);
    direct_ms =
        way->leader != 0 ? way->direct_ms + heartbeats_ms(requests, IDLE_HEARTBEATS) : UINT64_MAX;
    return relay_ms < direct_ms ? relay_ms : direct_ms;
}

uint64_t requests_way_target(const struct requests *requests)
{
    const struct way *way = &requests->way;

    return way->state == WAY_DIRECT ? way->leader : way->relay;
}

bool requests_leader_known(const struct requests *requests)
{
    return requests->way.leader != 0 || requests->way.state == WAY_RELAYED;
}

/* --- what is heard --- */

void requests_way_role_changed(struct requests *requests)
{
    struct way *way = &requests->way;
    uint64_t leader = driver_leader(requests->driver);

    if (leader == way->leader) {
        return;
    }
    way->leader = leader;
    if (leader != 0) {
        go_direct(requests);
    } else if (way->state == WAY_DIRECT) {
        seek(requests);
    }
}

void requests_way_word(struct requests *requests, uint64_t from, int status)
{
    struct way *way = &requests->way;

    if (from != requests_way_target(requests)) {
        return;
    }
    if (status == ERR_NOT_LEADER && way->state == WAY_RELAYED) {
        seek(requests);
        return;
    }
    way->word_ms = clock_now_ms(requests->clock);
    way->asked_ms = 0;
}

/* An answer to a probe of this node. */
static void answered(struct requests *requests, uint64_t from, uint64_t round, bool yes)
{
    struct way *way = &requests->way;

    if (needs_none(requests) || round < way->first_round || round > way->round) {
        return;
    }
    if (from == way->leader) { /* also a no: it is a word all the same */
        go_direct(requests);
    } else if (way->state == WAY_SOUGHT && yes) {
        go_through(requests, from);
    } else if (way->state == WAY_RELAYED && from == way->relay) {
        requests_way_word(requests, from, yes ? 0 : ERR_NOT_LEADER);
    }
}

/* Do you know who leads? Ask it for me. */
static void ask_on(struct requests *requests, uint64_t origin, uint64_t round)
{
    uint64_t leader = requests->way.leader;

    if (leader == 0 || leader == origin ||
        send_probe(requests, leader, WIRE_PROBE_ASK, origin, round) != 0) {
        (void)send_probe(requests, origin, WIRE_PROBE_NO, 0, round);
    }
}

bool requests_receive_probe(struct requests *requests, uint64_t from, const uint8_t *payload,
                            size_t len)
{
    bool leads = driver_is_leader(requests->driver) && !requests->stopping;
    struct wire_probe probe;

    if (wire_probe_decode(payload, len, &probe) != 0) {
        return false;
    }
    if (probe.kind == WIRE_PROBE_ASK_ON && !leads) {
        ask_on(requests, from, probe.round);
    } else if (probe.kind == WIRE_PROBE_ASK || probe.kind == WIRE_PROBE_ASK_ON) {
        (void)send_probe(requests, from, leads ? WIRE_PROBE_YES : WIRE_PROBE_NO, probe.origin,
                         probe.round);
    } else if (probe.origin != 0 && from == requests->way.leader) {
        (void)send_probe(requests, probe.origin, probe.kind, 0, probe.round);
    } else if (probe.origin == 0) {
        answered(requests, from, probe.round, probe.kind == WIRE_PROBE_YES);
    }
    return true;
}
