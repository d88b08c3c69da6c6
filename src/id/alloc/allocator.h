/*
 * allocator.h - keeps this node's segments filled: gathers the tags that want a refill, asks for
 * many segments in one command, and publishes the ranges that come back.
 *
 * The happy path: a claimer sets refill_wanted and the tag comes to allocator_want(). A timer that
 * is due at once packs up to LIMIT_GRANTS_PER_ENTRY tags into one COMMAND_GRANT and proposes it
 * (batch.h), with at most LIMIT_GRANT_ENTRIES_IN_FLIGHT commands in flight. The results are
 * published into the free slots and the parked requests are woken.
 *
 * Invariants:
 *  - A range is published only from a result of a command that the cluster reported applied.
 *  - One request in flight per tag. A result is used only if it answers that request and its
 *    generation is not older than the tag's; otherwise its range is burnt.
 *  - A newer generation (deleted, made again, forced down) burns the ids left of the older one.
 *
 * Waking without a lost wake-up. A claimer that lacks ids parks in two steps:
 *   1. it adds the number it lacks to tag->demand, and its bit to tag->waiting_loops (fetch_or,
 *      acq_rel);
 *   2. then, in any order, it tries to claim once more, looks at tag->state, and sets
 *      tag->refill_wanted unless it is set. The claimer that turns it from false to true (exchange)
 *      calls want().
 * When a request ends, the allocator publishes the segment or changes the state; then clears
 * refill_wanted; then takes the bits of waiting_loops (exchange, acq_rel) and wakes those loops.
 * All changes of waiting_loops are read-modify-writes and so have one order. If the claimer's comes
 * first, the allocator finds its bit. If the allocator's comes first, the claimer sees all that the
 * allocator did before: the segment, the state, and refill_wanted cleared. A woken claimer that
 * still lacks ids starts again at 1, so a segment that others used up at once costs another round
 * and loses no waiter.
 * A failed request has not ended while there is demand or a bit: the tag stays wanted. Invariant:
 * while refill_wanted is set, the tag is with the batcher (its item is not idle) or on its way to
 * allocator_want(), and only one of these. Code that cannot deliver a want must clear it.
 *
 * Failure modes: no leader, timeout, overload: the tag stays wanted and, while requests wait, is
 * asked for again after a short pause. Unknown tag: state UNKNOWN, waiters woken; exhausted or
 * strict: likewise.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_ALLOC_ALLOCATOR_H
#define LEAFD_ID_ALLOC_ALLOCATOR_H

#include "src/base/clock.h"
#include "src/base/stats.h"
#include "src/base/timers.h"
#include "src/id/alloc/id_table.h"
#include "src/id/alloc/prefetch.h"
#include "src/id/codec/request.h"
#include "src/id/codec/tag.h"

/*
 * --- usage: how many ids of each tag, of any mode, this node hands out a second.
 *
 * The happy path: usage_add() counts ids that came, in a segment or in the answer to a strict or
 * monotonic request. Ids that are no longer in the tag's slots were handed out. usage_look() turns
 * their number into a rate (meter.h), once a second and on each query. So a claim has no extra
 * work.
 *
 * The rate halves in each USAGE_HALF_MS without requests. The USAGE_BUSIEST fastest tags are
 * listed.
 *
 * A look also judges a tag with a cover_s. It is short if this node's ids last less than cover_s at
 * this rate, and did so for REFILL_GRACE_LOADS refills, or for USAGE_GRACE_S in which a wanted
 * refill did not come, or none can come.
 *
 * Bounds: USAGE_LOOKS tags a second. With more tags in use, a tag is looked at in its turn and when
 * its ids come; its rate is then the average since the last look. The busiest are still looked at
 * each second.
 *
 * Failure modes: none. Ids that were claimed and then burnt count as handed out.
 */

#define USAGE_HALF_MS 4000
#define USAGE_LOOK_MS 1000
#define USAGE_LOOKS 1000
#define USAGE_BUSIEST 20
#define USAGE_GRACE_S 10
#define USAGE_RATE_MIN_PER_S (1.0 / 3600) /* slower tags are not used */

struct usage {
    struct id_table *table;
    const struct clock *clock;
    struct timers *timers;
    struct timer next;         /* look; not armed while no tag is in use */
    const struct id_tag *last; /* looked at in its turn; NULL: begin with the first */
    size_t count;
    size_t short_count; /* tags that last less than their cover_s */
    /* Not sorted: a tag keeps its place until a faster one takes it. */
    struct id_tag *busiest[USAGE_BUSIEST];
};

/* How many s this node's ids of the tag last, at the rate of the last look; UINT64_MAX: the tag is
 * not used, or has no segments. */
uint64_t usage_lasts_s(const struct id_tag *tag);

/* --- allocator --- */

struct allocator_config {
    uint32_t cover_ms;   /* REFILL_DEFAULT_COVER_MS */
    uint32_t request_ms; /* deadline of one grant request, which is then repeated. Default 10000 */
    uint32_t retry_ms;   /* pause after a failure. Default 50 */
};

struct allocator;

/* Each published segment is reported to prefetch. NULL: none is. */
struct allocator *allocator_new(const struct allocator_config *config, struct id_table *table,
                                struct prefetch *prefetch, const struct clock *clock,
                                struct timers *timers, struct id_proposer *proposer);

/* All requests in flight must be done (after the proposer's shutdown). Accepts NULL. */
void allocator_free(struct allocator *allocator);

/* The HTTP side starts later and ends sooner. NULL, as at first: no loop to wake. */
void allocator_set_waker(struct allocator *allocator, struct id_waker *waker);

/* A tag of the table wants a refill (refill_wanted is set). Idempotent. */
void allocator_want(struct allocator *allocator, struct id_tag *tag);

/* The state machine changed a tag (or loaded it): adopt step, max_step, generation and deletion.
 * Tags not in the table are ignored, and so are rows older than those known from the leader. */
void allocator_tag_changed(struct allocator *allocator, const struct tag_row *row);

/* Does this node have the keys for the texts of the ids that a request of kind ID_REQUEST_STRICT
 * got, from `first` on (src/id/codec/shape.h)? False while it has not applied a change of the tag's
 * key that they need. True of tags that are not in the table. */
bool allocator_has_keys(const struct allocator *allocator, const struct cluster_request *request,
                        uint64_t first);

/* The cluster answered this command of the node with the marks of its tags (command.h), ahead of
 * this node's log: burn all held ids of older generations. 0 or ERR_BAD_MESSAGE. */
int allocator_take_marks(struct allocator *allocator, const void *command, size_t len,
                         const void *marks, size_t marks_len) MUST_CHECK;

/* Make (or find) the table's entry for a known tag row, and adopt the row as above. This also finds
 * a tag that was made again before this node has applied that. NULL when the table is full. */
struct id_tag *allocator_open(struct allocator *allocator, const struct tag_row *row);

/* A request of kind ID_REQUEST_STRICT has just been answered with ids: its tag is in use. */
void allocator_answered(struct allocator *allocator, const struct cluster_request *request);

/* This node's rates of handing out ids. */
const struct usage *allocator_usage(const struct allocator *allocator);

/* Fill a page for GET /api/node/segments. limit 1..LIMIT_TAGS_PER_PAGE. */
void allocator_segments(struct allocator *allocator, const char *prefix, size_t prefix_len,
                        const char *after, size_t after_len, uint32_t limit,
                        struct id_segments_page *ret_page);

struct allocator_counts {
    uint64_t burnt[ID_BURN_CAUSES]; /* ids, since the start: _GENERATION, _LATE and _STOP */
    uint64_t returned;              /* ids that were given back */
    size_t held;                    /* tags that got a segment of their present generation */
    uint64_t granted;               /* ids, in segments that were published */
    size_t in_flight;               /* tags with an unanswered request */
    struct histogram took;          /* from each request to its answer */
};
const struct allocator_counts *allocator_counts(const struct allocator *allocator);

/* The state machine's row of a tag; NULL: it has none. */
typedef const struct tag_row *(*row_of_fn)(void *data, const char *name, size_t len);

/*
 * The node stops. All ids left in both slots of every tag are claimed, as by any claimer, so that
 * no other claimer gets them. Those at the top of their tag's range go back to the cluster in
 * COMMAND_GIVE_BACKs until deadline_ms. No segment is asked for or published afterwards.
 *
 * Why no id is handed out twice: no client here gets those ids. The state machine takes them back
 * only if no id above them was granted since (max_id is their end), and at most once (session.h,
 * command.h).
 *
 * Burnt, and counted as burnt: a range that is not at the top, ranges beyond LIMIT_GIVE_BACK_TAGS,
 * a refused range, one without an answer in time, one whose answer was lost.
 */
void allocator_give_back(struct allocator *allocator, uint64_t deadline_ms, row_of_fn row_of,
                         void *data);
/* No give-back is under way (also true if none was ever started). */
bool allocator_given_back(const struct allocator *allocator);

#endif
