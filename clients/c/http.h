/* One request to one address, by libcurl, on connections that are kept.
 *
 * The happy path: line_get(), line_ask(), line_put(). A line is a handle with its connections, used
 * by one thread at a time. Failure modes: no connection, no answer in time, an answer that is no
 * HTTP or too long, the client closed meanwhile (lines_wake()). Threads: any; a line is borrowed by
 * one thread from line_get() to line_put(). */
#ifndef LEAFD_CLIENTS_C_HTTP_H
#define LEAFD_CLIENTS_C_HTTP_H

#include "settings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum {
    ANSWER_BYTES = 128 * 1024, /* more than leafd ever answers to what is asked here */
    LINES_IDLE_MAX = 32,       /* those beyond are not kept */
    NODES_MAX = 64             /* addresses of all endpoints; those beyond are not asked */
};

struct node {
    const char *url;        /* base URL of the endpoint */
    const char *connect_to; /* of libcurl: "::ADDRESS:"; "": the host of the URL */
};

struct line;
struct fake;

struct lines {
    const struct settings *settings; /* borrowed */
    pthread_mutex_t lock;
    struct line *idle; /* the one used last first */
    struct line *all;
    unsigned idle_count;
    atomic_bool closing;
    struct fake *fake; /* answers in place of nodes; NULL: they do */
    /* The token of token_file as of its last change; guarded by lock. */
    char token[TOKEN_CHARS + 1];
    uint64_t looked_ns;
    struct stat looked;
};

struct request {
    const char *method;
    const char *path; /* with the options */
    const char *body; /* JSON, or NULL */
    const char *key;  /* Idempotency-Key, or NULL */
};

enum ask {
    ASK_ANSWERED,
    ASK_FAILED,    /* no connection, or it broke: why says so */
    ASK_UNTRUSTED, /* the node's certificate is not trusted: likewise; nothing was sent */
    ASK_BAD_FILE,  /* ca_file, cert_file or key_file has nothing that TLS could use: why says so */
    ASK_TOO_LONG,  /* more than leafd would say */
    ASK_CLOSED
};

/* Borrowed from the line until it is used again. */
struct answer {
    int status;
    uint64_t asked_ns;      /* when the request was sent */
    uint64_t generation;    /* Leafd-Generation; 0: not said */
    bool replayed;          /* Idempotency-Replayed */
    bool strange;           /* Leafd-Generation is no number */
    uint32_t retry_after_s; /* 0: not said */
    const char *body;       /* with a 0 behind it */
    size_t body_bytes;
    const char *why;
};

/* The node cannot answer now, or a proxy says that it gets no answer from it: another one may. */
static inline bool answer_is_elsewhere(const struct answer *answer)
{
    return answer->status >= 502 && answer->status <= 504;
}

void lines_init(struct lines *lines, const struct settings *settings);

/* In a child of fork: nothing of the parent's connections is used or disturbed. */
void lines_forget(struct lines *lines);

/* End what is under way, and all that comes: ASK_CLOSED. */
void lines_wake(struct lines *lines);
void lines_destroy(struct lines *lines);

/* NULL: no memory. */
struct line *line_get(struct lines *lines);
void line_put(struct line *line);

/* By the monotonic clock. */
struct limits {
    uint64_t connected_ns; /* until then a new connection has to be there; TLS may come later */
    uint64_t until_ns;     /* and the answer; not before connected_ns */
    atomic_bool *stop;     /* true: give it up, as ASK_FAILED; NULL: nobody does */
    uint64_t late_ns;      /* without an answer by then late(context) is called, once; NULL: not */
    void (*late)(void *context);
    void *context;
};

/* Have a thread that waits for an answer on this line look at its limits. */
void line_wake(struct line *line);

/* Ask this node within the limits. */
enum ask line_ask(struct line *line, const struct node *node, const struct request *request,
                  const struct limits *limits, struct answer *answer);
#endif
