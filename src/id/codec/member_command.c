/*
 * member_command.c - the bytes of member.h: commands, the row of the change, requests, answers.
 *
 * The happy path: encode into a buffer; on the other side every field is read and nothing may be
 * left over.
 *
 * Failure modes: decoding gives ERR_BAD_MESSAGE (rows: see member.h). Encoding asserts what
 * decoding checks. Thread: pure functions, any.
 */
#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"
#include "src/id/codec/command_bytes.h"
#include "src/id/codec/member.h"

#define ROW_VERSION 1
#define FLAG_FORCE 0x01
#define FLAG_GIVEN_UP 0x02
#define FLAG_AGAIN 0x04

/* A text into a zeroed array of size bytes, with its NUL. False if it does not fit or holds one. */
static bool read_text(struct reader *reader, char *ret_text, size_t size)
{
    size_t len;
    const uint8_t *text = reader_str16(reader, &len);

    if (text == NULL || len >= size || memchr(text, 0, len) != NULL) {
        return false;
    }
    memcpy(ret_text, text, len);
    return true;
}

static bool change_is_sound(const struct member_change *change)
{
    const char *why;

    if (change->node_id < 1 || change->node_id > LIMIT_NODE_ID) {
        return false;
    }
    if (change->kind == MEMBER_ADD) {
        return member_address_check(change->address, strlen(change->address), &why);
    }
    return change->kind == MEMBER_REMOVE && change->address[0] == '\0';
}

void command_member_begin_encode(struct buf *buf, const struct member_change *change)
{
    ASSERT(change_is_sound(change));
    command_head_put(buf, COMMAND_MEMBER_BEGIN);
    buf_put_u8(buf, change->kind);
    buf_put_u8(buf, change->force ? FLAG_FORCE : 0);
    buf_put_u64(buf, change->node_id);
    buf_put_str16(buf, change->address, strlen(change->address));
}

int member_begin_command_read(const void *data, size_t len, struct member_change *ret_change)
{
    struct member_change change = {0};
    struct reader reader;
    uint8_t flags;

    if (!command_head_read(&reader, data, len, COMMAND_MEMBER_BEGIN)) {
        return ERR_BAD_MESSAGE;
    }
    change.kind = reader_u8(&reader);
    flags = reader_u8(&reader);
    change.force = (flags & FLAG_FORCE) != 0;
    change.node_id = reader_u64(&reader);
    if (!read_text(&reader, change.address, sizeof change.address) || !reader_done(&reader) ||
        (flags & ~FLAG_FORCE) != 0 || !change_is_sound(&change)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_change = change;
    return 0;
}

void command_member_end_encode(struct buf *buf, uint64_t index, bool given_up)
{
    command_head_put(buf, COMMAND_MEMBER_END);
    buf_put_u8(buf, given_up ? FLAG_GIVEN_UP : 0);
    buf_put_u64(buf, index);
}

int member_end_command_read(const void *data, size_t len, uint64_t *ret_index, bool *ret_given_up)
{
    struct reader reader;
    uint64_t index;
    uint8_t flags;

    if (!command_head_read(&reader, data, len, COMMAND_MEMBER_END)) {
        return ERR_BAD_MESSAGE;
    }
    flags = reader_u8(&reader);
    index = reader_u64(&reader);
    if (!reader_done(&reader) || (flags & ~FLAG_GIVEN_UP) != 0) {
        return ERR_BAD_MESSAGE;
    }
    *ret_index = index;
    *ret_given_up = flags != 0;
    return 0;
}

void member_change_row_encode(const struct member_change *change, struct buf *buf)
{
    ASSERT(change_is_sound(change));
    buf_put_u8(buf, ROW_VERSION);
    buf_put_u8(buf, change->kind);
    buf_put_u8(
        buf, (uint8_t)((change->force ? FLAG_FORCE : 0) | (change->given_up ? FLAG_GIVEN_UP : 0)));
    buf_put_u64(buf, change->node_id);
    buf_put_u64(buf, change->index);
    buf_put_str16(buf, change->address, strlen(change->address));
}

int member_change_row_decode(const void *value, size_t len, struct member_change *ret_change)
{
    struct member_change change = {0};
    struct reader reader;
    uint8_t flags;
    bool fits;

    reader_init(&reader, value, len);
    if (len > 0 && reader_u8(&reader) != ROW_VERSION) {
        return ERR_BAD_VERSION;
    }
    change.kind = reader_u8(&reader);
    flags = reader_u8(&reader);
    change.force = (flags & FLAG_FORCE) != 0;
    change.given_up = (flags & FLAG_GIVEN_UP) != 0;
    change.node_id = reader_u64(&reader);
    change.index = reader_u64(&reader);
    fits = read_text(&reader, change.address, sizeof change.address);
    if (reader.bad) {
        return ERR_TRUNCATED;
    }
    if (!fits || !reader_done(&reader) || (flags & ~(FLAG_FORCE | FLAG_GIVEN_UP)) != 0 ||
        !change_is_sound(&change)) {
        return ERR_CORRUPT;
    }
    *ret_change = change;
    return 0;
}

void member_ask_encode(const struct member_ask *ask, struct buf *buf)
{
    ASSERT(ask->kind >= MEMBER_ASK_ADD && ask->kind <= MEMBER_ASK_LEAD);
    command_head_put(buf, ask->kind);
    buf_put_u8(buf, (uint8_t)((ask->force ? FLAG_FORCE : 0) | (ask->again ? FLAG_AGAIN : 0)));
    buf_put_u64(buf, ask->node_id);
    buf_put_str16(buf, ask->address, strlen(ask->address));
}

int member_ask_decode(const void *data, size_t len, struct member_ask *ret_ask)
{
    struct member_ask ask = {0};
    struct reader reader;
    const char *why;
    uint8_t flags;

    reader_init(&reader, data, len);
    if (reader_u8(&reader) != COMMAND_VERSION || session_stamp_read(data, len, &ask.stamp) != 0) {
        return ERR_BAD_MESSAGE;
    }
    ask.kind = reader_u8(&reader);
    (void)reader_bytes(&reader, SESSION_STAMP_BYTES);
    flags = reader_u8(&reader);
    ask.force = (flags & FLAG_FORCE) != 0;
    ask.again = (flags & FLAG_AGAIN) != 0;
    ask.node_id = reader_u64(&reader);
    if (!read_text(&reader, ask.address, sizeof ask.address) || !reader_done(&reader) ||
        ask.kind < MEMBER_ASK_ADD || ask.kind > MEMBER_ASK_LEAD ||
        (flags & ~(FLAG_FORCE | FLAG_AGAIN)) != 0 || ask.node_id < 1 ||
        ask.node_id > LIMIT_NODE_ID ||
        (ask.kind == MEMBER_ASK_ADD ? !member_address_check(ask.address, strlen(ask.address), &why)
                                    : ask.address[0] != '\0')) {
        return ERR_BAD_MESSAGE;
    }
    *ret_ask = ask;
    return 0;
}

void member_answer_encode(const struct member_answer *answer, struct buf *buf)
{
    ASSERT(answer->outcome < MEMBER_OUTCOMES);
    buf_put_u8(buf, MESSAGE_VERSION);
    buf_put_u8(buf, answer->outcome);
    buf_put_str16(buf, answer->why, strlen(answer->why));
}

int member_answer_decode(const void *data, size_t len, struct member_answer *ret_answer)
{
    struct member_answer answer = {0};
    struct reader reader;

    reader_init(&reader, data, len);
    if (reader_u8(&reader) != MESSAGE_VERSION) {
        return ERR_BAD_MESSAGE;
    }
    answer.outcome = reader_u8(&reader);
    if (!read_text(&reader, answer.why, sizeof answer.why) || !reader_done(&reader) ||
        answer.outcome >= MEMBER_OUTCOMES) {
        return ERR_BAD_MESSAGE;
    }
    *ret_answer = answer;
    return 0;
}

/* --- addresses --- */

static bool port_fits(const char *text, size_t len)
{
    unsigned port = 0;

    if (len < 1 || len > 5) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return port >= 1 && port <= 65535;
}

static bool all_of(const char *text, size_t len, const char *allowed)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\0' || strchr(allowed, text[i]) == NULL) {
            return false;
        }
    }
    return len > 0;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool host_fits(const char *host, size_t len)
{
    if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
        return all_of(host + 1, len - 2, LETTERS DIGITS ":.%");
    }
    return all_of(host, len, LETTERS DIGITS ".-_");
}

/* Zeros and what parts them only: an address to listen on, and not one to dial. */
static bool is_wildcard(const char *host, size_t len)
{
    return all_of(host, len, "0.[]:");
}

bool member_address_check(const char *address, size_t len, const char **ret_why)
{
    const char *colon = len > 0 ? memrchr(address, ':', len) : NULL;
    size_t host_len;

    if (len > LIMIT_ADDRESS_BYTES) {
        *ret_why = "it is too long";
        return false;
    }
    if (colon == NULL) {
        *ret_why = "it is not host:port";
        return false;
    }
    host_len = (size_t)(colon - address);
    if (!port_fits(colon + 1, len - host_len - 1)) {
        *ret_why = "its port is not a number from 1 to 65535";
        return false;
    }
    if (!host_fits(address, host_len)) {
        *ret_why = "its host is no name, no IPv4 address and no IPv6 address in brackets";
        return false;
    }
    if (is_wildcard(address, host_len)) {
        *ret_why = "its host is a wildcard, which nobody can dial";
        return false;
    }
    return true;
}
