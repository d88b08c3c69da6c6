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
#ifndef LEAFD_BASE_FIELDS_H
#define LEAFD_BASE_FIELDS_H

#include "src/base/err.h"
#include "src/base/field.h"

/* The fields of one struct. put, read: the same as straight code (FIELDS_FLAT), or NULL. */
struct fields {
    const struct field *items;
    size_t count;
    void (*put)(struct buf *buf, const void *record);
    bool (*read)(struct reader *reader, void *record);
};

#define FIELDS_FIRST(table, number)                                                                \
    {                                                                                              \
        table, number, NULL, NULL                                                                  \
    }
#define FIELDS(table) FIELDS_FIRST(table, sizeof(table) / sizeof(table)[0])

/* Of those that FIELDS_FLAT() has made functions of this name for. */
#define FIELDS_STRAIGHT(name, table, number)                                                       \
    {                                                                                              \
        table, number, name##_put, name##_read                                                     \
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

#define ITEM_FORMAT(fields_, type, is_sound_, max_)                                                \
    {                                                                                              \
        .fields = fields_, .size = sizeof(type), .is_sound = (is_sound_), .max = (max_)            \
    }

/* The value of a row as storage keeps it: a version, the fields, and nothing else. */
struct row_format {
    uint8_t version;
    struct fields fields;
    bool (*is_sound)(const void *record); /* what each row keeps; NULL: all that reads is */
};

#define ROW_FORMAT(version_, fields_, is_sound_)                                                   \
    {                                                                                              \
        .version = (version_), .fields = fields_, .is_sound = (is_sound_)                          \
    }

void row_put(struct buf *buf, const struct row_format *format, const void *record);
/* 0, ERR_BAD_VERSION, ERR_TRUNCATED or ERR_CORRUPT. */
int row_read(const void *value, size_t len, const struct row_format *format,
             void *record) MUST_CHECK;

#endif
