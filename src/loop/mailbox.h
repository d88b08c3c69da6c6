/*
 * mailbox.h - passes work from other threads to a loop: a mailbox of items, and the wakeup for it.
 *
 * Failure modes and threads: see each part.
 */
#ifndef LEAFD_LOOP_MAILBOX_H
#define LEAFD_LOOP_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#include "src/base/container.h"
#include "src/base/err.h"

/*
 * --- wakeup: wakes a loop from any thread, so that it takes the data left for it.
 *
 * `woken` is called once for all wakeups since its last call, and sees all data stored before any
 * of them.
 *
 * Why not uv_async_t: it makes the loop spin, and then yield, until the waking thread has returned
 * from its system call, which on a busy machine often takes a time slice.
 *
 * Threads: wakeup_send() from any, until wakeup_free(); the rest from the loop's thread.
 */

struct wakeup {
    _Atomic bool pending; /* the loop was woken and has not run yet */
    int fd;
    uv_poll_t poll;
    void (*woken)(struct wakeup *wake);
    void (*close_cb)(struct wakeup *wake);
} BY_NAME;

/* woken: on the loop's thread. 0 or ERR_NOMEM (no descriptor is left). */
int wakeup_init(struct wakeup *wake, uv_loop_t *loop,
                void (*woken)(struct wakeup *wake)) MUST_CHECK;

void wakeup_send(struct wakeup *wake);

/* Stop it; cb, on the loop's thread, when the loop has released it. */
void wakeup_close(struct wakeup *wake, void (*cb)(struct wakeup *wake));

/* Free a closed one. */
void wakeup_free(struct wakeup *wake);

/*
 * --- mailbox: items handed to a loop's thread from any other.
 *
 * A producer wakes the loop only if the box was empty: one wake-up covers many items. The loop's
 * thread takes the whole list and calls each item's function in order of posting.
 *
 * A thread that will soon post more can hold: the loops of its boxes are then woken once each, when
 * it flushes or releases, and find all its items.
 *
 * Failure modes: the box is full (LIMIT_MAILBOX_ITEMS): ERR_OVERLOADED, the item stays the
 * caller's; the box is closed: ERR_SHUTTING_DOWN.
 *
 * Threads: mailbox_post, _hold, _flush and _release from any; the rest from the loop's thread.
 */

STAILQ_HEAD(mailbox_list, mailbox_item);

struct mailbox {
    pthread_mutex_t mutex;
    struct mailbox_list list; /* guarded by mutex */
    size_t count;             /* guarded by mutex */
    size_t max;
    bool closed;                /* guarded by mutex */
    bool held;                  /* guarded by mutex: a thread that holds has it */
    SLIST_ENTRY(mailbox) holds; /* that thread's list */
    struct wakeup wake;
    void (*drained)(struct mailbox *mailbox); /* after each drain, may be NULL */
    void *data;                               /* the owner's */
    void (*close_cb)(struct mailbox *mailbox);
} BY_NAME;

/* Open a box on a loop. max: items that may wait, 1..LIMIT_MAILBOX_ITEMS. 0 or ERR_NOMEM. */
int mailbox_init(struct mailbox *mailbox, uv_loop_t *loop, size_t max) MUST_CHECK;

/* Append an item: 0, ERR_OVERLOADED, or ERR_SHUTTING_DOWN. Any thread. */
int mailbox_post(struct mailbox *mailbox, struct mailbox_item *item) MUST_CHECK;

/* As mailbox_post, without the bound: for completions of work that was bounded when it was taken.
 * Only ERR_SHUTTING_DOWN can be returned. Any thread. */
int mailbox_post_always(struct mailbox *mailbox, struct mailbox_item *item) MUST_CHECK;

/* From now on this thread's posts wake no loop until mailbox_flush() or mailbox_release(); only the
 * latter ends the hold. No box that it posted to may be freed before. Holds do not nest; without
 * one both do nothing. */
void mailbox_hold(void);
void mailbox_flush(void);
void mailbox_release(void);

/* Run waiting items, refuse later ones, and call cb (may be NULL) when the loop has released it. */
void mailbox_close(struct mailbox *mailbox, void (*cb)(struct mailbox *mailbox));

/* Free a closed one, or one whose loop never ran; no thread may post any more. */
void mailbox_free(struct mailbox *mailbox);

#endif
