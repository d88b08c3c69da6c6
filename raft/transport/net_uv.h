/*
 * net_uv.h - links to the other nodes over TCP with libuv.
 *
 * One connection a pair and direction: each node dials every peer and sends on the connection it
 * dialled; frames from accepted connections go to the receiver. A newer accepted connection of the
 * same peer replaces the older one (which is closed first).
 *
 * raft/wire/wire.h defines frames. All frames are inside TLS 1.3 (net_keys.h), whose keys are fresh
 * for each connection. Both sides prove there that they have the secret, or a certificate, and then
 * name themselves (handshake.h), all within LIMIT_HANDSHAKE_MS.
 *
 * The happy path: open binds and listens; set_peers() makes a link a peer, which dials at once. A
 * literal address connects without the resolver. A name is resolved in libuv's threads at each dial
 * (a container may have moved), and its addresses take turns. send() queues on the link's
 * connection, and a prepare handle flushes all links once a loop turn, just before the loop would
 * wait. Frames queued during a write go with the next one. So the frames of one turn share a write,
 * and none waits for a timer. An urgent frame (a question that needs no disk and no state) is sent
 * at once, with all frames queued before it.
 *
 * Redialling: after each end of a connection the link waits, from LIMIT_REDIAL_MIN_MS doubling to
 * LIMIT_REDIAL_MAX_MS, each with jitter, and dials again. A link that was up for a while starts
 * again with the shortest wait. Once in LIMIT_REDIAL_SOON_MS the shortest wait is also used if the
 * link was up, even for a moment, or the peer has just dialled this node: then the peer is likely
 * there, or its end must be noticed soon. (An election waits for voters that have not yet seen the
 * leader's address refuse.) Each link offers the first credential (net_keys.h) first; a peer that
 * does not take it is offered the next one at once.
 *
 * Failure modes: connection refused, reset, unresponsive: redialled; wrong cluster, secret,
 * version, node: REJECT with the reason, logged once a change of reason; broken frame, CRC or type:
 * the link is closed with a logged reason; a payload that the receiver refuses closes the
 * connection; queue full: the frame is dropped; nothing to send for LIMIT_PEER_IDLE_MS: PING; no
 * progress for LIMIT_PEER_STALL_MS (in our queue, or in the kernel by TCP_USER_TIMEOUT): closed;
 * nothing received for LIMIT_PEER_SILENT_MS: closed. Too many connections: the oldest that has not
 * proved the secret is closed, so that idle strangers cannot keep peers out. Failed handshakes are
 * logged at most once a second, with the number of those left out.
 *
 * Closing: net_uv_close() closes the listener and every link and connection; each releases the hub
 * when it is freed, and the last one frees the rest and calls back.
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
    struct net_conn *conn; /* the current one, or NULL while waiting to redial */
    uv_timer_t redial;
    uint32_t backoff_ms;
    uint64_t lost_ms;              /* when it last used the short wait because the link had been
                                      up, */
    uint64_t dialled_ms;           /* or because the peer had dialled */
    unsigned offer;                /* which credential of the keys the next dial offers */
    unsigned turn;                 /* which of a name's addresses the next dial takes */
    char reason[NET_REASON_BYTES]; /* last one logged; empty after a good handshake */
};

/* Bind and listen (a name is resolved here, which may block; names of peers are resolved at each
 * dial without blocking). Hosts are IPv4 literals, IPv6 literals in brackets, or names. 0;
 * ERR_INVALID (address), ERR_EXISTS (address in use), ERR_IO. The receiver is never called from
 * inside a function of net_uv.h or net.h, and never after net_uv_close() was called. */
int net_uv_open(uv_loop_t *loop, const struct net_uv_config *config,
                struct net_uv **ret_net) MUST_CHECK;

struct net *net_uv_net(struct net_uv *net);

/* Use other keys from now on (the reference is taken over), for new connections. Connections by a
 * credential that the keys lack are closed: dialled ones one after the other, LIMIT_REKEY_STEP_MS
 * apart; accepted ones in LIMIT_REKEY_OUT_MS, so that their dialler can dial with a new one first.
 * *ret_renewed is their number. False: the keys did not change. */
bool net_uv_set_keys(struct net_uv *net, struct net_keys *keys, unsigned *ret_renewed);

/* For tests: the bound port when it was set to 0; the link to a peer, or NULL. */
uint16_t net_uv_port(const struct net_uv *net);
struct net_link *net_uv_link(const struct net_uv *net, uint64_t peer);

/* Close all; cb when every handle is closed and the memory freed. */
void net_uv_close(struct net_uv *net, void (*cb)(void *data), void *data);

#endif
