/*
 * meter.h - a small blocking HTTP client for tests: bytes out, whole replies in. Everything that
 * does not come within CLIENT_TIMEOUT_S fails the test.
 */
#ifndef LEAFD_HTTP_TESTS_CLIENT_H
#define LEAFD_HTTP_TESTS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_TIMEOUT_S 60

struct client {
    int fd;
    size_t start; /* input not used yet: buffer[start, end) */
    size_t end;
    char buffer[64 << 10];
};

struct reply {
    int status;
    char head[2048]; /* with its empty line, NUL-terminated */
    char *body;      /* NUL-terminated; owned until the next reply_release() */
    size_t len;
};

struct client *client_open(uint16_t port);
void client_close(struct client *client); /* frees */

void client_send(struct client *client, const void *data, size_t len);
void client_printf(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* As much as the socket takes; false once the peer has closed. */
bool client_try_send(struct client *client, const void *data, size_t len);

/* Send "METHOD target HTTP/1.1" with a Host header and a body (NULL: none). */
void client_request(struct client *client, const char *method, const char *target,
                    const char *body);

/* Read one reply; no_body for the answer to HEAD. */
void client_read(struct client *client, bool no_body, struct reply *reply);
/* Has anything come that was not read yet? Does not wait. */
bool client_has_input(const struct client *client);

void reply_release(struct reply *reply);

/* The value of a header in the reply's head, or NULL. Valid until the next call. */
const char *reply_header(const struct reply *reply, const char *name);

/* Request and reply in one. */
void client_call(struct client *client, const char *method, const char *target, const char *body,
                 struct reply *reply);

/* The peer closes, without another byte. */
void client_expect_end(struct client *client);

/* Read a reply, and want its status and Connection header (NULL: none). */
void client_expect_reply(struct client *client, int status, const char *connection);

/* A call, its status, and a part of its body. */
void client_expect_part(struct client *client, const char *method, const char *target,
                        const char *body, int status, const char *part);

/* A call, its status and its whole body compared; errors: status and code. The connection stays
 * open. */
void client_expect(struct client *client, const char *method, const char *target, int status,
                   const char *body);
void client_expect_error(struct client *client, const char *method, const char *target,
                         const char *body, int status, const char *code);

/* As above; the reply has the text somewhere, as it is written in JSON. */
void client_expect_message(struct client *client, const char *method, const char *target,
                           const char *body, int status, const char *code, const char *text);

#endif
