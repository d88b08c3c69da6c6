/*
 * prefetch.h - the tags that a node served recently, kept on its disk, so that after a restart it
 * requests their segments before clients request their ids.
 *
 * The happy path: prefetch_served() notes each segment that came. Periodically the node looks how
 * many ids of each of these tags were used up, and writes the names to disk, recently busiest
 * first. After a restart prefetch_resume() reads them. Once the node is ready, prefetch_turn()
 * fetches their segments, in that order and at a bounded rate, so that a first request finds ids in
 * memory.
 *
 * "Recently busiest" goes by ids used up, halved every hour.
 *
 * Bounds: the config's `tags` names (at most LIMIT_PREFETCH_TAGS; twice as many are watched between
 * two looks), PREFETCH_KEEP_MS of age, `rate_per_s`. No segment is fetched for a tag that no client
 * requested here within that time, that is deleted or strict, or that already has a segment.
 *
 * Failure modes: malformed records are logged and ignored; their tags are fetched on request. A
 * crash loses the changes since the last write (save_ms). Nothing here decides about an id.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_ALLOC_PREFETCH_H
#define LEAFD_ID_ALLOC_PREFETCH_H

#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/base/timers.h"
#include "src/id/alloc/id_table.h"

#define PREFETCH_KEEP_MS 86400000 /* without being served, after which a tag is forgotten */
#define PREFETCH_DEFAULT_TAGS 10000
#define PREFETCH_DEFAULT_RATE 1000
#define PREFETCH_LOOK_MS 5000
#define PREFETCH_SAVE_MS 30000

struct prefetch_config {
    uint32_t tags;       /* names kept; 0: none, and nothing is fetched */
    uint32_t rate_per_s; /* segments fetched a second after a start; >= 1 */
};

/* Functions that it needs; called on the owner's thread. */
struct prefetch_ops {
    /* Put a list into the local record `number` (0..LIMIT_LOCAL_LISTS - 1), durably, in the
     * background. The bytes are borrowed for the call. */
    void (*write)(void *data, unsigned number, const void *bytes, size_t len);
    /* Open the tag and ask for a segment, if it can have one. */
    void (*fetch)(void *data, const char *name, size_t len);
    void *data;
    uint32_t wakes; /* the loop's bit for prefetch_turn(), which its timers wake */
} BY_NAME;

struct prefetch;

struct prefetch *prefetch_new(const struct prefetch_config *config, const struct prefetch_ops *ops,
                              const struct clock *clock, struct timers *timers);
void prefetch_free(struct prefetch *prefetch); /* accepts NULL */

/* Load the record `number` of an earlier incarnation. Call before the first turn. 0; or
 * ERR_BAD_VERSION or ERR_CORRUPT, and the record is ignored. */
int prefetch_resume(struct prefetch *prefetch, unsigned number, const void *bytes,
                    size_t len) MUST_CHECK;

/* The tag was given a segment. */
void prefetch_served(struct prefetch *prefetch, struct id_tag *tag);

/* Look, write and fetch, each if it is due. time_ms: the wall time by which tags age (the log's);
 * ready: segments can be granted. */
void prefetch_turn(struct prefetch *prefetch, uint64_t time_ms, bool ready);

/* Look and write now: before a stop, and before segments are taken out of memory. */
void prefetch_save(struct prefetch *prefetch, uint64_t time_ms);

/* The number of names kept, and of those still to be fetched. */
size_t prefetch_count(const struct prefetch *prefetch);
size_t prefetch_waiting(const struct prefetch *prefetch);

#endif
