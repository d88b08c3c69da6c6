/*
 * strict.c - see strict.h: gathers strict and monotonic requests into batches and answers them.
 *
 *   waiting --turn--> in a batch --result--> answered
 *      ^                  |
 *      |        got nothing, ask again
 *      +- STRICT_RETRY_MS - paused
 *
 * Among the paused are those that got ids before this node knows the key of their texts: they are
 * answered once it does.
 *
 * A request that reaches its deadline is answered wherever it is. In a batch its place is left
 * empty, since the batch may still bring it ids, which are burnt then. What a batch brings after
 * its own deadline is never heard of, and so not counted.
 *
 * Each batch costs every node a message and a part of a disk write, whatever its size. So a small
 * one is held back for a moment while larger ones are under way: with many clients there are a few
 * large batches, sent as earlier ones are answered, and with few of them nobody waits for long.
 *
 * Three lanes, since no batch has requests of two: what is allocated by the log; what comes from
 * the leader's windows, which costs no write, so that nothing of it is held back; and of the latter
 * what has a key, and so waits for the log after all. Which mode a tag has this node may not know
 * yet: the leader says so, and the request changes lanes.
 *
 * While no leader is known nothing is sent: what waits then goes in few large batches to the next
 * leader, and what is late by then was never sent at all, so nothing of it can be burnt.
 */
#include "src/id/alloc/strict.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"

/* A batch goes at once if it is half as large as all that are under way; a smaller one after so
 * long at the latest. */
#define HOLD_SHARE 2
#define HOLD_MS 3

#define PAUSED UINT64_MAX        /* sent_ms of a request in `paused` */
#define HAS_IDS (UINT64_MAX - 1) /* of one there whose reply has its ids */

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
    struct lane *lane;
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

enum lane_kind { LANE_STRICT, LANE_MONOTONIC, LANE_KEYED, LANES };

/* Of one kind of batches. */
struct lane {
    enum lane_kind kind;
    struct strict_list waiting; /* to be gathered, oldest first. status: 0, or what an earlier
                                   batch said, which is then in the reply as well */
    size_t waiting_count;
    unsigned busy_count; /* batches under way */
    size_t flying;       /* requests of batches under way, answered or not */
    struct batch batches[LIMIT_STRICT_BATCHES];
};

struct strict {
    uint32_t key_limit;
    uint32_t key_share;
    const struct clock *clock;
    struct timers *timers;
    struct id_proposer *proposer;
    strict_answer_fn answer;
    void *data;
    strict_period_fn period; /* NULL: no tag has one */
    void *period_data;
    strict_keys_fn has_keys; /* NULL: this node has all */
    void *keys_data;
    bool stopped;
    bool leader_known;
    struct strict_list paused; /* to wait again, or be answered, once their timers have fired */
    size_t held;               /* waiting, paused and in batches: <= LIMIT_STRICT_WAITING */
    struct timer next_turn;    /* wakes the loop */
    uint64_t burnt;
    struct histogram took;
    struct pick picks[LIMIT_STRICT_ITEMS];            /* while a batch is made */
    struct strict_result results[LIMIT_STRICT_ITEMS]; /* while one is answered */
    struct lane lanes[LANES];
};

#define LANE_FOREACH(lane, strict)                                                                 \
    for (struct lane *lane = (strict)->lanes; lane < (strict)->lanes + LANES; lane++)

struct strict *strict_new(uint32_t key_limit, const struct clock *clock, struct timers *timers,
                          struct id_proposer *proposer, strict_answer_fn answer, void *data)
{
    struct strict *strict = MUST_HAVE(calloc(1, sizeof *strict));

    ASSERT(key_limit >= 1 && key_limit <= LIMIT_KEYS);
    strict->key_limit = key_limit;
    strict->key_share = key_limit;
    strict->clock = clock;
    strict->timers = timers;
    strict->proposer = proposer;
    strict->answer = answer;
    strict->data = data;
    TAILQ_INIT(&strict->paused);
    LANE_FOREACH(lane, strict)
    {
        lane->kind = (enum lane_kind)(lane - strict->lanes);
        TAILQ_INIT(&lane->waiting);
        for (unsigned i = 0; i < LIMIT_STRICT_BATCHES; i++) {
            lane->batches[i].strict = strict;
            lane->batches[i].lane = lane;
        }
    }
    return strict;
}

void strict_limit_keys(struct strict *strict, uint32_t key_limit, uint32_t key_share)
{
    ASSERT(key_limit >= 1 && key_limit <= LIMIT_KEYS);
    strict->key_limit = key_limit;
    strict->key_share = key_share;
}

void strict_dates(struct strict *strict, strict_period_fn period, void *data)
{
    strict->period = period;
    strict->period_data = data;
}

void strict_keys(struct strict *strict, strict_keys_fn has_keys, void *data)
{
    strict->has_keys = has_keys;
    strict->keys_data = data;
}

void strict_free(struct strict *strict)
{
    if (strict == NULL) {
        return;
    }
    ASSERT(strict->held == 0);
    LANE_FOREACH(lane, strict)
    {
        for (unsigned i = 0; i < LIMIT_STRICT_BATCHES; i++) {
            ASSERT(!lane->batches[i].busy);
            buf_free(&lane->batches[i].request.payload);
            buf_free(&lane->batches[i].request.reply);
        }
    }
    timer_cancel(strict->timers, &strict->next_turn);
    free(strict);
}

/* 0 if the request can be taken. */
static int submit_check(const struct strict *strict, struct id_request *request)
{
    struct strict_item item;
    int rv = strict_item_decode(request->payload.data, request->payload.len, &item);

    request->keyed = rv == 0 && item.key_len > 0;
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
    histogram_note(&strict->took, clock_now_us(strict->clock) - request->began_us, 1);
    request->status = status;
    strict->answer(strict->data, request, status);
}

static struct lane *lane_of(struct strict *strict, const struct id_request *request)
{
    return &strict->lanes[request->mode != TAG_MODE_MONOTONIC ? LANE_STRICT
                          : request->keyed                    ? LANE_KEYED
                                                              : LANE_MONOTONIC];
}

static void enqueue(struct strict *strict, struct id_request *request, uint64_t now_ms)
{
    struct lane *lane = lane_of(strict, request);

    request->sent_ms = now_ms;
    TAILQ_INSERT_TAIL(&lane->waiting, request, link);
    lane->waiting_count++;
    timer_arm(strict->timers, &request->deadline, request->deadline_ms);
    timer_arm_by(strict->timers, &strict->next_turn, now_ms);
}

static bool has_keys(const struct strict *strict, const struct id_request *request, uint64_t first)
{
    return strict->has_keys == NULL || strict->has_keys(strict->keys_data, request, first);
}

/* What it got is lost, unless it stays under its key. */
static void lose_ids(struct strict *strict, struct id_request *request)
{
    struct strict_item item;

    ASSERT(strict_item_decode(request->payload.data, request->payload.len, &item) == 0);
    strict->burnt += request->keyed ? 0 : item.count;
    request->reply.len = 0;
}

/* It has ids, and waits until this node has the key of their texts. */
static void hold(struct strict *strict, struct id_request *request, uint64_t now_ms)
{
    uint64_t at_ms = now_ms + STRICT_RETRY_MS;

    request->sent_ms = HAS_IDS;
    request->work = NULL;
    TAILQ_INSERT_TAIL(&strict->paused, request, link);
    timer_arm(strict->timers, &request->deadline,
              at_ms < request->deadline_ms ? at_ms : request->deadline_ms);
}

/* Is the key here by now? */
static void look_again(struct strict *strict, struct id_request *request, uint64_t now_ms)
{
    struct strict_result result;
    size_t count = 0;

    TAILQ_REMOVE(&strict->paused, request, link);
    ASSERT(results_decode(RESULT_STRICT, request->reply.data, request->reply.len, &result, 1,
                          &count) == 0);
    if (has_keys(strict, request, result.first)) {
        finish(strict, request, 0);
    } else if (now_ms < request->deadline_ms) {
        hold(strict, request, now_ms);
    } else {
        lose_ids(strict, request);
        finish(strict, request, ERR_TIMEOUT);
    }
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
    } else if (request->sent_ms == HAS_IDS) {
        look_again(strict, request, now_ms);
        return;
    } else if (request->sent_ms == PAUSED) {
        TAILQ_REMOVE(&strict->paused, request, link);
        enqueue(strict, request, now_ms);
        return;
    } else {
        TAILQ_REMOVE(&lane_of(strict, request)->waiting, request, link);
        lane_of(strict, request)->waiting_count--;
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
    request->began_us = clock_now_us(strict->clock);
    timer_init(&request->deadline, on_due);
    enqueue(strict, request, clock_now_ms(strict->clock));
    strict->held++;
}

/* There is something to send, somebody to send it to, and a batch is free. */
static bool may_send(const struct strict *strict, const struct lane *lane)
{
    return !TAILQ_EMPTY(&lane->waiting) && strict->leader_known && !strict->stopped &&
           lane->busy_count < LIMIT_STRICT_BATCHES;
}

/* When what waits is to be sent. */
static uint64_t send_at_ms(const struct lane *lane)
{
    const struct id_request *oldest = TAILQ_FIRST(&lane->waiting);

    ASSERT(oldest != NULL);
    if (lane->waiting_count * HOLD_SHARE >= lane->flying ||
        lane->waiting_count >= LIMIT_STRICT_ITEMS || lane->kind == LANE_MONOTONIC) {
        return oldest->sent_ms;
    }
    return oldest->sent_ms + HOLD_MS;
}

/* One that is not under way. */
static struct batch *batch_free(struct lane *lane)
{
    struct batch *batch = lane->batches;

    while (batch->busy) {
        batch++;
        ASSERT(batch < lane->batches + LIMIT_STRICT_BATCHES);
    }
    return batch;
}

static uint32_t period_of(const struct strict *strict, const struct lane *lane,
                          const struct strict_item *item)
{
    return strict->period != NULL && lane->kind == LANE_STRICT
               ? strict->period(strict->period_data, item->name, item->name_len)
               : 0;
}

static uint32_t pick_waiting(struct strict *strict, struct lane *lane)
{
    struct id_request *request;
    uint32_t count = 0;

    while (count < LIMIT_STRICT_ITEMS && (request = TAILQ_FIRST(&lane->waiting)) != NULL) {
        struct pick *pick = &strict->picks[count];

        TAILQ_REMOVE(&lane->waiting, request, link);
        lane->waiting_count--;
        ASSERT(strict_item_decode(request->payload.data, request->payload.len, &pick->item) == 0);
        pick->item.period = period_of(strict, lane, &pick->item);
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

    if ((status != ERR_CHANGING && status != ERR_EMPTY && status != ERR_STALE) || strict->stopped ||
        at_ms >= request->deadline_ms) {
        return false;
    }
    request->status = status != ERR_STALE ? status : 0; /* that says nothing to a client */
    request->sent_ms = PAUSED;
    request->work = NULL;
    TAILQ_INSERT_TAIL(&strict->paused, request, link);
    timer_arm(strict->timers, &request->deadline, at_ms);
    return true;
}

/* True if the tag is in the other mode without segments: nothing was taken, and it goes there. */
static bool change_lane(struct strict *strict, struct id_request *request,
                        const struct strict_result *result, uint64_t now_ms)
{
    uint8_t before = request->mode != 0 ? request->mode : TAG_MODE_STRICT;

    if (result->status != ERR_WRONG_MODE || strict->stopped || result->detail == before ||
        (result->detail != TAG_MODE_STRICT && result->detail != TAG_MODE_MONOTONIC)) {
        return false;
    }
    request->mode = (uint8_t)result->detail;
    request->work = NULL;
    enqueue(strict, request, now_ms);
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
    if (change_lane(strict, request, result, now_ms)) {
        return;
    }
    if (status == 0 && !result_is_sane(result, place->count)) {
        status = ERR_BAD_MESSAGE;
    } else {
        results_encode(RESULT_STRICT, result, 1, &request->reply);
    }
    if (status == 0 && !strict->stopped && !has_keys(strict, request, result->first)) {
        hold(strict, request, now_ms);
    } else if (!ask_again(strict, request, status, now_ms)) {
        finish(strict, request, status != ERR_STALE ? status : ERR_TIMEOUT);
    }
}

static void batch_done_cb(struct id_request *base)
{
    struct batch *batch = CONTAINER(base, struct batch, request);
    struct strict *strict = batch->strict;
    struct lane *lane = batch->lane;
    uint64_t now_ms = clock_now_ms(strict->clock);
    size_t count = 0;
    int err = base->status;

    ASSERT(batch->busy && lane->flying >= batch->count);
    lane->flying -= batch->count;
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
    lane->busy_count--;
    if (may_send(strict, lane)) {
        timer_arm_by(strict->timers, &strict->next_turn, now_ms);
    }
}

static void batch_fill(struct batch *batch, uint32_t count, uint64_t now_ms)
{
    const struct strict *strict = batch->strict;
    struct command_list head = {.wall_ms = clock_wall_ms(strict->clock),
                                .key_limit = strict->key_limit,
                                .key_share = strict->key_share};
    uint64_t latest_ms = 0;

    batch->busy = true;
    batch->lane->busy_count++;
    batch->count = count;
    batch->lane->flying += count;
    batch->request.kind =
        batch->lane->kind == LANE_STRICT ? ID_REQUEST_COMMAND : ID_REQUEST_MONOTONIC;
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

static void lane_turn(struct strict *strict, struct lane *lane, uint64_t now_ms)
{
    while (may_send(strict, lane) && send_at_ms(lane) <= now_ms) {
        struct batch *batch = batch_free(lane);
        uint32_t count = pick_waiting(strict, lane);

        picks_sort(strict->picks, count);
        batch_fill(batch, count, now_ms);
        /* From here on the batch may be done at any call. */
        strict->proposer->propose(strict->proposer, &batch->request);
    }
}

void strict_turn(struct strict *strict, bool leader_known)
{
    uint64_t now_ms = clock_now_ms(strict->clock);
    uint64_t next_ms = TIMER_NEVER;

    strict->leader_known = leader_known;
    LANE_FOREACH(lane, strict)
    {
        lane_turn(strict, lane, now_ms);
    }
    LANE_FOREACH(lane, strict)
    {
        if (may_send(strict, lane) && send_at_ms(lane) < next_ms) {
            next_ms = send_at_ms(lane);
        }
    }
    timer_arm(strict->timers, &strict->next_turn, next_ms);
}

static void finish_list(struct strict *strict, struct strict_list *list, int status)
{
    struct id_request *request;

    while ((request = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, request, link);
        if (request->sent_ms == HAS_IDS) {
            lose_ids(strict, request);
        }
        request->reply.len = 0;
        finish(strict, request, status);
    }
}

void strict_stop(struct strict *strict)
{
    strict->stopped = true;
    LANE_FOREACH(lane, strict)
    {
        lane->waiting_count = 0;
        finish_list(strict, &lane->waiting, ERR_SHUTTING_DOWN);
    }
    finish_list(strict, &strict->paused, ERR_SHUTTING_DOWN);
}

const struct histogram *strict_took(const struct strict *strict)
{
    return &strict->took;
}

uint64_t strict_burnt(const struct strict *strict)
{
    return strict->burnt;
}
