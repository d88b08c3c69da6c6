/*
 * test_tls_channel.c - two ends of a channel without a network: who is let in, and what happens to
 * records that are changed on their way.
 *
 * Thread: one.
 */
#include "raft/transport/net_keys.h"

#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_certificates.h"
#include "raft/transport/tests/net_fixture.h"

#define BIG (5 * 16384 + 77)

struct pair {
    struct net_keys *keys[2]; /* of node 1, which dials, and of node 2 */
    struct tls_channel *ends[2];
    int results[2]; /* of the last shake */
};

static int setup(void **state)
{
    struct pair *pair = calloc(1, sizeof *pair);

    assert_non_null(pair);
    pair->keys[0] = net_fixture_keys("test", "secret", NULL);
    pair->keys[1] = net_fixture_keys("test", "secret", NULL);
    *state = pair;
    return 0;
}

static void close_ends(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        tls_channel_free(pair->ends[i]);
        pair->ends[i] = NULL;
    }
}

static int teardown(void **state)
{
    struct pair *pair = *state;

    close_ends(pair);
    net_keys_unref(pair->keys[0]);
    net_keys_unref(pair->keys[1]);
    free(pair);
    return 0;
}

static void use_keys(struct pair *pair, unsigned which, struct net_keys *keys)
{
    net_keys_unref(pair->keys[which]);
    pair->keys[which] = keys;
}

/* What one end has to say goes to the other. True if there was something. */
static bool carry(struct pair *pair, unsigned from)
{
    struct buf *out = &pair->ends[from]->out;
    const unsigned to = 1 - from;
    struct buf bytes = BUF_INIT;

    if (out->len == 0) {
        return false;
    }
    buf_move(&bytes, out);
    tls_channel_feed(pair->ends[to], bytes.data, bytes.len);
    if (pair->results[to] == 0) {
        pair->results[to] = tls_channel_shake(pair->ends[to]);
    }
    tls_channel_feed(pair->ends[to], NULL, 0);
    buf_free(&bytes);
    return true;
}

static void shake(struct pair *pair, unsigned credential, uint64_t wanted)
{
    bool more = true;

    close_ends(pair);
    pair->ends[0] = tls_channel_new(
        pair->keys[0], &pair->keys[0]->credentials[credential % pair->keys[0]->credential_count], 1,
        wanted);
    pair->ends[1] = tls_channel_new(pair->keys[1], NULL, 2, 0);
    pair->results[0] = pair->results[1] = 0;
    while (more) {
        more = carry(pair, 0);
        more = carry(pair, 1) || more;
    }
}

static void assert_open(struct pair *pair)
{
    assert_int_equal(pair->results[0], 1);
    assert_int_equal(pair->results[1], 1);
    assert_memory_equal(tls_channel_peer(pair->ends[0])->credential_id,
                        tls_channel_peer(pair->ends[1])->credential_id, NET_CREDENTIAL_ID_BYTES);
}

static void assert_refused(struct pair *pair, const char *why)
{
    assert_int_equal(pair->results[0], ERR_REFUSED);
    assert_int_equal(pair->results[1], ERR_REFUSED);
    assert_false(pair->ends[0]->state == CHANNEL_OPEN || pair->ends[1]->state == CHANNEL_OPEN);
    assert_string_equal(pair->ends[0]->reason, why);
    assert_string_equal(pair->ends[1]->reason, why);
}

static void test_the_same_secret(void **state)
{
    struct pair *pair = *state;
    const struct tls_peer *peer;

    shake(pair, 0, 2);
    assert_open(pair);
    peer = tls_channel_peer(pair->ends[0]);
    assert_true(peer->same_cluster && peer->node_id == 2 && !peer->says_wanted);
    peer = tls_channel_peer(pair->ends[1]);
    assert_true(peer->same_cluster && peer->node_id == 1 && peer->says_wanted);
    assert_int_equal(peer->wanted, 2);
    shake(pair, 0, 0); /* one that joins */
    assert_open(pair);
    assert_int_equal(tls_channel_peer(pair->ends[1])->wanted, 0);
    assert_int_equal(tls_channel_peer(pair->ends[0])->node_id, 0);
}

/* Nobody can tell a secret that is not known from a wrong one. */
static void test_another_secret(void **state)
{
    struct pair *pair = *state;

    use_keys(pair, 0, net_fixture_keys("test", "Secret", NULL));
    shake(pair, 0, 2);
    assert_refused(pair, "another secret");
    memcpy(pair->keys[0]->credentials[0].id, pair->keys[1]->credentials[0].id,
           NET_CREDENTIAL_ID_BYTES);
    shake(pair, 0, 2);
    assert_refused(pair, "another secret");
}

/* It is proved, and told to the handshake, which says so in words. */
static void test_another_cluster(void **state)
{
    struct pair *pair = *state;

    use_keys(pair, 0, net_fixture_keys("other", "secret", NULL));
    shake(pair, 0, 2);
    assert_open(pair);
    assert_false(tls_channel_peer(pair->ends[1])->same_cluster);
}

static void test_two_secrets_while_one_is_exchanged(void **state)
{
    struct pair *pair = *state;

    use_keys(pair, 0, net_fixture_keys("test", "new", "secret"));
    shake(pair, 0, 2); /* node 2 does not know it yet */
    assert_refused(pair, "another secret");
    shake(pair, 1, 2);
    assert_open(pair);
    use_keys(pair, 1, net_fixture_keys("test", "new", "secret"));
    shake(pair, 0, 2);
    assert_open(pair);
    use_keys(pair, 0, net_fixture_keys("test", "secret", NULL)); /* one that does not know it yet */
    shake(pair, 0, 2);
    assert_open(pair);
}

/* A dialler that sent its hello and gets it back: the secret is right, the node is not another. */
static void test_a_hello_that_is_reflected(void **state)
{
    struct pair *pair = *state;

    shake(pair, 0, 2);
    close_ends(pair);
    use_keys(pair, 1, net_keys_ref(pair->keys[0]));
    pair->ends[0] = tls_channel_new(pair->keys[0], &pair->keys[0]->credentials[0], 1, 2);
    pair->ends[1] = tls_channel_new(pair->keys[0], NULL, 1, 0);
    pair->results[0] = pair->results[1] = 0;
    while (carry(pair, 0) || carry(pair, 1)) {
    }
    /* The handshake of nodes refuses one that says that it is node 1, and wants node 2. */
    assert_int_equal(tls_channel_peer(pair->ends[1])->node_id, 1);
    assert_int_equal(tls_channel_peer(pair->ends[1])->wanted, 2);
}

/* --- certificates --- */

static void certify(struct pair *pair, const char *dialler, const char *acceptor)
{
    use_keys(pair, 0, net_certified_keys("test", dialler, "authority", NULL));
    use_keys(pair, 1, net_certified_keys("test", acceptor, "authority", NULL));
}

static void test_certificates(void **state)
{
    struct pair *pair = *state;

    certify(pair, "leafd:test/1", "leafd:test/2");
    shake(pair, 0, 2);
    assert_open(pair);
    assert_int_equal(tls_channel_peer(pair->ends[0])->node_id, 2);
    assert_int_equal(tls_channel_peer(pair->ends[1])->node_id, 1);
    assert_false(tls_channel_peer(pair->ends[1])->says_wanted);
    shake(pair, 0, 0);
    assert_open(pair);
    assert_int_equal(tls_channel_peer(pair->ends[0])->node_id, 2);
    shake(pair, 0, 3);
    assert_int_equal(pair->results[0], ERR_REFUSED);
    assert_string_equal(pair->ends[0]->reason, "its certificate names another node");
}

static void test_a_certificate_of_another_authority(void **state)
{
    struct pair *pair = *state;

    certify(pair, "leafd:test/1", "leafd:test/2");
    use_keys(pair, 0, net_certified_keys("test", "leafd:test/1", "other authority", NULL));
    shake(pair, 0, 2);
    assert_int_equal(pair->results[0], ERR_REFUSED);
    assert_int_not_equal(pair->results[1], 1);
}

/* A listener without certificates, one without secrets, and strangers that have neither. */
static void test_a_secret_meets_certificates(void **state)
{
    struct pair *pair = *state;

    certify(pair, "leafd:test/1", "leafd:test/2");
    use_keys(pair, 0, net_fixture_keys("test", "secret", NULL));
    shake(pair, 0, 2);
    assert_int_equal(pair->results[0], ERR_REFUSED);
    assert_int_not_equal(pair->results[1], 1);
    certify(pair, "leafd:test/1", "leafd:test/2");
    use_keys(pair, 1, net_fixture_keys("test", "secret", NULL));
    shake(pair, 0, 2);
    assert_int_equal(pair->results[0], ERR_REFUSED);
    assert_int_equal(pair->results[1], ERR_REFUSED);
    /* with both, either is good: a cluster goes from one to the other */
    use_keys(pair, 1, net_certified_keys("test", "leafd:test/2", "authority", "secret"));
    shake(pair, 0, 2);
    assert_open(pair);
    use_keys(pair, 0, net_fixture_keys("test", "secret", NULL));
    shake(pair, 0, 2);
    assert_open(pair);
}

/* --- strangers with OpenSSL --- */

/* A stranger's hello, made by another context. */
static void shake_with(struct pair *pair, SSL_CTX *ctx)
{
    struct buf hello = BUF_INIT;
    BIO *out = BIO_new(BIO_s_mem());
    SSL *ssl = SSL_new(ctx);
    char *data;
    long len;

    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
    SSL_set_connect_state(ssl);
    assert_int_not_equal(SSL_do_handshake(ssl), 1);
    len = BIO_get_mem_data(out, &data);
    buf_put(&hello, data, (size_t)len);
    close_ends(pair);
    pair->ends[1] = tls_channel_new(pair->keys[1], NULL, 2, 0);
    tls_channel_feed(pair->ends[1], hello.data, hello.len);
    assert_int_equal(tls_channel_shake(pair->ends[1]), ERR_REFUSED);
    assert_int_equal(pair->ends[1]->out.len, 7); /* an alert, and no more */
    buf_free(&hello);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

/* Shows P7-peer-bytes. */
static void test_strangers(void **state)
{
    struct pair *pair = *state;
    SSL_CTX *older = SSL_CTX_new(TLS_client_method());

    shake_with(pair, SSL_CTX_new(TLS_client_method())); /* with nothing to offer */
    assert_string_equal(pair->ends[1]->reason, "another secret");
    assert_int_equal(SSL_CTX_set_max_proto_version(older, TLS1_2_VERSION), 1);
    shake_with(pair, older);
    assert_string_equal(pair->ends[1]->reason, "TLS: unsupported protocol");
}

/* A listener with a certificate that it made itself, and no secret. */
static void test_a_listener_of_its_own_making(void **state)
{
    struct pair *pair = *state;
    struct net_keys *own = net_certified_keys("test", "leafd:test/2", "its own", NULL);

    SSL_CTX_set_verify(own->accept, SSL_VERIFY_NONE, NULL);
    use_keys(pair, 1, own);
    shake(pair, 0, 2);
    assert_int_equal(pair->results[0], ERR_REFUSED);
    assert_string_equal(pair->ends[0]->reason, "TLS: certificate verify failed");
}

static void feed_hello(struct pair *pair, uint8_t size, int err)
{
    uint8_t record[5 + 16384] = {0x16, 3, 1, 0x40, 0};
    size_t fed = 0;
    int rv = 0;

    memset(record + 5, 0, sizeof record - 5);
    record[5] = 1; /* a hello, of size * 64 KiB */
    record[6] = size;
    close_ends(pair);
    pair->ends[1] = tls_channel_new(pair->keys[1], NULL, 2, 0);
    while (rv == 0) {
        tls_channel_feed(pair->ends[1], record, fed == 0 ? sizeof record : 5 + 3);
        rv = tls_channel_shake(pair->ends[1]);
        fed += sizeof record;
        record[3] = 0; /* those that follow have three bytes */
        record[4] = 3;
        assert_true(fed < 10000 * sizeof record);
    }
    assert_int_equal(rv, err);
}

/* What OpenSSL would wait for is cut off at our limit, what is larger at once. */
static void test_a_handshake_without_end(void **state)
{
    struct pair *pair = *state;

    feed_hello(pair, 1, ERR_TOO_LARGE);
    assert_string_equal(pair->ends[1]->reason, "TLS: a handshake too large");
    feed_hello(pair, 0xff, ERR_REFUSED);
}

/* --- open --- */

/* All that the second end gets of what the first one has sealed. */
static ssize_t receive(struct pair *pair, uint8_t *to, size_t room, size_t piece)
{
    struct buf bytes = BUF_INIT;
    ssize_t total = 0;
    ssize_t got = 0;

    buf_move(&bytes, &pair->ends[0]->out);
    for (size_t at = 0; at < bytes.len && got >= 0; at += piece) {
        size_t len = bytes.len - at < piece ? bytes.len - at : piece;

        tls_channel_feed(pair->ends[1], bytes.data + at, len);
        do {
            got = tls_channel_read(pair->ends[1], to + total, room - (size_t)total);
            total += got > 0 ? got : 0;
        } while (got > 0);
    }
    buf_free(&bytes);
    return got < 0 ? got : total;
}

static void test_bytes_go_through_in_any_pieces(void **state)
{
    static const size_t pieces[] = {BIG + 1000, 16384, 1000, 7};
    struct pair *pair = *state;
    uint8_t *sent = malloc(BIG);
    uint8_t *got = malloc(BIG);

    assert_true(sent != NULL && got != NULL);
    for (size_t i = 0; i < BIG; i++) {
        sent[i] = (uint8_t)(i * 7);
    }
    shake(pair, 0, 2);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        for (size_t at = 0; at < BIG;) { /* frames of a turn */
            size_t part = 12 + (at % 5) * 9000;

            part = part < BIG - at ? part : BIG - at;
            tls_channel_write(pair->ends[0], sent + at, part);
            at += part;
        }
        tls_channel_seal(pair->ends[0]);
        assert_true(pair->ends[0]->out.len < BIG + 12 * 22);
        assert_int_equal(receive(pair, got, BIG, pieces[i]), BIG);
        assert_memory_equal(got, sent, BIG);
        tls_channel_rekey(pair->ends[0]); /* other keys for what follows */
    }
    free(sent);
    free(got);
}

static void test_a_record_that_was_changed(void **state)
{
    struct pair *pair = *state;
    uint8_t got[64];

    shake(pair, 0, 2);
    tls_channel_write(pair->ends[0], "PUT max_id", 10);
    tls_channel_seal(pair->ends[0]);
    pair->ends[0]->out.data[8] ^= 1;
    assert_int_equal(receive(pair, got, sizeof got, 1000), ERR_CORRUPT);
    assert_string_equal(pair->ends[1]->reason, "a record that was changed on its way");
    assert_int_equal(tls_channel_read(pair->ends[1], got, sizeof got), ERR_CORRUPT);
    tls_channel_write(pair->ends[1], "x", 1); /* no more of it goes out */
    tls_channel_seal(pair->ends[1]);
    assert_false(pair->ends[1]->state == CHANNEL_OPEN);
}

/* Left out, or sent twice: each record has its number. */
static void test_records_that_are_dropped_or_repeated(void **state)
{
    struct pair *pair = *state;
    struct buf *out;
    uint8_t got[64];

    for (unsigned drop = 0; drop < 2; drop++) {
        shake(pair, 0, 2);
        out = &pair->ends[0]->out;
        for (unsigned i = 0; i < 2; i++) {
            tls_channel_write(pair->ends[0], "frame", 5);
            tls_channel_seal(pair->ends[0]);
        }
        assert_int_equal(out->len, 2 * 27);
        if (drop > 0) {
            memmove(out->data, out->data + 27, 27);
        } else {
            memmove(out->data + 27, out->data, 27);
        }
        assert_int_equal(receive(pair, got, sizeof got, 1000), ERR_CORRUPT);
    }
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_the_same_secret),
        T(test_another_secret),
        T(test_another_cluster),
        T(test_two_secrets_while_one_is_exchanged),
        T(test_a_hello_that_is_reflected),
        T(test_certificates),
        T(test_a_certificate_of_another_authority),
        T(test_a_secret_meets_certificates),
        T(test_strangers),
        T(test_a_listener_of_its_own_making),
        T(test_a_handshake_without_end),
        T(test_bytes_go_through_in_any_pieces),
        T(test_a_record_that_was_changed),
        T(test_records_that_are_dropped_or_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
