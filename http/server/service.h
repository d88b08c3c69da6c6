/*
 * service.h - what the HTTP server serves: the functions that its creator supplies, and the
 * settings.
 *
 * The server reads requests, frames replies and keeps the time limits of connections. Only the
 * service knows the routes and their answers.
 *
 * Thread: as said at each; each loop has its own thread.
 */
#ifndef LEAFD_HTTP_SERVER_SERVICE_H
#define LEAFD_HTTP_SERVER_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/clock.h"
#include "src/base/container.h"

#define HTTP_DEFAULT_TIMEOUT_MS 3000
#define HTTP_DEFAULT_MIN_RATE_BYTES 1024

struct buf;
struct conn;
struct conns;
struct http_port;
struct tls;

/* How to treat a request whose head is complete. */
enum http_admission {
    HTTP_REFUSE,    /* `handle` answers with an error, whatever the body is */
    HTTP_DROP_BODY, /* a body is read and dropped */
    HTTP_KEEP_BODY
};

/* The form of an answer (conn.h). */
enum answer_form {
    ANSWER_WHOLE,
    ANSWER_PARTS, /* its length is known, its body comes later */
    ANSWER_STREAM /* neither is known */
};

struct answer {
    enum answer_form form;
    bool is_last; /* of its connection */
    int status;
    const char *type;  /* NULL: there is no body */
    const char *extra; /* header lines with their CRLF; NULL: none */
    const void *body;  /* of a whole one */
    size_t len;
};

struct answer_error {
    int status;
    const char *code;
    const char *message;
    const char *more; /* further members of the error's JSON, each with a comma before it, or "" */
};

/* The protocol of a listener's connections: HTTP/1.1 (http.c), or RESP (http/resp/api). A talker
 * reads the requests and frames the answers; deadlines, memory, quotas, waiting and order are the
 * same for all. All on the loop's thread. */
struct talker {
    /* A connection begins, and ends: make and free conn->caller. NULL: nothing to make. */
    void (*begin)(struct conn *conn);
    void (*end)(struct conn *conn);

    /* Look at the request that begins at conn_at(conn, 0): read more of it, serve it by
     * conn_serve() once it is complete, or refuse it by conn_reject(). False: it needs more input.
     * Before a head that is not a repetition conn->request is all zeros. */
    bool (*step)(struct conn *conn);

    /* Append a whole answer, or the head of another. */
    void (*put)(struct conn *conn, struct buf *out, const struct answer *answer);

    /* Append a piece of a stream; len 0: its end. NULL: there are no streams. */
    void (*put_piece)(struct conn *conn, struct buf *out, const void *data, size_t len);

    /* Append the body of an answer that is an error. */
    void (*put_error)(struct conn *conn, struct buf *out, const struct answer_error *error);

    const char *starved;      /* the answer to a client without a free descriptor */
    const char *tls_required; /* and to one that speaks without TLS to a TLS listener */
} BY_NAME;

/* HTTP/1.1 (http.c). */
extern const struct talker http_talker;

struct http_service {
    void *data;                /* the service's own */
    const struct clock *clock; /* wall time of replies */

    /* For each loop, on the main thread: make conn->conns->data before its thread runs, and free it
     * after the thread has ended. */
    void *(*loop_begin)(void *data, unsigned index, struct conns *conns, struct http_port *port);
    void (*loop_end)(void *loop_data);

    /* A head is complete: find its route, from conn->request, and set body_max there, which is 0 at
     * first. On the loop's thread. */
    enum http_admission (*admit)(struct conn *conn);

    /* A request is complete: it is answered (conn.h) now, or later after conn_wait(). On the loop's
     * thread. */
    void (*handle)(struct conn *conn);

    /* The request for which conn->note was set is answered, or its connection has closed (status
     * 0); it sets conn->note to NULL. */
    void (*answered)(struct conn *conn, int status, const void *body, size_t len);

    /* The protocol at http_settings.resp_address; NULL: there is no such listener. */
    const struct talker *resp;
} BY_NAME;

/* What a client may use and hold, on this node; 0: no quota. */
struct client_quotas {
    uint32_t requests_per_s;
    uint32_t ids_per_s;
    uint32_t connections;
    uint32_t bodies; /* request bodies that are being received */
};

/* What an operator sets (docs/configuration.md). */
struct http_settings {
    const char *listen_address;  /* "host:port"; port 0 picks one (tests) */
    uint32_t loops;              /* 1..LIMIT_HTTP_LOOPS */
    uint32_t default_timeout_ms; /* for the service, if a request names none; ..LIMIT_TIMEOUT_MS */
    uint32_t head_ms;            /* the time limits of limits.h */
    uint32_t body_ms;
    uint32_t idle_ms;
    uint32_t write_ms;
    uint32_t connections;         /* of a loop */
    uint64_t bodies_bytes;        /* of all request bodies being received, on a node */
    uint64_t client_bodies_bytes; /* of one client's large ones */
    uint64_t output_bytes;        /* of all untaken replies, on a node */
    uint64_t input_bytes;         /* of all incomplete requests, on a node */
    uint32_t min_rate_bytes;      /* a second that a client must take of its replies; see meter.h */
    struct client_quotas quotas;  /* of addresses */
    const char *proxies;          /* a list for proxy.h; "": there are none */
    uint32_t worker_percent;      /* 1..100: of all worker ids, for one client */
    uint64_t tags_bytes;          /* for one client's tags; UINT64_MAX: no bound */
    struct tls *tls;              /* borrowed, with a certificate in force; NULL: plain HTTP */
    const char *resp_address;     /* of the listener of service->resp; "": there is none */
    const char *resp_shown;       /* where clients reach it; "" as resp_address */
    uint32_t resp_idle_ms;        /* 0: never */
    bool resp_tls;                /* only with `tls` */
};

#endif
