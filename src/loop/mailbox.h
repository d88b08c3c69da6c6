/*
 * mailbox.h - hands items to a loop's thread from any other, and wakes it.
 *
 * A producer wakes the loop only if the box was empty: one wake-up covers many items. The loop's
 * thread takes the whole list and calls each item's function in order of posting. Then it calls
 * `woken`: once for all wake-ups since its last call, and it sees all data stored before any of
 * them. So data can be left elsewhere, and the loop only be woken (mailbox_wake()).
 *
 * A thread that will soon post more can hold: the loops of its boxes are then woken once each, when
 * it flushes or releases, and find all its items.
 *
 * Why not uv_async_t: it makes the loop spin, and then yield, until the waking thread has returned
 * from its system call, which on a busy machine often takes a time slice.
 *
 * Failure modes: the box is full: ERR_OVERLOADED, the item stays the caller's; the box is closed:
 * ERR_SHUTTING_DOWN.
 *
 * Threads: mailbox_post, _wake, _hold, _flush and _release from any, until mailbox_free(); the rest
 * from the loop's thread.
 */
#ifndef LEAFD_LOOP_MAILBOX_H
#define LEAFD_LOOP_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "src/base/container.h"
#include "src/base/err.h"

STAILQ_HEAD(mailbox_list, mailbox_item);

struct mailbox {
    pthread_mutex_t mutex;
    struct mailbox_list list;   /* guarded by mutex */
    size_t count;               /* guarded by mutex */
    bool closed;                /* guarded by mutex */
    bool held;                  /* guarded by mutex: a thread that holds has it */
    SLIST_ENTRY(mailbox) holds; /* that thread's list */
    _Atomic bool pending;       /* the loop was woken and has not run yet */
    int fd;
    uv_poll_t poll;
    void (*woken)(struct mailbox *mailbox);
    void (*close_cb)(struct mailbox *mailbox);
} BY_NAME;

/* Open a box on a loop. woken: may be NULL. 0 or ERR_NOMEM (no descriptor is left). */
int mailbox_init(struct mailbox *mailbox, uv_loop_t *loop,
                 void (*woken)(struct mailbox *mailbox)) MUST_CHECK;

/* Append an item: 0, ERR_OVERLOADED, or ERR_SHUTTING_DOWN. max: items that may wait then, at least
 * 1; SIZE_MAX for completions of work that was bounded when it was taken. */
int mailbox_post(struct mailbox *mailbox, struct mailbox_item *item, size_t max) MUST_CHECK;

/* Wake the loop, for data that was left elsewhere. */
void mailbox_wake(struct mailbox *mailbox);

/* From now on this thread's posts wake no loop until mailbox_flush() or mailbox_release(); only the
 * latter ends the hold. No box that it posted to may be freed before. Holds do not nest; without
 * one both do nothing. */
void mailbox_hold(void);
void mailbox_flush(void);
void mailbox_release(void);

/* Run waiting items, refuse later ones, and call cb (may be NULL) when the loop has released it.
 * `woken` is not called any more. */
void mailbox_close(struct mailbox *mailbox, void (*cb)(struct mailbox *mailbox));

/* Free a closed one, or one whose loop never ran; no thread may post any more. */
void mailbox_free(struct mailbox *mailbox);

#endif
