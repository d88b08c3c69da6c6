/*
 * buffers.c - see buffers.h. Thread: the raft loop.
 */
#include "src/service/buffers.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/id/backend/id_backend.h"

bool buffers_look(const struct buffers *buffers, const void *data, size_t len,
                  struct id_segments_page *ret_page)
{
    struct query query;

    if (query_decode(data, len, &query) != 0 || query.type != QUERY_TAG_LIST) {
        return false;
    }
    allocator_segments(buffers->allocator, query.name, query.name_len, query.after, query.after_len,
                       query.limit, ret_page);
    return true;
}

/* --- requests --- */

static bool is_answered(const struct id_buffers *out)
{
    for (size_t i = 0; i < out->count; i++) {
        if (out->nodes[i].asked && !out->nodes[i].answered) {
            return false;
        }
    }
    return true;
}

static void buffers_leave(struct buffers *buffers, struct cluster_request *request, int status)
{
    ASSERT(buffers->count > 0);
    TAILQ_REMOVE(&buffers->waits, request, link);
    buffers->count--;
    timer_cancel(buffers->on->timers, &request->deadline);
    answers_put(buffers->on->answers, request, status);
}

static void buffers_deadline_cb(struct timer *timer, uint64_t now_ms)
{
    struct cluster_request *request = CONTAINER(timer, struct cluster_request, deadline);

    (void)now_ms;
    ASSERT(request->kind == ID_REQUEST_BUFFERS);
    buffers_leave(request->holder, request, 0);
}

static struct id_node_buffers *buffers_place_of(struct id_buffers *out, uint64_t node_id)
{
    for (size_t i = 0; i < out->count; i++) {
        if (out->nodes[i].node_id == node_id) {
            return &out->nodes[i];
        }
    }
    return NULL;
}

void buffers_submit(struct buffers *buffers, struct cluster_request *request)
{
    const struct raft_context *on = buffers->on;
    struct id_buffers *out = request->out;
    struct wire_buffers question = {.data = request->payload.data, .len = request->payload.len};
    struct configuration members;
    struct id_segments_page own;

    ASSERT(request->kind == ID_REQUEST_BUFFERS && out != NULL);
    *out = (struct id_buffers){0};
    if (buffers->count >= LIMIT_BUFFERS_WAITS) {
        answers_put(buffers->on->answers, request, ERR_OVERLOADED);
        return;
    }
    if (!buffers_look(buffers, request->payload.data, request->payload.len, &own)) {
        answers_put(buffers->on->answers, request, ERR_BAD_MESSAGE);
        return;
    }
    out->nodes[out->count++] = (struct id_node_buffers){
        .node_id = on->node_id, .asked = true, .answered = true, .page = own};
    request->id = ++buffers->number;
    request->holder = buffers;
    question.number = request->id;
    applier_configured(&on->driver->applier, &members);
    MEMBER_FOREACH (member, &members) {
        if (member->id != on->node_id) {
            out->nodes[out->count++] = (struct id_node_buffers){
                .node_id = member->id,
                .asked = context_send_buffers(on, member->id, FRAME_BUFFERS, &question) == 0};
        }
    }
    if (is_answered(out)) {
        answers_put(buffers->on->answers, request, 0);
        return;
    }
    TAILQ_INSERT_TAIL(&buffers->waits, request, link);
    buffers->count++;
    timer_init(&request->deadline, buffers_deadline_cb);
    timer_arm(on->timers, &request->deadline, request->deadline_ms);
}

/* --- frames --- */

bool buffers_receive(struct buffers *buffers, uint64_t from, const uint8_t *payload, size_t len)
{
    struct wire_buffers message;
    struct cluster_request *request;
    struct id_node_buffers *node;
    struct id_segments_page page;
    BUF_LOCAL(data);

    if (wire_buffers_decode(payload, len, &message) != 0) {
        return false;
    }
    if (!message.answer) { /* a question */
        if (!buffers_look(buffers, message.data, message.len, &page)) {
            return false;
        }
        segments_page_put(&data, &page);
        free(page.items);
        message = (struct wire_buffers){
            .number = message.number, .answer = true, .data = data.data, .len = data.len};
        (void)context_send_buffers(buffers->on, from, FRAME_BUFFERS, &message);
        return true;
    }
    TAILQ_FOREACH (request, &buffers->waits, link) {
        if (request->id == message.number) {
            break;
        }
    }
    node = request != NULL ? buffers_place_of(request->out, from) : NULL;
    if (node == NULL || !node->asked || node->answered) {
        return true; /* late, or not asked by this process */
    }
    if (segments_page_read(message.data, message.len, &node->page) != 0) {
        return false;
    }
    node->answered = true;
    if (is_answered(request->out)) {
        buffers_leave(buffers, request, 0);
    }
    return true;
}

void buffers_link_changed(struct buffers *buffers, uint64_t peer)
{
    struct cluster_request *request;
    struct cluster_request *next;

    for (request = TAILQ_FIRST(&buffers->waits); request != NULL; request = next) {
        struct id_node_buffers *node = buffers_place_of(request->out, peer);

        next = TAILQ_NEXT(request, link);
        if (node != NULL && !node->answered) {
            node->asked = false;
            if (is_answered(request->out)) {
                buffers_leave(buffers, request, 0);
            }
        }
    }
}

void buffers_stop(struct buffers *buffers)
{
    struct cluster_request *request;

    while ((request = TAILQ_FIRST(&buffers->waits)) != NULL) {
        buffers_leave(buffers, request, ERR_SHUTTING_DOWN);
    }
}
