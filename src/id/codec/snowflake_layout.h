/*
 * snowflake_layout.h - how time, worker id and sequence share the 64 bits of an id.
 *
 * An id is  time since the epoch << (worker bits + sequence bits) | worker << sequence bits |
 * sequence, with the top bit 0. Leaf's layout is 41 + 10 + 12 bits and epoch 1288834974657.
 *
 * The happy path: the settings give a layout, snowflake_layout_check() passes it, the log fixes it,
 * and from then on ids are composed and taken apart by it.
 *
 * Failure modes: ERR_INVALID with the rule that is broken. What a claim composes is inline: it runs
 * for every snowflake id.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_ID_CODEC_SNOWFLAKE_LAYOUT_H
#define LEAFD_ID_CODEC_SNOWFLAKE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "src/base/assert.h"
#include "src/base/err.h"
#include "src/base/fields.h"

struct snowflake_layout {
    uint64_t epoch_ms; /* Unix time of time 0 */
    uint8_t time_bits;
    uint8_t worker_bits;
    uint8_t sequence_bits;
};

#define SNOWFLAKE_EPOCH_MS 1288834974657ULL /* Leaf's and Twitter's */
#define SNOWFLAKE_LEAF_LAYOUT                                                                      \
    {                                                                                              \
        SNOWFLAKE_EPOCH_MS, 41, 10, 12                                                             \
    }
/* Fits the 53 bits that a JavaScript number holds exactly: 41 + 6 + 6. */
#define SNOWFLAKE_JS53_LAYOUT                                                                      \
    {                                                                                              \
        SNOWFLAKE_EPOCH_MS, 41, 6, 6                                                               \
    }

/* Its bytes, in a command and in a row. */
extern const struct field snowflake_layout_fields[4];

/* 0, or ERR_INVALID with the rule in *ret_why (NULL on success): 39..45 time bits, 1..10 worker
 * bits, 4..16 sequence bits, at most 63 together; epoch not after now_ms; now_ms within the time
 * bits. */
int snowflake_layout_check(const struct snowflake_layout *layout, uint64_t now_ms,
                           const char **ret_why) MUST_CHECK;

/* Does it keep the rules above that are about bits alone? */
bool snowflake_bits_fit(const struct snowflake_layout *layout) MUST_CHECK;

/* The same bits, whatever the epochs? */
static inline bool snowflake_bits_equal(const struct snowflake_layout *a,
                                        const struct snowflake_layout *b)
{
    return a->time_bits == b->time_bits && a->worker_bits == b->worker_bits &&
           a->sequence_bits == b->sequence_bits;
}

/* Sequences of a millisecond. */
static inline uint32_t snowflake_sequences(const struct snowflake_layout *layout)
{
    return 1u << layout->sequence_bits;
}

/* The highest time since the epoch. */
static inline uint64_t snowflake_span_ms(const struct snowflake_layout *layout)
{
    return (1ULL << layout->time_bits) - 1;
}

/* The last Unix millisecond that the layout can hold. */
static inline uint64_t snowflake_last_ms(const struct snowflake_layout *layout)
{
    return layout->epoch_ms + snowflake_span_ms(layout);
}

/* Parts must fit (ASSERT). */
static inline uint64_t snowflake_compose(const struct snowflake_layout *layout, uint64_t unix_ms,
                                         uint32_t worker, uint32_t sequence)
{
    uint64_t time;

    ASSERT(unix_ms >= layout->epoch_ms);
    time = unix_ms - layout->epoch_ms;
    ASSERT(time <= snowflake_span_ms(layout));
    ASSERT(worker >> layout->worker_bits == 0);
    ASSERT(sequence < snowflake_sequences(layout));
    return time << (layout->worker_bits + layout->sequence_bits) |
           (uint64_t)worker << layout->sequence_bits | sequence;
}

struct snowflake_parts {
    uint64_t unix_ms;
    uint32_t worker;
    uint32_t sequence;
};

/* Could these parts be those of an id? */
static inline bool snowflake_parts_fit(const struct snowflake_layout *layout,
                                       const struct snowflake_parts *parts)
{
    return parts->unix_ms >= layout->epoch_ms && parts->unix_ms <= snowflake_last_ms(layout) &&
           parts->worker >> layout->worker_bits == 0 &&
           parts->sequence < snowflake_sequences(layout);
}

/* Any 64-bit number decodes; bits above the layout's count as time. */
struct snowflake_parts snowflake_decode(const struct snowflake_layout *layout, uint64_t id);

#endif
