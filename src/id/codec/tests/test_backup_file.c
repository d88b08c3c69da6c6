/*
 * test_backup_file.c - the bytes of a backup: what is written is read again, and every file that is
 * cut, changed, put together from others or of a later version is refused with what and where.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/base/hash.h"
#include "src/base/prng.h"
#include "src/id/codec/backup_file.h"
#include "src/state/codec/level.h"
#include "src/tests/unit/hex.h"

#define HEAD_AT 16
#define BLOCK_HEAD_BYTES 16
#define ROUNDS 20000

static void put_record(struct buf *records, const char *key, const char *value)
{
    buf_put_str16(records, key, strlen(key));
    buf_put_str32(records, value, strlen(value));
}

/* Three rows in two blocks, the second with growth of its tags. */
static void make(struct buf *out)
{
    const struct backup_growth growth = {.since_ms = 1000, .until_ms = 61000, .whole = true};
    const struct backup_tag_growth tag = {.name = "b", .name_len = 1, .max_id = 77};
    struct backup_head head = {.level = 1,
                               .node_id = 3,
                               .index = 42,
                               .term = 5,
                               .wall_ms = 1700000000000,
                               .log_ms = 1699999999000,
                               .cluster_id = "c-1",
                               .version = "0.2.0"};
    struct backup_writer writer;
    struct buf records = BUF_INIT;

    head.digest = hash_row("ta", 2, "1", 1) + hash_row("tb", 2, "22", 2) + hash_row("w", 1, "3", 1);
    backup_put_head(&writer, &head, out);
    put_record(&records, "ta", "1");
    backup_put_rows(&writer, records.data, records.len, 1, out);
    records.len = 0;
    backup_growth_begin(&writer, &growth, out);
    backup_growth_put(&writer, &tag, out);
    backup_growth_end(&writer, out);
    put_record(&records, "tb", "22");
    put_record(&records, "w", "3");
    backup_put_rows(&writer, records.data, records.len, 2, out);
    backup_put_end(&writer, out);
    buf_free(&records);
}

/* Verify a copy that ends where the memory does. */
static int verify(const void *data, size_t len, struct backup_error *error)
{
    struct backup_totals totals;
    struct backup_head head;
    void *exact = malloc(len > 0 ? len : 1);
    int rv;

    assert_non_null(exact);
    memcpy(exact, data, len);
    error->text[0] = '\0';
    rv = backup_verify(exact, len, &head, &totals, error);
    free(exact);
    return rv;
}

static void expect(const void *data, size_t len, int err, const char *text)
{
    struct backup_error error;
    int rv = verify(data, len, &error);

    if (rv != err || strstr(error.text, text) == NULL) {
        print_error("%d \"%s\", expected %d \"%s\"\n", rv, error.text, err, text);
        fail();
    }
}

/* The checksum of the block that begins there, set right again. Returns where the next one begins.
 */
static size_t mend(struct buf *file, size_t at)
{
    struct reader reader;
    uint32_t len;

    reader_init(&reader, file->data + at + 4, 4);
    len = reader_u32(&reader);
    assert_true(at + BLOCK_HEAD_BYTES + len + 4 <= file->len);
    buf_set_u32(file, at + BLOCK_HEAD_BYTES + len,
                hash_crc32c(file->data + at, BLOCK_HEAD_BYTES + len));
    return at + BLOCK_HEAD_BYTES + len + 4;
}

/* --- what is written is read --- */

static void test_what_is_written_is_read(void **state)
{
    struct backup_error error = {""};
    struct backup_totals totals;
    struct backup_reader reader;
    struct backup_block block;
    struct backup_head head;
    struct backup_tag_growth tag;
    struct backup_row row;
    struct buf file = BUF_INIT;

    (void)state;
    make(&file);
    assert_int_equal(backup_verify(file.data, file.len, &head, &totals, &error), 0);
    assert_int_equal(head.format, BACKUP_FORMAT);
    assert_int_equal(head.index, 42);
    assert_string_equal(head.cluster_id, "c-1");
    assert_string_equal(head.version, "0.2.0");
    assert_int_equal(totals.rows, 3);
    assert_int_equal(totals.blocks, 4);
    backup_reader_init(&reader, file.data, file.len);
    assert_true(backup_next(&reader, &block));
    assert_int_equal(block.kind, BACKUP_ROWS);
    assert_true(backup_row_next(&block.payload, &row));
    assert_memory_equal(row.key, "ta", 2);
    assert_memory_equal(row.value, "1", 1);
    assert_false(backup_row_next(&block.payload, &row));
    assert_true(backup_next(&reader, &block));
    assert_int_equal(block.kind, BACKUP_GROWTH);
    assert_int_equal(block.growth.since_ms, 1000);
    assert_int_equal(block.growth.until_ms, 61000);
    assert_true(block.growth.whole);
    assert_int_equal(block.growth.count, 1);
    assert_true(backup_growth_next(&block, &tag));
    assert_memory_equal(tag.name, "b", 1);
    assert_int_equal(tag.max_id, 77);
    assert_false(backup_growth_next(&block, &tag));
    assert_true(backup_next(&reader, &block));
    assert_int_equal(block.kind, BACKUP_ROWS);
    assert_false(backup_next(&reader, &block));
    buf_free(&file);
}

static void test_golden_bytes(void **state)
{
    struct buf file = BUF_INIT;

    (void)state;
    make(&file);
    assert_true(hex_equal(&file, "6c65616664206261636b75700d0a1a0a01000000510000000000000000000000"
                                 "020001000000000000000000000000000000000003000000000000002a000000"
                                 "000000000500000000000000133b616436df434d0068e5cf8b0100001864e5cf"
                                 "8b010000000300632d310500302e322e3059c3d3bb0300000009000000010000"
                                 "00000000000200746101000000314d4fce580200000020000000020000000000"
                                 "0000e80300000000000048ee00000000000001010000000100624d0000000000"
                                 "0000fc01f1a10300000012000000030000000000000002007462020000003232"
                                 "0100770100000033b886e3370400000018000000040000000000000003000000"
                                 "000000000400000000000000ec000000000000007c939932"));
    buf_free(&file);
}

/* --- what is refused --- */

/* Shows backup-damage. */
static void test_every_cut_is_refused(void **state)
{
    struct backup_error error;
    struct buf file = BUF_INIT;

    (void)state;
    make(&file);
    for (size_t len = 0; len < file.len; len++) {
        int rv = verify(file.data, len, &error);

        assert_int_equal(rv, len < HEAD_AT ? ERR_CORRUPT : ERR_TRUNCATED);
        assert_non_null(strstr(error.text, len < HEAD_AT ? "not a backup" : "it was cut off"));
    }
    buf_free(&file);
}

/* However it is cut into pieces: a wrong byte of the magic text is seen in the piece with it. */
static void test_what_cannot_begin_a_backup(void **state)
{
    struct buf good = BUF_INIT;

    (void)state;
    make(&good);
    for (size_t at = 0; at <= HEAD_AT; at++) {
        for (size_t len = 0; at + len <= HEAD_AT + 1; len++) {
            uint8_t piece[HEAD_AT + 1];

            assert_true(backup_begins(good.data + at, len, at));
            for (size_t wrong = 0; wrong < len; wrong++) {
                memcpy(piece, good.data + at, len);
                piece[wrong] ^= 1;
                assert_int_equal(backup_begins(piece, len, at), at + wrong >= HEAD_AT);
            }
        }
    }
    buf_free(&good);
}

/* Shows backup-damage. */
static void test_every_flipped_bit_is_refused(void **state)
{
    struct backup_error error;
    struct buf file = BUF_INIT;

    (void)state;
    make(&file);
    for (size_t bit = 0; bit < 8 * file.len; bit++) {
        file.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(verify(file.data, file.len, &error), 0);
        assert_true(strlen(error.text) > 20);
        file.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    expect(file.data, file.len, 0, "");
    buf_free(&file);
}

static void test_more_than_one_file_is_refused(void **state)
{
    struct buf file = BUF_INIT;
    size_t len;

    (void)state;
    make(&file);
    len = file.len;
    buf_put_u8(&file, 0);
    expect(file.data, file.len, ERR_CORRUPT, "1 bytes follow the closing record");
    file.len = len;
    make(&file);
    expect(file.data, file.len, ERR_CORRUPT, "follow the closing record");
    buf_free(&file);
}

static void test_a_later_format_or_level_is_refused(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
        const char *text;
    } later[] = {
        {0, BACKUP_FORMAT + 1, "written in format 3 at level 1"},
        {0, 0, "written in format 0"},
        {2, LEVEL_NEWEST + 1, "at level 4"},
        {2, 0, "at level 0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        struct buf file = BUF_INIT;

        make(&file);
        file.data[HEAD_AT + BLOCK_HEAD_BYTES + later[i].at] = later[i].value;
        (void)mend(&file, HEAD_AT);
        expect(file.data, file.len, ERR_BAD_VERSION, later[i].text);
        buf_free(&file);
    }
}

/* Whole blocks that do not belong together. */
static void test_blocks_that_are_missing_or_others_are_refused(void **state)
{
    struct buf file = BUF_INIT;
    struct buf other = BUF_INIT;
    size_t first;
    size_t second;

    (void)state;
    make(&file);
    first = mend(&file, HEAD_AT);
    second = mend(&file, first);
    /* One block less, though the numbers were set right: block 1 is gone. */
    buf_put(&other, file.data, first);
    buf_put(&other, file.data + second, file.len - second);
    expect(other.data, other.len, ERR_CORRUPT, "block 2 of");
    for (size_t at = first, number = 1; at < other.len; number++) {
        other.data[at + 8] = (uint8_t)number;
        at = mend(&other, at);
    }
    expect(other.data, other.len, ERR_CORRUPT, "parts are missing");
    /* A row of another state: the counts are right, the digest is not. */
    file.data[first + BLOCK_HEAD_BYTES + 3] = '9';
    (void)mend(&file, first);
    expect(file.data, file.len, ERR_CORRUPT, "the digest of the rows");
    /* Rows that are not in order. */
    file.data[first + BLOCK_HEAD_BYTES + 2] = 'x';
    (void)mend(&file, first);
    expect(file.data, file.len, ERR_CORRUPT, "out of order");
    buf_free(&file);
    buf_free(&other);
}

/* Nothing a file says, though all its checksums are right, ends the process. */
static void test_any_bytes_with_right_checksums(void **state)
{
    struct backup_error error;
    struct buf good = BUF_INIT;
    struct prng prng;
    unsigned passed = 0;

    (void)state;
    make(&good);
    prng_seed(&prng, 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct buf file = BUF_INIT;
        size_t at = HEAD_AT;

        buf_put(&file, good.data, good.len);
        while (at < file.len) {
            struct reader reader;
            uint32_t len;

            reader_init(&reader, file.data + at + 4, 4);
            len = reader_u32(&reader);
            for (unsigned i = 0; i < prng_below(&prng, 3) && len > 0; i++) {
                file.data[at + BLOCK_HEAD_BYTES + prng_below(&prng, len)] =
                    (uint8_t)prng_next(&prng);
            }
            at = mend(&file, at);
        }
        passed += verify(file.data, file.len, &error) == 0;
        buf_free(&file);
    }
    assert_true(passed > 0 && passed < ROUNDS); /* such as another node's id in the head */
    buf_free(&good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_golden_bytes),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_what_cannot_begin_a_backup),
        cmocka_unit_test(test_every_flipped_bit_is_refused),
        cmocka_unit_test(test_more_than_one_file_is_refused),
        cmocka_unit_test(test_a_later_format_or_level_is_refused),
        cmocka_unit_test(test_blocks_that_are_missing_or_others_are_refused),
        cmocka_unit_test(test_any_bytes_with_right_checksums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
