/*
 * request.h - what handlers share: reading a request, and answering with an error.
 *
 * A function that reads something returns false when it is wrong; the error is answered then.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_REQUEST_H
#define LEAFD_HTTP_API_REQUEST_H

#include "http/proto/target.h"
#include "http/server/conn.h"

/* A value in a message, by text_show(). */
#define SHOWN_BYTES 160

void reply_json(struct conn *conn, int status, const struct buf *body);

/* 204 */
void reply_nothing(struct conn *conn);

/* Answer with an error. The message is printf-like; values shown by text_show(). */
COLD void reply_error(struct conn *conn, int status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same; more: further members of the error's JSON, each with a comma before it. */
COLD void reply_error_with(struct conn *conn, int status, const char *code, const char *more,
                           const char *format, ...) __attribute__((format(printf, 5, 6)));

/* 405 with the Allow header. */
COLD void reply_wrong_method(struct conn *conn, const char *allow);

/* The answer for an error of the backend that is not particular to a route. */
COLD void reply_err(struct conn *conn, int err);

/* Parse the query into options (space: LIMIT_HTTP_TARGET_BYTES). */
bool request_options(struct conn *conn, struct option *options, size_t count, char *space);

/* There are no options. */
bool request_no_options(struct conn *conn);

/* An option's whole number, or fallback when absent; else answered with this code. */
bool request_number(struct conn *conn, const struct option *option, const char *code, uint64_t min,
                    uint64_t max, uint64_t fallback, uint64_t *ret_value);

/* timeout_ms, or the default of the settings. */
bool request_timeout(struct conn *conn, const struct option *option, uint32_t *ret_timeout_ms);

/* An option of 1 or 0, false when absent. */
bool request_flag(struct conn *conn, const struct option *option, bool *ret_value);

/* consistency=linearizable (the default), or local: this node's state, however old. */
bool request_consistency(struct conn *conn, const struct option *option, bool *ret_local);

/* The whole number in the path; what: its name for the message. */
bool request_path_number(struct conn *conn, const char *what, uint64_t min, uint64_t max,
                         uint64_t *ret_value);

/* The decoded, checked name of a tag in the path into name (LIMIT_TAG_NAME_BYTES). */
bool request_tag_name(struct conn *conn, char *name, size_t *ret_len);

/* The options of routes that list things by name. */
#define PAGE_OPTIONS 3
#define PAGE_OPTION_NAMES                                                                          \
    {.name = "prefix"}, {.name = "after"},                                                         \
    {                                                                                              \
        .name = "limit"                                                                            \
    }
#define PAGE_LIMIT_DEFAULT 100

struct page {
    const char *prefix; /* decoded, in the caller's space; "" when absent */
    size_t prefix_len;
    const char *after;
    size_t after_len;
    uint32_t limit;
};

/* Parse the query; the first PAGE_OPTIONS of options must be PAGE_OPTION_NAMES. space has
 * LIMIT_HTTP_TARGET_BYTES. */
bool request_page(struct conn *conn, struct option *options, size_t count, char *space,
                  struct page *ret_page);

#endif
