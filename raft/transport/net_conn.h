/*
 * net_conn.h - one connection to another node: the part that all connections share (net_hub), its
 * output (net_out), and the connection itself (net_conn).
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
 * receiver, and the number of objects that are still alive.
 *
 * The happy path: each object with handles on the loop holds the hub for its whole life. A close
 * waits until the last one releases the hub; then `all_gone` is called, once.
 */

struct net_uv_config {
    struct handshake_config self; /* borrowed until close; its receiver gets all events */
    struct net_keys *keys;      /* with which nodes authenticate each other; a reference is taken */
    const char *listen_address; /* "host:port" to bind; port 0 picks one (tests) */
    /* 0: the limit of limits.h; tests set shorter ones */
    uint32_t connect_ms;
    uint32_t handshake_ms;
    uint32_t idle_ms;
    uint32_t stall_ms;
    uint32_t silent_ms;
};

/* In a turn, of all connections; then those that had a part of it are paused until the next. */
#define NET_INPUT_TURN_BYTES (256 << 10)

struct net_hub {
    uv_loop_t *loop;
    struct net_uv_config config; /* times filled in, and the keys in force: connections hold the
                                    keys they began with */
    struct prng prng;
    bool closing;         /* nothing new begins, and the receiver is no longer called */
    unsigned alive_count; /* objects that hold the hub: each adds itself */
    size_t input_bytes;   /* in this turn, from connections that are up */
    void (*all_gone)(struct net_hub *hub); /* may be NULL */
    uint8_t input[64 * 1024]; /* of the read under way; connections keep only parts of frames */
    uint8_t plain[64 * 1024]; /* the decrypted input */
};

/* Times that are 0 become the limits. The caller fills in all_gone. */
void net_hub_init(struct net_hub *hub, uv_loop_t *loop, const struct net_uv_config *config);

/* An object that held the hub is gone. The last one calls all_gone, which may free the hub. */
void net_hub_release(struct net_hub *hub);

/*
 * --- net_out: the output of one connection: the queue, one write at a time, and its progress.
 *
 * The happy path: frames gather in the TLS channel, which seals them; a flush offers all sealed
 * bytes to the socket in one system call. It nearly always takes them. uv_write() writes the rest;
 * when it is done, the frames queued meanwhile go next. So frames of one loop turn share a system
 * call, and none waits for a timer. (Not uv_write() alone: it costs a call of its callback in
 * another round of the loop, and an epoll_ctl() each time.) TLS's own records (handshakes, alerts)
 * take the same path.
 *
 * A flush seals up to NET_OUT_PART_BYTES: what is more waits for the next turn, which comes at once
 * (net_uv.c). A frame of some MiB at once would hold up all else of the loop for milliseconds.
 *
 * Failure modes: a write that fails closes the connection. The sender enforces the queue's bound
 * (net_uv.c).
 */

#define NET_OUT_PART_BYTES (7 * TLS_RECORD_BYTES)

/* A frame that is not sealed as a whole. */
struct net_frame {
    STAILQ_ENTRY(net_frame) link;
    uint8_t header[FRAME_HEADER_BYTES];
    struct buf payload;
    struct entry_block *tail; /* the payload's end, a reference; or NULL */
    size_t at;                /* bytes of both that are sealed */
};

struct net_out {
    struct tls_channel *tls; /* owned; NULL: neither dialled yet, nor anything received */
    struct buf sealed;       /* the bytes that the socket was given last */
    STAILQ_HEAD(, net_frame) waiting;
    size_t queue_bytes;   /* of frames whose write has not ended */
    size_t waiting_bytes; /* of them, those not sealed; a header, until its frame is */
    size_t sending_bytes; /* of them, those in the write request */
    uv_write_t write;
    bool writing;
    uint64_t write_ms;    /* of the last write that began */
    size_t unsent_bytes;  /* the socket's queue at the last look */
    uint64_t progress_ms; /* when unsent_bytes last changed */
};

/* Queue a frame on an open channel; the memory is taken over, and tail, the payload's end or NULL,
 * referred to. It leaves with the next flush, or a later one. */
void net_out_frame(struct net_out *out, enum frame_type type, struct buf *payload,
                   struct entry_block *tail);

/* Write a part of the queue, unless a write is under way (its end begins the next). */
void net_out_flush(struct net_out *out);

/* True if another flush must follow in the next turn. */
bool net_out_waits(const struct net_out *out);

/*
 * --- net_conn: one TCP connection to or from a peer: its handles, input, handshake and deadlines.
 *
 * The happy path: net_conn_new(); the socket is dialled (net_conn_dial()) or was accepted
 * (net_conn_begin()); the handshake runs, then its owner gets `up`, and the frames of an
 * accepted connection.
 *
 *   dialled:  RESOLVING --> CONNECTING --> HANDSHAKE --> UP --> CLOSING (one that joins: no UP)
 *   accepted:                              HANDSHAKE --> UP --> CLOSING
 *                                              `--> REJECTING ----^
 *
 * HANDSHAKE is first TLS (net_keys.h), and inside it the handshake of nodes (handshake.h).
 *
 * Each may go to CLOSING at once. REJECTING waits for the other side to read the REJECT and close.
 *
 * Failure modes: any error (socket error, end of stream, broken frame, failed handshake, deadline)
 * ends in net_conn_close() with a reason. Before the handshake is done no byte goes to the owner.
 *
 * A connection lives from net_conn_new() until its last handle or request ends after
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

/* The role of this end in the handshake. */
enum net_conn_role {
    NET_CONN_ACCEPTS, /* accepted: receives */
    NET_CONN_DIALS,   /* dialled: sends */
    NET_CONN_JOINS    /* dialled to ask for membership: gets an answer, and is never up */
};

struct net_conn;

/* Events for a connection's owner: a link, the inbound side or a join. */
struct net_conn_ops {
    /* The handshake is done: the peer's id is proved (conn->handshake). */
    void (*up)(struct net_conn *conn);
    /* The handshake failed, and the reason was sent to the other side. An accepted connection then
     * waits for that side to close it: it is not closed here. */
    void (*failed)(struct net_conn *conn);
    /* For a connection that joins: this is the answer. */
    void (*answered)(struct net_conn *conn, const struct frame *frame);
    /* A frame came, other than PING. NULL, or a reason: the connection is closed for it. */
    const char *(*frame)(struct net_conn *conn, const struct frame *frame);
    /* It closes: it was in state `from`, and is CLOSING now. */
    void (*down)(struct net_conn *conn, enum net_conn_state from, const char *reason);
    /* It is freed next, in a turn of its own, never inside another call. Or NULL. */
    void (*freed)(struct net_conn *conn);
} BY_NAME;

#define NET_REMOTE_BYTES 64

struct net_conn {
    TAILQ_ENTRY(net_conn) link; /* its owner's */
    struct net_hub *hub;
    const struct net_conn_ops *ops;
    void *owner;
    enum net_conn_role role;
    uint64_t wanted_id; /* the expected node, for one that dials */
    enum net_conn_state state;
    bool was_up;
    bool heard;          /* at least a byte of the other side */
    bool paused;         /* not read until the next turn */
    bool untrusted;      /* TLS failed: the other side uses other keys */
    bool refused;        /* there is no listener at the peer's address */
    unsigned offer;      /* for one that dials: which credential of the keys */
    uint64_t keyed_ms;   /* when its keys were last renewed */
    uint64_t expires_ms; /* when it closes, since its secret is no longer valid; 0: it is
                                valid */
    unsigned ref_count;  /* handles and requests that will still call back; freed at 0 */
    uv_tcp_t tcp;
    uv_timer_t timer; /* connect and handshake deadline; once UP: checks progress */
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

/* Connect to "host:port"; if that is a name, `turn` chooses one of its addresses. Offers this
 * credential of the keys. An address that cannot be dialled closes the connection at once. */
void net_conn_dial(struct net_conn *conn, const char *address, unsigned turn, unsigned credential);

/* Its socket was accepted, or is connected: begin to read, and begin the handshake. */
void net_conn_begin(struct net_conn *conn);

/* A turn is over: read again what NET_INPUT_TURN_BYTES of input have paused. */
void net_conn_continue(struct net_conn *conn);

/* Check one that is up, whose timer this is: PING when it is idle, close when it is stuck or
 * silent. The timer calls it now and then. */
void net_conn_check(uv_timer_t *timer);

/* The hub has other keys now: if they lack this connection's credential, it closes in `wait_ms`.
 * True if so. */
bool net_conn_keys_changed(struct net_conn *conn, uint32_t wait_ms);

/* Close for a reason. Idempotent. May be called anywhere. */
void net_conn_close(struct net_conn *conn, const char *reason);

#endif
