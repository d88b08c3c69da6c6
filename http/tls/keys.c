/*
 * keys.c - see keys.h. Thread: any.
 */
#include "http/tls/keys.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <string.h>

#include "src/base/assert.h"

void tls_keys_init(struct tls_keys *keys, const struct clock *clock)
{
    *keys = (struct tls_keys){.clock = clock};
    ASSERT(pthread_mutex_init(&keys->mutex, NULL) == 0);
}

void tls_keys_release(struct tls_keys *keys)
{
    ASSERT(pthread_mutex_destroy(&keys->mutex) == 0);
    OPENSSL_cleanse(keys->ring, sizeof keys->ring);
}

/* Put a new key before the others; the oldest one goes. With the mutex. */
static bool rotate(struct tls_keys *keys, uint64_t now_ms)
{
    struct tls_key key;

    if (RAND_bytes(key.name, sizeof key.name) != 1 ||
        RAND_priv_bytes(key.cipher, sizeof key.cipher) != 1 ||
        RAND_priv_bytes(key.mac, sizeof key.mac) != 1) {
        ERR_clear_error();
        return false;
    }
    memmove(keys->ring + 1, keys->ring, sizeof *keys->ring * (TLS_KEYS - 1));
    keys->ring[0] = key;
    keys->count += keys->count < TLS_KEYS;
    keys->made_ms = now_ms;
    OPENSSL_cleanse(&key, sizeof key);
    return true;
}

/* As many as were due since: after a quiet day no key of yesterday opens anything. With the
 * mutex. */
static bool bring_up_to_date(struct tls_keys *keys)
{
    uint64_t now_ms = clock_now_ms(keys->clock);
    uint64_t due = keys->count == 0 ? 1 : (now_ms - keys->made_ms) / TLS_KEY_MS;
    bool done = true;

    for (uint64_t i = 0; done && i < due && i < TLS_KEYS; i++) {
        done = rotate(keys, now_ms);
    }
    return done;
}

bool tls_keys_newest(struct tls_keys *keys, struct tls_key *ret_key)
{
    bool found;

    ASSERT(pthread_mutex_lock(&keys->mutex) == 0);
    found = bring_up_to_date(keys);
    if (found) {
        *ret_key = keys->ring[0];
    }
    ASSERT(pthread_mutex_unlock(&keys->mutex) == 0);
    return found;
}

bool tls_keys_find(struct tls_keys *keys, const uint8_t name[TLS_KEY_NAME_BYTES],
                   struct tls_key *ret_key, bool *ret_newest)
{
    unsigned i = 0;
    bool found;

    ASSERT(pthread_mutex_lock(&keys->mutex) == 0);
    found = bring_up_to_date(keys);
    while (i < keys->count && memcmp(keys->ring[i].name, name, TLS_KEY_NAME_BYTES) != 0) {
        i++;
    }
    found = found && i < keys->count;
    if (found) {
        *ret_key = keys->ring[i];
        *ret_newest = i == 0;
    }
    ASSERT(pthread_mutex_unlock(&keys->mutex) == 0);
    return found;
}
