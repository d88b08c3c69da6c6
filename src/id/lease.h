/*
 * lease.h - keeps this node's worker ids: acquires them, renews their windows, moves the durable
 * mark, watches the clock, and tells the generator how far it may go.
 *
 * The happy path: the layout is agreed on; `workers` ids are acquired (or resumed from the node's
 * own disk); each is recorded on disk before its first use; every renew_ms the window is extended
 * to now + window_ms; while ids are being handed out the mark on disk is kept mark_lead_ms ahead.
 *
 *   slot:  none -> acquiring -> recording -> serving -> (fenced) -> none, with another worker id
 *
 * Rules:
 *  - limit = min(granted_until, durable mark). A mark or window counts only once its write is done
 *    or its command is reported applied.
 *  - A restart resumes (worker id, epoch, until) from disk at once, with from = the mark, whether
 * or not there is a quorum: times above the mark were never stamped by an earlier life.
 *  - What the log says wins: a row with another epoch or holder fences the slot off (it claims
 *    nothing more) and another worker id is acquired.
 *  - A wiped disk has no record and a new store id, so its name is new: it takes a free worker id.
 *  - Own clock below the row's last_timestamp_ms (or the mark): refusal ERR_CLOCK_BACKWARDS until
 * it has caught up; clock_check's verdicts likewise. The node never exits for it.
 *
 * Failure modes: no leader: goes on within the window; window over: ERR_WINDOW_EXPIRED by the
 * generator; no worker id free: refusal ERR_NO_WORKER_ID, tried again every renew_ms.
 *
 * Thread: one owner (the raft loop); pure but for its vtables.
 */
#ifndef LEAFD_ID_LEASE_H
#define LEAFD_ID_LEASE_H

#include "src/id/allocator.h"
#include "src/id/clock_check.h"
#include "src/id/worker.h"

struct lease_config {
    uint64_t node_id;
    uint64_t store_id;
    const char *address;            /* shown in the registry; borrowed */
    uint32_t workers;               /* 0: snowflake is switched off; ..LIMIT_WORKERS_PER_NODE */
    uint32_t window_ms;             /* default 600000 */
    uint32_t renew_ms;              /* default 3000, Leaf's report interval */
    uint32_t mark_lead_ms;          /* default 1000 */
    uint32_t threshold_ms;          /* of the clock checks; default 1000 */
    struct snowflake_layout layout; /* proposed at bootstrap; the log's holds */
};

/* A record on this node's disk: key "lease/<k>", and its bytes. */
struct lease_record {
    uint16_t worker_id;
    uint64_t epoch;
    uint64_t from_ms;
    uint64_t until_ms;
    uint64_t mark_ms;
};
void lease_record_encode(const struct lease_record *record, struct buf *buf);
int lease_record_decode(const void *data, size_t len, struct lease_record *ret_record) MUST_CHECK;

/* How the lease reaches the disk: write local record k; done once it is durable, never from inside
 * write. The bytes are copied. */
struct lease_disk {
    void (*write)(struct lease_disk *disk, unsigned k, const void *data, size_t len,
                  void (*done)(void *data), void *done_data);
};

struct lease;

struct lease *lease_new(const struct lease_config *config, struct snowflake *snowflake,
                        struct clock_check *check, const struct clock *clock,
                        struct id_proposer *proposer, struct lease_disk *disk);

/* Requests and writes in flight must be done. Accepts NULL. */
void lease_free(struct lease *lease);

/* A record that was on disk at the start, before the first tick. ERR_CORRUPT if it does not decode.
 */
int lease_resume(struct lease *lease, unsigned k, const void *data, size_t len) MUST_CHECK;

/* The layout in force became known (from the log). */
void lease_layout(struct lease *lease, const struct snowflake_layout *layout);

/* A worker row changed in this node's state machine, or was loaded. */
void lease_worker_changed(struct lease *lease, const struct worker_row *row);

/* Do what is due; also when snowflake->wanted was set. Every turn of the loop may call it. */
void lease_turn(struct lease *lease);
uint64_t lease_next_ms(const struct lease *lease);

/* Stopping: propose nothing more. */
void lease_stop(struct lease *lease);

/* For /readyz, GET /api/workers of this node, metrics. */
struct lease_status {
    int refusal;             /* 0 or ERR_* */
    int64_t clock_off_ms;    /* against the median */
    uint64_t wait_until_ms;  /* wall time being waited for, 0: none */
    unsigned serving;        /* worker ids in use */
    uint64_t window_left_ms; /* shortest */
};
void lease_status(const struct lease *lease, struct lease_status *ret_status);

#endif
