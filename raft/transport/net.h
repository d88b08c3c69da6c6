/*
 * net.h - links to the other nodes, as a vtable: frames out, frames in.
 *
 * net_uv.h is the real one (libuv TCP); the simulation has its own. A link is best effort: a frame
 * may be lost when the link breaks or its queue is full, never damaged, duplicated within a
 * connection or reordered within one. Raft and the request layer above repeat what matters.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_H
#define LEAFD_RAFT_TRANSPORT_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raft/wire/wire.h"
#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/base/limits.h"
#include "src/state/codec/level.h"

struct net_peer {
    uint64_t id;
    char address[LIMIT_ADDRESS_BYTES + 1]; /* "host:port" */
};

/* NULL: none of them has this id. */
static inline const struct net_peer *net_peer_find(const struct net_peer *peers, size_t count,
                                                   uint64_t id)
{
    for (size_t i = 0; i < count; i++) {
        if (peers[i].id == id) {
            return &peers[i];
        }
    }
    return NULL;
}

/* Store ids of the processes of a peer that this node sees; 0: none. */
struct net_presence {
    uint64_t dials;   /* of the process that dials now */
    uint64_t heard;   /* of the one whose connection is up, if it sent anything lately */
    uint64_t reached; /* of the one at the peer's address: our link to it is up */
};

/* What a node that proved the secret says of itself in a handshake. */
struct net_claim {
    uint64_t id;
    uint64_t store_id;
    struct level_range levels; /* that it speaks */
    bool states;               /* it dialled for a link, so it made a statement (wire.h): */
    const void *statement;     /* borrowed */
    size_t len;
};

/* What comes from the network, on the raft loop, after the sender proved its id. */
struct net_receiver {
    /* A frame of a peer. The payload is borrowed for the call. False: the payload is malformed or
     * implausible; the link is closed and the reason logged. */
    bool (*receive)(struct net_receiver *receiver, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len);
    /* The outgoing link to a peer came up or went down. */
    void (*link_changed)(struct net_receiver *receiver, uint64_t peer, bool up);
    /* There is no listener at a peer's address: its process has ended, or its host refuses it.
     * Called with each dial. */
    void (*gone)(struct net_receiver *receiver, uint64_t peer);
    /* May this node take part? Asked for links of both directions, before their frames, and for a
     * node that joins. 0; ERR_WRONG_NODE: its store is not the one registered for its id (a wiped
     * data directory); ERR_REMOVED: its id was removed; ERR_NEWER: it does not speak *ret_level,
     * the level in force. Of one that made a statement also: ERR_OTHER_BIRTH or ERR_OTHER_LIST: it
     * is of another cluster; ERR_NOT_FOUND: it is no peer; ERR_STALE: its store was set back;
     * ERR_IMPLAUSIBLE; ERR_EXISTS: another process of it is connected; ERR_BAD_MESSAGE.
     * set_peers() may follow, but not from inside the call. */
    int (*judge)(struct net_receiver *receiver, const struct net_claim *claim, uint16_t *ret_level);
    /* A peer refused our handshake for good; err is its reason: ERR_WRONG_NODE (our store is not
     * the one registered for our id), ERR_REMOVED (our id was removed), ERR_STALE (our store was
     * set back to an older copy) and ERR_NEWER (the cluster's level is above what this leafd
     * speaks, as the text says with both numbers; these only from a peer that proved the secret),
     * ERR_BAD_VERSION, ERR_IMPLAUSIBLE (our term or last index is one that the peer does not
     * believe), ERR_OTHER_BIRTH (it is of another cluster) and ERR_OTHER_LIST (it was given another
     * list of first members; both from a peer that proved the secret), ERR_REFUSED (another cluster
     * or node id; not proved, so it is a hint about the configuration only). Called once a change
     * of reason. */
    void (*refused)(struct net_receiver *receiver, uint64_t peer, int err, const char *text);
    /* Append our statement for a dial (see wire.h). NULL: there is none. */
    void (*introduce)(struct net_receiver *receiver, struct buf *statement);
    /* A node that is no member asks for admission. Append the answer; false: malformed. NULL: no
     * node may. */
    bool (*join)(struct net_receiver *receiver, uint64_t peer, const void *request, size_t len,
                 struct buf *answer);
} BY_NAME;

struct net;

struct net_ops {
    /* Queue a frame; the payload's memory is taken over in every case (buf becomes empty). tail:
     * the payload's end, borrowed; or NULL. 0, ERR_NOT_FOUND (no such peer), ERR_IO (no link now),
     * ERR_OVERLOADED (its queue is full), ERR_TOO_LARGE (the frame would pass
     * LIMIT_FRAME_BYTES). */
    int (*send)(struct net *net, uint64_t to, enum frame_type type, struct buf *payload,
                struct entry_block *tail);
    /* False: LIMIT_APPEND_BYTES or more are unsent to the peer, so what can wait should. The loop
     * has another turn when it has sent some. NULL: there is always room. */
    bool (*has_room)(struct net *net, uint64_t peer);
    /* True if the outgoing link to the peer is up. */
    bool (*connected)(struct net *net, uint64_t peer);
    /* The set of peers to keep links with (without ourselves); addresses may change. */
    void (*set_peers)(struct net *net, const struct net_peer *peers, size_t count);
    /* The processes of the peer, while one with this store dials. Called only by a receiver's
     * judge(). */
    struct net_presence (*presence)(struct net *net, uint64_t peer, uint64_t store_id,
                                    uint64_t within_ms);
} BY_NAME;

struct net {
    const struct net_ops *ops;
};

#endif
