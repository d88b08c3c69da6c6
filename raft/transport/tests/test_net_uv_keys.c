/*
 * test_net_uv_keys.c - secrets that are exchanged while links are up, and who says other than what
 * TLS has proved.
 *
 * Thread: one.
 */
#include "raft/transport/net_uv.h"

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_hex.h"
#include "raft/transport/tests/net_lone.h"
#include "src/base/limits.h"

/* --- two nodes that exchange their secret --- */

static unsigned set_secrets(struct net_node *node, const char *first, const char *second)
{
    unsigned renewed = 0;

    assert_true(net_uv_set_keys(node->net, net_fixture_keys("test", first, second), &renewed));
    return renewed;
}

/* New and old, then the new one alone: a link breaks only when its secret is good no more, and is
 * there again at once. */
static void test_a_secret_is_exchanged(void **state)
{
    struct net_pair *pair = *state;
    unsigned renewed = 0;

    net_pair_connect(pair);
    assert_int_equal(set_secrets(&pair->a, "new", "secret"), 0);
    assert_int_equal(set_secrets(&pair->b, "new", "secret"), 0);
    assert_false(net_uv_set_keys(pair->b.net, net_fixture_keys("test", "new", "secret"), &renewed));
    assert_int_equal(renewed, 0);
    assert_int_equal(pair->a.downs + pair->b.downs, 0);
    assert_int_equal(set_secrets(&pair->a, "new", NULL), 2);
    RUN_UNTIL(&pair->world, pair->a.ups == 2); /* it dialled again, by the new one */
    assert_int_equal(pair->b.downs, 0);
    assert_int_equal(set_secrets(&pair->b, "new", NULL), 1);
    RUN_UNTIL(&pair->world, pair->b.ups == 2);
    assert_int_equal(net_node_send(&pair->a, 2, 7, 100), 0);
    RUN_UNTIL(&pair->world, pair->b.received == 1);
    assert_int_equal(pair->a.downs + pair->b.downs, 2);
}

/* It offers the new one, which the other does not know yet, and then the old one. */
static void test_a_node_that_is_ahead(void **state)
{
    struct net_pair *pair = *state;

    net_node_secret(&pair->a, "new", "secret");
    net_pair_connect(pair);
    assert_int_equal(net_uv_link(pair->a.net, 2)->conn->offer, 1);
    assert_int_equal(net_uv_link(pair->b.net, 1)->conn->offer, 0);
}

/* --- other than what was proved --- */

static void reject_of_hello(struct net_lone *h, uint64_t proved, uint64_t wanted, uint64_t said,
                            const char *reject)
{
    struct buf payload = BUF_INIT;

    net_client_connect(&h->client, &h->node, proved);
    net_client_secure(&h->client, wanted);
    h->client.config.node_id = said;
    h->buf.len = 0;
    handshake_dial(&h->client.handshake, &h->client.config, said == 1 ? 2 : 1, &h->client.proof,
                   &h->buf);
    net_client_write(&h->client, h->buf.data, h->buf.len);
    RUN_UNTIL(&h->world, net_client_has_frame(&h->client));
    if (net_client_take_frame(&h->client, &payload) == FRAME_REJECT) {
        payload.len = 2;
        assert_hex(payload.data, payload.len, reject);
    } else {
        assert_null(reject);
    }
    buf_free(&payload);
    net_client_close(&h->client);
}

static void test_a_hello_of_another_than_the_identity(void **state)
{
    struct net_lone *h = *state;

    reject_of_hello(h, 3, 1, 2, "0400"); /* another node */
    reject_of_hello(h, 2, 3, 2, "0400"); /* meant for a third one */
    reject_of_hello(h, 2, 0, 2, "0400"); /* for anybody */
    reject_of_hello(h, 1, 2, 1, "0400"); /* its own hello, reflected */
    reject_of_hello(h, 2, 1, 2, NULL);
    assert_int_equal(h->node.received + h->node.ups, 0);
}

#define PAIR(test) cmocka_unit_test_setup_teardown(test, net_pair_setup, net_pair_teardown)
#define LONE(test) cmocka_unit_test_setup_teardown(test, net_lone_setup, net_lone_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR(test_a_secret_is_exchanged),
        PAIR(test_a_node_that_is_ahead),
        LONE(test_a_hello_of_another_than_the_identity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
