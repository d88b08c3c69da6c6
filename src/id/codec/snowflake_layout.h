/*
 * snowflake_layout.h - layouts of snowflake ids: the bits of an id (snowflake_layout), layouts that
 * have a name (named_layout), and ids as 128 bits (long_id).
 *
 * Failure modes: a layout that breaks a rule is ERR_INVALID, and the rule is named. Thread: pure
 * functions, any.
 */
#ifndef LEAFD_ID_CODEC_SNOWFLAKE_LAYOUT_H
#define LEAFD_ID_CODEC_SNOWFLAKE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/assert.h"
#include "src/base/err.h"
#include "src/base/fields.h"
#include "src/base/limits.h"

/*
 * --- snowflake_layout: how time, worker id and sequence share the 64 bits of an id.
 *
 * An id is  time since the epoch << (worker bits + sequence bits) | worker << sequence bits |
 * sequence, with the top bit 0. Leaf's layout is 41 + 10 + 12 bits and epoch 1288834974657.
 *
 * The happy path: the settings give a layout, snowflake_layout_check() passes it, and the log fixes
 * it. From then on ids are composed and decoded by it.
 *
 * The functions that compose an id are inline: they run for every snowflake id.
 */

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

/* Does it keep those rules above that are about bits alone? */
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

/* The highest time since the epoch, in ms or units. */
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

/* Do these parts fit the layout? */
static inline bool snowflake_parts_fit(const struct snowflake_layout *layout,
                                       const struct snowflake_parts *parts)
{
    return parts->unix_ms >= layout->epoch_ms && parts->unix_ms <= snowflake_last_ms(layout) &&
           parts->worker >> layout->worker_bits == 0 &&
           parts->sequence < snowflake_sequences(layout);
}

/* Any 64-bit number decodes; bits above the layout's count as time. */
struct snowflake_parts snowflake_decode(const struct snowflake_layout *layout, uint64_t id);

/*
 * --- named_layout: layouts of snowflake ids that have a name: any unit of time, any epoch, and the
 * worker id before or after the sequence. And the row of one.
 *
 * The time of an id is the number of whole units since the epoch. The times that a node may stamp
 * are Unix ms for all layouts (docs/snowflake.md): a unit belongs to the node that may stamp its
 * first millisecond, named_layout_begin_ms().
 *
 * Internally an id has the sequence last, so that ids of one unit are consecutive; that is its
 * plain form. named_layout_id() turns it into the id that users see.
 *
 * The happy path: an operator's fields, or a preset, pass named_layout_check(); and the log fixes
 * them under the name. From then on ids are composed and decoded by them.
 *
 * A row that breaks the rules is ERR_CORRUPT.
 */

#define WORKER_BITS_MAX 22

/* The part in the lowest bits. */
enum layout_order { LAYOUT_SEQUENCE_LAST = 0, LAYOUT_WORKER_LAST = 1 };

struct named_layout {
    struct snowflake_layout bits;
    uint16_t unit_ms; /* 1, 10 or 1000 */
    uint8_t order;    /* enum layout_order */
};

/* 0, or ERR_INVALID with the rule in *ret_why (NULL on success): 24..45 time bits, 1..22 worker
 * bits, 1..16 sequence bits, at most 63 together; a known unit and order; epoch not after now_ms,
 * nor so late that no time can be displayed; now_ms within the time bits. */
int named_layout_check(const struct named_layout *layout, uint64_t now_ms,
                       const char **ret_why) MUST_CHECK;

bool named_layout_equal(const struct named_layout *a, const struct named_layout *b);

/* A widely known layout, by its name. False: no such name. */
bool named_layout_preset(const char *name, size_t len, struct named_layout *ret_layout);

/* The first Unix ms of a unit; at most LIMIT_TIME_MAX_MS and the longest span, so that it cannot
 * wrap. */
static inline uint64_t named_layout_begin_ms(const struct named_layout *layout, uint64_t unit)
{
    return layout->bits.epoch_ms + unit * layout->unit_ms;
}

/* The unit of a Unix ms, which must not be before the epoch. */
static inline uint64_t named_layout_unit(const struct named_layout *layout, uint64_t unix_ms)
{
    return (unix_ms - layout->bits.epoch_ms) / layout->unit_ms;
}

/* The last Unix ms that it can hold. */
static inline uint64_t named_layout_last_ms(const struct named_layout *layout)
{
    return named_layout_begin_ms(layout, snowflake_span_ms(&layout->bits)) + layout->unit_ms - 1;
}

/* The plain form. Parts must fit (ASSERT). */
static inline uint64_t named_layout_compose(const struct named_layout *layout, uint64_t unit,
                                            uint32_t worker, uint32_t sequence)
{
    const struct snowflake_layout *bits = &layout->bits;

    ASSERT(unit <= snowflake_span_ms(&layout->bits));
    ASSERT(worker >> bits->worker_bits == 0);
    ASSERT(sequence < snowflake_sequences(bits));
    return unit << (bits->worker_bits + bits->sequence_bits) |
           (uint64_t)worker << bits->sequence_bits | sequence;
}

/* The id of a plain form. */
uint64_t named_layout_id(const struct named_layout *layout, uint64_t plain);

/* Any 64-bit number decodes, except with a time that cannot be displayed: then false. unix_ms is
 * the unit's first. */
bool named_layout_decode(const struct named_layout *layout, uint64_t id,
                         struct snowflake_parts *ret_parts) MUST_CHECK;

/* The cluster's own layout as a named one. */
static inline struct named_layout named_layout_of(const struct snowflake_layout *own)
{
    return (struct named_layout){.bits = *own, .unit_ms = 1};
}

/* The smallest id of the unit of a Unix ms: all ids of earlier units are below it, those of this
 * and later units are at or above it. False: the time is outside the layout. */
bool named_layout_at(const struct named_layout *layout, uint64_t unix_ms,
                     uint64_t *ret_id) MUST_CHECK;

/* --- the row --- */

/* A name once made stays: when deleted it hands out no ids, and keeps its meaning. */
struct layout_row {
    uint16_t name_len;
    bool deleted;
    char name[LIMIT_LAYOUT_NAME_BYTES + 1];
    struct named_layout layout;
    uint64_t created_ms; /* the proposer's, for people */
};

/* The key has its name. */
extern const struct row_format layout_row_format;

/* 1..LIMIT_LAYOUT_NAME_BYTES of a-z, 0-9, '-', '_' and '.', the first a letter or digit. */
bool layout_name_fits(const char *name, size_t len);

/* --- commands --- */

/* Make a layout; a layout_row, of which it has the name, the layout and created_ms. A
 * delete_command deletes one (command.h). */
extern const struct field layout_put_fields[];
#define LAYOUT_PUT_FIELDS 8

/*
 * --- long_id: snowflake ids as 128 bits: UUIDs of version 7 (RFC 9562, 5.7) and ULIDs
 * (github.com/ulid/spec).
 *
 *     UUID  48 bits: Unix milliseconds | 0111 | 10 bits: worker id, 2: sequence | 10 |
 *           14 bits: sequence | 48 bits: random
 *     ULID  48 bits: Unix milliseconds | 10 bits: worker id | 16 bits: sequence | 54 bits: random
 *
 * Time, worker id and sequence are those of a snowflake id, so two of them differ for the same
 * reason as snowflake ids (docs/snowflake.md), whatever the random bits. They sort as their numbers
 * do, as text too. The random bits make them hard to guess; they are no secret.
 *
 * The happy path: a claimed id is decoded by the layout, and written with the random bits.
 *
 * long_id_read() rejects texts of neither form.
 */

enum id_form { ID_FORM_NUMBER, ID_FORM_UUID, ID_FORM_ULID };

#define UUID_TEXT_BYTES 36
#define ULID_TEXT_BYTES 26
#define LONG_ID_BYTES_MAX UUID_TEXT_BYTES
#define LONG_ID_RANDOM_BYTES 7 /* a UUID takes 48 of the bits, a ULID 54 */

static inline size_t long_id_bytes(enum id_form form)
{
    return form == ID_FORM_UUID ? UUID_TEXT_BYTES : ULID_TEXT_BYTES;
}

/* Write the text, long_id_bytes() of it and no NUL. The parts are those of a layout (ASSERT). */
void long_id_put(enum id_form form, const struct snowflake_parts *parts, uint64_t random,
                 char *text);

/* Read a text of either form, in small or large letters. False for any other text, or a UUID of
 * another version or variant. *ret_form and *ret_parts are set on success. */
bool long_id_read(const char *text, size_t len, enum id_form *ret_form,
                  struct snowflake_parts *ret_parts);

#endif
