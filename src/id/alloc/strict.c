/*
 * strict.c - see strict.h: gathers strict and monotonic requests into batches and answers them.
 *
 *   waits, is sent (batch.h) --result--> answered
 *      ^                          |  |
 *      |      got nothing, ask again |
 *      +----- STRICT_RETRY_MS ----+  +--> has ids, but not their key yet --STRICT_RETRY_MS--+
 *                                            ^                                              |
 *                                            +----------------------------------------------+
 *
 * A request that reaches its deadline is answered in any state. In a batch its place is left empty,
 * since the batch may still bring it ids, which are then burnt. Ids that a batch gets after its own
 * deadline are never reported here, and so not counted.
 *
 * There are three lanes, and a batch has requests of one. The first has ids allocated by the log.
 * The second has ids from the leader's windows, which cost no write, so none is held back. The
 * third has those of the latter with a key, which wait for the log after all. This node may not
 * know a tag's mode yet: the leader then reports it, and the request changes lanes.
 */
#include "src/id/alloc/strict.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/id/alloc/allocator.h"
#include "src/id/alloc/batch.h"

#define HOLD_MS 3 /* a small batch is held back at most this long */
#define ABANDON_MS 50
#define NOTE_KEYED (UINT64_C(1) << 32) /* in the note of a place, beside its count of ids */

/* A request that is being packed. */
struct pick {
    struct strict_item item; /* its strings are in the request's payload */
    struct cluster_request *request;
    uint32_t arrival;
};

enum lane_kind { LANE_STRICT, LANE_MONOTONIC, LANE_KEYED, LANES };

/* One kind of batches. */
struct lane {
    enum lane_kind kind;
    struct strict *strict;
    struct batcher batcher;
};

struct strict {
    uint32_t key_limit;
    uint32_t key_share;
    struct answers *answers;
    struct allocator *allocator;
    strict_period_fn period; /* NULL: no tag has one */
    void *period_data;
    const struct clock *clock;
    struct timers *timers;
    bool stopped;
    bool leader_known;
    TAILQ_HEAD(, cluster_request) have_ids; /* in the reply, waiting for the key of their texts */
    size_t held;                            /* all unanswered requests: <= LIMIT_STRICT_WAITING */
    struct strict_counts counts;
    struct pick picks[LIMIT_STRICT_ITEMS]; /* while a batch is packed */
    struct lane lanes[LANES];
};

#define LANE_FOREACH(lane, strict)                                                                 \
    for (struct lane *lane = (strict)->lanes; lane < (strict)->lanes + LANES; lane++)

/* Answer a request that is in no queue any more. */
static void strict_finish(struct strict *strict, struct cluster_request *request, int status)
{
    ASSERT(strict->held > 0);
    strict->held--;
    timer_cancel(strict->timers, &request->deadline);
    histogram_note(&strict->counts.took, clock_now_us(strict->clock) - request->began_us, 1);
    if (status == 0) {
        allocator_answered(strict->allocator, request);
    }
    answers_put(strict->answers, request, status);
}

static struct lane *lane_of(struct strict *strict, const struct cluster_request *request)
{
    return &strict->lanes[request->mode != TAG_MODE_MONOTONIC ? LANE_STRICT
                          : request->keyed                    ? LANE_KEYED
                                                              : LANE_MONOTONIC];
}

/* Its ids are lost, unless they stay under its key. */
static void lose_ids(struct strict *strict, struct cluster_request *request)
{
    struct strict_item item;

    ASSERT(strict_item_decode(request->payload.data, request->payload.len, &item) == 0);
    strict->counts.burnt += request->keyed ? 0 : item.count;
    request->reply.len = 0;
}

/* It got ids: answer it, once this node has the key of their texts. */
static void strict_give(struct strict *strict, struct cluster_request *request, uint64_t first,
                        uint64_t now_ms)
{
    uint64_t at_ms = now_ms + STRICT_RETRY_MS;

    if (strict->stopped || allocator_has_keys(strict->allocator, request, first)) {
        strict_finish(strict, request, 0);
    } else if (now_ms < request->deadline_ms) {
        TAILQ_INSERT_TAIL(&strict->have_ids, request, link);
        timer_arm(strict->timers, &request->deadline,
                  at_ms < request->deadline_ms ? at_ms : request->deadline_ms);
    } else {
        lose_ids(strict, request);
        strict_finish(strict, request, ERR_TIMEOUT);
    }
}

/* An earlier batch's error says more than a timeout. */
static void strict_finish_late(struct strict *strict, struct cluster_request *request)
{
    int late = strict->leader_known ? ERR_TIMEOUT : ERR_NO_LEADER;

    strict_finish(strict, request, request->status != 0 ? request->status : late);
}

/* The earlier answer is no longer true. */
static void strict_forget(struct cluster_request *request)
{
    request->status = 0;
    request->reply.len = 0;
}

/* The deadline, or the time to check for the key again. One that is being asked again says more if
 * it waits for that. */
static void strict_due_cb(struct timer *timer, uint64_t now_ms)
{
    struct cluster_request *request = CONTAINER(timer, struct cluster_request, deadline);
    struct strict *strict = request->holder;
    struct strict_result result;
    size_t count = 0;

    if (request->item.where == BATCH_IDLE) {
        TAILQ_REMOVE(&strict->have_ids, request, link);
        ASSERT(results_decode(RESULT_STRICT, request->reply.data, request->reply.len, &result, 1,
                              &count) == 0);
        strict_give(strict, request, result.first, now_ms);
        return;
    }
    if (request->item.where == BATCH_SENT) {
        if (request->status != 0 && now_ms < request->deadline_ms + STRICT_LATE_MS) {
            timer_arm(strict->timers, timer, request->deadline_ms + STRICT_LATE_MS);
            return;
        }
        strict_forget(request); /* ids may be on their way */
    }
    batcher_remove(&lane_of(strict, request)->batcher, &request->item);
    strict_finish_late(strict, request);
}

void strict_submit(struct strict *strict, struct cluster_request *request)
{
    struct strict_item item;
    int refused = strict_item_decode(request->payload.data, request->payload.len, &item);
    uint64_t now_ms = clock_now_ms(strict->clock);

    ASSERT(request->kind == ID_REQUEST_STRICT);
    request->keyed = refused == 0 && item.key_len > 0;
    request->reply.len = 0;
    if (strict->stopped) {
        refused = ERR_SHUTTING_DOWN;
    } else if (refused == 0 && (item.name_len < 1 || item.name_len > LIMIT_TAG_NAME_BYTES)) {
        refused = ERR_INVALID; /* a batch must stay within LIMIT_ENTRY_BYTES */
    } else if (refused == 0 && strict->held >= LIMIT_STRICT_WAITING) {
        refused = ERR_OVERLOADED;
    }
    if (refused != 0) {
        answers_put(strict->answers, request, refused);
        return;
    }
    request->status = 0;
    request->holder = strict;
    request->item = (struct batch_item){0};
    request->began_us = clock_now_us(strict->clock);
    strict->held++;
    timer_init(&request->deadline, strict_due_cb);
    timer_arm(strict->timers, &request->deadline, request->deadline_ms);
    batcher_add(&lane_of(strict, request)->batcher, &request->item, now_ms);
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

/* True if the request got no ids now and may get some later: it is sent again. It changes lanes if
 * its tag is in the other mode without segments. */
static bool strict_ask_again(struct strict *strict, struct cluster_request *request,
                             const struct strict_result *result, uint64_t now_ms)
{
    uint8_t mode = request->mode != 0 ? request->mode : TAG_MODE_STRICT;
    uint64_t at_ms = now_ms + STRICT_RETRY_MS;

    if (strict->stopped) {
        return false;
    }
    if (result->status == ERR_WRONG_MODE && result->detail != mode &&
        (result->detail == TAG_MODE_STRICT || result->detail == TAG_MODE_MONOTONIC)) {
        request->mode = (uint8_t)result->detail;
        batcher_add(&lane_of(strict, request)->batcher, &request->item, now_ms);
        return true;
    }
    if ((result->status != ERR_CHANGING && result->status != ERR_EMPTY &&
         result->status != ERR_STALE) ||
        at_ms >= request->deadline_ms) {
        return false;
    }
    results_encode(RESULT_STRICT, result, 1, &request->reply);
    request->status =
        result->status != ERR_STALE ? result->status : 0; /* means nothing to a client */
    batcher_add(&lane_of(strict, request)->batcher, &request->item, at_ms);
    return true;
}

/* Ids that no request waits for are lost, unless they stay under a key. */
static void strict_settle(struct batcher *batcher, struct batch_item *item, uint64_t note, int err,
                          const void *result, uint64_t now_ms)
{
    struct strict *strict = CONTAINER(batcher, struct lane, batcher)->strict;
    const struct strict_result *said = result;
    uint32_t count = (uint32_t)note;
    struct cluster_request *request;

    if (item == NULL) {
        bool lost = err == 0 && said->status == 0 && !said->replayed && !(note & NOTE_KEYED);

        strict->counts.burnt += lost ? count : 0;
        return;
    }
    request = CONTAINER(item, struct cluster_request, item);
    strict_forget(request);
    if (err != 0) {
        /* Never into another batch: this one may still be applied. */
        strict_finish(strict, request, err);
        return;
    }
    if (strict_ask_again(strict, request, said, now_ms)) {
        return;
    }
    if (said->status == 0 &&
        (said->first >= TAG_MAX_ID_END || count > TAG_MAX_ID_END - said->first)) {
        strict_finish(strict, request, ERR_BAD_MESSAGE); /* not a range that was granted */
        return;
    }
    results_encode(RESULT_STRICT, said, 1, &request->reply);
    if (said->status == 0) {
        strict_give(strict, request, said->first, now_ms);
    } else {
        strict_finish(strict, request, said->status != ERR_STALE ? said->status : ERR_TIMEOUT);
    }
}

static void strict_pack(struct batcher *batcher, struct batch *batch,
                        struct batch_item *const *items, uint32_t count, uint64_t now_ms)
{
    struct lane *lane = CONTAINER(batcher, struct lane, batcher);
    struct strict *strict = lane->strict;
    struct command_list head = {.wall_ms = clock_wall_ms(strict->clock),
                                .key_limit = strict->key_limit,
                                .key_share = strict->key_share};
    uint64_t latest_ms = 0;
    uint64_t until_ms;
    uint32_t picked = 0;
    uint32_t sorted = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct cluster_request *request = CONTAINER(items[i], struct cluster_request, item);
        struct pick *pick = &strict->picks[picked];

        if (request->deadline_ms <= now_ms) { /* a slow loop, or no leader */
            strict_finish_late(strict, request);
            continue;
        }
        pick->request = request;
        pick->arrival = picked++;
        ASSERT(strict_item_decode(request->payload.data, request->payload.len, &pick->item) == 0);
        if (lane->kind == LANE_STRICT && strict->period != NULL) {
            pick->item.period =
                strict->period(strict->period_data, pick->item.name, pick->item.name_len);
        }
    }
    /* Group the requests by tag, so that the state machine writes each row once; within a tag the
     * order of arrival stays. Requests already in order, as those of one tag always are, are not
     * sorted. */
    while (sorted + 1 < picked &&
           pick_compare(&strict->picks[sorted], &strict->picks[sorted + 1]) <= 0) {
        sorted++;
    }
    if (sorted + 1 < picked) {
        qsort(strict->picks, picked, sizeof *strict->picks, pick_compare);
    }
    command_put(&batch->request.payload, COMMAND_STRICT, &head);
    for (uint32_t i = 0; i < picked; i++) {
        const struct pick *pick = &strict->picks[i];
        struct cluster_request *request = pick->request;

        batch_put(batch, &request->item, pick->item.count | (request->keyed ? NOTE_KEYED : 0),
                  &pick->item);
        until_ms = request->deadline_ms + (request->status != 0 ? STRICT_LATE_MS : 0);
        latest_ms = until_ms > latest_ms ? until_ms : latest_ms;
    }
    batch->request.deadline_ms =
        latest_ms < now_ms + LIMIT_TIMEOUT_MS ? latest_ms : now_ms + LIMIT_TIMEOUT_MS;
}

void strict_turn(struct strict *strict, bool leader_known)
{
    if (strict->leader_known != leader_known) {
        strict->leader_known = leader_known;
        LANE_FOREACH(lane, strict)
        {
            batcher_open(&lane->batcher, leader_known && !strict->stopped);
        }
    }
}

void strict_stop(struct strict *strict)
{
    struct cluster_request *request;
    struct batch_item *item;

    strict->stopped = true;
    LANE_FOREACH(lane, strict)
    {
        batcher_open(&lane->batcher, false);
        while ((item = batcher_take(&lane->batcher)) != NULL) {
            request = CONTAINER(item, struct cluster_request, item);
            request->reply.len = 0;
            strict_finish(strict, request, ERR_SHUTTING_DOWN);
        }
    }
    while ((request = TAILQ_FIRST(&strict->have_ids)) != NULL) {
        TAILQ_REMOVE(&strict->have_ids, request, link);
        lose_ids(strict, request);
        strict_finish(strict, request, ERR_SHUTTING_DOWN);
    }
}

const struct strict_counts *strict_counts(const struct strict *strict)
{
    return &strict->counts;
}

/* --- begin and end --- */

struct strict *strict_new(uint32_t key_limit, const struct clock *clock, struct timers *timers,
                          struct id_proposer *proposer, struct answers *answers,
                          struct allocator *allocator)
{
    static const struct batcher_ops batcher_ops = {.pack = strict_pack, .result = strict_settle};
    struct strict *strict = MUST_HAVE(calloc(1, sizeof *strict));

    ASSERT(key_limit >= 1 && key_limit <= LIMIT_KEYS);
    strict->key_limit = key_limit;
    strict->key_share = key_limit;
    strict->answers = answers;
    strict->allocator = allocator;
    strict->clock = clock;
    strict->timers = timers;
    TAILQ_INIT(&strict->have_ids);
    LANE_FOREACH(lane, strict)
    {
        lane->kind = (enum lane_kind)(lane - strict->lanes);
        lane->strict = strict;
        batcher_init(&lane->batcher,
                     &(struct batcher_config){.kind = lane->kind == LANE_STRICT
                                                          ? CLUSTER_REQUEST_COMMAND
                                                          : CLUSTER_REQUEST_LEADER,
                                              .command = COMMAND_STRICT,
                                              .result = RESULT_STRICT,
                                              .items = LIMIT_STRICT_ITEMS,
                                              .batches = LIMIT_STRICT_BATCHES,
                                              .hold_ms = lane->kind != LANE_MONOTONIC ? HOLD_MS : 0,
                                              .abandon_ms = ABANDON_MS},
                     &batcher_ops, clock, timers, proposer);
        batcher_open(&lane->batcher, false); /* no leader is known yet */
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

void strict_free(struct strict *strict)
{
    if (strict == NULL) {
        return;
    }
    ASSERT(strict->held == 0);
    LANE_FOREACH(lane, strict)
    {
        batcher_release(&lane->batcher);
    }
    free(strict);
}
