/*
 * strict_command.c - see strict_command.h: the bytes of strict allocations, of ranges given back
 * and of segments dropped, and of their results; written by the nodes, taken apart for the state
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
#include "src/id/codec/command_bytes.h"

#define RESULT_REPLAYED 0x01 /* bit of the flags byte of a strict result */

static void put_item(struct buf *buf, const struct strict_item *item);
static bool read_item(struct reader *reader, struct strict_item *ret_item);
static bool read_next(struct reader *reader, struct strict_item *ret_item);
static bool read_give_back(struct reader *reader, struct give_back_item *ret_item);
static bool read_recalled(struct reader *reader, struct recalled_item *ret_item);
static const char *read_name(struct reader *reader, uint16_t *ret_len);
static bool read_result(struct reader *reader, struct strict_result *ret_result);

/* --- allocation --- */

void command_strict_begin(struct buf *buf, const struct strict_batch *batch)
{
    command_head_put(buf, COMMAND_STRICT);
    buf_put_u64(buf, batch->wall_ms);
    buf_put_u32(buf, batch->key_limit);
}

void command_strict_add(struct buf *buf, const struct strict_item *item)
{
    buf_put_u8(buf, COMMAND_ITEM);
    put_item(buf, item);
}

void command_strict_end(struct buf *buf)
{
    buf_put_u8(buf, COMMAND_END);
}

int strict_command_read(const void *data, size_t len, struct strict_command *ret_command)
{
    struct reader reader;
    struct strict_command command = {0};
    struct strict_item item;

    if (!command_head_read(&reader, data, len, COMMAND_STRICT)) {
        return ERR_BAD_MESSAGE;
    }
    command.batch.wall_ms = reader_u64(&reader);
    command.batch.key_limit = reader_u32(&reader);
    command.items = reader;
    while (read_next(&reader, &item)) {
        command.count++;
    }
    if (!reader_done(&reader) || command.count < 1 || command.count > LIMIT_STRICT_ITEMS) {
        return ERR_BAD_MESSAGE;
    }
    *ret_command = command;
    return 0;
}

bool strict_command_next(struct strict_command *command, struct strict_item *ret_item)
{
    return read_next(&command->items, ret_item);
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
    message_head_put(buf, REQUEST_STRICT);
    put_item(buf, item);
}

int strict_item_decode(const void *data, size_t len, struct strict_item *ret_item)
{
    struct reader reader;
    struct strict_item item;

    if (!message_head_read(&reader, data, len, REQUEST_STRICT) || !read_item(&reader, &item) ||
        !reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_item = item;
    return 0;
}

/* --- give back --- */

void command_give_back_begin(struct buf *buf, uint64_t wall_ms)
{
    command_head_put(buf, COMMAND_GIVE_BACK);
    buf_put_u64(buf, wall_ms);
}

void command_give_back_add(struct buf *buf, const struct give_back_item *item)
{
    ASSERT(item->first < item->end && item->end <= TAG_MAX_ID_END);
    buf_put_u8(buf, COMMAND_ITEM);
    buf_put_str16(buf, item->name, item->name_len);
    buf_put_u32(buf, item->generation);
    buf_put_u64(buf, item->first);
    buf_put_u64(buf, item->end);
}

void command_give_back_end(struct buf *buf)
{
    buf_put_u8(buf, COMMAND_END);
}

int give_back_command_read(const void *data, size_t len, struct give_back_command *ret_command)
{
    struct reader reader;
    struct give_back_command command = {0};
    struct give_back_item item;

    if (!command_head_read(&reader, data, len, COMMAND_GIVE_BACK)) {
        return ERR_BAD_MESSAGE;
    }
    command.wall_ms = reader_u64(&reader);
    command.items = reader;
    while (read_give_back(&reader, &item)) {
        command.count++;
    }
    if (!reader_done(&reader) || command.count < 1 || command.count > LIMIT_GRANTS_PER_ENTRY) {
        return ERR_BAD_MESSAGE;
    }
    *ret_command = command;
    return 0;
}

bool give_back_command_next(struct give_back_command *command, struct give_back_item *ret_item)
{
    return read_give_back(&command->items, ret_item);
}

void statuses_encode(const int32_t *statuses, size_t count, struct buf *buf)
{
    ASSERT(count <= LIMIT_GRANTS_PER_ENTRY);
    message_head_put(buf, RESULT_STATUSES);
    buf_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        ASSERT(statuses[i] <= 0);
        buf_put_u32(buf, (uint32_t)statuses[i]);
    }
}

int statuses_decode(const void *data, size_t len, int32_t *ret_statuses, size_t max,
                    size_t *ret_count)
{
    struct reader reader;
    uint32_t count;

    if (!message_head_read(&reader, data, len, RESULT_STATUSES)) {
        return ERR_BAD_MESSAGE;
    }
    count = reader_u32(&reader);
    if (count > max) {
        return ERR_BAD_MESSAGE;
    }
    for (uint32_t i = 0; i < count; i++) {
        ret_statuses[i] = (int32_t)reader_u32(&reader);
        if (ret_statuses[i] > 0) {
            return ERR_BAD_MESSAGE;
        }
    }
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_count = count;
    return 0;
}

/* --- recalled --- */

void command_recalled_begin(struct buf *buf)
{
    command_head_put(buf, COMMAND_RECALLED);
}

void command_recalled_add(struct buf *buf, const struct recalled_item *item)
{
    buf_put_u8(buf, COMMAND_ITEM);
    buf_put_str16(buf, item->name, item->name_len);
    buf_put_u32(buf, item->generation);
}

void command_recalled_end(struct buf *buf)
{
    buf_put_u8(buf, COMMAND_END);
}

int recalled_command_read(const void *data, size_t len, struct recalled_command *ret_command)
{
    struct reader reader;
    struct recalled_command command = {0};
    struct recalled_item item;

    if (!command_head_read(&reader, data, len, COMMAND_RECALLED)) {
        return ERR_BAD_MESSAGE;
    }
    command.items = reader;
    while (read_recalled(&reader, &item)) {
        command.count++;
    }
    if (!reader_done(&reader) || command.count < 1 || command.count > LIMIT_GRANTS_PER_ENTRY) {
        return ERR_BAD_MESSAGE;
    }
    *ret_command = command;
    return 0;
}

bool recalled_command_next(struct recalled_command *command, struct recalled_item *ret_item)
{
    return read_recalled(&command->items, ret_item);
}

/* --- shared --- */

static void put_item(struct buf *buf, const struct strict_item *item)
{
    ASSERT(item->count >= 1 && item->count <= LIMIT_COUNT);
    ASSERT(item->key_len <= LIMIT_KEY_BYTES);
    buf_put_str16(buf, item->name, item->name_len);
    buf_put_str16(buf, item->key, item->key_len);
    buf_put_u32(buf, item->count);
}

static bool read_item(struct reader *reader, struct strict_item *ret_item)
{
    ret_item->name = read_name(reader, &ret_item->name_len);
    ret_item->key = read_name(reader, &ret_item->key_len);
    ret_item->count = reader_u32(reader);
    if (ret_item->key_len > LIMIT_KEY_BYTES || ret_item->count < 1 ||
        ret_item->count > LIMIT_COUNT) {
        reader->bad = true;
    }
    return !reader->bad;
}

/* The next item of a list; false after the last. */
static bool read_next(struct reader *reader, struct strict_item *ret_item)
{
    return command_item_begins(reader) && read_item(reader, ret_item);
}

static bool read_give_back(struct reader *reader, struct give_back_item *ret_item)
{
    if (!command_item_begins(reader)) {
        return false;
    }
    ret_item->name = read_name(reader, &ret_item->name_len);
    ret_item->generation = reader_u32(reader);
    ret_item->first = reader_u64(reader);
    ret_item->end = reader_u64(reader);
    if (ret_item->first >= ret_item->end || ret_item->end > TAG_MAX_ID_END) {
        reader->bad = true;
    }
    return !reader->bad;
}

static bool read_recalled(struct reader *reader, struct recalled_item *ret_item)
{
    if (!command_item_begins(reader)) {
        return false;
    }
    ret_item->name = read_name(reader, &ret_item->name_len);
    ret_item->generation = reader_u32(reader);
    return !reader->bad;
}

static const char *read_name(struct reader *reader, uint16_t *ret_len)
{
    size_t len;
    const uint8_t *name = reader_str16(reader, &len);

    *ret_len = (uint16_t)len;
    return (const char *)name;
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
