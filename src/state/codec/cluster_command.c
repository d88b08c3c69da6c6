/*
 * cluster_command.c - see cluster_command.h: the bytes of the cluster's commands, each from the
 * table of its struct's fields.
 */
#include "src/state/codec/cluster_command.h"

#include <string.h>

#include "src/base/utf8.h"

/* The bytes of a type of commands, behind the stamp. */
struct form {
    uint16_t since; /* the level that brought it; 0: there is no such type */
    struct fields fields;
    bool (*is_sound)(const void *record); /* NULL: all that reads is */
};

static const struct field NODE_INFO_FIELDS[] = {
    FIELD_NUMBER(struct node_info, node_id), /* in a row it stands in the key */
    FIELD_NUMBER(struct node_info, store_id),    FIELD_TEXT(struct node_info, http_address),
    FIELD_TEXT(struct node_info, version),       FIELD_TEXT(struct node_info, peer_address),
    FIELD_NUMBER(struct node_info, levels.min),  FIELD_NUMBER(struct node_info, levels.max),
    FIELD_NUMBER(struct node_info, incarnation),
};

static bool node_info_is_sound(const void *data)
{
    const struct node_info *info = data;
    const char *why;

    return info->node_id >= 1 && info->node_id <= LIMIT_NODE_ID && level_is_sound(info->levels) &&
           utf8_text_check(info->http_address, strlen(info->http_address), false) == 0 &&
           utf8_text_check(info->version, strlen(info->version), false) == 0 &&
           (info->peer_address[0] == '\0' ||
            member_address_check(info->peer_address, strlen(info->peer_address), &why));
}

static const struct field DIGEST_FIELDS[] = {
    FIELD_NUMBER(struct digest_command, index),
    FIELD_NUMBER(struct digest_command, digest),
};

static const struct field CLOCK_FIELDS[] = {FIELD_NUMBER(struct clock_command, cluster_ms)};

static const struct field MEMBER_BEGIN_FIELDS[] = {
    FIELD_NUMBER(struct member_change, kind),
    FIELD_BOOL(struct member_change, force),
    FIELD_NUMBER(struct member_change, node_id),
    FIELD_TEXT(struct member_change, address),
};

static const struct field MEMBER_END_FIELDS[] = {
    FIELD_BOOL(struct member_change, given_up),
    FIELD_NUMBER(struct member_change, index),
};

static const struct field MEMBER_MOVE_FIELDS[] = {
    FIELD_NUMBER(struct member_move, node_id), /* in a row it stands in the key */
    FIELD_TEXT(struct member_move, address),
};

static const struct field LEVEL_FIELDS[] = {
    FIELD_NUMBER(struct level_command, to),
    FIELD_NUMBER(struct level_command, wall_ms),
};

/* Since which level, of which fields, when it is sound. */
static const struct form FORMS[] = {
    [COMMAND_NOOP] = {.since = 1},
    [COMMAND_NODE_INFO] = {1, FIELDS(NODE_INFO_FIELDS), node_info_is_sound},
    [COMMAND_DIGEST] = {1, FIELDS(DIGEST_FIELDS), NULL},
    [COMMAND_CLOCK] = {1, FIELDS(CLOCK_FIELDS), NULL},
    [COMMAND_BIRTH] = {1, FIELDS(birth_fields), birth_is_sound},
    [COMMAND_LEVEL] = {1, FIELDS(LEVEL_FIELDS), NULL},
    [COMMAND_MEMBER_BEGIN] = {1, FIELDS(MEMBER_BEGIN_FIELDS), member_change_is_sound},
    [COMMAND_MEMBER_END] = {1, FIELDS(MEMBER_END_FIELDS), NULL},
    [COMMAND_MEMBER_MOVE] = {1, FIELDS(MEMBER_MOVE_FIELDS), member_move_is_sound},
};

const struct row_format node_info_format = ROW_FORMAT(
    2, FIELDS_FIRST(NODE_INFO_FIELDS + 1, sizeof NODE_INFO_FIELDS / sizeof *NODE_INFO_FIELDS - 1),
    node_info_is_sound);

void cluster_command_put(struct buf *buf, enum cluster_command_type type, const void *record)
{
    command_fields_put(buf, type, &FORMS[type].fields, record);
}

uint16_t cluster_command_since(int type)
{
    return type >= 0 && (size_t)type < sizeof FORMS / sizeof FORMS[0] ? FORMS[type].since : 0;
}

int cluster_command_read(const void *data, size_t len, struct cluster_command *ret_command)
{
    int type = command_number(data, len);
    void *record = &ret_command->node;

    memset(ret_command, 0, sizeof *ret_command);
    if (cluster_command_since(type) == 0 ||
        session_stamp_read(data, len, &ret_command->stamp) != 0) {
        return ERR_BAD_MESSAGE;
    }
    ret_command->type = (enum cluster_command_type)type;
    if (command_fields_read(data, len, (unsigned)type, &FORMS[type].fields, record) != 0 ||
        (FORMS[type].is_sound != NULL && !FORMS[type].is_sound(record))) {
        return ERR_BAD_MESSAGE;
    }
    return 0;
}

uint16_t command_raises_to(const void *data, size_t len)
{
    struct level_command command = {0};

    /* As a type of its own it never changes its bytes: each leafd must read it. */
    return command_number(data, len) == COMMAND_LEVEL &&
                   command_fields_read(data, len, COMMAND_LEVEL, &FORMS[COMMAND_LEVEL].fields,
                                       &command) == 0
               ? command.to
               : 0;
}
