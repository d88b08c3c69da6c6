/*
 * hex.c - see hex.h. Thread: any.
 */
#include "src/tests/unit/hex.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"

static unsigned digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = strchr(digits, c);

    ASSERT(c != '\0' && at != NULL);
    return (unsigned)(at - digits);
}

void hex_put(struct buf *buf, const char *hex)
{
    while (*hex != '\0') {
        if (*hex == ' ') {
            hex++;
            continue;
        }
        buf_put_u8(buf, (uint8_t)(digit(hex[0]) << 4 | digit(hex[1])));
        hex += 2;
    }
}

bool hex_equal(const struct buf *buf, const char *hex)
{
    struct buf wanted = BUF_INIT;
    bool equal;

    hex_put(&wanted, hex);
    equal =
        buf->len == wanted.len && (buf->len == 0 || memcmp(buf->data, wanted.data, buf->len) == 0);
    if (!equal) {
        fprintf(stderr, "wanted %s\n   got ", hex);
        for (size_t i = 0; i < buf->len; i++) {
            fprintf(stderr, "%02x ", buf->data[i]);
        }
        fprintf(stderr, "\n");
    }
    buf_free(&wanted);
    return equal;
}
