/*
 * router.c - see router.h. The table of routes is searched in order, the hot one first: it is
 * short, and a comparison that fails at the first differing byte costs less than any cleverness.
 *
 * Thread: pure functions over constant tables, any.
 */
#include "http/api/router.h"

#include <stdio.h>
#include <string.h>

#include "http/api/context.h"
#include "http/api/handlers.h"
#include "src/base/assert.h"
#include "src/base/hot.h"

#define BIT(method) (1u << (method))
#define READ (BIT(METHOD_GET) | BIT(METHOD_HEAD))
#define IDS (BIT(METHOD_GET) | BIT(METHOD_POST))

#define ROUTE(methods_, path_, ...)                                                                \
    {                                                                                              \
        .methods = (methods_), .path = (path_), __VA_ARGS__                                        \
    }
#define NAME .takes_name = true
#define OPTIONS .takes_options = true
#define LONG .is_long = true
#define TAKES .takes = true
#define BODY .takes_body = true
#define BULK_BODY .takes_body = true, .is_bulk = true
#define TAG .takes_name = true, .names_tag = true
#define LEAF .is_leaf = true
#define AUDITED .audited = true
#define AUDITED_AS(what) .audited = true, .changes = (what)
#define FOR(role_, listeners_) .role = (role_), .listeners = (listeners_)
#define FOR_IDS FOR(ROLE_IDS, LISTENER_IDS)
#define FOR_READ FOR(ROLE_READ, LISTENER_ADMIN)
#define FOR_TAGS FOR(ROLE_TAGS, LISTENER_ADMIN), AUDITED
#define FOR_WORKERS FOR(ROLE_WORKERS, LISTENER_ADMIN)
#define FOR_ADMIN FOR(ROLE_ADMIN, LISTENER_ADMIN)
#define FOR_ALL FOR(ROLE_NONE, LISTENER_ADMIN)
#define FOR_METRICS FOR(ROLE_METRICS, LISTENER_IDS | LISTENER_ADMIN)
#define FOR_HEALTH FOR(ROLE_HEALTH, LISTENER_IDS | LISTENER_ADMIN)
#define SERVED_BY(function) .handle = (function)

/* In the order of docs/http-api.md. Rows of one path stand together. */
static const struct route routes[] = {
    ROUTE(IDS, "/api/segment/get/", TAG, TAKES, OPTIONS, LEAF, FOR_IDS,
          SERVED_BY(handle_segment_get)),
    ROUTE(READ, "/api/segment/decode/", TAG, OPTIONS, FOR_READ, SERVED_BY(handle_segment_decode)),
    ROUTE(IDS, "/api/snowflake/get/", NAME, TAKES, OPTIONS, LEAF, FOR_IDS,
          SERVED_BY(handle_snowflake_get)),
    ROUTE(IDS, "/api/snowflake/decode/", NAME, OPTIONS, FOR_IDS,
          SERVED_BY(handle_snowflake_decode)),
    ROUTE(BIT(METHOD_GET), "/decodeSnowflakeId", OPTIONS, LEAF, FOR_IDS,
          SERVED_BY(handle_leaf_decode)),
    ROUTE(BIT(METHOD_POST), "/decodeSnowflakeId", BODY, OPTIONS, LEAF, FOR_IDS,
          SERVED_BY(handle_leaf_decode)),
    ROUTE(READ, "/api/tags/", TAG, OPTIONS, FOR_READ, SERVED_BY(handle_tag_get)),
    ROUTE(BIT(METHOD_PUT), "/api/tags/", TAG, BODY, OPTIONS, FOR_TAGS, SERVED_BY(handle_tag_put)),
    ROUTE(BIT(METHOD_DELETE), "/api/tags/", TAG, OPTIONS, FOR_TAGS, SERVED_BY(handle_tag_delete)),
    ROUTE(READ, "/api/tags", LONG, OPTIONS, FOR_READ, SERVED_BY(handle_tags_list)),
    ROUTE(BIT(METHOD_POST), "/api/tags", BULK_BODY, OPTIONS, FOR_TAGS, SERVED_BY(handle_tags_put)),
    ROUTE(BIT(METHOD_PUT), "/api/workers/", NAME, BODY, OPTIONS, FOR_WORKERS,
          SERVED_BY(handle_worker_renew)),
    ROUTE(BIT(METHOD_DELETE), "/api/workers/", NAME, BODY, OPTIONS, FOR_WORKERS,
          AUDITED_AS(CHANGES_WORKER), SERVED_BY(handle_worker_release)),
    ROUTE(READ, "/api/workers", LONG, OPTIONS, FOR_READ, SERVED_BY(handle_workers_list)),
    ROUTE(BIT(METHOD_POST), "/api/workers", BODY, OPTIONS, FOR_WORKERS, AUDITED,
          SERVED_BY(handle_worker_acquire)),
    ROUTE(READ, "/api/layouts/", NAME, FOR_READ, SERVED_BY(handle_layout_get)),
    ROUTE(BIT(METHOD_PUT), "/api/layouts/", NAME, BODY, OPTIONS, FOR_ADMIN,
          AUDITED_AS(CHANGES_LAYOUT), SERVED_BY(handle_layout_put)),
    ROUTE(BIT(METHOD_DELETE), "/api/layouts/", NAME, OPTIONS, FOR_ADMIN, AUDITED_AS(CHANGES_LAYOUT),
          SERVED_BY(handle_layout_delete)),
    ROUTE(READ, "/api/layouts", LONG, FOR_READ, SERVED_BY(handle_layouts_list)),
    ROUTE(READ, "/api/cluster", LONG, FOR_READ, SERVED_BY(handle_cluster)),
    ROUTE(READ, "/api/status", LONG, FOR_READ, SERVED_BY(handle_status)),
    ROUTE(READ, "/api/events", LONG, OPTIONS, FOR_READ, SERVED_BY(handle_events)),
    ROUTE(BIT(METHOD_GET), "/api/live", TAKES, FOR_READ, SERVED_BY(handle_live)),
    ROUTE(BIT(METHOD_DELETE), "/api/cluster/members/", NAME, OPTIONS, FOR_ADMIN,
          AUDITED_AS(CHANGES_CLUSTER), SERVED_BY(handle_member_remove)),
    ROUTE(BIT(METHOD_PUT), "/api/cluster/members/", NAME, BODY, OPTIONS, FOR_ADMIN,
          AUDITED_AS(CHANGES_CLUSTER), SERVED_BY(handle_member_move)),
    ROUTE(BIT(METHOD_POST), "/api/cluster/members", BODY, OPTIONS, FOR_ADMIN,
          AUDITED_AS(CHANGES_CLUSTER), SERVED_BY(handle_member_add)),
    ROUTE(BIT(METHOD_POST), "/api/cluster/leader", BODY, OPTIONS, FOR_ADMIN,
          AUDITED_AS(CHANGES_CLUSTER), SERVED_BY(handle_leader)),
    ROUTE(READ, "/api/cluster/segments", LONG, OPTIONS, FOR_READ,
          SERVED_BY(handle_cluster_segments)),
    ROUTE(READ, "/api/cluster/level", OPTIONS, FOR_READ, SERVED_BY(handle_level_see)),
    ROUTE(BIT(METHOD_POST), "/api/cluster/level", BODY, OPTIONS, FOR_ADMIN,
          AUDITED_AS(CHANGES_LEVEL), SERVED_BY(handle_level_raise)),
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

/* Whether the path is this route's; the name behind it in ret_name. */
HOT static enum router_result route_match(const struct route *route, const char *path,
                                          size_t path_len, const char **ret_name,
                                          size_t *ret_name_len)
{
    size_t len = strlen(route->path);
    const char *slash;

    if (path_len < len || memcmp(path, route->path, len) != 0) {
        return ROUTER_NO_ROUTE;
    }
    *ret_name = path + len;
    *ret_name_len = path_len - len;
    if (!route->takes_name) {
        return *ret_name_len == 0 ? ROUTER_FOUND : ROUTER_NO_ROUTE;
    }
    slash = memchr(*ret_name, '/', *ret_name_len);
    if (*ret_name_len == 0 || slash == *ret_name) {
        return ROUTER_NO_ROUTE;
    }
    return slash == NULL ? ROUTER_FOUND : ROUTER_SLASH;
}

/* How many bytes of a path are the route's, where several slashes count as one; 0: it is of another
 * route. */
static size_t collapsed_len(const char *wanted, const char *path, size_t path_len)
{
    size_t at = 0;

    for (; *wanted != '\0'; wanted++) {
        if (at == path_len || path[at] != *wanted) {
            return 0;
        }
        at++;
        while (*wanted == '/' && at < path_len && path[at] == '/') {
            at++;
        }
    }
    return at;
}

/* The route of Leaf's whose path this is but for slashes too many; NULL: none. */
COLD static const struct route *leaf_route(enum method method, const char *path, size_t path_len,
                                           const char **ret_name, size_t *ret_name_len)
{
    const struct route *found = NULL;

    while (path_len > 1 && path[path_len - 1] == '/') {
        path_len--;
    }
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct route *route = &routes[i];
        size_t len = route->is_leaf ? collapsed_len(route->path, path, path_len) : 0;
        bool fits = len > 0 && route->takes_name == (len < path_len) &&
                    memchr(path + len, '/', path_len - len) == NULL;

        if (fits && (found == NULL || (route->methods & BIT(method)) != 0)) {
            found = route;
            *ret_name = path + len;
            *ret_name_len = path_len - len;
        }
    }
    return found;
}

HOT enum router_result router_find(enum method method, const char *path, size_t path_len,
                                   const struct route **ret_route, const char **ret_name,
                                   size_t *ret_name_len)
{
    enum router_result found = ROUTER_NO_ROUTE;

    *ret_route = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0] && found != ROUTER_SLASH; i++) {
        const struct route *route = &routes[i];
        enum router_result result = route_match(route, path, path_len, ret_name, ret_name_len);

        ASSERT(route->handle != NULL);
        if (result == ROUTER_FOUND) {
            *ret_route = route;
            if ((route->methods & BIT(method)) != 0) {
                return ROUTER_FOUND;
            }
            found = ROUTER_NO_METHOD;
        } else if (result == ROUTER_SLASH) {
            found = result;
        }
    }
    if (found != ROUTER_NO_METHOD) {
        *ret_route = leaf_route(method, path, path_len, ret_name, ret_name_len);
        found = *ret_route == NULL                           ? found
                : ((*ret_route)->methods & BIT(method)) != 0 ? ROUTER_FOUND
                                                             : ROUTER_NO_METHOD;
    }
    return found;
}

const struct route *router_route(size_t at)
{
    return at < sizeof routes / sizeof routes[0] ? &routes[at] : NULL;
}

void router_allow(const struct route *route, char out[ROUTER_ALLOW_BYTES])
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
