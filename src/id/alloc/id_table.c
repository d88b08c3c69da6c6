/*
 * id_table.c - see id_table.h: this node's tags in use.
 *
 * A slot of the index is one 64-bit word: the upper 32 bits of the hash, and the handle of the
 * entry in the arena. An entry is complete before its slot is stored (release), and never changes
 * its name. The place in the index comes from the same 32 bits, so growing reads only the old
 * index, in order, and touches no entry.
 *
 * The order of names is a skip list: after its name an entry has the handles of the next entries,
 * one for each of its levels. One entry in four has one level more, by a hash of the name with
 * another seed. There is nothing to balance, and a tag needs five bytes for it on average.
 */
#include "src/id/alloc/id_table.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/base/fields.h"
#include "src/base/hash.h"
#include "src/base/hot.h"
#include "src/base/limits.h"
#include "src/id/codec/tag.h"

#ifndef FIRST_BITS /* the memory-model test starts smaller */
#define FIRST_BITS 10
#endif

/* At least three eighths of the slots of 8 bytes are taken, older indexes together are as large,
 * and links are few. */
_Static_assert(sizeof(struct id_tag) + 64 + 2 * ARENA_UNIT_BYTES <= LIMIT_TAG_USED_BYTES,
               "what a tag in use takes is counted with it");

/* The fields that each claim reads, the word first, fill one cache line; those that the raft loop
 * writes with each grant come after it. Only claims of one range, or by step, read any of these. */
#define LINE_BYTES 64
_Static_assert(offsetof(struct id_tag, buffer) == 0, "a tag begins with what claims swap");
_Static_assert(offsetof(struct segment_buffer, word) == 0, "which begins with the word");
_Static_assert(offsetof(struct id_tag, name_len) + sizeof(uint16_t) <= LINE_BYTES,
               "what each request reads of a tag");
_Static_assert(offsetof(struct id_tag, refill) >= LINE_BYTES, "the raft loop's part");

struct index {
    struct index *older;      /* kept until the end: a reader may still be in it */
    unsigned bits;            /* 1 << bits slots */
    _Atomic uint64_t slots[]; /* hash:32 | handle:32; 0: empty */
};

#define LEVELS 12 /* of links; 4^12 names */
#define LINK_BYTES sizeof(uint32_t)

struct id_table {
    _Atomic(struct index *) index;
    uint64_t seed; /* of hashes */
    struct arena arena;
    uint32_t first[LEVELS]; /* handles: the first name of each level; 0: none */
    size_t count;
};

static struct index *index_new(unsigned bits)
{
    struct index *index = MUST_HAVE(calloc(1, sizeof *index + (sizeof index->slots[0] << bits)));

    ASSERT(bits >= FIRST_BITS && bits < 32);
    index->bits = bits;
    return index;
}

struct id_table *id_table_new(uint64_t seed)
{
    struct id_table *table = MUST_HAVE(calloc(1, sizeof *table));

    table->seed = seed;
    atomic_init(&table->index, index_new(FIRST_BITS));
    return table;
}

/* A shape with room for its keys. */
struct held_shape {
    struct shape shape;
    uint8_t keys[];
};

static struct held_shape *held(const struct id_tag *tag)
{
    const struct shape *shape = atomic_load_explicit(&tag->shape, memory_order_relaxed);

    return shape != NULL ? CONTAINER(shape, struct held_shape, shape) : NULL;
}

void id_table_free(struct id_table *table)
{
    struct index *index;
    struct id_tag *tag;

    if (table == NULL) {
        return;
    }
    index = atomic_load_explicit(&table->index, memory_order_relaxed);
    while (index != NULL) {
        struct index *older = index->older;

        free(index);
        index = older;
    }
    for (tag = id_table_after(table, NULL); tag != NULL; tag = id_table_after(table, tag)) {
        struct id_pause *pause = atomic_load_explicit(&tag->pause, memory_order_relaxed);

        if (pause != NULL) {
            ASSERT(pthread_mutex_destroy(&pause->mutex) == 0);
        }
        free(pause);
        free(held(tag));
    }
    arena_free(&table->arena);
    free(table);
}

/* The first slot to look at: the upper bits of the hash. */
static uint32_t index_place(const struct index *index, uint64_t slot)
{
    return (uint32_t)(slot >> (64 - index->bits));
}

HOT struct id_tag *id_table_find(const struct id_table *table, const char *name, size_t len)
{
    const struct index *index = atomic_load_explicit(&table->index, memory_order_acquire);
    uint64_t hash = hash_bytes(name, len, table->seed);
    uint32_t mask = (uint32_t)((1ULL << index->bits) - 1);
    uint32_t at = index_place(index, hash);

    for (;; at = (at + 1) & mask) {
        uint64_t slot = atomic_load_explicit(&index->slots[at], memory_order_acquire);
        struct id_tag *tag;

        if (slot == 0) {
            return NULL;
        }
        if (slot >> 32 != hash >> 32) {
            continue;
        }
        tag = arena_at(&table->arena, (uint32_t)slot);
        if (tag->name_len == len && memcmp(tag->name, name, len) == 0) {
            return tag;
        }
    }
}

/* Release: a thread that sees the slot sees its entry. */
static void index_put(struct index *index, uint64_t slot)
{
    uint32_t mask = (uint32_t)((1ULL << index->bits) - 1);
    uint32_t at = index_place(index, slot);

    while (atomic_load_explicit(&index->slots[at], memory_order_relaxed) != 0) {
        at = (at + 1) & mask;
    }
    atomic_store_explicit(&index->slots[at], slot, memory_order_release);
}

/* Of an entry with a name of this length. */
static size_t links_at(size_t len)
{
    return (offsetof(struct id_tag, name) + len + LINK_BYTES) / LINK_BYTES * LINK_BYTES;
}

/* The handles of the next entries, by level; of NULL: the first ones. */
static uint32_t *links_of(struct id_table *table, struct id_tag *tag)
{
    return tag != NULL ? (uint32_t *)(void *)((char *)tag + links_at(tag->name_len)) : table->first;
}

static struct id_tag *tag_at(const struct id_table *table, uint32_t handle)
{
    return handle != 0 ? arena_at(&table->arena, handle) : NULL;
}

/* The first entry whose name is >= name, or > name. ret_links: by level the link that leads to it
 * or past it; or NULL. */
static struct id_tag *tag_seek(struct id_table *table, const char *name, size_t len, bool beyond,
                               uint32_t *ret_links[LEVELS])
{
    uint32_t *links = table->first;
    struct id_tag *next = NULL;

    for (unsigned level = LEVELS; level-- > 0;) {
        while ((next = tag_at(table, links[level])) != NULL &&
               tag_name_compare(next->name, next->name_len, name, len) < (beyond ? 1 : 0)) {
            links = links_of(table, next);
        }
        if (ret_links != NULL) {
            ret_links[level] = &links[level];
        }
    }
    return next;
}

/* Make an entry with its name, else all zeros (no segments, ID_TAG_ACTIVE), in the order of names
 * but not yet in the index. NULL: no room. */
static struct id_tag *tag_new(struct id_table *table, const char *name, size_t len,
                              uint32_t *ret_handle)
{
    uint64_t chance = hash_bytes(name, len, ~table->seed) | 1ULL << (2 * LEVELS - 1);
    unsigned levels = (unsigned)__builtin_ctzll(chance) / 2 + 1;
    uint32_t handle = arena_alloc(&table->arena, links_at(len) + levels * LINK_BYTES);
    uint32_t *links[LEVELS];
    struct id_tag *tag;

    if (handle == 0) {
        return NULL;
    }
    tag = arena_at(&table->arena, handle);
    tag->name_len = (uint16_t)len;
    atomic_init(&tag->bound, UINT64_MAX);
    atomic_init(&tag->room, UINT64_MAX);
    memcpy(tag->name, name, len);
    (void)tag_seek(table, name, len, false, links);
    for (unsigned level = 0; level < levels; level++) {
        links_of(table, tag)[level] = *links[level];
        *links[level] = handle;
    }
    *ret_handle = handle;
    return tag;
}

struct id_tag *id_table_insert(struct id_table *table, const char *name, size_t len)
{
    struct id_tag *tag;
    struct index *index;
    uint32_t handle;

    ASSERT(len >= 1 && len <= LIMIT_TAG_NAME_BYTES);
    tag = id_table_find(table, name, len);
    if (tag != NULL) {
        return tag;
    }
    if (table->count >= LIMIT_TAGS) {
        return NULL;
    }
    tag = tag_new(table, name, len, &handle);
    if (tag == NULL) {
        return NULL;
    }
    index = atomic_load_explicit(&table->index, memory_order_relaxed);
    if ((table->count + 1) * 4 >= (size_t)3 << index->bits) {
        /* Publish an index of twice the size. Readers in the older one miss only later insertions,
         * as if they had looked before. */
        struct index *older = index;

        index = index_new(older->bits + 1);
        for (size_t i = 0; i < (size_t)1 << older->bits; i++) {
            uint64_t slot = atomic_load_explicit(&older->slots[i], memory_order_relaxed);

            if (slot != 0) {
                index_put(index, slot);
            }
        }
        index->older = older;
        atomic_store_explicit(&table->index, index, memory_order_release);
    }
    table->count++;
    index_put(index, (hash_bytes(name, len, table->seed) >> 32) << 32 | handle);
    return tag;
}

bool id_tag_take_shape(struct id_tag *tag, const struct tag_row *row)
{
    struct held_shape *mine = held(tag);
    bool is_new = mine == NULL;
    struct shape shape;

    if (row->shape_len == 0) {
        return false;
    }
    if (!is_new && (!mine->shape.has_key || tag_key_number(row) < mine->shape.key_count)) {
        return mine->shape.has_key;
    }
    ASSERT(tag_shape(row->shape, row->shape_len, &shape, NULL) == 0); /* a row keeps that rule */
    if (is_new) {
        size_t keys = shape.has_key ? SHAPE_KEYS_MAX : shape.key_count;

        mine = MUST_HAVE(calloc(1, sizeof *mine + keys * SHAPE_KEY_BYTES));
        mine->shape = shape;
        mine->shape.keys = mine->keys;
        mine->shape.key_count = 0;
    }
    for (; mine->shape.key_count < shape.key_count; mine->shape.key_count++) {
        size_t at = (size_t)mine->shape.key_count * SHAPE_KEY_BYTES;

        memcpy(mine->keys + at, shape.keys + at, SHAPE_KEY_BYTES);
    }
    if (is_new) {
        atomic_store_explicit(&tag->shape, &mine->shape, memory_order_release);
    }
    return mine->shape.has_key;
}

void id_tag_set_reason(struct id_tag *tag, const char *text, size_t len)
{
    struct id_pause *pause = atomic_load_explicit(&tag->pause, memory_order_relaxed);

    ASSERT(len <= LIMIT_TAG_REASON_BYTES);
    if (pause == NULL) {
        pause = MUST_HAVE(calloc(1, sizeof *pause));
        ASSERT(pthread_mutex_init(&pause->mutex, NULL) == 0);
        atomic_store_explicit(&tag->pause, pause, memory_order_release);
    }
    ASSERT(pthread_mutex_lock(&pause->mutex) == 0);
    pause->len = (uint16_t)len;
    if (len > 0) {
        memcpy(pause->text, text, len);
    }
    ASSERT(pthread_mutex_unlock(&pause->mutex) == 0);
}

void id_tag_reason(const struct id_tag *tag, char ret_text[LIMIT_TAG_REASON_BYTES + 1])
{
    struct id_pause *pause = atomic_load_explicit(&tag->pause, memory_order_acquire);

    ret_text[0] = '\0';
    if (pause != NULL) {
        ASSERT(pthread_mutex_lock(&pause->mutex) == 0);
        memcpy(ret_text, pause->text, pause->len);
        ret_text[pause->len] = '\0';
        ASSERT(pthread_mutex_unlock(&pause->mutex) == 0);
    }
}

bool id_tag_has_keys(const struct id_tag *tag, uint64_t first, uint32_t count)
{
    const struct held_shape *mine = held(tag);
    uint64_t last = count > 0 ? first + count - 1 : first;

    return mine == NULL || !mine->shape.has_key || last < shape_bound(&mine->shape);
}

struct id_tag *id_table_after(struct id_table *table, const struct id_tag *tag)
{
    return tag_at(table, *links_of(table, (struct id_tag *)(uintptr_t)tag));
}

struct id_tag *id_table_next(struct id_table *table, const char *prefix, size_t prefix_len,
                             const char *after, size_t after_len)
{
    struct id_tag *tag;

    /* Names up to and including after, and all that begin below the prefix, come first. */
    if (after_len > 0 && tag_name_compare(after, after_len, prefix, prefix_len) >= 0) {
        tag = tag_seek(table, after, after_len, true, NULL);
    } else {
        tag = tag_seek(table, prefix, prefix_len, false, NULL);
    }
    if (tag == NULL || tag->name_len < prefix_len ||
        (prefix_len > 0 && memcmp(tag->name, prefix, prefix_len) != 0)) {
        return NULL;
    }
    return tag;
}

/* --- segments_page --- */

/* The least bytes of an item, so that no more is allocated than the message can fill. */
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

/* After an item's fields, in a page with a tag that has fields of level 3, so in a cluster of at
 * least that level. */
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

int segments_page_read(const void *data, size_t len, struct id_segments_page *ret_page)
{
    struct id_segments_page page = {0};
    const struct id_segment_info *last = NULL;
    struct reader reader;
    bool stepped;
    uint8_t head;

    *ret_page = page;
    reader_init(&reader, data, len);
    head = reader_u8(&reader);
    page.more = (head & PAGE_MORE) != 0;
    stepped = (head & PAGE_STEPPED) != 0;
    page.count = reader_u32(&reader);
    if (reader.bad || head > (PAGE_MORE | PAGE_STEPPED) || page.count > LIMIT_TAGS_PER_PAGE ||
        page.count > len / ITEM_BYTES_MIN) {
        return ERR_BAD_MESSAGE;
    }
    page.items = MUST_HAVE(calloc(page.count + 1, sizeof *page.items));
    for (struct id_segment_info *info = page.items; info < page.items + page.count; info++) {
        if (!fields_read(&reader, &info_table, info) ||
            (stepped && !fields_read(&reader, &stepped_table, info)) ||
            tag_name_check(info->name, info->name_len, NULL) != 0 || info->state > ID_TAG_PAUSED ||
            info->cover_s > LIMIT_TAG_COVER_S || !slot_is_sound(&info->slots[0]) ||
            !slot_is_sound(&info->slots[1]) ||
            (last != NULL &&
             tag_name_compare(info->name, info->name_len, last->name, last->name_len) <= 0)) {
            reader.bad = true;
            break;
        }
        if (!stepped) { /* as a node of an older level sends it */
            uint64_t left = segment_slot_left(&info->slots[0]) + segment_slot_left(&info->slots[1]);

            info->lasts_s = info->rate_per_s > 0 ? left / info->rate_per_s : UINT64_MAX;
        }
        last = info;
    }
    if (!reader_done(&reader)) {
        free(page.items);
        return ERR_BAD_MESSAGE;
    }
    *ret_page = page;
    return 0;
}
