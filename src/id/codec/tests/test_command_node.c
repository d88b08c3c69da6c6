/*
 * test_command_node.c - the info of a node, as a command and as a row.
 *
 * Thread: one.
 */
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/id/tests/id_stamp.h"
#include "src/state/codec/cluster_command.h"
#include "src/tests/unit/hex.h"

#define LEVELS "0100 0100 0000000000000000"

static const struct node_info NODE = {7, 0xdeadbeef, "a:8080", "0.1.0", "a:7081", {1, 2}, 9};

static void test_node_info_round_trip_and_limits(void **state)
{
    struct node_info info = NODE;
    struct cluster_command read;
    struct buf buf = BUF_INIT;

    (void)state;
    memset(info.http_address, 'h', LIMIT_ADDRESS_BYTES);
    memset(info.version, 'v', sizeof info.version - 1);
    memset(info.peer_address, 'p', LIMIT_ADDRESS_BYTES - 2);
    memcpy(info.peer_address + LIMIT_ADDRESS_BYTES - 2, ":1", 3);
    cluster_command_put(&buf, COMMAND_NODE_INFO, &info);
    assert_int_equal(cluster_command_read(buf.data, buf.len, &read), 0);
    assert_memory_equal(&read.node, &info, sizeof info);
    buf_free(&buf);
    hex_put(&buf, "03 05 " ID_STAMP_EMPTY
                  "0700000000000000 0000000000000000 0100 0a 0000 0000 " LEVELS); /* a line feed */
    assert_int_equal(cluster_command_read(buf.data, buf.len, &read), ERR_BAD_MESSAGE);
    buf_free(&buf);
    hex_put(&buf, "03 05 " ID_STAMP_EMPTY
                  "0000010000000000 0000000000000000 0000 0000 0000 " LEVELS); /* node 65536 */
    assert_int_equal(cluster_command_read(buf.data, buf.len, &read), ERR_BAD_MESSAGE);
    buf_free(&buf);
    hex_put(&buf,
            "03 05 " ID_STAMP_EMPTY
            "0100000000000000 0000000000000000 0000 0000 0300 303a31 " LEVELS); /* a wildcard */
    assert_int_equal(cluster_command_read(buf.data, buf.len, &read), ERR_BAD_MESSAGE);
    buf_free(&buf);
    hex_put(&buf, "03 05 " ID_STAMP_EMPTY
                  "0100000000000000 0000000000000000 0000 2000"); /* version too long */
    for (unsigned i = 0; i < 32; i++) {
        buf_put_u8(&buf, 'v');
    }
    hex_put(&buf, "0000 " LEVELS);
    assert_int_equal(cluster_command_read(buf.data, buf.len, &read), ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static void test_node_info_row_golden_and_damage(void **state)
{
    struct node_info back = {0};
    struct buf buf = BUF_INIT;

    (void)state;
    row_put(&buf, &node_info_format, &NODE);
    assert_true(hex_equal(&buf, "02 efbeadde00000000 0600 613a38303830 0500 302e312e30 "
                                "0600 613a37303831 0100 0200 0900000000000000"));
    back.node_id = 7;
    assert_int_equal(row_read(buf.data, buf.len, &node_info_format, &back), 0);
    assert_memory_equal(&back, &NODE, sizeof back);
    for (size_t len = 0; len < buf.len; len++) {
        back.node_id = 7;
        assert_int_equal(row_read(buf.data, len, &node_info_format, &back), ERR_TRUNCATED);
    }
    back.node_id = 0;
    assert_int_equal(row_read(buf.data, buf.len, &node_info_format, &back), ERR_CORRUPT);
    buf.data[0] = 1;
    back.node_id = 7;
    assert_int_equal(row_read(buf.data, buf.len, &node_info_format, &back), ERR_BAD_VERSION);
    buf.data[0] = 2;
    buf_put_u8(&buf, 0);
    back.node_id = 7;
    assert_int_equal(row_read(buf.data, buf.len, &node_info_format, &back), ERR_CORRUPT);
    buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_node_info_round_trip_and_limits),
        cmocka_unit_test(test_node_info_row_golden_and_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
