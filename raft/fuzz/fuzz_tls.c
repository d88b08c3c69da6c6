/*
 * fuzz_tls.c - any bytes at the door of the peers, before TLS, between its two ends and inside it.
 *
 * The first byte chooses.
 *   stranger  bytes instead of the other end, whichever end it is: never let in, told little,
 *             listened to for LIMIT_TLS_HANDSHAKE_BYTES at most
 *   between   two ends, and somebody who changes, drops, repeats and splits what they say: they
 *             never meet when they do not trust each other, and get no byte that was not said
 *   member    one that has the keys and lies in the handshake of nodes, as whoever it likes: let in
 *             as no other node than TLS has proved, and once that was asked
 *
 * What an end does with bytes is what net_conn.c does. OpenSSL's random numbers are the same in
 * each run (tls_random.h); its certificates have the time of their making.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "raft/transport/handshake.h"
#include "raft/transport/net_keys.h"
#include "raft/transport/tests/net_certificates.h"
#include "raft/transport/tests/net_fixture.h"
#include "raft/transport/tests/tls_random.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define DIALLER 1
#define ACCEPTOR 2
#define WIPED_STORE 7
#define TURNS 64          /* of the two ends */
#define TOLD_BYTES 4096   /* to a stranger, at most: with certificates ours is sent */
#define SAID_BYTES 30000  /* of an end that is open, at most; it may come with a handshake's end */
#define LIAR_BYTES 262144 /* to a liar, at most */

/* --- keys --- */

enum {
    DIAL_SECRET,
    DIAL_OTHER,
    DIAL_CERTIFIED,
    DIAL_OTHER_CERTIFIED,
    DIAL_BOTH,
    DIALS,
    DIAL_OTHER_CLUSTER = DIALS
};
enum { ACCEPT_SECRET, ACCEPT_CERTIFIED, ACCEPT_BOTH, ACCEPTS };

static struct net_keys *dials[DIALS + 1];
static struct net_keys *accepts[ACCEPTS];

static void make_keys(void)
{
    if (dials[0] != NULL) {
        return;
    }
    dials[DIAL_SECRET] = net_fixture_keys("test", "secret", NULL);
    dials[DIAL_OTHER] = net_fixture_keys("test", "another", NULL);
    dials[DIAL_CERTIFIED] = net_certified_keys("test", "leafd:test/1", "authority", NULL);
    dials[DIAL_OTHER_CERTIFIED] = net_certified_keys("test", "leafd:test/1", "other", NULL);
    dials[DIAL_BOTH] = net_certified_keys("test", "leafd:test/1", "authority", "secret");
    dials[DIAL_OTHER_CLUSTER] = net_fixture_keys("other", "secret", NULL);
    accepts[ACCEPT_SECRET] = net_fixture_keys("test", "secret", NULL);
    accepts[ACCEPT_CERTIFIED] = net_certified_keys("test", "leafd:test/2", "authority", NULL);
    accepts[ACCEPT_BOTH] = net_certified_keys("test", "leafd:test/2", "authority", "secret");
}

/* --- a stranger --- */

static void fuzz_stranger(struct reader *reader)
{
    const unsigned which = reader_u8(reader);
    const size_t piece = (size_t)reader_u8(reader) * 8 + 1;
    const bool accepts_it = which % 2 == 0;
    struct tls_channel *channel =
        accepts_it
            ? tls_channel_new(accepts[which / 2 % ACCEPTS], NULL, ACCEPTOR, 0)
            : tls_channel_new(
                  dials[which / 2 % DIALS],
                  &dials[which / 2 % DIALS]
                       ->credentials[which / 16 % dials[which / 2 % DIALS]->credential_count],
                  DIALLER, ACCEPTOR);
    size_t taken = 0;
    size_t told = 0;
    int rv = 0;

    channel->out.len = 0; /* the hello of one that dials */
    while (rv == 0 && reader_left(reader) > 0) {
        const size_t left = reader_left(reader);
        const size_t len = piece < left ? piece : left;
        struct buf came = BUF_INIT;

        buf_put(&came, reader_bytes(reader, len), len); /* of exactly this size */
        tls_channel_feed(channel, came.data, came.len);
        rv = tls_channel_shake(channel);
        tls_channel_feed(channel, NULL, 0);
        buf_free(&came);
        taken += len;
        told += channel->out.len;
        channel->out.len = 0;
        ASSERT(rv <= 0 && (rv < 0 || taken <= LIMIT_TLS_HANDSHAKE_BYTES) && told <= TOLD_BYTES);
        ASSERT(channel->state != CHANNEL_OPEN && (rv == 0 || channel->reason[0] != 0));
    }
    tls_channel_free(channel);
}

/* --- between two ends --- */

struct end {
    struct tls_channel *tls;
    bool over;
    bool said;
    size_t heard;
};

/* What each end says, byte by byte. */
static uint8_t spoken(unsigned who, size_t at)
{
    return (uint8_t)((at * 7 + who * 101) ^ (at >> 8));
}

static void speak(struct end *end, unsigned who, size_t len)
{
    uint8_t *data = malloc(len + 1);

    ASSERT(data != NULL);
    for (size_t i = 0; i < len; i++) {
        data[i] = spoken(who, i);
    }
    end->said = true;
    tls_channel_write(end->tls, data, len);
    tls_channel_seal(end->tls);
    free(data);
}

static void listen_to(struct end *end, unsigned who)
{
    uint8_t data[20000];
    ssize_t got = 0;

    do {
        got = tls_channel_read(end->tls, data, sizeof data);
        for (ssize_t i = 0; i < got; i++) {
            ASSERT(data[i] == spoken(who, end->heard++));
        }
    } while (got > 0);
    end->over = end->over || got < 0;
}

static void hear(struct end *end, unsigned from, const uint8_t *data, size_t len)
{
    struct buf came = BUF_INIT;
    int rv = 1;

    if (end->over) {
        return;
    }
    buf_put(&came, data, len);
    tls_channel_feed(end->tls, came.data, came.len);
    if (end->tls->state != CHANNEL_OPEN) {
        rv = tls_channel_shake(end->tls);
        end->over = rv < 0;
    }
    if (rv > 0) {
        listen_to(end, from);
    }
    tls_channel_feed(end->tls, NULL, 0);
    buf_free(&came);
}

/* What one has to say, as it arrives at the other: {u8 how, u16 where, u8 what}. True if it is not
 * what was said. */
static bool pass_on(struct end ends[2], unsigned from, struct reader *reader)
{
    struct end *to = &ends[1 - from];
    struct buf said = BUF_INIT;
    const uint8_t how = reader_u8(reader);
    const size_t where = reader_u16(reader);
    const uint8_t what = reader_u8(reader);
    size_t at;

    buf_move(&said, &ends[from].tls->out);
    at = where % said.len;
    switch (how % 8) {
    case 1:
        said.data[at] ^= what;
        break;
    case 2:
        said.len = at;
        break;
    case 3:
        hear(to, from, said.data, said.len);
        break;
    case 4:
        hear(to, from, said.data, at);
        hear(to, from, &what, 1);
        memmove(said.data, said.data + at, said.len - at);
        said.len -= at;
        break;
    case 5:
        hear(to, from, said.data, at);
        memmove(said.data, said.data + at, said.len - at);
        said.len -= at;
        break;
    default:
        break;
    }
    hear(to, from, said.data, said.len);
    buf_free(&said);
    return (how % 8 == 1 && what != 0) || (how % 8 >= 2 && how % 8 <= 4);
}

static void fuzz_between(struct reader *reader)
{
    const unsigned which = reader_u8(reader);
    struct net_keys *keys = dials[which % DIALS];
    const unsigned credential = reader_u8(reader);
    const bool trusts =
        net_keys_find(accepts[which / 8 % ACCEPTS],
                      keys->credentials[credential % keys->credential_count].id) != NULL;
    struct end ends[2] = {
        {.tls = tls_channel_new(keys, &keys->credentials[credential % keys->credential_count],
                                DIALLER, ACCEPTOR)},
        {.tls = tls_channel_new(accepts[which / 8 % ACCEPTS], NULL, ACCEPTOR, 0)},
    };
    bool changed = false;

    for (unsigned turn = 0; turn < TURNS; turn++) {
        const unsigned from = turn % 2;

        if (ends[from].tls->state == CHANNEL_OPEN && !ends[from].said) {
            speak(&ends[from], from, reader_u16(reader) % SAID_BYTES);
        }
        if (ends[from].tls->out.len > 0) {
            changed = pass_on(ends, from, reader) || changed;
        }
        ASSERT(trusts || ends[from].tls->state != CHANNEL_OPEN);
    }
    ASSERT(changed || (ends[0].tls->state == CHANNEL_OPEN) == trusts);
    ASSERT(changed || (ends[1].tls->state == CHANNEL_OPEN) == trusts);
    tls_channel_free(ends[0].tls);
    tls_channel_free(ends[1].tls);
}

/* --- a member that lies --- */

/* An end that is as honest as a node is, or the machine from which a liar has its frames. */
struct node {
    struct tls_channel *tls;
    struct handshake_config config;
    struct handshake handshake;
    struct frame_decoder decoder;
    bool began;
    bool over;
    bool is_up;
    uint64_t known;   /* about whom it was asked last */
    bool has_joined;  /* it was asked for an answer to a node that is no member */
    size_t out_bytes; /* all that it has said */
};

static struct node *asked; /* the one whose callbacks are called */

static int judge_cb(struct net_receiver *receiver, const struct net_claim *claim,
                    uint16_t *ret_level)
{
    struct wire_statement said;

    (void)receiver;
    *ret_level = LEVEL_FIRST;
    ASSERT(claim->id > 0 && claim->id <= LIMIT_NODE_ID);
    if (claim->store_id == WIPED_STORE || !claim->states) {
        return claim->store_id == WIPED_STORE ? ERR_WRONG_NODE : 0;
    }
    asked->known = claim->id;
    return wire_statement_decode(claim->statement, claim->len, &said) == 0 ? 0 : ERR_NOT_FOUND;
}

static void introduce_cb(struct net_receiver *receiver, struct buf *statement)
{
    (void)receiver;
    wire_statement_encode(&(struct wire_statement){.start = {1, 2, 3, 0, 2}}, statement);
}

static bool join_cb(struct net_receiver *receiver, uint64_t peer, const void *request, size_t len,
                    struct buf *answer)
{
    (void)receiver;
    ASSERT(request != NULL || len == 0);
    asked->known = peer;
    asked->has_joined = true;
    buf_put(answer, "wait", 4);
    return len < 1000;
}

static struct net_receiver receiver = {
    .introduce = introduce_cb, .judge = judge_cb, .join = join_cb};

static void node_init(struct node *node, struct tls_channel *tls, uint64_t id)
{
    *node = (struct node){
        .tls = tls,
        .config = {
            .node_id = id, .store_id = 1000 + id, .cluster_id = "test", .receiver = &receiver}};
    node->decoder = (struct frame_decoder){0};
}

static void node_free(struct node *node)
{
    tls_channel_free(node->tls);
    buf_free(&node->decoder.buf);
}

/* `wants`: of one that dials; 0: it joins. */
static void node_begin(struct node *node, bool is_dialler, uint64_t wants, struct buf *out)
{
    const struct tls_peer *peer = tls_channel_peer(node->tls);

    node->began = true;
    if (!is_dialler) {
        handshake_accept(&node->handshake, &node->config, peer);
    } else {
        handshake_dial(&node->handshake, &node->config, wants != node->config.node_id ? wants : 0,
                       peer, out);
    }
}

/* It was let in, or has let somebody in. */
static void check_up(const struct node *node)
{
    const uint64_t proved = tls_channel_peer(node->tls)->node_id;
    const struct handshake *handshake = &node->handshake;

    ASSERT(tls_channel_peer(node->tls)->same_cluster);
    ASSERT(proved == 0 || handshake->peer_id == proved);
    ASSERT(handshake->peer_id != node->config.node_id && handshake->peer_store_id != WIPED_STORE);
    ASSERT(handshake->peer_levels.min > 0 && !handshake->joins);
    if (handshake->dialler) {
        ASSERT(handshake->peer_id == ACCEPTOR);
    } else {
        ASSERT(node->known == handshake->peer_id);
    }
}

/* Plain bytes that came, as net_conn.c takes them; answers go to `out`. */
static void take_plain(struct node *node, const uint8_t *data, size_t len, struct buf *out)
{
    struct frame frame;
    int rv;

    while (!node->over) {
        rv = frame_decoder_next(&node->decoder, &data, &len, &frame);
        if (rv <= 0) {
            node->over = rv < 0;
            return;
        }
        if (node->is_up) {
            ASSERT(!frame_is_handshake(frame.type));
            node->over = node->handshake.dialler;
            continue;
        }
        handshake_receive(&node->handshake, frame.type, frame.payload, frame.len, out);
        ASSERT(node->handshake.state != HANDSHAKE_ANSWERED ||
               (node->handshake.joins && (node->handshake.dialler || node->has_joined)));
        ASSERT(node->handshake.state != HANDSHAKE_FAILED ||
               handshake_reason(&node->handshake)[0] != '\0');
        node->is_up = node->handshake.state == HANDSHAKE_DONE;
        node->over = node->handshake.state > HANDSHAKE_DONE;
        if (node->is_up) {
            check_up(node);
            node->decoder.is_open = true;
        }
    }
}

/* All that came, in memory of its size. Answers to `out`, unless it is NULL: then they are said. */
static void take(struct node *node, struct buf *came, bool is_dialler, uint64_t wants,
                 struct buf *out)
{
    struct buf answer = BUF_INIT;
    uint8_t plain[20000];
    ssize_t got = 0;
    int rv = 1;

    if (node->over) {
        buf_free(came);
        return;
    }
    asked = node;
    tls_channel_feed(node->tls, came->data, came->len);
    if (node->tls->state != CHANNEL_OPEN) {
        rv = tls_channel_shake(node->tls);
        node->over = rv < 0;
    }
    if (rv > 0 && !node->began) {
        node_begin(node, is_dialler, wants, &answer);
    }
    while (rv > 0 && !node->over && (got = tls_channel_read(node->tls, plain, sizeof plain)) > 0) {
        take_plain(node, plain, (size_t)got, &answer);
    }
    node->over = node->over || got < 0;
    tls_channel_feed(node->tls, NULL, 0);
    if (out != NULL) {
        buf_put(out, answer.data, answer.len);
    } else if (node->tls->state == CHANNEL_OPEN) {
        tls_channel_write(node->tls, answer.data, answer.len);
        tls_channel_seal(node->tls);
    }
    buf_free(&answer);
    buf_free(came);
}

/* The next thing that the liar says; `honest` is what it should. False: no more. */
static bool lie(struct tls_channel *tls, struct buf *honest, struct reader *reader)
{
    struct buf frame = BUF_INIT;
    const uint8_t *payload;
    uint8_t type;
    size_t at;
    size_t len;

    switch (reader_u8(reader) % 8) {
    case 0:
        type = reader_u8(reader) % (FRAME_JOINED + 1 + FRAME_TYPE_MAX - FRAME_RAFT);
        payload = reader_str16(reader, &len);
        type = (uint8_t)(type < FRAME_JOINED ? type + 1 : type - FRAME_JOINED + FRAME_RAFT);
        frame_put(&frame, (enum frame_type)type, payload, len);
        tls_channel_write(tls, frame.data, frame.len);
        break;
    case 1:
        payload = reader_str16(reader, &len);
        tls_channel_write(tls, payload, len);
        break;
    case 2: /* the frame that it should say, but for one byte of the payload */
        at = reader_u16(reader);
        type = reader_u8(reader);
        if (honest->len > FRAME_HEADER_BYTES) {
            honest->data[FRAME_HEADER_BYTES + at % (honest->len - FRAME_HEADER_BYTES)] ^= type;
            frame_put(&frame, (enum frame_type)honest->data[9], honest->data + FRAME_HEADER_BYTES,
                      honest->len - FRAME_HEADER_BYTES);
            tls_channel_write(tls, frame.data, frame.len);
        }
        honest->len = 0;
        break;
    case 3:
        tls_channel_seal(tls);
        tls_channel_rekey(tls);
        break;
    case 4:
        tls_channel_seal(tls);
        break;
    default:
        tls_channel_write(tls, honest->data, honest->len);
        honest->len = 0;
        break;
    }
    buf_free(&frame);
    return !reader->bad && reader_left(reader) > 0;
}

/* {u8 which keys, and whom the liar wants; u8 whether it dials, and as whom; u8 whom its frames
 * say}, then lies. */
static void fuzz_member(struct reader *reader)
{
    static const struct {
        unsigned dial;
        unsigned accept;
    } pairs[] = {{DIAL_SECRET, ACCEPT_SECRET},
                 {DIAL_CERTIFIED, ACCEPT_CERTIFIED},
                 {DIAL_BOTH, ACCEPT_BOTH},
                 {DIAL_OTHER_CLUSTER, ACCEPT_SECRET}};
    const unsigned which = reader_u8(reader);
    const unsigned as = reader_u8(reader);
    const bool dials_us = as / 4 % 2 == 0;
    const uint64_t liar_id = as % 4 > 0 ? as % 4 : DIALLER;
    const uint64_t liar_wants = which / 4 % 4;
    const uint64_t honest_wants = which / 4 % 2 * ACCEPTOR;
    struct tls_channel *dial = tls_channel_new(
        dials[pairs[which % 4].dial],
        &dials[pairs[which % 4].dial]
             ->credentials[which / 16 % dials[pairs[which % 4].dial]->credential_count],
        dials_us ? liar_id : DIALLER, dials_us ? liar_wants : honest_wants);
    struct tls_channel *accept =
        tls_channel_new(accepts[pairs[which % 4].accept], NULL, ACCEPTOR, 0);
    struct node honest;
    struct node liar;
    struct buf honest_out = BUF_INIT;
    bool more = true;

    node_init(&honest, dials_us ? accept : dial, dials_us ? ACCEPTOR : DIALLER);
    node_init(&liar, dials_us ? dial : accept, 1 + reader_u8(reader) % 3U);
    for (unsigned turn = 0; turn < TURNS && more && !honest.over; turn++) {
        struct buf came = BUF_INIT;

        buf_move(&came, &liar.tls->out);
        take(&honest, &came, !dials_us, honest_wants, NULL);
        honest.out_bytes += honest.tls->out.len;
        ASSERT(honest.out_bytes <= LIAR_BYTES);
        buf_move(&came, &honest.tls->out);
        take(&liar, &came, dials_us, liar_wants, &honest_out);
        if (liar.tls->state == CHANNEL_OPEN) {
            more = lie(liar.tls, &honest_out, reader);
            tls_channel_seal(liar.tls);
        }
    }
    buf_free(&honest_out);
    node_free(&honest);
    node_free(&liar);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct reader reader;

    tls_random_restart();
    make_keys();
    reader_init(&reader, data, len);
    switch (reader_u8(&reader) % 3) {
    case 0:
        fuzz_stranger(&reader);
        break;
    case 1:
        fuzz_between(&reader);
        break;
    default:
        fuzz_member(&reader);
        break;
    }
    return 0;
}
