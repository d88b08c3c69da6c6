/*
 * cluster.c - the cluster as operators change it: members, leadership, level; the segments of a
 * node and of all; and the backup.
 *
 * The happy path of a view: the raft loop is asked, and its answer shown. Of a change (POST
 * /api/cluster/members, DELETE and PUT /api/cluster/members/{id}, POST /api/cluster/leader and
 * /api/cluster/level): the request is checked, the backend asks the leader until it is so, and the
 * answer is 200; if that takes longer than timeout_ms, 202, and it continues without this request:
 * asking again, on any node, waits for the same change.
 *
 * The happy path of the backup, all rows of the state as a file (backup_file.h), streamed: the
 * first call to the backend begins the backup and gives its first bytes; they are sent; when the
 * client has taken them, the next call asks for more, until the last. So at most one part is in
 * memory, however slow the client is; the usual limit of connections cuts it off when it takes
 * nothing at all.
 *
 * Failure modes: bad input 400; an id that no member has 404; whatever stands against the change
 * 409, with a code of its own; a node that cannot be reached, or no answer, 503. A backup: before
 * the first byte 503, as other requests; `overloaded` when another backup is being taken on this
 * node; later the connection is reset, and the file has no closing record. The client goes: the
 * backend hears of it, so that the next backup can begin.
 *
 * Thread: the loop's.
 */
#include "http/api/route.h"

#include <stdlib.h>
#include <string.h>

#include "http/api/audited.h"
#include "http/api/context.h"
#include "http/api/request.h"
#include "http/proto/text.h"
#include "src/base/assert.h"
#include "src/base/container.h"
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

static int cluster_segments_cb(struct conn *conn, struct call *call)
{
    const struct id_buffers *buffers = call->buffers;
    /* Up to which name every page is whole: the least last name of those that have more. */
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

/* On a member by its id, or on the level by its number. */
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
    if (sees) { /* the leader's word; what this node has applied may be a moment older */
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

/* All fields that bodies may have, each needed where it is taken. */
enum ask_field { FIELD_ID, FIELD_ADDRESS, FIELD_LEVEL, FIELD_WEIGHT };

/* What each says: an id in the path, the option force, and these fields of a body. */
static const struct form {
    struct member_ask ask; /* what is the same of all */
    bool id_in_path;
    bool force;
    const char *body; /* its name in a message; NULL: there is none */
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

/* The body's fields. False: answered. */
static bool read_body(struct conn *conn, const struct form *form, struct member_ask *ask)
{
    struct param fields[] = {
        [FIELD_ID] = {.name = "id", .needed = true, .min = 1, .max = LIMIT_NODE_ID},
        [FIELD_ADDRESS] = {.name = "peer_address", .needed = true, .kind = PARAM_TEXT},
        [FIELD_LEVEL] = {.name = "level", .needed = true, .min = 1, .max = UINT16_MAX},
        [FIELD_WEIGHT] = {.name = "weight", .needed = true, .max = NODE_WEIGHT_MAX},
    };
    const struct param *address = &fields[FIELD_ADDRESS];
    json_t *body = request_body(conn, form->body, "", &fields[form->first], form->count);
    char shown[SHOWN_BYTES];
    const char *why;
    bool good = body != NULL;

    if (good && address->present && !member_address_check(address->text, address->len, &why)) {
        good = reply_error(conn, 400, "bad_address", "peer_address %s is no host:port to dial: %s",
                           text_show(address->text, address->len, shown, sizeof shown), why);
    } else if (good && address->present) {
        memcpy(ask->address, address->text, address->len);
    }
    ask->node_id = form->id_in_path ? ask->node_id : fields[FIELD_ID].number;
    ask->level = (uint16_t)fields[FIELD_LEVEL].number;
    ask->weight = (uint16_t)fields[FIELD_WEIGHT].number;
    json_decref(body);
    return good;
}

int handle_cluster_ask(struct conn *conn)
{
    const struct route *route = conn->request.route;
    const struct form *form = &forms[route->asks];
    struct param options[] = {OPTION_TIMEOUT(conn), {.name = "force", .max = 1}};
    uint32_t level = atomic_load(&api_loop(conn)->backend->health->level);
    struct member_ask ask = form->ask;
    struct call *call;

    if ((form->id_in_path &&
         !request_path_number(conn, "node id", 1, LIMIT_NODE_ID, &ask.node_id)) ||
        !request_options(conn, options, form->force ? 2 : 1) ||
        (form->body != NULL && !read_body(conn, form, &ask))) {
        return ANSWERED;
    }
    if (ask.kind == MEMBER_ASK_PLACE && level < PLACEMENT_LEVEL) {
        return reply_error(conn, 409, "level_too_low",
                           "nodes are drained and weighed from level %d on, and the cluster is at "
                           "level %u",
                           PLACEMENT_LEVEL, level);
    }
    ask.force = options[1].number == 1;
    call = call_new(ID_REQUEST_MEMBER, cluster_ask_cb);
    call->member_id = route->asks == ASK_LEVEL ? ask.level : ask.node_id;
    member_ask_encode(&ask, &call->request.payload);
    return call_submit_for(conn, call, (uint32_t)options[0].number);
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
