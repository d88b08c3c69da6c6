/*
 * fields.h - the bytes of a struct, described once: a table of its fields, used to write and read
 * them.
 *
 * The happy path: FIELD_NUMBER() and the like make a static table, which names the fields in the
 * order of their bytes; fields_put() writes them from a struct and fields_read() reads them into
 * one. Numbers are little-endian and as wide as the member; strings have their length before them
 * (u16, of bytes u32).
 *
 * FIELDS_FLAT(NAME, TABLE, COUNT) after a table makes NAME_put() and NAME_read(), which use no
 * table: each field is a store or a load. It is for the few structs on the path of a strict id:
 * each is written and read a dozen times for one id in a cluster.
 *
 * The caller checks the values after reading.
 *
 * Failure modes: fields_read() returns false; the struct is half filled then. Thread: pure
 * functions, any.
 */
#ifndef LEAFD_BASE_FIELDS_H
#define LEAFD_BASE_FIELDS_H

#include <string.h>

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/err.h"

enum field_kind {
    FIELD_KIND_U8 = 1, /* a number, by its bytes */
    FIELD_KIND_U16 = 2,
    FIELD_KIND_U32 = 4,
    FIELD_KIND_U64 = 8,
    FIELD_KIND_SHORT,  /* of 2 bytes, in a uint64_t or uint32_t */
    FIELD_KIND_GROWN,  /* of 2 bytes below 65535, else 65535 and 4 bytes more; in a uint32_t */
    FIELD_KIND_BOOL,   /* a byte, 0 or 1 */
    FIELD_KIND_BYTES,  /* const uint8_t *x and size_t of any name, u32 before them; read in place */
    FIELD_KIND_STRING, /* const char *x and uint16_t x_len; read in place */
    FIELD_KIND_TEXT,   /* char x[] with its NUL; read into zeros, and without a NUL in it */
    FIELD_KIND_CHARS   /* char x[] with a NUL after uint16_t x_len bytes of any value */
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
#define FIELD_NUMBER(type, member)                                                                 \
    FIELD_OF((enum field_kind)sizeof(((type *)NULL)->member), type, member, 0)
#define FIELD_SHORT(type, member) FIELD_OF(FIELD_KIND_SHORT, type, member, 0)
#define FIELD_GROWN(type, member) FIELD_OF(FIELD_KIND_GROWN, type, member, 0)
#define FIELD_BOOL(type, member) FIELD_OF(FIELD_KIND_BOOL, type, member, 0)
#define FIELD_TEXT(type, member) FIELD_OF(FIELD_KIND_TEXT, type, member, 0)
#define FIELD_BYTES(type, member, len) FIELD_OF(FIELD_KIND_BYTES, type, member, offsetof(type, len))
#define FIELD_STRING(type, member)                                                                 \
    FIELD_OF(FIELD_KIND_STRING, type, member, offsetof(type, member##_len))
#define FIELD_CHARS(type, member)                                                                  \
    FIELD_OF(FIELD_KIND_CHARS, type, member, offsetof(type, member##_len))

#define FLAT static inline __attribute__((always_inline))

/* --- writing --- */

FLAT void field_put(struct buf *buf, const struct field *field, const char *record)
{
    const char *member = record + field->at;
    const char *len_at = record + field->len_at;
    uint32_t number;

    switch (field->kind) {
    case FIELD_KIND_U8:
        buf_put_number(buf, *(const uint8_t *)member, 1);
        return;
    case FIELD_KIND_U16:
        buf_put_number(buf, *(const uint16_t *)(const void *)member, 2);
        return;
    case FIELD_KIND_U32:
        buf_put_number(buf, *(const uint32_t *)(const void *)member, 4);
        return;
    case FIELD_KIND_U64:
        buf_put_number(buf, *(const uint64_t *)(const void *)member, 8);
        return;
    case FIELD_KIND_SHORT:
        buf_put_number(buf,
                       (field->size == 4 ? *(const uint32_t *)(const void *)member
                                         : *(const uint64_t *)(const void *)member) &
                           UINT16_MAX,
                       2);
        return;
    case FIELD_KIND_GROWN:
        number = *(const uint32_t *)(const void *)member;
        buf_put_number(buf, number < UINT16_MAX ? number : UINT16_MAX, 2);
        if (number >= UINT16_MAX) {
            buf_put_number(buf, number, 4);
        }
        return;
    case FIELD_KIND_BOOL:
        buf_put_number(buf, *(const bool *)(const void *)member, 1);
        return;
    case FIELD_KIND_STRING:
        buf_put_str16(buf, *(const char *const *)(const void *)member,
                      *(const uint16_t *)(const void *)len_at);
        return;
    case FIELD_KIND_BYTES:
        buf_put_str32(buf, *(const uint8_t *const *)(const void *)member,
                      *(const size_t *)(const void *)len_at);
        return;
    case FIELD_KIND_TEXT:
        ASSERT(strnlen(member, field->size) < field->size);
        buf_put_str16(buf, member, strlen(member));
        return;
    case FIELD_KIND_CHARS:
        ASSERT(*(const uint16_t *)(const void *)len_at < field->size);
        buf_put_str16(buf, member, *(const uint16_t *)(const void *)len_at);
        return;
    }
    UNREACHABLE("a kind of field");
}

/* --- reading --- */

/* Into a member of zeros. */
static inline bool chars_take(const struct field *field, const uint8_t *text, size_t len,
                              char *member)
{
    if (text == NULL || len >= field->size) {
        return false;
    }
    memcpy(member, text, len);
    member[len] = '\0';
    return true;
}

FLAT bool field_read(struct reader *reader, const struct field *field, char *record)
{
    char *member = record + field->at;
    uint16_t *ret_len = (uint16_t *)(void *)(record + field->len_at);
    bool fits = true;
    const uint8_t *text;
    uint32_t number;
    size_t len;

    switch (field->kind) {
    case FIELD_KIND_U8:
        *(uint8_t *)member = reader_u8(reader);
        return true;
    case FIELD_KIND_U16:
        *(uint16_t *)(void *)member = reader_u16(reader);
        return true;
    case FIELD_KIND_U32:
        *(uint32_t *)(void *)member = reader_u32(reader);
        return true;
    case FIELD_KIND_U64:
        *(uint64_t *)(void *)member = reader_u64(reader);
        return true;
    case FIELD_KIND_SHORT:
        if (field->size == 4) {
            *(uint32_t *)(void *)member = reader_u16(reader);
        } else {
            *(uint64_t *)(void *)member = reader_u16(reader);
        }
        return true;
    case FIELD_KIND_GROWN:
        number = reader_u16(reader);
        if (number == UINT16_MAX) {
            number = reader_u32(reader);
            fits = number >= UINT16_MAX;
        }
        *(uint32_t *)(void *)member = number;
        return fits;
    case FIELD_KIND_STRING:
        *(const char **)(void *)member = (const char *)reader_str16(reader, &len);
        *ret_len = (uint16_t)len;
        return true;
    case FIELD_KIND_BYTES:
        *(const uint8_t **)(void *)member = reader_str32(reader, &len);
        *(size_t *)(void *)(record + field->len_at) = len;
        return true;
    case FIELD_KIND_BOOL:
        number = reader_u8(reader);
        *(bool *)(void *)member = number == 1;
        return number <= 1;
    case FIELD_KIND_TEXT:
        text = reader_str16(reader, &len);
        return chars_take(field, text, len, member) && strlen(member) == len;
    case FIELD_KIND_CHARS:
        text = reader_str16(reader, &len);
        if (!chars_take(field, text, len, member)) {
            return false;
        }
        *ret_len = (uint16_t)len;
        return true;
    }
    UNREACHABLE("a kind of field");
}

/* --- a table --- */

#define FIELDS_FLAT_MAX 20

/* As fields_put() and fields_read(); not in a loop, since the compiler might not unroll it. */
#define FIELDS_FLAT_LOW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define FIELDS_FLAT_HIGH(DO) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#define FIELDS_FLAT_LAST(DO) DO(16) DO(17) DO(18) DO(19)
#define FIELDS_FLAT_EACH(DO) FIELDS_FLAT_LOW(DO) FIELDS_FLAT_HIGH(DO) FIELDS_FLAT_LAST(DO)
#define FIELDS_FLAT_PUT(I)                                                                         \
    if (I < count) {                                                                               \
        field_put(buf, &items[I], record);                                                         \
    }
#define FIELDS_FLAT_READ(I)                                                                        \
    if (I < count) {                                                                               \
        fits = field_read(&at, &items[I], record) && fits;                                         \
    }

FLAT void fields_flat_put(struct buf *buf, const struct field *items, size_t count,
                          const void *record)
{
    FIELDS_FLAT_EACH(FIELDS_FLAT_PUT);
}

FLAT bool fields_flat_read(struct reader *reader, const struct field *items, size_t count,
                           void *record)
{
    struct reader at = *reader;
    bool fits = true;

    FIELDS_FLAT_EACH(FIELDS_FLAT_READ);
    *reader = at;
    return fits && !at.bad;
}

#define FIELDS_FLAT(name, table, number)                                                           \
    _Static_assert((number) <= FIELDS_FLAT_MAX, "fields of a table in straight code");             \
    static void name##_put(struct buf *buf, const void *record)                                    \
    {                                                                                              \
        fields_flat_put(buf, table, number, record);                                               \
    }                                                                                              \
    static bool name##_read(struct reader *reader, void *record)                                   \
    {                                                                                              \
        return fields_flat_read(reader, table, number, record);                                    \
    }

/* --- a struct of them --- */

/* The fields of one struct. put, read: the same as code without a table (FIELDS_FLAT), or NULL. */
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

/* The fields of a struct for which FIELDS_FLAT() has made functions of this name. */
#define FIELDS_STRAIGHT(name, table, number)                                                       \
    {                                                                                              \
        table, number, name##_put, name##_read                                                     \
    }

void fields_put(struct buf *buf, const struct fields *fields, const void *record);

/* False if the bytes are too few (then the reader is bad), or a text or bool does not fit its
 * field. Members that are no fields do not change. */
bool fields_read(struct reader *reader, const struct fields *fields, void *record);

/* What a list consists of. */
struct item_format {
    struct fields fields;
    size_t size;                        /* of an item's struct */
    bool (*is_sound)(const void *item); /* NULL: all items that decode are */
    uint32_t max;                       /* maximum number of items; 0: unlimited */
};

#define ITEM_FORMAT(fields_, type, is_sound_, max_)                                                \
    {                                                                                              \
        .fields = fields_, .size = sizeof(type), .is_sound = (is_sound_), .max = (max_)            \
    }

/* The value of a row as storage keeps it: a version, the fields, and nothing else. */
struct row_format {
    uint8_t version;
    struct fields fields;
    bool (*is_sound)(const void *record); /* invariant of each row; NULL: none */
};

#define ROW_FORMAT(version_, fields_, is_sound_)                                                   \
    {                                                                                              \
        .version = (version_), .fields = fields_, .is_sound = (is_sound_)                          \
    }

/* A row of the replicated state: it is listed, stored, sent and loaded like this. Its bytes are
 * borrowed. */
struct state_row {
    const uint8_t *key;
    uint32_t key_len;   /* 1..LIMIT_ROW_KEY_BYTES */
    const void *value;  /* NULL: the row with this key is deleted (a change alone) */
    uint32_t value_len; /* 1..LIMIT_ROW_VALUE_BYTES; 0 with NULL */
};

void row_put(struct buf *buf, const struct row_format *format, const void *record);
/* Would both records have the same value? */
bool row_same(const struct row_format *format, const void *record, const void *other);
/* 0, ERR_BAD_VERSION, ERR_TRUNCATED or ERR_CORRUPT. */
int row_read(const void *value, size_t len, const struct row_format *format,
             void *record) MUST_CHECK;

#endif
