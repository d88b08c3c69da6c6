/*
 * test_net_keys.c - what is derived from a secret, identities, names in certificates.
 *
 * Thread: one.
 */
#include "raft/transport/net_keys.h"

#include <stdio.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_certificates.h"
#include "raft/transport/tests/net_hex.h"

/* Bytes 0 to 31: every leafd, of every version that speaks protocol 4, derives the same. */
static struct net_keys *counting(const char *cluster_id)
{
    struct net_key_source source = {.cluster_id = cluster_id, .secret_count = 1};
    char why[NET_KEYS_WHY_BYTES];
    struct net_keys *keys = NULL;

    for (uint8_t i = 0; i < NET_SECRET_BYTES; i++) {
        source.secrets[0][i] = i;
    }
    assert_int_equal(net_keys_make(&source, &keys, why), 0);
    assert_int_equal(keys->credential_count, 1);
    return keys;
}

static void test_golden_bytes(void **state)
{
    struct net_keys *keys = counting("leafd");
    char identity[NET_IDENTITY_BYTES];
    uint8_t psk[NET_SECRET_BYTES];
    size_t len;

    (void)state;
    assert_hex(keys->credentials[0].id, NET_CREDENTIAL_ID_BYTES, "6a05e6a3659af258");
    len = net_identity_put(keys, &keys->credentials[0], 3, 1, identity);
    assert_int_equal(len, strlen(identity));
    assert_string_equal(identity, "leafd4/6a05e6a3659af258/4986b87d8705c445/3/1");
    net_identity_psk(&keys->credentials[0], identity, len, psk);
    assert_hex(psk, sizeof psk, "3ee20a1602fbdfe2761ee7e46b0961a2a298983183d5aea4a26bf80b6fba93b8");
    net_keys_unref(keys);
}

static bool parses(const struct net_keys *keys, const char *identity, struct net_identity *ret)
{
    return net_identity_parse(keys, identity, strlen(identity), ret);
}

static void test_identities(void **state)
{
    static const char *const others[] = {
        "",
        "leafd4",
        "leafd5/%s/3/1",
        "leafd4/%s/3/1/",
        "leafd4/%s/3/1/2",
        "leafd4/%s/3",
        "leafd4/%s/03/1",
        "leafd4/%s/+3/1",
        "leafd4/%s/-1/1",
        "leafd4/%s//1",
        "leafd4/%s/0/1",
        "leafd4/%s/65536/1",
        "leafd4/%s/3/18446744073709551617",
        "leafd4/0000000000000000/0000000000000000/3/1",
    };
    struct net_keys *keys = counting("leafd");
    struct net_keys *other = counting("other");
    struct net_identity found;
    char text[NET_IDENTITY_BYTES];
    char middle[34];

    (void)state;
    (void)net_identity_put(keys, &keys->credentials[0], LIMIT_NODE_ID, 0, text);
    assert_true(parses(keys, text, &found) && found.same_cluster && found.wanted == 0);
    assert_true(found.dialler == LIMIT_NODE_ID && found.credential == &keys->credentials[0]);
    assert_true(parses(other, text, &found));
    assert_false(found.same_cluster);
    (void)snprintf(middle, sizeof middle, "%.33s", text + strlen("leafd4/"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const char *hole = strstr(others[i], "%s");
        size_t before = hole != NULL ? (size_t)(hole - others[i]) : strlen(others[i]);

        (void)snprintf(text, sizeof text, "%.*s%s%s", (int)before, others[i],
                       hole != NULL ? middle : "", hole != NULL ? hole + 2 : "");
        assert_false(parses(keys, text, &found));
    }
    assert_false(net_identity_parse(keys, "leafd4\0", 7, &found));
    net_keys_unref(keys);
    net_keys_unref(other);
}

static int make_of(const char *uri, uint64_t node_id, char why[NET_KEYS_WHY_BYTES])
{
    struct net_certificate files;
    struct net_key_source source = {.cluster_id = "leafd", .node_id = node_id};
    struct net_keys *keys = NULL;
    int rv;

    net_certificate_make(&files, uri, "authority");
    source.cert_file = files.cert;
    source.key_file = files.key;
    source.ca_file = files.ca;
    rv = net_keys_make(&source, &keys, why);
    net_keys_unref(keys);
    net_certificate_remove(&files);
    return rv;
}

static void test_names_in_certificates(void **state)
{
    static const char *const bad[] = {
        "leafd:leafd",   "leafd:leafd/",    "leafd:leafd/0", "leafd:leafd/65536",
        "leafd:leafd/x", "leafd:leafd/ 1",  "leafd:other/1", "leafd:leafd/1,URI:leafd:leafd/2",
        "leafd:/1",      "https://leafd/1",
    };
    char why[NET_KEYS_WHY_BYTES];

    (void)state;
    assert_int_equal(make_of("leafd:leafd/1", 1, why), 0);
    assert_int_equal(make_of("leafd:leafd/65535,URI:https://other", 65535, why), 0);
    assert_int_equal(make_of(NULL, 1, why), ERR_INVALID);
    assert_int_equal(make_of("leafd:leafd/2", 1, why), ERR_INVALID);
    assert_non_null(strstr(why, "the certificate is of node 2, and node.id is 1: "));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(make_of(bad[i], 1, why), ERR_INVALID);
        assert_non_null(strstr(why, "not exactly one SAN of the form URI:leafd:leafd/<node id>"));
    }
}

static void test_files_that_are_none(void **state)
{
    struct net_certificate files;
    struct net_certificate others;
    struct net_key_source source = {.cluster_id = "leafd"};
    char why[NET_KEYS_WHY_BYTES];
    struct net_keys *keys = NULL;

    (void)state;
    net_certificate_make(&files, "leafd:leafd/1", "authority");
    net_certificate_make(&others, "leafd:leafd/1", "authority");
    source = (struct net_key_source){.cluster_id = "leafd",
                                     .cert_file = files.cert,
                                     .key_file = others.key,
                                     .ca_file = files.ca};
    assert_int_equal(net_keys_make(&source, &keys, why), ERR_INVALID);
    assert_non_null(strstr(why, "peer.tls-dir: key values mismatch"));
    source.key_file = files.key;
    source.ca_file = files.key;
    assert_int_equal(net_keys_make(&source, &keys, why), ERR_INVALID);
    assert_non_null(strstr(why, "peer.tls-dir: "));
    source.cert_file = "/nonexistent";
    assert_int_equal(net_keys_make(&source, &keys, why), ERR_INVALID);
    assert_non_null(strstr(why, "peer.tls-dir: "));
    assert_non_null(strstr(why, "/nonexistent"));
    net_certificate_remove(&files);
    net_certificate_remove(&others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_bytes),
        cmocka_unit_test(test_identities),
        cmocka_unit_test(test_names_in_certificates),
        cmocka_unit_test(test_files_that_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
