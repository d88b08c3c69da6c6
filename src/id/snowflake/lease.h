/*
 * lease.h - keeps this node's worker ids: acquires them, renews their windows, moves the durable
 * mark, watches the clock, and sets the generator's limits.
 *
 * The happy path: the layout is agreed on. `workers` ids are acquired (or resumed from the node's
 * own disk); each is recorded on disk before its first use. Every renew_ms the window is extended
 * to now + window_ms. While ids are being handed out the mark on disk is kept mark_lead_ms ahead.
 *
 *   slot:  none -> acquiring -> recording -> serving -> (fenced) -> none, with another worker id
 *
 * Rules (lease.c has the argument that no time is stamped twice):
 *  - limit = min(granted_until, durable mark). A mark or window counts only once its write is done
 *    or its command is reported applied.
 *  - A restart resumes (worker id, epoch, until) from disk at once, with from = the mark, whether
 *    or not there is a quorum: times above the mark were never stamped by an earlier incarnation.
 *  - The log decides: a row with another epoch or holder fences the slot off (it claims no more
 *    ids) and another worker id is acquired.
 *  - Worker id k of a node is held under the name "node-<node id>/<store id>/<k>". A wiped disk has
 *    no record and a new store id, so its name is new: it takes a free worker id.
 *  - A fixed worker id W is held as "node-<node id>/<store id>/w<W>", so the node's earlier worker
 *    ids do not hinder it. If one of them was W, the node continues to use W. A record of another
 *    id is only remembered.
 *  - Own clock below the row's last_timestamp_ms (or far below the mark): refusal
 *    ERR_CLOCK_BACKWARDS until it has caught up; clock_check's verdicts likewise. Meanwhile nothing
 *    is renewed and no mark is moved. The node never exits for it.
 *
 * Failure modes: no leader: continues within the window. Window over: ERR_WINDOW_EXPIRED by the
 * generator. No worker id free (or LIMIT_SNOWFLAKE_SLOTS used by this process): refusal
 * ERR_NO_WORKER_ID, tried again every renew_ms (or no more); likewise if a fixed worker id is held
 * by another, in another pool, or beyond the layout (lease_status.denied). The log refuses this
 * node's time for longer than renew_ms, and no peer's clock shows that the log is late: refusal
 * ERR_CLOCK_SKEW.
 *
 * Thread: one owner (the raft loop); pure but for its vtables.
 */
#ifndef LEAFD_ID_SNOWFLAKE_LEASE_H
#define LEAFD_ID_SNOWFLAKE_LEASE_H

#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/id/codec/request.h"
#include "src/id/codec/worker.h"
#include "src/id/snowflake/snowflake.h"

struct lease_config {
    uint64_t node_id;
    uint64_t store_id;
    const char *address;            /* shown in the registry; borrowed; NULL or "": none */
    const char *zone;               /* acquire from its pool, once lease_zone() reports pools;
                                       borrowed; NULL or "": none */
    uint32_t fixed;                 /* a worker id plus 1: only this id is taken, and workers is 1;
                                       0: any */
    uint32_t workers;               /* 0: snowflake is switched off; ..LIMIT_WORKERS_PER_NODE */
    uint32_t window_ms;             /* default 600000 */
    uint32_t renew_ms;              /* default 3000, Leaf's report interval */
    uint32_t mark_lead_ms;          /* default 1000 */
    uint32_t threshold_ms;          /* of the clock checks; default 1000 */
    struct snowflake_layout layout; /* proposed at bootstrap; the log's layout wins */
    uint32_t wakes;                 /* parts of the loop that run after each of its turns */
};

/* A record on this node's disk, one for each of its worker ids. Storage adds a checksum. */
struct lease_record {
    uint32_t worker_id;
    uint64_t epoch;
    uint64_t from_ms;
    uint64_t until_ms;
    uint64_t mark_ms;
};
extern const struct row_format lease_record_format;

/* The lease's access to the disk: write local record k. done is called once it is durable, never
 * from inside write. The bytes are copied. */
struct lease_disk {
    void (*write)(struct lease_disk *disk, unsigned k, const void *data, size_t len,
                  void (*done)(void *data), void *done_data);
} BY_NAME;

struct lease;

/* The snowflake is initialised and has no slots; with no workers it may be NULL. Only the lease
 * ticks the clock check. */
struct lease *lease_new(const struct lease_config *config, struct snowflake *snowflake,
                        struct clock_check *check, const struct clock *clock, struct timers *timers,
                        struct id_proposer *proposer, struct lease_disk *disk);

/* Requests and writes in flight must be done. Accepts NULL. */
void lease_free(struct lease *lease);

/* Load a record that was on disk at the start; call before anything else. A record of a k that is
 * not used (any more) is left alone. ERR_CORRUPT, ERR_TRUNCATED or ERR_BAD_VERSION if it is
 * malformed. */
int lease_resume(struct lease *lease, unsigned k, const void *data, size_t len) MUST_CHECK;

/* The layout in force became known (from the log). */
void lease_layout(struct lease *lease, const struct snowflake_layout *layout);

/* The state is as new as this start of the node; pools: the cluster has pools of zones. A node with
 * a zone acquires no worker id before: it would take one that is in no pool. Called again whenever
 * `pools` changes. A row that it holds stays its own, whichever pool it is in. */
void lease_zone(struct lease *lease, bool pools);

/* A worker row changed in this node's state machine, or was loaded. */
void lease_worker_changed(struct lease *lease, const struct worker_row *row);

/* Handle snowflake->wanted, if set; a timer does all other work. Every turn of the loop may call
 * this. */
void lease_turn(struct lease *lease);

/* Stopping: propose and write nothing more. */
void lease_stop(struct lease *lease);

/* This node's record of a worker id; false: it does not hold the id (any more). */
bool lease_find(const struct lease *lease, uint32_t worker, struct lease_record *ret_held);

/* For /readyz, GET /api/workers of this node, metrics. */
struct lease_status {
    int refusal; /* 0, or the ERR_* that every claim gets now; ERR_EMPTY: a worker id is on its way
                  */
    uint64_t wait_until_ms; /* wall time being waited for, 0: none */
    int denied; /* why the fixed worker id is not held: ERR_CONFLICT with a holder: it is taken;
                   without: it is not in the pool; ERR_INVALID: it is beyond the layout; 0 */
    const struct worker_row *holder; /* borrowed until the next turn; NULL: none */
    unsigned serving;                /* worker ids in use */
    uint64_t window_left_ms;         /* shortest of them; 0 when there are none */
};
void lease_status(const struct lease *lease, struct lease_status *ret_status);

#endif
