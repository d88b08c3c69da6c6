/*
 * resp.h - leafd as Redis's clients speak to it: the talker for a separate listener of the HTTP
 * server (http/server/service.h). Contract of the requests: docs/redis.md.
 *
 * A method is the first word of a request. It has a route and a handler (http/api/request.h) like
 * the same request over HTTP. Requests are served by the same functions as those over HTTP, on the
 * same loops, and need the same rights.
 *
 * The happy path: a request's method is found, and judged by the gate, once for all requests that
 * repeat its bytes, as requests for ids usually do; then its handler is called. A claim of ids
 * begins here and is taken as one over HTTP (http/api/ids.h). No lock, no allocation, no system
 * call.
 *
 * INCRBY's ids are consecutive, and the last one is the answer: a program that takes ids from Redis
 * this way has reserved those below it. Ids of a tag with a shape are texts, except INCRBY's. A
 * count below 1 is refused: ids never decrease.
 *
 * GET asks the leader for the tag's max_id, which is not what Redis's GET would return after INCR:
 * the ids below it belong to nodes, and some were not handed out yet. Clients read INFO when they
 * connect. It is in Redis's words: no node is loading or a replica. Its lines on the node itself
 * are only for clients that may ask for its health.
 *
 * AUTH and HELLO: a given token is looked up in the tokens in force, and again when these were
 * reread (http/api/api.c). An unknown token changes nothing: the connection keeps its identity.
 *
 * Failure modes: every error is a line of RESP. It begins with Redis's word for such an error
 * (NOAUTH, NOPERM, WRONGPASS, BUSY, TRYAGAIN, else ERR), then leafd's code. An unknown token, or
 * one with another client's name, is audited. A tag that does not exist: nil. Input that breaks the
 * protocol gets its error, and the connection closes.
 *
 * Thread: the connection's loop.
 */
#ifndef LEAFD_HTTP_RESP_API_RESP_H
#define LEAFD_HTTP_RESP_API_RESP_H

#include "http/server/service.h"

extern const struct talker resp_talker;

#endif
