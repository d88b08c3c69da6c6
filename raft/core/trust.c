/*
 * trust.c - see trust.h. Thread: the raft loop.
 */
#include "raft/core/trust.h"

#include <string.h>

#include "raft/core/applier.h"
#include "raft/core/consensus.h"
#include "raft/core/message.h"
#include "src/base/assert.h"
#include "src/base/limits.h"
#include "src/base/log.h"
#include "src/state/state.h"

#define ALARM_MS 1000 /* between two log lines */

/* --- numbers --- */

_Static_assert(LIMIT_PLAUSIBLE <= UINT64_MAX / 4, "sums of two believed numbers do not wrap");

static uint64_t above(uint64_t number, uint64_t by)
{
    return number < LIMIT_PLAUSIBLE - 1 && by < LIMIT_PLAUSIBLE - 1 - number ? number + by
                                                                             : LIMIT_PLAUSIBLE - 1;
}

uint64_t plausible_term(uint64_t own, bool has_log)
{
    return has_log ? above(own, LIMIT_PLAUSIBLE_JUMP) : LIMIT_PLAUSIBLE - 1;
}

uint64_t plausible_index(uint64_t last)
{
    return last > 0 ? above(last, LIMIT_PLAUSIBLE_JUMP) : LIMIT_PLAUSIBLE - 1;
}

/* --- the alarm --- */

static uint64_t own_term(const struct trust *trust)
{
    return raft_current_term(&trust->consensus->raft);
}

static uint64_t own_last(const struct trust *trust)
{
    return raft_last_index(&trust->consensus->raft);
}

bool trust_alarm(struct trust *trust, uint64_t from, const char *field, uint64_t value,
                 uint64_t bound)
{
    struct trust_alarm *alarm = &trust->alarm;
    uint64_t now = clock_now_ms(trust->clock);

    alarm->count++;
    if (now < alarm->quiet_until_ms) {
        alarm->unlogged++;
        return false;
    }
    log_error(
        "raft", "a peer says what cannot be",
        "peer=%llu field=%s value=%llu bound=%llu own_term=%llu own_last=%llu "
        "not_logged_before_this=%llu hint=\"nothing of it is believed and its link is closed; "
        "see LeafdPeerImplausible in docs/operations.md\"",
        ull(from), field, ull(value), ull(bound), ull(own_term(trust)), ull(own_last(trust)),
        ull(alarm->unlogged));
    alarm->quiet_until_ms = now + ALARM_MS;
    alarm->unlogged = 0;
    return false;
}

bool trust_term(struct trust *trust, uint64_t from, const char *field, uint64_t term)
{
    uint64_t bound = plausible_term(own_term(trust), own_last(trust) > 0);

    return term <= own_term(trust) || term <= bound || trust_alarm(trust, from, field, term, bound);
}

bool trust_index(struct trust *trust, uint64_t from, const char *field, uint64_t index)
{
    uint64_t bound = plausible_index(own_last(trust));

    return index <= bound || trust_alarm(trust, from, field, index, bound);
}

static bool believes_indexes(struct trust *trust, uint64_t from, const struct raft_message *message)
{
    const struct raft_append_entries *args = &message->append_entries;

    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        /* Every log begins with the cluster's first configuration. A joined node with any other
         * first entry could not start again. */
        return trust_index(trust, from, "previous_index", args->prev_log_index) &&
               trust_index(trust, from, "commit_index", args->leader_commit) &&
               (args->prev_log_index > 0 || args->n_entries == 0 ||
                args->entries[0].type == RAFT_CHANGE ||
                trust_alarm(trust, from, "type_of_entry_1", args->entries[0].type, RAFT_CHANGE));
    case RAFT_APPEND_ENTRIES_RESULT:
        return trust_index(trust, from, "rejected_index",
                           message->append_entries_result.rejected) &&
               trust_index(trust, from, "last_index",
                           message->append_entries_result.last_log_index);
    case RAFT_REQUEST_VOTE:
        return trust_index(trust, from, "last_index", message->request_vote.last_log_index);
    case RAFT_INSTALL_SNAPSHOT:
        return trust_index(trust, from, "snapshot_index", message->install_snapshot.last_index);
    case RAFT_TIMEOUT_NOW:
        return trust_index(trust, from, "last_index", message->timeout_now.last_log_index);
    case RAFT_REQUEST_VOTE_RESULT:
        break;
    }
    return true;
}

/* --- leaders --- */

void trust_note_leader(struct trust *trust, uint64_t id, uint64_t term)
{
    ASSERT(id > 0 && term > 0);
    if (term >= own_term(trust) && term > trust->led_term) {
        trust->led_term = term;
        trust->leader = id;
    }
}

/* A candidate requests votes for itself. A reply grants the request: a vote in this node's term, a
 * pre-vote for its next. */
static bool believes_vote(struct trust *trust, uint64_t from, const struct raft_message *message)
{
    const struct raft_request_vote *vote = &message->request_vote;
    const struct raft_request_vote_result *result = &message->request_vote_result;
    uint64_t asked = own_term(trust);

    if (message->type == RAFT_REQUEST_VOTE && vote->candidate_id != from) {
        return trust_alarm(trust, from, "candidate_id", vote->candidate_id, from);
    }
    if (message->type != RAFT_REQUEST_VOTE_RESULT || !result->vote_granted) {
        return true;
    }
    asked += result->pre_vote ? 1 : 0;
    return result->term <= asked || trust_alarm(trust, from, "granted_term", result->term, asked);
}

bool trust_message(struct trust *trust, uint64_t from, const struct raft_message *message)
{
    uint64_t term = message_term(message);

    return believes_vote(trust, from, message) && trust_term(trust, from, "term", term) &&
           believes_indexes(trust, from, message) &&
           (!message_is_of_leader(message) || term != trust->led_term || from == trust->leader ||
            trust_alarm(trust, from, "leader_of_term", from, trust->leader));
}

/* --- a leader's log --- */

uint64_t witness_term_at(const struct witness *witness, uint64_t index)
{
    const struct log_entry *entry = entry_log_get(witness->log, index);

    if (entry != NULL) {
        return entry->term;
    }
    return index == witness->applier->applied.index ? witness->applier->applied.term : 0;
}

/* May the leader's log have this term at an index that is committed here? */
static bool term_agrees(const struct witness *witness, uint64_t index, uint64_t term,
                        struct contradiction *ret_contradiction)
{
    const struct log_entry *first = witness->log->first <= *witness->commit
                                        ? entry_log_get(witness->log, witness->log->first)
                                        : NULL;
    uint64_t known = witness_term_at(witness, index);
    /* An upper bound where the term is not known: terms of a log never fall. */
    uint64_t most = known > 0       ? known
                    : first != NULL ? first->term
                                    : witness->applier->applied.term;

    if (known > 0 ? term == known : term <= most) {
        return true;
    }
    *ret_contradiction = (struct contradiction){index, term, most};
    return false;
}

static bool entry_agrees(const struct witness *witness, uint64_t index,
                         const struct raft_entry *entry, struct contradiction *ret_contradiction)
{
    const struct log_entry *own = entry_log_get(witness->log, index);

    if (!term_agrees(witness, index, entry->term, ret_contradiction)) {
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

static bool append_agrees(const struct witness *witness, const struct raft_append_entries *args,
                          struct contradiction *ret_contradiction)
{
    uint64_t prev = args->prev_log_index;

    if (prev > 0 && prev <= *witness->commit &&
        !term_agrees(witness, prev, args->prev_log_term, ret_contradiction)) {
        return false;
    }
    for (unsigned i = 0; i < args->n_entries && prev + 1 + i <= *witness->commit; i++) {
        if (!entry_agrees(witness, prev + 1 + i, &args->entries[i], ret_contradiction)) {
            return false;
        }
    }
    return true;
}

/* A snapshot beyond this node's commit index includes all entries committed here: its term, and the
 * index of its configuration, cannot be lower. */
static bool snapshot_agrees(const struct witness *witness, const struct raft_install_snapshot *args,
                            struct contradiction *ret_contradiction)
{
    uint64_t commit_term = witness_term_at(witness, *witness->commit);

    if (args->last_index <= *witness->commit) {
        return term_agrees(witness, args->last_index, args->last_term, ret_contradiction);
    }
    if (args->last_term < commit_term || args->conf_index < witness->applier->applied.conf_index) {
        *ret_contradiction = (struct contradiction){*witness->commit, args->last_term, commit_term};
        return false;
    }
    return true;
}

bool witness_agrees(const struct witness *witness, const struct raft_message *message,
                    struct contradiction *ret_contradiction)
{
    ASSERT(message_is_of_leader(message));
    return message->type == RAFT_APPEND_ENTRIES
               ? append_agrees(witness, &message->append_entries, ret_contradiction)
               : snapshot_agrees(witness, &message->install_snapshot, ret_contradiction);
}

/* --- entries of a leader --- */

static enum entries_verdict judge_command(const struct witness *witness, uint64_t index,
                                          const struct raft_entry *entry,
                                          struct entries_checked *checked)
{
    const struct state *state = witness->applier->state;
    int err = state_check(state, entry->buf.base, entry->buf.len);
    struct node_info info;
    struct birth birth;
    bool went_back;

    if (err == 0 && state_can_apply(state, entry->buf.base, entry->buf.len)) {
        return ENTRIES_FINE;
    }
    if (err != 0 && err != ERR_NEWER) {
        checked->field = "entry_that_does_not_decode";
        checked->value = index;
        return ENTRIES_LIE;
    }
    /* This leafd does not know it. Did this node once run a newer one? The state says so, or, while
     * it has no node yet, the birth: the first members had said that they speak its level. */
    if (witness->applier->applied.index + 1 < index) {
        return ENTRIES_CUT;
    }
    checked->field = "entry_of_a_later_level";
    checked->value = index;
    checked->bound = state_levels(state).max;
    went_back = (state_node(state, witness->node_id, &info) && info.levels.max > checked->bound) ||
                (!state_birth(state, &birth) &&
                 command_number(entry->buf.base, entry->buf.len) == COMMAND_BIRTH_AT);
    return went_back ? ENTRIES_NEWER : ENTRIES_LIE;
}

enum entries_verdict entries_check(const struct witness *witness,
                                   const struct raft_append_entries *append,
                                   struct entries_checked *ret_checked)
{
    enum entries_verdict verdict = ENTRIES_FINE;
    const struct log_entry *last = entry_log_get(witness->log, append->prev_log_index);
    unsigned i;

    *ret_checked = (struct entries_checked){0};
    if (last != NULL && last->term != append->prev_log_term) {
        return ENTRIES_FINE; /* they follow an entry that is not here: the core takes none */
    }
    for (i = 0; i < append->n_entries && verdict == ENTRIES_FINE; i++) {
        const struct raft_entry *entry = &append->entries[i];
        uint64_t index = append->prev_log_index + 1 + i;

        if (index <= *witness->commit) {
            continue; /* it is committed, and on the disk: the witness compares it */
        }
        ret_checked->at = i;
        if (entry->type == RAFT_COMMAND) {
            verdict = judge_command(witness, index, entry, ret_checked);
        } else if (entry->type == RAFT_BARRIER && entry->buf.len > BARRIER_BYTES_MAX) {
            ret_checked->field = "barrier_bytes";
            ret_checked->value = entry->buf.len;
            ret_checked->bound = BARRIER_BYTES_MAX;
            verdict = ENTRIES_LIE;
        }
    }
    return verdict;
}
