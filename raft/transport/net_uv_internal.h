/*
 * net_uv_internal.h - what the net_uv*.c files share.
 *
 *   struct net_uv    the listener, the links, all connections
 *   struct net_link  a peer that we keep dialling: its address, the wait before the next dial
 *   struct net_conn  one TCP connection, dialled (we send) or accepted (we receive)
 *
 * A connection lives from net_conn_new() until its last handle or request is through after
 * net_conn_close(); a link points to its present connection only, and lets go of it when it closes.
 * So nothing is freed inside a callback that may still use it.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_UV_INTERNAL_H
#define LEAFD_RAFT_TRANSPORT_NET_UV_INTERNAL_H

#include <sys/queue.h>
#include <uv.h>

#include "raft/wire/frame.h"
#include "raft/transport/handshake.h"
#include "raft/transport/net_uv.h"
#include "src/base/prng.h"

#define NET_REASON_BYTES 96

/*
 *   dialled:  RESOLVING --> CONNECTING --> HANDSHAKE --> UP --> CLOSING
 *   accepted:                              HANDSHAKE --> UP --> CLOSING
 *                                              `--> REJECTING ----^
 *
 * Each may go to CLOSING at once. REJECTING waits for the other side to read the REJECT and close.
 */
enum net_conn_state {
    NET_CONN_RESOLVING,
    NET_CONN_CONNECTING,
    NET_CONN_HANDSHAKE,
    NET_CONN_REJECTING,
    NET_CONN_UP,
    NET_CONN_CLOSING
};

/* Bytes to write: a frame, or (without a header) frames of the handshake. */
struct net_out {
    STAILQ_ENTRY(net_out) link;
    uint8_t header[FRAME_HEADER_BYTES];
    size_t header_len;
    struct buf payload;
};

STAILQ_HEAD(net_out_list, net_out);

struct net_conn {
    TAILQ_ENTRY(net_conn) link; /* in net->conns, oldest first */
    struct net_uv *net;
    struct net_link *owner; /* dialled: until it closes; accepted: NULL */
    bool dialled;
    enum net_conn_state state;
    bool was_up;
    unsigned ref_count; /* handles and requests that will still call back; freed at 0 */
    uv_tcp_t tcp;
    uv_timer_t timer; /* connect and handshake deadline; once UP: looks after progress */
    uv_connect_t connect;
    uv_getaddrinfo_t resolve;
    bool resolving;             /* that request is under way */
    struct handshake handshake; /* peer_id and peer_store_id are proved once UP */
    struct frame_decoder decoder;
    uint64_t up_ms;
    uint64_t read_ms;  /* of the last input */
    uint64_t write_ms; /* of the last write that began */
    /* output, see net_uv_out.c */
    struct net_out_list queue;
    struct net_out_list sending; /* in the write request */
    size_t queue_bytes;          /* of both lists */
    uv_write_t write;
    bool writing;
    size_t unsent_bytes;  /* the socket's queue at the last look */
    uint64_t progress_ms; /* when that last changed */
};

TAILQ_HEAD(net_conn_list, net_conn);

struct net_link {
    TAILQ_ENTRY(net_link) link; /* in net->links */
    struct net_uv *net;
    uint64_t id;
    char address[LIMIT_ADDRESS_BYTES + 1];
    struct net_conn *conn; /* the present one, or NULL while waiting to redial */
    uv_timer_t redial;
    uint32_t backoff_ms;
    uint64_t lost_ms;              /* when it last dialled soon, because the link had been up, */
    uint64_t dialled_ms;           /* and because the peer had dialled */
    unsigned turn;                 /* which of a name's addresses the next dial takes */
    char reason[NET_REASON_BYTES]; /* last one logged; empty after a good handshake */
};

TAILQ_HEAD(net_link_list, net_link);

struct net_uv {
    struct net base; /* first: the vtable's object */
    uv_loop_t *loop;
    struct net_receiver *receiver;
    struct net_uv_config config; /* times filled in */
    struct handshake_config handshake;
    struct prng prng;
    uv_tcp_t listener;
    uv_prepare_t prepare; /* flushes what was queued, before the loop waits */
    uint16_t port;
    struct net_conn_list conns;
    struct net_link_list links;
    unsigned live_count;     /* listener, prepare, connections and links not freed yet */
    unsigned accepted_count; /* accepted connections not closing */
    bool closing;
    void (*close_cb)(void *data);
    void *close_data;
    bool stranger_logged; /* a failed inbound handshake, at stranger_ms */
    uint64_t stranger_ms;
    unsigned stranger_skipped; /* since then */
    uint8_t input[64 * 1024];  /* of the read under way; connections keep only parts of frames */
};

/* --- net_uv.c --- */

/* Something that counted in live_count is gone; the last one ends the close. */
void net_uv_release(struct net_uv *net);

/* --- net_uv_conn.c --- */

/* A connection with its handles made, not yet connected. net_conn_start() is next. */
struct net_conn *net_conn_new(struct net_uv *net, bool dialled, struct net_link *owner);

/* The one place that changes the state. */
void net_conn_move(struct net_conn *conn, enum net_conn_state to);

/* The socket is connected: begin to read, and the handshake. */
void net_conn_start(struct net_conn *conn);

/* Close for a reason that is logged. Idempotent. May be called anywhere. */
void net_conn_close(struct net_conn *conn, const char *reason);

/* A request beside the handles that will call back, or did. */
void net_conn_ref(struct net_conn *conn);
void net_conn_unref(struct net_conn *conn);

/* --- net_uv_out.c --- */

/* Queue a frame (takes the payload) or the handshake's bytes. They leave with the next flush. */
void net_conn_queue_frame(struct net_conn *conn, enum frame_type type, struct buf *payload);
void net_conn_queue_bytes(struct net_conn *conn, struct buf *bytes);

/* Write what is queued, unless a write is under way (then that goes on with it). */
void net_conn_flush(struct net_conn *conn);

/* Look after a dialled connection that is up: PING when idle, close when it is stuck. */
void net_conn_check_output(struct net_conn *conn);

/* Free what was not written. */
void net_conn_drop_output(struct net_conn *conn);

/* --- net_uv_link.c --- */

/* Keep a link to a peer: dials now. */
void net_link_new(struct net_uv *net, const struct net_peer *peer);
void net_link_set_address(struct net_link *link, const char *address);
void net_link_close(struct net_link *link);
struct net_link *net_link_find(struct net_uv *net, uint64_t id);

/* Its connection passed the handshake, or closes: logged once a change of reason, then redialled.
 */
void net_link_up(struct net_link *link);
void net_link_down(struct net_link *link, const struct net_conn *conn, const char *reason);

/* The peer has shown that it lives: if the next dial is far away, dial soon. */
void net_link_hurry(struct net_link *link);

/* True if the last dial ended in another way. */
bool net_link_is_news(const struct net_link *link, const char *reason);

/* --- net_uv_inbound.c --- */

/* The listener's callback. */
void net_inbound_cb(uv_stream_t *listener, int status);

/* An accepted connection passed the handshake; closes older ones of the same peer. */
void net_inbound_up(struct net_conn *conn);

/* A frame of an accepted connection that is up. */
void net_inbound_frame(struct net_conn *conn, const struct frame *frame);

/* An accepted connection closes or is rejected: log it, strangers at most once a second. */
void net_inbound_down(const struct net_conn *conn, const char *reason);

/* Close accepted connections of peers that are not ours any more. */
void net_inbound_forget_strangers(struct net_uv *net);

#endif
