/*
 * net_lone.c - see net_lone.h. Thread: the test's.
 */
#include "raft/transport/tests/net_lone.h"

#include <stdlib.h>
#include <unistd.h>

#include "src/tests/unit/test.h"

int net_lone_setup(void **state)
{
    struct net_lone *h = calloc(1, sizeof *h);

    assert_non_null(h);
    net_world_init(&h->world);
    h->client.fd = h->other.fd = -1;
    h->listen_fd = net_server_listen(h->peer_address);
    net_node_init(&h->node, &h->world, 1);
    net_node_open(&h->node);
    net_node_set_peer(&h->node, 2, h->peer_address);
    h->hub = net_uv_link(h->node.net, 2)->conn->hub;
    *state = h;
    return 0;
}

int net_lone_teardown(void **state)
{
    struct net_lone *h = *state;

    net_client_close(&h->client);
    net_client_close(&h->other);
    net_node_close(&h->node);
    assert_int_equal(close(h->listen_fd), 0);
    net_world_free(&h->world);
    buf_free(&h->buf);
    free(h);
    return 0;
}

void net_lone_reopen(struct net_lone *h, uint32_t handshake_ms, uint32_t idle_ms, uint32_t stall_ms,
                     uint32_t silent_ms)
{

    net_node_close(&h->node);
    h->node.config.handshake_ms = handshake_ms;
    h->node.config.idle_ms = idle_ms;
    h->node.config.stall_ms = stall_ms;
    h->node.config.silent_ms = silent_ms;
    net_node_open(&h->node);
    assert_int_equal(close(h->listen_fd), 0);
    h->listen_fd = net_server_listen(h->peer_address);
    net_node_set_peer(&h->node, 2, h->peer_address);
    h->hub = net_uv_link(h->node.net, 2)->conn->hub;
}

void net_lone_connect_server(struct net_lone *h)
{
    net_server_accept(&h->client, &h->world, h->listen_fd, 2);
    net_server_shake(&h->client);
    RUN_UNTIL(&h->world, h->node.up[2]);
}
