/*
 * changes.h - what has changed between two looks at a node, as events.
 *
 * The happy path: changes_look() once a second with what the node shows now. What came and went
 * between two looks is told by what it left: two elections are one line with both terms.
 *
 * Failure modes: none. Thread: one owner.
 */
#ifndef LEAFD_HTTP_WATCH_CHANGES_H
#define LEAFD_HTTP_WATCH_CHANGES_H

#include "http/watch/events.h"
#include "src/id/backend/id_backend.h"

/* What is compared, beside the status. */
struct changes_counts {
    uint64_t reloads_done; /* of the settings */
    uint64_t reloads_refused;
    uint64_t implausible; /* what peers said that cannot be */
    uint64_t snapshots;   /* installed here */
    int refusal;          /* of snowflake ids: 0 or an ERR_* */
};

struct changes {
    bool seen; /* there was a look before */
    struct id_cluster_status status;
    struct changes_counts counts;
};

/* Put what has changed since the last look into events. */
void changes_look(struct changes *changes, const struct id_cluster_status *status,
                  const struct changes_counts *counts, uint64_t wall_ms, struct events *events);

#endif
