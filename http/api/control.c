/*
 * control.c - see control.h. Threads: the loop's, and the raft loop's for done_cb.
 */
#include "http/api/control.h"

#include <stdlib.h>

#include "http/server/conn.h"
#include "http/server/loop.h"
#include "src/base/assert.h"

struct control_port *control_port_new(uv_loop_t *uv)
{
    struct control_port *port = calloc(1, sizeof(*port));

    ASSERT(port != NULL);
    atomic_init(&port->refs, 1);
    if (mailbox_init(&port->mailbox, uv, LIMIT_MAILBOX_ITEMS) != 0) {
        free(port);
        return NULL;
    }
    return port;
}

void control_port_unref(struct control_port *port)
{
    uint32_t before = atomic_fetch_sub(&port->refs, 1);

    ASSERT(before > 0);
    if (before == 1) {
        free(port);
    }
}

void control_free(struct control *control)
{
    buf_free(&control->request.payload);
    buf_free(&control->request.reply);
    free(control->segments.items);
    free(control);
}

/* On the loop's thread: the answer is there. */
static void answered_cb(struct mailbox_item *item)
{
    struct control *control = (struct control *)((char *)item - offsetof(struct control, item));
    struct conn *conn = control->conn;

    if (conn != NULL) {
        ASSERT(conn->control == control);
        conn->control = NULL;
        control->finish(conn, control);
    }
    control_free(control);
}

/* On the raft loop's thread. After the post the control may be gone, so the port is held here. */
static void done_cb(struct id_request *request)
{
    struct control *control =
        (struct control *)((char *)request - offsetof(struct control, request));
    struct control_port *port = control->port;

    control->item.run = answered_cb;
    if (mailbox_post_always(&port->mailbox, &control->item) != 0) {
        /* The loop has stopped; every connection is closed. */
        control_free(control);
    }
    control_port_unref(port);
}

struct control *control_new(struct conn *conn, enum id_request_kind kind,
                            void (*finish)(struct conn *conn, struct control *control))
{
    struct control *control = calloc(1, sizeof(*control));

    ASSERT(control != NULL);
    control->request.kind = kind;
    control->request.done = done_cb;
    control->conn = conn;
    control->finish = finish;
    if (kind == ID_REQUEST_STATUS) {
        control->request.out = &control->cluster;
    } else if (kind == ID_REQUEST_SEGMENTS) {
        control->request.out = &control->segments;
    } else if (kind == ID_REQUEST_EVERYWHERE) {
        control->request.out = &control->missing;
    }
    return control;
}

void control_submit(struct control *control, uint32_t wait_ms)
{
    struct conn *conn = control->conn;
    struct id_backend *backend = conn->loop->backend;

    ASSERT(conn->control == NULL);
    control->port = conn->loop->port;
    atomic_fetch_add(&control->port->refs, 1);
    control->request.deadline_ms = clock_now_ms(backend->clock) + wait_ms;
    conn->control = control;
    conn_wait(conn);
    backend->ops->submit(backend, &control->request);
}

void control_forget(struct control *control)
{
    ASSERT(control->conn != NULL);
    control->conn = NULL;
}
