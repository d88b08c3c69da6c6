/*
 * core_messages.h - messages of the consensus core for tests.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_CORE_TESTS_CORE_MESSAGES_H
#define LEAFD_RAFT_CORE_TESTS_CORE_MESSAGES_H

#include "raft/core/message.h"
#include "src/base/limits.h"

/* A message whose entries and data the test owns; up to one more than the limit. */
struct append_fixture {
    struct raft_message message;
    struct raft_entry entries[LIMIT_ENTRIES_PER_FRAME + 1];
    struct buf conf;
};

/* An AppendEntries of term 9 after (50, term 4): a command "xyz" of term 5, a CHANGE of term 9. */
void append_fixture_init(struct append_fixture *f);
void append_fixture_free(struct append_fixture *f);

void conf_add(struct raft_configuration *conf, raft_id id, const char *address, int role);

/* Append the core's encoding. */
void conf_encode(const struct raft_configuration *conf, struct buf *buf);

/* Encode a message into an emptied buf. */
void encode_anew(const struct raft_message *message, uint64_t transfer, struct buf *buf);

/* Decode from memory that ends where the message does. */
int decode_exact(const struct buf *buf, struct raft_message *ret_message, uint64_t *ret_transfer);

#endif
