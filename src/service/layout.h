/*
 * layout.h - the cluster's layout of snowflake ids: the leader of the first term puts its setting
 * into the log, which holds from then on; a node whose setting is another one says so.
 *
 * Failure modes: none; a difference stops nothing. Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_LAYOUT_H
#define LEAFD_SERVICE_LAYOUT_H

#include "raft/cluster/context.h"
#include "src/id/snowflake/lease.h"
#include "src/service/context.h"

struct layout {
    struct id_context *context;
    const struct lease_config *config; /* the setting */
    struct node_command command;
    struct timer pause; /* armed: it was proposed a moment ago */
    bool compared;      /* the setting, with the log's */
    bool differs;
};

/* config is borrowed. threshold_ms 0: this node proposes none; workers 0: its setting does not
 * matter. */
void layout_init(struct layout *layout, struct id_context *context,
                 const struct lease_config *config);

void layout_turn(struct layout *layout);

#endif
