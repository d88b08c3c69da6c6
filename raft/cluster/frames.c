/*
 * frames.c - see frames.h. Thread: the raft loop.
 */
#include "raft/cluster/frames.h"

int frames_send_request(const struct ground *on, uint64_t to, enum frame_type type,
                        const struct wire_request *request)
{
    struct buf frame = BUF_INIT;

    wire_request_encode(request, &frame);
    return ground_send(on, to, type, &frame);
}

void frames_send_reply(const struct ground *on, uint64_t to, const struct wire_reply *reply)
{
    struct buf frame = BUF_INIT;

    wire_reply_encode(reply, &frame);
    (void)ground_send(on, to, FRAME_REPLY, &frame);
}

void frames_refuse(const struct ground *on, uint64_t to, uint64_t id, int status)
{
    const struct wire_reply reply = {.id = id, .status = status};

    frames_send_reply(on, to, &reply);
}
