/*
 * text.c - see text.h. Thread: any.
 */
#include "src/ctl/out/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "src/base/utf8.h"

void clean_put(struct buf *out, const char *text, size_t len)
{
    while (len > 0) {
        uint32_t code = 0;
        size_t step = utf8_step(text, len, &code);

        if (step == 0) {
            buf_printf(out, "\\x%02x", (unsigned char)*text);
            step = 1;
        } else if (!looks_unseen(code)) {
            buf_put(out, text, step);
        } else if (code < 0x80) {
            buf_printf(out, "\\x%02x", (unsigned)code);
        } else {
            buf_printf(out, "\\u{%x}", (unsigned)code);
        }
        text += step;
        len -= step;
    }
}

void clean_text(struct buf *out, const char *text)
{
    if (text == NULL) {
        buf_put(out, "-", 1);
    } else {
        clean_put(out, text, strlen(text));
    }
}

size_t clean_width(const char *text, size_t len)
{
    size_t width = 0;

    while (len > 0) {
        uint32_t code = 0;
        size_t step = utf8_step(text, len, &code);
        int columns = step == 0 ? 1 : wcwidth((wchar_t)code);

        step = step == 0 ? 1 : step;
        width += columns < 0 ? 1 : (size_t)columns;
        text += step;
        len -= step;
    }
    return width;
}

/* --- units --- */

const char *units_bytes(uint64_t bytes, char out[UNITS_BYTES])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1023.95 && unit < 6) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, UNITS_BYTES, unit == 0 ? "%.0f %s" : "%.1f %s", value, names[unit]);
    return out;
}

const char *units_ms(uint64_t ms, char out[UNITS_BYTES])
{
    uint64_t s = ms / 1000;

    if (ms < 1000) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " ms", ms);
    } else if (s < 120) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " s", s);
    } else if (s < 2 * 3600) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " min", s / 60);
    } else if (s < UINT64_C(48) * 3600) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
    } else {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 " d", s / 86400);
    }
    return out;
}
