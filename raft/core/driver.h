/*
 * driver.h - the driver of the consensus core: events in, updates carried out.
 *
 * It is the only caller of consensus_step(), and combines the rest of the folder: consensus (the
 * library; is the leader gone?), entry_log (the log in memory, and its writes to the disk), outbox
 * (term and vote, and messages that wait for them), applier (the state machine's place in the log),
 * snapshot (transfers), trust and witness (is a peer's claim plausible?), peer_memory (was a peer's
 * data set back?), vote_floor (may this node have voted already?). It decides the order of things:
 * term and vote first, then entries to the cache and the disk, then messages; committed entries are
 * applied in order, and their rows written after the log.
 *
 * It reaches disk, links and time only through `struct disk`, `struct net` and `struct clock`, so
 * the same file runs in the simulator. Events of disk and links wait in queues until the driver
 * takes them (driver_take_events()): nothing enters a step that is under way. Its timers (the
 * core's, those of waiting rows and of peer memory) are among the loop's.
 *
 * The happy path of a command on the leader: driver_submit() -> the core -> cache, disk, messages
 * -> acks and the node's own write -> commit index -> driver_turn(): apply,
 * observer->applied(result), rows to the disk.
 *
 * Failure modes: any error of the core but a refused SUBMIT or TRANSFER: observer->failed(), and
 * the process ends. A leader that contradicts committed entries, or sends a snapshot of a later
 * level: the same. A digest that differs: observer->diverged(), which decides whether this node is
 * wrong. An implausible claim of a peer: refused, with an alarm (trust.h). Lost leadership: the
 * observer is informed, and the outcome of submitted commands is unknown.
 *
 * Invariants: the commit index never falls; nothing is applied above it; the update of one event is
 * carried out before the next event. (More: entry_log.h, applier.h, snapshot.h.)
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_DRIVER_H
#define LEAFD_RAFT_CORE_DRIVER_H

#include "raft/core/applier.h"
#include "raft/core/entry_log.h"
#include "raft/core/rollback.h"
#include "raft/core/consensus.h"
#include "raft/core/snapshot.h"
#include "raft/core/trust.h"
#include "raft/transport/net.h"
#include "raft/wire/wire.h"
#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/state/state.h"
#include "storage/disk.h"

struct driver_config {
    uint64_t node_id;
    const char *address; /* its own peer address; borrowed */
    uint32_t heartbeat_ms;
    uint32_t election_ms;
    struct applier_config applier;
    uint64_t state_bytes; /* bound of a snapshot's state, and of its rows; 0: none */
    uint64_t seed;        /* of election jitter */
    uint64_t incarnation; /* of this start, see rollback.h */
    struct birth birth;   /* proposed as the first leader, but for its time; no uid or no digest:
                             not proposed. Its level may be raised later (birth_watch in peers.h) */
};

/* Called on the raft loop, never from inside driver_submit(). */
struct driver_observer {
    /* A command was applied here. result is borrowed for the call. */
    void (*applied)(struct driver_observer *observer, uint64_t index, uint64_t term,
                    const void *result, size_t len);
    /* Role, term or known leader has changed. */
    void (*role_changed)(struct driver_observer *observer);
    /* Another configuration is in force, or the one in force is committed. */
    void (*configured)(struct driver_observer *observer);
    /* A snapshot replaced the state: applied index jumped to `index`. */
    void (*installed)(struct driver_observer *observer, uint64_t index);
    /* An entry of node node_id has a digest of all rows that differs from this node's. The driver
     * is halted: ask other nodes, and then clear halted or call driver_end_diverged(). text is
     * borrowed. */
    void (*diverged)(struct driver_observer *observer, uint64_t node_id, const char *text);
    /* To continue would be unsafe. In the process this must not return. */
    void (*failed)(struct driver_observer *observer, int err, const char *text);
} BY_NAME;

enum driver_state { DRIVER_STARTING, DRIVER_FOLLOWER, DRIVER_CANDIDATE, DRIVER_LEADER };

/* Since the start. */
struct driver_counts {
    uint64_t elections;   /* that this node was a candidate in */
    uint64_t leaderships; /* that it won */
    uint64_t installs;    /* snapshots that replaced its state */
    uint64_t compactions; /* of its log */
};

struct driver {
    struct driver_config config;
    struct consensus *consensus; /* NULL before the start */
    bool stepping;               /* an event is being taken */
    bool failed;
    bool held;   /* it must not stand for election */
    bool halted; /* nothing is applied above apply_until, and no results are reported */
    uint64_t apply_until;
    char failed_text[400]; /* the reason that a witness is about to report */
    struct net *net;
    const struct clock *clock;
    struct driver_observer *observer;
    struct writes writes;
    struct outbox outbox;
    struct entry_log log;
    struct appends appends; /* of the log, for followers that lack much of it */
    uint64_t commit;
    uint64_t persisted; /* highest index reported as persisted */
    /* Of an event's entries, and the batch that the core takes for them; NULL: there are none. */
    struct entry_block *gathered[LIMIT_ENTRIES_PER_FRAME];
    unsigned gathered_count;
    void *gathered_batch;
    struct applier applier;
    struct entry_block *foreseen; /* of a large entry whose apply has begun; a reference, or NULL */
    bool foresees;                /* and there is more to do before it is applied */
    struct snapshot_transfers transfers;
    struct trial trial; /* of the snapshot that comes */
    bool trying;        /* rows of it wait to be tried */
    struct trust trust;
    struct witness witness;
    struct wire_durable start;        /* of this node, for its peers */
    struct incarnations incarnations; /* that it had */
    struct peer_memory peers;         /* what this node knows of them */
    struct vote_floor vote_floor;     /* terms in which no vote is given */
    struct timers *timers;
    struct timer timer; /* the core's */
    uint64_t noop_term; /* term whose first entry was submitted */
    struct driver_counts counts;
    /* last seen, to notice changes */
    enum driver_state seen_state;
    uint64_t seen_term;
    uint64_t seen_leader;
    uint64_t seen_applied_change; /* driver_applied_change(), */
    uint64_t seen_pending_change; /* driver_pending_change() */
};

/* Start from what was loaded (prepare.h); the state has the rows already. Entries are copied. After
 * this, driver_turn() must be called. timers: run by the loop once a turn. 0 or ERR_CORRUPT. */
int driver_start(struct driver *driver, const struct driver_config *config, struct disk *disk,
                 struct net *net, const struct clock *clock, struct timers *timers,
                 struct state *state, struct driver_observer *observer,
                 const struct store_loaded *loaded) MUST_CHECK;

/* Take no further step: from here on, finished disk operations only free memory. */
void driver_quiesce(struct driver *driver);

/* True when no disk operation is pending: driver_close() may be called. Takes finished ones. */
bool driver_is_quiet(struct driver *driver);

/* Free all. */
void driver_close(struct driver *driver);

/* --- turns --- */

/* The beginning of a turn: take the disk's events, in their order. */
void driver_take_events(struct driver *driver);

/* Then submit a new leader's first entry and apply what is committed, if there is anything. True if
 * more is left to apply, or to send (call again soon). */
bool driver_turn(struct driver *driver);

/* A held node does not stand for election, however long it hears no leader; it votes and follows.
 * Once released, it waits for a leader as long as after a start. Not held at the start. */
void driver_hold(struct driver *driver, bool held);

/* The state of this node may be wrong: from now on, only entries up to apply_until are applied, and
 * nothing is served as the leader. The caller may raise apply_until, and clears `halted` once the
 * state was found to be right. */
void driver_halt(struct driver *driver);

/* It was wrong, or that is unknown: observer->failed() with ERR_DIVERGED. */
void driver_end_diverged(struct driver *driver, const char *text);

/* --- links --- */

/* A FRAME_RAFT, FRAME_RESIGN, FRAME_DURABLE or snapshot frame from a peer. False: malformed, or
 * implausible. */
bool driver_receive(struct driver *driver, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len);

/* A peer's address has no listener. If the peer is the leader and was silent for two heartbeats,
 * this node stands for election in its turn. */
void driver_peer_refused(struct driver *driver, uint64_t peer);

/* A peer has connected, with this statement about its start. 0; ERR_IMPLAUSIBLE (logged); ERR_STALE
 * if the peer has forgotten what this node has seen of it: its data directory is an older copy
 * (logged), and it must not take part; or ERR_EXISTS. is_here: its known start is connected at this
 * moment, so another start is not believed: else a clone could have the original taken for a
 * copy. */
int driver_check_peer(struct driver *driver, uint64_t peer, const struct wire_statement *statement,
                      bool is_here) MUST_CHECK;

/* What this node's disk holds now. False: a snapshot is on its way there. */
bool driver_durable(const struct driver *driver, struct wire_durable *ret_durable);

/* --- commands --- */

/* Append commands to the log, if this node leads; their bytes are copied. *ret_first and *ret_term
 * place them; they are applied later, by driver_turn(). 0, ERR_NOT_LEADER (also while leadership is
 * being transferred), ERR_OVERLOADED (too much is uncommitted). n is 1..LIMIT_ENTRIES_PER_FRAME. */
int driver_submit(struct driver *driver, const struct buf *commands, unsigned n,
                  uint64_t *ret_first, uint64_t *ret_term) MUST_CHECK;

/* --- the disk --- */

/* Is space low on the disk? */
bool driver_disk_is_low(const struct driver *driver);

/* Put a record of this node's own on disk (store.h, STORE_LOCAL); the bytes are copied. done is
 * called when it is durable, or when the driver was quiesced meanwhile; NULL: not awaited. */
void driver_write_local(struct driver *driver, uint32_t key, const void *data, size_t len,
                        void (*done)(void *data), void *done_data);

/* --- queries --- */

enum driver_state driver_state(const struct driver *driver);
uint64_t driver_term(const struct driver *driver);

/* driver_is_leader(): this node has the role of the leader. driver_leads(): it has also applied an
 * entry of its own term, so it may serve reads and proposals. */
bool driver_is_leader(const struct driver *driver);
bool driver_leads(const struct driver *driver);

/* The known leader's id, 0 if none. */
uint64_t driver_leader(const struct driver *driver);

/* Index of the last entry. */
uint64_t driver_last_index(const struct driver *driver);

/* The position of the state in memory. */
const struct store_position *driver_applied(const struct driver *driver);

/* Up to which index a peer's log is known to match. False: this node does not lead, or it is no
 * peer. */
bool driver_match(const struct driver *driver, uint64_t peer, uint64_t *ret_index);

/* --- membership and leadership --- */

/* The configuration in force, and a member of it or NULL. Borrowed until the next event. */
const struct configuration *driver_configuration(const struct driver *driver);
const struct conf_member *driver_member(const struct driver *driver, uint64_t id);

/* Indexes of the newest configuration that the core knows as applied, and of one that is in force
 * but not yet applied (0: none), during which no other may follow. */
uint64_t driver_applied_change(const struct driver *driver);
uint64_t driver_pending_change(const struct driver *driver);

/* Is the whole log committed? */
bool driver_all_committed(const struct driver *driver);

/* Append a configuration that differs in this one member: as a standby with its address (also a new
 * one), ROLE_VOTER, or ROLE_GONE. 0; ERR_NOT_LEADER (or none of its own term is applied yet, or
 * leadership is being transferred), ERR_CONFLICT (one is pending, or a vote would be taken away and
 * not the whole log is committed), ERR_INVALID (no voter would be left, too many members, an
 * address twice). */
int driver_change(struct driver *driver, uint64_t id, const char *address,
                  enum conf_role role) MUST_CHECK;

/* Begin to watch a standby until it has caught up. None may be under way (DRIVER_CATCH_UP_RUNNING).
 * False: not possible now. */
bool driver_catch_up(struct driver *driver, uint64_t id);

enum driver_catch_up {
    DRIVER_CATCH_UP_NONE,
    DRIVER_CATCH_UP_RUNNING,
    DRIVER_CATCH_UP_ABORTED, /* too slow */
    DRIVER_CATCH_UP_FINISHED
};
enum driver_catch_up driver_caught_up(const struct driver *driver, uint64_t id);

/* Hand leadership to a voter (target 0: to the one with the longest log), once it has everything:
 * call repeatedly until it returns true (not leader any more, or no voter to hand it to). New
 * submits are refused once the voter was asked to take over. */
bool driver_transfer(struct driver *driver, uint64_t target);

/* Was a voter asked to take over, and has neither done so nor let an election timeout pass? */
bool driver_is_transferring(const struct driver *driver);

#endif
