/*
 * id_text.c - see id_text.h. Thread: the loop's.
 */
#include "http/api/id_text.h"

#include "http/api/context.h"
#include "http/proto/text.h"
#include "src/base/assert.h"

static size_t put(struct api_loop *loop, const struct id_text *text, uint64_t id, char *at)
{
    struct snowflake_parts parts;

    if (text->shape != NULL) {
        return shape_put(text->shape, loop->ff1, id, at);
    }
    if (text->layout != NULL) {
        return text_decimal(named_layout_id(text->layout, id), at);
    }
    ASSERT(text->form != ID_FORM_NUMBER);
    parts = snowflake_decode(&loop->backend->snowflake->layout, id);
    long_id_put(text->form, &parts, entropy_take(&loop->entropy, LONG_ID_RANDOM_BYTES), at);
    return long_id_bytes(text->form);
}

/* Another reply may have used the loop's permutation since. */
static void prepare(struct api_loop *loop, const struct id_text *text, uint64_t id)
{
    if (text->shape != NULL) {
        shape_prepare(text->shape, id, loop->ff1);
    }
}

/* Is the id the first by its key? */
static bool begins_key(const struct id_text *text, uint64_t id)
{
    return text->shape != NULL && text->shape->has_key && id > 0 &&
           shape_key_of(text->shape, id) != shape_key_of(text->shape, id - 1);
}

size_t id_text_put(struct api_loop *loop, const struct id_text *text, uint64_t id, char *at)
{
    prepare(loop, text, id);
    return put(loop, text, id, at);
}

uint32_t id_text_lines(const struct id_text *text)
{
    size_t len = text->shape != NULL    ? ID_TEXT_BYTES_MAX
                 : text->layout != NULL ? TEXT_DECIMAL_BYTES
                                        : long_id_bytes(text->form);

    return (uint32_t)(LIMIT_HTTP_PART_BYTES / (len + 1));
}

uint64_t id_text_lines_bytes(const struct id_text *text, const struct segment_range *range)
{
    uint64_t bytes = 0;

    if (text->layout != NULL) {
        char digits[TEXT_DECIMAL_BYTES];

        for (uint32_t i = 0; i < range->count; i++) {
            bytes += text_decimal(named_layout_id(text->layout, range->first + i), digits) + 1;
        }
        return bytes;
    }
    if (text->shape == NULL) {
        return range->count * (long_id_bytes(text->form) + 1);
    }
    for (uint64_t done = 0; done < range->count;) {
        uint64_t id = range->first + done;
        uint64_t alike = shape_alike(text->shape, id);

        alike = alike < range->count - done ? alike : range->count - done;
        bytes += alike * (shape_bytes(text->shape, id) + 1);
        done += alike;
    }
    return bytes;
}

void id_text_put_lines(struct api_loop *loop, const struct id_text *text,
                       const struct segment_range *range, struct buf *buf)
{
    char line[ID_TEXT_BYTES_MAX + 1];

    for (uint32_t i = 0; i < range->count; i++) {
        uint64_t id = range->first + i;
        size_t len;

        if (i == 0 || begins_key(text, id)) {
            prepare(loop, text, id);
        }
        len = put(loop, text, id, line);
        line[len] = '\n';
        buf_put(buf, line, len + 1);
    }
}
