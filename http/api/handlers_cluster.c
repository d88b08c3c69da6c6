/*
 * handlers_cluster.c - GET /api/cluster, GET /api/node/segments and GET /api/cluster/segments:
 * views of this node, asked of the raft loop, and what the others say of theirs.
 *
 * Failure modes: those of the backend, see reply_err().
 *
 * Thread: the loop's.
 */
#include "http/api/handlers.h"

#include "http/api/call.h"
#include "http/api/cluster_json.h"
#include "http/api/denial.h"
#include "http/api/request.h"
#include "src/base/assert.h"

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
    buf_printf(buf, ",\"size\":%u}", slot->size);
}

static void put_segment(const struct id_segment_info *info, struct buf *buf)
{
    static const char *const states[] = {[ID_TAG_ACTIVE] = "active",
                                         [ID_TAG_UNKNOWN] = "unknown",
                                         [ID_TAG_EXHAUSTED] = "exhausted",
                                         [ID_TAG_STRICT] = "strict",
                                         [ID_TAG_MONOTONIC] = "monotonic"};

    ASSERT(info->state < COUNT_OF(states));
    text_put_field_of(buf, "{\"tag\":", info->name, info->name_len);
    buf_printf(buf, ",\"state\":\"%s\",\"slots\":[", states[info->state]);
    put_slot(&info->slots[0], true, buf);
    buf_printf(buf, ",");
    put_slot(&info->slots[1], false, buf);
    buf_printf(buf, "],\"step\":%u,\"refill_in_flight\":%s", info->step,
               info->refill_in_flight ? "true" : "false");
    text_put_number(buf, ",\"last_refill_ago_ms\":", info->last_refill_ago_ms);
    buf_printf(buf, ",\"rate_per_s\":%llu}", ull(info->rate_per_s));
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

/* The name to go on behind; NULL: there is no more. */
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
