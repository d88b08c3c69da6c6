/*
 * raft_liar_source.c - see raft_liar_source.h. Thread: the test's.
 */
#include "raft/core/tests/raft_liar_source.h"

uint8_t liar_byte(struct liar_source *source)
{
    if (source->prng != NULL) {
        return (uint8_t)(prng_next(source->prng) >> 56);
    }
    return source->at < source->len ? source->data[source->at++] : 0;
}

uint64_t liar_word(struct liar_source *source)
{
    uint64_t word = 0;

    for (unsigned i = 0; i < 8; i++) {
        word = word << 8 | liar_byte(source);
    }
    return word;
}

uint64_t liar_below(struct liar_source *source, uint64_t bound)
{
    return bound > 0 ? liar_byte(source) % bound : 0;
}

bool liar_is_out(const struct liar_source *source)
{
    return source->prng == NULL && source->at >= source->len;
}

/* --- numbers --- */
