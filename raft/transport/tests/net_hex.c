/*
 * net_hex.c - see net_hex.h. Thread: the test's.
 */
#include "raft/transport/tests/net_hex.h"

#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "src/tests/unit/hex.h"

void assert_hex(const void *data, size_t len, const char *text)
{
    struct buf want = BUF_INIT;

    hex_put(&want, text);
    assert_int_equal(len, want.len);
    assert_memory_equal(data, want.data, len);
    buf_free(&want);
}

uint8_t *exact_copy(const void *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);

    assert_non_null(copy);
    if (len > 0) {
        memcpy(copy, data, len);
    }
    return copy;
}
