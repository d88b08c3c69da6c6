/*
 * lease_slot.c - see lease_slot.h.
 */
#include "src/id/snowflake/lease_slot.h"

#include <string.h>

#include "src/base/assert.h"

bool lease_slot_holds(const struct lease_slot *slot)
{
    return slot->state == LEASE_RECORDING || slot->state == LEASE_RECORDED ||
           slot->state == LEASE_SERVING;
}

void lease_slot_resume(struct lease_slot *slot, const struct lease_record *record)
{
    ASSERT(slot->state == LEASE_NONE && !slot->recorded && !slot->asking);
    slot->state = LEASE_RECORDED;
    slot->recorded = true;
    slot->durable = *record;
    slot->held = *record;
    slot->start_ms = record->mark_ms;
}

/* Held under this slot's name, by a node: clients may choose any name. */
static bool row_is_own(const struct lease_slot *slot, const struct worker_row *row)
{
    return row->state == WORKER_HELD && row->kind == WORKER_NODE &&
           row->name_len == slot->name_len && memcmp(row->name, slot->name, slot->name_len) == 0;
}

/* The last time that the row's holder said it used, 0 if it is one of a holder before. */
static uint64_t row_reported_ms(const struct worker_row *row)
{
    return row->last_timestamp_ms > row->granted_from_ms ? row->last_timestamp_ms : 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Before any acquire of this incarnation: the row that an earlier incarnation acquired and had
 * no time to record. That one it cannot have used, and if the log knows of a use then this disk
 * is not the one it was on. */
static bool row_may_be_taken(const struct lease_slot *slot, const struct worker_row *row)
{
    return slot->state == LEASE_NONE && row_is_own(slot, row) && !slot->acquiring &&
           !slot->recorded && !slot->writing && row_reported_ms(row) == 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void row_take(struct lease_slot *slot, const struct worker_row *row)
{
    struct lease_slots *all = slot->all;

    slot->state = LEASE_RECORDING;
    slot->held = (struct lease_record){.worker_id = row->id,
                                       .epoch = row->epoch,
                                       .from_ms = row->granted_from_ms,
                                       .until_ms = row->granted_until_ms};
    slot->start_ms = row->granted_from_ms;
    slot->last_timestamp_ms = row_reported_ms(row);
    /* As in lease_slot_publish(): what this node stamped of that worker id before. */
    for (unsigned k = 0; k < all->count; k++) {
        const struct lease_slot *other = &all->items[k];

        if (other->recorded && other->durable.worker_id == row->id) {
            slot->start_ms = later(slot->start_ms, other->durable.mark_ms);
        }
    }
    slot->held.from_ms = earlier(slot->start_ms, slot->held.until_ms);
    slot->acquiring = false;
    slot->skewed = false;
    slot->next_ask_ms = clock_now_ms(all->clock) + all->renew_ms;
    lease_slots_touch(all);
}

/* The same epoch: its window may have grown. */
static void row_adopt(struct lease_slot *slot, const struct worker_row *row)
{
    slot->last_timestamp_ms = later(slot->last_timestamp_ms, row_reported_ms(row));
    if (row->granted_until_ms <= slot->held.until_ms) {
        return;
    }
    slot->held.until_ms = row->granted_until_ms;
    if (slot->state == LEASE_SERVING) {
        snowflake_extend(slot->generator, slot->held.mark_ms, slot->held.until_ms);
    }
}

void lease_slot_row(struct lease_slot *slot, const struct worker_row *row)
{
    if (!lease_slot_holds(slot)) {
        if (row_may_be_taken(slot, row)) {
            row_take(slot, row);
        }
        return;
    }
    if (row->id != slot->held.worker_id || row->epoch < slot->held.epoch) {
        return;
    }
    if (row->epoch > slot->held.epoch || !row_is_own(slot, row)) {
        lease_slot_fence(slot);
        return;
    }
    row_adopt(slot, row);
}

void lease_slots_row(struct lease_slots *all, const struct worker_row *row)
{
    for (unsigned k = 0; k < all->count && !all->stopped; k++) {
        lease_slot_row(&all->items[k], row);
    }
}

void lease_slot_acquired(struct lease_slot *slot, const struct worker_row *row)
{
    if (slot->state == LEASE_NONE && row_is_own(slot, row)) {
        row_take(slot, row);
        slot->unsure = clock_now_ms(slot->all->clock) - slot->asked_ms >= LEASE_REQUEST_MS;
        if (slot->unsure) {
            slot->next_ask_ms = 0;
        }
    }
}

void lease_slot_fence(struct lease_slot *slot)
{
    ASSERT(lease_slot_holds(slot));
    if (slot->generator != NULL) {
        snowflake_kill(slot->generator);
        slot->generator = NULL;
    }
    slot->state = LEASE_NONE;
    slot->acquiring = false;
    slot->unsure = false;
    slot->next_ask_ms = 0;
    slot->skewed = false;
    lease_slots_touch(slot->all);
}

static bool same_grant(const struct lease_record *a, const struct lease_record *b)
{
    return a->worker_id == b->worker_id && a->epoch == b->epoch;
}

/* Another slot of this node may have a record of the same worker id: its window passed, the log
 * gave the worker id to this one, and the node stopped before that one got another. True if this
 * slot has the newest epoch. */
static bool fence_others(struct lease_slot *slot)
{
    struct lease_slots *all = slot->all;

    for (unsigned k = 0; k < all->count; k++) {
        struct lease_slot *other = &all->items[k];

        if (other == slot || !lease_slot_holds(other) ||
            other->held.worker_id != slot->held.worker_id) {
            continue;
        }
        if (other->held.epoch >= slot->held.epoch) {
            return false;
        }
        lease_slot_fence(other);
    }
    return true;
}

void lease_slot_publish(struct lease_slot *slot)
{
    struct snowflake *snowflake = slot->all->snowflake;
    uint32_t count = atomic_load_explicit(&snowflake->slot_count, memory_order_relaxed);
    uint64_t start_ms = later(slot->start_ms, slot->last_timestamp_ms);

    ASSERT(slot->state == LEASE_RECORDED && same_grant(&slot->held, &slot->durable));
    if (slot->held.worker_id >> snowflake->layout.worker_bits != 0 || !fence_others(slot)) {
        lease_slot_fence(slot);
        return;
    }
    /* The log's windows are disjoint; that of a worker id which an operator released under this
     * node with a wrong time need not be. */
    for (uint32_t i = 0; i < count; i++) {
        if (snowflake->slots[i].worker == slot->held.worker_id) {
            start_ms = later(start_ms, snowflake_last_used_ms(snowflake, &snowflake->slots[i]));
        }
    }
    slot->generator = snowflake_add(snowflake, slot->held.worker_id, start_ms, slot->held.mark_ms,
                                    slot->held.until_ms);
    slot->state = slot->generator != NULL ? LEASE_SERVING : LEASE_SPENT;
    slot->used_ms = 0;
}

/* 0: none in this incarnation. */
static uint64_t last_used_ms(const struct lease_slot *slot)
{
    return slot->generator != NULL ? snowflake_last_used_ms(slot->all->snowflake, slot->generator)
                                   : 0;
}

/* Less than half of the lead is left, and ids are being claimed. */
static bool mark_is_due(const struct lease_slot *slot, uint64_t wall_ms, bool wanted)
{
    uint64_t lead_ms = slot->all->mark_lead_ms;
    uint64_t mark_ms = slot->held.mark_ms;
    uint64_t left_ms = mark_ms > wall_ms ? mark_ms - wall_ms : 0;

    return slot->state == LEASE_SERVING && left_ms < (lead_ms + 1) / 2 &&
           wall_ms + lead_ms > slot->start_ms && (wanted || last_used_ms(slot) > slot->used_ms);
}

/* The disk is late by half a window. */
static bool until_is_due(const struct lease_slot *slot)
{
    if (slot->state != LEASE_SERVING) {
        return false;
    }
    ASSERT(same_grant(&slot->held, &slot->durable));
    return slot->held.until_ms - slot->durable.until_ms > slot->all->window_ms / 2;
}

/* The mark that a record written now has. Time that cannot be stamped is not used up: not by a
 * clock that is unfit, nor by one beyond the window's end. */
static uint64_t next_mark(const struct lease_slot *slot, uint64_t wall_ms, bool may_mark)
{
    uint64_t mark_ms = later(slot->held.mark_ms, slot->held.from_ms);

    ASSERT(mark_ms <= slot->held.until_ms);
    if (!may_mark || wall_ms >= slot->held.until_ms) {
        return mark_ms;
    }
    return later(mark_ms, earlier(wall_ms + slot->all->mark_lead_ms, slot->held.until_ms));
}

/* The record is durable. */
static void written_cb(void *data)
{
    struct lease_slot *slot = data;

    ASSERT(slot->writing);
    slot->writing = false;
    slot->recorded = true;
    slot->durable = slot->written;
    if (slot->all->stopped) {
        return;
    }
    lease_slots_touch(slot->all);
    if (!lease_slot_holds(slot) || !same_grant(&slot->held, &slot->durable)) {
        return; /* fenced meanwhile */
    }
    ASSERT(slot->durable.mark_ms >= slot->held.mark_ms);
    slot->held.mark_ms = slot->durable.mark_ms;
    if (slot->state == LEASE_RECORDING) {
        slot->state = LEASE_RECORDED;
    } else if (slot->state == LEASE_SERVING) {
        snowflake_extend(slot->generator, slot->held.mark_ms, slot->held.until_ms);
    }
}

void lease_slot_write(struct lease_slot *slot, uint64_t wall_ms, bool may_mark, bool wanted)
{
    struct lease_disk *disk = slot->all->disk;
    struct lease_record record = slot->held;
    struct buf bytes = BUF_INIT;

    if (slot->writing || slot->unsure) {
        return;
    }
    if (slot->state == LEASE_RECORDING || mark_is_due(slot, wall_ms, wanted)) {
        record.mark_ms = next_mark(slot, wall_ms, may_mark);
    }
    if (slot->state != LEASE_RECORDING && record.mark_ms == slot->held.mark_ms &&
        !until_is_due(slot)) {
        return;
    }
    slot->writing = true;
    slot->written = record;
    slot->used_ms = last_used_ms(slot);
    lease_record_encode(&record, &bytes);
    disk->write(disk, slot->k, bytes.data, bytes.len, written_cb, slot);
    buf_free(&bytes);
}

uint64_t lease_slot_waits_ms(const struct lease_slot *slot, bool *ret_far)
{
    uint64_t used_ms = last_used_ms(slot);
    uint64_t from_ms;
    uint64_t wall_ms;

    ASSERT(slot->state == LEASE_SERVING);
    from_ms = atomic_load_explicit(&slot->generator->from_ms, memory_order_relaxed);
    /* Read after the time that claims go on moving: what they used is not ahead of it. */
    wall_ms = clock_wall_ms(slot->all->clock);
    *ret_far = false;
    if (used_ms > 0) {
        *ret_far = used_ms > wall_ms && used_ms - wall_ms > LIMIT_CLOCK_BACK_WAIT_MS;
        return used_ms > wall_ms ? used_ms : 0;
    }
    *ret_far = from_ms > wall_ms && from_ms - wall_ms > SNOWFLAKE_FROM_WAIT_MS;
    return from_ms >= wall_ms ? from_ms + 1 : 0;
}
