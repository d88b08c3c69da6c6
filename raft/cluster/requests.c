/*
 * requests.c - see requests.h: this node's requests (numbers, routing, deadlines), those that it
 * passes on, and the dispatch of their frames.
 *
 *   where a request is        link                 sent_to   work
 *   waiting                   requests->waiting    0         NULL
 *   sent to another node      requests->sent       that      NULL
 *   served here               none                 0         the work
 *
 * Thread: the raft loop.
 */
#include "raft/cluster/requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/state/codec/cluster_command.h"

#define SEND_AGAIN_MS 10 /* also the pause after "not leader" */

/* --- numbers of requests on the wire --- */

#define PLACES (2 * NUMBERS_MAX)

static struct numbered *numbers_place_of(const struct numbers *numbers, uint64_t number)
{
    return &numbers->places[number % PLACES];
}

void numbers_init(struct numbers *numbers, uint64_t seed)
{
    *numbers = (struct numbers){.places = MUST_HAVE(calloc(PLACES, sizeof *numbers->places)),
                                .last = seed >> 16};
}

void numbers_free(struct numbers *numbers)
{
    ASSERT(numbers->count == 0);
    free(numbers->places);
    numbers->places = NULL;
}

uint64_t numbers_give(struct numbers *numbers, void *item, uint64_t mark)
{
    uint64_t number;

    ASSERT(item != NULL && numbers->count < NUMBERS_MAX && (mark == 0 || mark == NUMBERS_MARK));
    do {
        number = mark | ++numbers->last;
    } while (numbers_place_of(numbers, number)->item != NULL);
    *numbers_place_of(numbers, number) = (struct numbered){number, item};
    numbers->count++;
    return number;
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

/* --- this node's session --- */

/* A request that is done no longer needs its number, if it has one. */
static void requests_release(struct requests *requests, struct cluster_request *request,
                             bool answered)
{
    bool applied = answered && request->kind == CLUSTER_REQUEST_COMMAND;

    if (request->seq != 0) {
        session_end(&requests->session, request->seq, applied ? request->lowest : 0,
                    request->reply.len, request == &requests->tidying.request,
                    context_now_ms(requests->on));
        request->seq = 0;
        request->lowest = 0;
        /* There is room for another, and more to tidy up. */
        context_wake(requests->on, WAKE_REQUESTS);
    }
}

/* --- where a request is --- */

static void put_waiting(struct requests *requests, struct cluster_request *request)
{
    ASSERT(request->work == NULL);
    context_wake(requests->on, WAKE_REQUESTS);
    request->sent_to = 0;
    TAILQ_INSERT_HEAD(&requests->waiting, request, link); /* it is older than those that wait */
}

static void leave_list(struct requests *requests, struct cluster_request *request)
{
    ASSERT(request->work == NULL && request->holder == requests);
    TAILQ_REMOVE(request->sent_to != 0 ? &requests->sent : &requests->waiting, request, link);
}

/* The request is over, and on no list. */
static void complete(struct requests *requests, struct cluster_request *request, int status)
{
    ASSERT(requests->count > 0 && request->work == NULL);
    requests->count--;
    numbers_end(&requests->numbers, request->id);
    timer_cancel(requests->on->timers, &request->deadline);
    if (request->seq != 0 && request->keeps_seq) {
        request->lowest = 0; /* stamped anew if it is sent again */
    } else {
        requests_release(requests, request, status == 0);
    }
    answers_put(requests->on->answers, request, status);
}

static void complete_with(struct requests *requests, struct cluster_request *request, int status,
                          const void *reply, size_t len)
{
    struct session_refusal refusal;

    request->reply.len = 0;
    if (status != 0 || request->kind != CLUSTER_REQUEST_COMMAND ||
        !session_refusal_decode(reply, len, &refusal)) {
        buf_put(&request->reply, reply, len);
        complete(requests, request, status);
        return;
    }
    /* The cluster's refusal in place of the command's own result. A stamped command may be another
     * node's. */
    if (refusal.status == ERR_STALE && !request->stamped &&
        refusal.incarnation > requests->session.incarnation) {
        requests->superseded = refusal.incarnation;
        context_wake(requests->on, WAKE_SELF);
    }
    complete(requests, request,
             refusal.status == ERR_REMOVED
                 ? ERR_SHUTTING_DOWN                     /* this node was superseded: it will end */
             : refusal.status == ERR_STALE ? ERR_TIMEOUT /* unknown whether it was carried out */
                                           : refusal.status);
}

static void on_answered(struct serving_owner *owner, struct cluster_request *request, int status,
                        uint64_t index, const void *reply, size_t len)
{
    struct requests *requests = CONTAINER(owner, struct requests, serving_owner);

    ASSERT(status <= 0);
    request->index = index;
    complete_with(requests, request, status, reply, len);
    /* At once: what the entry granted has left the applied row, and a look at the row before the
     * service has it would find too little. */
    if (request->once) {
        TAILQ_REMOVE(&requests->on->answers->list, request, link);
        request->done(request);
    }
}

static void on_given_back(struct serving_owner *owner, struct cluster_request *request)
{
    struct requests *requests = CONTAINER(owner, struct requests, serving_owner);

    if (request->once) {
        complete(requests, request, ERR_NOT_LEADER);
    } else {
        put_waiting(requests, request);
    }
}

/* In whatever state it is. */
static void requests_give_up(struct requests *requests, struct cluster_request *request, int status)
{
    if (request->work != NULL) {
        serving_abandon(request->work);
    } else {
        leave_list(requests, request);
    }
    complete(requests, request, status);
}

static void requests_deadline_cb(struct timer *timer, uint64_t now_ms)
{
    struct cluster_request *request = CONTAINER(timer, struct cluster_request, deadline);
    struct requests *requests = request->holder;

    ASSERT(request->deadline_ms <= now_ms);
    requests_give_up(requests, request,
                     leader_route_is_known(&requests->route) ? ERR_TIMEOUT : ERR_NO_LEADER);
}

void requests_withdraw(struct requests *requests, struct cluster_request *request)
{
    if (numbers_find(&requests->numbers, request->id) == request) {
        requests_give_up(requests, request, ERR_NOT_LEADER);
    }
}

/* Take a request of kind COMMAND, QUERY, LEADER or MEMBER. */
static void requests_take(struct requests *requests, struct cluster_request *request)
{
    int refused = requests->on->stopping                      ? ERR_SHUTTING_DOWN
                  : requests->count >= LIMIT_REQUESTS_PENDING ? ERR_OVERLOADED
                  : request->payload.len > LIMIT_ENTRY_BYTES  ? ERR_TOO_LARGE
                                                              : 0;

    ASSERT(request->kind == CLUSTER_REQUEST_COMMAND || request->kind == CLUSTER_REQUEST_QUERY ||
           request->kind == CLUSTER_REQUEST_MEMBER || request->kind == CLUSTER_REQUEST_LEADER);
    ASSERT(request->done != NULL);
    if (refused != 0) {
        requests_release(requests, request, false);
        answers_put(requests->on->answers, request, refused);
        return;
    }
    requests->count++;
    request->id = numbers_give(&requests->numbers, request, 0);
    request->sent_to = 0;
    request->work = NULL;
    request->holder = requests;
    TAILQ_INSERT_TAIL(&requests->waiting, request, link);
    timer_init(&request->deadline, requests_deadline_cb);
    timer_arm(requests->on->timers, &request->deadline, request->deadline_ms);
    context_wake(requests->on, WAKE_REQUESTS);
}

/* --- back to waiting --- */

/* Route requests again that were sent by this time: to one node (0: to any), but not to that other.
 * From the end, so that the oldest comes first again. */
static void take_back(struct requests *requests, uint64_t to, uint64_t but, uint64_t until_ms)
{
    struct cluster_request *request = TAILQ_LAST(&requests->sent, cluster_request_list);

    while (request != NULL) {
        struct cluster_request *older = TAILQ_PREV(request, cluster_request_list, link);

        if ((to == 0 || request->sent_to == to) && request->sent_to != but &&
            request->sent_ms <= until_ms) {
            leave_list(requests, request);
            put_waiting(requests, request);
        }
        request = older;
    }
}

/* The frame or its reply was lost, or the leader is gone. */
static void on_silent(struct timer *timer, uint64_t now_ms)
{
    struct requests *requests = CONTAINER(timer, struct requests, silent);
    uint32_t election_ms = requests->on->driver->config.election_ms;

    if (now_ms >= election_ms) {
        take_back(requests, 0, 0, now_ms - election_ms);
    }
    if (!TAILQ_EMPTY(&requests->sent)) {
        timer_arm(requests->on->timers, timer, TAILQ_FIRST(&requests->sent)->sent_ms + election_ms);
    }
}

/* Take back requests sent by another route than the current one. While a route is sought, requests
 * to the leader may still be answered. */
static void follow_route(struct requests *requests)
{
    const struct leader_route *route = &requests->route;

    requests->route_seen = route->changes;
    take_back(requests, 0, route->state == ROUTE_FORWARDED ? route->forwarder : route->leader,
              UINT64_MAX);
}

/* --- requests passed on for another node --- */

static void forget(struct forwarded *forwarded)
{
    struct requests *requests = forwarded->owner;

    ASSERT(requests->forwarder.count > 0 && requests->forwarder.bytes >= forwarded->bytes);
    TAILQ_REMOVE(&requests->forwarder.list, forwarded, link);
    requests->forwarder.count--;
    requests->forwarder.bytes -= forwarded->bytes;
    numbers_end(&requests->numbers, forwarded->id);
    timer_cancel(requests->on->timers, &forwarded->deadline);
    free(forwarded);
}

static void forwarder_deadline_cb(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    forget(CONTAINER(timer, struct forwarded, deadline));
}

/* Pass on what a member sent; this node does not lead. 0, or why it is not passed on. */
static int pass_on(struct requests *requests, uint64_t from, const struct wire_request *wire)
{
    const struct raft_context *on = requests->on;
    uint64_t most_ms = 2 * (uint64_t)on->driver->config.election_ms;
    uint64_t left_ms = wire->time_left_ms < most_ms ? wire->time_left_ms : most_ms;
    uint64_t leader = driver_leader(on->driver);
    struct wire_request passed = *wire;
    struct forwarded *forwarded;

    if (leader == 0 || leader == from) {
        return ERR_NOT_LEADER;
    }
    if (requests->forwarder.count >= LIMIT_FORWARDED ||
        requests->forwarder.bytes + wire->payload_len > LIMIT_FORWARDED_BYTES) {
        return ERR_OVERLOADED;
    }
    forwarded = MUST_HAVE(malloc(sizeof *forwarded));
    *forwarded = (struct forwarded){.owner = requests,
                                    .id = numbers_give(&requests->numbers, forwarded, NUMBERS_MARK),
                                    .leader = leader,
                                    .origin = from,
                                    .origin_id = wire->id,
                                    .bytes = wire->payload_len};
    timer_init(&forwarded->deadline, forwarder_deadline_cb);
    context_arm_in(on, &forwarded->deadline, left_ms);
    TAILQ_INSERT_TAIL(&requests->forwarder.list, forwarded, link);
    requests->forwarder.count++;
    requests->forwarder.bytes += forwarded->bytes;
    passed.id = forwarded->id;
    passed.origin = from;
    if (context_send_request(on, leader, FRAME_REQUEST, &passed) != 0) {
        forget(forwarded);
        return ERR_NOT_LEADER;
    }
    return 0;
}

/* Forget what came from this origin (0: no node), and give back what was sent to another leader
 * than this one. */
static void sweep(struct requests *requests, uint64_t origin, uint64_t leader)
{
    struct forwarded *forwarded;
    struct forwarded *next;

    for (forwarded = TAILQ_FIRST(&requests->forwarder.list); forwarded != NULL; forwarded = next) {
        next = TAILQ_NEXT(forwarded, link);
        if (forwarded->origin == origin) {
            forget(forwarded);
        } else if (forwarded->leader != leader) {
            context_refuse(requests->on, forwarded->origin, forwarded->origin_id, ERR_NOT_LEADER);
            forget(forwarded);
        }
    }
}

/* --- events --- */

void requests_role_changed(struct requests *requests)
{
    struct cluster_request *request;
    struct cluster_request *next;

    timer_cancel(requests->on->timers, &requests->send_pause);
    leader_route_role_changed(&requests->route);
    serving_reset(&requests->serving);
    for (request = TAILQ_FIRST(&requests->waiting); request != NULL; request = next) {
        next = TAILQ_NEXT(request, link);
        if (request->once) { /* of the leadership that has ended */
            leave_list(requests, request);
            complete(requests, request, ERR_NOT_LEADER);
        }
    }
    sweep(requests, 0, requests->on->stopping ? 0 : driver_leader(requests->on->driver));
    follow_route(requests);
}

void requests_link_changed(struct requests *requests, uint64_t peer, bool up)
{
    uint64_t leader = driver_leader(requests->on->driver);
    struct peer_row *row = context_peer(requests->on, peer);

    timer_cancel(requests->on->timers, &requests->send_pause);
    if (row != NULL) {
        row->applied = 0; /* the peer's last report may be of an earlier incarnation */
    }
    if (up) {
        requests->route.searched_ms = 0; /* a search for a route asks at once */
        return;
    }
    sweep(requests, peer, leader == peer ? 0 : leader);
    take_back(requests, peer, 0, UINT64_MAX);
}

/* --- routing --- */

static bool forward(struct requests *requests, struct cluster_request *request, uint64_t target)
{
    enum frame_type type = requests->route.state == ROUTE_FORWARDED ? FRAME_FORWARD : FRAME_REQUEST;
    uint64_t now = context_now_ms(requests->on);
    uint64_t left = request->deadline_ms > now ? request->deadline_ms - now : 0;
    struct wire_request wire = {.id = request->id,
                                .kind = (uint8_t)request->kind,
                                .time_left_ms =
                                    left > LIMIT_TIMEOUT_MS ? LIMIT_TIMEOUT_MS : (uint32_t)left,
                                .payload = request->payload.data,
                                .payload_len = request->payload.len};

    ASSERT(target != requests->on->node_id && request->sent_to == 0);
    if (context_send_request(requests->on, target, type, &wire) != 0) {
        return false;
    }
    leave_list(requests, request);
    request->sent_to = target;
    request->sent_ms = now;
    TAILQ_INSERT_TAIL(&requests->sent, request, link);
    timer_arm_by(requests->on->timers, &requests->silent,
                 now + requests->on->driver->config.election_ms);
    return true;
}

/* A turn copies one such request into a frame; all may have to be sent anew, to another leader. */
#define LARGE_REQUEST_BYTES (1 << 20)

static void send_waiting(struct requests *requests)
{
    uint64_t target = leader_route_target(&requests->route);
    bool here = target == requests->on->node_id;
    struct cluster_request *request;
    struct cluster_request *next;
    struct session_stamp stamp;

    ASSERT(!requests->on->stopping);
    if (target == 0 || timer_is_armed(&requests->send_pause) ||
        (here && requests->serving.holding)) {
        return;
    }
    for (request = TAILQ_FIRST(&requests->waiting); request != NULL; request = next) {
        next = TAILQ_NEXT(request, link);
        /* A change is numbered and stamped when it is first sent, and keeps that stamp when it is
         * repeated. */
        if (request->kind != CLUSTER_REQUEST_QUERY && request->kind != CLUSTER_REQUEST_LEADER &&
            !request->stamped && !request->once && request->lowest == 0) {
            if (request->seq == 0 && !session_take(&requests->session, &request->seq)) {
                continue; /* there is room once a request under way is over */
            }
            stamp = session_stamp(&requests->session, request->seq);
            request->lowest = stamp.lowest;
            session_stamp_put(&request->payload, &stamp);
        }
        if (here) {
            leave_list(requests, request);
            serving_take(&requests->serving, request);
        } else if (request->once) {
            leave_list(requests, request);
            complete(requests, request, ERR_NOT_LEADER);
        } else if (!forward(requests, request, target)) {
            context_arm_in(requests->on, &requests->send_pause, SEND_AGAIN_MS);
            return;
        } else if (next != NULL && request->payload.len >= LARGE_REQUEST_BYTES) {
            context_wake(requests->on, WAKE_REQUESTS);
            return;
        }
    }
}

/* --- frames --- */

bool requests_receive(struct requests *requests, uint64_t from, bool to_forward,
                      const uint8_t *payload, size_t len)
{
    struct wire_request wire;
    int refused;

    if (wire_request_decode(payload, len, &wire) != 0 || (to_forward && wire.origin != 0)) {
        return false;
    }
    context_wake(requests->on, WAKE_REQUESTS);
    if (!to_forward || driver_is_leader(requests->on->driver)) {
        serving_receive(&requests->serving, from, &wire);
        return true;
    }
    refused = pass_on(requests, from, &wire);
    if (refused != 0) {
        context_refuse(requests->on, from, wire.id, refused);
    }
    return true;
}

bool requests_receive_reply(struct requests *requests, uint64_t from, const uint8_t *payload,
                            size_t len)
{
    struct service *service = requests->on->service;
    struct cluster_request *request;
    struct forwarded *forwarded;
    struct wire_reply reply;

    if (wire_reply_decode(payload, len, &reply) != 0 ||
        !trust_index(&requests->on->driver->trust, from, "reply_index", reply.index)) {
        return false;
    }
    context_wake(requests->on, WAKE_REQUESTS);
    if (reply.id & NUMBERS_MARK) {
        forwarded = numbers_find(&requests->numbers, reply.id);
        if (forwarded != NULL && forwarded->leader == from) { /* no other node was asked */
            reply.id = forwarded->origin_id;
            (void)context_send_reply(requests->on, forwarded->origin, FRAME_REPLY, &reply);
            forget(forwarded);
        }
        return true;
    }
    leader_route_on_answer(&requests->route, from, reply.status);
    request = numbers_find(&requests->numbers, reply.id);
    if (request == NULL || request->sent_to != from) { /* no other node was asked */
        return true;                                   /* answered, expired or sent anew already */
    }
    /* Before its client gets the answer to a change, this node drops all data that the change made
     * old. */
    if (reply.status == 0 && request->kind == CLUSTER_REQUEST_COMMAND &&
        service->ops->take_marks(service, request->payload.data, request->payload.len, reply.marks,
                                 reply.marks_len) != 0) {
        return false;
    }
    leave_list(requests, request);
    if (reply.status == ERR_NOT_LEADER) {
        put_waiting(requests, request);
        if (driver_leader(requests->on->driver) == from) {
            context_arm_in(requests->on, &requests->send_pause, SEND_AGAIN_MS);
        }
        return true;
    }
    request->index = reply.index;
    complete_with(requests, request, reply.status, reply.payload, reply.payload_len);
    return true;
}

/* --- numbers that are over --- */

/* When the cluster must be informed of them; TIMER_NEVER: not by time. */
static uint64_t tidy_at_ms(const struct requests *requests)
{
    uint64_t due_ms = session_due_ms(&requests->session);

    if (requests->tidying.in_flight || requests->on->stopping ||
        !leader_route_is_known(&requests->route)) {
        return TIMER_NEVER;
    }
    return due_ms > requests->tidy_again_ms ? due_ms : requests->tidy_again_ms;
}

static void on_tidied(struct node_command *command, int status)
{
    struct requests *requests = CONTAINER(command, struct requests, tidying);

    requests->tidy_again_ms = status == 0 ? 0 : context_now_ms(requests->on) + SESSION_TIDY_MS;
}

/* --- requests about the membership --- */

#define AGAIN_MS 20

struct membership_request {
    TAILQ_ENTRY(membership_request) link;
    struct requests *requests;
    struct cluster_request *outer;
    struct cluster_request asking;
    struct member_ask ask;
    struct member_answer answer; /* the last one */
    bool answered;               /* there was one */
    struct timer again;          /* armed: it waits; else the leader has not answered */
};

static void empty(struct cluster_request *asking)
{
    buf_free(&asking->payload);
    buf_free(&asking->reply);
}

/* Answer the client; a request to the leader may still be under way. */
static void member_request_answer(struct membership_request *request, int status)
{
    struct cluster_request *outer = request->outer;

    if (outer == NULL) {
        return; /* it has its answer */
    }
    if (request->answered && (status == 0 || status == ERR_TIMEOUT || status == ERR_NO_LEADER)) {
        status = 0; /* begun, or refused with a reason: better than "no answer" */
        outer->reply.len = 0;
        member_answer_encode(&request->answer, &outer->reply);
    }
    request->outer = NULL;
    answers_put(request->requests->on->answers, outer, status);
}

static void member_request_finish(struct membership_request *request, int status)
{
    struct requests *requests = request->requests;

    ASSERT(requests->members.count > 0 && !timer_is_armed(&request->again));
    member_request_answer(request, status);
    TAILQ_REMOVE(&requests->members.list, request, link);
    requests->members.count--;
    empty(&request->asking);
    free(request);
}

static void on_asked(struct cluster_request *asking)
{
    struct membership_request *request = CONTAINER(asking, struct membership_request, asking);
    struct requests *requests = request->requests;
    uint64_t again_ms = context_now_ms(requests->on) + AGAIN_MS;
    int status = asking->status;

    if (asking->kind == CLUSTER_REQUEST_COMMAND) { /* its number is used */
        member_request_finish(request, status);
        return;
    }
    if (status == 0) {
        status = member_answer_decode(asking->reply.data, asking->reply.len, &request->answer);
        request->answered = status == 0;
    }
    if (status == 0 && request->answer.outcome != MEMBER_DONE &&
        request->answer.outcome != MEMBER_PENDING && asking->seq != 0) {
        /* It was refused, and the client gets that answer: so no copy still on its way may be
         * carried out. An empty command takes its number. */
        empty(asking);
        cluster_command_put(&asking->payload, COMMAND_NOOP, NULL);
        asking->kind = CLUSTER_REQUEST_COMMAND;
        asking->keeps_seq = false;
        requests_take(requests, asking);
        return;
    }
    requests_release(requests, asking, false);
    if (status != 0 || request->answer.outcome != MEMBER_PENDING || requests->on->stopping ||
        request->outer == NULL || again_ms >= request->outer->deadline_ms) {
        member_request_finish(request, status);
        return;
    }
    timer_arm(requests->on->timers, &request->again, again_ms);
}

static void ask_leader(struct membership_request *request)
{
    struct cluster_request *asking = &request->asking;

    empty(asking);
    *asking = (struct cluster_request){.kind = CLUSTER_REQUEST_MEMBER,
                                       .keeps_seq = true,
                                       .deadline_ms = request->outer->deadline_ms,
                                       .done = on_asked};
    member_ask_encode(&request->ask, &asking->payload);
    request->ask.again = true;
    requests_take(request->requests, asking);
}

/* Does this node know that it was carried out? A node that removed itself finds no leader to
 * ask. */
static bool is_removed(struct membership_request *request)
{
    const struct requests *requests = request->requests;
    uint64_t node_id = request->ask.node_id;

    if (request->ask.kind != MEMBER_ASK_REMOVE ||
        !((requests->members.removed && node_id == requests->on->node_id) ||
          state_member_removed(requests->on->state, node_id))) {
        return false;
    }
    request->answer = (struct member_answer){.outcome = MEMBER_DONE};
    (void)snprintf(request->answer.why, sizeof request->answer.why,
                   "node %" PRIu64 " is no longer a member", node_id);
    request->answered = true;
    return true;
}

static void member_request_again_cb(struct timer *timer, uint64_t now_ms)
{
    struct membership_request *request = CONTAINER(timer, struct membership_request, again);

    (void)now_ms;
    ASSERT(!request->requests->on->stopping && request->requests->members.count > 0);
    if (is_removed(request)) {
        member_request_finish(request, 0);
    } else {
        ask_leader(request);
    }
}

static void members_submit(struct requests *requests, struct cluster_request *outer)
{
    struct membership_request *request;
    struct member_ask ask;

    if (requests->members.count >= LIMIT_MEMBERSHIP_REQUESTS) {
        answers_put(requests->on->answers, outer, ERR_OVERLOADED);
        return;
    }
    if (member_ask_decode(outer->payload.data, outer->payload.len, &ask) != 0) {
        answers_put(requests->on->answers, outer, ERR_BAD_MESSAGE);
        return;
    }
    request = MUST_HAVE(calloc(1, sizeof *request));
    request->requests = requests;
    request->outer = outer;
    request->ask = ask;
    timer_init(&request->again, member_request_again_cb);
    TAILQ_INSERT_TAIL(&requests->members.list, request, link);
    requests->members.count++;
    ask_leader(request);
}

void requests_removed(struct requests *requests)
{
    struct membership_request *request;

    requests->members.removed = true;
    TAILQ_FOREACH (request, &requests->members.list, link) {
        if (!timer_is_armed(&request->again) && request->outer != NULL && is_removed(request)) {
            member_request_answer(request, 0);
        }
    }
}

/* --- the barrier --- */

#define ASK_AGAIN_MS 20

/* Lower bound of the index that a member has applied. */
static uint64_t applied_by(const struct requests *requests, uint64_t id)
{
    return id == requests->on->node_id ? driver_applied(requests->on->driver)->index
                                       : context_peer(requests->on, id)->applied;
}

/* The index that all members have applied, by the applied configuration. A change may never be
 * committed: until it is, a member that it removes still hands out ids, and is waited for. */
static uint64_t applied_by_all(const struct requests *requests)
{
    uint64_t least = driver_applied(requests->on->driver)->index;
    struct configuration conf;

    applier_configured(&requests->on->driver->applier, &conf);
    MEMBER_FOREACH (member, &conf) {
        uint64_t applied = applied_by(requests, member->id);

        least = applied < least ? applied : least;
    }
    return least;
}

bool barrier_receive(struct requests *requests, uint64_t from, const uint8_t *payload, size_t len)
{
    struct configuration conf;
    struct wire_applied message;

    if (wire_applied_decode(payload, len, &message) != 0 ||
        !trust_index(&requests->on->driver->trust, from, "applied_index", message.index)) {
        return false;
    }
    if (!message.answer) {
        message = (struct wire_applied){true, driver_applied(requests->on->driver)->index};
        (void)context_send_applied(requests->on, from, FRAME_APPLIED, &message);
        return true;
    }
    applier_configured(&requests->on->driver->applier, &conf);
    if (configuration_find(&conf, from) == NULL) {
        return true; /* perhaps a node of a newer configuration: nothing waits for it here */
    }
    context_wake(requests->on, WAKE_BARRIER);
    context_peer(requests->on, from)->applied = message.index;
    return true;
}

/* It is over. If it failed, it must name the missing members. */
static void barrier_leave(struct requests *requests, struct cluster_request *request, int status)
{
    struct missing_members *missing = request->out;
    uint64_t self = requests->on->node_id;
    struct configuration conf;

    ASSERT(requests->barrier.count > 0);
    TAILQ_REMOVE(&requests->barrier.waits, request, link);
    requests->barrier.count--;
    timer_cancel(requests->on->timers, &request->deadline);
    if (requests->barrier.count == 0) {
        timer_cancel(requests->on->timers, &requests->barrier.ask_again);
    }
    if (status != 0 && !request->local) {
        missing->count = 0;
        if (applied_by(requests, self) < request->index) { /* it may no longer be a member */
            missing->nodes[missing->count].id = self;
            missing->nodes[missing->count++].reachable = true;
        }
        applier_configured(&requests->on->driver->applier, &conf);
        MEMBER_FOREACH (member, &conf) {
            if (member->id != self && applied_by(requests, member->id) < request->index) {
                ASSERT(missing->count <= LIMIT_NODES);
                missing->nodes[missing->count].id = member->id;
                missing->nodes[missing->count++].reachable =
                    context_reaches(requests->on, member->id);
            }
        }
    }
    answers_put(requests->on->answers, request, status);
}

static void barrier_deadline_cb(struct timer *timer, uint64_t now_ms)
{
    struct cluster_request *request = CONTAINER(timer, struct cluster_request, deadline);
    struct requests *requests = request->holder;

    (void)now_ms;
    ASSERT(request->kind == CLUSTER_REQUEST_BARRIER);
    /* Since the last turn the last member may have answered, or have been removed: then no member
     * is missing. */
    barrier_leave(requests, request,
                  request->index <= (request->local ? applied_by(requests, requests->on->node_id)
                                                    : applied_by_all(requests))
                      ? 0
                      : ERR_TIMEOUT);
}

static void barrier_submit(struct requests *requests, struct cluster_request *request)
{
    struct cluster_request *before = TAILQ_LAST(&requests->barrier.waits, cluster_request_list);

    ASSERT(request->kind == CLUSTER_REQUEST_BARRIER && (request->out == NULL) == request->local);
    /* Insert in order; requests mostly come in order. */
    while (before != NULL && before->index > request->index) {
        before = TAILQ_PREV(before, cluster_request_list, link);
    }
    if (before == NULL) {
        TAILQ_INSERT_HEAD(&requests->barrier.waits, request, link);
    } else {
        TAILQ_INSERT_AFTER(&requests->barrier.waits, before, request, link);
    }
    requests->barrier.count++;
    request->holder = requests;
    timer_init(&request->deadline, barrier_deadline_cb);
    timer_arm(requests->on->timers, &request->deadline, request->deadline_ms);
    context_wake(requests->on, WAKE_BARRIER);
    if (requests->barrier.count > LIMIT_BARRIER_WAITS) {
        barrier_leave(requests, request, ERR_OVERLOADED);
    }
}

void barrier_turn(struct requests *requests)
{
    const struct wire_applied question = {.answer = false};
    struct configuration conf;
    struct cluster_request *request;
    struct cluster_request *next;
    uint64_t highest = 0; /* for which others are asked */
    uint64_t own;
    uint64_t all;

    if (requests->barrier.count == 0) {
        return;
    }
    own = applied_by(requests, requests->on->node_id);
    all = applied_by_all(requests);
    for (request = TAILQ_FIRST(&requests->barrier.waits); request != NULL; request = next) {
        next = TAILQ_NEXT(request, link);
        if (request->index <= (request->local ? own : all)) {
            barrier_leave(requests, request, 0);
        } else if (!request->local) {
            highest = request->index; /* they are in order */
        }
    }
    if (requests->barrier.count == 0 || timer_is_armed(&requests->barrier.ask_again)) {
        return;
    }
    applier_configured(&requests->on->driver->applier, &conf);
    MEMBER_FOREACH (member, &conf) {
        if (member->id != requests->on->node_id && applied_by(requests, member->id) < highest) {
            (void)context_send_applied(requests->on, member->id, FRAME_APPLIED, &question);
        }
    }
    context_arm_in(requests->on, &requests->barrier.ask_again, ASK_AGAIN_MS);
}

/* --- turns, start and end --- */

void requests_submit(struct requests *requests, struct cluster_request *request)
{
    if (requests->on->stopping) {
        answers_put(requests->on->answers, request, ERR_SHUTTING_DOWN);
        return;
    }
    if (request->kind != CLUSTER_REQUEST_BARRIER) {
        request->reply.len = 0;
    }
    switch (request->kind) {
    case CLUSTER_REQUEST_COMMAND:
    case CLUSTER_REQUEST_QUERY:
    case CLUSTER_REQUEST_LEADER:
        requests_take(requests, request);
        break;
    case CLUSTER_REQUEST_MEMBER:
        members_submit(requests, request);
        break;
    case CLUSTER_REQUEST_BARRIER:
        barrier_submit(requests, request);
        break;
    default:
        UNREACHABLE("kind of request");
    }
}

void requests_turn(struct requests *requests)
{
    struct buf payload = BUF_INIT;
    struct cluster_request *request;

    if (!requests->on->stopping && context_now_ms(requests->on) >= tidy_at_ms(requests)) {
        cluster_command_put(&payload, COMMAND_NOOP, NULL);
        node_command_send(&requests->tidying, requests->on, &payload, false);
    }
    leader_route_turn(&requests->route);
    if (requests->route_seen != requests->route.changes) {
        follow_route(requests);
    }
    if (!requests->on->stopping) {
        send_waiting(requests);
    }
    while (requests->on->stopping && (request = TAILQ_FIRST(&requests->waiting)) != NULL) {
        leave_list(requests, request);
        complete(requests, request, ERR_SHUTTING_DOWN);
    }
    /* For requests that cannot be sent now. */
    context_arm_at(requests->on, &requests->send,
                   TAILQ_EMPTY(&requests->waiting) ? TIMER_NEVER
                                                   : context_now_ms(requests->on) + SEND_AGAIN_MS);
    serving_turn(&requests->serving);
    leader_route_arm(&requests->route);
    context_arm_at(requests->on, &requests->tidy, tidy_at_ms(requests));
}

void requests_init(struct requests *requests, const struct raft_context *on,
                   struct membership *membership, const struct peers *peers)
{
    const struct driver_config *config = &on->config->driver;

    *requests = (struct requests){.on = on};
    session_init(&requests->session, config->node_id, config->incarnation);
    /* Replies to an earlier incarnation of this node must not match. */
    numbers_init(&requests->numbers, config->seed);
    TAILQ_INIT(&requests->waiting);
    TAILQ_INIT(&requests->sent);
    TAILQ_INIT(&requests->members.list);
    TAILQ_INIT(&requests->barrier.waits);
    requests->barrier.ask_again.wakes = WAKE_BARRIER;
    requests->send.wakes = WAKE_REQUESTS;
    requests->send_pause.wakes = WAKE_REQUESTS;
    timer_init(&requests->silent, on_silent);
    requests->silent.wakes = WAKE_REQUESTS;
    requests->tidy.wakes = WAKE_REQUESTS;
    requests->tidying.wakes = WAKE_REQUESTS;
    requests->tidying.on_done = on_tidied;
    requests->serving_owner =
        (struct serving_owner){.answered = on_answered, .given_back = on_given_back};
    requests->route = (struct leader_route){.on = on,
                                            .peers = peers,
                                            .waiting = &requests->waiting,
                                            .sent = &requests->sent,
                                            .turn.wakes = WAKE_REQUESTS};
    TAILQ_INIT(&requests->forwarder.list);
    serving_init(&requests->serving, on, &requests->serving_owner, membership);
}

void requests_stop(struct requests *requests)
{
    struct cluster_request *request;
    struct membership_request *member;
    struct membership_request *next;

    /* Those about the membership that wait; the leader's answer to the others ends below. */
    for (member = TAILQ_FIRST(&requests->members.list); member != NULL; member = next) {
        next = TAILQ_NEXT(member, link);
        if (timer_is_armed(&member->again)) {
            timer_cancel(requests->on->timers, &member->again);
            member_request_finish(member, ERR_SHUTTING_DOWN);
        }
    }
    while ((request = TAILQ_FIRST(&requests->barrier.waits)) != NULL) {
        barrier_leave(requests, request, ERR_SHUTTING_DOWN);
    }
    serving_reset(&requests->serving);
    sweep(requests, 0, 0);
    take_back(requests, 0, 0, UINT64_MAX); /* all, to be refused */
}
