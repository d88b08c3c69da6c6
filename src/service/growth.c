/*
 * growth.c - see growth.h. Thread: the raft loop.
 */
#include "src/service/growth.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/hash.h"

#define CAPACITY_MIN 64

static void period_begin(struct growth_period *period, uint64_t began_ms)
{
    free(period->slots);
    *period = (struct growth_period){.began_ms = began_ms};
}

void growth_reset(struct growth *growth, uint64_t now_ms)
{
    growth->newest = 0;
    growth->count = 1;
    period_begin(&growth->periods[0], now_ms);
}

void growth_init(struct growth *growth, uint64_t seed, uint64_t now_ms)
{
    *growth = (struct growth){.seed = seed};
    growth_reset(growth, now_ms);
}

void growth_free(struct growth *growth)
{
    for (unsigned i = 0; i < GROWTH_PERIODS; i++) {
        period_begin(&growth->periods[i], 0);
    }
}

/* The one that began `back` periods before the newest. */
static const struct growth_period *period_at(const struct growth *growth, unsigned back)
{
    ASSERT(back < growth->count);
    return &growth->periods[(growth->newest + GROWTH_PERIODS - back) % GROWTH_PERIODS];
}

void growth_turn_over(struct growth *growth, uint64_t now_ms)
{
    uint64_t began_ms = growth->periods[growth->newest].began_ms;
    uint64_t over = now_ms > began_ms ? (now_ms - began_ms) / GROWTH_PERIOD_MS : 0;

    /* Of a long pause the last periods are enough: nothing changed in them. */
    if (over > GROWTH_PERIODS) {
        began_ms += (over - GROWTH_PERIODS) * GROWTH_PERIOD_MS;
        over = GROWTH_PERIODS;
    }
    for (; over > 0; over--) {
        began_ms += GROWTH_PERIOD_MS;
        growth->newest = (growth->newest + 1) % GROWTH_PERIODS;
        growth->count += growth->count < GROWTH_PERIODS;
        period_begin(&growth->periods[growth->newest], began_ms);
    }
}

static uint64_t growth_hash_of(const struct growth *growth, const char *name, size_t len)
{
    uint64_t hash = hash_bytes(name, len, growth->seed);

    return hash != 0 ? hash : 1;
}

/* The slot of this hash, or the free one that it would get. capacity > 0. */
static struct growth_slot *slot_of(const struct growth_period *period, uint64_t hash)
{
    size_t at = (size_t)hash & (period->capacity - 1);

    while (period->slots[at].hash != 0 && period->slots[at].hash != hash) {
        at = (at + 1) & (period->capacity - 1);
    }
    return &period->slots[at];
}

/* Room for one more, at most half full. */
static void growth_make_room(struct growth_period *period)
{
    struct growth_period larger = *period;

    if (2 * (period->count + 1) <= period->capacity) {
        return;
    }
    larger.capacity = period->capacity > 0 ? 2 * period->capacity : CAPACITY_MIN;
    larger.slots = MUST_HAVE(calloc(larger.capacity, sizeof *larger.slots));
    for (size_t i = 0; i < period->capacity; i++) {
        if (period->slots[i].hash != 0) {
            *slot_of(&larger, period->slots[i].hash) = period->slots[i];
        }
    }
    free(period->slots);
    *period = larger;
}

void growth_note(struct growth *growth, const struct tag_row *row, uint64_t now_ms)
{
    uint64_t hash = growth_hash_of(growth, row->name, row->name_len);
    struct growth_period *period;
    struct growth_slot *slot;

    if (now_ms >= growth->periods[growth->newest].began_ms + GROWTH_PERIOD_MS) {
        growth_turn_over(growth, now_ms);
    }
    period = &growth->periods[growth->newest];
    if (period->capacity > 0 && slot_of(period, hash)->hash == hash) {
        return;
    }
    if (period->count == LIMIT_GROWTH_TAGS) {
        period->full = true;
        return;
    }
    growth_make_room(period);
    slot = slot_of(period, hash);
    *slot = (struct growth_slot){hash, row->max_id};
    period->count++;
}

uint64_t growth_since_ms(const struct growth *growth)
{
    return period_at(growth, growth->count - 1)->began_ms;
}

bool growth_is_whole(const struct growth *growth)
{
    for (unsigned back = 0; back < growth->count; back++) {
        if (period_at(growth, back)->full) {
            return false;
        }
    }
    return true;
}

bool growth_tag(const struct growth *growth, const char *name, size_t len, uint64_t *ret_max_id)
{
    uint64_t hash = growth_hash_of(growth, name, len);

    for (unsigned back = growth->count; back-- > 0;) {
        const struct growth_period *period = period_at(growth, back);

        if (period->capacity > 0 && slot_of(period, hash)->hash == hash) {
            *ret_max_id = slot_of(period, hash)->max_id;
            return true;
        }
    }
    return false;
}
