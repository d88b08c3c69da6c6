/*
 * recalls.h - tags that become strict: the node reports to the cluster that it holds no segment
 * of them any more.
 *
 * The happy path: recalls_turn() looks whether a tag waits for this node, and proposes one command
 * for as many as it takes, one command at a time.
 *
 * Failure modes: a command that fails is due again after a pause.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_RECALLS_H
#define LEAFD_SERVICE_RECALLS_H

#include "raft/cluster/leader_route.h"
#include "raft/cluster/context.h"
#include "src/id/alloc/id_table.h"
#include "src/service/context.h"

struct recalls {
    struct id_context *context;
    const struct leader_route *route;
    struct id_table *table;
    struct node_command command;
    bool look;                        /* there may be some that wait for this node */
    struct timer pause;               /* armed: all were looked at a moment ago */
    char after[LIMIT_TAG_NAME_BYTES]; /* the last tag that was named; empty: from the start */
    uint16_t after_len;
};

void recalls_init(struct recalls *recalls, struct id_context *context,
                  const struct leader_route *route, struct id_table *table);

/* A tag that changed may wait for this node to say that it holds no segment of it. */
void recalls_look(struct recalls *recalls);

void recalls_turn(struct recalls *recalls);

#endif
