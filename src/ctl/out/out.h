/*
 * out.h - what leafctl gives back: its exit codes, text of others made fit for a terminal, numbers
 * as people read them, and tables.
 *
 * Names come from whatever client may make a tag, messages from whatever answers at an address.
 * What a terminal would take for a command (control characters, also those of C1 in UTF-8), what
 * reverses the direction of text, and what is no UTF-8 is shown as \xNN or \u{NNNN}; a backslash
 * stays as it is. Everything that leafctl prints for people goes through here.
 *
 * Failure modes: none. Ownership: units_*() return the buffer that they were given. Thread: one.
 */
#ifndef LEAFD_CTL_OUT_OUT_H
#define LEAFD_CTL_OUT_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"

/* --- exit codes --- */

/* docs/leafctl.md says what each means. 1 and 2 are those of monitoring plugins; the others follow
 * sysexits(3) where it has a fitting one. */
enum ctl_exit {
    CTL_DONE = 0,
    CTL_WARNING = 1,      /* `check` has something to say */
    CTL_CRITICAL = 2,     /* `check` found what cannot wait */
    CTL_NOT_FOUND = 4,    /* no such tag, member or worker id */
    CTL_USAGE = 64,       /* the command line, a setting or a file that it names is wrong */
    CTL_DATA = 65,        /* a file of data is damaged, or has rows that break a rule */
    CTL_UNREACHABLE = 69, /* no server answered; nothing was done */
    CTL_INTERNAL = 70,    /* a bug, here or in an answer */
    CTL_OUTPUT = 74,      /* what was to be written could not be */
    CTL_UNKNOWN = 75,     /* no answer in time: perhaps it was done, or it continues */
    CTL_REFUSED = 76,     /* the cluster refused */
    CTL_DENIED = 77       /* a token, a role or the right listener is missing */
};

/* --- text --- */

/* Append len bytes of text, cleaned. Line ends are no exception. */
void clean_put(struct buf *out, const char *text, size_t len);

/* The same of a C string; NULL is shown as "-". */
void clean_text(struct buf *out, const char *text);

/* Columns that clean text takes in a terminal: wide characters count twice. */
size_t clean_width(const char *text, size_t len);

/* --- units --- */

#define UNITS_BYTES 40

/* 12 B, 3.4 KiB, 1.2 GiB */
const char *units_bytes(uint64_t bytes, char out[UNITS_BYTES]);

/* 850 ms, 12 s, 5 min, 3 h 20 min, 12 d */
const char *units_ms(uint64_t ms, char out[UNITS_BYTES]);

/* --- tables ---
 *
 * The happy path: grid_init() with the titles, grid_cell() for each cell of each row in turn,
 * grid_print(). A title that begins with '>' is, as are its cells, aligned right. Rows are kept
 * until they are printed: a list of a million is printed page by page. */

#define GRID_COLUMNS_MAX 12

struct grid_column {
    const char *title;
    const char *form; /* of what fills it; not read here */
};

struct grid {
    const struct grid_column *titles; /* borrowed */
    size_t columns;
    size_t cells;
    struct buf text;  /* of all cells, one after the other */
    struct buf sizes; /* a u32 each */
    size_t widths[GRID_COLUMNS_MAX];
    bool titled; /* the titles were printed */
};

/* titles end with one that is NULL. */
void grid_init(struct grid *grid, const struct grid_column *titles);

/* The next cell; NULL is shown as "-". */
void grid_cell(struct grid *grid, const char *text);

/* Append the titles, the first time, and all rows, with so many blanks before each; then the grid
 * is empty again, and keeps its widths. */
void grid_print(struct grid *grid, unsigned indent, struct buf *out);

void grid_free(struct grid *grid);

/* One that is freed at the end of its block. */
#define GRID_LOCAL(name) struct grid name __attribute__((cleanup(grid_free))) = {0}

#endif
