/*
 * audited.c - see audited.h. Thread: the loop's.
 */
#include "http/api/audited.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/gate.h"
#include "http/api/request.h"
#include "http/api/route.h"
#include "http/api/tag_json.h"
#include "src/base/assert.h"
#include "src/base/log.h"

#define BEFORE_WAIT_MS 500
#define WHAT_BYTES 200 /* of each text that a client chose, in an entry */
#define VALUE_BYTES 400
#define PEER_BYTES 64

/* What is known of a request before it is answered. */
struct note {
    char who[LIMIT_TOKEN_NAME_BYTES + 1];
    const char *by; /* static */
    char address[PEER_BYTES];
    char what[WHAT_BYTES + 16]; /* method and target, cut */
    char asked[VALUE_BYTES];    /* the body, cut */
    size_t asked_len;
    char before[VALUE_BYTES]; /* JSON; "": not known, or nothing */
    size_t before_len;
    bool force;
    bool begun; /* the handler has run */
};

/* --- who, from where, what --- */

static void put_address(const struct conn *conn, char out[PEER_BYTES])
{
    struct sockaddr_storage peer = {0};
    socklen_t len = sizeof peer;
    char host[INET6_ADDRSTRLEN] = "";

    (void)snprintf(out, PEER_BYTES, "unknown");
    if (getpeername(conn->fd, (struct sockaddr *)&peer, &len) != 0) {
        return;
    }
    if (peer.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&peer;

        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        (void)snprintf(out, PEER_BYTES, "%s:%u", host, ntohs(in->sin_port));
    } else if (peer.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&peer;

        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        (void)snprintf(out, PEER_BYTES, "[%s]:%u", host, ntohs(in6->sin6_port));
    }
}

static const char *method_name(enum method method)
{
    static const char *const names[] = {
        [METHOD_GET] = "GET", [METHOD_HEAD] = "HEAD",     [METHOD_POST] = "POST",
        [METHOD_PUT] = "PUT", [METHOD_DELETE] = "DELETE", [METHOD_OTHER] = "OTHER"};

    return names[method];
}

/* Is force=1 among the options, however it is written? */
static bool is_forced(const struct conn *conn)
{
    const struct request *request = &conn->request;
    char *space = api_loop(conn)->options;
    size_t len = 0;

    if (request->query_len == 0 ||
        target_decode(conn_at(conn, request->query_at), request->query_len, TARGET_PLUS_IS_SPACE,
                      space, LIMIT_HTTP_TARGET_BYTES, &len) != 0) {
        return false;
    }
    return memmem(space, len, "force=1", strlen("force=1")) != NULL;
}

static void note_make(struct conn *conn, struct note *note)
{
    static const char *const kinds[] = {[IDENTITY_ANONYMOUS] = "nothing",
                                        [IDENTITY_TOKEN] = "token",
                                        [IDENTITY_CERTIFICATE] = "certificate"};
    const struct parser_head *head = conn_head(conn);
    const struct identity *identity = gate_identity(conn);
    uint32_t target_len = head->target_len < WHAT_BYTES ? head->target_len : WHAT_BYTES;

    *note = (struct note){.by = kinds[identity->kind], .force = is_forced(conn)};
    memcpy(note->who, identity->name, sizeof note->who);
    put_address(conn, note->address);
    (void)snprintf(note->what, sizeof note->what, "%s %.*s", method_name(head->method),
                   (int)target_len, conn_at(conn, head->target_at));
    note->asked_len = conn->body.len < VALUE_BYTES ? conn->body.len : VALUE_BYTES;
    if (note->asked_len > 0) {
        memcpy(note->asked, conn->body.data, note->asked_len);
    }
}

/* --- telling --- */

/* A text that a client chose, as a JSON string of a bounded length: where escapes make it too long,
 * less of it. */
static void put_cut(struct buf *json, const char *before, const void *text, size_t len)
{
    size_t start;

    buf_printf(json, "%s", before);
    start = json->len;
    text_put_json(json, text, len);
    while (json->len - start > VALUE_BYTES + 2 && len > 0) {
        json->len = start;
        len /= 2;
        text_put_json(json, text, len);
    }
}

struct outcome {
    enum audit_kind kind;
    const char *outcome;
    int status;
    const void *answer;
    size_t answer_len;
};

static void put_entry(const struct note *note, const struct outcome *outcome, uint64_t wall_ms,
                      struct buf *json)
{
    char time[TEXT_TIME_BYTES];

    text_put_field(json, "\"time\":", text_time_rfc3339(wall_ms, time));
    text_put_field(json, ",\"outcome\":", outcome->outcome);
    text_put_field(json, ",\"who\":", note->who);
    text_put_field(json, ",\"by\":", note->by);
    text_put_field(json, ",\"address\":", note->address);
    put_cut(json, ",\"what\":", note->what, strlen(note->what));
    buf_printf(json, ",\"force\":%s,\"status\":%d", note->force ? "true" : "false",
               outcome->status);
    if (note->asked_len > 0) {
        put_cut(json, ",\"asked\":", note->asked, note->asked_len);
    }
    if (note->before_len > 0) {
        put_cut(json, ",\"before\":", note->before, note->before_len);
    } else {
        buf_printf(json, ",\"before\":null");
    }
    if (outcome->answer_len > 0) {
        put_cut(json, ",\"answer\":", outcome->answer, outcome->answer_len);
    }
}

#define QUOTE(text, len) log_quote((text), (len), (char[VALUE_BYTES]){0}, VALUE_BYTES)

static void tell(struct api_loop *loop, const struct note *note, const struct outcome *outcome,
                 uint64_t over)
{
    uint64_t wall_ms = clock_wall_ms(loop->backend->clock);
    struct buf json = BUF_INIT;
    uint64_t number;

    put_entry(note, outcome, wall_ms, &json);
    ASSERT(json.len <= LIMIT_AUDIT_ENTRY_BYTES);
    number = audit_put(&loop->api->auth->audit, outcome->kind, json.data, json.len);
    log_info("audit", outcome->kind == AUDIT_CHANGE ? "change" : "refused",
             "number=%" PRIu64 " outcome=%s who=%s by=%s address=%s what=%s force=%s status=%d "
             "asked=%s before=%s answer=%s",
             number, outcome->outcome, note->who, note->by, note->address,
             QUOTE(note->what, strlen(note->what)), note->force ? "true" : "false", outcome->status,
             QUOTE(note->asked, note->asked_len), QUOTE(note->before, note->before_len),
             QUOTE(outcome->answer, outcome->answer_len));
    if (over > 0) {
        log_warn("audit", "more requests were refused than are told of", "more=%" PRIu64, over);
    }
    buf_free(&json);
}

static const char *outcome_of(int status)
{
    if (status == 0 || status >= 500) {
        return "unknown";
    }
    return status == 202 ? "pending" : "done";
}

void audited_answered(struct conn *conn, int status, const void *body, size_t len)
{
    struct note *note = conn->note;
    const struct outcome outcome = {AUDIT_CHANGE, outcome_of(status), status, body, len};

    conn->note = NULL;
    if (note->begun && (status < 400 || status >= 500)) {
        tell(api_loop(conn), note, &outcome, 0);
    }
    free(note);
}

void audited_refuse(struct conn *conn)
{
    struct api_loop *loop = api_loop(conn);
    struct outcome outcome = {.kind = AUDIT_REFUSAL, .outcome = "refused"};
    struct note note;
    uint64_t over;

    if (conn->note != NULL) { /* refused by its handler: told of here */
        free(conn->note);
        conn->note = NULL;
    }
    if (audit_takes_refusal(&loop->api->auth->audit, clock_wall_ms(loop->backend->clock), &over)) {
        note_make(conn, &note);
        outcome.answer = gate_reason(conn, &outcome.status);
        outcome.answer_len = strlen(outcome.answer);
        tell(loop, &note, &outcome, over);
    }
}

/* --- serving --- */

static int go_on(struct conn *conn)
{
    const struct route *route = conn->request.route;
    struct note *note = conn->note;

    note->begun = true;
    return route->handle(conn);
}

/* What this node knows of the tag. */
static int before_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    struct note *note = conn->note;
    struct tag_rows rows;

    ASSERT(note != NULL);
    if (call->request.status == 0 && tag_rows_decode(reply->data, reply->len, &rows) == 0) {
        struct buf json = BUF_INIT;

        if (rows.count == 1) {
            tag_json_put(&rows.rows[0], &json);
            note->before_len = json.len < VALUE_BYTES ? json.len : VALUE_BYTES;
            memcpy(note->before, json.data, note->before_len);
        }
        buf_free(&json);
        tag_rows_release(&rows);
    }
    return go_on(conn);
}

int audited_serve(struct conn *conn)
{
    const struct request *request = &conn->request;
    const struct route *route = request->route;
    char name[LIMIT_TAG_NAME_BYTES];
    struct note *note = malloc(sizeof *note);
    const char *why;
    struct call *call;
    size_t len = 0;

    ASSERT(note != NULL && conn->note == NULL);
    note_make(conn, note);
    conn->note = note;
    if (!route->names_tag ||
        target_decode(conn_at(conn, request->name_at), request->name_len, TARGET_PLUS_IS_PLUS, name,
                      sizeof name, &len) != 0 ||
        tag_name_check(name, len, &why) != 0) {
        return go_on(conn);
    }
    call = call_new(ID_REQUEST_QUERY, before_cb);
    call->sees_errors = true;
    call->request.local = true;
    query_get_encode(&call->request.payload, name, len);
    return call_submit_for(conn, call, BEFORE_WAIT_MS);
}
