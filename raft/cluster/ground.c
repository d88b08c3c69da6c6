/*
 * ground.c - see ground.h. Thread: the raft loop.
 */
#include "raft/cluster/ground.h"

int ground_send(const struct ground *on, uint64_t to, enum frame_type type, struct buf *frame)
{
    int rv = on->net->ops->send(on->net, to, type, frame);

    buf_free(frame);
    return rv;
}

int ground_send_request(const struct ground *on, uint64_t to, enum frame_type type,
                        const struct wire_request *request)
{
    struct buf frame = BUF_INIT;

    wire_request_encode(request, &frame);
    return ground_send(on, to, type, &frame);
}

void ground_send_reply(const struct ground *on, uint64_t to, const struct wire_reply *reply)
{
    struct buf frame = BUF_INIT;

    wire_reply_encode(reply, &frame);
    (void)ground_send(on, to, FRAME_REPLY, &frame);
}

void ground_refuse(const struct ground *on, uint64_t to, uint64_t id, int status)
{
    const struct wire_reply reply = {.id = id, .status = status};

    ground_send_reply(on, to, &reply);
}
