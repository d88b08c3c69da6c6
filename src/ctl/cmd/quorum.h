/*
 * quorum.h - how many voters are needed, how many are there, and what the next failure would cost:
 * as the node says, or, where it is an older one, out of its members. Thread: any.
 */
#ifndef LEAFD_CTL_CMD_QUORUM_H
#define LEAFD_CTL_CMD_QUORUM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct quorum {
    int64_t voters;
    int64_t needed;
    int64_t reachable;
    bool survives_next_failure;
    char text[320]; /* not clean */
};

/* Of an answer of GET /api/status or GET /api/cluster. */
void quorum_of(const json_t *status, struct quorum *ret);

#endif
