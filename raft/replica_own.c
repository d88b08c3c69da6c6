/*
 * replica_own.c - what a replica tells the cluster by itself: its address, version and store id;
 * the digest that all nodes compare their state with.
 *
 * The happy path: replica_own_turn() looks what is due and proposes it, one command of a kind at a
 * time. Failure modes: a command that fails is due again after a pause.
 *
 * Thread: the raft loop.
 */
#include <string.h>

#include "raft/replica_internal.h"

#define REGISTER_AGAIN_MS 1000
#define OWN_REQUEST_MS 5000

static void info_done(struct id_request *request)
{
    struct replica *replica = request->data;

    replica->info_in_flight = false;
    replica->info_next_ms = clock_now_ms(replica->clock) + REGISTER_AGAIN_MS;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

static bool info_is_registered(const struct replica *replica)
{
    const struct node_info *own = &replica->config.info;
    struct node_info known;

    return own->node_id == 0 ||
           (fsm_node(replica->fsm, own->node_id, &known) && known.store_id == own->store_id &&
            strcmp(known.http_address, own->http_address) == 0 &&
            strcmp(known.version, own->version) == 0);
}

static void own_command(struct replica *replica, struct id_request *request,
                        void (*done)(struct id_request *request))
{
    struct buf payload = request->payload;

    memset(request, 0, sizeof *request);
    request->payload = payload;
    request->kind = ID_REQUEST_COMMAND;
    request->deadline_ms = clock_now_ms(replica->clock) + OWN_REQUEST_MS;
    request->done = done;
    request->data = replica;
    replica_submit(replica, request);
}

/* Tell the cluster this node's HTTP address, version and store id, once a leader is known. */
static void maybe_register(struct replica *replica)
{
    if (replica->info_in_flight || driver_leader(&replica->driver) == 0 ||
        clock_now_ms(replica->clock) < replica->info_next_ms || info_is_registered(replica)) {
        return;
    }
    replica->info_in_flight = true;
    command_node_info_encode(&replica->info_request.payload, &replica->config.info);
    own_command(replica, &replica->info_request, info_done);
}

static void digest_done(struct id_request *request)
{
    struct replica *replica = request->data;

    replica->digest_in_flight = false;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

/* The leader has every node compare its state at an equal index. */
static void maybe_compare_digests(struct replica *replica)
{
    uint64_t now = clock_now_ms(replica->clock);

    if (replica->config.digest_ms == 0 || replica->digest_in_flight ||
        now < replica->digest_next_ms || !driver_leads(&replica->driver)) {
        return;
    }
    replica->digest_in_flight = true;
    replica->digest_next_ms = now + replica->config.digest_ms;
    command_digest_encode(&replica->digest_request.payload, replica->driver.applied.index,
                          fsm_digest(replica->fsm));
    own_command(replica, &replica->digest_request, digest_done);
}

void replica_own_turn(struct replica *replica)
{
    maybe_register(replica);
    maybe_compare_digests(replica);
}
