/*
 * net_conn.h - one connection to another node, and what it consists of: what all connections share
 * (net_hub), what it has to write (net_out), and the connection itself (net_conn).
 *
 * Failure modes: a connection that breaks is closed with a reason; its owner dials again. Thread:
 * the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_CONN_H
#define LEAFD_RAFT_TRANSPORT_NET_CONN_H

#include <sys/queue.h>
#include <uv.h>

#include "raft/transport/handshake.h"
#include "raft/transport/net.h"
#include "raft/transport/net_keys.h"
#include "raft/wire/wire.h"
#include "src/base/container.h"
#include "src/base/prng.h"

/*
 * --- net_hub: what the connections of one node have in common: the loop, the settings, the
 * receiver, and how many things are still alive.
 *
 * The happy path: whatever has handles on the loop holds the hub from its making to its end; a
 * close waits until the last one has let go, and then `all_gone` is called, once.
 */

struct net_uv_config {
    uint64_t node_id;
    uint64_t store_id;
    const char *cluster_id;     /* borrowed until close */
    struct net_keys *keys;      /* by which nodes know each other; a reference is taken */
    const char *listen_address; /* "host:port" to bind; port 0 picks one (tests) */
    /* 0: the limit of limits.h; tests set shorter ones */
    uint32_t connect_ms;
    uint32_t handshake_ms;
    uint32_t idle_ms;
    uint32_t stall_ms;
    uint32_t silent_ms;
};

struct net_hub {
    uv_loop_t *loop;
    struct net_receiver *receiver; /* NULL: there are no links */
    struct net_uv_config config;   /* times filled in */
    struct net_keys *keys;         /* those in force; connections hold the ones they began with */
    struct handshake_config handshake;
    struct prng prng;
    bool closing;         /* nothing new begins, and the receiver is called no more */
    unsigned alive_count; /* things that hold the hub */
    void (*all_gone)(struct net_hub *hub); /* may be NULL */
    uint8_t input[64 * 1024]; /* of the read under way; connections keep only parts of frames */
    uint8_t plain[64 * 1024]; /* what TLS made of it */
};

/* Times that are 0 become the limits. The caller fills in the rest: receiver, all_gone, and of the
 * handshake `known`. */
void net_hub_init(struct net_hub *hub, uv_loop_t *loop, const struct net_uv_config *config,
                  struct net_receiver *receiver);

/* Other keys from now on; the reference is taken over. */
void net_hub_set_keys(struct net_hub *hub, struct net_keys *keys);

void net_hub_hold(struct net_hub *hub);

/* The last one calls all_gone, which may free the hub. */
void net_hub_release(struct net_hub *hub);

/*
 * --- net_out: what one connection has to write: the queue, one write at a time, and its progress.
 *
 * The happy path: frames gather in `queue`; a flush moves a batch of them to `sending` and offers
 * all their pieces to the socket in one system call. It nearly always takes them; for what it does
 * not take there is uv_write(), and when that is through, what gathered meanwhile goes next. So
 * frames of one loop turn share a system call, and none waits for a timer. (Not uv_write() alone:
 * it costs a call of its callback in another round of the loop, and an epoll_ctl() each time.)
 *
 * With TLS the frames of a flush are sealed together, up to SEAL_BYTES at once, and what comes out
 * goes to the socket in one piece; what TLS itself has to say (handshakes, alerts) goes before.
 *
 * Failure modes: a write that fails stops the output for good and calls `failed`, which closes the
 * connection. The queue's bound is the sender's to keep (net_uv.c).
 */

struct net_piece;

STAILQ_HEAD(net_piece_list, net_piece);

struct net_out {
    uv_stream_t *stream;
    struct tls_channel *tls; /* borrowed; NULL: none, or none yet */
    struct buf sealed;       /* with TLS: what the socket is given */
    void (*failed)(struct net_out *out, const char *reason);
    struct net_piece_list queue;
    struct net_piece_list sending; /* in the write request */
    size_t queue_bytes;            /* of both lists */
    uv_write_t write;
    bool writing;
    bool stopped;         /* it writes no more */
    uint64_t write_ms;    /* of the last write that began */
    size_t unsent_bytes;  /* the socket's queue at the last look */
    uint64_t progress_ms; /* when that last changed */
};

/* Queue a frame, or bytes that are frames already; the memory is taken over. They leave with the
 * next flush. */
void net_out_frame(struct net_out *out, enum frame_type type, struct buf *payload);
void net_out_bytes(struct net_out *out, struct buf *bytes);

/* Write what is queued, unless a write is under way (whose end begins the next). */
void net_out_flush(struct net_out *out);

/* For how long the socket has taken nothing of what it was given; 0 while it has nothing. */
uint64_t net_out_stalled_ms(struct net_out *out);

/*
 * --- net_conn: one TCP connection to or from a peer: its handles, input, handshake and deadlines.
 *
 * The happy path: net_conn_new(); the socket is dialled (net_conn_dial()) or was accepted
 * (net_conn_accepted()); the handshake runs, then its owner gets `up`, and the frames of an
 * accepted one.
 *
 *   dialled:  RESOLVING --> CONNECTING --> HANDSHAKE --> UP --> CLOSING (one that joins: no UP)
 *   accepted:                              HANDSHAKE --> UP --> CLOSING
 *                                              `--> REJECTING ----^
 *
 * In HANDSHAKE comes TLS first (net_keys.h), and inside it the handshake of nodes (handshake.h).
 *
 * Each may go to CLOSING at once. REJECTING waits for the other side to read the REJECT and close.
 *
 * Failure modes: whatever breaks (socket error, end of stream, broken frame, failed handshake,
 * deadline) ends in net_conn_close() with a reason. Before the handshake is done no byte goes to
 * the owner.
 *
 * A connection lives from net_conn_new() until its last handle or request is through after
 * net_conn_close(), so nothing is freed inside a callback that may still use it.
 */

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
    /* The handshake is done: the peer's id is proved (conn->handshake). */
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
    uint64_t wanted_id; /* which is to be there, for one that dials */
    enum net_conn_state state;
    bool was_up;
    bool heard;              /* at least a byte of the other side */
    bool untrusted;          /* TLS failed: the other side takes other keys */
    unsigned offer;          /* of one that dials: which credential of the keys */
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

/* Connect to "host:port"; of a name's addresses to the one whose turn it is. It offers this
 * credential of the keys. An address that cannot be dialled closes it at once. */
void net_conn_dial(struct net_conn *conn, const char *address, unsigned turn, unsigned credential);

/* Its socket was accepted: begin to read, and the handshake. */
void net_conn_accepted(struct net_conn *conn);

/* The handshake failed and was answered: wait for the other side to close. */
void net_conn_reject(struct net_conn *conn);

/* Look after one that is up, as its timer does now and then: PING when it is idle, close when it is
 * stuck or silent. */
void net_conn_check(struct net_conn *conn);

/* The keys of the hub are others now: if it was made by a credential that they do not have, it
 * closes in `wait_ms`. True if so. */
bool net_conn_keys_changed(struct net_conn *conn, uint32_t wait_ms);

/* Close for a reason. Idempotent. May be called anywhere. */
void net_conn_close(struct net_conn *conn, const char *reason);

#endif
