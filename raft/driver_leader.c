/*
 * driver_leader.c - what a follower thinks of its leader: when it was heard, whether it is gone.
 *
 * The happy path: each message of the leader says that it is there (driver_leader_heard()). A
 * leader whose process ended has its address refuse connections, which the links find out at once
 * (driver_peer_refused()): if it is not heard for two heartbeats either, the followers forget it
 * and stand for election one after the other, long before their election timeouts.
 *
 * Failure modes: neither sign is proof, and nothing depends on it: a follower that is wrong asks
 * for pre-votes, which those who hear the leader refuse, and follows again with the next heartbeat.
 * A leader whose machine is lost refuses nothing; then the election timeout decides, as ever.
 *
 * Thread: the raft loop.
 */
#include "raft/driver_internal.h"
#include "raft/guard.h"

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
    driver->leader_refused = false;
    restore_timeout(driver);
}

static uint64_t patience_ms(const struct driver *driver)
{
    uint64_t missed_ms = MISSED_HEARTBEATS * (uint64_t)driver->config.heartbeat_ms;

    return driver->leader_refused && missed_ms < driver->config.election_ms
               ? missed_ms
               : driver->config.election_ms;
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

void driver_peer_refused(struct driver *driver, uint64_t peer)
{
    struct raft *raft = &driver->raft;
    uint64_t now = clock_now_ms(driver->clock);
    uint64_t due;

    if (driver->failed || raft_state(raft) != RAFT_FOLLOWER || driver_leader(driver) != peer) {
        return;
    }
    driver->leader_refused = true;
    if (raft_role(raft) != RAFT_VOTER) {
        return; /* it stands for nothing */
    }
    due = driver->leader_heard_ms + patience_ms(driver) +
          turn_of(driver, peer) * (uint64_t)driver->config.heartbeat_ms;
    due = due > now ? due : now;
    if (due < raft_timeout(raft) && due >= raft->election_timer_start) {
        if (driver->drawn_timeout_ms == 0) {
            driver->drawn_timeout_ms = raft->follower_state.randomized_election_timeout;
        }
        raft->follower_state.randomized_election_timeout =
            (unsigned)(due - raft->election_timer_start);
        driver->timer_ms = guard_timer(raft_timeout(raft), now);
    }
}
