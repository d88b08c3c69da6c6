/*
 * message.c - see message.h.
 *
 *   every message       u8 type, u8 version of the message, u64 term, then by type:
 *   APPEND_ENTRIES      u64 prev index, u64 prev term, u64 leader commit, u32 count,
 *                       count times {u64 term, u8 type, u32 length, data}
 *   APPEND_ENTRIES_RESULT  u64 rejected, u64 last index, u16 features, u16 capacity
 *   REQUEST_VOTE        u64 candidate id, u64 last index, u64 last term, u8 disrupt, u8 pre-vote
 *   REQUEST_VOTE_RESULT u8 granted, u8 pre-vote, u16 features, u16 capacity
 *   INSTALL_SNAPSHOT    u64 last index, u64 last term, u64 configuration index, u64 transfer,
 *                       u32 length, configuration as the core encodes it
 *   TIMEOUT_NOW         u64 last index, u64 last term
 *
 * Entries are not copied: there are no more of them than the payload has room for, and they point
 * into it.
 */
#include "raft/core/message.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "raft/wire/configuration.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/base/limits.h"

#define ENTRY_HEAD_BYTES (8 + 1 + 4)

/* Every message begins with its version and its term, whichever of the union it is. */
#define BEGINS_ALIKE(type)                                                                         \
    _Static_assert(offsetof(struct raft_##type, version) == 0 &&                                   \
                       offsetof(struct raft_##type, term) ==                                       \
                           offsetof(struct raft_append_entries, term),                             \
                   "version and term of raft_" #type)
BEGINS_ALIKE(append_entries);
BEGINS_ALIKE(append_entries_result);
BEGINS_ALIKE(request_vote);
BEGINS_ALIKE(request_vote_result);
BEGINS_ALIKE(install_snapshot);
BEGINS_ALIKE(timeout_now);

/* The versions of this library's messages. Of a lower one it skips checks: a pre-vote would
 * count as a vote. */
static unsigned char version_of(enum raft_message_type type)
{
    switch (type) {
    case RAFT_APPEND_ENTRIES_RESULT:
    case RAFT_REQUEST_VOTE:
    case RAFT_REQUEST_VOTE_RESULT:
        return 2;
    default:
        return 0;
    }
}

void message_conf_encode(const struct raft_configuration *configuration, struct buf *buf)
{
    struct raft_buffer encoded;

    ASSERT(raft_configuration_encode(configuration, &encoded) == 0);
    buf_put(buf, encoded.base, encoded.len);
    raft_free(encoded.base);
}

int message_conf_decode(const void *data, size_t len, struct raft_configuration *ret_configuration)
{
    struct raft_buffer encoded = {(void *)(uintptr_t)data, len};

    if (configuration_check(data, len) != 0 ||
        raft_configuration_decode(&encoded, ret_configuration) != 0) {
        return ERR_CORRUPT;
    }
    return 0;
}

/* --- readers: each marks the reader as bad when the value breaks its rule, so that a decoder reads
 * all fields and asks once, with reader_done(), whether the message stands --- */

static void require(struct reader *reader, bool condition)
{
    if (!condition) {
        reader->bad = true;
    }
}

/* A byte that is 0 or 1. */
static bool read_bool(struct reader *reader)
{
    uint8_t value = reader_u8(reader);

    require(reader, value <= 1);
    return value == 1;
}

/* An index: below the bound. */
static uint64_t read_index(struct reader *reader)
{
    uint64_t value = reader_u64(reader);

    require(reader, value < WIRE_NUMBER_BOUND);
    return value;
}

/* A term that is in force: not 0. */
static uint64_t read_term(struct reader *reader)
{
    uint64_t value = read_index(reader);

    require(reader, value > 0);
    return value;
}

/* A byte string (u32 length before it) of at most max bytes, borrowed from the reader. */
static const uint8_t *read_bytes(struct reader *reader, size_t max, size_t *ret_len)
{
    const uint8_t *data = reader_str32(reader, ret_len);

    require(reader, *ret_len <= max);
    return data;
}

/* --- by type --- */

static void encode_append(const struct raft_append_entries *append, struct buf *buf)
{
    ASSERT(append->n_entries <= LIMIT_ENTRIES_PER_FRAME);
    ASSERT((append->prev_log_index == 0) == (append->prev_log_term == 0));
    buf_put_u64(buf, append->prev_log_index);
    buf_put_u64(buf, append->prev_log_term);
    buf_put_u64(buf, append->leader_commit);
    buf_put_u32(buf, append->n_entries);
    for (unsigned i = 0; i < append->n_entries; i++) {
        const struct raft_entry *entry = &append->entries[i];

        ASSERT(entry->buf.len <= LIMIT_ENTRY_BYTES);
        buf_put_u64(buf, entry->term);
        buf_put_u8(buf, (uint8_t)entry->type);
        buf_put_str32(buf, entry->buf.base, entry->buf.len);
    }
}

static void encode_install(const struct raft_install_snapshot *install, uint64_t transfer,
                           struct buf *buf)
{
    struct buf conf = BUF_INIT;

    ASSERT(install->conf.n > 0 && install->conf.n <= LIMIT_NODES);
    message_conf_encode(&install->conf, &conf);
    buf_put_u64(buf, install->last_index);
    buf_put_u64(buf, install->last_term);
    buf_put_u64(buf, install->conf_index);
    buf_put_u64(buf, transfer);
    buf_put_str32(buf, conf.data, conf.len);
    buf_free(&conf);
}

/* Read one entry, into zeros; its buffer points into the reader's data. */
static void read_entry(struct reader *reader, struct raft_entry *ret_entry)
{
    const uint8_t *data;
    uint8_t type;
    size_t len;

    ret_entry->term = read_term(reader);
    type = reader_u8(reader);
    data = read_bytes(reader, LIMIT_ENTRY_BYTES, &len);
    require(reader, type >= RAFT_COMMAND && type <= RAFT_CHANGE);
    if (reader->bad) {
        return;
    }
    require(reader, type != RAFT_CHANGE || configuration_check(data, len) == 0);
    ret_entry->type = (enum raft_entry_type)type;
    ret_entry->buf.len = len;
    ret_entry->buf.base = (void *)(uintptr_t)data;
}

static void read_append(struct reader *reader, struct raft_append_entries *append)
{
    uint64_t term;

    append->prev_log_index = read_index(reader);
    append->prev_log_term = read_index(reader);
    append->leader_commit = read_index(reader);
    append->n_entries = reader_u32(reader);
    require(reader, (append->prev_log_index == 0) == (append->prev_log_term == 0));
    require(reader, append->prev_log_term <= append->term);
    require(reader, append->n_entries <= LIMIT_ENTRIES_PER_FRAME);
    require(reader, append->prev_log_index + append->n_entries < WIRE_NUMBER_BOUND);
    require(reader, append->n_entries <= reader_left(reader) / ENTRY_HEAD_BYTES);
    if (reader->bad || append->n_entries == 0) {
        return;
    }
    append->entries = calloc(append->n_entries, sizeof *append->entries);
    ASSERT(append->entries != NULL);
    term = append->prev_log_term;
    for (unsigned i = 0; i < append->n_entries && !reader->bad; i++) {
        read_entry(reader, &append->entries[i]);
        require(reader, append->entries[i].term >= term);
        require(reader, append->entries[i].term <= append->term);
        term = append->entries[i].term;
    }
    if (!reader_done(reader)) {
        free(append->entries);
        append->entries = NULL;
        reader->bad = true;
    }
}

static void read_append_result(struct reader *reader, struct raft_append_entries_result *result)
{
    result->rejected = read_index(reader);
    result->last_log_index = read_index(reader);
    result->features = reader_u16(reader);
    result->capacity = reader_u16(reader);
}

static void read_vote(struct reader *reader, struct raft_request_vote *vote)
{
    vote->candidate_id = reader_u64(reader);
    vote->last_log_index = read_index(reader);
    vote->last_log_term = read_index(reader);
    vote->disrupt_leader = read_bool(reader);
    vote->pre_vote = read_bool(reader);
    require(reader, vote->candidate_id >= 1 && vote->candidate_id <= LIMIT_NODE_ID);
    require(reader, vote->last_log_term <= vote->term);
}

static void read_vote_result(struct reader *reader, struct raft_request_vote_result *result)
{
    result->vote_granted = read_bool(reader);
    result->pre_vote = read_bool(reader);
    result->features = reader_u16(reader);
    result->capacity = reader_u16(reader);
}

static void read_install(struct reader *reader, struct raft_install_snapshot *install,
                         uint64_t *ret_transfer)
{
    const uint8_t *conf;
    size_t len;

    install->last_index = read_term(reader);
    install->last_term = read_term(reader);
    install->conf_index = read_term(reader);
    *ret_transfer = reader_u64(reader);
    conf = read_bytes(reader, reader_left(reader), &len);
    require(reader, install->last_term <= install->term);
    require(reader, install->conf_index <= install->last_index);
    raft_configuration_init(&install->conf);
    if (!reader_done(reader) || message_conf_decode(conf, len, &install->conf) != 0) {
        reader->bad = true;
    }
}

static void read_timeout_now(struct reader *reader, struct raft_timeout_now *timeout_now)
{
    timeout_now->last_log_index = read_index(reader);
    timeout_now->last_log_term = read_index(reader);
    require(reader, timeout_now->last_log_term <= timeout_now->term);
}

/* --- whole messages --- */

void message_encode(const struct raft_message *message, uint64_t transfer, struct buf *buf)
{
    uint64_t term = message_term(message);

    ASSERT(term > 0 && term < WIRE_NUMBER_BOUND);
    buf_put_u8(buf, (uint8_t)message->type);
    buf_put_u8(buf, message->append_entries.version);
    buf_put_u64(buf, term);
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        encode_append(&message->append_entries, buf);
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        buf_put_u64(buf, message->append_entries_result.rejected);
        buf_put_u64(buf, message->append_entries_result.last_log_index);
        buf_put_u16(buf, message->append_entries_result.features);
        buf_put_u16(buf, message->append_entries_result.capacity);
        break;
    case RAFT_REQUEST_VOTE:
        buf_put_u64(buf, message->request_vote.candidate_id);
        buf_put_u64(buf, message->request_vote.last_log_index);
        buf_put_u64(buf, message->request_vote.last_log_term);
        buf_put_u8(buf, message->request_vote.disrupt_leader ? 1 : 0);
        buf_put_u8(buf, message->request_vote.pre_vote ? 1 : 0);
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        buf_put_u8(buf, message->request_vote_result.vote_granted ? 1 : 0);
        buf_put_u8(buf, message->request_vote_result.pre_vote ? 1 : 0);
        buf_put_u16(buf, message->request_vote_result.features);
        buf_put_u16(buf, message->request_vote_result.capacity);
        break;
    case RAFT_INSTALL_SNAPSHOT:
        encode_install(&message->install_snapshot, transfer, buf);
        break;
    case RAFT_TIMEOUT_NOW:
        buf_put_u64(buf, message->timeout_now.last_log_index);
        buf_put_u64(buf, message->timeout_now.last_log_term);
        break;
    }
}

int message_decode(const void *data, size_t len, struct raft_message *ret_message,
                   uint64_t *ret_transfer)
{
    struct raft_message message;
    struct reader reader;
    uint64_t transfer = 0;

    memset(&message, 0, sizeof message);
    reader_init(&reader, data, len);
    message.type = (enum raft_message_type)reader_u8(&reader);
    message.append_entries.version = reader_u8(&reader);
    message.append_entries.term = read_term(&reader);
    if (reader.bad || message.append_entries.version != version_of(message.type)) {
        return ERR_BAD_MESSAGE;
    }
    switch (message.type) {
    case RAFT_APPEND_ENTRIES:
        read_append(&reader, &message.append_entries);
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        read_append_result(&reader, &message.append_entries_result);
        break;
    case RAFT_REQUEST_VOTE:
        read_vote(&reader, &message.request_vote);
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        read_vote_result(&reader, &message.request_vote_result);
        break;
    case RAFT_INSTALL_SNAPSHOT:
        read_install(&reader, &message.install_snapshot, &transfer);
        break;
    case RAFT_TIMEOUT_NOW:
        read_timeout_now(&reader, &message.timeout_now);
        break;
    default:
        return ERR_BAD_MESSAGE;
    }
    if (!reader_done(&reader)) {
        return ERR_BAD_MESSAGE;
    }
    *ret_message = message;
    *ret_transfer = transfer;
    return 0;
}

void message_release(struct raft_message *message)
{
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        free(message->append_entries.entries);
        message->append_entries.entries = NULL;
        message->append_entries.n_entries = 0;
        break;
    case RAFT_INSTALL_SNAPSHOT:
        raft_configuration_close(&message->install_snapshot.conf);
        raft_configuration_init(&message->install_snapshot.conf);
        break;
    default:
        break;
    }
}

/* --- what they say --- */

uint64_t message_term(const struct raft_message *message)
{
    return message->append_entries.term;
}

uint64_t message_senders_term(const struct raft_message *message)
{
    switch (message->type) {
    case RAFT_REQUEST_VOTE:
        return message->request_vote.pre_vote ? 0 : message->request_vote.term;
    case RAFT_REQUEST_VOTE_RESULT:
        return message->request_vote_result.pre_vote ? 0 : message->request_vote_result.term;
    case RAFT_TIMEOUT_NOW:
        return 0;
    default:
        return message_term(message);
    }
}

bool message_is_of_leader(const struct raft_message *message)
{
    return message->type == RAFT_APPEND_ENTRIES || message->type == RAFT_INSTALL_SNAPSHOT;
}
