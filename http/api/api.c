/*
 * api.c - see api.h. Thread: the main thread; admit and handle on a loop's, wake on the raft
 * loop's.
 */
#include "http/api/api.h"

#include <stdio.h>
#include <stdlib.h>

#include "http/api/audited.h"
#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/denial.h"
#include "http/api/gate.h"
#include "http/api/handlers.h"
#include "http/api/request.h"
#include "http/api/router.h"
#include "http/api/watch.h"
#include "http/page/page.h"
#include "http/proto/head.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"

/* --- requests --- */

HOT static enum traffic traffic_of(const struct route *route)
{
    switch (route->role) {
    case ROLE_NONE:
        return TRAFFIC_OTHER;
    case ROLE_IDS:
        if (route->handle == handle_segment_get) {
            return TRAFFIC_SEGMENT;
        }
        return route->handle == handle_snowflake_get ? TRAFFIC_SNOWFLAKE : TRAFFIC_DECODE;
    case ROLE_READ:
        return TRAFFIC_READ;
    case ROLE_TAGS:
        return TRAFFIC_TAGS;
    case ROLE_WORKERS:
        return TRAFFIC_WORKERS;
    case ROLE_ADMIN:
        return TRAFFIC_ADMIN;
    case ROLE_METRICS:
    case ROLE_HEALTH:
        return TRAFFIC_PROBE;
    }
    return TRAFFIC_OTHER;
}

HOT static enum http_admission api_admit(struct conn *conn)
{
    struct request *request = &conn->request;
    const char *path = conn_at(conn, request->path_at);
    const struct route *route;
    const char *name;
    size_t name_len;

    if (router_find(conn_head(conn)->method, path, request->path_len, &route, &name, &name_len) !=
        ROUTER_FOUND) {
        request->body_max = route_body_max(NULL);
        return HTTP_REFUSE;
    }
    request->body_max = route_body_max(route);
    request->route = route;
    request->name_at = request->path_at + (uint32_t)(name - path);
    request->name_len = (uint32_t)name_len;
    request->traffic = (uint8_t)traffic_of(route);
    request->wants_json =
        route->is_leaf && conn_head(conn)->accept.count > 0 &&
        header_wants_json(conn_at(conn, conn_head(conn)->accept.at), conn_head(conn)->accept.len);
    gate_admit(conn, route);
    if (request->gate != GATE_OPEN) {
        return HTTP_REFUSE;
    }
    return route->takes_body ? HTTP_KEEP_BODY : HTTP_DROP_BODY;
}

/* What may be asked of a path, or of any (NULL). No more than that: what a browser hears before it
 * asks for a page of another origin would be in headers that are never sent. */
static int answer_options(struct conn *conn, const char *allow)
{
    char extra[96];

    (void)snprintf(extra, sizeof extra, "Allow: %s\r\n", allow);
    conn_answer(conn, 204, NULL, extra, NULL, 0);
    return ANSWERED;
}

/* Nothing is served there, but for OPTIONS; the router says why. */
COLD __attribute__((noinline)) static int refuse_route(struct conn *conn)
{
    const struct request *request = &conn->request;
    const char *path = conn_at(conn, request->path_at);
    const bool asks_options = conn_head(conn)->method == METHOD_OPTIONS;
    const struct route *route;
    const char *name;
    size_t name_len;
    char allow[ROUTER_ALLOW_BYTES];
    char message[96];
    char extra[96];
    char shown[SHOWN_BYTES];

    text_show(path, request->path_len, shown, sizeof shown);
    switch (
        router_find(conn_head(conn)->method, path, request->path_len, &route, &name, &name_len)) {
    case ROUTER_NO_ROUTE:
        if (asks_options && path[0] == '*') {
            router_allow(NULL, allow);
            return answer_options(conn, allow);
        }
        return reply_error(conn, 404, "no_route", "nothing is served at %s", shown);
    case ROUTER_SLASH:
        return reply_error(conn, 404, "no_route",
                           "nothing is served at %s; a slash in a name is written %%2F", shown);
    case ROUTER_NO_METHOD:
        router_allow(route, allow);
        if (asks_options) {
            return answer_options(conn, allow);
        }
        (void)snprintf(message, sizeof message, "this route is for %s", allow);
        (void)snprintf(extra, sizeof extra, "Allow: %s\r\n", allow);
        conn_fail(conn, 405, "method_not_allowed", extra, "", message);
        return ANSWERED;
    case ROUTER_FOUND:
        break;
    }
    UNREACHABLE("a result of the router");
}

static void turn_cancel(struct http_wait *wait)
{
    free(wait);
}

static void turn_came(struct http_wait *wait)
{
    struct conn *conn = conn_resume(wait);
    const struct route *route = conn->request.route;
    int result = ANSWERED;

    free(wait);
    if (route->takes_options || request_options(conn, NULL, 0)) {
        result = route->handle(conn);
    }
    if (result != ANSWERED) {
        reply_finish(conn, result);
    }
}

COLD static void wait_turn(struct conn *conn)
{
    struct http_wait *wait = MUST_HAVE(malloc(sizeof *wait));

    *wait = (struct http_wait){.cancel = turn_cancel, .sent = turn_came};
    conn_wait_turn(conn, wait);
}

HOT static void api_handle(struct conn *conn)
{
    const struct route *route = conn->request.route;
    int result = ANSWERED;

    if (!conn_charge(conn, &conn->client->requests, 1)) {
        return;
    }
    if (route == NULL) {
        result = refuse_route(conn);
    } else if (!gate_is_open(conn)) {
        result = deny(conn);
    } else if (route->audited && api_loop(conn)->api->auth != NULL) {
        result = audited_serve(conn);
    } else if (route->is_long) {
        wait_turn(conn);
    } else if (route->takes_options || request_options(conn, NULL, 0)) {
        result = route->handle(conn);
    }
    if (result != ANSWERED) {
        reply_finish(conn, result);
    }
}

/* --- loops --- */

static void *api_loop_begin(void *data, unsigned index, struct conns *conns, struct http_port *port)
{
    struct api_server *server = data;
    struct api *api = server->api;
    struct api_loop *loop = MUST_HAVE(calloc(1, sizeof *loop));

    index += server->first_index;
    ASSERT(index == api->loop_count && api->loops[index] == NULL);
    loop->api = api;
    loop->listeners = server->listeners;
    loop->backend = api->backend;
    loop->conns = conns;
    loop->port = port;
    loop->index = index;
    gate_begin(loop);
    waiters_init(&loop->waiters);
    LIST_INIT(&loop->live.viewers);
    SLIST_INIT(&loop->kept);
    timer_init(&loop->snowflake_retry, snowflake_retry_fire);
    prng_seed(&loop->prng, prng_entropy());
    loop->ff1 = ff1_new();
    loop->zones = zones_new();
    api->loops[index] = loop;
    api->loop_count++;
    return loop;
}

static void api_loop_end(void *loop_data)
{
    struct api_loop *loop = loop_data;

    ASSERT(loop->waiters.count == 0 && loop->live.count == 0);
    watch_loop_ends(loop);
    loop->api->loops[loop->index] = NULL;
    loop->api->loop_count--;
    call_free_kept(loop);
    gate_end(loop);
    ff1_free(loop->ff1);
    zones_free(loop->zones);
    free(loop);
}

/* A tag's parked requests are to try again; on its way to their loop. */
struct wake {
    struct mailbox_item item;
    struct api_loop *loop;
    struct id_tag *tag;
};

static void wake_tag_cb(struct mailbox_item *item)
{
    struct wake *wake = CONTAINER(item, struct wake, item);

    segment_wake(wake->loop, wake->tag);
    free(wake);
}

static void waker_wake(struct id_waker *waker, struct id_tag *tag, uint64_t loops)
{
    struct api *api = CONTAINER(waker, struct api, waker);

    /* Ids are served by the first listener alone. */
    for (unsigned i = 0; i < LIMIT_HTTP_LOOPS && i < api->loop_count; i++) {
        struct wake *wake;

        if ((loops >> i & 1) == 0) {
            continue;
        }
        wake = MUST_HAVE(malloc(sizeof *wake));
        *wake = (struct wake){.item.run = wake_tag_cb, .loop = api->loops[i], .tag = tag};
        if (mailbox_post_always(&wake->loop->port->mailbox, &wake->item) != 0) {
            free(wake);
        }
    }
}

/* --- start and end --- */

static void api_server_init(struct api *api, struct api_server *server, unsigned listeners,
                            unsigned first_index)
{
    *server = (struct api_server){
        .api = api,
        .listeners = listeners,
        .first_index = first_index,
        .service =
            {
                .data = server,
                .clock = api->backend->clock,
                .loop_begin = api_loop_begin,
                .loop_end = api_loop_end,
                .admit = api_admit,
                .handle = api_handle,
                .answered = audited_answered,
            },
    };
}

struct api *api_new(const struct http_settings *settings, const struct http_build *build,
                    struct id_backend *backend)
{
    struct api *api = MUST_HAVE(calloc(1, sizeof *api));

    api->settings = settings;
    api->build = build;
    api->backend = backend;
    api->watch = watch_new(backend);
    api->page = page_new();
    api->waker.wake = waker_wake;
    api_server_init(api, &api->ids, LISTENER_IDS | LISTENER_ADMIN, 0);
    return api;
}

void api_set_auth(struct api *api, struct auth *auth)
{
    ASSERT(api->loop_count == 0);
    api->auth = auth;
}

void api_set_resp(struct api *api, const struct talker *talker)
{
    ASSERT(api->loop_count == 0);
    api->ids.service.resp = talker;
}

const struct http_service *api_service(const struct api *api)
{
    return &api->ids.service;
}

const struct http_service *api_admin_service(struct api *api, const char *http_address,
                                             const char *admin_address)
{
    ASSERT(api->loop_count == 0);
    api->ids.listeners = LISTENER_IDS;
    api->http_address = http_address;
    api->admin_address = admin_address;
    api_server_init(api, &api->admin, LISTENER_ADMIN, api->settings->loops);
    return &api->admin.service;
}

void api_watch(struct api *api)
{
    watch_begin(api);
}

struct id_waker *api_waker(struct api *api)
{
    return &api->waker;
}

void api_free(struct api *api)
{
    ASSERT(api->loop_count == 0);
    watch_free(api->watch);
    page_free(api->page);
    free(api);
}
