/*
 * net_hub.c - see net_hub.h. Thread: the raft loop.
 */
#include "raft/transport/net_hub.h"

#include "src/base/assert.h"

static uint32_t or_default(uint32_t value, uint32_t standard)
{
    return value != 0 ? value : standard;
}

void net_hub_init(struct net_hub *hub, uv_loop_t *loop, const struct net_uv_config *config,
                  struct net_receiver *receiver)
{
    *hub = (struct net_hub){.loop = loop, .config = *config, .receiver = receiver};
    hub->config.connect_ms = or_default(config->connect_ms, LIMIT_CONNECT_MS);
    hub->config.handshake_ms = or_default(config->handshake_ms, LIMIT_HANDSHAKE_MS);
    hub->config.idle_ms = or_default(config->idle_ms, LIMIT_PEER_IDLE_MS);
    hub->config.stall_ms = or_default(config->stall_ms, LIMIT_PEER_STALL_MS);
    hub->config.silent_ms = or_default(config->silent_ms, LIMIT_PEER_SILENT_MS);
    hub->handshake = (struct handshake_config){.node_id = config->node_id,
                                               .store_id = config->store_id,
                                               .cluster_id = config->cluster_id,
                                               .receiver = receiver};
    net_hub_set_keys(hub, net_keys_ref(config->keys));
    prng_seed(&hub->prng, prng_entropy());
}

void net_hub_set_keys(struct net_hub *hub, struct net_keys *keys)
{
    net_keys_unref(hub->keys);
    hub->keys = keys;
}

void net_hub_hold(struct net_hub *hub)
{
    hub->alive_count++;
}

void net_hub_release(struct net_hub *hub)
{
    ASSERT(hub->alive_count > 0);
    hub->alive_count--;
    if (hub->alive_count == 0 && hub->all_gone != NULL) {
        ASSERT(hub->closing);
        net_keys_unref(hub->keys);
        hub->keys = NULL;
        hub->all_gone(hub);
    }
}
