/*
 * allocator.h - keeps this node's segments filled: gathers the tags that want a refill, asks for
 * many in one command, and publishes what comes back.
 *
 * The happy path: a claimer sets refill_wanted and the tag comes to allocator_want(); a timer that
 * is due at once packs up to LIMIT_GRANTS_PER_ENTRY of them into one COMMAND_GRANT and proposes it
 * (batch.h), at most LIMIT_GRANT_ENTRIES_IN_FLIGHT of them at a time; the results are published
 * into the free slots and the parked requests are woken.
 *
 * Invariants:
 *  - A range is published only from a result of a command that the cluster reported applied.
 *  - One request in flight a tag; a result is used only if it answers that request and its
 *    generation is not older than the tag's; otherwise its range is burnt.
 *  - A newer generation (deleted, made again, forced down) burns what is left of the older one.
 *
 * Waking without a lost wake-up. A claimer that lacks ids parks by
 *   1. adding what it lacks to tag->demand, and its bit to tag->waiting_loops (fetch_or, acq_rel);
 *   2. then, in any order, trying to claim once more, looking at tag->state, and setting
 *      tag->refill_wanted unless it is set; whoever turns it from false to true (exchange) calls
 *      want().
 * When a request ends, the allocator publishes the segment or changes the state; then clears
 * refill_wanted; then takes the bits of waiting_loops (exchange, acq_rel) and wakes those it found.
 * All changes of waiting_loops are read-modify-writes and so stand in one order. If the claimer's
 * comes first, the allocator finds its bit. If the allocator's comes first, the claimer sees all
 * that the allocator did before: the segment, the state, and refill_wanted cleared. Those who are
 * woken start again at 1 if they still lack ids, so a segment that others used up at once costs
 * another round and no waiter.
 * A request that failed has not ended while there is demand or a bit: the tag stays wanted.
 * Invariant: while refill_wanted is set, the tag is with the batcher (its item is not idle) or on
 * its way to allocator_want(), and only one of these. Who cannot deliver a want must clear it.
 *
 * Failure modes: no leader, timeout, overload: the tag stays wanted and is asked for again after a
 * short pause while requests wait; unknown tag: state UNKNOWN, waiters woken; exhausted, or strict:
 * likewise.
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
 * --- usage: how many ids of each tag this node hands out a second: a rate for tags of every mode.
 *
 * The happy path: usage_add() hears of ids that came, be they a segment or the answer of a strict
 * or monotonic request. What of them is not in the tag's slots any more was handed out.
 * usage_look() turns that into a rate (meter.h), once a second and whenever people ask. So a claim
 * does nothing for it.
 *
 * The rate halves in each USAGE_HALF_MS in which nobody asks. The USAGE_BUSIEST fastest tags are
 * known.
 *
 * A look also judges a tag with a cover_s: it is short if what this node holds lasts less than that
 * at this rate, and did so all the time since REFILL_GRACE_LOADS refills, or for USAGE_GRACE_S in
 * which none came that was wanted, or none can come.
 *
 * Bounds: USAGE_LOOKS tags a second. Where more are in use, a tag is looked at in its turn and when
 * ids of it come; its rate is then the average since the last time. The busiest are looked at each
 * second all the same.
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
    const struct id_tag *last; /* that was looked at in its turn; NULL: begin with the first */
    size_t count;
    size_t short_count; /* tags that last less than their cover_s */
    /* Not sorted: a tag keeps its place until a faster one takes it. */
    struct id_tag *busiest[USAGE_BUSIEST];
};

/* For so many s what this node holds of the tag lasts at its rate as of the last look; UINT64_MAX:
 * it is not used, or has no segments. */
uint64_t usage_lasts_s(const struct id_tag *tag);

/* --- allocator --- */

struct allocator_config {
    uint32_t cover_ms;   /* REFILL_DEFAULT_COVER_MS */
    uint32_t request_ms; /* deadline of one grant request; then asked anew. Default 10000 */
    uint32_t retry_ms;   /* pause after a failure. Default 50 */
};

struct allocator;

struct allocator *allocator_new(const struct allocator_config *config, struct id_table *table,
                                const struct clock *clock, struct timers *timers,
                                struct id_proposer *proposer);

/* All requests in flight must be done (after the proposer's shutdown). Accepts NULL. */
void allocator_free(struct allocator *allocator);

/* The HTTP side starts later and ends sooner. NULL, as at first: nobody to wake. */
void allocator_set_waker(struct allocator *allocator, struct id_waker *waker);

/* It hears of each segment that was published. NULL, as at first: nobody does. */
void allocator_set_prefetch(struct allocator *allocator, struct prefetch *prefetch);

/* A tag of the table wants a refill (refill_wanted is set). Idempotent. */
void allocator_want(struct allocator *allocator, struct id_tag *tag);

/* The state machine changed a tag (or loaded it): adopt step, max_step, generation and deletion.
 * Tags not in the table are ignored, and so are rows older than what is known from the leader.
 */
void allocator_tag_changed(struct allocator *allocator, const struct tag_row *row);

/* A strict_keys_fn (strict.h), with the allocator as its data: false while this node has not
 * applied a change of the tag's key that the ids need. True of tags that are not in the table. */
bool allocator_has_keys(void *data, const struct id_request *request, uint64_t first);

/* The cluster answered this command of the node with the marks of its tags (command.h), ahead of
 * this node's log: burn what is held of older generations. 0 or ERR_BAD_MESSAGE. */
int allocator_take_marks(struct allocator *allocator, const void *command, size_t len,
                         const void *marks, size_t marks_len) MUST_CHECK;

/* Make (or find) the table's entry for a known tag row, and adopt the row as above: this is also
 * how a tag that was made again is found before this node has applied it. NULL when the table is
 * full. */
struct id_tag *allocator_open(struct allocator *allocator, const struct tag_row *row);

/* A request of kind ID_REQUEST_STRICT was answered with these ids, now: its tag is in use. */
void allocator_answered(struct allocator *allocator, const struct id_request *request);

/* How fast this node hands out which tags. */
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
    size_t in_flight;               /* tags that were asked for and not answered */
    struct histogram took;          /* from the question to the answer, of each of them */
};
const struct allocator_counts *allocator_counts(const struct allocator *allocator);

/* The state machine's row of a tag, NULL: it has none. */
typedef const struct tag_row *(*row_of_fn)(void *data, const char *name, size_t len);

/*
 * The node stops. All that is left in both slots of every tag is claimed, as by any claimer, so
 * that nobody else can; what is the top of its tag's range goes back to the cluster in
 * COMMAND_GIVE_BACKs until deadline_ms. No segment is asked for or published afterwards.
 *
 * Why nothing can be handed out twice: those ids go to nobody here; the state machine takes them
 * back only if no id above them was granted since (max_id is their end), and at most once
 * (session.h, command.h).
 *
 * Burnt, and counted so: a range that is not the top, more than LIMIT_GIVE_BACK_TAGS of them, a
 * refusal, no answer in time, an answer that was lost.
 */
void allocator_give_back(struct allocator *allocator, uint64_t deadline_ms, row_of_fn row_of,
                         void *data);
/* Nothing of it is under way (also when it was never called). */
bool allocator_given_back(const struct allocator *allocator);

#endif
