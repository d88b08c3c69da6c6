/*
 * strict_command.c - see strict_command.h: the bytes of strict allocations, of ranges given back
 * and of segments recalled, and of their results; written by the nodes, taken apart for the state
 * machine.
 *
 * The happy path: begin, add each item, end; on the other side the read function walks the whole
 * command once, so that apply can go through the items knowing that all of them are well formed.
 *
 * Failure modes: reading gives ERR_BAD_MESSAGE. It also sees to what the header says of counts and
 * lengths, since nodes of this cluster alone write these commands; what a tag makes of an item is
 * the state machine's to judge. Encoding cannot fail; what breaks the header's rules is the
 * caller's mistake (ASSERT). Thread: pure functions, any.
 */
#include "src/id/codec/strict_command.h"

#include "src/base/assert.h"

#define RESULT_REPLAYED 0x01 /* bit of the flags byte of a strict result */

/* --- allocation --- */

static const struct field STRICT_FIELDS[] = {
    FIELD_STRING(struct strict_item, name),
    FIELD_STRING(struct strict_item, key),
    FIELD_NUMBER(struct strict_item, count),
};

static bool strict_item_is_sound(const void *data)
{
    const struct strict_item *item = data;

    return item->key_len <= LIMIT_KEY_BYTES && item->count >= 1 && item->count <= LIMIT_COUNT;
}

static const struct command_items STRICT_ITEMS = {FIELDS(STRICT_FIELDS), sizeof(struct strict_item),
                                                  strict_item_is_sound};

void command_strict_begin(struct buf *buf, const struct strict_batch *batch)
{
    command_head_put(buf, COMMAND_STRICT);
    buf_put_u64(buf, batch->wall_ms);
    buf_put_u32(buf, batch->key_limit);
}

void command_strict_add(struct buf *buf, const struct strict_item *item)
{
    command_item_put(buf, &STRICT_ITEMS, item);
}

int strict_command_read(const void *data, size_t len, struct strict_command *ret_command)
{
    struct reader reader;

    if (!command_head_read(&reader, data, len, COMMAND_STRICT)) {
        return ERR_BAD_MESSAGE;
    }
    ret_command->batch.wall_ms = reader_u64(&reader);
    ret_command->batch.key_limit = reader_u32(&reader);
    return command_items_read(&reader, &STRICT_ITEMS, LIMIT_STRICT_ITEMS, &ret_command->items,
                              &ret_command->count);
}

bool strict_command_next(struct strict_command *command, struct strict_item *ret_item)
{
    return command_item_next(&command->items, &STRICT_ITEMS, ret_item);
}

/* One of first and detail says something, whatever the status: they share their bytes. */
void strict_results_encode(const struct strict_result *results, size_t count, struct buf *buf)
{
    ASSERT(count <= LIMIT_STRICT_ITEMS);
    message_head_put(buf, RESULT_STRICT);
    buf_put_u32(buf, (uint32_t)count);
    buf_reserve(buf, count * STRICT_RESULT_BYTES);
    for (size_t i = 0; i < count; i++) {
        const struct strict_result *result = &results[i];
        bool given = result->status == 0;

        ASSERT(result->status <= 0);
        ASSERT(given ? result->detail == 0 : result->first == 0 && !result->replayed);
        buf_put_u32(buf, (uint32_t)result->status);
        buf_put_u8(buf, result->replayed ? RESULT_REPLAYED : 0);
        buf_put_u32(buf, result->generation);
        buf_put_u64(buf, given ? result->first : result->detail);
    }
}

static bool read_result(struct reader *reader, struct strict_result *ret_result)
{
    struct strict_result result = {.status = (int32_t)reader_u32(reader)};
    uint8_t flags = reader_u8(reader);
    uint64_t value;

    result.generation = reader_u32(reader);
    value = reader_u64(reader);
    result.replayed = (flags & RESULT_REPLAYED) != 0;
    if (reader->bad || result.status > 0 || (flags & ~RESULT_REPLAYED) != 0 ||
        (result.replayed && result.status != 0)) {
        return false;
    }
    if (result.status == 0) {
        result.first = value;
    } else {
        result.detail = value;
    }
    *ret_result = result;
    return true;
}

int strict_results_decode(const void *data, size_t len, struct strict_result *ret_results,
                          size_t max, size_t *ret_count)
{
    struct reader reader;
    uint32_t count;

    if (!message_head_read(&reader, data, len, RESULT_STRICT)) {
        return ERR_BAD_MESSAGE;
    }
    count = reader_u32(&reader);
    if (count > max) {
        return ERR_BAD_MESSAGE;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!read_result(&reader, &ret_results[i])) {
            return ERR_BAD_MESSAGE;
        }
    }
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_count = count;
    return 0;
}

void strict_item_encode(const struct strict_item *item, struct buf *buf)
{
    ASSERT(strict_item_is_sound(item));
    message_head_put(buf, REQUEST_STRICT);
    fields_put(buf, &STRICT_ITEMS.fields, item);
}

int strict_item_decode(const void *data, size_t len, struct strict_item *ret_item)
{
    struct reader reader;

    return message_head_read(&reader, data, len, REQUEST_STRICT) &&
                   fields_read(&reader, &STRICT_ITEMS.fields, ret_item) && reader_done(&reader) &&
                   strict_item_is_sound(ret_item)
               ? 0
               : ERR_BAD_MESSAGE;
}

/* --- give back --- */

static const struct field GIVE_BACK_FIELDS[] = {
    FIELD_STRING(struct give_back_item, name),
    FIELD_NUMBER(struct give_back_item, generation),
    FIELD_NUMBER(struct give_back_item, first),
    FIELD_NUMBER(struct give_back_item, end),
};

static bool give_back_is_sound(const void *data)
{
    const struct give_back_item *item = data;

    return item->first < item->end && item->end <= TAG_MAX_ID_END;
}

static const struct command_items GIVE_BACKS = {FIELDS(GIVE_BACK_FIELDS),
                                                sizeof(struct give_back_item), give_back_is_sound};

void command_give_back_begin(struct buf *buf, uint64_t wall_ms)
{
    command_head_put(buf, COMMAND_GIVE_BACK);
    buf_put_u64(buf, wall_ms);
}

void command_give_back_add(struct buf *buf, const struct give_back_item *item)
{
    command_item_put(buf, &GIVE_BACKS, item);
}

int give_back_command_read(const void *data, size_t len, struct give_back_command *ret_command)
{
    struct reader reader;

    if (!command_head_read(&reader, data, len, COMMAND_GIVE_BACK)) {
        return ERR_BAD_MESSAGE;
    }
    ret_command->wall_ms = reader_u64(&reader);
    return command_items_read(&reader, &GIVE_BACKS, LIMIT_GRANTS_PER_ENTRY, &ret_command->items,
                              &ret_command->count);
}

bool give_back_command_next(struct give_back_command *command, struct give_back_item *ret_item)
{
    return command_item_next(&command->items, &GIVE_BACKS, ret_item);
}

/* --- recalled --- */

static const struct field RECALLED_FIELDS[] = {
    FIELD_STRING(struct recalled_item, name),
    FIELD_NUMBER(struct recalled_item, generation),
};
static const struct command_items RECALLS = {FIELDS(RECALLED_FIELDS), sizeof(struct recalled_item),
                                             NULL};

void command_recalled_begin(struct buf *buf)
{
    command_head_put(buf, COMMAND_RECALLED);
}

void command_recalled_add(struct buf *buf, const struct recalled_item *item)
{
    command_item_put(buf, &RECALLS, item);
}

int recalled_command_read(const void *data, size_t len, struct recalled_command *ret_command)
{
    struct reader reader;

    return command_head_read(&reader, data, len, COMMAND_RECALLED)
               ? command_items_read(&reader, &RECALLS, LIMIT_GRANTS_PER_ENTRY, &ret_command->items,
                                    &ret_command->count)
               : ERR_BAD_MESSAGE;
}

bool recalled_command_next(struct recalled_command *command, struct recalled_item *ret_item)
{
    return command_item_next(&command->items, &RECALLS, ret_item);
}
