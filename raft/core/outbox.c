/*
 * outbox.c - see outbox.h. Thread: the raft loop.
 */
#include "raft/core/outbox.h"

#include <stdlib.h>

#include "src/base/assert.h"

void outbox_init(struct outbox *outbox, struct writes *writes, struct net *net, uint64_t term,
                 uint64_t vote)
{
    *outbox = (struct outbox){.writes = writes, .net = net, .term = term, .vote = vote};
    STAILQ_INIT(&outbox->held);
}

/* Take the oldest frame that waits for no write above this one. NULL: there is none. */
static struct held_frame *take(struct outbox *outbox, uint64_t write)
{
    struct held_frame *frame = STAILQ_FIRST(&outbox->held);

    if (frame == NULL || frame->write > write) {
        return NULL;
    }
    STAILQ_REMOVE_HEAD(&outbox->held, link);
    return frame;
}

static void frame_free(struct held_frame *frame)
{
    buf_free(&frame->payload);
    free(frame);
}

void outbox_free(struct outbox *outbox)
{
    struct held_frame *frame;

    while ((frame = take(outbox, UINT64_MAX)) != NULL) {
        frame_free(frame);
    }
}

void outbox_vote(struct outbox *outbox, uint64_t term, uint64_t vote)
{
    struct write *write = writes_new(outbox->writes, STORE_HARD_STATE);

    ASSERT(term > 0 && write->number > outbox->submitted);
    outbox->submitted = write->number;
    write->op.term = term;
    write->op.vote = vote;
    write_submit(write);
}

void outbox_written(struct outbox *outbox, const struct write *write)
{
    struct held_frame *frame;

    ASSERT(write->number > outbox->durable && write->number <= outbox->submitted);
    outbox->durable = write->number;
    outbox->term = write->op.term;
    outbox->vote = write->op.vote;
    while ((frame = take(outbox, outbox->durable)) != NULL) {
        (void)outbox->net->ops->send(outbox->net, frame->to, FRAME_RAFT, &frame->payload);
        frame_free(frame);
    }
}

void outbox_send(struct outbox *outbox, uint64_t to, struct buf *payload)
{
    struct held_frame *frame;

    ASSERT(to > 0);
    if (outbox->durable == outbox->submitted) {
        ASSERT(STAILQ_EMPTY(&outbox->held));
        (void)outbox->net->ops->send(outbox->net, to, FRAME_RAFT, payload);
        buf_free(payload);
        return;
    }
    frame = MUST_HAVE(calloc(1, sizeof *frame));
    frame->write = outbox->submitted;
    frame->to = to;
    buf_move(&frame->payload, payload);
    STAILQ_INSERT_TAIL(&outbox->held, frame, link);
}
