/*
 * backups.h - GET /api/backup on this node: all rows of the state at one index, as the bytes of
 * backup_file.h, a part for each request.
 *
 * The happy path of the first request: the leader is asked for an index that everything which was
 * acknowledged before is at or below (a query, confirmed as any other); when this node has applied
 * that, its rows go to the disk, and behind them, in the same queue, a read that opens a fixed view
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
#include "src/service/context.h"
#include "src/service/growth.h"
#include "src/id/backend/id_figures.h"
#include "src/id/codec/backup_file.h"

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
