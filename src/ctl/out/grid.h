/*
 * grid.h - a table for people: columns that stand below their titles.
 *
 * The happy path: grid_init() with the titles, grid_cell() for each cell of each row in turn,
 * grid_print(). A title that begins with '>' stands, as do its cells, at the right.
 *
 * Cells are cleaned (text.h). The rows are kept until the end: who lists a million prints a grid
 * for each page. Thread: one.
 */
#ifndef LEAFD_CTL_OUT_GRID_H
#define LEAFD_CTL_OUT_GRID_H

#include "src/base/buf.h"

#define GRID_COLUMNS_MAX 12

struct grid {
    const char *const *titles; /* borrowed */
    size_t columns;
    size_t cells;
    struct buf text;  /* of all cells, one behind the other */
    struct buf sizes; /* a u32 each */
    size_t widths[GRID_COLUMNS_MAX];
};

/* titles end with NULL. */
void grid_init(struct grid *grid, const char *const *titles);

/* The next cell; NULL is shown as "-". */
void grid_cell(struct grid *grid, const char *text);
void grid_cellf(struct grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Append the titles and all rows, with so many blanks before each; then the grid is empty again,
 * and keeps its widths. */
void grid_print(struct grid *grid, unsigned indent, bool with_titles, struct buf *out);

void grid_free(struct grid *grid);

/* One that is freed at the end of its block. */
#define GRID_LOCAL(name) struct grid name __attribute__((cleanup(grid_free))) = {0}

#endif
