/*
 * raft_liar_source.h - where a member that lies (raft_liar.h) takes its bytes from: a generator, or
 * the input of a fuzzer, and zeros behind its end.
 *
 * Thread: the test's.
 */
#ifndef LEAFD_RAFT_CORE_TESTS_RAFT_LIAR_SOURCE_H
#define LEAFD_RAFT_CORE_TESTS_RAFT_LIAR_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "src/base/prng.h"

struct liar_source {
    const uint8_t *data;
    size_t len;
    size_t at;
    struct prng *prng; /* instead of data */
};

/* The next byte, or a number of eight, of the source; a number below bound (0 gives 0). */
uint8_t liar_byte(struct liar_source *source);
uint64_t liar_word(struct liar_source *source);
uint64_t liar_below(struct liar_source *source, uint64_t bound);
bool liar_is_out(const struct liar_source *source);

#endif
