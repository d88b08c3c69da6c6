/*
 * layout_use.h - requests that name a layout (src/id/codec/snowflake_layout.h).
 *
 * Which layouts there are is what this node has applied: no request asks the cluster.
 *
 * Failure modes: a name that no layout has, 404; an id of no time, 400.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_LAYOUT_USE_H
#define LEAFD_HTTP_API_LAYOUT_USE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct conn;
struct layout_row;
struct layout_words;

/* The words for enum layout_order. */
extern const char *const layout_orders[];

void layout_row_json_put(const struct layout_row *row, bool deleted, struct buf *json);

/* The layout of the name, deleted or not; NULL: answered. */
struct layout_words *layout_named(struct conn *conn, const char *name, size_t len);

/* An id of the layout; all its bits are looked at. Put its parts as JSON; the status, or
 * ANSWERED. */
int layout_decode(struct conn *conn, const struct layout_words *named, uint64_t id);

#endif
