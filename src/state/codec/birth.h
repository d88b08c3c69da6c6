/*
 * birth.h - the birth of a cluster: what its first command says of it, for good. A cluster has one
 * birth, and every other cluster another one, whatever its name, its members and its secret are.
 *
 * The happy path: the first leader draws a uid, its command is committed, and from then on each
 * node tells each other which cluster it is of.
 *
 * Failure modes: none. Thread: pure functions, any.
 */
#ifndef LEAFD_STATE_CODEC_BIRTH_H
#define LEAFD_STATE_CODEC_BIRTH_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/fields.h"

/* A random UUID (version 4, RFC 9562), its two halves as numbers; zeros: none. */
struct uid {
    uint64_t high;
    uint64_t low;
};

#define UID_TEXT_BYTES 37 /* with its NUL */

/* Of 128 random bits, six of which are overwritten. */
struct uid uid_make(uint64_t high, uint64_t low);

static inline bool uid_is_none(const struct uid *uid)
{
    return uid->high == 0 && uid->low == 0;
}

static inline bool uid_equal(const struct uid *a, const struct uid *b)
{
    return a->high == b->high && a->low == b->low;
}

/* None, or one that uid_make() makes. */
bool uid_is_sound(const struct uid *uid);

/* "f81d4fae-7dec-41d0-a765-00a0c91e6bf6". Returns ret_text. */
const char *uid_text(const struct uid *uid, char ret_text[UID_TEXT_BYTES]);

struct birth {
    struct uid uid;
    uint64_t list_digest; /* of the first list of members, never 0 (raft/cluster/birth_watch.h) */
    uint64_t wall_ms;     /* the clock of the leader that proposed it */
};

/* Why a node that is not born yet waits for a member of its first list. */
enum birth_wait {
    BIRTH_WAIT_NONE, /* it does not: it has met it */
    BIRTH_WAIT_UNMET,
    BIRTH_WAIT_BORN, /* the log will come from there */
    BIRTH_WAIT_OTHER_LIST,
    BIRTH_WAIT_OTHER_CLUSTER,
    BIRTH_WAIT_OTHER_NODE /* at its address is one with another id */
};

/* "not met yet". Static memory. */
const char *birth_wait_text(enum birth_wait wait);

/* Its bytes, in a command and in a row. */
extern const struct field birth_fields[4];

/* It has a uid, and a digest. birth: a struct birth. */
bool birth_is_sound(const void *birth);

#endif
