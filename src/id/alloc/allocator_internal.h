/*
 * allocator_internal.h - what the allocator's files share: allocator.c (asks and publishes) and
 * give_back.c (the end).
 *
 * Thread: one owner (the raft loop).
 */
#ifndef LEAFD_ID_ALLOC_ALLOCATOR_INTERNAL_H
#define LEAFD_ID_ALLOC_ALLOCATOR_INTERNAL_H

#include "src/id/alloc/allocator.h"

struct batch;

/* First in, first out; a ring that grows. A tag is in at most one queue (refill.queued). */
struct tag_queue {
    struct id_tag **items;
    size_t head;
    size_t count;
    size_t capacity; /* a power of two, or 0 */
};

struct allocator {
    struct allocator_config config;
    struct id_table *table;
    const struct clock *clock;
    struct id_proposer *proposer;
    struct id_waker *waker;
    void (*granted)(void *data, struct id_tag *tag); /* NULL: nobody is to be told */
    void *granted_data;
    struct tag_queue ready;
    struct tag_queue delayed; /* in order of refill.retry_at_ms, but for less than retry_ms */
    TAILQ_HEAD(batch_list, batch) batches; /* of grants; oldest first */
    size_t batch_count;
    size_t abandoned_count;
    uint64_t last_batch_id;
    uint64_t burnt[ID_BURN_CAUSES];
    size_t held;
    bool stopped;        /* segments were given back: none is asked for or published any more */
    size_t returns_open; /* COMMAND_GIVE_BACK under way */
    uint64_t returned;   /* ids that were given back */
};

#endif
