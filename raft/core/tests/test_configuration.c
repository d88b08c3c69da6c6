/*
 * test_configuration.c - the check of encoded configurations: all that passes is decoded by
 * the core, all that breaks a rule is refused.
 *
 * Thread: one.
 */
#include "raft/wire/wire.h"

#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "raft/transport/tests/net_hex.h"
#include "raft/core/tests/core_messages.h"
#include "src/base/limits.h"
#include "src/base/prng.h"

/* Check memory that ends where the encoding does. */
static int check(const struct buf *buf)
{
    uint8_t *copy = exact_copy(buf->data, buf->len);
    int rv = configuration_check(copy, buf->len);

    free(copy);
    return rv;
}

static int check_hex(const char *hex)
{
    struct buf buf = BUF_INIT;
    int rv;

    hex_put(&buf, hex);
    rv = check(&buf);
    buf_free(&buf);
    return rv;
}

/* What passed the check must decode, to the same bytes again. */
static void assert_core_agrees(const struct buf *buf)
{
    struct raft_buffer encoded = {buf->data, buf->len};
    struct raft_configuration conf;
    struct buf again = BUF_INIT;

    raft_configuration_init(&conf);
    assert_int_equal(raft_configuration_decode(&encoded, &conf), 0);
    conf_encode(&conf, &again);
    assert_int_equal(again.len, buf->len);
    assert_memory_equal(again.data, buf->data, buf->len);
    buf_free(&again);
    raft_configuration_close(&conf);
}

/* count servers, ids from 1, addresses of address_len bytes. */
static void make(size_t count, size_t address_len, struct buf *buf)
{
    struct raft_configuration conf;
    char address[LIMIT_ADDRESS_BYTES + 2];

    assert_true(address_len < sizeof address);
    raft_configuration_init(&conf);
    for (size_t i = 1; i <= count; i++) {
        memset(address, (int)('a' + i), address_len);
        address[address_len] = '\0';
        conf_add(&conf, i, address, i == count ? RAFT_VOTER : RAFT_STANDBY);
    }
    conf_encode(&conf, buf);
    raft_configuration_close(&conf);
}

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    for (size_t count = 1; count <= LIMIT_NODES; count++) {
        for (size_t address_len = 1; address_len <= 16; address_len++) {
            struct buf buf = BUF_INIT;
            size_t len;

            make(count, address_len, &buf);
            len = buf.len;
            assert_int_equal(check(&buf), 0);
            assert_core_agrees(&buf);
            for (buf.len = 0; buf.len < len; buf.len++) {
                assert_int_equal(check(&buf), ERR_BAD_MESSAGE);
            }
            buf_put_u8(&buf, 0);
            assert_int_equal(check(&buf), ERR_BAD_MESSAGE);
            buf_put_u64(&buf, 0);
            buf.len = len + 8;
            assert_int_equal(check(&buf), ERR_BAD_MESSAGE);
            buf_free(&buf);
        }
    }
}

static void test_limits(void **state)
{
    struct buf buf = BUF_INIT;

    (void)state;
    make(LIMIT_NODES, LIMIT_ADDRESS_BYTES, &buf);
    assert_int_equal(check(&buf), 0);
    assert_core_agrees(&buf);
    buf_free(&buf);
    make(LIMIT_NODES + 1, 8, &buf);
    assert_int_equal(check(&buf), ERR_BAD_MESSAGE);
    buf_free(&buf);
    make(1, LIMIT_ADDRESS_BYTES + 1, &buf);
    assert_int_equal(check(&buf), ERR_BAD_MESSAGE);
    buf_free(&buf);
}

static void test_rules(void **state)
{
    (void)state;
    assert_int_equal(check_hex(CONF_HEX), 0);
    /* version 2 */
    assert_int_equal(check_hex("02 0100000000000000 0100000000000000 61623a3100 01 00"),
                     ERR_BAD_MESSAGE);
    /* no server, and a count that would wrap or run away */
    assert_int_equal(check_hex("01 0000000000000000 00000000000000"), ERR_BAD_MESSAGE);
    assert_int_equal(check_hex("01 ffffffffffffffff 0100000000000000 61623a3100 01 00"),
                     ERR_BAD_MESSAGE);
    /* id 0, id 65535, id 65536 */
    assert_int_equal(check_hex("01 0100000000000000 0000000000000000 61623a3100 01 00"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(check_hex("01 0100000000000000 ffff000000000000 61623a3100 01 00"), 0);
    assert_int_equal(check_hex("01 0100000000000000 0000010000000000 61623a3100 01 00"),
                     ERR_BAD_MESSAGE);
    /* no voter; a role out of range; an address without its end */
    assert_int_equal(check_hex("01 0100000000000000 0100000000000000 61623a3100 00 00"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(check_hex("01 0100000000000000 0100000000000000 61623a3100 03 00"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(check_hex("01 0100000000000000 0100000000000000 61623a3131 01 01"),
                     ERR_BAD_MESSAGE);
    /* padding that is not zero */
    assert_int_equal(check_hex("01 0100000000000000 0100000000000000 61623a3100 01 01"),
                     ERR_BAD_MESSAGE);
}

static void test_two_servers_differ(void **state)
{
    (void)state;
    /* a spare, the last of the roles, beside a voter */
    assert_int_equal(check_hex("01 0200000000000000 0100000000000000 6100 02"
                               "0200000000000000 6200 01 00"),
                     0);
    assert_int_equal(check_hex("01 0200000000000000 0100000000000000 6100 01"
                               "0200000000000000 6200 01 00"),
                     0);
    assert_int_equal(check_hex("01 0200000000000000 0100000000000000 6100 01"
                               "0100000000000000 6200 01 00"),
                     ERR_BAD_MESSAGE);
    assert_int_equal(check_hex("01 0200000000000000 0100000000000000 6100 01"
                               "0200000000000000 6100 01 00"),
                     ERR_BAD_MESSAGE);
}

static void test_mutations(void **state)
{
    struct prng prng;
    unsigned accepted = 0;

    (void)state;
    prng_seed(&prng, 99);
    for (int i = 0; i < 20000; i++) {
        struct buf buf = BUF_INIT;
        int rv;

        make(1 + (size_t)prng_below(&prng, 4), 1 + (size_t)prng_below(&prng, 6), &buf);
        for (uint64_t n = prng_below(&prng, 3) + 1; n > 0; n--) {
            buf.data[prng_below(&prng, buf.len)] = (uint8_t)prng_next(&prng);
        }
        rv = check(&buf);
        if (rv == 0) {
            accepted++;
            assert_core_agrees(&buf);
        } else {
            assert_int_equal(rv, ERR_BAD_MESSAGE);
        }
        buf_free(&buf);
    }
    assert_true(accepted > 100 && accepted < 19900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_two_servers_differ),
        cmocka_unit_test(test_mutations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
