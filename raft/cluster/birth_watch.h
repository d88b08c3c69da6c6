/*
 * birth_watch.h - of which cluster is this node, and the other one? And before the cluster is born:
 * may it be?
 *
 * A cluster is born once: its first leader draws a uid, which the log keeps for good
 * (cluster_command.h), and each node tells each other at the handshake. Until then all there is is
 * the list of first members that each node was given, and lists may differ, by a slip of somebody's
 * finger. So each node says the digest of its list, and one that is *unborn* (its log holds nothing
 * but that list) stands for election only once it has met every other member of it, in this run,
 * unborn too and with the same digest. A majority would not do: two lists of different lengths have
 * majorities that do not meet, and two of three members whose data was lost are one. Who has heard
 * of a birth with its list, though its log has not come, begins no other one in this run, and names
 * that to the others.
 *
 * The happy path: birth_watch_judge() at each handshake; birth_watch_turn() each turn holds the
 * driver back, and lets it go when all are met.
 *
 * Failure modes, for the caller to refuse the peer with: ERR_OTHER_LIST, it was given another list,
 * or its cluster was born with another one; ERR_OTHER_BIRTH, it is of another cluster. A node waits
 * as long as that lasts: somebody has to set it right. One that is born and finds so many of its
 * voters in another cluster that its own has no majority left has to end; of the other cluster, as
 * long as most of it is there, nobody ends for a single stray node.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_BIRTH_WATCH_H
#define LEAFD_RAFT_CLUSTER_BIRTH_WATCH_H

#include "raft/cluster/context.h"
#include "raft/cluster/service.h"
#include "storage/store.h"

/* A first list of members, and what is agreed on with it. */
struct birth_list {
    struct configuration members; /* none: this node joins, or joined, and has no such list */
    uint64_t digest; /* of ids, addresses, cluster id, and what is agreed; 0: without members */
};

struct birth_seen {
    uint64_t id;
    enum birth_wait wait;
    uint16_t level; /* the newest that it speaks, by its last handshake; 0: not known */
};

struct birth_watch {
    const struct raft_context *on;
    struct birth_list list;
    /* The cluster as others named it, to a node that joins, or whose first entry has not arrived:
     * for this run it holds. */
    struct wire_birth learned;
    struct birth_seen seen[LIMIT_PEERS]; /* members, as far as they were met in this run */
    size_t seen_count;
    uint64_t changes; /* how often anything of this changed, or the birth was heard of */
    bool born;        /* as last seen */
};

/* The first list that a store holds, if it has this node in it, after prepare_store(). */
void birth_list_read(const struct store_loaded *loaded, uint64_t node_id, const char *cluster_id,
                     const struct service *service, struct birth_list *ret_list);

/* learned: see above; may be NULL. */
void birth_watch_init(struct birth_watch *watch, const struct raft_context *on,
                      const struct birth_list *list, const struct wire_birth *learned);

/* What this node says of itself. */
struct wire_birth birth_watch_said(const struct birth_watch *watch);

/* A node proved the secret and says this of itself: 0, ERR_OTHER_BIRTH or ERR_OTHER_LIST. */
int birth_watch_judge(struct birth_watch *watch, uint64_t peer,
                      const struct wire_birth *said) MUST_CHECK;

/* A node that proved the secret speaks these levels. Of the first members all count: the cluster is
 * born at the newest level that each of them speaks. One that is started anew with an older leafd
 * says so in its handshake, and gets no link before that. */
void birth_watch_speaks(struct birth_watch *watch, uint64_t peer, struct level_range levels);

/* A member refuses this node with one of these errors (any other is none of ours). */
void birth_watch_refused(struct birth_watch *watch, uint64_t peer, int err);

/* Hold the driver back or let it go. In each turn until the birth is known, since entries that come
 * end the wait; then woken by a handshake or a refusal, and by what wakes all. False: too many
 * voters are of another cluster, and this node has to end. */
bool birth_watch_turn(struct birth_watch *watch) MUST_CHECK;

/* Whom an unborn node waits for before it may stand for election, and why; 0: nobody. */
size_t birth_watch_waits(const struct birth_watch *watch, struct birth_seen ret_waits[LIMIT_NODES]);

#endif
