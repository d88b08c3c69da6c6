/*
 * reply.c - see reply.h: HTTP, by http-parser. Thread: the load's.
 */
#include "scripts/bench/reply.h"

#include "src/base/assert.h"

static int headers_cb(struct http_parser *parser)
{
    /* Without a length the end of the connection would be the end of the body. */
    return (parser->flags & (F_CHUNKED | F_CONTENTLENGTH)) || parser->status_code == 204 ? 0 : -1;
}

static int body_cb(struct http_parser *parser, const char *data, size_t len)
{
    struct reply_reader *reader = parser->data;

    if (reader->body.len + len > REPLY_BODY_MAX) {
        return -1;
    }
    buf_put(&reader->body, data, len);
    return 0;
}

static int complete_cb(struct http_parser *parser)
{
    struct reply_reader *reader = parser->data;
    struct reply reply = {
        .status = parser->status_code < 600 ? (int)parser->status_code : 599,
        .keep_alive = http_should_keep_alive(parser) != 0,
        .body = (const char *)reader->body.data,
        .len = reader->body.len,
    };

    reader->refused = !reader->cb(reader->data, &reply);
    reader->body.len = 0;
    return reader->refused ? -1 : 0;
}

void reply_init(struct reply_reader *reader, enum reply_protocol protocol, reply_cb *cb, void *data)
{
    *reader = (struct reply_reader){.protocol = protocol, .cb = cb, .data = data};
    http_parser_init(&reader->parser, HTTP_RESPONSE);
    reader->parser.data = reader;
}

void reply_free(struct reply_reader *reader)
{
    buf_free(&reader->body);
}

const char *reply_feed(struct reply_reader *reader, const char *data, size_t len)
{
    static const struct http_parser_settings settings = {
        .on_headers_complete = headers_cb,
        .on_body = body_cb,
        .on_message_complete = complete_cb,
    };
    size_t taken;

    ASSERT(len > 0 && !reader->refused);
    if (reader->protocol == REPLY_RESP) {
        return reply_feed_resp(reader, data, len);
    }
    taken = http_parser_execute(&reader->parser, &settings, data, len);
    if (reader->refused) {
        return "a reply that nobody asked for";
    }
    if (HTTP_PARSER_ERRNO(&reader->parser) == HPE_CB_headers_complete) {
        return "a reply without Content-Length";
    }
    if (HTTP_PARSER_ERRNO(&reader->parser) == HPE_CB_body) {
        return "a reply that is too large";
    }
    if (HTTP_PARSER_ERRNO(&reader->parser) != HPE_OK) {
        return http_errno_description(HTTP_PARSER_ERRNO(&reader->parser));
    }
    return taken == len && !reader->parser.upgrade ? NULL : "a reply of another protocol";
}
