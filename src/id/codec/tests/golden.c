/*
 * golden.c - see golden.h. Thread: the test's.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/id/codec/tests/golden.h"

#include "src/tests/unit/test.h"
#include "src/base/prng.h"
#include "src/state/codec/session.h"
#include "src/tests/unit/hex.h"

void golden_bytes(const struct golden *golden, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct buf buf = BUF_INIT;

        golden[i].encode(&buf);
        if (!hex_equal(&buf, golden[i].bytes)) {
            fail_msg("%s", golden[i].name);
        }
        assert_int_equal(golden[i].decode(buf.data, buf.len), 0);
        buf_free(&buf);
    }
}

static void refuse_damage(const struct golden *golden)
{
    bool is_command = strncmp(golden->bytes, "03", 2) == 0;
    uint8_t own_version = is_command ? COMMAND_VERSION : MESSAGE_VERSION;
    struct buf buf = BUF_INIT;

    golden->encode(&buf);
    for (size_t len = 0; len < buf.len; len++) {
        uint8_t *exact = malloc(len > 0 ? len : 1); /* so that asan sees a read too far */

        assert_non_null(exact);
        memcpy(exact, buf.data, len);
        assert_int_equal(golden->decode(exact, len), ERR_BAD_MESSAGE);
        free(exact);
    }
    buf_put_u8(&buf, 0);
    assert_int_equal(golden->decode(buf.data, buf.len), ERR_BAD_MESSAGE);
    buf.len--;
    for (unsigned version = 0; version < 256; version++) {
        buf.data[0] = (uint8_t)version;
        assert_int_equal(golden->decode(buf.data, buf.len),
                         version == own_version ? 0 : ERR_BAD_MESSAGE);
    }
    buf_free(&buf);
}

void golden_refuse_damage(const struct golden *golden, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        refuse_damage(&golden[i]);
    }
}

void golden_refuse_each_other(const struct golden *golden, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct buf buf = BUF_INIT;

        golden[i].encode(&buf);
        for (size_t k = 0; k < count; k++) {
            bool same = golden[k].decode == golden[i].decode;

            assert_int_equal(golden[k].decode(buf.data, buf.len), same ? 0 : ERR_BAD_MESSAGE);
        }
        buf_free(&buf);
    }
}

void golden_survive_any_bytes(const struct golden *golden, size_t count, uint64_t seed)
{
    struct prng prng;

    prng_seed(&prng, seed);
    for (unsigned round = 0; round < 2000; round++) {
        for (size_t i = 0; i < count; i++) {
            struct buf buf = BUF_INIT;

            golden[i].encode(&buf);
            for (uint64_t n = prng_below(&prng, 4); n > 0; n--) {
                buf.data[prng_below(&prng, buf.len)] = (uint8_t)prng_next(&prng);
            }
            for (size_t k = 0; k < count; k++) {
                int err = golden[k].decode(buf.data, buf.len);

                assert_true(err == 0 || err == ERR_BAD_MESSAGE);
            }
            buf_free(&buf);
        }
    }
}
