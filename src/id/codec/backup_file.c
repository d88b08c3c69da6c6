/*
 * backup_file.c - see backup_file.h. Thread: pure functions, one owner each.
 */
#include "src/id/codec/backup_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/fields.h"
#include "src/base/hash.h"
#include "src/id/codec/tag.h"
#include "src/state/codec/level.h"

#define MAGIC "leafd backup\r\n\032\n"
#define MAGIC_BYTES (sizeof(MAGIC) - 1)
#define BLOCK_HEAD_BYTES 16
#define BLOCK_CRC_BYTES 4
/* Most bytes of a block's payload: rows of a chunk, or the growth of the tags in them. */
#define BLOCK_BYTES_MAX (4 * (LIMIT_BACKUP_CHUNK_BYTES + LIMIT_ROW_BYTES))

static const struct field HEAD_FIELDS[] = {
    FIELD_NUMBER(struct backup_head, format),  FIELD_NUMBER(struct backup_head, level),
    FIELD_NUMBER(struct backup_head, uid[0]),  FIELD_NUMBER(struct backup_head, uid[1]),
    FIELD_NUMBER(struct backup_head, node_id), FIELD_NUMBER(struct backup_head, index),
    FIELD_NUMBER(struct backup_head, term),    FIELD_NUMBER(struct backup_head, digest),
    FIELD_NUMBER(struct backup_head, wall_ms), FIELD_NUMBER(struct backup_head, log_ms),
    FIELD_BOOL(struct backup_head, local),     FIELD_TEXT(struct backup_head, cluster_id),
    FIELD_TEXT(struct backup_head, version),
};
static const struct fields HEAD = FIELDS(HEAD_FIELDS);

static const struct field GROWTH_FIELDS[] = {
    FIELD_NUMBER(struct backup_growth, since_ms),
    FIELD_NUMBER(struct backup_growth, until_ms),
    FIELD_BOOL(struct backup_growth, whole),
    FIELD_NUMBER(struct backup_growth, count),
};
static const struct fields GROWTH = FIELDS(GROWTH_FIELDS);

static const struct field TOTALS_FIELDS[] = {
    FIELD_NUMBER(struct backup_totals, rows),
    FIELD_NUMBER(struct backup_totals, blocks),
    FIELD_NUMBER(struct backup_totals, bytes),
};
static const struct fields TOTALS = FIELDS(TOTALS_FIELDS);

/* --- writing --- */

/* Returns where the block begins. */
static size_t block_begin(const struct backup_writer *writer, enum backup_block_kind kind,
                          struct buf *out)
{
    size_t at = out->len;

    buf_put_u32(out, (uint32_t)kind);
    buf_put_u32(out, 0);
    buf_put_u64(out, writer->totals.blocks);
    return at;
}

static void block_end(struct backup_writer *writer, size_t at, struct buf *out)
{
    size_t len = out->len - at - BLOCK_HEAD_BYTES;

    ASSERT(len <= BLOCK_BYTES_MAX);
    buf_set_u32(out, at + 4, (uint32_t)len);
    buf_put_u32(out, hash_crc32c(out->data + at, out->len - at));
    writer->totals.blocks++;
    writer->totals.bytes += out->len - at;
}

void backup_put_head(struct backup_writer *writer, const struct backup_head *head, struct buf *out)
{
    struct backup_head written = *head;
    size_t at;

    written.format = BACKUP_FORMAT;
    *writer = (struct backup_writer){.totals = {.bytes = MAGIC_BYTES}};
    buf_put(out, MAGIC, MAGIC_BYTES);
    at = block_begin(writer, BACKUP_HEAD, out);
    fields_put(out, &HEAD, &written);
    block_end(writer, at, out);
}

void backup_growth_begin(struct backup_writer *writer, const struct backup_growth *growth,
                         struct buf *out)
{
    writer->growth_at = (uint32_t)block_begin(writer, BACKUP_GROWTH, out);
    writer->growth_count = 0;
    fields_put(out, &GROWTH, growth);
}

void backup_growth_put(struct backup_writer *writer, const struct backup_tag_growth *tag,
                       struct buf *out)
{
    buf_put_str16(out, tag->name, tag->name_len);
    buf_put_u64(out, tag->max_id);
    writer->growth_count++;
}

void backup_growth_end(struct backup_writer *writer, struct buf *out)
{
    size_t count_at = writer->growth_at + BLOCK_HEAD_BYTES + 8 + 8 + 1;

    buf_set_u32(out, count_at, writer->growth_count);
    block_end(writer, writer->growth_at, out);
}

void backup_put_rows(struct backup_writer *writer, const void *records, size_t len, uint64_t count,
                     struct buf *out)
{
    size_t at = block_begin(writer, BACKUP_ROWS, out);

    buf_put(out, records, len);
    writer->totals.rows += count;
    block_end(writer, at, out);
}

void backup_put_end(struct backup_writer *writer, struct buf *out)
{
    const struct backup_totals totals = writer->totals;
    size_t at = block_begin(writer, BACKUP_END, out);

    fields_put(out, &TOTALS, &totals);
    block_end(writer, at, out);
}

/* --- rows --- */

bool backup_row_next(struct reader *records, struct backup_row *ret_row)
{
    if (records->bad || reader_left(records) == 0) {
        return false;
    }
    ret_row->key = reader_str16(records, &ret_row->key_len);
    ret_row->value = reader_str32(records, &ret_row->value_len);
    if (records->bad || ret_row->key_len < 1 || ret_row->key_len > LIMIT_ROW_KEY_BYTES ||
        ret_row->value_len < 1 || ret_row->value_len > LIMIT_ROW_VALUE_BYTES) {
        records->bad = true;
        return false;
    }
    return true;
}

/* --- reading --- */

static int backup_fail(struct backup_error *ret_error, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int backup_fail(struct backup_error *ret_error, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(ret_error->text, sizeof ret_error->text, format, args);
    va_end(args);
    return err;
}

/* The state while a file is read. */
struct look {
    struct backup_reader reader;
    struct backup_head head;
    struct backup_totals totals; /* so far */
    uint64_t digest;
    struct backup_row last; /* the greatest key so far; key NULL: none */
    struct backup_error *error;
};

/* The next block, with its checksum right and its number in turn. */
static int read_block(struct look *look, struct backup_block *block)
{
    struct backup_reader *reader = &look->reader;
    size_t left = reader->len - reader->at;
    const uint8_t *at = reader->data + reader->at;
    struct reader fields;
    uint64_t number;
    uint32_t kind;
    uint32_t len;
    uint32_t crc;

    if (left < BLOCK_HEAD_BYTES + BLOCK_CRC_BYTES) {
        return backup_fail(look->error, ERR_TRUNCATED,
                           "the file ends at byte %zu, before its closing record: it was cut off",
                           reader->len);
    }
    reader_init(&fields, at, left);
    kind = reader_u32(&fields);
    len = reader_u32(&fields);
    number = reader_u64(&fields);
    if (number != reader->blocks || len > BLOCK_BYTES_MAX) {
        return backup_fail(look->error, ERR_CORRUPT,
                           "damaged at byte %zu: block %" PRIu64 " of %" PRIu32
                           " bytes is where block %" PRIu64 " should",
                           reader->at, number, len, reader->blocks);
    }
    if (left < BLOCK_HEAD_BYTES + (size_t)len + BLOCK_CRC_BYTES) {
        return backup_fail(look->error, ERR_TRUNCATED,
                           "the file ends at byte %zu, within block %" PRIu64 ": it was cut off",
                           reader->len, number);
    }
    reader_init(&block->payload, reader_bytes(&fields, len), len);
    crc = reader_u32(&fields);
    if (crc != hash_crc32c(at, BLOCK_HEAD_BYTES + len)) {
        return backup_fail(look->error, ERR_CORRUPT,
                           "damaged within bytes %zu to %zu: the checksum of block %" PRIu64
                           " is %08x, stored is %08x",
                           reader->at, reader->at + BLOCK_HEAD_BYTES + len + BLOCK_CRC_BYTES - 1,
                           number, hash_crc32c(at, BLOCK_HEAD_BYTES + len), crc);
    }
    block->kind = (enum backup_block_kind)kind;
    block->at = reader->at;
    reader->at += fields.at;
    reader->blocks++;
    return 0;
}

static int malformed(const struct look *look, const struct backup_block *block, const char *what)
{
    return backup_fail(look->error, ERR_CORRUPT,
                       "byte %zu: %s does not read, though its checksum is right", block->at, what);
}

static int read_head(struct look *look)
{
    struct backup_head *head = &look->head;
    struct backup_block block;
    struct reader format;
    int err;

    if (look->reader.len < MAGIC_BYTES || memcmp(look->reader.data, MAGIC, MAGIC_BYTES) != 0) {
        return backup_fail(
            look->error, ERR_CORRUPT,
            "this is not a backup of leafd: it does not begin with \"leafd backup\"");
    }
    look->reader.at = MAGIC_BYTES;
    err = read_block(look, &block);
    if (err != 0) {
        return err;
    }
    format = block.payload;
    head->format = reader_u16(&format);
    if (block.kind != BACKUP_HEAD || format.bad) {
        return malformed(look, &block, "the head");
    }
    head->level = reader_u16(&format);
    if (head->format != BACKUP_FORMAT_DEV &&
        (head->format != BACKUP_FORMAT || head->level < level_own.min ||
         head->level > level_own.max)) {
        return backup_fail(
            look->error, ERR_BAD_VERSION,
            "written in format %u at level %u; this leafd (" LEAFD_VERSION
            ") reads format %d and levels %u to %u: restore with the version that wrote it, "
            "or a newer one",
            head->format, head->level, BACKUP_FORMAT, level_own.min, level_own.max);
    }
    if (!fields_read(&block.payload, &HEAD, head) || !reader_done(&block.payload) ||
        head->index == 0 || head->term == 0 || head->index >= LIMIT_PLAUSIBLE ||
        head->term >= LIMIT_PLAUSIBLE || head->wall_ms > LIMIT_TIME_MAX_MS) {
        return malformed(look, &block, "the head");
    }
    return 0;
}

static int look_at_rows(struct look *look, const struct backup_block *block)
{
    struct reader records = block->payload;
    struct backup_row row;

    while (backup_row_next(&records, &row)) {
        /* Keys rise, over all blocks. */
        if (look->last.key != NULL &&
            tag_name_compare((const char *)look->last.key, look->last.key_len,
                             (const char *)row.key, row.key_len) >= 0) {
            return malformed(look, block, "a row that is out of order");
        }
        look->last = row;
        look->digest += hash_row(row.key, row.key_len, row.value, row.value_len);
        look->totals.rows++;
    }
    return reader_done(&records) ? 0 : malformed(look, block, "a row");
}

static bool growth_read(struct backup_block *block)
{
    return fields_read(&block->payload, &GROWTH, &block->growth) &&
           block->growth.since_ms <= block->growth.until_ms;
}

static int look_at_end(struct look *look, struct backup_block *block)
{
    const struct backup_reader *reader = &look->reader;
    struct backup_totals totals;

    if (!fields_read(&block->payload, &TOTALS, &totals) || !reader_done(&block->payload)) {
        return malformed(look, block, "the closing record");
    }
    look->totals.blocks = reader->blocks - 1;
    look->totals.bytes = block->at;
    if (memcmp(&totals, &look->totals, sizeof totals) != 0) {
        return backup_fail(look->error, ERR_CORRUPT,
                           "%" PRIu64 " rows in %" PRIu64
                           " blocks were found, but the closing record "
                           "counts %" PRIu64 " in %" PRIu64 ": parts are missing",
                           look->totals.rows, look->totals.blocks, totals.rows, totals.blocks);
    }
    if (reader->at != reader->len) {
        return backup_fail(look->error, ERR_CORRUPT,
                           "%zu bytes follow the closing record, from byte %zu on",
                           reader->len - reader->at, reader->at);
    }
    if (look->digest != look->head.digest) {
        return backup_fail(look->error, ERR_CORRUPT,
                           "the digest of the rows is %016" PRIx64 ", the head says %016" PRIx64
                           ": they are not the rows of one state",
                           look->digest, look->head.digest);
    }
    return 0;
}

/* One block after the head. */
static int look_at_block(struct look *look, struct backup_block *block)
{
    struct backup_block copy = *block;
    struct backup_tag_growth tag;
    uint32_t count = 0;

    switch (block->kind) {
    case BACKUP_ROWS:
        return look_at_rows(look, block);
    case BACKUP_GROWTH:
        if (!growth_read(&copy)) {
            return malformed(look, block, "the growth of tags");
        }
        while (backup_growth_next(&copy, &tag)) {
            count++;
        }
        return count == copy.growth.count && reader_done(&copy.payload)
                   ? 0
                   : malformed(look, block, "the growth of a tag");
    case BACKUP_END:
        return look_at_end(look, block);
    default:
        return backup_fail(look->error, ERR_CORRUPT, "byte %zu: a block of the unknown kind %d",
                           block->at, (int)block->kind);
    }
}

bool backup_begins(const void *bytes, size_t len, uint64_t at)
{
    size_t left = at < MAGIC_BYTES ? MAGIC_BYTES - (size_t)at : 0;

    return left == 0 || memcmp(bytes, &MAGIC[at], len < left ? len : left) == 0;
}

int backup_verify(const void *data, size_t len, struct backup_head *ret_head,
                  struct backup_totals *ret_totals, struct backup_error *ret_error)
{
    struct look look = {.reader = {.data = data, .len = len}, .error = ret_error};
    struct backup_block block = {.kind = BACKUP_HEAD};
    int err = read_head(&look);

    while (err == 0 && block.kind != BACKUP_END) {
        err = read_block(&look, &block);
        if (err == 0) {
            err = look_at_block(&look, &block);
        }
    }
    *ret_head = look.head;
    *ret_totals = look.totals;
    return err;
}

void backup_reader_init(struct backup_reader *reader, const void *data, size_t len)
{
    *reader = (struct backup_reader){.data = data, .len = len, .at = MAGIC_BYTES};
}

bool backup_next(struct backup_reader *reader, struct backup_block *ret_block)
{
    struct backup_error error;
    struct look look = {.reader = *reader, .error = &error};
    int err;

    do {
        err = read_block(&look, ret_block);
        ASSERT(err == 0); /* it was verified */
    } while (ret_block->kind == BACKUP_HEAD);
    *reader = look.reader;
    if (ret_block->kind == BACKUP_GROWTH) {
        ASSERT(growth_read(ret_block));
    }
    return ret_block->kind != BACKUP_END;
}

bool backup_growth_next(struct backup_block *block, struct backup_tag_growth *ret_tag)
{
    size_t len;

    if (block->payload.bad || reader_left(&block->payload) == 0) {
        return false;
    }
    ret_tag->name = (const char *)reader_str16(&block->payload, &len);
    ret_tag->name_len = (uint16_t)len;
    ret_tag->max_id = reader_u64(&block->payload);
    if (len < 1 || len > LIMIT_TAG_NAME_BYTES || ret_tag->max_id > TAG_MAX_ID_END) {
        block->payload.bad = true;
    }
    return !block->payload.bad;
}
