/*
 * figures.h - gathers what a node measures (id_figures.h), once a second.
 *
 * The happy path: figures_look(), each FIGURES_MS, looks at everything and puts it into the box.
 *
 * Failure modes: none. Thread: the raft loop; the box: any.
 */
#ifndef LEAFD_SERVICE_FIGURES_H
#define LEAFD_SERVICE_FIGURES_H

#include "src/service/backups.h"
#include "src/service/dates.h"
#include "src/service/window.h"
#include "raft/cluster/clock_sync.h"
#include "raft/cluster/requests.h"
#include "src/id/alloc/allocator.h"
#include "src/id/alloc/strict.h"
#include "src/id/backend/id_backend.h"

#define FIGURES_MS 1000
#define FIGURES_GROWTH_HALF_MS 60000 /* of the growth of a tag (meter.h): the last minutes count */

/* What is looked at; filled in by the service. */
struct figures_sources {
    const struct id_context *context;
    const struct raft_context *on;
    const struct requests *requests;
    const struct allocator *allocator;
    const struct strict *strict;
    const struct windows *windows;
    const struct clock_sync *clocks;
    const struct backups *backups;
    struct dates *dates;
    struct disk *disk;
};

/* How fast max_id of one of the busiest tags rises: what all nodes take together. */
struct figures_growth {
    const struct id_tag *tag; /* whose it is; NULL: of no tag */
    uint32_t generation;      /* as of the last look */
    uint64_t max_id;
    struct meter ids;
};

struct figures {
    struct figures_sources of;
    struct figures_growth growths[USAGE_BUSIEST]; /* by the places of usage.busiest */
    struct id_figures_box box;
    uint64_t seed; /* of hashes of names that clients choose: nobody knows which collide */
};

void figures_init(struct figures *figures, const struct figures_sources *of);
void figures_free(struct figures *figures);

void figures_look(struct figures *figures);

#endif
