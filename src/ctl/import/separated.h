/*
 * separated.h - rows of text whose columns stand between tabs or commas.
 *
 * The happy path: separated_read(). The first line may name the columns; otherwise they are those
 * of the table, in its order.
 *
 * CSV has two dialects: a quote in a field is doubled and a backslash is itself, or a backslash
 * comes before both. csv_read() finds out which where it can, and refuses where it cannot: nothing
 * is guessed that would change a name or a number.
 *
 * Failure modes: a line with too few or too many values is an error of its own; ERR_INVALID with
 * *why where the text cannot be taken apart. Thread: one.
 */
#ifndef LEAFD_CTL_IMPORT_SEPARATED_H
#define LEAFD_CTL_IMPORT_SEPARATED_H

#include "src/base/err.h"
#include "src/ctl/import/rows.h"

struct dialect {
    char separator;
    bool quotes;    /* fields may stand in double quotes */
    bool escapes;   /* a backslash takes away the meaning of what follows; \N is NULL */
    bool null_word; /* NULL without quotes is none */
    bool must_name; /* the first line has to name the columns */
};

extern const struct dialect DIALECT_TSV;
extern const struct dialect DIALECT_OUTFILE;
extern const struct dialect DIALECT_CSV_DOUBLED;
extern const struct dialect DIALECT_CSV_BACKSLASH;

int separated_read(const struct source *source, const struct dialect *dialect, const char *data,
                   size_t len, struct rows *rows, struct buf *why) MUST_CHECK;

/* CSV of either dialect. */
int csv_read(const struct source *source, const char *data, size_t len, struct rows *rows,
             struct buf *why) MUST_CHECK;

#endif
