/*
 * resp.h - leafd as Redis's clients speak to it: the talker that the HTTP server is given for a
 * listener of its own (http/server/service.h). Contract of the requests: docs/redis.md.
 *
 * A method is the first word of a request. It has the route (http/api/route.h) of the same thing
 * over HTTP, as far as the gate and the audit look at it: role, listener, and whether the second
 * word names a tag. Requests are served by the same functions as those over HTTP, on the same
 * loops, and need the same rights. A handler is called when its request is complete and may be
 * made; it returns as one over HTTP does (http/api/request.h).
 *
 * The happy path: resp_step() finds a request's method and has the gate judge it, once for all that
 * repeat its bytes; resp_handle() calls what serves the method. For ids the request's bytes are
 * those of the one before it, so its words and its tag are known; the claim is begun here and taken
 * as one over HTTP (http/api/ids.h), and its answer is written here, also when it comes later. No
 * lock, no allocation, no system call.
 *
 * INCRBY's ids follow each other, and the last one is the answer: a program that takes ids from
 * Redis so has reserved those below it. Ids of a tag with a shape are texts, but for INCRBY's. A
 * count below 1 is refused: ids never decrease.
 *
 * GET asks the leader for the tag's max_id, which is not what Redis's GET would say after INCR: the
 * ids below it belong to nodes, and some of them were not handed out yet. INFO is what clients look
 * at when they connect, in words of Redis: none is loading or a replica; what it says of the node
 * itself is for those who may ask for its health.
 *
 * AUTH and HELLO: a token that is given is looked for in the tokens in force, and again when these
 * were read anew (http/api/gate.c). One that is not known changes nothing: the connection keeps the
 * identity that it had.
 *
 * Failure modes: every error is a line of RESP; it begins with the word that Redis has for such a
 * one (NOAUTH, NOPERM, WRONGPASS, BUSY, TRYAGAIN, else ERR), and then has leafd's code. An unknown
 * token, or another's name before it, is audited. A tag that does not exist: nil. What breaks the
 * protocol gets its error, and the connection closes.
 *
 * Thread: the connection's loop.
 */
#ifndef LEAFD_HTTP_RESP_API_RESP_H
#define LEAFD_HTTP_RESP_API_RESP_H

#include "http/server/service.h"

/* Static. */
const struct talker *resp_talker(void);

#endif
