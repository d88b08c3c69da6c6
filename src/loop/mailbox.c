/*
 * mailbox.c - see mailbox.h. A wakeup is an eventfd; only the first thread that sends it writes to
 * it. `pending` is cleared before the loop looks, so the loop also sees the data of a thread that
 * found `pending` set.
 */
#include "src/loop/mailbox.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/limits.h"

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct wakeup *wake = CONTAINER(poll, struct wakeup, poll);
    uint64_t count;

    (void)events;
    ASSERT(status == 0);
    ASSERT(read(wake->fd, &count, sizeof count) == sizeof count);
    (void)atomic_exchange_explicit(&wake->pending, false, memory_order_acq_rel);
    wake->woken(wake);
}

int wakeup_init(struct wakeup *wake, uv_loop_t *loop, void (*woken)(struct wakeup *wake))
{
    *wake = (struct wakeup){.woken = woken};
    wake->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake->fd < 0) {
        return ERR_NOMEM;
    }
    if (uv_poll_init(loop, &wake->poll, wake->fd) != 0) {
        (void)close(wake->fd);
        return ERR_NOMEM;
    }
    ASSERT(uv_poll_start(&wake->poll, UV_READABLE, poll_cb) == 0);
    return 0;
}

void wakeup_send(struct wakeup *wake)
{
    const uint64_t one = 1;

    if (!atomic_exchange_explicit(&wake->pending, true, memory_order_acq_rel)) {
        ASSERT(write(wake->fd, &one, sizeof one) == sizeof one);
    }
}

static void async_closed_cb(uv_handle_t *handle)
{
    struct wakeup *wake = CONTAINER(handle, struct wakeup, poll);

    wake->close_cb(wake);
}

void wakeup_close(struct wakeup *wake, void (*cb)(struct wakeup *wake))
{
    wake->close_cb = cb;
    uv_close((uv_handle_t *)&wake->poll, async_closed_cb);
}

void wakeup_free(struct wakeup *wake)
{
    (void)close(wake->fd);
}

/* --- mailbox --- */

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
    if (mailbox->drained != NULL) {
        mailbox->drained(mailbox);
    }
}

static void woken(struct wakeup *wake)
{
    mailbox_drain(CONTAINER(wake, struct mailbox, wake));
}

int mailbox_init(struct mailbox *mailbox, uv_loop_t *loop, size_t max)
{
    ASSERT(max >= 1 && max <= LIMIT_MAILBOX_ITEMS);
    *mailbox = (struct mailbox){.max = max};
    STAILQ_INIT(&mailbox->list);
    ASSERT(pthread_mutex_init(&mailbox->mutex, NULL) == 0);
    if (wakeup_init(&mailbox->wake, loop, woken) != 0) {
        pthread_mutex_destroy(&mailbox->mutex);
        return ERR_NOMEM;
    }
    return 0;
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
            wakeup_send(&mailbox->wake);
        }
    }
}

static int mailbox_append(struct mailbox *mailbox, struct mailbox_item *item, size_t max)
{
    bool send = false;
    int rv = 0;

    ASSERT(item->run != NULL);
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
    if (send) { /* the woken loop finds the mutex free; the wakeup lives as long as the box */
        wakeup_send(&mailbox->wake);
    }
    return rv;
}

int mailbox_post(struct mailbox *mailbox, struct mailbox_item *item)
{
    return mailbox_append(mailbox, item, mailbox->max);
}

int mailbox_post_always(struct mailbox *mailbox, struct mailbox_item *item)
{
    return mailbox_append(mailbox, item, SIZE_MAX);
}

static void box_closed_cb(struct wakeup *wake)
{
    struct mailbox *mailbox = CONTAINER(wake, struct mailbox, wake);

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
    wakeup_close(&mailbox->wake, box_closed_cb);
}

void mailbox_free(struct mailbox *mailbox)
{
    wakeup_free(&mailbox->wake);
    (void)pthread_mutex_destroy(&mailbox->mutex);
}
