/*
 * protocol.c - see protocol.h. HTTP is read by http-parser. Thread: the load's.
 */
#include "scripts/bench/protocol.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <http_parser.h>

#include "src/base/assert.h"

#define MARIADB_HEAD 4 /* three bytes of length, one of sequence */
#define MARIADB_ERROR_HEAD 9
#define MARIADB_OK 0x00
#define MARIADB_GREETING 0x0a
#define MARIADB_ERROR 0xff
#define MARIADB_QUERY 0x03
#define MARIADB_PREPARE 0x16
#define MARIADB_EXECUTE 0x17

static struct buf http_body; /* of the reply under way */

/* --- HTTP --- */

static int headers_cb(struct http_parser *parser)
{
    /* Without a length the end of the connection would be the end of the body. */
    return (parser->flags & (F_CHUNKED | F_CONTENTLENGTH)) || parser->status_code == 204 ? 0 : -1;
}

static int body_cb(struct http_parser *parser, const char *data, size_t len)
{
    (void)parser;
    buf_put(&http_body, data, len);
    return 0;
}

static int complete_cb(struct http_parser *parser)
{
    http_parser_pause(parser, 1);
    return 0;
}

static const char *http_take(const char *data, size_t len, struct reply *ret_reply,
                             size_t *ret_taken)
{
    static const struct http_parser_settings settings = {
        .on_headers_complete = headers_cb,
        .on_body = body_cb,
        .on_message_complete = complete_cb,
    };
    struct http_parser parser;
    enum http_errno error;
    size_t taken;

    http_parser_init(&parser, HTTP_RESPONSE);
    http_body.len = 0;
    taken = http_parser_execute(&parser, &settings, data, len);
    error = HTTP_PARSER_ERRNO(&parser);
    if (error == HPE_CB_headers_complete) {
        return "a reply without Content-Length";
    }
    if (parser.upgrade || (error != HPE_OK && error != HPE_PAUSED)) {
        return error != HPE_OK ? http_errno_description(error) : "a reply of another protocol";
    }
    if (error == HPE_PAUSED) {
        *ret_taken = taken;
        *ret_reply = (struct reply){
            .status = parser.status_code < 600 ? (int)parser.status_code : 599,
            .keep_alive = http_should_keep_alive(&parser) != 0,
            .body = (const char *)http_body.data,
            .len = http_body.len,
        };
    }
    return NULL;
}

static void http_put(struct buf *out, const char *method, const char *target, const char *body)
{
    buf_printf(out, "%s %s HTTP/1.1\r\nHost: bench\r\n", method, target);
    if (body != NULL) {
        buf_printf(out, "Content-Length: %zu\r\n", strlen(body));
    }
    buf_printf(out, "\r\n%s", body != NULL ? body : "");
}

/* --- RESP --- */

/* An integer or an error, each a line. */
static const char *resp_take(const char *data, size_t len, struct reply *ret_reply,
                             size_t *ret_taken)
{
    const char *end = memmem(data, len, "\r\n", 2);

    if (data[0] != ':' && data[0] != '-') {
        return "a reply that is no integer of RESP";
    }
    if (end != NULL) {
        *ret_taken = (size_t)(end - data) + 2;
        *ret_reply = (struct reply){data[0] == ':' ? 200 : 0, true, data + 1, *ret_taken - 3};
    }
    return NULL;
}

/* The words of a command, which blanks part. */
static void resp_put(struct buf *out, const char *command)
{
    BUF_LOCAL(words);
    size_t count = 0;
    size_t len;

    for (const char *at = command + strspn(command, " "); *at; at += len + strspn(at + len, " ")) {
        len = strcspn(at, " ");
        buf_printf(&words, "$%zu\r\n%.*s\r\n", len, (int)len, at);
        count++;
    }
    buf_printf(out, "*%zu\r\n", count);
    buf_put(out, words.data, words.len);
}

/* --- MariaDB --- */

/* An integer as MariaDB packs it. */
static uint64_t packed_integer(struct reader *reader)
{
    uint8_t first = reader_u8(reader);

    switch (first) {
    case 0xfc:
        return reader_u16(reader);
    case 0xfd:
        return reader_u16(reader) + ((uint64_t)reader_u8(reader) << 16);
    case 0xfe:
        return reader_u64(reader);
    default:
        return first;
    }
}

/* The first packet is an OK with the id, or an error. */
static const char *mariadb_take(const char *data, size_t len, struct reply *ret_reply,
                                size_t *ret_taken)
{
    static char id[24];
    struct reader reader;
    uint8_t kind;
    size_t size;

    reader_init(&reader, data, len);
    size = reader_u16(&reader);
    size += (size_t)reader_u8(&reader) << 16;
    reader_u8(&reader);
    kind = reader_u8(&reader);
    if (reader.bad || len < MARIADB_HEAD + size) {
        return NULL;
    }
    *ret_taken = MARIADB_HEAD + size;
    if (kind == MARIADB_ERROR && size >= MARIADB_ERROR_HEAD) {
        *ret_reply = (struct reply){0, true, data + MARIADB_HEAD + MARIADB_ERROR_HEAD,
                                    size - MARIADB_ERROR_HEAD};
        return NULL;
    }
    packed_integer(&reader); /* rows */
    snprintf(id, sizeof id, "%llu", (unsigned long long)packed_integer(&reader));
    *ret_reply = (struct reply){200, true, id, strlen(id)};
    return kind == MARIADB_OK && !reader.bad ? NULL
                                             : "a reply that is neither OK nor an error of MariaDB";
}

static void mariadb_put(struct buf *out, uint8_t sequence, const void *payload, size_t len)
{
    ASSERT(len < 1U << 24);
    buf_put_u32(out, (uint32_t)len | (uint32_t)sequence << 24);
    buf_put(out, payload, len);
}

/* A statement as text, or to be prepared. */
static void mariadb_put_text(struct buf *out, uint8_t command, const char *text)
{
    BUF_LOCAL(payload);

    buf_put_u8(&payload, command);
    buf_put(&payload, text, strlen(text));
    mariadb_put(out, 0, payload.data, payload.len);
}

/* Of the connection's last statement, which MariaDB knows as number -1; it has no parameters. */
static void mariadb_put_execute(struct buf *out)
{
    static const uint8_t payload[] = {MARIADB_EXECUTE, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0};

    mariadb_put(out, 0, payload, sizeof payload);
}

/* Send what is in out, and wait for a packet of one kind. */
static const char *mariadb_ask(int fd, struct buf *out, char kind)
{
    static char error[300];
    char data[200];
    ssize_t len = 0;

    if (send(fd, out->data, out->len, MSG_NOSIGNAL) == (ssize_t)out->len) {
        len = recv(fd, data, sizeof data, 0);
    }
    out->len = 0;
    if (len > MARIADB_HEAD && data[MARIADB_HEAD] == kind) {
        return NULL;
    }
    len -= MARIADB_HEAD + MARIADB_ERROR_HEAD;
    snprintf(error, sizeof error, "MariaDB: no answer as it must be: %.*s", len > 0 ? (int)len : 0,
             data + MARIADB_HEAD + MARIADB_ERROR_HEAD);
    return error;
}

/* Ask for the protocol of version 4.1, a database and the plug-in of passwords, of which there is
 * none: capabilities, largest packet, character set and padding; user, password, database. */
static void mariadb_put_login(struct buf *out)
{
    static const char rest[] = "bench\0\0bench\0mysql_native_password";
    static const uint8_t padding[23];
    BUF_LOCAL(payload);

    buf_put_u32(&payload, 0x8a209);
    buf_put_u32(&payload, 1U << 24);
    buf_put_u8(&payload, 33);
    buf_put(&payload, padding, sizeof padding);
    buf_put(&payload, rest, sizeof rest);
    mariadb_put(out, 1, payload.data, payload.len);
}

/* --- all --- */

const char *protocol_take(enum protocol protocol, const char *data, size_t len,
                          struct reply *ret_reply, size_t *ret_taken)
{
    const char *why;

    ASSERT(len > 0);
    *ret_taken = 0;
    if (protocol == PROTOCOL_HTTP) {
        why = http_take(data, len, ret_reply, ret_taken);
    } else if (protocol == PROTOCOL_RESP) {
        why = resp_take(data, len, ret_reply, ret_taken);
    } else {
        why = mariadb_take(data, len, ret_reply, ret_taken);
    }
    ASSERT(*ret_taken <= len);
    return why == NULL && *ret_taken == 0 && len > PROTOCOL_REPLY_MAX ? "a reply that is too large"
                                                                      : why;
}

void protocol_put(enum protocol protocol, struct buf *out, const char *method, const char *target,
                  const char *body)
{
    switch (protocol) {
    case PROTOCOL_HTTP:
        http_put(out, method, target, body);
        return;
    case PROTOCOL_RESP:
        resp_put(out, target);
        return;
    case PROTOCOL_MARIADB:
        mariadb_put_text(out, MARIADB_QUERY, target);
        return;
    case PROTOCOL_MARIADB_PREPARED:
        mariadb_put_execute(out);
        return;
    default:
        UNREACHABLE("no such protocol");
    }
}

const char *protocol_hello(enum protocol protocol, int fd, const char *target)
{
    BUF_LOCAL(out);
    const char *why = NULL;

    if (protocol == PROTOCOL_MARIADB || protocol == PROTOCOL_MARIADB_PREPARED) {
        why = mariadb_ask(fd, &out, MARIADB_GREETING); /* it speaks first */
        mariadb_put_login(&out);
        why = why != NULL ? why : mariadb_ask(fd, &out, MARIADB_OK);
    }
    if (protocol == PROTOCOL_MARIADB_PREPARED && why == NULL) {
        mariadb_put_text(&out, MARIADB_PREPARE, target);
        why = mariadb_ask(fd, &out, MARIADB_OK);
    }
    return why;
}
