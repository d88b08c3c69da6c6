/*
 * node_backend.h - the interface between http/ and the cluster (src/id/backend/id_backend.h), by
 * the id service of a node.
 *
 * The happy path: a request of an HTTP loop comes by the node's mailbox to the raft loop, and to
 * id_service_submit() there. A tag that wants a refill comes on a lock-free list. It is on the list
 * at most once, since only the thread that turns refill_wanted from false to true links it. The
 * needs of the snowflake generator are checked in each turn, so notify() only wakes the loop.
 *
 * Failure modes: the mailbox is full: ERR_OVERLOADED. The node has stopped: ERR_SHUTTING_DOWN, at
 * once and on the caller's thread.
 *
 * Threads: as id_backend.h says.
 */
#ifndef LEAFD_SERVICE_NODE_BACKEND_H
#define LEAFD_SERVICE_NODE_BACKEND_H

#include "raft/node/node.h"
#include "src/id/backend/id_backend.h"
#include "src/service/id_service.h"

struct node_backend {
    struct id_backend base;
    struct id_service *service;
    struct node *node;
};

/* For a node that was started with this service; valid until node_free(). */
void node_backend_open(struct node_backend *backend, struct id_service *service, struct node *node);

/* Set the waker for parked requests that can continue; NULL removes it. On the raft loop. */
void node_backend_set_waker(struct node_backend *backend, struct id_waker *waker);

#endif
