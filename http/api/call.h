/*
 * call.h - requests to the cluster on behalf of a connection.
 *
 * The happy path: call_new(), fill the payload, call_submit(): the connection waits. The backend
 * calls done on the raft loop, which posts to the loop's port; on the loop's thread `finish` gives
 * the reply, as a handler does (request.h).
 *
 * Failure modes: an error of the backend is answered as reply_err() does, unless the call wants to
 * see it itself. The connection closes meanwhile: the answer is dropped when it comes. The loop
 * stops meanwhile: late answers are freed.
 *
 * Threads: the loop's; the backend's done from any.
 */
#ifndef LEAFD_HTTP_API_CALL_H
#define LEAFD_HTTP_API_CALL_H

#include "http/api/ids.h"
#include "http/api/tag_bulk.h"
#include "http/server/loop.h"
#include "src/base/container.h"
#include "src/id/backend/id_backend.h"
#include "src/id/codec/snowflake_layout.h"
#include "src/id/codec/worker.h"

struct api_loop;
struct call;

/* A change of tags: how long it may take, and whether all nodes are waited for. */
struct change_wait {
    bool all;
    bool bulk; /* of several tags: shown as counts */
    uint32_t timeout_ms;
    uint64_t until_ms; /* on the loop's clock */
};

/* At what a change of many tags finds, before it is made (audited.h). */
struct call_looking {
    int (*submit)(struct conn *conn, struct call *change);
    struct command_list items; /* of the change, from the next one to look at on */
    uint32_t at;               /* its number */
};

struct call {
    struct http_wait wait;
    struct id_request request;
    struct mailbox_item item;
    SLIST_ENTRY(call) kept; /* by its loop, once it is over */
    struct api_loop *loop;
    struct http_port *port;
    int (*finish)(struct conn *conn, struct call *call);
    /* The answer came, and the connection has closed before. NULL: nothing is to be done. */
    void (*gone)(struct call *call);
    struct call *behind; /* to be submitted after it; its own until then. NULL: none */
    bool sees_errors;    /* finish is called for every status, else for 0 */
    int done;            /* of a change of a worker id: the status of the reply when it is done */
    union {
        struct id_claim claim;      /* of a request for ids */
        struct worker_renew worker; /* of a change of a worker id, as far as it applies */
        /* of a change of the members; of the level, that, or 0: it is looked at */
        uint64_t member_id;
        struct layout_row layout; /* of a change of a named layout */
        uint32_t list_limit;      /* of a list of worker ids */
        struct {
            uint16_t len;
            char text[SHAPE_ID_BYTES_MAX];
        } decode; /* of the text of an id */
        struct call_looking looking;
        struct id_cluster_status *cluster; /* out of ID_REQUEST_STATUS; far larger than the rest */
        struct id_segments_page segments;  /* out of ID_REQUEST_SEGMENTS */
        struct id_buffers *buffers;        /* out of ID_REQUEST_BUFFERS */
        struct id_backup backup;           /* in and out of ID_REQUEST_BACKUP */
        struct {
            struct change_wait wait;   /* of a change of tags, and of ID_REQUEST_EVERYWHERE */
            struct id_missing missing; /* out of the latter */
        } change;
        struct {
            struct change_wait wait; /* of the change that is being read, as far as it is asked */
            struct tag_bulk bulk;    /* borrows the connection's body */
        } reading;
    };
} BY_NAME;

/* A call whose finish is called on the loop's thread unless the connection closes. */
struct call *call_new(enum id_request_kind kind,
                      int (*finish)(struct conn *conn, struct call *call));

/* The same for strict ids, with the memory of one that is over, if the loop has kept any. What it
 * takes to allocate it, and its payload, reply and way to the raft loop, is a third of what an HTTP
 * loop does for a strict id. */
struct call *call_new_strict(struct api_loop *loop,
                             int (*finish)(struct conn *conn, struct call *call));

/* Free what the loop has kept: at its end. */
void call_free_kept(struct api_loop *loop);

/* Give up a call that was never submitted. */
void call_free(struct call *call);

/* Hand it to the backend; the connection waits until finish, as long as the settings say. Returns
 * ANSWERED. */
int call_submit(struct conn *conn, struct call *call);

/* The same, with a time of its own. */
int call_submit_for(struct conn *conn, struct call *call, uint32_t wait_ms);

/* For no connection: the answer is dropped. */
void call_submit_alone(struct api_loop *loop, struct call *call);

#endif
