/*
 * mailbox.h - items handed to a loop's thread from any other.
 *
 * The happy path: a producer appends an item under a short mutex and wakes the loop only if the box
 * was empty (one wake-up stands for many items, so the loop always drains the whole list); the
 * loop's thread takes the list and calls each item's function in order of posting.
 *
 * A thread that will post more in a moment holds: the loops of the boxes that it posts to are woken
 * once each, when it releases, and find all of it.
 *
 * Failure modes: the box is full (LIMIT_MAILBOX_ITEMS): ERR_OVERLOADED, the item stays the
 * caller's; the box is closed: ERR_SHUTTING_DOWN.
 *
 * Threads: mailbox_post, _hold and _release from any; the rest from the loop's thread.
 */
#ifndef LEAFD_LOOP_MAILBOX_H
#define LEAFD_LOOP_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "src/base/container.h"
#include "src/base/err.h"
#include "src/base/mailbox_item.h"
#include "src/loop/bell.h"

STAILQ_HEAD(mailbox_list, mailbox_item);

struct mailbox {
    pthread_mutex_t mutex;
    struct mailbox_list list; /* guarded by mutex */
    size_t count;             /* guarded by mutex */
    size_t max;
    bool closed;                /* guarded by mutex */
    bool held;                  /* guarded by mutex: a thread that holds has it */
    SLIST_ENTRY(mailbox) holds; /* that thread's list */
    struct bell bell;
    void (*drained)(struct mailbox *mailbox); /* after each drain, may be NULL */
    void *data;                               /* the owner's */
    void (*close_cb)(struct mailbox *mailbox);
} BY_NAME;

/* Open a box on a loop. max: items that may wait, 1..LIMIT_MAILBOX_ITEMS. 0 or ERR_NOMEM. */
int mailbox_init(struct mailbox *mailbox, uv_loop_t *loop, size_t max) MUST_CHECK;

/* Append an item: 0, ERR_OVERLOADED, or ERR_SHUTTING_DOWN. Any thread. */
int mailbox_post(struct mailbox *mailbox, struct mailbox_item *item) MUST_CHECK;

/* As mailbox_post, without the bound: for completions of what was bounded when it was taken. Only
 * ERR_SHUTTING_DOWN can be returned. Any thread. */
int mailbox_post_always(struct mailbox *mailbox, struct mailbox_item *item) MUST_CHECK;

/* From now on what this thread posts wakes nobody, until mailbox_release(), before which no box
 * that it posted to may be freed. Once, not twice; without a hold the release does nothing. */
void mailbox_hold(void);
void mailbox_release(void);

/* Run what waits, refuse what comes later, and call cb (may be NULL) when the loop has let go. */
void mailbox_close(struct mailbox *mailbox, void (*cb)(struct mailbox *mailbox));

/* Of one that is closed, or that no loop ran for: nobody posts any more. */
void mailbox_free(struct mailbox *mailbox);

#endif
