/*
 * frames.h - frames that several parts of a replica send.
 *
 * Failure modes: as net_ops.send(). Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CLUSTER_FRAMES_H
#define LEAFD_RAFT_CLUSTER_FRAMES_H

#include "raft/cluster/ground.h"
#include "raft/wire/wire.h"

/* As a FRAME_REQUEST or FRAME_RELAY. 0 or why it does not leave. */
int frames_send_request(const struct ground *on, uint64_t to, enum frame_type type,
                        const struct wire_request *request) MUST_CHECK;

/* Should it be lost, whoever asked asks again. */
void frames_send_reply(const struct ground *on, uint64_t to, const struct wire_reply *reply);
void frames_refuse(const struct ground *on, uint64_t to, uint64_t id, int status);

#endif
