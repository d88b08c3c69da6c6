/*
 * wire.h - the payloads of frames between nodes: encode, decode, validate.
 *
 * Little-endian, versioned by the frame header, golden bytes in raft/tests/test_wire.c. Decoding
 * validates everything the consensus core takes on trust (its asserts are compiled out in Debian's
 * build): see raft_message rules in docs/replication.md. Sender id and address come from the
 * authenticated link, never from the message.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_RAFT_WIRE_H
#define LEAFD_RAFT_WIRE_H

#include <raft.h>

#include "raft/net.h"
#include "src/base/buf.h"
#include "src/base/err.h"

/* Append a message of the core. AppendEntries: entries must be filled in by the caller.
 * InstallSnapshot: conf must be filled in; data is ignored (rows travel in chunks) and `transfer` names
 * the chunks that belong to it. */
void wire_raft_encode(const struct raft_message *message, uint64_t transfer, struct buf *buf);

/*
 * Read a message. server_id and server_address are left for the caller to set. AppendEntries: entries
 * (malloc'ed array, owned by the caller) with all data in one raft_malloc'ed batch, as the core wants
 * it; the array is freed with wire_raft_release(), the batch by the core or raft_free(). InstallSnapshot: conf is a decoded configuration the caller (or the core)
 * closes; data is empty.
 *
 * ERR_BAD_MESSAGE for: short or long payload; unknown type; term 0; entry terms 0, falling or above the
 * message's; prev_log_term 0 while prev_log_index is not, or the reverse; entry type not 1..3; a CHANGE
 * whose configuration does not decode, has no voter, more than LIMIT_NODES servers, ids 0 or twice, roles
 * out of range, addresses too long; more than LIMIT_ENTRIES_PER_FRAME entries; indexes at or above 2^62;
 * boolean bytes not 0 or 1.
 */
int wire_raft_decode(const void *data, size_t len, struct raft_message *ret_message,
                     uint64_t *ret_transfer) MUST_CHECK;

/* Free what a decoded message still owns: the entries array and its batch, or conf. For messages that
 * were not given to the core. */
void wire_raft_release(struct raft_message *message);

/* Check an encoded configuration (bounds first: the core's own decoder does not check them). 0 or
 * ERR_BAD_MESSAGE. */
int wire_configuration_check(const void *data, size_t len) MUST_CHECK;

struct wire_chunk {
    uint64_t transfer;
    uint64_t offset; /* bytes of rows before this chunk */
    bool last;
    const uint8_t *data; /* borrowed */
    size_t len;          /* <= LIMIT_SNAPSHOT_CHUNK_BYTES + LIMIT of one row */
};
void wire_chunk_encode(const struct wire_chunk *chunk, struct buf *buf);
int wire_chunk_decode(const void *data, size_t len, struct wire_chunk *ret_chunk) MUST_CHECK;

struct wire_chunk_ack {
    uint64_t transfer;
    uint64_t offset; /* bytes received so far */
    bool abort;      /* the receiver does not want it (any more) */
};
void wire_chunk_ack_encode(const struct wire_chunk_ack *ack, struct buf *buf);
int wire_chunk_ack_decode(const void *data, size_t len, struct wire_chunk_ack *ret_ack) MUST_CHECK;

enum wire_request_kind { WIRE_REQUEST_COMMAND = 1, WIRE_REQUEST_QUERY = 2 };

struct wire_request {
    uint64_t id;             /* the sender's */
    uint8_t kind;            /* enum wire_request_kind */
    uint32_t time_left_ms;   /* until the sender gives up, <= LIMIT_TIMEOUT_MS + 60000 */
    const uint8_t *payload;  /* borrowed */
    size_t payload_len;      /* <= LIMIT_ENTRY_BYTES */
};
void wire_request_encode(const struct wire_request *request, struct buf *buf);
int wire_request_decode(const void *data, size_t len, struct wire_request *ret_request) MUST_CHECK;

struct wire_reply {
    uint64_t id;
    int32_t status; /* 0 or ERR_* */
    const uint8_t *payload;
    size_t payload_len;
};
void wire_reply_encode(const struct wire_reply *reply, struct buf *buf);
int wire_reply_decode(const void *data, size_t len, struct wire_reply *ret_reply) MUST_CHECK;

/* CONFIRM and CONFIRM_ACK carry the same: the ack is sent only by a node whose term equals `term`. */
struct wire_confirm {
    uint64_t term;
    uint64_t round;
};
void wire_confirm_encode(const struct wire_confirm *confirm, struct buf *buf);
int wire_confirm_decode(const void *data, size_t len, struct wire_confirm *ret_confirm) MUST_CHECK;

#endif
