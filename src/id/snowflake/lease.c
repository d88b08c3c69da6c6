/*
 * lease.c - see lease.h: the turns of a lease, its judgement of the clock, its status, and the work
 * on each worker id (a slot) with the log's rows, the disk and the generator.
 *
 * The happy path of a turn that is due: publish the records on disk; compare the clock; if it is
 * fit, move the marks with it where ids were claimed, and send the commands that are due. Of a
 * slot: it takes the row of its acquire and writes its record; once that is durable the worker id
 * is published to the generator. Later rows move the window's end, and later writes the mark.
 *
 * The clock is compared every ACTIVE_TICK_MS as long as a slot could stamp, and in the turn that a
 * claim asked for. So the mark never follows a clock that was not just found fit, and after a clock
 * jump no id is stamped beyond the old mark.
 *
 * Why no time is stamped twice. The mark separates two incarnations of this node that stamp under
 * the same epoch; epochs, whose windows are disjoint, separate all others.
 *  - An incarnation stamps at most its durable mark (slot_publish, slot_written_cb), and a later
 *    incarnation only above the mark that it finds on disk. A write that was under way at the crash
 *    may be found or not: no id was stamped by it yet, so both are correct.
 *  - A worker id and epoch stamps nothing before a record of it is durable. So either a later
 *    incarnation finds that record, or no id was stamped. (One write at a time, so records are
 *    never overtaken.) For the same reason an incarnation that finds no record may take the row
 *    that the log has under its name, as if just acquired: its name contains the store id, so this
 *    is the disk that would have the record.
 *  - The window's end need not be durable before it is used: a later incarnation that finds an
 *    older end on disk stops earlier. It is written together with the mark, and alone only when the
 *    disk is late by half a window, so that an idle node can resume as well.
 *  - The mark is never above the window's end: mark <= until in every record.
 *
 * Its commands: a slot without a worker id acquires one under its name, and takes the resulting
 * row. A slot that serves renews every renew_ms, with its epoch and the bound it knows; the
 * resulting row has a later end.
 *
 * An acquire is not given up: it is repeated until it is answered, and carried out once
 * (session.h). A second one would get a window that begins where the first one's ends, far in the
 * future. Its row is taken only from its result. A late result may be of a worker id that was
 * released since: then a renewal must confirm it before it is recorded.
 *
 * Failure modes: a row older than the known one (this node's state machine may be older than a
 * result, or than its own disk) changes nothing. No answer, no leader: a renewal is repeated when
 * next due.
 * ERR_EMPTY: the log has no time yet, repeated soon. ERR_CLOCK_SKEW: the log's time is earlier than
 * ours by more than it allows. This also happens briefly after a cluster was down, so it counts
 * only once it lasts. ERR_FENCED, ERR_NOT_FOUND: the worker id is lost.
 */
#include "src/id/snowflake/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"

#define ACTIVE_TICK_MS 100 /* while a slot can stamp, or while claims are refused */
#define IDLE_TICK_MS 1000
#define REQUEST_MS 5000 /* deadline of one renewal */
#define SOON_MS 200     /* pause before repeating a command that will soon have another answer */

/*
 *   NONE --row--> RECORDING --written--> RECORDED --layout--> SERVING
 *    ^ |             |                      ^ |                  |
 *    | +--no slot left in the generator--> SPENT                 |
 *    |               |       (a record found at the start)       |
 *    +----fenced-----+------------------------+------------------+
 */
enum lease_state {
    LEASE_NONE,      /* holds no worker id */
    LEASE_RECORDING, /* holds one that is not on disk yet */
    LEASE_RECORDED,  /* holds one; not published to the generator yet */
    LEASE_SERVING,
    LEASE_SPENT /* the generator has no slot left for it: for the rest of the process */
};

/* Worker id number k of this node. */
struct lease_slot {
    struct lease *lease; /* that contains this slot */
    unsigned k;
    enum lease_state state;
    uint16_t name_len;
    char name[LIMIT_WORKER_NAME_BYTES + 1];

    /* Its worker id, unless NONE or SPENT. until_ms: the latest end reported as granted; mark_ms:
     * the durable mark of this worker id and epoch, 0 before the first write. */
    struct lease_record held;
    uint64_t start_ms;                /* stamp only above it */
    uint64_t last_timestamp_ms;       /* as reported to the log, by any incarnation */
    struct snowflake_slot *generator; /* SERVING */

    /* The disk. */
    bool recorded;               /* there is a record, `durable` */
    bool writing;                /* `written` is being written */
    struct lease_record durable; /* perhaps of a worker id held before */
    struct lease_record written;
    uint64_t used_ms; /* the generator's last time when the last write began */

    /* The log. */
    bool asking; /* `request` is under way */
    bool asked_renewal;
    uint32_t asked_worker; /* of a renewal */
    uint64_t asked_epoch;
    uint64_t asked_ms;    /* monotonic; of an acquire */
    uint64_t next_ask_ms; /* monotonic */
    bool acquiring;       /* by an acquire of this incarnation: only its result is taken */
    bool unsure;        /* RECORDING a grant so late that it may be over by now: not recorded before
                           a renewal confirms it */
    bool denied;        /* the log's last answer: no worker id is free */
    bool skewed;        /* the log refuses our time as ahead of its own, */
    uint64_t skewed_ms; /* since then (monotonic) */
    struct cluster_request request;
};

struct lease {
    struct snowflake *snowflake;
    struct clock_check *check;
    const struct clock *clock;
    struct timers *timers;
    struct id_proposer *proposer;
    struct lease_disk *disk;
    struct lease_config config; /* renew_ms: at most a third of the window */
    uint64_t looked_ms;         /* monotonic; at last */
    uint64_t waited_ms;         /* without what the loop stood still between two looks */
    bool stopped;               /* no more proposals or writes */
    bool waits_zone;            /* no acquire before lease_zone() */
    bool pools;                 /* an acquire names the zone */
    bool asking_clocks;         /* the other nodes' clocks are not known yet */
    bool clock_bad;             /* no commands are sent */
    bool clock_fit;             /* by the last judgement the mark may follow the clock */
    struct lease_status status; /* as judged: refusal and wait_until_ms; denied */
    struct worker_row holder;   /* of the fixed worker id, if status points to it; its name: */
    char holder_name[LIMIT_WORKER_NAME_BYTES];
    struct timer due; /* the next turn with work */
    unsigned count;   /* config.workers */
    struct lease_slot slots[LIMIT_WORKERS_PER_NODE];
};

static const struct field RECORD_FIELDS[] = {
    FIELD_GROWN(struct lease_record, worker_id), FIELD_NUMBER(struct lease_record, epoch),
    FIELD_NUMBER(struct lease_record, from_ms),  FIELD_NUMBER(struct lease_record, until_ms),
    FIELD_NUMBER(struct lease_record, mark_ms),
};

static bool record_is_sound(const void *data)
{
    const struct lease_record *record = data;

    return record->worker_id < LIMIT_WORKER_IDS && record->epoch >= 1 &&
           record->from_ms <= record->mark_ms && record->mark_ms <= record->until_ms;
}

const struct row_format lease_record_format = ROW_FORMAT(1, FIELDS(RECORD_FIELDS), record_is_sound);

/* The next turn has work. */
static void lease_touch(struct lease *lease)
{
    if (lease->count > 0 && !lease->stopped) {
        timer_arm_by(lease->timers, &lease->due, 0);
    }
}

static bool slot_holds(const struct lease_slot *slot)
{
    return slot->state == LEASE_RECORDING || slot->state == LEASE_RECORDED ||
           slot->state == LEASE_SERVING;
}

/* Is the row held under this slot's name, by a node? Clients may choose any name. A fixed one may
 * also be under a name that this disk gave it before it was fixed. */
static bool row_is_own(const struct lease_slot *slot, const struct worker_row *row)
{
    uint32_t fixed = slot->lease->config.fixed;
    const char *slash = strrchr(slot->name, '/');
    size_t len = fixed > 0 ? (size_t)(slash - slot->name) + 1 : slot->name_len;

    return row->state == WORKER_HELD && row->kind == WORKER_NODE &&
           (fixed > 0 ? row->id == fixed - 1 && row->name_len > len : row->name_len == len) &&
           memcmp(row->name, slot->name, len) == 0;
}

/* The last time that the row's holder reported as used; 0 if an earlier holder reported it. */
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
    /* As in slot_publish(): times that this node stamped earlier with that worker id. */
    for (unsigned k = 0; k < lease->count; k++) {
        const struct lease_slot *other = &lease->slots[k];

        if (other->recorded && other->durable.worker_id == row->id) {
            slot->start_ms = later_of(slot->start_ms, other->durable.mark_ms);
        }
    }
    slot->held.from_ms = earlier_of(slot->start_ms, slot->held.until_ms);
    slot->acquiring = false;
    slot->skewed = false;
    slot->next_ask_ms = clock_now_ms(lease->clock) + lease->config.renew_ms;
    lease_touch(lease);
}

/* The worker id has another holder now (or none). */
static void slot_fence(struct lease_slot *slot)
{
    ASSERT(slot_holds(slot));
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

/* A row from this node's state machine or a result: perhaps older than the known one. */
void lease_worker_changed(struct lease *lease, const struct worker_row *row)
{
    for (unsigned k = 0; k < lease->count && !lease->stopped; k++) {
        struct lease_slot *slot = &lease->slots[k];

        if (!slot_holds(slot)) {
            /* Before any acquire of this incarnation: a row that an earlier incarnation acquired
             * and could not record. It cannot have used that row; if the log knows a use, this is
             * another disk. */
            if (slot->state == LEASE_NONE && row_is_own(slot, row) && !slot->acquiring &&
                !slot->recorded && !slot->writing && row_reported_ms(row) == 0) {
                row_take(slot, row);
            }
        } else if (row->id != slot->held.worker_id || row->epoch < slot->held.epoch) {
            continue;
        } else if (row->epoch > slot->held.epoch || !row_is_own(slot, row)) {
            slot_fence(slot);
        } else { /* the same epoch: its window may have grown */
            bool has_grown = row->granted_until_ms > slot->held.until_ms;

            slot->last_timestamp_ms = later_of(slot->last_timestamp_ms, row_reported_ms(row));
            slot->held.until_ms = later_of(slot->held.until_ms, row->granted_until_ms);
            if (has_grown && slot->state == LEASE_SERVING) {
                snowflake_extend(slot->generator, slot->held.mark_ms, slot->held.until_ms);
            }
        }
    }
}

static bool same_grant(const struct lease_record *a, const struct lease_record *b)
{
    return a->worker_id == b->worker_id && a->epoch == b->epoch;
}

static void slot_publish(struct lease_slot *slot)
{
    struct lease *lease = slot->lease;
    struct snowflake *snowflake = lease->snowflake;
    uint32_t count = atomic_load_explicit(&snowflake->slot_count, memory_order_relaxed);
    /* The clock was fit when the mark was set ahead of it. If it is set back before the first
     * claim, that must not be served by it: the window may begin long ago. */
    uint64_t ahead_ms = lease->config.mark_lead_ms + SNOWFLAKE_FROM_WAIT_MS;
    uint64_t fit_ms = slot->held.mark_ms > ahead_ms ? slot->held.mark_ms - ahead_ms : 0;
    uint64_t start_ms = later_of(later_of(slot->start_ms, slot->last_timestamp_ms), fit_ms);
    bool is_lost = slot->held.worker_id >> snowflake->layout.worker_bits != 0;

    ASSERT(slot->state == LEASE_RECORDED && same_grant(&slot->held, &slot->durable));
    /* Another slot of this node may have a record of the same worker id: its window passed, the log
     * gave the worker id to this slot, and the node stopped before the other slot got another id.
     * The newest epoch counts. */
    for (unsigned k = 0; k < lease->count && !is_lost; k++) {
        struct lease_slot *other = &lease->slots[k];

        if (other == slot || !slot_holds(other) || other->held.worker_id != slot->held.worker_id) {
            continue;
        }
        is_lost = other->held.epoch >= slot->held.epoch;
        if (!is_lost) {
            slot_fence(other);
        }
    }
    if (is_lost) {
        slot_fence(slot);
        return;
    }
    /* The log's windows are disjoint, except after an operator released this node's worker id with
     * a wrong time. */
    for (uint32_t i = 0; i < count; i++) {
        if (snowflake->slots[i].worker == slot->held.worker_id) {
            start_ms = later_of(start_ms, snowflake_last_used_ms(snowflake, &snowflake->slots[i]));
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
    return slot->generator != NULL ? snowflake_last_used_ms(slot->lease->snowflake, slot->generator)
                                   : 0;
}

/* The record is durable. */
static void slot_written_cb(void *data)
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
    if (!slot_holds(slot) || !same_grant(&slot->held, &slot->durable)) {
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

static void slot_write(struct lease_slot *slot, uint64_t wall_ms, bool may_mark, bool wanted)
{
    const struct lease_config *config = &slot->lease->config;
    struct lease_disk *disk = slot->lease->disk;
    struct lease_record record = slot->held;
    uint64_t left_ms = record.mark_ms > wall_ms ? record.mark_ms - wall_ms : 0;
    bool serves = slot->state == LEASE_SERVING;
    bool mark_is_due;  /* less than half of the lead is left, and ids are being claimed */
    bool until_is_due; /* the disk is late by half a window */
    BUF_LOCAL(bytes);

    if (slot->writing || slot->unsure) {
        return;
    }
    ASSERT(!serves || same_grant(&slot->held, &slot->durable));
    mark_is_due = serves && left_ms < (config->mark_lead_ms + 1) / 2 &&
                  wall_ms + config->mark_lead_ms > slot->start_ms &&
                  (wanted || last_used_ms(slot) > slot->used_ms);
    until_is_due = serves && record.until_ms - slot->durable.until_ms > config->window_ms / 2;
    if (slot->state == LEASE_RECORDING || mark_is_due) {
        record.mark_ms = later_of(record.mark_ms, record.from_ms);
        ASSERT(record.mark_ms <= record.until_ms);
        /* It does not pass time that cannot be stamped: not with an unfit clock, nor beyond the
         * window's end. */
        if (may_mark && wall_ms < record.until_ms) {
            record.mark_ms = later_of(record.mark_ms,
                                      earlier_of(wall_ms + config->mark_lead_ms, record.until_ms));
        }
    }
    if (slot->state != LEASE_RECORDING && record.mark_ms == slot->held.mark_ms && !until_is_due) {
        return;
    }
    slot->writing = true;
    slot->written = record;
    slot->used_ms = last_used_ms(slot);
    row_put(&bytes, &lease_record_format, &record);
    disk->write(disk, slot->k, bytes.data, bytes.len, slot_written_cb, slot);
}

static uint64_t slot_waits_ms(const struct lease_slot *slot, bool *ret_far)
{
    uint64_t used_ms = last_used_ms(slot);
    uint64_t from_ms;
    uint64_t wall_ms;

    ASSERT(slot->state == LEASE_SERVING);
    from_ms = atomic_load_explicit(&slot->generator->from_ms, memory_order_relaxed);
    /* Read after the used time, which claims keep moving: so used times are not ahead of it. */
    wall_ms = clock_wall_ms(slot->lease->clock);
    *ret_far = false;
    if (used_ms > 0) {
        *ret_far = used_ms > wall_ms && used_ms - wall_ms > LIMIT_CLOCK_BACK_WAIT_MS;
        return used_ms > wall_ms ? used_ms : 0;
    }
    *ret_far = from_ms > wall_ms && from_ms - wall_ms > SNOWFLAKE_FROM_WAIT_MS;
    return from_ms >= wall_ms ? from_ms + 1 : 0;
}

/* --- its commands --- */

static void skew_answered(struct lease_slot *slot)
{
    const struct lease *lease = slot->lease;
    uint64_t now_ms = clock_now_ms(lease->clock);

    if (!slot->skewed) {
        slot->skewed = true;
        slot->skewed_ms = now_ms;
    }
    if (now_ms - slot->skewed_ms < lease->config.renew_ms) {
        slot->next_ask_ms = now_ms + SOON_MS;
    }
}

static void acquire_answered(struct lease_slot *slot, const struct worker_result *result)
{
    struct lease *lease = slot->lease;

    if (lease->config.fixed > 0) { /* who holds it, or that it is in another zone's pool */
        bool is_denied = result->status == ERR_CONFLICT || result->status == ERR_INVALID;

        lease->status.denied = is_denied ? result->status : 0;
        lease->status.holder = is_denied && result->has_row ? &lease->holder : NULL;
        if (lease->status.holder != NULL) {
            lease->holder = result->row;
            memcpy(lease->holder_name, result->row.name, result->row.name_len);
            lease->holder.name = lease->holder_name;
        }
    }
    if (slot->state != LEASE_NONE) {
        return; /* taken, by this result or before */
    }
    slot->denied = result->status == ERR_NO_WORKER_ID || lease->status.denied != 0;
    if (result->status == ERR_CLOCK_SKEW) {
        skew_answered(slot);
        return;
    }
    slot->skewed = false;
    if (result->status == ERR_EMPTY || result->status == 0) { /* granted, and over already */
        slot->next_ask_ms = clock_now_ms(lease->clock) + SOON_MS;
    }
}

static void renewal_answered(struct lease_slot *slot, const struct worker_result *result)
{
    const struct worker_row *row = &result->row;

    if (!slot_holds(slot) || slot->held.worker_id != slot->asked_worker ||
        slot->held.epoch != slot->asked_epoch) {
        return; /* fenced meanwhile, by this result or before */
    }
    /* Any result, unless it is over. */
    slot->unsure =
        slot->unsure && (result->status == ERR_FENCED || result->status == ERR_NOT_FOUND);
    switch (result->status) {
    case ERR_CLOCK_SKEW:
        skew_answered(slot);
        return;
    case ERR_FENCED:
    case ERR_NOT_FOUND:
        slot_fence(slot);
        return;
    case ERR_CONFLICT:
        /* A later end was adopted with the row. An earlier one means that the log has lost its
         * grant (it was restored from a backup): others may get the rest. */
        if (result->has_row && row->granted_until_ms < slot->held.until_ms) {
            slot_fence(slot);
            return;
        }
        break;
    default:
        break;
    }
    slot->skewed = false;
}

static void slot_answered_cb(struct cluster_request *request)
{
    struct lease_slot *slot = request->data;
    struct lease *lease = slot->lease;
    struct worker_result result = {0};
    BUF_LOCAL(reply);
    int err = request->status;

    ASSERT(slot->asking);
    slot->asking = false;
    buf_free(&request->payload);
    buf_move(&reply, &request->reply);
    if (err == 0) {
        err = worker_result_decode(reply.data, reply.len, &result);
    }
    if (lease->stopped) {
        return;
    }
    lease_touch(lease);
    if (err != 0) {
        return; /* perhaps applied, perhaps not: next_ask_ms is set */
    }
    if (!slot->asked_renewal && result.status == 0 && slot->state == LEASE_NONE &&
        row_is_own(slot, &result.row)) {
        row_take(slot, &result.row); /* of its own acquire */
        slot->unsure = clock_now_ms(lease->clock) - slot->asked_ms >= REQUEST_MS;
        slot->next_ask_ms = slot->unsure ? 0 : slot->next_ask_ms;
    }
    if (result.has_row) {
        lease_worker_changed(lease, &result.row);
    }
    if (slot->asked_renewal) {
        renewal_answered(slot, &result);
    } else {
        acquire_answered(slot, &result);
    }
}

static void slot_acquire(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms)
{
    struct lease *lease = slot->lease;
    const char *address = lease->config.address != NULL ? lease->config.address : "";
    struct worker_acquire command = {
        .kind = WORKER_NODE,
        .worker_id = lease->config.fixed > 0 ? lease->config.fixed - 1 : WORKER_ID_ANY,
        .window_ms = lease->config.window_ms,
        .wall_ms = wall_ms,
        .name = slot->name,
        .name_len = slot->name_len,
        .address = address,
        .address_len = (uint16_t)strlen(address),
        .zone = lease->pools ? lease->config.zone : "",
    };

    ASSERT(slot->state == LEASE_NONE && slot->generator == NULL);
    slot->acquiring = true;
    slot->asked_ms = now_ms;
    slot->asked_renewal = false;
    slot->request.deadline_ms = UINT64_MAX;
    command.zone_len = (uint16_t)strlen(command.zone);
    command_put(&slot->request.payload, command_type_for(COMMAND_WORKER_ACQUIRE, &command),
                &command);
}

static void slot_renew(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms)
{
    struct worker_renew command = {
        .worker_id = slot->held.worker_id,
        .epoch = slot->held.epoch,
        .expected_until_ms = slot->held.until_ms,
        .window_ms = slot->lease->config.window_ms,
        .last_timestamp_ms = last_used_ms(slot),
        .wall_ms = wall_ms,
        .kind = WORKER_NODE,
    };

    ASSERT(slot_holds(slot) && slot->held.epoch >= 1);
    slot->asked_renewal = true;
    slot->asked_worker = command.worker_id;
    slot->asked_epoch = command.epoch;
    slot->request.deadline_ms = now_ms + REQUEST_MS;
    command_put(&slot->request.payload, command_type_for(COMMAND_WORKER_RENEW, &command), &command);
}

static void slot_ask(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms)
{
    struct lease *lease = slot->lease;
    bool is_ready = atomic_load_explicit(&lease->snowflake->ready, memory_order_relaxed);
    bool far = false;

    if (slot->state == LEASE_SERVING) {
        (void)slot_waits_ms(slot, &far);
    }
    if (slot->asking || lease->clock_bad || far || slot->state == LEASE_RECORDED ||
        slot->state == LEASE_SPENT || (slot->state == LEASE_RECORDING && !slot->unsure) ||
        (slot->state == LEASE_NONE && (lease->waits_zone || !is_ready))) {
        return;
    }
    if (now_ms < slot->next_ask_ms) {
        timer_arm_by(lease->timers, &lease->due, slot->next_ask_ms);
        return;
    }
    if (slot->state == LEASE_NONE &&
        atomic_load_explicit(&lease->snowflake->slot_count, memory_order_relaxed) ==
            LIMIT_SNOWFLAKE_SLOTS) {
        slot->state = LEASE_SPENT; /* another worker id would not help */
        return;
    }
    ASSERT(!lease->stopped && lease->config.renew_ms > 0);
    slot->request = (struct cluster_request){
        .kind = CLUSTER_REQUEST_COMMAND, .done = slot_answered_cb, .data = slot};
    slot->asking = true;
    slot->next_ask_ms = now_ms + lease->config.renew_ms;
    if (slot->state == LEASE_NONE) {
        slot_acquire(slot, now_ms, wall_ms);
    } else {
        slot_renew(slot, now_ms, wall_ms);
    }
    /* From now on the request may be done, and its slot fenced. */
    lease->proposer->propose(lease->proposer, &slot->request);
}

/* --- the lease --- */

int lease_resume(struct lease *lease, unsigned k, const void *data, size_t len)
{
    struct lease_record record;
    int err = row_read(data, len, &lease_record_format, &record);

    if (err == 0 && k < lease->count) {
        struct lease_slot *slot = &lease->slots[k];

        ASSERT(slot->state == LEASE_NONE && !slot->recorded && !slot->asking);
        slot->recorded = true;
        slot->durable = record;
        /* A record of another id than the fixed one is only remembered: its grant ends with its
         * window. */
        if (lease->config.fixed == 0 || record.worker_id == lease->config.fixed - 1) {
            slot->state = LEASE_RECORDED;
            slot->held = record;
            slot->start_ms = record.mark_ms;
        }
    }
    return err;
}

void lease_layout(struct lease *lease, const struct snowflake_layout *layout)
{
    if (lease->snowflake == NULL ||
        atomic_load_explicit(&lease->snowflake->ready, memory_order_relaxed)) {
        return;
    }
    snowflake_set_layout(lease->snowflake, layout);
    lease_touch(lease);
}

void lease_zone(struct lease *lease, bool pools)
{
    bool has_zone = lease->config.zone != NULL && lease->config.zone[0] != '\0';

    if (lease->waits_zone || lease->pools != (pools && has_zone)) {
        lease->waits_zone = false;
        lease->pools = pools && has_zone;
        lease_touch(lease);
    }
}

/* Judge the clock against the cluster's clocks, against itself, and against the times reported to
 * the log. *ret_until_ms: the wall time to wait for, set for ERR_CLOCK_BACKWARDS. */
static int lease_judge_clock(struct lease *lease, uint64_t now_ms, uint64_t wall_ms,
                             uint64_t *ret_until_ms)
{
    int64_t off_ms;
    int verdict = clock_check_verdict(lease->check, now_ms, wall_ms, &off_ms);
    uint64_t reported_ms = 0;

    if (verdict == ERR_CLOCK_BACKWARDS) {
        *ret_until_ms = lease->check->caught_up_ms;
    }
    if (verdict != 0) {
        return verdict;
    }
    for (unsigned k = 0; k < lease->count; k++) {
        const struct lease_slot *slot = &lease->slots[k];

        if (slot_holds(slot) && slot->last_timestamp_ms > reported_ms) {
            reported_ms = slot->last_timestamp_ms;
        }
    }
    if (reported_ms <= wall_ms + LIMIT_CLOCK_BACK_WAIT_MS) {
        return 0;
    }
    *ret_until_ms = reported_ms;
    return ERR_CLOCK_BACKWARDS;
}

/* 0 if a slot can serve, or will before a claim gives up. *ret_until_ms: the wall time of the first
 * that can; 0: no need to wait, or waiting does not help. */
static int lease_judge_slots(const struct lease *lease, uint64_t *ret_until_ms)
{
    uint64_t first_ms = UINT64_MAX;
    int refusal = ERR_EMPTY; /* the first worker id is on its way */

    for (unsigned k = 0; k < lease->count; k++) {
        const struct lease_slot *slot = &lease->slots[k];
        uint64_t slot_ms;
        bool far;

        if (slot->state != LEASE_SERVING) {
            if (refusal == ERR_EMPTY && (slot->denied || slot->state == LEASE_SPENT)) {
                refusal = ERR_NO_WORKER_ID;
            }
            continue;
        }
        slot_ms = slot_waits_ms(slot, &far);
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

/* Compare the clock, and set the refusal of claims, if any. */
static void lease_judge(struct lease *lease, uint64_t now_ms, uint64_t wall_ms)
{
    uint64_t passed_ms = now_ms - lease->looked_ms;
    uint64_t clock_ms = 0;
    uint64_t slots_ms;
    size_t samples;
    int refusal;
    int slots;

    clock_check_tick(lease->check, now_ms, wall_ms);
    refusal = lease_judge_clock(lease, now_ms, wall_ms, &clock_ms);
    /* At its start a node reads the other clocks before it trusts its own. If they do not answer,
     * it waits no longer than it may have to wait for its mark anyway. Time in which it could not
     * read an answer does not count. */
    lease->waited_ms += passed_ms < ACTIVE_TICK_MS ? passed_ms : ACTIVE_TICK_MS;
    lease->looked_ms = now_ms;
    lease->asking_clocks =
        lease->waited_ms < lease->config.mark_lead_ms && !clock_check_asked(lease->check, now_ms);
    if (refusal == 0 && lease->asking_clocks) {
        refusal = ERR_EMPTY;
    }
    lease->clock_bad = refusal != 0;
    /* Has the log refused our time for long enough, with no peer's clock showing the log to be
     * late? With samples, the verdict was that we agree. */
    (void)clock_check_cluster_ms(lease->check, now_ms, wall_ms, &samples);
    for (unsigned k = 0; k < lease->count && refusal == 0 && samples == 0; k++) {
        const struct lease_slot *slot = &lease->slots[k];

        if (slot->skewed && now_ms - slot->skewed_ms >= lease->config.renew_ms) {
            refusal = ERR_CLOCK_SKEW;
        }
    }
    lease->clock_fit = refusal == 0;
    slots = lease_judge_slots(lease, &slots_ms);
    if (refusal == 0) {
        refusal = slots;
    }
    lease->status.wait_until_ms = clock_ms > slots_ms ? clock_ms : slots_ms;
    if (refusal == ERR_CLOCK_SKEW) {
        lease->status.wait_until_ms = 0; /* waiting does not help */
    }
    lease->status.refusal = refusal;
    atomic_store_explicit(&lease->snowflake->refusal, refusal, memory_order_relaxed);
}

static void lease_look(struct lease *lease)
{
    /* A claim found the mark lapsed. The flag is cleared before the state is read, so that a later
     * claim's flag is seen later. */
    bool wanted = atomic_load_explicit(&lease->snowflake->wanted, memory_order_relaxed) &&
                  atomic_exchange_explicit(&lease->snowflake->wanted, false, memory_order_acq_rel);
    bool is_ready = atomic_load_explicit(&lease->snowflake->ready, memory_order_relaxed);
    int refusal;
    bool is_active;
    uint64_t now_ms;
    uint64_t wall_ms;

    for (unsigned k = 0; k < lease->count && is_ready; k++) {
        if (lease->slots[k].state == LEASE_RECORDED) {
            slot_publish(&lease->slots[k]);
        }
    }
    now_ms = clock_now_ms(lease->clock);
    wall_ms = clock_wall_ms(lease->clock);
    lease_judge(lease, now_ms, wall_ms);
    refusal = lease->status.refusal;
    is_active = lease->asking_clocks ||
                (refusal != 0 && refusal != ERR_NO_WORKER_ID && refusal != ERR_EMPTY);
    for (unsigned k = 0; k < lease->count; k++) {
        is_active |=
            lease->slots[k].state == LEASE_SERVING && lease->slots[k].held.mark_ms >= wall_ms;
    }
    /* Before the commands: an answer may come at once, and wants another turn. */
    timer_arm(lease->timers, &lease->due, now_ms + (is_active ? ACTIVE_TICK_MS : IDLE_TICK_MS));
    for (unsigned k = 0; k < lease->count; k++) {
        slot_write(&lease->slots[k], wall_ms, lease->clock_fit, wanted);
        slot_ask(&lease->slots[k], now_ms, wall_ms);
    }
}

static void lease_due_cb(struct timer *timer, uint64_t now_ms)
{
    struct lease *lease = CONTAINER(timer, struct lease, due);

    (void)now_ms;
    lease_look(lease);
}

void lease_turn(struct lease *lease)
{
    if (lease->count > 0 && !lease->stopped &&
        atomic_load_explicit(&lease->snowflake->wanted, memory_order_relaxed)) {
        lease_look(lease);
    }
}

void lease_stop(struct lease *lease)
{
    lease->stopped = true;
    timer_cancel(lease->timers, &lease->due);
}

struct lease *lease_new(const struct lease_config *config, struct snowflake *snowflake,
                        struct clock_check *check, const struct clock *clock, struct timers *timers,
                        struct id_proposer *proposer, struct lease_disk *disk)
{
    struct lease *lease = MUST_HAVE(calloc(1, sizeof *lease));

    ASSERT(config->workers <= LIMIT_WORKERS_PER_NODE);
    ASSERT(config->fixed <= LIMIT_WORKER_IDS && (config->fixed == 0 || config->workers <= 1));
    lease->snowflake = snowflake;
    lease->clock = clock;
    lease->timers = timers;
    lease->proposer = proposer;
    lease->disk = disk;
    lease->config = *config;
    lease->config.renew_ms =
        config->renew_ms < config->window_ms / 3 ? config->renew_ms : config->window_ms / 3;
    lease->count = config->workers;
    lease->waits_zone = config->zone != NULL && config->zone[0] != '\0';
    lease->check = check;
    lease->looked_ms = clock_now_ms(clock);
    lease->status.refusal = config->workers > 0 ? ERR_EMPTY : ERR_DISABLED;
    timer_init(&lease->due, lease_due_cb);
    lease->due.wakes = config->wakes;
    if (config->workers > 0) {
        ASSERT(config->window_ms >= LIMIT_WINDOW_MIN_MS &&
               config->window_ms <= LIMIT_WINDOW_MAX_MS);
        ASSERT(config->renew_ms > 0 && config->mark_lead_ms > 0);
        lease_touch(lease);
    }
    for (unsigned k = 0; k < config->workers; k++) {
        struct lease_slot *slot = &lease->slots[k];
        int len = snprintf(slot->name, sizeof slot->name, "node-%" PRIu64 "/%016" PRIx64 "/%s%u",
                           config->node_id, config->store_id, config->fixed > 0 ? "w" : "",
                           config->fixed > 0 ? config->fixed - 1 : k);

        ASSERT(len > 0 && (size_t)len < sizeof slot->name);
        slot->lease = lease;
        slot->k = k;
        slot->name_len = (uint16_t)len;
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
    for (unsigned k = 0; k < lease->count; k++) {
        ASSERT(!lease->slots[k].asking && !lease->slots[k].writing);
    }
    lease_stop(lease);
    free(lease);
}

bool lease_find(const struct lease *lease, uint32_t worker, struct lease_record *ret_held)
{
    for (unsigned k = 0; k < lease->count; k++) {
        const struct lease_slot *slot = &lease->slots[k];

        if (slot_holds(slot) && slot->held.worker_id == worker) {
            *ret_held = slot->held;
            return true;
        }
    }
    return false;
}

void lease_status(const struct lease *lease, struct lease_status *ret_status)
{
    struct lease_status status = lease->status;
    uint64_t wall_ms = clock_wall_ms(lease->clock);
    uint64_t longest_ms = 0;

    status.window_left_ms = UINT64_MAX;
    for (unsigned k = 0; k < lease->count; k++) {
        const struct lease_slot *slot = &lease->slots[k];
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
    /* The generator's own refusals. */
    if (status.refusal == 0 && status.serving == 0) {
        status.refusal = ERR_EMPTY;
    } else if (status.refusal == 0 && wall_ms > snowflake_last_ms(&lease->snowflake->layout)) {
        status.refusal = ERR_EPOCH_EXHAUSTED;
    } else if (status.refusal == 0 && longest_ms == 0) {
        status.refusal = ERR_WINDOW_EXPIRED;
    }
    *ret_status = status;
}
