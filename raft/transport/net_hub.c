/*
 * net_hub.c - see net_hub.h. Thread: the raft loop.
 */
#include "raft/transport/net_hub.h"

#include "src/base/assert.h"

void net_hub_hold(struct net_hub *hub)
{
    hub->alive_count++;
}

void net_hub_release(struct net_hub *hub)
{
    ASSERT(hub->alive_count > 0);
    hub->alive_count--;
    if (hub->alive_count == 0) {
        ASSERT(hub->closing);
        hub->all_gone(hub);
    }
}
