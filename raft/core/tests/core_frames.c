/*
 * core_frames.c - see core_frames.h. Thread: the test's.
 */
#include "raft/core/tests/core_frames.h"

#include "raft/core/consensus.h"
#include "raft/core/message.h"
#include "raft/core/tests/raft_core.h"

void core_receipt(uint64_t term, uint64_t last, struct buf *payload)
{
    struct raft_message message = append_result_of(1, term, 0, last);

    message_encode(&message, 0, payload);
}

void core_heartbeat(uint64_t term, uint64_t index, uint64_t index_term, struct buf *payload)
{
    struct raft_message message = append_of(1, term, index, index_term, index, NULL, 0);

    message_encode(&message, 0, payload);
}

void core_pre_vote(uint64_t from, uint64_t term, uint64_t last, uint64_t last_term,
                   struct buf *payload)
{
    struct raft_message message = vote_of(from, term, last, last_term, true);

    message_encode(&message, 0, payload);
}

bool core_again(const void *payload, size_t len, struct buf *again)
{
    struct raft_message message;
    uint64_t transfer = 0;

    if (message_decode(payload, len, &message, &transfer) != 0) {
        return false;
    }
    message_encode(&message, transfer, again);
    message_release(&message);
    return true;
}

void core_pretend(struct driver *driver, const struct configuration *configuration)
{
    driver->consensus->configuration = *configuration;
}
