/*
 * requests_leader.c - the leader's part of requests.h: commands gathered into one submit a turn,
 * queries gathered into one round of confirmation.
 *
 * Thread: the raft loop.
 */
#include <stdlib.h>
#include <string.h>

#include "raft/cluster/requests_internal.h"
#include "src/base/assert.h"
#include "src/id/codec/command.h"

/* --- work --- */

static struct work *work_new(struct requests *requests, uint8_t kind)
{
    struct work *work = calloc(1, sizeof *work);

    ASSERT(work != NULL);
    work->kind = kind;
    requests->work_count++;
    return work;
}

static void work_free(struct requests *requests, struct work *work)
{
    ASSERT(requests->work_count > 0);
    requests->work_count--;
    buf_free(&work->payload);
    free(work);
}

void requests_send_reply(struct requests *requests, uint64_t to, const struct wire_reply *reply)
{
    struct buf frame = BUF_INIT;

    wire_reply_encode(reply, &frame);
    (void)requests->net->ops->send(requests->net, to, FRAME_REPLY, &frame);
    buf_free(&frame);
}

void requests_refuse(struct requests *requests, uint64_t to, uint64_t id, int status)
{
    const struct wire_reply reply = {.id = id, .status = status};

    requests_send_reply(requests, to, &reply);
}

/* Answer and free; the work is on no list. */
static void finish(struct requests *requests, struct work *work, int status, const void *reply,
                   size_t len)
{
    if (work->local != NULL) {
        requests_complete_local(requests, work->local, status, reply, len);
    } else if (work->from != 0) {
        const struct wire_reply wire = {
            .id = work->id, .status = status, .payload = reply, .payload_len = len};

        requests_send_reply(requests, work->from, &wire);
    }
    work_free(requests, work);
}

/* The same for a command that has just been applied. Its node may not have come so far: it is told
 * where the entry is, and what its tags have become. */
static void finish_applied(struct requests *requests, struct work *work, const void *result,
                           size_t len)
{
    struct wire_reply reply = {
        .id = work->id, .index = work->index, .payload = result, .payload_len = len};
    struct buf marks = BUF_INIT;

    if (work->local != NULL) {
        work->local->index = work->index;
        requests_complete_local(requests, work->local, 0, result, len);
    } else if (work->from != 0) {
        fsm_tag_marks(requests->fsm, work->payload.data, work->payload.len, &marks);
        reply.marks = marks.data;
        reply.marks_len = marks.len;
        requests_send_reply(requests, work->from, &reply);
        buf_free(&marks);
    }
    work_free(requests, work);
}

/* This node cannot serve it: let it find the leader. */
static void give_back(struct requests *requests, struct work *work)
{
    if (work->local != NULL) {
        requests_back_to_waiting(requests, work->local);
        work_free(requests, work);
        return;
    }
    finish(requests, work, ERR_NOT_LEADER, NULL, 0);
}

static void enqueue(struct requests *requests, struct work *work)
{
    if (work->kind == WIRE_REQUEST_COMMAND) {
        TAILQ_INSERT_TAIL(&requests->todo, work, link);
    } else {
        TAILQ_INSERT_TAIL(&requests->reads, work, link);
    }
}

void requests_take_local(struct requests *requests, struct id_request *request)
{
    struct work *work = work_new(requests, requests_wire_kind(request));

    work->local = request;
    work->deadline_ms = request->deadline_ms;
    enqueue(requests, work);
}

/* What a leader proposes by itself: the digest that its state has, the log's time, the steps of a
 * change of the membership. It takes nobody else's word for them: one false digest would end every
 * node, at each of its starts. (One that just lost its lead may ask in good faith; the new leader
 * proposes its own.) */
static bool is_for_leaders_alone(const struct wire_request *wire)
{
    if (wire->kind != WIRE_REQUEST_COMMAND) {
        return false;
    }
    switch (command_type(wire->payload, wire->payload_len)) {
    case COMMAND_DIGEST:
    case COMMAND_LAYOUT:
    case COMMAND_CLOCK:
    case COMMAND_MEMBER_BEGIN:
    case COMMAND_MEMBER_END:
        return true;
    default:
        return false;
    }
}

/* Who changes something says whose it is, and speaks for itself alone: a stamp of another node
 * would end that node's session. */
static bool is_stamped_by(const struct wire_request *wire, uint64_t node_id)
{
    struct session_stamp stamp;

    return wire->kind == WIRE_REQUEST_QUERY ||
           (session_stamp_read(wire->payload, wire->payload_len, &stamp) == 0 &&
            stamp.node_id == node_id);
}

void requests_serve(struct requests *requests, uint64_t from, const struct wire_request *wire)
{
    /* Whoever passes on a request vouches for its origin, which has to be a member. */
    bool member = wire->origin == 0 || driver_member(requests->driver, wire->origin) != NULL;
    struct work *work;

    if (!driver_is_leader(requests->driver) || requests->transferring || requests->stopping ||
        !member) {
        requests_refuse(requests, from, wire->id, ERR_NOT_LEADER);
        return;
    }
    if (is_for_leaders_alone(wire) ||
        !is_stamped_by(wire, wire->origin != 0 ? wire->origin : from)) {
        requests_refuse(requests, from, wire->id, ERR_REFUSED);
        return;
    }
    if (requests->work_count >= LIMIT_REQUESTS_PENDING) {
        requests_refuse(requests, from, wire->id, ERR_OVERLOADED);
        return;
    }
    work = work_new(requests, wire->kind);
    work->from = from;
    work->id = wire->id;
    work->deadline_ms = clock_now_ms(requests->clock) + wire->time_left_ms;
    buf_put(&work->payload, wire->payload, wire->payload_len);
    enqueue(requests, work);
    requests_wait_for_scan(requests);
}

bool requests_receive_request(struct requests *requests, uint64_t from, const uint8_t *payload,
                              size_t len)
{
    struct wire_request wire;

    if (wire_request_decode(payload, len, &wire) != 0) {
        return false;
    }
    requests_serve(requests, from, &wire);
    return true;
}

static void give_back_list(struct requests *requests, struct work_list *list)
{
    struct work *work;

    while ((work = TAILQ_LAST(list, work_list)) != NULL) {
        TAILQ_REMOVE(list, work, link);
        give_back(requests, work);
    }
}

void requests_leader_changed(struct requests *requests)
{
    give_back_list(requests, &requests->reads);
    give_back_list(requests, &requests->confirming);
    give_back_list(requests, &requests->confirmed);
    give_back_list(requests, &requests->todo);
    /* Their outcome is unknown: they may commit under the next leader. All may be repeated. */
    give_back_list(requests, &requests->submitted);
    requests->round_active = false;
}

static void expire_work_list(struct requests *requests, struct work_list *list, uint64_t now,
                             int status)
{
    struct work *work;
    struct work *next;

    for (work = TAILQ_FIRST(list); work != NULL; work = next) {
        next = TAILQ_NEXT(work, link);
        if (work->deadline_ms > now) {
            continue;
        }
        if (list == &requests->submitted) {
            /* The entry stays in the log: keep its place, without anybody to answer. */
            if (work->local != NULL) {
                requests_complete_local(requests, work->local, status, NULL, 0);
                work->local = NULL;
            }
            work->from = 0;
            continue;
        }
        TAILQ_REMOVE(list, work, link);
        if (work->local == NULL) {
            work->from = 0; /* its sender has given up too */
        }
        finish(requests, work, status, NULL, 0);
    }
}

void requests_expire_work(struct requests *requests, uint64_t now, int status)
{
    expire_work_list(requests, &requests->todo, now, status);
    expire_work_list(requests, &requests->submitted, now, status);
    expire_work_list(requests, &requests->reads, now, status);
    expire_work_list(requests, &requests->confirming, now, status);
    expire_work_list(requests, &requests->confirmed, now, status);
}

/* --- commands --- */

static const struct buf *payload_of(const struct work *work)
{
    return work->local != NULL ? &work->local->payload : &work->payload;
}

/* One submit of what waits, as much as fits. False when no more can be taken now. */
static bool submit_some(struct requests *requests)
{
    struct driver_command commands[LIMIT_ENTRIES_PER_FRAME];
    struct work *work;
    uint64_t index = 0;
    uint64_t term = 0;
    size_t bytes = 0;
    unsigned n = 0;

    TAILQ_FOREACH (work, &requests->todo, link) {
        const struct buf *payload = payload_of(work);

        if (n == LIMIT_ENTRIES_PER_FRAME || (n > 0 && bytes + payload->len > LIMIT_ENTRY_BYTES)) {
            break;
        }
        commands[n++] = (struct driver_command){payload->data, payload->len};
        bytes += payload->len;
    }
    if (n == 0 || driver_submit(requests->driver, commands, n, &index, &term) != 0) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        work = TAILQ_FIRST(&requests->todo);
        TAILQ_REMOVE(&requests->todo, work, link);
        work->index = index + i;
        work->term = term;
        TAILQ_INSERT_TAIL(&requests->submitted, work, link);
    }
    return true;
}

static void submit_todo(struct requests *requests)
{
    struct work *work;

    if (requests->disk->ops->low(requests->disk)) {
        while ((work = TAILQ_FIRST(&requests->todo)) != NULL) {
            TAILQ_REMOVE(&requests->todo, work, link);
            finish(requests, work, ERR_DISK_FULL, NULL, 0);
        }
        return;
    }
    while (!TAILQ_EMPTY(&requests->todo) && submit_some(requests)) {
        continue;
    }
}

void requests_applied(struct requests *requests, uint64_t index, uint64_t term, const void *result,
                      size_t len)
{
    struct work *work;

    while ((work = TAILQ_FIRST(&requests->submitted)) != NULL && work->index <= index) {
        TAILQ_REMOVE(&requests->submitted, work, link);
        if (work->index == index && work->term == term) {
            finish_applied(requests, work, result, len);
        } else {
            give_back(requests, work); /* another entry took its place */
        }
    }
}

/* --- queries --- */

static bool is_voter(const struct driver *driver, uint64_t id, unsigned *ret_voters)
{
    const struct configuration *configuration = driver_configuration(driver);
    bool found = false;

    *ret_voters = 0;
    for (unsigned i = 0; i < configuration->count; i++) {
        if (configuration->members[i].role == ROLE_VOTER) {
            (*ret_voters)++;
            found = found || configuration->members[i].id == id;
        }
    }
    return found;
}

/* Forget the words of those who are no voters any more. */
static void drop_acks_of_others(struct requests *requests)
{
    unsigned kept = 0;
    unsigned voters;

    for (unsigned i = 0; i < requests->ack_count; i++) {
        if (is_voter(requests->driver, requests->acks[i], &voters)) {
            requests->acks[kept++] = requests->acks[i];
        }
    }
    requests->ack_count = kept;
}

/* Looked at in each turn, not only when a word comes: with one voter less, those that came may be a
 * majority. */
static void round_done_if_majority(struct requests *requests)
{
    unsigned voters;
    unsigned own = is_voter(requests->driver, requests->driver->config.node_id, &voters);
    struct work *work;

    if (!requests->round_active) {
        return;
    }
    drop_acks_of_others(requests);
    if (requests->ack_count + own < voters / 2 + 1) {
        return;
    }
    requests->round_active = false;
    while ((work = TAILQ_FIRST(&requests->confirming)) != NULL) {
        TAILQ_REMOVE(&requests->confirming, work, link);
        work->index = requests->round_index;
        TAILQ_INSERT_TAIL(&requests->confirmed, work, link);
    }
}

static void send_round(struct requests *requests)
{
    const struct configuration *configuration = driver_configuration(requests->driver);
    struct wire_confirm confirm = {driver_term(requests->driver), requests->round};

    requests->round_sent_ms = clock_now_ms(requests->clock);
    for (unsigned i = 0; i < configuration->count; i++) {
        struct buf frame = BUF_INIT;

        if (configuration->members[i].id == requests->driver->config.node_id) {
            continue;
        }
        wire_confirm_encode(&confirm, &frame);
        (void)requests->net->ops->send(requests->net, configuration->members[i].id, FRAME_CONFIRM,
                                       &frame);
        buf_free(&frame);
    }
}

static void turn_reads(struct requests *requests)
{
    uint64_t now = clock_now_ms(requests->clock);

    if (requests->round_active &&
        now - requests->round_sent_ms >= requests->driver->config.heartbeat_ms) {
        send_round(requests); /* a frame may have been lost; acks that came stay counted */
    }
    if (!requests->round_active && !TAILQ_EMPTY(&requests->reads)) {
        TAILQ_CONCAT(&requests->confirming, &requests->reads, link);
        requests->round++;
        requests->round_active = true;
        requests->round_index = requests->driver->commit;
        requests->ack_count = 0;
        send_round(requests);
    }
    round_done_if_majority(requests);
}

static void answer_confirmed(struct requests *requests)
{
    struct work *work;
    struct work *next;

    for (work = TAILQ_FIRST(&requests->confirmed); work != NULL; work = next) {
        const struct buf *query = payload_of(work);
        struct buf reply = BUF_INIT;
        int rv;

        next = TAILQ_NEXT(work, link);
        if (work->index > driver_applied(requests->driver)->index) {
            continue;
        }
        rv = work->kind == WIRE_REQUEST_MEMBER
                 ? membership_ask(requests->membership, query->data, query->len, &reply)
                 : fsm_query(requests->fsm, query->data, query->len, &reply);
        TAILQ_REMOVE(&requests->confirmed, work, link);
        finish(requests, work, rv, reply.data, reply.len);
        buf_free(&reply);
    }
}

bool requests_receive_confirm(struct requests *requests, uint64_t from, const uint8_t *payload,
                              size_t len)
{
    struct wire_confirm confirm;
    struct buf frame = BUF_INIT;

    if (wire_confirm_decode(payload, len, &confirm) != 0) {
        return false;
    }
    if (!driver_believes_term(requests->driver, from, "confirm_term", confirm.term)) {
        return false;
    }
    if (confirm.term == driver_term(requests->driver)) {
        wire_confirm_encode(&confirm, &frame);
        (void)requests->net->ops->send(requests->net, from, FRAME_CONFIRM_ACK, &frame);
        buf_free(&frame);
    }
    return true;
}

bool requests_receive_ack(struct requests *requests, uint64_t from, const uint8_t *payload,
                          size_t len)
{
    struct wire_confirm confirm;
    unsigned voters;

    if (wire_confirm_decode(payload, len, &confirm) != 0) {
        return false;
    }
    if (!driver_believes_term(requests->driver, from, "confirm_term", confirm.term)) {
        return false;
    }
    if (!requests->round_active || confirm.round != requests->round ||
        confirm.term != driver_term(requests->driver) ||
        !is_voter(requests->driver, from, &voters)) {
        return true;
    }
    for (unsigned i = 0; i < requests->ack_count; i++) {
        if (requests->acks[i] == from) {
            return true;
        }
    }
    drop_acks_of_others(requests);
    ASSERT(requests->ack_count < LIMIT_NODES);
    requests->acks[requests->ack_count++] = from;
    round_done_if_majority(requests);
    return true;
}

void requests_leader_turn(struct requests *requests)
{
    if (driver_leads(requests->driver) && !requests->transferring) {
        submit_todo(requests);
        turn_reads(requests);
    }
    answer_confirmed(requests);
}
