/*
 * handlers_cluster.c - GET /api/cluster and GET /api/node/segments: views of this node, asked of
 * the raft loop.
 *
 * Failure modes: those of the backend, see reply_err().
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include <string.h>

#include "http/api/call.h"
#include "http/api/context.h"
#include "http/api/request.h"
#include "src/base/assert.h"

static const char *state_name(enum id_node_state state)
{
    switch (state) {
    case ID_NODE_STARTING:
        return "starting";
    case ID_NODE_FOLLOWER:
        return "follower";
    case ID_NODE_CANDIDATE:
        return "candidate";
    case ID_NODE_LEADER:
        return "leader";
    case ID_NODE_STOPPING:
        return "stopping";
    }
    UNREACHABLE("a state of a node");
}

static void put_member(const struct id_member *member, struct buf *buf)
{
    buf_printf(buf, "{\"id\":%llu,\"peer_address\":", (unsigned long long)member->id);
    text_put_json(buf, member->peer_address, strlen(member->peer_address));
    buf_printf(buf, ",\"http_address\":");
    text_put_json(buf, member->http_address, strlen(member->http_address));
    buf_printf(buf, ",\"role\":");
    text_put_json(buf, member->role, strlen(member->role));
    buf_printf(buf, ",\"version\":");
    text_put_json(buf, member->version, strlen(member->version));
    buf_printf(buf, ",\"reachable\":%s,\"match_index\":%llu}", member->reachable ? "true" : "false",
               (unsigned long long)member->match_index);
}

/* What is being changed, or was left unfinished. */
static void put_change(const struct id_member_change *change, struct buf *buf)
{
    if (change->kind == NULL) {
        buf_printf(buf, "null");
        return;
    }
    buf_printf(buf, "{\"kind\":\"%s\",\"id\":%llu,\"state\":\"%s\"", change->kind,
               (unsigned long long)change->node_id, change->state);
    if (change->peer_address[0] != '\0') {
        buf_printf(buf, ",\"peer_address\":");
        text_put_json(buf, change->peer_address, strlen(change->peer_address));
    }
    buf_printf(buf, "}");
}

static void put_cluster(const struct id_cluster_status *status, struct buf *buf)
{
    ASSERT(status->member_count <= LIMIT_NODES);
    buf_printf(buf, "{\"cluster_id\":");
    text_put_json(buf, status->cluster_id, strlen(status->cluster_id));
    buf_printf(buf, ",\"node_id\":%llu,\"state\":\"%s\",\"leader_id\":",
               (unsigned long long)status->node_id, state_name(status->state));
    if (status->leader_id != 0) {
        buf_printf(buf, "%llu", (unsigned long long)status->leader_id);
    } else {
        buf_printf(buf, "null");
    }
    buf_printf(buf, ",\"term\":%llu,\"commit_index\":%llu,\"applied_index\":%llu,\"members\":[",
               (unsigned long long)status->term, (unsigned long long)status->commit_index,
               (unsigned long long)status->applied_index);
    for (size_t i = 0; i < status->member_count; i++) {
        buf_printf(buf, "%s", i > 0 ? "," : "");
        put_member(&status->members[i], buf);
    }
    buf_printf(buf, "],\"change\":");
    put_change(&status->change, buf);
    buf_printf(buf, "}");
}

static void cluster_cb(struct conn *conn, struct call *call)
{
    struct buf *scratch = &conn->conns->scratch;

    scratch->len = 0;
    put_cluster(&call->cluster, scratch);
    reply_json(conn, 200, scratch);
}

void handle_cluster(struct conn *conn)
{

    if (request_no_options(conn)) {
        call_submit(conn, call_new(ID_REQUEST_STATUS, cluster_cb));
    }
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

    ASSERT(info->state < sizeof states / sizeof(states[0]));
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

static void segments_cb(struct conn *conn, struct call *call)
{
    const struct id_segments_page *page = &call->segments;
    struct buf *scratch = &conn->conns->scratch;

    scratch->len = 0;
    buf_printf(scratch, "{\"segments\":[");
    for (size_t i = 0; i < page->count; i++) {
        buf_printf(scratch, "%s", i > 0 ? "," : "");
        put_segment(&page->items[i], scratch);
    }
    buf_printf(scratch, "],\"next\":");
    if (page->more && page->count > 0) {
        const struct id_segment_info *last = &page->items[page->count - 1];

        text_put_json(scratch, last->name, last->name_len);
    } else {
        buf_printf(scratch, "null");
    }
    buf_printf(scratch, "}");
    reply_json(conn, 200, scratch);
}

void handle_node_segments(struct conn *conn)
{
    struct option options[PAGE_OPTIONS] = {PAGE_OPTION_NAMES};
    char space[LIMIT_HTTP_TARGET_BYTES];
    struct call *call;
    struct page page;

    if (!request_page(conn, options, PAGE_OPTIONS, space, &page)) {
        return;
    }
    call = call_new(ID_REQUEST_SEGMENTS, segments_cb);
    query_list_encode(&call->request.payload, page.prefix, page.prefix_len, page.after,
                      page.after_len, page.limit);
    call_submit(conn, call);
}
