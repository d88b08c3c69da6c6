/*
 * frame.h - frames on a byte stream between nodes: header, checksum, incremental decoder.
 *
 * Frame: {u32 length of what follows the crc, u32 crc32c of it, u8 version, u8 type, u16 zero,
 * payload}, little-endian, at most LIMIT_FRAME_BYTES with its header.
 *
 * The decoder trusts nothing: version, type and length are checked as soon as the header is there,
 * and memory for a payload grows with the bytes that arrived, never by what the header announces. A
 * frame that lies whole in the input is given in place, without a copy.
 *
 * Thread: one owner each.
 */
#ifndef LEAFD_RAFT_WIRE_FRAME_H
#define LEAFD_RAFT_WIRE_FRAME_H

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/limits.h"

#define FRAME_VERSION 1
#define FRAME_HEADER_BYTES 12
#define FRAME_PAYLOAD_BYTES_MAX (LIMIT_FRAME_BYTES - FRAME_HEADER_BYTES)

/* Types of frames; wire.h has their payloads. New ones go at the end. */
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
    FRAME_PING = 23,    /* keeps an idle link checked; never reaches the receiver */
    FRAME_CLOCK = 24,   /* what time is it? and the answer (wire.h) */
    FRAME_APPLIED = 25, /* how far have you applied the log? and the answer */
    FRAME_RESIGN = 26,  /* a leader steps down: it has no majority any more */
    FRAME_PROBE = 27,   /* do you lead? and the answer, directly or through another */
    FRAME_FORWARD = 28, /* a command or query for a member to forward to the leader */
    FRAME_DURABLE = 29, /* what the sender's disk holds of the consensus (wire.h) */
    FRAME_COMPARE = 30, /* is your state mine? which row differs? from a node whose state differs */
    FRAME_COMPARED = 31, /* yes or no; digests of ranges of keys, and the rows of one */
    FRAME_BUFFERS = 32   /* what do you hold of these tags? and the answer */
};
#define FRAME_TYPE_MAX FRAME_BUFFERS

/* Write the header of a frame with this payload (at most FRAME_PAYLOAD_BYTES_MAX). */
void frame_header(uint8_t header[FRAME_HEADER_BYTES], enum frame_type type, const void *payload,
                  size_t len);

/* Append a whole frame. */
void frame_put(struct buf *buf, enum frame_type type, const void *payload, size_t len);

/* True for the types of the handshake (HELLO to JOINED). */
bool frame_is_handshake(enum frame_type type);

/* True for those that a node waits for that waits for nothing else, no disk and no state: a link
 * lets them go at once, and not at the end of the turn. */
bool frame_is_urgent(enum frame_type type);

struct frame {
    enum frame_type type;
    const uint8_t *payload; /* borrowed: until the decoder's next call or change of its input */
    size_t len;
};

struct frame_decoder {
    struct buf buf;    /* header and payload of a frame that came in pieces */
    size_t max_bytes;  /* of a frame, header included */
    bool handshake;    /* only frames of the handshake are expected now; otherwise only others */
    bool buf_is_given; /* the last frame given lies in buf: empty it at the next call */
    int error;         /* once broken, a stream stays so */
};

/* Expect a handshake: only its frames, of at most LIMIT_HANDSHAKE_BYTES. */
void frame_decoder_init(struct frame_decoder *decoder);

/* From the next frame on: no handshake frames, and LIMIT_FRAME_BYTES. */
void frame_decoder_open(struct frame_decoder *decoder);

/*
 * Take input from *data, *len (both are moved past what was taken). Returns 1 with a frame; 0 when
 * more input is needed (*len is 0 then); ERR_BAD_VERSION; ERR_TOO_LARGE (the announced length);
 * ERR_BAD_MESSAGE (unknown or misplaced type, length too small, reserved bits); ERR_CORRUPT
 * (checksum). After an error every call gives the same error.
 */
int frame_decoder_next(struct frame_decoder *decoder, const uint8_t **data, size_t *len,
                       struct frame *ret_frame) MUST_CHECK;

void frame_decoder_free(struct frame_decoder *decoder);

#endif
