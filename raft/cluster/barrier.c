/*
 * barrier.c - see barrier.h. Thread: the raft loop.
 */
#include "raft/cluster/barrier.h"

#include "src/base/assert.h"
#include "src/base/container.h"

#define ASK_AGAIN_MS 20

/* --- the members --- */

/* Lower bound of the index that a member has applied. */
static uint64_t applied_by(const struct barrier *barrier, uint64_t id)
{
    return id == barrier->on->node_id ? driver_applied(barrier->on->driver)->index
                                      : context_peer(barrier->on, id)->applied;
}

/* The members to wait for. A change may never be committed: until it is, a member that it removes
 * still hands out ids, and is waited for. */
static struct configuration barrier_members_of(const struct barrier *barrier)
{
    struct configuration applied;

    applier_configured(&barrier->on->driver->applier, &applied);
    return applied;
}

/* The index that all have applied. */
static uint64_t applied_by_all(const struct barrier *barrier)
{
    const struct configuration conf = barrier_members_of(barrier);
    uint64_t least = driver_applied(barrier->on->driver)->index;

    MEMBER_FOREACH (member, &conf) {
        uint64_t applied = applied_by(barrier, member->id);

        least = applied < least ? applied : least;
    }
    return least;
}

void barrier_link_changed(struct barrier *barrier, uint64_t peer)
{
    struct peer_row *row = context_peer(barrier->on, peer);

    if (row != NULL) {
        row->applied = 0;
    }
}

/* --- frames --- */

bool barrier_receive(struct barrier *barrier, uint64_t from, const uint8_t *payload, size_t len)
{
    struct configuration conf;
    struct wire_applied message;

    if (wire_applied_decode(payload, len, &message) != 0 ||
        !trust_index(&barrier->on->driver->trust, from, "applied_index", message.index)) {
        return false;
    }
    if (!message.answer) {
        message = (struct wire_applied){true, driver_applied(barrier->on->driver)->index};
        (void)context_send_applied(barrier->on, from, FRAME_APPLIED, &message);
        return true;
    }
    conf = barrier_members_of(barrier);
    if (configuration_find(&conf, from) == NULL) {
        return true; /* perhaps a node of a newer configuration: nothing waits for it here */
    }
    context_wake(barrier->on, WAKE_BARRIER);
    context_peer(barrier->on, from)->applied = message.index;
    return true;
}

/* --- requests --- */

/* The request is on no list. If it failed, it must name the missing members. */
static void barrier_finish(struct barrier *barrier, struct cluster_request *request, int status)
{
    const struct configuration conf = barrier_members_of(barrier);
    struct missing_members *missing = request->missing;
    uint64_t self = barrier->on->node_id;
    uint64_t index = request->index;

    if (status == 0) {
        answers_put(barrier->on->answers, request, 0);
        return;
    }
    missing->count = 0;
    if (applied_by(barrier, self) < index) { /* it may no longer be a member */
        missing->nodes[missing->count].id = self;
        missing->nodes[missing->count++].reachable = true;
    }
    MEMBER_FOREACH (member, &conf) {
        if (member->id != self && applied_by(barrier, member->id) < index) {
            ASSERT(missing->count <= LIMIT_NODES);
            missing->nodes[missing->count].id = member->id;
            missing->nodes[missing->count++].reachable = context_reaches(barrier->on, member->id);
        }
    }
    answers_put(barrier->on->answers, request, status);
}

static void barrier_leave(struct barrier *barrier, struct cluster_request *request, int status)
{
    ASSERT(barrier->count > 0);
    TAILQ_REMOVE(&barrier->waits, request, link);
    barrier->count--;
    timer_cancel(barrier->on->timers, &request->deadline);
    if (barrier->count == 0) {
        timer_cancel(barrier->on->timers, &barrier->ask_again);
    }
    barrier_finish(barrier, request, status);
}

static void barrier_deadline_cb(struct timer *timer, uint64_t now_ms)
{
    struct cluster_request *request = CONTAINER(timer, struct cluster_request, deadline);

    struct barrier *barrier = request->holder;

    (void)now_ms;
    ASSERT(request->kind == CLUSTER_REQUEST_BARRIER);
    /* Since the last turn the last member may have answered, or have been removed: then no member
     * is missing. */
    barrier_leave(barrier, request, request->index <= applied_by_all(barrier) ? 0 : ERR_TIMEOUT);
}

void barrier_submit(struct barrier *barrier, struct cluster_request *request)
{
    struct cluster_request *before = TAILQ_LAST(&barrier->waits, cluster_request_list);

    ASSERT(request->kind == CLUSTER_REQUEST_BARRIER && request->missing != NULL);
    if (barrier->count >= LIMIT_BARRIER_WAITS) {
        barrier_finish(barrier, request, ERR_OVERLOADED);
        return;
    }
    /* Insert in order; requests mostly come in order. */
    while (before != NULL && before->index > request->index) {
        before = TAILQ_PREV(before, cluster_request_list, link);
    }
    if (before == NULL) {
        TAILQ_INSERT_HEAD(&barrier->waits, request, link);
    } else {
        TAILQ_INSERT_AFTER(&barrier->waits, before, request, link);
    }
    barrier->count++;
    request->holder = barrier;
    timer_init(&request->deadline, barrier_deadline_cb);
    timer_arm(barrier->on->timers, &request->deadline, request->deadline_ms);
    context_wake(barrier->on, WAKE_BARRIER);
}

void barrier_turn(struct barrier *barrier)
{
    const struct wire_applied question = {.answer = false};
    struct configuration conf;
    struct cluster_request *request;
    uint64_t all;
    uint64_t highest;

    if (barrier->count == 0) {
        return;
    }
    all = applied_by_all(barrier);
    while ((request = TAILQ_FIRST(&barrier->waits)) != NULL && request->index <= all) {
        barrier_leave(barrier, request, 0);
    }
    if (barrier->count == 0 || timer_is_armed(&barrier->ask_again)) {
        return;
    }
    conf = barrier_members_of(barrier);
    highest = TAILQ_LAST(&barrier->waits, cluster_request_list)->index;
    MEMBER_FOREACH (member, &conf) {
        if (member->id != barrier->on->node_id && applied_by(barrier, member->id) < highest) {
            (void)context_send_applied(barrier->on, member->id, FRAME_APPLIED, &question);
        }
    }
    context_arm_in(barrier->on, &barrier->ask_again, ASK_AGAIN_MS);
}

void barrier_init(struct barrier *barrier, const struct raft_context *on)
{
    *barrier = (struct barrier){.on = on, .ask_again.wakes = WAKE_BARRIER};
    TAILQ_INIT(&barrier->waits);
}

void barrier_stop(struct barrier *barrier)
{
    struct cluster_request *request;

    while ((request = TAILQ_FIRST(&barrier->waits)) != NULL) {
        barrier_leave(barrier, request, ERR_SHUTTING_DOWN);
    }
}
