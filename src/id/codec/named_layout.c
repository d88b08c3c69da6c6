/*
 * named_layout.c - see named_layout.h. Thread: pure functions, any.
 */
#include "src/id/codec/named_layout.h"

#include <string.h>

#include "src/id/codec/tag.h"

/* A preset, and where it is from. */
struct preset {
    const char *name;
    struct named_layout layout;
};

static const struct preset PRESETS[] = {
    {"leaf", {SNOWFLAKE_LEAF_LAYOUT, 1, LAYOUT_SEQUENCE_LAST}},
    {"js53", {SNOWFLAKE_JS53_LAYOUT, 1, LAYOUT_SEQUENCE_LAST}},
    {"twitter", {SNOWFLAKE_LEAF_LAYOUT, 1, LAYOUT_SEQUENCE_LAST}},
    /* Its epoch is the beginning of 2015. Its ids have 42 bits of time, of which one is our sign;
     * it is set from 2084 on. */
    {"discord", {{1420070400000ULL, 41, 10, 12}, 1, LAYOUT_SEQUENCE_LAST}},
    /* From 2014-09-01; github.com/sony/sonyflake. */
    {"sonyflake", {{1409529600000ULL, 39, 16, 8}, 10, LAYOUT_WORKER_LAST}},
    /* From 2016-05-20 in Beijing, so over since 2024: whoever takes it gives an epoch of his own;
     * github.com/baidu/uid-generator. */
    {"baidu", {{1463673600000ULL, 28, 22, 13}, 1000, LAYOUT_SEQUENCE_LAST}},
};
#define PRESET_COUNT (sizeof PRESETS / sizeof PRESETS[0])

/* The first rule that does not depend on the time and is broken, NULL if none. */
static const char *broken_rule(const struct named_layout *layout)
{
    const struct snowflake_layout *bits = &layout->bits;

    if (layout->unit_ms != 1 && layout->unit_ms != 10 && layout->unit_ms != 1000) {
        return "unit_ms must be 1, 10 or 1000";
    }
    if (bits->time_bits < 24 || bits->time_bits > 45) {
        return "time_bits must be 24 to 45";
    }
    if (bits->worker_bits < 1 || bits->worker_bits > 22) {
        return "worker_bits must be 1 to 22";
    }
    if (bits->sequence_bits < 1 || bits->sequence_bits > 16) {
        return "sequence_bits must be 1 to 16";
    }
    if (bits->time_bits + bits->worker_bits + bits->sequence_bits > 63) {
        return "time, worker and sequence must be at most 63 bits together";
    }
    if (layout->order != LAYOUT_SEQUENCE_LAST && layout->order != LAYOUT_WORKER_LAST) {
        return "the order must be time-worker-sequence or time-sequence-worker";
    }
    return bits->epoch_ms > LIMIT_TIME_MAX_MS ? "epoch_ms is after the year 9999" : NULL;
}

int named_layout_check(const struct named_layout *layout, uint64_t now_ms, const char **ret_why)
{
    *ret_why = broken_rule(layout);
    if (*ret_why != NULL) {
        return ERR_INVALID;
    }
    if (layout->bits.epoch_ms > now_ms) {
        *ret_why = "epoch_ms must not be after the present time";
        return ERR_INVALID;
    }
    if (now_ms > named_layout_last_ms(layout)) {
        *ret_why = "its time is over: take a later epoch_ms or more time_bits";
        return ERR_INVALID;
    }
    return 0;
}

bool named_layout_equal(const struct named_layout *a, const struct named_layout *b)
{
    return a->bits.epoch_ms == b->bits.epoch_ms && snowflake_bits_equal(&a->bits, &b->bits) &&
           a->unit_ms == b->unit_ms && a->order == b->order;
}

bool named_layout_preset(const char *name, size_t len, struct named_layout *ret_layout)
{
    for (size_t i = 0; i < PRESET_COUNT; i++) {
        if (strlen(PRESETS[i].name) == len && memcmp(PRESETS[i].name, name, len) == 0) {
            *ret_layout = PRESETS[i].layout;
            return true;
        }
    }
    return false;
}

static uint64_t low_bits(uint64_t value, unsigned count)
{
    return value & ((1ULL << count) - 1);
}

uint64_t named_layout_id(const struct named_layout *layout, uint64_t plain)
{
    const struct snowflake_layout *bits = &layout->bits;
    unsigned both = bits->worker_bits + bits->sequence_bits;
    uint64_t worker = low_bits(plain >> bits->sequence_bits, bits->worker_bits);
    uint64_t sequence = low_bits(plain, bits->sequence_bits);

    return layout->order == LAYOUT_SEQUENCE_LAST
               ? plain
               : plain >> both << both | sequence << bits->worker_bits | worker;
}

bool named_layout_decode(const struct named_layout *layout, uint64_t id,
                         struct snowflake_parts *ret_parts)
{
    const struct snowflake_layout *bits = &layout->bits;
    uint64_t unit = id >> (bits->worker_bits + bits->sequence_bits);
    bool is_worker_last = layout->order == LAYOUT_WORKER_LAST;
    uint64_t worker = is_worker_last ? id : id >> bits->sequence_bits;
    uint64_t sequence = is_worker_last ? id >> bits->worker_bits : id;

    if (unit > (LIMIT_TIME_MAX_MS - bits->epoch_ms) / layout->unit_ms) {
        return false;
    }
    *ret_parts = (struct snowflake_parts){
        .unix_ms = named_layout_begin_ms(layout, unit),
        .worker = (uint32_t)low_bits(worker, bits->worker_bits),
        .sequence = (uint32_t)low_bits(sequence, bits->sequence_bits),
    };
    return true;
}

/* --- the row --- */

#define LAYOUT_FIELDS                                                                              \
    FIELD_NUMBER(struct layout_row, layout.unit_ms),                                               \
        FIELD_NUMBER(struct layout_row, layout.bits.epoch_ms),                                     \
        FIELD_NUMBER(struct layout_row, layout.bits.time_bits),                                    \
        FIELD_NUMBER(struct layout_row, layout.bits.worker_bits),                                  \
        FIELD_NUMBER(struct layout_row, layout.bits.sequence_bits),                                \
        FIELD_NUMBER(struct layout_row, layout.order), FIELD_NUMBER(struct layout_row, created_ms)

static const struct field ROW_FIELDS[] = {
    FIELD_BOOL(struct layout_row, deleted),
    LAYOUT_FIELDS,
};

const struct field layout_put_fields[] = {
    FIELD_CHARS(struct layout_row, name),
    LAYOUT_FIELDS,
};
_Static_assert(sizeof layout_put_fields / sizeof layout_put_fields[0] == LAYOUT_PUT_FIELDS,
               "as the header says");

static bool row_is_sound(const void *data)
{
    const struct layout_row *row = data;

    return layout_name_fits(row->name, row->name_len) && broken_rule(&row->layout) == NULL &&
           row->created_ms <= LIMIT_TIME_MAX_MS;
}

const struct row_format layout_row_format = ROW_FORMAT(1, FIELDS(ROW_FIELDS), row_is_sound);

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool layout_name_fits(const char *name, size_t len)
{
    if (len < 1 || len > LIMIT_LAYOUT_NAME_BYTES || !is_alphanumeric(name[0])) {
        return false;
    }
    for (size_t i = 1; i < len; i++) {
        if (!is_alphanumeric(name[i]) && name[i] != '-' && name[i] != '_' && name[i] != '.') {
            return false;
        }
    }
    return true;
}
