/*
 * lease.c - see lease.h: the turns of a lease, its judgement of the clock, and its status. What
 * becomes of one worker id is lease_slot.c's.
 *
 * The happy path of a turn that is due: publish what is on disk; compare the clock; if it is fit,
 * let the marks follow it where ids were claimed, and send the commands that are due.
 *
 * The clock is compared every ACTIVE_TICK_MS as long as a slot could stamp something, and in the
 * turn that a claim asked for: so the mark never follows a clock that was not just found fit, and
 * a jump cannot stamp further than the mark of before.
 */
#include "src/id/snowflake/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"

#define ACTIVE_TICK_MS 100 /* while a slot can stamp, or while claims are refused */
#define IDLE_TICK_MS 1000

struct lease {
    struct clock_check *check;
    uint64_t begun_ms;          /* monotonic; of this incarnation */
    bool asking_clocks;         /* the other nodes' clocks are not known yet */
    bool clock_fit;             /* the mark follows the clock, as the last judgement found it */
    struct lease_status status; /* as judged: refusal, clock_off_ms and wait_until_ms */
    struct lease_slots slots;
};

int lease_resume(struct lease *lease, unsigned k, const void *data, size_t len)
{
    struct lease_record record;
    int err = row_read(data, len, &lease_record_format, &record);

    if (err == 0 && k < lease->slots.count) {
        lease_slot_resume(&lease->slots.items[k], &record);
    }
    return err;
}

void lease_layout(struct lease *lease, const struct snowflake_layout *layout)
{
    if (lease->slots.snowflake == NULL ||
        atomic_load_explicit(&lease->slots.snowflake->ready, memory_order_relaxed)) {
        return;
    }
    snowflake_set_layout(lease->slots.snowflake, layout);
    lease_slots_touch(&lease->slots);
}

void lease_worker_changed(struct lease *lease, const struct worker_row *row)
{
    lease_slots_row(&lease->slots, row);
}

static void publish_all(struct lease *lease)
{
    if (!atomic_load_explicit(&lease->slots.snowflake->ready, memory_order_relaxed)) {
        return;
    }
    for (unsigned k = 0; k < lease->slots.count; k++) {
        if (lease->slots.items[k].state == LEASE_RECORDED) {
            lease_slot_publish(&lease->slots.items[k]);
        }
    }
}

/* At its start a node hears the other clocks before it trusts its own; where they do not answer, it
 * waits no longer than it may have to wait for its mark anyway. */
static bool must_ask_first(const struct lease *lease, uint64_t now_ms)
{
    return now_ms - lease->begun_ms < lease->slots.config.mark_lead_ms &&
           !clock_check_asked(lease->check, now_ms);
}

/* Against the cluster's clocks, against itself, and against the times reported to the log.
 * *ret_until_ms: the wall time that is waited for, set for ERR_CLOCK_BACKWARDS. */
static int judge_clock(struct lease *lease, uint64_t now_ms, uint64_t wall_ms,
                       uint64_t *ret_until_ms)
{
    int verdict = clock_check_verdict(lease->check, now_ms, wall_ms, &lease->status.clock_off_ms);
    uint64_t reported_ms = 0;

    if (verdict == ERR_CLOCK_BACKWARDS) {
        *ret_until_ms = lease->check->caught_up_ms;
    }
    if (verdict != 0) {
        return verdict;
    }
    for (unsigned k = 0; k < lease->slots.count; k++) {
        const struct lease_slot *slot = &lease->slots.items[k];

        if (lease_slot_holds(slot) && slot->last_timestamp_ms > reported_ms) {
            reported_ms = slot->last_timestamp_ms;
        }
    }
    if (reported_ms <= wall_ms + LIMIT_CLOCK_BACK_WAIT_MS) {
        return 0;
    }
    *ret_until_ms = reported_ms;
    return ERR_CLOCK_BACKWARDS;
}

/* The log has refused our time for long enough, and no peer's clock says that the log is late. */
static bool log_refuses(const struct lease *lease, uint64_t now_ms, uint64_t wall_ms)
{
    size_t samples;

    (void)clock_check_cluster_ms(lease->check, now_ms, wall_ms, &samples);
    for (unsigned k = 0; k < lease->slots.count; k++) {
        const struct lease_slot *slot = &lease->slots.items[k];

        if (slot->skewed && now_ms - slot->skewed_ms >= lease->slots.config.renew_ms) {
            return samples == 0; /* with samples, the verdict was that we agree with them */
        }
    }
    return false;
}

/* 0 if there is a slot that can serve, or will before a claim gives up. *ret_until_ms: the wall
 * time of the first that can, 0 if there is no need to wait, or nothing to wait for. */
static int judge_slots(const struct lease *lease, uint64_t *ret_until_ms)
{
    uint64_t first_ms = UINT64_MAX;
    int refusal = ERR_EMPTY; /* the first worker id is on its way */

    for (unsigned k = 0; k < lease->slots.count; k++) {
        const struct lease_slot *slot = &lease->slots.items[k];
        uint64_t slot_ms;
        bool far;

        if (slot->state != LEASE_SERVING) {
            if (refusal == ERR_EMPTY && (slot->denied || slot->state == LEASE_SPENT)) {
                refusal = ERR_NO_WORKER_ID;
            }
            continue;
        }
        slot_ms = lease_slot_waits_ms(slot, &far);
        first_ms = slot_ms < first_ms ? slot_ms : first_ms;
        if (!far) {
            refusal = 0;
        } else if (refusal != 0) {
            refusal = ERR_CLOCK_BACKWARDS;
        }
    }
    *ret_until_ms = first_ms != UINT64_MAX ? first_ms : 0;
    return refusal;
}

/* Compare the clock, and tell the claimers what they are refused with, if anything. */
static void judge(struct lease *lease, uint64_t now_ms, uint64_t wall_ms)
{
    uint64_t clock_ms = 0;
    uint64_t slots_ms;
    int refusal;
    int slots;

    clock_check_tick(lease->check, now_ms, wall_ms);
    refusal = judge_clock(lease, now_ms, wall_ms, &clock_ms);
    lease->asking_clocks = must_ask_first(lease, now_ms);
    if (refusal == 0 && lease->asking_clocks) {
        refusal = ERR_EMPTY;
    }
    lease->slots.clock_bad = refusal != 0;
    if (refusal == 0 && log_refuses(lease, now_ms, wall_ms)) {
        refusal = ERR_CLOCK_SKEW;
    }
    lease->clock_fit = refusal == 0;
    slots = judge_slots(lease, &slots_ms);
    if (refusal == 0) {
        refusal = slots;
    }
    lease->status.wait_until_ms = clock_ms > slots_ms ? clock_ms : slots_ms;
    if (refusal == ERR_CLOCK_SKEW) {
        lease->status.wait_until_ms = 0; /* time alone does not help */
    }
    lease->status.refusal = refusal;
    atomic_store_explicit(&lease->slots.snowflake->refusal, refusal, memory_order_relaxed);
}

static uint64_t next_tick_ms(const struct lease *lease, uint64_t now_ms, uint64_t wall_ms)
{
    if (lease->asking_clocks) {
        return now_ms + ACTIVE_TICK_MS;
    }
    if (lease->status.refusal != 0 && lease->status.refusal != ERR_NO_WORKER_ID &&
        lease->status.refusal != ERR_EMPTY) {
        return now_ms + ACTIVE_TICK_MS;
    }
    for (unsigned k = 0; k < lease->slots.count; k++) {
        const struct lease_slot *slot = &lease->slots.items[k];

        if (slot->state == LEASE_SERVING && slot->held.mark_ms >= wall_ms) {
            return now_ms + ACTIVE_TICK_MS;
        }
    }
    return now_ms + IDLE_TICK_MS;
}

/* wanted: a claim found the mark lapsed. */
static void turn(struct lease *lease, bool wanted)
{
    struct lease_slots *slots = &lease->slots;
    uint64_t now_ms;
    uint64_t wall_ms;

    publish_all(lease);
    now_ms = clock_now_ms(slots->clock);
    wall_ms = clock_wall_ms(slots->clock);
    judge(lease, now_ms, wall_ms);
    /* Before the commands: an answer may come at once, and wants another turn. */
    timer_arm(slots->timers, &slots->due, next_tick_ms(lease, now_ms, wall_ms));
    for (unsigned k = 0; k < slots->count; k++) {
        lease_slot_write(&slots->items[k], wall_ms, lease->clock_fit, wanted);
        lease_slot_ask(&slots->items[k], now_ms, wall_ms);
    }
}

/* The flag is cleared before anything is looked at, so that a claim that sets it later is seen
 * later. */
static bool take_wanted(struct lease *lease)
{
    _Atomic bool *wanted = &lease->slots.snowflake->wanted;

    return atomic_load_explicit(wanted, memory_order_relaxed) &&
           atomic_exchange_explicit(wanted, false, memory_order_acq_rel);
}

static void on_due(struct timer *timer, uint64_t now_ms)
{
    struct lease *lease = CONTAINER(timer, struct lease, slots.due);

    (void)now_ms;
    turn(lease, take_wanted(lease));
}

void lease_turn(struct lease *lease)
{
    if (lease->slots.count > 0 && !lease->slots.stopped && take_wanted(lease)) {
        turn(lease, true);
    }
}

void lease_stop(struct lease *lease)
{
    lease->slots.stopped = true;
    timer_cancel(lease->slots.timers, &lease->slots.due);
}

static void slot_init(struct lease *lease, const struct lease_config *config, unsigned k)
{
    struct lease_slot *slot = &lease->slots.items[k];
    int len = snprintf(slot->name, sizeof slot->name, "node-%" PRIu64 "/%016" PRIx64 "/%u",
                       config->node_id, config->store_id, k);

    ASSERT(len > 0 && (size_t)len < sizeof slot->name);
    slot->all = &lease->slots;
    slot->k = k;
    slot->name_len = (uint16_t)len;
}

struct lease *lease_new(const struct lease_config *config, struct snowflake *snowflake,
                        struct clock_check *check, const struct clock *clock, struct timers *timers,
                        struct id_proposer *proposer, struct lease_disk *disk)
{
    struct lease *lease = MUST_HAVE(calloc(1, sizeof *lease));
    struct lease_slots *slots = &lease->slots;

    ASSERT(config->workers <= LIMIT_WORKERS_PER_NODE);
    slots->snowflake = snowflake;
    slots->clock = clock;
    slots->timers = timers;
    slots->proposer = proposer;
    slots->disk = disk;
    slots->config = *config;
    slots->config.renew_ms =
        config->renew_ms < config->window_ms / 3 ? config->renew_ms : config->window_ms / 3;
    slots->count = config->workers;
    lease->check = check;
    lease->begun_ms = clock_now_ms(clock);
    lease->status.refusal = config->workers > 0 ? ERR_EMPTY : ERR_DISABLED;
    timer_init(&slots->due, on_due);
    if (config->workers > 0) {
        ASSERT(config->window_ms >= LIMIT_WINDOW_MIN_MS &&
               config->window_ms <= LIMIT_WINDOW_MAX_MS);
        ASSERT(config->renew_ms > 0 && config->mark_lead_ms > 0);
        lease_slots_touch(slots);
    }
    for (unsigned k = 0; k < config->workers; k++) {
        slot_init(lease, config, k);
    }
    if (snowflake != NULL) {
        atomic_store_explicit(&snowflake->refusal, lease->status.refusal, memory_order_relaxed);
    }
    return lease;
}

void lease_free(struct lease *lease)
{
    if (lease == NULL) {
        return;
    }
    for (unsigned k = 0; k < lease->slots.count; k++) {
        ASSERT(!lease->slots.items[k].asking && !lease->slots.items[k].writing);
    }
    lease_stop(lease);
    free(lease);
}

bool lease_find(const struct lease *lease, uint32_t worker, struct lease_record *ret_held)
{
    for (unsigned k = 0; k < lease->slots.count; k++) {
        const struct lease_slot *slot = &lease->slots.items[k];

        if (lease_slot_holds(slot) && slot->held.worker_id == worker) {
            *ret_held = slot->held;
            return true;
        }
    }
    return false;
}

void lease_status(const struct lease *lease, struct lease_status *ret_status)
{
    struct lease_status status = lease->status;
    uint64_t wall_ms = clock_wall_ms(lease->slots.clock);
    uint64_t longest_ms = 0;

    status.window_left_ms = UINT64_MAX;
    for (unsigned k = 0; k < lease->slots.count; k++) {
        const struct lease_slot *slot = &lease->slots.items[k];
        uint64_t until_ms = slot->held.until_ms;
        uint64_t left_ms = until_ms > wall_ms ? until_ms - wall_ms : 0;

        if (slot->state != LEASE_SERVING) {
            continue;
        }
        status.serving++;
        status.window_left_ms = left_ms < status.window_left_ms ? left_ms : status.window_left_ms;
        longest_ms = left_ms > longest_ms ? left_ms : longest_ms;
    }
    if (status.serving == 0) {
        status.window_left_ms = 0;
    }
    /* What the generator answers by itself. */
    if (status.refusal == 0 && status.serving == 0) {
        status.refusal = ERR_EMPTY;
    } else if (status.refusal == 0 &&
               wall_ms > snowflake_last_ms(&lease->slots.snowflake->layout)) {
        status.refusal = ERR_EPOCH_EXHAUSTED;
    } else if (status.refusal == 0 && longest_ms == 0) {
        status.refusal = ERR_WINDOW_EXPIRED;
    }
    *ret_status = status;
}
