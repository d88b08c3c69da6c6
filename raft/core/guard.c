/*
 * guard.c - see guard.h. Thread: any.
 */
#include "raft/core/guard.h"

#include "src/base/assert.h"

/* The guards are written for this release alone: a later one changed the ownership of memory under
 * the same version number, so scripts/check-raft-version also pins the package. */
_Static_assert(RAFT_VERSION_NUMBER == 2201, "leafd is written for C-Raft 0.22.1");
_Static_assert(sizeof(struct raft) == 992 || sizeof(void *) != 8,
               "struct raft differs from the library's: is RAFT__LEGACY_no defined?");

unsigned guard_split(const struct raft_entry *entries, unsigned from, unsigned n)
{
    unsigned end = from + 1;

    ASSERT(from < n);
    while (end < n && entries[end].type != RAFT_CHANGE) {
        end++;
    }
    return end - from;
}

void guard_stale_result(struct raft_message *out, bool stale)
{
    if (stale && out->type == RAFT_APPEND_ENTRIES_RESULT) {
        out->append_entries_result.last_log_index = 0;
    }
}

bool guard_drop_rejection(const struct raft_message *in, raft_term own_term, raft_index match)
{
    const struct raft_append_entries_result *result = &in->append_entries_result;

    return in->type == RAFT_APPEND_ENTRIES_RESULT && result->term == own_term &&
           result->rejected != 0 && result->rejected <= match;
}

unsigned guard_normalise(struct raft_message *in, raft_term own_term, raft_index commit,
                         raft_term commit_term)
{
    struct raft_append_entries *args = &in->append_entries;
    raft_index skip;

    if (in->type != RAFT_APPEND_ENTRIES || args->term < own_term ||
        args->prev_log_index >= commit || commit_term == 0) {
        return 0;
    }
    skip = commit - args->prev_log_index;
    if (skip < args->n_entries) {
        /* Log matching: a committed entry is the same in the log of every later leader. */
        ASSERT(args->entries[skip - 1].term == commit_term);
    } else {
        skip = args->n_entries;
    }
    args->prev_log_index = commit;
    args->prev_log_term = commit_term;
    return (unsigned)skip;
}

bool guard_vote_as_voter(const struct raft_message *in, int state, int role, raft_index last_index)
{
    return in->type == RAFT_REQUEST_VOTE && state == RAFT_FOLLOWER && role != RAFT_VOTER &&
           last_index > 0;
}

bool guard_forget_leader(raft_time now, raft_time leader_heard, unsigned election_timeout)
{
    return now >= leader_heard && now - leader_heard >= election_timeout;
}

static bool guard_is_behind(raft_term term, raft_index index, raft_term than_term,
                            raft_index than_index)
{
    return term < than_term || (term == than_term && index < than_index);
}

bool guard_vote_before_demotion(struct raft_message *in, raft_index before_index,
                                raft_term before_term, raft_index last_index, raft_term last_term)
{
    struct raft_request_vote *vote = &in->request_vote;

    if (in->type != RAFT_REQUEST_VOTE || before_term == 0 ||
        guard_is_behind(vote->last_log_term, vote->last_log_index, before_term, before_index) ||
        !guard_is_behind(vote->last_log_term, vote->last_log_index, last_term, last_index)) {
        return false;
    }
    vote->last_log_index = last_index;
    vote->last_log_term = last_term;
    return true;
}

void guard_pre_vote_refusal(struct raft_message *out, raft_term own_term)
{
    struct raft_request_vote_result *result = &out->request_vote_result;

    if (out->type == RAFT_REQUEST_VOTE_RESULT && result->pre_vote && !result->vote_granted &&
        own_term > result->term) {
        result->term = own_term;
    }
}

raft_time guard_timer(raft_time timeout, raft_time now)
{
    return timeout > now ? timeout : now + 1;
}

bool guard_drop_vote_result(const struct raft_message *in, int state)
{
    return in->type == RAFT_REQUEST_VOTE_RESULT && state != RAFT_CANDIDATE;
}

bool guard_own_term_applied(raft_term applied_term, raft_term own_term)
{
    return own_term > 0 && applied_term == own_term;
}

bool guard_sole_voter(const struct configuration *configuration, raft_id self)
{
    unsigned voters = configuration_voters(configuration);
    bool self_votes = configuration_role(configuration, self) == ROLE_VOTER;

    return voters == 1 && self_votes;
}
