/*
 * load_mariadb.c - the load of the benchmarks on MariaDB: ids as Leaf takes them, one at a time.
 *
 *     load_mariadb --port N [--connections 64] [--seconds 10] [--prepared] [--query SQL]
 *
 * Each connection repeats the query, an UPDATE that sets LAST_INSERT_ID(), in a transaction of its
 * own, and takes the id from the answer. The library's non-blocking calls let one thread serve all
 * connections, as in the HTTP load, so that threads of the load take no time from the server. The
 * report is the same as load's; every id must be new, and above all acknowledged before.
 *
 * Failure modes: an error of the server or a lost connection is counted, and that connection is not
 * used any more. Thread: one.
 */
#include <err.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <mysql.h>

#include "scripts/bench/result.h"
#include "src/base/assert.h"

#define EXIT_CANNOT_RUN 2
#define CONNECTIONS_MAX 1000
#define EVENTS_MAX 256
#define NS_PER_S 1e9
#define GRACE_NS UINT64_C(15000000000)
#define WAIT_MS 100

static const char default_query[] =
    "UPDATE leaf_alloc SET max_id=LAST_INSERT_ID(max_id+1) WHERE biz_tag='order'";

struct options {
    unsigned port;
    size_t connections;
    double seconds;
    bool prepared;
    const char *query;
};

struct client {
    MYSQL mysql;
    MYSQL_STMT *statement; /* NULL: the text is sent each time */
    uint32_t watched;      /* events */
    bool busy;
    uint64_t begun_ns;
    uint64_t floor; /* greatest id acknowledged when the query was sent */
};

struct run {
    const struct options *options;
    struct result result;
    struct client *clients;
    int epoll;
    size_t busy;
    uint64_t now_ns;
    uint64_t acknowledged;
};

static double read_number(const char *text, double min, double max)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= min && value <= max)) {
        errx(EXIT_CANNOT_RUN, "%s: must be %g to %g", text, min, max);
    }
    return value;
}

static void options_read(struct options *options, int argc, char **argv)
{
    static const struct option names[] = {
        {"port", required_argument, NULL, 'p'},    {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'}, {"prepared", no_argument, NULL, 'r'},
        {"query", required_argument, NULL, 'q'},   {0},
    };
    int option;

    *options = (struct options){.connections = 64, .seconds = 10, .query = default_query};
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 'p':
            options->port = (unsigned)read_number(optarg, 1, UINT16_MAX);
            break;
        case 'c':
            options->connections = (size_t)read_number(optarg, 1, CONNECTIONS_MAX);
            break;
        case 's':
            options->seconds = read_number(optarg, 0.01, 86400);
            break;
        case 'r':
            options->prepared = true;
            break;
        case 'q':
            options->query = optarg;
            break;
        default:
            exit(EXIT_CANNOT_RUN);
        }
    }
    if (optind != argc || options->port == 0) {
        errx(EXIT_CANNOT_RUN, "--port is missing, or too many arguments");
    }
}

static void client_prepare(struct client *client, const char *query)
{
    client->statement = mysql_stmt_init(&client->mysql);
    ASSERT(client->statement != NULL);
    if (mysql_stmt_prepare(client->statement, query, strlen(query)) != 0) {
        errx(EXIT_CANNOT_RUN, "prepare: %s", mysql_stmt_error(client->statement));
    }
}

/* Connect; the load has not begun, so waiting for it is no harm. */
static void client_open(struct run *run, struct client *client)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};

    ASSERT(mysql_init(&client->mysql) != NULL);
    ASSERT(mysql_options(&client->mysql, MYSQL_OPT_NONBLOCK, NULL) == 0);
    if (mysql_real_connect(&client->mysql, "127.0.0.1", "bench", "bench", "bench",
                           run->options->port, NULL, 0) == NULL) {
        errx(EXIT_CANNOT_RUN, "connect: %s", mysql_error(&client->mysql));
    }
    if (run->options->prepared) {
        client_prepare(client, run->options->query);
    }
    client->watched = EPOLLIN;
    ASSERT(epoll_ctl(run->epoll, EPOLL_CTL_ADD, mysql_get_socket(&client->mysql), &event) == 0);
}

/* A query has ended: true if it gave an id. */
static bool client_done(struct run *run, struct client *client, int error)
{
    struct result *result = &run->result;
    uint64_t id = client->statement ? mysql_stmt_insert_id(client->statement)
                                    : mysql_insert_id(&client->mysql);

    client->busy = false;
    run->busy--;
    run->now_ns = result_clock_ns();
    if (error != 0) {
        result->statuses[0]++;
        result_bad(result, run->now_ns, "error: %s",
                   client->statement ? mysql_stmt_error(client->statement)
                                     : mysql_error(&client->mysql));
        return false;
    }
    result->statuses[200]++;
    if (id == 0 || id <= client->floor) {
        result->bad_body++;
        result_bad(result, run->now_ns, "id %llu after %llu was acknowledged",
                   (unsigned long long)id, (unsigned long long)client->floor);
        return false;
    }
    idset_add(&result->ids, 0, id, id);
    run->acknowledged = id > run->acknowledged ? id : run->acknowledged;
    result_good(result, run->now_ns, run->now_ns - client->begun_ns, 1);
    return true;
}

/* Watch for what the library waits for. */
static void client_watch(struct run *run, struct client *client, int wanted)
{
    uint32_t events = (wanted & MYSQL_WAIT_READ ? (uint32_t)EPOLLIN : 0) |
                      (wanted & MYSQL_WAIT_WRITE ? (uint32_t)EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.ptr = client};

    if (events != client->watched) {
        client->watched = events;
        ASSERT(epoll_ctl(run->epoll, EPOLL_CTL_MOD, mysql_get_socket(&client->mysql), &event) == 0);
    }
}

static int client_start(struct run *run, struct client *client, int *ret_error)
{
    const char *query = run->options->query;

    client->busy = true;
    client->begun_ns = run->now_ns;
    client->floor = run->acknowledged;
    run->busy++;
    run->result.sent++;
    return client->statement
               ? mysql_stmt_execute_start(ret_error, client->statement)
               : mysql_real_query_start(ret_error, &client->mysql, query, strlen(query));
}

/* Go on with what is under way, and with further queries until one has to be waited for. */
static void client_go_on(struct run *run, struct client *client, int ready)
{
    int error = 0;
    int wanted = 0;

    if (client->busy) {
        wanted = client->statement ? mysql_stmt_execute_cont(&error, client->statement, ready)
                                   : mysql_real_query_cont(&error, &client->mysql, ready);
        if (wanted == 0 && !client_done(run, client, error)) {
            return;
        }
    }
    while (wanted == 0 && run->now_ns < run->result.stop_ns) {
        wanted = client_start(run, client, &error);
        if (wanted == 0 && !client_done(run, client, error)) {
            return;
        }
    }
    if (wanted != 0) {
        client_watch(run, client, wanted);
    }
}

static void run_wait(struct run *run)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(run->epoll, events, EVENTS_MAX, WAIT_MS);

    run->now_ns = result_clock_ns();
    for (int i = 0; i < count; i++) {
        struct client *client = events[i].data.ptr;
        int ready = (events[i].events & EPOLLOUT ? MYSQL_WAIT_WRITE : 0) |
                    (events[i].events & ~(uint32_t)EPOLLOUT ? MYSQL_WAIT_READ : 0);

        if (!client->busy) {
            /* Nothing was asked: the server has ended the connection. */
            run->result.closed++;
            result_bad(&run->result, run->now_ns, "closed by the server");
            ASSERT(epoll_ctl(run->epoll, EPOLL_CTL_DEL, mysql_get_socket(&client->mysql), NULL) ==
                   0);
            continue;
        }
        client_go_on(run, client, ready);
    }
}

static void run_all(struct run *run)
{
    result_begin(&run->result, (uint64_t)(run->options->seconds * NS_PER_S), GRACE_NS, false);
    run->now_ns = run->result.begin_ns;
    for (size_t i = 0; i < run->options->connections; i++) {
        client_go_on(run, &run->clients[i], 0);
    }
    while (run->busy > 0 && run->now_ns < run->result.stop_ns + GRACE_NS) {
        run_wait(run);
    }
    run->result.unanswered = run->busy;
}

int main(int argc, char **argv)
{
    static struct run run;
    struct options options;
    bool good;

    options_read(&options, argc, argv);
    run.options = &options;
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    ASSERT(run.epoll >= 0 && mysql_library_init(0, NULL, NULL) == 0);
    result_init(&run.result);
    run.clients = calloc(options.connections, sizeof *run.clients);
    ASSERT(run.clients != NULL);
    for (size_t i = 0; i < options.connections; i++) {
        client_open(&run, &run.clients[i]);
    }
    run_all(&run);
    good = result_is_good(&run.result);
    if (result_print(&run.result, stdout) != 0) {
        err(EXIT_CANNOT_RUN, "the report");
    }
    for (size_t i = 0; i < options.connections; i++) {
        if (run.clients[i].statement != NULL && !run.clients[i].busy) {
            mysql_stmt_close(run.clients[i].statement);
        }
        mysql_close(&run.clients[i].mysql);
    }
    free(run.clients);
    result_free(&run.result);
    return good ? 0 : 1;
}
