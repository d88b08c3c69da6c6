/*
 * net_inbound.h - accepted connections: what peers send to us.
 *
 * The happy path: accept, handshake (net_conn.h), close an older connection of the same peer,
 * then each frame to the receiver.
 *
 * Failure modes: too many connections: the oldest that has not proved the secret is closed, so that
 * idle strangers cannot keep peers out; a payload that the receiver refuses closes the connection;
 * failed handshakes are logged at most once a second with the number of those left out.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_INBOUND_H
#define LEAFD_RAFT_TRANSPORT_NET_INBOUND_H

#include "raft/transport/net_link.h"

struct net_inbound {
    struct net_hub *hub;
    const struct net_links *links; /* whose peers may stay */
    struct net_conn_list conns;    /* until they are freed, oldest first */
    unsigned open_count;           /* of these, not closing */
    bool stranger_logged;          /* a failed handshake, at stranger_ms */
    uint64_t stranger_ms;
    unsigned stranger_skipped; /* since then */
};

void net_inbound_init(struct net_inbound *inbound, struct net_hub *hub,
                      const struct net_links *links);

/* The listener's callback; its handle's data is the inbound side. */
void net_inbound_cb(uv_stream_t *listener, int status);

/* The store of the peer whose connection is up, if anything has come on it in so long; else 0. */
uint64_t net_inbound_hears(const struct net_inbound *inbound, uint64_t peer, uint64_t within_ms);

/* Close the connections of peers that are ours no more. */
void net_inbound_forget_strangers(struct net_inbound *inbound);

/* The keys of the hub are others now: connections by a way that is good no more close in `wait_ms`,
 * unless their peers have come again by then. How many. */
unsigned net_inbound_keys_changed(struct net_inbound *inbound, uint32_t wait_ms);

/* Close them all. */
void net_inbound_close(struct net_inbound *inbound, const char *reason);

#endif
