/*
 * serving.c - see serving.h. Thread: the raft loop.
 */
#include "raft/cluster/serving.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/id/codec/command.h"

/* So large a command takes the disks, the links and the state machines for a while. Whatever comes
 * meanwhile has to wait for at most one of them. */
#define LARGE_BYTES (64 << 10)

/* A request on its way. */
struct work {
    TAILQ_ENTRY(work) link;
    struct work_list *list; /* on which it is */
    struct serving *serving;
    enum wire_request_kind kind;
    struct id_request *local; /* NULL: remote, or its client gave up */
    uint64_t from;            /* remote: node and its number; 0: nobody waits for it */
    uint64_t id;
    struct timer deadline; /* remote: its sender's; a local one has its own */
    struct buf payload;    /* remote's own; a local one's is in the request */
    uint64_t adds_bytes;   /* that the state may grow by; of a command that is admitted */
    bool admitted;         /* there is memory for it */
    uint64_t index;        /* submitted: its entry; confirmed: what must be applied */
    uint64_t term;
};

enum wire_request_kind serving_wire_kind(const struct id_request *request)
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

/* --- work --- */

static void put(struct work *work, struct work_list *list)
{
    work->list = list;
    TAILQ_INSERT_TAIL(list, work, link);
}

static void move(struct work *work, struct work_list *list)
{
    ASSERT(work->list != list);
    TAILQ_REMOVE(work->list, work, link);
    put(work, list);
}

static void work_free(struct work *work)
{
    struct serving *serving = work->serving;

    ASSERT(serving->count > 0 && serving->adds_bytes >= work->adds_bytes);
    serving->count--;
    serving->adds_bytes -= work->adds_bytes;
    TAILQ_REMOVE(work->list, work, link);
    if (work->local != NULL) {
        work->local->work = NULL;
    }
    timer_cancel(serving->on->timers, &work->deadline);
    buf_free(&work->payload);
    free(work);
}

static const struct buf *payload_of(const struct work *work)
{
    return work->local != NULL ? &work->local->payload : &work->payload;
}

/* Answer, if anybody waits, and free it. Who sent a command may not have applied it itself: the
 * answer says where the entry is, and what its tags have become (tag_marks.h). That of a query says
 * which entries it has seen. */
static void finish(struct work *work, int status, uint64_t index, const void *reply, size_t len)
{
    struct serving *serving = work->serving;
    struct id_request *local = work->local;
    struct wire_reply wire = {
        .id = work->id, .status = status, .index = index, .payload = reply, .payload_len = len};
    struct buf marks = BUF_INIT;

    if (work->from != 0) {
        if (index != 0 && work->kind == WIRE_REQUEST_COMMAND) {
            fsm_tag_marks(serving->on->fsm, work->payload.data, work->payload.len, &marks);
        }
        wire.marks = marks.data;
        wire.marks_len = marks.len;
        (void)ground_send_reply(serving->on, work->from, FRAME_REPLY, &wire);
        buf_free(&marks);
    }
    work_free(work);
    if (local != NULL) {
        serving->owner->answered(serving->owner, local, status, index, reply, len);
    }
}

/* This node cannot serve it: let it find the leader. */
static void give_back(struct work *work)
{
    struct serving *serving = work->serving;
    struct id_request *local = work->local;

    if (local == NULL) {
        finish(work, ERR_NOT_LEADER, 0, NULL, 0);
        return;
    }
    work_free(work);
    serving->owner->given_back(serving->owner, local);
}

/* Nobody waits for it any more. An entry that is in the log keeps its place. */
static void abandon(struct work *work)
{
    if (work->local != NULL) {
        work->local->work = NULL;
    }
    work->local = NULL;
    work->from = 0;
    if (work->list != &work->serving->submitted) {
        work_free(work);
    }
}

static void on_deadline(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    abandon(CONTAINER(timer, struct work, deadline));
}

static struct work *work_new(struct serving *serving, enum wire_request_kind kind)
{
    struct work *work = calloc(1, sizeof *work);

    ASSERT(work != NULL);
    work->serving = serving;
    work->kind = kind;
    timer_init(&work->deadline, on_deadline);
    put(work, kind == WIRE_REQUEST_COMMAND ? &serving->todo : &serving->reads);
    serving->count++;
    return work;
}

/* Its payload is there: to which list does it belong? */
static void sort_by_size(struct work *work)
{
    if (work->kind == WIRE_REQUEST_COMMAND && payload_of(work)->len >= LARGE_BYTES) {
        move(work, &work->serving->large);
    }
}

void serving_take(struct serving *serving, struct id_request *request)
{
    struct work *work = work_new(serving, serving_wire_kind(request));

    ASSERT(request->work == NULL && !serving->holding && !serving->on->stopping);
    /* This node's own parts ask the level before they write what it brought. */
    ASSERT_IMPLIES(request->kind == ID_REQUEST_COMMAND && request->payload.len > 1,
                   command_since(request->payload.data[1]) <= fsm_level(serving->on->fsm));
    work->local = request;
    request->work = work;
    sort_by_size(work);
}

void serving_abandon(struct serving *serving, struct id_request *request)
{
    struct work *work = request->work;

    ASSERT(work != NULL && work->serving == serving && work->local == request);
    abandon(work);
}

/* --- what peers send --- */

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
    case COMMAND_LEVEL:
    case COMMAND_MEMBER_BEGIN:
    case COMMAND_MEMBER_END:
    case COMMAND_MEMBER_MOVE:
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

/* Nothing goes into the log that a member may not be able to read: neither what this leafd does not
 * know nor what is above the level in force. */
static bool may_be_appended(const struct serving *serving, const struct wire_request *wire)
{
    struct command command;

    return wire->kind != WIRE_REQUEST_COMMAND ||
           (command_read(wire->payload, wire->payload_len, &command) == 0 &&
            command_since((int)command.type) <= fsm_level(serving->on->fsm));
}

/* 0, or why it is not taken. */
static int check(const struct serving *serving, uint64_t from, const struct wire_request *wire)
{
    struct driver *driver = serving->on->driver;

    /* Whoever passes on a request vouches for its origin, which has to be a member. */
    if (!driver_is_leader(driver) || serving->holding || serving->on->stopping ||
        (wire->origin != 0 && driver_member(driver, wire->origin) == NULL)) {
        return ERR_NOT_LEADER;
    }
    if (is_for_leaders_alone(wire) ||
        !is_stamped_by(wire, wire->origin != 0 ? wire->origin : from) ||
        !may_be_appended(serving, wire)) {
        return ERR_REFUSED;
    }
    return serving->count >= LIMIT_REQUESTS_PENDING ? ERR_OVERLOADED : 0;
}

void serving_receive(struct serving *serving, uint64_t from, const struct wire_request *wire)
{
    int rv = check(serving, from, wire);
    struct work *work;

    if (rv != 0) {
        ground_refuse(serving->on, from, wire->id, rv);
        return;
    }
    work = work_new(serving, wire->kind);
    work->from = from;
    work->id = wire->id;
    buf_put(&work->payload, wire->payload, wire->payload_len);
    sort_by_size(work);
    timer_arm(serving->on->timers, &work->deadline,
              ground_now_ms(serving->on) + wire->time_left_ms);
}

/* --- is this node still the leader? --- */

static void ask(struct serving *serving)
{
    struct read_round *round = &serving->round;
    const struct ground *on = serving->on;
    const struct configuration *conf = driver_configuration(on->driver);
    const struct wire_confirm confirm = {driver_term(on->driver), round->number};

    ASSERT(round->active);
    MEMBER_FOREACH (member, conf) {
        if (member->id != on->node_id) {
            (void)ground_send_confirm(on, member->id, FRAME_CONFIRM, &confirm);
        }
    }
    timer_arm(on->timers, &round->again, ground_now_ms(on) + on->driver->config.heartbeat_ms);
}

static void on_again(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    ask(CONTAINER(timer, struct serving, round.again));
}

static void stop_round(struct serving *serving)
{
    serving->round.active = false;
    timer_cancel(serving->on->timers, &serving->round.again);
}

static bool has_acked(const struct read_round *round, uint64_t id)
{
    for (unsigned i = 0; i < LIMIT_NODES && i < round->ack_count; i++) {
        if (round->acks[i] == id) {
            return true;
        }
    }
    return false;
}

/* True once: the round that was active has a majority, and is over. Asked in each turn, since with
 * one voter less the answers that came may be a majority. */
static bool round_is_done(struct serving *serving)
{
    const struct configuration *conf = driver_configuration(serving->on->driver);
    const struct read_round *round = &serving->round;
    unsigned voters = 0;
    unsigned confirmed = 0;

    if (!round->active) {
        return false;
    }
    MEMBER_FOREACH (member, conf) {
        if (member->role == ROLE_VOTER) {
            voters++;
            confirmed += member->id == serving->on->node_id || has_acked(round, member->id);
        }
    }
    ASSERT(confirmed <= voters);
    if (confirmed < voters / 2 + 1) {
        return false;
    }
    stop_round(serving);
    return true;
}

bool serving_receive_confirm(struct serving *serving, uint64_t from, enum frame_type type,
                             const uint8_t *payload, size_t len)
{
    struct read_round *round = &serving->round;
    struct wire_confirm confirm;

    if (wire_confirm_decode(payload, len, &confirm) != 0 ||
        !trust_term(&serving->on->driver->trust, from, "confirm_term", confirm.term)) {
        return false;
    }
    if (confirm.term != driver_term(serving->on->driver)) {
        return true;
    }
    if (type == FRAME_CONFIRM) {
        (void)ground_send_confirm(serving->on, from, FRAME_CONFIRM_ACK, &confirm);
    } else if (round->active && confirm.round == round->number && !has_acked(round, from)) {
        round->acks[round->ack_count++ % LIMIT_NODES] = from;
    }
    return true;
}

/* --- all back --- */

static void give_back_list(struct work_list *list)
{
    while (!TAILQ_EMPTY(list)) {
        give_back(TAILQ_LAST(list, work_list));
    }
}

void serving_reset(struct serving *serving)
{
    /* The oldest last: each goes to the front of what its owner has waiting. */
    give_back_list(&serving->reads);
    give_back_list(&serving->in_round);
    give_back_list(&serving->confirmed);
    give_back_list(&serving->todo);
    give_back_list(&serving->large);
    serving->large_index = 0;
    /* Their outcome is unknown: they may commit under the next leader. All may be repeated. */
    give_back_list(&serving->submitted);
    stop_round(serving);
    ASSERT_IMPLIES(serving->on->stopping, serving->count == 0);
}

/* --- commands --- */

/* One submit of what waits on a list, at most so many and as much as fits. False when no more can
 * be taken now. */
static bool submit_some(struct serving *serving, struct work_list *list, unsigned max)
{
    struct driver_command commands[LIMIT_ENTRIES_PER_FRAME];
    struct work *work;
    uint64_t index = 0;
    uint64_t term = 0;
    size_t bytes = 0;
    unsigned n = 0;

    TAILQ_FOREACH (work, list, link) {
        const struct buf *payload = payload_of(work);

        if (n == max || (n > 0 && bytes + payload->len > LIMIT_ENTRY_BYTES)) {
            break;
        }
        commands[n++] = (struct driver_command){payload->data, payload->len};
        bytes += payload->len;
    }
    if (n == 0 || driver_submit(serving->on->driver, commands, n, &index, &term) != 0) {
        return false;
    }
    work = TAILQ_LAST(&serving->submitted, work_list);
    ASSERT(index > 0 && (work == NULL || work->index < index));
    for (unsigned i = 0; i < n; i++) {
        work = TAILQ_FIRST(list);
        work->index = index + i;
        work->term = term;
        move(work, &serving->submitted);
    }
    return true;
}

/* What comes new and would make the state larger than it may be is refused here, before it is in
 * the log: apply knows no bound of one node. Those that were admitted stand first. */
static void admit(struct serving *serving, struct work_list *list)
{
    const struct ground *on = serving->on;
    struct fsm_usage usage;
    struct work *work;
    struct work *before;

    for (work = TAILQ_LAST(list, work_list); work != NULL && !work->admitted; work = before) {
        const struct buf *payload = payload_of(work);
        uint64_t adds_bytes = fsm_adds(on->fsm, payload->data, payload->len);

        before = TAILQ_PREV(work, work_list, link);
        work->admitted = true;
        if (adds_bytes == 0) {
            continue;
        }
        fsm_usage(on->fsm, &usage);
        if (usage.bytes + serving->adds_bytes + adds_bytes > on->memory_bytes) {
            finish(work, ERR_STATE_FULL, 0, NULL, 0);
        } else {
            work->adds_bytes = adds_bytes;
            serving->adds_bytes += adds_bytes;
        }
    }
}

static void refuse_for_disk(struct work_list *list)
{
    while (!TAILQ_EMPTY(list)) {
        finish(TAILQ_FIRST(list), ERR_DISK_FULL, 0, NULL, 0);
    }
}

/* One of the large ones, once the last one is applied. */
static void submit_large(struct serving *serving)
{
    struct work *work = TAILQ_FIRST(&serving->large);

    if (work != NULL && serving->large_index <= driver_applied(serving->on->driver)->index &&
        submit_some(serving, &serving->large, 1)) {
        serving->large_index = work->index;
    }
}

static void submit_todo(struct serving *serving)
{
    if (serving->on->memory_bytes > 0) {
        admit(serving, &serving->todo);
        admit(serving, &serving->large);
    }
    if (driver_disk_is_low(serving->on->driver)) {
        refuse_for_disk(&serving->todo);
        refuse_for_disk(&serving->large);
        return;
    }
    while (!TAILQ_EMPTY(&serving->todo) &&
           submit_some(serving, &serving->todo, LIMIT_ENTRIES_PER_FRAME)) {
        continue;
    }
    submit_large(serving);
}

void serving_applied(struct serving *serving, uint64_t index, uint64_t term, const void *result,
                     size_t len)
{
    struct work *work;

    while ((work = TAILQ_FIRST(&serving->submitted)) != NULL && work->index <= index) {
        if (work->index == index && work->term == term) {
            finish(work, 0, index, result, len);
        } else {
            give_back(work); /* another entry took its place */
        }
    }
}

/* --- queries --- */

static void begin_round(struct serving *serving)
{
    struct read_round *round = &serving->round;

    if (!round->active && !TAILQ_EMPTY(&serving->reads)) {
        while (!TAILQ_EMPTY(&serving->reads)) {
            move(TAILQ_FIRST(&serving->reads), &serving->in_round);
        }
        round->number++;
        round->active = true;
        round->index = serving->on->driver->commit;
        round->ack_count = 0;
        ask(serving);
    }
}

static void end_round(struct serving *serving)
{
    struct work *work;

    if (round_is_done(serving)) {
        work = TAILQ_LAST(&serving->confirmed, work_list);
        ASSERT(work == NULL || work->index <= serving->round.index);
        while ((work = TAILQ_FIRST(&serving->in_round)) != NULL) {
            work->index = serving->round.index;
            move(work, &serving->confirmed);
        }
    }
}

/* They stand in the order of their rounds, and so of their indexes. */
static void answer_confirmed(struct serving *serving)
{
    struct work *work;

    while ((work = TAILQ_FIRST(&serving->confirmed)) != NULL &&
           work->index <= driver_applied(serving->on->driver)->index) {
        const struct buf *query = payload_of(work);
        struct buf reply = BUF_INIT;
        int rv = work->kind == WIRE_REQUEST_MEMBER
                     ? membership_answer(serving->membership, query->data, query->len, &reply)
                     : fsm_query(serving->on->fsm, query->data, query->len, &reply);

        finish(work, rv, work->index, reply.data, reply.len);
        buf_free(&reply);
    }
}

void serving_turn(struct serving *serving)
{
    end_round(serving);
    if (driver_leads(serving->on->driver) && !serving->holding) {
        submit_todo(serving);
        begin_round(serving);
        end_round(serving); /* a sole voter needs nobody's word */
    }
    answer_confirmed(serving);
}

void serving_init(struct serving *serving, const struct ground *on, struct serving_owner *owner,
                  struct membership *membership, uint64_t seed)
{
    *serving = (struct serving){.on = on, .owner = owner, .membership = membership};
    TAILQ_INIT(&serving->todo);
    TAILQ_INIT(&serving->large);
    TAILQ_INIT(&serving->submitted);
    TAILQ_INIT(&serving->reads);
    TAILQ_INIT(&serving->in_round);
    TAILQ_INIT(&serving->confirmed);
    serving->round.number = seed >> 16;
    timer_init(&serving->round.again, on_again);
}
