/*
 * test_strict_command.c - golden bytes of the commands of strict tags and of their results, round
 * trips, limits, and refusal of damage.
 *
 * Thread: one.
 */
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/codec/command.h"
#include "src/id/codec/tests/golden.h"
#include "src/id/tests/id_stamp.h"
#include "src/tests/unit/hex.h"

#define WALL_MS 1700000000000
#define WALL "0068e5cf8b010000 "

/* One kind of message: who writes it, its bytes, who reads it. */
static const struct command_list BATCH = {.wall_ms = WALL_MS, .key_limit = 1000000};

static const struct strict_item KEYED = {"order", 5, "k1", 2, LIMIT_COUNT, 0, 0, 0};
static const struct strict_item COUNTED = {"order", 5, "k1", 2, LIMIT_COUNT, 0x1122334455667788,
                                           0x0102,  0};
static const struct strict_item PLAIN = {"a", 1, NULL, 0, 1, 0, 0, 0};

static void encode_strict(struct buf *buf)
{
    command_put(buf, COMMAND_STRICT, &BATCH);
    command_item_put(buf, COMMAND_STRICT, &KEYED);
    command_item_put(buf, COMMAND_STRICT, &PLAIN);
    command_items_end(buf);
}

static void encode_strict_dated(struct buf *buf)
{
    const struct strict_item dated = {"a", 1, NULL, 0, 1, 0, 0, 20261124};

    command_put(
        buf, COMMAND_STRICT,
        &(struct command_list){.wall_ms = WALL_MS, .key_limit = 1000000, .key_share = 250000});
    command_item_put(buf, COMMAND_STRICT, &COUNTED);
    command_item_put(buf, COMMAND_STRICT, &dated);
    command_items_end(buf);
}

static void encode_window(struct buf *buf)
{
    command_put(buf, COMMAND_WINDOW, &(struct command_list){.wall_ms = WALL_MS});
    command_item_put(buf, COMMAND_WINDOW, &(struct grant_item){"a", 1, 1});
    command_item_put(buf, COMMAND_WINDOW, &(struct grant_item){"bb", 2, 0x11223344});
    command_items_end(buf);
}

static void encode_keyed(struct buf *buf)
{
    const struct keyed_item keyed = {.item = COUNTED, .first = 0x0a0b0c, .generation = 3};

    command_put(buf, COMMAND_KEYED,
                &(struct command_list){.wall_ms = WALL_MS,
                                       .key_limit = 1000000,
                                       .key_share = 250000,
                                       .term = 0x1122334455667788});
    command_item_put(buf, COMMAND_KEYED, &keyed);
    command_items_end(buf);
}

static void encode_item(struct buf *buf)
{
    strict_item_encode(&COUNTED, buf);
}

static void encode_give_back(struct buf *buf)
{
    command_put(buf, COMMAND_GIVE_BACK, &(struct command_list){.wall_ms = WALL_MS});
    command_item_put(buf, COMMAND_GIVE_BACK, &(struct give_back_item){"a", 1, 4, 100, 0x1122});
    command_item_put(buf, COMMAND_GIVE_BACK,
                     &(struct give_back_item){"bb", 2, 1, 0, TAG_MAX_ID_END});
    command_items_end(buf);
}

static void encode_recalled(struct buf *buf)
{
    command_put(buf, COMMAND_RECALLED, NULL);
    command_item_put(buf, COMMAND_RECALLED, &(struct recalled_item){"a", 1, 4});
    command_item_put(buf, COMMAND_RECALLED, &(struct recalled_item){"bb", 2, UINT32_MAX});
    command_items_end(buf);
}

static void encode_results(struct buf *buf)
{
    const struct strict_result results[3] = {
        {.generation = 9, .first = 0x1122334455667788},
        {.generation = 2, .first = 5, .replayed = true},
        {.status = ERR_KEY_CONFLICT, .generation = 1, .detail = 7},
    };

    results_encode(RESULT_STRICT, results, 3, buf);
}

static void encode_statuses(struct buf *buf)
{
    const int32_t statuses[2] = {0, ERR_CONFLICT};

    results_encode(RESULT_STATUSES, statuses, 2, buf);
}

static int decode_command(const void *data, size_t len)
{
    struct command command;

    return command_read(data, len, &command);
}

static int decode_item(const void *data, size_t len)
{
    struct strict_item item;

    return strict_item_decode(data, len, &item);
}

static int decode_results(const void *data, size_t len)
{
    struct strict_result results[3];
    size_t count;

    return results_decode(RESULT_STRICT, data, len, results, 3, &count);
}

static int decode_statuses(const void *data, size_t len)
{
    int32_t statuses[2];
    size_t count;

    return results_decode(RESULT_STATUSES, data, len, statuses, 2, &count);
}

/* For no client, and of no period. */
#define NOBODY " 0000000000000000 00000000 00000000 "

static const struct golden GOLDEN[] = {
    {"strict", encode_strict, decode_command,
     "03 0c " ID_STAMP_EMPTY WALL "40420f00 00000000 "
     "01 0500 6f72646572 0200 6b31 a0860100" NOBODY "01 0100 61 0000 01000000" NOBODY "00"},
    {"strict dated", encode_strict_dated, decode_command,
     "03 0c " ID_STAMP_EMPTY WALL "40420f00 90d00300 "
     "01 0500 6f72646572 0200 6b31 a0860100 8877665544332211 02010000 00000000 "
     "01 0100 61 0000 01000000 0000000000000000 00000000 04293501 00"},
    {"window", encode_window, decode_command,
     "03 14 " ID_STAMP_EMPTY WALL "01 0100 61 01000000 01 0200 6262 44332211 00"},
    {"keyed", encode_keyed, decode_command,
     "03 15 " ID_STAMP_EMPTY WALL "8877665544332211 40420f00 90d00300 "
     "01 0500 6f72646572 0200 6b31 a0860100 8877665544332211 02010000 0c0b0a0000000000 03000000 "
     "00"},
    {"item", encode_item, decode_item,
     "01 60 0500 6f72646572 0200 6b31 a0860100 8877665544332211 02010000 00000000"},
    {"give back", encode_give_back, decode_command,
     "03 0d " ID_STAMP_EMPTY WALL "01 0100 61 04000000 6400000000000000 2211000000000000 "
     "01 0200 6262 01000000 0000000000000000 ffffffffffffff7f 00"},
    {"recalled", encode_recalled, decode_command,
     "03 0e " ID_STAMP_EMPTY "01 0100 61 04000000 01 0200 6262 ffffffff 00"},
    {"results", encode_results, decode_results,
     "01 87 03000000 00000000 00 09000000 8877665544332211 00000000 01 02000000 0500000000000000 "
     "dcffffff 00 01000000 0700000000000000"},
    {"statuses", encode_statuses, decode_statuses, "01 88 02000000 00000000 ecffffff"},
};
#define GOLDEN_COUNT (sizeof GOLDEN / sizeof GOLDEN[0])

static void test_strict_golden_bytes(void **state)
{
    (void)state;
    golden_bytes(GOLDEN, GOLDEN_COUNT);
}

static void test_strict_decoders_refuse_damage(void **state)
{
    (void)state;
    golden_refuse_damage(GOLDEN, GOLDEN_COUNT);
    golden_refuse_each_other(GOLDEN, GOLDEN_COUNT);
}

static void test_strict_decoders_survive_any_bytes(void **state)
{
    (void)state;
    golden_survive_any_bytes(GOLDEN, GOLDEN_COUNT, 12);
}

static void test_strict_items_in_order(void **state)
{
    struct buf buf = BUF_INIT;
    struct command read;
    struct command_list command;
    struct strict_item item;

    (void)state;
    encode_strict(&buf);
    assert_int_equal(command_read(buf.data, buf.len, &read), 0);
    command = read.list;
    assert_true(command.wall_ms == WALL_MS);
    assert_int_equal(command.key_limit, BATCH.key_limit);
    assert_int_equal(command.count, 2);
    assert_true(command_next(&command, &item));
    assert_int_equal(item.name_len, 5);
    assert_memory_equal(item.name, "order", 5);
    assert_int_equal(item.key_len, 2);
    assert_memory_equal(item.key, "k1", 2);
    assert_int_equal(item.count, LIMIT_COUNT);
    assert_true(command_next(&command, &item));
    assert_int_equal(item.name_len, 1);
    assert_int_equal(item.key_len, 0);
    assert_int_equal(item.count, 1);
    assert_false(command_next(&command, &item));
    buf_free(&buf);
}

static int read_batch(const struct command_list *batch, unsigned count)
{
    struct buf buf = BUF_INIT;
    int err;

    command_put(&buf, COMMAND_STRICT, batch);
    for (unsigned i = 0; i < count; i++) {
        command_item_put(&buf, COMMAND_STRICT, &PLAIN);
    }
    command_items_end(&buf);
    err = decode_command(buf.data, buf.len);
    buf_free(&buf);
    return err;
}

static void test_strict_batch_limits(void **state)
{
    (void)state;
    assert_int_equal(read_batch(&BATCH, 0), ERR_BAD_MESSAGE);
    assert_int_equal(read_batch(&BATCH, 1), 0);
    assert_int_equal(read_batch(&BATCH, LIMIT_STRICT_ITEMS), 0);
    assert_int_equal(read_batch(&BATCH, LIMIT_STRICT_ITEMS + 1), ERR_BAD_MESSAGE);
}

static void item_is(const char *hex, int wanted)
{
    struct buf buf = BUF_INIT;

    hex_put(&buf, hex);
    assert_int_equal(decode_item(buf.data, buf.len), wanted);
    buf_free(&buf);
}

static void test_strict_item_limits(void **state)
{
    char key[LIMIT_KEY_BYTES];
    struct strict_item item = {"order", 5, key, LIMIT_KEY_BYTES, 1, 0, 0, 0};
    struct strict_item back;
    struct buf buf = BUF_INIT;

    (void)state;
    memset(key, 'k', sizeof key);
    strict_item_encode(&item, &buf);
    assert_int_equal(strict_item_decode(buf.data, buf.len, &back), 0);
    assert_int_equal(back.key_len, LIMIT_KEY_BYTES);
    assert_memory_equal(back.key, key, LIMIT_KEY_BYTES);
    buf.data[9] = LIMIT_KEY_BYTES + 1; /* the key's length */
    buf_put_u8(&buf, 0);
    assert_int_equal(strict_item_decode(buf.data, buf.len, &back), ERR_BAD_MESSAGE);
    buf_free(&buf);
    item_is("01 60 0100 61 0000 01000000" NOBODY, 0);
    item_is("01 60 0100 61 0000 00000000" NOBODY, ERR_BAD_MESSAGE); /* no ids */
    item_is("01 60 0100 61 0000 a0860100" NOBODY, 0);
    item_is("01 60 0100 61 0000 a1860100" NOBODY, ERR_BAD_MESSAGE); /* LIMIT_COUNT + 1 */
}

static void test_strict_results_round_trip(void **state)
{
    struct strict_result results[3];
    struct buf buf = BUF_INIT;
    size_t count = 0;

    (void)state;
    encode_results(&buf);
    assert_int_equal(results_decode(RESULT_STRICT, buf.data, buf.len, results, 2, &count),
                     ERR_BAD_MESSAGE);
    assert_int_equal(results_decode(RESULT_STRICT, buf.data, buf.len, results, 3, &count), 0);
    assert_int_equal(count, 3);
    assert_true(results[0].status == 0 && results[0].first == 0x1122334455667788);
    assert_true(results[0].generation == 9 && !results[0].replayed);
    assert_true(results[1].replayed && results[1].first == 5);
    assert_int_equal(results[2].status, ERR_KEY_CONFLICT);
    assert_true(results[2].detail == 7);
    buf.data[10] = 2; /* an unknown flag */
    assert_int_equal(results_decode(RESULT_STRICT, buf.data, buf.len, results, 3, &count),
                     ERR_BAD_MESSAGE);
    buf.data[10] = 0;
    buf.data[6] = 1; /* a status above 0 */
    assert_int_equal(results_decode(RESULT_STRICT, buf.data, buf.len, results, 3, &count),
                     ERR_BAD_MESSAGE);
    buf.data[6] = 0;
    buf.data[44] = 1; /* an error that is replayed */
    assert_int_equal(results_decode(RESULT_STRICT, buf.data, buf.len, results, 3, &count),
                     ERR_BAD_MESSAGE);
    buf_free(&buf);
}

/* As many as an entry may hold. */
static void test_strict_results_at_their_limit(void **state)
{
    struct strict_result *results = calloc(LIMIT_STRICT_ITEMS, sizeof *results);
    struct buf buf = BUF_INIT;
    size_t count = 0;

    (void)state;
    assert_non_null(results);
    results[LIMIT_STRICT_ITEMS - 1].first = 77;
    results_encode(RESULT_STRICT, results, LIMIT_STRICT_ITEMS, &buf);
    assert_true(buf.len < LIMIT_ROW_VALUE_BYTES);
    memset(results, 0xff, LIMIT_STRICT_ITEMS * sizeof *results);
    assert_int_equal(
        results_decode(RESULT_STRICT, buf.data, buf.len, results, LIMIT_STRICT_ITEMS, &count), 0);
    assert_int_equal(count, LIMIT_STRICT_ITEMS);
    assert_true(results[LIMIT_STRICT_ITEMS - 1].first == 77 && results[0].first == 0);
    free(results);
    buf_free(&buf);
}

static void test_give_back_items_and_limits(void **state)
{
    struct buf buf = BUF_INIT;
    struct command read;
    struct command_list command;
    struct give_back_item item;

    (void)state;
    encode_give_back(&buf);
    assert_int_equal(command_read(buf.data, buf.len, &read), 0);
    command = read.list;
    assert_true(command.wall_ms == WALL_MS);
    assert_int_equal(command.count, 2);
    assert_true(command_next(&command, &item));
    assert_true(item.name_len == 1 && item.name[0] == 'a');
    assert_true(item.generation == 4);
    assert_true(item.first == 100 && item.end == 0x1122);
    assert_true(command_next(&command, &item));
    assert_true(item.first == 0 && item.end == TAG_MAX_ID_END);
    assert_false(command_next(&command, &item));
    buf.data[buf.len - 2] = 0x80; /* beyond the last id */
    assert_int_equal(decode_command(buf.data, buf.len), ERR_BAD_MESSAGE);
    memset(buf.data + buf.len - 9, 0, 8); /* an empty range */
    assert_int_equal(decode_command(buf.data, buf.len), ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static int read_give_backs(unsigned count)
{
    struct buf buf = BUF_INIT;
    int err;

    command_put(&buf, COMMAND_GIVE_BACK, &(struct command_list){.wall_ms = 0});
    for (unsigned i = 0; i < count; i++) {
        command_item_put(&buf, COMMAND_GIVE_BACK, &(struct give_back_item){"a", 1, 1, 1, 2});
    }
    command_items_end(&buf);
    err = decode_command(buf.data, buf.len);
    buf_free(&buf);
    return err;
}

static int read_recalleds(unsigned count)
{
    struct buf buf = BUF_INIT;
    int err;

    command_put(&buf, COMMAND_RECALLED, NULL);
    for (unsigned i = 0; i < count; i++) {
        command_item_put(&buf, COMMAND_RECALLED, &(struct recalled_item){"a", 1, 1});
    }
    command_items_end(&buf);
    err = decode_command(buf.data, buf.len);
    buf_free(&buf);
    return err;
}

static void test_lists_of_items_have_limits(void **state)
{
    (void)state;
    assert_int_equal(read_give_backs(0), ERR_BAD_MESSAGE);
    assert_int_equal(read_give_backs(LIMIT_GRANTS_PER_ENTRY), 0);
    assert_int_equal(read_give_backs(LIMIT_GRANTS_PER_ENTRY + 1), ERR_BAD_MESSAGE);
    assert_int_equal(read_recalleds(0), ERR_BAD_MESSAGE);
    assert_int_equal(read_recalleds(LIMIT_GRANTS_PER_ENTRY), 0);
    assert_int_equal(read_recalleds(LIMIT_GRANTS_PER_ENTRY + 1), ERR_BAD_MESSAGE);
}

static void test_recalled_items_in_order(void **state)
{
    struct buf buf = BUF_INIT;
    struct command read;
    struct command_list command;
    struct recalled_item item;

    (void)state;
    encode_recalled(&buf);
    assert_int_equal(command_read(buf.data, buf.len, &read), 0);
    command = read.list;
    assert_true(command.count == 2);
    assert_true(command_next(&command, &item));
    assert_true(item.name_len == 1 && item.generation == 4);
    assert_true(command_next(&command, &item));
    assert_true(item.name_len == 2 && item.generation == UINT32_MAX);
    assert_false(command_next(&command, &item));
    buf_free(&buf);
}

static void test_statuses_round_trip(void **state)
{
    int32_t statuses[2];
    struct buf buf = BUF_INIT;
    size_t count = 0;

    (void)state;
    encode_statuses(&buf);
    assert_int_equal(results_decode(RESULT_STATUSES, buf.data, buf.len, statuses, 1, &count),
                     ERR_BAD_MESSAGE);
    assert_int_equal(results_decode(RESULT_STATUSES, buf.data, buf.len, statuses, 2, &count), 0);
    assert_int_equal(count, 2);
    assert_true(statuses[0] == 0 && statuses[1] == ERR_CONFLICT);
    buf.data[6] = 1; /* a status above 0 */
    assert_int_equal(results_decode(RESULT_STATUSES, buf.data, buf.len, statuses, 2, &count),
                     ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static int read_keyed(struct keyed_item keyed)
{
    struct buf buf = BUF_INIT;
    int err;

    /* Written without the checks of command_item_put(). */
    encode_keyed(&buf);
    memcpy(buf.data + buf.len - 13, &keyed.first, 8);
    memcpy(buf.data + buf.len - 29, &keyed.item.count, 4);
    err = decode_command(buf.data, buf.len);
    buf_free(&buf);
    return err;
}

static void test_keyed_ids_end_before_the_axis_does(void **state)
{
    (void)state;
    assert_int_equal(read_keyed((struct keyed_item){.first = 0, .item.count = 1}), 0);
    assert_int_equal(read_keyed((struct keyed_item){.first = TAG_MAX_ID_END - 5, .item.count = 5}),
                     0);
    assert_int_equal(read_keyed((struct keyed_item){.first = TAG_MAX_ID_END - 5, .item.count = 6}),
                     ERR_BAD_MESSAGE);
    assert_int_equal(read_keyed((struct keyed_item){.first = TAG_MAX_ID_END, .item.count = 1}),
                     ERR_BAD_MESSAGE);
    assert_int_equal(read_keyed((struct keyed_item){.first = 1, .item.count = 0}), ERR_BAD_MESSAGE);
    assert_int_equal(read_keyed((struct keyed_item){.first = 1, .item.count = LIMIT_COUNT + 1}),
                     ERR_BAD_MESSAGE);
}

static int read_window(uint32_t size, unsigned count)
{
    struct buf buf = BUF_INIT;
    int err;

    command_put(&buf, COMMAND_WINDOW, &(struct command_list){.wall_ms = 0});
    for (unsigned i = 0; i < count; i++) {
        command_item_put(&buf, COMMAND_WINDOW, &(struct grant_item){"a", 1, 1});
    }
    command_items_end(&buf);
    memcpy(buf.data + buf.len - (count > 0 ? 5 : 0), &size, count > 0 ? 4 : 0);
    err = decode_command(buf.data, buf.len);
    buf_free(&buf);
    return err;
}

static void test_windows_have_a_size_and_a_limit(void **state)
{
    (void)state;
    assert_int_equal(read_window(1, 0), ERR_BAD_MESSAGE);
    assert_int_equal(read_window(0, 1), ERR_BAD_MESSAGE);
    assert_int_equal(read_window(1, 1), 0);
    assert_int_equal(read_window(1, LIMIT_GRANTS_PER_ENTRY), 0);
    assert_int_equal(read_window(1, LIMIT_GRANTS_PER_ENTRY + 1), ERR_BAD_MESSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict_golden_bytes),
        cmocka_unit_test(test_strict_decoders_refuse_damage),
        cmocka_unit_test(test_strict_decoders_survive_any_bytes),
        cmocka_unit_test(test_strict_items_in_order),
        cmocka_unit_test(test_strict_batch_limits),
        cmocka_unit_test(test_strict_item_limits),
        cmocka_unit_test(test_strict_results_round_trip),
        cmocka_unit_test(test_strict_results_at_their_limit),
        cmocka_unit_test(test_give_back_items_and_limits),
        cmocka_unit_test(test_lists_of_items_have_limits),
        cmocka_unit_test(test_recalled_items_in_order),
        cmocka_unit_test(test_statuses_round_trip),
        cmocka_unit_test(test_keyed_ids_end_before_the_axis_does),
        cmocka_unit_test(test_windows_have_a_size_and_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
