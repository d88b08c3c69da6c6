/*
 * member.c - see member.h: the row of the change, requests, answers.
 *
 * Failure modes: decoding gives ERR_BAD_MESSAGE (rows: see member.h). Encoding asserts what
 * decoding checks. Thread: pure functions, any.
 */
#include "src/state/codec/member.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/state/codec/command_bytes.h"

static const struct field ROW_FIELDS[] = {
    FIELD_NUMBER(struct member_change, kind),   FIELD_BOOL(struct member_change, force),
    FIELD_BOOL(struct member_change, given_up), FIELD_NUMBER(struct member_change, node_id),
    FIELD_NUMBER(struct member_change, index),  FIELD_TEXT(struct member_change, address),
};

static const struct field MOVE_FIELDS[] = {FIELD_TEXT(struct member_move, address)};

static const struct field ASK_FIELDS[] = {
    FIELD_BOOL(struct member_ask, force),     FIELD_BOOL(struct member_ask, again),
    FIELD_NUMBER(struct member_ask, node_id), FIELD_TEXT(struct member_ask, address),
    FIELD_NUMBER(struct member_ask, level),
};
static const struct fields ASK = FIELDS(ASK_FIELDS);

static const struct field ANSWER_FIELDS[] = {
    FIELD_NUMBER(struct member_answer, outcome),
    FIELD_TEXT(struct member_answer, why),
};
static const struct fields ANSWER = FIELDS(ANSWER_FIELDS);

/* A node's id, with an address that others may dial, or none. */
static bool member_is_sound(uint64_t node_id, const char *address, bool has_address)
{
    const char *why;

    return node_id >= 1 && node_id <= LIMIT_NODE_ID &&
           (has_address ? member_address_check(address, strlen(address), &why)
                        : address[0] == '\0');
}

bool member_change_is_sound(const void *data)
{
    const struct member_change *change = data;

    return (change->kind == MEMBER_ADD || change->kind == MEMBER_REMOVE) &&
           member_is_sound(change->node_id, change->address, change->kind == MEMBER_ADD);
}

const struct row_format member_change_format =
    ROW_FORMAT(1, FIELDS(ROW_FIELDS), member_change_is_sound);

bool member_move_is_sound(const void *data)
{
    const struct member_move *move = data;

    return member_is_sound(move->node_id, move->address, true);
}

const struct row_format member_move_format =
    ROW_FORMAT(1, FIELDS(MOVE_FIELDS), member_move_is_sound);

static bool ask_has_address(unsigned kind)
{
    return kind == MEMBER_ASK_ADD || kind == MEMBER_ASK_MOVE;
}

static bool is_of_level(uint8_t kind)
{
    return kind == MEMBER_ASK_LEVEL || kind == MEMBER_ASK_LEVEL_SEE;
}

static bool is_ask(uint8_t kind)
{
    return (kind >= MEMBER_ASK_ADD && kind <= MEMBER_ASK_MOVE) || is_of_level(kind);
}

static bool ask_is_sound(const struct member_ask *ask)
{
    if (is_of_level(ask->kind)) {
        return ask->node_id == 0 && ask->address[0] == '\0' &&
               (ask->level > 0) == (ask->kind == MEMBER_ASK_LEVEL);
    }
    return ask->level == 0 &&
           member_is_sound(ask->node_id, ask->address, ask_has_address(ask->kind));
}

void member_ask_encode(const struct member_ask *ask, struct buf *buf)
{
    ASSERT(is_ask(ask->kind));
    command_fields_put(buf, ask->kind, &ASK, ask);
}

int member_ask_decode(const void *data, size_t len, struct member_ask *ret_ask)
{
    uint8_t kind = len > 1 ? ((const uint8_t *)data)[1] : 0;

    *ret_ask = (struct member_ask){.kind = kind};
    return is_ask(kind) && session_stamp_read(data, len, &ret_ask->stamp) == 0 &&
                   command_fields_read(data, len, kind, &ASK, ret_ask) == 0 && ask_is_sound(ret_ask)
               ? 0
               : ERR_BAD_MESSAGE;
}

void member_answer_encode(const struct member_answer *answer, struct buf *buf)
{
    ASSERT(answer->outcome < MEMBER_OUTCOMES);
    message_fields_put(buf, RESULT_MEMBER, &ANSWER, answer);
}

int member_answer_decode(const void *data, size_t len, struct member_answer *ret_answer)
{
    *ret_answer = (struct member_answer){0};
    return message_fields_read(data, len, RESULT_MEMBER, &ANSWER, ret_answer) &&
                   ret_answer->outcome < MEMBER_OUTCOMES
               ? 0
               : ERR_BAD_MESSAGE;
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
