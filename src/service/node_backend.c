/*
 * node_backend.c - see node_backend.h. Threads: run_posted the raft loop's, the others any.
 */
#include "src/service/node_backend.h"

#include "src/base/container.h"
#include "src/loop/mailbox.h"

/* Until then the service holds it. */
static void run_posted(struct mailbox_item *item)
{
    struct cluster_request *request = CONTAINER(item, struct cluster_request, post);
    struct id_service *service = request->holder;

    request->holder = NULL;
    if (request->status != 0) {
        answers_put(service->context.on->answers, request, request->status);
    } else {
        id_service_submit(service, request);
    }
}

static void backend_submit(struct id_backend *base, struct cluster_request *request)
{
    struct node_backend *backend = CONTAINER(base, struct node_backend, base);
    struct mailbox *mailbox = node_mailbox(backend->node);
    int rv;

    request->holder = backend->service;
    request->status = 0;
    request->post.run = run_posted;
    rv = mailbox_post(mailbox, &request->post, LIMIT_MAILBOX_ITEMS);
    if (rv == ERR_OVERLOADED) { /* reported on the raft loop, too */
        request->status = rv;
        rv = mailbox_post(mailbox, &request->post, SIZE_MAX);
    }
    if (rv != 0) { /* the node has stopped, and its loop with it */
        request->status = rv;
        request->done(request);
    }
}

static void backend_want(struct id_backend *base, struct id_tag *tag)
{
    struct node_backend *backend = CONTAINER(base, struct node_backend, base);

    if (want_list_push(&backend->service->wanted, tag)) {
        node_wake(backend->node);
    }
}

static void backend_notify(struct id_backend *base)
{
    node_wake(CONTAINER(base, struct node_backend, base)->node);
}

void node_backend_open(struct node_backend *backend, struct id_service *service, struct node *node)
{
    static const struct id_backend_ops ops = {
        .submit = backend_submit, .want = backend_want, .notify = backend_notify};

    *backend = (struct node_backend){
        .service = service,
        .node = node,
        .base = {.ops = &ops,
                 .table = service->table,
                 .snowflake = &service->snowflake, /* without workers: to decode ids */
                 .health = &service->health.seen,
                 .figures = &service->health.figures,
                 .clock = service->context.on->real_clock,
                 .refill_percent = service->config.refill_percent}};
}

void node_backend_set_waker(struct node_backend *backend, struct id_waker *waker)
{
    allocator_set_waker(backend->service->allocator, waker);
    backend->service->waker = waker;
    backend->service->cut_changes = 0;
}
