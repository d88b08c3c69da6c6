/*
 * give_back.c - see give_back.h.
 */
#include "src/id/alloc/give_back.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/id/codec/command.h"

/* One COMMAND_GIVE_BACK, gathered or under way. */
struct returned {
    struct id_request request;
    struct give_back *to;
    size_t count;
    uint32_t sizes[LIMIT_GRANTS_PER_ENTRY];
    uint64_t total;
};

struct giving {
    struct give_back *to;
    row_of_fn row_of;
    void *data;
    uint64_t deadline_ms;
    struct returned *gathered; /* NULL: nothing */
    size_t tag_count;
};

static void returned_done_cb(struct id_request *request)
{
    struct returned *returned = CONTAINER(request, struct returned, request);
    struct give_back *to = returned->to;
    int32_t statuses[LIMIT_GRANTS_PER_ENTRY];
    uint64_t taken = 0;
    size_t count = 0;
    int err = request->status;

    if (err == 0) {
        err = statuses_decode(request->reply.data, request->reply.len, statuses,
                              LIMIT_GRANTS_PER_ENTRY, &count);
    }
    if (err == 0 && count == returned->count) {
        for (size_t i = 0; i < count; i++) {
            taken += statuses[i] == 0 ? returned->sizes[i] : 0;
        }
    }
    ASSERT(taken <= returned->total && to->open > 0);
    to->returned += taken;
    to->burnt += returned->total - taken;
    to->open--;
    buf_free(&request->payload);
    buf_free(&request->reply);
    free(returned);
}

static void send(struct giving *giving)
{
    struct returned *returned = giving->gathered;

    if (returned == NULL) {
        return;
    }
    ASSERT(returned->count >= 1 && returned->count <= LIMIT_GRANTS_PER_ENTRY);
    giving->gathered = NULL;
    command_items_end(&returned->request.payload);
    giving->to->open++;
    giving->to->proposer->propose(giving->to->proposer, &returned->request);
}

static void gather(struct giving *giving, const struct give_back_item *item)
{
    struct returned *returned = giving->gathered;

    if (returned == NULL) {
        returned = calloc(1, sizeof *returned);
        ASSERT(returned != NULL);
        returned->to = giving->to;
        returned->request.kind = ID_REQUEST_COMMAND;
        returned->request.deadline_ms = giving->deadline_ms;
        returned->request.done = returned_done_cb;
        command_put(&returned->request.payload, COMMAND_GIVE_BACK,
                    &(struct command_list){.wall_ms = clock_wall_ms(giving->to->clock)});
        giving->gathered = returned;
    }
    command_item_put(&returned->request.payload, COMMAND_GIVE_BACK, item);
    returned->sizes[returned->count++] = (uint32_t)(item->end - item->first);
    returned->total += item->end - item->first;
    giving->tag_count++;
    if (returned->count == LIMIT_GRANTS_PER_ENTRY) {
        send(giving);
    }
}

/* May the range that ends the node's newest segment be the top of its tag? This node may be behind
 * the cluster; then the state machine says no. */
static bool may_be_top(const struct tag_row *row, const struct id_tag *tag, uint64_t end)
{
    return row != NULL && !row->deleted && row->mode == TAG_MODE_TREND &&
           row->generation == tag->refill.generation && row->max_id <= end;
}

static void give_tag(struct giving *giving, struct id_tag *tag)
{
    struct segment_range range;
    struct segment_range top = {0};
    struct segment_view view;
    const struct tag_row *row;
    uint64_t total = 0;
    uint64_t given = 0;

    while (segment_claim(&tag->buffer, UINT32_MAX, &range, &view) == 0) {
        total += range.count;
        if (top.count > 0 && top.first + top.count == range.first &&
            top.count <= UINT32_MAX - range.count) {
            top.count += range.count;
        } else {
            top = range;
        }
    }
    if (total == 0) {
        return;
    }
    row = giving->row_of(giving->data, tag->name, tag->name_len);
    if (giving->tag_count < LIMIT_GIVE_BACK_TAGS && may_be_top(row, tag, top.first + top.count)) {
        struct give_back_item item = {tag->name, tag->name_len, row->generation, top.first,
                                      top.first + top.count};

        gather(giving, &item);
        given = top.count;
    }
    ASSERT(given <= total);
    giving->to->burnt += total - given;
}

void give_back_begin(struct give_back *give_back, uint64_t deadline_ms, row_of_fn row_of,
                     void *data)
{
    struct giving giving = {
        .to = give_back, .row_of = row_of, .data = data, .deadline_ms = deadline_ms};
    struct id_tag *tag = id_table_next(give_back->table, "", 0, "", 0);

    for (; tag != NULL; tag = id_table_next(give_back->table, "", 0, tag->name, tag->name_len)) {
        give_tag(&giving, tag);
    }
    send(&giving);
}
