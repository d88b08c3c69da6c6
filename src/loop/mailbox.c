/*
 * mailbox.c - see mailbox.h.
 */
#include "src/loop/mailbox.h"

#include "src/base/assert.h"
#include "src/base/limits.h"

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

static void async_cb(uv_async_t *async)
{
    drain(async->data);
}

int mailbox_init(struct mailbox *mailbox, uv_loop_t *loop, size_t max)
{
    ASSERT(max >= 1 && max <= LIMIT_MAILBOX_ITEMS);
    *mailbox = (struct mailbox){.max = max};
    STAILQ_INIT(&mailbox->list);
    ASSERT(pthread_mutex_init(&mailbox->mutex, NULL) == 0);
    if (uv_async_init(loop, &mailbox->async, async_cb) != 0) {
        pthread_mutex_destroy(&mailbox->mutex);
        return ERR_NOMEM;
    }
    mailbox->async.data = mailbox;
    return 0;
}

static int post(struct mailbox *mailbox, struct mailbox_item *item, size_t max)
{
    bool was_empty = false;
    int rv = 0;

    ASSERT(item->run != NULL);
    ASSERT(pthread_mutex_lock(&mailbox->mutex) == 0);
    if (mailbox->closed) {
        rv = ERR_SHUTTING_DOWN;
    } else if (mailbox->count >= max) {
        rv = ERR_OVERLOADED;
    } else {
        was_empty = mailbox->count == 0;
        STAILQ_INSERT_TAIL(&mailbox->list, item, link);
        mailbox->count++;
        /* Inside the mutex, so that the handle cannot be closed between the two. */
        if (was_empty) {
            ASSERT(uv_async_send(&mailbox->async) == 0);
        }
    }
    ASSERT(pthread_mutex_unlock(&mailbox->mutex) == 0);
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

static void closed_cb(uv_handle_t *handle)
{
    struct mailbox *mailbox = handle->data;

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
    uv_close((uv_handle_t *)&mailbox->async, closed_cb);
}
