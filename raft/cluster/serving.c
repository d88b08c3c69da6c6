/*
 * serving.c - see serving.h. Thread: the raft loop.
 */
#include "raft/cluster/serving.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"

/* --- rounds --- */

void rounds_stop(struct rounds *rounds)
{
    rounds->abandoned_count += rounds->number - rounds->confirmed;
    rounds->confirmed = rounds->number; /* what was answered up to here confirms no later round */
    rounds->look = 0;
    rounds->quickest_count = 0;
    timer_cancel(rounds->on->timers, &rounds->late);
}

/* R4: the answers are of this term, or there are none. */
static void follow_term(struct rounds *rounds)
{
    uint64_t term = driver_term(rounds->on->driver);

    if (rounds->term != term) {
        rounds_stop(rounds);
        rounds->term = term;
    }
}

/* --- whom to ask --- */

static bool ask_one(struct rounds *rounds, uint64_t id)
{
    const struct wire_confirm confirm = {rounds->term, rounds->number};

    if (context_send_confirm(rounds->on, id, FRAME_CONFIRM, &confirm) != 0) {
        return false;
    }
    context_peer(rounds->on, id)->round_asked = rounds->number;
    return true;
}

/* Ask all that were not asked the newest round; or all, once more. */
static void ask_all(struct rounds *rounds, bool once_more)
{
    const struct configuration *conf = driver_configuration(rounds->on->driver);

    MEMBER_FOREACH (member, conf) {
        if (member->id != rounds->on->node_id &&
            (once_more || context_peer(rounds->on, member->id)->round_asked < rounds->number)) {
            (void)ask_one(rounds, member->id);
        }
    }
    rounds->all_asked = true;
}

static void begin_look(struct rounds *rounds)
{
    rounds->look = rounds->number;
    rounds->look_ms = context_now_ms(rounds->on);
    rounds->quickest_count = 0;
}

/* Watch whether the newest round is confirmed in time, unless an earlier one is watched. */
static void watch(struct rounds *rounds)
{
    const struct raft_context *on = rounds->on;
    uint64_t due_ms = context_now_ms(on) + (rounds->all_asked ? on->driver->config.heartbeat_ms
                                                              : (uint64_t)ROUND_HEDGE_MS);

    if (!timer_is_armed(&rounds->late) || due_ms < rounds->late.due_ms) {
        rounds->watched = rounds->number;
        timer_arm(on->timers, &rounds->late, due_ms);
    }
}

static void on_late(struct timer *timer, uint64_t now_ms)
{
    struct rounds *rounds = CONTAINER(timer, struct rounds, late);

    (void)now_ms;
    if (rounds->confirmed == rounds->number) {
        return;
    }
    if (rounds->confirmed < rounds->watched) {
        const bool once_more = rounds->all_asked;

        begin_look(rounds);
        ask_all(rounds, once_more);
    }
    watch(rounds);
}

/* --- answers --- */

bool rounds_receive(struct rounds *rounds, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len)
{
    struct driver *driver = rounds->on->driver;
    struct wire_confirm confirm;
    struct peer_row *row;

    if (wire_confirm_decode(payload, len, &confirm) != 0 ||
        !trust_term(&driver->trust, from, "confirm_term", confirm.term)) {
        return false;
    }
    if (confirm.term != driver_term(driver)) {
        return true; /* R5 */
    }
    if (type == FRAME_CONFIRM) {
        (void)context_send_confirm(rounds->on, from, FRAME_CONFIRM_ACK, &confirm);
        return true;
    }
    follow_term(rounds);
    if (confirm.round > rounds->number || driver_member(driver, from) == NULL) {
        return true; /* it was not asked that */
    }
    row = context_peer(rounds->on, from);
    if (row->round_answered < confirm.round) {
        row->round_answered = confirm.round;
        context_wake(rounds->on, WAKE_REQUESTS);
    }
    if (confirm.round < rounds->look || rounds->look == 0) {
        return true;
    }
    for (unsigned i = 0; i < rounds->quickest_count; i++) {
        if (rounds->quickest[i] == from) {
            return true;
        }
    }
    if (rounds->quickest_count < LIMIT_NODES) {
        rounds->quickest[rounds->quickest_count++] = from;
    }
    return true;
}

/* Commands above this size keep the disks, the links and the state machines busy for a while. Other
 * requests wait for at most one of them. Even if many clients send such commands in a row, there is
 * time between them. 10,000 tags are some 450 KB. */
#define LARGE_BYTES (64 << 10)
#define LARGE_BYTES_A_MS (4 << 10)
#define LARGE_AGAIN_MS 10 /* interval to check whether the disk is done with the last one */

/* A request on its way. */
struct work {
    TAILQ_ENTRY(work) link;
    struct work_list *list; /* that it is on */
    struct serving *serving;
    unsigned kind;                 /* enum cluster_request_kind */
    struct cluster_request *local; /* NULL: remote, or its client gave up */
    uint64_t from;                 /* remote: node and its number; 0: no node waits for it */
    uint64_t id;
    struct timer deadline; /* remote: its sender's; a local one has its own */
    struct buf payload;    /* remote's own; a local one's is in the request */
    uint64_t adds_bytes;   /* possible growth of the state; of an admitted command */
    bool admitted;         /* there is memory for it */
    uint64_t index;        /* submitted: its entry; confirmed: what must be applied */
    uint64_t term;         /* of the entry, or in which its round began */
    uint64_t round;        /* that confirms it */
    struct buf entry;      /* LEADER: what the service has appended for it */
    struct buf kept;       /* and the reply until that is applied; of a large one, its result */
    bool waited;           /* large and done: a turn has passed */
};

/* --- work --- */

static void move(struct work *work, struct work_list *list)
{
    ASSERT(work->list != list);
    TAILQ_REMOVE(work->list, work, link);
    work->list = list;
    TAILQ_INSERT_TAIL(list, work, link);
}

static void work_free(struct work *work)
{
    struct serving *serving = work->serving;

    ASSERT(serving->count > 0 && serving->adds_bytes >= work->adds_bytes);
    serving->count--;
    serving->adds_bytes -= work->adds_bytes;
    serving->leader_bytes -= work->kind == CLUSTER_REQUEST_LEADER ? work->payload.len : 0;
    TAILQ_REMOVE(work->list, work, link);
    if (work->local != NULL) {
        work->local->work = NULL;
    }
    timer_cancel(serving->on->timers, &work->deadline);
    buf_free(&work->payload);
    buf_free(&work->entry);
    buf_free(&work->kept);
    free(work);
}

static const struct buf *payload_of(const struct work *work)
{
    return work->local != NULL ? &work->local->payload : &work->payload;
}

/* The entry to append for it. */
static const struct buf *entry_of(const struct work *work)
{
    return work->entry.len > 0 ? &work->entry : payload_of(work);
}

/* Answer, if a request waits, and free it. The sender of a command may not have applied it itself:
 * the answer has the entry's index, and what it made old (service_ops.marks). The answer to a query
 * has the index that it reflects. */
static void serving_finish(struct work *work, int status, uint64_t index, const void *reply,
                           size_t len)
{
    struct serving *serving = work->serving;
    struct cluster_request *local = work->local;
    struct wire_reply wire = {
        .id = work->id, .status = status, .index = index, .payload = reply, .payload_len = len};
    struct buf marks = BUF_INIT;

    if (work->from != 0) {
        if (index != 0 && work->kind == CLUSTER_REQUEST_COMMAND) {
            serving->on->service->ops->marks(serving->on->service, work->payload.data,
                                             work->payload.len, &marks);
            ASSERT(marks.len <= WIRE_MARKS_BYTES_MAX);
        }
        wire.marks = marks.data;
        wire.marks_len = marks.len;
        (void)context_send_reply(serving->on, work->from, FRAME_REPLY, &wire);
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
    struct cluster_request *local = work->local;

    if (local == NULL) {
        serving_finish(work, ERR_NOT_LEADER, 0, NULL, 0);
        return;
    }
    work_free(work);
    serving->owner->given_back(serving->owner, local);
}

void serving_abandon(void *of)
{
    struct work *work = of;

    if (work->local != NULL) {
        work->local->work = NULL;
    }
    work->local = NULL;
    work->from = 0;
    if (work->list != &work->serving->submitted) {
        work_free(work);
    }
}

static void serving_deadline_cb(struct timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    serving_abandon(CONTAINER(timer, struct work, deadline));
}

static struct work *work_new(struct serving *serving, unsigned kind, size_t payload_len)
{
    bool is_large = kind == CLUSTER_REQUEST_COMMAND && payload_len >= LARGE_BYTES;
    struct work *work = MUST_HAVE(calloc(1, sizeof *work));

    work->serving = serving;
    work->kind = kind;
    timer_init(&work->deadline, serving_deadline_cb);
    work->deadline.wakes = WAKE_REQUESTS;
    work->list = is_large                          ? &serving->large
                 : kind == CLUSTER_REQUEST_COMMAND ? &serving->todo
                                                   : &serving->reads;
    TAILQ_INSERT_TAIL(work->list, work, link);
    serving->count++;
    return work;
}

void serving_take(struct serving *serving, struct cluster_request *request)
{
    struct work *work = work_new(serving, request->kind,
                                 request->once ? 0 : request->payload.len); /* never a large one */

    ASSERT(request->work == NULL && !serving->holding && !serving->on->stopping);
    /* This node's own parts check the level before they use its features. */
    ASSERT_IMPLIES(request->kind == CLUSTER_REQUEST_COMMAND && request->payload.len > 1,
                   state_since(serving->on->state, request->payload.data[1]) <=
                       state_level(serving->on->state));
    work->local = request;
    request->work = work;
}

/* --- requests of peers --- */

/* The log gets no entry that a member may be unable to read: neither one that this leafd does not
 * know, nor one above the level in force. And it gets no command of another node that only a leader
 * proposes, by itself: its state's digest, the log's time, the steps of a membership change. One
 * false digest would end every node, at each of its starts. (A node that just lost its lead may
 * send one in good faith; the new leader proposes its own.) Of its placement a node sends only its
 * zone; the rest is set by requests. */
static bool may_be_appended(const struct serving *serving, const struct wire_request *wire)
{
    const struct service *service = serving->on->service;
    struct cluster_command command;

    if (wire->kind == CLUSTER_REQUEST_LEADER) {
        return service->ops->accepts(service, CLUSTER_REQUEST_LEADER, wire->payload,
                                     wire->payload_len);
    }
    if (wire->kind != CLUSTER_REQUEST_COMMAND) {
        return true;
    }
    switch (command_number(wire->payload, wire->payload_len)) {
    case COMMAND_DIGEST:
    case COMMAND_CLOCK:
    case COMMAND_LEVEL:
    case COMMAND_MEMBER_BEGIN:
    case COMMAND_MEMBER_END:
    case COMMAND_MEMBER_MOVE:
        return false;
    case COMMAND_PLACEMENT:
        if (cluster_command_read(wire->payload, wire->payload_len, &command) != 0 ||
            command.placement.set != PLACE_ZONE) {
            return false;
        }
        break;
    default:
        break;
    }
    return state_check(serving->on->state, wire->payload, wire->payload_len) == 0 &&
           state_since(serving->on->state, wire->payload[1]) <= state_level(serving->on->state) &&
           service->ops->accepts(service, CLUSTER_REQUEST_COMMAND, wire->payload,
                                 wire->payload_len);
}

void serving_receive(struct serving *serving, uint64_t from, const struct wire_request *wire)
{
    struct driver *driver = serving->on->driver;
    bool is_change = wire->kind == CLUSTER_REQUEST_COMMAND || wire->kind == CLUSTER_REQUEST_MEMBER;
    struct session_stamp stamp;
    struct work *work;
    int rv = 0;

    if (!driver_is_leader(driver) || serving->holding ||
        (wire->origin != 0 && driver_member(driver, wire->origin) == NULL)) {
        /* A node that passes on a request vouches for its origin, which must be a member. */
        rv = ERR_NOT_LEADER;
    } else if (is_change && (session_stamp_read(wire->payload, wire->payload_len, &stamp) != 0 ||
                             stamp.node_id != (wire->origin != 0 ? wire->origin : from))) {
        /* A change must have the stamp of the requesting node: with another node's stamp it would
         * end that node's session. */
        rv = ERR_REFUSED;
    } else if (!may_be_appended(serving, wire)) {
        rv = ERR_REFUSED;
    } else if (serving->count >= LIMIT_REQUESTS_PENDING ||
               (wire->kind == CLUSTER_REQUEST_LEADER &&
                serving->leader_bytes + wire->payload_len > LIMIT_MONOTONIC_BYTES)) {
        rv = ERR_OVERLOADED;
    }
    if (rv != 0) {
        context_refuse(serving->on, from, wire->id, rv);
        return;
    }
    work = work_new(serving, wire->kind, wire->payload_len);
    work->from = from;
    work->id = wire->id;
    buf_put(&work->payload, wire->payload, wire->payload_len);
    serving->leader_bytes += work->kind == CLUSTER_REQUEST_LEADER ? work->payload.len : 0;
    context_arm_in(serving->on, &work->deadline, wire->time_left_ms);
}

/* --- all back --- */

void serving_reset(struct serving *serving)
{
    /* The oldest last: each goes to the front of its owner's waiting list. The outcome of those
     * that are submitted is unknown: they may commit under the next leader. All may be repeated; of
     * a LEADER request only the request goes back, not the entry that this leader appended for it
     * (R9). */
    struct work_list *const lists[] = {
        &serving->reads, &serving->in_round, &serving->confirmed,  &serving->starved,
        &serving->todo,  &serving->large,    &serving->large_done, &serving->submitted};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        while (!TAILQ_EMPTY(lists[i])) {
            give_back(TAILQ_LAST(lists[i], work_list));
        }
    }
    serving->large_index = 0;
    timer_cancel(serving->on->timers, &serving->large_time);
    rounds_stop(&serving->round);
    serving->on->service->ops->event(serving->on->service, SERVICE_RESET, 0); /* R7 */
    ASSERT_IMPLIES(serving->on->stopping, serving->count == 0);
}

/* --- commands --- */

/* One submit of a list's waiting commands, at most max and as many as fit. False: no more can be
 * taken now. */
static bool submit_some(struct serving *serving, struct work_list *list, unsigned max)
{
    struct buf commands[LIMIT_ENTRIES_PER_FRAME];
    struct work *work;
    uint64_t index = 0;
    uint64_t term = 0;
    size_t bytes = 0;
    unsigned n = 0;

    TAILQ_FOREACH (work, list, link) {
        const struct buf *payload = entry_of(work);

        if (n == max || (n > 0 && bytes + payload->len > LIMIT_ENTRY_BYTES)) {
            break;
        }
        commands[n++] = *payload; /* lent */
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

/* A command that would exceed the state's bound is refused here, before it is in the log: apply
 * cannot use one node's bound. */
static void admit(struct serving *serving, struct work *work)
{
    const struct raft_context *on = serving->on;
    const struct buf *command = entry_of(work);
    uint64_t adds_bytes = 0;
    BUF_LOCAL(reply);

    work->admitted = true;
    if (on->service->ops->admit(on->service, command->data, command->len, &adds_bytes, &reply) ==
        SERVICE_ANSWERS) {
        serving_finish(work, 0, driver_applied(on->driver)->index, reply.data, reply.len);
        return;
    }
    if (on->config->memory_bytes == 0 || adds_bytes == 0) {
        return;
    }
    if (state_memory(on->state) + serving->adds_bytes + adds_bytes > on->config->memory_bytes) {
        serving_finish(work, ERR_STATE_FULL, 0, NULL, 0);
    } else {
        work->adds_bytes = adds_bytes;
        serving->adds_bytes += adds_bytes;
    }
}

/* Submit one large command, once the last one is applied, its pause is over, and its rows are in
 * place: each of these steps takes a whole turn. */
static void submit_large(struct serving *serving)
{
    struct work *work = TAILQ_FIRST(&serving->large);
    struct disk *disk = serving->on->disk;

    if (work == NULL || timer_is_armed(&serving->large_time) ||
        serving->large_index > driver_applied(serving->on->driver)->index) {
        return;
    }
    if (disk->ops->owes != NULL && disk->ops->owes(disk)) { /* rows of the last one */
        context_arm_in(serving->on, &serving->large_time, LARGE_AGAIN_MS);
        return;
    }
    if (serving->large_index > serving->large_seen) {
        serving->large_seen = serving->large_index;
        context_wake(serving->on, WAKE_REQUESTS);
    } else if (!work->admitted) {
        admit(serving, work);
        context_wake(serving->on, WAKE_REQUESTS);
    } else if (submit_some(serving, &serving->large, 1)) {
        serving->large_index = work->index;
        context_wake(serving->on, WAKE_REQUESTS); /* the driver has time while the entry is
                                                     stored */
        context_arm_in(serving->on, &serving->large_time, entry_of(work)->len / LARGE_BYTES_A_MS);
    }
}

void serving_applied(struct serving *serving, uint64_t index, uint64_t term, const void *result,
                     size_t len)
{
    struct service *service = serving->on->service;
    struct work *work;

    while ((work = TAILQ_FIRST(&serving->submitted)) != NULL && work->index <= index) {
        BUF_LOCAL(reply);
        int status;

        if (work->index != index || work->term != term) {
            give_back(work); /* another entry replaced it */
        } else if (work->entry.len > 0 && work->local == NULL && work->from == 0) {
            work_free(work); /* no client waits for it, and its payload may be gone */
        } else if (work->entry.len > 0) {
            /* R9: the result of apply says whether the service's entry is in force. */
            buf_move(&reply, &work->kept);
            status = service->ops->led(service, payload_of(work), result, len, &reply);
            serving_finish(work, status, status == 0 ? work->index : 0, reply.data,
                           status == 0 ? reply.len : 0);
        } else if (work->from != 0 && payload_of(work)->len >= LARGE_BYTES) {
            /* The marks of so many tags take a while: commands that wait for the log come first. */
            buf_put(&work->kept, result, len);
            move(work, &serving->large_done);
        } else {
            serving_finish(work, 0, work->index, result, len);
        }
    }
}

/* --- queries --- */

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x > y ? -1 : x < y;
}

/* Begin one in the current term, for all that wait, unless too many are unanswered. */
static void begin_round(struct serving *serving)
{
    struct rounds *rounds = &serving->round;
    const struct configuration *conf = driver_configuration(rounds->on->driver);
    bool votes = configuration_role(conf, rounds->on->node_id) == ROLE_VOTER;
    /* The number that makes a majority with this node, or without it if it has no vote. */
    unsigned left = configuration_voters(conf) / 2 + (votes ? 0 : 1);
    struct work *work;

    if (TAILQ_EMPTY(&serving->reads) || rounds->number - rounds->confirmed >= LIMIT_ROUNDS) {
        return;
    }
    follow_term(rounds);
    rounds->number++;
    rounds->all_asked = false;
    if (rounds->look == 0 || context_now_ms(rounds->on) >= rounds->look_ms + ROUND_LOOK_MS) {
        begin_look(rounds);
    }
    /* Ask as many as are needed, the quickest first; all, if these are too few. */
    for (unsigned i = 0; i < rounds->quickest_count && left > 0; i++) {
        const struct conf_member *member = configuration_find(conf, rounds->quickest[i]);

        if (member != NULL && member->role == ROLE_VOTER && ask_one(rounds, member->id)) {
            left--;
        }
    }
    if (left > 0) {
        ask_all(rounds, false);
    }
    watch(rounds);
    while ((work = TAILQ_FIRST(&serving->reads)) != NULL) {
        work->round = rounds->number; /* R4: it came before the round began */
        work->term = rounds->term;
        work->index = serving->on->driver->commit;
        move(work, &serving->in_round);
    }
}

/* End the rounds that a majority has answered. In each turn, since with one voter less the present
 * answers may be a majority. */
static void end_rounds(struct serving *serving)
{
    struct rounds *rounds = &serving->round;
    const struct configuration *conf = driver_configuration(rounds->on->driver);
    uint64_t numbers[LIMIT_NODES];
    unsigned voters = 0;
    struct work *work;
    uint64_t answered;

    if (rounds->confirmed == rounds->number) {
        return;
    }
    follow_term(rounds);
    /* R4: the newest round that a majority of the voters has answered; this node, if it is a voter,
     * counts as answered. By the newest configuration. */
    MEMBER_FOREACH (member, conf) {
        if (member->role == ROLE_VOTER && voters < LIMIT_NODES) {
            numbers[voters++] = member->id == rounds->on->node_id
                                    ? rounds->number
                                    : context_peer(rounds->on, member->id)->round_answered;
        }
    }
    qsort(numbers, voters, sizeof *numbers, newest_first);
    answered = voters > 0 ? numbers[voters / 2] : 0;
    if (answered <= rounds->confirmed) {
        return;
    }
    rounds->confirmed_count += answered - rounds->confirmed;
    rounds->confirmed = answered;
    if (rounds->confirmed == rounds->number) {
        timer_cancel(rounds->on->timers, &rounds->late);
    }
    while ((work = TAILQ_FIRST(&serving->in_round)) != NULL && work->round <= answered) {
        move(work, &serving->confirmed);
    }
}

/* --- requests that only the leader of a term answers --- */

/* Answer a confirmed request, or let it wait for an entry to be applied, or for its own. */
static void lead(struct work *work)
{
    struct serving *serving = work->serving;
    struct service *service = serving->on->service;
    BUF_LOCAL(reply);
    struct service_lead_ask ask = {.payload = payload_of(work),
                                   .round_term = work->term,
                                   .term = driver_term(serving->on->driver),
                                   .reply = &reply,
                                   .entry = &work->entry};

    switch (service->ops->lead(service, &ask)) {
    case SERVICE_STALE:
        give_back(work); /* R7 */
        break;
    case SERVICE_WAITS:
        if (serving->no_room) {
            serving_finish(work, ERR_DISK_FULL, 0, NULL, 0);
        } else if (work->list != &serving->starved) {
            move(work, &serving->starved);
        }
        break;
    case SERVICE_APPENDS:
        ASSERT(work->entry.len > 0);
        buf_move(&work->kept, &reply);
        move(work, &serving->todo); /* R9 */
        break;
    case SERVICE_LED:
        serving_finish(work, ask.status, ask.status == 0 ? work->index : 0, reply.data,
                       ask.status == 0 ? reply.len : 0);
        break;
    default:
        UNREACHABLE("what the service says");
    }
}

/* --- answers --- */

/* They are in the order of their rounds, and so of their indexes. */
static bool is_answerable(const struct serving *serving)
{
    const struct work *work = TAILQ_FIRST(&serving->confirmed);

    return work != NULL && work->index <= driver_applied(serving->on->driver)->index;
}

void serving_answer(struct serving *serving)
{
    struct service *service = serving->on->service;
    uint64_t applied = driver_applied(serving->on->driver)->index;
    struct work *work;
    struct work *next;

    end_rounds(serving);
    if (serving->on->driver->halted) {
        return;
    }
    work = TAILQ_FIRST(&serving->starved);
    /* Those that waited longest first, and only if an entry was applied since. */
    if (work != NULL && (serving->starved_at != applied || serving->no_room)) {
        serving->starved_at = applied;
        for (; work != NULL; work = next) {
            next = TAILQ_NEXT(work, link);
            lead(work);
        }
    }
    while (is_answerable(serving)) {
        struct work *first = TAILQ_FIRST(&serving->confirmed);
        const struct buf *query = payload_of(first);
        BUF_LOCAL(reply);
        int rv;

        if (first->kind == CLUSTER_REQUEST_LEADER) {
            lead(first);
            continue;
        }
        rv = first->kind == CLUSTER_REQUEST_MEMBER
                 ? membership_answer(serving->membership, query->data, query->len, &reply)
                 : service->ops->query(service, query->data, query->len, &reply);
        serving_finish(first, rv, first->index, reply.data, reply.len);
    }
}

void serving_turn(struct serving *serving)
{
    const struct driver *driver = serving->on->driver;
    struct work *work = TAILQ_FIRST(&serving->large_done);
    struct work *before;

    if (work != NULL && !driver->halted && work->waited) {
        serving_finish(work, 0, work->index, work->kept.data, work->kept.len);
    } else if (work != NULL && !driver->halted) {
        work->waited = true;
    }
    if (driver_leads(driver) && !serving->holding) { /* R1 */
        /* Admit the new commands: those already admitted are first. */
        for (work = TAILQ_LAST(&serving->todo, work_list); work != NULL && !work->admitted;
             work = before) {
            before = TAILQ_PREV(work, work_list, link);
            admit(serving, work);
        }
        while (serving->no_room && ((work = TAILQ_FIRST(&serving->todo)) != NULL ||
                                    (work = TAILQ_FIRST(&serving->large)) != NULL)) {
            serving_finish(work, ERR_DISK_FULL, 0, NULL, 0);
        }
        while (!TAILQ_EMPTY(&serving->todo) &&
               submit_some(serving, &serving->todo, LIMIT_ENTRIES_PER_FRAME)) {
            continue;
        }
        submit_large(serving);
        begin_round(serving);
        end_rounds(serving); /* a sole voter needs no answers */
    }
    /* Also if there has just become no room for waiting commands. */
    if (!driver->halted &&
        (is_answerable(serving) || (serving->no_room && !TAILQ_EMPTY(&serving->starved)))) {
        serving_answer(serving);
        context_wake(serving->on, WAKE_REQUESTS); /* there may be a command to append */
    }
    if (!TAILQ_EMPTY(&serving->large_done)) {
        context_wake(serving->on, WAKE_REQUESTS);
    }
}

void serving_init(struct serving *serving, const struct raft_context *on,
                  struct serving_owner *owner, struct membership *membership)
{
    const uint64_t first = on->config->driver.seed >> 16;

    *serving = (struct serving){
        .on = on, .owner = owner, .membership = membership, .large_time.wakes = WAKE_REQUESTS};
    TAILQ_INIT(&serving->todo);
    TAILQ_INIT(&serving->large);
    TAILQ_INIT(&serving->large_done);
    TAILQ_INIT(&serving->submitted);
    TAILQ_INIT(&serving->reads);
    TAILQ_INIT(&serving->in_round);
    TAILQ_INIT(&serving->confirmed);
    TAILQ_INIT(&serving->starved);
    /* The numbers are above all of earlier incarnations. */
    serving->round = (struct rounds){.on = on, .number = first, .confirmed = first};
    timer_init(&serving->round.late, on_late);
    serving->round.late.wakes = WAKE_REQUESTS;
}
