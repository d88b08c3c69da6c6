/*
 * parser.c - see parser.h. The head's scanner, the meaning of its headers, and http-parser's
 * verdict.
 *
 *   START -> METHOD -> TARGET -> VERSION -> LINE_LF -> LINE -> NAME -> VALUE -> LINE_LF ...
 *     ^ empty lines before the request          |         LINE -> END_LF -> HEAD_DONE
 *
 * A state takes as many bytes at once as belong to its element. Nothing but the place is kept, so
 * it makes no difference in how many pieces the bytes came.
 *
 * Reading each head a second time costs more than all the rest of a request. http-parser has
 * nothing to add to a plain head: a known method, a path of characters that it lets pass, HTTP/1.1,
 * and no header that it acts on but "Connection: keep-alive". Whatever is not plain it is asked
 * about. tests/test_parser_same.c holds this against a parser that takes one byte at a time and
 * always asks.
 *
 * Thread: one owner each.
 */
#include "http/proto/parser.h"

#include <http_parser.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/hot.h"

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

/* What a byte may be part of. */
#define METHOD 0x01
#define TARGET 0x02
#define PLAIN 0x04 /* of a target, and http-parser takes it in any path or query */
#define TOKEN 0x08 /* names of headers: tchar of RFC 9110 */
#define VALUE 0x10 /* values of headers */
#define IN_URL (TARGET | PLAIN | VALUE)
#define IN_NAME (IN_URL | TOKEN)

static const uint8_t char_class[256] = {
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['!'] = IN_NAME,
    ['"'] = IN_URL,
    ['#'] = TARGET | TOKEN | VALUE,
    ['$' ... '\''] = IN_NAME,
    ['(' ... ')'] = IN_URL,
    ['*' ... '+'] = IN_NAME,
    [','] = IN_URL,
    ['-'] = IN_NAME | METHOD,
    ['.'] = IN_NAME,
    ['/'] = IN_URL,
    ['0' ... '9'] = IN_NAME,
    [':' ... '@'] = IN_URL,
    ['A' ... 'Z'] = IN_NAME | METHOD,
    ['[' ... ']'] = IN_URL,
    ['^' ... 'z'] = IN_NAME,
    ['{'] = IN_URL,
    ['|'] = IN_NAME,
    ['}'] = IN_URL,
    ['~'] = IN_NAME,
    [0x80 ... 0xff] = TARGET | VALUE,
};

/* Headers that mean something to framing or to http-parser. */
enum header {
    HEADER_OTHER,
    HEADER_HOST,
    HEADER_EXPECT,
    HEADER_UPGRADE,
    HEADER_CONNECTION,
    HEADER_CONTENT_LENGTH,
    HEADER_IDEMPOTENCY_KEY,
    HEADER_PROXY_CONNECTION,
    HEADER_TRANSFER_ENCODING
};

/* By the length of their names, in which they all differ. */
static const struct {
    const char *name;
    enum header header;
} headers[] = {
    [4] = {"host", HEADER_HOST},
    [6] = {"expect", HEADER_EXPECT},
    [7] = {"upgrade", HEADER_UPGRADE},
    [10] = {"connection", HEADER_CONNECTION},
    [14] = {"content-length", HEADER_CONTENT_LENGTH},
    [15] = {"idempotency-key", HEADER_IDEMPOTENCY_KEY},
    [16] = {"proxy-connection", HEADER_PROXY_CONNECTION},
    [17] = {"transfer-encoding", HEADER_TRANSFER_ENCODING},
};

HOT void parser_init(struct parser *parser)
{
    *parser = (struct parser){.state = SCAN_START};
}

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

/* The first place from `at` on that has a byte of another class, or end. */
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

/* The word is in lower case; ASCII, whatever the locale. */
HOT static bool is_word(const char *text, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if ((c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c) != word[i]) {
            return false;
        }
    }
    return true;
}

static bool equals(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && is_word(text, word, len);
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

HOT static enum header header_of(const char *name, size_t len)
{
    if (len >= sizeof(headers) / sizeof(headers[0]) || headers[len].name == NULL ||
        !is_word(name, headers[len].name, len)) {
        return HEADER_OTHER;
    }
    return headers[len].header;
}

/* A header line is complete: take what framing needs from it. */
HOT static enum parser_event header_done(struct parser *parser, const char *data)
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
    switch (header_of(name, parser->name_len)) {
    case HEADER_OTHER:
        return PARSER_MORE;
    case HEADER_HOST:
        parser->host_count++;
        return PARSER_MORE;
    case HEADER_EXPECT:
        parser->head.expect_continue = equals(value, len, "100-continue");
        return PARSER_MORE;
    case HEADER_CONNECTION:
        parser->not_plain |= !equals(value, len, "keep-alive");
        return PARSER_MORE;
    case HEADER_UPGRADE:
    case HEADER_PROXY_CONNECTION:
        parser->not_plain = true;
        return PARSER_MORE;
    case HEADER_IDEMPOTENCY_KEY:
        parser->head.key_count++;
        parser->head.key_at = (uint32_t)(value - data);
        parser->head.key_len = (uint32_t)len;
        return PARSER_MORE;
    case HEADER_CONTENT_LENGTH:
        parser->not_plain = true;
        return header_length(parser, value, len);
    case HEADER_TRANSFER_ENCODING:
        parser->not_plain = true;
        return header_transfer(parser, value, len);
    }
    UNREACHABLE("a header");
}

/*
 * The states. Each takes what belongs to its element from parser->at on, and hands over to the next
 * one; at the end of the bytes it stays. A line's end brings parser_head() back into play.
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
    parser->not_plain |= parser->head.http_1_0;
    parser->at++;
    parser->state = SCAN_LINE_LF;
    return scan_lf(parser, data, end, SCAN_LINE);
}

/* A byte at which a target does not go on: it ends, or it is refused. */
HOT static enum parser_event target_done(struct parser *parser, unsigned char c)
{
    parser->head.target_len = (uint32_t)parser->at - parser->head.target_at;
    if (c == ' ' && parser->head.target_len > 0) {
        parser->at++;
        parser->mark = parser->at;
        parser->state = SCAN_VERSION;
        return PARSER_MORE;
    }
    if ((char_class[c] & TARGET) == 0) {
        return malformed(parser, "the request line is not METHOD TARGET HTTP/1.1");
    }
    ASSERT(parser->head.target_len == LIMIT_HTTP_TARGET_BYTES);
    return too_large(parser, 414, "target_too_long", "the request target is too long",
                     LIMIT_HTTP_TARGET_BYTES);
}

HOT static enum parser_event scan_target(struct parser *parser, const char *data, size_t end)
{
    size_t bound = min_size(end, parser->head.target_at + LIMIT_HTTP_TARGET_BYTES);
    size_t plain_end = run_end(data, parser->at, bound, PLAIN);
    enum parser_event event;

    parser->at = run_end(data, plain_end, bound, TARGET);
    parser->not_plain |= parser->at > plain_end;
    if (parser->at == end) {
        return PARSER_MORE;
    }
    parser->not_plain |= data[parser->head.target_at] != '/';
    event = target_done(parser, (unsigned char)data[parser->at]);
    return event == PARSER_MORE ? scan_version(parser, data, end) : event;
}

/* The methods that leafd may serve; of any other http-parser says whether it is one. */
static enum verb verb_named(const char *name, size_t len)
{
#define IS(word) (len == sizeof(word) - 1 && memcmp(name, word, sizeof(word) - 1) == 0)
    return IS("GET")      ? VERB_GET
           : IS("POST")   ? VERB_POST
           : IS("HEAD")   ? VERB_HEAD
           : IS("PUT")    ? VERB_PUT
           : IS("DELETE") ? VERB_DELETE
                          : VERB_OTHER;
#undef IS
}

HOT static enum parser_event scan_method(struct parser *parser, const char *data, size_t end)
{
    size_t bound = min_size(end, parser->mark + METHOD_BYTES_MAX);

    parser->at = run_end(data, parser->at, bound, METHOD);
    if (parser->at == end) {
        return PARSER_MORE;
    }
    if (data[parser->at] != ' ') {
        return malformed(parser, "the request does not begin with a method");
    }
    parser->head.verb = verb_named(data + parser->mark, parser->at - parser->mark);
    parser->not_plain |= parser->head.verb == VERB_OTHER;
    parser->at++;
    parser->head.target_at = (uint32_t)parser->at;
    parser->state = SCAN_TARGET;
    return scan_target(parser, data, end);
}

/* A request begins, or one more empty line before it. */
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

/* Go on where the last bytes ended. There is a byte at parser->at. */
HOT static enum parser_event scan(struct parser *parser, const char *data, size_t end)
{
    switch ((enum scan_state)parser->state) {
    case SCAN_START:
        return scan_start(parser, data, end);
    case SCAN_START_LF:
        return scan_lf(parser, data, end, SCAN_START);
    case SCAN_METHOD:
        return scan_method(parser, data, end);
    case SCAN_TARGET:
        return scan_target(parser, data, end);
    case SCAN_VERSION:
        return scan_version(parser, data, end);
    case SCAN_LINE_LF:
        return scan_lf(parser, data, end, SCAN_LINE);
    case SCAN_LINE:
        return scan_line(parser, data, end);
    case SCAN_NAME:
        return scan_name(parser, data, end);
    case SCAN_VALUE:
        return scan_value(parser, data, end);
    case SCAN_END_LF:
        return scan_lf(parser, data, end, SCAN_HEAD_DONE);
    case SCAN_HEAD_DONE:
        break;
    }
    UNREACHABLE("a state of the scanner");
}

/* The body is framed by parser_body(), so http-parser is told there is none; an upgrade is not
 * taken, so the request is answered as an ordinary one. */
static int headers_complete_cb(http_parser *core)
{
    core->upgrade = 0;
    return 1;
}

static enum verb verb_of(const http_parser *core)
{
    switch (core->method) {
    case HTTP_GET:
        return VERB_GET;
    case HTTP_HEAD:
        return VERB_HEAD;
    case HTTP_POST:
        return VERB_POST;
    case HTTP_PUT:
        return VERB_PUT;
    case HTTP_DELETE:
        return VERB_DELETE;
    default:
        return VERB_OTHER;
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
    if (HTTP_PARSER_ERRNO(&core) != HPE_OK) {
        return malformed(parser, http_errno_description(HTTP_PARSER_ERRNO(&core)));
    }
    if (used != parser->head.len || !complete) {
        return malformed(parser, "the request head is malformed");
    }
    parser->head.verb = verb_of(&core);
    parser->head.keep_alive = http_should_keep_alive(&core) != 0;
    return PARSER_DONE;
}

/* All lines are there: the rules that no single line shows. */
HOT static enum parser_event head_done(struct parser *parser, const char *data)
{
    struct parser_head *head = &parser->head;

    head->len = (uint32_t)parser->at;
    if (parser->host_count > 1 || (parser->host_count == 0 && !head->http_1_0)) {
        return malformed(parser, "HTTP/1.1 needs exactly one Host header");
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
    if (parser->not_plain) {
        return head_confirm(parser, data);
    }
    head->keep_alive = true;
    return PARSER_DONE;
}

HOT enum parser_event parser_head(struct parser *parser, const char *data, size_t len)
{
    size_t end = min_size(len, LIMIT_HTTP_HEADERS_BYTES);

    ASSERT(parser->state < SCAN_HEAD_DONE);
    ASSERT(parser->at <= len);
    while (parser->at < end) {
        enum parser_event event = scan(parser, data, end);

        if (event != PARSER_MORE) {
            return event;
        }
        if (parser->state == SCAN_HEAD_DONE) {
            parser->state = 0;
            return head_done(parser, data);
        }
    }
    if (len > end) {
        return too_large(parser, 431, "headers_too_large", "the request head is too large",
                         LIMIT_HTTP_HEADERS_BYTES);
    }
    return PARSER_MORE;
}
