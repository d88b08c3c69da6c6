/*
 * conn.h - the connections of one loop: bytes in, one request at a time, replies out in order.
 *
 * The happy path: bytes are read into a buffer of fixed size (input.h); every complete request in
 * it is given to the service at once, its reply appended to the output (output.h); what a turn of
 * the loop caused is written at its end, by one write for each connection. So first all requests
 * are read and served, then all replies sent: reading and serving, and the kernel's way from send()
 * to the receiver, both fit into the processor's caches, but not together.
 *
 * A request may wait: the service embeds a struct http_wait in what it keeps for it. Meanwhile the
 * connection reads no further than its buffer, so that replies stay in order; its end shows at once
 * that the client has gone. What is answered in the turn of another connection is only queued, and
 * goes on at the end of the turn: no recursion, whatever a request causes.
 *
 * Nobody's large replies or long pipelines keep others waiting: what is more than a little work is
 * put off (`later`) and done part by part, one connection after the other, a bounded amount in each
 * turn of the loop, behind all that other connections asked for in it. What unsent replies may take
 * is bounded too (budget.h): who has not taken all of its own is then put off until there is room
 * (`no_room`), and slow readers are cut off (rate.h). A request or a body that comes slowly gives
 * way when its place is needed.
 *
 * A connection keeps the last head that it read: who takes ids sends the same one again and again,
 * and the same bytes say the same, so they are not read again.
 *
 * What is said here of HTTP holds for connections of another protocol, too (struct conn_protocol):
 * it reads the requests and writes the replies, and all else is the same.
 *
 * Over TLS (http/tls) a connection begins with a handshake and has a session; what is received is
 * decrypted when all that was decrypted before is used up, and so never further than to the request
 * that is being served. What a turn answers is sealed and sent at its end. Nothing else differs.
 *
 * A connection from an address that is named as a proxy's begins with a header that says for whom
 * it is. Until that is there its socket has a callback of its own: others pay nothing for it.
 *
 * A node that is about to stop retires its connections (conns_retire()): each reply is the last of
 * its connection and says so, and those that are idle end one by one, the one that was idle longest
 * first, so that who asks now and then is told by a reply. What has arrived is served before a
 * connection ends; it ends by an orderly end of the stream, never by a reset. So no client that
 * follows HTTP sees a request lost, but one whose request crosses the end of a connection that was
 * idle for all that time; it knows that nobody took the request up, and asks again.
 *
 * Failure modes: each closes with a reason, logged at debug level. A request that breaks the
 * protocol gets its error, then the connection closes; it lingers, reading and dropping for a
 * moment, because closing with unread input would reset the connection and destroy the reply on its
 * way.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_SERVER_CONN_H
#define LEAFD_HTTP_SERVER_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "http/auth/identity.h"
#include "http/proto/header.h"
#include "http/proto/parser.h"
#include "http/proto/response.h"
#include "http/proto/text.h"
#include "http/server/budget.h"
#include "http/server/client.h"
#include "http/server/input.h"
#include "http/server/latency.h"
#include "http/server/output.h"
#include "http/server/proxy.h"
#include "http/server/rate.h"
#include "http/server/service.h"
#include "http/tls/session.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/base/stall.h"
#include "src/base/timers.h"

/*
 *   IDLE --first byte--> HEAD --its end--> BODY --its end--> SERVING --conn_reply()--> IDLE
 *     |                   `---- there is no body ---------------^
 *     `---- the head repeats the one before it -----------------^
 *
 *   IDLE --the first byte of TLS--> HANDSHAKE --done--> IDLE
 *   PROXY --its header is there--> IDLE
 *
 *   any of these --the last reply, or the client's end--> FINISHING
 *   FINISHING --all written--> LINGERING --the client's end, or a deadline--> CLOSED
 *   any --an error of the socket, a deadline--> CLOSED
 *
 * conn_move() in conn.c is the only one that changes it.
 */
enum conn_state {
    CONN_IDLE,    /* no byte of a request was looked at; there may be some */
    CONN_HEAD,    /* a head is being received */
    CONN_BODY,    /* a body is being received */
    CONN_SERVING, /* the service has the request, and may let it wait */
    CONN_FINISHING,
    CONN_LINGERING,
    CONN_HANDSHAKE, /* of TLS */
    CONN_PROXY,     /* the header of a proxy is being received (proxy.h) */
    CONN_CLOSED
};

/* How it goes on after the next reply. */
enum conn_ending {
    CONN_STAYS,
    CONN_CLOSES, /* the next reply is the last */
    CONN_LINGERS /* so it is, and unread input is likely: see above */
};

/* A longer head is read each time. */
#define CONN_LAST_BYTES 512
#define CONN_LAST_STEP_BYTES 64

/* What a request's target says, as offsets from the first byte of its head. */
struct request {
    enum http_admission admission;
    uint32_t body_max; /* bytes; the service's to set */
    uint32_t path_at;  /* 0: no path yet, it would be the method's place */
    uint32_t path_len;
    uint32_t query_at;
    uint32_t query_len;
    /* the service's own; zeros when a head is read, and kept when it repeats */
    const void *route;
    void *known;
    uint32_t name_at;
    uint32_t name_len;
    uint8_t gate;
    uint8_t traffic; /* class of latency.h */
    bool wants_json; /* by its Accept, a bare number as well */
};

/*
 * A request that waits for its answer, embedded in what the service keeps for it: conn_wait()
 * enters it, conn_resume() or the connection's end takes it out.
 */
struct http_wait {
    /* The connection has closed: nothing is to be answered. */
    void (*cancel)(struct http_wait *wait);
    /* Its deadline has come: to be answered now, after conn_resume(). */
    void (*expire)(struct http_wait *wait);
    /* All that conn_stream_put() appended is sent. NULL: it is no stream, or nobody asks. */
    void (*sent)(struct http_wait *wait);
    bool needs_client;     /* a client that has closed its side is taken to be gone */
    bool expires_on_drain; /* a drain is its deadline */
    bool takes_turn;       /* it is all of a turn's work: see conn_wait_turn() */
    /* the connection's own */
    struct conn *conn;
    struct timer timer;
} BY_NAME;

/* Why a client was refused, or cut off. */
enum conn_refusal {
    CONN_REFUSED_FULL,        /* too many connections */
    CONN_REFUSED_SHARE,       /* too many of this client, while there are few left */
    CONN_REFUSED_CONNECTIONS, /* the client's quota of them */
    CONN_REFUSED_LARGE,       /* a body of more bytes than its route takes */
    CONN_REFUSED_BODIES,      /* no room for a body */
    CONN_REFUSED_BODY_SHARE,  /* the client's bodies take its share of it */
    CONN_REFUSED_BODY_QUOTA,  /* the client's quota of bodies */
    CONN_REFUSED_BODY_SLOW,   /* a body that came slowly gave way */
    CONN_REFUSED_INPUT,       /* a request that came slowly gave way */
    CONN_REFUSED_READER,      /* a client that takes nothing, or too little */
    CONN_REFUSED_REQUESTS,    /* the client's quota of requests */
    CONN_REFUSED_IDS,         /* and of ids */
    CONN_REFUSED_KEYS,        /* the client's share of idempotency keys */
    CONN_REFUSED_WORKERS,     /* and of worker ids */
    CONN_REFUSALS
};

/* As metrics name it. */
const char *conn_refusal_name(enum conn_refusal refusal);

struct conn_counts {
    _Atomic uint32_t conns;      /* that are open */
    _Atomic uint32_t resp_conns; /* of them, of a protocol beside HTTP */
    _Atomic uint64_t resp_begun; /* and all that there ever were of these */
    _Atomic uint64_t resp_replies[LATENCY_STATUSES];
    _Atomic uint64_t refused[CONN_REFUSALS];
    _Atomic uint64_t parts; /* of replies that are made part by part */
};

TAILQ_HEAD(conn_queue, conn);

/* What a listener's connections speak. */
struct conn_door {
    const struct conn_protocol *protocol; /* NULL: HTTP */
    uint32_t idle_ms;
    bool tls;
};

/* The connections of a loop, and what they share. */
struct conns {
    uv_loop_t *uv;
    const struct http_settings *settings;
    const struct http_service *service;
    void *data; /* the service's, of this loop */
    struct timers timers;
    bool draining;
    bool retiring;            /* each reply is its connection's last */
    uint64_t retire_until_ms; /* when the last of the idle ones ends */
    struct conn_queue queue;  /* to go on, or to have their replies sent, at the end of the turn */
    uint32_t queue_len;
    struct conn_queue later;   /* to go on in a later turn, in this order */
    struct conn_queue no_room; /* the same, once there is room for output */
    struct conn_queue bodies;  /* that are being received and kept, slowest first */
    struct conn_queue inputs;  /* that keep input and wait for no answer, the first to go first */
    struct conn_queue all;
    struct clients *clients; /* all loops' */
    struct client_lines client_lines;
    struct budget budget;
    uint64_t work_bytes;       /* done so far; what bounds a turn */
    uint32_t refused_count;    /* over the limit: they only get their 503 */
    struct conn_counts counts; /* the loop alone writes; any thread may read */
    struct stall stall;        /* how long its turns take */
    struct latency latency;    /* and its requests */
    struct output_pool pool;
    struct buf scratch;     /* a reply's body under construction, for the moment */
    uint64_t date_until_ms; /* on the loop's clock */
    char date[TEXT_TIME_BYTES];
    struct tls_loop *tls;    /* NULL: plain HTTP */
    char input[INPUT_BYTES]; /* lent to the connection that is being read from */
};

/* What each request touches comes first. */
struct conn {
    uv_poll_t poll;
    struct conns *conns;
    struct tls_session *tls; /* NULL: plain HTTP */
    int fd;
    int events; /* of the socket that are waited for: UV_READABLE, UV_WRITABLE */
    enum conn_state state;
    enum conn_ending ending;
    uint64_t since_ms; /* when the state was entered, if it may have a deadline */
    bool queued;       /* in conns->queue */
    bool ended;        /* the client's end was read */
    bool refused;      /* over the limit of connections */
    bool retired;      /* it ends because nothing was asked for, and owes nothing */
    TAILQ_ENTRY(conn) queue_link;
    struct conn_queue *put_off; /* conns->later or conns->no_room; NULL: in neither */
    TAILQ_ENTRY(conn) put_off_link;
    struct http_client *client; /* whose quotas are charged: the token's, or */
    struct http_client *peer;   /* the address's; each holds a reference */
    bool over_quota;            /* of connections */
    struct input input;
    struct output output;
    void (*handle)(struct conn *conn);    /* of its protocol */
    const struct conn_protocol *protocol; /* NULL: HTTP */
    struct http_wait *wait;               /* of the request, NULL: it does not wait */
    uint64_t began_us;                    /* when the request was complete, see latency.h */
    uint8_t traffic; /* what it counts as: request.traffic, or what its handler says */
    /* Who asks, as the service found by the last head; NULL: it has not looked yet, or has to look
     * again. The loop keeps what it points to. */
    const struct identity *identity;
    void *note;   /* the service's, of the present request: http_service.answered ends it */
    void *caller; /* the protocol's; NULL: HTTP, which has none */
    uint32_t idle_ms;
    struct timer read_timer;
    struct request request;
    struct parser parser;     /* its head is the present request's */
    char *last;               /* the head that was read last; owned; NULL: there was none yet */
    uint32_t last_len;        /* 0: it is not kept */
    uint32_t last_size;       /* of its memory, in steps of CONN_LAST_STEP_BYTES */
    struct buf body;          /* of the present request, where the service wants it */
    bool has_body;            /* in conns->bodies */
    uint64_t body_step_ms;    /* when it had got on by a step */
    uint64_t body_step_bytes; /* and how far it was */
    TAILQ_ENTRY(conn) body_link;
    uint32_t input_counted; /* of its input, in conns->budget; > 0: it is in conns->inputs */
    TAILQ_ENTRY(conn) input_link;
    uint32_t waiting_counted; /* of it, while the request waits */
    struct timer write_timer; /* armed while `rate` is looked at */
    struct rate rate;
    TAILQ_ENTRY(conn) all_link;
    struct proxy_header *proxied; /* owned; NULL: no proxy made the connection */
    bool is_uncounted;            /* for any client: it is not known yet whose it is */
};

/* --- for the loop --- */

void conns_init(struct conns *conns, uv_loop_t *uv, const struct http_settings *settings,
                const struct http_service *service, struct clients *clients);

/* All are closed. */
void conns_free(struct conns *conns);

/* Take over an accepted socket, to serve it, or, if there are too many, to say so. peer: its
 * address. */
void conns_take(struct conns *conns, const struct conn_door *door, int fd,
                const struct sockaddr *peer);

/* Go on with what was answered, and send all replies. */
void conns_flush(struct conns *conns);

/* The end of a turn: the same, and a bounded amount of what was put off. True if there is more to
 * be done, in another turn, which should come at once. */
bool conns_turn_end(struct conns *conns);

/* From now on each reply is its connection's last, and idle connections end, one by one over so
 * long. New ones may still come. At most once. */
void conns_retire(struct conns *conns, uint32_t over_ms);

/* After conns_retire(): requests that wait for no more than an answer that may never come are
 * answered now (http_wait.expires_on_drain). */
void conns_drain(struct conns *conns);

COLD void conns_close(struct conns *conns, const char *reason);

/* --- for the service --- */

/* The loop's clock, as of this turn. */
static inline uint64_t conns_now_ms(const struct conns *conns)
{
    return uv_now(conns->uv);
}

/* Count something that one thread writes: no need to lock the bus. */
static inline void conns_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

/* A place in the present request. There is one. */
static inline const char *conn_at(const struct conn *conn, size_t at)
{
    return conn->input.bytes + conn->input.start + at;
}

static inline const struct parser_head *conn_head(const struct conn *conn)
{
    return &conn->parser.head;
}

/* The name that the client's certificate proves: "uri:..." or "dns:..." if the certificate has
 * exactly one such name, of printable characters without blanks; else "sha256:" and the hash of its
 * public key, 64 hexadecimal digits. It was checked against the CA that the settings name. NULL:
 * there is no certificate. Borrowed, until the connection closes. */
const char *conn_certificate(const struct conn *conn);

/* Where the client is: for whom a proxy made the connection, or the other end of it. False: that is
 * not known. */
bool conn_address(const struct conn *conn, struct sockaddr_storage *ret_address);

/* Answer the present request, which is the header of a proxy that no setting names: the connection
 * ends. */
COLD void conn_is_proxied(struct conn *conn);

/* The trace that the present request belongs to, as its client says. False: it says none, or none
 * that follows the rules. */
bool conn_trace(const struct conn *conn, char ret_trace[HEADER_TRACE_BYTES]);

/* The request is answered later; until_ms: on the loop's clock, TIMER_NEVER: it has no deadline
 * here. */
void conn_wait(struct conn *conn, struct http_wait *wait, uint64_t until_ms);

/* The request asks for what is long in the making: wait->sent is called, to resume and answer it,
 * when it is this connection's turn, behind all that others asked for; once in a turn of the loop.
 */
void conn_wait_turn(struct conn *conn, struct http_wait *wait);

/* It waits no more, and is to be answered. Returns its connection. */
struct conn *conn_resume(struct http_wait *wait);

/* Answer the present request. extra: more header lines with CRLF, or NULL. */
void conn_reply(struct conn *conn, int status, const char *type, const char *extra,
                const void *body, size_t len);

/* Of a protocol beside HTTP: append the reply of the present request to conn_put(), then
 * conn_put_done() with the status that HTTP would have. */
struct buf *conn_put(struct conn *conn);
void conn_put_done(struct conn *conn, int status);

/* Answer the present request with a 200 whose body comes part by part, as its client takes it:
 * conn_stream(), then parts, between which it waits (http_wait.sent), then the end; or, when there
 * is no right end, conn_stream_cut(), which resets the connection. */
COLD void conn_stream(struct conn *conn, const char *type);
COLD void conn_stream_put(struct conn *conn, const void *data, size_t len);
COLD void conn_stream_end(struct conn *conn);
COLD void conn_stream_cut(struct conn *conn, const char *reason);

/* Answer the present request with a 200 of `len` bytes that are made part by part, when it is this
 * connection's turn: conn_reply_begin(), then conn_wait(), whose `sent` is called for each part:
 * it appends up to LIMIT_HTTP_PART_BYTES to conn_reply_part(), calls conn_reply_made(), and waits
 * again, or calls conn_reply_end() behind the last one. The client may go at any time (cancel). */
void conn_reply_begin(struct conn *conn, const char *type, const char *extra, size_t len);

/* The same of a protocol beside HTTP: its head was appended to conn_put(). */
void conn_put_begin(struct conn *conn);
struct buf *conn_reply_part(struct conn *conn);
void conn_reply_made(struct conn *conn);
void conn_reply_end(struct conn *conn);

/* The present request came with a token of that name (NULL: with none): from now on the connection
 * counts for it, too. One that is beyond its quota of connections is refused by conn_charge(). */
void conn_identify(struct conn *conn, const char *name, size_t len,
                   const struct client_quotas *quotas);

/* conn_charge(), where there is a quota. */
bool conn_charge_bound(struct conn *conn, struct client_rate *rate, uint64_t amount);

/* Charge the client's quota, conn->client->requests or ids. True: go on; else answered with 429. */
static inline bool conn_charge(struct conn *conn, struct client_rate *rate, uint64_t amount)
{
    return (!conn->over_quota && !client_has_quota(rate)) || conn_charge_bound(conn, rate, amount);
}

/* Answer with an error. extra: more header lines with CRLF, or NULL; more: further members of the
 * error's JSON, each with a comma before it, or "". */
COLD void conn_fail(struct conn *conn, int status, const char *code, const char *extra,
                    const char *more, const char *message);

#endif
