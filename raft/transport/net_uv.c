/*
 * net_uv.c - links over TCP: open, the functions of struct net, close.
 *
 * The happy path: open binds and listens; set_peers() makes a link a peer, which dials; send()
 * queues on the link's connection, and a prepare handle flushes all links once a loop turn, just
 * before the loop would wait. So many frames of one turn share a write and none waits for a timer.
 * Urgent ones do not wait for the turn either, and take along what stands before them.
 *
 * Closing: net_uv_close() closes the listener and every link and connection; each that is freed
 * lets go of the hub, and the last one frees the rest and calls back.
 *
 * Failure modes: see net_uv.h.
 *
 * Thread: the raft loop.
 */
#include "raft/transport/net_uv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "raft/transport/net_inbound.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/container.h"

#define BACKLOG 128

struct net_uv {
    struct net base; /* the vtable's object */
    struct net_hub hub;
    struct net_links links;
    struct net_inbound inbound;
    uv_tcp_t listener;
    uv_prepare_t prepare; /* flushes what was queued, before the loop waits */
    uint16_t port;
    void (*close_cb)(void *data);
    void *close_data;
};

/* --- the functions of struct net --- */

/* The frame would not fit, or nobody is there to take it. 0 if it can be queued. */
static int send_check(const struct net_uv *net, uint64_t to, const struct buf *payload,
                      struct net_out **ret_out)
{
    const struct net_link *link = net_links_find(&net->links, to);

    if (payload->len > FRAME_PAYLOAD_BYTES_MAX) {
        return ERR_TOO_LARGE;
    }
    if (link == NULL) {
        return ERR_NOT_FOUND;
    }
    if (!net_link_is_up(link)) {
        return ERR_IO;
    }
    if (link->conn->out.queue_bytes + FRAME_HEADER_BYTES + payload->len > LIMIT_PEER_QUEUE_BYTES) {
        return ERR_OVERLOADED;
    }
    *ret_out = &link->conn->out;
    return 0;
}

static int net_send(struct net *base, uint64_t to, enum frame_type type, struct buf *payload)
{
    struct net_uv *net = CONTAINER(base, struct net_uv, base);
    struct net_out *out = NULL;
    int rv;

    ASSERT(!frame_is_handshake(type) && type != FRAME_PING);
    rv = send_check(net, to, payload, &out);
    if (rv != 0) {
        buf_free(payload);
        return rv;
    }
    net_out_frame(out, type, payload);
    if (frame_is_urgent(type)) {
        net_out_flush(out); /* the link may end with that; its frames are lost then, as ever */
    }
    return 0;
}

static bool net_connected(struct net *base, uint64_t peer)
{
    const struct net_link *link = net_uv_link(CONTAINER(base, struct net_uv, base), peer);

    return link != NULL && net_link_is_up(link);
}

static void net_set_peers(struct net *base, const struct net_peer *peers, size_t count)
{
    struct net_uv *net = CONTAINER(base, struct net_uv, base);
    struct net_link *link;
    struct net_link *next;

    ASSERT(!net->hub.closing && count <= LIMIT_PEERS);
    for (link = TAILQ_FIRST(&net->links.list); link != NULL; link = next) {
        next = TAILQ_NEXT(link, link);
        if (net_peer_find(peers, count, link->id) == NULL) {
            net_link_close(link);
        }
    }
    for (size_t i = 0; i < count; i++) {
        link = net_links_find(&net->links, peers[i].id);
        if (link == NULL) {
            net_links_add(&net->links, &peers[i]);
        } else {
            net_link_set_address(link, peers[i].address);
        }
    }
    net_inbound_forget_strangers(&net->inbound);
}

static const struct net_ops net_uv_ops = {
    .send = net_send,
    .connected = net_connected,
    .set_peers = net_set_peers,
};

/* --- open and close --- */

static bool is_known(const struct handshake_config *config, uint64_t peer, const void *statement,
                     size_t len)
{
    const struct net_uv *net = CONTAINER(config, const struct net_uv, hub.handshake);
    struct net_receiver *receiver = net->hub.receiver;

    return net_links_find(&net->links, peer) != NULL ||
           (receiver->know != NULL && receiver->know(receiver, peer, statement, len));
}

static void prepare_cb(uv_prepare_t *prepare)
{
    struct net_uv *net = prepare->data;
    struct net_link *link;

    TAILQ_FOREACH (link, &net->links.list, link) {
        if (net_link_is_up(link)) {
            net_out_flush(&link->conn->out);
        }
    }
}

static void all_gone(struct net_hub *hub)
{
    struct net_uv *net = CONTAINER(hub, struct net_uv, hub);
    void (*cb)(void *data) = net->close_cb;
    void *data = net->close_data;

    ASSERT(TAILQ_EMPTY(&net->inbound.conns) && TAILQ_EMPTY(&net->links.list));
    free(net);
    cb(data);
}

int net_uv_open(uv_loop_t *loop, const struct net_uv_config *config, struct net_receiver *receiver,
                struct net_uv **ret_net)
{
    struct sockaddr_storage address;
    struct net_uv *net;
    int fd;
    int rv;

    ASSERT(config->node_id > 0 && config->node_id <= LIMIT_NODE_ID);
    /* The socket comes before any handle, which only a running loop could close again. */
    rv = address_resolve(config->listen_address, &address);
    if (rv == 0) {
        rv = address_listen(&address, BACKLOG, false, &fd);
    }
    if (rv != 0) {
        return rv;
    }
    net = MUST_HAVE(calloc(1, sizeof *net));
    net->base.ops = &net_uv_ops;
    net_hub_init(&net->hub, loop, config, receiver);
    net->hub.handshake.known = is_known;
    net->hub.all_gone = all_gone;
    net->port = address_port(&address);
    net_links_init(&net->links, &net->hub);
    net_inbound_init(&net->inbound, &net->hub, &net->links);
    ASSERT(uv_tcp_init(loop, &net->listener) == 0);
    ASSERT(uv_tcp_open(&net->listener, fd) == 0);
    net->listener.data = &net->inbound;
    ASSERT(uv_listen((uv_stream_t *)&net->listener, BACKLOG, net_inbound_cb) == 0);
    ASSERT(uv_prepare_init(loop, &net->prepare) == 0);
    ASSERT(uv_prepare_start(&net->prepare, prepare_cb) == 0);
    net->prepare.data = net;
    net_hub_hold(&net->hub); /* the listener */
    net_hub_hold(&net->hub); /* the prepare handle */
    *ret_net = net;
    return 0;
}

static void handle_close_cb(uv_handle_t *handle)
{
    net_hub_release(handle->data);
}

void net_uv_close(struct net_uv *net, void (*cb)(void *data), void *data)
{
    ASSERT(!net->hub.closing);
    net->hub.closing = true;
    net->close_cb = cb;
    net->close_data = data;
    while (!TAILQ_EMPTY(&net->links.list)) {
        net_link_close(TAILQ_FIRST(&net->links.list));
    }
    net_inbound_close(&net->inbound, "shutting down");
    net->listener.data = &net->hub;
    net->prepare.data = &net->hub;
    uv_close((uv_handle_t *)&net->listener, handle_close_cb);
    uv_close((uv_handle_t *)&net->prepare, handle_close_cb);
}

/* --- what others see and set --- */

struct net *net_uv_net(struct net_uv *net)
{
    return &net->base;
}

struct net_presence net_uv_presence(const struct net_uv *net, uint64_t peer, uint64_t store_id,
                                    uint64_t within_ms)
{
    const struct net_link *link = net_links_find(&net->links, peer);

    return (struct net_presence){
        .dials = store_id,
        .heard = net_inbound_hears(&net->inbound, peer, within_ms),
        .reached = link != NULL && net_link_is_up(link) ? link->conn->handshake.peer_store_id : 0};
}

uint16_t net_uv_port(const struct net_uv *net)
{
    return net->port;
}

struct net_link *net_uv_link(const struct net_uv *net, uint64_t peer)
{
    return net_links_find(&net->links, peer);
}

static bool same_ways(const struct net_keys *a, const struct net_keys *b)
{
    bool same = a->way_count == b->way_count;

    for (unsigned i = 0; same && i < a->way_count; i++) {
        same =
            memcmp(a->ways[i].id, b->ways[i].id, NET_WAY_ID_BYTES) == 0 && !a->ways[i].certificate;
    }
    return same;
}

bool net_uv_set_keys(struct net_uv *net, struct net_keys *keys, unsigned *ret_renewed)
{
    const bool changed = !same_ways(net->hub.keys, keys);
    struct net_link *link;
    unsigned count = 0;

    net_hub_set_keys(&net->hub, keys);
    TAILQ_FOREACH (link, &net->links.list, link) {
        count += net_link_keys_changed(link, (count + 1) * LIMIT_WAY_STEP_MS) ? 1 : 0;
    }
    *ret_renewed = count + net_inbound_keys_changed(&net->inbound, LIMIT_WAY_OUT_MS);
    return changed;
}
