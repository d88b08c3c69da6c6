/*
 * backups.h - GET /api/backup on this node: all rows of the state at one index, as the bytes of
 * backup_file.h, one part for each request; and how far each tag grew before (growth).
 *
 * The happy path of the first request: the leader is asked for an index at or above all earlier
 * acknowledged entries (a query, confirmed as any other). When this node has applied that index,
 * its rows go to the disk; then, in the same queue, a read opens a fixed view of the store. Each
 * further request reads on in the view, on the disk's thread. After the last row comes the closing
 * record, and the view is closed.
 *
 *   NONE -> ASKING -> CATCHING_UP -> READING -> PAUSED -> READING ... -> CLOSING -> NONE
 *
 * Memory is bounded by one part. One backup at a time: each holds a view, during which the database
 * reuses no freed page. So a backup is given up when the store needs that room (store.h).
 *
 * Failure modes: another is under way: ERR_OVERLOADED. No leader, or this node does not catch up by
 * the request's deadline: ERR_NO_LEADER, ERR_TIMEOUT. It takes longer than LIMIT_BACKUP_MS, or no
 * request comes for LIMIT_BACKUP_IDLE_MS, or the store needs the room: it is given up, and its next
 * request gets ERR_NOT_FOUND. A damaged row on the disk: ERR_CORRUPT. Stopping: ERR_SHUTTING_DOWN.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_BACKUPS_H
#define LEAFD_SERVICE_BACKUPS_H

#include "src/id/backend/id_backend.h"
#include "src/id/codec/backup_file.h"
#include "src/service/context.h"

/*
 * --- growth: how far each tag grew in the last hour, as this node applied it. A backup records it,
 * so that a restore knows how far a tag may have grown since.
 *
 * The happy path: growth_note() gets each tag whose max_id changes; the first change in a period
 * notes the max_id before it. growth_tag() finds a tag's max_id at the begin of the oldest period,
 * at most GROWTH_PERIODS periods of GROWTH_PERIOD_MS ago.
 *
 * Memory is bounded: a tag that changes takes 16 bytes a period, in a table that is at most half
 * full. Beyond LIMIT_GROWTH_TAGS in one period the rest is not known. A tag that does not grow
 * takes nothing. Tags are distinguished by a hash of 64 bits of their names.
 *
 * The time is the log's, so that a node that catches up does not see a day's growth in a minute; in
 * a cluster without log time, the node's clock. Failure modes: a node knows nothing of the time
 * before its start, or before a snapshot replaced its state (growth_reset()): growth_look()
 * says so.
 */
#define GROWTH_PERIODS 4
#define GROWTH_PERIOD_MS 1200000 /* the last hour, and up to 20 minutes more */

struct growth_slot {
    uint64_t hash; /* of the name; 0: free */
    uint64_t max_id;
};

struct growth_period {
    uint64_t began_ms;
    struct growth_slot *slots; /* capacity, a power of 2; NULL: none */
    size_t capacity;
    size_t count;
    bool full; /* some of its tags are missing */
};

struct growth {
    uint64_t seed;
    struct growth_period periods[GROWTH_PERIODS];
    unsigned newest;
    unsigned count; /* periods that are in use, 1.. */
};

void growth_free(struct growth *growth);

/* Nothing is known of the time before now. Begins one that is zero but for its seed. */
void growth_reset(struct growth *growth, uint64_t now_ms);

/* The tag's max_id changes; row: the state before. */
void growth_note(struct growth *growth, const struct tag_row *row, uint64_t now_ms);

/* Forget periods that are too old. The result has the time since which all changes were noted, and
 * whole; not whole: a tag that growth_tag() does not find may have changed. */
struct backup_growth growth_look(struct growth *growth, uint64_t now_ms);

/* The tag's max_id at the begin of that time; false: it did not change. */
bool growth_tag(const struct growth *growth, const char *name, size_t len, uint64_t *ret_max_id);

/* --- backups --- */

enum backups_state {
    BACKUPS_NONE,
    BACKUPS_ASKING,      /* the leader */
    BACKUPS_CATCHING_UP, /* to the leader's index */
    BACKUPS_READING,
    BACKUPS_PAUSED, /* until the next request */
    BACKUPS_CLOSING /* the view */
};

struct backups {
    struct id_context *context;
    const struct raft_context *on;
    struct growth *growth; /* borrowed */
    enum backups_state state;
    bool stopped;
    bool local;
    bool whole;      /* its last part was read */
    uint64_t number; /* of the one under way, or the last one */
    uint64_t index;  /* it must not be older than this */
    uint64_t until_ms;
    struct cluster_request query;
    struct cluster_request *asked; /* to be answered; NULL: no request waits */
    int status;                    /* of asked, while the view is being closed */
    struct timer due;              /* of asked, or of the pause */
    struct timer look;             /* PAUSED: whether the store has ended the view */
    struct disk_view view;
    struct backup_writer writer;
    struct id_backup_figures figures;
};

void backups_init(struct backups *backups, struct id_context *context, struct growth *growth);

/* Take a request of kind ID_REQUEST_BACKUP. */
void backups_submit(struct backups *backups, struct cluster_request *request);

/* Continue. Woken by a request, a finished read, the leader's answer, its timer, and events that
 * wake all parts. */
void backups_turn(struct backups *backups);

/* Answer with ERR_SHUTTING_DOWN, and begin no more. */
void backups_stop(struct backups *backups);

#endif
