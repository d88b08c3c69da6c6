/*
 * allocator.c - see allocator.h: asks for segments and publishes them.
 *
 *   idle --want--> waits, is asked for (batch.h) --result--> idle
 *                    ^                            |
 *                    |                          failed, and still needed
 *                    +---------- retry_ms --------+
 *
 * Failure modes: a tag whose batch fails, or is not answered in time, is asked for again after a
 * pause; ids that an abandoned batch brings later are burnt. Results that do not fit (an older
 * generation, ids below published ones) are burnt as well: no outside data is trusted with
 * uniqueness.
 */
#include "src/id/alloc/allocator.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/id/alloc/batch.h"

struct allocator {
    struct allocator_config config;
    struct id_table *table;
    const struct clock *clock;
    struct id_waker *waker;
    struct prefetch *prefetch; /* NULL: no one is informed of segments */
    struct usage usage;
    struct batcher grants;
    struct returns returns;
    struct allocator_counts counts;
    bool has_rekeyable; /* a tag of the table has a shape with {key} */
    bool stopped;       /* segments were given back: no more are asked for or published */
};

/* --- usage --- */

_Static_assert(2ULL * LIMIT_TAG_STEP <= UINT32_MAX, "ids in both slots are counted in 32 bits");

/* A faster tag replaces the slowest. */
static void offer(struct usage *usage, struct id_tag *tag)
{
    struct id_tag **slowest = &usage->busiest[0];

    for (size_t i = 0; i < usage->count; i++) {
        if (usage->busiest[i] == tag) {
            return;
        }
        if (usage->busiest[i]->refill.rate.per_s < (*slowest)->refill.rate.per_s) {
            slowest = &usage->busiest[i];
        }
    }
    if (usage->count < USAGE_BUSIEST) {
        usage->busiest[usage->count++] = tag;
    } else if (tag->refill.rate.per_s > (*slowest)->refill.rate.per_s) {
        *slowest = tag;
    }
}

uint64_t usage_lasts_s(const struct id_tag *tag)
{
    uint32_t state = atomic_load_explicit(&tag->state, memory_order_relaxed);
    double per_s = (double)tag->refill.rate.per_s;

    return per_s < USAGE_RATE_MIN_PER_S || (state != ID_TAG_ACTIVE && state != ID_TAG_EXHAUSTED)
               ? UINT64_MAX
               : (uint64_t)((double)segment_left(&tag->buffer) / per_s);
}

/* Update tag->refill.rate and is_short. */
static void usage_look(struct usage *usage, struct id_tag *tag)
{
    uint64_t now_ms = clock_now_ms(usage->clock);
    struct refill *refill = &tag->refill;
    uint8_t now_s = (uint8_t)(now_ms / 1000);
    bool was_short = refill->is_short;
    uint32_t left = (uint32_t)segment_left(&tag->buffer);
    uint32_t used = tag->buffer.unseen > left ? tag->buffer.unseen - left : 0;

    timer_arm_by(usage->timers, &usage->next, now_ms + USAGE_LOOK_MS);
    if (meter_note(&refill->rate, used, USAGE_HALF_MS, now_ms)) {
        tag->buffer.unseen -= used;
    }
    if (refill->rate.per_s > 0) {
        offer(usage, tag);
    }
    if (refill->cover_s == 0 || usage_lasts_s(tag) >= refill->cover_s) {
        refill->is_short = false;
        refill->short_loads = 0;
    } else if (refill->short_loads == 0) {
        refill->short_loads = 1;
        refill->short_since_s = now_s;
    } else {
        /* Refills are wanted, or impossible: waiting for more of them does not help. */
        bool in_vain = atomic_load_explicit(&tag->refill_wanted, memory_order_relaxed) ||
                       atomic_load_explicit(&tag->room, memory_order_relaxed) == 0;

        refill->is_short = refill->is_short || refill->short_loads > REFILL_GRACE_LOADS ||
                           (in_vain && (uint8_t)(now_s - refill->short_since_s) >= USAGE_GRACE_S);
    }
    ASSERT_IMPLIES(was_short, usage->short_count > 0);
    usage->short_count += (size_t)refill->is_short - (size_t)was_short;
}

static void usage_look_cb(struct timer *timer, uint64_t now_ms)
{
    struct usage *usage = CONTAINER(timer, struct usage, next);
    struct id_tag *tag = id_table_after(usage->table, usage->last);

    (void)now_ms;
    for (unsigned i = 0; tag != NULL && i < USAGE_LOOKS; i++) {
        usage_look(usage, tag);
        usage->last = tag;
        tag = id_table_after(usage->table, tag);
    }
    if (tag == NULL) {
        usage->last = NULL;
    }
    for (size_t i = 0; i < usage->count; i++) {
        usage_look(usage, usage->busiest[i]);
    }
}

/* Ids of the tag came to this node, and are now in its slots or handed out. */
static void usage_add(struct usage *usage, struct id_tag *tag, uint32_t count)
{
    uint32_t at_ms = tag->refill.rate.at_ms;

    if (at_ms == 0 || (uint32_t)clock_now_ms(usage->clock) - at_ms >= USAGE_LOOK_MS) {
        usage_look(usage, tag);
    }
    tag->buffer.unseen += count <= UINT32_MAX - tag->buffer.unseen ? count : 0;
}

/* Ids were taken out of the slots, and no client gets them. */
static void usage_burnt(struct id_tag *tag, uint64_t count)
{
    ASSERT(count <= 2ULL * LIMIT_TAG_STEP);
    tag->buffer.unseen -= count < tag->buffer.unseen ? (uint32_t)count : tag->buffer.unseen;
}

/* --- segments --- */

void allocator_set_waker(struct allocator *allocator, struct id_waker *waker)
{
    allocator->waker = waker;
}

void allocator_want(struct allocator *allocator, struct id_tag *tag)
{
    if (tag->item.where == BATCH_IDLE) {
        batcher_add(&allocator->grants, &tag->item, tag->item.at_ms);
    }
}

static void tag_wake(struct allocator *allocator, struct id_tag *tag)
{
    uint64_t loops;

    if (allocator->waker == NULL) {
        return;
    }
    loops = atomic_exchange_explicit(&tag->waiting_loops, 0, memory_order_acq_rel);
    YIELD("took the waiting bits");
    if (loops != 0) {
        allocator->waker->wake(allocator->waker, tag, loops);
    }
}

/* The request ended. See allocator.h for the order. */
static void tag_end(struct allocator *allocator, struct id_tag *tag)
{
    (void)atomic_exchange_explicit(&tag->refill_wanted, false, memory_order_acq_rel);
    YIELD("cleared refill_wanted");
    tag_wake(allocator, tag);
}

static void tag_steps(struct id_tag *tag, uint32_t step, uint32_t max_step)
{
    atomic_store_explicit(&tag->refill.step, step, memory_order_relaxed);
    atomic_store_explicit(&tag->refill.max_step, max_step, memory_order_relaxed);
}

/* Set the ids that can still be granted, if all below max_id were. This node may know its own
 * grants before its log has them. A claimer that sees the new value sees refill_wanted set until
 * the range of that value is published. */
static void tag_room(struct id_tag *tag, uint64_t max_id)
{
    uint64_t granted = max_id > tag->refill.end ? max_id : tag->refill.end;
    uint32_t increment = atomic_load_explicit(&tag->increment, memory_order_relaxed);
    uint64_t bound = atomic_load_explicit(&tag->bound, memory_order_relaxed);
    uint64_t first;

    atomic_store_explicit(&tag->room, ids_between(granted, bound, increment, tag->offset, &first),
                          memory_order_release);
}

/* Read by a read-modify-write, so that it has a place in the order that allocator.h describes: a
 * claimer whose bit is not seen here sees that refill_wanted was cleared before. */
static bool tag_needed(struct id_tag *tag)
{
    return atomic_fetch_or_explicit(&tag->waiting_loops, 0, memory_order_acq_rel) != 0 ||
           atomic_load_explicit(&tag->demand, memory_order_acquire) > 0;
}

/* The request failed: ask again after a pause if a claimer still needs it, else leave it to the
 * next claimer. Clearing first and looking again afterwards loses no claimer in between. */
static void tag_retry(struct allocator *allocator, struct id_tag *tag, uint64_t now_ms)
{
    tag->item.at_ms = (now_ms + allocator->config.retry_ms) & BATCH_AT_MS_MAX;
    if (!tag_needed(tag)) {
        YIELD("saw that nobody waits");
        (void)atomic_exchange_explicit(&tag->refill_wanted, false, memory_order_acq_rel);
        YIELD("gave up a refill");
        if (!tag_needed(tag) ||
            atomic_exchange_explicit(&tag->refill_wanted, true, memory_order_acq_rel)) {
            return; /* no claimer, or one that calls want() itself */
        }
    }
    batcher_add(&allocator->grants, &tag->item, tag->item.at_ms);
}

static void tag_granted(struct allocator *allocator, struct id_tag *tag,
                        const struct grant_result *result, uint64_t now_ms)
{
    struct refill *refill = &tag->refill;
    uint32_t state;

    if (allocator->stopped) { /* no thread claims any more */
        allocator->counts.burnt[ID_BURN_STOP] += result->size;
        tag_end(allocator, tag);
        return;
    }
    if (result->first < refill->end ||                        /* ids that this node already got */
        !id_tag_has_keys(tag, result->first, result->size)) { /* its log is older than the grant */
        allocator->counts.burnt[ID_BURN_LATE] += result->size;
        tag_retry(allocator, tag, now_ms);
        return;
    }
    tag_steps(tag, result->step, result->max_step);
    allocator->counts.held += refill->loads == 0;
    refill_loaded(refill, now_ms, result->size, segment_left(&tag->buffer));
    refill->end = ids_end(result->first, result->size, result->increment);
    tag_room(tag, refill->end);
    usage_add(&allocator->usage, tag, result->size);
    segment_publish(&tag->buffer, result->first, result->size, result->increment,
                    result->generation);
    allocator->counts.granted += result->size;
    YIELD("published a segment");
    if (allocator->prefetch != NULL) {
        prefetch_served(allocator->prefetch, tag);
    }
    state = atomic_load_explicit(&tag->state, memory_order_relaxed);
    if (state != ID_TAG_ACTIVE && state != ID_TAG_PAUSED) {
        atomic_store_explicit(&tag->state, ID_TAG_ACTIVE, memory_order_release);
    }
    tag_end(allocator, tag);
}

static void tag_burn(struct allocator *allocator, struct id_tag *tag)
{
    uint64_t burnt = segment_burn(&tag->buffer);

    allocator->counts.burnt[ID_BURN_GENERATION] += burnt;
    usage_burnt(tag, burnt);
}

/* The tag has (at least) this generation: burn held ids of an older one. */
static void tag_generation(struct allocator *allocator, struct id_tag *tag, uint32_t generation)
{
    ASSERT(generation >= tag->refill.generation);
    if (generation == tag->refill.generation) {
        return;
    }
    tag_burn(allocator, tag);
    allocator->counts.held -= tag->refill.loads > 0;
    refill_reset(&tag->refill, generation);
}

/* The cluster's answer for one tag. */
static void tag_result(struct allocator *allocator, struct id_tag *tag,
                       const struct grant_result *result, uint64_t now_ms)
{
    bool known = result->status == ERR_UNKNOWN_TAG || result->status == ERR_EXHAUSTED ||
                 result->status == ERR_WRONG_MODE;
    /* The rules that every granted range keeps, beside the codec's. */
    bool is_sane = result->size <= LIMIT_TAG_STEP && result->first < TAG_MAX_ID_END &&
                   ids_end(result->first, result->size, result->increment) <= TAG_MAX_ID_END &&
                   result->step > 0 && result->step <= result->max_step &&
                   result->max_step <= LIMIT_TAG_STEP;

    if (result->generation < tag->refill.generation || (result->status != 0 && !known) ||
        (result->status == 0 && !is_sane)) {
        allocator->counts.burnt[ID_BURN_LATE] += result->size;
        tag_retry(allocator, tag, now_ms); /* of an older tag of that name, or nonsense */
        return;
    }
    tag_generation(allocator, tag, result->generation);
    if (result->status == 0) {
        tag_granted(allocator, tag, result, now_ms);
        return;
    }
    if (result->status == ERR_UNKNOWN_TAG || result->status == ERR_WRONG_MODE) {
        uint32_t before = atomic_load_explicit(&tag->state, memory_order_relaxed);
        uint32_t state = result->status == ERR_UNKNOWN_TAG ? ID_TAG_UNKNOWN
                         : before == ID_TAG_MONOTONIC      ? before
                                                           : ID_TAG_STRICT;

        atomic_store_explicit(&tag->state, state, memory_order_release);
        tag_burn(allocator, tag);
    } else {
        tag_steps(tag, result->step, result->max_step);
        if (atomic_load_explicit(&tag->state, memory_order_relaxed) != ID_TAG_PAUSED) {
            atomic_store_explicit(&tag->state, ID_TAG_EXHAUSTED, memory_order_release);
        }
    }
    tag_end(allocator, tag);
}

static void grants_settle(struct batcher *batcher, struct batch_item *item, uint64_t note, int err,
                          const void *result, uint64_t now_ms)
{
    struct allocator *allocator = CONTAINER(batcher, struct allocator, grants);
    struct id_tag *tag;

    (void)note;
    if (item == NULL) { /* late: another request may be under way */
        allocator->counts.burnt[ID_BURN_LATE] +=
            err == 0 ? ((const struct grant_result *)result)->size : 0;
        return;
    }
    tag = CONTAINER(item, struct id_tag, item);
    allocator->counts.in_flight--;
    atomic_store_explicit(&tag->disk_full, err == ERR_DISK_FULL, memory_order_relaxed);
    if (err == 0) {
        tag_result(allocator, tag, result, now_ms);
    } else {
        tag_retry(allocator, tag, now_ms);
    }
}

static void grants_pack(struct batcher *batcher, struct batch *batch,
                        struct batch_item *const *items, uint32_t count, uint64_t now_ms)
{
    struct allocator *allocator = CONTAINER(batcher, struct allocator, grants);

    batch->request.deadline_ms = now_ms + allocator->config.request_ms;
    command_put(&batch->request.payload, COMMAND_GRANT,
                &(struct command_list){.wall_ms = clock_wall_ms(allocator->clock)});
    for (uint32_t i = 0; i < count; i++) {
        struct id_tag *tag = CONTAINER(items[i], struct id_tag, item);
        struct grant_item grant = {tag->name, tag->name_len, 0};

        if (atomic_load_explicit(&tag->state, memory_order_relaxed) != ID_TAG_ACTIVE ||
            !segment_can_publish(&tag->buffer)) {
            tag_end(allocator, tag); /* it needs no segment now: waiters look again */
            continue;
        }
        if (tag->refill.cover_s > 0) {
            refill_hurry(&tag->refill, now_ms, segment_left(&tag->buffer));
        }
        grant.size = refill_size(&tag->refill, now_ms, allocator->config.cover_ms,
                                 atomic_load_explicit(&tag->demand, memory_order_relaxed));
        batch_put(batch, &tag->item, 0, &grant);
    }
    allocator->counts.in_flight += batch->count;
}

/* Adopt a row, unless it is older than the known one. */
static void tag_adopt(struct allocator *allocator, struct id_tag *tag, const struct tag_row *row)
{
    uint32_t before = atomic_load_explicit(&tag->state, memory_order_relaxed);
    uint32_t after = before;
    bool newer = row->generation > tag->refill.generation;

    allocator->has_rekeyable |= id_tag_take_shape(tag, row);
    if (row->generation < tag->refill.generation) {
        return;
    }
    if (row->deleted) {
        after = ID_TAG_UNKNOWN;
    } else if (row->paused) {
        after = ID_TAG_PAUSED;
        id_tag_set_reason(tag, row->reason, row->reason_len);
    } else if (row->mode != TAG_MODE_TREND) {
        after = row->mode == TAG_MODE_STRICT ? ID_TAG_STRICT : ID_TAG_MONOTONIC;
    } else if (newer || before == ID_TAG_PAUSED ||
               (before == ID_TAG_EXHAUSTED && row->max_id < tag_bound(row))) {
        after = ID_TAG_ACTIVE; /* e.g. its max was raised */
    }
    tag_steps(tag, row->step, row->max_step);
    tag->refill.cover_s = row->cover_s;
    if (after != before) {
        atomic_store_explicit(&tag->state, after, memory_order_release);
    }
    if (after != ID_TAG_ACTIVE && after != ID_TAG_EXHAUSTED &&
        (after != ID_TAG_PAUSED || row->mode != TAG_MODE_TREND)) {
        tag_burn(allocator, tag);
    }
    tag_generation(allocator, tag, row->generation);
    atomic_store_explicit(&tag->bound, tag_bound(row), memory_order_relaxed);
    atomic_store_explicit(&tag->increment, row->increment, memory_order_relaxed);
    tag->offset = row->offset;
    tag_room(tag, row->max_id);
    /* A wanted or sent request continues; it ends by itself, and then wakes again. */
    if (newer || after != before) {
        tag_wake(allocator, tag);
    }
}

bool allocator_has_keys(const struct allocator *allocator, const struct cluster_request *request,
                        uint64_t first)
{
    const struct id_tag *tag;
    struct strict_item item;

    if (!allocator->has_rekeyable) {
        return true; /* nearly always: at no cost */
    }
    ASSERT(strict_item_decode(request->payload.data, request->payload.len, &item) == 0);
    tag = id_table_find(allocator->table, item.name, item.name_len);
    return tag == NULL || id_tag_has_keys(tag, first, item.count);
}

void allocator_tag_changed(struct allocator *allocator, const struct tag_row *row)
{
    struct id_tag *tag = id_table_find(allocator->table, row->name, row->name_len);

    if (tag != NULL) {
        tag_adopt(allocator, tag, row);
    }
}

int allocator_take_marks(struct allocator *allocator, const void *command, size_t len,
                         const void *marks, size_t marks_len)
{
    struct tag_names names;
    struct reader reader;
    const char *name;
    size_t name_len;

    tag_names_begin(&names, command, len);
    if (marks_len != (size_t)names.left * TAG_MARK_BYTES) {
        return ERR_BAD_MESSAGE;
    }
    reader_init(&reader, marks, marks_len);
    while (tag_names_next(&names, &name, &name_len)) {
        struct id_tag *tag = id_table_find(allocator->table, name, name_len);
        uint32_t generation = reader_u32(&reader);

        if (tag != NULL && generation > tag->refill.generation) {
            tag_generation(allocator, tag, generation);
            /* Its state is not known here. The next claimer asks, and the grant shows it, unless
             * this node's log does before. */
            atomic_store_explicit(&tag->state, ID_TAG_ACTIVE, memory_order_release);
            tag_wake(allocator, tag);
        }
    }
    ASSERT(reader_done(&reader));
    return 0;
}

struct id_tag *allocator_open(struct allocator *allocator, const struct tag_row *row)
{
    struct id_tag *tag = id_table_insert(allocator->table, row->name, row->name_len);

    if (tag != NULL) {
        tag_adopt(allocator, tag, row);
    }
    return tag;
}

void allocator_segments(struct allocator *allocator, const char *prefix, size_t prefix_len,
                        const char *after, size_t after_len, uint32_t limit,
                        struct id_segments_page *ret_page)
{
    uint64_t now_ms = clock_now_ms(allocator->clock);
    struct id_segments_page page = {0};
    struct id_tag *tag = id_table_next(allocator->table, prefix, prefix_len, after, after_len);

    ASSERT(limit >= 1 && limit <= LIMIT_TAGS_PER_PAGE);
    page.items = MUST_HAVE(calloc(limit, sizeof *page.items));
    while (tag != NULL && page.count < limit) {
        struct id_segment_info *info = &page.items[page.count++];
        const struct refill *refill = &tag->refill;

        ASSERT(tag->name_len < sizeof info->name);
        memcpy(info->name, tag->name, tag->name_len);
        info->name_len = tag->name_len;
        info->state = atomic_load_explicit(&tag->state, memory_order_relaxed);
        segment_inspect(&tag->buffer, info->slots);
        info->step = refill->size;
        info->refill_in_flight = tag->item.where == BATCH_SENT;
        info->last_refill_ago_ms = refill->loads > 0 ? now_ms - refill->last_load_ms : UINT64_MAX;
        usage_look(&allocator->usage, tag);
        info->rate_per_s = (uint64_t)(refill->rate.per_s + 0.5F);
        info->lasts_s = usage_lasts_s(tag);
        info->cover_s = refill->cover_s;
        tag = id_table_next(allocator->table, prefix, prefix_len, tag->name, tag->name_len);
    }
    page.more = tag != NULL;
    *ret_page = page;
}

void allocator_answered(struct allocator *allocator, const struct cluster_request *request)
{
    struct strict_result result;
    struct strict_item item;
    struct id_tag *tag;
    size_t count = 0;

    ASSERT(strict_item_decode(request->payload.data, request->payload.len, &item) == 0);
    tag = id_table_find(allocator->table, item.name, item.name_len);
    if (tag != NULL &&
        results_decode(RESULT_STRICT, request->reply.data, request->reply.len, &result, 1,
                       &count) == 0 &&
        !result.replayed) {
        usage_add(&allocator->usage, tag, item.count);
    }
}

const struct usage *allocator_usage(const struct allocator *allocator)
{
    return &allocator->usage;
}

const struct allocator_counts *allocator_counts(const struct allocator *allocator)
{
    return &allocator->counts;
}

/* --- the end --- */

void allocator_give_back(struct allocator *allocator, uint64_t deadline_ms, row_of_fn row_of,
                         void *data)
{
    struct id_tag *tag = id_table_after(allocator->table, NULL);
    size_t tag_count = 0;

    ASSERT(!allocator->stopped);
    allocator->stopped = true;
    batcher_open(&allocator->grants, false);
    for (; tag != NULL; tag = id_table_after(allocator->table, tag)) {
        struct segment_range range;
        struct segment_range top = {0};
        struct segment_view view;
        const struct tag_row *row;
        uint64_t total = 0;
        uint64_t end;

        while (segment_claim(&tag->buffer, 1, UINT32_MAX, &range, &view) == 0) {
            total += range.count;
            if (top.count > 0 && range_next(&top) == range.first &&
                top.count <= UINT32_MAX - range.count) {
                top.count += range.count;
            } else {
                top = range;
            }
        }
        if (total == 0) {
            continue;
        }
        usage_burnt(tag, total);
        ASSERT(top.count <= total);
        row = row_of(data, tag->name, tag->name_len);
        end = ids_end(top.first, top.count, top.increment);
        /* May it be the top of its tag? If this node is late, the state machine refuses it. */
        if (tag_count < LIMIT_GIVE_BACK_TAGS && row != NULL && !row->deleted &&
            row->mode == TAG_MODE_TREND && row->generation == tag->refill.generation &&
            row->max_id <= end) {
            struct give_back_item item = {tag->name, tag->name_len, row->generation, top.first,
                                          end};

            returns_put(&allocator->returns, &item, top.count, deadline_ms);
            tag_count++;
            total -= top.count;
        }
        allocator->counts.burnt[ID_BURN_STOP] += total;
    }
    returns_send(&allocator->returns);
}

bool allocator_given_back(const struct allocator *allocator)
{
    return allocator->returns.batcher.batch_count == 0;
}

/* --- begin and end --- */

struct allocator *allocator_new(const struct allocator_config *config, struct id_table *table,
                                struct prefetch *prefetch, const struct clock *clock,
                                struct timers *timers, struct id_proposer *proposer)
{
    static const struct batcher_ops grants_ops = {.pack = grants_pack, .result = grants_settle};
    const struct batcher_config grants = {.kind = CLUSTER_REQUEST_COMMAND,
                                          .command = COMMAND_GRANT,
                                          .result = RESULT_GRANTS,
                                          .items = LIMIT_GRANTS_PER_ENTRY,
                                          .batches = LIMIT_GRANT_ENTRIES_IN_FLIGHT,
                                          .abandon_ms = config->retry_ms};
    struct allocator *allocator = MUST_HAVE(calloc(1, sizeof *allocator));

    ASSERT(config->request_ms > 0 && config->retry_ms > 0);
    allocator->config = *config;
    allocator->table = table;
    allocator->prefetch = prefetch;
    allocator->clock = clock;
    batcher_init(&allocator->grants, &grants, &grants_ops, clock, timers, proposer);
    allocator->grants.took = &allocator->counts.took;
    returns_init(&allocator->returns, &allocator->counts.returned,
                 &allocator->counts.burnt[ID_BURN_STOP], config->retry_ms, clock, timers, proposer);
    allocator->usage = (struct usage){.table = table, .clock = clock, .timers = timers};
    timer_init(&allocator->usage.next, usage_look_cb);
    return allocator;
}

void allocator_free(struct allocator *allocator)
{
    if (allocator == NULL) {
        return;
    }
    batcher_release(&allocator->grants);
    batcher_release(&allocator->returns.batcher);
    timer_cancel(allocator->usage.timers, &allocator->usage.next);
    free(allocator);
}
