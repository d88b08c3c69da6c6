/*
 * file.h - a file of rows, of whichever form: found out, or named.
 *
 * Failure modes: ERR_INVALID with *why where the file as a whole makes no sense. Thread: one.
 */
#ifndef LEAFD_CTL_IMPORT_FILE_H
#define LEAFD_CTL_IMPORT_FILE_H

#include "src/base/err.h"
#include "src/ctl/import/rows.h"

#define IMPORT_FILE_BYTES (1ULL << 30) /* more: refused */

enum form {
    FORM_UNKNOWN,
    FORM_SQL,
    FORM_TSV,
    FORM_OUTFILE,
    FORM_CSV,
    FORM_CSV_DOUBLED,
    FORM_CSV_BACKSLASH,
    FORM_JSON,
    FORMS
};

const char *form_name(enum form form);

/* FORMS: there is none of that name. */
enum form form_of_name(const char *name);

/* The rows of a file's bytes. *form: FORM_UNKNOWN becomes what it is. */
int file_read(const struct source *source, const char *table, const char *data, size_t len,
              enum form *form, struct rows *rows, struct buf *why) MUST_CHECK;

/* A dump that ends without mysqldump's last line may lack rows. */
bool file_may_be_cut_off(const char *data, size_t len);

#endif
