/*
 * fields.h - the bytes of a struct, said once: a table of its fields, from which they are written
 * and read.
 *
 * The happy path: a static table names the fields in the order of their bytes; fields_put() writes
 * them from a struct and fields_read() reads them into one. Numbers are little-endian and as wide
 * as the member; strings have their length before them (u16, of bytes u32).
 *
 * What the values may be is the caller's to check after reading.
 *
 * Failure modes: fields_read() says false; the struct is half filled then. Thread: pure functions,
 * any.
 */
#ifndef LEAFD_ID_CODEC_FIELDS_H
#define LEAFD_ID_CODEC_FIELDS_H

#include "src/base/buf.h"
#include "src/base/err.h"

enum field_kind {
    FIELD_KIND_NUMBER, /* of 1, 2, 4 or 8 bytes */
    FIELD_KIND_SHORT,  /* of 2 bytes, in a uint64_t */
    FIELD_KIND_BOOL,   /* a byte, 0 or 1 */
    FIELD_KIND_BYTES,  /* const uint8_t *x and size_t of any name, u32 before them; read in place */
    FIELD_KIND_STRING, /* const char *x and uint16_t x_len; read in place */
    FIELD_KIND_TEXT,   /* char x[] with its NUL; read into zeros, and without a NUL in it */
    FIELD_KIND_CHARS   /* char x[] with a NUL behind uint16_t x_len bytes of any value */
};

struct field {
    enum field_kind kind;
    uint16_t at;
    uint16_t size; /* of the member */
    uint16_t len_at;
};

#define FIELD_OF(kind, type, member, len_at)                                                       \
    {                                                                                              \
        kind, offsetof(type, member), sizeof(((type *)NULL)->member), len_at                       \
    }
#define FIELD_NUMBER(type, member) FIELD_OF(FIELD_KIND_NUMBER, type, member, 0)
#define FIELD_SHORT(type, member) FIELD_OF(FIELD_KIND_SHORT, type, member, 0)
#define FIELD_BOOL(type, member) FIELD_OF(FIELD_KIND_BOOL, type, member, 0)
#define FIELD_TEXT(type, member) FIELD_OF(FIELD_KIND_TEXT, type, member, 0)
#define FIELD_BYTES(type, member, len) FIELD_OF(FIELD_KIND_BYTES, type, member, offsetof(type, len))
#define FIELD_STRING(type, member)                                                                 \
    FIELD_OF(FIELD_KIND_STRING, type, member, offsetof(type, member##_len))
#define FIELD_CHARS(type, member)                                                                  \
    FIELD_OF(FIELD_KIND_CHARS, type, member, offsetof(type, member##_len))

/* The fields of one struct. */
struct fields {
    const struct field *items;
    size_t count;
};

#define FIELDS(table)                                                                              \
    {                                                                                              \
        table, sizeof(table) / sizeof(table)[0]                                                    \
    }

void fields_put(struct buf *buf, const struct fields *fields, const void *record);

/* False if the bytes are too few (then the reader is bad), or a text or bool does not fit its
 * field. Members that are no fields stay as they are. */
bool fields_read(struct reader *reader, const struct fields *fields, void *record);

/* What a list consists of. */
struct item_format {
    struct fields fields;
    size_t size;                        /* of an item's struct */
    bool (*is_sound)(const void *item); /* NULL: all that reads is */
    uint32_t max;                       /* so many items at the most; 0: any number */
};

/* The value of a row as storage keeps it: a version, the fields, and nothing else. */
struct row_format {
    uint8_t version;
    struct fields fields;
    bool (*is_sound)(const void *record); /* what each row keeps; NULL: all that reads is */
};

void row_put(struct buf *buf, const struct row_format *format, const void *record);
/* 0, ERR_BAD_VERSION, ERR_TRUNCATED or ERR_CORRUPT. */
int row_read(const void *value, size_t len, const struct row_format *format,
             void *record) MUST_CHECK;

#endif
