/*
 * batch.c - see batch.h.
 *
 * Batches are kept for reuse, with their grown buffers: a busy node sends a thousand of them a
 * second.
 *
 * Each batch costs every node a message and a part of a disk write, whatever its size. So with a
 * config.hold_ms a small batch is held back for a moment while larger ones are under way. With many
 * clients there are a few large batches, sent as earlier ones are answered; with few clients none
 * waits for long.
 */
#include "src/id/alloc/batch.h"

#include <stdlib.h>

#include "src/base/assert.h"

#define ABANDONED_MAX 4
#define HOLD_SHARE 2 /* a batch is sent at once if it is half as large as all those under way */

/* The results of a command, of the largest size. */
union results {
    struct grant_result grants[LIMIT_GRANTS_PER_ENTRY];
    struct strict_result strict[LIMIT_STRICT_ITEMS];
    int32_t statuses[LIMIT_GRANTS_PER_ENTRY];
};

/* --- waiting --- */

/* Items are ready, sending is allowed, and a batch is free. */
static bool batcher_may_send(const struct batcher *batcher)
{
    return batcher->ready_count > 0 && !batcher->closed &&
           batcher->batch_count - batcher->abandoned_count < batcher->config.batches &&
           batcher->batch_count < (size_t)ABANDONED_MAX * batcher->config.batches;
}

/* When to send the ready items. */
static uint64_t batcher_send_ms(const struct batcher *batcher)
{
    bool held = batcher->config.hold_ms > 0 && batcher->ready_count < batcher->config.items &&
                batcher->ready_count * HOLD_SHARE < batcher->sent_count;

    return TAILQ_FIRST(&batcher->ready)->at_ms + (held ? batcher->config.hold_ms : 0);
}

static void batcher_arm(struct batcher *batcher)
{
    const struct batch_item *delayed = TAILQ_FIRST(&batcher->delayed);
    uint64_t due_ms = delayed != NULL ? delayed->at_ms : TIMER_NEVER;

    if (batcher_may_send(batcher) && batcher_send_ms(batcher) < due_ms) {
        due_ms = batcher_send_ms(batcher);
    }
    if (due_ms != batcher->send.due_ms) {
        timer_arm(batcher->timers, &batcher->send, due_ms);
    }
}

void batcher_add(struct batcher *batcher, struct batch_item *item, uint64_t at_ms)
{
    uint64_t now_ms = clock_now_ms(batcher->clock);

    ASSERT(item->where == BATCH_IDLE && at_ms <= BATCH_AT_MS_MAX);
    item->at_ms = (at_ms > now_ms ? at_ms : now_ms) & BATCH_AT_MS_MAX;
    if (at_ms > now_ms) {
        item->where = BATCH_DELAYED;
        TAILQ_INSERT_TAIL(&batcher->delayed, item, link);
    } else {
        item->where = BATCH_READY;
        TAILQ_INSERT_TAIL(&batcher->ready, item, link);
        batcher->ready_count++;
    }
    batcher_arm(batcher);
}

void batcher_remove(struct batcher *batcher, struct batch_item *item)
{
    switch ((enum batch_where)item->where) {
    case BATCH_READY:
        TAILQ_REMOVE(&batcher->ready, item, link);
        batcher->ready_count--;
        break;
    case BATCH_DELAYED:
        TAILQ_REMOVE(&batcher->delayed, item, link);
        break;
    case BATCH_SENT:
        ASSERT(item->place->item == item);
        item->place->item = NULL;
        break;
    default:
        UNREACHABLE("an item that is idle");
    }
    item->where = BATCH_IDLE;
    batcher_arm(batcher);
}

struct batch_item *batcher_take(struct batcher *batcher)
{
    struct batch_item *item = TAILQ_FIRST(&batcher->ready);

    item = item != NULL ? item : TAILQ_FIRST(&batcher->delayed);
    if (item != NULL) {
        batcher_remove(batcher, item);
    }
    return item;
}

void batcher_open(struct batcher *batcher, bool open)
{
    batcher->closed = !open;
    batcher_arm(batcher);
}

/* --- a batch --- */

/* Its places are settled, and no pointer to it is left. */
static void batch_end(struct batch *batch)
{
    batch->request.payload.len = 0;
    batch->request.reply.len = 0;
    SLIST_INSERT_HEAD(&batch->batcher->unused, batch, unused);
}

/* Settle one place. */
static void batch_settle(struct batch *batch, uint32_t i, int err, const void *result,
                         uint64_t now_ms)
{
    struct batch_item *item = batch->places[i].item;

    if (item != NULL) {
        ASSERT(item->where == BATCH_SENT);
        item->where = BATCH_IDLE;
        batch->places[i].item = NULL;
    }
    batch->batcher->ops->result(batch->batcher, item, batch->places[i].note, err, result, now_ms);
}

/* Give up waiting for an answer that is long overdue. */
static void batch_abandon_cb(struct timer *timer, uint64_t now_ms)
{
    struct batch *batch = CONTAINER(timer, struct batch, abandon);

    batch->abandoned = true;
    batch->batcher->abandoned_count++;
    batch->batcher->sent_count -= batch->count;
    for (uint32_t i = 0; i < batch->count; i++) {
        if (batch->places[i].item != NULL) {
            batch_settle(batch, i, ERR_TIMEOUT, NULL, now_ms);
        }
    }
    batcher_arm(batch->batcher);
}

static void batch_answered_cb(struct cluster_request *request)
{
    struct batch *batch = CONTAINER(request, struct batch, request);
    struct batcher *batcher = batch->batcher;
    uint64_t now_ms = clock_now_ms(batcher->clock);
    union results results;
    size_t size = batcher->config.result == RESULT_GRANTS   ? sizeof *results.grants
                  : batcher->config.result == RESULT_STRICT ? sizeof *results.strict
                                                            : sizeof *results.statuses;
    size_t count = 0;
    int err = request->status;

    timer_cancel(batcher->timers, &batch->abandon);
    batcher->abandoned_count -= batch->abandoned;
    batcher->sent_count -= batch->abandoned ? 0 : batch->count;
    if (batcher->took != NULL) {
        histogram_note(batcher->took, clock_now_us(batcher->clock) - batch->began_us, batch->count);
    }
    if (err == 0) {
        err = results_decode(batcher->config.result, request->reply.data, request->reply.len,
                             &results, batcher->config.items, &count);
    }
    if (err == 0 && count != batch->count) {
        err = ERR_BAD_MESSAGE;
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        batch_settle(batch, i, err, err == 0 ? (const char *)&results + i * size : NULL, now_ms);
    }
    batcher->batch_count--;
    batch_end(batch);
    batcher_arm(batcher);
}

struct batch *batch_begin(struct batcher *batcher)
{
    struct batch *batch = SLIST_FIRST(&batcher->unused);

    if (batch != NULL) {
        SLIST_REMOVE_HEAD(&batcher->unused, unused);
    } else {
        batch = MUST_HAVE(
            calloc(1, sizeof *batch + batcher->config.items * sizeof(struct batch_place)));
        batch->batcher = batcher;
        batch->request.kind = batcher->config.kind;
        batch->request.once = batcher->config.once;
        batch->request.done = batch_answered_cb;
        timer_init(&batch->abandon, batch_abandon_cb);
    }
    batch->began_us = clock_now_us(batcher->clock);
    batch->request.status = 0;
    batch->abandoned = false;
    batch->count = 0;
    return batch;
}

void batch_put(struct batch *batch, struct batch_item *item, uint64_t note,
               const void *command_item)
{
    struct batch_place *place = &batch->places[batch->count++];

    ASSERT(batch->count <= batch->batcher->config.items);
    command_item_put(&batch->request.payload, batch->batcher->config.command, command_item);
    *place = (struct batch_place){item, note};
    if (item != NULL) {
        ASSERT(item->where == BATCH_IDLE);
        item->where = BATCH_SENT;
        item->place = place;
    }
}

void batch_send(struct batch *batch)
{
    struct batcher *batcher = batch->batcher;

    ASSERT(batch->count > 0);
    command_items_end(&batch->request.payload);
    /* The proposer's own deadline comes first; this is for answers that never come. */
    timer_arm(batcher->timers, &batch->abandon,
              batch->request.deadline_ms + batcher->config.abandon_ms);
    batcher->batch_count++;
    batcher->sent_count += batch->count;
    batcher->proposer->propose(batcher->proposer, &batch->request);
}

/* --- sending --- */

static void batcher_send_cb(struct timer *timer, uint64_t now_ms)
{
    struct batcher *batcher = CONTAINER(timer, struct batcher, send);
    struct batch_item *items[BATCH_ITEMS_MAX];
    struct batch_item *item;

    while ((item = TAILQ_FIRST(&batcher->delayed)) != NULL && item->at_ms <= now_ms) {
        TAILQ_REMOVE(&batcher->delayed, item, link);
        TAILQ_INSERT_TAIL(&batcher->ready, item, link);
        item->where = BATCH_READY;
        batcher->ready_count++;
    }
    /* Each batch has the oldest ready items. */
    while (batcher_may_send(batcher) && batcher_send_ms(batcher) <= now_ms) {
        struct batch *batch = batch_begin(batcher);
        uint32_t count = 0;

        while (count < batcher->config.items && batcher->ready_count > 0) {
            item = TAILQ_FIRST(&batcher->ready);
            TAILQ_REMOVE(&batcher->ready, item, link);
            batcher->ready_count--;
            item->where = BATCH_IDLE;
            items[count++] = item;
        }
        batcher->ops->pack(batcher, batch, items, count, now_ms);
        if (batch->count > 0) {
            batch_send(batch);
        } else {
            batch_end(batch);
        }
    }
    batcher_arm(batcher);
}

/* --- begin and end --- */

void batcher_init(struct batcher *batcher, const struct batcher_config *config,
                  const struct batcher_ops *ops, const struct clock *clock, struct timers *timers,
                  struct id_proposer *proposer)
{
    ASSERT(config->items >= 1 && config->items <= BATCH_ITEMS_MAX && config->batches >= 1);
    *batcher = (struct batcher){
        .config = *config, .ops = ops, .clock = clock, .timers = timers, .proposer = proposer};
    TAILQ_INIT(&batcher->ready);
    TAILQ_INIT(&batcher->delayed);
    SLIST_INIT(&batcher->unused);
    timer_init(&batcher->send, batcher_send_cb);
}

void batcher_release(struct batcher *batcher)
{
    struct batch *batch;

    ASSERT(batcher->batch_count == 0);
    timer_cancel(batcher->timers, &batcher->send);
    while ((batch = SLIST_FIRST(&batcher->unused)) != NULL) {
        SLIST_REMOVE_HEAD(&batcher->unused, unused);
        buf_free(&batch->request.payload);
        buf_free(&batch->request.reply);
        free(batch);
    }
}

/* --- returns --- */

static void returns_settle(struct batcher *batcher, struct batch_item *item, uint64_t note, int err,
                           const void *result, uint64_t now_ms)
{
    struct returns *returns = CONTAINER(batcher, struct returns, batcher);
    bool taken = err == 0 && *(const int32_t *)result == 0;

    (void)item;
    (void)now_ms;
    *(taken ? returns->returned : returns->lost) += note;
}

void returns_init(struct returns *returns, uint64_t *returned, uint64_t *lost, uint32_t abandon_ms,
                  const struct clock *clock, struct timers *timers, struct id_proposer *proposer)
{
    static const struct batcher_ops ops = {.result = returns_settle};
    const struct batcher_config config = {.kind = CLUSTER_REQUEST_COMMAND,
                                          .command = COMMAND_GIVE_BACK,
                                          .result = RESULT_STATUSES,
                                          .items = LIMIT_GRANTS_PER_ENTRY,
                                          .batches = 1,
                                          .abandon_ms = abandon_ms};

    *returns = (struct returns){.returned = returned, .lost = lost};
    batcher_init(&returns->batcher, &config, &ops, clock, timers, proposer);
}

void returns_put(struct returns *returns, const struct give_back_item *item, uint64_t ids,
                 uint64_t deadline_ms)
{
    if (returns->gathered == NULL) {
        struct batch *batch = batch_begin(&returns->batcher);

        batch->request.deadline_ms = deadline_ms;
        command_put(&batch->request.payload, COMMAND_GIVE_BACK,
                    &(struct command_list){.wall_ms = clock_wall_ms(returns->batcher.clock)});
        returns->gathered = batch;
    }
    batch_put(returns->gathered, NULL, ids, item);
    if (returns->gathered->count == LIMIT_GRANTS_PER_ENTRY) {
        returns_send(returns);
    }
}

void returns_send(struct returns *returns)
{
    struct batch *batch = returns->gathered;

    returns->gathered = NULL;
    if (batch != NULL) {
        batch_send(batch);
    }
}
