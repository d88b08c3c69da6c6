/*
 * net_uv.h - links to the other nodes over TCP with libuv.
 *
 * One connection a pair and direction: each node dials every peer and sends on the connection it
 * dialled; what arrives on accepted connections is given to the receiver. A newer accepted connection of
 * the same peer replaces the older one (which is closed first).
 *
 * Frame: {u32 length of what follows the crc, u32 crc32c of it, u8 version, u8 type, u16 zero, payload}.
 *
 * Handshake, before any other byte is looked at (each side has LIMIT_HANDSHAKE_MS):
 *   dialler -> HELLO      {protocol, cluster id, own id, wanted id, store id, nonce A}
 *   acceptor -> CHALLENGE {protocol, cluster id, own id, store id, nonce B, HMAC(secret, "accept" | all of both)}
 *   dialler -> PROOF      {HMAC(secret, "dial" | all of both)}
 *   acceptor -> WELCOME, or REJECT {code, text} at any step
 * HMAC-SHA256 of OpenSSL; compared in constant time; nonces are 32 random bytes from the system, so a
 * recorded handshake cannot be replayed. The secret itself never crosses the wire.
 *
 * Failure modes: connection refused, reset, deaf: redialled after 50 ms doubling to 1 s with jitter;
 * wrong cluster, secret, version, node: REJECT with the reason, logged once a change of reason; broken
 * frame, CRC or type: the link is closed with a logged reason; queue full: the frame is dropped; no
 * traffic for 10 s: PING, and closed after 5 s without progress.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_NET_UV_H
#define LEAFD_RAFT_NET_UV_H

#include <uv.h>

#include "raft/net.h"
#include "src/base/err.h"

struct net_uv;

struct net_uv_config {
    uint64_t node_id;
    uint64_t store_id;
    const char *cluster_id;  /* borrowed until close */
    const void *secret;      /* 0..LIMIT_SECRET_BYTES, borrowed until close; empty: an empty key */
    size_t secret_len;
    const char *listen_address; /* "host:port" to bind; port 0 picks one (tests) */
};

/* Bind and listen. 0; ERR_INVALID (address), ERR_EXISTS (address in use), ERR_IO. */
int net_uv_open(uv_loop_t *loop, const struct net_uv_config *config, struct net_receiver *receiver,
                struct net_uv **ret_net) MUST_CHECK;

struct net *net_uv_net(struct net_uv *net);

/* The port that was bound (for tests with port 0). */
uint16_t net_uv_port(const struct net_uv *net);

/* Close all; cb when every handle is closed and the memory freed. */
void net_uv_close(struct net_uv *net, void (*cb)(void *data), void *data);

#endif
