/*
 * database.c - see database.h.
 *
 * Only what is called is declared here. These functions, and the numbers of the options, are the
 * same in MariaDB's and MySQL's client libraries, and have been for long. Thread: one.
 */
#include "src/ctl/import/database.h"

#include <dlfcn.h>
#include <string.h>

#include "src/base/assert.h"

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

struct wanted {
    const char *name;
    size_t at; /* in struct client */
};

#define WANTED(name, member)                                                                       \
    {                                                                                              \
        name, offsetof(struct client, member)                                                      \
    }
static const struct wanted WANTED[] = {
    WANTED("mysql_init", init),
    WANTED("mysql_options", options),
    WANTED("mysql_real_connect", connect),
    WANTED("mysql_set_character_set", set_charset),
    WANTED("mysql_real_query", query),
    WANTED("mysql_use_result", use_result),
    WANTED("mysql_fetch_row", fetch_row),
    WANTED("mysql_fetch_lengths", fetch_lengths),
    WANTED("mysql_free_result", free_result),
    WANTED("mysql_error", error),
    WANTED("mysql_errno", errno_of),
    WANTED("mysql_close", close),
};

static int database_load(struct client *client, struct buf *why)
{
    static const char *const names[] = {"libmariadb.so.3", "libmysqlclient.so.21",
                                        "libmysqlclient.so.24"};

    *client = (struct client){0};
    for (size_t i = 0; client->library == NULL && i < sizeof names / sizeof names[0]; i++) {
        client->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (client->library == NULL) {
        buf_printf(why,
                   "no client library of MariaDB or MySQL is here: install libmariadb3, or dump "
                   "the table and import the file");
        return ERR_INVALID;
    }
    for (size_t i = 0; i < sizeof WANTED / sizeof WANTED[0]; i++) {
        void *function = dlsym(client->library, WANTED[i].name);

        if (function == NULL) {
            buf_printf(why, "the client library has no %s", WANTED[i].name);
            return ERR_INVALID;
        }
        memcpy((char *)client + WANTED[i].at, &function, sizeof function);
    }
    return 0;
}

static int tell_error(const struct client *client, void *connection, const char *what,
                      struct buf *why)
{
    buf_printf(why, "%s: %s (error %u)", what, client->error(connection),
               client->errno_of(connection));
    return ERR_INVALID;
}

/* SELECT of the columns that there may be; names of tables and columns in backquotes. */
static int put_query(const struct source *source, const char *table, struct buf *out,
                     struct buf *why)
{
    const char *between = "SELECT ";

    if (strchr(table, '`') != NULL) {
        buf_printf(why, "a table's name has no backquote");
        return ERR_INVALID;
    }
    for (int column = 0; column < COLUMNS; column++) {
        if (source->columns[column] != NULL) {
            buf_printf(out, "%s`%s`", between, source->columns[column]);
            between = ",";
        }
    }
    buf_printf(out, " FROM `%s`", table);
    return 0;
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

static int query(const struct client *client, void *connection, const struct source *source,
                 const char *table, struct rows *rows, struct buf *why)
{
    BUF_LOCAL(text);
    void *result = NULL;
    char **values;

    if (put_query(source, table, &text, why) != 0) {
        return ERR_INVALID;
    }
    if (client->query(connection, (char *)text.data, text.len) == 0) {
        result = client->use_result(connection);
    }
    if (result == NULL) {
        return tell_error(client, connection, "the table cannot be read", why);
    }
    while ((values = client->fetch_row(result)) != NULL) {
        database_add_row(source, values, client->fetch_lengths(result), rows);
    }
    client->free_result(result);
    if (client->errno_of(connection) != 0) {
        return tell_error(client, connection, "the rows broke off", why);
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
        err = tell_error(&client, connection, "no connection to the database", why);
    } else if (client.set_charset(connection, "utf8mb4") != 0) {
        err = tell_error(&client, connection, "no utf8mb4", why);
    } else {
        err = query(&client, connection, source, table, rows, why);
    }
    client.close(connection);
    return err; /* the library stays: it may have threads of its own */
}
