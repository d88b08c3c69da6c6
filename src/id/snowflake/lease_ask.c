/*
 * lease_ask.c - see lease_ask.h.
 */
#include "src/id/snowflake/lease_ask.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"

#define LEASE_SOON_MS 200

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
    if (now_ms - slot->skewed_ms < all->renew_ms) {
        slot->next_ask_ms = now_ms + LEASE_SOON_MS;
    }
}

static void acquire_answered(struct lease_slot *slot, const struct worker_result *result)
{
    uint64_t soon_ms = clock_now_ms(slot->all->clock) + LEASE_SOON_MS;

    if (slot->state != LEASE_NONE) {
        return; /* taken, by this result or before */
    }
    slot->denied = result->status == ERR_NO_WORKER_ID;
    if (result->status == ERR_CLOCK_SKEW) {
        skew_answered(slot);
        return;
    }
    slot->skewed = false;
    if (result->status == ERR_EMPTY) {
        slot->next_ask_ms = soon_ms;
    } else if (result->status == 0) { /* it was granted, and is over already */
        slot->next_ask_ms = soon_ms;
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
        lease_slot_fence(slot);
        return;
    case ERR_CONFLICT:
        /* A later end was taken over with the row. An earlier one says that the log has lost what
         * it granted (it was restored from a backup): others may be given the rest. */
        if (result->has_row && row->granted_until_ms < slot->held.until_ms) {
            lease_slot_fence(slot);
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
        lease_slot_acquired(slot, &result.row);
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
    ASSERT(!slot->all->stopped && slot->all->renew_ms > 0);
    memset(request, 0, sizeof *request);
    request->kind = ID_REQUEST_COMMAND;
    request->deadline_ms = deadline_ms;
    request->done = done_cb;
    request->data = slot;
    slot->asking = true;
    slot->next_ask_ms = now_ms + slot->all->renew_ms;
    return request;
}

static void acquire(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms)
{
    struct lease_slots *all = slot->all;
    const char *address = all->address;
    struct id_request *request = request_begin(slot, now_ms, UINT64_MAX);
    struct worker_acquire command = {
        .kind = WORKER_NODE,
        .worker_id = WORKER_ID_ANY,
        .window_ms = all->window_ms,
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
    struct id_request *request = request_begin(slot, now_ms, now_ms + LEASE_REQUEST_MS);
    struct worker_renew command = {
        .worker_id = slot->held.worker_id,
        .epoch = slot->held.epoch,
        .expected_until_ms = slot->held.until_ms,
        .window_ms = all->window_ms,
        .last_timestamp_ms =
            slot->generator != NULL ? snowflake_last_used_ms(all->snowflake, slot->generator) : 0,
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

/* pause before a command is repeated that will soon be answered */
void lease_slot_ask(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms)
{
    const struct snowflake *snowflake = slot->all->snowflake;

    if (now_ms < slot->next_ask_ms || !slot_may_ask(slot)) {
        return;
    }
    if (slot->state != LEASE_NONE) {
        renew(slot, now_ms, wall_ms);
    } else if (atomic_load_explicit(&snowflake->slot_count, memory_order_relaxed) ==
               LIMIT_SNOWFLAKE_SLOTS) {
        slot->state = LEASE_SPENT; /* another worker id would be of no use */
    } else {
        acquire(slot, now_ms, wall_ms);
    }
}

uint64_t lease_slot_next_ms(const struct lease_slot *slot)
{
    return slot_may_ask(slot) ? slot->next_ask_ms : UINT64_MAX;
}
