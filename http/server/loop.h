/*
 * loop.h - one HTTP loop: a thread with its uv_loop, listener, connections and port.
 *
 * The happy path: loop_init() on the main thread makes all handles, loop_run() is the thread's
 * body. At the end of each turn the loop sends what its connections have to send and sets its one
 * timer to the earliest deadline.
 *
 * Thread: loop_init, loop_post_*, loop_release from the main thread; the rest is the loop's alone.
 */
#ifndef LEAFD_HTTP_SERVER_LOOP_H
#define LEAFD_HTTP_SERVER_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "http/server/accept.h"
#include "http/server/conns.h"
#include "http/server/port.h"
#include "http/server/service.h"

struct http_loop {
    uv_loop_t uv;
    uv_timer_t timer;
    uv_prepare_t turn_begin;
    uv_check_t turn_end;
    uv_idle_t no_rest;     /* active while there is work for another turn at once */
    uint64_t timer_due_ms; /* TIMER_NEVER: not armed */
    unsigned index;
    char name[16]; /* of the thread, and in the log */
    bool stopping;
    struct conns conns;
    struct acceptor acceptor;
    struct acceptor resp;   /* of service->resp; all zeros: there is no such listener */
    struct http_port *port; /* outlives the loop while answers are to come */
    pthread_t thread;
    /* does it take turns? */
    struct mailbox_item turn_item;
    _Atomic bool turn_asked; /* and not taken yet */
    /* the end */
    uint32_t retire_ms;
    struct mailbox_item retire_item;
    struct timer last;  /* the listener closes */
    struct timer grace; /* what is left then is closed */
    uint32_t grace_ms;
    void (*drained)(void *data); /* NULL once it was called */
    void *drained_data;
    struct mailbox_item drain_item;
    struct mailbox_item stop_item;
};

/* The listening sockets of a loop; -1: none. */
struct loop_listeners {
    int http;
    int resp;
};

void loop_listeners_close(const struct loop_listeners *listeners);

/* Make the handles; takes over the listeners, also on failure. 0 or an ERR_*. On failure nothing is
 * left. */
int loop_init(struct http_loop *loop, unsigned index, const struct http_settings *settings,
              const struct http_service *service, struct clients *clients,
              const struct loop_listeners *listeners) MUST_CHECK;

/* The thread's body: serves until loop_post_stop(). data: struct http_loop. */
void *loop_run(void *data);

/* Free what loop_init() made. The thread has ended or was never started. */
void loop_release(struct http_loop *loop);

/* Did it take a turn since the last call? True also the first time. Not while it is stopped. */
bool loop_takes_turns(struct http_loop *loop);

/* Retire the connections over so long (conn.h). */
void loop_post_retire(struct http_loop *loop, uint32_t over_ms);

/* After that: begin to drain; drained is called on the loop's thread once no connection is left. */
void loop_post_drain(struct http_loop *loop, uint32_t grace_ms, void (*drained)(void *data),
                     void *data);

/* Close everything and end loop_run(). */
void loop_post_stop(struct http_loop *loop);

#endif
