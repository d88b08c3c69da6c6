/*
 * requests_relay.c - requests of other members that this node passes on to the leader, since they
 * do not reach it themselves (requests_way.c).
 *
 * The happy path: a FRAME_RELAY comes; it goes on to the leader as a FRAME_REQUEST that names its
 * origin, under a number of this node's own; the leader's FRAME_REPLY goes back to the origin under
 * the origin's number. A FRAME_REQUEST is never passed on, so there is one hop and no loop.
 *
 * Failure modes: no leader is known, or it changes, or its link breaks: the origin gets
 * ERR_NOT_LEADER at once and looks for another way. Too many, or too many bytes: ERR_OVERLOADED.
 * The origin's time, or two election timeouts, are over: forgotten; the origin sends it anew after
 * one. No payload is kept.
 *
 * Thread: the raft loop.
 */
#include <stdlib.h>

#include "raft/cluster/requests_internal.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"

static void forget(struct requests *requests, struct relayed *relayed)
{
    struct relay *relay = &requests->relay;

    ASSERT(relay->count > 0 && relay->bytes >= relayed->bytes);
    TAILQ_REMOVE(&relay->list, relayed, link);
    relay->count--;
    relay->bytes -= relayed->bytes;
    free(relayed);
}

static int pass_on(struct requests *requests, uint64_t leader, const struct wire_request *wire)
{
    struct buf payload = BUF_INIT;
    int rv;

    wire_request_encode(wire, &payload);
    rv = requests->net->ops->send(requests->net, leader, FRAME_REQUEST, &payload);
    buf_free(&payload);
    return rv;
}

static void remember(struct requests *requests, const struct relayed *from)
{
    struct relayed *relayed = malloc(sizeof *relayed);

    ASSERT(relayed != NULL);
    *relayed = *from;
    TAILQ_INSERT_TAIL(&requests->relay.list, relayed, link);
    requests->relay.count++;
    requests->relay.bytes += from->bytes;
    requests_wait_for_scan(requests);
}

/* 0, or why it does not go on. */
static int relay(struct requests *requests, uint64_t from, const struct wire_request *wire)
{
    uint64_t most_ms = 2 * (uint64_t)requests->driver->config.election_ms;
    uint64_t left_ms = wire->time_left_ms < most_ms ? wire->time_left_ms : most_ms;
    struct relayed relayed = {.id = REQUESTS_RELAYED_ID | ++requests->next_id,
                              .leader = driver_leader(requests->driver),
                              .origin = from,
                              .origin_id = wire->id,
                              .deadline_ms = clock_now_ms(requests->clock) + left_ms,
                              .bytes = wire->payload_len};
    struct wire_request on = *wire;

    if (requests->stopping || relayed.leader == 0 || relayed.leader == from) {
        return ERR_NOT_LEADER;
    }
    if (requests->relay.count >= LIMIT_RELAYED ||
        requests->relay.bytes + wire->payload_len > LIMIT_RELAYED_BYTES) {
        return ERR_OVERLOADED;
    }
    on.id = relayed.id;
    on.origin = from;
    if (pass_on(requests, relayed.leader, &on) != 0) {
        return ERR_NOT_LEADER;
    }
    remember(requests, &relayed);
    return 0;
}

bool requests_receive_relay(struct requests *requests, uint64_t from, const uint8_t *payload,
                            size_t len)
{
    struct wire_request wire;
    int rv;

    if (wire_request_decode(payload, len, &wire) != 0 || wire.origin != 0) {
        return false;
    }
    if (driver_is_leader(requests->driver)) {
        requests_serve(requests, from, &wire);
        return true;
    }
    rv = relay(requests, from, &wire);
    if (rv != 0) {
        requests_refuse(requests, from, wire.id, rv);
    }
    return true;
}

void requests_relay_reply(struct requests *requests, uint64_t from, struct wire_reply *reply)
{
    struct relayed *relayed;

    TAILQ_FOREACH (relayed, &requests->relay.list, link) {
        if (relayed->id == reply->id && relayed->leader == from) {
            reply->id = relayed->origin_id;
            requests_send_reply(requests, relayed->origin, reply);
            forget(requests, relayed);
            return;
        }
    }
}

/* Give back what went to another node than this one. */
void requests_relay_role_changed(struct requests *requests)
{
    uint64_t leader = requests->stopping ? 0 : driver_leader(requests->driver);
    struct relayed *relayed;
    struct relayed *next;

    for (relayed = TAILQ_FIRST(&requests->relay.list); relayed != NULL; relayed = next) {
        next = TAILQ_NEXT(relayed, link);
        if (relayed->leader != leader) {
            requests_refuse(requests, relayed->origin, relayed->origin_id, ERR_NOT_LEADER);
            forget(requests, relayed);
        }
    }
}

void requests_relay_link_down(struct requests *requests, uint64_t peer)
{
    struct relayed *relayed;
    struct relayed *next;

    for (relayed = TAILQ_FIRST(&requests->relay.list); relayed != NULL; relayed = next) {
        next = TAILQ_NEXT(relayed, link);
        if (relayed->leader == peer) {
            requests_refuse(requests, relayed->origin, relayed->origin_id, ERR_NOT_LEADER);
        }
        if (relayed->leader == peer || relayed->origin == peer) {
            forget(requests, relayed);
        }
    }
}

void requests_relay_expire(struct requests *requests, uint64_t now)
{
    struct relayed *relayed;
    struct relayed *next;

    for (relayed = TAILQ_FIRST(&requests->relay.list); relayed != NULL; relayed = next) {
        next = TAILQ_NEXT(relayed, link);
        if (relayed->deadline_ms <= now) {
            forget(requests, relayed);
        }
    }
}
