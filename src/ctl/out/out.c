/*
 * out.c - see out.h. Thread: one.
 */
#include "src/ctl/out/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "src/base/assert.h"
#include "src/base/utf8.h"

/* --- text --- */

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

/* --- tables --- */

static const char *grid_title(const struct grid *grid, size_t column)
{
    const char *title = grid->titles[column].title;

    return *title == '>' ? title + 1 : title;
}

void grid_init(struct grid *grid, const struct grid_column *titles)
{
    *grid = (struct grid){.titles = titles};
    while (titles[grid->columns].title != NULL) {
        ASSERT(grid->columns < GRID_COLUMNS_MAX);
        grid->widths[grid->columns] = strlen(grid_title(grid, grid->columns));
        grid->columns++;
    }
}

void grid_cell(struct grid *grid, const char *text)
{
    size_t column = grid->cells % grid->columns;
    size_t before = grid->text.len;
    size_t width;

    clean_text(&grid->text, text);
    width = clean_width(buf_text(&grid->text) + before, grid->text.len - before);
    buf_put_u32(&grid->sizes, (uint32_t)(grid->text.len - before));
    if (width > grid->widths[column]) {
        grid->widths[column] = width;
    }
    grid->cells++;
}

/* One cell, and the blanks that bring it to its column's width; the last one ends the line. */
static void grid_put(const struct grid *grid, size_t column, const char *text, size_t len,
                     unsigned indent, struct buf *out)
{
    bool right = grid->titles[column].title[0] == '>';
    bool last = column + 1 == grid->columns;
    int blanks = (int)(grid->widths[column] - (len > 0 ? clean_width(text, len) : 0));

    buf_printf(out, "%*s", (column == 0 ? (int)indent : 0) + (right ? blanks : 0), "");
    buf_put(out, text, len);
    if (!last) {
        buf_printf(out, "%*s", right ? 2 : blanks + 2, "");
        return;
    }
    while (out->len > 0 && out->data[out->len - 1] == ' ') {
        out->len--;
    }
    buf_put(out, "\n", 1);
}

void grid_print(struct grid *grid, unsigned indent, struct buf *out)
{
    const char *text = (const char *)grid->text.data;
    struct reader sizes;

    ASSERT(grid->cells % grid->columns == 0);
    for (size_t column = 0; !grid->titled && column < grid->columns; column++) {
        const char *title = grid_title(grid, column);

        grid_put(grid, column, title, strlen(title), indent, out);
    }
    grid->titled = true;
    reader_init(&sizes, grid->sizes.data, grid->sizes.len);
    for (size_t cell = 0; cell < grid->cells; cell++) {
        size_t len = reader_u32(&sizes);

        grid_put(grid, cell % grid->columns, text, len, indent, out);
        text = len > 0 ? text + len : text;
    }
    grid->cells = grid->text.len = grid->sizes.len = 0;
}

void grid_free(struct grid *grid)
{
    buf_free(&grid->text);
    buf_free(&grid->sizes);
}
