/*
 * json.h - rows that are JSON objects, with the names of the columns as keys: in an array, one
 * behind the other (lines), or wrapped as these tools do:
 *
 *   phpMyAdmin    [{"type":"header",...},{"type":"table","name":"leaf_alloc","data":[{...}]}]
 *   DBeaver       {"leaf_alloc":[{...}]}, also by the text of a query
 *   mysqlsh       {"rows":[{...}],...}
 *   Navicat       {"RECORDS":[{...}]}
 *   HeidiSQL      {"table":"leaf_alloc","rows":[{...}]}
 *
 * Failure modes: a row that cannot be understood is an error of its own, and the others are read
 * on; ERR_INVALID with *why where the file is no JSON, is cut off, or has no such rows. Numbers are
 * exact up to 2^63 - 1; beyond that it is no JSON here. The table's name is not empty. Thread: one.
 */
#ifndef LEAFD_CTL_IMPORT_JSON_H
#define LEAFD_CTL_IMPORT_JSON_H

#include "src/base/err.h"
#include "src/ctl/import/rows.h"

int json_read(const struct source *source, const char *table, const char *data, size_t len,
              struct rows *rows, struct buf *why) MUST_CHECK;

#endif
