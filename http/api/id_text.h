/*
 * id_text.h - ids that are no decimal numbers that follow each other: of a tag with a shape
 * (src/id/codec/shape.h), snowflake ids of 128 bits (src/id/codec/long_id.h), or those of a layout
 * whose worker id is last (src/id/codec/named_layout.h).
 *
 * The happy path: id_text_put() for one id, id_text_put_lines() for a range, of which so many are
 * made at once as id_text_lines() says.
 *
 * Failure modes: none. Ids of a shape are below its capacity (tag_row_check() sees to it).
 *
 * Thread: the loop's.
 */
#ifndef LEAFD_HTTP_API_ID_TEXT_H
#define LEAFD_HTTP_API_ID_TEXT_H

#include "src/base/buf.h"
#include "src/id/alloc/segment.h"
#include "src/id/codec/long_id.h"
#include "src/id/codec/named_layout.h"
#include "src/id/codec/shape.h"

struct api_loop;

#define ID_TEXT_BYTES_MAX SHAPE_ID_BYTES_MAX
_Static_assert(LONG_ID_BYTES_MAX <= ID_TEXT_BYTES_MAX, "the longest of both");

/* All zero: decimal numbers, which are none of this file's. */
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

#endif
