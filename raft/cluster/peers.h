/*
 * peers.h - a node's peers: which nodes it links to, which it admits, whether they are of its
 * cluster, and its answer to a node that wants to join.
 *
 * Links follow the configuration in force and the applied one (the first may be rolled back). A
 * node that was away for long, or has just joined, has an older configuration, which may lack
 * today's leaders. A peer that proves by a newer committed configuration that both are members
 * becomes a learned peer, with all others of that configuration, until this node's log has caught
 * up. Removed ids, and ids with another data directory, are never admitted.
 *
 * A member that starts at another address reports it when it dials. It is dialled there at once, so
 * that the log reaches it and takes its registration. From then on the log's address applies.
 *
 * Peers also report to each other which consensus data their disks hold. Acknowledgements go to the
 * leader alone, and no node hears what a leader has on its own disk. With this report every node
 * knows it of every other one. So each node that was in contact with the original notices a
 * restored older copy (raft/core/rollback.h).
 *
 * The happy path: peers_init(), peers_turn() when it is woken; peers_judge() for each handshake. A
 * report goes to all peers once a second, or PEERS_REPORT_CHANGED_MS after something has changed;
 * to one whose link comes up; and to all at a stop.
 *
 * Failure modes: a statement that is malformed, or no newer than this node's data: the peer stays
 * unknown. The next report makes up for a lost one.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_PEERS_H
#define LEAFD_RAFT_CLUSTER_PEERS_H

#include "raft/cluster/context.h"
#include "raft/cluster/service.h"
#include "storage/store.h"

/*
 * --- birth_watch: to which cluster do this node and a peer belong? And before the cluster is born:
 * may it be?
 *
 * A cluster is born once: its first leader draws a uid, which the log keeps for good
 * (cluster_command.h), and nodes exchange at the handshake. Until then each node only has its list
 * of first members, and lists may differ by mistake. So each node reports the digest of its list.
 * An *unborn* node (its log holds nothing but that list) stands for election only once it has met
 * every other member of the list, in this run, unborn too and with the same digest. A majority
 * would not suffice: lists of different lengths can have disjoint majorities, and two of three
 * members whose data was lost are a majority. A node that has heard of a birth with its list,
 * though its log has not come, begins no other one in this run, and reports that birth to the
 * others.
 *
 * The happy path: birth_watch_judge() at each handshake; birth_watch_turn() each turn holds the
 * driver, and releases it when all are met.
 *
 * Failure modes, for the caller to refuse the peer with: ERR_OTHER_LIST, it was given another list,
 * or its cluster was born with another one; ERR_OTHER_BIRTH, it is of another cluster. A node waits
 * as long as that lasts: an operator must correct it. A born node must end if so many of its voters
 * are in another cluster that its own has no majority left. In the other cluster, which keeps its
 * majority, no node ends because of a single stray one.
 */

/* A first list of members, and the agreed settings. */
struct birth_list {
    struct configuration members; /* none: this node joins, or joined, and has no such list */
    uint64_t digest; /* of ids, addresses, cluster id, and agreed settings; 0: without members */
};

/* A member that an unborn node waits for. */
struct birth_seen {
    uint64_t id;
    enum birth_wait wait;
};

struct birth_watch {
    const struct raft_context *on;
    struct birth_list list;
    /* The cluster that others named to a joining node, or to one whose first entry has not arrived:
     * applies for this run. */
    struct wire_birth learned;
    uint64_t changes;      /* how often any of this changed, or a birth became known */
    bool born;             /* as last seen */
    bool apart;            /* most voters are of another cluster: this node ends */
    uint64_t told_changes; /* of the last line in the log */
    struct timer told;     /* armed: that was lately */
};

/* The first list that a store holds, if it has this node in it, after prepare_store(). */
void birth_list_read(const struct store_loaded *loaded, uint64_t node_id, const char *cluster_id,
                     const struct service *service, struct birth_list *ret_list);

/* What this node reports of itself. */
struct wire_birth birth_watch_report(const struct birth_watch *watch);

/* A node proved the secret and reports this of itself: 0, ERR_OTHER_BIRTH or ERR_OTHER_LIST. */
int birth_watch_judge(struct birth_watch *watch, uint64_t peer,
                      const struct wire_birth *said) MUST_CHECK;

/* A node that proved the secret speaks these levels. All first members count: the cluster is born
 * at the newest level that each of them speaks. A member that restarts with an older leafd reports
 * its levels in the handshake, before it gets a link. */
void birth_watch_speaks(struct birth_watch *watch, uint64_t peer, struct level_range levels);

/* A member refuses this node with one of these errors (any other is ignored). */
void birth_watch_refused(struct birth_watch *watch, uint64_t peer, int err);

/* Hold or release the driver; log each change, and from time to time that the birth waits for a
 * node. In each turn until the birth is known, since new entries end the wait; then woken by a
 * handshake or a refusal, and by what wakes all. Calls `failed` once if too many voters are of
 * another cluster. */
void birth_watch_turn(struct birth_watch *watch);

/* The members that an unborn node waits for before it may stand for election, and why; 0: none. */
size_t birth_watch_waits(const struct birth_watch *watch, struct birth_seen ret_waits[LIMIT_NODES]);

/* --- peers --- */

/* Peers by a configuration that this node's log has not reached. */
struct learned_peers {
    struct configuration conf; /* without members: none are needed (any more) */
    uint64_t index;            /* of its entry; 0: there never was one */
    struct wire_birth birth;   /* of a joining node: the cluster that admitted it */
    uint64_t changes;          /* how often they changed */
};

/* The new addresses of peers that have moved, until the log has them. */
struct peers_heard {
    struct net_peer items[LIMIT_PEERS];
    size_t count;
    uint64_t changes; /* how often one changed */
};

/* In force and applied. */
struct peers_seen {
    uint64_t term;
    uint64_t committed;
    uint64_t uncommitted;
    uint64_t applied;
    uint64_t learned;
    uint64_t heard;
    uint64_t moves;
};

/* A node that joins through this one. With replace_lost, the member at its address is removed first
 * if this node has no link to it: that member was lost, and the joining node replaces it. */
struct peers_join {
    bool active; /* its membership request, or the removal before it, is on its way */
    uint64_t node_id;
    struct cluster_request request;
    bool answered;
    struct member_answer answer; /* the last one for node_id */
};

/* Together with PEER_MEMORY_HOLD_MS (raft/core/rollback.h), less than a second. */
#define PEERS_REPORT_CHANGED_MS 500
#define PEERS_REPORT_MS 1000

struct peers {
    const struct raft_context *on;
    struct net_receiver receiver; /* of all that comes from the links; the replica sets the rest */
    struct birth_watch births;
    struct learned_peers learned;
    struct peers_heard heard;
    bool seen_any;                      /* links were made, */
    struct peers_seen seen;             /* for these configurations */
    struct net_peer items[LIMIT_PEERS]; /* the peers that have links */
    size_t count;
    struct peers_join join;
    struct timer report;
    struct wire_durable told; /* reported last, to all */
    uint64_t told_ms;
};

/* list: of birth_list_read(). Sets judge, introduce and join of the receiver. */
void peers_init(struct peers *peers, const struct raft_context *on, const struct birth_list *list);

/* Follow the configuration. Woken by a handshake with news, and by what wakes all. */
void peers_turn(struct peers *peers);

/* net_receiver.judge() (net.h), in the order of its steps: birth_watch_judge(), peers_admit(), the
 * level, peers_know(), peers_check(). Of several errors the most useful one: a node of another
 * cluster also has another store, but is not wiped; a wiped node may also have another list, but to
 * correct that would not help; and a node in no list of ours was given another list. A node that
 * stops takes no new peer. */
int peers_judge(struct net_receiver *receiver, const struct net_claim *claim,
                uint16_t *ret_level) MUST_CHECK;

/* 0, ERR_REMOVED, or ERR_WRONG_NODE. */
int peers_admit(const struct peers *peers, uint64_t peer, uint64_t store_id) MUST_CHECK;

/* Is it a peer of this node, also by what it states? */
bool peers_know(struct peers *peers, uint64_t peer, const struct wire_statement *said);

/* Is the statement of a peer wrong? ERR_STALE: its data directory was set back to an older copy;
 * ERR_IMPLAUSIBLE; ERR_EXISTS: another process of the peer is already connected. With 0 the
 * statement is remembered.
 *
 * If two processes with different data claim to be one peer, the log knows the data of at most one,
 * by its registration. If it knows none yet, the process at the peer's address is the peer: only it
 * gets the log, so only it can register. The other one is no longer admitted. */
int peers_check(struct peers *peers, uint64_t peer, const struct net_presence *presence,
                const struct wire_statement *said) MUST_CHECK;

/* net_receiver.introduce(): this node's statement for a dial. */
void peers_state(struct net_receiver *receiver, struct buf *statement);

/* net_receiver.join(): a node that is no member yet asks to be added, by a wire_join. Appends a
 * wire_joined. Not to be called inside a turn of the replica. */
bool peers_join(struct net_receiver *receiver, uint64_t peer, const void *request, size_t len,
                struct buf *answer);

/* Report now: to a peer whose link came up; 0: to all, at a stop. */
void peers_report(const struct peers *peers, uint64_t to);

#endif
