/*
 * trust.h - may what a peer says be true? Numbers that cannot be, and two leaders of one term.
 *
 * The happy path: every message passes trust_message() before the consensus core, or the disk, or
 * anybody's memory gets anything of it.
 *
 * Failure modes: a number that cannot be (plausible.h), or a second leader of a term: somebody
 * lies. The answer is false, the message is to be refused, which closes the link, and the alarm is
 * raised: a line of level error, at most one in a second, and a count
 * (leafd_peer_implausible_total). It does not happen among honest nodes whose disks kept what they
 * were given.
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_CORE_TRUST_H
#define LEAFD_RAFT_CORE_TRUST_H

#include "raft/core/plausible.h"
#include "src/base/clock.h"

struct raft_message;

/* What this node has itself. */
struct trust_own {
    uint64_t term;
    uint64_t last; /* index of its last entry */
};

/* What peers said and was not believed. */
struct trust_alarm {
    uint64_t count;
    uint64_t unlogged; /* since the last line about it */
    uint64_t logged_ms;
    bool logged;
};

/* Who led the newest term in which this node heard a leader, or led. Of one term there is one. */
struct trust_led {
    uint64_t term; /* 0: none since the start */
    uint64_t id;
};

struct trust {
    const struct clock *clock;
    struct plausible plausible;
    struct trust_alarm alarm;
    struct trust_led led;
};

void trust_init(struct trust *trust, const struct clock *clock);

/* May a message be true? False: nothing of it must be used. */
bool trust_message(struct trust *trust, const struct trust_own *own, uint64_t from,
                   const struct raft_message *message);

/* A term, or an index, that the peer names; field is what the log line calls it. */
bool trust_term(struct trust *trust, const struct trust_own *own, uint64_t from, const char *field,
                uint64_t term);
bool trust_index(struct trust *trust, const struct trust_own *own, uint64_t from, const char *field,
                 uint64_t index);

/* Raise the alarm: a field that a peer said is not believed, beside what it may be (bound). */
void trust_alarm(struct trust *trust, const struct trust_own *own, uint64_t from, const char *field,
                 uint64_t value, uint64_t bound);

/* Somebody leads a term, as far as this node can know. */
void trust_note_leader(struct trust *trust, const struct trust_own *own, uint64_t id,
                       uint64_t term);

#endif
