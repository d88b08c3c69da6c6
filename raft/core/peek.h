/*
 * peek.h - what a FRAME_RAFT is about, in plain words, for those who watch a link.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_RAFT_CORE_PEEK_H
#define LEAFD_RAFT_CORE_PEEK_H

#include <stddef.h>
#include <stdint.h>

enum peek {
    PEEK_OTHER,   /* anything else */
    PEEK_ENTRIES, /* from a leader; maybe none, then it is a heartbeat */
    PEEK_RECEIPT, /* for such: taken, or not */
    PEEK_VOTE     /* a vote that is granted (no pre-vote) */
};

enum peek peek(const uint8_t *payload, size_t len);

#endif
