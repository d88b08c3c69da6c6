/*
 * backups.h - GET /api/backup on this node: all rows of the state at one index, as the bytes of
 * backup_file.h, a part for each request; and how far each tag grew before (growth).
 *
 * The happy path of the first request: the leader is asked for an index that everything which was
 * acknowledged before is at or below (a query, confirmed as any other); when this node has applied
 * that, its rows go to the disk, and after them, in the same queue, a read that opens a fixed view
 * of the store. Each further request reads on in the view, on the disk's thread. Behind the last
 * row comes the closing record, and the view is closed.
 *
 *   NONE -> ASKING -> CATCHING_UP -> READING -> PAUSED -> READING ... -> CLOSING -> NONE
 *
 * Memory is bounded by one part. One backup at a time: each holds a view, while which the database
 * uses no page again that was freed. So one is given up when the store needs that room (store.h).
 *
 * Failure modes: another is under way: ERR_OVERLOADED. No leader, or this node does not catch up
 * by the request's deadline: ERR_NO_LEADER, ERR_TIMEOUT. It takes longer than LIMIT_BACKUP_MS, or
 * nobody asks on for LIMIT_BACKUP_IDLE_MS, or the store needs the room: it is given up, and its
 * next request gets ERR_NOT_FOUND. A row that is damaged on the disk: ERR_CORRUPT. Stopping:
 * ERR_SHUTTING_DOWN.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_BACKUPS_H
#define LEAFD_SERVICE_BACKUPS_H

#include "src/id/backend/id_backend.h"
#include "src/id/codec/backup_file.h"
#include "src/service/context.h"

/*
 * --- growth: how far each tag grew in the last hour, as this node applied it: what a backup says
 * of it, so that a restore knows how far a tag may have grown since.
 *
 * The happy path: growth_note() gets each tag whose max_id changes; the first time in a period it
 * is written down with the one before. growth_tag() finds max_id of a tag as it was when the oldest
 * period began, GROWTH_PERIODS periods of GROWTH_PERIOD_MS at most before.
 *
 * Memory is bounded: a tag that changes takes 16 bytes a period, in a table that is at most half
 * full, and of more than LIMIT_GROWTH_TAGS in one period the rest is not known. A tag that does not
 * grow takes nothing. Tags are distinguished by a hash of 64 bits of their names.
 *
 * The time is the log's, so that a node that catches up does not see a day's growth in a minute; of
 * a cluster without it, the node's clock. Failure modes: a node knows nothing of the time before
 * its start, or before a snapshot replaced its state (growth_reset()): growth_since_ms() says so.
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
    bool full; /* some tags of it are not there */
};

struct growth {
    uint64_t seed;
    struct growth_period periods[GROWTH_PERIODS];
    unsigned newest;
    unsigned count; /* periods that are in use, 1.. */
};

void growth_init(struct growth *growth, uint64_t seed, uint64_t now_ms);
void growth_free(struct growth *growth);

/* Nothing is known of the time before now. */
void growth_reset(struct growth *growth, uint64_t now_ms);

/* The tag's max_id changes; row: as it was before. */
void growth_note(struct growth *growth, const struct tag_row *row, uint64_t now_ms);

/* So late is it: forget what is too old. Before what follows. */
void growth_turn_over(struct growth *growth, uint64_t now_ms);

/* From when on all changes were noted. */
uint64_t growth_since_ms(const struct growth *growth);
/* False: of tags that growth_tag() does not find it is not known whether they changed. */
bool growth_is_whole(const struct growth *growth);
/* max_id that the tag had at growth_since_ms(); false: it did not change. */
bool growth_tag(const struct growth *growth, const char *name, size_t len, uint64_t *ret_max_id);

/* --- backups --- */

enum backups_state {
    BACKUPS_NONE,
    BACKUPS_ASKING,      /* the leader */
    BACKUPS_CATCHING_UP, /* with what it said */
    BACKUPS_READING,
    BACKUPS_PAUSED, /* until the next request */
    BACKUPS_CLOSING /* the view */
};

struct backups {
    struct id_context *context;
    const struct raft_context *on;
    struct disk *disk;
    const char *cluster_id; /* borrowed */
    struct growth *growth;  /* borrowed */
    enum backups_state state;
    bool stopped;
    bool local;
    bool whole;      /* its last part was read */
    uint64_t number; /* of the one under way, or the last one */
    uint64_t index;  /* what it must not be older than */
    uint64_t until_ms;
    struct cluster_request query;
    struct id_request *asked; /* to be answered; NULL: nobody waits */
    int status;               /* of asked, while the view is being closed */
    struct timer due;         /* of asked, or of the pause */
    struct timer look;        /* PAUSED: whether the store has ended the view */
    struct disk_read read;
    bool back; /* the read has come back */
    struct store_snapshot *view;
    struct backup_writer writer;
    struct id_backup_figures figures;
};

/* first: random, so that a number of an earlier start is not taken for one of this. */
void backups_init(struct backups *backups, struct id_context *context, struct growth *growth,
                  const char *cluster_id, uint64_t first);

/* Take a request of kind ID_REQUEST_BACKUP. */
void backups_submit(struct backups *backups, struct id_request *request);

/* Go on with what has come. Woken by a request, a read that came back, the leader's answer, its
 * timer, and what wakes all. */
void backups_turn(struct backups *backups);

/* Answer with ERR_SHUTTING_DOWN, and begin nothing more. */
void backups_stop(struct backups *backups);

#endif
