/*
 * loop.h - one HTTP loop: a thread with its uv_loop, listener, mailbox, connections, parked
 * requests and deadlines.
 *
 * The happy path: loop_init() on the main thread makes all handles, loop_run() is the thread's
 * body. All deadlines of connections are kept in queues, one a kind, in which every entry waits
 * equally long: a queue is sorted by itself, and one timer for the earliest deadline serves them
 * all.
 *
 * Work that a callback causes on other connections (a refill wakes many) is only noted, in `ready`,
 * and done by loop_settle() at the end of the callback: no recursion, whatever a request causes.
 *
 * Replies are written at the end of a turn, or when LOOP_BATCH connections have some: first all
 * requests are read and served, then all replies sent. Reading and serving, and the kernel's way
 * from send() to the receiver, both fit into the processor's caches, but not together.
 *
 * Failure modes: no file descriptors left: see accept.h.
 *
 * Thread: loop_init, loop_post_*, loop_release from the main thread; the rest is the loop's alone.
 */
#ifndef LEAFD_HTTP_SERVER_LOOP_H
#define LEAFD_HTTP_SERVER_LOOP_H

#include <pthread.h>
#include <sys/queue.h>
#include <uv.h>

#include "http/api/control.h"
#include "http/server/memo.h"
#include "http/server/server.h"
#include "http/proto/text.h"
#include "http/server/waiters.h"
#include "src/base/prng.h"

struct conn;

/* Holds a head of the largest size and leaves as much again for bodies and pipelined requests. */
#define LOOP_INPUT_BYTES (2 * LIMIT_HTTP_HEADERS_BYTES)

#define LOOP_BATCH 64

/* Of the loop, which alone writes; any thread may read. */
struct loop_counts {
    _Atomic uint64_t segment_ids; /* handed out */
    _Atomic uint64_t snowflake_ids;
    _Atomic uint64_t strict_ids;
    _Atomic uint64_t burnt_skipped; /* see enum id_burn_cause */
    _Atomic uint64_t burnt_unanswered;
    _Atomic uint64_t replies[6]; /* by the first digit of their status */
};

/* What a connection's read side waits for. */
enum loop_phase {
    PHASE_NONE,   /* for nothing of the client's */
    PHASE_IDLE,   /* the next request's first byte */
    PHASE_HEAD,   /* the rest of a head */
    PHASE_BODY,   /* the rest of a body */
    PHASE_LINGER, /* the client's end, after we closed ours */
    PHASE_COUNT
};

TAILQ_HEAD(conn_queue, conn);

struct http_loop {
    uv_loop_t uv;
    uv_timer_t timer;
    uv_check_t turn_end;
    uint64_t timer_due_ms; /* UINT64_MAX: not armed */
    /* What each request touches stands together. */
    const struct http_settings *settings;
    const struct http_build *build;
    struct id_backend *backend;
    unsigned index;
    bool draining;
    bool drain_told;
    bool stopping;
    struct conn_queue ready;     /* to be processed by loop_settle() */
    struct conn_queue unflushed; /* have replies for loop_flush() */
    uint32_t unflushed_count;
    uint32_t output_count;
    struct loop_counts counts;
    uint64_t date_until_ms; /* on the loop's clock */
    char date[TEXT_TIME_BYTES];
    struct waiters waiters;
    uint32_t phase_ms[PHASE_COUNT];
    struct conn_queue phases[PHASE_COUNT];
    struct buf outputs[LOOP_BATCH]; /* memory for replies, which is not lent to a connection */
    /* listener, see accept.h */
    uv_poll_t listener;
    int listen_fd;
    int reserve_fd;           /* -1 while it is in use */
    uint64_t accept_again_ms; /* paused until then; UINT64_MAX: not paused */
    bool accept_warned;
    /* connections */
    struct conn_queue conns;
    _Atomic uint32_t conn_count;    /* read by any thread */
    uint32_t refused_count;         /* of those, over the limit: they only get their 503 */
    struct conn_queue writers;      /* with output the socket did not take */
    size_t body_bytes;              /* request bodies in memory */
    struct id_tag *snowflake_queue; /* no tag: what snowflake requests are parked on. Owned */
    uint64_t snowflake_again_ms;    /* when those try again; UINT64_MAX: none is parked */
    struct prng prng;
    struct buf scratch; /* a body under construction; content does not outlive a handler */
    /* the thread, its drain and its stop */
    struct http_server *server;
    pthread_t thread;
    struct control_port *port; /* mailbox, outlives the loop while requests are out */
    uint64_t drain_until_ms;
    struct mailbox_item drain_item;
    struct mailbox_item stop_item;
    struct memos memos;
    char input[LOOP_INPUT_BYTES]; /* lent to the connection that is being read from */
};

/* Make the handles; takes over listen_fd, also on failure. 0 or an ERR_*. On failure nothing is
 * left. */
int loop_init(struct http_loop *loop, struct http_server *server, unsigned index,
              int listen_fd) MUST_CHECK;

/* The thread's body: serves until loop_post_stop(). data: struct http_loop. */
void *loop_run(void *data);

/* Free what loop_init() made. The thread has ended or was never started. */
void loop_release(struct http_loop *loop);

/* Begin to drain; http_server_drained() is told once no connection is left. */
void loop_post_drain(struct http_loop *loop);

/* Close everything and end loop_run(). */
void loop_post_stop(struct http_loop *loop);

/* A tag's parked requests should try again. Any thread (the raft loop). */
void loop_post_wake(struct http_loop *loop, struct id_tag *tag);

/* The loop's clock, as of this turn. */
uint64_t loop_now_ms(const struct http_loop *loop);

/* See that the timer fires at at_ms or before. */
void loop_arm(struct http_loop *loop, uint64_t at_ms);

/* Count something of loop->counts. One thread writes: no need to lock the bus. */
static inline void loop_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* The text for Date headers. */
const char *loop_date(struct http_loop *loop);

/* A connection closed: tell the server when it was the last one of a drain. */
void loop_conn_gone(struct http_loop *loop);

/* Process the connections in `ready`. Call at the end of every callback. */
void loop_settle(struct http_loop *loop);

/* The connection has replies to send, or has to be ended. */
void loop_flush_later(struct http_loop *loop, struct conn *conn);

/* It closes before they were sent. */
void loop_flush_not(struct http_loop *loop, struct conn *conn);

/* Send all replies. */
void loop_flush(struct http_loop *loop);

#endif
