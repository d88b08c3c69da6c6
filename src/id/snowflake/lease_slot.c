/*
 * lease_slot.c - one worker id of a lease (lease_internal.h): what the log's rows, the disk and the
 * generator make of it.
 *
 * The happy path: the row that this slot's acquire is given is taken; its record is written; once
 * that is durable the worker id is published to the generator; later rows move the window's end,
 * and later writes the mark.
 *
 * Why no time is stamped twice. Two incarnations of this node that stamp under the same epoch are
 * kept apart by the mark, everybody else by the epochs, whose windows are disjoint.
 *  - An incarnation stamps at most its durable mark (lease_slot_publish, written_cb), and a later
 *    incarnation only above the mark that it finds on disk. A write that was under way at the crash
 *    may be found or not: nothing was stamped by it yet, so both are right.
 *  - A worker id and epoch stamps nothing before a record of it is durable. So a later incarnation
 *    either finds that record or nothing was stamped. (One write at a time, so records are never
 *    overtaken.) It is also why an incarnation that finds no record at all may take the row that
 *    the log has under its name, as if it had just acquired it: its name holds the store id, and so
 *    the disk is the one that would have the record.
 *  - The window's end need not be durable before it is used: a later incarnation that finds an
 *    older end on disk stops earlier. It is written together with the mark, and by itself only when
 *    the disk lags by half a window, so that a node that was idle can resume as well.
 *  - The mark is never above the window's end: mark <= until in every record.
 *
 * Failure modes: a row with another epoch or holder fences the slot. A row older than what is known
 * (this node's state machine may lag behind a result, or behind its own disk) changes nothing.
 *
 * Thread: one owner (the raft loop).
 */
#include "src/id/snowflake/lease_internal.h"

#include <string.h>

#include "src/base/assert.h"

static bool same_grant(const struct lease_record *a, const struct lease_record *b);
static bool row_is_own(const struct lease_slot *slot, const struct worker_row *row);
static bool row_may_be_taken(const struct lease_slot *slot, const struct worker_row *row);
static uint64_t row_reported_ms(const struct worker_row *row);
static void row_take(struct lease_slot *slot, const struct worker_row *row);
static void row_adopt(struct lease_slot *slot, const struct worker_row *row);
static bool fence_others(struct lease_slot *slot);
static bool mark_is_due(const struct lease_slot *slot, uint64_t wall_ms, bool wanted);
static bool until_is_due(const struct lease_slot *slot);
static uint64_t next_mark(const struct lease_slot *slot, uint64_t wall_ms, bool may_mark);
static void written_cb(void *data);
static uint64_t last_used_ms(const struct lease_slot *slot);
static uint64_t later(uint64_t a, uint64_t b);
static uint64_t earlier(uint64_t a, uint64_t b);

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

void lease_slot_acquired(struct lease_slot *slot, const struct worker_row *row)
{
    if (slot->state == LEASE_NONE && row_is_own(slot, row)) {
        row_take(slot, row);
        slot->unsure = clock_now_ms(slot->lease->clock) - slot->asked_ms >= LEASE_REQUEST_MS;
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
    lease_touch(slot->lease);
}

void lease_slot_publish(struct lease_slot *slot)
{
    struct snowflake *snowflake = slot->lease->snowflake;
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

void lease_slot_write(struct lease_slot *slot, uint64_t wall_ms, bool may_mark, bool wanted)
{
    struct lease_disk *disk = slot->lease->disk;
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
    wall_ms = clock_wall_ms(slot->lease->clock);
    *ret_far = false;
    if (used_ms > 0) {
        *ret_far = used_ms > wall_ms && used_ms - wall_ms > LIMIT_CLOCK_BACK_WAIT_MS;
        return used_ms > wall_ms ? used_ms : 0;
    }
    *ret_far = from_ms > wall_ms && from_ms - wall_ms > SNOWFLAKE_FROM_WAIT_MS;
    return from_ms >= wall_ms ? from_ms + 1 : 0;
}

static bool same_grant(const struct lease_record *a, const struct lease_record *b)
{
    return a->worker_id == b->worker_id && a->epoch == b->epoch;
}

/* Held under this slot's name, by a node: clients may choose any name. */
static bool row_is_own(const struct lease_slot *slot, const struct worker_row *row)
{
    return row->state == WORKER_HELD && row->kind == WORKER_NODE &&
           row->name_len == slot->name_len && memcmp(row->name, slot->name, slot->name_len) == 0;
}

/* Before any acquire of this incarnation: the row that an earlier incarnation acquired and had
 * no time to record. That one it cannot have used, and if the log knows of a use then this disk
 * is not the one it was on. */
static bool row_may_be_taken(const struct lease_slot *slot, const struct worker_row *row)
{
    return slot->state == LEASE_NONE && row_is_own(slot, row) && !slot->acquiring &&
           !slot->recorded && !slot->writing && row_reported_ms(row) == 0;
}

/* The last time that the row's holder said it used, 0 if it is one of a holder before. */
static uint64_t row_reported_ms(const struct worker_row *row)
{
    return row->last_timestamp_ms > row->granted_from_ms ? row->last_timestamp_ms : 0;
}

static void row_take(struct lease_slot *slot, const struct worker_row *row)
{
    struct lease *lease = slot->lease;

    slot->state = LEASE_RECORDING;
    slot->held = (struct lease_record){.worker_id = row->id,
                                       .epoch = row->epoch,
                                       .from_ms = row->granted_from_ms,
                                       .until_ms = row->granted_until_ms};
    slot->start_ms = row->granted_from_ms;
    slot->last_timestamp_ms = row_reported_ms(row);
    /* As in lease_slot_publish(): what this node stamped of that worker id before. */
    for (unsigned k = 0; k < lease->config.workers; k++) {
        const struct lease_slot *other = &lease->slots[k];

        if (other->recorded && other->durable.worker_id == row->id) {
            slot->start_ms = later(slot->start_ms, other->durable.mark_ms);
        }
    }
    slot->held.from_ms = earlier(slot->start_ms, slot->held.until_ms);
    slot->acquiring = false;
    slot->skewed = false;
    slot->next_ask_ms = clock_now_ms(lease->clock) + lease->renew_ms;
    lease_touch(lease);
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

/* Another slot of this node may have a record of the same worker id: its window passed, the log
 * gave the worker id to this one, and the node stopped before that one got another. True if this
 * slot has the newest epoch. */
static bool fence_others(struct lease_slot *slot)
{
    struct lease *lease = slot->lease;

    for (unsigned k = 0; k < lease->config.workers; k++) {
        struct lease_slot *other = &lease->slots[k];

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

/* Less than half of the lead is left, and ids are being claimed. */
static bool mark_is_due(const struct lease_slot *slot, uint64_t wall_ms, bool wanted)
{
    uint64_t lead_ms = slot->lease->config.mark_lead_ms;
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
    return slot->held.until_ms - slot->durable.until_ms > slot->lease->config.window_ms / 2;
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
    return later(mark_ms, earlier(wall_ms + slot->lease->config.mark_lead_ms, slot->held.until_ms));
}

/* The record is durable. */
static void written_cb(void *data)
{
    struct lease_slot *slot = data;

    ASSERT(slot->writing);
    slot->writing = false;
    slot->recorded = true;
    slot->durable = slot->written;
    if (slot->lease->stopped) {
        return;
    }
    lease_touch(slot->lease);
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

/* 0: none in this incarnation. */
static uint64_t last_used_ms(const struct lease_slot *slot)
{
    return slot->generator != NULL ? snowflake_last_used_ms(slot->lease->snowflake, slot->generator)
                                   : 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
