/*
 * port.c - see port.h. Threads: as said there.
 */
#include "http/server/port.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/limits.h"

struct http_port *http_port_new(uv_loop_t *uv)
{
    struct http_port *port = MUST_HAVE(calloc(1, sizeof *port));

    atomic_init(&port->refs, 1);
    if (mailbox_init(&port->mailbox, uv, LIMIT_MAILBOX_ITEMS) != 0) {
        free(port);
        return NULL;
    }
    return port;
}

void http_port_ref(struct http_port *port)
{
    ASSERT(atomic_fetch_add(&port->refs, 1) > 0);
}

void http_port_unref(struct http_port *port)
{
    uint32_t before = atomic_fetch_sub(&port->refs, 1);

    ASSERT(before > 0);
    if (before == 1) {
        mailbox_free(&port->mailbox);
        free(port);
    }
}
