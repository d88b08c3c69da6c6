/*
 * want_list.h - tags that want a refill, on their way from the HTTP loops to the raft loop, without
 * a lock.
 *
 * The happy path: whoever turned tag->refill_wanted from false to true pushes the tag (so none is
 * in the list twice), and wakes the raft loop if the list was empty; the raft loop takes all of
 * them at once. Who finds the list not empty need not wake it: the one who pushed the first of
 * them does, and the raft loop takes the list after that.
 *
 * Failure modes: none. Threads: push from any, take from the owner's (the raft loop).
 */
#ifndef LEAFD_ID_ALLOC_WANT_LIST_H
#define LEAFD_ID_ALLOC_WANT_LIST_H

#include "src/base/hot.h"
#include "src/id/alloc/id_table.h"

struct want_list {
    _Atomic(struct id_tag *) first;
};

/* True if the owner has to be woken. */
static inline bool want_list_push(struct want_list *list, struct id_tag *tag)
{
    struct id_tag *first = atomic_load_explicit(&list->first, memory_order_relaxed);

    do {
        tag->want_next = first;
        YIELD("linked a wanted tag");
    } while (!atomic_compare_exchange_weak_explicit(&list->first, &first, tag, memory_order_release,
                                                    memory_order_relaxed));
    YIELD("pushed a wanted tag");
    return first == NULL;
}

/* All that are in it, to be walked by want_list_next(); NULL: none. */
static inline struct id_tag *want_list_take(struct want_list *list)
{
    return atomic_exchange_explicit(&list->first, NULL, memory_order_acquire);
}

/* The one behind a tag that was taken. To be read before anything is done with the tag: from then
 * on it may be pushed anew. */
static inline struct id_tag *want_list_next(const struct id_tag *tag)
{
    return tag->want_next;
}

#endif
