/*
 * clock.c - see clock.h: the system's clocks, the loop's, and whether one can be trusted.
 */
#include "src/base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/assert.h"
#include "src/base/hot.h"

HOT static uint64_t read_us(clockid_t id)
{
    struct timespec ts;

    ASSERT(clock_gettime(id, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static uint64_t system_now_us(const struct clock *clock)
{
    (void)clock;
    return read_us(CLOCK_BOOTTIME);
}

HOT static uint64_t system_wall_ms(const struct clock *clock)
{
    (void)clock;
    return read_us(CLOCK_REALTIME) / 1000;
}

const struct clock *clock_system(void)
{
    static const struct clock system = {
        .wall_ms = system_wall_ms, .now_us = system_now_us, .data = 0};

    return &system;
}

/* --- loop_clock --- */

static uint64_t loop_now_us(const struct clock *base)
{
    struct loop_clock *clock = base->data;

    if (!clock->stands) {
        clock->now_us = clock_now_us(clock->real);
        clock->stands = true;
    }
    return clock->now_us;
}

static uint64_t loop_wall_ms(const struct clock *base)
{
    const struct loop_clock *clock = base->data;

    return clock_wall_ms(clock->real);
}

static void loop_look(const struct clock *base)
{
    struct loop_clock *clock = base->data;

    clock->stands = false;
}

void loop_clock_init(struct loop_clock *clock, const struct clock *real)
{
    *clock = (struct loop_clock){
        .base = {.wall_ms = loop_wall_ms, .now_us = loop_now_us, .look = loop_look, .data = clock},
        .real = real};
}

/*
 * --- clock_check: the median of clocks, and jumps of our own.
 *
 * A jump is measured as the distance of the wall clock from the line that begins at the anchor (the
 * last tick's clocks) and follows the monotonic clock. The anchor follows the clock tick by tick,
 * so that small steps do not add up; during a jump it stays where it was before.
 */

#define CLOCKS_MAX (LIMIT_NODES + 1)       /* all samples and our own clock */
#define DISTANCE_MAX_MS ((int64_t)1 << 61) /* the sum of three fits 64 bits */

void clock_check_init(struct clock_check *check, uint32_t threshold_ms)
{
    ASSERT(threshold_ms > 0);
    memset(check, 0, sizeof *check);
    check->threshold_ms = threshold_ms;
}

void clock_check_members(struct clock_check *check, size_t members)
{
    ASSERT(members <= LIMIT_NODES);
    check->members = members;
}

/* to - from, saturated. */
static int64_t distance_ms(uint64_t from_ms, uint64_t to_ms)
{
    uint64_t apart_ms = to_ms > from_ms ? to_ms - from_ms : from_ms - to_ms;
    int64_t distance = apart_ms > (uint64_t)DISTANCE_MAX_MS ? DISTANCE_MAX_MS : (int64_t)apart_ms;

    return to_ms > from_ms ? distance : -distance;
}

void clock_check_sample(struct clock_check *check, uint64_t peer, uint64_t sent_ms, uint64_t now_ms,
                        uint64_t peer_wall_ms, uint64_t own_wall_ms)
{
    uint64_t rtt_ms = now_ms > sent_ms ? now_ms - sent_ms : 0;
    struct clock_sample *oldest = &check->samples[0];
    struct clock_sample *place = NULL; /* the peer's own, a new one, or the oldest one's */

    if (rtt_ms > CLOCK_SAMPLE_RTT_MAX_MS) {
        return;
    }
    ASSERT(check->count <= LIMIT_NODES);
    for (size_t i = 0; i < check->count; i++) {
        struct clock_sample *sample = &check->samples[i];

        place = sample->peer == peer ? sample : place;
        oldest = sample->taken_ms < oldest->taken_ms ? sample : oldest;
    }
    if (place == NULL) {
        place = check->count < LIMIT_NODES ? &check->samples[check->count++] : oldest;
    }
    *place = (struct clock_sample){
        .peer = peer,
        .taken_ms = now_ms,
        .own_ms = own_wall_ms,
        .offset_ms = distance_ms(own_wall_ms, peer_wall_ms) + (int64_t)(rtt_ms / 2),
    };
}

/* By how much the wall clock advanced more than the monotonic one. */
static int64_t stepped_ms(uint64_t then_now_ms, uint64_t then_wall_ms, uint64_t now_ms,
                          uint64_t wall_ms)
{
    return distance_ms(then_wall_ms, wall_ms) - distance_ms(then_now_ms, now_ms);
}

static bool is_fresh(const struct clock_sample *sample, uint64_t now_ms)
{
    return now_ms <= sample->taken_ms || now_ms - sample->taken_ms <= CLOCK_SAMPLE_FRESH_MS;
}

/* The peers' distances from the current wall clock by fresh samples; returns their number. */
static size_t fresh_offsets(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms,
                            int64_t ret_offsets[CLOCKS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < check->count; i++) {
        const struct clock_sample *sample = &check->samples[i];

        if (is_fresh(sample, now_ms)) {
            ret_offsets[count++] =
                sample->offset_ms - stepped_ms(sample->taken_ms, sample->own_ms, now_ms, wall_ms);
        }
    }
    ASSERT(count < CLOCKS_MAX);
    return count;
}

/* Are more than half of the clocks near the one that is so far ahead of our own, one of them? */
static bool majority_is_near(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms,
                             int64_t ahead_ms)
{
    int64_t offsets[CLOCKS_MAX];
    size_t samples = fresh_offsets(check, now_ms, wall_ms, offsets);
    size_t clocks = check->members > samples + 1 ? check->members : samples + 1;
    size_t near = 0;

    if (samples == 0 && check->members == 0) {
        return false;
    }
    offsets[samples++] = 0; /* our own */
    for (size_t i = 0; i < samples; i++) {
        near += llabs(offsets[i] - ahead_ms) <= (long long)check->threshold_ms;
    }
    return near * 2 > clocks;
}

/* Is there a jump that is not cleared? If so, *ret_off_ms is the wall clock's distance from the
 * anchor's line. */
static bool jump_is_uncleared(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms,
                              int64_t *ret_off_ms)
{
    int64_t off_ms = stepped_ms(check->anchor_now_ms, check->anchor_wall_ms, now_ms, wall_ms);

    if (!check->anchored) {
        return false;
    }
    if (off_ms >= -LIMIT_CLOCK_BACK_WAIT_MS && off_ms <= check->threshold_ms) {
        return false;
    }
    if (off_ms < 0 && check->caught_up_ms > 0 && wall_ms >= check->caught_up_ms) {
        return false;
    }
    *ret_off_ms = off_ms;
    return !majority_is_near(check, now_ms, wall_ms, 0);
}

void clock_check_tick(struct clock_check *check, uint64_t now_ms, uint64_t wall_ms)
{
    int64_t off_ms;

    if (!jump_is_uncleared(check, now_ms, wall_ms, &off_ms)) {
        check->anchored = true;
        check->anchor_now_ms = now_ms;
        check->anchor_wall_ms = wall_ms;
        check->caught_up_ms = 0;
        return;
    }
    ASSERT(check->anchored && off_ms != 0);
    if (off_ms < 0 && check->caught_up_ms == 0) {
        check->caught_up_ms = check->anchor_wall_ms + (now_ms - check->anchor_now_ms);
    }
}

bool clock_check_asked(const struct clock_check *check, uint64_t now_ms)
{
    size_t clocks = 1;

    for (size_t i = 0; i < check->count; i++) {
        clocks += is_fresh(&check->samples[i], now_ms);
    }
    return clocks > check->members / 2;
}

bool clock_check_peer(const struct clock_check *check, uint64_t peer, uint64_t now_ms,
                      uint64_t wall_ms, uint64_t *ret_ago_ms, int64_t *ret_off_ms)
{
    *ret_ago_ms = UINT64_MAX;
    for (size_t i = 0; i < check->count; i++) {
        const struct clock_sample *sample = &check->samples[i];

        if (sample->peer == peer) {
            *ret_ago_ms = now_ms > sample->taken_ms ? now_ms - sample->taken_ms : 0;
            *ret_off_ms =
                sample->offset_ms - stepped_ms(sample->taken_ms, sample->own_ms, now_ms, wall_ms);
            return is_fresh(sample, now_ms);
        }
    }
    return false;
}

/* The cluster's time minus our own wall clock. */
static int64_t median_offset(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms,
                             size_t *ret_samples)
{
    int64_t offsets[CLOCKS_MAX];
    size_t count = fresh_offsets(check, now_ms, wall_ms, offsets);

    *ret_samples = count;
    offsets[count++] = 0; /* our own clock */
    for (size_t i = 1; i < count; i++) {
        int64_t offset = offsets[i];
        size_t place = i;

        for (; place > 0 && offsets[place - 1] > offset; place--) {
            offsets[place] = offsets[place - 1];
        }
        offsets[place] = offset;
    }
    return offsets[(count - 1) / 2];
}

uint64_t clock_check_cluster_ms(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms,
                                size_t *ret_samples)
{
    int64_t offset_ms = median_offset(check, now_ms, wall_ms, ret_samples);
    uint64_t cluster_ms;

    if (offset_ms < 0) {
        uint64_t behind_ms = (uint64_t)-offset_ms;

        return wall_ms > behind_ms ? wall_ms - behind_ms : 0;
    }
    return __builtin_add_overflow(wall_ms, (uint64_t)offset_ms, &cluster_ms) ? UINT64_MAX
                                                                             : cluster_ms;
}

bool clock_check_agreed(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms)
{
    size_t samples;
    int64_t median_ms = median_offset(check, now_ms, wall_ms, &samples);

    return samples + 1 >= check->members || majority_is_near(check, now_ms, wall_ms, median_ms);
}

int clock_check_verdict(const struct clock_check *check, uint64_t now_ms, uint64_t wall_ms,
                        int64_t *ret_off_ms)
{
    int64_t threshold_ms = check->threshold_ms;
    int64_t off_ms;
    size_t samples;

    if (jump_is_uncleared(check, now_ms, wall_ms, &off_ms)) {
        *ret_off_ms = off_ms;
        return off_ms < 0 ? ERR_CLOCK_BACKWARDS : ERR_CLOCK_SKEW;
    }
    off_ms = -median_offset(check, now_ms, wall_ms, &samples);
    ASSERT_IMPLIES(samples == 0, off_ms == 0);
    *ret_off_ms = off_ms;
    return off_ms > threshold_ms || off_ms < -threshold_ms ? ERR_CLOCK_SKEW : 0;
}
