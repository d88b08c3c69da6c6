/*
 * resp_method.h - what may be asked over RESP: the first word of a request, and all that depends on
 * it.
 *
 * A method has the route (http/api/route.h) of the same thing over HTTP, as far as the gate and the
 * audit look at it: role, door, and whether the second word names a tag. The table of methods is
 * methods.c's.
 *
 * Thread: constant.
 */
#ifndef LEAFD_HTTP_RESP_API_RESP_METHOD_H
#define LEAFD_HTTP_RESP_API_RESP_METHOD_H

#include <stddef.h>
#include <stdint.h>

#include "http/api/route.h"
#include "src/base/limits.h"

/* Codes of errors for which Redis has a word of its own. */
#define RESP_WRONG_TOKEN "wrong_token"
#define RESP_NO_PROTOCOL "bad_protocol"

struct resp_method {
    struct route route; /* its path is the method, in capitals */
    uint8_t traffic;    /* enum traffic */
    uint32_t words_min; /* with the method */
    uint32_t words_max;
    const char *usage;
    const char *summary; /* for COMMAND DOCS */
};

/* All that there are. */
struct resp_methods {
    const struct resp_method *methods;
    size_t count;
};

/* The method, in whatever case; NULL: there is none. */
const struct resp_method *resp_method_find(const struct resp_methods *table, const char *text,
                                           size_t len);

#endif
