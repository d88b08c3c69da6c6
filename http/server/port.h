/*
 * port.h - the way to a loop from other threads: a mailbox that stays until the last of those that
 * may post to it has let go, also when the loop has ended.
 *
 * The happy path: the loop makes the port; who is to post later takes a reference, posts with
 * mailbox_post_always(), and gives the reference back. The loop closes the mailbox when it ends.
 *
 * Failure modes: the loop has ended: the post says so, and the item stays its owner's.
 *
 * Threads: http_port_new() from the loop's (or before it runs); the rest from any.
 */
#ifndef LEAFD_HTTP_SERVER_PORT_H
#define LEAFD_HTTP_SERVER_PORT_H

#include <stdatomic.h>

#include "src/loop/mailbox.h"

struct http_port {
    _Atomic uint32_t refs; /* the loop's and one for each item that is to come */
    struct mailbox mailbox;
};

/* A port with one reference. NULL when its handle cannot be made. */
struct http_port *http_port_new(uv_loop_t *uv);

void http_port_ref(struct http_port *port);
void http_port_unref(struct http_port *port);

#endif
