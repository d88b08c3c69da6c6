/*
 * net_link.h - keeps one outgoing link to each peer: resolve, connect, and dial again.
 *
 * The happy path: net_links_add() dials at once; a literal address connects without asking anybody,
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
 * Ways (net_keys.h): each link begins with the first; a peer that does not take it is offered the
 * next one at once.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_LINK_H
#define LEAFD_RAFT_TRANSPORT_NET_LINK_H

#include "raft/transport/net_conn.h"

struct net_links;

struct net_link {
    TAILQ_ENTRY(net_link) link; /* in its links */
    struct net_links *links;
    uint64_t id;
    char address[LIMIT_ADDRESS_BYTES + 1];
    struct net_conn *conn; /* the present one, or NULL while waiting to redial */
    uv_timer_t redial;
    uint32_t backoff_ms;
    uint64_t lost_ms;              /* when it last dialled soon, because the link had been up, */
    uint64_t dialled_ms;           /* and because the peer had dialled */
    unsigned offer;                /* which way of the keys the next dial offers */
    unsigned turn;                 /* which of a name's addresses the next dial takes */
    char reason[NET_REASON_BYTES]; /* last one logged; empty after a good handshake */
};

TAILQ_HEAD(net_link_list, net_link);

struct net_links {
    struct net_hub *hub;
    struct net_link_list list;
};

void net_links_init(struct net_links *links, struct net_hub *hub);

/* NULL: no such peer. */
struct net_link *net_links_find(const struct net_links *links, uint64_t id);

/* Keep a link to a peer: dials now. It holds the hub. */
void net_links_add(struct net_links *links, const struct net_peer *peer);

/* Another address: what was dialled is closed, and the new one dialled now. */
void net_link_set_address(struct net_link *link, const char *address);

/* The keys of the hub are others now: a link by a way that is good no more closes in `wait_ms`, and
 * is dialled again. True if so. */
bool net_link_keys_changed(struct net_link *link, uint32_t wait_ms);

void net_link_close(struct net_link *link);

bool net_link_is_up(const struct net_link *link);

/* The peer has shown that it lives: if the next dial is far away, dial soon. */
void net_link_hurry(struct net_link *link);

#endif
