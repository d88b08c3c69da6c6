/*
 * node_command.h - a command that the node proposes by itself, one at a time: its registration, a
 * digest, the log's time, a step of a membership change.
 *
 * The happy path: the owner encodes a command and calls node_command_send(); when it is over, or
 * NODE_COMMAND_MS have passed, in_flight is false again, on_done hears how it went, and the part
 * that it is of is woken.
 *
 * Failure modes: as of any command; the owner looks again whether it is still due.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_NODE_COMMAND_H
#define LEAFD_RAFT_CLUSTER_NODE_COMMAND_H

#include "raft/cluster/context.h"

#define NODE_COMMAND_MS 5000

struct node_command {
    struct cluster_request request;
    const struct raft_context *on;
    uint32_t wakes; /* the part that sends it */
    bool in_flight;
    /* From inside done(), with the status; may be NULL. */
    void (*on_done)(struct node_command *command, int status);
};

/* Take over the command in payload and propose it; none may be in flight. stamped: it bears the
 * stamp of who asked for it. */
void node_command_send(struct node_command *command, const struct raft_context *on,
                       struct buf *payload, bool stamped);

#endif
