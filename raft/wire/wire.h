/*
 * wire.h - all bytes between nodes except TLS: frames, configurations, and the payloads of frames.
 *
 * Little-endian, versioned by the frame header, golden bytes in raft/wire/tests. The messages of
 * the consensus core itself are raft/core/message.h. Sender id and address come from the
 * authenticated link, never from the payload.
 *
 * Failure modes: bytes that break a rule are refused, with no partial result. Thread: pure
 * functions, any; a decoder of frames has one owner.
 */
#ifndef LEAFD_RAFT_WIRE_WIRE_H
#define LEAFD_RAFT_WIRE_WIRE_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"
#include "src/state/codec/cluster_command.h"
#include "src/state/codec/request.h"

/*
 * --- frames on a byte stream ---
 *
 * Frame: {u32 length of what follows the crc, u32 crc32c of it, u8 version, u8 type, u16 zero,
 * payload}, little-endian, at most LIMIT_FRAME_BYTES with its header.
 *
 * The decoder trusts no input: version, type and length are checked once the header is complete,
 * and memory for a payload grows with the bytes that arrived, never with the announced length. A
 * frame that is whole in the input is returned in place, without a copy.
 */

#define FRAME_VERSION 1
#define FRAME_HEADER_BYTES 12
#define FRAME_PAYLOAD_BYTES_MAX (LIMIT_FRAME_BYTES - FRAME_HEADER_BYTES)

/* Types of frames; their payloads are below. New ones go at the end. */
enum frame_type {
    FRAME_HELLO = 1, /* handshake: never reaches the receiver below */
    FRAME_CHALLENGE = 2,
    FRAME_PROOF = 3,
    FRAME_WELCOME = 4,
    FRAME_REJECT = 5,
    FRAME_JOINED = 6,
    FRAME_RAFT = 16,           /* a message of the consensus core */
    FRAME_SNAPSHOT_CHUNK = 17, /* part of a snapshot's rows */
    FRAME_SNAPSHOT_ACK = 18,
    FRAME_REQUEST = 19, /* a command or query forwarded to the leader */
    FRAME_REPLY = 20,
    FRAME_CONFIRM = 21, /* leader asks: is this still the term? (linearizable reads) */
    FRAME_CONFIRM_ACK = 22,
    FRAME_PING = 23,     /* checks an idle link; never reaches the receiver */
    FRAME_CLOCK = 24,    /* what time is it? and the answer */
    FRAME_APPLIED = 25,  /* how far have you applied the log? and the answer */
    FRAME_RESIGN = 26,   /* a leader steps down: it has no majority any more */
    FRAME_PROBE = 27,    /* do you lead? and the answer, directly or through another */
    FRAME_FORWARD = 28,  /* a command or query for a member to forward to the leader */
    FRAME_DURABLE = 29,  /* what the sender's disk holds of the consensus */
    FRAME_COMPARE = 30,  /* states differ: is yours mine? which row differs? */
    FRAME_COMPARED = 31, /* yes or no; digests of ranges of keys, and the rows of one */
    FRAME_BUFFERS = 32   /* what do you hold of these tags? and the answer */
};
#define FRAME_TYPE_MAX FRAME_BUFFERS

/* The bytes of an entry: the log, writes and frames to several peers share them. */
struct entry_block {
    uint32_t refs;
    uint32_t len;
    uint8_t data[];
};

/* A copy of the bytes in a new block with one reference. */
struct entry_block *entry_block_new(const void *data, size_t len);
struct entry_block *entry_block_ref(struct entry_block *block);
/* NULL-safe. */
void entry_block_unref(struct entry_block *block);

/* Write the header of a frame with this payload, which ends with the block `tail`, if there is one
 * (at most FRAME_PAYLOAD_BYTES_MAX in all). */
void frame_header(uint8_t header[FRAME_HEADER_BYTES], enum frame_type type, const void *payload,
                  size_t len, const struct entry_block *tail);

/* Append a whole frame. */
void frame_put(struct buf *buf, enum frame_type type, const void *payload, size_t len);

/* True for the types of the handshake (HELLO to JOINED). */
bool frame_is_handshake(enum frame_type type);

struct frame {
    enum frame_type type;
    const uint8_t *payload; /* borrowed: until the decoder's next call or change of its input */
    size_t len;
};

/* Begins as zeros; its owner frees buf. */
struct frame_decoder {
    struct buf buf;    /* header and payload of a frame that came in pieces */
    bool is_open;      /* false: only frames of the handshake are expected, of at most
                          LIMIT_HANDSHAKE_BYTES; true: only others, of at most LIMIT_FRAME_BYTES.
                          Its owner sets it between two frames */
    bool buf_is_given; /* the last returned frame is in buf: empty it at the next call */
    int error;         /* a broken stream stays broken */
};

/*
 * Take input from *data, *len (both are moved past what was taken). Returns 1 with a frame; 0 when
 * more input is needed (*len is 0 then); ERR_BAD_VERSION; ERR_TOO_LARGE (the announced length);
 * ERR_BAD_MESSAGE (unknown or misplaced type, length too small, reserved bits); ERR_CORRUPT
 * (checksum). After an error every call gives the same error.
 */
int frame_decoder_next(struct frame_decoder *decoder, const uint8_t **data, size_t *len,
                       struct frame *ret_frame) MUST_CHECK;

/*
 * --- configurations: their bytes, which a CHANGE entry, a snapshot's head and the store hold ---
 *
 * The encoding of the consensus library, which decodes its entries itself. All other code reads
 * them here, and all bounds are checked before any value is used.
 */

/* Read one. 0, or ERR_BAD_MESSAGE for: short, long or not padded with zeros to a multiple of 8; a
 * version other than 1; no members or more than LIMIT_NODES; no voter; ids not in 1..LIMIT_NODE_ID
 * or twice; roles out of range; addresses above LIMIT_ADDRESS_BYTES or twice. What passes is
 * decoded by the library without an error. */
int configuration_decode(const void *data, size_t len,
                         struct configuration *ret_configuration) MUST_CHECK;

/* The same, for callers that need only the check. */
int configuration_check(const void *data, size_t len) MUST_CHECK;

/* Append the bytes of a configuration (of at most LIMIT_NODES members; it need not be valid). */
void configuration_encode(const struct configuration *configuration, struct buf *buf);

/* --- payloads --- */

/* The two functions of a message: append its bytes; and read it, 0 or ERR_BAD_MESSAGE for a payload
 * that is short, long or out of the bounds below. */
#define WIRE_MESSAGE(name)                                                                         \
    void wire_##name##_encode(const struct wire_##name *name, struct buf *buf);                    \
    int wire_##name##_decode(const void *data, size_t len, struct wire_##name *ret_##name)         \
        MUST_CHECK

/* Indexes and terms must stay below this bound: no honest log reaches it, and sums cannot wrap. */
#define WIRE_NUMBER_BOUND (1ULL << 62)

/* A chunk ends with a whole row: it may go over LIMIT_SNAPSHOT_CHUNK_BYTES by one. */
#define WIRE_CHUNK_BYTES_MAX (LIMIT_SNAPSHOT_CHUNK_BYTES + LIMIT_ROW_BYTES)

struct wire_chunk {
    uint64_t transfer;
    uint64_t offset; /* bytes of rows before this chunk */
    bool last;
    const uint8_t *data; /* borrowed */
    size_t len;          /* <= WIRE_CHUNK_BYTES_MAX; offset + len <= LIMIT_SNAPSHOT_BYTES */
};
WIRE_MESSAGE(chunk);

struct wire_chunk_ack {
    uint64_t transfer;
    uint64_t offset; /* bytes received so far */
    bool abort;      /* the receiver refuses it, or no longer wants it */
};
WIRE_MESSAGE(chunk_ack);

#define WIRE_TIME_LEFT_MS_MAX (LIMIT_TIMEOUT_MS + 60000)
#define WIRE_STATUS_MIN (-4096) /* room for codes that newer versions add to ERR_LIST */

/* Of FRAME_REQUEST and FRAME_FORWARD. */
struct wire_request {
    uint64_t id;            /* the sender's */
    uint64_t origin;        /* the member that it is sent for; 0: the sender's own */
    uint8_t kind;           /* enum cluster_request_kind, but no BARRIER */
    uint32_t time_left_ms;  /* until the sender gives up, <= WIRE_TIME_LEFT_MS_MAX */
    const uint8_t *payload; /* borrowed */
    size_t payload_len;     /* <= LIMIT_ENTRY_BYTES */
};
WIRE_MESSAGE(request);

/* Four bytes for each tag of a command that an answer marks. */
#define WIRE_MARKS_BYTES_MAX (4 * LIMIT_TAGS_PER_BULK)

struct wire_reply {
    uint64_t id;
    int32_t status;         /* 0 or ERR_*; WIRE_STATUS_MIN..0 */
    uint64_t index;         /* of a command that was applied: its entry; of a query: one that the
                               answer is not older than; else 0 */
    const uint8_t *marks;   /* borrowed; of a command: the marks of its tags */
    size_t marks_len;       /* <= WIRE_MARKS_BYTES_MAX */
    const uint8_t *payload; /* borrowed */
    size_t payload_len;     /* <= LIMIT_ENTRY_BYTES */
};
WIRE_MESSAGE(reply);

/* CONFIRM and CONFIRM_ACK carry the same: the ack is sent only by a node whose term equals `term`.
 */
struct wire_confirm {
    uint64_t term;
    uint64_t round;
};
WIRE_MESSAGE(confirm);

/* A question for the index that the peer has applied (answer false; index is 0), or the answer. */
struct wire_applied {
    bool answer;
    uint64_t index;
};
WIRE_MESSAGE(applied);

/* A question for the peer's wall clock (answer false; wall_ms is 0) or the answer, which returns
 * the asker's sent_ms, and in a cluster of level 3 what the node serves. */
enum wire_serves {
    WIRE_SERVES_KNOWN = 1 << 0, /* in each of level 3 */
    WIRE_SERVES_READY = 1 << 1, /* its /readyz says so */
    WIRE_SERVES_SNOWFLAKE = 1 << 2
};

struct wire_clock {
    bool answer;
    uint64_t sent_ms; /* the asker's monotonic clock */
    uint64_t wall_ms;
    uint8_t serves; /* of an answer: bits of enum wire_serves; 0: it does not say */
};
WIRE_MESSAGE(clock);

/* Which node leads? See raft/cluster/leader_route.c. */
enum wire_probe_kind {
    WIRE_PROBE_ASK = 1,    /* do you lead? */
    WIRE_PROBE_ASK_ON = 2, /* do you know the leader? Ask it for me */
    WIRE_PROBE_YES = 3,
    WIRE_PROBE_NO = 4
};

struct wire_probe {
    uint8_t kind;    /* enum wire_probe_kind */
    uint64_t origin; /* the node that asks and gets the answer; 0: the peer itself */
    uint64_t round;  /* of that node; the answer returns it */
};
WIRE_MESSAGE(probe);

#define PEER_INCARNATION_RANDOM_BITS 32

/* What a node's disk holds of the consensus. Later starts of an honest node that forgets nothing
 * cannot be below it (raft/core/rollback.h). As a frame: what the sender's disk holds now, so that
 * all others, not only the leader, know what it must not forget. */
struct wire_durable {
    uint64_t incarnation; /* the count of its starts, and below it random bits of this one */
    uint64_t term;        /* current term */
    uint64_t index;       /* of the last entry */
    uint64_t vote;        /* in that term; 0: none */
    uint64_t last_term;   /* of the last entry; 0: there is none */
};
WIRE_MESSAGE(durable);

/* The sender led this term, and has stepped down. */
struct wire_resign {
    uint64_t term;
};
WIRE_MESSAGE(resign);

/* --- states that differ (raft/cluster/compare.h) --- */

enum wire_compare_kind {
    WIRE_COMPARE_OPEN = 1, /* request a view of your rows, at any index */
    WIRE_COMPARE_PART = 2, /* the next range of keys: its digest */
    WIRE_COMPARE_ROWS = 3, /* the rows of the last one */
    WIRE_COMPARE_CLOSE = 4,
    WIRE_COMPARE_STATE = 5 /* is your state this one, too? */
};

struct wire_compare {
    uint64_t number; /* of the comparison; the answers return it */
    uint8_t kind;    /* enum wire_compare_kind */
    uint64_t index;  /* of an OPEN, a STATE: the entry that the asker has applied; else 0 */
    uint64_t digest; /* and of all its rows there */
};
WIRE_MESSAGE(compare);

enum wire_compared_kind {
    WIRE_COMPARED_OPEN = 1,
    WIRE_COMPARED_PART = 2,
    WIRE_COMPARED_ROWS = 3,
    WIRE_COMPARED_NOT = 4, /* there is no view (any more); the entry is not applied, or long ago */
    WIRE_COMPARED_SAME = 5,
    WIRE_COMPARED_OTHER = 6
};

struct wire_compared {
    uint64_t number;
    uint8_t kind;        /* enum wire_compared_kind */
    uint64_t index;      /* of an OPEN: that of the view; else 0 */
    uint64_t digest;     /* of a PART: the sum of hash_row() over its rows; else 0 */
    uint32_t count;      /* of a PART: its rows; else 0 */
    bool end;            /* of a PART: no key comes after it */
    const uint8_t *data; /* borrowed; a PART's last key; ROWS as records of a snapshot; else none */
    size_t len;          /* <= LIMIT_ROW_KEY_BYTES; <= WIRE_CHUNK_BYTES_MAX */
};
WIRE_MESSAGE(compared);

/* --- buffers --- */

/* A question, whose data is a QUERY_TAG_LIST; or its answer, whose data is a page of buffers
 * (id_table.h). The receiver reads the data. */
struct wire_buffers {
    uint64_t number; /* the asker's, given back */
    bool answer;
    const uint8_t *data; /* borrowed */
    size_t len;
};
WIRE_MESSAGE(buffers);

/* --- handshakes --- */

/* A committed configuration (configuration_encode()); index 0 and len 0: none. */
struct wire_conf {
    uint64_t index;
    const uint8_t *data; /* borrowed */
    size_t len;
};

/* Which cluster a node is of. */
struct wire_birth {
    struct uid uid;       /* none: it has not heard of its cluster's birth */
    uint64_t list_digest; /* of the first list of members; 0: it has no such list (it joins) */
};

/* A dialler's report of itself: what its disk held at its start; the configuration that has it as a
 * member; its cluster; its address; and its earlier incarnations. */
struct wire_statement {
    struct wire_durable start;
    struct wire_conf conf;
    struct wire_birth birth;
    char address[LIMIT_ADDRESS_BYTES + 1]; /* its address to dial; "": not reported */
    const uint8_t *earlier; /* borrowed; random halves, u32 each, the last one before this first */
    size_t earlier_len;     /* < 4 * LIMIT_INCARNATIONS */
};
WIRE_MESSAGE(statement);

/* The request of a joining node: the address where the others reach it; and the cluster of the
 * nodes that have answered it before. */
struct wire_join {
    char address[LIMIT_ADDRESS_BYTES + 1];
    struct wire_birth birth;
};
WIRE_MESSAGE(join);

/* The answer to it: DONE with the configuration that has it as a member, or why not (yet). */
struct wire_joined {
    struct member_answer answer;
    struct wire_conf conf;
    struct wire_birth birth; /* of the node that answers */
};
WIRE_MESSAGE(joined);

#endif
