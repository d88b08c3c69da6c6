/*
 * http.h - HTTP/1.1 as connections speak it: heads and bodies of requests, bytes of answers.
 *
 * The happy path: http_talker() is given to a listener. Of each request its head is read
 * (http/proto/parser.h), the service finds its route, the body is kept where the route wants it,
 * and the service answers.
 *
 * Bodies: a client that expects it hears "100 Continue". What all bodies take is metered; a body
 * that comes slowly is refused (408) when its place is needed.
 *
 * Failure modes: a request that breaks the protocol, a body that is too large or finds no room: an
 * error, and the connection ends.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_SERVER_HTTP_H
#define LEAFD_HTTP_SERVER_HTTP_H

#include "http/server/service.h"

/* Static. */
const struct talker *http_talker(void);

#endif
