/*
 * driver.c - start, submit, receive, transfer: the driver's public face (driver.h), but for what
 * comes before the first start, which is in driver_prepare.c.
 *
 * Thread: the raft loop.
 */
#include "raft/core/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/driver_internal.h"
#include "raft/core/guard.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"

void driver_encode_configuration(const struct raft_configuration *configuration, struct buf *buf)
{
    struct raft_buffer encoded;

    ASSERT(raft_configuration_encode(configuration, &encoded) == 0);
    buf_put(buf, encoded.base, encoded.len);
    raft_free(encoded.base);
}

int driver_decode_configuration(const void *data, size_t len,
                                struct raft_configuration *ret_configuration)
{
    struct raft_buffer encoded = {(void *)(uintptr_t)data, len};

    if (wire_configuration_check(data, len) != 0 ||
        raft_configuration_decode(&encoded, ret_configuration) != 0) {
        return ERR_CORRUPT;
    }
    return 0;
}

uint64_t driver_term_at(const struct driver *driver, uint64_t index)
{
    const struct log_entry *entry = entry_log_get(&driver->log, index);

    if (entry != NULL) {
        return entry->term;
    }
    return index == driver->applied.index ? driver->applied.term : 0;
}

/* --- start --- */

static void init_core(struct driver *driver)
{
    struct raft *raft = &driver->raft;

    memset(raft, 0, sizeof *raft);
    ASSERT(raft_init(raft, NULL, NULL, driver->config.node_id, driver->config.address) == 0);
    raft_seed(raft, (unsigned)driver->config.seed);
    raft->tracer = NULL;
    raft_set_election_timeout(raft, driver->config.election_ms);
    raft_set_heartbeat_timeout(raft, driver->config.heartbeat_ms);
    raft_set_install_snapshot_timeout(raft, 3 * driver->config.election_ms);
    raft_set_pre_vote(raft, true);
    raft_set_max_inflight_entries(raft, LIMIT_ENTRIES_PER_FRAME);
}

/* The configurations of the log must decode: the core trusts them, and frees entries that it
 * refuses, which are not its own here. */
static bool changes_decode(const struct store_loaded *loaded)
{
    for (size_t i = 0; i < loaded->entry_count; i++) {
        const struct store_entry *entry = &loaded->entries[i];

        if (entry->type == RAFT_CHANGE && wire_configuration_check(entry->data, entry->len) != 0) {
            return false;
        }
    }
    return true;
}

/* Copy the loaded log into the cache (tag 0: on disk already) and into entries for the core. */
static struct raft_entry *copy_log(struct driver *driver, const struct store_loaded *loaded)
{
    struct raft_entry *entries = NULL;

    if (loaded->entry_count > 0) {
        entries = calloc(loaded->entry_count, sizeof *entries);
        ASSERT(entries != NULL);
    }
    for (size_t i = 0; i < loaded->entry_count; i++) {
        const struct store_entry *entry = &loaded->entries[i];
        struct entry_block *block = entry_block_new(entry->data, entry->len);

        entry_log_append(&driver->log, entry->term, entry->type, 0, block);
        entries[i].term = entry->term;
        entries[i].type = (enum raft_entry_type)entry->type;
        entries[i].buf.base = block->data;
        entries[i].buf.len = block->len;
        entries[i].batch = block->data;
    }
    return entries;
}

int driver_start(struct driver *driver, const struct driver_config *config, struct disk *disk,
                 struct net *net, const struct clock *clock, struct fsm *fsm,
                 struct driver_observer *observer, const struct store_loaded *loaded)
{
    const struct store_position *at = &loaded->position;
    struct raft_snapshot_metadata metadata;
    struct raft_event event;
    int rv;

    memset(driver, 0, sizeof *driver);
    driver->config = *config;
    driver->disk = disk;
    driver->net = net;
    driver->clock = clock;
    driver->fsm = fsm;
    driver->observer = observer;
    prng_seed(&driver->prng, config->seed);
    STAILQ_INIT(&driver->held);
    driver->held_since_ms = UINT64_MAX;
    snapshot_init(driver);
    entry_log_init(&driver->log, loaded->first_index);
    driver_position_set(&driver->applied, at->index, at->term, at->conf_index, at->conf,
                        at->conf_len);
    driver_position_set(&driver->durable, at->index, at->term, at->conf_index, at->conf,
                        at->conf_len);
    driver->commit = at->index;
    driver->compacted = at->index;
    plausible_init(&driver->plausible, clock_now_ms(clock));
    rv = changes_decode(loaded) ? driver_peers_start(driver, loaded) : ERR_CORRUPT;
    memset(&event, 0, sizeof event);
    event.type = RAFT_START;
    if (rv == 0 && at->index > 0) {
        rv = driver_metadata(&driver->applied, &metadata);
        event.start.metadata = &metadata;
    }
    if (rv != 0) {
        return rv;
    }
    init_core(driver);
    event.start.term = loaded->term;
    event.start.voted_for = loaded->vote;
    event.start.start_index = loaded->first_index;
    event.start.entries = copy_log(driver, loaded);
    event.start.n_entries = (unsigned)loaded->entry_count;
    driver->persisted = entry_log_last(&driver->log);
    driver->started = true;
    driver_leader_heard(driver);
    (void)driver_step(driver, &event);
    free(event.start.entries);
    return driver->failed ? ERR_CORRUPT : 0;
}

void driver_quiesce(struct driver *driver)
{
    if (!driver->failed) {
        driver_rows_write(driver, false);
    }
    driver->failed = true;
    for (unsigned i = 0; i < LIMIT_NODES; i++) {
        snapshot_link_down(driver, driver->transfers.out[i].peer);
    }
}

bool driver_is_quiet(const struct driver *driver)
{
    return driver->writes_in_flight == 0 && snapshot_reads(driver) == 0;
}

void driver_close(struct driver *driver)
{
    struct held_frame *frame;

    ASSERT(driver_is_quiet(driver));
    driver_rows_drop(driver);
    snapshot_close(driver);
    while ((frame = STAILQ_FIRST(&driver->held)) != NULL) {
        STAILQ_REMOVE_HEAD(&driver->held, link);
        buf_free(&frame->payload);
        free(frame);
    }
    if (driver->started) {
        raft_close(&driver->raft, NULL);
    }
    entry_log_free(&driver->log);
    buf_free(&driver->applied.conf);
    buf_free(&driver->durable.conf);
    driver->started = false;
}

/* --- submit --- */

static void *fill_batch(const struct driver_command *commands, unsigned n, uint64_t term,
                        struct raft_entry *entries)
{
    size_t total = 1;
    size_t at = 0;
    uint8_t *batch;

    for (unsigned i = 0; i < n; i++) {
        total += commands[i].len;
    }
    batch = raft_malloc(total);
    ASSERT(batch != NULL);
    for (unsigned i = 0; i < n; i++) {
        if (commands[i].len > 0) { /* a peer may ask for nothing at all */
            memcpy(batch + at, commands[i].data, commands[i].len);
        }
        entries[i].term = term;
        entries[i].type = RAFT_COMMAND;
        entries[i].buf.base = batch + at;
        entries[i].buf.len = commands[i].len;
        entries[i].batch = batch;
        at += commands[i].len;
    }
    return batch;
}

/* Would the log hold too much that is not committed, with these on top? */
static bool too_much_uncommitted(const struct driver *driver, const struct driver_command *commands,
                                 unsigned n)
{
    uint64_t last = entry_log_last(&driver->log);
    uint64_t bytes = 0;

    if (last - driver->commit + n > LIMIT_UNCOMMITTED_ENTRIES) {
        return true;
    }
    for (uint64_t i = driver->commit + 1; i <= last; i++) {
        bytes += entry_log_get(&driver->log, i)->block->len;
    }
    for (unsigned i = 0; i < n; i++) {
        bytes += commands[i].len;
    }
    return bytes > LIMIT_UNCOMMITTED_BYTES;
}

int driver_submit(struct driver *driver, const struct driver_command *commands, unsigned n,
                  uint64_t *ret_first, uint64_t *ret_term)
{
    struct raft_entry entries[LIMIT_ENTRIES_PER_FRAME];
    struct raft_event event;
    void *batch;

    ASSERT(n >= 1 && n <= LIMIT_ENTRIES_PER_FRAME);
    if (driver->failed || raft_state(&driver->raft) != RAFT_LEADER) {
        return ERR_NOT_LEADER;
    }
    if (too_much_uncommitted(driver, commands, n)) {
        return ERR_OVERLOADED;
    }
    memset(entries, 0, n * sizeof *entries);
    *ret_term = raft_current_term(&driver->raft);
    *ret_first = raft_last_index(&driver->raft) + 1;
    batch = fill_batch(commands, n, *ret_term, entries);
    memset(&event, 0, sizeof event);
    event.type = RAFT_SUBMIT;
    event.submit.entries = entries;
    event.submit.n = n;
    if (driver_step(driver, &event) != 0) {
        raft_free(batch);
        return ERR_NOT_LEADER; /* a transfer is under way */
    }
    return 0;
}

/* --- receive --- */

static const char *address_of(const struct driver *driver, uint64_t id)
{
    const struct raft_configuration *configuration = &driver->raft.configuration;

    for (unsigned i = 0; i < configuration->n; i++) {
        if (configuration->servers[i].id == id) {
            return configuration->servers[i].address;
        }
    }
    return "unknown";
}

/* Put entries [from, from + n) of a message into a batch of their own: the core frees one batch a
 * message. */
static struct raft_entry *repack(const struct raft_entry *entries, unsigned n)
{
    struct raft_entry *copy = calloc(n, sizeof *copy);
    size_t total = 1;
    size_t at = 0;
    uint8_t *batch;

    for (unsigned i = 0; i < n; i++) {
        total += entries[i].buf.len;
    }
    batch = raft_malloc(total);
    ASSERT(copy != NULL && batch != NULL);
    for (unsigned i = 0; i < n; i++) {
        copy[i] = entries[i];
        copy[i].buf.base = batch + at;
        copy[i].batch = batch;
        memcpy(batch + at, entries[i].buf.base, entries[i].buf.len);
        at += entries[i].buf.len;
    }
    return copy;
}

/* One part of an AppendEntries, entry 0 of which may be a CHANGE (G1); G4 and G5 cut what is
 * committed. */
static void receive_part(struct driver *driver, const struct raft_message *whole, unsigned from,
                         unsigned n)
{
    struct raft_message part = *whole;
    struct raft_append_entries *args = &part.append_entries;
    struct raft_entry *owned = NULL;
    unsigned skip = 0;

    /* The text is the configuration's, which a CHANGE in the part before has replaced. */
    part.server_address = address_of(driver, part.server_id);
    args->n_entries = n;
    if (from > 0) {
        args->entries += from;
        args->prev_log_index += from;
        args->prev_log_term = whole->append_entries.entries[from - 1].term;
    }
    if (!driver->installing) {
        skip = guard_normalise(&part, raft_current_term(&driver->raft), driver->commit,
                               driver_term_at(driver, driver->commit));
    }
    args->n_entries = n - skip;
    if (args->n_entries > 0) {
        owned = repack(args->entries + skip, args->n_entries);
    }
    args->entries = owned;
    driver_step_receive(driver, &part);
    free(owned);
}

/* While a snapshot is being installed the core has no log but its end, and takes another term there
 * for a reason to shut down. What is wrong shows once it is installed. */
static bool parts_from_install(const struct driver *driver, const struct raft_append_entries *args)
{
    return driver->installing && args->prev_log_index == driver->raft.trail.snapshot.index &&
           args->prev_log_term != driver->raft.trail.snapshot.term;
}

static void receive_append(struct driver *driver, struct raft_message *message)
{
    struct raft_append_entries *args = &message->append_entries;
    unsigned from = 0;

    if (!driver_agrees(driver, message->server_id, message) || parts_from_install(driver, args)) {
        return;
    }
    driver_note_leader(driver, message->server_id, args->term);
    if (args->term >= raft_current_term(&driver->raft)) {
        driver_leader_heard(driver);
    }
    if (args->n_entries == 0) {
        receive_part(driver, message, 0, 0);
        return;
    }
    while (from < args->n_entries && !driver->failed) {
        unsigned n = guard_split(args->entries, from, args->n_entries);

        receive_part(driver, message, from, n);
        from += n;
    }
}

static bool receive_message(struct driver *driver, uint64_t from, const uint8_t *payload,
                            size_t len)
{
    struct raft_message message;
    uint64_t transfer;

    memset(&message, 0, sizeof message);
    if (wire_raft_decode(payload, len, &message, &transfer) != 0) {
        return false;
    }
    message.server_id = from;
    message.server_address = address_of(driver, from);
    if (!driver_believes(driver, from, &message)) {
        wire_raft_release(&message);
        return false;
    }
    driver_note_term(driver, from, &message);
    switch (message.type) {
    case RAFT_APPEND_ENTRIES:
        receive_append(driver, &message);
        wire_raft_release(&message);
        break;
    case RAFT_INSTALL_SNAPSHOT:
        snapshot_receive_head(driver, from, transfer, &message);
        break;
    default:
        driver_step_receive(driver, &message);
        driver_note_acknowledged(driver, from);
        break;
    }
    return true;
}

bool driver_receive(struct driver *driver, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len)
{
    if (driver->failed) {
        return true;
    }
    switch (type) {
    case FRAME_RAFT:
        return receive_message(driver, from, payload, len);
    case FRAME_SNAPSHOT_CHUNK:
        return snapshot_receive_chunk(driver, from, payload, len);
    case FRAME_SNAPSHOT_ACK:
        return snapshot_receive_ack(driver, from, payload, len);
    case FRAME_RESIGN:
        return driver_leader_resigned(driver, from, payload, len);
    default:
        return false;
    }
}

bool driver_deliver_snapshot(struct driver *driver, uint64_t from, struct raft_message *message,
                             struct buf *stream)
{
    struct raft_install_snapshot *args = &message->install_snapshot;

    ASSERT(stream == &driver->transfers.in.stream);
    /* Asked when the head came; since then this node may have learnt more, or have been elected. */
    if (!driver_believes(driver, from, message)) {
        wire_raft_release(message);
        return false;
    }
    /* While one is being installed the core would drop it; what the log has passed already it
     * answers by itself, so that the leader learns where this node stands. */
    if (driver->installing || !driver_agrees(driver, from, message)) {
        wire_raft_release(message);
        return true;
    }
    message->server_id = from;
    message->server_address = address_of(driver, from);
    args->data.base = raft_malloc(1); /* a handle: the core only hands it back */
    args->data.len = 1;
    ASSERT(args->data.base != NULL);
    driver_note_leader(driver, from, args->term);
    if (args->term >= raft_current_term(&driver->raft)) {
        driver_leader_heard(driver);
    }
    driver_step_receive(driver, message);
    return true;
}

/* --- time, role, transfer --- */

void driver_tick(struct driver *driver)
{
    struct raft_event event;

    if (driver->failed) {
        return;
    }
    snapshot_tick(driver);
    if (clock_now_ms(driver->clock) >= driver_rows_due_ms(driver)) {
        driver_rows_write(driver, false);
    }
    if (clock_now_ms(driver->clock) < driver->timer_ms) {
        return;
    }
    memset(&event, 0, sizeof event);
    event.type = RAFT_TIMEOUT;
    (void)driver_step(driver, &event);
}

uint64_t driver_next_ms(const struct driver *driver)
{
    uint64_t rows_ms = driver_rows_due_ms(driver);

    if (driver->failed) {
        return UINT64_MAX;
    }
    return driver->timer_ms < rows_ms ? driver->timer_ms : rows_ms;
}

void driver_link_changed(struct driver *driver, uint64_t peer, bool up)
{
    if (!up) {
        snapshot_link_down(driver, peer);
    }
}

bool driver_leads(struct driver *driver)
{
    return !driver->failed && raft_state(&driver->raft) == RAFT_LEADER &&
           guard_term_settled(driver->applied.term, raft_current_term(&driver->raft));
}

uint64_t driver_leader(struct driver *driver)
{
    raft_id id = 0;
    const char *address;

    raft_leader(&driver->raft, &id, &address);
    return id;
}
