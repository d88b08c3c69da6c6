/*
 * watch.h - looks at this node once a second: alarms, events, and the picture that all who watch
 * share.
 *
 * The happy path: watch_begin() starts it, on the loop of the operators' listener. Each look asks
 * the raft loop for the cluster's status; what it says, with the counters of HTTP and the health,
 * is judged (http/watch), and if anybody watches (live.h), made into one picture for all of them.
 * status_json_put() makes the same picture of a fresh status, for GET /api/status.
 *
 * Failure modes: the raft loop does not answer: the next look is a second later, and the alarms
 * stay as they were. Not started (tests): there are no alarms and no events.
 *
 * Threads: the loop's that it runs on; events and what status_json_put() reads have locks.
 */
#ifndef LEAFD_HTTP_API_WATCH_H
#define LEAFD_HTTP_API_WATCH_H

#include "http/api/context.h"
#include "http/watch/watch.h"

#define WATCH_MS 1000

struct watch {
    struct events events;
    pthread_mutex_t lock; /* guards the next two */
    struct alarms alarms;
    uint64_t resident_bytes; /* of the process, as of the last look; ID_UNKNOWN */
    struct changes changes;
    uint64_t began_ms;     /* of the api, monotonic */
    struct api_loop *loop; /* NULL: it does not run */
    struct timer timer;    /* the next look */
    bool asking;           /* a look is under way */
    uint64_t told;         /* the last event that those who watch have */
    struct mailbox_item begin;
};

struct watch *watch_new(const struct id_backend *backend);
void watch_free(struct watch *watch);

/* From now on; the servers were started. Main thread. */
void watch_begin(struct api *api);

/* The loop ends: no look any more. Its thread has ended. */
void watch_loop_ends(struct api_loop *loop);

/* Append the members of the object of GET /api/status, without its braces. Any thread. */
void status_json_put(struct api *api, const struct id_cluster_status *status, struct buf *json);

#endif
