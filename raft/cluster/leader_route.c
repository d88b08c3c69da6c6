/*
 * leader_route.c - see leader_route.h. Thread: the raft loop.
 */
#include "raft/cluster/leader_route.h"

#include "src/base/assert.h"
#include "src/base/container.h"

#define PATIENCE_HEARTBEATS 2 /* without an answer, before a route is probed or given up */
#define IDLE_HEARTBEATS 5     /* between probes when nothing waits for them */
#define PAUSE_MS 10           /* between two searches at least */

static uint64_t heartbeats_ms(const struct leader_route *route, unsigned count)
{
    return count * (uint64_t)route->on->driver->config.heartbeat_ms;
}

/* This node leads, or no longer looks for a leader. */
static bool needs_none(const struct leader_route *route)
{
    return route->on->stopping || route->leader == route->on->node_id;
}

/* --- probes --- */

static int send_probe(struct leader_route *route, uint64_t to, uint8_t kind, uint64_t origin,
                      uint64_t round)
{
    return context_send_probe(route->on, to, FRAME_PROBE,
                              &(struct wire_probe){kind, origin, round});
}

/* Ask the leader whether it leads, or this member whether it reaches the leader. */
static void leader_route_ask(struct leader_route *route, uint64_t peer)
{
    (void)send_probe(route, peer, peer == route->leader ? WIRE_PROBE_ASK : WIRE_PROBE_ASK_ON, 0,
                     ++route->round);
}

/* --- changes of the route --- */

/* Wake the parts whose requests now go elsewhere or nowhere, and those that show whether there is a
 * leader. */
static void route_changed(const struct leader_route *route)
{
    context_wake(route->on, WAKE_REQUESTS | WAKE_ANNOUNCE | WAKE_SERVICE);
}

static void go_direct(struct leader_route *route)
{
    ASSERT(route->leader != 0);
    route_changed(route);
    route->state = ROUTE_DIRECT;
    route->forwarder = 0;
    route->heard_ms = context_now_ms(route->on);
    route->asked_ms = 0;
    route->first_round = route->round + 1; /* earlier probes may be answered with an old no */
}

static void seek(struct leader_route *route)
{
    ASSERT(route->state != ROUTE_SOUGHT);
    route_changed(route);
    route->state = ROUTE_SOUGHT;
    route->forwarder = 0;
    route->asked_ms = 0;
    route->first_round = route->round + 1;
    route->sought_ms = context_now_ms(route->on);
    route->changes++;
}

/* --- turns --- */

/* When the oldest request, if it was sent to `peer`, has waited too long without any other
 * answer. */
static uint64_t overdue_ms(const struct leader_route *route, uint64_t peer)
{
    const struct cluster_request *oldest = TAILQ_FIRST(route->sent);

    if (oldest == NULL || oldest->sent_to != peer) {
        return TIMER_NEVER;
    }
    return (oldest->sent_ms > route->heard_ms ? oldest->sent_ms : route->heard_ms) +
           heartbeats_ms(route, PATIENCE_HEARTBEATS);
}

/* When all are asked next: soon, if requests wait. */
static uint64_t search_due_ms(const struct leader_route *route)
{
    bool wanted = !TAILQ_EMPTY(route->waiting) || !TAILQ_EMPTY(route->sent);
    uint64_t next_ms = route->searched_ms + heartbeats_ms(route, wanted ? 1 : IDLE_HEARTBEATS);

    if (route->round < route->first_round) { /* the first time of this search */
        next_ms = route->searched_ms + PAUSE_MS;
    }
    return next_ms > route->sought_ms ? next_ms : route->sought_ms;
}

/* When the member is next asked whether it still reaches the leader, or is given up. */
static uint64_t forwarder_due_ms(const struct leader_route *route)
{
    uint64_t idle_ms = route->heard_ms + heartbeats_ms(route, IDLE_HEARTBEATS);
    uint64_t overdue = overdue_ms(route, route->forwarder);

    if (route->asked_ms != 0) {
        return route->asked_ms + heartbeats_ms(route, PATIENCE_HEARTBEATS);
    }
    return overdue < idle_ms ? overdue : idle_ms;
}

/* And when the leader is asked directly. */
static uint64_t direct_due_ms(const struct leader_route *route)
{
    return route->leader != 0 ? route->direct_ms + heartbeats_ms(route, IDLE_HEARTBEATS)
                              : TIMER_NEVER;
}

void leader_route_turn(struct leader_route *route)
{
    uint64_t now_ms = context_now_ms(route->on);

    if (needs_none(route)) {
        return;
    }
    if (route->state == ROUTE_DIRECT) {
        if (route->leader == 0) {
            seek(route);
        } else if (now_ms < overdue_ms(route, route->leader)) {
            route->asked_ms = 0;
            if (!TAILQ_EMPTY(route->waiting) && !context_reaches(route->on, route->leader)) {
                seek(route);
            }
        } else if (route->asked_ms == 0) {
            route->asked_ms = now_ms;
            leader_route_ask(route, route->leader);
        } else if (now_ms - route->asked_ms >= heartbeats_ms(route, 1)) {
            seek(route);
        }
    } else if (route->state == ROUTE_FORWARDED) {
        ASSERT(route->forwarder != 0 && route->forwarder != route->leader);
        if (!context_reaches(route->on, route->forwarder) ||
            (route->asked_ms != 0 && now_ms >= forwarder_due_ms(route))) {
            seek(route);
        } else if (now_ms >= forwarder_due_ms(route)) {
            route->asked_ms = now_ms;
            leader_route_ask(route, route->forwarder);
        }
        if (route->state == ROUTE_FORWARDED && now_ms >= direct_due_ms(route)) {
            route->direct_ms = now_ms;
            leader_route_ask(route, route->leader);
        }
    }
    if (route->state == ROUTE_SOUGHT && now_ms >= search_due_ms(route)) {
        route->searched_ms = now_ms;
        for (size_t i = 0; i < route->peers->count; i++) {
            leader_route_ask(route, route->peers->items[i].id);
        }
    }
}

void leader_route_arm(struct leader_route *route)
{
    uint64_t next_ms = TIMER_NEVER;
    uint64_t direct_ms;

    ASSERT((route->state == ROUTE_FORWARDED) == (route->forwarder != 0));
    if (needs_none(route)) {
        next_ms = TIMER_NEVER;
    } else if (route->state == ROUTE_DIRECT) {
        next_ms = route->asked_ms != 0 ? route->asked_ms + heartbeats_ms(route, 1)
                                       : overdue_ms(route, route->leader);
    } else if (route->state == ROUTE_SOUGHT) {
        next_ms = search_due_ms(route);
    } else {
        next_ms = forwarder_due_ms(route);
        direct_ms = direct_due_ms(route);
        next_ms = direct_ms < next_ms ? direct_ms : next_ms;
    }
    context_arm_at(route->on, &route->turn, next_ms);
}

uint64_t leader_route_target(const struct leader_route *route)
{
    return route->state == ROUTE_DIRECT ? route->leader : route->forwarder;
}

bool leader_route_is_known(const struct leader_route *route)
{
    return route->leader != 0 || route->state == ROUTE_FORWARDED;
}

/* --- answers and frames --- */

void leader_route_role_changed(struct leader_route *route)
{
    uint64_t leader = driver_leader(route->on->driver);

    if (leader == route->leader) {
        return;
    }
    route->leader = leader;
    if (leader != 0) {
        go_direct(route);
    } else if (route->state == ROUTE_DIRECT) {
        seek(route);
    }
}

void leader_route_on_answer(struct leader_route *route, uint64_t from, int status)
{
    if (from != leader_route_target(route)) {
        return;
    }
    if (status == ERR_NOT_LEADER) { /* regardless of the core's state */
        seek(route);
        return;
    }
    route->heard_ms = context_now_ms(route->on);
    route->asked_ms = 0;
}

bool leader_route_receive(struct leader_route *route, uint64_t from, const uint8_t *payload,
                          size_t len)
{
    bool leads = driver_is_leader(route->on->driver);
    uint64_t leader = route->leader;
    struct wire_probe probe;
    bool yes;

    if (wire_probe_decode(payload, len, &probe) != 0) {
        return false;
    }
    yes = probe.kind == WIRE_PROBE_YES;
    if (probe.kind == WIRE_PROBE_ASK_ON && !leads) {
        if (leader == 0 || leader == from ||
            send_probe(route, leader, WIRE_PROBE_ASK, from, probe.round) != 0) {
            (void)send_probe(route, from, WIRE_PROBE_NO, 0, probe.round);
        }
    } else if (probe.kind == WIRE_PROBE_ASK || probe.kind == WIRE_PROBE_ASK_ON) {
        (void)send_probe(route, from, leads ? WIRE_PROBE_YES : WIRE_PROBE_NO, probe.origin,
                         probe.round);
    } else if (probe.origin != 0 && from == leader) {
        (void)send_probe(route, probe.origin, probe.kind, 0, probe.round);
    } else if (probe.origin == 0 && !needs_none(route) && probe.round >= route->first_round &&
               probe.round <= route->round) {
        /* An answer to a probe of this node. */
        if (from == leader && yes) {
            go_direct(route);
        } else if (route->state == ROUTE_SOUGHT && yes) {
            ASSERT(from != leader);
            route_changed(route);
            route->state = ROUTE_FORWARDED;
            route->forwarder = from;
            route->heard_ms = context_now_ms(route->on);
            route->asked_ms = 0;
            route->direct_ms = route->heard_ms;
            route->changes++;
        } else {
            leader_route_on_answer(route, from, yes ? 0 : ERR_NOT_LEADER);
        }
    }
    return true;
}
