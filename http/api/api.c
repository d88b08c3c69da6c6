/*
 * api.c - see api.h: which route a request has, whether its client may use it, and the loops that
 * serve it. The table of routes is searched in order, the hot one first: it is short, and a
 * comparison that fails at the first differing byte costs less than any index. The page is empty
 * until its script makes requests, so it shows nothing of this node.
 *
 * Thread: the main thread; admit and handle on a loop's, wake on the raft loop's.
 */
#include "http/api/api.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/api/audited.h"
#include "http/api/request.h"
#include "http/proto/head.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"

/* --- routes --- */

#define BIT(method) (1u << (method))
#define READ (BIT(METHOD_GET) | BIT(METHOD_HEAD))
#define IDS (BIT(METHOD_GET) | BIT(METHOD_POST))

#define ROUTE(methods_, path_, ...)                                                                \
    {                                                                                              \
        .methods = (methods_), .path = (path_), __VA_ARGS__                                        \
    }
#define NAME .takes_name = true
#define VERB(tail_) .takes_name = true, .tail = (tail_)
#define OPTIONS .takes_options = true
#define LONG .is_long = true
#define TAKES .takes = true
#define BODY .takes_body = true
#define BULK_BODY .takes_body = true, .is_bulk = true
#define TAG .takes_name = true, .names_tag = true
#define LEAF .is_leaf = true
#define TINYID .is_leaf = true, .is_tinyid = true, FOR(ROLE_NONE, LISTENER_IDS, TRAFFIC_SEGMENT)
#define AUDITED .audited = true
#define FOR(role_, listeners_, traffic_)                                                           \
    .role = (role_), .listeners = (listeners_), .traffic = (traffic_)
#define FOR_BOTH (LISTENER_IDS | LISTENER_ADMIN)
#define FOR_SEGMENT FOR(ROLE_IDS, LISTENER_IDS, TRAFFIC_SEGMENT)
#define FOR_SNOWFLAKE FOR(ROLE_IDS, LISTENER_IDS, TRAFFIC_SNOWFLAKE)
#define FOR_IDS FOR(ROLE_IDS, LISTENER_IDS, TRAFFIC_DECODE)
#define FOR_READ FOR(ROLE_READ, LISTENER_ADMIN, TRAFFIC_READ)
#define FOR_TAGS FOR(ROLE_TAGS, LISTENER_ADMIN, TRAFFIC_TAGS), AUDITED
#define FOR_WORKERS FOR(ROLE_WORKERS, FOR_BOTH, TRAFFIC_WORKERS)
#define FOR_ADMIN FOR(ROLE_ADMIN, LISTENER_ADMIN, TRAFFIC_ADMIN)
/* For clients, which choose a node by the answer, and for operators. */
#define FOR_NODES FOR(ROLE_IDS, FOR_BOTH, TRAFFIC_DECODE), .also = ROLE_READ | ROLE_ADMIN
#define FOR_ALL FOR(ROLE_NONE, LISTENER_ADMIN, TRAFFIC_OTHER)
#define FOR_METRICS FOR(ROLE_METRICS, FOR_BOTH, TRAFFIC_PROBE)
#define FOR_HEALTH FOR(ROLE_HEALTH, FOR_BOTH, TRAFFIC_PROBE)
#define SERVED_BY(function) .handle = (function)
#define ASKS(what) .asks = (what), SERVED_BY(handle_cluster_ask)

/* In the order of docs/http-api.md. Rows of one path are adjacent. */
static const struct route routes[] = {
    ROUTE(IDS, "/api/segment/get/", TAG, TAKES, OPTIONS, LEAF, FOR_SEGMENT,
          SERVED_BY(handle_segment_get)),
    ROUTE(READ, "/api/segment/decode/", TAG, OPTIONS, FOR_READ, SERVED_BY(handle_segment_decode)),
    ROUTE(IDS, "/api/snowflake/get/", NAME, TAKES, OPTIONS, LEAF, FOR_SNOWFLAKE,
          SERVED_BY(handle_snowflake_get)),
    ROUTE(IDS, "/api/snowflake/decode/", NAME, OPTIONS, FOR_IDS,
          SERVED_BY(handle_snowflake_decode)),
    ROUTE(BIT(METHOD_GET), "/api/snowflake/at", OPTIONS, FOR_IDS, SERVED_BY(handle_snowflake_at)),
    ROUTE(BIT(METHOD_GET), "/decodeSnowflakeId", OPTIONS, LEAF, FOR_IDS,
          SERVED_BY(handle_leaf_decode)),
    ROUTE(BIT(METHOD_POST), "/decodeSnowflakeId", BODY, OPTIONS, LEAF, FOR_IDS,
          SERVED_BY(handle_leaf_decode)),
    ROUTE(BIT(METHOD_GET), "/tinyid/id/", NAME, TAKES, OPTIONS, TINYID, SERVED_BY(handle_tinyid)),
    ROUTE(BIT(METHOD_POST), "/tinyid/id/", NAME, TAKES, BODY, OPTIONS, TINYID,
          SERVED_BY(handle_tinyid)),
    ROUTE(READ, "/api/tags/", TAG, OPTIONS, FOR_READ, SERVED_BY(handle_tag_get)),
    ROUTE(BIT(METHOD_PUT), "/api/tags/", TAG, BODY, OPTIONS, FOR_TAGS, SERVED_BY(handle_tag_put)),
    ROUTE(BIT(METHOD_DELETE), "/api/tags/", TAG, OPTIONS, FOR_TAGS, SERVED_BY(handle_tag_delete)),
    ROUTE(READ, "/api/tags", LONG, OPTIONS, FOR_READ, SERVED_BY(handle_tags_list)),
    ROUTE(BIT(METHOD_POST), "/api/tags", BULK_BODY, OPTIONS, FOR_TAGS, SERVED_BY(handle_tags_put)),
    ROUTE(READ, "/api/workers/pools", FOR_READ, SERVED_BY(handle_pools_get)),
    ROUTE(BIT(METHOD_PUT), "/api/workers/pools", BODY, FOR_ADMIN, AUDITED,
          SERVED_BY(handle_pools_put)),
    ROUTE(BIT(METHOD_PUT), "/api/workers/", NAME, BODY, OPTIONS, FOR_WORKERS,
          SERVED_BY(handle_worker_renew)),
    ROUTE(BIT(METHOD_DELETE), "/api/workers/", NAME, BODY, OPTIONS, FOR_WORKERS, AUDITED,
          SERVED_BY(handle_worker_release)),
    ROUTE(READ, "/api/workers", LONG, OPTIONS, FOR_READ, SERVED_BY(handle_workers_list)),
    ROUTE(BIT(METHOD_POST), "/api/workers", BODY, OPTIONS, FOR_WORKERS, AUDITED,
          SERVED_BY(handle_worker_acquire)),
    ROUTE(READ, "/api/layouts/", NAME, FOR_READ, SERVED_BY(handle_layout_get)),
    ROUTE(BIT(METHOD_PUT), "/api/layouts/", NAME, BODY, OPTIONS, FOR_ADMIN, AUDITED,
          SERVED_BY(handle_layout_put)),
    ROUTE(BIT(METHOD_DELETE), "/api/layouts/", NAME, OPTIONS, FOR_ADMIN, AUDITED,
          SERVED_BY(handle_layout_delete)),
    ROUTE(READ, "/api/layouts", LONG, FOR_READ, SERVED_BY(handle_layouts_list)),
    ROUTE(BIT(METHOD_POST), "/api/nodes/*/drain", VERB("/drain"), OPTIONS, FOR_ADMIN, AUDITED,
          ASKS(ASK_DRAIN)),
    ROUTE(BIT(METHOD_POST), "/api/nodes/*/resume", VERB("/resume"), OPTIONS, FOR_ADMIN, AUDITED,
          ASKS(ASK_RESUME)),
    ROUTE(BIT(METHOD_PUT), "/api/nodes/", NAME, BODY, OPTIONS, FOR_ADMIN, AUDITED,
          ASKS(ASK_WEIGHT)),
    ROUTE(READ, "/api/nodes", FOR_NODES, SERVED_BY(handle_nodes)),
    ROUTE(READ, "/api/clients/cuts", FOR_ADMIN, SERVED_BY(handle_cuts_list)),
    ROUTE(BIT(METHOD_PUT), "/api/clients/cuts/", NAME, BODY, OPTIONS, FOR_ADMIN, AUDITED,
          SERVED_BY(handle_cut_put)),
    ROUTE(BIT(METHOD_DELETE), "/api/clients/cuts/", NAME, OPTIONS, FOR_ADMIN, AUDITED,
          SERVED_BY(handle_cut_end)),
    ROUTE(READ, "/api/cluster", LONG, FOR_READ, SERVED_BY(handle_cluster)),
    ROUTE(READ, "/api/status", LONG, FOR_READ, SERVED_BY(handle_status)),
    ROUTE(READ, "/api/events", LONG, OPTIONS, FOR_READ, SERVED_BY(handle_events)),
    ROUTE(BIT(METHOD_GET), "/api/live", TAKES, FOR_READ, SERVED_BY(handle_live)),
    ROUTE(BIT(METHOD_DELETE), "/api/cluster/members/", NAME, OPTIONS, FOR_ADMIN, AUDITED,
          ASKS(ASK_REMOVE)),
    ROUTE(BIT(METHOD_PUT), "/api/cluster/members/", NAME, BODY, OPTIONS, FOR_ADMIN, AUDITED,
          ASKS(ASK_MOVE)),
    ROUTE(BIT(METHOD_POST), "/api/cluster/members", BODY, OPTIONS, FOR_ADMIN, AUDITED,
          ASKS(ASK_ADD)),
    ROUTE(BIT(METHOD_POST), "/api/cluster/leader", BODY, OPTIONS, FOR_ADMIN, AUDITED,
          ASKS(ASK_LEAD)),
    ROUTE(READ, "/api/cluster/segments", LONG, OPTIONS, FOR_READ,
          SERVED_BY(handle_cluster_segments)),
    ROUTE(READ, "/api/cluster/level", OPTIONS, FOR_READ, ASKS(ASK_LEVEL_SEE)),
    ROUTE(BIT(METHOD_POST), "/api/cluster/level", BODY, OPTIONS, FOR_ADMIN, AUDITED,
          ASKS(ASK_LEVEL)),
    ROUTE(BIT(METHOD_GET), "/api/backup", TAKES, OPTIONS, FOR_ADMIN, AUDITED,
          SERVED_BY(handle_backup)),
    ROUTE(READ, "/api/audit", LONG, OPTIONS, FOR_ADMIN, SERVED_BY(handle_audit)),
    ROUTE(READ, "/api/node/segments", LONG, OPTIONS, FOR_READ, SERVED_BY(handle_node_segments)),
    ROUTE(READ, "/", LONG, FOR_ALL, SERVED_BY(handle_page)),
    ROUTE(READ, "/cache", LONG, FOR_ALL, SERVED_BY(handle_page)),
    ROUTE(READ, "/db", LONG, FOR_ALL, SERVED_BY(handle_page)),
    ROUTE(READ, "/livez", FOR_HEALTH, SERVED_BY(handle_livez)),
    ROUTE(READ, "/readyz", OPTIONS, FOR_HEALTH, SERVED_BY(handle_readyz)),
    ROUTE(READ, "/metrics", LONG, FOR_METRICS, SERVED_BY(handle_metrics)),
    ROUTE(READ, "/version", FOR_HEALTH, SERVED_BY(handle_version)),
    ROUTE(READ, "/openapi.json", LONG, FOR_HEALTH, SERVED_BY(handle_openapi)),
};

/* Is the path this route's? The name after it goes into ret_name. In a path of Leaf's several
 * slashes count as one, and those at its end as none, if `more` says so. */
HOT static enum router_result route_match(const struct route *route, const char *path,
                                          size_t path_len, bool more, const char **ret_name,
                                          size_t *ret_name_len)
{
    size_t tail_len = route->tail != NULL ? strlen(route->tail) : 0;
    size_t len = strlen(route->path) - (tail_len > 0 ? tail_len + 1 : 0);
    bool is_whole; /* nothing was left out of the beginning */
    size_t at = len;

    if (!more || !route->is_leaf) {
        if (path_len < len || memcmp(path, route->path, len) != 0) {
            return ROUTER_NO_ROUTE;
        }
    } else {
        while (path_len > 1 && path[path_len - 1] == '/') {
            path_len--;
        }
        at = 0;
        for (size_t i = 0; i < len; i++, at++) {
            if (at == path_len || path[at] != route->path[i]) {
                return ROUTER_NO_ROUTE;
            }
            while (path[at] == '/' && at + 1 < path_len && path[at + 1] == '/') {
                at++;
            }
        }
    }
    is_whole = at == len;
    *ret_name = path + at;
    *ret_name_len = path_len - at;
    if (!route->takes_name) {
        return *ret_name_len == 0 ? ROUTER_FOUND : ROUTER_NO_ROUTE;
    }
    if (tail_len > 0) {
        if (*ret_name_len <= tail_len ||
            memcmp(path + path_len - tail_len, route->tail, tail_len) != 0) {
            return ROUTER_NO_ROUTE;
        }
        *ret_name_len -= tail_len;
    }
    if (*ret_name_len == 0 || (*ret_name)[0] == '/') {
        return ROUTER_NO_ROUTE;
    }
    return memchr(*ret_name, '/', *ret_name_len) == NULL ? ROUTER_FOUND
           : is_whole                                    ? ROUTER_SLASH
                                                         : ROUTER_NO_ROUTE;
}

HOT static enum router_result router_search(enum method method, const char *path, size_t path_len,
                                            bool more, const struct route **ret_route,
                                            const char **ret_name, size_t *ret_name_len)
{
    enum router_result found = ROUTER_NO_ROUTE;

    *ret_route = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0] && found != ROUTER_SLASH; i++) {
        const struct route *route = &routes[i];
        enum router_result result =
            route_match(route, path, path_len, more, ret_name, ret_name_len);

        ASSERT(route->handle != NULL);
        if (found == ROUTER_NO_METHOD && strcmp(route->path, (*ret_route)->path) != 0) {
            continue; /* an earlier row's whole path is no name of this one's */
        }
        if (result == ROUTER_FOUND) {
            *ret_route = route;
            if ((route->methods & BIT(method)) != 0) {
                return ROUTER_FOUND;
            }
            found = ROUTER_NO_METHOD;
        } else if (result == ROUTER_SLASH && found != ROUTER_NO_METHOD) {
            found = result;
        }
    }
    return found;
}

HOT enum router_result router_find(enum method method, const char *path, size_t path_len,
                                   const struct route **ret_route, const char **ret_name,
                                   size_t *ret_name_len)
{
    enum router_result found =
        router_search(method, path, path_len, false, ret_route, ret_name, ret_name_len);

    return found == ROUTER_FOUND || found == ROUTER_NO_METHOD
               ? found
               : router_search(method, path, path_len, true, ret_route, ret_name, ret_name_len);
}

const struct route *router_route(size_t at)
{
    return at < sizeof routes / sizeof routes[0] ? &routes[at] : NULL;
}

/* The methods of all routes of this one's path, or (NULL) of any route, as in the Allow header;
 * OPTIONS is one of them. */
static void router_allow(const struct route *route, char out[ROUTER_ALLOW_BYTES])
{
    unsigned methods = BIT(METHOD_OPTIONS);
    size_t at = 0;

    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (route == NULL || strcmp(routes[i].path, route->path) == 0) {
            methods |= routes[i].methods;
        }
    }
    for (enum method i = METHOD_GET; i < METHOD_OTHER; i++) {
        if ((methods & BIT(i)) != 0) {
            at += (size_t)snprintf(out + at, ROUTER_ALLOW_BYTES - at, "%s%s", at > 0 ? ", " : "",
                                   method_name(i));
        }
    }
    ASSERT(at > 0 && at < ROUTER_ALLOW_BYTES);
}

/* --- the same for all clients: the page, and openapi.json --- */

/* A file's bytes, from part_NAME to part_NAME_end. */
#define PART(name, file)                                                                           \
    __asm__(".pushsection .rodata\n"                                                               \
            "part_" #name ":\n"                                                                    \
            ".incbin \"" file "\"\n"                                                               \
            "part_" #name "_end:\n"                                                                \
            ".popsection\n");                                                                      \
    extern const char part_##name[] __attribute__((visibility("hidden")));                         \
    extern const char part_##name##_end[] __attribute__((visibility("hidden")))

PART(openapi, "http/api/openapi.json");
PART(html, "http/page/page.html"); /* the template; has @STYLE@ and @SCRIPT@ */
PART(look_css, "http/page/look.css");
PART(page_css, "http/page/page.css");
PART(look_js, "http/page/look.js");
PART(page_js, "http/page/page.js");
PART(views_js, "http/page/views.js");

#define PUT_PART(buf, name) buf_put((buf), part_##name, (size_t)(part_##name##_end - part_##name))

/* Put the template up to a mark, and the text in place of that, with its hash into the headers.
 * Returns the template's rest. */
static const char *put_page_part(struct api *api, const char *from, const char *mark,
                                 const struct buf *text)
{
    const char *at = memmem(from, (size_t)(part_html_end - from), mark, strlen(mark));
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned char encoded[2 * EVP_MAX_MD_SIZE];
    unsigned len = 0;

    ASSERT(at != NULL);
    buf_put(&api->page_html, from, (size_t)(at - from));
    buf_put(&api->page_html, text->data, text->len);
    ASSERT(EVP_Digest(text->data, text->len, digest, &len, EVP_sha256(), NULL) == 1 && len == 32);
    ASSERT(EVP_EncodeBlock(encoded, digest, (int)len) > 0);
    buf_printf(&api->page_headers, "'sha256-%s'", (char *)encoded);
    return at + strlen(mark);
}

/* The page is one file: no other style or script may run or be shown, and no site may put it into a
 * frame. */
static void page_make(struct api *api)
{
    BUF_LOCAL(style);
    BUF_LOCAL(script);
    const char *at;

    PUT_PART(&style, look_css);
    PUT_PART(&style, page_css);
    PUT_PART(&script, look_js);
    PUT_PART(&script, page_js);
    PUT_PART(&script, views_js);
    buf_printf(&api->page_headers, "Content-Security-Policy: default-src 'none'; style-src ");
    at = put_page_part(api, part_html, "@STYLE@", &style);
    buf_printf(&api->page_headers, "; script-src ");
    at = put_page_part(api, at, "@SCRIPT@", &script);
    buf_put(&api->page_html, at, (size_t)(part_html_end - at));
    buf_printf(&api->page_headers,
               "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
               "frame-ancestors 'none'; require-trusted-types-for 'script'\r\n"
               "X-Frame-Options: DENY\r\n"
               "X-Content-Type-Options: nosniff\r\n"
               "Referrer-Policy: no-referrer\r\n"
               "Cross-Origin-Opener-Policy: same-origin\r\n"
               "Cross-Origin-Resource-Policy: same-origin\r\n"
               "Permissions-Policy: camera=(), geolocation=(), microphone=()\r\n");
    buf_put_u8(&api->page_headers, '\0');
}

int handle_page(struct conn *conn)
{
    const struct api *api = api_loop(conn)->api;

    conn_answer(conn, 200, "text/html;charset=UTF-8", (const char *)api->page_headers.data,
                api->page_html.data, api->page_html.len);
    return ANSWERED;
}

const char *openapi_text(size_t *ret_len)
{
    *ret_len = (size_t)(part_openapi_end - part_openapi);
    return part_openapi;
}

int handle_openapi(struct conn *conn)
{
    size_t len;
    const char *text = openapi_text(&len);

    conn_answer(conn, 200, ANSWER_JSON, NULL, text, len);
    return ANSWERED;
}

/* --- requests --- */

HOT static enum http_admission api_admit(struct conn *conn)
{
    struct request *request = &conn->request;
    const char *path = conn_at(conn, request->path_at);
    const struct route *route;
    const char *name;
    size_t name_len;

    request->body_max = LIMIT_HTTP_SMALL_BODY_BYTES;
    if (router_find(conn->parser.head.method, path, request->path_len, &route, &name, &name_len) !=
        ROUTER_FOUND) {
        return HTTP_REFUSE;
    }
    if (route->is_bulk) {
        request->body_max = LIMIT_HTTP_BODY_BYTES;
    }
    request->route = route;
    request->name_at = request->path_at + (uint32_t)(name - path);
    request->name_len = (uint32_t)name_len;
    request->traffic = route->traffic;
    request->wants_json =
        route->is_leaf && conn->parser.head.accept.count > 0 &&
        header_wants_json(conn_at(conn, conn->parser.head.accept.at), conn->parser.head.accept.len);
    gate_admit(conn, route);
    if (request->gate != GATE_OPEN) {
        return HTTP_REFUSE;
    }
    return route->takes_body ? HTTP_KEEP_BODY : HTTP_DROP_BODY;
}

/* Nothing is served there except OPTIONS, which answers the methods of the path, or of any. No more
 * than that: the headers that permit a page of another origin (CORS) are never sent. The router
 * says why. */
COLD __attribute__((noinline)) static void refuse_route(struct conn *conn)
{
    const struct request *request = &conn->request;
    const char *path = conn_at(conn, request->path_at);
    const enum method method = conn->parser.head.method;
    const char *shown = TEXT_SHOWN(path, request->path_len, SHOWN_BYTES);
    const struct route *route;
    const char *name;
    size_t name_len;
    char allow[ROUTER_ALLOW_BYTES];
    char message[96];
    char extra[96];
    enum router_result result =
        router_find(method, path, request->path_len, &route, &name, &name_len);

    ASSERT(result != ROUTER_FOUND);
    if (result == ROUTER_SLASH) {
        reply_error(conn, 404, "no_route",
                    "nothing is served at %s; a slash in a name is written %%2F", shown);
        return;
    }
    if (result == ROUTER_NO_ROUTE && (method != METHOD_OPTIONS || path[0] != '*')) {
        reply_error(conn, 404, "no_route", "nothing is served at %s", shown);
        return;
    }
    router_allow(result == ROUTER_NO_METHOD ? route : NULL, allow);
    (void)snprintf(extra, sizeof extra, "Allow: %s\r\n", allow);
    if (method == METHOD_OPTIONS) {
        conn_answer(conn, 204, NULL, extra, NULL, 0);
        return;
    }
    (void)snprintf(message, sizeof message, "this route is for %s", allow);
    conn_fail(conn, 405, "method_not_allowed", extra, "", message);
}

static void turn_came(struct http_wait *wait)
{
    struct conn *conn = conn_resume(wait);
    const struct route *route = conn->request.route;

    free(wait);
    if (route->takes_options || request_options(conn, NULL, 0)) {
        reply_finish(conn, route->handle(conn));
    }
}

HOT static void api_handle(struct conn *conn)
{
    const struct route *route = conn->request.route;

    if (!conn_charge(conn, &conn->client->requests, 1)) {
        return;
    }
    gate_look(conn);
    conn->request.is_current = false;
    if (route != NULL && route->audited && conn->request.gate == GATE_OPEN) {
        audited_begin(conn);
    }
    if (route == NULL) {
        refuse_route(conn);
    } else if (conn->request.gate != GATE_OPEN) {
        deny(conn);
    } else if (route->is_long) {
        struct http_wait *wait = MUST_HAVE(malloc(sizeof *wait));

        *wait = (struct http_wait){.cancel = conn_wait_free, .sent = turn_came};
        conn_wait_turn(conn, wait);
    } else if (route->takes_options || request_options(conn, NULL, 0)) {
        int result = route->handle(conn);

        if (result != ANSWERED) {
            reply_finish(conn, result);
        }
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
    conns->lets_go = &api->backend->health->drained;
    loop->port = port;
    loop->index = index;
    loop->tokens = auth_take(api->auth, &loop->tokens_generation);
    if (api->backend->figures != NULL) {
        id_cuts_copy(api->backend->figures, &loop->cuts);
    }
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
    struct call *call;

    ASSERT(loop->waiters.count == 0 && loop->live.count == 0);
    watch_loop_ends(loop);
    loop->api->loops[loop->index] = NULL;
    loop->api->loop_count--;
    while ((call = SLIST_FIRST(&loop->kept)) != NULL) {
        SLIST_REMOVE_HEAD(&loop->kept, kept);
        call_free(call);
    }
    json_decref(loop->fields);
    tokens_unref(loop->tokens);
    ff1_free(loop->ff1);
    zones_free(loop->zones);
    free(loop);
}

/* The cuts have changed: a request that is being served for a client that is cut now ends without
 * its answer. */
static void take_cuts(struct api_loop *loop)
{
    struct conn *next;

    id_cuts_copy(loop->backend->figures, &loop->cuts);
    gate_forget(loop);
    for (struct conn *conn = TAILQ_FIRST(&loop->conns->all); conn != NULL; conn = next) {
        struct http_wait *wait = conn->wait;

        next = TAILQ_NEXT(conn, all_link);
        if ((conn->state != CONN_SERVING && conn->state != CONN_BODY) ||
            conn->request.route == NULL || conn->request.gate != GATE_OPEN || !gate_cuts(conn)) {
            continue;
        }
        if (conn->state != CONN_SERVING || wait == NULL) {
            continue; /* its body is incomplete; the gate is closed then */
        }
        if (wait->sent != NULL || conn->note != NULL) { /* a reply, or a change, has begun */
            conn_abort(conn, "its client is cut");
            continue;
        }
        (void)conn_resume(wait);
        wait->cancel(wait);
        deny(conn);
    }
}

/* A message to a loop: a tag's parked requests must try again; NULL: the cuts have changed. */
struct wake {
    struct mailbox_item item;
    struct api_loop *loop;
    struct id_tag *tag;
};

static void wake_tag_cb(struct mailbox_item *item)
{
    struct wake *wake = CONTAINER(item, struct wake, item);

    if (wake->tag != NULL) {
        segment_wake(wake->loop, wake->tag);
    } else {
        take_cuts(wake->loop);
    }
    free(wake);
}

static void waker_wake(struct id_waker *waker, struct id_tag *tag, uint64_t loops)
{
    struct api *api = CONTAINER(waker, struct api, waker);

    for (unsigned i = 0; i < api->loop_count; i++) {
        struct wake *wake;

        /* Only the first listener serves ids. */
        if (tag != NULL && (i >= LIMIT_HTTP_LOOPS || (loops >> i & 1) == 0)) {
            continue;
        }
        wake = MUST_HAVE(malloc(sizeof *wake));
        *wake = (struct wake){.item.run = wake_tag_cb, .loop = api->loops[i], .tag = tag};
        if (mailbox_post(&wake->loop->port->mailbox, &wake->item, SIZE_MAX) != 0) {
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
                    struct id_backend *backend, struct auth *auth, const struct talker *resp,
                    const char *admin_address)
{
    struct api *api = MUST_HAVE(calloc(1, sizeof *api));

    api->settings = settings;
    api->build = build;
    api->backend = backend;
    api->watch = watch_new(backend);
    page_make(api);
    api->waker.wake = waker_wake;
    api->auth = auth;
    api->admin_address = admin_address;
    api_server_init(api, &api->ids,
                    admin_address == NULL ? LISTENER_IDS | LISTENER_ADMIN : LISTENER_IDS, 0);
    api->ids.service.resp = resp;
    api_server_init(api, &api->admin, LISTENER_ADMIN, settings->loops);
    return api;
}

void api_free(struct api *api)
{
    ASSERT(api->loop_count == 0);
    watch_free(api->watch);
    buf_free(&api->page_html);
    buf_free(&api->page_headers);
    free(api);
}
