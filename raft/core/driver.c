/*
 * driver.c - see driver.h.
 *
 * One event: consensus_step(); then, in this order, term and vote to the disk, entries to the cache
 * and the disk, a snapshot's install, messages (held while a term and vote is on its way), commit
 * index, and the timer. No part of an update is valid after the next event.
 */
#include "raft/core/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raft/core/consensus.h"
#include "raft/core/trust.h"
#include "raft/core/message.h"
#include "raft/core/prepare.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/base/log.h"
#include "src/base/prng.h"
#include "src/state/codec/cluster_command.h"

#define APPLY_PER_TURN 2048
#define APPLY_LARGE_BYTES (64 << 10) /* such an entry is the last of its turn */
#define APPLY_MS 5                   /* then other work of the loop gets its turn */

_Static_assert((int)DRIVER_CATCH_UP_RUNNING == RAFT_CATCH_UP_RUNNING &&
                   (int)DRIVER_CATCH_UP_ABORTED == RAFT_CATCH_UP_ABORTED &&
                   (int)DRIVER_CATCH_UP_FINISHED == RAFT_CATCH_UP_FINISHED,
               "a catch-up has the same states as in the library");
_Static_assert((int)DRIVER_STARTING == RAFT_UNAVAILABLE && (int)DRIVER_FOLLOWER == RAFT_FOLLOWER &&
                   (int)DRIVER_CANDIDATE == RAFT_CANDIDATE && (int)DRIVER_LEADER == RAFT_LEADER,
               "and so has a server");

/* No further step may be taken. */
static void end_steps(struct driver *driver)
{
    driver->failed = true;
    timer_cancel(driver->timers, &driver->timer);
    timer_cancel(driver->timers, &driver->applier.rows_due);
    timer_cancel(driver->timers, &driver->peers.due);
    driver->outbox.awaited = NULL; /* such writes come back unseen */
}

static void fail(struct driver *driver, int err, const char *text)
{
    if (!driver->failed) {
        end_steps(driver);
        driver->observer->failed(driver->observer, err, text);
    }
}

static struct raft *raft_of(const struct driver *driver)
{
    return &driver->consensus->raft;
}

static struct raft_event event_of(enum raft_event_type type)
{
    struct raft_event event;

    memset(&event, 0, sizeof event);
    event.type = type;
    return event;
}

/* Forget the blocks of the last event; those that went to the log have more references. */
static void drop_gathered(struct driver *driver)
{
    for (unsigned i = 0; i < driver->gathered_count; i++) {
        entry_block_unref(driver->gathered[i]);
    }
    driver->gathered_count = 0;
    driver->gathered_batch = NULL;
}

/* Copy the data of entries, each into a block for the log. The core gets a batch that it frees, as
 * if it had them; write_entries() takes the blocks. */
static void *driver_gather(struct driver *driver, struct raft_entry *entries, unsigned n)
{
    drop_gathered(driver);
    ASSERT(n <= LIMIT_ENTRIES_PER_FRAME);
    driver->gathered_batch = raft_malloc(1);
    ASSERT(driver->gathered_batch != NULL);
    for (unsigned i = 0; i < n; i++) {
        struct entry_block *block = entry_block_new(entries[i].buf.base, entries[i].buf.len);

        driver->gathered[driver->gathered_count++] = block;
        entries[i].buf.base = block->data;
        entries[i].batch = driver->gathered_batch;
    }
    return driver->gathered_batch;
}

/* --- an update --- */

static void write_entries(struct driver *driver, const struct raft_update *update)
{
    struct applier *applier = &driver->applier;
    uint64_t index = update->entries.index;
    unsigned n = update->entries.n;
    void *batch = update->entries.batch[0].batch;
    bool is_gathered = batch == driver->gathered_batch;
    struct write *write;

    /* Rows that have waited long enough go with them. */
    if (applier->rows_since_ms != UINT64_MAX && !applier->rows_many &&
        clock_now_ms(driver->clock) >= applier->rows_since_ms + applier->config.rows_join_ms) {
        applier_write(applier, true);
    }
    peer_memory_join(&driver->peers);
    write = writes_new(&driver->writes, STORE_APPEND);
    ASSERT(n > 0 && index > driver->commit);
    if (index <= driver->persisted) {
        driver->persisted = index - 1;
    }
    entry_log_truncate(&driver->log, index);
    ASSERT(entry_log_last(&driver->log) + 1 == index);
    write->op.index = index;
    write->op.entry_count = n;
    write->entries = MUST_HAVE(calloc(n, sizeof *write->entries));
    for (unsigned i = 0; i < n; i++) {
        const struct raft_entry *entry = &update->entries.batch[i];
        struct entry_block *block =
            is_gathered ? entry_block_ref(CONTAINER(entry->buf.base, struct entry_block, data))
                        : entry_block_new(entry->buf.base, entry->buf.len);

        entry_log_append(&driver->log, entry->term, (uint8_t)entry->type, write->number, block);
        write->entries[i] = (struct store_entry){entry->term, (uint8_t)entry->type, block->len,
                                                 entry_block_ref(block)->data};
    }
    write->op.entries = write->entries;
    raft_free(batch);
    write_submit(write);
}

/* Begin to install the received snapshot. */
static void install(struct driver *driver, struct raft_update *update)
{
    struct raft_snapshot_metadata *metadata = &update->snapshot.metadata;
    struct store_position position = {.index = metadata->index,
                                      .term = metadata->term,
                                      .conf_index = metadata->configuration_index,
                                      .digest = driver->transfers.in.digest};
    struct buf conf = BUF_INIT;

    message_conf_encode(&metadata->configuration, &conf);
    position.conf = conf.data;
    position.conf_len = (uint32_t)conf.len;
    raft_configuration_close(&metadata->configuration);
    raft_free(update->snapshot.chunk.base);
    entry_log_clear(&driver->log, metadata->index + 1);
    applier_install(&driver->applier, &position, &driver->transfers.in.stream, SNAPSHOT_ROWS_AT,
                    driver->trial.state);
    driver->trial.state = NULL;
}

static void send_messages(struct driver *driver, const struct raft_update *update, bool stale)
{
    for (unsigned i = 0; i < update->messages.n; i++) {
        struct raft_message *message = &update->messages.batch[i];
        struct buf payload = BUF_INIT;

        if (message->server_id == 0) {
            continue; /* an acknowledgement for a leader that was forgotten meanwhile (G6, G13) */
        }
        guard_result(message, stale, driver_term(driver));
        if (message->type == RAFT_APPEND_ENTRIES) {
            appends_send(&driver->appends, message);
        } else if (message->type == RAFT_INSTALL_SNAPSHOT) {
            appends_forget(&driver->appends, message->server_id);
            snapshot_send(&driver->transfers, message->server_id,
                          message->install_snapshot.last_index, driver->applier.durable.index);
        } else {
            message_encode(message, 0, &payload);
            outbox_send(&driver->outbox, message->server_id, &payload, NULL);
        }
    }
}

/* G8: a leader's timer can be due in the past for ever. It is never armed there. */
static void arm_timer(struct driver *driver)
{
    uint64_t now_ms = clock_now_ms(driver->clock);
    uint64_t due_ms = raft_timeout(raft_of(driver));

    timer_arm(driver->timers, &driver->timer, due_ms > now_ms ? due_ms : now_ms + 1);
}

/* Until it is written, messages wait for it (outbox). */
static void write_vote(struct driver *driver)
{
    struct write *write;

    peer_memory_join(&driver->peers);
    write = writes_new(&driver->writes, STORE_HARD_STATE);
    write->op.term = driver_term(driver);
    write->op.vote = raft_voted_for(raft_of(driver));
    ASSERT(write->op.term > 0);
    driver->outbox.awaited = write;
    write_submit(write);
}

static void apply_update(struct driver *driver, struct raft_update *update, bool stale)
{
    ASSERT(driver->stepping);
    if (update->flags & (unsigned)(RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) {
        write_vote(driver);
    }
    if (update->flags & (unsigned)(RAFT_UPDATE_ENTRIES)) {
        write_entries(driver, update);
    }
    if (update->flags & (unsigned)(RAFT_UPDATE_SNAPSHOT)) {
        install(driver, update);
    }
    if (update->flags & (unsigned)(RAFT_UPDATE_MESSAGES)) {
        send_messages(driver, update, stale);
    }
    if (update->flags & (unsigned)(RAFT_UPDATE_COMMIT_INDEX)) {
        uint64_t commit = raft_commit_index(raft_of(driver));

        driver->commit = commit > driver->commit ? commit : driver->commit; /* G5 */
    }
    arm_timer(driver);
}

/* --- an event --- */

static void note_role(struct driver *driver)
{
    enum driver_state role = driver_state(driver);
    uint64_t term = driver_term(driver);
    uint64_t leader = driver_leader(driver);

    if (role == driver->seen_state && term == driver->seen_term && leader == driver->seen_leader) {
        return;
    }
    ASSERT(term >= driver->seen_term);
    if (driver->seen_state == DRIVER_LEADER && role == DRIVER_FOLLOWER &&
        term == driver->seen_term) {
        /* This node has stepped down in a term that it led: report it, so the others need not
         * wait. */
        MEMBER_FOREACH (member, driver_configuration(driver)) {
            BUF_LOCAL(payload);

            if (member->id != driver->config.node_id) {
                wire_resign_encode(&(struct wire_resign){term}, &payload);
                (void)driver->net->ops->send(driver->net, member->id, FRAME_RESIGN, &payload, NULL);
            }
        }
    }
    driver->counts.elections += role != DRIVER_FOLLOWER && term != driver->seen_term;
    driver->counts.leaderships +=
        role == DRIVER_LEADER && (driver->seen_state != DRIVER_LEADER || term != driver->seen_term);
    driver->seen_state = role;
    driver->seen_term = term;
    driver->seen_leader = leader;
    if (role == DRIVER_LEADER) {
        trust_note_leader(&driver->trust, driver->config.node_id, term);
    }
    driver->observer->role_changed(driver->observer);
}

/* Give the core one event and carry out its update. SUBMIT and TRANSFER return the core's error (>
 * 0) and change nothing; for any other event an error fails the driver: errors that a peer may
 * cause were refused before. as_voter: see consensus_step(). */
static int driver_step(struct driver *driver, struct raft_event *event, bool as_voter)
{
    static const char *const names[] = {
        [RAFT_START] = "the start",
        [RAFT_RECEIVE] = "a message",
        [RAFT_PERSISTED_ENTRIES] = "entries that are on disk",
        [RAFT_PERSISTED_SNAPSHOT] = "a snapshot that is on disk",
        [RAFT_CONFIGURATION] = "a configuration",
        [RAFT_SNAPSHOT] = "a compaction",
        [RAFT_TIMEOUT] = "a timer",
        [RAFT_CATCH_UP] = "a catch-up",
    };
    struct raft_update update;
    char text[160];
    bool stale;
    int rv;

    if (driver->failed) {
        return RAFT_SHUTDOWN;
    }
    ASSERT(!driver->stepping);
    stale = event->type == RAFT_RECEIVE && message_is_of_leader(event->receive.message) &&
            message_term(event->receive.message) < driver_term(driver);
    driver->stepping = true;
    rv = consensus_step(driver->consensus, event, as_voter, driver->vote_floor.known, &update);
    if (rv == 0) {
        apply_update(driver, &update, stale);
    }
    drop_gathered(driver);
    driver->stepping = false;
    if (rv == 0) {
        note_role(driver);
        if (driver_applied_change(driver) != driver->seen_applied_change ||
            driver_pending_change(driver) != driver->seen_pending_change) {
            driver->seen_applied_change = driver_applied_change(driver);
            driver->seen_pending_change = driver_pending_change(driver);
            driver->observer->configured(driver->observer);
        }
    } else if (event->type != RAFT_SUBMIT && event->type != RAFT_TRANSFER) {
        snprintf(text, sizeof text, "the consensus core refused %s: %s (%d)", names[event->type],
                 raft_strerror(rv), rv);
        fail(driver, ERR_CONFLICT, text);
    }
    return rv;
}

/* G14, as G11: a follower that has become the sole voter leads when its timer fires, or when it is
 * asked to take over. It would lead the same term that another node led before, and it may lack
 * that node's entries after the change to a sole voter. True if it must first begin a new term with
 * its own vote, both written to disk. (While its log or a snapshot is on its way to the disk, the
 * core waits.) */
static bool may_begin_alone(const struct driver *driver)
{
    return driver_state(driver) == DRIVER_FOLLOWER && !driver->applier.installing &&
           driver->persisted == entry_log_last(&driver->log) &&
           guard_sole_voter(driver_configuration(driver), driver->config.node_id);
}

/* --- timers --- */

static void on_rows_due(struct timer *timer, uint64_t now_ms)
{
    struct driver *driver = CONTAINER(timer, struct driver, applier.rows_due);

    (void)now_ms;
    peer_memory_join(&driver->peers);
    applier_write(&driver->applier, false);
}

static void on_timeout(struct timer *timer, uint64_t now_ms)
{
    struct driver *driver = CONTAINER(timer, struct driver, timer);
    struct raft_event event = event_of(RAFT_TIMEOUT);

    ASSERT(!driver->failed);
    if ((driver->held || driver->halted) && driver_state(driver) == DRIVER_FOLLOWER) {
        timer_arm(driver->timers, timer, now_ms + driver->config.election_ms);
    } else {
        if (may_begin_alone(driver)) { /* G14 */
            raft_of(driver)->current_term++;
            raft_of(driver)->voted_for = driver->config.node_id;
            write_vote(driver);
        }
        (void)driver_step(driver, &event, false);
    }
    /* G6: a timeout of silence makes a voter a candidate. A node that does not stand for election,
     * as it has no vote or is held, then follows no leader either. */
    if (!driver->failed && !driver->applier.installing) {
        leader_watch_forget_silent(driver->consensus);
        note_role(driver);
    }
}

/* --- knowledge of the peers --- */

/* Note the committed entries on a peer's disk, by its last entry: if this node's log has the same
 * entry, both logs are equal up to it. */
static void note_committed(struct driver *driver, uint64_t peer, uint64_t index, uint64_t last_term)
{
    if (last_term != 0 && witness_term_at(&driver->witness, index) == last_term) {
        rollback_note(
            &driver->peers.seen,
            &(struct peer_seen){.id = peer,
                                .committed = index < driver->commit ? index : driver->commit});
    }
}

/* Note a peer's acknowledged entries, if this node leads; and the entries on its disk that are
 * committed by now. */
static void note_acknowledged(struct driver *driver, uint64_t peer)
{
    const struct peer_seen *seen = rollback_find(&driver->peers.seen, peer);
    struct peer_seen shown = {.id = peer, .tail.term = driver_term(driver)};
    uint64_t index;

    if (driver_match(driver, peer, &index) && index > 0) {
        shown.tail.index = index;
        shown.tail.last_term = witness_term_at(&driver->witness, index);
        shown.committed = index < driver->commit ? index : driver->commit;
        rollback_note(&driver->peers.seen, &shown);
    }
    if (seen != NULL) {
        note_committed(driver, peer, seen->tail.index, seen->tail.last_term);
    }
}

/* --- start and end --- */

static void init_parts(struct driver *driver, struct disk *disk, struct state *state,
                       const struct store_loaded *loaded)
{
    const struct driver_config *config = &driver->config;
    struct prng prng;

    prng_seed(&prng, config->seed);
    driver->writes = (struct writes){.disk = disk};
    STAILQ_INIT(&driver->writes.back);
    driver->outbox = (struct outbox){
        .writes = &driver->writes, .net = driver->net, .term = loaded->term, .vote = loaded->vote};
    driver->appends = (struct appends){.log = &driver->log, .outbox = &driver->outbox};
    driver->transfers = (struct snapshot_transfers){
        .disk = disk,
        .net = driver->net,
        .outbox = &driver->outbox,
        .clock = driver->clock,
        .election_ms = config->election_ms,
        .next_transfer = prng_next(&prng) >> 1,
        .in_bytes_max = config->state_bytes > 0 && config->state_bytes < LIMIT_SNAPSHOT_BYTES
                            ? config->state_bytes
                            : LIMIT_SNAPSHOT_BYTES};
    ASSERT(loaded->first_index >= 1);
    driver->log = (struct entry_log){.first = loaded->first_index};
    ASSERT(config->applier.rows_join_ms <= config->applier.rows_hold_ms);
    driver->applier = (struct applier){.config = config->applier,
                                       .state = state,
                                       .writes = &driver->writes,
                                       .clock = driver->clock,
                                       .timers = driver->timers,
                                       .rows_since_ms = UINT64_MAX,
                                       .compacted = loaded->position.index};
    store_position_copy(&driver->applier.applied, &loaded->position);
    store_position_copy(&driver->applier.durable, &loaded->position);
    timer_init(&driver->applier.rows_due, on_rows_due);
    timer_init(&driver->timer, on_timeout);
    driver->commit = loaded->position.index;
    driver->witness =
        (struct witness){&driver->log, &driver->applier, &driver->commit, config->node_id};
    driver->start = (struct wire_durable){.incarnation = config->incarnation,
                                          .term = loaded->term,
                                          .vote = loaded->vote,
                                          .index = loaded->position.index,
                                          .last_term = loaded->position.term};
    if (loaded->entry_count > 0) {
        driver->start.index = loaded->first_index + loaded->entry_count - 1;
        driver->start.last_term = loaded->entries[loaded->entry_count - 1].term;
    }
    driver->vote_floor.own = vote_floor_met(&driver->vote_floor, &driver->start);
}

int driver_start(struct driver *driver, const struct driver_config *config, struct disk *disk,
                 struct net *net, const struct clock *clock, struct timers *timers,
                 struct state *state, struct driver_observer *observer,
                 const struct store_loaded *loaded)
{
    const struct buf *had = &loaded->locals[LOCAL_INCARNATIONS];
    struct raft_event event = event_of(RAFT_START);
    struct raft_snapshot_metadata metadata;
    struct raft_entry *entries = NULL;
    int rv;

    *driver = (struct driver){
        .config = *config, .net = net, .clock = clock, .timers = timers, .observer = observer};
    init_parts(driver, disk, state, loaded);
    rv = peer_memory_init(&driver->peers, &driver->writes, clock, timers,
                          &loaded->locals[LOCAL_PEERS]);
    if (rv == 0) {
        rv = incarnations_load(&driver->incarnations, had->data, had->len);
    }
    if (loaded->entry_count > 0) {
        entries = MUST_HAVE(calloc(loaded->entry_count, sizeof *entries));
    }
    /* Copy the loaded log into the cache (write 0: on disk already) and into entries for the core.
     * Its configurations must decode: the core trusts them, and would free refused entries that it
     * does not own here. */
    for (size_t i = 0; i < loaded->entry_count; i++) {
        const struct store_entry *entry = &loaded->entries[i];
        struct entry_block *block = entry_block_new(entry->data, entry->len);

        if (rv == 0 && entry->type == RAFT_CHANGE &&
            configuration_check(entry->data, entry->len) != 0) {
            rv = ERR_CORRUPT;
        }
        entry_log_append(&driver->log, entry->term, entry->type, 0, block);
        entries[i] = (struct raft_entry){.term = entry->term,
                                         .type = (enum raft_entry_type)entry->type,
                                         .buf = {block->data, block->len},
                                         .batch = block->data};
    }
    if (rv == 0 && loaded->position.index > 0) {
        rv = consensus_metadata(&driver->applier.applied, &metadata);
        event.start.metadata = &metadata;
    }
    if (rv != 0) {
        free(entries);
        end_steps(driver); /* there is no core to take one */
        return rv;
    }
    driver->consensus = consensus_new(config->node_id, config->address, config->heartbeat_ms,
                                      config->election_ms, config->seed, clock);
    driver->trust = (struct trust){.clock = clock, .consensus = driver->consensus};
    event.start.term = loaded->term;
    event.start.voted_for = loaded->vote;
    event.start.start_index = loaded->first_index;
    event.start.entries = entries;
    event.start.n_entries = (unsigned)loaded->entry_count;
    driver->persisted = entry_log_last(&driver->log);
    (void)driver_step(driver, &event, false);
    free(entries);
    return driver->failed ? ERR_CORRUPT : 0;
}

void driver_quiesce(struct driver *driver)
{
    if (!driver->failed) {
        MEMBER_FOREACH (member, driver_configuration(driver)) {
            if (member->id != driver->config.node_id) {
                note_acknowledged(driver, member->id);
            }
        }
        if (driver->peers.seen.met || driver->peers.seen.changed) {
            peer_memory_write(&driver->peers, false, NULL, NULL);
        }
        applier_write(&driver->applier, false);
    }
    end_steps(driver);
    snapshot_end_transfer(&driver->transfers, 0);
}

bool driver_is_quiet(struct driver *driver)
{
    driver_take_events(driver);
    return driver->writes.count == 0 && snapshot_reads(&driver->transfers) == 0;
}

static void forget_foreseen(struct driver *driver)
{
    if (driver->foreseen != NULL) {
        entry_block_unref(driver->foreseen);
        driver->foreseen = NULL;
    }
}

void driver_close(struct driver *driver)
{
    ASSERT(driver_is_quiet(driver));
    row_changes_release(&driver->applier.rows);
    state_free(driver->applier.next);
    store_position_release(&driver->applier.applied);
    store_position_release(&driver->applier.durable);
    snapshot_drop_in(&driver->transfers, false);
    trial_drop(&driver->trial);
    if (driver->consensus != NULL) {
        raft_close(raft_of(driver), NULL);
        free(driver->consensus);
        driver->consensus = NULL;
    }
    entry_log_free(&driver->log);
    drop_gathered(driver);
    forget_foreseen(driver);
}

/* --- submit --- */

/* Append entries, whose data is copied. */
static int submit(struct driver *driver, struct raft_entry *entries, unsigned n)
{
    struct raft_event event = event_of(RAFT_SUBMIT);
    void *batch = driver_gather(driver, entries, n);

    ASSERT(driver_is_leader(driver));
    event.submit.entries = entries;
    event.submit.n = n;
    if (driver_step(driver, &event, false) != 0) {
        raft_free(batch);
        return ERR_NOT_LEADER; /* a transfer is under way */
    }
    return 0;
}

int driver_submit(struct driver *driver, const struct buf *commands, unsigned n,
                  uint64_t *ret_first, uint64_t *ret_term)
{
    struct raft_entry entries[LIMIT_ENTRIES_PER_FRAME];
    uint64_t last = entry_log_last(&driver->log);
    uint64_t bytes = 0; /* that would be uncommitted */

    ASSERT(n >= 1 && n <= LIMIT_ENTRIES_PER_FRAME);
    if (driver->failed || !driver_is_leader(driver)) {
        return ERR_NOT_LEADER;
    }
    if (last - driver->commit + n > LIMIT_UNCOMMITTED_ENTRIES) {
        return ERR_OVERLOADED;
    }
    for (uint64_t i = driver->commit + 1; i <= last; i++) {
        bytes += entry_log_get(&driver->log, i)->block->len;
    }
    for (unsigned i = 0; i < n; i++) {
        bytes += commands[i].len;
    }
    if (bytes > LIMIT_UNCOMMITTED_BYTES) {
        return ERR_OVERLOADED;
    }
    *ret_term = driver_term(driver);
    *ret_first = driver_last_index(driver) + 1;
    for (unsigned i = 0; i < n; i++) {
        entries[i] = (struct raft_entry){
            .term = *ret_term, .type = RAFT_COMMAND, .buf = {commands[i].data, commands[i].len}};
    }
    return submit(driver, entries, n);
}

/* --- messages --- */

/* Give the core a message, with the guards for incoming ones that need its state. Its owned parts
 * are consumed. */
static void step_message(struct driver *driver, struct raft_message *message)
{
    struct raft_event event = event_of(RAFT_RECEIVE);
    struct raft *raft = raft_of(driver);
    uint64_t pending = driver_pending_change(driver);
    uint64_t last = entry_log_last(&driver->log);
    uint64_t self = driver->config.node_id;
    struct configuration before;
    bool as_voter = false;
    uint64_t match = 0;

    ASSERT(!driver->failed);
    event.receive.message = message;
    (void)driver_match(driver, message->server_id,
                       &match); /* 0: this node does not lead the peer */
    if (guard_drops(message, (int)raft_state(raft), driver_term(driver), match) ||
        vote_floor_drops(&driver->vote_floor, message) ||
        (message->type == RAFT_TIMEOUT_NOW &&
         /* G14: its timer fires soon, and no other node can be elected meanwhile */
         (may_begin_alone(driver) || driver->held || driver->halted))) {
        return;
    }
    if (message->type == RAFT_REQUEST_VOTE) {
        as_voter = guard_vote_as_voter(message, (int)raft_state(raft), raft_role(raft),
                                       raft_last_index(raft));
        /* Does an uncommitted change take this voter's vote away? */
        applier_configured(&driver->applier, &before);
        if (as_voter && pending > driver->commit &&
            configuration_role(driver_configuration(driver), self) != ROLE_VOTER &&
            configuration_role(&before, self) == ROLE_VOTER) {
            (void)guard_vote_before_demotion(message, pending - 1,
                                             witness_term_at(&driver->witness, pending - 1), last,
                                             witness_term_at(&driver->witness, last));
        }
        leader_watch_forget_silent(driver->consensus);
    }
    (void)driver_step(driver, &event, as_voter);
}

static const char *driver_address_of(const struct driver *driver, uint64_t id)
{
    const struct conf_member *member = driver_member(driver, id);

    return member != NULL ? member->address : "unknown";
}

/* One part of an AppendEntries, entry 0 of which may be a CHANGE (G1); G4 and G5 cut committed
 * entries. */
static void receive_part(struct driver *driver, const struct raft_message *whole, unsigned from,
                         unsigned n)
{
    struct raft_message part = *whole;
    struct raft_append_entries *args = &part.append_entries;
    struct raft_entry entries[LIMIT_ENTRIES_PER_FRAME];
    unsigned skip = 0;

    ASSERT(n <= LIMIT_ENTRIES_PER_FRAME);
    ASSERT(from + n <= whole->append_entries.n_entries);
    /* The text is the configuration's, which a CHANGE in the part before has replaced. */
    part.server_address = driver_address_of(driver, part.server_id);
    args->n_entries = n;
    if (from > 0) {
        args->entries += from;
        args->prev_log_index += from;
        args->prev_log_term = whole->append_entries.entries[from - 1].term;
    }
    if (!driver->applier.installing) {
        skip = guard_normalise(&part, driver_term(driver), driver->commit,
                               witness_term_at(&driver->witness, driver->commit));
    }
    args->n_entries = n - skip;
    if (args->n_entries > 0) {
        memcpy(entries, args->entries + skip, args->n_entries * sizeof *entries);
        (void)driver_gather(driver, entries, args->n_entries);
    }
    args->entries = args->n_entries > 0 ? entries : NULL;
    step_message(driver, &part);
}

static void on_restored(void *data)
{
    struct driver *driver = data;

    driver->observer->failed(driver->observer, ERR_CONTRADICTED, driver->failed_text);
}

void driver_halt(struct driver *driver)
{
    ASSERT(!driver->failed && !driver->halted);
    driver->halted = true;
    driver->apply_until = driver->applier.applied.index;
}

void driver_end_diverged(struct driver *driver, const char *text)
{
    fail(driver, ERR_DIVERGED, text);
}

/* Do a leader's entries, or its snapshot, agree with the entries committed here? False: nothing was
 * taken, and this node ends as the witness. It first forgets the statements of such peers. */
static bool agrees(struct driver *driver, uint64_t from, const struct raft_message *message)
{
    struct contradiction contradiction = {0};

    if (driver->applier.installing || message_term(message) < driver_term(driver) ||
        witness_agrees(&driver->witness, message, &contradiction)) {
        return true;
    }
    snprintf(driver->failed_text, sizeof driver->failed_text,
             "node %llu leads term %llu with another entry %llu (term %llu) than the one committed "
             "here (term %llu): acknowledged changes were lost there. Nothing was "
             "changed here: stop all nodes, keep all data directories, and read 'The witness' in "
             "docs/failure-model.md",
             ull(from), ull(message_term(message)), ull(contradiction.index),
             ull(contradiction.term), ull(contradiction.known_term));
    end_steps(driver);
    /* Statements of peers since the start are not to be trusted, and must not count against the
     * data that they really had. */
    driver->peers.seen = driver->peers.at_start;
    peer_memory_write(&driver->peers, false, on_restored, driver);
    return false;
}

/* A plausible message shows that its sender leads. */
static void note_leader(struct driver *driver, uint64_t from, uint64_t term)
{
    struct consensus *consensus = driver->consensus;

    trust_note_leader(&driver->trust, from, term);
    if (term < driver_term(driver)) {
        return;
    }
    consensus->heard_ms = clock_now_ms(driver->clock);
    consensus->trust = LEADER_TRUSTED;
    /* The core draws its timeout once, and each message of the leader restarts it. */
    if (consensus->drawn_timeout_ms != 0 && consensus->raft.state == RAFT_FOLLOWER) {
        consensus->raft.follower_state.randomized_election_timeout = consensus->drawn_timeout_ms;
    }
    consensus->drawn_timeout_ms = 0;
}

/* False: it contradicts the entries committed here. */
static bool receive_append(struct driver *driver, struct raft_message *message)
{
    const struct raft_trail *trail = &raft_of(driver)->trail;
    struct raft_append_entries *args = &message->append_entries;
    unsigned from = 0;

    if (driver->failed) {
        return true;
    }
    if (!agrees(driver, message->server_id, message)) {
        return false;
    }
    /* While a snapshot is being installed, the core has only the log's end, and shuts down on
     * another term there. A wrong term is noticed once it is installed. */
    if (driver->applier.installing && args->prev_log_index == trail->snapshot.index &&
        args->prev_log_term != trail->snapshot.term) {
        return true;
    }
    note_leader(driver, message->server_id, args->term);
    if (args->n_entries == 0) {
        receive_part(driver, message, 0, 0);
        return true;
    }
    while (from < args->n_entries && !driver->failed) {
        unsigned n = guard_split(args->entries, from, args->n_entries);

        receive_part(driver, message, from, n);
        from += n;
    }
    return true;
}

/* The head of a snapshot: its configuration is taken over. False: as of receive_append(). */
static bool receive_head(struct driver *driver, uint64_t from, uint64_t transfer,
                         struct raft_message *message)
{
    struct snapshot_in *in = &driver->transfers.in;
    /* Is a whole snapshot here already, from this leader, in its term? */
    bool has_whole =
        in->whole && in->from == from && message_term(message) == message_term(&in->message);
    /* Is it of an older leader than the one whose snapshot is coming? */
    bool is_older = in->active && message_term(message) < message_term(&in->message);
    bool is_ignored = driver->applier.installing || has_whole || is_older;

    ASSERT(message->type == RAFT_INSTALL_SNAPSHOT);
    if (is_ignored || !agrees(driver, from, message)) {
        message_release(message);
        return is_ignored;
    }
    snapshot_drop_in(&driver->transfers, false);
    driver->transfers.busy = true;
    in->active = true;
    in->from = from;
    in->transfer = transfer;
    in->progress_ms = clock_now_ms(driver->clock);
    in->message = *message;
    trial_begin(&driver->trial, driver->applier.state->machine->ops,
                driver->applier.state->facts.speaks, driver->config.state_bytes);
    return true;
}

static const char *version_of(const struct node_info *info)
{
    return info != NULL ? info->version : "of an unknown version";
}

/* The entry, and all later ones, wait for a newer leafd on this node. */
static void fail_newer(struct driver *driver, uint64_t index, const void *data, size_t len)
{
    const struct level_range own = driver->applier.state->facts.speaks;
    uint16_t to = command_raises_to(data, len);
    const struct node_info *info = NULL;
    struct session_stamp stamp = {0};
    char what[80] = "is of a kind that this leafd does not know";
    char text[380];

    if (session_stamp_read(data, len, &stamp) == 0) {
        info = state_node(driver->applier.state, stamp.node_id);
    }
    if (to != 0) {
        snprintf(what, sizeof what, "raises the cluster's level to %u", to);
    }
    snprintf(text, sizeof text,
             "entry %llu %s, and this leafd speaks levels %u to %u: start a newer leafd on this "
             "node (node %llu, which wrote it, ran leafd %s); it continues before that entry, and "
             "nothing was changed",
             ull(index), what, own.min, own.max, ull(stamp.node_id), version_of(info));
    fail(driver, ERR_NEWER, text);
}

/* May a leader's entries go to the log and the disk? Entries that must wait are cut off. False: the
 * message is a lie. */
static bool believes_entries(struct driver *driver, uint64_t from,
                             struct raft_append_entries *append)
{
    const struct raft_entry *entry;
    struct entries_checked checked;

    if (append->term < driver_term(driver)) {
        return true; /* the core takes no entry from it */
    }
    switch (entries_check(&driver->witness, append, &checked)) {
    case ENTRIES_FINE:
        break;
    case ENTRIES_CUT:
        append->n_entries = checked.at;
        break;
    case ENTRIES_NEWER:
        entry = &append->entries[checked.at];
        fail_newer(driver, append->prev_log_index + 1 + checked.at, entry->buf.base,
                   entry->buf.len);
        break;
    case ENTRIES_LIE:
        return trust_alarm(&driver->trust, from, checked.field, checked.value, checked.bound);
    }
    return true;
}

static bool receive_message(struct driver *driver, uint64_t from, const uint8_t *payload,
                            size_t len)
{
    const struct raft_request_vote_result *result;
    struct peer_seen shown = {.id = from};
    struct raft_message message;
    uint64_t transfer;
    bool agreed = true;
    bool shows_term;

    memset(&message, 0, sizeof message);
    if (message_decode(payload, len, &message, &transfer) != 0) {
        return false;
    }
    message.server_id = from;
    message.server_address = driver_address_of(driver, from);
    if (!trust_message(&driver->trust, from, &message) ||
        (message.type == RAFT_APPEND_ENTRIES &&
         !believes_entries(driver, from, &message.append_entries))) {
        message_release(&message);
        return false;
    }
    result = &message.request_vote_result;
    /* The term of a pre-vote has not begun on any node. */
    shows_term = message.type != RAFT_TIMEOUT_NOW &&
                 !(message.type == RAFT_REQUEST_VOTE && message.request_vote.pre_vote) &&
                 !(message.type == RAFT_REQUEST_VOTE_RESULT && result->pre_vote);
    shown.term = shows_term ? message_term(&message) : 0;
    if (message.type == RAFT_REQUEST_VOTE_RESULT && result->vote_granted && !result->pre_vote) {
        shown.vote_term = result->term;
        shown.vote = driver->config.node_id;
    }
    rollback_note(&driver->peers.seen, &shown);
    switch (message.type) {
    case RAFT_APPEND_ENTRIES:
        agreed = receive_append(driver, &message);
        message_release(&message);
        break;
    case RAFT_INSTALL_SNAPSHOT:
        agreed = receive_head(driver, from, transfer, &message);
        break;
    default:
        step_message(driver, &message);
        note_acknowledged(driver, from);
        break;
    }
    return agreed;
}

/* Nothing was written: log and state are unchanged. */
static void fail_level(struct driver *driver, uint64_t from, uint64_t index)
{
    const struct level_range own = driver->applier.state->facts.speaks;
    const struct node_info *info = state_node(driver->applier.state, from);
    char text[300];

    snprintf(text, sizeof text,
             "the snapshot of node %llu (leafd %s) at entry %llu is of a later level than this "
             "leafd speaks (%u to %u): start that version here, or a later one; nothing was "
             "changed",
             ull(from), version_of(info), ull(index), own.min, own.max);
    fail(driver, ERR_NEWER, text);
}

/* All rows have come and were tried. If they do not match their digest, the snapshot is refused and
 * the leader sends it again: once the core begins to install, there is no way back. If they match
 * but form no state, it is a lie that must not reach the disk. False: it is not believed. */
static bool deliver_snapshot(struct driver *driver, uint64_t from)
{
    struct snapshot_in *in = &driver->transfers.in;
    struct raft_message message = in->message; /* with its configuration */
    struct raft_install_snapshot *args = &message.install_snapshot;
    uint64_t index = args->last_index;
    bool fits;
    bool believed = true;
    int rv = trial_end(&driver->trial, in->digest, index, &fits);

    if (rv == 0) {
        ASSERT(in->active && message.type == RAFT_INSTALL_SNAPSHOT);
        ASSERT(!driver->applier.installing); /* then no head is received (receive_head()) */
        in->active = false;
        /* Checked when the head came, but since then this node may have learnt more, or been
         * elected. */
        believed = trust_message(&driver->trust, from, &message) && agrees(driver, from, &message);
        if (believed) {
            message.server_id = from;
            message.server_address = driver_address_of(driver, from);
            args->data.base = raft_malloc(1); /* a handle: the core only returns it */
            args->data.len = 1;
            ASSERT(args->data.base != NULL);
            note_leader(driver, from, args->term);
            step_message(driver, &message);
        } else {
            message_release(&message);
        }
    } else if (rv == ERR_NEWER) {
        /* Only the leader of this node's term may end this node. */
        if (driver_leader(driver) == from && args->term == driver_term(driver)) {
            fail_level(driver, from, index);
        }
    } else if (rv == ERR_STATE_FULL) {
        /* Above this node's bound: the leader has another bound, or it is a lie. */
        log_line(
            LOG_LEVEL_ERROR, "raft", "a snapshot takes more memory than the state may: refused",
            "peer=%llu bytes_max=%llu hint=\"data.memory-bytes has to be as large as on the other "
            "nodes\"",
            ull(from), ull(driver->config.state_bytes));
        believed = false;
    } else if (fits) {
        believed = trust_alarm(&driver->trust, from, "snapshot_rows", index, 0);
    }
    snapshot_drop_in(&driver->transfers, rv != 0);
    trial_drop(&driver->trial);
    return believed;
}

/* Try some of the received rows; the rest in the next turns. False: they are not believed. */
static bool try_rows(struct driver *driver)
{
    const struct snapshot_in *in = &driver->transfers.in;

    driver->trying = false;
    if (!in->active || in->stream.len == 0 || driver->trial.state == NULL) {
        return true;
    }
    if (!trial_step(&driver->trial, in->stream.data + SNAPSHOT_ROWS_AT,
                    in->stream.len - SNAPSHOT_ROWS_AT, in->whole, driver->clock)) {
        driver->trying = true;
        return true;
    }
    return !in->whole || deliver_snapshot(driver, in->from);
}

/* A peer's report of its disk. */
static bool receive_durable(struct driver *driver, uint64_t from, const uint8_t *payload,
                            size_t len)
{
    const struct peer_seen *seen = rollback_find(&driver->peers.seen, from);
    struct peer_seen shown = {.id = from};
    struct wire_durable now;

    if (wire_durable_decode(payload, len, &now) != 0 ||
        !trust_term(&driver->trust, from, "durable_term", now.term) ||
        !trust_index(&driver->trust, from, "durable_index", now.index)) {
        return false;
    }
    if (seen == NULL || seen->incarnation != now.incarnation) {
        return true; /* of an older connection and another start: ignored */
    }
    shown.term = shown.vote_term = now.term;
    shown.vote = now.vote;
    /* An entry of an older term may be cut by the leader of this one. */
    if (now.last_term == now.term) {
        shown.tail = (struct peer_tail){now.term, now.index, now.last_term};
    }
    rollback_note(&driver->peers.seen, &shown);
    note_committed(driver, from, now.index, now.last_term);
    return true;
}

bool driver_receive(struct driver *driver, uint64_t from, enum frame_type type,
                    const uint8_t *payload, size_t len)
{
    const struct buf *stream = &driver->transfers.in.stream;
    size_t before = stream->len;
    struct wire_resign resign;
    bool believed = false;

    if (driver->failed) {
        return true;
    }
    switch (type) {
    case FRAME_RAFT:
        believed = receive_message(driver, from, payload, len);
        break;
    case FRAME_SNAPSHOT_CHUNK:
        believed = snapshot_receive_chunk(&driver->transfers, from, payload, len) &&
                   (stream->len == before || driver->trying || try_rows(driver));
        break;
    case FRAME_SNAPSHOT_ACK:
        believed = snapshot_receive_ack(&driver->transfers, from, payload, len);
        break;
    case FRAME_RESIGN:
        believed = wire_resign_decode(payload, len, &resign) == 0 &&
                   trust_term(&driver->trust, from, "resigned_term", resign.term);
        if (believed && resign.term == driver_term(driver) &&
            leader_watch_lost(driver->consensus, from, LEADER_RESIGNED)) {
            arm_timer(driver);
        }
        break;
    case FRAME_DURABLE:
        believed = receive_durable(driver, from, payload, len);
        break;
    default:
        break;
    }
    if (!driver->failed) {
        peer_memory_changed(&driver->peers);
    }
    return believed;
}

void driver_peer_refused(struct driver *driver, uint64_t peer)
{
    if (!driver->failed && leader_watch_lost(driver->consensus, peer, LEADER_REFUSED)) {
        arm_timer(driver);
    }
}

/* --- finished disk operations --- */

/* The state on disk replaces all entries up to its index: cut them from the log, except a tail that
 * saves slow followers a whole snapshot. */
static void maybe_compact(struct driver *driver)
{
    struct raft_event event = event_of(RAFT_SNAPSHOT);
    uint64_t needed = UINT64_MAX; /* by peers that get a snapshot from this leader: entries above */
    uint32_t trailing = 0;
    struct write *write;
    uint64_t match;
    uint64_t upto;

    if (driver_is_leader(driver)) {
        MEMBER_FOREACH (member, driver_configuration(driver)) {
            if (driver_match(driver, member->id, &match)) {
                snapshot_reached(&driver->transfers, member->id, match,
                                 match >= driver->applier.durable.index);
            }
        }
        needed = snapshot_needed_index(&driver->transfers);
    }
    upto = applier_compaction(&driver->applier, &driver->log, needed, driver_disk_is_low(driver),
                              &trailing);
    if (upto == 0) {
        return;
    }
    event.snapshot.trailing = trailing;
    if (consensus_metadata(&driver->applier.durable, &event.snapshot.metadata) != 0) {
        fail(driver, ERR_CORRUPT, "the applied configuration does not decode");
        return;
    }
    if (driver_step(driver, &event, false) != 0 || upto <= trailing) {
        return;
    }
    entry_log_drop_prefix(&driver->log, upto - trailing);
    ASSERT(driver->log.first == upto - trailing + 1);
    driver->counts.compactions++;
    write = writes_new(&driver->writes, STORE_COMPACT);
    write->op.index = driver->log.first;
    write_submit(write);
}

static void snapshot_written(struct driver *driver, const struct write *write)
{
    struct raft_event event = event_of(RAFT_PERSISTED_SNAPSHOT);
    uint64_t index = write->op.position.index;

    driver->persisted = index;
    driver->commit = index > driver->commit ? index : driver->commit;
    applier_written(&driver->applier, write);
    if (consensus_metadata(&write->op.position, &event.persisted_snapshot.metadata) != 0) {
        fail(driver, ERR_CORRUPT, "the configuration of an installed snapshot does not decode");
        return;
    }
    ASSERT(driver->applier.applied.index == index && driver->log.first == index + 1);
    driver->halted = false; /* for a state that was replaced */
    event.persisted_snapshot.last = true;
    (void)driver_step(driver, &event, false);
    driver->counts.installs++;
    driver->observer->installed(driver->observer, index);
}

static void take_write(struct driver *driver, const struct write *write)
{
    struct raft_event event = event_of(RAFT_PERSISTED_ENTRIES);
    struct outbox *outbox = &driver->outbox;
    struct held_frame *frame;
    uint64_t highest = 0;

    switch (write->op.kind) {
    case STORE_HARD_STATE:
        ASSERT(outbox->awaited != NULL && write->number <= outbox->awaited->number);
        outbox->awaited = write == outbox->awaited ? NULL : outbox->awaited;
        outbox->term = write->op.term;
        outbox->vote = write->op.vote;
        STAILQ_FOREACH (frame, &write->held, link) { /* the messages that waited for it */
            (void)driver->net->ops->send(driver->net, frame->to, FRAME_RAFT, &frame->payload,
                                         frame->tail);
        }
        break;
    case STORE_APPEND:
        if (write_is_current(write)) {
            highest = entry_log_persisted(&driver->log, write->op.index, write->op.entry_count,
                                          write->number);
        }
        ASSERT(highest <= entry_log_last(&driver->log));
        if (highest > driver->persisted) {
            driver->persisted = highest;
            event.persisted_entries.index = highest;
            (void)driver_step(driver, &event, false);
        }
        break;
    case STORE_APPLY:
        applier_written(&driver->applier, write);
        maybe_compact(driver);
        break;
    case STORE_INSTALL:
        snapshot_written(driver, write);
        break;
    default:
        break;
    }
}

void driver_take_events(struct driver *driver)
{
    struct writes *writes = &driver->writes;
    struct write *write;

    ASSERT(!driver->stepping);
    while ((write = STAILQ_FIRST(&writes->back)) != NULL) {
        STAILQ_REMOVE_HEAD(&writes->back, link);
        ASSERT(write->number > writes->last_taken);
        writes->last_taken = write->number;
        if (write->on_local != NULL) {
            write->on_local(write->local_data);
        } else if (!driver->failed) {
            take_write(driver, write);
        }
        write_free(write);
    }
    if (driver->transfers.busy) {
        snapshot_turn(&driver->transfers,
                      !driver->failed && driver_is_leader(driver) ? driver_term(driver) : 0);
        if (!driver->transfers.in.active) {
            trial_drop(&driver->trial);
        }
    }
    if (!driver->failed && driver_disk_is_low(driver)) { /* no change comes that would cut the
                                                            log */
        maybe_compact(driver);
    }
}

/* --- turns --- */

void driver_hold(struct driver *driver, bool held)
{
    bool let_go = driver->held && !held;

    driver->held = held;
    if (let_go && !driver->failed) {
        if (driver_state(driver) == DRIVER_FOLLOWER) {
            raft_of(driver)->election_timer_start = clock_now_ms(driver->clock);
        }
        arm_timer(driver);
    }
}

/* G10: a leader's own first entry, since the core adds none on a clean election. It is empty or,
 * while the cluster has no birth, has the birth. No client's command comes before it: a leader
 * takes none before it has applied this entry (driver_leads()).
 *
 * The first birth of the log holds. If the log has more than the first list, that birth is there
 * already, perhaps at an earlier level. A second one that names a level would do nothing, and keep
 * out the leafds that do not speak it. So it names none. */
static void submit_first(struct driver *driver)
{
    uint64_t term = driver_term(driver);
    BUF_LOCAL(first);
    struct birth birth;
    bool names_level;
    uint64_t index;

    if (driver->applier.installing) {
        return;
    }
    if (!birth_is_sound(&driver->config.birth) || state_birth(driver->applier.state) != NULL) {
        cluster_command_put(&first, COMMAND_NOOP, NULL);
    } else {
        names_level =
            driver->config.birth.level >= BIRTH_LEVEL_MIN && entry_log_last(&driver->log) == 1;
        birth = driver->config.birth;
        birth.wall_ms = clock_wall_ms(driver->clock);
        cluster_command_put(&first, names_level ? COMMAND_BIRTH_AT : COMMAND_BIRTH, &birth);
    }
    if (driver_submit(driver, &first, 1, &index, &term) == 0) {
        driver->noop_term = term;
    }
}

static void apply_command(struct driver *driver, uint64_t index, uint64_t term,
                          const struct entry_block *block)
{
    BUF_LOCAL(result);
    struct applier *applier = &driver->applier;
    uint64_t term_before = applier->applied.term;
    struct cluster_command command;
    char text[240];
    int rv;

    applier_skip(applier, index, term);
    rv = state_apply(applier->state, index, term, block->data, block->len, &result, &applier->rows);
    if (rv == ERR_NEWER) { /* this leafd does not know the command: nothing changed */
        applier->applied.index = index - 1;
        applier->applied.term = term_before;
        fail_newer(driver, index, block->data, block->len);
    } else if (!driver->halted) {
        driver->observer->applied(driver->observer, index, term, result.data, result.len);
    }
    if (rv != ERR_DIVERGED || driver->halted || driver->failed) {
        return;
    }
    /* The leader's digest at an index differs from this node's. */
    ASSERT(cluster_command_read(block->data, block->len, &command) == 0);
    snprintf(
        text, sizeof text,
        "the state differs from the cluster's at an equal index: entry %llu, of node %llu, says "
        "that the digest of all rows at index %llu is %016llx, and here it was another",
        ull(index), ull(command.stamp.node_id), ull(command.digest.index),
        ull(command.digest.digest));
    driver_halt(driver);
    driver->observer->diverged(driver->observer, command.stamp.node_id, text);
}

/* The next committed entry, if it may be applied now. */
static const struct log_entry *next_to_apply(const struct driver *driver)
{
    const struct applier *applier = &driver->applier;

    ASSERT(driver->failed || applier->applied.index <= driver->commit);
    if (applier->installing || driver->failed || applier->applied.index >= driver->commit ||
        (driver->halted && applier->applied.index >= driver->apply_until)) {
        return NULL;
    }
    ASSERT(applier->applied.index + 1 >= driver->log.first);
    /* NULL: the commit index can be ahead of the log for a moment. */
    return entry_log_get(&driver->log, applier->applied.index + 1);
}

/* Prepare the next entry to apply, if it is large, in parts: the state does not change before it is
 * applied. False: all was done before. The reference ensures that no other entry gets its address,
 * even if a leader replaces it in the log. */
static bool foresee(struct driver *driver, struct entry_block *block)
{
    struct state *state = driver->applier.state;
    uint64_t index = driver->applier.applied.index + 1;
    bool is_begun = driver->foreseen == block;

    if (is_begun && !driver->foresees) {
        return false;
    }
    if (!is_begun) {
        forget_foreseen(driver);
        driver->foreseen = entry_block_ref(block);
    }
    ASSERT(!driver->applier.installing);
    driver->foresees = is_begun ? state_foresee_more(state, index)
                                : state_foresee(state, index, block->data, block->len);
    return true;
}

static void apply(struct driver *driver, const struct log_entry *entry)
{
    /* A step below may move the log's memory. */
    struct entry_block *block = entry_block_ref(entry->block);
    struct raft_event event = event_of(RAFT_CONFIGURATION);
    uint64_t index = driver->applier.applied.index + 1;
    uint64_t term = entry->term;

    switch (entry->type) {
    case RAFT_CHANGE:
        event.configuration.index = index;
        if (applier_configuration(&driver->applier, index, term, block) != 0 ||
            message_conf_decode(block->data, block->len, &event.configuration.conf) != 0) {
            fail(driver, ERR_CORRUPT, "a committed configuration does not decode");
        } else {
            (void)driver_step(driver, &event, false);
        }
        break;
    case RAFT_COMMAND:
        apply_command(driver, index, term, block);
        break;
    default:
        applier_skip(&driver->applier, index, term);
        break;
    }
    if (driver->foreseen == block) {
        forget_foreseen(driver);
    }
    entry_block_unref(block);
}

/* Apply committed entries, as many as a turn has time for. True: there are more. */
static bool apply_some(struct driver *driver)
{
    const struct log_entry *entry;
    uint64_t until_ms = clock_now_ms(driver->clock) + APPLY_MS;
    unsigned count = 0;

    while (count < APPLY_PER_TURN && (entry = next_to_apply(driver)) != NULL) {
        clock_look(driver->clock); /* an entry of a few bytes may look through all worker ids */
        if (count > 0 && clock_now_ms(driver->clock) >= until_ms) {
            break;
        }
        if (entry->block->len < APPLY_LARGE_BYTES) {
            apply(driver, entry);
            count++;
        } else if (count > 0 || foresee(driver, entry->block)) {
            break; /* it has turns of its own */
        } else {
            apply(driver, entry);
            count++;
            break;
        }
    }
    if (count > 0 && !driver->failed) {
        applier_hold(&driver->applier);
    }
    return next_to_apply(driver) != NULL;
}

bool driver_turn(struct driver *driver)
{
    const struct log_entry *next;
    bool more = false;

    if (driver->failed) {
        return false;
    }
    if (driver->trying) {
        (void)try_rows(driver); /* its link stays: the alarm was raised */
    }
    if (driver->appends.count > 0) {
        more = appends_turn(&driver->appends, driver_is_leader(driver) ? driver_term(driver) : 0);
    }
    if (driver->log.unused != NULL) {
        entry_log_tidy(&driver->log);
    }
    if (driver->seen_state == DRIVER_LEADER && driver->noop_term != driver->seen_term) {
        submit_first(driver);
    }
    if (driver->applier.applied.index < driver->commit) {
        more = apply_some(driver) || more;
    } else if (driver->seen_state == DRIVER_LEADER &&
               driver->applier.applied.index + 1 < driver->log.first + driver->log.count) {
        /* The leader prepares a large entry while its disk and the followers store it. */
        next = entry_log_get(&driver->log, driver->applier.applied.index + 1);
        more = (next != NULL && driver_leads(driver) && !driver->applier.installing &&
                next->type == RAFT_COMMAND && next->block->len >= APPLY_LARGE_BYTES &&
                foresee(driver, next->block) && driver->foresees) ||
               more;
    }
    return more || driver->trying;
}

/* --- the node's own records --- */

bool driver_disk_is_low(const struct driver *driver)
{
    return driver->writes.disk->ops->low(driver->writes.disk);
}

void driver_write_local(struct driver *driver, uint32_t key, const void *data, size_t len,
                        void (*done)(void *data), void *done_data)
{
    struct write *write = writes_new(&driver->writes, STORE_LOCAL);

    ASSERT(len >= 1 && len <= LIMIT_LOCAL_RECORD_BYTES);
    buf_put(&write->bytes, data, len);
    write_submit_local(write, key, done, done_data);
}

bool driver_durable(const struct driver *driver, struct wire_durable *ret_durable)
{
    uint64_t index = driver->persisted;

    *ret_durable = (struct wire_durable){.incarnation = driver->config.incarnation,
                                         .term = driver->outbox.term,
                                         .vote = driver->outbox.vote,
                                         .index = index,
                                         .last_term = witness_term_at(&driver->witness, index)};
    return !driver->failed && !driver->applier.installing &&
           (index == 0) == (ret_durable->last_term == 0);
}

int driver_check_peer(struct driver *driver, uint64_t peer, const struct wire_statement *statement,
                      bool is_here)
{
    const struct wire_durable *start = &statement->start;
    const struct peer_seen *seen = rollback_find(&driver->peers.seen, peer);
    struct rollback_evidence evidence;
    int rv;

    /* A failed node ends: its statements no longer matter. */
    if ((seen != NULL && seen->incarnation == start->incarnation) || driver->failed) {
        (void)vote_floor_met(&driver->vote_floor, start);
        return 0;
    }
    if (!trust_term(&driver->trust, peer, "start_term", start->term) ||
        !trust_index(&driver->trust, peer, "start_index", start->index)) {
        return ERR_IMPLAUSIBLE;
    }
    note_acknowledged(driver, peer);
    if (is_here && seen != NULL && seen->incarnation != 0 &&
        rollback_judge(&driver->peers.seen, peer, statement, &evidence) == 0) {
        peer_memory_changed(&driver->peers);
        return ERR_EXISTS;
    }
    rv = rollback_check_peer(&driver->peers.seen, peer, statement, &evidence);
    if (rv != 0) {
        rollback_log_older(peer, start, &evidence);
    } else {
        (void)vote_floor_met(&driver->vote_floor, start);
    }
    peer_memory_changed(&driver->peers);
    return rv;
}

/* --- queries --- */

enum driver_state driver_state(const struct driver *driver)
{
    return (enum driver_state)raft_state(raft_of(driver));
}

uint64_t driver_term(const struct driver *driver)
{
    return raft_current_term(raft_of(driver));
}

bool driver_is_leader(const struct driver *driver)
{
    return raft_state(raft_of(driver)) == RAFT_LEADER;
}

/* G10: the core adds no entry of its own term on a clean election, and accepts a CHANGE at once
 * (the single-server change bug of 2015). Changes of members and reads wait for an applied entry of
 * the current term. */
bool driver_leads(const struct driver *driver)
{
    return !driver->failed && !driver->halted && driver_is_leader(driver) &&
           driver->applier.applied.term == driver_term(driver);
}

uint64_t driver_leader(const struct driver *driver)
{
    raft_id id = 0;
    const char *address;

    raft_leader(raft_of(driver), &id, &address);
    return id;
}

uint64_t driver_last_index(const struct driver *driver)
{
    return raft_last_index(raft_of(driver));
}

const struct store_position *driver_applied(const struct driver *driver)
{
    return &driver->applier.applied;
}

bool driver_match(const struct driver *driver, uint64_t peer, uint64_t *ret_index)
{
    raft_index match = 0;

    if (!driver_is_leader(driver) || raft_match_index(raft_of(driver), peer, &match) != 0) {
        return false;
    }
    *ret_index = match;
    return true;
}

/* --- membership --- */

const struct configuration *driver_configuration(const struct driver *driver)
{
    return &driver->consensus->configuration;
}

const struct conf_member *driver_member(const struct driver *driver, uint64_t id)
{
    return configuration_find(driver_configuration(driver), id);
}

uint64_t driver_applied_change(const struct driver *driver)
{
    return raft_of(driver)->configuration_committed_index;
}

uint64_t driver_pending_change(const struct driver *driver)
{
    return raft_of(driver)->configuration_uncommitted_index;
}

bool driver_all_committed(const struct driver *driver)
{
    return driver->commit == entry_log_last(&driver->log);
}

int driver_change(struct driver *driver, uint64_t id, const char *address, enum conf_role role)
{
    const struct configuration *now = driver_configuration(driver);
    struct configuration configuration = {0};
    struct raft_entry entry;
    BUF_LOCAL(conf);

    if (!driver_leads(driver)) { /* G10 */
        return ERR_NOT_LEADER;
    }
    if (driver_pending_change(driver) != 0 ||
        (role != ROLE_VOTER && !driver_all_committed(driver) &&
         configuration_role(now, id) == ROLE_VOTER)) {
        return ERR_CONFLICT;
    }
    /* Positions never change, since the core keeps its data of each member by position. */
    MEMBER_FOREACH (member, now) {
        enum conf_role then = member->id == id ? role : member->role;

        if (then != ROLE_GONE) {
            configuration_add(&configuration, member->id, member->address, then);
        }
    }
    if (configuration_find(now, id) == NULL) {
        ASSERT(role == ROLE_STANDBY);
        if (now->count == LIMIT_NODES) {
            return ERR_INVALID;
        }
        configuration_add(&configuration, id, address, role);
    }
    configuration_encode(&configuration, &conf);
    if (configuration_check(conf.data, conf.len) != 0) {
        return ERR_INVALID;
    }
    entry = (struct raft_entry){
        .term = driver_term(driver), .type = RAFT_CHANGE, .buf = {conf.data, conf.len}};
    return submit(driver, &entry, 1);
}

bool driver_catch_up(struct driver *driver, uint64_t id)
{
    enum conf_role role = configuration_role(driver_configuration(driver), id);
    struct raft_event event = event_of(RAFT_CATCH_UP);

    if (!driver_leads(driver) || driver_pending_change(driver) != 0 || role == ROLE_GONE ||
        role == ROLE_VOTER) {
        return false;
    }
    /* The core watches one node at a time; a second one would leave the first one's state "running"
     * forever. */
    MEMBER_FOREACH (member, driver_configuration(driver)) {
        if (driver_caught_up(driver, member->id) == DRIVER_CATCH_UP_RUNNING) {
            return false;
        }
    }
    event.catch_up.server_id = id;
    return driver_step(driver, &event, false) == 0;
}

enum driver_catch_up driver_caught_up(const struct driver *driver, uint64_t id)
{
    int status;

    if (driver->failed || !driver_is_leader(driver) ||
        raft_catch_up(raft_of(driver), id, &status) != 0) {
        return DRIVER_CATCH_UP_NONE;
    }
    return (enum driver_catch_up)status;
}

/* --- leadership --- */

bool driver_is_transferring(const struct driver *driver)
{
    return driver_is_leader(driver) && raft_transferee(raft_of(driver)) != 0;
}

bool driver_transfer(struct driver *driver, uint64_t target)
{
    struct raft_event event = event_of(RAFT_TRANSFER);
    uint64_t best_match = 0;
    uint64_t best = 0;
    uint64_t match;

    if (driver->failed || !driver_is_leader(driver)) {
        return true;
    }
    if (driver_is_transferring(driver)) {
        return false;
    }
    MEMBER_FOREACH (member, driver_configuration(driver)) {
        if (member->id != driver->config.node_id && member->role == ROLE_VOTER &&
            driver->net->ops->connected(driver->net, member->id) &&
            driver_match(driver, member->id, &match) && (best == 0 || match > best_match)) {
            best = member->id;
            best_match = match;
        }
    }
    target = target != 0 ? target : best;
    if (target == 0 || !driver_match(driver, target, &match)) {
        return true;
    }
    /* The core would send TimeoutNow after the first acknowledgement even to a voter that lags,
     * which would ignore it: wait until it has everything. */
    if (match != driver_last_index(driver)) {
        return false;
    }
    event.transfer.server_id = target;
    /* Refused by the core: the target cannot lead. */
    return driver_step(driver, &event, false) != 0;
}
