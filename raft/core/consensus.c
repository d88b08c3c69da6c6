/*
 * consensus.c - see consensus.h. Thread: the raft loop.
 */
#include "raft/core/consensus.h"

#include <stdlib.h>
#include <string.h>

#include "raft/core/message.h"
#include "src/base/assert.h"

/* The guards are written for this release alone: a later one changed the ownership of memory under
 * the same version number, so scripts/check-raft-version also pins the package. */
_Static_assert(RAFT_VERSION_NUMBER == 2201, "leafd is written for C-Raft 0.22.1");
_Static_assert(sizeof(struct raft) == 992 || sizeof(void *) != 8,
               "struct raft differs from the library's: is RAFT__LEGACY_no defined?");
_Static_assert((int)ROLE_STANDBY == RAFT_STANDBY && (int)ROLE_VOTER == RAFT_VOTER &&
                   (int)ROLE_SPARE == RAFT_SPARE,
               "a role is the same number in wire.h and in the library");

struct consensus *consensus_new(uint64_t node_id, const char *address, uint32_t heartbeat_ms,
                                uint32_t election_ms, uint64_t seed, const struct clock *clock)
{
    struct consensus *consensus = MUST_HAVE(calloc(1, sizeof *consensus));
    struct raft *raft;

    ASSERT(node_id > 0);
    raft = &consensus->raft;
    ASSERT(raft_init(raft, NULL, NULL, node_id, address) == 0);
    raft_seed(raft, (unsigned)seed);
    raft->tracer = NULL;
    raft_set_election_timeout(raft, election_ms);
    raft_set_heartbeat_timeout(raft, heartbeat_ms);
    raft_set_install_snapshot_timeout(raft, 3 * election_ms);
    raft_set_pre_vote(raft, true);
    raft_set_max_inflight_entries(raft, LIMIT_ENTRIES_PER_FRAME);
    consensus->clock = clock;
    consensus->heard_ms = clock_now_ms(clock);
    return consensus;
}

int consensus_metadata(const struct store_position *position,
                       struct raft_snapshot_metadata *ret_metadata)
{
    memset(ret_metadata, 0, sizeof *ret_metadata);
    ret_metadata->index = position->index;
    ret_metadata->term = position->term;
    ret_metadata->configuration_index = position->conf_index;
    return message_conf_decode(position->conf, position->conf_len, &ret_metadata->configuration);
}

/* --- steps --- */

int consensus_step(struct consensus *consensus, struct raft_event *event, bool as_voter,
                   uint64_t no_vote, struct raft_update *ret_update)
{
    const unsigned used = (unsigned)(RAFT_UPDATE_SNAPSHOT) | (unsigned)(RAFT_UPDATE_MESSAGES);
    struct raft *raft = &consensus->raft;
    const struct raft_configuration *now = &raft->configuration;
    struct raft_configuration saved = raft->configuration;
    struct raft_server self = {raft->id, raft->address, RAFT_VOTER};
    uint64_t term = raft_current_term(raft);
    int rv;

    event->time = clock_now_ms(consensus->clock);
    memset(ret_update, 0, sizeof *ret_update);
    if (as_voter) {
        raft->configuration.servers = &self;
        raft->configuration.n = 1;
    }
    rv = raft_step(raft, event, ret_update);
    if (as_voter) {
        ASSERT(raft->configuration.servers == &self);
        raft->configuration = saved;
    }
    if (rv != 0) {
        return rv;
    }
    ASSERT(raft_current_term(raft) >= term);
    /* The library leaks a received snapshot if the update has neither of these flags. */
    if (event->type == RAFT_RECEIVE && event->receive.message->type == RAFT_INSTALL_SNAPSHOT &&
        (ret_update->flags & used) == 0) {
        raft_configuration_close(&event->receive.message->install_snapshot.conf);
        raft_free(event->receive.message->install_snapshot.data.base);
    }
    /* Steps change it with entries that are added or cut, and with snapshots. */
    ASSERT(now->n <= LIMIT_NODES);
    consensus->configuration.count = 0;
    for (unsigned i = 0; i < now->n; i++) {
        configuration_add(&consensus->configuration, now->servers[i].id, now->servers[i].address,
                          (enum conf_role)now->servers[i].role);
    }
    if (raft->state == RAFT_CANDIDATE && !raft->candidate_state.in_pre_vote &&
        raft->current_term > term && raft->current_term <= no_vote) {
        /* The campaign that the step has begun, and its vote requests, move to the next term. */
        ASSERT(raft->voted_for == raft->id);
        raft->current_term++;
        for (unsigned i = 0; i < ret_update->messages.n; i++) {
            struct raft_message *message = &ret_update->messages.batch[i];

            if (message->type == RAFT_REQUEST_VOTE) {
                message->request_vote.term = raft->current_term;
            }
        }
    }
    return 0;
}

/* --- guards --- */

unsigned guard_split(const struct raft_entry *entries, unsigned from, unsigned n)
{
    unsigned end = from + 1;

    ASSERT(from < n);
    while (end < n && entries[end].type != RAFT_CHANGE) {
        end++;
    }
    return end - from;
}

void guard_result(struct raft_message *out, bool stale, raft_term own_term)
{
    struct raft_request_vote_result *vote = &out->request_vote_result;

    if (out->type == RAFT_APPEND_ENTRIES_RESULT && stale) {
        out->append_entries_result.last_log_index = 0;
    } else if (out->type == RAFT_REQUEST_VOTE_RESULT && vote->pre_vote && !vote->vote_granted &&
               own_term > vote->term) {
        vote->term = own_term;
    }
}

bool guard_drops(const struct raft_message *in, int state, raft_term own_term, raft_index match)
{
    const struct raft_append_entries_result *result = &in->append_entries_result;

    return (in->type == RAFT_REQUEST_VOTE_RESULT && state != RAFT_CANDIDATE) ||
           (in->type == RAFT_APPEND_ENTRIES_RESULT && state == RAFT_LEADER &&
            result->term == own_term && result->rejected != 0 && result->rejected <= match);
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

static bool guard_is_older(raft_term term, raft_index index, raft_term than_term,
                           raft_index than_index)
{
    return term < than_term || (term == than_term && index < than_index);
}

bool guard_vote_before_demotion(struct raft_message *in, raft_index before_index,
                                raft_term before_term, raft_index last_index, raft_term last_term)
{
    struct raft_request_vote *vote = &in->request_vote;

    if (in->type != RAFT_REQUEST_VOTE || before_term == 0 ||
        guard_is_older(vote->last_log_term, vote->last_log_index, before_term, before_index) ||
        !guard_is_older(vote->last_log_term, vote->last_log_index, last_term, last_index)) {
        return false;
    }
    vote->last_log_index = last_index;
    vote->last_log_term = last_term;
    return true;
}

bool guard_sole_voter(const struct configuration *configuration, raft_id self)
{
    return configuration_voters(configuration) == 1 &&
           configuration_role(configuration, self) == ROLE_VOTER;
}

/* --- leader_watch --- */

#define MISSED_HEARTBEATS 2 /* of a leader whose address refuses connections */

static unsigned patience_ms(const struct consensus *consensus)
{
    const struct raft *raft = &consensus->raft;
    unsigned missed_ms = MISSED_HEARTBEATS * raft->heartbeat_timeout;

    switch (consensus->trust) {
    case LEADER_RESIGNED:
        return 0;
    case LEADER_REFUSED:
        return missed_ms < raft->election_timeout ? missed_ms : raft->election_timeout;
    default:
        return raft->election_timeout;
    }
}

void leader_watch_forget_silent(struct consensus *consensus)
{
    struct raft *raft = &consensus->raft;
    uint64_t now = clock_now_ms(consensus->clock);

    if (raft->state == RAFT_FOLLOWER && now >= consensus->heard_ms &&
        now - consensus->heard_ms >= patience_ms(consensus)) {
        raft->follower_state.current_leader.id = 0;
    }
}

bool leader_watch_lost(struct consensus *consensus, uint64_t leader, enum leader_trust why)
{
    struct raft *raft = &consensus->raft;
    uint64_t now = clock_now_ms(consensus->clock);
    uint64_t due = now;
    uint64_t self = raft->id;
    unsigned before = 0;

    if (raft->state != RAFT_FOLLOWER || raft->follower_state.current_leader.id != leader ||
        (why == LEADER_REFUSED && consensus->trust == LEADER_RESIGNED)) {
        return false;
    }
    ASSERT(self != leader);
    consensus->trust = why;
    /* All nodes notice at the same time that it resigned, but may have heard the last heartbeat
     * long ago. */
    if (why != LEADER_RESIGNED) {
        due = consensus->heard_ms + patience_ms(consensus);
    }
    /* This node's turn is the number of voters before it in a ring that begins after the leader:
     * two candidates at once would split the votes. */
    MEMBER_FOREACH (member, &consensus->configuration) {
        uint64_t id = member->id;

        if (member->role == ROLE_VOTER && id != leader) {
            before += self > leader ? id > leader && id < self : id > leader || id < self;
        }
    }
    due += before * (uint64_t)raft->heartbeat_timeout;
    due = due > now ? due : now;
    if (raft_role(raft) != RAFT_VOTER || due >= raft_timeout(raft) ||
        due < raft->election_timer_start) {
        return false;
    }
    if (consensus->drawn_timeout_ms == 0) {
        consensus->drawn_timeout_ms = raft->follower_state.randomized_election_timeout;
    }
    raft->follower_state.randomized_election_timeout = (unsigned)(due - raft->election_timer_start);
    ASSERT(raft_timeout(raft) == due);
    return true;
}
