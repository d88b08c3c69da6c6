/*
 * net_hub.h - what the connections of one node have in common: the loop, the settings, whom they
 * serve, and how many things are still alive.
 *
 * The happy path: whatever has handles on the loop holds the hub from its making to its end; a
 * close waits until the last one has let go, and then `all_gone` is called, once.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_HUB_H
#define LEAFD_RAFT_TRANSPORT_NET_HUB_H

#include <uv.h>

#include "raft/transport/handshake.h"
#include "raft/transport/net.h"
#include "raft/transport/net_keys.h"
#include "src/base/prng.h"

struct net_uv_config {
    uint64_t node_id;
    uint64_t store_id;
    const char *cluster_id;     /* borrowed until close */
    struct net_keys *keys;      /* by which nodes know each other; a reference is taken */
    const char *listen_address; /* "host:port" to bind; port 0 picks one (tests) */
    /* 0: the limit of limits.h; tests set shorter ones */
    uint32_t connect_ms;
    uint32_t handshake_ms;
    uint32_t idle_ms;
    uint32_t stall_ms;
    uint32_t silent_ms;
};

struct net_hub {
    uv_loop_t *loop;
    struct net_receiver *receiver; /* NULL: there are no links */
    struct net_uv_config config;   /* times filled in */
    struct net_keys *keys;         /* those in force; connections hold the ones they began with */
    struct handshake_config handshake;
    struct prng prng;
    bool closing;         /* nothing new begins, and the receiver is called no more */
    unsigned alive_count; /* things that hold the hub */
    void (*all_gone)(struct net_hub *hub); /* may be NULL */
    uint8_t input[64 * 1024]; /* of the read under way; connections keep only parts of frames */
    uint8_t plain[64 * 1024]; /* what TLS made of it */
};

/* Times that are 0 become the limits. The caller fills in the rest: receiver, all_gone, and of the
 * handshake `known`. */
void net_hub_init(struct net_hub *hub, uv_loop_t *loop, const struct net_uv_config *config,
                  struct net_receiver *receiver);

/* Other keys from now on; the reference is taken over. */
void net_hub_set_keys(struct net_hub *hub, struct net_keys *keys);

void net_hub_hold(struct net_hub *hub);

/* The last one calls all_gone, which may free the hub. */
void net_hub_release(struct net_hub *hub);

#endif
