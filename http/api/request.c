/*
 * request.c - see request.h. Threads: the loop's, and the raft loop's for call_done_cb().
 */
#include "http/api/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hot.h"
#include "src/base/utf8.h"
#include "src/id/codec/command.h"
#include "src/id/codec/tag.h"

#define MESSAGE_BYTES 640
#define OPTIONS_MAX 6
#define NO_ANSWER "no answer from the cluster in time; a change may or may not have been made"

/* --- answering --- */

struct buf *reply_begin(struct conn *conn)
{
    struct buf *scratch = &conn->conns->scratch;

    scratch->len = 0;
    return scratch;
}

int reply_made(struct conn *conn, const char *type, const char *extra)
{
    const struct buf *body = &conn->conns->scratch;

    conn_answer(conn, 200, type, extra, body->data, body->len);
    return ANSWERED;
}

bool request_is_simple(const struct conn *conn)
{
    static const char simple[] = "Simple";
    const struct request *request = &conn->request;
    const char *end = conn_at(conn, request->name_at) + request->name_len;

    return request->name_len > strlen(simple) &&
           memcmp(end - strlen(simple), simple, strlen(simple)) == 0;
}

void reply_finish(struct conn *conn, int result)
{
    const struct buf *body = &conn->conns->scratch;

    if (result < 0) {
        reply_err(conn, result);
    } else if (result == 204) {
        conn_answer(conn, 204, NULL, NULL, NULL, 0);
    } else if (result != ANSWERED) {
        conn_answer(conn, result, ANSWER_JSON, NULL, body->data, body->len);
    }
}

int reply_error(struct conn *conn, int status, const char *code, const char *format, ...)
{
    const struct route *route = conn->request.route;
    char message[MESSAGE_BYTES];
    struct buf *json;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (route == NULL || !route->is_tinyid || conn->request.gate != 0) { /* it was not admitted */
        conn_fail(conn, status, code, NULL, "", message);
        return ANSWERED;
    }
    /* TinyID's answer to a failure; where it answers a bare text, that is empty. */
    json = reply_begin(conn);
    if (request_is_simple(conn)) {
        return reply_made(conn, ANSWER_TEXT, NULL);
    }
    buf_printf(json, "{\"data\":null,\"code\":%d,\"message\":", status == 403 ? 5 : 6);
    text_put_json(json, message, strlen(message));
    buf_put_u8(json, '}');
    return reply_made(conn, ANSWER_JSON, NULL);
}

int reply_fault(struct conn *conn, const struct body_fault *fault)
{
    return reply_error(conn, 400, fault->code, "%s", fault->message);
}

int reply_bad_tag(struct conn *conn, const char *name, size_t len, const char *why)
{
    char place[LOOKS_WHY_BYTES];

    return reply_error(conn, 400, "bad_tag", "bad tag %s: %s", TEXT_SHOWN(name, len, SHOWN_BYTES),
                       looks_hidden(name, len, place) ? place : why);
}

int reply_err(struct conn *conn, int err)
{
    static const struct {
        int status;
        const char *code; /* NULL: the error's own; so is the text */
        const char *text;
    } answers[] = {
        [-ERR_INVALID] = {.status = 400},
        [-ERR_UNKNOWN_TAG] = {.status = 404},
        [-ERR_WOULD_REPEAT] = {.status = 409},
        [-ERR_NEEDS_FORCE] = {.status = 409},
        [-ERR_EXHAUSTED] = {.status = 409},
        [-ERR_NOT_CONTIGUOUS] = {.status = 409},
        [-ERR_CONFLICT] = {.status = 409},
        [-ERR_NO_WORKER_ID] = {.status = 409},
        [-ERR_FENCED] = {.status = 409},
        [-ERR_TOO_LARGE] = {413, "body_too_large",
                            "the change is larger than one log entry may be"},
        [-ERR_PAUSED] = {.status = 423},
        [-ERR_NO_LEADER] = {.status = 503},
        [-ERR_NOT_LEADER] = {.status = 503},
        [-ERR_TIMEOUT] = {503, "timeout", NO_ANSWER},
        [-ERR_UNKNOWN_OUTCOME] = {503, "timeout", NO_ANSWER},
        [-ERR_NOMEM] = {.status = 503},
        [-ERR_OVERLOADED] = {.status = 503},
        [-ERR_SHUTTING_DOWN] = {.status = 503},
        [-ERR_DISK_FULL] = {.status = 503},
        [-ERR_DISABLED] = {.status = 503},
        [-ERR_CLOCK_BACKWARDS] = {.status = 503},
        [-ERR_CLOCK_SKEW] = {.status = 503},
        [-ERR_WINDOW_EXPIRED] = {.status = 503},
        [-ERR_EPOCH_EXHAUSTED] = {.status = 507},
        [-ERR_STATE_FULL] = {.status = 507},
    };
    size_t at = err < 0 ? (size_t)-err : 0;

    if (at >= COUNT_OF(answers) || answers[at].status == 0) {
        return reply_error(conn, 500, "internal_error", "the cluster answered %s: %s",
                           err_code(err), err_text(err));
    }
    conn->ending = err == ERR_TOO_LARGE ? CONN_CLOSES : conn->ending;
    err = err == ERR_NOT_LEADER ? ERR_NO_LEADER : err == ERR_NOMEM ? ERR_OVERLOADED : err;
    return reply_error(conn, answers[at].status,
                       answers[at].code != NULL ? answers[at].code : err_code(err), "%s",
                       answers[at].text != NULL ? answers[at].text : err_text(err));
}

/* --- options and body --- */

const char *const request_flags[] = {"0", "1", NULL};
const char *const request_consistencies[] = {"linearizable", "local", NULL};

/* Read the options of a text into the table. From a form only those that the query lacks; it may
 * have others. */
HOT static bool take_options(struct conn *conn, const char *text, size_t len, char *room,
                             struct param *options, size_t count, bool is_form)
{
    const struct route *route = conn->request.route;
    enum options_others others =
        is_form || route->is_leaf ? OPTIONS_OTHERS_IGNORED : OPTIONS_OTHERS_REFUSED;
    struct param form[OPTIONS_MAX];
    const struct param *found = options;
    struct body_fault fault;

    if (is_form) {
        ASSERT(count <= OPTIONS_MAX);
        found = memcpy(form, options, count * sizeof *options);
    }
    if (options_parse(text, len, others, is_form ? form : options, count, room, fault.message) !=
        0) {
        return is_form || reply_error(conn, 400, "bad_request", "%s", fault.message);
    }
    for (size_t i = 0; i < count; i++) {
        if (is_form && (options[i].present || !found[i].present)) {
            continue;
        }
        if (found[i].present && param_take(&options[i], found[i].text, found[i].len, &fault) != 0) {
            return reply_fault(conn, &fault);
        }
    }
    return true;
}

HOT bool request_options(struct conn *conn, struct param *options, size_t count)
{
    const struct request *request = &conn->request;

    return take_options(conn, conn_at(conn, request->query_at), request->query_len,
                        api_loop(conn)->options, options, count, false);
}

bool request_form(struct conn *conn, struct param *options, size_t count)
{
    static const char form[] = "application/x-www-form-urlencoded";
    const struct parser_field *type = &conn->parser.head.content_type;
    size_t used = conn->request.query_len; /* decoded values of the query are no longer than it */

    if (type->count != 1 || type->len < strlen(form) ||
        strncasecmp(conn_at(conn, type->at), form, strlen(form)) != 0 ||
        used + conn->body.len > sizeof api_loop(conn)->options) {
        return true;
    }
    return take_options(conn, (const char *)conn->body.data, conn->body.len,
                        api_loop(conn)->options + used, options, count, true);
}

bool request_body(struct conn *conn, const char *what, const char *empty, struct param *fields,
                  size_t count)
{
    struct api_loop *loop = api_loop(conn);
    bool is_empty = conn->body.len == 0;
    const char *text = is_empty ? empty : (const char *)conn->body.data;
    struct body_fault fault;

    json_decref(loop->fields);
    loop->fields = body_parse(text, 0, is_empty ? strlen(empty) : conn->body.len, &fault);
    return (loop->fields != NULL && body_fields(loop->fields, what, fields, count, &fault) == 0) ||
           reply_fault(conn, &fault);
}

/* --- the name in the path --- */

bool request_path_number(struct conn *conn, const char *what, uint64_t min, uint64_t max,
                         uint64_t *ret_value)
{
    const struct request *request = &conn->request;
    const char *raw = conn_at(conn, request->name_at);
    char text[LIMIT_TAG_NAME_BYTES];
    size_t len;

    if (target_decode(raw, request->name_len, TARGET_PLUS_IS_PLUS, text, sizeof text, &len) == 0 &&
        text_parse_decimal(text, len, min, max, ret_value) == 0) {
        return true;
    }
    return reply_error(conn, 400, "bad_request", "%s %s is not a whole number from %llu to %llu",
                       what, TEXT_SHOWN(raw, request->name_len, SHOWN_BYTES), ull(min), ull(max));
}

HOT bool request_tag_name(struct conn *conn, char *name, size_t *ret_len)
{
    const struct request *request = &conn->request;
    const char *raw = conn_at(conn, request->name_at);
    const char *why = "";
    int rv;

    rv = target_decode(raw, request->name_len, TARGET_PLUS_IS_PLUS, name, LIMIT_TAG_NAME_BYTES,
                       ret_len);
    if (rv != 0) {
        why = rv == ERR_INVALID ? "a % without two hex digits after it"
                                : "the name of a tag is longer than 128 bytes";
        return reply_bad_tag(conn, raw, request->name_len, why);
    }
    return tag_name_check(name, *ret_len, &why) == 0 || reply_bad_tag(conn, name, *ret_len, why);
}

/* --- asking the cluster --- */

#define KEPT_BYTES 1024

/* Each request for strict ids zeroes one. */
_Static_assert(sizeof(struct call) <= 2048, "rarely used large parts are allocated apart");

void call_free(struct call *call)
{
    buf_free(&call->request.payload);
    buf_free(&call->request.reply);
    if (call->next != NULL) {
        call_free(call->next);
    }
    if (call->request.kind == ID_REQUEST_SEGMENTS) {
        free(call->segments.items);
    } else if (call->request.kind == ID_REQUEST_BUFFERS) {
        for (size_t i = 0; i < call->buffers->count; i++) {
            free(call->buffers->nodes[i].page.items);
        }
        free(call->buffers);
    } else if (call->request.kind == ID_REQUEST_STATUS) {
        free(call->cluster);
    }
    free(call);
}

/* Keep the memory of a buffer for the next call, unless it is large. */
static struct buf buf_keep(struct buf *buf)
{
    if (buf->capacity > KEPT_BYTES) {
        buf_free(buf);
    }
    buf->len = 0;
    return *buf;
}

int call_status(const struct call *call)
{
    const struct buf *reply = &call->request.reply;
    int32_t status;

    return status_result_decode(reply->data, reply->len, &status) == 0 && status <= 0
               ? status
               : ERR_BAD_MESSAGE;
}

/* On the loop's thread: the answer has come. */
static void call_answered_cb(struct mailbox_item *item)
{
    struct call *call = CONTAINER(item, struct call, item);
    struct api_loop *loop = call->loop;

    if (call->wait.conn != NULL) {
        struct conn *conn = conn_resume(&call->wait);
        bool failed = call->request.status != 0 && !call->sees_errors;

        reply_finish(conn, failed ? call->request.status : call->finish(conn, call));
    } else if (call->gone != NULL) {
        call->gone(call);
    }
    if (call->request.kind != ID_REQUEST_STRICT || loop->kept_count >= LIMIT_HTTP_CALLS_KEPT) {
        call_free(call);
        return;
    }
    ASSERT(call->next == NULL);
    SLIST_INSERT_HEAD(&loop->kept, call, kept);
    loop->kept_count++;
}

/* On the raft loop's thread. After the post the call may be freed, so the port is held here. */
static void call_done_cb(struct cluster_request *request)
{
    struct call *call = CONTAINER(request, struct call, request);
    struct http_port *port = call->port;

    call->item.run = call_answered_cb;
    if (mailbox_post(&port->mailbox, &call->item, SIZE_MAX) != 0) {
        /* The loop has stopped; every connection is closed. */
        call_free(call);
    }
    http_port_unref(port);
}

/* The connection has closed, and the wait has dropped it: the answer will find that. */
static void call_cancelled(struct http_wait *wait)
{
    ASSERT(wait->conn == NULL);
}

static void call_begin(struct call *call, unsigned kind,
                       int (*finish)(struct conn *conn, struct call *call))
{
    call->request.kind = kind;
    call->request.done = call_done_cb;
    call->finish = finish;
    call->wait.cancel = call_cancelled;
}

/* --- refusals by what this node has applied --- */

/* This node has caught up: the handler may refuse now. */
static int caught_up_cb(struct conn *conn, struct call *call)
{
    (void)call;
    return ((const struct route *)conn->request.route)->handle(conn);
}

/* The leader has said up to which entry all may see. */
static int seen_until_cb(struct conn *conn, struct call *call)
{
    uint64_t now_ms = clock_now_ms(api_loop(conn)->backend->clock);
    uint64_t until_ms = call->request.deadline_ms;
    struct call *wait = call_new(CLUSTER_REQUEST_BARRIER, caught_up_cb);

    wait->request.local = true;
    wait->request.out = NULL;
    wait->request.index = call->request.index;
    return call_submit_for(conn, wait, until_ms > now_ms ? (uint32_t)(until_ms - now_ms) : 0);
}

bool request_looks_again(struct conn *conn)
{
    struct call *call;

    if (conn->request.is_current) {
        return false;
    }
    conn->request.is_current = true;
    call = call_new(CLUSTER_REQUEST_QUERY, seen_until_cb);
    query_pools_encode(&call->request.payload); /* any: its index counts */
    (void)call_submit(conn, call);
    return true;
}

struct call *call_new_strict(struct api_loop *loop,
                             int (*finish)(struct conn *conn, struct call *call))
{
    struct call *call = SLIST_FIRST(&loop->kept);
    struct buf payload;
    struct buf reply;

    if (call == NULL) {
        return call_new(ID_REQUEST_STRICT, finish);
    }
    SLIST_REMOVE_HEAD(&loop->kept, kept);
    loop->kept_count--;
    payload = buf_keep(&call->request.payload);
    reply = buf_keep(&call->request.reply);
    memset(call, 0, sizeof *call);
    call->request.payload = payload;
    call->request.reply = reply;
    call_begin(call, ID_REQUEST_STRICT, finish);
    return call;
}

struct call *call_new(unsigned kind, int (*finish)(struct conn *conn, struct call *call))
{
    struct call *call = MUST_HAVE(calloc(1, sizeof *call));

    call_begin(call, kind, finish);
    if (kind == ID_REQUEST_STATUS) {
        call->cluster = MUST_HAVE(calloc(1, sizeof *call->cluster));
        call->request.out = call->cluster;
    } else if (kind == ID_REQUEST_SEGMENTS) {
        call->request.out = &call->segments;
    } else if (kind == ID_REQUEST_BUFFERS) {
        call->buffers = MUST_HAVE(calloc(1, sizeof *call->buffers));
        call->request.out = call->buffers;
    } else if (kind == ID_REQUEST_BACKUP) {
        call->request.out = &call->backup;
    } else if (kind == CLUSTER_REQUEST_BARRIER) {
        call->request.out = &call->change.missing;
    }
    return call;
}

void call_submit_alone(struct api_loop *loop, struct call *call, uint32_t wait_ms)
{
    struct id_backend *backend = loop->backend;

    call->loop = loop;
    call->port = loop->port;
    http_port_ref(call->port);
    call->request.deadline_ms = clock_now_ms(backend->clock) + wait_ms;
    backend->ops->submit(backend, &call->request);
}

int call_submit_for(struct conn *conn, struct call *call, uint32_t wait_ms)
{
    conn_wait(conn, &call->wait, TIMER_NEVER);
    call_submit_alone(api_loop(conn), call, wait_ms);
    return ANSWERED;
}

int call_submit(struct conn *conn, struct call *call)
{
    return call_submit_for(conn, call, api_loop(conn)->api->settings->default_timeout_ms);
}
