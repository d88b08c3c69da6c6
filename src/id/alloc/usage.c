/*
 * usage.c - see usage.h. Thread: one owner.
 */
#include "src/id/alloc/usage.h"

#include "src/base/assert.h"
#include "src/base/container.h"

_Static_assert(2ULL * LIMIT_TAG_STEP <= UINT32_MAX, "ids in both slots are counted in 32 bits");

/* A faster tag takes the place of the slowest. */
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

/* Refills are wanted, or there are none: waiting for more of them does not help. */
static bool waits_in_vain(const struct id_tag *tag, uint8_t now_s)
{
    bool wanted = atomic_load_explicit(&tag->refill_wanted, memory_order_relaxed) ||
                  atomic_load_explicit(&tag->room, memory_order_relaxed) == 0;

    return wanted && (uint8_t)(now_s - tag->refill.short_since_s) >= USAGE_GRACE_S;
}

static void judge_cover(struct usage *usage, struct id_tag *tag, uint64_t now_ms)
{
    struct refill *refill = &tag->refill;
    uint8_t now_s = (uint8_t)(now_ms / 1000);
    bool was_short = refill->is_short;

    if (refill->cover_s == 0 || usage_lasts_s(tag) >= refill->cover_s) {
        refill->is_short = false;
        refill->short_loads = 0;
    } else if (refill->short_loads == 0) {
        refill->short_loads = 1;
        refill->short_since_s = now_s;
    } else {
        refill->is_short = refill->is_short || refill->short_loads > REFILL_GRACE_LOADS ||
                           waits_in_vain(tag, now_s);
    }
    ASSERT_IMPLIES(was_short, usage->short_count > 0);
    usage->short_count += (size_t)refill->is_short - (size_t)was_short;
}

void usage_look(struct usage *usage, struct id_tag *tag)
{
    uint64_t now_ms = clock_now_ms(usage->clock);
    uint32_t left = (uint32_t)segment_left(&tag->buffer);
    uint32_t used = tag->unseen > left ? tag->unseen - left : 0;

    timer_arm_by(usage->timers, &usage->next, now_ms + USAGE_LOOK_MS);
    if (meter_note(&tag->refill.rate, used, USAGE_HALF_MS, now_ms)) {
        tag->unseen -= used;
    }
    if (tag->refill.rate.per_s > 0) {
        offer(usage, tag);
    }
    judge_cover(usage, tag, now_ms);
}

static void on_look(struct timer *timer, uint64_t now_ms)
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

void usage_init(struct usage *usage, struct id_table *table, const struct clock *clock,
                struct timers *timers)
{
    *usage = (struct usage){.table = table, .clock = clock, .timers = timers};
    timer_init(&usage->next, on_look);
}

void usage_free(struct usage *usage)
{
    timer_cancel(usage->timers, &usage->next);
}

void usage_add(struct usage *usage, struct id_tag *tag, uint32_t count)
{
    uint32_t at_ms = tag->refill.rate.at_ms;

    if (at_ms == 0 || (uint32_t)clock_now_ms(usage->clock) - at_ms >= USAGE_LOOK_MS) {
        usage_look(usage, tag);
    }
    tag->unseen += count <= UINT32_MAX - tag->unseen ? count : 0;
}

void usage_burnt(struct id_tag *tag, uint64_t count)
{
    ASSERT(count <= 2ULL * LIMIT_TAG_STEP);
    tag->unseen -= count < tag->unseen ? (uint32_t)count : tag->unseen;
}
