/*
 * driver_leader.c - what a follower thinks of its leader: when it was heard, whether it is gone.
 *
 * The happy path: each message of the leader says that it is there (driver_leader_heard()). A
 * leader whose process ended has its address refuse connections, which the links find out at once
 * (driver_peer_refused()): if it is not heard for two heartbeats either, the followers forget it
 * and stand for election one after the other, long before their election timeouts. A leader that
 * hears no majority for an election timeout steps down, and says so (driver_resign()): then they
 * need not wait at all.
 *
 * Failure modes: no sign is proof, and nothing depends on it: a follower that is wrong asks for
 * pre-votes, which those who hear the leader refuse, and follows again with the next heartbeat. A
 * leader whose machine is lost refuses nothing, and says nothing; then the election timeout
 * decides, as ever.
 *
 * Thread: the raft loop.
 */
#include "raft/core/driver_internal.h"
#include "raft/core/guard.h"
#include "raft/wire/wire.h"

#define MISSED_HEARTBEATS 2 /* of a leader whose address refuses connections */

/* The core draws its timeout once, and each message of the leader begins it anew. */
static void restore_timeout(struct driver *driver)
{
    if (driver->drawn_timeout_ms != 0 && raft_state(&driver->raft) == RAFT_FOLLOWER) {
        driver->raft.follower_state.randomized_election_timeout = driver->drawn_timeout_ms;
    }
    driver->drawn_timeout_ms = 0;
}

void driver_leader_heard(struct driver *driver)
{
    driver->leader_heard_ms = clock_now_ms(driver->clock);
    driver->leader_doubt = LEADER_TRUSTED;
    restore_timeout(driver);
}

static uint64_t patience_ms(const struct driver *driver)
{
    uint64_t missed_ms = MISSED_HEARTBEATS * (uint64_t)driver->config.heartbeat_ms;

    switch (driver->leader_doubt) {
    case LEADER_RESIGNED:
        return 0;
    case LEADER_REFUSED:
        return missed_ms < driver->config.election_ms ? missed_ms : driver->config.election_ms;
    default:
        return driver->config.election_ms;
    }
}

bool driver_leader_is_silent(const struct driver *driver)
{
    return guard_forget_leader(clock_now_ms(driver->clock), driver->leader_heard_ms,
                               (unsigned)patience_ms(driver));
}

/* How many voters come before this node when they stand in a ring that begins after the leader: two
 * that stand for election at once would take each other's votes. */
static unsigned turn_of(const struct driver *driver, uint64_t leader)
{
    const struct raft_configuration *configuration = &driver->raft.configuration;
    uint64_t self = driver->config.node_id;
    unsigned before = 0;

    for (unsigned i = 0; i < configuration->n; i++) {
        uint64_t id = configuration->servers[i].id;

        if (configuration->servers[i].role == RAFT_VOTER && id != leader) {
            before += self > leader ? id > leader && id < self : id > leader || id < self;
        }
    }
    return before;
}

/* Stand for election in this node's turn, counted from then, if it is one that does. */
static void stand_early(struct driver *driver, uint64_t leader, uint64_t from_ms)
{
    struct raft *raft = &driver->raft;
    uint64_t now = clock_now_ms(driver->clock);
    uint64_t due = from_ms + turn_of(driver, leader) * (uint64_t)driver->config.heartbeat_ms;

    due = due > now ? due : now;
    if (raft_role(raft) == RAFT_VOTER && due < raft_timeout(raft) &&
        due >= raft->election_timer_start) {
        if (driver->drawn_timeout_ms == 0) {
            driver->drawn_timeout_ms = raft->follower_state.randomized_election_timeout;
        }
        raft->follower_state.randomized_election_timeout =
            (unsigned)(due - raft->election_timer_start);
        driver->timer_ms = guard_timer(raft_timeout(raft), now);
    }
}

static bool follows(struct driver *driver, uint64_t peer)
{
    return !driver->failed && raft_state(&driver->raft) == RAFT_FOLLOWER &&
           driver_leader(driver) == peer;
}

void driver_peer_refused(struct driver *driver, uint64_t peer)
{
    if (follows(driver, peer) && driver->leader_doubt != LEADER_RESIGNED) {
        driver->leader_doubt = LEADER_REFUSED;
        stand_early(driver, peer, driver->leader_heard_ms + patience_ms(driver));
    }
}

bool driver_leader_resigned(struct driver *driver, uint64_t peer, const uint8_t *payload,
                            size_t len)
{
    uint64_t term;

    if (wire_resign_decode(payload, len, &term) != 0) {
        return false;
    }
    if (term == raft_current_term(&driver->raft) && follows(driver, peer)) {
        driver->leader_doubt = LEADER_RESIGNED;
        /* Of all it is told at the same time, but may have heard the last heartbeat long ago. */
        stand_early(driver, peer, clock_now_ms(driver->clock));
    }
    return true;
}

void driver_resign(struct driver *driver)
{
    const struct raft_configuration *configuration = &driver->raft.configuration;

    for (unsigned i = 0; i < configuration->n; i++) {
        struct buf payload = BUF_INIT;

        if (configuration->servers[i].id == driver->config.node_id) {
            continue;
        }
        wire_resign_encode(raft_current_term(&driver->raft), &payload);
        (void)driver->net->ops->send(driver->net, configuration->servers[i].id, FRAME_RESIGN,
                                     &payload);
        buf_free(&payload);
    }
}
