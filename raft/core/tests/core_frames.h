/*
 * core_frames.h - payloads of FRAME_RAFT for tests of the floors above, which do not know the
 * library's messages.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_CORE_TESTS_CORE_FRAMES_H
#define LEAFD_RAFT_CORE_TESTS_CORE_FRAMES_H

#include "raft/core/driver.h"
#include "raft/core/tests/core_noop.h"
#include "src/base/buf.h"

/* Each appends a payload: what has the log up to `last` took everything; a leader of this term has
 * nothing new behind this entry, which is committed; somebody asks whether it may be elected. */
void core_receipt(uint64_t term, uint64_t last, struct buf *payload);
void core_heartbeat(uint64_t term, uint64_t index, uint64_t index_term, struct buf *payload);
void core_pre_vote(uint64_t from, uint64_t term, uint64_t last, uint64_t last_term,
                   struct buf *payload);

/* Decode any payload, and append it encoded anew. False: it does not decode. */
bool core_again(const void *payload, size_t len, struct buf *again);

/* From here on the floors above see these members, which the core knows nothing of. */
void core_pretend(struct driver *driver, const struct configuration *configuration);

#endif
