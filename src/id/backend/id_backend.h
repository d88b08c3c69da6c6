/*
 * id_backend.h - the interface between http/ and raft/: the HTTP side's requests to the cluster.
 *
 * http/ knows only this; raft/ implements it (raft/node/node.c), and tests provide a fake. Ids
 * themselves do not pass here: an HTTP loop claims them from the id table. It calls the backend
 * only when it needs a refill, does not know a tag, or has an admin request.
 *
 * Threads: as each function says.
 */
#ifndef LEAFD_ID_BACKEND_ID_BACKEND_H
#define LEAFD_ID_BACKEND_ID_BACKEND_H

#include <pthread.h>

#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/base/stats.h"
#include "src/id/alloc/id_table.h"
#include "src/id/codec/command.h"
#include "src/id/codec/request.h"
#include "src/id/snowflake/snowflake.h"
#include "src/state/codec/cluster_command.h"

/* A number that this node does not know. */
#define ID_UNKNOWN UINT64_MAX

enum id_node_state {
    ID_NODE_STARTING,
    ID_NODE_FOLLOWER,
    ID_NODE_CANDIDATE,
    ID_NODE_LEADER,
    ID_NODE_STOPPING,
    ID_NODE_STATES
};

/* "follower" */
static inline const char *id_node_state_name(enum id_node_state state)
{
    static const char *const names[ID_NODE_STATES] = {[ID_NODE_STARTING] = "starting",
                                                      [ID_NODE_FOLLOWER] = "follower",
                                                      [ID_NODE_CANDIDATE] = "candidate",
                                                      [ID_NODE_LEADER] = "leader",
                                                      [ID_NODE_STOPPING] = "stopping"};

    ASSERT(state < ID_NODE_STATES);
    return names[state];
}

/* What a client may expect of a member (GET /api/nodes). */
enum id_serving {
    ID_SERVING_READY,
    ID_SERVING_DRAINED,
    ID_SERVING_NOT_READY,
    ID_SERVING_UNREACHABLE,
    ID_SERVINGS
};

/* "not_ready" */
static inline const char *id_serving_name(enum id_serving serving)
{
    static const char *const names[ID_SERVINGS] = {[ID_SERVING_READY] = "ready",
                                                   [ID_SERVING_DRAINED] = "drained",
                                                   [ID_SERVING_NOT_READY] = "not_ready",
                                                   [ID_SERVING_UNREACHABLE] = "unreachable"};

    ASSERT(serving < ID_SERVINGS);
    return names[serving];
}

/* A member, as this node sees it. */
struct id_member {
    uint64_t id;
    char peer_address[LIMIT_ADDRESS_BYTES + 1];
    char http_address[LIMIT_ADDRESS_BYTES + 1]; /* "" until it registered */
    char version[32];                           /* "" until it registered */
    struct level_range levels;                  /* zeros until it registered */
    char role[12];                              /* "voter" or "standby" */
    struct placement placement;
    enum id_serving serving; /* as far as this node knows */
    bool has_snowflake;      /* it serves snowflake ids */
    bool reachable;          /* this node has a link to it (itself: true) */
    bool has_match;          /* this node leads, and knows: */
    uint64_t match_index;    /* up to where its log is the same; else 0 */
    /* ID_UNKNOWN: not known here */
    uint64_t lag; /* committed, and not on its disk yet; of itself: not applied */
    uint64_t
        round_trip_us; /* of the link to it, if it answered in the last CLOCK_SAMPLE_FRESH_MS */
    uint64_t last_heard_ms;  /* how long ago it answered; of itself 0 */
    bool has_clock_offset;   /* it answered lately, and fast enough to be exact: */
    int64_t clock_offset_ms; /* its clock minus this node's */
};

/* The membership change that is under way, or was given up last. */
struct id_member_change {
    const char *kind;  /* "add" or "remove"; NULL: none. Static text */
    const char *state; /* "under_way" or "given_up" */
    uint64_t node_id;
    char peer_address[LIMIT_ADDRESS_BYTES + 1]; /* of a node that is added */
};

struct id_cluster_status {
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    struct uid uid; /* none: this node does not know the cluster's birth */
    uint64_t node_id;
    enum id_node_state state;
    uint64_t leader_id; /* 0: none known */
    uint64_t term;
    uint64_t commit_index;
    uint64_t applied_index;
    struct level_row level; /* in force here; index 0: it was never raised */
    size_t member_count;
    struct id_member members[LIMIT_NODES];
    struct id_member_change change;
    char prefer_zone[LIMIT_ZONE_BYTES + 1]; /* in this node's settings; "": none */
};

/* The ids of some tags that the members hold. Each page has the first `limit` of the node's own
 * tags: a tag after the last of a page with `more` may be missing there. */
struct id_buffers {
    size_t count;
    struct id_node_buffers {
        uint64_t node_id;
        bool asked;                   /* false: it cannot be reached, or the level is too low */
        bool answered;                /* it has a page */
        struct id_segments_page page; /* the caller frees its items */
    } nodes[LIMIT_NODES + 1];         /* also this node, even if no longer a member */
};

/* A backup (backup_file.h) that is taken part by part: each request gets the next bytes. ERR_*:
 * there is none (any more), or ERR_OVERLOADED: another is being taken on this node. The caller that
 * began one requests parts until `end`, or closes it. Without a request for LIMIT_BACKUP_IDLE_MS it
 * is over. */
struct id_backup {
    bool local;      /* first request: this node's state, however old */
    bool close;      /* give it up; no bytes */
    uint64_t number; /* 0: begin; filled in then, and given again with each further request */
    bool end;        /* filled in: these are the last */
};

/* Settings that differ from the log's; each is a bit. */
enum id_difference {
    ID_DIFFERS_MEMBERS = 1 << 0, /* cluster.members */
    ID_DIFFERS_ADDRESS = 1 << 1, /* peer.advertise, or its default */
    ID_DIFFERS_LAYOUT = 1 << 2   /* snowflake.layout */
};
#define ID_DIFFERENCES 3

/* The setting of bit i, 0..ID_DIFFERENCES - 1. */
static inline const char *id_difference_setting(unsigned i)
{
    static const char *const settings[ID_DIFFERENCES] = {"cluster.members", "peer.advertise",
                                                         "snowflake.layout"};

    return settings[i];
}

/* Percentages of the memory that the state may take. From the first on there is an alarm, from the
 * second on a critical one. */
#define ID_STATE_HIGH_PERCENT 80
#define ID_STATE_NEARLY_FULL_PERCENT 95

/* Figures of the node that any thread may read at any time. Written by the raft loop (and
 * `stopping` by main). */
struct id_health {
    _Atomic bool joining;             /* the node is no member yet: it waits for admission */
    _Atomic bool started;             /* the log is loaded and the core runs */
    _Atomic bool leader_known;        /* or a member through which it is reached, namely: */
    _Atomic uint64_t leader_through;  /* this one; 0: directly, or not at all */
    _Atomic bool applied_once;        /* the state is at least as new as this node's last stop */
    _Atomic bool disk_low;            /* or stands still: new proposals are refused */
    _Atomic uint64_t state_bytes;     /* memory of the state, and */
    _Atomic uint64_t state_max_bytes; /* how much it may take; 0: no bound */
    _Atomic uint64_t state_tags;      /* live ones */
    _Atomic uint64_t state_dead;      /* tombstones */
    _Atomic uint64_t state_keys;
    _Atomic uint64_t implausible;           /* implausible messages of peers, since the start */
    _Atomic uint32_t members;               /* of the configuration in force here */
    _Atomic uint32_t voters;                /* of these */
    _Atomic bool member_change;             /* one is under way */
    _Atomic unsigned differs;               /* bits of enum id_difference */
    _Atomic uint32_t level;                 /* in force here */
    _Atomic uint32_t level_able;            /* the newest that this node speaks */
    _Atomic bool stopping;                  /* no more requests are accepted */
    _Atomic bool drained;                   /* new work goes to others, see struct placement */
    struct stall stall;                     /* how long the turns of the raft loop take */
    _Atomic uint64_t segments_held;         /* tags with ids in memory, a recent count */
    _Atomic uint64_t burnt[ID_BURN_CAUSES]; /* by the raft loop: SKIPPED and UNANSWERED are the
                                               HTTP loops' own */
    _Atomic uint64_t given_back;            /* ids */
    _Atomic uint64_t
        uid_high; /* of the cluster (cluster_command.h); if either is 0, it is not known */
    _Atomic uint64_t uid_low;
    /* The nodes it waits for until the cluster's birth, id << 8 | enum birth_wait each; then 0. */
    _Atomic uint32_t birth_waits[LIMIT_NODES];
    /* snowflake ids */
    _Atomic int snowflake_refusal;        /* 0, or the ERR_* that every claim gets now */
    _Atomic int64_t clock_off_ms;         /* own clock against the cluster's */
    _Atomic int64_t clock_line_ms;        /* the cluster's time minus the monotonic clock */
    _Atomic uint64_t clock_wait_until_ms; /* wall time being waited for; 0: none */
};

#define ID_CLOCK_UNKNOWN INT64_MIN /* clock_line_ms: not known since the start */

/* The cluster's time, which a step of the own wall clock does not change; that clock's until it is
 * known. */
static inline uint64_t id_health_now_ms(const struct id_health *health, const struct clock *clock)
{
    int64_t line_ms = atomic_load_explicit(&health->clock_line_ms, memory_order_relaxed);

    return line_ms != ID_CLOCK_UNKNOWN ? clock_now_ms(clock) + (uint64_t)line_ms
                                       : clock_wall_ms(clock);
}

/* A counter of any thread, as of now. */
static inline uint64_t id_count_of(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* False: the cluster's birth is not known here. */
static inline bool id_health_uid(const struct id_health *health, struct uid *ret_uid)
{
    ret_uid->high = atomic_load_explicit(&health->uid_high, memory_order_relaxed);
    ret_uid->low = atomic_load_explicit(&health->uid_low, memory_order_relaxed);
    return ret_uid->high != 0 && ret_uid->low != 0; /* it never changes once set */
}

/* The conditions of readiness, in the order of id_health_lacks()'s bits. */
enum id_need {
    ID_NEED_MEMBER,  /* it is a member */
    ID_NEED_STARTED, /* the log is loaded */
    ID_NEED_APPLIED,
    ID_NEED_SERVING, /* it is not stopping */
    ID_NEED_IDS,     /* it holds some, or can get some */
    ID_NEED_BORN,
    ID_NEED_UNDRAINED,
    ID_NEEDS
};

/* Why the node is not ready: 1 << enum id_need each; 0: it is ready. Any thread. */
static inline unsigned id_health_lacks(const struct id_health *health)
{
    bool grants = atomic_load(&health->leader_known) && !atomic_load(&health->disk_low);
    struct uid uid;

    if (atomic_load(&health->joining)) {
        return 1U << ID_NEED_MEMBER;
    }
    return (atomic_load(&health->started) ? 0 : 1U << ID_NEED_STARTED) |
           (atomic_load(&health->applied_once) ? 0 : 1U << ID_NEED_APPLIED) |
           (atomic_load(&health->stopping) ? 1U << ID_NEED_SERVING : 0) |
           (grants || atomic_load(&health->segments_held) > 0 ? 0 : 1U << ID_NEED_IDS) |
           (id_health_uid(health, &uid) ? 0 : 1U << ID_NEED_BORN) |
           (atomic_load(&health->drained) ? 1U << ID_NEED_UNDRAINED : 0);
}

/*
 * --- id_figures: a node's measurements of itself and of the cluster, once a second, for /metrics
 * and other displays. (Values read at every request are in struct id_health.)
 *
 * The happy path: the raft loop fills in a struct id_figures and puts it into the box; any thread
 * takes a copy, at most a second old while the node has work, without asking the raft loop, even if
 * that loop hangs.
 *
 * Failure modes: none. The lock is held while a few kB are copied.
 *
 * Thread: put: the raft loop; copy: any.
 */

#define ID_BUSIEST_TAGS 20

/* One of the busiest tags of this node. */
struct id_tag_figures {
    char name[LIMIT_TAG_NAME_BYTES + 1];
    uint16_t name_len;
    double per_s;     /* ids, by this node, recently */
    double ends_s;    /* until its ids end, at the rate of all nodes */
    uint64_t lasts_s; /* of this node's ids; UINT64_MAX: it has no segments */
    uint32_t cover_s; /* the least that they should last; 0: not set */
    bool is_short;    /* they last less, even after refills (src/id/alloc/allocator.h) */
};

/* The data directory and its file, as last seen by the writer; zeros: not known. */
struct id_disk_figures {
    uint64_t map_bytes;           /* most that the file may grow to: data.map-bytes */
    uint64_t used_bytes;          /* of it */
    uint64_t disk_bytes;          /* of the file system */
    uint64_t disk_free_bytes;     /* for the file: by quotas and RLIMIT_FSIZE too */
    const char *bound;            /* while low: what is nearly full; NULL: not known, or the disk
                                     stands still */
    uint64_t stood_s;             /* it has finished nothing of what waits; of a hung disk */
    uint64_t views_ended;         /* backups and snapshots ended to free space, since the start */
    struct histogram_view commit; /* from a commit's first operation until it is durable */
    struct histogram_view flush;  /* of this, write and sync */
};

/* Backups taken of this node since its start. */
struct id_backup_figures {
    uint64_t taken;
    uint64_t failed;     /* begun, and given up */
    uint64_t last_ms;    /* wall time when the last one completed; 0: none did */
    uint64_t last_bytes; /* of that one */
};

struct id_figures {
    unsigned role;      /* enum id_node_state */
    uint64_t leader_id; /* 0: none known */
    uint64_t term;
    uint64_t commit_index;
    uint64_t applied_index;
    uint64_t last_index;          /* of the log, */
    uint64_t log_entries;         /* that it has in memory, */
    uint64_t log_bytes;           /* and their bytes */
    uint64_t elections;           /* in which this node was a candidate, since its start */
    uint64_t leaderships;         /* and won */
    uint64_t snapshots_sent;      /* to others, whole */
    uint64_t snapshots_received;  /* and installed */
    uint64_t compactions;         /* cuts of the log up to rows on the disk */
    uint64_t workers;             /* worker ids that are held */
    uint64_t worker_names_shared; /* names that hold several now */
    uint64_t requests_pending;    /* held by this node for the cluster */
    uint64_t refills_in_flight;   /* tags */
    uint64_t ids_granted;         /* in segments, to this node */
    uint64_t covers_short;        /* tags that last less than their cover_s, even after refills */
    uint64_t windows;             /* of monotonic tags, held by this node as the leader, */
    uint64_t window_ids;          /* ids left in them */
    uint64_t window_entries;      /* log entries that asked for more windows */
    uint64_t window_waits;        /* batches that waited for a window */
    uint64_t rounds_confirmed;    /* rounds that confirmed its leadership, */
    uint64_t rounds_abandoned;    /* and rounds that did not */
    struct histogram_view refill; /* from the request to the segment */
    struct histogram_view strict; /* from the request to its ids, or its refusal */
    struct id_disk_figures disk;
    struct id_backup_figures backups;
    size_t member_count;
    struct id_member members[LIMIT_NODES];
    size_t busiest_count;
    struct id_tag_figures busiest[ID_BUSIEST_TAGS]; /* fastest first */
};

struct id_figures_box {
    pthread_mutex_t mutex;
    struct id_figures now;   /* guarded by mutex, as the next field */
    struct client_cuts cuts; /* set when they change, before loops are woken (id_waker) */
};

static inline void id_figures_put(struct id_figures_box *box, const struct id_figures *figures)
{
    (void)pthread_mutex_lock(&box->mutex);
    box->now = *figures;
    (void)pthread_mutex_unlock(&box->mutex);
}

static inline void id_figures_copy(struct id_figures_box *box, struct id_figures *ret_figures)
{
    (void)pthread_mutex_lock(&box->mutex);
    *ret_figures = box->now;
    (void)pthread_mutex_unlock(&box->mutex);
}

static inline void id_cuts_put(struct id_figures_box *box, const struct client_cuts *cuts)
{
    (void)pthread_mutex_lock(&box->mutex);
    box->cuts = *cuts;
    (void)pthread_mutex_unlock(&box->mutex);
}

static inline void id_cuts_copy(struct id_figures_box *box, struct client_cuts *ret_cuts)
{
    (void)pthread_mutex_lock(&box->mutex);
    *ret_cuts = box->cuts;
    (void)pthread_mutex_unlock(&box->mutex);
}

/* --- id_backend --- */

struct id_backend;

struct id_backend_ops {
    /* Take the request; done will be called (on the thread that request.h names). Any thread. */
    void (*submit)(struct id_backend *backend, struct cluster_request *request);
    /* The tag needs a refill: the caller has just set tag->refill_wanted from false to true. Any
     * thread; cheap; never blocks. */
    void (*want)(struct id_backend *backend, struct id_tag *tag);
    /* snowflake_claim() set *ret_notify: the raft loop must look at snowflake->wanted. Any thread;
     * cheap; never blocks. */
    void (*notify)(struct id_backend *backend);
} BY_NAME;

struct id_backend {
    const struct id_backend_ops *ops;
    struct id_table *table;      /* shared, see id_table.h */
    struct snowflake *snowflake; /* shared, see snowflake.h; NULL: switched off */
    const struct id_health *health;
    struct id_figures_box *figures; /* NULL: nothing is measured (tests) */
    const struct clock *clock;
    uint32_t refill_percent; /* when claimers ask for a refill; default REFILL_DEFAULT_PERCENT */
};

#endif
