/*
 * net_fixture.h - nodes with real sockets on 127.0.0.1, all on one loop, for the tests of net_uv.
 *
 * A test runs the loop until a condition holds (RUN_UNTIL); it fails if that takes longer than
 * WORLD_LATE_MS. Nothing sleeps.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_TRANSPORT_TESTS_NET_FIXTURE_H
#define LEAFD_RAFT_TRANSPORT_TESTS_NET_FIXTURE_H

#include <uv.h>

#include "raft/transport/net_uv.h"

#define WORLD_LATE_MS 10000
#define WORLD_IDS 10 /* ids of nodes and clients are below */

struct net_world {
    uv_loop_t loop;
    uv_timer_t tick; /* wakes the loop, so that conditions outside of it are seen too */
    uint64_t late_ms;
};

/* A node that records what it is told. */
struct net_node {
    struct net_receiver receiver; /* first */
    struct net_world *world;
    struct net_uv *net; /* NULL while closed */
    struct net_uv_config config;
    char listen_address[64];
    /* recorded */
    unsigned received; /* frames in all */
    unsigned received_from[WORLD_IDS];
    uint64_t next_from[WORLD_IDS]; /* the number the next frame of a peer must carry */
    enum frame_type last_type;
    size_t last_len;
    bool up[WORLD_IDS];
    unsigned ups;
    unsigned downs;
    unsigned gone[WORLD_IDS]; /* how often nobody listened there */
    unsigned refusals;
    uint64_t refused_by;
    int refused_err;
    /* how it answers */
    bool numbered; /* frames carry their number in their first 8 bytes: check it */
    bool receive_result;
    uint64_t unwelcome_store; /* a store that judge() refuses; 0: none */
    uint16_t level;
    const char *secrets[2]; /* names; the second may be NULL */
};

void net_world_init(struct net_world *world);
void net_world_free(struct net_world *world);

/* Begin to wait for a condition. */
void net_world_expect(struct net_world *world);
/* One turn of the loop; fails when the condition is late. */
void net_world_turn(struct net_world *world, const char *condition);

#define RUN_UNTIL(world, condition)                                                                \
    do {                                                                                           \
        net_world_expect(world);                                                                   \
        while (!(condition)) {                                                                     \
            net_world_turn((world), #condition);                                                   \
        }                                                                                          \
    } while (0)

/* The bytes of a secret that is named so. */
void net_fixture_secret(const char *name, uint8_t ret_secret[NET_SECRET_BYTES]);

/* Keys of a cluster with the secrets that are named so, the first one first; second may be NULL.
 * The old secret is the first one's name. The caller's. */
struct net_keys *net_fixture_keys(const char *cluster_id, const char *first, const char *second);

/* A node with store id 1000 + id, cluster "test" and secret "secret"; change config, then open. */
void net_node_init(struct net_node *node, struct net_world *world, uint64_t id);

/* Other secrets for those to come: before it opens. */
void net_node_secret(struct net_node *node, const char *first, const char *second);

/* Open (port 0, or the port it had before). */
void net_node_open(struct net_node *node);
void net_node_close(struct net_node *node);

/* Tell a node of one peer or two (NULL: none), at 127.0.0.1. */
void net_node_set_peers(struct net_node *node, const struct net_node *a, const struct net_node *b);
void net_node_set_peer(struct net_node *node, uint64_t id, const char *address);

/* Two nodes for a whole test, with the ids 1 and 2, which are not open yet. */
struct net_pair {
    struct net_world world;
    struct net_node a;
    struct net_node b;
};
int net_pair_setup(void **state); /* *state: a struct net_pair */
int net_pair_teardown(void **state);
/* Open them, and let each dial the other; and then wait until both are connected. */
void net_pair_open(struct net_pair *pair);
void net_pair_connect(struct net_pair *pair);

bool net_node_connected(struct net_node *node, uint64_t peer);

/* Send len bytes that begin with the number. */
int net_node_send(struct net_node *node, uint64_t to, uint64_t number, size_t len);

#endif
