/*
 * database.h - the rows of a table, straight from MariaDB or MySQL.
 *
 * libmariadb (or MySQL's own client library) is loaded when it is asked for, so leafctl runs
 * without it. The rows come by one SELECT, so they are of one moment. Nothing is written there.
 *
 * Failure modes: ERR_INVALID with *why: no library, no connection, no such table.
 * Ownership: texts are borrowed for the call. Thread: one.
 */
#ifndef LEAFD_CTL_IMPORT_DATABASE_H
#define LEAFD_CTL_IMPORT_DATABASE_H

#include "src/base/err.h"
#include "src/ctl/import/rows.h"

struct database {
    const char *host; /* NULL: the socket */
    unsigned port;
    const char *socket; /* NULL: the host; one of both is there */
    const char *user;
    const char *password; /* NULL: none */
    const char *name;     /* of the database */
    unsigned timeout_s;
};

int database_read(const struct database *database, const struct source *source, const char *table,
                  struct rows *rows, struct buf *why) MUST_CHECK;

#endif
