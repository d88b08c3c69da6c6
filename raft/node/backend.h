/*
 * backend.h - id_backend.h for the threads of http/: what they ask of this node, brought to its
 * loop.
 *
 * The happy path: requests come by mailbox, at most LIMIT_MAILBOX_ITEMS at a time. Tags that want a
 * refill come on a lock-free list: a tag is on it at most once, since only who turns refill_wanted
 * from false to true links it. Waking the loop is all that notify() does: each turn looks at what
 * the snowflake generator wants.
 *
 * Failure modes: the mailbox is full (ERR_OVERLOADED) or closed (ERR_SHUTTING_DOWN): the request is
 * answered at once, on the thread of who submits it.
 *
 * Thread: the raft loop's, but for the functions of the id_backend.
 */
#ifndef LEAFD_RAFT_NODE_BACKEND_H
#define LEAFD_RAFT_NODE_BACKEND_H

#include <uv.h>

#include "raft/cluster/replica.h"
#include "src/id/alloc/want_list.h"
#include "src/loop/mailbox.h"

struct backend {
    struct id_backend base;
    struct replica *replica;
    struct mailbox mailbox;
    uv_async_t want_async;
    struct want_list wanted;
    unsigned handles_open;
    void (*closed)(struct backend *backend);
};

/* Open it on a loop, for a replica that is started. refill_percent: as in id_backend.h. */
void backend_open(struct backend *backend, uv_loop_t *loop, struct replica *replica,
                  uint32_t refill_percent);

/* Give the replica what waits in the mailbox, refuse what comes later, and close the handles:
 * then comes `closed`. */
void backend_close(struct backend *backend, void (*closed)(struct backend *backend));

#endif
