/*
 * peers.h - a node's peers: those that it keeps links with, those that it lets in, whether they are
 * of its cluster, and its answer to a node that wants to join.
 *
 * Links follow the configuration in force and the applied one (the first may be rolled back). A
 * node that was away for long, or has just joined, has an older configuration, in which those that
 * lead today may not be: a peer that proves by a newer committed configuration that both are
 * members becomes a learned peer, with all others of that configuration, until this node's log has
 * caught up. Removed ids, and ids whose data directory is another one, are never let in.
 *
 * A member that starts at another address says so when it dials: it is dialled there at once, so
 * that the log, which takes its registration, reaches it again. From then on the log's address
 * holds.
 *
 * The happy path: peers_init(), peers_turn() when it is woken; peers_know() and peers_check() for
 * each handshake.
 *
 * Failure modes: a statement that is malformed, or no newer than what is known here: not known.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_PEERS_H
#define LEAFD_RAFT_CLUSTER_PEERS_H

#include "raft/cluster/context.h"
#include "raft/cluster/service.h"
#include "storage/store.h"

/*
 * --- birth_watch: of which cluster is this node, and the other one? And before the cluster is
 * born: may it be?
 *
 * A cluster is born once: its first leader draws a uid, which the log keeps for good
 * (cluster_command.h), and nodes exchange at the handshake. Until then all there is is the list of
 * first members that each node was given, and lists may differ by a slip. So each node says the
 * digest of its list, and one that is *unborn* (its log holds nothing but that list) stands for
 * election only once it has met every other member of it, in this run, unborn too and with the same
 * digest. A majority would not do: two lists of different lengths have majorities that do not meet,
 * and two of three members whose data was lost are one. A node that has heard of a birth with its
 * list, though its log has not come, begins no other one in this run, and names that to the others.
 *
 * The happy path: birth_watch_judge() at each handshake; birth_watch_turn() each turn holds the
 * driver back, and lets it go when all are met.
 *
 * Failure modes, for the caller to refuse the peer with: ERR_OTHER_LIST, it was given another list,
 * or its cluster was born with another one; ERR_OTHER_BIRTH, it is of another cluster. A node waits
 * as long as that lasts: an operator has to set it right. One that is born and finds so many of its
 * voters in another cluster that its own has no majority left has to end; of the other cluster, as
 * long as most of it is there, no node ends for a single stray one.
 */

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

/* --- peers --- */

/* Peers by a configuration that this node's log has not reached. */
struct learned_peers {
    struct configuration conf; /* without members: none are needed (any more) */
    uint64_t index;            /* of its entry; 0: there never was one */
    struct wire_birth birth;   /* of a node that joins: the cluster that has let it in */
    uint64_t changes;          /* how often they changed */
};

/* Where peers that have moved want to be reached, until the log says so. */
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

/* A node that joins through this one. With replace_lost the member at its address, if this node has
 * no link to it, is removed first: it was lost, and this is what came in its place. */
struct peers_join {
    bool active; /* its membership request, or the removal before it, is on its way */
    uint64_t node_id;
    struct cluster_request request;
    bool answered;
    struct member_answer answer; /* the last one for node_id */
};

struct peers {
    const struct raft_context *on;
    struct birth_watch *births;
    struct learned_peers learned;
    struct peers_heard heard;
    const char *address;                /* of this node, to be dialled; borrowed */
    bool seen_any;                      /* links were made, */
    struct peers_seen seen;             /* for these configurations */
    struct net_peer items[LIMIT_PEERS]; /* with whom links are kept */
    size_t count;
    struct peers_join join;
};

/* learned: by what a node that has just joined heard; may be NULL. address: where this node wants
 * to be reached; "" if it does not say. */
void peers_init(struct peers *peers, const struct raft_context *on, struct birth_watch *births,
                const struct learned_peers *learned, const char *address);

/* Follow the configuration. Woken by a handshake that says something new, and by what wakes all.
 * True if there was a change. */
bool peers_turn(struct peers *peers);

/* 0, ERR_REMOVED, or ERR_WRONG_NODE. */
int peers_admit(const struct peers *peers, uint64_t peer, uint64_t store_id) MUST_CHECK;

/* Is it of the same cluster, by what it says? 0, ERR_OTHER_BIRTH, ERR_OTHER_LIST or
 * ERR_BAD_MESSAGE. */
int peers_birth(struct peers *peers, uint64_t peer, const void *statement, size_t len) MUST_CHECK;

/* Is it a peer of ours? statement: what it says, see wire.h; may be empty. */
bool peers_know(struct peers *peers, uint64_t peer, const void *statement, size_t len);

/* Is there something wrong with the statement of a peer? ERR_STALE: its data directory was set back
 * to an older copy; ERR_IMPLAUSIBLE: it says what cannot be; ERR_EXISTS: it is another process of
 * the peer than the one that is here; ERR_BAD_MESSAGE. What a peer says is remembered when there is
 * not (0).
 *
 * Of two processes with data of their own in one peer's place the log knows the data of one, by its
 * registration, or of none yet. Then the one at the peer's address is the peer: the log can come to
 * it alone, so it alone can register. The other one is let in no more. */
int peers_check(struct peers *peers, uint64_t peer, const struct net_presence *presence,
                const void *statement, size_t len) MUST_CHECK;

/* Append what this node says of itself when it dials. */
void peers_state(const struct peers *peers, struct buf *statement);

/* A node that is no member yet asks to be added, by a wire_join. Appends a wire_joined. Malformed:
 * nothing is appended, and false. Not to be called inside a turn of the replica. */
bool peers_join(struct peers *peers, uint64_t peer, const void *request, size_t len,
                struct buf *answer);

/*
 * --- durable_report: what this node's disk holds of the consensus, for its peers.
 *
 * Acknowledgements go to the leader alone, and no node hears what a leader has on its own disk.
 * With this report every node knows it of every other one, and a copy of any node's data that is
 * put back is noticed by each node that was in contact with the original (raft/core/rollback.h).
 *
 * The happy path: a small frame to all peers once a second, or DURABLE_REPORT_CHANGED_MS after
 * something has changed; to one whose link comes up; and to all at a stop.
 *
 * Failure modes: a frame that is lost is made up for by the next.
 */

/* Together with PEER_MEMORY_HOLD_MS (raft/core/rollback.h), less than a second. */
#define DURABLE_REPORT_CHANGED_MS 500
#define DURABLE_REPORT_MS 1000

struct durable_report {
    const struct raft_context *on;
    struct timer timer;
    struct peer_durable told; /* reported last, to all */
    uint64_t told_ms;
};

void durable_report_init(struct durable_report *durable, const struct raft_context *on);

/* This node is about to stop: report to all, once more. */
void durable_report_stop(struct durable_report *durable);

/* A link came up: report to that peer. */
void durable_report_link_up(struct durable_report *durable, uint64_t peer);

#endif
