/*
 * driver.h - the driver of the consensus core: events in, updates carried out.
 *
 * The only caller of raft_step(). It owns struct raft, the log cache, the state machine's position,
 * and the order of things: term and vote are durable before any message of the same or a later step
 * leaves; entries go to the cache at once and to the disk behind; committed entries are applied in
 * order, and their rows written behind the log.
 *
 * It reaches disk, links and time only through `struct disk`, `struct net` and `struct clock`, so
 * the very same file runs in the simulator.
 *
 * The happy path of a command on the leader: driver_submit() -> step(SUBMIT) -> cache, disk,
 * messages -> acks and the own write -> commit index -> driver_settle(): apply,
 * observer->applied(result), rows to the disk.
 *
 * Failure modes: any error of the core but a refused SUBMIT or TRANSFER, a diverged state, a leader
 * that contradicts what is committed (ERR_CONTRADICTED): observer->failed(), and the process ends.
 * What a peer tells and cannot be: refused, with an alarm (driver_trust.c). Lost leadership: the
 * observer is told, the outcome of what was submitted is unknown.
 *
 * Invariants: commit and applied index never fall; nothing is applied above the commit index or
 * while a snapshot is being installed; a message never leaves before the term and vote it stands
 * for.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_DRIVER_H
#define LEAFD_RAFT_CORE_DRIVER_H

#include <raft.h>
#include <sys/queue.h>

#include "raft/core/entry_log.h"
#include "raft/transport/net.h"
#include "raft/core/rollback.h"
#include "raft/core/plausible.h"
#include "raft/core/snapshot.h"
#include "src/base/clock.h"
#include "src/base/prng.h"
#include "src/id/fsm/fsm.h"
#include "storage/disk.h"

/* Why a follower does not wait for its leader as long as an election timeout. */
enum leader_doubt {
    LEADER_TRUSTED,
    LEADER_REFUSED, /* its address refuses connections */
    LEADER_RESIGNED /* it said itself that it leads no more */
};

struct driver_config {
    uint64_t node_id;
    const char *address; /* the own peer address; borrowed */
    uint32_t heartbeat_ms;
    uint32_t election_ms;
    uint32_t snapshot_entries; /* compact after so many entries applied durably */
    uint32_t trailing_entries; /* kept behind a compaction */
    uint32_t rows_join_ms;     /* so old changed rows go with the next entries, */
    uint32_t rows_hold_ms;     /* and so old ones without any; >= rows_join_ms */
    uint64_t seed;             /* of election jitter */
    uint64_t incarnation;      /* of this start, see rollback.h */
};

/* Called on the raft loop, never from inside driver_submit(). */
struct driver_observer {
    /* A command was applied here. result is borrowed for the call. */
    void (*applied)(struct driver_observer *observer, uint64_t index, uint64_t term,
                    const void *result, size_t len);
    /* Role, term or known leader may have changed. */
    void (*role_changed)(struct driver_observer *observer);
    /* The configuration in force changed: links have to follow. */
    void (*configuration_changed)(struct driver_observer *observer);
    /* A snapshot replaced the state: applied index jumped to `index`. */
    void (*installed)(struct driver_observer *observer, uint64_t index);
    /* Going on would be unsafe. In the process this must not return. */
    void (*failed)(struct driver_observer *observer, int err, const char *text);
};

/* Where the state stands; conf is owned. */
struct driver_position {
    uint64_t index;
    uint64_t term;
    uint64_t conf_index;
    struct buf conf;
};

/* A frame that waits for a term and vote to be durable. */
struct held_frame {
    STAILQ_ENTRY(held_frame) link;
    uint64_t hard_state; /* sequence number of the write it waits for */
    uint64_t to;
    struct buf payload;
};

/* What peers told and was not believed. */
struct driver_alarm {
    uint64_t count;
    uint64_t unlogged; /* since the last line about it */
    uint64_t logged_ms;
    bool logged;
};

/* Who led the newest term in which this node heard a leader, or led. Of one term there is one. */
struct driver_led {
    uint64_t term; /* 0: none since the start */
    uint64_t id;
};

struct driver {
    struct driver_config config;
    struct raft raft;
    bool started;
    bool failed;
    struct disk *disk;
    struct net *net;
    const struct clock *clock;
    struct fsm *fsm;
    struct driver_observer *observer;
    struct prng prng;
    struct entry_log log;
    uint64_t commit;
    struct driver_position applied; /* in memory */
    struct driver_position durable; /* as the disk has it, for compaction */
    struct fsm_changes held_rows;   /* changed by apply, not on their way to the disk yet */
    uint64_t held_since_ms;         /* UINT64_MAX: nothing is held */
    uint64_t compacted;             /* index of the last snapshot told to the core */
    uint64_t persisted;             /* highest index reported as persisted */
    uint64_t next_tag;              /* of writes */
    uint64_t generation;            /* grows with each install; older writes do not count */
    bool installing;
    uint64_t hard_state_sent; /* sequence numbers of term-and-vote writes */
    uint64_t hard_state_durable;
    STAILQ_HEAD(, held_frame) held;
    uint64_t writes_in_flight;      /* operations whose done is outstanding */
    uint64_t timer_ms;              /* when driver_tick() must fire the core's timer */
    uint64_t leader_heard_ms;       /* driver_leader.c */
    enum leader_doubt leader_doubt; /* since then; and this */
    unsigned drawn_timeout_ms;      /* was the core's timeout before that; 0: it still is */
    uint64_t noop_term;             /* term whose first entry was submitted */
    struct snapshot_transfers transfers;
    struct peer_start start; /* of this node, for its peers */
    struct rollback peers;   /* what this node has seen of them */
    struct plausible plausible;
    struct driver_alarm alarm;
    struct driver_led led;
    /* last seen, to notice changes */
    int seen_state;
    uint64_t seen_term;
    uint64_t seen_leader;
};

/* Nothing of a log was ever in the store. */
bool driver_is_empty(const struct store_loaded *loaded);

/* Such a store, with the mark of a node that joins a cluster: it waits for the log of the others,
 * and must never begin one. */
bool driver_is_joiner(const struct store_loaded *loaded);

/*
 * Make a store ready for a start, in one commit, before the writer runs: its incarnation is counted
 * up (1 for the first start, and for the first of a store from before there was a count); a new one
 * gets entry 1 with the configuration (all members voters, the same on every node) and term 1, or
 * without members the mark of a node that joins; a sole voter gets a new term with its own vote
 * (G11). loaded is changed to match. 0 or the store's error, ERR_CORRUPT (also of a store that was
 * started before, does not join, and has no log), ERR_BAD_VERSION or ERR_IMPLAUSIBLE (plausible.h)
 * for what it holds, ERR_STALE if it was found to be an older copy (driver_mark_older()); then
 * loaded is as it was.
 */
int driver_prepare(struct store *store, struct store_loaded *loaded, uint64_t node_id,
                   const struct net_peer *members, size_t member_count,
                   struct store_error *ret_error) MUST_CHECK;

/*
 * For an operator who asks for it, while no other node runs either: if the store's term is one that
 * driver_prepare() refuses with ERR_IMPLAUSIBLE, put a lower one, without a vote, in its place. It
 * is above all terms in which a node that kept its data can have been elected: LIMIT_PLAUSIBLE_JUMP
 * / 2 above that of the last entry. 0 (also when there was nothing to do); ERR_IMPLAUSIBLE when an
 * entry has such a term, too; or the store's error.
 */
int driver_reset_term(struct store *store, struct store_error *ret_error) MUST_CHECK;

/* All that comes before driver_start(): the rows into the new fsm, what the core needs into loaded
 * (the caller's to release), and driver_prepare(). 0, or an error of the store; then nothing is
 * left but the fsm. */
int driver_load(struct store *store, struct fsm *fsm, uint64_t node_id,
                const struct net_peer *members, size_t member_count,
                struct store_loaded *ret_loaded, struct store_error *ret_error) MUST_CHECK;

/* Take the mark of a node that joins off the disk, behind the log that came. incarnation: of this
 * start. */
void driver_mark_joined(struct driver *driver, uint64_t incarnation);

/* Start from what was loaded; the fsm holds the rows already. Entries are copied. After this,
 * driver_settle() must be called. 0 or ERR_CORRUPT. */
int driver_start(struct driver *driver, const struct driver_config *config, struct disk *disk,
                 struct net *net, const struct clock *clock, struct fsm *fsm,
                 struct driver_observer *observer, const struct store_loaded *loaded) MUST_CHECK;

/* Free all; no write may be in flight. */
void driver_close(struct driver *driver);

/* A payload to append. */
struct driver_command {
    const void *data;
    size_t len;
};

/* Append commands to the log, if this node leads. *ret_first and *ret_term place them; they are
 * applied later, by driver_settle(). 0, ERR_NOT_LEADER (also while leadership is being
 * transferred), ERR_OVERLOADED (too much is uncommitted). n is 1..LIMIT_ENTRIES_PER_FRAME. */
int driver_submit(struct driver *driver, const struct driver_command *commands, unsigned n,
                  uint64_t *ret_first, uint64_t *ret_term) MUST_CHECK;

/* A FRAME_RAFT, FRAME_RESIGN or snapshot frame from a peer. False: malformed, or it says what
 * cannot be. */
bool driver_receive(struct driver *driver, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len);

/* Fire timers that are due. */
void driver_tick(struct driver *driver);

/* Carry on after events: apply what is committed, write rows, compact, submit a new leader's first
 * entry. Call at the end of every turn. True if more is left to apply (call again soon). */
bool driver_settle(struct driver *driver);

/* When driver_tick() is due next. */
uint64_t driver_next_ms(const struct driver *driver);

/* The link to a peer changed. */
void driver_link_changed(struct driver *driver, uint64_t peer, bool up);

/* Nobody listens at a peer's address. If it is the leader, and is not heard for two heartbeats
 * either, this node stands for election in its turn. */
void driver_peer_refused(struct driver *driver, uint64_t peer);

/* Leader and an entry of its own term is applied: may serve reads and proposals. */
bool driver_leads(struct driver *driver);

/* The known leader's id, 0 if none. */
uint64_t driver_leader(struct driver *driver);

/* --- driver_change.c --- */

/* A server as a change is to leave it. */
#define DRIVER_NO_ROLE (-1) /* gone */
struct driver_server {
    uint64_t id;
    const char *address; /* of a new one; borrowed for the call */
    int role;            /* RAFT_STANDBY (also of a new one), RAFT_VOTER or DRIVER_NO_ROLE */
};

/* The server in the configuration in force, or NULL. Borrowed until the next step. */
const struct raft_server *driver_member(const struct driver *driver, uint64_t id);

/* A configuration was appended that is not applied yet: no other may follow. */
bool driver_change_pending(const struct driver *driver);

/* Is the whole log committed? */
bool driver_is_settled(const struct driver *driver);

/* Append a configuration that differs in this one server. 0; ERR_NOT_LEADER (or none of the own
 * term is applied yet, or leadership is being transferred), ERR_CONFLICT (one is pending, or a vote
 * would be taken away and the log is not settled), ERR_INVALID (no voter would be left, too many
 * members, an address twice). */
int driver_change(struct driver *driver, const struct driver_server *server) MUST_CHECK;

/* Begin to watch a standby until it has caught up. None may be under way (RAFT_CATCH_UP_RUNNING).
 * False: not possible now. */
bool driver_catch_up(struct driver *driver, uint64_t id);

/* RAFT_CATCH_UP_NONE, _RUNNING, _ABORTED (too slow) or _FINISHED. */
int driver_caught_up(struct driver *driver, uint64_t id);

/* Hand leadership to a voter (without a target: to the one that is furthest), once it has
 * everything: call repeatedly until it returns true (not leader any more, or nobody to hand it to).
 * New submits are refused from the moment it was asked to take over. */
bool driver_transfer_to(struct driver *driver, uint64_t target);
bool driver_transfer(struct driver *driver);

/* Put the rows that apply has changed so far on their way to the disk now, if there are any: what
 * is written next is not durable without them. more: that follows at once, for the same commit.
 * Never from inside a call of the observer or of a listener of the state machine: an entry may be
 * applied in part there. */
void driver_rows_write(struct driver *driver, bool more);

/* Put a record of this node's own on disk (store.h, STORE_LOCAL); the bytes are copied. done is
 * called when it is durable, or when the driver was quiesced meanwhile. */
void driver_write_local(struct driver *driver, uint32_t key, const void *data, size_t len,
                        void (*done)(void *data), void *done_data);

/* Take no further step: completions of the disk only free memory from here on. */
void driver_quiesce(struct driver *driver);

/* True when the disk owes nothing any more: driver_close() may be called. */
bool driver_is_quiet(const struct driver *driver);

/* A peer is there, and says this of its start. 0; ERR_IMPLAUSIBLE when that cannot be (logged); or
 * ERR_STALE when it has forgotten what this node has seen of it: its data directory is an older
 * copy (logged), and it must not take part. */
int driver_meet(struct driver *driver, uint64_t peer, const struct peer_start *start) MUST_CHECK;

/* This node's own data directory is the older copy: mark it, so that it is refused at each later
 * start. done is called when that is durable. */
void driver_mark_older(struct driver *driver, void (*done)(void *data), void *data);

/* --- driver_trust.c: false if what a peer tells cannot be; then the alarm was raised --- */

/* A term, or an index, that the peer names; field is what the log line calls it. */
bool driver_believes_term(struct driver *driver, uint64_t from, const char *field, uint64_t term);
bool driver_believes_index(struct driver *driver, uint64_t from, const char *field, uint64_t index);

/* Raise the alarm: a field that a peer told is not believed, beside what it may be (bound). */
void driver_disbelieve(struct driver *driver, uint64_t from, const char *field, uint64_t value,
                       uint64_t bound);

/* Used by snapshot.c: send a payload as FRAME_RAFT behind term-and-vote writes, or give the core a
 * message. The message's owned parts are consumed. False: the message is not believed. */
void driver_send(struct driver *driver, uint64_t to, struct buf *payload);
bool driver_deliver_snapshot(struct driver *driver, uint64_t from, struct raft_message *message,
                             struct buf *stream);

#endif
