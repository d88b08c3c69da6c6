/*
 * handshake.h - proves which node is at the other end of a connection, and decides whether there
 * may be a link.
 *
 * A pure state machine: frames in, bytes out, no I/O, no clock, no random numbers of its own. It
 * runs inside TLS (net_keys.h), which has proved that the other side belongs to the cluster, and
 * which node id it may claim.
 *
 *   dialler:   HELLO_SENT --CHALLENGE--> PROOF_SENT --WELCOME--> DONE
 *   acceptor:  HELLO_AWAITED --HELLO--> CHALLENGE_SENT --PROOF--> DONE
 *   a node that is no member yet: PROOF_SENT --JOINED--> ANSWERED, and never DONE; the acceptor of
 *              that: CHALLENGE_SENT --PROOF--> ANSWERED
 *   both, on anything wrong: FAILED (the acceptor has put a REJECT out, the dialler just closes)
 *
 *   HELLO      u16 protocol, u16 min and max level, str16 cluster id, u64 own id, u64 wanted id,
 *              u64 store id
 *   CHALLENGE  u16 protocol, u16 min and max level, str16 cluster id, u64 own id, u64 store id
 *   PROOF      statement (all of it)
 *   WELCOME    nothing
 *   JOINED     the answer to a node that joins
 *   REJECT     u16 code, str16 text
 *
 * The frame's header and the protocol, the first two bytes of HELLO and CHALLENGE, never change: by
 * them each leafd, however old, knows whether it can read the rest. The levels are those that the
 * sender speaks (level.h). Two nodes without a common level refuse each other at once. A node that
 * does not speak the level in force is refused by any node that knows that level, with both
 * numbers. So once the level has risen, an older leafd gets no link, and so no vote.
 *
 * A statement describes the dialler to an acceptor that does not know it (see wire.h). A node that
 * joins wants id 0, any node that listens there, and its statement is its request. It gets an
 * answer and no link.
 *
 * Failure modes: a frame that is out of turn, malformed, or contradicts what TLS has proved ends in
 * FAILED for good.
 *
 * Thread: pure functions on their arguments, any.
 */
#ifndef LEAFD_RAFT_TRANSPORT_HANDSHAKE_H
#define LEAFD_RAFT_TRANSPORT_HANDSHAKE_H

#include "raft/transport/net.h"
#include "raft/transport/net_keys.h"
#include "src/base/buf.h"
#include "src/state/codec/level.h"

#define HANDSHAKE_PROTOCOL 5
#define HANDSHAKE_TEXT_BYTES 200 /* of a REJECT; longer is cut */

/* Why it failed. Numbers are on the wire; new ones go at the end, and 6 is used up. */
enum handshake_reject {
    HANDSHAKE_REJECT_NONE = 0,
    HANDSHAKE_REJECT_MALFORMED = 1, /* a frame out of turn, too short or too long */
    HANDSHAKE_REJECT_VERSION = 2,   /* another protocol version */
    HANDSHAKE_REJECT_CLUSTER = 3,   /* another cluster id */
    HANDSHAKE_REJECT_NODE = 4,      /* not the wanted node, or both have the same id */
    HANDSHAKE_REJECT_PEER = 5,      /* the dialler is no member that the acceptor knows (yet) */
    HANDSHAKE_REJECT_STORE = 7,     /* the store is not the one registered for its id (wiped) */
    HANDSHAKE_REJECT_REMOVED = 8,   /* the id was removed from the cluster and never comes back */
    HANDSHAKE_REJECT_OLDER = 9,     /* the store was set back to an older copy */
    HANDSHAKE_REJECT_IMPLAUSIBLE = 10, /* its term or last index is implausible */
    HANDSHAKE_REJECT_BIRTH = 11,       /* it is of another cluster */
    HANDSHAKE_REJECT_LISTS = 12,       /* it was given another list of first members */
    HANDSHAKE_REJECT_NEWER = 13,  /* the cluster's level is above what the dialler speaks; the text
                                    has both numbers */
    HANDSHAKE_REJECT_LEVELS = 14, /* no level that both speak */
    HANDSHAKE_REJECT_TWICE = 15   /* another start of the dialler is connected and active */
};

struct handshake_config {
    uint64_t node_id;
    uint64_t store_id;
    const char *cluster_id;    /* at most LIMIT_CLUSTER_ID_BYTES */
    struct level_range levels; /* that this node speaks; zeros: level_own */
    /* Its judge() is asked on both sides, once the peer has proved the secret; introduce() and
     * join() may be called. */
    struct net_receiver *receiver;
};

enum handshake_state {
    HANDSHAKE_HELLO_SENT,
    HANDSHAKE_PROOF_SENT,
    HANDSHAKE_HELLO_AWAITED,
    HANDSHAKE_CHALLENGE_SENT,
    HANDSHAKE_DONE,
    HANDSHAKE_ANSWERED, /* a node that joins has its answer; there is no link */
    HANDSHAKE_FAILED
};

struct handshake {
    const struct handshake_config *config; /* borrowed */
    struct tls_peer proof;                 /* what TLS has proved of the other side */
    enum handshake_state state;
    bool dialler;
    bool joins;                     /* the dialler wants an answer, and no link */
    uint64_t peer_id;               /* wanted, or claimed by the HELLO; proved once DONE */
    uint64_t peer_store_id;         /* claimed by the other side; proved once DONE */
    struct level_range peer_levels; /* likewise */
    /* For a dialler: the acceptor's store is not the expected one. It is refused, but gets our
     * statement first: two clusters each see an unexpected store, and one of them must learn
     * why. */
    enum handshake_reject refused;
    uint16_t level; /* of NEWER: the level in force */
    /* of FAILED */
    enum handshake_reject reject;
    bool by_peer;                        /* the other side sent the REJECT */
    char text[HANDSHAKE_TEXT_BYTES + 1]; /* its text, unchecked bytes */
};

/* Begin as the dialler of the node `wanted`; appends the HELLO frame to out. 0: as a node that
 * wants to join through any node that listens there; once ANSWERED, the last received frame is the
 * answer. */
void handshake_dial(struct handshake *handshake, const struct handshake_config *config,
                    uint64_t wanted, const struct tls_peer *proof, struct buf *out);

/* Begin as the acceptor of the connection. */
void handshake_accept(struct handshake *handshake, const struct handshake_config *config,
                      const struct tls_peer *proof);

/* Take a frame, append answers to out (whole frames), move the state. Not after DONE, ANSWERED or
 * FAILED. */
void handshake_receive(struct handshake *handshake, enum frame_type type, const uint8_t *payload,
                       size_t len, struct buf *out);

/* What a code means. */
struct handshake_reject_info {
    const char *text; /* short */
    int err;    /* BAD_MESSAGE, BAD_VERSION, REFUSED (cluster, twice, unknown), CONFLICT (node),
                NOT_FOUND (peer), WRONG_NODE (store), REMOVED, STALE (older store), OTHER_BIRTH,
                OTHER_LIST, NEWER or IMPLAUSIBLE */
    bool final; /* trying again cannot help until an operator changes a configuration */
};

/* Of any code that a peer may have sent. Static memory. */
const struct handshake_reject_info *handshake_reject_info(enum handshake_reject reject);

/* Why a handshake failed, as printable text: the peer's own text if it says more than the code.
 * Borrowed from it. */
const char *handshake_reason(const struct handshake *handshake);

#endif
