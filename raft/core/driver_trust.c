/*
 * driver_trust.c - what peers say, beside what this node knows: numbers that cannot be, two leaders
 * of one term, and a leader whose log contradicts what is committed here.
 *
 * The happy path: every message of the core passes driver_believes() and driver_agrees() before the
 * core, or the disk, or anybody's memory gets anything of it.
 *
 * Failure modes:
 *  - A number that cannot be (plausible.h), or a second leader of a term: somebody lies. The
 *    message is refused, which closes the link, and the alarm is raised: a line of level error, at
 *    most one in ALARM_MS, and a count (leafd_peer_implausible_total).
 *  - A leader whose log has another entry where this node knows one to be committed: one of the two
 *    has lost data, or forged it. Nothing is changed; this node ends with ERR_CONTRADICTED, since
 *    it is the witness that acknowledged changes were lost. Where its own entries are compacted
 *    away it can only say that terms would have to fall.
 *
 * A leader that speaks the truth has every entry that was ever committed (Leader Completeness), so
 * neither happens among honest nodes whose disks kept what they were given.
 *
 * Thread: the raft loop.
 */
#include <stdio.h>
#include <string.h>

#include "raft/core/driver_internal.h"
#include "src/base/assert.h"
#include "src/base/log.h"

#define ALARM_MS 1000 /* between two lines about it */

/* --- numbers --- */

void driver_disbelieve(struct driver *driver, uint64_t from, const char *field, uint64_t value,
                       uint64_t bound)
{
    struct driver_alarm *alarm = &driver->alarm;
    uint64_t now = clock_now_ms(driver->clock);

    alarm->count++;
    if (alarm->logged && now - alarm->logged_ms < ALARM_MS) {
        alarm->unlogged++;
        return;
    }
    log_error(
        "raft", "a peer says what cannot be",
        "peer=%llu field=%s value=%llu bound=%llu own_term=%llu own_last=%llu "
        "not_logged_before_this=%llu hint=\"nothing of it is believed and its link is closed; "
        "see LeafdPeerImplausible in docs/operations.md\"",
        (unsigned long long)from, field, (unsigned long long)value, (unsigned long long)bound,
        (unsigned long long)raft_current_term(&driver->raft),
        (unsigned long long)raft_last_index(&driver->raft), (unsigned long long)alarm->unlogged);
    alarm->logged = true;
    alarm->logged_ms = now;
    alarm->unlogged = 0;
}

bool driver_believes_term(struct driver *driver, uint64_t from, const char *field, uint64_t term)
{
    uint64_t now = clock_now_ms(driver->clock);
    uint64_t own = raft_current_term(&driver->raft);
    uint64_t bound =
        plausible_term(&driver->plausible, own, raft_last_index(&driver->raft) > 0, now);

    if (term <= own || term <= bound) {
        return true;
    }
    plausible_refused(&driver->plausible, now);
    driver_disbelieve(driver, from, field, term, bound);
    return false;
}

bool driver_believes_index(struct driver *driver, uint64_t from, const char *field, uint64_t index)
{
    uint64_t bound = plausible_index(raft_last_index(&driver->raft));

    if (index <= bound) {
        return true;
    }
    driver_disbelieve(driver, from, field, index, bound);
    return false;
}

/* The decoder has seen to it that no other term of a message is above this one. */
static uint64_t term_of(const struct raft_message *message)
{
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        return message->append_entries.term;
    case RAFT_APPEND_ENTRIES_RESULT:
        return message->append_entries_result.term;
    case RAFT_REQUEST_VOTE:
        return message->request_vote.term;
    case RAFT_REQUEST_VOTE_RESULT:
        return message->request_vote_result.term;
    case RAFT_INSTALL_SNAPSHOT:
        return message->install_snapshot.term;
    case RAFT_TIMEOUT_NOW:
        return message->timeout_now.term;
    }
    UNREACHABLE("type of a message that was decoded");
}

static bool believes_indexes(struct driver *driver, uint64_t from,
                             const struct raft_message *message)
{
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        return driver_believes_index(driver, from, "previous_index",
                                     message->append_entries.prev_log_index) &&
               driver_believes_index(driver, from, "commit_index",
                                     message->append_entries.leader_commit);
    case RAFT_APPEND_ENTRIES_RESULT:
        return driver_believes_index(driver, from, "rejected_index",
                                     message->append_entries_result.rejected) &&
               driver_believes_index(driver, from, "last_index",
                                     message->append_entries_result.last_log_index);
    case RAFT_REQUEST_VOTE:
        return driver_believes_index(driver, from, "last_index",
                                     message->request_vote.last_log_index);
    case RAFT_INSTALL_SNAPSHOT:
        return driver_believes_index(driver, from, "snapshot_index",
                                     message->install_snapshot.last_index);
    case RAFT_TIMEOUT_NOW:
        return driver_believes_index(driver, from, "last_index",
                                     message->timeout_now.last_log_index);
    case RAFT_REQUEST_VOTE_RESULT:
        break;
    }
    return true;
}

/* --- leaders --- */

bool driver_believes_leader(struct driver *driver, uint64_t from, uint64_t term)
{
    uint64_t leader = driver->led.id;

    if (term != driver->led.term || from == leader) {
        return true;
    }
    driver_disbelieve(driver, from, "leader_of_term", from, leader);
    return false;
}

void driver_note_leader(struct driver *driver, uint64_t id, uint64_t term)
{
    if (term >= raft_current_term(&driver->raft) && term > driver->led.term) {
        driver->led.term = term;
        driver->led.id = id;
    }
}

/* Every log begins with the cluster's first configuration. A node that joined, and had anything
 * else there, could not start again. */
static bool believes_first_entry(struct driver *driver, uint64_t from,
                                 const struct raft_message *message)
{
    const struct raft_append_entries *args = &message->append_entries;

    if (message->type != RAFT_APPEND_ENTRIES || args->prev_log_index > 0 || args->n_entries == 0 ||
        args->entries[0].type == RAFT_CHANGE) {
        return true;
    }
    driver_disbelieve(driver, from, "type_of_entry_1", args->entries[0].type, RAFT_CHANGE);
    return false;
}

/* Everybody stands for himself, and grants what was asked for: a vote in this node's term, a
 * pre-vote for its next. */
static bool believes_vote(struct driver *driver, uint64_t from, const struct raft_message *message)
{
    const struct raft_request_vote *vote = &message->request_vote;
    const struct raft_request_vote_result *result = &message->request_vote_result;
    uint64_t asked = raft_current_term(&driver->raft);

    if (message->type == RAFT_REQUEST_VOTE && vote->candidate_id != from) {
        driver_disbelieve(driver, from, "candidate_id", vote->candidate_id, from);
        return false;
    }
    if (message->type != RAFT_REQUEST_VOTE_RESULT || !result->vote_granted) {
        return true;
    }
    asked += result->pre_vote ? 1 : 0;
    if (result->term > asked) {
        driver_disbelieve(driver, from, "granted_term", result->term, asked);
        return false;
    }
    return true;
}

bool driver_believes(struct driver *driver, uint64_t from, const struct raft_message *message)
{
    bool leads = message->type == RAFT_APPEND_ENTRIES || message->type == RAFT_INSTALL_SNAPSHOT;

    return believes_vote(driver, from, message) &&
           driver_believes_term(driver, from, "term", term_of(message)) &&
           believes_indexes(driver, from, message) && believes_first_entry(driver, from, message) &&
           (!leads || driver_believes_leader(driver, from, term_of(message)));
}

/* --- what is committed --- */

/* Where a leader's log and what is committed here part. */
struct contradiction {
    uint64_t index;
    uint64_t term;       /* there */
    uint64_t known_term; /* here; of an entry that is compacted away: what it is at most */
};

/* The term that a committed entry has here, or cannot be above: terms of a log never fall. */
static uint64_t highest_term_at(const struct driver *driver, uint64_t index, bool *ret_exact)
{
    uint64_t term = driver_term_at(driver, index);
    const struct log_entry *first;

    *ret_exact = term > 0;
    if (term > 0) {
        return term;
    }
    first =
        driver->log.first <= driver->commit ? entry_log_get(&driver->log, driver->log.first) : NULL;
    return first != NULL ? first->term : driver->applied.term;
}

/* May the leader's log have this term at an index that is committed here? */
static bool term_agrees(const struct driver *driver, uint64_t index, uint64_t term,
                        struct contradiction *ret_contradiction)
{
    bool exact;
    uint64_t known = highest_term_at(driver, index, &exact);

    if (exact ? term == known : term <= known) {
        return true;
    }
    *ret_contradiction = (struct contradiction){index, term, known};
    return false;
}

static bool entry_agrees(const struct driver *driver, uint64_t index,
                         const struct raft_entry *entry, struct contradiction *ret_contradiction)
{
    const struct log_entry *own = entry_log_get(&driver->log, index);

    if (!term_agrees(driver, index, entry->term, ret_contradiction)) {
        return false;
    }
    if (own == NULL || (own->type == entry->type && own->block->len == entry->buf.len &&
                        (own->block->len == 0 ||
                         memcmp(own->block->data, entry->buf.base, own->block->len) == 0))) {
        return true;
    }
    *ret_contradiction = (struct contradiction){index, entry->term, own->term};
    return false;
}

static bool append_agrees(const struct driver *driver, const struct raft_append_entries *args,
                          struct contradiction *ret_contradiction)
{
    uint64_t prev = args->prev_log_index;

    if (prev > 0 && prev <= driver->commit &&
        !term_agrees(driver, prev, args->prev_log_term, ret_contradiction)) {
        return false;
    }
    for (unsigned i = 0; i < args->n_entries && prev + 1 + i <= driver->commit; i++) {
        if (!entry_agrees(driver, prev + 1 + i, &args->entries[i], ret_contradiction)) {
            return false;
        }
    }
    return true;
}

/* A snapshot beyond what is committed here stands for that, too: its term, and the index of its
 * configuration, cannot be lower. */
static bool snapshot_agrees(const struct driver *driver, const struct raft_install_snapshot *args,
                            struct contradiction *ret_contradiction)
{
    uint64_t commit_term = driver_term_at(driver, driver->commit);

    if (args->last_index <= driver->commit) {
        return term_agrees(driver, args->last_index, args->last_term, ret_contradiction);
    }
    if (args->last_term < commit_term || args->conf_index < driver->applied.conf_index) {
        *ret_contradiction = (struct contradiction){driver->commit, args->last_term, commit_term};
        return false;
    }
    return true;
}

bool driver_agrees(struct driver *driver, uint64_t from, const struct raft_message *message)
{
    bool append = message->type == RAFT_APPEND_ENTRIES;
    uint64_t term = term_of(message);
    struct contradiction contradiction = {0};
    char text[380];

    if (driver->installing || term < raft_current_term(&driver->raft) ||
        (append ? append_agrees(driver, &message->append_entries, &contradiction)
                : snapshot_agrees(driver, &message->install_snapshot, &contradiction))) {
        return true;
    }
    snprintf(text, sizeof text,
             "node %llu leads term %llu with another entry %llu (term %llu) than the one committed "
             "here (term %llu): acknowledged changes were lost there, or forged. Nothing was "
             "changed here: stop all nodes, keep all data directories, and read 'The witness' in "
             "docs/failure-model.md",
             (unsigned long long)from, (unsigned long long)term,
             (unsigned long long)contradiction.index, (unsigned long long)contradiction.term,
             (unsigned long long)contradiction.known_term);
    driver_fail(driver, ERR_CONTRADICTED, text);
    return false;
}
