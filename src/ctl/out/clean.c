/*
 * clean.c - see clean.h. Thread: any.
 */
#include "src/ctl/out/clean.h"

#include <string.h>
#include <wchar.h>

#include "src/base/looks.h"
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
