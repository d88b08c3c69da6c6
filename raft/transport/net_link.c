/*
 * net_link.c - see net_link.h. Thread: the raft loop.
 */
#include "raft/transport/net_link.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/log.h"

static void dial(struct net_link *link);

void net_links_init(struct net_links *links, struct net_hub *hub)
{
    links->hub = hub;
    TAILQ_INIT(&links->list);
}

struct net_link *net_links_find(const struct net_links *links, uint64_t id)
{
    struct net_link *link;

    TAILQ_FOREACH (link, &links->list, link) {
        if (link->id == id) {
            return link;
        }
    }
    return NULL;
}

bool net_link_is_up(const struct net_link *link)
{
    return link->conn != NULL && link->conn->state == NET_CONN_UP;
}

/* --- when to dial --- */

static void redial_cb(uv_timer_t *timer)
{
    dial(timer->data);
}

/* Dial after half of the time or more: all who lost the peer at once shall not come at once. */
static void redial_within(struct net_link *link, uint32_t ms)
{
    uint32_t wait_ms = ms / 2;

    wait_ms += (uint32_t)prng_below(&link->links->hub->prng, ms - wait_ms + 1);
    ASSERT(uv_timer_start(&link->redial, redial_cb, wait_ms, 0) == 0);
}

/* Not if this reason to hurry was one a moment ago: a link may come and go all the time. */
static bool may_hurry(const struct net_link *link, uint64_t *hurried_ms)
{
    uint64_t now_ms = uv_now(link->links->hub->loop);

    if (now_ms - *hurried_ms < LIMIT_REDIAL_SOON_MS) {
        return false;
    }
    *hurried_ms = now_ms;
    return true;
}

void net_link_hurry(struct net_link *link)
{
    if (link->conn == NULL && uv_timer_get_due_in(&link->redial) > LIMIT_REDIAL_MIN_MS &&
        may_hurry(link, &link->dialled_ms)) {
        redial_within(link, LIMIT_REDIAL_MIN_MS);
    }
}

/* --- what its connection says --- */

/* True if the last dial ended in another way. */
static bool is_news(const struct net_link *link, const char *reason)
{
    return strncmp(link->reason, reason, sizeof link->reason - 1) != 0;
}

static void conn_up(struct net_conn *conn)
{
    struct net_receiver *receiver = conn->hub->receiver;
    struct net_link *link = conn->owner;
    char address[LIMIT_ADDRESS_BYTES * 2];

    link->reason[0] = '\0';
    log_info("net", "link up", "peer=%" PRIu64 " address=%s", link->id,
             log_quote(link->address, strlen(link->address), address, sizeof address));
    receiver->link_changed(receiver, link->id, true);
}

static void conn_failed(struct net_conn *conn)
{
    struct net_receiver *receiver = conn->hub->receiver;
    const struct handshake *handshake = &conn->handshake;
    const enum handshake_reject reject = handshake->reject;
    const char *text = handshake_reason(handshake);
    char reason[NET_REASON_BYTES];
    bool news;

    (void)snprintf(reason, sizeof reason, "%s: %s",
                   handshake->by_peer ? "rejected by the peer" : "peer rejected", text);
    news = is_news(conn->owner, reason);
    net_conn_close(conn, reason);
    if (news && handshake->by_peer && handshake_reject_is_final(reject)) {
        receiver->refused(receiver, handshake->peer_id, handshake_reject_err(reject), text);
    }
}

static void log_down(const struct net_link *link, const struct net_conn *conn, const char *reason)
{
    char address[LIMIT_ADDRESS_BYTES * 2];
    char quoted[NET_REASON_BYTES * 2];

    log_warn("net", conn->was_up ? "link down" : "no link to peer",
             "peer=%" PRIu64 " address=%s reason=%s", link->id,
             log_quote(link->address, strlen(link->address), address, sizeof address),
             log_quote(reason, strlen(reason), quoted, sizeof quoted));
}

/* What the next dial is to try. True if it is something that this one did not. */
static bool choose_way(struct net_link *link, const struct net_conn *conn, enum net_conn_state from)
{
    const struct net_hub *hub = conn->hub;

    if (conn->was_up || from != NET_CONN_HANDSHAKE) {
        link->offer = conn->was_up ? 0 : link->offer;
        return false;
    }
    if (conn->untrusted) {
        link->offer = (conn->offer + 1) % hub->keys->way_count;
        return link->offer != 0;
    }
    return false;
}

static void conn_down(struct net_conn *conn, enum net_conn_state from, const char *reason)
{
    const bool refused =
        conn->handshake.by_peer && handshake_reject_is_final(conn->handshake.reject);
    struct net_link *link = conn->owner;
    struct net_hub *hub = conn->hub;
    bool another;

    ASSERT(link->conn == conn);
    link->conn = NULL;
    another = choose_way(link, conn, from);
    if (!hub->closing && !another && is_news(link, reason)) {
        log_down(link, conn, reason);
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
}

/* The end of a link that was up is reported here, never inside somebody's call of send(). The link
 * itself may be gone. */
static void conn_freed(struct net_conn *conn)
{
    struct net_receiver *receiver = conn->hub->receiver;

    if (conn->was_up && !conn->hub->closing) {
        receiver->link_changed(receiver, conn->handshake.peer_id, false);
    }
}

static void conn_refused(struct net_conn *conn)
{
    struct net_receiver *receiver = conn->hub->receiver;

    receiver->gone(receiver, conn->wanted_id);
}

static const struct net_conn_ops conn_ops = {
    .up = conn_up,
    .failed = conn_failed,
    .down = conn_down,
    .freed = conn_freed,
    .refused = conn_refused,
};

/* --- a link --- */

static void dial(struct net_link *link)
{
    ASSERT(link->conn == NULL);
    link->conn = net_conn_new(link->links->hub, NET_CONN_DIALS, link->id, &conn_ops, link);
    net_conn_dial(link->conn, link->address, link->turn++, link->offer);
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

void net_links_add(struct net_links *links, const struct net_peer *peer)
{
    struct net_link *link = MUST_HAVE(calloc(1, sizeof *link));

    ASSERT(peer->id > 0 && peer->id != links->hub->config.node_id);
    link->links = links;
    link->id = peer->id;
    link->backoff_ms = LIMIT_REDIAL_MIN_MS;
    ASSERT(uv_timer_init(links->hub->loop, &link->redial) == 0);
    link->redial.data = link;
    TAILQ_INSERT_TAIL(&links->list, link, link);
    net_hub_hold(links->hub);
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

bool net_link_keys_changed(struct net_link *link, uint32_t wait_ms)
{
    link->offer = 0;
    return link->conn != NULL && net_conn_keys_changed(link->conn, wait_ms);
}

static void close_cb(uv_handle_t *handle)
{
    struct net_link *link = handle->data;
    struct net_hub *hub = link->links->hub;

    ASSERT(link->conn == NULL);
    free(link);
    net_hub_release(hub);
}

void net_link_close(struct net_link *link)
{
    detach(link, "no longer a peer");
    TAILQ_REMOVE(&link->links->list, link, link);
    uv_close((uv_handle_t *)&link->redial, close_cb);
}
