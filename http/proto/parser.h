/*
 * parser.h - one HTTP/1.x request at a time, strictly.
 *
 * Requests are smuggled past a proxy by bytes that two programs read differently. So the scanner
 * accepts only what the grammar of lines allows: no spaces in header names, no bare LF, no junk
 * after a chunk. The tests compare it with http-parser.
 *
 * The happy path: a parser of zeros; parser_head() with all bytes of the request so far, repeatedly
 * as they grow, until PARSER_DONE; if head.has_body, parser_body() with the bytes that follow until
 * PARSER_DONE; then zeros again for the next request.
 *
 * Failure modes: PARSER_REJECT with the status, code and reason in `reject`; the stream is out of
 * step and the connection must close. Nothing allocates. However the bytes are split, the result is
 * the same.
 *
 * Thread: one owner each.
 */
#ifndef LEAFD_HTTP_PROTO_PARSER_H
#define LEAFD_HTTP_PROTO_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/limits.h"

enum method {
    METHOD_GET,
    METHOD_HEAD,
    METHOD_POST,
    METHOD_PUT,
    METHOD_DELETE,
    METHOD_OPTIONS,
    METHOD_OTHER
};

/* "GET", ...; of METHOD_OTHER "OTHER". */
const char *method_name(enum method method);

enum parser_event { PARSER_MORE, PARSER_DONE, PARSER_REJECT };

struct parser_reject {
    int status;
    const char *code; /* static */
    const char *why;  /* static */
    uint64_t limit;   /* that was exceeded; 0: none */
};

/* An optional header line; of several with one name, the last. */
struct parser_field {
    uint32_t count; /* lines of that name */
    uint32_t at;    /* of the value, which has no spaces around it */
    uint32_t len;
};

/* What a complete head says. Offsets count from the first byte given to parser_head(). */
struct parser_head {
    uint32_t len; /* of the head, its empty line included */
    uint32_t target_at;
    uint32_t target_len;
    enum method method;
    uint64_t content_length; /* 0 when chunked */
    bool http_1_0;
    bool keep_alive;
    bool chunked;
    bool has_body; /* chunked, or content_length > 0 */
    bool expect_continue;
    struct parser_field host; /* exactly one, in the form of RFC 9112 3.2; HTTP/1.0: or none */
    struct parser_field origin;
    struct parser_field fetch_site; /* Sec-Fetch-Site */
    struct parser_field accept;
    struct parser_field authorization;
    struct parser_field content_type;
    struct parser_field key; /* Idempotency-Key */
    struct parser_field traceparent;
};

/* All zeros: ready for a request's first byte. */
struct parser {
    struct parser_head head;
    struct parser_reject reject; /* after PARSER_REJECT */
    /* internal to the scanner */
    int state;
    size_t at;      /* bytes of the head scanned */
    size_t mark;    /* where the present element began */
    size_t name_at; /* the present header's name */
    size_t name_len;
    uint32_t header_count;
    bool has_length;
    bool has_bad_host;
    bool is_connect; /* CONNECT, whose target is "host:port" */
    bool says_close; /* a Connection header does */
    bool says_keep_alive;
    const char *objection; /* why the head will be refused; NULL: nothing yet */
    uint64_t body_left;    /* of the body, or of the present chunk */
    uint32_t digit_count;  /* of the present chunk's size */
    uint64_t body_bytes;   /* decoded so far */
    size_t line_bytes;     /* of chunk extensions and trailers, together bounded as a head */
};

/* Scan a head: data is all bytes of this request so far, from the first; they may move between
 * calls. PARSER_DONE when the head is complete (head.len <= len). */
enum parser_event parser_head(struct parser *parser, const char *data, size_t len);

/*
 * Take body bytes after PARSER_DONE of a head with has_body. Decoded bytes are moved to the front
 * of data (*ret_decoded of them); *ret_used were consumed. PARSER_DONE: the body is complete,
 * data[*ret_used] is the next request's; PARSER_MORE: all was consumed.
 */
enum parser_event parser_body(struct parser *parser, char *data, size_t len, size_t *ret_used,
                              size_t *ret_decoded);

#endif
