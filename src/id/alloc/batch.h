/*
 * batch.h - what is asked of the cluster together: items wait, are sent as one command, and each
 * gets its own result. Under the grants of segments, strict and monotonic ids, and the ranges that
 * are given back.
 *
 *   idle --batcher_add()--> ready ---the timer `send`---> sent --result(), always once--> idle
 *                  |          ^                             |
 *                  +-delayed--+ at_ms                       +-- batcher_remove() --> idle
 *
 * The happy path: batcher_add() queues an item and arms the timer; when it fires, the owner's
 * pack() puts the items that wait into one command, which is proposed; when that is answered, the
 * owner's result() is called for each place of the command, in order. So what is added in one turn
 * of the loop is sent together, and nothing here runs while nothing waits.
 *
 * Invariants:
 *  - An item is idle, ready, delayed, or in exactly one batch.
 *  - A batch is closed when it leaves. Place i of it belongs to item i of its command for good, and
 *    result i is for that place alone. An item that was removed leaves an empty place.
 *  - A batch is proposed once, as one command with one stamp; the proposer repeats it through
 *    elections. An item gets into a second batch only if the owner adds it again.
 *  - result() is called once for each item that is sent and not removed, and once for each empty
 *    place whose batch was answered.
 *  - At most config.batches batches that are not abandoned are under way, and with those that are
 *    four times as many.
 *  - No callback is called from inside batcher_add(), batcher_remove() or batcher_open().
 *
 * Failure modes: a batch that failed, or whose answer does not read or has another number of
 * results: result() with the error for each item. No answer until `abandon_ms` after the deadline:
 * the batch is abandoned, result() with ERR_TIMEOUT for each item, and what it brings later meets
 * empty places: the owner burns it.
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
    struct batch_item *item; /* NULL: there never was one, or it was removed or abandoned */
    uint64_t note;           /* the owner's; it stays when the item goes */
};

/* One command, being filled or under way. */
struct batch {
    struct id_request request;
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
    /* Put what is still needed of these items, the oldest first, into the batch: command_put() into
     * its payload, batch_put() for each, and request.deadline_ms. Others are idle from now on. With
     * none at all nothing is sent. */
    void (*pack)(struct batcher *batcher, struct batch *batch, struct batch_item *const *items,
                 uint32_t count, uint64_t now_ms);
    /* A place is answered; its item, NULL if it is empty, is idle and may be added again. err: 0
     * and the result, in the struct of config.result (borrowed); else why there is none, and
     * NULL. */
    void (*result)(struct batcher *batcher, struct batch_item *item, uint64_t note, int err,
                   const void *result, uint64_t now_ms);
} BY_NAME;

struct batcher_config {
    enum id_request_kind kind; /* of the batches' requests */
    enum command_type command;
    enum result_type result; /* RESULT_GRANTS, RESULT_STRICT or RESULT_STATUSES */
    uint32_t items;          /* in one batch; ..BATCH_ITEMS_MAX */
    uint32_t batches;        /* under way at once */
    uint32_t hold_ms; /* a batch that is small beside what is under way is held back for so long at
                         most; 0: never */
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
    struct batch_queue delayed; /* by at_ms, but for less than the owner's pause */
    size_t ready_count;
    bool closed;            /* items wait, and nothing is sent */
    struct timer send;      /* something is to be sent, or is ready */
    size_t batch_count;     /* under way, */
    size_t abandoned_count; /* of these, abandoned */
    size_t sent_count;      /* items and empty places of those that are not */
    SLIST_HEAD(, batch) unused;
    struct histogram *took; /* from the question to the answer, of each place; NULL: not noted */
};

void batcher_init(struct batcher *batcher, const struct batcher_config *config,
                  const struct batcher_ops *ops, const struct clock *clock, struct timers *timers,
                  struct id_proposer *proposer);

/* No batch may be under way. Items that wait are left alone. */
void batcher_release(struct batcher *batcher);

/* An item that is idle is to be sent, not before at_ms. */
void batcher_add(struct batcher *batcher, struct batch_item *item, uint64_t at_ms);

/* An item that is not idle is, and no result() is called for it. */
void batcher_remove(struct batcher *batcher, struct batch_item *item);

/* False: nothing is sent until it is true again, as it is at first. */
void batcher_open(struct batcher *batcher, bool open);

/* An item that waited and is idle now; NULL: none waits. */
struct batch_item *batcher_take(struct batcher *batcher);

/* A batch that the owner fills by itself, with items that never waited: begin, put up to
 * config.items, send. It goes out at once, whatever is under way. */
struct batch *batch_begin(struct batcher *batcher);
/* The place of an item, or of none (NULL), and its part of the command. */
void batch_put(struct batch *batch, struct batch_item *item, uint64_t note,
               const void *command_item);
/* It has places and a deadline. It may be answered at any call from now on, and also at once. */
void batch_send(struct batch *batch);

/*
 * --- returns: ranges of ids that go back to the cluster, by COMMAND_GIVE_BACKs.
 *
 * The happy path: returns_put() for each range, which nobody uses any more; returns_send() after
 * the last. What became of the ids is added to two counters of the owner's: taken back, or lost:
 * refused, or not answered in time.
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
