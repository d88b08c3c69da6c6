/*
 * net_uv.h - links to the other nodes over TCP with libuv.
 *
 * One connection a pair and direction: each node dials every peer and sends on the connection it
 * dialled; what arrives on accepted connections is given to the receiver. A newer accepted
 * connection of the same peer replaces the older one (which is closed first).
 *
 * What a frame is: raft/wire/wire.h. All of them are inside TLS 1.3 (net_keys.h), whose keys are
 * fresh for each connection; both sides prove there that they have the secret, or a certificate,
 * and then name themselves (handshake.h): all that within LIMIT_HANDSHAKE_MS.
 *
 * The happy path: open binds and listens; set_peers() makes a link a peer, which dials at once. A
 * literal address connects without asking anybody, a name is resolved in libuv's threads at each
 * dial (a container may have moved), and its addresses take turns. send() queues on the link's
 * connection, and a prepare handle flushes all links once a loop turn, just before the loop would
 * wait; what is queued while a write is under way goes with the next. So many frames of one turn
 * share a write and none waits for a timer. An urgent frame (a question that waits for no disk and
 * no state) leaves at once, and takes along what stands before it.
 *
 * Redialling: every end of a connection leads to a wait of LIMIT_REDIAL_MIN_MS doubling to
 * LIMIT_REDIAL_MAX_MS, each with jitter, and the next dial; a link that was up for a while starts
 * again with the shortest. Once in LIMIT_REDIAL_SOON_MS the shortest is enough in any case where
 * the peer is likely to be there, or its end should be known soon: the link was up, if only for a
 * moment, or the peer has just dialled this node. (An election waits for voters that have not found
 * the leader's address to refuse.) Each link offers the first credential (net_keys.h) first; a peer
 * that does not take it is offered the next one at once.
 *
 * Failure modes: connection refused, reset, deaf: redialled; wrong cluster, secret, version, node:
 * REJECT with the reason, logged once a change of reason; broken frame, CRC or type: the link is
 * closed with a logged reason; a payload that the receiver refuses closes the connection; queue
 * full: the frame is dropped; nothing to send for LIMIT_PEER_IDLE_MS: PING; no progress for
 * LIMIT_PEER_STALL_MS (in our queue, or in the kernel by TCP_USER_TIMEOUT): closed; nothing
 * received for LIMIT_PEER_SILENT_MS: closed. Too many connections: the oldest that has not proved
 * the secret is closed, so that idle strangers cannot keep peers out. Failed handshakes are logged
 * at most once a second, with the number of those left out.
 *
 * Closing: net_uv_close() closes the listener and every link and connection; each that is freed
 * lets go of the hub, and the last one frees the rest and calls back.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_UV_H
#define LEAFD_RAFT_TRANSPORT_NET_UV_H

#include "raft/transport/net_conn.h"
#include "src/base/err.h"

struct net_uv;

/* The outgoing link to a peer. It holds the hub. */
struct net_link {
    TAILQ_ENTRY(net_link) link; /* in net */
    struct net_uv *net;
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

/* For tests: the port that was bound for port 0; the link to a peer, or NULL. */
uint16_t net_uv_port(const struct net_uv *net);
struct net_link *net_uv_link(const struct net_uv *net, uint64_t peer);

/* Close all; cb when every handle is closed and the memory freed. */
void net_uv_close(struct net_uv *net, void (*cb)(void *data), void *data);

#endif
