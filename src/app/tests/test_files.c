/*
 * test_files.c - descriptors: what is left to clients, at the bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "src/app/files.h"
#include "src/base/limits.h"

static void test_what_is_left(void **state)
{
    const uint64_t kept = files_kept(1);

    (void)state;
    /* 256, as some systems allow, leave something to clients. */
    assert_true(kept < 256 - FILES_CONNECTIONS_MIN);
    assert_true(kept > LIMIT_PEER_CONNECTIONS + LIMIT_PEERS + LIMIT_HTTP_REFUSED);
    assert_int_equal(files_connections(kept + 100, 1, 10000), 100);
    assert_int_equal(files_connections(kept + 10000, 1, 10000), 10000);
    assert_int_equal(files_connections(kept + 10001, 1, 10000), 10000);
    assert_int_equal(files_connections(kept + 9999, 1, 10000), 9999);
    assert_int_equal(files_connections(UINT64_MAX, 1, 10000), 10000); /* no limit */
    assert_int_equal(files_connections(files_kept(4) + 4003, 4, 10000), 1000);
}

static void test_never_none(void **state)
{
    (void)state;
    assert_int_equal(files_connections(0, 1, 10000), FILES_CONNECTIONS_MIN);
    assert_int_equal(files_connections(files_kept(1), 1, 10000), FILES_CONNECTIONS_MIN);
    assert_int_equal(files_connections(files_kept(64), 64, 3), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_left),
        cmocka_unit_test(test_never_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
