/*
 * sim_world.h - what the simulated cluster is made of: nodes, links, disks and clocks, events in
 * order of virtual time, the one generator of random choices, and the hash of what happened; and
 * who is a member, as the newest applied configuration says.
 *
 * Failure: sim_fail() prints the seed, the virtual time and what was broken, and ends the process
 * with 1.
 *
 * Thread: one.
 */
#ifndef LEAFD_SIM_SIM_WORLD_H
#define LEAFD_SIM_SIM_WORLD_H

#include "src/service/id_service.h"
#include "src/base/container.h"
#include "src/base/prng.h"
#include "src/base/timers.h"
#include "storage/tests/store_mem.h"

#define BIT(id) (1u << ((id)-1)) /* of a node, in a set of them */
#define BIT_COUNT(bits) ((unsigned)__builtin_popcount(bits))

/* Each node that came so far. */
#define SIM_NODE_FOREACH(node, world)                                                              \
    for (__typeof__(&(world)->nodes[0]) node = (world)->nodes;                                     \
         node < (world)->nodes + (world)->node_count; node++)

/* Each that is a member and not dead. */
#define SIM_LIVING_FOREACH(node, world)                                                            \
    SIM_NODE_FOREACH (node, world)                                                                 \
        if (sim_member_lives(node))

#define SIM_NODES_MAX 8 /* that there ever are: ids never come back */
#define SIM_STORE_DIR_BYTES 64
#define SIM_CONFS_MAX 256    /* configurations of a run */
#define SIM_TAGS 6           /* shared tags that are used, changed, deleted and made again */
#define SIM_TAGS_ALL 9       /* and three whose ids rise over all nodes, always or at times */
#define SIM_STRICT 6         /* always strict */
#define SIM_CHANGING 7       /* of any mode */
#define SIM_MONOTONIC 8      /* monotonic, and strict now and then; not in all runs (sim_mono.h) */
#define SIM_KEYS 200         /* idempotency keys that the cluster holds */
#define SIM_KEY_PERCENT 25   /* of them, that one client may have */
#define SIM_KEY_CLIENTS 3    /* for whom keys count */
#define SIM_STEADY 4         /* the one whose segments all have one size */
#define SIM_FORCED 5         /* the one whose max_id is forced down now and then */
#define SIM_RECENT 8         /* acknowledged tags that are asked for again soon */
#define SIM_FLAKES_MAX 65536 /* ranges of snowflake ids of a run */

/* Layouts of snowflake ids: the cluster's own, one of 10 ms, one of 1 s. Each is a
 * numbering of its own. */
#define SIM_LAYOUTS 3

/* Snowflake ids of one claim, in their plain forms. */
struct sim_flakes {
    unsigned layout;
    struct segment_range range;
};
#define SIM_KEPT_MAX 4096 /* tags made once, which must all be there at the end */
#define SIM_LEVELS_MAX 5  /* that there ever are */
#define SIM_MONO_LEVEL 4  /* that brings monotonic tags */
#define SIM_MONO_SERVED 1 /* a leader hands their ids out */
#define SIM_BULK_TAGS                                                                              \
    1000                /* in one change, all or none; of so many bytes that it is judged and
                              carried out in two turns */
#define SIM_KEPT_STEP 7 /* the step that half of them get once they are acknowledged */

/* The time of day at virtual time 0. */
#define SIM_WALL_MS 1700000000000

enum sim_event_kind {
    SIM_FRAME,   /* a frame arrives */
    SIM_DISK,    /* a group commit ends */
    SIM_WAKE,    /* a node's timer */
    SIM_CLIENT,  /* somebody wants ids */
    SIM_ADMIN,   /* somebody changes or reads tags */
    SIM_FAULT,   /* something breaks or heals */
    SIM_RESTART, /* a crashed node comes back */
    SIM_END,     /* a node dies at once, or stops in order */
    SIM_ALONE,   /* a node is cut off from all others for a while */
    SIM_LATE,    /* an answer that was held back is told */
    SIM_MEMBER,  /* somebody changes the membership, or a disk is lost */
    SIM_JOIN,    /* a new node asks to be let in */
    SIM_DIAL,    /* a node tries to reach another that hung up */
    SIM_REFUSED, /* a node finds that nobody listens at another's address */
    SIM_TOLD,    /* a node hears that it was removed */
    SIM_MONO,    /* somebody wants ids of the monotonic tag */
    SIM_COUNTER, /* somebody adds to a counter, or reads one */
    SIM_STALE,   /* a leader is kept from hearing of the next one */
    SIM_LEVEL,   /* somebody exchanges a node's leafd, or asks for the next level */
    SIM_OLD,     /* a node ends because its leafd is too old */
    SIM_OLDER,   /* a node hears that its disk is an older copy */
    SIM_KINDS
};

struct sim_frame {
    uint64_t from;
    uint64_t from_incarnation;
    bool set_back; /* the sender's disk is an older copy */
    enum frame_type type;
    struct buf payload;
};

struct sim_event {
    struct timer timer;
    struct sim_world *world;
    enum sim_event_kind kind;
    unsigned node;
    uint64_t incarnation; /* the node's; events of an earlier incarnation are dropped */
    struct sim_frame *frame;
    unsigned peer; /* of SIM_DIAL and SIM_REFUSED */
};

struct sim_disk {
    struct disk base;
    struct sim_node *node;
    struct store_op_list queue;
    size_t queued;
    size_t group; /* operations that are being carried out; 0: idle */
    bool low;     /* it says that its space is low */
    uint64_t slow_until_ms;
};

struct sim_world;
struct sim_strict;

/* A request for segments on its way: its answer may be told late. */
struct sim_late {
    STAILQ_ENTRY(sim_late) link;
    struct sim_node *node;
    struct cluster_request *request;
    void (*done)(struct cluster_request *request); /* the allocator's own */
    void *data;
};

/* A copy of a node's disk, and what was last seen on it. */
struct sim_kept {
    struct store *store; /* in memory; NULL: on LMDB, or none */
    uint64_t term;
    uint64_t vote;
    uint64_t incarnation; /* 0: there is no copy */
};

/* A span of time in which a process gets too few turns: its monotonic clock goes so many times
 * slower than the world's. */
struct sim_drift {
    uint64_t from_ms;
    uint64_t until_ms;
    unsigned by; /* 0 or 1: there is none */
};

struct sim_node {
    struct sim_world *world;
    unsigned id; /* 1.. */
    char address[16];
    bool up;
    uint64_t incarnation;
    struct clock clock;
    uint64_t skew_ms; /* of its monotonic clock */
    struct sim_drift drift;
    int64_t wall_offset_ms;
    int64_t wall_highest_ms; /* that it ever had */
    struct store *store;
    struct sim_kept kept[2]; /* copies of its disk, see sim_store.h */
    struct sim_disk disk;
    struct net net;
    struct id_service ids;
    struct service counter; /* in a run with counters, in place of ids */
    struct replica replica;
    struct replica_listener listener;
    uint64_t wake_at_ms;
    uint64_t sent;            /* frames, in all incarnations */
    uint64_t submitted;       /* operations of its disk, likewise */
    uint64_t paused_until_ms; /* the process is stopped, as by SIGSTOP */
    uint64_t frozen_until_ms; /* also of a pause that was ended early: what came comes then */
    uint64_t alone_until_ms;  /* its links stay cut until then, whatever else heals */
    bool handing_over;        /* it is asked to give leadership away */
    bool stopping;            /* it stops in order, not by a crash */
    bool giving_back;         /* its segments, which is the last that it does */
    bool gave_back;
    uint64_t disk_term;   /* that its disk took last, or had at a start */
    uint64_t disk_vote;   /* in that term */
    bool voted_late;      /* the disk had the term already when it took the vote */
    uint64_t before_term; /* that its disk had before disk_term, */
    uint64_t before_vote; /* and the vote in it */
    bool loses_vote;      /* when it ends, unless its disk takes more (sim_lost_vote.h) */
    bool lost_vote;
    bool planted;                 /* its state was made another (sim_planted.h) */
    uint64_t disk_incarnation;    /* last incarnation seen on disk: each start is one */
    STAILQ_HEAD(, sim_late) late; /* answers that are held back */
    uint64_t seen_commit;         /* of this incarnation */
    uint64_t seen_applied;
    uint64_t bulks_digest; /* of the state whose bulks were checked last; 0: none */
    void (*tag_changed)(struct fsm_listener *, const struct tag_row *,
                        const struct fsm_tag_before *); /* the replica's */
    uint32_t generation[SIM_TAGS_ALL]; /* of the row as last seen in this incarnation */
    uint64_t max_id[SIM_TAGS_ALL];
    uint64_t next_epoch[SIM_TAGS_ALL]; /* that next_id belongs to */
    uint64_t next_id[SIM_TAGS_ALL];    /* of this incarnation: no id below it may follow */
    uint64_t floor[SIM_TAGS_ALL];      /* it may hand out no id below, in any incarnation */
    bool opening[SIM_TAGS_ALL];
    bool joins;                        /* it came after the first configuration */
    uint16_t able;                     /* the newest level that its leafd speaks */
    uint16_t ever_able;                /* and the newest of all that it ran */
    uint16_t needed;                   /* it ends, to come back with a leafd that speaks this */
    bool gone;                         /* removed and told, or dead for good */
    struct wire_durable kept_durable;  /* on the older copy of its disk */
    struct wire_durable noted_durable; /* that all others must know by now */
    bool set_back;                     /* its disk is an older copy: others refuse it, */
    bool refused;                      /* and have done so, in this start of it */
    unsigned peers;                    /* with whom it keeps links, a bit an id */
    unsigned met;                      /* who has dialled this incarnation of it, likewise */
    struct learned_peers learned;      /* when it joined */
    uint64_t seen_conf;                /* index of the configuration that was checked last */
    uint64_t seen_change; /* index of the one that was checked for whom it makes a voter */
};

/* A configuration that was applied somewhere; a bit an id. */
struct sim_conf {
    uint64_t index;
    unsigned members;
    unsigned voters;
};

/* Ids of a tag between two moments at which its max_id was forced down: no id twice. */
struct sim_epoch {
    uint32_t from_generation;
    uint64_t *used; /* bitmap of ids handed out */
    uint64_t used_words;
    uint64_t highest_end; /* exclusive end of all ids handed out */
};

/* A range that a node offered to give back; it may come back once. */
struct sim_offer {
    uint64_t first;
    uint64_t end;
    bool taken;
};

/* What the checker knows of a shared tag. */
struct sim_tag {
    char name[32];
    struct sim_epoch *epochs; /* by generation; at least one */
    size_t epoch_count;
    uint64_t acked_max_id;    /* an acknowledged change set it */
    uint32_t generation;      /* the highest that any node has seen */
    uint64_t changed_at;      /* highest index of a change that any node has told of */
    struct sim_offer *offers; /* ranges that nodes have offered to give back */
    size_t offer_count;
};

struct sim_stats {
    uint64_t flakes, flakes_refused, events, frames, frames_lost, commits, crashes, elections, ids,
        puts, bulks, deletes, queries, failed_requests, installs, cuts, pauses, strikes, stops,
        forced, told, dead, changes[MEMBER_ASK_LEAD + 1], strict_ids, strict_again, strict_refused,
        strict_lost, strict_undecided, given_back, repeats, barrier, forwarded, deaf, raises,
        births_at, exchanges, too_old, set_back, lost_votes, by_state, planted, mono_ids,
        mono_stale, stale;
    uint64_t trace; /* a hash of everything that happened */
};

/* A leader and those of its voters of whom something is so, and since when. */
struct sim_voters {
    unsigned who; /* a bit an id, the leader too; 0: it is so of too few */
    uint64_t leader;
    uint64_t term;         /* that it leads */
    uint64_t incarnations; /* of those together */
    uint64_t since_ms;
};

/* A node that reaches such a leader, if only through one of those that work with it. */
struct sim_reach {
    bool reaches;
    uint64_t incarnation; /* of the node */
    uint64_t since_ms;
};

/* What the world's lower parts ask of sim.c, above them. */
struct sim_hooks {
    /* An event, which is the callee's to free or to put off. */
    void (*fire)(struct timer *timer, uint64_t now_ms);
    /* The node does what has become possible, and is checked. */
    void (*turn)(struct sim_node *node);
    /* A frame leaves a node: the worst moment to die is now. */
    void (*sent)(struct sim_node *node, uint64_t to, enum frame_type type,
                 const struct buf *payload);
} BY_NAME;

struct sim_world {
    uint64_t seed;
    const char *store_dir; /* of the stores on LMDB; NULL: in memory */
    uint64_t now_ms;
    struct prng prng;
    bool verbose;
    bool faults; /* false: the quiet end */
    bool clients;
    bool over;   /* events are only freed */
    bool mono;   /* the monotonic tag is used in this run */
    bool counts; /* the machine is that of sim_counter.h; there are no ids */
    struct timers events;
    unsigned first_count; /* of the first configuration */
    unsigned node_count;  /* that came so far */
    struct sim_node nodes[SIM_NODES_MAX];
    bool cut[SIM_NODES_MAX][SIM_NODES_MAX];              /* from, to */
    bool broken[SIM_NODES_MAX][SIM_NODES_MAX];           /* cut, and the first of the two knows */
    uint64_t link_free_ms[SIM_NODES_MAX][SIM_NODES_MAX]; /* frames of a link arrive in order */
    unsigned drop_percent;
    struct sim_tag tags[SIM_TAGS_ALL];
    struct sim_strict *strict;
    uint64_t kept_next;
    bool kept[SIM_KEPT_MAX];       /* acknowledged */
    bool kept_again[SIM_KEPT_MAX]; /* changed after that, which was acknowledged, too */
    uint64_t recent[SIM_RECENT];   /* of those, the latest; a ring */
    uint64_t recent_count;
    struct sim_frame *echo[SIM_NODES_MAX][SIM_NODES_MAX]; /* comes again when the link does */
    uint64_t unheard_until_ms; /* until then nobody hears the others' clocks */
    bool has_time;             /* the log has one, somewhere */
    struct uid uid;            /* of the cluster, as soon as any node has heard of it */
    bool clock_faults; /* clocks are set wrong in this run: then nobody must have ids at the end */
    struct sim_flakes *flakes;
    size_t flake_count;
    bool flake_served[SIM_NODES_MAX]; /* in the quiet end */
    uint64_t *digests;                /* by index; 0: not seen */
    uint64_t digest_capacity;
    uint64_t *leaders; /* by term */
    uint64_t leader_capacity;
    unsigned requests_open;
    uint16_t newest;  /* level that a leafd of this run may speak */
    bool exchanges;   /* leafds are exchanged for ones that speak another level */
    bool born_late;   /* and the first ones speak the newest one or the one before it */
    uint16_t level;   /* the highest that any node has applied */
    uint32_t hold_ms; /* see membership.h */
    bool level_auto;
    uint64_t old_one;   /* the node whose leafd is not exchanged while things go wrong; 0: none */
    bool member_faults; /* the membership changes in this run */
    unsigned removed;   /* ids that some state machine holds for removed; a bit an id, as below */
    unsigned given_up;  /* some change of it was given up */
    unsigned unwanted;  /* somebody wants it removed */
    unsigned told_removed; /* and was told that it is so */
    unsigned told_added;
    struct sim_conf confs[SIM_CONFS_MAX]; /* by index */
    size_t conf_count;
    struct sim_voters calm; /* a majority that can work with its leader */
    struct sim_reach reach[SIM_NODES_MAX];
    struct sim_voters deaf; /* a majority that hears its leader and each other, and it hears none */
    uint64_t quiet_until_ms; /* nothing more goes wrong until then: what is wrong lasts */
    const struct sim_hooks *hooks;
    struct sim_stats stats;
};

/* An event to come. */
void sim_schedule(struct sim_world *world, uint64_t in_ms, struct sim_event event);
/* One that concerns this incarnation of a node. */
void sim_happens(struct sim_node *node, enum sim_event_kind kind, uint64_t in_ms);

void sim_trace(const struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
_Noreturn void sim_fail(const struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Into the hash of what happened. */
void sim_note(struct sim_world *world, uint64_t what);
uint64_t sim_below(struct sim_world *world, uint64_t bound);
bool sim_percent(struct sim_world *world, unsigned percent);

/* By the world's hooks. */
void sim_turn(struct sim_node *node);
/* Does nothing more go wrong for a while? */
bool sim_is_quiet(const struct sim_world *world);
/* Up, and not paused. */
bool sim_node_runs(const struct sim_node *node);
/* A node reaches another, both ways. */
bool sim_reaches(const struct sim_node *from, const struct sim_node *to);
/* One by chance; the other draw gives NULL if that one does not run. */
struct sim_node *sim_any_node(struct sim_world *world);
struct sim_node *sim_any_running(struct sim_world *world);

/* Somebody leads a later term than this one. */
bool sim_is_led_later(const struct sim_world *world, uint64_t term);

/* The node whose configuration is the newest that is applied. NULL: none is up. */
const struct sim_node *sim_newest(const struct sim_world *world);
/* The configuration that a node has applied. */
struct sim_conf sim_configuration_of(const struct sim_node *node);
/* A member that is not dead. */
bool sim_member_lives(const struct sim_node *node);

#endif
