/*
 * response.h - the bytes of a reply: head, body, and the JSON of errors.
 *
 * Thread: pure functions on the caller's buffer, any.
 */
#ifndef LEAFD_HTTP_PROTO_RESPONSE_H
#define LEAFD_HTTP_PROTO_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"

#define RESPONSE_TEXT "text/plain;charset=UTF-8"
#define RESPONSE_JSON "application/json;charset=UTF-8"

/* How the reply is framed, apart from its content. */
struct response_frame {
    const char *date; /* for the Date header: of text_time_http() */
    bool close;       /* "Connection: close" */
    bool keep_alive;  /* "Connection: keep-alive": a client of HTTP/1.0 that asked for it */
    bool head_only;   /* answer to HEAD: no body, but the length it would have */
};

/* The reason phrase of a status ("Not Found"). Static memory. */
const char *response_reason(int status);

/* Append a reply. type may be NULL when there is no body; extra is header lines with their CRLF, or
 * NULL. 503 carries Retry-After: 1 by itself, and so does
 * 429 unless extra has another. */
void response_put(struct buf *out, const struct response_frame *frame, int status, const char *type,
                  const char *extra, const void *body, size_t len);

/* Append the head alone, of a reply whose body of `len` bytes follows. */
void response_put_head(struct buf *out, const struct response_frame *frame, int status,
                       const char *type, const char *extra, size_t len);

/* Append the head of a 200 whose body is sent part by part. chunked: in chunks (HTTP/1.1), of which
 * response_put_chunk() appends one, and an empty one the end; else its end is that of the
 * connection. */
void response_put_stream(struct buf *out, const struct response_frame *frame, const char *type,
                         bool chunked);
void response_put_chunk(struct buf *out, const void *data, size_t len);

/* Append the JSON of an error to buf (the body alone). more: further members, each with a comma
 * before it; "" for none. */
void response_error_json(struct buf *buf, uint64_t wall_ms, int status, const char *code,
                         const char *message, const char *path, size_t path_len, const char *more);

#endif
