/*
 * call.c - see call.h. Threads: the loop's, and the raft loop's for call_done_cb.
 */
#include "http/api/call.h"

#include <stdlib.h>
#include <string.h>

#include "http/api/context.h"
#include "http/api/request.h"
#include "src/base/assert.h"
#include "src/base/container.h"

#define KEPT_BYTES 1024

/* Every request for strict ids zeroes one. */
_Static_assert(sizeof(struct call) <= 2048, "what is large and seldom wanted stands apart");

void call_free(struct call *call)
{
    buf_free(&call->request.payload);
    buf_free(&call->request.reply);
    if (call->behind != NULL) {
        call_free(call->behind);
    }
    if (call->request.kind == ID_REQUEST_SEGMENTS) {
        free(call->segments.items);
    } else if (call->request.kind == ID_REQUEST_BUFFERS) {
        for (size_t i = 0; i < call->buffers->count; i++) {
            free(call->buffers->nodes[i].page.items);
        }
        free(call->buffers);
    } else if (call->request.kind == ID_REQUEST_STATUS) {
        free(call->cluster);
    }
    free(call);
}

/* The memory of a buffer, for the next call; a large one is not worth it. */
static struct buf buf_keep(struct buf *buf)
{
    if (buf->capacity > KEPT_BYTES) {
        buf_free(buf);
    }
    buf->len = 0;
    return *buf;
}

/* On the loop's thread: it is over. */
static void call_end(struct call *call)
{
    struct api_loop *loop = call->loop;

    if (call->request.kind != ID_REQUEST_STRICT || loop->kept_count >= LIMIT_HTTP_CALLS_KEPT) {
        call_free(call);
        return;
    }
    ASSERT(call->behind == NULL);
    SLIST_INSERT_HEAD(&loop->kept, call, kept);
    loop->kept_count++;
}

/* On the loop's thread: the answer is there. */
static void call_answered_cb(struct mailbox_item *item)
{
    struct call *call = CONTAINER(item, struct call, item);

    if (call->wait.conn != NULL) {
        struct conn *conn = conn_resume(&call->wait);
        bool failed = call->request.status != 0 && !call->sees_errors;

        reply_finish(conn, failed ? call->request.status : call->finish(conn, call));
    } else if (call->gone != NULL) {
        call->gone(call);
    }
    call_end(call);
}

/* On the raft loop's thread. After the post the call may be gone, so the port is held here. */
static void call_done_cb(struct id_request *request)
{
    struct call *call = CONTAINER(request, struct call, request);
    struct http_port *port = call->port;

    call->item.run = call_answered_cb;
    if (mailbox_post_always(&port->mailbox, &call->item) != 0) {
        /* The loop has stopped; every connection is closed. */
        call_free(call);
    }
    http_port_unref(port);
}

/* The connection has closed, and its wait has let go of it: the answer will find that. */
static void call_cancelled(struct http_wait *wait)
{
    ASSERT(wait->conn == NULL);
}

static void call_begin(struct call *call, enum id_request_kind kind,
                       int (*finish)(struct conn *conn, struct call *call))
{
    call->request.kind = kind;
    call->request.done = call_done_cb;
    call->finish = finish;
    call->wait.cancel = call_cancelled;
}

struct call *call_new_strict(struct api_loop *loop,
                             int (*finish)(struct conn *conn, struct call *call))
{
    struct call *call = SLIST_FIRST(&loop->kept);
    struct buf payload;
    struct buf reply;

    if (call == NULL) {
        return call_new(ID_REQUEST_STRICT, finish);
    }
    SLIST_REMOVE_HEAD(&loop->kept, kept);
    loop->kept_count--;
    payload = buf_keep(&call->request.payload);
    reply = buf_keep(&call->request.reply);
    memset(call, 0, sizeof *call);
    call->request.payload = payload;
    call->request.reply = reply;
    call_begin(call, ID_REQUEST_STRICT, finish);
    return call;
}

void call_free_kept(struct api_loop *loop)
{
    struct call *call;

    while ((call = SLIST_FIRST(&loop->kept)) != NULL) {
        SLIST_REMOVE_HEAD(&loop->kept, kept);
        call_free(call);
    }
    loop->kept_count = 0;
}

struct call *call_new(enum id_request_kind kind,
                      int (*finish)(struct conn *conn, struct call *call))
{
    struct call *call = MUST_HAVE(calloc(1, sizeof *call));

    call_begin(call, kind, finish);
    if (kind == ID_REQUEST_STATUS) {
        call->cluster = MUST_HAVE(calloc(1, sizeof *call->cluster));
        call->request.out = call->cluster;
    } else if (kind == ID_REQUEST_SEGMENTS) {
        call->request.out = &call->segments;
    } else if (kind == ID_REQUEST_BUFFERS) {
        call->buffers = MUST_HAVE(calloc(1, sizeof *call->buffers));
        call->request.out = call->buffers;
    } else if (kind == ID_REQUEST_BACKUP) {
        call->request.out = &call->backup;
    } else if (kind == ID_REQUEST_EVERYWHERE) {
        call->request.out = &call->change.missing;
    }
    return call;
}

static void call_hand_over(struct api_loop *loop, struct call *call, uint32_t wait_ms)
{
    struct id_backend *backend = loop->backend;

    call->loop = loop;
    call->port = loop->port;
    http_port_ref(call->port);
    call->request.deadline_ms = clock_now_ms(backend->clock) + wait_ms;
    backend->ops->submit(backend, &call->request);
}

int call_submit_for(struct conn *conn, struct call *call, uint32_t wait_ms)
{
    conn_wait(conn, &call->wait, TIMER_NEVER);
    call_hand_over(api_loop(conn), call, wait_ms);
    return ANSWERED;
}

void call_submit_alone(struct api_loop *loop, struct call *call)
{
    call_hand_over(loop, call, loop->api->settings->default_timeout_ms);
}

int call_submit(struct conn *conn, struct call *call)
{
    return call_submit_for(conn, call, api_loop(conn)->api->settings->default_timeout_ms);
}
