/*
 * way.c - see way.h. Thread: the raft loop.
 */
#include "raft/cluster/way.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"

#define PATIENCE_HEARTBEATS 2 /* without an answer, before a way is doubted or given up */
#define IDLE_HEARTBEATS 5     /* between probes when nothing waits for them */
#define PAUSE_MS 10           /* between two searches at least */

void way_init(struct way *way, const struct ground *on)
{
    *way = (struct way){.on = on, .turn.wakes = WAKE_REQUESTS};
}

static uint64_t heartbeats_ms(const struct way *way, unsigned count)
{
    return count * (uint64_t)way->on->driver->config.heartbeat_ms;
}

/* This node finds its leader in itself, or looks for none any more. */
static bool needs_none(const struct way *way)
{
    return way->on->stopping || way->leader == way->on->node_id;
}

/* --- probes --- */

static int send_probe(struct way *way, uint64_t to, uint8_t kind, uint64_t origin, uint64_t round)
{
    return ground_send_probe(way->on, to, FRAME_PROBE, &(struct wire_probe){kind, origin, round});
}

/* Is the leader there; or is the way through this member? */
static void way_ask(struct way *way, uint64_t peer)
{
    (void)send_probe(way, peer, peer == way->leader ? WIRE_PROBE_ASK : WIRE_PROBE_ASK_ON, 0,
                     ++way->round);
}

void way_set_peers(struct way *way, const struct net_peer *peers, size_t count)
{
    ASSERT(count <= LIMIT_PEERS);
    for (size_t i = 0; i < count; i++) {
        way->peers[i] = peers[i].id;
    }
    way->peer_count = count;
}

/* --- changes of the way --- */

/* Requests go elsewhere, or nowhere; and who has to know whether there is a leader. */
static void way_changed(const struct way *way)
{
    ground_wake(way->on, WAKE_REQUESTS | WAKE_ANNOUNCE | WAKE_SERVICE);
}

static void go_direct(struct way *way)
{
    ASSERT(way->leader != 0);
    way_changed(way);
    way->state = WAY_DIRECT;
    way->relay = 0;
    way->heard_ms = ground_now_ms(way->on);
    way->asked_ms = 0;
    way->first_round = way->round + 1; /* what was asked before may be answered with an old no */
}

static void go_through(struct way *way, uint64_t relay)
{
    ASSERT(way->state == WAY_SOUGHT && relay != way->leader);
    way_changed(way);
    way->state = WAY_RELAYED;
    way->relay = relay;
    way->heard_ms = ground_now_ms(way->on);
    way->asked_ms = 0;
    way->direct_ms = way->heard_ms;
    way->changes++;
}

static void seek(struct way *way)
{
    ASSERT(way->state != WAY_SOUGHT);
    way_changed(way);
    way->state = WAY_SOUGHT;
    way->relay = 0;
    way->asked_ms = 0;
    way->first_round = way->round + 1;
    way->sought_ms = ground_now_ms(way->on);
    way->changes++;
}

/* --- turns --- */

/* When the oldest request, if it went to this node, has waited for too long without any other
 * answer. */
static uint64_t overdue_ms(const struct way *way, const struct way_load *load, uint64_t peer)
{
    uint64_t since_ms = load->oldest_ms > way->heard_ms ? load->oldest_ms : way->heard_ms;

    return load->oldest_to == peer ? since_ms + heartbeats_ms(way, PATIENCE_HEARTBEATS)
                                   : TIMER_NEVER;
}

static void turn_direct(struct way *way, const struct way_load *load, uint64_t now_ms)
{
    if (way->leader == 0) {
        seek(way);
    } else if (now_ms >= overdue_ms(way, load, way->leader)) {
        if (way->asked_ms == 0) {
            way->asked_ms = now_ms;
            way_ask(way, way->leader);
        } else if (now_ms - way->asked_ms >= heartbeats_ms(way, 1)) {
            seek(way);
        }
    } else if (load->waiting && !ground_reaches(way->on, way->leader)) {
        seek(way);
    } else {
        way->asked_ms = 0;
    }
}

/* When everybody is asked next: soon, if something waits for it. */
static uint64_t search_due_ms(const struct way *way, const struct way_load *load)
{
    bool wanted = load->waiting || load->oldest_to != 0;
    uint64_t next_ms = way->searched_ms + heartbeats_ms(way, wanted ? 1 : IDLE_HEARTBEATS);

    if (way->searched_ms < way->sought_ms) { /* the first time of this search */
        next_ms = way->searched_ms + PAUSE_MS;
    }
    return next_ms > way->sought_ms ? next_ms : way->sought_ms;
}

/* When the member is asked next whether it still reaches the leader. */
static uint64_t relay_due_ms(const struct way *way, const struct way_load *load)
{
    uint64_t idle_ms = way->heard_ms + heartbeats_ms(way, IDLE_HEARTBEATS);
    uint64_t overdue = overdue_ms(way, load, way->relay);

    return overdue < idle_ms ? overdue : idle_ms;
}

static uint64_t direct_due_ms(const struct way *way)
{
    return way->leader != 0 ? way->direct_ms + heartbeats_ms(way, IDLE_HEARTBEATS) : TIMER_NEVER;
}

static void turn_relayed(struct way *way, const struct way_load *load, uint64_t now_ms)
{
    ASSERT(way->relay != 0 && way->relay != way->leader);
    if (!ground_reaches(way->on, way->relay) ||
        (way->asked_ms != 0 && now_ms - way->asked_ms >= heartbeats_ms(way, PATIENCE_HEARTBEATS))) {
        seek(way);
        return;
    }
    if (way->asked_ms == 0 && now_ms >= relay_due_ms(way, load)) {
        way->asked_ms = now_ms;
        way_ask(way, way->relay);
    }
    if (now_ms >= direct_due_ms(way)) {
        way->direct_ms = now_ms;
        way_ask(way, way->leader);
    }
}

static uint64_t next_ms(const struct way *way, const struct way_load *load)
{
    uint64_t relay_ms;
    uint64_t direct_ms;

    if (needs_none(way)) {
        return TIMER_NEVER;
    }
    switch (way->state) {
    case WAY_DIRECT:
        return way->asked_ms != 0 ? way->asked_ms + heartbeats_ms(way, 1)
                                  : overdue_ms(way, load, way->leader);
    case WAY_SOUGHT:
        return search_due_ms(way, load);
    case WAY_RELAYED:
        relay_ms = way->asked_ms != 0 ? way->asked_ms + heartbeats_ms(way, PATIENCE_HEARTBEATS)
                                      : relay_due_ms(way, load);
        direct_ms = direct_due_ms(way);
        return relay_ms < direct_ms ? relay_ms : direct_ms;
    default:
        UNREACHABLE("state of a way");
    }
}

void way_turn(struct way *way, const struct way_load *load)
{
    uint64_t now_ms = ground_now_ms(way->on);

    if (!needs_none(way) && way->state == WAY_DIRECT) {
        turn_direct(way, load, now_ms);
    }
    if (!needs_none(way) && way->state == WAY_RELAYED) {
        turn_relayed(way, load, now_ms);
    }
    if (!needs_none(way) && way->state == WAY_SOUGHT && now_ms >= search_due_ms(way, load)) {
        way->searched_ms = now_ms;
        for (size_t i = 0; i < way->peer_count; i++) {
            way_ask(way, way->peers[i]);
        }
    }
}

void way_arm(struct way *way, const struct way_load *load)
{
    ASSERT((way->state == WAY_RELAYED) == (way->relay != 0));
    ground_arm_at(way->on, &way->turn, next_ms(way, load));
}

uint64_t way_target(const struct way *way)
{
    return way->state == WAY_DIRECT ? way->leader : way->relay;
}

bool way_is_known(const struct way *way)
{
    return way->leader != 0 || way->state == WAY_RELAYED;
}

/* --- what is heard --- */

void way_role_changed(struct way *way)
{
    uint64_t leader = driver_leader(way->on->driver);

    if (leader == way->leader) {
        return;
    }
    way->leader = leader;
    if (leader != 0) {
        go_direct(way);
    } else if (way->state == WAY_DIRECT) {
        seek(way);
    }
}

void way_heard(struct way *way, uint64_t from, int status)
{
    if (from != way_target(way)) {
        return;
    }
    if (status == ERR_NOT_LEADER) { /* whatever the core thinks */
        seek(way);
        return;
    }
    way->heard_ms = ground_now_ms(way->on);
    way->asked_ms = 0;
}

/* An answer to a probe of this node. */
static void answered(struct way *way, uint64_t from, uint64_t round, bool yes)
{
    if (needs_none(way) || round < way->first_round || round > way->round) {
        return;
    }
    if (from == way->leader && yes) {
        go_direct(way);
    } else if (way->state == WAY_SOUGHT && yes) {
        go_through(way, from);
    } else {
        way_heard(way, from, yes ? 0 : ERR_NOT_LEADER);
    }
}

/* Do you know who leads? Ask it for me. */
static void ask_on(struct way *way, uint64_t origin, uint64_t round)
{
    uint64_t leader = way->leader;

    if (leader == 0 || leader == origin ||
        send_probe(way, leader, WIRE_PROBE_ASK, origin, round) != 0) {
        (void)send_probe(way, origin, WIRE_PROBE_NO, 0, round);
    }
}

bool way_receive(struct way *way, uint64_t from, const uint8_t *payload, size_t len)
{
    bool leads = driver_is_leader(way->on->driver) && !way->on->stopping;
    struct wire_probe probe;

    if (wire_probe_decode(payload, len, &probe) != 0) {
        return false;
    }
    if (probe.kind == WIRE_PROBE_ASK_ON && !leads) {
        ask_on(way, from, probe.round);
    } else if (probe.kind == WIRE_PROBE_ASK || probe.kind == WIRE_PROBE_ASK_ON) {
        (void)send_probe(way, from, leads ? WIRE_PROBE_YES : WIRE_PROBE_NO, probe.origin,
                         probe.round);
    } else if (probe.origin != 0 && from == way->leader) {
        (void)send_probe(way, probe.origin, probe.kind, 0, probe.round);
    } else if (probe.origin == 0) {
        answered(way, from, probe.round, probe.kind == WIRE_PROBE_YES);
    }
    return true;
}

void way_link_up(struct way *way)
{
    way->searched_ms = 0;
}

/* --- numbers of requests on the wire --- */

#define PLACES (2 * NUMBERS_MAX)

static struct numbered *numbers_place_of(const struct numbers *numbers, uint64_t number)
{
    return &numbers->places[number % PLACES];
}

void numbers_init(struct numbers *numbers, uint64_t seed, uint64_t mark)
{
    ASSERT(mark == 0 || mark == NUMBERS_MARK);
    *numbers = (struct numbers){.places = MUST_HAVE(calloc(PLACES, sizeof *numbers->places)),
                                .last = mark | seed >> 16};
}

void numbers_free(struct numbers *numbers)
{
    ASSERT(numbers->count == 0);
    free(numbers->places);
    numbers->places = NULL;
}

uint64_t numbers_give(struct numbers *numbers, void *item)
{
    ASSERT(item != NULL && numbers->count < NUMBERS_MAX);
    do {
        numbers->last++;
    } while (numbers_place_of(numbers, numbers->last)->item != NULL);
    *numbers_place_of(numbers, numbers->last) = (struct numbered){numbers->last, item};
    numbers->count++;
    return numbers->last;
}

void *numbers_find(const struct numbers *numbers, uint64_t number)
{
    const struct numbered *place = numbers_place_of(numbers, number);

    return place->number == number ? place->item : NULL;
}

void numbers_end(struct numbers *numbers, uint64_t number)
{
    ASSERT(numbers_find(numbers, number) != NULL && numbers->count > 0);
    numbers_place_of(numbers, number)->item = NULL;
    numbers->count--;
}

/* --- what is passed on for another node --- */

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

static void relay_deadline_cb(struct timer *timer, uint64_t now_ms)
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
    timer_init(&relayed->deadline, relay_deadline_cb);
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
