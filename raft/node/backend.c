/*
 * backend.c - see backend.h. Thread: the raft loop's, but for submit, want and notify.
 */
#include "raft/node/backend.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"

struct posted_request {
    struct mailbox_item item;
    struct replica *replica;
    struct id_request *request;
    int refused; /* why the replica does not get it; 0: it does */
};

static void run_posted(struct mailbox_item *item)
{
    struct posted_request *posted = CONTAINER(item, struct posted_request, item);

    if (posted->refused != 0) {
        answers_put(&posted->replica->answers, posted->request, posted->refused);
    } else {
        replica_submit(posted->replica, posted->request);
    }
    free(posted);
}

static void submit(struct id_backend *base, struct id_request *request)
{
    struct backend *backend = CONTAINER(base, struct backend, base);
    struct posted_request *posted = malloc(sizeof *posted);
    int rv;

    ASSERT(posted != NULL);
    posted->item.run = run_posted;
    posted->replica = backend->replica;
    posted->request = request;
    posted->refused = 0;
    rv = mailbox_post(&backend->mailbox, &posted->item);
    if (rv == ERR_OVERLOADED) { /* it hears so on the raft loop, too */
        posted->refused = rv;
        rv = mailbox_post_always(&backend->mailbox, &posted->item);
    }
    if (rv != 0) { /* the node has stopped, and its loop with it */
        free(posted);
        request->status = rv;
        request->done(request);
    }
}

static void want(struct id_backend *base, struct id_tag *tag)
{
    struct backend *backend = CONTAINER(base, struct backend, base);

    if (want_list_push(&backend->wanted, tag)) {
        (void)uv_async_send(&backend->want_async);
    }
}

static void notify(struct id_backend *base)
{
    (void)uv_async_send(&CONTAINER(base, struct backend, base)->want_async);
}

static const struct id_backend_ops ops = {.submit = submit, .want = want, .notify = notify};

static void want_cb(uv_async_t *async)
{
    struct backend *backend = async->data;
    struct id_tag *tag = want_list_take(&backend->wanted);

    while (tag != NULL) {
        struct id_tag *next = want_list_next(tag);

        allocator_want(backend->replica->allocator, tag);
        tag = next;
    }
}

void backend_open(struct backend *backend, uv_loop_t *loop, struct replica *replica,
                  uint32_t refill_percent)
{
    backend->base = (struct id_backend){
        .ops = &ops,
        .table = replica->table,
        .snowflake = &replica->snowflake, /* without workers: to decode ids */
        .health = &replica->health.seen,
        .clock = replica->ground.clock,
        .refill_percent = refill_percent,
    };
    backend->replica = replica;
    ASSERT(mailbox_init(&backend->mailbox, loop, LIMIT_MAILBOX_ITEMS) == 0);
    ASSERT(uv_async_init(loop, &backend->want_async, want_cb) == 0);
    backend->mailbox.data = backend;
    backend->want_async.data = backend;
    backend->handles_open = 2;
}

static void closed_one(struct backend *backend)
{
    ASSERT(backend->handles_open > 0);
    backend->handles_open--;
    if (backend->handles_open == 0) {
        backend->closed(backend);
    }
}

static void mailbox_closed_cb(struct mailbox *mailbox)
{
    closed_one(mailbox->data);
}

static void async_closed_cb(uv_handle_t *handle)
{
    closed_one(handle->data);
}

void backend_close(struct backend *backend, void (*closed)(struct backend *backend))
{
    backend->closed = closed;
    mailbox_close(&backend->mailbox, mailbox_closed_cb);
    uv_close((uv_handle_t *)&backend->want_async, async_closed_cb);
}
