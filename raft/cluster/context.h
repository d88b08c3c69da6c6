/*
 * context.h - what every part of a replica uses: driver, links, disk, clock, timers, state.
 *
 * The replica fills it in once, before its parts start; they keep a pointer to it, as `on`.
 *
 * It also names the parts of a turn. A part runs when an event or a timer has woken it
 * (context_wake(), timer.wakes), and at no other time; its header says what wakes it. Some events
 * wake all parts: an applied entry, another role, term, leader or configuration, and a link that
 * comes or goes.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_CONTEXT_H
#define LEAFD_RAFT_CLUSTER_CONTEXT_H

#include "raft/cluster/service.h"
#include "raft/core/driver.h"
#include "raft/wire/wire.h"
#include "src/base/container.h"
#include "src/base/timers.h"

enum {
    WAKE_BIRTHS = 1u << 0,
    WAKE_BARRIER = 1u << 1,
    WAKE_COMPARE = 1u << 2,
    WAKE_MEMBERS = 1u << 3, /* peers, and membership */
    WAKE_SELF = 1u << 4,    /* the log's record of this node */
    WAKE_ANNOUNCE = 1u << 5,
    WAKE_UPGRADE = 1u << 6,
    WAKE_CLOCK_SYNC = 1u << 7,
    WAKE_REQUESTS = 1u << 8, /* requests, leader_route, serving, rounds */
    WAKE_SEEN = 1u << 9,     /* of the service: the status that others see */
    WAKE_SERVICE_FIRST = 10, /* its other parts: the number of the first of their bits */
    WAKE_LAST = 15,
    WAKE_ALL = (1u << (WAKE_LAST + 1)) - 1,
    WAKE_SERVICE = WAKE_ALL & ~(WAKE_SEEN - 1u)
};

/* Events of this node for the process; NULL for those that are not wanted. On the loop, but for
 * failed. What the service must hear of is in service_ops. */
struct replica_listener {
    /* To continue would be unsafe. In the process this must not return; any thread. */
    void (*failed)(struct replica_listener *listener, int err, const char *text);
    /* This node begins to ask for admission, before node_start() returns. On the caller's
     * thread. */
    void (*joining)(struct replica_listener *listener);
    /* Before `failed` or `removed`, if this node knows of no birth: the cluster knows its id with
     * other data, or has removed it, and this node has no data. May not return. */
    void (*lost)(struct replica_listener *listener);
    /* The cluster has removed this node, and its id cannot be used again: the node must be stopped.
     * May come several times. */
    void (*removed)(struct replica_listener *listener);
    /* Role, term or leader changed. */
    void (*role_changed)(struct replica_listener *listener);
    /* The leader is reached through this member from now on; 0: directly. */
    void (*route_changed)(struct replica_listener *listener, uint64_t through);
    /* A snapshot replaced the state. */
    void (*installed)(struct replica_listener *listener, uint64_t index);
} BY_NAME;

/* Call what the listener has for an event: NOTIFY(on, failed, err, text). */
#define NOTIFY(on, event, ...)                                                                     \
    do {                                                                                           \
        if ((on)->listener->event != NULL) {                                                       \
            (on)->listener->event((on)->listener, ##__VA_ARGS__);                                  \
        }                                                                                          \
    } while (0)

/* The clock of a member: the last question about it, and the last answer. */
struct clock_link {
    uint64_t sent_ms;     /* the last question, */
    uint64_t sent_us;     /* by a finer clock */
    uint64_t answered_ms; /* 0: never */
    uint64_t rtt_us;      /* of the question that was answered last */
    uint8_t serves;       /* as the answer says: bits of enum wire_serves; 0: it does not say */
};

/* What the parts of this node know of another member since this start; each part alone writes its
 * fields. Nothing yet: zeros, and BIRTH_WAIT_UNMET. */
struct peer_row {
    uint64_t id; /* 0: a free place */
    /* birth_watch: */
    enum birth_wait birth_wait;
    uint16_t birth_level; /* the newest that it speaks, by its last handshake; 0: not known */
    /* rounds: the newest that it was asked, and that it has answered */
    uint64_t round_asked;
    uint64_t round_answered;
    uint64_t applied; /* barrier: lower bound of the index that it has applied */
    struct clock_link clock;
    /* compare: its answer to the question of this number, an enum wire_compared_kind; and the
     * newest index at which it reported another state */
    uint64_t compare_number;
    uint8_t compare_said;
    uint64_t compare_index;
};

/* --- settings --- */

/* A node without worker ids of its own also keeps the time: others may register worker ids. */
struct clock_sync_config {
    uint32_t threshold_ms; /* of the checks of this node's clock; 0: it only answers */
    uint32_t renew_ms;     /* how often the leader appends the time; > 0 where threshold_ms is */
};

/* When the level of the cluster rises automatically (membership.h). */
struct upgrade_config {
    uint32_t hold_ms; /* time that all members must have supported the next level */
    bool automatic;   /* false: only on request */
};

struct replica_config {
    struct driver_config driver;
    struct node_info info;   /* what this node registers; node_id 0: nothing */
    const char *zone;        /* of this node; "" or NULL: none. Borrowed */
    const char *prefer_zone; /* whose members lead, if they can; "" or NULL: none. Borrowed */
    uint32_t digest_ms;      /* how often the leader has digests compared; 0: never */
    const char *cluster_id;  /* borrowed */
    uint64_t memory_bytes;   /* bound of the state; 0: none */
    bool replace_lost;       /* see peers.h */
    struct clock_sync_config clock;
    struct upgrade_config upgrade;
    uint32_t catch_up_ms;           /* patience with a change of the membership, see membership.h */
    const struct net_peer *members; /* cluster.members of the settings; borrowed */
    size_t member_count;            /* 0: not set */
    const struct learned_peers *learned; /* see peers_init(); borrowed for the start */
};

struct raft_context {
    const struct replica_config *config;
    struct driver *driver;
    struct net *net;
    struct disk *disk;
    const struct clock *clock;      /* constant during a step of a turn (clock.h) */
    const struct clock *real_clock; /* for measuring, or comparing with the wall clock */
    struct timers *timers;          /* all deadlines and repeats of the replica */
    struct state *state;
    struct peer_row *peers;  /* LIMIT_PEERS; see context_peer() */
    struct answers *answers; /* queue of finished requests */
    struct service *service; /* what uses the replica */
    struct replica_listener *listener;
    /* Takes any request of this node; done() comes from a later turn of the replica. */
    void (*submit)(const struct raft_context *on, struct cluster_request *request);
    uint64_t node_id; /* this node */
    bool stopping;    /* all requests get ERR_SHUTTING_DOWN from now on */
};

static inline uint64_t context_now_ms(const struct raft_context *on)
{
    return clock_now_ms(on->clock);
}

/* The row of a member, by the configuration in force or the applied one; or of a former one, until
 * another member needs it. NULL: there is none. */
struct peer_row *context_peer(const struct raft_context *on, uint64_t id);

/* These parts must run: in this turn, or in one that comes at once. */
static inline void context_wake(const struct raft_context *on, uint32_t parts)
{
    on->timers->woken |= parts;
}

/* Queue a message as a frame of this type. 0 or the error of the send (net.h). If it is lost, the
 * sender sends it again when it gets no answer. */
#define CONTEXT_SEND(name)                                                                         \
    static inline int context_send_##name(const struct raft_context *on, uint64_t to,              \
                                          enum frame_type type, const struct wire_##name *message) \
    {                                                                                              \
        struct buf frame = BUF_INIT;                                                               \
        int rv;                                                                                    \
                                                                                                   \
        wire_##name##_encode(message, &frame);                                                     \
        rv = on->net->ops->send(on->net, to, type, &frame, NULL);                                  \
        buf_free(&frame);                                                                          \
        return rv;                                                                                 \
    }

/* A member's address. Borrowed until the next apply. */
static inline const char *context_address(const struct raft_context *on,
                                          const struct conf_member *member)
{
    const char *moved = state_member_address(on->state, member->id);

    return moved != NULL ? moved : member->address;
}

CONTEXT_SEND(request)
CONTEXT_SEND(reply)
CONTEXT_SEND(confirm)
CONTEXT_SEND(applied)
CONTEXT_SEND(clock)
CONTEXT_SEND(probe)
CONTEXT_SEND(durable)
CONTEXT_SEND(compare)
CONTEXT_SEND(compared)
CONTEXT_SEND(buffers)

static inline void context_refuse(const struct raft_context *on, uint64_t to, uint64_t id,
                                  int status)
{
    (void)context_send_reply(on, to, FRAME_REPLY, &(struct wire_reply){.id = id, .status = status});
}

/* Is there a link to it? To itself always. */
static inline bool context_reaches(const struct raft_context *on, uint64_t node_id)
{
    return node_id == on->node_id || on->net->ops->connected(on->net, node_id);
}

/* Arm a timer for this long from now. */
static inline void context_arm_in(const struct raft_context *on, struct timer *timer,
                                  uint64_t in_ms)
{
    timer_arm(on->timers, timer, context_now_ms(on) + in_ms);
}

/* Arm a timer for a time that was computed anew; TIMER_NEVER: cancel it. */
static inline void context_arm_at(const struct raft_context *on, struct timer *timer,
                                  uint64_t due_ms)
{
    if (!timer_is_armed(timer) || timer->due_ms != due_ms) {
        timer_arm(on->timers, timer, due_ms);
    }
}

/* --- commands that a node proposes by itself --- */

#define NODE_COMMAND_MS 5000

/*
 * One at a time: its registration, a digest, the log's time, a step of a membership change. The
 * owner encodes a command and calls node_command_send(); when it is over, or NODE_COMMAND_MS have
 * passed, in_flight is false again, on_done is called with its status, and its part is woken. It
 * may fail as any command: the owner checks again whether it is still due.
 */
struct node_command {
    struct cluster_request request;
    const struct raft_context *on;
    uint32_t wakes; /* the part that sends it */
    bool in_flight;
    struct timer pause; /* armed: it is not due again yet */
    /* From inside done(), with the status; may be NULL. */
    void (*on_done)(struct node_command *command, int status);
};

/* Take over the command in payload and propose it; none may be in flight. stamped: it has the stamp
 * of the client that asked for it. */
void node_command_send(struct node_command *command, const struct raft_context *on,
                       struct buf *payload, bool stamped);

/* It is not due for this long. */
static inline void node_command_pause(struct node_command *command, const struct raft_context *on,
                                      uint64_t in_ms)
{
    command->pause.wakes = command->wakes;
    context_arm_in(on, &command->pause, in_ms);
}

/* None is in flight, and there is no pause. */
static inline bool node_command_may(const struct node_command *command)
{
    return !command->in_flight && !timer_is_armed(&command->pause);
}

#endif
