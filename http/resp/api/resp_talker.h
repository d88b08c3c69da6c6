/*
 * resp_talker.h - leafd as Redis's clients speak to it: the talker that the HTTP server is given
 * for a listener of its own (http/server/service.h).
 *
 * Contract of the requests: docs/redis.md. They are served by the same functions as those over
 * HTTP, on the same loops, and need the same rights.
 *
 * The happy path: resp_step() finds a request's method and has the gate judge it, once for all that
 * repeat its bytes; resp_handle() calls what serves the method.
 *
 * Failure modes: every error is a line of RESP; it begins with the word that Redis has for such a
 * one (NOAUTH, NOPERM, WRONGPASS, BUSY, TRYAGAIN, else ERR), and then has leafd's code. What breaks
 * the protocol gets its error, and the connection closes.
 *
 * Thread: the connection's loop.
 */
#ifndef LEAFD_HTTP_RESP_API_RESP_TALKER_H
#define LEAFD_HTTP_RESP_API_RESP_TALKER_H

#include "http/server/service.h"

/* Static. */
const struct talker *resp_talker(void);

#endif
