/*
 * tag.h - a business tag: its replicated row, the rules for its fields, and the row's bytes.
 *
 * One axis of ids a tag: max_id is the next id never granted (the exclusive end of all granted
 * ids), so a row of Leaf's leaf_alloc can be imported unchanged.
 *
 * A tag with an increment has every increment-th number of that axis, those with id mod increment =
 * offset. So two clusters, or an old database and a cluster, can share a sequence as odd and even.
 * max_id and max need not be among these numbers. So ids from max_id on repeat none, whatever the
 * increment was before.
 *
 * A paused tag hands out no ids, and no range of it is granted. Nodes keep the ids that they hold,
 * and hand them out after the pause.
 *
 * Invariant: max_id of a name never falls, deleted or not, unless an operator forces it, or the
 * node that owns the topmost range gives back the unused rest of it.
 *
 * Thread: pure functions, any; a row belongs to the state machine's thread.
 */
#ifndef LEAFD_ID_CODEC_TAG_H
#define LEAFD_ID_CODEC_TAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "src/base/buf.h"
#include "src/base/err.h"
#include "src/base/fields.h"
#include "src/base/limits.h"
#include "src/id/codec/shape.h"

enum tag_mode {
    TAG_MODE_TREND = 0,    /* segments in memory: unique, trend rising */
    TAG_MODE_STRICT = 1,   /* no segments: every id is taken from the log, rising over all nodes */
    TAG_MODE_MONOTONIC = 2 /* no segments: every id is taken from the leader's window, rising over
                              all nodes, with gaps (docs/monotonic.md) */
};

#define TAG_DEFAULT_STEP 1000
#define TAG_DEFAULT_MAX_ID 1
#define TAG_DEFAULT_MAX_STEP 1000000 /* Leaf's MAX_STEP; with a cover_s LIMIT_TAG_STEP */

/* Largest max_id: the exclusive end, so INT64_MAX - 1 is the last id that is ever handed out. */
#define TAG_MAX_ID_END INT64_MAX

/* The bytes of a shape: its text and, if it is secret, a NUL and the key; if it has {key}, all its
 * keys, the first in front. */
#define TAG_SHAPE_BYTES_MAX (SHAPE_SPEC_BYTES_MAX + 1 + SHAPE_KEYS_MAX * SHAPE_KEY_BYTES)

/* A row of the table. name and description are never NULL. They, shape and reason are borrowed:
 * from the state machine, with a NUL after the first two, or from the bytes that the row was
 * decoded from. */
struct tag_row {
    const char *name;
    const char *description;
    const char *shape;        /* of its ids' texts, see tag_shape() */
    const char *reason;       /* of the pause */
    uint16_t name_len;        /* 1..LIMIT_TAG_NAME_BYTES */
    uint16_t description_len; /* 0..LIMIT_TAG_DESCRIPTION_BYTES */
    uint16_t shape_len;       /* 0: its ids are numbers. A name keeps its first shape */
    uint16_t reason_len;      /* 0..LIMIT_TAG_REASON_BYTES; 0 unless it is paused */
    uint8_t mode;             /* enum tag_mode */
    bool deleted;             /* a tombstone: it keeps the high-water mark */
    bool recalling;           /* no longer in trend mode, but a node may still hold a segment: no id
                                 is handed out until then (fsm_recalls in fsm_tables.h) */
    bool paused;              /* from level 3 on */
    uint32_t generation; /* grows by 1 when made, deleted, changed in mode, increment or offset,
                                 or when the max_id of a tag that is not strict is set by hand
                                 (R11); a restore raises it by more */
    uint32_t step;       /* 1..LIMIT_TAG_STEP: smallest segment */
    uint32_t max_step;   /* step..LIMIT_TAG_STEP: largest segment */
    uint64_t max_id;     /* 0..tag_bound(): next id never granted */
    uint64_t max;        /* ids stay below it; 0: below TAG_MAX_ID_END */
    uint64_t created_ms; /* wall time the proposer stamped, never below an earlier one */
    uint64_t updated_ms;
    uint64_t client;    /* its owner, which it counts for (from level 2 on); 0: none */
    uint32_t increment; /* 2..LIMIT_TAG_INCREMENT (from level 3 on); 0: it has every number */
    uint32_t offset;    /* 0..increment - 1; 0 without an increment */
    uint32_t cover_s;   /* how long a node's segments last, up to LIMIT_TAG_COVER_S (from level 3
                           on; only in trend mode); 0: the node's setting */
};

/* The bytes that a tag counts of its owner's share: about its memory, but by constants common to
 * every leafd, since apply decides by them. A deleted tag still counts its row, name and shape. */
#define TAG_SHARE_ROW_BYTES 144
#define TAG_SHARE_USED_BYTES 320   /* added while it is not deleted */
#define TAG_SHARE_SHAPED_BYTES 512 /* and added to these with a shape */
uint64_t tag_share_bytes(const struct tag_row *row);

/* "trend", "strict" or "monotonic". */
static inline const char *tag_mode_name(enum tag_mode mode)
{
    return mode == TAG_MODE_TREND ? "trend" : mode == TAG_MODE_STRICT ? "strict" : "monotonic";
}

/* The exclusive end of the tag's ids. */
static inline uint64_t tag_bound(const struct tag_row *row)
{
    return row->max > 0 ? row->max : TAG_MAX_ID_END;
}

/* An increment of 0 always means 1. */
static inline uint32_t increment_of(uint32_t increment)
{
    return increment + (increment == 0);
}

/* The number of ids with this increment and offset in [from, end). *ret_first: the first of them,
 * even if it is not below end (from < 2^63). */
static inline uint64_t ids_between(uint64_t from, uint64_t end, uint32_t increment, uint32_t offset,
                                   uint64_t *ret_first)
{
    uint32_t by = increment_of(increment);
    uint64_t first = from + (offset + by - from % by) % by;

    *ret_first = first;
    return first < end ? (end - first - 1) / by + 1 : 0;
}

/* The ids that a tag has left, the first of which is *ret_first. */
static inline uint64_t tag_ids_left(const struct tag_row *row, uint64_t *ret_first)
{
    return ids_between(row->max_id, tag_bound(row), row->increment, row->offset, ret_first);
}

/* The exclusive end of count ids, count > 0: the last one and 1. */
static inline uint64_t ids_end(uint64_t first, uint64_t count, uint32_t increment)
{
    return first + (count - 1) * increment_of(increment) + 1;
}

/* Consecutive ids, as a claim returns them: of a segment or of a millisecond. */
struct segment_range {
    uint64_t first;
    uint32_t count;     /* > 0 */
    uint32_t increment; /* from one to the next; 0: 1 */
};

/* The id after the last one of a range. */
static inline uint64_t range_next(const struct segment_range *range)
{
    return range->first + (uint64_t)range->count * increment_of(range->increment);
}

/* Order of names: bytes as unsigned, a prefix before what it begins. Like memcmp: < 0, 0, > 0. */
int tag_name_compare(const char *a, size_t a_len, const char *b, size_t b_len);

/* 0 if the name is valid: 1..128 bytes of UTF-8 without control characters (U+0000-1F, 7F-9F);
 * else ERR_INVALID and *ret_why is a static text naming the rule. ret_why may be NULL. */
int tag_name_check(const char *name, size_t len, const char **ret_why) MUST_CHECK;

/* As above for a description: 0..256 bytes of UTF-8, no NUL. */
int tag_description_check(const char *text, size_t len, const char **ret_why) MUST_CHECK;

/* The shape in the bytes of a row or a put, with its keys, which are borrowed. 0, or ERR_INVALID
 * with the rule, also for a key that is missing or should not be there. ret_why may be NULL. */
int tag_shape(const char *bytes, size_t len, struct shape *ret_shape,
              const char **ret_why) MUST_CHECK;

/* The length of the part of these bytes that people may see. */
static inline size_t tag_shape_text_len(const char *bytes, size_t len)
{
    return len > 0 ? strnlen(bytes, len) : 0;
}

/* As above for the reason of a pause: 0..200 bytes of UTF-8 without control characters, since it
 * is a line of RESP. */
int tag_reason_check(const char *text, size_t len, const char **ret_why) MUST_CHECK;

/* Does the tag have a shape with a date? Each item of COMMAND_STRICT then names the period. */
bool tag_is_dated(const struct tag_row *row);

/* Does it have a shape whose key can be changed? */
bool tag_is_rekeyable(const struct tag_row *row);

/* Of such a tag, the number of the key in force: 0 is the first. */
static inline unsigned tag_key_number(const struct tag_row *row)
{
    size_t text_len = tag_shape_text_len(row->shape, row->shape_len);

    return (unsigned)((row->shape_len - text_len - 1) / SHAPE_KEY_BYTES) - 1;
}

/* Is less than a tenth left of the ids below its max, or 2^63, or of those by its present key? */
static inline bool tag_is_nearly_exhausted(const struct tag_row *row)
{
    unsigned keys = tag_is_rekeyable(row) ? tag_key_number(row) + 1 : 1;
    uint64_t first;
    uint64_t left = tag_ids_left(row, &first);
    uint64_t ids = ids_between(0, tag_bound(row), row->increment, row->offset, &first) / keys;

    return left == 0 || left < (ids + 9) / 10;
}

/* Check that the row keeps every rule in this header; ERR_INVALID with the rule otherwise. */
int tag_row_check(const struct tag_row *row, const char **ret_why) MUST_CHECK;

/* The form of a tag's bytes, one of five, by the optional parts that it has. */
enum tag_form {
    TAG_FORM_PLAIN,
    TAG_FORM_BOUNDED, /* a max */
    TAG_FORM_SHAPED,  /* a shape */
    TAG_FORM_OWNED,   /* an owner */
    TAG_FORM_STEPPED  /* a part of level 3: an increment, a cover_s, a pause */
};

static inline enum tag_form tag_form(const struct tag_row *row)
{
    if (row->increment != 0 || row->cover_s != 0 || row->paused) {
        return TAG_FORM_STEPPED;
    }
    if (row->client != 0) {
        return TAG_FORM_OWNED;
    }
    return row->shape_len > 0 ? TAG_FORM_SHAPED : row->max > 0 ? TAG_FORM_BOUNDED : TAG_FORM_PLAIN;
}

/* The format of its row, by its form; the key holds the name. Golden bytes in
 * src/id/codec/tests/test_tag.c. */
const struct row_format *tag_row_format(const struct tag_row *row);
/* Rows in messages: the name and all fields but the owner and those of level 3, whatever the form.
 * Where a row has a field of level 3: all fields. */
extern const struct item_format tag_item_format;
extern const struct item_format tag_stepped_item_format;

/* Read a row back. 0, ERR_TRUNCATED, ERR_BAD_VERSION, or ERR_CORRUPT
 * when a rule of the header is broken. */
int tag_row_decode(const char *name, size_t name_len, const void *value, size_t value_len,
                   struct tag_row *ret_row) MUST_CHECK;

#endif
