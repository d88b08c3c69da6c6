/*
 * give_back.c - the end of a node's segments: what is unused goes back to the cluster if it can,
 * and is burnt if not (allocator.h).
 *
 * The happy path: allocator_give_back() claims all that is left in both slots of every tag, as any
 * claimer would, so that nobody else can; what is the top of its tag's range goes into
 * COMMAND_GIVE_BACKs, whose answers say what was taken back.
 *
 * Why nothing can be handed out twice: the ids were claimed by this function and go to nobody; the
 * state machine takes them back only if no id above them was granted since (max_id is their end)
 * and at most once (session.h). See strict_command.h.
 *
 * Failure modes: a range that is not the top, more than LIMIT_GIVE_BACK_TAGS of them, a refusal, no
 * answer in time: burnt, and counted so. An answer that was lost counts as burnt as well.
 *
 * Thread: one owner (the raft loop).
 */
#include <stdlib.h>

#include "src/base/assert.h"
#include "src/id/alloc/allocator_internal.h"
#include "src/id/codec/strict_command.h"

/* One COMMAND_GIVE_BACK, gathered or under way. */
struct returned {
    struct id_request request;
    struct allocator *allocator;
    size_t count;
    uint32_t sizes[LIMIT_GRANTS_PER_ENTRY];
    uint64_t total;
};

struct giving {
    struct allocator *allocator;
    const struct tag_row *(*row_of)(void *data, const char *name, size_t len);
    void *data;
    uint64_t deadline_ms;
    struct returned *gathered; /* NULL: nothing */
    size_t tag_count;
};

static void returned_done_cb(struct id_request *request)
{
    struct returned *returned = (struct returned *)request; /* its first member */
    struct allocator *allocator = returned->allocator;
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
    allocator->returned += taken;
    allocator->burnt[ID_BURN_STOP] += returned->total - taken;
    ASSERT(allocator->returns_open > 0);
    allocator->returns_open--;
    buf_free(&request->payload);
    buf_free(&request->reply);
    free(returned);
}

static void send(struct giving *giving)
{
    struct returned *returned = giving->gathered;
    struct allocator *allocator = giving->allocator;

    if (returned == NULL) {
        return;
    }
    giving->gathered = NULL;
    command_give_back_end(&returned->request.payload);
    allocator->returns_open++;
    allocator->proposer->propose(allocator->proposer, &returned->request);
}

static void gather(struct giving *giving, const struct give_back_item *item)
{
    struct allocator *allocator = giving->allocator;
    struct returned *returned = giving->gathered;

    if (returned == NULL) {
        returned = calloc(1, sizeof *returned);
        ASSERT(returned != NULL);
        returned->allocator = allocator;
        returned->request.kind = ID_REQUEST_COMMAND;
        returned->request.deadline_ms = giving->deadline_ms;
        returned->request.done = returned_done_cb;
        command_give_back_begin(&returned->request.payload, clock_wall_ms(allocator->clock));
        giving->gathered = returned;
    }
    command_give_back_add(&returned->request.payload, item);
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
    giving->allocator->burnt[ID_BURN_STOP] += total - given;
}

void allocator_give_back(struct allocator *allocator, uint64_t deadline_ms,
                         const struct tag_row *(*row_of)(void *data, const char *name, size_t len),
                         void *data)
{
    struct giving giving = {
        .allocator = allocator, .row_of = row_of, .data = data, .deadline_ms = deadline_ms};
    struct id_tag *tag = id_table_next(allocator->table, "", 0, "", 0);

    ASSERT(!allocator->stopped);
    allocator->stopped = true;
    for (; tag != NULL; tag = id_table_next(allocator->table, "", 0, tag->name, tag->name_len)) {
        give_tag(&giving, tag);
    }
    send(&giving);
}

bool allocator_given_back(const struct allocator *allocator)
{
    return allocator->returns_open == 0;
}

uint64_t allocator_returned(const struct allocator *allocator)
{
    return allocator->returned;
}
