/*
 * request.h - what handlers share: the api and its part in each HTTP loop, the routes, who may use
 * them, claims of ids; reading a request, asking the cluster, and answering.
 *
 * A claim of ids under way (functions: ids.h) is normally on its handler's stack; one that asks the
 * cluster is kept in a struct call. Claims of snowflake ids, which only time brings, have no tag
 * (NULL). Each waits for the clock of its own layout; the steps of these clocks differ.
 *
 * A handler is called when its request is complete. It returns the status of its reply, whose JSON
 * it has put into reply_begin(); or an ERR_*, which reply_err() answers; or ANSWERED, if it has
 * replied itself or the request waits. A function that reads input returns false when the input is
 * wrong and the error is answered.
 *
 * The happy path of asking: call_new(), fill the payload, call_submit(): the connection waits. The
 * backend calls done on the raft loop, which posts to the loop's port; on the loop's thread
 * `finish` gives the reply, as a handler does.
 *
 * Failure modes: an error of the backend is answered as reply_err() does, unless the call sets
 * sees_errors. If the connection closes meanwhile, the answer is dropped when it arrives; if the
 * loop stops, late answers are freed.
 *
 * Threads: a loop's part, its claims and its handlers belong to its thread, except the counts,
 * which any thread may read; the backend's done: any. Routes and the description of the process are
 * constant, except the counters of reloads.
 */
#ifndef LEAFD_HTTP_API_REQUEST_H
#define LEAFD_HTTP_API_REQUEST_H

#include <bsd/sys/tree.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/api/json.h"
#include "http/auth/tokens.h"
#include "http/server/conn.h"
#include "http/server/loop.h"
#include "src/base/container.h"
#include "src/base/limits.h"
#include "src/base/prng.h"
#include "src/id/alloc/id_table.h"
#include "src/id/alloc/segment.h"
#include "src/id/backend/id_backend.h"
#include "src/id/codec/shape.h"
#include "src/id/codec/snowflake_layout.h"
#include "src/id/codec/worker.h"

/* --- a claim --- */

#define ID_TEXT_BYTES_MAX SHAPE_ID_BYTES_MAX
_Static_assert(LONG_ID_BYTES_MAX <= ID_TEXT_BYTES_MAX, "the longest of both");

/* How the ids of a claim are written (src/id/codec/shape.h, snowflake_layout.h). All zero: as
 * decimal numbers. */
struct id_text {
    enum {
        ID_TEXT_NUMBER,
        ID_TEXT_SHAPE,  /* by a tag's shape */
        ID_TEXT_LONG,   /* snowflake ids of 128 bits: `form` */
        ID_TEXT_LAYOUT, /* of a layout whose worker id is last: numbers that do not follow */
    } kind;
    union {
        enum id_form form;
        const struct shape *shape; /* kept by the table */
        /* Whose plain forms the ranges have; valid as long as the backend. */
        const struct named_layout *layout;
    };
};

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
    bool opened;      /* the cluster was asked about the tag once */
    bool judged;      /* by the leader's row, as the tag seemed deleted, or too few left */
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

/* The text of one id; its bytes, at most ID_TEXT_BYTES_MAX. rekey: the id before was of another
 * reply, or of another key of the shape. */
size_t id_text_put(struct api_loop *loop, const struct id_text *text, uint64_t id, bool rekey,
                   char *at);

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

/* Answer a claim whose deadline has come. Returns ANSWERED. */
typedef int claim_late(struct conn *conn, struct id_claim *claim, struct id_tag *tag);

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
    claim_late *late;
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
    _Atomic uint64_t done_ms;      /* wall time of the last that succeeded; 0: none yet */
    _Atomic uint64_t peer_until_s; /* end of the certificate for other nodes, Unix time; 0: none */
};

struct http_build {
    const char *version;
    const char *commit;    /* "" if unknown */
    const char *libraries; /* JSON object text of library versions */
    const struct http_reloads *reloads;
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
    struct entropy entropy; /* for ids that have random bits */
    struct zones *zones;    /* for dates in shapes */
    struct ff1 *ff1;        /* for secret shapes; keyed anew for each reply (ids.h) */
    unsigned listeners;     /* bits of enum api_listener served here */
    struct token_table *tokens;
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
    unsigned listeners;   /* bits of enum api_listener */
    unsigned first_index; /* of its loops, among all */
};

struct api {
    struct api_server ids; /* or both listeners in one */
    struct api_server admin;
    const char *admin_address; /* for messages; NULL: there is one listener */
    struct auth *auth;
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

/* --- routes --- */

/* A change of the cluster, or a look at its level (cluster.c). */
enum cluster_ask {
    ASK_ADD,
    ASK_REMOVE,
    ASK_MOVE,
    ASK_LEAD,
    ASK_LEVEL_SEE,
    ASK_LEVEL,
    ASK_DRAIN,
    ASK_RESUME,
    ASK_WEIGHT
};

struct route {
    const char *path;   /* whole path, or its beginning when takes_name */
    unsigned methods;   /* bits of enum method */
    const char *tail;   /* what follows the name, which is a '*' in the path; NULL: nothing */
    bool takes_name;    /* one more non-empty path segment follows: the name, still encoded */
    bool takes_options; /* the handler reads the query; else none is allowed */
    bool names_tag;     /* the name is a tag's */
    bool is_leaf;       /* also Leaf's; takes extra slashes, unknown options, bodies of any type */
    bool is_tinyid;     /* TinyID's route, with its errors; the handler reads its token */
    bool audited;       /* it changes state, or shows everything */
    bool takes;         /* a GET of it takes ids, a place, or room: no page may cause it */
    unsigned listeners; /* bits of enum api_listener: where it is served */
    enum role role;     /* which clients may use it, */
    unsigned also;      /* and which others: bits of enum role */
    uint8_t traffic;    /* enum traffic: the class of its requests */
    bool takes_body;    /* bodies are kept for the handler; else read and dropped */
    bool is_long;       /* its reply takes long to make: one a turn of the loop */
    bool is_bulk;       /* bodies up to LIMIT_HTTP_BODY_BYTES; else the small limit holds */
    enum cluster_ask asks; /* of handle_cluster_ask() */
    int (*handle)(struct conn *conn);
};

/* --- what serves each route --- */

/* ids.c */
int handle_segment_get(struct conn *conn);

/* tinyid.c */
int handle_tinyid(struct conn *conn);

/* Let parked requests of a tag try again, oldest first. */
void segment_wake(struct api_loop *loop, struct id_tag *tag);

/* snowflake.c */
int handle_snowflake_get(struct conn *conn);

/* Let parked snowflake requests try again, oldest first: when loop->snowflake_retry fires. */
void snowflake_retry_fire(struct timer *timer, uint64_t now_ms);

int handle_segment_decode(struct conn *conn);
int handle_snowflake_decode(struct conn *conn);
int handle_snowflake_at(struct conn *conn);
int handle_leaf_decode(struct conn *conn);
int handle_layout_get(struct conn *conn);
int handle_layout_put(struct conn *conn);
int handle_layout_delete(struct conn *conn);
int handle_layouts_list(struct conn *conn);

/* workers.c */
int handle_worker_acquire(struct conn *conn);
int handle_worker_renew(struct conn *conn);
int handle_worker_release(struct conn *conn);
int handle_workers_list(struct conn *conn);
int handle_pools_get(struct conn *conn);
int handle_pools_put(struct conn *conn);

/* tags.c */
int handle_tag_get(struct conn *conn);
int handle_tag_put(struct conn *conn);
int handle_tag_delete(struct conn *conn);
int handle_tags_put(struct conn *conn);
int handle_tags_list(struct conn *conn);

/* Make a tag whose next id is max_id, for a request that is no PUT; audited. For an existing tag
 * TAG_DEFAULT_MAX_ID changes nothing, and another max_id acts as in a PUT: it may skip ids. The
 * client must have the role. finish calls tag_made(). Returns as a handler does. */
int tag_make(struct conn *conn, const char *name, size_t len, uint64_t max_id,
             int (*finish)(struct conn *conn, struct call *call));

/* True: the tag was made, or existed. False: the handler must return *ret_status. */
bool tag_made(struct conn *conn, const struct call *call, bool *ret_made, int *ret_status);

/* cluster.c */
int handle_cuts_list(struct conn *conn);
int handle_cut_put(struct conn *conn);
int handle_cut_end(struct conn *conn);
int handle_backup(struct conn *conn);
int handle_node_segments(struct conn *conn);
int handle_cluster_segments(struct conn *conn);
int handle_cluster_ask(struct conn *conn);

/* status.c */
struct watch *watch_new(const struct id_backend *backend);
void watch_free(struct watch *watch);

/* From now on, look at the node once a second: alarms, events, viewers. Call after the servers were
 * started. Main thread. */
void api_watch(struct api *api);

/* The loop ends: no more looks. Its thread has ended. */
void watch_loop_ends(struct api_loop *loop);

/* The number of viewers. */
unsigned live_viewers(const struct api *api);

/* Send all viewers these bytes, which are whole events. Takes them over. */
void live_show(struct api *api, struct buf *bytes);

int handle_cluster(struct conn *conn);
int handle_status(struct conn *conn);
int handle_events(struct conn *conn);
int handle_live(struct conn *conn);
int handle_livez(struct conn *conn);
int handle_nodes(struct conn *conn);
int handle_readyz(struct conn *conn);
int handle_version(struct conn *conn);

/* api.c */
int handle_page(struct conn *conn);
int handle_openapi(struct conn *conn);

/* openapi.json beside this file, which describes all routes, without a NUL at its end.
 * tests/test_api.c holds it against the table of routes, cluster-tests/test_openapi.py against what
 * a node answers. */
const char *openapi_text(size_t *ret_len);

/* audited.c */
int handle_audit(struct conn *conn);

/* metrics.c */
int handle_metrics(struct conn *conn);

#define ANSWERED 0

/* Room for a value in a message, by text_show(). */
#define SHOWN_BYTES 160

/*
 * --- the gate: is a request allowed, at this listener, from this client?
 *
 * gate_admit() judges a head once, when it is read, and keeps the verdict with the request; a head
 * that repeats it has the same verdict. The path of an id costs two loads: the verdict, and whether
 * the tokens were reread (gate_look()): then the loop judges all its connections anew. A head that
 * met a cut is judged each time, since the cut ends by itself. Every refusal is answered by deny()
 * (audited.h).
 */

/* The client's identity of a protocol other than HTTP, for a whole connection, whose data of that
 * protocol begins with it (conn->caller; in HTTP NULL: each request names its client). */
struct caller {
    bool has_token;
    struct token_hash token; /* looked up again after the tokens were reread */
};

/* conn->request.gate */
enum gate {
    GATE_OPEN,
    GATE_OTHER_LISTENER,
    GATE_MISDIRECTED,
    GATE_FOREIGN,
    GATE_TYPE,
    GATE_TWO_TOKENS,
    GATE_NO_BEARER, /* Authorization is of another scheme */
    GATE_UNKNOWN,   /* no such token */
    GATE_NO_TOKEN,  /* and the role needs one */
    GATE_ROLE,
    GATE_TAG,
    GATE_CUT
};

/* Judge a head that has this route. */
void gate_admit(struct conn *conn, const struct route *route);

/* The tokens were reread since this loop looked: take them, and judge the present request anew. */
COLD void gate_renew(struct conn *conn);

/* The same, if the tokens were reread. */
static inline void gate_look(struct conn *conn)
{
    const struct api_loop *loop = conn->conns->data;
    const struct auth *auth = loop->api->auth;

    if (atomic_load_explicit(&auth->generation, memory_order_acquire) != loop->tokens_generation) {
        gate_renew(conn);
    }
}

/* May a long-running request continue under the tokens in force? */
bool gate_stays_open(struct conn *conn);

/* The cluster's time, as this node knows it: Unix milliseconds. */
uint64_t gate_now_ms(const struct api_loop *loop);

/* Does a cut hit the client, on a route other than health? Then the gate is set to say so. */
bool gate_cuts(struct conn *conn);

/* All of the loop's connections are judged anew. */
COLD void gate_forget(struct api_loop *loop);

/* The client's identity, by the tokens in force; never NULL. */
const struct identity *gate_identity(struct conn *conn);

/* Does the client have this role, beyond the one its route requires? */
bool gate_may(struct conn *conn, enum role role);

/* May a client that shows this token as an option (NULL: none) take ids of the tag? Where there are
 * tokens, this one identifies the client until the next request. */
bool gate_may_take(struct conn *conn, const char *token, size_t token_len, const char *tag,
                   size_t tag_len);

/* --- answering --- */

/* An empty buffer for a reply's JSON. Valid until the next request, or the next error, is
 * answered. */
struct buf *reply_begin(struct conn *conn);

/* Answer 200 with the content of that buffer, and more header lines (NULL: none). Returns
 * ANSWERED. */
int reply_made(struct conn *conn, const char *type, const char *extra);

/* Does the requested TinyID path end in "Simple"? Then the answer is a bare text. */
bool request_is_simple(const struct conn *conn);

/* Answer as a handler's result says. */
void reply_finish(struct conn *conn, int result);

/* Answer with an error. The message is printf-like; show values by text_show(). Returns
 * ANSWERED. */
COLD int reply_error(struct conn *conn, int status, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The answer for an error of the backend that is not particular to a route. Returns ANSWERED. */
COLD int reply_err(struct conn *conn, int err);

/* 400: not a valid name of a tag. Returns ANSWERED. */
COLD int reply_bad_tag(struct conn *conn, const char *name, size_t len, const char *why);

/* 400. Returns ANSWERED. */
COLD int reply_fault(struct conn *conn, const struct body_fault *fault);

/* --- reading --- */

#define OPTION_FLAG(name_)                                                                         \
    {                                                                                              \
        .name = (name_), .kind = PARAM_WORD, .words = request_flags, .rule = "is neither 1 nor 0"  \
    }
extern const char *const request_flags[];

/* `number` is 1 for this node's state, however old. */
#define OPTION_CONSISTENCY                                                                         \
    {                                                                                              \
        .name = "consistency", .kind = PARAM_WORD, .words = request_consistencies,                 \
        .rule = "is not linearizable or local"                                                     \
    }
extern const char *const request_consistencies[];

#define OPTION_TIMEOUT(conn)                                                                       \
    {                                                                                              \
        .name = "timeout_ms", .max = LIMIT_TIMEOUT_MS,                                             \
        .number = api_loop(conn)->api->settings->default_timeout_ms                                \
    }

/* The options of routes that list things by name; they come first. */
#define PAGE_OPTIONS                                                                               \
    {.name = "prefix", .kind = PARAM_TEXT, .max = LIMIT_TAG_NAME_BYTES},                           \
        {.name = "after", .kind = PARAM_TEXT, .max = LIMIT_TAG_NAME_BYTES},                        \
    {                                                                                              \
        .name = "limit", .min = 1, .max = LIMIT_TAGS_PER_PAGE, .number = PAGE_LIMIT_DEFAULT        \
    }
#define PAGE_LIMIT_DEFAULT 100

/* Read the query's options into the table. Texts are valid until the handler returns. */
bool request_options(struct conn *conn, struct param *options, size_t count);

/* Read the options that the query did not have from the body, if it is a form; its other fields are
 * ignored. */
bool request_form(struct conn *conn, struct param *options, size_t count);

/* Read the body's fields into the table; `empty` replaces an empty body. Texts are valid until the
 * handler returns. */
bool request_body(struct conn *conn, const char *what, const char *empty, struct param *fields,
                  size_t count);

/* Read the whole number in the path; what: its name for the message. */
bool request_path_number(struct conn *conn, const char *what, uint64_t min, uint64_t max,
                         uint64_t *ret_value);

/* Read the tag's name in the path, decoded and checked, into name (LIMIT_TAG_NAME_BYTES). */
bool request_tag_name(struct conn *conn, char *name, size_t *ret_len);

/* --- asking the cluster --- */

/* A change of tags: how long it may take, and whether it waits for all nodes. */
struct change_wait {
    bool all;
    bool bulk; /* of several tags: shown as counts */
    uint32_t timeout_ms;
    uint64_t until_ms; /* on the loop's clock */
};

/* A look at one of the tags that a change puts, before it is made (audited.h). */
struct call_looking {
    struct command_list items; /* of the change, from this one on */
    uint32_t at;               /* its number */
};

struct call {
    struct http_wait wait;
    struct cluster_request request;
    struct mailbox_item item;
    SLIST_ENTRY(call) kept; /* by its loop, after its end */
    struct api_loop *loop;
    struct http_port *port;
    int (*finish)(struct conn *conn, struct call *call);
    /* The answer came after the connection closed. NULL: nothing to do. */
    void (*gone)(struct call *call);
    struct call *next; /* submitted after it; owned until then. NULL: none */
    uint32_t wait_ms;  /* of such a one: for its answer */
    bool sees_errors;  /* finish is called for every status, else for 0 */
    int done; /* of a change of a worker id: the reply's status on success; of a backup: 1: begun */
    const struct layout_words *named; /* of an acquire: the named layout; NULL: none */
    union {
        struct id_claim claim;      /* of a request for ids */
        struct worker_renew worker; /* of a change of a worker id, as far as it applies */
        /* of a change of the members; of the level: the level, or 0: it is only read */
        uint64_t member_id;
        struct layout_row layout; /* of a change of a named layout */
        uint32_t list_limit;      /* of a list of worker ids */
        struct client_cut cut;    /* of a change of a cut */
        struct {
            uint16_t len;
            char text[SHAPE_ID_BYTES_MAX];
        } decode; /* of the text of an id */
        struct call_looking looking;
        struct id_cluster_status *cluster; /* out of ID_REQUEST_STATUS; far larger than the rest */
        struct id_segments_page segments;  /* out of ID_REQUEST_SEGMENTS */
        struct id_buffers *buffers;        /* out of ID_REQUEST_BUFFERS */
        struct id_backup backup;           /* in and out of ID_REQUEST_BACKUP */
        struct {
            struct change_wait wait; /* of a change of tags, and of CLUSTER_REQUEST_BARRIER */
            struct missing_members missing; /* out of the latter */
        } change;
        struct {
            struct change_wait wait; /* of the change that is being read, as requested */
            struct tag_bulk bulk;    /* borrows the connection's body */
        } reading;
    };
} BY_NAME;

/* A call whose finish is called on the loop's thread unless the connection closes. */
struct call *call_new(unsigned kind, int (*finish)(struct conn *conn, struct call *call));

/* The same for strict ids, with the memory of a finished call if the loop has kept one: to allocate
 * one is a third of an HTTP loop's work for a strict id. */
struct call *call_new_strict(struct api_loop *loop,
                             int (*finish)(struct conn *conn, struct call *call));

/* Of a change whose answer is only a status: that status, or ERR_BAD_MESSAGE. */
int call_status(const struct call *call);

/* Free a call that was never submitted. */
void call_free(struct call *call);

/* The handler is about to refuse a request by what this node has applied, which may be older than
 * what was acknowledged elsewhere. True: the handler runs again, from its beginning, once this node
 * has applied what was acknowledged before now; if it has not in the time of the settings, the
 * request fails (ERR_TIMEOUT, ERR_NO_LEADER). False: that was done: refuse. */
bool request_looks_again(struct conn *conn);

/* Pass the call to the backend; the connection waits until finish, for the time in the settings.
 * Returns ANSWERED. */
int call_submit(struct conn *conn, struct call *call);

/* The same, for this time. */
int call_submit_for(struct conn *conn, struct call *call, uint32_t wait_ms);

/* The same for no connection: `gone` gets the answer. */
void call_submit_alone(struct api_loop *loop, struct call *call, uint32_t wait_ms);

#endif
