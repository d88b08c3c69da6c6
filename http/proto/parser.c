/*
 * parser.c - see parser.h. The head's scanner, the meaning of its headers, and the framing of
 * bodies.
 *
 *   START -> METHOD -> TARGET -> VERSION -> LINE_LF -> LINE -> NAME -> VALUE -> LINE_LF ...
 *     ^ empty lines before the request          |         LINE -> END_LF -> HEAD_DONE
 *
 * A state takes as many bytes at once as belong to its element. Only the place is kept, so the
 * number of pieces in which the bytes came makes no difference.
 *
 * What no single line of a grammar defines is as in http-parser: the methods, the targets that do
 * not begin with a slash, and how a list of connection options is read. tests/test_parser_same.c
 * compares all of it with a parser that takes one byte at a time and consults http-parser about
 * every head.
 *
 * Thread: one owner each.
 */
#include "http/proto/parser.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"

#define METHOD_BYTES_MAX 20
#define VERSION_BYTES 8    /* "HTTP/1.1" */
#define CHUNK_DIGITS_MAX 8 /* hex digits of a chunk's size */

enum scan_state {
    SCAN_START = 0,
    SCAN_START_LF,
    SCAN_METHOD,
    SCAN_TARGET,
    SCAN_VERSION,
    SCAN_LINE_LF,
    SCAN_LINE,
    SCAN_NAME,
    SCAN_VALUE,
    SCAN_END_LF,
    SCAN_HEAD_DONE
};

/* The elements that a byte may be part of. */
#define METHOD 0x01
#define TARGET 0x02
#define HOST 0x04     /* of "user@host:port" in a target */
#define TOKEN 0x08    /* names of headers: tchar of RFC 9110 */
#define VALUE 0x10    /* values of headers */
#define REG_NAME 0x20 /* names of hosts */
#define IN_URL (TARGET | VALUE)
#define IN_NAME (IN_URL | TOKEN)

static const uint8_t char_class[256] = {
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['!'] = IN_NAME | HOST | REG_NAME,
    ['"'] = IN_URL,
    ['#'] = IN_NAME,
    ['$' ... '\''] = IN_NAME | HOST | REG_NAME,
    ['(' ... ')'] = IN_URL | HOST | REG_NAME,
    ['*' ... '+'] = IN_NAME | HOST | REG_NAME,
    [','] = IN_URL | HOST | REG_NAME,
    ['-'] = IN_NAME | HOST | METHOD | REG_NAME,
    ['.'] = IN_NAME | HOST | REG_NAME,
    ['/'] = IN_URL,
    ['0' ... '9'] = IN_NAME | HOST | REG_NAME,
    [':'] = IN_URL | HOST,
    [';'] = IN_URL | HOST | REG_NAME,
    ['<'] = IN_URL,
    ['='] = IN_URL | HOST | REG_NAME,
    ['>' ... '?'] = IN_URL,
    ['@'] = IN_URL | HOST,
    ['A' ... 'Z'] = IN_NAME | HOST | METHOD | REG_NAME,
    ['['] = IN_URL | HOST,
    ['\\'] = IN_URL,
    [']'] = IN_URL | HOST,
    ['^'] = IN_NAME,
    ['_'] = IN_NAME | HOST | REG_NAME,
    ['`'] = IN_NAME,
    ['a' ... 'z'] = IN_NAME | HOST | REG_NAME,
    ['{'] = IN_URL,
    ['|'] = IN_NAME,
    ['}'] = IN_URL,
    ['~'] = IN_NAME | HOST | REG_NAME,
    [0x80 ... 0xff] = IN_URL,
};

/* As enum method has them; then further methods of HTTP, none of which leafd serves. */
static const char *const methods[] = {
    "GET",        "HEAD",     "POST",       "PUT",      "DELETE", "OPTIONS",   "CONNECT",
    "TRACE",      "COPY",     "LOCK",       "MKCOL",    "MOVE",   "PROPFIND",  "PROPPATCH",
    "SEARCH",     "UNLOCK",   "BIND",       "REBIND",   "UNBIND", "ACL",       "REPORT",
    "MKACTIVITY", "CHECKOUT", "MERGE",      "M-SEARCH", "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE",
    "PATCH",      "PURGE",    "MKCALENDAR", "LINK",     "UNLINK", "SOURCE",
};
#define CONNECT METHOD_OTHER /* the first of the further ones */

/* Headers with a meaning here, by the length of their names. */
enum header_kind {
    HEADER_FIELD,
    HEADER_HOST,
    HEADER_EXPECT,
    HEADER_CONNECTION,
    HEADER_LENGTH,
    HEADER_TRANSFER
};

static const struct header {
    const char *name;
    uint8_t len;
    uint8_t kind;
    uint16_t field; /* where its value is kept, in struct parser_head; 0: it is not */
} headers[] = {
#define NAMED(name) (name), sizeof(name) - 1
#define KEPT(member) offsetof(struct parser_head, member)
    {NAMED("host"), HEADER_HOST, KEPT(host)},
    {NAMED("accept"), HEADER_FIELD, KEPT(accept)},
    {NAMED("origin"), HEADER_FIELD, KEPT(origin)},
    {NAMED("expect"), HEADER_EXPECT, 0},
    {NAMED("connection"), HEADER_CONNECTION, 0},
    {NAMED("traceparent"), HEADER_FIELD, KEPT(traceparent)},
    {NAMED("content-type"), HEADER_FIELD, KEPT(content_type)},
    {NAMED("authorization"), HEADER_FIELD, KEPT(authorization)},
    {NAMED("content-length"), HEADER_LENGTH, 0},
    {NAMED("sec-fetch-site"), HEADER_FIELD, KEPT(fetch_site)},
    {NAMED("idempotency-key"), HEADER_FIELD, KEPT(key)},
    {NAMED("proxy-connection"), HEADER_CONNECTION, 0},
    {NAMED("transfer-encoding"), HEADER_TRANSFER, 0},
};

COLD static enum parser_event malformed(struct parser *parser, const char *why)
{
    parser->reject = (struct parser_reject){400, "bad_request", why, 0};
    return PARSER_REJECT;
}

COLD static enum parser_event too_large(struct parser *parser, int status, const char *code,
                                        const char *why, uint64_t limit)
{
    parser->reject = (struct parser_reject){status, code, why, limit};
    return PARSER_REJECT;
}

/* The first place from `at` on with a byte of another class, or end. */
HOT static size_t run_end(const char *data, size_t at, size_t end, unsigned class)
{
    while (at < end && (char_class[(unsigned char)data[at]] & class) != 0) {
        at++;
    }
    return at;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Each line is well-formed, but the head will be refused: the first reason counts, and is reported
 * once the head is complete. */
static void object(struct parser *parser, const char *why)
{
    parser->objection = parser->objection != NULL ? parser->objection : why;
}

/*
 * A list of connection options, of which "close" and "keep-alive" mean something. It is read as by
 * http-parser, also if the list is odd: a word that only begins like an option swallows the comma
 * that cuts it short; an option ends at a comma, spaces, or the line's end; a byte that can begin
 * no option ends the list.
 */
static void header_connection(struct parser *parser, const char *value, size_t len)
{
    for (size_t at = 0; at < len; at++) {
        char first = (char)tolower((unsigned char)value[at]);
        const char *word = first == 'k'   ? "keep-alive"
                           : first == 'c' ? "close"
                           : first == 'u' ? "upgrade"
                                          : "";
        size_t used = 0; /* bytes of the word */

        while (at < len && word[used] != '\0' && tolower((unsigned char)value[at]) == word[used]) {
            at++;
            used++;
        }
        if (used > 0 && word[used] == '\0') {
            while (at < len && value[at] == ' ') {
                at++;
            }
            parser->says_close |= first == 'c' && (at == len || value[at] == ',');
            parser->says_keep_alive |= first == 'k' && (at == len || value[at] == ',');
        } else {
            at++;
        }
        while (at < len && value[at] != ',') {
            at++;
        }
        while (at + 1 < len && value[at + 1] == ' ') {
            at++;
        }
        if (at + 1 < len && (char_class[(unsigned char)value[at + 1]] & TOKEN) == 0) {
            return;
        }
    }
}

/* NULL: a header without a meaning. Bit 0x20 makes a letter small and leaves a hyphen as it is; no
 * other byte of a token becomes one of these. */
HOT static const struct header *header_of(const char *name, size_t len)
{
    for (size_t i = 0; i < COUNT_OF(headers) && headers[i].len <= len; i++) {
        size_t same = 0;

        while (headers[i].len == len && same < len &&
               (name[same] | 0x20) == headers[i].name[same]) {
            same++;
        }
        if (same == len) {
            return &headers[i];
        }
    }
    return NULL;
}

/* uri-host [ ":" port ]: the values of a Host header in RFC 9112 3.2; may be empty. */
static bool is_host_value(const char *text, size_t len)
{
    bool is_literal = len > 0 && text[0] == '[';
    size_t at = is_literal;

    if (is_literal) {
        /* Digits, colons and dots, as IPv6 has them: RFC 3986 also knows IPvFuture, which does not
         * exist. */
        while (at < len && (text_hex_digit(text[at]) >= 0 || text[at] == ':' || text[at] == '.')) {
            at++;
        }
        if (at <= 2 || at == len || text[at++] != ']') {
            return false;
        }
    } else {
        /* A name or an IPv4 address: unreserved, sub-delims and percent encoding of RFC 3986. */
        while (at < len && (char_class[(unsigned char)text[at]] & REG_NAME) != 0) {
            if (text[at] == '%' && (len - at < 3 || text_hex_digit(text[at + 1]) < 0 ||
                                    text_hex_digit(text[at + 2]) < 0)) {
                return false;
            }
            at++;
        }
    }
    if (at < len && text[at++] != ':') {
        return false;
    }
    while (at < len && text[at] >= '0' && text[at] <= '9') {
        at++;
    }
    return at == len;
}

/* A header line is complete: take the fields that framing needs. */
HOT static enum parser_event header_done(struct parser *parser, const char *data)
{
    const struct header *header = header_of(data + parser->name_at, parser->name_len);
    struct parser_field *field;
    const char *raw = data + parser->mark;
    const char *value = raw;
    size_t len = parser->at - parser->mark;
    size_t raw_len = len; /* with the spaces after the value */

    if (header == NULL) {
        return PARSER_MORE;
    }
    value = text_trim(raw, &len);
    raw_len -= (size_t)(value - raw);
    if (header->field > 0) {
        field = (struct parser_field *)((char *)&parser->head + header->field);
        field->count++;
        field->at = (uint32_t)(value - data);
        field->len = (uint32_t)len;
    }
    switch ((enum header_kind)header->kind) {
    case HEADER_FIELD:
        return PARSER_MORE;
    case HEADER_HOST:
        parser->has_bad_host |= !is_host_value(value, len);
        return PARSER_MORE;
    case HEADER_EXPECT:
        parser->head.expect_continue = text_is(value, len, "100-continue");
        return PARSER_MORE;
    case HEADER_CONNECTION:
        header_connection(parser, value, raw_len);
        return PARSER_MORE;
    case HEADER_LENGTH:
        if (memchr(value + len, '\t', raw_len - len) != NULL) {
            object(parser, "invalid character in content-length header");
        }
        if (parser->has_length) {
            return malformed(parser, "Content-Length is given twice");
        }
        parser->has_length = true;
        return text_parse_decimal(value, len, 0, UINT64_MAX, &parser->head.content_length) == 0
                   ? PARSER_MORE
                   : malformed(parser, "Content-Length is not a decimal number");
    case HEADER_TRANSFER:
        if (parser->head.chunked || !text_is(value, len, "chunked")) {
            return malformed(parser, "Transfer-Encoding may only be one \"chunked\"");
        }
        parser->head.chunked = true;
        return PARSER_MORE;
    }
    UNREACHABLE("a header");
}

/*
 * The states. Each takes the bytes of its element from parser->at on and moves to the next state;
 * at the end of the bytes it stays. A line's end returns to parser_head().
 */

HOT static enum parser_event scan_lf(struct parser *parser, const char *data, size_t end,
                                     enum scan_state next)
{
    if (parser->at == end) {
        return PARSER_MORE;
    }
    if (data[parser->at] != '\n') {
        return malformed(parser, "a CR without its LF");
    }
    parser->at++;
    parser->state = (int)next;
    return PARSER_MORE;
}

HOT static enum parser_event scan_version(struct parser *parser, const char *data, size_t end)
{
    size_t bound = min_size(end, parser->mark + VERSION_BYTES);
    const char *version = data + parser->mark;
    size_t at = parser->at;

    if (end - parser->mark > VERSION_BYTES && memcmp(version, "HTTP/1.1", VERSION_BYTES) == 0) {
        at = bound; /* as a rule */
    }
    while (at < bound && data[at] != '\r') {
        at++;
    }
    parser->at = at;
    if (at == end) {
        return PARSER_MORE;
    }
    if (data[at] != '\r' || at - parser->mark != VERSION_BYTES ||
        (memcmp(version, "HTTP/1.1", VERSION_BYTES) != 0 &&
         memcmp(version, "HTTP/1.0", VERSION_BYTES) != 0)) {
        return malformed(parser, "the protocol version is not HTTP/1.1 or HTTP/1.0");
    }
    parser->head.http_1_0 = version[VERSION_BYTES - 1] == '0';
    parser->at++;
    parser->state = SCAN_LINE_LF;
    return scan_lf(parser, data, end, SCAN_LINE);
}

/* A target without a leading slash: "*", "http://host/path", and "host:port" of CONNECT. */
static bool is_other_target(const char *text, size_t len, bool is_connect)
{
    size_t at = 0;

    if (text[0] == '*' && !is_connect) {
        return true;
    }
    if (!is_connect) {
        while (at < len && isalpha((unsigned char)text[at])) {
            at++;
        }
        if (at == 0 || len - at < 3 || memcmp(text + at, "://", 3) != 0) {
            return false;
        }
        at += 3;
    }
    if (at == len) {
        return false;
    }
    for (; at < len && text[at] != '/' && text[at] != '?'; at++) {
        if ((char_class[(unsigned char)text[at]] & HOST) == 0 ||
            (text[at] == '@' && at + 1 < len && text[at + 1] == '@')) {
            return false;
        }
    }
    return true;
}

HOT static enum parser_event scan_target(struct parser *parser, const char *data, size_t end)
{
    struct parser_head *head = &parser->head;
    size_t bound = min_size(end, head->target_at + LIMIT_HTTP_TARGET_BYTES);
    unsigned char c; /* which ends the target */

    parser->at = run_end(data, parser->at, bound, TARGET);
    if (parser->at == end) {
        return PARSER_MORE;
    }
    c = (unsigned char)data[parser->at];
    head->target_len = (uint32_t)parser->at - head->target_at;
    if (c != ' ' || head->target_len == 0) {
        if ((char_class[c] & TARGET) == 0) {
            return malformed(parser, "the request line is not METHOD TARGET HTTP/1.1");
        }
        ASSERT(head->target_len == LIMIT_HTTP_TARGET_BYTES);
        return too_large(parser, 414, "target_too_long", "the request target is too long",
                         LIMIT_HTTP_TARGET_BYTES);
    }
    parser->at++;
    parser->mark = parser->at;
    parser->state = SCAN_VERSION;
    if ((parser->is_connect || data[head->target_at] != '/') &&
        !is_other_target(data + head->target_at, head->target_len, parser->is_connect)) {
        object(parser, "invalid URL");
    }
    return scan_version(parser, data, end);
}

const char *method_name(enum method method)
{
    return method == METHOD_OTHER ? "OTHER" : methods[method];
}

HOT static enum parser_event scan_method(struct parser *parser, const char *data, size_t end)
{
    size_t bound = min_size(end, parser->mark + METHOD_BYTES_MAX);
    const char *name = data + parser->mark;
    size_t len;
    size_t i = 0;

    parser->at = run_end(data, parser->at, bound, METHOD);
    if (parser->at == end) {
        return PARSER_MORE;
    }
    if (data[parser->at] != ' ') {
        return malformed(parser, "the request does not begin with a method");
    }
    len = parser->at - parser->mark;
    while (i < COUNT_OF(methods) &&
           (strncmp(methods[i], name, len) != 0 || methods[i][len] != '\0')) {
        i++;
    }
    parser->head.method = i < METHOD_OTHER ? (enum method)i : METHOD_OTHER;
    parser->is_connect = i == CONNECT;
    if (i == COUNT_OF(methods)) {
        object(parser, "invalid HTTP method");
    }
    parser->at++;
    parser->head.target_at = (uint32_t)parser->at;
    parser->state = SCAN_TARGET;
    return scan_target(parser, data, end);
}

/* A request begins, or another empty line before it. */
HOT static enum parser_event scan_start(struct parser *parser, const char *data, size_t end)
{
    char c = data[parser->at];

    parser->mark = parser->at;
    if (c == '\r') {
        parser->at++;
        parser->state = SCAN_START_LF;
        return scan_lf(parser, data, end, SCAN_START);
    }
    if (c < 'A' || c > 'Z') {
        return malformed(parser, "the request does not begin with a method");
    }
    parser->state = SCAN_METHOD;
    return scan_method(parser, data, end);
}

HOT static enum parser_event scan_value(struct parser *parser, const char *data, size_t end)
{
    enum parser_event event;

    parser->at = run_end(data, parser->at, end, VALUE);
    if (parser->at == end) {
        return PARSER_MORE;
    }
    if (data[parser->at] != '\r') {
        return malformed(parser, "a header value with a control character or a bare LF");
    }
    event = header_done(parser, data);
    parser->at++;
    parser->state = SCAN_LINE_LF;
    return event == PARSER_MORE ? scan_lf(parser, data, end, SCAN_LINE) : event;
}

HOT static enum parser_event scan_name(struct parser *parser, const char *data, size_t end)
{
    parser->at = run_end(data, parser->at, end, TOKEN);
    if (parser->at == end) {
        return PARSER_MORE;
    }
    if (data[parser->at] != ':') {
        return malformed(parser, "a header name with a space or another illegal character");
    }
    parser->name_len = parser->at - parser->name_at;
    parser->at++;
    parser->mark = parser->at;
    parser->state = SCAN_VALUE;
    return scan_value(parser, data, end);
}

/* A line begins: a header, or the empty one that ends the head. */
HOT static enum parser_event scan_line(struct parser *parser, const char *data, size_t end)
{
    unsigned char c = (unsigned char)data[parser->at];

    if (c == '\r') {
        parser->at++;
        parser->state = SCAN_END_LF;
        return scan_lf(parser, data, end, SCAN_HEAD_DONE);
    }
    if (c == ' ' || c == '\t') {
        return malformed(parser, "a header folded over lines");
    }
    if ((char_class[c] & TOKEN) == 0) {
        return malformed(parser, "a header line does not begin with a name");
    }
    parser->header_count++;
    if (parser->header_count > LIMIT_HTTP_HEADER_COUNT) {
        return too_large(parser, 431, "headers_too_large", "too many header lines",
                         LIMIT_HTTP_HEADER_COUNT);
    }
    parser->name_at = parser->at;
    parser->state = SCAN_NAME;
    return scan_name(parser, data, end);
}

/* All lines have come: check the rules over several lines. */
HOT static enum parser_event head_done(struct parser *parser)
{
    struct parser_head *head = &parser->head;

    head->len = (uint32_t)parser->at;
    if (head->host.count > 1 || (head->host.count == 0 && !head->http_1_0)) {
        return malformed(parser, "HTTP/1.1 needs exactly one Host header");
    }
    if (parser->has_bad_host) {
        return malformed(parser, "the Host header is not host or host:port");
    }
    if (head->chunked && (parser->has_length || head->http_1_0)) {
        return malformed(parser, parser->has_length
                                     ? "Content-Length together with Transfer-Encoding"
                                     : "Transfer-Encoding in HTTP/1.0");
    }
    head->has_body = head->chunked || head->content_length > 0;
    head->expect_continue = head->expect_continue && head->has_body && !head->http_1_0;
    if (head->content_length > LIMIT_HTTP_BODY_BYTES) {
        return too_large(parser, 413, "body_too_large", "the request body is too large",
                         LIMIT_HTTP_BODY_BYTES);
    }
    if (parser->objection != NULL) {
        return malformed(parser, parser->objection);
    }
    parser->body_left = head->content_length;
    head->keep_alive = head->http_1_0 ? parser->says_keep_alive : !parser->says_close;
    return PARSER_DONE;
}

HOT enum parser_event parser_head(struct parser *parser, const char *data, size_t len)
{
    size_t end = min_size(len, LIMIT_HTTP_HEADERS_BYTES);

    ASSERT(parser->state < SCAN_HEAD_DONE);
    ASSERT(parser->at <= len);
    while (parser->at < end) { /* continue where the last bytes ended */
        enum parser_event event = PARSER_MORE;

        switch ((enum scan_state)parser->state) {
        case SCAN_START:
            event = scan_start(parser, data, end);
            break;
        case SCAN_START_LF:
            event = scan_lf(parser, data, end, SCAN_START);
            break;
        case SCAN_METHOD:
            event = scan_method(parser, data, end);
            break;
        case SCAN_TARGET:
            event = scan_target(parser, data, end);
            break;
        case SCAN_VERSION:
            event = scan_version(parser, data, end);
            break;
        case SCAN_LINE_LF:
            event = scan_lf(parser, data, end, SCAN_LINE);
            break;
        case SCAN_LINE:
            event = scan_line(parser, data, end);
            break;
        case SCAN_NAME:
            event = scan_name(parser, data, end);
            break;
        case SCAN_VALUE:
            event = scan_value(parser, data, end);
            break;
        case SCAN_END_LF:
            event = scan_lf(parser, data, end, SCAN_HEAD_DONE);
            break;
        case SCAN_HEAD_DONE:
            UNREACHABLE("a state of the scanner");
        }
        if (event != PARSER_MORE) {
            return event;
        }
        if (parser->state == SCAN_HEAD_DONE) {
            parser->state = 0;
            return head_done(parser);
        }
    }
    if (len > end) {
        return too_large(parser, 431, "headers_too_large", "the request head is too large",
                         LIMIT_HTTP_HEADERS_BYTES);
    }
    return PARSER_MORE;
}

/*
 * Bodies, by length or by strict chunks:
 *
 *   SIZE -> [EXTENSION] -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE ...
 *     size 0 -> TRAILER -> [TRAILER_NAME -> TRAILER_LINE -> TRAILER_LF] -> END_LF -> done
 *
 * Extensions and trailers are read and dropped, together within the bound of a head. They must be
 * well-formed (RFC 9112 7.1.1 and 5), since bytes that are part of them to one program may be the
 * end of a line to another:
 *
 *   EXT -> [= -> value] -> next ...      *( BWS ";" BWS token [ BWS "=" BWS ( token / quoted ) ] )
 *
 * parser->state is 0 when the head is done, so a chunked body begins with a size.
 */
enum body_state {
    BODY_SIZE = 0,
    BODY_EXT_SEMICOLON, /* spaces before a ';' */
    BODY_EXT_START,     /* after it */
    BODY_EXT_NAME,
    BODY_EXT_EQUALS, /* spaces after a name */
    BODY_EXT_VALUE_START,
    BODY_EXT_VALUE,
    BODY_EXT_QUOTED,
    BODY_EXT_ESCAPED, /* after a '\\' in quotes */
    BODY_EXT_END,     /* after the closing quote */
    BODY_SIZE_LF,
    BODY_DATA,
    BODY_DATA_CR,
    BODY_DATA_LF,
    BODY_TRAILER,
    BODY_TRAILER_NAME,
    BODY_TRAILER_LINE,
    BODY_TRAILER_LF,
    BODY_END_LF,
    BODY_DONE
};

static enum parser_event bad_chunk(struct parser *parser)
{
    return malformed(parser, "a malformed chunk in the request body");
}

static enum parser_event chunk_size(struct parser *parser, char c)
{
    int value = text_hex_digit(c);

    if (value >= 0 && parser->digit_count < CHUNK_DIGITS_MAX) {
        parser->digit_count++;
        parser->body_left = parser->body_left << 4 | (uint64_t)value;
        return PARSER_MORE;
    }
    if (parser->digit_count == 0 || (c != '\r' && c != ';' && !text_is_blank(c))) {
        return bad_chunk(parser);
    }
    if (parser->body_bytes + parser->body_left > LIMIT_HTTP_BODY_BYTES) {
        return too_large(parser, 413, "body_too_large", "the request body is too large",
                         LIMIT_HTTP_BODY_BYTES);
    }
    parser->state = c == '\r' ? BODY_SIZE_LF : c == ';' ? BODY_EXT_START : BODY_EXT_SEMICOLON;
    return PARSER_MORE;
}

/* After a name or a value: what may follow it. */
static enum parser_event extension_next(struct parser *parser, char c)
{
    bool is_name = parser->state == BODY_EXT_NAME || parser->state == BODY_EXT_EQUALS;
    bool is_spaced = parser->state == BODY_EXT_EQUALS || parser->state == BODY_EXT_SEMICOLON;

    if (c == ';') {
        parser->state = BODY_EXT_START;
    } else if (c == '=' && is_name) {
        parser->state = BODY_EXT_VALUE_START;
    } else if (text_is_blank(c)) {
        parser->state = is_name ? BODY_EXT_EQUALS : BODY_EXT_SEMICOLON;
    } else if (c == '\r' && !is_spaced) {
        parser->state = BODY_SIZE_LF;
    } else {
        return bad_chunk(parser);
    }
    return PARSER_MORE;
}

/* A byte of a chunk's extensions. */
static enum parser_event extension(struct parser *parser, char c)
{
    bool is_token = (char_class[(unsigned char)c] & TOKEN) != 0;

    switch (parser->state) {
    case BODY_EXT_START:
    case BODY_EXT_VALUE_START:
        if (is_token) {
            parser->state = parser->state == BODY_EXT_START ? BODY_EXT_NAME : BODY_EXT_VALUE;
        } else if (c == '"' && parser->state == BODY_EXT_VALUE_START) {
            parser->state = BODY_EXT_QUOTED;
        } else if (!text_is_blank(c)) {
            return bad_chunk(parser);
        }
        return PARSER_MORE;
    case BODY_EXT_NAME:
    case BODY_EXT_VALUE:
        return is_token ? PARSER_MORE : extension_next(parser, c);
    case BODY_EXT_QUOTED:
        parser->state = c == '"' ? BODY_EXT_END : c == '\\' ? BODY_EXT_ESCAPED : BODY_EXT_QUOTED;
        return (char_class[(unsigned char)c] & VALUE) != 0 ? PARSER_MORE : bad_chunk(parser);
    case BODY_EXT_ESCAPED:
        parser->state = BODY_EXT_QUOTED;
        return (char_class[(unsigned char)c] & VALUE) != 0 ? PARSER_MORE : bad_chunk(parser);
    default:
        return extension_next(parser, c);
    }
}

static enum parser_event line_feed(struct parser *parser, char c, int next)
{
    if (c != '\n') {
        return bad_chunk(parser);
    }
    parser->state = next;
    parser->digit_count = 0;
    return PARSER_MORE;
}

/* One byte of the framing, that is, not of a chunk's data. */
static enum parser_event chunk_step(struct parser *parser, char c)
{
    bool is_extension = parser->state > BODY_SIZE && parser->state < BODY_SIZE_LF;
    bool is_line =
        is_extension || (parser->state >= BODY_TRAILER && parser->state <= BODY_TRAILER_LINE);

    if (is_line && ++parser->line_bytes > LIMIT_HTTP_HEADERS_BYTES) {
        return too_large(parser, 431, "headers_too_large", "the chunks' trailers are too large",
                         LIMIT_HTTP_HEADERS_BYTES);
    }
    if (is_extension) {
        return extension(parser, c);
    }
    switch (parser->state) {
    case BODY_SIZE:
        return chunk_size(parser, c);
    case BODY_SIZE_LF:
        return line_feed(parser, c, parser->body_left > 0 ? BODY_DATA : BODY_TRAILER);
    case BODY_DATA_CR:
        parser->state = BODY_DATA_LF;
        return c == '\r' ? PARSER_MORE : bad_chunk(parser);
    case BODY_DATA_LF:
        return line_feed(parser, c, BODY_SIZE);
    case BODY_TRAILER:
        parser->state = c == '\r' ? BODY_END_LF : BODY_TRAILER_NAME;
        return c == '\r' || (char_class[(unsigned char)c] & TOKEN) != 0 ? PARSER_MORE
                                                                        : bad_chunk(parser);
    case BODY_TRAILER_NAME:
        parser->state = c == ':' ? BODY_TRAILER_LINE : BODY_TRAILER_NAME;
        return c == ':' || (char_class[(unsigned char)c] & TOKEN) != 0 ? PARSER_MORE
                                                                       : bad_chunk(parser);
    case BODY_TRAILER_LINE:
        parser->state = c == '\r' ? BODY_TRAILER_LF : BODY_TRAILER_LINE;
        return c == '\r' || (char_class[(unsigned char)c] & VALUE) != 0 ? PARSER_MORE
                                                                        : bad_chunk(parser);
    case BODY_TRAILER_LF:
        return line_feed(parser, c, BODY_TRAILER);
    case BODY_END_LF:
        return line_feed(parser, c, BODY_DONE) == PARSER_MORE ? PARSER_DONE : PARSER_REJECT;
    default:
        UNREACHABLE("a state of the chunks");
    }
}

/* Take as much of the due data as has come. */
static size_t take_data(struct parser *parser, char *to, const char *from, size_t len)
{
    size_t take = parser->body_left < len ? (size_t)parser->body_left : len;

    memmove(to, from, take);
    parser->body_left -= take;
    parser->body_bytes += take;
    return take;
}

enum parser_event parser_body(struct parser *parser, char *data, size_t len, size_t *ret_used,
                              size_t *ret_decoded)
{
    size_t decoded = 0;
    size_t at = 0;
    enum parser_event event = PARSER_MORE;

    ASSERT(parser->head.has_body);
    ASSERT(parser->state < BODY_DONE);
    if (!parser->head.chunked) {
        *ret_decoded = take_data(parser, data, data, len);
        *ret_used = *ret_decoded;
        return parser->body_left == 0 ? PARSER_DONE : PARSER_MORE;
    }
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
