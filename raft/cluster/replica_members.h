/*
 * replica_members.h - a replica's links: with whom it keeps them, whom it lets in, and what it
 * tells a node that wants to join.
 *
 * Links follow the configuration in force and the applied one (the first may be rolled back). A
 * node that was away for long, or has just joined, has an older configuration, in which those that
 * lead today may not be: a peer that proves by a newer committed configuration that both are
 * members is taken in as a guest, with all others of that configuration, until the own log has
 * caught up. Removed ids, and ids whose data directory is another one, are never let in.
 *
 * The happy path: members_init(), members_turn() each turn; members_know() and
 * members_check() for each handshake.
 *
 * Failure modes: a statement that is malformed, or no newer than what is known here: not known.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_REPLICA_MEMBERS_H
#define LEAFD_RAFT_CLUSTER_REPLICA_MEMBERS_H

#include "raft/core/driver.h"
#include "raft/cluster/member_request.h"

/* The configuration that links were last made for. */
struct members_seen {
    uint64_t term;
    uint64_t committed;
    uint64_t uncommitted;
    uint64_t applied;
    uint64_t guests;
};

/* A node that joins through this one. */
struct members_join {
    bool active; /* its wish is on its way */
    uint64_t node_id;
    struct id_request request;
    bool answered;
    struct member_answer answer; /* the last one for node_id */
};

struct members {
    struct driver *driver;
    struct net *net;
    const struct clock *clock;
    struct fsm *fsm;
    struct wishes *wishes;
    struct net_peer guests[LIMIT_NODES];
    size_t guest_count;
    uint64_t guest_index; /* of the configuration that named them; 0: none */
    uint64_t guests_made; /* how often they changed */
    bool seen_any;
    struct members_seen seen;
    uint64_t peers[LIMIT_PEERS]; /* with whom links are kept */
    size_t peer_count;
    struct members_join join;
};

/* guests: whom a node that has just joined was told of, by the configuration at guest_index. */
void members_init(struct members *members, struct driver *driver, struct net *net,
                  const struct clock *clock, struct fsm *fsm, struct wishes *wishes,
                  const struct net_peer *guests, size_t guest_count, uint64_t guest_index);

/* Follow the configuration. True if there was a change. */
bool members_turn(struct members *members);

/* 0, ERR_REMOVED, or ERR_WRONG_NODE. */
int members_admit(const struct members *members, uint64_t peer, uint64_t store_id) MUST_CHECK;

/* Is it a peer of ours? statement: what it says, see wire.h; may be empty. */
bool members_know(struct members *members, uint64_t peer, const void *statement, size_t len);

/* Is there something wrong with the statement of a peer? ERR_STALE: its data directory was set back
 * to an older copy; ERR_IMPLAUSIBLE: it says what cannot be; ERR_BAD_MESSAGE. What a peer says is
 * remembered when there is not (0). */
int members_check(struct members *members, uint64_t peer, const void *statement,
                  size_t len) MUST_CHECK;

/* Append what this node says of itself when it dials. */
void members_state(const struct members *members, struct buf *statement);

/* A node that is no member yet asks to be added, by a wire_join. Appends a wire_joined. Malformed:
 * nothing is appended, and false. Not to be called inside a turn of the replica. */
bool members_join(struct members *members, uint64_t peer, const void *request, size_t len,
                  struct buf *answer);

#endif
