/*
 * database.c - the rows of a table, straight from MariaDB or MySQL: see import.h.
 *
 * libmariadb (or MySQL's own client library) is loaded when it is asked for, so leafctl runs
 * without it. Only what is called is declared here. These functions, and the numbers of the
 * options, are the same in both libraries, and have been for long.
 *
 * Failure modes: ERR_INVALID with *why: no library, no connection, no such table. Thread: one.
 */
#include <dlfcn.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/ctl/import/import.h"

#define OPTION_CONNECT_TIMEOUT 0 /* enum mysql_option */
#define OPTION_LOCAL_INFILE 8
#define OPTION_READ_TIMEOUT 11
#define OPTION_WRITE_TIMEOUT 12

struct client {
    void *library;
    void *(*init)(void *connection);
    int (*options)(void *connection, int option, const void *value);
    void *(*connect)(void *connection, const char *host, const char *user, const char *password,
                     const char *name, unsigned port, const char *socket, unsigned long flags);
    int (*set_charset)(void *connection, const char *name);
    int (*query)(void *connection, const char *text, unsigned long len);
    void *(*use_result)(void *connection);
    char **(*fetch_row)(void *result);
    unsigned long *(*fetch_lengths)(void *result);
    void (*free_result)(void *result);
    const char *(*error)(void *connection);
    unsigned (*errno_of)(void *connection);
    void (*close)(void *connection);
};

#define WANTED(function, member)                                                                   \
    {                                                                                              \
        "mysql_" function, offsetof(struct client, member)                                         \
    }
static const struct {
    const char *name;
    size_t at; /* in struct client */
} WANTED[] = {
    WANTED("init", init),
    WANTED("options", options),
    WANTED("real_connect", connect),
    WANTED("set_character_set", set_charset),
    WANTED("real_query", query),
    WANTED("use_result", use_result),
    WANTED("fetch_row", fetch_row),
    WANTED("fetch_lengths", fetch_lengths),
    WANTED("free_result", free_result),
    WANTED("error", error),
    WANTED("errno", errno_of),
    WANTED("close", close),
};

static int database_load(struct client *client, struct buf *why)
{
    static const char *const names[] = {"libmariadb.so.3", "libmysqlclient.so.21",
                                        "libmysqlclient.so.24"};

    *client = (struct client){0};
    for (size_t i = 0; client->library == NULL && i < COUNT_OF(names); i++) {
        client->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (client->library == NULL) {
        buf_printf(why,
                   "no client library of MariaDB or MySQL is here: install libmariadb3, or dump "
                   "the table and import the file");
        return ERR_INVALID;
    }
    for (size_t i = 0; i < COUNT_OF(WANTED); i++) {
        void *function = dlsym(client->library, WANTED[i].name);

        if (function == NULL) {
            buf_printf(why, "the client library has no %s", WANTED[i].name);
            return ERR_INVALID;
        }
        memcpy((char *)client + WANTED[i].at, &function, sizeof function);
    }
    return 0;
}

static int database_fail(const struct client *client, void *connection, const char *what,
                         struct buf *why)
{
    buf_printf(why, "%s: %s (error %u)", what, client->error(connection),
               client->errno_of(connection));
    return ERR_INVALID;
}

static void database_add_row(const struct source *source, char *const *values,
                             const unsigned long *lens, struct rows *rows)
{
    struct row row = rows_begin(0, (uint32_t)(rows->count + 1));
    size_t i = 0;

    for (int column = 0; column < COLUMNS; column++) {
        if (source->columns[column] == NULL) {
            continue;
        }
        if (values[i] != NULL) {
            row.values[column] = (struct row_value){.at = rows->text.len, .len = lens[i]};
            buf_put(&rows->text, values[i], lens[i]);
        }
        i++;
    }
    rows_keep(rows, &row);
}

/* One SELECT of the columns that there may be. */
static int database_query(const struct client *client, void *connection,
                          const struct source *source, const char *table, struct rows *rows,
                          struct buf *why)
{
    const char *between = "SELECT ";
    void *result = NULL;
    char **values;
    BUF_LOCAL(text);

    if (strchr(table, '`') != NULL) {
        buf_printf(why, "a table's name has no backquote");
        return ERR_INVALID;
    }
    for (int column = 0; column < COLUMNS; column++) {
        if (source->columns[column] != NULL) {
            buf_printf(&text, "%s`%s`", between, source->columns[column]);
            between = ",";
        }
    }
    buf_printf(&text, " FROM `%s`", table);
    if (client->query(connection, (char *)text.data, text.len) == 0) {
        result = client->use_result(connection);
    }
    if (result == NULL) {
        return database_fail(client, connection, "the table cannot be read", why);
    }
    while ((values = client->fetch_row(result)) != NULL) {
        database_add_row(source, values, client->fetch_lengths(result), rows);
    }
    client->free_result(result);
    if (client->errno_of(connection) != 0) {
        return database_fail(client, connection, "the rows broke off", why);
    }
    if (rows->count == 0) {
        buf_printf(why, "the table %s has no rows", table);
        return ERR_INVALID;
    }
    return 0;
}

int database_read(const struct database *database, const struct source *source, const char *table,
                  struct rows *rows, struct buf *why)
{
    struct client client;
    unsigned timeout_s = database->timeout_s;
    unsigned no = 0;
    void *connection;
    int err = database_load(&client, why);

    if (err != 0) {
        return err;
    }
    connection = client.init(NULL);
    ASSERT(connection != NULL);
    (void)client.options(connection, OPTION_CONNECT_TIMEOUT, &timeout_s);
    (void)client.options(connection, OPTION_READ_TIMEOUT, &timeout_s);
    (void)client.options(connection, OPTION_WRITE_TIMEOUT, &timeout_s);
    (void)client.options(connection, OPTION_LOCAL_INFILE, &no); /* it is to send no file of ours */
    if (client.connect(connection, database->socket != NULL ? NULL : database->host, database->user,
                       database->password, database->name, database->port, database->socket,
                       0) == NULL) {
        err = database_fail(&client, connection, "no connection to the database", why);
    } else if (client.set_charset(connection, "utf8mb4") != 0) {
        err = database_fail(&client, connection, "no utf8mb4", why);
    } else {
        err = database_query(&client, connection, source, table, rows, why);
    }
    client.close(connection);
    return err; /* the library stays: it may have threads of its own */
}
