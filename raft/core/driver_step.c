/*
 * driver_step.c - one step of the core: the event in, the guards, and its update carried out.
 *
 * The happy path: raft_step(); then, in this order, term and vote to the disk, entries to the cache
 * and the disk, a snapshot's install, messages (held while a term and vote is on its way), commit
 * index, and the timer. Nothing of an update survives the next step.
 *
 * Failure modes: see driver.h. Thread: the raft loop.
 */
#include "raft/core/driver_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/guard.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"

struct driver_write *driver_write_new(struct driver *driver, enum store_op_kind kind,
                                      void (*done)(struct store_op *op))
{
    struct driver_write *write = calloc(1, sizeof *write);

    ASSERT(write != NULL);
    write->op.kind = kind;
    write->op.done = done;
    write->op.data = write;
    write->driver = driver;
    write->tag = ++driver->next_tag;
    write->generation = driver->generation;
    driver->writes_in_flight++;
    return write;
}

void driver_write_free(struct driver_write *write)
{
    ASSERT(write->driver->writes_in_flight > 0);
    write->driver->writes_in_flight--;
    for (uint32_t i = 0; i < write->op.entry_count; i++) {
        entry_block_unref(write->blocks[i]);
    }
    free(write->entries);
    free(write->blocks);
    free(write->rows);
    fsm_changes_release(&write->changes);
    buf_free(&write->position.conf);
    buf_free(&write->stream);
    free(write);
}

void driver_fail(struct driver *driver, int err, const char *text)
{
    if (driver->failed) {
        return;
    }
    driver->failed = true;
    driver->observer->failed(driver->observer, err, text);
}

/* --- term and vote --- */

static void release_held(struct driver *driver)
{
    struct held_frame *frame;

    while ((frame = STAILQ_FIRST(&driver->held)) != NULL &&
           frame->hard_state <= driver->hard_state_durable) {
        STAILQ_REMOVE_HEAD(&driver->held, link);
        (void)driver->net->ops->send(driver->net, frame->to, FRAME_RAFT, &frame->payload);
        buf_free(&frame->payload);
        free(frame);
    }
}

static void hard_state_done(struct store_op *op)
{
    struct driver_write *write = op->data;
    struct driver *driver = write->driver;

    ASSERT(write->hard_state == driver->hard_state_durable + 1);
    driver->hard_state_durable = write->hard_state;
    if (!driver->failed) { /* a failed driver's completions only free */
        release_held(driver);
    }
    driver_write_free(write);
}

static void write_hard_state(struct driver *driver)
{
    struct driver_write *write = driver_write_new(driver, STORE_HARD_STATE, hard_state_done);

    write->hard_state = ++driver->hard_state_sent;
    write->op.term = raft_current_term(&driver->raft);
    write->op.vote = raft_voted_for(&driver->raft);
    driver->disk->ops->submit(driver->disk, &write->op);
}

void driver_send(struct driver *driver, uint64_t to, struct buf *payload)
{
    struct held_frame *frame;

    if (driver->hard_state_durable == driver->hard_state_sent) {
        (void)driver->net->ops->send(driver->net, to, FRAME_RAFT, payload);
        buf_free(payload);
        return;
    }
    frame = calloc(1, sizeof *frame);
    ASSERT(frame != NULL);
    frame->hard_state = driver->hard_state_sent;
    frame->to = to;
    buf_move(&frame->payload, payload);
    STAILQ_INSERT_TAIL(&driver->held, frame, link);
}

/* --- entries --- */

static void append_done(struct store_op *op)
{
    struct driver_write *write = op->data;
    struct driver *driver = write->driver;
    struct raft_event event;
    uint64_t highest = 0;

    if (write->generation == driver->generation && !driver->failed) {
        highest = entry_log_persisted(&driver->log, op->index, op->entry_count, write->tag);
    }
    driver_write_free(write);
    if (highest <= driver->persisted) {
        return;
    }
    driver->persisted = highest;
    memset(&event, 0, sizeof event);
    event.type = RAFT_PERSISTED_ENTRIES;
    event.persisted_entries.index = highest;
    (void)driver_step(driver, &event);
}

static void write_entries(struct driver *driver, const struct raft_update *update)
{
    struct driver_write *write = driver_write_new(driver, STORE_APPEND, append_done);
    uint64_t index = update->entries.index;
    unsigned n = update->entries.n;

    ASSERT(n > 0 && index > driver->commit);
    if (index <= driver->persisted) {
        driver->persisted = index - 1;
    }
    entry_log_truncate(&driver->log, index);
    ASSERT(entry_log_last(&driver->log) + 1 == index);
    write->op.index = index;
    write->op.entry_count = n;
    write->entries = calloc(n, sizeof *write->entries);
    write->blocks = calloc(n, sizeof(struct entry_block *));
    ASSERT(write->entries != NULL && write->blocks != NULL);
    for (unsigned i = 0; i < n; i++) {
        const struct raft_entry *entry = &update->entries.batch[i];
        struct entry_block *block = entry_block_new(entry->buf.base, entry->buf.len);

        entry_log_append(&driver->log, entry->term, (uint8_t)entry->type, write->tag, block);
        write->blocks[i] = entry_block_ref(block);
        write->entries[i] =
            (struct store_entry){entry->term, (uint8_t)entry->type, block->len, block->data};
    }
    write->op.entries = write->entries;
    raft_free(update->entries.batch[0].batch);
    driver_rows_join(driver);
    driver->disk->ops->submit(driver->disk, &write->op);
}

/* --- messages --- */

/* Point the message's entries at the log, as many as fit one frame (one always does); n is how many
 * of them it is to carry at most. Returns how many it carries. */
static unsigned fill_append(struct driver *driver, struct raft_append_entries *args, unsigned n,
                            struct raft_entry *entries)
{
    size_t bytes = 0;
    unsigned i;

    for (i = 0; i < n; i++) {
        const struct log_entry *entry = entry_log_get(&driver->log, args->prev_log_index + 1 + i);

        ASSERT(entry != NULL);
        bytes += entry->block->len;
        if (i > 0 && bytes > LIMIT_APPEND_BYTES) {
            break;
        }
        entries[i] = (struct raft_entry){.term = entry->term,
                                         .type = (enum raft_entry_type)entry->type,
                                         .buf = {entry->block->data, entry->block->len}};
    }
    args->entries = entries;
    args->n_entries = i;
    return i;
}

/* The core counts entries and not bytes: what would not fit one frame goes in several messages,
 * each of which begins where the one before ended. */
static void send_append(struct driver *driver, struct raft_message *message)
{
    struct raft_append_entries *args = &message->append_entries;
    struct raft_entry entries[LIMIT_ENTRIES_PER_FRAME];
    unsigned left = args->n_entries;

    ASSERT(left <= LIMIT_ENTRIES_PER_FRAME);
    do {
        struct buf payload = BUF_INIT;
        unsigned n = fill_append(driver, args, left, entries);

        wire_raft_encode(message, 0, &payload);
        driver_send(driver, message->server_id, &payload);
        left -= n;
        if (n > 0) {
            args->prev_log_index += n;
            args->prev_log_term = entries[n - 1].term;
        }
    } while (left > 0);
    args->entries = NULL;
}

static void send_messages(struct driver *driver, const struct raft_update *update, bool stale)
{
    for (unsigned i = 0; i < update->messages.n; i++) {
        struct raft_message *message = &update->messages.batch[i];
        struct buf payload = BUF_INIT;

        if (message->server_id == 0) {
            continue; /* an acknowledgement for a leader that was forgotten meanwhile (G6, G13) */
        }
        guard_stale_result(message, stale);
        guard_pre_vote_refusal(message, raft_current_term(&driver->raft));
        if (message->type == RAFT_APPEND_ENTRIES) {
            send_append(driver, message);
        } else if (message->type == RAFT_INSTALL_SNAPSHOT) {
            snapshot_send(driver, message->server_id, message->install_snapshot.last_index);
        } else {
            wire_raft_encode(message, 0, &payload);
            driver_send(driver, message->server_id, &payload);
        }
    }
}

/* --- the update --- */

static void note_role(struct driver *driver)
{
    int state = (int)raft_state(&driver->raft);
    uint64_t term = raft_current_term(&driver->raft);
    uint64_t leader = driver_leader(driver);

    if (state == driver->seen_state && term == driver->seen_term && leader == driver->seen_leader) {
        return;
    }
    ASSERT(term >= driver->seen_term);
    if (driver->seen_state == RAFT_LEADER && state == RAFT_FOLLOWER && term == driver->seen_term) {
        driver_resign(driver);
    }
    driver->seen_state = state;
    driver->seen_term = term;
    driver->seen_leader = leader;
    if (state == RAFT_LEADER) {
        driver_note_leader(driver, driver->config.node_id, term);
    }
    driver->observer->role_changed(driver->observer);
}

static void carry_out(struct driver *driver, struct raft_update *update, bool stale)
{
    uint64_t now = clock_now_ms(driver->clock);

    if (update->flags & (unsigned)(RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) {
        write_hard_state(driver);
    }
    if (update->flags & (unsigned)(RAFT_UPDATE_ENTRIES)) {
        write_entries(driver, update);
    }
    if (update->flags & (unsigned)(RAFT_UPDATE_SNAPSHOT)) {
        driver_install(driver, update);
    }
    if (update->flags & (unsigned)(RAFT_UPDATE_MESSAGES)) {
        send_messages(driver, update, stale);
    }
    if (update->flags & (unsigned)(RAFT_UPDATE_COMMIT_INDEX)) {
        uint64_t commit = raft_commit_index(&driver->raft);

        driver->commit = commit > driver->commit ? commit : driver->commit; /* G5 */
    }
    driver->timer_ms = guard_timer(raft_timeout(&driver->raft), now); /* G8 */
    note_role(driver);
}

static bool is_stale(const struct driver *driver, const struct raft_event *event)
{
    const struct raft_message *message = event->receive.message;

    if (event->type != RAFT_RECEIVE) {
        return false;
    }
    if (message->type == RAFT_APPEND_ENTRIES) {
        return message->append_entries.term < raft_current_term(&driver->raft);
    }
    return message->type == RAFT_INSTALL_SNAPSHOT &&
           message->install_snapshot.term < raft_current_term(&driver->raft);
}

/* After a RECEIVE of a snapshot whose update has neither of these flags the core forgot to free it.
 */
static void free_ignored_snapshot(const struct raft_event *event, const struct raft_update *update)
{
    if (event->type != RAFT_RECEIVE || event->receive.message->type != RAFT_INSTALL_SNAPSHOT) {
        return;
    }
    if (update->flags & (unsigned)(RAFT_UPDATE_SNAPSHOT)) {
        return;
    }
    if (update->flags & (unsigned)(RAFT_UPDATE_MESSAGES)) {
        return;
    }
    raft_configuration_close(&event->receive.message->install_snapshot.conf);
    raft_free(event->receive.message->install_snapshot.data.base);
}

static const char *event_name(const struct raft_event *event)
{
    switch (event->type) {
    case RAFT_START:
        return "the start";
    case RAFT_RECEIVE:
        return "a message";
    case RAFT_PERSISTED_ENTRIES:
        return "entries that are on disk";
    case RAFT_PERSISTED_SNAPSHOT:
        return "a snapshot that is on disk";
    case RAFT_CONFIGURATION:
        return "a configuration";
    case RAFT_SNAPSHOT:
        return "a compaction";
    case RAFT_TIMEOUT:
        return "a timer";
    default:
        return "an event";
    }
}

static int step_as(struct driver *driver, struct raft_event *event, bool as_voter)
{
    struct raft_update update;
    struct raft_configuration saved = driver->raft.configuration;
    struct raft_server self = {driver->config.node_id, driver->raft.address, RAFT_VOTER};
    bool stale = is_stale(driver, event);
    uint64_t term = raft_current_term(&driver->raft);
    char text[160];
    int rv;

    ASSERT(driver->started && !driver->failed);
    event->time = clock_now_ms(driver->clock);
    memset(&update, 0, sizeof update);
    if (as_voter) { /* G6: for this one step the core sees itself as the only voter */
        driver->raft.configuration.servers = &self;
        driver->raft.configuration.n = 1;
    }
    rv = raft_step(&driver->raft, event, &update);
    if (as_voter) {
        driver->raft.configuration = saved;
    }
    if (rv != 0) {
        if (event->type == RAFT_SUBMIT || event->type == RAFT_TRANSFER) {
            return rv;
        }
        /* What a peer may have caused was refused before (driver_trust.c). */
        snprintf(text, sizeof text, "the consensus core refused %s: %s (%d)", event_name(event),
                 raft_strerror(rv), rv);
        driver_fail(driver, ERR_CONFLICT, text);
        return rv;
    }
    free_ignored_snapshot(event, &update);
    if (event->type == RAFT_RECEIVE) {
        plausible_rose(&driver->plausible, raft_current_term(&driver->raft) - term);
    }
    carry_out(driver, &update, stale);
    return 0;
}

static bool begins_alone(const struct driver *driver)
{
    const struct raft *raft = &driver->raft;

    return guard_sole_voter_begins(&raft->configuration, driver->config.node_id, raft->state,
                                   !driver->installing &&
                                       driver->persisted == entry_log_last(&driver->log));
}

int driver_step(struct driver *driver, struct raft_event *event)
{
    if (driver->failed) {
        return RAFT_SHUTDOWN;
    }
    if (event->type == RAFT_TIMEOUT && begins_alone(driver)) { /* G14 */
        driver->raft.current_term++;
        driver->raft.voted_for = driver->config.node_id;
        write_hard_state(driver);
    }
    return step_as(driver, event, false);
}

/* --- receiving --- */

static void step_vote_request(struct driver *driver, struct raft_event *event)
{
    struct raft *raft = &driver->raft;
    bool as_voter = guard_vote_as_voter(event->receive.message, (int)raft_state(raft),
                                        raft_role(raft), raft_last_index(raft));
    uint64_t demotion = as_voter ? driver_pending_demotion(driver) : 0;
    uint64_t last = entry_log_last(&driver->log);

    if (demotion > 0) {
        (void)guard_vote_before_demotion(event->receive.message, demotion - 1,
                                         driver_term_at(driver, demotion - 1), last,
                                         driver_term_at(driver, last));
    }
    if (event->receive.message->type == RAFT_REQUEST_VOTE && raft_state(raft) == RAFT_FOLLOWER &&
        driver_leader_is_silent(driver)) {
        raft->follower_state.current_leader.id = 0; /* G6, G13 */
    }
    (void)step_as(driver, event, as_voter);
}

void driver_step_receive(struct driver *driver, struct raft_message *message)
{
    struct raft *raft = &driver->raft;
    struct raft_event event;
    raft_index match = 0;

    if (driver->failed) {
        wire_raft_release(message);
        return;
    }
    memset(&event, 0, sizeof event);
    event.type = RAFT_RECEIVE;
    event.receive.message = message;
    if (guard_drop_vote_result(message, (int)raft_state(raft))) {
        return;
    }
    if (raft_state(raft) == RAFT_LEADER &&
        raft_match_index(raft, message->server_id, &match) == 0 &&
        guard_drop_rejection(message, raft_current_term(raft), match)) {
        return;
    }
    if (message->type == RAFT_REQUEST_VOTE) {
        step_vote_request(driver, &event);
        return;
    }
    if (message->type == RAFT_TIMEOUT_NOW && begins_alone(driver)) {
        return; /* G14: its timer fires soon, and nobody else can be elected meanwhile */
    }
    (void)driver_step(driver, &event);
}
