/*
 * page.h - the options of routes that list things by name: prefix, after, limit; and which state
 * is read.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_PAGE_H
#define LEAFD_HTTP_API_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/proto/target.h"

struct conn;

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
 * LIMIT_HTTP_TARGET_BYTES. On failure the error is answered and false returned. */
bool page_read(struct conn *conn, struct option *options, size_t count, char *space,
               struct page *ret_page);

/* consistency=linearizable (the default), or local: this node's state, however old. False if the
 * error was answered. */
bool page_consistency(struct conn *conn, const struct option *option, bool *ret_local);

#endif
