/*
 * net_uv.h - links to the other nodes over TCP with libuv.
 *
 * One connection a pair and direction: each node dials every peer and sends on the connection it
 * dialled; what arrives on accepted connections is given to the receiver. A newer accepted
 * connection of the same peer replaces the older one (which is closed first).
 *
 * Frame: {u32 length of what follows the crc, u32 crc32c of it, u8 version, u8 type, u16 zero,
 * payload}.
 *
 * Handshake, before any other byte is looked at (each side has LIMIT_HANDSHAKE_MS):
 *   dialler -> HELLO      {protocol, cluster id, own id, wanted id, store id, nonce A}
 *   acceptor -> CHALLENGE {protocol, cluster id, own id, store id, nonce B,
 *                          HMAC(secret, "accept" | all of both)}
 *   dialler -> PROOF      {HMAC(secret, "dial" | all of both)}
 *   acceptor -> WELCOME, or REJECT {code, text} at any step
 * HMAC-SHA256 of OpenSSL; compared in constant time; nonces are 32 random bytes from the system, so
 * a recorded handshake cannot be replayed. The secret itself never crosses the wire.
 *
 * The dialler asks for the node id that it wants to reach, so a mixed-up address shows at once.
 *
 * The happy path of sending: send() queues; before the loop waits for events the queue of each link
 * goes out in one write; what is queued while that is under way goes with the next.
 *
 * Failure modes: connection refused, reset, deaf: redialled after 50 ms doubling to 1 s with
 * jitter; wrong cluster, secret, version, node: REJECT with the reason, logged once a change of
 * reason; broken frame, CRC or type: the link is closed with a logged reason; queue full: the frame
 * is dropped; nothing to send for LIMIT_PEER_IDLE_MS: PING; no progress for LIMIT_PEER_STALL_MS (in
 * our queue, or in the kernel by TCP_USER_TIMEOUT): closed; nothing received for
 * LIMIT_PEER_SILENT_MS: closed. More connections than LIMIT_PEER_CONNECTIONS: the oldest that has
 * not proved the secret is closed.
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

/* For tests: the port that was bound for port 0; the link to a peer (net_link.h), or NULL. */
uint16_t net_uv_port(const struct net_uv *net);
struct net_link *net_uv_link(const struct net_uv *net, uint64_t peer);

/* Close all; cb when every handle is closed and the memory freed. */
void net_uv_close(struct net_uv *net, void (*cb)(void *data), void *data);

#endif
