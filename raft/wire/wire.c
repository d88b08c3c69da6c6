/*
 * wire.c - see wire.h. The bytes of each message are a table of its fields (fields.h); those of a
 * handshake have a version u8 before them. Encoding asserts the bounds that decoding checks.
 *
 * The decoder of frames: whole frames in the input are checked and returned in place. A frame that
 * comes in pieces is gathered in the decoder's buffer: the header first, which is checked before a
 * byte of payload is kept, then the payload. In a broken stream the next frame cannot be found
 * safely, so the error stays and the owner closes the link.
 */
#include "raft/wire/wire.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/fields.h"
#include "src/base/hash.h"
#include "src/base/limits.h"

/* --- frames --- */

#define CHECKED_AT 8     /* the checksum covers the frame from here */
#define KEEP_BYTES 65536 /* a larger gathering buffer is freed after its frame */

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

struct entry_block *entry_block_new(const void *data, size_t len)
{
    struct entry_block *block = MUST_HAVE(malloc(sizeof *block + len));

    ASSERT(len <= UINT32_MAX);
    block->refs = 1;
    block->len = (uint32_t)len;
    if (len > 0) {
        memcpy(block->data, data, len);
    }
    return block;
}

struct entry_block *entry_block_ref(struct entry_block *block)
{
    ASSERT(block->refs > 0);
    block->refs++;
    return block;
}

void entry_block_unref(struct entry_block *block)
{
    ASSERT(block == NULL || block->refs > 0);
    if (block != NULL && --block->refs == 0) {
        free(block);
    }
}

void frame_header(uint8_t header[FRAME_HEADER_BYTES], enum frame_type type, const void *payload,
                  size_t len, const struct entry_block *tail)
{
    const size_t tail_len = tail != NULL ? tail->len : 0;
    uint32_t crc;

    ASSERT(len + tail_len <= FRAME_PAYLOAD_BYTES_MAX);
    ASSERT(type_is_known((uint8_t)type));
    put_u32(header, (uint32_t)(FRAME_HEADER_BYTES - CHECKED_AT + len + tail_len));
    header[8] = FRAME_VERSION;
    header[9] = (uint8_t)type;
    header[10] = 0;
    header[11] = 0;
    crc = hash_crc32c(header + CHECKED_AT, FRAME_HEADER_BYTES - CHECKED_AT);
    if (len > 0) {
        crc = hash_crc32c_more(crc, payload, len);
    }
    if (tail_len > 0) {
        crc = hash_crc32c_more(crc, tail->data, tail_len);
    }
    put_u32(header + 4, crc);
}

void frame_put(struct buf *buf, enum frame_type type, const void *payload, size_t len)
{
    uint8_t header[FRAME_HEADER_BYTES];

    frame_header(header, type, payload, len, NULL);
    buf_put(buf, header, sizeof header);
    buf_put(buf, payload, len);
}

bool frame_is_handshake(enum frame_type type)
{
    return type >= FRAME_HELLO && type <= FRAME_JOINED;
}

/* Check the header, before any payload is kept. 0 or an error. */
static int header_check(const struct frame_decoder *decoder, const uint8_t *header)
{
    const size_t bytes_max = decoder->is_open ? LIMIT_FRAME_BYTES : LIMIT_HANDSHAKE_BYTES;
    const uint32_t checked_len = get_u32(header);

    if (header[8] != FRAME_VERSION) {
        return ERR_BAD_VERSION;
    }
    if (checked_len > bytes_max - CHECKED_AT) {
        return ERR_TOO_LARGE;
    }
    if (checked_len < FRAME_HEADER_BYTES - CHECKED_AT || header[10] != 0 || header[11] != 0) {
        return ERR_BAD_MESSAGE;
    }
    if (!type_is_known(header[9]) ||
        frame_is_handshake((enum frame_type)header[9]) == decoder->is_open) {
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

/* The frame in these bytes, which are complete, if its checksum matches. 1 or ERR_CORRUPT. */
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

int frame_decoder_next(struct frame_decoder *decoder, const uint8_t **data, size_t *len,
                       struct frame *ret_frame)
{
    bool in_place;
    const uint8_t *bytes;
    int rv = 0;

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
    in_place = decoder->buf.len == 0 && *len >= FRAME_HEADER_BYTES;
    if (!in_place && decoder->buf.len < FRAME_HEADER_BYTES &&
        !gather_to(decoder, FRAME_HEADER_BYTES, data, len)) {
        ASSERT(*len == 0);
        return 0;
    }
    bytes = in_place ? *data : decoder->buf.data;
    rv = header_check(decoder, bytes);
    if (rv == 0 && in_place && frame_bytes(bytes) <= *len) {
        *data += frame_bytes(bytes);
        *len -= frame_bytes(bytes);
        rv = frame_open(bytes, ret_frame);
    } else if (rv == 0 && gather_to(decoder, frame_bytes(bytes), data, len)) {
        decoder->buf_is_given = true;
        rv = frame_open(decoder->buf.data, ret_frame);
    }
    if (rv < 0) {
        decoder->error = rv;
    }
    ASSERT_IMPLIES(rv == 0, *len == 0);
    return rv;
}

/*
 * --- configurations ---
 *
 * {u8 version 1, u64 count, count times {u64 id, address with its NUL, u8 role}, zeros up to a
 * multiple of 8}. The library's decoder runs past the end of a short or unterminated one, and keeps
 * its partial result when it fails; so it gets only bytes that passed here.
 */

#define CONFIGURATION_VERSION 1
#define CONFIGURATION_ALIGN 8

void configuration_encode(const struct configuration *configuration, struct buf *buf)
{
    size_t start = buf->len;

    ASSERT(configuration->count <= LIMIT_NODES);
    buf_put_u8(buf, CONFIGURATION_VERSION);
    buf_put_u64(buf, configuration->count);
    MEMBER_FOREACH (member, configuration) {
        ASSERT(member->id > 0 && member->role >= ROLE_STANDBY && member->role <= ROLE_SPARE);
        buf_put_u64(buf, member->id);
        buf_put(buf, member->address, strlen(member->address) + 1);
        buf_put_u8(buf, (uint8_t)member->role);
    }
    while ((buf->len - start) % CONFIGURATION_ALIGN != 0) {
        buf_put_u8(buf, 0);
    }
}

/* The next member, or a bad reader. */
static void read_member(struct reader *reader, struct conf_member *ret_member)
{
    size_t left;
    const uint8_t *address;
    const uint8_t *end;
    size_t len;

    ret_member->id = reader_u64(reader);
    left = reader_left(reader);
    address = left > 0 ? reader->data + reader->at : NULL;
    end = address != NULL ? memchr(address, 0, left) : NULL;
    if (end == NULL || end - address > LIMIT_ADDRESS_BYTES) {
        reader->bad = true;
        return;
    }
    len = (size_t)(end - address) + 1;
    (void)reader_bytes(reader, len);
    memcpy(ret_member->address, address, len);
    ret_member->role = (enum conf_role)reader_u8(reader);
    if (ret_member->id < 1 || ret_member->id > LIMIT_NODE_ID || ret_member->role > ROLE_SPARE) {
        reader->bad = true;
    }
}

int configuration_decode(const void *data, size_t len, struct configuration *ret_configuration)
{
    struct reader reader;
    uint64_t count;
    bool fits;

    reader_init(&reader, data, len);
    if (reader_u8(&reader) != CONFIGURATION_VERSION) {
        return ERR_BAD_MESSAGE;
    }
    count = reader_u64(&reader);
    if (reader.bad || count > LIMIT_NODES) { /* 0 members: no voter, refused above */
        return ERR_BAD_MESSAGE;
    }
    ret_configuration->count = (unsigned)count;
    for (unsigned i = 0; i < count && !reader.bad; i++) {
        read_member(&reader, &ret_configuration->members[i]);
    }
    /* The rest are the zeros up to the next multiple of 8: one encoding for one configuration. */
    fits =
        !reader.bad && len % CONFIGURATION_ALIGN == 0 && reader_left(&reader) < CONFIGURATION_ALIGN;
    while (fits && reader_left(&reader) > 0) {
        fits = reader_u8(&reader) == 0;
    }
    if (!fits) {
        return ERR_BAD_MESSAGE;
    }
    /* Ids and addresses are unique, and there is a voter. The library's decoder refuses a second
     * use of an address as well. */
    MEMBER_FOREACH (member, ret_configuration) {
        for (const struct conf_member *other = ret_configuration->members; other < member;
             other++) {
            if (other->id == member->id || strcmp(other->address, member->address) == 0) {
                return ERR_BAD_MESSAGE;
            }
        }
    }
    return configuration_voters(ret_configuration) > 0 ? 0 : ERR_BAD_MESSAGE;
}

int configuration_check(const void *data, size_t len)
{
    struct configuration configuration;

    return configuration_decode(data, len, &configuration);
}

/* --- payloads --- */

#define HANDSHAKE_VERSION 1

/* Read only the fields, after a version if it is not 0. */
static bool read_whole(const void *data, size_t len, uint8_t version, const struct fields *fields,
                       void *ret_message)
{
    struct reader reader;

    reader_init(&reader, data, len);
    return (version == 0 || reader_u8(&reader) == version) &&
           fields_read(&reader, fields, ret_message) && reader_done(&reader);
}

/* The functions that wire.h declares, by <name>_fields and <name>_is_sound(). */
#define WIRE_CODEC(name, version)                                                                  \
    static const struct fields name##_table = FIELDS(name##_fields);                               \
                                                                                                   \
    void wire_##name##_encode(const struct wire_##name *name, struct buf *buf)                     \
    {                                                                                              \
        ASSERT(name##_is_sound(name));                                                             \
        if (version != 0) {                                                                        \
            buf_put_u8(buf, version);                                                              \
        }                                                                                          \
        fields_put(buf, &name##_table, name);                                                      \
    }                                                                                              \
                                                                                                   \
    int wire_##name##_decode(const void *data, size_t len, struct wire_##name *ret_##name)         \
    {                                                                                              \
        return read_whole(data, len, version, &name##_table, ret_##name) &&                        \
                       name##_is_sound(ret_##name)                                                 \
                   ? 0                                                                             \
                   : ERR_BAD_MESSAGE;                                                              \
    }

/* --- snapshots --- */

static const struct field chunk_fields[] = {
    FIELD_NUMBER(struct wire_chunk, transfer),
    FIELD_NUMBER(struct wire_chunk, offset),
    FIELD_BOOL(struct wire_chunk, last),
    FIELD_BYTES(struct wire_chunk, data, len),
};

static bool chunk_is_sound(const struct wire_chunk *chunk)
{
    return chunk->len <= WIRE_CHUNK_BYTES_MAX && chunk->offset <= LIMIT_SNAPSHOT_BYTES &&
           chunk->len <= LIMIT_SNAPSHOT_BYTES - chunk->offset;
}

WIRE_CODEC(chunk, 0)

static const struct field chunk_ack_fields[] = {
    FIELD_NUMBER(struct wire_chunk_ack, transfer),
    FIELD_NUMBER(struct wire_chunk_ack, offset),
    FIELD_BOOL(struct wire_chunk_ack, abort),
};

static bool chunk_ack_is_sound(const struct wire_chunk_ack *ack)
{
    return ack->offset <= LIMIT_SNAPSHOT_BYTES;
}

WIRE_CODEC(chunk_ack, 0)

/* --- requests --- */

static const struct field request_fields[] = {
    FIELD_NUMBER(struct wire_request, id),
    FIELD_SHORT(struct wire_request, origin),
    FIELD_NUMBER(struct wire_request, kind),
    FIELD_NUMBER(struct wire_request, time_left_ms),
    FIELD_BYTES(struct wire_request, payload, payload_len),
};

static bool request_is_sound(const struct wire_request *request)
{
    return (request->kind == CLUSTER_REQUEST_COMMAND || request->kind == CLUSTER_REQUEST_QUERY ||
            request->kind == CLUSTER_REQUEST_MEMBER || request->kind == CLUSTER_REQUEST_LEADER) &&
           request->origin <= LIMIT_NODE_ID && request->time_left_ms <= WIRE_TIME_LEFT_MS_MAX &&
           request->payload_len <= LIMIT_ENTRY_BYTES;
}

WIRE_CODEC(request, 0)

/* The status is an ERR_* as two's complement. */
static const struct field reply_fields[] = {
    FIELD_NUMBER(struct wire_reply, id),
    FIELD_NUMBER(struct wire_reply, status),
    FIELD_NUMBER(struct wire_reply, index),
    FIELD_BYTES(struct wire_reply, marks, marks_len),
    FIELD_BYTES(struct wire_reply, payload, payload_len),
};

static bool reply_is_sound(const struct wire_reply *reply)
{
    return reply->status <= 0 && reply->status >= WIRE_STATUS_MIN &&
           reply->index < WIRE_NUMBER_BOUND && reply->marks_len <= WIRE_MARKS_BYTES_MAX &&
           reply->payload_len <= LIMIT_ENTRY_BYTES;
}

WIRE_CODEC(reply, 0)

static const struct field confirm_fields[] = {
    FIELD_NUMBER(struct wire_confirm, term),
    FIELD_NUMBER(struct wire_confirm, round),
};

static bool confirm_is_sound(const struct wire_confirm *confirm)
{
    return confirm->term > 0 && confirm->term < WIRE_NUMBER_BOUND;
}

WIRE_CODEC(confirm, 0)

static const struct field applied_fields[] = {
    FIELD_BOOL(struct wire_applied, answer),
    FIELD_NUMBER(struct wire_applied, index),
};

static bool applied_is_sound(const struct wire_applied *applied)
{
    return applied->index < WIRE_NUMBER_BOUND && (applied->answer || applied->index == 0);
}

WIRE_CODEC(applied, 0)

static const struct field clock_fields[] = {
    FIELD_BOOL(struct wire_clock, answer), FIELD_NUMBER(struct wire_clock, sent_ms),
    FIELD_NUMBER(struct wire_clock, wall_ms),
    FIELD_NUMBER(struct wire_clock, serves), /* the last one: only if it is not 0 */
};

static bool clock_is_sound(const struct wire_clock *clock)
{
    bool says = (clock->serves & WIRE_SERVES_KNOWN) != 0;

    return clock->serves < WIRE_SERVES_SNOWFLAKE << 1 && (says || clock->serves == 0) &&
           (clock->answer || (clock->wall_ms == 0 && !says));
}

static const struct fields clock_silent =
    FIELDS_FIRST(clock_fields, sizeof clock_fields / sizeof *clock_fields - 1);
static const struct fields clock_saying = FIELDS(clock_fields);

void wire_clock_encode(const struct wire_clock *clock, struct buf *buf)
{
    ASSERT(clock_is_sound(clock));
    fields_put(buf, clock->serves == 0 ? &clock_silent : &clock_saying, clock);
}

int wire_clock_decode(const void *data, size_t len, struct wire_clock *ret_clock)
{
    ret_clock->serves = 0;
    if (!read_whole(data, len, 0, &clock_silent, ret_clock) &&
        (!read_whole(data, len, 0, &clock_saying, ret_clock) || ret_clock->serves == 0)) {
        return ERR_BAD_MESSAGE;
    }
    return clock_is_sound(ret_clock) ? 0 : ERR_BAD_MESSAGE;
}

/* --- leaders --- */

static bool durable_is_sound(const struct wire_durable *durable)
{
    return durable->term < WIRE_NUMBER_BOUND && durable->index < WIRE_NUMBER_BOUND &&
           durable->vote <= LIMIT_NODE_ID && durable->last_term <= durable->term &&
           (durable->last_term == 0) == (durable->index == 0);
}

static const struct field durable_fields[] = {
    FIELD_NUMBER(struct wire_durable, incarnation), FIELD_NUMBER(struct wire_durable, term),
    FIELD_NUMBER(struct wire_durable, index),       FIELD_NUMBER(struct wire_durable, vote),
    FIELD_NUMBER(struct wire_durable, last_term),
};

WIRE_CODEC(durable, 0)

static const struct field probe_fields[] = {
    FIELD_NUMBER(struct wire_probe, kind),
    FIELD_SHORT(struct wire_probe, origin),
    FIELD_NUMBER(struct wire_probe, round),
};

static bool probe_is_sound(const struct wire_probe *probe)
{
    return probe->kind >= WIRE_PROBE_ASK && probe->kind <= WIRE_PROBE_NO &&
           probe->origin <= LIMIT_NODE_ID &&
           (probe->kind != WIRE_PROBE_ASK_ON || probe->origin == 0);
}

WIRE_CODEC(probe, 0)

static const struct field resign_fields[] = {
    FIELD_NUMBER(struct wire_resign, term),
};

static bool resign_is_sound(const struct wire_resign *resign)
{
    return resign->term > 0 && resign->term < WIRE_NUMBER_BOUND;
}

WIRE_CODEC(resign, 0)

/* --- states that differ --- */

static const struct field compare_fields[] = {
    FIELD_NUMBER(struct wire_compare, number),
    FIELD_NUMBER(struct wire_compare, kind),
    FIELD_NUMBER(struct wire_compare, index),
    FIELD_NUMBER(struct wire_compare, digest),
};

static bool compare_is_sound(const struct wire_compare *compare)
{
    bool has_digest = compare->kind == WIRE_COMPARE_OPEN || compare->kind == WIRE_COMPARE_STATE;

    return compare->kind >= WIRE_COMPARE_OPEN && compare->kind <= WIRE_COMPARE_STATE &&
           compare->index < WIRE_NUMBER_BOUND && (compare->index != 0) == has_digest &&
           (has_digest || compare->digest == 0);
}

WIRE_CODEC(compare, 0)

static const struct field compared_fields[] = {
    FIELD_NUMBER(struct wire_compared, number),   FIELD_NUMBER(struct wire_compared, kind),
    FIELD_NUMBER(struct wire_compared, index),    FIELD_NUMBER(struct wire_compared, digest),
    FIELD_NUMBER(struct wire_compared, count),    FIELD_BOOL(struct wire_compared, end),
    FIELD_BYTES(struct wire_compared, data, len),
};

static bool compared_is_sound(const struct wire_compared *compared)
{
    bool is_part = compared->kind == WIRE_COMPARED_PART;

    if (compared->kind < WIRE_COMPARED_OPEN || compared->kind > WIRE_COMPARED_OTHER ||
        compared->index >= WIRE_NUMBER_BOUND ||
        (compared->index != 0) != (compared->kind == WIRE_COMPARED_OPEN)) {
        return false;
    }
    if (is_part) {
        /* Only a state without rows has a part without any. */
        return compared->len <= LIMIT_ROW_KEY_BYTES &&
               (compared->len == 0) == (compared->count == 0) &&
               (compared->count > 0 || (compared->end && compared->digest == 0));
    }
    return compared->digest == 0 && compared->count == 0 && !compared->end &&
           compared->len <= (compared->kind == WIRE_COMPARED_ROWS ? WIRE_CHUNK_BYTES_MAX : 0);
}

WIRE_CODEC(compared, 0)

/* --- buffers --- */

static const struct field buffers_fields[] = {
    FIELD_NUMBER(struct wire_buffers, number),
    FIELD_BOOL(struct wire_buffers, answer),
    FIELD_BYTES(struct wire_buffers, data, len),
};

static bool buffers_is_sound(const struct wire_buffers *buffers)
{
    return buffers->len > 0;
}

WIRE_CODEC(buffers, 0)

/* --- handshakes --- */

static bool conf_is_sound(const struct wire_conf *conf)
{
    return conf->index < WIRE_NUMBER_BOUND && (conf->index == 0) == (conf->len == 0) &&
           (conf->len == 0 || configuration_check(conf->data, conf->len) == 0);
}

static const struct field statement_fields[] = {
    FIELD_NUMBER(struct wire_statement, start.incarnation),
    FIELD_NUMBER(struct wire_statement, start.term),
    FIELD_NUMBER(struct wire_statement, start.index),
    FIELD_NUMBER(struct wire_statement, conf.index),
    FIELD_BYTES(struct wire_statement, conf.data, conf.len),
    FIELD_NUMBER(struct wire_statement, birth.uid.high),
    FIELD_NUMBER(struct wire_statement, birth.uid.low),
    FIELD_NUMBER(struct wire_statement, birth.list_digest),
    FIELD_TEXT(struct wire_statement, address),
    FIELD_NUMBER(struct wire_statement, start.vote),
    FIELD_NUMBER(struct wire_statement, start.last_term),
    FIELD_BYTES(struct wire_statement, earlier, earlier_len),
};

static bool statement_is_sound(const struct wire_statement *statement)
{
    const char *address = statement->address;
    const char *why;

    return durable_is_sound(&statement->start) && conf_is_sound(&statement->conf) &&
           uid_is_sound(&statement->birth.uid) &&
           (address[0] == '\0' || member_address_check(address, strlen(address), &why)) &&
           statement->earlier_len % sizeof(uint32_t) == 0 &&
           statement->earlier_len < sizeof(uint32_t) * LIMIT_INCARNATIONS;
}

WIRE_CODEC(statement, HANDSHAKE_VERSION)

static const struct field join_fields[] = {
    FIELD_TEXT(struct wire_join, address),
    FIELD_NUMBER(struct wire_join, birth.uid.high),
    FIELD_NUMBER(struct wire_join, birth.uid.low),
    FIELD_NUMBER(struct wire_join, birth.list_digest),
};

static bool join_is_sound(const struct wire_join *join)
{
    return uid_is_sound(&join->birth.uid);
}

WIRE_CODEC(join, HANDSHAKE_VERSION)

static const struct field joined_fields[] = {
    FIELD_NUMBER(struct wire_joined, answer.outcome),
    FIELD_TEXT(struct wire_joined, answer.why),
    FIELD_NUMBER(struct wire_joined, conf.index),
    FIELD_BYTES(struct wire_joined, conf.data, conf.len),
    FIELD_NUMBER(struct wire_joined, birth.uid.high),
    FIELD_NUMBER(struct wire_joined, birth.uid.low),
    FIELD_NUMBER(struct wire_joined, birth.list_digest),
};

static bool joined_is_sound(const struct wire_joined *joined)
{
    return joined->answer.outcome < MEMBER_OUTCOMES && conf_is_sound(&joined->conf) &&
           (joined->answer.outcome == MEMBER_DONE) == (joined->conf.len > 0) &&
           uid_is_sound(&joined->birth.uid);
}

WIRE_CODEC(joined, HANDSHAKE_VERSION)
