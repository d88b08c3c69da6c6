/*
 * control.h - requests to the cluster on behalf of a connection, and the port by which answers and
 * messages come back to the loop.
 *
 * The happy path: control_new(), fill payload, control_submit(): the connection waits. The backend
 * calls done on the raft loop, which posts to the port's mailbox; on the loop's thread `finish`
 * writes the reply.
 *
 * Failure modes: the connection closes meanwhile: control_forget(), the answer is dropped when it
 * comes. The loop stops meanwhile: the port stays until the last request was answered, late answers
 * are freed.
 *
 * Threads: the loop's; control_port_unref and the backend's done from any.
 */
#ifndef LEAFD_HTTP_API_CONTROL_H
#define LEAFD_HTTP_API_CONTROL_H

#include <stdatomic.h>

#include "src/id/backend/id_backend.h"
#include "src/id/codec/worker.h"
#include "src/loop/mailbox.h"

struct conn;
struct http_loop;

struct control_port {
    _Atomic uint32_t refs; /* the loop's and one for each request that is out */
    struct mailbox mailbox;
};

/* How long a change of tags may take, and whether all nodes are waited for. */
struct change_wait {
    bool all;
    uint32_t timeout_ms;
    uint64_t until_ms; /* on the loop's clock */
};

struct control {
    struct id_request request;
    struct mailbox_item item;
    struct control_port *port;
    struct conn *conn; /* NULL once it closed. The loop's thread only */
    void (*finish)(struct conn *conn, struct control *control);
    struct worker_renew asked;        /* of a change of a worker id, as far as it applies */
    uint32_t list_limit;              /* of a list of worker ids */
    struct id_cluster_status cluster; /* out of ID_REQUEST_STATUS */
    struct id_segments_page segments; /* out of ID_REQUEST_SEGMENTS */
    struct change_wait wait;          /* of a change of tags, and of ID_REQUEST_EVERYWHERE */
    struct id_missing missing;        /* out of the latter */
};

/* A port on a loop, with one reference. NULL when its handle cannot be made. */
struct control_port *control_port_new(uv_loop_t *uv);
void control_port_unref(struct control_port *port);

/* A request for the connection. finish is called on the loop's thread unless the connection
 * closes. */
struct control *control_new(struct conn *conn, enum id_request_kind kind,
                            void (*finish)(struct conn *conn, struct control *control));

/* Give up a request that was never submitted. */
void control_free(struct control *control);

/* Hand it to the backend; it may wait for wait_ms. The connection waits until finish. */
void control_submit(struct control *control, uint32_t wait_ms);

/* The connection that waits for it is closing. */
void control_forget(struct control *control);

#endif
