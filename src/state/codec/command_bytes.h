/*
 * command_bytes.h - what all messages have in common: versions, types, where the stamp stands, and
 * how a message begins.
 *
 * Every message begins with a byte of version and a byte of type; queries and results have ranges
 * of their own, so that one can never be taken for another. A command has a stamp behind that
 * (session.h), zeros until it is stamped. Thread: pure functions, any.
 */
#ifndef LEAFD_STATE_CODEC_COMMAND_BYTES_H
#define LEAFD_STATE_CODEC_COMMAND_BYTES_H

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/fields.h"

#define COMMAND_VERSION 3
#define MESSAGE_VERSION 1 /* of queries, results, and requests between parts of leafd */

#define SESSION_STAMP_AT 2 /* in a command: behind version and type */
#define SESSION_STAMP_BYTES 26

/* Numbers of commands lie below, those of queries, requests and results from here on. */
#define QUERY_BASE 0x40

/* The cluster's; the other numbers are the machine's. */
enum cluster_result {
    RESULT_STATUS = 0x83,
    RESULT_REFUSED = 0x89, /* the session's, instead of the command's own */
    RESULT_MEMBER = 0x8a
};

/* The number of a command's type, whichever half's it is; ERR_BAD_MESSAGE: it is too short; or
 * ERR_NEWER: of a version that this leafd does not know. Only the first two bytes are read. */
int command_number(const void *data, size_t len) MUST_CHECK;

/* A query, a result, or a request between two parts of leafd. */
static inline void message_head_put(struct buf *buf, unsigned type)
{
    ASSERT(type > 0 && type <= UINT8_MAX);
    buf_put_u8(buf, MESSAGE_VERSION);
    buf_put_u8(buf, (uint8_t)type);
}

/* False if the message is of another version or type. */
static inline bool message_head_read(struct reader *reader, const void *data, size_t len,
                                     unsigned type)
{
    reader_init(reader, data, len);
    return reader_u8(reader) == MESSAGE_VERSION && reader_u8(reader) == type && !reader->bad;
}

/* A command, not stamped yet, up to the end of its fields. _read: 0, or ERR_BAD_MESSAGE and what is
 * in record is of no use; whose it is session_stamp_read() tells. */
void command_fields_put(struct buf *buf, unsigned type, const struct fields *fields,
                        const void *record);
int command_fields_read(const void *data, size_t len, unsigned type, const struct fields *fields,
                        void *record) MUST_CHECK;

/* A query, a result or a request that is all fields. _read: false if it is another, or does not
 * read; what is in record is of no use then. */
void message_fields_put(struct buf *buf, unsigned type, const struct fields *fields,
                        const void *record);
bool message_fields_read(const void *data, size_t len, unsigned type, const struct fields *fields,
                         void *record) MUST_CHECK;

/* Items at the end of a message: how many there are, and each behind the other. _put: of an array
 * of structs. _read: up to max of them into such an array; 0, or ERR_BAD_MESSAGE. _read_all: into
 * one that is malloc'ed for them, and the caller's then; NULL: the bytes are none. */
void message_items_put(struct buf *buf, const struct item_format *format, const void *items,
                       size_t count);
int message_items_read(struct reader *reader, const struct item_format *format, void *ret_items,
                       size_t max, size_t *ret_count) MUST_CHECK;
void *message_items_read_all(struct reader *reader, const struct item_format *format,
                             size_t *ret_count) MUST_CHECK;

/* Of all commands whose result has no other struct. */
void status_result_encode(int32_t status, struct buf *buf);
int status_result_decode(const void *data, size_t len, int32_t *ret_status) MUST_CHECK;

#endif
