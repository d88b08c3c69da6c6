/*
 * utf8.c - see utf8.h. Thread: any.
 */
#include "src/base/utf8.h"

#include "src/base/assert.h"
#include "src/base/err.h"
#include "src/base/hot.h"

size_t utf8_step(const char *text, size_t len, uint32_t *ret_code)
{
    uint8_t lead = (uint8_t)text[0];
    uint32_t code;
    uint32_t lowest; /* smaller ones would fit into fewer bytes: an overlong form */
    size_t more;

    ASSERT(len > 0);
    if (lead < 0x80) {
        *ret_code = lead;
        return 1;
    }
    if ((lead & 0xe0) == 0xc0) {
        code = lead & 0x1f, more = 1, lowest = 0x80;
    } else if ((lead & 0xf0) == 0xe0) {
        code = lead & 0x0f, more = 2, lowest = 0x800;
    } else if ((lead & 0xf8) == 0xf0) {
        code = lead & 0x07, more = 3, lowest = 0x10000;
    } else {
        return 0;
    }
    if (more >= len) {
        return 0;
    }
    for (size_t i = 1; i <= more; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | ((uint8_t)text[i] & 0x3f);
    }
    if (code < lowest || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff) {
        return 0;
    }
    *ret_code = code;
    return more + 1;
}

/* C0, DEL and C1. */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f);
}

HOT int utf8_text_check(const char *text, size_t len, bool controls)
{
    const char *at = text;

    while (len > 0) {
        uint32_t code = 0;
        size_t used;

        if (*at >= 0x20 && *at < 0x7f) { /* most are ASCII */
            at++;
            len--;
            continue;
        }
        used = utf8_step(at, len, &code);
        if (used == 0 || code == 0 || (!controls && is_control(code))) {
            return ERR_INVALID;
        }
        ASSERT(used <= len);
        at += used;
        len -= used;
    }
    return 0;
}
