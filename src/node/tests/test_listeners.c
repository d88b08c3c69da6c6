/*
 * test_listeners.c - descriptors: what is left to clients, at the bounds.
 */
#include "src/tests/unit/test.h"
#include "src/base/limits.h"
#include "src/node/listeners.h"

static void expect(uint64_t allowed, uint32_t loops, uint32_t admin_wanted, uint32_t connections,
                   uint32_t admin_connections)
{
    struct files_split split;

    files_divide(allowed, loops, 10000, admin_wanted, &split);
    assert_int_equal(split.connections, connections);
    assert_int_equal(split.admin_connections, admin_connections);
}

static void test_what_is_left(void **state)
{
    const uint64_t one = files_kept(1);
    const uint64_t two = files_kept(2);

    (void)state;
    assert_true(one > LIMIT_PEER_CONNECTIONS + LIMIT_PEERS + LIMIT_HTTP_REFUSED);
    expect(one + 100, 1, 0, 100, 0);
    expect(one + 9999, 1, 0, 9999, 0);
    expect(one + 10000, 1, 0, 10000, 0);
    expect(one + 10001, 1, 0, 10000, 0);
    expect(UINT64_MAX, 1, 0, 10000, 0); /* no limit */
    expect(files_kept(4) + 4003, 4, 0, 1000, 0);
    expect(two + 100, 1, 256, 75, 25);
    expect(two + 10256, 1, 256, 10000, 256);
    /* 256, as some systems allow, are enough for both listeners. */
    assert_true(two + 4 * FILES_CONNECTIONS_MIN <= 256);
}

static void test_never_none(void **state)
{
    struct files_split split;

    (void)state;
    expect(0, 1, 256, FILES_CONNECTIONS_MIN, FILES_CONNECTIONS_MIN);
    expect(files_kept(2) + 3, 1, 256, FILES_CONNECTIONS_MIN, FILES_CONNECTIONS_MIN);
    files_divide(0, 64, 3, 2, &split);
    assert_int_equal(split.connections, 3);
    assert_int_equal(split.admin_connections, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_left),
        cmocka_unit_test(test_never_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
