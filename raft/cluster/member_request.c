/*
 * member_request.c - see member_request.h. Thread: the raft loop.
 */
#include "raft/cluster/member_request.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

#define AGAIN_MS 20

struct wish {
    TAILQ_ENTRY(wish) link;
    struct wishes *wishes;
    struct id_request *outer;
    struct id_request asking;
    struct member_ask ask;
    struct member_answer answer; /* the last one */
    bool answered;               /* there was one */
    uint64_t again_ms;
};

void wishes_init(struct wishes *wishes, struct requests *requests, const struct clock *clock)
{
    memset(wishes, 0, sizeof *wishes);
    wishes->requests = requests;
    wishes->clock = clock;
    TAILQ_INIT(&wishes->waiting);
}

/* The wish is on no list. */
static void finish(struct wish *wish, int status)
{
    struct wishes *wishes = wish->wishes;

    if (wish->answered && (status == 0 || status == ERR_TIMEOUT || status == ERR_NO_LEADER)) {
        status = 0; /* it was begun, or refused for a reason: better than "no answer" */
        wish->outer->reply.len = 0;
        member_answer_encode(&wish->answer, &wish->outer->reply);
    }
    ASSERT(wishes->count > 0);
    wishes->count--;
    requests_finish(wishes->requests, wish->outer, status);
    buf_free(&wish->asking.payload);
    buf_free(&wish->asking.reply);
    free(wish);
}

static void settled(struct id_request *asking)
{
    finish(asking->data, asking->status);
}

/* It was refused, and the client is to hear so: then no copy of it that is still on its way may be
 * carried out any more. A command that does nothing takes its number. */
static void settle(struct wish *wish)
{
    struct id_request *asking = &wish->asking;

    buf_free(&asking->payload);
    buf_free(&asking->reply);
    command_noop_encode(&asking->payload);
    asking->kind = ID_REQUEST_COMMAND;
    asking->keeps_seq = false;
    asking->done = settled;
    requests_submit(wish->wishes->requests, asking);
}

static void asked_done(struct id_request *asking)
{
    struct wish *wish = asking->data;
    struct wishes *wishes = wish->wishes;
    uint64_t now = clock_now_ms(wishes->clock);
    int status = asking->status;

    if (status == 0) {
        status = member_answer_decode(asking->reply.data, asking->reply.len, &wish->answer);
        wish->answered = status == 0;
    }
    if (status == 0 && wish->answer.outcome != MEMBER_DONE &&
        wish->answer.outcome != MEMBER_PENDING && asking->seq != 0) {
        settle(wish);
        return;
    }
    requests_release(wishes->requests, asking);
    if (status != 0 || wish->answer.outcome != MEMBER_PENDING || wishes->stopping ||
        now + AGAIN_MS >= wish->outer->deadline_ms) {
        finish(wish, status);
        return;
    }
    wish->again_ms = now + AGAIN_MS;
    TAILQ_INSERT_TAIL(&wishes->waiting, wish, link);
}

static void ask_leader(struct wish *wish)
{
    struct id_request *asking = &wish->asking;

    buf_free(&asking->payload);
    buf_free(&asking->reply);
    memset(asking, 0, sizeof *asking);
    asking->kind = ID_REQUEST_MEMBER;
    asking->keeps_seq = true;
    asking->deadline_ms = wish->outer->deadline_ms;
    asking->done = asked_done;
    asking->data = wish;
    member_ask_encode(&wish->ask, &asking->payload);
    wish->ask.again = true;
    requests_submit(wish->wishes->requests, asking);
}

void wishes_submit(struct wishes *wishes, struct id_request *request)
{
    struct wish *wish;
    struct member_ask ask;

    if (wishes->count >= LIMIT_MEMBER_WISHES) {
        requests_finish(wishes->requests, request, ERR_OVERLOADED);
        return;
    }
    if (member_ask_decode(request->payload.data, request->payload.len, &ask) != 0) {
        requests_finish(wishes->requests, request, ERR_BAD_MESSAGE);
        return;
    }
    wish = calloc(1, sizeof *wish);
    ASSERT(wish != NULL);
    wish->wishes = wishes;
    wish->outer = request;
    wish->ask = ask;
    wishes->count++;
    ask_leader(wish);
}

void wishes_turn(struct wishes *wishes)
{
    uint64_t now = clock_now_ms(wishes->clock);
    struct wish *wish;

    /* All wait equally long: the first is due first. */
    while ((wish = TAILQ_FIRST(&wishes->waiting)) != NULL && wish->again_ms <= now) {
        TAILQ_REMOVE(&wishes->waiting, wish, link);
        ask_leader(wish);
    }
}

uint64_t wishes_next_ms(const struct wishes *wishes)
{
    const struct wish *wish = TAILQ_FIRST(&wishes->waiting);

    return wish != NULL ? wish->again_ms : UINT64_MAX;
}

void wishes_stop(struct wishes *wishes)
{
    struct wish *wish;

    wishes->stopping = true;
    while ((wish = TAILQ_FIRST(&wishes->waiting)) != NULL) {
        TAILQ_REMOVE(&wishes->waiting, wish, link);
        finish(wish, ERR_SHUTTING_DOWN);
    }
}
