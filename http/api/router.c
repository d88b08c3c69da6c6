/*
 * router.c - see router.h. The table of routes is searched in order, the hot one first: it is
 * short, and a comparison that fails at the first differing byte costs less than any cleverness.
 *
 * Thread: pure functions over constant tables, any.
 */
#include "http/api/router.h"

#include <string.h>

#include "http/api/handlers.h"
#include "src/base/assert.h"
#include "src/base/hot.h"

#define BIT(method) (1u << (method))
#define READ (BIT(METHOD_GET) | BIT(METHOD_HEAD))
#define IDS (BIT(METHOD_GET) | BIT(METHOD_POST))

static const struct route routes[] = {
    {"/api/segment/get/", true, true, IDS, "GET, POST", false, handle_segment_get},
    {"/api/snowflake/get/", true, true, IDS, "GET, POST", false, handle_snowflake_get},
    {"/api/snowflake/decode/", true, false, IDS, "GET, POST", false, handle_snowflake_decode},
    {"/decodeSnowflakeId", false, false, IDS, "GET, POST", false, handle_leaf_decode},
    {"/api/tags/", true, false, READ | BIT(METHOD_PUT) | BIT(METHOD_DELETE),
     "GET, HEAD, PUT, DELETE", true, handle_tag},
    {"/api/tags", false, false, READ | BIT(METHOD_POST), "GET, HEAD, POST", true, handle_tags},
    {"/api/workers/", true, false, BIT(METHOD_PUT) | BIT(METHOD_DELETE), "PUT, DELETE", true,
     handle_worker},
    {"/api/workers", false, false, READ | BIT(METHOD_POST), "GET, HEAD, POST", true,
     handle_workers},
    {"/api/cluster", false, false, READ, "GET, HEAD", false, handle_cluster},
    {"/api/cluster/members/", true, false, BIT(METHOD_DELETE), "DELETE", false, handle_member},
    {"/api/cluster/members", false, false, BIT(METHOD_POST), "POST", true, handle_members},
    {"/api/cluster/leader", false, false, BIT(METHOD_POST), "POST", true, handle_leader},
    {"/api/node/segments", false, false, READ, "GET, HEAD", false, handle_node_segments},
    {"/livez", false, false, READ, "GET, HEAD", false, handle_livez},
    {"/readyz", false, false, READ, "GET, HEAD", false, handle_readyz},
    {"/metrics", false, false, READ, "GET, HEAD", false, handle_metrics},
    {"/version", false, false, READ, "GET, HEAD", false, handle_version},
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
    if (slash != NULL && slash == path + path_len - 1 && route->trailing_slash) {
        *ret_name_len -= 1;
        return ROUTER_FOUND;
    }
    return slash == NULL ? ROUTER_FOUND : ROUTER_SLASH;
}

HOT enum router_result router_find(enum method method, const char *path, size_t path_len,
                                   const struct route **ret_route, const char **ret_name,
                                   size_t *ret_name_len)
{
    *ret_route = NULL;
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        const struct route *route = &routes[i];
        enum router_result result = route_match(route, path, path_len, ret_name, ret_name_len);

        ASSERT(route->handle != NULL);
        if (result == ROUTER_SLASH) {
            return result;
        }
        if (result == ROUTER_FOUND) {
            *ret_route = route;
            return (route->methods & BIT(method)) != 0 ? ROUTER_FOUND : ROUTER_NO_METHOD;
        }
    }
    return ROUTER_NO_ROUTE;
}
