/*
 * keys.h - the keys under which session tickets are sealed: a small ring that all loops, listeners
 * and certificates share, so that a client may come back to another loop, and after a reload.
 *
 * The newest key seals; each of the ring opens. A key is replaced when it is TLS_KEY_MS old, by
 * whoever is about to seal, and opens tickets until TLS_KEYS newer ones were made: longer than a
 * ticket is good for (TLS_TICKET_S). One that leaves the ring is wiped, and with it what was sent
 * under TLS 1.2 sessions of its tickets is beyond reach.
 *
 * Failure modes: no randomness: no ticket is sealed, the handshake goes on without.
 *
 * Thread: any; a mutex, for handshakes alone.
 */
#ifndef LEAFD_HTTP_TLS_KEYS_H
#define LEAFD_HTTP_TLS_KEYS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "src/base/clock.h"
#include "src/base/container.h"

#define TLS_KEYS 4
#define TLS_KEY_MS 3600000 /* an hour */
#define TLS_TICKET_S 7200
_Static_assert((TLS_KEYS - 1) * TLS_KEY_MS >= TLS_TICKET_S * 1000, "tickets outlive their keys");

#define TLS_KEY_NAME_BYTES 16

struct tls_key {
    uint8_t name[TLS_KEY_NAME_BYTES]; /* in the ticket, in clear */
    uint8_t cipher[32];
    uint8_t mac[32];
};

struct tls_keys {
    pthread_mutex_t mutex;
    const struct clock *clock;
    struct tls_key ring[TLS_KEYS]; /* the newest first; count of them */
    unsigned count;
    uint64_t made_ms; /* the newest; monotonic */
} BY_NAME;

/* clock: borrowed. */
void tls_keys_init(struct tls_keys *keys, const struct clock *clock);

/* Wipe them. */
void tls_keys_release(struct tls_keys *keys);

/* The key to seal with. The caller wipes *ret_key. False: there is no randomness. */
bool tls_keys_newest(struct tls_keys *keys, struct tls_key *ret_key);

/* The key of this name. *ret_newest: it is the one that seals. The caller wipes *ret_key. False: it
 * is not known, or no longer. */
bool tls_keys_find(struct tls_keys *keys, const uint8_t name[TLS_KEY_NAME_BYTES],
                   struct tls_key *ret_key, bool *ret_newest);

#endif
