/*
 * service.h - what uses a replica: the service that the cluster exists for. It is passed to
 * replica_start() with the machine (src/state/machine.h), whose data it understands. raft/ knows
 * the service only by this interface.
 *
 * The happy path: start() when the replica starts. Then all events that are not the replica's own
 * (a frame of another kind, a query, its part of a turn) go to the service. The service submits its
 * own requests as any other (raft_context.submit).
 *
 * Failure modes: those of start(). Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_SERVICE_H
#define LEAFD_RAFT_CLUSTER_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "raft/wire/wire.h"
#include "src/base/buf.h"
#include "src/base/limits.h"
#include "src/base/stats.h"
#include "src/state/codec/cluster_command.h"
#include "src/state/codec/request.h"
#include "src/state/machine.h"

struct replica;
struct service;
struct store_loaded;

/* A command is about to be appended by this node, the leader. */
enum service_admission {
    SERVICE_ADMITS,  /* *ret_adds_bytes: growth of the state once it is applied, or 0 */
    SERVICE_ANSWERS, /* it is not appended; the reply is as if apply had refused it */
};

/* A CLUSTER_REQUEST_LEADER that was confirmed is answered. */
enum service_lead {
    SERVICE_LED,     /* with the reply, or the status */
    SERVICE_STALE,   /* it was confirmed in another term: begin again */
    SERVICE_WAITS,   /* until something more is applied */
    SERVICE_APPENDS, /* the entry, in this term, before the reply goes out (led()) */
};

struct service_lead_ask {
    const struct buf *payload;
    uint64_t round_term; /* in which it was confirmed, */
    uint64_t term;       /* and the present one */
    struct buf *reply;   /* to be filled */
    struct buf *entry;   /* to be filled: APPENDS */
    int status;          /* to be set: LED */
};

/* What the replica reports; with a number, where one is named. */
enum service_event {
    SERVICE_STARTED,       /* the replica runs */
    SERVICE_LINK,          /* a link to this peer came or went */
    SERVICE_INSTALLED,     /* a snapshot replaced the state, up to this index */
    SERVICE_RESET,         /* leadership or the term changed, a snapshot jumped over indexes, or the
                              node stops: this node's work as the leader is void */
    SERVICE_DRAINS,        /* the node will stop, and continues to serve until then */
    SERVICE_TRANSFER_ENDED /* after may_transfer(): this node continues to lead */
};

struct service_ops {
    /* --- its life --- */

    /* The replica has its state, timers, answers and clock; its other parts begin after this. 0, or
     * an error that prevents the start. */
    int (*start)(struct service *service, struct replica *replica,
                 const struct store_loaded *loaded);
    /* Answer all requests with ERR_SHUTTING_DOWN, from now on. */
    void (*stop)(struct service *service);
    /* After replica_close(): free all but what other threads may look at yet. */
    void (*close)(struct service *service);
    void (*release)(struct service *service);

    /* --- a turn --- */

    /* These parts of it were woken (bits of WAKE_SERVICE): do what is due, which may submit
     * requests. After stop() only WAKE_SEEN. */
    void (*turn)(struct service *service, uint32_t woken);
    /* Another thread has woken the loop (node.h). */
    void (*woken)(struct service *service);

    /* --- what the replica reports --- */

    /* A frame of a kind that is not the replica's. False: malformed, or of no kind. */
    bool (*receive)(struct service *service, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len);
    void (*event)(struct service *service, enum service_event event, uint64_t number);
    /* What this node serves now: bits of enum wire_serves, of which KNOWN is one. */
    uint8_t (*serves)(const struct service *service);

    /* --- requests, on the leader --- */

    /* Answer a query from the applied state: the status, 0 with a reply. */
    int (*query)(struct service *service, const void *data, size_t len, struct buf *reply);
    /* May a peer send this? No, if only a leader appends it by itself, or if it does not decode. */
    bool (*accepts)(const struct service *service, enum cluster_request_kind kind, const void *data,
                    size_t len);
    /* Decide before a command is in the log, by data that apply cannot use: the settings, the time
     * zones, the memory of this node. */
    enum service_admission (*admit)(struct service *service, const void *data, size_t len,
                                    uint64_t *ret_adds_bytes, struct buf *reply);
    enum service_lead (*lead)(struct service *service, struct service_lead_ask *ask);
    /* The entry of an ask was applied, with this result; reply has lead()'s content, and is
     * replaced. Returns the status. */
    int (*led)(struct service *service, const struct buf *payload, const void *result, size_t len,
               struct buf *reply);
    /* Append what a command of another node has made old on that node: sent with the answer. */
    void (*marks)(struct service *service, const void *data, size_t len, struct buf *marks);
    /* Take such marks on that node, before the answer is passed on. 0 or ERR_BAD_MESSAGE. */
    int (*take_marks)(struct service *service, const void *data, size_t len, const void *marks,
                      size_t marks_len);

    /* --- the end --- */

    /* This leader must hand over. True once it can: what it holds as the leader was given back, or
     * the time for that is over. Called until then. */
    bool (*may_transfer)(struct service *service);
    /* Give back to the cluster what this node holds, as much as possible before deadline_ms. */
    void (*give_back)(struct service *service, uint64_t deadline_ms);
    bool (*gave_back)(const struct service *service);
} BY_NAME;

struct service {
    const struct service_ops *ops;
    const struct machine_ops *machine; /* whose commands and queries it understands */
    struct stall *stall;               /* how long the turns of the raft loop take */
    /* Settings that must be equal on all first members of a cluster, as bytes; borrowed. */
    const void *agreed;
    size_t agreed_len;
};

#endif
