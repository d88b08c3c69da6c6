/*
 * request.h - what handlers share: reading a request, asking the cluster, and answering.
 *
 * A handler returns the status of its reply, whose JSON it has put into reply_begin(); or an ERR_*,
 * which reply_err() answers; or ANSWERED, if it has replied itself or the request waits. A function
 * that reads input returns false when the input is wrong and the error is answered.
 *
 * The happy path of asking: call_new(), fill the payload, call_submit(): the connection waits. The
 * backend calls done on the raft loop, which posts to the loop's port; on the loop's thread
 * `finish` gives the reply, as a handler does.
 *
 * Failure modes: an error of the backend is answered as reply_err() does, unless the call sets
 * sees_errors. If the connection closes meanwhile, the answer is dropped when it arrives. If the
 * loop stops meanwhile, late answers are freed.
 *
 * Threads: the loop's; the backend's done from any.
 */
#ifndef LEAFD_HTTP_API_REQUEST_H
#define LEAFD_HTTP_API_REQUEST_H

#include "http/api/context.h"
#include "http/api/json.h"
#include "http/proto/head.h"
#include "http/server/conn.h"
#include "http/server/loop.h"
#include "src/base/container.h"
#include "src/id/backend/id_backend.h"
#include "src/id/codec/snowflake_layout.h"
#include "src/id/codec/worker.h"

#define ANSWERED 0

/* Room for a value in a message, by text_show(). */
#define SHOWN_BYTES 160

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

struct call;

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
    int done;          /* of a change of a worker id: the reply's status on success */
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

/* The same for strict ids, with the memory of a finished call if the loop has kept one. Allocating
 * a call, its payload, reply and post to the raft loop is a third of an HTTP loop's work for a
 * strict id. */
struct call *call_new_strict(struct api_loop *loop,
                             int (*finish)(struct conn *conn, struct call *call));

/* Free the calls that the loop has kept. Call at the loop's end. */
void call_free_kept(struct api_loop *loop);

/* Of a change whose answer is only a status: that status, or ERR_BAD_MESSAGE. */
int call_status(const struct call *call);

/* Free a call that was never submitted. */
void call_free(struct call *call);

/* Pass the call to the backend; the connection waits until finish, for the time in the settings.
 * Returns ANSWERED. */
int call_submit(struct conn *conn, struct call *call);

/* The same, for this time. */
int call_submit_for(struct conn *conn, struct call *call, uint32_t wait_ms);

/* Submit for no connection: the answer is dropped. */
void call_submit_alone(struct api_loop *loop, struct call *call);

#endif
