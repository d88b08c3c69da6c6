/*
 * cluster.c - see cluster.h. Thread: the loop's.
 */
#include "http/api/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "http/api/audited.h"
#include "http/api/context.h"
#include "http/api/gate.h"
#include "http/api/request.h"
#include "http/api/route.h"
#include "http/proto/text.h"
#include "http/server/proxy.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/id/codec/tag.h"
#include "src/state/codec/cluster_command.h"

/* --- the cluster as JSON --- */

/* What this node knows of the link to it. */
static void put_link(const struct id_member *member, struct buf *json)
{
    text_put_number(json, ",\"lag\":", member->lag);
    text_put_number(json, ",\"round_trip_us\":", member->round_trip_us);
    if (member->has_clock_offset) {
        buf_printf(json, ",\"clock_offset_ms\":%lld", (long long)member->clock_offset_ms);
    } else {
        buf_printf(json, ",\"clock_offset_ms\":null");
    }
    text_put_number(json, ",\"last_heard_ms\":", member->last_heard_ms);
}

/* What clients choose a node by. */
static void put_placement(const struct id_member *member, struct buf *json)
{
    const struct placement *placement = &member->placement;

    text_put_field(json, ",\"zone\":", placement->zone[0] != '\0' ? placement->zone : NULL);
    buf_printf(json, ",\"weight\":%u,\"state\":\"%s\",\"snowflake\":%s", placement->weight,
               id_serving_name(member->serving), member->has_snowflake ? "true" : "false");
}

static void put_cluster_member(const struct id_member *member, bool with_links, struct buf *json)
{
    buf_printf(json, "{\"id\":%llu", ull(member->id));
    text_put_field(json, ",\"peer_address\":", member->peer_address);
    text_put_field(json, ",\"http_address\":", member->http_address);
    text_put_field(json, ",\"role\":", member->role);
    text_put_field(json, ",\"version\":", member->version);
    put_placement(member, json);
    if (member->levels.max != 0) {
        buf_printf(json, ",\"levels\":{\"min\":%u,\"max\":%u}", member->levels.min,
                   member->levels.max);
    } else {
        buf_printf(json, ",\"levels\":null");
    }
    buf_printf(json, ",\"reachable\":%s,\"match_index\":%llu", member->reachable ? "true" : "false",
               ull(member->match_index));
    if (with_links) {
        put_link(member, json);
    }
    buf_printf(json, "}");
}

/* What is being changed, or was left unfinished. */
static void put_change(const struct id_member_change *change, struct buf *json)
{
    if (change->kind == NULL) {
        buf_printf(json, "null");
        return;
    }
    buf_printf(json, "{\"kind\":\"%s\",\"id\":%llu,\"state\":\"%s\"", change->kind,
               ull(change->node_id), change->state);
    if (change->peer_address[0] != '\0') {
        text_put_field(json, ",\"peer_address\":", change->peer_address);
    }
    buf_printf(json, "}");
}

static void put_level(const struct level_row *level, struct buf *json)
{
    char time[TEXT_TIME_BYTES];
    bool known = level->index != 0;

    buf_printf(json, "{\"number\":%u", level->level);
    text_put_field(json, ",\"since\":", known ? text_time_rfc3339(level->wall_ms, time) : NULL);
    text_put_number(json, ",\"index\":", known ? level->index : TEXT_UNKNOWN);
    buf_printf(json, "}");
}

void cluster_json_put(const struct id_cluster_status *status, bool with_links, struct buf *json)
{
    char uid[UID_TEXT_BYTES];

    ASSERT(status->member_count <= LIMIT_NODES);
    text_put_field(json, "\"cluster_id\":", status->cluster_id);
    text_put_field(json,
                   ",\"uid\":", uid_is_none(&status->uid) ? NULL : uid_text(&status->uid, uid));
    buf_printf(json, ",\"node_id\":%llu,\"state\":\"%s\"", ull(status->node_id),
               id_node_state_name(status->state));
    text_put_number(json,
                    ",\"leader_id\":", status->leader_id != 0 ? status->leader_id : TEXT_UNKNOWN);
    buf_printf(json, ",\"term\":%llu,\"commit_index\":%llu,\"applied_index\":%llu,\"level\":",
               ull(status->term), ull(status->commit_index), ull(status->applied_index));
    put_level(&status->level, json);
    buf_printf(json, ",\"members\":[");
    for (size_t i = 0; i < status->member_count; i++) {
        buf_printf(json, "%s", i > 0 ? "," : "");
        put_cluster_member(&status->members[i], with_links, json);
    }
    buf_printf(json, "],\"change\":");
    put_change(&status->change, json);
}

/* A node that has not registered yet has no address that a client could ask. */
void nodes_json_put(const struct id_cluster_status *status, struct buf *json)
{
    const char *comma = "";

    buf_printf(json, "{\"self\":%llu,\"nodes\":[", ull(status->node_id));
    for (size_t i = 0; i < status->member_count; i++) {
        const struct id_member *member = &status->members[i];

        if (member->http_address[0] != '\0') {
            buf_printf(json, "%s{\"id\":%llu", comma, ull(member->id));
            text_put_field(json, ",\"http_address\":", member->http_address);
            put_placement(member, json);
            buf_printf(json, "}");
            comma = ",";
        }
    }
    buf_printf(json, "]}");
}

/* --- GET /api/cluster, and segments --- */

static int cluster_cb(struct conn *conn, struct call *call)
{
    struct buf *json = reply_begin(conn);

    buf_printf(json, "{");
    cluster_json_put(call->cluster, false, json);
    buf_printf(json, "}");
    return 200;
}

int handle_cluster(struct conn *conn)
{
    return call_submit(conn, call_new(ID_REQUEST_STATUS, cluster_cb));
}

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

static void put_segment(const struct id_segment_info *info, struct buf *buf)
{
    static const char *const states[] = {
        [ID_TAG_ACTIVE] = "active",       [ID_TAG_UNKNOWN] = "unknown",
        [ID_TAG_EXHAUSTED] = "exhausted", [ID_TAG_STRICT] = "strict",
        [ID_TAG_MONOTONIC] = "monotonic", [ID_TAG_PAUSED] = "paused"};

    ASSERT(info->state < COUNT_OF(states));
    text_put_field_of(buf, "{\"tag\":", info->name, info->name_len);
    buf_printf(buf, ",\"state\":\"%s\",\"slots\":[", states[info->state]);
    put_slot(&info->slots[0], true, buf);
    buf_printf(buf, ",");
    put_slot(&info->slots[1], false, buf);
    buf_printf(buf, "],\"step\":%u,\"refill_in_flight\":%s", info->step,
               info->refill_in_flight ? "true" : "false");
    text_put_number(buf, ",\"last_refill_ago_ms\":", info->last_refill_ago_ms);
    buf_printf(buf, ",\"rate_per_s\":%llu", ull(info->rate_per_s));
    text_put_number(buf, ",\"lasts_s\":", info->lasts_s);
    if (info->cover_s > 0) {
        buf_printf(buf, ",\"cover_s\":%u", info->cover_s);
    }
    buf_put_u8(buf, '}');
}

static void put_segments(const struct id_segment_info *items, size_t count, struct buf *json)
{
    buf_printf(json, "\"segments\":[");
    for (size_t i = 0; i < count; i++) {
        buf_printf(json, "%s", i > 0 ? "," : "");
        put_segment(&items[i], json);
    }
    buf_printf(json, "]");
}

/* The name to go on after; NULL: there is no more. */
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
    struct param options[] = {PAGE_OPTIONS};
    struct call *call;

    if (!request_options(conn, options, COUNT_OF(options)) || !narrow_list(conn, &options[0])) {
        return ANSWERED;
    }
    call = call_new(ID_REQUEST_SEGMENTS, segments_cb);
    query_list_encode(&call->request.payload, options[0].text, options[0].len, options[1].text,
                      options[1].len, (uint32_t)options[2].number);
    return call_submit(conn, call);
}

/* --- of all nodes --- */

static int order_by_tag(const struct id_segment_info *a, const struct id_segment_info *b)
{
    return tag_name_compare(a->name, a->name_len, b->name, b->name_len);
}

/* Up to which name every page is whole: the least last name of those that have more. */
static const struct id_segment_info *whole_up_to(const struct id_buffers *buffers)
{
    const struct id_segment_info *least = NULL;

    for (size_t i = 0; i < buffers->count; i++) {
        const struct id_segment_info *last = last_of(&buffers->nodes[i].page);

        least = last != NULL && (least == NULL || order_by_tag(last, least) < 0) ? last : least;
    }
    return least;
}

static void put_node(const struct id_node_buffers *node, const struct id_segment_info *last,
                     struct buf *json)
{
    size_t count = node->page.count;

    while (last != NULL && count > 0 && order_by_tag(&node->page.items[count - 1], last) > 0) {
        count--;
    }
    buf_printf(json, "{\"node_id\":%llu,\"asked\":%s,\"answered\":%s,", ull(node->node_id),
               node->asked ? "true" : "false", node->answered ? "true" : "false");
    put_segments(node->page.items, count, json);
    buf_printf(json, "}");
}

static int cluster_segments_cb(struct conn *conn, struct call *call)
{
    const struct id_segment_info *last = whole_up_to(call->buffers);
    struct buf *json = reply_begin(conn);

    buf_printf(json, "{\"nodes\":[");
    for (size_t i = 0; i < call->buffers->count; i++) {
        buf_printf(json, "%s", i > 0 ? "," : "");
        put_node(&call->buffers->nodes[i], last, json);
    }
    buf_printf(json, "]");
    put_next(last, json);
    return 200;
}

/* A node that does not answer within this is shown as one that did not. */
#define ALL_WAIT_MS 1000
/* Of each node: all together are no more than what one node lists. */
#define ALL_TAGS_MAX 100

_Static_assert((LIMIT_NODES + 1) * ALL_TAGS_MAX <= LIMIT_TAGS_PER_PAGE, "a reply's size");

int handle_cluster_segments(struct conn *conn)
{
    struct param options[] = {PAGE_OPTIONS};
    struct call *call;

    options[2].max = ALL_TAGS_MAX;
    if (!request_options(conn, options, COUNT_OF(options)) || !narrow_list(conn, &options[0])) {
        return ANSWERED;
    }
    call = call_new(ID_REQUEST_BUFFERS, cluster_segments_cb);
    query_list_encode(&call->request.payload, options[0].text, options[0].len, options[1].text,
                      options[1].len, (uint32_t)options[2].number);
    return call_submit_for(conn, call, ALL_WAIT_MS);
}

/* --- members, leader, level --- */

/* How an outcome is answered. */
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

/* An answer on a member, by its id, or on the level, by its number. see: it was only looked at. */
static int put_answer(struct conn *conn, const struct call *call, const char *what, bool see)
{
    const struct id_health *health = api_loop(conn)->backend->health;
    const struct buf *reply = &call->request.reply;
    const struct outcome *outcome;
    struct member_answer answer;
    struct buf *json;

    if (member_answer_decode(reply->data, reply->len, &answer) != 0 ||
        outcomes[answer.outcome].status == 0) { /* a number that is no outcome */
        return ERR_BAD_MESSAGE;
    }
    outcome = &outcomes[answer.outcome];
    if (!see && outcome->code != NULL) {
        return reply_error(conn, outcome->status, outcome->code, "%s", answer.why);
    }
    json = reply_begin(conn);
    if (see) { /* the leader's word; what this node has applied may be a moment older */
        buf_printf(json, "{\"%s\":%u,\"can_rise\":%s,\"newest\":%s", what,
                   atomic_load(&health->level), answer.outcome == MEMBER_DONE ? "true" : "false",
                   answer.outcome == MEMBER_NOT_NEXT ? "true" : "false");
    } else {
        buf_printf(json, "{\"%s\":%llu,\"status\":\"%s\"", what, ull(call->member_id),
                   answer.outcome == MEMBER_DONE ? "done" : "pending");
    }
    text_put_field(json, ",\"message\":", answer.why);
    buf_printf(json, "}");
    return see ? 200 : outcome->status;
}

static int member_answered_cb(struct conn *conn, struct call *call)
{
    return put_answer(conn, call, "id", false);
}

static int level_cb(struct conn *conn, struct call *call)
{
    return put_answer(conn, call, "level", call->member_id == 0);
}

/* number: the member's id, or the level. */
static int submit_member_ask(struct conn *conn, const struct member_ask *ask, uint64_t number,
                             int (*finish)(struct conn *conn, struct call *call),
                             uint32_t timeout_ms)
{
    struct call *call = call_new(ID_REQUEST_MEMBER, finish);

    call->member_id = number;
    member_ask_encode(ask, &call->request.payload);
    return call_submit_for(conn, call, timeout_ms);
}

/* What each asks for: an id in the path or the body, an address, the option force. */
static const struct form {
    bool id_in_path;
    bool body;
    bool address;
    bool force;
} forms[] = {
    [MEMBER_ASK_ADD] = {.body = true, .address = true, .force = true},
    [MEMBER_ASK_REMOVE] = {.id_in_path = true, .force = true},
    [MEMBER_ASK_LEAD] = {.body = true},
    [MEMBER_ASK_MOVE] = {.id_in_path = true, .body = true, .address = true, .force = true},
};

/* The body: an id unless the path has it, and an address. */
static bool read_body(struct conn *conn, struct member_ask *ask)
{
    const struct form *form = &forms[ask->kind];
    struct param fields[] = {
        {.name = "id", .needed = true, .min = 1, .max = LIMIT_NODE_ID},
        {.name = "peer_address", .needed = true, .kind = PARAM_TEXT},
    };
    struct param *address = &fields[1];
    json_t *body = request_body(conn, "a member's fields", "", form->id_in_path ? address : fields,
                                form->address && !form->id_in_path ? 2 : 1);
    char shown[SHOWN_BYTES];
    const char *why;
    bool good = body != NULL;

    if (good && form->address && !member_address_check(address->text, address->len, &why)) {
        good = reply_error(conn, 400, "bad_address", "peer_address %s is no host:port to dial: %s",
                           text_show(address->text, address->len, shown, sizeof shown), why);
    } else if (good && form->address) {
        memcpy(ask->address, address->text, address->len);
    }
    ask->node_id = form->id_in_path ? ask->node_id : fields[0].number;
    json_decref(body);
    return good;
}

static int handle_member_ask(struct conn *conn, enum member_ask_kind kind)
{
    struct param options[] = {OPTION_TIMEOUT(conn), {.name = "force", .max = 1}};
    struct member_ask ask = {.kind = (uint8_t)kind};
    const struct form *form = &forms[kind];

    if ((form->id_in_path &&
         !request_path_number(conn, "node id", 1, LIMIT_NODE_ID, &ask.node_id)) ||
        !request_options(conn, options, form->force ? 2 : 1) ||
        (form->body && !read_body(conn, &ask))) {
        return ANSWERED;
    }
    ask.force = options[1].number == 1;
    return submit_member_ask(conn, &ask, ask.node_id, member_answered_cb,
                             (uint32_t)options[0].number);
}

/* --- the level --- */

int handle_level_see(struct conn *conn)
{
    const struct member_ask ask = {.kind = MEMBER_ASK_LEVEL_SEE};
    struct param options[] = {OPTION_TIMEOUT(conn)};

    return request_options(conn, options, 1)
               ? submit_member_ask(conn, &ask, 0, level_cb, (uint32_t)options[0].number)
               : ANSWERED;
}

int handle_level_raise(struct conn *conn)
{
    struct param fields[] = {{.name = "level", .needed = true, .min = 1, .max = UINT16_MAX}};
    struct member_ask ask = {.kind = MEMBER_ASK_LEVEL};
    struct param options[] = {OPTION_TIMEOUT(conn)};
    json_t *body;

    if (!request_options(conn, options, 1)) {
        return ANSWERED;
    }
    body = request_body(conn, "the level", "", fields, 1);
    if (body == NULL) {
        return ANSWERED;
    }
    ask.level = (uint16_t)fields[0].number;
    json_decref(body);
    return submit_member_ask(conn, &ask, ask.level, level_cb, (uint32_t)options[0].number);
}

/* --- members --- */

int handle_member_add(struct conn *conn)
{
    return handle_member_ask(conn, MEMBER_ASK_ADD);
}

int handle_member_remove(struct conn *conn)
{
    return handle_member_ask(conn, MEMBER_ASK_REMOVE);
}

int handle_member_move(struct conn *conn)
{
    return handle_member_ask(conn, MEMBER_ASK_MOVE);
}

int handle_leader(struct conn *conn)
{
    return handle_member_ask(conn, MEMBER_ASK_LEAD);
}

/* --- nodes --- */

/* options: timeout_ms and force. */
static int submit_place(struct conn *conn, struct member_ask *ask, const struct param *options)
{
    uint32_t level = atomic_load(&api_loop(conn)->backend->health->level);

    if (level < PLACEMENT_LEVEL) {
        return reply_error(conn, 409, "level_too_low",
                           "nodes are drained and weighed from level %d on, and the cluster is at "
                           "level %u",
                           PLACEMENT_LEVEL, level);
    }
    ask->force = options[1].number == 1;
    return submit_member_ask(conn, ask, ask->node_id, member_answered_cb,
                             (uint32_t)options[0].number);
}

static int place_drained(struct conn *conn, bool drained)
{
    struct param options[] = {OPTION_TIMEOUT(conn), {.name = "force", .max = 1}};
    struct member_ask ask = {.kind = MEMBER_ASK_PLACE, .place = PLACE_DRAINED, .drained = drained};

    if (!request_path_number(conn, "node id", 1, LIMIT_NODE_ID, &ask.node_id) ||
        !request_options(conn, options, drained ? 2 : 1)) {
        return ANSWERED;
    }
    return submit_place(conn, &ask, options);
}

int handle_node_drain(struct conn *conn)
{
    return place_drained(conn, true);
}

int handle_node_resume(struct conn *conn)
{
    return place_drained(conn, false);
}

int handle_node_put(struct conn *conn)
{
    struct param options[] = {OPTION_TIMEOUT(conn), {.name = "force", .max = 1}};
    struct param fields[] = {{.name = "weight", .needed = true, .max = NODE_WEIGHT_MAX}};
    struct member_ask ask = {.kind = MEMBER_ASK_PLACE, .place = PLACE_WEIGHT};
    json_t *body;

    if (!request_path_number(conn, "node id", 1, LIMIT_NODE_ID, &ask.node_id) ||
        !request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    body = request_body(conn, "a node's fields", "", fields, 1);
    if (body == NULL) {
        return ANSWERED;
    }
    ask.weight = (uint16_t)fields[0].number;
    json_decref(body);
    return submit_place(conn, &ask, options);
}

/* --- clients that are cut --- */

static void put_cut(const struct client_cut *cut, struct buf *json)
{
    char time[TEXT_TIME_BYTES];

    text_put_field(json, "{\"who\":", cut->who);
    text_put_field(json, ",\"until\":", text_time_rfc3339(cut->until_ms, time));
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
            put_cut(&cuts->items[i], json);
            buf_printf(json, "}");
            comma = ",";
        }
    }
    buf_printf(json, "]}");
    return 200;
}

/* An address, in its one form, or a token's name, out of the path. */
static bool read_who(struct conn *conn, struct client_cut *cut)
{
    const struct request *request = &conn->request;
    const char *raw = conn_at(conn, request->name_at);
    uint32_t level = atomic_load(&api_loop(conn)->backend->health->level);
    char shown[SHOWN_BYTES];
    char text[PROXY_NETWORK_BYTES + LIMIT_CUT_WHO_BYTES];
    size_t len;

    if (api_loop(conn)->api->auth == NULL) {
        return reply_err(conn, ERR_DISABLED);
    }
    if (level < CUT_LEVEL) {
        return reply_error(conn, 409, "level_too_low",
                           "clients are cut from level %d on, and the cluster is at level %u",
                           CUT_LEVEL, level);
    }
    if (target_decode(raw, request->name_len, TARGET_PLUS_IS_PLUS, text, sizeof text, &len) == 0) {
        if (proxy_network(text, len, cut->who)) {
            return true;
        }
        if (tokens_name_check(text, len)) {
            memcpy(cut->who, text, len);
            return true;
        }
    }
    return reply_error(
        conn, 400, "bad_request",
        "%s is no address, as 10.0.0.7 or 2001:db8::/32 with zeros after the prefix, "
        "and no token's name",
        text_show(raw, request->name_len, shown, sizeof shown));
}

/* Does it hit the client that asks, or take the last token that may end it? Answered then. */
static bool cut_hurts(struct conn *conn, const struct client_cut *cut)
{
    const struct token_table *tokens = api_loop(conn)->tokens;
    const struct identity *asks = gate_identity(conn);
    struct sockaddr_storage address = {0};
    const struct identity *token;
    bool is_admins = false;
    bool is_last = (tokens_anonymous(tokens)->roles & ROLE_ADMIN) == 0;

    if (asks->kind != IDENTITY_ANONYMOUS && strcmp(asks->name, cut->who) == 0) {
        return !reply_error(conn, 409, "cuts_asker",
                            "%s is the token of this very request; force=1 does it nevertheless",
                            cut->who);
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

/* Tokens are of each node's own file: another node may have it. */
static bool is_known_here(const struct api_loop *loop, const char *who)
{
    char address[PROXY_NETWORK_BYTES];
    const struct identity *token;

    for (size_t i = 1; (token = tokens_at(loop->tokens, i)) != NULL; i++) {
        if (strcmp(token->name, who) == 0) {
            return true;
        }
    }
    return proxy_network(who, strlen(who), address);
}

static int cut_cb(struct conn *conn, struct call *call)
{
    const struct buf *reply = &call->request.reply;
    const struct client_cut *cut = &call->cut;
    struct buf *json = reply_begin(conn);
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
    put_cut(cut, json);
    if (!is_known_here(api_loop(conn), cut->who)) {
        buf_printf(json, ",\"warning\":\"no token of this node is named %s\"", cut->who);
    }
    buf_printf(json, "}");
    return 200;
}

static int submit_cut(struct conn *conn, const struct client_cut *cut, uint64_t timeout_ms)
{
    struct call *call = call_new(ID_REQUEST_COMMAND, cut_cb);

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
    json_t *body;

    if (!request_options(conn, options, COUNT_OF(options)) || !read_who(conn, &cut)) {
        return ANSWERED;
    }
    body = request_body(conn, "a cut's fields", "", fields, COUNT_OF(fields));
    if (body == NULL) {
        return ANSWERED;
    }
    cut.until_ms = gate_now_ms(api_loop(conn)) + fields[0].number * 1000;
    if (fields[1].present && tag_reason_check(fields[1].text, fields[1].len, &why) != 0) {
        (void)reply_error(conn, 400, "bad_request", "%s", why);
    } else {
        memcpy(cut.reason, fields[1].present ? fields[1].text : "", fields[1].len);
        if (options[1].number == 1 || !cut_hurts(conn, &cut)) {
            (void)submit_cut(conn, &cut, options[0].number);
        }
    }
    json_decref(body);
    return ANSWERED;
}

int handle_cut_end(struct conn *conn)
{
    struct param options[] = {OPTION_TIMEOUT(conn)};
    struct client_cut cut = {0};

    return request_options(conn, options, 1) && read_who(conn, &cut)
               ? submit_cut(conn, &cut, options[0].number)
               : ANSWERED;
}

/* --- GET /api/backup --- */

#define PART_MS 10000 /* for a part: a read from the node's own disk */

/* A backup whose client is still to take what was sent. */
struct backup_stream {
    struct http_wait wait;
    struct api_loop *loop;
    uint64_t number;
};

static void backup_give_up(struct api_loop *loop, uint64_t number)
{
    struct call *call = call_new(ID_REQUEST_BACKUP, NULL);

    call->backup = (struct id_backup){.number = number, .close = true};
    call_submit_alone(loop, call);
}

/* A part came, and its client has gone. */
static void backup_gone(struct call *call)
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

static struct call *backup_call(uint64_t number)
{
    struct call *call = call_new(ID_REQUEST_BACKUP, backup_part_cb);

    call->sees_errors = true;
    call->gone = backup_gone;
    call->backup.number = number;
    return call;
}

/* The client has taken all: ask for more. */
static void backup_sent(struct http_wait *wait)
{
    struct backup_stream *stream = CONTAINER(wait, struct backup_stream, wait);
    struct conn *conn = conn_resume(wait);

    (void)call_submit_for(conn, backup_call(stream->number), PART_MS);
    free(stream);
}

/* Send a part, and wait until it is taken. */
static void backup_send_part(struct conn *conn, const struct call *call)
{
    struct backup_stream *stream;

    conn_stream_put(conn, call->request.reply.data, call->request.reply.len);
    if (call->backup.end) {
        conn_stream_end(conn, NULL);
        return;
    }
    stream = MUST_HAVE(calloc(1, sizeof *stream));
    *stream = (struct backup_stream){.wait = {.cancel = backup_cancel, .sent = backup_sent},
                                     .loop = api_loop(conn),
                                     .number = call->backup.number};
    conn_wait(conn, &stream->wait, TIMER_NEVER);
}

static int backup_part_cb(struct conn *conn, struct call *call)
{
    if (call->request.status != 0) {
        conn_stream_end(conn, "the backup was given up");
    } else {
        backup_send_part(conn, call);
    }
    return ANSWERED;
}

static int backup_begun_cb(struct conn *conn, struct call *call)
{
    if (call->request.status == ERR_OVERLOADED) {
        return reply_error(conn, 503, "overloaded",
                           "another backup is being taken on this node; one at a time");
    }
    if (call->request.status != 0) {
        return reply_err(conn, call->request.status);
    }
    conn_stream(conn, "application/octet-stream");
    backup_send_part(conn, call);
    return ANSWERED;
}

int handle_backup(struct conn *conn)
{
    struct param options[] = {OPTION_CONSISTENCY, OPTION_TIMEOUT(conn)};
    struct call *call;

    if (!request_options(conn, options, COUNT_OF(options))) {
        return ANSWERED;
    }
    call = backup_call(0);
    call->finish = backup_begun_cb;
    call->backup.local = options[0].number == 1;
    return call_submit_for(conn, call, (uint32_t)options[1].number);
}
