/*
 * router.h - from a method and a path to the route that serves it.
 *
 * Thread: pure functions over constant tables, any.
 */
#ifndef LEAFD_HTTP_API_ROUTER_H
#define LEAFD_HTTP_API_ROUTER_H

#include <stddef.h>

#include "http/api/route.h"
#include "http/proto/parser.h"

enum router_result {
    ROUTER_FOUND,
    ROUTER_NO_ROUTE,
    ROUTER_SLASH,     /* a name with an unencoded slash */
    ROUTER_NO_METHOD, /* the path is there, with other methods; *ret_route is one of its routes */
};

/* Find the route of a path. ret_name is the rest behind route->path (encoded, borrowed from
 * path). */
enum router_result router_find(enum method method, const char *path, size_t path_len,
                               const struct route **ret_route, const char **ret_name,
                               size_t *ret_name_len);

/* The routes one after the other; NULL behind the last. */
const struct route *router_route(size_t at);

#define ROUTER_ALLOW_BYTES 48

/* The methods of all routes of this one's path, or, of NULL, of any route, as the Allow header has
 * them; OPTIONS is one of them. */
void router_allow(const struct route *route, char out[ROUTER_ALLOW_BYTES]);

#endif
