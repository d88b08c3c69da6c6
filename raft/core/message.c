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

#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/base/fields.h"
#include "src/base/limits.h"

#define ENTRY_HEAD_BYTES (8 + 1 + 4)

/* --- the fields of each message, version and term first, for each member of the union --- */

#define BEGINS_ALIKE(type)                                                                         \
    _Static_assert(offsetof(struct type, version) == 0 &&                                          \
                       offsetof(struct type, term) == offsetof(struct raft_append_entries, term),  \
                   "version and term of " #type)
BEGINS_ALIKE(raft_append_entries_result);
BEGINS_ALIKE(raft_request_vote);
BEGINS_ALIKE(raft_request_vote_result);
BEGINS_ALIKE(raft_install_snapshot);
BEGINS_ALIKE(raft_timeout_now);

static const struct field append_fields[] = {
    FIELD_NUMBER(struct raft_append_entries, version),
    FIELD_NUMBER(struct raft_append_entries, term),
    FIELD_NUMBER(struct raft_append_entries, prev_log_index),
    FIELD_NUMBER(struct raft_append_entries, prev_log_term),
    FIELD_NUMBER(struct raft_append_entries, leader_commit),
    FIELD_NUMBER(struct raft_append_entries, n_entries),
};

static const struct field append_result_fields[] = {
    FIELD_NUMBER(struct raft_append_entries_result, version),
    FIELD_NUMBER(struct raft_append_entries_result, term),
    FIELD_NUMBER(struct raft_append_entries_result, rejected),
    FIELD_NUMBER(struct raft_append_entries_result, last_log_index),
    FIELD_NUMBER(struct raft_append_entries_result, features),
    FIELD_NUMBER(struct raft_append_entries_result, capacity),
};

static const struct field vote_fields[] = {
    FIELD_NUMBER(struct raft_request_vote, version),
    FIELD_NUMBER(struct raft_request_vote, term),
    FIELD_NUMBER(struct raft_request_vote, candidate_id),
    FIELD_NUMBER(struct raft_request_vote, last_log_index),
    FIELD_NUMBER(struct raft_request_vote, last_log_term),
    FIELD_BOOL(struct raft_request_vote, disrupt_leader),
    FIELD_BOOL(struct raft_request_vote, pre_vote),
};

static const struct field vote_result_fields[] = {
    FIELD_NUMBER(struct raft_request_vote_result, version),
    FIELD_NUMBER(struct raft_request_vote_result, term),
    FIELD_BOOL(struct raft_request_vote_result, vote_granted),
    FIELD_BOOL(struct raft_request_vote_result, pre_vote),
    FIELD_NUMBER(struct raft_request_vote_result, features),
    FIELD_NUMBER(struct raft_request_vote_result, capacity),
};

static const struct field install_fields[] = {
    FIELD_NUMBER(struct raft_install_snapshot, version),
    FIELD_NUMBER(struct raft_install_snapshot, term),
    FIELD_NUMBER(struct raft_install_snapshot, last_index),
    FIELD_NUMBER(struct raft_install_snapshot, last_term),
    FIELD_NUMBER(struct raft_install_snapshot, conf_index),
};

static const struct field timeout_now_fields[] = {
    FIELD_NUMBER(struct raft_timeout_now, version),
    FIELD_NUMBER(struct raft_timeout_now, term),
    FIELD_NUMBER(struct raft_timeout_now, last_log_index),
    FIELD_NUMBER(struct raft_timeout_now, last_log_term),
};

/* The versions are those of this library's messages. For a lower one it skips checks: a pre-vote
 * would count as a vote. */
static const struct format {
    unsigned char version;
    struct fields fields;
} formats[] = {
    [RAFT_APPEND_ENTRIES] = {0, FIELDS(append_fields)},
    [RAFT_APPEND_ENTRIES_RESULT] = {2, FIELDS(append_result_fields)},
    [RAFT_REQUEST_VOTE] = {2, FIELDS(vote_fields)},
    [RAFT_REQUEST_VOTE_RESULT] = {2, FIELDS(vote_result_fields)},
    [RAFT_INSTALL_SNAPSHOT] = {0, FIELDS(install_fields)},
    [RAFT_TIMEOUT_NOW] = {0, FIELDS(timeout_now_fields)},
};

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

/* Marks the reader as bad when a value breaks its rule, so that a decoder reads all fields and
 * checks once, with reader_done(), whether the message is valid. */
static void require(struct reader *reader, bool condition)
{
    if (!condition) {
        reader->bad = true;
    }
}

/* --- by type --- */

/* The buffers of the entries point into the reader's data. */
static void read_entries(struct reader *reader, struct raft_append_entries *append)
{
    uint64_t term;

    require(reader, (append->prev_log_index == 0) == (append->prev_log_term == 0));
    require(reader, append->prev_log_term <= append->term);
    require(reader, append->n_entries <= LIMIT_ENTRIES_PER_FRAME);
    require(reader, append->prev_log_index + append->n_entries < WIRE_NUMBER_BOUND);
    require(reader, append->n_entries <= reader_left(reader) / ENTRY_HEAD_BYTES);
    if (reader->bad || append->n_entries == 0) {
        return;
    }
    append->entries = MUST_HAVE(calloc(append->n_entries, sizeof *append->entries));
    term = append->prev_log_term;
    for (unsigned i = 0; i < append->n_entries && !reader->bad; i++) {
        struct raft_entry *entry = &append->entries[i];
        const uint8_t *data;
        uint8_t type;

        entry->term = reader_u64(reader);
        type = reader_u8(reader);
        data = reader_str32(reader, &entry->buf.len);
        entry->type = (enum raft_entry_type)type;
        entry->buf.base = (void *)(uintptr_t)data;
        require(reader, type >= RAFT_COMMAND && type <= RAFT_CHANGE);
        require(reader, entry->buf.len <= LIMIT_ENTRY_BYTES);
        require(reader, entry->term > 0 && entry->term >= term && entry->term <= append->term);
        term = entry->term;
        if (!reader->bad && type == RAFT_CHANGE) {
            require(reader, configuration_check(data, entry->buf.len) == 0);
        }
    }
    if (!reader_done(reader)) {
        free(append->entries);
        append->entries = NULL;
        reader->bad = true;
    }
}

static void read_install(struct reader *reader, struct raft_install_snapshot *install,
                         uint64_t *ret_transfer)
{
    const uint8_t *conf;
    size_t len;

    *ret_transfer = reader_u64(reader);
    conf = reader_str32(reader, &len);
    require(reader, install->last_index > 0 && install->last_term > 0 && install->conf_index > 0);
    require(reader, install->last_term <= install->term);
    require(reader, install->conf_index <= install->last_index);
    raft_configuration_init(&install->conf);
    if (!reader_done(reader) || message_conf_decode(conf, len, &install->conf) != 0) {
        reader->bad = true;
    }
}

/* --- whole messages --- */

void message_encode(const struct raft_message *message, uint64_t transfer, struct buf *buf)
{
    const struct raft_append_entries *append = &message->append_entries;
    const struct raft_configuration *members = &message->install_snapshot.conf;
    uint64_t term = message_term(message);
    size_t bytes = 0;
    BUF_LOCAL(conf);

    ASSERT(term > 0 && term < WIRE_NUMBER_BOUND);
    buf_put_u8(buf, (uint8_t)message->type);
    fields_put(buf, &formats[message->type].fields, &message->append_entries);
    if (message->type == RAFT_APPEND_ENTRIES) {
        ASSERT(append->n_entries <= LIMIT_ENTRIES_PER_FRAME);
        ASSERT((append->prev_log_index == 0) == (append->prev_log_term == 0));
        for (unsigned i = 0; i < append->n_entries; i++) {
            bytes += ENTRY_HEAD_BYTES;
            bytes += append->entries[i].buf.base != NULL ? append->entries[i].buf.len : 0;
        }
        buf_reserve(buf, bytes); /* once, instead of repeated doubling */
        for (unsigned i = 0; i < append->n_entries; i++) {
            const struct raft_entry *entry = &append->entries[i];

            ASSERT(entry->buf.len <= LIMIT_ENTRY_BYTES);
            buf_put_u64(buf, entry->term);
            buf_put_u8(buf, (uint8_t)entry->type);
            ASSERT(entry->buf.base != NULL || entry->buf.len == 0 || i + 1 == append->n_entries);
            buf_put_u32(buf, (uint32_t)entry->buf.len);
            buf_put(buf, entry->buf.base, entry->buf.base != NULL ? entry->buf.len : 0);
        }
    } else if (message->type == RAFT_INSTALL_SNAPSHOT) {
        ASSERT(members->n > 0 && members->n <= LIMIT_NODES);
        message_conf_encode(members, &conf);
        buf_put_u64(buf, transfer);
        buf_put_str32(buf, conf.data, conf.len);
    }
}

int message_decode(const void *data, size_t len, struct raft_message *ret_message,
                   uint64_t *ret_transfer)
{
    const struct format *format;
    struct raft_message message;
    struct reader reader;
    uint64_t transfer = 0;
    uint8_t type;

    memset(&message, 0, sizeof message);
    reader_init(&reader, data, len);
    type = reader_u8(&reader);
    if (type < RAFT_APPEND_ENTRIES || type > RAFT_TIMEOUT_NOW) {
        return ERR_BAD_MESSAGE;
    }
    message.type = (enum raft_message_type)type;
    format = &formats[type];
    require(&reader, fields_read(&reader, &format->fields, &message.append_entries));
    require(&reader, message.append_entries.version == format->version);
    require(&reader, message_term(&message) > 0);
    /* Terms and indexes are below the bound, and so is the id of a candidate. */
    for (size_t i = 0; i < format->fields.count; i++) {
        const struct field *field = &format->fields.items[i];
        uint64_t number;

        if (field->size == sizeof number) {
            memcpy(&number, (const char *)&message.append_entries + field->at, sizeof number);
            require(&reader, number < WIRE_NUMBER_BOUND);
        }
    }
    switch (message.type) {
    case RAFT_APPEND_ENTRIES:
        read_entries(&reader, &message.append_entries);
        break;
    case RAFT_INSTALL_SNAPSHOT:
        read_install(&reader, &message.install_snapshot, &transfer);
        break;
    case RAFT_REQUEST_VOTE:
        require(&reader, message.request_vote.candidate_id >= 1 &&
                             message.request_vote.candidate_id <= LIMIT_NODE_ID);
        require(&reader, message.request_vote.last_log_term <= message.request_vote.term);
        break;
    case RAFT_TIMEOUT_NOW:
        require(&reader, message.timeout_now.last_log_term <= message.timeout_now.term);
        break;
    default:
        break;
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

/* --- queries --- */

uint64_t message_term(const struct raft_message *message)
{
    return message->append_entries.term;
}

bool message_is_of_leader(const struct raft_message *message)
{
    return message->type == RAFT_APPEND_ENTRIES || message->type == RAFT_INSTALL_SNAPSHOT;
}
