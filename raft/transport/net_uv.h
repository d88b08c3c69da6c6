/*
 * net_uv.h - links to the other nodes over TCP with libuv: a link to each peer (net_link), the
 * connections that peers make (net_inbound), and the functions of struct net over both (net_uv).
 *
 * Failure modes: what ends a connection or a link is said below; nothing that a peer sends does
 * more than that. Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_UV_H
#define LEAFD_RAFT_TRANSPORT_NET_UV_H

#include "raft/transport/net_conn.h"
#include "src/base/err.h"

/*
 * --- net_link: keeps one outgoing link to each peer: resolve, connect, and dial again.
 *
 * The happy path: net_links_add() dials at once; a literal address connects without asking anybody,
 * a name is resolved in libuv's threads at each dial (a container may have moved); the connection
 * runs the handshake and is up.
 *
 * Failure modes: every end of a connection leads to a wait of LIMIT_REDIAL_MIN_MS doubling to
 * LIMIT_REDIAL_MAX_MS, each with jitter, and the next dial; a link that was up for a while starts
 * again with the shortest. Once in LIMIT_REDIAL_SOON_MS the shortest is enough in any case where
 * the peer is likely to be there, or its end should be known soon: the link was up, if only for a
 * moment, or the peer has just dialled this node. (An election waits for voters that have not
 * found the leader's address to refuse.) A name with several addresses is dialled at each in turn.
 *
 * Ways (net_keys.h): each link begins with the first; a peer that does not take it is offered the
 * next one at once.
 *
 * Thread: the raft loop.
 */

struct net_links;

struct net_link {
    TAILQ_ENTRY(net_link) link; /* in its links */
    struct net_links *links;
    uint64_t id;
    char address[LIMIT_ADDRESS_BYTES + 1];
    struct net_conn *conn; /* the present one, or NULL while waiting to redial */
    uv_timer_t redial;
    uint32_t backoff_ms;
    uint64_t lost_ms;              /* when it last dialled soon, because the link had been up, */
    uint64_t dialled_ms;           /* and because the peer had dialled */
    unsigned offer;                /* which credential of the keys the next dial offers */
    unsigned turn;                 /* which of a name's addresses the next dial takes */
    char reason[NET_REASON_BYTES]; /* last one logged; empty after a good handshake */
};

TAILQ_HEAD(net_link_list, net_link);

struct net_links {
    struct net_hub *hub;
    struct net_link_list list;
};

void net_links_init(struct net_links *links, struct net_hub *hub);

/* NULL: no such peer. */
struct net_link *net_links_find(const struct net_links *links, uint64_t id);

/* Keep a link to a peer: dials now. It holds the hub. */
void net_links_add(struct net_links *links, const struct net_peer *peer);

/* Another address: what was dialled is closed, and the new one dialled now. */
void net_link_set_address(struct net_link *link, const char *address);

/* The keys of the hub are others now: a link by a credential that they do not have closes in
 * `wait_ms`, and is dialled again. True if so. */
bool net_link_keys_changed(struct net_link *link, uint32_t wait_ms);

void net_link_close(struct net_link *link);

bool net_link_is_up(const struct net_link *link);

/* The peer has shown that it lives: if the next dial is far away, dial soon. */
void net_link_hurry(struct net_link *link);

/*
 * --- net_inbound: accepted connections: what peers send to us.
 *
 * The happy path: accept, handshake (net_conn.h), close an older connection of the same peer,
 * then each frame to the receiver.
 *
 * Failure modes: too many connections: the oldest that has not proved the secret is closed, so that
 * idle strangers cannot keep peers out; a payload that the receiver refuses closes the connection;
 * failed handshakes are logged at most once a second with the number of those left out.
 *
 * Thread: the raft loop.
 */

struct net_inbound {
    struct net_hub *hub;
    const struct net_links *links; /* whose peers may stay */
    struct net_conn_list conns;    /* until they are freed, oldest first */
    unsigned open_count;           /* of these, not closing */
    bool stranger_logged;          /* a failed handshake, at stranger_ms */
    uint64_t stranger_ms;
    unsigned stranger_skipped; /* since then */
};

void net_inbound_init(struct net_inbound *inbound, struct net_hub *hub,
                      const struct net_links *links);

/* The listener's callback; its handle's data is the inbound side. */
void net_inbound_cb(uv_stream_t *listener, int status);

/* The store of the peer whose connection is up, if anything has come on it in so long; else 0. */
uint64_t net_inbound_hears(const struct net_inbound *inbound, uint64_t peer, uint64_t within_ms);

/* Close the connections of peers that are ours no more. */
void net_inbound_forget_strangers(struct net_inbound *inbound);

/* The keys of the hub are others now: connections by a credential that they do not have close in
 * `wait_ms`, unless their peers have come again by then. How many. */
unsigned net_inbound_keys_changed(struct net_inbound *inbound, uint32_t wait_ms);

/* Close them all. */
void net_inbound_close(struct net_inbound *inbound, const char *reason);

/*
 * --- net_uv: links to the other nodes over TCP with libuv.
 *
 * One connection a pair and direction: each node dials every peer and sends on the connection it
 * dialled; what arrives on accepted connections is given to the receiver. A newer accepted
 * connection of the same peer replaces the older one (which is closed first).
 *
 * What a frame is: raft/wire/wire.h. All of them are inside TLS 1.3 (net_keys.h), whose keys
 * are fresh for each connection; both sides prove there that they have the secret, or a certificate
 * (net_keys.h), and then name themselves (handshake.h): all that within LIMIT_HANDSHAKE_MS.
 *
 * The happy path of sending: send() queues; before the loop waits for events the queue of each link
 * goes out in one write; what is queued while that is under way goes with the next. With an urgent
 * frame (a question that waits for no disk and no state) it goes at once.
 *
 * Failure modes: connection refused, reset, deaf: redialled (net_link); wrong cluster, secret,
 * version, node: REJECT with the reason, logged once a change of reason; broken frame, CRC or type:
 * the link is closed with a logged reason; queue full: the frame is dropped; nothing to send for
 * LIMIT_PEER_IDLE_MS: PING; no progress for LIMIT_PEER_STALL_MS (in our queue, or in the kernel by
 * TCP_USER_TIMEOUT): closed; nothing received for LIMIT_PEER_SILENT_MS: closed. Too many
 * connections: net_inbound.
 *
 * Thread: the raft loop.
 */

struct net_link;
struct net_uv;

/* Bind and listen (a name is resolved here, which may block; names of peers are resolved at each
 * dial without blocking). Hosts are IPv4 literals, IPv6 literals in brackets, or names. 0;
 * ERR_INVALID (address), ERR_EXISTS (address in use), ERR_IO. The receiver is never called from
 * inside a function of net_uv.h or net.h, and no more once net_uv_close() was called. */
int net_uv_open(uv_loop_t *loop, const struct net_uv_config *config, struct net_receiver *receiver,
                struct net_uv **ret_net) MUST_CHECK;

struct net *net_uv_net(struct net_uv *net);

/* Other keys from now on (the reference is taken over). New connections use them. Links by a
 * credential that they do not have are closed: those that we dialled one after the other, with
 * LIMIT_REKEY_STEP_MS in between, and those of others in LIMIT_REKEY_OUT_MS, in which their own
 * nodes should dial with a new one; how many that are. False: they are the keys that there were. */
bool net_uv_set_keys(struct net_uv *net, struct net_keys *keys, unsigned *ret_renewed);

/* For tests: the port that was bound for port 0; the link to a peer (net_uv.h), or NULL. */
uint16_t net_uv_port(const struct net_uv *net);
struct net_link *net_uv_link(const struct net_uv *net, uint64_t peer);

/* Close all; cb when every handle is closed and the memory freed. */
void net_uv_close(struct net_uv *net, void (*cb)(void *data), void *data);

#endif
