/*
 * grid.c - see grid.h. Thread: one.
 */
#include "src/ctl/out/grid.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/ctl/out/text.h"

static const char *title_of(const struct grid *grid, size_t column)
{
    const char *title = grid->titles[column];

    return *title == '>' ? title + 1 : title;
}

void grid_init(struct grid *grid, const char *const *titles)
{
    *grid = (struct grid){.titles = titles};
    while (titles[grid->columns] != NULL) {
        ASSERT(grid->columns < GRID_COLUMNS_MAX);
        grid->widths[grid->columns] = strlen(title_of(grid, grid->columns));
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

void grid_cellf(struct grid *grid, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    grid_cell(grid, text);
}

/* One cell, and the blanks that bring it to its column's width. The last one has none behind it. */
static void put_cell(const struct grid *grid, size_t column, const char *text, size_t len,
                     struct buf *out)
{
    bool right = grid->titles[column][0] == '>';
    bool last = column + 1 == grid->columns;
    int blanks = (int)(grid->widths[column] - (len > 0 ? clean_width(text, len) : 0));

    if (right) {
        buf_printf(out, "%*s", blanks, "");
    }
    buf_put(out, text, len);
    if (!last) {
        buf_printf(out, "%*s", right ? 2 : blanks + 2, "");
    }
}

static void end_line(struct buf *out)
{
    while (out->len > 0 && out->data[out->len - 1] == ' ') {
        out->len--;
    }
    buf_put(out, "\n", 1);
}

void grid_print(struct grid *grid, unsigned indent, bool with_titles, struct buf *out)
{
    const char *text = (const char *)grid->text.data;
    struct reader sizes;

    ASSERT(grid->cells % grid->columns == 0);
    for (size_t column = 0; with_titles && column < grid->columns; column++) {
        const char *title = title_of(grid, column);

        buf_printf(out, "%*s", column == 0 ? (int)indent : 0, "");
        put_cell(grid, column, title, strlen(title), out);
    }
    if (with_titles) {
        end_line(out);
    }
    reader_init(&sizes, grid->sizes.data, grid->sizes.len);
    for (size_t cell = 0; cell < grid->cells; cell++) {
        size_t column = cell % grid->columns;
        size_t len = reader_u32(&sizes);

        buf_printf(out, "%*s", column == 0 ? (int)indent : 0, "");
        put_cell(grid, column, text, len, out);
        text = len > 0 ? text + len : text;
        if (column + 1 == grid->columns) {
            end_line(out);
        }
    }
    grid->cells = grid->text.len = grid->sizes.len = 0;
}

void grid_free(struct grid *grid)
{
    buf_free(&grid->text);
    buf_free(&grid->sizes);
}
