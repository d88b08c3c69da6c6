/*
 * parser_body.c - see parser.h: the framing of bodies, by length or by strict chunks.
 *
 *   SIZE -> [EXTENSION] -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE ...
 *                             size 0 -> TRAILER -> [TRAILER_LINE -> TRAILER_LF] -> END_LF -> done
 *
 * Extensions and trailers are read and dropped, together within the bound of a head.
 *
 * Thread: one owner each.
 */
#include "http/proto/parser.h"

#include <string.h>

#include "src/base/assert.h"

#define CHUNK_DIGITS_MAX 8 /* hex digits of a chunk's size */

/* parser->state is 0 when the head is done, so a chunked body begins with a size. */
enum body_state {
    BODY_SIZE = 0,
    BODY_EXTENSION,
    BODY_SIZE_LF,
    BODY_DATA,
    BODY_DATA_CR,
    BODY_DATA_LF,
    BODY_TRAILER,
    BODY_TRAILER_LINE,
    BODY_TRAILER_LF,
    BODY_END_LF,
    BODY_DONE
};

static enum parser_event malformed(struct parser *parser)
{
    parser->reject =
        (struct parser_reject){400, "bad_request", "a malformed chunk in the request body", 0};
    return PARSER_REJECT;
}

static enum parser_event too_large(struct parser *parser, int status, const char *code,
                                   const char *why, uint64_t limit)
{
    parser->reject = (struct parser_reject){status, code, why, limit};
    return PARSER_REJECT;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum parser_event chunk_size(struct parser *parser, char c)
{
    int value = hex_value(c);

    if (value >= 0 && parser->digit_count < CHUNK_DIGITS_MAX) {
        parser->digit_count++;
        parser->body_left = parser->body_left << 4 | (uint64_t)value;
        return PARSER_MORE;
    }
    if (parser->digit_count == 0 || (c != '\r' && c != ';')) {
        return malformed(parser);
    }
    if (parser->body_bytes + parser->body_left > LIMIT_HTTP_BODY_BYTES) {
        return too_large(parser, 413, "body_too_large", "the request body is too large",
                         LIMIT_HTTP_BODY_BYTES);
    }
    parser->state = c == '\r' ? BODY_SIZE_LF : BODY_EXTENSION;
    return PARSER_MORE;
}

/* A byte of an extension or of a trailer line: to its CR. */
static enum parser_event skip_line(struct parser *parser, char c, int next)
{
    if (c == '\r') {
        parser->state = next;
        return PARSER_MORE;
    }
    return ((unsigned char)c >= ' ' && c != 0x7f) || c == '\t' ? PARSER_MORE : malformed(parser);
}

static enum parser_event line_feed(struct parser *parser, char c, int next)
{
    if (c != '\n') {
        return malformed(parser);
    }
    parser->state = next;
    parser->digit_count = 0;
    return PARSER_MORE;
}

/* One byte of the framing, that is, not of a chunk's data. */
static enum parser_event chunk_step(struct parser *parser, char c)
{
    bool is_line = parser->state == BODY_EXTENSION || parser->state == BODY_TRAILER_LINE ||
                   parser->state == BODY_TRAILER;

    if (is_line && ++parser->line_bytes > LIMIT_HTTP_HEADERS_BYTES) {
        return too_large(parser, 431, "headers_too_large", "the chunks' trailers are too large",
                         LIMIT_HTTP_HEADERS_BYTES);
    }
    switch (parser->state) {
    case BODY_SIZE:
        return chunk_size(parser, c);
    case BODY_EXTENSION:
        return skip_line(parser, c, BODY_SIZE_LF);
    case BODY_SIZE_LF:
        return line_feed(parser, c, parser->body_left > 0 ? BODY_DATA : BODY_TRAILER);
    case BODY_DATA_CR:
        parser->state = BODY_DATA_LF;
        return c == '\r' ? PARSER_MORE : malformed(parser);
    case BODY_DATA_LF:
        return line_feed(parser, c, BODY_SIZE);
    case BODY_TRAILER:
        parser->state = c == '\r' ? BODY_END_LF : BODY_TRAILER_LINE;
        return c == '\r' || (unsigned char)c > ' ' ? PARSER_MORE : malformed(parser);
    case BODY_TRAILER_LINE:
        return skip_line(parser, c, BODY_TRAILER_LF);
    case BODY_TRAILER_LF:
        return line_feed(parser, c, BODY_TRAILER);
    case BODY_END_LF:
        return line_feed(parser, c, BODY_DONE) == PARSER_MORE ? PARSER_DONE : PARSER_REJECT;
    default:
        UNREACHABLE("a state of the chunks");
    }
}

/* Take as much of the data that is due as is there. */
static size_t take_data(struct parser *parser, char *to, const char *from, size_t len)
{
    size_t take = parser->body_left < len ? (size_t)parser->body_left : len;

    memmove(to, from, take);
    parser->body_left -= take;
    parser->body_bytes += take;
    return take;
}

static enum parser_event chunked_body(struct parser *parser, char *data, size_t len,
                                      size_t *ret_used, size_t *ret_decoded)
{
    size_t decoded = 0;
    size_t at = 0;
    enum parser_event event = PARSER_MORE;

    while (event == PARSER_MORE && at < len) {
        if (parser->state == BODY_DATA) {
            size_t took = take_data(parser, data + decoded, data + at, len - at);

            decoded += took;
            at += took;
            parser->state = parser->body_left == 0 ? BODY_DATA_CR : BODY_DATA;
            continue;
        }
        event = chunk_step(parser, data[at]);
        at++;
    }
    *ret_used = at;
    *ret_decoded = decoded;
    return event;
}

enum parser_event parser_body(struct parser *parser, char *data, size_t len, size_t *ret_used,
                              size_t *ret_decoded)
{
    ASSERT(parser->head.has_body);
    ASSERT(parser->state < BODY_DONE);
    if (parser->head.chunked) {
        return chunked_body(parser, data, len, ret_used, ret_decoded);
    }
    *ret_decoded = take_data(parser, data, data, len);
    *ret_used = *ret_decoded;
    return parser->body_left == 0 ? PARSER_DONE : PARSER_MORE;
}
