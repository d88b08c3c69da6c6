/*
 * membership_ask.c - what the leader answers when somebody asks for a member, for one member less,
 * or for another leader (membership.h).
 *
 * The happy path: what is asked is so already: done. Nothing stands against it: it begins, and the
 * answer is "pending"; the node that asked for its client asks again until it is done.
 *
 * Failure modes: each has an outcome and a sentence with the values.
 *
 * Thread: the raft loop.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "raft/cluster/membership_internal.h"
#include "src/base/assert.h"

#define LAG_ENTRIES 1000 /* more: a voter is too far behind to lead soon */

#define ULL(number) ((unsigned long long)(number))

static struct member_answer say(enum member_outcome outcome, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static struct member_answer say(enum member_outcome outcome, const char *format, ...)
{
    struct member_answer answer = {.outcome = (uint8_t)outcome};
    va_list args;

    va_start(args, format);
    (void)vsnprintf(answer.why, sizeof answer.why, format, args);
    va_end(args);
    return answer;
}

static struct member_answer say_in_progress(const struct member_change *change)
{
    return say(MEMBER_IN_PROGRESS, "node %llu is being %s: one change at a time",
               ULL(change->node_id), change->kind == MEMBER_ADD ? "added" : "removed");
}

static struct member_answer say_removed(uint64_t node_id)
{
    return say(MEMBER_WAS_REMOVED,
               "node %llu was removed from the cluster, and its id never comes back: give the node "
               "an empty data directory and a new id",
               ULL(node_id));
}

static struct member_answer say_no_quorum(const struct voter_count *count)
{
    return say(MEMBER_NO_QUORUM,
               "only %u of the %u voters of afterwards can be reached now, and %u are needed; "
               "force=1 does it nevertheless",
               count->reached, count->voters, count->voters / 2 + 1);
}

/* The change under way, NULL if there is none. */
static const struct member_change *under_way(const struct membership *membership)
{
    const struct member_change *change = fsm_member_change(membership->fsm);

    return change != NULL && !change->given_up ? change : NULL;
}

/* Was this very change given up, and is this not a new wish for it? */
static bool was_given_up(const struct membership *membership, const struct member_ask *ask,
                         uint8_t kind)
{
    const struct member_change *change = fsm_member_change(membership->fsm);

    return ask->again && change != NULL && change->given_up && change->kind == kind &&
           change->node_id == ask->node_id;
}

static struct member_answer begin(struct membership *membership, const struct member_ask *ask,
                                  uint8_t kind)
{
    struct member_change change = {.kind = kind, .force = ask->force, .node_id = ask->node_id};

    if (kind == MEMBER_ADD) {
        memcpy(change.address, ask->address, sizeof change.address);
    }
    membership_begin(membership, &change, &ask->stamp);
    return say(MEMBER_PENDING, "node %llu is being %s", ULL(ask->node_id),
               kind == MEMBER_ADD ? "added" : "removed");
}

static const struct conf_member *with_address(const struct membership *membership,
                                              const char *address)
{
    const struct configuration *configuration = driver_configuration(membership->driver);

    for (unsigned i = 0; i < configuration->count; i++) {
        if (strcmp(configuration->members[i].address, address) == 0) {
            return &configuration->members[i];
        }
    }
    return NULL;
}

static struct member_answer ask_add(struct membership *membership, const struct member_ask *ask)
{
    const struct conf_member *server = driver_member(membership->driver, ask->node_id);
    const struct conf_member *other = with_address(membership, ask->address);
    const struct member_change *change = under_way(membership);
    struct voter_count count;

    if (fsm_member_removed(membership->fsm, ask->node_id)) {
        return say_removed(ask->node_id);
    }
    if (server != NULL && strcmp(server->address, ask->address) != 0) {
        return say(MEMBER_EXISTS, "node %llu is a member already, at %.100s", ULL(ask->node_id),
                   server->address);
    }
    if (other != NULL && other != server) {
        return say(MEMBER_ADDRESS_IN_USE, "%.100s is the address of node %llu", ask->address,
                   ULL(other->id));
    }
    if (change != NULL && change->node_id == ask->node_id && change->kind == MEMBER_ADD &&
        strcmp(change->address, ask->address) == 0) {
        return say(MEMBER_PENDING, "node %llu is being added", ULL(ask->node_id));
    }
    if (change != NULL && change->node_id == ask->node_id && change->kind == MEMBER_ADD) {
        return say(MEMBER_EXISTS, "node %llu is being added already, at %.100s", ULL(ask->node_id),
                   change->address);
    }
    if (server != NULL && server->role == ROLE_VOTER && change == NULL) {
        return say(MEMBER_DONE, "node %llu is a member", ULL(ask->node_id));
    }
    if (was_given_up(membership, ask, MEMBER_ADD)) {
        return say(MEMBER_GIVEN_UP,
                   "node %llu did not catch up with the log in time; it stays a standby: is it "
                   "running, can it be reached at %.80s? Ask again, or remove it",
                   ULL(ask->node_id), ask->address);
    }
    if (change != NULL) {
        return say_in_progress(change);
    }
    if (server == NULL && driver_configuration(membership->driver)->count >= LIMIT_NODES) {
        return say(MEMBER_TOO_MANY, "the cluster has %d members already, the most there can be",
                   LIMIT_NODES);
    }
    if (!ask->force && !membership_keeps_quorum(membership, ask->node_id, 0, &count)) {
        return say_no_quorum(&count);
    }
    return begin(membership, ask, MEMBER_ADD);
}

static bool is_last_voter(const struct membership *membership, const struct conf_member *server)
{
    struct voter_count count;

    (void)membership_keeps_quorum(membership, 0, server->id, &count);
    return server->role == ROLE_VOTER && count.voters == 0;
}

static struct member_answer ask_remove(struct membership *membership, const struct member_ask *ask)
{
    const struct conf_member *server = driver_member(membership->driver, ask->node_id);
    const struct member_change *change = under_way(membership);
    struct voter_count count;

    if (fsm_member_removed(membership->fsm, ask->node_id)) {
        return say(MEMBER_DONE, "node %llu is no member any more", ULL(ask->node_id));
    }
    if (change != NULL && change->node_id == ask->node_id && change->kind == MEMBER_REMOVE) {
        return say(MEMBER_PENDING, "node %llu is being removed", ULL(ask->node_id));
    }
    if (change != NULL && change->node_id != ask->node_id) {
        return say_in_progress(change);
    }
    if (server == NULL && change == NULL) {
        return say(MEMBER_UNKNOWN, "no member has the id %llu", ULL(ask->node_id));
    }
    if (was_given_up(membership, ask, MEMBER_REMOVE)) {
        return say(MEMBER_GIVEN_UP,
                   "node %llu could not be removed in time: are too few of the other voters "
                   "reachable? GET /api/cluster tells",
                   ULL(ask->node_id));
    }
    if (server != NULL && is_last_voter(membership, server)) {
        return say(MEMBER_LAST_VOTER, "node %llu is the last voter", ULL(ask->node_id));
    }
    if (server != NULL && server->role == ROLE_VOTER && !ask->force &&
        !membership_keeps_quorum(membership, 0, ask->node_id, &count)) {
        return say_no_quorum(&count);
    }
    return begin(membership, ask, MEMBER_REMOVE);
}

static struct member_answer ask_lead(struct membership *membership, const struct member_ask *ask)
{
    const struct conf_member *server = driver_member(membership->driver, ask->node_id);
    const struct member_change *change = under_way(membership);
    uint64_t last = driver_last_index(membership->driver);
    uint64_t match = 0;

    if (server == NULL) {
        return say(MEMBER_UNKNOWN, "no member has the id %llu", ULL(ask->node_id));
    }
    if (server->role != ROLE_VOTER) {
        return say(MEMBER_NOT_VOTER, "node %llu is a standby and cannot lead", ULL(ask->node_id));
    }
    if (change != NULL && change->node_id == ask->node_id && change->kind == MEMBER_REMOVE) {
        return say_in_progress(change);
    }
    if (ask->node_id == membership->driver->config.node_id) {
        return say(MEMBER_DONE, "node %llu leads", ULL(ask->node_id));
    }
    if (!membership_reaches(membership, ask->node_id)) {
        return say(MEMBER_UNREACHABLE, "node %llu cannot be reached", ULL(ask->node_id));
    }
    if (!driver_match(membership->driver, ask->node_id, &match) || match + LAG_ENTRIES < last) {
        return say(MEMBER_NOT_CAUGHT_UP,
                   "node %llu has the log up to entry %llu only, and the last is %llu",
                   ULL(ask->node_id), ULL(match), ULL(last));
    }
    membership_transfer(membership, ask->node_id);
    return say(MEMBER_PENDING, "leadership is being handed to node %llu", ULL(ask->node_id));
}

int membership_ask(struct membership *membership, const void *data, size_t len, struct buf *reply)
{
    struct member_answer answer;
    struct member_ask ask;
    int rv = member_ask_decode(data, len, &ask);

    if (rv != 0) {
        return rv;
    }
    if (ask.stamp.node_id == 0) {
        return ERR_BAD_MESSAGE;
    }
    if (fsm_session_is_over(membership->fsm, &ask.stamp)) {
        return ERR_STALE; /* a late copy: whoever asked has another answer, or has given up */
    }
    switch (ask.kind) {
    case MEMBER_ASK_ADD:
        answer = ask_add(membership, &ask);
        break;
    case MEMBER_ASK_REMOVE:
        answer = ask_remove(membership, &ask);
        break;
    case MEMBER_ASK_LEAD:
        answer = ask_lead(membership, &ask);
        break;
    default:
        UNREACHABLE("kind of a wish");
    }
    member_answer_encode(&answer, reply);
    return 0;
}
