/*
 * meter.h - what clients and their connections may take, and which of them is refused, or closed,
 * when it is too much.
 *
 * A client is an address (an IPv6 one by its /64, which one household has), or the name of the
 * token that a request came with. There is one record for each, which all its connections on all
 * loops share, so that shares and quotas hold for a client and not for each of its connections. A
 * record that nobody refers to is kept for a while, since a quota would otherwise be evaded by
 * connecting anew. The table is bounded: beyond LIMIT_CLIENTS the record that was idle for longest
 * is dropped, and when none is idle, all new clients share one record ("others").
 *
 * A loop meters the memory of its connections: input, bodies and replies; their turns, and the time
 * that clients take to read their replies. The settings are for a node, and each loop has its part.
 *
 * Input. Of what came of a request and was not served (the beginning of a head, the head of a body
 * that is being received, requests after others whose turn has not come) a connection keeps a copy
 * (wire.h), over TLS also of what is not decrypted yet. All of these are bounded; beyond it the
 * connection is closed whose last request is longest ago.
 *
 * Waiting. A request that waits for its answer keeps its head and what came after it. That does not
 * count as input, and slow requests do not end it. WIRE_STEP_BYTES, which hold what most clients
 * send, are each one's own; what all of them keep beyond that is bounded by as much again as input,
 * and a connection that would take more is closed.
 *
 * Bodies. What all of them take is bounded, and so is what one client's large ones take on all
 * loops. A body is large once it has more than LIMIT_HTTP_SMALL_BODY_BYTES. A quarter is kept for
 * small ones, so that large ones cannot crowd them out.
 *
 * Output. Beyond its bound no connection is served that has replies which its client did not take;
 * one that has none still is, so that a client that reads is not refused for the sake of those that
 * do not. Beyond one and a half times the bound none is, until slow readers were closed.
 *
 * Slow readers. A slow link is no offence: a client that takes something now and then gets its
 * reply whole. What cannot be is that replies are asked for, made, and left lying in memory. So
 * there are three rules, and the rate that they ask for depends on how much memory is left:
 *
 *   - a client that takes nothing for write_ms has gone;
 *   - over write_ms a client takes at least min_rate bytes a second;
 *   - while output is short, one that holds LIMIT_HTTP_HELD_BYTES or more takes at least
 *     LIMIT_HTTP_SHORT_RATE times as much, over a second.
 *
 * A reply that fits into the buffers of the kernel is never looked at: they have it at once.
 *
 * Turns. A connection whose work is more than a little is put off: to `later`, whose connections
 * are served one after the other, a bounded amount in each turn of the loop, or to `no_room` until
 * there is room for replies.
 *
 * The happy path: clients_of_address() when a connection is accepted gives a record with a
 * reference, which clients_release() gives back when the connection ends. In between each request
 * is charged by client_charge(): a load, and a compare-and-swap where there is a quota.
 * meter_has_room() before a request is served, meter_output() whenever what is held for replies has
 * changed, meter_input() at the end of a connection's turn; meter_body() before a piece of a body
 * is kept, meter_body_free() when the body goes; rate_begin() when a client did not take all at
 * once, rate_look() every rate_look_ms() until it has nothing left to take.
 *
 * Failure modes: no room: which bound is reached is said, and nothing is taken. A client
 * that has used up its quota hears when to come again.
 *
 * Threads: a loop's; records of clients are for any (a mutex guards their table, taken when a
 * connection begins and ends, never for a request; their counts are atomic), and what is shown may
 * be read by any.
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

/* Of a rate: up to when what was used is paid for, on the clock of charging. */
struct client_rate {
    _Atomic uint32_t per_s; /* 0: no quota */
    _Atomic uint64_t until_ns;
};

struct http_client {
    /* Each request looks at these. */
    struct client_rate requests;
    struct client_rate ids;
    _Atomic uint64_t refused; /* requests, connections and bodies, for a quota or a share */
    _Atomic uint64_t told_ms; /* when the log last said that it is over a quota; 0: never */
    /* What its connections hold. */
    _Atomic uint32_t connections;
    _Atomic uint32_t connections_max; /* 0: no quota; so below */
    _Atomic uint32_t bodies;
    _Atomic uint32_t bodies_max;
    _Atomic uint64_t body_bytes; /* of large bodies */
    _Atomic uint32_t streams;    /* replies without an end, which the service counts */
    /* Fixed. */
    uint64_t id;   /* a hash of the name and its kind: the same on all nodes */
    uint32_t hash; /* and one by the table's seed */
    bool is_local; /* this machine's own address: it may stand for many clients */
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

/* No record is referred to. */
void clients_free(struct clients *clients);

/* The record of an address, or of a token's name (1 to LIMIT_CLIENT_NAME_BYTES bytes; longer ones
 * are cut), with one reference more. The quotas of a name are taken over, also by a record that is
 * there. An address that is neither IPv4 nor IPv6 is "local". Never NULL. */
struct http_client *clients_of_address(struct clients *clients, const struct sockaddr *address);
struct http_client *clients_of_name(struct clients *clients, const char *name, size_t len,
                                    const struct client_quotas *quotas);

/* The id that the record of this name has, whether there is one or not. */
uint64_t client_id_of_name(const char *name, size_t len);

/* One reference more. */
void clients_hold(struct clients *clients, struct http_client *client);

/* Give a reference back. */
void clients_release(struct clients *clients, struct http_client *client);

/* What one loop tells in the log of clients that are over their quotas. */
struct client_lines {
    uint64_t second;    /* in which lines are counted, of the loop's clock */
    uint32_t in_second; /* lines in it */
    uint64_t more;      /* clients that would have had a line since the last one */
};

/* Is it time to tell that this client is over a quota? Once in CLIENT_TOLD_MS of each, and only
 * LIMIT_QUOTA_LINES_PER_S lines a second in all. *ret_more: how many were not told since the last
 * line; they count as told now. */
#define CLIENT_TOLD_MS 60000
bool client_tells(struct http_client *client, struct client_lines *lines, uint64_t now_ms,
                  uint64_t *ret_more);

/* Records that there are, idle ones too. */
size_t clients_count(struct clients *clients);

/* Charge so many requests or ids. 0: continue; else nothing was charged, and the client may come
 * again after so many seconds. What is charged may be more than is left: the debt is paid before
 * the next one. So a quota of 1,000 ids a second lets 100,000 through, and then nothing for 99 s. A
 * second's worth may be used at once. */
uint32_t client_charge(struct client_rate *rate, uint64_t amount, uint64_t now_ms);

/* --- refusals --- */

/* Why a client was refused, or its connection closed. */
enum meter_refusal {
    REFUSED_FULL,        /* too many connections */
    REFUSED_SHARE,       /* too many of this client, while there are few left */
    REFUSED_CONNECTIONS, /* the client's quota of them */
    REFUSED_LARGE,       /* a body of more bytes than its route takes */
    REFUSED_BODIES,      /* no room for a body */
    REFUSED_BODY_SHARE,  /* the client's bodies take its share of it */
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

/* What is answered. Those without a code are worded where they are refused. */
struct refusal_answer {
    const char *name; /* as metrics have it */
    int status;       /* 429: a quota */
    const char *code;
    const char *why;
};

/* Static. */
const struct refusal_answer *refusal_answer(enum meter_refusal refusal);

/* --- what a client takes of its replies --- */

/* What is known of one client's reading. `taken`: bytes that it took of all its replies. */
struct rate {
    uint64_t progress_ms; /* when it was last seen to have taken anything */
    uint64_t begin_ms;    /* of the time over which the rate is looked at */
    uint64_t begin_taken;
    uint64_t look_ms; /* of the last look */
    uint64_t look_taken;
};

enum rate_verdict { RATE_OK, RATE_STALLED, RATE_SLOW, RATE_SLOW_WHILE_SHORT };

void rate_begin(struct rate *rate, uint64_t taken, uint64_t now_ms);

/* The time from one look to the next. */
uint32_t rate_look_ms(const struct http_settings *settings);

/* By write_ms and min_rate_bytes (0: none) of the settings. waits: the client is to take something
 * (else it is we who are slow); held: bytes in memory for it; is_short: of output. */
enum rate_verdict rate_look(struct rate *rate, const struct http_settings *settings, uint64_t taken,
                            uint64_t now_ms, bool waits, uint64_t held, bool is_short);

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
    uint64_t body_step_ms;    /* when the body had got on by a step */
    uint64_t body_step_bytes; /* and how far it was */
    struct rate rate;
};

/* --- a loop's --- */

struct conn_meter {
    uint64_t bodies_max;
    uint64_t large_max;
    uint64_t client_max; /* of a client's large bodies, on all loops */
    uint64_t output_max;
    uint64_t input_max; /* and likewise of those that wait */
    uint64_t large_bytes;
    uint64_t work_bytes; /* done so far; what bounds a turn */
    struct metered_queue later;
    struct metered_queue no_room;
    struct metered_queue bodies; /* that are being received and kept, slowest first */
    struct metered_queue inputs; /* that keep input and wait for no answer, oldest first */
    /* The loop alone writes; any thread may read. */
    _Atomic uint64_t body_bytes;
    _Atomic uint64_t output_bytes;
    _Atomic uint64_t input_bytes;
    _Atomic uint64_t waiting_bytes;
};

/* settings->loops and those of bytes are set. */
void meter_init(struct conn_meter *meter, const struct http_settings *settings);

/* Nothing is counted, and nobody waits. */
bool meter_is_clear(const struct conn_meter *meter);

/* Its connection closes: take back what is counted for it, but for its body. */
void meter_end(struct conn_meter *meter, struct metered *metered);

/* --- turns --- */

/* Serve it in a later turn, after those before it had theirs; or, to no_room, once there is room.
 * No-op if it is put off already. */
void meter_put_off(struct metered *metered, struct metered_queue *queue);

/* It has its turn. It is put off. */
void meter_put_on(struct metered *metered);

/* --- output --- */

/* Is there room for the reply to another request? A client that took all of its replies, but for a
 * head at most, is served although others have not, up to a bound. */
bool meter_has_room(const struct conn_meter *meter, const struct wire *wire);

/* No connection is served that has not taken all of its replies. */
bool meter_output_is_full(const struct conn_meter *meter);

/* What is held for its replies has become another. */
void meter_output(struct conn_meter *meter, struct metered *metered, const struct wire *wire);

/* It will be full soon, if readers are slow: those that are have to be closed. */
bool meter_output_is_short(const struct conn_meter *meter);

/* --- input --- */

/* What it keeps of its input has become another, once it rests (wire_keep()). waits: its request
 * waits for the answer. True: too much is kept: by those that wait, of which this one took more;
 * else by all together, and meter->inputs says whose place is taken first. */
bool meter_input(struct conn_meter *meter, struct metered *metered, const struct wire *wire,
                 bool waits);

/* It keeps nothing any more. */
void meter_input_end(struct conn_meter *meter, struct metered *metered);

/* All together keep too much input. */
bool meter_input_is_over(const struct conn_meter *meter);

/* Its request got on: others are closed before it. */
void meter_input_step(struct conn_meter *meter, struct metered *metered);

/* --- bodies --- */

enum meter_body {
    METER_BODY_OK,
    METER_BODY_QUOTA, /* the client has as many as its quota allows */
    METER_BODY_SHARE, /* the client's large bodies take its share */
    METER_BODY_LARGE, /* all large bodies together take theirs */
    METER_BODY_ALL
};

/* Its body, of `client`, grows by so many bytes: take the room. */
enum meter_body meter_body(struct conn_meter *meter, struct metered *metered,
                           struct http_client *client, uint64_t more, uint64_t now_ms);

/* The body goes. No-op if there is none. */
void meter_body_free(struct conn_meter *meter, struct metered *metered, struct http_client *client);

/* The first after this one (NULL: of all) of the bodies that have come so slowly that their place
 * may be taken; NULL: none is left. */
struct metered *meter_slow_body(const struct conn_meter *meter, const struct metered *after,
                                uint64_t now_ms);

/* A body of so many bytes is a large one. */
bool meter_is_large(uint64_t body_bytes);

/*
 * --- latency: how long a loop's requests took, by class and by the first digit of their status;
 * and so, how many there were.
 *
 * What a class is, the service says (conn->traffic); 0 is that of requests that never got so far.
 * A request takes from when it was complete here until its reply was given to the socket, or, of a
 * large one, begun.
 *
 * The happy path: the first request of a turn reads the clock. What is answered in the same turn is
 * only counted, and noted with the time that the turn took, at its end, where the loop reads the
 * clock anyway. So a busy loop reads the clock twice a turn, however many requests there are in it.
 *
 * Exemplars: of each bucket of a histogram the last request in it that waited for something and
 * named its trace (`traceparent`). OpenMetrics shows it, so that a slow request in a graph can be
 * found. One that is being written just now is not seen.
 *
 * Failure modes: none. A connection that ends before its request is answered is not counted.
 *
 * Thread: the loop's; the histograms and exemplars: any may look.
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

/* Look at it, and take it if it is newer than what the view has. */
void exemplar_newer(struct exemplar_view *view, const struct exemplar *exemplar);

#define LATENCY_CLASSES 11
#define LATENCY_STATUSES 4 /* "2xx" to "5xx" */
#define LATENCY_KINDS (LATENCY_CLASSES * LATENCY_STATUSES)

struct latency {
    struct histogram took[LATENCY_CLASSES][LATENCY_STATUSES];
    struct exemplar exemplars[LATENCY_CLASSES][LATENCY_STATUSES][HISTOGRAM_BUCKETS];
    uint64_t turn_us;                 /* when this turn's first request was complete; 0: none yet */
    uint32_t answered[LATENCY_KINDS]; /* in this turn, of requests of this turn */
    uint8_t kinds[LATENCY_KINDS];     /* those of which there are some, */
    unsigned kind_count;              /* so many */
};

/* A request is complete: when it began, for latency_end(). */
uint64_t latency_begin(struct latency *latency);

/* It is answered with this status, 200..599. began_us: 0: it was never complete. How long it took,
 * if it waited beyond its turn: then it may have an exemplar, latency_exemplar(). Else 0. */
uint64_t latency_end(struct latency *latency, unsigned class, int status, uint64_t began_us);

/* Its trace. */
void latency_exemplar(struct latency *latency, unsigned class, int status, uint64_t took_us,
                      const char trace[HEADER_TRACE_BYTES], uint64_t wall_ms);

/* The turn is over at this time, in us, of uv_hrtime(); or what was answered in it so far is noted,
 * for who looks at the histograms. */
void latency_turn_end(struct latency *latency, uint64_t now_us);

/* How many requests of a class were answered so, status 0..LATENCY_STATUSES - 1. Any thread. */
uint64_t latency_count(const struct latency *latency, unsigned class, unsigned status);

#endif
