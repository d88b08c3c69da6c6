/*
 * handshake.c - see handshake.h.
 *
 * The happy path: HELLO names both ends; the acceptor answers with its own nonce and a mac over
 * both, which proves the secret to the dialler; the dialler's mac proves it to the acceptor; the
 * acceptor asks whether that peer and its store may join, and says WELCOME.
 *
 * Failure modes: any frame out of turn or out of shape, and any mismatch, moves to FAILED for good.
 *
 * Thread: pure functions on their arguments, any.
 */
#include "raft/transport/handshake.h"

#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "raft/wire/frame.h"
#include "src/base/assert.h"
#include "src/base/err.h"
#include "src/base/limits.h"

/* What a HELLO or a CHALLENGE says about its sender. */
struct introduction {
    uint16_t protocol;
    const uint8_t *cluster_id;
    size_t cluster_id_len;
    uint64_t node_id;
    uint64_t wanted_id; /* HELLO only */
    uint64_t store_id;
    const uint8_t *nonce;
    const uint8_t *mac; /* CHALLENGE only */
};

static void begin(struct handshake *handshake, const struct handshake_config *config, bool dialler);
static void say_hello(struct handshake *handshake, const struct handshake_config *config,
                      uint64_t wanted, const uint8_t nonce[HANDSHAKE_NONCE_BYTES], struct buf *out);
static void move(struct handshake *handshake, enum handshake_state to);
static void fail(struct handshake *handshake, enum handshake_reject reject, struct buf *out);
static void take_hello(struct handshake *handshake, const uint8_t *payload, size_t len,
                       struct buf *out);
static void take_challenge(struct handshake *handshake, const uint8_t *payload, size_t len,
                           struct buf *out);
static void put_proof(struct handshake *handshake, struct buf *out);
static void take_proof(struct handshake *handshake, const uint8_t *payload, size_t len,
                       struct buf *out);
static void take_welcome(struct handshake *handshake, size_t len, struct buf *out);
static void take_reject(struct handshake *handshake, const uint8_t *payload, size_t len,
                        struct buf *out);

void handshake_dial(struct handshake *handshake, const struct handshake_config *config,
                    uint64_t wanted, const uint8_t nonce[HANDSHAKE_NONCE_BYTES], struct buf *out)
{
    ASSERT(wanted > 0 && wanted != config->node_id);
    say_hello(handshake, config, wanted, nonce, out);
}

void handshake_join(struct handshake *handshake, const struct handshake_config *config,
                    const uint8_t nonce[HANDSHAKE_NONCE_BYTES], struct buf *out)
{
    ASSERT(config->introduce != NULL);
    say_hello(handshake, config, 0, nonce, out);
    handshake->joins = true;
}

static void say_hello(struct handshake *handshake, const struct handshake_config *config,
                      uint64_t wanted, const uint8_t nonce[HANDSHAKE_NONCE_BYTES], struct buf *out)
{
    struct buf hello = BUF_INIT;

    begin(handshake, config, true);
    handshake->peer_id = wanted;
    memcpy(handshake->dialler_nonce, nonce, HANDSHAKE_NONCE_BYTES);
    buf_put_u16(&hello, HANDSHAKE_PROTOCOL);
    buf_put_str16(&hello, config->cluster_id, strlen(config->cluster_id));
    buf_put_u64(&hello, config->node_id);
    buf_put_u64(&hello, wanted);
    buf_put_u64(&hello, config->store_id);
    buf_put(&hello, nonce, HANDSHAKE_NONCE_BYTES);
    frame_put(out, FRAME_HELLO, hello.data, hello.len);
    buf_free(&hello);
}

void handshake_accept(struct handshake *handshake, const struct handshake_config *config,
                      const uint8_t nonce[HANDSHAKE_NONCE_BYTES])
{
    begin(handshake, config, false);
    memcpy(handshake->acceptor_nonce, nonce, HANDSHAKE_NONCE_BYTES);
}

void handshake_receive(struct handshake *handshake, enum frame_type type, const uint8_t *payload,
                       size_t len, struct buf *out)
{
    ASSERT(handshake->state < HANDSHAKE_DONE);
    if (handshake->state == HANDSHAKE_HELLO_AWAITED && type == FRAME_HELLO) {
        take_hello(handshake, payload, len, out);
    } else if (handshake->state == HANDSHAKE_HELLO_SENT && type == FRAME_CHALLENGE) {
        take_challenge(handshake, payload, len, out);
    } else if (handshake->state == HANDSHAKE_CHALLENGE_SENT && type == FRAME_PROOF) {
        take_proof(handshake, payload, len, out);
    } else if (handshake->state == HANDSHAKE_PROOF_SENT && type == FRAME_WELCOME) {
        take_welcome(handshake, len, out);
    } else if (handshake->state == HANDSHAKE_PROOF_SENT && type == FRAME_JOINED &&
               handshake->joins) {
        move(handshake, HANDSHAKE_ANSWERED);
    } else if (handshake->dialler && type == FRAME_REJECT) {
        take_reject(handshake, payload, len, out);
    } else {
        fail(handshake, HANDSHAKE_REJECT_MALFORMED, out);
    }
}

const char *handshake_reject_text(enum handshake_reject reject)
{
    switch (reject) {
    case HANDSHAKE_REJECT_NONE:
        return "not rejected";
    case HANDSHAKE_REJECT_MALFORMED:
        return "malformed handshake";
    case HANDSHAKE_REJECT_VERSION:
        return "another protocol version";
    case HANDSHAKE_REJECT_CLUSTER:
        return "another cluster id";
    case HANDSHAKE_REJECT_NODE:
        return "another node id than expected";
    case HANDSHAKE_REJECT_PEER:
        return "not a known member";
    case HANDSHAKE_REJECT_PROOF:
        return "another secret";
    case HANDSHAKE_REJECT_STORE:
        return "the store is not the one registered for the node id";
    case HANDSHAKE_REJECT_REMOVED:
        return "the node id was removed from the cluster";
    case HANDSHAKE_REJECT_OLDER:
        return "the data directory is an older copy";
    case HANDSHAKE_REJECT_IMPLAUSIBLE:
        return "the node's term or last index cannot be";
    }
    return "rejected for an unknown reason";
}

int handshake_reject_err(enum handshake_reject reject)
{
    switch (reject) {
    case HANDSHAKE_REJECT_NONE:
        return 0;
    case HANDSHAKE_REJECT_MALFORMED:
        return ERR_BAD_MESSAGE;
    case HANDSHAKE_REJECT_VERSION:
        return ERR_BAD_VERSION;
    case HANDSHAKE_REJECT_PEER:
        return ERR_NOT_FOUND;
    case HANDSHAKE_REJECT_STORE:
        return ERR_WRONG_NODE;
    case HANDSHAKE_REJECT_REMOVED:
        return ERR_REMOVED;
    case HANDSHAKE_REJECT_OLDER:
        return ERR_STALE;
    case HANDSHAKE_REJECT_IMPLAUSIBLE:
        return ERR_IMPLAUSIBLE;
    case HANDSHAKE_REJECT_CLUSTER:
    case HANDSHAKE_REJECT_NODE:
    case HANDSHAKE_REJECT_PROOF:
        return ERR_REFUSED;
    }
    return ERR_REFUSED;
}

/* This store will not be let in any more: told, and believed, only where the secret was proved. */
static bool is_for_good(enum handshake_reject reject)
{
    return reject == HANDSHAKE_REJECT_STORE || reject == HANDSHAKE_REJECT_REMOVED ||
           reject == HANDSHAKE_REJECT_OLDER;
}

bool handshake_reject_is_final(enum handshake_reject reject)
{
    return reject == HANDSHAKE_REJECT_VERSION || reject == HANDSHAKE_REJECT_CLUSTER ||
           reject == HANDSHAKE_REJECT_NODE || reject == HANDSHAKE_REJECT_IMPLAUSIBLE ||
           is_for_good(reject);
}

static void begin(struct handshake *handshake, const struct handshake_config *config, bool dialler)
{
    ASSERT(config->node_id > 0 && config->secret_len <= LIMIT_SECRET_BYTES);
    ASSERT(strlen(config->cluster_id) <= LIMIT_CLUSTER_ID_BYTES);
    memset(handshake, 0, sizeof *handshake);
    handshake->config = config;
    handshake->dialler = dialler;
    handshake->state = dialler ? HANDSHAKE_HELLO_SENT : HANDSHAKE_HELLO_AWAITED;
}

/* The one place that changes the state. */
static void move(struct handshake *handshake, enum handshake_state to)
{
    static const unsigned allowed[] = {
        [HANDSHAKE_HELLO_SENT] = 1U << HANDSHAKE_PROOF_SENT | 1U << HANDSHAKE_FAILED,
        [HANDSHAKE_PROOF_SENT] =
            1U << HANDSHAKE_DONE | 1U << HANDSHAKE_ANSWERED | 1U << HANDSHAKE_FAILED,
        [HANDSHAKE_HELLO_AWAITED] = 1U << HANDSHAKE_CHALLENGE_SENT | 1U << HANDSHAKE_FAILED,
        [HANDSHAKE_CHALLENGE_SENT] =
            1U << HANDSHAKE_DONE | 1U << HANDSHAKE_ANSWERED | 1U << HANDSHAKE_FAILED,
        [HANDSHAKE_DONE] = 0,
        [HANDSHAKE_ANSWERED] = 0,
        [HANDSHAKE_FAILED] = 0,
    };

    ASSERT((allowed[handshake->state] & 1U << to) != 0);
    handshake->state = to;
}

/* Give up; an acceptor says why, in words only to a dialler that has proved the secret. */
static void fail(struct handshake *handshake, enum handshake_reject reject, struct buf *out)
{
    struct buf payload = BUF_INIT;
    const char *text = "";

    ASSERT(reject != HANDSHAKE_REJECT_NONE);
    handshake->reject = reject;
    move(handshake, HANDSHAKE_FAILED);
    if (handshake->dialler) {
        return;
    }
    if (reject == HANDSHAKE_REJECT_PEER || reject == HANDSHAKE_REJECT_IMPLAUSIBLE ||
        is_for_good(reject)) {
        text = handshake_reject_text(reject);
    }
    buf_put_u16(&payload, (uint16_t)reject);
    buf_put_str16(&payload, text, strlen(text));
    frame_put(out, FRAME_REJECT, payload.data, payload.len);
    buf_free(&payload);
}

/* The mac over what both sides said, as the one who speaks it: the dialler, with its statement, or
 * the acceptor. */
static void compute_mac(const struct handshake *handshake, bool of_dialler, const void *statement,
                        size_t statement_len, uint8_t ret_mac[HANDSHAKE_MAC_BYTES])
{
    const struct handshake_config *config = handshake->config;
    const char *dial = handshake->joins ? "join" : "dial";
    const char *label = of_dialler ? dial : "accept";
    const bool own = handshake->dialler;
    struct buf transcript = BUF_INIT;
    unsigned mac_len = 0;

    buf_put_str16(&transcript, label, strlen(label));
    buf_put_u16(&transcript, HANDSHAKE_PROTOCOL);
    buf_put_str16(&transcript, config->cluster_id, strlen(config->cluster_id));
    buf_put_u64(&transcript, own ? config->node_id : handshake->peer_id);
    buf_put_u64(&transcript, own ? handshake->peer_id : config->node_id);
    buf_put_u64(&transcript, own ? config->store_id : handshake->peer_store_id);
    buf_put_u64(&transcript, own ? handshake->peer_store_id : config->store_id);
    buf_put(&transcript, handshake->dialler_nonce, HANDSHAKE_NONCE_BYTES);
    buf_put(&transcript, handshake->acceptor_nonce, HANDSHAKE_NONCE_BYTES);
    buf_put(&transcript, statement, statement_len);
    ASSERT(HMAC(EVP_sha256(), config->secret_len > 0 ? config->secret : "", (int)config->secret_len,
                transcript.data, transcript.len, ret_mac, &mac_len) != NULL);
    ASSERT(mac_len == HANDSHAKE_MAC_BYTES);
    buf_free(&transcript);
}

static bool mac_holds(const struct handshake *handshake, bool of_dialler, const void *statement,
                      size_t statement_len, const uint8_t *mac)
{
    uint8_t want[HANDSHAKE_MAC_BYTES];

    compute_mac(handshake, of_dialler, statement, statement_len, want);
    return CRYPTO_memcmp(want, mac, sizeof want) == 0;
}

/* The protocol comes first in both frames, so that the rest may differ in another version of it. */
static enum handshake_reject read_introduction(const struct handshake *handshake,
                                               const uint8_t *payload, size_t len,
                                               struct introduction *ret_introduction)
{
    const char *cluster_id = handshake->config->cluster_id;
    struct introduction intro = {0};
    struct reader reader;

    reader_init(&reader, payload, len);
    intro.protocol = reader_u16(&reader);
    if (!reader.bad && intro.protocol != HANDSHAKE_PROTOCOL) {
        return HANDSHAKE_REJECT_VERSION;
    }
    intro.cluster_id = reader_str16(&reader, &intro.cluster_id_len);
    intro.node_id = reader_u64(&reader);
    intro.wanted_id = handshake->dialler ? 0 : reader_u64(&reader);
    intro.store_id = reader_u64(&reader);
    intro.nonce = reader_bytes(&reader, HANDSHAKE_NONCE_BYTES);
    intro.mac = handshake->dialler ? reader_bytes(&reader, HANDSHAKE_MAC_BYTES) : NULL;
    if (!reader_done(&reader)) {
        return HANDSHAKE_REJECT_MALFORMED;
    }
    if (intro.cluster_id_len != strlen(cluster_id) ||
        memcmp(intro.cluster_id, cluster_id, intro.cluster_id_len) != 0) {
        return HANDSHAKE_REJECT_CLUSTER;
    }
    *ret_introduction = intro;
    return HANDSHAKE_REJECT_NONE;
}

static void take_hello(struct handshake *handshake, const uint8_t *payload, size_t len,
                       struct buf *out)
{
    const struct handshake_config *config = handshake->config;
    enum handshake_reject reject;
    uint8_t mac[HANDSHAKE_MAC_BYTES];
    struct introduction intro = {0};
    struct buf challenge = BUF_INIT;

    reject = read_introduction(handshake, payload, len, &intro);
    if (reject == HANDSHAKE_REJECT_NONE &&
        ((intro.wanted_id != config->node_id && intro.wanted_id != 0) ||
         intro.node_id == config->node_id || intro.node_id == 0 || intro.node_id > LIMIT_NODE_ID)) {
        reject = HANDSHAKE_REJECT_NODE;
    }
    if (reject != HANDSHAKE_REJECT_NONE) {
        fail(handshake, reject, out);
        return;
    }
    handshake->peer_id = intro.node_id;
    handshake->joins = intro.wanted_id == 0;
    handshake->peer_store_id = intro.store_id;
    memcpy(handshake->dialler_nonce, intro.nonce, HANDSHAKE_NONCE_BYTES);
    compute_mac(handshake, false, NULL, 0, mac);
    buf_put_u16(&challenge, HANDSHAKE_PROTOCOL);
    buf_put_str16(&challenge, config->cluster_id, strlen(config->cluster_id));
    buf_put_u64(&challenge, config->node_id);
    buf_put_u64(&challenge, config->store_id);
    buf_put(&challenge, handshake->acceptor_nonce, HANDSHAKE_NONCE_BYTES);
    buf_put(&challenge, mac, sizeof mac);
    frame_put(out, FRAME_CHALLENGE, challenge.data, challenge.len);
    buf_free(&challenge);
    move(handshake, HANDSHAKE_CHALLENGE_SENT);
}

/* May the peer take part? Rejected if not. */
static bool admitted(struct handshake *handshake, struct buf *out)
{
    const struct handshake_config *config = handshake->config;
    int rv = config->admit(config->data, handshake->peer_id, handshake->peer_store_id);

    if (rv != 0) {
        fail(handshake, rv == ERR_REMOVED ? HANDSHAKE_REJECT_REMOVED : HANDSHAKE_REJECT_STORE, out);
    }
    return rv == 0;
}

static void take_challenge(struct handshake *handshake, const uint8_t *payload, size_t len,
                           struct buf *out)
{
    enum handshake_reject reject;
    struct introduction intro = {0};

    reject = read_introduction(handshake, payload, len, &intro);
    if (reject == HANDSHAKE_REJECT_NONE && handshake->joins &&
        intro.node_id != handshake->config->node_id && intro.node_id > 0 &&
        intro.node_id <= LIMIT_NODE_ID) {
        handshake->peer_id = intro.node_id; /* whoever it is */
    }
    if (reject == HANDSHAKE_REJECT_NONE && intro.node_id != handshake->peer_id) {
        reject = HANDSHAKE_REJECT_NODE;
    }
    if (reject != HANDSHAKE_REJECT_NONE) {
        fail(handshake, reject, out);
        return;
    }
    handshake->peer_store_id = intro.store_id;
    memcpy(handshake->acceptor_nonce, intro.nonce, HANDSHAKE_NONCE_BYTES);
    if (!mac_holds(handshake, false, NULL, 0, intro.mac)) {
        fail(handshake, HANDSHAKE_REJECT_PROOF, out);
        return;
    }
    if (admitted(handshake, out)) {
        put_proof(handshake, out);
        move(handshake, HANDSHAKE_PROOF_SENT);
    }
}

static void put_proof(struct handshake *handshake, struct buf *out)
{
    const struct handshake_config *config = handshake->config;
    uint8_t mac[HANDSHAKE_MAC_BYTES];
    struct buf statement = BUF_INIT;
    struct buf proof = BUF_INIT;

    if (config->introduce != NULL) {
        config->introduce(config->data, &statement);
    }
    compute_mac(handshake, true, statement.data, statement.len, mac);
    buf_put(&proof, mac, sizeof mac);
    buf_put(&proof, statement.data, statement.len);
    frame_put(out, FRAME_PROOF, proof.data, proof.len);
    buf_free(&statement);
    buf_free(&proof);
}

/* A node that joins: an answer, and no link. */
static void answer_join(struct handshake *handshake, const void *request, size_t len,
                        struct buf *out)
{
    const struct handshake_config *config = handshake->config;
    struct buf answer = BUF_INIT;

    if (config->join == NULL) {
        fail(handshake, HANDSHAKE_REJECT_PEER, out);
        return;
    }
    if (!config->join(config->data, handshake->peer_id, request, len, &answer)) {
        fail(handshake, HANDSHAKE_REJECT_MALFORMED, out);
        return;
    }
    frame_put(out, FRAME_JOINED, answer.data, answer.len);
    buf_free(&answer);
    move(handshake, HANDSHAKE_ANSWERED);
}

/* May what the peer says of itself be true? Rejected if not. */
static bool checked(struct handshake *handshake, const void *statement, size_t len, struct buf *out)
{
    const struct handshake_config *config = handshake->config;
    int rv =
        config->check != NULL ? config->check(config->data, handshake->peer_id, statement, len) : 0;

    if (rv != 0) {
        fail(handshake,
             rv == ERR_STALE         ? HANDSHAKE_REJECT_OLDER
             : rv == ERR_IMPLAUSIBLE ? HANDSHAKE_REJECT_IMPLAUSIBLE
                                     : HANDSHAKE_REJECT_MALFORMED,
             out);
    }
    return rv == 0;
}

static void take_proof(struct handshake *handshake, const uint8_t *payload, size_t len,
                       struct buf *out)
{
    const struct handshake_config *config = handshake->config;
    const uint8_t *statement;

    if (len < HANDSHAKE_MAC_BYTES) {
        fail(handshake, HANDSHAKE_REJECT_MALFORMED, out);
        return;
    }
    statement = payload + HANDSHAKE_MAC_BYTES;
    len -= HANDSHAKE_MAC_BYTES;
    if (!mac_holds(handshake, true, statement, len, payload)) {
        fail(handshake, HANDSHAKE_REJECT_PROOF, out);
        return;
    }
    if (!admitted(handshake, out)) {
        return;
    }
    if (handshake->joins) {
        answer_join(handshake, statement, len, out);
        return;
    }
    if (!config->known(config->data, handshake->peer_id, statement, len)) {
        fail(handshake, HANDSHAKE_REJECT_PEER, out);
        return;
    }
    if (!checked(handshake, statement, len, out)) {
        return;
    }
    frame_put(out, FRAME_WELCOME, NULL, 0);
    move(handshake, HANDSHAKE_DONE);
}

static void take_welcome(struct handshake *handshake, size_t len, struct buf *out)
{
    if (len != 0) {
        fail(handshake, HANDSHAKE_REJECT_MALFORMED, out);
        return;
    }
    move(handshake, HANDSHAKE_DONE);
}

/* That our store was wiped, or our id removed, may end this node, so it is believed only from one
 * that proved the secret. */
static void take_reject(struct handshake *handshake, const uint8_t *payload, size_t len,
                        struct buf *out)
{
    struct reader reader;
    const uint8_t *text;
    size_t text_len;
    uint16_t code;

    reader_init(&reader, payload, len);
    code = reader_u16(&reader);
    text = reader_str16(&reader, &text_len);
    if (!reader_done(&reader) || code == HANDSHAKE_REJECT_NONE ||
        (is_for_good((enum handshake_reject)code) && handshake->state != HANDSHAKE_PROOF_SENT)) {
        fail(handshake, HANDSHAKE_REJECT_MALFORMED, out);
        return;
    }
    text_len = text_len < HANDSHAKE_TEXT_BYTES ? text_len : HANDSHAKE_TEXT_BYTES;
    if (text_len > 0) {
        memcpy(handshake->text, text, text_len);
    }
    handshake->by_peer = true;
    fail(handshake, (enum handshake_reject)code, out);
}
