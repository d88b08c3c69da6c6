/*
 * handlers_cluster.c - GET /api/cluster and GET /api/node/segments: views of this node, asked of
 * the raft loop.
 *
 * Failure modes: those of the backend, see reply_err().
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/denial.h"
#include "http/api/request.h"
#include "src/base/assert.h"

static const char *state_name(enum id_node_state state)
{
    static const char *const names[] = {[ID_NODE_STARTING] = "starting",
                                        [ID_NODE_FOLLOWER] = "follower",
                                        [ID_NODE_CANDIDATE] = "candidate",
                                        [ID_NODE_LEADER] = "leader",
                                        [ID_NODE_STOPPING] = "stopping"};

    ASSERT(state < COUNT_OF(names));
    return names[state];
}

static void put_member(const struct id_member *member, struct buf *json)
{
    buf_printf(json, "{\"id\":%llu", (unsigned long long)member->id);
    text_put_field(json, ",\"peer_address\":", member->peer_address);
    text_put_field(json, ",\"http_address\":", member->http_address);
    text_put_field(json, ",\"role\":", member->role);
    text_put_field(json, ",\"version\":", member->version);
    if (member->levels.max != 0) {
        buf_printf(json, ",\"levels\":{\"min\":%u,\"max\":%u}", member->levels.min,
                   member->levels.max);
    } else {
        buf_printf(json, ",\"levels\":null");
    }
    buf_printf(json, ",\"reachable\":%s,\"match_index\":%llu}",
               member->reachable ? "true" : "false", (unsigned long long)member->match_index);
}

/* What is being changed, or was left unfinished. */
static void put_change(const struct id_member_change *change, struct buf *json)
{
    if (change->kind == NULL) {
        buf_printf(json, "null");
        return;
    }
    buf_printf(json, "{\"kind\":\"%s\",\"id\":%llu,\"state\":\"%s\"", change->kind,
               (unsigned long long)change->node_id, change->state);
    if (change->peer_address[0] != '\0') {
        text_put_field(json, ",\"peer_address\":", change->peer_address);
    }
    buf_printf(json, "}");
}

static void put_level(const struct level_row *level, struct buf *json)
{
    char time[TEXT_TIME_BYTES];

    buf_printf(json, "{\"number\":%u,\"since\":", level->level);
    if (level->index != 0) {
        buf_printf(json, "\"%s\",\"index\":%llu}", text_time_rfc3339(level->wall_ms, time),
                   (unsigned long long)level->index);
    } else {
        buf_printf(json, "null,\"index\":null}");
    }
}

static int cluster_cb(struct conn *conn, struct call *call)
{
    const struct id_cluster_status *status = call->cluster;
    char uid[UID_TEXT_BYTES];
    struct buf *json = reply_begin(conn);

    ASSERT(status->member_count <= LIMIT_NODES);
    text_put_field(json, "{\"cluster_id\":", status->cluster_id);
    if (uid_is_none(&status->uid)) {
        buf_printf(json, ",\"uid\":null");
    } else {
        text_put_field(json, ",\"uid\":", uid_text(&status->uid, uid));
    }
    buf_printf(json, ",\"node_id\":%llu,\"state\":\"%s\",\"leader_id\":",
               (unsigned long long)status->node_id, state_name(status->state));
    if (status->leader_id != 0) {
        buf_printf(json, "%llu", (unsigned long long)status->leader_id);
    } else {
        buf_printf(json, "null");
    }
    buf_printf(json, ",\"term\":%llu,\"commit_index\":%llu,\"applied_index\":%llu,\"level\":",
               (unsigned long long)status->term, (unsigned long long)status->commit_index,
               (unsigned long long)status->applied_index);
    put_level(&status->level, json);
    buf_printf(json, ",\"members\":[");
    for (size_t i = 0; i < status->member_count; i++) {
        buf_printf(json, "%s", i > 0 ? "," : "");
        put_member(&status->members[i], json);
    }
    buf_printf(json, "],\"change\":");
    put_change(&status->change, json);
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
        buf_printf(buf, "\"%llu\",\"end\":\"%llu\"", (unsigned long long)slot->next_id,
                   (unsigned long long)slot->end);
    } else {
        buf_printf(buf, "null,\"end\":null");
    }
    buf_printf(buf, ",\"size\":%u}", slot->size);
}

static void put_segment(const struct id_segment_info *info, struct buf *buf)
{
    static const char *const states[] = {[ID_TAG_ACTIVE] = "active",
                                         [ID_TAG_UNKNOWN] = "unknown",
                                         [ID_TAG_EXHAUSTED] = "exhausted",
                                         [ID_TAG_STRICT] = "strict"};

    ASSERT(info->state < COUNT_OF(states));
    buf_printf(buf, "{\"tag\":");
    text_put_json(buf, info->name, info->name_len);
    buf_printf(buf, ",\"state\":\"%s\",\"slots\":[", states[info->state]);
    put_slot(&info->slots[0], true, buf);
    buf_printf(buf, ",");
    put_slot(&info->slots[1], false, buf);
    buf_printf(buf, "],\"step\":%u,\"refill_in_flight\":%s,\"last_refill_ago_ms\":", info->step,
               info->refill_in_flight ? "true" : "false");
    if (info->last_refill_ago_ms != UINT64_MAX) {
        buf_printf(buf, "%llu", (unsigned long long)info->last_refill_ago_ms);
    } else {
        buf_printf(buf, "null");
    }
    buf_printf(buf, ",\"rate_per_s\":%llu}", (unsigned long long)info->rate_per_s);
}

static int segments_cb(struct conn *conn, struct call *call)
{
    const struct id_segments_page *page = &call->segments;
    struct buf *json = reply_begin(conn);

    buf_printf(json, "{\"segments\":[");
    for (size_t i = 0; i < page->count; i++) {
        buf_printf(json, "%s", i > 0 ? "," : "");
        put_segment(&page->items[i], json);
    }
    buf_printf(json, "],\"next\":");
    if (page->more && page->count > 0) {
        const struct id_segment_info *last = &page->items[page->count - 1];

        text_put_json(json, last->name, last->name_len);
    } else {
        buf_printf(json, "null");
    }
    buf_printf(json, "}");
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
