/*
 * golden.h - messages with the bytes that they must have, and what must hold for all of them.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_ID_CODEC_TESTS_GOLDEN_H
#define LEAFD_ID_CODEC_TESTS_GOLDEN_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/buf.h"

struct golden {
    const char *name;
    void (*encode)(struct buf *buf);
    int (*decode)(const void *data, size_t len);
    const char *bytes; /* in hexadecimal; "02 ..." is a command, "01 ..." another message */
};

/* Each is encoded to its bytes, and decoded from them. */
void golden_bytes(const struct golden *golden, size_t count);

/* Each decoder takes its own bytes whole: not less, not more, not another version. */
void golden_refuse_damage(const struct golden *golden, size_t count);

/* No decoder takes the bytes of another one. */
void golden_refuse_each_other(const struct golden *golden, size_t count);

/* Whatever bytes are changed, a decoder says yes or ERR_BAD_MESSAGE. */
void golden_survive_any_bytes(const struct golden *golden, size_t count, uint64_t seed);

#endif
