/*
 * loop.h - the HTTP server: N loops, each a thread with a uv_loop, its own listeners
 * (SO_REUSEPORT), connections and buffers, and a port. Its creator supplies what it serves
 * (service.h).
 *
 * Other threads reach a loop by its port: a mailbox that stays until its last reference is given
 * back, also after the loop's end. Code that will post later takes a reference, posts with
 * mailbox_post(), and gives the reference back. The loop closes the mailbox when it ends; then a
 * post returns that, and the item stays its owner's.
 *
 * The happy path: http_server_start() makes the sockets and all handles on the caller's thread, so
 * that every failure is known before a thread runs. At the end of each turn a loop sends its
 * connections' output and sets its one timer to the earliest deadline. http_server_retire(),
 * http_server_drain() and http_server_stop() are the steps of shutdown, posted to every loop.
 *
 * Failure modes: a failure during the start undoes all of it.
 *
 * Threads: the server's functions are the main thread's, http_port_ref() and http_port_unref() any;
 * the rest is the loop's.
 */
#ifndef LEAFD_HTTP_SERVER_LOOP_H
#define LEAFD_HTTP_SERVER_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "http/server/conn.h"
#include "http/server/service.h"
#include "src/base/err.h"
#include "src/base/timers.h"
#include "src/loop/mailbox.h"

/* --- the port --- */

struct http_port {
    _Atomic uint32_t refs; /* the loop's and one for each item still to come */
    struct mailbox mailbox;
};

void http_port_ref(struct http_port *port);
void http_port_unref(struct http_port *port);

/*
 * --- accept: sockets are made and bound on the main thread; connections are accepted on the
 * loop's, which decides which of them are served.
 *
 * The kernel spreads connections over the loops' sockets (SO_REUSEPORT). Each turn takes a bounded
 * number of connections.
 *
 * A connection from a proxy's address begins with a header that names its client (proxy.h). Until
 * the header is complete the socket has a separate callback: other connections pay nothing for it.
 *
 * Failure modes: too many connections, of a client or of all: refused, with a reply (503, or 429)
 * while few are. No file descriptors left: the loop frees its reserve descriptor to accept and
 * refuse a client, takes it back, and pauses for a moment, so that the process neither spins nor
 * starves the clients it serves; this is logged once until accepting works again.
 */

struct acceptor {
    uv_poll_t poll;
    struct conns *conns;      /* that take accepted sockets */
    struct listener listener; /* and their kind */
    unsigned index;           /* of the loop, for the log */
    int listen_fd;            /* owned; -1: closed, or there is no such listener */
    int reserve_fd;           /* -1 while it is in use */
    struct timer again;       /* while it pauses */
    bool warned;
};

enum { ACCEPT_HTTP, ACCEPT_RESP /* of service->resp */, ACCEPTORS };

/* Take over an accepted socket, to serve it or, if there are too many, to refuse it. peer: its
 * address. */
void conns_take(struct conns *conns, const struct listener *listener, int fd,
                const struct sockaddr *peer);

/* --- a loop --- */

struct http_server;

struct http_loop {
    uv_loop_t uv;
    uv_timer_t timer;
    uv_check_t turn_end;
    uv_idle_t no_rest;     /* active while there is work for another turn at once */
    uint64_t timer_due_ms; /* TIMER_NEVER: not armed */
    unsigned index;
    char name[16]; /* of the thread, and in the log */
    bool stopping;
    struct conns conns;
    struct acceptor acceptors[ACCEPTORS];
    struct http_port *port; /* outlives the loop while answers are due */
    pthread_t thread;
    struct http_server *server;
    struct mailbox_item turn_item;
    _Atomic bool turn_asked; /* a turn was asked for and not yet taken */
    struct mailbox_item retire_item;
    struct mailbox_item drain_item;
    struct mailbox_item stop_item;
    bool drained;       /* reported already */
    struct timer last;  /* the listeners close */
    struct timer grace; /* remaining connections are closed */
};

/* --- the server --- */

/* Start the threads; returns when all listen. Settings and service are borrowed until
 * http_server_stop(). 0; ERR_INVALID (address); ERR_EXISTS (in use); ERR_IO. */
int http_server_start(const struct http_settings *settings, const struct http_service *service,
                      struct http_server **ret_server) MUST_CHECK;

/* As http_server_start(), but no loop gets a thread: the caller runs them, turn by turn (tests).
 * Also ended by http_server_stop(). */
int http_server_make(const struct http_settings *settings, const struct http_service *service,
                     struct http_server **ret_server) MUST_CHECK;

/* One of its loops, for such a caller. */
struct http_loop *http_server_loop(struct http_server *server, unsigned index);

/* Has each loop taken a turn since the last call (true also at the first call)? A loop without a
 * turn by the next call is late; one that takes none at all is stuck. Not after
 * http_server_stop(). */
bool http_server_takes_turns(struct http_server *server);

/* The first step of shutdown: connections are still accepted and served, but each reply is the last
 * of its connection ("Connection: close"), and idle connections end one by one over over_ms. At
 * most once a server. */
void http_server_retire(struct http_server *server, uint32_t over_ms);

/* The second: stop accepting; answer requests under way. cb is called once, on a thread of a loop
 * (it must only signal), when all connections have ended; those left after grace_ms are closed. At
 * most once a server. */
void http_server_drain(struct http_server *server, uint32_t grace_ms, void (*cb)(void *data),
                       void *data);

/* Close everything left, join the threads, free. A drain's callback may still come during this. */
void http_server_stop(struct http_server *server);

#endif
