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

uint64_t plausible_bound(uint64_t own, bool has_log)
{
    return has_log && own < LIMIT_PLAUSIBLE - 1 - LIMIT_PLAUSIBLE_JUMP ? own + LIMIT_PLAUSIBLE_JUMP
                                                                       : LIMIT_PLAUSIBLE - 1;
}

/* --- the alarm --- */

bool trust_alarm(struct trust *trust, uint64_t from, const char *field, uint64_t value,
                 uint64_t bound)
{
    struct trust_alarm *alarm = &trust->alarm;
    struct raft *raft = &trust->consensus->raft;
    uint64_t now = clock_now_ms(trust->clock);

    alarm->count++;
    if (now < alarm->quiet_until_ms) {
        alarm->unlogged++;
        return false;
    }
    log_error(
        "raft", "a peer sent an impossible value",
        "peer=%llu field=%s value=%llu bound=%llu own_term=%llu own_last=%llu "
        "not_logged_before_this=%llu hint=\"the message has no effect and its link is closed; "
        "see LeafdPeerImplausible in docs/operations.md\"",
        ull(from), field, ull(value), ull(bound), ull(raft_current_term(raft)),
        ull(raft_last_index(raft)), ull(alarm->unlogged));
    alarm->quiet_until_ms = now + ALARM_MS;
    alarm->unlogged = 0;
    return false;
}

bool trust_term(struct trust *trust, uint64_t from, const char *field, uint64_t term)
{
    struct raft *raft = &trust->consensus->raft;
    uint64_t own = raft_current_term(raft);
    uint64_t bound = plausible_bound(own, raft_last_index(raft) > 0);

    return term <= own || term <= bound || trust_alarm(trust, from, field, term, bound);
}

bool trust_index(struct trust *trust, uint64_t from, const char *field, uint64_t index)
{
    uint64_t last = raft_last_index(&trust->consensus->raft);
    uint64_t bound = plausible_bound(last, last > 0);

    return index <= bound || trust_alarm(trust, from, field, index, bound);
}

/* --- leaders --- */

void trust_note_leader(struct trust *trust, uint64_t id, uint64_t term)
{
    ASSERT(id > 0 && term > 0);
    if (term >= raft_current_term(&trust->consensus->raft) && term > trust->led_term) {
        trust->led_term = term;
        trust->leader = id;
    }
}

bool trust_message(struct trust *trust, uint64_t from, const struct raft_message *message)
{
    const struct raft_append_entries *args = &message->append_entries;
    const struct raft_append_entries_result *acked = &message->append_entries_result;
    const struct raft_request_vote_result *vote = &message->request_vote_result;
    uint64_t candidate = message->request_vote.candidate_id;
    uint64_t term = message_term(message);
    uint64_t asked = raft_current_term(&trust->consensus->raft);
    bool believed = true;

    if (message->type == RAFT_REQUEST_VOTE && candidate != from) { /* requested for another node */
        return trust_alarm(trust, from, "candidate_id", candidate, from);
    }
    /* A reply grants the request: a vote in this node's term, a pre-vote for its next. */
    if (message->type == RAFT_REQUEST_VOTE_RESULT && vote->vote_granted) {
        asked += vote->pre_vote ? 1 : 0;
        believed = term <= asked || trust_alarm(trust, from, "granted_term", term, asked);
    }
    if (!believed || !trust_term(trust, from, "term", term)) {
        return false;
    }
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        /* Every log begins with the cluster's first configuration. A joined node with any other
         * first entry could not start again. */
        believed =
            trust_index(trust, from, "previous_index", args->prev_log_index) &&
            trust_index(trust, from, "commit_index", args->leader_commit) &&
            (args->prev_log_index > 0 || args->n_entries == 0 ||
             args->entries[0].type == RAFT_CHANGE ||
             trust_alarm(trust, from, "type_of_entry_1", args->entries[0].type, RAFT_CHANGE));
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        believed = trust_index(trust, from, "rejected_index", acked->rejected) &&
                   trust_index(trust, from, "last_index", acked->last_log_index);
        break;
    case RAFT_REQUEST_VOTE:
        believed = trust_index(trust, from, "last_index", message->request_vote.last_log_index);
        break;
    case RAFT_INSTALL_SNAPSHOT:
        believed = trust_index(trust, from, "snapshot_index", message->install_snapshot.last_index);
        break;
    case RAFT_TIMEOUT_NOW:
        believed = trust_index(trust, from, "last_index", message->timeout_now.last_log_index);
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        break;
    }
    return believed &&
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

bool witness_agrees(const struct witness *witness, const struct raft_message *message,
                    struct contradiction *ret_contradiction)
{
    const struct raft_append_entries *append = &message->append_entries;
    const struct raft_install_snapshot *head = &message->install_snapshot;
    uint64_t commit_term = witness_term_at(witness, *witness->commit);
    uint64_t prev = append->prev_log_index;

    ASSERT(message_is_of_leader(message));
    if (message->type == RAFT_INSTALL_SNAPSHOT) {
        if (head->last_index <= *witness->commit) {
            return term_agrees(witness, head->last_index, head->last_term, ret_contradiction);
        }
        /* It includes all entries committed here: its term, and the index of its configuration,
         * cannot be lower. */
        *ret_contradiction = (struct contradiction){*witness->commit, head->last_term, commit_term};
        return head->last_term >= commit_term &&
               head->conf_index >= witness->applier->applied.conf_index;
    }
    if (prev > 0 && prev <= *witness->commit &&
        !term_agrees(witness, prev, append->prev_log_term, ret_contradiction)) {
        return false;
    }
    for (unsigned i = 0; i < append->n_entries && prev + 1 + i <= *witness->commit; i++) {
        const struct raft_entry *entry = &append->entries[i];
        const struct log_entry *own = entry_log_get(witness->log, prev + 1 + i);

        if (!term_agrees(witness, prev + 1 + i, entry->term, ret_contradiction)) {
            return false;
        }
        if (own != NULL && (own->type != entry->type || own->block->len != entry->buf.len ||
                            (entry->buf.len > 0 &&
                             memcmp(own->block->data, entry->buf.base, entry->buf.len) != 0))) {
            *ret_contradiction = (struct contradiction){prev + 1 + i, entry->term, own->term};
            return false;
        }
    }
    return true;
}

/* --- entries of a leader --- */

static enum entries_verdict judge_command(const struct witness *witness, uint64_t index,
                                          const struct raft_entry *entry,
                                          struct entries_checked *checked)
{
    const struct state *state = witness->applier->state;
    int err = state_check(state, entry->buf.base, entry->buf.len);
    const struct node_info *info = state_node(state, witness->node_id);
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
    checked->bound = state->facts.speaks.max;
    went_back = (info != NULL && info->levels.max > checked->bound) ||
                (state_birth(state) == NULL &&
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
