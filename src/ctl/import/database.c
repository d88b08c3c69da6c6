/*
 * database.c - counters from a running database, and their guard: see import.h.
 *
 * A database is queried by its own command-line tool: mariadb or mysql, psql, redis-cli. So leafctl
 * needs no client library, and the tool's own configuration has passwords, certificates and the
 * like. The output of mariadb and psql begins with a line of names, and is read as a file
 * (file_read()).
 *
 * The happy path: database_do() passes statements to the tool's standard input and collects its
 * output and errors; all three are in memory. Redis prints no names: redis_read() makes rows of
 * SCAN and GET.
 *
 * Failure modes: ERR_INVALID with *why: no tool, no connection, the database's error. SIGALRM ends
 * a tool that hangs, SIGXFSZ one that prints too much. Thread: one.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/ctl/import/import.h"

#define TOOL_SECONDS 300
#define TOOL_MISSING 127
#define WORDS_MAX 20
#define WORD_BYTES 256
#define REDIS_KEYS_BYTES (64 << 20) /* of all names; more: refused */

static const struct tool {
    const char *names[2]; /* the first one installed is used */
    const char *package;
    const char *words[7]; /* that it is always given */
    /* The options before a value; one that ends with '=' is one word with it. */
    const char *user, *host, *socket, *port, *name;
} TOOLS[ENGINES] = {
    [ENGINE_MYSQL] = {{"mariadb", "mysql"},
                      "mariadb-client",
                      {"--batch", "--default-character-set=utf8mb4", "--connect-timeout=30"},
                      "--user=",
                      "--host=",
                      "--socket=",
                      "--port=",
                      "--database="},
    [ENGINE_POSTGRES] = {{"psql", NULL},
                         "postgresql-client",
                         {"--no-psqlrc", "--quiet", "--csv", "--no-password",
                          "--set=ON_ERROR_STOP=1", "--pset=null=NULL"},
                         "--username=",
                         "--host=",
                         "--host=",
                         "--port=",
                         "--dbname="},
    [ENGINE_REDIS] =
        {{"redis-cli", NULL}, "redis-tools", {"--no-raw"}, "--user", "-h", "-s", "-p", "-n"},
};

/* --- the tool --- */

struct words {
    char texts[WORDS_MAX][WORD_BYTES];
    char *list[WORDS_MAX + 1]; /* ends with NULL; the first one is the tool's name */
    size_t count;
};

/* An option and its value; empty: the tool's own configuration decides. */
static void words_put(struct words *words, const char *option, const char *value)
{
    bool apart = option[strlen(option) - 1] != '=';

    if (*value == '\0') {
        return;
    }
    ASSERT(words->count + 1 < WORDS_MAX);
    if (apart) {
        words->list[words->count++] = (char *)option;
    }
    words->list[words->count] = words->texts[words->count];
    (void)snprintf(words->texts[words->count++], WORD_BYTES, "%s%s", apart ? "" : option, value);
}

/* [USER@][HOST[:PORT]]/DATABASE, where HOST may be the path of a socket; for Redis DATABASE is a
 * number, and may be omitted. */
static int tool_put_address(const struct database *database, struct words *words, struct buf *why)
{
    const struct tool *tool = &TOOLS[database->engine];
    char text[WORD_BYTES];
    char *host = text;
    const char *user = "";
    const char *port = "";
    char *name;
    char *colon;

    if (snprintf(text, sizeof text, "%s", database->address) >= WORD_BYTES / 2) {
        buf_printf(why, "an address has less than %d bytes", WORD_BYTES / 2);
        return ERR_INVALID;
    }
    if (strchr(text, '@') != NULL) {
        user = strsep(&host, "@");
    }
    name = strrchr(host, '/');
    if (strchr(user, ':') != NULL) {
        buf_printf(why, "no password belongs on a command line, where every user of the machine "
                        "sees it: MYSQL_PWD or ~/.my.cnf, PGPASSWORD or ~/.pgpass, REDISCLI_AUTH");
        return ERR_INVALID;
    }
    if (name == NULL ? database->engine != ENGINE_REDIS : name[1] == '\0') {
        buf_printf(why,
                   "the address \"%s\" names no database: [USER@]HOST[:PORT]/DATABASE, where HOST "
                   "may be the path of a socket",
                   database->address);
        return ERR_INVALID;
    }
    if (name != NULL) {
        *name++ = '\0';
    }
    colon = host[0] == '/' ? NULL : strrchr(host, ':');
    if (colon != NULL && colon[1 + strspn(colon + 1, "0123456789")] == '\0') {
        *colon = '\0';
        port = colon + 1;
    }
    if (host[0] == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = '\0';
        host++;
    }
    words_put(words, tool->user, user);
    words_put(words, host[0] == '/' ? tool->socket : tool->host, host);
    words_put(words, tool->port, port);
    words_put(words, tool->name, name != NULL ? name : "");
    if (database->engine == ENGINE_MYSQL && port[0] != '\0') {
        words_put(words, "--protocol=", "tcp"); /* else localhost means the socket */
    }
    return 0;
}

/* The tool's error: its first line, or the one with an error. */
static int tool_fail(const struct tool *tool, int status, struct buf *said, struct buf *why)
{
    const char *text = buf_text(said);
    const char *error = strstr(text, "ERROR");

    if (WIFEXITED(status) && WEXITSTATUS(status) == TOOL_MISSING) {
        buf_printf(why, "no %s is here: install %s", tool->names[0], tool->package);
    } else if (WIFSIGNALED(status)) {
        buf_printf(why, "%s was ended by signal %d%s", tool->names[0], WTERMSIG(status),
                   WTERMSIG(status) == SIGALRM ? ": it took more than 300 seconds" : "");
    } else {
        text = error != NULL ? error : text + strspn(text, "\n");
        buf_printf(why, "%s: %.*s", tool->names[0], (int)strcspn(text, "\n"), text);
    }
    return ERR_INVALID;
}

static void tool_take(int file, struct buf *out)
{
    off_t end = lseek(file, 0, SEEK_END);
    size_t len = end > 0 ? (size_t)end : 0;
    ssize_t got;

    buf_reserve(out, len);
    got = pread(file, out->data + out->len, len, 0);
    out->len += got > 0 ? (size_t)got : 0;
}

int database_do(const struct database *database, const struct buf *text, struct buf *out,
                struct buf *why)
{
    const struct rlimit most = {IMPORT_FILE_BYTES, IMPORT_FILE_BYTES};
    const struct tool *tool = &TOOLS[database->engine];
    struct words words = {.list = {NULL}, .count = 1};
    int files[3];
    int status = 0;
    pid_t child;
    BUF_LOCAL(said);

    for (size_t i = 0; tool->words[i] != NULL; i++) {
        words.list[words.count++] = (char *)tool->words[i];
    }
    if (tool_put_address(database, &words, why) != 0) {
        return ERR_INVALID;
    }
    for (int fd = 0; fd < 3; fd++) {
        files[fd] = memfd_create("leafctl", MFD_CLOEXEC);
        ASSERT(files[fd] >= 0); /* as for lack of memory */
    }
    /* Into memory, and by its position, which stays at the begin. */
    ASSERT(pwrite(files[0], text->data, text->len, 0) == (ssize_t)text->len);
    child = fork();
    if (child == 0) { /* becomes the tool */
        for (int fd = 0; fd < 3; fd++) {
            (void)dup2(files[fd], fd);
        }
        (void)setrlimit(RLIMIT_FSIZE, &most);
        (void)setenv("PGCONNECT_TIMEOUT", "30", 0);
        (void)setenv("PGCLIENTENCODING", "UTF8", 1);
        (void)alarm(TOOL_SECONDS);
        for (size_t i = 0; i < COUNT_OF(tool->names) && tool->names[i] != NULL; i++) {
            words.list[0] = (char *)tool->names[i];
            (void)execvp(tool->names[i], words.list);
        }
        _exit(TOOL_MISSING);
    }
    if (child < 0) {
        buf_printf(&said, "no process: %s", strerror(errno));
        status = 1 << 8;
    }
    while (child > 0 && waitpid(child, &status, 0) < 0) {
        ASSERT(errno == EINTR);
    }
    tool_take(files[1], out);
    tool_take(files[2], &said);
    if (database->engine == ENGINE_REDIS && said.len > 0) {
        status = 1 << 8; /* redis-cli still ends with 0, and later answers may follow */
    }
    for (int fd = 0; fd < 3; fd++) {
        (void)close(files[fd]);
    }
    return status == 0 ? 0 : tool_fail(tool, status, &said, why);
}

/* --- statements --- */

/* A statement about a table: $t is its name, $n and $m the columns of names and of counters. */
static void sql_put(struct buf *out, const struct database *database, const char *form)
{
    for (; *form != '\0'; form++) {
        const char *text = *form != '$'     ? NULL
                           : form[1] == 't' ? database->table
                           : form[1] == 'n' ? database->source->columns[COLUMN_NAME]
                                            : database->source->columns[COLUMN_MAX_ID];

        buf_put(out, text != NULL ? text : form, text != NULL ? strlen(text) : 1);
        form += text != NULL;
    }
}

/* A text as a literal, in any mode of backslashes. */
static void sql_put_text(struct buf *out, const char *text)
{
    bool plain = true;

    for (const char *c = text; *c != '\0'; c++) {
        plain &= *c >= ' ' && *c <= '~' && *c != '\'' && *c != '\\';
    }
    if (plain) {
        buf_printf(out, "'%s'", text);
        return;
    }
    buf_printf(out, "CONVERT(0x");
    for (; *text != '\0'; text++) {
        buf_printf(out, "%02x", (unsigned char)*text);
    }
    buf_printf(out, " USING utf8mb4)");
}

/* Has the table a guard, or parts of one? */
static int mysql_look(struct database *database, struct buf *why)
{
    static const char look[] =
        "SELECT (SELECT COUNT(*) FROM information_schema.tables"
        " WHERE table_schema=DATABASE() AND table_name='$t_guard') AS a,"
        " (SELECT COUNT(*) FROM information_schema.triggers"
        " WHERE trigger_schema=DATABASE() AND trigger_name='$t_guard_update') AS b,"
        " (SELECT COUNT(*) FROM information_schema.triggers"
        " WHERE trigger_schema=DATABASE() AND trigger_name='$t_guard_insert') AS c;";
    unsigned found[3] = {0};
    BUF_LOCAL(text);
    BUF_LOCAL(out);

    sql_put(&text, database, look);
    if (database_do(database, &text, &out, why) != 0) {
        return ERR_INVALID;
    }
    if (sscanf(buf_text(&out), "%*[^\n]\n%u\t%u\t%u", &found[0], &found[1], &found[2]) != 3) {
        buf_printf(why, "the server's answer has no three numbers");
        return ERR_INVALID;
    }
    database->has_marks = found[0] > 0;
    database->has_trigger[0] = found[1] > 0;
    database->has_trigger[1] = found[2] > 0;
    return 0;
}

/* The content of a table of counters, with the age of each row and its mark. */
static void mysql_put_rows(const struct database *database, struct buf *out)
{
    const struct source *source = database->source;
    const char *between = "SELECT ";

    for (int column = 0; column < COLUMNS; column++) {
        if (source->columns[column] != NULL && column < COLUMN_TIME) {
            buf_printf(out, "%st.`%s` AS `%s`", between, source->columns[column],
                       source->columns[column]);
            between = ", ";
        }
    }
    buf_printf(out, ", %s AS " AGE_NAME, source->age);
    sql_put(out, database,
            database->has_marks
                ? ", (SELECT MIN(g.`$m`) FROM `$t_guard` g WHERE g.`$n` = t.`$n`) AS " MARK_NAME
                : "");
    sql_put(out, database, " FROM `$t` t;\n");
}

/* Sequences: the next value of nextval(). A MAXVALUE that was set is a mark. A name may not end the
 * quotes $do$ and $of$ of the guard's statement, or its maker would write that. */
static void postgres_put_sequences(const struct database *database, struct buf *out)
{
    buf_printf(out, "SELECT CASE schemaname WHEN 'public' THEN '' ELSE schemaname || '.' END"
                    " || sequencename AS tag,"
                    " CASE WHEN cycle THEN 'that of a sequence with CYCLE'"
                    " WHEN schemaname || '.' || sequencename ~ '[$](do|of)[$]'"
                    " THEN 'that of a sequence with $do$ or $of$ in its name'"
                    " WHEN NOT has_sequence_privilege(format('%%I.%%I', schemaname, sequencename),"
                    " 'USAGE, SELECT') THEN 'not for this user to read'"
                    " ELSE COALESCE(last_value::numeric + increment_by, start_value)::text END"
                    " AS max_id, increment_by AS delta,"
                    " mod(COALESCE(last_value, start_value), increment_by) AS remainder,"
                    " format('%%I.%%I', schemaname, sequencename) AS " OBJECT_NAME ","
                    " CASE WHEN max_value NOT IN (32767, 2147483647, 9223372036854775807)"
                    " THEN max_value END AS " MARK_NAME " FROM pg_sequences");
    if (database->table != NULL) {
        buf_printf(out, " WHERE '%s' IN (sequencename, schemaname || '.' || sequencename)",
                   database->table);
    }
    buf_printf(out, " ORDER BY 1;\n");
}

/* --- Redis --- */

/* The text in quotes on a line, with its quotes; NULL: there is none. */
static const char *redis_quoted(const char *line, size_t *ret_len)
{
    const char *from = line + strcspn(line, "\"\n");
    size_t end = *from == '"' ? sql_quoted_end(from, strcspn(from, "\n"), 0, '"', true) : 0;

    *ret_len = end;
    return end > 0 ? from : NULL;
}

/* The value that redis-cli shows on a line: in quotes, with escapes, or as it is. */
static struct row_value redis_value(const char *line, struct rows *rows)
{
    struct row_value value = {.at = rows->text.len, .is_there = true};
    size_t len;
    const char *text = redis_quoted(line, &len);

    if (text == NULL) {
        buf_put(&rows->text, line, strcspn(line, "\n"));
    } else {
        sql_unquote(&rows->text, text + 1, len - 2, '\0', ESCAPES_REDIS);
    }
    value.len = rows->text.len - value.at;
    buf_put(&rows->text, "", 1);
    return value;
}

/* GET of each key that matches, a line each; SCAN may name a key twice. */
static int redis_scan(const struct database *database, struct buf *gets, struct buf *why)
{
    char cursor[32] = "0";

    do {
        const char *line;
        const char *text;
        size_t len;
        BUF_LOCAL(ask);
        BUF_LOCAL(out);

        buf_printf(&ask, "SCAN %s COUNT 10000 MATCH \"", cursor);
        for (text = database->pattern; *text != '\0'; text++) {
            buf_printf(&ask, "\\x%02x", (unsigned char)*text);
        }
        buf_printf(&ask, "\"\n");
        if (database_do(database, &ask, &out, why) != 0) {
            return ERR_INVALID;
        }
        line = buf_text(&out);
        text = redis_quoted(line, &len);
        if (text == NULL || len >= sizeof cursor || gets->len > REDIS_KEYS_BYTES) {
            buf_printf(why,
                       text == NULL ? "redis-cli: %.*s"
                                    : "the keys that match have more than 64 MiB: choose a "
                                      "narrower --pattern",
                       (int)strcspn(line, "\n"), line);
            return ERR_INVALID;
        }
        (void)snprintf(cursor, sizeof cursor, "%.*s", (int)len - 2, text + 1);
        while ((line = strchr(line, '\n')) != NULL) {
            if ((text = redis_quoted(++line, &len)) != NULL) {
                buf_printf(gets, "GET %.*s\n", (int)len, text);
            }
        }
    } while (strcmp(cursor, "0") != 0);
    return 0;
}

/* Keys and their values. */
static int redis_read(const struct database *database, struct rows *rows, struct buf *why)
{
    const char *name;
    const char *value;
    uint32_t number = 0;
    BUF_LOCAL(gets);
    BUF_LOCAL(values);

    if (redis_scan(database, &gets, why) != 0 ||
        (gets.len > 0 && database_do(database, &gets, &values, why) != 0)) {
        return ERR_INVALID;
    }
    name = buf_text(&gets);
    value = buf_text(&values);
    while (*name != '\0' && *value != '\0') {
        if (strncmp(value, "(nil)", 5) != 0) { /* else the key is gone */
            struct row row = {.number = ++number};

            row.values[COLUMN_NAME] = redis_value(name, rows);
            row.values[COLUMN_MAX_ID] = redis_value(value, rows);
            rows_keep(rows, &row);
        }
        name += strcspn(name, "\n") + 1;
        do { /* skips "(0.52s)", which redis-cli adds to an answer that took half a second */
            value += strcspn(value, "\n");
            value += *value != '\0';
        } while (value[0] == '(' && value[1] >= '0' && value[1] <= '9');
    }
    if (*name != '\0' || *value != '\0') {
        buf_printf(why, "redis-cli did not give one value for each key");
        return ERR_INVALID;
    }
    return 0;
}

/* --- reading and guarding --- */

int database_read(struct database *database, struct rows *rows, struct buf *why)
{
    enum form form = database->engine == ENGINE_MYSQL ? FORM_TSV : FORM_CSV_DOUBLED;
    bool is_table = database->source->age != NULL;
    int err = 0;
    BUF_LOCAL(text);
    BUF_LOCAL(out);

    if (database->table != NULL && strpbrk(database->table, "`'\\\n") != NULL) {
        buf_printf(why, "the name of a table or sequence has no quote and no backslash: \"%s\"",
                   database->table);
        return ERR_INVALID;
    }
    if (database->query != NULL) {
        buf_printf(&text, "%s;\n", database->query);
    } else if (database->engine == ENGINE_POSTGRES) {
        postgres_put_sequences(database, &text);
    } else if (database->engine == ENGINE_MYSQL && is_table) {
        err = mysql_look(database, why);
        mysql_put_rows(database, &text);
    } else if (database->engine == ENGINE_MYSQL) {
        /* All tables with AUTO_INCREMENT, or one. MySQL 8 caches these values for a day, unless a
         * variable disables that. */
        buf_printf(&text, "/*!80000 SET SESSION information_schema_stats_expiry = 0 */;\n"
                          "SELECT table_name AS tag, auto_increment AS max_id FROM "
                          "information_schema.tables WHERE table_schema = DATABASE() AND "
                          "auto_increment IS NOT NULL");
        buf_printf(&text, database->table != NULL ? " AND table_name = '%s';\n" : ";\n",
                   database->table);
    }
    rows->is_live = true;
    if (database->engine == ENGINE_REDIS) {
        err = redis_read(database, rows, why);
    } else if (err == 0) {
        err = database_do(database, &text, &out, why);
    }
    if (err == 0 && out.len > 0) {
        err = file_read(database->source, "", buf_text(&out), out.len, &form, rows, why);
    }
    if (err == 0 && rows->count == 0 && rows->errors.count == 0) {
        buf_printf(why, "there is none: %s",
                   database->engine == ENGINE_REDIS ? "no key matches"
                   : database->query != NULL        ? "the query has no rows"
                   : is_table                       ? "the table has no rows"
                                                    : "no table or sequence of this name counts");
        err = ERR_INVALID;
    }
    return err;
}

bool database_can_guard(const struct database *database)
{
    return database->query == NULL &&
           (database->engine == ENGINE_POSTGRES ||
            (database->engine == ENGINE_MYSQL && database->source->age != NULL));
}

/* IGNORE: an existing mark stays, and other columns of the table need no value. */
static void mysql_put_guard(const struct database *database, const struct import_tags *tags,
                            struct buf *out)
{
    static const char *const events[] = {"update", "insert"};
    bool begun = false;

    for (size_t i = 0; i < tags->count; i++) {
        const struct import_tag *tag = &tags->list[i];

        if (tag->mark != 0 || tag->state == IMPORT_THERE) {
            continue;
        }
        sql_put(out, database,
                begun ? ",\n("
                      : "CREATE TABLE IF NOT EXISTS `$t_guard` LIKE `$t`;\n"
                        "INSERT IGNORE INTO `$t_guard` (`$n`, `$m`) VALUES\n(");
        sql_put_text(out, tag->name);
        buf_printf(out, ", %" PRIu64 ")", tag->max_id - 1);
        begun = true;
    }
    buf_printf(out, "%s", begun ? ";\n" : "");
    for (size_t i = 0; i < COUNT_OF(events); i++) {
        if (!database->has_trigger[i]) {
            buf_printf(out,
                       "DELIMITER //\nCREATE TRIGGER `%s_guard_%s` BEFORE %s ON `%s` FOR EACH "
                       "ROW\n",
                       database->table, events[i], i == 0 ? "UPDATE" : "INSERT", database->table);
            sql_put(out, database,
                    "IF NEW.`$m` > (SELECT MIN(`$m`) FROM `$t_guard` WHERE `$n` = NEW.`$n`) THEN\n"
                    "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'leafd has the ids from here on';\n"
                    "END IF//\nDELIMITER ;\n");
        }
    }
}

void database_put_guard(const struct database *database, const struct import_tags *tags,
                        bool remove, struct buf *out)
{
    if (!database_can_guard(database)) {
        return;
    }
    if (database->engine == ENGINE_MYSQL && remove) {
        sql_put(out, database,
                "DROP TRIGGER IF EXISTS `$t_guard_update`;\n"
                "DROP TRIGGER IF EXISTS `$t_guard_insert`;\nDROP TABLE IF EXISTS `$t_guard`;\n");
    } else if (database->engine == ENGINE_MYSQL) {
        mysql_put_guard(database, tags, out);
    }
    for (size_t i = 0; i < tags->count && database->engine == ENGINE_POSTGRES; i++) {
        const struct import_tag *tag = &tags->list[i];

        if (remove && tag->mark != 0) {
            buf_printf(out, "ALTER SEQUENCE %s NO MAXVALUE;\n", tag->object);
        } else if (!remove && tag->mark == 0 && tag->state != IMPORT_THERE) {
            /* Another import's mark may be there by now: the lower one stays. */
            buf_printf(out,
                       "DO $do$BEGIN IF %" PRIu64 " < (SELECT seqmax FROM pg_sequence WHERE "
                       "seqrelid = $of$%s$of$::regclass) THEN\n"
                       "ALTER SEQUENCE %s MAXVALUE %" PRIu64 ";\nEND IF; END$do$;\n",
                       tag->max_id - 1, tag->object, tag->object, tag->max_id - 1);
        }
    }
}
