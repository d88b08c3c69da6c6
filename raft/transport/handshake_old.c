/*
 * handshake_old.c - see handshake_old.h. Thread: any.
 */
#include "raft/transport/handshake_old.h"

#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "src/base/assert.h"
#include "src/base/buf.h"

static void put_levels(struct buf *buf, struct level_range levels)
{
    buf_put_u16(buf, levels.min);
    buf_put_u16(buf, levels.max);
}

void handshake_old_mac(const struct handshake_old *old, const struct handshake_old_secret *secret,
                       const struct handshake_old_said *said, uint8_t ret_mac[HANDSHAKE_MAC_BYTES])
{
    BUF_LOCAL(transcript);
    unsigned mac_len = 0;

    buf_put_str16(&transcript, said->label, strlen(said->label));
    buf_put_u16(&transcript, HANDSHAKE_OLD_PROTOCOL);
    put_levels(&transcript, said->dialler.levels);
    put_levels(&transcript, said->acceptor.levels);
    buf_put_str16(&transcript, said->cluster_id, strlen(said->cluster_id));
    buf_put_u64(&transcript, said->dialler.node_id);
    buf_put_u64(&transcript, said->acceptor.node_id);
    buf_put_u64(&transcript, said->dialler.store_id);
    buf_put_u64(&transcript, said->acceptor.store_id);
    buf_put(&transcript, old->dialler_nonce, HANDSHAKE_NONCE_BYTES);
    buf_put(&transcript, old->acceptor_nonce, HANDSHAKE_NONCE_BYTES);
    buf_put(&transcript, said->statement, said->statement_len);
    ASSERT(HMAC(EVP_sha256(), secret->len > 0 ? secret->data : "", (int)secret->len,
                transcript.data, transcript.len, ret_mac, &mac_len) != NULL);
    ASSERT(mac_len == HANDSHAKE_MAC_BYTES);
}
