/*
 * conn.h - a connection: its state, its client, and how its requests are answered; and the
 * connections of a loop, turn by turn: what is read, served and sent, and when each ends.
 *
 * A connection uses wire.h (its bytes), meter.h (its limits) and a talker (service.h: the
 * protocol). loop.c decides which clients get one.
 *
 * The happy path: the talker finds a complete request and calls conn_serve(); the service answers
 * it at once, or later after conn_wait(): whole, in parts, or as a stream. The answer is appended
 * to the output, and the connection is queued to send it at the end of the turn.
 *
 * A request may wait: the service embeds a struct http_wait in its data of the request. Meanwhile
 * the connection reads no further than its buffer, so that replies stay in order; the client's end
 * is still seen at once. A connection that is answered in the turn of another one is only queued,
 * and continues at the end of the turn: no request causes recursion.
 *
 * A connection keeps the last head that it read: a client that takes ids repeats the same head, and
 * the same bytes mean the same, so they are not parsed again.
 *
 * Turns. In a loop's turn all requests are read and served first, then all replies are sent, by one
 * write for each connection. The code that reads and serves, and the kernel's path from send() to
 * the receiver, each fit into the processor's caches, but not both together. Larger work is put off
 * and done part by part, one connection after the other, a bounded amount in each turn, after the
 * other connections' requests. Memory is bounded by meter.h.
 *
 * A client that speaks without TLS to a listener with TLS is answered without TLS.
 *
 * A node that is about to stop retires its connections (conns_retire()). Each reply is the last of
 * its connection and says so. Idle connections end one by one, the longest idle first, so that a
 * client that asks now and then is informed by a reply. Requests that have arrived are served
 * before a connection ends; it ends by an orderly end of the stream, never by a reset. So a client
 * that follows HTTP loses a request only if that crosses the end of a connection that was idle for
 * all that time. The client then knows that the request was not served, and repeats it.
 *
 * Failure modes: a request that breaks the protocol, comes too slowly or is too large gets its
 * error by conn_reject() or conn_refuse(), and the connection ends. The connection lingers for a
 * moment, reading and dropping, because closing with unread input would reset it and destroy the
 * reply on its way. A state that lasts too long ends, with an error if the client can still receive
 * one. Each connection closes with a reason, logged at debug level.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_SERVER_CONN_H
#define LEAFD_HTTP_SERVER_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

#include "http/auth/tokens.h"
#include "http/proto/head.h"
#include "http/proto/parser.h"
#include "http/proto/text.h"
#include "http/server/meter.h"
#include "http/server/proxy.h"
#include "http/server/service.h"
#include "http/server/wire.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/base/stats.h"
#include "src/base/timers.h"

/*
 *   IDLE --first byte--> HEAD --its end--> BODY --its end--> SERVING --the answer--> IDLE
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
 * Only conn_move() changes the state.
 */
enum conn_state {
    CONN_IDLE,    /* no byte of a request was looked at; some may have come */
    CONN_HEAD,    /* a head is being received */
    CONN_BODY,    /* a body is being received */
    CONN_SERVING, /* the service has the request, and may let it wait */
    CONN_FINISHING,
    CONN_LINGERING, /* reading and dropping, so that no reset destroys the reply on its way */
    CONN_HANDSHAKE, /* of TLS */
    CONN_PROXY,     /* the header of a proxy is being received (proxy.h) */
    CONN_CLOSED
};

/* What follows the next reply. */
enum conn_ending {
    CONN_STAYS,
    CONN_CLOSES, /* the next reply is the last */
    CONN_LINGERS /* likewise, and unread input is likely */
};

/* A longer head is not kept. */
#define CONN_LAST_BYTES 512
#define CONN_LAST_STEP_BYTES 64

/* A request's target, as offsets from the first byte of its head. */
struct request {
    enum http_admission admission;
    uint32_t body_max; /* bytes; the service's to set */
    uint32_t path_at;  /* 0: no path yet, it would be the method's place */
    uint32_t path_len;
    uint32_t query_at;
    uint32_t query_len;
    /* for the service; zeros when a head is read, kept when it repeats */
    const void *route;
    void *known;
    uint32_t name_at;
    uint32_t name_len;
    uint8_t gate;
    uint8_t traffic; /* class of meter.h */
    bool wants_json; /* by its Accept, a bare number as well */
    bool is_current; /* the handler runs for the second time (request_looks_again()) */
};

/*
 * A request that waits for its answer, embedded in the service's data of the request: conn_wait()
 * enters it, conn_resume() or the connection's end removes it.
 */
struct http_wait {
    /* The connection has closed: there is nothing to answer. */
    void (*cancel)(struct http_wait *wait);
    /* Its deadline has come: answer now, after conn_resume(). */
    void (*expire)(struct http_wait *wait);
    /* All appended bytes are sent, and it is this connection's turn. NULL: not wanted. */
    void (*sent)(struct http_wait *wait);
    bool needs_client;     /* a client that has closed its side counts as gone */
    bool expires_on_drain; /* a drain is its deadline */
    bool takes_turn;       /* it takes a whole turn: see conn_wait_turn() */
    /* the connection's own */
    struct conn *conn;
    struct timer timer;
} BY_NAME;

struct conn_counts {
    _Atomic uint32_t conns;      /* that are open */
    _Atomic uint32_t resp_conns; /* of them, of RESP */
    _Atomic uint64_t resp_begun; /* and all RESP connections ever begun */
    _Atomic uint64_t resp_replies[LATENCY_STATUSES];
    _Atomic uint64_t refused[METER_REFUSALS];
    _Atomic uint64_t parts; /* of replies that are made part by part */
};

TAILQ_HEAD(conn_queue, conn);

/* The protocol of a listener's connections, and its settings. */
struct listener {
    const struct talker *talker;
    uint32_t idle_ms; /* 0: an idle connection stays until its client has gone */
    bool tls;
};

/* The connections of a loop, and what they share. */
struct conns {
    uv_loop_t *uv; /* uv_now(uv) is the loop's clock, as of this turn */
    const struct http_settings *settings;
    const struct http_service *service;
    void *data; /* the service's, of this loop */
    struct timers timers;
    uint32_t limits_ms[CONN_CLOSED]; /* of the states with a deadline, but CONN_IDLE */
    bool draining;
    /* While true, each reply of HTTP is its connection's last; NULL: never. */
    const _Atomic bool *lets_go;
    bool retiring;            /* each reply is its connection's last */
    uint64_t retire_until_ms; /* when the last idle connection ends */
    struct conn_queue queue;  /* to continue, or to send replies, at the turn's end */
    uint32_t queue_len;
    struct conn_queue all;
    struct clients *clients; /* all loops' */
    struct client_lines client_lines;
    struct conn_meter meter;
    uint32_t refused_count;    /* over the limit: they only get a 503 */
    struct conn_counts counts; /* the loop alone writes; any thread may read */
    struct stall stall;        /* how long its turns take */
    struct latency latency;    /* and its requests */
    struct wire_pool pool;
    struct buf scratch;     /* an answer's body under construction, for the moment */
    uint64_t date_until_ms; /* on the loop's clock */
    char date[TEXT_TIME_BYTES];
    struct tls_loop *tls;         /* NULL: none of its listeners has TLS */
    char input[WIRE_INPUT_BYTES]; /* lent to the connection that is being read from */
};

/* The fields that each request uses come first. */
struct conn {
    uv_poll_t poll;
    struct conns *conns;
    const struct talker *talker;
    void *caller; /* the talker's; NULL: it has none */
    /* its life */
    enum conn_state state;
    enum conn_ending ending;
    uint64_t since_ms; /* when the state was entered, if it may have a deadline */
    int events;        /* awaited of the socket: UV_READABLE, UV_WRITABLE */
    uint32_t idle_ms;
    bool queued;       /* in conns->queue */
    bool refused;      /* over the limit of connections */
    bool retired;      /* it ends because it was idle, and owes nothing */
    bool is_uncounted; /* for any client: its client is not known yet */
    bool over_quota;   /* of connections */
    struct timer read_timer;
    struct timer write_timer; /* armed while metered.rate is watched */
    TAILQ_ENTRY(conn) queue_link;
    TAILQ_ENTRY(conn) all_link;
    struct wire wire;
    struct metered metered;
    /* the client */
    struct http_client *client;   /* charged for quotas: the token's, or */
    struct http_client *peer;     /* the address's; each holds a reference */
    struct proxy_header *proxied; /* owned; NULL: no proxy made the connection */
    /* By the last head, found by the service; NULL: not looked up yet, or to be looked up again.
     * The loop keeps it valid. */
    const struct identity *identity;
    const struct client_cut *cut; /* that hits the client; found and kept with the identity */
    /* the present request */
    struct http_wait *wait; /* NULL: it does not wait */
    uint64_t began_us;      /* when it became complete, see latency_begin() */
    void *note;             /* the service's: http_service.answered ends it */
    struct request request;
    struct parser parser; /* its head is the present request's */
    struct buf body;      /* if the service wants it */
    char *last;           /* the head that was read last; owned; NULL: there was none yet */
    uint32_t last_len;    /* 0: it is not kept */
    uint32_t last_size;   /* of its memory, in steps of CONN_LAST_STEP_BYTES */
    uint8_t traffic;      /* its class: request.traffic, or as its handler sets */
};

/* --- for the service --- */

/* A place in the present request, which must exist. */
static inline const char *conn_at(const struct conn *conn, size_t at)
{
    return conn->wire.bytes + conn->wire.start + at;
}

/* The name that the client's certificate, which was checked, proves (tls.h). NULL: there is no
 * certificate. Borrowed, until the connection closes. */
const char *conn_certificate(const struct conn *conn);

/* The client's address: the one for which a proxy made the connection, or the other end's. False:
 * not known. */
bool conn_address(const struct conn *conn, struct sockaddr_storage *ret_address);

/* The trace of the present request, as its client says. False: it names none, or one that breaks
 * the rules. */
bool conn_trace(const struct conn *conn, char ret_trace[HEADER_TRACE_BYTES]);

/* The present request came with a token of that name (NULL: with none): from now on the connection
 * counts for that client, too. If the client is over its quota of connections, conn_charge()
 * refuses. */
void conn_identify(struct conn *conn, const char *name, size_t len,
                   const struct client_quotas *quotas);

/* The request is answered later; until_ms: on the loop's clock, TIMER_NEVER: no deadline here. */
void conn_wait(struct conn *conn, struct http_wait *wait, uint64_t until_ms);

/* As http_wait.cancel, of a wait that is its memory's first member. */
void conn_wait_free(struct http_wait *wait);

/* The request's answer takes long to make: wait->sent is called in this connection's turn, to
 * resume and answer it, after all other connections' requests; once in a turn of the loop. */
void conn_wait_turn(struct conn *conn, struct http_wait *wait);

/* End the wait; the caller answers. Returns its connection. */
struct conn *conn_resume(struct http_wait *wait);

/* --- for talkers: state --- */

#define CONN_BIT(state) (1u << (state))

/* Inline, since each request moves its connection twice, to a state that the compiler knows. */
static inline void conn_move(struct conn *conn, enum conn_state to)
{
    static const unsigned allowed[] = {
        [CONN_IDLE] = CONN_BIT(CONN_IDLE) | CONN_BIT(CONN_HEAD) | CONN_BIT(CONN_SERVING) |
                      CONN_BIT(CONN_FINISHING) | CONN_BIT(CONN_HANDSHAKE) | CONN_BIT(CONN_PROXY) |
                      CONN_BIT(CONN_CLOSED),
        [CONN_HEAD] = CONN_BIT(CONN_IDLE) | CONN_BIT(CONN_BODY) | CONN_BIT(CONN_SERVING) |
                      CONN_BIT(CONN_FINISHING) | CONN_BIT(CONN_CLOSED),
        [CONN_BODY] = CONN_BIT(CONN_SERVING) | CONN_BIT(CONN_FINISHING) | CONN_BIT(CONN_CLOSED),
        [CONN_SERVING] = CONN_BIT(CONN_IDLE) | CONN_BIT(CONN_FINISHING) | CONN_BIT(CONN_CLOSED),
        [CONN_FINISHING] = CONN_BIT(CONN_LINGERING) | CONN_BIT(CONN_CLOSED),
        [CONN_LINGERING] = CONN_BIT(CONN_CLOSED),
        [CONN_HANDSHAKE] = CONN_BIT(CONN_IDLE) | CONN_BIT(CONN_FINISHING) | CONN_BIT(CONN_CLOSED),
        [CONN_PROXY] = CONN_BIT(CONN_IDLE) | CONN_BIT(CONN_CLOSED),
        [CONN_CLOSED] = 0,
    };

    ASSERT((allowed[conn->state] & CONN_BIT(to)) != 0);
    conn->state = to;
    if (to != CONN_SERVING) { /* which has no deadline */
        conn->since_ms = uv_now(conn->conns->uv);
    }
}

/* Have the connection continue at the end of the turn. No-op if it is queued already. */
HOT void conn_queue(struct conn *conn);

/* Keep the head of the present request, for the next one. conn->parser.head has its length. */
HOT void conn_keep_head(struct conn *conn);

/* Count that a client is refused, or its connection closed: for the metrics, and, if the client is
 * over a quota, for the log. */
COLD void conn_count_refusal(struct conn *conn, enum meter_refusal refusal);

/* Close without another reply; its memory is freed when libuv has finished. Idempotent. */
COLD void conn_close(struct conn *conn, const char *reason);

/* The same, by a reset, since the kernel would hold unsent bytes for minutes. */
COLD void conn_abort(struct conn *conn, const char *reason);

/* --- answering: whole --- */

#define ANSWER_TEXT "text/plain;charset=UTF-8"
#define ANSWER_JSON "application/json;charset=UTF-8"

/* Answer the present request. type: NULL: there is no body; extra: more header lines with CRLF, or
 * NULL. A protocol without headers has neither, and the body is the answer. */
void conn_answer(struct conn *conn, int status, const char *type, const char *extra,
                 const void *body, size_t len);

/* Answer with an error. extra: as above; more: further members of the error's JSON, each with a
 * comma before it, or "". */
COLD void conn_fail(struct conn *conn, int status, const char *code, const char *extra,
                    const char *more, const char *message);

/* --- answering: in parts, made in this connection's turns, so that a long answer keeps no other
 * connection waiting --- */

/* The first field of the service's data of the answer, from malloc(): the connection frees it, once
 * the answer is complete or the client has gone. */
struct answer_parts {
    struct http_wait wait; /* the connection's own */
    /* Append the next part, of up to LIMIT_HTTP_PART_BYTES. True: it is the last one. */
    bool (*put)(struct conn *conn, struct answer_parts *parts, struct buf *out);
} BY_NAME;

/* Answer with a 200 of `len` bytes in all, len > 0; over RESP, of an array of `len` elements. */
void conn_answer_parts(struct conn *conn, const char *type, const char *extra, size_t len,
                       struct answer_parts *parts);

/* --- answering: as a stream --- */

/* Answer with a 200 whose body comes in pieces: conn_stream(), then pieces, between which the
 * request waits (http_wait.sent), then the end. */
COLD void conn_stream(struct conn *conn, const char *type);
COLD void conn_stream_put(struct conn *conn, const void *data, size_t len);

/* cut: NULL: the stream is complete; else why it is cut short, and the connection is reset. */
COLD void conn_stream_end(struct conn *conn, const char *cut);

/* --- for talkers: requests --- */

/* The request is complete: have the service answer it. */
HOT void conn_serve(struct conn *conn);

/* Answer with an error and close: the input may be out of step. */
COLD void conn_reject(struct conn *conn, const struct parser_reject *reject);

/* The same, for lack of room, or for a quota. limit: 0: none is named. */
COLD void conn_refuse(struct conn *conn, enum meter_refusal refusal, uint64_t limit);

/* Answer that there is a proxy's header from an address not named in the settings, or none from one
 * that is; the connection ends. */
COLD void conn_reject_proxy(struct conn *conn, bool is_missing);

/* --- quotas --- */

/* conn_charge(), if there is a quota of `rate` or of connections. */
bool conn_charge_bound(struct conn *conn, struct client_rate *rate, uint64_t amount);

/* Charge the client's quota, conn->client->requests or ids. True: continue; else answered with
 * 429. */
static inline bool conn_charge(struct conn *conn, struct client_rate *rate, uint64_t amount)
{
    bool is_bound =
        conn->over_quota || atomic_load_explicit(&rate->per_s, memory_order_relaxed) != 0;

    return !is_bound || conn_charge_bound(conn, rate, amount);
}

/* --- for loop.c: one of them --- */

/* Make a connection for the socket. client: with a reference, which it takes over; refused: it only
 * gets an error. NULL: the socket is closed, and the caller keeps the reference. */
struct conn *conn_new(struct conns *conns, const struct listener *listener, int fd,
                      struct http_client *client, bool refused);

/* Call after each step. Decides which deadline holds, what to keep, and whether to read on: for
 * input while there is room, or to see the client's end. It may close the connection. */
HOT void conn_rest(struct conn *conn);

/* --- and all of a loop --- */

void conns_init(struct conns *conns, uv_loop_t *uv, const struct http_settings *settings,
                const struct http_service *service, struct clients *clients);

/* All are closed. */
void conns_free(struct conns *conns);

/* Continue after what was answered, and send all replies. */
void conns_flush(struct conns *conns);

/* End a turn: the same, and a bounded amount of the work that was put off. True: there is more to
 * do, in another turn, which should come at once. */
bool conns_turn_end(struct conns *conns);

/* From now on each reply is its connection's last, and idle connections end, one by one over
 * over_ms. None ends before it was idle for half of LIMIT_HTTP_RETIRE_MS, or over_ms if that is
 * less. New ones may still come. Call at most once. */
void conns_retire(struct conns *conns, uint32_t over_ms);

/* Call after conns_retire(): requests that only wait for an answer that may never come are answered
 * now (http_wait.expires_on_drain). */
void conns_drain(struct conns *conns);

COLD void conns_close(struct conns *conns, const char *reason);

#endif
