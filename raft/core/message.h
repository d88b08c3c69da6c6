/*
 * message.h - messages of the consensus library as bytes (FRAME_RAFT), and the fields that all of
 * them have.
 *
 * Little-endian, versioned by the frame header, golden bytes in raft/core/tests/test_message.c.
 * Decoding validates everything the library takes on trust (its asserts are compiled out in
 * Debian's build): see the rules in docs/replication.md. Sender id and address come from the
 * authenticated link, never from the message.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_RAFT_CORE_MESSAGE_H
#define LEAFD_RAFT_CORE_MESSAGE_H

#include <raft.h>

#include "src/base/buf.h"
#include "src/base/err.h"

/* Append a message of the core. AppendEntries: entries must be filled in by the caller. The data of
 * the last one are left out if their address is NULL: the caller sends them after the message.
 * InstallSnapshot: conf must be filled in; data is ignored (rows travel in chunks) and `transfer`
 * names the chunks that belong to it. */
void message_encode(const struct raft_message *message, uint64_t transfer, struct buf *buf);

/*
 * Read a message. server_id and server_address are left for the caller to set. AppendEntries:
 * entries are a malloc'ed array, the caller's to release, and their data is borrowed from the
 * payload; no entries: no array. InstallSnapshot: conf is a decoded configuration the caller (or
 * the core) closes; data is empty. *ret_transfer is 0 for all other types. After an error there is
 * nothing to release.
 *
 * ERR_BAD_MESSAGE for: short or long payload; unknown type; term 0; entry terms 0, falling or above
 * the message's or below prev_log_term; prev_log_term above the message's, or 0 while
 * prev_log_index is not, or the reverse; entry type not 1..3; entry data above LIMIT_ENTRY_BYTES; a
 * configuration (of a CHANGE or a snapshot) that configuration_check() refuses; more than
 * LIMIT_ENTRIES_PER_FRAME entries; a candidate id not in 1..LIMIT_NODE_ID; a snapshot with index,
 * term or configuration index 0, a term above the message's or a configuration index above its own;
 * indexes and terms at or above 2^62; boolean bytes not 0 or 1.
 */
int message_decode(const void *data, size_t len, struct raft_message *ret_message,
                   uint64_t *ret_transfer) MUST_CHECK;

/* Free what a decoded message owns: the array of entries; or conf, unless the core has it. */
void message_release(struct raft_message *message);

/* The term of a message. No other term in it is above this one. */
uint64_t message_term(const struct raft_message *message);

/* Does the sender claim to lead the message's term? */
bool message_is_of_leader(const struct raft_message *message);

/* A configuration as the library has it, from bytes whose bounds are checked first; the caller's,
 * or the library's, to close. 0 or ERR_CORRUPT. */
int message_conf_decode(const void *data, size_t len,
                        struct raft_configuration *ret_configuration) MUST_CHECK;
void message_conf_encode(const struct raft_configuration *configuration, struct buf *buf);

#endif
