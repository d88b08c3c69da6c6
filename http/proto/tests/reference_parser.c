/*
 * reference_parser.c - see reference_parser.h.
 *
 *   START -> METHOD -> TARGET -> VERSION -> LINE_LF -> LINE -> NAME -> VALUE -> LINE_LF ...
 *     ^ empty lines before the request          |         LINE -> END_LF -> HEAD_DONE
 *
 * Thread: one owner each.
 */
#include "http/proto/tests/reference_parser.h"

#include <http_parser.h>
#include <regex.h>
#include <string.h>
#include <strings.h>

#include "http/proto/text.h"
#include "src/base/assert.h"

#define METHOD_BYTES_MAX 20
#define VERSION_BYTES 8 /* "HTTP/1.1" */

enum scan_state {
    SCAN_START,
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

static enum parser_event malformed(struct parser *parser, const char *why)
{
    parser->reject = (struct parser_reject){400, "bad_request", why, 0};
    return PARSER_REJECT;
}

static enum parser_event too_large(struct parser *parser, int status, const char *code,
                                   const char *why, uint64_t limit)
{
    parser->reject = (struct parser_reject){status, code, why, limit};
    return PARSER_REJECT;
}

/* tchar of RFC 9110: what names of headers are made of. */
static bool is_token_char(unsigned char c)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && memchr(others, c, sizeof(others) - 1) != NULL);
}

static bool equals(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

static enum parser_event header_length(struct parser *parser, const char *value, size_t len)
{
    if (parser->has_length) {
        return malformed(parser, "Content-Length is given twice");
    }
    parser->has_length = true;
    if (text_parse_decimal(value, len, 0, UINT64_MAX, &parser->head.content_length) != 0) {
        return malformed(parser, "Content-Length is not a decimal number");
    }
    return PARSER_MORE;
}

static enum parser_event header_transfer(struct parser *parser, const char *value, size_t len)
{
    if (parser->head.chunked || !equals(value, len, "chunked")) {
        return malformed(parser, "Transfer-Encoding may only be one \"chunked\"");
    }
    parser->head.chunked = true;
    return PARSER_MORE;
}

static void reference_field(struct parser_field *field, const char *data, const char *value,
                            size_t len)
{
    *field = (struct parser_field){field->count + 1, (uint32_t)(value - data), (uint32_t)len};
}

/* RFC 9112 3.2, by a regular expression: the port may be empty, and so may the host. */
static bool is_host(const char *value, size_t len)
{
    static const char pattern[] = "^(\\[[0-9A-Fa-f:.]+[]]|([A-Za-z0-9._~!$&'()*+,;=-]|"
                                  "%[0-9A-Fa-f][0-9A-Fa-f])*)(:[0-9]*)?$";
    static regex_t regex;
    static bool ready;
    char text[LIMIT_HTTP_HEADERS_BYTES + 1];

    if (!ready) {
        ASSERT(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) == 0);
        ready = true;
    }
    memcpy(text, value, len);
    text[len] = '\0';
    return regexec(&regex, text, 0, NULL, 0) == 0;
}

/* A header line is complete: take what framing needs from it. */
static enum parser_event header_done(struct parser *parser, const char *data)
{
    const char *name = data + parser->name_at;
    const char *value = data + parser->mark;
    size_t len = parser->at - parser->mark;

    while (len > 0 && (value[0] == ' ' || value[0] == '\t')) {
        value++;
        len--;
    }
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t')) {
        len--;
    }
    if (equals(name, parser->name_len, "host")) {
        reference_field(&parser->head.host, data, value, len);
        parser->has_bad_host |= !is_host(value, len);
    } else if (equals(name, parser->name_len, "sec-fetch-site")) {
        reference_field(&parser->head.fetch_site, data, value, len);
    } else if (equals(name, parser->name_len, "origin")) {
        reference_field(&parser->head.origin, data, value, len);
    } else if (equals(name, parser->name_len, "authorization")) {
        reference_field(&parser->head.authorization, data, value, len);
    } else if (equals(name, parser->name_len, "content-type")) {
        reference_field(&parser->head.content_type, data, value, len);
    } else if (equals(name, parser->name_len, "content-length")) {
        return header_length(parser, value, len);
    } else if (equals(name, parser->name_len, "transfer-encoding")) {
        return header_transfer(parser, value, len);
    } else if (equals(name, parser->name_len, "expect")) {
        parser->head.expect_continue = equals(value, len, "100-continue");
    } else if (equals(name, parser->name_len, "idempotency-key")) {
        reference_field(&parser->head.key, data, value, len);
    } else if (equals(name, parser->name_len, "traceparent")) {
        reference_field(&parser->head.traceparent, data, value, len);
    }
    return PARSER_MORE;
}

static enum parser_event version_done(struct parser *parser, const char *data)
{
    const char *version = data + parser->mark;

    if (parser->at - parser->mark != VERSION_BYTES ||
        (memcmp(version, "HTTP/1.1", VERSION_BYTES) != 0 &&
         memcmp(version, "HTTP/1.0", VERSION_BYTES) != 0)) {
        return malformed(parser, "the protocol version is not HTTP/1.1 or HTTP/1.0");
    }
    parser->head.http_1_0 = version[VERSION_BYTES - 1] == '0';
    parser->state = SCAN_LINE_LF;
    return PARSER_MORE;
}

/* One byte of the request line. */
static enum parser_event scan_request_line(struct parser *parser, const char *data, unsigned char c)
{
    switch (parser->state) {
    case SCAN_START:
        parser->mark = parser->at;
        parser->state = c == '\r' ? SCAN_START_LF : SCAN_METHOD;
        return c == '\r' || (c >= 'A' && c <= 'Z')
                   ? PARSER_MORE
                   : malformed(parser, "the request does not begin with a method");
    case SCAN_START_LF:
        parser->state = SCAN_START;
        return c == '\n' ? PARSER_MORE : malformed(parser, "a CR without its LF");
    case SCAN_METHOD:
        if (c == ' ') {
            parser->head.target_at = (uint32_t)parser->at + 1;
            parser->state = SCAN_TARGET;
            return PARSER_MORE;
        }
        return ((c >= 'A' && c <= 'Z') || c == '-') && parser->at - parser->mark < METHOD_BYTES_MAX
                   ? PARSER_MORE
                   : malformed(parser, "the request does not begin with a method");
    case SCAN_TARGET:
        parser->head.target_len = (uint32_t)parser->at - parser->head.target_at;
        if (c == ' ' && parser->head.target_len > 0) {
            parser->mark = parser->at + 1;
            parser->state = SCAN_VERSION;
            return PARSER_MORE;
        }
        if (c <= ' ' || c == 0x7f) {
            return malformed(parser, "the request line is not METHOD TARGET HTTP/1.1");
        }
        return parser->head.target_len < LIMIT_HTTP_TARGET_BYTES
                   ? PARSER_MORE
                   : too_large(parser, 414, "target_too_long", "the request target is too long",
                               LIMIT_HTTP_TARGET_BYTES);
    case SCAN_VERSION:
        if (c == '\r') {
            return version_done(parser, data);
        }
        return parser->at - parser->mark < VERSION_BYTES
                   ? PARSER_MORE
                   : malformed(parser, "the protocol version is not HTTP/1.1 or HTTP/1.0");
    default:
        UNREACHABLE("a state of the request line");
    }
}

static enum parser_event scan_name(struct parser *parser, unsigned char c)
{
    if (c == ':') {
        parser->name_len = parser->at - parser->name_at;
        parser->mark = parser->at + 1;
        parser->state = SCAN_VALUE;
        return PARSER_MORE;
    }
    return is_token_char(c)
               ? PARSER_MORE
               : malformed(parser, "a header name with a space or another illegal character");
}

static enum parser_event scan_line(struct parser *parser, unsigned char c)
{
    if (c == '\r') {
        parser->state = SCAN_END_LF;
        return PARSER_MORE;
    }
    if (c == ' ' || c == '\t') {
        return malformed(parser, "a header folded over lines");
    }
    if (!is_token_char(c)) {
        return malformed(parser, "a header line does not begin with a name");
    }
    parser->header_count++;
    if (parser->header_count > LIMIT_HTTP_HEADER_COUNT) {
        return too_large(parser, 431, "headers_too_large", "too many header lines",
                         LIMIT_HTTP_HEADER_COUNT);
    }
    parser->name_at = parser->at;
    parser->state = SCAN_NAME;
    return PARSER_MORE;
}

/* One byte of the header lines. */
static enum parser_event scan_headers(struct parser *parser, const char *data, unsigned char c)
{
    switch (parser->state) {
    case SCAN_LINE_LF:
        parser->state = SCAN_LINE;
        return c == '\n' ? PARSER_MORE : malformed(parser, "a CR without its LF");
    case SCAN_LINE:
        return scan_line(parser, c);
    case SCAN_NAME:
        return scan_name(parser, c);
    case SCAN_VALUE:
        if (c == '\r') {
            parser->state = SCAN_LINE_LF;
            return header_done(parser, data);
        }
        return (c >= ' ' && c != 0x7f) || c == '\t'
                   ? PARSER_MORE
                   : malformed(parser, "a header value with a control character or a bare LF");
    case SCAN_END_LF:
        parser->state = SCAN_HEAD_DONE;
        return c == '\n' ? PARSER_MORE : malformed(parser, "a CR without its LF");
    default:
        UNREACHABLE("a state of the header lines");
    }
}

/* The body is framed by parser_body(), so http-parser is told there is none; an upgrade is not
 * taken, so the request is answered as an ordinary one. */
static int headers_complete_cb(http_parser *core)
{
    core->upgrade = 0;
    return 1;
}

static enum method method_of(const http_parser *core)
{
    switch (core->method) {
    case HTTP_GET:
        return METHOD_GET;
    case HTTP_HEAD:
        return METHOD_HEAD;
    case HTTP_POST:
        return METHOD_POST;
    case HTTP_PUT:
        return METHOD_PUT;
    case HTTP_DELETE:
        return METHOD_DELETE;
    case HTTP_OPTIONS:
        return METHOD_OPTIONS;
    default:
        return METHOD_OTHER;
    }
}

static int message_complete_cb(http_parser *core)
{
    bool *complete = core->data;

    *complete = true;
    return 0;
}

/* Let http-parser read the whole head too: it must come to the same end. */
static enum parser_event head_confirm(struct parser *parser, const char *data)
{
    http_parser_settings settings;
    bool complete = false;
    http_parser core;
    size_t used;

    http_parser_settings_init(&settings);
    settings.on_headers_complete = headers_complete_cb;
    settings.on_message_complete = message_complete_cb;
    http_parser_init(&core, HTTP_REQUEST);
    core.data = &complete;
    used = http_parser_execute(&core, &settings, data, parser->head.len);
    if (HTTP_PARSER_ERRNO(&core) == HPE_UNEXPECTED_CONTENT_LENGTH && !parser->head.chunked) {
        /* It takes a header whose name only begins with Transfer-Encoding for that one. All lines
         * were read. */
        used = parser->head.len;
        complete = true;
    } else if (HTTP_PARSER_ERRNO(&core) != HPE_OK) {
        return malformed(parser, http_errno_description(HTTP_PARSER_ERRNO(&core)));
    }
    if (used != parser->head.len || !complete) {
        return malformed(parser, "the request head is malformed");
    }
    parser->head.method = method_of(&core);
    parser->head.keep_alive = http_should_keep_alive(&core) != 0;
    return PARSER_DONE;
}

/* All lines are there: the rules that no single line shows. */
static enum parser_event head_done(struct parser *parser, const char *data)
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
    parser->body_left = head->content_length;
    return head_confirm(parser, data);
}

enum parser_event reference_head(struct parser *parser, const char *data, size_t len)
{
    ASSERT(parser->state < SCAN_HEAD_DONE);
    ASSERT(parser->at <= len);
    while (parser->at < len) {
        unsigned char c = (unsigned char)data[parser->at];
        enum parser_event event;

        if (parser->at == LIMIT_HTTP_HEADERS_BYTES) {
            return too_large(parser, 431, "headers_too_large", "the request head is too large",
                             LIMIT_HTTP_HEADERS_BYTES);
        }
        event = parser->state <= SCAN_VERSION ? scan_request_line(parser, data, c)
                                              : scan_headers(parser, data, c);
        if (event != PARSER_MORE) {
            return event;
        }
        parser->at++;
        if (parser->state == SCAN_HEAD_DONE) {
            parser->state = 0;
            return head_done(parser, data);
        }
    }
    return PARSER_MORE;
}
