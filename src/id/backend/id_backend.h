/*
 * id_backend.h - the seam between http/ and raft/: what the HTTP side may ask of the cluster.
 *
 * http/ knows only this; raft/ implements it (raft/node/node.c), and tests give a fake. Ids
 * themselves do not pass here: an HTTP loop claims them from the id table, and comes here only when
 * it needs a refill, does not know a tag, or has an admin request.
 *
 * Threads: as each function says.
 */
#ifndef LEAFD_ID_BACKEND_ID_BACKEND_H
#define LEAFD_ID_BACKEND_ID_BACKEND_H

#include <sys/queue.h>

#include "src/base/clock.h"
#include "src/id/codec/command.h"
#include "src/id/alloc/id_table.h"
#include "src/id/snowflake/snowflake.h"

enum id_request_kind {
    ID_REQUEST_COMMAND,  /* payload: a command (command.h); reply: its result */
    ID_REQUEST_QUERY,    /* payload: a query; reply: its result; linearizable unless local */
    ID_REQUEST_OPEN,     /* payload: a tag's name; afterwards the id table holds it. Status 0 or
                           ERR_UNKNOWN_TAG; asks the leader before it says unknown */
    ID_REQUEST_STATUS,   /* out: struct id_cluster_status, filled from this node's view */
    ID_REQUEST_SEGMENTS, /* payload: a QUERY_TAG_LIST; out: struct id_segments_page */
    ID_REQUEST_STRICT,   /* payload: strict_item_encode(); reply: strict_results_encode() of one
                            result, also when status says what that result's does (the details of
                            an ERR_KEY_CONFLICT, ERR_KEYS_FULL, ERR_CHANGING, ERR_EXHAUSTED);
                            empty when the request never got as far */
    ID_REQUEST_MEMBER,   /* payload: a member_ask; reply: a member_answer, which says PENDING if the
                         deadline comes before the end */
    ID_REQUEST_EVERYWHERE /* index: of an entry of the log. Status 0 once all members have applied
                             it; else ERR_TIMEOUT, ERR_OVERLOADED (LIMIT_EVERYWHERE_WAITS) or
                             ERR_SHUTTING_DOWN; out: struct id_missing, who has not, as far as this
                             node knows. The reply is left as it is */
};

/*
 * One request. The caller owns the struct until done is called, exactly once, on the raft loop's
 * thread, never from inside submit. Repeated internally (through elections) until deadline_ms.
 * Status: 0, or what the kind says, or ERR_NO_LEADER (no leader until the deadline), ERR_TIMEOUT
 * (sent, no answer until the deadline), ERR_OVERLOADED, ERR_DISK_FULL, ERR_TOO_LARGE,
 * ERR_SHUTTING_DOWN.
 */
struct id_request {
    enum id_request_kind kind;
    bool local;           /* ID_REQUEST_QUERY: this node's state, however old */
    uint64_t deadline_ms; /* on the backend's clock (clock_now_ms) */
    struct buf payload;   /* owned by the request */
    struct buf reply;     /* filled by the backend; owned by the request */
    void *out;            /* caller's struct, for STATUS, SEGMENTS and EVERYWHERE */
    uint64_t index;       /* COMMAND: of its entry, filled by the backend with status 0 */
    int status;
    void (*done)(struct id_request *request);
    void *data; /* the caller's */
    /* Of a COMMAND: the caller has stamped it. The backend then repeats it as any other, and
     * counts it as none of its own session. */
    bool stamped;
    /* Of a COMMAND or MEMBER: done leaves its number awaited. The caller submits the request again,
     * with another payload and the same number, or ends that by requests_release(). */
    bool keeps_seq;
    /* the backend's own while it holds the request */
    TAILQ_ENTRY(id_request) link;
    uint64_t seq;    /* its number in this node's session, 0: none (session.h) */
    uint64_t lowest; /* of its stamp */
    uint64_t id;
    uint64_t sent_to;
    uint64_t sent_ms;
};

enum id_node_state {
    ID_NODE_STARTING,
    ID_NODE_FOLLOWER,
    ID_NODE_CANDIDATE,
    ID_NODE_LEADER,
    ID_NODE_STOPPING
};

struct id_member {
    uint64_t id;
    char peer_address[LIMIT_ADDRESS_BYTES + 1];
    char http_address[LIMIT_ADDRESS_BYTES + 1]; /* "" until it registered */
    char version[32];                           /* "" until it registered */
    char role[12];                              /* "voter" or "standby" */
    bool reachable;                             /* this node has a link to it (itself: true) */
    uint64_t match_index;                       /* known on the leader; else 0 */
};

/* The change of the membership that is under way, or was given up last. */
struct id_member_change {
    const char *kind;  /* "add" or "remove"; NULL: none. Static text */
    const char *state; /* "under_way" or "given_up" */
    uint64_t node_id;
    char peer_address[LIMIT_ADDRESS_BYTES + 1]; /* of a node that is added */
};

struct id_cluster_status {
    char cluster_id[LIMIT_CLUSTER_ID_BYTES + 1];
    uint64_t node_id;
    enum id_node_state state;
    uint64_t leader_id; /* 0: none known */
    uint64_t term;
    uint64_t commit_index;
    uint64_t applied_index;
    size_t member_count;
    struct id_member members[LIMIT_NODES];
    struct id_member_change change;
};

struct id_segment_info {
    char name[LIMIT_TAG_NAME_BYTES + 1];
    uint16_t name_len;
    uint32_t state;                    /* enum id_tag_state */
    struct segment_slot_view slots[2]; /* 0: current */
    uint32_t step;                     /* last segment's size; 0 when none came yet */
    bool refill_in_flight;
    uint64_t last_refill_ago_ms; /* UINT64_MAX: never */
    uint64_t rate_per_s;
};

/* Members that have not applied an entry, as far as this node knows. */
struct id_missing {
    size_t count;
    struct {
        uint64_t id;
        bool reachable;       /* this node has a link to it */
    } nodes[LIMIT_NODES + 1]; /* also this node, should it be no member any more */
};

/* Why ids were burnt: granted to this node and handed to nobody. A crash burns what was in memory;
 * nobody is left to count that. */
enum id_burn_cause {
    ID_BURN_GENERATION, /* the tag was deleted, forced down, or became strict */
    ID_BURN_LATE,       /* a grant came after it had been given up, or did not fit */
    ID_BURN_STOP,       /* left in memory at a clean stop, and not to be given back */
    ID_BURN_STRICT,     /* allocated for strict requests that had been answered with an error */
    ID_BURN_SKIPPED,    /* too few in one piece for contiguous=1 */
    ID_BURN_UNANSWERED, /* claimed for a request that failed afterwards */
    ID_BURN_CAUSES
};

struct id_segments_page {
    struct id_segment_info *items; /* malloc'ed by the backend, freed by the caller */
    size_t count;
    bool more;
};

/* What any thread may read of the node at any time. Written by the raft loop (and `stopping` by
 * main). */
struct id_health {
    _Atomic bool started;            /* the log is loaded and the core runs */
    _Atomic bool leader_known;       /* or a member through which it is reached: */
    _Atomic uint64_t leader_through; /* this one; 0: directly, or not at all */
    _Atomic bool applied_once;       /* the state is at least as new as this node's last stop */
    _Atomic bool disk_low;           /* new proposals are refused */
    _Atomic uint64_t implausible;    /* what peers told and cannot be, since the start */
    _Atomic uint32_t members;        /* of the configuration in force here */
    _Atomic uint32_t voters;         /* of these */
    _Atomic bool member_change;      /* one is under way */
    _Atomic bool stopping;           /* draining */
    _Atomic uint64_t segments_held;  /* tags with ids in memory, a recent count */
    _Atomic uint64_t burnt[ID_BURN_CAUSES]; /* by the raft loop: SKIPPED and UNANSWERED are the
                                               HTTP loops' own */
    _Atomic uint64_t given_back;            /* ids */
    /* snowflake ids */
    _Atomic int snowflake_refusal;        /* 0, or the ERR_* that every claim gets now */
    _Atomic int64_t clock_off_ms;         /* own clock against the cluster's */
    _Atomic uint64_t clock_wait_until_ms; /* wall time that is waited for; 0: none */
};

struct id_backend;

struct id_backend_ops {
    /* Take the request; done will be called. Any thread. */
    void (*submit)(struct id_backend *backend, struct id_request *request);
    /* The tag needs a refill: the caller has just set tag->refill_wanted from false to true. Any
     * thread; cheap; never blocks. */
    void (*want)(struct id_backend *backend, struct id_tag *tag);
    /* snowflake_claim() said *ret_notify: the raft loop is to look at snowflake->wanted. Any
     * thread; cheap; never blocks. */
    void (*notify)(struct id_backend *backend);
};

/*
 * Told when parked requests of a tag should try again: a segment was published, or the tag's state
 * changed. Called on the raft loop with the bits of waiting_loops that were set (and are now
 * cleared).
 */
struct id_waker {
    void (*wake)(struct id_waker *waker, struct id_tag *tag, uint64_t loops);
};

struct id_backend {
    const struct id_backend_ops *ops;
    struct id_table *table;      /* shared, see id_table.h */
    struct snowflake *snowflake; /* shared, see snowflake.h; NULL: switched off */
    const struct id_health *health;
    const struct clock *clock;
    uint32_t refill_percent; /* when claimers ask for a refill; default REFILL_DEFAULT_PERCENT */
};

#endif
