/*
 * net_lone.h - a node alone among sockets driven by hand: it has id 1 and knows peer 2.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_TRANSPORT_TESTS_NET_LONE_H
#define LEAFD_RAFT_TRANSPORT_TESTS_NET_LONE_H

#include "raft/transport/tests/net_client.h"
#include "raft/transport/tests/net_fixture.h"

struct net_lone {
    char peer_address[64]; /* of listen_fd */
    struct net_world world;
    struct net_node node; /* id 1 */
    struct net_hub *hub;  /* of node */
    struct net_client client;
    struct net_client other;
    int listen_fd; /* where node 1 dials peer 2 */
    struct buf buf;
};

/* Setup and teardown of a cmocka test; the state is a struct net_lone. */
int net_lone_setup(void **state);
int net_lone_teardown(void **state);

/* Open the node again with other times (0: the limits), and its peer at a new place. */
void net_lone_reopen(struct net_lone *h, uint32_t handshake_ms, uint32_t idle_ms, uint32_t stall_ms,
                     uint32_t silent_ms);

/* The node dials the client, which answers as peer 2: its link is up. */
void net_lone_connect_server(struct net_lone *h);

#endif
