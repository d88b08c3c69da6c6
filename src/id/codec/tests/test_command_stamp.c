/*
 * test_command_stamp.c - where a command's stamp stands, and what it may say.
 *
 * Thread: one.
 */
#include "src/tests/unit/test.h"
#include "src/id/codec/command.h"
#include "src/id/tests/id_stamp.h"
#include "src/tests/unit/hex.h"

#define WALL_MS 1700000000000
#define WALL "0068e5cf8b010000 "

static void test_a_stamp_stands_behind_the_type(void **state)
{
    struct command command;
    struct buf buf = BUF_INIT;

    (void)state;
    command_put(&buf, COMMAND_TAG_DELETE,
                &(struct delete_command){.name = "def", .name_len = 3, .wall_ms = WALL_MS});
    id_stamp_as(&buf, 0x0102, 3, 0x1122334455667788, 0x1122334455667780);
    assert_true(hex_equal(&buf,
                          "03 04 0201 0300000000000000 8877665544332211 8077665544332211 " //
                          WALL "0300 646566"));
    assert_int_equal(command_read(buf.data, buf.len, &command), 0);
    buf_free(&buf);
}

/* Overwrite bytes of a good stamp: 3, 7, 5, 5. */
static int read_stamp_with(size_t offset, size_t size, uint64_t value)
{
    struct session_stamp stamp;
    struct buf buf = BUF_INIT;
    int err;

    command_put(&buf, COMMAND_TAG_DELETE,
                &(struct delete_command){.name = "def", .name_len = 3, .wall_ms = WALL_MS});
    id_stamp_as(&buf, 3, 7, 5, 5);
    for (size_t i = 0; i < size; i++) {
        buf.data[SESSION_STAMP_AT + offset + i] = (uint8_t)(value >> 8 * i);
    }
    err = session_stamp_read(buf.data, buf.len, &stamp);
    buf_free(&buf);
    return err;
}

static void test_stamp_limits(void **state)
{
    (void)state;
    assert_int_equal(read_stamp_with(0, 2, 0), ERR_BAD_MESSAGE); /* the node */
    assert_int_equal(read_stamp_with(0, 2, 1), 0);
    assert_int_equal(read_stamp_with(0, 2, LIMIT_NODE_ID), 0);
    assert_int_equal(read_stamp_with(2, 8, 0), ERR_BAD_MESSAGE); /* its incarnation */
    assert_int_equal(read_stamp_with(2, 8, UINT64_MAX), 0);
    assert_int_equal(read_stamp_with(10, 8, 0), ERR_BAD_MESSAGE); /* the number */
    assert_int_equal(read_stamp_with(10, 8, 4), ERR_BAD_MESSAGE);
    assert_int_equal(read_stamp_with(10, 8, 5 + LIMIT_SESSION_COMMANDS - 1), 0);
    assert_int_equal(read_stamp_with(10, 8, 5 + LIMIT_SESSION_COMMANDS), ERR_BAD_MESSAGE);
    assert_int_equal(read_stamp_with(18, 8, 0), ERR_BAD_MESSAGE); /* the lowest awaited */
    assert_int_equal(read_stamp_with(18, 8, 1), 0);
    assert_int_equal(read_stamp_with(18, 8, 6), ERR_BAD_MESSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stamp_stands_behind_the_type),
        cmocka_unit_test(test_stamp_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
