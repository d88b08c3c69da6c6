/*
 * request.h - what handlers share: reading a request, and answering it.
 *
 * A handler returns the status of its reply, whose JSON it has put into reply_begin(); or an ERR_*,
 * which is answered by reply_err(); or ANSWERED, when it has replied itself or the request waits.
 *
 * A function that reads something returns false when it is wrong; the error is answered then.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_REQUEST_H
#define LEAFD_HTTP_API_REQUEST_H

#include "http/api/body.h"
#include "http/proto/head.h"
#include "http/server/conn.h"

#define ANSWERED 0

/* A value in a message, by text_show(). */
#define SHOWN_BYTES 160

/* --- answering --- */

/* Empty, for a reply's JSON. Good until the next request, or the next error, is answered. */
struct buf *reply_begin(struct conn *conn);

/* Answer as a handler's result says. */
void reply_finish(struct conn *conn, int result);

/* Answer with an error. The message is printf-like; values shown by text_show(). Returns
 * ANSWERED. */
COLD int reply_error(struct conn *conn, int status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The answer for an error of the backend that is not particular to a route. Returns ANSWERED. */
COLD int reply_err(struct conn *conn, int err);

/* 400: the name of a tag that is none. Returns ANSWERED. */
COLD int reply_bad_tag(struct conn *conn, const char *name, size_t len, const char *why);

/* 400. Returns ANSWERED. */
COLD int reply_fault(struct conn *conn, const struct body_fault *fault);

/* --- reading --- */

#define OPTION_FLAG(name_)                                                                         \
    {                                                                                              \
        .name = (name_), .kind = PARAM_WORD, .words = request_flags, .rule = "is neither 1 nor 0"  \
    }
extern const char *const request_flags[];

/* `number` is 1 for this node's state, however old. */
#define OPTION_CONSISTENCY                                                                         \
    {                                                                                              \
        .name = "consistency", .kind = PARAM_WORD, .words = request_consistencies,                 \
        .rule = "is not linearizable or local"                                                     \
    }
extern const char *const request_consistencies[];

#define OPTION_TIMEOUT(conn)                                                                       \
    {                                                                                              \
        .name = "timeout_ms", .max = LIMIT_TIMEOUT_MS,                                             \
        .number = api_loop(conn)->api->settings->default_timeout_ms                                \
    }

/* The options of routes that list things by name; they come first. */
#define PAGE_OPTIONS                                                                               \
    {.name = "prefix", .kind = PARAM_TEXT, .max = LIMIT_TAG_NAME_BYTES},                           \
        {.name = "after", .kind = PARAM_TEXT, .max = LIMIT_TAG_NAME_BYTES},                        \
    {                                                                                              \
        .name = "limit", .min = 1, .max = LIMIT_TAGS_PER_PAGE, .number = PAGE_LIMIT_DEFAULT        \
    }
#define PAGE_LIMIT_DEFAULT 100

/* The query's options into the table. Texts are good until the handler returns. */
bool request_options(struct conn *conn, struct param *options, size_t count);

/* The body's fields into the table; `empty` is taken for an empty body. Returns the object that
 * holds their texts, to be freed by json_decref(); NULL if it is wrong. */
json_t *request_body(struct conn *conn, const char *what, const char *empty, struct param *fields,
                     size_t count);

/* The whole number in the path; what: its name for the message. */
bool request_path_number(struct conn *conn, const char *what, uint64_t min, uint64_t max,
                         uint64_t *ret_value);

/* The decoded, checked name of a tag in the path into name (LIMIT_TAG_NAME_BYTES). */
bool request_tag_name(struct conn *conn, char *name, size_t *ret_len);

#endif
