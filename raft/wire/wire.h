/*
 * wire.h - the payloads of frames between nodes: encode, decode, validate.
 *
 * Little-endian, versioned by the frame header, golden bytes in raft/wire/tests.
 * The messages of the consensus core itself are raft/core/message.h; configurations are
 * configuration.h. Sender id and address come from the authenticated link, never from the payload.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_RAFT_WIRE_WIRE_H
#define LEAFD_RAFT_WIRE_WIRE_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/state/codec/cluster_command.h"

/* The two functions of a message: append its bytes; and read it, 0 or ERR_BAD_MESSAGE for a payload
 * that is short, long or out of the bounds below. */
#define WIRE_MESSAGE(name)                                                                         \
    void wire_##name##_encode(const struct wire_##name *name, struct buf *buf);                    \
    int wire_##name##_decode(const void *data, size_t len, struct wire_##name *ret_##name)         \
        MUST_CHECK

/* Indexes and terms must stay below: no honest log gets there, and sums of them cannot wrap. */
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
    bool abort;      /* the receiver does not want it (any more) */
};
WIRE_MESSAGE(chunk_ack);

#define WIRE_TIME_LEFT_MS_MAX (LIMIT_TIMEOUT_MS + 60000)
#define WIRE_STATUS_MIN (-4096) /* room for codes that newer versions add to ERR_LIST */

enum wire_request_kind {
    WIRE_REQUEST_COMMAND = 1,
    WIRE_REQUEST_QUERY = 2,
    WIRE_REQUEST_MEMBER = 10, /* a member_ask */
    WIRE_REQUEST_LEADER = 11  /* what only the leader of a term answers */
};

/* Of FRAME_REQUEST and FRAME_FORWARD. */
struct wire_request {
    uint64_t id;            /* the sender's */
    uint64_t origin;        /* the member that it is sent for; 0: the sender's own */
    uint8_t kind;           /* enum wire_request_kind */
    uint32_t time_left_ms;  /* until the sender gives up, <= WIRE_TIME_LEFT_MS_MAX */
    const uint8_t *payload; /* borrowed */
    size_t payload_len;     /* <= LIMIT_ENTRY_BYTES */
};
WIRE_MESSAGE(request);

/* Four bytes for each of the things that a command may name which an answer marks. */
#define WIRE_MARKS_BYTES_MAX (4 * LIMIT_TAGS_PER_BULK)

struct wire_reply {
    uint64_t id;
    int32_t status;         /* 0 or ERR_*; WIRE_STATUS_MIN..0 */
    uint64_t index;         /* of a command that was applied: its entry; of a query: one that the
                               answer is not older than; else 0 */
    const uint8_t *marks;   /* borrowed; of such a one: what its things are now */
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

/* A question for the peer's wall clock (answer false; wall_ms is 0) or the answer, which carries
 * the asker's sent_ms back, and in a cluster of level 3 what the node serves. */
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

/* Who leads? See raft/cluster/leader_route.c. */
enum wire_probe_kind {
    WIRE_PROBE_ASK = 1,    /* do you lead? */
    WIRE_PROBE_ASK_ON = 2, /* do you know which does? Ask it for me */
    WIRE_PROBE_YES = 3,
    WIRE_PROBE_NO = 4
};

struct wire_probe {
    uint8_t kind;    /* enum wire_probe_kind */
    uint64_t origin; /* for which it is asked, and that gets the answer; 0: the peer itself */
    uint64_t round;  /* of that node; the answer carries it back */
};
WIRE_MESSAGE(probe);

#define PEER_INCARNATION_RANDOM_BITS 32

/* What a node's disk holds of the consensus. Of an honest node that forgets nothing it says what
 * its later starts cannot be below (raft/core/rollback.h). */
struct peer_durable {
    uint64_t incarnation; /* the count of its starts, and below it random bits of this one */
    uint64_t term;        /* current term */
    uint64_t index;       /* of the last entry */
    uint64_t vote;        /* in that term; 0: none */
    uint64_t last_term;   /* of the last entry; 0: there is none */
};

/* What the sender's disk holds: so that all others, and not the leader alone, know what it must not
 * forget. */
struct wire_durable {
    struct peer_durable now;
};
WIRE_MESSAGE(durable);

/* The sender led this term, and has stepped down. */
struct wire_resign {
    uint64_t term;
};
WIRE_MESSAGE(resign);

/* --- states that differ (raft/cluster/compare.h) --- */

enum wire_compare_kind {
    WIRE_COMPARE_OPEN = 1, /* a view of your rows, please, at any index */
    WIRE_COMPARE_PART = 2, /* the next range of keys: its digest */
    WIRE_COMPARE_ROWS = 3, /* the rows of the last one */
    WIRE_COMPARE_CLOSE = 4,
    WIRE_COMPARE_STATE = 5 /* is your state this one, too? */
};

struct wire_compare {
    uint64_t number; /* of the comparison; the answers carry it back */
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

/* A committed configuration (configuration.h); index 0 and len 0: none. */
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

/* What a dialler says of itself: what its disk held as it started; that it is a member by this
 * configuration; of which cluster; where it is; and which incarnations it had before. */
struct wire_statement {
    struct peer_durable start;
    struct wire_conf conf;
    struct wire_birth birth;
    char address[LIMIT_ADDRESS_BYTES + 1]; /* where it is to be dialled; "": it does not say */
    const uint8_t *earlier; /* borrowed; random halves, u32 each, the last one before this first */
    size_t earlier_len;     /* < 4 * LIMIT_INCARNATIONS */
};
WIRE_MESSAGE(statement);

/* What a node that joins says: the address where the others reach it; and the cluster of those that
 * have answered it before. */
struct wire_join {
    char address[LIMIT_ADDRESS_BYTES + 1];
    struct wire_birth birth;
};
WIRE_MESSAGE(join);

/* And what it gets: DONE with the configuration that has it as a member, or why not (yet). */
struct wire_joined {
    struct member_answer answer;
    struct wire_conf conf;
    struct wire_birth birth; /* of the node that answers */
};
WIRE_MESSAGE(joined);

#endif
