/*
 * rows.h - rows of a table of counters, as they were read: where each stood, and the bytes of its
 * columns; and what was wrong with others.
 *
 * Two tables are known: Leaf's leaf_alloc and TinyID's tiny_id_info.
 *
 * Failure modes: lack of memory ends the process. Ownership: rows own their texts. Thread: one.
 */
#ifndef LEAFD_CTL_IMPORT_ROWS_H
#define LEAFD_CTL_IMPORT_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/buf.h"

/* The columns that mean something here. */
enum column {
    COLUMN_NAME,
    COLUMN_MAX_ID,
    COLUMN_STEP,
    COLUMN_DESCRIPTION,
    COLUMN_DELTA,
    COLUMN_REMAINDER,
    COLUMNS
};
#define NO_COLUMN (-1)
#define TABLE_COLUMNS_MAX 64 /* of a table in a file; more: an error */

struct source {
    const char *what;             /* "Leaf" */
    const char *table;            /* its name, unless another one is given */
    const char *columns[COLUMNS]; /* what each is called there; NULL: there is none */
    bool needed[COLUMNS];
    const char *order[12]; /* all columns of the table, in their order; ends with NULL */
    bool has_order;        /* somebody has said so; else it is how the table is commonly made */
};

extern const struct source SOURCE_LEAF;
extern const struct source SOURCE_TINYID;

/* Which column has this name, in any case; NO_COLUMN: none that means something. */
int source_column(const struct source *source, const char *name, size_t len);

/* Where each value of a row belongs. */
struct columns {
    int meaning[TABLE_COLUMNS_MAX];
    size_t count;
    bool too_many;
};

void columns_add(struct columns *columns, int meaning);

/* Those of the table, in its order. */
void columns_in_order(struct columns *columns, const struct source *source);

/* The name of a column that is needed and is not there; NULL: all are. */
const char *columns_lack(const struct source *source, const struct columns *columns);

/* Texts of which only the first are kept, but all counted. */
#define MESSAGES_KEPT 20
struct messages {
    struct buf texts; /* each ends with a NUL */
    size_t kept;
    size_t count;
};

void messages_add(struct messages *messages, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct row_value {
    size_t at; /* in rows.text */
    size_t len;
    bool is_null; /* or there is no such column */
};

struct row {
    uint32_t line;   /* counted from 1; 0: of a database */
    uint32_t number; /* of the row in its statement, from 1; 0: a line has one row */
    struct row_value values[COLUMNS];
};

struct rows {
    struct buf text;
    struct row *list;
    size_t count;
    size_t capacity;
    struct messages errors;
    bool guessed; /* nothing in the file names the columns of these rows */
};

void rows_free(struct rows *rows);

/* A row without any value yet. It is one of the rows only after rows_keep(). */
struct row rows_begin(uint32_t line, uint32_t number);
void rows_keep(struct rows *rows, const struct row *row);

/* "line 7, row 2" */
#define ROW_PLACE_BYTES 48
const char *row_place(const struct row *row, char out[ROW_PLACE_BYTES]);

#endif
