/*
 * strict.c - see strict.h: gathers strict requests into batches and answers them.
 *
 *   waiting --turn--> in a batch --result--> answered
 *      ^                  |
 *      |        got nothing, ask again
 *      +- STRICT_RETRY_MS - paused
 *
 * A request that reaches its deadline is answered wherever it is. In a batch its place is left
 * empty, since the batch may still bring it ids, which are burnt then. What a batch brings after
 * its own deadline is never heard of, and so not counted.
 *
 * Each batch costs every node a message and a part of a disk write, whatever its size. So a small
 * one is held back for a moment while larger ones are under way: with many clients there are a few
 * large batches, sent as earlier ones are answered, and with few of them nobody waits for long.
 *
 * While no leader is known nothing is sent: what waits then goes in few large batches to the next
 * leader, and what is late by then was never sent at all, so nothing of it can be burnt.
 */
#include "src/id/alloc/strict.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"

/* A batch goes at once if it is half as large as all that are under way; a smaller one after so
 * long at the latest. */
#define HOLD_SHARE 2
#define HOLD_MS 3

#define PAUSED UINT64_MAX /* sent_ms of a request in `paused` */

TAILQ_HEAD(strict_list, id_request);

/* A request's place in a batch. */
struct place {
    struct id_request *request; /* NULL: answered already, by its deadline */
    uint32_t count;
    bool keyed; /* what it is given stays under its key, and is not lost */
};

struct batch {
    struct id_request request;
    struct strict *strict;
    bool busy; /* proposed and not done */
    uint32_t count;
    struct place places[LIMIT_STRICT_ITEMS];
};

/* A request that is being packed. */
struct pick {
    struct strict_item item; /* its strings are in the request's payload */
    struct id_request *request;
    uint32_t arrival;
};

struct strict {
    uint32_t key_limit;
    const struct clock *clock;
    struct timers *timers;
    struct id_proposer *proposer;
    strict_answer_fn answer;
    void *data;
    bool stopped;
    bool leader_known;
    struct strict_list waiting; /* to be gathered, oldest first. status: 0, or what an earlier
                                   batch said, which is then in the reply as well */
    struct strict_list paused;  /* likewise, once their timers have fired */
    size_t waiting_count;
    unsigned busy_count;    /* batches under way */
    size_t flying;          /* requests of batches under way, answered or not */
    size_t held;            /* waiting, paused and in batches: <= LIMIT_STRICT_WAITING */
    struct timer next_turn; /* wakes the loop */
    uint64_t burnt;
    struct pick picks[LIMIT_STRICT_ITEMS];            /* while a batch is made */
    struct strict_result results[LIMIT_STRICT_ITEMS]; /* while one is answered */
    struct batch batches[LIMIT_STRICT_BATCHES];
};

struct strict *strict_new(uint32_t key_limit, const struct clock *clock, struct timers *timers,
                          struct id_proposer *proposer, strict_answer_fn answer, void *data)
{
    struct strict *strict = calloc(1, sizeof *strict);

    ASSERT(strict != NULL);
    ASSERT(key_limit >= 1 && key_limit <= LIMIT_KEYS);
    strict->key_limit = key_limit;
    strict->clock = clock;
    strict->timers = timers;
    strict->proposer = proposer;
    strict->answer = answer;
    strict->data = data;
    TAILQ_INIT(&strict->waiting);
    TAILQ_INIT(&strict->paused);
    for (unsigned i = 0; i < LIMIT_STRICT_BATCHES; i++) {
        strict->batches[i].strict = strict;
    }
    return strict;
}

void strict_limit_keys(struct strict *strict, uint32_t key_limit)
{
    ASSERT(key_limit >= 1 && key_limit <= LIMIT_KEYS);
    strict->key_limit = key_limit;
}

void strict_free(struct strict *strict)
{
    if (strict == NULL) {
        return;
    }
    ASSERT(strict->held == 0);
    for (unsigned i = 0; i < LIMIT_STRICT_BATCHES; i++) {
        ASSERT(!strict->batches[i].busy);
        buf_free(&strict->batches[i].request.payload);
        buf_free(&strict->batches[i].request.reply);
    }
    timer_cancel(strict->timers, &strict->next_turn);
    free(strict);
}

/* 0 if the request can be taken. */
static int submit_check(const struct strict *strict, const struct id_request *request)
{
    struct strict_item item;
    int rv = strict_item_decode(request->payload.data, request->payload.len, &item);

    if (strict->stopped) {
        return ERR_SHUTTING_DOWN;
    }
    if (rv == 0 && (item.name_len < 1 || item.name_len > LIMIT_TAG_NAME_BYTES)) {
        return ERR_INVALID; /* a batch must stay within LIMIT_ENTRY_BYTES */
    }
    if (rv == 0 && strict->held >= LIMIT_STRICT_WAITING) {
        return ERR_OVERLOADED;
    }
    return rv;
}

/* Answer a request that is in no list and no batch any more. */
static void finish(struct strict *strict, struct id_request *request, int status)
{
    ASSERT(strict->held > 0);
    strict->held--;
    timer_cancel(strict->timers, &request->deadline);
    request->status = status;
    strict->answer(strict->data, request, status);
}

static void enqueue(struct strict *strict, struct id_request *request, uint64_t now_ms)
{
    request->sent_ms = now_ms;
    TAILQ_INSERT_TAIL(&strict->waiting, request, link);
    strict->waiting_count++;
    timer_arm(strict->timers, &request->deadline, request->deadline_ms);
    timer_arm_by(strict->timers, &strict->next_turn, now_ms);
}

/* The end of a request's pause, or its deadline. What an earlier batch said tells more than that it
 * is late. */
static void on_due(struct timer *timer, uint64_t now_ms)
{
    struct id_request *request = CONTAINER(timer, struct id_request, deadline);
    struct strict *strict = request->holder;
    int status = strict->leader_known ? ERR_TIMEOUT : ERR_NO_LEADER;

    if (request->work != NULL) {
        ((struct place *)request->work)->request = NULL; /* what it gets is burnt */
    } else if (request->sent_ms == PAUSED) {
        TAILQ_REMOVE(&strict->paused, request, link);
        enqueue(strict, request, now_ms);
        return;
    } else {
        TAILQ_REMOVE(&strict->waiting, request, link);
        strict->waiting_count--;
    }
    finish(strict, request, request->status != 0 ? request->status : status);
}

void strict_submit(struct strict *strict, struct id_request *request)
{
    int refused = submit_check(strict, request);

    ASSERT(request->kind == ID_REQUEST_STRICT);
    request->reply.len = 0;
    request->status = refused;
    if (refused != 0) {
        strict->answer(strict->data, request, refused);
        return;
    }
    request->holder = strict;
    request->work = NULL;
    timer_init(&request->deadline, on_due);
    enqueue(strict, request, clock_now_ms(strict->clock));
    strict->held++;
}

/* There is something to send, somebody to send it to, and a batch is free. */
static bool may_send(const struct strict *strict)
{
    return !TAILQ_EMPTY(&strict->waiting) && strict->leader_known && !strict->stopped &&
           strict->busy_count < LIMIT_STRICT_BATCHES;
}

/* When what waits is to be sent. */
static uint64_t send_at_ms(const struct strict *strict)
{
    const struct id_request *oldest = TAILQ_FIRST(&strict->waiting);

    ASSERT(oldest != NULL);
    if (strict->waiting_count * HOLD_SHARE >= strict->flying ||
        strict->waiting_count >= LIMIT_STRICT_ITEMS) {
        return oldest->sent_ms;
    }
    return oldest->sent_ms + HOLD_MS;
}

/* One that is not under way. */
static struct batch *batch_free(struct strict *strict)
{
    struct batch *batch = strict->batches;

    while (batch->busy) {
        batch++;
        ASSERT(batch < strict->batches + LIMIT_STRICT_BATCHES);
    }
    return batch;
}

static uint32_t pick_waiting(struct strict *strict)
{
    struct id_request *request;
    uint32_t count = 0;

    while (count < LIMIT_STRICT_ITEMS && (request = TAILQ_FIRST(&strict->waiting)) != NULL) {
        struct pick *pick = &strict->picks[count];

        TAILQ_REMOVE(&strict->waiting, request, link);
        strict->waiting_count--;
        ASSERT(strict_item_decode(request->payload.data, request->payload.len, &pick->item) == 0);
        pick->request = request;
        pick->arrival = count++;
    }
    return count;
}

static int pick_compare(const void *a, const void *b)
{
    const struct pick *x = a;
    const struct pick *y = b;
    int by_name = tag_name_compare(x->item.name, x->item.name_len, y->item.name, y->item.name_len);

    if (by_name != 0) {
        return by_name;
    }
    return x->arrival < y->arrival ? -1 : x->arrival > y->arrival;
}

/* Tags stand together, so that the state machine writes each row once; in a tag the order of
 * arrival stays. What is in order already, as requests of one tag always are, is left alone. */
static void picks_sort(struct pick *picks, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (pick_compare(&picks[i - 1], &picks[i]) > 0) {
            qsort(picks, count, sizeof *picks, pick_compare);
            return;
        }
    }
}

/* True if it got nothing now and may get something later. */
static bool ask_again(struct strict *strict, struct id_request *request, int status,
                      uint64_t now_ms)
{
    uint64_t at_ms = now_ms + STRICT_RETRY_MS;

    if ((status != ERR_CHANGING && status != ERR_EMPTY) || strict->stopped ||
        at_ms >= request->deadline_ms) {
        return false;
    }
    request->status = status;
    request->sent_ms = PAUSED;
    request->work = NULL;
    TAILQ_INSERT_TAIL(&strict->paused, request, link);
    timer_arm(strict->timers, &request->deadline, at_ms);
    return true;
}

/* The rules that every allocated range keeps. */
static bool result_is_sane(const struct strict_result *result, uint32_t count)
{
    return result->first < TAG_MAX_ID_END && count <= TAG_MAX_ID_END - result->first;
}

/* What the cluster said to one request of a batch. */
static void place_result(struct strict *strict, const struct place *place,
                         const struct strict_result *result, uint64_t now_ms)
{
    struct id_request *request = place->request;
    int status = result->status;

    if (request == NULL) {
        bool lost = status == 0 && !result->replayed && !place->keyed;

        strict->burnt += lost ? place->count : 0;
        return;
    }
    if (status == 0 && !result_is_sane(result, place->count)) {
        status = ERR_BAD_MESSAGE;
    } else {
        results_encode(RESULT_STRICT, result, 1, &request->reply);
    }
    if (!ask_again(strict, request, status, now_ms)) {
        finish(strict, request, status);
    }
}

static void batch_done_cb(struct id_request *base)
{
    struct batch *batch = CONTAINER(base, struct batch, request);
    struct strict *strict = batch->strict;
    uint64_t now_ms = clock_now_ms(strict->clock);
    size_t count = 0;
    int err = base->status;

    ASSERT(batch->busy && strict->flying >= batch->count);
    strict->flying -= batch->count;
    if (err == 0) {
        err = results_decode(RESULT_STRICT, base->reply.data, base->reply.len, strict->results,
                             LIMIT_STRICT_ITEMS, &count);
    }
    if (err == 0 && count != batch->count) {
        err = ERR_BAD_MESSAGE;
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        if (err == 0) {
            place_result(strict, &batch->places[i], &strict->results[i], now_ms);
        } else if (batch->places[i].request != NULL) {
            /* Never into another batch: this one may be applied yet. */
            finish(strict, batch->places[i].request, err);
        }
    }
    batch->busy = false;
    strict->busy_count--;
    if (may_send(strict)) {
        timer_arm_by(strict->timers, &strict->next_turn, now_ms);
    }
}

static void batch_fill(struct batch *batch, uint32_t count, uint64_t now_ms)
{
    const struct strict *strict = batch->strict;
    struct command_list head = {.wall_ms = clock_wall_ms(strict->clock),
                                .key_limit = strict->key_limit};
    uint64_t latest_ms = 0;

    batch->busy = true;
    batch->strict->busy_count++;
    batch->count = count;
    batch->strict->flying += count;
    batch->request.kind = ID_REQUEST_COMMAND;
    batch->request.status = 0;
    batch->request.done = batch_done_cb;
    batch->request.payload.len = 0;
    batch->request.reply.len = 0;
    command_put(&batch->request.payload, COMMAND_STRICT, &head);
    for (uint32_t i = 0; i < count; i++) {
        const struct pick *pick = &strict->picks[i];
        struct id_request *request = pick->request;

        command_item_put(&batch->request.payload, COMMAND_STRICT, &pick->item);
        batch->places[i] = (struct place){request, pick->item.count, pick->item.key_len > 0};
        request->work = &batch->places[i];
        request->status = 0; /* the earlier answer is no longer true */
        request->reply.len = 0;
        latest_ms = request->deadline_ms > latest_ms ? request->deadline_ms : latest_ms;
    }
    command_items_end(&batch->request.payload);
    batch->request.deadline_ms =
        latest_ms < now_ms + LIMIT_TIMEOUT_MS ? latest_ms : now_ms + LIMIT_TIMEOUT_MS;
}

void strict_turn(struct strict *strict, bool leader_known)
{
    uint64_t now_ms = clock_now_ms(strict->clock);

    strict->leader_known = leader_known;
    while (may_send(strict) && send_at_ms(strict) <= now_ms) {
        struct batch *batch = batch_free(strict);
        uint32_t count = pick_waiting(strict);

        picks_sort(strict->picks, count);
        batch_fill(batch, count, now_ms);
        /* From here on the batch may be done at any call. */
        strict->proposer->propose(strict->proposer, &batch->request);
    }
    timer_arm(strict->timers, &strict->next_turn,
              may_send(strict) ? send_at_ms(strict) : TIMER_NEVER);
}

static void finish_list(struct strict *strict, struct strict_list *list, int status)
{
    struct id_request *request;

    strict->waiting_count -= list == &strict->waiting ? strict->waiting_count : 0;
    while ((request = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, request, link);
        request->reply.len = 0;
        finish(strict, request, status);
    }
}

void strict_stop(struct strict *strict)
{
    strict->stopped = true;
    finish_list(strict, &strict->waiting, ERR_SHUTTING_DOWN);
    finish_list(strict, &strict->paused, ERR_SHUTTING_DOWN);
}

uint64_t strict_burnt(const struct strict *strict)
{
    return strict->burnt;
}
