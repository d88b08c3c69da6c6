/*
 * net_inbound.c - see net_inbound.h. Thread: the raft loop.
 */
#include "raft/transport/net_inbound.h"

#include <inttypes.h>
#include <stdio.h>

#include "src/base/assert.h"
#include "src/base/log.h"

#define STRANGER_LOG_MS 1000

void net_inbound_init(struct net_inbound *inbound, struct net_hub *hub,
                      const struct net_links *links)
{
    *inbound = (struct net_inbound){.hub = hub, .links = links};
    TAILQ_INIT(&inbound->conns);
}

/* --- what is logged --- */

static bool stranger_log_is_due(struct net_inbound *inbound)
{
    const uint64_t now_ms = uv_now(inbound->hub->loop);

    if (inbound->stranger_logged && now_ms - inbound->stranger_ms < STRANGER_LOG_MS) {
        inbound->stranger_skipped++;
        return false;
    }
    inbound->stranger_logged = true;
    inbound->stranger_ms = now_ms;
    return true;
}

/* The other end as text, while there is a socket: who is refused is told of once it is closed. */
static void note_remote(struct net_conn *conn)
{
    struct sockaddr_storage address;
    int len = sizeof address;

    if (uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&address, &len) == 0) {
        (void)uv_ip_name((const struct sockaddr *)&address, conn->remote, sizeof conn->remote);
    }
}

static void log_refused(const struct net_conn *conn, const char *reason)
{
    struct net_inbound *inbound = conn->owner;
    if (!inbound->hub->closing && stranger_log_is_due(inbound)) {
        log_warn("net", "inbound connection refused",
                 "remote=%s claims_to_be=%" PRIu64 " reason=\"%s\" not_logged_before_this=%u",
                 conn->remote[0] != '\0' ? conn->remote : "unknown", conn->handshake.peer_id,
                 reason, inbound->stranger_skipped);
        inbound->stranger_skipped = 0;
    }
}

/* --- what a connection says --- */

static void conn_up(struct net_conn *conn)
{
    const uint64_t peer_id = conn->handshake.peer_id;
    struct net_inbound *inbound = conn->owner;
    struct net_link *link = net_links_find(inbound->links, peer_id);
    struct net_conn *other;

    TAILQ_FOREACH (other, &inbound->conns, link) {
        if (other != conn && other->state == NET_CONN_UP && other->handshake.peer_id == peer_id) {
            net_conn_close(other, "replaced by a newer connection");
        }
    }
    log_info("net", "peer connected", "peer=%" PRIu64, peer_id);
    if (link != NULL) {
        net_link_hurry(link);
    }
}

static void conn_failed(struct net_conn *conn)
{
    log_refused(conn, handshake_reject_text(conn->handshake.reject));
    net_conn_reject(conn);
}

static const char *conn_frame(struct net_conn *conn, const struct frame *frame)
{
    struct net_receiver *receiver = conn->hub->receiver;
    bool fits = receiver->receive(receiver, conn->handshake.peer_id, frame->type, frame->payload,
                                  frame->len);

    return fits ? NULL : "malformed payload, or one that cannot be true";
}

static void conn_down(struct net_conn *conn, enum net_conn_state from, const char *reason)
{
    struct net_inbound *inbound = conn->owner;

    ASSERT(inbound->open_count > 0);
    inbound->open_count--;
    if (from == NET_CONN_HANDSHAKE) {
        log_refused(conn, reason);
    } else if (from == NET_CONN_UP && !inbound->hub->closing) {
        log_info("net", "peer disconnected", "peer=%" PRIu64 " reason=\"%s\"",
                 conn->handshake.peer_id, reason);
    }
}

static void conn_freed(struct net_conn *conn)
{
    struct net_inbound *inbound = conn->owner;

    TAILQ_REMOVE(&inbound->conns, conn, link);
}

static const struct net_conn_ops conn_ops = {
    .up = conn_up,
    .failed = conn_failed,
    .frame = conn_frame,
    .down = conn_down,
    .freed = conn_freed,
};

/* --- the listener --- */

/* Keep the bound: the oldest that has not proved anything goes; the newest is among them. */
static void make_room(struct net_inbound *inbound)
{
    struct net_conn *conn;

    if (inbound->open_count <= LIMIT_PEER_CONNECTIONS) {
        return;
    }
    TAILQ_FOREACH (conn, &inbound->conns, link) {
        if (conn->state != NET_CONN_UP && conn->state != NET_CONN_CLOSING) {
            net_conn_close(conn, "too many connections");
            break;
        }
    }
    ASSERT(inbound->open_count <= LIMIT_PEER_CONNECTIONS);
}

void net_inbound_cb(uv_stream_t *listener, int status)
{
    struct net_inbound *inbound = listener->data;
    struct net_conn *conn;
    int rv;

    if (inbound->hub->closing) {
        return;
    }
    if (status != 0) {
        if (stranger_log_is_due(inbound)) {
            log_warn("net", "cannot accept connections", "reason=\"%s\"", uv_strerror(status));
        }
        return;
    }
    conn = net_conn_new(inbound->hub, NET_CONN_ACCEPTS, 0, &conn_ops, inbound);
    TAILQ_INSERT_TAIL(&inbound->conns, conn, link);
    inbound->open_count++;
    rv = uv_accept(listener, (uv_stream_t *)&conn->tcp);
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
        return;
    }
    note_remote(conn);
    net_conn_accepted(conn);
    make_room(inbound);
}

uint64_t net_inbound_hears(const struct net_inbound *inbound, uint64_t peer, uint64_t within_ms)
{
    const struct net_conn *conn;

    TAILQ_FOREACH (conn, &inbound->conns, link) {
        if (conn->state == NET_CONN_UP && conn->handshake.peer_id == peer &&
            uv_now(inbound->hub->loop) - conn->read_ms <= within_ms) {
            return conn->handshake.peer_store_id;
        }
    }
    return 0;
}

void net_inbound_forget_strangers(struct net_inbound *inbound)
{
    struct net_conn *conn;

    TAILQ_FOREACH (conn, &inbound->conns, link) {
        if (conn->state == NET_CONN_UP &&
            net_links_find(inbound->links, conn->handshake.peer_id) == NULL) {
            net_conn_close(conn, "no longer a peer");
        }
    }
}

unsigned net_inbound_keys_changed(struct net_inbound *inbound, uint32_t wait_ms)
{
    unsigned count = 0;
    struct net_conn *conn;

    TAILQ_FOREACH (conn, &inbound->conns, link) {
        count += net_conn_keys_changed(conn, wait_ms) ? 1 : 0;
    }
    return count;
}

void net_inbound_close(struct net_inbound *inbound, const char *reason)
{
    struct net_conn *conn;

    TAILQ_FOREACH (conn, &inbound->conns, link) {
        net_conn_close(conn, reason);
    }
}
