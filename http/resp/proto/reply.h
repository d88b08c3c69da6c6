/*
 * reply.h - the bytes of a reply of RESP, in its versions 2 and 3.
 *
 * Version 2 has no maps and one nil: where the versions differ, the caller says which one is
 * spoken. What stands in a line of its own (errors) has its control characters replaced by blanks.
 *
 * Thread: pure functions on the caller's buffer, any.
 */
#ifndef LEAFD_HTTP_RESP_PROTO_REPLY_H
#define LEAFD_HTTP_RESP_PROTO_REPLY_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"

/* value <= INT64_MAX: clients read it as a signed number. */
void reply_integer(struct buf *out, uint64_t value);

/* "+OK"; the text has no control characters. */
void reply_simple(struct buf *out, const char *text);

/* "-ERR code: message". kind: "ERR", "NOAUTH" ... */
void reply_failure(struct buf *out, const char *kind, const char *code, const char *message);

void reply_bulk(struct buf *out, const void *data, size_t len);
void reply_text(struct buf *out, const char *text);

/* A name and its value, of a map. */
void reply_pair(struct buf *out, const char *name, const char *text);
void reply_number(struct buf *out, const char *name, uint64_t value);

/* Lines for people: a verbatim string where there are some. */
void reply_lines(struct buf *out, unsigned version, const void *data, size_t len);

/* So many elements, or pairs, follow. */
void reply_array(struct buf *out, uint64_t count);
void reply_map(struct buf *out, unsigned version, uint64_t pairs);

void reply_nil(struct buf *out, unsigned version);

/* So many ids from the first one on, each an integer. */
void reply_ids(struct buf *out, uint64_t first, uint32_t count);

/* The most bytes that an id takes. */
#define REPLY_ID_BYTES_MAX 22

#endif
