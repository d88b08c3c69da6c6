/*
 * rates.h - tags by how fast they are used, out of the segments that nodes hold.
 *
 * A node tells of each tag's rate and of what is left in its buffers (GET /api/node/segments). The
 * rates of all nodes are summed; the time for which a tag's buffers last is that of the node where
 * it is shortest. Thread: one.
 */
#ifndef LEAFD_CTL_CMD_RATES_H
#define LEAFD_CTL_CMD_RATES_H

#include <jansson.h>
#include <stdint.h>

struct rate {
    const char *tag; /* owned by the rates */
    uint64_t per_s;
    uint64_t left;  /* ids in buffers, of all nodes */
    uint64_t step;  /* the largest segment of a node */
    double lasts_s; /* at the present rate; below 0: for ever */
    unsigned nodes; /* that use it */
};

struct rates {
    json_t *by_tag; /* object: an integer, the place in the list */
    struct rate *list;
    size_t count;
    size_t capacity;
};

void rates_init(struct rates *rates);
void rates_free(struct rates *rates);

/* What one node's page says. */
void rates_add(struct rates *rates, const json_t *page);

/* Busiest first; equal ones by name. */
void rates_sort(struct rates *rates);

#endif
