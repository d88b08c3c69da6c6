/*
 * frame.c - see frame.h.
 *
 * The happy path: the input holds whole frames, each is checked and given in place. A frame that
 * comes in pieces is gathered in the decoder's buffer: the header first, which is checked before a
 * byte of payload is kept, then the payload.
 *
 * Failure modes: see frame_decoder_next(); a broken stream cannot be trusted to find its next
 * frame, so the error stays and the owner closes the link.
 */
#include "raft/wire/frame.h"

#include "src/base/assert.h"
#include "src/base/hash.h"
#include "src/base/limits.h"

#define CHECKED_AT 8     /* the checksum covers the frame from here */
#define KEEP_BYTES 65536 /* a larger gathering buffer is given back after its frame */

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_u32(uint8_t *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static bool type_is_known(uint8_t type)
{
    return (type >= FRAME_HELLO && type <= FRAME_JOINED) ||
           (type >= FRAME_RAFT && type <= FRAME_TYPE_MAX);
}

void frame_header(uint8_t header[FRAME_HEADER_BYTES], enum frame_type type, const void *payload,
                  size_t len)
{
    uint32_t crc;

    ASSERT(len <= FRAME_PAYLOAD_BYTES_MAX);
    ASSERT(type_is_known((uint8_t)type));
    put_u32(header, (uint32_t)(FRAME_HEADER_BYTES - CHECKED_AT + len));
    header[8] = FRAME_VERSION;
    header[9] = (uint8_t)type;
    header[10] = 0;
    header[11] = 0;
    crc = hash_crc32c(header + CHECKED_AT, FRAME_HEADER_BYTES - CHECKED_AT);
    if (len > 0) {
        crc = hash_crc32c_more(crc, payload, len);
    }
    put_u32(header + 4, crc);
}

void frame_put(struct buf *buf, enum frame_type type, const void *payload, size_t len)
{
    uint8_t header[FRAME_HEADER_BYTES];

    frame_header(header, type, payload, len);
    buf_put(buf, header, sizeof header);
    buf_put(buf, payload, len);
}

bool frame_is_handshake(enum frame_type type)
{
    return type >= FRAME_HELLO && type <= FRAME_JOINED;
}

bool frame_is_urgent(enum frame_type type)
{
    return type == FRAME_CONFIRM || type == FRAME_CONFIRM_ACK;
}

void frame_decoder_init(struct frame_decoder *decoder)
{
    *decoder = (struct frame_decoder){BUF_INIT, LIMIT_HANDSHAKE_BYTES, true, false, 0};
}

void frame_decoder_open(struct frame_decoder *decoder)
{
    ASSERT(decoder->handshake);
    decoder->handshake = false;
    decoder->max_bytes = LIMIT_FRAME_BYTES;
}

void frame_decoder_free(struct frame_decoder *decoder)
{
    buf_free(&decoder->buf);
    decoder->buf_is_given = false;
}

/* What the header says, before anything is kept of the payload. 0 or an error. */
static int header_check(const struct frame_decoder *decoder, const uint8_t *header)
{
    const uint32_t checked_len = get_u32(header);

    if (header[8] != FRAME_VERSION) {
        return ERR_BAD_VERSION;
    }
    if (checked_len > decoder->max_bytes - CHECKED_AT) {
        return ERR_TOO_LARGE;
    }
    if (checked_len < FRAME_HEADER_BYTES - CHECKED_AT || header[10] != 0 || header[11] != 0) {
        return ERR_BAD_MESSAGE;
    }
    if (!type_is_known(header[9]) ||
        frame_is_handshake((enum frame_type)header[9]) != decoder->handshake) {
        return ERR_BAD_MESSAGE;
    }
    return 0;
}

/* Bytes of the whole frame; the header was checked. */
static size_t frame_bytes(const uint8_t *header)
{
    const size_t bytes = CHECKED_AT + (size_t)get_u32(header);

    ASSERT(bytes >= FRAME_HEADER_BYTES && bytes <= LIMIT_FRAME_BYTES);
    return bytes;
}

/* The frame in these bytes, which are all there, if its checksum holds. 1 or ERR_CORRUPT. */
static int frame_open(const uint8_t *bytes, struct frame *ret_frame)
{
    const size_t len = frame_bytes(bytes);

    if (hash_crc32c(bytes + CHECKED_AT, len - CHECKED_AT) != get_u32(bytes + 4)) {
        return ERR_CORRUPT;
    }
    *ret_frame = (struct frame){(enum frame_type)bytes[9], bytes + FRAME_HEADER_BYTES,
                                len - FRAME_HEADER_BYTES};
    return 1;
}

/* Move input into the buffer until it holds `want` bytes. True if it does. */
static bool gather_to(struct frame_decoder *decoder, size_t want, const uint8_t **data, size_t *len)
{
    size_t take;

    ASSERT(decoder->buf.len <= want);
    take = want - decoder->buf.len;
    take = take < *len ? take : *len;
    buf_put(&decoder->buf, *data, take);
    *data += take;
    *len -= take;
    return decoder->buf.len == want;
}

static int next_frame(struct frame_decoder *decoder, const uint8_t **data, size_t *len,
                      struct frame *ret_frame)
{
    const uint8_t *bytes = *data;
    bool in_place = decoder->buf.len == 0 && *len >= FRAME_HEADER_BYTES;
    int rv;

    if (!in_place) {
        if (decoder->buf.len < FRAME_HEADER_BYTES &&
            !gather_to(decoder, FRAME_HEADER_BYTES, data, len)) {
            return 0;
        }
        bytes = decoder->buf.data;
    }
    rv = header_check(decoder, bytes);
    if (rv != 0) {
        return rv;
    }
    if (in_place && frame_bytes(bytes) <= *len) {
        *data += frame_bytes(bytes);
        *len -= frame_bytes(bytes);
        return frame_open(bytes, ret_frame);
    }
    if (!gather_to(decoder, frame_bytes(bytes), data, len)) {
        return 0;
    }
    decoder->buf_is_given = true;
    return frame_open(decoder->buf.data, ret_frame);
}

int frame_decoder_next(struct frame_decoder *decoder, const uint8_t **data, size_t *len,
                       struct frame *ret_frame)
{
    int rv;

    if (decoder->error != 0) {
        return decoder->error;
    }
    if (decoder->buf_is_given) {
        decoder->buf_is_given = false;
        decoder->buf.len = 0;
        if (decoder->buf.capacity > KEEP_BYTES) {
            buf_free(&decoder->buf);
        }
    }
    rv = next_frame(decoder, data, len, ret_frame);
    if (rv < 0) {
        decoder->error = rv;
    }
    ASSERT_IMPLIES(rv == 0, *len == 0);
    return rv;
}
