/*
 * net_uv_link.c - keeps one outgoing link to each peer: resolve, connect, and dial again.
 *
 * The happy path: net_link_new() dials at once; a literal address connects without asking anybody,
 * a name is resolved in libuv's threads at each dial (a container may have moved); the connection
 * runs the handshake and is up.
 *
 * Failure modes: every end of a connection leads to a wait of LIMIT_REDIAL_MIN_MS doubling to
 * LIMIT_REDIAL_MAX_MS, each with jitter, and the next dial; a link that was up for a while starts
 * again with the shortest. Once in LIMIT_REDIAL_SOON_MS the shortest is enough in any case where
 * the peer is likely to be there, or its end should be known soon: the link was up, if only for a
 * moment, or the peer has just dialled this node. (An election waits for voters that have not
 * found the leader's address to refuse.) A name with several addresses is dialled at each in turn.
 *
 * Thread: the raft loop.
 */
#include "raft/transport/net_uv_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/transport/net_uv_address.h"
#include "src/base/assert.h"
#include "src/base/limits.h"
#include "src/base/log.h"

static void dial(struct net_link *link);
static void connect_to(struct net_conn *conn, const struct sockaddr *address);
static bool may_hurry(const struct net_link *link, uint64_t *hurried_ms);
static void redial_within(struct net_link *link, uint32_t ms);
static void detach(struct net_link *link, const char *reason);
static void resolve_cb(uv_getaddrinfo_t *resolve, int status, struct addrinfo *result);
static void connect_cb(uv_connect_t *connect, int status);
static void redial_cb(uv_timer_t *timer);
static void close_cb(uv_handle_t *handle);

void net_link_new(struct net_uv *net, const struct net_peer *peer)
{
    struct net_link *link = calloc(1, sizeof *link);

    ASSERT(link != NULL && peer->id > 0 && peer->id != net->config.node_id);
    link->net = net;
    link->id = peer->id;
    link->backoff_ms = LIMIT_REDIAL_MIN_MS;
    ASSERT(uv_timer_init(net->loop, &link->redial) == 0);
    link->redial.data = link;
    TAILQ_INSERT_TAIL(&net->links, link, link);
    net->live_count++;
    memcpy(link->address, peer->address, sizeof link->address);
    dial(link);
}

void net_link_set_address(struct net_link *link, const char *address)
{
    size_t len = strlen(address);

    if (strcmp(link->address, address) == 0) {
        return;
    }
    ASSERT(len <= LIMIT_ADDRESS_BYTES);
    memcpy(link->address, address, len + 1);
    detach(link, "its address changed");
    link->backoff_ms = LIMIT_REDIAL_MIN_MS;
    dial(link);
}

void net_link_close(struct net_link *link)
{
    detach(link, "no longer a peer");
    TAILQ_REMOVE(&link->net->links, link, link);
    uv_close((uv_handle_t *)&link->redial, close_cb);
}

struct net_link *net_link_find(struct net_uv *net, uint64_t id)
{
    struct net_link *link;

    TAILQ_FOREACH (link, &net->links, link) {
        if (link->id == id) {
            return link;
        }
    }
    return NULL;
}

void net_link_up(struct net_link *link)
{
    struct net_receiver *receiver = link->net->receiver;
    char address[LIMIT_ADDRESS_BYTES * 2];

    link->reason[0] = '\0';
    log_info("net", "link up", "peer=%" PRIu64 " address=%s", link->id,
             log_quote(link->address, strlen(link->address), address, sizeof address));
    receiver->link_changed(receiver, link->id, true);
}

void net_link_down(struct net_link *link, const struct net_conn *conn, const char *reason)
{
    struct net_uv *net = link->net;
    const bool refused =
        conn->handshake.by_peer && handshake_reject_is_final(conn->handshake.reject);
    char address[LIMIT_ADDRESS_BYTES * 2];
    char quoted[NET_REASON_BYTES * 2];

    ASSERT(link->conn == conn);
    link->conn = NULL;
    if (!net->closing && net_link_is_news(link, reason)) {
        log_warn("net", conn->was_up ? "link down" : "no link to peer",
                 "peer=%" PRIu64 " address=%s reason=%s", link->id,
                 log_quote(link->address, strlen(link->address), address, sizeof address),
                 log_quote(reason, strlen(reason), quoted, sizeof quoted));
        (void)snprintf(link->reason, sizeof link->reason, "%s", reason);
    }
    if (conn->was_up && uv_now(net->loop) - conn->up_ms >= LIMIT_REDIAL_MAX_MS) {
        link->backoff_ms = LIMIT_REDIAL_MIN_MS;
    }
    if (refused) {
        link->backoff_ms = LIMIT_REDIAL_MAX_MS;
    }
    redial_within(link, conn->was_up && !refused && may_hurry(link, &link->lost_ms)
                            ? LIMIT_REDIAL_MIN_MS
                            : link->backoff_ms);
    link->backoff_ms *= 2;
    if (link->backoff_ms > LIMIT_REDIAL_MAX_MS) {
        link->backoff_ms = LIMIT_REDIAL_MAX_MS;
    }
}

void net_link_hurry(struct net_link *link)
{
    if (link->conn == NULL && uv_timer_get_due_in(&link->redial) > LIMIT_REDIAL_MIN_MS &&
        may_hurry(link, &link->dialled_ms)) {
        redial_within(link, LIMIT_REDIAL_MIN_MS);
    }
}

/* Not if this reason to hurry was one a moment ago: a link may come and go all the time. */
static bool may_hurry(const struct net_link *link, uint64_t *hurried_ms)
{
    uint64_t now_ms = uv_now(link->net->loop);

    if (now_ms - *hurried_ms < LIMIT_REDIAL_SOON_MS) {
        return false;
    }
    *hurried_ms = now_ms;
    return true;
}

/* Dial after half of the time or more: all who lost the peer at once shall not come at once. */
static void redial_within(struct net_link *link, uint32_t ms)
{
    uint32_t wait_ms = ms / 2;

    wait_ms += (uint32_t)prng_below(&link->net->prng, ms - wait_ms + 1);
    ASSERT(uv_timer_start(&link->redial, redial_cb, wait_ms, 0) == 0);
}

bool net_link_is_news(const struct net_link *link, const char *reason)
{
    return strncmp(link->reason, reason, sizeof link->reason - 1) != 0;
}

/* Let go of the connection and of any wait, without the redial that an end of its own leads to. */
static void detach(struct net_link *link, const char *reason)
{
    if (link->conn != NULL) {
        net_conn_close(link->conn, reason);
    }
    ASSERT(link->conn == NULL);
    (void)uv_timer_stop(&link->redial);
    link->reason[0] = '\0';
}

static void dial(struct net_link *link)
{
    struct net_conn *conn = net_conn_new(link->net, true, link);
    const struct addrinfo hints = net_address_hints();
    struct sockaddr_storage literal;
    struct net_address address;
    int rv;

    ASSERT(link->conn == NULL);
    link->conn = conn;
    if (net_address_parse(link->address, &address) != 0) {
        net_conn_close(conn, "its address is not host:port");
        return;
    }
    if (net_address_literal(&address, &literal)) {
        connect_to(conn, (const struct sockaddr *)&literal);
        return;
    }
    conn->resolve.data = conn;
    rv = uv_getaddrinfo(link->net->loop, &conn->resolve, resolve_cb, address.host,
                        address.port_text, &hints);
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
        return;
    }
    conn->resolving = true;
    net_conn_ref(conn);
}

static void connect_to(struct net_conn *conn, const struct sockaddr *address)
{
    int rv;

    net_conn_move(conn, NET_CONN_CONNECTING);
    conn->connect.data = conn;
    rv = uv_tcp_connect(&conn->connect, &conn->tcp, address, connect_cb);
    if (rv != 0) {
        net_conn_close(conn, uv_strerror(rv));
    }
}

/* The address whose turn it is, so that one that is dead does not hide the others. */
static const struct addrinfo *choose(const struct addrinfo *result, unsigned turn)
{
    const struct addrinfo *address = result;
    unsigned count = 0;

    for (; address != NULL; address = address->ai_next) {
        count++;
    }
    ASSERT(count > 0);
    address = result;
    for (turn %= count; turn > 0; turn--) {
        address = address->ai_next;
    }
    return address;
}

static void resolve_cb(uv_getaddrinfo_t *resolve, int status, struct addrinfo *result)
{
    struct net_conn *conn = resolve->data;

    conn->resolving = false;
    if (conn->state != NET_CONN_CLOSING) {
        if (status != 0 || result == NULL) {
            net_conn_close(conn, status != 0 ? uv_strerror(status) : "the name has no address");
        } else {
            connect_to(conn, choose(result, conn->owner->turn++)->ai_addr);
        }
    }
    uv_freeaddrinfo(result);
    net_conn_unref(conn);
}

static void connect_cb(uv_connect_t *connect, int status)
{
    struct net_conn *conn = connect->data;
    struct net_receiver *receiver = conn->net->receiver;
    uint64_t peer;
    bool refused;

    if (conn->state == NET_CONN_CLOSING) {
        return;
    }
    if (status != 0) {
        refused = status == UV_ECONNREFUSED && conn->owner != NULL;
        peer = refused ? conn->owner->id : 0;
        net_conn_close(conn, uv_strerror(status));
        if (refused) {
            receiver->gone(receiver, peer);
        }
        return;
    }
    net_conn_move(conn, NET_CONN_HANDSHAKE);
    net_conn_start(conn);
}

static void redial_cb(uv_timer_t *timer)
{
    dial(timer->data);
}

static void close_cb(uv_handle_t *handle)
{
    struct net_link *link = handle->data;
    struct net_uv *net = link->net;

    ASSERT(link->conn == NULL);
    free(link);
    net_uv_release(net);
}
