/*
 * worker_command.c - the bytes of the commands on worker ids, on the layout and on the log's time:
 * written by their proposers (worker.h), taken apart for the state machine (command_read.h).
 *
 * The happy path: encode into an empty buffer; on the other side the read function of the type
 * reads every field and requires that nothing is left over.
 *
 * Failure modes: reading gives ERR_BAD_MESSAGE. Only the form counts here; what the values may be
 * is the state machine's to judge. Encoding cannot fail. Thread: pure functions, any.
 */
#include "src/base/assert.h"
#include "src/id/codec/command_bytes.h"
#include "src/id/codec/command_read.h"

void command_worker_acquire_encode(struct buf *buf, const struct worker_acquire *acquire)
{
    command_head_put(buf, COMMAND_WORKER_ACQUIRE);
    buf_put_u8(buf, acquire->kind);
    buf_put_u16(buf, acquire->worker_id);
    buf_put_u64(buf, acquire->floor_ms);
    buf_put_u64(buf, acquire->window_ms);
    buf_put_u64(buf, acquire->wall_ms);
    buf_put_str16(buf, acquire->name, acquire->name_len);
    buf_put_str16(buf, acquire->address, acquire->address_len);
}

void command_worker_renew_encode(struct buf *buf, const struct worker_renew *renew)
{
    command_head_put(buf, COMMAND_WORKER_RENEW);
    buf_put_u16(buf, renew->worker_id);
    buf_put_u64(buf, renew->epoch);
    buf_put_u64(buf, renew->expected_until_ms);
    buf_put_u64(buf, renew->window_ms);
    buf_put_u64(buf, renew->last_timestamp_ms);
    buf_put_u64(buf, renew->wall_ms);
    buf_put_u8(buf, renew->kind);
}

void command_worker_release_encode(struct buf *buf, const struct worker_release *release)
{
    command_head_put(buf, COMMAND_WORKER_RELEASE);
    buf_put_u16(buf, release->worker_id);
    buf_put_u64(buf, release->epoch);
    buf_put_u64(buf, release->last_timestamp_ms);
    buf_put_u8(buf, release->kind);
}

void command_layout_encode(struct buf *buf, const struct snowflake_layout *layout)
{
    command_head_put(buf, COMMAND_LAYOUT);
    buf_put_u64(buf, layout->epoch_ms);
    buf_put_u8(buf, layout->time_bits);
    buf_put_u8(buf, layout->worker_bits);
    buf_put_u8(buf, layout->sequence_bits);
}

void command_clock_encode(struct buf *buf, uint64_t cluster_ms)
{
    command_head_put(buf, COMMAND_CLOCK);
    buf_put_u64(buf, cluster_ms);
}

void query_workers_encode(struct buf *buf, uint16_t first, uint16_t limit)
{
    message_head_put(buf, QUERY_BASE + QUERY_WORKERS);
    buf_put_u16(buf, first);
    buf_put_u16(buf, limit);
}

int worker_acquire_command_read(const void *data, size_t len, struct worker_acquire *ret_acquire)
{
    struct reader reader;
    struct worker_acquire acquire = {0};
    size_t name_len;
    size_t address_len;

    if (!command_head_read(&reader, data, len, COMMAND_WORKER_ACQUIRE)) {
        return ERR_BAD_MESSAGE;
    }
    acquire.kind = reader_u8(&reader);
    acquire.worker_id = reader_u16(&reader);
    acquire.floor_ms = reader_u64(&reader);
    acquire.window_ms = reader_u64(&reader);
    acquire.wall_ms = reader_u64(&reader);
    acquire.name = (const char *)reader_str16(&reader, &name_len);
    acquire.address = (const char *)reader_str16(&reader, &address_len);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    acquire.name_len = (uint16_t)name_len;
    acquire.address_len = (uint16_t)address_len;
    *ret_acquire = acquire;
    return 0;
}

int worker_renew_command_read(const void *data, size_t len, struct worker_renew *ret_renew)
{
    struct reader reader;
    struct worker_renew renew = {0};

    if (!command_head_read(&reader, data, len, COMMAND_WORKER_RENEW)) {
        return ERR_BAD_MESSAGE;
    }
    renew.worker_id = reader_u16(&reader);
    renew.epoch = reader_u64(&reader);
    renew.expected_until_ms = reader_u64(&reader);
    renew.window_ms = reader_u64(&reader);
    renew.last_timestamp_ms = reader_u64(&reader);
    renew.wall_ms = reader_u64(&reader);
    renew.kind = reader_u8(&reader);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_renew = renew;
    return 0;
}

int worker_release_command_read(const void *data, size_t len, struct worker_release *ret_release)
{
    struct reader reader;
    struct worker_release release = {0};

    if (!command_head_read(&reader, data, len, COMMAND_WORKER_RELEASE)) {
        return ERR_BAD_MESSAGE;
    }
    release.worker_id = reader_u16(&reader);
    release.epoch = reader_u64(&reader);
    release.last_timestamp_ms = reader_u64(&reader);
    release.kind = reader_u8(&reader);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_release = release;
    return 0;
}

int layout_command_read(const void *data, size_t len, struct snowflake_layout *ret_layout)
{
    struct reader reader;
    struct snowflake_layout layout = {0};

    if (!command_head_read(&reader, data, len, COMMAND_LAYOUT)) {
        return ERR_BAD_MESSAGE;
    }
    layout.epoch_ms = reader_u64(&reader);
    layout.time_bits = reader_u8(&reader);
    layout.worker_bits = reader_u8(&reader);
    layout.sequence_bits = reader_u8(&reader);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_layout = layout;
    return 0;
}

int clock_command_read(const void *data, size_t len, uint64_t *ret_cluster_ms)
{
    struct reader reader;
    uint64_t cluster_ms;

    if (!command_head_read(&reader, data, len, COMMAND_CLOCK)) {
        return ERR_BAD_MESSAGE;
    }
    cluster_ms = reader_u64(&reader);
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_cluster_ms = cluster_ms;
    return 0;
}
