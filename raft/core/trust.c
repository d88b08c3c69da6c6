/*
 * trust.c - see trust.h. Thread: the raft loop.
 */
#include "raft/core/trust.h"

#include "raft/core/consensus.h"
#include "raft/core/message.h"
#include "src/base/assert.h"
#include "src/base/limits.h"
#include "src/base/log.h"

#define ALARM_MS 1000 /* between two lines about it */

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

void trust_init(struct trust *trust, const struct clock *clock, struct consensus *consensus)
{
    *trust = (struct trust){.clock = clock, .consensus = consensus};
}

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
    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        return trust_index(trust, from, "previous_index", message->append_entries.prev_log_index) &&
               trust_index(trust, from, "commit_index", message->append_entries.leader_commit);
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

static bool believes_leader(struct trust *trust, uint64_t from, uint64_t term)
{
    return term != trust->led_term || from == trust->leader ||
           trust_alarm(trust, from, "leader_of_term", from, trust->leader);
}

void trust_note_leader(struct trust *trust, uint64_t id, uint64_t term)
{
    ASSERT(id > 0 && term > 0);
    if (term >= own_term(trust) && term > trust->led_term) {
        trust->led_term = term;
        trust->leader = id;
    }
}

/* Every log begins with the cluster's first configuration. A node that joined, and had anything
 * else there, could not start again. */
static bool believes_first_entry(struct trust *trust, uint64_t from,
                                 const struct raft_message *message)
{
    const struct raft_append_entries *args = &message->append_entries;

    if (message->type != RAFT_APPEND_ENTRIES || args->prev_log_index > 0 || args->n_entries == 0 ||
        args->entries[0].type == RAFT_CHANGE) {
        return true;
    }
    return trust_alarm(trust, from, "type_of_entry_1", args->entries[0].type, RAFT_CHANGE);
}

/* Everybody stands for himself, and grants what was asked for: a vote in this node's term, a
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
           believes_indexes(trust, from, message) && believes_first_entry(trust, from, message) &&
           (!message_is_of_leader(message) || believes_leader(trust, from, term));
}
