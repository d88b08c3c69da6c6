/*
 * wire.c - see wire.h. The bytes of each message are a table of its fields (fields.h); those of a
 * handshake have a version u8 before them.
 *
 * Encoding asserts the bounds that decoding checks: the sender is to keep them.
 */
#include "raft/wire/wire.h"

#include <string.h>

#include "raft/wire/configuration.h"
#include "src/base/assert.h"
#include "src/base/fields.h"
#include "src/base/limits.h"

#define HANDSHAKE_VERSION 1

/* Nothing but the fields, after a version if it is not 0. */
static bool read_whole(const void *data, size_t len, uint8_t version, const struct fields *fields,
                       void *ret_message)
{
    struct reader reader;

    reader_init(&reader, data, len);
    return (version == 0 || reader_u8(&reader) == version) &&
           fields_read(&reader, fields, ret_message) && reader_done(&reader);
}

static void put_version(struct buf *buf, uint8_t version)
{
    if (version != 0) {
        buf_put_u8(buf, version);
    }
}

/* The functions that wire.h declares, by <name>_fields and <name>_is_sound(). */
#define WIRE_CODEC(name, version)                                                                  \
    static const struct fields name##_table = FIELDS(name##_fields);                               \
                                                                                                   \
    void wire_##name##_encode(const struct wire_##name *name, struct buf *buf)                     \
    {                                                                                              \
        ASSERT(name##_is_sound(name));                                                             \
        put_version(buf, version);                                                                 \
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
    return (request->kind == WIRE_REQUEST_COMMAND || request->kind == WIRE_REQUEST_QUERY ||
            request->kind == WIRE_REQUEST_MEMBER || request->kind == WIRE_REQUEST_LEADER) &&
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
    FIELD_NUMBER(struct wire_clock, serves), /* the last one: only where it says something */
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

static bool peer_durable_is_sound(const struct peer_durable *durable)
{
    return durable->term < WIRE_NUMBER_BOUND && durable->index < WIRE_NUMBER_BOUND &&
           durable->vote <= LIMIT_NODE_ID && durable->last_term <= durable->term &&
           (durable->last_term == 0) == (durable->index == 0);
}

static const struct field durable_fields[] = {
    FIELD_NUMBER(struct wire_durable, now.incarnation), FIELD_NUMBER(struct wire_durable, now.term),
    FIELD_NUMBER(struct wire_durable, now.index),       FIELD_NUMBER(struct wire_durable, now.vote),
    FIELD_NUMBER(struct wire_durable, now.last_term),
};

static bool durable_is_sound(const struct wire_durable *durable)
{
    return peer_durable_is_sound(&durable->now);
}

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

    return peer_durable_is_sound(&statement->start) && conf_is_sound(&statement->conf) &&
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
