/*
 * net_conn.h - one TCP connection to or from a peer: its handles, input, handshake and deadlines.
 *
 * The happy path: net_conn_new(); the socket is dialled (net_conn_dial()) or was accepted
 * (net_conn_accepted()); the handshake runs, then its owner gets `up`, and the frames of an
 * accepted one.
 *
 *   dialled:  RESOLVING --> CONNECTING --> HANDSHAKE --> UP --> CLOSING (one that joins: no UP)
 *   accepted:                              HANDSHAKE --> UP --> CLOSING
 *                                              `--> REJECTING ----^
 *
 * In HANDSHAKE comes TLS first (tls_channel.h), and inside it the handshake of nodes (handshake.h).
 *
 * Each may go to CLOSING at once. REJECTING waits for the other side to read the REJECT and close.
 *
 * Failure modes: whatever breaks (socket error, end of stream, broken frame, failed handshake,
 * deadline) ends in net_conn_close() with a reason. Before the handshake is done no byte goes to
 * the owner.
 *
 * A connection lives from net_conn_new() until its last handle or request is through after
 * net_conn_close(), so nothing is freed inside a callback that may still use it.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_CONN_H
#define LEAFD_RAFT_TRANSPORT_NET_CONN_H

#include <sys/queue.h>

#include "raft/transport/net_hub.h"
#include "raft/transport/net_out.h"
#include "src/base/container.h"

#define NET_REASON_BYTES 96

enum net_conn_state {
    NET_CONN_RESOLVING,
    NET_CONN_CONNECTING,
    NET_CONN_HANDSHAKE,
    NET_CONN_REJECTING,
    NET_CONN_UP,
    NET_CONN_CLOSING
};

/* What this end is in the handshake. */
enum net_conn_role {
    NET_CONN_ACCEPTS, /* accepted: receives */
    NET_CONN_DIALS,   /* dialled: sends */
    NET_CONN_JOINS    /* dialled to ask for membership: gets an answer, and is never up */
};

struct net_conn;

/* What its owner, a link, the inbound side or a join, hears of a connection. */
struct net_conn_ops {
    /* The handshake is done: who is there is proved (conn->handshake). */
    void (*up)(struct net_conn *conn);
    /* The handshake failed, and the other side has been sent why. */
    void (*failed)(struct net_conn *conn);
    /* Of one that joins: this is the answer. */
    void (*answered)(struct net_conn *conn, const struct frame *frame);
    /* A frame came, other than PING. False: close for the reason that was set. */
    const char *(*frame)(struct net_conn *conn, const struct frame *frame);
    /* It closes: it was in this state, and is CLOSING now. */
    void (*down)(struct net_conn *conn, enum net_conn_state from, const char *reason);
    /* It is freed next, in a turn of its own: never inside anybody's call. Or NULL. */
    void (*freed)(struct net_conn *conn);
    /* The peer's address refused the connection, which is closed already. Or NULL. */
    void (*refused)(struct net_conn *conn);
} BY_NAME;

#define NET_REMOTE_BYTES 64

struct net_conn {
    TAILQ_ENTRY(net_conn) link; /* its owner's */
    struct net_hub *hub;
    const struct net_conn_ops *ops;
    void *owner;
    enum net_conn_role role;
    uint64_t wanted_id; /* who is to be there, for one that dials */
    enum net_conn_state state;
    bool was_up;
    bool heard;              /* at least a byte of the other side */
    bool untrusted;          /* TLS failed: the other side takes other keys */
    unsigned offer;          /* of one that dials: which way of the keys */
    struct tls_channel *tls; /* NULL: nothing was received yet, or dialled */
    uint64_t keyed_ms;       /* when its keys were last renewed */
    uint64_t expires_ms;     /* when it closes, since its secret is good no more; 0: it is good */
    unsigned ref_count;      /* handles and requests that will still call back; freed at 0 */
    uv_tcp_t tcp;
    uv_timer_t timer; /* connect and handshake deadline; once UP: looks after progress */
    uv_connect_t connect;
    uv_getaddrinfo_t resolve;
    bool resolving;                /* that request is under way */
    unsigned turn;                 /* which of a name's addresses it takes */
    char remote[NET_REMOTE_BYTES]; /* the other end's address, of one that accepts; "": not known */
    struct handshake handshake;    /* peer_id and peer_store_id are proved once UP */
    struct frame_decoder decoder;
    uint64_t up_ms;
    uint64_t read_ms; /* of the last input */
    struct net_out out;
};

TAILQ_HEAD(net_conn_list, net_conn);

/* A connection of this role; wanted_id is 0 but for one that dials. It holds the hub. */
struct net_conn *net_conn_new(struct net_hub *hub, enum net_conn_role role, uint64_t wanted_id,
                              const struct net_conn_ops *ops, void *owner);

/* Connect to "host:port"; of a name's addresses to the one whose turn it is. It offers this way of
 * the keys. An address that cannot be dialled closes it at once. */
void net_conn_dial(struct net_conn *conn, const char *address, unsigned turn, unsigned way);

/* Its socket was accepted: begin to read, and the handshake. */
void net_conn_accepted(struct net_conn *conn);

/* The handshake failed and was answered: wait for the other side to close. */
void net_conn_reject(struct net_conn *conn);

/* Look after one that is up, as its timer does now and then: PING when it is idle, close when it is
 * stuck or silent. */
void net_conn_check(struct net_conn *conn);

/* The keys of the hub are others now: if it was made by a way that they do not have, it closes in
 * `wait_ms`. True if so. */
bool net_conn_keys_changed(struct net_conn *conn, uint32_t wait_ms);

/* Close for a reason. Idempotent. May be called anywhere. */
void net_conn_close(struct net_conn *conn, const char *reason);

#endif
