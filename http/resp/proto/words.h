/*
 * words.h - one request of RESP: a list of words, of which the first one says what is wanted.
 *
 * A request is an array of bulk strings ("*2\r\n$4\r\nINCR\r\n$1\r\na\r\n"), or inline, as a
 * person types it: words with blanks between them on a line ("INCR a\r\n"). Where one ends, it says
 * itself: the same bytes are always the same request.
 *
 * The happy path: words_read() with all bytes of the request so far, again and again as they grow,
 * until WORDS_DONE. It keeps nothing in between: a length says how many bytes to step over, so that
 * looking again costs little.
 *
 * Failure modes: WORDS_REJECT: the stream is out of step and the connection must close. A length
 * beyond its bound is refused where it is read, before what it announces has come. A line that ends
 * in "HTTP/..." is refused: a web page can make a browser send one to any port, with words of its
 * choice behind it. However the bytes are split, the result is the same.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_HTTP_RESP_PROTO_WORDS_H
#define LEAFD_HTTP_RESP_PROTO_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/proto/parser.h"
#include "src/base/limits.h"

enum words_result {
    WORDS_MORE,    /* the request is not whole yet */
    WORDS_NOTHING, /* so many bytes are an empty line, or an empty array */
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

/* data: all bytes that there are, of this request and those behind it. On WORDS_REJECT *ret_reject
 * is set, as the parser of HTTP does. */
enum words_result words_read(const char *data, size_t len, struct words *words,
                             struct parser_reject *ret_reject);

/* Is the text the given word, which is in capitals, in whatever case? */
bool word_is(const char *text, size_t len, const char *word);

#endif
