/*
 * router.h - from a method and a path to the route that serves it.
 *
 * Thread: pure functions over constant tables, any.
 */
#ifndef LEAFD_HTTP_API_ROUTER_H
#define LEAFD_HTTP_API_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/auth/identity.h"
#include "http/proto/parser.h"

struct conn;

struct route {
    const char *path;    /* whole path, or its beginning when takes_name */
    unsigned methods;    /* bits of enum method */
    bool takes_name;     /* one more, non-empty path segment follows: the name, still encoded */
    bool trailing_slash; /* "name/" means "name", as Leaf's clients may write it */
    bool takes_options;  /* the handler reads the query; else there must be none */
    bool names_tag;      /* the name is that of a tag */
    bool audited;        /* it changes something, or shows everything */
    unsigned doors;      /* bits of enum door: where it is served */
    enum role role;      /* who may ask it */
    bool takes_body;     /* bodies are kept for the handler; else read and dropped */
    bool is_bulk;        /* bodies of up to LIMIT_HTTP_BODY_BYTES; else the small limit holds */
    int (*handle)(struct conn *conn); /* see handlers.h */
};

/* The largest body that it takes; NULL: no route. */
static inline uint32_t route_body_max(const struct route *route)
{
    return route != NULL && route->is_bulk ? LIMIT_HTTP_BODY_BYTES : LIMIT_HTTP_SMALL_BODY_BYTES;
}

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

#define ROUTER_ALLOW_BYTES 48

/* The methods of all routes of this one's path, as the Allow header has them. */
void router_allow(const struct route *route, char out[ROUTER_ALLOW_BYTES]);

#endif
