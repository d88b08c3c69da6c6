/*
 * mailbox.c - see mailbox.h.
 */
#include "src/loop/mailbox.h"

#include "src/base/assert.h"
#include "src/base/limits.h"

SLIST_HEAD(mailbox_boxes, mailbox);

/* This thread's. */
static _Thread_local bool holding;
static _Thread_local struct mailbox_boxes held;

static void drain(struct mailbox *mailbox)
{
    struct mailbox_list taken = STAILQ_HEAD_INITIALIZER(taken);
    struct mailbox_item *item;

    ASSERT(pthread_mutex_lock(&mailbox->mutex) == 0);
    STAILQ_CONCAT(&taken, &mailbox->list);
    mailbox->count = 0;
    ASSERT(pthread_mutex_unlock(&mailbox->mutex) == 0);
    while ((item = STAILQ_FIRST(&taken)) != NULL) {
        STAILQ_REMOVE_HEAD(&taken, link);
        item->run(item);
    }
    if (mailbox->drained != NULL) {
        mailbox->drained(mailbox);
    }
}

static void rang(struct bell *bell)
{
    drain(CONTAINER(bell, struct mailbox, bell));
}

int mailbox_init(struct mailbox *mailbox, uv_loop_t *loop, size_t max)
{
    ASSERT(max >= 1 && max <= LIMIT_MAILBOX_ITEMS);
    *mailbox = (struct mailbox){.max = max};
    STAILQ_INIT(&mailbox->list);
    ASSERT(pthread_mutex_init(&mailbox->mutex, NULL) == 0);
    if (bell_init(&mailbox->bell, loop, rang) != 0) {
        pthread_mutex_destroy(&mailbox->mutex);
        return ERR_NOMEM;
    }
    return 0;
}

/* There is something in an empty box, whose mutex is held: is its loop to be woken now? What others
 * put in beside it is found with it. */
static bool to_ring(struct mailbox *mailbox)
{
    if (holding && !mailbox->held) {
        mailbox->held = true;
        SLIST_INSERT_HEAD(&held, mailbox, holds);
    }
    return !holding;
}

void mailbox_hold(void)
{
    ASSERT(!holding);
    holding = true;
}

void mailbox_release(void)
{
    struct mailbox *mailbox;
    bool waits;

    holding = false;
    while ((mailbox = SLIST_FIRST(&held)) != NULL) {
        SLIST_REMOVE_HEAD(&held, holds);
        ASSERT(pthread_mutex_lock(&mailbox->mutex) == 0);
        mailbox->held = false;
        waits = mailbox->count > 0;
        ASSERT(pthread_mutex_unlock(&mailbox->mutex) == 0);
        if (waits) {
            bell_ring(&mailbox->bell);
        }
    }
}

static int post(struct mailbox *mailbox, struct mailbox_item *item, size_t max)
{
    bool ring = false;
    int rv = 0;

    ASSERT(item->run != NULL);
    ASSERT(pthread_mutex_lock(&mailbox->mutex) == 0);
    if (mailbox->closed) {
        rv = ERR_SHUTTING_DOWN;
    } else if (mailbox->count >= max) {
        rv = ERR_OVERLOADED;
    } else {
        ring = mailbox->count == 0 && to_ring(mailbox);
        STAILQ_INSERT_TAIL(&mailbox->list, item, link);
        mailbox->count++;
    }
    ASSERT(pthread_mutex_unlock(&mailbox->mutex) == 0);
    if (ring) { /* who is woken finds the mutex free; and the bell is there as long as the box is */
        bell_ring(&mailbox->bell);
    }
    return rv;
}

int mailbox_post(struct mailbox *mailbox, struct mailbox_item *item)
{
    return post(mailbox, item, mailbox->max);
}

int mailbox_post_always(struct mailbox *mailbox, struct mailbox_item *item)
{
    return post(mailbox, item, SIZE_MAX);
}

static void closed_cb(struct bell *bell)
{
    struct mailbox *mailbox = CONTAINER(bell, struct mailbox, bell);

    /* The mutex stays usable: a late mailbox_post() must find `closed`, not freed memory. */
    if (mailbox->close_cb != NULL) {
        mailbox->close_cb(mailbox);
    }
}

void mailbox_close(struct mailbox *mailbox, void (*cb)(struct mailbox *mailbox))
{
    ASSERT(pthread_mutex_lock(&mailbox->mutex) == 0);
    ASSERT(!mailbox->closed);
    mailbox->closed = true;
    ASSERT(pthread_mutex_unlock(&mailbox->mutex) == 0);
    drain(mailbox);
    mailbox->close_cb = cb;
    bell_close(&mailbox->bell, closed_cb);
}

void mailbox_free(struct mailbox *mailbox)
{
    bell_free(&mailbox->bell);
    (void)pthread_mutex_destroy(&mailbox->mutex);
}
