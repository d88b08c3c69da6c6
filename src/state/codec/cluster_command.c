/*
 * cluster_command.c - see cluster_command.h.
 */
#include "src/state/codec/cluster_command.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/utf8.h"
#include "src/state/codec/session.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool all_of(const char *text, size_t len, const char *allowed)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\0' || strchr(allowed, text[i]) == NULL) {
            return false;
        }
    }
    return len > 0;
}

/* --- birth --- */

#define VERSION_MASK 0xf000ULL /* of the high half */
#define VERSION_4 0x4000ULL
#define VARIANT_MASK (3ULL << 62) /* of the low half */
#define VARIANT_RFC (2ULL << 62)

const struct field birth_fields[] = {
    FIELD_NUMBER(struct birth, uid.high),
    FIELD_NUMBER(struct birth, uid.low),
    FIELD_NUMBER(struct birth, list_digest),
    FIELD_NUMBER(struct birth, wall_ms),
};

struct uid uid_make(uint64_t high, uint64_t low)
{
    return (struct uid){(high & ~VERSION_MASK) | VERSION_4, (low & ~VARIANT_MASK) | VARIANT_RFC};
}

bool uid_is_sound(const struct uid *uid)
{
    return uid_is_none(uid) ||
           ((uid->high & VERSION_MASK) == VERSION_4 && (uid->low & VARIANT_MASK) == VARIANT_RFC);
}

const char *uid_text(const struct uid *uid, char ret_text[UID_TEXT_BYTES])
{
    (void)snprintf(ret_text, UID_TEXT_BYTES,
                   "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
                   uid->high >> 32, uid->high >> 16 & 0xffff, uid->high & 0xffff, uid->low >> 48,
                   uid->low & 0xffffffffffff);
    return ret_text;
}

const char *birth_wait_text(enum birth_wait wait)
{
    static const char *const texts[] = {
        [BIRTH_WAIT_NONE] = "met",
        [BIRTH_WAIT_UNMET] = "not met yet",
        [BIRTH_WAIT_BORN] = "is of the cluster already and has to send the log",
        [BIRTH_WAIT_OTHER_LIST] =
            "was given another cluster.members, cluster.id or snowflake layout",
        [BIRTH_WAIT_OTHER_CLUSTER] = "belongs to another cluster",
        [BIRTH_WAIT_OTHER_NODE] =
            "is not at its address, where another node.id answers: is one given twice?",
    };

    return (size_t)wait < sizeof texts / sizeof texts[0] ? texts[wait] : "unknown";
}

bool birth_is_sound(const void *data)
{
    const struct birth *birth = data;

    return !uid_is_none(&birth->uid) && uid_is_sound(&birth->uid) && birth->list_digest != 0;
}

static const struct field BIRTH_AT_FIELDS[] = {
    FIELD_NUMBER(struct birth, uid.high),    FIELD_NUMBER(struct birth, uid.low),
    FIELD_NUMBER(struct birth, list_digest), FIELD_NUMBER(struct birth, wall_ms),
    FIELD_NUMBER(struct birth, level),
};

static bool birth_at_is_sound(const void *data)
{
    return birth_is_sound(data) && ((const struct birth *)data)->level >= BIRTH_LEVEL_MIN;
}

/* --- the members of a cluster --- */

void configuration_add(struct configuration *configuration, uint64_t id, const char *address,
                       enum conf_role role)
{
    struct conf_member *member = &configuration->members[configuration->count];
    size_t len = strlen(address);

    ASSERT(configuration->count < LIMIT_NODES && len <= LIMIT_ADDRESS_BYTES);
    member->id = id;
    member->role = role;
    memcpy(member->address, address, len + 1);
    configuration->count++;
}

const struct conf_member *configuration_find(const struct configuration *configuration, uint64_t id)
{
    MEMBER_FOREACH (member, configuration) {
        if (member->id == id) {
            return member;
        }
    }
    return NULL;
}

enum conf_role configuration_role(const struct configuration *configuration, uint64_t id)
{
    const struct conf_member *member = configuration_find(configuration, id);

    return member != NULL ? member->role : ROLE_GONE;
}

unsigned configuration_voters(const struct configuration *configuration)
{
    unsigned voters = 0;

    MEMBER_FOREACH (member, configuration) {
        voters += member->role == ROLE_VOTER;
    }
    return voters;
}

/* --- member: the row of the change, requests, answers --- */

static const struct field MEMBER_CHANGE_FIELDS[] = {
    FIELD_NUMBER(struct member_change, kind),   FIELD_BOOL(struct member_change, force),
    FIELD_BOOL(struct member_change, given_up), FIELD_NUMBER(struct member_change, node_id),
    FIELD_NUMBER(struct member_change, index),  FIELD_TEXT(struct member_change, address),
};

static const struct field MEMBER_MOVE_ROW_FIELDS[] = {FIELD_TEXT(struct member_move, address)};

static const struct field MEMBER_ASK_FIELDS[] = {
    FIELD_BOOL(struct member_ask, force),     FIELD_BOOL(struct member_ask, again),
    FIELD_NUMBER(struct member_ask, node_id), FIELD_TEXT(struct member_ask, address),
    FIELD_NUMBER(struct member_ask, level),
};
static const struct fields MEMBER_ASK = FIELDS(MEMBER_ASK_FIELDS);

static const struct field MEMBER_PLACE_FIELDS[] = {
    FIELD_BOOL(struct member_ask, force),     FIELD_BOOL(struct member_ask, again),
    FIELD_NUMBER(struct member_ask, node_id), FIELD_NUMBER(struct member_ask, place),
    FIELD_NUMBER(struct member_ask, weight),  FIELD_BOOL(struct member_ask, drained),
};
static const struct fields MEMBER_PLACE = FIELDS(MEMBER_PLACE_FIELDS);

static const struct field MEMBER_ANSWER_FIELDS[] = {
    FIELD_NUMBER(struct member_answer, outcome),
    FIELD_TEXT(struct member_answer, why),
};
static const struct fields MEMBER_ANSWER = FIELDS(MEMBER_ANSWER_FIELDS);

/* A node's id, with an address that others can dial, or none. */
static bool member_is_sound(uint64_t node_id, const char *address, bool has_address)
{
    const char *why;

    return node_id >= 1 && node_id <= LIMIT_NODE_ID &&
           (has_address ? member_address_check(address, strlen(address), &why)
                        : address[0] == '\0');
}

static bool member_change_is_sound(const void *data)
{
    const struct member_change *change = data;

    return (change->kind == MEMBER_ADD || change->kind == MEMBER_REMOVE) &&
           member_is_sound(change->node_id, change->address, change->kind == MEMBER_ADD);
}

const struct row_format member_change_format =
    ROW_FORMAT(1, FIELDS(MEMBER_CHANGE_FIELDS), member_change_is_sound);

bool member_move_is_sound(const void *data)
{
    const struct member_move *move = data;

    return member_is_sound(move->node_id, move->address, true);
}

const struct row_format member_move_format =
    ROW_FORMAT(1, FIELDS(MEMBER_MOVE_ROW_FIELDS), member_move_is_sound);

static const struct field PLACEMENT_ROW_FIELDS[] = {
    FIELD_TEXT(struct placement, zone),
    FIELD_NUMBER(struct placement, weight),
    FIELD_BOOL(struct placement, drained),
};

bool zone_check(const char *zone, size_t len)
{
    return len <= LIMIT_ZONE_BYTES && all_of(zone, len, LETTERS DIGITS ".-_");
}

bool placement_is_sound(const void *data)
{
    const struct placement *placement = data;
    size_t len = strlen(placement->zone);

    return placement->node_id >= 1 && placement->node_id <= LIMIT_NODE_ID &&
           placement->weight <= NODE_WEIGHT_MAX && (len == 0 || zone_check(placement->zone, len));
}

const struct row_format placement_format =
    ROW_FORMAT(1, FIELDS(PLACEMENT_ROW_FIELDS), placement_is_sound);

static const struct field CUT_FIELDS[] = {
    FIELD_TEXT(struct client_cut, who), /* in a row it is in the key */
    FIELD_NUMBER(struct client_cut, until_ms),
    FIELD_TEXT(struct client_cut, reason),
    FIELD_TEXT(struct client_cut, by),
};

static bool client_cut_is_sound(const void *data)
{
    const struct client_cut *cut = data;

    return cut->who[0] != '\0' && utf8_text_check(cut->who, strlen(cut->who), false) == 0 &&
           utf8_text_check(cut->reason, strlen(cut->reason), false) == 0 &&
           utf8_text_check(cut->by, strlen(cut->by), false) == 0 &&
           cut->until_ms <= LIMIT_TIME_MAX_MS;
}

const struct row_format client_cut_format =
    ROW_FORMAT(1, FIELDS_FIRST(CUT_FIELDS + 1, sizeof CUT_FIELDS / sizeof *CUT_FIELDS - 1),
               client_cut_is_sound);

static bool is_of_level(uint8_t kind)
{
    return kind == MEMBER_ASK_LEVEL || kind == MEMBER_ASK_LEVEL_SEE;
}

static bool is_ask(uint8_t kind)
{
    return (kind >= MEMBER_ASK_ADD && kind <= MEMBER_ASK_MOVE) || is_of_level(kind) ||
           kind == MEMBER_ASK_PLACE;
}

static const struct fields *fields_of_ask(uint8_t kind)
{
    return kind == MEMBER_ASK_PLACE ? &MEMBER_PLACE : &MEMBER_ASK;
}

static bool ask_is_sound(const struct member_ask *ask)
{
    if (is_of_level(ask->kind)) {
        return ask->node_id == 0 && ask->address[0] == '\0' &&
               (ask->level > 0) == (ask->kind == MEMBER_ASK_LEVEL);
    }
    if (ask->kind == MEMBER_ASK_PLACE) {
        return (ask->place == PLACE_WEIGHT || ask->place == PLACE_DRAINED) &&
               ask->weight <= NODE_WEIGHT_MAX && member_is_sound(ask->node_id, "", false);
    }
    return ask->level == 0 &&
           member_is_sound(ask->node_id, ask->address,
                           ask->kind == MEMBER_ASK_ADD || ask->kind == MEMBER_ASK_MOVE);
}

void member_ask_encode(const struct member_ask *ask, struct buf *buf)
{
    ASSERT(is_ask(ask->kind));
    command_fields_put(buf, ask->kind, fields_of_ask(ask->kind), ask);
}

int member_ask_decode(const void *data, size_t len, struct member_ask *ret_ask)
{
    uint8_t kind = len > 1 ? ((const uint8_t *)data)[1] : 0;

    *ret_ask = (struct member_ask){.kind = kind};
    return is_ask(kind) && session_stamp_read(data, len, &ret_ask->stamp) == 0 &&
                   command_fields_read(data, len, kind, fields_of_ask(kind), ret_ask) == 0 &&
                   ask_is_sound(ret_ask)
               ? 0
               : ERR_BAD_MESSAGE;
}

void member_answer_encode(const struct member_answer *answer, struct buf *buf)
{
    ASSERT(answer->outcome < MEMBER_OUTCOMES);
    message_fields_put(buf, RESULT_MEMBER, &MEMBER_ANSWER, answer);
}

int member_answer_decode(const void *data, size_t len, struct member_answer *ret_answer)
{
    *ret_answer = (struct member_answer){0};
    return message_fields_read(data, len, RESULT_MEMBER, &MEMBER_ANSWER, ret_answer) &&
                   ret_answer->outcome < MEMBER_OUTCOMES
               ? 0
               : ERR_BAD_MESSAGE;
}

/* --- addresses --- */

bool member_address_check(const char *address, size_t len, const char **ret_why)
{
    const char *colon = len > 0 ? memrchr(address, ':', len) : NULL;
    size_t host_len;
    size_t port_len;
    unsigned port = 0;

    if (len > LIMIT_ADDRESS_BYTES) {
        *ret_why = "it is too long";
        return false;
    }
    if (colon == NULL) {
        *ret_why = "it is not host:port";
        return false;
    }
    host_len = (size_t)(colon - address);
    port_len = len - host_len - 1;
    for (size_t i = 1; i <= port_len && port_len <= 5; i++) {
        port = port * 10 + (unsigned)(colon[i] - '0');
    }
    if (!all_of(colon + 1, port_len, DIGITS) || port_len > 5 || port < 1 || port > 65535) {
        *ret_why = "its port is not a number from 1 to 65535";
        return false;
    }
    if (host_len >= 2 && address[0] == '[' && address[host_len - 1] == ']'
            ? !all_of(address + 1, host_len - 2, LETTERS DIGITS ":.%")
            : !all_of(address, host_len, LETTERS DIGITS ".-_")) {
        *ret_why = "its host is no name, no IPv4 address and no IPv6 address in brackets";
        return false;
    }
    if (all_of(address, host_len, "0.[]:")) { /* to listen on, not to dial */
        *ret_why = "its host is a wildcard, which nobody can dial";
        return false;
    }
    return true;
}

/* --- the commands, each from the table of its struct's fields --- */

/* The bytes of a type of commands, after the stamp. */
struct form {
    uint16_t since; /* the level that introduced it; 0: there is no such type */
    struct fields fields;
    bool (*is_sound)(const void *record); /* NULL: all readable values are */
};

static const struct field NODE_INFO_FIELDS[] = {
    FIELD_NUMBER(struct node_info, node_id), /* in a row it is in the key */
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
    FIELD_NUMBER(struct member_move, node_id), /* in a row it is in the key */
    FIELD_TEXT(struct member_move, address),
};

static const struct field PLACEMENT_FIELDS[] = {
    FIELD_NUMBER(struct placement, node_id), /* in a row it is in the key */
    FIELD_NUMBER(struct placement, set),     FIELD_TEXT(struct placement, zone),
    FIELD_NUMBER(struct placement, weight),  FIELD_BOOL(struct placement, drained),
};

static bool placement_command_is_sound(const void *data)
{
    const struct placement *placement = data;

    return placement_is_sound(placement) && placement->set != 0 &&
           placement->set <= (PLACE_ZONE | PLACE_WEIGHT | PLACE_DRAINED);
}

static const struct field LEVEL_FIELDS[] = {
    FIELD_NUMBER(struct level_command, to),
    FIELD_NUMBER(struct level_command, wall_ms),
};

/* By type: its first level, its fields, its check. */
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
    [COMMAND_PLACEMENT] = {PLACEMENT_LEVEL, FIELDS(PLACEMENT_FIELDS), placement_command_is_sound},
    [COMMAND_CUT] = {CUT_LEVEL, FIELDS(CUT_FIELDS), client_cut_is_sound},
    [COMMAND_BIRTH_AT] = {BIRTH_LEVEL_MIN, FIELDS(BIRTH_AT_FIELDS), birth_at_is_sound},
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
    int type = command_number(data, len);
    struct level_command raise = {0};
    struct birth birth = {0};

    /* Its bytes never change: each leafd must be able to read it. */
    if (type == COMMAND_LEVEL &&
        command_fields_read(data, len, COMMAND_LEVEL, &FORMS[type].fields, &raise) == 0) {
        return raise.to;
    }
    return type == COMMAND_BIRTH_AT && command_fields_read(data, len, COMMAND_BIRTH_AT,
                                                           &FORMS[type].fields, &birth) == 0
               ? birth.level
               : 0;
}
