/*
 * fuzz_backup.c - any bytes as a backup: they are refused, or can be walked through.
 *
 * As they are, and once more with the checksums and numbers of all blocks set right, since nothing
 * else gets behind them.
 *
 * Thread: one.
 */
#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/hash.h"
#include "src/id/codec/backup_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define MAGIC "leafd backup\r\n\032\n"
#define BLOCK_HEAD_BYTES 16

static void walk(const struct buf *file, const struct backup_totals *totals)
{
    struct backup_reader reader;
    struct backup_block block;
    struct backup_tag_growth tag;
    struct backup_row row;
    uint64_t rows = 0;

    backup_reader_init(&reader, file->data, file->len);
    while (backup_next(&reader, &block)) {
        if (block.kind == BACKUP_GROWTH) {
            while (backup_growth_next(&block, &tag)) {
                ASSERT(tag.name_len > 0);
            }
        } else {
            while (backup_row_next(&block.payload, &row)) {
                ASSERT(row.key_len > 0 && row.value_len > 0);
                rows++;
            }
        }
        ASSERT(reader_done(&block.payload));
    }
    ASSERT(rows == totals->rows);
}

static void look(const struct buf *file)
{
    struct backup_error error = {""};
    struct backup_totals totals;
    struct backup_head head;

    if (backup_verify(file->data, file->len, &head, &totals, &error) == 0) {
        walk(file, &totals);
    } else {
        ASSERT(error.text[0] != '\0');
    }
}

/* The input as a list of blocks: {kind u8, length u8, payload}. */
static void put_blocks(struct buf *file, const uint8_t *data, size_t len)
{
    struct reader reader;

    buf_put(file, MAGIC, sizeof(MAGIC) - 1);
    reader_init(&reader, data, len);
    for (uint64_t number = 0; reader_left(&reader) > 1; number++) {
        size_t at = file->len;
        uint8_t kind = reader_u8(&reader);
        size_t size = reader_u8(&reader);

        size = size < reader_left(&reader) ? size : reader_left(&reader);
        buf_put_u32(file, kind);
        buf_put_u32(file, (uint32_t)size);
        buf_put_u64(file, number);
        buf_put(file, reader_bytes(&reader, size), size);
        ASSERT(file->len == at + BLOCK_HEAD_BYTES + size);
        buf_put_u32(file, hash_crc32c(file->data + at, file->len - at));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct buf file = BUF_INIT;

    buf_put(&file, data, len);
    look(&file);
    file.len = 0;
    put_blocks(&file, data, len);
    look(&file);
    buf_free(&file);
    return 0;
}
