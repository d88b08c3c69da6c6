/*
 * claim.h - a claim of ids under way: what was asked, what was claimed so far, and the claims that
 * wait for more.
 *
 * As a rule a claim lives on the stack of its handler; one that asks the cluster is kept in a
 * struct call. What is done with them: ids.h.
 *
 * Those that wait for snowflake ids, which time alone brings, have no tag: NULL in its place. They
 * wait for clocks of different steps, one for each layout, and those of one never for another's.
 *
 * Failure modes: none: types alone, and nothing allocates.
 *
 * Thread: the owner's (one HTTP loop); the count of those that wait: any may read.
 */
#ifndef LEAFD_HTTP_API_CLAIM_H
#define LEAFD_HTTP_API_CLAIM_H

#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/limits.h"
#include "src/id/alloc/id_table.h"
#include "src/id/alloc/segment.h"
#include "src/id/codec/shape.h"
#include "src/id/codec/snowflake_layout.h"

struct conn;
struct layout_words;

/* --- what is claimed --- */

#define ID_TEXT_BYTES_MAX SHAPE_ID_BYTES_MAX
_Static_assert(LONG_ID_BYTES_MAX <= ID_TEXT_BYTES_MAX, "the longest of both");

/* How ids are written that are no decimal numbers that follow each other: those of a tag with a
 * shape (src/id/codec/shape.h), snowflake ids of 128 bits (src/id/codec/snowflake_layout.h), or
 * those of a layout whose worker id is last (src/id/codec/snowflake_layout.h). All zero: decimal
 * numbers. */
struct id_text {
    enum id_form form;
    const struct shape *shape; /* of the tag, which the table keeps; NULL: it has none */
    /* Of which ranges have the plain forms, which stays as long as the backend; NULL: none. */
    const struct named_layout *layout;
};

static inline bool id_text_is_number(const struct id_text *text)
{
    return text->form == ID_FORM_NUMBER && text->shape == NULL && text->layout == NULL;
}

/* ID_FORMAT_OTHER: of another protocol, by id_claim.answer. */
enum id_format { ID_FORMAT_TEXT, ID_FORMAT_RANGE, ID_FORMAT_JSON, ID_FORMAT_OTHER };

struct id_claim {
    uint32_t count; /* asked for */
    uint32_t left;  /* not claimed yet */
    bool counted;   /* count= was given: lines instead of the bare number */
    bool contiguous;
    bool by_step;     /* as many as the tag's step, which is looked up with the tag */
    bool stepped;     /* the client reads ranges with an increment */
    bool consecutive; /* only ids that follow each other as numbers answer it */
    bool snowflake;   /* ids by the clock; name is the key that was given */
    bool plain;       /* the name stands in the path as it is, without decoding */
    bool opened;      /* the cluster was asked about the tag once */
    bool judged;      /* by the leader's row, since too few seemed to be left */
    bool strict;      /* its ids come from the log, or the leader */
    bool monotonic;   /* from the leader */
    bool reopened;    /* it did not, as it turned out: the cluster was asked again */
    bool keyed;       /* came with an Idempotency-Key: only a strict tag can serve it */
    enum id_format format;
    struct id_text text;         /* what is no number comes with ID_FORMAT_TEXT alone */
    bool number;                 /* as=number: whatever shape the tag has */
    struct layout_words *layout; /* of snowflake ids: the named one; NULL: the cluster's own */
    int (*answer)(struct conn *conn, const struct id_claim *claim); /* returns ANSWERED */
    uint32_t timeout_ms;
    uint64_t deadline_ms; /* on the loop's clock */
    uint16_t name_len;
    uint32_t range_count;
    uint32_t generation; /* of the tag: the oldest that any of the ids was granted under */
    char name[LIMIT_TAG_NAME_BYTES];
    struct segment_range ranges[LIMIT_RANGES_PER_REPLY];
};

/* --- those that wait --- */

struct waiter {
    RB_ENTRY(waiter) link;
    struct id_tag *tag; /* NULL: it waits for the clock alone */
    const void *clock;  /* of those without a tag: which; set before it is parked, NULL as a rule */
    uint64_t seq;       /* order of arrival on this loop */
    uint64_t demand;    /* what this one adds to tag->demand */
    bool parked;
};

RB_HEAD(waiter_tree, waiter);

/* All zeros: none waits. */
struct waiters {
    struct waiter_tree tree;
    _Atomic size_t count; /* read by any thread */
    uint64_t next_seq;
};

#endif
