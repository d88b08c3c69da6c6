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
#include "nodes.h"

enum { SOURCES_MAX = 4096, JOBS_AT_ONCE = 32, URGENT_JOBS = 2, SOURCE_NAME_BYTES = 129 };

/* In memory that a fork wipes: INHERITED is what a child finds there. */
enum alive { INHERITED, ALIVE, RENEWING };

struct counters {
    _Atomic uint64_t ids_segment, ids_strict, ids_snowflake, requests, retries, failovers, errors,
        waits, burnt, clock_waits, renewals, hedges;
};

/* What each kind of source has to be able to do. */
struct source_kind {
    void (*forget)(void *source); /* in a child of fork: as new */
    /* It is closed, maybe for a second time: let all that wait go, count what is burnt. It waits
     * for nobody: it may be called in the hook, by a thread for which whoever closes waits. */
    void (*stop)(void *source);
    void (*finish)(void *source); /* and then: end its threads, release; again: nothing */
    void (*free)(void *source);
    /* Drop what is too old by then; when the next will be, UINT64_MAX: nothing is held. */
    uint64_t (*age)(void *source, uint64_t now);
    /* What it holds, and, where it is not the source's, its name; false: such a source holds
     * nothing. */
    bool (*gauge)(void *source, struct leafd_gauge *gauge, char name[SOURCE_NAME_BYTES]);
};

/* Of a kind that has nothing to do there. */
void source_nothing(void *source);
uint64_t source_ageless(void *source, uint64_t now);
bool source_holds_nothing(void *source, struct leafd_gauge *gauge, char name[SOURCE_NAME_BYTES]);

/* A kind whose sources hold no ids from one call to the next. */
#define SOURCE_HOLDS_NOTHING(forget_it, free_it)                                                   \
    {                                                                                              \
        .forget = (forget_it), .stop = source_nothing, .finish = source_nothing,                   \
        .free = (free_it), .age = source_ageless, .gauge = source_holds_nothing,                   \
    }

/* Begins each source. */
struct source {
    struct leafd *client;
    const struct source_kind *kind;
    struct source *next;
    atomic_bool closed; /* this one, or the client */
    char name[SOURCE_NAME_BYTES];
};

/* client_enter(), and -1 with "closed" where the source is. */
int source_enter(struct source *source, struct leafd_error *error);

/* Close one source, while the client goes on. A second time it does nothing. In the hook it waits
 * for nobody: the rest is done when it is closed again, opened again, or the client closed. */
void source_close(struct source *source);

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
    pthread_t threads[JOBS_AT_ONCE + URGENT_JOBS];
    unsigned thread_count, idle_threads;
    pthread_t ager; /* the thread that drops what is too old; it is there with the first job */
    bool ageing;
    struct known_cluster cluster;
    uint64_t age_ns;           /* when it has something to do next */
    _Atomic uint64_t usual_ns; /* the time of range requests that were answered; 0: none was */
    void (*hook)(void *user, const struct leafd_event *event);
    void *hook_user;
    atomic_bool closed;
    pthread_mutex_t closing; /* held by the one who closes it, or a source, or opens one again */
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

/* Where a call stands that others may be waiting for. Any thread may read it. */
struct progress {
    _Atomic uint64_t since_ns; /* when the attempt under way began; 0: none is */
    _Atomic uint64_t at;       /* the node that it asks, as of client_spot() */
};

/* A node of a list of a door, among all that it ever had. */
uint64_t client_spot(const struct nodes *nodes, unsigned at);

/* A request with all its retries. */
struct call {
    struct leafd *client;
    struct door *door;
    struct request request;
    uint64_t until_ns;
    /* Asked before each attempt but the first: go on? NULL: until the time is over. rounds: so many
     * are over, in which all nodes failed; error: that of a call that ends now. */
    bool (*wanted)(void *context, const struct leafd_error *error, unsigned rounds);
    void *context;
    /* Why an answer of 200 to 299 is not taken: then another node is asked. NULL: it is taken. May
     * itself be NULL: all are. */
    const char *(*refuses)(void *taker, const struct answer *answer);
    void *taker;
    struct progress *progress; /* NULL: nobody reads it */
    uint32_t range_ids;        /* asked for in ranges: the usual time is made of such */
    bool is_second;            /* beside another one: one round of its tier, without not_at */
    uint64_t not_at;           /* as of client_spot() */
    bool after_close;          /* a release */
};

/* Send it until there is an answer of 200 to 299, which *answer has; it is borrowed from *line, to
 * be given back with line_put(). -1: *error says why, and there is no line. */
int client_call(const struct call *call, struct line **line, struct answer *answer,
                struct leafd_error *error);

/* The same of a GET by a key, which may be NULL. */
int client_get(struct leafd *client, struct door *door, const char *path, const char *key,
               uint64_t until_ns, struct line **line, struct answer *answer,
               struct leafd_error *error);

/* Another node of the list from now on, unless another call has already left that one. */
void client_leave_node(struct leafd *client, struct door *door, const struct nodes *nodes,
                       unsigned from, unsigned to);

/* So long a range request may take before a second one is sent beside it. */
uint64_t client_patience_ns(const struct leafd *client);

/* Call the hook. Without a lock. Texts that are NULL become "". */
void client_event(const struct leafd *client, struct leafd_event event);

/* Is this thread in the hook, of any client? */
bool client_in_hook(void);

/* A range was put away that will be too old then. A source's lock may be held. */
void client_ages_at(struct leafd *client, uint64_t at_ns);

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
