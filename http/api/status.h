/*
 * status.h - how this node is: a look at it once a second (alarms, events, and the picture that all
 * who watch share), GET /api/status, /api/nodes, /api/events and /api/live; and /livez, /readyz,
 * /version.
 *
 * The happy path of a look: watch_begin() starts it, on the loop of the operators' listener. Each
 * look asks the raft loop for the cluster's status; what it says, with the counters of HTTP and the
 * health, is judged (http/watch), and if anybody watches, made into one picture for all of them. It
 * is handed to each loop that has viewers, and the loop appends the same bytes to each of its
 * streams of Server-Sent Events: nothing is made per viewer. GET /api/status makes the same picture
 * of a fresh status.
 *
 * GET /api/nodes, which clients ask every few seconds, is made once a look, for all of them.
 *
 * /livez, /readyz and /version are answered from atomics, without asking anybody. Ready means that
 * this node can hand out ids: it has its state, does not stop, and either holds segments or can
 * have them granted. A disk that is nearly full does not make a node unready while it holds
 * segments or while nothing is missing: it is shown as a check that failed. Snowflake ids that are
 * refused do not either, since segments are served: a warning says why, with numbers. Nor do
 * settings that are not what the log knows.
 *
 * Failure modes: the raft loop does not answer: the next look is a second later, and the alarms
 * stay as they were. Not started (tests): there are no alarms and no events. A viewer that has not
 * taken the last picture yet does not get this one: nothing piles up, neither here nor, beyond
 * LIMIT_LIVE_SOCKET_BYTES, in the kernel. One that takes nothing for 10 s is cut off then, as any
 * reader. Tokens that are read again: the stream of a client that may not watch any more ends. More
 * than LIMIT_LIVE_VIEWERS: 503 overloaded. A drain ends all of them.
 *
 * Threads: the loop's that the look runs on; viewers are their loop's; events and the picture have
 * locks.
 */
#ifndef LEAFD_HTTP_API_STATUS_H
#define LEAFD_HTTP_API_STATUS_H

#include <stdbool.h>

#include "http/api/context.h"
#include "http/watch/watch.h"
#include "src/base/buf.h"

/* --- GET /api/live --- */

struct api;

/* How many do. */
unsigned live_viewers(const struct api *api);

/* Give all of them these bytes, whole events. Takes them over. */
void live_show(struct api *api, struct buf *bytes);

/* --- the looks --- */

#define WATCH_MS 1000

struct watch {
    struct events events;
    pthread_mutex_t lock; /* guards the next four */
    struct alarms alarms;
    struct buf nodes;  /* the answer of GET /api/nodes, as of the last look; empty: none yet */
    uint64_t nodes_ms; /* when it was made, monotonic */
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

#endif
