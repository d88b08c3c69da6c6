/*
 * meter.h - what clients and their connections may take, and which of them are refused, or closed,
 * beyond that.
 *
 * A client is an address (IPv6: its /64, which one household has), or the name of the token that a
 * request came with. Its record is shared by its connections on all loops, so that shares and
 * quotas hold for a client. A record without references is kept for a while, since a client could
 * otherwise evade its quota by connecting anew. Beyond LIMIT_CLIENTS the longest idle record is
 * dropped, and when none is idle, all new clients share one record ("others").
 *
 * A loop meters its connections' memory, their turns, and the time that clients take to read their
 * replies. The settings are for a node; each loop has its part.
 *
 * Input: received and not served bytes that a connection keeps (wire.h), over TLS also those not
 * decrypted yet. Beyond the bound of all together, the connection whose last request is longest ago
 * is closed.
 *
 * Waiting: bytes that a connection keeps while its request waits for an answer. Slow requests do
 * not end it. Beyond WIRE_STEP_BYTES each, all together have a bound as large as that of input, and
 * a connection that would take more is closed.
 *
 * Bodies: a body is large once it has more than LIMIT_HTTP_SMALL_BODY_BYTES. The total is bounded,
 * and so are one client's large ones on all loops. A quarter is kept for small ones.
 *
 * Output. Beyond its bound a connection with untaken replies is not served; one without is, so that
 * a client that reads does not suffer from those that do not. Beyond one and a half times the bound
 * no connection is served until slow readers were closed.
 *
 * Slow readers. A slow link is allowed, but replies must not be requested and then left in memory:
 *
 *   - a client that takes nothing for write_ms has gone;
 *   - over write_ms a client takes at least min_rate bytes a second;
 *   - while output is short, one that holds LIMIT_HTTP_HELD_BYTES or more takes at least
 *     LIMIT_HTTP_SHORT_RATE times as much, over a second.
 *
 * A reply that fits into the kernel's buffers is taken at once and never watched.
 *
 * Turns. A connection with much work is put off: to `later`, whose connections are served one after
 * the other, a bounded amount in each turn of the loop, or to `no_room` until there is room for
 * replies.
 *
 * Failure modes: no room: the result says which bound is reached, and nothing is taken. A client
 * that has used up its quota is informed when to retry.
 *
 * Threads: a loop's. Records of clients: any (a mutex guards their table, taken when a connection
 * begins and ends, never for a request; their counts are atomic). Metrics may be read by any.
 */
#ifndef LEAFD_HTTP_SERVER_METER_H
#define LEAFD_HTTP_SERVER_METER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "http/proto/head.h"
#include "http/server/service.h"
#include "http/server/wire.h"
#include "src/base/hash.h"
#include "src/base/hot.h"
#include "src/base/limits.h"
#include "src/base/stats.h"
#include "src/base/timers.h"

/* --- clients --- */

/* Of a rate: the time until which its use is paid for, on the clock of charging. */
struct client_rate {
    _Atomic uint32_t per_s; /* 0: no quota */
    _Atomic uint64_t until_ns;
};

struct http_client {
    /* Each request looks at these. */
    struct client_rate requests;
    struct client_rate ids;
    _Atomic uint64_t refused; /* requests, connections and bodies, for a quota or a share */
    _Atomic uint64_t told_ms; /* when the log last reported it over a quota; 0: never */
    /* Held by its connections. */
    _Atomic uint32_t connections;
    _Atomic uint32_t connections_max; /* 0: no quota; so below */
    _Atomic uint32_t bodies;
    _Atomic uint32_t bodies_max;
    _Atomic uint64_t body_bytes; /* of large bodies */
    _Atomic uint32_t streams;    /* endless replies, counted by the service */
    /* Fixed. */
    uint64_t id;   /* a hash of the name and its kind: the same on all nodes */
    uint32_t hash; /* and one by the table's seed */
    bool is_local; /* this machine's own address: possibly many clients */
    bool is_named; /* by a token */
    uint16_t name_len;
    char name[LIMIT_CLIENT_NAME_BYTES + 1];
    /* The table's. */
    uint32_t refs;
    struct hash_link link;
    TAILQ_ENTRY(http_client) idle_link;
};

struct clients;

/* quotas: of addresses, copied. max: records, 1 to LIMIT_CLIENTS, beside "others". */
struct clients *clients_new(const struct client_quotas *quotas, size_t max);

/* No record may have references. */
void clients_free(struct clients *clients);

/* The record of an address, or of a token's name (1 to LIMIT_CLIENT_NAME_BYTES bytes; longer ones
 * are cut), with one reference more. An existing record also takes over the quotas of the name; of
 * a rate that changes nothing is owed. An address that is neither IPv4 nor IPv6 is "local". Never
 * NULL. */
struct http_client *clients_of_address(struct clients *clients, const struct sockaddr *address);
struct http_client *clients_of_name(struct clients *clients, const char *name, size_t len,
                                    const struct client_quotas *quotas);

/* The id of this name's or address's record, whether the record exists or not; and one of a
 * certificate's name, which has no record. */
uint64_t client_id_of_name(const char *name, size_t len);
uint64_t client_id_of_address(const struct sockaddr *address);
uint64_t client_id_of_certificate(const char *name);

/* One reference more. */
void clients_hold(struct clients *clients, struct http_client *client);

/* Give a reference back. */
void clients_release(struct clients *clients, struct http_client *client);

/* One loop's log lines on clients that are over their quotas. */
struct client_lines {
    uint64_t second;    /* in which lines are counted, of the loop's clock */
    uint32_t in_second; /* lines in it */
    uint64_t more;      /* clients without a line since the last one */
};

/* Is it time to log that this client is over a quota? Once in CLIENT_LOG_MS for each, and only
 * LIMIT_QUOTA_LINES_PER_S lines a second in all. *ret_more: how many were not logged since the last
 * line; they count as logged now. */
#define CLIENT_LOG_MS 60000
bool client_may_log(struct http_client *client, struct client_lines *lines, uint64_t now_ms,
                    uint64_t *ret_more);

/* The number of records, idle ones too. */
size_t clients_count(struct clients *clients);

/* Charge `amount` requests or ids. 0: continue; else nothing was charged, and the client may retry
 * after that many seconds. The charge may exceed what is left: the debt is paid before the next
 * one. So a quota of 1,000 ids a second lets 100,000 through, and then nothing for 99 s. A second's
 * worth may be used at once. */
uint32_t client_charge(struct client_rate *rate, uint64_t amount, uint64_t now_ms);

/* --- refusals --- */

/* Why a client was refused, or its connection closed. */
enum meter_refusal {
    REFUSED_FULL,        /* too many connections */
    REFUSED_SHARE,       /* too many of this client, while few are left */
    REFUSED_CONNECTIONS, /* the client's quota of them */
    REFUSED_LARGE,       /* a body of more bytes than its route takes */
    REFUSED_BODIES,      /* no room for a body */
    REFUSED_BODY_SHARE,  /* the client's bodies have taken its share */
    REFUSED_BODY_QUOTA,  /* the client's quota of bodies */
    REFUSED_BODY_SLOW,   /* a body that came slowly, whose place was needed */
    REFUSED_INPUT,       /* a request that came slowly, whose place was needed */
    REFUSED_READER,      /* a client that takes nothing, or too little */
    REFUSED_REQUESTS,    /* the client's quota of requests */
    REFUSED_IDS,         /* and of ids */
    REFUSED_KEYS,        /* the client's share of idempotency keys */
    REFUSED_WORKERS,     /* and of worker ids */
    REFUSED_TAGS,        /* and of memory for tags */
    METER_REFUSALS
};

/* The answer to a refusal. One without a code gets its text where it is refused. */
struct refusal_answer {
    const char *name; /* in metrics */
    int status;       /* 429: a quota */
    const char *code;
    const char *why;
};

extern const struct refusal_answer refusal_answers[METER_REFUSALS];

/* --- what a client takes of its replies --- */

/* One client's reading. `taken`: bytes that it took of all its replies. */
struct rate {
    uint64_t progress_ms; /* when it last took bytes, as seen */
    uint64_t begin_ms;    /* of the time over which the rate is measured */
    uint64_t begin_taken;
    uint64_t look_ms; /* of the last look */
    uint64_t look_taken;
};

enum rate_verdict { RATE_OK, RATE_STALLED, RATE_SLOW, RATE_SLOW_WHILE_SHORT };

void rate_begin(struct rate *rate, uint64_t taken, uint64_t now_ms);

/* The time from one look to the next. */
uint32_t rate_check_ms(const struct http_settings *settings);

/* By write_ms and min_rate_bytes (0: none) of the settings. waits: the client has something to take
 * (else this node is slow); held: bytes in memory for it; is_short: output is short. */
enum rate_verdict rate_check(struct rate *rate, const struct http_settings *settings,
                             uint64_t taken, uint64_t now_ms, bool waits, uint64_t held,
                             bool is_short);

/* --- a connection, as it is metered --- */

TAILQ_HEAD(metered_queue, metered);

/* All zeros: it takes nothing. */
struct metered {
    struct metered_queue *put_off; /* meter->later or ->no_room; NULL: in neither */
    TAILQ_ENTRY(metered) put_off_link;
    TAILQ_ENTRY(metered) input_link; /* while input > 0 */
    TAILQ_ENTRY(metered) body_link;  /* while it has a body */
    uint64_t output;                 /* bytes counted: held for replies, */
    uint32_t input;                  /* of a request that is not whole, */
    uint32_t waiting;                /* and kept while a request waits */
    bool has_body;
    uint64_t body_bytes;      /* of its body */
    uint64_t body_step_ms;    /* when the body last grew by a step */
    uint64_t body_step_bytes; /* and its length then */
    struct rate rate;
};

/* --- a loop's --- */

struct conn_meter {
    uint64_t bodies_max;
    uint64_t large_max;
    uint64_t client_max; /* of a client's large bodies, on all loops */
    uint64_t output_max;
    uint64_t input_max; /* likewise of waiting requests */
    uint64_t large_bytes;
    uint64_t work_bytes; /* done so far; bounds a turn */
    struct metered_queue later;
    struct metered_queue no_room;
    struct metered_queue bodies; /* being received and kept, slowest first */
    struct metered_queue inputs; /* keep input and wait for no answer, oldest first */
    /* The loop alone writes; any thread may read. */
    _Atomic uint64_t body_bytes;
    _Atomic uint64_t output_bytes;
    _Atomic uint64_t input_bytes;
    _Atomic uint64_t waiting_bytes;
};

/* settings->loops and the settings of bytes must be set. */
void meter_init(struct conn_meter *meter, const struct http_settings *settings);

/* Nothing is counted, and no connection waits. */
bool meter_is_clear(const struct conn_meter *meter);

/* Its connection closes: subtract its counts, except for its body. */
void meter_end(struct conn_meter *meter, struct metered *metered);

/* --- turns --- */

/* Serve it in a later turn, after those before it; or, for no_room, once there is room. No-op if it
 * is put off already. */
void meter_put_off(struct metered *metered, struct metered_queue *queue);

/* It has its turn. It must be put off. */
void meter_put_on(struct metered *metered);

/* --- output --- */

/* Is there room for the reply to another request? A client that took all of its replies, except at
 * most a head, is served although others have not, up to a bound. */
bool meter_has_room(const struct conn_meter *meter, const struct wire *wire);

/* Then no connection is served that has not taken all of its replies. */
bool meter_output_is_full(const struct conn_meter *meter);

/* The memory held for its replies has changed. */
void meter_output(struct conn_meter *meter, struct metered *metered, const struct wire *wire);

/* Output will soon be full: slow readers must be closed. */
bool meter_output_is_short(const struct conn_meter *meter);

/* --- input --- */

/* The input that it keeps has changed; call when it rests (wire_keep()). waits: its request waits
 * for the answer. True: too much is kept: if it waits, by the waiting ones, of which this one took
 * more; else by all together, and meter->inputs has the order in which to close them. */
bool meter_input(struct conn_meter *meter, struct metered *metered, const struct wire *wire,
                 bool waits);

/* All together keep too much input. */
bool meter_input_is_over(const struct conn_meter *meter);

/* Its request made progress: others are closed before it. */
void meter_input_step(struct conn_meter *meter, struct metered *metered);

/* --- bodies --- */

enum meter_body {
    METER_BODY_OK,
    METER_BODY_QUOTA, /* the client has as many as its quota allows */
    METER_BODY_SHARE, /* the client's large bodies take its share */
    METER_BODY_LARGE, /* all large bodies together take theirs */
    METER_BODY_ALL
};

/* Its body, of `client`, grows by `more` bytes: take the room. */
enum meter_body meter_body(struct conn_meter *meter, struct metered *metered,
                           struct http_client *client, uint64_t more, uint64_t now_ms);

/* The body is freed. No-op if there is none. */
void meter_body_free(struct conn_meter *meter, struct metered *metered, struct http_client *client);

/* The next after this one (NULL: the first) of the bodies that came so slowly that their place may
 * be taken; NULL: none is left. */
struct metered *meter_slow_body(const struct conn_meter *meter, const struct metered *after,
                                uint64_t now_ms);

/*
 * --- latency: how long a loop's requests took, and how many there were, by class and by the first
 * digit of their status. The time is from a request's completion here until its reply was given to
 * the socket or, for a large reply, begun. One that is never answered is not counted.
 *
 * The service sets the class (conn->traffic); 0 is that of requests that did not get that far.
 *
 * The first request of a turn reads the clock. Requests answered in the same turn are only counted,
 * and noted with the turn's time at its end. So a busy loop reads the clock twice a turn.
 *
 * Exemplars: for each bucket of a histogram, the last request that waited for something and named
 * its trace (`traceparent`), for OpenMetrics. One that is being written is not seen.
 *
 * Thread: the loop's; any may read the histograms and exemplars.
 */

/* All zeros: none yet. No lock: the count is odd while it is written. */
struct exemplar {
    _Atomic uint64_t writes;
    _Atomic uint64_t trace[2]; /* the 32 digits as a number, the higher half first */
    _Atomic uint64_t took_us;
    _Atomic uint64_t wall_ms;
};

struct exemplar_view {
    char trace[HEADER_TRACE_BYTES];
    uint64_t took_us;
    uint64_t wall_ms; /* when it was answered; 0: there is none */
};

/* Read the exemplar into the view if it is newer. */
void exemplar_newer(struct exemplar_view *view, const struct exemplar *exemplar);

#define LATENCY_CLASSES 11
#define LATENCY_STATUSES 4 /* "2xx" to "5xx" */
#define LATENCY_KINDS (LATENCY_CLASSES * LATENCY_STATUSES)

struct latency {
    struct histogram took[LATENCY_CLASSES][LATENCY_STATUSES];
    struct exemplar exemplars[LATENCY_CLASSES][LATENCY_STATUSES][HISTOGRAM_BUCKETS];
    uint64_t turn_us;                 /* when this turn's first request was complete; 0: none yet */
    uint32_t answered[LATENCY_KINDS]; /* in this turn, of this turn's requests */
    uint8_t kinds[LATENCY_KINDS];     /* the kinds with a count above 0, */
    unsigned kind_count;              /* their number */
};

/* A request is complete: returns when it began, for latency_end(). */
uint64_t latency_begin(struct latency *latency);

/* The request is answered with this status, 200..599. began_us: 0: it was never complete. Returns
 * how long it took, if it waited beyond its turn (then it may have an exemplar,
 * latency_exemplar()), else 0. */
uint64_t latency_end(struct latency *latency, unsigned class, int status, uint64_t began_us);

/* Note the trace of such a request. */
void latency_exemplar(struct latency *latency, unsigned class, int status, uint64_t took_us,
                      const char trace[HEADER_TRACE_BYTES], uint64_t wall_ms);

/* The turn ends at this time, in us, of uv_hrtime(). Also called before histograms are read, to
 * note the requests answered so far. */
void latency_turn_end(struct latency *latency, uint64_t now_us);

/* How many requests of a class were answered with status 0..LATENCY_STATUSES - 1. Any thread. */
uint64_t latency_count(const struct latency *latency, unsigned class, unsigned status);

#endif
