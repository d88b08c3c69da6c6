/*
 * recalls.c - see recalls.h. Thread: the raft loop.
 */
#include "src/service/recalls.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/container.h"

#define RECALLED_AGAIN_MS 100   /* longer than a follower takes to apply what it has proposed */
#define RECALLED_SLOWLY_MS 5000 /* the log does not reach a node that is cut off from its leader */

void recalls_tag_changed(struct recalls *recalls, const struct tag_row *row)
{
    if (row->recalling) {
        recalls->look = true;
        recalls->after_len = 0;
        timer_cancel(recalls->context->on->timers, &recalls->pause);
    }
}

static void on_recalled_said(struct node_command *command, int status)
{
    struct recalls *recalls = CONTAINER(command, struct recalls, command);

    if (status != 0) {
        recalls->after_len = 0;
        context_arm_in(recalls->context->on, &recalls->pause, RECALLED_AGAIN_MS);
    }
}

/* What the command says must be true when it is proposed: the allocator has heard of the row. */
static void assert_dropped(const struct recalls *recalls, const struct tag_row *row)
{
    struct id_tag *tag = id_table_find(recalls->table, row->name, row->name_len);

    if (tag != NULL) {
        ASSERT(tag->refill.generation >= row->generation);
        ASSERT_IMPLIES(tag->refill.generation == row->generation, segment_left(&tag->buffer) == 0);
    }
}

/* The next of the tags that wait for this node, as many as a command takes; 0: none. */
static unsigned gather_recalled(struct recalls *recalls, struct buf *payload)
{
    const struct raft_context *on = recalls->context->on;
    const struct tag_row *row =
        fsm_recall_next(recalls->context->fsm, on->node_id, recalls->after, recalls->after_len);
    unsigned count = 0;

    if (row == NULL) {
        return 0;
    }
    command_put(payload, COMMAND_RECALLED, NULL);
    while (row != NULL && count < LIMIT_GRANTS_PER_ENTRY) {
        struct recalled_item item = {row->name, row->name_len, row->generation};

        assert_dropped(recalls, row);
        command_item_put(payload, COMMAND_RECALLED, &item);
        ASSERT(row->name_len <= sizeof recalls->after);
        recalls->after_len = row->name_len;
        memcpy(recalls->after, row->name, row->name_len);
        row =
            fsm_recall_next(recalls->context->fsm, on->node_id, recalls->after, recalls->after_len);
        count++;
    }
    ASSERT(count > 0);
    command_items_end(payload);
    return count;
}

/* Say of all tags that wait for it that this node holds nothing of them. A follower applies what it
 * has said later than the leader: it goes through all tags once, and again after a pause, until
 * none waits. */
void recalls_turn(struct recalls *recalls)
{
    struct buf payload = BUF_INIT;

    if (!recalls->look || recalls->command.in_flight || timer_is_armed(&recalls->pause) ||
        !leader_route_is_known(recalls->route)) {
        return;
    }
    if (gather_recalled(recalls, &payload) == 0) {
        recalls->look = recalls->after_len > 0;
        recalls->after_len = 0;
        context_arm_in(recalls->context->on, &recalls->pause,
                       leader_route_is_direct(recalls->route) ? RECALLED_AGAIN_MS
                                                              : RECALLED_SLOWLY_MS);
        return;
    }
    node_command_send(&recalls->command, recalls->context->on, &payload, false);
}

void recalls_init(struct recalls *recalls, struct id_context *context,
                  const struct leader_route *route, struct id_table *table)
{
    *recalls = (struct recalls){.context = context,
                                .route = route,
                                .table = table,
                                .look = true, /* also after a restart */
                                .command.on_done = on_recalled_said,
                                .command.wakes = WAKE_RECALLS,
                                .pause.wakes = WAKE_RECALLS};
}
