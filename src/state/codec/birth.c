/*
 * birth.c - see birth.h. Thread: pure functions, any.
 */
#include "src/state/codec/birth.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

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
