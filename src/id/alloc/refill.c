/*
 * refill.c - see refill.h. Failure modes: none; all sums saturate.
 */
#include "src/id/alloc/refill.h"

#include "src/base/assert.h"
#include "src/base/hot.h"
#include "src/base/limits.h"

/* Since the last load; 0 if the clock stopped or went back. */
static uint64_t passed_since(const struct refill *refill, uint64_t now_ms)
{
    return now_ms > refill->last_load_ms ? now_ms - refill->last_load_ms : 0;
}

/* Leaf's rule; the first two are the tag's step. At least step, and 0 only while that is unknown.
 */
static uint32_t leaf_size(const struct refill *refill, uint64_t now_ms)
{
    uint64_t size = refill->size;
    uint64_t passed_ms = passed_since(refill, now_ms);

    if (refill->loads < 2) {
        return refill->step;
    }
    if (passed_ms < REFILL_SEGMENT_DURATION_MS) {
        if (size * 2 <= refill->max_step) {
            size *= 2;
        }
    } else if (passed_ms >= 2 * REFILL_SEGMENT_DURATION_MS) {
        if (size / 2 >= refill->step) {
            size /= 2;
        }
    }
    return size > refill->step ? (uint32_t)size : refill->step;
}

uint32_t refill_size(const struct refill *refill, uint64_t now_ms, uint32_t cover_ms,
                     uint64_t demand)
{
    uint64_t most = refill->max_step > 0 ? refill->max_step : LIMIT_TAG_STEP;
    bool by_time = refill->cover_s > 0;
    uint64_t size = by_time ? refill->step : leaf_size(refill, now_ms);
    double cover = (double)refill->pace_per_s * (by_time ? refill->cover_s : cover_ms / 1000.0);

    cover *= by_time ? REFILL_COVER_PERCENT / 100.0 : 1;
    if ((double)size < cover) {
        size = cover < (double)most ? (uint64_t)cover : most;
    }
    if (size < demand) {
        size = demand;
    }
    if (size > most) {
        size = most;
    }
    ASSERT(size <= UINT32_MAX);
    ASSERT_IMPLIES(size == 0, refill->step == 0 && demand == 0);
    return (uint32_t)size;
}

/* Ids a second since the last load. */
static float pace_since(const struct refill *refill, uint64_t now_ms, uint64_t left)
{
    uint64_t used = refill->unused > left ? refill->unused - left : 0;
    uint64_t passed_ms = passed_since(refill, now_ms);
    uint64_t window_ms = passed_ms > REFILL_PACE_WINDOW_MS ? passed_ms : REFILL_PACE_WINDOW_MS;

    return (float)((double)used * 1000 / (double)window_ms);
}

void refill_hurry(struct refill *refill, uint64_t now_ms, uint64_t left)
{
    float pace = refill->loads > 0 ? pace_since(refill, now_ms, left) : 0;

    if (pace > refill->pace_per_s) {
        refill->pace_per_s = pace;
    }
}

void refill_loaded(struct refill *refill, uint64_t now_ms, uint32_t size, uint64_t left)
{
    ASSERT(size > 0);
    if (refill->loads > 0) {
        uint64_t passed_ms = passed_since(refill, now_ms);
        float pace = pace_since(refill, now_ms, left);

        if (pace < refill->pace_per_s && passed_ms < REFILL_SEGMENT_DURATION_MS) {
            pace = pace / 2 + refill->pace_per_s / 2;
        }
        refill->pace_per_s = pace;
    }
    if (refill->loads < UINT8_MAX) {
        refill->loads++;
    }
    if (refill->short_loads > 0 && refill->short_loads < UINT8_MAX) {
        refill->short_loads++;
    }
    refill->size = size;
    refill->unused = (uint32_t)(left + size);
    refill->last_load_ms = now_ms;
}

void refill_reset(struct refill *refill, uint32_t generation)
{
    refill->generation = generation;
    refill->size = 0;
    refill->loads = 0;
    refill->last_load_ms = 0;
    refill->unused = 0;
    refill->end = 0;
    refill->pace_per_s = 0;
}

HOT bool refill_due(uint32_t used, uint32_t size, uint32_t percent)
{
    return used >= size || (uint64_t)used * 100 > (uint64_t)size * percent;
}
