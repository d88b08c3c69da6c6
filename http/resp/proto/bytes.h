/*
 * bytes.h - the bytes of RESP, versions 2 and 3: a request is a list of words, the first of which
 * is the method; a reply is appended to a buffer.
 *
 * A request is an array of bulk strings ("*2\r\n$4\r\nINCR\r\n$1\r\na\r\n"), or inline, as a person
 * types it: words on a line, separated by blanks ("INCR a\r\n"). A request marks its own end: the
 * same bytes are always the same request.
 *
 * The happy path: words_read() with all bytes of the request so far, repeatedly as they grow, until
 * WORDS_DONE. It keeps nothing between calls: a length says how many bytes to skip, so rereading
 * costs little. Then reply_...() for the answer. Version 2 has no maps and one nil: where the
 * versions differ, the caller passes the version. In texts on a line of their own (errors) control
 * characters are replaced by blanks.
 *
 * Failure modes: WORDS_REJECT: the stream is out of step and the connection must close. A length
 * beyond its bound is refused when it is read, before the announced bytes have come. A line that
 * ends in "HTTP/..." is refused: a web page can make a browser send one to any port, with words of
 * its choice after it. However the bytes are split, the result is the same.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_RESP_PROTO_BYTES_H
#define LEAFD_HTTP_RESP_PROTO_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/proto/parser.h"
#include "src/base/buf.h"
#include "src/base/limits.h"

/* --- requests --- */

enum words_result {
    WORDS_MORE,    /* the request is not whole yet */
    WORDS_NOTHING, /* these bytes are an empty line or an empty array */
    WORDS_DONE,
    WORDS_REJECT
};

/* A word: offset from the request's first byte, and length. */
struct word {
    uint16_t at;
    uint16_t len;
};
_Static_assert(LIMIT_RESP_BYTES <= UINT16_MAX, "a place in a request fits");

struct words {
    uint32_t len;   /* of the request in bytes */
    uint32_t count; /* 1..LIMIT_RESP_WORDS */
    struct word word[LIMIT_RESP_WORDS];
};

/* data: all received bytes, of this request and those after it. On WORDS_REJECT *ret_reject is set,
 * as by the parser of HTTP. */
enum words_result words_read(const char *data, size_t len, struct words *words,
                             struct parser_reject *ret_reject);

/* --- replies --- */

/* value <= INT64_MAX: clients read it as a signed number. */
void reply_integer(struct buf *out, uint64_t value);

/* "+OK"; the text has no control characters. */
void reply_simple(struct buf *out, const char *text);

/* "-ERR code: message". kind: "ERR", "NOAUTH" ... */
void reply_failure(struct buf *out, const char *kind, const char *code, const char *message);

void reply_bulk(struct buf *out, const void *data, size_t len);

/* A name and its value, of a map. */
void reply_pair(struct buf *out, const char *name, const char *text);
void reply_number(struct buf *out, const char *name, uint64_t value);

/* Lines for people: a verbatim string if the version has those. */
void reply_lines(struct buf *out, unsigned version, const void *data, size_t len);

/* `count` elements, or pairs, follow. */
void reply_array(struct buf *out, uint64_t count);
void reply_map(struct buf *out, unsigned version, uint64_t pairs);

void reply_nil(struct buf *out, unsigned version);

/* The most bytes that an id takes. */
#define REPLY_ID_BYTES_MAX 22

#endif
