/*
 * route.h - a route: what may be said to it, by whom, at which listener, and what serves it.
 *
 * The table of routes is router.c's.
 *
 * Thread: constant.
 */
#ifndef LEAFD_HTTP_API_ROUTE_H
#define LEAFD_HTTP_API_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/auth/tokens.h"
#include "src/base/limits.h"

struct conn;

/* What an audited route may change, as the audit tells what was there before (audited.h). */
enum route_changes {
    CHANGES_OTHER,
    CHANGES_WORKER,
    CHANGES_CLUSTER,
    CHANGES_LEVEL,
    CHANGES_LAYOUT
};

struct route {
    const char *path;   /* whole path, or its beginning when takes_name */
    unsigned methods;   /* bits of enum method */
    bool takes_name;    /* one more, non-empty path segment follows: the name, still encoded */
    bool takes_options; /* the handler reads the query, as all audited do; else there is none */
    bool names_tag;     /* the name is that of a tag */
    bool is_leaf;       /* Leaf has it, too, and takes what Leaf takes: slashes too many, unknown
                            options, bodies of any type */
    bool audited;       /* it changes something, or shows everything */
    enum route_changes changes; /* of an audited one that does not name a tag */
    bool takes;                 /* a GET of it takes ids, a place, or room: no page may cause it */
    unsigned listeners;         /* bits of enum api_listener: where it is served */
    enum role role;             /* who may ask it */
    bool takes_body;            /* bodies are kept for the handler; else read and dropped */
    bool is_long;               /* its reply is long in the making: one a turn of the loop */
    bool is_bulk; /* bodies of up to LIMIT_HTTP_BODY_BYTES; else the small limit holds */
    int (*handle)(struct conn *conn); /* see handlers.h */
};

/* The largest body that it takes; NULL: no route. */
static inline uint32_t route_body_max(const struct route *route)
{
    return route != NULL && route->is_bulk ? LIMIT_HTTP_BODY_BYTES : LIMIT_HTTP_SMALL_BODY_BYTES;
}

#endif
