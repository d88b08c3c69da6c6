/*
 * wire_member.c - what nodes tell each other about the membership in their handshakes.
 *
 *   STATEMENT   u8 version, u64 incarnation, u64 term and u64 last index at its start,
 *               u64 index of a configuration, u32 length, the configuration
 *   JOIN        u8 version, str16 its peer address
 *   JOINED      u8 version, u8 outcome, str16 why, u64 index, u32 length, the configuration
 *
 * Failure modes: ERR_BAD_MESSAGE for anything that is short, long or out of bounds; a configuration
 * that the core could not decode is among that. An index of 0 stands for none, and then no
 * configuration follows.
 *
 * Thread: pure functions, any.
 */
#include <string.h>

#include "raft/wire/configuration.h"
#include "raft/wire/wire.h"
#include "raft/wire/wire_check.h"
#include "src/base/assert.h"
#include "src/base/limits.h"

#define MEMBER_VERSION 1

static void put_conf(const struct wire_conf *conf, struct buf *buf)
{
    ASSERT((conf->index == 0) == (conf->len == 0));
    buf_put_u64(buf, conf->index);
    buf_put_str32(buf, conf->data, conf->len);
}

static void read_conf(struct reader *reader, struct wire_conf *ret_conf)
{
    ret_conf->index = reader_u64(reader);
    ret_conf->data = wire_read_bytes(reader, LIMIT_HANDSHAKE_BYTES, &ret_conf->len);
    wire_require(reader, ret_conf->index < WIRE_NUMBER_BOUND);
    wire_require(reader, (ret_conf->index == 0) == (ret_conf->len == 0));
    if (!reader->bad && ret_conf->len > 0) {
        wire_require(reader, configuration_check(ret_conf->data, ret_conf->len) == 0);
    }
}

void wire_statement_encode(const struct peer_start *start, const struct wire_conf *conf,
                           struct buf *buf)
{
    buf_put_u8(buf, MEMBER_VERSION);
    buf_put_u64(buf, start->incarnation);
    buf_put_u64(buf, start->term);
    buf_put_u64(buf, start->index);
    put_conf(conf, buf);
}

int wire_statement_decode(const void *data, size_t len, struct peer_start *ret_start,
                          struct wire_conf *ret_conf)
{
    struct peer_start start;
    struct wire_conf conf;
    struct reader reader;

    reader_init(&reader, data, len);
    wire_require(&reader, reader_u8(&reader) == MEMBER_VERSION);
    start.incarnation = reader_u64(&reader);
    start.term = reader_u64(&reader);
    start.index = reader_u64(&reader);
    wire_require(&reader, start.term < WIRE_NUMBER_BOUND && start.index < WIRE_NUMBER_BOUND);
    read_conf(&reader, &conf);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_start = start;
    *ret_conf = conf;
    return 0;
}

/* A text of less than size bytes, without NULs. */
static void read_text(struct reader *reader, char *ret_text, size_t size)
{
    size_t len;
    const uint8_t *text = reader_str16(reader, &len);

    if (text == NULL || len >= size || memchr(text, 0, len) != NULL) {
        reader->bad = true;
        return;
    }
    memcpy(ret_text, text, len);
    ret_text[len] = '\0';
}

void wire_join_encode(const char *address, struct buf *buf)
{
    buf_put_u8(buf, MEMBER_VERSION);
    buf_put_str16(buf, address, strlen(address));
}

int wire_join_decode(const void *data, size_t len, char ret_address[LIMIT_ADDRESS_BYTES + 1])
{
    struct reader reader;

    reader_init(&reader, data, len);
    wire_require(&reader, reader_u8(&reader) == MEMBER_VERSION);
    read_text(&reader, ret_address, LIMIT_ADDRESS_BYTES + 1);
    return reader_done(&reader) ? 0 : ERR_BAD_MESSAGE;
}

void wire_joined_encode(const struct wire_joined *joined, struct buf *buf)
{
    buf_put_u8(buf, MEMBER_VERSION);
    buf_put_u8(buf, joined->answer.outcome);
    buf_put_str16(buf, joined->answer.why, strlen(joined->answer.why));
    put_conf(&joined->conf, buf);
}

int wire_joined_decode(const void *data, size_t len, struct wire_joined *ret_joined)
{
    struct wire_joined joined = {0};
    struct reader reader;

    reader_init(&reader, data, len);
    wire_require(&reader, reader_u8(&reader) == MEMBER_VERSION);
    joined.answer.outcome = reader_u8(&reader);
    wire_require(&reader, joined.answer.outcome < MEMBER_OUTCOMES);
    read_text(&reader, joined.answer.why, sizeof joined.answer.why);
    read_conf(&reader, &joined.conf);
    wire_require(&reader, (joined.answer.outcome == MEMBER_DONE) == (joined.conf.len > 0));
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_joined = joined;
    return 0;
}
