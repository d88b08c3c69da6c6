/*
 * segments_page.c - see segments_page.h. Thread: pure functions, any.
 */
#include "src/id/alloc/segments_page.h"

#include <stdlib.h>

#include "src/base/assert.h"
#include "src/base/fields.h"

/* The least that an item takes: to allocate no more than what was sent can fill. */
#define ITEM_BYTES_MIN 68

static const struct field info_fields[] = {
    FIELD_CHARS(struct id_segment_info, name),
    FIELD_NUMBER(struct id_segment_info, state),
    FIELD_NUMBER(struct id_segment_info, slots[0].next_id),
    FIELD_NUMBER(struct id_segment_info, slots[0].end),
    FIELD_NUMBER(struct id_segment_info, slots[0].size),
    FIELD_NUMBER(struct id_segment_info, slots[1].next_id),
    FIELD_NUMBER(struct id_segment_info, slots[1].end),
    FIELD_NUMBER(struct id_segment_info, slots[1].size),
    FIELD_NUMBER(struct id_segment_info, step),
    FIELD_BOOL(struct id_segment_info, refill_in_flight),
    FIELD_NUMBER(struct id_segment_info, last_refill_ago_ms),
    FIELD_NUMBER(struct id_segment_info, rate_per_s),
};
static const struct fields info_table = FIELDS(info_fields);

/* Behind the fields of an item, of a page in which a tag has what level 3 brought: of a cluster of
 * that level at least. */
static const struct field stepped_fields[] = {
    FIELD_NUMBER(struct id_segment_info, slots[0].increment),
    FIELD_NUMBER(struct id_segment_info, slots[1].increment),
    FIELD_NUMBER(struct id_segment_info, lasts_s),
    FIELD_NUMBER(struct id_segment_info, cover_s),
};
static const struct fields stepped_table = FIELDS(stepped_fields);

/* The first byte of a page. */
#define PAGE_MORE 1
#define PAGE_STEPPED 2

static bool slot_is_sound(const struct segment_slot_view *slot)
{
    return slot->next_id <= slot->end && segment_slot_left(slot) <= slot->size;
}

static bool info_is_sound(const struct id_segment_info *info)
{
    const char *why;

    return tag_name_check(info->name, info->name_len, &why) == 0 && info->state <= ID_TAG_PAUSED &&
           info->cover_s <= LIMIT_TAG_COVER_S && slot_is_sound(&info->slots[0]) &&
           slot_is_sound(&info->slots[1]);
}

static bool info_is_after(const struct id_segment_info *info, const struct id_segment_info *before)
{
    return tag_name_compare(info->name, info->name_len, before->name, before->name_len) > 0;
}

void segments_page_put(struct buf *buf, const struct id_segments_page *page)
{
    uint32_t any = 0;

    ASSERT(page->count <= LIMIT_TAGS_PER_PAGE);
    for (size_t i = 0; i < page->count; i++) {
        const struct id_segment_info *info = &page->items[i];

        any |= info->slots[0].increment | info->slots[1].increment | info->cover_s |
               (info->state == ID_TAG_PAUSED);
    }
    buf_put_u8(buf, (uint8_t)((page->more ? PAGE_MORE : 0) | (any != 0 ? PAGE_STEPPED : 0)));
    buf_put_u32(buf, (uint32_t)page->count);
    for (size_t i = 0; i < page->count; i++) {
        fields_put(buf, &info_table, &page->items[i]);
        if (any != 0) {
            fields_put(buf, &stepped_table, &page->items[i]);
        }
    }
}

/* As far as a node of an older level says it. */
static uint64_t lasts_of(const struct id_segment_info *info)
{
    uint64_t left = segment_slot_left(&info->slots[0]) + segment_slot_left(&info->slots[1]);

    return info->rate_per_s > 0 ? left / info->rate_per_s : UINT64_MAX;
}

static bool read_items(struct reader *reader, bool stepped, struct id_segments_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        struct id_segment_info *info = &page->items[i];

        if (!fields_read(reader, &info_table, info) ||
            (stepped && !fields_read(reader, &stepped_table, info)) || !info_is_sound(info) ||
            (i > 0 && !info_is_after(info, info - 1))) {
            return false;
        }
        if (!stepped) {
            info->lasts_s = lasts_of(info);
        }
    }
    return reader_done(reader);
}

int segments_page_read(const void *data, size_t len, struct id_segments_page *ret_page)
{
    struct reader reader;
    struct id_segments_page page = {0};
    uint8_t head;

    *ret_page = page;
    reader_init(&reader, data, len);
    head = reader_u8(&reader);
    page.more = (head & PAGE_MORE) != 0;
    page.count = reader_u32(&reader);
    if (reader.bad || head > (PAGE_MORE | PAGE_STEPPED) || page.count > LIMIT_TAGS_PER_PAGE ||
        page.count > len / ITEM_BYTES_MIN) {
        return ERR_BAD_MESSAGE;
    }
    page.items = MUST_HAVE(calloc(page.count + 1, sizeof *page.items));
    if (!read_items(&reader, (head & PAGE_STEPPED) != 0, &page)) {
        free(page.items);
        return ERR_BAD_MESSAGE;
    }
    *ret_page = page;
    return 0;
}
