/*
 * sql.h - the rows of one table in a dump of MySQL or MariaDB.
 *
 * The happy path: sql_read(). Other tables, and the bodies of triggers and procedures, are passed
 * over.
 *
 * Failure modes: a row that cannot be understood is an error of its own, and the others are read
 * on; ERR_INVALID with *why where the file as a whole makes no sense or is cut off. Nothing is
 * guessed that would change a name or a number. Thread: one.
 */
#ifndef LEAFD_CTL_IMPORT_SQL_H
#define LEAFD_CTL_IMPORT_SQL_H

#include "src/base/err.h"
#include "src/ctl/import/rows.h"

int sql_read(const struct source *source, const char *table, const char *data, size_t len,
             struct rows *rows, struct buf *why) MUST_CHECK;

#endif
