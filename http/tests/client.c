/*
 * meter.c - see meter.h.
 */
#include "http/tests/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"

struct client *client_open(uint16_t port)
{
    const struct timeval limit = {.tv_sec = CLIENT_TIMEOUT_S};
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    struct client *client = malloc(sizeof *client);

    ASSERT(client != NULL);
    client->start = 0;
    client->end = 0;
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(client->fd >= 0);
    /* Without a time limit yet: then a signal does not end the call. */
    assert_int_equal(connect(client->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return client;
}

void client_close(struct client *client)
{
    close(client->fd);
    free(client);
}

bool client_try_send(struct client *client, const void *data, size_t len)
{
    const char *at = data;

    while (len > 0) {
        ssize_t sent = TEMP_FAILURE_RETRY(send(client->fd, at, len, MSG_NOSIGNAL));

        if (sent < 0) {
            assert_true(errno == EPIPE || errno == ECONNRESET);
            return false;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

void client_send(struct client *client, const void *data, size_t len)
{
    assert_true(client_try_send(client, data, len));
}

void client_printf(struct client *client, const char *format, ...)
{
    char text[32 << 10];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert_true(len >= 0 && (size_t)len < sizeof(text));
    client_send(client, text, (size_t)len);
}

void client_request(struct client *client, const char *method, const char *target, const char *body)
{
    client_printf(client, "%s %s HTTP/1.1\r\nHost: test\r\n", method, target);
    if (body != NULL) {
        client_printf(client, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                      strlen(body));
        client_send(client, body, strlen(body));
    } else {
        client_printf(client, "\r\n");
    }
}

/* Read more; 0 at the end. */
static size_t fill(struct client *client)
{
    ssize_t got;

    if (client->start > 0) {
        memmove(client->buffer, client->buffer + client->start, client->end - client->start);
        client->end -= client->start;
        client->start = 0;
    }
    assert_true(client->end < sizeof(client->buffer));
    got = TEMP_FAILURE_RETRY(
        recv(client->fd, client->buffer + client->end, sizeof(client->buffer) - client->end, 0));
    if (got < 0) {
        fail_msg("recv: %s", strerror(errno));
    }
    client->end += (size_t)got;
    return (size_t)got;
}

bool client_has_input(const struct client *client)
{
    char byte;

    return client->start < client->end || recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

const char *reply_header(const struct reply *reply, const char *name)
{
    static _Thread_local char value[512];
    size_t name_len = strlen(name);
    const char *line = strstr(reply->head, "\r\n");

    while (line != NULL && line[2] != '\r') {
        const char *end = strstr(line + 2, "\r\n");

        line += 2;
        if (strncasecmp(line, name, name_len) == 0 && line[name_len] == ':') {
            line += name_len + 2;
            assert_true((size_t)(end - line) < sizeof(value));
            memcpy(value, line, (size_t)(end - line));
            value[end - line] = '\0';
            return value;
        }
        line = end;
    }
    return NULL;
}

static void read_head(struct client *client, struct reply *reply)
{
    const char *end;
    size_t len;

    while ((end = memmem(client->buffer + client->start, client->end - client->start, "\r\n\r\n",
                         4)) == NULL) {
        assert_true(fill(client) > 0);
    }
    len = (size_t)(end - (client->buffer + client->start)) + 4;
    assert_true(len < sizeof(reply->head));
    memcpy(reply->head, client->buffer + client->start, len);
    reply->head[len] = '\0';
    client->start += len;
    assert_int_equal(sscanf(reply->head, "HTTP/1.1 %d", &reply->status), 1);
}

void client_read(struct client *client, bool no_body, struct reply *reply)
{
    const char *length;
    size_t at = 0;

    read_head(client, reply);
    length = reply_header(reply, "Content-Length");
    reply->len = length != NULL && !no_body ? (size_t)strtoull(length, NULL, 10) : 0;
    reply->body = malloc(reply->len + 1);
    ASSERT(reply->body != NULL);
    while (at < reply->len) {
        size_t take = client->end - client->start;

        if (take == 0) {
            assert_true(fill(client) > 0);
            continue;
        }
        take = take < reply->len - at ? take : reply->len - at;
        memcpy(reply->body + at, client->buffer + client->start, take);
        client->start += take;
        at += take;
    }
    reply->body[at] = '\0';
}

void reply_release(struct reply *reply)
{
    free(reply->body);
    reply->body = NULL;
}

void client_call(struct client *client, const char *method, const char *target, const char *body,
                 struct reply *reply)
{
    client_request(client, method, target, body);
    client_read(client, strcmp(method, "HEAD") == 0, reply);
}

void client_expect_end(struct client *client)
{
    char byte;
    ssize_t got;

    assert_int_equal(client->start, client->end);
    got = TEMP_FAILURE_RETRY(recv(client->fd, &byte, 1, 0));
    assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
}

void client_expect_reply(struct client *client, int status, const char *connection)
{
    const char *header;
    struct reply reply;

    client_read(client, false, &reply);
    if (reply.status != status) {
        print_error("wanted %d, got %s%s\n", status, reply.head, reply.body);
    }
    assert_int_equal(reply.status, status);
    header = reply_header(&reply, "Connection");
    assert_int_equal(header == NULL, connection == NULL);
    if (connection != NULL) {
        assert_string_equal(header, connection);
    }
    reply_release(&reply);
}

void client_expect_part(struct client *client, const char *method, const char *target,
                        const char *body, int status, const char *part)
{
    struct reply reply;

    client_call(client, method, target, body, &reply);
    if (reply.status != status || strstr(reply.body, part) == NULL) {
        print_error("%s %s %s: wanted %d %s, got %d %s\n", method, target, body != NULL ? body : "",
                    status, part, reply.status, reply.body);
        fail();
    }
    reply_release(&reply);
}

void client_expect(struct client *client, const char *method, const char *target, int status,
                   const char *body)
{
    struct reply reply;

    client_call(client, method, target, NULL, &reply);
    if (body != NULL) {
        assert_string_equal(reply.body, body);
    }
    assert_int_equal(reply.status, status);
    reply_release(&reply);
}

void client_expect_error(struct client *client, const char *method, const char *target,
                         const char *body, int status, const char *code)
{
    client_expect_message(client, method, target, body, status, code, "");
}

void client_expect_message(struct client *client, const char *method, const char *target,
                           const char *body, int status, const char *code, const char *text)
{
    struct reply reply;
    char wanted[64];

    client_call(client, method, target, body, &reply);
    snprintf(wanted, sizeof(wanted), "\"code\":\"%s\"", code);
    if (reply.status != status || strstr(reply.body, wanted) == NULL ||
        strstr(reply.body, text) == NULL) {
        print_error("%s %s %s: wanted %d %s \"%s\", got %d %s\n", method, target,
                    body != NULL ? body : "", status, code, text, reply.status, reply.body);
        fail();
    }
    assert_string_equal(reply_header(&reply, "Content-Type"), "application/json;charset=UTF-8");
    assert_int_equal(reply_header(&reply, "Retry-After") != NULL, status == 503);
    reply_release(&reply);
}
