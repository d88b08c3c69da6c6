/*
 * tls_channel.h - TLS 1.3 on one connection, between bytes that come and bytes that go. No I/O.
 *
 * The happy path: tls_channel_dial() or _accept(); what the socket gives goes in by feed(), and
 * what is to be written gathers in `out`. shake() moves the handshake; once it is open, whoever is
 * there has proved a way of the keys (net_keys.h), and read() and write() carry plain bytes.
 *
 *   SHAKING --> OPEN --> BROKEN
 *      `-------------------^
 *
 * On both sides: TLS 1.3, TLS_AES_128_GCM_SHA256, X25519 with every key (psk_dhe_ke), no tickets
 * and no early data. A dialler that offered a secret demands that it was taken, and that its
 * wanted node, by the identity, is there; one with a certificate, that the other's names the node
 * that it wants.
 *
 * Writing: write() gathers, and seals what makes a whole record; seal() the rest. So the frames of
 * a turn share records. Before 2^23 records, or by rekey(), the keys of our direction are renewed.
 *
 * Failure modes: anything that does not verify ends in BROKEN with a reason; `out` then holds the
 * alert, which may still be written. More than LIMIT_TLS_HANDSHAKE_BYTES before it is open: BROKEN.
 *
 * Thread: the raft loop (any, but one).
 */
#ifndef LEAFD_RAFT_TRANSPORT_TLS_CHANNEL_H
#define LEAFD_RAFT_TRANSPORT_TLS_CHANNEL_H

#include <sys/types.h>

#include "raft/transport/net_keys.h"
#include "src/base/buf.h"

#define TLS_FIRST_BYTE 0x16 /* of a dialler's hello */
#define TLS_REASON_BYTES 96

struct tls_channel;

/* Who is at the other end, once it is open. */
struct tls_peer {
    uint8_t way_id[NET_WAY_ID_BYTES]; /* what it proved */
    bool same_cluster;
    uint64_t node_id; /* 0: one who knows the secret, no more (of those that are dialled) */
    uint64_t wanted;  /* whom the dialler wants, as it proved; 0: anybody, or it says so later */
    bool says_wanted; /* by an identity: wanted holds */
};

/* Dial node `wanted` (0: whoever it is), offering the way of this number of the keys; the hello is
 * in `out`. */
struct tls_channel *tls_channel_dial(struct net_keys *keys, unsigned way, uint64_t own_id,
                                     uint64_t wanted);

struct tls_channel *tls_channel_accept(struct net_keys *keys, uint64_t own_id);

/* NULL-safe. */
void tls_channel_free(struct tls_channel *channel);

/* Bytes from the socket, borrowed until the next call of feed(): shake() and read() use them up.
 * NULL and 0: no longer. */
void tls_channel_feed(struct tls_channel *channel, const void *data, size_t len);

/* Go on with the handshake: 1 once it is open; 0: the other side's turn; ERR_REFUSED (nobody that
 * we trust), ERR_TOO_LARGE or ERR_BAD_MESSAGE. */
int tls_channel_shake(struct tls_channel *channel) MUST_CHECK;

bool tls_channel_is_open(const struct tls_channel *channel);

/* Of an open one. */
const struct tls_peer *tls_channel_peer(const struct tls_channel *channel);

/* Plain bytes from an open one, up to `room`: how many, 0 when the input is used up; ERR_IO
 * (the other side ended it), ERR_CORRUPT (a record that is not of the other side). */
ssize_t tls_channel_read(struct tls_channel *channel, void *data, size_t room) MUST_CHECK;

/* The last read() took all that there was: until the next feed() another one would only find that
 * out, for the price of a quarter of a record. */
bool tls_channel_is_drained(const struct tls_channel *channel);

/* To an open one. */
void tls_channel_write(struct tls_channel *channel, const void *data, size_t len);
void tls_channel_seal(struct tls_channel *channel);

/* Renew the keys of our direction with the next record. */
void tls_channel_rekey(struct tls_channel *channel);

/* What is to go to the socket: the caller takes it out. */
struct buf *tls_channel_out(struct tls_channel *channel);

/* Why it is BROKEN. Borrowed from it. */
const char *tls_channel_reason(const struct tls_channel *channel);

#endif
