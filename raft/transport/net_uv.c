/*
 * net_uv.c - see net_uv.h.
 */
#include "raft/transport/net_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/log.h"

#define BACKLOG 128
#define STRANGER_LOG_MS 1000

TAILQ_HEAD(net_link_list, net_link);

struct net_uv {
    struct net base; /* the vtable's object */
    struct net_hub hub;
    struct net_link_list links;
    struct net_conn_list inbound; /* accepted connections until they are freed, oldest first */
    unsigned inbound_open;        /* of these, not closing */
    bool stranger_logged;         /* a failed handshake, at stranger_ms */
    uint64_t stranger_ms;
    unsigned stranger_skipped; /* since then */
    uv_tcp_t listener;
    uv_prepare_t prepare; /* flushes queued frames before the loop waits */
    uv_idle_t more;       /* active while a link has more to flush: the loop does not wait */
    uint16_t port;
    void (*close_cb)(void *data);
    void *close_data;
};

/* --- links: each dials and redials its peer --- */

static void link_dial(struct net_link *link);

struct net_link *net_uv_link(const struct net_uv *net, uint64_t peer)
{
    struct net_link *link;

    TAILQ_FOREACH (link, &net->links, link) {
        if (link->id == peer) {
            return link;
        }
    }
    return NULL;
}

static bool net_link_is_up(const struct net_link *link)
{
    return link->conn != NULL && link->conn->state == NET_CONN_UP;
}

/* --- when to dial --- */

static void redial_cb(uv_timer_t *timer)
{
    link_dial(timer->data);
}

/* Dial after half of the time or more: nodes that lost the peer at once must not return at once. */
static void redial_within(struct net_link *link, uint32_t ms)
{
    uint32_t wait_ms = ms / 2;

    wait_ms += (uint32_t)prng_below(&link->net->hub.prng, ms - wait_ms + 1);
    ASSERT(uv_timer_start(&link->redial, redial_cb, wait_ms, 0) == 0);
}

/* False if the same reason was used a moment ago: a link may come and go all the time. */
static bool may_hurry(const struct net_link *link, uint64_t *hurried_ms)
{
    uint64_t now_ms = uv_now(link->net->hub.loop);

    if (now_ms - *hurried_ms < LIMIT_REDIAL_SOON_MS) {
        return false;
    }
    *hurried_ms = now_ms;
    return true;
}

/* --- events of its connection --- */

/* True if the last dial ended for another reason. */
static bool link_is_news(const struct net_link *link, const char *reason)
{
    return strncmp(link->reason, reason, sizeof link->reason - 1) != 0;
}

static void link_up(struct net_conn *conn)
{
    struct net_receiver *receiver = conn->hub->config.self.receiver;
    struct net_link *link = conn->owner;
    char address[LIMIT_ADDRESS_BYTES * 2];

    link->reason[0] = '\0';
    log_info("net", "link up", "peer=%" PRIu64 " address=%s", link->id,
             log_quote(link->address, strlen(link->address), address, sizeof address));
    receiver->link_changed(receiver, link->id, true);
}

static void link_failed(struct net_conn *conn)
{
    struct net_receiver *receiver = conn->hub->config.self.receiver;
    const struct handshake *handshake = &conn->handshake;
    const struct handshake_reject_info *info = handshake_reject_info(handshake->reject);
    const char *text = handshake_reason(handshake);
    char reason[NET_REASON_BYTES];
    bool news;

    (void)snprintf(reason, sizeof reason, "%s: %s",
                   handshake->by_peer ? "rejected by the peer" : "peer rejected", text);
    news = link_is_news(conn->owner, reason);
    net_conn_close(conn, reason);
    if (news && handshake->by_peer && info->final) {
        receiver->refused(receiver, handshake->peer_id, info->err, text);
    }
}

static void link_down(struct net_conn *conn, enum net_conn_state from, const char *reason)
{
    const bool refused =
        conn->handshake.by_peer && handshake_reject_info(conn->handshake.reject)->final;
    struct net_link *link = conn->owner;
    struct net_hub *hub = conn->hub;
    char address[LIMIT_ADDRESS_BYTES * 2];
    char quoted[NET_REASON_BYTES * 2];
    bool another = false;

    ASSERT(link->conn == conn);
    link->conn = NULL;
    /* Does the next dial offer a credential that this one did not? */
    if (conn->was_up) {
        link->offer = 0;
    } else if (from == NET_CONN_HANDSHAKE && conn->untrusted) {
        link->offer = (conn->offer + 1) % hub->config.keys->credential_count;
        another = link->offer != 0;
    }
    if (!hub->closing && !another && link_is_news(link, reason)) {
        log_warn("net", conn->was_up ? "link down" : "no link to peer",
                 "peer=%" PRIu64 " address=%s reason=%s", link->id,
                 log_quote(link->address, strlen(link->address), address, sizeof address),
                 log_quote(reason, strlen(reason), quoted, sizeof quoted));
        (void)snprintf(link->reason, sizeof link->reason, "%s", reason);
    }
    if (conn->was_up && uv_now(hub->loop) - conn->up_ms >= LIMIT_REDIAL_MAX_MS) {
        link->backoff_ms = LIMIT_REDIAL_MIN_MS;
    }
    if (refused) {
        link->backoff_ms = LIMIT_REDIAL_MAX_MS;
    }
    redial_within(link, another || (conn->was_up && !refused && may_hurry(link, &link->lost_ms))
                            ? LIMIT_REDIAL_MIN_MS
                            : link->backoff_ms);
    link->backoff_ms *= 2;
    if (link->backoff_ms > LIMIT_REDIAL_MAX_MS) {
        link->backoff_ms = LIMIT_REDIAL_MAX_MS;
    }
    if (conn->refused) {
        hub->config.self.receiver->gone(hub->config.self.receiver, conn->wanted_id);
    }
}

/* The end of a link that was up is reported here, never inside a call of send(). The link
 * itself may be gone. */
static void link_freed(struct net_conn *conn)
{
    struct net_receiver *receiver = conn->hub->config.self.receiver;

    if (conn->was_up && !conn->hub->closing) {
        receiver->link_changed(receiver, conn->handshake.peer_id, false);
    }
}

static const struct net_conn_ops link_ops = {
    .up = link_up,
    .failed = link_failed,
    .down = link_down,
    .freed = link_freed,
};

/* --- a link --- */

static void link_dial(struct net_link *link)
{
    ASSERT(link->conn == NULL);
    link->conn = net_conn_new(&link->net->hub, NET_CONN_DIALS, link->id, &link_ops, link);
    net_conn_dial(link->conn, link->address, link->turn++, link->offer);
}

/* Release the connection and any wait, without the redial that its own end would cause. */
static void link_detach(struct net_link *link, const char *reason)
{
    if (link->conn != NULL) {
        net_conn_close(link->conn, reason);
    }
    ASSERT(link->conn == NULL);
    (void)uv_timer_stop(&link->redial);
    link->reason[0] = '\0';
}

static void link_close_cb(uv_handle_t *handle)
{
    struct net_link *link = handle->data;
    struct net_hub *hub = &link->net->hub;

    ASSERT(link->conn == NULL);
    free(link);
    net_hub_release(hub);
}

static void net_link_close(struct net_link *link)
{
    link_detach(link, "no longer a peer");
    TAILQ_REMOVE(&link->net->links, link, link);
    uv_close((uv_handle_t *)&link->redial, link_close_cb);
}

/* --- logging --- */

static bool stranger_log_is_due(struct net_uv *net)
{
    const uint64_t now_ms = uv_now(net->hub.loop);

    if (net->stranger_logged && now_ms - net->stranger_ms < STRANGER_LOG_MS) {
        net->stranger_skipped++;
        return false;
    }
    net->stranger_logged = true;
    net->stranger_ms = now_ms;
    return true;
}

static void inbound_log_refused(const struct net_conn *conn, const char *reason)
{
    struct net_uv *net = conn->owner;
    if (!net->hub.closing && stranger_log_is_due(net)) {
        log_warn("net", "inbound connection refused",
                 "remote=%s claims_to_be=%" PRIu64 " reason=\"%s\" not_logged_before_this=%u",
                 conn->remote[0] != '\0' ? conn->remote : "unknown", conn->handshake.peer_id,
                 reason, net->stranger_skipped);
        net->stranger_skipped = 0;
    }
}

/* --- events of a connection --- */

static void inbound_up(struct net_conn *conn)
{
    const uint64_t peer_id = conn->handshake.peer_id;
    struct net_uv *net = conn->owner;
    struct net_link *link = net_uv_link(net, peer_id);
    struct net_conn *other;

    TAILQ_FOREACH (other, &net->inbound, link) {
        if (other != conn && other->state == NET_CONN_UP && other->handshake.peer_id == peer_id) {
            net_conn_close(other, "replaced by a newer connection");
        }
    }
    log_info("net", "peer connected", "peer=%" PRIu64, peer_id);
    /* The peer has shown that it is alive: if the next dial is far away, dial soon. */
    if (link != NULL && link->conn == NULL &&
        uv_timer_get_due_in(&link->redial) > LIMIT_REDIAL_MIN_MS &&
        may_hurry(link, &link->dialled_ms)) {
        redial_within(link, LIMIT_REDIAL_MIN_MS);
    }
}

static void inbound_failed(struct net_conn *conn)
{
    inbound_log_refused(conn, handshake_reject_info(conn->handshake.reject)->text);
}

static const char *inbound_frame(struct net_conn *conn, const struct frame *frame)
{
    struct net_receiver *receiver = conn->hub->config.self.receiver;
    bool fits = receiver->receive(receiver, conn->handshake.peer_id, frame->type, frame->payload,
                                  frame->len);

    return fits ? NULL : "malformed payload, or one that cannot be true";
}

static void inbound_down(struct net_conn *conn, enum net_conn_state from, const char *reason)
{
    struct net_uv *net = conn->owner;

    ASSERT(net->inbound_open > 0);
    net->inbound_open--;
    if (from == NET_CONN_HANDSHAKE) {
        inbound_log_refused(conn, reason);
    } else if (from == NET_CONN_UP && !net->hub.closing) {
        log_info("net", "peer disconnected", "peer=%" PRIu64 " reason=\"%s\"",
                 conn->handshake.peer_id, reason);
    }
}

static void inbound_freed(struct net_conn *conn)
{
    struct net_uv *net = conn->owner;

    TAILQ_REMOVE(&net->inbound, conn, link);
}

static const struct net_conn_ops inbound_ops = {
    .up = inbound_up,
    .failed = inbound_failed,
    .frame = inbound_frame,
    .down = inbound_down,
    .freed = inbound_freed,
};

/* --- the listener --- */

static void net_inbound_cb(uv_stream_t *listener, int status)
{
    struct net_uv *net = listener->data;
    struct sockaddr_storage address;
    int len = sizeof address;
    struct net_conn *conn;
    int rv;

    if (net->hub.closing) {
        return;
    }
    if (status != 0) {
        if (stranger_log_is_due(net)) {
            log_warn("net", "cannot accept connections", "reason=\"%s\"", uv_strerror(status));
        }
        return;
    }
    conn = net_conn_new(&net->hub, NET_CONN_ACCEPTS, 0, &inbound_ops, net);
    TAILQ_INSERT_TAIL(&net->inbound, conn, link);
    net->inbound_open++;
    rv = uv_accept(listener, (uv_stream_t *)&conn->tcp);
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
        return;
    }
    /* The other end as text, while there is a socket: a refusal is logged once it is closed. */
    if (uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&address, &len) == 0) {
        (void)uv_ip_name((const struct sockaddr *)&address, conn->remote, sizeof conn->remote);
    }
    net_conn_begin(conn);
    /* Keep the bound: close the oldest one without a proof; the newest is among them. */
    if (net->inbound_open <= LIMIT_PEER_CONNECTIONS) {
        return;
    }
    TAILQ_FOREACH (conn, &net->inbound, link) {
        if (conn->state != NET_CONN_UP && conn->state != NET_CONN_CLOSING) {
            net_conn_close(conn, "too many connections");
            break;
        }
    }
    ASSERT(net->inbound_open <= LIMIT_PEER_CONNECTIONS);
}

/* --- the functions of struct net --- */

static size_t net_unsent_bytes(const struct net_conn *conn)
{
    const uv_stream_t *stream = (const uv_stream_t *)&conn->tcp;
    size_t bytes = conn->out.queue_bytes;

    if (conn->out.writing) { /* the socket has taken a part of what is written */
        bytes -= conn->out.sending_bytes;
        bytes += uv_stream_get_write_queue_size(stream);
    }
    return bytes;
}

static int net_send(struct net *base, uint64_t to, enum frame_type type, struct buf *payload,
                    struct entry_block *tail)
{
    const struct net_link *link = net_uv_link(CONTAINER(base, struct net_uv, base), to);
    const size_t len = payload->len + (tail != NULL ? tail->len : 0);
    int rv = 0;

    ASSERT(!frame_is_handshake(type) && type != FRAME_PING);
    if (len > FRAME_PAYLOAD_BYTES_MAX) {
        rv = ERR_TOO_LARGE;
    } else if (link == NULL) {
        rv = ERR_NOT_FOUND;
    } else if (!net_link_is_up(link)) {
        rv = ERR_IO;
    } else if (net_unsent_bytes(link->conn) + FRAME_HEADER_BYTES + len > LIMIT_PEER_QUEUE_BYTES) {
        rv = ERR_OVERLOADED;
    }
    if (rv != 0) {
        buf_free(payload);
        return rv;
    }
    net_out_frame(&link->conn->out, type, payload, tail);
    if (type == FRAME_CONFIRM || type == FRAME_CONFIRM_ACK) { /* it needs no disk, no state */
        net_out_flush(&link->conn->out); /* this may end the link; its frames are then lost */
    }
    return 0;
}

static bool net_has_room(struct net *base, uint64_t peer)
{
    const struct net_link *link = net_uv_link(CONTAINER(base, struct net_uv, base), peer);

    return link == NULL || !net_link_is_up(link) ||
           net_unsent_bytes(link->conn) < LIMIT_APPEND_BYTES;
}

static bool net_connected(struct net *base, uint64_t peer)
{
    const struct net_link *link = net_uv_link(CONTAINER(base, struct net_uv, base), peer);

    return link != NULL && net_link_is_up(link);
}

static void net_set_peers(struct net *base, const struct net_peer *peers, size_t count)
{
    struct net_uv *net = CONTAINER(base, struct net_uv, base);
    struct net_conn *conn;
    struct net_link *link;
    struct net_link *next;

    ASSERT(!net->hub.closing && count <= LIMIT_PEERS);
    for (link = TAILQ_FIRST(&net->links); link != NULL; link = next) {
        next = TAILQ_NEXT(link, link);
        if (net_peer_find(peers, count, link->id) == NULL) {
            net_link_close(link);
        }
    }
    for (size_t i = 0; i < count; i++) {
        link = net_uv_link(net, peers[i].id);
        if (link != NULL && strcmp(link->address, peers[i].address) == 0) {
            continue;
        }
        if (link != NULL) {
            link_detach(link, "its address changed");
        } else { /* a new one, which holds the hub */
            ASSERT(peers[i].id > 0 && peers[i].id != net->hub.config.self.node_id);
            link = MUST_HAVE(calloc(1, sizeof *link));
            link->net = net;
            link->id = peers[i].id;
            ASSERT(uv_timer_init(net->hub.loop, &link->redial) == 0);
            link->redial.data = link;
            TAILQ_INSERT_TAIL(&net->links, link, link);
            net->hub.alive_count++;
        }
        memcpy(link->address, peers[i].address, sizeof link->address);
        link->backoff_ms = LIMIT_REDIAL_MIN_MS;
        link_dial(link);
    }
    TAILQ_FOREACH (conn, &net->inbound, link) {
        if (conn->state == NET_CONN_UP && net_uv_link(net, conn->handshake.peer_id) == NULL) {
            net_conn_close(conn, "no longer a peer");
        }
    }
}

static struct net_presence net_presence_of(struct net *base, uint64_t peer, uint64_t store_id,
                                           uint64_t within_ms)
{
    const struct net_uv *net = CONTAINER(base, struct net_uv, base);
    const struct net_link *link = net_uv_link(net, peer);
    const struct net_conn *conn;

    TAILQ_FOREACH (conn, &net->inbound, link) {
        if (conn->state == NET_CONN_UP && conn->handshake.peer_id == peer) {
            break;
        }
    }
    return (struct net_presence){
        .dials = store_id,
        .heard = conn != NULL && uv_now(net->hub.loop) - conn->read_ms <= within_ms
                     ? conn->handshake.peer_store_id
                     : 0,
        .reached = link != NULL && net_link_is_up(link) ? link->conn->handshake.peer_store_id : 0};
}

static const struct net_ops net_uv_ops = {
    .send = net_send,
    .has_room = net_has_room,
    .connected = net_connected,
    .set_peers = net_set_peers,
    .presence = net_presence_of,
};

/* --- open and close --- */

static void more_cb(uv_idle_t *more)
{
    (void)more; /* not to wait is enough: net_prepare_cb() does the work */
}

/* Connections that were paused for the rest of the turn. */
static void continue_input(struct net_uv *net)
{
    struct net_conn *conn;
    struct net_link *link;

    TAILQ_FOREACH (conn, &net->inbound, link) {
        net_conn_continue(conn);
    }
    TAILQ_FOREACH (link, &net->links, link) {
        if (link->conn != NULL) {
            net_conn_continue(link->conn);
        }
    }
}

static void net_prepare_cb(uv_prepare_t *prepare)
{
    struct net_uv *net = prepare->data;
    struct net_link *link;
    bool more = false;

    TAILQ_FOREACH (link, &net->links, link) {
        if (net_link_is_up(link)) {
            net_out_flush(&link->conn->out);
        }
        more = more || (net_link_is_up(link) && net_out_waits(&link->conn->out));
    }
    if (more) {
        ASSERT(uv_idle_start(&net->more, more_cb) == 0);
    } else {
        (void)uv_idle_stop(&net->more);
    }
    if (net->hub.input_bytes >= NET_INPUT_TURN_BYTES) {
        continue_input(net);
    }
    net->hub.input_bytes = 0;
}

static void all_gone(struct net_hub *hub)
{
    struct net_uv *net = CONTAINER(hub, struct net_uv, hub);
    void (*cb)(void *data) = net->close_cb;
    void *data = net->close_data;

    ASSERT(TAILQ_EMPTY(&net->inbound) && TAILQ_EMPTY(&net->links));
    free(net);
    cb(data);
}

int net_uv_open(uv_loop_t *loop, const struct net_uv_config *config, struct net_uv **ret_net)
{
    struct sockaddr_storage address;
    struct net_uv *net;
    int fd;
    int rv;

    ASSERT(config->self.node_id > 0 && config->self.node_id <= LIMIT_NODE_ID);
    /* Open the socket before any handle: only a running loop can close a handle. */
    rv = address_resolve(config->listen_address, &address);
    if (rv == 0) {
        rv = address_listen(&address, BACKLOG, false, &fd);
    }
    if (rv != 0) {
        return rv;
    }
    net = MUST_HAVE(calloc(1, sizeof *net));
    net->base.ops = &net_uv_ops;
    net_hub_init(&net->hub, loop, config);
    net->hub.all_gone = all_gone;
    net->port = address_port(&address);
    TAILQ_INIT(&net->links);
    TAILQ_INIT(&net->inbound);
    ASSERT(uv_tcp_init(loop, &net->listener) == 0);
    ASSERT(uv_tcp_open(&net->listener, fd) == 0);
    net->listener.data = net;
    ASSERT(uv_listen((uv_stream_t *)&net->listener, BACKLOG, net_inbound_cb) == 0);
    ASSERT(uv_prepare_init(loop, &net->prepare) == 0);
    ASSERT(uv_prepare_start(&net->prepare, net_prepare_cb) == 0);
    net->prepare.data = net;
    ASSERT(uv_idle_init(loop, &net->more) == 0);
    net->hub.alive_count += 3; /* the listener, and these two */
    *ret_net = net;
    return 0;
}

static void handle_close_cb(uv_handle_t *handle)
{
    net_hub_release(handle->data);
}

void net_uv_close(struct net_uv *net, void (*cb)(void *data), void *data)
{
    struct net_conn *conn;

    ASSERT(!net->hub.closing);
    net->hub.closing = true;
    net->close_cb = cb;
    net->close_data = data;
    while (!TAILQ_EMPTY(&net->links)) {
        net_link_close(TAILQ_FIRST(&net->links));
    }
    TAILQ_FOREACH (conn, &net->inbound, link) {
        net_conn_close(conn, "shutting down");
    }
    net->listener.data = &net->hub;
    net->prepare.data = &net->hub;
    net->more.data = &net->hub;
    uv_close((uv_handle_t *)&net->listener, handle_close_cb);
    uv_close((uv_handle_t *)&net->prepare, handle_close_cb);
    uv_close((uv_handle_t *)&net->more, handle_close_cb);
}

/* --- queries and settings --- */

struct net *net_uv_net(struct net_uv *net)
{
    return &net->base;
}

uint16_t net_uv_port(const struct net_uv *net)
{
    return net->port;
}

bool net_uv_set_keys(struct net_uv *net, struct net_keys *keys, unsigned *ret_renewed)
{
    struct net_keys *had = net->hub.config.keys;
    bool same = had->credential_count == keys->credential_count;
    struct net_conn *conn;
    struct net_link *link;
    unsigned count = 0;

    for (unsigned i = 0; same && i < had->credential_count; i++) {
        same =
            memcmp(had->credentials[i].id, keys->credentials[i].id, NET_CREDENTIAL_ID_BYTES) == 0 &&
            !had->credentials[i].certificate;
    }
    net->hub.config.keys = keys;
    TAILQ_FOREACH (link, &net->links, link) {
        link->offer = 0;
        count += link->conn != NULL &&
                 net_conn_keys_changed(link->conn, (count + 1) * LIMIT_REKEY_STEP_MS);
    }
    TAILQ_FOREACH (conn, &net->inbound, link) {
        count += net_conn_keys_changed(conn, LIMIT_REKEY_OUT_MS);
    }
    net_keys_unref(had);
    *ret_renewed = count;
    return !same;
}
