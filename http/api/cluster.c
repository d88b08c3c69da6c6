/*
 * cluster.c - the cluster for operators: members, leadership, level, cuts of clients; the segments
 * of one node and of all; and the backup.
 *
 * The happy path of a view: the raft loop is asked, and its answer is shown. Of a change of
 * members, leader or level: the backend asks the leader until the change is done, and the answer is
 * 200. After timeout_ms the answer is 202, and the change continues without this request: a
 * repeated request, on any node, waits for the same change.
 *
 * The happy path of the backup, all rows of the state as a streamed file (backup_file.h): each call
 * to the backend gives a part, the first one begins the backup, and the next is made when the
 * client has taken all. So at most one part is in memory, however slow the client is. A client that
 * takes nothing is cut off by the usual limit of connections.
 *
 * Failure modes: bad input 400; an id that no member has 404; an obstacle to the change 409, with a
 * code of its own; a node that cannot be reached, or no answer, 503. A backup: before the first
 * byte 503, as other requests; `overloaded` while another backup is being taken on this node; later
 * the connection is reset, and the file has no closing record. If the client closes, the backend is
 * informed, so that the next backup can begin.
 *
 * Thread: the loop's.
 */
#include <stdlib.h>
#include <string.h>

#include "http/api/audited.h"
#include "http/api/request.h"
#include "http/proto/text.h"
#include "http/server/proxy.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/id/codec/tag.h"
#include "src/state/codec/cluster_command.h"

/* --- the segments of this node --- */

static void put_slot(const struct segment_slot_view *slot, bool current, struct buf *buf)
{
    buf_printf(buf, "{\"current\":%s,\"next_id\":", current ? "true" : "false");
    if (slot->size > 0) {
        buf_printf(buf, "\"%llu\",\"end\":\"%llu\"", ull(slot->next_id), ull(slot->end));
    } else {
        buf_printf(buf, "null,\"end\":null");
    }
    buf_printf(buf, ",\"size\":%u", slot->size);
    if (slot->increment > 1) {
        buf_printf(buf, ",\"increment\":%u", slot->increment);
    }
    buf_put_u8(buf, '}');
}

static void put_segments(const struct id_segment_info *items, size_t count, struct buf *json)
{
    static const char *const states[] = {
        [ID_TAG_ACTIVE] = "active",       [ID_TAG_UNKNOWN] = "unknown",
        [ID_TAG_EXHAUSTED] = "exhausted", [ID_TAG_STRICT] = "strict",
        [ID_TAG_MONOTONIC] = "monotonic", [ID_TAG_PAUSED] = "paused"};

    buf_printf(json, "\"segments\":[");
    for (size_t i = 0; i < count; i++) {
        const struct id_segment_info *info = &items[i];

        ASSERT(info->state < COUNT_OF(states));
        text_put_field_of(json, i > 0 ? ",{\"tag\":" : "{\"tag\":", info->name, info->name_len);
        buf_printf(json, ",\"state\":\"%s\",\"slots\":[", states[info->state]);
        put_slot(&info->slots[0], true, json);
        buf_put_u8(json, ',');
        put_slot(&info->slots[1], false, json);
        buf_printf(json, "],\"step\":%u,\"refill_in_flight\":%s", info->step,
                   info->refill_in_flight ? "true" : "false");
        text_put_number(json, ",\"last_refill_ago_ms\":", info->last_refill_ago_ms);
        buf_printf(json, ",\"rate_per_s\":%llu", ull(info->rate_per_s));
        text_put_number(json, ",\"lasts_s\":", info->lasts_s);
        if (info->cover_s > 0) {
            buf_printf(json, ",\"cover_s\":%u", info->cover_s);
        }
        buf_put_u8(json, '}');
    }
    buf_put_u8(json, ']');
}

/* Put the name to continue after; NULL: there is no more. */
static void put_next(const struct id_segment_info *last, struct buf *json)
{
    text_put_field_of(json, ",\"next\":", last != NULL ? last->name : NULL,
                      last != NULL ? last->name_len : 0);
    buf_printf(json, "}");
}

static const struct id_segment_info *last_of(const struct id_segments_page *page)
{
    return page->more && page->count > 0 ? &page->items[page->count - 1] : NULL;
}

static int segments_cb(struct conn *conn, struct call *call)
{
    const struct id_segments_page *page = &call->segments;
    struct buf *json = reply_begin(conn);

    buf_printf(json, "{");
    put_segments(page->items, page->count, json);
    put_next(last_of(page), json);
    return 200;
}

int handle_node_segments(struct conn *conn)
{
    return list_ask(conn, ID_REQUEST_SEGMENTS, LIMIT_TAGS_PER_PAGE,
                    api_loop(conn)->api->settings->default_timeout_ms, segments_cb);
}

/* --- of all nodes --- */

static int order_by_tag(const struct id_segment_info *a, const struct id_segment_info *b)
{
    return tag_name_compare(a->name, a->name_len, b->name, b->name_len);
}

static int cluster_segments_cb(struct conn *conn, struct call *call)
{
    const struct id_buffers *buffers = call->buffers;
    /* The name up to which every page is complete: the least last name of the pages with more. */
    const struct id_segment_info *whole = NULL;
    struct buf *json = reply_begin(conn);

    for (size_t i = 0; i < buffers->count; i++) {
        const struct id_segment_info *last = last_of(&buffers->nodes[i].page);

        whole = last != NULL && (whole == NULL || order_by_tag(last, whole) < 0) ? last : whole;
    }
    buf_printf(json, "{\"nodes\":[");
    for (size_t i = 0; i < buffers->count; i++) {
        const struct id_node_buffers *node = &buffers->nodes[i];
        const struct id_segment_info *items = node->page.items;
        size_t count = node->page.count;

        while (whole != NULL && count > 0 && order_by_tag(&items[count - 1], whole) > 0) {
            count--;
        }
        buf_printf(json, "%s{\"node_id\":%llu,\"asked\":%s,\"answered\":%s,", i > 0 ? "," : "",
                   ull(node->node_id), node->asked ? "true" : "false",
                   node->answered ? "true" : "false");
        put_segments(items, count, json);
        buf_printf(json, "}");
    }
    buf_printf(json, "]");
    put_next(whole, json);
    return 200;
}

/* A node that does not answer within this time is shown without an answer. */
#define ALL_WAIT_MS 1000
/* Of each node; all nodes together list no more than one node's list. */
#define ALL_TAGS_MAX 100

_Static_assert((LIMIT_NODES + 1) * ALL_TAGS_MAX <= LIMIT_TAGS_PER_PAGE, "a reply's size");

int handle_cluster_segments(struct conn *conn)
{
    return list_ask(conn, ID_REQUEST_BUFFERS, ALL_TAGS_MAX, ALL_WAIT_MS, cluster_segments_cb);
}

/* --- members, leader, level --- */

/* The answer for an outcome. */
struct outcome {
    int status;
    const char *code; /* NULL: it is no error */
};

static const struct outcome outcomes[MEMBER_OUTCOMES] = {
    [MEMBER_DONE] = {200, NULL},
    [MEMBER_PENDING] = {202, NULL},
    [MEMBER_IN_PROGRESS] = {409, "in_progress"},
    [MEMBER_UNKNOWN] = {404, "unknown_member"},
    [MEMBER_WAS_REMOVED] = {409, "removed"},
    [MEMBER_EXISTS] = {409, "conflict"},
    [MEMBER_ADDRESS_IN_USE] = {409, "address_in_use"},
    [MEMBER_LAST_VOTER] = {409, "last_voter"},
    [MEMBER_TOO_MANY] = {409, "too_many_members"},
    [MEMBER_NOT_VOTER] = {409, "not_a_voter"},
    [MEMBER_UNREACHABLE] = {503, "unreachable"},
    [MEMBER_NOT_CAUGHT_UP] = {409, "not_caught_up"},
    [MEMBER_NO_QUORUM] = {409, "no_quorum"},
    [MEMBER_GIVEN_UP] = {409, "given_up"},
    [MEMBER_IN_THE_WAY] = {409, "in_the_way"},
    [MEMBER_NOT_NEXT] = {409, "not_the_next_level"},
    [MEMBER_LAST_READY] = {409, "last_ready"},
};

/* The answer about a member, by its id, or the level, by its number. */
static int cluster_ask_cb(struct conn *conn, struct call *call)
{
    const struct route *route = conn->request.route;
    const struct id_health *health = api_loop(conn)->backend->health;
    const struct buf *reply = &call->request.reply;
    bool sees = route->asks == ASK_LEVEL_SEE;
    const char *what = sees || route->asks == ASK_LEVEL ? "level" : "id";
    const struct outcome *outcome;
    struct member_answer answer;
    struct buf *json;

    if (member_answer_decode(reply->data, reply->len, &answer) != 0 ||
        outcomes[answer.outcome].status == 0) { /* a number that is no outcome */
        return ERR_BAD_MESSAGE;
    }
    outcome = &outcomes[answer.outcome];
    if (!sees && outcome->code != NULL) {
        return reply_error(conn, outcome->status, outcome->code, "%s", answer.why);
    }
    json = reply_begin(conn);
    if (sees) { /* from the leader; this node's state may be a moment older */
        buf_printf(json, "{\"%s\":%u,\"can_rise\":%s,\"newest\":%s", what,
                   atomic_load(&health->level), answer.outcome == MEMBER_DONE ? "true" : "false",
                   answer.outcome == MEMBER_NOT_NEXT ? "true" : "false");
    } else {
        buf_printf(json, "{\"%s\":%llu,\"status\":\"%s\"", what, ull(call->member_id),
                   answer.outcome == MEMBER_DONE ? "done" : "pending");
    }
    text_put_field(json, ",\"message\":", answer.why);
    buf_printf(json, "}");
    return sees ? 200 : outcome->status;
}

/* All fields that bodies may have; each is required where it is accepted. */
enum ask_field { FIELD_ID, FIELD_ADDRESS, FIELD_LEVEL, FIELD_WEIGHT };

/* The input of each: an id in the path, the option force, and these fields of a body. */
static const struct form {
    struct member_ask ask; /* the constant part */
    bool id_in_path;
    bool force;
    const char *body; /* its name in a message; NULL: no body */
    enum ask_field first;
    size_t count;
} forms[] = {
    [ASK_ADD] = {{.kind = MEMBER_ASK_ADD}, false, true, "a member's fields", FIELD_ID, 2},
    [ASK_REMOVE] = {{.kind = MEMBER_ASK_REMOVE}, .id_in_path = true, .force = true},
    [ASK_MOVE] = {{.kind = MEMBER_ASK_MOVE}, true, true, "a member's fields", FIELD_ADDRESS, 1},
    [ASK_LEAD] = {{.kind = MEMBER_ASK_LEAD}, false, false, "a member's fields", FIELD_ID, 1},
    [ASK_LEVEL_SEE] = {.ask.kind = MEMBER_ASK_LEVEL_SEE},
    [ASK_LEVEL] = {{.kind = MEMBER_ASK_LEVEL}, false, false, "the level", FIELD_LEVEL, 1},
    [ASK_DRAIN] = {{.kind = MEMBER_ASK_PLACE, .place = PLACE_DRAINED, .drained = true},
                   .id_in_path = true,
                   .force = true},
    [ASK_RESUME] = {{.kind = MEMBER_ASK_PLACE, .place = PLACE_DRAINED}, .id_in_path = true},
    [ASK_WEIGHT] = {{.kind = MEMBER_ASK_PLACE, .place = PLACE_WEIGHT},
                    true,
                    true,
                    "a node's fields",
                    FIELD_WEIGHT,
                    1},
};

int handle_cluster_ask(struct conn *conn)
{
    const struct route *route = conn->request.route;
    const struct form *form = &forms[route->asks];
    struct param options[] = {OPTION_TIMEOUT(conn), {.name = "force", .max = 1}};
    struct param fields[] = {
        [FIELD_ID] = {.name = "id", .needed = true, .min = 1, .max = LIMIT_NODE_ID},
        [FIELD_ADDRESS] = {.name = "peer_address", .needed = true, .kind = PARAM_TEXT, .text = ""},
        [FIELD_LEVEL] = {.name = "level", .needed = true, .min = 1, .max = UINT16_MAX},
        [FIELD_WEIGHT] = {.name = "weight", .needed = true, .max = NODE_WEIGHT_MAX},
    };
    const struct param *address = &fields[FIELD_ADDRESS];
    uint32_t level = atomic_load(&api_loop(conn)->backend->health->level);
    struct member_ask ask = form->ask;
    const char *why;
    struct call *call;

    if ((form->id_in_path &&
         !request_path_number(conn, "node id", 1, LIMIT_NODE_ID, &fields[FIELD_ID].number)) ||
        !request_options(conn, options, form->force ? 2 : 1) ||
        (form->body != NULL &&
         !request_body(conn, form->body, "", &fields[form->first], form->count))) {
        return ANSWERED;
    }
    if (address->present && !member_address_check(address->text, address->len, &why)) {
        return reply_error(conn, 400, "bad_address",
                           "peer_address %s is not a host:port to dial: %s",
                           TEXT_SHOWN(address->text, address->len, SHOWN_BYTES), why);
    }
    memcpy(ask.address, address->text, address->len);
    ask.node_id = fields[FIELD_ID].number;
    ask.level = (uint16_t)fields[FIELD_LEVEL].number;
    ask.weight = (uint16_t)fields[FIELD_WEIGHT].number;
    if (ask.kind == MEMBER_ASK_PLACE && level < PLACEMENT_LEVEL) {
        return request_looks_again(conn)
                   ? ANSWERED
                   : reply_error(conn, 409, "level_too_low",
                                 "nodes are drained and weighed from level %d on, and the cluster "
                                 "is at level %u",
                                 PLACEMENT_LEVEL, level);
    }
    ask.force = options[1].number == 1;
    call = call_new(CLUSTER_REQUEST_MEMBER, cluster_ask_cb);
    call->member_id = route->asks == ASK_LEVEL ? ask.level : ask.node_id;
    member_ask_encode(&ask, &call->request.payload);
    return audited_submit(conn, call, (uint32_t)options[0].number);
}

/* --- clients that are cut --- */

static void put_client_cut(const struct client_cut *cut, struct buf *json)
{
    text_put_field(json, "{\"who\":", cut->who);
    text_put_field(json, ",\"until\":", TEXT_TIME(cut->until_ms));
    text_put_field(json, ",\"reason\":", cut->reason[0] != '\0' ? cut->reason : NULL);
    text_put_field(json, ",\"by\":", cut->by);
}

int handle_cuts_list(struct conn *conn)
{
    const struct client_cuts *cuts = &api_loop(conn)->cuts;
    uint64_t now_ms = gate_now_ms(api_loop(conn));
    struct buf *json = reply_begin(conn);
    const char *comma = "";

    buf_printf(json, "{\"cuts\":[");
    for (size_t i = 0; i < cuts->count; i++) {
        if (cuts->items[i].until_ms > now_ms) {
            buf_printf(json, "%s", comma);
            put_client_cut(&cuts->items[i], json);
            buf_printf(json, "}");
            comma = ",";
        }
    }
    buf_printf(json, "]}");
    return 200;
}

/* Read an address, in its canonical form, or the name of a line in the tokens file, from the
 * path. */
static bool read_cut_client(struct conn *conn, struct client_cut *cut)
{
    static const char *const proofs[] = {"dns:", "uri:", "sha256:"};
    const struct request *request = &conn->request;
    const char *raw = conn_at(conn, request->name_at);
    const char *shown = TEXT_SHOWN(raw, request->name_len, SHOWN_BYTES);
    uint32_t level = atomic_load(&api_loop(conn)->backend->health->level);
    const struct identity *line;
    char text[LIMIT_TOKEN_SUBJECT_BYTES + 1];
    size_t len;

    if (level < CUT_LEVEL) {
        return !request_looks_again(conn) &&
               reply_error(conn, 409, "level_too_low",
                           "clients are cut from level %d on, and the cluster is at level %u",
                           CUT_LEVEL, level);
    }
    if (target_decode(raw, request->name_len, TARGET_PLUS_IS_PLUS, text, sizeof text - 1, &len) ==
        0) {
        text[len] = '\0';
        if (proxy_network(text, len, cut->who)) {
            return true;
        }
        if (tokens_name_check(text, len)) {
            memcpy(cut->who, text, len);
            return true;
        }
        /* Certificates are cut by the name of their line. */
        line = tokens_find_certificate(api_loop(conn)->tokens, text);
        if (line != NULL) {
            return reply_error(conn, 400, "bad_request",
                               "%s is a certificate's: a cut names its line in the tokens file, %s",
                               TEXT_SHOWN(text, len, SHOWN_BYTES), line->name);
        }
        for (size_t i = 0; i < COUNT_OF(proofs); i++) {
            if (strncmp(text, proofs[i], strlen(proofs[i])) == 0) {
                return reply_error(
                    conn, 400, "bad_request",
                    "%s is a certificate's, and no line in this node's tokens file has it: a "
                    "cut names such a line, or the client's address",
                    TEXT_SHOWN(text, len, SHOWN_BYTES));
            }
        }
    }
    return reply_error(
        conn, 400, "bad_request",
        "%s is not an address, as 10.0.0.7 or 2001:db8::/32 with zeros after the prefix, "
        "and no token's name",
        shown);
}

/* Does the cut hit the requesting client, or the last token that may end the cut? Then answered. */
static bool cut_hurts(struct conn *conn, const struct client_cut *cut)
{
    const struct token_table *tokens = api_loop(conn)->tokens;
    const struct identity *asks = gate_identity(conn);
    struct sockaddr_storage address = {0};
    const struct identity *token;
    bool is_admins = false;
    bool is_last = (tokens_at(tokens, 0)->roles & ROLE_ADMIN) == 0;

    if (asks->kind != IDENTITY_ANONYMOUS && strcmp(asks->name, cut->who) == 0) {
        return !reply_error(conn, 409, "cuts_asker",
                            "%s is the %s of this very request; force=1 does it nevertheless",
                            cut->who, asks->kind == IDENTITY_CERTIFICATE ? "certificate" : "token");
    }
    if (conn_address(conn, &address) &&
        proxy_is_named(cut->who, (const struct sockaddr *)&address)) {
        return !reply_error(conn, 409, "cuts_asker",
                            "%s hits %s, where this very request comes from; force=1 does it "
                            "nevertheless",
                            cut->who, conn->peer->name);
    }
    for (size_t i = 1; (token = tokens_at(tokens, i)) != NULL; i++) {
        bool is_it = strcmp(token->name, cut->who) == 0;

        is_admins |= is_it && (token->roles & ROLE_ADMIN) != 0;
        is_last &= is_it || (token->roles & ROLE_ADMIN) == 0;
    }
    return is_admins && is_last &&
           !reply_error(conn, 409, "last_admin",
                        "%s is the last token of this node with the role admin, and %s asks; "
                        "force=1 does it nevertheless",
                        cut->who, asks->name);
}

static int cut_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    const struct token_table *tokens = api_loop(conn)->tokens;
    const struct client_cut *cut = &call->cut;
    struct buf *json = reply_begin(conn);
    char address[PROXY_NETWORK_BYTES];
    bool known = proxy_network(cut->who, strlen(cut->who), address);
    const struct identity *token;
    int32_t status;

    if (status_result_decode(reply->data, reply->len, &status) != 0) {
        return ERR_BAD_MESSAGE;
    }
    if (status == ERR_CONFLICT) {
        return reply_error(conn, 409, "too_many_cuts",
                           "%d clients are cut, which is the most: end the cut of one", LIMIT_CUTS);
    }
    if (status == ERR_NOT_FOUND) {
        return reply_error(conn, 404, "unknown_cut", "%s is not cut", cut->who);
    }
    if (status != 0 || cut->until_ms == 0) {
        return status != 0 ? status : 204;
    }
    put_client_cut(cut, json);
    for (size_t i = 1; !known && (token = tokens_at(tokens, i)) != NULL; i++) {
        known = strcmp(token->name, cut->who) == 0;
    }
    if (!known) { /* each node has its own tokens file: another node may know the name */
        buf_printf(json, ",\"warning\":\"no token of this node is named %s\"", cut->who);
    }
    buf_printf(json, "}");
    return 200;
}

static int submit_cut(struct conn *conn, const struct client_cut *cut, uint64_t timeout_ms)
{
    struct call *call = call_new(CLUSTER_REQUEST_COMMAND, cut_cb);

    call->cut = *cut;
    memcpy(call->cut.by, gate_identity(conn)->name, sizeof call->cut.by);
    cluster_command_put(&call->request.payload, COMMAND_CUT, &call->cut);
    return call_submit_for(conn, call, (uint32_t)timeout_ms);
}

int handle_cut_put(struct conn *conn)
{
    struct param options[] = {OPTION_TIMEOUT(conn), {.name = "force", .max = 1}};
    struct param fields[] = {{.name = "for_s", .needed = true, .min = 1, .max = LIMIT_CUT_S},
                             {.name = "reason", .kind = PARAM_TEXT}};
    struct client_cut cut = {0};
    const char *why;

    if (!request_options(conn, options, COUNT_OF(options)) || !read_cut_client(conn, &cut) ||
        !request_body(conn, "a cut's fields", "", fields, COUNT_OF(fields))) {
        return ANSWERED;
    }
    if (fields[1].present && tag_reason_check(fields[1].text, fields[1].len, &why) != 0) {
        return reply_error(conn, 400, "bad_request", "%s", why);
    }
    if (atomic_load(&api_loop(conn)->backend->health->clock_line_ms) == ID_CLOCK_UNKNOWN) {
        return reply_error(conn, 503, "no_leader",
                           "this node has just started and does not know the cluster's time yet, "
                           "by which a cut ends; try again");
    }
    memcpy(cut.reason, fields[1].present ? fields[1].text : "", fields[1].len);
    cut.until_ms = gate_now_ms(api_loop(conn)) + fields[0].number * 1000;
    return options[1].number != 1 && cut_hurts(conn, &cut)
               ? ANSWERED
               : submit_cut(conn, &cut, options[0].number);
}

int handle_cut_end(struct conn *conn)
{
    struct param options[] = {OPTION_TIMEOUT(conn)};
    struct client_cut cut = {0};

    return request_options(conn, options, 1) && read_cut_client(conn, &cut)
               ? submit_cut(conn, &cut, options[0].number)
               : ANSWERED;
}

/* --- GET /api/backup --- */

#define PART_MS 10000 /* for a part: a read from the node's own disk */

/* A backup whose client has not yet taken the bytes sent. */
struct backup_stream {
    struct http_wait wait;
    struct api_loop *loop;
    uint64_t number;
};

static void backup_give_up(struct api_loop *loop, uint64_t number)
{
    struct call *call = call_new(ID_REQUEST_BACKUP, NULL);

    call->backup = (struct id_backup){.number = number, .close = true};
    call_submit_alone(loop, call, loop->api->settings->default_timeout_ms);
}

/* A part came, and its client has gone. */
static void backup_client_gone(struct call *call)
{
    if (call->request.status == 0 && !call->backup.end) {
        backup_give_up(call->loop, call->backup.number);
    }
}

static void backup_cancel(struct http_wait *wait)
{
    struct backup_stream *stream = CONTAINER(wait, struct backup_stream, wait);

    backup_give_up(stream->loop, stream->number);
    free(stream);
}

static int backup_part_cb(struct conn *conn, struct call *call);

/* begun: its first part was sent. */
static struct call *backup_call(uint64_t number, bool begun)
{
    struct call *call = call_new(ID_REQUEST_BACKUP, backup_part_cb);

    call->sees_errors = true;
    call->gone = backup_client_gone;
    call->done = begun;
    call->backup.number = number;
    return call;
}

/* The client has taken all: ask for more. */
static void backup_sent(struct http_wait *wait)
{
    struct backup_stream *stream = CONTAINER(wait, struct backup_stream, wait);
    struct conn *conn = conn_resume(wait);

    (void)call_submit_for(conn, backup_call(stream->number, true), PART_MS);
    free(stream);
}

/* Send a part, and wait until it is taken. */
static int backup_part_cb(struct conn *conn, struct call *call)
{
    struct backup_stream *stream;
    int status = call->request.status;

    if (status != 0 && call->done) {
        conn_stream_end(conn, "the backup was given up");
        return ANSWERED;
    }
    if (status != 0) {
        return status != ERR_OVERLOADED
                   ? reply_err(conn, status)
                   : reply_error(conn, 503, "overloaded",
                                 "another backup is being taken on this node; one at a time");
    }
    if (!call->done) {
        conn_stream(conn, "application/octet-stream");
    }
    conn_stream_put(conn, call->request.reply.data, call->request.reply.len);
    if (call->backup.end) {
        conn_stream_end(conn, NULL);
        return ANSWERED;
    }
    stream = MUST_HAVE(calloc(1, sizeof *stream));
    *stream = (struct backup_stream){.wait = {.cancel = backup_cancel, .sent = backup_sent},
                                     .loop = api_loop(conn),
                                     .number = call->backup.number};
    conn_wait(conn, &stream->wait, TIMER_NEVER);
    return ANSWERED;
}

int handle_backup(struct conn *conn)
{
    struct param options[] = {OPTION_CONSISTENCY, OPTION_TIMEOUT(conn)};
    struct call *call;

    if (!request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    call = backup_call(0, false);
    call->backup.local = options[0].number == 1;
    return call_submit_for(conn, call, (uint32_t)options[1].number);
}
