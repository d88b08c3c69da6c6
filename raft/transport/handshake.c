/*
 * handshake.c - see handshake.h. Thread: pure functions on their arguments, any.
 */
#include "raft/transport/handshake.h"

#include <stdio.h>
#include <string.h>

#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/base/err.h"
#include "src/base/limits.h"

/* The content of a HELLO or a CHALLENGE about its sender. */
struct introduction {
    uint16_t protocol;
    struct level_range levels;
    const uint8_t *cluster_id;
    size_t cluster_id_len;
    uint64_t node_id;
    uint64_t wanted_id; /* HELLO only */
    uint64_t store_id;
};

/* --- rejections --- */

static const struct handshake_reject_info rejects[] = {
    [HANDSHAKE_REJECT_NONE] = {"not rejected", 0, false},
    [HANDSHAKE_REJECT_MALFORMED] = {"malformed handshake", ERR_BAD_MESSAGE, false},
    [HANDSHAKE_REJECT_VERSION] = {"another protocol version", ERR_BAD_VERSION, true},
    [HANDSHAKE_REJECT_CLUSTER] = {"another cluster id", ERR_REFUSED, true},
    [HANDSHAKE_REJECT_NODE] = {"another node id than expected", ERR_CONFLICT, true},
    [HANDSHAKE_REJECT_PEER] = {"not a known member", ERR_NOT_FOUND, false},
    [HANDSHAKE_REJECT_STORE] = {"the store is not the one registered for the node id",
                                ERR_WRONG_NODE, true},
    [HANDSHAKE_REJECT_REMOVED] = {"the node id was removed from the cluster", ERR_REMOVED, true},
    [HANDSHAKE_REJECT_OLDER] = {"the data directory is an older copy", ERR_STALE, true},
    [HANDSHAKE_REJECT_IMPLAUSIBLE] = {"the node's term or last index cannot be", ERR_IMPLAUSIBLE,
                                      true},
    [HANDSHAKE_REJECT_BIRTH] = {"the node belongs to another cluster, with another uid",
                                ERR_OTHER_BIRTH, true},
    [HANDSHAKE_REJECT_LISTS] = {"cluster.members, cluster.id or the snowflake layout differ",
                                ERR_OTHER_LIST, true},
    [HANDSHAKE_REJECT_NEWER] = {"the cluster's level is above what this leafd speaks", ERR_NEWER,
                                true},
    [HANDSHAKE_REJECT_LEVELS] = {"there is no level that both speak", ERR_BAD_VERSION, true},
    [HANDSHAKE_REJECT_TWICE] = {"another process of this node is connected", ERR_REFUSED, false},
};

const struct handshake_reject_info *handshake_reject_info(enum handshake_reject reject)
{
    static const struct handshake_reject_info unknown = {"rejected for an unknown reason",
                                                         ERR_REFUSED, false};

    return (size_t)reject < sizeof rejects / sizeof rejects[0] && rejects[reject].text != NULL
               ? &rejects[reject]
               : &unknown;
}

const char *handshake_reason(const struct handshake *handshake)
{
    const char *text = handshake->text;
    bool own_words = handshake->by_peer && handshake->reject == HANDSHAKE_REJECT_NEWER;

    for (const char *at = text; *at != '\0'; at++) { /* fit for a line of the log? */
        own_words = own_words && *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\';
    }
    return own_words && text[0] != '\0' ? text : handshake_reject_info(handshake->reject)->text;
}

/* --- levels --- */

static struct level_range own_levels(const struct handshake *handshake)
{
    const struct level_range own = handshake->config->levels;

    return own.max != 0 ? own : level_own;
}

/* --- states --- */

/* The one place that changes the state. */
static void handshake_move(struct handshake *handshake, enum handshake_state to)
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

/* --- sending --- */

/* A HELLO of the dialler, or a CHALLENGE of the acceptor. */
static void handshake_introduce(const struct handshake *handshake, struct buf *out)
{
    const struct handshake_config *config = handshake->config;
    BUF_LOCAL(payload);

    buf_put_u16(&payload, HANDSHAKE_PROTOCOL);
    buf_put_u16(&payload, own_levels(handshake).min);
    buf_put_u16(&payload, own_levels(handshake).max);
    buf_put_str16(&payload, config->cluster_id, strlen(config->cluster_id));
    buf_put_u64(&payload, config->node_id);
    if (handshake->dialler) {
        buf_put_u64(&payload, handshake->peer_id);
    }
    buf_put_u64(&payload, config->store_id);
    frame_put(out, handshake->dialler ? FRAME_HELLO : FRAME_CHALLENGE, payload.data, payload.len);
}

/* --- receiving: each answers and moves the state, or returns the reason of a reject --- */

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
    intro.levels.min = reader_u16(&reader);
    intro.levels.max = reader_u16(&reader);
    if (reader.bad || !level_is_sound(intro.levels)) {
        return HANDSHAKE_REJECT_MALFORMED;
    }
    if (!level_meets(intro.levels, own_levels(handshake))) {
        return HANDSHAKE_REJECT_LEVELS;
    }
    intro.cluster_id = reader_str16(&reader, &intro.cluster_id_len);
    intro.node_id = reader_u64(&reader);
    intro.wanted_id = handshake->dialler ? 0 : reader_u64(&reader);
    intro.store_id = reader_u64(&reader);
    if (!reader_done(&reader)) {
        return HANDSHAKE_REJECT_MALFORMED;
    }
    if (!handshake->proof.same_cluster || intro.cluster_id_len != strlen(cluster_id) ||
        memcmp(intro.cluster_id, cluster_id, intro.cluster_id_len) != 0) {
        return HANDSHAKE_REJECT_CLUSTER;
    }
    *ret_introduction = intro;
    return HANDSHAKE_REJECT_NONE;
}

static bool is_another(const struct handshake *handshake, uint64_t node_id)
{
    return node_id != handshake->config->node_id && node_id > 0 && node_id <= LIMIT_NODE_ID;
}

/* Is it the node that TLS has proved, and does it want the node that it named in TLS? */
static bool is_as_proved(const struct handshake *handshake, const struct introduction *intro)
{
    const struct tls_peer *proof = &handshake->proof;

    return (proof->node_id == 0 || proof->node_id == intro->node_id) &&
           (!proof->says_wanted || proof->wanted == intro->wanted_id);
}

static enum handshake_reject take_hello(struct handshake *handshake, const uint8_t *payload,
                                        size_t len, struct buf *out)
{
    struct introduction intro = {0};
    enum handshake_reject reject = read_introduction(handshake, payload, len, &intro);

    if (reject != HANDSHAKE_REJECT_NONE) {
        return reject;
    }
    if ((intro.wanted_id != handshake->config->node_id && intro.wanted_id != 0) ||
        !is_another(handshake, intro.node_id) || !is_as_proved(handshake, &intro)) {
        return HANDSHAKE_REJECT_NODE;
    }
    handshake->peer_id = intro.node_id;
    handshake->joins = intro.wanted_id == 0;
    handshake->peer_levels = intro.levels;
    handshake->peer_store_id = intro.store_id;
    handshake_introduce(handshake, out);
    handshake_move(handshake, HANDSHAKE_CHALLENGE_SENT);
    return HANDSHAKE_REJECT_NONE;
}

/* May the peer, which has proved the secret, take part? len bytes: what it sent as its proof. */
static enum handshake_reject handshake_judge(struct handshake *handshake, const void *statement,
                                             size_t len)
{
    struct net_receiver *receiver = handshake->config->receiver;
    const struct net_claim claim = {.id = handshake->peer_id,
                                    .store_id = handshake->peer_store_id,
                                    .levels = handshake->peer_levels,
                                    .states = !handshake->dialler && !handshake->joins,
                                    .statement = statement,
                                    .len = len};
    int err = receiver->judge(receiver, &claim, &handshake->level);

    for (unsigned i = 0; i < sizeof rejects / sizeof rejects[0]; i++) {
        if (rejects[i].text != NULL && rejects[i].err == err) {
            return (enum handshake_reject)i;
        }
    }
    return err == ERR_EXISTS ? HANDSHAKE_REJECT_TWICE : HANDSHAKE_REJECT_MALFORMED;
}

static enum handshake_reject take_challenge(struct handshake *handshake, const uint8_t *payload,
                                            size_t len, struct buf *out)
{
    struct net_receiver *receiver = handshake->config->receiver;
    struct introduction intro = {0};
    enum handshake_reject reject = read_introduction(handshake, payload, len, &intro);
    BUF_LOCAL(statement);

    if (reject != HANDSHAKE_REJECT_NONE) {
        return reject;
    }
    if (handshake->joins && is_another(handshake, intro.node_id)) {
        handshake->peer_id = intro.node_id; /* any node */
    }
    if (intro.node_id != handshake->peer_id || !is_as_proved(handshake, &intro)) {
        return HANDSHAKE_REJECT_NODE;
    }
    handshake->peer_levels = intro.levels;
    handshake->peer_store_id = intro.store_id;
    handshake->refused = handshake_judge(handshake, NULL, 0);
    if (handshake->refused == HANDSHAKE_REJECT_NONE ||
        (handshake->refused == HANDSHAKE_REJECT_STORE && !handshake->joins)) {
        if (receiver->introduce != NULL) {
            receiver->introduce(receiver, &statement);
        }
        frame_put(out, FRAME_PROOF, statement.data, statement.len);
        handshake_move(handshake, HANDSHAKE_PROOF_SENT);
        return HANDSHAKE_REJECT_NONE;
    }
    return handshake->refused;
}

static enum handshake_reject take_proof(struct handshake *handshake, const uint8_t *statement,
                                        size_t len, struct buf *out)
{
    struct net_receiver *receiver = handshake->config->receiver;
    enum handshake_reject reject = handshake_judge(handshake, statement, len);
    BUF_LOCAL(answer);

    if (reject != HANDSHAKE_REJECT_NONE) {
        return reject;
    }
    if (!handshake->joins) {
        frame_put(out, FRAME_WELCOME, NULL, 0);
        handshake_move(handshake, HANDSHAKE_DONE);
        return HANDSHAKE_REJECT_NONE;
    }
    /* A joining node gets an answer, and no link. */
    if (receiver->join == NULL) {
        return HANDSHAKE_REJECT_PEER;
    }
    if (!receiver->join(receiver, handshake->peer_id, statement, len, &answer)) {
        return HANDSHAKE_REJECT_MALFORMED;
    }
    frame_put(out, FRAME_JOINED, answer.data, answer.len);
    handshake_move(handshake, HANDSHAKE_ANSWERED);
    return HANDSHAKE_REJECT_NONE;
}

/* A reject for a wiped store or a removed id may end this node. TLS has proved that its sender
 * belongs to the cluster. */
static enum handshake_reject take_reject(struct handshake *handshake, const uint8_t *payload,
                                         size_t len)
{
    struct reader reader;
    const uint8_t *text;
    size_t text_len;
    enum handshake_reject code;

    reader_init(&reader, payload, len);
    code = (enum handshake_reject)reader_u16(&reader);
    text = reader_str16(&reader, &text_len);
    if (!reader_done(&reader) || code == HANDSHAKE_REJECT_NONE) {
        return HANDSHAKE_REJECT_MALFORMED;
    }
    text_len = text_len < HANDSHAKE_TEXT_BYTES ? text_len : HANDSHAKE_TEXT_BYTES;
    if (text_len > 0) {
        memcpy(handshake->text, text, text_len);
    }
    if (handshake->refused != HANDSHAKE_REJECT_NONE && code != HANDSHAKE_REJECT_BIRTH) {
        return handshake->refused;
    }
    handshake->by_peer = true;
    return code;
}

void handshake_receive(struct handshake *handshake, enum frame_type type, const uint8_t *payload,
                       size_t len, struct buf *out)
{
    enum handshake_reject reject = HANDSHAKE_REJECT_MALFORMED;
    enum handshake_state state = handshake->state;
    char newer[HANDSHAKE_TEXT_BYTES];
    BUF_LOCAL(refusal);
    const char *text;

    ASSERT(state < HANDSHAKE_DONE);
    if (state == HANDSHAKE_HELLO_AWAITED && type == FRAME_HELLO) {
        reject = take_hello(handshake, payload, len, out);
    } else if (state == HANDSHAKE_HELLO_SENT && type == FRAME_CHALLENGE) {
        reject = take_challenge(handshake, payload, len, out);
    } else if (state == HANDSHAKE_CHALLENGE_SENT && type == FRAME_PROOF) {
        reject = take_proof(handshake, payload, len, out);
    } else if (handshake->dialler && type == FRAME_REJECT) {
        reject = take_reject(handshake, payload, len);
    } else if (state == HANDSHAKE_PROOF_SENT && type == FRAME_WELCOME && len == 0 &&
               !handshake->joins) {
        reject = handshake->refused;
        if (reject == HANDSHAKE_REJECT_NONE) {
            handshake_move(handshake, HANDSHAKE_DONE);
        }
    } else if (state == HANDSHAKE_PROOF_SENT && type == FRAME_JOINED && handshake->joins) {
        reject = HANDSHAKE_REJECT_NONE;
        handshake_move(handshake, HANDSHAKE_ANSWERED);
    }
    if (reject == HANDSHAKE_REJECT_NONE) {
        return;
    }
    handshake->reject = reject;
    handshake_move(handshake, HANDSHAKE_FAILED);
    if (handshake->dialler) {
        return;
    }
    /* An acceptor sends the reason; to a dialler that is too old with the numbers. */
    if (reject == HANDSHAKE_REJECT_NEWER) {
        (void)snprintf(newer, sizeof newer,
                       "the cluster is at level %u and this leafd speaks levels %u to %u: start "
                       "leafd %s, as node %llu runs, or a later one",
                       handshake->level, handshake->peer_levels.min, handshake->peer_levels.max,
                       LEAFD_VERSION, (unsigned long long)handshake->config->node_id);
    }
    text = reject == HANDSHAKE_REJECT_NEWER ? newer : handshake_reject_info(reject)->text;
    buf_put_u16(&refusal, (uint16_t)reject);
    buf_put_str16(&refusal, text, strlen(text));
    frame_put(out, FRAME_REJECT, refusal.data, refusal.len);
}

/* --- start --- */

void handshake_dial(struct handshake *handshake, const struct handshake_config *config,
                    uint64_t wanted, const struct tls_peer *proof, struct buf *out)
{
    ASSERT(config->node_id > 0 && strlen(config->cluster_id) <= LIMIT_CLUSTER_ID_BYTES);
    ASSERT(wanted != config->node_id && (wanted != 0 || config->receiver->introduce != NULL));
    *handshake = (struct handshake){.config = config,
                                    .proof = *proof,
                                    .state = HANDSHAKE_HELLO_SENT,
                                    .dialler = true,
                                    .joins = wanted == 0,
                                    .peer_id = wanted};
    handshake_introduce(handshake, out);
}

void handshake_accept(struct handshake *handshake, const struct handshake_config *config,
                      const struct tls_peer *proof)
{
    ASSERT(config->node_id > 0 && strlen(config->cluster_id) <= LIMIT_CLUSTER_ID_BYTES);
    *handshake =
        (struct handshake){.config = config, .proof = *proof, .state = HANDSHAKE_HELLO_AWAITED};
}
