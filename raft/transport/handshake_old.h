/*
 * handshake_old.h - what the handshake before level 3 had besides: nonces and macs of our own,
 * because there was no TLS. The next version that no longer speaks level 2 deletes this file, the
 * branches of is_old() in handshake.c, and the settings' `old_secret`.
 *
 * Who may still speak it: a node whose cluster was born and is below HANDSHAKE_OLD_LEVEL, as far as
 * the node knows (net_hub.h). It dials with TLS first. An attacker who can break connections may
 * have two nodes fall back to it until then, but not afterwards; see docs/failure-model.md.
 *
 *   HELLO      ..., nonce A (32)            instead of the level
 *   CHALLENGE  ..., nonce B (32), mac (32)  likewise
 *   PROOF      mac (32), statement (the rest)
 *
 * Both macs are HMAC-SHA256 under the secret, which is the text of its file, over a label
 * ("accept", "dial" or "join") and the transcript: protocol, dialler's and acceptor's levels,
 * cluster id, dialler's and acceptor's id, their store ids, nonce A, nonce B, and the statement
 * (the dialler's mac).
 *
 * Thread: pure functions on their arguments, any.
 */
#ifndef LEAFD_RAFT_TRANSPORT_HANDSHAKE_OLD_H
#define LEAFD_RAFT_TRANSPORT_HANDSHAKE_OLD_H

#include <stddef.h>
#include <stdint.h>

#include "src/id/codec/level.h"

#define HANDSHAKE_OLD_PROTOCOL 3
#define HANDSHAKE_OLD_LEVEL 3 /* from this level on nobody speaks it */
#define HANDSHAKE_NONCE_BYTES 32
#define HANDSHAKE_MAC_BYTES 32

struct handshake_old_secret {
    const void *data; /* borrowed; may be NULL when len is 0 */
    size_t len;       /* at most LIMIT_SECRET_BYTES */
};

struct handshake_old {
    uint8_t dialler_nonce[HANDSHAKE_NONCE_BYTES];
    uint8_t acceptor_nonce[HANDSHAKE_NONCE_BYTES];
};

struct handshake_old_end {
    struct level_range levels;
    uint64_t node_id;
    uint64_t store_id;
};

/* What a mac is over. */
struct handshake_old_said {
    const char *label;
    const char *cluster_id;
    struct handshake_old_end dialler;
    struct handshake_old_end acceptor;
    const void *statement;
    size_t statement_len;
};

void handshake_old_mac(const struct handshake_old *old, const struct handshake_old_secret *secret,
                       const struct handshake_old_said *said, uint8_t ret_mac[HANDSHAKE_MAC_BYTES]);

#endif
