/*
 * live.c - see live.h. Threads: as said there.
 */
#include "http/api/live.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "http/api/context.h"
#include "http/api/gate.h"
#include "http/api/handlers.h"
#include "http/api/request.h"
#include "src/base/assert.h"
#include "src/base/container.h"

#define LIVE_TYPE "text/event-stream"

struct live_viewer {
    struct http_wait wait;
    struct api_loop *loop;
    struct http_client *client; /* whose it was when it began; holds a reference */
    bool behind;                /* it has not taken all that it was sent */
    LIST_ENTRY(live_viewer) link;
};

/* What is shown, shared by the loops on their way to it. */
struct picture {
    _Atomic unsigned refs;
    struct buf bytes;
};

struct showing {
    struct mailbox_item item;
    struct api_loop *loop;
    struct picture *picture;
};

/* --- viewers --- */

static unsigned viewers_of(const struct api *api)
{
    unsigned count = 0;

    for (unsigned i = 0; i < api->loop_count; i++) {
        count += atomic_load_explicit(&api->loops[i]->live.count, memory_order_relaxed);
    }
    return count;
}

bool live_is_watched(const struct api *api)
{
    return viewers_of(api) > 0;
}

static void viewer_free(struct live_viewer *viewer)
{
    atomic_fetch_sub_explicit(&viewer->loop->live.count, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&viewer->client->streams, 1, memory_order_relaxed);
    clients_release(viewer->loop->conns->clients, viewer->client);
    LIST_REMOVE(viewer, link);
    free(viewer);
}

/* It has closed its connection. */
static void viewer_cancel(struct http_wait *wait)
{
    viewer_free(CONTAINER(wait, struct live_viewer, wait));
}

/* It may watch no longer: the node drains, or the tokens changed. */
static void viewer_end(struct http_wait *wait)
{
    struct live_viewer *viewer = CONTAINER(wait, struct live_viewer, wait);

    conn_stream_end(conn_resume(wait), NULL);
    viewer_free(viewer);
}

static void viewer_sent(struct http_wait *wait)
{
    CONTAINER(wait, struct live_viewer, wait)->behind = false;
}

static void viewer_give(struct live_viewer *viewer, const struct buf *bytes)
{
    if (!viewer->behind) {
        viewer->behind = true;
        conn_stream_put(viewer->wait.conn, bytes->data, bytes->len);
    }
}

/* --- what is shown --- */

static void picture_unref(struct picture *picture)
{
    if (atomic_fetch_sub(&picture->refs, 1) == 1) {
        buf_free(&picture->bytes);
        free(picture);
    }
}

/* On the loop's thread. */
static void viewers_show_cb(struct mailbox_item *item)
{
    struct showing *showing = CONTAINER(item, struct showing, item);
    struct live_viewer *viewer = LIST_FIRST(&showing->loop->live.viewers);

    while (viewer != NULL) {
        struct live_viewer *next = LIST_NEXT(viewer, link);

        if (gate_stays_open(viewer->wait.conn)) {
            viewer_give(viewer, &showing->picture->bytes);
        } else {
            viewer_end(&viewer->wait);
        }
        viewer = next;
    }
    picture_unref(showing->picture);
    free(showing);
}

void live_show(struct api *api, struct buf *bytes)
{
    struct picture *picture = MUST_HAVE(calloc(1, sizeof *picture));

    atomic_init(&picture->refs, 1);
    buf_move(&picture->bytes, bytes);
    for (unsigned i = 0; i < api->loop_count; i++) {
        struct api_loop *loop = api->loops[i];
        struct showing *showing;

        if (atomic_load_explicit(&loop->live.count, memory_order_relaxed) == 0) {
            continue;
        }
        showing = MUST_HAVE(malloc(sizeof *showing));
        *showing = (struct showing){.item.run = viewers_show_cb, .loop = loop, .picture = picture};
        atomic_fetch_add(&picture->refs, 1);
        if (mailbox_post_always(&loop->port->mailbox, &showing->item) != 0) {
            picture_unref(picture);
            free(showing);
        }
    }
    picture_unref(picture);
}

/* --- the route --- */

/* What the kernel keeps for a viewer that takes nothing; one that reads has it empty all the time.
 * Without this it would take pictures for hours, and nobody would see that they are not read. */
static void bound_socket(const struct conn *conn)
{
    int bytes = LIMIT_LIVE_SOCKET_BYTES;

    (void)setsockopt(conn->wire.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/* While few places are left no client takes more than its share. This machine's own address does,
 * since there may be many behind it. */
static bool is_over_share(const struct http_client *client, unsigned viewers)
{
    return !client->is_local && viewers >= LIMIT_LIVE_VIEWERS - LIMIT_LIVE_SHARE &&
           atomic_load_explicit(&client->streams, memory_order_relaxed) >= LIMIT_LIVE_SHARE;
}

int handle_live(struct conn *conn)
{
    static const char hello[] = "retry: 2000\n\n";
    struct api_loop *loop = api_loop(conn);
    unsigned viewers = viewers_of(loop->api);
    struct live_viewer *viewer;

    if (viewers >= LIMIT_LIVE_VIEWERS) {
        return reply_error(conn, 503, "overloaded", "%u viewers watch this node already",
                           LIMIT_LIVE_VIEWERS);
    }
    if (is_over_share(conn->client, viewers)) {
        return reply_error(conn, 503, "overloaded",
                           "%u viewers watch this node, and this client has more than its share "
                           "of them",
                           viewers);
    }
    viewer = MUST_HAVE(calloc(1, sizeof *viewer));
    viewer->loop = loop;
    viewer->client = conn->client; /* the connection's may be another, once tokens are reloaded */
    clients_hold(conn->conns->clients, viewer->client);
    atomic_fetch_add_explicit(&viewer->client->streams, 1, memory_order_relaxed);
    viewer->wait = (struct http_wait){.cancel = viewer_cancel,
                                      .expire = viewer_end,
                                      .sent = viewer_sent,
                                      .needs_client = true,
                                      .expires_on_drain = true};
    LIST_INSERT_HEAD(&loop->live.viewers, viewer, link);
    atomic_fetch_add_explicit(&loop->live.count, 1, memory_order_relaxed);
    bound_socket(conn);
    conn_stream(conn, LIVE_TYPE);
    conn_stream_put(conn, hello, sizeof hello - 1);
    viewer->behind = true;
    conn_wait(conn, &viewer->wait, TIMER_NEVER);
    return ANSWERED;
}
