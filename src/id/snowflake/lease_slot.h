/*
 * lease_slot.h - one worker id of a node: what the log's rows, the disk and the generator make of
 * it.
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
 * Its commands: a slot without a worker id acquires one under its name; the row that comes back
 * is taken. A slot that serves renews every renew_ms, with its epoch and the bound it knows, and
 * the row that comes back has a later end.
 *
 * An acquire is not given up: it is repeated until it is answered, and carried out once
 * (session.h). Another one would get a window that begins where the first one's ends, far in the
 * future. Its result is the only way in which its row is taken. One that comes late may be of a
 * worker id that was released since: then a renewal must confirm it before it is recorded.
 *
 * Failure modes: a row with another epoch or holder fences the slot. A row older than what is known
 * (this node's state machine may lag behind a result, or behind its own disk) changes nothing.
 *
 * Failure modes of the commands: no answer, no leader: a renewal is made again at the next time
 * due. ERR_EMPTY: the log has no time yet, again soon. ERR_CLOCK_SKEW: the log's time is behind
 * ours by more than it allows; that is also so for a moment after a cluster stood still, so it
 * counts only once it lasts (lease.c). ERR_FENCED, ERR_NOT_FOUND: the worker id is lost.
 * ERR_NO_WORKER_ID: again after renew_ms.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_SNOWFLAKE_LEASE_SLOT_H
#define LEAFD_ID_SNOWFLAKE_LEASE_SLOT_H

#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/id/codec/request.h"
#include "src/id/codec/worker.h"
#include "src/id/snowflake/snowflake.h"

struct lease_slots;

struct lease_config {
    uint64_t node_id;
    uint64_t store_id;
    const char *address;            /* shown in the registry; borrowed; NULL or "": none */
    uint32_t workers;               /* 0: snowflake is switched off; ..LIMIT_WORKERS_PER_NODE */
    uint32_t window_ms;             /* default 600000 */
    uint32_t renew_ms;              /* default 3000, Leaf's report interval */
    uint32_t mark_lead_ms;          /* default 1000 */
    uint32_t threshold_ms;          /* of the clock checks; default 1000 */
    struct snowflake_layout layout; /* proposed at bootstrap; the log's holds */
};

/* A record on this node's disk, one for each of its worker ids. Storage has a checksum for it. */
struct lease_record {
    uint16_t worker_id;
    uint64_t epoch;
    uint64_t from_ms;
    uint64_t until_ms;
    uint64_t mark_ms;
};
extern const struct row_format lease_record_format;

/* How the lease reaches the disk: write local record k; done once it is durable, never from inside
 * write. The bytes are copied. */
struct lease_disk {
    void (*write)(struct lease_disk *disk, unsigned k, const void *data, size_t len,
                  void (*done)(void *data), void *done_data);
} BY_NAME;

/*
 *   NONE --row--> RECORDING --written--> RECORDED --layout--> SERVING
 *    ^ |             |                      ^ |                  |
 *    | +--no slot left in the generator--> SPENT                 |
 *    |               |       (a record found at the start)       |
 *    +----fenced-----+------------------------+------------------+
 */
enum lease_state {
    LEASE_NONE,      /* holds no worker id */
    LEASE_RECORDING, /* holds one that the disk does not know yet */
    LEASE_RECORDED,  /* holds one; not published to the generator yet */
    LEASE_SERVING,
    LEASE_SPENT /* the generator has no slot left for it: for the rest of the process */
};

/* Worker id number k of this node. */
struct lease_slot {
    struct lease_slots *all; /* of the node, this one among them */
    unsigned k;
    enum lease_state state;
    uint16_t name_len;
    char name[LIMIT_WORKER_NAME_BYTES + 1];

    /* What it holds, unless NONE or SPENT. until_ms: the latest end that was reported granted;
     * mark_ms: what is durable of this worker id and epoch, 0 before the first write. */
    struct lease_record held;
    uint64_t start_ms;                /* stamp only above it */
    uint64_t last_timestamp_ms;       /* as reported to the log, by any incarnation */
    struct snowflake_slot *generator; /* SERVING */

    /* The disk. */
    bool recorded;               /* there is a record, `durable` */
    bool writing;                /* `written` is on its way */
    struct lease_record durable; /* perhaps of a worker id held before */
    struct lease_record written;
    uint64_t used_ms; /* the generator's last time when the last write began */

    /* The log. */
    bool asking; /* `request` is on its way */
    bool asked_renewal;
    uint16_t asked_worker; /* of a renewal */
    uint64_t asked_epoch;
    uint64_t asked_ms;    /* monotonic; of an acquire */
    uint64_t next_ask_ms; /* monotonic */
    bool acquiring;       /* by an acquire of this incarnation: only its result is taken */
    bool unsure;        /* RECORDING what was granted so late that it may be over by now: nothing is
                             recorded before a renewal says that it is not */
    bool denied;        /* the log said last that no worker id is free */
    bool skewed;        /* the log refuses our time as being ahead of its own, */
    uint64_t skewed_ms; /* and has since then (monotonic) */
    struct id_request request;
};

/* The worker ids of a node, and what they share. */
struct lease_slots {
    struct snowflake *snowflake;
    const struct clock *clock;
    struct id_proposer *proposer;
    struct lease_disk *disk;
    struct lease_config config; /* renew_ms: not longer than a third of the window */
    bool stopped;               /* nothing more is proposed or written */
    bool clock_bad;             /* nothing is asked of the log */
    struct timers *timers;
    struct timer due; /* the next turn that has something to do */
    unsigned count;   /* config.workers */
    struct lease_slot items[LIMIT_WORKERS_PER_NODE];
};

/* Something happened that the next turn is to look at. */
static inline void lease_slots_touch(struct lease_slots *all)
{
    if (all->count > 0 && !all->stopped) {
        timer_arm_by(all->timers, &all->due, 0);
    }
}

/* A row as the state machine or a result shows it: each slot takes what concerns it. */
void lease_slots_row(struct lease_slots *all, const struct worker_row *row);

/* Does the slot hold a worker id? */
bool lease_slot_holds(const struct lease_slot *slot);

/* The record of an earlier incarnation. */
void lease_slot_resume(struct lease_slot *slot, const struct lease_record *record);

/* RECORDED: publish it. The layout is known. */
void lease_slot_publish(struct lease_slot *slot);

/* Write the record if that is due. may_mark: the clock was just found fit, and so the mark may
 * follow it; wanted: a claim found the mark lapsed. */
void lease_slot_write(struct lease_slot *slot, uint64_t wall_ms, bool may_mark, bool wanted);

/* SERVING: the wall time that the clock has to reach before the slot can stamp, 0 if it has.
 * *ret_far: that is further away than what a claim waits for. */
uint64_t lease_slot_waits_ms(const struct lease_slot *slot, bool *ret_far);

/* Propose what is due, if anything. */
void lease_slot_ask(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms);

#endif
