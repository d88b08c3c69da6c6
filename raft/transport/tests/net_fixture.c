/*
 * net_fixture.c - see net_fixture.h. Thread: the test's.
 */
#include "raft/transport/tests/net_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/base/prng.h"

static struct net_node *node_of(struct net_receiver *receiver)
{
    return (struct net_node *)receiver;
}

static bool receive(struct net_receiver *receiver, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len)
{
    struct net_node *node = node_of(receiver);

    assert_true(from > 0 && from < WORLD_IDS);
    node->received++;
    node->received_from[from]++;
    node->last_type = type;
    node->last_len = len;
    if (node->numbered) {
        struct reader reader;

        reader_init(&reader, payload, len);
        assert_int_equal(reader_u64(&reader), node->next_from[from]);
        node->next_from[from]++;
    }
    return node->receive_result;
}

static void link_changed(struct net_receiver *receiver, uint64_t peer, bool up)
{
    struct net_node *node = node_of(receiver);

    assert_true(peer < WORLD_IDS);
    assert_true(node->up[peer] != up);
    node->up[peer] = up;
    node->ups += up ? 1 : 0;
    node->downs += up ? 0 : 1;
}

static void gone(struct net_receiver *receiver, uint64_t peer)
{
    struct net_node *node = node_of(receiver);

    assert_true(peer < WORLD_IDS);
    node->gone[peer]++;
}

/* Its peers are those that it was told of. */
static int judge(struct net_receiver *receiver, const struct net_claim *claim, uint16_t *ret_level)
{
    struct net_node *node = node_of(receiver);

    assert_true(claim->id > 0);
    if (node->unwelcome_store == claim->store_id) {
        return ERR_WRONG_NODE;
    }
    *ret_level = node->level;
    if (claim->levels.max < node->level) {
        return ERR_NEWER;
    }
    return claim->states && net_uv_link(node->net, claim->id) == NULL ? ERR_NOT_FOUND : 0;
}

static void refused(struct net_receiver *receiver, uint64_t peer, int err, const char *text)
{
    struct net_node *node = node_of(receiver);

    assert_true(text != NULL && text[0] != '\0');
    node->refusals++;
    node->refused_by = peer;
    node->refused_err = err;
}

static void tick_cb(uv_timer_t *timer)
{
    (void)timer;
}

void net_world_init(struct net_world *world)
{
    log_setup(LOG_LEVEL_ERROR, 0);
    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    assert_int_equal(uv_loop_init(&world->loop), 0);
    assert_int_equal(uv_timer_init(&world->loop, &world->tick), 0);
    assert_int_equal(uv_timer_start(&world->tick, tick_cb, 2, 2), 0);
}

void net_world_free(struct net_world *world)
{
    uv_close((uv_handle_t *)&world->tick, NULL);
    (void)uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
}

void net_world_expect(struct net_world *world)
{
    uv_update_time(&world->loop);
    world->late_ms = uv_now(&world->loop) + WORLD_LATE_MS;
}

void net_world_turn(struct net_world *world, const char *condition)
{
    (void)uv_run(&world->loop, UV_RUN_ONCE);
    if (uv_now(&world->loop) > world->late_ms) {
        fail_msg("did not come true in time: %s", condition);
    }
}

void net_node_init(struct net_node *node, struct net_world *world, uint64_t id)
{
    memset(node, 0, sizeof *node);
    node->receiver = (struct net_receiver){.receive = receive,
                                           .link_changed = link_changed,
                                           .gone = gone,
                                           .judge = judge,
                                           .refused = refused};
    node->world = world;
    node->receive_result = true;
    node->config.self.node_id = id;
    node->config.self.store_id = 1000 + id;
    node->config.self.cluster_id = "test";
    node->config.self.receiver = &node->receiver;
    node->level = LEVEL_FIRST;
    node->secrets[0] = "secret";
    (void)snprintf(node->listen_address, sizeof node->listen_address, "127.0.0.1:0");
}

void net_fixture_secret(const char *name, uint8_t ret_secret[NET_SECRET_BYTES])
{
    struct prng prng;

    prng_seed(&prng, hash_bytes(name, strlen(name), 1));
    for (size_t i = 0; i < NET_SECRET_BYTES; i++) {
        ret_secret[i] = (uint8_t)prng_next(&prng);
    }
}

struct net_keys *net_fixture_keys(const char *cluster_id, const char *first, const char *second)
{
    struct net_key_source source = {.cluster_id = cluster_id,
                                    .secret_count = second != NULL ? 2 : 1};
    char why[NET_KEYS_WHY_BYTES];
    struct net_keys *keys = NULL;

    net_fixture_secret(first, source.secrets[0]);
    if (second != NULL) {
        net_fixture_secret(second, source.secrets[1]);
    }
    assert_int_equal(net_keys_make(&source, &keys, why), 0);
    return keys;
}

void net_node_secret(struct net_node *node, const char *first, const char *second)
{
    node->secrets[0] = first;
    node->secrets[1] = second;
}

void net_node_open(struct net_node *node)
{
    struct net_keys *keys =
        net_fixture_keys(node->config.self.cluster_id, node->secrets[0], node->secrets[1]);

    assert_null(node->net);
    node->config.keys = keys;
    node->config.listen_address = node->listen_address;
    assert_int_equal(net_uv_open(&node->world->loop, &node->config, &node->net), 0);
    net_keys_unref(keys);
    assert_true(net_uv_port(node->net) > 0);
    (void)snprintf(node->listen_address, sizeof node->listen_address, "127.0.0.1:%u",
                   (unsigned)net_uv_port(node->net));
}

static void closed_cb(void *data)
{
    *(bool *)data = true;
}

void net_node_close(struct net_node *node)
{
    bool closed = false;

    if (node->net == NULL) {
        return;
    }
    net_uv_close(node->net, closed_cb, &closed);
    assert_false(closed);
    RUN_UNTIL(node->world, closed);
    node->net = NULL;
    memset(node->up, 0, sizeof node->up);
}

static struct net_peer peer_of(uint64_t id, const char *address)
{
    struct net_peer peer = {.id = id};

    (void)snprintf(peer.address, sizeof peer.address, "%s", address);
    return peer;
}

void net_node_set_peers(struct net_node *node, const struct net_node *a, const struct net_node *b)
{
    struct net *net = net_uv_net(node->net);
    struct net_peer peers[2];
    size_t count = 0;

    if (a != NULL) {
        peers[count++] = peer_of(a->config.self.node_id, a->listen_address);
    }
    if (b != NULL) {
        peers[count++] = peer_of(b->config.self.node_id, b->listen_address);
    }
    net->ops->set_peers(net, peers, count);
}

void net_node_set_peer(struct net_node *node, uint64_t id, const char *address)
{
    struct net *net = net_uv_net(node->net);
    struct net_peer peer = peer_of(id, address);

    net->ops->set_peers(net, &peer, 1);
}

bool net_node_connected(struct net_node *node, uint64_t peer)
{
    struct net *net = net_uv_net(node->net);

    return net->ops->connected(net, peer);
}

#define ENTRY_BYTES_MIN 100000

int net_node_send(struct net_node *node, uint64_t to, uint64_t number, size_t len)
{
    struct net *net = net_uv_net(node->net);
    struct entry_block *tail = NULL;
    struct buf payload = BUF_INIT;
    int rv;

    assert_true(len >= 8);
    buf_put_u64(&payload, number);
    buf_reserve(&payload, len - 8);
    memset(payload.data + 8, (int)(number & 0xff), len - 8);
    payload.len = len;
    if (len >= ENTRY_BYTES_MIN) { /* as of a large entry */
        payload.len = len / 3;
        tail = entry_block_new(payload.data + payload.len, len - payload.len);
    }
    rv = net->ops->send(net, to, FRAME_RAFT, &payload, tail);
    entry_block_unref(tail);
    assert_null(payload.data);
    assert_int_equal(payload.len, 0);
    return rv;
}

/* --- two nodes --- */

int net_pair_setup(void **state)
{
    struct net_pair *pair = calloc(1, sizeof *pair);

    assert_non_null(pair);
    net_world_init(&pair->world);
    net_node_init(&pair->a, &pair->world, 1);
    net_node_init(&pair->b, &pair->world, 2);
    *state = pair;
    return 0;
}

int net_pair_teardown(void **state)
{
    struct net_pair *pair = *state;

    net_node_close(&pair->a);
    net_node_close(&pair->b);
    net_world_free(&pair->world);
    free(pair);
    return 0;
}

void net_pair_open(struct net_pair *pair)
{
    net_node_open(&pair->a);
    net_node_open(&pair->b);
    net_node_set_peers(&pair->a, &pair->b, NULL);
    net_node_set_peers(&pair->b, &pair->a, NULL);
}

void net_pair_connect(struct net_pair *pair)
{
    net_pair_open(pair);
    RUN_UNTIL(&pair->world, pair->a.up[2] && pair->b.up[1]);
    assert_true(net_node_connected(&pair->a, 2) && net_node_connected(&pair->b, 1));
}
