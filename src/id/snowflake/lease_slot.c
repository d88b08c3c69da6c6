/*
 * lease_slot.c - see lease_slot.h.
 */
#include "src/id/snowflake/lease_slot.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"

#define REQUEST_MS 5000 /* deadline of one renewal */
/* Pause before a command is repeated that will soon be answered otherwise. */
#define SOON_MS 200

static const struct field RECORD_FIELDS[] = {
    FIELD_NUMBER(struct lease_record, worker_id), FIELD_NUMBER(struct lease_record, epoch),
    FIELD_NUMBER(struct lease_record, from_ms),   FIELD_NUMBER(struct lease_record, until_ms),
    FIELD_NUMBER(struct lease_record, mark_ms),
};

static bool record_is_sound(const void *data)
{
    const struct lease_record *record = data;

    return record->worker_id < LIMIT_WORKER_IDS && record->epoch >= 1 &&
           record->from_ms <= record->mark_ms && record->mark_ms <= record->until_ms;
}

const struct row_format lease_record_format = ROW_FORMAT(1, FIELDS(RECORD_FIELDS), record_is_sound);

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
    slot->next_ask_ms = clock_now_ms(all->clock) + all->config.renew_ms;
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

/* The worker id is another's now (or nobody's). */
static void fence(struct lease_slot *slot)
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

/* A row as this node's state machine or a result shows it: perhaps older than what is known. */
static void row_seen(struct lease_slot *slot, const struct worker_row *row)
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
        fence(slot);
        return;
    }
    row_adopt(slot, row);
}

void lease_slots_row(struct lease_slots *all, const struct worker_row *row)
{
    for (unsigned k = 0; k < all->count && !all->stopped; k++) {
        row_seen(&all->items[k], row);
    }
}

/* The row that this slot's acquire was given. */
static void row_acquired(struct lease_slot *slot, const struct worker_row *row)
{
    if (slot->state == LEASE_NONE && row_is_own(slot, row)) {
        row_take(slot, row);
        slot->unsure = clock_now_ms(slot->all->clock) - slot->asked_ms >= REQUEST_MS;
        if (slot->unsure) {
            slot->next_ask_ms = 0;
        }
    }
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
        fence(other);
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
        fence(slot);
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
    uint64_t lead_ms = slot->all->config.mark_lead_ms;
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
    return slot->held.until_ms - slot->durable.until_ms > slot->all->config.window_ms / 2;
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
    return later(mark_ms, earlier(wall_ms + slot->all->config.mark_lead_ms, slot->held.until_ms));
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
    BUF_LOCAL(bytes);

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
    row_put(&bytes, &lease_record_format, &record);
    disk->write(disk, slot->k, bytes.data, bytes.len, written_cb, slot);
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

/* --- its commands --- */

static bool slot_may_ask(const struct lease_slot *slot)
{
    const struct lease_slots *all = slot->all;
    bool far;

    if (slot->asking || all->clock_bad) {
        return false;
    }
    if (slot->state == LEASE_SERVING) {
        (void)lease_slot_waits_ms(slot, &far);
        return !far;
    }
    if (slot->state == LEASE_RECORDING) {
        return slot->unsure;
    }
    return slot->state == LEASE_NONE &&
           atomic_load_explicit(&all->snowflake->ready, memory_order_relaxed);
}

static void skew_answered(struct lease_slot *slot)
{
    const struct lease_slots *all = slot->all;
    uint64_t now_ms = clock_now_ms(all->clock);

    if (!slot->skewed) {
        slot->skewed = true;
        slot->skewed_ms = now_ms;
    }
    if (now_ms - slot->skewed_ms < all->config.renew_ms) {
        slot->next_ask_ms = now_ms + SOON_MS;
    }
}

static void acquire_answered(struct lease_slot *slot, const struct worker_result *result)
{
    if (slot->state != LEASE_NONE) {
        return; /* taken, by this result or before */
    }
    slot->denied = result->status == ERR_NO_WORKER_ID;
    if (result->status == ERR_CLOCK_SKEW) {
        skew_answered(slot);
        return;
    }
    slot->skewed = false;
    if (result->status == ERR_EMPTY || result->status == 0) { /* granted, and over already */
        slot->next_ask_ms = clock_now_ms(slot->all->clock) + SOON_MS;
    }
}

static void renewal_answered(struct lease_slot *slot, const struct worker_result *result)
{
    const struct worker_row *row = &result->row;

    if (!lease_slot_holds(slot) || slot->held.worker_id != slot->asked_worker ||
        slot->held.epoch != slot->asked_epoch) {
        return; /* fenced meanwhile, by this result or before */
    }
    /* Whatever it says but that it is over. */
    slot->unsure =
        slot->unsure && (result->status == ERR_FENCED || result->status == ERR_NOT_FOUND);
    switch (result->status) {
    case ERR_CLOCK_SKEW:
        skew_answered(slot);
        return;
    case ERR_FENCED:
    case ERR_NOT_FOUND:
        fence(slot);
        return;
    case ERR_CONFLICT:
        /* A later end was taken over with the row. An earlier one says that the log has lost what
         * it granted (it was restored from a backup): others may be given the rest. */
        if (result->has_row && row->granted_until_ms < slot->held.until_ms) {
            fence(slot);
            return;
        }
        break;
    default:
        break;
    }
    slot->skewed = false;
}

static void done_cb(struct id_request *request)
{
    struct lease_slot *slot = request->data;
    struct lease_slots *all = slot->all;
    struct worker_result result = {0};
    int err = request->status;

    ASSERT(slot->asking);
    slot->asking = false;
    if (err == 0) {
        err = worker_result_decode(request->reply.data, request->reply.len, &result);
    }
    buf_free(&request->payload);
    buf_free(&request->reply);
    if (all->stopped) {
        return;
    }
    lease_slots_touch(all);
    if (err != 0) {
        return; /* perhaps applied, perhaps not: next_ask_ms is set */
    }
    if (!slot->asked_renewal && result.status == 0) {
        row_acquired(slot, &result.row);
    }
    if (result.has_row) {
        lease_slots_row(all, &result.row);
    }
    if (slot->asked_renewal) {
        renewal_answered(slot, &result);
    } else {
        acquire_answered(slot, &result);
    }
}

/* It may be done, and its slot fenced, from propose() on. */
static struct id_request *request_begin(struct lease_slot *slot, uint64_t now_ms,
                                        uint64_t deadline_ms)
{
    struct id_request *request = &slot->request;

    ASSERT(!slot->asking && deadline_ms > now_ms);
    ASSERT(!slot->all->stopped && slot->all->config.renew_ms > 0);
    memset(request, 0, sizeof *request);
    request->kind = ID_REQUEST_COMMAND;
    request->deadline_ms = deadline_ms;
    request->done = done_cb;
    request->data = slot;
    slot->asking = true;
    slot->next_ask_ms = now_ms + slot->all->config.renew_ms;
    return request;
}

static void acquire(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms)
{
    struct lease_slots *all = slot->all;
    const char *address = all->config.address != NULL ? all->config.address : "";
    struct id_request *request = request_begin(slot, now_ms, UINT64_MAX);
    struct worker_acquire command = {
        .kind = WORKER_NODE,
        .worker_id = WORKER_ID_ANY,
        .window_ms = all->config.window_ms,
        .wall_ms = wall_ms,
        .name = slot->name,
        .name_len = slot->name_len,
        .address = address,
        .address_len = (uint16_t)strlen(address),
    };

    ASSERT(slot->state == LEASE_NONE && slot->generator == NULL);
    slot->acquiring = true;
    slot->asked_ms = now_ms;
    slot->asked_renewal = false;
    command_put(&request->payload, COMMAND_WORKER_ACQUIRE, &command);
    all->proposer->propose(all->proposer, request);
}

static void renew(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms)
{
    struct lease_slots *all = slot->all;
    struct id_request *request = request_begin(slot, now_ms, now_ms + REQUEST_MS);
    struct worker_renew command = {
        .worker_id = slot->held.worker_id,
        .epoch = slot->held.epoch,
        .expected_until_ms = slot->held.until_ms,
        .window_ms = all->config.window_ms,
        .last_timestamp_ms = last_used_ms(slot),
        .wall_ms = wall_ms,
        .kind = WORKER_NODE,
    };

    ASSERT(lease_slot_holds(slot) && slot->held.epoch >= 1);
    slot->asked_renewal = true;
    slot->asked_worker = command.worker_id;
    slot->asked_epoch = command.epoch;
    command_put(&request->payload, COMMAND_WORKER_RENEW, &command);
    all->proposer->propose(all->proposer, request);
}

void lease_slot_ask(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms)
{
    struct lease_slots *all = slot->all;

    if (!slot_may_ask(slot)) {
        return;
    }
    if (now_ms < slot->next_ask_ms) {
        timer_arm_by(all->timers, &all->due, slot->next_ask_ms);
    } else if (slot->state != LEASE_NONE) {
        renew(slot, now_ms, wall_ms);
    } else if (atomic_load_explicit(&all->snowflake->slot_count, memory_order_relaxed) ==
               LIMIT_SNOWFLAKE_SLOTS) {
        slot->state = LEASE_SPENT; /* another worker id would be of no use */
    } else {
        acquire(slot, now_ms, wall_ms);
    }
}
