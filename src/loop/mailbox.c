/*
 * mailbox.c - see mailbox.h. The loop is woken by an eventfd; only the first thread that wakes it
 * writes to it. `pending` is cleared before the loop looks, so the loop also sees the data of a
 * thread that found `pending` set.
 */
#include "src/loop/mailbox.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/base/assert.h"

SLIST_HEAD(mailbox_boxes, mailbox);

/* This thread's. */
static _Thread_local bool holding;
static _Thread_local struct mailbox_boxes held;

static void mailbox_drain(struct mailbox *mailbox)
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
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct mailbox *mailbox = CONTAINER(poll, struct mailbox, poll);
    uint64_t count;

    (void)events;
    ASSERT(status == 0);
    ASSERT(read(mailbox->fd, &count, sizeof count) == sizeof count);
    (void)atomic_exchange_explicit(&mailbox->pending, false, memory_order_acq_rel);
    mailbox_drain(mailbox);
    if (mailbox->woken != NULL) {
        mailbox->woken(mailbox);
    }
}

int mailbox_init(struct mailbox *mailbox, uv_loop_t *loop, void (*woken)(struct mailbox *mailbox))
{
    *mailbox = (struct mailbox){.woken = woken};
    mailbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mailbox->fd < 0) {
        return ERR_NOMEM;
    }
    if (uv_poll_init(loop, &mailbox->poll, mailbox->fd) != 0) {
        (void)close(mailbox->fd);
        return ERR_NOMEM;
    }
    ASSERT(uv_poll_start(&mailbox->poll, UV_READABLE, poll_cb) == 0);
    STAILQ_INIT(&mailbox->list);
    ASSERT(pthread_mutex_init(&mailbox->mutex, NULL) == 0);
    return 0;
}

void mailbox_wake(struct mailbox *mailbox)
{
    const uint64_t one = 1;

    if (!atomic_exchange_explicit(&mailbox->pending, true, memory_order_acq_rel)) {
        ASSERT(write(mailbox->fd, &one, sizeof one) == sizeof one);
    }
}

void mailbox_hold(void)
{
    ASSERT(!holding);
    holding = true;
}

void mailbox_release(void)
{
    holding = false;
    mailbox_flush();
}

void mailbox_flush(void)
{
    struct mailbox *mailbox;
    bool waits;

    while ((mailbox = SLIST_FIRST(&held)) != NULL) {
        SLIST_REMOVE_HEAD(&held, holds);
        ASSERT(pthread_mutex_lock(&mailbox->mutex) == 0);
        mailbox->held = false;
        waits = mailbox->count > 0;
        ASSERT(pthread_mutex_unlock(&mailbox->mutex) == 0);
        if (waits) {
            mailbox_wake(mailbox);
        }
    }
}

int mailbox_post(struct mailbox *mailbox, struct mailbox_item *item, size_t max)
{
    bool send = false;
    int rv = 0;

    ASSERT(item->run != NULL);
    ASSERT(max >= 1);
    ASSERT(pthread_mutex_lock(&mailbox->mutex) == 0);
    if (mailbox->closed) {
        rv = ERR_SHUTTING_DOWN;
    } else if (mailbox->count >= max) {
        rv = ERR_OVERLOADED;
    } else {
        /* Wake the loop only if the box is empty: it finds later items with the first one. */
        send = mailbox->count == 0 && !holding;
        if (mailbox->count == 0 && holding && !mailbox->held) {
            mailbox->held = true;
            SLIST_INSERT_HEAD(&held, mailbox, holds);
        }
        STAILQ_INSERT_TAIL(&mailbox->list, item, link);
        mailbox->count++;
    }
    ASSERT(pthread_mutex_unlock(&mailbox->mutex) == 0);
    if (send) { /* the woken loop finds the mutex free */
        mailbox_wake(mailbox);
    }
    return rv;
}

static void closed_cb(uv_handle_t *handle)
{
    struct mailbox *mailbox = CONTAINER((uv_poll_t *)handle, struct mailbox, poll);

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
    mailbox_drain(mailbox);
    mailbox->close_cb = cb;
    uv_close((uv_handle_t *)&mailbox->poll, closed_cb);
}

void mailbox_free(struct mailbox *mailbox)
{
    (void)close(mailbox->fd);
    (void)pthread_mutex_destroy(&mailbox->mutex);
}
