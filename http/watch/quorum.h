/*
 * quorum.h - how many voters a cluster needs, how many this node reaches, and what one more failure
 * would cost.
 *
 * Failure modes: none. Thread: pure, any.
 */
#ifndef LEAFD_HTTP_WATCH_QUORUM_H
#define LEAFD_HTTP_WATCH_QUORUM_H

#include "src/id/backend/id_backend.h"

#define QUORUM_TEXT_BYTES 200

struct quorum {
    unsigned voters;
    unsigned needed;    /* more than half of the voters */
    unsigned reachable; /* voters that this node has a link to, itself counted */
    bool survives_next_failure;
    char text[QUORUM_TEXT_BYTES]; /* all that as a sentence */
};

void quorum_of(const struct id_cluster_status *status, struct quorum *ret_quorum);

#endif
