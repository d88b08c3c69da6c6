/*
 * peek.c - see peek.h. Thread: pure functions, any.
 */
#include "raft/core/peek.h"

#include "raft/core/message.h"

enum peek peek(const uint8_t *payload, size_t len)
{
    const struct raft_request_vote_result *vote;
    struct raft_message message;
    uint64_t transfer;

    if (len > 0 && payload[0] == RAFT_APPEND_ENTRIES) { /* most are, and may be long */
        return PEEK_ENTRIES;
    }
    if (len > 0 && payload[0] == RAFT_APPEND_ENTRIES_RESULT) {
        return PEEK_RECEIPT;
    }
    if (len == 0 || payload[0] != RAFT_REQUEST_VOTE_RESULT ||
        message_decode(payload, len, &message, &transfer) != 0) {
        return PEEK_OTHER;
    }
    vote = &message.request_vote_result;
    return vote->vote_granted && !vote->pre_vote ? PEEK_VOTE : PEEK_OTHER;
}
