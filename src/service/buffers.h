/*
 * buffers.h - shows the buffers of tags that each member holds in memory, of all nodes at once.
 *
 * The happy path: buffers_submit() takes an ID_REQUEST_BUFFERS, notes what this node holds, and
 * asks the other members (FRAME_BUFFERS); once all asked members have answered, the request is
 * answered. It is for people to look at: no id depends on it, and answers are not kept.
 *
 * Failure modes: a member without a link is not asked, nor is any before the cluster has the level
 * that brought the frame; one whose link breaks meanwhile, or that does not answer by the deadline,
 * has no page. None of these is an error: the request says which applies to each member. Nothing is
 * sent twice. More than LIMIT_BUFFERS_WAITS: ERR_OVERLOADED. Stopping: ERR_SHUTTING_DOWN. A peer's
 * answer may be false, but can be shown (id_table.h).
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_SERVICE_BUFFERS_H
#define LEAFD_SERVICE_BUFFERS_H

#include "src/id/alloc/allocator.h"
#include "src/id/backend/id_backend.h"
#include "src/service/context.h"

struct buffers {
    const struct raft_context *on;
    struct allocator *allocator;       /* whose buffers are this node's */
    struct cluster_request_list waits; /* not all members have answered these */
    size_t count;                      /* of these; <= LIMIT_BUFFERS_WAITS */
    uint64_t number;                   /* of the last question */
};

/* Read what this node holds of the tags in a QUERY_TAG_LIST. False: no such query. */
bool buffers_look(const struct buffers *buffers, const void *data, size_t len,
                  struct id_segments_page *ret_page);

/* Take a request of kind ID_REQUEST_BUFFERS. */
void buffers_submit(struct buffers *buffers, struct cluster_request *request);

/* A FRAME_BUFFERS. False: malformed. */
bool buffers_receive(struct buffers *buffers, uint64_t from, const uint8_t *payload, size_t len);

/* A link came or went: questions over the earlier one will not be answered. */
void buffers_link_changed(struct buffers *buffers, uint64_t peer);

/* Answer all with ERR_SHUTTING_DOWN. */
void buffers_stop(struct buffers *buffers);

#endif
