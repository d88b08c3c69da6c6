/*
 * join.h - a new node asks the members of a cluster to let it join, before it starts.
 *
 * The happy path: join_cluster() dials one address after the other, proves the secret, names itself
 * and where it listens, and is asked to wait; once the cluster has it as a standby, the answer
 * holds the configuration, and so the addresses of all members. The rest comes by the log.
 *
 * Failure modes: no answer, an election, another change under way, no room: tried again, and
 * logged once a change of reason, until a signal to stop. The id was removed, belongs to a member
 * elsewhere or to another data directory, or the address is another member's; or those that were
 * asked are of two clusters: refused for good.
 *
 * Thread: main, on a loop of its own, before anything else runs.
 */
#ifndef LEAFD_RAFT_TRANSPORT_JOIN_H
#define LEAFD_RAFT_TRANSPORT_JOIN_H

#include "raft/transport/net.h"
#include "raft/transport/net_keys.h"
#include "raft/wire/wire.h"
#include "src/base/err.h"

struct join_config {
    uint64_t node_id;
    uint64_t store_id;
    const char *cluster_id;
    struct net_keys *keys;
    const char *address;            /* the own one, as the others are to dial it */
    const struct net_peer *targets; /* which to ask; their ids do not matter */
    size_t target_count;            /* at least 1 */
};

#define JOIN_WHY_BYTES 256

struct join_result {
    struct buf conf; /* the configuration that has this node in it; checked; the caller's to free */
    uint64_t index;  /* of its entry */
    struct wire_birth birth;  /* of the cluster, as those that answered said */
    char why[JOIN_WHY_BYTES]; /* this node is refused; set with the errors that say so */
};

/* 0; ERR_SHUTTING_DOWN after SIGTERM or SIGINT; ERR_REMOVED, ERR_WRONG_NODE (the id belongs to
 * another data directory), ERR_OTHER_BIRTH (members of two clusters were asked) or ERR_REFUSED (to
 * another member, or the address does), with `why` set. */
int join_cluster(const struct join_config *config, struct join_result *ret_result) MUST_CHECK;

#endif
