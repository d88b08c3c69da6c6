/*
 * context.h - what handlers use: the api, its part in each HTTP loop, the description of the
 * process; and a claim of ids under way: the request, the ids claimed so far, and the claims that
 * wait for more.
 *
 * A claim is normally on its handler's stack; one that asks the cluster is kept in a struct call.
 * Functions on claims: ids.h.
 *
 * Claims that wait for snowflake ids, which only time brings, have no tag (NULL). Each waits for
 * the clock of its own layout; the steps of these clocks differ.
 *
 * Thread: a loop's part and its claims belong to its thread, except the counts, which any thread
 * may read. The description of the process is constant, except the counters of reloads.
 */
#ifndef LEAFD_HTTP_API_CONTEXT_H
#define LEAFD_HTTP_API_CONTEXT_H

#include <bsd/sys/tree.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/auth/tokens.h"
#include "http/server/conn.h"
#include "http/server/loop.h"
#include "src/base/crypto.h"
#include "src/base/limits.h"
#include "src/base/prng.h"
#include "src/base/zone.h"
#include "src/id/alloc/id_table.h"
#include "src/id/alloc/segment.h"
#include "src/id/backend/id_backend.h"
#include "src/id/codec/shape.h"
#include "src/id/codec/snowflake_layout.h"

/* --- a claim --- */

#define ID_TEXT_BYTES_MAX SHAPE_ID_BYTES_MAX
_Static_assert(LONG_ID_BYTES_MAX <= ID_TEXT_BYTES_MAX, "the longest of both");

/* How ids that are not consecutive decimal numbers are written: those of a tag with a shape
 * (src/id/codec/shape.h), snowflake ids of 128 bits (src/id/codec/snowflake_layout.h), or those of
 * a layout whose worker id is last (src/id/codec/snowflake_layout.h). All zero: decimal numbers. */
struct id_text {
    enum id_form form;
    const struct shape *shape; /* of the tag, kept by the table; NULL: none */
    /* The layout whose plain forms the ranges have; valid as long as the backend. NULL: none. */
    const struct named_layout *layout;
};

static inline bool id_text_is_number(const struct id_text *text)
{
    return text->form == ID_FORM_NUMBER && text->shape == NULL && text->layout == NULL;
}

/* ID_FORMAT_OTHER: of another protocol, by id_claim.answer. */
enum id_format { ID_FORMAT_TEXT, ID_FORMAT_RANGE, ID_FORMAT_JSON, ID_FORMAT_OTHER };

/* Where ids come from. */
enum id_source {
    ID_SOURCE_SEGMENT,
    ID_SOURCE_CLOCK,  /* snowflake ids; the claim's name is the key that was given */
    ID_SOURCE_LOG,    /* strict ids, and monotonic ones until their answer */
    ID_SOURCE_LEADER, /* monotonic ids */
    ID_SOURCES
};

struct id_claim {
    enum id_source source;
    uint32_t count; /* asked for */
    uint32_t left;  /* not claimed yet */
    bool counted;   /* count= was given: lines instead of the bare number */
    bool contiguous;
    bool by_step;     /* as many as the tag's step, looked up with the tag */
    bool stepped;     /* the client reads ranges with an increment */
    bool consecutive; /* only consecutive numbers answer it */
    bool plain;       /* the path has the name unencoded */
    bool opened;      /* the cluster was asked about the tag once */
    bool judged;      /* by the leader's row, as too few seemed left */
    bool reopened;    /* neither log nor leader has ids of it after all: the cluster was asked */
    bool keyed;       /* came with an Idempotency-Key: only a strict tag can serve it */
    enum id_format format;
    struct id_text text;         /* ids that are no numbers: only ID_FORMAT_TEXT */
    bool number;                 /* as=number: whatever shape the tag has */
    struct layout_words *layout; /* of snowflake ids: the named one; NULL: the cluster's own */
    int (*answer)(struct conn *conn, const struct id_claim *claim); /* returns ANSWERED */
    uint32_t timeout_ms;
    uint64_t deadline_ms; /* on the loop's clock */
    uint16_t name_len;
    uint32_t range_count;
    uint32_t generation; /* of the tag: the oldest under which an id was granted */
    char name[LIMIT_TAG_NAME_BYTES];
    struct segment_range ranges[LIMIT_RANGES_PER_REPLY];
};

/* --- ids as text (id_text.c) --- */

struct api_loop;

/* The text of one id; its bytes, at most ID_TEXT_BYTES_MAX. */
size_t id_text_put(struct api_loop *loop, const struct id_text *text, uint64_t id, char *at);

/* The number of lines made at once. */
uint32_t id_text_lines(const struct id_text *text);

/* Append the body of the answer to a claim of several ids, or in another format than text. */
void id_claim_put(const struct id_claim *claim, struct buf *buf);

/* Append the ids of a range. Returns the size of the appended part of the answer: bytes over HTTP,
 * elements over RESP. */
typedef uint64_t id_parts_put(struct conn *conn, const struct id_text *text,
                              const struct segment_range *range, struct buf *out);

/* Answer with the ids of a claim, part by part. type, extra, len: of conn_answer_parts(); len is
 * what `put` returns of all. Returns ANSWERED. */
int id_text_answer_parts(struct conn *conn, const struct id_claim *claim, const char *type,
                         const char *extra, uint64_t len, uint32_t per_part, id_parts_put *put);

/* Answer a claim of several ids, or of one that is no number. As ids_answer(), which answers with a
 * bare number itself. */
int id_text_answer(struct conn *conn, const struct id_claim *claim, const char *extra);

/* --- those that wait --- */

/* Made when a claim parks; freed when it is answered or its connection closes. */
struct waiter {
    struct http_wait wait;
    struct api_loop *loop;
    RB_ENTRY(waiter) link;
    struct id_tag *tag; /* NULL: it waits for the clock alone */
    const void *clock;  /* of a claim without a tag: its clock; set before parking, usually NULL */
    uint64_t seq;       /* order of arrival on this loop */
    uint64_t demand;    /* its part of tag->demand */
    bool parked;
    struct id_claim claim;
};

RB_HEAD(waiter_tree, waiter);

/* All zeros: none waits. */
struct waiters {
    struct waiter_tree tree;
    _Atomic size_t count; /* read by any thread */
    uint64_t next_seq;
};

/* --- the process, the api, and its loops --- */

/* How often the process reread its settings (SIGHUP): main writes, any thread reads. */
struct http_reloads {
    _Atomic uint64_t done;
    _Atomic uint64_t refused;
    _Atomic uint64_t done_ms; /* wall time of the last that succeeded; 0: none yet */
};

static inline void http_reloads_add(_Atomic uint64_t *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

static inline void http_reloads_set(_Atomic uint64_t *value, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_relaxed);
}

struct http_build {
    const char *version;
    const char *commit;                 /* "" if unknown */
    const char *libraries;              /* JSON object text of library versions */
    const struct http_reloads *reloads; /* NULL: no settings to reread */
};

/* The class that requests count as, for their latency (http/server/meter.h). */
enum traffic {
    TRAFFIC_OTHER, /* of no route, or never complete */
    TRAFFIC_SEGMENT,
    TRAFFIC_STRICT,
    TRAFFIC_SNOWFLAKE,
    TRAFFIC_DECODE,
    TRAFFIC_READ, /* by the role of their route, from here on */
    TRAFFIC_TAGS,
    TRAFFIC_WORKERS,
    TRAFFIC_ADMIN,
    TRAFFIC_RESP,  /* without an HTTP counterpart: PING, HELLO ... */
    TRAFFIC_PROBE, /* health and metrics: not among the requests */
    TRAFFIC_CLASSES
};
_Static_assert(TRAFFIC_CLASSES == LATENCY_CLASSES, "each has a place");

struct watch;

LIST_HEAD(live_viewers, live_viewer);

/* The viewers (status.c) of a loop. */
struct live {
    struct live_viewers viewers;
    _Atomic uint32_t count; /* of these; any thread may read */
};

/* The loop alone writes; any thread may read. */
struct api_counts {
    _Atomic uint64_t ids[ID_SOURCES]; /* handed out */
    _Atomic uint64_t burnt_skipped;   /* see enum id_burn_cause */
    _Atomic uint64_t burnt_unanswered;
};

SLIST_HEAD(call_list, call);

struct api_loop {
    struct api *api;
    struct id_backend *backend;
    struct conns *conns;
    struct http_port *port;
    unsigned index;
    struct api_counts counts;
    struct live live;
    struct waiters waiters;       /* requests that wait for ids */
    struct call_list kept;        /* finished calls of strict ids (request.h) */
    unsigned kept_count;          /* <= LIMIT_HTTP_CALLS_KEPT */
    struct timer snowflake_retry; /* armed while a claim waits for the clock */
    struct prng prng;
    struct entropy entropy;     /* for ids that have random bits */
    struct zones *zones;        /* for dates in shapes */
    struct ff1 *ff1;            /* for secret shapes; keyed anew for each reply (ids.h) */
    unsigned listeners;         /* bits of enum api_listener served here */
    struct token_table *tokens; /* NULL: the api has no auth */
    uint64_t tokens_generation;
    struct client_cuts cuts;               /* as this loop last read them */
    char options[LIMIT_HTTP_TARGET_BYTES]; /* decoded, of the request whose handler runs */
    json_t *fields;                        /* of its body; or of an earlier one, or NULL */
};

/* A separate server, with separate routes. */
enum api_listener { LISTENER_IDS = 1, LISTENER_ADMIN = 2 };

/* The loops of one server. */
struct api_server {
    struct http_service service;
    struct api *api;
    unsigned listeners;   /* bits of enum api_listener; 0: it was not opened */
    unsigned first_index; /* of its loops, among all */
};

struct api {
    struct api_server ids; /* or both listeners in one */
    struct api_server admin;
    const char *http_address; /* for messages, if there are two */
    const char *admin_address;
    struct auth *auth; /* NULL: every client may do everything */
    struct id_waker waker;
    struct watch *watch; /* owned */
    struct buf page_html;
    struct buf page_headers; /* lines with their CRLF, ended by a NUL */
    const struct http_settings *settings;
    const struct http_build *build;
    struct id_backend *backend;
    _Atomic unsigned loop_count; /* rises when a listener is opened: the others' threads may run */
    struct api_loop *loops[LIMIT_HTTP_LOOPS + LIMIT_HTTP_ADMIN_LOOPS];
};

static inline struct api_loop *api_loop(const struct conn *conn)
{
    return conn->conns->data;
}

#endif
