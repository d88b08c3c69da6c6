/* The client: what its sources share, and how a call goes from node to node.
 *
 * The happy path: client_enter() at the begin of each call, client_call() for a request with all
 * its retries, client_start_job() for work in the background. Failure modes: those of the
 * contract; in a child of fork client_enter() makes everything new before anything else.
 *
 * Locks: a source's lock is taken before the client's, and none is held while a request is sent. */
#ifndef LEAFD_CLIENTS_C_CLIENT_H
#define LEAFD_CLIENTS_C_CLIENT_H

#include "http.h"

enum { SOURCES_MAX = 4096, JOBS_AT_ONCE = 32 };

/* Work that one of the client's threads does once. Part of whatever it belongs to. */
struct job {
    void (*run)(void *context);
    void *context;
    struct job *next;
};

/* A door's addresses, and which of them is asked. */
struct door {
    const struct endpoints *endpoints; /* borrowed from the settings */
    atomic_uint current;
};

/* In memory that a fork wipes: INHERITED is what a child finds there. */
enum alive { INHERITED, ALIVE, RENEWING };

struct counters {
    _Atomic uint64_t ids_segment, ids_strict, ids_snowflake, requests, retries, failovers, errors,
        waits, burnt, clock_waits, renewals;
};

/* What each kind of source has to be able to do. */
struct source_kind {
    void (*forget)(void *source); /* in a child of fork: as new */
    void (*stop)(void *source);   /* the client closes: let all that wait go */
    void (*finish)(void *source); /* all threads have ended: release, count what is burnt */
    void (*free)(void *source);
};

/* Of a kind that has nothing to do there. */
void source_nothing(void *source);

/* Begins each source. */
struct source {
    struct leafd *client;
    const struct source_kind *kind;
    struct source *next;
    char name[129];
};

struct leafd {
    struct settings settings;
    _Atomic int *alive;
    struct lines lines;
    struct door ids, admin;
    struct counters counters;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job came, or the client closes */
    struct source *sources;
    unsigned source_count;
    struct job *first_job, **last_job;
    pthread_t threads[JOBS_AT_ONCE];
    unsigned thread_count, idle_threads;
    atomic_bool closed;
    pthread_mutex_t closing; /* held by the one who closes */
    bool finished;           /* it is done */
};

#define COUNT(client, what)                                                                        \
    ((void)atomic_fetch_add_explicit(&(client)->counters.what, 1, memory_order_relaxed))
#define ADD(client, what, number)                                                                  \
    ((void)atomic_fetch_add_explicit(&(client)->counters.what, (uint64_t)(number),                 \
                                     memory_order_relaxed))

/* -1 with "closed" when the client is closed; in a child of fork all is made new first. */
int client_enter(struct leafd *client, struct leafd_error *error);

/* When a call ends that may take so long (0: what the client's calls may). */
uint64_t client_until_ns(const struct leafd *client, uint32_t deadline_ms);

/* A request with all its retries. */
struct call {
    struct leafd *client;
    struct door *door;
    struct request request;
    uint64_t until_ns;
    /* Asked before each round: go on? NULL: until the time is over. */
    bool (*wanted)(void *context, const char *failures);
    void *context;
    bool after_close; /* a release */
};

/* Send it until there is an answer of 200 to 299, which *answer has; it is borrowed from *line, to
 * be given back with line_put(). -1: *error says why, and there is no line. */
int client_call(const struct call *call, struct line **line, struct answer *answer,
                struct leafd_error *error);

/* The same of a GET by a key, which may be NULL. */
int client_get(struct leafd *client, struct door *door, const char *path, const char *key,
               uint64_t until_ns, struct line **line, struct answer *answer,
               struct leafd_error *error);

/* Another address of the door from now on. */
void client_leave_node(struct leafd *client, struct door *door, unsigned from);

/* Have a thread of the client do it, once; false: the client closes, or there is no thread. */
bool client_start_job(struct leafd *client, struct job *job);

/* Start a thread with all signals blocked. */
bool client_start_thread(pthread_t *thread, void *(*run)(void *), void *context);

/* The source of that kind and name; made by make(), which gets a zeroed one, if there is none.
 * NULL: the one whose name the library makes. */
void *client_source(struct leafd *client, const struct source_kind *kind, const char *name,
                    size_t bytes, bool (*make)(void *source), struct leafd_error *error);

/* Wait until then, or until the client closes. */
void client_pause(struct leafd *client, uint64_t until_ns);
#endif
