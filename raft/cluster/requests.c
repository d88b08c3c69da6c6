/*
 * requests.c - this node's requests: numbers, routing, forwarding, deadlines. The leader's part is
 * in requests_leader.c. See requests.h.
 *
 * Thread: the raft loop.
 */
#include "raft/cluster/requests.h"

#include <stdlib.h>
#include <string.h>

#include "raft/cluster/requests_internal.h"
#include "src/base/assert.h"

#define SCAN_MS 10        /* how exact deadlines are */
#define ROUTE_AGAIN_MS 10 /* pause after "not leader" */
#define TIDYING_MS 5000   /* patience with a command that only carries a stamp */

void requests_init(struct requests *requests, struct driver *driver, struct net *net,
                   struct disk *disk, const struct clock *clock, struct fsm *fsm,
                   const struct driver_config *config)
{
    memset(requests, 0, sizeof *requests);
    session_init(&requests->session, config->node_id, config->incarnation);
    requests->driver = driver;
    requests->net = net;
    requests->disk = disk;
    requests->clock = clock;
    requests->fsm = fsm;
    requests->next_id =
        config->seed >> 16; /* replies to an earlier incarnation of this node must not match */
    requests->round = config->seed >> 16;
    requests->scan_at_ms = UINT64_MAX;
    TAILQ_INIT(&requests->waiting);
    TAILQ_INIT(&requests->sent);
    TAILQ_INIT(&requests->finished);
    TAILQ_INIT(&requests->relay.list);
    TAILQ_INIT(&requests->todo);
    TAILQ_INIT(&requests->submitted);
    TAILQ_INIT(&requests->reads);
    TAILQ_INIT(&requests->confirming);
    TAILQ_INIT(&requests->confirmed);
}

void requests_close(struct requests *requests)
{
    ASSERT(requests->count == 0 && TAILQ_EMPTY(&requests->finished));
    ASSERT(requests->work_count == 0 && requests->relay.count == 0);
}

void requests_finish(struct requests *requests, struct id_request *request, int status)
{
    request->status = status;
    TAILQ_INSERT_TAIL(&requests->finished, request, link);
}

/* --- this node's session --- */

static void end_number(struct requests *requests, struct id_request *request, bool answered)
{
    bool applied = answered && request->kind == ID_REQUEST_COMMAND;

    session_end(&requests->session, request->seq, applied ? request->lowest : 0, request->reply.len,
                request == &requests->tidying, clock_now_ms(requests->clock));
    request->seq = 0;
    request->lowest = 0;
}

void requests_release(struct requests *requests, struct id_request *request)
{
    if (request->seq != 0) {
        end_number(requests, request, false);
    }
}

/* A command is numbered and stamped when it is sent first, and goes out with that stamp however
 * often. False: the session has no room now. */
static bool has_number(struct requests *requests, struct id_request *request)
{
    struct session_stamp stamp;

    if (request->kind == ID_REQUEST_QUERY || request->stamped || request->lowest != 0) {
        return true;
    }
    if (request->seq == 0 && !session_take(&requests->session, &request->seq)) {
        return false;
    }
    stamp = session_stamp(&requests->session, request->seq);
    request->lowest = stamp.lowest;
    session_stamp_put(&request->payload, &stamp);
    return true;
}

/* What the cluster said instead of the command's own result. */
static int refused_status(struct requests *requests, const struct id_request *request,
                          const struct session_refusal *refusal)
{
    if (refusal->status == ERR_REMOVED) {
        return ERR_SHUTTING_DOWN; /* this node was: it is about to end (replica_owner.removed) */
    }
    if (refusal->status != ERR_STALE) {
        return refusal->status;
    }
    /* One that is stamped may be another node's. */
    if (!request->stamped && refusal->incarnation > requests->session.incarnation) {
        requests->superseded = refusal->incarnation;
    }
    return ERR_TIMEOUT; /* whether it was carried out is not known */
}

/* A counted request is over. */
static void complete(struct requests *requests, struct id_request *request, int status)
{
    ASSERT(requests->count > 0);
    requests->count--;
    if (request->seq != 0) {
        if (request->keeps_seq) {
            request->lowest = 0; /* stamped anew if it is sent again */
        } else {
            end_number(requests, request, status == 0);
        }
    }
    requests_finish(requests, request, status);
}

void requests_wait_for_scan(struct requests *requests)
{
    uint64_t at = clock_now_ms(requests->clock) + SCAN_MS;

    requests->scan_at_ms = at < requests->scan_at_ms ? at : requests->scan_at_ms;
}

void requests_submit(struct requests *requests, struct id_request *request)
{
    int refused = requests->stopping                          ? ERR_SHUTTING_DOWN
                  : requests->count >= LIMIT_REQUESTS_PENDING ? ERR_OVERLOADED
                  : request->payload.len > LIMIT_ENTRY_BYTES  ? ERR_TOO_LARGE
                                                              : 0;

    ASSERT(request->kind == ID_REQUEST_COMMAND || request->kind == ID_REQUEST_QUERY ||
           request->kind == ID_REQUEST_MEMBER);
    if (refused != 0) {
        requests_release(requests, request);
        requests_finish(requests, request, refused);
    } else if (request->kind == ID_REQUEST_QUERY && request->local) {
        request->status =
            fsm_query(requests->fsm, request->payload.data, request->payload.len, &request->reply);
        requests_finish(requests, request, request->status);
    } else {
        requests->count++;
        request->id = ++requests->next_id;
        TAILQ_INSERT_TAIL(&requests->waiting, request, link);
        requests_wait_for_scan(requests);
    }
}

void requests_back_to_waiting(struct requests *requests, struct id_request *request)
{
    /* At the front: it is older than what waits. */
    TAILQ_INSERT_HEAD(&requests->waiting, request, link);
    requests_wait_for_scan(requests);
}

void requests_complete_local(struct requests *requests, struct id_request *request, int status,
                             const void *reply, size_t len)
{
    struct session_refusal refusal;

    request->reply.len = 0;
    if (status == 0 && request->kind == ID_REQUEST_COMMAND &&
        session_refusal_decode(reply, len, &refusal)) {
        status = refused_status(requests, request, &refusal);
    } else {
        buf_put(&request->reply, reply, len);
    }
    complete(requests, request, status);
}

/* --- forwarding --- */

uint8_t requests_wire_kind(const struct id_request *request)
{
    switch (request->kind) {
    case ID_REQUEST_COMMAND:
        return WIRE_REQUEST_COMMAND;
    case ID_REQUEST_MEMBER:
        return WIRE_REQUEST_MEMBER;
    default:
        return WIRE_REQUEST_QUERY;
    }
}

static bool forward(struct requests *requests, struct id_request *request, uint64_t target)
{
    enum frame_type type = requests->way.state == WAY_RELAYED ? FRAME_RELAY : FRAME_REQUEST;
    uint64_t now = clock_now_ms(requests->clock);
    uint64_t left = request->deadline_ms > now ? request->deadline_ms - now : 0;
    struct wire_request wire = {0};
    struct buf payload = BUF_INIT;
    int rv;

    wire.id = request->id;
    wire.kind = requests_wire_kind(request);
    wire.time_left_ms = left > LIMIT_TIMEOUT_MS ? LIMIT_TIMEOUT_MS : (uint32_t)left;
    wire.payload = request->payload.data;
    wire.payload_len = request->payload.len;
    wire_request_encode(&wire, &payload);
    rv = requests->net->ops->send(requests->net, target, type, &payload);
    buf_free(&payload);
    if (rv != 0) {
        return false;
    }
    request->sent_to = target;
    request->sent_ms = now;
    TAILQ_REMOVE(&requests->waiting, request, link);
    TAILQ_INSERT_TAIL(&requests->sent, request, link);
    return true;
}

static void route(struct requests *requests)
{
    uint64_t self = requests->driver->config.node_id;
    uint64_t target = requests_way_target(requests);
    struct id_request *request;
    struct id_request *next;

    if (requests->stopping) {
        while ((request = TAILQ_FIRST(&requests->waiting)) != NULL) {
            TAILQ_REMOVE(&requests->waiting, request, link);
            complete(requests, request, ERR_SHUTTING_DOWN);
        }
        return;
    }
    if (target == 0 || clock_now_ms(requests->clock) < requests->route_at_ms) {
        return;
    }
    if (target == self && requests->transferring) {
        return;
    }
    for (request = TAILQ_FIRST(&requests->waiting); request != NULL; request = next) {
        next = TAILQ_NEXT(request, link);
        if (!has_number(requests, request)) {
            continue; /* there is room once something that is under way is over */
        }
        if (target == self) {
            TAILQ_REMOVE(&requests->waiting, request, link);
            requests_take_local(requests, request);
        } else if (!forward(requests, request, target)) {
            requests->route_at_ms = clock_now_ms(requests->clock) + ROUTE_AGAIN_MS;
            return;
        }
    }
}

static bool receive_reply(struct requests *requests, uint64_t from, const uint8_t *payload,
                          size_t len)
{
    struct id_request *request;
    struct wire_reply reply;

    if (wire_reply_decode(payload, len, &reply) != 0) {
        return false;
    }
    if (reply.id & REQUESTS_RELAYED_ID) {
        requests_relay_reply(requests, from, &reply);
        return true;
    }
    requests_way_word(requests, from, reply.status);
    TAILQ_FOREACH (request, &requests->sent, link) {
        if (request->id == reply.id && request->sent_to == from) { /* nobody else was asked */
            break;
        }
    }
    if (request == NULL) {
        return true; /* answered, expired or sent anew already */
    }
    /* Before its client hears of a change, this node holds nothing that the change made old. */
    if (reply.status == 0 && request->kind == ID_REQUEST_COMMAND &&
        allocator_take_marks(requests->allocator, request->payload.data, request->payload.len,
                             reply.marks, reply.marks_len) != 0) {
        return false;
    }
    request->index = reply.index;
    TAILQ_REMOVE(&requests->sent, request, link);
    if (reply.status == ERR_NOT_LEADER) {
        requests_back_to_waiting(requests, request);
        if (driver_leader(requests->driver) == from) {
            requests->route_at_ms = clock_now_ms(requests->clock) + ROUTE_AGAIN_MS;
        }
        return true;
    }
    requests_complete_local(requests, request, reply.status, reply.payload, reply.payload_len);
    return true;
}

bool requests_receive(struct requests *requests, uint64_t from, enum frame_type type,
                      const uint8_t *payload, size_t len)
{
    switch (type) {
    case FRAME_REQUEST:
        return requests_receive_request(requests, from, payload, len);
    case FRAME_RELAY:
        return requests_receive_relay(requests, from, payload, len);
    case FRAME_PROBE:
        return requests_receive_probe(requests, from, payload, len);
    case FRAME_REPLY:
        return receive_reply(requests, from, payload, len);
    case FRAME_CONFIRM:
        return requests_receive_confirm(requests, from, payload, len);
    case FRAME_CONFIRM_ACK:
        return requests_receive_ack(requests, from, payload, len);
    default:
        return false;
    }
}

/* Moved from the end, so that the oldest comes first again. */
static void recall(struct requests *requests, uint64_t except)
{
    struct id_request *request = TAILQ_LAST(&requests->sent, request_list);

    while (request != NULL) {
        struct id_request *older = TAILQ_PREV(request, request_list, link);

        if (request->sent_to != except) {
            TAILQ_REMOVE(&requests->sent, request, link);
            requests_back_to_waiting(requests, request);
        }
        request = older;
    }
}

/* While a way is sought, what was sent to the leader may still be answered. */
void requests_recall(struct requests *requests)
{
    const struct way *way = &requests->way;

    recall(requests, way->state == WAY_RELAYED ? way->relay : way->leader);
}

void requests_role_changed(struct requests *requests)
{
    requests->route_at_ms = 0;
    requests_way_role_changed(requests);
    requests_leader_changed(requests);
    requests_relay_role_changed(requests);
    requests_recall(requests);
}

void requests_link_changed(struct requests *requests, uint64_t peer, bool up)
{
    struct id_request *request;
    struct id_request *next;

    requests->route_at_ms = 0;
    if (up) {
        requests->way.searched_ms = 0; /* there may be a way now: if one is sought, ask at once */
        return;
    }
    requests_relay_link_down(requests, peer);
    for (request = TAILQ_FIRST(&requests->sent); request != NULL; request = next) {
        next = TAILQ_NEXT(request, link);
        if (request->sent_to == peer) {
            TAILQ_REMOVE(&requests->sent, request, link);
            requests_back_to_waiting(requests, request);
        }
    }
}

/* --- deadlines --- */

static int late_status(struct requests *requests)
{
    return requests_leader_known(requests) ? ERR_TIMEOUT : ERR_NO_LEADER;
}

static void expire_list(struct requests *requests, struct request_list *list, uint64_t now)
{
    struct id_request *request;
    struct id_request *next;

    for (request = TAILQ_FIRST(list); request != NULL; request = next) {
        next = TAILQ_NEXT(request, link);
        if (request->deadline_ms <= now) {
            TAILQ_REMOVE(list, request, link);
            complete(requests, request, late_status(requests));
        } else if (list == &requests->sent &&
                   now - request->sent_ms >= requests->driver->config.election_ms) {
            /* No answer: the frame or its reply was lost. It may be repeated. */
            TAILQ_REMOVE(list, request, link);
            requests_back_to_waiting(requests, request);
        }
    }
}

static void scan(struct requests *requests)
{
    uint64_t now = clock_now_ms(requests->clock);

    if (now < requests->scan_at_ms) {
        return;
    }
    expire_list(requests, &requests->sent, now);
    expire_list(requests, &requests->waiting, now);
    requests_expire_work(requests, now, late_status(requests));
    requests_relay_expire(requests, now);
    requests->scan_at_ms = requests->count + requests->work_count + requests->relay.count > 0
                               ? now + SCAN_MS
                               : UINT64_MAX;
}

/* --- numbers that are over --- */

static void tidied(struct id_request *request)
{
    struct requests *requests = request->data;

    requests->tidying_in_flight = false;
    requests->tidy_again_ms =
        request->status == 0 ? 0 : clock_now_ms(requests->clock) + SESSION_TIDY_MS;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

/* When the next one is due; UINT64_MAX: not by time. */
static uint64_t tidy_at_ms(const struct requests *requests)
{
    uint64_t due_ms = session_due_ms(&requests->session);

    if (requests->tidying_in_flight || requests->stopping || !requests_leader_known(requests)) {
        return UINT64_MAX;
    }
    return due_ms > requests->tidy_again_ms ? due_ms : requests->tidy_again_ms;
}

void requests_tidy(struct requests *requests)
{
    struct id_request *request = &requests->tidying;
    uint64_t now = clock_now_ms(requests->clock);

    if (now < tidy_at_ms(requests)) {
        return;
    }
    memset(request, 0, sizeof *request);
    command_noop_encode(&request->payload);
    request->kind = ID_REQUEST_COMMAND;
    request->deadline_ms = now + TIDYING_MS;
    request->done = tidied;
    request->data = requests;
    requests->tidying_in_flight = true;
    requests_submit(requests, request);
}

uint64_t requests_next_ms(const struct requests *requests)
{
    uint64_t tidy_ms = tidy_at_ms(requests);
    uint64_t way_ms = requests_way_next_ms(requests);
    uint64_t next_ms = tidy_ms < way_ms ? tidy_ms : way_ms;

    if (!TAILQ_EMPTY(&requests->finished)) {
        return 0;
    }
    return next_ms < requests->scan_at_ms ? next_ms : requests->scan_at_ms;
}

void requests_stop(struct requests *requests)
{
    requests->stopping = true;
    requests_leader_changed(requests);
    requests_relay_role_changed(requests);
    recall(requests, 0);
}

void requests_answer(struct requests *requests)
{
    struct id_request *request;

    while ((request = TAILQ_FIRST(&requests->finished)) != NULL) {
        TAILQ_REMOVE(&requests->finished, request, link);
        request->done(request);
    }
}

void requests_turn(struct requests *requests)
{
    scan(requests);
    requests_way_turn(requests);
    route(requests);
    requests_leader_turn(requests);
    requests_answer(requests);
}
