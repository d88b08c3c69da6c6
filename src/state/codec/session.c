/*
 * session.c - see session.h.
 */
#include "src/state/codec/session.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

/* --- command_bytes --- */

int command_number(const void *data, size_t len)
{
    struct reader reader;
    uint8_t version;
    uint8_t type;

    reader_init(&reader, data, len);
    version = reader_u8(&reader);
    type = reader_u8(&reader);
    if (reader.bad) {
        return ERR_BAD_MESSAGE;
    }
    return version == COMMAND_VERSION ? type : ERR_NEWER;
}

void command_fields_put(struct buf *buf, unsigned type, const struct fields *fields,
                        const void *record)
{
    static const uint8_t NO_STAMP[SESSION_STAMP_BYTES];

    ASSERT(type > 0 && type < QUERY_BASE && buf->len == 0);
    buf_put_u8(buf, COMMAND_VERSION);
    buf_put_u8(buf, (uint8_t)type);
    buf_put(buf, NO_STAMP, sizeof NO_STAMP);
    fields_put(buf, fields, record);
}

int command_fields_read(const void *data, size_t len, unsigned type, const struct fields *fields,
                        void *record)
{
    struct reader reader;

    reader_init(&reader, data, len);
    return reader_u8(&reader) == COMMAND_VERSION && reader_u8(&reader) == type &&
                   reader_bytes(&reader, SESSION_STAMP_BYTES) != NULL &&
                   fields_read(&reader, fields, record) && reader_done(&reader)
               ? 0
               : ERR_BAD_MESSAGE;
}

void message_fields_put(struct buf *buf, unsigned type, const struct fields *fields,
                        const void *record)
{
    message_head_put(buf, type);
    fields_put(buf, fields, record);
}

bool message_fields_read(const void *data, size_t len, unsigned type, const struct fields *fields,
                         void *record)
{
    struct reader reader;

    return message_head_read(&reader, data, len, type) && fields_read(&reader, fields, record) &&
           reader_done(&reader);
}

int message_items_read(struct reader *reader, const struct item_format *format, void *ret_items,
                       size_t max, size_t *ret_count)
{
    uint32_t count = reader_u32(reader);
    char *item = ret_items;

    if (count > max) {
        return ERR_BAD_MESSAGE;
    }
    for (uint32_t i = 0; i < count; i++, item += format->size) {
        memset(item, 0, format->size);
        if (!fields_read(reader, &format->fields, item) ||
            (format->is_sound != NULL && !format->is_sound(item))) {
            return ERR_BAD_MESSAGE;
        }
    }
    if (!reader_done(reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_count = count;
    return 0;
}

void *message_items_read_all(struct reader *reader, const struct item_format *format,
                             size_t *ret_count)
{
    struct reader head = *reader;
    uint32_t count = reader_u32(&head);
    void *items;

    if (count > format->max) {
        return NULL;
    }
    items = MUST_HAVE(malloc((count > 0 ? count : 1) * format->size));
    if (message_items_read(reader, format, items, count, ret_count) != 0) {
        free(items);
        return NULL;
    }
    return items;
}

static const struct field STATUS_FIELDS[] = {{FIELD_KIND_U32, 0, sizeof(int32_t), 0}};
static const struct fields STATUS = FIELDS(STATUS_FIELDS);

void status_result_encode(int32_t status, struct buf *buf)
{
    ASSERT(status <= 0);
    message_fields_put(buf, RESULT_STATUS, &STATUS, &status);
}

int status_result_decode(const void *data, size_t len, int32_t *ret_status)
{
    return message_fields_read(data, len, RESULT_STATUS, &STATUS, ret_status) ? 0 : ERR_BAD_MESSAGE;
}

/*
 * --- session: numbers are given out in order, and a bit for each marks it as awaited. When the
 * lowest is over, the lowest awaited number moves to the next one whose bit is set.
 */

_Static_assert(LIMIT_NODE_ID <= UINT16_MAX, "a node id fits the stamp");
_Static_assert(LIMIT_SESSION_COMMANDS % 8 == 0, "whole bytes of bits");

/* --- stamps --- */

static const struct field STAMP_FIELDS[] = {
    FIELD_SHORT(struct session_stamp, node_id),
    FIELD_NUMBER(struct session_stamp, incarnation),
    FIELD_NUMBER(struct session_stamp, seq),
    FIELD_NUMBER(struct session_stamp, lowest),
};
static const struct fields STAMP = FIELDS(STAMP_FIELDS);

void session_stamp_put(struct buf *command, const struct session_stamp *stamp)
{
    size_t len = command->len;

    ASSERT(len >= SESSION_STAMP_AT + SESSION_STAMP_BYTES);
    ASSERT(command->data[0] == COMMAND_VERSION);
    ASSERT(stamp->node_id >= 1 && stamp->node_id <= LIMIT_NODE_ID && stamp->incarnation >= 1);
    ASSERT(stamp->lowest >= 1 && stamp->lowest <= stamp->seq);
    command->len = SESSION_STAMP_AT;
    fields_put(command, &STAMP, stamp);
    ASSERT(command->len == SESSION_STAMP_AT + SESSION_STAMP_BYTES);
    command->len = len;
}

bool session_stamp_is_sound(const struct session_stamp *stamp)
{
    return stamp->node_id >= 1 && stamp->node_id <= LIMIT_NODE_ID && stamp->incarnation >= 1 &&
           stamp->lowest >= 1 && stamp->lowest <= stamp->seq &&
           stamp->seq - stamp->lowest < LIMIT_SESSION_COMMANDS;
}

int session_stamp_read(const void *command, size_t len, struct session_stamp *ret_stamp)
{
    struct session_stamp stamp;
    struct reader reader;

    reader_init(&reader, command, len);
    (void)reader_bytes(&reader, SESSION_STAMP_AT);
    if (!fields_read(&reader, &STAMP, &stamp)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_stamp = stamp;
    if (stamp.node_id == 0) {
        return stamp.incarnation == 0 && stamp.seq == 0 && stamp.lowest == 0 ? 0 : ERR_BAD_MESSAGE;
    }
    return session_stamp_is_sound(&stamp) ? 0 : ERR_BAD_MESSAGE;
}

static const struct field REFUSAL_FIELDS[] = {
    FIELD_NUMBER(struct session_refusal, status),
    FIELD_NUMBER(struct session_refusal, incarnation),
};
static const struct fields REFUSAL = FIELDS(REFUSAL_FIELDS);

void session_refusal_encode(const struct session_refusal *refusal, struct buf *buf)
{
    ASSERT(refusal->status < 0);
    message_fields_put(buf, RESULT_REFUSED, &REFUSAL, refusal);
}

bool session_refusal_decode(const void *result, size_t len, struct session_refusal *ret_refusal)
{
    return message_fields_read(result, len, RESULT_REFUSED, &REFUSAL, ret_refusal) &&
           ret_refusal->status < 0;
}

/* --- numbers --- */

static bool is_awaited(const struct session *session, uint64_t seq)
{
    uint64_t place = seq % LIMIT_SESSION_COMMANDS;

    return (session->awaited[place / 8] >> (place % 8) & 1) != 0;
}

static void await(struct session *session, uint64_t seq, bool on)
{
    uint64_t place = seq % LIMIT_SESSION_COMMANDS;
    uint8_t bit = (uint8_t)(1U << (place % 8));

    session->awaited[place / 8] =
        (uint8_t)(on ? session->awaited[place / 8] | bit : session->awaited[place / 8] & ~bit);
}

void session_init(struct session *session, uint64_t node_id, uint64_t incarnation)
{
    ASSERT(node_id >= 1 && node_id <= LIMIT_NODE_ID && incarnation >= 1);
    memset(session, 0, sizeof *session);
    session->node_id = node_id;
    session->incarnation = incarnation;
    session->lowest = 1;
}

bool session_take(struct session *session, uint64_t *ret_seq)
{
    if (session->newest + 1 - session->lowest >= LIMIT_SESSION_COMMANDS ||
        (session->held_bytes >= SESSION_HOLD_BYTES && session->lowest <= session->newest)) {
        return false;
    }
    *ret_seq = ++session->newest;
    await(session, session->newest, true);
    session->bytes[session->newest % LIMIT_SESSION_COMMANDS] = 0;
    return true;
}

struct session_stamp session_stamp(const struct session *session, uint64_t seq)
{
    ASSERT(seq >= session->lowest && seq <= session->newest && is_awaited(session, seq));
    return (struct session_stamp){session->node_id, session->incarnation, seq, session->lowest};
}

void session_end(struct session *session, uint64_t seq, uint64_t applied_lowest,
                 size_t answer_bytes, bool tidying, uint64_t now_ms)
{
    ASSERT(seq >= session->lowest && seq <= session->newest && is_awaited(session, seq));
    ASSERT(applied_lowest <= seq);
    await(session, seq, false);
    session->bytes[seq % LIMIT_SESSION_COMMANDS] =
        answer_bytes < UINT32_MAX ? (uint32_t)answer_bytes : UINT32_MAX;
    session->held_bytes += session->bytes[seq % LIMIT_SESSION_COMMANDS];
    while (session->lowest <= session->newest && !is_awaited(session, session->lowest)) {
        session->held_bytes -= session->bytes[session->lowest % LIMIT_SESSION_COMMANDS];
        session->lowest++;
    }
    if (applied_lowest > session->applied) {
        session->applied = applied_lowest;
    }
    if (!tidying && seq > session->over) {
        session->over_ms = session->over < session->applied ? now_ms : session->over_ms;
        session->over = seq;
    }
}

uint64_t session_due_ms(const struct session *session)
{
    if (session->applied == 0) {
        return 0; /* no command of this incarnation was applied yet */
    }
    if (session->over < session->applied || session->lowest <= session->applied) {
        return UINT64_MAX; /* the cluster knows all */
    }
    return session->over_ms + SESSION_TIDY_MS;
}
