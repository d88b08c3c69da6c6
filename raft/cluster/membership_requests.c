/*
 * membership_requests.c - see membership_requests.h. Thread: the raft loop.
 */
#include "raft/cluster/membership_requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/state/codec/cluster_command.h"

#define AGAIN_MS 20

struct membership_request {
    TAILQ_ENTRY(membership_request) link; /* in list: all->waiting, or all->asked */
    struct membership_request_list *list;
    struct membership_requests *all;
    struct cluster_request *outer;
    struct cluster_request asking;
    struct member_ask ask;
    struct member_answer answer; /* the last one */
    bool answered;               /* there was one */
    struct timer again;          /* armed: it waits */
};

void membership_requests_init(struct membership_requests *all, const struct raft_context *on,
                              struct requests *requests)
{
    *all = (struct membership_requests){.on = on, .requests = requests};
    TAILQ_INIT(&all->waiting);
    TAILQ_INIT(&all->asked);
}

static void enter(struct membership_request *request, struct membership_request_list *list)
{
    if (request->list != NULL) {
        TAILQ_REMOVE(request->list, request, link);
    }
    request->list = list;
    TAILQ_INSERT_TAIL(list, request, link);
}

static void empty(struct cluster_request *asking)
{
    buf_free(&asking->payload);
    buf_free(&asking->reply);
}

/* The client hears of it; there may be a request to the leader yet. */
static void member_request_tell(struct membership_request *request, int status)
{
    struct cluster_request *outer = request->outer;

    if (outer == NULL) {
        return; /* it has heard */
    }
    if (request->answered && (status == 0 || status == ERR_TIMEOUT || status == ERR_NO_LEADER)) {
        status = 0; /* it was begun, or refused for a reason: better than "no answer" */
        outer->reply.len = 0;
        member_answer_encode(&request->answer, &outer->reply);
    }
    request->outer = NULL;
    answers_put(request->all->on->answers, outer, status);
}

static void member_request_finish(struct membership_request *request, int status)
{
    struct membership_requests *all = request->all;

    ASSERT(all->count > 0 && !timer_is_armed(&request->again));
    member_request_tell(request, status);
    TAILQ_REMOVE(request->list, request, link);
    all->count--;
    empty(&request->asking);
    free(request);
}

static void on_number_used(struct cluster_request *asking)
{
    member_request_finish(CONTAINER(asking, struct membership_request, asking), asking->status);
}

/* It was refused, and the client is to hear so: then no copy of it that is still on its way may be
 * carried out any more. A command that does nothing takes its number. */
static void use_number(struct membership_request *request)
{
    struct cluster_request *asking = &request->asking;

    empty(asking);
    cluster_command_put(&asking->payload, COMMAND_NOOP, NULL);
    asking->kind = CLUSTER_REQUEST_COMMAND;
    asking->keeps_seq = false;
    asking->done = on_number_used;
    requests_submit(request->all->requests, asking);
}

static void on_asked(struct cluster_request *asking)
{
    struct membership_request *request = CONTAINER(asking, struct membership_request, asking);
    struct membership_requests *all = request->all;
    uint64_t again_ms = context_now_ms(all->on) + AGAIN_MS;
    int status = asking->status;

    if (status == 0) {
        status = member_answer_decode(asking->reply.data, asking->reply.len, &request->answer);
        request->answered = status == 0;
    }
    if (status == 0 && request->answer.outcome != MEMBER_DONE &&
        request->answer.outcome != MEMBER_PENDING && asking->seq != 0) {
        use_number(request);
        return;
    }
    requests_release(all->requests, asking);
    if (status != 0 || request->answer.outcome != MEMBER_PENDING || all->on->stopping ||
        request->outer == NULL || again_ms >= request->outer->deadline_ms) {
        member_request_finish(request, status);
        return;
    }
    enter(request, &all->waiting);
    timer_arm(all->on->timers, &request->again, again_ms);
}

static void ask_leader(struct membership_request *request)
{
    struct cluster_request *asking = &request->asking;

    empty(asking);
    enter(request, &request->all->asked);
    *asking = (struct cluster_request){.kind = CLUSTER_REQUEST_MEMBER,
                                       .keeps_seq = true,
                                       .deadline_ms = request->outer->deadline_ms,
                                       .done = on_asked};
    member_ask_encode(&request->ask, &asking->payload);
    request->ask.again = true;
    requests_submit(request->all->requests, asking);
}

/* Was it carried out, as far as this node knows? One that was asked to remove itself finds no
 * leader to ask any more. */
static bool is_removed(struct membership_request *request)
{
    const struct membership_requests *all = request->all;
    uint64_t node_id = request->ask.node_id;

    if (request->ask.kind != MEMBER_ASK_REMOVE ||
        !((all->removed && node_id == all->on->node_id) ||
          state_member_removed(all->on->state, node_id))) {
        return false;
    }
    request->answer = (struct member_answer){.outcome = MEMBER_DONE};
    (void)snprintf(request->answer.why, sizeof request->answer.why,
                   "node %" PRIu64 " is no member any more", node_id);
    request->answered = true;
    return true;
}

static void member_request_again_cb(struct timer *timer, uint64_t now_ms)
{
    struct membership_request *request = CONTAINER(timer, struct membership_request, again);

    (void)now_ms;
    ASSERT(!request->all->on->stopping && request->all->count > 0);
    if (is_removed(request)) {
        member_request_finish(request, 0);
    } else {
        ask_leader(request);
    }
}

void membership_requests_submit(struct membership_requests *all, struct cluster_request *outer)
{
    struct membership_request *request;
    struct member_ask ask;

    if (all->count >= LIMIT_MEMBERSHIP_REQUESTS) {
        answers_put(all->on->answers, outer, ERR_OVERLOADED);
        return;
    }
    if (member_ask_decode(outer->payload.data, outer->payload.len, &ask) != 0) {
        answers_put(all->on->answers, outer, ERR_BAD_MESSAGE);
        return;
    }
    request = MUST_HAVE(calloc(1, sizeof *request));
    request->all = all;
    request->outer = outer;
    request->ask = ask;
    timer_init(&request->again, member_request_again_cb);
    all->count++;
    ask_leader(request);
}

void membership_requests_stop(struct membership_requests *all)
{
    struct membership_request *request;

    while ((request = TAILQ_FIRST(&all->waiting)) != NULL) {
        timer_cancel(all->on->timers, &request->again);
        member_request_finish(request, ERR_SHUTTING_DOWN);
    }
}

void membership_requests_removed(struct membership_requests *all)
{
    struct membership_request *request;

    all->removed = true;
    TAILQ_FOREACH (request, &all->asked, link) {
        if (request->outer != NULL && is_removed(request)) {
            member_request_tell(request, 0);
        }
    }
}
