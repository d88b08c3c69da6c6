/*
 * header.h - headers that few requests are asked for: found in a head that was read already, and
 * what some of them say.
 *
 * The scanner (parser.h) keeps what framing and the rights need; whatever else a handler wants to
 * know it looks for here, so that it costs the others nothing.
 *
 * Failure modes: a value that does not follow its rules is as none.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_PROTO_HEADER_H
#define LEAFD_HTTP_PROTO_HEADER_H

#include <stdbool.h>
#include <stddef.h>

/* The value of the first header of this name, in lower case, without spaces around it; NULL: there
 * is none. head: len bytes of a complete head that the scanner took. Borrowed from it. *ret_count:
 * how many there are. */
const char *header_find(const char *head, size_t len, const char *name, size_t *ret_len,
                        size_t *ret_count);

/* Does an Accept header name application/json, and neither text/plain nor all types? */
bool header_wants_json(const char *accept, size_t len);

/* Does an Accept header rather have OpenMetrics 1.0.0 than the text format of Prometheus? */
bool header_wants_openmetrics(const char *accept, size_t len);

#define HEADER_TRACE_BYTES 33 /* an id of a trace as text, with its NUL */

/* The trace id of a traceparent (W3C Trace Context, level 1): 32 hexadecimal digits in lower case.
 * False: it breaks a rule. */
bool header_trace(const char *traceparent, size_t len, char ret_trace[HEADER_TRACE_BYTES]);

#endif
