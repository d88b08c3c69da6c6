/*
 * net_uv_inbound.c - accepted connections: what peers send to us.
 *
 * The happy path: accept, handshake (net_uv_conn.c), close an older connection of the same peer,
 * then each frame to the receiver.
 *
 * Failure modes: too many connections: the oldest that has not proved the secret is closed, so that
 * idle strangers cannot keep peers out; a payload that the receiver refuses closes the connection;
 * failed handshakes are logged at most once a second with the number of those left out.
 *
 * Thread: the raft loop.
 */
#include "raft/transport/net_uv_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/limits.h"
#include "src/base/log.h"

#define STRANGER_LOG_MS 1000
#define REMOTE_BYTES 64

static void make_room(struct net_uv *net);
static bool stranger_log_is_due(struct net_uv *net);

void net_inbound_cb(uv_stream_t *listener, int status)
{
    struct net_uv *net = listener->data;
    struct net_conn *conn;
    int rv;

    if (net->closing) {
        return;
    }
    if (status != 0) {
        if (stranger_log_is_due(net)) {
            log_warn("net", "cannot accept connections", "reason=\"%s\"", uv_strerror(status));
        }
        return;
    }
    conn = net_conn_new(net, false, NULL);
    rv = uv_accept(listener, (uv_stream_t *)&conn->tcp);
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
        return;
    }
    net_conn_start(conn);
    make_room(net);
}

void net_inbound_up(struct net_conn *conn)
{
    const uint64_t peer_id = conn->handshake.peer_id;
    struct net_link *link;
    struct net_conn *other;

    ASSERT(conn->state == NET_CONN_UP && !conn->dialled);
    TAILQ_FOREACH (other, &conn->net->conns, link) {
        if (other != conn && !other->dialled && other->state == NET_CONN_UP &&
            other->handshake.peer_id == peer_id) {
            net_conn_close(other, "replaced by a newer connection");
        }
    }
    log_info("net", "peer connected", "peer=%" PRIu64, peer_id);
    link = net_link_find(conn->net, peer_id);
    if (link != NULL) {
        net_link_hurry(link);
    }
}

void net_inbound_frame(struct net_conn *conn, const struct frame *frame)
{
    struct net_receiver *receiver = conn->net->receiver;

    ASSERT(conn->state == NET_CONN_UP && !conn->dialled);
    ASSERT(!frame_is_handshake(frame->type));
    if (frame->type == FRAME_PING) {
        return;
    }
    if (!receiver->receive(receiver, conn->handshake.peer_id, frame->type, frame->payload,
                           frame->len)) {
        net_conn_close(conn, "malformed payload, or one that cannot be true");
    }
}

/* The other end as text, or "unknown". */
static const char *remote_name(const struct net_conn *conn, char name[REMOTE_BYTES])
{
    struct sockaddr_storage address;
    int len = sizeof address;

    (void)snprintf(name, REMOTE_BYTES, "unknown");
    if (uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&address, &len) == 0) {
        (void)uv_ip_name((const struct sockaddr *)&address, name, REMOTE_BYTES);
    }
    return name;
}

void net_inbound_down(const struct net_conn *conn, const char *reason)
{
    struct net_uv *net = conn->net;
    char remote[REMOTE_BYTES];

    if (net->closing) {
        return;
    }
    if (conn->state == NET_CONN_UP) {
        log_info("net", "peer disconnected", "peer=%" PRIu64 " reason=\"%s\"",
                 conn->handshake.peer_id, reason);
        return;
    }
    if (stranger_log_is_due(net)) {
        log_warn("net", "inbound connection refused",
                 "remote=%s claims_to_be=%" PRIu64 " reason=\"%s\" not_logged_before_this=%u",
                 remote_name(conn, remote), conn->handshake.peer_id, reason, net->stranger_skipped);
        net->stranger_skipped = 0;
    }
}

void net_inbound_forget_strangers(struct net_uv *net)
{
    struct net_conn *conn;

    TAILQ_FOREACH (conn, &net->conns, link) {
        if (!conn->dialled && conn->state == NET_CONN_UP &&
            net_link_find(net, conn->handshake.peer_id) == NULL) {
            net_conn_close(conn, "no longer a peer");
        }
    }
}

/* Keep the bound: the oldest that has not proved anything goes; the newest is among them. */
static void make_room(struct net_uv *net)
{
    struct net_conn *conn;

    if (net->accepted_count <= LIMIT_PEER_CONNECTIONS) {
        return;
    }
    TAILQ_FOREACH (conn, &net->conns, link) {
        if (!conn->dialled && conn->state != NET_CONN_UP && conn->state != NET_CONN_CLOSING) {
            net_conn_close(conn, "too many connections");
            break;
        }
    }
    ASSERT(net->accepted_count <= LIMIT_PEER_CONNECTIONS);
}

static bool stranger_log_is_due(struct net_uv *net)
{
    const uint64_t now_ms = uv_now(net->loop);

    if (net->stranger_logged && now_ms - net->stranger_ms < STRANGER_LOG_MS) {
        net->stranger_skipped++;
        return false;
    }
    net->stranger_logged = true;
    net->stranger_ms = now_ms;
    return true;
}
