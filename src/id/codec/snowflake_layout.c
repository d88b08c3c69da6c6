/*
 * snowflake_layout.c - see snowflake_layout.h. Thread: pure functions, any.
 */
#include "src/id/codec/snowflake_layout.h"

#include <stddef.h>

const struct field snowflake_layout_fields[] = {
    FIELD_NUMBER(struct snowflake_layout, epoch_ms),
    FIELD_NUMBER(struct snowflake_layout, time_bits),
    FIELD_NUMBER(struct snowflake_layout, worker_bits),
    FIELD_NUMBER(struct snowflake_layout, sequence_bits),
};

/* The first rule that the bits break, NULL if none. */
static const char *broken_rule(const struct snowflake_layout *layout)
{
    if (layout->time_bits < 39 || layout->time_bits > 45) {
        return "time bits must be 39 to 45";
    }
    if (layout->worker_bits < 1 || layout->worker_bits > 10) {
        return "worker bits must be 1 to 10";
    }
    if (layout->sequence_bits < 4 || layout->sequence_bits > 16) {
        return "sequence bits must be 4 to 16";
    }
    if (layout->time_bits + layout->worker_bits + layout->sequence_bits > 63) {
        return "time, worker and sequence must be at most 63 bits together";
    }
    return NULL;
}

int snowflake_layout_check(const struct snowflake_layout *layout, uint64_t now_ms,
                           const char **ret_why)
{
    *ret_why = broken_rule(layout);
    if (*ret_why != NULL) {
        return ERR_INVALID;
    }
    if (layout->epoch_ms > now_ms) {
        *ret_why = "the epoch must not be after the present time";
        return ERR_INVALID;
    }
    if (now_ms - layout->epoch_ms > snowflake_span_ms(layout)) {
        *ret_why = "the present time must be within the layout's time bits";
        return ERR_INVALID;
    }
    return 0;
}

bool snowflake_bits_fit(const struct snowflake_layout *layout)
{
    return broken_rule(layout) == NULL;
}

struct snowflake_parts snowflake_decode(const struct snowflake_layout *layout, uint64_t id)
{
    uint32_t worker_mask = (1u << layout->worker_bits) - 1;
    uint32_t sequence_mask = snowflake_sequences(layout) - 1;

    return (struct snowflake_parts){
        .unix_ms = layout->epoch_ms + (id >> (layout->worker_bits + layout->sequence_bits)),
        .worker = (uint32_t)(id >> layout->sequence_bits) & worker_mask,
        .sequence = (uint32_t)id & sequence_mask,
    };
}
