/*
 * snowflake_layout.c - see snowflake_layout.h.
 */
#include "src/id/codec/snowflake_layout.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "src/base/assert.h"

/* --- snowflake_layout --- */

const struct field snowflake_layout_fields[] = {
    FIELD_NUMBER(struct snowflake_layout, epoch_ms),
    FIELD_NUMBER(struct snowflake_layout, time_bits),
    FIELD_NUMBER(struct snowflake_layout, worker_bits),
    FIELD_NUMBER(struct snowflake_layout, sequence_bits),
};

/* The first rule that the bits break, NULL if none. */
static const char *bits_broken_rule(const struct snowflake_layout *layout)
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
    *ret_why = bits_broken_rule(layout);
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
    return bits_broken_rule(layout) == NULL;
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

/* --- named_layout --- */

/* A preset, and its origin. */
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
    /* From 2016-05-20 in Beijing, so over since 2024: used with another epoch;
     * github.com/baidu/uid-generator. */
    {"baidu", {{1463673600000ULL, 28, 22, 13}, 1000, LAYOUT_SEQUENCE_LAST}},
};
#define PRESET_COUNT (sizeof PRESETS / sizeof PRESETS[0])

/* The first rule that does not depend on the time and is broken, NULL if none. */
static const char *layout_broken_rule(const struct named_layout *layout)
{
    const struct snowflake_layout *bits = &layout->bits;

    if (layout->unit_ms != 1 && layout->unit_ms != 10 && layout->unit_ms != 1000) {
        return "unit_ms must be 1, 10 or 1000";
    }
    if (bits->time_bits < 24 || bits->time_bits > 45) {
        return "time_bits must be 24 to 45";
    }
    if (bits->worker_bits < 1 || bits->worker_bits > WORKER_BITS_MAX) {
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
    *ret_why = layout_broken_rule(layout);
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

bool named_layout_at(const struct named_layout *layout, uint64_t unix_ms, uint64_t *ret_id)
{
    if (unix_ms < layout->bits.epoch_ms || unix_ms > named_layout_last_ms(layout)) {
        return false;
    }
    *ret_id = named_layout_compose(layout, named_layout_unit(layout, unix_ms), 0, 0);
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

static bool layout_row_is_sound(const void *data)
{
    const struct layout_row *row = data;

    return layout_name_fits(row->name, row->name_len) && layout_broken_rule(&row->layout) == NULL &&
           row->created_ms <= LIMIT_TIME_MAX_MS;
}

const struct row_format layout_row_format = ROW_FORMAT(1, FIELDS(ROW_FIELDS), layout_row_is_sound);

bool layout_name_fits(const char *name, size_t len)
{
    if (len < 1 || len > LIMIT_LAYOUT_NAME_BYTES) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        bool is_letter = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9');

        if (!is_letter && (i == 0 || (name[i] != '-' && name[i] != '_' && name[i] != '.'))) {
            return false;
        }
    }
    return true;
}

/* --- long_id --- */

#define WORKER_BITS 10
#define SEQUENCE_BITS 16
#define UUID_RANDOM_BITS 48
#define ULID_RANDOM_BITS 54
#define TIME_BITS 48
#define UUID_VERSION 7
#define UUID_VARIANT 2

static const char HEX[] = "0123456789abcdef";
static const char CROCKFORD[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; /* 5 bits a character */

static bool has_dash(size_t at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

void long_id_put(enum id_form form, const struct snowflake_parts *parts, uint64_t random,
                 char *text)
{
    uint64_t middle = (uint64_t)parts->worker << SEQUENCE_BITS | parts->sequence; /* 26 bits */
    uint64_t rest = low_bits(random, ULID_RANDOM_BITS);
    size_t digit = 0;

    ASSERT(parts->unix_ms >> TIME_BITS == 0);
    ASSERT(parts->worker >> WORKER_BITS == 0 && parts->sequence >> SEQUENCE_BITS == 0);
    if (form == ID_FORM_UUID) {
        uint64_t high = parts->unix_ms << 16 | UUID_VERSION << 12 | middle >> 14;
        uint64_t low = (uint64_t)UUID_VARIANT << 62 | low_bits(middle, 14) << UUID_RANDOM_BITS |
                       low_bits(random, UUID_RANDOM_BITS);

        for (size_t at = 0; at < UUID_TEXT_BYTES; at++) {
            uint64_t half = digit < 16 ? high : low;

            text[at] = has_dash(at) ? '-' : HEX[half >> (60 - 4 * (digit++ % 16)) & 15];
        }
        return;
    }
    ASSERT(form == ID_FORM_ULID);
    /* Its 130 bits, of which the first two are 0, in characters of 5 bits: the time's 48, then 80,
     * as 40 and 40. */
    for (unsigned i = 0; i < 10; i++) {
        text[i] = CROCKFORD[low_bits(parts->unix_ms >> 5 * (9 - i), 5)];
    }
    for (unsigned i = 0; i < 8; i++) {
        text[10 + i] = CROCKFORD[low_bits((middle << 14 | rest >> 40) >> 5 * (7 - i), 5)];
        text[18 + i] = CROCKFORD[low_bits(rest >> 5 * (7 - i), 5)];
    }
}

bool long_id_read(const char *text, size_t len, enum id_form *ret_form,
                  struct snowflake_parts *ret_parts)
{
    bool is_uuid = len == UUID_TEXT_BYTES;
    const char *alphabet = is_uuid ? HEX : CROCKFORD;
    uint64_t halves[2] = {0, 0}; /* of a UUID; of a ULID the time, and the 40 bits after it */
    size_t digit = 0;

    *ret_form = is_uuid ? ID_FORM_UUID : ID_FORM_ULID;
    if (!is_uuid && len != ULID_TEXT_BYTES) {
        return false;
    }
    for (size_t at = 0; at < len; at++) {
        unsigned char c = (unsigned char)text[at];
        const char *found = c == '\0' ? NULL : strchr(alphabet, is_uuid ? tolower(c) : toupper(c));
        unsigned half = digit >= (is_uuid ? 16 : 10);

        if (is_uuid && has_dash(at)) {
            if (c != '-') {
                return false;
            }
            continue;
        }
        if (found == NULL) {
            return false;
        }
        if (is_uuid || digit < 18) {
            halves[half] = halves[half] << (is_uuid ? 4 : 5) | (uint64_t)(found - alphabet);
        }
        digit++;
    }
    if (is_uuid) {
        ret_parts->unix_ms = halves[0] >> 16;
        ret_parts->worker = (uint32_t)low_bits(halves[0] >> 2, WORKER_BITS);
        ret_parts->sequence =
            (uint32_t)(low_bits(halves[0], 2) << 14 | low_bits(halves[1] >> UUID_RANDOM_BITS, 14));
        return low_bits(halves[0] >> 12, 4) == UUID_VERSION && halves[1] >> 62 == UUID_VARIANT;
    }
    ret_parts->unix_ms = halves[0];
    ret_parts->worker = (uint32_t)(halves[1] >> 30);
    ret_parts->sequence = (uint32_t)low_bits(halves[1] >> 14, SEQUENCE_BITS);
    return halves[0] >> TIME_BITS == 0;
}
