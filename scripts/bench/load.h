/*
 * load.h - the load under way: its connections, and what it has sent and got.
 *
 * The happy path: all connections are opened, then the load begins; each connection sends as many
 * requests as `pipeline` says, and the next when all are answered. With a rate, request i is due at
 * begin + i / rate and goes to the connection that has been idle longest; while none is idle it
 * waits, and its latency grows from when it was due.
 *
 * Failure modes: a connection that ends or sends nonsense is counted and not opened again; what was
 * under way on it is unanswered. Thread: one, the load's.
 */
#ifndef LEAFD_SCRIPTS_BENCH_LOAD_H
#define LEAFD_SCRIPTS_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scripts/bench/load_options.h"
#include "scripts/bench/result.h"

#define LOAD_INPUT_BYTES (256U << 10)

/* A request under way. */
struct load_request {
    uint64_t due_ns;
    uint64_t floor; /* greatest id of its group acknowledged when it was sent */
    size_t target;
};

/*
 *   CONN_CONNECTING --> CONN_OPEN --> CONN_GONE
 *          '--------------------------^
 */
enum load_conn_state { CONN_CONNECTING, CONN_OPEN, CONN_GONE };

struct load_conn {
    struct load *load;
    enum load_conn_state state;
    int fd;
    size_t address;
    bool writable_wanted;
    struct buf out;
    size_t out_at;                 /* bytes of out that are sent */
    struct load_request *requests; /* a ring of `pipeline` */
    size_t first;
    size_t count;
    struct reply_reader reader;
};

struct load {
    const struct load_options *options;
    struct load_targets targets;
    struct result result;
    int epoll;
    struct load_conn *conns;
    size_t connecting; /* connections by state */
    size_t open;
    size_t under_way;  /* requests without a reply yet */
    bool sending;      /* more requests may be sent */
    uint64_t ended_ns; /* when that became false */
    uint64_t now_ns;
    uint64_t *acknowledged;  /* by group: the greatest id acknowledged */
    struct load_conn **idle; /* with a rate: a ring of connections without a request */
    size_t idle_first;
    size_t idle_count;
    char input[LOAD_INPUT_BYTES];
};

/* Begin to connect. 0 or -1 with errno. */
int load_conn_open(struct load *load, struct load_conn *conn, size_t address);

/* Send `count` requests that were due at due_ns. */
void load_conn_send(struct load_conn *conn, size_t count, uint64_t due_ns);

/* What epoll has seen. */
void load_conn_event(struct load_conn *conn, uint32_t events);

void load_conn_free(struct load_conn *conn);

/* How many requests a connection that has none under way may send now. */
size_t load_allowance(const struct load *load);

/* A connection has no request under way any more. */
void load_idle(struct load *load, struct load_conn *conn);

#endif
