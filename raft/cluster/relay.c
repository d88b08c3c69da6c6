/*
 * relay.c - see relay.h. Thread: the raft loop.
 */
#include "raft/cluster/relay.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"

_Static_assert(LIMIT_RELAYED <= NUMBERS_MAX, "each has a number");

void relay_init(struct relay *relay, const struct ground *on, uint64_t seed)
{
    *relay = (struct relay){.on = on};
    TAILQ_INIT(&relay->list);
    numbers_init(&relay->numbers, seed, NUMBERS_MARK);
}

void relay_close(struct relay *relay)
{
    ASSERT(relay->count == 0 && relay->bytes == 0);
    numbers_free(&relay->numbers);
}

static void forget(struct relayed *relayed)
{
    struct relay *relay = relayed->owner;

    ASSERT(relay->count > 0 && relay->bytes >= relayed->bytes);
    TAILQ_REMOVE(&relay->list, relayed, link);
    relay->count--;
    relay->bytes -= relayed->bytes;
    numbers_end(&relay->numbers, relayed->id);
    timer_cancel(relay->on->timers, &relayed->deadline);
    free(relayed);
}

static void on_deadline(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    forget(CONTAINER(timer, struct relayed, deadline));
}

static struct relayed *remember(struct relay *relay, uint64_t from, const struct wire_request *wire)
{
    uint64_t most_ms = 2 * (uint64_t)relay->on->driver->config.election_ms;
    uint64_t left_ms = wire->time_left_ms < most_ms ? wire->time_left_ms : most_ms;
    struct relayed *relayed = MUST_HAVE(malloc(sizeof *relayed));

    ASSERT(!relay->on->stopping);
    *relayed = (struct relayed){.owner = relay,
                                .id = numbers_give(&relay->numbers, relayed),
                                .leader = driver_leader(relay->on->driver),
                                .origin = from,
                                .origin_id = wire->id,
                                .bytes = wire->payload_len};
    timer_init(&relayed->deadline, on_deadline);
    ground_arm_in(relay->on, &relayed->deadline, left_ms);
    TAILQ_INSERT_TAIL(&relay->list, relayed, link);
    relay->count++;
    relay->bytes += relayed->bytes;
    return relayed;
}

/* 0, or why it does not go on. */
static int pass_on(struct relay *relay, uint64_t from, const struct wire_request *wire)
{
    uint64_t leader = driver_leader(relay->on->driver);
    struct wire_request on = *wire;
    struct relayed *relayed;

    if (relay->on->stopping || leader == 0 || leader == from) {
        return ERR_NOT_LEADER;
    }
    if (relay->count >= LIMIT_RELAYED || relay->bytes + wire->payload_len > LIMIT_RELAYED_BYTES) {
        return ERR_OVERLOADED;
    }
    relayed = remember(relay, from, wire);
    on.id = relayed->id;
    on.origin = from;
    if (ground_send_request(relay->on, leader, FRAME_REQUEST, &on) != 0) {
        forget(relayed);
        return ERR_NOT_LEADER;
    }
    return 0;
}

void relay_receive(struct relay *relay, uint64_t from, const struct wire_request *wire)
{
    int rv = pass_on(relay, from, wire);

    if (rv != 0) {
        ground_refuse(relay->on, from, wire->id, rv);
    }
}

void relay_reply(struct relay *relay, uint64_t from, struct wire_reply *reply)
{
    struct relayed *relayed = numbers_find(&relay->numbers, reply->id);

    if (relayed != NULL && relayed->leader == from) { /* nobody else was asked */
        reply->id = relayed->origin_id;
        (void)ground_send_reply(relay->on, relayed->origin, FRAME_REPLY, reply);
        forget(relayed);
    }
}

/* Forget what came from this origin, and give back what went to another leader than this one. */
static void sweep(struct relay *relay, uint64_t origin, uint64_t leader)
{
    struct relayed *relayed;
    struct relayed *next;

    for (relayed = TAILQ_FIRST(&relay->list); relayed != NULL; relayed = next) {
        next = TAILQ_NEXT(relayed, link);
        if (relayed->origin == origin) {
            forget(relayed);
        } else if (relayed->leader != leader) {
            ground_refuse(relay->on, relayed->origin, relayed->origin_id, ERR_NOT_LEADER);
            forget(relayed);
        }
    }
}

void relay_role_changed(struct relay *relay)
{
    sweep(relay, 0, relay->on->stopping ? 0 : driver_leader(relay->on->driver));
}

void relay_link_down(struct relay *relay, uint64_t peer)
{
    uint64_t leader = driver_leader(relay->on->driver);

    sweep(relay, peer, leader == peer ? 0 : leader);
}
