/*
 * everywhere.c - see everywhere.h. Thread: the raft loop.
 */
#include "raft/cluster/everywhere.h"

#include "src/base/assert.h"
#include "src/base/container.h"

#define ASK_AGAIN_MS 20

/* --- what is known of the members --- */

static unsigned everywhere_place_of(const struct everywhere *everywhere, uint64_t id)
{
    unsigned at = 0;

    while (at < LIMIT_NODES && everywhere->heard_of[at] != id) {
        at++;
    }
    return at;
}

/* How far a member has applied the log, at least. */
static uint64_t applied_by(const struct everywhere *everywhere, uint64_t id)
{
    unsigned at = everywhere_place_of(everywhere, id);

    if (id == everywhere->on->node_id) {
        return driver_applied(everywhere->on->driver)->index;
    }
    return at < LIMIT_NODES ? everywhere->applied[at] : 0;
}

/* Who is a member. A change that is not committed may never be: until then a member that is to go
 * is waited for, and hands out ids. */
static struct configuration everywhere_members_of(const struct everywhere *everywhere)
{
    struct configuration applied;

    applier_configured(&everywhere->on->driver->applier, &applied);
    return applied;
}

/* How far all have. */
static uint64_t applied_by_all(const struct everywhere *everywhere)
{
    const struct configuration conf = everywhere_members_of(everywhere);
    uint64_t least = driver_applied(everywhere->on->driver)->index;

    MEMBER_FOREACH (member, &conf) {
        uint64_t applied = applied_by(everywhere, member->id);

        least = applied < least ? applied : least;
    }
    return least;
}

/* A place for a member's answer: its own, a free one, or one of a node that is no member any more.
 * There is one, since id is a member, and a configuration names no more than LIMIT_NODES. */
static unsigned everywhere_place_for(const struct everywhere *everywhere,
                                     const struct configuration *conf, uint64_t id)
{
    unsigned at = everywhere_place_of(everywhere, id);

    if (at < LIMIT_NODES) {
        return at;
    }
    at = 0;
    while (configuration_find(conf, everywhere->heard_of[at]) != NULL) {
        at++;
        ASSERT(at < LIMIT_NODES);
    }
    return at;
}

void everywhere_link_changed(struct everywhere *everywhere, uint64_t peer)
{
    unsigned at = everywhere_place_of(everywhere, peer);

    if (at < LIMIT_NODES) {
        everywhere->heard_of[at] = 0;
        everywhere->applied[at] = 0;
    }
}

/* --- frames --- */

bool everywhere_receive(struct everywhere *everywhere, uint64_t from, const uint8_t *payload,
                        size_t len)
{
    struct configuration conf;
    struct wire_applied message;
    unsigned at;

    if (wire_applied_decode(payload, len, &message) != 0 ||
        !trust_index(&everywhere->on->driver->trust, from, "applied_index", message.index)) {
        return false;
    }
    if (!message.answer) {
        message = (struct wire_applied){true, driver_applied(everywhere->on->driver)->index};
        (void)ground_send_applied(everywhere->on, from, FRAME_APPLIED, &message);
        return true;
    }
    conf = everywhere_members_of(everywhere);
    if (configuration_find(&conf, from) == NULL) {
        return true; /* a node of a newer configuration, perhaps: nothing waits for it here */
    }
    ground_wake(everywhere->on, WAKE_EVERYWHERE);
    at = everywhere_place_for(everywhere, &conf, from);
    everywhere->heard_of[at] = from;
    everywhere->applied[at] = message.index;
    return true;
}

/* Those who are not known to have come as far as somebody waits for. */
static void everywhere_ask_others(struct everywhere *everywhere)
{
    const struct configuration conf = everywhere_members_of(everywhere);
    const struct wire_applied question = {.answer = false};
    uint64_t highest = TAILQ_LAST(&everywhere->waits, cluster_request_list)->index;

    MEMBER_FOREACH (member, &conf) {
        if (member->id != everywhere->on->node_id && applied_by(everywhere, member->id) < highest) {
            (void)ground_send_applied(everywhere->on, member->id, FRAME_APPLIED, &question);
        }
    }
}

/* --- requests --- */

static void fill_missing(const struct everywhere *everywhere, uint64_t index,
                         struct missing_members *missing)
{
    const struct configuration conf = everywhere_members_of(everywhere);
    uint64_t self = everywhere->on->node_id;

    missing->count = 0;
    if (applied_by(everywhere, self) < index) { /* perhaps it is no member any more */
        missing->nodes[missing->count].id = self;
        missing->nodes[missing->count++].reachable = true;
    }
    MEMBER_FOREACH (member, &conf) {
        if (member->id != self && applied_by(everywhere, member->id) < index) {
            ASSERT(missing->count <= LIMIT_NODES);
            missing->nodes[missing->count].id = member->id;
            missing->nodes[missing->count++].reachable = ground_reaches(everywhere->on, member->id);
        }
    }
}

/* The request is on no list. */
static void everywhere_finish(struct everywhere *everywhere, struct cluster_request *request,
                              int status)
{
    if (status != 0) {
        fill_missing(everywhere, request->index, request->missing);
    }
    answers_put(everywhere->on->answers, request, status);
}

static void everywhere_leave(struct everywhere *everywhere, struct cluster_request *request,
                             int status)
{
    ASSERT(everywhere->count > 0);
    TAILQ_REMOVE(&everywhere->waits, request, link);
    everywhere->count--;
    timer_cancel(everywhere->on->timers, &request->deadline);
    if (everywhere->count == 0) {
        timer_cancel(everywhere->on->timers, &everywhere->ask_again);
    }
    everywhere_finish(everywhere, request, status);
}

static void everywhere_deadline_cb(struct timer *timer, uint64_t now_ms)
{
    struct cluster_request *request = CONTAINER(timer, struct cluster_request, deadline);

    struct everywhere *everywhere = request->holder;

    (void)now_ms;
    ASSERT(request->kind == CLUSTER_REQUEST_EVERYWHERE);
    /* Since the last turn the last of them may have answered, or have been removed: then nobody is
     * missing who could be named. */
    everywhere_leave(everywhere, request,
                     request->index <= applied_by_all(everywhere) ? 0 : ERR_TIMEOUT);
}

/* Into its place: they mostly come in order. */
static void insert(struct everywhere *everywhere, struct cluster_request *request)
{
    struct cluster_request *before = TAILQ_LAST(&everywhere->waits, cluster_request_list);

    while (before != NULL && before->index > request->index) {
        before = TAILQ_PREV(before, cluster_request_list, link);
    }
    if (before == NULL) {
        TAILQ_INSERT_HEAD(&everywhere->waits, request, link);
    } else {
        TAILQ_INSERT_AFTER(&everywhere->waits, before, request, link);
    }
    everywhere->count++;
    request->holder = everywhere;
    timer_init(&request->deadline, everywhere_deadline_cb);
    timer_arm(everywhere->on->timers, &request->deadline, request->deadline_ms);
}

void everywhere_submit(struct everywhere *everywhere, struct cluster_request *request)
{
    ASSERT(request->kind == CLUSTER_REQUEST_EVERYWHERE && request->missing != NULL);
    if (everywhere->count >= LIMIT_EVERYWHERE_WAITS) {
        everywhere_finish(everywhere, request, ERR_OVERLOADED);
    } else {
        insert(everywhere, request);
        ground_wake(everywhere->on, WAKE_EVERYWHERE);
    }
}

void everywhere_turn(struct everywhere *everywhere)
{
    uint64_t all;
    struct cluster_request *request;

    if (everywhere->count == 0) {
        return;
    }
    all = applied_by_all(everywhere);
    while ((request = TAILQ_FIRST(&everywhere->waits)) != NULL && request->index <= all) {
        everywhere_leave(everywhere, request, 0);
    }
    if (everywhere->count > 0 && !timer_is_armed(&everywhere->ask_again)) {
        everywhere_ask_others(everywhere);
        ground_arm_in(everywhere->on, &everywhere->ask_again, ASK_AGAIN_MS);
    }
}

void everywhere_init(struct everywhere *everywhere, const struct ground *on)
{
    *everywhere = (struct everywhere){.on = on, .ask_again.wakes = WAKE_EVERYWHERE};
    TAILQ_INIT(&everywhere->waits);
}

void everywhere_stop(struct everywhere *everywhere)
{
    struct cluster_request *request;

    while ((request = TAILQ_FIRST(&everywhere->waits)) != NULL) {
        everywhere_leave(everywhere, request, ERR_SHUTTING_DOWN);
    }
}
