/*
 * request_kinds.h - requests of every kind that a connection treats differently: what one of them
 * leaves after would be seen by the next.
 *
 * They are for the world of conn_world.h. Each but those that end the connection may be followed by
 * any other.
 *
 * Thread: any; the table is made by the first call, on the test's thread.
 */
#ifndef LEAFD_HTTP_TESTS_REQUEST_KINDS_H
#define LEAFD_HTTP_TESTS_REQUEST_KINDS_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/buf.h"

struct request_kind {
    const char *name;
    struct buf bytes;
    size_t head_len; /* of bytes; the rest is the body */
    bool expects;    /* "100 Continue" may come before its reply */
};

/* All kinds; *ret_count of them. */
const struct request_kind *request_kinds(size_t *ret_count);

/* Free the table. */
void request_kinds_free(void);

#endif
