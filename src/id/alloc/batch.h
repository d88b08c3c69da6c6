/*
 * batch.h - batches of requests to the cluster: items wait, are sent as one command, and each gets
 * its own result. Used for grants of segments, strict and monotonic ids, and ranges given back.
 *
 *   idle --batcher_add()--> ready ---the timer `send`---> sent --result(), always once--> idle
 *                  |          ^                             |
 *                  +-delayed--+ at_ms                       +-- batcher_remove() --> idle
 *
 * The happy path: batcher_add() queues an item and arms the timer. When it fires, the owner's
 * pack() puts the waiting items into one command, which is proposed. When the command is answered,
 * the owner's result() is called for each of its places, in order. So items added in one turn of
 * the loop are sent together, and nothing runs here while no item waits.
 *
 * Invariants:
 *  - An item is idle, ready, delayed, or in exactly one batch.
 *  - A batch is closed when it is sent. Its place i belongs to item i of its command for good, and
 *    result i is for that place alone. A removed item leaves an empty place.
 *  - A batch is proposed once, as one command with one stamp; the proposer repeats it through
 *    elections, unless it is a leader's own (config.once). An item gets into a second batch only if
 *    the owner adds it again.
 *  - result() is called once for each item that is sent and not removed, and once for each empty
 *    place whose batch was answered.
 *  - At most config.batches batches are under way, not counting abandoned ones; with them, at most
 *    four times as many.
 *  - No callback is called from inside batcher_add(), batcher_remove() or batcher_open().
 *
 * Failure modes: a batch fails, or its answer is malformed or has another number of results:
 * result() with the error for each item. No answer until `abandon_ms` after the deadline: the batch
 * is abandoned, with result() of ERR_TIMEOUT for each item. A later answer meets empty places, and
 * the owner burns its ids.
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_ALLOC_BATCH_H
#define LEAFD_ID_ALLOC_BATCH_H

#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/base/stats.h"
#include "src/id/codec/command.h"
#include "src/id/codec/request.h"

#define BATCH_ITEMS_MAX LIMIT_STRICT_ITEMS /* in one command, of any kind */

struct batcher;

/* A place in a command. */
struct batch_place {
    struct batch_item *item; /* NULL: none, or it was removed or abandoned */
    uint64_t note;           /* the owner's; kept when the item is removed */
};

/* One command, being filled or under way. */
struct batch {
    struct cluster_request request;
    struct batcher *batcher;
    SLIST_ENTRY(batch) unused;
    struct timer abandon;
    uint64_t began_us;
    bool abandoned;
    uint32_t count;
    struct batch_place places[];
};

/* The owner's part. */
struct batcher_ops {
    /* Put the items that are still needed, the oldest first, into the batch: command_put() into its
     * payload, batch_put() for each, and request.deadline_ms. The others become idle. With no items
     * nothing is sent. */
    void (*pack)(struct batcher *batcher, struct batch *batch, struct batch_item *const *items,
                 uint32_t count, uint64_t now_ms);
    /* A place is answered. Its item, NULL if the place is empty, is idle and may be added again.
     * err: 0 with the result, in config.result's struct (borrowed); else the error and NULL. */
    void (*result)(struct batcher *batcher, struct batch_item *item, uint64_t note, int err,
                   const void *result, uint64_t now_ms);
} BY_NAME;

struct batcher_config {
    unsigned kind; /* of the batches' requests */
    enum command_type command;
    enum result_type result; /* RESULT_GRANTS, RESULT_STRICT or RESULT_STATUSES */
    bool once;               /* the command is a leader's own (request.h) */
    uint32_t items;          /* in one batch; ..BATCH_ITEMS_MAX */
    uint32_t batches;        /* under way at once */
    uint32_t hold_ms;    /* a batch that is small beside those under way is held back at most this
                         long; 0: never */
    uint32_t abandon_ms; /* after its deadline */
};

TAILQ_HEAD(batch_queue, batch_item);

struct batcher {
    struct batcher_config config;
    const struct batcher_ops *ops;
    const struct clock *clock;
    struct timers *timers;
    struct id_proposer *proposer;
    struct batch_queue ready;   /* oldest first */
    struct batch_queue delayed; /* by at_ms, to within the owner's pause */
    size_t ready_count;
    bool closed;            /* items wait; none is sent */
    struct timer send;      /* an item is due, or ready */
    size_t batch_count;     /* under way, */
    size_t abandoned_count; /* of these, abandoned */
    size_t sent_count;      /* items and empty places of the others */
    SLIST_HEAD(, batch) unused;
    struct histogram *took; /* from request to answer, of each place; NULL: not recorded */
};

void batcher_init(struct batcher *batcher, const struct batcher_config *config,
                  const struct batcher_ops *ops, const struct clock *clock, struct timers *timers,
                  struct id_proposer *proposer);

/* No batch may be under way. Waiting items are left alone. */
void batcher_release(struct batcher *batcher);

/* Send an idle item, not before at_ms. */
void batcher_add(struct batcher *batcher, struct batch_item *item, uint64_t at_ms);

/* Make an item idle; no result() is called for it. */
void batcher_remove(struct batcher *batcher, struct batch_item *item);

/* False: nothing is sent until this is called with true. At first it is open. */
void batcher_open(struct batcher *batcher, bool open);

/* An item that waited and is idle now; NULL: none waits. */
struct batch_item *batcher_take(struct batcher *batcher);

/* A batch that the owner itself fills, with items that never waited: begin, put up to config.items,
 * send. It is sent at once, regardless of other batches. */
struct batch *batch_begin(struct batcher *batcher);
/* Add a place for an item, or for none (NULL), and its part of the command. */
void batch_put(struct batch *batch, struct batch_item *item, uint64_t note,
               const void *command_item);
/* The batch must have places and a deadline. It may be answered from now on, even in this call. */
void batch_send(struct batch *batch);

/*
 * --- returns: ranges of ids given back to the cluster by COMMAND_GIVE_BACKs.
 *
 * The happy path: returns_put() for each range that is no longer used; returns_send() after the
 * last. The ids are added to one of two counters of the owner: taken back, or lost (refused, or not
 * answered in time).
 */
struct returns {
    struct batcher batcher; /* a place's note: the ids that it has */
    struct batch *gathered; /* not sent yet; NULL: none */
    uint64_t *returned;
    uint64_t *lost;
};

void returns_init(struct returns *returns, uint64_t *returned, uint64_t *lost, uint32_t abandon_ms,
                  const struct clock *clock, struct timers *timers, struct id_proposer *proposer);
void returns_put(struct returns *returns, const struct give_back_item *item, uint64_t ids,
                 uint64_t deadline_ms);
void returns_send(struct returns *returns);

#endif
