/*
 * mailbox.h - items handed to a loop's thread from any other.
 *
 * The happy path: a producer appends an item under a short mutex and wakes the loop only if the box
 * was empty (uv_async_send coalesces, so the loop always drains the whole list); the loop's thread
 * takes the list and calls each item's function in order of posting.
 *
 * Failure modes: the box is full (LIMIT_MAILBOX_ITEMS): ERR_OVERLOADED, the item stays the
 * caller's; the box is closed: ERR_SHUTTING_DOWN.
 *
 * Threads: mailbox_post from any; the rest from the loop's thread.
 */
#ifndef LEAFD_LOOP_MAILBOX_H
#define LEAFD_LOOP_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#include "src/base/container.h"
#include "src/base/err.h"

struct mailbox_item {
    STAILQ_ENTRY(mailbox_item) link;
    void (*run)(struct mailbox_item *item); /* on the loop's thread; the item is its own again */
};

STAILQ_HEAD(mailbox_list, mailbox_item);

struct mailbox {
    pthread_mutex_t mutex;
    struct mailbox_list list; /* guarded by mutex */
    size_t count;             /* guarded by mutex */
    size_t max;
    bool closed; /* guarded by mutex */
    uv_async_t async;
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

/* Run what waits, refuse what comes later, and call cb when the handle is closed. */
void mailbox_close(struct mailbox *mailbox, void (*cb)(struct mailbox *mailbox));

#endif
