/*
 * lease_internal.h - what the files of the lease share: lease.c (turns, clock, status),
 * lease_slot.c (one worker id: rows, disk, generator) and lease_ask.c (its commands).
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_SNOWFLAKE_LEASE_INTERNAL_H
#define LEAFD_ID_SNOWFLAKE_LEASE_INTERNAL_H

#include "src/id/snowflake/lease.h"

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
    struct lease *lease;
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
    bool unsure;          /* RECORDING what was told so late that it may be over by now: nothing is
                             recorded before a renewal says that it is not */
    bool denied;          /* the log said last that no worker id is free */
    bool skewed;          /* the log refuses our time as being ahead of its own, */
    uint64_t skewed_ms;   /* and has since then (monotonic) */
    struct id_request request;
};

struct lease {
    struct lease_config config;
    struct snowflake *snowflake;
    struct clock_check *check;
    const struct clock *clock;
    struct id_proposer *proposer;
    struct lease_disk *disk;
    uint32_t renew_ms; /* not longer than a third of the window */
    bool stopped;
    uint64_t due_ms;    /* monotonic; the next turn that has something to do */
    uint64_t begun_ms;  /* monotonic; of this incarnation */
    bool asking_clocks; /* the other nodes' clocks are not known yet */
    bool clock_bad;     /* nothing is asked of the log, */
    bool clock_fit;     /* and the mark follows the clock, as the last judgement found it */
    int refusal;
    int64_t clock_off_ms;
    uint64_t wait_until_ms;
    struct lease_slot slots[LIMIT_WORKERS_PER_NODE];
};

#define LEASE_REQUEST_MS 5000 /* deadline of one renewal */
#define LEASE_SOON_MS 200     /* pause before a command is repeated that will soon be answered */

/* Something happened that the next turn is to look at. */
void lease_touch(struct lease *lease);

/* --- lease_slot.c --- */

/* Does the slot hold a worker id? */
bool lease_slot_holds(const struct lease_slot *slot);

/* The record of an earlier incarnation. */
void lease_slot_resume(struct lease_slot *slot, const struct lease_record *record);

/* A row as this node's state machine or a result shows it: perhaps older than what is known. */
void lease_slot_row(struct lease_slot *slot, const struct worker_row *row);

/* The row that this slot's acquire was given. */
void lease_slot_acquired(struct lease_slot *slot, const struct worker_row *row);

/* The worker id is another's now (or nobody's). */
void lease_slot_fence(struct lease_slot *slot);

/* RECORDED: publish it. The layout is known. */
void lease_slot_publish(struct lease_slot *slot);

/* Write the record if that is due. may_mark: the clock was just found fit, and so the mark may
 * follow it; wanted: a claim found the mark lapsed. */
void lease_slot_write(struct lease_slot *slot, uint64_t wall_ms, bool may_mark, bool wanted);

/* SERVING: the wall time that the clock has to reach before the slot can stamp, 0 if it has.
 * *ret_far: that is further away than what a claim is told to wait for. */
uint64_t lease_slot_waits_ms(const struct lease_slot *slot, bool *ret_far);

/* --- lease_ask.c --- */

/* Propose what is due, if anything. */
void lease_slot_ask(struct lease_slot *slot, uint64_t now_ms, uint64_t wall_ms);

/* Monotonic ms of the next command; UINT64_MAX if something else has to happen first. */
uint64_t lease_slot_next_ms(const struct lease_slot *slot);

#endif
