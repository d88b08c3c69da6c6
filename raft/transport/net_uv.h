/*
 * net_uv.h - links to the other nodes over TCP with libuv.
 *
 * One connection a pair and direction: each node dials every peer and sends on the connection it
 * dialled; what arrives on accepted connections is given to the receiver. A newer accepted
 * connection of the same peer replaces the older one (which is closed first).
 *
 * What a frame is: raft/wire/frame.h. All of them are inside TLS 1.3 (tls_channel.h), whose keys
 * are fresh for each connection; both sides prove there that they have the secret, or a certificate
 * (net_keys.h), and then say who they are (handshake.h): all that within LIMIT_HANDSHAKE_MS.
 *
 * The happy path of sending: send() queues; before the loop waits for events the queue of each link
 * goes out in one write; what is queued while that is under way goes with the next. With an urgent
 * frame (frame.h) it goes at once.
 *
 * Failure modes: connection refused, reset, deaf: redialled (net_link.h); wrong cluster, secret,
 * version, node: REJECT with the reason, logged once a change of reason; broken frame, CRC or type:
 * the link is closed with a logged reason; queue full: the frame is dropped; nothing to send for
 * LIMIT_PEER_IDLE_MS: PING; no progress for LIMIT_PEER_STALL_MS (in our queue, or in the kernel by
 * TCP_USER_TIMEOUT): closed; nothing received for LIMIT_PEER_SILENT_MS: closed. Too many
 * connections: net_inbound.h.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_UV_H
#define LEAFD_RAFT_TRANSPORT_NET_UV_H

#include "raft/transport/net_hub.h"
#include "src/base/err.h"

struct net_link;
struct net_uv;

/* Bind and listen (a name is resolved here, which may block; names of peers are resolved at each
 * dial without blocking). Hosts are IPv4 literals, IPv6 literals in brackets, or names. 0;
 * ERR_INVALID (address), ERR_EXISTS (address in use), ERR_IO. The receiver is never called from
 * inside a function of net_uv.h or net.h, and no more once net_uv_close() was called. */
int net_uv_open(uv_loop_t *loop, const struct net_uv_config *config, struct net_receiver *receiver,
                struct net_uv **ret_net) MUST_CHECK;

struct net *net_uv_net(struct net_uv *net);

/* Other keys from now on (the reference is taken over). New connections use them. Links by a way
 * that they do not have are closed: those that we dialled one after the other, with
 * LIMIT_WAY_STEP_MS in between, and those of others in LIMIT_WAY_OUT_MS, in which their own nodes
 * should come by a new one; how many that are. False: they are the keys that there were. */
bool net_uv_set_keys(struct net_uv *net, struct net_keys *keys, unsigned *ret_renewed);

/* With whose data the peer is here while a process with this store dials; heard: in so long. */
struct net_presence net_uv_presence(const struct net_uv *net, uint64_t peer, uint64_t store_id,
                                    uint64_t within_ms);

/* For tests: the port that was bound for port 0; the link to a peer (net_link.h), or NULL. */
uint16_t net_uv_port(const struct net_uv *net);
struct net_link *net_uv_link(const struct net_uv *net, uint64_t peer);

/* Close all; cb when every handle is closed and the memory freed. */
void net_uv_close(struct net_uv *net, void (*cb)(void *data), void *data);

#endif
