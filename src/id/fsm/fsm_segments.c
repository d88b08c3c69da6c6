/*
 * fsm_segments.c - see fsm_segments.h.
 */
#include "src/id/fsm/fsm_segments.h"

#include "src/base/assert.h"

/* Who is granted segments, and when. */
struct grant_to {
    uint64_t node_id;
    uint64_t wall_ms;
};

static void grant_one(struct fsm_recalls *recalls, const struct grant_to *to,
                      const struct grant_item *item, struct grant_result *ret_result)
{
    struct fsm_row *row = fsm_tags_find(recalls->tags, item->name, item->name_len);
    struct tag_row *tag = row != NULL ? &row->tag : NULL;
    uint64_t left;
    uint32_t size;

    *ret_result = (struct grant_result){0};
    if (tag == NULL || tag->deleted) {
        ret_result->status = ERR_UNKNOWN_TAG;
        ret_result->generation = tag != NULL ? tag->generation : 0;
        return;
    }
    ret_result->generation = tag->generation;
    ret_result->step = tag->step;
    ret_result->max_step = tag->max_step;
    ASSERT(tag->step >= 1 && tag->step <= tag->max_step);
    ASSERT(tag->max_id <= TAG_MAX_ID_END);
    if (tag->mode != TAG_MODE_TREND) {
        ret_result->status = ERR_WRONG_MODE;
        return;
    }
    size = item->size > 0 ? item->size : tag->step;
    if (size > tag->max_step) {
        size = tag->max_step;
    }
    left = TAG_MAX_ID_END - tag->max_id;
    if (left == 0) {
        ret_result->status = ERR_EXHAUSTED;
        return;
    }
    if (!fsm_holder_add(recalls, to->node_id)) {
        ret_result->status = ERR_OVERLOADED;
        return;
    }
    if (size > left) {
        size = (uint32_t)left;
    }
    ret_result->first = tag->max_id;
    ret_result->size = size;
    fsm_tags_change_begin(recalls->tags, row);
    tag->max_id += size;
    tag->updated_ms = fsm_later(tag->updated_ms, to->wall_ms);
    fsm_tags_change_end(recalls->tags, row);
    ASSERT(tag->max_id <= TAG_MAX_ID_END);
}

void fsm_segments_grant(struct fsm_recalls *recalls, uint64_t node_id, struct command_list *command,
                        struct buf *result)
{
    const struct grant_to to = {node_id, fsm_shown_ms(command->wall_ms)};
    struct grant_result results[LIMIT_GRANTS_PER_ENTRY];
    struct grant_item item;
    size_t count = 0;

    while (command_next(command, &item)) {
        ASSERT(count < LIMIT_GRANTS_PER_ENTRY);
        grant_one(recalls, &to, &item, &results[count++]);
    }
    ASSERT(count == command->count);
    grant_results_encode(results, count, result);
}

/* False: the range stays burnt. */
static bool give_back_one(struct fsm_tags *tags, const struct give_back_item *item,
                          uint64_t wall_ms)
{
    struct fsm_row *row = fsm_tags_find(tags, item->name, item->name_len);
    struct tag_row *tag = row != NULL ? &row->tag : NULL;

    ASSERT(item->first < item->end);
    if (tag == NULL || tag->deleted || tag->mode != TAG_MODE_TREND ||
        tag->generation != item->generation || tag->max_id != item->end) {
        return false;
    }
    fsm_tags_change_begin(tags, row);
    tag->max_id = item->first;
    tag->updated_ms = fsm_later(tag->updated_ms, wall_ms);
    fsm_tags_change_end(tags, row);
    return true;
}

void fsm_segments_give_back(struct fsm_tags *tags, struct command_list *command, struct buf *result)
{
    uint64_t wall_ms = fsm_shown_ms(command->wall_ms);
    int32_t statuses[LIMIT_GRANTS_PER_ENTRY];
    struct give_back_item item;
    size_t count = 0;

    while (command_next(command, &item)) {
        ASSERT(count < LIMIT_GRANTS_PER_ENTRY);
        statuses[count++] = give_back_one(tags, &item, wall_ms) ? 0 : ERR_CONFLICT;
    }
    ASSERT(count == command->count);
    statuses_encode(statuses, count, result);
}
