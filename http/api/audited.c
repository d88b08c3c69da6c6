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

#include "http/api/json.h"
#include "http/api/request.h"
#include "http/proto/head.h"
#include "src/base/assert.h"
#include "src/base/log.h"
#include "src/id/codec/command.h"
#include "src/id/snowflake/snowflake.h"

#define BEFORE_WAIT_MS 500
#define WHAT_BYTES 200 /* of each text chosen by a client, in an entry */
#define VALUE_BYTES 400
#define PEER_BYTES 64

/* The facts of a request before it is answered. */
struct note {
    char who[LIMIT_TOKEN_NAME_BYTES + 1];
    const char *by; /* static */
    char address[PEER_BYTES];
    char what[WHAT_BYTES + 16]; /* method and target, cut */
    char asked[VALUE_BYTES];    /* the body, cut */
    size_t asked_len;
    char before[VALUE_BYTES]; /* JSON; "": unknown, or nothing */
    size_t before_len;
    char trace[HEADER_TRACE_BYTES]; /* "": none given, or one that breaks the rules */
    bool force;
    bool looking; /* at the state before: the change is not submitted yet */
};

/* --- who, from where, what --- */

static void note_make(struct conn *conn, struct note *note)
{
    static const char *const kinds[] = {[IDENTITY_ANONYMOUS] = "nothing",
                                        [IDENTITY_TOKEN] = "token",
                                        [IDENTITY_CERTIFICATE] = "certificate"};
    const struct parser_head *head = &conn->parser.head;
    const struct identity *identity = gate_identity(conn);
    const struct request *request = &conn->request;
    const struct route *route = request->route;
    uint32_t len = head->target_len < WHAT_BYTES ? head->target_len : WHAT_BYTES;
    char *query = api_loop(conn)->options; /* for the moment: decoded */
    size_t query_len = 0;
    struct sockaddr_storage peer = {0};
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *in = (const struct sockaddr_in *)&peer;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&peer;

    *note = (struct note){.by = kinds[identity->kind], .address = "unknown"};
    note->force =
        request->query_len > 0 &&
        target_decode(conn_at(conn, request->query_at), request->query_len, TARGET_PLUS_IS_SPACE,
                      query, LIMIT_HTTP_TARGET_BYTES, &query_len) == 0 &&
        memmem(query, query_len, "force=1", strlen("force=1")) != NULL;
    memcpy(note->who, identity->name, sizeof note->who);
    if (!conn_address(conn, &peer)) {
        peer.ss_family = AF_UNSPEC;
    }
    if (peer.ss_family == AF_INET) {
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        (void)snprintf(note->address, PEER_BYTES, "%s:%u", host, ntohs(in->sin_port));
    } else if (peer.ss_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        (void)snprintf(note->address, PEER_BYTES, "[%s]:%u", host, ntohs(in6->sin6_port));
    }
    if (conn->caller != NULL) { /* another protocol: the method and name, no secret */
        len = request->name_len < WHAT_BYTES / 2 ? request->name_len : WHAT_BYTES / 2;
        (void)snprintf(note->what, sizeof note->what, "%s%s%.*s", route->path, len > 0 ? " " : "",
                       (int)len, conn_at(conn, request->name_at));
        return;
    }
    (void)conn_trace(conn, note->trace);
    (void)snprintf(note->what, sizeof note->what, "%s %.*s", method_name(head->method), (int)len,
                   conn_at(conn, head->target_at));
    note->asked_len = conn->body.len < VALUE_BYTES ? conn->body.len : VALUE_BYTES;
    if (note->asked_len > 0) {
        memcpy(note->asked, conn->body.data, note->asked_len);
    }
}

/* --- reporting --- */

/* A text chosen by a client (NULL: null), as a JSON string of a bounded length: cut if escapes make
 * it too long. */
static void put_cut(struct buf *json, const char *before, const void *text, size_t len)
{
    size_t start;

    buf_printf(json, "%s", before);
    start = json->len;
    text_put_field_of(json, "", text, len);
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

#define QUOTE(text, len) log_quote((text), (len), (char[VALUE_BYTES]){0}, VALUE_BYTES)

static void audit_log_change(struct api_loop *loop, const struct note *note,
                             const struct outcome *outcome, uint64_t over)
{
    uint64_t wall_ms = clock_wall_ms(loop->backend->clock);
    BUF_LOCAL(json);
    uint64_t number;

    text_put_field(&json, "\"time\":", TEXT_TIME(wall_ms));
    text_put_field(&json, ",\"outcome\":", outcome->outcome);
    text_put_field(&json, ",\"who\":", note->who);
    text_put_field(&json, ",\"by\":", note->by);
    text_put_field(&json, ",\"address\":", note->address);
    if (note->trace[0] != '\0') {
        text_put_field(&json, ",\"trace\":", note->trace);
    }
    put_cut(&json, ",\"what\":", note->what, strlen(note->what));
    buf_printf(&json, ",\"force\":%s,\"status\":%d", note->force ? "true" : "false",
               outcome->status);
    if (note->asked_len > 0) {
        put_cut(&json, ",\"asked\":", note->asked, note->asked_len);
    }
    put_cut(&json, ",\"before\":", note->before_len > 0 ? note->before : NULL, note->before_len);
    if (outcome->answer_len > 0) {
        put_cut(&json, ",\"answer\":", outcome->answer, outcome->answer_len);
    }
    ASSERT(json.len <= LIMIT_AUDIT_ENTRY_BYTES);
    number = audit_put(&loop->api->auth->audit, outcome->kind, json.data, json.len);
    log_info("audit", outcome->kind == AUDIT_CHANGE ? "change" : "refused",
             "number=%" PRIu64 " outcome=%s who=%s by=%s address=%s trace=%s what=%s force=%s "
             "status=%d asked=%s before=%s answer=%s",
             number, outcome->outcome, note->who, note->by, note->address,
             note->trace[0] != '\0' ? note->trace : "none", QUOTE(note->what, strlen(note->what)),
             note->force ? "true" : "false", outcome->status, QUOTE(note->asked, note->asked_len),
             QUOTE(note->before, note->before_len), QUOTE(outcome->answer, outcome->answer_len));
    if (over > 0) {
        log_warn("audit", "more requests were refused than are logged", "more=%" PRIu64, over);
    }
}

void audited_answered(struct conn *conn, int status, const void *body, size_t len)
{
    struct note *note = conn->note;
    const char *what = status == 0 || status >= 500 ? "unknown"
                       : status == 202              ? "pending"
                                                    : "done";
    const struct outcome outcome = {AUDIT_CHANGE, what, status, body, len};

    conn->note = NULL;
    if (!note->looking && (status < 400 || status >= 500)) {
        audit_log_change(api_loop(conn), note, &outcome, 0);
    }
    free(note);
}

void audited_refuse_as(struct conn *conn, int status, const char *reason)
{
    struct api_loop *loop = api_loop(conn);
    const struct outcome outcome = {AUDIT_REFUSAL, "refused", status, reason, strlen(reason)};
    struct note note;
    uint64_t over;

    if (conn->note != NULL) { /* refused by its handler: reported here */
        free(conn->note);
        conn->note = NULL;
    }
    if (audit_takes_refusal(&loop->api->auth->audit, clock_wall_ms(loop->backend->clock), &over)) {
        note_make(conn, &note);
        audit_log_change(loop, &note, &outcome, over);
    }
}

void audited_begin(struct conn *conn)
{
    ASSERT(conn->note == NULL);
    conn->note = MUST_HAVE(malloc(sizeof(struct note)));
    note_make(conn, conn->note);
}

/* --- the state before a change --- */

/* Cut to the room. */
static void put_before(struct note *note, const struct buf *json)
{
    note->before_len = json->len < VALUE_BYTES ? json->len : VALUE_BYTES;
    memcpy(note->before, json->data, note->before_len);
}

/* Submit a call that reads this node's state. Its finish gets the change as call->next. */
static int look_before(struct conn *conn, struct call *call, struct call *change)
{
    call->sees_errors = true;
    call->request.local = true;
    call->next = change;
    ((struct note *)conn->note)->looking = true;
    return call_submit_for(conn, call, BEFORE_WAIT_MS);
}

static int submit_inspected(struct conn *conn, struct call *call)
{
    struct call *change = call->next;

    call->next = NULL;
    ((struct note *)conn->note)->looking = false;
    return call_submit_for(conn, change, change->wait_ms);
}

static int worker_before_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    struct worker_rows rows;

    if (call->request.status == 0 && worker_rows_decode(reply->data, reply->len, &rows) == 0) {
        const struct worker_row *row = rows.rows;
        BUF_LOCAL(json);

        if (rows.count == 1 && row->id == call->next->worker.worker_id) {
            buf_printf(&json,
                       "{\"worker_id\":%u,\"state\":\"%s\",\"kind\":\"%s\",\"epoch\":%" PRIu64
                       ",\"until_ms\":%" PRIu64 ",\"name\":",
                       row->id, row->state == WORKER_HELD ? "held" : "released",
                       row->kind == WORKER_NODE ? "node" : "client", row->epoch,
                       row->granted_until_ms);
            text_put_json(&json, row->name, row->name_len);
            buf_put_u8(&json, '}');
            put_before(conn->note, &json);
        }
        worker_rows_release(&rows);
    }
    return submit_inspected(conn, call);
}

/* The room for items of a list, in bytes as written in an entry; after them comes the number of the
 * rest. */
#define LIST_BYTES (VALUE_BYTES - 40)

static bool list_fits(const void *first, size_t first_len, const void *second, size_t second_len)
{
    BUF_LOCAL(json);

    text_put_json(&json, first, first_len);
    text_put_json(&json, second, second_len);
    return json.len <= LIST_BYTES;
}

static int cluster_before_cb(struct conn *conn, struct call *call)
{
    const struct id_cluster_status *cluster = call->cluster;
    BUF_LOCAL(json);
    size_t more = 0;

    if (call->request.status != 0) {
        return submit_inspected(conn, call);
    }
    buf_printf(&json, "{\"leader_id\":%" PRIu64 ",\"members\":[", cluster->leader_id);
    for (size_t i = 0; i < cluster->member_count; i++) {
        const struct id_member *member = &cluster->members[i];
        size_t before = json.len;

        buf_printf(&json, "%s{\"id\":%" PRIu64 ",\"role\":\"%s\"", i > 0 ? "," : "", member->id,
                   member->role);
        text_put_field(&json, ",\"peer_address\":", member->peer_address);
        if (member->placement.weight != NODE_WEIGHT_DEFAULT) {
            buf_printf(&json, ",\"weight\":%u", member->placement.weight);
        }
        if (member->placement.drained) {
            buf_printf(&json, ",\"drained\":true");
        }
        buf_put_u8(&json, '}');
        if (more > 0 || !list_fits(json.data, json.len, "", 0)) {
            json.len = before;
            more++;
        }
    }
    buf_printf(&json, "],\"more\":%zu}", more);
    put_before(conn->note, &json);
    return submit_inspected(conn, call);
}

static int tag_before_cb(struct conn *conn, struct call *call);

/* Look at the next tag that a change puts. */
static int inspect_put(struct conn *conn, struct call *change, struct call_looking looking)
{
    struct call *call = call_new(CLUSTER_REQUEST_QUERY, tag_before_cb);
    struct command_list items = looking.items;
    struct tag_put put;

    ASSERT(command_next(&items, &put));
    call->looking = looking;
    query_get_encode(&call->request.payload, put.name, put.name_len);
    return look_before(conn, call, change);
}

/* Of one tag the whole row is noted; of a bulk's first tags a list, and how many more there are. */
static int tag_before_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    const struct api_loop *loop = api_loop(conn);
    struct call_looking looking = call->looking;
    struct call *change = call->next;
    struct note *note = conn->note;
    const struct tag_row *row;
    TAG_ROWS_LOCAL(rows);
    struct tag_put put;
    BUF_LOCAL(json);

    if (call->request.status != 0 || tag_rows_decode(reply->data, reply->len, &rows) != 0) {
        rows.count = 0;
    }
    row = rows.count == 1 ? &rows.rows[0] : NULL;
    if (!change->change.wait.bulk) {
        if (row != NULL) {
            tag_json_put(row, false, loop->zones, clock_wall_ms(loop->backend->clock), &json);
            put_before(note, &json);
        }
        return submit_inspected(conn, call);
    }
    ASSERT(command_next(&looking.items, &put));
    text_put_field_of(&json, note->before_len > 0 ? ",{\"tag\":" : "[{\"tag\":", put.name,
                      put.name_len);
    if (row != NULL) {
        buf_printf(&json, ",\"max_id\":\"%" PRIu64 "\",\"step\":%u,\"mode\":\"%s\"}", row->max_id,
                   row->step, tag_mode_name(row->mode));
    } else {
        buf_printf(&json, ",\"max_id\":null}");
    }
    if (list_fits(note->before, note->before_len, json.data, json.len)) {
        memcpy(note->before + note->before_len, json.data, json.len);
        note->before_len += json.len;
        if (++looking.at < AUDITED_ITEMS && looking.at < looking.items.count) {
            call->next = NULL;
            return inspect_put(conn, change, looking);
        }
    }
    note->before_len += (size_t)snprintf(
        note->before + note->before_len, VALUE_BYTES - note->before_len, "%s{\"more\":%u}]",
        note->before_len > 0 ? "," : "[", looking.items.count - looking.at);
    return submit_inspected(conn, call);
}

int audited_submit(struct conn *conn, struct call *change, uint32_t wait_ms)
{
    const struct route *route = conn->request.route;
    const struct id_backend *backend = api_loop(conn)->backend;
    const struct buf *payload = &change->request.payload;
    const struct layout_words *named = NULL;
    struct command command;
    struct call *call;
    BUF_LOCAL(json);

    change->wait_ms = wait_ms;
    if (conn->note == NULL) {
        return call_submit_for(conn, change, wait_ms);
    }
    if (change->request.kind != CLUSTER_REQUEST_COMMAND) {
        if (route->asks != ASK_LEVEL) {
            return look_before(conn, call_new(ID_REQUEST_STATUS, cluster_before_cb), change);
        }
        buf_printf(&json, "{\"level\":%u}", atomic_load(&backend->health->level));
        put_before(conn->note, &json);
        return call_submit_for(conn, change, wait_ms);
    }
    ASSERT(command_read(payload->data, payload->len, &command) == 0); /* made here */
    switch (command.type) {
    case COMMAND_TAGS_PUT:
    case COMMAND_TAGS_PUT_BY:
    case COMMAND_TAGS_PUT_STEPPED:
        return inspect_put(conn, change, (struct call_looking){.items = command.list});
    case COMMAND_TAG_DELETE:
        call = call_new(CLUSTER_REQUEST_QUERY, tag_before_cb);
        query_get_encode(&call->request.payload, command.deletion.name, command.deletion.name_len);
        return look_before(conn, call, change);
    case COMMAND_WORKER_ACQUIRE:
    case COMMAND_WORKER_ACQUIRE_OF:
    case COMMAND_WORKER_RELEASE:
    case COMMAND_WORKER_RELEASE_OF:
        if (change->worker.worker_id >= LIMIT_WORKER_IDS) {
            break; /* the cluster chooses a free one */
        }
        call = call_new(CLUSTER_REQUEST_QUERY, worker_before_cb);
        query_workers_encode(&call->request.payload, change->worker.worker_id, 1);
        return look_before(conn, call, change);
    default: /* of a layout, which each node knows */
        named =
            snowflake_named_find(backend->snowflake, change->layout.name, change->layout.name_len);
        if (named != NULL) {
            layout_row_json_put(&named->row, snowflake_named_is_deleted(named), &json);
            put_before(conn->note, &json);
        }
        break;
    }
    return call_submit_for(conn, change, wait_ms);
}

/* --- GET /api/audit --- */

int handle_audit(struct conn *conn)
{
    struct param options[] = {
        {.name = "after", .max = UINT64_MAX},
        {.name = "limit", .min = 1, .max = LIMIT_AUDIT_PER_PAGE, .number = PAGE_LIMIT_DEFAULT},
    };

    if (!request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    audit_list(&api_loop(conn)->api->auth->audit, options[0].number, (size_t)options[1].number,
               reply_begin(conn));
    return 200;
}

/* --- requests that the gate refused: the answers --- */

static int refuse_role(struct conn *conn)
{
    const struct route *route = conn->request.route;
    const struct identity *identity = gate_identity(conn);
    char roles[ROLES_TEXT_BYTES];

    if (identity->kind == IDENTITY_ANONYMOUS) {
        const char *name = conn_certificate(conn);

        return reply_error(conn, 403, "forbidden",
                           "this needs the role %s, and the certificate %s has no line in the "
                           "tokens file",
                           role_name(route->role),
                           name != NULL ? TEXT_SHOWN(name, strlen(name), SHOWN_BYTES) : "");
    }
    return reply_error(conn, 403, "forbidden", "this needs the role %s, and %s has %s",
                       role_name(route->role), identity->name, roles_text(identity->roles, roles));
}

/* Returns ANSWERED, which is false. */
static int refuse_tag(struct conn *conn, const char *what)
{
    const struct identity *identity = gate_identity(conn);
    char prefixes[4 * SHOWN_BYTES] = ""; /* "a", "b" */
    size_t at = 0;

    conn->request.gate = GATE_TAG; /* where no path names the tag, only now */
    audited_refuse_as(conn, 403, "another's tag");
    for (size_t i = 0; i < identity->prefix_count && at + SHOWN_BYTES + 3 < sizeof prefixes; i++) {
        const struct identity_prefix *prefix = &identity->prefixes[i];

        at += (size_t)snprintf(prefixes + at, sizeof prefixes - at, "%s%s", i > 0 ? ", " : "",
                               TEXT_SHOWN(prefix->text, prefix->len, SHOWN_BYTES));
    }
    return reply_error(conn, 403, "forbidden_tag", "%s: %s has the tags that begin with %s", what,
                       identity->name, prefixes);
}

/* The cut is looked up each time, since it ends by itself. */
static int refuse_cut(struct conn *conn)
{
    /* While the request's body came, the cut may have ended. */
    static const struct client_cut ended = {.who = "this client", .reason = "it has ended"};
    const struct client_cut *cut =
        gate_identity(conn) != NULL && conn->cut != NULL ? conn->cut : &ended;
    uint64_t now_ms = gate_now_ms(api_loop(conn));
    uint64_t left_ms = cut->until_ms > now_ms ? cut->until_ms - now_ms : 1;
    char message[LIMIT_CUT_WHO_BYTES + TEXT_TIME_BYTES + LIMIT_TAG_REASON_BYTES + 32];
    char extra[48];

    (void)snprintf(extra, sizeof extra, "Retry-After: %llu\r\n", ull((left_ms + 999) / 1000));
    (void)snprintf(message, sizeof message, "%s is cut until %s%s%s", cut->who,
                   TEXT_TIME(cut->until_ms), cut->reason[0] != '\0' ? ": " : "", cut->reason);
    conn_fail(conn, 403, "client_cut", extra, "", message);
    return ANSWERED;
}

/* 401: a token that is known is needed. */
static int refuse_token(struct conn *conn, const char *error, const char *message)
{
    char extra[96];

    (void)snprintf(extra, sizeof extra, "WWW-Authenticate: Bearer realm=\"leafd\"%s\r\n", error);
    conn_fail(conn, 401, "unauthorized", extra, "", message);
    return ANSWERED;
}

/* What the audit says of each. */
static const struct {
    int status;
    const char *reason; /* for the audit; NULL: none */
} gate_reasons[] = {
    [GATE_OPEN] = {0, NULL},
    [GATE_OTHER_LISTENER] = {404, NULL},
    [GATE_MISDIRECTED] = {421, "Host is none of this node's"},
    [GATE_FOREIGN] = {403, "foreign Origin"},
    [GATE_TYPE] = {415, "Content-Type is not application/json"},
    [GATE_TWO_TOKENS] = {400, "two tokens"},
    [GATE_NO_BEARER] = {401, "Authorization is no Bearer"},
    [GATE_UNKNOWN] = {401, "unknown token"},
    [GATE_NO_TOKEN] = {401, "no token"},
    [GATE_ROLE] = {403, "the role is missing"},
    [GATE_TAG] = {403, NULL}, /* see refuse_tag() */
    [GATE_CUT] = {403, NULL}, /* the audit already has who asked for it */
};

int deny(struct conn *conn)
{
    const struct api_loop *loop = api_loop(conn);
    const struct parser_head *head = &conn->parser.head;
    const struct web_request request = {.head = head, .bytes = conn_at(conn, 0)};
    const enum gate gate = (enum gate)conn->request.gate;
    bool is_admin = (loop->listeners & LISTENER_ADMIN) != 0;
    const char *host;
    size_t len;

    conn->last_len = 0; /* the same head is judged anew: a reload, or a cut's end, may let it in */
    if (gate_reasons[gate].reason != NULL) {
        audited_refuse_as(conn, gate_reasons[gate].status, gate_reasons[gate].reason);
    }
    switch (gate) {
    case GATE_OTHER_LISTENER:
        return reply_error(
            conn, 404, "other_door", "this route is served at the other listener: %s, %s",
            is_admin ? "http.listen" : "admin.listen",
            is_admin ? loop->api->settings->listen_address : loop->api->admin_address);
    case GATE_MISDIRECTED:
        host = web_authority(&request, &len);
        return reply_error(conn, 421, "misdirected",
                           "Host %s is not a host of this node: http.hosts lists further ones",
                           TEXT_SHOWN(host, len, SHOWN_BYTES));
    case GATE_FOREIGN:
        if (head->origin.count == 0) {
            return reply_error(
                conn, 403, "foreign_origin",
                "a page of another site (Sec-Fetch-Site %s) may not take or change anything here",
                TEXT_SHOWN(conn_at(conn, head->fetch_site.at), head->fetch_site.len, SHOWN_BYTES));
        }
        return reply_error(
            conn, 403, "foreign_origin",
            "a page of Origin %s may not ask this node: http.origins lists those that may",
            TEXT_SHOWN(conn_at(conn, head->origin.at), head->origin.len, SHOWN_BYTES));
    case GATE_TYPE:
        return reply_error(
            conn, 415, "bad_content_type",
            "Content-Type %s: a body that changes something must be "
            "application/json, and say so once",
            TEXT_SHOWN(conn_at(conn, head->content_type.at), head->content_type.len, SHOWN_BYTES));
    case GATE_TWO_TOKENS:
        return reply_error(conn, 400, "bad_request", "Authorization is given twice");
    case GATE_NO_BEARER:
        return refuse_token(conn, "", "Authorization must be: Bearer TOKEN");
    case GATE_UNKNOWN:
        return refuse_token(conn, ", error=\"invalid_token\"", "this token is not known here");
    case GATE_NO_TOKEN:
        return refuse_token(conn, "",
                            conn->caller == NULL ? "this needs a token: Authorization: Bearer TOKEN"
                                                 : "this needs a token: AUTH TOKEN");
    case GATE_ROLE:
        return refuse_role(conn);
    case GATE_TAG:
        return refuse_tag(conn, "this tag is another's");
    case GATE_CUT:
        return refuse_cut(conn);
    case GATE_OPEN:
        break;
    }
    UNREACHABLE("a verdict of the gate");
}

/* --- tags that no path names --- */

int list_ask(struct conn *conn, unsigned kind, uint64_t most, uint32_t wait_ms,
             int (*finish)(struct conn *conn, struct call *call))
{
    struct param options[] = {PAGE_OPTIONS, OPTION_CONSISTENCY};
    size_t count = COUNT_OF(options) - (kind != CLUSTER_REQUEST_QUERY);
    const struct identity *identity;
    struct param *prefix = &options[0];
    struct call *call;

    options[2].max = most;
    if (!request_options(conn, options, count)) {
        return ANSWERED;
    }
    identity = gate_identity(conn);
    if (!prefix->present && identity->prefix_count == 1) {
        prefix->text = identity->prefixes[0].text; /* the client asks for what it may see */
        prefix->len = identity->prefixes[0].len;
    } else if (identity->prefix_count > 0 &&
               !(prefix->present && identity_may_use(identity, prefix->text, prefix->len))) {
        return refuse_tag(conn,
                          prefix->present ? "this prefix has others' tags, too" : "name a prefix");
    }
    call = call_new(kind, finish);
    call->request.local = options[3].number == 1;
    query_list_encode(&call->request.payload, options[0].text, options[0].len, options[1].text,
                      options[1].len, (uint32_t)options[2].number);
    return call_submit_for(conn, call, wait_ms);
}

bool may_put(struct conn *conn, const struct buf *command)
{
    const struct identity *identity;
    struct command read;
    struct tag_put tag;
    char what[64 + SHOWN_BYTES];

    identity = gate_identity(conn);
    if ((identity->roles & ROLE_TAGS) == 0) { /* the tokens were reread meanwhile */
        conn->request.gate = identity->kind == IDENTITY_ANONYMOUS ? GATE_NO_TOKEN : GATE_ROLE;
        deny(conn);
        return false;
    }
    if (identity->prefix_count == 0 || command_read(command->data, command->len, &read) != 0) {
        return true; /* a put that cannot be read is refused when applied */
    }
    while (command_next(&read.list, &tag)) {
        if (!identity_may_use(identity, tag.name, tag.name_len)) {
            (void)snprintf(what, sizeof what, "tag %s is another's",
                           TEXT_SHOWN(tag.name, tag.name_len, SHOWN_BYTES));
            return refuse_tag(conn, what);
        }
    }
    return true;
}

/* --- what one client may hold --- */

#define WHY_BYTES 96
#define MESSAGE_BYTES 512

static const struct {
    enum meter_refusal refusal;
    const char *things;
    const char *quota; /* of a token, and of all others */
    const char *until;
} kinds[] = {
    [SHARE_KEYS] = {REFUSED_KEYS, "idempotency keys", "keys",
                    "each is forgotten a day after its first use"},
    [SHARE_WORKERS] = {REFUSED_WORKERS, "worker ids", "workers",
                       "each counts until its window is over, also once released"},
    [SHARE_TAGS] = {REFUSED_TAGS, "bytes of tags", "tags",
                    "a tag that is deleted counts less, and nothing more when it is made again"},
};

/* The client's line in the tokens file; NULL: none, its certificate or else address is counted. */
static const struct identity *named_client(struct conn *conn)
{
    const struct identity *identity = gate_identity(conn);

    return identity->kind != IDENTITY_ANONYMOUS ? identity : NULL;
}

struct share share_of(struct conn *conn)
{
    const struct identity *identity = named_client(conn);
    const char *certificate = conn_certificate(conn);
    uint64_t is_named = identity != NULL || certificate != NULL;
    struct sockaddr_storage address = {0};
    struct share share = {0};

    if (identity == NULL && certificate != NULL) {
        share.client = client_id_of_certificate(certificate);
    } else if (identity == NULL) { /* not its record's id: many addresses share one */
        address.ss_family = conn_address(conn, &address) ? address.ss_family : AF_UNSPEC;
        share.client = client_id_of_address((const struct sockaddr *)&address);
    } else {
        share.client = client_id_of_name(identity->name, strlen(identity->name));
        share.keys = identity->quotas.keys;
        share.workers = identity->quotas.workers;
    }
    share.tags = identity != NULL && identity->quotas.tags_mib > 0
                     ? (uint64_t)identity->quotas.tags_mib << 20
                     : api_loop(conn)->api->settings->tags_bytes;
    share.client = (share.client & ~UINT64_C(1)) | is_named;
    share.client += share.client <= 1 ? 2 : 0; /* 0 and 1 mean no client */
    return share;
}

int share_refuse(struct conn *conn, enum share_kind kind, uint64_t held, uint64_t most,
                 const char *where)
{
    const struct identity *identity = named_client(conn);
    const char *certificate = identity == NULL ? conn_certificate(conn) : NULL;
    const char *what = identity != NULL      ? "client"
                       : certificate != NULL ? "the certificate"
                                             : "the address";
    const char *name = identity != NULL ? identity->name
                       : certificate != NULL
                           ? TEXT_SHOWN(certificate, strlen(certificate), SHOWN_BYTES)
                           : conn->peer->name;
    char message[MESSAGE_BYTES];
    char more[WHY_BYTES];
    char why[WHY_BYTES];

    counter_add(&conn->conns->counts.refused[kinds[kind].refusal], 1);
    (void)snprintf(why, sizeof why, "holds %llu %s, its share is %llu", ull(held),
                   kinds[kind].things, ull(most));
    (void)snprintf(more, sizeof more, ",\"held\":%llu,\"share\":%llu", ull(held), ull(most));
    (void)snprintf(message, sizeof message,
                   "%s%s %s holds %llu %s, and may hold %llu: %s; %s= in the setting quota, or "
                   "in the line of a token, allows more",
                   where, what, name, ull(held), kinds[kind].things, ull(most), kinds[kind].until,
                   kinds[kind].quota);
    audited_refuse_as(conn, 429, why);
    conn_fail(conn, 429, err_code(ERR_SHARE), NULL, more, message);
    return ANSWERED;
}
