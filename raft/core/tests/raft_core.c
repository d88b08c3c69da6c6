/*
 * raft_core.c - see raft_core.h. Thread: the test's.
 */
#include "raft/core/tests/raft_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/codec/command.h"

const int THREE_VOTERS[3] = {RAFT_VOTER, RAFT_VOTER, RAFT_VOTER};

void conf_of_roles(const int *roles, unsigned n, struct buf *buf)
{
    struct raft_configuration conf;
    struct raft_buffer encoded;

    raft_configuration_init(&conf);
    for (unsigned i = 0; i < n; i++) {
        char address[16];

        snprintf(address, sizeof address, "s%u", i + 1);
        ASSERT(raft_configuration_add(&conf, i + 1, address, roles[i]) == 0);
    }
    ASSERT(raft_configuration_encode(&conf, &encoded) == 0);
    buf_put(buf, encoded.base, encoded.len);
    raft_free(encoded.base);
    raft_configuration_close(&conf);
}

struct raft_configuration conf_decoded(const struct buf *buf)
{
    struct raft_buffer encoded = {buf->data, buf->len};
    struct raft_configuration conf;

    ASSERT(raft_configuration_decode(&encoded, &conf) == 0);
    return conf;
}

struct raft_entry entry_of(raft_term term, const struct buf *conf)
{
    struct raft_entry entry = {
        term, RAFT_COMMAND, {(void *)(uintptr_t)NOOP_BYTES, sizeof NOOP_BYTES}, NULL};

    if (conf != NULL) {
        entry.type = RAFT_CHANGE;
        entry.buf.base = conf->data;
        entry.buf.len = conf->len;
    }
    return entry;
}

static struct raft_message message_of(enum raft_message_type type, raft_id from)
{
    struct raft_message message;

    memset(&message, 0, sizeof message);
    message.type = type;
    message.server_id = from;
    message.server_address = "peer";
    return message;
}

struct raft_message append_of(raft_id from, raft_term term, raft_index prev, raft_term prev_term,
                              raft_index commit, struct raft_entry *entries, unsigned n)
{
    struct raft_message message = message_of(RAFT_APPEND_ENTRIES, from);

    message.append_entries =
        (struct raft_append_entries){0, term, prev, prev_term, commit, entries, n};
    return message;
}

struct raft_message append_result_of(raft_id from, raft_term term, raft_index rejected,
                                     raft_index last)
{
    struct raft_message message = message_of(RAFT_APPEND_ENTRIES_RESULT, from);

    message.append_entries_result =
        (struct raft_append_entries_result){2, term, rejected, last, 0, 0};
    return message;
}

struct raft_message vote_of(raft_id from, raft_term term, raft_index last, raft_term last_term,
                            bool pre_vote)
{
    struct raft_message message = message_of(RAFT_REQUEST_VOTE, from);

    message.request_vote =
        (struct raft_request_vote){2, term, from, last, last_term, false, pre_vote};
    return message;
}

struct raft_message vote_result_of(raft_id from, raft_term term, bool granted, bool pre_vote)
{
    struct raft_message message = message_of(RAFT_REQUEST_VOTE_RESULT, from);

    message.request_vote_result =
        (struct raft_request_vote_result){2, term, granted, pre_vote, 0, 0};
    return message;
}

struct raft_message head_of(raft_id from, raft_term term, raft_index index, raft_term last_term)
{
    struct raft_message message = message_of(RAFT_INSTALL_SNAPSHOT, from);
    struct buf conf = BUF_INIT;

    conf_of_roles(THREE_VOTERS, 3, &conf);
    message.install_snapshot.term = term;
    message.install_snapshot.last_index = index;
    message.install_snapshot.last_term = last_term;
    message.install_snapshot.conf_index = 1;
    message.install_snapshot.conf = conf_decoded(&conf);
    buf_free(&conf);
    return message;
}

/* --- the core --- */

/* Entries first..last as a start wants them. */
static struct raft_entry *boot_entries(const struct boot *boot, const struct buf *conf,
                                       uint64_t first, unsigned n)
{
    struct raft_entry *entries = calloc(n + 1, sizeof *entries);

    ASSERT(entries != NULL);
    for (unsigned i = 0; i < n; i++) {
        bool change = first + i == 1;
        const struct raft_entry from = change ? entry_of(1, conf) : entry_of(boot->last_term, NULL);

        entries[i] = from;
        entries[i].batch = raft_malloc(from.buf.len);
        ASSERT(entries[i].batch != NULL);
        memcpy(entries[i].batch, from.buf.base, from.buf.len);
        entries[i].buf.base = entries[i].batch;
    }
    return entries;
}

void core_start(struct core *core, const struct boot *boot)
{
    struct raft_snapshot_metadata metadata = {0};
    struct raft_event event = {0};
    struct buf conf = BUF_INIT;
    char address[16];

    memset(core, 0, sizeof *core);
    core->now = BOOT_MS;
    conf_of_roles(boot->roles, boot->servers, &conf);
    snprintf(address, sizeof address, "s%u", (unsigned)boot->id);
    ASSERT(raft_init(&core->raft, NULL, NULL, boot->id, address) == 0);
    raft_seed(&core->raft, (unsigned)boot->id);
    core->raft.tracer = NULL;
    raft_set_election_timeout(&core->raft, BOOT_ELECTION_MS);
    raft_set_heartbeat_timeout(&core->raft, BOOT_HEARTBEAT_MS);
    event.type = RAFT_START;
    event.start.term = boot->term;
    event.start.voted_for = boot->vote;
    event.start.start_index = boot->first > 0 ? boot->first : 1;
    if (boot->applied > 0) {
        metadata.index = boot->applied;
        metadata.term = boot->applied == 1 ? 1 : boot->last_term;
        metadata.configuration = conf_decoded(&conf);
        metadata.configuration_index = 1;
        event.start.metadata = &metadata;
    }
    event.start.n_entries = (unsigned)(boot->last + 1 - event.start.start_index);
    event.start.entries = boot_entries(boot, &conf, event.start.start_index, event.start.n_entries);
    ASSERT(core_step(core, &event) == 0);
    for (unsigned i = 0; i < event.start.n_entries; i++) {
        raft_free(event.start.entries[i].batch);
    }
    free(event.start.entries);
    buf_free(&conf);
}

void core_close(struct core *core)
{
    raft_close(&core->raft, NULL);
}

int core_step(struct core *core, struct raft_event *event)
{
    int rv;

    memset(&core->update, 0, sizeof core->update);
    event->time = core->now;
    rv = raft_step(&core->raft, event, &core->update);
    if (rv == 0 && (core->update.flags & (unsigned)(RAFT_UPDATE_ENTRIES))) {
        raft_free(core->update.entries.batch[0].batch);
    }
    return rv;
}

int core_receive(struct core *core, const struct raft_message *message)
{
    struct raft_message copy = *message;
    struct raft_event event = {0};
    struct raft_entry entries[16];
    unsigned n = message->type == RAFT_APPEND_ENTRIES ? message->append_entries.n_entries : 0;
    size_t at = 0;
    uint8_t *batch;

    ASSERT(n <= 16);
    if (n > 0) {
        batch = raft_malloc(4096);
        ASSERT(batch != NULL);
        copy.append_entries.entries = entries;
        for (unsigned i = 0; i < n; i++) {
            entries[i] = message->append_entries.entries[i];
            ASSERT(at + entries[i].buf.len <= 4096);
            memcpy(batch + at, entries[i].buf.base, entries[i].buf.len);
            entries[i].buf.base = batch + at;
            entries[i].batch = batch;
            at += (entries[i].buf.len + 7) & ~(size_t)7;
        }
    }
    event.type = RAFT_RECEIVE;
    event.receive.message = &copy;
    return core_step(core, &event);
}

int core_persisted(struct core *core, raft_index index)
{
    struct raft_event event = {0};

    event.type = RAFT_PERSISTED_ENTRIES;
    event.persisted_entries.index = index;
    return core_step(core, &event);
}

int core_configuration(struct core *core, raft_index index, const struct buf *conf)
{
    struct raft_event event = {0};

    event.type = RAFT_CONFIGURATION;
    event.configuration.index = index;
    event.configuration.conf = conf_decoded(conf);
    return core_step(core, &event);
}

int core_submit(struct core *core, const struct buf *conf)
{
    struct raft_entry entry = entry_of(raft_current_term(&core->raft), conf);
    struct raft_event event = {0};
    int rv;

    entry.batch = raft_malloc(entry.buf.len);
    ASSERT(entry.batch != NULL);
    memcpy(entry.batch, entry.buf.base, entry.buf.len);
    entry.buf.base = entry.batch;
    event.type = RAFT_SUBMIT;
    event.submit.entries = &entry;
    event.submit.n = 1;
    rv = core_step(core, &event);
    if (rv != 0) {
        raft_free(entry.batch);
    }
    return rv;
}

int core_timeout(struct core *core)
{
    struct raft_event event = {0};

    if (raft_timeout(&core->raft) > core->now) {
        core->now = raft_timeout(&core->raft);
    }
    event.type = RAFT_TIMEOUT;
    return core_step(core, &event);
}

void core_elect(struct core *core)
{
    struct raft_message vote;

    ASSERT(core_timeout(core) == 0 && raft_state(&core->raft) == RAFT_CANDIDATE);
    vote = vote_result_of(2, raft_current_term(&core->raft), true, false);
    ASSERT(core_receive(core, &vote) == 0 && raft_state(&core->raft) == RAFT_LEADER);
}

const struct raft_message *core_sent(const struct core *core, enum raft_message_type type)
{
    for (unsigned i = 0; i < core->update.messages.n; i++) {
        if (core->update.messages.batch[i].type == type) {
            return &core->update.messages.batch[i];
        }
    }
    return NULL;
}
