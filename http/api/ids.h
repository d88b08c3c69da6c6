/*
 * ids.h - a claim of ids under way: what was asked, what was claimed so far, how it waits for more,
 * and how it is answered.
 *
 * As a rule it lives on the stack of its handler. One that cannot be filled at once is parked: it
 * waits until its tag has more ids, or, without a tag, until the clock brings them. One that asks
 * the cluster is kept in a struct call.
 *
 * Failure modes: too many are parked on this loop: 503.
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_IDS_H
#define LEAFD_HTTP_API_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "http/api/waiters.h"
#include "http/server/conn.h"
#include "src/base/buf.h"
#include "src/base/limits.h"
#include "src/id/alloc/segment.h"
#include "src/id/codec/shape.h"
#include "src/id/codec/snowflake_layout.h"

struct api_loop;
struct layout_words;

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

/* The text of one id; its bytes, at most ID_TEXT_BYTES_MAX. */
size_t id_text_put(struct api_loop *loop, const struct id_text *text, uint64_t id, char *at);

/* So many lines are made at once. */
uint32_t id_text_lines(const struct id_text *text);

/* The bytes that the lines of a range take, and the lines. */
uint64_t id_text_lines_bytes(const struct id_text *text, const struct segment_range *range);
void id_text_put_lines(struct api_loop *loop, const struct id_text *text,
                       const struct segment_range *range, struct buf *buf);

/* ID_FORMAT_OTHER: of another protocol, by id_claim.answer. */
enum id_format { ID_FORMAT_TEXT, ID_FORMAT_RANGE, ID_FORMAT_JSON, ID_FORMAT_OTHER };

struct id_claim {
    uint32_t count; /* asked for */
    uint32_t left;  /* not claimed yet */
    bool counted;   /* count= was given: lines instead of the bare number */
    bool contiguous;
    bool snowflake; /* ids by the clock; name is the key that was given */
    bool plain;     /* the name stands in the path as it is, without decoding */
    bool opened;    /* the cluster was asked about the tag once */
    bool judged;    /* by the leader's row, since too few seemed to be left */
    bool strict;    /* its ids come from the log, or the leader */
    bool monotonic; /* from the leader */
    bool reopened;  /* it did not, as it turned out: the cluster was asked again */
    bool keyed;     /* came with an Idempotency-Key: only a strict tag can serve it */
    enum id_format format;
    struct id_text text;         /* what is no number comes with ID_FORMAT_TEXT alone */
    bool number;                 /* as=number: whatever shape the tag has */
    struct layout_words *layout; /* of snowflake ids: the named one; NULL: the cluster's own */
    int (*answer)(struct conn *conn, const struct id_claim *claim); /* returns ANSWERED */
    uint32_t timeout_ms;
    uint64_t deadline_ms; /* on the loop's clock */
    uint16_t name_len;
    uint32_t range_count;
    char name[LIMIT_TAG_NAME_BYTES];
    struct segment_range ranges[LIMIT_RANGES_PER_REPLY];
};

/* Add a range, joined to the last one where it goes on. False if it does not fit. */
bool id_claim_add(struct id_claim *claim, const struct segment_range *range);

/* See that there is a place for one more range: when all are taken, the shortest range is given up,
 * and its ids are wanted again. */
void id_claim_make_room(struct id_claim *claim);

/* Add a range where it belongs by its ids, joined to its neighbours where they go on. There is room
 * (ASSERT). */
void id_claim_insert(struct id_claim *claim, const struct segment_range *range);

/* Append the body of the answer to a claim of several ids, or in another format than text. */
void id_claim_put(const struct id_claim *claim, struct buf *buf);

/* A claim of so many ids of a tag, with nothing claimed yet and the waiting time of the settings.
 * The caller sets the name, and answer where the format is ID_FORMAT_OTHER. */
void id_claim_init(struct conn *conn, struct id_claim *claim, uint32_t count);

/* Ids of a claim, whose other options were read, are to be of this layout. False: it cannot give
 * them, or there is none; answered. */
bool id_claim_layout(struct conn *conn, struct id_claim *claim, const char *name, size_t len);

/* Read name and options of a request, with nothing claimed yet. False if they are wrong;
 * answered. */
bool ids_read(struct conn *conn, struct id_claim *claim, bool snowflake);

/* Take the ids of a claim that was read, and answer. tag: segment_find() of it. Return as a handler
 * does. */
int segment_begin(struct conn *conn, struct id_claim *claim, struct id_tag *tag);
int snowflake_begin(struct conn *conn, struct id_claim *claim);

/* The table's entry of the claim's name; NULL: it has none. */
struct id_tag *segment_find(const struct api_loop *loop, const struct id_claim *claim);

/* Answer with the ids of a claim that is complete. extra: more header lines with CRLF, or NULL.
 * Returns ANSWERED. */
int ids_answer(struct conn *conn, const struct id_claim *claim, const char *extra);

/* Made when a claim parks; freed when it is answered or its connection closes. */
struct parked {
    struct http_wait wait;
    struct api_loop *loop;
    struct waiter waiter;
    struct id_claim claim;
};

/* Park a copy of the claim until its deadline. False if too many wait; answered. */
bool parked_begin(struct conn *conn, const struct id_claim *claim, struct id_tag *tag,
                  void (*cancel)(struct http_wait *wait), void (*expire)(struct http_wait *wait));

/* The oldest that waits for the clock, for ids of the layout; and the oldest of the first layout
 * behind it, in the order of waiters.h. NULL: none does. */
struct parked *parked_for_clock(struct waiters *waiters, const struct layout_words *layout);
struct parked *parked_for_next_clock(struct waiters *waiters, const struct layout_words *layout);

/* It waits no more: to be answered and freed. Returns its connection. */
struct conn *parked_resume(struct parked *parked);

#endif
